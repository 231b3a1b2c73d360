# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive that packages come from is judged with the other variables, before a host is asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import variables_check
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import archives
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

STEP = "Name a file of this controller in gpufleet_bundle_file"
CASES = {
    "a file": ("bundle.tar", {}, ""),
    "none": ("", {}, ""),
    "a name that is not there": ("bundel.tar", {}, "No such file or directory"),
    "a directory": (".", {}, "it is not a regular file"),
    "a pipe": ("pipe", {}, "it is not a regular file"),
    "a file in a file": ("bundle.tar/x", {}, "Not a directory"),
    "what is taken back needs none": ("bundel.tar", {"gpufleet_state": "absent"}, ""),
}


@pytest.mark.parametrize(("name", "more", "says"), CASES.values(), ids=CASES)
def test_an_archive_that_cannot_be_read_is_named_with_its_reason(
    name: str, more: dict[str, str], says: str, tmp_path: Path
) -> None:
    (tmp_path / "bundle.tar").write_bytes(b"an archive")
    os.mkfifo(tmp_path / "pipe")
    found = variables_check.list_wrong_archives(
        {"gpufleet_bundle_file": str(tmp_path / name) if name else "", **more}
    )
    assert [text for text in found if says in text and text.startswith(str(tmp_path))] == found
    assert len(found) == bool(says)


def test_a_file_that_may_not_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "bundle.tar"
    place.write_bytes(b"an archive")

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(PlanError, match="Permission denied"):
        archives.require_file(str(place))
