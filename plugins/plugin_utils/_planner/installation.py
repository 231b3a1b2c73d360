# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages of a host and their source: what goes before everything else, for a whole host or alone."""

from __future__ import annotations

import dataclasses as dc
import functools

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import decide, owned_file, queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.bundle import host as bundle
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi import resource
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import HostDecision, Plan, Policy, merge
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.resources import packages, repository


def questions(policy: Policy) -> list[queries.Question]:
    """Return the questions whose answers `plan` needs."""
    return [owned_file.ORIGINALS, *packages.questions(policy), *repository.host_questions(policy)]


def plan(policy: Policy, obs: Observation) -> Plan:
    """Plan the installation of the base package without a look at any engine.

    Packages stay with state: absent, since other programs may need them.
    """
    if policy.state == "absent":
        return packages.plan_absent(policy, obs)
    record = dc.replace(resource.record_of_options("none", ""), packages=decide.BASE_PACKAGES)
    pinned, found = installing(policy, obs, record)
    return before(pinned, obs, record, found, Plan())


def installing(policy: Policy, obs: Observation, record: HostDecision) -> tuple[Policy, Plan]:
    """Return the policy and the plan that installs the packages.

    If there is an archive of packages, the policy asks for its version.
    """
    pinned = bundle.pinned(policy, obs, record)
    return pinned, bundle.installing(pinned, obs, packages.plan(pinned, obs, record))


def before(policy: Policy, obs: Observation, record: HostDecision, installing: Plan, others: Plan) -> Plan:
    """Return the plan of what goes first: the repository that has the packages, then the packages, each in its own transaction.

    After them the host is looked at again, so files that the packages brought are edited like any other. The transaction that brings the
    packages also keeps the units that come with them from writing.
    """
    some, names = bool(installing.commands), packages.missing(policy, obs, record)
    source = Plan()
    if record.packages:
        offered = functools.partial(packages.offered, obs, names)
        usual = functools.partial(repository.needed, policy, obs, missing=some, offered=offered, slow=packages.asks(obs))
        source = bundle.needed(policy, obs, record) if policy.bundle_file else usual()
    if not some:
        return merge([installing, source])
    trusting = repository.trusting(policy, obs, source)
    installing = dc.replace(installing, commands=(*trusting, *installing.commands))
    return Plan(first=(*([source] if source.changes else []), merge([installing, others])))
