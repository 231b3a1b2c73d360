# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read apt's preferences, and judge what they make of an installed package (apt_preferences(5)).

Of the records that name a package, the first one that fits a version decides its priority. Only what
a record says of versions is judged: which version a repository has, no file of the host tells.
"""

from __future__ import annotations

import dataclasses as dc
import fnmatch
import functools
import posixpath
import re
from collections.abc import Iterable, Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver.package_locks import (
    MOST_BYTES,
    Verdict,
)

PIN_FILE, PIN_PARTS = "/etc/apt/preferences", "/etc/apt/preferences.d/"
# A record that names a repository shows that it does, and not which one.
PIN_KEEP: Keep = {
    "format": "text",
    "patterns": [
        r"(?i)^Package:[ \t]*[\w.+*?\[\]:/^$| \t-]{1,4096}$",
        r"(?i)^Pin:[ \t]*version[ \t]+[\w.+~:*?\[\]-]{1,256}[ \t]*$",
        r"(?i)^Pin:[ \t]*release[ \t]+\*[ \t]*$",
        r"(?i)^Pin:[ \t]*(?:release|origin|version)\b",
        r"(?i)^Pin-Priority:[ \t]*[+-]?\d{1,6}[ \t]*$",
    ],
}
# A file of preferences.d counts by its name alone (GetListOfFilesInDir in
# apt-pkg/contrib/fileutl.cc).
_COUNTS = re.compile(r"[\w:-]+|[\w:-][\w:.-]*\.pref", re.ASCII)
# Above this one a version wins over each repository, also over the target release.
TARGET_RELEASE = 990
NATIVE = "native"  # the architecture of the system
ALL_PACKAGES = ("*",)
MOST_PINS, MOST_NAMES, LONGEST_NAME = 256, 32, 128
MOST_WILD = 4  # signs that stand for others, of a name


@dc.dataclass(frozen=True)
class Pin:
    """A record. path: of its file. names: patterns of packages; ALL_PACKAGES of a record for all of
    them, or for some that are not compared. version: a pattern of versions, '' for one that names a
    repository.
    """

    path: str
    names: tuple[str, ...]
    version: str
    priority: int

    @functools.cached_property
    def _rule(self) -> re.Pattern[str]:
        """All names as one rule for name:architecture, since a host may have many of both."""
        return re.compile("|".join(map(_translate_name, self.names)))

    def is_about(self, name: str) -> bool:
        """Tell whether it names a package. Without an architecture it is about the system's."""
        named = name if ":" in name else f"{name}:{NATIVE}"
        return self.names != ALL_PACKAGES and bool(self._rule.match(named))


def _translate_name(pattern: str) -> str:
    name, _colon, of = pattern.removeprefix("src:").partition(":")
    return fnmatch.translate(f"{name}:{'*' if of == 'any' else of or NATIVE}")


@dc.dataclass(frozen=True)
class PinnedPackage:
    """What the preferences make of a package. pin: the record that decides, None for none."""

    verdict: Verdict = "free"
    pin: Pin | None = None


def list_pin_questions() -> list[queries.Question]:
    return [
        queries.ask_for_file(PIN_FILE, PIN_KEEP, max=MOST_BYTES),
        queries.ask_for_glob(f"{PIN_PARTS}*", PIN_KEEP),
    ]


def read_pins(obs: Observation) -> tuple[Pin, ...]:
    """Return the records in the order in which apt reads them: the file comes before the parts."""
    parts = {posixpath.basename(f.path): f for f in obs.list_glob_files(f"{PIN_PARTS}*")}
    names = sorted(name for name in parts if _COUNTS.fullmatch(name))
    files = [obs.get_file(PIN_FILE), *(parts[name] for name in names)]
    pins = [pin for file in files for pin in parse_pins(file.path, file.text)]
    # of what comes after very many nothing is known
    rest = [Pin(pin.path, ALL_PACKAGES, "", pin.priority) for pin in pins[MOST_PINS:]]
    return (*pins[:MOST_PINS], *sorted(rest, key=lambda pin: pin.priority)[-1:])


def parse_pins(path: str, text: str) -> tuple[Pin, ...]:
    """Return the records of a file. One for all packages may name a repository alone: apt itself
    passes over one that names a version. One with names that are not compared may be about each
    package.
    """
    records = []
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for record in re.split(r"\n[ \t]*\n", lines):
        pairs = re.findall(r"(?m)^([\w-]+):(.*)$", record)
        fields = {key.lower(): value.strip() for key, value in pairs}
        every = tuple(fields.get("package", "").split())
        names = tuple(name for name in every[:MOST_NAMES] if _is_compared(name))
        kind, _blank, version = fields.get("pin", "").partition(" ")
        priority = fields.get("pin-priority", "")
        if not kind or not re.fullmatch(r"[+-]?\d{1,6}", priority):
            continue
        value = version.strip()
        # all versions of all repositories (pkgVersionMatch in apt-pkg/versionmatch.cc)
        every_release = kind.lower() == "release" and value == "*" and every != ALL_PACKAGES
        wanted = value if kind.lower() == "version" or every_release else ""
        if names and not (wanted and every == ALL_PACKAGES):
            records.append(Pin(path, names, wanted, int(priority)))
        # a name of a source is compared with those of packages, which it mostly is the beginning of
        if len(names) < len(every) or not every or any(n.startswith("src:") for n in every):
            records.append(Pin(path, ALL_PACKAGES, wanted, int(priority)))
    return tuple(records)


def _is_compared(name: str) -> bool:
    """Tell whether a pattern is short and plain enough to be compared with very many names."""
    plain = len(name) <= LONGEST_NAME and not name.startswith("/")
    return plain and len(re.findall(r"[*?\[]", name)) <= MOST_WILD


def judge_pins(pins: Sequence[Pin], name: str, version: str) -> PinnedPackage:
    """Judge the records of one package. version: the installed one.

    A record for all packages decides about a version that no record of the package fits: what its
    repository has newer may come by it.
    """
    own = [pin for pin in pins if pin.is_about(name)]
    every = [pin for pin in pins if pin.names == ALL_PACKAGES]
    first = next((pin for pin in own if _fits(pin, version)), None)
    earlier = own[: own.index(first)] if first else own  # apt takes each version's first record
    lets_none_in = all(pin.priority < 0 for pin in earlier)
    if first and first.version == "*" and first.priority < 0 and lets_none_in:
        return PinnedPackage("kept", first)  # no version may come
    reached = first.priority if first else 0
    others = [pin for pin in own if pin.version and not _fits(pin, version)]
    wins = max(others, key=lambda pin: pin.priority, default=None)
    if wins and wins.priority > max(TARGET_RELEASE, reached - 1):
        return PinnedPackage("elsewhere", wins)
    rivals = any(
        pin.priority >= reached and not (_fits(pin, version) and _spells_version(pin, version))
        for pin in (*own, *every)
    )
    wanted = first and first.priority > TARGET_RELEASE and not rivals
    if first and wanted and _spells_version(first, version):
        return PinnedPackage("kept", first)
    return PinnedPackage()


def _fits(pin: Pin, version: str) -> bool:
    return bool(pin.version) and fnmatch.fnmatchcase(version, pin.version)


def _spells_version(pin: Pin, version: str) -> bool:
    """Tell whether a record has the whole release of an installed version, so that no newer one of
    the branch fits it.
    """
    upstream = version.rpartition("-")[0] or version
    return re.split(r"[*?\[]", pin.version, maxsplit=1)[0].startswith(upstream)


def list_pinned(
    pins: Sequence[Pin], packages: Iterable[tuple[str, str]], verdict: Verdict
) -> list[tuple[str, Pin]]:
    """List the packages that the preferences treat so, each with the record. packages: name
    and installed version.
    """
    judged = ((name, judge_pins(pins, name, version)) for name, version in packages)
    return [
        (name, pinned.pin) for name, pinned in judged if pinned.pin and pinned.verdict == verdict
    ]
