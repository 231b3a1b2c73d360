# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read all that a plan for a containerd is made from, in one pass."""

from __future__ import annotations

import dataclasses as dc
import posixpath

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    nvidia_ctk,
    programs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config,
    detected,
    leaves,
    other_roots,
    template,
    verify,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    cgroup_driver,
)


@dc.dataclass(frozen=True)
class ContainerdFacts:
    """What a host has of containerds, and of what decides over their configurations.

    templates: those from which managers render a configuration, by path. unread: files of
    nvidia-ctk in a directory of drop-ins that the look has met, by that directory. misplaced: its
    file is where no containerd reads it.
    """

    config: config.ConfigFacts
    templates: Lookup[str, ObservedFile]
    detection: detected.DetectionFacts
    others: other_roots.OtherRootFacts
    tags: leaves.TagFacts
    serving: verify.ServingFacts
    unread: Lookup[str, tuple[str, ...]]
    misplaced: Fact[bool]
    operator: gpu_operator.OperatorFacts
    programs: programs.ProgramFacts
    kubelet: cgroup_driver.KubeletFacts
    earlier: earlier_runs.EarlierRuns


def read_containerd_facts(policy: Policy, obs: Observation) -> ContainerdFacts:
    """Return the facts of containerds. What few plans need is read when a plan needs it."""
    own = config.read_config_facts(obs, policy.handlers)
    return ContainerdFacts(
        own,
        template.read_templates(obs),
        detected.read_detection_facts(obs),
        other_roots.read_other_root_facts(obs, own),
        leaves.read_tag_facts(obs, own.keep),
        verify.read_serving_facts(obs),
        Lookup(lambda directory: _list_tool_files(obs, directory)),
        Fact(lambda: _is_misplaced(obs)),
        gpu_operator.read_operator_facts(policy, obs),
        programs.read_program_facts(obs),
        cgroup_driver.read_kubelet_facts(obs),
        earlier_runs.read_earlier_runs(obs),
    )


def _list_tool_files(obs: Observation, directory: str) -> tuple[str, ...]:
    """List the files of nvidia-ctk in a directory, none if no look has asked for it."""
    pattern = posixpath.join(directory, "*.toml")
    if not obs.was_asked(queries.ask_for_glob(pattern, content=False)):
        return ()
    return tuple(
        file.path
        for file in obs.list_glob_files(pattern)
        if posixpath.basename(file.path) == nvidia_ctk.DROP_IN
    )


def _is_misplaced(obs: Observation) -> bool:
    """Tell whether the tool's file is at the wrong place, False if no look has asked for it."""
    asked = queries.ask_for_file(nvidia_ctk.MISPLACED, content=False)
    return obs.was_asked(asked) and obs.is_there(nvidia_ctk.MISPLACED)
