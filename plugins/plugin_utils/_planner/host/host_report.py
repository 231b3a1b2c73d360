# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report a host as results show it: its row of the table, its decision, and by what it differs."""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_messages,
    host_plan,
    originals,
    refusals,
    seen_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import staleness
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    keeping,
    kept_driver,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    host_health,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import dra
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import (
    host_platform,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import (
    table_row,
)

# os-release(5): letters, digits and a few signs, for use in scripts
OF_RELEASE = re.compile(r"[A-Za-z0-9._~+-]{1,64}")


def report_host_facts(
    seen: seen_host.SeenHost, plan: Plan, state: str = "present", *, done: bool = False
) -> dict[str, Any]:
    """Return what a result reports in addition to the plan. done: the plan is carried out, and not
    only shown.
    """
    row: dict[str, Any] = {
        **table_row.build_host_row(seen.instances, seen.record, plan, seen.driver),
        "managed": not refusals.is_host_left_alone(seen.record),
    }
    written = {d.path for d in plan.whole.differences} if done else set()
    stale = staleness.summarise_verdicts(v for v in seen.freshness if v.path not in written)
    if state == "absent":
        row = {**row, "injection": "-", "why": describe_taken_back(plan, done)}
    elif stale:
        row = {**row, "why": f"{stale}; {row['why']}"}
    return {
        "decision": dc.asdict(seen.record),
        "row": row,
        "freshness": staleness.convert_verdicts(seen.freshness),
    }


def report_compared_values(facts: seen_host.HostFacts) -> dict[str, Any]:
    """Return the values by which hosts of a fleet are compared, and the drift and pending restarts
    of a host by its journal.
    """
    return {
        "versions": {
            "driver": facts.seen.driver.version,
            "driver_packages": keeping.get_installed_release(facts.keeping),
            "toolkit": packages.get_installed_toolkit(facts.installation.toolkit),
        },
        "driver_change": kept_driver.report_change(facts.driver_change.value),
        "drift": originals.list_drift(facts.earlier),
        "pending": list(facts.earlier.journal_if_asked.get("pending") or ()),
    }


def describe_taken_back(plan: Plan, done: bool) -> str:
    """Return the words of the table for what happens to the host, and for what is left to do."""
    if not plan.changes:
        return host_messages.NOTHING_WRITTEN.fill()
    row = host_messages.FILES_TAKEN_BACK if done else host_messages.TO_BE_TAKEN_BACK
    whole = row.fill(files=count_plan_files(plan))
    if not plan.pending:
        return whole
    return host_messages.RESTART_LEFT_TO_YOU.fill(done=whole, units=" and ".join(plan.pending))


def count_plan_files(plan: Plan) -> str:
    return f"{len(plan.changes)} file{'' if len(plan.changes) == 1 else 's'}"


def get_operating_system(release: Mapping[str, str]) -> dict[str, str]:
    """Return the operating system's ID and version, for classes of hosts; '' for a value of an
    unusual form.

    release: what /etc/os-release says.
    """
    texts = {"id": str(release.get("ID") or ""), "version": str(release.get("VERSION_ID") or "")}
    return {name: text if OF_RELEASE.fullmatch(text) else "" for name, text in texts.items()}


def report_host(policy: Policy, facts: seen_host.HostFacts, plan: Plan) -> dict[str, Any]:
    """Return what a result shows of a host."""
    host, platform = facts.seen, host_plan.judge_platform(facts)
    unserved = host_platform.list_platform_findings(platform)
    return {
        **report_host_facts(host, plan, policy.state),
        **report_compared_values(facts),
        "os": get_operating_system(facts.installation.repository.release),
        "instances": [
            {"key": i.key, **dc.asdict(i), "refusal": end_with_code(i.refusal.message)}
            for i in host.instances
        ],
        "driver": dc.asdict(host.driver),
        "health": host_health.report_health(policy, facts.health, host.driver, unserved),
        "platform": host_platform.report_platform(platform),
        "kubelet": dc.asdict(host.kubelet),
        "dra": dra.report_dra(
            host_plan.judge_claims(policy, facts.dra, host, after=policy.state == "present")
        ),
    }
