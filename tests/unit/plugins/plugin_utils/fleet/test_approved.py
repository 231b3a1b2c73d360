# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An approval binds one rollout, and what a plan does beyond it is named."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    approved,
    messages,
)


@pytest.mark.parametrize(
    ("value", "planned", "refused"),
    [
        ("a" * 64, "a" * 64, False),
        ("b" * 64, "a" * 64, True),
        ("", "a" * 64, True),
        ("b" * 64, "", False),
    ],
)
def test_an_approval_that_is_not_the_rollouts_own_is_refused(
    value: str, planned: str, refused: bool
) -> None:
    of_rollout = {"hosts": {"gpu1": {"approved": planned}}}
    if not refused:
        found = approved.parse_approval_in_rollout(of_rollout, "gpu1", value)
        assert found == approved.Approval(value)
        return
    with pytest.raises(PlanError) as caught:
        approved.parse_approval_in_rollout(of_rollout, "gpu1", value)
    assert caught.value.code == messages.OTHER_CHANGE.code


def test_only_what_the_plan_from_before_does_not_do_is_surplus() -> None:
    edit = {"do": "edit", "path": "/etc/a", "keys": [["k", True]]}
    other = {"do": "restart", "unit": "containerd.service"}
    assert [*approved.list_surplus_items({"bound": [edit, other]}, {"bound": [edit]})] == [other]
    assert [*approved.list_surplus_items({"bound": [edit]}, {})] == [edit]
    foreseen = {"differences": [{"path": "/etc/a", "key": "k", "after": True}]}
    assert [*approved.list_surplus_items({"bound": [edit]}, foreseen)] == []
    # an edit without its keys may do anything
    whole = {"do": "edit", "path": "/etc/a", "keys": []}
    assert [*approved.list_surplus_items({"bound": [whole]}, foreseen)] == [whole]
