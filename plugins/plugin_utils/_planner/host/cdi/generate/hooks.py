# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the host's NVIDIA hook program, the hooks that it knows, and their arguments in a CDI spec.

Other programs read these arguments (containers/toolbox PR 1544).
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries, versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    STANDARD_PATH,
    HostDecision,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Hook,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)

PROGRAM, TOOL = "nvidia-cdi-hook", "nvidia-ctk"
INSTALLED = f"/usr/bin/{PROGRAM}"
# The toolkit container of the GPU Operator brings its own.
PLACES = [*STANDARD_PATH, "/usr/local/nvidia/toolkit"]
QUESTION = queries.ask_for_program([PROGRAM, TOOL], PLACES)
FIRST = (1, 17, 0)  # of nvidia-cdi-hook; nvidia-ctk had the same commands before
# Command -> first release that has it (the folders of cmd/nvidia-cdi-hook at its tag). From 1.18 on
# one that is not known is a warning; before, the container did not start.
SINCE = {
    "create-symlinks": (1, 13, 0),
    "update-ldcache": (1, 13, 0),
    "enable-cuda-compat": (1, 17, 5),
    "disable-device-node-modification": (1, 18, 0),
    "update-application-profile": (1, 20, 0),
}
NEWEST = max(SINCE.values())


@dc.dataclass(frozen=True)
class HookProgram:
    """The hook program as it will be when containers start, and what it knows."""

    path: str
    version: tuple[int, ...] = ()  # () is unknown

    def has_command(self, command: str) -> bool:
        """Tell whether the program has a command.

        A program of unknown version gets only what every release has, since an old one fails on
        what it does not know.
        """
        return self.version >= SINCE[command] if self.version else SINCE[command] < FIRST

    def build_hook(self, command: str, args: Iterable[str] = ()) -> Hook:
        name = posixpath.basename(self.path)
        first = (name, "hook") if name == TOOL else (name,)
        return Hook(
            "createContainer", self.path, (*first, command, *args), ("NVIDIA_CTK_DEBUG=false",)
        )


def list_hook_program_questions(policy: Policy) -> list[queries.Question]:
    return [] if policy.cdi_profile in ("devices", "hookless") else [QUESTION]


@dc.dataclass(frozen=True)
class HookProgramFacts:
    """A host's facts about the toolkit's hook programs, by name, and about its packages."""

    found: Fact[Mapping[str, str]]
    toolkit: packages.ToolkitFacts


def read_hook_program_facts(obs: Observation) -> HookProgramFacts:
    return HookProgramFacts(
        Fact(lambda: obs.get_answer(QUESTION).get("found") or {}),
        packages.read_toolkit_facts(obs),
    )


def find_hook_program(
    policy: Policy, facts: HookProgramFacts, record: HostDecision
) -> HookProgram | None:
    """Find the hook program that is on the host, or will be when this run's packages are installed.

    The result is None if there is none, or if the profile needs none.
    """
    if not list_hook_program_questions(policy):
        return None
    if packages.installs_packages(policy, facts.toolkit, record):
        # a repository that was just added has a new one
        chosen = packages.choose_package_version(policy, facts.toolkit)
        version = parse_hook_release(chosen) or NEWEST
        return HookProgram(INSTALLED if version >= FIRST else f"/usr/bin/{TOOL}", version)
    programs = facts.found.value
    version = parse_hook_release(facts.toolkit.get_version(packages.BASE) or "")
    for name in (PROGRAM, TOOL):
        path = programs.get(name)
        if path:
            return HookProgram(path, version if path.startswith("/usr/bin/") else ())
    return None


def get_toolkit_after_run(
    policy: Policy, facts: HookProgramFacts, record: HostDecision
) -> versions.Version | None:
    """Return the version of the toolkit's packages after this run; None if it is unknown or there
    is none.
    """
    coming = packages.installs_packages(policy, facts.toolkit, record)
    return versions.parse_engine_version(
        (
            packages.choose_package_version(policy, facts.toolkit)
            if coming
            else facts.toolkit.get_version(packages.BASE)
        )
        or ""
    )


def parse_hook_release(version: str) -> tuple[int, ...]:
    parsed = versions.parse_engine_version(version)
    return parsed.release if parsed else ()
