# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVIDIA's DRA driver needs of a host, and who says that it is wanted."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.kubernetes import dra
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Cdi, Driver, Evidence, Instance, Kubelet, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import file_places

from tests.unit.builders import obs
from tests.unit.records import ONE_GPU, instance

CONFIG = "/var/lib/kubelet/config.yaml"
KUBELET = "a kubelet with dynamic resource allocation"
CDI = "an engine that resolves CDI devices"
FIELD = "an engine that takes CDI devices from the kubelet"
SPECS = "CDI specs of the DRA driver in /var/run/cdi"
DEFAULT = "containers without a claim get no GPU"
DRIVER = "NVIDIA's driver 565 or later"
EVERY = (KUBELET, CDI, FIELD, SPECS, DEFAULT, DRIVER)
OFF = Cdi(True, False, ("/etc/cdi", "/var/run/cdi"), "1.0.0", Evidence("cri-status", "enableCDI=false"))
OLD_OFF = dc.replace(OFF, cri_field=False)


def engine(version: str = "2.3.7", **more: Any) -> Instance:
    return instance(more.pop("name", "containerd"), version, used_by_kubelet=True, **more)


def found(
    *engines: Instance, release: str = "1.34.2", flags: tuple[str, ...] = (), text: str | None = "", after: bool = True, **options: Any
) -> dra.Dra:
    driver = options.pop("driver", ONE_GPU)
    kubelet = options.pop("kubelet", Kubelet(True, release, "unix:///run/containerd/containerd.sock"))
    policy = Policy(**{"dra": True, **options})
    argv = ["kubelet", f"--config={CONFIG}", *flags]
    seen = obs(
        files={} if text is None else {CONFIG: file_places.shown(text or "a: b\n", file_places.KUBELET_CONFIG)},
        processes=[{"pid": 9, "exe": "/usr/bin/kubelet", "argv": argv}],
    )
    every = engines or (engine(),)
    return dra.of(policy, seen, decide.decide(policy, every, driver, kubelet), every, driver, kubelet, after=after)


GATES = {word: f"featureGates:\n  DynamicResourceAllocation: {word}\n" for word in ("true", "false")}
ON, SWITCHED_OFF = "--feature-gates=A=true,DynamicResourceAllocation=true", "--feature-gates=DynamicResourceAllocation=false"
# A kubelet -> whether it serves claims, and why.
KUBELETS: dict[str, tuple[dict[str, Any], bool | None, str]] = {
    "on by default from 1.34": ({}, True, "the feature gate DynamicResourceAllocation of kubelet 1.34.2 is on by default"),
    "switched off by a file": ({"text": GATES["false"]}, False, "kubelet 1.34.2 is off. Set featureGates.DynamicResourceAllocation: true"),
    "switched off by a flag": ({"flags": (SWITCHED_OFF,), "text": GATES["true"]}, False, "kubelet 1.34.2 is off. Set"),
    "nobody can switch it off from 1.35": ({"release": "1.35.0", "text": GATES["false"]}, True, "kubelet 1.35.0 always has it"),
    "off by default before": ({"release": "1.33.4"}, False, "is off by default. Set featureGates.Dynamic"),
    "switched on before": ({"release": "1.33.4", "text": GATES["true"]}, True, "of kubelet 1.33.4 is on"),
    "switched on by a flag": ({"release": "1.32.1", "flags": (ON,)}, True, "of kubelet 1.32.1 is on"),
    "too old": ({"release": "1.31.9", "text": GATES["true"]}, False, "kubelet 1.31.9 has no API that NVIDIA's driver"),
    "its release is not known": ({"release": ""}, None, "the kubelet's release is not known"),
    "its file cannot be read": ({"release": "1.33.4", "text": None}, None, "the kubelet's configuration cannot be read"),
    "no kubelet": ({"kubelet": Kubelet()}, False, "no kubelet is here. Leave gpufleet_dra out for this host"),
}  # fmt: skip


@pytest.mark.parametrize("case", KUBELETS)
def test_which_kubelets_serve_claims(case: str) -> None:
    given, met, why = KUBELETS[case]
    need = next(need for need in found(**given).needs if need.what == KUBELET)
    assert need.met is met
    assert why in str(need)


# A host -> what it lacks, in the words of the advice.
HOSTS: dict[str, tuple[tuple[Instance, ...], dict[str, Any], dict[str, str]]] = {
    "all is there": ((engine(),), {}, {}),
    "CRI-O": ((engine("1.34.2", name="crio"),), {}, {}),
    "the switch is off, and the plan turns it on": ((engine("1.7.24", cdi=OFF),), {}, {}),
    "the switch is off now": (
        (engine("1.7.24", cdi=OFF),), {"after": False},
        {CDI: "it is switched off in containerd 1.7.24 (enableCDI=false). Run gpufleet.nvidia.site with gpufleet_injection: native-cdi"}),
    "CDI is not wanted": ((engine("1.7.24", cdi=OFF),), {"cdi": "disabled"}, {CDI: "switched off", DEFAULT: "the default handler"}),
    "an engine without CDI": (
        (engine("1.6.20"),), {},
        {CDI: "cannot. Update it: containerd 1.7.2 and CRI-O 1.28.0 do", FIELD: "does not know", SPECS: "reads no directory",
         DEFAULT: "is the default handler"}),
    "the field came with 1.7.2": ((engine("1.7.1", cdi=OLD_OFF),), {}, {FIELD: "containerd 1.7.1 does not know the CRI field CDIDevices"}),
    "it reads another directory": (
        (engine(cdi=dc.replace(OFF, enabled=True, dirs=("/etc/cdi",))),), {},
        {SPECS: "containerd 2.3.7 reads /etc/cdi. Add /var/run/cdi to gpufleet_cdi_spec_dirs and run gpufleet.nvidia.site"}),
    "the directory by its other name": ((engine(cdi=dc.replace(OFF, enabled=True, dirs=("/run/cdi/",))),), {}, {}),
    "the plan adds the directory": (
        (engine(cdi=dc.replace(OFF, enabled=True, dirs=("/etc/cdi",))),), {"cdi_spec_dirs": ("/etc/cdi", "/var/run/cdi")}, {}),
    "the plan takes the directory away": ((engine(),), {"cdi_spec_dirs": ("/etc/cdi",)}, {SPECS: "reads /etc/cdi"}),
    "nvidia is the default handler now": (
        (engine(default_handler="nvidia"),), {"after": False},
        {DEFAULT: "nvidia is the default handler, and NVIDIA_VISIBLE_DEVICES counts. Set gpufleet_device_plugin_strategy: [cdi-cri]"}),
    "it is a strict one": ((engine(default_handler="nvidia"),), {"set_as_default": "enabled", "isolation": "strict"}, {}),
    "an old driver": ((engine(),), {"driver": Driver("ok", "550.163.01", ONE_GPU.gpus, "x")}, {DRIVER: "550.163.01. Update"}),
    "no engine": ((instance("docker", cri=False),), {}, {CDI: "no engine is here that a kubelet can use"}),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTS)
def test_what_a_host_lacks(case: str) -> None:
    engines, given, lacks = HOSTS[case]
    seen = found(*engines, **given)
    assert {need.what for need in seen.unmet} == set(lacks)
    assert all(words in str(need) for need in seen.unmet for what, words in lacks.items() if what == need.what)
    assert seen.ready is (not lacks)
    assert [(a.startswith("Pods get no GPU by a claim here, and gpufleet_dra is true. Missing is ")) for a in dra.advice(seen)] == [True][
        : len(lacks)
    ]
    assert bool(dra.refusal(seen)) is bool(lacks)


def test_every_need_is_said_with_its_reason() -> None:
    result = dra.as_result(found())
    assert (result["wanted"], result["why"], result["ready"]) == (True, "gpufleet_dra is true", True)
    assert [need["what"] for need in result["needs"]] == list(EVERY)
    assert all(need["why"] for need in result["needs"])


def test_what_is_not_known_is_neither_ready_nor_missing() -> None:
    seen = found(release="")
    assert (seen.ready, dra.advice(seen), dra.refusal(seen)) == (None, (), "")


# What is registered with the kubelet -> whether the host is looked at without being asked to.
PLUGINS: dict[str, tuple[list[str], str]] = {
    "none": ([], ""),
    "the driver": (["gpu.nvidia.com-reg.sock"], "the kubelet has the plugin gpu.nvidia.com"),
    "its part for compute domains": (["compute-domain.nvidia.com-reg.sock"], "the kubelet has the plugin compute-domain.nvidia.com"),
}  # fmt: skip


@pytest.mark.parametrize("case", PLUGINS)
def test_the_driver_is_recognised_by_its_place_at_the_kubelet(case: str) -> None:
    sockets, why = PLUGINS[case]
    files = [{"path": f"/var/lib/kubelet/plugins_registry/{name}"} for name in sockets]
    seen = obs(answers={dra.REGISTERED["id"]: {"files": files}})
    assert dra.wanted(Policy(), seen) == why
    assert dra.wanted(Policy(dra=True), seen) == "gpufleet_dra is true"
    assert dra.wanted(Policy(root="/srv/image"), seen) == ""


def test_where_nobody_wants_it_nothing_is_said() -> None:
    seen = obs(answers={dra.REGISTERED["id"]: {"files": []}})
    record = decide.decide(Policy(), (engine("1.6.20"),), ONE_GPU, Kubelet())
    nothing = dra.of(Policy(), seen, record, (engine("1.6.20"),), ONE_GPU, Kubelet(), after=True)
    assert dra.as_result(nothing) == {"wanted": False, "why": "", "ready": None, "needs": []}
    assert dra.advice(nothing) == ()
