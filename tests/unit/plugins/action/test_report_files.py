# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports that were kept, as files of anybody's: one that is none is said in a sentence with its
name.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import fleet_report
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

FILES = [
    # content, why it is not read
    (b"", r"\[file.report-not-json\]$"),
    (b"{", r"\[file.report-not-json\]$"),
    (b"\xff", r"\[file.report-not-json\]$"),
    (b"[" * 200_000, r"\[file.report-not-json\]$"),
    (b'{"a":' * 200_000, r"\[file.report-not-json\]$"),
    (b"[]", r"\[page.not-a-report\]"),
    (b'{"hosts": {}, "changes": {}}', r"\[page.a-plan\]"),
]


@pytest.mark.parametrize(("content", "why"), FILES)
def test_what_is_no_report_is_said(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(content)
    with pytest.raises(PlanError, match=why) as refused:
        fleet_report.read_kept_report(str(file))
    assert str(file) in str(refused.value)
