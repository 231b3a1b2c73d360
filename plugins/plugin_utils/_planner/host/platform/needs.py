# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say what each kind of machine needs of its units: a table of kind, unit, version and state.

Each row has a verdict, a cause and a step. The first row that fits counts. Without a row there is
no finding: a unit that a machine does not need may be in any state.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import (
    machines,
    messages,
)

# wrong: CUDA, or claims, do not work. advise: they do, and a person should know.
Verdict = Literal["wrong", "advise"]
# absent: not installed. disabled: installed, off, and not started at boot. stopped: enabled, and
# off now.
State = Literal["absent", "masked", "disabled", "stopped", "failed", "running"]
# of the package against the driver; unknown: one of both is not known
Version = Literal["same", "other", "unknown"]
FABRIC_MANAGER, SUBNET_MANAGER = "nvidia-fabricmanager.service", "nvlsm"
IMEX, PERSISTENCED = "nvidia-imex.service", "nvidia-persistenced.service"
OFF: tuple[State, ...] = ("masked", "disabled", "stopped")
ANY_STATE: tuple[State, ...] = ("absent", "masked", "disabled", "stopped", "failed", "running")
INSTALLED: tuple[State, ...] = ("masked", "disabled", "stopped", "failed", "running")
ANY_VERSION: tuple[Version, ...] = ("same", "other", "unknown")
JUDGED: tuple[machines.Kind, ...] = ("pcie", "nvswitch", "nvlink5", "rack")
SWITCHED: tuple[machines.Kind, ...] = ("nvswitch", "nvlink5")
# The program that starts IMEX: the DRA driver for ComputeDomains (`claims`), the same with a daemon
# of the host that takes commands (`commands`), or neither that this host shows.
Imex = Literal["none", "claims", "commands"]
ANY_IMEX: tuple[Imex, ...] = ("none", "claims", "commands")


@dc.dataclass(frozen=True)
class Row:
    """A row of the table. kubernetes: only on a host with a kubelet (True) or without (False)."""

    kinds: tuple[machines.Kind, ...]
    unit: str
    states: tuple[State, ...]
    verdict: Verdict
    row: Sentence
    source: str
    versions: tuple[Version, ...] = ANY_VERSION
    imex: tuple[Imex, ...] = ANY_IMEX
    kubernetes: bool | None = None

    def fits(self, case: Case) -> bool:
        return (
            case.kind in self.kinds
            and case.unit == self.unit
            and case.state in self.states
            and case.version in self.versions
            and case.imex in self.imex
            and self.kubernetes in (None, case.kubernetes)
        )


@dc.dataclass(frozen=True)
class Case:
    """A unit on a machine, as it is."""

    kind: machines.Kind
    unit: str
    state: State
    version: Version = "unknown"
    imex: Imex = "none"
    kubernetes: bool = False


GUIDE = "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/"
IMEX_GUIDE = "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/"
DOMAINS = "https://github.com/NVIDIA/cloud-native-docs/pull/502"
ROWS: tuple[Row, ...] = (
    Row(SWITCHED, FABRIC_MANAGER, ("absent",), "advise", messages.FM_ABSENT_KUBERNETES, GUIDE, kubernetes=True),
    Row(SWITCHED, FABRIC_MANAGER, ("absent",), "wrong", messages.FM_ABSENT, GUIDE),
    # it compares the whole version, not the branch (gpu-operator#544)
    Row(SWITCHED, FABRIC_MANAGER, INSTALLED, "wrong", messages.FM_OTHER_VERSION, GUIDE, versions=("other",)),
    Row(SWITCHED, FABRIC_MANAGER, OFF, "wrong", messages.FM_OFF, GUIDE),
    Row(SWITCHED, FABRIC_MANAGER, ("failed",), "wrong", messages.FM_FAILED, GUIDE),
    # AgentBaker#8839: on GB200 it has nothing to program
    Row(("rack",), FABRIC_MANAGER, ("running", "failed"), "advise", messages.FM_IN_RACK, IMEX_GUIDE),
    # siderolabs/extensions#717
    Row(("nvlink5",), SUBNET_MANAGER, ("absent",), "wrong", messages.NVLSM_ABSENT, GUIDE, kubernetes=False),
    Row(("nvlink5",), SUBNET_MANAGER, ("absent",), "advise", messages.NVLSM_ABSENT, GUIDE),
    Row(("rack",), IMEX, ("running",), "wrong", messages.IMEX_TWICE, DOMAINS, imex=("claims",)),
    Row(("rack",), IMEX, ("running",), "advise", messages.IMEX_BY_HOST, DOMAINS, imex=("commands",)),
    Row(("rack",), IMEX, ("disabled", "stopped", "failed"), "advise", messages.IMEX_NOT_MASKED, DOMAINS, imex=("claims",)),
    Row(("rack",), IMEX, ("running", "failed", "stopped"), "wrong", messages.IMEX_OTHER_VERSION, IMEX_GUIDE, versions=("other",)),
    Row(("rack",), IMEX, ("failed",), "advise", messages.IMEX_FAILED, IMEX_GUIDE),
    # nvidia-docker#1279; a unit that a person has masked is left alone
    Row(JUDGED, PERSISTENCED, ("disabled", "stopped", "failed"), "advise", messages.PERSISTENCE_OFF,
        "https://docs.nvidia.com/deploy/driver-persistence/"),
)  # fmt: skip
UNITS: tuple[str, ...] = (FABRIC_MANAGER, SUBNET_MANAGER, IMEX, PERSISTENCED)


def find_row(case: Case) -> Row | None:
    """Return the row for a unit on a machine; None if it is as the machine needs it."""
    return next((row for row in ROWS if row.fits(case)), None)
