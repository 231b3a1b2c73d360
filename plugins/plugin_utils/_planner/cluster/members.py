# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the hosts whose GPUs a cluster gives to pods, with their settings, and why others are left
out.

A result is the host's own word. Values that go on into an object of the API are judged here, and
nothing else of a result goes on.
"""

from __future__ import annotations

import dataclasses as dc
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    messages,
    operator_toolkit,
    ways,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import SeenGpu
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    escape,
    layout,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    device_plugin,
    node_names,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import by_plugin
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    wanted as sharing_wanted,
)

NAMESPACE_NAME = re.compile(node_names.LABEL)
# as a label of nodes, it follows a prefix of eight signs
HANDLER = re.compile(r"[a-z0-9]([-a-z0-9]{0,53}[a-z0-9])?")
CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")  # names a directory, too
DEFAULT_CLUSTER = "default"
PREFIXES = ("", "cdi.k8s.io/", "nvidia.cdi.k8s.io/")
DEVICE_IDS, MIG = ("uuid", "index"), ("none", "single", "mixed")
# of nvidia-container-toolkit-base in each of its releases; the plugin's own default, too
HOOK = "/usr/bin/nvidia-ctk"
KUBELET_DIRECTORY = "/var/lib/kubelet"  # without --root-dir
OPERATOR = "gpu-operator"  # as a leftover of a host names it


@dc.dataclass(frozen=True)
class OfInventory:
    """The settings of one host in the inventory."""

    cluster: str = ""
    node: str = ""
    device_ids: str = "uuid"
    mig: str = ""
    hook: str = ""
    driver_root: str = "/"
    dev_root: str = ""
    sharing: Mapping[str, Any] = dc.field(default_factory=dict)

    @property
    def declared(self) -> bool:
        return bool(self.cluster or self.node)


@dc.dataclass(frozen=True)
class MemberSetting:
    """The settings that the device plugin needs on a host."""

    strategies: tuple[str, ...]
    prefix: str  # '' if no strategy is by annotations
    device_ids: str
    mig: str
    driver_root: str
    dev_root: str
    hook: str  # '' if no strategy is by CDI
    replicas: by_plugin.Replicas | None = None  # how pods share its GPUs

    @property
    def by_cdi(self) -> bool:
        return any(name in device_plugin.BY_CDI for name in self.strategies)


@dc.dataclass(frozen=True)
class ClusterMember:
    """A host whose GPUs the cluster gives to pods."""

    host: str
    node: str
    cluster: str
    engine: str
    setting: MemberSetting
    injection: str
    handler: str  # '' if the engine has none (oci-hook)
    default: bool
    answers: tuple[str, ...]  # the prefixes of annotations that the NVIDIA runtime answers here
    why: str
    record: str  # the decision as it goes on the node object
    boot_id: str = ""
    image: bool = False  # a directory tree, from which nodes are started
    pending: bool = False  # the host is not yet as it was decided
    plugin: tuple[str, ...] = ()  # the plugin's strategies now, as far as the host shows them
    understands_now: frozenset[str] = frozenset()
    understands_after: frozenset[str] = frozenset()
    kubelet_directory: str = KUBELET_DIRECTORY

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.record.encode()).hexdigest()[:16]


@dc.dataclass(frozen=True)
class LeftOut:
    """A host that is not a member.

    gone: the host itself reports that pods get no GPU from it. Otherwise that is not known, and
    what is there stays.
    """

    host: str
    node: str
    cluster: str
    why: str
    gone: bool = False
    operator: bool = False  # the GPU Operator's toolkit configures its engine
    # the settings that the toolkit needs for it
    toolkit: operator_toolkit.ToolkitSettings | None = None
    driver_root: str = "/"
    kubelet_directory: str = KUBELET_DIRECTORY


Host = ClusterMember | LeftOut


# A directory tree shows no kubelet either, since nothing runs there.
NO_KUBELET = messages.NO_KUBELET.fill()


def find_members(
    results: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, OfInventory]
) -> tuple[Host, ...]:
    """Return all hosts of a run, each as a member of its cluster or with the reason why it is left
    out.
    """
    members = tuple(find_member(host, result, wanted[host]) for host, result in results.items())
    require_own_names(members)
    require_own_directories(members)
    return members


def find_member(host: str, result: Mapping[str, Any], wanted: OfInventory) -> Host:
    """Return a host as a member of its cluster, or as left out with the reason.

    Raise PlanError for a setting of the host with a value that cannot be chosen.
    """
    out = LeftOut(
        host,
        node_names.require_node_name(host, wanted.node),
        get_cluster_name(result, wanted),
        "",
        driver_root=wanted.driver_root,
    )
    why = outcomes.explain_trouble(result)
    if why:
        said = str(result.get("problem") or result.get("msg") or "")
        message = messages.HOST_IN_TROUBLE.fill(trouble=why, cause=layout.flatten_text(said))
        return dc.replace(out, why=message if said else why)
    if "decision" not in result or "kubelet" not in result:
        return dc.replace(out, why=messages.NOT_LOOKED_AT.fill())
    decision: Mapping[str, Any] = result["decision"] or {}
    if decision.get("skipped"):
        return dc.replace(out, why=escape.escape_line(str(decision["skipped"])), gone=True)
    if not is_node(result, wanted):
        stopped = any(
            i.get("manager") in known.list_kubernetes_managers()
            for i in result.get("instances") or ()
        )
        return dc.replace(
            out, why=messages.KUBERNETES_STOPPED.fill() if stopped else NO_KUBELET, gone=not stopped
        )
    chosen, why = find_kubelet_decision(result)
    if chosen is None:
        kept = is_with_operator(result)
        return dc.replace(
            out,
            why=why,
            operator=kept,
            toolkit=operator_toolkit.get_toolkit_settings(result) if kept else None,
            kubelet_directory=get_kubelet_directory(result),
        )
    return build_member(out, result, chosen, wanted)


def is_node(result: Mapping[str, Any], wanted: OfInventory) -> bool:
    """Tell whether a kubelet runs or is installed.

    An image may get its kubelet later, so for an image the inventory's declaration is enough.
    """
    kubelet = result.get("kubelet") or {}
    return bool(
        kubelet.get("present") or kubelet.get("installed") or (is_image(result) and wanted.declared)
    )


def is_image(result: Mapping[str, Any]) -> bool:
    """Tell whether the host is a directory tree, which has no name of its own."""
    return not (result.get("work") or {}).get("hostname")


def find_kubelet_decision(result: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
    """Return the decision for the engine that runs the pods, and ''; or None and the reason why
    there is none.
    """
    decisions = [
        d for d in (result["decision"].get("decisions") or ()) if d.get("device_list_strategy")
    ]
    used = {str(i.get("key")) for i in result.get("instances") or () if i.get("used_by_kubelet")}
    candidates = [d for d in decisions if d.get("instance") in used] if used else decisions
    if len(candidates) == 1:
        return candidates[0], ""
    if candidates:
        engines = ", ".join(escape.escape_line(str(d.get("engine"))) for d in candidates)
        return None, messages.SEVERAL_ENGINES.fill(engines=engines)
    refused = [str(r[1]) for r in result["decision"].get("refused") or () if len(r) == 2]
    return None, escape.escape_line(refused[0]) if refused else messages.NO_ENGINE.fill()


def is_with_operator(result: Mapping[str, Any]) -> bool:
    """Tell whether the GPU Operator's toolkit works on a host."""
    return any(
        left.get("tool") == OPERATOR and left.get("fate") == "live"
        for left in result.get("leftovers") or ()
    )


def build_member(
    out: LeftOut, result: Mapping[str, Any], decision: Mapping[str, Any], wanted: OfInventory
) -> Host:
    """Return a member of a cluster by the decision of its host. If a value of the decision has no
    known form, return the host as left out.
    """
    strategies = tuple(str(name) for name in decision.get("device_list_strategy") or ())
    prefix, handler = (
        str(decision.get("plugin_annotation_prefix") or ""),
        str(decision.get("runtime_class") or ""),
    )
    odd = [name for name in strategies if name not in device_plugin.KNOWN] or [
        p for p in [prefix] if p not in PREFIXES
    ]
    odd += [i for i in [str(decision.get("injection"))] if i not in decide.INJECTIONS]
    odd += [h for h in [handler] if h and not HANDLER.fullmatch(h)]
    if odd:
        return dc.replace(out, why=messages.ODD_DECISION.fill(value=escape.escape_line(odd[0])))
    by_cdi = any(name in device_plugin.BY_CDI for name in strategies)
    mig = get_mig_strategy(out.host, result, wanted)
    setting = MemberSetting(
        strategies=strategies,
        prefix=prefix if "cdi-annotations" in strategies else "",
        device_ids=get_choice(
            out.host, "gpufleet_kubernetes_device_ids", wanted.device_ids, DEVICE_IDS
        ),
        mig=mig,
        driver_root=wanted.driver_root,
        dev_root=wanted.dev_root,
        hook=(wanted.hook or HOOK) if by_cdi else "",
        replicas=get_replicas(out.host, result, wanted, mig),
    )
    return ClusterMember(
        host=out.host,
        node=out.node,
        cluster=out.cluster,
        engine=escape.escape_line(str(decision.get("engine"))),
        setting=setting,
        injection=str(decision["injection"]),
        handler=handler,
        default=bool(decision.get("default")),
        answers=tuple(str(p) for p in decision.get("annotation_prefixes") or () if p in PREFIXES),
        why=get_reason_of(decision, "injection"),
        record=write_public_record(result, decision),
        boot_id=str((result.get("work") or {}).get("boot_id") or ""),
        image=is_image(result),
        pending=bool(result.get("differences")),
        plugin=tuple(
            str(name)
            for name in result["decision"].get("plugin_strategies") or ()
            if name in device_plugin.KNOWN
        ),
        understands_now=ways.list_seen_strategies(result, decision),
        understands_after=ways.list_decided_strategies(result, decision),
        kubelet_directory=get_kubelet_directory(result),
    )


def get_kubelet_directory(result: Mapping[str, Any]) -> str:
    """Return the directory of a host's kubelet, as its --root-dir says."""
    kubelet = result.get("kubelet") or {}
    return escape.escape_line(str(kubelet.get("directory") or "")) or KUBELET_DIRECTORY


def get_reason_of(decision: Mapping[str, Any], what: str) -> str:
    """Return why something was decided on a host; '' if no reason is known."""
    return next(
        (
            escape.escape_line(str(r.get("why")))
            for r in decision.get("reasons") or ()
            if r.get("what") == what
        ),
        "",
    )


RECORDED = (
    *(
        "engine",
        "engine_version",
        "injection",
        "handler",
        "default",
        "runtime_mode",
        "annotation_prefixes",
    ),
    *(
        "device_list_strategy",
        "plugin_annotation_prefix",
        "runtime_class",
        "max_cdi_version",
        "hook",
    ),
)


def write_public_record(result: Mapping[str, Any], decision: Mapping[str, Any]) -> str:
    """Return what others in the cluster may read of a decision, as JSON.

    It contains no time and no reason, so equal decisions are equal texts.
    """
    host = {
        "isolation": result["decision"].get("isolation"),
        "driver": (result.get("driver") or {}).get("version"),
    }
    said = escape.escape_every_string(
        {**{name: decision.get(name) for name in RECORDED}, **host}, escape.escape_line
    )
    return json.dumps({"schema": 1, **said}, sort_keys=True, separators=(",", ":"))


def get_mig_strategy(host: str, result: Mapping[str, Any], wanted: OfInventory) -> str:
    """Return the MIG strategy of a host.

    Raise PlanError if its GPUs have MIG devices and the user has not set it.

    The user decides which resources the MIG devices of a host become, since pods ask for them by
    name.
    """
    said = get_choice(host, "gpufleet_kubernetes_mig_strategy", wanted.mig or "none", MIG)
    gpus = (result.get("driver") or {}).get("gpus") or ()
    if wanted.mig or not any(gpu.get("migs") for gpu in gpus):
        return said
    raise PlanError(messages.MIG_STRATEGY_MISSING.fill(host=host))


def get_replicas(
    host: str, result: Mapping[str, Any], wanted: OfInventory, mig: str
) -> by_plugin.Replicas | None:
    """Return how the plugin shares the GPUs of a host; None if it shares none.

    Only the plugin can share what the plugin hands out. Raise PlanError for sharing without
    replicas.
    """
    option = f"{sharing_wanted.OPTION}{node_names.name_host_in_sentence(host)}"
    entries = sharing_wanted.parse_sharing(wanted.sharing)
    replicas = by_plugin.get_common_replicas(option, entries)
    if not replicas:
        if entries:
            raise PlanError(
                messages.NO_REPLICAS.fill(of_host=node_names.name_host_in_sentence(host))
            )
        return None
    known = (result.get("driver") or {}).get("gpus") or ()
    gpus = [
        SeenGpu(
            **{field.name: gpu[field.name] for field in dc.fields(SeenGpu) if field.name in gpu}
        )
        for gpu in known
    ]
    by_plugin.require_all_gpus(option, entries, gpus)
    by_plugin.require_mig(option, replicas, gpus, mig)
    return replicas


def get_choice(host: str, name: str, value: str, choices: Iterable[str]) -> str:
    """Return the value of a setting. Raise PlanError if it is none of the choices."""
    if value not in choices:
        row, of_host = messages.CHOICE, node_names.name_host_in_sentence(host)
        known = " or ".join(choices)
        raise PlanError(row.fill(setting=name, value=value, of_host=of_host, choices=known))
    return value


def get_cluster_name(result: Mapping[str, Any], wanted: OfInventory) -> str:
    """Return the name of the host's cluster: from the inventory, otherwise from the CA that its
    kubelet trusts.
    """
    name = str((result.get("work") or {}).get("cluster") or "")
    if wanted.cluster and not CLUSTER_NAME.fullmatch(wanted.cluster):
        raise PlanError(messages.CLUSTER_NAME.fill(value=wanted.cluster))
    return wanted.cluster or (name if CLUSTER_NAME.fullmatch(name) else DEFAULT_CLUSTER)


def require_own_names(hosts: Iterable[Host]) -> None:
    """Raise PlanError if two hosts are one node of a cluster."""
    owners: dict[tuple[str, str], str] = {}
    for one_ in hosts:
        other = owners.setdefault((one_.cluster, one_.node), one_.host)
        if other != one_.host:
            given = {"one": other, "other": one_.host, "node": one_.node, "cluster": one_.cluster}
            raise PlanError(messages.SAME_NODE.fill(**given))


def require_own_directories(hosts: Iterable[Host]) -> None:
    """Raise PlanError if two clusters have names that differ by capital letters alone.

    Each cluster has a directory by its name. On many controllers (macOS, a Windows share) capital
    letters make no difference in the names of directories.
    """
    owners: dict[str, Host] = {}
    for one_ in hosts:
        other = owners.setdefault(one_.cluster.casefold(), one_)
        if other.cluster != one_.cluster:
            first = {"first": other.cluster, "host": other.host}
            second = {"second": one_.cluster, "other": one_.host}
            raise PlanError(messages.SAME_DIRECTORY.fill(**first, **second))
