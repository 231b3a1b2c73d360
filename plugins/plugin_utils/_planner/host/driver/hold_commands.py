# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the commands by which each package manager holds packages, and releases them.

dnf 4 drops all comments of its file when it deletes a lock, so our lines are taken out by sed.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Plan,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text.names import (
    show_few_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
    hold_facts,
    hold_record,
    package_locks,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    holding_messages as messages,
)

TIMEOUT, QUICK = 120, 10  # seconds
HELD = "held"
# The line that dnf 4 writes before a lock (_write_locklist in versionlock.py of dnf-plugins-core).
ADDED = r"\n# Added lock on [^\n]*\n"


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


def build_hold_commands(
    facts: hold_facts.HoldingFacts, release: str, packages: Sequence[driver_packages.DriverPackage]
) -> Plan:
    """Plan the command that holds packages, which is undone by the one that releases them."""
    manager, why = facts.manager.value, messages.HOLD.fill(release=release)
    held = list(dict.fromkeys(p.name for p in packages))
    specs = [hold_record.write_spec(p) for p in packages] if manager == "dnf" else held
    undo = _write_release(facts, manager, held, specs)
    return _build_commands((*HOLDERS[manager].hold, *specs), undo, held, why, None)


def _write_release(
    facts: hold_facts.HoldingFacts, manager: str, names: Sequence[str], specs: Sequence[str]
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


def plan_release(
    facts: hold_facts.HoldingFacts, manager: str, names: Sequence[str], why: Message
) -> Plan:
    """Plan to release those packages of a record that are still held."""
    holder, installed = HOLDERS.get(manager), facts.packages.value
    if not holder or not names:
        return Plan()
    wanted = frozenset(names)
    still = [p for p in installed.packages if p.name in wanted and hold_facts.is_held(p, facts)]
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
    facts: hold_facts.HoldingFacts,
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
    locks, specs = facts.movers.value.locks, hold_record.read_locked_specs(facts)
    if locks.distrust:
        values = {"path": package_locks.VERSIONLOCK, "packages": show_few_texts([*names], 4, ", ")}
        return Plan(advice=(messages.LOCKS_LEFT.fill(**values, why=locks.distrust),))
    held = () if locks.off else still
    lasting = [p for p in held if not specs or hold_record.write_spec(p) in specs]
    moved = [p.name for p in held if specs and hold_record.write_spec(p) not in specs]
    index, ended = (locks.unused, names) if locks.off else (locks.index, (*moved, *gone))
    past = {
        name: [lock for lock in index.list_named(name) if not specs or is_lock_of(lock, specs)]
        for name in ended
    }
    left = [name for name, some in past.items() if some]
    old = [lock.shown.removesuffix(".*") for name in left for lock in past[name]]
    now, kept = (
        [hold_record.write_spec(p) for p in lasting],
        [*dict.fromkeys(p.name for p in lasting)],
    )
    again = (*HOLDERS["dnf"].hold, *now)
    return merge_plans(
        [
            _build_commands(_write_release(facts, "dnf", kept, now), again, kept, why, HELD),
            _build_commands(_write_release(facts, "dnf", left, old), None, left, why, HELD),
        ]
    )


def is_lock_of(lock: package_locks.Lock, specs: frozenset[str]) -> bool:
    """Tell whether a lock is one of these, as this collection records them."""
    return lock.shown.removesuffix(".*") in specs
