# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run another program as root, if only root can change it, for so many seconds; and take turns with
transactions.

This is part of the programs that stay on a host. Transactions write what these programs read and
write. It has no place of its own on a host: the programs that import it carry its text
(plugin_utils/_controller/transport.py). The rule is that of trust.judge_program, which judges what a run of the
collection starts; at boot nothing has been judged yet. Host side: standard library only, Python
3.6.
"""

import contextlib
import errno
import fcntl
import fnmatch
import json
import os
import selectors
import signal
import stat
import subprocess
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.linker import (
    CONFIGURATION,
    list_needs,
    list_places,
    list_preloaded,
    map_libraries,
)

# /usr/local is not root's alone everywhere
PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin"
LINKS = 40  # as the kernel follows
# Bytes of an answer: a program may pass on what others have told it, as a client of MPS does, and
# those never end.
MOST = 1024 * 1024
LATE = "no end"
# of transactions (module_utils/_host/transaction/journal_writer.py)
LOCK = "/var/lib/gpufleet/lock"
WAITING = "waiting"  # the directory beside it that names the units to start once it is free
TRIES = 3  # of a program if a transaction came between its judging and its writing
LATER = (
    "a transaction of gpufleet.nvidia is under way, and starts this unit again when it is over\n"
)


def run_program(argv, seconds, accepts=(0,), text="", environment=None):
    """Return what a program printed.

    Raise ValueError with a sentence if it is not run, does not end, or ends with another status
    than these.

    text: a command that it reads, by which the sentence names it.
    """
    program = find_trusted_program(argv[0])
    child = subprocess.Popen(  # pylint: disable=ansible-bad-function
        argv,
        executable=program,
        stdin=subprocess.PIPE if text else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment or {"PATH": PATH, "LANG": "C", "LC_ALL": "C"},
        cwd="/",
        start_new_session=True,
    )
    try:
        said, why = await_program_answer(child, text.encode(), time.monotonic() + seconds)
        if why:
            # Not waited for: a process that waits in the kernel, for a device that does not answer,
            # is not ended by any signal.
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
            raise ValueError(
                "%s: %s"
                % (" ".join(argv), why if why != LATE else "%s within %g s" % (LATE, seconds))
            )
    finally:
        child.stdout.close()
    answer = said.decode("utf-8", "replace")
    if child.returncode not in accepts:
        raise ValueError(
            "%s: exit status %d: %s"
            % (text.strip() or " ".join(argv), child.returncode, " ".join(answer.split()))
        )
    return answer


def await_program_answer(child, text, end):
    """Return (what it printed, '' or why it is not waited for any longer).

    text: a command, which a pipe takes as a whole.
    """
    if text:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(text)
            child.stdin.flush()
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while selector.select(max(end - time.monotonic(), 0)):
            more = os.read(child.stdout.fileno(), 65536)
            if not more:
                break
            said += more
            if len(said) > MOST:
                return said, "more than %d bytes of output" % MOST
        else:
            return said, LATE
    try:
        child.wait(max(end - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        return said, LATE
    return said, ""


def find_trusted_program(name):
    """Return the path of a program.

    Raise ValueError if there is none, or if not only root could change what is found there.
    """
    paths = [name] if "/" in name else [os.path.join(place, name) for place in PATH.split(":")]
    path = next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)
    if path is None:
        raise ValueError(
            "%s: there is no such program%s" % (name, "" if "/" in name else " in " + PATH)
        )
    why = explain_untrusted_path(path) or explain_untrusted_libraries(path)
    if why:
        raise ValueError("%s is not run: %s" % (path, why))
    return path


def explain_untrusted_path(path):
    """Return why another account than root could change what is found at a path; '' if none could.

    The answer is a clause with the place. If nothing is there, the directory counts.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for place, entry in walk_path_steps(path):
            why = explain_untrusted_entry(place, entry)
            if why:
                return "%s %s" % (place, why)
    return ""


def explain_untrusted_libraries(program):
    """Return why another account than root could change what the dynamic linker loads for a
    program; '' if none could. The answer is a clause with the place.
    """
    why = next(filter(None, map(explain_untrusted_path, CONFIGURATION)), "")
    todo = list_needs(program, os.path.realpath(program), later=True)
    todo += [(name, ()) for name in list_preloaded()]
    known, met = map_libraries(), set()
    while todo and not why:
        name, folders = todo.pop()
        for path in list_places(name, folders, known):
            if path not in met and not why:
                met.add(path)
                why = explain_untrusted_path(path)
                todo += [] if why else list_needs(path, path, folders)
    return why


def walk_path_steps(path):
    """Yield (directory, what of it is next) on the way to a file, through links as well, and at
    last (the file, '').
    """
    done, todo, links = "", [part for part in reversed(path.split("/")) if part], 0
    while todo:
        part = todo.pop()
        entry = (
            os.path.dirname(done).rstrip("/")
            if part == ".."
            else done
            if part == "."
            else done + "/" + part
        )
        yield done or "/", entry or "/"
        if part not in (".", "..") and os.path.islink(entry):
            links += 1
            if links > LINKS:
                raise ValueError("%s leads through more than %d links" % (path, LINKS))
            target = os.readlink(entry)
            done = "" if target.startswith("/") else done
            todo.extend(step for step in reversed(target.split("/")) if step)
        else:
            done = entry
    yield done, ""


def explain_untrusted_entry(place, entry):
    """Return why another account than root could change a directory or a file; '' if none could."""
    status = os.stat(place)
    if status.st_uid not in (0, os.geteuid()):  # a process without privileges has none to lose
        return "belongs to user %d" % status.st_uid
    shared = status.st_mode & 0o020 and (status.st_gid not in (0, os.getegid()) or has_acl(place))
    if not shared and not status.st_mode & 0o002:
        return ""
    # In a sticky directory, no other account can rename a directory of root's. Any account can give
    # a file another name there.
    kept = status.st_mode & stat.S_ISVTX and entry and stat.S_ISDIR(os.lstat(entry).st_mode)
    return "" if kept else "may be written to by others (mode %04o)" % stat.S_IMODE(status.st_mode)


def has_acl(place):
    """Tell whether a file has an ACL, or may have one."""
    try:
        return bool(os.getxattr(place, "system.posix_acl_access"))
    except OSError as exc:  # of any other error there may be one
        return exc.errno not in (errno.ENODATA, errno.EOPNOTSUPP, errno.ENOSYS)


# --- turns with transactions
# -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def turn(units):
    """Give whether this program may write now.

    It may if no transaction holds the lock, or if the transaction that holds it waits for one of
    these units. Nothing waits here: a transaction starts such units while it holds the lock, and at
    boot the engines wait for them. If the answer is no, the first unit is noted, and the holder of
    the lock starts it afterwards. The lock is shared: these programs do not exclude each other.
    """
    lock = open_transaction_lock()
    if lock is None:
        yield True
        return
    try:
        mine = take_shared_lock(lock) or is_unit_awaited(lock, units)
        if not mine and units:
            note_waiting_unit(units[0])
            # its holder may have looked for notes just before, or begun to wait for this unit
            mine = take_shared_lock(lock) or is_unit_awaited(lock, units)
        yield mine
    finally:
        os.close(lock)


def open_transaction_lock():
    """Return a descriptor of the lock; None if there is none and can be none, so that no
    transaction is under way either.

    Raise OSError if the lock is there and cannot be opened. Reading is enough for one that is
    shared, also on a file system that is mounted read-only.
    """
    try:
        return os.open(LOCK, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        try:
            os.lstat(LOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        raise


def take_shared_lock(lock):
    """Take the lock of transactions, shared, without waiting. Return whether that worked, on the
    lock that others use.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    now = get_lock_stamp()
    # else the directory was cleared, and others lock a new file
    return now is not None and now[0] == os.fstat(lock).st_ino


def is_unit_awaited(lock, units):
    """Tell whether the lock contains that its holder waits for one of these units.

    Then their program works in the holder's place. A holder that was killed has left its words, and
    the next one has the lock before it writes into it.
    """
    try:
        said = json.loads(os.pread(lock, 1 << 16, 0).decode("utf-8"))
        return (
            bool(set(said.get("starts") or []) & set(units))
            and read_process_start(said["pid"]) == said["start"]
        )
    except (OSError, ValueError, AttributeError, TypeError, LookupError):
        return False


def read_process_start(pid):
    """Return when a process began, in the kernel's ticks, as the holder of the lock writes it of
    itself.
    """
    with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as stream:
        return int(stream.read().rpartition(")")[2].split()[19])


def note_waiting_unit(unit):
    """Leave the name of a unit, which the holder of the lock starts afterwards."""
    place = os.path.join(os.path.dirname(LOCK), WAITING)
    # of a full disk, for example: then the unit's next start does its work
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileExistsError):
            os.mkdir(place, 0o700)
        os.close(
            os.open(
                os.path.join(place, unit),
                os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
            )
        )


def get_lock_stamp():
    """Return what changes with each transaction, since each writes into the lock; None if there can
    be no lock.
    """
    lock = open_transaction_lock()
    if lock is None:
        return None
    try:
        status = os.fstat(lock)
        return status.st_ino, status.st_mtime_ns
    finally:
        os.close(lock)


def list_matching_files(pattern):
    """Return the paths that match an absolute pattern with `*`, sorted.

    Raise OSError if a directory or a file cannot be looked at, which proves nothing. glob.glob
    takes that for an empty directory.
    """
    paths = [""]
    for part in pattern.split("/")[1:]:
        paths = [
            path + "/" + name
            for path in paths
            for name in (list_names(path) if "*" in part else [part])
            if fnmatch.fnmatchcase(name, part)
        ]
    return sorted(path for path in paths if is_there(path))


def list_names(directory):
    """Return the names in a directory, [] if there is none. Raise OSError if it cannot be listed."""
    try:
        with os.scandir(directory or "/") as listed:
            return [entry.name for entry in listed]
    except (FileNotFoundError, NotADirectoryError):
        return []


def is_there(path):
    """Tell whether something is at a path. Raise OSError if it cannot be looked at."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def read_instructions(path):
    """Return the JSON that this collection has left for a program."""
    with open(path, encoding="utf-8") as stream:
        return json.load(stream)
