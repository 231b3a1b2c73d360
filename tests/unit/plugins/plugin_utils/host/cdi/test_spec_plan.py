# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the CDI spec of a host is written, replaced or taken away."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    HostDecision,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    files,
    resource,
    spec_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import writer

from tests.unit.builders import obs, sha
from tests.unit.cdi_plans import (
    OURS,
    RECORD,
    THEIRS,
    UNUSED,
    by_hand,
    file_of,
    paths,
    plan,
    seen,
    written,
)
from tests.unit.coded import read_all_coded, read_coded
from tests.unit.gpus import UUIDS, host, node


def test_the_second_run_changes_nothing() -> None:
    text = plan(seen()).changes[0]["content"]
    assert plan(seen({OURS: text})).empty


def test_another_order_is_no_change() -> None:
    made = written(plan(seen()))
    turned = writer.render_spec(dc.replace(made, devices=tuple(reversed(made.devices))))
    assert plan(seen({OURS: turned})).empty


def test_a_file_that_only_root_can_read_is_written_again() -> None:
    text = plan(seen()).changes[0]["content"]
    made = plan(seen({OURS: {"content": text, "mode": 0o600}}))
    assert paths(made) == [("write", OURS)]
    assert made.changes[0]["mode"] == "0644"
    assert str(made.differences[0].before).endswith(", with mode 0600")


def same_devices(old: str, new: str) -> dict[str, Any]:
    """A file that names the devices of our spec, and is otherwise not our spec."""
    return {
        OURS: next(c["content"] for c in plan(seen()).changes if c["op"] == "write").replace(
            old, new
        )
    }


OTHERWISE: list[tuple[str, str, str]] = [
    # what is written otherwise, how, the end of what a difference shows
    ("/dev/nvidia1\n", "/dev/nvidia7\n", ", with other device nodes"),
    ("NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_VISIBLE_DEVICES=all", ", with other variables"),
]


@pytest.mark.parametrize(("old", "new", "end"), OTHERWISE)
def test_a_spec_of_the_same_devices_says_what_differs(old: str, new: str, end: str) -> None:
    (difference,) = plan(seen(same_devices(old, new))).differences
    assert difference.before == f"{difference.after.partition(' (content ')[0]}{end}"


def test_a_change_says_what_was_there() -> None:
    made = plan(seen({OURS: file_of()}))
    assert made.changes[0]["expect"] == sha(file_of())
    difference = made.differences[0]
    bound = sha(made.changes[0]["content"])[:12]
    assert (difference.before, difference.after) == (
        "CDI 0.5.0: 0",
        f"CDI 0.5.0: 0, 1, {UUIDS[0]}, {UUIDS[1]}, all (content {bound})",
    )
    (difference,) = plan(seen({OURS: "rubbish"})).differences
    assert (
        difference.before
        == "not a CDI spec: line 1: the document is '(hidden)', but must be a mapping"
    )


NOTHING = [
    ("theirs", seen(), resource.record_of_options("toolkit", "1.0.0")),
    ("nobody reads specs", seen(), resource.record_of_options("none", "")),
    ("skipped", seen(), dc.replace(RECORD, skipped="no GPU")),
    ("no GPU", obs(files={}, packages={}), RECORD),
    (
        "theirs, and a stranger's file",
        seen({OURS: file_of()}),
        resource.record_of_options("toolkit", "1.0.0"),
    ),
]


@pytest.mark.parametrize(
    ("there", "record"), [case[1:] for case in NOTHING], ids=[case[0] for case in NOTHING]
)
def test_nothing_to_do(there: Observation, record: HostDecision) -> None:
    assert plan(there, record).empty


@pytest.mark.parametrize(
    "record",
    [resource.record_of_options("toolkit", "1.0.0"), resource.record_of_options("none", "")],
)
def test_our_file_goes_when_it_is_not_wanted_any_more(record: HostDecision) -> None:
    text = plan(seen()).changes[0]["content"]
    assert paths(plan(seen({OURS: text}), record)) == [("remove", OURS)]
    journal = {OURS: {"existed": False, "sha256_after": sha(text)}}
    assert paths(plan(seen({OURS: text}, originals=journal), record)) == [("restore", OURS)]


def test_the_refresh_units_file_is_taken_over() -> None:
    made = plan(seen({THEIRS: file_of()}))
    assert paths(made) == [("remove", THEIRS), ("write", OURS)]
    assert made.commands == ()


TAKEN = ("/etc/cdi/nvidia-backup.yaml", "/var/run/cdi/nvidia-gpu.yaml", "/var/run/cdi/x.json")


@pytest.mark.parametrize("path", TAKEN)
def test_what_the_tool_generated_under_another_name_goes(path: str) -> None:
    made = plan(seen({path: file_of()}))
    assert paths(made) == [("remove", path), ("write", OURS)]
    assert [(x.tool, x.path, x.exact, x.fate) for x in made.leftovers] == [
        ("nvidia-ctk", path, True, "adopted")
    ]
    with pytest.raises(PlanError) as refused:
        plan(seen({path: file_of()}), adopt="never")
    beside = path.startswith("/etc/cdi/")
    assert (refused.value.code, refused.value.where) == (
        "cdi.device-dropped" if beside else "cdi.outranked",
        path,
    )
    assert get_code(refused.value.values["reason"]) == "cdi.kept-by-option"
    assert "nvidia.com/gpu=0" in refused.value.values["devices"]


@pytest.mark.parametrize(("path", "tool"), [(OURS, "nvidia-ctk"), (THEIRS, "nvidia-cdi-refresh")])
def test_what_stood_in_our_place_and_what_the_unit_wrote_is_named(path: str, tool: str) -> None:
    assert [(x.tool, x.path, x.fate) for x in plan(seen({path: file_of()})).leftovers] == [
        (tool, path, "adopted")
    ]


NEVER: list[tuple[str, str, str, dict[str, str]]] = [
    ("of nvidia-ctk", file_of(), "cdi.in-our-place", {}),
    ("by hand", by_hand(), "cdi.in-our-place-with", {"additions": "the variable A"}),
    ("cut off", file_of()[:40], "cdi.in-our-place", {}),
    ("empty", "", "cdi.in-our-place", {}),
]


@pytest.mark.parametrize(
    ("text", "code", "values"), [case[1:] for case in NEVER], ids=[case[0] for case in NEVER]
)
def test_adopt_never_refuses_another_file_in_our_place(
    text: str, code: str, values: dict[str, str]
) -> None:
    with pytest.raises(PlanError) as refused:
        plan(seen({OURS: text}), adopt="never")
    assert (refused.value.where, refused.value.code, refused.value.values) == (OURS, code, values)


def test_adopt_never_has_nothing_against_our_own_spec_nor_one_that_says_the_same() -> None:
    text = plan(seen()).changes[0]["content"]
    same = text.replace(writer.HEADER, "", 1)
    assert same != text
    assert paths(plan(seen({OURS: text.replace("0.5.0", "0.3.0")}), adopt="never")) == [
        ("write", OURS)
    ]
    assert plan(seen({OURS: text}), adopt="never").empty
    assert plan(seen({OURS: same}), adopt="never").empty


@pytest.mark.parametrize("text", ["", "cdiVersion: 0.5.0\nkind: nvid", "rubbish", '{"cdiVersion":'])
def test_what_is_no_spec_is_replaced_with_a_word(text: str) -> None:
    made = plan(seen({OURS: text}))
    assert paths(made) == [("write", OURS)]
    assert [
        values["path"]
        for code, values in read_all_coded(made.advice)
        if code == "cdi.broken-replaced"
    ] == [OURS]


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("9", True),  # a name of a GPU that is not here any more
        ("9:1", False),  # another name of a GPU that is here
    ],
)
def test_a_name_that_containers_may_ask_for_keeps_the_file(name: str, gone: bool) -> None:
    node = "/dev/nvidia9" if gone else "/dev/nvidia0"
    made = plan(seen({"/etc/cdi/mig.yaml": file_of(name=name).replace("/dev/nvidia0", node)}))
    assert [(x.fate, x.exact) for x in made.leftovers] == [("adopted" if gone else "kept", True)]


def test_absent_alone_gives_back_what_was_under_another_name() -> None:
    kept = {path: {"existed": True, "sha256_after": None, "now": None} for path in TAKEN}
    other = {"/etc/hosts": {"existed": True, "sha256_after": None, "now": None}}
    assert (
        resource.list_taken_over_specs(
            Policy(), files.read_spec_file_facts(seen(originals={**kept, **other}))
        )
        == TAKEN
    )


def test_beneath_another_root_the_nodes_are_named_unseen() -> None:
    tree = {
        path: text for path, text in host(1, uuids=UNUSED).items() if not path.startswith("/dev")
    }
    made = plan(obs(files=tree), root="/images/node")
    assert [d.name for d in written(made).devices] == ["0", "all"]
    assert read_coded(made.advice[0]) == ("spec.gpu-without-uuid", {"gpus": "0"})
    assert get_code(made.advice[-1]) == "spec.nodes-assumed"


TREE = {path: text for path, text in host().items() if not path.startswith("/dev")}
DEV = {path: there for path, there in host().items() if path.startswith("/dev")}
# What a tree has of /dev, the option, and the nodes of GPUs in the spec; None: the run is refused,
# and names the node.
TREES: list[tuple[str, dict[str, Any], dict[str, Any], list[str] | None]] = [
    ("all of it", DEV, {}, ["/dev/nvidia0", "/dev/nvidia1"]),
    ("nothing", {}, {}, ["/dev/nvidia0", "/dev/nvidia1"]),
    (
        "nothing, which is allowed",
        {},
        {"cdi_missing_nodes": "allow"},
        ["/dev/nvidia0", "/dev/nvidia1"],
    ),
    ("another driver's", {"/dev/dri/card0": node(226, 0)}, {}, ["/dev/nvidia0", "/dev/nvidia1"]),
    ("one GPU's is missing", {p: t for p, t in DEV.items() if p != "/dev/nvidia1"}, {}, None),
    (
        "one is missing, which is allowed",
        {p: t for p, t in DEV.items() if p != "/dev/nvidia1"},
        {"cdi_missing_nodes": "allow"},
        ["/dev/nvidia0"],
    ),
]


@pytest.mark.parametrize(
    ("dev", "options", "named"), [row[1:] for row in TREES], ids=[row[0] for row in TREES]
)
def test_a_tree_with_nodes_is_judged_like_a_host(
    dev: dict[str, Any], options: dict[str, Any], named: list[str] | None
) -> None:
    there = obs(files={**TREE, **dev})
    if named is None:
        with pytest.raises(PlanError) as refused:
            plan(there, root="/images/node", **options)
        assert (refused.value.code, refused.value.values) == (
            "cdi.node-missing-in-tree",
            {"nodes": "/dev/nvidia1"},
        )
        return
    made = plan(there, root="/images/node", **options)
    (every,) = [d for d in written(made).devices if d.name == "all"]
    assert [n.path for n in every.edits.device_nodes] == named
    assert ("spec.nodes-assumed" in map(get_code, made.advice)) == (
        not any(path.startswith("/dev/nvidia") for path in dev)
    )


def test_absent_gives_back_what_was_there() -> None:
    text = plan(seen()).changes[0]["content"]
    journal = {
        OURS: {"existed": True, "sha256_after": sha(text), "content": file_of()},
        THEIRS: {"existed": True, "sha256_after": None, "content": file_of()},
    }
    assert paths(
        resource.plan_absent(
            Policy(), spec_facts.read_spec_removal_facts(seen({OURS: text}, originals=journal))
        )
    ) == [
        ("restore", OURS),
        ("restore", THEIRS),
    ]
    assert paths(
        resource.plan_absent(Policy(), spec_facts.read_spec_removal_facts(seen({OURS: text})))
    ) == [("remove", OURS)]
    assert resource.plan_absent(
        Policy(), spec_facts.read_spec_removal_facts(seen({OURS: file_of(), THEIRS: file_of()}))
    ).empty


def test_other_directories() -> None:
    assert (
        files.get_spec_path(Policy(cdi_spec_dirs=("/run/cdi", "/opt/cdi")))
        == "/opt/cdi/nvidia.yaml"
    )
    assert files.get_spec_path(Policy(cdi_spec_dirs=("/run/cdi",))) == "/run/cdi/nvidia.yaml"


@pytest.mark.parametrize(
    ("record", "cdi", "goes"),
    [
        ({"refused": (("containerd", "Flatcar writes it"),)}, "auto", False),
        ({"refused": (("containerd", "Flatcar writes it"),)}, "disabled", True),
        ({}, "auto", True),
    ],
)
def test_a_spec_stays_where_every_engine_is_left_alone(
    record: dict[str, Any], cdi: str, goes: bool
) -> None:
    """Such an engine is not inspected, so nothing is known of what it reads."""
    first = plan(seen())
    there = seen({OURS: next(c["content"] for c in first.changes if c["op"] == "write")})
    found = plan(there, dc.replace(RECORD, cdi_owner="none", **record), cdi=cdi)
    assert (OURS in [path for _op, path in paths(found)]) is goes
