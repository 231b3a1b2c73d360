# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put files in place, each old or new and never half, durably; and take them back.

New bytes are written beside the directory, never in it: some engines load every file of their drop-in directory, temporary
ones included. Node side: standard library only, Python 3.6.
"""

import contextlib
import errno
import os
import shutil

from ansible_collections.gpufleet.nvidia.plugins.module_utils import commands, journal, nodefs

_SELINUX = "security.selinux"
_NO_XATTRS = (errno.EOPNOTSUPP, errno.EPERM, errno.EINVAL)


def apply(root, changes, token, done):
    """Put every change in place; `done` gets each as soon as it may have touched the host, also when the next one fails."""
    with contextlib.ExitStack() as spares:
        prepared = []
        for change in changes:
            spare = None
            if change.after is not None:
                done.append(change)  # from here on there may be directories of ours
                make_dirs(root, change.made_dirs)
                spare = spares.enter_context(_spare_dir(root, change.real, token)) + "/new"
                after = change.after if change.before is not None else _labelled(root, change.real, change.after)
                _write_spare(spare, after, keep_time=change.op == "restore")
            prepared.append((change, spare))
        for change, spare in prepared:
            if change not in done:
                done.append(change)
            _settle(root, change.real, spare)
            if change.after is None:
                remove_dirs(root, change.made_dirs)


def take_back(root, changes, token):
    """Undo: bytes, mode, owner, labels, time and absence as they were before; directories that were made are gone again."""
    for change in reversed(changes):
        if change.before is None:
            if nodefs.lstat(root, change.real) is not None:
                _settle(root, change.real, None)
            remove_dirs(root, change.made_dirs)
            continue
        make_dirs(root, nodefs.missing_dirs(root, change.real))
        with _spare_dir(root, change.real, token) as directory:
            _write_spare(directory + "/old", change.before, keep_time=True)
            _settle(root, change.real, directory + "/old")


def make_dirs(root, paths):
    for path in paths:
        with contextlib.suppress(FileExistsError):
            os.mkdir(nodefs.full(root, path), 0o755)
            os.chmod(nodefs.full(root, path), 0o755)  # whatever the umask
        journal.fsync_dir(os.path.dirname(nodefs.full(root, path)))


def remove_dirs(root, paths):
    """Directories that we made go again, unless somebody else put something there."""
    for path in reversed(paths):
        with contextlib.suppress(OSError):
            os.rmdir(nodefs.full(root, path))
            journal.fsync_dir(os.path.dirname(nodefs.full(root, path)))


@contextlib.contextmanager
def _spare_dir(root, real, token):
    """A private directory on the same file system, beside the file's directory where that is possible."""
    parent = os.path.dirname(nodefs.full(root, real))
    beside = os.path.dirname(parent)
    # Not above the root, and not across a mount: a rename works within one file system only.
    inside = parent != (root or "/") and os.stat(beside).st_dev == os.stat(parent).st_dev and not _bound(parent)
    directory = os.path.join(beside if inside else parent, ".gpufleet-%s-%s" % (token, nodefs.sha256(real.encode("utf-8"))[:8]))
    os.mkdir(directory, 0o700)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _bound(path):
    """Whether something is mounted right there; a bind mount has the same device number and is no place to rename to all the same."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            return any(line.split(" ")[4] == os.path.realpath(path) for line in lines)
    except OSError:
        return False


def _write_spare(path, state, keep_time):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as stream:
        stream.write(state.data)
        stream.flush()
        os.fchown(stream.fileno(), state.uid, state.gid)
        for name, value in sorted(state.xattrs.items()):
            _set_xattr(stream.fileno(), name, value)
        os.fchmod(stream.fileno(), state.mode)  # last: a change of owner clears the set-id bits, an ACL sets the group's
        if keep_time:
            os.utime(stream.fileno(), ns=(state.mtime, state.mtime))
        os.fsync(stream.fileno())


def _set_xattr(fd, name, value):
    try:
        os.setxattr(fd, name, value)
    except OSError as exc:
        # Labels that the kernel sets by itself, or that this file system has not, must not stop the rest.
        if exc.errno not in _NO_XATTRS:
            raise


def _settle(root, real, spare):
    """The moment of change: one rename or one unlink, made durable."""
    path = nodefs.full(root, real)
    try:
        if spare is None:
            os.unlink(path)
        else:
            os.rename(spare, path)
    except OSError as exc:
        raise nodefs.from_os_error(exc, real)
    journal.fsync_dir(os.path.dirname(path))


def _labelled(root, real, state):
    """A new file gets the label that the policy has for its place; else it would keep that of the place it was written in."""
    if root or not os.path.isdir("/sys/fs/selinux") or nodefs.selinux_label("/etc") is None:
        return state
    label = None
    with contextlib.suppress(nodefs.NodeError):
        answer = commands.text(commands.run(["matchpathcon", "-n", real], timeout=10))
        label = answer["stdout"].strip() if answer["rc"] == 0 else None
    label = label or nodefs.selinux_label(os.path.dirname(real))
    return state._replace(xattrs=dict(state.xattrs, **{_SELINUX: label.encode("ascii") + b"\0"})) if label else state
