# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages of a host and their source: what goes before everything else, for a whole host or
alone.
"""

from __future__ import annotations

import dataclasses as dc
import functools

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    HostDecision,
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decide,
    earlier_runs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import (
    archive_plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import resource
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
    repository,
)


def list_installation_questions(policy: Policy) -> list[queries.Question]:
    """Return the questions whose answers `plan_base_package` needs."""
    return [
        earlier_runs.ORIGINALS,
        *packages.list_questions(policy),
        *repository.list_host_repository_questions(policy),
    ]


@dc.dataclass(frozen=True)
class InstallationFacts:
    """A host's facts about the toolkit's packages, and about where they can come from."""

    toolkit: packages.ToolkitFacts
    repository: repository.RepositoryFacts
    archive: archive_plan.ArchiveFacts


def read_installation_facts(policy: Policy, obs: Observation) -> InstallationFacts:
    return InstallationFacts(
        packages.read_toolkit_facts(obs),
        repository.read_repository_facts(obs),
        archive_plan.read_archive_facts(policy, obs),
    )


def plan_base_package(policy: Policy, facts: InstallationFacts) -> Plan:
    """Plan the installation of the base package without a look at any engine.

    Packages stay with state: absent, since other programs may need them.
    """
    if policy.state == "absent":
        return Plan()
    record = dc.replace(resource.record_of_options("none", ""), packages=decide.BASE_PACKAGES)
    pinned, installed = plan_installation(policy, facts, record)
    return plan_first_stages(pinned, facts, record, installed, Plan(), Plan())


def plan_installation(
    policy: Policy, facts: InstallationFacts, record: HostDecision
) -> tuple[Policy, Plan]:
    """Return the policy and the plan that installs the packages.

    If there is an archive of packages, the policy asks for its version.
    """
    pinned = archive_plan.pin_archive_in_policy(policy, facts.archive, record)
    return pinned, archive_plan.narrow_install_plan(
        pinned, facts.archive, packages.plan_packages(pinned, facts.toolkit, record)
    )


def is_taken_back(installing: Plan) -> bool:
    """Tell whether the way back brings the host to the packages that it has now.

    It does not if an archive lacks the releases from before.
    """
    installs = [command for command in installing.commands if "install" in command["argv"]]
    return bool(installs) and all(command.get("undo") for command in installs)


def plan_first_stages(
    policy: Policy,
    facts: InstallationFacts,
    record: HostDecision,
    installing: Plan,
    others: Plan,
    before: Plan,
) -> Plan:
    """Return the plan of what goes first: the repository that has the packages, then the packages,
    each in its own transaction.

    After them the host is looked at again, so files that the packages brought are edited like any
    other. The transaction that brings the packages also keeps the units that come with them from
    writing.

    others: what follows the installation in its transaction. before: what goes before it, and is
    undone after it.
    """
    some, names = (
        bool(installing.commands),
        packages.list_missing_packages(policy, facts.toolkit, record),
    )
    source = Plan()
    if record.packages:
        offered = functools.partial(packages.are_packages_offered, facts.toolkit, names)
        usual = functools.partial(
            repository.plan_needed_repository,
            policy,
            facts.repository,
            missing=some,
            offered=offered,
            slow=packages.must_ask_package_manager(facts.toolkit),
        )
        source = (
            archive_plan.plan_needed_archive(policy, facts.archive, record)
            if policy.bundle_file
            else usual()
        )
    if not some:
        return merge_plans([installing, source])
    trusting = repository.list_trust_commands(policy, facts.repository, source)
    installing = dc.replace(installing, commands=(*trusting, *installing.commands))
    return Plan(
        first=(*([source] if source.changes else []), merge_plans([before, installing, others]))
    )
