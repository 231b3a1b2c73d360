# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the look at open files costs on a made-up host, whatever its users do: calls are counted,
and a clock is played.
"""

import collections
import contextlib
import errno
import os
import stat
import types

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import process_queries

PATTERN = r"(/.*)?/dev/gpu(?P<device>\d+)$"
ROOT, ALICE, MALLORY = 0, 1000, 1001
# files: how many it has open; gpu: whether the last of them is one; threads: how many; dead:
# whether the first of them has ended; empty: threads that have a table of their own with nothing in
# it.
Process = collections.namedtuple("Process", "user files gpu threads dead empty")


def process(user, files, gpu=False, threads=1, dead=False, empty=0):
    return Process(user, files, gpu, threads, dead, empty)


class Host(object):
    """Plays `os` and `time` to the look: /proc has these processes, from 10 on."""

    def __init__(self, processes, tick=0.0):
        self.processes = dict(enumerate([process(ROOT, 3)] + [None] * 9 + list(processes), 1))
        self.processes = {pid: made for pid, made in self.processes.items() if made}
        self.calls, self.tick, self.now = collections.Counter(), tick, 0.0

    def __getattr__(self, name):
        return getattr(os, name)

    def monotonic(self):
        self.now += self.tick
        return self.now

    def listdir(self, place):
        assert place == "/proc"
        return [str(pid) for pid in self.processes]

    def _names(self, place):
        words = place.split("/")[2:]
        made = self.processes[int(words[0])]
        if words[1:] == ["task"]:
            return [words[0]] + [str(100000 + number) for number in range(made.threads - 1)]
        if words[1] == "task":
            return [] if int(words[2]) - 100000 < made.empty else range(made.files)
        return [] if made.dead else range(made.files)

    @contextlib.contextmanager
    def scandir(self, place):
        self.calls["scandir"] += 1
        yield (types.SimpleNamespace(name=str(name)) for name in self._names(place))

    def readlink(self, link):
        self.calls["readlink"] += 1
        words = link.split("/")
        made = self.processes[int(words[2])]
        return "/dev/gpu7" if made.gpu and int(words[-1]) == made.files - 1 else "/dev/null"

    def mode(self, _link):
        return stat.S_IFCHR

    def owner(self, pid):
        self.calls["status"] += 1
        made = self.processes[pid]
        return made.user, 0 if made.dead else made.files

    def text(self, path, *_more):
        self.calls["text"] += 1
        group = "0::/\n" if path == "/proc/1/cgroup" else "0::/group\n"
        return group if path.endswith("cgroup") else "flags:\t0100002\n"


@pytest.fixture(name="play")
def a_player(monkeypatch):
    def play(processes, tick=0.0):
        host = Host(processes, tick)
        monkeypatch.setattr(process_queries, "os", host)
        monkeypatch.setattr(process_queries, "time", host)
        monkeypatch.setattr(process_queries, "_read_owner", host.owner)
        monkeypatch.setattr(process_queries, "_get_mode", host.mode)
        monkeypatch.setattr(process_queries.trust, "read_proc_file", host.text)
        return host, process_queries.list_holders(PATTERN, groups=True)

    return play


WORK = [process(ROOT, 40, gpu=True), process(ALICE, 90, gpu=True)]  # 11 and 12
# processes of that many files that one user's share is enough for
MANY = process_queries.PER_USER // 19000
CASES = [
    # name, processes besides WORK, pids that are found, what is not known, at most so many calls of
    # (readlink, scandir, status)
    ("two at work", [], [11, 12], None, (133, 3, 3)),
    (
        "250 processes with 19 000 files each",
        [process(MALLORY, 19000)] * 250,
        [11, 12],
        {"processes": 250 - MANY, "users": [MALLORY]},
        (process_queries.PER_USER + 200, 260, 260),
    ),
    (
        "400 threads, of which the first has ended",
        [process(MALLORY, 19000, True, 400, True)],
        [11, 12, 13],
        None,
        (19200, 10, 10),
    ),
    ("400 threads", [process(MALLORY, 19000, True, 400)], [11, 12, 13], None, (19200, 10, 10)),
    (
        "threads with empty tables of their own before the one that has a GPU",
        [process(MALLORY, 10, True, 400, True, 399)],
        [11, 12],
        {"processes": 1, "users": [MALLORY]},
        (133, 10, 10),
    ),
    ("50 000 processes", [process(MALLORY, 3)] * 50000, [11, 12], None, (150200, 50010, 50010)),
    (
        "more processes with a GPU than are listed",
        [process(MALLORY, 1, gpu=True)] * 3000,
        list(range(11, 11 + process_queries.MOST_HOLDERS)),
        {"processes": 3002 - process_queries.MOST_HOLDERS, "users": [MALLORY]},
        (3200, 3010, 3010),
    ),
    (
        "three users who open what they may",
        [process(user, 19000) for user in (1001, 1002, 1003) for _each in range(100)],
        [11, 12],
        {"processes": 300 - 2 * MANY, "users": [1003, 1001, 1002]},
        (process_queries.DESCRIPTORS + 10, 310, 310),
    ),
]


@pytest.mark.parametrize(
    "error, closed",
    [(errno.ENOENT, 0), (errno.ESRCH, 0), (errno.EACCES, 1), (errno.ENOMEM, 1), (errno.EMFILE, 1)],
)
def test_a_process_whose_owner_cannot_be_read_may_hold_a_device_unless_it_has_ended(
    play, monkeypatch, error, closed
):
    def owner(host, pid):
        if pid == 11:
            raise OSError(error, os.strerror(error))
        return host.processes[pid].user, 3

    monkeypatch.setattr(Host, "owner", owner)
    answer = play(WORK)[1]
    assert (answer["pids"], answer["closed"]) == ([12], closed)


@pytest.mark.parametrize(
    "others, found, partial, most", [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_what_a_look_costs_and_says(play, others, found, partial, most):
    host, answer = play(WORK + others)
    assert answer.get("partial") == partial
    for at, name in enumerate(("readlink", "scandir", "status")):
        assert host.calls[name] <= most[at], name
    assert answer["pids"] == found
    assert answer["held"] == [[pid, ["7"], "/group"] for pid in found]


@pytest.mark.parametrize("tick", [1e-5, 1e-4, 1e-3])
def test_a_slow_host_is_looked_at_for_its_time_and_no_longer(play, tick):
    """Each look at the clock takes that long: accounts with few processes are known while there is
    time for them.
    """
    host, answer = play(WORK + [process(MALLORY, 19000)] * 250, tick)
    assert answer["pids"] == [11, 12]
    assert answer["partial"]["users"] == [MALLORY]
    assert host.calls["readlink"] <= process_queries.SECONDS / tick
    # One look at the clock for each that is left, once the time is over.
    assert host.now <= process_queries.SECONDS + process_queries.MORE_SECONDS + 300 * tick


def test_time_that_is_over_before_all_users_are_known_is_said(play):
    _host, answer = play([process(MALLORY, 3)] * 50000, 1e-3)
    assert answer["partial"]["processes"] > 40000


def test_what_is_not_found_is_not_known(play):
    """A process with a GPU is in the answer, or the answer says that something is missing."""
    for number in (0, 1, 5, 30, 100):
        processes = [
            process(1000 + at % 7, (at * 7919) % 19000, at % 3 == 0, 3, at % 5 == 0, at % 4)
            for at in range(number * 3)
        ]
        _host, answer = play(processes)
        holding = {pid for pid, made in _host.processes.items() if made.gpu and made.files}
        assert holding == set(answer["pids"]) or answer["partial"]["processes"] >= len(
            holding - set(answer["pids"])
        )


def test_the_user_is_the_one_that_a_process_cannot_choose():
    """/proc/PID belongs to root where a process may not be dumped, which it can ask for by itself."""
    user, size = process_queries._read_owner(os.getpid())
    assert user == os.getuid()
    assert size >= len(os.listdir("/proc/self/fd")) - 1


def test_a_process_that_ends_meanwhile_is_nobody(play, monkeypatch):
    def gone(_pid):
        raise OSError(errno.ESRCH, "gone")

    monkeypatch.setattr(process_queries, "_read_owner", gone)
    assert process_queries.list_holders(PATTERN)["pids"] == []
