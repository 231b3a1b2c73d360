# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cases that verify a host's decision: containers, and for each what it asks for, what it gets,
and what it is refused.

A container that asks for one GPU gets exactly its nodes, and one that asks for none gets none. A
container cannot open a node that it was not given, even if it makes the node itself: the device
cgroup returns EPERM, while an allowed node without a driver returns ENXIO.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping
from typing import Any, Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Driver,
    HostDecision,
    Instance,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    verify as containerd_verify,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    device_plugin,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    toolkit_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    granted,
    messages,
)

Expect = Literal["allowed", "refused", "optional"]
Way = Literal["variable", "mounts", "privileged"]

KIND = "nvidia.com/gpu"
LABEL = "gpufleet-check"
ENV = "NVIDIA_VISIBLE_DEVICES"
# config key accept-nvidia-visible-devices-as-volume-mounts
VOLUME_MOUNTS = "/var/run/nvidia-container-devices"
ENGINE_ANNOTATION = "cdi.k8s.io/gpufleet-check"
GPU_MAJOR, CONTROL_MINOR = 195, 255
CONTROL = "/dev/nvidiactl"
# Majors of these are dynamic, the host looks them up; the writer of the CDI spec decides which of
# them a container gets.
COMPANIONS = ("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
LISTED = "/dev/nvidia*"
# The runtime's own sign of a privileged container, with which the variable counts on strict hosts.
# One that is privileged in every way would get every node from the engine, which proves nothing.
PRIVILEGED = ["SYS_ADMIN"]
# Of a record that NVIDIA's hook leaves: what it was asked for.
RECORD_SHOWS = r"--device=[\w,:.-]{1,4096}"
WHY_ONE, WHY_MIG = messages.ONE_GPU.fill(), messages.MIG_DEVICE_ALONE.fill()


@dc.dataclass(frozen=True)
class Ask:
    """A request of a container for devices, before the way of asking is chosen."""

    name: str
    minors: tuple[int, ...]
    ids: str  # as written in an environment variable: "0", "all"; "" = nothing
    why: str
    kind: str = KIND


def list_asks(gpus: tuple[SeenGpu, ...]) -> tuple[Ask, ...]:
    """Return the requests of a workload: one GPU, all of them if there are several, and none.

    On a host without GPUs, return only the request for none.
    """
    none = Ask("none", (), "", messages.NONE_REQUESTED.fill())
    if not gpus:
        return (none,)
    first = min(gpus, key=lambda g: (not g.migs, g.index))
    # A GPU in MIG mode is given away by its MIG devices only; `0:0` is the first of GPU 0.
    one = Ask(
        "one",
        (first.minor,),
        f"{first.index}:0" if first.migs else str(first.index),
        WHY_MIG if first.migs else WHY_ONE,
    )
    everything = Ask("all", tuple(g.minor for g in gpus), "all", messages.ALL_GPUS.fill())
    return (one, none) if len(gpus) == 1 else (one, everything, none)


def list_cases(
    host: HostDecision,
    instances: tuple[Instance, ...],
    driver: Driver,
    *,
    image: str,
    evidence_file: str = "",
    statuses: Mapping[str, Mapping[str, Any]] | None = None,
    fabric: tuple[str, ...] = (),
    more: tuple[Ask, ...] = (),
    nodes_of_all: frozenset[str] | None = None,
) -> list[dict[str, Any]]:
    """Return every case of a host, engine by engine.

    statuses: CRI status by socket, for the cgroup driver in force.
    fabric: nodes of NVSwitches and IMEX channels, which a container gets only if it asks for them.
    more: further requests to an engine that resolves devices itself.
    nodes_of_all: the nodes that the spec gives with all GPUs, None if that is not known.
    """
    by_key = {i.key: i for i in instances}
    cases = []
    engines = [d.engine for d in host.decisions]
    for decision in host.decisions:
        subject = decision.engine if engines.count(decision.engine) == 1 else decision.instance
        instance = by_key[decision.instance]
        if (
            instance.cri or traits.get_traits(instance.engine).verification != "cri"
        ) and not instance.refusal:
            status = (statuses or {}).get(instance.socket, {})
            row = [
                granted.expect_granted_nodes(case, decision.injection, nodes_of_all)
                for case in _list_row_cases(host, decision, instance, driver.gpus, evidence_file)
            ]
            row += [
                _build_native_case(ask, instance, driver.gpus)
                for ask in more
                if decision.injection == "native-cdi"
            ]
            cases += [
                _finish_case(_drop_fabric(case, fabric), subject, decision, instance, status, image)
                for case in row
            ]
    return cases


def _choose_way(host: HostDecision) -> Way:
    """Return how an unprivileged container asks the NVIDIA runtime on this host.

    If it cannot, return the way of a container that counts as privileged.
    """
    if host.isolation == "compatible":
        return "variable"
    return "mounts" if toolkit_config.MOUNTS in host.plugin_strategies else "privileged"


def _list_row_cases(
    host: HostDecision,
    decision: Decision,
    instance: Instance,
    gpus: tuple[SeenGpu, ...],
    evidence_file: str,
) -> list[dict[str, Any]]:
    strict, way = host.isolation == "strict", _choose_way(host)
    if decision.injection == "native-cdi":
        handler = decision.handler if gpus else ""
        managed = (
            [_build_management_case(decision, gpus, strict)] if handler and instance.cri else []
        )
        runtime = [] if instance.cri or not handler else [_build_option_case(gpus, handler, way)]
        plugin = _build_plugin_cases(host, decision, gpus) if handler and instance.cri else []
        return (
            [_build_native_case(a, instance, gpus) for a in list_asks(gpus)]
            + managed
            + runtime
            + plugin
        )
    handler = "" if decision.default or not decision.handler else decision.handler
    record = evidence_file if decision.injection in ("legacy", "oci-hook") else ""
    cases = [_build_runtime_case(a, handler, gpus, way=way, record=record) for a in list_asks(gpus)]
    return cases + ([_build_refused_variable(handler, gpus, record)] if strict and gpus else [])


def _build_native_case(ask: Ask, instance: Instance, gpus: tuple[SeenGpu, ...]) -> dict[str, Any]:
    """Return a case that the engine resolves itself: by the CRI field, or by annotation if the
    engine is older than the field.
    """
    names = [f"{ask.kind}={ask.ids}"] if ask.ids else []
    case = {"name": ask.name, "why": ask.why, "handler": "", "nodes": _list_nodes(ask.minors, gpus)}
    if instance.cdi.cri_field:
        return {**case, "devices": names}
    return {**case, "annotations": {ENGINE_ANNOTATION: ",".join(names)} if names else {}}


def _build_runtime_case(
    ask: Ask, handler: str, gpus: tuple[SeenGpu, ...], *, way: Way, record: str
) -> dict[str, Any]:
    """Return a case in which the NVIDIA runtime or its hook answers the variable, or mounts if a
    device plugin asks by them.
    """
    case: dict[str, Any] = {
        "name": ask.name,
        "why": ask.why,
        "handler": handler,
        "nodes": _list_nodes(ask.minors, gpus, recorded=bool(record)),
    }
    if ask.ids and way == "mounts":
        case["mounts"] = [["/dev/null", f"{VOLUME_MOUNTS}/{ask.ids}"]]
    if ask.ids and way == "privileged":
        case["capabilities"] = PRIVILEGED
    if ask.ids:
        case["env"] = {ENV: VOLUME_MOUNTS if way == "mounts" else ask.ids}
    if record:
        wanted = [f"--device={re.escape(ask.ids)}(?![0-9])"] if ask.ids else []
        case["record"] = {
            "path": record,
            "shows": RECORD_SHOWS,
            **({"contains": wanted} if wanted else {"silent": True}),
        }
    return case


def _build_management_case(
    decision: Decision, gpus: tuple[SeenGpu, ...], strict: bool
) -> dict[str, Any]:
    """Return the case of a device plugin or monitoring agent: all GPUs through the handler, by
    RuntimeClass.
    """
    case: dict[str, Any] = {
        "name": "management",
        "why": messages.MANAGEMENT_CONTAINER.fill(handler=decision.handler),
        "handler": decision.handler,
        "env": {ENV: "all"},
        "nodes": _list_nodes(tuple(g.minor for g in gpus), gpus),
    }
    return {**case, "capabilities": PRIVILEGED} if strict else case


def _build_option_case(gpus: tuple[SeenGpu, ...], handler: str, way: Way) -> dict[str, Any]:
    """Return the case for Docker's other way, `docker run --runtime nvidia`."""
    all_gpus = Ask(
        "runtime", tuple(g.minor for g in gpus), "all", messages.BY_RUNTIME.fill(handler=handler)
    )
    return _build_runtime_case(all_gpus, handler, gpus, way=way, record="")


def _build_plugin_cases(
    host: HostDecision, decision: Decision, gpus: tuple[SeenGpu, ...]
) -> list[dict[str, Any]]:
    """Return the case of a pod that gets one GPU by the handler from a device plugin that does not
    use CDI; [] if there is no such plugin.

    The plugin's default names GPUs by UUID. A GPU with MIG devices is given away only by those.
    """
    # forced by a user who knows the plugin better
    assumed = host.plugin_source == "default" and host.isolation == "strict"
    if (
        assumed
        or not host.plugin_strategies
        or any(name in device_plugin.BY_CDI for name in host.plugin_strategies)
    ):
        return []
    one = list_asks(gpus)[0]
    whole = next((g.uuid for g in gpus if g.minor in one.minors and not g.migs), "")
    why = messages.BY_PLUGIN.fill(strategy=host.plugin_strategies[0], handler=decision.handler)
    asked = Ask("plugin", one.minors, whole or one.ids, why)
    way: Way = "variable" if "envvar" in host.plugin_strategies else "mounts"
    return [_build_runtime_case(asked, decision.handler, gpus, way=way, record="")]


def _build_refused_variable(handler: str, gpus: tuple[SeenGpu, ...], record: str) -> dict[str, Any]:
    case: dict[str, Any] = {
        "name": "isolation",
        "why": messages.ISOLATION.fill(),
        "handler": handler,
        "env": {ENV: "all"},
        "nodes": _list_nodes((), gpus),
    }
    return (
        {**case, "record": {"path": record, "silent": True, "shows": RECORD_SHOWS}}
        if record
        else case
    )


def _drop_fabric(case: dict[str, Any], fabric: tuple[str, ...]) -> dict[str, Any]:
    return {
        **case,
        "nodes": [*case["nodes"], *(_describe_node(path, None, "refused") for path in fabric)],
    }


def _list_nodes(
    minors: tuple[int, ...], gpus: tuple[SeenGpu, ...], *, recorded: bool = False
) -> list[dict[str, Any]]:
    """Return every NVIDIA node of the host with what is expected of it.

    recorded: a record proves the case, so nodes may be missing.
    """
    given: Expect = "optional" if recorded else "allowed"
    mixed = any(g.migs for g in gpus) and len(minors) > 1
    # Next to GPUs with MIG devices one without may be in MIG mode as well, and then `all` is
    # without it; only NVML knows.
    sure = [g.minor for g in gpus if g.minor in minors and (g.migs or not mixed)]
    wanted: dict[int, Expect] = {minor: given if minor in sure else "optional" for minor in minors}
    nodes = [
        _describe_node(
            f"/dev/nvidia{g.minor}", [GPU_MAJOR, g.minor], wanted.get(g.minor, "refused")
        )
        for g in gpus
    ]
    nodes.append(
        _describe_node(CONTROL, [GPU_MAJOR, CONTROL_MINOR], given if minors else "refused")
    )
    return nodes + [
        _describe_node(path, None, "optional" if minors else "refused") for path in COMPANIONS
    ]


def _describe_node(path: str, rdev: list[int] | None, expect: Expect) -> dict[str, Any]:
    return {"path": path, "rdev": rdev, "expect": expect}


def _finish_case(
    case: dict[str, Any],
    subject: str,
    decision: Decision,
    instance: Instance,
    status: Mapping[str, Any],
    image: str,
) -> dict[str, Any]:
    finished = {**case, **get_engine_way(case, decision.engine, instance.binary)}
    return {
        **finished,
        "name": f"{subject}: {case['name']}",
        "engine": decision.engine,
        "manager": instance.manager,
        "injection": decision.injection,
        "socket": instance.socket,
        "image": image,
        "list": LISTED,
        "cgroup_parent": containerd_verify.get_pod_cgroup_parent(status, case["handler"]),
    }


def get_engine_way(case: Mapping[str, Any], engine: str, binary: str) -> dict[str, Any]:
    """Return how a case is carried out if that is not by CRI; {} for CRI."""
    verification = traits.get_traits(engine).verification
    if verification == "api":
        return {"create": _build_api_request(case)}
    return _build_command(case, binary) if verification == "command" else {}


def _build_command(case: Mapping[str, Any], binary: str) -> dict[str, Any]:
    """Return the command of an engine that has no daemon. Its container ends with the command.

    The host adds the image and the shell.
    """
    devices = [f"--device={name}" for name in case.get("devices") or ()]
    fixed = [
        "--rm",
        "--pull=never",
        "--network=none",
        "--user=0",
        "--cap-add=MKNOD",
        "--entrypoint=",
        "--timeout=600",
    ]
    return {
        "run": [binary, "run", *fixed, f"--label={LABEL}=1", *devices],
        "image_there": [binary, "image", "exists"],
    }


def _build_api_request(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the case as a request of Docker's API (POST /containers/create).

    The host adds the image and the command.
    """
    devices = [{"Driver": "cdi", "DeviceIDs": case["devices"]}] if case.get("devices") else []
    host: dict[str, Any] = {
        "NetworkMode": "none",
        "CapAdd": ["MKNOD", *(case.get("capabilities") or ())],
        "DeviceRequests": devices,
    }
    if case["handler"]:
        host["Runtime"] = case["handler"]
    if case.get("mounts"):
        host["Binds"] = [f"{source}:{target}:ro" for source, target in case["mounts"]]
    variables = [f"{name}={value}" for name, value in (case.get("env") or {}).items()]
    return {
        "User": "0",
        "Env": variables,
        "Labels": {LABEL: "1"},
        "NetworkDisabled": True,
        "HostConfig": host,
    }


def explain_no_cases(host: HostDecision, planned: list[dict[str, Any]]) -> str:
    """Return why a host has no cases; '' if it has some."""
    if planned:
        return ""
    refused = "; ".join(sentence for _key, sentence in host.refused)
    return host.skipped or refused or messages.NOTHING_TO_VERIFY.fill()
