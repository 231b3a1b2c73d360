# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal of transactions, kept on the node: what was changed, with the bytes from before.

    DIR/lock                         one transaction at a time
    DIR/journal/TIME-ID/meta.json    one transaction; beside it 0.before, 1.before, ...: bytes of the files it touched
    DIR/originals/PATH/meta.json     a file as it was before we first wrote it; beside it `content`
    DIR/stage-ID/                    copies that are being validated; gone when the transaction ends

All of these are root's alone (0700, 0600): files may hold credentials. DIR itself may be entered: a status file lies there.
Node side: standard library only, Python 3.6.
"""

import base64
import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
import time
import urllib.parse
from typing import NamedTuple

from ansible_collections.gpufleet.nvidia.plugins.module_utils import nodefs

SCHEMA = 1
MAX_FILE = 64 * nodefs.MIB
KEPT_ENTRIES = 30
UNFINISHED = ("prepared", "swapped")

# A file as it is or is to be. mtime is in nanoseconds; xattrs is {name: bytes}, SELinux label and ACL among them.
Snapshot = NamedTuple("Snapshot", [("data", bytes), ("mode", int), ("uid", int), ("gid", int), ("mtime", int), ("xattrs", dict)])


def snapshot(root, real):
    """The regular file at a resolved host path, or None when there is nothing."""
    found = nodefs.lstat(root, real)
    if found is None:
        return None
    data = nodefs.read_regular(root, real, MAX_FILE)
    return Snapshot(data, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_mtime_ns, _xattrs(nodefs.full(root, real)))


def digest(state):
    """sha256 of a snapshot, None of an absent file."""
    return None if state is None else nodefs.sha256(state.data)


def _xattrs(path):
    try:
        return {name: os.getxattr(path, name, follow_symlinks=False) for name in os.listxattr(path, follow_symlinks=False)}
    except OSError:  # a file system without them
        return {}


def properties(state):
    """A snapshot without its bytes, as JSON."""
    if state is None:
        return {"existed": False, "sha256_before": None}
    return {
        "existed": True,
        "sha256_before": digest(state),
        "mode": state.mode,
        "uid": state.uid,
        "gid": state.gid,
        "mtime_ns": state.mtime,
        "selinux": state.xattrs.get("security.selinux", b"").rstrip(b"\0").decode("ascii", "replace") or None,
        "xattrs": {name: base64.b64encode(value).decode("ascii") for name, value in state.xattrs.items()},
    }


def from_properties(meta, data):
    if not meta["existed"]:
        return None
    xattrs = {name: base64.b64decode(value) for name, value in (meta.get("xattrs") or {}).items()}
    return Snapshot(data, meta["mode"], meta["uid"], meta["gid"], meta["mtime_ns"], xattrs)


# --- durable files ----------------------------------------------------------------------------------------------------


def fsync_dir(path):
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_durably(path, data):
    """Write a file of ours, private, so that after a power loss it is there whole or not at all."""
    spare = path + ".new"
    fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.rename(spare, path)
    fsync_dir(os.path.dirname(path))


def _write_json(path, value):
    write_durably(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode("utf-8"))


def _read_json(path):
    with open(path, encoding="utf-8") as stream:
        return json.load(stream)


# --- the journal's place, and one transaction at a time ---------------------------------------------------------------


def place(root, directory):
    """The journal's directory for this process."""
    return nodefs.full(root, nodefs.resolve(root, directory)[0])


@contextlib.contextmanager
def locked(base, who, keep):
    """Hold the lock. With keep=False (check mode) a directory that was not there before is not there afterwards."""
    made = _make_dirs(base, 0o755)
    for directory in made:
        os.chmod(directory, 0o755)  # whatever the umask: the status file in it is for everybody, all else is private by itself
    found = os.lstat(base)
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise nodefs.NodeError("denied", "%s: the journal must belong to us, and nobody else may write to it" % base)
    path = os.path.join(base, "lock")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            if exc.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            holder = os.read(fd, 4096).decode("utf-8", "replace").strip()
            raise nodefs.NodeError("locked", "another transaction is at work on this host: %s" % (holder or "it gave no name"))
        os.ftruncate(fd, 0)
        os.write(fd, ("process %d, since %s, %s\n" % (os.getpid(), _now(), who)).encode("utf-8"))
        try:
            yield
        finally:
            os.ftruncate(fd, 0)
            if made and not keep:
                shutil.rmtree(base, ignore_errors=True)
                for directory in reversed(made[:-1]):
                    os.rmdir(directory)
    finally:
        os.close(fd)


def _make_dirs(path, mode=0o700):
    """Make the directories that are missing, each with this mode (os.makedirs gives it to the last one only): those made."""
    made = []
    while not os.path.isdir(path):
        made.insert(0, path)
        path = os.path.dirname(path)
    for directory in made:
        os.mkdir(directory, mode)
    return made


def _now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


# --- one transaction's entry ------------------------------------------------------------------------------------------


def begin(base, request, changes):
    """Write the entry of a transaction that is about to change files: its path. From here on it can be undone.

    changes: [(host path, resolved path, Snapshot before, Snapshot after, directories to be made)].
    """
    entry = os.path.join(base, "journal", "%s-%s" % (time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), request["id"]))
    _make_dirs(entry)
    records = []
    for number, (path, real, before, after, made_dirs) in enumerate(changes):
        record = dict(properties(before), path=path, real=real, sha256_after=digest(after), made_dirs=made_dirs, backup=None)
        if before is not None:
            record["backup"] = "%d.before" % number
            write_durably(os.path.join(entry, record["backup"]), before.data)
        records.append(record)
    meta = {"schema": SCHEMA, "id": request["id"], "time": _now(), "reason": request.get("reason", ""), "changes": records}
    _write_json(os.path.join(entry, "meta.json"), dict(meta, state="prepared"))
    fsync_dir(os.path.dirname(entry))
    fsync_dir(base)
    return entry


def mark(entry, state, **more):
    meta = _read_json(os.path.join(entry, "meta.json"))
    _write_json(os.path.join(entry, "meta.json"), dict(meta, state=state, **more))


def entries(base):
    """Every entry's meta, oldest first; one that cannot be read is named with the state "unreadable"."""
    found, directory = [], os.path.join(base, "journal")
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
        try:
            meta = _read_json(os.path.join(directory, name, "meta.json"))
        except (OSError, ValueError):
            meta = {"id": name, "state": "unreadable"}
        found.append(dict(meta, entry=os.path.join(directory, name)))
    return found


def prune(base):
    """Keep the newest entries; never drop one that is unfinished."""
    done = [meta for meta in entries(base) if meta["state"] not in UNFINISHED]
    for meta in done[:-KEPT_ENTRIES]:
        shutil.rmtree(meta["entry"], ignore_errors=True)


# --- originals: each file as it was before we first wrote it ----------------------------------------------------------


def _original_dir(base, path):
    name = urllib.parse.quote(path, safe="")
    if len(name) > 200:
        name = name[:120] + "-" + nodefs.sha256(path.encode("utf-8"))
    return os.path.join(base, "originals", name)


def original(base, path):
    """(meta, Snapshot or None) of the kept original, or None when we keep none of this path."""
    directory = _original_dir(base, path)
    try:
        meta = _read_json(os.path.join(directory, "meta.json"))
    except (OSError, ValueError):
        return None
    data = b""
    if meta["existed"]:
        with open(os.path.join(directory, "content"), "rb") as stream:
            data = stream.read()
    return meta, from_properties(meta, data)


def keep_original(base, path, before, made_dirs, transaction):
    """Keep the file as it is now, if we keep none of it yet: True when this call did it."""
    if original(base, path) is not None:
        return False
    directory = _original_dir(base, path)
    _make_dirs(directory)
    if before is not None:
        write_durably(os.path.join(directory, "content"), before.data)
    meta = dict(properties(before), schema=SCHEMA, path=path, made_dirs=made_dirs, id=transaction, time=_now(), sha256_after=None)
    _write_json(os.path.join(directory, "meta.json"), meta)
    fsync_dir(os.path.dirname(directory))
    return True


def settle_original(base, path, after, forget=False):
    """After a commit: remember what we wrote, or drop the original where the file is as it was (or the caller says so)."""
    kept = original(base, path)
    if kept is None:
        return
    if forget or kept[0]["sha256_before"] == digest(after):
        drop_original(base, path)
    else:
        _write_json(os.path.join(_original_dir(base, path), "meta.json"), dict(kept[0], sha256_after=digest(after)))


def drop_original(base, path):
    shutil.rmtree(_original_dir(base, path), ignore_errors=True)


def look(root, directory, cap=nodefs.MIB, patterns=()):
    """The answer to an `originals` question."""
    base, originals = place(root, directory), {}
    kept = os.path.join(base, "originals")
    for name in sorted(os.listdir(kept)) if os.path.isdir(kept) else []:
        try:
            meta = _read_json(os.path.join(kept, name, "meta.json"))
            found = original(base, meta["path"])
        except (OSError, ValueError, KeyError):  # half written when its transaction was killed: then it wrote nothing else either
            continue
        shown = {key: value for key, value in meta.items() if key not in ("xattrs", "path")}
        shown["content"] = None
        if found and found[1] is not None and len(found[1].data) <= cap:
            shown.update(nodefs.encode_content(found[1].data, patterns))
        originals[meta["path"]] = shown
    unfinished = [
        {key: meta.get(key) for key in ("id", "time", "reason", "state", "entry")} for meta in entries(base) if meta["state"] in UNFINISHED
    ]
    return {"originals": originals, "unfinished": unfinished, "pending": []}
