# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout tells while it goes on: a line for each host and batch, events for chat and
alerts, and an exit status.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play, written
from tests.unit.playbooks.rollouts import VANISHES, broken

HOSTS = ["gpu1", "gpu2", "gpu3"]


def fleet(place: Path, **hosts: Any) -> Path:
    entries = {host: {**bare.variables(place, host), **hosts.get(host, {})} for host in HOSTS}
    return written(
        place / "hosts.yml",
        yaml.safe_dump({"all": {"children": {"gpu_hosts": {"hosts": entries}}}}),
    )


def events(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (place / "events.jsonl").read_text().splitlines()]


def test_events_and_lines_tell_a_rollout_from_its_start_to_its_end(tmp_path: Path) -> None:
    settings = {
        "gpufleet_rollout_events": "events.jsonl",
        "gpufleet_rollout_waves": ["100%"],
        "gpufleet_change_ref": "CHG-7",
    }
    status, words = play(tmp_path, fleet(tmp_path), "rollout", **settings)
    assert status == 0, words
    told = events(tmp_path)
    assert [event["event"] for event in told] == ["start", "batch", "gate", "batch", "gate", "end"]
    assert {event["schema"] for event in told} == {1}
    assert {event["change_ref"] for event in told} == {"CHG-7"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", event["time"]) for event in told)
    start, canary, first, wave, _second, end = told
    assert {key: start[key] for key in ("hosts", "to_change", "done", "left_out", "batches")} == {
        "hosts": 3, "to_change": 3, "done": 0, "left_out": 0, "batches": 2,
    }  # fmt: skip
    assert sorted(canary["hosts"] + wave["hosts"]) == HOSTS
    assert (first["results"], first["done"], first["total"]) == ({"changed": 1}, 1, 3)
    assert (end["status"], end["totals"]["changed"]) == ("done", 3)
    for host in HOSTS:
        assert re.search(rf"^  containerd .*  {host}  changed, \d+ s$", words, re.MULTILINE), words
    assert "batch 1 of 2 ended: 1 changed; 1 of 3 hosts so far" in words
    assert "batch 2 of 2 ended: 2 changed; 3 of 3 hosts so far" in words


@pytest.mark.parametrize("way", ["failed", "lost"])
def test_a_host_that_does_not_come_through_is_told_with_the_reason_and_the_run_fails(
    way: str, tmp_path: Path
) -> None:
    inventory = fleet(tmp_path, **({"gpu1": VANISHES} if way == "lost" else {}))
    if way == "failed":
        broken(tmp_path, "gpu1")
    settings = {
        "gpufleet_rollout_events": "events.jsonl",
        "gpufleet_rollout_waves": ["100%"],
        "gpufleet_rollout_canaries": 0,
    }
    status, words = play(tmp_path, inventory, "rollout", **settings)
    assert status == 2, words
    told = {event["event"]: event for event in events(tmp_path)}
    assert told["gate"]["bad"] == {"gpu1": way}
    assert "gpufleet_rollout_max_failed" in told["stop"]["why"]
    assert told["end"]["status"] == "stopped"
    assert re.search(rf"^  containerd .*  gpu1  {way}(, \d+ s)?: .+", words, re.MULTILINE), words
    assert "1 of at most 0 failed: gpu1" in words


def test_a_sink_that_fails_is_said_once_and_stops_nothing(tmp_path: Path) -> None:
    sink = ["/bin/sh", "-c", "echo full >&2; exit 9"]
    status, words = play(
        tmp_path, fleet(tmp_path), "rollout", "--limit", "gpu1", gpufleet_rollout_events=sink
    )
    assert status == 0, words
    assert words.count("gpufleet_rollout_events failed") == 1
    assert "/bin/sh ended with 9: full" in " ".join(words.split())
    assert "1 host: 1 changed" in words


def test_check_mode_tells_nobody_but_the_terminal(tmp_path: Path) -> None:
    status, words = play(
        tmp_path,
        fleet(tmp_path),
        "rollout",
        "--check",
        "--limit",
        "gpu1",
        gpufleet_rollout_events="events.jsonl",
    )
    assert status == 0, words
    assert not (tmp_path / "events.jsonl").exists()


def test_a_sink_that_is_none_is_said_before_a_host_is_looked_at(tmp_path: Path) -> None:
    status, words = play(
        tmp_path, fleet(tmp_path), "rollout", gpufleet_rollout_events="ftp://events"
    )
    assert status == 2
    assert "gpufleet_rollout_events is 'ftp://events'" in words
    assert "Look at the host" not in words
