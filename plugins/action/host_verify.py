# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify a host: start containers through the engine, and judge what they found.

The decision comes from a look, or from what the module host has planned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    host_look,
    messages,
    role_variables,
    transport,
    unreadable_variables,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_plan,
    refusals,
    seen_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    findings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import dra
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    evidence,
    handed_on,
    told_words,
    verified_health,
)

SPEC = arguments.derive_argument_spec("host_verify")
ROOT = "gpufleet_root"
SHOWN = 3  # findings that a sentence names


def plan_host_check(policy: Policy, obs: Observation) -> base.Outcome:
    """Plan the cases that verify a host.

    Raise PlanError for a directory tree, where nothing runs, and for a host with GPUs whose engine
    does not run.
    """
    if policy.root != "/":
        raise PlanError(messages.ROOT_NOT_RUNNING.fill(), where=policy.root)
    host = seen_host.see(policy, obs)
    evidence_file = arguments.get_imitated_places().get("evidence_file", "")
    verification = handed_on.plan_verification(
        policy,
        handed_on.read_verification_facts(policy, obs),
        host.record,
        host.instances,
        host.driver,
        evidence_file=evidence_file,
        health=verified_health.report_verified_health(
            policy, verified_health.read_verified_health_facts(policy, obs), host
        ),
    )
    if not verification.cases and not host.record.skipped:
        refusals.require_engine_to_verify(policy, host.instances)
    claims = (
        host_plan.judge_claims(policy, dra.read_dra_facts(obs), host, after=False)
        if policy.dra
        else None
    )
    return base.Outcome(Plan(), {"verification": verification, "claims": claims})


def list_check_questions(policy: Policy) -> list[queries.Question]:
    """List the questions for the verification, and for the health of the GPUs."""
    path = arguments.get_imitated_places().get("kernel_log", "")
    return [
        *seen_host.list_host_questions(policy),
        *verified_health.list_health_questions(policy, path),
    ]


def explain_sick_gpus(health: Mapping[str, Any]) -> str:
    """Return why no container is started on a host whose GPUs are sick now; '' if none is."""
    sick = findings.list_present_findings(health)
    if not sick:
        return ""
    said = names.show_few_texts(findings.name_findings(sick), SHOWN, "; ")
    return end_with_code(messages.SICK_GPUS.fill(found=said, step=str(sick[0].get("next") or "")))


def list_health_warnings(health: Mapping[str, Any]) -> list[str]:
    """Return the warning about what is wrong with GPUs and starts containers all the same: lines of
    the kernel log, and what can wait. [] if there is nothing.
    """
    present = findings.list_present_findings(health)
    rest = [entry for entry in health.get("findings") or () if entry not in present]
    if not rest:
        return []
    said = names.show_few_texts(findings.name_findings(rest), SHOWN, "; ")
    step = str(rest[0].get("next") or "")
    return [end_with_code(messages.GPU_FINDINGS.fill(found=said, step=step))]


def shape_warnings(subject: str, told: Sequence[str]) -> dict[str, Any]:
    """Return what a result has of warnings about a host, {} without any."""
    return {"warnings": [f"{subject}: {text}" for text in told]} if told else {}


def require_running_host(action: ActionBase, task_vars: Mapping[str, Any]) -> None:
    """Raise PlanError if the role is told that the host is a directory tree.

    The module has no option for that. Verification of the machine that has the tree would pass for
    one of the tree's host.
    """
    if ROOT not in task_vars or not arguments.is_role_task(action._task):
        return
    rendered = unreadable_variables.Rendered(task_vars, action._templar.template)
    for root in role_variables.list_values(ROOT, rendered, task_vars):
        if root not in ("", "/", None):
            raise PlanError(messages.ROOT_NOT_RUNNING.fill(), where=str(root))


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        require_running_host(self, task_vars or {})
        args = arguments.read_task_options(
            self, SPEC, role_variables.read_role_options(self, SPEC, task_vars or {})
        )
        if not args["image"]:
            raise PlanError(messages.NO_IMAGE.fill())
        policy, way = arguments.build_policy(args), str(args["transport"])
        judge = (
            None
            if args["image_environment"] is None
            else build_image_judge(args["image_environment"])
        )
        # The plan of an earlier task does not show the current settings of the kubelet and the
        # engine.
        earlier = (
            None if policy.dra else handed_on.accept_verification(policy, args["host_result"] or {})
        )
        verification, claims = (
            (earlier, None) if earlier else self._look(policy, task_vars or {}, way)
        )
        cases = [{**case, "image": args["image"]} for case in verification.cases]
        common = {
            "changed": False,
            "image": args["image"],
            "decision": verification.decision,
            "skipped_why": verification.skipped_why,
            "health": verification.health,
            "not_verified": [
                {"instance": key, "why": end_with_code(why)}
                for key, why in verification.not_verified
            ],
        }
        refusals_of_host = []
        if judge is not None:
            requirements, refusal = judge(self, policy, task_vars or {}, way, verification.decision)
            common = {**common, "requirements": requirements}
            refusals_of_host.append(refusal)
        if claims:
            common = {**common, "dra": dra.report_dra(claims)}
            refusals_of_host.append(end_with_code(dra.explain_dra_refusal(claims)))
        refusals_of_host.append(explain_sick_gpus(verification.health))
        refusal = next(filter(None, refusals_of_host), "")
        told = list_health_warnings(verification.health)
        subject = (task_vars or {}).get("inventory_hostname") or "this host"
        common = {**common, **shape_warnings(subject, told)}
        if refusal:
            nothing = {"checks": [], "verified": False, "left": []}
            return {**common, **nothing, "failed": True, "msg": refusal}
        if self._task.check_mode or not cases:
            return {
                **common,
                "checks": evidence.list_unverified_cases(cases),
                "verified": False,
                "left": [],
            }
        request = {
            "schema": host_look.SCHEMA,
            "cases": cases,
            "timeout": args["timeout"],
            "phrases": told_words.PHRASES,
            "again": told_words.AGAIN,
        }
        answer = transport.run_host_program(self, "container_check", request, task_vars or {}, way)
        checks = evidence.list_case_evidence(cases, answer)
        trouble = evidence.describe_unverified(checks)
        late = evidence.warn_of_further_starts(checks)
        told += [end_with_code(late)] if late else []
        shaped = {
            **common,
            "checks": checks,
            "verified": not trouble,
            "left": answer.get("left") or [],
            **shape_warnings(subject, told),
        }
        return {**shaped, "failed": True, "msg": end_with_code(trouble)} if trouble else shaped

    def _look(
        self, policy: Policy, task_vars: dict[str, Any], way: str
    ) -> tuple[handed_on.Verification, dra.Dra | None]:
        _obs, outcome = host_look.observe_and_plan(
            self, task_vars, policy, list_check_questions, plan_host_check, way
        )
        return outcome.facts["verification"], outcome.facts.get("claims")


Judge = Callable[
    [ActionBase, Policy, dict[str, Any], str, Mapping[str, Any]], tuple[dict[str, Any], str]
]


def build_image_judge(environment: Any) -> Judge:
    """Return a function that compares a host with an image. The image's words are read now.

    Few verifications need it, so its modules are imported here.
    """
    from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import catalogues
    from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
        look,
        preflight,
    )

    said = catalogues.read_own_description(environment)

    def judge(
        action: ActionBase,
        policy: Policy,
        task_vars: dict[str, Any],
        way: str,
        decision: Mapping[str, Any],
    ) -> tuple[dict[str, Any], str]:
        def read(obs: Observation) -> dict[str, Any]:
            host, _trouble = look.read_image_host(policy, obs, {})
            return preflight.judge_image_requirements(
                said, host, decision, off=preflight.is_switched_off(obs)
            )

        requirements = host_look.learn(
            action,
            task_vars,
            policy,
            [*look.list_image_questions(policy), *preflight.list_preflight_questions()],
            read,
            way,
        )
        return requirements, preflight.explain_preflight_refusal(requirements) if requirements[
            "met"
        ] is False else ""

    return judge
