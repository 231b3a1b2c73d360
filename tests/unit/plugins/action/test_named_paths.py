# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths of the controller that a user names: one that no file can have is refused by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import fleet_report
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    archives,
    catalogues,
    messages,
    named_paths,
    outside,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import (
    rollout_plan,
    rollout_settings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

READERS: dict[str, Callable[[str], Any]] = {
    "a directory": outside.require_usable_directory,
    "a file to write": lambda name: named_paths.find_file_to_write(name, "gpufleet_awx_file"),
    "the plan of a rollout": lambda name: rollout_plan.write_rollout_plan(name, {}),
    "an approved plan": rollout_settings.read_plan,
    "a file of tasks": lambda name: rollout_settings.list_task_files({"change": name}),
    "an archive": archives.require_file,
    "an archive as a whole": archives.verify_archive,
    "a catalogue": catalogues.read_catalogue_images,
    "a description of an image": catalogues.read_own_description,
    "a kept report": fleet_report.read_kept_report,
}
ODD = {
    "~no-such-user-here/x": messages.NO_SUCH_HOME.code,
    "/tmp/a\0b": messages.PATH_WITH_NULL.code,
    # half of a character, which JSON and YAML can write with an escape
    "/tmp/a\ud800b": messages.PATH_NOT_TEXT.code,
    "~a\ud800b/x": messages.PATH_NOT_TEXT.code,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(("name", "code"), ODD.items())
def test_a_path_that_no_file_can_have_is_refused_by_its_name(
    name: str, code: str, read: Callable[[str], Any]
) -> None:
    with pytest.raises(PlanError) as refused:
        read(name)
    assert (refused.value.code, refused.value.where) == (code, name)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_path_that_is_too_long_is_refused(read: Callable[[str], Any], tmp_path: Path) -> None:
    with pytest.raises(PlanError):
        read(str(tmp_path / ("a" * 300) / "x"))


@pytest.mark.parametrize("name", ODD)
def test_an_event_that_has_no_place_is_a_failure_in_words(name: str) -> None:
    """An exception would end the rollout."""
    assert outside.emit(["file:", name], "1").startswith(f"{name}: ")


def test_a_home_directory_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert named_paths.expand_named_path("~/x") == tmp_path / "x"
    assert named_paths.find_file_to_write("~/x", "gpufleet_awx_file") == tmp_path / "x"
