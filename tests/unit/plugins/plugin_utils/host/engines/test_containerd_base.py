# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which handler ours is copied from, on configurations as node images, cloud providers and people
write them.
"""

from __future__ import annotations

import fnmatch
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    base,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    cgroup_driver,
    kubelet_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet.cgroup_driver import (
    InUse,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit import builders
from tests.unit.containerd_handlers import CGROUPFS, KATA, RUNC, SYSTEMD, cri, entry
from tests.unit.containerd_plans import NVIDIA, ROOT, applied, loaded, plan

BUILTIN = base.BUILTIN


# case: the CRI table, the handler that the properties come from, SystemdCgroup, the handler that
# says it
BASES: dict[str, tuple[dict[str, Any], str, bool, str]] = {
    "nothing is declared": (cri(), BUILTIN, False, BUILTIN),
    "kubeadm, image-builder: runc with systemd": (cri(runc=entry(systemd=True)), "runc", True, "runc"),
    "EKS nodeadm, NVIDIA variant: nvidia is the default, no runc": (
        cri("nvidia", nvidia=entry(program=NVIDIA, systemd=True)), "nvidia", True, "nvidia"),
    "AKS GPU: the default has a name of its own": (
        cri("nvidia-container-runtime", **{"nvidia-container-runtime": entry(program=NVIDIA, systemd=True), "untrusted": entry()}),
        "nvidia-container-runtime", True, "nvidia-container-runtime"),
    "Bottlerocket: shimpei is the default": (cri("shimpei", shimpei=entry(program="shimpei", systemd=True)), "shimpei", True, "shimpei"),
    "crun is the default, runc says nothing": (
        cri("crun", crun=entry(program="/usr/bin/crun", systemd=True), runc=entry()), "crun", True, "crun"),
    "crun is there, not default": (cri("kata", kata=KATA, crun=entry(program="crun", systemd=True)), "crun", True, "crun"),
    "nvidia-ctk on a fresh file: nvidia does not say": (
        cri(nvidia=entry(program=NVIDIA), runc=entry(systemd=True)), "nvidia", True, "runc"),
    "nobody says": (cri(nvidia=entry(program=NVIDIA), runc=entry()), "nvidia", False, BUILTIN),
    "Kata is the default": (cri("kata", kata=KATA, runc=entry(systemd=True)), "runc", True, "runc"),
    "gVisor is the default": (cri("runsc", runsc=entry("io.containerd.runsc.v1")), BUILTIN, False, BUILTIN),
    "gVisor behind runc's type": (cri("gv", gv=entry(program="/usr/local/bin/runsc"), runc=entry(systemd=True)), "runc", True, "runc"),
    "Sysbox is the default": (
        cri("sysbox-runc", **{"sysbox-runc": entry(program="/usr/bin/sysbox-runc", systemd=True)}), BUILTIN, False, BUILTIN),
    "a sandboxer of its own": (cri("vm", vm=entry(sandboxer="shim", systemd=True)), BUILTIN, False, BUILTIN),
    "a shim by its path": (cri("my", my=entry(runtime_path="/opt/shim", systemd=True)), BUILTIN, False, BUILTIN),
    "an empty type is runc's": (cri(runc=entry("", systemd=True)), "runc", True, "runc"),
    "MicroK8s until 2022: runc.v1": (cri(runc=entry("io.containerd.runc.v1", systemd=True)), "runc", True, "runc"),
}  # fmt: skip


@pytest.mark.parametrize("case", BASES)
def test_the_first_handler_that_fits_is_copied(case: str) -> None:
    table, origin, systemd, cgroup_origin = BASES[case]
    found = base.choose_containerd_base(table, Handler())
    assert (found.origin, found.options["SystemdCgroup"]) == (origin, systemd)
    assert getattr(found.cgroup_why, "values", {})["handler"] == cgroup_origin


# case: the CRI table, what our own first change is known of, the program that the NVIDIA runtime
# hands over to
PROGRAMS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "nothing is declared": (cri(), {}, "runc"),
    "crun is the default": (cri("crun", crun=entry(program="/usr/bin/crun"), runc=entry()), {}, "/usr/bin/crun"),
    "youki is the default": (cri("youki", youki=entry(program="/opt/youki")), {}, "/opt/youki"),
    "runc of one's own": (cri(runc=entry(program="/opt/bin/runc")), {}, "/opt/bin/runc"),
    "NVIDIA's is the default": (cri("nvidia", nvidia=entry(program=NVIDIA), crun=entry(program="crun")), {}, "crun"),
    "ours is the default, crun was": (
        cri("nvidia", nvidia=entry(program=NVIDIA), crun=entry(program="/usr/bin/crun"), runc=entry()),
        {"written": True, "default_before": "crun"}, "/usr/bin/crun"),
    "Bottlerocket: its own shim is never taken over": (cri("shimpei", shimpei=entry(program="shimpei")), {}, "runc"),
    "Kata is the default": (cri("kata", kata=KATA, runc=entry(program="/opt/bin/runc")), {}, "/opt/bin/runc"),
    "gVisor behind runc's type": (cri("gv", gv=entry(program="/usr/local/bin/runsc")), {}, "runc"),
}  # fmt: skip


@pytest.mark.parametrize("case", PROGRAMS)
def test_the_program_that_nvidias_hands_over_to(case: str) -> None:
    table, known, program = PROGRAMS[case]
    assert base.find_containerd_base_program(table, Handler(), **known) == program


def test_what_we_wrote_says_nothing_of_the_node() -> None:
    # The node's administrator has changed runc since; ours is the default by our own doing.
    table = cri("nvidia", nvidia=entry(program=NVIDIA, systemd=False), runc=entry(systemd=True))
    assert base.choose_containerd_base(table, Handler()).origin == "nvidia"
    assert (
        base.choose_containerd_base(table, Handler(), written=True, default_before="runc").options[
            "SystemdCgroup"
        ]
        is True
    )


def test_the_default_from_before_counts_where_ours_is_the_default() -> None:
    table = cri(
        "nvidia",
        nvidia=entry(program=NVIDIA),
        crun=entry(program="crun", systemd=True),
        runc=entry(),
    )
    assert (
        base.choose_containerd_base(table, Handler(), written=True, default_before="crun").origin
        == "crun"
    )


DISAGREE = cri("nvidia", nvidia=entry(program=NVIDIA, systemd=False), runc=entry(systemd=True))
AGREE = cri("nvidia", nvidia=entry(program=NVIDIA, systemd=True), runc=entry(systemd=True))
UNSAID = cri("nvidia", nvidia=entry(program=NVIDIA), runc=entry(systemd=True))
DOUBT, SETTLED = "containerd.cgroup-drivers-differ", "containerd.cgroup-driver-settled"


@pytest.mark.parametrize(
    ("table", "known", "systemd", "why", "doubt"),
    [
        (DISAGREE, SYSTEMD, True, SETTLED, ""),
        (DISAGREE, CGROUPFS, False, SETTLED, ""),
        (DISAGREE, cgroup_driver.UNKNOWN, False, "containerd.cgroup-driver-as-handler", DOUBT),
        (UNSAID, CGROUPFS, False, "test.kubelet-uses-cgroupfs", ""),
        (UNSAID, cgroup_driver.UNKNOWN, True, "containerd.cgroup-driver-as-other-handler", ""),
    ],
)
def test_what_is_known_of_the_driver_settles_it(
    table: dict[str, Any], known: InUse, systemd: bool, why: str, doubt: str
) -> None:
    found = base.choose_containerd_base(table, Handler()).settle_driver(known)
    assert (found.options["SystemdCgroup"], get_code(found.cgroup_why), get_code(found.doubt)) == (
        systemd,
        why,
        doubt,
    )


@pytest.mark.parametrize(
    ("table", "doubt", "unsaid"),
    [
        (DISAGREE, DOUBT, False),
        (AGREE, "", False),
        (UNSAID, "", True),
        (cri(), "", True),
        (cri(runc=entry(systemd=False)), "", False),
    ],
)
def test_where_there_is_doubt(table: dict[str, Any], doubt: str, unsaid: bool) -> None:
    found = base.choose_containerd_base(table, Handler())
    assert (get_code(found.doubt), found.unsaid) == (doubt, unsaid)


@pytest.mark.parametrize(
    ("groups", "driver"),
    [
        ([], ""),
        (["/sys/fs/cgroup/kubepods.slice"], ""),
        (["/sys/fs/cgroup/kubepods.slice/kubepods-podab12.slice"], "systemd"),
        (
            [
                "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podab12.slice"
            ],
            "systemd",
        ),
        (
            [
                "/sys/fs/cgroup/systemd/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice"
            ],
            "systemd",
        ),
        (["/sys/fs/cgroup/kubepods/podab12"], "cgroupfs"),
        (["/sys/fs/cgroup/kubepods/burstable/podab12"], "cgroupfs"),
        (["/sys/fs/cgroup/systemd/kubepods/besteffort/podab12"], "cgroupfs"),
    ],
)
def test_pods_show_the_driver(groups: list[str], driver: str) -> None:
    assert (
        cgroup_driver.get_cgroup_driver_in_use(
            kubelet_facts.read_kubelet_facts(
                builders.obs(answers={kubelet_facts.ask_for_pod_groups()["id"]: pods(groups)})
            )
        ).driver
        == driver
    )


def pods(groups: list[str]) -> dict[str, Any]:
    """The answer to the question for pods' control groups, with the patterns applied as the node
    applies them.
    """
    like = kubelet_facts.ask_for_pod_groups()["patterns"]
    match = [
        g
        for g in groups
        if any(g.count("/") == p.count("/") and fnmatch.fnmatchcase(g, p) for p in like)
    ]
    return {"files": [{"path": g, "real": g, "type": "dir", "mode": 0o755} for g in match]}


def test_pods_in_both_places_are_refused() -> None:
    answers = {
        kubelet_facts.ask_for_pod_groups()["id"]: pods(
            ["/sys/fs/cgroup/kubepods/poda", "/sys/fs/cgroup/kubepods.slice/kubepods-podb.slice"]
        )
    }
    with pytest.raises(PlanError, match=r"\[kubernetes\.pods-of-both-cgroup-drivers\]"):
        cgroup_driver.get_cgroup_driver_in_use(
            kubelet_facts.read_kubelet_facts(builders.obs(answers=answers))
        )


# pkg/cri/server/helpers.go, generateRuntimeOptions: with options the handler's own count, without
# them its keys and the plugin's driver.
@pytest.mark.parametrize(
    ("more", "plugin", "options"),
    [
        ({}, True, {"SystemdCgroup": True}),
        ({}, False, {"SystemdCgroup": False}),
        ({"runtime_engine": "/usr/bin/crun", "runtime_root": "/run/own"}, True,
         {"BinaryName": "/usr/bin/crun", "Root": "/run/own", "SystemdCgroup": True}),
        ({"options": {"SystemdCgroup": True}}, False, {"SystemdCgroup": True}),
        ({"options": {"SystemdCgroup": False}}, True, {"SystemdCgroup": False}),
        ({"options": {"Runtime": "/usr/bin/crun", "RuntimeRoot": "/run/own", "Shim": "x"}, "runtime_root": "/run/other"}, True,
         {"BinaryName": "/usr/bin/crun", "Root": "/run/own", "SystemdCgroup": False}),
    ],
)  # fmt: skip
def test_the_linux_type_is_translated(
    more: dict[str, Any], plugin: bool, options: dict[str, Any]
) -> None:
    found = base.choose_containerd_base(
        {**cri(runc={"runtime_type": releases.LINUX_TYPE, **more}), "systemd_cgroup": plugin},
        Handler(),
    )
    assert found.options == options


@pytest.mark.parametrize(
    ("theirs", "handler", "code"),
    [
        (KATA, Handler(), "containerd.handler-of-other-kind"),
        (entry(program="/x/runsc"), Handler(), "containerd.handler-of-other-kind"),
        (entry(runtime_path="/opt/shim"), Handler(), "containerd.handler-of-other-kind"),
        (entry(program="nvidia-oci"), Handler(), "engine.handler-other-program"),
        (entry(program="nvidia-oci"), Handler(chosen=True), ""),
        (entry(program="nvidia-oci"), Handler(binary="nvidia-oci"), ""),
        (entry(program="/usr/local/nvidia/toolkit/nvidia-container-runtime"), Handler(), ""),
        (entry(program="/usr/bin/nvidia-container-runtime.legacy"), Handler(), ""),
        (entry(), Handler(), ""),
    ],
)
def test_a_handler_of_our_name_that_is_somebody_elses_is_refused(
    theirs: dict[str, Any], handler: Handler, code: str
) -> None:
    table = cri(nvidia=theirs)
    if not code:
        assert base.choose_containerd_base(table, handler).origin == "nvidia"
        return
    with pytest.raises(PlanError) as refused:
        base.choose_containerd_base(table, handler)
    assert refused.value.code == code


# ---------------------------------------------------------------- through the whole plan

V2, V3 = 'plugins."io.containerd.grpc.v1.cri"', "plugins.'io.containerd.cri.v1.runtime'"


def config(
    version: int, default: str, name: str, kind: str, more: str = "", options: str = ""
) -> str:
    table = V2 if version == 2 else V3
    return f"""version = {version}
[{table}.containerd]
default_runtime_name = "{default}"
[{table}.containerd.runtimes.{name}]
runtime_type = "{kind}"
{more}
[{table}.containerd.runtimes.{name}.options]
{options}
"""


def ours(release: str, text: str) -> dict[str, Any]:
    """Our handler as the files say it after the change."""
    files = applied({ROOT: text}, plan(release, {ROOT: text}))
    found: dict[str, Any] = {}
    for content in files.values():
        data = toml.load_toml(content, "")
        for names in (containerd_places.V2_NAMES, containerd_places.V3_NAMES):
            found = {
                **found,
                **(toml.look_up_toml(data, (*names, "containerd", "runtimes", "nvidia")) or {}),
            }
    return found


@pytest.mark.parametrize("release", ["1.6.20", "1.7.35", "2.1.9", "2.4.2"])
def test_eks_keeps_its_cgroup_driver_on_every_release(release: str) -> None:
    version = 2 if release.startswith("1.") else 3
    spec = 'base_runtime_spec = "/etc/containerd/base-runtime-spec.json"'
    text = config(
        version, "nvidia", "nvidia", RUNC, spec, f'BinaryName = "{NVIDIA}"\nSystemdCgroup = true'
    )
    found = ours(release, text)
    assert found["options"] == {"BinaryName": NVIDIA, "SystemdCgroup": True}
    assert found["base_runtime_spec"] == "/etc/containerd/base-runtime-spec.json"


@pytest.mark.parametrize("kind", ["io.containerd.runc.v1", "io.containerd.runc.v2", ""])
def test_every_type_of_runc_hands_its_properties_on(kind: str) -> None:
    text = config(
        2,
        "runc",
        "runc",
        kind,
        'base_runtime_spec = "/etc/spec.json"',
        'SystemdCgroup = true\nRoot = "/run/own"',
    )
    found = ours("1.7.35", text)
    assert found["runtime_type"] == RUNC
    assert found["options"] == {"BinaryName": NVIDIA, "SystemdCgroup": True, "Root": "/run/own"}
    assert found["base_runtime_spec"] == "/etc/spec.json"


def test_nothing_of_kata_is_copied() -> None:
    more = 'snapshotter = "nydus"\npod_annotations = ["io.kata*"]'
    text = config(2, "kata", "kata", "io.containerd.kata.v2", more, 'ConfigPath = "/opt/kata.toml"')
    found = ours("1.7.35", text)
    assert set(found) == {"runtime_type", "container_annotations", "options"}
    assert found["options"] == {"BinaryName": NVIDIA, "SystemdCgroup": False}


def test_the_program_of_a_node_systems_own_default_is_not_taken_over_and_that_is_said() -> None:
    text = config(3, "shimpei", "shimpei", RUNC, "", 'BinaryName = "shimpei"\nSystemdCgroup = true')
    found = plan("2.1.9", {ROOT: text})
    assert "engine.program-not-taken-over" in map(get_code, found.advice)
    assert ours("2.1.9", text)["options"] == {"BinaryName": NVIDIA, "SystemdCgroup": True}


def test_a_reason_names_the_handler_that_it_was_taken_from() -> None:
    text = config(2, "nvidia", "nvidia", RUNC, "", f'BinaryName = "{NVIDIA}"')
    text += f"[{V2}.containerd.runtimes.runc.options]\nSystemdCgroup = true\n"
    reasons = {d.key.rsplit(".", 1)[-1]: d.why for d in plan("1.7.35", {ROOT: text}).differences}
    assert get_code(reasons["SystemdCgroup"]) == "containerd.cgroup-driver-as-other-handler"


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "SystemdCgroup": st.booleans(),
        "Root": st.just("/run/own"),
        "NoPivotRoot": st.booleans(),
    },
)
PROPERTIES = st.fixed_dictionaries(
    {"runtime_type": st.sampled_from(("", RUNC, "io.containerd.runc.v1")), "options": OPTIONS},
    optional={
        "base_runtime_spec": st.just("/etc/spec.json"),
        "pod_annotations": st.just(["a/*"]),
        "privileged_without_host_devices": st.booleans(),
    },
)
NAMES = st.sampled_from(("nvidia", "runc", "crun", "other"))


@given(st.dictionaries(NAMES, PROPERTIES), NAMES)
def test_no_property_of_the_handler_or_of_the_default_is_lost(
    runtimes: dict[str, Any], default: str
) -> None:
    """What the handler of the same name says stays, else what the default handler says is taken
    over; only the driver may be added.
    """
    found = base.choose_containerd_base(cri(default, **runtimes), Handler())
    model = runtimes.get("nvidia") or runtimes.get(default)
    if model is not None:
        assert found.entry == model
        assert {**found.options, **model["options"]} == found.options
        assert set(found.options) - set(model["options"]) <= {"SystemdCgroup"}


def test_a_second_run_changes_nothing() -> None:
    text = config(2, "nvidia", "nvidia", RUNC, "", f'BinaryName = "{NVIDIA}"\nSystemdCgroup = true')
    after = applied({ROOT: text}, plan("1.7.35", {ROOT: text}, default=True))[ROOT]
    options = {"BinaryName": NVIDIA, "SystemdCgroup": True}
    assert plan(
        "1.7.35",
        {ROOT: after},
        Policy(),
        running=True,
        default=True,
        cri=loaded("nvidia", nvidia=options),
    ).empty
