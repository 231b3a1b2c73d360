# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove folders that another account may have filled, however deep it has nested them.

Host side: standard library only, Python 3.6.
"""

import errno
import os

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SPOT = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_FOLDERS = 10000  # that are nested
_MOST_NAMES = 1 << 18  # that one call removes; apt makes a few
_OPENED = "/proc/self/fd/%d"


def remove_deep_tree(path):
    """Remove a file or a folder, however deep: the account that it belongs to may nest folders.
    Raise OSError for what stays, and after very many names: a program of the account may make more
    of them in folders that are not ours yet. The next call continues.

    No link is followed. Each folder is moved up before it is emptied, so that nothing recurs. Each
    is made ours before it is read: a program of the account that is inside can make nothing more
    there. However many names a folder has, few of them are in memory at a time.
    """
    try:
        above = os.open(os.path.dirname(path), _SPOT | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        if _remove_file(os.path.basename(path), above):
            return
        top = _open_as_own(os.path.basename(path), above)
    except FileNotFoundError:
        return
    finally:
        os.close(above)
    # begins the names of folders that are moved up, which no one else could have taken before
    mark = os.urandom(16).hex()
    left = iter(range(_MOST_NAMES))
    try:
        for name in _take_names(top):
            if not _remove_file(name, top):
                _empty_folder(name, top, mark, left)
            _count_name(left, path)
    finally:
        os.close(top)
    os.rmdir(path)


def open_on_same_mount(name, above, flags):
    """Return a descriptor of what lies in a folder, on the mount of that folder. Raise OSError for
    a link, and for a mount of its own.

    An account may mount a file system of its own (FUSE) in its folders, and never answer what root
    asks it. It is not asked anything here, not even which kind of file it has.
    """
    spot = os.open(name, _SPOT, dir_fd=above)
    try:
        if _read_mount(spot) != _read_mount(above):
            raise OSError(errno.EXDEV, "something is mounted there", name)
        return os.open(_OPENED % spot, flags & ~os.O_NOFOLLOW)
    finally:
        os.close(spot)


def _read_mount(descriptor):
    """Return the number of the mount that a descriptor is on (proc_pid_fdinfo(5)); '' if the kernel
    does not tell.
    """
    with open("/proc/self/fdinfo/%d" % descriptor, encoding="ascii") as lines:
        return next((line for line in lines if line.startswith("mnt_id:")), "")


def _open_as_own(name, above):
    """Return a descriptor of a folder that no other account may write to any more."""
    folder = open_on_same_mount(name, above, _FOLDER)
    try:
        os.fchown(folder, os.geteuid(), os.getegid())
        os.fchmod(folder, 0o700)
    except OSError:
        os.close(folder)
        raise
    return folder


def _take_names(folder):
    """Yield the names in a folder, until it has none. The caller removes each before it takes the
    next one. The kernel hands out few of them at a time, and a file system may pass over some while
    others are removed.
    """
    more = True
    while more:
        more = False
        # Python 3.6 lists no descriptor
        with os.scandir(_OPENED % folder) as entries:
            for entry in entries:
                more = True
                yield entry.name


def _remove_file(name, folder):
    """Remove a file, and tell whether it was one. Mounts are not looked for."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        return False
    return True


def _count_name(left, place):
    """Count a name that is removed or moved. Raise OSError if that was the last one."""
    if next(left, None) is None:
        raise OSError(errno.ENOTEMPTY, "very many names were removed, and there are more", place)


def _empty_folder(name, top, mark, left):
    """Remove a folder of `top`, and move those in it up to `top`. Raise OSError for one that is
    nested too deep: a program of the account may go on nesting.

    mark: begins the names of folders that were moved up, and their level follows it. left: the names
    that may still be removed.
    """
    level = int(name[len(mark) :].partition(".")[0]) if name.startswith(mark) else 0
    if level >= _MOST_FOLDERS:
        raise OSError(errno.ENOTEMPTY, "folders are nested too deep", name)
    inner = _open_as_own(name, top)
    try:
        for entry in _take_names(inner):
            _count_name(left, name)
            if not _remove_file(entry, inner):
                moved = "%s%d.%s" % (mark, level + 1, os.urandom(16).hex())
                os.rename(entry, moved, src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)
