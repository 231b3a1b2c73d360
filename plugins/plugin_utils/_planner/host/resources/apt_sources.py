# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources of apt that name the same repository as ours. They are taken over: two that differ in
Signed-By end every apt on the host.

apt: "Conflicting values set for option Signed-By regarding source ..."
(apt-pkg/deb/debmetaindex.cc), an error and not a warning. Both forms are read, one line
(sources.list(5), "ONE-LINE-STYLE FORMAT") and deb822. Only the lines that a source of this same
repository consists of travel; of any other line the first word travels, which shows that the line
exists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Leftover,
    Plan,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.earlier_runs import (
    EarlierRuns,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    messages,
)

FOLDER = "/etc/apt/sources.list.d/"
PATTERNS = (f"{FOLDER}*.list", f"{FOLDER}*.sources", "/etc/apt/sources.list")
ARCH = r"(?:\$\(ARCH\)|amd64|arm64|ppc64el)"
# The fields of a stanza besides its address, and the fields that show that there is more.
STANZA = (
    "Types: deb",
    "Suites: /",
    r"Signed-By: /[\w./+-]+",
    r"Architectures: +\w+(?: +\w+)*",
    "Enabled: yes",
)
OFF = "Enabled: no"
OTHER = r"^[ \t]+(?:deb(?=\s))?|^[A-Za-z][\w-]*(?::|(?=\s))"
# In a list of one line per source, apt stops at two kinds of lines (apt-pkg/sourcelist.cc,
# apt-pkg/deb/debmetaindex.cc): a line of another type, whose first sign travels, and a line that
# ends before its suite or component, whose blank behind the type travels. No two parts of a rule
# can share the same blanks, so a line of many blanks takes no longer than another one.
NO_TYPE = r"^[ \t]*[^\s#\w]"
_WORD, _OPTIONS = r"[^\s#\[\]\"]", r"(?:\[[^\]\n]*\][ \t]+(?![ \t]))?"
CUT_SHORT = rf"^[ \t]*deb(?:-src)?[ \t](?=[ \t]*(?![ \t]){_OPTIONS}(?:{_WORD}+(?:[ \t]+{_WORD}*(?!/){_WORD})?)?[ \t]*(?:#|$))"
TYPES = ("deb", "deb-src")
WHY = messages.SAME_REPOSITORY.fill()


def list_apt_source_questions(url: str) -> list[queries.Question]:
    """Return the questions for every look at a host whose repository the user names, so that a
    converged host takes one look.
    """
    return [queries.ask_for_glob(pattern, keep_apt_lines(url)) for pattern in PATTERNS]


def keep_apt_lines(url: str) -> Keep:
    one, address = _build_line_patterns(url)
    return {
        "format": "text",
        "patterns": [
            rf"^(?:{one})[ \t]*(?=#|$)",
            *(rf"^(?:{line})[ \t]*$" for line in (address, OFF, *STANZA)),
            _build_address_pattern(url),
            OTHER,
            NO_TYPE,
            CUT_SHORT,
        ],
    }


def _build_line_patterns(url: str) -> tuple[str, str]:
    """Return a pattern for each of the two forms of a line that names this repository and has only
    known parts.
    """
    same = _build_address_match(url)
    return rf"deb[ \t]+(?:\[[\w=/.,:+ \t-]*\][ \t]+)?{same}[ \t]+/", f"URIs: {same}"


def _build_address_pattern(url: str) -> str:
    """Return a pattern for the address in a line of any other form.

    apt reads fields in any case, several addresses, lines that go on, and options of all kinds.
    """
    return rf"(?<=[\s\]:]){_build_address_match(url)}(?:[ \t]+/)?(?=\s|$)"


def _build_address_match(url: str) -> str:
    escaped = re.sub(r"(?<=/)" + ARCH + r"(?=/|$)", lambda _: "\0", url.rstrip("/"))
    return re.escape(escaped).replace(re.escape("\0"), ARCH) + "/?"


def read_apt_files(obs: Observation) -> tuple[ObservedFile, ...]:
    """Return the sources of apt. The look was told which parts of them may travel."""
    return tuple(file for pattern in PATTERNS for file in obs.list_glob_files(pattern))


def read_taken_over_files(obs: Observation, earlier: EarlierRuns) -> tuple[ObservedFile, ...]:
    """Return the sources that an earlier run took over, as they are now."""
    return tuple(
        obs.get_file(path, SHOWN)
        for path, kept in earlier.originals.items()
        if path.startswith(FOLDER) and owned_file.was_taken_away(kept)
    )


def plan_other_apt_sources(seen: Iterable[ObservedFile], url: str, own: str, adopt: bool) -> Plan:
    """Plan to remove the files that name the repository and nothing else; the journal keeps them.

    seen: the sources of apt. own: the path of that of this collection.
    Raise PlanError for a file that names more, or that could not be read.
    """
    files = [f for f in seen if f.path != own]
    for file in files:
        _require_read(file)
    named = [f for f in files if f.exists and _is_repository_named(f, url)]
    for file in named:
        _require_alone(file, url, adopt)
    plans = [owned_file.plan_owned_file_removal(file, why=WHY, cause="adoption") for file in named]
    return merge_plans(
        [
            *plans,
            Plan(
                leftovers=tuple(
                    Leftover("apt source", f.path, (), True, "adopted", WHY) for f in named
                )
            ),
        ]
    )


def require_lines(seen: Iterable[ObservedFile]) -> None:
    """Raise PlanError if apt reads no source at all: one line that it does not know ends each of
    its commands.
    """
    for file in (f for f in seen if not f.path.endswith(".sources")):
        for number, line in enumerate((file.content or "").splitlines(), 1):
            stops = _stops_at(line)
            if stops:
                raise PlanError(stops, where=file.path, line=number)


def _stops_at(line: str) -> Message | None:
    """Return why apt stops at a line, as far as it is shown; None if it does not."""
    first = re.match(r"\s*([^\s#\[]+|\[)", line)
    if first and first[1] not in TYPES:
        return messages.UNKNOWN_TYPE.fill(first=repr(first[1]))
    short = first and re.search(CUT_SHORT, line) or re.match(r"\s*deb(?:-src)?[ \t]#", line)
    return messages.LINE_CUT_SHORT.fill() if short else None


def _require_read(file: ObservedFile) -> None:
    """Raise PlanError for a file that could not be read.

    apt reads it all the same, and it may name the same repository.
    """
    if file.error:
        raise PlanError(messages.SOURCE_UNREADABLE.fill(problem=file.error), where=file.path)


def _list_active_lines(text: str) -> list[str]:
    return [
        line.rstrip()
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]


def _is_repository_named(file: ObservedFile, url: str) -> bool:
    """Tell whether a file names this repository, as far as its addresses are shown.

    With another suite than that of a flat repository, it names another repository.
    """
    content, same = file.content or "", _build_address_match(url)
    if not file.path.endswith(".sources"):
        return any(
            re.match(r"\s*deb(?![\w-])", line) and re.search(rf"{same}[ \t]+/", line)
            for line in _list_active_lines(content)
        )
    stanzas = [_list_active_lines(stanza) for stanza in re.split(r"\n[ \t]*\n", content)]
    return any(
        OFF not in lines and any(re.search(same, line) for line in lines) for lines in stanzas
    )


def _strip_comment(line: str) -> str:
    return line.partition("#")[0].rstrip()


def _require_alone(file: ObservedFile, url: str, adopt: bool) -> None:
    known = [*_build_line_patterns(url), *STANZA]
    more = [
        line
        for line in _list_active_lines(file.content or "")
        if not any(re.fullmatch(pattern, _strip_comment(line)) for pattern in known)
    ]
    if adopt and not more and file.path.startswith(FOLDER):
        return
    raise PlanError(
        (messages.SOURCE_WITH_MORE if adopt else messages.SOURCE_TO_KEEP).fill(), where=file.path
    )


def plan_apt_source_restore(earlier: EarlierRuns, taken_over: Iterable[ObservedFile]) -> Plan:
    """Plan to restore the files that were taken over, for when the repository goes."""
    why = messages.SOURCE_RETURNED.fill()
    return merge_plans(
        [
            owned_file.plan_owned_file_restore(earlier, file, why=why, own=False)
            for file in taken_over
        ]
    )


SHOWN: Keep = {"format": "text", "patterns": [r"(?!)"]}
