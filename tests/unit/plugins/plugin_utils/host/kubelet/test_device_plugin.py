# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the device plugin of a cluster asks by, what follows for the host, and how the verification
asks.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    HostDecision,
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decide,
    decision_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    device_plugin,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet.device_plugin import (
    SAME_START,
    SPEC,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    cases,
)

from tests.unit.builders import obs
from tests.unit.records import ONE_GPU, instance

KUBELET = Kubelet(True, "1.31.2", "unix:///run/containerd/containerd.sock")
NONE = Kubelet()
PROGRAM = "/usr/bin/nvidia-device-plugin"


def process(*argv: str, **environment: str) -> dict[str, Any]:
    return {
        "pid": 77,
        "exe": PROGRAM,
        "argv": ["nvidia-device-plugin", *argv],
        "environment": environment,
    }


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


SOCKETS = "/var/lib/kubelet/device-plugins"
WRITTEN = 1_000_000.0
BY_CDI = (("cdi-cri", "cdi-annotations"), "seen", "strict")
UNKNOWN = (("envvar",), "default", "compatible")
DOUBT, LEFT, WRITTEN_NOW = (
    f"kubernetes.strategy-{name}" for name in ("of-spec-unserved", "spec-outdated", "of-spec")
)


def socket(after: float, **more: Any) -> dict[str, Any]:
    """One that was made so many seconds after the spec."""
    return {"content": None, "type": "socket", "mode": 0o755, "mtime": WRITTEN + after, **more}


# What is in the kubelet's directory beside a spec -> (what is known of the plugin, the code of the
# evidence)
STARTS: dict[str, tuple[dict[str, Any], tuple[tuple[str, ...], str, str], str]] = {
    "the start that wrote the spec": ({"nvidia-gpu.sock": socket(0.2)}, BY_CDI, WRITTEN_NOW),
    "one whose GPUs took long to answer": (
        {"nvidia-gpu.sock": socket(SAME_START)},
        BY_CDI,
        WRITTEN_NOW,
    ),
    "a later start, which wrote none": ({"nvidia-gpu.sock": socket(SAME_START + 1)}, UNKNOWN, LEFT),
    "a day later": ({"nvidia-gpu.sock": socket(86_400)}, UNKNOWN, LEFT),
    "a spec that is written again": ({"nvidia-gpu.sock": socket(-3_600)}, BY_CDI, WRITTEN_NOW),
    "several resources, the last one counts": (
        {"nvidia-gpu.sock": socket(1), "nvidia-mig-1g.10gb.sock": socket(9_000)},
        UNKNOWN,
        LEFT,
    ),
    "shared GPUs under another name": ({"nvidia-gpu.shared.sock": socket(9_000)}, UNKNOWN, LEFT),
    "no plugin at the moment, or a kubelet that has just started": ({}, BY_CDI, DOUBT),
    "somebody else's plugin": (
        {"vendor-gpu.sock": socket(9_000), "kubelet.sock": socket(9_000)},
        BY_CDI,
        DOUBT,
    ),
    "a socket of an account": ({"nvidia-gpu.sock": socket(9_000, uid=1000)}, BY_CDI, DOUBT),
    "a file that is no socket": ({"nvidia-gpu.sock": socket(9_000, type="file")}, BY_CDI, DOUBT),
    "one that was gone when it was looked at": (
        {"nvidia-gpu.sock": {"error": {"kind": "not-found", "message": "gone"}}},
        BY_CDI,
        DOUBT,
    ),
}


@pytest.mark.parametrize(("there", "known", "code"), STARTS.values(), ids=STARTS)
def test_a_spec_counts_for_the_start_of_the_plugin_that_wrote_it(
    there: dict[str, Any], known: tuple[tuple[str, ...], str, str], code: str
) -> None:
    files = {
        SPEC: {"content": "", "mtime": WRITTEN},
        **{f"{SOCKETS}/{name}": said for name, said in there.items()},
    }
    record = decided(KUBELET, obs(processes=[], files=files))
    assert (record.plugin_strategies, record.plugin_source, record.isolation) == known
    assert [get_code(r.evidence) for r in record.reasons if r.what == "isolation"] == [code]


def test_a_directory_of_the_kubelet_that_cannot_be_listed_is_no_directory_without_a_plugin() -> (
    None
):
    answer = {
        device_plugin.queries.ask_for_glob(device_plugin.SOCKETS, content=False)["id"]: {
            "error": {"kind": "timeout", "message": "hangs"}
        }
    }
    with pytest.raises(QueryFailed, match="could not be listed"):
        decided(KUBELET, obs(processes=[], files={SPEC: ""}, answers=answer))


def decided(kubelet: Kubelet, seen: Any, *engines: Any, **options: Any) -> HostDecision:
    policy = Policy(**options)
    plugin = device_plugin.find_plugin_strategies(
        policy, device_plugin.read_plugin_facts(seen), kubelet
    )
    return decide.decide_host(policy, engines or (instance(),), ONE_GPU, kubelet, plugin=plugin)


@pytest.mark.parametrize(
    ("kubelet", "declared", "there", "names", "source", "isolation"), SEEN.values(), ids=SEEN
)
def test_what_pods_ask_by_decides_whether_the_variable_counts(
    kubelet: Kubelet,
    declared: tuple[str, ...],
    there: dict[str, Any],
    names: tuple[str, ...],
    source: str,
    isolation: str,
) -> None:
    record = decided(kubelet, obs(**{"processes": [], **there}), device_plugin_strategy=declared)
    assert (record.plugin_strategies, record.plugin_source, record.isolation) == (
        names,
        source,
        isolation,
    )
    assert decision_file.build_public_record(record, ONE_GPU)["device_plugin"] == {
        "strategies": list(names),
        "source": source,
    }


def test_the_reason_names_its_evidence() -> None:
    found = next(r for r in decided(KUBELET, obs(processes=[])).reasons if r.what == "isolation")
    assert (get_code(found.why), get_code(found.evidence)) == (
        "kubernetes.device-plugin-may-use-variable",
        "kubernetes.strategy-default-kubelet-runs",
    )


COMPATIBLE, RUNTIME_CLASS = (
    "kubernetes.compatible-isolation-for-plugin",
    "kubernetes.pods-need-runtime-class",
)
OLDER_CRIO = instance("crio", "1.26.0", cdi=dc.replace(instance().cdi, cri_field=False))


@pytest.mark.parametrize(
    ("options", "engines", "code", "values"),
    [
        (
            {},
            (instance(),),
            COMPATIBLE,
            {"strategy": "cdi-cri", "variable": "DEVICE_LIST_STRATEGY", "runtime_class": "nvidia"},
        ),
        ({}, (OLDER_CRIO,), COMPATIBLE, {"strategy": "cdi-annotations"}),
        (
            {"isolation": "strict"},
            (instance(),),
            "kubernetes.strict-isolation-without-strategy",
            {"strategy": "cdi-cri"},
        ),
        (
            {"device_plugin_strategy": ("envvar",)},
            (instance(),),
            RUNTIME_CLASS,
            {"strategies": "envvar", "runtime_class": "nvidia"},
        ),
        (
            {"device_plugin_strategy": ("volume-mounts",)},
            (instance(),),
            RUNTIME_CLASS,
            {"strategies": "volume-mounts"},
        ),
        ({"device_plugin_strategy": ("envvar", "cdi-cri")}, (instance(),), "", {}),
        ({"device_plugin_strategy": ("envvar",)}, (instance(version="1.6.20"),), "", {}),
        # the default handler: the plugin's default works with it as it is
        (
            {},
            (instance(version="1.6.20"),),
            "",
            {},
        ),
    ],
)
def test_the_advice_names_the_setting_of_the_plugin(
    options: dict[str, Any], engines: tuple[Any, ...], code: str, values: dict[str, str]
) -> None:
    advice = device_plugin.advise_on_device_plugin(
        Policy(**options), decided(KUBELET, obs(processes=[]), *engines, **options)
    ).advice
    assert [get_code(sentence) for sentence in advice] == ([code] if code else [])
    assert [dict(sentence.values) | values for sentence in advice] == [
        dict(sentence.values) for sentence in advice
    ]


VERIFICATIONS = {
    # strategies as declared, isolation asked for -> the case that asks as the plugin does
    "no kubelet": (NONE, {}, None),
    "the plugin's default": (KUBELET, {}, {"NVIDIA_VISIBLE_DEVICES": "GPU-0"}),
    "forced strict": (KUBELET, {"isolation": "strict"}, None),
    "declared": (KUBELET, {"device_plugin_strategy": ("envvar",)}, {"NVIDIA_VISIBLE_DEVICES": "GPU-0"}),
    "by mounts": (
        KUBELET, {"device_plugin_strategy": ("volume-mounts",)}, {"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"}),
    "by CDI": (KUBELET, {"device_plugin_strategy": ("cdi-cri",)}, None),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kubelet", "options", "variable"), VERIFICATIONS.values(), ids=VERIFICATIONS
)
def test_the_verification_asks_as_the_plugin_asks(
    kubelet: Kubelet, options: dict[str, Any], variable: dict[str, str] | None
) -> None:
    record = decided(kubelet, obs(processes=[]), **options)
    found = [
        c
        for c in cases.list_cases(record, (instance(),), ONE_GPU, image="lab/busybox:1")
        if c["name"] == "containerd: plugin"
    ]
    assert [(c["handler"], c["env"], "capabilities" in c) for c in found] == (
        [("nvidia", variable, False)] if variable else []
    )
