# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVIDIA's DRA driver needs of a host, and who says that it is wanted."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cdi,
    Driver,
    Evidence,
    Instance,
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import dra

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
OFF = Cdi(
    able=True,
    enabled=False,
    dirs=("/etc/cdi", "/var/run/cdi"),
    max_version="1.0.0",
    evidence=Evidence("cri-status", "enableCDI=false"),
)
OLD_OFF = dc.replace(OFF, cri_field=False)


def engine(version: str = "2.3.7", **more: Any) -> Instance:
    return instance(more.pop("name", "containerd"), version, used_by_kubelet=True, **more)


def found(
    *engines: Instance,
    release: str = "1.34.2",
    flags: tuple[str, ...] = (),
    text: str | None = "",
    after: bool = True,
    **options: Any,
) -> dra.Dra:
    driver = options.pop("driver", ONE_GPU)
    kubelet = options.pop(
        "kubelet", Kubelet(True, release, "unix:///run/containerd/containerd.sock")
    )
    policy = Policy(**{"dra": True, **options})
    argv = ["kubelet", f"--config={CONFIG}", *flags]
    seen = obs(
        files={}
        if text is None
        else {CONFIG: file_places.show_own_text(text or "a: b\n", file_places.KUBELET_CONFIG)},
        processes=[{"pid": 9, "exe": "/usr/bin/kubelet", "argv": argv}],
    )
    every = engines or (engine(),)
    return dra.judge_dra(
        policy,
        dra.read_dra_facts(seen),
        decide.decide_host(policy, every, driver, kubelet),
        every,
        driver,
        kubelet,
        after=after,
    )


GATES = {
    word: f"featureGates:\n  DynamicResourceAllocation: {word}\n" for word in ("true", "false")
}
ON, SWITCHED_OFF = (
    "--feature-gates=A=true,DynamicResourceAllocation=true",
    "--feature-gates=DynamicResourceAllocation=false",
)
# A kubelet -> whether it serves claims, and the code of the reason.
KUBELETS: dict[str, tuple[dict[str, Any], bool | None, str]] = {
    "on by default from 1.34": ({}, True, "gate-on-by-default"),
    "switched off by a file": ({"text": GATES["false"]}, False, "gate-off"),
    "switched off by a flag": ({"flags": (SWITCHED_OFF,), "text": GATES["true"]}, False, "gate-off"),
    "nobody can switch it off from 1.35": ({"release": "1.35.0", "text": GATES["false"]}, True, "always-on"),
    "off by default before": ({"release": "1.33.4"}, False, "gate-off-by-default"),
    "switched on before": ({"release": "1.33.4", "text": GATES["true"]}, True, "gate-on"),
    "switched on by a flag": ({"release": "1.32.1", "flags": (ON,)}, True, "gate-on"),
    "switched on with all of its stage": ({"release": "1.33.4", "flags": ("--feature-gates=AllBeta=true",)}, True, "gate-on"),
    "in no stage from 1.34": ({"flags": ("--feature-gates=AllBeta=false",)}, True, "gate-on-by-default"),
    "too old": ({"release": "1.31.9", "text": GATES["true"]}, False, "kubelet-too-old"),
    "its release is not known": ({"release": ""}, None, "kubelet-release-unknown"),
    "its file cannot be read": ({"release": "1.33.4", "text": None}, None, "gate-unreadable"),
    "no kubelet": ({"kubelet": Kubelet()}, False, "without-kubelet"),
}  # fmt: skip


@pytest.mark.parametrize("case", KUBELETS)
def test_which_kubelets_serve_claims(case: str) -> None:
    given, met, code = KUBELETS[case]
    need = next(need for need in found(**given).needs if need.what == KUBELET)
    assert (need.met, get_code(need.why)) == (met, f"kubernetes.claims-{code}")


# A host -> what it lacks, with the code of the reason.
HOSTS: dict[str, tuple[tuple[Instance, ...], dict[str, Any], dict[str, str]]] = {
    "all is there": ((engine(),), {}, {}),
    "CRI-O": ((engine("1.34.2", name="crio"),), {}, {}),
    "the switch is off, and the plan turns it on": ((engine("1.7.24", cdi=OFF),), {}, {}),
    "the switch is off now": (
        (engine("1.7.24", cdi=OFF),), {"after": False},
        {CDI: "cdi-off"}),
    "CDI is not wanted": ((engine("1.7.24", cdi=OFF),), {"cdi": "disabled"}, {CDI: "cdi-off", DEFAULT: "bypassed-by-variable"}),
    "an engine without CDI": (
        (engine("1.6.20"),), {},
        {CDI: "engine-without-cdi", FIELD: "field-unknown", SPECS: "no-spec-directory",
         DEFAULT: "bypassed-by-variable"}),
    "the field came with 1.7.2": ((engine("1.7.1", cdi=OLD_OFF),), {}, {FIELD: "field-unknown"}),
    "it reads another directory": (
        (engine(cdi=dc.replace(OFF, enabled=True, dirs=("/etc/cdi",))),), {},
        {SPECS: "specs-unread"}),
    "the directory by its other name": ((engine(cdi=dc.replace(OFF, enabled=True, dirs=("/run/cdi/",))),), {}, {}),
    "the plan adds the directory": (
        (engine(cdi=dc.replace(OFF, enabled=True, dirs=("/etc/cdi",))),), {"cdi_spec_dirs": ("/etc/cdi", "/var/run/cdi")}, {}),
    "the plan takes the directory away": ((engine(),), {"cdi_spec_dirs": ("/etc/cdi",)}, {SPECS: "specs-unread"}),
    "nvidia is the default handler now": (
        (engine(default_handler="nvidia"),), {"after": False},
        {DEFAULT: "bypassed-by-variable"}),
    "it is a strict one": ((engine(default_handler="nvidia"),), {"set_as_default": "enabled", "isolation": "strict"}, {}),
    "an old driver": ((engine(),), {"driver": Driver("ok", "550.163.01", ONE_GPU.gpus, "x")}, {DRIVER: "driver-too-old"}),
    "no engine": ((instance("docker", cri=False),), {}, {CDI: "without-engine"}),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTS)
def test_what_a_host_lacks(case: str) -> None:
    engines, given, lacks = HOSTS[case]
    seen = found(*engines, **given)
    assert {
        need.what: get_code(need.why).removeprefix("kubernetes.claims-") for need in seen.unmet
    } == lacks
    assert seen.ready is (not lacks)
    assert [get_code(a) for a in dra.advise_on_dra(seen)] == ["kubernetes.claims-unserved"] * bool(
        lacks
    )
    assert bool(dra.explain_dra_refusal(seen)) is bool(lacks)


def test_every_need_is_said_with_its_reason() -> None:
    result = dra.report_dra(found())
    assert (result["wanted"], get_code(result["why"]), result["ready"]) == (
        True,
        "kubernetes.claims-declared",
        True,
    )
    assert [need["what"] for need in result["needs"]] == list(EVERY)
    assert all(need["why"] for need in result["needs"])


def test_what_is_not_known_is_neither_ready_nor_missing() -> None:
    seen = found(release="")
    assert (seen.ready, dra.advise_on_dra(seen), dra.explain_dra_refusal(seen)) == (None, (), "")


# What is registered with the kubelet -> whether the host is looked at without being asked to.
PLUGINS: dict[str, tuple[list[str], dict[str, str]]] = {
    "none": ([], {}),
    "the driver": (["gpu.nvidia.com-reg.sock"], {"name": "gpu.nvidia.com"}),
    "its part for compute domains": (["compute-domain.nvidia.com-reg.sock"], {"name": "compute-domain.nvidia.com"}),
}  # fmt: skip


@pytest.mark.parametrize("case", PLUGINS)
def test_the_driver_is_recognised_by_its_place_at_the_kubelet(case: str) -> None:
    sockets, values = PLUGINS[case]
    files = [{"path": f"/var/lib/kubelet/plugins_registry/{name}"} for name in sockets]
    seen = obs(answers={dra.REGISTERED["id"]: {"files": files}})
    why = dra.get_wanted_dra(Policy(), dra.read_dra_facts(seen))
    assert (get_code(why), dict(getattr(why, "values", {}))) == (
        "kubernetes.claims-by-plugin" if values else "",
        values,
    )
    assert (
        get_code(dra.get_wanted_dra(Policy(dra=True), dra.read_dra_facts(seen)))
        == "kubernetes.claims-declared"
    )
    assert dra.get_wanted_dra(Policy(root="/srv/image"), dra.read_dra_facts(seen)) == ""


def test_it_is_looked_for_below_the_directory_of_each_kubelet() -> None:
    """k0s and MicroK8s start theirs with a --root-dir, and plugins register below it."""
    assert {
        pattern.partition("/plugins_registry/")[0] for pattern in dra.REGISTERED["patterns"]
    } == {
        "/var/lib/kubelet",
        "/var/lib/k0s/kubelet",
        "/var/snap/microk8s/common/var/lib/kubelet",
    }


def test_where_nobody_wants_it_nothing_is_said() -> None:
    seen = obs(answers={dra.REGISTERED["id"]: {"files": []}})
    record = decide.decide_host(Policy(), (engine("1.6.20"),), ONE_GPU, Kubelet())
    nothing = dra.judge_dra(
        Policy(),
        dra.read_dra_facts(seen),
        record,
        (engine("1.6.20"),),
        ONE_GPU,
        Kubelet(),
        after=True,
    )
    assert dra.report_dra(nothing) == {"wanted": False, "why": "", "ready": None, "needs": []}
    assert dra.advise_on_dra(nothing) == ()
