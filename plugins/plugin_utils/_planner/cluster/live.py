# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the calls of kubernetes.core's modules, in their order, that give a cluster what was rendered.

No call is made for what is there already. An object that others keep is left to them. A node's label is
set only if the configuration that it names is there: the plugin's sidecar ends with an error for a name
that it does not find (cmd/config-manager/main.go).
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import api_calls, messages, node_taints, objects, owners
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import groups as grouping
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.api_calls import Call
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.members import Host, Member
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.objects import Kept, Object, Rendered, Settings
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import drain, drain_kubernetes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Difference
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import escape, names

# The operator sets this label only if it is missing or empty, so it leaves a label that is set (gpu-operator, state_manager.go).
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
class Plan:
    calls: tuple[Call, ...] = ()
    said: tuple[str, ...] = ()  # what is only rendered, and why


def kept(live: Live, judged: Iterable[str]) -> Kept:
    """Return the labels of nodes that an earlier run has labelled and that this run knows nothing of.

    A kubelet may label its own node, and in the name of this collection as well. So a label keeps a
    RuntimeClass that exists, and creates none.
    """
    known = set(judged)
    labels = {
        name: {key: value for key, value in owners.metadata(node, "labels").items() if not of_no_class(key, live)}
        for name, node in live.nodes.items()
        if name not in known and owners.own_keys(node, "labels")
    }
    texts = (live.config_map or {}).get("data") or {}
    return Kept(labels, {str(key): str(text) for key, text in texts.items()})


def of_no_class(label: str, live: Live) -> bool:
    return label.startswith(objects.HANDLER_LABEL) and label.removeprefix(objects.HANDLER_LABEL) not in live.classes


def strategies(live: Live) -> dict[str, tuple[str, ...]]:
    """Return the plugin's strategies on each node, from the configuration that the node's label selects.

    A node whose configuration sets no strategy is left out: nothing is known about it.
    """
    texts: Mapping[str, Any] = (live.config_map or {}).get("data") or {}
    read = {key: grouping.strategies_in(str(text)) for key, text in texts.items()}
    found = {name: read.get(owners.metadata(node, "labels").get(objects.CONFIG_LABEL, ""), ()) for name, node in live.nodes.items()}
    return {name: known for name, known in found.items() if known}


def plan(rendered: Rendered, live: Live, settings: Settings, held: Collection[str] = ()) -> Plan:
    """Plan the calls that give the cluster what was rendered.

    held: nodes whose hosts change before their labels do.
    """
    require_nodes(rendered, live)
    require_staying(live)
    missing = set() if live.config_map is None or owners.is_ours(live.config_map) else unknown_groups(rendered, live)
    noted = node_taints.of_cluster(live.config_map)
    known = [*noted, *rendered.taints]
    labelled, more = of_nodes(rendered, live, missing, held, known)
    gone = [live.nodes[name] for name in sorted(rendered.gone & set(live.nodes))]
    freed = released(gone, known)
    more += node_taints.doubted(gone, known)
    after = written([*labelled, *freed])
    tainted = node_taints.still_noted({**live.nodes, **after}.values(), noted)
    first, last, said = of_config_map(rendered, live, settings, named_after(live, after), tainted)
    made, dropped, others = of_classes(rendered, live)
    namespace = [of_namespace(settings)] if first and not live.namespace else []
    calls = [*namespace, *first, *made, *labelled, *freed, *last, *dropped]
    return Plan(tuple(calls), (*said, *others, *more))


def require_staying(live: Live) -> None:
    """Raise PlanError if the ConfigMap is being deleted.

    What is written into such an object disappears with it, as soon as nothing holds the object any
    more.
    """
    found = live.config_map
    if found and found["metadata"].get("deletionTimestamp"):
        holds = ", ".join(escape.line(str(name)) for name in found["metadata"].get("finalizers") or ())
        row, holder = messages.BEING_DELETED, holds or "somebody else"
        raise PlanError(row.fill(object=api_calls.named(found), holder=holder))


def absent(live: Live, config_maps: Sequence[Object], hosts: Sequence[Host], settings: Settings) -> Plan:
    """Plan the removal of what this collection has made, and of nothing else.

    Labels go first, since they name what is in a ConfigMap.
    hosts: the hosts of the run, which prove that the cluster is the intended one. All nodes are
    freed, including those of other hosts.
    """
    own = [one for one in config_maps if owners.is_ours(one)]
    # The ConfigMap that was read is not listed if the API answers 400. An earlier run may have noted taints
    # in a ConfigMap of another name or namespace.
    listed = {api_calls.named(one) for one in own}
    read = [live.config_map] if live.config_map else []
    own += [one for one in read if owners.is_ours(one) and api_calls.named(one) not in listed]
    known = [*(t for one in [*own, *read] for t in node_taints.of_cluster(one)), *objects.taints(settings.taints)]
    nodes = [live.nodes[name] for name in sorted(live.nodes, key=names.natural)]
    calls = released(nodes, known, TAKEN_BACK)
    calls += [api_calls.deleted(one, TAKEN_BACK) for one in [*own, *(c for c in live.classes.values() if owners.is_ours(c))]]
    if calls:
        require_cluster(hosts, live)
    return Plan(tuple(calls), tuple(node_taints.doubted(nodes, known)))


# ---------------------------------------------------------------- nodes


def require_nodes(rendered: Rendered, live: Live) -> None:
    """Raise PlanError unless all nodes exist and are these hosts.

    A node of the same name in another cluster is another machine.
    """
    running = [m for m in rendered.members if not m.image]
    lost = tuple(m.node for m in running if m.node not in live.nodes)
    if lost and len(lost) == len(running):
        known = names.some(live.nodes) if live.nodes else "no nodes"
        row, lost_nodes = messages.NOT_THIS_CLUSTER, names.some(lost)
        raise PlanError(row.fill(cluster=rendered.name, nodes=lost_nodes, known=known))
    if lost:
        raise drain.no_node("gpufleet_kubernetes_node", (names.some(lost),), list(live.nodes), f"the cluster {rendered.name}")
    for m in rendered.members:
        if m.node in live.nodes and not m.image:
            drain_kubernetes.require_same_machine(live.nodes[m.node], m.boot_id)


def require_cluster(hosts: Sequence[Host], live: Live) -> None:
    """Raise PlanError unless the cluster is that of the hosts.

    With another cluster's kubeconfig, everything would be taken back in that cluster.
    """
    there = [one for one in hosts if one.node in live.nodes]
    if not there:
        raise PlanError(messages.OTHER_CLUSTER.fill(nodes=names.some(one.node for one in hosts)))
    for one in there:
        if isinstance(one, Member) and not one.image:
            drain_kubernetes.require_same_machine(live.nodes[one.node], one.boot_id)


def unknown_groups(rendered: Rendered, live: Live) -> set[str]:
    """Return the groups that another owner's ConfigMap does not have, or has with another text."""
    data = (live.config_map or {}).get("data") or {}
    return {group.name for group in rendered.groups if data.get(group.name) != group.text}


def of_nodes(
    rendered: Rendered, live: Live, missing: set[str], held: Collection[str], known: node_taints.Taints
) -> tuple[list[Call], list[str]]:
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
            node, freed, tainted = node_taints.with_taints(wanted, live.nodes[name], rendered.taints, known)
            keeper, force = conflict(node, live.nodes[name], members[name])
            if keeper:
                row, label = messages.LABEL_KEPT, objects.CONFIG_LABEL
                said.append(row.fill(node=name, label=label, keeper=keeper))
                continue
            if differs(node, live.nodes[name]):
                (forced if force else plain).append((node, live.nodes[name]))
            first, taints = [*first, *freed], [*taints, *tainted]
            said += node_taints.kept_taints(live.nodes[name], rendered.taints, known) + node_taints.doubted([live.nodes[name]], known)
    calls = [*api_calls.applied("label the nodes", plain, LABEL_WHY), *api_calls.applied("label the nodes", forced, LABEL_WHY, force=True)]
    return [*first, *calls, *taints], said


def differs(wanted: Object, node: Object) -> bool:
    """Tell whether a label or an annotation is missing, has another value, or is not wanted any more."""
    for part in api_calls.PARTS:
        desired = wanted["metadata"].get(part) or {}
        there = owners.metadata(node, part)
        if owners.own_keys(node, part) != set(desired) or any(there.get(key) != value for key, value in desired.items()):
            return True
    return False


def conflict(wanted: Object, node: Object, m: Member) -> tuple[str, bool]:
    """Find who else owns a label or an annotation that has another value: (keeper, whether to take one over).

    The keeper is a tool that would bring its value back; '' if there is none. Raise PlanError if
    another owner is not such a tool and the key is not one that this collection takes over.
    """
    force = False
    for part in api_calls.PARTS:
        there = owners.metadata(node, part)
        for key, value in (wanted["metadata"].get(part) or {}).items():
            others = owners.other_owners(node, part, key) if there.get(key, value) != value else []
            keeper = next((who for who in others if who in owners.KEEPERS), "")
            if keeper:
                return keeper, False
            if others and key not in TAKEN_OVER:
                verb = api_calls.VERBS[part]
                given = {"node": m.node, "key": key, "owner": others[0], "verb": verb}
                if part == "annotations":  # an annotation is a whole decision
                    raise PlanError(messages.ANNOTATION_OF_OTHERS.fill(**given))
                raise PlanError(messages.LABEL_OF_OTHERS.fill(**given, value=there[key], wanted=value))
            force = force or bool(others)
    return "", force


def released(nodes: Iterable[Object], known: node_taints.Taints, why: str = NO_GPUS) -> list[Call]:
    """Build the calls that remove what this collection has written to nodes."""
    own = [node for node in nodes if any(owners.own_keys(node, part) for part in api_calls.PARTS)]
    taints = [call for node in own for call in node_taints.with_taints(bare(node), node, (), known)[1]]  # the removals; none is added
    pairs = [(bare(node), node) for node in own]
    return [*taints, *api_calls.applied("take the labels from the nodes", pairs, why)]


def bare(node: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": drain_kubernetes.name_of(node)}}


# ---------------------------------------------------------------- whole objects


def written(calls: Iterable[Call]) -> dict[str, Object]:
    """Return the nodes that these calls write, with only the part that this collection owns then."""
    return {node["metadata"]["name"]: node for call in calls if call.module == "k8s" for node in call.arguments["resource_definition"]}


def named_after(live: Live, after: Mapping[str, Object]) -> set[str]:
    """Return the configurations that nodes name after these nodes are written, regardless of who has set their labels."""
    done = {name: owners.metadata(node, "labels").get(objects.CONFIG_LABEL, "") for name, node in after.items()}
    found = set()
    for name, node in live.nodes.items():
        alone = name in done and (done[name] or not owners.other_owners(node, "labels", objects.CONFIG_LABEL))
        found.add(done[name] if alone else owners.metadata(node, "labels").get(objects.CONFIG_LABEL, ""))
    return found


def of_config_map(
    rendered: Rendered, live: Live, settings: Settings, named: Collection[str], tainted: node_taints.Taints
) -> tuple[list[Call], list[Call], list[str]]:
    """Plan the ConfigMap: (calls before the labels, calls after the labels, what is only rendered).

    A configuration is removed when no node names it any more.
    tainted: the taints of earlier runs that nodes still have a note of after the run.
    """
    there, wanted = live.config_map, rendered.config_map
    if there is not None and not owners.is_ours(there):
        place = {"namespace": settings.place, "name": settings.config_map}
        kept = messages.CONFIG_MAP_KEPT.fill(**place, owner=owners.owner(there))
        return [], [], [kept] if wanted else []
    before: Mapping[str, str] = (there or {}).get("data") or {}
    after = {**{key: text for key, text in before.items() if key in named}, **((wanted or {}).get("data") or {})}
    if not after:
        why = messages.NO_NODE_HAS_GPUS.fill()
        return [], [api_calls.deleted(there, why)] if there else [], []
    taints = node_taints.together(rendered.taints, tainted)
    wanted = objects.config_map(after, settings, taints)
    whole = objects.config_map({**before, **after}, settings, node_taints.together(taints, node_taints.of_cluster(there)))
    parts = ("data", api_calls.TAINTS)
    first = api_calls.of_object("write the ConfigMap", whole, there, messages.PLUGIN_READS.fill(), *parts)
    why = messages.NOT_NEEDED.fill()
    return first, api_calls.of_object("write the ConfigMap", wanted, whole, why, *parts), []


def of_classes(rendered: Rendered, live: Live) -> tuple[list[Call], list[Call], list[str]]:
    made: list[Call] = []
    said: list[str] = []
    wanted = {c["metadata"]["name"]: c for c in rendered.classes}
    for name, one in wanted.items():
        there = live.classes.get(name)
        if there is None or owners.is_ours(there):
            why = messages.HANDLER_NAMED.fill()
            doing = f"write the RuntimeClass {name}"
            made += api_calls.of_object(doing, one, there, why, "handler", "scheduling")
        elif there.get("handler") == one["handler"]:
            said.append(messages.CLASS_STAYS.fill(name=name, owner=owners.owner(there)))
        else:
            other = escape.line(str(there.get("handler")))
            given = {"name": name, "owner": owners.owner(there), "other": other}
            said.append(messages.CLASS_OF_OTHERS.fill(**given, handler=one["handler"]))
    gone = [c for n, c in sorted(live.classes.items()) if n not in wanted and owners.is_ours(c)]
    return made, [api_calls.deleted(c, messages.HANDLER_GONE.fill()) for c in gone], said


def of_namespace(settings: Settings) -> Call:
    """Build the call that creates the namespace.

    The namespace is created if it is missing, so that the ConfigMap can exist before the chart is
    installed. It is never removed.
    """
    wanted = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": settings.place}}
    named = api_calls.named(wanted)
    what = Difference("object", named, "", None, "present", messages.OF_NAMESPACE.fill())
    return Call(f"make the namespace {settings.place}", "k8s", api_calls.ssa([wanted]), (what,), ((named, None, wanted),))
