# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The package that brings the NVIDIA runtime: whether a run installs it, and how a person brings
its files back.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    RUNTIME_BINARY,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
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


def installs(policy: Policy, obs: Observation) -> bool:
    """Tell whether this run installs the package: it is missing, or its version is another than the
    requested one.
    """
    if policy.packages != "present" or policy.single or policy.root != "/":
        return False
    version = obs.get_package(NAME)
    return not (version and matches_wanted_version(version, policy.toolkit_version))


def suggest_reinstall(obs: Observation) -> str:
    """Return a sentence that tells how to bring the program of an installed package back.

    Return '' if the package is not installed, or if the host has no known package manager.
    """
    command, version = REINSTALL.get(get_package_manager(obs)), obs.get_package(NAME)
    if not command or not version:
        return ""
    values = {"package": NAME, "version": version, "program": RUNTIME_BINARY}
    return host_messages.PACKAGE_PROGRAM_GONE.fill(**values, command=command)
