# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources of apt that name the same repository as ours: taken over, since two of them that differ in Signed-By end every apt on the host.

apt: "Conflicting values set for option Signed-By regarding source ..." (apt-pkg/deb/debmetaindex.cc), an error and no warning. Both forms
are read, one line (sources.list(5), "ONE-LINE-STYLE FORMAT") and deb822. Of a file nothing travels but the lines that a source of this very
repository consists of; of any other line the first word, which says that it is there.
"""

from __future__ import annotations

import re

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import owned_file, queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Leftover, Plan, PlanError, merge
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import File, Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections.file_places import Keep

FOLDER = "/etc/apt/sources.list.d/"
PATTERNS = (f"{FOLDER}*.list", f"{FOLDER}*.sources", "/etc/apt/sources.list")
ARCH = r"(?:\$\(ARCH\)|amd64|arm64|ppc64el)"
# What a stanza has besides its address, and what says that there is more.
STANZA = ("Types: deb", "Suites: /", r"Signed-By: /[\w./+-]+", r"Architectures: [\w ]+", "Enabled: yes")
OFF = "Enabled: no"
OTHER = r"^[ \t]+(?=\S)|^[A-Za-z][\w-]*:?(?=\s)"
WHY = "it names the same repository, which this collection's own source names from now on; apt stops where two differ in their key"


def questions(url: str) -> list[queries.Question]:
    """Asked in every look at a host whose repository the user names, so that a converged host takes one look."""
    return [queries.glob(pattern, keep(url)) for pattern in PATTERNS]


def keep(url: str) -> Keep:
    one, address = _lines(url)
    return {"format": "text", "patterns": [*(rf"^(?:{line})[ \t]*$" for line in (one, address, OFF, *STANZA)), OTHER]}


def _lines(url: str) -> tuple[str, str]:
    """What names this repository, in either form."""
    escaped = re.sub(r"(?<=/)" + ARCH + r"(?=/|$)", lambda _: "\0", url.rstrip("/"))
    same = re.escape(escaped).replace(re.escape("\0"), ARCH) + "/?"
    return rf"deb +(?:\[[\w=/.,:+ -]*\] +)?{same} +/", f"URIs: {same}"


def others(obs: Observation, url: str, own: str, adopt: bool) -> Plan:
    """The files that name the repository and nothing else go; the journal keeps them. own: the path of our source."""
    found = [f for pattern in PATTERNS for f in obs.glob(pattern, keep(url)) if f.path != own and f.exists and _names(f, url)]
    for file in found:
        _require_alone(file, url, adopt)
    plans = [owned_file.remove(file, why=WHY) for file in found]
    return merge([*plans, Plan(leftovers=tuple(Leftover("apt source", f.path, (), True, "adopted", WHY) for f in found))])


def _active(file: File) -> list[str]:
    return [line.rstrip() for line in (file.content or "").splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _names(file: File, url: str) -> bool:
    lines = _active(file)
    return OFF not in lines and any(re.fullmatch(line, shown) for line in _lines(url) for shown in lines)


def _require_alone(file: File, url: str, adopt: bool) -> None:
    known = [*_lines(url), *STANZA]
    more = [line for line in _active(file) if not any(re.fullmatch(pattern, line) for pattern in known)]
    if adopt and not more and file.path.startswith(FOLDER):
        return
    why = "adopt is never" if not adopt else "other sources are in this file, too"
    raise PlanError(
        "a source of apt names the same repository as toolkit_repository (gpufleet_toolkit_repository)",
        where=file.path,
        why=f"apt stops where two sources of one repository differ in their key, and this one is not taken over: {why}",
        next="Remove its entry there, or leave toolkit_repository at its default, which adds nothing beside it",
    )


def given_back(obs: Observation) -> Plan:
    """What was taken over comes back with the repository's going."""
    paths = [path for path, kept in owned_file.originals(obs).items() if path.startswith(FOLDER) and owned_file.taken_away(kept)]
    return merge([owned_file.give_back(obs, obs.file(path, SHOWN), why="state: absent", own=False) for path in paths])


SHOWN: Keep = {"format": "text", "patterns": [r"(?!)"]}
