# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Specs that real nodes have published: the host that such a spec describes gets the same mounts and
nodes from us, but for what the table of deviations explains.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import deviations

from tests.gpu import spec_facts
from tests.lab import trees
from tests.lab.fakegpu import inventories
from tests.tools import oracle

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not shutil.which("go"), reason="nvidia-ctk is built with Go, which is not here"
    ),
]

FILE = Path(__file__).resolve().parent.parent / "fixtures" / "replayed_specs.yml"
SPECS: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())
UUID = "GPU-00000000-0000-0000-0000-000000000000"
TOPICS = {d.topic for d in deviations.DEVIATIONS}


def mounts(spec: dict[str, Any]) -> set[tuple[str, str]]:
    """What the published spec mounts: path on the host, and in the container."""
    folder, version = f"/{spec['folder']}", spec["driver"]
    names = [f"{name}.so.{version}" for name in spec["libraries"]] + spec["own"]
    plain = [f"{folder}/{name}" for name in names]
    plain += [f"/usr/bin/{name}" for name in spec["programs"]] + spec["sockets"]
    given = (path.partition("::")[::2] for path in spec["files"])
    return {(path, path) for path in plain} | {(host, inside or host) for host, inside in given}


def merged(path: str) -> str:
    """Return a path on a host whose /lib is a link into /usr."""
    return f"/usr{path}" if path.startswith("/lib/") else path


def build(root: Path, spec: dict[str, Any], open_sockets: ExitStack) -> None:
    """Build the host of a published spec: nothing is there but what the spec names."""
    for name in ("lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    (root / "run").mkdir()
    (root / "var").mkdir()
    (root / "var/run").symlink_to("../run")
    for host, _inside in mounts(spec):
        if host in spec["sockets"]:
            (root / host[1:]).parent.mkdir(parents=True)
            listener = open_sockets.enter_context(socket.socket(socket.AF_UNIX))
            with tempfile.TemporaryDirectory() as short:  # a socket's path has 107 characters
                listener.bind(f"{short}/socket")
                shutil.move(f"{short}/socket", root / host[1:])
        elif ".so." in host:
            stem = host.removeprefix(f"/{spec['folder']}/").partition(".so.")[0]
            trees.library(root / host[1:], stem)
        else:
            program = host.startswith("/usr/bin/")
            trees.write(root / host[1:], b"#!/bin/sh\n" if program else b"{}\n")
    given = spec["gpu"]
    gpu = inventories.Gpu(
        UUID,
        0,
        given["bus"],
        drm="card" in given,
        drm_numbers=(given["card"], given["render"]) if "card" in given else None,
    )
    inv = inventories.Inventory((gpu,), version=spec["driver"], loaded=spec["driver"])
    trees.hardware(root, inv)
    for node in (root / "dev").glob("nvidia*"):
        if node.is_char_device() and node.name not in (*spec["nodes"], "nvidia0"):
            node.unlink()


@pytest.fixture(params=SPECS)
def replayed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    with ExitStack() as open_sockets:
        build(tmp_path, SPECS[request.param], open_sockets)
        yield request.param, tmp_path


def test_mounts_and_nodes_are_those_of_the_node(replayed: tuple[str, Path]) -> None:
    name, root = replayed
    spec = SPECS[name]
    made = oracle.ours(root)
    facts = spec_facts.list_facts(made, root)
    ours = {(fact.value[0], fact.value[1]) for fact in facts if fact.kind == "mount"}
    theirs = {(merged(host), inside) for host, inside in mounts(spec)}
    apart = {
        f"{side}: {inside}"
        for side, lot in (("theirs", theirs - ours), ("ours", ours - theirs))
        for _host, inside in lot
    }
    assert apart == set(spec["differs"]), sorted(apart)
    assert set(spec["differs"].values()) <= TOPICS
    given = spec["gpu"]
    drm = {f"card{given['card']}", f"renderD{given['render']}"} if "card" in given else set()
    wanted = {f"/dev/{node}" for node in [*spec["nodes"], "nvidia0"]}
    wanted |= {f"/dev/dri/{name}" for name in drm}
    for device in ("0", UUID, "all"):
        found = spec_facts.select_device_facts(facts, device)
        assert {fact.value[0] for fact in found if fact.kind == "node"} == wanted


def test_nvidia_ctk_of_today_makes_the_same_of_it(replayed: tuple[str, Path]) -> None:
    _name, root = replayed
    theirs = spec_facts.place_links_by_bus(spec_facts.list_facts(oracle.theirs(root), root), root)
    found = spec_facts.compare_facts(
        theirs, spec_facts.list_facts(oracle.ours(root, cdi_sockets=True), root)
    )
    assert found.pop("", []) == []
