# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that people copy from the pages works where they paste it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play, written

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    "docs/playbooks.md",
    "docs/troubleshooting.md",
    "examples/mixed/inventory/group_vars/debian_family.yml",
    "examples/mixed/inventory/group_vars/redhat_family.yml",
]
KEY = re.compile(r"^(?:# )?(gpufleet_toolkit_key: .*)$", re.MULTILINE)
SCENARIOS = sorted((ROOT / "examples/ci/molecule").glob("*/converge.yml"))


def lines() -> set[str]:
    """Give the setting of the key as the pages show it, without a comment behind it."""
    found = [KEY.findall((ROOT / page).read_text()) for page in PAGES]
    assert all(len(shown) == 1 for shown in found), found
    return {yaml.safe_dump(yaml.safe_load(line)) for shown in found for line in shown}


@pytest.mark.parametrize("inventory", ["hosts.yml", "inventory"])
def test_the_key_is_found_where_the_pages_say(inventory: str, tmp_path: Path) -> None:
    pasted = lines()
    assert len(pasted) == 1, pasted
    place = tmp_path / "inventory" if inventory == "inventory" else tmp_path
    (place / "group_vars").mkdir(parents=True)
    written(place / "group_vars/nvidia.asc", "the text of the key")
    written(place / "group_vars/gpu_hosts.yml", pasted.pop())
    hosts = {"gpu1": bare.variables(tmp_path, "gpu1")}
    written(
        place / "hosts.yml", yaml.safe_dump({"all": {"children": {"gpu_hosts": {"hosts": hosts}}}})
    )
    book = written(
        tmp_path / "shown.yml",
        yaml.safe_dump(
            [
                {"import_playbook": "gpufleet.nvidia.plan"},
                {"hosts": "all", "gather_facts": False, "tasks": [SHOW]},
            ]
        ),
    )
    status, words = play(tmp_path, tmp_path / inventory, str(book))
    assert status == 0, words
    assert "the text of the key" in words


SHOW = {"ansible.builtin.debug": {"msg": "{{ hostvars['gpu1'].gpufleet_toolkit_key }}"}}


@pytest.mark.parametrize("converge", SCENARIOS, ids=[path.parent.name for path in SCENARIOS])
def test_a_molecule_scenario_needs_nothing_beside_its_directory(converge: Path) -> None:
    top = converge.parents[1]
    for play_ in yaml.safe_load(converge.read_text()):
        book = play_["ansible.builtin.import_playbook"]
        collections = re.fullmatch(r"gpufleet\.nvidia\.(\w+)", book)
        path = (
            ROOT / f"playbooks/{collections[1]}.yml"
            if collections
            else (converge.parent / book).resolve()
        )
        assert path.is_file()
        assert collections or path.is_relative_to(top), book
