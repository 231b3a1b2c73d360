# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cgroup driver of our handlers: by the kubelet where handlers leave doubt, and never another
one for the whole node.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    cgroup_choice as containerd_cgroup_choice,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    cgroup_driver,
    kubelet_facts,
)

from tests.unit import builders
from tests.unit.containerd_handlers import CGROUPFS, KATA, cri, entry
from tests.unit.containerd_plans import DECISION, NVIDIA, ROOT, applied, instance

PODS = {
    "": [],
    "systemd": ["/sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice"],
    "cgroupfs": ["/sys/fs/cgroup/kubepods/besteffort/pod1"],
}
KUBELET = {
    "pid": 9,
    "exe": "/usr/bin/kubelet",
    "argv": ["kubelet", "--config=/k.yaml"],
    "unit": "kubelet.service",
}


@pytest.mark.parametrize(
    ("table", "systemd"),
    [
        (cri(runc=entry(systemd=True)), True),
        (cri(runc=entry(systemd=False)), False),
        (cri(runc=entry(program="runc")), False),  # options without it say no
        # the default one first
        (
            cri("nvidia", nvidia=entry(systemd=True), crun=entry(systemd=False)),
            True,
        ),
        # then by name
        (
            cri("kata", kata=KATA, runc=entry(systemd=False), crun=entry(systemd=True)),
            True,
        ),
        # one without options says nothing
        (
            cri("runc", runc={"runtime_type": releases.RUNC_TYPE}, crun=entry(systemd=False)),
            False,
        ),
        (cri("kata", kata=KATA), True),  # then systemd itself is looked for
    ],
)
def test_what_containerd_tells_the_kubelet(table: dict[str, Any], systemd: bool) -> None:
    assert containerd_cgroup_choice.reports_systemd(table) is systemd


def config(release: str, default: str, **handlers: str) -> str:
    """A configuration of this release: a handler is said to have systemd, cgroupfs, or nothing."""
    names = '"io.containerd.grpc.v1.cri"' if release < "2" else "'io.containerd.cri.v1.runtime'"
    at = f"plugins.{names}.containerd"
    lines = [
        f"version = {2 if release < '2' else 3}",
        f"[{at}]",
        f'default_runtime_name = "{default}"',
    ]
    for name, said in handlers.items():
        lines += [
            f"[{at}.runtimes.{name}]",
            f'runtime_type = "{releases.RUNC_TYPE}"',
            f"[{at}.runtimes.{name}.options]",
        ]
        lines += [f'BinaryName = "{NVIDIA if name.startswith("nv") else "/usr/bin/" + name}"']
        lines += [f"SystemdCgroup = {str(said == 'systemd').lower()}"] if said else []
    return "\n".join(lines) + "\n"


def planned(
    release: str,
    text: str,
    *,
    pods: str = "",
    kubelet: str = "",
    answer: str = "",
    policy: Policy | None = None,
    **more: Any,
) -> Plan:
    """pods: their driver; kubelet: what its file says; answer: what RuntimeConfig does."""
    seen = builders.obs(
        files={ROOT: text, "/k.yaml": kubelet},
        processes=[KUBELET] if kubelet else [],
        commands={"kubelet --version": "Kubernetes v1.34.1"},
        cri={"RuntimeConfig:/run/containerd/containerd.sock": {"driver": answer}},
        answers={
            kubelet_facts.ask_for_pod_groups()["id"]: {"files": [{"path": p} for p in PODS[pods]]}
        },
    )
    return containerd_detect.plan_instance(
        policy or Policy(),
        containerd_detect.read_facts(policy or Policy(), seen),
        instance(release),
        dc.replace(DECISION, **more),
    )


def ours(release: str, text: str, plan: Plan, name: str = "nvidia") -> dict[str, Any]:
    """The options of a handler afterwards, with the reason for its driver."""
    found: dict[str, Any] = {}
    for content in applied({ROOT: text}, plan).values():
        for names in (containerd_places.V2_NAMES, containerd_places.V3_NAMES):
            found.update(
                toml.look_up_toml(
                    toml.load_toml(content, ""), (*names, "containerd", "runtimes", name, "options")
                )
                or {}
            )
    return {
        **found,
        "why": [
            get_code(d.why)
            for d in plan.differences
            if d.key.endswith("SystemdCgroup") and name in d.key
        ],
    }


OLD, NEW = "1.7.35", "2.1.9"
SET = "cgroupDriver: systemd\n"
BY_PODS, IN_DOUBT = "kubernetes.pods-use-cgroup-driver", "containerd.cgroup-driver-settled"
AS_HANDLER, AS_OTHER = (
    "containerd.cgroup-driver-as-handler",
    "containerd.cgroup-driver-as-other-handler",
)
# case: release, handlers, what is known of the kubelet, SystemdCgroup, the code of why
SETTLED: dict[str, tuple[str, dict[str, str], dict[str, Any], bool, str]] = {
    "nobody says, pods of systemd": (OLD, {"runc": ""}, {"pods": "systemd"}, True, BY_PODS),
    "nobody says, nothing known": (OLD, {"runc": ""}, {}, False, AS_OTHER),
    "nobody says, kubeadm on 1.7": (OLD, {"runc": ""}, {"kubelet": SET}, True, "kubernetes.cgroup-driver-set"),
    "nobody says, the kubelet asks 2.1": (
        NEW, {"runc": ""}, {"kubelet": SET, "answer": "cgroupfs"}, False,
        "kubernetes.engine-tells-cgroup-driver"),
    "they disagree, pods of cgroupfs": (
        NEW, {"runc": "systemd", "crun": "cgroupfs"}, {"pods": "cgroupfs"}, False, IN_DOUBT),
    "they disagree, nothing known": (NEW, {"runc": "systemd", "crun": "cgroupfs"}, {}, True, AS_HANDLER),
    "they agree, so nobody is asked": (NEW, {"runc": "systemd", "crun": "systemd"}, {"pods": "cgroupfs"}, True, AS_HANDLER),
    # nvidia-ctk on a fresh file leaves it out
    "one that is there does not say": (OLD, {"runc": "systemd", "nvidia": ""}, {}, True, AS_OTHER),
    "it does not say, and the kubelet knows better": (
        OLD, {"runc": "systemd", "nvidia": ""}, {"pods": "cgroupfs"}, False, BY_PODS),
}  # fmt: skip


@pytest.mark.parametrize("case", SETTLED)
def test_the_kubelet_settles_what_handlers_leave_open(case: str) -> None:
    release, handlers, known, systemd, code = SETTLED[case]
    text = config(release, "runc", **handlers)
    found = ours(release, text, planned(release, text, **known))
    assert found["SystemdCgroup"] is systemd
    assert found["why"] == [code]


def test_a_default_without_options_gets_what_another_handler_makes_containerd_tell() -> None:
    text = config(NEW, "nvidia", a="systemd")
    text += (
        "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]\n"
        f'runtime_type = "{releases.RUNC_TYPE}"\n'
    )
    assert ours(NEW, text, planned(NEW, text, default=True))["SystemdCgroup"] is True


def test_the_record_says_which_driver_and_why() -> None:
    seen = builders.obs(files={ROOT: config(OLD, "runc", runc="")}, answers={kubelet_facts.ask_for_pod_groups()["id"]: {"files": [
        {"path": path} for path in PODS["systemd"]]}})  # fmt: skip
    (reason,) = containerd_detect.explain_decision(
        Policy(), containerd_detect.read_facts(Policy(), seen), instance(OLD), DECISION
    )
    assert (reason.what, reason.value) == ("cgroup_driver", "systemd")
    assert get_code(reason.why) == BY_PODS
    assert (
        containerd_detect.explain_decision(
            Policy(),
            containerd_detect.read_facts(Policy(), builders.obs(files={ROOT: "a = = 1"})),
            instance(OLD),
            DECISION,
        )
        == ()
    )
    assert (
        containerd_detect.explain_decision(
            Policy(),
            containerd_detect.read_facts(Policy(), seen),
            instance(OLD),
            dc.replace(DECISION, handler=""),
        )
        == ()
    )


# case: release, the default, handlers, the new default's driver
DEFAULTS: dict[str, tuple[str, str, dict[str, str], bool]] = {
    "the default says it": (NEW, "runc", {"runc": "systemd"}, True),
    "the default does not say, another does": (NEW, "crun", {"crun": "", "runc": "systemd"}, False),
    "one of our name says otherwise": (NEW, "runc", {"runc": "systemd", "nvidia": "cgroupfs"}, True),
    "1.x: one of our name says more": (OLD, "runc", {"runc": "cgroupfs", "nvidia": "systemd"}, True),
    "1.x: one of our name says otherwise": (OLD, "runc", {"runc": "systemd", "nvidia": "cgroupfs"}, True),
    "1.x: nobody is told, so the next one's word is taken": (OLD, "crun", {"crun": "", "runc": "systemd"}, True),
}  # fmt: skip


@pytest.mark.parametrize("case", DEFAULTS)
def test_a_new_default_has_the_driver_of_the_one_before(case: str) -> None:
    release, default, handlers, systemd = DEFAULTS[case]
    text = config(release, default, **handlers)
    found = planned(release, text, default=True)
    assert ours(release, text, found)["SystemdCgroup"] is systemd
    files = applied({ROOT: text}, found)
    again = builders.obs(files=files)
    assert containerd_detect.plan_instance(
        Policy(),
        containerd_detect.read_facts(Policy(), again),
        instance(release),
        dc.replace(DECISION, default=True),
    ).empty


@pytest.mark.parametrize("release", [OLD, NEW])
def test_a_default_that_would_change_the_driver_is_refused(release: str) -> None:
    """nvidia is the default and has systemd; runc, which would take its place, does not."""
    text = config(release, "nvidia", nvidia="systemd", runc="cgroupfs")
    with pytest.raises(PlanError) as refused:
        planned(release, text, policy=Policy(set_as_default="disabled"))
    assert (
        refused.value.code
        == f"containerd.default-{'drops' if release == OLD else 'changes'}-cgroup-driver"
    )
    values = dict(refused.value.values)
    assert get_code(step := values.pop("step")) == "containerd.set-cgroup-driver"
    assert dict(step.values) == {"value": "true", "handler": "runc"}
    assert values == {"new": "runc", "old": "nvidia", "then": "cgroupfs", "before": "systemd"}


@pytest.mark.parametrize("said", ["cgroupfs", ""])
def test_one_of_our_name_that_has_systemd_becomes_no_default_where_it_would_have_to_lose_it(
    said: str,
) -> None:
    text = config(NEW, "runc", runc=said, nvidia="systemd")
    with pytest.raises(PlanError, match=r"\[containerd\.default-changes-cgroup-driver\]"):
        planned(NEW, text, default=True)
    assert ours(NEW, text, planned(NEW, text))["SystemdCgroup"] is True


def test_pods_that_contradict_what_the_kubelet_is_told_keep_the_default_as_it_is() -> None:
    text = config(NEW, "runc", runc="")
    with pytest.raises(PlanError, match=r"\[containerd\.default-changes-cgroup-driver\]"):
        planned(NEW, text, pods="systemd", default=True)
    # beside the default it is right
    assert ours(NEW, text, planned(NEW, text, pods="systemd"))["SystemdCgroup"] is True
    chosen = Policy(handlers=(Handler(options={"SystemdCgroup": True}),))
    assert (
        ours(NEW, text, planned(NEW, text, pods="systemd", default=True, policy=chosen))[
            "SystemdCgroup"
        ]
        is True
    )


def test_what_the_kubelet_told_is_kept_apart_from_what_handlers_say() -> None:
    base = containerd_cgroup_choice.containerd_base.choose_containerd_base(
        cri(runc=entry(systemd=True), crun=entry(systemd=False)), Handler()
    )
    assert containerd_cgroup_choice._settle_base_driver(
        base, CGROUPFS, cgroup_driver.UNKNOWN
    ).by_kubelet
    assert not containerd_cgroup_choice._settle_base_driver(
        base, cgroup_driver.UNKNOWN, CGROUPFS
    ).by_kubelet


# case: the default handler now, the types and drivers of handlers, the driver of pods, and the
# handler whose type is the obstacle
TYPES = {
    "the default one has no type": ("runc", {"runc": ("", False), "nvidia": (releases.RUNC_TYPE, True)}, "cgroupfs", "runc"),
    "the default one has the first type of runc": (
        "runc", {"runc": ("io.containerd.runc.v1", False), "nvidia": ("", True)}, "cgroupfs", "runc"),
    "the default one has the type of 1.x": (
        "runc", {"runc": (releases.LINUX_TYPE, True), "nvidia": (releases.RUNC_TYPE, False)}, "systemd", "runc"),
}  # fmt: skip


@pytest.mark.parametrize("case", TYPES)
def test_a_refusal_does_not_ask_for_what_is_set_already(case: str) -> None:
    """containerd 2.x reports the driver of handlers of type runc.v2 alone, so the type is what a
    person changes first.
    """
    default, handlers, pods, obstacle = TYPES[case]
    text = config(
        NEW,
        default,
        **{
            name: "systemd" if systemd else "cgroupfs"
            for name, (_kind, systemd) in handlers.items()
        },
    )
    parts = text.split(f'runtime_type = "{releases.RUNC_TYPE}"')
    text = "".join(
        part + end
        for part, end in zip(
            parts,
            [f'runtime_type = "{kind}"' for kind, _driver in handlers.values()] + [""],
            strict=True,
        )
    )
    with pytest.raises(PlanError) as refusal:
        planned(NEW, text, pods=pods, default=True)
    step = refusal.value.values["step"]
    assert (get_code(step), dict(step.values)) == (
        "containerd.set-runtime-type",
        {"type": releases.RUNC_TYPE, "handler": obstacle},
    )
