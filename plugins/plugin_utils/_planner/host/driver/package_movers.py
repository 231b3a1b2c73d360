# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what installs newer packages on a host without a person, and which packages it would move.

Each program is known by its own configuration, in its own grammar: unattended-upgrades by apt's,
dnf-automatic by its file and its timer, transactional-update and os-update of SUSE by their timers,
and an update that is prepared for the next boot by the link that systemd looks for.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses as dc
import fnmatch
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    apt_conf,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver.driver_packages import (
    DriverPackage,
    DriverSet,
    Maker,
)

Program = Literal[
    "unattended-upgrades", "dnf-automatic", "transactional-update", "os-update", "offline-update"
]
APT_PARTS, APT_FILE = "/etc/apt/apt.conf.d/", "/etc/apt/apt.conf"
DNF_FILE, DNF_MAIN = "/etc/dnf/automatic.conf", "/etc/dnf/dnf.conf"
LOCKS = ("/etc/dnf/plugins/versionlock.list", "/etc/dnf/versionlock.toml", "/etc/zypp/locks")
NAME = "movers"
MOST_BYTES = 1 << 18  # of one file
TIMERS = "/etc/systemd/system/"
UNATTENDED = "/usr/bin/unattended-upgrade"
OFFLINE = "/system-update"  # systemd.offline-updates(7)
PATHS = [f"{TIMERS}*.wants/*.timer", f"{TIMERS}*.timer", UNATTENDED, OFFLINE]

# What of apt's configuration may travel: the options of unattended-upgrades that decide which
# packages it takes, and when apt starts it. Comments within such a list travel with it.
_OPTION = (
    r"(?:APT::Periodic|Unattended-Upgrade)::(?:Enable|Unattended-Upgrade|Allowed-Origins"
    r"|Origins-Pattern|Package-Blacklist|Package-Whitelist(?:-Strict)?)"
)
# A comment ends where its line does, and other text where something else begins: so it can be read
# in one way only.
_BODY = r"(?:\"[^\"\n]*\"|(?://|#)[^\n]*(?=\n|\Z)|[^{}\"/#]+(?=[{}\"/#]|\Z)|/(?!/))*"
_VALUE = rf"(?:(?:\s*\"[^\"\n]*\"|\s*\b\w+|)\s*;|\s*\{{{_BODY}\}}(?:\s*;)?)"
APT_KEEP: Keep = {
    "format": "text",
    "patterns": [
        rf"(?i)^[ \t]*(?:#clear[ \t]+)?{_OPTION}(?:::)?{_VALUE}",
        rf"(?i)^[ \t]*APT(?:::|\s*\{{\s*)Periodic\s*\{{{_BODY}\}}(?:\s*;)?(?:\s*\}}(?:\s*;)?)?",
        # other spellings: the text is then known not to be read as a whole
        r"(?i)^[ \t]*Unattended-Upgrade\s*\{",
        r"^[ \t]*/\*|\*/",
    ],
}
# A value travels whole or not at all: the beginning of a pattern fits more names than all of it.
DNF_KEEP: Keep = {
    "format": "text",
    "patterns": [
        r"^[ \t]*\[\w+\]",
        r"^(?:apply_updates|upgrade_type|exclude(?:pkgs)?)[ \t]*[=:][ \t]*[\w*?\[\].,+~^: \t-]+$",
    ],
}
# A lock that may be about the driver: a line of versionlock.list (versionlock.py of
# dnf-plugins-core), where any other line shows its first sign; the names of versionlock.toml;
# solvable_name of zypper's locks.
_LOCK = r"!?[\w*?\[\].+~^:-]+[ \t]*$"
LOCK_KEEPS: tuple[Keep, ...] = (
    {
        "format": "text",
        "patterns": [rf"^(?=.*(?:nvidia|cuda|kernel|[*])){_LOCK}", rf"^(?!#|[ \t]*$|{_LOCK})."],
    },
    {
        "format": "toml",
        "places": [
            [["packages", "name"], "pattern"],
            [["packages", "conditions", "comparator"], "one of =|==|!=|<|<=|>|>="],
        ],
    },
    {"format": "text", "patterns": [r"^solvable_name:[ \t]*[\w*?\[\].+-]+[ \t]*$"]},
)
LOCK_LINE = re.compile(rf"#|{_LOCK}")
# What a maker's repository says of itself in its Release file, by which unattended-upgrades
# decides: those of Debian, Ubuntu and NVIDIA (developer.download.nvidia.com/compute/cuda/repos).
ORIGINS: Mapping[Maker, Mapping[str, str]] = {
    "debian": {"o": "Debian"},
    "ubuntu": {"o": "Ubuntu"},
    "nvidia": {"o": "NVIDIA", "site": "developer.download.nvidia.com"},
}
FIELDS = {"origin": "o"}
# A rule of the blacklist of which two signs repeat at most: a host has written it, and this one is
# compared in a time that is known.
_ONE = r"(?:[^\\()\[\]{}*+?|]|\\[^\w\s]|\[\^?[\w.+-]+\])"
PLAIN_RULE = re.compile(rf"{_ONE}*(?:{_ONE}[*+?]{_ONE}*){{0,2}}")
# Of an entry of dnf 5's locks: its beginning, its name, and what its conditions compare by.
ENTRY = re.compile(r"(?m)^\s*\[\[\s*packages\s*\]\]")
LOCKED_NAME = re.compile(r"(?m)^\s*name\s*=\s*[\"']([^\"']*)")
COMPARED = re.compile(r"\bcomparator\s*=\s*[\"']([^\"']*)")
UPPER_BOUND = frozenset({"=", "==", "<", "<="})
LITERAL = re.compile(r"[^*?\[]*")  # the beginning of a lock that is no pattern
MOST_RULES, MOST_REPEATING, MOST_LOCKS, MOST_OF_ONE = 256, 32, 1 << 13, 64
LONGEST_NAME = 128
YES = ("1", "yes", "true", "on")


@dc.dataclass(frozen=True)
class Mover:
    """A program that moves packages by itself. where: the file that says so. moves: the packages
    that it may take to another version.
    """

    program: Program
    where: str
    moves: tuple[DriverPackage, ...]


@dc.dataclass(frozen=True)
class MoverFiles:
    """Hold the answers of a host about such programs.

    apt: its configuration. unread: the first file of it that could not be read as apt reads it, ''
    for none. timers: the timers that are enabled. dnf: the values of dnf-automatic, None without
    its file. locks: patterns of names that dnf or zypper keep. unattended, offline: whether the
    program is installed, and whether an update waits for the next boot.
    """

    apt: apt_conf.AptConf = apt_conf.AptConf()
    unread: str = ""
    timers: frozenset[str] = frozenset()
    dnf: Mapping[str, str] | None = None
    locks: tuple[str, ...] = ()
    unattended: bool = False
    offline: bool = False


def list_mover_questions() -> list[queries.Question]:
    return [
        queries.ask_for_paths(NAME, PATHS),
        queries.ask_for_glob(f"{APT_PARTS}*", APT_KEEP),
        queries.ask_for_file(APT_FILE, APT_KEEP, max=MOST_BYTES),
        queries.ask_for_file(DNF_FILE, DNF_KEEP, max=MOST_BYTES),
        queries.ask_for_file(DNF_MAIN, DNF_KEEP, max=MOST_BYTES),
        *ask_for_locks(),
    ]


def ask_for_locks() -> tuple[queries.Question, ...]:
    """Ask for the locks of dnf 4, of dnf 5 and of zypper."""
    return tuple(
        queries.ask_for_file(path, keep, max=MOST_BYTES)
        for path, keep in zip(LOCKS, LOCK_KEEPS, strict=True)
    )


def read_mover_files(obs: Observation) -> MoverFiles:
    """Return what the host's files say."""
    there = {
        str(f["path"]): str(f.get("real") or "")
        for f in obs.get_answer(list_mover_questions()[0]).get("files") or ()
    }
    masked = {posixpath.basename(path) for path, real in there.items() if real == "/dev/null"}
    timers = {posixpath.basename(path) for path in there if ".wants/" in path}
    apt, unread = _read_apt(obs)
    automatic = obs.get_file(DNF_FILE)
    return MoverFiles(
        apt=apt,
        unread=unread,
        timers=frozenset(timers - masked),
        dnf=parse_automatic(automatic.text) if automatic.exists else None,
        locks=(
            *parse_excluded(obs.get_file(DNF_MAIN).text, "main"),
            *parse_excluded(automatic.text, "base"),
            *(lock for path in LOCKS for lock in parse_locks(path, obs.get_file(path).text)),
        )[:MOST_LOCKS],
        unattended=UNATTENDED in there,
        offline=OFFLINE in there,
    )


def _read_apt(obs: Observation) -> tuple[apt_conf.AptConf, str]:
    """Return apt's configuration, and the first file that cannot be read."""
    parts = {posixpath.basename(f.path): f for f in obs.list_glob_files(f"{APT_PARTS}*")}
    names = apt_conf.sort_apt_conf_names(parts)
    files: list[ObservedFile] = [*(parts[name] for name in names), obs.get_file(APT_FILE)]
    unread = ""
    texts: list[str] = []
    for file in files:
        try:
            apt_conf.read_apt_conf([file.text])
            texts.append(file.text)
        except apt_conf.NotAptConf:
            unread = unread or file.path
        if file.error or file.fault:
            unread = unread or file.path
    return apt_conf.read_apt_conf(texts), unread


def parse_automatic(text: str) -> Mapping[str, str]:
    """Return the values of the section [commands] of dnf-automatic's file (dnf5-automatic(8))."""
    values = parse_section(text, "commands").items()
    return {name: value.strip().lower() for name, value in values}


def parse_excluded(text: str, name: str) -> tuple[str, ...]:
    """Return the packages that a section excludes from every upgrade (dnf.conf(5), excludepkgs)."""
    values = parse_section(text, name)
    listed = " ".join(values.get(option, "") for option in ("exclude", "excludepkgs"))
    return tuple(filter(None, re.split(r"[\s,]+", listed)))


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


def parse_locks(path: str, text: str) -> tuple[str, ...]:
    """Return the patterns of names that a file of locks keeps. A line of dnf 4 may have a version
    behind the name; one with ! excludes that version alone. An entry of dnf 5 has conditions: one
    that newer versions fit keeps nothing (dnf5-versionlock(8)).
    """
    if path == LOCKS[0]:
        lines = (line.strip() for line in text.splitlines())
        return tuple(line for line in lines if line and not line.startswith(("#", "!")))
    if path != LOCKS[1]:
        return tuple(re.findall(r"^\s*solvable_name:\s*(\S+)", text, re.MULTILINE))
    entries = [
        entry for entry in ENTRY.split(text) if UPPER_BOUND.issuperset(COMPARED.findall(entry))
    ]
    return tuple(name for entry in entries for name in LOCKED_NAME.findall(entry))


def find_broken_lock(file: ObservedFile) -> int:
    """Return the first line of a file of locks that is none, 0 if all are well. Of zypper's, which
    itself passes over what it does not know, none is.
    """
    if file.fault:
        return int(file.fault.get("line") or 1)
    if file.path != LOCKS[0]:
        return 0
    lines = enumerate(file.text.splitlines(), 1)
    return next((n for n, line in lines if line.strip() and not LOCK_LINE.match(line)), 0)


def list_movers(
    files: MoverFiles,
    found: DriverSet,
    released: Collection[str] = (),
    past: Iterable[str] = (),
) -> tuple[Mover, ...]:
    """List the programs that may move packages of the driver, as they are now.

    released: packages that a plan lets go. past: entries of unattended-upgrades' blacklist that go
    with the same plan.
    """
    free = tuple(
        p for p in found.matching if p.name in released or not (p.held or is_locked(p, files.locks))
    )
    every = (
        _find_unattended(files, free, past) if found.manager == "dpkg" else None,
        _find_automatic(files, free) if found.manager == "rpm" else None,
        _find_timer(files, free, "transactional-update"),
        _find_timer(files, free, "os-update"),
        Mover("offline-update", OFFLINE, free) if files.offline and free else None,
    )
    return tuple(mover for mover in every if mover and mover.moves)


def is_locked(package: DriverPackage, locks: Sequence[str]) -> bool:
    """Tell whether one of the patterns is of this package: a name, or a name with its version. Of
    more patterns than a host has, those behind count for none.
    """
    name = package.name
    fitting = [lock for lock in locks if _may_begin(LITERAL.match(lock), name)]
    epoch, colon, version = package.version.rpartition(":")
    full = f"{package.name}-{epoch or '0'}:{version}"
    plain = f"{package.name}-{version}" if not colon or epoch == "0" else full
    return any(
        fnmatch.fnmatchcase(candidate, lock)
        for lock in fitting[:MOST_OF_ONE]
        for candidate in (name, full, plain, f"{full}.arch", f"{plain}.arch")
    )


def has_lock(name: str, locks: Sequence[str]) -> bool:
    """Tell whether one of the patterns is a lock of this one package, as dnf and zypper make them:
    its name, or its name with a version.
    """
    made = re.compile(rf"{re.escape(name)}(?:-\d+:.*)?")
    return any(made.fullmatch(lock) for lock in locks)


def _may_begin(literal: re.Match[str] | None, name: str) -> bool:
    """Tell whether a text may begin with a name, by the part of its pattern that is literal."""
    text = literal[0] if literal else ""
    return text.startswith(name) or name.startswith(text)


def _find_unattended(
    files: MoverFiles, free: Iterable[DriverPackage], past: Iterable[str]
) -> Mover | None:
    """Return unattended-upgrades with what it may move. apt starts it where both switches of
    APT::Periodic allow it and the timer is enabled (apt.systemd.daily). past: entries of its
    blacklist that do not count.
    """
    period = files.apt.get("APT::Periodic::Unattended-Upgrade")
    if not (
        files.unattended
        and "apt-daily-upgrade.timer" in files.timers
        and period not in ("", "0")
        and files.apt.get("APT::Periodic::Enable") != "0"
    ):
        return None
    kept = collections.Counter(files.apt.list_items("Unattended-Upgrade::Package-Blacklist"))
    kept.subtract(past)
    rules = compile_rules(rule for rule, times in kept.items() if times > 0)
    patterns = list_allowed_origins(files.apt)
    makers = {
        maker
        for maker in {p.maker for p in free}
        if any(may_take_from(pattern, maker) for pattern in patterns)
    }
    moves = tuple(p for p in free if p.maker in makers and not fits_beginning(rules, p.name))
    return Mover("unattended-upgrades", f"{APT_PARTS}*", moves)


def list_allowed_origins(conf: apt_conf.AptConf) -> tuple[str, ...]:
    """Return the patterns of origins, the old form as the new one (get_allowed_origins in
    unattended-upgrade).
    """
    old = (
        re.split(r"(?<!\\):", item, maxsplit=1) if ":" in item else item.split(None, 1)
        for item in conf.list_items("Unattended-Upgrade::Allowed-Origins")
    )
    return (
        *(f"o={pair[0]},a={pair[1]}" for pair in old if len(pair) == 2),
        *conf.list_items("Unattended-Upgrade::Origins-Pattern"),
    )


def may_take_from(pattern: str, maker: Maker) -> bool:
    """Tell whether a pattern of origins may allow a maker's repository. Only what a maker is known
    to write is compared, so a mirror or a suite never makes a driver look kept.
    """
    known = ORIGINS.get(maker, {})
    for token in pattern.split(","):
        what, _equals, value = (part.strip() for part in token.partition("="))
        value = value.replace(
            "${distro_id}", {"debian": "Debian", "ubuntu": "Ubuntu"}.get(maker, "-")
        )
        told = known.get(FIELDS.get(what, what))
        if told is not None and not fnmatch.fnmatch(told, value):
            return False
    return bool(pattern.strip())


def compile_rules(kept: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    """Return the rules of the blacklist that can be compared. One that Python refuses ends
    unattended-upgrades before it moves anything, and fits no name here. Nor does one that may take
    long, nor what comes after very many: the driver then looks free to move.
    """
    parts = [part for rule in kept for part in rule.split("|")][:MOST_RULES]
    plain = [part for part in parts if len(part) <= LONGEST_NAME and PLAIN_RULE.fullmatch(part)]
    repeating = [part for part in plain if re.search(r"[*+?]", part)][:MOST_REPEATING]
    found = []
    for part in (*(p for p in plain if not re.search(r"[*+?]", p)), *repeating):
        with contextlib.suppress(re.error):
            found.append(re.compile(part))
    return tuple(found)


def fits_beginning(rules: Iterable[re.Pattern[str]], name: str) -> bool:
    """Tell whether a rule fits the beginning of a name, as unattended-upgrades compares it."""
    return len(name) <= LONGEST_NAME and any(rule.match(name) for rule in rules)


def _find_automatic(files: MoverFiles, free: tuple[DriverPackage, ...]) -> Mover | None:
    """Return dnf-automatic if it installs what it finds. NVIDIA's repository has no advisories, so
    security updates leave its driver alone.
    """
    values = files.dnf or {}
    installs = "dnf-automatic-install.timer" in files.timers or (
        bool(files.timers & {"dnf-automatic.timer", "dnf5-automatic.timer"})
        and values.get("apply_updates", "no") in YES
    )
    advised = values.get("upgrade_type", "default") == "security"
    moves = tuple(p for p in free if not (advised and p.maker == "nvidia"))
    return Mover("dnf-automatic", DNF_FILE, moves) if installs else None


def _find_timer(
    files: MoverFiles, free: tuple[DriverPackage, ...], program: Program
) -> Mover | None:
    timer = f"{program}.timer"
    return (
        Mover(program, f"{TIMERS}timers.target.wants/{timer}", free)
        if timer in files.timers
        else None
    )
