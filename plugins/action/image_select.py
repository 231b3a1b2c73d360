# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the image that fits a host, from facts that are given or from a look at it."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base, catalogues, registry
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.images import choose, facts, look
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation

SPEC = arguments.spec("image_select")
OF_TREE = "A directory tree has no driver and no GPU; give facts instead"


class ActionModule(ActionBase):
    leaves_nothing = True  # not even the compiled form of the programs that look
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.of_task(self, SPEC)
        access = registry.Access(args["registry_auth_file"], tuple(args["registry_plain_http"])) if args["registry"] else None
        images = catalogues.images(args["catalogue"], access)  # before the host is looked at
        host, trouble, bare = self._host(args, task_vars or {})
        found = {
            "changed": False,
            "without_gpu": bare,
            "facts": facts.given(host),
            **choose.result(images, host, args["gpus"], catalogues.targets()),
        }
        if not found["problem"]:
            return found
        problem = f"{found['problem']}. {trouble}" if trouble else found["problem"]
        failed = {"failed": True, "msg": problem} if args["nothing_fits"] == "fail" else {}
        return {**found, "problem": problem, **failed}

    def _host(self, args: dict[str, Any], task_vars: dict[str, Any]) -> tuple[facts.Host, str, bool]:
        """Return the host, why no image can run on its GPUs, and whether it is certain that it has none."""
        if args["facts"] is not None:
            return facts.parsed(args["facts"], catalogues.targets()), "", False
        policy = arguments.policy(args)
        if policy.root != "/":  # nothing runs there
            return facts.Host(), OF_TREE, False

        def read(obs: Observation) -> tuple[facts.Host, str, bool]:
            return (*look.seen(policy, obs, catalogues.targets()), look.has_no_gpu(policy, obs))

        found: tuple[facts.Host, str, bool] = base.learn(self, task_vars, policy, look.questions(policy), read, str(args["transport"]))
        return found
