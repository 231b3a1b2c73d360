# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the packages of a driver before a user's change, and know whether a change was judged.

The host has a record of the change that began, so that any later run finds it: that of a controller
which died between the change and the judgement, too.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    JOURNAL_DIR,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    OWN_RECORD,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import earlier_runs
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
    hold_commands,
    hold_facts,
    hold_record,
    holding,
    holding_messages,
    package_movers,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    kept_messages as messages,
)

PROGRAM = "kept_packages"  # of the host's side
DIRECTORY = f"{JOURNAL_DIR}/kept"
PACKAGES = f"{DIRECTORY}/packages"
PATH = f"{DIRECTORY}/record.json"
RECORD = queries.ask_for_file(PATH, keep=OWN_RECORD, max=1 << 16)
# preparing: packages are being kept, and no change has begun.
PREPARING, CHANGING, SETTLED = "preparing", "changing", "settled"
# A driver of Debian is some 50 packages of 400 MB, with its 32-bit libraries 90.
MOST_PACKAGES, MOST_BYTES, RESERVE = 200, 2 << 30, 1 << 30
DOWNLOAD_SECONDS = 600
# Ubuntu's built modules, and the signatures without which they are not put together.
BUILT = re.compile(rf"{holding.PREBUILT.pattern}|linux-signatures-nvidia-.*")
SHOWN = 4  # packages that a sentence names
RELEASE_NUMBERS = re.compile(r"[0-9]{3,4}(?:\.[0-9]{1,4}){1,2}")
CODE = re.compile(r"[a-z0-9-]{1,64}\.[a-z0-9-]{1,64}")
MOST_CODES = 256  # of a record, which no host comes near
STATE = re.compile(r"ok|broken|not-loaded|none")
# Why a package is not kept (module_utils/_host/kept_files.py).
REASONS: Mapping[str, Sentence] = {
    "no-file": messages.FILE_GONE,
    "no-digest": messages.DIGEST_UNSTATED,
    "digests-differ": messages.DIGESTS_DIFFER,
    "other-digest": messages.OTHER_DIGEST,
    "not-fetched": messages.NOT_FETCHED,
    "too-many": messages.MOST_PACKAGES_KEPT,
    "too-large": messages.TOO_LARGE,
    "no-room": messages.NO_ROOM,
    "failed": messages.FILE_NOT_COPIED,
    "gone": messages.PACKAGE_GONE,
    "half-installed": messages.NOT_WHOLE,
    "unread": messages.MANAGER_SILENT,
    "cache-unread": messages.CACHE_UNREAD,
    "lost": messages.COPY_LOST,
}
VALUES: Mapping[str, Any] = {
    "most": MOST_PACKAGES,
    "bytes": MOST_BYTES,
    "reserve": RESERVE,
    "path": PACKAGES,
}
# The commands by which a person goes back, by the package manager. Each installs nothing if a file
# differs from its checksum.
CHECKED = f"cd {PACKAGES} && sha256sum --check SHA256SUMS"
WAY_BACK: Mapping[str, str] = {
    "apt": f"{CHECKED} && apt-get install --allow-downgrades ./*.deb",
    "dnf": f"{CHECKED} && dnf downgrade ./*.rpm",
    "zypper": f"{CHECKED} && zypper install --oldpackage ./*.rpm",
}


@dc.dataclass(frozen=True)
class DriverChange:
    """The change of a driver that is noted on a host.

    state: '' for none, preparing for one that has not begun, changing for one that was not judged,
    settled for one that was. release: the driver before it, gpus: how many it served then, None if
    that is not known. before: codes that a judgement would have found then. kept: how many packages
    are kept. driver: its state before. releasing: whether a run has ended while it released the
    hold of this collection, so that some packages may be free.
    """

    state: str = ""
    release: str = ""
    since: str = ""
    gpus: int | None = None
    before: tuple[str, ...] = ()
    kept: int = 0
    driver: str = ""
    releasing: bool = False


def list_questions(policy: Policy) -> list[queries.Question]:
    """Return the question about the record, for a host that runs."""
    return [RECORD] if policy.root == "/" else []


def read_change_fact(policy: Policy, obs: Observation) -> Fact[DriverChange]:
    """Return the change that is noted on a host, to be read when it is needed."""
    return Fact(lambda: read_change(obs) if policy.root == "/" else DriverChange())


def read_change(obs: Observation) -> DriverChange:
    """Return the change that is noted on a host. One whose record cannot be read was not judged."""
    file = obs.get_file(PATH, OWN_RECORD)
    if not file.exists and not file.error:
        return DriverChange()
    try:
        values = json_bounds.load_bounded_json("" if file.error else file.text)
    except ValueError:
        values = {}
    return parse_change(values if isinstance(values, dict) else {})


def parse_change(values: Mapping[str, Any]) -> DriverChange:
    """Return a change by the values of its record, as far as they have their forms."""
    before = values.get("before")
    every = before[:MOST_CODES] if isinstance(before, list) else []
    codes = [code for code in every if isinstance(code, str)]
    since, release, driver = (str(values.get(name)) for name in ("since", "release", "driver"))
    return DriverChange(
        # another word is a change that was not judged
        state=state if (state := values.get("state")) in (PREPARING, SETTLED) else CHANGING,
        release=release if RELEASE_NUMBERS.fullmatch(release) else "",
        since=since if hold_record.DATE.fullmatch(since) else "",
        gpus=_read_count(values.get("gpus")),
        before=tuple(code for code in codes if CODE.fullmatch(code)),
        kept=_read_count(values.get("kept")) or 0,
        driver=driver if STATE.fullmatch(driver) else "",
        # the record of an earlier release of this collection has none
        releasing=bool(values.get("releasing")),
    )


def _read_count(value: Any) -> int | None:
    """Return a number; None for what is none. A truth value is an int to Python."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < 1 << 16 else None


def report_change(change: DriverChange) -> dict[str, Any]:
    """Return what a result shows of a change."""
    return {**dc.asdict(change), "before": list(change.before)}


def advise_on_change(change: DriverChange) -> tuple[Message, ...]:
    """Return the advice about a change that was never judged, or that ended before it began."""
    if change.state != CHANGING:
        return (messages.RELEASE_CUT_OFF.fill(),) if change.releasing else ()
    unknown = "not known"
    return (
        messages.UNJUDGED.fill(since=change.since or unknown, release=change.release or unknown),
    )


# --- before the change
# ----------------------------------------------------------------------------------


@dc.dataclass(frozen=True)
class KeepingNeeds:
    """The packages that are kept before a change of the driver, and released for it.

    manager: apt, dnf or zypper. database: dpkg or rpm. packages: by their names. release: commands
    that take the hold of this collection back, of the packages `released`, each with its undo, None
    for one without. others: packages that a person holds. epoch: the time of the host, in seconds
    since 1970. advice: about what is not released.
    """

    manager: str = ""
    database: str = "none"
    packages: tuple[str, ...] = ()
    release: tuple[tuple[tuple[str, ...], tuple[str, ...] | None], ...] = ()
    others: tuple[str, ...] = ()
    epoch: float = 0.0
    released: tuple[str, ...] = ()
    advice: tuple[Message, ...] = ()


def list_keeping_questions() -> list[queries.Question]:
    """Return the questions before a change, also on a host whose module is not loaded."""
    asked = dc.replace(Policy(), driver="hold")
    return [
        *hold_facts.list_questions(asked),
        driver_packages.HOLD_QUESTION,
        *package_movers.list_mover_questions(),
    ]


def read_keeping_needs(policy: Policy, obs: Observation) -> KeepingNeeds:
    """Return what is to be kept and released. With gpufleet_driver=ignore a hold stays as it is, as
    it does in every run.
    """
    facts = hold_facts.read_holding_facts(dc.replace(Policy(), driver="hold"), obs)
    installed = facts.packages.value
    wanted = list_kept_packages(installed)
    ours = () if policy.driver == "ignore" else _read_own_hold(facts)
    why = holding_messages.HOLD_WITHDRAWN.fill()
    released = hold_commands.plan_release(facts, facts.manager.value, ours, why)
    held = [p.name for p in installed.packages if p.name in wanted and hold_facts.is_held(p, facts)]
    return KeepingNeeds(
        manager=facts.manager.value,
        database=installed.manager,
        packages=wanted,
        release=tuple(
            (tuple(command["argv"]), tuple(command["undo"]) if command["undo"] else None)
            for command in released.commands
        ),
        others=tuple(name for name in held if name not in ours),
        epoch=facts.epoch,
        released=tuple(difference.path for difference in released.differences),
        advice=tuple(text for text in released.advice if isinstance(text, Message)),
    )


def _read_own_hold(facts: hold_facts.HoldingFacts) -> tuple[str, ...]:
    """Return the packages that this collection holds. A broken record is for the plan to refuse."""
    try:
        return hold_record.read_record(facts)[0]
    except PlanError:
        return ()


def list_kept_packages(found: driver_packages.DriverSet) -> tuple[str, ...]:
    """List the packages without which a driver is not whole: its parts, whatever else has its
    release, such as the firmware, and built modules, which have the version of a kernel. A part
    that dpkg has not finished is one of them, so that the host names it as not kept.
    """
    whole = [
        p.name
        for p in found.packages
        if p.part != "other"
        or (found.release and p.release == found.release)
        or BUILT.fullmatch(p.name.partition(":")[0])
    ]
    half = [
        name
        for name, _state in found.half
        if driver_packages.find_part(name) != "other" or BUILT.fullmatch(name.partition(":")[0])
    ]
    every = dict.fromkeys([*whole, *half])
    # a name may have an architecture
    return tuple(n for n in every if re.fullmatch(driver_packages.NAMES, n.partition(":")[0]))


@dc.dataclass(frozen=True)
class Owner:
    """The run that prepares the change of a driver, and so has to judge it.

    run: a text that no other run on this host has, rollout: the id of its rollout, for people.
    """

    run: str
    rollout: str


def build_keeping_request(
    needs: KeepingNeeds,
    keeping: str,
    driver: Mapping[str, Any],
    before: Sequence[str],
    owner: Owner,
) -> dict[str, Any]:
    """Return what the program on the host is asked.

    keeping: the setting keep_packages. driver: of the host, as a look has it. before: codes that a
    judgement would find now.
    """
    keeps = keeping != "never" and needs.database != "none"
    return {
        "operation": "keep",
        "journal_dir": JOURNAL_DIR,
        "manager": needs.database,
        "packages": list(needs.packages) if keeps else [],
        "demand": keeping == "require",
        "release": [
            {"argv": list(argv), "undo": list(undo) if undo else None}
            for argv, undo in needs.release
        ],
        "limits": {
            "most": MOST_PACKAGES,
            "bytes": MOST_BYTES,
            "reserve": RESERVE,
            "seconds": DOWNLOAD_SECONDS,
            "download": needs.manager == "apt",
        },
        "record": {
            "writer": earlier_runs.WRITER,
            "schema": 1,
            "driver": driver["state"],
            "release": driver["version"],
            "gpus": len(driver["gpus"]),
            "since": hold_record.convert_epoch(needs.epoch),
            "before": list(before),
            **dc.asdict(owner),
        },
    }


def build_settling_request(owner: Owner) -> dict[str, Any]:
    """Return the request that notes the change as judged, unless another run has taken it up."""
    record = {"writer": earlier_runs.WRITER, "schema": 1, **dc.asdict(owner)}
    return {"operation": "settle", "journal_dir": JOURNAL_DIR, "record": record}


def build_removing_request(*, settled: bool, releasing: bool) -> dict[str, Any]:
    """Return the request that removes what is kept. settled: only if no change waits for its
    judgement. releasing: also if a run was killed while it released a hold, as the caller has seen.
    """
    return {
        "operation": "remove",
        "journal_dir": JOURNAL_DIR,
        "settled": settled,
        "releasing": releasing,
    }


def describe_left_packages(left: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return a sentence for each reason why packages are not kept."""
    by_reason: dict[str, list[str]] = {}
    for row in left:
        shown = f"{row['name']} {row['version']}".strip()
        by_reason.setdefault(str(row["why"]), []).append(shown)
    return [
        _fill_reason(REASONS.get(why, messages.FILE_NOT_COPIED), packages)
        for why, packages in sorted(by_reason.items())
    ]


def _fill_reason(row: Sentence, packages: Sequence[str]) -> Message:
    values = {name: value for name, value in VALUES.items() if name in row.fields}
    return row.fill(packages=names.show_few_texts(packages, SHOWN, ", "), **values)
