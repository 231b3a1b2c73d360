# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the cgroup driver that the kubelet uses now, by its pods' control groups, else by its settings.

The kubelet makes a group per pod before it asks the engine for anything, below `kubepods.slice` with the
systemd driver and below `kubepods` with cgroupfs (pkg/kubelet/cm/cgroup_manager_linux.go), and removes
it with the pod: so the group shows what works on this node now. A kubelet whose driver was changed
leaves the groups of its pods from before behind, empty; only groups with processes count.

If no pod runs, the kubelet's own order counts (cmd/kubelet/app/server.go): with the feature gate
KubeletCgroupDriverFromCRI it asks the engine, and then no setting of its own counts; an engine that does
not know the question leaves it to the flag, the drop-ins, the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, cast

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import host_paths, processes, queries, versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import json_bounds, yaml_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.kubernetes import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Instance
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import File, Observation, failed
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import file_places

Driver = Literal["systemd", "cgroupfs", ""]

VERSION = re.compile(r"v(\d{1,9}\.\d{1,9}\.\d{1,9})")
ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd")  # version 2, and version 1's hierarchy of systemd
PODS: dict[Driver, tuple[str, ...]] = {
    "systemd": ("kubepods.slice/kubepods-pod*.slice", "kubepods.slice/kubepods-*.slice/kubepods-*-pod*.slice"),
    "cgroupfs": ("kubepods/pod*", "kubepods/*/pod*"),
}

KUBELET_VERSION = ["kubelet", "--version"]
READ_FLAGS = {
    "--config": "path", "--config-dir": "path", "--container-runtime-endpoint": "address", "--cgroup-driver": "name",
    "--feature-gates": "features", "--root-dir": "path",
}  # fmt: skip
GATE = "KubeletCgroupDriverFromCRI"
# pkg/features/kube_features.go: alpha in 1.28, on by default from 1.31, and always on from 1.34.
GATE_SINCE, GATE_ON, GATE_LOCKED = (1, 28), (1, 31), (1, 34)


class InUse(NamedTuple):
    """The driver in use, '' if nothing shows it, with a sentence that tells how it is known."""

    driver: Driver
    why: str


UNKNOWN = InUse("", "")


def question() -> queries.Question:
    return queries.populated("control groups of pods", [f"{root}/{pods}" for root in ROOTS for found in PODS.values() for pods in found])


def process_question() -> queries.Question:
    return queries.processes(["kubelet"], READ_FLAGS)


def questions() -> list[queries.Question]:
    return [question(), process_question()]


def known(obs: Observation, instance: Instance) -> InUse:
    """Return what is known about the cgroup driver of this host's kubelet.

    instance: the kubelet's engine.
    """
    pods = in_use(obs)
    return pods if pods.driver or process(obs) is None else _started_with(obs, instance)


# ---------------------------------------------------------------- its pods


def in_use(obs: Observation) -> InUse:
    """Return the driver by the pods' control groups.

    Raise PlanError if pods are in both places: no handler would be right for all of them.
    """
    paths = [str(entry["path"]) for entry in obs.raw(question()).get("files") or ()]
    systemd, cgroupfs = (next((p for p in paths if f"/{top}/" in p), "") for top in ("kubepods.slice", "kubepods"))
    if systemd and cgroupfs:
        raise PlanError(
            messages.PODS_OF_BOTH_DRIVERS.fill(path=cgroupfs),
            where=systemd,
        )
    if not (systemd or cgroupfs):
        return UNKNOWN
    driver: Driver = "systemd" if systemd else "cgroupfs"
    return InUse(driver, messages.PODS_USE_DRIVER.fill(driver=driver, path=systemd or cgroupfs))


# ---------------------------------------------------------------- its settings


def process(obs: Observation) -> Mapping[str, Any] | None:
    """Return the process of the kubelet that runs here, provided that it was verified; else None."""
    return next((p for p in obs.processes() if processes.program(p) == "kubelet"), None)


def version(obs: Observation) -> str:
    """Return the kubelet's version; '' if its program does not report one.

    Distributions have their kubelet outside PATH, or in another program. A kubelet without a
    version counts as a current one.
    """
    found = VERSION.search(obs.try_command(KUBELET_VERSION, "kubelet").stdout)
    return found.group(1) if found else ""


def same_socket(endpoint: str, socket: str) -> bool:
    """Tell whether both name one socket.

    kubelet writes unix:///run/...; /var/run is a link to /run on every systemd host.
    """
    plain = [host_paths.as_opened(p.removeprefix("unix://")).replace("/var/run/", "/run/", 1) for p in (endpoint, socket)]
    return plain[0] == plain[1]


def _started_with(obs: Observation, instance: Instance) -> InUse:
    argv = [str(a) for a in (process(obs) or {}).get("argv") or ()]
    endpoint = processes.flag(argv, "--container-runtime-endpoint") or next(
        (it for _at, it in _said(obs, argv, "containerRuntimeEndpoint")), ""
    )
    if endpoint and not same_socket(str(endpoint), instance.socket):
        return UNKNOWN  # it runs its pods in another engine
    release = version(obs)
    if _asks(obs, argv, release):
        driver = _answer(obs, instance)
        if driver:
            return InUse(driver, messages.ENGINE_TELLS_DRIVER.fill(engine=instance.engine, driver=driver))
    flag = processes.flag(argv, "--cgroup-driver")
    if flag:
        return _stated(flag, "its flag --cgroup-driver")
    for path, value in _said(obs, argv, "cgroupDriver"):
        return _stated(str(value), path)
    return InUse("cgroupfs", messages.DRIVER_IS_BUILT_IN.fill())


def _stated(value: str, where: str) -> InUse:
    if value not in ("systemd", "cgroupfs"):
        raise PlanError(
            messages.DRIVER_UNKNOWN.fill(value=value),
            where=where,
        )
    return InUse(cast(Driver, value), messages.DRIVER_IS_SET.fill(driver=value, where=where))


def _asks(obs: Observation, argv: list[str], release: str) -> bool:
    """Tell whether the kubelet takes its driver from the engine."""
    parsed = versions.parse(release)
    if parsed is None or parsed.series >= GATE_LOCKED:
        return True
    if parsed.series < GATE_SINCE:
        return False
    said = gate(obs, argv, GATE)
    return parsed.series >= GATE_ON if said is None else said


def gate(obs: Observation, argv: list[str], name: str) -> bool | None:
    """Return the value of a feature gate from the kubelet's flag, otherwise from its files; None if none of them sets it."""
    flags = dict(pair.partition("=")[::2] for pair in processes.flag(argv, "--feature-gates").split(","))
    if name in flags:
        return flags[name] == "true"
    every = (gates for _path, gates in _said(obs, argv, "featureGates") if isinstance(gates, Mapping))
    said = [gates[name] for gates in every if name in gates]
    return said[0] is True if said else None


def _answer(obs: Observation, instance: Instance) -> Driver:
    """Return the driver that the engine reports; '' if the engine does not know the question.

    Raise an error if the engine does not answer.
    """
    asked = queries.cri(instance.socket, "RuntimeConfig")
    said = obs.said_by(asked, instance.pid)
    if "error" in said:
        raise failed(asked["id"], said["error"])
    return cast(Driver, said.get("driver") or "")


def _said(obs: Observation, argv: list[str], key: str) -> Iterator[tuple[str, Any]]:
    """Yield (path of the file, value) of a setting. The file that counts comes first."""
    for file in _files(obs, argv):
        value = _setting(file, key)
        if value:
            yield file.path, value


def _files(obs: Observation, argv: list[str]) -> Iterator[File]:
    """Yield the kubelet's files. The file that counts comes first.

    The order is: drop-ins (`*.conf`, the last in filepath.Walk's order wins), then the file itself.
    """
    folder, main = (host_paths.as_opened(processes.flag(argv, name)) for name in ("--config-dir", "--config"))
    if folder.startswith("/"):
        patterns = [f"{folder}/{below}" for below in ("*.conf", "*/*.conf")]
        found = [file for pattern in patterns for file in obs.glob(pattern, file_places.KUBELET_CONFIG)]
        yield from sorted(found, key=lambda file: file.path.split("/"), reverse=True)
    if main.startswith("/"):
        yield obs.file(main, file_places.KUBELET_CONFIG)


def _setting(file: File, key: str) -> Any:
    """Return the value of a key in a file.

    Raise PlanError if the file cannot be read, since any value may be in it.
    """
    if file.content is None:
        raise PlanError(
            messages.KUBELET_CONFIG_UNREADABLE.fill(trouble=file.trouble),
            where=file.path,
        )
    file_places.require_shown(file.path, [entry for entry in file.withheld if entry["path"][0] == key])
    try:
        data = json_bounds.loads(file.content) if file.content.lstrip().startswith("{") else yaml_text.read(file.content)
    except ValueError as broken:
        line, why = getattr(broken, "line", None), getattr(broken, "problem", "")
        raise PlanError(messages.KUBELET_CONFIG_NOT_YAML.fill(problem=why), where=file.path, line=line) from None
    return data.get(key) if isinstance(data, Mapping) else None
