# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the handling of other owners' spec files that have our devices.

A file that nvidia-ctk wrote goes. A file that a person wrote stays, or is refused if it hides our
spec.

Specs of upstream's vendor for management containers have no device of this collection. They are
named and stay: a host does not show which container asks for one of their devices, and the spec of
the host would not give it.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Callable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Leftover,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import owned_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_files,
    gpu_operator,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    fabric_kinds,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    stand_ins,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    KIND,
    Spec,
)

# upstream's vendor, with any class (pkg/nvcdi, cmd/nvidia-ctk-installer: CDI_KIND)
MANAGEMENT = "management.nvidia.com"
TAKEN_OVER = (KIND, *fabric_kinds.UPSTREAM)  # what nvidia-ctk's modes nvml, imex and nvswitch write
SOMEBODY = "another person or program"


def plan_spec_at_own_path(policy: Policy, file: ObservedFile, spec: Spec) -> Plan:
    """Plan the handling of a foreign spec at the path of this collection's own.

    A file that cannot be read goes with advice. A file that a person wrote is refused.
    """
    if not file.exists or file.error:
        return Plan()
    if policy.adopt == "never":
        raise build_foreign_spec_error(file)
    if file.fault and file.fault.get("code") in stand_ins.FORMS:
        return Plan(advice=(messages.UNREAD_REPLACED.fill(**describe_unread_file(file)),))
    problem = explain_not_a_spec(file)
    if problem:
        return Plan(advice=(messages.BROKEN_REPLACED.fill(path=file.path, problem=problem),))
    effect = messages.WRITTEN_THERE.fill()
    require_explained(policy, file, effect)
    require_no_chosen_names(policy, file, spec, effect)
    why, tool = messages.CTK_REPLACED.fill(), cdi_files.TOOL
    if spec.kind not in TAKEN_OVER:
        why, tool = describe_replaced(parse_other_spec(file), spec), SOMEBODY
    return Plan(leftovers=(Leftover(tool, file.path, (), True, "adopted", why),))


def describe_replaced(found: Spec | None, spec: Spec) -> Message:
    """Return why a file of another kind is replaced, with what containers lose by that."""
    losses = describe_fewer_devices(found, spec) if found else ""
    if losses:
        return messages.OTHER_KIND_LESS.fill(kind=spec.kind, losses=losses)
    return messages.OTHER_KIND_REPLACED.fill(kind=spec.kind)


def describe_fewer_devices(found: Spec, spec: Spec) -> str:
    """Return what containers no longer get by the names of a file: devices, or device nodes of
    them.

    The result is '' if they lose nothing.
    """
    own, theirs = map_device_nodes(spec), map_device_nodes(found)
    nodes = {name: sorted(theirs[name] - own.get(name, set())) for name in theirs}
    said = [
        f"{name} loses {', '.join(lost)}" if name in own else f"{name} goes"
        for name, lost in nodes.items()
        if lost or name not in own
    ]
    return "; ".join(said)


def map_device_nodes(spec: Spec) -> dict[str, set[str]]:
    """Map each device to its nodes, including the nodes that the file gives to all its devices."""
    return {
        d.name: {node.path for edits in (d.edits, spec.edits) for node in edits.device_nodes}
        for d in spec.devices
    }


def build_foreign_spec_error(file: ObservedFile) -> PlanError:
    """Build the refusal of a file at our path.

    It offers adopt: auto only if that would not refuse the file as well.
    """
    spec = parse_other_spec(file)
    strange = cdi_files.list_unexplained_spec_parts(spec) if spec else ()
    if strange:
        return PlanError(
            messages.IN_OUR_PLACE_WITH.fill(additions=", ".join(strange)), where=file.path
        )
    return PlanError(messages.IN_OUR_PLACE.fill(), where=file.path)


def explain_not_a_spec(file: ObservedFile) -> str:
    """Return why a file is not a CDI spec, '' if it is one."""
    if file.fault:
        return f"line {file.fault.get('line')}: {stand_ins.explain_unsent_file(file.fault)}"
    try:
        spec = reader.parse_spec(file.content or "")
    except ValueError as error:
        return read_error_message(error)
    return "" if spec.devices else messages.NO_DEVICE.fill()


def require_explained(policy: Policy, file: ObservedFile, effect: Message) -> None:
    """Raise PlanError if a spec has what a person added, which would be thrown away with it."""
    spec = parse_other_spec(file)
    strange = cdi_files.list_unexplained_spec_parts(spec) if spec and policy.adopt == "auto" else ()
    if strange:
        what = messages.ADDITIONS_LOST.fill(additions=", ".join(strange), effect=effect)
        raise PlanError(what, where=file.path, next=cdi_files.STEPS[True])


def require_no_chosen_names(
    policy: Policy, file: ObservedFile, spec: Spec, effect: Message
) -> None:
    """Raise PlanError if a spec has names that a person chose for GPUs that are here.

    They would be thrown away with it, and containers are started with them.
    """
    their_spec = parse_other_spec(file)
    names = (
        cdi_files.list_chosen_names(cdi_files.list_lost_device_names(their_spec, spec))
        if their_spec and their_spec.kind == spec.kind and policy.adopt == "auto"
        else ()
    )
    if names:
        what = messages.NAMES_LOST.fill(names=", ".join(names), effect=effect)
        raise PlanError(what, where=file.path, next=cdi_files.suggest_rename_step(names))


def parse_other_spec(file: ObservedFile) -> Spec | None:
    try:
        return reader.parse_spec(file.content or "")
    except ValueError:
        return None


def describe_unread_file(file: ObservedFile) -> dict[str, object]:
    """Return the values of a message: the line at which a file could not be read, and why.

    The host sent nothing of such a file.
    """
    fault = file.fault or {}
    return {
        "path": file.path,
        "line": fault.get("line"),
        "problem": stand_ins.explain_unsent_file(fault),
    }


def plan_other_spec(
    policy: Policy, file: ObservedFile, mine: str, spec: Spec, *, outranked: bool
) -> Plan:
    if not file.path.endswith(reader.SUFFIXES):
        advice = messages.OTHER_ENDING.fill(path=file.path, endings=" and ".join(reader.SUFFIXES))
        return Plan(advice=(advice,) if file.path.endswith(".yml") else ())
    if file.error:
        return Plan(advice=(messages.SPEC_UNREADABLE.fill(path=file.path, problem=file.error),))
    if file.fault:
        if file.fault.get("code") in stand_ins.FORMS:
            return Plan(advice=(messages.UNREAD.fill(**describe_unread_file(file)),))
        problem = f"line {file.fault.get('line')}: {stand_ins.explain_unsent_file(file.fault)}"
        return Plan(advice=(messages.IGNORED.fill(path=file.path, problem=problem),))
    if spec.kind not in (file.content or ""):
        return Plan()
    try:
        other = reader.parse_spec(file.content or "")
    except ValueError as error:
        return Plan(
            advice=(messages.IGNORED.fill(path=file.path, problem=read_error_message(error)),)
        )
    return (
        Plan()
        if other.kind != spec.kind
        else judge_other_spec(policy, file, other, mine, spec, outranked=outranked)
    )


def judge_other_spec(
    policy: Policy, file: ObservedFile, other: Spec, mine: str, spec: Spec, *, outranked: bool
) -> Plan:
    """Plan the handling of another file of our kind: it goes, or it stays next to this
    collection's.

    Raise PlanError if the two cannot be together.
    """
    strange, lost = (
        cdi_files.list_unexplained_spec_parts(other),
        cdi_files.list_lost_device_names(other, spec),
    )
    if (
        policy.adopt == "auto"
        and other.kind in TAKEN_OVER
        and not (strange or lost or file.is_link)
    ):
        why = messages.CTK_BESIDE.fill(mine=mine)
        left = Leftover(cdi_files.TOOL, file.path, (), True, "adopted", why)
        return dc.replace(
            owned_file.plan_owned_file_removal(file, why=why, cause="adoption"), leftovers=(left,)
        )
    why, step = tell_why_kept(policy, file, other.kind, strange, lost)
    left = Leftover(cdi_files.TOOL, file.path, (), not strange, "kept", why, step)
    doubles = sorted(set(other.names) & set(spec.names))
    if not doubles:
        return Plan(leftovers=(left,))
    if outranked:
        return Plan(
            advice=(messages.HIDDEN.fill(path=file.path, device=doubles[0], mine=mine),),
            leftovers=(left,),
        )
    same_directory = posixpath.dirname(file.path) == posixpath.dirname(mine)
    row = messages.DEVICE_DROPPED if same_directory else messages.DEVICE_OUTRANKED
    raise PlanError(
        row.fill(devices=", ".join(doubles), mine=mine, reason=why), where=file.path, next=step
    )


def tell_why_kept(
    policy: Policy, file: ObservedFile, kind: str, strange: tuple[str, ...], lost: tuple[str, ...]
) -> tuple[Message, str]:
    """Return why a file is not taken over, and what ends that. strange: what a person added to it."""
    if strange:
        return messages.KEPT_ADDITIONS.fill(additions=", ".join(strange)), cdi_files.STEPS[True]
    if policy.adopt != "auto":
        return messages.KEPT_BY_OPTION.fill(), cdi_files.STEPS[False]
    if kind not in TAKEN_OVER:
        return messages.KEPT_KIND.fill(kinds=", ".join(TAKEN_OVER)), cdi_files.STEPS[False]
    if file.is_link:
        return messages.KEPT_LINK.fill(target=file.real), messages.REMOVE_LINK.fill(path=file.path)
    return messages.KEPT_NAMES.fill(names=", ".join(lost)), cdi_files.suggest_rename_step(lost)


# ---------------------------------------------------------------- of management containers


def list_management_leftover(
    file: ObservedFile, state: Callable[[str], gpu_operator.State]
) -> tuple[Leftover, ...]:
    """Return what becomes of a spec for management containers, and why; () for any other file.

    Such a spec is made by `nvidia-ctk cdi generate --mode=management` or by a GPU Operator's
    toolkit. state: gives the state of that toolkit. The file is a trace of it.
    """
    management = (
        parse_other_spec(file)
        if file.path.endswith(reader.SUFFIXES) and MANAGEMENT in (file.content or "")
        else None
    )
    if management is None or not management.kind.startswith(f"{MANAGEMENT}/"):
        return ()
    hooks = [
        hook
        for edits in (management.edits, *(d.edits for d in management.devices))
        for hook in edits.hooks
    ]
    operator = any(gpu_operator.is_operator_program(hook.path) for hook in hooks)
    exact = not cdi_files.list_unexplained_spec_parts(management)
    operator_state = state(file.path) if operator else None
    if operator_state and operator_state.counts_as_live:
        return (
            Leftover(
                gpu_operator.TOOL,
                file.path,
                (),
                exact,
                "live",
                operator_state.why,
                gpu_operator.HAND_OVER,
            ),
        )
    names = (
        f"{management.kind}={management.devices[0].name}"
        if len(management.devices) == 1
        else management.kind
    )
    tool, row = (
        (gpu_operator.TOOL, messages.MANAGEMENT_OF_OPERATOR)
        if operator
        else (cdi_files.TOOL, messages.MANAGEMENT_OF_OTHERS)
    )
    step = messages.MANAGEMENT_STEP.fill(kind=management.kind, setting="cdi_layout: management")
    return (Leftover(tool, file.path, (), exact, "kept", row.fill(names=names), step),)
