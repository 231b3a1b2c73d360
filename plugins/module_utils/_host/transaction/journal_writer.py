# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the journal, so that what is found can be understood, whatever instant is the last.

The rules: anything that can be undone is on disk before it is done. A state is overwritten in
place, in room that was taken beforehand, so a full disk cannot keep a transaction from noting that
it was taken back. Host side: standard library only, Python 3.6.
"""

import binascii
import collections
import contextlib
import errno
import fcntl
import json
import os
import shutil
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    host_files,
    journal,
    system,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import waiting

KEPT_ENTRIES = 30
KEPT_BYTES = 64 * host_files.MIB
KEPT_WORDS = 256 * 1024
PROBATION = "its probation"
PATIENCE = 30  # seconds that one waits for the end of another's probation
_PAUSE = 0.05


def describe_snapshot(state):
    """Return a snapshot without its bytes, in a form for JSON."""
    if state is None:
        return {"existed": False, "sha256_before": None}
    return {
        "existed": True,
        "sha256_before": journal.digest_snapshot(state),
        "mode": state.mode,
        "uid": state.uid,
        "gid": state.gid,
        "mtime_ns": state.mtime,
        "selinux": state.xattrs.get("security.selinux", b"")
        .rstrip(b"\0")
        .decode("ascii", "replace")
        or None,
        "xattrs": {
            name: binascii.b2a_base64(value, newline=False).decode("ascii")
            for name, value in state.xattrs.items()
        },
    }


def sync_directory(path):
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_durably(path, data, mode=0o600):
    """Write our file so that after a power loss it is there whole or not at all."""
    spare = path + ".new"
    # of a process that died: never written to, since it need not be as we would make it
    with contextlib.suppress(FileNotFoundError):
        os.unlink(spare)
    fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)  # whatever the umask
            os.fsync(stream.fileno())
        os.rename(spare, path)
    except OSError:  # of a full disk, for example
        with contextlib.suppress(OSError):
            os.unlink(spare)
        raise
    sync_directory(os.path.dirname(path))


def write_json(path, value):
    """Write a value as JSON, so that it outlives a power failure."""
    write_durably(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode("utf-8"))


def make_durable_dirs(path, mode=0o700):
    """Make the missing directories, durably, and return them.

    Each gets this mode (os.makedirs gives it to the last one only).
    """
    made = []
    while not os.path.isdir(path):
        made.insert(0, path)
        path = os.path.dirname(path)
    for directory in made:
        try:
            os.mkdir(directory, mode)
            os.chmod(directory, mode)  # whatever the umask
        except FileExistsError:  # another one made it in between, or it is something else
            if not os.path.isdir(directory):
                raise
        sync_directory(os.path.dirname(directory))
    return made


def remove_durably(path):
    """Remove a file, so that it stays removed after a power failure."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
        sync_directory(os.path.dirname(path))


# --- one transaction at a time
# ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def hold_transaction_lock(base, who, keep, wait=0, token="", root=""):
    """Hold the lock.

    It is the kernel's: it is free the instant its holder is dead, and a live holder cannot be
    robbed of it.

    root: that of another host, whose units are not started here. With keep=False (check mode), a
    directory that did not exist before does not exist afterwards. Raise HostError if the lock stays
    taken for `wait` seconds.
    """
    # the status file in it is for everyone, all else is private by itself
    made = make_durable_dirs(base, 0o755)
    journal.require_own(base)
    fd = _lock(os.path.join(base, "lock"), time.monotonic() + wait)
    try:
        holder = {
            "pid": os.getpid(),
            "start": system.get_process_start(os.getpid()),
            "epoch": time.time(),
            "who": who,
            "id": token,
        }
        os.ftruncate(fd, 0)
        os.pwrite(fd, (json.dumps(holder) + "\n").encode("utf-8"), 0)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, 0)
        if made and not keep:
            shutil.rmtree(base, ignore_errors=True)
            for directory in reversed(made[:-1]):
                os.rmdir(directory)
        os.close(fd)
        if not root:
            waiting.start_waiting_units(base)


def _lock(path, deadline):
    patience = time.monotonic() + PATIENCE
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(path) and os.fstat(fd).st_ino == os.stat(path).st_ino:
                return fd
            # The directory was cleared in between: no other process will see the lock that we hold.
            os.close(fd)
        except OSError as exc:
            holder = os.pread(fd, 4096, 0)
            os.close(fd)
            if exc.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            # A process that ends an earlier probation is soon done, and a user need not know of it.
            # A holder without a name has just taken the lock, or is about to release it, or is a
            # program that stays on the host: those share it, and write no name into it.
            soon = not _is_holder_alive(holder) or PROBATION.encode("ascii") in holder
            if time.monotonic() >= (max(deadline, patience) if soon else deadline):
                raise host_files.HostError(
                    "locked",
                    "locked by %s" % _read_holder(holder),
                    "Wait until it is done, then run again",
                )
            # The pause between two tries, until the deadline. flock(2) itself waits without end or
            # not at all, and an alarm that cuts it short is the whole process's, whose signals have
            # other meanings here.
            time.sleep(_PAUSE)


def _is_holder_alive(data):
    """Tell whether the process that the lock names still lives: a process that died has left its
    name.
    """
    try:
        held = json.loads(data.decode("utf-8"))
        return system.get_process_start(held["pid"]) == held["start"]
    except (ValueError, KeyError, TypeError):
        return False


def _read_holder(data):
    if not _is_holder_alive(data):
        return (
            "a program of this collection that stays on the host, or a process that has just begun"
        )
    try:
        held = json.loads(data.decode("utf-8"))
        return "process %d, for %d s: %s" % (
            held["pid"],
            max(time.time() - held["epoch"], 0),
            held["who"],
        )
    except (KeyError, TypeError):
        return "process %d" % held["pid"]


def find_lock_holder(base):
    """Return {"pid", "start", "id", ...} of the process that holds the lock or held it last; None
    if the lock is free.
    """
    try:
        return journal.read_json(os.path.join(base, "lock"))
    except (OSError, ValueError):
        return None


def format_journal_time():
    """Return the present time in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


# --- one transaction
# --------------------------------------------------------------------------------------------------


def begin_transaction(base, request, name=None, **more):
    """Open a transaction before it does anything, and return its name.

    The entry is built aside and renamed, so it is there whole or not at all.
    """
    name = name or journal.make_next_name(base, request["id"])
    make_durable_dirs(os.path.join(base, "open"))
    make_durable_dirs(os.path.join(base, "journal"))
    write_durably(os.path.join(base, "open", name), b"")
    aside = os.path.join(base, "journal", ".new-" + name)
    os.mkdir(aside, 0o700)
    write_durably(os.path.join(aside, "states"), b" " * (journal.SLOT * journal.SLOTS))
    meta = {"schema": journal.SCHEMA, "id": request["id"], "reason": request.get("reason", "")}
    meta.update(time=format_journal_time(), epoch=time.time())
    meta.update(
        changes=[],
        units=[],
        units_before={},
        disabled=[],
        health=[],
        boot=system.name_boot(),
        **more,
    )
    write_json(os.path.join(aside, "meta.json"), meta)
    mark_state(aside, "prepared", ran=0)
    os.rename(aside, os.path.join(base, "journal", name))
    sync_directory(os.path.join(base, "journal"))
    return name


def describe_changes(base, name, changes, **more):
    """Write what is about to change into the entry, with the bytes from before. changes:
    FileChange.
    """
    entry, records = os.path.join(base, "journal", name), []
    for number, change in enumerate(changes):
        kept = journal.read_original_meta(base, change.path)
        record = dict(
            describe_snapshot(change.before),
            path=change.path,
            real=change.real,
            sha256_after=journal.digest_snapshot(change.after),
            made_dirs=change.made_dirs,
            forget=change.forget,
            original=None if kept is None else {"sha256_after": kept["sha256_after"]},
            backup=None,
        )
        if change.before is not None:
            record["backup"] = "%d.before" % number
            write_durably(os.path.join(entry, record["backup"]), change.before.data)
        records.append(record)
    write_json(
        os.path.join(entry, "meta.json"),
        dict(journal.read_json(os.path.join(entry, "meta.json")), changes=records, **more),
    )


# The memory that a transaction at work has of its own entry: the arguments of begin_transaction()
# and describe_changes(), the changes, and the originals of their files from before it.
Memory = collections.namedtuple("Memory", ["opened", "changes", "described", "originals"])


def list_kept_originals(base, changes):
    """Return path -> (meta, bytes) of the originals that are already kept of these files."""
    originals = {}
    for change in changes:
        # damaged: then there is nothing to remember
        with contextlib.suppress(host_files.HostError, OSError):
            kept = journal.read_original(base, change.path)
            if kept is not None:
                originals[change.path] = (kept[0], kept[1].data if kept[1] is not None else None)
    return originals


def write_again(base, name, request, memory):
    """Write all that a transaction at work knows of itself once more, after the journal's directory
    was cleared.
    """
    make_durable_dirs(base, 0o755)
    shutil.rmtree(os.path.join(base, "journal", name), ignore_errors=True)
    begin_transaction(base, request, name, **memory.opened)
    for path, (meta, data) in sorted(memory.originals.items()):
        if not os.path.lexists(journal.get_original_directory(base, path)):
            _place_original(base, path, meta, data)
    if memory.described is not None:
        describe_changes(base, name, memory.changes, **memory.described)
        for change in memory.changes:
            keep_original(base, change, request["id"])


def mark_state(entry, state, **more):
    """Write the next state, durably, in room that is there already: the oldest slot."""
    passed = journal.list_entry_states(entry)
    number = passed[-1]["n"] + 1 if passed else 0
    value = dict(more, n=number, state=state, at=format_journal_time())
    text = json.dumps(value)
    while len(text) >= journal.SLOT and value.get("why"):
        value["why"] = value["why"][: len(value["why"]) // 2]
        text = json.dumps(value)
    fd = os.open(os.path.join(entry, "states"), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.pwrite(
            fd,
            text.ljust(journal.SLOT - 1).encode("ascii") + b"\n",
            (number % journal.SLOTS) * journal.SLOT,
        )
        os.fsync(fd)
    finally:
        os.close(fd)


def settle_transaction(base, name):
    """Note that this transaction needs no more attention."""
    remove_durably(os.path.join(base, "open", name))


def acknowledge_outcomes(base, ids):
    """Note that the outcome of these transactions was reported: they need no more attention.

    One that is not over keeps its mark.
    """
    for name in journal.list_transaction_names(base, "open"):
        if name.rpartition("-")[2] in ids and (journal.read_transaction(base, name) or {}).get(
            "closed"
        ):
            settle_transaction(base, name)


def remove_names_beside(root, base, paths):
    """Remove those names next to files that no transaction refers to, and return them.

    They are judged again: the look was earlier.
    """
    swept = []
    for path in paths:
        place = host_files.get_full_path(
            root,
            os.path.join(
                host_files.resolve_links(root, os.path.dirname(path))[0], os.path.basename(path)
            ),
        )
        if journal.is_stray(base, place):
            shutil.rmtree(place, ignore_errors=True)
            sync_directory(os.path.dirname(place))
            swept.append(path)
    return swept


def prune(base):
    """Keep the newest transactions, in number and in bytes; never drop one that is open.

    Names are in the order in which they began.
    """
    opened, kept, room = set(journal.list_transaction_names(base, "open")), KEPT_ENTRIES, KEPT_BYTES
    for name in reversed(journal.list_transaction_names(base)):
        entry = os.path.join(base, "journal", name)
        room -= sum(os.path.getsize(os.path.join(entry, part)) for part in os.listdir(entry))
        kept -= 1
        if (kept < 0 or room < 0) and name not in opened and kept < KEPT_ENTRIES - 1:
            shutil.rmtree(entry, ignore_errors=True)


def keep_words(base, token, text):
    """Keep the output of a program that refused or failed, for root to read. Return the path.

    The output may quote anything, so it goes no further.
    """
    place = os.path.join(base, "said")
    make_durable_dirs(place)
    path = os.path.join(place, token + ".txt")
    try:
        before = journal.read_bytes(path)
    except OSError:
        before = b""
    write_durably(path, (before + text.encode("utf-8", "replace"))[-KEPT_WORDS:])
    for old in list_older_files(path)[: 1 - KEPT_ENTRIES]:
        remove_durably(old)
    return path


def list_older_files(path):
    """List the other files beside the newest one, oldest first.

    The newest gets a time after all of theirs: a clock may have been set back.
    """
    place, times = os.path.dirname(path), {}
    for name in os.listdir(place):
        if not name.startswith(".") and name != os.path.basename(path):
            with contextlib.suppress(FileNotFoundError):
                times[os.path.join(place, name)] = os.stat(os.path.join(place, name)).st_mtime_ns
    newest = max(times.values()) if times else 0
    if os.stat(path).st_mtime_ns <= newest:
        os.utime(path, ns=(newest + 1, newest + 1))
    return sorted(times, key=lambda other: (times[other], other))


# --- originals
# --------------------------------------------------------------------------------------------------


def keep_original(base, change, token):
    """Keep the file as it is now, if we keep none of it yet.

    Built aside and renamed, so it is there whole or not at all.
    """
    if journal.read_original_meta(base, change.path) is not None:
        return
    meta = dict(
        describe_snapshot(change.before),
        schema=journal.SCHEMA,
        path=change.path,
        made_dirs=sorted({*change.made_dirs, *_list_made_before(base, change.real)}, key=len),
        id=token,
        time=format_journal_time(),
        sha256_after=None,
    )
    _place_original(base, change.path, meta, None if change.before is None else change.before.data)


def _place_original(base, path, meta, data):
    directory = journal.get_original_directory(base, path)
    aside = _get_aside_place(directory)
    shutil.rmtree(aside, ignore_errors=True)
    make_durable_dirs(aside)
    if data is not None:
        write_durably(os.path.join(aside, "content"), data)
    write_json(os.path.join(aside, "meta.json"), meta)
    os.rename(aside, directory)
    sync_directory(os.path.dirname(directory))


def _get_aside_place(directory):
    """Return the place where an original is made. names() of the journal passes over names that
    begin with a dot.
    """
    return os.path.join(
        os.path.dirname(directory),
        ".new-" + host_files.digest_bytes(host_files.encode_host_path(directory))[:16],
    )


def _list_made_before(base, real):
    """List directories on the way that we made for other files: the file that goes last takes them
    along.
    """
    made = set()
    for name in journal.list_transaction_names(base, "originals"):
        try:
            made.update(
                journal.read_json(os.path.join(base, "originals", name, "meta.json")).get(
                    "made_dirs"
                )
                or []
            )
        except (OSError, ValueError):  # damaged: a caller that needs it gets the error
            continue
    return [path for path in made if real.startswith(path + "/")]


def settle_originals(base, records):
    """Note what we wrote: the change stands.

    The original of a file that is back as before has no use any more, and is kept all the same.
    """
    for record in records:
        kept = journal.read_original_meta(base, record["path"])
        if kept is not None:
            after = record["sha256_after"]
            forget = bool(record["forget"]) or kept["sha256_before"] == after
            _rewrite(base, record["path"], kept, sha256_after=after, forget=forget)


def _rewrite(base, path, meta, **more):
    write_json(
        os.path.join(journal.get_original_directory(base, path), "meta.json"), dict(meta, **more)
    )


def restore_originals(base, records, foreign=()):
    """Bring the originals back to the state before the change, which was taken back.

    A file that another program has changed still holds ours: its original stays.
    """
    for record in records:
        if record.get("original") is None and record["path"] not in foreign:
            drop_original(base, record["path"])
            continue
        # the next look reports a damaged one, which must not stop the rest
        with contextlib.suppress(host_files.HostError):
            kept = journal.read_original_meta(base, record["path"])
            if kept is not None:
                ours = (
                    record["sha256_after"]
                    if record["path"] in foreign
                    else record["original"]["sha256_after"]
                )
                _rewrite(base, record["path"], kept, sha256_after=ours, forget=False)


def drop_forgotten(base, records):
    """Remove the kept originals of files that were given back for good."""
    for record in records:
        kept = journal.read_original_meta(base, record["path"])
        if kept is not None and kept.get("forget"):
            drop_original(base, record["path"])


def drop_original(base, path):
    """Remove what is kept of a file's original."""
    directory = journal.get_original_directory(base, path)
    for place in (_get_aside_place(directory), directory):
        shutil.rmtree(place, ignore_errors=True)
