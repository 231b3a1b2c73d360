# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report is read strictly, so that no expectation is passed over, and what is played judges it: a
wrong expectation is seen.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

from tests.unit import public_reports, report_player

GIVEN: dict[str, Any] = {
    "addresses": ["https://example.org/issues/1"],
    "condition": "A file of another tool is there.",
    "right": "It stays.",
    "files": {"/etc/docker/daemon.json": '{"debug": true}\n'},
    "tasks": [
        {
            "module": "docker_runtime",
            "options": {"engine_version": "26.1.5"},
            "expect": {
                "outcome": "changed",
                "says": ["runtimes"],
                "files": {"/etc/docker/daemon.json": {"has": ["debug", "nvidia"]}},
            },
        }
    ],
}


def written(place: pathlib.Path, **changed: Any) -> pathlib.Path:
    (place / "docker/a-report").mkdir(parents=True)
    (place / "docker/a-report/report.yml").write_text(yaml.safe_dump({**GIVEN, **changed}))
    return place / "docker/a-report"


def expecting(**expect: Any) -> dict[str, Any]:
    task = GIVEN["tasks"][0]
    return {"tasks": [{**task, "expect": {**task["expect"], **expect}}]}


MALFORMED: dict[str, dict[str, Any]] = {
    "an unknown key": {"remark": "x"},
    "no address": {"addresses": []},
    "an address that is none": {"addresses": ["issue 1"]},
    "no task": {"tasks": []},
    "an unknown key of a task": {"tasks": [{**GIVEN["tasks"][0], "chek": True}]},
    "an unknown outcome": expecting(outcome="fine"),
    "an unknown expectation": expecting(say=["x"]),
    "a text where a list is meant": expecting(says="x"),
    "a pattern that is none": expecting(says=["("]),
    "an unknown state of a file": expecting(files={"/etc/docker/daemon.json": "same"}),
    "an unknown expectation of a file": expecting(
        files={"/etc/docker/daemon.json": {"contains": ["x"]}}
    ),
    "a path without a slash": {"files": {"etc/x": ""}},
    "an unknown key of the hardware": {"hardware": {"gpu": []}},
    "an unknown key of a GPU": {"hardware": {"gpus": [{"bus": "0000:01:00.0", "minors": 0}]}},
}


@pytest.mark.parametrize("changed", MALFORMED.values(), ids=MALFORMED)
def test_what_the_format_has_not_is_an_error(
    tmp_path: pathlib.Path, changed: dict[str, Any]
) -> None:
    with pytest.raises(public_reports.Malformed):
        public_reports.read(written(tmp_path, **changed))


JUDGED: dict[str, tuple[dict[str, Any], str]] = {
    "all is right": ({}, ""),
    "another outcome": (expecting(outcome="refused"), "changed, not refused"),
    "a word that is not said": (expecting(says=["crun"]), "says nothing of /crun/"),
    "a word that is not to be said": (expecting(silent=["runtimes"]), "speaks of /runtimes/"),
    "a text that is not in the file": (
        expecting(files={"/etc/docker/daemon.json": {"has": ["crun"]}}),
        "lacks 'crun'",
    ),
    "a text that is not to be in the file": (
        expecting(files={"/etc/docker/daemon.json": {"lacks": ["debug"]}}),
        "has 'debug'",
    ),
    "a file that is not to be there": (
        expecting(files={"/etc/docker/daemon.json": "absent"}),
        "is there",
    ),
    "a file that is not there": (expecting(files={"/etc/x": {"has": ["x"]}}), "is not there"),
    "a file that is changed": (
        expecting(files={"/etc/docker/daemon.json": "unchanged"}),
        "is not unchanged",
    ),
    "a mode": (expecting(files={"/etc/docker/daemon.json": {"mode": "0600"}}), "has the mode 0644"),
    "a file that breaks the run": (
        {"files": {"/etc/docker/daemon.json": "{"}},
        "refused, not changed",
    ),
}


@pytest.mark.parametrize(("changed", "wrong"), JUDGED.values(), ids=JUDGED)
def test_a_wrong_expectation_is_seen(
    tmp_path: pathlib.Path, changed: dict[str, Any], wrong: str
) -> None:
    found = report_player.play(public_reports.read(written(tmp_path, **changed)), tmp_path / "host")
    assert any(wrong in text for text in found) if wrong else found == []


def test_every_directory_is_a_report_of_a_known_subject() -> None:
    folders = [path for path in public_reports.PLACE.iterdir() if path.is_dir()]
    assert {folder.name for folder in folders} <= set(public_reports.SUBJECTS)
    assert [
        path
        for folder in folders
        for path in folder.iterdir()
        if not (path / "report.yml").is_file()
    ] == []
