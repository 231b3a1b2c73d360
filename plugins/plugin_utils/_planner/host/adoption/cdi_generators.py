# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find generators of CDI specs beside this collection and the toolkit's nvidia-cdi-refresh.

The module cdi_refresh handles nvidia-cdi-refresh. A distribution may have a generator of its own,
as NixOS has, which then owns the spec. A unit that runs `nvidia-ctk cdi generate` at boot, as in
Universal Blue's images or a person's, writes over this collection's spec, or writes the same
devices once more. Each is part of its owner's system, so it is named and stays. Of a unit's file
only these words travel.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    AskedQuestions,
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import messages

# ---------------------------------------------------------------- of a distribution


@dc.dataclass(frozen=True)
class Generator:
    """A distribution's own generator of the spec. setting: its switch in the distribution's
    configuration.
    """

    title: str
    output: str
    setting: str

    def build_refusal(self) -> PlanError:
        """Return the error for a host on which this collection would write a second spec."""
        generated = messages.GENERATED.fill(title=self.title, setting=self.setting)
        return PlanError(generated, where=self.output)


# By ID of os-release. nixos/modules/services/hardware/nvidia-container-toolkit in NixOS/nixpkgs.
GENERATORS = {
    "nixos": Generator(
        "NixOS", "/var/run/cdi/nvidia-container-toolkit.json", "hardware.nvidia-container-toolkit"
    )
}


def find_distribution_generator(obs: Observation) -> Generator | None:
    """Return the distribution's generator if its file exists. None otherwise."""
    generator = GENERATORS.get(str((obs.host.get("os_release") or {}).get("ID")))
    return (
        generator
        if generator and obs.get_file(generator.output, file_places.SPEC_VERSION).exists
        else None
    )


# ---------------------------------------------------------------- units

# the first one counts
FOLDERS = (
    "/etc/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
NAME = "CDI units"
PATTERNS = [f"{folder}/{place}*cdi*.service" for folder in FOLDERS for place in ("", "*.wants/")]
UNITS = queries.ask_for_paths(NAME, PATTERNS)
# Bounds keep the search of a long line short. Real units have one or two global flags.
COMMAND = r"nvidia-ctk(?:[ \t]+-[\w=-]{1,64}){0,16}[ \t]+cdi[ \t]+generate"
LONGEST = 1 << 18  # bytes of such a file; real ones have less than a thousand
GENERATES: Keep = {"format": "text", "patterns": [COMMAND]}


def list_generator_questions() -> list[queries.Question]:
    return [UNITS]


@dc.dataclass(frozen=True)
class GeneratorFacts:
    """A host's facts about units that generate CDI specs: files of units, their links, and the
    content of a unit by its path. asked: the questions that the look has answered.
    """

    units: Fact[tuple[Mapping[str, Any], ...]]
    files: Lookup[str, ObservedFile]
    asked: AskedQuestions


def read_generator_facts(obs: Observation) -> GeneratorFacts:
    return GeneratorFacts(
        Fact(lambda: tuple(obs.get_answer(UNITS).get("files") or ())),
        Lookup(obs.get_file),
        obs.get_asked(),
    )


def advise_on_other_generators(facts: GeneratorFacts, but: str) -> tuple[str, ...]:
    """Advise on the other units that generate a spec, are enabled, and are not masked.

    but: the unit to leave out. Raise NeedMore for the files of such units.
    """
    others = [entry for entry in facts.units.value if posixpath.basename(str(entry["path"])) != but]
    wanted = {posixpath.basename(str(entry["path"])) for entry in others if _is_link(entry)}
    files: dict[str, str] = {}
    for entry in (entry for entry in others if not _is_link(entry)):
        files.setdefault(
            posixpath.basename(str(entry["path"])),
            str(entry["path"]) if entry.get("type") == "file" else "",
        )
    enabled = [path for name, path in files.items() if name in wanted and path]
    asked = [queries.ask_for_file(path, GENERATES, max=LONGEST) for path in enabled]
    facts.asked.require(asked)
    # This is advice: a file that cannot be read stops no plan.
    return tuple(
        _describe_generator(path)
        for path in enabled
        if re.search(COMMAND, facts.files.get(path).content or "")
    )


def _is_link(entry: Mapping[str, Any]) -> bool:
    """Tell whether this is the link by which a unit is enabled."""
    return posixpath.dirname(str(entry["path"])).endswith(".wants")


def _describe_generator(path: str) -> str:
    return messages.UNIT_GENERATES.fill(path=path, unit=posixpath.basename(path))
