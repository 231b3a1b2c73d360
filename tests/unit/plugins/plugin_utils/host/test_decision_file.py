# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision on the host: written once, silent afterwards, given back."""

from __future__ import annotations

import dataclasses as dc
import json
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    HostDecision,
    Plan,
    Policy,
    Reason,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decision_file,
    earlier_runs,
)

from tests.unit.builders import obs, sha
from tests.unit.decisions import DECISION, DRIVER, RECORD


def plan(files: dict[str, Any], record: HostDecision = RECORD, driver: Driver = DRIVER) -> Plan:
    facts = decision_file.read_decision_facts(Policy(), obs(files=files))
    return decision_file.plan_decision_files(facts, record, driver)


def plan_removal(seen: Observation) -> Plan:
    facts = decision_file.read_decision_facts(Policy(), seen)
    return decision_file.plan_absent(Policy(), facts)


def text() -> str:
    return str(plan({}).changes[0]["content"])


def on_host() -> dict[str, str]:
    return {decision_file.DECISION_PATH: text(), earlier_runs.FACT_PATH: text()}


def test_two_files_with_the_same_content() -> None:
    made = plan({})
    assert [(c["path"], c["mode"], c["expect"]) for c in made.changes] == [
        ("/var/lib/gpufleet/decision.json", "0644", None),
        ("/etc/ansible/facts.d/gpufleet.fact", "0644", None),
    ]
    recorded = json.loads(text())
    assert recorded["schema"] == 1
    assert recorded["engines"][0]["injection"] == "native-cdi"
    assert recorded["engines"][0]["reasons"][0]["evidence"] == "cri-status: enableCDI=false"
    assert recorded["driver"] == {
        "version": "550.163.01",
        "gpus": [{"index": 0, "bus_id": "0000:17:00.0", "model": "NVIDIA H100"}],
    }


def test_the_second_run_changes_nothing_although_the_evidence_reads_otherwise() -> None:
    later = dc.replace(
        DECISION,
        enable_cdi=False,
        reasons=(
            Reason(
                "injection", "native-cdi", Message("its switch is on"), "cri-status: enableCDI=true"
            ),
        ),
    )
    used = dc.replace(DRIVER, gpus=(dc.replace(DRIVER.gpus[0], uuid=""),))
    assert plan(on_host(), dc.replace(RECORD, decisions=(later,)), used).empty


def test_another_decision_is_a_change() -> None:
    made = plan(
        on_host(), dc.replace(RECORD, decisions=(dc.replace(DECISION, engine_version="2.1.0"),))
    )
    assert [(d.before, d.after) for d in made.differences][0] == (
        "containerd 1.7.24: native-cdi",
        "containerd 2.1.0: native-cdi",
    )


def test_a_file_that_is_no_record_is_replaced() -> None:
    made = plan({**on_host(), earlier_runs.FACT_PATH: "#!/bin/sh\n"})
    assert [c["path"] for c in made.changes] == [earlier_runs.FACT_PATH]


def test_an_executable_fact_would_be_run() -> None:
    made = plan({**on_host(), earlier_runs.FACT_PATH: {"content": text(), "mode": 0o755}})
    assert [c["mode"] for c in made.changes] == ["0644"]


def test_a_skipped_host_is_not_touched() -> None:
    assert plan({}, dc.replace(RECORD, skipped="no GPU")).empty


def test_a_host_with_nothing_decided_is_left_alone_and_a_stale_record_goes() -> None:
    undecided = dc.replace(RECORD, decisions=())
    assert plan({}, undecided).empty
    assert [c["op"] for c in plan(on_host(), undecided).changes] == ["remove", "remove"]


def test_absent_gives_back() -> None:
    journal = {earlier_runs.FACT_PATH: {"existed": False, "sha256_after": sha(text())}}
    made = plan_removal(obs(files=on_host(), originals=journal))
    assert [(c["op"], c["path"]) for c in made.changes] == [
        ("remove", decision_file.DECISION_PATH),
        ("restore", earlier_runs.FACT_PATH),
    ]
    assert plan_removal(obs(files={})).empty
    assert plan_removal(obs(files={earlier_runs.FACT_PATH: '{"mine": 1}'})).empty


def test_a_change_that_the_headline_does_not_show_is_shown_value_by_value() -> None:
    grown = dc.replace(
        DRIVER, gpus=(*DRIVER.gpus, SeenGpu(1, 1, "0000:31:00.0", "GPU-2", "NVIDIA H100"))
    )
    found = {(d.key, d.before, d.after) for d in plan(on_host(), driver=grown).differences}
    new = {"index": 1, "bus_id": "0000:31:00.0", "model": "NVIDIA H100"}
    assert found == {(f"driver.gpus.1.{key}", None, value) for key, value in new.items()}
    loose = {path: {"content": text, "mode": 0o600} for path, text in on_host().items()}
    assert {(d.key, d.before, d.after) for d in plan(loose).differences} == {
        ("mode", "0600", "0644")
    }
