# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rights in Kubernetes: the module's notes name those of the ClusterRole in docs/drain.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.modules import drain

PAGE = (Path(__file__).parents[4] / "docs/drain.md").read_text(encoding="utf-8")
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"(?ms)^```yaml\n(.*?)^```", PAGE)]
ROLE = next(block for block in BLOCKS if block.get("kind") == "ClusterRole")
RIGHTS = [
    (verb, resource)
    for rule in ROLE["rules"]
    for resource in rule["resources"]
    for verb in rule["verbs"]
]
NOTE = next(note for note in yaml.safe_load(drain.DOCUMENTATION)["notes"] if "account" in note)


@pytest.mark.parametrize(("verb", "resource"), RIGHTS)
def test_a_right_of_the_role_is_in_the_modules_notes(verb: str, resource: str) -> None:
    name = f"C({resource})" if f"C({resource})" in NOTE else resource
    before = NOTE.partition(f" of {name}")
    assert before[1], f"{resource} is not named"
    assert f"C({verb})" in re.split(r" of |;", before[0])[-1]
