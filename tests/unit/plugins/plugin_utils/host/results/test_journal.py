# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal in words: why a unit failed, and one line for each transaction."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import earlier_runs
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import journal

from tests.unit.builders import obs
from tests.unit.coded import read_all_coded, read_coded

DONE: dict[str, Any] = {
    "time": "2026-01-31T16:58:44Z",
    "reason": "gpufleet.nvidia.host",
    "state": "committed",
    "files": ["/etc/a", "/etc/b"],
    "removed": ["/etc/b"],
    "ran": ["apt-get install -y --no-install-recommends nvidia-container-toolkit-base"],
    "units": ["a.service"],
}
BACK = {
    **DONE,
    "ran": [],
    "removed": [],
    "state": "rolled_back",
    "by": "the next boot",
    "why": "the host was switched off",
}
HISTORY = {
    "all of it": (
        DONE,
        (
            "ran apt-get install -y --no-install-recommends nvidia-container-toolkit-base; "
            "wrote /etc/a; removed /etc/b; restarted a.service: stands"
        ),
    ),
    "taken back": (
        BACK,
        "wrote /etc/a, /etc/b; restarted a.service: rolled back at the next boot because: the host was switched off",
    ),
    "watched": (
        {**DONE, "ran": [], "removed": [], "state": "probation"},
        "wrote /etc/a, /etc/b; restarted a.service: the engine serves; the transaction is still being monitored",
    ),
    "cut short": (
        {**DONE, "files": [], "removed": [], "ran": [], "units": [], "state": "armed"},
        "nothing: not finished (state armed)",
    ),
}


@pytest.mark.parametrize("case", HISTORY)
def test_one_line_for_each_transaction(case: str) -> None:
    entry, line = HISTORY[case]
    assert (
        journal.describe_journal_entry(entry)
        == f"2026-01-31T16:58:44Z gpufleet.nvidia.host: {line}"
    )


def test_what_stands_in_the_way_of_taking_back_later_is_told_early() -> None:
    damaged = [
        {
            "path": "/etc/a",
            "directory": "/var/lib/gpufleet/originals/a",
            "why": "/etc/a: the copy of the original cannot be used",
        }
    ]
    seen = obs(
        answers={"originals": {"originals": {}, "damaged": damaged, "strays": ["/etc/.gpufleet-x"]}}
    )
    assert read_all_coded(journal.advise_on_journal(earlier_runs.read_earlier_runs(seen))) == [
        ("journal.damaged", {"problem": "/etc/a: the copy of the original cannot be used"}),
        ("journal.stray", {"path": "/etc/.gpufleet-x"}),
    ]


@pytest.mark.parametrize(
    ("state", "told"),
    [("armed", ["journal.unfinished"]), ("probation", []), ("committed", [])],
)
def test_a_transaction_that_has_made_its_change_needs_nobody(state: str, told: list[str]) -> None:
    unfinished = [{**DONE, "state": state, "at_work": True}]
    seen = obs(answers={"originals": {"originals": {}, "unfinished": unfinished}})
    found = journal.advise_on_journal(earlier_runs.read_earlier_runs(seen))
    assert [code for code, _ in read_all_coded(found)] == told


def test_what_was_taken_back_is_told_with_the_units_words_and_the_files() -> None:
    hint = 'See "systemctl status a.service" and "journalctl -xeu a.service" for details.'
    why = f"systemctl restart a.service: Job for a.service failed. {hint}"
    show = "journalctl --unit=containerd.service --since=@1"
    logs: dict[str, Any] = {
        "containerd.service": {
            "failed": True,
            "causes": [{"code": "panic", "values": {}}],
            "evidence": show,
        },
        "other.service": {"failed": False, "causes": [], "evidence": show},
        "third.service": "a log as an earlier release kept it",
    }
    entry = {**BACK, "by": "the executor", "why": why, "foreign": ["/etc/b"], "logs": logs}
    code, values = read_coded(journal.describe_rollback(entry))
    assert code == "journal.taken-back"
    assert values["transaction"] == "the transaction of 2026-01-31T16:58:44Z (gpufleet.nvidia.host)"
    assert values["by"] == "by the host itself"
    assert values["details"] == (
        "systemctl restart a.service: Job for a.service failed; "
        "containerd.service failed: it panicked (`journalctl --unit=containerd.service "
        "--since=@1` on the host shows what it said); /etc/b: changed by someone else in the meantime, so left as found. Restored: /etc/a"
    )


ACTIONS = [
    # units, what was done to each, how it is said
    (["docker.service"], ["reload"], "reloaded docker.service"),
    (
        ["containerd.service", "crio.service"],
        ["restart", "restart"],
        "restarted containerd.service, crio.service",
    ),
    (
        ["docker.service", "crio.service"],
        ["reload", "restart"],
        "reloaded docker.service; restarted crio.service",
    ),
    (["gpufleet-cdi-guard.path"], ["start"], "started gpufleet-cdi-guard.path"),
    (["k3s.service"], ["wait"], "waited for k3s.service"),
    (["containerd.service"], [], "restarted containerd.service"),
    ([], [], "nothing"),
]


@pytest.mark.parametrize(("units", "actions", "said"), ACTIONS)
def test_the_journal_says_what_was_done_to_a_unit(
    units: list[str], actions: list[str], said: str
) -> None:
    assert journal.describe_transaction({"units": units, "actions": actions}) == said
