# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold the packages of a driver as one, by the means of each package manager, and take the hold
back.

apt holds packages in dpkg's database. unattended-upgrades honours that, and gets a file of its own
besides, which says so in its log and stays true if a person lifts a hold in passing. dnf and zypper
keep locks in files, which their own commands write.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text.names import (
    show_few_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    apt_pins,
    driver_packages,
    hold_blacklist,
    hold_commands,
    hold_facts,
    hold_record,
    module_flavours,
    package_locks,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    holding_messages as messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.lowering import (
    add_cause,
)

# Ubuntu's packages that bring the next kernel together with its built module. One without the
# other is a kernel without a module.
PREBUILT = re.compile(r"linux-(?:modules|objects)-nvidia-.*")
META = re.compile(
    r"linux-(?:modules-nvidia-\d+(?:-server)?(?:-open)?-|image-|headers-)?"
    r"(?!image|headers|modules|objects|signatures|base|libc|firmware|tools|doc|source)"
    r"[a-z][a-z0-9]*(?:-64k)?(?:-hwe-\d\d\.\d\d)?(?:-edge)?"
)


def plan_hold(policy: Policy, facts: hold_facts.HoldingFacts, running: str = "") -> Plan:
    """Plan to hold the driver, or to take back the hold of an earlier run. running: the version of
    the driver that serves the GPUs, '' if none does. Raise PlanError if the host has nothing to
    hold, or no way to do it.
    """
    if policy.driver != "hold":
        return Plan() if policy.driver == "ignore" else plan_withdrawn(facts)
    installed, manager = facts.packages.value, facts.manager.value
    require_holdable(policy, facts, installed, running)
    ours, since = hold_record.read_record(facts)
    everything = list_held_together(installed)
    together = {p.name for p in everything}
    moved = dict.fromkeys(list_outdated_locks(facts, everything))
    free = [p for p in everything if p.name in moved or not hold_facts.is_held(p, facts)]
    held = {*(name for name in ours if name in together), *(p.name for p in free)}
    others = [p.name for p in everything if p.name not in held and hold_facts.is_held(p, facts)]
    past = [name for name in ours if name not in held]
    today = hold_record.convert_epoch(facts.epoch)
    record = hold_record.build_record(policy, facts, held, since or today)
    return merge_plans(
        [
            hold_commands.plan_release(facts, manager, past, messages.NO_PART.fill()),
            hold_commands.plan_release(
                facts, manager, [*moved], messages.OUTDATED.fill(release=installed.release)
            ),
            hold_commands.build_hold_commands(facts, installed.release, free),
            hold_record.plan_record(facts, record),
            hold_blacklist.plan_blacklist(facts, [p.name for p in everything])
            if manager == "apt"
            else Plan(),
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
    policy: Policy, facts: hold_facts.HoldingFacts, found: driver_packages.DriverSet, running: str
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
    facts: hold_facts.HoldingFacts, everything: Sequence[driver_packages.DriverPackage]
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
    facts: hold_facts.HoldingFacts, everything: Sequence[driver_packages.DriverPackage]
) -> None:
    """Raise PlanError if a lock that is not ours lets another version in than the installed one."""
    locks, mine = facts.movers.value.locks, hold_record.read_locked_specs(facts)
    versions = facts.packages.value.versions
    for package in everything:
        if locks.index.judge(package.name, versions[package.name]) != "elsewhere":
            continue
        others = [
            lock
            for lock in locks.index.list_locks(package.name)
            if not hold_commands.is_lock_of(lock, mine)
        ]
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
    facts: hold_facts.HoldingFacts, everything: Sequence[driver_packages.DriverPackage]
) -> list[str]:
    """List the packages that have moved past a lock of this collection, which holds them nowhere."""
    index, versions = facts.movers.value.locks.index, facts.packages.value.versions
    judged = (p.name for p in everything if not p.held)
    return [name for name in judged if index.judge(name, versions[name]) == "elsewhere"]


def list_held_together(
    found: driver_packages.DriverSet,
) -> tuple[driver_packages.DriverPackage, ...]:
    """List what is held as one: the parts of the release, and with built modules what brings the
    next kernel.
    """
    prebuilt = any(PREBUILT.fullmatch(p.name) for p in found.packages)
    kernels = [p for p in found.packages if prebuilt and META.fullmatch(p.name)]
    return tuple(sorted({*found.matching, *kernels}, key=lambda p: p.name))


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
        days = hold_record.count_days(since, today)
        told = messages.HELD_SINCE.fill(
            release=found.release, since=since, days=days, reason=reason
        )
    newer = find_newer_release(found)
    if newer:
        return (told, messages.HELD_BACK.fill(version=newer, release=found.release))
    return (told,)


def describe_pins(
    facts: hold_facts.HoldingFacts, everything: Sequence[driver_packages.DriverPackage]
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


def plan_absent(facts: hold_facts.HoldingFacts) -> Plan:
    """Plan to take back the hold of this collection. A package that a person has released since is
    left alone, and so is what was held before. Raise PlanError if our record cannot be read: the
    packages in it would stay held.
    """
    file, why = owned_file.require_readable(facts.record.value), messages.HOLD_WITHDRAWN.fill()
    values = hold_record.parse_record(file.text if file.exists else "")
    if not values and f'"writer": "{earlier_runs.WRITER}"' in file.text:
        raise PlanError(messages.HOLD_RECORD_BROKEN.fill(), where=file.path)
    manager, ours = (
        str(values.get("manager")),
        hold_record.list_texts(values, "packages", hold_record.NAME),
    )
    released = hold_commands.plan_release(facts, manager, ours, why) if values else Plan()
    blacklist = facts.blacklist.value
    files = [
        owned_file.plan_owned_file_restore(facts.earlier, file, why=why, own=True),
        owned_file.plan_owned_file_restore(
            facts.earlier, blacklist, why=why, own=blacklist.text.startswith(hold_facts.MARK)
        ),
    ]
    return add_cause(merge_plans([released, *(files if values else files[1:])]), "policy")


def plan_withdrawn(facts: hold_facts.HoldingFacts) -> Plan:
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
