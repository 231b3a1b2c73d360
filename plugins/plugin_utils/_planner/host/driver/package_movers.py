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
from collections.abc import Collection, Iterable, Mapping
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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import base_package
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    apt_pins,
    package_locks,
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
DNF_FILE, DNF_MAIN = "/etc/dnf/automatic.conf", package_locks.DNF_MAIN
NAME = "movers"
TIMERS = "/etc/systemd/system/"
UNATTENDED = "/usr/bin/unattended-upgrade"
OFFLINE = "/system-update"  # systemd.offline-updates(7)
PROGRAMS = (package_locks.DNF4, package_locks.DNF5)
PATHS = [f"{TIMERS}*.wants/*.timer", f"{TIMERS}*.timer", UNATTENDED, OFFLINE, *PROGRAMS]

# The parts of apt's configuration that may travel: the options of unattended-upgrades that decide
# which packages it takes, and when apt starts it. Comments within such a list travel with it.
PERIOD_KEY, ENABLE_KEY = "APT::Periodic::Unattended-Upgrade", "APT::Periodic::Enable"
OLD_ORIGINS_KEY = "Unattended-Upgrade::Allowed-Origins"
ORIGINS_KEY = "Unattended-Upgrade::Origins-Pattern"
BLACKLIST_KEY = "Unattended-Upgrade::Package-Blacklist"
WHITELIST_KEY = "Unattended-Upgrade::Package-Whitelist"
STRICT_KEY = f"{WHITELIST_KEY}-Strict"
_KEYS = (
    PERIOD_KEY, ENABLE_KEY, OLD_ORIGINS_KEY, ORIGINS_KEY, BLACKLIST_KEY, STRICT_KEY, WHITELIST_KEY,
)  # fmt: skip
_OPTION = rf"(?:{'|'.join(_KEYS)})"
# A comment ends where its line does, and other text where something else begins: so it can be read
# in one way only.
_BODY = r"(?:\"[^\"\n]*\"|(?://|#)[^\n]*(?=\n|\Z)|[^{}\"/#]+(?=[{}\"/#]|\Z)|/(?!/))*"
_VALUE = rf"(?:(?:\s*\"[^\"\n]*\"|\s*\b\w+|)\s*;|\s*\{{{_BODY}\}}(?:\s*;)?)"
APT_KEEP: Keep = {
    "format": "text",
    "patterns": [
        rf"(?i)^[ \t]*(?:#clear[ \t]+)?{_OPTION}(?:::)?{_VALUE}",
        rf"(?i)^[ \t]*APT(?:::|\s*\{{\s*)Periodic\s*\{{{_BODY}\}}(?:\s*;)?(?:\s*\}}(?:\s*;)?)?",
        # other files and other spellings: the text is then known not to be read as a whole
        r"^[ \t]*#include\b",
        r"(?i)^[ \t]*Unattended-Upgrade\s*\{",
        r"^[ \t]*/\*|\*/",
    ],
}
# A value travels whole or not at all: the beginning of a pattern fits more names than all of it.
DNF_KEEP: Keep = {
    "format": "text",
    "patterns": [
        r"^[ \t]*\[\w+\]",
        r"^plugins[ \t]*[=:][ \t]*\w{1,8}[ \t]*$",
        r"^(?:apply_updates|upgrade_type|exclude(?:pkgs)?)[ \t]*[=:][ \t]*[\w*?\[\].,+~^: \t-]+$",
    ],
}
# The fields of a maker's repository in its Release file, by which unattended-upgrades decides:
# Debian's, Ubuntu's and NVIDIA's (developer.download.nvidia.com/compute/cuda/repos).
ORIGINS: Mapping[Maker, Mapping[str, str]] = {
    "debian": {"o": "Debian"},
    "ubuntu": {"o": "Ubuntu"},
    "nvidia": {"o": "NVIDIA", "site": "developer.download.nvidia.com"},
}
FIELDS = {"origin": "o"}
_BETWEEN_NAMES = re.compile(r"[\s,]+")
# A rule of the blacklist with at most two repeated signs. A host has written it, and a rule of this
# form is compared in a known time.
_ONE = r"(?:[^\\()\[\]{}*+?|]|\\[^\w\s]|\[\^?[\w.+-]+\])"
PLAIN_RULE = re.compile(rf"{_ONE}*(?:{_ONE}[*+?]{_ONE}*){{0,2}}")
MOST_RULES, MOST_REPEATING = 256, 32
MOST_ORIGINS, LONGEST_ORIGIN = 64, 256
LONGEST_NAME = 128
YES = ("1", "yes", "true", "on")
APT_YES = (*YES, "with", "enable")  # StringToBool in apt-pkg/contrib/strutl.cc


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
    for none. pins: its preferences. timers: the timers that are enabled. dnf: the values of
    dnf-automatic, None without its file. left_out: what it alone excludes, as locks. locks:
    those of dnf or zypper. unattended, offline: whether the program is installed, and whether an
    update waits for the next boot.
    """

    apt: apt_conf.AptConf = apt_conf.AptConf()
    unread: str = ""
    pins: tuple[apt_pins.Pin, ...] = ()
    timers: frozenset[str] = frozenset()
    dnf: Mapping[str, str] | None = None
    left_out: package_locks.LockIndex = package_locks.LockIndex()
    locks: package_locks.HostLocks = package_locks.HostLocks()
    unattended: bool = False
    offline: bool = False


def list_mover_questions() -> list[queries.Question]:
    return [
        queries.ask_for_paths(NAME, PATHS),
        queries.ask_for_glob(f"{APT_PARTS}*", APT_KEEP),
        queries.ask_for_file(APT_FILE, APT_KEEP, max=package_locks.MOST_BYTES),
        queries.ask_for_file(DNF_FILE, DNF_KEEP, max=package_locks.MOST_BYTES),
        queries.ask_for_file(DNF_MAIN, DNF_KEEP, max=package_locks.MOST_BYTES),
        *apt_pins.list_pin_questions(),
        *package_locks.list_lock_questions(),
    ]


def read_mover_files(obs: Observation) -> MoverFiles:
    """Return what the host's files say."""
    there = {
        str(f["path"]): str(f.get("real") or "")
        for f in obs.get_answer(list_mover_questions()[0]).get("files") or ()
    }
    masked = {posixpath.basename(path) for path, real in there.items() if real == "/dev/null"}
    timers = {posixpath.basename(path) for path in there if ".wants/" in path}
    apt, unread = _read_apt(obs)
    automatic, main = obs.get_file(DNF_FILE), obs.get_file(DNF_MAIN)
    return MoverFiles(
        apt=apt,
        unread=unread,
        pins=apt_pins.read_pins(obs),
        timers=frozenset(timers - masked),
        dnf=parse_automatic(automatic.text) if automatic.exists else None,
        left_out=package_locks.index_excluded(
            (*parse_excluded(automatic.text, "base"), *parse_excluded(main.text, "main"))
        ),
        locks=package_locks.read_host_locks(
            obs,
            base_package.get_package_manager(obs),
            {path: there[path] for path in PROGRAMS if path in there},
            package_locks.parse_section(main.text, "main").get("plugins", ""),
            parse_excluded(main.text, "main"),
        ),
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
            if file.error or file.fault:
                raise apt_conf.NotAptConf(0)
            apt_conf.read_apt_conf([file.text])
            texts.append(file.text)
        except apt_conf.NotAptConf:
            unread = unread or file.path
    return apt_conf.read_apt_conf(texts), unread


def parse_automatic(text: str) -> Mapping[str, str]:
    """Return the values of the section [commands] of dnf-automatic's file (dnf5-automatic(8))."""
    values = package_locks.parse_section(text, "commands").items()
    return {name: value.strip().lower() for name, value in values}


def parse_excluded(text: str, name: str) -> tuple[str, ...]:
    """Return the packages that a section excludes from every upgrade (dnf.conf(5), excludepkgs)."""
    values = package_locks.parse_section(text, name)
    listed = " ".join(values.get(option, "") for option in ("exclude", "excludepkgs"))
    return tuple(filter(None, _BETWEEN_NAMES.split(listed)))


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
    names = {package.name for package in list_free_packages(files, found)} | set(released)
    free = tuple(package for package in found.matching if package.name in names)
    every = (
        _find_unattended(files, free, past) if found.manager == "dpkg" else None,
        # dnf heeds no lock of zypper
        _find_automatic(files, free if files.locks.manager == "dnf" else found.matching)
        if found.manager == "rpm"
        else None,
        _find_timer(files, free, "transactional-update"),
        _find_timer(files, free, "os-update"),
        Mover("offline-update", OFFLINE, free) if files.offline and free else None,
    )
    return tuple(mover for mover in every if mover and mover.moves)


def list_free_packages(files: MoverFiles, found: DriverSet) -> tuple[DriverPackage, ...]:
    """List the packages that have to have one version, and that neither a hold, a lock nor apt's
    preferences keep.
    """
    index, of_apt = files.locks.index, found.manager == "dpkg"
    return tuple(
        p
        for p in found.matching
        if not p.held
        and index.judge(p.name, found.versions[p.name]) != "kept"
        and not (of_apt and apt_pins.judge_pins(files.pins, p.name, p.version).verdict == "kept")
    )


def _find_unattended(
    files: MoverFiles, free: Iterable[DriverPackage], past: Iterable[str]
) -> Mover | None:
    """Return unattended-upgrades with what it may move. apt starts it where both switches of
    APT::Periodic allow it and the timer is enabled (apt.systemd.daily). past: entries of its
    blacklist that do not count.
    """
    period = files.apt.get(PERIOD_KEY)
    if not (
        files.unattended
        and "apt-daily-upgrade.timer" in files.timers
        and period not in ("", "0")
        and files.apt.get(ENABLE_KEY) != "0"
    ):
        return None
    kept = collections.Counter(files.apt.list_items(BLACKLIST_KEY))
    kept.subtract(past)
    rules = compile_rules(rule for rule, times in kept.items() if times > 0)
    patterns = list_allowed_origins(files.apt)
    makers = {
        maker
        for maker in {p.maker for p in free}
        if len(patterns) > MOST_ORIGINS
        or any(may_take_from(pattern, maker) for pattern in patterns)
    }
    listed = _take_whitelisted(files.apt, tuple(free))
    moves = tuple(p for p in listed if p.maker in makers and not fits_beginning(rules, p.name))
    return Mover("unattended-upgrades", f"{APT_PARTS}*", moves)


def _take_whitelisted(
    conf: apt_conf.AptConf, free: tuple[DriverPackage, ...]
) -> tuple[DriverPackage, ...]:
    """Return the packages that a whitelist lets move. One that is not strict lets the dependencies
    of a listed package move as well (is_pkgname_in_whitelist in unattended-upgrade). A rule that
    cannot be compared may fit each of them.
    """
    listed = conf.list_items(WHITELIST_KEY)
    rules = compile_rules(listed)
    if not listed or len(rules) < sum(len(rule.split("|")) for rule in listed):
        return free
    named = tuple(p for p in free if fits_beginning(rules, p.name))
    strict = conf.get(STRICT_KEY).lower() in APT_YES
    return named if strict or not named else free


def list_allowed_origins(conf: apt_conf.AptConf) -> tuple[str, ...]:
    """Return the patterns of origins, the old form as the new one (get_allowed_origins in
    unattended-upgrade).
    """
    old = (
        re.split(r"(?<!\\):", item, maxsplit=1) if ":" in item else item.split(None, 1)
        for item in conf.list_items(OLD_ORIGINS_KEY)
    )
    return (
        *(f"o={pair[0]},a={pair[1]}" for pair in old if len(pair) == 2),
        *conf.list_items(ORIGINS_KEY),
    )


def may_take_from(pattern: str, maker: Maker) -> bool:
    """Tell whether a pattern of origins may allow a maker's repository. Only what a maker is known
    to write is compared, so a mirror or a suite never makes a driver look kept. Nor does a pattern
    that is too long to be compared.
    """
    if len(pattern) > LONGEST_ORIGIN:
        return True
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
    moves = tuple(
        p
        for p in free
        if not (advised and p.maker == "nvidia") and not files.left_out.list_locks(p.name)
    )
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
