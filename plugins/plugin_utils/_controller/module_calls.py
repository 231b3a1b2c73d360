# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run modules and programs on the machine where a task runs."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    draining_messages,
    messages,
    online,
    own_account,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    drain,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text.sentences import (
    get_last_line,
)


@dc.dataclass(frozen=True)
class Calls:
    """The way to the machine where the task runs."""

    action: ActionBase
    variables: Mapping[str, Any]
    # the variable that names the machine where the task runs
    delegate: str = "gpufleet_drain_delegate"

    def run_module(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        check: bool = False,
        seconds: float = online.CALL,
    ) -> dict[str, Any]:
        """Run a module on that machine.

        check: run it in check mode, regardless of the task's own mode. The callers know which call
        only reads, and which one only tries.
        """
        task = self.action._task
        before, task.check_mode = task.check_mode, check
        own_account.keep_own_account(self.action, self.variables)
        try:
            with online.interrupt_after(seconds, name, drain.OutOfReach):
                return dict(
                    self.action._execute_module(
                        module_name=name,
                        module_args=dict(arguments),
                        task_vars=dict(self.variables),
                    )
                )
        except AnsibleConnectionFailure as error:
            # Not "unreachable", which a play may ignore: the change would go on, on a host that was
            # not drained.
            raise drain.OutOfReach(
                draining_messages.DELEGATE_UNREACHABLE.fill(
                    cause=get_last_line(str(error)), delegate=self.delegate
                )
            ) from None
        finally:
            task.check_mode = before

    def run_program(
        self, argv: Sequence[Any], seconds: int, environment: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        """Run a program on that machine, without a shell and with a time limit: (exit status,
        output, errors).
        """
        assigned = (
            ["env", *(f"{key}={value}" for key, value in environment.items())]
            if environment
            else []
        )
        words = ["timeout", "-k", "10", str(seconds), *assigned, *map(str, argv)]
        # Not expanded: a word may contain a host's own text, and a variable of this machine may be
        # a secret.
        given = {"argv": words, "expand_argument_vars": False}
        result = self.run_module("ansible.builtin.command", given, seconds=seconds + online.CALL)
        if "rc" not in result:
            given = {
                "program": argv[0],
                "cause": get_module_message(result),
                "delegate": self.delegate,
            }
            raise PlanError(messages.CANNOT_RUN.fill(**given))
        return (
            int(result["rc"]),
            str(result.get("stdout") or ""),
            str(result.get("stderr") or result.get("msg") or ""),
        )


def get_module_message(result: Mapping[str, Any]) -> str:
    """Return the last line of a module's message."""
    return get_last_line(str(result.get("stderr") or result.get("msg") or "")) or "no message"
