# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of promises names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/what-can-go-wrong.md").read_text(encoding="utf-8")
ROWS = [
    line
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| ---") and not line.endswith("| Proven by |")
]


def functions(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }


def test_every_promise_has_a_test_that_exists() -> None:
    missing = []
    for row in ROWS:
        found = re.search(r"`(tests/[\w/]+\.py)::(test_\w+)` \|$", row)
        if not found or found[2] not in functions(ROOT / found[1]):
            missing.append(row)
    assert missing == []
    assert len(ROWS) > 20
