# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cgroup driver the kubelet uses, where no pod shows it: release, feature gate, the engine's
answer, flag, drop-ins, file.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    cgroup_driver,
    kubelet_facts,
)

from tests.unit import builders
from tests.unit.records import instance

FILE, FOLDER, SOCKET = (
    "/var/lib/kubelet/config.yaml",
    "/etc/kubernetes/kubelet.d",
    "/run/containerd/containerd.sock",
)
UNIMPLEMENTED: dict[str, Any] = {"driver": ""}
CGROUPFS, SYSTEMD = {"driver": "cgroupfs"}, {"driver": "systemd"}
OFF, ON = (f"featureGates:\n  KubeletCgroupDriverFromCRI: {word}\n" for word in ("false", "true"))
JSON = '{\n\t"cgroupDriver": "systemd",\n\t"clusterDNS": ["10.0.0.10"]\n}'
SET = "cgroupDriver: systemd\n"


def known(
    version: str,
    *flags: str,
    files: dict[str, str] | None = None,
    says: Any = None,
    running: bool = True,
) -> cgroup_driver.InUse:
    shown = {
        path: file_places.show_own_text(text, file_places.KUBELET_CONFIG)
        for path, text in (files or {}).items()
    }
    kubelet = {
        "pid": 9,
        "exe": "/usr/bin/kubelet",
        "argv": ["kubelet", *flags],
        "unit": "kubelet.service",
    }
    seen = builders.obs(
        files=shown,
        processes=[kubelet] if running else [],
        commands={"kubelet --version": f"Kubernetes v{version}" if version else ""},
        cri={f"RuntimeConfig:{SOCKET}": UNIMPLEMENTED if says is None else says},
    )
    return cgroup_driver.get_known_cgroup_driver(kubelet_facts.read_kubelet_facts(seen), instance())


CONFIG, DIR = f"--config={FILE}", f"--config-dir={FOLDER}"
ASKED, STATED, BUILT_IN = (
    f"kubernetes.{name}"
    for name in ("engine-tells-cgroup-driver", "cgroup-driver-set", "cgroup-driver-built-in")
)
FLAG = "--cgroup-driver"
# case: the kubelet's release and flags, its files, what the engine answers, the driver, the code of
# how it is known, where that is from
CASES: dict[str, tuple[str, tuple[str, ...], dict[str, str], Any, str, str, str]] = {
    "kubeadm on containerd 1.7": ("1.34.1", (CONFIG,), {FILE: SET}, UNIMPLEMENTED, "systemd", STATED, FILE),
    "the engine's answer counts, the file does not": ("1.34.1", (CONFIG,), {FILE: SET}, CGROUPFS, "cgroupfs", ASKED, ""),
    "on by default from 1.31": ("1.31.0", (CONFIG,), {FILE: "cgroupDriver: cgroupfs\n"}, SYSTEMD, "systemd", ASKED, ""),
    "off by default before": ("1.30.9", (CONFIG,), {FILE: SET}, CGROUPFS, "systemd", STATED, FILE),
    "no gate before 1.28": ("1.27.3", (CONFIG,), {FILE: SET + ON}, CGROUPFS, "systemd", STATED, FILE),
    "switched on by a file": ("1.29.1", (CONFIG,), {FILE: SET + ON}, CGROUPFS, "cgroupfs", ASKED, ""),
    "switched off by a file": ("1.33.1", (CONFIG,), {FILE: SET + OFF}, CGROUPFS, "systemd", STATED, FILE),
    "switched off by the flag, on by the file": (
        "1.32.0", (CONFIG, "--feature-gates=A=true,KubeletCgroupDriverFromCRI=false"), {FILE: SET + ON}, CGROUPFS, "systemd", STATED, FILE),
    "switched off by another word of Go": (
        "1.32.0", (CONFIG, "--feature-gates=KubeletCgroupDriverFromCRI=False"), {FILE: SET + ON}, CGROUPFS, "systemd", STATED, FILE),
    "switched on by another word of Go": (
        "1.30.0", (CONFIG, "--feature-gates=KubeletCgroupDriverFromCRI=1"), {FILE: SET}, CGROUPFS, "cgroupfs", ASKED, ""),
    "switched off by the first of two flags": (
        "1.32.0", (CONFIG, "--feature-gates=KubeletCgroupDriverFromCRI=false", "--feature-gates=A=true"), {FILE: SET + ON}, CGROUPFS,
        "systemd", STATED, FILE),
    "switched on with all of its stage": (
        "1.30.0", (CONFIG, "--feature-gates=AllAlpha=true"), {FILE: SET}, CGROUPFS, "cgroupfs", ASKED, ""),
    "all of another stage": ("1.30.0", (CONFIG, "--feature-gates=AllBeta=true"), {FILE: SET}, CGROUPFS, "systemd", STATED, FILE),
    "switched off with all of its stage, by a file": (
        "1.31.0", (CONFIG,), {FILE: SET + "featureGates:\n  AllBeta: false\n"}, CGROUPFS, "systemd", STATED, FILE),
    "its own name counts before that of its stage": (
        "1.31.0", (CONFIG, "--feature-gates=AllBeta=false"), {FILE: SET + ON}, CGROUPFS, "cgroupfs", ASKED, ""),
    "nobody can switch it off from 1.34": ("1.34.0", (CONFIG,), {FILE: SET + OFF}, CGROUPFS, "cgroupfs", ASKED, ""),
    "an unknown release is one of today's": ("", (CONFIG,), {FILE: SET}, CGROUPFS, "cgroupfs", ASKED, ""),
    "the flag before the file": ("1.30.0", (CONFIG, "--cgroup-driver", "cgroupfs"), {FILE: SET}, None, "cgroupfs", STATED, FLAG),
    "the last of two flags": ("1.30.0", ("--cgroup-driver=systemd", "--cgroup-driver=cgroupfs"), {}, None, "cgroupfs", STATED, FLAG),
    "a drop-in before the file": (
        "1.30.0", (CONFIG, DIR), {FILE: SET, f"{FOLDER}/10.conf": "cgroupDriver: cgroupfs\n"}, None,
        "cgroupfs", STATED, f"{FOLDER}/10.conf"),
    "the last drop-in": (
        "1.30.0", (CONFIG, DIR), {f"{FOLDER}/10.conf": "cgroupDriver: cgroupfs\n", f"{FOLDER}/20.conf": SET, FILE: "a: b\n"}, None,
        "systemd", STATED, f"{FOLDER}/20.conf"),
    "a file that is no drop-in": (
        "1.30.0", (CONFIG, DIR), {f"{FOLDER}/20.yaml": "cgroupDriver: cgroupfs\n", FILE: SET}, None, "systemd", STATED, FILE),
    "EKS writes JSON": ("1.30.0", (CONFIG,), {FILE: JSON}, None, "systemd", STATED, FILE),
    "in quotes, and with a remark": (
        "1.30.0", (CONFIG,), {FILE: 'cgroupDriver: "systemd" # as kubeadm has it\n'}, None, "systemd", STATED, FILE),
    "unset is cgroupfs": ("1.30.0", (CONFIG,), {FILE: "clusterDomain: cluster.local\n"}, None, "cgroupfs", BUILT_IN, ""),
    "no file at all": ("1.30.0", (), {}, None, "cgroupfs", BUILT_IN, ""),
    "empty is unset": ("1.30.0", (CONFIG,), {FILE: 'cgroupDriver: ""\n'}, None, "cgroupfs", BUILT_IN, ""),
    "another engine's kubelet": (
        "1.34.0", (CONFIG, "--container-runtime-endpoint=unix:///run/crio.sock"), {FILE: SET}, CGROUPFS, "", "", ""),
    "another engine's kubelet, by its file": (
        "1.34.0", (CONFIG,), {FILE: SET + "containerRuntimeEndpoint: unix:///run/crio.sock\n"}, CGROUPFS, "", "", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_driver_by_what_the_kubelet_was_started_with(case: str) -> None:
    version, flags, files, says, driver, code, where = CASES[case]
    found = known(version, *flags, files=files, says=says)
    assert (found.driver, get_code(found.why)) == (driver, code)
    assert where in found.why


def test_without_a_kubelet_nothing_is_known() -> None:
    assert known("1.34.0", files={FILE: SET}, says=CGROUPFS, running=False) == cgroup_driver.UNKNOWN


def test_pods_count_more_than_settings() -> None:
    groups = {"files": [{"path": "/sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice"}]}
    seen = builders.obs(
        answers={kubelet_facts.ask_for_pod_groups()["id"]: groups},
        processes=[{"pid": 9, "exe": "/usr/bin/kubelet", "argv": []}],
    )
    assert (
        cgroup_driver.get_known_cgroup_driver(
            kubelet_facts.read_kubelet_facts(seen), instance()
        ).driver
        == "systemd"
    )


@pytest.mark.parametrize(
    ("files", "says", "code"),
    [
        (
            {FILE: SET},
            {"error": {"kind": "timeout", "message": "it did not answer"}},
            "query.timeout",
        ),
        ({FILE: "cgroupDriver: &driver systemd\n"}, None, "content.value-not-sent"),
        # JSON as a template writes it
        ({FILE: f"# Ansible managed\n{JSON}\n"}, None, "content.value-not-sent"),
        ({FILE: f"---\n{JSON}\n"}, None, "content.value-not-sent"),
        ({FILE: "cgroupDriver : systemd\n"}, None, "content.value-not-sent"),
        ({FILE: "cgroupDriver: own\n"}, None, "kubernetes.cgroup-driver-unknown"),
        ({FILE: '{"cgroupDriver": '}, None, "kubernetes.kubelet-config-unreadable"),
        ({}, None, "kubernetes.kubelet-config-unreadable"),
    ],
)
def test_what_cannot_be_known_is_an_error_and_never_unset(
    files: dict[str, str], says: Any, code: str
) -> None:
    answers = {path: withheld(text) for path, text in files.items()}
    kubelet = {"pid": 9, "exe": "/usr/bin/kubelet", "argv": ["kubelet", CONFIG]}
    commands = {"kubelet --version": "Kubernetes v1.34.0"}
    seen = builders.obs(
        files=answers,
        processes=[kubelet],
        commands=commands,
        cri={f"RuntimeConfig:{SOCKET}": says or UNIMPLEMENTED},
    )
    with pytest.raises((PlanError, QueryFailed)) as caught:
        cgroup_driver.get_known_cgroup_driver(kubelet_facts.read_kubelet_facts(seen), instance())
    assert caught.value.code == code


UNREAD = [
    # a flag whose value the node does not send, or that names a place by where the kubelet began
    ("--feature-gates", "(hidden)"),
    ("--config", "(hidden)"),
    ("--config-dir", "(hidden)"),
    ("--config", "kubelet.yaml"),
]


@pytest.mark.parametrize(("flag", "value"), UNREAD)
def test_a_flag_of_which_the_value_is_not_known_is_an_error_and_never_unset(
    flag: str, value: str
) -> None:
    with pytest.raises(PlanError) as caught:
        known("1.32.0", CONFIG, f"{flag}={value}", files={FILE: SET}, says=CGROUPFS)
    assert (caught.value.code, caught.value.values["flag"]) == (
        "kubernetes.kubelet-flag-unread",
        flag,
    )


def withheld(text: str) -> Any:
    """A file as the node shows it."""
    try:
        found = file_places.projector.project_file(text.encode(), file_places.KUBELET_CONFIG)
    except file_places.projector.UnreadableText as broken:
        return {"content": None, "fault": {"code": broken.code, "line": broken.line}}
    return {
        "content": found.data.decode(),
        "withheld": [{k: e[k] for k in ("path", "kind", "line", "span")} for e in found.withheld],
    }
