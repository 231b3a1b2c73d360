# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put files in place, each old or new and never half, durably; and take them back.

New bytes are written beside the directory, never in it: some engines load every file of their
drop-in directory, temporary ones included. The old file gets a second name there, so taking it back
is one rename, which needs no room on a full disk. Host side: standard library only, Python 3.6.
"""

import contextlib
import errno
import os
import shutil

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
    journal,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    journal_writer,
    preconditions,
)

_SELINUX = "security.selinux"
_NO_RULE = "<<none>>"  # matchpathcon's word for a place that the policy leaves alone
_NO_XATTRS = (errno.EOPNOTSUPP, errno.EPERM, errno.EINVAL)


def stage_renames(root, changes, token):
    """Make everything ready to be renamed. Nothing that any program reads is touched."""
    for change in changes:
        with _name_file(change.real):
            _stage_rename(root, change, token)


def _stage_rename(root, change, token):
    directory, beside = find_swap_spot(root, change.real, change.made_dirs, token)
    if not beside:
        return
    os.mkdir(directory, 0o700)
    if change.after is not None:
        _write_new(root, change, directory)
    if change.before is not None:
        # a file system without hard links: the journal has the bytes as well
        with contextlib.suppress(OSError):
            os.link(
                host_files.get_full_path(root, change.real),
                directory + "/old",
                follow_symlinks=False,
            )
    journal_writer.sync_directory(directory)


def apply(root, changes, token):
    """Put every change in place."""
    for change in changes:
        with _name_file(change.real):
            _apply_change(root, change, token)


def _apply_change(root, change, token):
    directory, beside = find_swap_spot(root, change.real, change.made_dirs, token)
    if change.after is None:
        _settle(root, change.real, None)
        remove_dirs(root, change.made_dirs)
        return
    make_swap_dirs(root, change.made_dirs)
    if not beside:  # in the very directory, so no longer than it must be
        os.mkdir(directory, 0o700)
        _write_new(root, change, directory)
    _settle(root, change.real, directory + "/new")
    if not beside:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        _notify_watchers(root, change.real, token)


@contextlib.contextmanager
def _name_file(real):
    """Name the file of the host in an error of the steps for it.

    A write and a sync name no file, and a name next to it is gone when a person looks.
    """
    try:
        yield
    except OSError as exc:
        raise host_files.build_os_error(exc, real)


def _write_new(root, change, directory):
    after = (
        change.after if change.before is not None else _label_file(root, change.real, change.after)
    )
    _write_spare(directory + "/new", after, keep_time=change.op == "restore")


def take_back_files(root, records, token, entry):
    """Undo by the journal's records. Return (the paths of files that another program has written
    since, the first error as a HostError, None if there was none).

    Those files are left, and a file that already is as before stays. An error for one file does not
    keep the others from coming back.
    """
    foreign, errors = [], []
    for record in reversed(records):
        try:
            if not _take_one_back(root, record, token, entry):
                foreign.append(record["path"])
        except host_files.HostError as exc:
            errors.append(exc)
        except OSError as exc:
            errors.append(host_files.build_os_error(exc, record["path"]))
    return foreign, errors[0] if errors else None


def _take_one_back(root, record, token, entry):
    """Take one file back.

    Tell whether it is as before now; it is not if another program has written to it since.
    """
    present = journal.take_snapshot(root, record["real"])
    if _is_before(record, present):
        if not record["existed"]:
            _remove_made_dirs(root, record, token)
    elif journal.digest_snapshot(present) != record["sha256_after"]:
        return False
    elif not record["existed"]:
        _settle(root, record["real"], None)
        _remove_made_dirs(root, record, token)
    else:
        make_swap_dirs(root, preconditions.list_missing_dirs(root, record["real"]))
        _settle(root, record["real"], _prepare_old(root, record, token, entry))
        _notify_watchers(root, record["real"], token)
    return True


def _remove_made_dirs(root, record, token):
    """Remove the directories that came with a file.

    A kill in the middle of an announcement may have left a directory in the last of them; it goes
    as well.
    """
    if record["made_dirs"]:
        with contextlib.suppress(OSError):
            os.rmdir(_list_spots(root, record["real"], (), token)[1])
    remove_dirs(root, record["made_dirs"])


def _is_before(record, present):
    if present is None or not record["existed"]:
        return present is None and not record["existed"]
    wanted = (record["sha256_before"], record["mode"], record["uid"], record["gid"])
    return wanted == (journal.digest_snapshot(present), present.mode, present.uid, present.gid)


def _prepare_old(root, record, token, entry):
    """Return a file with the state from before, ready to be renamed.

    It is the very file if that still has its second name, else one that is written again. Raise
    HostError if the kept bytes are damaged.
    """
    directory = find_swap_spot(root, record["real"], record["made_dirs"], token)[0]
    with contextlib.suppress(OSError, host_files.HostError):
        path = directory + "/old"
        if _is_before(record, journal.take_snapshot("", path)):
            return path
    kept = os.path.join(entry, record["backup"])
    before = journal.restore_snapshot(
        record, journal.read_kept(kept, record["sha256_before"], entry, record["path"])
    )
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    again = directory + "/again"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(again)
    _write_spare(again, before, keep_time=True)
    return again


def remove_leftovers(root, records, token):
    """Remove what this collection has left next to the files."""
    for record in records:
        for directory in _list_spots(root, record["real"], record["made_dirs"], token):
            if os.path.lexists(directory):
                shutil.rmtree(directory, ignore_errors=True)
                journal_writer.sync_directory(os.path.dirname(directory))


def make_swap_dirs(root, paths):
    """Make the missing directories of new files, with mode 0755 and their label."""
    for path in paths:
        with contextlib.suppress(FileExistsError):
            os.mkdir(host_files.get_full_path(root, path), 0o755)
            os.chmod(host_files.get_full_path(root, path), 0o755)  # whatever the umask
            _label_directory(root, path)
        journal_writer.sync_directory(os.path.dirname(host_files.get_full_path(root, path)))


def _label_directory(root, path):
    """Give a directory its label, as a new file gets one: the kernel gives it that of the directory
    that it is made in.
    """
    label = _label(root, path, "dir") if _has_labels(root) else None
    if label:
        _set_xattr(host_files.get_full_path(root, path), _SELINUX, label.encode("ascii") + b"\0")


def remove_dirs(root, paths):
    """Remove directories that we made, unless another program has put something there."""
    for path in reversed(paths):
        with contextlib.suppress(OSError):
            os.rmdir(host_files.get_full_path(root, path))
            journal_writer.sync_directory(os.path.dirname(host_files.get_full_path(root, path)))


def find_swap_spot(root, real, made_dirs, token):
    """Return (a directory for us on the file's file system, whether it is beside the file's
    directory and not within).
    """
    beside, within = _list_spots(root, real, made_dirs, token)
    if made_dirs:
        return beside, True
    parent = os.path.dirname(host_files.get_full_path(root, real))
    # Not above the root, and not across a mount: a rename works within one file system only.
    fits = (
        parent != (root or "/")
        and os.path.isdir(parent)
        and os.stat(os.path.dirname(parent)).st_dev == os.stat(parent).st_dev
    )
    return (beside, True) if fits and not preconditions.is_mount_point(parent) else (within, False)


def _list_spots(root, real, made_dirs, token):
    name = ".gpufleet-%s-%s" % (
        token,
        host_files.digest_bytes(host_files.encode_host_path(real))[:8],
    )
    parent = os.path.dirname(host_files.get_full_path(root, real))
    beside = (
        os.path.dirname(host_files.get_full_path(root, made_dirs[0]))
        if made_dirs
        else os.path.dirname(parent)
    )
    return os.path.join(beside, name), os.path.join(parent, name)


def _write_spare(path, state, keep_time):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as stream:
        stream.write(state.data)
        stream.flush()
        os.fchown(stream.fileno(), state.uid, state.gid)
        for name, value in sorted(state.xattrs.items()):
            _set_xattr(stream.fileno(), name, value)
        # last: a change of owner clears the set-id bits, an ACL sets the group's
        os.fchmod(stream.fileno(), state.mode)
        if keep_time:
            os.utime(stream.fileno(), ns=(state.mtime, state.mtime))
        os.fsync(stream.fileno())


def _set_xattr(fd, name, value):
    try:
        os.setxattr(fd, name, value)
    except OSError as exc:
        # Labels that the kernel sets by itself, or that this file system has not, must not stop the
        # rest.
        if exc.errno not in _NO_XATTRS:
            raise


def _settle(root, real, spare):
    """Make the change: one rename or one unlink, made durable."""
    path = host_files.get_full_path(root, real)
    try:
        if spare is None:
            os.unlink(path)
        else:
            os.rename(spare, path)
    except OSError as exc:
        raise host_files.build_os_error(exc, real)
    journal_writer.sync_directory(os.path.dirname(path))


def _notify_watchers(root, real, token):
    """Have programs that watch the file's directory read it again: a directory comes in it and
    goes.

    A library may watch only for what is renamed, removed or written there. A file that is moved in
    is none of these: fsnotify calls it Create, as it does a file that is still empty. A directory
    that has come with its file needs this, too: a program may have begun to watch it, and have read
    it, while it was empty. `remove_leftovers` removes what a kill leaves of it.
    """
    within = _list_spots(root, real, (), token)[1]
    with contextlib.suppress(OSError):  # the file is in place, even if a watcher does not notice
        os.mkdir(within, 0o700)
        os.rmdir(within)


def _label_file(root, real, state):
    """Give a new file the label that the policy has for its place.

    Without that, it would keep the label of the place it was written in.
    """
    if _SELINUX in state.xattrs or not _has_labels(root):
        return state
    label = _label(root, real, "file")
    return (
        state._replace(xattrs=dict(state.xattrs, **{_SELINUX: label.encode("ascii") + b"\0"}))
        if label
        else state
    )


def _has_labels(root):
    return (
        not root
        and os.path.isdir("/sys/fs/selinux")
        and host_files.read_selinux_label("/etc") is not None
    )


def _label(root, real, mode):
    """Return the policy's label for a new file or directory.

    Without one, it is the label of the directory that it comes into. mode: file, dir.
    """
    with contextlib.suppress(host_files.HostError):
        answer = commands.decode_answer(
            commands.run(["matchpathcon", "-n", "-m", mode, real], timeout=10)
        )
        label = answer["stdout"].strip()
        if answer["rc"] == 0 and label and label != _NO_RULE:
            return label
    directory = os.path.dirname(host_files.get_full_path(root, real))
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return host_files.read_selinux_label(directory)
