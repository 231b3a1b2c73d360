# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVSwitches and IMEX channels: in no container that has not asked, in files of their own by
option, and taken back with a cause.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import options
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    fabric_kinds,
    resource,
    spec_facts,
    staleness_guard,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    VOID_MOUNT,
    Spec,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)

from tests.unit import cdi_plans
from tests.unit.builders import obs
from tests.unit.coded import read_all_coded
from tests.unit.gpus import host, node, nvml
from tests.unit.written_files import map_written_specs

SPEC, IMEX, SWITCH = (
    "/etc/cdi/nvidia.yaml",
    "/etc/cdi/nvidia.com-imex-channel.yaml",
    "/etc/cdi/nvidia.com-nvswitch.yaml",
)
CONTROL = ["/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl"]
SWITCHES = {
    f"/dev/nvidia-nvswitch{name}": node(234, minor)
    for name, minor in (("0", 0), ("1", 1), ("ctl", 255))
}
CHANNELS = {
    f"/dev/nvidia-caps-imex-channels/channel{number}": node(509, number) for number in (0, 7, 10)
}
FABRIC = {**host(1), **SWITCHES, **CHANNELS}


def look(files: dict[str, Any]) -> Observation:
    return obs(files=files, packages={}, answers=nvml(1))


def plan(
    files: dict[str, Any], *, cap: str = "1.0.0", owner: Any = "collection", **policy: Any
) -> Plan:
    wanted = Policy(**{"cdi_profile": "devices", **policy})
    there = look(files)
    return cdi_plans.plan_specs(
        wanted,
        spec_facts.read_spec_facts(
            wanted,
            there,
            resource.record_of_options(owner, cap),
            driver_state.read_driver(wanted, there),
            "",
        ),
        resource.record_of_options(owner, cap),
        driver_state.read_driver(wanted, there),
    )


def nodes(spec: Spec) -> dict[str, list[str]]:
    """Of each device; '' is what every container gets."""
    every = {"": [n.path for n in spec.edits.device_nodes]}
    return {**every, **{d.name: [n.path for n in d.edits.device_nodes] for d in spec.devices}}


def text(made: Plan, path: str) -> str:
    return next(str(c["content"]) for c in made.changes if c["path"] == path)


def after(files: dict[str, Any], made: Plan) -> dict[str, Any]:
    return {**files, **{c["path"]: c["content"] for c in made.changes if c["op"] == "write"}}


# ---------------------------------------------------------------- what containers get

C = "/dev/nvidia-caps-imex-channels/channel"
ASKED: list[tuple[str, dict[str, Any], dict[str, dict[str, list[str]]]]] = [
    ("nothing", {}, {}),
    ("one channel", {"cdi_imex_channels": ("0",)}, {IMEX: {"": [], "0": [f"{C}0"]}}),
    (
        "two, in any order",
        {"cdi_imex_channels": ("10", "7")},
        {IMEX: {"": [], "7": [f"{C}7"], "10": [f"{C}10"]}},
    ),
    (
        "all that are there, and no device for all",
        {"cdi_imex_channels": ("all",)},
        {IMEX: {"": [], "0": [f"{C}0"], "7": [f"{C}7"], "10": [f"{C}10"]}},
    ),
    (
        "the switches, as one device",
        {"cdi_nvswitch": True},
        {SWITCH: {"": [], "all": sorted(SWITCHES)}},
    ),
    (
        "both",
        {"cdi_nvswitch": True, "cdi_imex_channels": ("7",)},
        {IMEX: {"": [], "7": [f"{C}7"]}, SWITCH: {"": [], "all": sorted(SWITCHES)}},
    ),
    (
        "of another vendor",
        {"cdi_nvswitch": True, "cdi_vendor": "example.com"},
        {"/etc/cdi/example.com-nvswitch.yaml": {"": [], "all": sorted(SWITCHES)}},
    ),
]


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize(
    ("policy", "more"), [case[1:] for case in ASKED], ids=[case[0] for case in ASKED]
)
def test_each_has_a_file_of_its_own_by_option(
    policy: dict[str, Any], more: dict[str, Any], single: bool
) -> None:
    made = map_written_specs(plan(FABRIC, single=single, **policy))
    gpu = next(path for path, spec in made.items() if spec.kind.endswith("/gpu"))
    assert nodes(made.pop(gpu)) == {
        "": CONTROL,
        "0": ["/dev/nvidia0"],
        **{n: ["/dev/nvidia0"] for n in nodes_of_uuid(policy)},
        "all": ["/dev/nvidia0"],
    }
    assert {path: nodes(spec) for path, spec in made.items()} == more
    assert all(
        spec.edits.env == ("NVIDIA_VISIBLE_DEVICES=void",) and not spec.edits.hooks
        for spec in made.values()
    )
    assert {
        (n.major, n.minor)
        for spec in made.values()
        for d in spec.devices
        for n in d.edits.device_nodes
    } <= {(None, None)}


def nodes_of_uuid(_policy: dict[str, Any]) -> list[str]:
    return [
        name for name in nodes(map_written_specs(plan(host(1)))[SPEC]) if name.startswith("GPU-")
    ]


@pytest.mark.parametrize("layout", ["gpu", "management"])
def test_the_driver_s_files_come_with_a_gpu(layout: str) -> None:
    library = {"/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01": "", "/usr/bin/nvidia-smi": ""}
    made = map_written_specs(
        plan(
            {**FABRIC, **library},
            single=True,
            cdi_profile="hookless",
            cdi_nvswitch=True,
            cdi_layout=layout,
        )
    )
    assert made[SWITCH].edits.mounts == (VOID_MOUNT,)


def test_management_has_the_channels_and_not_the_switches() -> None:
    made = map_written_specs(plan(FABRIC, single=True, cdi_layout="management"))
    everything = nodes(made["/etc/cdi/management.nvidia.com-gpu.yaml"])
    assert set(CHANNELS) <= set(everything["all"])
    assert not set(SWITCHES) & {path for paths in everything.values() for path in paths}
    assert not set(CHANNELS) & {*everything[""], *everything["0"]}


# ---------------------------------------------------------------- what is not there, and what goes


def test_a_channel_that_is_asked_for_and_missing_is_told() -> None:
    with pytest.raises(PlanError, match=rf"{C}3 .*\[cdi.node-missing\]"):
        plan(FABRIC, cdi_imex_channels=("0", "3"))
    allowed = map_written_specs(
        plan(FABRIC, cdi_imex_channels=("0", "3"), cdi_missing_nodes="allow")
    )
    assert list(nodes(allowed[IMEX])) == ["", "0"]


def test_the_only_channel_that_is_asked_for_is_told_if_it_is_missing() -> None:
    with pytest.raises(PlanError) as refused:
        plan(FABRIC, cdi_imex_channels=("3",))
    assert (refused.value.code, refused.value.values["nodes"]) == ("cdi.node-missing", f"{C}3")
    assert f"mknod {C}3 c MAJOR 3" in refused.value.next
    assert IMEX not in map_written_specs(
        plan(FABRIC, cdi_imex_channels=("3",), cdi_missing_nodes="allow")
    )


def test_of_two_thousand_channels_a_difference_names_the_first_ones() -> None:
    there = {**host(1), **{f"{C}{number}": node(509, number) for number in range(2048)}}
    made = plan(there, cdi_imex_channels=("all",))
    (said,) = (d.after for d in made.differences if d.path == IMEX)
    assert str(said).startswith("CDI 0.5.0: 0, 1, 2, 3, 4, 5, 6, 7, and 2040 more (content ")
    assert len(map_written_specs(made)[IMEX].devices) == 2048
    assert plan(after(there, made), cdi_imex_channels=("all",)).empty


def test_a_host_without_them_gets_no_empty_file() -> None:
    made = plan(host(1), cdi_imex_channels=("all",), cdi_nvswitch=True)
    assert list(map_written_specs(made)) == [SPEC]
    kinds = [
        text.values["kind"]
        for text in made.advice
        if isinstance(text, Message) and text.code == "cdi.no-device-of-kind"
    ]
    assert kinds == ["nvidia.com/imex-channel", "nvidia.com/nvswitch"]


def test_a_second_run_changes_nothing_and_a_run_without_the_options_takes_the_files_away() -> None:
    policy: dict[str, Any] = {"cdi_imex_channels": ("all",), "cdi_nvswitch": True}
    there = after(FABRIC, plan(FABRIC, **policy))
    assert plan(there, **policy).empty
    gone = plan(there)
    assert [(c["path"], c["op"]) for c in gone.changes] == [(IMEX, "remove"), (SWITCH, "remove")]
    assert {get_code(d.why) for d in gone.differences} == {"cdi.kind-not-asked"}
    assert plan(there, single=True).empty, "a task of its own made them"
    absent = resource.plan_absent(Policy(), spec_facts.read_spec_removal_facts(look(there)))
    assert {SPEC, IMEX, SWITCH} <= {c["path"] for c in absent.changes}


# Missing nodes, and whether the step is the one of IMEX channels.
REMEDIES = [
    ([f"{C}0"], True),
    ([f"{C}0", f"{C}17"], True),
    (["/dev/nvidia0"], False),
    (["/dev/nvidiactl", f"{C}0"], False),
]


@pytest.mark.parametrize(("missing", "of_channels"), REMEDIES)
def test_channels_have_a_remedy_of_their_own(missing: list[str], of_channels: bool) -> None:
    """Programs of the driver make its other nodes, and no channel."""
    code = get_code(fabric_kinds.suggest_channels_remedy(missing))
    assert code == ("cdi.make-imex-channels" if of_channels else "")


def test_a_kind_that_is_asked_for_stays_while_its_nodes_are_missing() -> None:
    policy: dict[str, Any] = {"cdi_imex_channels": ("all",), "cdi_nvswitch": True}
    there = after(FABRIC, plan(FABRIC, **policy))
    silent = {path: value for path, value in there.items() if path not in (*CHANNELS, *SWITCHES)}
    assert {change["path"] for change in plan(silent, **policy).changes} & {IMEX, SWITCH} == set()
    assert {change["path"] for change in plan(silent).changes} >= {IMEX, SWITCH}


def test_a_channel_more_or_less_is_seen_by_the_next_run() -> None:
    policy: dict[str, Any] = {"cdi_imex_channels": ("all",)}
    there = after(FABRIC, plan(FABRIC, **policy))
    more = {**there, f"{C}11": node(509, 11)}
    assert list(nodes(map_written_specs(plan(more, **policy))[IMEX])) == ["", "0", "7", "10", "11"]
    less = {path: value for path, value in there.items() if path != f"{C}7"}
    changed = map_written_specs(plan(less, **policy))
    assert {path: list(nodes(spec)) for path, spec in changed.items()} == {IMEX: ["", "0", "10"]}, (
        "GPUs' spec is as it was"
    )


def test_names_that_begin_with_a_digit_are_refused_where_they_cost_the_file() -> None:
    with pytest.raises(PlanError, match=r"0\.4\.0.*\[cdi.readers-too-old\]"):
        plan(FABRIC, cap="0.4.0", cdi_imex_channels=("0",))
    assert (
        map_written_specs(plan(FABRIC, cap="0.4.0", cdi_nvswitch=True))[SWITCH].version == "0.3.0"
    )


def test_a_host_whose_spec_others_write_says_that_the_options_do_nothing() -> None:
    made = plan(FABRIC, owner="none", cdi_imex_channels=("0",), cdi_nvswitch=True)
    values = {
        "reason": ("cdi.nothing-reads", {}),
        "options": "gpufleet_cdi_imex_channels, gpufleet_cdi_nvswitch",
    }
    assert read_all_coded(made.advice) == [("cdi.option-without-effect", values)]


def test_the_watch_holds_such_a_spec_against_its_nodes_alone() -> None:
    there = look(FABRIC)
    specs = map_written_specs(plan(FABRIC, cdi_imex_channels=("0", "7")))
    words = {
        path: [
            fact["what"]
            for fact in staleness_guard.list_watch_facts(
                Policy(), staleness_guard.read_watch_facts(there), spec
            )
        ]
        for path, spec in specs.items()
    }
    assert words[IMEX] == ["device numbers", "files"]
    assert words[SPEC][0] == "the set of GPUs"
    assert staleness_guard.list_watch_facts(
        Policy(), staleness_guard.read_watch_facts(there), specs[IMEX]
    )[-1]["paths"] == [
        f"{C}0",
        f"{C}7",
    ]


# ---------------------------------------------------------------- advice

ON_REQUEST = "cdi.fabric-on-request"


def test_a_host_with_channels_is_told_once() -> None:
    first = plan(FABRIC)
    assert ON_REQUEST in map(get_code, first.advice)
    assert ON_REQUEST not in map(get_code, plan(after(FABRIC, first)).advice)
    assert ON_REQUEST not in map(get_code, plan(FABRIC, cdi_imex_channels=("0",)).advice)
    assert ON_REQUEST not in map(get_code, plan({**host(1), **SWITCHES}).advice), (
        "each HGX has them"
    )


# ---------------------------------------------------------------- specs of nvidia-ctk for the same
# kinds

THEIRS = {
    IMEX.replace(
        "nvidia.com-", ""
    ): "cdiVersion: 0.5.0\nkind: nvidia.com/imex-channel\ncontainerEdits:\n  env: [NVIDIA_VISIBLE_DEVICES=void]\n"
    f"devices:\n- name: '0'\n  containerEdits:\n    deviceNodes:\n    - {{path: {C}0, hostPath: {C}0}}\n"
}


def test_nvidia_ctk_s_spec_of_a_channel_is_taken_over_where_ours_has_the_device() -> None:
    (path,) = THEIRS
    made = plan({**FABRIC, **THEIRS}, cdi_imex_channels=("0",))
    assert {c["path"]: c["op"] for c in made.changes} == {
        SPEC: "write",
        IMEX: "write",
        path: "remove",
    }
    assert [left.fate for left in made.leftovers] == ["adopted"]
    assert list(map_written_specs(plan({**FABRIC, **THEIRS}))) == [SPEC], (
        "nobody asked, so it stays"
    )
    with pytest.raises(PlanError, match=r"nvidia.com/imex-channel=0.*\[cdi.device-dropped\]"):
        plan(
            {**FABRIC, path: THEIRS[path].replace("env: [", "env: [MINE=1, ")},
            cdi_imex_channels=("0",),
        )


# ---------------------------------------------------------------- the values of the option

VALUES = [
    (["0"], True),
    (["0", "1", "2047"], True),
    (["1048575"], True),
    (["all"], True),
    ([], True),
    (["1048576"], False),
    (["-1"], False),
    (["00"], False),
    (["channel0"], False),
    (["0-3"], False),
    ([""], False),
    (["٣"], False),
]


@pytest.mark.parametrize(("value", "good"), VALUES)
def test_values_of_the_option(value: list[str], good: bool) -> None:
    if good:
        options.check_options({"cdi_imex_channels": value})
        return
    with pytest.raises(PlanError) as refused:
        options.check_options({"cdi_imex_channels": value})
    assert refused.value.code == "options.imex-channel"


@pytest.mark.parametrize("name", ["cdi_class", "cdi_model_class"])
def test_two_kinds_have_two_names(name: str) -> None:
    with pytest.raises(PlanError, match=r"\[options.fabric-class\]$"):
        options.check_options({name: "nvswitch", "cdi_nvswitch": True})
    options.check_options({name: "nvswitch", "cdi_nvswitch": False})
