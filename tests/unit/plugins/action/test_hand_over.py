# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hand-over says of a node before anything is done with it, in check mode and without."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import (
    hand_over as action_hand_over,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    drain_kubernetes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.objects import (
    TOOLKIT_LABEL,
)

TOOLKIT = {
    "spec": {"template": {"spec": {"containers": [{"securityContext": {"privileged": True}}]}}}
}
LABELS, ROLLOUT = (
    {
        "false": f"labels:\n  {TOOLKIT_LABEL}: 'false'\n",
        "true": f"labels:\n  {TOOLKIT_LABEL}: 'true'\n",
        "": "",
    },
    "r7",
)


class Played:
    """The API of a cluster with one node and the operator's toolkit, that has no pod there. It is
    asked, and never changed.
    """

    def __init__(self, label: str, **annotations: str) -> None:
        labels = {"labels": {TOOLKIT_LABEL: label}} if label else {}
        spec = {"unschedulable": True} if annotations else {}
        self.there = {
            "metadata": {"name": "gpu1", "annotations": annotations, **labels},
            "spec": spec,
        }

    def get_node(self, _name: str) -> dict[str, Any]:
        return self.there

    def list_pods(self, _name: str, _selector: str) -> list[dict[str, Any]]:
        return []

    def list_daemon_sets(self, _selector: str) -> list[dict[str, Any]]:
        return [TOOLKIT]


def checked(api: Played, to: str, *, check: bool = True) -> dict[str, Any]:
    args = {"to": to, "point": "check", "rollout": ROLLOUT}
    converged = {"decision": {"decisions": [{"engine": "containerd"}]}, "differences": []}
    return action_hand_over.Step(api, args, "gpu1", converged, check).run()  # type: ignore[arg-type]


WAYS = [
    # the label, where the node has to go
    ("true", "collection"),
    ("", "collection"),
    ("false", "operator"),
]


@pytest.mark.parametrize(("label", "to"), WAYS)
def test_in_check_mode_the_steps_are_said_and_the_label_is_shown(label: str, to: str) -> None:
    found = checked(Played(label), to)
    assert (found["needed"], found["changed"]) == (True, True)
    assert f"[hand-over.to-{to}]" in found["msg"]
    after = LABELS["false" if to == "collection" else "true"]
    assert found["diff"] == [
        {
            "before_header": "Node gpu1",
            "after_header": "Node gpu1",
            "before": LABELS[label],
            "after": after,
        }
    ]


@pytest.mark.parametrize(
    ("label", "to", "check"),
    [("false", "collection", True), ("true", "state", True), ("true", "collection", False)],
)
def test_nothing_is_announced_that_no_later_task_does_and_nothing_that_it_says_itself(
    label: str, to: str, check: bool
) -> None:
    found = checked(Played(label), to, check=check)
    assert (found["needed"], found["changed"], "diff" in found) == (not check, False, False)
    assert "[hand-over.to-" not in found["msg"]


@pytest.mark.parametrize(("holder", "held"), [(ROLLOUT, True), ("another", False)])
def test_only_a_node_that_this_rollout_holds_is_handed_over_once_more(
    holder: str, held: bool
) -> None:
    marks = {
        drain_kubernetes.ROLLOUT: holder,
        drain_kubernetes.HELD: "cordon",
        drain_kubernetes.WHY: "a disk is full",
    }
    found = checked(Played("false", **marks), "collection")
    assert found["needed"] is held
    assert ("[hand-over.node-held-for]" in found["described"]) is held
