# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge nvidia-ctk's files in CRI-O's configuration: which go, which stay and why, and what a plan
that takes one over needs.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml,
    toml_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Leftover,
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    crio_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    low_level,
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    nvidia_ctk,
    nvidia_ctk_crio,
    sandboxes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    messages as engine_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    checks,
    config,
    messages,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    facts as crio_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    plan as crio_plan,
)

TAKEN_OVER = Message("")


@dc.dataclass(frozen=True)
class FoundFile:
    """A file that holds settings of the tool.

    why: the reason why the file stays, with what changes that. It is empty if the file is taken
    over.
    """

    layer: config.Layer
    judged: nvidia_ctk_crio.JudgedCtkFile
    keys: tuple[str, ...] = ()  # that nothing explains
    why: Message = TAKEN_OVER

    @property
    def path(self) -> str:
        return self.layer.path

    @property
    def tool(self) -> str:
        return (
            nvidia_ctk_crio.OPERATOR
            if nvidia_ctk_crio.is_of_operator(self.layer.handlers)
            else nvidia_ctk_crio.TOOL
        )

    def name_writer(self, mode: str = "") -> Message:
        """Name the writer, as the reason of a plan."""
        of_operator = self.tool == nvidia_ctk_crio.OPERATOR
        row = messages.OPERATOR_WRITES if of_operator else messages.TOOL_WRITES
        return row.fill(mode=mode)


def find_ctk_drop_ins(
    policy: Policy, facts: crio_facts.CrioFacts, force: config.Effective, instance: Instance
) -> tuple[FoundFile, ...]:
    """Find the drop-ins that the tool alone wrote, in the directory that CRI-O reads and in the one
    that it does not read.

    Drop-ins of a GPU Operator's toolkit count once that toolkit is proven to be gone: its own
    cleanup leaves them on CRI-O. Raise PlanError if a file cannot be read.
    """
    where, layers = facts.where.value, facts.files.loaded.value
    own = {where.config, where.drop_in}
    tools = [
        layer
        for layer in layers
        if layer.path not in own and nvidia_ctk_crio.is_ctk_crio_drop_in(*_describe_layer(layer))
    ]
    here = [
        layer
        for layer in tools
        if not nvidia_ctk_crio.is_of_operator(layer.handlers)
        or gpu_operator.is_operator_gone(policy, facts.operator, instance, layer.path)
    ]
    others = tuple(layer for layer in layers if layer not in here and layer.path != where.drop_in)
    known = tuple(
        list_source_candidates(others, force, {name for layer in here for name in layer.handlers})
    )
    drop_ins = tuple(
        _judge_found_file(
            policy, facts.earlier, layer, known, _list_free_handlers(facts, instance, layer)
        )
        for layer in here
    )
    usual = where.directory == f"{releases.CONFIG}.d"
    unread = facts.files.unread.value if usual else None
    return (
        *drop_ins,
        *(
            (_judge_sleeping_file(policy, _judge_found_file(policy, facts.earlier, unread, known)),)
            if unread
            else ()
        ),
    )


def _describe_layer(layer: config.Layer) -> tuple[str, str, Mapping[str, Any]]:
    return posixpath.basename(layer.path), layer.file.content or "", layer.handlers


def _list_nvidia_handlers(layer: config.Layer) -> dict[str, Mapping[str, Any]]:
    """Return the handlers of a file that run NVIDIA's runtime, by name."""
    return {
        n: t
        for n, t in layer.handlers.items()
        if isinstance(t, Mapping) and low_level.is_nvidia_runtime(t.get("runtime_path"))
    }


def list_source_candidates(
    layers: tuple[config.Layer, ...], force: config.Effective, tools: set[str]
) -> Iterator[Mapping[str, Any]]:
    """Yield each table that the tool may have taken for its source's default handler, runc or crun.

    Tables come from the files, and from CRI-O's own output.
    """
    for source in (*(layer.handlers for layer in layers), force.handlers):
        for name, table in source.items():
            if name not in tools and not name.startswith("nvidia") and isinstance(table, Mapping):
                yield table


def _list_free_handlers(
    facts: crio_facts.CrioFacts, instance: Instance, layer: config.Layer
) -> frozenset[str]:
    """Return the handlers that may go with a file even if gpufleet_handlers does not name them.

    These belong to a toolkit container that is gone, and no pod was started with them. Empty if
    CRI-O does not answer: pods may use any.
    """
    if not nvidia_ctk_crio.is_of_operator(layer.handlers):
        return frozenset()
    try:
        return frozenset(layer.handlers) - set(
            sandboxes.count_pods_by_handler(facts.operator.sandboxes, instance, layer.handlers)
        )
    except QueryFailed:  # no answer, so pods may use any of them
        return frozenset()


def _judge_found_file(
    policy: Policy,
    earlier: earlier_runs.EarlierRuns,
    layer: config.Layer,
    known: tuple[Mapping[str, Any], ...],
    free: frozenset[str] = frozenset(),
) -> FoundFile:
    wanted = {h.binary for h in policy.handlers}
    programs = {str(table["runtime_path"]) for table in _list_nvidia_handlers(layer).values()}
    count = len(gpu_operator.HANDLERS) if nvidia_ctk_crio.is_of_operator(layer.handlers) else 1
    judged = nvidia_ctk_crio.judge_ctk_crio_file(layer.data, known, wanted | programs, count)
    keys = (*_get_first_comment(layer.file), *name_layer_keys(layer, judged.unexplained))
    stays = (
        _explain_linked_file(policy, layer.file)
        or _is_back(policy, earlier, layer.file)
        or _explain_kept_file(policy, layer.path, judged, keys, free)
    )
    return FoundFile(layer, judged, keys, stays)


def _get_first_comment(file: ObservedFile) -> tuple[str, ...]:
    """Name the first comment of a file. Empty if it has none.

    The tool writes no comment, so a person wrote it. It would be lost for good once the tool writes
    the file again.
    """
    line = nvidia_ctk.find_first_comment(file.content or "")
    return (f"the comment in line {line}",) if line else ()


def _is_back(
    policy: Policy, earlier: earlier_runs.EarlierRuns, file: ObservedFile
) -> Message | None:
    """Return the reason to leave a file if a file that was taken over exists again. None otherwise,
    and if gpufleet_adopt is never.

    Something writes it at each boot or run, and two writers would overwrite each other's work
    forever.
    """
    kept = earlier.originals_if_asked
    known = kept.get(file.path) or kept.get(file.real or file.path)
    if policy.adopt == "never" or not known or not owned_file.was_taken_away(known):
        return None
    return messages.CRIO_CAME_BACK.fill()


def _explain_linked_file(policy: Policy, file: ObservedFile) -> Message | None:
    """Return the reason to leave a file if it is a symbolic link. None otherwise, and if
    gpufleet_adopt is never.

    A takeover would remove the link's target, and CRI-O does not start if its directory has a link
    to nothing.
    """
    if not file.is_link or policy.adopt == "never":
        return None
    return engine_messages.FILE_OF_TOOL_IS_LINK.fill(target=file.real)


def _explain_kept_file(
    policy: Policy,
    path: str,
    judged: nvidia_ctk_crio.JudgedCtkFile,
    keys: tuple[str, ...],
    free: frozenset[str],
) -> Message:
    """Return the reason why a file is not taken over, with what changes that. It is empty for a
    file that is.
    """
    names = [h.name for h in policy.handlers]
    strange = [name for name in judged.handlers if name not in names and name not in free]
    if policy.adopt == "never":
        return messages.LEFT_TO_OWNER.fill(path=path)
    if not judged.handlers and judged.unexplained == (nvidia_ctk_crio.RUNTIMES,):
        return messages.DECLARES_NO_HANDLER.fill(path=path)
    if keys:
        named_keys = ", ".join(keys)
        return messages.CRIO_UNEXPLAINED.fill(keys=named_keys, drop_in=releases.DROP_IN, path=path)
    if strange:
        return messages.HANDLER_NOT_NAMED.fill(handler=strange[0], path=path)
    if judged.default not in ("", names[0]):
        return messages.OTHER_DEFAULT.fill(default=judged.default, handler=names[0])
    if not is_crio_handler_wanted(policy):
        return messages.HOOK_WANTED.fill(path=path)
    return TAKEN_OVER


def is_crio_handler_wanted(policy: Policy) -> bool:
    return policy.single or not (
        policy.injection == "oci-hook" or (policy.injection == "auto" and policy.cdi == "disabled")
    )


def _judge_sleeping_file(policy: Policy, found: FoundFile) -> FoundFile:
    """Take over a file in the directory that CRI-O does not read, even if its handlers would keep
    it elsewhere.

    Nothing in that directory is in force, so no pod uses it. The policy adopt: never, keys that the
    tool does not explain, and a file that is back still count.
    """
    if (
        policy.adopt == "never"
        or found.keys
        or not found.why
        or found.why.code == messages.CRIO_CAME_BACK.code
    ):
        return found
    return dc.replace(found, why=TAKEN_OVER)


def name_layer_keys(
    layer: config.Layer, paths: tuple[nvidia_ctk_crio.Path, ...]
) -> tuple[str, ...]:
    """Name keys as a person finds them: by name if names are shown, otherwise by line."""
    doc = toml_file.read_toml_file(layer.file)
    shown = {".".join(path) for path in crio_places.PLACES}
    keys = []
    for path in paths:
        general = (
            ".".join((*path[:3], "*", *path[4:]))
            if path[:3] == nvidia_ctk_crio.RUNTIMES and len(path) > 3
            else ".".join(path)
        )
        known = (
            general in shown
            or path == nvidia_ctk_crio.RUNTIMES
            or (path[:3] == nvidia_ctk_crio.RUNTIMES and len(path) == 4)
        )
        keys.append(
            toml.write_dotted_path(path) if known else f"line {toml.find_key_line(doc, path)}"
        )
    return tuple(dict.fromkeys(keys))


# ---------------------------------------------------------------- plans


def list_taken_layers(found: tuple[FoundFile, ...]) -> tuple[config.Layer, ...]:
    return tuple(one.layer for one in found if not one.why)


def require_same_place(
    facts: crio_facts.CrioFacts, instance: Instance, found: tuple[FoundFile, ...],
    desired: crio_plan.DesiredCrio, force: config.Effective,
) -> None:  # fmt: skip
    """Raise PlanError if the replacement of a handler in use has another runtime_root.

    CRI-O looks for a container's state below the present runtime_root of its handler. With another
    one it can stop none of them.
    """
    version = config.parse_crio_minor(instance.version)
    usual = f"/run/{releases.get_default_crio_runtime(version)}"
    for layer in list_taken_layers(found):
        for name, table in layer.handlers.items():
            was, will = (
                str(t.get("runtime_root") or usual)
                for t in (table, desired.handlers.get(name, table))
            )
            if (
                was != will
                and layer.path != nvidia_ctk_crio.UNREAD
                and _is_handler_in_use(facts, instance, name, force)
            ):
                row = messages.STATE_ELSEWHERE
                elsewhere = row.fill(handler=name, present=was, planned=will)
                raise PlanError(elsewhere, where=layer.path)


def _is_handler_in_use(
    facts: crio_facts.CrioFacts, instance: Instance, name: str, force: config.Effective
) -> bool:
    """Tell whether a pod may have been started with the handler. If CRI-O gives no answer, it may
    have been. Raise NeedMore if it was not asked.
    """
    if not instance.running or name not in force.handlers:
        return False
    if force.default == name:
        return True
    answer = crio_facts.get_pods_answer(facts, instance, (name,))
    return "error" in answer or bool(answer.get("pods"))


def list_adoption_patterns(layers: tuple[config.Layer, ...]) -> list[str]:
    """Return patterns for the lines of `crio config` that go with these files."""
    lines = []
    for layer in layers:
        for name, table in layer.handlers.items():
            lines.append(rf"(?:# )?\[crio\.runtime\.runtimes\.{re.escape(name)}\]")
            lines.extend(checks.allow_value_pattern(key, value) for key, value in table.items())
    return lines


def complete_adoption_plan(
    plan: Plan,
    found: tuple[FoundFile, ...],
    edited: tuple[Leftover, ...],
    programs: Mapping[str, str],
    instance: Instance,
    staying: Collection[str],
) -> Plan:
    """Add to the plan what it takes over and what stays.

    programs: those of the wanted handlers after the change. staying: the handlers of the files that
    CRI-O still reads then.
    """
    row, drop_in = messages.CRIO_REPLACED, releases.DROP_IN
    reasons = (
        (one, row.fill(writer=one.name_writer(), drop_in=drop_in)) for one in found if not one.why
    )
    gone = [
        owned_file.plan_owned_file_removal(one.layer.file, why=why, cause="adoption")
        for one, why in reasons
    ]
    expect = {layer.path: layer.file.sha256 for layer in list_taken_layers(found)}
    # a handler in a directory that CRI-O does not read is not the one in force
    retired = tuple(
        (instance.key, name, one.path)
        for one in found
        if not one.why and one.path != nvidia_ctk_crio.UNREAD
        for name in one.layer.handlers
        if name not in programs and name not in staying
    )
    leftovers = (*list_crio_leftovers(found, programs), *edited)
    return merge_plans(
        [plan, *gone, Plan(expect_files=expect, leftovers=leftovers, retired=retired)]
    )


def is_ctk_drop_in_restored(facts: crio_facts.CrioFacts) -> bool:
    """Tell whether state: absent gives back a drop-in of nvidia-ctk's that this collection took
    over, and its handler with it.
    """
    where = facts.where.value
    return any(
        path.startswith(f"{where.directory}/") and path != where.drop_in and kept.get("now") is None
        for path, kept in facts.earlier.originals.items()
        if owned_file.was_taken_away(kept)
    )


def list_crio_leftovers(
    found: tuple[FoundFile, ...], programs: Mapping[str, str] = MappingProxyType({})
) -> tuple[Leftover, ...]:
    return tuple(
        Leftover(one.tool, one.path, one.keys, not one.keys, "kept", one.why)
        if one.why
        else Leftover(
            one.tool,
            one.path,
            one.keys,
            not one.keys,
            "adopted",
            one.name_writer(_note_runtime_mode(_list_nvidia_handlers(one.layer), programs)),
        )  # fmt: skip
        for one in found
    )


def _note_runtime_mode(
    handlers: Mapping[str, Mapping[str, Any]], programs: Mapping[str, str]
) -> str:
    return nvidia_ctk.note_program_mode(
        {name: table.get("runtime_path") for name, table in handlers.items()}, programs
    )


def list_edited_crio_handlers(
    policy: Policy,
    where: config.CrioPaths,
    layers: tuple[config.Layer, ...],
    found: tuple[FoundFile, ...],
    force: config.Effective,
    programs: Mapping[str, str],
) -> tuple[Leftover, ...]:
    """List NVIDIA's handlers in files that have other settings as well: up to 1.17 the tool edits
    the main file.
    """
    names = {h.name for h in policy.handlers}
    apart = {where.drop_in, *(one.path for one in found)}
    known = tuple(list_source_candidates(layers, force, names))
    lines = []
    for layer in layers:
        tables = {
            name: table for name, table in _list_nvidia_handlers(layer).items() if name in names
        }
        if layer.path in apart or not tables:
            continue
        keys = [toml.write_dotted_path((*nvidia_ctk_crio.RUNTIMES, name)) for name in tables]
        keys += (
            [toml.write_dotted_path(nvidia_ctk_crio.DEFAULT)]
            if layer.runtime.get("default_runtime") in tables
            else []
        )
        exact = not any(
            nvidia_ctk_crio.list_unexplained_crio_keys(t, known, {str(t.get("runtime_path"))})
            for t in tables.values()
        )
        tool = (
            nvidia_ctk_crio.TOOL
            if (layer.file.content or "").startswith(nvidia_ctk_crio.WRITER)
            else nvidia_ctk.UNKNOWN
        )
        tool = nvidia_ctk_crio.OPERATOR if nvidia_ctk_crio.is_of_operator(tables) else tool
        why = messages.OVERRIDDEN.fill(mode=_note_runtime_mode(tables, programs))
        lines.append(
            Leftover(
                tool,
                layer.path,
                tuple(keys),
                exact,
                "kept" if policy.adopt == "never" else "adopted",
                why,
            )
        )
    return tuple(lines)
