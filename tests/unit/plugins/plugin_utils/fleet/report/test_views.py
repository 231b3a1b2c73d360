# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of verify, journal and refresh_cdi, from results of each kind."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    specs,
    transactions,
    verification,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report.fleet_hosts import (
    FleetView,
)

LOST = {"unreachable": True, "msg": "connection refused"}
WIDE = FleetView(width=200)


# ---------------------------------------------------------------- verification


def case(name: str, expected: dict[str, str], found: dict[str, str], **more: Any) -> dict[str, Any]:
    about = {
        "engine": "containerd",
        "injection": "native-cdi",
        "name": f"containerd: {name}",
        "ok": True,
    }
    return {**about, "expected": expected, "found": found, **more}


ONE = case(
    "one",
    {
        "/dev/nvidia0": "allowed",
        "/dev/nvidia1": "refused",
        "/dev/nvidiactl": "allowed",
        "/dev/nvidia-uvm": "optional",
    },
    {
        "/dev/nvidia0": "ok",
        "/dev/nvidia1": "EPERM",
        "/dev/nvidiactl": "ENXIO",
        "/dev/nvidia-uvm": "ok",
    },
)
NONE = case(
    "none",
    {"/dev/nvidia0": "refused", "/dev/nvidia1": "refused"},
    {"/dev/nvidia0": "EPERM", "/dev/nvidia1": "EPERM"},
)
RECORD = case("one", {"/dev/nvidia0": "optional"}, {}, record=["--device=0 configure"])
WRONG = case(
    "one",
    {"/dev/nvidia0": "allowed"},
    {"/dev/nvidia0": "EPERM"},
    ok=False,
    problems=["/dev/nvidia0 cannot be opened"],
)
BROKEN = case("one", {}, {}, ok=False, error={"step": "RunPodSandbox", "message": "no pause image"})
FORESEEN = case("one", {"/dev/nvidia0": "allowed"}, {}, ok=None)
EVIDENCE = [
    (ONE, "one: opened nvidia0, nvidiactl, refused nvidia1"),
    (NONE, "none: refused nvidia[0-1]"),
    (RECORD, "one: asked nvidia-container-cli for --device=0 configure"),
    (WRONG, "one: FAILED: /dev/nvidia0 cannot be opened"),
    (BROKEN, "one: FAILED: RunPodSandbox: no pause image"),
    (FORESEEN, "one: to be shown"),
    (
        {**NONE, "again": ["StartContainer: broken pipe"] * 2},
        "none: refused nvidia[0-1] (started 3 times)",
    ),
    (
        {**BROKEN, "again": ["StartContainer: broken pipe"]},
        "one: FAILED: RunPodSandbox: no pause image (started 2 times)",
    ),
    ({**ONE, "again": []}, "one: opened nvidia0, nvidiactl, refused nvidia1"),
]


@pytest.mark.parametrize(("check", "text"), EVIDENCE)
def test_the_evidence_of_a_case(check: dict[str, Any], text: str) -> None:
    assert verification.describe_check_evidence(check) == text


TOGETHER = [
    # the checks of an engine, and how they are described
    ([ONE, NONE], "one: opened nvidia0, nvidiactl, refused nvidia1; none: refused nvidia[0-1]"),
    (
        [BROKEN, {**BROKEN, "name": "containerd: all"}],
        "one, all: FAILED: RunPodSandbox: no pause image",
    ),
    (
        [NONE, {**NONE, "name": "containerd: isolation", "again": ["StartContainer: EOF"]}],
        "none: refused nvidia[0-1]; isolation: refused nvidia[0-1] (started 2 times)",
    ),
    (
        [BROKEN, NONE, {**BROKEN, "name": "containerd: all"}],
        "one, all: FAILED: RunPodSandbox: no pause image; none: refused nvidia[0-1]",
    ),
]


@pytest.mark.parametrize(("checks", "text"), TOGETHER)
def test_cases_with_the_same_evidence_share_it(checks: list[dict[str, Any]], text: str) -> None:
    assert verification.describe_evidence(checks) == text


def shown(*checks: dict[str, Any], **more: Any) -> dict[str, Any]:
    decisions = [{"engine": "containerd", "engine_version": "1.7.24"}]
    verified = all(c["ok"] for c in checks)
    return {
        "checks": list(checks),
        "verified": verified,
        "image": "busybox",
        "decision": {"decisions": decisions},
        **more,
    }


def test_a_verification_is_a_line_per_engine_and_what_is_not_verified_comes_first() -> None:
    results = {
        "gpu1": shown(ONE, NONE),
        "gpu2": shown(WRONG, NONE, failed=True, msg="1 of 2 checks failed"),
        "gpu3": LOST,
        "gpu4": {
            "checks": [],
            "verified": False,
            "skipped_why": "no GPU: none on PCI",
            "image": "busybox",
        },
        "gpu5": {},
        "gpu6": shown(FORESEEN),
    }
    assert verification.list_verification_lines(results, WIDE) == [
        "Containers of busybox",
        "",
        "HOST  VERIFIED           ENGINE             INJECTION   EVIDENCE",
        "gpu2  no                 containerd 1.7.24  native-cdi  one: FAILED: /dev/nvidia0 cannot be opened; none: refused nvidia[0-1]",
        "gpu3  lost               -                  -           connection refused",
        "gpu5  not reached        -                  -           no result: the host failed or was lost before this step",
        "gpu6  not run            containerd 1.7.24  native-cdi  one: to be shown",
        "gpu4  nothing to verify  -                  -           no GPU: none on PCI",
        (
            "gpu1  yes                containerd 1.7.24  native-cdi  "
            "one: opened nvidia0, nvidiactl, refused nvidia1; none: refused nvidia[0-1]"
        ),
        "",
        "6 hosts: 1 not verified, 1 lost, 1 not reached, 1 not run, 1 nothing to verify, 1 verified",
    ]
    counts = verification.count_verifications(results)
    assert (counts["verified"], counts["not_verified"], counts["needs_person"]) == (
        1,
        1,
        ["gpu2", "gpu3", "gpu5"],
    )
    assert (
        outcomes.explain_failed_run(counts)
        == "of 6 hosts: 1 not verified, 1 lost, 1 not reached. To be looked at: gpu[2-3,5]"
    )


def test_an_engine_that_was_not_verified_has_a_line_with_its_reason() -> None:
    left = [{"instance": "docker:/etc/docker/daemon.json", "why": "Docker does not run"}]
    assert verification.build_verification_rows("gpu1", shown(ONE, not_verified=left))[1:] == [
        ["gpu1", "not run", "Docker", "-", "Docker does not run"]
    ]


# ---------------------------------------------------------------- journal

ENTRY = {
    "time": "2026-01-31T16:58:44Z",
    "reason": "gpufleet.nvidia.host",
    "files": ["/etc/a.toml"],
    "units": ["a.service"],
}


def test_the_journals_of_a_fleet_are_one_table() -> None:
    back = {**ENTRY, "state": "rolled_back", "by": "the timer", "why": "it hung", "units": []}
    journal = [
        {**ENTRY, "state": "committed"},
        back,
        {**ENTRY, "state": "swapping", "ran": ["apt-get update"], "files": []},
    ]
    pending = {"unit": "b.service", "since": "2026-01-31T16:58:44Z", "reason": "site"}
    left = "its restart was left to you (systemctl restart b.service)"
    results = {
        "gpu2": LOST,
        "gpu1": {"journal": journal, "pending": [pending]},
        "gpu3": {"journal": []},
    }
    assert transactions.list_journal_lines(results, WIDE) == [
        "HOST  TIME                  REASON                STATE                            DONE",
        "gpu1  2026-01-31T16:58:44Z  gpufleet.nvidia.host  in force                         wrote /etc/a.toml; restarted a.service",
        "gpu1  2026-01-31T16:58:44Z  gpufleet.nvidia.host  rolled back by the host's timer  wrote /etc/a.toml; because: it hung",
        "gpu1  2026-01-31T16:58:44Z  gpufleet.nvidia.host  not finished (swapping)          ran apt-get update; restarted a.service",
        "gpu2  -                     -                     lost                             connection refused",
        "gpu3  -                     -                     no transaction                   -",
        "",
        f"gpu1: b.service runs with the configuration from before 2026-01-31T16:58:44Z (site): {left}",
    ]
    assert transactions.count_transactions(results) == {
        "hosts": 3,
        "failed": 0,
        "lost": 1,
        "not_reached": 0,
        "needs_person": ["gpu2"],
    }


HOST_BACK, SPEC_BACK = (
    "gpufleet.nvidia.host (state: absent)",
    "gpufleet.nvidia.cdi_spec (state: absent)",
)
LATER = [
    # transactions by reason and state, the newest first, and what is said of each
    ([("gpufleet.nvidia.host", "committed"), (HOST_BACK, "committed"), ("gpufleet.nvidia.host", "committed")],
     ["in force", "in force", "taken back since"]),
    ([(HOST_BACK, "probation"), ("gpufleet.nvidia.host", "committed")], ["watched", "taken back since"]),
    ([(HOST_BACK, "rolled_back"), ("gpufleet.nvidia.host", "committed")], ["rolled back by the host itself", "in force"]),
    ([(HOST_BACK, "committed"), ("gpufleet.nvidia.host", "rolled_back")], ["in force", "rolled back by the host itself"]),
    ([(SPEC_BACK, "committed"), ("gpufleet.nvidia.host", "committed")], ["in force", "in force"]),
]  # fmt: skip


@pytest.mark.parametrize(("journal", "states"), LATER)
def test_what_a_later_rollback_of_the_host_took_back_is_not_in_force(
    journal: list[tuple[str, str]], states: list[str]
) -> None:
    told = [
        {**ENTRY, "reason": reason, "state": state, "by": "systemd"} for reason, state in journal
    ]
    assert [
        row[3] for row in transactions.list_host_transactions("gpu1", {"journal": told})
    ] == states


# ---------------------------------------------------------------- CDI specs

STALE = {
    "path": "/var/run/cdi/nvidia.yaml",
    "state": "stale",
    "reasons": [{"why": "names a GPU that is gone"}],
}
FRESH = {"path": "/etc/cdi/nvidia.yaml", "state": "fresh", "version": "0.5.0", "reasons": []}
SPECS = [
    # result, in check mode, what is said of the spec, why
    ({"freshness": [FRESH]}, False, "fresh", "/etc/cdi/nvidia.yaml 0.5.0"),
    ({"freshness": [STALE]}, False, "stale", "/var/run/cdi/nvidia.yaml: names a GPU that is gone"),
    ({"differences": [{"why": "a new GPU"}], "freshness": [STALE]}, False, "written", "a new GPU"),
    (
        {"differences": [{"why": "a new GPU"}], "freshness": [STALE]},
        True,
        "would be written",
        "a new GPU",
    ),
    (
        {"freshness": []},
        False,
        "none",
        "there is no CDI spec on this host, and none is made for it",
    ),
    (
        {"advice": ["x", "no spec yet [cdi.no-spec-yet]"]},
        False,
        "none",
        "no spec yet [cdi.no-spec-yet]",
    ),
    (
        {"skipped": True, "decision": {"skipped": "no GPU: none on PCI"}},
        False,
        "none",
        "no GPU: none on PCI",
    ),
    ({"skipped": True}, False, "none", "nothing on this host reads CDI specs"),
    (
        {"skipped": True, "decision": {"cdi_owner": "none"}},
        False,
        "none",
        "nothing on this host reads CDI specs",
    ),
    ({"skipped": True, "decision": {"cdi_owner": "collection"}}, False, "none", specs.NOT_YET),
    (LOST, False, "lost", "connection refused"),
    ({"failed": True, "msg": "no nvml"}, False, "failed", "no nvml"),
]


@pytest.mark.parametrize(("result", "check", "word", "why"), SPECS)
def test_what_is_said_of_a_spec(result: dict[str, Any], check: bool, word: str, why: str) -> None:
    assert specs.describe_host_specs(result, check) == (word, why)


def test_the_specs_of_a_fleet_are_one_table_with_totals() -> None:
    results = {f"gpu{n}": {"freshness": [FRESH]} for n in range(30)} | {"web": LOST}
    assert specs.list_refresh_lines(results, WIDE) == [
        "HOST            CDI SPEC  WHY",
        "web             lost      connection refused",
        "gpu[0-29] (30)  fresh     /etc/cdi/nvidia.yaml 0.5.0",
        "",
        "31 hosts: 1 lost, 30 fresh",
    ]
    counts = specs.count_refreshed_specs(results)
    assert (counts["fresh"], counts["lost"], counts["needs_person"]) == (30, 1, ["web"])
