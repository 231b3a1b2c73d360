# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks do the same, whatever other people have around them: inventories, settings of
`ansible.cfg`, controllers. On bare trees.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.night import leave_unless
from tests.unit.playbooks import bare
from tests.unit.playbooks.rollouts import told
from tests.unit.playbooks.surroundings import SURROUNDINGS, Surrounding

BY_DAY = ("127.0.0.1 in a rollout", "127.0.0.1 that has drifted")
NIGHT = pytest.mark.nightly("by day the rows that have been wrong without a word")


def make_inventory(place: Path, case: Surrounding) -> Path:
    """Make the hosts as trees. A variable that is None is left out."""
    entries = {
        host: {
            name: value
            for name, value in {**bare.variables(place, host), **given}.items()
            if value is not None
        }
        for host, given in case.hosts.items()
    }
    (place / "group_vars").mkdir()
    bare.written(place / "group_vars/all.yml", yaml.safe_dump(dict(case.everywhere)))
    return bare.written(
        place / "hosts.yml",
        yaml.safe_dump({"all": {"children": {"gpu_hosts": {"hosts": entries}}}}),
    )


@pytest.mark.parametrize("name", leave_unless(NIGHT, list(SURROUNDINGS), BY_DAY.__contains__))
def test_a_playbook_does_what_the_page_says(name: str, tmp_path: Path) -> None:
    case = SURROUNDINGS[name]
    settings = {"gpufleet_hosts": "gpu_hosts", **case.settings}
    given = bare.written(tmp_path / "run.yml", yaml.safe_dump(settings))
    environment = {
        variable: text.replace("PLACE", str(tmp_path))
        for variable, text in case.environment.items()
    }
    status, words = bare.run(
        tmp_path,
        "ansible-playbook",
        "-i",
        make_inventory(tmp_path, case),
        f"gpufleet.nvidia.{case.book}",
        "-e",
        f"@{given}",
        *case.arguments,
        **environment,
    )
    assert (status, told(words) if case.told is not None else None) == (case.status, case.told), (
        words
    )
    assert f"[{case.code}]" in words or not case.code, words
