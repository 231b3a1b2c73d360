# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove a host: look, decide, start containers through the engine, and judge what they found."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base, transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import node
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.driver import gpus
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Plan, PlanError, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.verify import cases as checks

SPEC = arguments.spec("node_check")


def planner(policy: Policy, obs: Observation) -> base.Outcome:
    if policy.root != "/":
        raise PlanError("a proof starts containers, and nothing runs in another root", where=policy.root, next="run it on the host itself")
    seen = node.see(policy, obs)
    statuses = {i.socket: obs.try_cri(i.socket, pid=i.pid) for i in seen.instances if i.running and i.cri and i.socket}
    switches = gpus.switches(gpus.nodes(obs, gpus.dev_root(policy)))
    return base.Outcome(Plan(), {"seen": seen, "statuses": statuses, "switches": switches})


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.of_task(self, SPEC)
        if not args["image"]:
            raise AnsibleActionFail("image is empty: name an image that is on the host already and has a shell, sleep, rm and mknod")
        way = str(args["transport"])
        _obs, outcome = base.observe_and_plan(self, task_vars or {}, arguments.policy(args), node.questions, planner, way)
        seen: node.Seen = outcome.facts["seen"]
        statuses = outcome.facts["statuses"]
        asked = {"image": args["image"], "evidence_file": args.get("evidence_file", "")}
        cases = checks.cases(seen.record, seen.instances, seen.driver, **asked, statuses=statuses, switches=outcome.facts["switches"])
        common = {
            "changed": False,
            "image": args["image"],
            "decision": dc.asdict(seen.record),
            "skipped_why": checks.nothing_to_prove(seen.record, cases),
        }
        if self._task.check_mode or not cases:
            return {**common, "checks": checks.unproven(cases), "proven": False, "left": []}
        request = {"schema": base.SCHEMA, "cases": cases, "timeout": args["timeout"], "phrases": checks.PHRASES}
        answer = transport.exchange(self, "container_check", request, task_vars or {}, way)
        found = checks.evidence(cases, answer)
        trouble = checks.verdict(found)
        shaped = {**common, "checks": found, "proven": not trouble, "left": answer.get("left") or []}
        return {**shaped, "failed": True, "msg": trouble} if trouble else shaped
