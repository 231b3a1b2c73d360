# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""This release after each release before it, and before one with newer schemas.

tests/fixtures/releases/ has what each release wrote, by whole tasks (tests/tools/freeze.py). A
newer release is imitated by a newer number in each schema: this release has to refuse it by name,
whatever else is in it.
"""

from __future__ import annotations

import dataclasses as dc
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import journal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import claims
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import plan_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.page import kept

from tests.unit import released_hosts
from tests.unit.released_hosts import OPTIONS, RELEASES
from tests.unit.running_host import Host, HostProcess, start_process

KEPT = [
    (release, engine)
    for release in released_hosts.list_releases()
    for engine in released_hosts.ENGINES
]
# What this release changes on a converged host of an earlier one: (what, path, key). The changelog
# has to say it under "breaking changes" or "minor changes".
CHANGES: Mapping[tuple[str, str], list[tuple[str, str, str]]] = {}
# Releases whose approvals this one does not take: it plans more, or says it otherwise.
OTHER_APPROVALS: frozenset[str] = frozenset()
# A played engine does not restart. So these wait for it, with the release that changed them as well.
WAITS: Mapping[str, list[tuple[str, str, str]]] = {
    "crio": [("unit", "crio.service", "")],
    "docker": [("unit", "docker.service", "configuration")],
}
JOURNAL = "var/lib/gpufleet"


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from start_process()


def put_host(process: HostProcess, release: str, engine: str, *, converged: bool) -> Host:
    """Return a host as it was before a release, or as the release left it."""
    host = released_hosts.build_released_host(process, engine)
    stored = released_hosts.read_kept_host(release, engine)
    released_hosts.lay_files(host, stored["before"])
    if converged:
        released_hosts.lay_files(host, stored["after"])
    return host


def list_differences(result: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [(d["what"], d["path"], d["key"]) for d in result["differences"]]


def test_a_release_is_kept() -> None:
    assert "0.1.0-rc.1" in released_hosts.list_releases()


@pytest.mark.parametrize(("release", "engine"), KEPT)
def test_a_host_of_an_earlier_release_stays_and_is_given_back(
    release: str, engine: str, process: HostProcess
) -> None:
    host = put_host(process, release, engine, converged=True)
    try:
        looked = host.task("host_info", **OPTIONS)
        assert list_differences(looked) == [
            *CHANGES.get((release, engine), []),
            *WAITS.get(engine, []),
        ]
        assert not looked["problem"]
        back = host.task("host", state="absent")
        assert (back.get("failed"), back["changed"]) == (None, True), back
        now = released_hosts.read_host_files(host)
        before = released_hosts.read_kept_host(release, engine)["before"]
        of_others = [name for name in before if not name.startswith(JOURNAL)]
        assert {name: now.get(name) for name in of_others} == {n: before[n] for n in of_others}
    finally:
        host.close()


@pytest.mark.parametrize(("release", "engine"), KEPT)
def test_what_an_earlier_release_was_approved_for_is_done_or_refused_by_name(
    release: str, engine: str, process: HostProcess
) -> None:
    host = put_host(process, release, engine, converged=False)
    digest = released_hosts.read_kept_host(release, engine)["approved_change"]
    try:
        done = host.task("host", approved_change=digest, **OPTIONS)
    finally:
        host.close()
    if release in OTHER_APPROVALS:
        assert (done["failed"], done["error"]["code"]) == (True, "transaction.approval")
    else:
        assert (done.get("failed"), done["changed"]) == (None, True), done


@pytest.mark.parametrize("release", released_hosts.list_releases())
def test_files_of_an_earlier_release_on_the_controller_are_read(release: str) -> None:
    plan = json.loads((RELEASES / release / "plan-file.json").read_text())
    assert plan_file.require_plan(plan, "plan.json")["totals"]["hosts"] == 2
    report = RELEASES / release / "report.json"
    assert read_report(report) == ["gpu1", "gpu2"]


def read_report(path: Path) -> list[str]:
    """Return the hosts of a report, as the playbook report reads it."""
    return sorted(kept.require_report(json.loads(path.read_text()), str(path))["hosts"])


def place_claim(release: str, folder: Path, schema: int, machine: str = "") -> Path:
    """Put the record of a rollout whose process is dead where this controller keeps them.

    machine: another one, on which the process may live.
    """
    here = claims.find_process(os.getpid())
    assert here
    stored = json.loads((RELEASES / release / "claim.json").read_text())
    owner = dc.asdict(dc.replace(here, started="1", machine=machine or here.machine))
    path = folder / "1-1.json"
    path.write_text(json.dumps({**stored, "schema": schema, "process": owner}))
    return path


@pytest.mark.parametrize("release", released_hosts.list_releases())
@pytest.mark.parametrize(("newer", "owed"), [(0, {"gpu2 boot"}), (1, set())])
def test_a_rollout_that_another_release_began_goes_on(
    release: str, newer: int, owed: set[str], tmp_path: Path
) -> None:
    """Its hosts are free, and those of an unfinished batch are verified again."""
    place_claim(release, tmp_path, claims.SCHEMA + newer)
    earlier = claims.list_claims_of_others(tmp_path)
    assert earlier.taken == {}
    assert earlier.unverified == owed
    assert claims.take(tmp_path, {"gpu2": ("gpu2 boot",)}, (), "3", "") == []


@pytest.mark.parametrize("release", released_hosts.list_releases())
@pytest.mark.parametrize("newer", [0, 1])
def test_a_rollout_of_another_machine_keeps_its_hosts_whatever_release_began_it(
    release: str, newer: int, tmp_path: Path
) -> None:
    """The home directory may be shared, and nobody here knows whether its process lives."""
    place_claim(release, tmp_path, claims.SCHEMA + newer, machine="another")
    assert set(claims.list_claims_of_others(tmp_path).taken) == {"gpu1 boot", "gpu2 boot"}


@pytest.mark.parametrize("release", released_hosts.list_releases())
def test_a_record_of_a_newer_release_is_left_to_it(release: str, tmp_path: Path) -> None:
    path = place_claim(release, tmp_path, claims.SCHEMA + 1)
    before = path.read_bytes()
    assert claims.take(tmp_path, {"gpu2": ("gpu2 boot",)}, (), "3", "") == []
    assert path.read_bytes() == before


# --- a newer release
# --------------------------------------------------------------------------------------------------


def raise_schema(path: Path) -> None:
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({**stored, "schema": stored["schema"] + 1}))


def raise_originals(host: Host) -> None:
    for path in (host.root / JOURNAL / "originals").glob("*/meta.json"):
        raise_schema(path)


def raise_status_files(host: Host) -> None:
    raise_schema(host.root / "etc/ansible/facts.d/gpufleet.fact")
    raise_schema(host.root / JOURNAL / "decision.json")


def open_transaction(host: Host) -> None:
    """Leave a transaction of a newer release in the middle."""
    (entry,) = (host.root / JOURNAL / "journal").iterdir()
    raise_schema(entry / "meta.json")
    states = (entry / "states").read_bytes()
    (entry / "states").write_bytes(states[: journal.SLOT].ljust(len(states)))
    opened = host.root / JOURNAL / "open" / entry.name
    opened.parent.mkdir(mode=0o700, exist_ok=True)
    opened.write_text("")
    opened.chmod(0o600)


# what the newer release left, the code by which its files are not given back
NEWER = [
    (raise_originals, "restore.copy-damaged"),
    (open_transaction, "host.unfinished-transaction"),
]


@pytest.mark.parametrize(("left", "code"), NEWER)
def test_a_journal_of_a_newer_release_is_refused_by_name(
    left: Any, code: str, process: HostProcess
) -> None:
    host = put_host(process, *KEPT[0], converged=True)
    try:
        left(host)
        before = released_hosts.read_host_files(host)
        back = host.task("host", state="absent")
        assert (back["failed"], back["changed"], back["error"]["code"]) == (True, False, code)
        assert f"schema {journal.SCHEMA + 1}" in back["error"]["what"]
        assert released_hosts.read_host_files(host) == before
    finally:
        host.close()


def test_status_files_of_a_newer_release_are_named_before_they_are_written(
    process: HostProcess,
) -> None:
    host = put_host(process, *KEPT[0], converged=True)
    try:
        raise_status_files(host)
        looked = host.task("host_info", **OPTIONS)
        assert list_differences(looked) == [
            ("file", "/var/lib/gpufleet/decision.json", "schema"),
            ("file", "/etc/ansible/facts.d/gpufleet.fact", "schema"),
        ]
        assert host.task("host", **OPTIONS)["changed"]
        assert list_differences(host.task("host_info", **OPTIONS)) == []
    finally:
        host.close()


def test_files_of_a_newer_release_on_the_controller_are_refused_by_name(tmp_path: Path) -> None:
    release = KEPT[0][0]
    plan = json.loads((RELEASES / release / "plan-file.json").read_text())
    with pytest.raises(PlanError) as refused:
        plan_file.require_plan({**plan, "schema": plan["schema"] + 1}, "plan.json")
    assert refused.value.code == "approval.schema"
    report = tmp_path / "report.json"
    report.write_text((RELEASES / release / "report.json").read_text())
    raise_schema(report)
    with pytest.raises(PlanError) as unread:
        read_report(report)
    assert unread.value.code == "page.other-schema"
