# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""People paste whole blocks of commands. So a block that changes hosts is one command, and the look
before it is a block of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "docs/*.md", "roles/*/README.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)
BLOCK = re.compile(r"^ *```(?:shell|console)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
# Playbooks that leave hosts and clusters as they are.
LOOKS = re.compile(r"gpufleet\.nvidia\.(?:plan|journal|report|images|verify)\b|--check\b")


def list_mixed_blocks(text: str) -> list[str]:
    """Return the blocks with several playbooks, one of which changes something."""
    blocks = [
        [line for line in block.splitlines() if "ansible-playbook" in line]
        for block in BLOCK.findall(text)
    ]
    return [
        "\n".join(commands)
        for commands in blocks
        if len(commands) > 1 and not all(map(LOOKS.search, commands))
    ]


SITE, PLAN = "ansible-playbook gpufleet.nvidia.site", "ansible-playbook gpufleet.nvidia.plan"


@pytest.mark.parametrize(
    ("commands", "mixed"),
    [
        ([SITE], False),
        ([PLAN, f"{SITE} --check --diff"], False),
        (["cd docker", SITE], False),
        ([f"{SITE} --check --diff", SITE], True),
        ([PLAN, SITE], True),
        ([SITE, SITE], True),
    ],
)
def test_a_block_that_changes_something_is_one_playbook(commands: list[str], mixed: bool) -> None:
    text = "\n".join(["Text:", "", "```shell", *commands, "```", ""])
    assert bool(list_mixed_blocks(text)) is mixed


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_lets_people_look_before_they_change(page: Path) -> None:
    assert list_mixed_blocks((ROOT / page).read_text()) == []
