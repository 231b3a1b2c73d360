# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether the CDI specs on a host are still true, whoever wrote them."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    files,
    spec_facts,
    staleness,
    staleness_guard,
)


def judge_specs(policy: Policy, facts: spec_facts.SpecFacts) -> tuple[staleness.SpecVerdict, ...]:
    """Judge whether the specs on this host are still true: our files, and nvidia-cdi-refresh's if
    it exists.
    """
    files.look_into(policy, facts.files)
    own = [files.get_spec_path(policy, name) for name, _layout in files.list_spec_kinds(policy)]
    refreshed = [facts.refreshed] if files.has_refresh_kind(policy) else []
    wanted = [
        p
        for p in dict.fromkeys((*own, *refreshed))
        if p in own or files.get_seen_file(policy, facts.files, p).exists
    ]
    verdicts = [v for v in (judge_one_spec(policy, facts, p) for p in wanted) if v]
    # withdrawn files come last
    return tuple(
        sorted(verdicts, key=lambda v: not files.get_seen_file(policy, facts.files, v.path).exists)
    )


def judge_one_spec(
    policy: Policy, facts: spec_facts.SpecFacts, of: str
) -> staleness.SpecVerdict | None:
    """Judge one of these files, or its absence if our guard has taken it away; None for other
    absent files.
    """
    file = files.get_seen_file(policy, facts.files, of)
    if not file.exists:
        return (
            staleness.judge_withdrawn_spec(of)
            if staleness_guard.is_set_aside_by_watch(facts.watch, of)
            else None
        )
    held_against = facts.spec_host.value
    return staleness.judge_spec_file(file, find_spec_writer(policy, facts, file), held_against)


def find_spec_writer(
    policy: Policy, facts: spec_facts.SpecFacts, file: ObservedFile
) -> staleness.Writer:
    """Tell who wrote a spec, by its first line, else by the path that nvidia-cdi-refresh writes to."""
    if files.is_own_spec(file):
        return "collection"
    return "toolkit" if files.has_refresh_kind(policy) and file.path == facts.refreshed else "other"
