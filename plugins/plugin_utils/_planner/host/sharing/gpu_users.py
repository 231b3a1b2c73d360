# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The users of a host's GPUs, compared with the policy: containers and services, by the device
nodes that their processes hold open.

The kernel reports them for every engine alike, and for processes that no engine has started. A
container that was given a GPU and has not opened it yet is not seen.
"""

from __future__ import annotations

import contextlib
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    end_with_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    gpu_holders,
    messages,
    modes,
    mps_facts,
    mps_files,
    resource,
    wanted,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.gpu_holders import (
    HOLDERS,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.modes import (
    Modes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.wanted import (
    GpuEntry,
)


def list_gpu_user_questions(policy: Policy) -> list[queries.Question]:
    """Return the question for the holders; [] if no GPU is shared on the host itself.

    A device plugin decides itself how many users its GPUs have.
    """
    return (
        [HOLDERS]
        if wanted.list_host_entries(policy.sharing)
        and policy.root == "/"
        and policy.state != "absent"
        else []
    )


def report_gpu_users(
    policy: Policy, facts: resource.SharingFacts, driver: Driver
) -> list[dict[str, Any]]:
    """Return a row for each GPU of the option: its policy, its users, and what the policy does not
    allow; None if that is not known.
    """
    if not list_gpu_user_questions(policy) or driver.state != "ok":
        return []
    try:
        gpus = modes.get_gpu_modes(facts.modes, driver.gpus, slices=False)
        entries = wanted.parse_sharing(policy.sharing or {})
    except PlanError:  # which is the result's `problem`
        return []
    answer = facts.holders.value
    known = not gpu_holders.explain_unknown_holders(answer)
    minors = {gpu.bus_id: str(gpu.minor) for gpu in driver.gpus}
    gpu_users = []
    for gpu, entry in resolve_user_entries(entries, gpus):
        groups = gpu_holders.map_groups_to_holders(answer, minors.get(gpu.bus, ""))
        users = [
            {"name": gpu_holders.name_holder(group), "pids": pids} for group, pids in groups.items()
        ]
        state = (
            get_daemon_state(facts.mps, mps_files.name_mps_service(gpu.uuid))
            if entry.limits
            else ""
        )
        wrong = "; ".join(
            map(
                end_with_code,
                list_sharing_violations(gpu, entry, [str(user["name"]) for user in users], state),
            )
        )
        row = {
            "gpu": gpu.uuid,
            "bus": gpu.bus,
            "policy": entry.text,
            "compute_mode": gpu.compute_mode,
            "daemon": state,
            "users": users,
        }
        gpu_users.append({**row, "violation": wrong if wrong or known else None})
    return gpu_users


def resolve_user_entries(
    entries: tuple[GpuEntry, ...], gpus: tuple[Modes, ...]
) -> list[tuple[Modes, GpuEntry]]:
    """Return the GPUs with their entries, entry by entry.

    An entry that names no GPU, the result's `problem`, does not hide the others.
    """
    user_entries: dict[str, tuple[Modes, GpuEntry]] = {}
    for entry in entries:
        with contextlib.suppress(PlanError):
            user_entries.update(
                {gpu.uuid: (gpu, of) for gpu, of in modes.resolve_mode_entries((entry,), gpus)[0]}
            )
    return list(user_entries.values())


def list_sharing_violations(
    gpu: Modes, entry: GpuEntry, users: list[str], state: str
) -> list[Message]:
    """List what the policy does not allow. A GPU that a person has closed is left alone."""
    violations: list[Message] = []
    if entry.policy == "dedicated" and len(users) > 1:
        violations.append(
            messages.USERS_ON_DEDICATED.fill(
                number=len(users), users=gpu_holders.join_few_texts(users)
            )
        )
    if gpu.compute_mode == modes.PROHIBITED:
        return violations
    if state and state != "active":
        violations.append(
            messages.DAEMON_NOT_ACTIVE.fill(unit=mps_files.name_mps_service(gpu.uuid), state=state)
        )
    mode = resource.get_asked_mode(entry)
    if mode and gpu.compute_mode != mode:
        violations.append(
            messages.WRONG_MODE.fill(mode=gpu.compute_mode, policy=entry.text, wanted=mode)
        )
    return violations


def get_daemon_state(facts: mps_facts.MpsFacts, unit: str) -> str:
    """Return the state of a unit; '' if it was not asked for, since the plan was refused before."""
    if not facts.asked_units.get(unit):
        return ""
    return facts.units.get(unit).get("ActiveState", "not there")
