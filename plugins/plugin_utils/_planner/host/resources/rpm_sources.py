# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repositories of dnf and zypper with the same address as this collection's and without a check of
what comes from them.

Unlike apt, neither of the two stops at a repository that is there twice. It takes a package from
either of them, so the one that checks nothing undoes what our key is for: dnf.conf(5), `gpgcheck`
and `repo_gpgcheck`; zypper checks the signature of the metadata unless `repo_gpgcheck` or
`gpgcheck` is off. Only these words and the lines with that address travel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    messages,
)

PATTERNS = {"dnf": "/etc/yum.repos.d/*.repo", "zypper": "/etc/zypp/repos.d/*.repo"}
SWITCHES = ("enabled", "gpgcheck", "repo_gpgcheck")
ON = ("1", "yes", "true", "on")  # in small or capital letters
OFF = ("0", "no", "false", "off")
HEADER = r"^\["  # of a name no more than that it begins


def keep_rpm_lines(url: str) -> Keep:
    switch = rf"^(?:{'|'.join(SWITCHES)})[ \t]*=[ \t]*(?i:{'|'.join((*ON, *OFF))})[ \t]*$"
    return {
        "format": "text",
        "patterns": [HEADER, switch, rf"^baseurl[ \t]*=[ \t]*{_build_address_match(url)}[ \t]*$"],
    }


def list_rpm_source_questions(url: str, managers: tuple[str, ...]) -> list[queries.Question]:
    return [
        queries.ask_for_glob(pattern, keep_rpm_lines(url))
        for manager, pattern in PATTERNS.items()
        if manager in managers
    ]


def _build_address_match(url: str) -> str:
    return re.escape(url.rstrip("/")) + "/?"


def advise_on_unchecked_sources(
    seen: Iterable[ObservedFile], url: str, manager: str, own: str
) -> Plan:
    """Name the files by which packages come from our repository without a check.

    seen: the sources of this package manager. own: the path of that of this collection.
    """
    unchecked = [
        f.path for f in seen if f.path != own and _installs_unchecked(f.content or "", url)
    ]
    return Plan(
        advice=tuple(
            messages.SOURCE_UNCHECKED.fill(path=path, manager=manager) for path in unchecked
        )
    )


def _installs_unchecked(content: str, url: str) -> bool:
    """Tell whether a section is switched on, has this address and checks nothing."""
    sections = re.split(rf"(?m){HEADER}", content)[1:]
    return any(
        _checks_nothing(dict(re.findall(r"(?m)^(\w+)[ \t]*=[ \t]*(\S+)[ \t]*$", section)), url)
        for section in sections
    )


def _checks_nothing(values: Mapping[str, str], url: str) -> bool:
    enabled, *checks = (values.get(name, "").lower() for name in SWITCHES)
    here = re.fullmatch(_build_address_match(url), values.get("baseurl", "")) and enabled in (
        "",
        *ON,
    )
    return bool(here) and not set(checks) & set(ON) and bool(set(checks) & set(OFF))
