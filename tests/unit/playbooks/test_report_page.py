# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page and the document that playbooks leave: from looks, from changes, from a rollout, and
from reports that were kept.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.night import ONE_ROW, leave_rest
from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play, written
from tests.unit.playbooks.rollouts import DEAD


def inventory(place: Path, *names: str, name: str = "hosts.json") -> Path:
    hosts: dict[str, Any] = {
        host: DEAD if host.startswith("dead") else bare.variables(place, host) for host in names
    }
    return written(place / name, json.dumps({"all": {"children": {"gpu_hosts": {"hosts": hosts}}}}))


def read(place: Path) -> dict[str, Any]:
    assert "<!DOCTYPE html>" in (place / "report.html").read_text()
    return json.loads((place / "report.json").read_text())  # type: ignore[no-any-return]


def test_each_playbook_leaves_a_report_of_its_hosts(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, "gpu1", "dead1")
    status, words = play(tmp_path, hosts, "report")
    assert status == 2, "a host was lost"
    looked = read(tmp_path / "gpufleet-report")
    assert {name: host["outcome"] for name, host in looked["hosts"].items()} == {
        "gpu1": "would_change",
        "dead1": "lost",
    }
    ends = {"plan": ("would_change", 2), "rollout": ("changed", 0), "site": ("unchanged", 2)}
    for playbook, (outcome, ended) in ends.items():
        settings: dict[str, Any] = {
            "gpufleet_report_dir": f"reports/{playbook}",
            "gpufleet_max_failed": 1,
            "gpufleet_rollout_max_left_out": 1,
        }
        status, words = play(tmp_path, hosts, playbook, **settings)
        assert status == ended, words
        assert f"The report of 2 hosts is {tmp_path}/reports/{playbook}/report.html" in words
        found = read(tmp_path / "reports" / playbook)
        assert found["run"]["playbook"] == playbook
        assert found["hosts"]["gpu1"]["outcome"] == outcome
    assert (
        json.loads((tmp_path / "reports/rollout/report.json").read_text())["run"]["status"]
        == "done"
    )


def test_check_mode_leaves_a_report_that_says_so(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, "gpu1")
    for arguments, check, outcome in ((("--check",), True, "would_change"), ((), False, "changed")):
        status, words = play(tmp_path, hosts, "site", *arguments, gpufleet_report_dir="out")
        assert status == 0, words
        found = read(tmp_path / "out")
        assert (found["run"]["check"], found["hosts"]["gpu1"]["outcome"]) == (check, outcome)


def test_reports_that_were_kept_are_put_together_without_a_host(tmp_path: Path) -> None:
    for name in ("gpu1", "gpu2"):
        status, words = play(tmp_path, inventory(tmp_path, name), "plan", gpufleet_report_dir=name)
        assert status == 0, words
    kept = [f"{name}/report.json" for name in ("gpu1", "gpu2")]
    status, words = play(
        tmp_path,
        inventory(tmp_path, "dead1"),
        "report",
        gpufleet_report_from=kept,
        gpufleet_report_dir="whole",
    )
    assert status == 0, words
    assert f"The report of 2 hosts is {tmp_path}/whole/report.html" in words
    assert sorted(read(tmp_path / "whole")["hosts"]) == ["gpu1", "gpu2"]


def test_the_examples_of_the_module_run(tmp_path: Path) -> None:
    for name in ("north", "south"):
        status, words = play(tmp_path, inventory(tmp_path, name), "plan", gpufleet_report_dir=name)
        assert status == 0, words
    (module,) = (Path(__file__).resolve().parents[3] / "plugins/modules").glob("fleet_report.py")
    examples = module.read_text().partition('EXAMPLES = r"""')[2].partition('"""')[0]
    tasks = yaml.safe_load(examples.replace("/srv/www", str(tmp_path)))
    tasks[0]["gpufleet.nvidia.host_info"] = {
        "root": "{{ gpufleet_root }}",
        "engine_version": "{{ gpufleet_engine_version }}",
    }
    hosts = written(
        tmp_path / "play.yml",
        yaml.safe_dump([{"hosts": "gpu_hosts", "gather_facts": False, "tasks": tasks}]),
    )
    status, words = play(tmp_path, inventory(tmp_path, "gpu1"), str(hosts))
    assert status == 0, words
    assert sorted(read(tmp_path / "gpu-fleet")["hosts"]) == ["gpu1"]
    assert sorted(read(tmp_path / "fleet")["hosts"]) == ["north/north", "south/south"]


def test_a_report_that_cannot_be_published_does_not_hide_how_the_run_ended(tmp_path: Path) -> None:
    settings = {
        "gpufleet_report_publish": ["/bin/sh", "-c", "exit 7"],
        "gpufleet_rollout_plan_file": "plan.json",
    }
    status, words = play(tmp_path, inventory(tmp_path, "gpu1"), "plan", **settings)
    assert status == 0, words
    assert "gpufleet_report_publish failed: /bin/sh ended with 7" in " ".join(words.split())


def test_plan_and_report_leave_a_controller_that_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    settings = {
        "gpufleet_report_publish": ["/bin/cp", "-t", "taken"],
        "gpufleet_rollout_plan_file": "plan.json",
    }
    status, words = play(tmp_path, inventory(tmp_path, "gpu1"), "plan", **settings)
    assert status == 0, words
    assert sorted(path.name for path in (tmp_path / "taken").iterdir()) == [
        "plan.json",
        "report.html",
        "report.json",
    ]


WRONG = [
    ({"gpufleet_report_publish": "somewhere"}, "gpufleet_report_publish is 'somewhere'"),
    ({"gpufleet_report_dir": "hosts.json"}, "[file.not-a-directory]"),
]


@pytest.mark.parametrize(("settings", "said"), leave_rest(ONE_ROW, WRONG))
def test_a_wrong_setting_is_said_before_a_host_is_looked_at(
    settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    status, words = play(tmp_path, inventory(tmp_path, "gpu1"), "site", **settings)
    assert status == 2
    assert said in " ".join(words.split())
    assert "Converge the host" not in words
