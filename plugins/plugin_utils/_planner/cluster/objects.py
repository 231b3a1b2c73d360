# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render the decisions of a cluster's hosts: objects of its API, values of a chart, and a row for
each host.
"""

from __future__ import annotations

import dataclasses as dc
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    groups as cluster_groups,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    helm,
    members,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.groups import Group
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.members import (
    ClusterMember,
    LeftOut,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    node_names,
)

MANAGER = "gpufleet.nvidia"  # as the API's field manager, and as the value of the label below
MANAGED_BY = "app.kubernetes.io/managed-by"
CONFIG_LABEL = "nvidia.com/device-plugin.config"  # of the device plugin and of the GPU Operator
# followed by the handler's name: selects the nodes of a RuntimeClass
HANDLER_LABEL = "gpufleet.nvidia/handler-"
TOOLKIT_LABEL = "nvidia.com/gpu.deploy.container-toolkit"
DECISION, DIGEST, TAINTS = (
    "gpufleet.nvidia/decision",
    "gpufleet.nvidia/decision-digest",
    "gpufleet.nvidia/taints",
)
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
LONGEST_LABEL = 63
Object = dict[str, Any]


@dc.dataclass(frozen=True)
class ClusterSettings:
    """The settings that count for all hosts of a cluster. uniform: counts for all clusters of a
    run.
    """

    profile: str = helm.CHART
    namespace: str = ""
    config_map: str = "gpufleet-device-plugin"
    taints: tuple[str, ...] = ()
    values: Mapping[str, Any] = dc.field(default_factory=dict)
    environment: Mapping[str, Any] = dc.field(default_factory=dict)
    uniform: bool = False

    @property
    def fixed(self) -> tuple[str, ...]:
        """The strategies that are the same on all nodes, regardless of the host; () for the chart."""
        return (
            helm.list_environment_strategies(helm.get_plugin_environment(self.environment))
            if self.profile == helm.OPERATOR
            else ()
        )

    @property
    def place(self) -> str:
        return self.namespace or helm.NAMESPACES[self.profile]


@dc.dataclass(frozen=True)
class Kept:
    """The state that an earlier run has left for nodes that this run knows nothing of.

    These nodes stay as they are, and so does what they refer to.
    """

    nodes: Mapping[str, Mapping[str, str]] = dc.field(default_factory=dict)  # a node's labels
    texts: Mapping[str, str] = dc.field(default_factory=dict)  # the device plugin's files by name


@dc.dataclass(frozen=True)
class RenderedCluster:
    """One cluster, with its groups of hosts and its objects."""

    name: str
    groups: tuple[Group, ...]
    out: tuple[LeftOut, ...]
    config_map: Object | None
    classes: tuple[Object, ...]
    nodes: tuple[Object, ...]
    values: helm.Values
    taints: tuple[Mapping[str, str], ...] = ()

    @property
    def gone(self) -> frozenset[str]:
        """The nodes whose hosts report that pods get no GPU from them."""
        return frozenset(one.node for one in self.out if one.gone)

    @property
    def members(self) -> tuple[ClusterMember, ...]:
        return tuple(m for group in self.groups for m in group.members)


def group_hosts_by_cluster(hosts: Iterable[members.Host]) -> dict[str, tuple[members.Host, ...]]:
    """Group the hosts by cluster: name -> hosts.

    A host that gave no answer does not name its cluster. If all other hosts of the run are in one
    cluster, the host counts as one of that cluster.
    """
    clusters: dict[str, list[members.Host]] = {}
    for one in hosts:
        clusters.setdefault(one.cluster, []).append(one)
    unknown = clusters.get(members.DEFAULT_CLUSTER, [])
    others = [name for name in clusters if name != members.DEFAULT_CLUSTER]
    if len(others) == 1 and not any(isinstance(one, ClusterMember) for one in unknown):
        clusters.pop(members.DEFAULT_CLUSTER, None)
        clusters[others[0]] += [dc.replace(one, cluster=others[0]) for one in unknown]
        members.require_own_names(clusters[others[0]])
    return {name: tuple(clusters[name]) for name in sorted(clusters)}


def is_without_cluster(found: Mapping[str, Sequence[members.Host]]) -> bool:
    """Tell whether `default` only names the hosts whose cluster is not known.

    That is so if there are several clusters and `default` has no member.
    """
    unknown = found.get(members.DEFAULT_CLUSTER, ())
    return (
        bool(unknown)
        and len(found) > 1
        and not any(isinstance(one, ClusterMember) for one in unknown)
    )


def render_cluster(
    name: str, hosts: Sequence[members.Host], settings: ClusterSettings, kept: Kept = Kept()
) -> RenderedCluster:
    """Render all objects and values of a cluster.

    kept: what stays for nodes that are not in this run. Raise PlanError for hosts or settings that
    contradict each other.
    """
    inside = [one for one in hosts if isinstance(one, ClusterMember)]
    out = tuple(one for one in hosts if isinstance(one, LeftOut))
    environment = helm.get_plugin_environment(settings.environment)
    groups = cluster_groups.group_members(
        inside, helm.list_fixed_plugin_keys(settings.profile, environment)
    )
    if settings.uniform:
        require_uniform(name, groups)
    values = helm.build_chart_values(
        settings.profile,
        groups,
        out,
        config_map=settings.config_map,
        given=settings.values,
        environment=environment,
    )
    tainted = parse_taints(settings.taints)
    nodes = tuple(build_node_object(m, group, settings) for group in groups for m in group.members)
    stays = {labels.get(CONFIG_LABEL, "") for labels in kept.nodes.values()}
    texts = {
        **{key: text for key, text in kept.texts.items() if key in stays},
        **{group.name: group.text for group in groups},
    }
    return RenderedCluster(
        name=name,
        groups=groups,
        out=out,
        config_map=build_config_map(texts, settings, tainted) if texts else None,
        classes=build_runtime_classes(groups, kept),
        nodes=tuple(sorted(nodes, key=lambda n: names.build_natural_key(n["metadata"]["name"]))),
        values=values,
        taints=tainted,
    )


def render_empty_cluster(name: str) -> RenderedCluster:
    """Return an empty cluster: everything is taken back from it, regardless of its hosts."""
    return RenderedCluster(name, (), (), None, (), (), helm.Values({}, ()))


def check_namespace_name(text: str) -> str:
    """Return the name of a namespace. Raise PlanError for one that Kubernetes does not take."""
    return own_name("gpufleet_kubernetes_namespace", text, members.NAMESPACE_NAME, LONGEST_LABEL)


def check_config_map_name(text: str) -> str:
    """Return the name of a ConfigMap. Raise PlanError for one that Kubernetes does not take."""
    return own_name("gpufleet_kubernetes_config_map", text, node_names.NODE_NAME, 253)


def own_name(setting: str, text: str, pattern: re.Pattern[str], longest: int) -> str:
    """Return the name of an object.

    Raise PlanError if the API would refuse it when the file is applied.
    """
    if not pattern.fullmatch(text):
        row = messages.LABEL_NAME if longest == LONGEST_LABEL else messages.OBJECT_NAME
        raise PlanError(row.fill(setting=setting, value=text, longest=longest))
    return text


def build_config_map(
    texts: Mapping[str, str], settings: ClusterSettings, tainted: Sequence[Mapping[str, str]] = ()
) -> Object:
    """Build the ConfigMap.

    tainted: the taints that this collection sets on nodes, by which it recognizes its own taints
    later. No node may write this note.
    """
    place = check_namespace_name(settings.place)
    metadata: Object = {
        "name": check_config_map_name(settings.config_map),
        "namespace": place,
        "labels": {MANAGED_BY: MANAGER},
    }
    if tainted:
        metadata["annotations"] = {TAINTS: write_taint_note(tainted)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": dict(sorted(texts.items())),
    }


def build_runtime_classes(groups: Iterable[Group], kept: Kept) -> tuple[Object, ...]:
    """Build one RuntimeClass for each handler.

    If some hosts do not have the handler, pods that name it go to the hosts that have it.
    """
    groups = list(groups)
    before = {
        key.removeprefix(HANDLER_LABEL)
        for labels in kept.nodes.values()
        for key in labels
        if key.startswith(HANDLER_LABEL)
    }
    classes = []
    for handler in sorted({*(group.handler for group in groups if group.handler), *before}):
        metadata = {"name": handler, "labels": {MANAGED_BY: MANAGER}}
        made: Object = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": metadata,
            "handler": handler,
        }
        label = HANDLER_LABEL + handler
        everywhere = all(group.handler == handler for group in groups) and all(
            label in labels for labels in kept.nodes.values()
        )
        classes.append(
            made if everywhere else {**made, "scheduling": {"nodeSelector": {label: "true"}}}
        )
    return tuple(classes)


def build_node_object(m: ClusterMember, group: Group, settings: ClusterSettings) -> Object:
    """Build the part of a node object that this collection owns."""
    labels = {CONFIG_LABEL: group.name}
    if m.handler:
        labels[HANDLER_LABEL + m.handler] = "true"
    if settings.profile == helm.OPERATOR:
        labels[TOOLKIT_LABEL] = "false"
    metadata = {
        "name": m.node,
        "labels": dict(sorted(labels.items())),
        "annotations": {DECISION: m.record, DIGEST: m.digest},
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


# As the API judges them: a name, with the domain of its owner before it; and the value of a label.
NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
QUALIFIED = re.compile(
    rf"(?:(?=[^/]{{1,253}}/)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?{NAME}"
)


def parse_taints(texts: Iterable[str]) -> tuple[dict[str, str], ...]:
    """Parse the taints of gpufleet_kubernetes_taints. At that point nothing has been applied.

    Raise PlanError for a taint that the API would refuse, and for two taints of one key and effect.
    """
    taints: dict[tuple[str, str], dict[str, str]] = {}
    for text in texts:
        one = parse_taint(text)
        if (one["key"], one["effect"]) in taints:
            raise PlanError(messages.TWO_TAINTS.fill(key=one["key"], effect=one["effect"]))
        taints[one["key"], one["effect"]] = one
    return tuple(taints.values())


def write_taint_note(tainted: Iterable[Mapping[str, str]]) -> str:
    """Write taints as the text of an annotation."""
    return json.dumps([dict(one) for one in tainted], sort_keys=True)


def parse_taint(text: str) -> dict[str, str]:
    """Parse a taint as kubectl writes it, `key=value:Effect`. Raise PlanError if it is not valid."""
    key, _equals, rest = (
        text.partition("=")
        if "=" in text
        else (text.rpartition(":")[0], "", ":" + text.rpartition(":")[2])
    )
    value, colon, effect = rest.rpartition(":")
    named = QUALIFIED.fullmatch(key) and (not value or re.fullmatch(NAME, value))
    if not (named and colon and effect in EFFECTS):
        raise PlanError(messages.NO_TAINT.fill(value=text, effects=", ".join(EFFECTS)))
    return {"key": key, **({"value": value} if value else {}), "effect": effect}


def require_uniform(name: str, groups: Sequence[Group]) -> None:
    """Raise PlanError unless all hosts have one engine and one decision, which is that of the
    oldest host.
    """
    engines: dict[str, list[str]] = {}
    for m in (m for group in groups for m in group.members):
        engines.setdefault(m.engine, []).append(m.host)
    if len(engines) > 1:
        said = "; ".join(
            f"{engine} on {names.show_some_runs(hosts)}"
            for engine, hosts in sorted(engines.items())
        )
        raise PlanError(messages.CLUSTER_WITH_MIXED_ENGINES.fill(cluster=name, engines=said))
    if len(groups) > 1:
        oldest = min(groups, key=lambda group: decide.AGE.get(group.injection, 0))
        said = "; ".join(f"{group.injection} on {group.hosts}" for group in groups)
        given = {"decisions": said, "oldest": oldest.injection, "hosts": oldest.hosts}
        raise PlanError(messages.MIXED_DECISIONS.fill(cluster=name, **given))
