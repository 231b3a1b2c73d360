# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is declared of a cluster's device plugin against what a host answers: kubelets, engines,
injections.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet.device_plugin import (
    KNOWN,
    Strategies,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    toolkit_config,
)

from tests.unit.records import ONE_GPU, instance

K127, K128, K129, K134 = (
    Kubelet(True, f"v1.{minor}.4", "unix:///run/containerd/containerd.sock")
    for minor in (27, 28, 29, 34)
)
NOT_KNOWN = Kubelet(True)  # its program is outside PATH, or in another one
IMAGE = Kubelet(installed=True)
NEW, OLD = instance(), instance(version="1.6.20")
OFF = instance(version="1.7.24", cdi=dc.replace(NEW.cdi, enabled=False))
NO_FIELD = instance("crio", "1.26.0", cdi=dc.replace(NEW.cdi, cri_field=False))
RENDERED = instance(version="1.6.20", detects="k3s has found it")
ALL = set(KNOWN)

# What a host has -> the strategies by which its pods get GPUs.
ANSWERED: dict[str, tuple[Instance, Kubelet, dict[str, Any], set[str]]] = {
    "containerd 2.3, kubelet 1.34": (NEW, K134, {}, ALL),
    "kubelet 1.29, whose gate is on": (NEW, K129, {}, ALL),
    "kubelet 1.28, whose gate may have been switched on": (NEW, K128, {}, ALL),
    "kubelet 1.27, which has no such field": (NEW, K127, {}, ALL - {"cdi-cri"}),
    "a kubelet of no known version": (NEW, NOT_KNOWN, {}, ALL),
    "an image with a kubelet": (NEW, IMAGE, {}, ALL),
    "containerd 1.7, where CDI is switched on": (OFF, K134, {}, ALL),
    "containerd 1.7, where it stays off": (
        OFF,
        K134,
        {"cdi": "disabled"},
        {"envvar", "volume-mounts"},
    ),
    "containerd 2.3, which resolves CDI all the same": (NEW, K134, {"cdi": "disabled"}, ALL),
    "CRI-O 1.26, without the field": (NO_FIELD, K134, {}, ALL - {"cdi-cri"}),
    "containerd 1.6": (OLD, K134, {}, ALL - {"cdi-cri"}),
    "containerd 1.6, whose handler a manager renders": (
        RENDERED,
        K134,
        {},
        {"envvar", "volume-mounts"},
    ),
    "containerd 1.6 without CDI": (OLD, K134, {"cdi": "disabled"}, {"envvar", "volume-mounts"}),
    "no kubelet, so nobody asks": (OLD, Kubelet(), {}, ALL),
}


@pytest.mark.parametrize(("engine", "kubelet", "options", "names"), ANSWERED.values(), ids=ANSWERED)
def test_a_strategy_that_gives_no_pod_a_gpu_is_refused(
    engine: Instance, kubelet: Kubelet, options: dict[str, Any], names: set[str]
) -> None:
    def taken(*declared: str) -> bool:
        try:
            decision = decide.decide_one(
                Policy(device_plugin_strategy=declared, **options), engine, kubelet
            )
        except PlanError:
            return False
        return decision.device_list_strategy == declared

    assert {name for name in KNOWN if taken(name)} == names
    assert taken(*KNOWN), "one that is understood is enough: the plugin answers by all of them"


def test_the_refusal_names_what_would_work() -> None:
    with pytest.raises(PlanError) as refused:
        decide.decide_one(Policy(device_plugin_strategy=("cdi-cri",)), OLD, K134)
    assert (refused.value.where, refused.value.code) == (
        "/etc/containerd/config.toml",
        "kubernetes.strategy-unanswered-with-kubelet",
    )
    assert refused.value.values == {
        "declared": "cdi-cri",
        "injection": "nvidia-runtime",
        "engine": "containerd 1.6.20",
        "kubelet": "v1.34.4",
        "answered": "envvar, volume-mounts, cdi-annotations",
    }


# The kubelet passes CDI devices on from 1.29 on; in 1.28 only where its gate was switched on, which
# nothing says.
GATE = {
    "v1.26.15": "cdi-annotations", "v1.27.16": "cdi-annotations", "v1.28.0": "cdi-annotations", "v1.28.15": "cdi-annotations",
    "v1.29.0": "cdi-cri", "v1.30.14": "cdi-cri", "v1.31.1+k3s1": "cdi-cri", "v1.34.4": "cdi-cri",
    "v1.34.4-eks-3abbec1": "cdi-cri", "v1.36.3+rke2r1": "cdi-cri", "v2.0.0": "cdi-cri", "": "cdi-cri",
}  # fmt: skip


@pytest.mark.parametrize(("version", "strategy"), GATE.items())
def test_the_kubelets_gate(version: str, strategy: str) -> None:
    kubelet = dc.replace(K134, version=version)
    assert decide.decide_one(Policy(), NEW, kubelet).device_list_strategy == (strategy,)
    assert decide.decide_one(Policy(), NO_FIELD, kubelet).device_list_strategy == (
        "cdi-annotations",
    )
    assert decide.decide_one(Policy(), OLD, kubelet).device_list_strategy == (
        "envvar",
        "cdi-annotations",
    )


@pytest.mark.parametrize(
    "engine", [NEW, OLD], ids=["a handler beside others", "the default handler"]
)
@pytest.mark.parametrize("isolation", ["auto", "strict", "compatible"])
def test_mounts_are_accepted_where_pods_ask_by_them(engine: Instance, isolation: Any) -> None:
    """Else the runtime takes the directory of the mounts for a device's name: unresolvable CDI
    devices nvidia.com/gpu=/var/run/...
    """
    policy = Policy(device_plugin_strategy=("volume-mounts",), isolation=isolation)
    record = decide.decide_host(
        policy, [engine], ONE_GPU, K134, plugin=Strategies(("volume-mounts",), "declared")
    )
    keys = toolkit_config.list_toolkit_keys(policy, record)
    assert keys[toolkit_config.BY_MOUNT] is True
    assert keys[toolkit_config.BY_ENV] is (isolation == "compatible")
