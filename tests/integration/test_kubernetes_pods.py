# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods of a real Kubernetes on converged hosts: what was decided gives each its GPU and no other,
and what is shown beside it does not.

A device plugin that answers as NVIDIA's does is set to what was applied for the node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet.device_plugin import (
    SPEC,
)

from tests.integration.kube import Kube
from tests.integration.pods import opened
from tests.lab import device_plugin
from tests.tools.onlab import repository

pytestmark = pytest.mark.lab

BY_NIGHT = pytest.mark.nightly(
    "the decision is a table of unit tests; by day other pods show that the plugin and the engines obey it"
)
OURS, THEIRS = "nvidia.cdi.k8s.io/", "cdi.k8s.io/"
MOUNTS = "unresolvable CDI devices nvidia.com/gpu=/var/run/nvidia-container-devices"


@pytest.fixture(scope="module", autouse=True)
def applied(kube: Kube) -> None:
    """Each node has its label, which selects its file, and there is a RuntimeClass."""
    run = kube.apply()
    assert (run.status, run.failed) == (0, {}), run.words


DECIDED: dict[str, dict[str, Any]] = {
    "native": {"deviceListStrategy": ["cdi-cri"]},
    "fallback": {"deviceListStrategy": ["envvar", "cdi-annotations"], "cdiAnnotationPrefix": OURS},
    "crio": {"deviceListStrategy": ["cdi-cri"]},
}


def test_a_pod_gets_its_gpu_and_no_other_as_decided(kube: Kube) -> None:
    def tried(node: str) -> None:
        assert kube.said(node).items() >= DECIDED[node].items()
        kube.plugin(node)
        kube.alone(node)
        kube.alone(node, runtime_class="nvidia")

    kube.each(tried)


class Wrong(NamedTuple):
    """What a cluster says instead, and the sentence that the pod is refused with; '' where it runs
    without a GPU, and nothing says why.
    """

    what: str
    changed: dict[str, Any]
    sentence: str = ""
    runtime_class: str = ""


WRONG = {
    "native": [
        Wrong("the variable, without a RuntimeClass", {"deviceListStrategy": ["envvar"]}),
        Wrong(
            "the runtime's prefix",
            {"deviceListStrategy": ["cdi-annotations"], "cdiAnnotationPrefix": OURS},
        ),
        Wrong(
            "a hook that is not there",
            {"nvidiaCTKPath": "/opt/gone"},
            "fork/exec /opt/gone: no such file or directory",
        ),
        Wrong(
            "mounts that are not accepted",
            {"deviceListStrategy": ["volume-mounts"]},
            MOUNTS,
            "nvidia",
        ),
    ],
    "fallback": [
        Wrong("the field, to an engine without CDI", {"deviceListStrategy": ["cdi-cri"]}),
        Wrong(
            "the engines' prefix",
            {"deviceListStrategy": ["cdi-annotations"], "cdiAnnotationPrefix": THEIRS},
        ),
    ],
    "crio": [Wrong("the variable, without a RuntimeClass", {"deviceListStrategy": ["envvar"]})],
}


@BY_NIGHT
def test_a_wrong_strategy_gives_no_gpu(kube: Kube) -> None:
    def tried(node: str) -> None:
        for case in WRONG[node]:
            kube.plugin(node, **case.changed)
            found = kube.pods.run(node, runtime_class=case.runtime_class)
            assert case.sentence in found.refused, case
            assert case.sentence or opened(found) == set(), case

    kube.each(tried)


@BY_NIGHT
def test_a_chart_that_sets_the_strategy_for_all_nodes_overrules_their_files(kube: Kube) -> None:
    kube.plugin("native", {"DEVICE_LIST_STRATEGY": "envvar"})
    assert opened(kube.pods.run("native")) == set()


def test_strategies_in_one_text_are_none_in_the_plugins_file(kube: Kube) -> None:
    text = yaml.safe_dump(
        {"version": "v1", "flags": {"plugin": {"deviceListStrategy": "envvar,cdi-annotations"}}}
    )
    done = kube.fleet.lab.exec(
        "native", [device_plugin.PROGRAM, "--config-file=/dev/stdin"], stdin=text
    )
    assert done.returncode == 1
    assert "invalid strategy: envvar,cdi-annotations" in done.stderr


ONE_FOR_A_CONTAINER = "maximum request size for shared resources is 1; found 2"
FULL = "requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0"


def test_a_gpu_is_shared_by_as_many_pods_as_the_policy_of_its_node_says(kube: Kube) -> None:
    """Each of two GPUs twice: four pods run at the same time, and there is nothing for a fifth.
    Without the policy it is two.
    """
    gpus = [gpu.uuid for gpu in kube.fleet.lab.host("native").spec.gpus.gpus]
    policy = {"time_slicing": {"replicas": 2, "fail_requests_greater_than_one": True}}
    alone = held(kube, 3)
    assert sorted(alone.given) == sorted(gpus)
    assert FULL in alone.refused
    run = kube.apply(nodes=["native"], gpufleet_sharing=dict.fromkeys(gpus, policy))
    assert (run.status, run.failed) == (0, {}), run.words
    both = held(kube, 5)
    assert sorted(both.given) == sorted([*gpus, *gpus])
    assert FULL in both.refused
    name, sentence = kube.pods.kept("native", device_plugin.RESOURCE, 2)
    kube.pods.end(name)
    assert ONE_FOR_A_CONTAINER in sentence
    kube.apply(nodes=["native"])  # the tests that follow have each GPU once


@BY_NIGHT
def test_a_shared_gpu_has_a_name_of_its_own_where_that_is_wanted(kube: Kube) -> None:
    """The example of two GPUs under the plugin's other name, and what a node has without the policy
    again.
    """
    policy = {"time_slicing": {"replicas": 2, "rename_by_default": True}}
    uuids = [gpu.uuid for gpu in kube.fleet.lab.host("native").spec.gpus.gpus]
    kube.apply(nodes=["native"], gpufleet_sharing=dict.fromkeys(uuids, policy))
    kube.plugin("native")
    allocatable = kube.cluster.get("node", "native")["status"]["allocatable"]
    assert (allocatable[device_plugin.SHARED], allocatable[device_plugin.RESOURCE]) == ("4", "0")
    kube.apply(nodes=["native"])
    kube.plugin("native")
    kube.alone("native")


class Held(NamedTuple):
    given: list[str]
    refused: str


def held(kube: Kube, number: int) -> Held:
    """Pods with a GPU each at the same time, with the node's file: whose GPUs those are that run,
    and why the last one does not.
    """
    kube.plugin("native")
    given, names, sentence = [], [], ""
    for _turn in range(number):
        name, sentence = kube.pods.kept("native", device_plugin.RESOURCE)
        names.append(name)
        given += [] if sentence else list(device_plugin.given(kube.cluster, "native"))
    kube.pods.end(*names)
    return Held(given, sentence)


UNKNOWN = {
    "native": 'no runtime for "bogus" is configured',
    "fallback": 'no runtime for "bogus" is configured',
    "crio": "failed to find runtime handler bogus",
}


def test_an_unknown_handler_is_named_in_an_event(kube: Kube) -> None:
    kube.cluster.apply(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "bogus"},
            "handler": "bogus",
        }
    )
    said = kube.each(lambda node: kube.pods.run(node, gpus=0, runtime_class="bogus").refused)
    assert all(sentence in said[node] for node, sentence in UNKNOWN.items()), said


@BY_NIGHT
def test_where_the_plugin_asks_by_cdi_management_containers_get_all_gpus_and_others_none(
    kube: Kube,
) -> None:
    """The plugin's spec is what the next run sees of it: isolation becomes strict, and pods with
    GPUs keep working.
    """
    kube.plugin("native")
    run = kube.site()
    assert run.of("host")["native"]["decision"]["isolation"] == "strict"
    every: dict[str, Any] = {
        "gpus": 0,
        "runtime_class": "nvidia",
        "env": {"NVIDIA_VISIBLE_DEVICES": "all"},
    }
    assert opened(kube.pods.run("native", privileged=True, **every)) == {
        "/dev/nvidia0",
        "/dev/nvidia1",
    }
    assert opened(kube.pods.run("native", **every)) == set()
    kube.alone("native")


@BY_NIGHT
def test_a_spec_that_the_plugin_has_left_behind_counts_no_more(kube: Kube) -> None:
    """It never removes its spec. Two starts that far apart are made by the spec's time: the plugin
    has served for ten minutes before.
    """

    def known() -> tuple[Any, ...]:
        decision = kube.fleet.task("host_info", ["native"]).of("host_info")["native"]["decision"]
        return decision["plugin_source"], decision["plugin_strategies"], decision["isolation"]

    by_cdi = ("seen", ["cdi-cri", "cdi-annotations"], "strict")
    kube.plugin("native")
    assert known() == by_cdi
    kube.fleet.shell("native", f"touch -d '10 minutes ago' {SPEC}")
    kube.plugin("native", deviceListStrategy=["envvar"])
    assert known() == ("default", ["envvar"], "compatible")
    kube.plugin("native")
    assert known() == by_cdi


# what pods have to name where nvidia is not the default handler
CLASS = {
    "native": "nvidia",
    "fallback": "",
    "crio": "nvidia",
}


@BY_NIGHT
def test_a_declared_strategy_is_served_or_refused_by_name(kube: Kube) -> None:
    refused = kube.fleet.play(
        "site",
        ["fallback"],
        variables={**repository(), "gpufleet_device_plugin_strategy": ["cdi-cri"]},
    )
    assert "[kubernetes.strategy-unanswered-with-kubelet]" in " ".join(refused.words.split())
    run = kube.site(gpufleet_device_plugin_strategy=["volume-mounts"])
    assert "[kubernetes.pods-need-runtime-class]" in str(run.of("host")["native"]["advice"])

    def tried(node: str) -> None:
        kube.plugin(node, deviceListStrategy=["volume-mounts"])
        kube.alone(node, runtime_class=CLASS[node])

    kube.each(tried)


# As the GPU Operator sets them with CDI on.
OPERATOR = {
    "DEVICE_LIST_STRATEGY": "cdi-annotations,cdi-cri",
    "CDI_ANNOTATION_PREFIX": THEIRS,
    "PASS_DEVICE_SPECS": "true",
}


@BY_NIGHT
def test_what_the_gpu_operator_sets_for_all_nodes_serves_each_that_is_made_to_fit(
    kube: Kube,
) -> None:
    """The old engine's runtime answers the engines' prefix, too. Elsewhere the field and the
    annotation name the same device.
    """
    kube.site(
        gpufleet_device_plugin_strategy=["cdi-annotations", "cdi-cri"],
        gpufleet_device_plugin_prefix=THEIRS,
    )

    def tried(node: str) -> None:
        kube.plugin(node, OPERATOR)
        kube.alone(node)
        kube.alone(node, runtime_class="nvidia")

    kube.each(tried)


def test_without_cdi_the_hook_gets_the_gpu_of_the_pod(kube: Kube) -> None:
    run = kube.site(gpufleet_cdi="disabled")

    def tried(node: str) -> None:
        (decision,) = run.of("host")[node]["decision"]["decisions"]
        assert decision["device_list_strategy"] == ["envvar"]
        kube.plugin(node, deviceListStrategy=["envvar"])
        assert opened(kube.pods.run(node)) == set(), (
            "the lab's nvidia-container-cli writes down what it is asked for"
        )
        assert kube.pods.recorded(node) == device_plugin.given(kube.cluster, node)

    kube.each(tried)
    # What containerd 2.3 resolves by itself does not depend on the NVIDIA runtime.
    kube.plugin("native", deviceListStrategy=["cdi-cri"])
    kube.alone("native")
