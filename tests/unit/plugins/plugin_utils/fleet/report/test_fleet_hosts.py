# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the fleet as people read it: at 1, 6, 60 and 600 hosts, on narrow and wide
terminals.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import fleet_table
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cdi,
    Driver,
    Evidence,
    Instance,
    Plan,
    Policy,
    Restart,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_hosts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report.fleet_hosts import (
    FleetView,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import resource
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import table_row

from tests.tools import tables
from tests.unit.records import record

CDI = Cdi(
    able=True, enabled=True, dirs=(), max_version="1.0.0", evidence=Evidence("cri-status", "")
)
CRIO = Instance(
    "crio",
    "1.34.2",
    "/usr/bin/crio",
    "/run/crio.sock",
    "/etc/crio/crio.conf",
    "crio.service",
    "package",
    True,
    CDI,
)
GPUS = tuple(SeenGpu(n, n, f"0000:{n}:00.0", "", "NVIDIA H100 80GB HBM3") for n in range(8))
DRIVER = Driver("ok", "550.163.01", GPUS, "")
NO_RESULT = "no result: the host failed or was lost before this step, or its wave did not start"
CONFIG = "/etc/containerd/config.toml"


def result(engine: str = "containerd 1.7.24", **more: Any) -> dict[str, Any]:
    row = {
        "engine": engine,
        "gpus": "2 x L4, 550.163",
        "injection": "native-cdi",
        "why": "it resolves CDI devices itself",
    }
    return {"row": row, "changed": False, "differences": [], "restarted": [], **more}


def planned(limit: int = 30, why: str = "as decided") -> dict[str, Any]:
    """A host of a plan: two keys of one file differ."""
    differences = [
        {
            "what": "file",
            "path": CONFIG,
            "key": "enable_cdi",
            "before": False,
            "after": True,
            "why": "the switch is off",
        },
        {"what": "file", "path": CONFIG, "key": "limit", "before": limit, "after": 40, "why": why},
    ]
    return result(differences=differences, would_restart=["containerd.service"])


def test_what_needs_a_person_comes_first_and_what_is_converged_last() -> None:
    results = {
        "gpu1": result(),
        "gpu2": result("CRI-O 1.34.2", changed=True, restarted=["crio.service"]),
        "gpu3": {"unreachable": True, "msg": "Task failed: Failed to connect\nto the host"},
        "gpu4": result(failed=True, rolled_back=True, msg="health: the engine does not serve CRI"),
        "gpu5": {},
        "gpu6": result(problem="a loop of imports"),
        "gpu7": {
            **result(),
            "row": {
                "engine": "k3s",
                "gpus": "2 x L4, 550.163",
                "why": "k3s configures itself",
                "managed": False,
            },
        },
        "gpu8": result(failed=True, msg="no Python"),
    }
    assert fleet_hosts.list_fleet_lines(results, FleetView(width=200)) == [
        "8 hosts: 1 failed, 1 rolled back, 1 lost, 1 refused, 1 not reached, 1 not managed, 1 changed, 1 unchanged, 5 need attention",
        "to be looked at: gpu[3-6,8]",
        "",
        "HOST  ENGINE             GPUS             INJECTION   CHANGED      RESTARTED  WHY",
        "gpu8  containerd 1.7.24  2 x L4, 550.163  native-cdi  failed       -          no Python",
        "gpu4  containerd 1.7.24  2 x L4, 550.163  native-cdi  rolled back  -          health: the engine does not serve CRI",
        "gpu3  ?                  ?                -           lost         -          Failed to connect to the host",
        "gpu6  containerd 1.7.24  2 x L4, 550.163  native-cdi  refused      -          a loop of imports",
        f"gpu5  ?                  ?                -           not reached  -          {NO_RESULT}",
        "gpu7  k3s                2 x L4, 550.163  -           not managed  -          k3s configures itself",
        "gpu2  CRI-O 1.34.2       2 x L4, 550.163  native-cdi  yes          crio       it resolves CDI devices itself",
        "gpu1  containerd 1.7.24  2 x L4, 550.163  native-cdi  no           -          it resolves CDI devices itself",
    ]


ALIKE = [
    # hosts with CRI-O, hosts with containerd, the lines below the totals
    (1, 1, ["HOST  ENGINE             WHY", "a0    CRI-O 1.34.2       {why}", "b0    containerd 1.7.24  {why}"]),
    (3, 2, ["HOST        ENGINE             WHY", "a[0-2] (3)  CRI-O 1.34.2       {why}", "b0          containerd 1.7.24  {why}",
            "b1          containerd 1.7.24  {why}"]),
]  # fmt: skip


@pytest.mark.parametrize(("crio", "containerd", "lines"), ALIKE)
def test_equal_lines_fold_from_three_on_and_constant_columns_leave_the_table(
    crio: int, containerd: int, lines: list[str]
) -> None:
    results = {f"a{n}": result("CRI-O 1.34.2") for n in range(crio)} | {
        f"b{n}": result() for n in range(containerd)
    }
    found = fleet_hosts.list_fleet_lines(results, FleetView())[2:]
    assert found[:-1] == [line.format(why="it resolves CDI devices itself") for line in lines]
    assert found[-1] == "on all hosts: gpus 2 x L4, 550.163, injection native-cdi, changed no"
    words = "\n".join(["", *found, "", "PLAY RECAP"])
    engines = {host: one["row"]["engine"] for host, one in results.items()}
    assert tables.read_column(words, "ENGINE") == engines, "as the tests of playbooks read it"
    assert tables.read_column(words, "GPUS") == dict.fromkeys(results, "2 x L4, 550.163")
    assert tables.read_column(words, "CHANGED") == dict.fromkeys(results, "no")


def test_on_eighty_columns_the_reason_stands_below_its_row_and_nothing_is_cut() -> None:
    long = "containerd 1.7.24 resolves CDI devices itself; its switch is off and is turned on by this run, once"
    results = {
        "gpu1": {
            **planned(),
            "row": {**planned()["row"], "gpus": "8 x H100 80GB HBM3, 550.163.01", "why": long},
        }
    }
    assert fleet_hosts.list_fleet_lines(results, FleetView(width=80))[2:] == [
        "HOST  ENGINE             GPUS                    INJECTION   CHANGED  RESTARTED",
        "gpu1  containerd 1.7.24  8 x H100 80GB HBM3,     native-cdi  would    containerd",
        "                         550.163.01",
        "    containerd 1.7.24 resolves CDI devices itself; its switch is off and is",
        "    turned on by this run, once",
    ]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("number", [0, 1, 6, 60, 600])
def test_every_line_fits_the_terminal_and_every_word_is_there(number: int, width: int) -> None:
    why = " ".join(f"word{n}" for n in range(40))
    results: dict[str, Any] = {
        f"gpu{n:03d}.rack.example.org": planned(n, why) for n in range(number)
    }
    if number > 3:
        results["gpu002.rack.example.org"] = {
            "unreachable": True,
            "msg": "unable to connect " + "x" * 300,
        }
    found = fleet_hosts.list_fleet_lines(results, FleetView(width=width, details=True))
    assert [line for line in found if len(line) > width] == []
    assert not [line for line in found if line != line.rstrip()]
    if number:
        assert all(f"word{n}" in "".join(found) for n in range(40))
        assert found[found.index("") + 1].startswith("HOST")


def test_sixty_alike_hosts_are_one_line_and_one_group() -> None:
    results = {f"gpu{n:03d}": planned() for n in range(1, 61)}
    assert fleet_hosts.list_fleet_lines(results, FleetView(width=160, details=True)) == [
        "60 hosts: 60 would change, 0 need attention",
        "",
        "HOST               ENGINE             GPUS             INJECTION   CHANGED  RESTARTED   WHY",
        "gpu[001-060] (60)  containerd 1.7.24  2 x L4, 550.163  native-cdi  would    containerd  it resolves CDI devices itself",
        "",
        "60 hosts: gpu[001-060]",
        "  /etc/containerd/config.toml",
        "    enable_cdi: false -> true",
        "      the switch is off",
        "    limit: 30 -> 40",
        "      as decided",
        "  restart containerd.service",
    ]


def test_a_manager_that_restarts_its_engine_by_itself_is_not_said_to_be_restarted() -> None:
    """k0s: its unit goes on, with the kubelet in it."""
    taken_up = {
        **planned(),
        "would_restart": ["k0sworker.service"],
        "actions": ["wait k0sworker.service"],
    }
    assert (
        fleet_hosts.list_fleet_lines({"gpu1": taken_up}, FleetView(details=True))[-1]
        == "  k0sworker.service restarts its engine by itself"
    )


@pytest.mark.parametrize(
    ("number", "last", "lines"),
    [
        (40, "  restart u39.service", 40),
        (41, "  and 1 more restart", 41),
        (999, "  and 959 more restarts", 41),
    ],
)
def test_of_very_many_restarts_the_first_are_shown(number: int, last: str, lines: int) -> None:
    units = [f"u{n}.service" for n in range(number)]
    none, many = (
        fleet_hosts.list_fleet_lines({"gpu1": one}, FleetView(details=True))
        for one in ({**planned(), "would_restart": []}, {**planned(), "would_restart": units})
    )
    assert (many[-1], many[-2]) == (last, f"  restart u{lines - 2 if number > 40 else 38}.service")
    shown = [line for line in many if line.startswith(("  restart ", "  and "))]
    assert (len(shown), [line for line in none if line.startswith("  restart ")]) == (lines, [])


def test_values_that_differ_within_a_group_are_counted() -> None:
    results = {
        f"gpu{n}": planned(limit=10 * (n % 3), why=f"the file has {n % 3} of them")
        for n in range(6)
    }
    found = fleet_hosts.list_fleet_lines(results, FleetView(width=160, details=True))
    assert found[found.index("    limit: 6 hosts differ in this value:") :] == [
        "    limit: 6 hosts differ in this value:",
        "      0 -> 40 (2: gpu0, gpu3)",
        "      10 -> 40 (2: gpu1, gpu4)",
        "      20 -> 40 (2: gpu2, gpu5)",
        "      the file has [3 values] of them",
        "  restart containerd.service",
    ]


def test_of_very_many_values_the_commonest_are_shown() -> None:
    results = {f"gpu{n}": planned(limit=n if n > 500 else 0) for n in range(600)}
    found = fleet_hosts.list_fleet_lines(results, FleetView(width=160, details=True))
    assert "    limit: 600 hosts differ in this value:" in found
    assert "      0 -> 40 (501: gpu[0-500])" in found
    assert "      97 other values on 97 hosts" in found
    assert len(found) < 20


def test_hosts_with_other_differences_are_another_group() -> None:
    other = planned()
    other["differences"] = other["differences"][:1]
    found = fleet_hosts.list_fleet_lines(
        {"a": planned(), "b": planned(), "c": other, "d": result()}, FleetView(details=True)
    )
    assert [line for line in found if line.endswith(": a, b") or line == "c"] == [
        "2 hosts: a, b",
        "c",
    ]


@pytest.mark.parametrize(
    "foreseen", [{"would_restart": ["containerd.service"]}, {}], ids=["a look", "check mode"]
)
def test_what_is_still_to_come_is_told_so(foreseen: dict[str, Any]) -> None:
    found = result(differences=[{"what": "file", "path": "/etc/x"}], **foreseen)
    results = {"gpu1": found, "gpu2": result()}
    assert [outcomes.judge_outcome(r, check=not foreseen).word for r in results.values()] == [
        "would",
        "no",
    ]
    assert "2 hosts: 1 would change, 1 unchanged, 0 need attention" in fleet_hosts.list_fleet_lines(
        results, FleetView(check=not foreseen)
    )


def test_advice_stands_below_the_table_once_with_its_hosts() -> None:
    told = "the transaction of noon was rolled back\nby the host itself"
    # with its code or without
    said = [
        "it resolves CDI devices itself",
        "it resolves CDI devices itself [decision.native]",
    ]
    results = {f"gpu{n}": result(advice=[told] if n > 1 else said) for n in range(1, 9)}
    assert fleet_hosts.list_fleet_lines(results, FleetView())[-2:] == [
        "",
        "gpu[2-8]: the transaction of noon was rolled back by the host itself",
    ], "and what the table says already is not said again"


def test_advice_that_differs_in_a_hosts_own_words_is_one_sentence() -> None:
    results = {
        f"gpu{n}": result(advice=[f"the transaction of 2026-01-0{n} on gpu{n} was rolled back"])
        for n in (1, 2)
    }
    assert (
        fleet_hosts.list_fleet_lines(results, FleetView())[-1]
        == "gpu[1-2]: the transaction of [2026-01-01 or 2026-01-02] on [gpu1 or gpu2] was rolled back"
    )


def test_what_comes_from_a_host_moves_no_cursor_and_forges_no_line() -> None:
    forged = result(failed=True, msg="bad\x1b[2Jnews\r\ngpu2  fine\u202e")
    found = fleet_hosts.list_fleet_lines({"gpu1": forged}, FleetView(width=200))
    assert found[-1].endswith("bad\\x1b[2Jnews gpu2 fine\\u202e")


def test_a_host_whose_verification_failed_is_a_failed_host() -> None:
    verification = {"failed": True, "msg": "1 of 3 checks failed"}
    assert (
        outcomes.judge_outcome(
            outcomes.merge_failures(result(changed=True), {False: [{}, verification]})
        ).word
        == "failed"
    )
    lost = {"unreachable": True, "msg": "timed out"}
    assert outcomes.judge_outcome(outcomes.merge_failures({}, {False: [lost]})).word == "lost"
    first = result(failed=True, msg="the first")
    assert outcomes.merge_failures(first, {False: [verification]}) == first


def test_a_look_that_failed_counts_only_where_nothing_came_after_it() -> None:
    lost = {"unreachable": True, "msg": "timed out"}
    assert outcomes.judge_outcome(outcomes.merge_failures({}, {True: [lost]})).word == "lost"
    assert (
        outcomes.judge_outcome(outcomes.merge_failures({"skipped": True}, {True: [lost]})).word
        == "lost"
    )
    assert (
        outcomes.judge_outcome(outcomes.merge_failures(result(changed=True), {True: [lost]})).word
        == "yes"
    )
    assert outcomes.merge_failures({"skipped": True}, {True: [result()]})["row"] == result()["row"]


def test_totals_for_programs() -> None:
    results = {"a": planned(), "b": result(), "c": {"unreachable": True}, "d": result(problem="no")}
    counts = outcomes.count_outcomes(results)
    assert {k: v for k, v in counts.items() if v} == {
        "hosts": 4, "would_change": 1, "unchanged": 1, "lost": 1, "refused": 1, "needs_person": ["c", "d"],
    }  # fmt: skip
    assert set(counts) == {
        "hosts", "failed", "rolled_back", "lost", "refused", "not_reached", "left_out", "pending", "not_managed", "would_change",
        "changed", "unchanged", "needs_person",
    }  # fmt: skip


PROBLEMS = [
    # results, with fail_on_drift, the sentence
    ([result()], True, ""),
    ([planned()], False, ""),
    ([result(problem="no")], False, ""),
    ([result(changed=True)], True, ""),  # done, so it is not a drift any more
    ([planned()], True, "of 1 host: 1 would change (gpufleet_fail_on_drift is true)"),
    ([result(problem="no")], True, "of 1 host: 1 refused (gpufleet_fail_on_drift is true)"),
    ([result(), {"unreachable": True}], False, "of 2 hosts: 1 lost: 1"),
    (
        [{}, result(failed=True)],
        False,
        "of 2 hosts: 1 failed, 1 not reached. To be looked at: [0-1]",
    ),
    (
        [result(problem="no"), {"unreachable": True}],
        False,
        "of 2 hosts: 1 lost, 1 refused. To be looked at: [0-1]",
    ),
    (
        [result(problem="no"), {"unreachable": True}],
        True,
        "of 2 hosts: 1 lost, 1 refused (gpufleet_fail_on_drift is true). To be looked at: [0-1]",
    ),
    (
        [{"standing": "left out"}, {"unreachable": True}],
        False,
        "of 2 hosts: 1 lost, 1 left out. To be looked at: [0-1]",
    ),
    ([{"standing": "left out"}, result()], False, ""),
    (
        [planned(), {"unreachable": True}],
        True,
        "of 2 hosts: 1 lost, 1 would change (gpufleet_fail_on_drift is true). To be looked at: 1",
    ),
]


@pytest.mark.parametrize(("results", "drift", "sentence"), PROBLEMS)
def test_when_a_run_is_no_success(
    results: list[dict[str, Any]], drift: bool, sentence: str
) -> None:
    assert (
        outcomes.explain_failed_run(
            outcomes.count_outcomes({str(n): r for n, r in enumerate(results)}), drift
        )
        == sentence
    )


LOST = [
    # how many of three hosts were lost, how many may be, the sentence
    (1, 0, "of 3 hosts: 1 lost: 0"),
    (1, 1, ""),
    (2, 1, "of 3 hosts: 2 lost: [0-1]"),
    (3, 3, "of 3 hosts: 3 lost: [0-2]"),  # a run that reaches nobody has done nothing
]


@pytest.mark.parametrize(("lost", "allowed", "sentence"), LOST)
def test_some_hosts_of_a_fleet_may_be_out_of_reach(lost: int, allowed: int, sentence: str) -> None:
    results = {str(n): {"unreachable": True} if n < lost else result() for n in range(3)}
    assert (
        outcomes.explain_failed_run(outcomes.count_outcomes(results), max_lost=allowed) == sentence
    )


class Counted(dict[str, Any]):
    """A result that counts how often it is read."""

    reads = 0

    def get(self, *given: Any) -> Any:
        Counted.reads += 1
        return super().get(*given)

    def __getitem__(self, key: str) -> Any:
        Counted.reads += 1
        return super().__getitem__(key)


def reads(number: int) -> int:
    results = {f"gpu{n}": Counted(planned(n)) for n in range(number)}
    for found in results.values():
        found["differences"] = [Counted(d) for d in found["differences"]]
    Counted.reads = 0
    fleet_hosts.list_fleet_lines(results, FleetView(details=True))
    return Counted.reads


def test_ten_times_the_hosts_are_ten_times_the_work() -> None:
    assert reads(600) <= 10 * reads(60)


# ---------------------------------------------------------------- what a host's result carries


def test_a_hosts_row() -> None:
    refused = dc.replace(
        resource.record_of_options("none", ""),
        refused=((CRIO.key, "k3s generates this file: use its template"),),
    )
    assert table_row.build_host_row(
        [CRIO], refused, Plan(restarts=(Restart("crio.service"),)), DRIVER
    ) == {
        "engine": "CRI-O 1.34.2",
        "gpus": "8 x H100 80GB HBM3, 550.163.01",
        "injection": "-",
        "restarted": "crio",
        "why": "k3s generates this file: use its template",
    }
    assert (
        table_row.build_host_row(
            [], dc.replace(refused, skipped="no GPU: none on PCI"), Plan(), DRIVER
        )["why"]
        == "no GPU: none on PCI"
    )
    assert (
        table_row.build_host_row([], dc.replace(refused, refused=()), Plan(), DRIVER)["engine"]
        == "none"
    )


@pytest.mark.parametrize(
    ("manager", "text"),
    [
        ("package", "CRI-O 1.34.2"),
        ("k3s", "CRI-O 1.34.2 (k3s)"),
        ("microk8s", "CRI-O 1.34.2 (MicroK8s)"),
        ("nvidia-ctk", "CRI-O 1.34.2"),
    ],
)
@pytest.mark.parametrize("decided", [False, True])
def test_a_row_says_whose_engine_it_is(manager: str, text: str, decided: bool) -> None:
    instance = dc.replace(CRIO, manager=manager)
    found = record(Policy(), instance) if decided else resource.record_of_options("none", "")
    assert table_row.build_host_row([instance], found, Plan(), DRIVER)["engine"] == text


DRIVERS = [
    (Driver("none", "", (), ""), "none"),
    (DRIVER, "8 x H100 80GB HBM3, 550.163.01"),
    (
        Driver("ok", "550.1", (GPUS[0], dc.replace(GPUS[1], model="NVIDIA L4"), GPUS[2]), ""),
        "2 x H100 80GB HBM3, 1 x L4, 550.1",
    ),
    (Driver("not-loaded", "", (dc.replace(GPUS[0], model=""),), ""), "1 x GPU, driver not loaded"),
    (Driver("broken", "550.1", GPUS[:1], ""), "1 x H100 80GB HBM3, driver broken"),
]


@pytest.mark.parametrize(("driver", "text"), DRIVERS)
def test_gpus_and_their_driver_in_one_cell(driver: Driver, text: str) -> None:
    assert table_row.describe_gpus(driver) == text


@pytest.mark.parametrize(
    ("drift", "sentence"),
    [(False, ""), (True, "of 2 hosts: 1 refused (gpufleet_fail_on_drift is true)")],
)
def test_a_view_without_a_table_counts_who_is_refused(drift: bool, sentence: str) -> None:
    lines, count = fleet_table.VIEWS["reached"]
    results = {"a": {"differences": []}, "b": {"problem": "no"}}
    assert lines(results, fleet_hosts.FleetView()) == []
    assert outcomes.explain_failed_run(count(results, False), drift) == sentence
