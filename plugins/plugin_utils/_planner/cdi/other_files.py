# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the handling of other owners' spec files that have our devices.

What nvidia-ctk wrote goes. What a person wrote stays, or is refused if it hides our spec.

Specs of upstream's vendor for management containers have no device of this collection. They are named
and stay: a host does not show which container asks for one of their devices, and the spec of the host
would not give it.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Callable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import owned_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.adoption import cdi_files, gpu_operator
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi import fabric_kinds
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.engine_view import reader
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec import stand_ins
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec.model import KIND, Spec
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Leftover, Plan, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import File

MANAGEMENT = "management.nvidia.com"  # upstream's vendor, with any class (pkg/nvcdi, cmd/nvidia-ctk-installer: CDI_KIND)
TAKEN_OVER = (KIND, *fabric_kinds.UPSTREAM)  # what nvidia-ctk's modes nvml, imex and nvswitch write
SOMEBODY = "somebody else"
REPLACED = "The spec of this host replaces it, and the journal keeps the file"


def at_own_path(policy: Policy, file: File, spec: Spec) -> Plan:
    """Plan the handling of a foreign spec at the path of this collection's own.

    What cannot be read goes with advice. What a person wrote is refused.
    """
    if not file.exists or file.error:
        return Plan()
    if policy.adopt == "never":
        raise refused(file)
    if file.fault and file.fault.get("code") in stand_ins.FORMS:
        return Plan(advice=(f"{unread(file)}. {REPLACED}",))
    problem = no_spec(file)
    if problem:
        return Plan(advice=(f"{file.path} held no readable CDI spec: {problem}. {REPLACED}",))
    require_explained(policy, file, "the spec of this host is written there")
    require_names(policy, file, spec, "the spec of this host is written there")
    why, tool = "nvidia-ctk cdi generate writes this; the spec of this collection replaces it", cdi_files.TOOL
    if spec.kind not in TAKEN_OVER:
        found = parsed(file)
        why, tool = f"it has the place of the kind {spec.kind}. {REPLACED}{fewer(found, spec) if found else ''}", SOMEBODY
    return Plan(leftovers=(Leftover(tool, file.path, (), True, "adopted", why),))


def fewer(found: Spec, spec: Spec) -> str:
    """Return what containers no longer get by the names of a file: devices, or device nodes of them.

    The result is '' if they lose nothing.
    """
    own, theirs = nodes_of(spec), nodes_of(found)
    nodes = {name: sorted(theirs[name] - own.get(name, set())) for name in theirs}
    said = [f"{name} loses {', '.join(lost)}" if name in own else f"{name} goes" for name, lost in nodes.items() if lost or name not in own]
    return f": {'; '.join(said)}" if said else ""


def nodes_of(spec: Spec) -> dict[str, set[str]]:
    """Map each device to its nodes, including the nodes that the file gives to all its devices."""
    return {d.name: {node.path for edits in (d.edits, spec.edits) for node in edits.device_nodes} for d in spec.devices}


def refused(file: File) -> PlanError:
    """Build the refusal of a file at our path.

    It offers adopt: auto only if that would not refuse the file as well.
    """
    found = parsed(file)
    strange = cdi_files.unexplained(found) if found else ()
    mine = f", with {', '.join(strange)}" if strange else ""
    what = f"a file of another tool is in the place of this host's spec{mine}"
    ways = "set gpufleet_cdi_owner: toolkit to leave the spec to its owner, or move the file out of the CDI directories"
    step = ways if strange else f"Set gpufleet_adopt: auto to have it taken over, {ways}"
    return PlanError(what, where=file.path, why="gpufleet_adopt: never leaves it to its owner", next=step)


def no_spec(file: File) -> str:
    """Return why a file is not a CDI spec, '' if it is one."""
    if file.fault:
        return f"line {file.fault.get('line')}: {stand_ins.fault(file.fault)}"
    try:
        found = reader.parse(file.content or "")
    except ValueError as error:
        return str(error)
    return "" if found.devices else "it defines no device"


def require_explained(policy: Policy, file: File, effect: str) -> None:
    """Raise PlanError if a spec has what a person added, which would be thrown away with it."""
    found = parsed(file)
    strange = cdi_files.unexplained(found) if found and policy.adopt == "auto" else ()
    if strange:
        why = f"nvidia-ctk cdi generate does not write that, and {effect}"
        raise PlanError(f"it has {', '.join(strange)}", where=file.path, why=why, next=cdi_files.STEPS[True])


def require_names(policy: Policy, file: File, spec: Spec, effect: str) -> None:
    """Raise PlanError if a spec has names that a person chose for GPUs that are here.

    They would be thrown away with it, and containers are started with them.
    """
    found = parsed(file)
    names = cdi_files.chosen(cdi_files.lost(found, spec)) if found and found.kind == spec.kind and policy.adopt == "auto" else ()
    if names:
        what = f"only it has the devices {', '.join(names)}"
        raise PlanError(what, where=file.path, why=f"containers may ask for them, and {effect}", next=cdi_files.way_out(names))


def parsed(file: File) -> Spec | None:
    try:
        return reader.parse(file.content or "")
    except ValueError:
        return None


def unread(file: File) -> str:
    """Name the line at which a file could not be read, and why. The node sent nothing of such a file."""
    found = file.fault or {}
    return f"{file.path}, line {found.get('line')}: {stand_ins.fault(found)}"


def of_other(policy: Policy, file: File, mine: str, spec: Spec, *, outranks: bool) -> Plan:
    if not file.path.endswith(reader.SUFFIXES):
        advice = f"{file.path} is not read by any engine, since engines read {' and '.join(reader.SUFFIXES)} only; remove or rename it"
        return Plan(advice=(advice,) if file.path.endswith(".yml") else ())
    if file.error:
        return Plan(advice=(f"{file.path} could not be read ({file.error}), so it is not known which devices it defines",))
    if file.fault:
        if file.fault.get("code") in stand_ins.FORMS:
            return Plan(
                advice=(f"{unread(file)}; so it is not known which devices it defines, but engines may read it: {stand_ins.REMEDY}",)
            )
        why = f"line {file.fault.get('line')}: {stand_ins.fault(file.fault)}"
        return Plan(advice=(f"{file.path} is not a CDI spec: {why}; engines ignore it",))
    if spec.kind not in (file.content or ""):
        return Plan()
    try:
        other = reader.parse(file.content or "")
    except ValueError as error:
        return Plan(advice=(f"{file.path} is not a CDI spec: {error}; engines ignore it",))
    return Plan() if other.kind != spec.kind else judged(policy, file, other, mine, spec, outranks=outranks)


def judged(policy: Policy, file: File, other: Spec, mine: str, spec: Spec, *, outranks: bool) -> Plan:
    """Plan the handling of another file of our kind: it goes, or it stays next to this collection's.

    Raise PlanError if the two cannot be together.
    """
    strange, lost = cdi_files.unexplained(other), cdi_files.lost(other, spec)
    if policy.adopt == "auto" and other.kind in TAKEN_OVER and not (strange or lost or file.is_link):
        why = f"nvidia-ctk cdi generate writes this, and {mine} has its devices"
        left = Leftover(cdi_files.TOOL, file.path, (), True, "adopted", why)
        return dc.replace(owned_file.remove(file, why=why, cause="adoption"), leftovers=(left,))
    why = (
        f"it has {', '.join(strange)}, which nvidia-ctk cdi generate does not write"
        if strange
        else "gpufleet_adopt: never leaves it to its owner"
    )
    step = cdi_files.STEPS[bool(strange)]
    if other.kind not in TAKEN_OVER and not strange and policy.adopt == "auto":
        why = f"only files of the kinds {', '.join(TAKEN_OVER)} are taken over"
    elif file.is_link and not strange and policy.adopt == "auto":
        why, step = f"it is a link to {file.real}", f"remove the link {file.path}, and run again"
    elif lost and not strange and policy.adopt == "auto":
        why, step = f"only it has {', '.join(lost)}", cdi_files.way_out(lost)
    left = Leftover(cdi_files.TOOL, file.path, (), not strange, "kept", why, step)
    doubles = sorted(set(other.names) & set(spec.names))
    if not doubles:
        return Plan(leftovers=(left,))
    same_directory = posixpath.dirname(file.path) == posixpath.dirname(mine)
    if not same_directory and not outranks:
        return Plan(advice=(f"{file.path} defines {doubles[0]} as well; {mine} hides it",), leftovers=(left,))
    effect = "engines drop a device that two files of one directory define" if same_directory else f"it outranks {mine} and hides it"
    raise PlanError(f"it defines {', '.join(doubles)}, as {mine} does", where=file.path, why=f"{effect}; {why}", next=step)


# ---------------------------------------------------------------- of management containers


def of_management(file: File, state: Callable[[str], gpu_operator.State]) -> tuple[Leftover, ...]:
    """Return what becomes of a spec for management containers, and why; () for any other file.

    Such a spec is made by `nvidia-ctk cdi generate --mode=management` or by a GPU Operator's
    toolkit. state: gives the state of that toolkit. The file is a trace of it.
    """
    management = parsed(file) if file.path.endswith(reader.SUFFIXES) and MANAGEMENT in (file.content or "") else None
    if management is None or not management.kind.startswith(f"{MANAGEMENT}/"):
        return ()
    hooks = [hook for edits in (management.edits, *(d.edits for d in management.devices)) for hook in edits.hooks]
    operator = any(gpu_operator.installed(hook.path) for hook in hooks)
    exact = not cdi_files.unexplained(management)
    found = state(file.path) if operator else None
    if found and found.counts_as_live:
        return (Leftover(gpu_operator.TOOL, file.path, (), exact, "live", found.why, gpu_operator.HAND_OVER),)
    names = f"{management.kind}={management.devices[0].name}" if len(management.devices) == 1 else management.kind
    tool, again = (gpu_operator.TOOL, "its toolkit is gone, so") if operator else (cdi_files.TOOL, "its author has to know that")
    why = (
        f"containers that watch GPUs may ask for {names}, which no spec of this run defines; {again} nothing updates it for another driver"
    )
    step = f"remove it once no container asks for {management.kind}, or have gpufleet.nvidia.cdi_spec write one (cdi_layout: management)"
    return (Leftover(tool, file.path, (), exact, "kept", why, step),)
