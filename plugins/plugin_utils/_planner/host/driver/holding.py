# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold the packages of a driver as one, by the means of each package manager, and take the hold
back.

apt holds packages in dpkg's database. unattended-upgrades honours that, and gets a file of its own
besides, which says so in its log and stays true if a person lifts a hold in passing. dnf and zypper
keep locks in files, which their own commands write. A record on the host has the date, the reason
and the packages that this collection holds: what was held before stays held, and is never ours.
"""

from __future__ import annotations

import dataclasses as dc
import datetime
import json
import re
from collections.abc import Mapping, Sequence
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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    base_package,
    earlier_runs,
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
    module_flavours,
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
VERSIONLOCK = "/etc/dnf/plugins/versionlock.conf"  # of dnf 4; dnf 5 has it in itself
DNF5 = "/usr/bin/dnf5"
TIMEOUT, QUICK = 120, 10  # seconds
HELD = "held"
NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)  # of a package
BLACKLIST_KEY = "Unattended-Upgrade::Package-Blacklist"
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
    """How a package manager holds packages. hold, release: the commands, before the names."""

    hold: tuple[str, ...]
    release: tuple[str, ...]


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

    packages: those of the driver. locks: what dnf and zypper keep. record, blacklist: the files of
    this collection. manager: apt, dnf or zypper, '' for none. versionlock: whether dnf can lock.
    lock_files: as far as they travel. epoch: the host's time, in seconds since 1970.
    """

    packages: Fact[driver_packages.DriverSet]
    movers: Fact[package_movers.MoverFiles]
    record: Fact[ObservedFile]
    blacklist: Fact[ObservedFile]
    manager: Fact[str]
    versionlock: Fact[bool]
    lock_files: Fact[tuple[ObservedFile, ...]]
    epoch: float
    earlier: earlier_runs.EarlierRuns


def list_questions(policy: Policy) -> list[queries.Question]:
    """Return the questions about a hold. A record is looked for wherever one may be taken back."""
    record = queries.ask_for_file(RECORD, keep=OWN_RECORD)
    if policy.state == "absent":
        return [record, _list_hold_questions()[0]]
    if policy.driver != "hold":
        return [] if policy.driver == "ignore" else [record]
    return [record, *_list_hold_questions()]


def _list_hold_questions() -> list[queries.Question]:
    return [
        queries.ask_for_file(BLACKLIST, keep=OWN),
        queries.ask_for_file(VERSIONLOCK, content=False),
        queries.ask_for_file(DNF5, content=False),
    ]


def read_holding_facts(policy: Policy, obs: Observation) -> HoldingFacts:
    packages = Fact(lambda: driver_packages.read_driver_set(policy, obs))
    return HoldingFacts(
        packages=packages,
        movers=Fact(lambda: package_movers.read_mover_files(obs)),
        record=Fact(lambda: obs.get_file(RECORD, OWN_RECORD)),
        blacklist=Fact(lambda: obs.get_file(BLACKLIST, OWN)),
        manager=Fact(lambda: base_package.get_package_manager(obs)),
        versionlock=Fact(lambda: obs.is_there(VERSIONLOCK) or obs.is_there(DNF5)),
        lock_files=Fact(lambda: tuple(obs.get_file(path) for path in package_movers.LOCKS)),
        epoch=float(obs.host.get("epoch") or 0),
        earlier=earlier_runs.read_earlier_runs(obs),
    )


def plan_hold(policy: Policy, facts: HoldingFacts) -> Plan:
    """Plan to hold the driver, or to take back the hold of an earlier run. Raise PlanError if the
    host has nothing to hold, or no way to do it.
    """
    if policy.driver != "hold":
        return Plan() if policy.driver == "ignore" else plan_withdrawn(facts)
    installed, manager = facts.packages.value, facts.manager.value
    require_holdable(policy, facts, installed)
    ours, since = read_record(facts)
    everything = list_held_together(installed)
    free = [p for p in everything if not is_held(p, facts)]
    held = sorted(
        {*(name for name in ours if name in {p.name for p in everything}), *(p.name for p in free)}
    )
    others = [p.name for p in everything if is_held(p, facts) and p.name not in ours]
    past = [name for name in ours if name not in held]
    today = convert_epoch(facts.epoch)
    record = build_record(policy, installed, manager, held, since or today)
    return merge_plans(
        [
            plan_release(facts, manager, past, messages.NO_PART.fill()),
            build_hold_commands(manager, installed.release, [p.name for p in free]),
            plan_record(facts, record),
            plan_blacklist(facts, [p.name for p in everything]) if manager == "apt" else Plan(),
            Plan(
                advice=(
                    *describe_hold(policy, installed, since or today, today),
                    *([messages.HELD_BY_OTHERS.fill(packages=", ".join(others))] if others else []),
                )
            ),
        ]
    )


def require_holdable(policy: Policy, facts: HoldingFacts, found: driver_packages.DriverSet) -> None:
    """Raise PlanError if the driver cannot be held as one, before anything is changed."""
    if policy.root != "/" or (found.manager != "none" and not facts.manager.value):
        raise PlanError(messages.CANNOT_HOLD.fill())
    if not found.release:
        raise PlanError(messages.NOTHING_INSTALLED.fill())
    odd = found.list_odd_packages()
    if odd:
        raise PlanError(
            messages.SEVERAL_RELEASES.fill(
                release=found.release, odd=", ".join(p.shown for p in odd[:4])
            )
        )
    if facts.manager.value == "dnf" and not facts.versionlock.value:
        raise PlanError(messages.NO_VERSIONLOCK.fill(path=VERSIONLOCK))
    if facts.manager.value != "apt":
        for file in facts.lock_files.value:
            line = package_movers.find_broken_lock(file)
            if line:
                raise PlanError(messages.LOCKS_UNREAD.fill(line=line), where=file.path, line=line)


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
    return package.held or package_movers.is_locked(package, facts.movers.value.locks)


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
    same = values.get("release") == facts.packages.value.release
    return _list_names(values), str(values.get("since") or "") if same else ""


def _list_names(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the packages of a record, as far as they have the form of names."""
    found = values.get("packages")
    every = found if isinstance(found, list) else ()
    return tuple(name for name in every if isinstance(name, str) and NAME.fullmatch(name))


def _parse_record(text: str) -> Mapping[str, Any]:
    try:
        values = json_bounds.load_bounded_json(text or "{}")
    except ValueError:
        return {}
    ours = isinstance(values, dict) and values.get("writer") == earlier_runs.WRITER
    return values if ours else {}


def build_record(
    policy: Policy,
    found: driver_packages.DriverSet,
    manager: str,
    names: Sequence[str],
    since: str,
) -> str:
    """Return the text of the record."""
    values = {
        "writer": earlier_runs.WRITER,
        "schema": 1,
        "manager": manager,
        "reason": policy.driver_hold_reason,
        "release": found.release,
        "since": since,
        "packages": list(names),
    }
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


def build_hold_commands(manager: str, release: str, names: Sequence[str]) -> Plan:
    """Plan the command that holds packages, which is undone by the one that releases them."""
    why = messages.HOLD.fill(release=release)
    holder = HOLDERS[manager]
    return _build_commands((*holder.hold, *names), (*holder.release, *names), names, why, None)


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
        "undo_within": TIMEOUT if argv[0] != "apt-mark" else QUICK,
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
        file, text, why=messages.BLACKLIST.fill(), key=BLACKLIST_KEY, after=list(names)
    )


def build_blacklist(names: Sequence[str]) -> str:
    """Return the text of that file. An entry is a regular expression that has to fit the beginning
    of a name (is_pkgname_in_blacklist in unattended-upgrade), so each ends with $.
    """
    lines = "".join(f'    "{re.escape(name).replace(chr(92) + "-", "-")}$";\n' for name in names)
    return f"{MARK}// gpufleet_driver: hold\n{BLACKLIST_KEY} {{\n{lines}}};\n"


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
    """Return the age of a hold, and what it keeps back of its branch."""
    reason = policy.driver_hold_reason or messages.NO_REASON.fill()
    told = messages.HELD_SINCE.fill(
        release=found.release, since=since, days=count_days(since, today), reason=reason
    )
    newer = find_newer_release(found)
    if newer:
        return (told, messages.HELD_BACK.fill(version=newer, release=found.release))
    return (told,)


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
    manager, names = str(values.get("manager")), _list_names(values)
    released = plan_release(facts, manager, names, why) if values else Plan()
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
    holder, installed = HOLDERS.get(manager), facts.packages.value.packages
    if not holder or not names:
        return Plan()
    still = [p.name for p in installed if p.name in names and is_held(p, facts)]
    there, locks = {p.name for p in installed}, facts.movers.value.locks
    gone = [name for name in names if name not in there and package_movers.has_lock(name, locks)]
    # dnf locks installed packages alone, so that the lock of another one is not made again
    again = None if manager == "dnf" else (*holder.hold, *gone)
    return merge_plans(
        [
            _build_commands((*holder.release, *still), (*holder.hold, *still), still, why, HELD),
            _build_commands((*holder.release, *gone), again, gone, why, HELD),
        ]
    )
