# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A comparison of nvidia-ctk's CDI spec of a tree with ours, as facts.

Every difference stands under the topic of the list of intended ones that explains it.
"""

from __future__ import annotations

import dataclasses as dc
import importlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import fabric_kinds
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    inventory,
    sources,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    catalogue,
    discover,
    driver_listing,
    roots,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    build,
    layouts,
    profiles,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate.hooks import (
    INSTALLED,
    HookProgram,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Edits,
    Spec,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import gpus

from tests.lab import artefacts, fakegpu

# The host side is not typed.
OBSERVER: Any = importlib.import_module(
    "ansible_collections.gpufleet.nvidia.plugins.module_utils._host.observe"
)
TOOLKIT = "nvidia-toolkit"
PROGRAM = HookProgram(INSTALLED, (1, 20, 2))
# The lab has no library of that name that answers; it tells the same nodes and version as NVML.
FLAGS = ["--feature-flag", "disable-nvsandboxutils", "--nvidia-cdi-hook-path", INSTALLED]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHOWN = 'mount --bind "$0/proc/driver" /proc/driver && mount --bind "$0/sys/bus/pci/devices" /sys/bus/pci/devices && exec "$@"'
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


def theirs(root: Path, mode: str = "nvml", *more: str) -> Spec:
    """Return the spec that nvidia-ctk makes of a tree. ValueError contains its last line of output
    if it fails.
    """
    return reader.parse_spec(run(root, mode, *more))


def run(root: Path, mode: str, *more: str) -> str:
    command = [
        str(artefacts.go_tool(TOOLKIT) / "nvidia-ctk"),
        "cdi",
        "generate",
        "--mode",
        mode,
        "--driver-root",
        str(root),
    ]
    env = {"PATH": PATH, "FAKE_NVML": str(root / "etc/fake-nvml.conf")}
    # It reads the table of MIG's minors in /proc, and which DRM nodes a GPU has in /sys, wherever
    # its roots are.
    shown = ["unshare", "--mount", "sh", "-c", SHOWN, str(root / fakegpu.TOP)]
    done = subprocess.run(
        [*shown, *command, *FLAGS, *more], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def policy(root: Path, **more: object) -> Policy:
    faked = root / fakegpu.TOP
    return Policy(
        cdi_driver_root=str(root),
        cdi_dev_root=str(root),
        proc_root=f"{faked}/proc",
        sys_root=f"{faked}/sys",
        **more,  # type: ignore[arg-type]
    )


def request(wanted: Policy, questions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a request as of a task with `environment: {FAKE_NVML: ...}`.

    What the host runs gets the variables that the task names, and no others.
    """
    return {"schema": 1, "root": wanted.root, "questions": questions, "environment": ["FAKE_NVML"]}


def look(wanted: Policy) -> Observation:
    """Return what the observer finds in a tree, on this machine."""
    questions = [*gpus.list_questions(wanted), *driver_listing.list_driver_file_questions(wanted)]
    return Observation({}, {}).add_answers(OBSERVER.run(request(wanted, questions)))


def ours(
    root: Path, profile: profiles.Profile = "full", layout: str = layouts.WORKLOADS, **more: object
) -> Spec:
    wanted = policy(root, **more)
    return planned(wanted, observed(root, wanted), profile, layout)


def observed(root: Path, wanted: Policy) -> Observation:
    """Return all that a spec takes, NVML's answers included."""
    # reaches the probe because each request names it
    os.environ["FAKE_NVML"] = str(root / "etc/fake-nvml.conf")
    seen = look(wanted)
    for _round in range(6):
        try:
            planned(wanted, seen)
        except NeedMore as need:
            seen = seen.add_answers(OBSERVER.run(request(wanted, need.questions)))
        else:
            return seen
    raise AssertionError("it still asks")


def planned(
    wanted: Policy,
    seen: Observation,
    profile: profiles.Profile = "full",
    layout: str = layouts.WORKLOADS,
) -> Spec:
    """Plan a spec from one observation, which is the pure part."""
    driver = gpus.parse_driver(wanted, seen)
    found = discover.discover(
        seen, wanted, wanted.cdi_features or catalogue.FEATURES, driver.version
    )
    how = profiles.MountPlan(
        profile,
        PROGRAM,
        wanted.cdi_driver_root,
        str(seen.host["machine"]),
        layout == layouts.MANAGEMENT,
    )
    links = driver_listing.map_dri_links(wanted, seen)

    def of_gpu(drm: tuple[str, ...]) -> Edits:
        return profiles.build_gpu_link_edits(drm, links, how)

    options = build.Options(cap="1.1.0", layout=layout, names=wanted.cdi_device_names)
    there, _words = sources.identify_hardware(
        wanted, seen, inventory.observe(wanted, seen, driver.gpus), transport.probe_source("nvml")
    )
    return build.generate(
        fabric_kinds.get_fabric_part(wanted, there, layout),
        options,
        profiles.build_common_edits(found, how),
        of_gpu,
    ).spec


# ---------------------------------------------------------------- comparing


def facts(spec: Spec, tree: Path) -> frozenset[Fact]:
    """Return a spec as facts without order.

    Host paths are as the tree has them, without the root in front and without links.
    """
    parts = [("", spec.edits), *((d.name, d.edits) for d in spec.devices)]
    resolve = importlib.import_module(
        OBSERVER.__name__.replace("observe", "host_files")
    ).resolve_links

    def host(path: str) -> str:
        return str(resolve(str(tree), roots.get_path_inside_root(str(tree), path))[0])

    return frozenset(fact for name, edits in parts for fact in of_edits(name, edits, host))


def of_device(found: frozenset[Fact], device: str) -> frozenset[Fact]:
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


def of_edits(device: str, edits: Edits, host: Callable[[str], str]) -> Iterator[Fact]:
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


def differences(
    theirs_: frozenset[Fact], ours_: frozenset[Fact]
) -> dict[str, list[tuple[str, Fact]]]:
    """Return, by topic, the facts that only one of the two has. '' holds those that no topic
    explains.
    """
    found: dict[str, list[tuple[str, Fact]]] = {}
    for side, lot in (("theirs", theirs_ - ours_), ("ours", ours_ - theirs_)):
        for fact in sorted(lot):
            found.setdefault(topic(side, fact), []).append((side, fact))
    return found


def topic(side: str, fact: Fact) -> str:
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


def chrooted(root: Path, mode: str = "nvml") -> Spec:
    """Run nvidia-ctk within a tree whose links are absolute, and return its spec.

    If the tree is its driver root, nvidia-ctk follows such links on the host.
    """
    command = ["chroot", str(root), "/tmp/nvidia-ctk", "cdi", "generate", "--mode", mode, *FLAGS]  # noqa: S108
    done = subprocess.run(
        command, env={"PATH": PATH, "LC_ALL": "C"}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1])
    return reader.parse_spec(done.stdout)
