# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CDI specs as facts without order, and what two of them tell differently.

Every difference stands under the topic of the list of intended ones that explains it.
"""

from __future__ import annotations

import dataclasses as dc
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    catalogue,
    roots,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Edits,
    Spec,
)

# The host side is not typed.
HOST_FILES: Any = importlib.import_module(
    "ansible_collections.gpufleet.nvidia.plugins.module_utils._host.host_files"
)
# Topics of the list of intended differences.
NODE_NUMBERS, MEMORY_LIMITS, SOCKETS, ABSOLUTE_LINKS, LINKS_BY_BUS = (
    "node numbers",
    "memory limits",
    "sockets",
    "absolute links",
    "links by bus",
)
BY_PATH = "/dev/dri/by-path/"


@dc.dataclass(frozen=True, order=True)
class Fact:
    """A fact of a spec: the device that it is about ('' for all of them), its kind, and its value."""

    device: str
    kind: str
    value: tuple[str, ...]


def list_facts(spec: Spec, tree: Path) -> frozenset[Fact]:
    """Return a spec as facts without order.

    Host paths are as the tree has them, without the root in front and without links.
    """
    parts = [("", spec.edits), *((d.name, d.edits) for d in spec.devices)]
    root = str(tree).rstrip("/")

    def host(path: str) -> str:
        inside = roots.get_path_inside_root(str(tree), path)
        return str(HOST_FILES.resolve_links(root, inside)[0])

    return frozenset(
        fact for name, edits in parts for fact in iterate_edit_facts(name, edits, host)
    )


def select_device_facts(found: frozenset[Fact], device: str) -> frozenset[Fact]:
    """Return what a container gets that asks for this device, wherever in the spec it stands."""
    return frozenset(dc.replace(fact, device="") for fact in found if fact.device in ("", device))


def place_links_by_bus(found: frozenset[Fact], root: Path) -> frozenset[Fact]:
    """Return the facts with the links by bus where a driver without a root of its own has them."""
    misplaced = str(root) + BY_PATH

    def placed(fact: Fact) -> Fact:
        if fact.kind != "link" or not fact.value[1].startswith(misplaced):
            return fact
        return dc.replace(fact, value=(fact.value[0], fact.value[1].removeprefix(str(root))))

    return frozenset(map(placed, found))


def iterate_edit_facts(device: str, edits: Edits, host: Callable[[str], str]) -> Iterator[Fact]:
    yield from (Fact(device, "env", (value,)) for value in edits.env)
    for m in edits.mounts:
        yield Fact(
            device, "mount", (host(m.host_path), m.container_path, ",".join(m.options), m.type)
        )
    for n in edits.device_nodes:
        yield Fact(device, "node", (n.path, host(n.host_path or n.path)))
        numbers = {
            "type": n.type,
            "major": n.major,
            "minor": n.minor,
            "mode": n.file_mode,
            "permissions": n.permissions,
            "gid": n.gid,
        }
        # NVIDIA's reader leaves out a minor of 0, which a library takes for 0 all the same.
        yield from (
            Fact(device, "node number", (n.path, key, str(value)))
            for key, value in numbers.items()
            if value
        )
    for number, h in enumerate(edits.hooks):
        command = h.args[1] if len(h.args) > 1 else ""
        if command == "create-symlinks":
            yield from (Fact(device, "link", tuple(link.split("::"))) for link in h.args[3::2])
            yield Fact(device, "hook", (h.name, h.path, command, *h.env))
        else:
            yield Fact(device, "hook", (h.name, h.path, *h.args, *h.env))
        if command in ("enable-cuda-compat", "update-ldcache"):
            yield Fact(device, "hook order", (command, str(number)))
    yield from (Fact(device, "group", (str(gid),)) for gid in edits.additional_gids)


def compare_facts(
    theirs: frozenset[Fact], ours: frozenset[Fact]
) -> dict[str, list[tuple[str, Fact]]]:
    """Return, by topic, the facts that only one of the two has. '' holds the facts that no topic
    explains.
    """
    found: dict[str, list[tuple[str, Fact]]] = {}
    for side, lot in (("theirs", theirs - ours), ("ours", ours - theirs)):
        for fact in sorted(lot):
            found.setdefault(find_topic(side, fact), []).append((side, fact))
    return found


def find_topic(side: str, fact: Fact) -> str:
    """Return the topic of the intended difference that a fact belongs to, or '' if it belongs to
    none.
    """
    if fact.kind == "node number" and side == "theirs":
        return NODE_NUMBERS
    if fact.kind == "hook" and side == "theirs" and "apply-cuda-memory-limits" in fact.value:
        return MEMORY_LIMITS
    sockets = (
        *(f"{root}{name}" for root in catalogue.SOCKET_ROOTS for name in catalogue.SOCKETS),
        catalogue.MPS,
    )
    if fact.kind == "mount" and side == "theirs" and fact.value[1] in sockets:
        return SOCKETS
    if fact.kind == "link" and fact.value[1].startswith(BY_PATH) == (side == "ours"):
        return LINKS_BY_BUS if BY_PATH in fact.value[1] else ""
    if fact.kind == "mount" and side == "ours" and fact.value[0] != fact.value[1]:
        return ABSOLUTE_LINKS
    return ""
