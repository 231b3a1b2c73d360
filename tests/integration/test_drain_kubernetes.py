# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role drain with the real modules of kubernetes.core, against an API that answers as
Kubernetes' does.
"""

from __future__ import annotations

import copy
import dataclasses as dc
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration import kubernetes_api as api
from tests.night import leave_rest
from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import written
from tests.unit.tool_modules import imported

SETTINGS = {
    "gpufleet_drain": "always",
    "gpufleet_drain_by": ["kubernetes"],
    "gpufleet_drain_interval": 1,
    "gpufleet_drain_timeout": 120,
    "gpufleet_rollout_id": "r7",
}
BY_NIGHT = pytest.mark.nightly(
    "other tests of this file ask the same API by day; what follows from an answer is a table of unit tests"
)
MARKS = {
    "gpufleet.nvidia/rollout": "r7",
    "gpufleet.nvidia/hold": "cordon",
    "gpufleet.nvidia/why": "gpufleet_drain is always",
}


@dc.dataclass
class Lab:
    """A cluster with one node and a pod with a GPU on it, and the controller beside it."""

    place: Path
    cluster: api.Cluster
    server: api.Server
    python: Path
    collections: Path

    def play(
        self, *entries: str, check: bool = False, **variables: Any
    ) -> tuple[int, str, list[str]]:
        """Run the role's task files: exit status, words, outcomes."""
        own = {
            **SETTINGS,
            "gpufleet_kubernetes_kubeconfig": str(self.place / "kubeconfig"),
            **variables,
        }
        kept = {key: value for key, value in own.items() if value is not None}
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        controller = {**local, "ansible_python_interpreter": str(self.python)}
        fake = {"gpufleet_host_info": kept.pop("info", {"work": {}})}
        hosts = {"gpu1": {**local, **kept, **fake}, "localhost": controller}
        roles = [
            {"import_role": {"name": "gpufleet.nvidia.drain", "tasks_from": entry}}
            for entry in entries
        ]
        inventory = written(self.place / "hosts.yml", yaml.safe_dump({"all": {"hosts": hosts}}))
        book = written(
            self.place / "play.yml",
            yaml.safe_dump([{"hosts": "gpu1", "gather_facts": False, "tasks": roles}]),
        )
        paths = f"{os.environ.get('ANSIBLE_COLLECTIONS_PATH') or Path('.cache/collections').resolve()}:{self.collections}"
        flags = ["--check"] if check else []
        home = {"HOME": str(self.place), "ANSIBLE_COLLECTIONS_PATH": paths}
        status, words = bare.run(
            self.place, "ansible-playbook", "-i", inventory, book, "-v", *flags, **home
        )
        return status, words, re.findall(r'"outcome": "(\w+)"', words)

    @property
    def node(self) -> api.JSON:
        """The node without what every change of it counts up."""
        found = copy.deepcopy(self.cluster.nodes["gpu1"])
        del found["metadata"]["resourceVersion"]
        return found


@pytest.fixture(scope="module")
def tools() -> Iterator[tuple[Path, Path]]:
    for module in imported("kubernetes_core"):
        yield module.environments.ensure("kubernetes") / "python", module.ensure()


@pytest.fixture
def lab(tmp_path: Path, tools: tuple[Path, Path]) -> Iterator[Lab]:
    pods = {
        "train": api.pod("train", "gpu1", gpus=1),
        "web": api.pod("web", "gpu1"),
        "plugin": api.pod("plugin", "gpu1", owner="DaemonSet"),
    }
    cluster = api.Cluster({"gpu1": api.node("gpu1"), "gpu2": api.node("gpu2")}, pods)
    server = api.Server(cluster)
    written(tmp_path / "kubeconfig", yaml.safe_dump(server.kubeconfig))
    yield Lab(tmp_path, cluster, server, *tools)
    server.close()


def test_a_node_is_cordoned_with_its_mark_waited_for_and_given_back_as_it_was(lab: Lab) -> None:
    before = lab.node
    lab.cluster.ends = {"train": 2}
    status, words, outcomes = lab.play("check", "drain", "undrain")
    assert status == 0, words
    assert outcomes == ["ready", "drained", "in_service"]
    hold, release = lab.cluster.patches
    changes = [
        {step["path"]: step["value"] for step in patch if step["op"] == "add"}
        for patch in (hold, release)
    ]
    ttl = before["metadata"]["annotations"]
    assert changes[0] == {
        "/metadata/annotations": {**ttl, **MARKS},
        "/spec": {"unschedulable": True},
    }, "one patch holds and marks"
    assert changes[1] == {"/metadata/annotations": ttl, "/spec": {}}
    assert lab.node == before
    assert not any("eviction" in request for request in lab.cluster.requests)
    assert "web" in lab.cluster.pods, "a pod without GPUs is not waited for"


OWNERS = [
    (
        {"labels": {"nvidia.com/gpu-driver-upgrade-state": "drain-required"}},
        "the driver upgrade of the GPU Operator",
    ),
    (
        {"lock": "gpu1"},
        "kured is working on the node gpu1 (annotation weave.works/kured-node-lock of the DaemonSet kube-system/kured)",
    ),
    ({"labels": {"nvidia.com/mig.config.state": "success"}, "lock": "gpu2"}, ""),
]


@pytest.mark.parametrize(("marks", "owner"), leave_rest(BY_NIGHT, OWNERS, by_day=2))
@pytest.mark.parametrize("policy", ["always", pytest.param("auto", marks=BY_NIGHT)])
def test_a_node_in_other_hands_is_left_out_also_where_no_drain_is_needed(
    marks: dict[str, Any], owner: str, policy: str, lab: Lab
) -> None:
    lab.cluster.nodes["gpu1"]["metadata"]["labels"] = marks.get("labels") or {}
    if "lock" in marks:
        lock = {
            "weave.works/kured-node-lock": json.dumps(
                {"nodeID": marks["lock"], "created": "2026-11-22T10:00:00Z", "TTL": 0}
            )
        }
        metadata = {"namespace": "kube-system", "name": "kured", "annotations": lock}
        # by which kured sees that a host wants to reboot
        template = {"spec": {"volumes": [{"hostPath": {"path": "/var/run"}}]}}
        lab.cluster.daemon_sets = [
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": metadata,
                "spec": {"template": template},
            }
        ]
    lab.cluster.pods.pop("train")
    status, words, outcomes = lab.play("drain", gpufleet_drain=policy)
    assert status == (2 if owner else 0), words
    assert outcomes == [
        "left_out" if owner else {"always": "drained", "auto": "not_needed"}[policy]
    ]
    assert owner in words
    assert len(lab.cluster.changes()) == (outcomes == ["drained"])


@BY_NIGHT
def test_an_account_that_may_not_see_the_lock_of_kured_goes_on_and_says_so(lab: Lab) -> None:
    lab.cluster.forbidden = ("LIST daemonsets",)
    lab.cluster.pods.pop("train")
    status, words, outcomes = lab.play("drain")
    assert (status, outcomes) == (0, ["drained"]), words
    assert "the lock of kured was not read: cannot list the DaemonSets" in words


def test_where_hosts_are_never_drained_nobody_is_asked(lab: Lab) -> None:
    status, words, outcomes = lab.play("check", gpufleet_drain="never")
    assert (status, outcomes) == (0, ["not_needed"]), words
    assert lab.cluster.requests == []


@BY_NIGHT
def test_work_that_does_not_end_gets_the_node_back(lab: Lab) -> None:
    before = lab.node
    status, words, outcomes = lab.play("drain", gpufleet_drain_timeout=3)
    assert status == 2, words
    assert outcomes == ["left_out"]
    assert (
        "not drained within 3 s: kubernetes: 1 pod with GPUs (team/train). The node is in service again"
        in words
    )
    assert lab.node == before


@BY_NIGHT
def test_a_kept_node_is_taken_up_by_the_next_run_and_put_back_by_it(lab: Lab) -> None:
    before = lab.node
    status, words, outcomes = lab.play(
        "drain", gpufleet_drain_timeout=2, gpufleet_drain_on_timeout="keep"
    )
    assert (status, outcomes) == (2, ["pending"]), words
    del lab.cluster.pods["train"]
    status, words, outcomes = lab.play("drain", "undrain", gpufleet_drain="auto")
    assert (status, outcomes) == (0, ["drained", "in_service"]), words
    assert "an earlier run of this rollout has drained it" in words
    assert len(lab.cluster.patches) == 2, "it was held already"
    assert lab.node == before


@BY_NIGHT
def test_evictions_that_a_budget_refuses_are_tried_again(lab: Lab) -> None:
    lab.cluster.refused_evictions = 2
    status, words, outcomes = lab.play(
        "drain", gpufleet_drain_method="evict", gpufleet_drain_timeout=120
    )
    assert (status, outcomes) == (0, ["drained"]), words
    assert sorted(lab.cluster.pods) == ["plugin"], "a DaemonSet's pod stays"
    assert len([r for r in lab.cluster.requests if "eviction" in r]) == 4


def test_a_budget_that_never_allows_it_leaves_the_node_as_found(lab: Lab) -> None:
    before = lab.node
    lab.cluster.refused_evictions = 1000
    status, words, outcomes = lab.play(
        "drain", gpufleet_drain_method="evict", gpufleet_drain_timeout=4
    )
    assert (status, outcomes) == (2, ["left_out"]), words
    assert "would violate the pod's disruption budget" in words.replace("\\", "")
    assert lab.node == before
    assert "train" in lab.cluster.pods


REFUSED = [
    # what the account may not, which pods there are, the sentence
    ({"forbidden": ("CREATE pods/eviction",)}, {}, "cannot create resource"),
    ({}, {"alone": api.pod("alone", "gpu1", owner="")}, "gpufleet_kubernetes_force"),
    (
        {},
        {"scratch": api.pod("scratch", "gpu1", volumes=[{"name": "s", "emptyDir": {}}])},
        "cannot delete Pods with local storage: team/scratch",
    ),
]


@pytest.mark.parametrize(("settings", "pods", "sentence"), leave_rest(BY_NIGHT, REFUSED))
def test_a_refused_drain_leaves_the_node_as_found(
    settings: api.JSON, pods: dict[str, api.JSON], sentence: str, lab: Lab
) -> None:
    before = lab.node
    lab.cluster.pods.update(pods)
    lab.cluster.forbidden = settings.get("forbidden", ())
    status, words, outcomes = lab.play("drain", gpufleet_drain_method="evict")
    assert (status, outcomes) == (2, ["left_out"]), words
    assert sentence in words
    assert lab.node == before


def held_by(mark: str) -> api.JSON:
    node = api.node("gpu1")
    node["spec"]["unschedulable"] = True
    node["metadata"]["annotations"].update({"gpufleet.nvidia/rollout": mark} if mark else {})
    return node


OTHERS = [
    (held_by(""), "another person or program has cordoned the node gpu1 and has to uncordon it"),
    (held_by("r6"), "the node gpu1 is held by the rollout r6"),
    (api.node("gpu1", ready="Unknown"), "the node gpu1 is not Ready (NodeStatusUnknown)"),
]


@pytest.mark.parametrize(("node", "sentence"), leave_rest(BY_NIGHT, OTHERS))
def test_what_somebody_else_holds_or_what_is_broken_is_left_out_and_untouched(
    node: api.JSON, sentence: str, lab: Lab
) -> None:
    lab.cluster.nodes["gpu1"] = node
    for entry in ("check", "drain"):
        status, words, outcomes = lab.play(entry)
        assert (status, outcomes) == (2, ["left_out"]), words
        assert sentence in words
    lab.play("undrain", gpufleet_drain_timeout=1)
    assert lab.cluster.changes() == []


WRONG = [
    # what is wrong, the sentence, the setting that it names
    (
        {"gpufleet_kubernetes_kubeconfig": "/nowhere/kubeconfig"},
        "cannot read the node",
        "gpufleet_kubernetes_kubeconfig",
    ),
    (
        {"gpufleet_kubernetes_context": "prod"},
        "cannot read the node",
        "gpufleet_kubernetes_context",
    ),
    (
        {"gpufleet_kubernetes_node": "gpu99"},
        "there is no node gpu99 (the cluster has gpu[1-2])",
        "gpufleet_kubernetes_node",
    ),
    ({"forbidden": ("GET nodes",)}, "cannot get resource", "gpufleet_kubernetes_kubeconfig"),
    ({"forbidden": ("PATCH nodes",)}, "cannot patch resource", "gpufleet_kubernetes_kubeconfig"),
    (
        {"info": {"work": {"boot_id": "other"}}},
        "the node gpu1 is another machine than this host",
        "gpufleet_kubernetes_node",
    ),
]


@pytest.mark.parametrize(("wrong", "sentence", "setting"), leave_rest(BY_NIGHT, WRONG))
def test_wrong_settings_are_named_by_the_check_and_touch_nothing(
    wrong: dict[str, Any], sentence: str, setting: str, lab: Lab
) -> None:
    lab.cluster.nodes["gpu1"] = api.node("gpu1", boot_id="this")
    lab.cluster.forbidden = wrong.pop("forbidden", ())
    status, words, _outcomes = lab.play("check", "drain", **wrong)
    assert status == 2, words
    assert sentence in words
    assert setting in words
    assert "Take the host out of service" not in words
    assert lab.cluster.changes() == []


def test_an_api_that_does_not_answer_is_no_empty_cluster(lab: Lab) -> None:
    lab.server.close()
    status, words, _outcomes = lab.play("check")
    assert status == 2, words
    assert "the Kubernetes API does not answer" in words


NO_LISTS: dict[str, tuple[int, api.JSON]] = {
    "400": (400, api.status(400, "BadRequest", "field label not supported: spec.nodeName")),
    "a list without items": (
        200,
        {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": None},
    ),
}


@BY_NIGHT
@pytest.mark.parametrize("answer", NO_LISTS.values(), ids=NO_LISTS)
def test_an_answer_that_lists_no_pods_is_no_node_without_pods(
    answer: tuple[int, api.JSON], lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module k8s_info takes both for an empty list."""
    before = lab.node
    monkeypatch.setattr(lab.cluster, "_list", lambda *_: answer)
    status, words, outcomes = lab.play("drain")
    assert (status, outcomes) == (2, ["left_out"]), words
    assert "cannot list the node's pods" in words
    assert lab.node == before


@BY_NIGHT
def test_a_kubelet_that_reports_all_the_time_is_no_obstacle(lab: Lab) -> None:
    del lab.cluster.pods["train"]
    lab.cluster.reports = 1000
    status, words, outcomes = lab.play("drain")
    assert (status, outcomes) == (0, ["drained"]), words


@BY_NIGHT
def test_a_node_that_somebody_changes_meanwhile_is_read_and_judged_again(lab: Lab) -> None:
    del lab.cluster.pods["train"]
    lab.cluster.rivals = 2
    status, words, outcomes = lab.play("drain")
    assert (status, outcomes) == (0, ["drained"]), words
    assert lab.node["metadata"]["labels"] == {"rival": "1"}, "what somebody else has written stays"


@BY_NIGHT
def test_a_taint_instead_of_a_cordon_keeps_the_taints_of_others(lab: Lab) -> None:
    theirs = {"key": "team", "value": "a", "effect": "NoSchedule"}
    lab.cluster.nodes["gpu1"]["spec"]["taints"] = [theirs]
    del lab.cluster.pods["train"]
    before = lab.node
    status, words, _outcomes = lab.play("drain", gpufleet_kubernetes_hold="taint")
    assert status == 0, words
    assert lab.node["spec"] == {
        "taints": [
            theirs,
            {"key": "gpufleet.nvidia/rollout", "value": "r7", "effect": "NoSchedule"},
        ]
    }
    status, words, _outcomes = lab.play("undrain")
    assert status == 0, words
    assert lab.node == before


@BY_NIGHT
def test_a_broken_host_stays_cordoned_with_the_reason(lab: Lab) -> None:
    del lab.cluster.pods["train"]
    status, words, outcomes = lab.play(
        "drain", "keep", gpufleet_drain_reason="rolled back: no answer"
    )
    assert (status, outcomes) == (0, ["drained", "kept"]), words
    assert lab.node["spec"] == {"unschedulable": True}
    assert lab.node["metadata"]["annotations"]["gpufleet.nvidia/why"] == "rolled back: no answer"


def test_check_mode_asks_the_api_to_judge_and_changes_nothing(lab: Lab) -> None:
    before = lab.node
    status, words, outcomes = lab.play("drain", "undrain", check=True)
    assert (status, outcomes) == (0, ["drained", "in_service"]), words
    assert lab.node == before
    assert any("dryRun=All" in request for request in lab.cluster.requests)
    assert lab.cluster.changes() == []


@BY_NIGHT
def test_access_by_the_environment(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(lab.place / "kubeconfig"))
    status, words, outcomes = lab.play("check", gpufleet_kubernetes_kubeconfig=None)
    assert (status, outcomes) == (0, ["ready"]), words
    assert json.dumps(lab.cluster.changes()) == "[]"


def test_a_missing_collection_is_named(lab: Lab) -> None:
    lab.collections = lab.place
    status, words, _outcomes = lab.play("check")
    assert status == 2, words
    assert "the collection kubernetes.core is not installed" in words
