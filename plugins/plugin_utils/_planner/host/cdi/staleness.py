# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether a CDI spec on a host is still true, from the one look that is taken anyway.

Both our file and nvidia-cdi-refresh's are judged. The libraries, nodes, numbers and names in a spec
are compared with those of the host now. So a spec that holds device nodes only does not go stale
with a new driver, and one that someone else wrote is judged by the same rules as this collection's.
One thing is not judged, since only the driver can tell it: whether a MIG instance of the same
number still has the same UUID.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    get_code,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Policy,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    inventory,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    roots,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import (
    projection,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    stand_ins,
    version,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    KIND,
    VOID_MOUNT,
    DeviceNode,
    Edits,
    Spec,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import gpus

Writer = Literal["collection", "toolkit", "other"]
# The values of `path` and `hostPath` in YAML and JSON alike; `containerPath` is a path of the
# container.
MENTIONS = (r"""(?:\bpath|\bhostPath)["']?[ \t]*:[ \t]*["']?(/[^"'\s,}\]]+)""",)
# A driver's version has three digits before the first dot; libraries that are not part of it have
# one or two (libnvidia-egl-gbm.so.1.1.2).
DRIVER_FILE = re.compile(
    r"\.so\.(\d{3,4}\.\d{1,9}(?:\.\d{1,9})?)$|/firmware/(?:.*/)?nvidia/(\d{3,4}\.\d{1,9}(?:\.\d{1,9})?)/"
)
DRIVER_ARGUMENT = "--host-driver-version="
FIRMWARE = re.compile(r"/lib/firmware/(?:updates/)?([^/]*\d[^/]*)/nvidia/")
GPU_NODE = re.compile(r"/dev/nvidia\d{1,9}")
CAPABILITY_NODE = re.compile(r"/dev/nvidia-caps/nvidia-cap(\d{1,9})")
_NUMBERS = re.compile(r"\d+")
CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm")
# nvidia-ctk puts each of these in that is there (pkg/nvcdi, control devices). A spec of its unit
# without one was made too early in a boot.
CONTROL_OF_TOOLKIT = (*CONTROL, "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
# nvidia-cdi-hook ends well on a command that it does not know, so an older one leaves things out in
# silence (cmd/nvidia-cdi-hook/commands/commands.go: IssueUnsupportedHookWarning).
HOOK_SINCE = {"update-application-profile": (1, 20, 0), "apply-cuda-memory-limits": (1, 20, 1)}
TOOLKIT = "nvidia-container-toolkit-base"
TOOLKIT_UNPACKED = f"/var/lib/dpkg/info/{TOOLKIT}.list"  # dpkg writes it at each installation


@dc.dataclass(frozen=True)
class Stale:
    """A difference between a spec and its host.

    what: driver, kernel, gpus, mig, nodes, files, cap, toolkit or content.
    """

    what: str
    recorded: str
    found: str
    why: str


@dc.dataclass(frozen=True)
class SpecVerdict:
    """The verdict on one file."""

    path: str
    writer: Writer
    state: Literal["fresh", "stale"]
    version: str
    reasons: tuple[Stale, ...] = ()

    @property
    def sentence(self) -> str:
        """The first reason of each kind, with its code if it is the only one.

        Two GPUs that changed places differ in four names.
        """
        first = {reason.what: reason.why for reason in reversed(self.reasons)}
        told = [first[what] for what in dict.fromkeys(r.what for r in self.reasons)]
        return told[0] if len(told) == 1 else "; ".join(told)


@dc.dataclass(frozen=True)
class SpecHost:
    """The facts of a host that a spec is held against."""

    driver: Driver
    user_space: frozenset[str]
    kernel: str
    nodes: Mapping[str, gpus.DeviceFile]
    instances: Mapping[int, str]  # minor of a MIG capability -> its path, as gpu0/gi1/ci0
    there: Mapping[str, Mapping[str, Any] | None]  # paths that specs mention
    toolkit: str
    toolkit_since: float
    cap: str


def list_staleness_questions(policy: Policy, directories: Iterable[str]) -> list[queries.Question]:
    mentioned = [
        ask_for_spec_mentions(directory, directories, roots.list_named_roots(policy))
        for directory in directories
    ]
    if policy.root != "/":
        return mentioned
    return [*mentioned, queries.ask_for_file(TOOLKIT_UNPACKED, content=False)]


def ask_for_spec_mentions(
    directory: str, directories: Iterable[str], known: Sequence[str] = ()
) -> queries.Question:
    return projection.narrow_spec_question(
        queries.ask_for_mentioned_paths(f"{directory}/*", MENTIONS), directories, known
    )


def read_spec_host(
    policy: Policy, obs: Observation, driver: Driver, cap: str, directories: Iterable[str]
) -> SpecHost:
    there: dict[str, Mapping[str, Any] | None] = {}
    for directory in directories:
        there.update(
            obs.get_answer(ask_for_spec_mentions(directory, directories)).get("paths") or {}
        )
    unpacked = (
        obs.get_answer(queries.ask_for_file(TOOLKIT_UNPACKED, content=False)).get("mtime")
        if policy.root == "/"
        else None
    )
    return SpecHost(
        driver=driver,
        user_space=frozenset(gpus.map_library_versions(obs, policy.cdi_driver_root).values()),
        kernel=str(obs.host.get("kernel") or ""),
        nodes=gpus.map_device_files(obs, policy.cdi_dev_root),
        instances={
            minor: key.removesuffix("/access")
            for key, minor in inventory.map_cap_minors(policy, obs).items()
        },
        there=there,
        toolkit=obs.get_package(TOOLKIT) or "",
        toolkit_since=float(unpacked or 0.0),
        cap=cap,
    )


def judge_spec_file(file: ObservedFile, writer: Writer, there: SpecHost) -> SpecVerdict:
    """Return the verdict on one file.

    A fact that the look could not see counts as unchanged: a verdict is never a guess.
    """
    if file.fault and file.fault.get("code") in stand_ins.FORMS:
        return SpecVerdict(file.path, writer, "fresh", "")  # engines read it
    if file.fault:
        problem = f"line {file.fault.get('line')}: {stand_ins.explain_unsent_file(file.fault)}"
        why = messages.NOT_A_SPEC.fill(path=file.path, problem=problem)
        return SpecVerdict(file.path, writer, "stale", "", (Stale("content", "", "", why),))
    if file.error or file.content is None:
        why = messages.STALE_UNREAD.fill(path=file.path, problem=file.trouble)
        return SpecVerdict(file.path, writer, "stale", "", (Stale("content", "", "", why),))
    try:
        spec = reader.parse_spec(file.content)
    except ValueError as error:
        why = messages.NOT_A_SPEC.fill(path=file.path, problem=read_error_message(error))
        return SpecVerdict(file.path, writer, "stale", "", (Stale("content", "", "", why),))
    reasons = (
        *compare_driver(spec, there),
        *compare_kernel(spec, there),
        *(compare_gpus(spec, there) if spec.kind == KIND else ()),
        *(compare_mig_instances(spec, there) if spec.kind == KIND else ()),
        *compare_nodes(spec, writer, there),
        *compare_mounted_files(spec, there),
        *compare_version_cap(spec, there),
        *compare_toolkit(spec, file, writer, there),
    )
    return SpecVerdict(file.path, writer, "stale" if reasons else "fresh", spec.version, reasons)


def judge_withdrawn_spec(path: str) -> SpecVerdict:
    """Return the verdict on our file that the watch of `cdi_refresh: watch` has set aside."""
    why = messages.SET_ASIDE.fill(path=path)
    return SpecVerdict(path, "collection", "stale", "", (Stale("content", path, "", why),))


def list_spec_edits(spec: Spec) -> tuple[Edits, ...]:
    return (spec.edits, *(d.edits for d in spec.devices))


def list_mounted_paths(spec: Spec) -> Iterator[str]:
    """Yield the files of the host that are mounted into containers."""
    for edit in list_spec_edits(spec):
        # whose /dev/null each host has
        yield from (m.host_path for m in edit.mounts if m != VOID_MOUNT)


# ---------------------------------------------------------------- driver, kernel


def list_recorded_drivers(spec: Spec) -> tuple[str, ...]:
    """Return the driver versions that file names and hooks carry; () for a spec of nodes only."""
    named = [
        match.group(1) or match.group(2)
        for path in list_mounted_paths(spec)
        if (match := DRIVER_FILE.search(path))
    ]
    in_arguments = [
        a.removeprefix(DRIVER_ARGUMENT)
        for e in list_spec_edits(spec)
        for h in e.hooks
        for a in h.args
        if a.startswith(DRIVER_ARGUMENT)
    ]
    return tuple(sorted({*named, *in_arguments}))


def compare_driver(spec: Spec, there: SpecHost) -> Iterator[Stale]:
    live = there.user_space or frozenset({there.driver.version} - {""})
    strange = [v for v in list_recorded_drivers(spec) if live and v not in live]
    if strange:
        recorded, current = ", ".join(strange), ", ".join(sorted(live))
        yield Stale(
            "driver",
            recorded,
            current,
            messages.STALE_DRIVER.fill(recorded=recorded, found=current),
        )


def compare_kernel(spec: Spec, there: SpecHost) -> Iterator[Stale]:
    """Compare the kernel. Firmware may lie in a folder of one kernel; all else is the same for
    each.
    """
    kernels = {
        match.group(1) for path in list_mounted_paths(spec) if (match := FIRMWARE.search(path))
    }
    strange = sorted(kernels - {there.kernel}) if there.kernel else []
    if strange:
        why = messages.STALE_KERNEL.fill(recorded=", ".join(strange), found=there.kernel)
        yield Stale("kernel", ", ".join(strange), there.kernel, why)


# ---------------------------------------------------------------- GPUs, MIG


def map_gpu_nodes_by_device(spec: Spec) -> Mapping[str, frozenset[str]]:
    """Map the name of each device to the nodes of GPUs in it."""
    return {
        d.name: frozenset(n.path for n in d.edits.device_nodes if GPU_NODE.fullmatch(n.path))
        for d in spec.devices
    }


def get_live_path(node: DeviceNode) -> str:
    """Return a node's path on the host.

    Beneath a device root of its own it is not that of the container.
    """
    return node.host_path or node.path


def compare_gpus(spec: Spec, there: SpecHost) -> Iterator[Stale]:
    if there.driver.state != "ok":
        return  # the driver itself is the news then, and reported as such
    named = map_gpu_nodes_by_device(spec)
    gpus = [g for g in there.driver.gpus if g.model not in inventory.DISPLAY_ONLY]
    yield from find_lost_gpus(named, gpus)
    yield from find_new_gpus(named, gpus)
    yield from find_swapped_gpus(named, gpus)


def find_lost_gpus(named: Mapping[str, frozenset[str]], gpus: list[SeenGpu]) -> Iterator[Stale]:
    nodes = {f"/dev/nvidia{g.minor}" for g in gpus}
    gone = sorted({node for paths in named.values() for node in paths} - nodes)
    uuids = {g.uuid for g in gpus}
    if "" not in uuids:
        gone += sorted(name for name in named if name.startswith("GPU-") and name not in uuids)
    if gone:
        names = ", ".join(gone)
        yield Stale("gpus", names, f"{len(gpus)} GPUs", messages.GPU_GONE.fill(names=names))


def find_new_gpus(named: Mapping[str, frozenset[str]], gpus: list[SeenGpu]) -> Iterator[Stale]:
    known = {node for paths in named.values() for node in paths}
    missing = [g for g in gpus if f"/dev/nvidia{g.minor}" not in known]
    if missing:
        shown = ", ".join(f"{g.index} ({g.bus_id})" for g in missing)
        yield Stale(
            "gpus", f"{len(known)} GPUs", f"{len(gpus)} GPUs", messages.GPU_LACKING.fill(gpus=shown)
        )


def find_swapped_gpus(named: Mapping[str, frozenset[str]], gpus: list[SeenGpu]) -> Iterator[Stale]:
    """Find names that mean another GPU than when the spec was made.

    A container would start, with a GPU that it was not meant to get.
    """
    for g in gpus:
        now = f"/dev/nvidia{g.minor}"
        for name in (str(g.index), f"gpu{g.index}", g.uuid):
            nodes = named.get(name) if name else None
            if nodes and now not in nodes:
                was = ", ".join(sorted(nodes))
                why = messages.GPU_CHANGED.fill(name=name, recorded=was, found=now)
                yield Stale("gpus", f"{name}: {was}", f"{name}: {now}", why)


def compare_mig_instances(spec: Spec, there: SpecHost) -> Iterator[Stale]:
    """Compare the MIG instances by their capability nodes.

    A layout with the same instance numbers and other sizes looks the same from here.
    """
    named = [n.path for d in spec.devices for n in d.edits.device_nodes]
    recorded = {int(match.group(1)) for path in named if (match := CAPABILITY_NODE.fullmatch(path))}
    if there.driver.state != "ok" or recorded == set(there.instances):
        return
    gone = ", ".join(f"nvidia-cap{minor}" for minor in sorted(recorded - set(there.instances)))
    new = ", ".join(there.instances[minor] for minor in sorted(set(there.instances) - recorded))
    yield Stale(
        "mig",
        f"{len(recorded)} capabilities",
        f"{len(there.instances)} capabilities",
        describe_mig(gone, new),
    )


def describe_mig(gone: str, lacking: str) -> Message:
    """Return how MIG instances differ. gone: those of the spec alone; lacking: those of the host
    alone.
    """
    if not lacking:
        return messages.MIG_GONE.fill(gone=gone)
    return (
        messages.MIG_CHANGED.fill(gone=gone, lacking=lacking)
        if gone
        else messages.MIG_LACKING.fill(lacking=lacking)
    )


# ---------------------------------------------------------------- nodes, files


def compare_nodes(spec: Spec, writer: Writer, there: SpecHost) -> Iterator[Stale]:
    compared: set[tuple[str, int | None, int | None]] = set()
    for edit in list_spec_edits(spec):
        for node in edit.device_nodes:
            entry = (get_live_path(node), node.major, node.minor)
            if entry not in compared:
                compared.add(entry)
                yield from compare_node(
                    node,
                    there.there.get(get_live_path(node)),
                    known=get_live_path(node) in there.there,
                )
    held = {n.path for e in list_spec_edits(spec) for n in e.device_nodes}
    control = CONTROL_OF_TOOLKIT if writer == "toolkit" else CONTROL
    lacking = (
        [p for p in control if p in there.nodes and p not in held] if spec.kind == KIND else []
    )
    if lacking:
        why = messages.NODES_LATER.fill(nodes=", ".join(lacking))
        yield Stale("nodes", "", ", ".join(lacking), why)


def compare_node(
    node: DeviceNode, live: Mapping[str, Any] | None, *, known: bool
) -> Iterator[Stale]:
    path = get_live_path(node)
    if not known:
        return
    if live is None:
        # CDI's library looks at no node whose type and major the spec has (container-edits_unix.go)
        if not (node.type and node.major):
            yield Stale("nodes", path, "", messages.STALE_NODE_GONE.fill(path=path))
        return
    numbers = tuple(live.get("rdev") or ())
    if node.major and numbers and numbers != (node.major, node.minor or 0):
        was, now = f"{node.major}:{node.minor or 0}", ":".join(map(str, numbers))
        why = messages.NODE_CHANGED.fill(path=path, recorded=was, found=now)
        yield Stale("nodes", f"{path} {was}", f"{path} {now}", why)


def compare_mounted_files(spec: Spec, there: SpecHost) -> Iterator[Stale]:
    hooks = {h.path for e in list_spec_edits(spec) for h in e.hooks if h.name != "startContainer"}
    gone = sorted(
        p
        for p in {*list_mounted_paths(spec), *hooks}
        if p in there.there and there.there[p] is None
    )
    if gone:
        more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
        why = messages.FILES_GONE.fill(files=", ".join(gone[:3]) + more)
        yield Stale("files", ", ".join(gone[:3]) + more, "", why)


# ---------------------------------------------------------------- readers, writers


def compare_version_cap(spec: Spec, there: SpecHost) -> Iterator[Stale]:
    if not there.cap:
        return
    if spec.version not in version.KNOWN or version.get_spec_version_key(
        spec.version
    ) > version.get_spec_version_key(there.cap):
        why = messages.VERSION_TOO_NEW.fill(version=spec.version, limit=there.cap)
        yield Stale("cap", spec.version, there.cap, why)


def compare_toolkit(
    spec: Spec, file: ObservedFile, writer: Writer, there: SpecHost
) -> Iterator[Stale]:
    installed = tuple(int(n) for n in _NUMBERS.findall(there.toolkit)[:3])
    commands = {a for e in list_spec_edits(spec) for h in e.hooks for a in h.args[1:2]}
    ahead = sorted(c for c in commands if installed and HOOK_SINCE.get(c, ()) > installed)
    if ahead:
        why = messages.HOOK_UNKNOWN.fill(hooks=", ".join(ahead), version=there.toolkit)
        yield Stale("toolkit", ", ".join(ahead), there.toolkit, why)
    elif writer != "collection" and there.toolkit and there.toolkit_since > file.mtime > 0:
        yield Stale(
            "toolkit", "", there.toolkit, messages.OLDER_THAN_TOOLKIT.fill(version=there.toolkit)
        )


# ---------------------------------------------------------------- for people and results


def convert_verdicts(verdicts: Iterable[SpecVerdict]) -> list[dict[str, Any]]:
    """Return the verdicts as a result carries them."""
    return [
        {**dc.asdict(v), "reasons": [{**dc.asdict(r), "code": get_code(r.why)} for r in v.reasons]}
        for v in verdicts
    ]


def summarise_verdicts(verdicts: Iterable[SpecVerdict]) -> str:
    """Return a line for the table, '' if every spec is fresh."""
    stale = [v for v in verdicts if v.state == "stale"]
    told = [messages.HEADLINE.fill(path=v.path, problem=v.sentence) for v in stale]
    return told[0] if len(told) == 1 else "; ".join(told)
