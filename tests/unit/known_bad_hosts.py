# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that rows of the known-bad table are about."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import consumers
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    detect as docker_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    planned_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
    swarm,
)

from tests.unit.builders import obs
from tests.unit.records import ONE_GPU, instance, record

BASE, HOOK = planned_host.OF_TOOLKIT
NOTHING = Plan()


def seen(*, said: dict[str, Any] | None = None, **more: Any) -> Observation:
    """said: the program's answer where no package has brought it."""
    given = (
        {packages.QUESTION["id"]: {"installed": dict.fromkeys(packages.FAMILY), "program": said}}
        if said is not None
        else {}
    )
    return obs(answers={consumers.QUESTION["id"]: {"found": {}}, **given}, **more)


def look(
    *instances: Instance, of: Observation | None = None, plan: Plan | None = NOTHING, **more: Any
) -> planned_host.KnownBadLook:
    engines = instances or (instance("containerd", "1.7.24"),)
    policy = more.pop("policy", Policy())
    driver = more.pop("driver", ONE_GPU)
    rest = {"record": record(policy, *engines, driver=driver), **more}
    there = of or seen()
    read = {traits.DOCKER: docker_detect.read_facts(policy, there)}
    offers = Fact(lambda: swarm.read_swarm_facts(policy, there, engines, read))
    facts = planned_host.read_known_bad_facts(policy, there, offers)
    return planned_host.KnownBadLook(
        policy=policy, facts=facts, instances=engines, driver=driver, plan=plan, **rest
    )
