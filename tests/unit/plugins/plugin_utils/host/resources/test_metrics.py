# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text file for Prometheus: what it says, that it changes with the host alone, whose it is, and
that it goes when nobody writes it.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
    Restart,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import metrics
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.builders import obs, sha
from tests.unit.coded import read_all_coded
from tests.unit.decisions import DECISION, DRIVER, RECORD
from tests.unit.metric_values import values

PLACE = "/var/lib/prometheus/node-exporter"
PATH = f"{PLACE}/gpufleet.prom"
POLICY = Policy(metrics_dir=PLACE)
DIRECTORY: dict[str, Any] = {PLACE: {"exists": True, "type": "dir", "mode": 0o40755, "real": PLACE}}
OTHER = Plan(
    changes=(
        {
            "path": "/etc/cdi/nvidia.yaml",
            "op": "write",
            "content": "",
            "mode": "0644",
            "expect": None,
        },
    )
)
SPEC = "/etc/cdi/nvidia.yaml"
BACK = [{"id": "a", "time": "1970-01-01T00:01:40Z", "state": "rolled_back"}]


def plan(
    text: str | None = None,
    others: Plan = OTHER,
    stale: tuple[str, ...] = (),
    *,
    at: float = 10.0,
    **told: Any,
) -> Plan:
    policy = told.pop("policy", POLICY)
    record = told.pop("record", RECORD)
    files = {**DIRECTORY, **({PATH: text} if text is not None else {})}
    seen = obs(files=files, host={"epoch": at}, **told)
    return metrics.plan_metrics(
        policy, metrics.read_metrics_facts(policy, seen), record, DRIVER, stale, others
    )


def said(made: Plan) -> str:
    (change,) = made.changes
    return str(change["content"])


INFO = "gpufleet_decision_info engine=containerd engine_version=1.7.24 injection=native-cdi driver=550.163.01"


def test_it_says_what_was_decided_and_when_the_host_changed() -> None:
    made = plan()
    assert made.changes[0]["path"] == PATH
    assert made.changes[0]["mode"] == "0644"
    assert values(said(made)) == {
        INFO: 1,
        "gpufleet_cdi_specs_stale": 0,
        "gpufleet_last_change_timestamp_seconds": 10,
        "gpufleet_last_rollback_timestamp_seconds": 0,
    }


def test_a_converged_host_writes_nothing_however_late_it_is() -> None:
    assert plan(said(plan()), Plan(), at=99.0) == Plan()


CRIO = dc.replace(
    DECISION, engine="crio", engine_version="1.34.2", instance="crio:/etc/crio/crio.conf"
)
LATER = [
    # what is different, the values that are
    ({"others": OTHER}, {"gpufleet_last_change_timestamp_seconds": 99}),
    ({"stale": (SPEC,)}, {"gpufleet_cdi_specs_stale": 1}),
    # which this very run writes again
    ({"stale": (SPEC,), "others": OTHER}, {"gpufleet_last_change_timestamp_seconds": 99}),
    ({"outcomes": BACK}, {"gpufleet_last_rollback_timestamp_seconds": 100}),
    ({"record": dc.replace(RECORD, decisions=(DECISION, CRIO))},
     {"gpufleet_decision_info engine=crio engine_version=1.34.2 injection=native-cdi driver=550.163.01": 1}),
    ({"others": Plan(restarts=(Restart("crio.service", "restart", ""),)), "policy": dc.replace(POLICY, restart="never")},
     {"gpufleet_restart_pending unit=crio.service": 1, "gpufleet_last_change_timestamp_seconds": 99}),
    ({"others": Plan(pending=("crio.service",)), "policy": dc.replace(POLICY, restart="never")},
     {"gpufleet_restart_pending unit=crio.service": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("different", "more"), LATER)
def test_it_changes_with_the_host(different: dict[str, Any], more: dict[str, float]) -> None:
    before = said(plan())
    made = plan(before, **{"others": Plan(), **different}, at=99.0)
    assert values(said(made)) == {**values(before), **more}
    settled = {
        key: value for key, value in different.items() if key not in ("others", "outcomes", "stale")
    }
    if "policy" not in settled:
        still = plan(
            said(made),
            Plan(),
            () if "others" in different else different.get("stale", ()),
            at=200.0,
            **settled,
        )
        assert still == Plan(), "and not once more"


def test_a_rollback_keeps_all_but_its_own_time() -> None:
    before = said(plan())
    seen = obs(files={**DIRECTORY, PATH: before}, host={"epoch": 99.0})
    text = said(
        metrics.plan_metrics_after_rollback(POLICY, metrics.read_metrics_facts(POLICY, seen))
    )
    assert values(text) == {**values(before), "gpufleet_last_rollback_timestamp_seconds": 99}
    first = metrics.plan_metrics_after_rollback(
        POLICY, metrics.read_metrics_facts(POLICY, obs(files=DIRECTORY, host={"epoch": 99.0}))
    )
    assert values(said(first)) == {"gpufleet_last_rollback_timestamp_seconds": 99}
    assert (
        metrics.plan_metrics_after_rollback(Policy(), metrics.read_metrics_facts(Policy(), obs()))
        == Plan()
    )


REFUSED = [
    # files, the code of the refusal, its place
    ({}, "no-directory", PLACE),
    ({PLACE: "a file"}, "not-a-directory", PLACE),
    ({**DIRECTORY, PATH: "node_cpu 1\n"}, "file-of-others", PATH),
]


@pytest.mark.parametrize(("files", "code", "where"), REFUSED)
def test_a_place_that_is_not_fit_is_said_and_nothing_is_written(
    files: dict[str, Any], code: str, where: str
) -> None:
    with pytest.raises(PlanError) as refused:
        metrics.plan_metrics(
            POLICY, metrics.read_metrics_facts(POLICY, obs(files=files)), RECORD, DRIVER, (), Plan()
        )
    assert (refused.value.code, refused.value.where) == (f"metrics.{code}", where)


@pytest.mark.parametrize(("files", "code", "_where"), REFUSED)
def test_a_place_that_is_not_fit_stops_nothing_that_writes_no_metrics(
    files: dict[str, Any], code: str, _where: str
) -> None:
    """Everything is given back where node_exporter went first, and a host without GPUs has no
    metrics.
    """
    seen = obs(files=files, host={"epoch": 10.0})
    assert metrics.plan_absent(POLICY, metrics.read_metrics_facts(POLICY, seen)) == Plan()
    assert (
        metrics.plan_metrics(
            POLICY,
            metrics.read_metrics_facts(POLICY, seen),
            dc.replace(RECORD, decisions=()),
            DRIVER,
            (),
            Plan(),
        )
        == Plan()
    )
    assert (
        metrics.plan_metrics_after_rollback(POLICY, metrics.read_metrics_facts(POLICY, seen))
        == Plan()
    ), code


def test_a_directory_that_is_not_roots_is_advice_and_the_rest_of_the_host_goes_on() -> None:
    """As Debian's postinst of prometheus-node-exporter leaves it."""
    problem = "/var/lib/prometheus belongs to user prometheus"
    seen = obs(files={PLACE: {**DIRECTORY[PLACE], "untrusted": problem}}, host={"epoch": 10.0})
    made = metrics.plan_metrics(
        POLICY, metrics.read_metrics_facts(POLICY, seen), RECORD, DRIVER, (), OTHER
    )
    assert made.changes == ()
    assert read_all_coded(made.advice) == [
        ("metrics.directory-untrusted", {"path": PLACE, "problem": problem})
    ]
    assert (
        metrics.plan_metrics_after_rollback(POLICY, metrics.read_metrics_facts(POLICY, seen))
        == Plan()
    )


@pytest.mark.parametrize(
    "policy",
    [Policy(), Policy(metrics_dir="/srv/metrics"), POLICY],
    ids=["none", "moved", "absent"],
)
def test_a_file_that_nobody_writes_any_more_goes(policy: Policy) -> None:
    text = said(plan())
    kept = {PATH: {"existed": False, "sha256_before": None, "sha256_after": sha(text)}}
    elsewhere = {"/srv/metrics": {**DIRECTORY[PLACE], "real": "/srv/metrics"}}
    seen = obs(files={**DIRECTORY, **elsewhere, PATH: text}, originals=kept)
    made = (
        metrics.plan_absent(policy, metrics.read_metrics_facts(policy, seen))
        if policy == POLICY
        else metrics.plan_metrics(
            policy, metrics.read_metrics_facts(policy, seen), RECORD, DRIVER, (), Plan()
        )
    )
    assert PATH in [change["path"] for change in made.changes if change["op"] != "write"]
    assert ("/srv/metrics/gpufleet.prom" in [change["path"] for change in made.changes]) is (
        policy.metrics_dir == "/srv/metrics"
    )


@given(st.text())
def test_any_text_is_a_label_that_the_parser_reads_back(text: str) -> None:
    line = metrics.write_samples({metrics.PENDING: [(metrics.format_labels(unit=text), 1)]})
    (family,) = text_string_to_metric_families(line)
    assert [sample.labels["unit"] for sample in family.samples] == [text]
