# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose only engine is Podman, and hosts that are left alone."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.container_test import (
    entry as container_test_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decide,
    host_plan,
    host_report,
    refusals,
    seen_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import consumers
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.podman import (
    detect as podman_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
    toolkit_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    cases,
    evidence,
    told_words,
)

from tests.unit import gpus
from tests.unit.builders import obs
from tests.unit.records import ONE_GPU, instance, record

NOTHING = {"processes": [], "units": {}}
OLD, NEW = "3.4.4+ds1-1ubuntu1", "5.4.2+ds1-2"


def seen_with(version: str | None, **more: Any) -> Observation:
    installed = {"podman": version} if version else {}
    files = {
        **gpus.host(1),
        **({"/usr/bin/podman": ""} if version else {}),
        **more.pop("files", {}),
    }
    return obs(
        files=files,
        packages={packages.BASE: None, **installed},
        answers=gpus.nvml(1),
        **{**NOTHING, **more},
    )


def the_podman(version: str = NEW) -> Instance:
    (found,) = podman_detect.find_instances(
        Policy(), podman_detect.read_facts(Policy(), seen_with(version))
    )
    return found


def test_a_host_with_podman_alone_gets_its_spec_and_nothing_else() -> None:
    seen = seen_host.see(Policy(), seen_with(NEW))
    refusals.require_engine(Policy(), seen.instances)
    (decision,) = seen.record.decisions
    assert (decision.engine, decision.engine_version, decision.injection, decision.handler) == (
        "podman",
        "5.4.2",
        "native-cdi",
        "",
    )
    assert (seen.record.cdi_owner, seen.record.cdi_version_cap, seen.record.packages) == (
        "collection",
        "0.8.0",
        (),
    )
    facts = seen_host.read_host_facts(Policy(), seen_with(NEW), seen, "")
    plan = host_plan.plan_host(Policy(), facts)
    written = [c["path"] for c in plan.changes]
    assert "/etc/cdi/nvidia.yaml" in written
    assert [
        p
        for p in written
        if p == toolkit_config.PATH or p.startswith(("/etc/containers", "/etc/apt"))
    ] == []
    assert (plan.restarts, plan.commands) == ((), ())
    told = host_report.report_host_facts(seen, plan)["row"]
    assert (told["engine"], told["injection"], told["managed"]) == (
        "Podman 5.4.2",
        "native-cdi",
        True,
    )
    assert "it needs nothing but the CDI spec" in told["why"]


@pytest.mark.parametrize(
    ("version", "reads"),
    [
        (NEW, "0.8.0"),
        ("4.3.1+ds1-8+deb12u1", "0.5.0"),
        ("5:5.8.0-1", "1.0.0"),
        (OLD, ""),
        (None, ""),
    ],
)
def test_a_podman_counts_as_far_as_it_reads_specs(version: str | None, reads: str) -> None:
    found = podman_detect.find_instances(
        Policy(), podman_detect.read_facts(Policy(), seen_with(version))
    )
    assert [(i.cdi.max_version, bool(i.refusal)) for i in found] == (
        [(reads, not reads)] if version else []
    )


@pytest.mark.parametrize(
    ("version", "code", "values"),
    [
        (None, "engines.none-found", {}),
        (OLD, "podman.no-cdi", {"version": "3.4.4", "needed": "4.1"}),
    ],
)
def test_no_engine_that_can_be_used_is_an_error_and_podman_is_named(
    version: str | None, code: str, values: dict[str, str]
) -> None:
    with pytest.raises(PlanError) as caught:
        refusals.require_engine(Policy(), seen_host.see(Policy(), seen_with(version)).instances)
    assert (caught.value.code, caught.value.values) == (code, values)


TREE = Policy(root="/srv/image", engines=("podman",), engine_version="4.9.3")
IN_A_TREE = [
    # the policy, the version in the tree's package database, the version that counts ("" = there is
    # no Podman)
    (TREE, None, "4.9.3"),
    (TREE, NEW, "5.4.2"),
    (dc.replace(TREE, engines=("containerd", "podman")), None, ""),  # the option is containerd's
    (dc.replace(TREE, engines=("auto",)), None, ""),
    (dc.replace(TREE, root="/"), None, ""),
]


@pytest.mark.parametrize(("policy", "packaged", "version"), IN_A_TREE)
def test_in_a_tree_the_option_says_which_podman_it_is(
    policy: Policy, packaged: str | None, version: str
) -> None:
    found = podman_detect.find_instances(
        policy,
        podman_detect.read_facts(policy, obs(packages={"podman": packaged} if packaged else {})),
    )
    assert [i.version for i in found] == ([version] if version else [])
    assert len(
        consumers.find_podman_consumer(
            policy,
            consumers.read_consumer_facts(obs(packages={"podman": packaged} if packaged else {})),
        )
    ) == len(found)


K3S = instance(refusal=Refusal("k3s writes this configuration"), manager="k3s")
STOPPED = instance(
    "docker", "28.1.1", refusal=Refusal("Docker is installed but not running", kind="stopped")
)
COUNTS = [
    # engines asked for, the other engines, whether Podman is one of its own
    (("auto",), [], True),
    (("auto",), [K3S], True),
    (("auto",), [instance()], False),  # one more reader of the spec that containerd gets
    (("auto", "podman"), [instance()], True),
    (("auto",), [STOPPED], False),  # it is not gone, so nothing takes its place
    (("auto", "podman"), [STOPPED], True),
    (("podman",), [STOPPED], True),
]


@pytest.mark.parametrize(("engines", "others", "counts"), COUNTS)
def test_beside_an_engine_that_is_managed_podman_is_a_reader_only(
    engines: tuple[str, ...], others: list[Instance], counts: bool
) -> None:
    assert podman_detect.counts_as_engine(Policy(engines=engines), others) is counts


@pytest.mark.parametrize(
    "options", [{"injection": "legacy"}, {"injection": "nvidia-runtime"}, {"cdi": "disabled"}]
)
def test_what_podman_cannot_have_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(PlanError) as caught:
        record(Policy(**options), the_podman())
    assert (caught.value.code, caught.value.values["engine"]) == (
        "decision.cdi-only",
        "Podman 5.4.2",
    )


MANAGED = [
    # instances, policy, managed
    ((K3S,), Policy(), False),
    ((K3S, the_podman()), Policy(), True),
    ((instance(),), Policy(), True),
    ((K3S, instance("crio", "1.34.0")), Policy(), True),
]


@pytest.mark.parametrize(("instances", "policy", "managed"), MANAGED)
def test_a_host_that_is_left_alone_is_not_managed_which_is_not_unchanged(
    instances: tuple[Instance, ...], policy: Policy, managed: bool
) -> None:
    made = record(policy, *instances)
    told = host_report.report_host_facts(
        seen_host.SeenHost(instances, ONE_GPU, decide.Kubelet(), made), Plan()
    )["row"]
    assert told["managed"] is managed


# ---------------------------------------------------------------- the verification

IMAGE = "lab/busybox:1"


def verification() -> list[dict[str, Any]]:
    one = the_podman()
    return cases.list_cases(record(Policy(), one), (one,), ONE_GPU, image=IMAGE)


def test_the_verification_asks_as_a_person_would() -> None:
    one, none = verification()
    assert (one["name"], none["name"]) == ("podman: one", "podman: none")
    assert "--device=nvidia.com/gpu=0" in one["run"]
    assert [word for word in none["run"] if word.startswith("--device")] == []
    for case in (one, none):
        assert {"--rm", "--pull=never", "--network=none"} <= set(case["run"])
        assert (case["run"][0], case["image_there"]) == (
            "/usr/bin/podman",
            ["/usr/bin/podman", "image", "exists"],
        )


@pytest.mark.parametrize(
    ("answers", "step", "says"),
    [
        ({"image": "exit 1"}, "image", f"image {IMAGE} is not on this host"),
        (
            {
                "image": "exit 0",
                "run": "echo 'unresolvable CDI devices nvidia.com/gpu=0' >&2; exit 126",
            },
            "run",
            "unresolvable CDI devices",
        ),
        ({"image": "exit 0", "run": "sleep 60"}, "run", "no end within 0.5 s"),
    ],
)
def test_what_the_command_says_is_the_evidence(
    tmp_path: Any, answers: dict[str, str], step: str, says: str
) -> None:
    program = tmp_path / "engine"
    lines = [f"{word}) {act};;" for word, act in answers.items()]
    program.write_text("#!/bin/sh\ncase $1 in\n" + "\n".join(lines) + "\nesac\n")
    program.chmod(0o755)
    case = {
        **verification()[0],
        "run": [str(program), "run"],
        "image_there": [str(program), "image", "exists"],
    }
    request = {
        "cases": [case],
        "timeout": 0.5,
        "phrases": told_words.PHRASES,
        "log_parent": str(tmp_path),
    }
    (answer,) = container_test_entry.run(request)["cases"]
    assert answer["error"]["step"] == step
    assert says in answer["error"]["message"]
    assert (
        evidence.advise_on_case("podman", "native-cdi", evidence.describe_case_failure(answer))
        or step == "run"
    )


def test_of_what_the_command_says_only_known_phrases_are_told(tmp_path: Any) -> None:
    program = tmp_path / "engine"
    words = "Error: login password=S3CR3T https://u:S3CR3T@h/: permission denied"
    program.write_text(f"#!/bin/sh\n[ $1 = image ] || {{ echo '{words}' >&2; exit 125; }}\n")
    program.chmod(0o755)
    case = {
        **verification()[0],
        "run": [str(program), "run"],
        "image_there": [str(program), "image", "exists"],
    }
    (answer,) = container_test_entry.run(
        {"cases": [case], "phrases": told_words.PHRASES, "log_parent": str(tmp_path)}
    )["cases"]
    assert answer["error"] == {"step": "run", "message": "exit status 125: permission denied"}


def test_what_the_shell_in_the_container_says_is_judged(tmp_path: Any) -> None:
    """The nodes of this machine are left out: none of them is there, and the shell answers for a
    container that has what it asked for.
    """
    program = tmp_path / "engine"
    said = "listed|/dev/nvidia0|\\nthere|/dev/nvidia0|ok\\nthere|/dev/nvidiactl|ok\\n"
    program.write_text(f"#!/bin/sh\n[ $1 = image ] || printf '{said}'\n")
    program.chmod(0o755)
    case = {
        **verification()[0],
        "run": [str(program), "run"],
        "image_there": [str(program), "image", "exists"],
    }
    (answer,) = container_test_entry.run({"cases": [case], "log_parent": str(tmp_path)})["cases"]
    assert (answer["ok"], answer["problems"], answer["found"]["/dev/nvidia0"]) == (True, [], "ok")
