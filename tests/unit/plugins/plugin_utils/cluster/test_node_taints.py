# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The taints of nodes: those of others stay, ours are known by a note, and none is lost sight of
where somebody else was faster.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    live,
    node_taints,
    objects,
)

from tests.unit.cluster_hosts import hosts, native, rendered
from tests.unit.cluster_objects import doing, empty, made, node

SETTINGS = objects.ClusterSettings()
TAINT = "nvidia.com/gpu=present:NoSchedule"


def test_a_taint_is_added_to_those_of_others_and_only_ours_is_taken_away() -> None:
    others = {"key": "team", "value": "ml", "effect": "NoExecute"}
    mine = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    there = node("gpu1")
    there["spec"] = {"taints": [others]}
    plan = live.plan_cluster(
        rendered({"gpu1": native()}, taints=(TAINT,)), empty(nodes={"gpu1": there}), SETTINGS
    )
    assert [c.arguments["patch"] for c in plan.calls if c.module == "k8s_json_patch"] == [
        [
            {"op": "test", "path": "/spec/taints", "value": [others]},
            {"op": "add", "path": "/spec/taints", "value": [others, mine]},
        ]
    ]
    noted = made(
        {
            **there,
            "metadata": {**plan.calls[2].arguments["resource_definition"][0]["metadata"]},
            "spec": {"taints": [others, mine]},
        }
    )
    gone = live.plan_cluster_removal(
        empty(nodes={"gpu1": noted}, config_map=config_map(TAINT)),
        [],
        hosts({"gpu1": native()}),
        SETTINGS,
    )
    removed = "remove the ConfigMap nvidia-device-plugin/gpufleet-device-plugin"
    assert doing(gone) == ["taint the node gpu1", "take the labels from the nodes", removed]
    assert gone.calls[0].arguments["patch"][1]["value"] == [others]


def config_map(*taints: str) -> dict[str, Any]:
    """As a run with these taints has left it."""
    wanted = rendered({"gpu1": native()}, taints=taints).config_map
    assert wanted is not None
    return made(wanted)


@pytest.mark.parametrize(("value", "said"), [("true", True), ("present", False)])
def test_a_taint_of_somebody_else_in_the_place_of_our_own_is_said(value: str, said: bool) -> None:
    """A node has one of a key and an effect, and pods that tolerate the other value are kept out."""
    theirs = {"key": "nvidia.com/gpu", "value": value, "effect": "NoSchedule"}
    plan = live.plan_cluster(
        rendered({"gpu1": native()}, taints=(TAINT,)),
        empty(nodes={"gpu1": {**node("gpu1"), "spec": {"taints": [theirs]}}}),
        SETTINGS,
    )
    sentence = (
        "the node gpu1 has the taint nvidia.com/gpu=true:NoSchedule from another program. It stays, so "
        f"{TAINT} of gpufleet_kubernetes_taints is not set there"
    )
    assert list(plan.said) == ([sentence] if said else [])
    assert "taint the node gpu1" not in doing(plan)


def test_a_taint_is_planned_again_where_a_controller_was_faster() -> None:
    """The cluster's own controllers change the taints of nodes at any time, and their list is
    patched as a whole.
    """
    plan = live.plan_cluster(rendered({"gpu1": native()}, taints=(TAINT,)), empty("gpu1"), SETTINGS)
    (call,) = (c for c in plan.calls if c.again)
    theirs = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    now = node("gpu1")
    now["spec"] = {"taints": [theirs]}
    assert call.again is not None
    (following,) = call.again(now)
    assert following.arguments["patch"][0]["value"] == [theirs]
    assert [t["key"] for t in following.arguments["patch"][1]["value"]] == [
        "node.kubernetes.io/unreachable",
        "nvidia.com/gpu",
    ]


def tainted(*taints: str, more: Any = (), **spec: Any) -> dict[str, Any]:
    """A node as a run with these taints has left it, and with those of others."""
    wanted = rendered({"gpu1": native()}, taints=taints)
    (noted, _first, _last) = node_taints.add_taints(
        wanted.nodes[0], node("gpu1"), wanted.taints, ()
    )
    there = made({**node("gpu1"), "metadata": {**noted["metadata"], "uid": "uid-gpu1"}})
    return {**there, "spec": {"taints": [*more, *wanted.taints], **spec}}


def taint_calls(
    wanted: tuple[str, ...], there: dict[str, Any], before: tuple[str, ...]
) -> list[tuple[str, Any]]:
    """What is done with a node and with the ConfigMap's note, in its order; of a patch the values
    that the node then has.
    """
    new = rendered({"gpu1": native()}, taints=wanted)
    calls = live.plan_cluster(
        new, empty(nodes={"gpu1": there}, config_map=config_map(*before)), SETTINGS
    ).calls
    return [done(call) for call in calls if "node" in call.doing or "ConfigMap" in call.doing]


def done(call: Any) -> tuple[str, Any]:
    if "patch" in call.arguments:
        return "patch", [t.get("value") for t in call.arguments["patch"][1]["value"] or ()]
    (thing,) = call.arguments["resource_definition"]
    note = (thing["metadata"].get("annotations") or {}).get(objects.TAINTS, "[]")
    return thing["kind"], [t["value"] for t in json.loads(note)]


THEIRS = {"key": "team", "value": "ml", "effect": "NoExecute"}
TAINTS: dict[str, tuple[tuple[str, ...], tuple[str, ...], list[tuple[str, Any]]]] = {
    # taints before, taints wanted, what is done: the values of the taints, and those of the notes
    "another value, in one step": (
        ("a=old:NoSchedule",),
        ("a=new:NoSchedule",),
        [
            ("ConfigMap", ["new", "old"]),
            ("Node", ["new"]),
            ("patch", ["ml", "new"]),
            ("ConfigMap", ["new"]),
        ],
    ),
    "what goes, before its notes do": (
        ("a=old:NoSchedule",),
        (),
        [("patch", ["ml"]), ("Node", []), ("ConfigMap", [])],
    ),
    "what comes, after its notes": (
        (),
        ("a=new:NoSchedule",),
        [("ConfigMap", ["new"]), ("Node", ["new"]), ("patch", ["ml", "new"])],
    ),
    "one goes, and one comes": (
        ("a=old:NoSchedule",),
        ("b=new:NoSchedule",),
        [
            ("ConfigMap", ["new", "old"]),
            ("patch", ["ml"]),
            ("Node", ["new"]),
            ("patch", ["ml", "new"]),
            ("ConfigMap", ["new"]),
        ],
    ),
    "the same": (("a=old:NoSchedule",), ("a=old:NoSchedule",), []),
}


@pytest.mark.parametrize("case", TAINTS)
def test_taints_are_changed_so_that_none_is_lost_sight_of(case: str) -> None:
    before, wanted, calls = TAINTS[case]
    assert taint_calls(wanted, tainted(*before, more=(THEIRS,)), before) == calls


def test_a_taint_stays_noted_for_as_long_as_a_node_of_which_nothing_is_known_has_it() -> None:
    there = tainted("a=old:NoSchedule")
    other = {**there, "metadata": {**there["metadata"], "name": "gpu2", "uid": "uid-gpu2"}}
    before = empty(nodes={"gpu1": there, "gpu2": other}, config_map=config_map("a=old:NoSchedule"))
    calls = live.plan_cluster(rendered({"gpu1": native()}), before, SETTINGS).calls
    assert [done(call)[0] for call in calls if "RuntimeClass" not in call.doing] == [
        "patch",
        "Node",
    ]


def test_taints_are_taken_back_that_a_config_map_of_another_name_notes() -> None:
    """gpufleet_kubernetes_config_map, the namespace or the profile was another one when they were
    set.
    """
    old = config_map("a=old:NoSchedule")
    old["metadata"]["name"] = "another"
    plan = live.plan_cluster_removal(
        empty(nodes={"gpu1": tainted("a=old:NoSchedule")}),
        [old],
        hosts({"gpu1": native()}),
        SETTINGS,
    )
    assert doing(plan) == [
        "taint the node gpu1",
        "take the labels from the nodes",
        "remove the ConfigMap nvidia-device-plugin/another",
    ]
    assert plan.said == ()


FORGED = [
    # what the node's own note says, what the ConfigMap notes, what is wanted, whether the admin's
    # taint team=ml:NoExecute stays
    ("of the admin's", [THEIRS], (), (), True),
    ("of the admin's, where others are noted", [THEIRS], ("a=old:NoSchedule",), (), True),
    ("of one of its key", [{**THEIRS, "value": "other"}], (), ("team=new:NoExecute",), True),
    (
        "of one of its key, with a value for those who run what they read",
        [{**THEIRS, "value": "$(id)"}],
        (),
        (),
        True,
    ),
    ("true", [THEIRS], ("team=ml:NoExecute",), (), False),
    ("that is no list", {"team": "ml"}, (), (), True),
]


@pytest.mark.parametrize(
    ("note", "noted", "wanted", "stays"),
    [case[1:] for case in FORGED],
    ids=[case[0] for case in FORGED],
)
def test_root_of_a_node_has_no_taint_of_its_node_removed(
    note: Any, noted: tuple[str, ...], wanted: tuple[str, ...], stays: bool
) -> None:
    """A kubelet may write what it likes into its own node's annotations, as whatever field manager."""
    there = tainted()
    there["metadata"]["annotations"][objects.TAINTS] = json.dumps(note)
    there = {**made(there), "spec": {"taints": [THEIRS]}}
    now = empty(nodes={"gpu1": there}, config_map=config_map(*noted))
    plans = [
        live.plan_cluster(rendered({"gpu1": native()}, taints=wanted), now, SETTINGS),
        live.plan_cluster_removal(
            now, [], hosts({"gpu1": native()}), objects.ClusterSettings(taints=wanted)
        ),
    ]
    for plan in plans:
        patches = [done(call)[1] for call in plan.calls if "patch" in call.arguments]
        assert all(("ml" in values) is stays for values in patches)
        assert bool(patches) is not stays
        doubted = [
            text for text in plan.said if "`kubectl taint node gpu1 team:NoExecute-`" in text
        ]
        assert bool(doubted) is (isinstance(note, list) and stays), plan.said
        assert not any("$(id)" in text for text in plan.said)


def test_a_taint_that_goes_is_known_as_ours_where_a_controller_was_faster() -> None:
    there = tainted("a=old:NoSchedule")
    before = empty(nodes={"gpu1": there}, config_map=config_map("a=old:NoSchedule"))
    (call,) = (
        c
        for c in live.plan_cluster(rendered({"gpu1": native()}), before, SETTINGS).calls
        if c.again
    )
    # and the note is gone
    now = {
        **there,
        "metadata": node("gpu1")["metadata"],
        "spec": {"taints": [*there["spec"]["taints"], THEIRS]},
    }
    assert call.again is not None
    (following,) = call.again(now)
    assert following.arguments["patch"][1]["value"] == [THEIRS]
