# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the image that fits a host, from facts that are given or from a look at it."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    catalogues,
    host_look,
    registry,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    choose,
    facts,
    look,
)

SPEC = arguments.derive_argument_spec("image_choice_info")


class ActionModule(ActionBase):
    leaves_nothing = True  # not even the compiled form of the programs that look
    _supports_check_mode = True
    _supports_async = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)
        access = (
            registry.Access(args["registry_auth_file"], tuple(args["registry_plain_http"]))
            if args["registry"]
            else None
        )
        # before the host is looked at
        images = catalogues.read_catalogue_images(args["catalogue"], access)
        host, trouble, bare = self._read_host(args, task_vars or {})
        choice = {
            "changed": False,
            "without_gpu": bare,
            "facts": facts.give_host_facts(host),
            **choose.report_choices(images, host, args["gpus"], catalogues.read_archspec_targets()),
        }
        if not choice["problem"]:
            return choice
        problem = f"{choice['problem']}. {trouble}" if trouble else choice["problem"]
        failed = {"failed": True, "msg": problem} if args["nothing_fits"] == "fail" else {}
        return {**choice, "problem": problem, **failed}

    def _read_host(
        self, args: dict[str, Any], task_vars: dict[str, Any]
    ) -> tuple[facts.ImageHost, str, bool]:
        """Return the host, why no image can run on its GPUs, and whether it is certain that it has
        none.
        """
        if args["facts"] is not None:
            return (
                facts.parse_host_facts(args["facts"], catalogues.read_archspec_targets()),
                "",
                False,
            )
        # this module's option of the name is a word, not how many GPUs the host should have
        policy = arguments.build_policy(args, gpus=None)
        if policy.root != "/":  # nothing runs there
            return facts.ImageHost(), run_messages.TREE_WITHOUT_GPU.fill(), False

        def read(obs: Observation) -> tuple[facts.ImageHost, str, bool]:
            return (
                *look.read_image_host(policy, obs, catalogues.read_archspec_targets()),
                look.has_no_gpu(policy, obs),
            )

        host: tuple[facts.ImageHost, str, bool] = host_look.learn(
            self, task_vars, policy, look.list_image_questions(policy), read, str(args["transport"])
        )
        return host
