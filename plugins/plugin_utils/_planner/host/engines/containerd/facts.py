# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read all that a plan for a containerd is made from, in one pass."""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
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
    processes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    nvidia_ctk,
    programs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    cdi_support,
    config,
    daemons,
    detected,
    leaves,
    next_boot,
    other_roots,
    served,
    template,
    verify,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.daemons import (
    Daemon,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.own_program import (
    OwnProgram,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import (
    docker,
    known,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import start

# of engines that a version may stand for in another root directory
OTHER_PROGRAMS = (
    "dockerd",
    "crio",
)


@dc.dataclass(frozen=True)
class DaemonFacts:
    """The facts that tell a host's containerds and their releases.

    found: the containerds that the options mean, else all. unverified: root's processes of its name
    that break a rule. start: how its unit starts one that does not run. program: its path, '' if
    there is none. packaged: the version of its package, '' if it is not installed. versions: the
    version that a program prints, '' if none, by the program and whether its daemon runs; if it
    runs, reading raises QueryFailed for a program that could not be run. invocations: the start of
    a unit, by its name. managers: those with a containerd of their own here, running or not.
    templated: those with a person's template. boot_manager: the one that makes the usual file at
    each boot. image_manager: the one that makes the files of the whole host. others: programs of
    other engines that a look has found.
    """

    found: Fact[list[Daemon]]
    unverified: Fact[tuple[Mapping[str, Any], ...]]
    start: Fact[start.Start]
    program: Fact[str]
    packaged: Fact[str]
    versions: Lookup[tuple[OwnProgram, bool], str]
    dumps: cdi_support.Dumps
    invocations: Lookup[str, str]
    managers: Fact[list[Manager]]
    templated: Fact[list[Manager]]
    boot_manager: Fact[Manager | None]
    image_manager: Fact[Manager | None]
    docker: Fact[bool]
    others: Fact[tuple[str, ...]]
    confinement: Lookup[str, ObservedFile]
    boot: next_boot.BootFacts


def read_daemon_facts(policy: Policy, obs: Observation) -> DaemonFacts:
    return DaemonFacts(
        Fact(lambda: daemons.read_containerd_daemons(policy, obs)),
        Fact(lambda: processes.list_unverified_processes(obs, known.DAEMON)),
        Fact(lambda: daemons.read_containerd_unit_start(policy, obs)),
        Fact(lambda: daemons.read_containerd_program(obs)),
        Fact(lambda: daemons.read_containerd_package(obs)),
        Lookup(lambda at: _read_program_version(obs, *at)),
        cdi_support.read_config_dumps(obs),
        Lookup(lambda unit: _read_invocation(obs, unit)),
        Fact(lambda: known.present(obs)),
        Fact(lambda: known.list_managers_with_template(obs)),
        Fact(lambda: known.find_boot_manager(obs, usual=True)),
        Fact(lambda: known.find_image_manager(obs)),
        Fact(lambda: docker.is_docker_here(obs)),
        Fact(lambda: _list_other_programs(obs)),
        served.read_confinement(obs),
        next_boot.read_boot_facts(obs),
    )


def _read_program_version(obs: Observation, program: OwnProgram, runs: bool) -> str:
    asked = obs.get_command if runs else obs.try_command
    return versions.read_version_banner(asked([program.path, "--version"], program.process).stdout)


def _read_invocation(obs: Observation, unit: str) -> str:
    """Return the start of a unit, '' if it has none. Raise NeedMore if no look asked for it.

    Without it a restart could hit a daemon that was restarted meanwhile.
    """
    if not obs.was_unit_asked(unit):
        raise NeedMore([queries.ask_for_units([unit])])
    return obs.get_unit(unit).get("InvocationID", "")


def _list_other_programs(obs: Observation) -> tuple[str, ...]:
    asked = (queries.ask_for_program([name]) for name in OTHER_PROGRAMS)
    other_programs = (obs.get_answer(q).get("found", {}) for q in asked if obs.was_asked(q))
    return tuple(path for paths in other_programs for path in paths.values() if path)


@dc.dataclass(frozen=True)
class ContainerdFacts:
    """A host's facts about containerds, and about what decides over their configurations.

    templates: those from which managers render a configuration, by path. unread: files of
    nvidia-ctk in a directory of drop-ins that the look has met, by that directory. misplaced: its
    file is where no containerd reads it.
    """

    daemons: DaemonFacts
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
    kubelet: kubelet_facts.KubeletFacts
    earlier: earlier_runs.EarlierRuns


def read_containerd_facts(policy: Policy, obs: Observation) -> ContainerdFacts:
    """Return the facts of containerds. A fact that few plans need is read when a plan needs it."""
    own = config.read_config_facts(obs, policy.handlers)
    return ContainerdFacts(
        read_daemon_facts(policy, obs),
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
        kubelet_facts.read_kubelet_facts(obs),
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
