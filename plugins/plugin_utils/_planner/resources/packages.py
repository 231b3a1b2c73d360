# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's packages: which ones the decision needs, in one version, by the host's own package manager. The role adds repositories."""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import base_package, queries, transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.lowering import older
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import (
    RUNTIME_BINARY,
    Cause,
    Difference,
    HostDecision,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.resources import image_hosts, installers, messages, repository

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
# Asking apt takes longer than the rest of a look, and a host that has the first of the family seldom needs the others: `known` asks.
QUESTION: queries.Question = {**queries.package(list(FAMILY)), "candidates": "first missing", "else": SAYS}


def questions(policy: Policy) -> list[queries.Question]:
    """Return the questions about packages. A host that gets no packages is not asked what could be installed."""
    plain = {key: value for key, value in QUESTION.items() if key != "candidates"}
    return [*([plain] if policy.packages == "ignore" else [QUESTION, image_hosts.MARK]), queries.file(RUNTIME_BINARY, content=False)]


@dc.dataclass(frozen=True)
class Program:
    """The toolkit's program if no package has brought it. version: '' if the program reported none."""

    there: bool
    version: str = ""


def program(obs: Observation) -> Program:
    """Return the toolkit's program by the look.

    It is not asked again: a look that did not ask shows only whether the runtime exists.
    """
    said = (obs.attempt(QUESTION).get("program") or {}) if obs.asked(QUESTION) else {}
    failed, runtime = said.get("error"), queries.file(RUNTIME_BINARY, content=False)
    there = failed["kind"] != "not-found" if failed else bool(said)
    version = str(said.get("stdout") or "").strip().rpartition(" ")[2] if said.get("rc") == 0 else ""
    return Program(there or (obs.asked(runtime) and bool(obs.raw(runtime).get("exists"))), version)


def installed(obs: Observation) -> str:
    """Return the toolkit's version on the host; '' if none is installed."""
    found = obs.packages()
    return next((str(found[name]) for name in FAMILY if found.get(name)), "") or program(obs).version


def brings(policy: Policy, obs: Observation, record: HostDecision) -> bool:
    """Tell whether this run installs packages.

    If none is missing, nothing more is asked of the host, since the advice of a plan asks more.
    """
    return bool(missing(policy, obs, record)) and bool(plan(policy, obs, record).commands)


def plan(policy: Policy, obs: Observation, record: HostDecision) -> Plan:
    """Plan to install what is missing, in the version that the rest has, and never more than the decision needs."""
    wrong = missing(policy, obs, record)
    if not wrong:
        return Plan(advice=(*gone_advice(policy, obs), *mixed_advice(policy, obs, record)))
    wanted = {name: obs.package(name) for name in record.packages}
    if policy.packages == "ignore" or policy.root != "/":
        return Plan(advice=(*missing_advice(policy, obs, wrong), *mixed_advice(policy, obs, record)))
    image_hosts.require_installable(obs, wrong)
    installer = installers.INSTALLERS.get(base_package.manager(obs))
    if installer is None:
        return Plan(advice=(messages.NO_MANAGER.fill(packages=", ".join(wrong)),))
    version = pin(policy, obs)
    moved = (
        [n for n in FAMILY if n not in wanted and obs.package(n) and not base_package.fits(obs.package(n) or "", version)]
        if version
        else []
    )
    names = [*wanted, *moved]
    listed = ", ".join(wrong)
    why = messages.INSTALL_VERSION.fill(packages=listed, version=version) if version else messages.INSTALL.fill(packages=listed)
    return Plan(
        differences=tuple(
            Difference("package", n, "version", now, version or "the repository's", WHY.get(n, ""), lowered(now, version))
            for n, now in ((n, obs.package(n)) for n in dict.fromkeys((*wrong, *moved)))
        ),
        commands=(
            *refresh(base_package.manager(obs), [n for n in (*wrong, *moved) if not known(obs, wrong).get(n)]),
            *installation(installer, {n: obs.package(n) or "" for n in names}, version, bool(policy.toolkit_version), why),
        ),
        advice=reload_advice(obs),
        beforehand=unknown_advice(version),
    )


def lowered(now: str | None, version: str) -> Cause | None:
    """Return the cause of an older release, which only a version in the policy leads to; None if the release is not older."""
    return "policy" if now and version and older(now, version) else None


def installation(
    installer: installers.Installer, now: Mapping[str, str], version: str, downgrade: bool, why: str
) -> tuple[transaction.Command, ...]:
    """Return the commands that bring all of these to one version, and that are undone as a whole. now: '' = missing.

    Undoing moves packages back to their version and removes the new ones.
    """
    there, new = {n: v for n, v in now.items() if v}, [n for n, v in now.items() if not v]
    moves = any(not base_package.fits(found, version) for found in there.values())
    if new and moves:  # undone by two commands, so there are two
        return (
            *installation(installer, there, version, downgrade, why),
            *installation(installer, dict.fromkeys(new, ""), version, False, why),
        )
    command = installer.command([*now], version, downgrade, why)
    return (installer.away(command, new) if new else installer.back(command, there),)


def missing(policy: Policy, obs: Observation, record: HostDecision) -> list[str]:
    """List the packages that the decision needs and the host lacks, or has in another version than was asked for.

    The rest of the family moves with them.
    """
    if record.skipped or not record.packages:
        return []
    there = {name: obs.package(name) for name in (*record.packages, *FAMILY)}
    needed = {name: version for name, version in there.items() if version or name in record.packages}
    return [name for name, version in needed.items() if not (version and base_package.fits(version, policy.toolkit_version))]


def offered(obs: Observation, names: list[str]) -> bool:
    """Tell whether a configured repository has these packages, as far as the host's package lists know.

    apt reports it in the look; dnf and zypper are asked if it matters. Raise PlanError if it is not known.
    """
    question = installers.available(base_package.manager(obs), BASE)
    if question is None:
        missing_ = [name for name in names if not obs.package(name)]
        offers = known(obs, missing_)
        require_known(obs, missing_)
        return all(offers.get(name) for name in missing_)
    found = installers.versions(obs.attempt(question), BASE)
    for again in installers.without(base_package.manager(obs), BASE) if found is None else ():
        found = installers.versions(obs.attempt(again), BASE)
        if found:
            break
    if found is None:
        raise not_known(" ".join(question["argv"]).replace("\n", "\\n"), messages.MANAGER_FAILED.fill())
    return bool(obs.package(BASE) or found)


def asks(obs: Observation) -> bool:
    """Tell whether a package manager has to be started to find what is offered."""
    return installers.available(base_package.manager(obs), BASE) is not None


def require_known(obs: Observation, names: list[str]) -> None:
    """Raise PlanError if the package lists could not be asked about a package.

    If that counted as a list without it, NVIDIA's repository would be added next to a mirror.
    """
    failed = [str(a["candidates_error"]) for q, a in obs.answers.items() if q.startswith("package:") and a.get("candidates_error")]
    unknown = [name for name in names if name not in candidates(obs)]
    if failed and unknown:
        raise not_known(f"apt-cache policy {' '.join(unknown)}", failed[0])


def not_known(command: str, why: str) -> PlanError:
    return PlanError(messages.OFFER_FAILED.fill(command=command, problem=why))


def pin(policy: Policy, obs: Observation) -> str:
    """Return one version for all packages: the user's, else the installed one, else the repository's; '' if none of these names one."""
    installed = [v for v in (obs.package(name) for name in FAMILY) if v]
    offered = candidates(obs).get(BASE) or ""
    asked = policy.toolkit_version
    if asked:
        return next((v for v in (*installed, offered) if v and base_package.fits(v, asked)), asked)
    return installed[0] if installed else offered or newest(obs)


def newest(obs: Observation) -> str:
    """Return the version that dnf or zypper would install, if a source of the packages is configured; '' if that is not known.

    The answer takes a start of the package manager, so a host whose repository is added later is not asked.
    """
    question = installers.available(base_package.manager(obs), BASE)
    if question is None or not (obs.asked(question) or repository.configured(obs)):
        return ""
    return next(iter(installers.versions(obs.attempt(question), BASE) or ()), "")


def candidates(obs: Observation) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for qid, answer in obs.answers.items():
        if qid.startswith("package:"):
            found.update(answer.get("candidates") or {})
    return found


def known(obs: Observation, names: list[str]) -> dict[str, str | None]:
    """Return package -> the version that could be installed.

    It asks now about missing packages that the look did not ask about.
    """
    lacking = [name for name in names if not obs.package(name) and name not in candidates(obs)]
    if base_package.manager(obs) == "apt" and obs.package(BASE) and lacking:
        obs.raw(queries.package(lacking, candidates=True))
    return candidates(obs)


def refresh(name: str, unknown: list[str]) -> tuple[transaction.Command, ...]:
    """Return the command that updates apt's lists, which lack a repository that was just added.

    dnf and zypper update their lists by themselves.
    """
    if name != "apt" or not unknown:
        return ()
    return ({"argv": ["apt-get", "update"], "timeout": installers.TIMEOUT, "why": messages.REFRESH_LISTS.fill()},)


def missing_advice(policy: Policy, obs: Observation, wrong: list[str]) -> tuple[str, ...]:
    """Return advice about packages that stay missing; () if the runtime came in another way (by hand, by an image)."""
    absent = [name for name in wrong if not obs.package(name)]
    if not absent or obs.attempt(queries.file(RUNTIME_BINARY, content=False)).get("exists", True):
        return ()
    row = messages.STAYS_MISSING if policy.root == "/" else messages.STAYS_MISSING_BENEATH_ROOT
    return (row.fill(packages=", ".join(absent), program=posixpath.basename(RUNTIME_BINARY)),)


def gone_advice(policy: Policy, obs: Observation) -> tuple[str, ...]:
    """Return advice about an installed package whose program is gone; () if there is none.

    The package manager would not install such a package again.
    """
    there = policy.root != "/" or obs.attempt(queries.file(RUNTIME_BINARY, content=False)).get("exists", True)
    step = "" if there else base_package.reinstall(obs)
    return (step,) if step else ()


def mixed_advice(policy: Policy, obs: Observation, record: HostDecision) -> tuple[str, ...]:
    """Return advice about packages of several releases, which are built and tested as one; () if they have one release.

    A held package or two repositories lead to such a mix.
    """
    there = {name: version for name in FAMILY if (version := obs.package(name))}
    if len({version.partition("-")[0] for version in there.values()}) < 2:
        return ()
    shown = ", ".join(f"{name} {version}" for name, version in there.items())
    brings = record.packages and policy.packages == "present" and policy.root == "/"
    return ((messages.MIXED_VERSIONS if brings else messages.MIXED_VERSIONS_KEPT).fill(versions=shown),)


def reload_advice(obs: Observation) -> tuple[str, ...]:
    """Return advice that the packages' scripts reload systemd; () if no package is installed.

    systemd then takes devices that it never knew away from containers (nvidia-container-toolkit issue 48).
    """
    if not any(obs.package(name) for name in FAMILY):
        return ()
    return (messages.SYSTEMD_RELOADS.fill(),)


def unknown_advice(version: str) -> tuple[str, ...]:
    if version:
        return ()
    return (messages.NOT_LISTED_YET.fill(package=BASE),)


def plan_absent(policy: Policy, obs: Observation) -> Plan:
    """Return an empty plan. Packages stay, since running containers and other tools may need them."""
    return Plan()
