# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of the GPU Operator's toolkit for the engines of hosts that keep it."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    files,
    members,
    objects,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Instance

from tests.unit.cluster_hosts import hosts, native, rendered
from tests.unit.coded import get_code
from tests.unit.records import instance

TOOLKIT = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
THREE = {"nvidia": TOOLKIT, "nvidia-cdi": f"{TOOLKIT}.cdi", "nvidia-legacy": f"{TOOLKIT}.legacy"}
K3S = {
    "socket": "/run/k3s/containerd/containerd.sock",
    "binary": "/var/lib/rancher/k3s/data/current/bin/containerd",
}
MICROK8S = {
    "config_path": "/var/snap/microk8s/current/args/containerd-template.toml",
    "socket": "/var/snap/microk8s/common/run/containerd.sock",
    "binary": "/snap/microk8s/7964/bin/containerd",
}
K0S = {
    "config_path": "/etc/k0s/containerd.toml",
    "socket": "/run/k0s/containerd.sock",
    "binary": "/var/lib/k0s/bin/containerd",
}
WITHOUT_CDI = {"environment": {"DEVICE_LIST_STRATEGY": "envvar"}}


def kept(*more: Instance, handlers: dict[str, str] | None = None, **own: Any) -> dict[str, Any]:
    """A host whose engine the operator's toolkit configures; nothing is decided for it."""
    engine = own.pop("engine", "containerd")
    one = instance(
        engine,
        **{
            "used_by_kubelet": True,
            "handlers": {"runc": "", **(THREE if handlers is None else handlers)},
            **own,
        },
    )
    return {
        **native(),
        "decision": {
            "decisions": [],
            "refused": [[one.key, "the GPU Operator's toolkit runs on this host"]],
        },
        "instances": [{"key": i.key, **dc.asdict(i)} for i in (one, *more)],
        "leftovers": [{"tool": "gpu-operator", "path": one.config_path, "fate": "live"}],
    }


def values(*hosts: dict[str, Any], **settings: Any) -> dict[str, Any]:
    found = rendered(
        {f"gpu{number}": host for number, host in enumerate(hosts, 1)},
        profile="operator",
        **settings,
    )
    return dict(found.values.values)


def environment(*hosts: dict[str, Any], **settings: Any) -> dict[str, str]:
    return {
        entry["name"]: entry["value"]
        for entry in values(*hosts, **settings)["toolkit"].get("env", ())
    }


# A host -> the variables of its toolkit beyond what the operator sets by itself.
TOLD: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "all is where the operator looks": (kept(), {}),
    "the socket by its other name": (kept(socket="/var/run/containerd/containerd.sock"), {}),
    "another file: the program on the PATH would print the usual one": (
        kept(config_path="/etc/containerd/gpu.toml"),
        {"CONTAINERD_CONFIG": "/etc/containerd/gpu.toml", "RUNTIME_CONFIG_SOURCE": "file=/etc/containerd/gpu.toml"},
    ),
    "another socket": (kept(socket="/run/gpu/containerd.sock"), {"CONTAINERD_SOCKET": "/run/gpu/containerd.sock"}),
    "a program that is not on the PATH": (
        kept(binary="/opt/containerd/bin/containerd"),
        {"RUNTIME_EXECUTABLE_PATH": "/opt/containerd/bin/containerd"},
    ),
    "k3s": (
        kept(manager="k3s", config_path="/var/lib/rancher/k3s/agent/etc/containerd/config.toml", **K3S),
        {"CONTAINERD_SOCKET": "/run/k3s/containerd/containerd.sock"},
    ),
    "RKE2": (
        kept(manager="rke2", config_path="/var/lib/rancher/rke2/agent/etc/containerd/config.toml", **K3S),
        {"CONTAINERD_SOCKET": "/run/k3s/containerd/containerd.sock"},
    ),
    "MicroK8s: its template is no TOML before it is filled in": (
        kept(manager="microk8s", **MICROK8S),
        {
            "CONTAINERD_CONFIG": MICROK8S["config_path"],
            "CONTAINERD_SOCKET": MICROK8S["socket"],
            "RUNTIME_CONFIG_SOURCE": "file=/var/snap/microk8s/current/args/containerd.toml",
        },
    ),
    "k0s": (
        kept(manager="k0s", **K0S),
        {
            "CONTAINERD_CONFIG": "/etc/k0s/containerd.d/nvidia.toml",
            "CONTAINERD_SOCKET": "/run/k0s/containerd.sock",
            "RUNTIME_EXECUTABLE_PATH": "/var/lib/k0s/bin/containerd",
        },
    ),
    "CRI-O": (kept(engine="crio"), {}),
    "its handler is the default one, as it was made up to 25.3": (
        kept(default_handler="nvidia"),
        {"NVIDIA_RUNTIME_SET_AS_DEFAULT": "true"},
    ),
    "it has written nothing yet": (kept(handlers={}), {}),
    "Docker is beside it": (kept(dc.replace(instance("docker"), cri=False, socket="/run/docker.sock")), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", TOLD)
def test_the_toolkit_is_told_what_was_found_and_it_would_not_find(case: str) -> None:
    host, told = TOLD[case]
    assert values(host)["toolkit"]["enabled"] is True
    assert environment(host) == told


def test_with_cdi_off_the_operator_makes_it_the_default_by_itself() -> None:
    """CONTAINERD_SET_AS_DEFAULT counts there alone: with CDI on the operator sets a variable that
    ranks above it.
    """
    assert environment(kept(), **WITHOUT_CDI) == {"CONTAINERD_SET_AS_DEFAULT": "false"}
    assert environment(kept(default_handler="nvidia"), **WITHOUT_CDI) == {}


def test_the_name_of_the_handler_is_the_operators_runtime_class() -> None:
    """It sets CONTAINERD_RUNTIME_CLASS after `toolkit.env`, so an entry there would have no effect."""
    gold = kept(handlers={"gold": TOOLKIT, "gold-cdi": f"{TOOLKIT}.cdi"})
    assert values(gold)["operator"] == {"runtimeClass": "gold"}
    assert environment(gold) == {}
    assert "operator" not in values(kept(handlers={}))


def test_nothing_of_the_plugin_is_said_where_all_hosts_keep_it() -> None:
    assert values(kept(), kept()) == {
        "toolkit": {"enabled": True},
        "operator": {"runtimeClass": "nvidia"},
    }
    found = rendered({"gpu1": kept()}, profile="operator")
    assert list(files.render_cluster_files(found)) == ["helm/values.yaml"]
    assert rendered({"gpu1": kept()}).values.values == {}


def test_the_toolkit_stays_on_where_some_hosts_keep_it() -> None:
    """Switched off for all, it would leave those hosts without their handlers."""
    hook = {"environment": {"NVIDIA_CDI_HOOK_PATH": "/usr/local/bin/nvidia-cdi-hook"}}
    found = values(native(), kept(socket="/run/gpu.sock"), **hook)
    assert found["toolkit"] == {
        "enabled": True,
        "env": [{"name": "CONTAINERD_SOCKET", "value": "/run/gpu.sock"}],
    }
    assert found["cdi"] == {"enabled": True}
    with pytest.raises(PlanError, match=r"^gpu2 .* gpu1 .*\[helm.toolkit-on-some\]$"):
        values(native(), kept())
    with pytest.raises(PlanError, match=r"gold on gpu2; nvidia on gpu1 .*\[helm.runtime-class\]$"):
        values(native(), kept(handlers={"gold": TOOLKIT}), **hook)


def test_reasons_are_beside_the_values() -> None:
    text = files.render_cluster_files(
        rendered(
            {"gpu1": kept(manager="microk8s", default_handler="nvidia", **MICROK8S)},
            profile="operator",
        )
    )["helm/values.yaml"]
    assert (
        "# gpu1: these hosts keep the operator's toolkit, one DaemonSet with one environment for all of them."
        in text
    )
    assert "# MicroK8s makes its configuration from a template" in text
    assert (
        "# NVIDIA_RUNTIME_SET_AS_DEFAULT: the operator sets it with CDI on, and it ranks above CONTAINERD_SET_AS_DEFAULT."
        in text
    )


UNLIKE: dict[str, tuple[dict[str, Any], str]] = {
    "another socket": (kept(socket="/run/gpu.sock"), "nvidia; gpu2: containerd, CONTAINERD_SOCKET=/run/gpu.sock, the handler nvidia"),
    "another engine": (kept(engine="crio"), "gpu2: CRI-O, the handler nvidia"),
    "another default": (kept(default_handler="nvidia"), "gpu2: containerd, the handler nvidia by default"),
    "another name": (kept(handlers={"gold": TOOLKIT}), "gpu2: containerd, the handler gold"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNLIKE)
def test_one_environment_for_unlike_hosts_is_refused(case: str) -> None:
    host, words = UNLIKE[case]
    with pytest.raises(PlanError) as refused:
        values(kept(), host)
    assert words in str(refused.value)
    assert (
        "Hand over all of these hosts but one kind, or set toolkit.env in gpufleet_kubernetes_values"
        in str(refused.value)
    )


def test_the_users_own_environment_counts_as_it_is_written() -> None:
    own = {"toolkit": {"env": [{"name": "CONTAINERD_SOCKET", "value": "/run/mine.sock"}]}}
    unlike = kept(), kept(socket="/run/gpu.sock")
    assert environment(*unlike, values=own) == {"CONTAINERD_SOCKET": "/run/mine.sock"}


def test_a_host_on_which_it_has_written_nothing_yet_fits_the_others() -> None:
    assert environment(kept(handlers={}), kept(default_handler="nvidia")) == {
        "NVIDIA_RUNTIME_SET_AS_DEFAULT": "true"
    }


UNKNOWN = {
    "two engines that a kubelet could use": kept(instance("crio"), used_by_kubelet=False),
    "a path that would be more than one": kept(socket="/run/a\n- name: EVIL"),
    "a program where any user of another host may put one": kept(binary="/tmp/x/containerd"),
    "a program that is in such a place after all": kept(binary="/opt/../tmp/containerd"),
    "a file where any user may make one": kept(config_path="/var/tmp/config.toml"),
    "a socket of a user": kept(socket="/run/user/1000/containerd.sock"),
    "a program of a user": kept(binary="/home/somebody/containerd"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_of_a_host_that_is_not_understood_nothing_is_said(case: str) -> None:
    found = rendered({"gpu1": UNKNOWN[case]}, profile="operator").values
    assert found.values == {"toolkit": {"enabled": True}}
    what = "Which engine the toolkit configures on gpu1 is not known, or its files are where not only root may make files"
    assert f"{what}: these values may not fit there." in found.why


def test_an_nri_plugin_is_told_no_path_and_has_no_runtime_class() -> None:
    """In that mode the operator sets none of these variables, and its pods name no RuntimeClass."""
    nri = {"values": {"cdi": {"nriPluginEnabled": True}}}
    there = kept(manager="microk8s", default_handler="nvidia", **MICROK8S)
    found = values(there, **nri)
    assert (found["toolkit"], found["cdi"]) == ({"enabled": True}, {"nriPluginEnabled": True})
    assert "operator" not in found
    with pytest.raises(PlanError, match=r"gpu1 do not keep .*\[helm.nri-on-some\]$"):
        values(native(), **nri)
    off = {"values": {"cdi": {"nriPluginEnabled": False}}}
    assert values(there, **off)["toolkit"]["env"]


CONTAINER = members.OfInventory(driver_root="/run/nvidia/driver")
HOOK = {"NVIDIA_CDI_HOOK_PATH": "/usr/bin/nvidia-cdi-hook"}
LOST: dict[str, Any] = {"msg": "not reached", "unreachable": True}
GONE: dict[str, Any] = {**native(), "decision": {"skipped": "no GPU"}}
# case -> hosts, what the inventory says of them, the user's value, what the chart gets
DRIVERS: dict[
    str, tuple[dict[str, Any], dict[str, members.OfInventory], dict[str, Any], bool | None]
] = {
    "drivers of the hosts": ({"gpu1": native(), "gpu2": native()}, {}, {}, False),
    "driver containers": ({"gpu1": native()}, {"gpu1": CONTAINER}, {}, None),
    "a driver container on one": ({"gpu1": native(), "gpu2": native()}, {"gpu2": CONTAINER}, {}, None),
    "a lost host with its own": ({"gpu1": native(), "gpu2": LOST}, {}, {}, False),
    "a lost host with a container": ({"gpu1": native(), "gpu2": LOST}, {"gpu2": CONTAINER}, {}, None),
    "a host that lost its GPU": ({"gpu1": native(), "gpu2": GONE}, {"gpu2": CONTAINER}, {}, False),
    "a host of the operator": ({"gpu1": native(), "gpu2": kept()}, {}, {}, None),
    "only hosts of the operator": ({"gpu1": kept()}, {}, {}, None),
    "the user's own value": ({"gpu1": native()}, {}, {"driver": {"enabled": True}}, True),
    "the user's NVIDIADriver objects": ({"gpu1": native()}, {}, {"driver": {"nvidiaDriverCRD": {"enabled": True}}}, None),
    "another value of the user": ({"gpu1": native()}, {}, {"driver": {"rdma": {"enabled": True}}}, False),
}  # fmt: skip


@pytest.mark.parametrize("case", DRIVERS)
def test_the_operator_runs_no_driver_on_hosts_that_have_one(case: str) -> None:
    results, wanted, own, enabled = DRIVERS[case]
    settings = objects.ClusterSettings(profile="operator", values=own, environment=HOOK)
    found = objects.render_cluster("north", hosts(results, **wanted), settings, objects.Kept())
    assert found.values.values.get("driver", {}).get("enabled") is enabled
    said = any("driver containers are off" in line for line in found.values.why)
    assert said == (enabled is False)


def at(directory: str, host: dict[str, Any]) -> dict[str, Any]:
    return {**host, "kubelet": {**host["kubelet"], "directory": directory}}


ELSEWHERE = "/var/lib/k0s/kubelet"
# case -> hosts, the user's value, the chart's value, the code of what is said
DIRECTORIES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str | None, str]] = {
    "the usual one": ([native()], {}, None, ""),
    "the usual one, said": ([at("/var/lib/kubelet", native()), native()], {}, None, ""),
    "another one on all": ([at(ELSEWHERE, native())] * 2, {}, ELSEWHERE, "helm.kubelet-directory"),
    "another one, of the operator's": ([at(ELSEWHERE, kept())], {}, ELSEWHERE, "helm.kubelet-directory"),
    "another one on some": ([at(ELSEWHERE, native()), native()], {}, None, "helm.kubelet-directories"),
    "another one on some of the operator's": ([at(ELSEWHERE, kept()), kept()], {}, None, "helm.kubelet-directories"),
    "on a disk of its own": ([at("/data/kubelet", native())], {}, None, "helm.kubelet-directories"),
    "a directory of something else": ([at("/etc/kubernetes/manifests", native())], {}, None, "helm.kubelet-directories"),
    "the user's own, of something else": (
        [at("/etc/kubernetes", native())], {"hostPaths": {"kubeletRootDir": "/srv/k"}}, "/srv/k", "",
    ),
    "no path": ([at("/var/lib/a\nb: c", native())], {}, None, "helm.kubelet-directories"),
    "the user's own": ([at("/data/kubelet", native())], {"hostPaths": {"kubeletRootDir": "/data/kubelet"}}, "/data/kubelet", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", DIRECTORIES)
def test_the_operator_is_told_the_directory_of_all_kubelets(case: str) -> None:
    """gpu-operator issues 745 and 1358: without it metrics of GPUs have no pods."""
    looked_at, own, wanted, code = DIRECTORIES[case]
    found = rendered(
        {f"gpu{number}": host for number, host in enumerate(looked_at)},
        profile="operator",
        values=own,
    ).values
    assert found.values.get("hostPaths", {}).get("kubeletRootDir") == wanted
    codes = {get_code(line) for line in found.why}
    assert {c for c in codes if c.startswith("helm.kubelet")} == ({code} if code else set())
