# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove a host: start containers through the engine, and judge what they found.

The decision comes from a look, or from what the module node has planned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base, transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import node
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.kubernetes import dra
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.message_types import end_with_code
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Plan, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.verify import cases as checks
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.verify import handed_on

SPEC = arguments.spec("node_check")


def planner(policy: Policy, obs: Observation) -> base.Outcome:
    if policy.root != "/":
        raise PlanError(messages.ROOT_NOT_RUNNING.fill(), where=policy.root)
    seen = node.see(policy, obs)
    evidence_file = arguments.imitated().get("evidence_file", "")
    proof = handed_on.planned(policy, obs, seen.record, seen.instances, seen.driver, evidence_file=evidence_file)
    claims = node.claims(policy, obs, seen, after=False) if policy.dra else None
    return base.Outcome(Plan(), {"proof": proof, "claims": claims})


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.of_task(self, SPEC)
        if not args["image"]:
            raise PlanError(messages.NO_IMAGE.fill())
        policy, way = arguments.policy(args), str(args["transport"])
        judge = None if args["image_environment"] is None else required(args["image_environment"])
        # The plan of an earlier task does not show the current settings of the kubelet and the engine.
        earlier = None if policy.dra else handed_on.accepted(policy, args["node_result"] or {})
        proof, claims = (earlier, None) if earlier else self._looked(policy, task_vars or {}, way)
        cases = [{**case, "image": args["image"]} for case in proof.cases]
        common = {"changed": False, "image": args["image"], "decision": proof.decision, "skipped_why": proof.skipped_why}
        if judge is not None:
            found, refusal = judge(self, policy, task_vars or {}, way, proof.decision)
            common = {**common, "requirements": found}
            if refusal:
                return {**common, "checks": [], "proven": False, "left": [], "failed": True, "msg": refusal}
        if claims:
            common = {**common, "dra": dra.as_result(claims)}
        if claims and claims.unmet:
            return {**common, "checks": [], "proven": False, "left": [], "failed": True, "msg": end_with_code(dra.refusal(claims))}
        if self._task.check_mode or not cases:
            return {**common, "checks": checks.unproven(cases), "proven": False, "left": []}
        request = {"schema": base.SCHEMA, "cases": cases, "timeout": args["timeout"], "phrases": checks.PHRASES}
        answer = transport.exchange(self, "container_check", request, task_vars or {}, way)
        evidence = checks.evidence(cases, answer)
        trouble = checks.verdict(evidence)
        shaped = {**common, "checks": evidence, "proven": not trouble, "left": answer.get("left") or []}
        return {**shaped, "failed": True, "msg": end_with_code(trouble)} if trouble else shaped

    def _looked(self, policy: Policy, task_vars: dict[str, Any], way: str) -> tuple[handed_on.Proof, dra.Dra | None]:
        _obs, outcome = base.observe_and_plan(self, task_vars, policy, node.questions, planner, way)
        return outcome.facts["proof"], outcome.facts.get("claims")


Judge = Callable[[ActionBase, Policy, dict[str, Any], str, Mapping[str, Any]], tuple[dict[str, Any], str]]


def required(environment: Any) -> Judge:
    """Return a function that compares a host with an image. The image's words are read now.

    Few proofs need it, so its modules are imported here.
    """
    from ansible_collections.gpufleet.nvidia.plugins.action import catalogues
    from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.images import look, preflight

    said = catalogues.said(environment)

    def judge(
        action: ActionBase, policy: Policy, task_vars: dict[str, Any], way: str, decision: Mapping[str, Any]
    ) -> tuple[dict[str, Any], str]:
        def read(obs: Observation) -> dict[str, Any]:
            host, _trouble = look.seen(policy, obs, {})
            return preflight.requirements(said, host, decision, off=preflight.is_switched_off(obs))

        found = base.learn(action, task_vars, policy, [*look.questions(policy), *preflight.questions()], read, way)
        return found, preflight.refusal(found) if found["met"] is False else ""

    return judge
