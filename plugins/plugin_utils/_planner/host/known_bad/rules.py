# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether a row of the table of known-bad combinations applies to a host: yes, no, or not
known.

A row applies if all of its conditions hold. If one does not hold, the row does not apply, whatever
the others are. Otherwise an unknown condition leaves the row open, and the result reports it so: a
state that could not be seen is neither good nor bad.
"""

from __future__ import annotations

import dataclasses as dc
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    messages,
)

TOOLKIT, DRIVER = "toolkit", "driver"  # programs with versions, beside the engines
TITLES: Mapping[str, str] = {
    TOOLKIT: "the NVIDIA Container Toolkit",
    DRIVER: "the NVIDIA driver",
    **{name: engine.title for name, engine in traits.TRAITS.items()},
}

# States of a host that a row may ask for besides versions, in the documentation's words.
State = Literal[
    "drop-in-above-root",
    "config-version-3",
    "toolkit-drop-in",
    "cdi-injection",
    "refresh-owns-spec",
    "stale-spec",
    "reader-below-0.7.0",
    "mig",
    "module-compressed",
    "module-nvidia-current",
    "adds-nvidia-repository",
    "mounts-accepted",
    "swarm-gpus",
    "enroot",
    "mode-jit-cdi",
    "cni-bin-dir",
    "cdi-switched-off",
    "tracing-in-files",
]
WORDS: Mapping[State, str] = {
    "drop-in-above-root": "a drop-in has a higher `version` than the main file",
    "config-version-3": "the main file has `version = 3` or higher",
    "toolkit-drop-in": "a drop-in of `nvidia-ctk` or of the GPU Operator is there and stays",
    "cdi-injection": "GPUs get into containers by CDI",
    "refresh-owns-spec": "`nvidia-cdi-refresh` owns the CDI spec",
    "stale-spec": "a CDI spec on the host is stale and stays so",
    "reader-below-0.7.0": "an engine reads CDI specs of versions before 0.7.0 only",
    "mig": "a GPU has MIG devices",
    "module-compressed": "the kernel module on disk is compressed",
    "module-nvidia-current": "the kernel module on disk is called nvidia-current",
    "adds-nvidia-repository": "the run adds NVIDIA's public repository",
    "mounts-accepted": "the NVIDIA runtime accepts requests by mounts (a device plugin with the strategy `volume-mounts`)",
    "swarm-gpus": "Docker Swarm assigns GPUs (`node-generic-resources`, `swarm-resource`), and the runtime's mode is not `legacy`",
    "enroot": "enroot is on the host",
    "mode-jit-cdi": "the NVIDIA runtime works in the mode `jit-cdi`",
    "cni-bin-dir": "the files name CNI's directory by `bin_dir` in `io.containerd.cri.v1.runtime` alone, and not /opt/cni/bin",
    "cdi-switched-off": "the files set `enable_cdi = false`",
    "tracing-in-files": "the files configure OpenTelemetry's traces",
}


def build_state_code(state: State) -> str:
    """Return the code of a message about a state by its id."""
    return f"known-bad-state.{state}"


@dc.dataclass(frozen=True)
class ReleaseCondition:
    """A condition that a program is in a release from `first` on and before `fixed`. An empty bound
    does not count.
    """

    of: str
    first: str = ""
    fixed: str = ""

    @functools.cached_property
    def bounds(self) -> tuple[Version | None, Version | None]:
        return versions.parse_engine_version(self.first), versions.parse_engine_version(self.fixed)

    def holds(self, version: Version) -> bool:
        first, fixed = self.bounds
        return (first is None or version >= first) and (fixed is None or version < fixed)

    @property
    def text(self) -> str:
        bounds = [
            f"from {self.first}" if self.first else "",
            f"before {self.fixed}" if self.fixed else "",
        ]
        return " ".join(filter(None, [TITLES[self.of].removeprefix("the "), *bounds]))


@dc.dataclass(frozen=True)
class Is:
    """A condition that a state of the host is true, or will be."""

    state: State

    @property
    def text(self) -> str:
        return WORDS[self.state]


Condition = ReleaseCondition | Is


@dc.dataclass(frozen=True)
class KnownBadRow:
    """A combination that is known to be bad.

    what: the failure, a sentence without a full stop. way: the workaround. stops: whether the row
    ends a run by default.
    """

    id: str
    what: str
    when: tuple[Condition, ...]
    way: str
    links: tuple[str, ...]
    stops: bool = True

    @property
    def code(self) -> str:
        """The code by which messages about this row end."""
        return f"known-bad.{self.id}"


@dc.dataclass(frozen=True)
class HostView:
    """One engine's view of the host as it will be after the plan. Rows are compared with it.

    programs: the releases of each program on the host, None for an unknown one. A program that is
    missing here is not on the host. states: None for an unknown state. A state that is missing here
    is false.
    """

    programs: Mapping[str, Sequence[Version | None]] = dc.field(default_factory=dict)
    states: Mapping[State, bool | None] = dc.field(default_factory=dict)


@dc.dataclass(frozen=True)
class JudgedRows:
    """The rows that apply, and the open rows, each with the facts that are missing."""

    found: tuple[KnownBadRow, ...] = ()
    open: tuple[tuple[KnownBadRow, tuple[str, ...]], ...] = ()


def holds_condition(condition: Condition, host: HostView) -> bool | None:
    if isinstance(condition, Is):
        return host.states.get(condition.state, False)
    known = [
        None if version is None else condition.holds(version)
        for version in host.programs.get(condition.of, ())
    ]
    return True if True in known else None if None in known else False


def judge_rows(rows: Iterable[KnownBadRow], hosts: Sequence[HostView]) -> JudgedRows:
    """Judge the rows. A row that applies to one of the views applies.

    hosts: the views of one host, one for each engine.
    """
    met, unclear = [], []
    for row in rows:
        verdicts = [
            lacking
            for lacking in (list_unknown_conditions(row, host) for host in hosts)
            if lacking is not None
        ]
        if () in verdicts:
            met.append(row)
        elif verdicts:
            unclear.append(
                (
                    row,
                    tuple(
                        dict.fromkeys(
                            name_missing_fact(condition)
                            for lacking in verdicts
                            for condition in lacking
                        )
                    ),
                )
            )
    return JudgedRows(tuple(met), tuple(unclear))


def list_unknown_conditions(row: KnownBadRow, host: HostView) -> tuple[Condition, ...] | None:
    """Return the conditions that are unknown. () if all hold, None if one does not hold."""
    lacking = []
    for condition in row.when:
        held = holds_condition(condition, host)
        if held is False:
            return None
        if held is None:
            lacking.append(condition)
    return tuple(lacking)


def name_missing_fact(condition: Condition) -> Message:
    """Return what is not known, with the code of the state or of an unknown release."""
    if isinstance(condition, ReleaseCondition):
        return messages.RELEASE_UNKNOWN.fill(title=TITLES[condition.of])
    words = convert_condition(condition.text)
    return Message(f"whether {words}", build_state_code(condition.state))


def convert_condition(text: str) -> str:
    return text.replace("`", "")
