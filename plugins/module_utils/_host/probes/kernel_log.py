# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Search the kernel log of this boot for lines of one form.

A plain program: it runs in a child that is killed when it takes too long. Standard library only,
Python 3.6. Arguments are one JSON object: {"path", "pattern"}. Of a line that matches, only the
pattern's groups leave the host. Prints {"boot", "first", "last", "complete", "found": [{"sequence",
"time", "groups"}]}, or {"why"}: why nothing is known, a sentence of this file. Numbers of records
begin with 0 at each boot. Of matches with the same groups the newest are reported. If there are too
many others, `first` is the record from which on all are reported.
"""

import json
import os
import re
import stat
import sys
import time

KERNELS = (1, 11)  # the number of /dev/kmsg (Documentation/admin-guide/devices.txt)
# A read takes one record, and fails where the record is longer
# (Documentation/ABI/testing/dev-kmsg).
RECORD = 1 << 16
SECONDS = 10
MOST = 1000  # matches that are told
# of those with the same groups: an application that fails over and over must not push another one's
# error out
EACH = 10
HEADER = re.compile(r"(\d+),(\d+),(\d+),[^;]*;(.*)", re.DOTALL)


class Unknown(Exception):
    """The reason why the log cannot be read."""


def run(request):
    try:
        fd = open_kernel_log(request["path"])
    except Unknown as exc:
        return {"why": str(exc)}
    try:
        lines, complete = read_kernel_log(fd)
    finally:
        os.close(fd)
    return search_log_lines(lines, complete, re.compile(request["pattern"]))


def open_kernel_log(path):
    """Return a descriptor of the log. Raise Unknown if it is not the kernel's log.

    A link may lead to a terminal, as /dev/kmsg does in containers of old LXC: reading that would
    take input away from a person.
    """
    try:
        # before it is opened, which may be enough for a device to act
        require_kernels_log(os.lstat(path), path)
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as exc:
        raise Unknown("%s cannot be read: %s" % (path, exc.strerror))
    try:
        require_kernels_log(os.fstat(fd), path)
    except Unknown:
        os.close(fd)
        raise
    return fd


def require_kernels_log(found, path):
    """Raise Unknown unless this is the kernel's log, or a file that only root can write to."""
    kernels = (
        stat.S_ISCHR(found.st_mode)
        and (os.major(found.st_rdev), os.minor(found.st_rdev)) == KERNELS
    )
    if not kernels and not (
        stat.S_ISREG(found.st_mode) and found.st_uid == 0 and not found.st_mode & 0o022
    ):
        raise Unknown("%s is not the kernel's log" % path)


def read_kernel_log(fd):
    """Return its lines, and whether these are all that the kernel still has: it may write over them
    meanwhile.
    """
    chunks, complete, deadline = [], True, time.monotonic() + SECONDS
    while True:
        if time.monotonic() > deadline:
            return decode_log_chunks(chunks), False
        try:
            data = os.read(fd, RECORD)
        except BlockingIOError:
            return decode_log_chunks(chunks), complete
        except BrokenPipeError:
            # the next record was written over; the read after it continues with the oldest one
            complete = False
            continue
        except OSError:
            return decode_log_chunks(chunks), False
        if not data:
            return decode_log_chunks(chunks), complete
        chunks.append(data)


def decode_log_chunks(chunks):
    """Return the lines of the log."""
    return b"".join(chunks).decode("utf-8", "replace").split("\n")


def search_log_lines(lines, complete, pattern):
    """Return the records of the kernel that match, with the range of sequence numbers that was
    read.

    complete: whether all lines were read.
    """
    matching, first, last = [], None, None
    up, now = time.clock_gettime(time.CLOCK_MONOTONIC), time.time()
    for line in lines:
        # properties of a record follow it, each in a line that begins with a space
        record = HEADER.match(line)
        if not record:
            continue
        sequence = int(record.group(2))
        first, last = sequence if first is None else first, sequence
        said = pattern.search(record.group(4)) if is_of_kernel(int(record.group(1))) else None
        if said:
            written = now - max(0.0, up - int(record.group(3)) / 1e6)
            matching.append(
                {"sequence": sequence, "time": int(written), "groups": said.groupdict()}
            )
    matching = keep_newest_lines(matching)
    if len(matching) > MOST:
        first = matching[-MOST - 1]["sequence"] + 1
    return {
        "boot": get_boot_time(),
        "first": first,
        "last": last,
        "complete": complete,
        "found": matching[-MOST:],
    }


def keep_newest_lines(found):
    """Keep the last few of each kind: an asker that has seen all up to a record finds each kind
    that is new since.
    """
    counts, kept = {}, []
    for match in reversed(found):
        kind = json.dumps(match["groups"], sort_keys=True)
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= EACH:
            kept.append(match)
    return kept[::-1]


def is_of_kernel(priority):
    """Tell whether the facility is 0: the kernel gives lines of programs another one."""
    return priority >> 3 == 0


def get_boot_time():
    """Return the kernel's id of this boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
        return stream.read().strip()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(json.loads(sys.argv[1]))))
