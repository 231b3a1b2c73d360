# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision matrix, one row a case: what the engine can do, what is wanted, what comes out."""

from __future__ import annotations

import dataclasses as dc
import itertools

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.coded import get_coded

GPU = Driver("ok", "580.95.05", (), "procfs")
NO_GPU = Driver("none", "", (), "no NVIDIA device on the PCI bus")


def engine(
    name: str,
    version: str,
    *,
    able: bool = True,
    enabled: bool = True,
    newest: str = "1.0.0",
    field: bool = True,
    **more: object,
) -> Instance:
    cdi = Cdi(
        able=able,
        enabled=enabled,
        dirs=("/etc/cdi",) if able else (),
        max_version=newest if able else "",
        evidence=Evidence("cri-status", "as asked"),
        cri_field=field,
    )
    plain = Instance(
        name,
        version,
        f"/usr/bin/{name}",
        f"/run/{name}.sock",
        f"/etc/{name}",
        f"{name}.service",
        "package",
        True,
        cdi,
    )
    usual = {
        "default_handler": "runc",
        "handlers": {"runc": "/usr/sbin/runc"},
        "low_level": "/usr/sbin/runc",
    }
    return dc.replace(plain, **{**usual, **more})  # type: ignore[arg-type]


C16 = engine("containerd", "1.6.20", able=False, enabled=False)
C17 = engine("containerd", "1.7.24", enabled=False, newest="0.7.0")
C170 = engine("containerd", "1.7.0", enabled=False, newest="0.5.0", field=False)
C23 = engine("containerd", "2.3.7", newest="1.1.0")
C24 = engine("containerd", "2.4.2", newest="1.1.0")
CRIO = engine(
    "crio",
    "1.34.0",
    default_handler="crun",
    handlers={"crun": "/usr/libexec/crio/crun"},
    low_level="/usr/libexec/crio/crun",
)
# a kubelet starts its pods there by cri-dockerd
PODS = engine("docker", "28.1.1", enabled=False, used_by_kubelet=True)
OWN = dc.replace(PODS, used_by_kubelet=False)
OLD = engine("docker", "24.0.7", able=False, enabled=False, used_by_kubelet=True)
K130 = Kubelet(True, "v1.30.2", "unix:///run/containerd.sock")
K128 = Kubelet(True, "v1.28.4", "unix:///run/containerd.sock")
NONE = Kubelet()

MATRIX = [
    # engine, options, kubelet          -> injection, handler, default, mode, enable_cdi, hook,
    # strategies, plugin prefix, runtime class
    (C16, {}, NONE, "nvidia-runtime", "nvidia", True, "cdi", False, False, "envvar,cdi-annotations", "nvidia.cdi.k8s.io/", "nvidia"),
    (C17, {}, NONE, "native-cdi", "nvidia", False, "cdi", True, False, "cdi-cri", "cdi.k8s.io/", "nvidia"),
    (C170, {}, NONE, "native-cdi", "nvidia", False, "cdi", True, False, "cdi-annotations", "cdi.k8s.io/", "nvidia"),
    (C23, {}, NONE, "native-cdi", "nvidia", False, "cdi", False, False, "cdi-cri", "cdi.k8s.io/", "nvidia"),
    (C24, {}, K130, "native-cdi", "nvidia", False, "cdi", False, False, "cdi-cri", "cdi.k8s.io/", "nvidia"),
    (C24, {}, K128, "native-cdi", "nvidia", False, "cdi", False, False, "cdi-annotations", "cdi.k8s.io/", "nvidia"),
    (CRIO, {}, NONE, "native-cdi", "nvidia", False, "cdi", False, False, "cdi-cri", "cdi.k8s.io/", "nvidia"),
    (C16, {"cdi": "disabled"}, NONE, "legacy", "nvidia", True, "legacy", False, False, "envvar", "", "nvidia"),
    (C23, {"cdi": "disabled"}, NONE, "legacy", "nvidia", True, "legacy", False, False, "envvar", "", "nvidia"),
    (CRIO, {"cdi": "disabled"}, NONE, "oci-hook", "", False, "legacy", False, True, "envvar", "", ""),
    (CRIO, {"injection": "legacy"}, NONE, "legacy", "nvidia", True, "legacy", False, False, "envvar", "", "nvidia"),
    (C23, {"injection": "nvidia-runtime"}, NONE, "nvidia-runtime", "nvidia", True, "cdi", False, False,
     "envvar,cdi-annotations", "nvidia.cdi.k8s.io/", "nvidia"),
    (C23, {"injection": "jit-cdi"}, NONE, "jit-cdi", "nvidia", True, "jit-cdi", False, False, "envvar", "", "nvidia"),
    (C23, {"set_as_default": "enabled"}, NONE, "native-cdi", "nvidia", True, "cdi", False, False, "cdi-cri", "cdi.k8s.io/", "nvidia"),
    (C16, {"set_as_default": "disabled"}, NONE, "nvidia-runtime", "nvidia", False, "cdi", False, False,
     "envvar,cdi-annotations", "nvidia.cdi.k8s.io/", "nvidia"),
    (OWN, {}, NONE, "native-cdi", "nvidia", False, "cdi", True, False, "", "cdi.k8s.io/", ""),
    (PODS, {}, K130, "native-cdi", "nvidia", True, "cdi", True, False, "envvar", "cdi.k8s.io/", ""),
    (OLD, {}, K130, "nvidia-runtime", "nvidia", True, "cdi", False, False, "envvar", "nvidia.cdi.k8s.io/", ""),
    (PODS, {"cdi": "disabled"}, K130, "legacy", "nvidia", True, "legacy", False, False, "envvar", "", ""),
    (PODS, {"set_as_default": "disabled"}, K130, "native-cdi", "nvidia", False, "cdi", True, False, "envvar", "cdi.k8s.io/", ""),
    (PODS, {"device_plugin_strategy": ("cdi-cri",)}, K130, "native-cdi", "nvidia", False, "cdi", True, False, "cdi-cri", "cdi.k8s.io/", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    "row", MATRIX, ids=lambda r: f"{r[0].engine}-{r[0].version}-{r[1]}-{r[2].version}"
)
def test_the_matrix(row: tuple) -> None:
    instance, options, kubelet, *wanted = row
    d = decide.decide_one(Policy(**options), instance, kubelet)
    strategy = ",".join(d.device_list_strategy)
    got = [
        d.injection,
        d.handler,
        d.default,
        d.runtime_mode,
        d.enable_cdi,
        d.hook,
        strategy,
        d.plugin_annotation_prefix,
        d.runtime_class,
    ]
    assert got == wanted
    assert d.annotation_prefixes == ("nvidia.cdi.k8s.io/",), (
        "in every cell, so that it never answers what the engine answers"
    )


DETECTING = dc.replace(C16, manager="k3s", detects="this release reads no drop-ins")
SAID_AS_DEFAULT = [
    # engine, options, whether the reason in the table says that the handler is the default
    (C16, {}, True),
    (C16, {"set_as_default": "disabled"}, False),
    (DETECTING, {}, False),
    (dc.replace(DETECTING, default_handler="nvidia"), {}, True),
    (C23, {"injection": "nvidia-runtime"}, False),
    (C23, {}, False),
]


@pytest.mark.parametrize(("instance", "options", "default"), SAID_AS_DEFAULT)
def test_the_reason_says_as_default_handler_only_where_it_is_that(
    instance: Instance, options: dict[str, str], default: bool
) -> None:
    (why,) = [
        r.why
        for r in decide.decide_one(Policy(**options), instance, NONE).reasons
        if r.what == "injection"
    ]  # type: ignore[arg-type]
    assert get_code(why).endswith("-default") is default


REFUSED = [
    (C16, {"injection": "native-cdi"}, "decision.cdi-unsupported"),
    (C23, {"injection": "oci-hook"}, "decision.hooks-unsupported"),
    (C23, {"injection": "native-cdi", "cdi": "disabled"}, "decision.cdi-contradicted"),
    (CRIO, {"injection": "oci-hook", "set_as_default": "enabled"}, "decision.default-contradicted"),
]


@pytest.mark.parametrize(("instance", "options", "code"), REFUSED)
def test_a_force_that_cannot_work_is_refused_with_the_reason(
    instance: Instance, options: dict, code: str
) -> None:
    with pytest.raises(PlanError) as caught:
        decide.decide_one(Policy(**options), instance, NONE)
    assert caught.value.code == code
    assert caught.value.next, "an error says what to do next"


def test_where_a_manager_renders_the_handler_the_reason_says_of_it_neither_default_nor_what_the_release_could_do() -> (
    None
):
    off = dc.replace(C17.cdi, able=False, enabled=False)
    d = decide.decide_one(
        Policy(), dc.replace(C17, cdi=off, manager="k3s", detects="it reads no drop-in"), NONE
    )
    why = next(reason.why for reason in d.reasons if reason.what == "injection")
    assert (d.injection, d.default) == ("nvidia-runtime", False)
    assert get_coded([why]) == {"decision.manager-hides-cdi": {"engine": "containerd 1.7.24"}}


LIVE = dc.replace(
    C23,
    default_handler="nvidia",
    handlers={"runc": "/usr/sbin/runc", "nvidia": "/usr/bin/nvidia-container-runtime"},
)


@pytest.mark.parametrize(
    ("instance", "kubelet", "declared", "default"),
    [
        (LIVE, K130, (), True),  # a live cluster keeps it
        (dc.replace(LIVE, used_by_kubelet=True), NONE, (), True),
        (LIVE, K130, ("envvar",), True),
        (LIVE, K130, ("cdi-cri",), False),  # the device plugin was told
        (LIVE, NONE, (), False),  # no cluster
        # an image of a node, or a node whose kubelet is down
        (
            LIVE,
            Kubelet(installed=True),
            (),
            True,
        ),
        (LIVE, Kubelet(installed=True), ("cdi-cri",), False),
        (C23, K130, (), False),  # it is not the default today
    ],
)
def test_auto_never_takes_the_default_away_from_a_live_cluster(
    instance: Instance, kubelet: Kubelet, declared: tuple, default: bool
) -> None:
    d = decide.decide_one(Policy(device_plugin_strategy=declared), instance, kubelet)
    assert d.default is default
    why = next(r.why for r in d.reasons if r.what == "default")
    assert (get_code(why) in ("decision.kubelet-runs", "decision.kubelet-installed")) == default


@pytest.mark.parametrize(
    ("instances", "options", "isolation"),
    [
        ([C23], {}, "strict"),
        ([C16], {}, "compatible"),
        ([C23, C16], {}, "compatible"),
        ([C23], {"cdi": "disabled"}, "compatible"),
        ([C16], {"isolation": "strict"}, "strict"),
        ([C23], {"isolation": "compatible"}, "compatible"),
        ([C23], {"set_as_default": "enabled"}, "compatible"),
    ],
)
def test_isolation(instances: list[Instance], options: dict, isolation: str) -> None:
    record = decide.decide_host(Policy(**options), instances, GPU, NONE)
    assert record.isolation == isolation


@pytest.mark.parametrize(
    ("instances", "cap"),
    [
        ([C16], "0.6.0"),
        ([C17], "0.7.0"),
        ([C23, C17], "0.7.0"),
        ([C24], "1.1.0"),
        ([C23, C16], "1.1.0"),
    ],
)
def test_the_oldest_consumer_caps_the_cdi_version(instances: list[Instance], cap: str) -> None:
    assert decide.decide_host(Policy(), instances, GPU, NONE).cdi_version_cap == cap


def test_two_modes_on_one_host_are_refused_unless_the_binaries_with_a_mode_of_their_own_are_there() -> (
    None
):
    legacy = decide.decide_one(Policy(cdi="disabled"), C16, NONE)
    native = decide.decide_one(Policy(), CRIO, NONE)
    with pytest.raises(PlanError, match=r"\[decision\.two-modes\]$"):
        decide.arbitrate([native, legacy], {})
    mode, kept, reasons = decide.arbitrate(
        [native, legacy],
        {"nvidia-container-runtime.legacy": "/usr/bin/nvidia-container-runtime.legacy"},
    )
    assert (mode, kept) == ("cdi", [native, legacy])
    assert "mode-specific" in reasons[0].why


@pytest.mark.parametrize(("no_gpu", "decided"), [("skip", 0), ("prepare", 1)])
def test_a_host_without_a_gpu(no_gpu: str, decided: int) -> None:
    record = decide.decide_host(Policy(no_gpu=no_gpu), [C23], NO_GPU, NONE)  # type: ignore[arg-type]
    assert len(record.decisions) == decided
    assert bool(record.skipped) == (no_gpu == "skip")


@pytest.mark.parametrize("platform", ["tegra", "wsl"])
@pytest.mark.parametrize("no_gpu", ["skip", "prepare"])
def test_a_gpu_that_the_runtime_finds_in_a_mode_of_its_own_stays_in_it(
    platform: str, no_gpu: str
) -> None:
    own = dc.replace(NO_GPU, platform=platform, evidence="This is one of those")  # type: ignore[arg-type]
    record = decide.decide_host(Policy(no_gpu=no_gpu), [C16], own, NONE)  # type: ignore[arg-type]
    assert (record.decisions, record.skipped) == ((), "This is one of those")


def test_a_host_without_a_gpu_fails_where_that_is_set() -> None:
    with pytest.raises(PlanError, match=r"\[decision\.no-gpu-fails\]$"):
        decide.decide_host(Policy(no_gpu="fail"), [C23], NO_GPU, NONE)


def test_a_refused_instance_is_reported_and_never_decided_on() -> None:
    k3s = dc.replace(C23, manager="k3s", refusal=Refusal("k3s writes this file at every start"))
    record = decide.decide_host(Policy(), [k3s, CRIO], GPU, NONE)
    assert [d.engine for d in record.decisions] == ["crio"]
    assert record.refused == ((k3s.key, "k3s writes this file at every start"),)


ALONE = Refusal("it is left as it is")


@pytest.mark.parametrize(
    ("instances", "options", "owner"),
    [
        ([C23], {}, "collection"),
        ([C16], {"injection": "legacy"}, "none"),
        ([C23, C16], {"injection": "legacy"}, "none"),
        ([dc.replace(C23, refusal=ALONE)], {}, "collection"),
        ([dc.replace(C23, refusal=ALONE)], {"cdi": "disabled"}, "none"),
        ([dc.replace(C17, refusal=ALONE)], {}, "none"),
        ([], {}, "none"),
    ],
)
def test_a_host_has_specs_where_one_of_its_programs_reads_them(
    instances: list[Instance], options: dict, owner: str
) -> None:
    assert decide.decide_host(Policy(**options), instances, GPU, NONE).cdi_owner == owner


CRUN = dc.replace(C23, low_level="crun")


@pytest.mark.parametrize(
    ("instances", "options", "found", "runtimes"),
    [
        ([C23], {}, {"runc": "/usr/sbin/runc", "crun": "/usr/bin/crun"}, ("runc", "crun")),
        ([C23], {}, {}, ("runc",)),
        ([CRIO], {}, {"runc": "/usr/sbin/runc"}, ("/usr/libexec/crio/crun", "runc")),
        ([dc.replace(C23, low_level="/opt/youki")], {}, {"runc": "/usr/sbin/runc"}, ("/opt/youki", "runc")),
        # a shim of the node's own system is none that the NVIDIA runtime can hand over to
        ([dc.replace(C23, low_level="")], {}, {"runc": "/usr/sbin/runc"}, ("runc",)),
        ([dc.replace(C23, low_level="")], {}, {}, ("runc", "crun")),
        ([CRIO, CRUN], {}, {}, ("/usr/libexec/crio/crun", "crun")),
        ([CRIO, dc.replace(C23, low_level="")], {}, {}, ("/usr/libexec/crio/crun",)),
        # only who goes through the NVIDIA runtime has a say: of the hook it is the engine that
        # calls the low-level one
        ([CRIO, C23], {"injection": "oci-hook", "engines": ("crio",)}, {}, ("runc", "crun")),
        ([CRIO, dc.replace(C23, refusal=Refusal("left alone"))], {}, {}, ("/usr/libexec/crio/crun",)),
    ],
)  # fmt: skip
def test_low_level_runtimes(
    instances: list[Instance], options: dict, found: dict, runtimes: tuple
) -> None:
    assert (
        decide.decide_host(
            Policy(**options), instances, GPU, NONE, low_level=found
        ).low_level_runtimes
        == runtimes
    )


DOCKER_CRUN = dc.replace(OWN, low_level="/usr/bin/crun")


@pytest.mark.parametrize(
    ("instances", "options", "runtimes"),
    [
        # both inject by CDI: only management containers go through the NVIDIA runtime
        ([C23, CRIO], {}, ("runc", "/usr/libexec/crio/crun")),
        ([CRIO, C23], {}, ("/usr/libexec/crio/crun", "runc")),
        # the one whose workloads go through it decides
        ([CRIO, C16], {}, ("runc", "/usr/libexec/crio/crun")),
        # `docker run --runtime nvidia` is a workload
        ([C23, DOCKER_CRUN], {}, ("crun", "runc")),
    ],
)  # fmt: skip
def test_an_engine_that_injects_by_cdi_leaves_the_list_to_others(
    instances: list[Instance], options: dict, runtimes: tuple
) -> None:
    found = decide.decide_host(Policy(**options), instances, GPU, NONE)
    assert found.low_level_runtimes == runtimes
    told = [reason for reason in found.reasons if reason.what == "low_level_runtimes"]
    assert [get_code(reason.why) for reason in told] == ["engines.runtime-of-another"]
    assert [reason.value for reason in told] == [runtimes[0]]


@pytest.mark.parametrize(
    ("instances", "options"),
    [
        ([C23, CRIO], {"set_as_default": "enabled"}),
        ([C16, dc.replace(CRIO, cdi=C16.cdi)], {}),
        ([C16, DOCKER_CRUN], {}),
    ],
)
def test_workloads_of_two_low_level_runtimes_are_refused(
    instances: list[Instance], options: dict
) -> None:
    with pytest.raises(PlanError) as refused:
        decide.decide_host(Policy(**options), instances, GPU, NONE)
    assert refused.value.code == "engines.runtimes-differ"


def test_engines_with_different_low_level_runtimes_are_refused() -> None:
    with pytest.raises(PlanError) as refused:
        decide.decide_host(Policy(set_as_default="enabled"), [C23, CRIO], GPU, NONE)
    assert refused.value.code == "engines.runtimes-differ"
    assert refused.value.values == {
        "one": "containerd:/etc/containerd", "program": "/usr/sbin/runc", "other": "crio:/etc/crio",
        "other_program": "/usr/libexec/crio/crun",
    }  # fmt: skip
    assert decide.decide_host(
        Policy(engines=("crio",)), [C23, CRIO], GPU, NONE
    ).low_level_runtimes == ("/usr/libexec/crio/crun",)


@pytest.mark.parametrize(
    ("options", "instance", "names"),
    [
        ({}, C23, ["nvidia-container-toolkit-base"]),
        ({}, C16, ["nvidia-container-toolkit-base"]),
        ({"cdi": "disabled"}, C23, list(decide.LEGACY_PACKAGES)),
        ({"cdi": "disabled"}, CRIO, list(decide.LEGACY_PACKAGES)),
    ],
)
def test_the_base_package_is_enough_without_the_prestart_hook(
    options: dict, instance: Instance, names: list[str]
) -> None:
    assert list(decide.decide_host(Policy(**options), [instance], GPU, NONE).packages) == names


ENGINES = [C16, C17, C170, C23, C24, CRIO]
OPTIONS = [
    {"injection": i, "cdi": c, "set_as_default": d}
    for i, c, d in itertools.product(
        ("auto", *decide.INJECTIONS), ("auto", "disabled"), ("auto", "enabled")
    )
]


@given(st.sampled_from(ENGINES), st.sampled_from(OPTIONS), st.sampled_from([NONE, K128, K130]))
def test_every_decision_is_whole_or_refused_with_a_next_step(
    instance: Instance, options: dict, kubelet: Kubelet
) -> None:
    refused: PlanError | None = None
    try:
        d = decide.decide_one(Policy(**options), instance, kubelet)
    except PlanError as error:
        refused = error
    if refused:
        assert refused.next, "an error says what to do next"
        return
    assert d.hook == (d.injection == "oci-hook") == (not d.handler)
    assert not (d.enable_cdi and instance.cdi.enabled)
    assert all(r.why for r in d.reasons)
    assert d.injection != "native-cdi" or instance.cdi.able


def test_every_injection_has_an_age() -> None:
    assert set(decide.AGE) == set(decide.INJECTIONS)
