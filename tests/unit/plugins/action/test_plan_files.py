# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of rollouts as files of a directory that others use, too."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import (
    rollout_plan,
    rollout_settings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

PLAN = {"schema": 2, "changes": {}, "hosts": {}}


def test_a_plan_is_written_through_no_link_of_others(tmp_path: Path) -> None:
    """The name of the file on the way could be guessed, by the number of the process."""
    precious, plan = tmp_path / "precious", tmp_path / "plan.json"
    precious.write_text("kept")
    for guess in (f".plan.json.{os.getpid()}", "plan.json"):
        (tmp_path / guess).symlink_to(precious)
    rollout_plan.write_rollout_plan(str(plan), PLAN)
    assert precious.read_text() == "kept"
    assert not plan.is_symlink()
    assert rollout_settings.read_plan(str(plan)) == PLAN
    assert {p.name for p in tmp_path.iterdir()} == {
        "precious",
        "plan.json",
        f".plan.json.{os.getpid()}",
    }


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_a_plan_is_for_those_who_may_read_it_by_the_umask(
    umask: int, mode: int, tmp_path: Path
) -> None:
    before = os.umask(umask)
    try:
        rollout_plan.write_rollout_plan(str(tmp_path / "plan.json"), PLAN)
    finally:
        os.umask(before)
    assert (tmp_path / "plan.json").stat().st_mode & 0o777 == mode


def test_a_plan_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "plan.json").mkdir()
    with pytest.raises(PlanError, match="plan.json: this file cannot be written"):
        rollout_plan.write_rollout_plan(str(tmp_path / "plan.json"), PLAN)
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


def pipe(path: Path) -> None:
    os.mkfifo(path)


def everybodys(path: Path) -> None:
    path.write_text(json.dumps(PLAN))
    path.chmod(0o666)


def deep(path: Path) -> None:
    path.write_text("[" * 200000)


APPROVALS = [
    (pipe, "plan-not-a-file"),
    (Path.mkdir, "plan-unreadable"),
    (everybodys, "plan-writable"),
    (deep, "plan-not-json"),
    (lambda path: None, "plan-unreadable"),
    (lambda path: path.write_bytes(b"\xff"), "plan-not-json"),
]


@pytest.mark.parametrize(("made", "code"), APPROVALS)
def test_an_approval_that_is_none_is_refused(made: object, code: str, tmp_path: Path) -> None:
    assert callable(made)
    made(tmp_path / "plan.json")
    with pytest.raises(PlanError, match=rf"\[rollout-file.{code}\]$"):
        rollout_settings.read_plan(str(tmp_path / "plan.json"))


@pytest.mark.parametrize(
    ("mode", "accepted"),
    [(0o600, True), (0o644, True), (0o664, True), (0o666, False), (0o602, False)],
)
def test_an_approval_may_be_shared_with_a_group_and_not_with_everybody(
    mode: int, accepted: bool, tmp_path: Path
) -> None:
    """With the umask 0002 a plan is its group's as well from the beginning."""
    plan = tmp_path / "plan.json"
    rollout_plan.write_rollout_plan(str(plan), PLAN)
    plan.chmod(mode)
    with (
        contextlib.nullcontext()
        if accepted
        else pytest.raises(PlanError, match=r"\[rollout-file.plan-writable\]$")
    ):
        assert rollout_settings.read_plan(str(plan)) == PLAN


def test_a_home_that_is_nobodys_is_named() -> None:
    with pytest.raises(PlanError, match=r"\[file.no-such-home\]$"):
        rollout_settings.read_plan("~nobody-has-this-name/plan.json")
