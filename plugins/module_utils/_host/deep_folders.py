# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove folders that another account may have filled, however deep it has nested them.

Host side: standard library only, Python 3.6.
"""

import os
import stat

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_FOLDERS = 10000  # that are nested


def remove_deep_tree(path):
    """Remove a file or a folder, however deep: the account that it belongs to may nest folders.
    Raise OSError for what stays.

    No link is followed. Each folder is moved up before it is emptied, so that nothing recurs. Each
    is made ours before it is read: a program of the account that is inside can make nothing more
    there.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(path)
        return
    top = _open_as_own(path)
    try:
        for _level in range(_MOST_FOLDERS):
            folders = [name for name in os.listdir(top) if not _remove_file(name, top)]
            if not folders:
                break
            for name in folders:
                _empty_folder(name, top)
    finally:
        os.close(top)
    os.rmdir(path)


def _open_as_own(name, above=None):
    """Return a descriptor of a folder that no other account may write to any more."""
    folder = os.open(name, _FOLDER, dir_fd=above)
    try:
        os.fchown(folder, os.geteuid(), os.getegid())
        os.fchmod(folder, 0o700)
    except OSError:
        os.close(folder)
        raise
    return folder


def _remove_file(name, folder):
    """Remove a file, and tell whether it was one."""
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return False
    os.unlink(name, dir_fd=folder)
    return True


def _empty_folder(name, top):
    """Remove a folder of `top`, and move those in it up to `top`."""
    inner = _open_as_own(name, top)
    try:
        for entry in os.listdir(inner):
            if not _remove_file(entry, inner):
                # a name that nobody else could have taken before
                os.rename(entry, os.urandom(16).hex(), src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)
