# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether the toolkit's nvidia-cdi-refresh or this collection owns the host's CDI spec.

The module also plans to mask its units and to give them back. A distribution may have a generator
of its own in its place (cdi_generators). This module never stops that one.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Mapping
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    queries,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    Difference,
    HostDecision,
    Leftover,
    Plan,
    Policy,
    Reason,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_generators,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.earlier_runs import (
    EarlierRuns,
    read_earlier_runs,
)

SERVICE, PATH = "nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path"
REFRESH_FILE = "/var/run/cdi/nvidia.yaml"
LEAVE_IT = "set gpufleet_cdi_owner: toolkit to leave the spec to it"
REFRESH_ENV = "/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"
REFRESH_PACKAGE = "nvidia-container-toolkit-base"
UNIT_FILES = (f"/lib/systemd/system/{SERVICE}", f"/usr/lib/systemd/system/{SERVICE}")
# An empty unit file masks a unit as a link to /dev/null does (systemd.unit(5)), and is a plain file
# that can be given back. It has to be: a disabled service is still started by the udev rule of
# toolkit 1.20.1 when the nvidia module is loaded, at boot that is.
MASKS = {unit: f"/etc/systemd/system/{unit}" for unit in (PATH, SERVICE)}
# systemd keeps the state "enabled" of a loaded unit in mind until it reloads; the links on disk are
# the truth.
LINKS = {unit: f"/etc/systemd/system/multi-user.target.wants/{unit}" for unit in (PATH, SERVICE)}
OUTPUT = re.compile(r"(?m)^NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=[\"']?([^\s\"']+)")
CDI_VERSION = re.compile(r"[\"']?cdiVersion[\"']?:\s*[\"']?([0-9.]{1,64})")
NOT_LOADED = 5  # systemctl: there is no such unit
# The parts of these files that may travel.
KEPT = {
    REFRESH_FILE: file_places.SPEC_VERSION,
    REFRESH_ENV: file_places.REFRESH_ENV,
    **dict.fromkeys(MASKS.values(), file_places.EMPTY_OR_NOT),
}


def list_refresh_questions(policy: Policy) -> list[queries.Question]:
    files = [queries.ask_for_file(p, keep) for p, keep in KEPT.items()]
    files += [queries.ask_for_file(p, content=False) for p in (*UNIT_FILES, *LINKS.values())]
    return (
        [
            *files,
            queries.ask_for_units([SERVICE, PATH]),
            queries.ask_for_packages([REFRESH_PACKAGE]),
        ]
        if policy.root == "/"
        else files
    )


@dc.dataclass(frozen=True)
class Refresh:
    """The state of nvidia-cdi-refresh, or of what the distribution has in its place.

    masked: it cannot start. output: the file that it writes.
    """

    present: bool
    enabled: bool
    masked: bool
    output: str
    version: str  # cdiVersion of its file, '' if there is none
    generator: cdi_generators.Generator | None = None

    @property
    def title(self) -> str:
        return (
            f"the generator of {self.generator.title}" if self.generator else "nvidia-cdi-refresh"
        )


def _read_refresh_state(obs: Observation) -> Refresh:
    if own := cdi_generators.find_distribution_generator(obs):
        return Refresh(
            True,
            True,
            False,
            own.output,
            parse_toolkit_version(obs.get_text(own.output, file_places.SPEC_VERSION)),
            own,
        )
    present = any(obs.get_unit(u) for u in LINKS) or any(obs.is_there(p) for p in UNIT_FILES)
    masked = is_mask(obs.get_file(MASKS[SERVICE]))
    enabled = not masked and any(obs.is_there(link) for link in LINKS.values())
    output = OUTPUT.findall(obs.get_text(REFRESH_ENV))
    where = host_paths.keep_as_opened(output[-1]) if output else REFRESH_FILE
    return Refresh(
        present,
        enabled,
        masked,
        where,
        parse_toolkit_version(obs.get_text(where, file_places.SPEC_VERSION)),
    )


def parse_toolkit_version(text: str) -> str:
    match = CDI_VERSION.search(text)
    return match.group(1) if match else ""


def is_mask(file: ObservedFile) -> bool:
    """Tell whether a unit's file masks the unit. Raise QueryFailed if the file cannot be read."""
    if not file.exists:
        return False
    # A link to /dev/null is a device, without a content.
    return not file.text and (
        file.real == "/dev/null" or (file.type == "file" and file.content == "")
    )


@dc.dataclass(frozen=True)
class RefreshFacts:
    """A host's facts about nvidia-cdi-refresh.

    state: as its files and units show it. generator: that of the distribution in its place. files:
    the files that mask its units, by path. is_there: whether there is anything at a path. units:
    the properties of a unit.
    """

    state: Fact[Refresh]
    generator: Fact[cdi_generators.Generator | None]
    files: Lookup[str, ObservedFile]
    is_there: Lookup[str, bool]
    units: Lookup[str, Mapping[str, str]]
    earlier: EarlierRuns


def read_refresh_facts(obs: Observation) -> RefreshFacts:
    return obs.compute_once(
        "nvidia-cdi-refresh",
        lambda: RefreshFacts(
            Fact(lambda: _read_refresh_state(obs)),
            Fact(lambda: cdi_generators.find_distribution_generator(obs)),
            Lookup(obs.get_file),
            Lookup(obs.is_there),
            Lookup(obs.get_unit),
            read_earlier_runs(obs),
        ),
    )


def choose_cdi_owner(
    policy: Policy, facts: RefreshFacts, cap: str, read_by_all: tuple[str, ...] | None = None
) -> tuple[Literal["collection", "toolkit", "none"], Reason]:
    """Choose the one owner of the host's CDI spec.

    The toolkit is chosen only if its units have written a spec that every consumer accepts.

    read_by_all: the directories that each engine of the host looks into. None if the engines have
    not been asked.
    """
    state = facts.state.value
    against = explain_refresh_objection(policy, state, cap, read_by_all)
    if policy.cdi_owner == "collection":
        return "collection", Reason("cdi_owner", "collection", messages.OWNER_FORCED.fill())
    if policy.cdi_owner == "toolkit":
        coming = (
            not state.present
            and policy.packages == "present"
            and not policy.single
            and policy.root == "/"
        )
        if against and not coming:
            cannot = messages.TOOLKIT_CANNOT_OWN.fill(reason=against)
            raise PlanError(cannot, where=state.output)
        forced = messages.OWNER_FORCED.fill()
        return "toolkit", Reason("cdi_owner", "toolkit", forced, state.output)
    if against:
        return "collection", Reason("cdi_owner", "collection", against)
    row = messages.REFRESH_SERVES
    why = row.fill(title=state.title, path=state.output, version=state.version)
    return "toolkit", Reason("cdi_owner", "toolkit", why, state.output)


def explain_refresh_objection(
    policy: Policy, found: Refresh, cap: str, read_by_all: tuple[str, ...] | None = None
) -> Message | None:
    """Return the reason why nvidia-cdi-refresh cannot be the owner. None if it can."""
    directory = posixpath.dirname(found.output)
    if policy.root != "/" and not (found.generator and policy.cdi_owner == "toolkit"):
        return messages.NO_OTHER_WRITER.fill()
    if not found.present:
        return messages.REFRESH_ABSENT.fill()
    if found.masked or not found.enabled:
        return messages.REFRESH_OFF.fill(title=found.title)
    if directory not in (policy.cdi_spec_dirs or CDI_DIRS if read_by_all is None else read_by_all):
        asked = read_by_all is not None
        row = messages.REFRESH_NOT_READ_BY_ALL if asked else messages.REFRESH_UNREAD
        return row.fill(title=found.title, path=found.output)
    if not found.version:
        return messages.REFRESH_WITHOUT_FILE.fill(title=found.title, path=found.output)
    if parse_refresh_release(found.version) > parse_refresh_release(cap):
        row = messages.REFRESH_TOO_NEW
        return row.fill(title=found.title, version=found.version, accepted=cap)
    return None


def parse_refresh_release(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in version.split(".") if n)


# ---------------------------------------------------------------- plans


def stop(policy: Policy, facts: RefreshFacts, record: HostDecision) -> Plan:
    """Mask and stop the units.

    systemd is not reloaded: that takes GPUs from containers that got them by the legacy hook
    (nvidia-container-toolkit issue 48). So the masks hold from the next boot on. Until then the
    udev rule could start the service once more, if someone loads the nvidia module again; the next
    run takes its file away. The links that enable the units stay: without the masks all is as it
    was.
    """
    refresh = facts.state.value
    if refresh.generator:
        return Plan()
    coming = (
        policy.root == "/"
        and REFRESH_PACKAGE in record.packages
        and policy.packages == "present"
        and not policy.single
    )
    if not (refresh.present or coming):
        return Plan()
    why = messages.ONE_WRITER.fill()
    busy = [u for u in MASKS if policy.root == "/" and is_active(facts, u)]
    # Stopped, not disabled: the masks suffice, and the links stay byte for byte.
    stop: transaction.PackageCommand = {
        "argv": ["systemctl", "stop", *busy],
        "timeout": 60,
        "why": why,
        "undo": ["systemctl", "start", *busy],
    }
    stops = Plan(
        differences=tuple(
            Difference("unit", u, "state", "active", "stopped", why, "adoption") for u in busy
        ),
        commands=(stop,) if busy else (),
    )
    masks = merge_plans([mask(facts, path, why) for path in MASKS.values()])
    planned = merge_plans([stops, masks])
    # If the masks exist already, nothing was left by others: this run may have installed the
    # package itself, a stage earlier.
    if not refresh.present or masks.empty:
        return planned
    unit = next((path for path in UNIT_FILES if facts.is_there.get(path)), UNIT_FILES[0])
    left = Leftover(
        "nvidia-cdi-refresh", unit, (), True, "adopted", messages.REFRESH_STOPPED.fill(reason=why)
    )
    return dc.replace(planned, leftovers=(left,))


def clear_behind_installation(facts: RefreshFacts) -> Plan:
    """Plan that nothing of a package's units is left once the way back has removed the package.

    Commands are undone from the last to the first, so this one goes before the installation: the
    file that the units may have written is removed after the units themselves.
    """
    if facts.state.value.present or facts.files.get(REFRESH_FILE).exists:
        return Plan()
    return Plan(commands=(_build_removal(),))


def _build_removal() -> transaction.PackageCommand:
    remove = ["rm", "-f", REFRESH_FILE]
    why = messages.REFRESH_STARTS.fill()
    return {"argv": remove, "timeout": 10, "why": why, "undo": remove}


def stop_installed(facts: RefreshFacts, *, goes: bool) -> Plan:
    """Plan to stop the units that a package brings, right after its script has started them.

    Their file goes with them if there is none before: it would hide ours from then on. Packages
    before 1.18 bring no units.

    goes: whether the way back takes the package away. Then it leaves the units stopped, since they
    would write what was not there before. If the package stays, it starts them, as their package's
    script has, and they write their file again.
    """
    if facts.state.value.present:
        return Plan()
    why, start = messages.REFRESH_STARTS.fill(), ["systemctl", "--no-block", "start"]
    stop: transaction.PackageCommand = {
        "argv": ["systemctl", "stop", PATH, SERVICE],
        "timeout": 60,
        "why": why,
        "accepts": [NOT_LOADED],
    }
    stop["undo"] = stop["argv"] if goes else [*start, PATH]
    remove = _build_removal()
    if not goes:
        remove.update({"undo": [*start, SERVICE], "undo_accepts": [NOT_LOADED]})
    fresh = not facts.files.get(REFRESH_FILE).exists
    units = [Difference("unit", unit, "state", None, "stopped", why, "adoption") for unit in MASKS]
    file = Difference("file", REFRESH_FILE, "", "as its units write it", None, why, "adoption")
    return Plan(
        differences=(*units, *([file] if fresh else [])),
        commands=(stop, remove) if fresh else (stop,),
    )


def is_active(facts: RefreshFacts, unit: str) -> bool:
    return facts.units.get(unit).get("ActiveState") in ("active", "activating")


def mask(facts: RefreshFacts, path: str, why: str) -> Plan:
    file = facts.files.get(path)
    if is_mask(file):
        return Plan()
    if file.exists:
        raise PlanError(messages.UNIT_IN_THE_WAY.fill(reason=why), where=path)
    return dc.replace(
        owned_file.plan_owned_file(file, "", after="masked", why=why), expect_files={path: None}
    )


def plan_absent(policy: Policy, facts: RefreshFacts) -> Plan:
    """Plan to remove the masks and to enable the units again. They take over from the next boot on."""
    masked = [path for path in MASKS.values() if is_mask(facts.files.get(path))]
    # Without a journal: systemctl masks by a link, and an empty file is ours if the rest of us is
    # here as well.
    lost = bool(masked) and not facts.earlier.has_journal and facts.earlier.was_here
    own = [
        path
        for path in masked
        if path in facts.earlier.originals or (lost and facts.files.get(path).type == "file")
    ]
    if not own:
        return Plan(
            released=tuple(
                path
                for path in MASKS.values()
                if path in facts.earlier.originals and not facts.files.get(path).exists
            )
        )
    why = messages.REFRESH_RETURNS.fill()
    back = merge_plans(
        [
            owned_file.plan_owned_file_restore(
                facts.earlier, facts.files.get(path), why=why, own=True
            )
            for path in own
        ]
    )
    if policy.root != "/":
        return back
    unit_dir = posixpath.dirname(
        next((p for p in UNIT_FILES if facts.is_there.get(p)), UNIT_FILES[0])
    )
    # If the units came with our installation, they were disabled at once. This is what `systemctl
    # enable` does, less its daemon-reload.
    links: tuple[transaction.PackageCommand, ...] = tuple(
        {
            "argv": ["ln", "-sfn", f"{unit_dir}/{u}", link],
            "timeout": 10,
            "why": messages.UNIT_ENABLED_AGAIN.fill(unit=u),
        }
        for u, link in LINKS.items()
        if not facts.is_there.get(link)
    )
    advice = (messages.REFRESH_ENABLED_AGAIN.fill(),)
    return dc.replace(back, commands=links, advice=(*back.advice, *advice))
