# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verification as an action: what is sent to the host, and how its answers become a result."""

from __future__ import annotations

import dataclasses as dc
import functools
import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import host_verify
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    host_look,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
    RefusalKind,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Kubelet,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_messages,
    seen_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    kernel_log,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import dra
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    cases,
    evidence,
    handed_on,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    facts,
    look,
)

from tests.unit import gpus, running_host
from tests.unit.builders import obs
from tests.unit.coded import read_coded
from tests.unit.records import ONE_GPU, instance, record
from tests.unit.running_host import Host, HostProcess
from tests.unit.running_hosts import ENGINES, answer_probe, build

CONTAINERD_16 = instance(version="1.6.20")
RUNTIMES = {
    "defaultRuntimeName": "nvidia",
    "runtimes": {"nvidia": {"options": {"SystemdCgroup": True}}},
}
SYSTEMD = {"info": {"config": {"containerd": RUNTIMES}}}


class Stage:
    """An action whose look and whose answers are played."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        driver: Driver = ONE_GPU,
        answer: dict[str, Any] | None = None,
    ) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.answer = answer
        self.claims: dra.Dra | None = None
        self.health: dict[str, Any] = {}
        seen = seen_host.SeenHost(
            (CONTAINERD_16,), driver, Kubelet(), record(Policy(), CONTAINERD_16, driver=driver)
        )
        found = cases.list_cases(
            seen.record, seen.instances, driver, image="", statuses={CONTAINERD_16.socket: SYSTEMD}
        )
        verification = handed_on.Verification(
            found, cases.explain_no_cases(seen.record, found), dc.asdict(seen.record)
        )
        monkeypatch.setattr(
            host_look,
            "observe_and_plan",
            lambda *_arguments: (
                None,
                base.Outcome(
                    Plan(),
                    {
                        "verification": dc.replace(verification, health=self.health),
                        "claims": self.claims,
                    },
                ),
            ),
        )
        monkeypatch.setattr(transport, "run_host_program", self.exchange)

    def exchange(
        self, _action: Any, program: str, request: dict[str, Any], _variables: Any, _way: str
    ) -> dict[str, Any]:
        self.sent.append((program, request))
        good = [
            {"name": c["name"], "ok": True, "problems": [], "error": None} for c in request["cases"]
        ]
        return self.answer or {"schema": 1, "cases": good, "left": []}

    def run(self, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
        action = host_verify.ActionModule.__new__(host_verify.ActionModule)
        action._task = types.SimpleNamespace(
            args={"image": "probe:1", **arguments}, check_mode=check, diff=False, async_val=0
        )
        action._connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir=None))
        action._supports_check_mode = True
        return action.run(None, {})


def test_a_verified_host(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    result = stage.run(timeout=7)
    [(program, request)] = stage.sent
    assert (program, request["timeout"]) == ("container_check", 7)
    assert [(c["name"], c["image"], c["cgroup_parent"]) for c in request["cases"]] == [
        ("containerd: one", "probe:1", "system.slice"), ("containerd: none", "probe:1", "system.slice"),
    ]  # fmt: skip
    assert (
        result["verified"],
        result["changed"],
        result["left"],
        result["skipped_why"],
        "failed" in result,
    ) == (True, False, [], "", False)


AGAIN = [
    # how often each case was started again, whether each is as expected, the cases that a warning names
    ((0, 0), True, ""),
    ((2, 0), True, "containerd: one"),
    ((1, 2), True, "containerd: one, containerd: none"),
    ((2, 0), False, ""),
]


@pytest.mark.parametrize(("again", "ok", "named"), AGAIN)
def test_a_case_that_passes_at_a_later_start_is_warned_of(
    again: tuple[int, ...], ok: bool, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = {"ok": ok, "problems": [], "error": None if ok else {"step": "run", "message": "EOF"}}
    found = [
        {**case, "name": f"containerd: {name}", "again": ["StartContainer: EOF"] * times}
        for name, times in zip(("one", "none"), again, strict=True)
    ]
    result = Stage(monkeypatch, answer={"cases": found}).run()
    assert result["verified"] is ok
    told = [text] if (text := evidence.warn_of_further_starts(result["checks"])) else []
    expected = [("verify.started-again", {"cases": named})] if named else []
    assert [read_coded(text) for text in told] == expected
    assert result.get("warnings", []) == [f"this host: {text} [{text.code}]" for text in told]


def test_a_host_that_is_not_verified_fails_with_the_evidence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = "/dev/nvidia0 was requested and is not in the container"
    answer = {
        "cases": [{"name": "containerd: one", "ok": False, "problems": [problem], "error": None}],
        "left": [{"sandbox": "s"}],
    }
    result = Stage(monkeypatch, answer=answer).run()
    assert (result["failed"], result["verified"], result["left"]) == (
        True,
        False,
        [{"sandbox": "s"}],
    )
    assert result["msg"].startswith(f"2 of 2 checks failed. containerd: one: {problem}.")
    assert result["checks"][0]["advice"]


def test_check_mode_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    result = stage.run(check=True)
    assert stage.sent == []
    assert [(c["name"], c["ok"]) for c in result["checks"]] == [
        ("containerd: one", None),
        ("containerd: none", None),
    ]


def test_a_host_without_gpu_is_not_started_on(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, driver=Driver("none", "", (), "no NVIDIA device on the PCI bus"))
    result = stage.run()
    assert stage.sent == []
    assert (result["verified"], result["checks"]) == (False, [])
    assert "no NVIDIA device on the PCI bus" in result["skipped_why"]


def test_a_host_that_lacks_something_for_claims_is_not_started_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(monkeypatch)
    stage.claims = dra.Dra(
        "gpufleet_dra is true",
        (dra.DraNeed("an engine that resolves CDI devices", False, "it cannot", "Update it"),),
    )
    result = stage.run(dra=True)
    assert stage.sent == []
    assert (result["failed"], result["verified"], result["dra"]["ready"]) == (True, False, False)
    assert "an engine that resolves CDI devices: it cannot. Update it" in result["msg"]
    assert result["msg"].endswith("[kubernetes.claims-required]")


def test_another_root_is_refused() -> None:
    with pytest.raises(PlanError, match="nothing runs in another root"):
        host_verify.plan_host_check(Policy(root="/srv/image"), Observation({}, {}))


NO_GPU = Driver("none", "", (), "no NVIDIA device on the PCI bus")


@pytest.mark.parametrize("kind", ["stopped", "silent", "unverified"])
@pytest.mark.parametrize("driver", [ONE_GPU, NO_GPU])
def test_a_host_whose_engine_starts_no_container_is_not_one_with_nothing_to_verify(
    kind: RefusalKind, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = host_messages.STOPPED_ENGINE.fill(engine="containerd", unit="its unit", states="inactive")
    engine = dc.replace(CONTAINERD_16, running=False, refusal=Refusal(why, kind=kind))
    seen = seen_host.SeenHost((engine,), driver, Kubelet(), record(Policy(), engine, driver=driver))
    monkeypatch.setattr(seen_host, "see", lambda *_arguments: seen)
    if driver is NO_GPU:
        planned = host_verify.plan_host_check(Policy(), obs()).facts["verification"]
        assert NO_GPU.evidence in planned.skipped_why
        return
    with pytest.raises(PlanError) as refused:
        host_verify.plan_host_check(Policy(), obs())
    assert refused.value.code == "engines.stopped"


STOPPED_DOCKER = dc.replace(
    CONTAINERD_16,
    engine="docker",
    config_path="/etc/docker/daemon.json",
    running=False,
    refusal=Refusal(
        host_messages.STOPPED_ENGINE.fill(
            engine="Docker", unit="docker.service", states="inactive"
        ),
        kind="stopped",
    ),
)


@pytest.mark.parametrize("driver", [ONE_GPU, NO_GPU])
def test_a_stopped_engine_beside_a_running_one_is_said(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a host without GPUs nothing is verified, and that is all there is to say."""
    both = (CONTAINERD_16, STOPPED_DOCKER)
    seen = seen_host.SeenHost(both, driver, Kubelet(), record(Policy(), *both, driver=driver))
    monkeypatch.setattr(seen_host, "see", lambda *_arguments: seen)
    log = str(kernel_log.log_question(kernel_log.KERNEL_LOG)["id"])
    cri = {f"cri:Status:{CONTAINERD_16.socket}": SYSTEMD, log: {"value": {"why": "no log"}}}
    planned = host_verify.plan_host_check(Policy(), obs(answers=cri)).facts["verification"]
    assert [(key, get_code(why)) for key, why in planned.not_verified] == (
        [(STOPPED_DOCKER.key, "engines.stopped")] if driver is ONE_GPU else []
    )
    given = handed_on.offer_verification(Policy(), lambda: planned)
    result = {"verification": json.loads(json.dumps(given)), "decision": planned.decision}
    taken = handed_on.accept_verification(Policy(), result)
    assert taken is not None
    assert taken.not_verified == planned.not_verified
    stage = Stage(monkeypatch, driver=driver)
    looked = (None, base.Outcome(Plan(), {"verification": taken, "claims": None}))
    monkeypatch.setattr(host_look, "observe_and_plan", lambda *_arguments: looked)
    shown = stage.run()["not_verified"]
    assert [one["instance"] for one in shown] == [key for key, _why in planned.not_verified]
    assert all(one["why"] for one in shown)


def test_an_empty_image_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Stage(monkeypatch).run(image="")
    assert (found["failed"], found["error"]["code"]) == (True, "host.verify-without-image")


# --- with the result of the task before
# -----------------------------------------------------------------------------------

IMAGE = {"image": "probe:1", "timeout": 1}
PREPARE = {"no_gpu": "prepare"}
CONVERGE = {**PREPARE, "packages": "ignore"}


SICK = {
    "code": "gpu-health.fewer-on-bus",
    "what": "the driver serves 7 GPUs",
    "gpu": "",
    "step": "replace",
    "next": "check the board",
    "source": "files",
    "stops": True,
}
LOGGED, WAITING = {**SICK, "source": "log"}, {**SICK, "stops": False}
# What a look shows of the GPUs, whether containers are started, and whether a warning names a
# finding beside.
HEALTH: list[tuple[list[dict[str, Any]], bool, bool]] = [
    ([], True, False),
    ([SICK], False, False),
    ([{**SICK, "source": "nvml"}], False, False),
    ([LOGGED], True, True),  # the log tells what was
    ([WAITING], True, True),
    ([SICK, LOGGED], False, True),
]


@pytest.mark.parametrize(("found", "started", "warned"), HEALTH)
def test_no_container_is_started_on_gpus_that_are_sick_now(
    monkeypatch: pytest.MonkeyPatch, found: list[dict[str, Any]], started: bool, warned: bool
) -> None:
    stage = Stage(monkeypatch)
    stage.health = {"findings": found}
    result = stage.run()
    assert (bool(stage.sent), result["verified"]) == (started, started)
    assert result["health"] == stage.health
    assert bool(result.get("failed")) is not started
    assert started or result["msg"].endswith("[host.sick-gpus]")
    codes = [text.rpartition(" ")[2] for text in result.get("warnings", ())]
    assert codes == (["[host.gpu-findings]"] if warned else [])


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from running_host.start_process()


def operations(
    host: Host, module: str, **variables: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The result of a role's task, and the request of each time that it went to the host."""
    before = len(host.wire)
    result = host.role_task(module, **variables)
    return result, host.wire[before::2]


VERIFIED = {
    "gpufleet_verify_image": "probe:1",
    "gpufleet_verify_timeout": 1,
    "gpufleet_no_gpu": "prepare",
}
CONVERGED = {**VERIFIED, "gpufleet_packages": "ignore"}


# The played Docker does not restart, so that the containers which a restart would end are asked for
# in a look of its own.
@pytest.mark.parametrize(("name", "looks"), [("containerd", 1), ("docker", 2)])
def test_a_converged_host_with_its_verification_is_two_operations(
    process: HostProcess, name: str, looks: int
) -> None:
    host = build(process, ENGINES[name].copy(), 0o644)
    try:
        changed, several = operations(host, "host", **CONVERGED)
        assert (changed["changed"], changed["verification"], len(several) > 1) == (
            True,
            None,
            True,
        ), changed.get("msg")
        converged, looked = operations(host, "host", **CONVERGED)
        assert (converged["changed"], len(looked)) == (False, looks)
        own, (look, request) = operations(host, "host_verify", **VERIFIED)
        handed, (only,) = operations(
            host, "host_verify", **VERIFIED, gpufleet_verify_host_result=converged
        )
        assert "questions" in look
        assert only == request
        assert handed["decision"] == own["decision"]
        assert handed["health"] == own["health"]
    finally:
        host.close()


def test_a_look_that_no_verification_follows_leaves_its_questions_to_the_verification(
    process: HostProcess,
) -> None:
    host = build(process, ENGINES["containerd"].copy(), 0o644)
    try:
        host.task("host", **CONVERGE)
        converged = host.task("host", **CONVERGE)
        assert converged["verification"]["health"]["log"]["code"] == "gpu-health.log-not-read"
        (looked, _verified) = operations(
            host, "host_verify", **VERIFIED, gpufleet_verify_host_result=converged
        )[1]
        assert "questions" in looked
    finally:
        host.close()


FAILED_ROWS = {
    "index": 0, "bus_id": "0000:17:00.0", "name": "NVIDIA H100 80GB HBM3", "lost": None, "pages_pending": None, "rows_pending": False,
    "rows_failed": True, "links": [], "fabric": None, "slowdown": 0, "recovery": 0, "unread": [],
}  # fmt: skip
XID = "NVRM: Xid (PCI:0000:17:00): 79, pid=7, name=x, said"


def make_sick(host: Host) -> None:
    """Let the kernel log and NVML tell of a sick GPU. Each is asked in a child."""
    told = {"driver_version": "580.95.05", "gpus": [FAILED_ROWS], "errors": []}
    nvml = json.dumps(gpus.nvml(1)["probe:nvml"]["value"])
    answer = functools.partial(answer_probe, nvml, state=told, log=(XID,))
    host.known.insert(0, (f"{sys.executable} -I -S - ", 0, answer, ""))


def test_the_look_of_the_task_before_shows_sick_gpus_to_the_verification(
    process: HostProcess,
) -> None:
    """As in the playbook site: what only the kernel log tells is advice, and what is so now fails
    the host before a container is started.
    """
    host = build(process, ENGINES["containerd, GPU"].copy(), 0o644)
    try:
        host.role_task("host", **CONVERGED)
        make_sick(host)
        converged = host.role_task("host", **CONVERGED)
        assert any(text.endswith("[gpu-health.log-tells]") for text in converged["advice"])
        before = len(host.wire)
        found = host.role_task("host_verify", **VERIFIED, gpufleet_verify_host_result=converged)
        assert host.wire[before:] == []
        assert (found["failed"], found["verified"]) == (True, False)
        assert found["msg"].endswith("[host.sick-gpus]")
        told = [(entry["code"], entry["source"]) for entry in found["health"]["findings"]]
        assert ("gpu-health.rows-failed", "nvml") in told
        assert ("gpu-health.log-tells", "log") in told
    finally:
        host.close()


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({**PREPARE, "cdi": "disabled"}, {}),  # another decision than the one that was handed on
        ({}, {}),
        (PREPARE, {"verification": None}),  # something was changed
        (PREPARE, {"decision": None}),
    ],
    ids=["other options", "fewer options", "changed", "no decision"],
)
def test_what_does_not_hold_for_a_verification_is_looked_at_again(
    process: HostProcess, options: dict[str, Any], more: dict[str, Any]
) -> None:
    host = build(process, ENGINES["containerd"].copy(), 0o644)
    try:
        host.task("host", **CONVERGE)
        converged = {**host.role_task("host", **CONVERGED), **more}
        before = len(host.wire)
        host.task("host_verify", **IMAGE, **options, host_result=converged)
        assert "questions" in host.wire[before]
    finally:
        host.close()


def test_a_verification_holds_for_every_option_that_it_is_made_by() -> None:
    made_by = {field.name for field in dc.fields(Policy)} & set(
        arguments.derive_argument_spec("host_verify")
    )
    assert set(handed_on.OPTIONS) == made_by
    assert made_by <= set(arguments.derive_argument_spec("host"))


def test_a_name_that_no_terminal_shows_as_it_is_is_not_handed_on() -> None:
    case = {"name": "containerd: one", "socket": "/run/a\x1b.sock"}
    assert (
        handed_on.offer_verification(Policy(), lambda: handed_on.Verification([case], "", {}))
        is None
    )


OFFERED = facts.parse_host_facts(
    {"driver": "535.104.05", "gpus": [{"model": "Tesla V100-SXM2-16GB", "device": "0x1db1"}]}, {}
)
IMAGES = [
    # what the image says, whether containers are started
    ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.0"}, True),
    (["NVIDIA_REQUIRE_CUDA=cuda>=12.4"], False),
]


@pytest.mark.parametrize(("environment", "started"), IMAGES)
def test_an_image_that_does_not_fit_is_said_before_a_container_is_started(
    environment: Any, started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(monkeypatch)
    monkeypatch.setattr(host_look, "look_at_host", lambda *_arguments: obs())
    monkeypatch.setattr(look, "read_image_host", lambda *_arguments: (OFFERED, ""))
    result = stage.run(image_environment=environment)
    assert (bool(result.get("failed")), len(stage.sent)) == (not started, int(started))
    assert result["requirements"]["met"] is started
    assert started or "NVIDIA_REQUIRE_CUDA=cuda>=12.4 is not met by cuda 12.2" in result["msg"]


DESCRIBED = [
    # content (None: there is no file), the code
    ("{", "file.not-an-image-description"),
    (None, "file.kind-unreadable"),
]


@pytest.mark.parametrize(("content", "code"), DESCRIBED)
def test_a_file_that_describes_no_image_is_said_before_the_host_is_looked_at(
    content: str | None, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(monkeypatch)
    monkeypatch.setattr(
        host_look, "observe_and_plan", lambda *_arguments: pytest.fail("the host was looked at")
    )
    if content is not None:
        (tmp_path / "image.json").write_text(content)
    found = stage.run(image_environment=str(tmp_path / "image.json"))
    assert (found["failed"], found["error"]["code"]) == (True, code)
