# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The OCI prestart hook file: present if the decision wants it, else removed, since hook and CDI
together inject twice.
"""

from __future__ import annotations

import dataclasses as dc
import json
import posixpath
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    HOOK_BINARY,
    STANDARD_PATH,
    HostDecision,
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    owned_file,
    traits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    hook_files,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    config as crio_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    facts as crio_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    releases as crio_releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.lowering import (
    Decided,
    get_policy_cause,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    messages,
)

NAME = hook_files.NAME
DIRECTORY = crio_releases.HOOKS_DIRS[0]
# The parts of a hook file that may travel: all that this collection's has, and all that the form of
# hooks 0.1.0 has.
KEEP = file_places.keep_places("json", {
    ("version",): "version", ("hook", "path"): "program", ("hook", "args"): "programs", ("hook", "env"): "search paths",
    ("when", "always"): "bool", ("when", "commands"): ["is", [".*"]], ("stages",): "names",
    ("hook",): "program", ("arguments",): "programs", ("annotations",): "names", ("stage",): "names",
})  # fmt: skip


def list_questions(policy: Policy) -> list[queries.Question]:  # noqa: ARG001
    places = [
        queries.ask_for_file(f"{place}/{NAME}", KEEP) for place in (DIRECTORY, hook_files.ADMINS)
    ]
    return [
        *places,
        queries.ask_for_file(HOOK_BINARY, content=False),
        *hook_files.list_hook_file_questions(),
    ]


def build_hook_content(binary: str = HOOK_BINARY) -> dict[str, Any]:
    """Return what NVIDIA's own tool writes, so each tool accepts the other's file
    (pkg/config/ocihook in nvidia-container-toolkit).
    """
    path = (
        STANDARD_PATH
        if posixpath.dirname(binary) in STANDARD_PATH
        else (*STANDARD_PATH, posixpath.dirname(binary))
    )
    return {
        "version": "1.0.0",
        "hook": {
            "path": binary,
            "args": [posixpath.basename(binary), "prestart"],
            "env": ["PATH=" + ":".join(path)],
        },
        "when": {"always": True, "commands": [".*"]},
        "stages": ["prestart"],
    }


def render_hook_file(binary: str = HOOK_BINARY) -> str:
    return json.dumps(build_hook_content(binary), indent=2) + "\n"


def list_hook_directories(facts: crio_facts.CrioFacts, record: HostDecision) -> tuple[str, ...]:
    """Return the directories that CRI-O reads, as in force. It runs the hooks of all of them.

    OpenShift's Machine Config Operator, for one, sets others than the usual one. Releases before
    1.33 leave them out of their status.
    """
    decision = next((d for d in record.decisions if d.engine == traits.CRIO), None)
    if decision is None:
        return (DIRECTORY,)
    binary = str(facts.process.value.get("exe") or "")
    force = facts.settings.get((binary, crio_config.parse_crio_minor(decision.engine_version)))
    return tuple(name for name in force.hooks_dirs if name.startswith("/"))


def list_written_hook_directories(policy: Policy, facts: crio_facts.CrioFacts) -> tuple[str, ...]:
    """Return the directories in which a file to take back may be: the ones that a running CRI-O
    reads, or the usual one.

    CRI-O may be gone, or not answer.
    """
    if policy.root == "/" and facts.process.value:
        answer = facts.answers.get("Status")
        said = None if "error" in answer else crio_config.read_status_settings(answer)
        if said and said.hooks_dirs:
            return tuple(name for name in said.hooks_dirs if name.startswith("/"))
    return (DIRECTORY,)


@dc.dataclass(frozen=True)
class HookFacts:
    """A host's facts about OCI hooks.

    directories: the ones that CRI-O reads by the host's decision. written: the ones in which a file
    of an earlier run may be. configuration: CRI-O's main file. files: hook files by path. programs:
    whether a program is there, by path. scripts: what lies in the directory of the oldest hooks.
    """

    directories: Fact[tuple[str, ...]]
    written: Fact[tuple[str, ...]]
    configuration: Fact[str]
    files: Lookup[str, ObservedFile]
    programs: Lookup[str, bool]
    scripts: Fact[tuple[str, ...]]
    earlier: earlier_runs.EarlierRuns


def read_hook_facts(
    policy: Policy,
    obs: Observation,
    record: HostDecision | None,
    engines: Mapping[str, Any] = MappingProxyType({}),
) -> HookFacts:
    """Return the facts of this room.

    record: the host's decision, None if a plan goes without one. engines: the facts of each engine
    that the look at the host has read, by its name. Those of CRI-O are read here otherwise.
    """
    crio = engines.get(traits.CRIO) or crio_facts.read_crio_facts(policy, obs)
    return HookFacts(
        Fact(lambda: list_hook_directories(crio, record) if record else (DIRECTORY,)),
        Fact(lambda: list_written_hook_directories(policy, crio)),
        Fact(lambda: crio.where.value.config),
        Lookup(lambda path: obs.get_file(path, KEEP)),
        Lookup(
            lambda path: bool(
                obs.get_answer(queries.ask_for_file(path, content=False)).get("exists", True)
            )
        ),
        Fact(lambda: hook_files.read_scripts(obs)),
        earlier_runs.read_earlier_runs(obs),
    )


def plan_hook_file(
    policy: Policy, facts: HookFacts, record: HostDecision, decided: Decided = get_policy_cause
) -> Plan:
    """Plan the host's hook file by the host's decision.

    Raise PlanError if a hook is wanted and CRI-O reads no directory.
    """
    if record.skipped or not record.decisions:
        return Plan()
    wanted = any(d.hook for d in record.decisions)
    read = facts.directories.value
    where = read[0] if read else ""
    if wanted and not where:
        raise PlanError(
            messages.NO_HOOK_DIRECTORY.fill(directory=DIRECTORY),
            where=facts.configuration.value,
        )
    places = {place: f"{place}/{NAME}" for place in (*read, DIRECTORY, hook_files.ADMINS)}
    # A GPU Operator that works writes its file again.
    mine = {
        place: path
        for place, path in places.items()
        if not hook_files.is_live_operator_hook(
            record, get_earlier_hook_program(facts.files.get(path))
        )
    }
    plans = [
        plan_file(policy, facts, path, wanted=wanted and place == where, decided=decided)
        for place, path in mine.items()
    ]
    return merge_plans([*plans, hook_files.list_script_leftovers(facts.scripts.value)])


def plan_file(
    policy: Policy,
    facts: HookFacts,
    path: str,
    *,
    wanted: bool,
    binary: str = HOOK_BINARY,
    decided: Decided = get_policy_cause,
) -> Plan:
    """Plan one hook file. CRI-O watches its directories, so nothing has to be restarted."""
    file = owned_file.require_readable(facts.files.get(path))
    if wanted:
        return plan_present(policy, facts, file, binary)
    if not file.exists:
        return Plan()
    if get_earlier_hook_program(file):
        return plan_gone(policy, facts, file, decided)
    return Plan(advice=(messages.STRANGE_HOOK.fill(path=path),))


def plan_gone(policy: Policy, facts: HookFacts, file: ObservedFile, decided: Decided) -> Plan:
    """Plan to remove our file, or another tool's if it may be taken over.

    An engine that does not answer may need either.
    """
    own = file.path in facts.earlier.originals
    if not own and policy.adopt == "never":
        return Plan(
            leftovers=(hook_files.report_kept_hook(file.path, get_earlier_hook_program(file)),)
        )
    cause = decided()
    why = messages.HOOK_NOT_NEEDED.fill()
    gone = expect_hook_file(
        file, owned_file.plan_owned_file_removal(file, why=why, cause=cause if own else "adoption")
    )
    return (
        gone
        if own
        else dc.replace(
            gone,
            leftovers=(hook_files.report_adopted_hook(file.path, get_earlier_hook_program(file)),),
        )
    )


def plan_present(policy: Policy, facts: HookFacts, file: ObservedFile, binary: str) -> Plan:
    if parse_hook_file(file) == build_hook_content(binary):
        return Plan()
    check_binary(policy, facts, binary)
    key = "hook.path" if file.exists else ""
    before = get_hook_program(file) or None
    why = messages.HOOK_NEEDED.fill()
    return expect_hook_file(
        file,
        owned_file.plan_owned_file(
            file, render_hook_file(binary), key=key, before=before, after=binary, why=why
        ),
    )


def plan_absent(policy: Policy, facts: HookFacts) -> Plan:  # noqa: ARG001
    """Plan to restore the bytes from before, if there were any."""
    places = dict.fromkeys((*facts.written.value, DIRECTORY, hook_files.ADMINS))
    return merge_plans([plan_hook_file_restore(facts, f"{place}/{NAME}") for place in places])


def plan_hook_file_restore(facts: HookFacts, path: str) -> Plan:
    """Plan to give one file back.

    A file that the journal does not know belongs to others, even with the same content.
    """
    file = owned_file.require_readable(facts.files.get(path))
    known = path in facts.earlier.originals
    if file.exists and not known and get_hook_program(file):
        return Plan(advice=(messages.HOOK_NOT_IN_JOURNAL.fill(path=path),))
    plan = owned_file.plan_owned_file_restore(
        facts.earlier,
        file,
        why=messages.HOOK_WITHDRAWN.fill(),
        own=known and bool(get_hook_program(file)),
    )
    return expect_hook_file(file, plan)


def expect_hook_file(file: ObservedFile, plan: Plan) -> Plan:
    return (
        plan
        if plan.empty
        else dc.replace(plan, expect_files={file.path: file.sha256 if file.exists else None})
    )


def parse_hook_file(file: ObservedFile) -> Any:
    try:
        return json_bounds.load_bounded_json(file.content or "null") if file.exists else None
    except ValueError:
        return None


def get_hook_program(file: ObservedFile) -> str:
    """Return the program that a hook file of NVIDIA's shape runs; '' for any other file."""
    data = parse_hook_file(file)
    path = (
        (data.get("hook") or {}).get("path")
        if isinstance(data, dict) and isinstance(data.get("hook"), dict)
        else None
    )
    return path if isinstance(path, str) and data == build_hook_content(path) else ""


def get_earlier_hook_program(file: ObservedFile) -> str:
    """Return the program that a hook file of NVIDIA's runs, in any form that such a file ever had;
    '' for any other file.
    """
    return get_hook_program(file) or hook_files.get_hook_file_program(parse_hook_file(file))


def check_binary(policy: Policy, facts: HookFacts, binary: str) -> None:
    """Raise PlanError if the hook's program does not exist: CRI-O skips such a hook silently, and
    containers would run without GPUs.
    """
    brought = policy.packages == "present" and not policy.single and binary == HOOK_BINARY
    if brought or policy.root != "/" or facts.programs.get(binary):
        return
    raise PlanError(messages.NO_HOOK_PROGRAM.fill(), where=binary)
