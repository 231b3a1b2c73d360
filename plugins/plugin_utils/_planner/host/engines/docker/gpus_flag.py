# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find out whether the running dockerd can serve `docker run --gpus`.

It looks for NVIDIA's hook programs when it starts, and never again (moby, devices_nvidia_linux.go
in daemon). A daemon that found none answers `could not select device driver "" with capabilities:
[[gpu]]`, and newer ones `AMD CDI spec not found`. It reports nothing of this, so the times have to
tell: a program's inode is newer than the daemon.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import base_package

HOOK, CDI_HOOK = "/usr/bin/nvidia-container-runtime-hook", "/usr/bin/nvidia-cdi-hook"
CDI_HOOK_SINCE = (29, 2)  # https://github.com/moby/moby/pull/50228
CDI_HOOK_PACKAGED = (1, 17, 0)  # the first release of the toolkit whose base package has it


@dc.dataclass(frozen=True)
class GpusFlagFacts:
    """A host's facts about the programs that dockerd looks for at its start.

    changed: when the inode of each program that is there changed, by its path, as seconds since
    1970. now: the time of the look, by the same clock; 0 if it is not known.
    """

    changed: Fact[Mapping[str, float]]
    now: Fact[float]


def list_hook_questions() -> list[queries.Question]:
    return [queries.ask_for_file(path, content=False) for path in (HOOK, CDI_HOOK)]


def read_hook_facts(obs: Observation) -> GpusFlagFacts:
    def read_changes() -> dict[str, float]:
        answers = {
            path: obs.get_answer(queries.ask_for_file(path, content=False))
            for path in (HOOK, CDI_HOOK)
        }
        return {
            path: float(answer.get("ctime") or 0.0)
            for path, answer in answers.items()
            if answer.get("exists")
        }

    return GpusFlagFacts(Fact(read_changes), Fact(lambda: float(obs.host.get("epoch") or 0.0)))


def list_coming_hooks(
    policy: Policy, packages: base_package.PackageFacts, decision: Decision
) -> frozenset[str]:
    """List the programs that this run's packages bring. Of one that is there already, a daemon has
    found the predecessor.
    """
    if not base_package.installs(policy, packages):
        return frozenset()
    wanted = policy.toolkit_version or packages.candidates.get(base_package.NAME) or ""
    version = versions.parse_engine_version(wanted)
    coming = {CDI_HOOK} if version is None or version.release >= CDI_HOOK_PACKAGED else set()
    return frozenset({*coming, HOOK} if decision.runtime_mode == "legacy" else coming)


def has_missed_hooks(
    facts: GpusFlagFacts,
    coming: frozenset[str],
    series: tuple[int, int],
    active_seconds: float | None,
) -> bool:
    """Tell whether programs for `--gpus` are there or come with this run, and all of them came
    after the daemon began.

    coming: the programs that this run brings. series: Docker's. active_seconds: for how long its
    unit has been active, None if that is not known. A program from the future shows that the clock
    was set back: then its time tells nothing.
    """
    read = (HOOK, CDI_HOOK) if series >= CDI_HOOK_SINCE else (HOOK,)
    now = facts.now.value
    times = {**dict.fromkeys(coming, now), **facts.changed.value}
    changed = [time for path, time in times.items() if path in read]
    if active_seconds is None or not now or not changed or max(changed) > now:
        return False
    return min(changed) > now - active_seconds
