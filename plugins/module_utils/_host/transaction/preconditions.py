# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which files are changed and which are refused, one rule each.

This is done before anything is touched, and in check mode as well. A file is changed by a rename
over it. So these are refused: what a rename cannot change (immutable files, mounts, read-only file
systems), and what it would quietly tear apart (hard links). So are files that an image replaces
later, and what other accounts could move during the change (directories and files that they may
write to). Symbolic links are followed and stay. Host side: standard library only, Python 3.6.
"""

import errno
import fcntl
import os
import re
import stat
import struct

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, trust

_GETFLAGS = 0x80006601 | struct.calcsize("l") << 16  # FS_IOC_GETFLAGS: _IOR('f', 1, long)
_IMMUTABLE, _APPEND = 0x10, 0x20
# a file system without such attributes
_NO_FLAGS = (
    errno.ENOTTY,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EINVAL,
)
_IMAGE_BASED = "/run/ostree-booted"


def require_changeable(root, path, real, links, linked=False, groups=()):
    """Raise HostError, with the next step, if the file at a resolved host path must not be changed.

    linked: whether its other names may keep the old content, as they do when a file goes. groups:
    as in trust.judge_path.
    """
    for spot in links + [real]:
        _require_guarded(root, path, spot, groups)
    directory = os.path.dirname((list_missing_dirs(root, real) or [real])[0])
    here = host_files.get_full_path(root, directory)
    if not os.access(here, os.W_OK) and os.statvfs(here).f_flag & os.ST_RDONLY:
        _refuse(
            "%s: %s is on a read-only file system. Mount it writable and run again"
            % (real, directory)
        )
    if not root and real.startswith("/usr/") and os.path.exists(_IMAGE_BASED):
        _refuse(
            "%s: this is an image-based system, whose /usr is replaced by the next image. Bring the file with the image"
            % path
        )
    _require_changeable(here, directory)
    status = host_files.get_lstat(root, real)
    if status is None or not stat.S_ISREG(status.st_mode):
        return
    if status.st_mode & 0o002:
        _refuse(
            "%s: everybody may write to this file (mode %04o). Run chmod o-w on it first"
            % (path, stat.S_IMODE(status.st_mode))
        )
    if status.st_nlink > 1 and not linked:
        _refuse(
            "%s: has %d names (hard links), and the others would keep the old content. Replace it by a file of its own"
            % (path, status.st_nlink)
        )
    if is_mount_point(host_files.get_full_path(root, real)):
        _refuse(
            "%s: is a mount of its own (a bind mount, for example of a ConfigMap). Change it at its source"
            % path
        )
    _require_changeable(host_files.get_full_path(root, real), path)


def _refuse(message):
    raise host_files.HostError("failed", message, "Nothing was changed")


def _require_guarded(root, path, spot, groups):
    """Refuse a directory on the way in which another account could exchange what we are about to
    follow.
    """
    doubt = trust.judge_spot(root, spot, groups, whole=False)
    if doubt:
        _refuse(
            "%s: the directory %s %s, so it is not entered. %s"
            % (path, doubt.place, doubt.why, doubt.remedy)
        )


def _require_changeable(place, path):
    fd = None
    try:
        fd = os.open(
            place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
        )
        flags = struct.unpack("l", fcntl.ioctl(fd, _GETFLAGS, struct.pack("l", 0)))[0] & 0xFFFFFFFF
    except OSError as exc:
        if fd is not None and exc.errno in _NO_FLAGS:
            return
        raise host_files.build_os_error(exc, path)
    finally:
        if fd is not None:
            os.close(fd)
    if flags & (_IMMUTABLE | _APPEND):
        letter = "i" if flags & _IMMUTABLE else "a"
        _refuse(
            "%s: is protected from changes by an attribute. Run chattr -%s %s first if the change is intended"
            % (path, letter, path)
        )


def list_missing_dirs(root, real):
    """List the directories above a resolved host path that do not exist yet, outermost first."""
    missing, directory = [], os.path.dirname(real)
    while host_files.get_lstat(root, directory) is None:
        missing.insert(0, directory)
        directory = os.path.dirname(directory)
    return missing


def is_mount_point(path):
    """Tell whether something is mounted right there.

    A bind mount has the same device number, but a file still cannot be renamed over it. Raise
    HostError if that is not known. Where /proc is not mounted (an image that is being built), the
    rename itself is refused.
    """
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            points = {
                re.sub(r"\\([0-7]{3})", lambda code: chr(int(code.group(1), 8)), line.split(" ")[4])
                for line in lines
            }
    except FileNotFoundError:
        return False
    except OSError as exc:
        raise host_files.build_os_error(exc, "/proc/self/mountinfo")
    return os.path.realpath(path) in points
