# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and files with which no CDI spec is written, each with its code."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_generators,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import outer_host

from tests.unit.builders import obs
from tests.unit.cdi_plans import (
    OURS,
    RECORD,
    THEIRS,
    by_hand,
    file_of,
    paths,
    plan,
    seen,
    two_names,
)
from tests.unit.coded import read_all_coded
from tests.unit.gpus import BUSES, host

GENERATED = cdi_generators.GENERATORS["nixos"].output
LXC = {outer_host.MARK: "lxc\n"}
UNLOADED = {path: None for path in host() if path.startswith(("/proc/driver", "/sys/module"))}
OTHER, ABOVE, NAMED = "/etc/cdi/nvidia-own.yaml", "/var/run/cdi/x.json", "/etc/cdi/x.yaml"
VARIABLE = {"additions": "the variable A"}
TWICE = {"devices": "nvidia.com/gpu=0", "mine": OURS}
REFUSED: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    # what the host is like, its files, the code of the refusal, some of its values; `where` is its
    # place
    (
        "mismatch",
        host(version="550.90.07"),
        "cdi.driver-broken",
        {"evidence": "driver.versions-differ"},
    ),
    (
        "cut short",
        {f"/proc/driver/nvidia/gpus/{BUSES[0]}/information": "Model"},
        "cdi.driver-broken",
        {"evidence": "driver.file-cut-short"},
    ),
    ("not loaded", UNLOADED, "cdi.driver-not-loaded", {"evidence": "driver.not-loaded"}),
    ("no uvm node", {"/dev/nvidia-uvm": None}, "cdi.node-missing", {"nodes": "/dev/nvidia-uvm"}),
    ("no node of a GPU", {"/dev/nvidia1": None}, "cdi.node-missing", {"nodes": "/dev/nvidia1"}),
    (
        "no node in an LXC container",
        {"/dev/nvidia1": None, **LXC},
        "cdi.node-missing",
        {"nodes": "/dev/nvidia1"},
    ),
    (
        "not loaded outside of it",
        {**UNLOADED, **LXC},
        "cdi.driver-not-loaded",
        {"evidence": "driver.not-loaded"},
    ),
    (
        "a copy beside it",
        {OTHER: by_hand()},
        "cdi.device-dropped",
        {**TWICE, "reason": "cdi.kept-additions", "where": OTHER},
    ),
    (
        "a file above it",
        {ABOVE: by_hand()},
        "cdi.outranked",
        {**TWICE, "reason": "cdi.kept-additions", "where": ABOVE},
    ),
    (
        "by hand in our place",
        {OURS: by_hand()},
        "cdi.additions-lost",
        {**VARIABLE, "effect": "cdi.written-there", "where": OURS},
    ),
    (
        "by hand where the unit writes",
        {THEIRS: by_hand()},
        "cdi.additions-lost",
        {**VARIABLE, "effect": "cdi.would-hide", "where": THEIRS},
    ),
    (
        "a name of theirs",
        {NAMED: two_names()},
        "cdi.device-dropped",
        {"reason": "cdi.kept-names", "where": NAMED},
    ),
    (
        "a link",
        {OURS: {"content": "x", "real": "/srv/cdi.yaml"}},
        "cdi.link",
        {"target": "/srv/cdi.yaml", "where": OURS},
    ),
    (
        "a link out",
        {OURS: {"real": "/etc/shadow", "error": {"kind": "outside", "message": "x"}}},
        "cdi.link",
        {"target": "/etc/shadow", "where": OURS},
    ),
]


@pytest.mark.parametrize(
    ("files", "code", "values"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_refused(files: dict[str, Any], code: str, values: dict[str, Any]) -> None:
    with pytest.raises(PlanError) as refused:
        plan(seen(files))
    found = {name: get_code(value) or value for name, value in refused.value.values.items()}
    assert refused.value.code == code
    assert values.items() <= {**found, "where": refused.value.where}.items()
    inside = outer_host.MARK in files
    assert ("container (lxc)" in refused.value.next) == inside
    assert ("nvidia-modprobe" in refused.value.next) == (code == "cdi.node-missing" and not inside)


# How many GPUs a host has, its nodes that are missing, and the nodes that the refusal names. Then
# no device has an edit, and no kind a spec.
BARE = [
    ("the only GPU's", 1, ["/dev/nvidia0"], "/dev/nvidia0"),
    ("those of all GPUs", 2, ["/dev/nvidia0", "/dev/nvidia1"], "/dev/nvidia0, /dev/nvidia1"),
    (
        "all of them",
        1,
        ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"],
        "/dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia0",
    ),
]


@pytest.mark.parametrize(
    ("gpus", "gone", "named"), [row[1:] for row in BARE], ids=[row[0] for row in BARE]
)
def test_a_host_on_which_no_device_has_a_node_is_refused(
    gpus: int, gone: list[str], named: str
) -> None:
    there = obs(files={**host(gpus), **dict.fromkeys(gone)})
    with pytest.raises(PlanError) as refused:
        plan(there)
    assert (refused.value.code, refused.value.values["nodes"]) == ("cdi.node-missing", named)
    allowed = plan(there, cdi_missing_nodes="allow")
    assert allowed.empty
    assert "cdi.no-device-of-kind" in map(get_code, allowed.advice)


def test_a_folder_in_our_place_is_refused() -> None:
    with pytest.raises(PlanError) as refused:
        plan(seen({OURS: {"type": "dir"}}))
    assert refused.value.where == OURS


@pytest.mark.parametrize(("system", "refused"), [("nixos", True), ("ubuntu", False)])
def test_a_generator_of_the_distribution_keeps_its_file(system: str, refused: bool) -> None:
    """NixOS/nixpkgs#366109, #397065 and #278969: its module writes the file at each boot, and would
    hide another spec.
    """
    there = seen({GENERATED: file_of()}, host={"os_release": {"ID": system}, "epoch": 10.0})
    if not refused:
        assert ("remove", GENERATED) in paths(plan(there))
        return
    with pytest.raises(
        PlanError, match=f"{GENERATED}: NixOS generates the CDI spec.*gpufleet_cdi_owner: toolkit"
    ):
        plan(there)
    assert paths(plan(there, cdi_class="vgpu", single=True)) == [
        ("write", "/etc/cdi/nvidia.com-vgpu.yaml")
    ]
    assert plan(there, dc.replace(RECORD, cdi_owner="toolkit")).empty


STRAYS = [
    ("/etc/cdi/nvidia.yml", file_of(), "cdi.other-ending"),
    ("/etc/cdi/broken.yaml", "kind: nvidia.com/gpu\n", "cdi.ignored"),
    ("/etc/cdi/other.yaml", file_of(kind="example.com/nic"), ""),
    ("/etc/cdi/mig.yaml", file_of(name="9:1"), ""),
    (
        "/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json",
        file_of(kind="k8s.device-plugin.nvidia.com/gpu"),
        "",
    ),
    ("/etc/cdi/notes.txt", "about nvidia.com/gpu", ""),
    (
        "/etc/cdi/shadow.yaml",
        {"type": "file", "error": {"kind": "outside", "message": "is a link to /etc/shadow"}},
        "cdi.unreadable",
    ),
]


@pytest.mark.parametrize(("path", "text", "code"), STRAYS, ids=[case[0] for case in STRAYS])
def test_other_files_deserve_at_most_a_word(path: str, text: Any, code: str) -> None:
    advice = read_all_coded(plan(seen({path: text})).advice)
    assert [(of, values["path"]) for of, values in advice] == ([(code, path)] if code else [])
