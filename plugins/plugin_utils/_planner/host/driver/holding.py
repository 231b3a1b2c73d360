# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold the packages of a driver as one, by the means of each package manager, and take the hold
back.

apt holds packages in dpkg's database. unattended-upgrades honours that, and gets a file of its own
besides, which says so in its log and stays true if a person lifts a hold in passing. dnf and zypper
keep locks in files, which their own commands write. dnf 4 drops all comments of its file when it
deletes a lock, so our lines are taken out by sed. A record on the host has the date, the reason and
the packages that this collection holds. A package that was held before stays held, and is never
ours.
"""

from __future__ import annotations

import dataclasses as dc
import datetime
import json
import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    OWN_RECORD,
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text.names import (
    show_few_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    base_package,
    earlier_runs,
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    apt_pins,
    driver_packages,
    module_flavours,
    package_locks,
    package_movers,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    holding_messages as messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.lowering import (
    add_cause,
)

RECORD = "/etc/gpufleet-driver-hold.json"
BLACKLIST = f"{package_movers.APT_PARTS}99gpufleet-driver-hold"
MARK = "// Written by gpufleet.nvidia.\n"
OWN: Keep = {"format": "text", "patterns": [r"(?s)\A// Written by gpufleet\.nvidia\.\n.*"]}
TIMEOUT, QUICK = 120, 10  # seconds
HELD = "held"
NAME = re.compile(r"[A-Za-z0-9][\w.+-]*(?::[a-z0-9-]+)?", re.ASCII)  # of a package
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
MOST_RECORDED = 1 << 10  # names, or locks, of a record: an answer has so many packages at most
SPEC = re.compile(r"[A-Za-z0-9][\w.+-]*-\d+:[\w.+~^]+-[\w.+~^]+", re.ASCII)
# The line that dnf 4 writes before a lock (_write_locklist in versionlock.py of dnf-plugins-core).
ADDED = r"\n# Added lock on [^\n]*\n"
# Ubuntu's packages that bring the next kernel together with its built module. One without the
# other is a kernel without a module.
PREBUILT = re.compile(r"linux-(?:modules|objects)-nvidia-.*")
META = re.compile(
    r"linux-(?:modules-nvidia-\d+(?:-server)?(?:-open)?-|image-|headers-)?"
    r"(?!image|headers|modules|objects|signatures|base|libc|firmware|tools|doc|source)"
    r"[a-z][a-z0-9]*(?:-64k)?(?:-hwe-\d\d\.\d\d)?(?:-edge)?"
)


@dc.dataclass(frozen=True)
class Holder:
    """How a package manager holds packages. hold, release: the commands, before the names. dnf
    holds them by name-epoch:version-release, and dnf 4 releases them by another command.
    """

    hold: tuple[str, ...]
    release: tuple[str, ...]


# The whole file is one line to it, and every other byte stays.
EDITOR = ("sed", "--in-place", "--follow-symlinks", "--null-data")
# Without repositories: dnf finds the installed packages in its own database, and need not ask.
HOLDERS: Mapping[str, Holder] = {
    "apt": Holder(("apt-mark", "hold"), ("apt-mark", "unhold")),
    "dnf": Holder(
        ("dnf", "-q", "-y", "--disablerepo=*", "versionlock", "add"),
        ("dnf", "-q", "-y", "--disablerepo=*", "versionlock", "delete"),
    ),
    "zypper": Holder(
        ("zypper", "--non-interactive", "addlock", "--type", "package"),
        ("zypper", "--non-interactive", "removelock", "--type", "package"),
    ),
}


@dc.dataclass(frozen=True)
class HoldingFacts:
    """A host's facts about a hold.

    packages: those of the driver. movers: what moves them by itself, with the locks of dnf and
    zypper. record, blacklist: the files of this collection. manager: apt, dnf or zypper, '' for
    none. epoch: the host's time, in seconds since 1970.
    """

    packages: Fact[driver_packages.DriverSet]
    movers: Fact[package_movers.MoverFiles]
    record: Fact[ObservedFile]
    blacklist: Fact[ObservedFile]
    manager: Fact[str]
    epoch: float
    earlier: earlier_runs.EarlierRuns


def list_questions(policy: Policy) -> list[queries.Question]:
    """Return the questions about a hold. A record is looked for wherever one may be taken back."""
    record = queries.ask_for_file(RECORD, keep=OWN_RECORD)
    if policy.state == "absent":
        return [record, queries.ask_for_file(BLACKLIST, keep=OWN)]
    if policy.driver != "hold":
        return [] if policy.driver == "ignore" else [record]
    return [record, queries.ask_for_file(BLACKLIST, keep=OWN)]


def read_holding_facts(policy: Policy, obs: Observation) -> HoldingFacts:
    packages = Fact(lambda: driver_packages.read_driver_set(policy, obs))
    return HoldingFacts(
        packages=packages,
        movers=Fact(lambda: package_movers.read_mover_files(obs)),
        record=Fact(lambda: obs.get_file(RECORD, OWN_RECORD)),
        blacklist=Fact(lambda: obs.get_file(BLACKLIST, OWN)),
        manager=Fact(lambda: base_package.get_package_manager(obs)),
        epoch=float(obs.host.get("epoch") or 0),
        earlier=earlier_runs.read_earlier_runs(obs),
    )


def plan_hold(policy: Policy, facts: HoldingFacts, running: str = "") -> Plan:
    """Plan to hold the driver, or to take back the hold of an earlier run. running: the version of
    the driver that serves the GPUs, '' if none does. Raise PlanError if the host has nothing to
    hold, or no way to do it.
    """
    if policy.driver != "hold":
        return Plan() if policy.driver == "ignore" else plan_withdrawn(facts)
    installed, manager = facts.packages.value, facts.manager.value
    require_holdable(policy, facts, installed, running)
    ours, since = read_record(facts)
    everything = list_held_together(installed)
    together = {p.name for p in everything}
    moved = dict.fromkeys(list_outdated_locks(facts, everything))
    free = [p for p in everything if p.name in moved or not is_held(p, facts)]
    held = {*(name for name in ours if name in together), *(p.name for p in free)}
    others = [p.name for p in everything if p.name not in held and is_held(p, facts)]
    past = [name for name in ours if name not in held]
    today = convert_epoch(facts.epoch)
    record = build_record(policy, facts, held, since or today)
    return merge_plans(
        [
            plan_release(facts, manager, past, messages.NO_PART.fill()),
            plan_release(
                facts, manager, [*moved], messages.OUTDATED.fill(release=installed.release)
            ),
            build_hold_commands(facts, installed.release, free),
            plan_record(facts, record),
            plan_blacklist(facts, [p.name for p in everything]) if manager == "apt" else Plan(),
            Plan(
                advice=(
                    *describe_hold(
                        policy, installed, "" if free == [*everything] else since, today
                    ),
                    *([messages.HELD_BY_OTHERS.fill(packages=", ".join(others))] if others else []),
                    *describe_pins(facts, everything),
                )
            ),
        ]
    )


def require_holdable(
    policy: Policy, facts: HoldingFacts, found: driver_packages.DriverSet, running: str
) -> None:
    """Raise PlanError if the driver cannot be held as one, before anything is changed."""
    if policy.root != "/" or (found.manager != "none" and not facts.manager.value):
        raise PlanError(messages.CANNOT_HOLD.fill())
    unfinished = found.list_unfinished()
    if unfinished:
        raise PlanError(
            messages.DRIVER_UNFINISHED.fill(packages=show_few_texts(unfinished, 4, ", "))
        )
    if not found.release:
        raise PlanError(messages.NOTHING_INSTALLED.fill())
    odd = found.list_odd_packages()
    if odd:
        raise PlanError(
            messages.SEVERAL_RELEASES.fill(
                release=found.release, odd=", ".join(p.shown for p in odd[:4])
            )
        )
    if facts.manager.value != "apt":
        _require_usable_locks(facts, list_held_together(found))
    if running and running != found.release:
        raise PlanError(messages.ANOTHER_RUNS.fill(running=running, release=found.release))


def _require_usable_locks(
    facts: HoldingFacts, everything: Sequence[driver_packages.DriverPackage]
) -> None:
    """Raise PlanError if a lock of dnf or zypper would not count, or could not be added."""
    locks, dnf = facts.movers.value.locks, facts.manager.value == "dnf"
    if dnf:
        _require_plugin(locks)
    for file in locks.files:
        line = package_locks.find_broken_lock(owned_file.require_readable(file))
        if line:
            raise PlanError(messages.LOCKS_UNREAD.fill(line=line), where=file.path, line=line)
    if dnf:
        _require_no_other_version(facts, everything)


def _require_no_other_version(
    facts: HoldingFacts, everything: Sequence[driver_packages.DriverPackage]
) -> None:
    """Raise PlanError if a lock that is not ours lets another version in than the installed one."""
    locks, mine = facts.movers.value.locks, _read_locked_specs(facts)
    versions = facts.packages.value.versions
    for package in everything:
        if locks.index.judge(package.name, versions[package.name]) != "elsewhere":
            continue
        others = [lock for lock in locks.index.list_locks(package.name) if not _is_ours(lock, mine)]
        evrs = package_locks.list_compared_versions(versions[package.name])
        wrong = [lock.shown for lock in others if not lock.keeps(evrs)]
        if wrong:
            raise PlanError(
                messages.LOCKED_OTHERWISE.fill(package=package.shown, lock=wrong[0]),
                where=package_locks.LOCKS[1] if locks.dnf5 else locks.list_path,
            )


def _require_plugin(locks: package_locks.HostLocks) -> None:
    """Raise PlanError if dnf has no locks, or would not heed them."""
    if not locks.plugin:
        raise PlanError(messages.NO_VERSIONLOCK.fill(path=package_locks.VERSIONLOCK))
    if locks.off:
        raise PlanError(messages.VERSIONLOCK_OFF.fill(), where=locks.off)
    if not locks.dnf5 and (locks.distrust or not locks.list_path):
        why = locks.distrust or messages.LIST_UNREAD.fill()
        raise PlanError(messages.LOCKS_DISTRUSTED.fill(why=why), where=package_locks.VERSIONLOCK)


def list_outdated_locks(
    facts: HoldingFacts, everything: Sequence[driver_packages.DriverPackage]
) -> list[str]:
    """List the packages that have moved past a lock of this collection, which holds them nowhere."""
    index, versions = facts.movers.value.locks.index, facts.packages.value.versions
    judged = (p.name for p in everything if not p.held)
    return [name for name in judged if index.judge(name, versions[name]) == "elsewhere"]


def _is_ours(lock: package_locks.Lock, specs: frozenset[str]) -> bool:
    return lock.shown.removesuffix(".*") in specs


def list_held_together(
    found: driver_packages.DriverSet,
) -> tuple[driver_packages.DriverPackage, ...]:
    """List what is held as one: the parts of the release, and with built modules what brings the
    next kernel.
    """
    prebuilt = any(PREBUILT.fullmatch(p.name) for p in found.packages)
    kernels = [p for p in found.packages if prebuilt and META.fullmatch(p.name)]
    return tuple(sorted({*found.matching, *kernels}, key=lambda p: p.name))


def is_held(package: driver_packages.DriverPackage, facts: HoldingFacts) -> bool:
    """Tell whether a hold or a lock is about a package, whatever it lets in."""
    return package.held or bool(facts.movers.value.locks.index.list_locks(package.name))


def read_record(facts: HoldingFacts) -> tuple[tuple[str, ...], str]:
    """Return the packages that this collection holds, and since when; nothing without a record. The
    hold of another release than the installed one ended with it. Raise PlanError for a file of
    others in its place.
    """
    file = owned_file.require_readable(facts.record.value)
    if not file.exists:
        return (), ""
    values = _parse_record(file.text)
    if not values:
        raise PlanError(messages.RECORD_OF_OTHERS.fill(), where=file.path)
    since = str(values.get("since"))
    same = values.get("release") == facts.packages.value.release and DATE.fullmatch(since)
    return _list_texts(values, "packages", NAME), since if same else ""


def _list_texts(values: Mapping[str, Any], key: str, form: re.Pattern[str]) -> tuple[str, ...]:
    """Return the texts of a list in a record, as far as they have their form. A record of this
    collection has at most MOST_RECORDED.
    """
    texts = values.get(key)
    every = texts[:MOST_RECORDED] if isinstance(texts, list) else ()
    return tuple(text for text in every if isinstance(text, str) and form.fullmatch(text))


def _read_locked_specs(facts: HoldingFacts) -> frozenset[str]:
    """Return the locks that this collection has added, by its record."""
    file = owned_file.require_readable(facts.record.value)
    return frozenset(_list_texts(_parse_record(file.text), "locks", SPEC))


def _parse_record(text: str) -> Mapping[str, Any]:
    try:
        values = json_bounds.load_bounded_json(text or "{}")
    except ValueError:
        return {}
    ours = isinstance(values, dict) and values.get("writer") == earlier_runs.WRITER
    return values if ours else {}


def build_record(policy: Policy, facts: HoldingFacts, held: Set[str], since: str) -> str:
    """Return the text of the record. held: the packages that this collection holds."""
    values = {
        "writer": earlier_runs.WRITER,
        "schema": 1,
        "manager": facts.manager.value,
        "reason": policy.driver_hold_reason,
        "release": facts.packages.value.release,
        "since": since,
        "packages": sorted(held),
    }
    if facts.manager.value == "dnf":
        everything = facts.packages.value.packages
        values["locks"] = [write_spec(p) for p in everything if p.name in held]
    return json.dumps(values, indent=1, sort_keys=True) + "\n"


def convert_epoch(epoch: float) -> str:
    """Return the day of a time on the host, in UTC."""
    return datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).date().isoformat()


def count_days(since: str, today: str) -> int:
    """Return the days between two dates; 0 for a date that is none, or that is to come."""
    try:
        return max(
            (datetime.date.fromisoformat(today) - datetime.date.fromisoformat(since)).days, 0
        )
    except ValueError:
        return 0


def write_spec(package: driver_packages.DriverPackage) -> str:
    """Return a package of rpm as dnf takes it: with the version that is locked."""
    return f"{package.name}-{package_locks.write_evr(package.version)}"


def build_hold_commands(
    facts: HoldingFacts, release: str, packages: Sequence[driver_packages.DriverPackage]
) -> Plan:
    """Plan the command that holds packages, which is undone by the one that releases them."""
    manager, why = facts.manager.value, messages.HOLD.fill(release=release)
    held = list(dict.fromkeys(p.name for p in packages))
    specs = [write_spec(p) for p in packages] if manager == "dnf" else held
    undo = _write_release(facts, manager, held, specs)
    return _build_commands((*HOLDERS[manager].hold, *specs), undo, held, why, None)


def _write_release(
    facts: HoldingFacts, manager: str, names: Sequence[str], specs: Sequence[str]
) -> tuple[str, ...]:
    """Return the command that releases packages. specs: the same as they are locked by dnf."""
    locks = facts.movers.value.locks
    if manager != "dnf" or locks.dnf5:
        return (*HOLDERS[manager].release, *names)
    edits = [word for spec in specs for word in ("-e", write_edit(spec))]
    return (*EDITOR, *edits, locks.list_path or package_locks.LOCK_LIST)


def write_edit(spec: str) -> str:
    """Return what sed does with a file of locks as one text: it takes a lock of dnf 4 out, with the
    comment that dnf has put before it.
    """
    line = re.sub(r"([.*\[\]^$\\])", r"\\\1", f"{spec}.*")
    begin, end = r"\(^\|\n\)", r"\(\n\|$\)"
    return f"s/{begin}{ADDED}{line}\\n/\\1/;s/{begin}{line}{end}/\\1/"


def _build_commands(
    argv: Sequence[str],
    undo: Sequence[str] | None,
    names: Sequence[str],
    why: Message,
    before: str | None,
) -> Plan:
    if not names:
        return Plan()
    command: transaction.PackageCommand = {
        "argv": list(argv),
        "undo": None if undo is None else list(undo),
        "timeout": TIMEOUT,
        "undo_within": QUICK if undo and undo[0] in ("apt-mark", EDITOR[0]) else TIMEOUT,
        "why": why,
    }
    after = None if before else HELD
    return Plan(
        differences=tuple(
            Difference("package", name, "hold", before, after, why) for name in names
        ),
        commands=(command,),
    )


def plan_record(facts: HoldingFacts, text: str) -> Plan:
    """Plan the record. An approval binds all of it but the day of the run."""
    file = facts.record.value
    if file.exists and file.text == text:
        return Plan()
    plan = owned_file.plan_owned_file(
        file, text, why=messages.RECORD.fill(), key="hold", after="as this run leaves it"
    )
    values = {
        key: value for key, value in json_bounds.load_bounded_json(text).items() if key != "since"
    }
    return dc.replace(plan, lasting={file.path: json.dumps(values, sort_keys=True)})


def plan_blacklist(facts: HoldingFacts, names: Sequence[str]) -> Plan:
    """Plan the file for unattended-upgrades."""
    file, text = facts.blacklist.value, build_blacklist(names)
    if file.exists and file.text == text:
        return Plan()
    if file.exists and not file.text.startswith(MARK):
        raise PlanError(messages.RECORD_OF_OTHERS.fill(), where=file.path)
    return owned_file.plan_owned_file(
        file,
        text,
        why=messages.BLACKLIST.fill(),
        key=package_movers.BLACKLIST_KEY,
        after=list(names),
    )


def build_blacklist(names: Sequence[str]) -> str:
    """Return the text of that file. An entry is a regular expression that has to fit the beginning
    of a name (is_pkgname_in_blacklist in unattended-upgrade), so each ends with $.
    """
    lines = "".join(f'    "{re.escape(name).replace(chr(92) + "-", "-")}$";\n' for name in names)
    return f"{MARK}// gpufleet_driver: hold\n{package_movers.BLACKLIST_KEY} {{\n{lines}}};\n"


def list_past_rules(facts: HoldingFacts, plan: Plan) -> list[str]:
    """List the entries of that file, if a plan takes it back."""
    if not any(difference.path == BLACKLIST for difference in plan.differences):
        return []
    return re.findall(r'(?m)^    "([^"\n]*)";$', facts.blacklist.value.text)


def describe_hold(
    policy: Policy,
    found: driver_packages.DriverSet,
    since: str,
    today: str,
) -> tuple[Message, ...]:
    """Return the age of a hold, and what it keeps back of its branch. since: '' for a hold that this
    run begins.
    """
    reason = policy.driver_hold_reason or messages.NO_REASON.fill()
    told = messages.BEGINS.fill(release=found.release, reason=reason)
    if since:
        days = count_days(since, today)
        told = messages.HELD_SINCE.fill(
            release=found.release, since=since, days=days, reason=reason
        )
    newer = find_newer_release(found)
    if newer:
        return (told, messages.HELD_BACK.fill(version=newer, release=found.release))
    return (told,)


def describe_pins(
    facts: HoldingFacts, everything: Sequence[driver_packages.DriverPackage]
) -> tuple[Message, ...]:
    """Return the preferences of apt that keep packages, too."""
    if facts.manager.value != "apt":
        return ()
    named = [(p.name, p.version) for p in everything]
    pinned = apt_pins.list_pinned(facts.movers.value.pins, named, "kept")
    by_file: dict[str, list[str]] = {}
    for name, pin in pinned:
        by_file.setdefault(pin.path, []).append(name)
    return tuple(
        messages.PINNED.fill(path=path, packages=show_few_texts(some, 4, ", "))
        for path, some in sorted(by_file.items())
    )


def find_newer_release(found: driver_packages.DriverSet) -> str:
    """Return a newer release of the same branch that the host's package lists have, '' for none.
    Another branch corrects nothing: it is another choice.
    """
    branch = module_flavours.get_branch
    offers = {driver_packages.parse_release(p.offered) for p in found.matching if p.offered}
    same = [o for o in offers if o and branch(o) == branch(found.release)]
    newer = [o for o in same if is_newer(o, found.release)]
    return max(newer, key=lambda o: tuple(map(int, o.split("."))), default="")


def is_newer(one: str, other: str) -> bool:
    """Tell whether a release of the driver is newer than another one."""
    return tuple(map(int, one.split("."))) > tuple(map(int, other.split(".")))


def plan_absent(facts: HoldingFacts) -> Plan:
    """Plan to take back the hold of this collection. A package that a person has released since is
    left alone, and so is what was held before. Raise PlanError if our record cannot be read: the
    packages in it would stay held.
    """
    file, why = owned_file.require_readable(facts.record.value), messages.HOLD_WITHDRAWN.fill()
    values = _parse_record(file.text if file.exists else "")
    if not values and f'"writer": "{earlier_runs.WRITER}"' in file.text:
        raise PlanError(messages.HOLD_RECORD_BROKEN.fill(), where=file.path)
    manager, ours = str(values.get("manager")), _list_texts(values, "packages", NAME)
    released = plan_release(facts, manager, ours, why) if values else Plan()
    blacklist = facts.blacklist.value
    files = [
        owned_file.plan_owned_file_restore(facts.earlier, file, why=why, own=True),
        owned_file.plan_owned_file_restore(
            facts.earlier, blacklist, why=why, own=blacklist.text.startswith(MARK)
        ),
    ]
    return add_cause(merge_plans([released, *(files if values else files[1:])]), "policy")


def plan_withdrawn(facts: HoldingFacts) -> Plan:
    """Plan to take back the hold of an earlier run on a host that is to have none. A record that
    cannot be read is said, and stops nothing.
    """
    file = facts.record.value
    if not file.error and not file.text:
        return Plan()
    try:
        return plan_absent(facts) if file.error or earlier_runs.WRITER in file.text else Plan()
    except PlanError as error:
        told = messages.NOT_WITHDRAWN.fill(path=error.where, problem=read_error_message(error))
        return Plan(advice=(told,))


def plan_release(facts: HoldingFacts, manager: str, names: Sequence[str], why: Message) -> Plan:
    """Plan to release those packages of a record that are still held."""
    holder, installed = HOLDERS.get(manager), facts.packages.value
    if not holder or not names:
        return Plan()
    wanted = frozenset(names)
    still = [p for p in installed.packages if p.name in wanted and is_held(p, facts)]
    there = {p.name for p in installed.packages} | {name for name, _state in installed.half}
    index = facts.movers.value.locks.index
    gone = [name for name in names if name not in there and index.list_named(name)]
    if manager == "dnf":
        return _plan_unlocking(facts, names, still, gone, why)
    held = [*dict.fromkeys(p.name for p in still), *sorted(wanted & installed.half_held)]
    return merge_plans(
        [
            _build_commands((*holder.release, *held), (*holder.hold, *held), held, why, HELD),
            _build_commands((*holder.release, *gone), (*holder.hold, *gone), gone, why, HELD),
        ]
    )


def _plan_unlocking(
    facts: HoldingFacts,
    names: Sequence[str],
    still: Sequence[driver_packages.DriverPackage],
    gone: Sequence[str],
    why: Message,
) -> Plan:
    """Plan to take locks of dnf out. Of packages that have moved or are gone they are not made
    again: dnf locks what is installed, and nothing while its plugin is off. A file that others than
    root can change is left alone, since the editor of root would follow their links.

    names: all packages that are released. still, gone: the locked ones, and the ones that a lock
    has outlived.
    """
    locks, specs = facts.movers.value.locks, _read_locked_specs(facts)
    if locks.distrust:
        values = {"path": package_locks.VERSIONLOCK, "packages": show_few_texts([*names], 4, ", ")}
        return Plan(advice=(messages.LOCKS_LEFT.fill(**values, why=locks.distrust),))
    held = () if locks.off else still
    lasting = [p for p in held if not specs or write_spec(p) in specs]
    moved = [p.name for p in held if specs and write_spec(p) not in specs]
    index, ended = (locks.unused, names) if locks.off else (locks.index, (*moved, *gone))
    past = {
        name: [lock for lock in index.list_named(name) if not specs or _is_ours(lock, specs)]
        for name in ended
    }
    left = [name for name, some in past.items() if some]
    old = [lock.shown.removesuffix(".*") for name in left for lock in past[name]]
    now, kept = [write_spec(p) for p in lasting], [*dict.fromkeys(p.name for p in lasting)]
    again = (*HOLDERS["dnf"].hold, *now)
    return merge_plans(
        [
            _build_commands(_write_release(facts, "dnf", kept, now), again, kept, why, HELD),
            _build_commands(_write_release(facts, "dnf", left, old), None, left, why, HELD),
        ]
    )
