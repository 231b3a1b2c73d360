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
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver.package_locks import (
    MOST_BYTES,
    Verdict,
)

PIN_FILE, PIN_PARTS = "/etc/apt/preferences", "/etc/apt/preferences.d/"
# A record that names a repository shows that it does, and not which one. Of a line that continues
# the one before it, the blanks are shown, so that the value is known to have more.
PIN_KEEP: Keep = {
    "format": "text",
    "patterns": [
        r"(?i)^Package[ \t]*:[ \t]*(?=\S)[\w.+*?\[\]:/^$| \t-]{1,4096}\r?$",
        r"(?i)^Pin[ \t]*:[ \t]*version[ \t]+[\w.+~:*?\[\]-]{1,256}[ \t]*\r?$",
        r"(?i)^Pin[ \t]*:[ \t]*release[ \t]+\*[ \t]*\r?$",
        r"(?i)^Pin[ \t]*:[ \t]*(?:release|origin|version)\b",
        r"(?i)^Pin-Priority[ \t]*:[ \t]*[+-]?\d{1,6}(?!\d)",
        r"(?i)^(?:Package|Pin|Pin-Priority|Explanation)[ \t]*:",
        r"^[ \t]+(?=\S)",
    ],
}
# A file of preferences.d counts by its name alone (GetListOfFilesInDir in
# apt-pkg/contrib/fileutl.cc).
_COUNTS = re.compile(r"[\w:-]+|[\w:-][\w:.-]*\.pref", re.ASCII)
# A field, and how apt reads a number (pkgTagSection in apt-pkg/tagfile.cc): text after the digits
# does not count.
_FIELD, _NUMBER = re.compile(r"([\w-]+)[ \t]*:(.*)"), re.compile(r"[+-]?\d{1,6}(?!\d)")
# Above this one a version wins over each repository, also over the target release.
TARGET_RELEASE, HIGHEST = 990, 32767
NATIVE = "native"  # the architecture of the system
ARCHITECTURES = ("amd64", "arm64", "armhf", "i386", "ppc64el", "riscv64", "s390x")
_NATIVE_NAMES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el"}  # by `uname -m`
ALL_PACKAGES = ("*",)
NOT_COMPARED: tuple[str, ...] = ()
# A stanza may list all packages of a driver by their names. Patterns cost more.
MOST_PINS, MOST_NAMES, MOST_PATTERNS, LONGEST_NAME = 256, 256, 128, 128
MOST_WILD = 4  # signs that stand for others, of a name
_WILD = re.compile(r"[*?\[]")
_EMPTY_LINES, _FIRST_WORD = re.compile(r"\n\n+"), re.compile(r"\w*")
_SHOWN_NAME = re.compile(r"[\w.+*?\[\]-]+", re.ASCII)  # no regular expression
_SHOWN_VERSION = re.compile(r"[\w.+~:*?\[\]-]{1,256}", re.ASCII)


@dc.dataclass(frozen=True)
class Pin:
    """A record. path: of its file. names: patterns of packages; ALL_PACKAGES of a record for all of
    them, NOT_COMPARED of one that may be about each of them. version: a pattern of versions, '' for
    one that names a repository, or that is not known.
    """

    path: str
    names: tuple[str, ...]
    version: str
    priority: int

    @functools.cached_property
    def _plain(self) -> frozenset[str]:
        """The names that are not patterns, each as name:architecture."""
        return frozenset(_add_architecture(name) for name in self.names if not _WILD.search(name))

    @functools.cached_property
    def _rule(self) -> re.Pattern[str] | None:
        """All patterns as one rule for name:architecture, since a host may have many of both. apt
        compares patterns without regard to the case (pkgVersionMatch in apt-pkg/versionmatch.cc).
        """
        wild = [_add_architecture(name) for name in self.names if _WILD.search(name)]
        return re.compile("|".join(map(fnmatch.translate, wild)), re.I) if wild else None

    def is_about(self, name: str) -> bool:
        """Tell whether it names a package. Without an architecture it is about the system's."""
        if self.names == ALL_PACKAGES:
            return False
        of = _add_architecture(name)
        plain = {of, f"{of.partition(':')[0]}:any"}
        return bool(self._plain & plain or (self._rule and self._rule.match(of)))

    def fits(self, version: str) -> bool:
        """Tell whether it is about an installed version."""
        return bool(self._version_rule.match(version))

    @functools.cached_property
    def _version_rule(self) -> re.Pattern[str]:
        return re.compile(fnmatch.translate(self.version), re.I)

    def spells(self, version: str) -> bool:
        """Tell whether it has the whole release of an installed version, so that no newer one of the
        branch fits it.
        """
        upstream = (version.rpartition("-")[0] or version).lower()
        literal = _WILD.split(self.version.lower(), maxsplit=1)[0]
        return self.fits(version) and literal.startswith(upstream)


def _add_architecture(name: str) -> str:
    """Return name:architecture. Of a pattern for any architecture that is a pattern as well."""
    plain, _colon, of = name.partition(":")
    return f"{plain}:{'*' if of == 'any' and _WILD.search(plain) else of or NATIVE}"


@dc.dataclass(frozen=True)
class PinnedPackage:
    """A package as the preferences treat it. pin: the record that decides, None for none."""

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
    native = _NATIVE_NAMES.get(str(obs.host.get("machine")), "")
    pins = [pin for file in files for pin in _read_pins_of_file(file, native)]
    # of what comes after very many nothing is known
    rest = [Pin(pin.path, NOT_COMPARED, "", pin.priority) for pin in pins[MOST_PINS:]]
    worst = sorted(rest, key=lambda pin: pin.priority)[-1:]
    return (*_leave_patterns_out(pins[:MOST_PINS]), *worst)


def _read_pins_of_file(file: ObservedFile, native: str) -> tuple[Pin, ...]:
    """Return the records of a file. One that could not be read may have any."""
    if file.error:
        return (Pin(file.path, NOT_COMPARED, "", HIGHEST),)
    return parse_pins(file.path, file.text, native)


def _leave_patterns_out(pins: Iterable[Pin]) -> Iterator[Pin]:
    """Yield the records. Of very many patterns of names, those behind are not compared."""
    left = MOST_PATTERNS
    for pin in pins:
        wild = [name for name in pin.names if pin.names != ALL_PACKAGES and _WILD.search(name)]
        left -= len(wild)
        if wild and left < 0:
            yield Pin(pin.path, NOT_COMPARED, pin.version, pin.priority)
        else:
            yield pin


def parse_pins(path: str, text: str, native: str = "") -> tuple[Pin, ...]:
    """Return the records of a file. One for all packages may name a repository alone: apt itself
    passes over one that names a version. One with names that are not compared may be about each
    package, and so may one of an architecture if that of the system is not known. native: the
    architecture of the system, '' if it is not known.
    """
    records = []
    for fields, more in _read_records(text):
        every = tuple(fields.get("package", "").split())
        names = tuple(
            name.removesuffix(f":{native}") if native else name
            for name in every[:MOST_NAMES]
            if _is_compared(name)
        )
        kind, wanted = _read_version(fields.get("pin", ""), every)
        number = _NUMBER.match(fields.get("pin-priority", ""))
        if not kind or not (number or "pin-priority" in more):
            continue
        # A value that goes on in the next line is not known.
        wanted = "" if more & {"pin", "pin-priority"} else wanted
        priority = int(number[0]) if number else HIGHEST
        if names and not (kind == "version" and every == ALL_PACKAGES):
            records.append(Pin(path, names, wanted, priority))
        unsure = not native and any(":" in name and name[-4:] != ":any" for name in names)
        if len(names) < len(every) or not every or "package" in more or unsure:
            records.append(Pin(path, NOT_COMPARED, wanted, priority))
    return tuple(records)


def _read_records(text: str) -> Iterator[tuple[Mapping[str, str], Set[str]]]:
    """Yield the fields of each record, by small letters, and which of them have more lines. Only an
    empty line ends a record, and the last field of one name counts.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n") if not line.startswith("#")]
    for record in _EMPTY_LINES.split("\n".join(lines)):
        fields: dict[str, str] = {}
        more: set[str] = set()
        last = ""
        for line in record.split("\n"):
            field = _FIELD.match(line)
            if field:
                last = field[1].lower()
                fields[last] = field[2].strip()
                more.discard(last)
            elif line[:1] in (" ", "\t") and line.strip():
                more.add(last)
        yield fields, more


def _read_version(pin: str, names: tuple[str, ...]) -> tuple[str, str]:
    """Return the kind of a record, and the pattern of versions that it names, '' for none and for
    one that is not shown. A release * is about all versions of all repositories.
    """
    kind = _FIRST_WORD.match(pin)
    word = kind[0].lower() if kind else ""
    value = pin[len(word) :]
    value = value.strip() if value[:1] in (" ", "\t") else ""
    value = value if _SHOWN_VERSION.fullmatch(value) else ""
    every_release = word == "release" and value == "*" and names != ALL_PACKAGES
    return word, value if word == "version" or every_release else ""


def _is_compared(name: str) -> bool:
    """Tell whether a pattern is plain enough to be compared with very many names. That of a source
    is not, since the source of a package is not asked.
    """
    plain, colon, of = name.partition(":")
    known = not colon or of == "any" or of in ARCHITECTURES
    shown = len(name) <= LONGEST_NAME and bool(_SHOWN_NAME.fullmatch(plain))
    return known and shown and len(_WILD.findall(plain)) <= MOST_WILD


def judge_pins(pins: Sequence[Pin], name: str, version: str) -> PinnedPackage:
    """Judge the records of one package. version: the installed one.

    A record for all packages decides about a version that no record of the package fits: a newer
    version from its repository may come by it.
    """
    own, named = _list_deciding(pins, name)
    if named and named[-1].version == "*" and all(pin.priority < 0 for pin in own):
        return PinnedPackage("kept", named[-1])  # no version may come
    first = next((pin for pin in named if pin.fits(version)), None)
    others = [pin for pin in named if pin.version and not pin.fits(version)]
    wins = max(others, key=lambda pin: pin.priority, default=None)
    if wins and wins.priority > max(TARGET_RELEASE, first.priority - 1 if first else 0):
        return PinnedPackage("elsewhere", wins)
    if not first:
        return PinnedPackage()
    # apt takes each version's first record, and one before this one may be about the installed one
    may_fit = [p for p in own[: own.index(first)] if not p.version or p.fits(version)]
    reached = min(pin.priority for pin in (*may_fit, first))
    every = [pin for pin in pins if pin.names == ALL_PACKAGES]
    rivals = any(pin.priority >= reached and not pin.spells(version) for pin in (*own, *every))
    kept = reached > TARGET_RELEASE and not rivals
    return PinnedPackage("kept", first) if kept else PinnedPackage()


def _list_deciding(pins: Sequence[Pin], name: str) -> tuple[list[Pin], list[Pin]]:
    """List the records that may decide about a version of a package, up to the one that decides
    about all that are left, and those of them that name the package.
    """
    own, named = [], []
    for pin in pins:
        if pin.is_about(name):
            named.append(pin)
        elif pin.names != NOT_COMPARED:
            continue
        own.append(pin)
        if named[-1:] == [pin] and pin.version == "*":
            break
    return own, named


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
