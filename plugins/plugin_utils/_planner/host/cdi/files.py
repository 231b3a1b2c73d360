# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the host's CDI specs: their kinds, names and directories, and the mark of our own
files.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    AskedQuestions,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    HostDecision,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    fabric_kinds,
    messages,
    other_files,
    placement,
    shared_kinds,
    staleness,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    roots,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    layouts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import (
    host_rules,
    projection,
    rules,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import writer
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    KIND,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.earlier_runs import (
    FACT_PATH,
    EarlierRuns,
    read_earlier_runs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_versions,
)

FILE = "nvidia.yaml"
SPEC_MODE = "0644"  # rootless engines read it as well
MOVED = messages.MOVED.fill()


def list_cdi_directories(policy: Policy) -> tuple[str, ...]:
    """Return the CDI directories, lowest priority first, as engines list them."""
    return policy.cdi_spec_dirs or CDI_DIRS


def get_spec_kind(policy: Policy) -> str:
    vendor = policy.cdi_vendor or (
        other_files.MANAGEMENT
        if policy.cdi_layout == layouts.MANAGEMENT
        else KIND.partition("/")[0]
    )
    return f"{vendor}/{policy.cdi_class}"


def list_spec_kinds(policy: Policy) -> tuple[tuple[str, str], ...]:
    """List kind and layout of each spec that the policy asks for; a file holds one kind."""
    vendor = get_spec_kind(policy).partition("/")[0]
    second = (
        ((f"{vendor}/{policy.cdi_model_class}", layouts.MODELS),) if policy.cdi_model_class else ()
    )
    return (
        (get_spec_kind(policy), policy.cdi_layout),
        *second,
        *shared_kinds.list_shared_kinds(policy, get_spec_kind(policy)),
        *fabric_kinds.list_fabric_kinds(policy),
    )


def has_refresh_kind(policy: Policy) -> bool:
    """Tell whether nvidia-cdi-refresh writes the same kind, so the two would be in each other's
    way.
    """
    return any(name == KIND for name, _layout in list_spec_kinds(policy))


def get_spec_path(policy: Policy, of: str = "") -> str:
    """Return the path of the spec of a kind, by default of the policy's own kind.

    Its directory is the policy's place, else the first directory that survives a reboot. The file
    has upstream's name for upstream's kind, and a name by vendor and class for others.
    """
    lasting = [d for d in list_cdi_directories(policy) if not placement.is_volatile(d)]
    name = of or get_spec_kind(policy)
    file = FILE if name == KIND else f"{name.replace('/', '-')}.yaml"
    return posixpath.join(
        policy.cdi_place or (lasting or list(list_cdi_directories(policy)))[0], file
    )


def list_marks(policy: Policy) -> tuple[str, ...]:
    """Return patterns of files by which a host is known to need no first spec: our record, our
    spec, and any spec where its owner is not chosen yet.
    """
    specs = [f"{d}/*" for d in list_cdi_directories(policy) if policy.cdi_owner == "auto"]
    return (FACT_PATH, get_spec_path(policy), *specs)


def list_directory_questions(policy: Policy) -> list[queries.Question]:
    globs = [
        projection.ask_for_specs(d, list_cdi_directories(policy), roots.list_named_roots(policy))
        for d in list_cdi_directories(policy)
    ]
    themselves = [host_rules.ask_for_spec_path(d) for d in list_cdi_directories(policy)]
    return [
        *globs,
        *themselves,
        *staleness.list_staleness_questions(policy, list_cdi_directories(policy)),
    ]


@dc.dataclass(frozen=True)
class SpecFileFacts:
    """A host's facts about directories of CDI specs.

    asked: the questions that the look has answered. directories: the files of a directory. places:
    what is known of a directory itself, or the error.
    """

    asked: AskedQuestions
    directories: Lookup[str, tuple[ObservedFile, ...]]
    places: Lookup[str, Mapping[str, Any]]
    earlier: EarlierRuns


def read_spec_file_facts(obs: Observation) -> SpecFileFacts:
    return obs.compute_once(
        "CDI specs",
        lambda: SpecFileFacts(
            obs.get_asked(),
            Lookup(lambda directory: obs.list_glob_files(f"{directory}/*")),
            Lookup(lambda path: obs.get_answer_or_error(host_rules.ask_for_spec_path(path))),
            read_earlier_runs(obs),
        ),
    )


def look_into(policy: Policy, facts: SpecFileFacts) -> None:
    """Raise NeedMore for the directories that only an engine's own setting names."""
    facts.asked.require(list_directory_questions(policy))


def advise_on_spec_directories(
    policy: Policy, facts: SpecFileFacts, host: HostDecision
) -> tuple[str, ...]:
    """Return what keeps engines from listing a directory that specs are written to.

    Its owner decides how the directory is made.
    """
    old = [
        d for d in host.decisions if not cdi_versions.has_newer_library(d.engine, d.engine_version)
    ]
    follow = bool(host.decisions) and not old
    words = []
    for directory in dict.fromkeys(
        posixpath.dirname(get_spec_path(policy, name)) for name, _layout in list_spec_kinds(policy)
    ):
        for problem in host_rules.check_spec_directory(directory, facts.places.get(directory)):
            rule = rules.RULES[problem.rule]
            if problem.rule != "directory-link" or not follow:
                remedy = f"{rule.remedy[0].lower()}{rule.remedy[1:]}"
                words.append(
                    messages.DIRECTORY_PROBLEM.fill(
                        directory=directory,
                        problem=problem.message,
                        effect=rule.effect,
                        remedy=remedy,
                    )
                )
    return tuple(words)


def get_seen_file(policy: Policy, facts: SpecFileFacts, wanted: str) -> ObservedFile:
    """Return a file of the directories that were looked at.

    A file that no glob shows is not there.
    """
    for directory in list_cdi_directories(policy):
        for file in facts.directories.get(directory):
            if file.path == wanted:
                return file
    return ObservedFile(wanted, exists=False)


def is_own_spec(file: ObservedFile) -> bool:
    """Tell whether this collection wrote a file, by its first line.

    The host sends that line even if it sends nothing else of the file.
    """
    first = str((file.fault or {}).get("begins") or "") + "\n"
    return (file.content or first).startswith(writer.HEADER)


def list_specs_elsewhere(policy: Policy, facts: SpecFileFacts) -> tuple[ObservedFile, ...]:
    """Return the specs of these kinds that this collection once wrote to another of the
    directories.

    A single module has what its options name: another task may write to that directory. If one
    directory is a link to another one, the file there is the spec itself by a second path, and is
    left out.
    """
    if policy.single:
        return ()
    here = {get_spec_path(policy, name) for name, _layout in list_spec_kinds(policy)}
    names = {posixpath.basename(p) for p in here}
    there = [
        *(
            file
            for directory in list_cdi_directories(policy)
            for file in facts.directories.get(directory)
        ),
        *list_former_files(policy, facts),
    ]
    themselves = list_real_spec_paths(policy, facts)
    others = (file for file in there if file.path not in here and file.real not in themselves)
    return tuple(
        file for file in others if posixpath.basename(file.path) in names and is_own_spec(file)
    )


def list_real_spec_paths(policy: Policy, facts: SpecFileFacts) -> frozenset[str]:
    """Return the paths of the specs of these kinds, without any link on the way.

    Other directories may lead there as well.
    """
    return frozenset(
        get_seen_file(policy, facts, get_spec_path(policy, name)).real
        for name, _layout in list_spec_kinds(policy)
    ) - {""}


def plan_former_spec_removal(facts: SpecFileFacts, file: ObservedFile) -> Plan:
    """Take a spec out of its former place.

    A spec from before this collection is of the same GPUs, so it does not come back: its copy stays
    in the journal.
    """
    if (facts.earlier.originals.get(file.path) or {}).get("existed"):
        return owned_file.plan_owned_file_removal(file, why=MOVED)
    return owned_file.plan_owned_file_restore(facts.earlier, file, why=MOVED, own=True)


def list_former_files(policy: Policy, facts: SpecFileFacts) -> list[ObservedFile]:
    """List the files in the directory of the last run if no engine of today has it.

    The NVIDIA runtime would still read a spec that is left in it. Raise NeedMore if the directory
    was not asked for.
    """
    if policy.single:
        return []
    former = next(iter(placement.clean_spec_directories([facts.earlier.spec_place])), "")
    if not former or set(former) & set("*?[") or former in list_cdi_directories(policy):
        return []
    question = projection.ask_for_specs(former, (former,), roots.list_named_roots(policy))
    facts.asked.require([question])
    return list(facts.directories.get(former))
