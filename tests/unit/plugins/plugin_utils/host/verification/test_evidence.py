# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is made of a host's answers: checks with advice, and one message that has an end."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    evidence,
)

from tests.unit.coded import read_coded
from tests.unit.verified_cases import COMPATIBLE, CONTAINERD_16, CONTAINERD_21, plan_cases

# What engines really said, and the code of the advice.
ADVICE = [
    ("containerd", "native-cdi", "ImageStatus: image x is not on this host", "load-image"),
    ("crio", "native-cdi", "ImageStatus: image x is not on this host", "load-image"),
    (
        "containerd",
        "native-cdi",
        'RunPodSandbox: no runtime for "nvidia" is configured',
        "handler-unknown",
    ),
    (
        "crio",
        "native-cdi",
        "RunPodSandbox: failed to find runtime handler nvidia from runtime list map[]",
        "handler-unknown",
    ),
    (
        "containerd",
        "native-cdi",
        "CreateContainer: unresolvable CDI devices nvidia.com/gpu=0",
        "device-unresolvable",
    ),
    (
        "containerd",
        "native-cdi",
        "RunPodSandbox: unknown service runtime.v1.RuntimeService",
        "no-cri",
    ),
    (
        "crio",
        "native-cdi",
        "RunPodSandbox: unable to try pulling possible OCI artifact: pinging container registry",
        "no-sandbox-image",
    ),
    (
        "containerd",
        "native-cdi",
        "RunPodSandbox: /run/containerd/containerd.sock: Connection refused",
        "socket-silent",
    ),
    (
        "containerd",
        "native-cdi",
        "/dev/nvidia0 was requested and is not in the container",
        "cdi-ignored",
    ),
    (
        "crio",
        "native-cdi",
        "/dev/nvidia0 was requested and is not in the container",
        "not-injected",
    ),
    (
        "containerd",
        "native-cdi",
        "/dev/nvidia1 can be opened although it was not requested (ENXIO)",
        "more-than-requested",
    ),
    (
        "crio",
        "oci-hook",
        "/var/log/cli.jsonl says nothing that matches --device=0",
        "hook-not-called",
    ),
    (
        "crio",
        "",
        "StartContainer: no such file or directory; nvidia-container-runtime",
        "no-handler-program",
    ),
    ("crio", "", "RunPodSandbox: runtime handler nvidia not supported", "handler-unknown"),
    ("crio", "", "ExecSync: mknod: command not found", "no-shell"),
    ("crio", "native-cdi", "RunPodSandbox: something new", ""),
    ("crio", "native-cdi", "RunPodSandbox: gRPC status 2 (UNKNOWN)", "read-journal"),
    ("podman", "native-cdi", "run: exit status 126", "podman-by-hand"),
    ("docker", "native-cdi", "run: exit status 125: not found", "docker-by-hand"),
    ("containerd", "native-cdi", "RunPodSandbox: runc create failed", "read-journal"),
    (
        "containerd",
        "nvidia-runtime",
        "/dev/nvidia0 was requested and is not in the container",
        "not-injected",
    ),
]


@pytest.mark.parametrize(("engine", "injection", "text", "code"), ADVICE)
def test_a_failure_says_what_to_do(engine: str, injection: str, text: str, code: str) -> None:
    assert get_code(evidence.advise_on_case(engine, injection, text)) == (
        f"verify.{code}" if code else ""
    )


KNOWN = " gRPC status 2"


@pytest.mark.parametrize(("behind", "code"), [(0, "verify.read-journal"), (1, "")])
def test_a_failure_is_judged_by_its_beginning(behind: int, code: str) -> None:
    """A host may return thousands of problems, of thousands of characters each."""
    text = "x" * (evidence.LONGEST - len(KNOWN) + behind) + KNOWN
    assert get_code(evidence.advise_on_case("crio", "", text)) == code


IMAGES = [("containerd", "ctr -n k8s.io images import"), ("crio", "skopeo copy")]


@pytest.mark.parametrize(("engine", "way"), IMAGES)
def test_an_image_is_loaded_by_the_engines_own_way(engine: str, way: str) -> None:
    advice = evidence.advise_on_case(
        engine, "native-cdi", "ImageStatus: image x is not on this host"
    )
    assert isinstance(advice, Message)
    assert way in advice.values["way"]


def test_evidence_joins_what_was_planned_with_what_was_found() -> None:
    planned = plan_cases(COMPATIBLE, CONTAINERD_16, gpus=(0,))
    problem = "/dev/nvidia0 was requested and is not in the container"
    found = {
        "name": "containerd: one",
        "ok": False,
        "problems": [problem],
        "error": None,
        "found": {"/dev/nvidia0": "absent"},
    }
    answer = {"cases": [found]}
    one, none = evidence.list_case_evidence(planned, answer)
    assert (one["injection"], one["env"], one["found"]) == (
        "nvidia-runtime",
        {"NVIDIA_VISIBLE_DEVICES": "0"},
        {"/dev/nvidia0": "absent"},
    )
    assert none["error"] == {"step": "run", "message": "the host returned no result"}
    assert one["advice"].endswith("[verify.not-injected]")
    code, values = read_coded(evidence.describe_unverified([one, none]))
    assert (code, values["failed"], values["total"]) == ("verify.checks-failed", 2, 2)
    told = f"containerd: one: {problem}. containerd: none: run: the host returned no result. Next: "
    assert values["details"].startswith(told)


@pytest.mark.parametrize(
    ("failure", "shown"),
    [
        ({"problems": ["a is absent", "b is absent"]}, "a is absent; b is absent"),
        ({"problems": ["p"] * 8}, "; ".join("p" * 8)),
        ({"problems": ["p"] * 4096}, "; ".join("p" * 8) + "; and 4088 more"),
        ({"problems": ["x" * 4096] * 4096}, "x" * 4096),
        ({"error": {"step": "start", "message": "x" * 4096}}, "start: " + "x" * 4089),
    ],
)
def test_a_failure_is_described_within_bounds_whatever_a_host_says(
    failure: dict[str, Any], shown: str
) -> None:
    text = evidence.describe_case_failure(failure)
    assert text.startswith(shown)
    assert len(text) <= evidence.LONGEST + 40


def test_the_message_of_all_cases_is_bounded() -> None:
    failed = [
        {"name": f"containerd: {n}", "ok": False, "problems": [f"{n % 40} " + "x" * 4000]}
        for n in range(4096)
    ]
    details = read_coded(evidence.describe_unverified(failed))[1]["details"]
    assert details.startswith("containerd: 0, 40, 80")
    assert len(details) <= 2 * evidence.LONGEST + 40


def test_advice_is_looked_for_beyond_what_is_shown() -> None:
    planned = plan_cases(COMPATIBLE, CONTAINERD_16, gpus=(0,))
    problems = ["?"] * 20 + ["/dev/nvidia0 was requested and is not in the container"]
    found = {"name": "containerd: one", "ok": False, "problems": problems, "error": None}
    one, _none = evidence.list_case_evidence(planned, {"cases": [found]})
    assert one["advice"].endswith("[verify.not-injected]")


def test_a_verified_host_has_no_complaint() -> None:
    planned = plan_cases(COMPATIBLE, CONTAINERD_21)
    good = {
        "cases": [{"name": c["name"], "ok": True, "problems": [], "error": None} for c in planned]
    }
    assert evidence.describe_unverified(evidence.list_case_evidence(planned, good)) == ""


def test_check_mode_tells_the_cases_and_verifies_none() -> None:
    first = evidence.list_unverified_cases(plan_cases(COMPATIBLE, CONTAINERD_21))[0]
    assert (first["ok"], first["expected"]["/dev/nvidia1"], first["devices"]) == (
        None,
        "refused",
        ["nvidia.com/gpu=0"],
    )
    assert first["found"] == {}, "playbooks show this key in check mode, too"


ALIKE = [
    # the checks that failed, each with its problem; how the details begin
    ({"containerd: one": "no pause image"}, "containerd: one: no pause image"),
    (
        {"containerd: one": "no pause image", "containerd: all": "no pause image"},
        "containerd: one, all: no pause image",
    ),
    (
        {"containerd: one": "refused", "containerd: all": "no pause image"},
        "containerd: one: refused. containerd: all: no pause image",
    ),
    (
        {"containerd: one": "refused", "crio: one": "refused"},
        "containerd: one: refused. crio: one: refused",
    ),
]


@pytest.mark.parametrize(("failed", "details"), ALIKE)
def test_checks_that_fail_alike_share_a_sentence(failed: dict[str, str], details: str) -> None:
    checks = [
        {"name": name, "ok": False, "problems": [problem]} for name, problem in failed.items()
    ]
    _code, values = read_coded(evidence.describe_unverified(checks))
    assert (values["failed"], values["total"], values["details"]) == (
        len(failed),
        len(failed),
        details,
    )
