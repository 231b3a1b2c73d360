# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's packages: which ones the decision needs, in one version, by the host's own package
manager. The role adds repositories.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    RUNTIME_BINARY,
    Cause,
    Difference,
    HostDecision,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    build_query_failure,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import base_package
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.lowering import (
    is_older_release,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    image_hosts,
    installers,
    messages,
    repository,
)

BASE = base_package.NAME
# They depend on one another by equal versions, so they move together or not at all.
FAMILY = (
    BASE,
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-operator-extensions",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
WHY: Mapping[str, str] = {
    BASE: messages.BASE_PACKAGE.fill(),
    "nvidia-container-toolkit": messages.HOOK_PACKAGE.fill(),
    "libnvidia-container-tools": messages.TOOLS_PACKAGE.fill(),
    "libnvidia-container1": messages.LIBRARY_PACKAGE.fill(),
}
# The toolkit's own answer, which is asked for only on a host that has it from no package.
CTK = "/usr/bin/nvidia-ctk"
BANNER = r"^NVIDIA Container Toolkit CLI version \d+\.\d+[\w.+~-]*"
SAYS = {"argv": [CTK, "--version"], "timeout": 5, "shows": [BANNER]}
# Asking apt takes longer than the rest of a look, and a host that has the first of the family
# seldom needs the others: `map_installable_versions` asks.
QUESTION: queries.Question = {
    **queries.ask_for_packages(list(FAMILY)),
    "candidates": "first missing",
    "else": SAYS,
}


def list_questions(policy: Policy) -> list[queries.Question]:
    """Return the questions about packages. A host that gets no packages is not asked what could be
    installed.
    """
    plain = {key: value for key, value in QUESTION.items() if key != "candidates"}
    return [
        *([plain] if policy.packages == "ignore" else [QUESTION, image_hosts.MARK]),
        queries.ask_for_file(RUNTIME_BINARY, content=False),
    ]


@dc.dataclass(frozen=True)
class ToolkitProgram:
    """The toolkit's program if no package has brought it. version: '' if the program reported none."""

    there: bool
    version: str = ""


@dc.dataclass(frozen=True)
class ToolkitFacts:
    """A host's facts about the toolkit's packages, and about where they could come from.

    packages: what the look says of packages. of_image: whether packages come with an image here.
    release: the ID of the operating system. offered: the versions that dnf or zypper would install,
    None if they could not tell; offered_elsewhere: the same without the repositories that cannot be
    read. was_offer_asked: the package manager was asked for `offered` already. configured: a
    source of the packages is configured.
    """

    packages: base_package.PackageFacts
    program: Fact[ToolkitProgram]
    of_image: Fact[bool]
    release: str
    was_offer_asked: bool
    offered: Fact[list[str] | None]
    offered_elsewhere: Fact[list[str] | None]
    configured: Fact[bool]

    @property
    def manager(self) -> str:
        return self.packages.manager

    def get_version(self, name: str) -> str | None:
        return self.packages.get_version(name)


def read_toolkit_facts(obs: Observation) -> ToolkitFacts:
    """Return the facts of this room. A fact that costs a question of its own is asked for when it
    is needed.
    """
    return obs.compute_once("the toolkit's packages", lambda: _read_toolkit_facts(obs))


def _read_toolkit_facts(obs: Observation) -> ToolkitFacts:
    facts = base_package.read_package_facts(obs)
    question = installers.ask_for_available_versions(facts.manager, BASE)
    return ToolkitFacts(
        facts,
        Fact(lambda: get_toolkit_program(obs)),
        Fact(lambda: bool(obs.get_answer(image_hosts.MARK).get("exists"))),
        str((obs.host.get("os_release") or {}).get("ID") or ""),
        question is not None and obs.was_asked(question),
        Fact(lambda: _read_offer(obs, question)),
        Fact(lambda: _read_offer_elsewhere(obs, facts.manager)),
        Fact(lambda: repository.is_repository_configured(repository.read_repository_facts(obs))),
    )


def _read_offer(obs: Observation, question: queries.Question | None) -> list[str] | None:
    if question is None:
        return None
    return installers.parse_available_versions(obs.get_answer_or_error(question), BASE)


def _read_offer_elsewhere(obs: Observation, manager: str) -> list[str] | None:
    """Return what the first question without the repository that cannot be read has found, else
    what the last one answers.
    """
    offer = None
    for question in installers.list_questions_without_repository(manager, BASE):
        offer = _read_offer(obs, question)
        if offer:
            break
    return offer


def get_toolkit_program(obs: Observation) -> ToolkitProgram:
    """Return the toolkit's program by the look.

    It is not asked again: a look that did not ask shows only whether the runtime exists.
    """
    said = (
        (obs.get_answer_or_error(QUESTION).get("program") or {}) if obs.was_asked(QUESTION) else {}
    )
    failed, runtime = said.get("error"), queries.ask_for_file(RUNTIME_BINARY, content=False)
    there = failed["kind"] != "not-found" if failed else bool(said)
    version = (
        str(said.get("stdout") or "").strip().rpartition(" ")[2] if said.get("rc") == 0 else ""
    )
    return ToolkitProgram(
        there or (obs.was_asked(runtime) and bool(obs.get_answer(runtime).get("exists"))), version
    )


def get_installed_toolkit(facts: ToolkitFacts) -> str:
    """Return the toolkit's version on the host; '' if none is installed."""
    versions = facts.packages.versions
    return (
        next((str(versions[name]) for name in FAMILY if versions.get(name)), "")
        or facts.program.value.version
    )


def installs_packages(policy: Policy, facts: ToolkitFacts, record: HostDecision) -> bool:
    """Tell whether this run installs packages.

    If none is missing, nothing more is asked of the host, since the advice of a plan asks more.
    """
    return bool(list_missing_packages(policy, facts, record)) and bool(
        plan_packages(policy, facts, record).commands
    )


def plan_packages(policy: Policy, facts: ToolkitFacts, record: HostDecision) -> Plan:
    """Plan to install what is missing, in the version that the rest has, and never more than the
    decision needs.
    """
    wrong = list_missing_packages(policy, facts, record)
    if not wrong:
        return Plan(
            advice=(
                *advise_on_gone_program(policy, facts),
                *advise_on_mixed_packages(policy, facts, record),
            )
        )
    wanted = {name: facts.get_version(name) for name in record.packages}
    if policy.packages == "ignore" or policy.root != "/":
        return Plan(
            advice=(
                *advise_on_missing_packages(policy, facts, wrong),
                *advise_on_mixed_packages(policy, facts, record),
            )
        )
    image_hosts.require_installable(facts.of_image, facts.release, wrong)
    installer = installers.INSTALLERS.get(facts.manager)
    if installer is None:
        return Plan(advice=(messages.NO_MANAGER.fill(packages=", ".join(wrong)),))
    version = choose_package_version(policy, facts)
    moved = (
        [
            n
            for n in FAMILY
            if n not in wanted
            and facts.get_version(n)
            and not base_package.matches_wanted_version(facts.get_version(n) or "", version)
        ]
        if version
        else []
    )
    names = [*wanted, *moved]
    listed = ", ".join(wrong)
    why = (
        messages.INSTALL_VERSION.fill(packages=listed, version=version)
        if version
        else messages.INSTALL.fill(packages=listed)
    )
    return Plan(
        differences=tuple(
            Difference(
                "package",
                n,
                "version",
                now,
                version or "the repository's",
                WHY.get(n, ""),
                find_lowered_release_cause(now, version),
            )
            for n, now in ((n, facts.get_version(n)) for n in dict.fromkeys((*wrong, *moved)))
        ),
        commands=(
            *list_refresh_commands(
                facts.manager,
                [n for n in (*wrong, *moved) if not map_installable_versions(facts, wrong).get(n)],
            ),
            *list_install_commands(
                installer,
                {n: facts.get_version(n) or "" for n in names},
                version,
                bool(policy.toolkit_version),
                why,
            ),
        ),
        advice=reload_advice(facts),
        beforehand=advise_on_unknown_version(version),
    )


def find_lowered_release_cause(now: str | None, version: str) -> Cause | None:
    """Return the cause of an older release, which only a version in the policy leads to; None if
    the release is not older.
    """
    return "policy" if now and version and is_older_release(now, version) else None


def list_install_commands(
    installer: installers.Installer, now: Mapping[str, str], version: str, downgrade: bool, why: str
) -> tuple[transaction.PackageCommand, ...]:
    """Return the commands that bring all of these to one version, and that are undone as a whole.
    now: '' = missing.

    Undoing moves packages back to their version and removes the new ones.
    """
    there, new = {n: v for n, v in now.items() if v}, [n for n, v in now.items() if not v]
    moves = any(
        not base_package.matches_wanted_version(present, version) for present in there.values()
    )
    if new and moves:  # undone by two commands, so there are two
        return (
            *list_install_commands(installer, there, version, downgrade, why),
            *list_install_commands(installer, dict.fromkeys(new, ""), version, False, why),
        )
    command = installer.build_command([*now], version, downgrade, why)
    return (
        installer.build_undone_command(command, new) if new else installer.back(command, there),
    )


def list_missing_packages(policy: Policy, facts: ToolkitFacts, record: HostDecision) -> list[str]:
    """List the packages that the decision needs and the host lacks, or has in another version than
    was asked for.

    The rest of the family moves with them.
    """
    if record.skipped or not record.packages:
        return []
    there = {name: facts.get_version(name) for name in (*record.packages, *FAMILY)}
    needed = {
        name: version for name, version in there.items() if version or name in record.packages
    }
    return [
        name
        for name, version in needed.items()
        if not (version and base_package.matches_wanted_version(version, policy.toolkit_version))
    ]


def are_packages_offered(facts: ToolkitFacts, names: list[str]) -> bool:
    """Tell whether a configured repository has these packages, as far as the host's package lists
    know.

    apt reports it in the look; dnf and zypper are asked if it matters. Raise PlanError if it is not
    known.
    """
    question = installers.ask_for_available_versions(facts.manager, BASE)
    if question is None:
        missing_ = [name for name in names if not facts.get_version(name)]
        offers = map_installable_versions(facts, missing_)
        require_known_packages(facts, missing_)
        return all(offers.get(name) for name in missing_)
    offered = facts.offered.value
    if offered is None:
        offered = facts.offered_elsewhere.value
    if offered is None:
        raise build_unknown_package_error(
            " ".join(question["argv"]).replace("\n", "\\n"), messages.MANAGER_FAILED.fill()
        )
    return bool(facts.get_version(BASE) or offered)


def must_ask_package_manager(facts: ToolkitFacts) -> bool:
    """Tell whether a package manager has to be started to find what is offered."""
    return installers.ask_for_available_versions(facts.manager, BASE) is not None


def require_known_packages(facts: ToolkitFacts, names: list[str]) -> None:
    """Raise PlanError if the package lists could not be asked about a package.

    If that counted as a list without it, NVIDIA's repository would be added next to a mirror.
    """
    failed = [
        str(a["candidates_error"])
        for a in facts.packages.answers.values()
        if a.get("candidates_error")
    ]
    unknown = [name for name in names if name not in facts.packages.candidates]
    if failed and unknown:
        raise build_unknown_package_error(f"apt-cache policy {' '.join(unknown)}", failed[0])


def build_unknown_package_error(command: str, why: str) -> PlanError:
    return PlanError(messages.OFFER_FAILED.fill(command=command, problem=why))


def choose_package_version(policy: Policy, facts: ToolkitFacts) -> str:
    """Return one version for all packages: the user's, else the installed one, else the
    repository's; '' if none of these names one.
    """
    installed = [v for v in (facts.get_version(name) for name in FAMILY) if v]
    offered = facts.packages.candidates.get(BASE) or ""
    asked = policy.toolkit_version
    if asked:
        return next(
            (
                v
                for v in (*installed, offered)
                if v and base_package.matches_wanted_version(v, asked)
            ),
            asked,
        )
    return installed[0] if installed else offered or get_newest_offered_version(facts)


def get_newest_offered_version(facts: ToolkitFacts) -> str:
    """Return the version that dnf or zypper would install, if a source of the packages is
    configured; '' if that is not known.

    The answer takes a start of the package manager, so a host whose repository is added later is
    not asked.
    """
    question = installers.ask_for_available_versions(facts.manager, BASE)
    if question is None or not (facts.was_offer_asked or facts.configured.value):
        return ""
    return next(iter(facts.offered.value or ()), "")


def map_installable_versions(facts: ToolkitFacts, names: list[str]) -> Mapping[str, str | None]:
    """Return package -> the version that could be installed.

    It asks now about missing packages that the look did not ask about.
    """
    lacking = [
        name
        for name in names
        if not facts.get_version(name) and name not in facts.packages.candidates
    ]
    if facts.manager == "apt" and facts.get_version(BASE) and lacking:
        require_answered_query(facts, queries.ask_for_packages(lacking, candidates=True))
    return facts.packages.candidates


def require_answered_query(facts: ToolkitFacts, question: queries.Question) -> None:
    """Raise NeedMore for a query of packages that was not asked, and QueryFailed for one that
    failed.
    """
    answer = facts.packages.answers.get(question["id"])
    if answer is None:
        raise NeedMore([question])
    if "error" in answer:
        raise build_query_failure(question["id"], answer["error"])


def list_refresh_commands(name: str, unknown: list[str]) -> tuple[transaction.PackageCommand, ...]:
    """Return the command that updates apt's lists, which lack a repository that was just added.

    dnf and zypper update their lists by themselves.
    """
    if name != "apt" or not unknown:
        return ()
    return (
        {
            "argv": ["apt-get", "update"],
            "timeout": installers.TIMEOUT,
            "why": messages.REFRESH_LISTS.fill(),
        },
    )


def advise_on_missing_packages(
    policy: Policy, facts: ToolkitFacts, wrong: list[str]
) -> tuple[str, ...]:
    """Return advice about packages that stay missing; () if the runtime came in another way (by
    hand, by an image).
    """
    absent = [name for name in wrong if not facts.get_version(name)]
    if not absent or facts.packages.runtime.value:
        return ()
    row = messages.STAYS_MISSING if policy.root == "/" else messages.STAYS_MISSING_BENEATH_ROOT
    return (row.fill(packages=", ".join(absent), program=posixpath.basename(RUNTIME_BINARY)),)


def advise_on_gone_program(policy: Policy, facts: ToolkitFacts) -> tuple[str, ...]:
    """Return advice about an installed package whose program is gone; () if there is none.

    The package manager would not install such a package again.
    """
    there = policy.root != "/" or facts.packages.runtime.value
    step = "" if there else base_package.suggest_reinstall(facts.packages)
    return (step,) if step else ()


def advise_on_mixed_packages(
    policy: Policy, facts: ToolkitFacts, record: HostDecision
) -> tuple[str, ...]:
    """Return advice about packages of several releases, which are built and tested as one; () if
    they have one release.

    A held package or two repositories lead to such a mix.
    """
    there = {name: version for name in FAMILY if (version := facts.get_version(name))}
    if len({version.partition("-")[0] for version in there.values()}) < 2:
        return ()
    shown = ", ".join(f"{name} {version}" for name, version in there.items())
    brings = record.packages and policy.packages == "present" and policy.root == "/"
    return (
        (messages.MIXED_VERSIONS if brings else messages.MIXED_VERSIONS_KEPT).fill(versions=shown),
    )


def reload_advice(facts: ToolkitFacts) -> tuple[str, ...]:
    """Return advice that the packages' scripts reload systemd; () if no package is installed.

    systemd then takes devices that it never knew away from containers (nvidia-container-toolkit
    issue 48).
    """
    if not any(facts.get_version(name) for name in FAMILY):
        return ()
    return (messages.SYSTEMD_RELOADS.fill(),)


def advise_on_unknown_version(version: str) -> tuple[str, ...]:
    if version:
        return ()
    return (messages.NOT_LISTED_YET.fill(package=BASE),)
