# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stays on a host: keep a file in place only while it is true.

    cdi_guard.py SETTINGS.json

The settings name files by path and hash, and for each the facts of the host that it was made from. When one does not hold any more, the
file is set aside, so nobody acts on it; when all hold again, it is put back. A file of other bytes is someone else's and is left
alone. Why is written to the journal. Node side: standard library only, Python 3.6.
"""

import contextlib
import glob
import hashlib
import json
import os
import re
import stat
import sys

WARNING = "<4>"  # systemd's mark for the level of a line


def main(arguments):
    with open(arguments[0], encoding="utf-8") as stream:
        settings = json.load(stream)
    for entry in settings["files"]:
        settle(entry, settings["aside"])
    return 0


def settle(entry, aside):
    path, kept = entry["path"], os.path.join(aside, os.path.basename(entry["path"]))
    false = [text for text in (differs(fact) for fact in entry["facts"]) if text]
    if digest(path) == entry["sha256"]:
        if not false:
            remove(kept)
            return
        put(path, kept, 0o600)
        remove(path)
        say(WARNING + "%s is set aside, since it is not true any more: %s" % (path, "; ".join(false)))
    elif not os.path.lexists(path) and digest(kept) == entry["sha256"]:
        if false:
            return
        put(kept, path, entry.get("mode", 0o644))
        remove(kept)
        say("%s is true again and put back" % path)


def differs(fact):
    """One sentence where a fact does not hold, '' where it does."""
    if "each" in fact:
        found = [[path] + [group(find, read(path)) for find in fact["find"]] for path in sorted(glob.glob(fact["each"]))]
        return "" if alike(fact["found"], found) else "%s changed" % fact["what"]
    if "numbers" in fact:
        wrong = [path for path, numbers in sorted(fact["numbers"].items()) if device(path) not in (None, numbers)]
        return "%s: %s has other numbers" % (fact["what"], wrong[0]) if wrong else ""
    gone = [path for path in fact["paths"] if not os.path.exists(path)]
    return "%s: %s is gone" % (fact["what"], gone[0]) if gone else ""


def alike(before, now):
    """Equal, as far as both are known: a value that was or is not known (None) says nothing."""
    one, other = [[value for row in rows for value in row] for rows in (before, now)]
    known = [at for at in range(min(len(one), len(other))) if one[at] is not None and other[at] is not None]
    return len(one) == len(other) and all(one[at] == other[at] for at in known)


def group(find, text):
    found = re.search(find, text, re.MULTILINE)
    return found.group(1) if found else None


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(1 << 16)
    except OSError:
        return ""


def device(path):
    """[major, minor], None where there is no node: that is another fact's affair."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    special = stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)
    return [os.major(found.st_rdev), os.minor(found.st_rdev)] if special else [-1, -1]


def digest(path):
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return None
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except OSError:
        return None


def put(source, target, mode):
    """Copy whole and durably, under a name that nobody reads until it is there: the two may lie on different file systems."""
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(target), 0o755)
    spare = os.path.join(os.path.dirname(target), ".gpufleet-guard")
    with open(source, "rb") as stream:
        data = stream.read()
    remove(spare)
    fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fchmod(stream.fileno(), mode)
        os.fsync(stream.fileno())
    os.rename(spare, target)


def remove(path):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
