# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a fleet's operator reads: the table, the sentence about mixed engines, the budget of a rollout, diffs without secrets."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import diff, fleet, table
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.cdi import spec
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import Cdi, Evidence, Instance, Plan, PlanError, Restart

CDI = Cdi(True, True, (), "1.0.0", Evidence("cri-status", ""))
CRIO = Instance("crio", "1.34.2", "/usr/bin/crio", "/run/crio.sock", "/etc/crio/crio.conf", "crio.service", "package", True, CDI)


def result(engine: str = "containerd 1.7.24", **more: Any) -> dict[str, Any]:
    row = {"engine": engine, "injection": "native-cdi", "restarted": "-", "why": "it resolves CDI devices itself"}
    return {"row": row, "changed": False, "differences": [], "restarted": [], **more}


def test_the_table() -> None:
    results = {
        "gpu2": result("CRI-O 1.34.2", changed=True, restarted=["crio.service"]),
        "gpu1": result(),
        "gpu3": {"unreachable": True, "msg": "Failed to connect\nto the host"},
        "gpu4": result(failed=True, rolled_back=True, msg="health: the engine does not serve CRI"),
        "gpu5": {},
        "gpu6": result(problem="a loop of imports"),
    }
    assert table.lines(results) == [
        "HOST  ENGINE             INJECTION   CHANGED      RESTARTED  WHY",
        "gpu1  containerd 1.7.24  native-cdi  no           -          it resolves CDI devices itself",
        "gpu2  CRI-O 1.34.2       native-cdi  yes          crio       it resolves CDI devices itself",
        "gpu3  ?                  -           lost         -          Failed to connect to the host",
        "gpu4  containerd 1.7.24  native-cdi  rolled back  -          health: the engine does not serve CRI",
        "gpu5  ?                  -           not reached  -          no result: the host was lost before, or its wave did not start",
        "gpu6  containerd 1.7.24  native-cdi  refused      -          a loop of imports",
        "",
        "6 hosts: 1 changed, 1 unchanged, 1 rolled back, 1 refused, 1 lost, 1 not reached",
    ]


def test_details_follow_the_table() -> None:
    differences = [{"what": "file", "path": "/etc/x", "key": "a.b", "before": None, "after": True, "why": "because"}]
    lines = table.lines({"gpu1": result(differences=differences, advice=["drain\nfirst"])}, details=True)
    assert lines[-3:] == ["gpu1:", "  file /etc/x a.b: none -> True (because)", "  note: drain first"]
    assert " yes " in lines[1]  # what differs will change: the plan runs without changing


@pytest.mark.parametrize("foreseen", [{"would_restart": ["containerd.service"]}, {}], ids=["a look", "check mode"])
def test_what_is_still_to_come_is_told_so(foreseen: dict[str, Any]) -> None:
    found = result(differences=[{"what": "file", "path": "/etc/x"}], **foreseen)
    lines = table.lines({"gpu1": found, "gpu2": result()}, check=not foreseen)
    assert [line.split()[4] for line in lines[1:3]] == ["would", "no"]
    assert lines[-1] == "2 hosts: 1 would change, 1 unchanged"


def test_advice_stands_below_the_table_once_with_its_hosts() -> None:
    told = "the transaction of noon was rolled back\nby the host itself"
    results = {f"gpu{n}": result(advice=[told] if n > 1 else ["it resolves CDI devices itself"]) for n in range(1, 9)}
    assert table.lines(results)[-3:] == [
        "8 hosts: 8 unchanged",
        "",
        "gpu2, gpu3, gpu4, gpu5, gpu6 and 2 more: the transaction of noon was rolled back by the host itself",
    ], "and what the table says already is not said again"


def test_long_reasons_are_cut() -> None:
    lines = table.lines({"gpu1": result(failed=True, msg="x" * 500)})
    assert lines[1].endswith("xxx...")
    assert len(lines[1]) < 200


def test_no_hosts() -> None:
    assert table.lines({})[-1] == "0 hosts: nothing to tell"


def test_a_hosts_row() -> None:
    refused = dc.replace(spec.told("none", ""), refused=((CRIO.key, "k3s generates this file: use its template"),))
    assert table.row([CRIO], refused, Plan(restarts=(Restart("crio.service"),))) == {
        "engine": "CRI-O 1.34.2",
        "injection": "-",
        "restarted": "crio",
        "why": "k3s generates this file: use its template",
    }
    assert table.row([], dc.replace(refused, skipped="no GPU: none on PCI"), Plan())["why"] == "no GPU: none on PCI"
    assert table.row([], dc.replace(refused, refused=()), Plan())["engine"] == "none"


# ---------------------------------------------------------------- uniform fleets


def decided(*engines: str) -> dict[str, Any]:
    return {"decision": {"decisions": [{"engine": e} for e in engines]}}


def test_a_mix_names_the_hosts_by_engine() -> None:
    results = {"b": decided("containerd"), "a": decided("containerd"), "c": decided("crio"), "gone": {}, "idle": decided()}
    with pytest.raises(PlanError, match=r"mixed container engines: containerd on a, b; crio on c \(fleet_policy is uniform"):
        fleet.require_policy("uniform", results)
    fleet.require_policy("per_host", results)
    fleet.require_policy("uniform", {"a": decided("crio"), "gone": {}})


def test_long_lists_of_hosts_are_cut() -> None:
    assert fleet.some([f"h{i}" for i in range(7)]) == "h0, h1, h2, h3, h4 and 2 more"


# ---------------------------------------------------------------- gate

GATES = [
    # lost, total, max_failed, may the rollout go on, how many may be lost
    (0, 10, 0, True, 0),
    (1, 10, 0, False, 0),
    (2, 10, "2", True, 2),
    (3, 10, "2", False, 2),
    (1, 10, "10%", True, 1),
    (2, 15, "10%", False, 1),  # rounded down
    (7, 100, "7%", True, 7),
    (1, 5, "20 %", True, 1),
    (1, 3, "10%", False, 0),
    (5, 5, "100%", True, 5),
    (1, 200, "0.5%", True, 1),
]


@pytest.mark.parametrize(("lost", "total", "max_failed", "ok", "allowed"), GATES)
def test_gate(lost: int, total: int, max_failed: int | str, ok: bool, allowed: int) -> None:
    verdict = fleet.gate(lost, total, max_failed)
    assert (verdict.ok, verdict.allowed) == (ok, allowed)


@pytest.mark.parametrize("wrong", ["", "-1", "1.5", "101%", "ten", "10%%", None])
def test_a_budget_that_is_none(wrong: Any) -> None:
    with pytest.raises(PlanError, match="neither a number of hosts nor a percentage"):
        fleet.gate(0, 1, wrong)


# ---------------------------------------------------------------- diffs

SECRETS = [
    ('password = "hunter2"\n', 'password = *********\n'),
    ('  auth: "dXNlcjpwYXNz"\n', "  auth: **************\n"),
    ('{"auths": {"auth": "abc"}}', '{"auths": {"auth": *****}}'),
    ("proxy = http://me:secret@host/\n", "proxy = http://me:******@host/\n"),
    ('default_runtime_name = "nvidia"\n', 'default_runtime_name = "nvidia"\n'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "masked"), SECRETS)
def test_secrets_are_masked_and_keep_their_length(text: str, masked: str) -> None:
    assert diff.mask(text) == masked
    assert diff.mask(diff.mask(text)) == masked


def test_a_diff_as_ansible_prints_it() -> None:
    shown = diff.for_ansible((diff.entry("/etc/x", "", 'token = "t"\n'),))
    assert shown == [{"before_header": "/etc/x", "after_header": "/etc/x", "before": "", "after": "token = ***\n"}]
