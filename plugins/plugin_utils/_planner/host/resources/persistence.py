# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have nvidia-persistenced start at boot, before the engines: the one unit of NVIDIA's driver that
this collection manages.

Without it a GPU that no program uses is put down, and the first container waits until it is
initialised. Two drop-ins do it: one of multi-user.target wants the unit, one of the unit says before
which others it starts. Both are plain files that can be given back, and systemd reads them at the
next boot: it never reloads here (host_service.py). The unit itself is started now.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Driver,
    Plan,
    Policy,
    Restart,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    OWN_UNIT,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_service,
    owned_file,
    unit_state,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    messages,
)

UNIT = "nvidia-persistenced.service"
NAME = "persistence"
WANTED = host_service.write_service_drop_in(NAME)
ORDERED = f"{host_service.UNITS}/{UNIT}.d/gpufleet.conf"
TEXTS = {
    WANTED: f"# Written by gpufleet.nvidia.\n[Unit]\nWants={UNIT}\n",
    ORDERED: f"# Written by gpufleet.nvidia.\n[Unit]\nBefore={host_service.BEFORE}\n",
}
State = Literal["absent", "masked", "running", "off"]


@dc.dataclass(frozen=True)
class PersistenceFacts:
    """A host's facts about the unit and the drop-ins.

    asked: whether the look has answered about the drop-ins. state: of the unit.
    """

    asked: bool
    state: Fact[State]
    service: host_service.ServiceFacts


def list_questions(policy: Policy) -> list[queries.Question]:
    """List the questions, for a host that is to have the unit or that gets everything back."""
    if policy.persistence != "enabled" and policy.state != "absent":
        return []
    return list_every_question()


def list_every_question() -> list[queries.Question]:
    files = [queries.ask_for_file(path, keep=OWN_UNIT) for path in TEXTS]
    return [*files, queries.ask_for_units([UNIT])]


def read_persistence_facts(obs: Observation) -> PersistenceFacts:
    asked = all(obs.was_asked(q) for q in list_every_question() if q["kind"] == "file")

    def read_state() -> State:
        properties = obs.get_unit(UNIT)
        if not properties:
            return "absent"
        if properties.get("LoadState") == "masked":
            return "masked"
        return "running" if unit_state.is_started(properties) else "off"

    return PersistenceFacts(asked, Fact(read_state), host_service.read_service_facts(obs))


def plan_persistence(policy: Policy, facts: PersistenceFacts, driver: Driver) -> Plan:
    """Plan the drop-ins that differ, and one start of the unit if it does not run.

    A unit that is not installed, and one that a person has masked, is left alone, with advice. So
    is a host without a driver.
    """
    if policy.persistence != "enabled":
        return Plan()
    if driver.state == "none":
        said = messages.PERSISTENCE_WITHOUT_DRIVER.fill(unit=UNIT, evidence=driver.evidence)
        return Plan(advice=(said,))
    if policy.root == "/" and facts.state.value in ("absent", "masked"):
        absent = facts.state.value == "absent"
        row = messages.PERSISTENCE_ABSENT if absent else messages.PERSISTENCE_MASKED
        return Plan(advice=(row.fill(unit=UNIT),))
    why = messages.PERSISTENCE_WANTED.fill()
    files = merge_plans(
        [
            host_service.plan_service_file(facts.service, path, text, why)
            for path, text in TEXTS.items()
        ]
    )
    if policy.root != "/" or driver.state != "ok" or facts.state.value == "running":
        return files
    started = Difference("unit", UNIT, "", "off", "running", why)
    start = Plan(differences=(started,), restarts=(Restart(UNIT, "start", why),))
    return merge_plans([files, start])


def plan_absent(facts: PersistenceFacts) -> Plan:
    """Plan to give the drop-ins back. The unit runs on until the next boot: containers use it."""
    if not facts.asked:
        raise NeedMore(list_every_question())
    why, earlier = messages.PERSISTENCE_WITHDRAWN.fill(), facts.service.earlier
    files = (facts.service.files.get(path) for path in TEXTS)
    return merge_plans(
        [
            owned_file.plan_owned_file_restore(
                earlier, file, why=why, own=owned_file.is_marked(file)
            )
            for file in files
        ]
    )
