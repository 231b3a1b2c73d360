# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the state that NVML reports of a host's GPUs.

A child on the host asks NVML (module_utils/_host/probes/gpu_state.py) and is killed at its time
limit. It is asked in verifications, in rollouts and on request, and never in an everyday look.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import gpus
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    findings,
    messages,
    xids,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health.findings import (
    Finding,
)

NAME = "gpu_state"
SECONDS = 40  # eight GPUs without persistence mode take 20 to 40 s (nvidia-docker#1279)
# A brake that is there in each of these samples lasts.
SAMPLES, PAUSE_SECONDS = 3, 1
# Numbers of nvml.h
LOST, RESET_REQUIRED = 15, 16
# By these, a GPU without a handle is sick: insufficient power, an interrupt that does not come,
# lost, a reset that is due. Any other code, such as 999 (unknown error), says nothing of the GPU.
SICK_CODES = (8, 10, LOST, RESET_REQUIRED)
FABRIC_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
NOT_IN_FABRIC = (1, 2)
COMPLETED = 3
# nvmlClocksEventReasons: bit, sentence, whether the GPU works on
BRAKES: tuple[tuple[int, Sentence, bool], ...] = (
    (0x80, messages.POWER_BRAKE, False),
    (0x40, messages.THERMAL_BRAKE, False),
    (0x20, messages.SOFTWARE_THERMAL, True),
)
# NVML_GPU_FABRIC_HEALTH_MASK_*: shift, width, the values that are bad, sentence, whether the GPU
# works on. Of the configuration, 1 is right and each higher number is one way to be wrong.
FABRIC_HEALTH: tuple[tuple[int, int, range, Sentence, bool], ...] = (
    (0, 0x3, range(1, 2), messages.FABRIC_BANDWIDTH, True),
    (4, 0x3, range(1, 2), messages.FABRIC_ROUTE, False),
    (6, 0x3, range(1, 2), messages.FABRIC_TIMEOUT, False),
    (8, 0xF, range(2, 16), messages.FABRIC_CONFIGURATION, False),
)
Gpu = Mapping[str, Any]


def ask_for_state(policy: Policy, samples: int) -> queries.Question:
    """Ask NVML for the state of the GPUs, on a host on which each GPU has its node: NVML makes
    missing nodes if root asks it.

    samples: of the reasons for lower clocks, a second apart; 0 leaves them out.
    """
    paths, root = gpus.get_gpu_paths(policy), gpus.get_dev_root(policy)
    args = {"library": "", "samples": samples, "pause": PAUSE_SECONDS}
    return queries.ask_where(
        queries.ask_for_probe(NAME, args, timeout=SECONDS),
        absent=[],
        present=[gpus.get_driver_root_path(root, "/dev/nvidiactl"), paths.information],
        each=(paths.information, gpus.get_driver_root_path(root, "/dev/nvidia?")),
    )


def read_state(policy: Policy, obs: Observation) -> dict[str, Any]:
    """Return what NVML says of the GPUs, as results have it. If that is not known, `known` is
    False, and `why` and `code` have the reason.
    """
    question = ask_for_state(policy, 0)
    if not obs.was_asked(question):
        return describe_unknown_state(messages.STATE_NOT_ASKED.fill(), [])
    answer = obs.get_answer_or_error(question)
    error = answer.get("error") or {}
    if error.get("kind") == "timeout":
        silent = Finding(messages.STATE_SILENT.fill(seconds=SECONDS), "", "reboot", "nvml")
        return describe_unknown_state(silent.message, [silent])
    if error:
        cause = str(error.get("message") or "")
        return describe_unknown_state(messages.STATE_UNREADABLE.fill(cause=cause), [])
    value = answer.get("value") or {}
    refused = [e for e in value.get("errors") or () if e.get("gpu") is None]
    if refused:
        cause = f"{refused[0]['call']}: {refused[0]['message']}"
        return describe_unknown_state(messages.STATE_UNREADABLE.fill(cause=cause), [])
    every = list(value.get("gpus") or ())
    told = findings.mark_accepted(
        judge_state(every, value.get("errors") or ()), policy.accepted_findings
    )
    return {
        "known": True,
        "why": "",
        "code": "",
        "gpus": every,
        "findings": findings.convert_findings(told),
    }


def judge_number(state: Mapping[str, Any], served: int) -> list[Finding]:
    """Compare the number of GPUs that NVML has with that of procfs. state: a result."""
    refused = (messages.NOT_OPENED.code, messages.NO_HANDLE.code)  # NVML lists them all the same
    number = len(state["gpus"]) + sum(f["code"] in refused for f in state["findings"])
    if not state["known"] or number >= served:
        return []
    return [Finding(messages.FEWER_IN_NVML.fill(nvml=number, served=served), "", "reset", "nvml")]


def describe_unknown_state(why: Message, found: Sequence[Finding]) -> dict[str, Any]:
    """Return the result for GPUs that NVML says nothing about."""
    told = findings.convert_findings(found)
    return {"known": False, "why": why, "code": why.code, "gpus": [], "findings": told}


def judge_state(every: Sequence[Gpu], errors: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """List what is wrong with GPUs by their state. errors: of GPUs that NVML gives no handle of."""
    unopened = [judge_refused_gpu(error) for error in errors]
    per_gpu: tuple[Callable[[Gpu], list[Finding]], ...] = (
        judge_loss,
        judge_memory,
        judge_fabric,
        judge_brakes,
        list_unread_values,
    )
    told = [finding for gpu in every for judge in per_gpu for finding in judge(gpu)]
    return [*unopened, *told, *judge_links(every)]


def judge_refused_gpu(error: Mapping[str, Any]) -> Finding:
    """Return the finding about a GPU that NVML gives no handle of. Whether it is sick shows only a
    code that says so.
    """
    if error.get("code") not in SICK_CODES:
        number, cause = str(error.get("gpu")), error.get("message")
        return Finding(messages.NOT_OPENED.fill(index=number, cause=cause), number, "none", "nvml")
    step: xids.Step = "reset" if error.get("code") == RESET_REQUIRED else "reboot"
    message = messages.NO_HANDLE.fill(index=error.get("gpu"), cause=error.get("message"))
    return Finding(message, str(error.get("gpu")), step, "nvml")


def judge_loss(gpu: Gpu) -> list[Finding]:
    """Judge whether the driver says that a GPU is lost, or what it has to have done."""
    bus, action = str(gpu.get("bus_id") or ""), gpu.get("recovery")
    step = xids.RECOVERY.get(action, "support") if action else "none"
    if step != "none":
        return [Finding(messages.RECOVERY_DUE.fill(gpu=bus, action=action), bus, step, "nvml")]
    if gpu.get("lost") == RESET_REQUIRED:
        return [Finding(messages.RESET_REQUIRED.fill(gpu=bus), bus, "reset", "nvml")]
    if gpu.get("lost"):
        return [Finding(messages.GPU_LOST.fill(gpu=bus), bus, "reboot", "nvml")]
    if not bus and not gpu.get("name"):  # each GPU has both, whatever else it lacks
        number = str(gpu.get("index"))
        return [Finding(messages.SILENT_GPU.fill(index=number), number, "reboot", "nvml")]
    return []


def judge_memory(gpu: Gpu) -> list[Finding]:
    """Judge pages and rows of memory. One that waits for a reset works until then (NVIDIA's "GPU
    memory error management"); one that cannot be remapped any more has the GPU replaced.
    """
    bus = str(gpu.get("bus_id") or "")
    rows: tuple[tuple[str, Sentence, xids.Step, bool], ...] = (
        ("rows_failed", messages.ROWS_FAILED, "replace", False),
        ("rows_pending", messages.ROWS_PENDING, "reset", True),
        ("pages_pending", messages.PAGES_PENDING, "reset", True),
    )
    return [
        Finding(row.fill(gpu=bus), bus, step, "nvml", waits)
        for key, row, step, waits in rows
        if gpu.get(key)
    ]


def judge_fabric(gpu: Gpu) -> list[Finding]:
    """Judge the GPU's part in an NVLink fabric. A GPU without one has no state, or 0."""
    bus, fabric = str(gpu.get("bus_id") or ""), gpu.get("fabric") or {}
    state = fabric.get("state")
    if state in NOT_IN_FABRIC:
        said = messages.FABRIC_NOT_JOINED.fill(gpu=bus, state=FABRIC_STATES[int(state)])
        return [Finding(said, bus, "fabric", "nvml")]
    if state != COMPLETED:
        return []
    if fabric.get("status"):
        failed = messages.FABRIC_FAILED.fill(gpu=bus, status=fabric["status"])
        return [Finding(failed, bus, "fabric", "nvml")]
    mask = int(fabric.get("health") or 0)
    return [
        Finding(row.fill(gpu=bus), bus, "reset", "nvml", waits)
        for shift, width, bad, row, waits in FABRIC_HEALTH
        if mask >> shift & width in bad
    ]


def list_unread_values(gpu: Gpu) -> list[Finding]:
    """List the finding about values that NVML did not tell. They are neither well nor sick."""
    bus = str(gpu.get("bus_id") or gpu.get("index"))
    failed = list(gpu.get("unread") or ())
    if not failed:
        return []
    calls = ", ".join(f"{failure['call']}: {failure['message']}" for failure in failed)
    return [Finding(messages.VALUES_UNREAD.fill(gpu=bus, calls=calls), bus, "none", "nvml")]


def judge_brakes(gpu: Gpu) -> list[Finding]:
    """Judge the reasons for lower clocks that were there in each sample."""
    bus, reasons = str(gpu.get("bus_id") or ""), int(gpu.get("slowdown") or 0)
    return [
        Finding(row.fill(gpu=bus), bus, "replace", "nvml", waits)
        for bit, row, waits in BRAKES
        if reasons & bit
    ]


def judge_links(every: Sequence[Gpu]) -> list[Finding]:
    """Judge NVLinks that are down by those of the host's other GPUs of the same model.

    A board without a bridge has all of its links down and is well (NVSentinel#1481); one with a
    bridge has some up. So a GPU counts that has fewer links up than its peers, and more than none,
    or that is made for a fabric: an SXM module.
    """
    told = [gpu for gpu in every if gpu.get("links") is not None and gpu.get("name")]
    most: dict[str, int] = collections.defaultdict(int)
    for gpu in told:
        most[str(gpu.get("name"))] = max(most[str(gpu.get("name"))], count_links_up(gpu))
    lacking = (
        (gpu, count_links_up(gpu), most[str(gpu.get("name"))])
        for gpu in told
        if count_links_up(gpu) or "SXM" in str(gpu.get("name"))
    )
    return [
        Finding(
            messages.LINKS_DOWN.fill(gpu=gpu.get("bus_id") or "", up=up, peers=peers),
            str(gpu.get("bus_id") or ""),
            "reset",
            "nvml",
        )
        for gpu, up, peers in lacking
        if up < peers
    ]


def count_links_up(gpu: Gpu) -> int:
    return sum(bool(up) for up in gpu.get("links") or ())
