# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The package that brings the NVIDIA runtime: whether a run installs it, and how a person brings
its files back.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    RUNTIME_BINARY,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    build_query_failure,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import host_messages

NAME = "nvidia-container-toolkit-base"
# The commands that bring the files of an installed package back. No package manager does that in
# the course of an installation.
REINSTALL: Mapping[str, str] = {
    "apt": "apt-get install --reinstall",
    "dnf": "dnf reinstall",
    "zypper": "zypper install --force",
}


@dc.dataclass(frozen=True)
class PackageFacts:
    """The answers of the look about packages.

    manager: apt, dnf, zypper, or '' if the host has none of them. versions: of the packages that
    were asked for; None for one that is not installed. failed: packages whose query failed.
    candidates: the versions that could be installed, as far as they were asked for. answers: of the
    queries, by ID. runtime: whether the NVIDIA runtime's program is there, which counts as there if
    it could not be looked at.
    """

    manager: str
    versions: Mapping[str, str | None]
    failed: Mapping[str, QueryFailed]
    candidates: Mapping[str, str | None]
    answers: Mapping[str, Mapping[str, Any]]
    runtime: Fact[bool]

    def get_version(self, name: str) -> str | None:
        """Return the installed version of a package; None if it is not installed or was not asked
        for. Raise QueryFailed if the query that asked for it failed.
        """
        if name not in self.versions and name in self.failed:
            raise self.failed[name]
        return self.versions.get(name)


def read_package_facts(obs: Observation) -> PackageFacts:
    return obs.compute_once("packages", lambda: _read_package_facts(obs))


def _read_package_facts(obs: Observation) -> PackageFacts:
    answers = {qid: answer for qid, answer in obs.answers.items() if qid.startswith("package:")}
    program = queries.ask_for_file(RUNTIME_BINARY, content=False)
    versions: dict[str, str | None] = {}
    for answer in answers.values():  # the first that knows a package counts
        for name, version in (answer.get("installed") or {}).items():
            versions.setdefault(name, version)
    return PackageFacts(
        get_package_manager(obs),
        versions,
        {
            name: build_query_failure(qid, answer["error"])
            for qid, answer in answers.items()
            if "error" in answer
            for name in qid.partition(":")[2].split(",")
        },
        {
            name: version
            for answer in answers.values()
            for name, version in (answer.get("candidates") or {}).items()
        },
        answers,
        Fact(lambda: bool(obs.get_answer_or_error(program).get("exists", True))),
    )


def get_package_manager(obs: Observation) -> str:
    """Return the host's package manager: apt, dnf or zypper. Return '' if the host has none of
    them.
    """
    databases = {a.get("manager") for q, a in obs.answers.items() if q.startswith("package:")}
    if "dpkg" in databases:
        return "apt"
    if "rpm" not in databases:
        return ""
    release = obs.host.get("os_release") or {}
    return "zypper" if "suse" in f"{release.get('ID', '')} {release.get('ID_LIKE', '')}" else "dnf"


def matches_wanted_version(version: str, wanted: str) -> bool:
    """Tell whether a version is the wanted one.

    `1.20.1` accepts any packaging of that release, `1.20.1-1` only that packaging, and '' any
    version.
    """
    return not wanted or version == wanted or version.startswith(f"{wanted}-")


def installs(policy: Policy, facts: PackageFacts) -> bool:
    """Tell whether this run installs the package: it is missing, or its version is another than the
    requested one.
    """
    if policy.packages != "present" or policy.single or policy.root != "/":
        return False
    version = facts.get_version(NAME)
    return not (version and matches_wanted_version(version, policy.toolkit_version))


def suggest_reinstall(facts: PackageFacts) -> str:
    """Return a sentence that tells how to bring the program of an installed package back.

    Return '' if the package is not installed, or if the host has no known package manager.
    """
    command, version = REINSTALL.get(facts.manager), facts.get_version(NAME)
    if not command or not version:
        return ""
    values = {"package": NAME, "version": version, "program": RUNTIME_BINARY}
    return host_messages.PACKAGE_PROGRAM_GONE.fill(**values, command=command)
