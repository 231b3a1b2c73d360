# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handlers whose program is gone: every pod that names one fails, and nothing says so before.

They stay behind where the packages were removed, where a GPU Operator was and its directory was cleaned, where an image was built on
another host.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import ask, owners
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.adoption import sandboxes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import Decision, Instance, Plan, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import Observation

# Where NVIDIA's packages put them: looked at with everything else, so that a converged host needs no second look.
PACKAGED = tuple(f"/usr/bin/{sandboxes.PROGRAM}{mode}" for mode in ("", ".cdi", ".legacy"))

BRING = "Bring the program back (packages: present installs NVIDIA's), or name another one in the option handlers"


@dc.dataclass(frozen=True)
class Gone:
    """A handler in force, and its program, which is not on the host."""

    engine: str
    handler: str
    program: str
    default: bool


def questions(policy: Policy) -> list[ask.Question]:
    named = [handler.binary for handler in policy.handlers if handler.binary.startswith("/")]
    return [ask.file(path, content=False) for path in dict.fromkeys((*PACKAGED, *named))]


def gone(obs: Observation, instances: Iterable[Instance]) -> tuple[Gone, ...]:
    """A bare name is looked up by the engine in its own PATH, and so not judged here."""
    found = []
    for instance in instances:
        for name in sandboxes.nvidias(instance):
            program = instance.handlers[name]
            if program.startswith("/") and not owners.exists(obs, program):
                found.append(Gone(instance.engine, name, program, name == instance.default_handler))
    return tuple(found)


def plan(policy: Policy, obs: Observation, instances: tuple[Instance, ...], decisions: Iterable[Decision]) -> Plan:
    """Said first, before all that a run changes: in the words of what fails now."""
    wanted = {(d.engine, handler.name): handler.binary for d in decisions if d.handler for handler in policy.handlers}
    advice, beforehand = [], []
    for it in gone(obs, instances):
        what = f"Every pod of the handler {it.handler} fails: {it.program} is not there"
        if it.default:
            what = f"Every pod fails that names no handler: the default one, {it.handler}, runs {it.program}, which is not there"
        program = wanted.get((it.engine, it.handler), "")
        if program and comes(policy, obs, program):
            brought = "installs that program" if program == it.program else "points the handler to a program that is"
            beforehand.append(f"{what}. This run {brought}")
        elif program == it.program:
            advice.append(f"{what}. {BRING}")
        else:
            advice.append(f"{what}. Take the handler out of the configuration of {it.engine}, or bring the program back")
    return Plan(advice=tuple(advice), beforehand=tuple(beforehand))


def comes(policy: Policy, obs: Observation, program: str) -> bool:
    """Whether a program that is wanted is there after this run."""
    brought = policy.packages == "present" and not policy.single and program in PACKAGED
    return brought or not program.startswith("/") or owners.exists(obs, program)
