# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stay on a host, and keep a file in place only while it is true.

    cdi_guard.py SETTINGS.json

The settings name files by path and hash, and for each the facts of the host that it was made from.
If one of these no longer holds, the file is set aside, so nothing acts on it. If all hold again, it
is put back. A file of other bytes belongs to another program and is left alone. The reason is
written to the journal.

Transactions write the same files, and have a lock, which this program takes if it is free
(`programs.turn`). Other programs have none. So a file is moved away first, and the moved file is
judged; and a file is put only where no name exists (link(2)), never over one. Facts are judged
before the lock is taken, since a device that does not answer holds any process that reads from it.
Host side: standard library only, Python 3.6.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import stat
import sys

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident.programs import (
    LATER,
    TRIES,
    explain_untrusted_path,
    get_lock_stamp,
    list_matching_files,
    read_instructions,
    turn,
)

WARNING = "<4>"  # systemd's mark for the level of a line


def main(arguments):
    """Run the guard, unless an earlier one has not ended. Return the exit status."""
    with is_first_guard(read_instructions(arguments[0])["running"]) as alone:
        if alone:
            try:
                return guard(arguments)
            except OSError as exc:  # the lock of transactions, for example
                say(WARNING + str(exc))
                return 1
        say(
            WARNING + "an earlier look has not ended: it may wait for a device that does not answer"
        )
        return 1


@contextlib.contextmanager
def is_first_guard(path):
    """Give whether no other guard runs.

    systemd continues without a guard that waits in the kernel, and would start the next beside it
    each minute.

    path: a file of root's alone, since any account may lock a file that it can open.
    """
    with contextlib.ExitStack() as stack:
        alone = True
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, fd)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            alone = False
        except OSError:  # if there can be no such file, specs are guarded all the same
            pass
        yield alone


def guard(arguments):
    """Judge the guarded specs, and set aside or put back what has changed. Return the exit status."""
    for _try in range(TRIES):
        before = get_lock_stamp()
        settings = read_instructions(arguments[0])
        judged = [
            (entry, [text for text in map(describe_false_fact, entry["facts"]) if text])
            for entry in settings["files"]
        ]
        with turn(settings.get("units") or []) as mine:
            if not mine:
                say(LATER.strip())
                return 0
            if get_lock_stamp() == before:
                return settle_guarded_files(judged, settings["aside"])
    return 0


def settle_guarded_files(judged, aside):
    """Settle each file, whatever happens to the others.

    Return 1 if one could not be settled, else 0.
    """
    troubled = 0
    for entry, false in judged:
        try:
            settle_guarded_file(entry, aside, false)
        except (OSError, ValueError) as exc:
            say(WARNING + "%s: %s" % (entry["path"], exc))
            troubled = 1
    return troubled


def settle_guarded_file(entry, aside, false):
    """Set a file aside, put it back or leave it.

    false: the facts that do not hold, as sentences.
    """
    path, kept = entry["path"], os.path.join(aside, os.path.basename(entry["path"]))
    if not os.path.isdir(os.path.dirname(path)):
        return
    why = explain_untrusted_path(os.path.dirname(path))
    if why:
        say(WARNING + "%s is left as it is: %s" % (path, why))
        return
    if os.path.lexists(name_moved_file(path)):  # of a run that was cut short
        return_moved_file(path)
    if digest_guarded_file(path) == entry["sha256"]:
        if false:
            set_aside(entry, kept, false)
        else:
            remove_guarded_file(kept)
    elif not false and not os.path.lexists(path) and digest_guarded_file(kept) == entry["sha256"]:
        put_back(entry, kept)


def set_aside(entry, kept, false):
    """Move the file away first, and judge what was moved: another program may put a new file at the
    path at any time.
    """
    path, sha256 = entry["path"], entry["sha256"]
    try:
        os.rename(path, name_moved_file(path))
    except FileNotFoundError:
        return
    data = read_regular_file(name_moved_file(path))
    if data is not None and hashlib.sha256(data).hexdigest() == sha256:
        write_guarded_file(kept, data, 0o600)
        # no program has written to it in place meanwhile
        if digest_guarded_file(name_moved_file(path)) == sha256:
            remove_guarded_file(name_moved_file(path))
            say(
                WARNING
                + "%s is set aside, since it is not true any more: %s" % (path, "; ".join(false))
            )
            return
        remove_guarded_file(kept)
    return_moved_file(path)


def return_moved_file(path):
    """Return a file of another program to its path after it was moved away.

    A newer file at the path stays: it would have replaced this one.
    """
    try:
        os.link(name_moved_file(path), path, follow_symlinks=False)
    except FileExistsError:
        pass
    except OSError:  # it is a directory, or the file system has no hard links
        if not os.path.lexists(path):
            os.rename(name_moved_file(path), path)
    remove_guarded_file(name_moved_file(path))


def put_back(entry, kept):
    """Put back a spec that is true again, unless another file has its place."""
    path, data = entry["path"], read_regular_file(kept)
    if data is None or hashlib.sha256(data).hexdigest() != entry["sha256"]:
        return
    spare = name_moved_file(path, ".new")
    write_guarded_file(spare, data, entry.get("mode", 0o644))
    try:
        os.link(spare, path)
    except FileExistsError:
        return
    except OSError as exc:
        say(WARNING + "%s is true again and cannot be put back: %s" % (path, exc.strerror))
        return
    finally:
        remove_guarded_file(spare)
    flush(os.path.dirname(path))
    remove_guarded_file(kept)
    say("%s is true again and put back" % path)


def name_moved_file(path, ending=".aside"):
    """Return a name in the same directory that readers of the directory pass over, because of its
    ending.
    """
    return os.path.join(os.path.dirname(path), ".gpufleet-guard-" + os.path.basename(path) + ending)


def describe_false_fact(fact):
    """Return one sentence if a fact does not hold; '' if it does."""
    if "each" in fact:
        return "" if is_as_found(fact) else "%s changed" % fact["what"]
    if "numbers" in fact:
        wrong = [
            path
            for path, numbers in sorted(fact["numbers"].items())
            if read_device_numbers(path) not in (None, numbers)
        ]
        return "%s: %s has other numbers" % (fact["what"], wrong[0]) if wrong else ""
    gone = [path for path in fact["paths"] if not may_exist(path)]
    return "%s: %s is gone" % (fact["what"], gone[0]) if gone else ""


def is_as_found(fact):
    """Tell whether files are as they were found. A directory that cannot be listed proves nothing."""
    try:
        paths = list_matching_files(fact["each"])
    except OSError:
        return True
    current = [
        [path] + [match_group(find, read_guarded_text(path)) for find in fact["find"]]
        for path in paths
    ]
    return are_alike(fact["found"], current)


def may_exist(path):
    """Tell whether something is there. A path that cannot be looked at proves nothing, and counts
    as there.
    """
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def are_alike(before, now):
    """Tell whether values are equal, as far as both are known.

    A value that was or is not known (None) proves nothing.
    """
    one, other = [[value for row in rows for value in row] for rows in (before, now)]
    known = [
        at
        for at in range(min(len(one), len(other)))
        if one[at] is not None and other[at] is not None
    ]
    return len(one) == len(other) and all(one[at] == other[at] for at in known)


def match_group(find, text):
    """Return the first group of a match; None if there is none."""
    match = re.search(find, text, re.MULTILINE)
    return match.group(1) if match else None


def read_guarded_text(path):
    """Return the text of a file, at most 64 KiB; '' if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(1 << 16)
    except OSError:
        return ""


def read_device_numbers(path):
    """Return [major, minor], [-1, -1] if the file is not a device, and None if there is no node:
    another fact covers that.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    special = stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)
    return [os.major(status.st_rdev), os.minor(status.st_rdev)] if special else [-1, -1]


def digest_guarded_file(path):
    """Return the SHA-256 of a regular file; None if it is none."""
    data = read_regular_file(path)
    return None if data is None else hashlib.sha256(data).hexdigest()


def read_regular_file(path):
    """Return the bytes of a regular file; None if there is none, or something else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as stream:
        return stream.read() if stat.S_ISREG(os.fstat(fd).st_mode) else None


def write_guarded_file(target, data, mode):
    """Write a file whole and durably, under a name that no program reads until it is complete."""
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(target), 0o755)
    spare = os.path.join(os.path.dirname(target), ".gpufleet-guard")
    remove_guarded_file(spare)
    fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fchmod(stream.fileno(), mode)
        os.fsync(stream.fileno())
    os.rename(spare, target)
    flush(os.path.dirname(target))


def flush(directory):
    """Write the names in a directory to the disk."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_guarded_file(path):
    """Remove a file, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def say(text):
    """Print a line at once, for the journal of systemd."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
