# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes as evidence: only a process that the host has verified steers a plan. Any other is
named and left alone.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cdi,
    Evidence,
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import host_messages

UNVERIFIED = "unverified"  # in the place of a manager


def get_program_name(process: Mapping[str, Any]) -> str:
    """Return the name of a process by its executable, never by the name that it was started with."""
    return posixpath.basename(str(process.get("exe") or ""))


def flag(argv: Iterable[object], *names: str) -> str:
    """Return the value of a flag on a command line; '' if it is not given.

    If a flag is given twice, the last value counts: Go's flag package, and with it urfave/cli and
    pflag, set the value each time.
    """
    return (flag_values(argv, *names) or ("",))[-1]


def flag_values(argv: Iterable[object], *names: str) -> tuple[str, ...]:
    """Return the values of a flag, as `--config F` or `--config=F`, each time that it is given."""
    values: list[str] = []
    takes = False
    for word in map(str, argv):
        if takes:
            values.append(word)
            takes = False
            continue
        name, equals, value = word.partition("=")
        takes = name in names and not equals
        values += [value] if name in names and equals else []
    return tuple(values)


def is_everything_declared(policy: Policy) -> bool:
    """Tell whether the options name every place, so no process has to be believed."""
    return bool(policy.config_path and policy.socket and policy.service)


def list_unverified_processes(obs: Observation, name: str) -> tuple[Mapping[str, Any], ...]:
    """Return root's processes of that name that break a rule: they are present, and evidence of
    nothing else.
    """
    return tuple(p for p in obs.list_unverified() if get_program_name(p) == name)


def refuse_unverified_process(title: str, process: Mapping[str, Any]) -> Refusal:
    """Return the refusal for an unverified process: the rule that it breaks, and what corrects it.

    The process's number is left out, so that the record of a host changes only if the host does.
    """
    row = process.get("unverified")
    place = process.get("place") if row == "unit" else process.get("exe")
    values = {"rule": row, "place": place, "fault": process.get("why")}
    unverified = host_messages.PROCESS_UNVERIFIED
    what = unverified.fill(engine=title, **values, remedy=process.get("remedy"))
    return Refusal(what, kind="unverified")


def build_untrusted_instance(engine: str, title: str, process: Mapping[str, Any]) -> Instance:
    """Return an engine that is here but not trusted.

    It holds no configuration, socket or unit that the process reports of itself.
    """
    unseen = host_messages.NOT_INSPECTED_UNVERIFIED.fill()
    nothing = Cdi(
        able=False, enabled=False, dirs=(), max_version="", evidence=Evidence("files", unseen)
    )
    program_ = str(process.get("exe") or "")
    return Instance(
        engine,
        "",
        program_,
        "",
        "",
        "",
        UNVERIFIED,
        True,
        nothing,
        cri=False,
        refusal=refuse_unverified_process(title, process),
    )


def advise_on_other_processes(found: Mapping[str, int]) -> tuple[str, ...]:
    """Return advice about other users' processes with an engine's name; () if there are none.

    found: their number by name.

    Such a process may be a rootless engine or anything else. Only their number is known.
    """
    if not found:
        return ()
    listed = ", ".join(f"{number} {name}" for name, number in sorted(found.items()))
    return (host_messages.PROCESSES_OF_OTHERS.fill(processes=listed),)
