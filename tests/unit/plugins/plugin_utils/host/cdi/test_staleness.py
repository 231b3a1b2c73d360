# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a spec is still true: one change of the host per row, and what the verdict says of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_refresh,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    resource,
    spec_facts,
    spec_verdicts,
    staleness,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)

from tests.unit import cdi_plans
from tests.unit.builders import obs
from tests.unit.coded import read_all_coded, read_coded
from tests.unit.gpus import BUSES, LIBRARIES, UUIDS, host, information, library, node, nvml

OURS, THEIRS = "/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml"
HOOK = "/usr/bin/nvidia-cdi-hook"
CAPS = "/proc/driver/nvidia/capabilities"
FIRMWARE = "/lib/firmware/6.1.0-40-amd64/nvidia/550.163.01/gsp_ga10x.bin"


def device(name: str, *paths: str) -> str:
    nodes = "".join(
        f"      - path: {p}\n        major: 195\n        minor: {p.removeprefix('/dev/nvidia')}\n"
        for p in paths
    )
    return f'- name: "{name}"\n  containerEdits:\n    deviceNodes:\n{nodes}'


GRAPHICS = "  - path: /dev/nvidia-modeset\n  - path: /dev/nvidia-uvm-tools\n"
# As nvidia-ctk 1.20.1 writes it, shortened: numbers of every node, libraries by their version,
# hooks.
CTK = f"""---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void]
  deviceNodes:
  - path: /dev/nvidia-uvm
    major: 511
  - path: /dev/nvidiactl
    major: 195
    minor: 255
{GRAPHICS}  mounts:
  - hostPath: {LIBRARIES}/libcuda.so.550.163.01
    containerPath: {LIBRARIES}/libcuda.so.550.163.01
  - hostPath: {LIBRARIES}/libnvidia-egl-gbm.so.1.1.2
    containerPath: {LIBRARIES}/libnvidia-egl-gbm.so.1.1.2
  - hostPath: {FIRMWARE}
    containerPath: {FIRMWARE}
  hooks:
  - hookName: createContainer
    path: {HOOK}
    args: [nvidia-cdi-hook, enable-cuda-compat, --host-driver-version=550.163.01]
  - hookName: createContainer
    path: {HOOK}
    args: [nvidia-cdi-hook, update-application-profile]
devices:
{device("0", "/dev/nvidia0")}{device(UUIDS[0], "/dev/nvidia0")}{device("1", "/dev/nvidia1")}{device(UUIDS[1], "/dev/nvidia1")}\
{device("all", "/dev/nvidia0", "/dev/nvidia1")}"""
FILES = {
    f"{LIBRARIES}/libcuda.so.550.163.01": "",
    f"{LIBRARIES}/libnvidia-egl-gbm.so.1.1.2": "",
    FIRMWARE: "",
    HOOK: "",
}
WHOLE = {**host(), **FILES, THEIRS: {"content": CTK, "mtime": 100.0}}
RECORD = resource.record_of_options("toolkit", "1.0.0")
REFRESH = {
    cdi_refresh.SERVICE: {"ActiveState": "inactive"},
    cdi_refresh.PATH: {"ActiveState": "active"},
}


def look(
    changes: dict[str, Any] | None = None,
    *,
    kernel: str = "6.1.0-40-amd64",
    toolkit: str = "1.20.1-1",
    **more: Any,
) -> Observation:
    files = {**WHOLE, **(changes or {})}
    return obs(
        files={p: t for p, t in files.items() if t is not None},
        packages={staleness.TOOLKIT: toolkit},
        host={"kernel": kernel, "os_release": {"ID": "debian"}},
        units=REFRESH,
        **{"answers": nvml(), **more},
    )


def verdict(seen: Observation, cap: str = "1.0.0", path: str = THEIRS) -> staleness.SpecVerdict:
    policy = Policy()
    found = spec_verdicts.judge_specs(
        policy,
        spec_facts.read_spec_facts(
            policy,
            seen,
            resource.record_of_options("toolkit", cap),
            driver_state.read_driver(policy, seen),
        ),
    )
    return next(v for v in found if v.path == path)


def test_a_spec_that_is_true() -> None:
    found = verdict(look())
    assert (found.state, found.writer, found.version, found.reasons) == (
        "fresh",
        "toolkit",
        "0.5.0",
        (),
    )


NEW_DRIVER = {
    "/sys/module/nvidia/version": "570.86.15\n",
    f"{LIBRARIES}/libnvidia-ml.so.550.163.01": None,
    **library("570.86.15"),
}
GPU_1 = f"/proc/driver/nvidia/gpus/{BUSES[1]}/information"
GPU_2 = f"/proc/driver/nvidia/gpus/{BUSES[2]}/information"
SWAPPED = {
    f"/proc/driver/nvidia/gpus/{BUSES[0]}/information": information(BUSES[0], 1, UUIDS[0]),
    GPU_1: information(BUSES[1], 0, UUIDS[1]),
}
OTHER_CARD = {GPU_1: information(BUSES[1], 1, UUIDS[2])}
MIG = {
    f"{CAPS}/gpu0/mig/gi1/access": "DeviceFileMinor: 12\n",
    f"{CAPS}/gpu0/mig/gi1/ci0/access": "DeviceFileMinor: 13\n",
}
CUDA = f"{LIBRARIES}/libcuda.so.550.163.01"
CASES: list[tuple[str, dict[str, Any], dict[str, str], str, str, dict[str, Any]]] = [
    # what has become of the host, its files and facts, the kind of the first reason, its code, some
    # of its values
    (
        "a new driver",
        NEW_DRIVER,
        {},
        "driver",
        "other-driver",
        {"recorded": "550.163.01", "found": "570.86.15"},
    ),
    (
        "a new kernel",
        {},
        {"kernel": "6.12.0-1-amd64"},
        "kernel",
        "other-kernel",
        {"recorded": "6.1.0-40-amd64", "found": "6.12.0-1-amd64"},
    ),
    (
        "a GPU is gone",
        {GPU_1: None},
        {},
        "gpus",
        "gpu-gone",
        {"names": f"/dev/nvidia1, {UUIDS[1]}"},
    ),
    (
        "a GPU more",
        {GPU_2: information(BUSES[2], 2, UUIDS[2])},
        {},
        "gpus",
        "gpu-lacking",
        {"gpus": f"2 ({BUSES[2]})"},
    ),
    (
        "two GPUs swapped",
        SWAPPED,
        {},
        "gpus",
        "gpu-changed",
        {"name": "0", "recorded": "/dev/nvidia0", "found": "/dev/nvidia1"},
    ),
    ("another card in the slot", OTHER_CARD, {}, "gpus", "gpu-gone", {"names": UUIDS[1]}),
    ("a MIG instance", MIG, {}, "mig", "mig-lacking", {"lacking": "gpu0/gi1, gpu0/gi1/ci0"}),
    (
        "another major at boot",
        {"/dev/nvidia-uvm": node(510, 0)},
        {},
        "nodes",
        "node-changed",
        {"path": "/dev/nvidia-uvm", "recorded": "511:0", "found": "510:0"},
    ),
    (
        "a node is gone",
        {"/dev/nvidia-uvm": None},
        {},
        "nodes",
        "node-gone",
        {"path": "/dev/nvidia-uvm"},
    ),
    ("a library is gone", {CUDA: None}, {}, "files", "files-gone", {"files": CUDA}),
    ("the hook is gone", {HOOK: None}, {}, "files", "files-gone", {"files": HOOK}),
    (
        "an older toolkit",
        {},
        {"toolkit": "1.19.1-1"},
        "toolkit",
        "hook-unknown",
        {"hooks": "update-application-profile", "version": "1.19.1-1"},
    ),
    (
        "a newer toolkit",
        {staleness.TOOLKIT_UNPACKED: {"content": "", "mtime": 200.0}},
        {},
        "toolkit",
        "older-than-toolkit",
        {},
    ),
    (
        "cut short",
        {THEIRS: CTK.partition("  mounts:")[0] + "  mounts:\n  - hostPa"},
        {},
        "content",
        "not-a-spec",
        {"path": THEIRS},
    ),
    (
        "not readable",
        {THEIRS: {"content": None, "type": "dir"}},
        {},
        "content",
        "not-read",
        {"path": THEIRS, "problem": ("looked.file-is", {"kind": "a directory"})},
    ),
]


@pytest.mark.parametrize(
    ("changes", "more", "what", "code", "values"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_one_change_of_the_host(
    changes: dict[str, Any], more: dict[str, str], what: str, code: str, values: dict[str, Any]
) -> None:
    found = verdict(look(changes, **more))
    assert found.state == "stale"
    assert {r.what for r in found.reasons} - ({"files"} if what != "files" else set()) == {what}
    told, parts = read_coded(next(r.why for r in found.reasons if r.what == what))
    assert told == f"cdi.{code}"
    assert {name: parts.get(name) for name in values} == values


@pytest.mark.parametrize(
    ("gone", "lacking", "code"),
    [
        ("nvidia-cap1", "", "gone"),
        ("", "gpu0/gi1", "lacking"),
        ("nvidia-cap1", "gpu0/gi1", "changed"),
    ],
)
def test_mig_instances_may_go_and_come_at_once(gone: str, lacking: str, code: str) -> None:
    assert staleness.describe_mig(gone, lacking).code == f"cdi.mig-{code}"


def test_a_version_above_the_oldest_consumers() -> None:
    found = verdict(look(), cap="0.4.0")
    assert [(r.what, get_code(r.why)) for r in found.reasons] == [("cap", "cdi.version-too-new")]


def test_a_spec_from_before_a_node_was_there() -> None:
    early = CTK.replace("  - path: /dev/nvidia-uvm\n    major: 511\n", "")
    found = verdict(look({THEIRS: early}))
    assert read_all_coded(r.why for r in found.reasons) == [
        ("cdi.nodes-later", {"nodes": "/dev/nvidia-uvm"})
    ]


def test_the_toolkits_unit_ran_before_other_nodes_were_there() -> None:
    early = CTK.replace(GRAPHICS, "")
    found = verdict(look({THEIRS: early}))
    assert read_all_coded(r.why for r in found.reasons) == [
        ("cdi.nodes-later", {"nodes": "/dev/nvidia-uvm-tools, /dev/nvidia-modeset"})
    ]
    # someone else may leave these out of a spec
    found = verdict(look({OURS: early}), path=OURS)
    assert (found.state, found.writer) == ("fresh", "other")


UNTOUCHED = [
    (
        "uuids that the driver does not tell yet",
        {GPU_1: information(BUSES[1], 1, "GPU-????????-????-????-????-????????????")},
    ),
    (
        "a GPU that drives a screen only",
        {GPU_2: information(BUSES[2], 2, UUIDS[2], Model="NVIDIA DGX Display")},
    ),
    ("no package database tells the toolkit", {staleness.TOOLKIT_UNPACKED: None}),
]


@pytest.mark.parametrize("changes", [c[1] for c in UNTOUCHED], ids=[c[0] for c in UNTOUCHED])
def test_what_cannot_be_told_is_no_reason(changes: dict[str, Any]) -> None:
    assert verdict(look(changes)).state == "fresh"


def test_nodes_beneath_a_root_of_their_own() -> None:
    """The container's path says which node it is, the host's path where it is now."""
    root = "/run/nvidia/driver"
    moved = {f"{root}{p}": t for p, t in WHOLE.items() if p.startswith("/dev/nvidia")}
    text = re.sub(
        r"- path: (/dev/\S+)",
        rf"- {{path: \1, hostPath: {root}\1}}",
        re.sub(r"\n +(major|minor): \d+", "", CTK),
    )
    seen = look(
        {
            **{p: None for p in WHOLE if p.startswith("/dev/nvidia")},
            **moved,
            THEIRS: {"content": text, "mtime": 100.0},
        }
    )
    policy = Policy(cdi_dev_root=root)
    found = spec_verdicts.judge_specs(
        policy,
        spec_facts.read_spec_facts(policy, seen, RECORD, driver_state.read_driver(policy, seen)),
    )
    assert [(v.state, v.reasons) for v in found] == [("fresh", ())]


def test_nodes_alone_outlive_a_driver() -> None:
    """A spec of device nodes has nothing of one driver version in it."""
    policy = Policy(cdi_profile="devices")
    mine = cdi_plans.plan_specs(
        policy,
        spec_facts.read_spec_facts(
            policy,
            look({THEIRS: None}),
            resource.record_of_options("collection", "1.0.0"),
            driver_state.read_driver(policy, look()),
            "",
        ),
        resource.record_of_options("collection", "1.0.0"),
        driver_state.read_driver(policy, look()),
    )
    text = next(c["content"] for c in mine.changes if c["op"] == "write")
    assert verdict(look({OURS: text, **NEW_DRIVER}), path=OURS).state == "fresh"


def planned(seen: Observation, owner: Any = "toolkit") -> Plan:
    policy = Policy(cdi_owner=owner)
    return cdi_plans.plan_specs(
        policy,
        spec_facts.read_spec_facts(
            policy,
            seen,
            resource.record_of_options(owner, "1.0.0"),
            driver_state.read_driver(policy, seen),
            "",
        ),
        resource.record_of_options(owner, "1.0.0"),
        driver_state.read_driver(policy, seen),
    )


def test_theirs_is_made_again_by_them() -> None:
    plan = planned(look({"/dev/nvidia-uvm": node(510, 0)}))
    assert [c["argv"] for c in plan.commands] == [["systemctl", "start", cdi_refresh.SERVICE]]
    assert [(d.path, d.before, d.after) for d in plan.differences] == [
        (cdi_refresh.SERVICE, "stale", "fresh")
    ]
    code, values = read_coded(plan.differences[0].why)
    assert (code, values["path"]) == (
        "cdi.refreshed",
        cdi_refresh.read_refresh_facts(look()).state.value.output,
    )
    assert values["problem"][0] == "cdi.node-changed"
    assert planned(look()) == Plan()


def test_a_driver_that_does_not_work_is_not_asked_to_make_it_again() -> None:
    assert planned(look({"/sys/module/nvidia/version": "570.86.15\n"})) == Plan()


def test_ours_says_why_it_is_written_again() -> None:
    first = next(
        c["content"]
        for c in planned(look({THEIRS: None}), "collection").changes
        if c["op"] == "write"
    )
    plan = planned(
        look({THEIRS: None, OURS: first, **SWAPPED}, answers=nvml(minors=(1, 0))), "collection"
    )
    code, values = read_coded(plan.differences[0].why)
    assert (code, values["problem"][0]) == ("cdi.stale-replaced", "cdi.gpu-changed")


def test_what_a_table_says() -> None:
    said = staleness.summarise_verdicts(
        [verdict(look()), verdict(look({"/dev/nvidia-uvm": node(510, 0)}))]
    )
    code, values = read_coded(said)
    assert (code, values["path"], values["problem"][0]) == ("cdi.stale", THEIRS, "cdi.node-changed")
