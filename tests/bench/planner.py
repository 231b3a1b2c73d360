# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner alone: an observation of a real host, varied into a fleet."""

from __future__ import annotations

import copy
import dataclasses as dc
import hashlib
import json
import re
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    host_answers,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_plan,
    seen_host,
)

from tests.bench.stage import OURS, Failed, Stage

SIMULATED = 1000
LOOKS = 4
UUID = re.compile(r"GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
CONFIG = re.compile(r"^/etc/(containerd|crio)/.*\.(toml|conf)$")

Asked = Callable[[Policy], list[dict[str, Any]]]
Planned = Callable[[Policy, Observation], Any]


@dc.dataclass(frozen=True)
class Speed:
    """Milliseconds of a plan. aim: on the machine of the aims, None for none. copied: milliseconds of
    a copy of the same answers, which shows the machine's pace.
    """

    what: str
    aim: float | None
    milliseconds: float
    copied: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.copied is None else self.milliseconds / self.copied

    @property
    def paced(self) -> str:
        return "" if self.ratio is None else f"{self.ratio:.2f}"

    @property
    def aimed(self) -> str:
        return "" if self.aim is None else f"{self.aim:g}"


def policy() -> Policy:
    return Policy(**OURS)  # type: ignore[arg-type]


def plan(wanted: Policy, obs: Observation) -> Any:
    """What the action does with an observation."""
    seen = seen_host.see(wanted, obs)
    facts = seen_host.read_host_facts(wanted, obs, seen, transport.probe_source("nvml"))
    return host_plan.plan_host(wanted, facts)


def record(stage: Stage) -> dict[str, Observation]:
    """Look at every host as the action does, and keep what was seen."""
    return {name: look(stage, name) for name in stage.hosts}


def look(
    stage: Stage, name: str, first: Asked | None = None, planned: Planned = plan
) -> Observation:
    seen, questions = Observation({}, {}), (first or seen_host.list_host_questions)(policy())
    for _look in range(LOOKS):
        request = host_answers.pack(
            {"schema": 1, "root": "/", "questions": list({q["id"]: q for q in questions}.values())}
        )
        run = stage.fleet.task("host_program", [name], {"program": "observe", "request": request})
        if run.status:
            raise Failed(f"{name} could not be looked at: {run.failed}")
        seen = seen.add_answers(host_answers.unpack_answer(run.of("host_program")[name]["answer"]))
        try:
            planned(policy(), seen)
        except NeedMore as need:
            questions = need.questions
        else:
            return seen
    raise Failed(f"the plan for {name} still asks questions after {LOOKS} looks")


def vary(seen: Observation, number: int) -> Observation:
    """Another host like this one: other UUIDs, and configurations that no cache has met."""
    text = UUID.sub(
        lambda found: other(found.group(), number),
        json.dumps({"host": seen.host, "answers": seen.answers}),
    )
    value = json.loads(text)
    for answer in value["answers"].values():
        for file in (answer, *(answer.get("files") or ())):
            if CONFIG.match(str(file.get("path"))) and file.get("content"):
                file["content"] += f"# host {number}\n"
    return Observation(value["host"], value["answers"])


def other(uuid: str, number: int) -> str:
    found = hashlib.sha256(f"{uuid}{number}".encode()).hexdigest()
    # It begins as before: a spec names devices in the order of their UUIDs, and one in another
    # order would be compared the long way.
    return f"{uuid[:12]}-{found[8:12]}-{found[12:16]}-{found[16:20]}-{found[20:32]}"


def speed(what: str, aim: float, seen: dict[str, Observation]) -> Speed:
    """Milliseconds per host over the simulated hosts; processor time, since other work on the
    machine is not the planner's. The answers of each are copied in turn: both are Python's own work.
    """
    kinds = list(seen.values())
    hosts = [vary(kinds[number % len(kinds)], number) for number in range(SIMULATED)]
    wanted, planned, copied = policy(), 0.0, 0.0
    for obs in hosts:
        begin = time.process_time()
        plan(wanted, obs)
        between = time.process_time()
        copy.deepcopy(obs.answers)
        planned += between - begin
        copied += time.process_time() - between
    return Speed(what, aim, planned * 1000 / SIMULATED, copied * 1000 / SIMULATED)
