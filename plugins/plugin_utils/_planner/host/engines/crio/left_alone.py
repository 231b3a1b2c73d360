# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say why a CRI-O is left alone: it is silent or stopped, or another tool has the last word in its
files.
"""

from __future__ import annotations

import posixpath

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import refusals
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    nvidia_ctk_crio,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    adoption,
    config,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    facts as crio_facts,
)

# The methods that a CRI-O that serves answers.
METHODS = ("Status", "Version")


def has_crio_answered(facts: crio_facts.CrioFacts) -> bool:
    """Tell whether CRI-O answers all of them."""
    answers = (facts.answers.get(method) for method in METHODS)
    return all(answer and "error" not in answer for answer in answers)


def refuse_silent_crio(facts: crio_facts.CrioFacts, unit: str) -> Refusal:
    """Refuse a CRI-O that does not answer: without an answer its settings, and its chances to
    survive a change, are unknown.
    """
    asked = (facts.answers.get(method) for method in METHODS)
    given = (str(a["error"].get("message") or "") for a in asked if "error" in a)
    reason = next(given, "") or messages.CRIO_NO_REASON.fill()
    socket = facts.where.value.socket
    silent = messages.CRIO_SILENT.fill(socket=socket, reason=reason, unit=unit)
    return Refusal(silent, kind="silent")


def refuse_stopped_crio(facts: crio_facts.CrioFacts, unit: str) -> Refusal:
    """Refuse an installed CRI-O that does not run. If it cannot read a file, the likeliest cause,
    the refusal names that file.
    """
    try:
        facts.files.loaded.read()
    except PlanError as broken:
        place = f"{broken.where}:{broken.line}" if broken.line else broken.where
        problem, step = broken.message.drop_step(), broken.next
        cause = messages.STOPPED_BY_FILE.fill(place=place, problem=problem, step=step)
        return Refusal(cause, kind="stopped")
    return refusals.refuse_stopped_unit(facts.units.get(unit), "CRI-O", unit)


def find_overriding_configurator(
    policy: Policy,
    facts: crio_facts.CrioFacts,
    found: tuple[adoption.FoundFile, ...],
    instance: Instance,
) -> tuple[str, Refusal]:
    """Return (tool, refusal) if a file of NVIDIA's own configurator overrides our drop-in and is
    not taken over.

    CRI-O reads that file after our drop-in, so it replaces our handler, and we leave the engine
    alone. ('', Refusal()) otherwise.
    """
    names = {h.name for h in policy.handlers}
    for path in facts.files.paths.value:
        if not nvidia_ctk_crio.NAMES.fullmatch(posixpath.basename(path)):
            continue
        layer = facts.files.drop_ins.get(path)
        if layer and (names & set(layer.handlers) or "default_runtime" in layer.runtime):
            operator = nvidia_ctk_crio.is_of_operator(layer.handlers)
            by = gpu_operator.TITLE if operator else "nvidia-ctk"
            left = next((one for one in found if one.path == path), None)
            if left and not left.why:
                continue
            toolkit = (
                gpu_operator.judge_operator_state(policy, facts.operator, [instance], (path,))
                if operator and not left
                else None
            )
            if toolkit and toolkit.counts_as_live:
                return nvidia_ctk_crio.OPERATOR, gpu_operator.refuse_operator_instance(
                    facts.operator, instance, toolkit
                )
            if left:
                reason, step = left.why.drop_step(), left.why.next
                row = messages.NOT_TAKEN_OVER
                written = row.fill(path=path, tool=by, reason=reason, step=step)
            else:
                written = messages.WRITTEN_BY_TOOL.fill(path=path, tool=by)
            name = nvidia_ctk_crio.OPERATOR if operator else nvidia_ctk_crio.TOOL
            return name, Refusal(written)
    return "", Refusal()


def find_crio_leftover_files(
    policy: Policy, facts: crio_facts.CrioFacts, force: config.Effective, instance: Instance
) -> tuple[adoption.FoundFile, ...]:
    """Find the files that the tool wrote. Empty if a file cannot be read: nothing is taken over
    then, and the plan names that file.
    """
    try:
        return adoption.find_ctk_drop_ins(policy, facts, force, instance)
    except PlanError:
        return ()
