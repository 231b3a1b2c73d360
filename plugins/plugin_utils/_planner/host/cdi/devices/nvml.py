# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the GPUs that NVML reports.

A child process on the host asks NVML, and is killed at its time limit. NVML is asked only if a spec
must be made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices.inventory import (
    GpuFacts,
    MigDevice,
    SourceAnswer,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    driver_listing,
    roots,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    gpus,
    outer_host,
)

SOURCE = "nvml"
SONAME = ".so.1"
NAME = f"libnvidia-ml{SONAME}"
UNTRUSTED = "untrusted"  # the kind of an error
MISMATCH, NOT_LOADED, LOST = 18, 9, 15
FATAL = {
    MISMATCH: messages.NVML_MISMATCH,
    NOT_LOADED: messages.NVML_NOT_LOADED,
    LOST: messages.NVML_GPU_LOST,
}
PROFILE = re.compile(r"\bMIG (\S+)$")


def ask_nvml(policy: Policy, obs: Observation, source: str) -> queries.Question:
    path = get_nvml_library(policy, obs)
    return queries.probe("nvml", source, {"library": path}, loads=[path or NAME])


def ask_nvml_where_new(policy: Policy, absent: Sequence[str]) -> list[queries.Question]:
    """Ask NVML in the first look of a host that has none of these files yet. Return [] if the
    policy alone shows that it must not be asked then.

    So a host that gets its first spec is looked at once. NVML makes missing nodes if root asks it:
    each GPU must have its node, and none may have MIG instances, whose nodes the host cannot count.
    """
    if policy.root != "/" or policy.state == "absent" or policy.cdi_owner == "toolkit":
        return []
    if policy.cdi_driver_root.rstrip("/"):  # the library in it is known after the look
        return []
    paths, root = gpus.get_gpu_paths(policy), gpus.get_dev_root(policy)
    return [
        queries.ask_where(
            queries.ask_for_probe(SOURCE, {"library": ""}, loads=[NAME]),
            absent=[*absent, *paths.mig],
            present=[gpus.get_driver_root_path(root, "/dev/nvidiactl"), paths.information],
            each=(paths.information, gpus.get_driver_root_path(root, "/dev/nvidia?")),
        )
    ]


def get_nvml_library(policy: Policy, obs: Observation) -> str:
    """Return the path of NVML in the driver's own root, '' to leave the choice to the loader.

    The loader knows every folder, so '' is enough for a driver without a root of its own. A library
    that an absolute link leads to is passed over: the host follows the link out of the root, to
    nothing or to another driver.
    """
    if policy.cdi_driver_root.rstrip("/") == "":
        return ""
    if obs.was_asked(driver_listing.ask_for_driver_listing(policy)):
        libraries = (
            m
            for m in driver_listing.list_matches(policy, obs)
            if m.name == NAME and m.type == "file" and m.usual
        )
        known = next(
            (roots.get_path_beneath_root(policy.cdi_driver_root, m.real) for m in libraries), ""
        )
        if known:
            return known
    files = (
        f
        for pattern in gpus.list_library_globs(policy.cdi_driver_root)
        for f in obs.list_glob_files(pattern)
        if f.type == "file"
    )
    return next(
        (
            f.path
            for f in files
            if f.path.endswith(SONAME) and roots.is_within_root(policy.cdi_driver_root, f.real)
        ),
        "",
    )


def read_nvml_facts(policy: Policy, obs: Observation, source: str) -> SourceAnswer:
    """Return what NVML reports of the GPUs.

    Raise PlanError if NVML calls the driver sick, or if users besides root can change what would be
    loaded. If NVML cannot be asked, the answer has no GPUs,
    and another source is asked. Raise NeedMore if NVML was not asked yet.
    """
    wanted = ask_nvml(policy, obs, source)
    if not obs.was_asked(wanted):
        raise NeedMore([wanted])
    answer = obs.get_answer_or_error(wanted)  # nvidia-smi is the next to be asked
    if "error" in answer:
        problem = answer["error"].get("message") or answer["error"].get("kind")
        if answer["error"].get("kind") == UNTRUSTED:
            raise PlanError(messages.NVML_UNTRUSTED.fill(problem=problem))
        return SourceAnswer(SOURCE, None, messages.NVML_NOT_QUERIED.fill(problem=problem))
    value = answer.get("value") or {}
    errors = list(value.get("errors") or ())
    for error in errors:
        refuse_nvml_error(policy, obs, error)
    if errors:
        silent = messages.NVML_SILENT.fill(
            call=errors[0].get("call"), problem=errors[0].get("message")
        )
        return SourceAnswer(SOURCE, None, silent)
    return SourceAnswer(SOURCE, tuple(read_nvml_gpu(g) for g in value.get("gpus") or ()))


def refuse_nvml_error(policy: Policy, obs: Observation, error: Mapping[str, Any]) -> None:
    if error.get("code") in FATAL:
        which = "" if error.get("gpu") is None else f" of GPU {error['gpu']}"
        what = FATAL[error["code"]].fill(problem=f"{error.get('message')}{which}")
        raise PlanError(
            what,
            where=str(error.get("call") or "NVML"),
            next=suggest_nvml_remedy(policy, obs, what),
        )


def suggest_nvml_remedy(policy: Policy, obs: Observation, what: Message) -> str:
    """Return the remedy for a fatal answer of the driver.

    If this host is a container, the remedy is for the host outside, which has the driver.
    """
    inside = outer_host.get_outer_host_kind(policy, obs)
    return messages.OUTSIDE.fill(kind=inside, remedy=what.next) if inside else what.next


def read_nvml_gpu(found: Mapping[str, Any]) -> GpuFacts:
    devices = tuple(
        sorted((read_nvml_mig_device(m) for m in found.get("migs") or ()), key=lambda m: m.index)
    )
    minor = found.get("minor")
    return GpuFacts(
        index=int(found.get("index") or 0),
        bus_id=str(found.get("bus_id") or "").lower(),
        uuid=gpus.get_known_uuid(str(found.get("uuid") or "")),
        model=str(found.get("name") or ""),
        minor=None if minor is None else int(minor),
        mig=found.get("mig"),
        devices=devices,
    )


def read_nvml_mig_device(found: Mapping[str, Any]) -> MigDevice:
    profile = parse_mig_profile(str(found.get("name") or ""))
    return MigDevice(
        int(found["gi"]),
        int(found["ci"]),
        int(found["index"]),
        str(found.get("uuid") or ""),
        profile,
        "gfx" in profile,
    )


def parse_mig_profile(name: str) -> str:
    """Return the profile at the end of a MIG device's name, '' if there is none.

    NVML calls a MIG device `NVIDIA H100 80GB HBM3 MIG 1g.10gb`.
    """
    match = PROFILE.search(name)
    return match[1] if match else ""
