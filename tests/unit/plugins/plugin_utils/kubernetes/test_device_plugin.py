# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the device plugin of a cluster asks by, what follows for the host, and how the proof asks."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import decide, decision_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.kubernetes import device_plugin
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.kubernetes.device_plugin import SPEC
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import HostDecision, Kubelet, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.verify import cases

from tests.unit.builders import obs
from tests.unit.records import ONE_GPU, instance

KUBELET = Kubelet(True, "1.31.2", "unix:///run/containerd/containerd.sock")
NONE = Kubelet()
PROGRAM = "/usr/bin/nvidia-device-plugin"


def process(*argv: str, **environment: str) -> dict[str, Any]:
    return {"pid": 77, "exe": PROGRAM, "argv": ["nvidia-device-plugin", *argv], "environment": environment}


# What is there -> (strategies, how they are known, isolation of a host with containerd 2.3)
SEEN: dict[str, tuple[Kubelet, tuple[str, ...], dict[str, Any], tuple[str, ...], str, str]] = {
    "no kubelet": (NONE, (), {}, (), "", "strict"),
    "a kubelet, and nothing else is known": (KUBELET, (), {}, ("envvar",), "default", "compatible"),
    "an image of a node, whose kubelet does not run": (Kubelet(installed=True), (), {}, ("envvar",), "default", "compatible"),
    "declared": (KUBELET, ("cdi-cri",), {}, ("cdi-cri",), "declared", "strict"),
    "declared, and by the variable": (KUBELET, ("envvar",), {}, ("envvar",), "declared", "compatible"),
    "declared by mounts": (KUBELET, ("volume-mounts",), {}, ("volume-mounts",), "declared", "strict"),
    "declared by mounts, which take the variable's place": (
        KUBELET, ("envvar", "volume-mounts"), {}, ("envvar", "volume-mounts"), "declared", "strict"),
    "the plugin's own spec": (KUBELET, (), {"files": {SPEC: ""}}, ("cdi-cri", "cdi-annotations"), "seen", "strict"),
    "a spec of somebody else's": (KUBELET, (), {"files": {SPEC: {"content": "", "uid": 1000}}}, ("envvar",), "default", "compatible"),
    "a spec that others may write": (KUBELET, (), {"files": {SPEC: {"content": "", "mode": 0o666}}}, ("envvar",), "default", "compatible"),
    "its environment": (
        KUBELET, (), {"processes": [process(DEVICE_LIST_STRATEGY="cdi-annotations,cdi-cri")]},
        ("cdi-annotations", "cdi-cri"), "seen", "strict"),
    "a process that nothing vouches for": (
        KUBELET, (), {"processes": [{**process(DEVICE_LIST_STRATEGY="cdi-cri"), "verified": False}]}, ("envvar",), "default", "compatible"),
    "its flag ranks first": (
        KUBELET, (), {"processes": [process("--device-list-strategy=envvar", DEVICE_LIST_STRATEGY="cdi-cri")]},
        ("envvar",), "seen", "compatible"),
    "a flag in two words": (KUBELET, (), {"processes": [process("--device-list-strategy", "cdi-cri")]}, ("cdi-cri",), "seen", "strict"),
    "a value that is none": (
        KUBELET, (), {"processes": [process(DEVICE_LIST_STRATEGY="anything")]}, ("envvar",), "default", "compatible"),
    "both ways": (
        KUBELET, (), {"processes": [process(DEVICE_LIST_STRATEGY="envvar,cdi-cri")]}, ("envvar", "cdi-cri"), "seen", "strict"),
    "what is declared ranks above what is seen": (
        KUBELET, ("envvar",), {"files": {SPEC: ""}}, ("envvar",), "declared", "compatible"),
}  # fmt: skip


def decided(kubelet: Kubelet, seen: Any, *engines: Any, **options: Any) -> HostDecision:
    policy = Policy(**options)
    plugin = device_plugin.strategies(policy, seen, kubelet)
    return decide.decide(policy, engines or (instance(),), ONE_GPU, kubelet, plugin=plugin)


@pytest.mark.parametrize(("kubelet", "declared", "there", "names", "source", "isolation"), SEEN.values(), ids=SEEN)
def test_what_pods_ask_by_decides_whether_the_variable_counts(
    kubelet: Kubelet, declared: tuple[str, ...], there: dict[str, Any], names: tuple[str, ...], source: str, isolation: str
) -> None:
    record = decided(kubelet, obs(**{"processes": [], **there}), device_plugin_strategy=declared)
    assert (record.plugin_strategies, record.plugin_source, record.isolation) == (names, source, isolation)
    assert decision_file.record(record, ONE_GPU)["device_plugin"] == {"strategies": list(names), "source": source}


def test_the_reason_names_its_evidence() -> None:
    found = next(r for r in decided(KUBELET, obs(processes=[])).reasons if r.what == "isolation")
    assert "uses NVIDIA_VISIBLE_DEVICES unless it is configured otherwise" in found.why
    assert found.evidence == "a kubelet runs here, and device_plugin_strategy is not set"


@pytest.mark.parametrize(
    ("options", "engines", "says"),
    [
        ({}, (instance(),), "deviceListStrategy: cdi-cri in the plugin's chart (DEVICE_LIST_STRATEGY=cdi-cri)"),
        ({}, (instance(),), "and device_plugin_strategy: [cdi-cri] here, it would be strict"),
        ({}, (instance("crio", "1.26.0", cdi=dc.replace(instance().cdi, cri_field=False)),), "deviceListStrategy: cdi-annotations"),
        ({"isolation": "strict"}, (instance(),), "gives no pod a GPU. Set deviceListStrategy: cdi-cri"),
        ({"device_plugin_strategy": ("envvar",)}, (instance(),), "pods get a GPU with runtimeClassName: nvidia only"),
        ({"device_plugin_strategy": ("volume-mounts",)}, (instance(),), "device_plugin_strategy is [volume-mounts], which only the NVIDIA"),
        ({"device_plugin_strategy": ("envvar", "cdi-cri")}, (instance(),), ""),
        ({"device_plugin_strategy": ("envvar",)}, (instance(version="1.6.20"),), ""),
        ({}, (instance(version="1.6.20"),), ""),  # the default handler: the plugin's default works with it as it is
    ],
)
def test_the_advice_names_the_setting_of_the_plugin(options: dict[str, Any], engines: tuple[Any, ...], says: str) -> None:
    advice = device_plugin.advise(Policy(**options), decided(KUBELET, obs(processes=[]), *engines, **options)).advice
    assert [says in sentence for sentence in advice] == ([True] if says else [])


PROOFS = {
    # strategies as declared, isolation asked for -> the case that asks as the plugin does
    "no kubelet": (NONE, {}, None),
    "the plugin's default": (KUBELET, {}, {"NVIDIA_VISIBLE_DEVICES": "GPU-0"}),
    "forced strict": (KUBELET, {"isolation": "strict"}, None),
    "declared": (KUBELET, {"device_plugin_strategy": ("envvar",)}, {"NVIDIA_VISIBLE_DEVICES": "GPU-0"}),
    "by mounts": (
        KUBELET, {"device_plugin_strategy": ("volume-mounts",)}, {"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"}),
    "by CDI": (KUBELET, {"device_plugin_strategy": ("cdi-cri",)}, None),
}  # fmt: skip


@pytest.mark.parametrize(("kubelet", "options", "variable"), PROOFS.values(), ids=PROOFS)
def test_the_proof_asks_as_the_plugin_asks(kubelet: Kubelet, options: dict[str, Any], variable: dict[str, str] | None) -> None:
    record = decided(kubelet, obs(processes=[]), **options)
    found = [c for c in cases.cases(record, (instance(),), ONE_GPU, image="lab/busybox:1") if c["name"] == "containerd: plugin"]
    assert [(c["handler"], c["env"], "capabilities" in c) for c in found] == ([("nvidia", variable, False)] if variable else [])
