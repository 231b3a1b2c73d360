# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Word a host's result for the table of the fleet. The modules in report/ make the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Driver,
    HostDecision,
    Instance,
    Plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.package import (
    PACKAGE,
)

EVERY = " (every container)"
STATES = {"not-loaded": "driver not loaded", "broken": "driver broken"}


def build_host_row(
    instances: Iterable[Instance], record: HostDecision, plan: Plan, driver: Driver
) -> dict[str, str]:
    """Build the row of a host for the table: engine, gpus, injection, restarted, why."""
    every_instance = tuple(instances)
    by_key = {i.key: i for i in every_instance}
    decided = [d.instance for d in record.decisions]
    engines = [
        f"{name_shown_engine(d.engine)} {d.engine_version}{name_rendering_manager(by_key.get(d.instance))}"
        for d in record.decisions
    ]
    engines += [
        f"{name_shown_engine(i.engine)} {i.version}".strip() + name_rendering_manager(i)
        for i in every_instance
        if i.key not in decided
    ]
    return {
        "engine": ", ".join(dict.fromkeys(engines)) or "none",
        "gpus": describe_gpus(driver),
        "injection": ", ".join(
            dict.fromkeys(d.injection + (EVERY if d.default else "") for d in record.decisions)
        )
        or "-",
        "restarted": ", ".join(
            u.removesuffix(".service") for u in plan.list_interrupted_units("auto")
        )
        or "-",
        "why": choose_main_sentence(record),
    }


def describe_gpus(driver: Driver) -> str:
    """Count the GPUs by model, with the driver's version or its fault: `8 x H100 80GB HBM3,
    550.163.01`.

    Return `none` if there is neither a GPU nor a driver.
    """
    models = Counter(g.model.removeprefix("NVIDIA ") or "GPU" for g in driver.gpus)
    counted = [f"{number} x {model}" for model, number in models.items()]
    return (
        ", ".join([*counted, *filter(None, [STATES.get(driver.state) or driver.version])]) or "none"
    )


def name_rendering_manager(instance: Instance | None) -> str:
    """Name the manager of an instance, as ` (k3s)`. Return '' for the distribution's package."""
    manager = known.get_manager(instance.manager) if instance else PACKAGE
    return "" if manager is PACKAGE else f" ({manager.title})"


def name_shown_engine(engine: str) -> str:
    return traits.TRAITS[engine].title if engine in traits.TRAITS else engine


def choose_main_sentence(record: HostDecision) -> str:
    """Return the sentence that matters most."""
    if record.skipped:
        return record.skipped
    if record.decisions:
        return "; ".join(
            dict.fromkeys(
                get_decision_reason(d) for d in record.decisions if get_decision_reason(d)
            )
        )
    return "; ".join(sentence for _key, sentence in record.refused)


def get_decision_reason(decision: Decision) -> str:
    return next((r.why for r in decision.reasons if r.what == "injection"), "")
