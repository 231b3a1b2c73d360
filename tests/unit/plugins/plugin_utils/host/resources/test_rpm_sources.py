# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A repository of dnf or zypper that is there a second time is named if nothing that comes from it
is checked.
"""

from __future__ import annotations

import hashlib

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    rpm_sources,
)

from tests.unit.coded import read_all_coded

URL = "https://mirror.example/nvidia/rpm/$basearch"
OWN, OTHER = "/etc/yum.repos.d/gpufleet-nvidia.repo", "/etc/yum.repos.d/nvidia-docker.repo"
# NVIDIA/nvidia-docker/issues/1212
GUIDE = f"[libnvidia-container]\nname=libnvidia-container\nbaseurl={URL}\nrepo_gpgcheck=0\ngpgcheck=0\nenabled=1\npassword=hunter2\n"


def named(text: str, path: str = OTHER, manager: str = "dnf") -> list[str]:
    shown = file_places.show_own_text(text, rpm_sources.keep_rpm_lines(URL))
    assert "hunter2" not in shown
    file = {
        "path": path,
        "exists": True,
        "type": "file",
        "content": shown,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    seen = Observation({}, {f"glob:{rpm_sources.PATTERNS[manager]}": {"files": [file]}})
    plan = rpm_sources.advise_on_unchecked_sources(
        seen.list_glob_files(rpm_sources.PATTERNS[manager]), URL, manager, OWN
    )
    assert not plan.changes
    advice = read_all_coded(plan.advice)
    assert {(code, values["manager"]) for code, values in advice} <= {
        ("rpm.source-unchecked", manager)
    }
    return [values["path"] for _code, values in advice]


UNCHECKED = {
    "as an older guide has it": GUIDE,
    "with blanks, and a slash at the end": GUIDE.replace("=", " = ").replace(
        "$basearch", "$basearch/"
    ),
    "behind a section of another repository": f"[base]\nbaseurl=http://user:hunter2@mirror.example/base\ngpgcheck=1\n\n{GUIDE}",
    "on by default": GUIDE.replace("enabled=1\n", ""),
    "in capital letters, which both read": GUIDE.replace(
        "repo_gpgcheck=0\ngpgcheck=0\nenabled=1", "repo_gpgcheck=No\ngpgcheck=False\nenabled=TRUE"
    ),
    "one check is off, and the other one is not named": GUIDE.replace("repo_gpgcheck=0\n", ""),
}
LEFT = {
    "the metadata is checked, as in NVIDIA's own file": GUIDE.replace(
        "repo_gpgcheck=0", "repo_gpgcheck=1"
    ),
    "the packages are checked, in capital letters": GUIDE.replace("\ngpgcheck=0", "\ngpgcheck=Yes"),
    "the packages are checked": GUIDE.replace("\ngpgcheck=0", "\ngpgcheck=yes"),
    "switched off": GUIDE.replace("enabled=1", "enabled=0"),
    "a comment": GUIDE.replace("baseurl", "#baseurl"),
    "another address": GUIDE.replace("/rpm/", "/experimental/rpm/"),
    "the checks are those of the main configuration": GUIDE.replace(
        "repo_gpgcheck=0\ngpgcheck=0\n", ""
    ),
    "the address is in another section than the switch": GUIDE.replace(
        "repo_gpgcheck=0\ngpgcheck=0\n", "repo_gpgcheck=1\n[x]\ngpgcheck=0\n"
    ),
}


@pytest.mark.parametrize("text", UNCHECKED.values(), ids=UNCHECKED)
@pytest.mark.parametrize("manager", ["dnf", "zypper"])
def test_a_file_without_checks_is_named(text: str, manager: str) -> None:
    assert named(text, manager=manager) == [OTHER]


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_all_others_are_left(text: str) -> None:
    assert named(text) == []


def test_our_own_file_is_none_of_them() -> None:
    assert named(GUIDE, OWN) == []
