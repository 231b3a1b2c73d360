# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes as evidence: only what the node has verified steers a plan. What it could not verify is named and left alone."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Cdi, Evidence, Instance, Policy, Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation

UNVERIFIED = "unverified"  # in the place of a manager
DECLARE = "or describe the engine by gpufleet_config_path, gpufleet_socket and gpufleet_service, which are then used instead of the process"


def program(process: Mapping[str, Any]) -> str:
    """What a process is called: by its executable, never by the name that it was started with."""
    return posixpath.basename(str(process.get("exe") or ""))


def flag(argv: Iterable[object], *names: str) -> str:
    """Read the value of a flag on a command line, '' where it is not given.

    Of one that is given twice the last counts: Go's flag package, and with it urfave/cli and pflag, set the value each time.
    """
    return (flag_values(argv, *names) or ("",))[-1]


def flag_values(argv: Iterable[object], *names: str) -> tuple[str, ...]:
    """Read the values of a flag, as `--config F` or `--config=F`, each time that it is given."""
    found: list[str] = []
    takes = False
    for word in map(str, argv):
        if takes:
            found.append(word)
            takes = False
            continue
        name, equals, value = word.partition("=")
        takes = name in names and not equals
        found += [value] if name in names and equals else []
    return tuple(found)


def declared(policy: Policy) -> bool:
    """Whether the user has said where everything is, so no process needs to be believed."""
    return bool(policy.config_path and policy.socket and policy.service)


def called(obs: Observation, name: str) -> tuple[Mapping[str, Any], ...]:
    """Root's processes of that name that break a rule: present, and no evidence of anything else."""
    return tuple(p for p in obs.unverified() if program(p) == name)


def refusal(title: str, process: Mapping[str, Any]) -> Refusal:
    """Which rule is broken, and what mends it. Without a process's number: the record of a host changes only when something does."""
    row = process.get("unverified")
    place = process.get("place") if row == "unit" else process.get("exe")
    return Refusal(
        f"{title} runs here, but its process could not be verified ({row}): {place} {process.get('why')}. "
        "Its program is not run, its files are not read, and it is not restarted",
        f"{process.get('remedy')}, {DECLARE}",
        "unverified",
    )


def instance(engine: str, title: str, process: Mapping[str, Any]) -> Instance:
    """An engine that is here and not to be trusted. Nothing of what it says of itself is in it: no configuration, no socket, no unit."""
    nothing = Cdi(False, False, (), "", Evidence("files", "not inspected: the process could not be verified"))
    program_ = str(process.get("exe") or "")
    return Instance(engine, "", program_, "", "", "", UNVERIFIED, True, nothing, cri=False, refusal=refusal(title, process))


def others_advice(obs: Observation) -> tuple[str, ...]:
    """Other users' processes with an engine's name: a rootless engine, or someone's joke. Their number is all that is known of them."""
    found = obs.others()
    if not found:
        return ()
    listed = ", ".join(f"{number} {name}" for name, number in sorted(found.items()))
    belongs = "a rootless engine and its configuration belong to its user"
    return (f"processes of other users with an engine's name are left alone ({listed}): {belongs}; the CDI spec in /etc/cdi serves it",)
