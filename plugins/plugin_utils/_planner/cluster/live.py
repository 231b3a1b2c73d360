# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the calls of kubernetes.core's modules, in their order, that give a cluster what was
rendered.

No call is made for what is there already. An object that others keep is left to them. A node's
label is set only if the configuration that it names is there. For a name that it does not find, the
plugin's sidecar ends with an error (cmd/config-manager/main.go).
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    api_calls,
    drain,
    drain_kubernetes,
    messages,
    node_taints,
    objects,
    owners,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    groups as cluster_groups,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.api_calls import Call
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.members import (
    ClusterMember,
    Host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.objects import (
    ClusterSettings,
    Kept,
    Object,
    RenderedCluster,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Difference
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    escape,
    names,
)

# The operator sets this label only if it is missing or empty, so it leaves a label that is set
# (gpu-operator, state_manager.go).
TAKEN_OVER = frozenset({objects.TOOLKIT_LABEL})
TAKEN_BACK = messages.TAKEN_BACK.fill()
LABEL_WHY = messages.LABEL_CHOOSES.fill(label=objects.CONFIG_LABEL)
NO_GPUS = messages.NO_GPUS_ANY_MORE.fill()


@dc.dataclass(frozen=True)
class Live:
    """The objects that the cluster has."""

    nodes: Mapping[str, Object]
    config_map: Object | None
    classes: Mapping[str, Object]
    namespace: bool  # whether it is there


@dc.dataclass(frozen=True)
class ClusterPlan:
    """The work to be done in the API of a cluster, in this order."""

    calls: tuple[Call, ...] = ()
    said: tuple[str, ...] = ()  # what is only rendered, and why


def list_kept_nodes(live: Live, judged: Iterable[str]) -> Kept:
    """Return the labels of nodes that an earlier run has labelled and that this run knows nothing
    of.

    A kubelet may label its own node, and in the name of this collection as well. So a label keeps a
    RuntimeClass that exists, and creates none.
    """
    known = set(judged)
    labels = {
        name: {
            key: value
            for key, value in owners.get_metadata_part(node, "labels").items()
            if not is_without_class(key, live)
        }
        for name, node in live.nodes.items()
        if name not in known and owners.own_keys(node, "labels")
    }
    texts = (live.config_map or {}).get("data") or {}
    return Kept(labels, {str(key): str(text) for key, text in texts.items()})


def is_without_class(label: str, live: Live) -> bool:
    """Tell whether a label names a handler that has no RuntimeClass in the cluster."""
    return (
        label.startswith(objects.HANDLER_LABEL)
        and label.removeprefix(objects.HANDLER_LABEL) not in live.classes
    )


def map_live_strategies(live: Live) -> dict[str, tuple[str, ...]]:
    """Return the plugin's strategies on each node, from the configuration that the node's label
    selects.

    A node whose configuration sets no strategy is left out: nothing is known about it.
    """
    texts: Mapping[str, Any] = (live.config_map or {}).get("data") or {}
    read = {key: cluster_groups.list_file_strategies(str(text)) for key, text in texts.items()}
    strategies = {
        name: read.get(owners.get_metadata_part(node, "labels").get(objects.CONFIG_LABEL, ""), ())
        for name, node in live.nodes.items()
    }
    return {name: known for name, known in strategies.items() if known}


def plan_cluster(
    rendered: RenderedCluster, live: Live, settings: ClusterSettings, held: Collection[str] = ()
) -> ClusterPlan:
    """Plan the calls that give the cluster what was rendered.

    held: nodes whose hosts change before their labels do.
    """
    require_cluster_nodes(rendered, live)
    require_staying(live)
    missing = (
        set()
        if live.config_map is None or owners.is_own_object(live.config_map)
        else find_unknown_groups(rendered, live)
    )
    noted = node_taints.list_cluster_taints(live.config_map)
    known = [*noted, *rendered.taints]
    labelled, more = plan_node_calls(rendered, live, missing, held, known)
    gone = [live.nodes[name] for name in sorted(rendered.gone & set(live.nodes))]
    freed = release_nodes(gone, known)
    more += node_taints.list_doubted_taints(gone, known)
    after = map_written_nodes([*labelled, *freed])
    tainted = node_taints.list_still_noted_taints({**live.nodes, **after}.values(), noted)
    first, last, said = plan_config_map(
        rendered, live, settings, list_configurations_named_after(live, after), tainted
    )
    made, dropped, others = plan_runtime_classes(rendered, live)
    namespace = [plan_namespace(settings)] if first and not live.namespace else []
    calls = [*namespace, *first, *made, *labelled, *freed, *last, *dropped]
    return ClusterPlan(tuple(calls), (*said, *others, *more))


def require_staying(live: Live) -> None:
    """Raise PlanError if the ConfigMap is being deleted.

    A value that is written into such an object disappears with it, as soon as nothing holds the
    object any more.
    """
    config_map = live.config_map
    if config_map and config_map["metadata"].get("deletionTimestamp"):
        holds = ", ".join(
            escape.escape_line(str(name)) for name in config_map["metadata"].get("finalizers") or ()
        )
        row, holder = messages.BEING_DELETED, holds or "another person or program"
        raise PlanError(row.fill(object=api_calls.name_object(config_map), holder=holder))


def plan_cluster_removal(
    live: Live, config_maps: Sequence[Object], hosts: Sequence[Host], settings: ClusterSettings
) -> ClusterPlan:
    """Plan the removal of what this collection has made, and of nothing else.

    Labels go first, since they name what is in a ConfigMap.
    hosts: the hosts of the run, which prove that the cluster is the intended one. All nodes are
    freed, including those of other hosts.
    """
    own = [one for one in config_maps if owners.is_own_object(one)]
    # The ConfigMap that was read is not listed if the API answers 400. An earlier run may have
    # noted taints in a ConfigMap of another name or namespace.
    listed = {api_calls.name_object(one) for one in own}
    read = [live.config_map] if live.config_map else []
    own += [
        one
        for one in read
        if owners.is_own_object(one) and api_calls.name_object(one) not in listed
    ]
    known = [
        *(t for one in [*own, *read] for t in node_taints.list_cluster_taints(one)),
        *objects.parse_taints(settings.taints),
    ]
    nodes = [live.nodes[name] for name in sorted(live.nodes, key=names.build_natural_key)]
    calls = release_nodes(nodes, known, TAKEN_BACK)
    calls += [
        api_calls.build_delete_call(one, TAKEN_BACK)
        for one in [*own, *(c for c in live.classes.values() if owners.is_own_object(c))]
    ]
    if calls:
        require_cluster(hosts, live)
    return ClusterPlan(tuple(calls), tuple(node_taints.list_doubted_taints(nodes, known)))


# ---------------------------------------------------------------- nodes


def require_cluster_nodes(rendered: RenderedCluster, live: Live) -> None:
    """Raise PlanError unless all nodes exist and are these hosts.

    A node of the same name in another cluster is another machine.
    """
    running = [m for m in rendered.members if not m.image]
    lost = tuple(m.node for m in running if m.node not in live.nodes)
    if lost and len(lost) == len(running):
        known = names.show_some_runs(live.nodes) if live.nodes else "no nodes"
        row, lost_nodes = messages.NOT_THIS_CLUSTER, names.show_some_runs(lost)
        raise PlanError(row.fill(cluster=rendered.name, nodes=lost_nodes, known=known))
    if lost:
        raise drain.build_unknown_node_error(
            "gpufleet_kubernetes_node",
            (names.show_some_runs(lost),),
            list(live.nodes),
            f"the cluster {rendered.name}",
        )
    for m in rendered.members:
        if m.node in live.nodes and not m.image:
            drain_kubernetes.require_same_machine(live.nodes[m.node], m.boot_id)


def require_cluster(hosts: Sequence[Host], live: Live) -> None:
    """Raise PlanError unless the cluster is that of the hosts.

    With another cluster's kubeconfig, everything would be taken back in that cluster.
    """
    there = [one for one in hosts if one.node in live.nodes]
    if not there:
        raise PlanError(
            messages.OTHER_CLUSTER.fill(nodes=names.show_some_runs(one.node for one in hosts))
        )
    for one in there:
        if isinstance(one, ClusterMember) and not one.image:
            drain_kubernetes.require_same_machine(live.nodes[one.node], one.boot_id)


def find_unknown_groups(rendered: RenderedCluster, live: Live) -> set[str]:
    """Return the groups that another owner's ConfigMap does not have, or has with another text."""
    data = (live.config_map or {}).get("data") or {}
    return {group.name for group in rendered.groups if data.get(group.name) != group.text}


def plan_node_calls(
    rendered: RenderedCluster,
    live: Live,
    missing: set[str],
    held: Collection[str],
    known: node_taints.Taints,
) -> tuple[list[Call], list[str]]:
    """List the calls that label and taint nodes, and what is to be said of others.

    missing: groups that the ConfigMap lacks. held: nodes that stay as they are. known: all taints
    of this collection.
    """
    members = {m.node: m for m in rendered.members}
    plain: list[tuple[Object, Object]] = []
    forced: list[tuple[Object, Object]] = []
    first: list[Call] = []
    taints: list[Call] = []
    said: list[str] = []
    for wanted in rendered.nodes:
        name = wanted["metadata"]["name"]
        if name not in live.nodes:
            host = members[name].host
            said.append(messages.IMAGE_WITHOUT_NODE.fill(host=host, node=name))
        elif name in held:
            continue
        elif wanted["metadata"]["labels"][objects.CONFIG_LABEL] in missing:
            said.append(messages.GROUP_NOT_THERE.fill(node=name))
        else:
            node, freed, tainted = node_taints.add_taints(
                wanted, live.nodes[name], rendered.taints, known
            )
            keeper, force = find_owner_conflict(node, live.nodes[name], members[name])
            if keeper:
                row, label = messages.LABEL_KEPT, objects.CONFIG_LABEL
                said.append(row.fill(node=name, label=label, keeper=keeper))
                continue
            if is_different_on_node(node, live.nodes[name]):
                (forced if force else plain).append((node, live.nodes[name]))
            first, taints = [*first, *freed], [*taints, *tainted]
            said += node_taints.list_kept_taints(
                live.nodes[name], rendered.taints, known
            ) + node_taints.list_doubted_taints([live.nodes[name]], known)
    calls = [
        *api_calls.build_apply_calls("label the nodes", plain, LABEL_WHY),
        *api_calls.build_apply_calls("label the nodes", forced, LABEL_WHY, force=True),
    ]
    return [*first, *calls, *taints], said


def is_different_on_node(wanted: Object, node: Object) -> bool:
    """Tell whether a label or an annotation is missing, has another value, or is not wanted any
    more.
    """
    for part in api_calls.PARTS:
        desired = wanted["metadata"].get(part) or {}
        there = owners.get_metadata_part(node, part)
        if owners.own_keys(node, part) != set(desired) or any(
            there.get(key) != value for key, value in desired.items()
        ):
            return True
    return False


def find_owner_conflict(wanted: Object, node: Object, m: ClusterMember) -> tuple[str, bool]:
    """Find who else owns a label or an annotation that has another value: (keeper, whether to take
    one over).

    The keeper is a tool that would bring its value back; '' if there is none. Raise PlanError if
    another owner is not such a tool and the key is not one that this collection takes over.
    """
    force = False
    for part in api_calls.PARTS:
        there = owners.get_metadata_part(node, part)
        for key, value in (wanted["metadata"].get(part) or {}).items():
            others = (
                owners.list_other_owners(node, part, key) if there.get(key, value) != value else []
            )
            keeper = next((who for who in others if who in owners.KEEPERS), "")
            if keeper:
                return keeper, False
            if others and key not in TAKEN_OVER:
                verb = api_calls.VERBS[part]
                given = {"node": m.node, "key": key, "owner": others[0], "verb": verb}
                if part == "annotations":  # an annotation is a whole decision
                    raise PlanError(messages.ANNOTATION_OF_OTHERS.fill(**given))
                raise PlanError(
                    messages.LABEL_OF_OTHERS.fill(**given, value=there[key], wanted=value)
                )
            force = force or bool(others)
    return "", force


def release_nodes(
    nodes: Iterable[Object], known: node_taints.Taints, why: str = NO_GPUS
) -> list[Call]:
    """Build the calls that remove what this collection has written to nodes."""
    own = [node for node in nodes if any(owners.own_keys(node, part) for part in api_calls.PARTS)]
    # the removals; none is added
    taints = [
        call
        for node in own
        for call in node_taints.add_taints(build_bare_node(node), node, (), known)[1]
    ]
    pairs = [(build_bare_node(node), node) for node in own]
    return [*taints, *api_calls.build_apply_calls("take the labels from the nodes", pairs, why)]


def build_bare_node(node: Object) -> Object:
    """Return a node with nothing but its name."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": drain_kubernetes.name_of(node)},
    }


# ---------------------------------------------------------------- whole objects


def map_written_nodes(calls: Iterable[Call]) -> dict[str, Object]:
    """Return the nodes that these calls write, with only the part that this collection owns then."""
    return {
        node["metadata"]["name"]: node
        for call in calls
        if call.module == "k8s"
        for node in call.arguments["resource_definition"]
    }


def list_configurations_named_after(live: Live, after: Mapping[str, Object]) -> set[str]:
    """Return the configurations that nodes name after these nodes are written, regardless of who
    has set their labels.
    """
    done = {
        name: owners.get_metadata_part(node, "labels").get(objects.CONFIG_LABEL, "")
        for name, node in after.items()
    }
    named = set()
    for name, node in live.nodes.items():
        alone = name in done and (
            done[name] or not owners.list_other_owners(node, "labels", objects.CONFIG_LABEL)
        )
        named.add(
            done[name]
            if alone
            else owners.get_metadata_part(node, "labels").get(objects.CONFIG_LABEL, "")
        )
    return named


def plan_config_map(
    rendered: RenderedCluster,
    live: Live,
    settings: ClusterSettings,
    named: Collection[str],
    tainted: node_taints.Taints,
) -> tuple[list[Call], list[Call], list[str]]:
    """Plan the ConfigMap: (calls before the labels, calls after the labels, what is only rendered).

    A configuration is removed when no node names it any more.
    tainted: the taints of earlier runs that nodes still have a note of after the run.
    """
    there, wanted = live.config_map, rendered.config_map
    if there is not None and not owners.is_own_object(there):
        place = {"namespace": settings.place, "name": settings.config_map}
        kept = messages.CONFIG_MAP_KEPT.fill(**place, owner=owners.name_object_owner(there))
        return [], [], [kept] if wanted else []
    before: Mapping[str, str] = (there or {}).get("data") or {}
    after = {
        **{key: text for key, text in before.items() if key in named},
        **((wanted or {}).get("data") or {}),
    }
    if not after:
        why = messages.NO_NODE_HAS_GPUS.fill()
        return [], [api_calls.build_delete_call(there, why)] if there else [], []
    taints = node_taints.merge_taints(rendered.taints, tainted)
    wanted = objects.build_config_map(after, settings, taints)
    whole = objects.build_config_map(
        {**before, **after},
        settings,
        node_taints.merge_taints(taints, node_taints.list_cluster_taints(there)),
    )
    parts = ("data", api_calls.TAINTS)
    first = api_calls.build_object_calls(
        "write the ConfigMap", whole, there, messages.PLUGIN_READS.fill(), *parts
    )
    why = messages.NOT_NEEDED.fill()
    return (
        first,
        api_calls.build_object_calls("write the ConfigMap", wanted, whole, why, *parts),
        [],
    )


def plan_runtime_classes(
    rendered: RenderedCluster, live: Live
) -> tuple[list[Call], list[Call], list[str]]:
    """List the calls that write RuntimeClasses, the calls that delete ours, and what is to be said
    of others' classes.
    """
    made: list[Call] = []
    said: list[str] = []
    wanted = {c["metadata"]["name"]: c for c in rendered.classes}
    for name, one in wanted.items():
        there = live.classes.get(name)
        if there is None or owners.is_own_object(there):
            why = messages.HANDLER_NAMED.fill()
            doing = f"write the RuntimeClass {name}"
            made += api_calls.build_object_calls(doing, one, there, why, "handler", "scheduling")
        elif there.get("handler") == one["handler"]:
            said.append(messages.CLASS_STAYS.fill(name=name, owner=owners.name_object_owner(there)))
        else:
            other = escape.escape_line(str(there.get("handler")))
            given = {"name": name, "owner": owners.name_object_owner(there), "other": other}
            said.append(messages.CLASS_OF_OTHERS.fill(**given, handler=one["handler"]))
    gone = [
        c for n, c in sorted(live.classes.items()) if n not in wanted and owners.is_own_object(c)
    ]
    return made, [api_calls.build_delete_call(c, messages.HANDLER_GONE.fill()) for c in gone], said


def plan_namespace(settings: ClusterSettings) -> Call:
    """Build the call that creates the namespace.

    The namespace is created if it is missing, so that the ConfigMap can exist before the chart is
    installed. It is never removed.
    """
    wanted = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": settings.place}}
    named = api_calls.name_object(wanted)
    what = Difference("object", named, "", None, "present", messages.OF_NAMESPACE.fill())
    return Call(
        f"make the namespace {settings.place}",
        "k8s",
        api_calls.build_ssa_arguments([wanted]),
        (what,),
        ((named, None, wanted),),
    )
