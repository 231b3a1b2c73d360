# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of ansible-playbook that is a fork is what it is as a process of its own."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from tests import preloaded
from tests.unit.playbooks import bare

COLLECTIONS = str(preloaded.COLLECTIONS)
TIMES = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z")


def test_a_fork_says_and_does_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = {name: bare.variables(tmp_path, name) for name in ("gpu1", "gpu2")}
    inventory = bare.written(
        tmp_path / "hosts.yml",
        yaml.safe_dump({"all": {"children": {"gpu_hosts": {"hosts": hosts}}}}),
    )
    said = {}
    for forked in (True, False):
        monkeypatch.setattr(preloaded, "can_be_forked", lambda _environment, it=forked: it)
        said[forked] = [
            bare.play(tmp_path, inventory, name, *arguments)
            for name, *arguments in (("plan", "--limit", "gpu1"), ("journal", "--nosuch"))
        ]
    assert [status for status, _words in said[False]] == [0, 2]
    by_fork, alone = (
        [(status, sorted(TIMES.sub("", words).splitlines())) for status, words in said[forked]]
        for forked in (True, False)
    )
    assert by_fork == alone


@pytest.mark.parametrize(
    ("changed", "forked"),
    [
        ({}, True),
        ({"ANSIBLE_COLLECTIONS_PATH": f"{{place}}/stub:{COLLECTIONS}"}, True),
        ({"ANSIBLE_COLLECTIONS_PATH": f"{{place}}/own:{COLLECTIONS}"}, False),
        ({"ANSIBLE_COLLECTIONS_PATH": "{place}/own"}, False),
        ({"ANSIBLE_FORKS": "1", "COLUMNS": "80"}, True),
        ({"PYTHONTZPATH": "{place}"}, False),
        ({"LC_ALL": "none"}, False),
        ({"TZ": "Pacific/Niue"}, False),
    ],
)
def test_another_collection_or_another_python_is_a_process_of_its_own(
    changed: dict[str, str], forked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own/ansible_collections/gpufleet/nvidia").mkdir(parents=True)
    (tmp_path / "stub/ansible_collections/kubernetes/core").mkdir(parents=True)
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", COLLECTIONS)
    for name, text in changed.items():
        monkeypatch.setenv(name, text.format(place=tmp_path))
    assert preloaded.can_be_forked(os.environ) is forked
