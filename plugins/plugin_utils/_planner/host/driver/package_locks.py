# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the locks of dnf 4, dnf 5 and zypper, and judge what they keep of an installed package.

A lock of dnf names versions: all other versions of the package are kept out, and what one of several
locks names may come (sack() in versionlock.py of dnf-plugins-core; load_versionlock_excludes in
package_sack.cpp of libdnf5). So a package stays only if every lock of it names the installed version
alone. A lock of zypper, and a package that dnf.conf excludes, stays whatever its version is.
"""

from __future__ import annotations

import collections
import dataclasses as dc
import fnmatch
import functools
import itertools
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml_document,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    keeping_messages as messages,
)

LOCK_LIST = "/etc/dnf/plugins/versionlock.list"  # of dnf 4
LOCKS = (LOCK_LIST, "/etc/dnf/versionlock.toml", "/etc/zypp/locks")
# A lock that may be about the driver: a line of versionlock.list, where any other line shows its
# first sign; the names and conditions of versionlock.toml; zypper's stanzas (PoolQuery.cc of
# libzypp).
_LOCK = r"!?[\w*?\[\].+~^:-]+[ \t]*$"
LOCK_KEEPS: tuple[Keep, ...] = (
    {
        "format": "text",
        "patterns": [rf"^(?=.*(?:nvidia|cuda|kernel|[*])){_LOCK}", rf"^(?!#|[ \t]*$|{_LOCK})."],
    },
    {
        "format": "toml",
        "places": [
            [["version"], "version"],
            [["packages", "name"], "pattern"],
            [["packages", "conditions", "key"], "one of epoch|evr|arch"],
            [["packages", "conditions", "comparator"], "one of =|==|!=|<>|<|<=|>|>="],
            [["packages", "conditions", "value"], "version"],
        ],
    },
    {
        "format": "text",
        "patterns": [
            r"^solvable_name:[ \t]*[\w*?\[\].+-]+[ \t]*$",
            r"^match_type:[ \t]*[a-z]+[ \t]*$",
            r"^type:[ \t]*package[ \t]*$",
            r"^(?:type|version|repo|install_status|complex|query_string):",
        ],
    },
)
LOCK_LINE = re.compile(rf"#|{_LOCK}")
VERSIONLOCK = "/etc/dnf/plugins/versionlock.conf"  # of dnf 4; dnf 5 has it in itself
DNF_MAIN = "/etc/dnf/dnf.conf"
DNF4, DNF5 = "/usr/bin/dnf", "/usr/bin/dnf5"  # the first may be a link to the second
# The plugin's switch and its file of locks.
VERSIONLOCK_KEEP: Keep = {
    "format": "text",
    "patterns": [
        r"^[ \t]*\[\w+\]",
        r"^enabled[ \t]*[=:][ \t]*\w{1,8}[ \t]*$",
        r"^locklist[ \t]*[=:]",
        r"^locklist[ \t]*[=:][ \t]*/[\w./+-]{1,255}[ \t]*$",
    ],
}
LIST_PATH = re.compile(r"/[\w./+-]{1,255}", re.ASCII)
FORMAT_OF_DNF5 = "1.0"  # CONFIG_FILE_VERSION in versionlock_config.cpp; it reads no other one
_ARCHITECTURE = re.compile(r"\.(?:\*|noarch|x86_64|aarch64|i[3-6]86|ppc64le|s390x)$")
_VERSION = re.compile(r"(?:(\d+):)?([\d*?\[][^:-]*)")
_WILD = re.compile(r"[*?\[]")
MOST_LOCKS, MOST_PATTERNS = 1 << 13, 64
MOST_VERSIONS = 64  # of one name that are compared; those behind count as not named
MOST_BYTES, LONGEST_LOCK = 1 << 18, 1 << 8  # of one file, of a lock
NO = ("0", "no", "false", "off")  # of configparser, by which dnf reads its plugins' files

# free: no lock is about it. kept: it stays as it is. elsewhere: the locks let another version in.
Verdict = Literal["free", "kept", "elsewhere"]


@dc.dataclass(frozen=True)
class Lock:
    """A lock. name: a pattern of names. shown: the lock as its file has it. only: patterns of
    epoch:version-release that it lets in; None if it lets nothing in.
    """

    name: str
    shown: str
    only: tuple[str, ...] | None = None

    def keeps(self, evrs: Iterable[str]) -> bool:
        """Tell whether it lets in nothing but these installed versions. A pattern has to spell one
        of them out, up to its release.
        """
        if self.only is None:
            return True
        return any(_spells_out(pattern, evr) for pattern in self.only for evr in evrs)


@dc.dataclass(frozen=True)
class LockIndex:
    """The locks of a host, found by the names that they are about. Of more patterns of names than a
    host has, those behind count for none.
    """

    locks: tuple[Lock, ...] = ()

    @functools.cached_property
    def _judged(self) -> dict[tuple[str, tuple[str, ...]], Verdict]:
        return {}

    @functools.cached_property
    def _by_name(self) -> Mapping[str, Sequence[Lock]]:
        named = collections.defaultdict(list)
        for lock in self.locks:
            if not _WILD.search(lock.name):
                named[lock.name].append(lock)
        return named

    @functools.cached_property
    def _patterns(self) -> tuple[tuple[re.Pattern[str], Lock], ...]:
        wild = [lock for lock in self.locks if _WILD.search(lock.name)][:MOST_PATTERNS]
        return tuple((re.compile(fnmatch.translate(lock.name)), lock) for lock in wild)

    def list_named(self, name: str) -> tuple[Lock, ...]:
        """List the locks that name one package, and no pattern of names."""
        return tuple(self._by_name.get(name, ()))

    def list_locks(self, name: str) -> tuple[Lock, ...]:
        """List the locks that are about a package."""
        wild = (lock for pattern, lock in self._patterns if pattern.match(name))
        return (*self.list_named(name), *wild)

    def judge(self, name: str, versions: Iterable[str]) -> Verdict:
        """Judge the locks of a package. versions: the installed ones. A host may have a package in
        very many versions with very many locks, so each name is judged once.
        """
        evrs = list_compared_versions(versions)
        if (name, evrs) not in self._judged:
            self._judged[name, evrs] = self._judge(name, evrs)
        return self._judged[name, evrs]

    def _judge(self, name: str, evrs: tuple[str, ...]) -> Verdict:
        locks = self.list_locks(name)
        if not locks:
            return "free"
        stays = any(lock.only is None for lock in locks)
        return "kept" if stays or all(lock.keeps(evrs) for lock in locks) else "elsewhere"


def list_compared_versions(versions: Iterable[str]) -> tuple[str, ...]:
    """List the installed versions that are compared with locks, as epoch:version-release."""
    return tuple(dict.fromkeys(map(write_evr, versions)))[:MOST_VERSIONS]


def write_evr(version: str) -> str:
    """Return epoch:version-release of a version of rpm, which leaves an epoch of 0 out."""
    return version if ":" in version else f"0:{version}"


def _spells_out(pattern: str, evr: str) -> bool:
    """Tell whether a pattern of epoch:version-release has an installed version spelled out."""
    epoch, _colon, rest = pattern.partition(":")
    installed = evr.partition(":")[2].rpartition("-")[0]
    literal = _WILD.split(rest, maxsplit=1)[0]
    told = literal.startswith(installed) and epoch in ("*", evr.partition(":")[0])
    return told and fnmatch.fnmatchcase(evr, pattern)


def parse_locks(path: str, text: str) -> tuple[Lock, ...]:
    """Return the locks of a file."""
    if path == LOCKS[1]:
        return _parse_toml_locks(text, path)
    if path == LOCKS[2]:
        return _parse_zypper_locks(text)
    lines = (line.strip() for line in text.splitlines())
    every = (line for line in lines if line and not line.startswith(("#", "!")))
    return tuple(_parse_line(line) for line in every)


def _parse_line(line: str) -> Lock:
    """Return the lock of a line of versionlock.list: name-epoch:version-release.arch. All but the
    name may be missing, and a name alone lets every version in.
    """
    plain = _ARCHITECTURE.sub("", line)
    name, _dash, release = plain.rpartition("-")
    before, dash, version = name.rpartition("-")
    evr = _VERSION.fullmatch(version) if dash else None
    if evr:
        return Lock(before, line, (f"{evr[1] or '*'}:{evr[2]}-{release}",))
    evr = _VERSION.fullmatch(release) if name else None
    if evr:
        return Lock(name, line, (f"{evr[1] or '*'}:{evr[2]}-*",))
    return Lock(plain, line, ("*:*-*",))


def _parse_toml_locks(text: str, path: str) -> tuple[Lock, ...]:
    """Return the locks of dnf 5. An entry without a condition is none, and conditions that do not
    pin a version leave it open (dnf5-versionlock(8)).
    """
    try:
        values = toml_document.load_toml(text, path)
    except PlanError:  # which find_broken_lock tells
        return ()
    if values.get("version") != FORMAT_OF_DNF5:
        return ()
    locks = []
    for entry in _list_toml_tables(values, "packages"):
        name, conditions = entry.get("name"), _list_toml_tables(entry, "conditions")
        if not isinstance(name, str) or not name or not conditions:
            continue
        pins = [str(c.get("value")) for c in conditions if _pins(c)]
        shown = f"{name}-{write_evr(pins[0])}" if pins else name
        locks.append(Lock(name, shown, tuple(map(write_evr, pins))))
    return tuple(locks)


def _list_toml_tables(values: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """List the tables of an array. A host's file may have anything else in it."""
    tables = values.get(key)
    return (
        [table for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []
    )


def _pins(condition: Mapping[str, object]) -> bool:
    """Tell whether a condition keeps what is newer than its value out."""
    return condition.get("key") == "evr" and condition.get("comparator") in ("=", "==", "<=")


def _parse_zypper_locks(text: str) -> tuple[Lock, ...]:
    """Return the locks of zypper. One that has more than a name and its kind is not known to keep
    what is installed, and one of patches or patterns keeps no package.
    """
    locks = []
    for stanza in re.split(r"\n[ \t]*\n", text):
        pairs = re.findall(r"(?m)^(\w+):(.*)$", stanza)
        fields = {key: value.strip() for key, value in pairs}
        name = fields.get("solvable_name", "")
        more = fields.keys() & {"version", "repo", "install_status", "complex", "query_string"}
        kinds = [value.strip() for key, value in pairs if key == "type"]
        if not name or more or (kinds and "package" not in kinds):
            continue
        kind = fields.get("match_type", "glob")
        if kind in ("glob", "exact"):
            locks.append(Lock(name, name))
        elif kind == "substring":
            locks.append(Lock(f"*{name}*", name))
    return tuple(locks)


def find_broken_lock(file: ObservedFile) -> int:
    """Return the first line of a file of locks that is none, 0 if all are well. Of zypper's, which
    itself passes over what it does not know, none is.
    """
    if file.fault:
        return int(file.fault.get("line") or 1)
    if file.path == LOCKS[1]:
        try:
            toml_document.load_toml(file.text, file.path)
        except PlanError as error:
            return error.line or 1
    if file.path in LOCKS[1:]:
        return 0
    lines = enumerate(file.text.splitlines(), 1)
    return next((n for n, line in lines if line.strip() and not LOCK_LINE.match(line)), 0)


# --- what a host has
# ------------------------------------------------------------------------------------


@dc.dataclass(frozen=True)
class HostLocks:
    """A host's facts about the locks of its own package manager, which heeds no other one's.

    index: the locks in force. unused: the locks of versionlock.list while its plugin is off. files:
    the files that are read for them. dnf5: whether dnf is dnf 5. plugin: whether dnf can lock.
    off: the file that switches the plugin off, '' if it is on. list_path: the file of locks of
    dnf 4, '' if it is not known. distrust: why that file is not believed, '' if it is. manager: whose
    these locks are, apt, dnf or zypper.
    """

    index: LockIndex = LockIndex()
    unused: LockIndex = LockIndex()
    files: tuple[ObservedFile, ...] = ()
    dnf5: bool = False
    plugin: bool = False
    off: str = ""
    list_path: str = LOCK_LIST
    distrust: str = ""
    manager: str = ""


def list_lock_questions() -> list[queries.Question]:
    """Return the questions about the locks of dnf 4, of dnf 5 and of zypper."""
    files = zip(LOCKS, LOCK_KEEPS, strict=True)
    return [
        queries.ask_for_file(VERSIONLOCK, VERSIONLOCK_KEEP, max=MOST_BYTES),
        *(queries.ask_for_file(path, keep, max=MOST_BYTES) for path, keep in files),
    ]


def read_host_locks(
    obs: Observation,
    manager: str,
    programs: Mapping[str, str],
    plugins: str,
    excluded: Sequence[str],
) -> HostLocks:
    """Return the locks of a host. manager: apt, dnf or zypper; apt has its holds elsewhere. programs:
    the path of dnf and dnf5, as far as they are there, -> where it leads. plugins: the value of this
    option in dnf.conf. excluded: patterns of packages that dnf.conf keeps out of every upgrade.
    """
    if manager == "dnf":
        return _read_dnf_locks(obs, programs, plugins, excluded)
    files = (obs.get_file(LOCKS[2]),) if manager == "zypper" else ()
    return HostLocks(files=files, index=_index_files(files), manager=manager)


def _read_dnf_locks(
    obs: Observation, programs: Mapping[str, str], plugins: str, excluded: Sequence[str]
) -> HostLocks:
    """Return the locks of dnf 4 or of dnf 5, whichever `dnf` starts."""
    dnf5 = DNF5 in programs and programs.get(DNF4, DNF5) == programs[DNF5]
    switches = parse_section(obs.get_file(VERSIONLOCK).text, "main")
    off = DNF_MAIN if plugins.strip().lower() in NO else ""
    off = VERSIONLOCK if switches.get("enabled", "").strip().lower() in NO else off
    listed = switches.get("locklist", LOCK_LIST).strip()
    known = HostLocks(
        dnf5=dnf5,
        plugin=dnf5 or obs.get_file(VERSIONLOCK).exists,
        off="" if dnf5 else off,
        list_path=listed if LIST_PATH.fullmatch(listed) else "",
        manager="dnf",
    )
    files: tuple[ObservedFile, ...] = ()
    if dnf5:
        files = (obs.get_file(LOCKS[1]),)
    else:
        known = dc.replace(known, distrust=_find_distrust(obs, known.list_path))
        if known.list_path and not known.distrust:
            files = (obs.get_file(known.list_path, LOCK_KEEPS[0]),)
    unused = [f for f in files if known.off and f.path == known.list_path]
    return dc.replace(
        known,
        files=files,
        index=_index_files((f for f in files if f not in unused), excluded),
        unused=_index_files(unused),
    )


def index_excluded(excluded: Sequence[str]) -> LockIndex:
    """Return patterns of names that are excluded as locks, which let nothing in."""
    return _index_files((), excluded)


def _index_files(files: Iterable[ObservedFile], excluded: Sequence[str] = ()) -> LockIndex:
    locks = (lock for file in files for lock in parse_locks(file.path, file.text))
    # no package has a longer name and version
    locks = (lock for lock in locks if len(lock.shown) <= LONGEST_LOCK)
    every = itertools.chain(
        (Lock(name, name) for name in excluded if len(name) <= LONGEST_LOCK), locks
    )
    return LockIndex(tuple(itertools.islice(every, MOST_LOCKS)))


def _find_distrust(obs: Observation, path: str) -> str:
    """Return why a file of locks that a person has put elsewhere is not believed: others than root
    may change it, or the directories on its way.
    """
    if path in ("", LOCK_LIST):
        return ""
    folder = queries.ask_for_file(posixpath.dirname(path), content=False)
    obs.get_asked().require([folder, queries.ask_for_file(path, LOCK_KEEPS[0], max=MOST_BYTES)])
    answer = obs.get_answer(folder)
    if answer.get("type") != "dir":  # the account that makes it may put a link into it
        return messages.LIST_WITHOUT_FOLDER.fill(path=path)
    doubt = str(answer.get("untrusted") or "")
    file = obs.get_file(path, LOCK_KEEPS[0])
    if doubt or not file.exists:
        return doubt
    alone = not (file.uid or file.mode & 0o022 or file.is_link)
    return "" if alone else messages.LIST_NOT_ROOTS.fill(path=path)


def parse_section(text: str, name: str) -> Mapping[str, str]:
    """Return the values of a section of a file of dnf."""
    values, section = {}, ""
    for line in text.splitlines():
        heading = re.match(r"\s*\[(\w+)\]", line)
        pair = re.match(r"(\w+)\s*[=:]([^#]*)", line)
        section = heading[1] if heading else section
        if pair and section == name:
            values[pair[1]] = pair[2]
    return values
