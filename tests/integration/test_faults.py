# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sample of what `make soak` does in full: a transaction that is struck leaves the old or the new
state, and an engine that serves it.
"""

from __future__ import annotations

import dataclasses as dc
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport

from tests.faults import sweep
from tests.faults.victim import TRACE, Victim
from tests.integration.conftest import Boot
from tests.lab import fleet as fleets
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab

# An edit of the main file, a drop-in beside it, and an engine of the other family; all of them are
# restarted.
HOSTS = {"struck17": "containerd-1.7", "struck24": "containerd-2.4", "struckcrio": "crio-1.34"}
# One of them has what nvidia-ctk 1.20 left under another name, so a file of another tool goes in
# the same transaction.
THEIRS = fleets.read(fleets.ENGINES)["hosts"]["ctk21"]["files"]
LEFT = {
    "struck24": {
        path: text.replace("runtimes.nvidia", "runtimes.gpu") for path, text in THEIRS.items()
    }
}
# who takes it back, how the executor is struck: how many calls are tried, spread over all that
# there are
SAMPLE = {
    ("systemd", sweep.KILL): 8,
    ("next", sweep.KILL): 2,
    ("timer", sweep.KILL): 2,
    ("caller", sweep.KILL): 2,
    ("boot", "power"): 1,
    **{("systemd", error): 2 for error in sweep.ERRORS},
}


@dc.dataclass(frozen=True)
class Case:
    """One host, the calls of its transaction, and the tries."""

    victim: Victim
    both: sweep.Sides
    points: list[sweep.Point]
    trace: str
    tries: list[sweep.Try]


def sample(victim: Victim) -> Case:
    victim.prepare()
    both, found = sweep.sides(victim)
    trace = victim.read(TRACE)
    callers = sweep.sides(victim, "caller")[1]
    tries, seen = [], sweep.Seen()
    for row, ((by, how), count) in enumerate(SAMPLE.items()):
        calls = callers if by == "caller" else found
        step = len(calls) // count
        for point in calls[row * step // len(SAMPLE) :: step][:count]:
            tries.append(
                sweep.outage(victim, both, point, seen)
                if by == "boot"
                else sweep.strike(victim, both, point, how, by, seen)
            )
    return Case(victim, both, found, trace, tries)


@pytest.fixture(scope="module")
def cases(boot: Boot, lab: Lab) -> dict[str, Case]:
    boot(
        {
            name: {"kind": kind, "gpus": 1, "files": LEFT.get(name, {})}
            for name, kind in HOSTS.items()
        }
    )
    with ThreadPoolExecutor(len(HOSTS)) as pool:
        found = dict(
            zip(HOSTS, pool.map(lambda name: sample(Victim(lab, name)), HOSTS), strict=True)
        )
    for name, case in found.items():
        print(f"{name}: {len(case.points)} calls: {sweep.totals(case.tries)}")
    return found


@pytest.mark.parametrize("host", HOSTS)
def test_old_or_new_and_never_half(host: str, cases: dict[str, Case]) -> None:
    tries = cases[host].tries
    assert [str(one) for one in tries if not one.fine] == []
    assert sweep.totals(tries)["old"], "no try was early enough to be taken back"


@pytest.mark.parametrize("host", HOSTS)
def test_every_try_was_struck(host: str, cases: dict[str, Case]) -> None:
    missed = [str(one) for one in cases[host].tries if not one.hit]
    assert len(missed) <= 1, missed  # the very last call of a run may not come in the next one


@pytest.mark.parametrize("host", HOSTS)
def test_files_are_durable_before_they_are_renamed_and_directories_before_it_goes_on(
    host: str, cases: dict[str, Case]
) -> None:
    """Power may go at any call; what has been renamed into place must be whole on the disk, and the
    journal must not be ahead of it.
    """
    synced: set[str] = set()
    pending: set[str] = set()
    for line in cases[host].trace.splitlines():
        if match := re.match(r"(?:fsync|fdatasync)\(\d+<([^>]+)>\)\s*= 0", line):
            synced.add(match[1])
            pending.discard(match[1])
        elif match := re.match(r"(?:write|pwrite64)\(\d+<(/(?:etc|var/lib)/[^>]+)>", line):
            synced.discard(match[1])
        elif match := re.match(
            r'rename(?:at2?)?\((?:AT_FDCWD<[^>]*>, )?"([^"]+)", (?:AT_FDCWD<[^>]*>, )?"([^"]+)".*= 0',
            line,
        ):
            if "/job/" in match[1]:
                continue  # whoever takes the job first does it; after an outage nobody does
            assert match[1] in synced, f"renamed before it was synced: {line}"
            if match[2].endswith("/meta.json"):
                assert pending == set(), (
                    f"the journal goes on before these directories were synced: {pending}"
                )
            pending.add(match[2].rpartition("/")[0])
    assert pending == set()


def test_this_test_can_fail(cases: dict[str, Case], monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor that is never taken back leaves half a change when it is killed between two
    files, and it is seen.
    """
    case = cases["struck17"]
    whole = transport.list_program_sources.__wrapped__

    def maimed(program: str) -> tuple[tuple[str, str], ...]:
        found = tuple(
            (
                name,
                re.sub(
                    r"(def recover_(?:open_)?transactions\([^)]*\):\n)",
                    r"\1 return []\n",
                    text,
                    count=1,
                ),
            )
            for name, text in whole(program)
        )
        assert program != "transaction" or found != whole(program)
        return found

    monkeypatch.setattr(transport, "list_program_sources", maimed)
    monkeypatch.setattr(
        transport, "pack_program_sources", transport.pack_program_sources.__wrapped__
    )
    swaps = [
        p
        for p in case.points
        if p.call.startswith("rename") and re.search(r'"/etc/(?!\S*gpufleet)\S+"\)?$', p.text)
    ]
    assert len(swaps) > 1
    found = sweep.strike(case.victim, case.both, swaps[1], sweep.KILL, "systemd")
    assert (found.at_once, found.fine) == ("mixed", False), str(found)
