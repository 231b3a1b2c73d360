# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traces that earlier runs of this collection left on a host: the files from before, in the
journal, and the record of the last decision.

An observation becomes these facts in one place. Code that takes something back, or judges whose a
file is, gets them here.
"""

from __future__ import annotations

import dataclasses as dc
import functools
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import JOURNAL_DIR
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    OWN_RECORD,
)

# Ansible's setup module runs facts that are executable and parses the others: 0644 makes it data
# (`ansible_local.gpufleet`).
FACT_PATH = "/etc/ansible/facts.d/gpufleet.fact"
WRITER = "gpufleet.nvidia"
ORIGINALS = queries.ask_for_originals(JOURNAL_DIR)
RECORD = queries.ask_for_file(FACT_PATH, keep=OWN_RECORD)

Kept = Mapping[str, Any]  # the journal's record of one file


@dc.dataclass(frozen=True)
class EarlierRuns:
    """The traces of earlier runs.

    asked, record_asked: the look has asked for the journal, or for the record. journal: what the
    journal says; it cannot be read if reading raises QueryFailed, which does not mean that it keeps
    nothing. record: the record of the last decision, {} if there is none. seen: the files of the
    journal that the look has met as well.
    """

    asked: bool
    record_asked: bool
    journal: Fact[Mapping[str, Any]]
    record: Fact[Mapping[str, Any]]
    seen: Fact[Mapping[str, ObservedFile]]

    @property
    def originals(self) -> Mapping[str, Kept]:
        """Path -> the journal's record of the file from before our first change."""
        originals: Mapping[str, Kept] = self.journal.value.get("originals") or {}
        return originals

    @property
    def originals_if_asked(self) -> Mapping[str, Kept]:
        """The same; {} if the look has not asked for the journal."""
        return self.originals if self.asked else {}

    @property
    def journal_if_asked(self) -> Mapping[str, Any]:
        """The whole answer of the journal; {} if the look has not asked for it."""
        return self.journal.value if self.asked else {}

    @property
    def pending_units(self) -> frozenset[str]:
        """The units whose restart earlier runs have left to a person, and that run as before; none
        if the look has not asked for the journal.
        """
        return frozenset(
            str(entry.get("unit")) for entry in self.journal_if_asked.get("pending") or ()
        )

    @property
    def is_journal_known(self) -> bool:
        """True if the journal's directory is there."""
        return bool(self.journal.value.get("known"))

    @property
    def has_journal(self) -> bool:
        """True if the journal knows of this collection's work here.

        If so, a file that it has no copy of is not this collection's.
        """
        return self.is_journal_known or bool(self.originals)

    @property
    def was_here(self) -> bool:
        """True if this collection has converged the whole host, by the fact that it leaves.

        The fact counts even if the journal is gone.
        """
        return self.record.value.get("writer") == WRITER

    @property
    def engines(self) -> frozenset[str]:
        """The engines that this collection has configured on this host, as its record lists them."""
        recorded = self.record.value.get("engines")
        known = [e for e in recorded if isinstance(e, dict)] if isinstance(recorded, list) else []
        return frozenset(str(e.get("engine")) for e in known)

    @property
    def plugin_source(self) -> str:
        """The way in which the last run knew the device plugin's strategies: declared, seen or
        default. '' if there is no record.
        """
        plugin = self.record.value.get("device_plugin")
        return str(plugin.get("source") or "") if isinstance(plugin, dict) else ""

    @property
    def spec_place(self) -> str:
        """The directory that the last run recorded for the CDI specs of a host whose engines have
        directories of their own. '' if none is recorded.
        """
        cdi = self.record.value.get("cdi") if self.record_asked else None
        place = cdi.get("place") if isinstance(cdi, dict) else None
        return place if isinstance(place, str) and place.startswith("/") else ""

    @property
    def recorded_takeovers(self) -> tuple[str, ...]:
        """The files of other tools that this collection has removed, by its record."""
        recorded = self.record.value.get("taken_over")
        return (
            tuple(path for path in recorded if isinstance(path, str))
            if isinstance(recorded, list)
            else ()
        )


def read_earlier_runs(obs: Observation) -> EarlierRuns:
    """Return what earlier runs left. The journal and the record are read when a plan needs them."""
    return obs.compute_once("earlier runs", lambda: _read_earlier_runs(obs))


def _read_earlier_runs(obs: Observation) -> EarlierRuns:
    journal = Fact(functools.partial(obs.get_answer, ORIGINALS))
    return EarlierRuns(
        obs.was_asked(ORIGINALS),
        obs.was_asked(RECORD),
        journal,
        Fact(lambda: parse_decision_record(obs.get_file(FACT_PATH, OWN_RECORD))),
        Fact(
            lambda: {
                path: obs.get_file(path)
                for path in journal.value.get("originals") or {}
                if f"file:{path}" in obs.answers
            }
        ),
    )


def parse_decision_record(file: ObservedFile) -> dict[str, Any]:
    """Return the record in a file; {} if the file holds no record. Such a file is replaced."""
    try:
        value = json_bounds.load_bounded_json(file.content or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
