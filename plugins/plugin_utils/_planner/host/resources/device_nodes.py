# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device nodes of NVIDIA's driver: which there have to be, with which numbers, and what makes
them now and at every boot.

The kernel hands out majors when modules are loaded, and no udev rule of the driver makes these
nodes: nvidia-modprobe does, when a program of the driver is first used. A host that starts
containers before that has none, or nodes of an image with the numbers of another boot.

The rules name the place of each number. This module reads them to find what differs, and the
program that stays on the host reads them to correct it
(module_utils/_host/resident/device_nodes.py). A test compares the two.
"""

from __future__ import annotations

import dataclasses as dc
import json
from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Driver,
    Plan,
    Policy,
    Restart,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    WHOLE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.whole import read_whole
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import host_service
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    gpus as driver_gpus,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import outer_host
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    messages,
)

NAME = "device-nodes"
SERVICE = f"gpufleet-{NAME}.service"
PATHS = host_service.list_service_paths(NAME, (SERVICE,))
# The name of a module, and that of its devices in /proc/devices, which is the kernel's word that it
# is loaded.
MODULES = (("nvidia", "nvidia"), ("nvidia-uvm", "nvidia-uvm"))
# Drivers before 550.40 called the devices of GPUs nvidia-frontend. The node of nvidia-modeset has
# the same major, and the kernel lists that name only while its module is loaded
# (pkg/system/nvdevices of the toolkit makes the node all the same).
GPU_DRIVERS = ("nvidia", "nvidia-frontend")
# Of one modprobe, and of the unit, for which engines wait at boot: a GPU that hangs holds the
# module that looks for it.
SECONDS, AT_BOOT = 50, 180
LINKS = "/dev/char"
PARAMS = {"mode": "DeviceFileMode", "uid": "DeviceFileUID", "gid": "DeviceFileGID"}
CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv", outer_host.MARK)
WHY = messages.NODES_AT_BOOT.fill()


@dc.dataclass(frozen=True)
class DesiredNode:
    """A node as it has to be. major: None if the module that gets it is not loaded yet."""

    path: str
    major: int | None
    minor: int
    mode: int
    uid: int
    gid: int
    driver: str

    @property
    def text(self) -> str:
        number = self.driver if self.major is None else str(self.major)
        return f"{number}:{self.minor} {self.mode:04o} {self.uid}:{self.gid}"


def list_device_node_rules(policy: Policy) -> dict[str, Any]:
    """Return which nodes there have to be, and where their numbers stand, for the planner and for
    the program on the host.
    """
    p = driver_gpus.get_gpu_paths(policy)
    capabilities = p.params.removesuffix("params") + "capabilities"
    gpus = {
        "each": p.information,
        "minor": "Device Minor",
        "unless": ["GPU Excluded", "Yes"],
        "drivers": list(GPU_DRIVERS),
    }
    cap = {
        "path": "/dev/nvidia-caps/nvidia-cap{minor}",
        "drivers": ["nvidia-caps"],
        "minor": "DeviceFileMinor",
        "mode": "DeviceFileMode",
    }
    return {
        "schema": 1,
        "units": [SERVICE],
        "seconds": SECONDS,
        "modules": [{"name": name, "device": device} for name, device in MODULES],
        "majors": p.devices,
        "params": {"file": p.params, **PARAMS},
        "links": LINKS,
        "nodes": [
            {"path": "/dev/nvidiactl", "minor": 255, "drivers": list(GPU_DRIVERS)},
            {
                "path": "/dev/nvidia-modeset",
                "minor": 254,
                "drivers": ["nvidia-modeset", *GPU_DRIVERS],
            },
            {"path": "/dev/nvidia-uvm", "minor": 0, "drivers": ["nvidia-uvm"]},
            {"path": "/dev/nvidia-uvm-tools", "minor": 1, "drivers": ["nvidia-uvm"]},
            {"path": "/dev/nvidia{minor}", **gpus},
            *({**cap, "each": each} for each in (f"{capabilities}/mig/*", *p.mig)),
        ],
    }


def list_questions(policy: Policy) -> list[queries.Question]:
    """Return what the everyday look at GPUs lacks for this; [] if the nodes are not managed here."""
    if policy.device_nodes != "present" and policy.state != "absent":
        return []
    globs = [
        queries.ask_for_glob(rule["each"], max=1 << 12, keep=WHOLE)
        for rule in list_device_node_rules(policy)["nodes"]
        if "each" in rule
    ]
    marks = [queries.ask_for_file(path, content=False) for path in CONTAINER_FILES]
    return [
        *host_service.list_service_questions(NAME, (SERVICE,)),
        *globs,
        *marks,
        queries.ask_for_directory(LINKS),
    ]


@dc.dataclass(frozen=True)
class DeviceNodeFacts:
    """A host's facts about device nodes, and what decides which there have to be.

    majors: the kernel's numbers by driver. parameters: those of the driver's module. devices: the
    files of a pattern of rules. files: the nodes by path. links: name -> target in /dev/char. marks:
    the files by which the host is seen to be a container. usable: the GPUs that no other driver
    holds.
    """

    majors: Fact[Mapping[str, int]]
    parameters: Fact[Mapping[str, str]]
    devices: Lookup[str, tuple[ObservedFile, ...]]
    files: Fact[Mapping[str, ObservedFile]]
    links: Fact[Mapping[str, str]]
    marks: Fact[tuple[str, ...]]
    usable: Fact[list[str]]
    service: host_service.ServiceFacts


def read_device_node_facts(policy: Policy, obs: Observation) -> DeviceNodeFacts:
    paths = driver_gpus.get_gpu_paths(policy)
    return DeviceNodeFacts(
        Fact(lambda: driver_gpus.map_device_majors(policy, obs)),
        Fact(
            lambda: driver_gpus.parse_driver_fields(
                driver_gpus.read_proc_text(obs.get_file(paths.params))
            )
        ),
        Lookup(obs.list_glob_files),
        Fact(
            lambda: {
                f.path: f
                for pattern in driver_gpus.DEV_GLOBS
                for f in obs.list_present_files(pattern)
                if f.exists
            }
        ),
        Fact(
            lambda: {
                str(entry["name"]): str(entry.get("target") or "")
                for entry in obs.list_directory(LINKS)
            }
        ),
        Fact(
            lambda: tuple(
                path
                for path in CONTAINER_FILES
                if obs.get_answer(queries.ask_for_file(path, content=False)).get("exists")
            )
        ),
        Fact(lambda: driver_gpus.list_usable_gpus(obs, paths)),
        host_service.read_service_facts(obs),
    )


def list_wanted_device_nodes(policy: Policy, facts: DeviceNodeFacts) -> tuple[DesiredNode, ...]:
    """Return every node that there has to be.

    The nodes of modules that get loaded are included; the kernel chooses their majors.
    """
    known = facts.majors.value
    parameters = facts.parameters.value
    coming = {device for _name, device in MODULES}
    nodes = []
    for rule in list_device_node_rules(policy)["nodes"]:
        driver = next((name for name in rule["drivers"] if name in known), "")
        if not driver and not coming & set(rule["drivers"]):
            continue
        for minor, own in list_rule_minors(facts, rule):
            mode = parse_setting_or_default(
                own.get(rule.get("mode", "")),
                parse_setting_or_default(parameters.get(PARAMS["mode"]), 0o666),
            )
            owner = [
                parse_setting_or_default(parameters.get(PARAMS[key]), 0) for key in ("uid", "gid")
            ]
            path = rule["path"].replace("{minor}", str(minor))
            nodes.append(
                DesiredNode(
                    path,
                    known.get(driver),
                    minor,
                    mode,
                    owner[0],
                    owner[1],
                    driver or rule["drivers"][0],
                )
            )
    return tuple(nodes)


def list_rule_minors(
    facts: DeviceNodeFacts, rule: Mapping[str, Any]
) -> list[tuple[int, Mapping[str, str]]]:
    if "each" not in rule:
        return [(rule["minor"], {})]
    minors: list[tuple[int, Mapping[str, str]]] = []
    for file in facts.devices.get(rule["each"]):
        device = driver_gpus.parse_driver_fields(driver_gpus.read_proc_text(file))
        key, value = rule.get("unless") or ("", "never")
        minor = read_whole(device.get(rule["minor"]))
        if minor is not None and device.get(key) != value:
            minors.append((minor, device))
    return minors


def parse_setting_or_default(text: str | None, default: int) -> int:
    number = read_whole(text)
    return default if number is None else number & 0o7777777


# ---------------------------------------------------------------- what differs


def list_device_node_differences(policy: Policy, facts: DeviceNodeFacts) -> list[Difference]:
    """List the modules, nodes and links that are not as they have to be, each with its reason."""
    known = facts.majors.value
    files, links = facts.files.value, facts.links.value
    differences = [
        Difference(
            "module",
            name,
            "",
            "not loaded",
            "loaded",
            messages.MODULE_NOT_LOADED.fill(device=device),
        )
        for name, device in MODULES
        if device not in known and not (device == "nvidia" and "nvidia-frontend" in known)
    ]
    for want in list_wanted_device_nodes(policy, facts):
        differences += compare_device_node(want, files.get(want.path)) + compare_node_link(
            want, links
        )
    return differences


def compare_device_node(want: DesiredNode, file: ObservedFile | None) -> list[Difference]:
    if file is None:
        return [
            Difference(
                "node",
                want.path,
                "",
                None,
                want.text,
                messages.NODE_LACKING.fill(driver=want.driver),
            )
        ]
    if file.type != "char" or file.rdev is None:
        return [
            Difference(
                "node", want.path, "", f"a {file.type}", want.text, messages.NOT_A_NODE.fill()
            )
        ]
    have = f"{file.rdev[0]}:{file.rdev[1]} {file.mode & 0o7777:04o} {file.uid}:{file.gid}"
    if file.rdev != (want.major, want.minor):
        known = want.major is not None
        why = (
            messages.OTHER_NUMBER.fill(driver=want.driver, major=want.major)
            if known
            else messages.NUMBER_NOT_KNOWN.fill(driver=want.driver)
        )
        return [Difference("node", want.path, "", have, want.text, why)]
    if have != want.text:
        return [Difference("node", want.path, "", have, want.text, messages.OTHER_MODE.fill())]
    return []


def compare_node_link(want: DesiredNode, links: Mapping[str, str]) -> list[Difference]:
    if want.major is None:
        return []  # comes with its node
    name = f"{want.major}:{want.minor}"
    relative = f"../{want.path.removeprefix('/dev/')}"
    if links.get(name) in (relative, want.path):
        return []
    return [
        Difference(
            "node",
            f"{LINKS}/{name}",
            "",
            links.get(name) or None,
            relative,
            messages.LINK_MISSING.fill(),
        )
    ]


# ---------------------------------------------------------------- plans


def plan_device_nodes(policy: Policy, facts: DeviceNodeFacts, driver: Driver, program: str) -> Plan:
    """Plan the files that stay on the host, and one start of their unit if anything differs now.

    Raise PlanError if a single-resource module cannot create the nodes because of the driver.
    """
    if policy.device_nodes != "present":
        return Plan()
    against = explain_device_node_objection(policy, facts, driver)
    if against and policy.single and driver.state in ("broken", "not-loaded"):
        raise PlanError(messages.NODES_REFUSED.fill(problem=against), next=driver.remedy)
    if against:
        return Plan(advice=(messages.NODES_LEFT_ALONE.fill(problem=against),))
    settings = json.dumps(list_device_node_rules(policy), indent=2, sort_keys=True) + "\n"
    text = host_service.write_service_unit(
        NAME, "Make the device nodes of NVIDIA's driver", seconds=AT_BOOT
    )
    there = host_service.plan_service(
        policy,
        facts.service,
        host_service.Resident(NAME, {SERVICE: text}, (SERVICE,), WHY, settings, program),
    )
    if policy.root != "/":
        return there
    differences = tuple(list_device_node_differences(policy, facts))
    start = (Restart(SERVICE, "start", WHY),) if differences else ()
    return merge_plans([there, Plan(differences=differences, restarts=start)])


def explain_device_node_objection(policy: Policy, facts: DeviceNodeFacts, driver: Driver) -> str:
    """Return why nothing is to be done here; '' if something is."""
    marks = facts.marks.value
    # a proc_root that is set is trusted
    if marks and policy.root == "/" and policy.proc_root == "/proc":
        return messages.IN_CONTAINER.fill(mark=marks[0])
    if policy.root != "/":
        return ""
    if driver_gpus.get_dev_root(policy) != "/":
        return messages.DRIVER_CONTAINER.fill(path=driver_gpus.get_dev_root(policy))
    if driver.state == "none":
        return driver.evidence
    held = driver.state == "not-loaded" and not facts.usable.value
    if driver.state == "broken" or held or (driver.state == "not-loaded" and driver.remedy):
        return driver.evidence
    return ""


def plan_absent(policy: Policy, facts: DeviceNodeFacts) -> Plan:
    """Plan to remove what stays on the host.

    The nodes stay until the next boot: they are the driver's, and containers use them.
    """
    return host_service.plan_service_removal(
        policy, facts.service, NAME, (SERVICE,), messages.NODES_WITHDRAWN.fill()
    )


def predict_device_nodes(policy: Policy, obs: Observation, driver: Driver) -> Observation:
    """Return the host as it is after plan_device_nodes(), with all nodes, for what the same
    transaction plans from the nodes.
    """
    facts = read_device_node_facts(policy, obs)
    if (
        policy.device_nodes != "present"
        or policy.root != "/"
        or driver.state != "ok"
        or explain_device_node_objection(policy, facts, driver)
    ):
        return obs
    by_path = {want.path: want for want in list_wanted_device_nodes(policy, facts)}
    answers: dict[str, Mapping[str, Any]] = {}
    for pattern in driver_gpus.DEV_GLOBS[:2]:
        kept = [
            f
            for f in obs.get_answer(queries.ask_for_glob(pattern, content=False)).get("files") or ()
            if f.get("path") not in by_path
        ]
        made = [
            build_node_answer(want)
            for path, want in by_path.items()
            if ("/nvidia-caps/" in path) == ("/nvidia-caps/" in pattern)
        ]
        answers[queries.ask_for_glob(pattern, content=False)["id"]] = {
            "files": sorted([*kept, *made], key=lambda f: str(f["path"]))
        }
    return Observation(obs.host, ChainMap(answers, obs.answers))  # type: ignore[arg-type]


def build_node_answer(want: DesiredNode) -> dict[str, Any]:
    rdev = None if want.major is None else [want.major, want.minor]
    return {
        "path": want.path,
        "exists": True,
        "type": "char",
        "rdev": rdev,
        "mode": want.mode,
        "uid": want.uid,
        "gid": want.gid,
    }
