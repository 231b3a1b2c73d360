# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done in a cluster so that it has what was rendered: the calls of kubernetes.core's modules, in their order.

What is there already is not called for. An object that others keep is left to them. A node's label is set only where the configuration
that it names is there: the plugin's sidecar ends with an error for a name that it does not find (cmd/config-manager/main.go).
"""

from __future__ import annotations

import dataclasses as dc
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import groups as grouping
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import objects, owners
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.members import Host, Member
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.objects import Kept, Object, Rendered, Settings
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import drain, drain_kubernetes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Difference, PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import escape, names

VERBS = {"labels": "label", "annotations": "annotate"}  # of kubectl
PARTS = tuple(VERBS)
# The operator sets this label only where it is missing or empty, so nobody fights over it once it is set (gpu-operator, state_manager.go).
TAKEN_OVER = frozenset({objects.TOOLKIT_LABEL})
BATCH = 100  # objects in one call
TAKEN_BACK = "gpufleet_kubernetes_state is absent"
LABEL_WHY = f"the label {objects.CONFIG_LABEL} chooses the node's group, and others read the decision"


@dc.dataclass(frozen=True)
class Live:
    """What the cluster has."""

    nodes: Mapping[str, Object]
    config_map: Object | None
    classes: Mapping[str, Object]
    namespace: bool  # whether it is there


@dc.dataclass(frozen=True)
class Call:
    """A call of one module, and what it changes."""

    doing: str
    module: str
    arguments: Mapping[str, Any]
    differences: tuple[Difference, ...]
    changes: tuple[tuple[str, Any, Any], ...] = ()  # (object, before, after) for --diff
    again: Callable[[Object], list[Call]] | None = None  # the same for the node as it is by now, where somebody else was faster


@dc.dataclass(frozen=True)
class Plan:
    calls: tuple[Call, ...] = ()
    said: tuple[str, ...] = ()  # what is only rendered, and why


def kept(live: Live, judged: Iterable[str]) -> Kept:
    """Nodes that an earlier run has labelled, and of which this run knows nothing.

    A kubelet may label its own node, in our name as well: a label keeps a RuntimeClass that is there, and makes none.
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
    """The plugin's strategies on each node, by the configuration that its label selects. Where that says none, nothing is known."""
    texts: Mapping[str, Any] = (live.config_map or {}).get("data") or {}
    read = {key: grouping.strategies_in(str(text)) for key, text in texts.items()}
    found = {name: read.get(owners.metadata(node, "labels").get(objects.CONFIG_LABEL, ""), ()) for name, node in live.nodes.items()}
    return {name: known for name, known in found.items() if known}


def plan(rendered: Rendered, live: Live, settings: Settings, held: Collection[str] = ()) -> Plan:
    """held: nodes whose hosts change before their labels do."""
    require_nodes(rendered, live)
    require_staying(live)
    missing = set() if live.config_map is None or owners.is_ours(live.config_map) else unknown_groups(rendered, live)
    labelled, more = of_nodes(rendered, live, missing, held)
    freed = released([live.nodes[name] for name in sorted(rendered.gone & set(live.nodes))])
    first, last, said = of_config_map(rendered, live, settings, named_after(live, [*labelled, *freed]))
    made, dropped, others = of_classes(rendered, live)
    namespace = [of_namespace(settings)] if first and not live.namespace else []
    calls = [*namespace, *first, *made, *labelled, *freed, *last, *dropped]
    return Plan(tuple(calls), (*said, *others, *more))


def require_staying(live: Live) -> None:
    """What is written into an object that is being deleted goes with it, once nothing holds it any more."""
    found = live.config_map
    if found and found["metadata"].get("deletionTimestamp"):
        holds = ", ".join(escape.line(str(name)) for name in found["metadata"].get("finalizers") or ())
        step = "Run again once it is gone, or name another one in gpufleet_kubernetes_config_map"
        raise PlanError(f"the {named(found)} is being deleted", why=f"held by {holds}" if holds else "by somebody else", next=step)


def absent(live: Live, config_maps: Sequence[Object], hosts: Sequence[Host]) -> Plan:
    """What this collection has made, and nothing else. Labels go first, since they name what is in a ConfigMap.

    hosts: those of the run, by which the cluster is known as the one that is meant; all nodes are freed, theirs or not.
    """
    calls = released([live.nodes[name] for name in sorted(live.nodes, key=names.natural)])
    calls += [deleted(one, TAKEN_BACK) for one in [*config_maps, *live.classes.values()] if owners.is_ours(one)]
    if calls:
        require_cluster(hosts, live)
    return Plan(tuple(calls))


# ---------------------------------------------------------------- nodes


def require_nodes(rendered: Rendered, live: Live) -> None:
    """All nodes are there, and are these hosts: a node of the same name in another cluster is another machine."""
    lost = [m for m in rendered.members if m.node not in live.nodes and not m.image]
    if lost:
        tried = tuple(m.node for m in lost)
        raise drain.no_node("gpufleet_kubernetes_node", (names.some(tried),), list(live.nodes), f"the cluster {rendered.name}")
    for m in rendered.members:
        if m.node in live.nodes and not m.image:
            drain_kubernetes.require_same_machine(live.nodes[m.node], m.boot_id)


def require_cluster(hosts: Sequence[Host], live: Live) -> None:
    """The cluster is that of the hosts: with another one's kubeconfig all of that one would be taken back."""
    there = [one for one in hosts if one.node in live.nodes]
    if not there:
        what = f"no host of this run is a node of the cluster that answers, among them {names.some(one.node for one in hosts)}"
        step = f"Check {drain_kubernetes.ACCESS}; gpufleet_kubernetes_node names a host's node"
        raise PlanError(what, why="all that this collection has made there would be removed", next=step)
    for one in there:
        if isinstance(one, Member) and not one.image:
            drain_kubernetes.require_same_machine(live.nodes[one.node], one.boot_id)


def unknown_groups(rendered: Rendered, live: Live) -> set[str]:
    """Groups that the ConfigMap of somebody else does not have, or has otherwise."""
    data = (live.config_map or {}).get("data") or {}
    return {group.name for group in rendered.groups if data.get(group.name) != group.text}


def of_nodes(rendered: Rendered, live: Live, missing: set[str], held: Collection[str]) -> tuple[list[Call], list[str]]:
    known = {m.node: m for m in rendered.members}
    plain: list[tuple[Object, Object]] = []
    forced: list[tuple[Object, Object]] = []
    first: list[Call] = []
    taints: list[Call] = []
    said: list[str] = []
    for wanted in rendered.nodes:
        name = wanted["metadata"]["name"]
        if name not in live.nodes:
            said.append(f"{known[name].host} is an image, and the cluster has no node {name}: its node is only rendered")
        elif name in held:
            continue
        elif wanted["metadata"]["labels"][objects.CONFIG_LABEL] in missing:
            said.append(f"the node {name} is only rendered: its configuration is not in the ConfigMap yet")
        else:
            node, freed, tainted = with_taints(wanted, live.nodes[name], rendered.taints)
            keeper, force = conflict(node, live.nodes[name], known[name])
            if keeper:
                said.append(f"the node {name} is only rendered: its label {objects.CONFIG_LABEL} is kept by {keeper}")
                continue
            if differs(node, live.nodes[name]):
                (forced if force else plain).append((node, live.nodes[name]))
            first, taints = [*first, *freed], [*taints, *tainted]
            said += kept_taints(live.nodes[name], rendered.taints)
    calls = [*applied("label the nodes", plain, LABEL_WHY), *applied("label the nodes", forced, LABEL_WHY, force=True)]
    return [*first, *calls, *taints], said


def differs(wanted: Object, node: Object) -> bool:
    """Whether a part is missing, is another one, or is not wanted any more."""
    for part in PARTS:
        desired = wanted["metadata"].get(part) or {}
        there = owners.metadata(node, part)
        if owners.own_keys(node, part) != set(desired) or any(there.get(key) != value for key, value in desired.items()):
            return True
    return False


def conflict(wanted: Object, node: Object, m: Member) -> tuple[str, bool]:
    """Who keeps one of the labels at another value, where that one brings it back; and whether one has to be taken over."""
    force = False
    for part in PARTS:
        there = owners.metadata(node, part)
        for key, value in (wanted["metadata"].get(part) or {}).items():
            others = owners.other_owners(node, part, key) if there.get(key, value) != value else []
            keeper = next((who for who in others if who in owners.KEEPERS), "")
            if keeper:
                return keeper, False
            if others and key not in TAKEN_OVER:
                what = f"the node {m.node} has {key}={there[key]} from {others[0]}, and its group is {value}"
                if part == "annotations":  # of which one is a whole decision
                    what = f"the node {m.node} has the annotation {key} from {others[0]}, and it is not what the host's decision is"
                step = f"Remove it (kubectl {VERBS[part]} node {m.node} {key}-) and run again, or leave this host out"
                raise PlanError(what, why=f"this collection takes over no {part[:-1]} of somebody else", next=step)
            force = force or bool(others)
    return "", force


def with_taints(wanted: Object, node: Object, taints: Sequence[Mapping[str, str]]) -> tuple[Object, list[Call], list[Call]]:
    """The node with the note which taints are ours, and the patches of its taints, which are one list that all share.

    What goes comes before the note, what is new after it: a taint that no note names any more is never taken back.
    """
    ours = own_taints(node)  # as noted now: the note may be another one when a patch is made again
    mine, without, _after = shares(node, taints, ours)
    note = {objects.TAINTS: json.dumps(mine, sort_keys=True)} if mine else {}
    metadata = {**wanted["metadata"], "annotations": {**wanted["metadata"].get("annotations", {}), **note}}

    def going(now: Object) -> list[Call]:
        return patched(now, shares(now, taints, ours)[1], going)

    def coming(now: Object) -> list[Call]:
        return patched(now, shares(now, taints, ours)[2], coming)

    left = {**node, "spec": {**(node.get("spec") or {}), "taints": without or None}}
    return {**wanted, "metadata": metadata}, going(node), coming(left if going(node) else node)


def shares(
    node: Object, taints: Sequence[Mapping[str, str]], ours: Sequence[Mapping[str, str]]
) -> tuple[list[dict[str, str]], list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """What this collection is to have there, the node's list without what is not wanted any more, and its list with all that is wanted."""
    before = drain_kubernetes.taints(node)
    others = [t for t in before if not any(same_taint(t, o) for o in ours)]
    mine = [dict(t) for t in taints if not any(same_taint(t, other) for other in others)]
    return mine, [t for t in before if t in others or any(same_taint(t, m) for m in mine)], [*others, *mine]


def kept_taints(node: Object, taints: Sequence[Mapping[str, str]]) -> list[str]:
    """What is asked for and cannot be set, since somebody has set another value; a taint that is as it has to be is nobody's concern."""
    ours = own_taints(node)
    others = [t for t in drain_kubernetes.taints(node) if not any(same_taint(t, o) for o in ours)]
    pairs = ((t, o) for t in taints for o in others if same_taint(t, o) and (t.get("value") or "") != (o.get("value") or ""))
    return [
        f"the node {drain_kubernetes.name_of(node)} has the taint {escape.line(spelled(other))} from somebody else, which stays: "
        f"{spelled(wanted)} of gpufleet_kubernetes_taints is not set there"
        for wanted, other in pairs
    ]


def spelled(taint: Mapping[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def own_taints(node: Object) -> list[dict[str, str]]:
    if objects.TAINTS not in owners.own_keys(node, "annotations"):
        return []
    try:
        found = json.loads(owners.metadata(node, "annotations").get(objects.TAINTS, ""))
    except ValueError:
        return []
    return [t for t in found if isinstance(t, dict)] if isinstance(found, list) else []


def same_taint(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """A node has one taint of a key and an effect."""
    return (one.get("key"), one.get("effect")) == (other.get("key"), other.get("effect"))


def patched(node: Object, after: Sequence[Mapping[str, Any]], again: Callable[[Object], list[Call]]) -> list[Call]:
    name, before = drain_kubernetes.name_of(node), drain_kubernetes.taints(node)
    if sorted(map(str, before)) == sorted(map(str, after)):
        return []
    value = [dict(t) for t in after] or None
    patch = [
        {"op": "test", "path": "/spec/taints", "value": (node.get("spec") or {}).get("taints")},
        {"op": "add", "path": "/spec/taints", "value": value},
    ]
    why = "gpufleet_kubernetes_taints"
    what = Difference("object", f"Node {name}", "spec.taints", list(map(dict, before)), list(map(dict, after)), why)
    arguments = {"api_version": "v1", "kind": "Node", "name": name, "patch": patch}
    change = (f"Node {name}", {"taints": [dict(t) for t in before]}, {"taints": [dict(t) for t in after]})
    return [Call(f"taint the node {name}", "k8s_json_patch", arguments, (what,), (change,), again)]


def released(nodes: Iterable[Object]) -> list[Call]:
    """Nodes without what this collection has written there."""
    ours = [node for node in nodes if any(owners.own_keys(node, part) for part in PARTS)]
    taints = [call for node in ours for call in with_taints(bare(node), node, ())[1]]  # nothing is wanted, so nothing is new
    return [*taints, *applied("take the labels from the nodes", [(bare(node), node) for node in ours], "it is no node with GPUs any more")]


def bare(node: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": drain_kubernetes.name_of(node)}}


# ---------------------------------------------------------------- whole objects


def named_after(live: Live, calls: Iterable[Call]) -> set[str]:
    """The configurations that nodes name once these calls are done, whoever has set their labels."""
    done = {
        node["metadata"]["name"]: (node["metadata"].get("labels") or {}).get(objects.CONFIG_LABEL, "")
        for call in calls
        if call.module == "k8s"
        for node in call.arguments["resource_definition"]
    }
    found = set()
    for name, node in live.nodes.items():
        alone = name in done and (done[name] or not owners.other_owners(node, "labels", objects.CONFIG_LABEL))
        found.add(done[name] if alone else owners.metadata(node, "labels").get(objects.CONFIG_LABEL, ""))
    return found


def of_config_map(rendered: Rendered, live: Live, settings: Settings, named: Collection[str]) -> tuple[list[Call], list[Call], list[str]]:
    """What comes before the labels, and what goes after them: a configuration goes when no node names it any more."""
    there, wanted = live.config_map, rendered.config_map
    if there is not None and not owners.is_ours(there):
        said = f"the ConfigMap {settings.place}/{settings.config_map} is kept by {owners.owner(there)}: it is only rendered"
        return [], [], [said] if wanted else []
    before: Mapping[str, str] = (there or {}).get("data") or {}
    after = {**{key: text for key, text in before.items() if key in named}, **((wanted or {}).get("data") or {})}
    if not after:
        return [], [deleted(there, "no node has GPUs any more")] if there else [], []
    wanted = objects.config_map(after, settings)
    whole = {**wanted, "data": dict(sorted({**before, **after}.items()))}
    first = of_object("write the ConfigMap", whole, there, "the device plugin reads how pods get their GPUs", "data")
    last = of_object("write the ConfigMap", wanted, whole, "no node is of that group any more", "data") if set(before) - set(after) else []
    return first, last, []


def of_classes(rendered: Rendered, live: Live) -> tuple[list[Call], list[Call], list[str]]:
    made, said = [], []
    wanted = {c["metadata"]["name"]: c for c in rendered.classes}
    for name, one in wanted.items():
        there = live.classes.get(name)
        if there is None or owners.is_ours(there):
            made += of_object(f"write the RuntimeClass {name}", one, there, "pods can name this handler", "handler", "scheduling")
        elif there.get("handler") == one["handler"]:
            said.append(f"the RuntimeClass {name} is there already, from {owners.owner(there)}, and stays as it is")
        else:
            other = escape.line(str(there.get("handler")))
            said.append(
                f"the RuntimeClass {name} of {owners.owner(there)} names the handler {other}, not {one['handler']}: it is only rendered"
            )
    gone = [
        deleted(c, "no node has this handler any more") for n, c in sorted(live.classes.items()) if n not in wanted and owners.is_ours(c)
    ]
    return made, gone, said


def of_object(doing: str, wanted: Object, there: Object | None, why: str, *parts: str) -> list[Call]:
    before = {part: there.get(part) for part in parts} if there is not None else None
    after = {part: wanted.get(part) for part in parts}
    if before == after:
        return []
    what = Difference("object", named(wanted), ",".join(parts), summary(before), summary(after), why)
    return [Call(doing, "k8s", ssa([wanted]), (what,), ((named(wanted), before, after),))]


def of_namespace(settings: Settings) -> Call:
    """It is made where it is missing, so that the ConfigMap can be there before the chart is installed; it is never removed."""
    wanted = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": settings.place}}
    what = Difference("object", named(wanted), "", None, "present", "the ConfigMap is in this namespace")
    return Call(f"make the namespace {settings.place}", "k8s", ssa([wanted]), (what,), ((named(wanted), None, wanted),))


def deleted(thing: Object, why: str) -> Call:
    metadata = thing["metadata"]
    where = {"namespace": metadata["namespace"]} if metadata.get("namespace") else {}
    arguments = {"api_version": thing["apiVersion"], "kind": thing["kind"], "name": metadata["name"], "state": "absent", **where}
    what = Difference("object", named(thing), "", "present", None, why)
    return Call(f"remove the {named(thing)}", "k8s", arguments, (what,), ((named(thing), shown(thing), None),))


def applied(doing: str, pairs: Sequence[tuple[Object, Object]], why: str, *, force: bool = False) -> list[Call]:
    """Nodes in calls of so many. With its uid, a node that is gone meanwhile is not made by it."""
    calls = []
    for start in range(0, len(pairs), BATCH):
        some = pairs[start : start + BATCH]
        wanted = [{**node, "metadata": {**node["metadata"], "uid": there["metadata"].get("uid")}} for node, there in some]
        changes = tuple((named(node), own_part(there), part_of(node)) for node, there in some)
        differences = tuple(Difference("object", path, *parts(before, after), why) for path, before, after in changes)
        calls.append(Call(doing, "k8s", ssa(wanted, force=force), differences, changes))
    return calls


def ssa(wanted: Sequence[Object], *, force: bool = False) -> dict[str, Any]:
    manager = {"field_manager": objects.MANAGER, "force_conflicts": force}
    return {"resource_definition": list(wanted), "apply": True, "server_side_apply": manager}


# ---------------------------------------------------------------- as people read it


def named(thing: Object) -> str:
    metadata = thing["metadata"]
    return f"{thing['kind']} {metadata['namespace'] + '/' if metadata.get('namespace') else ''}{metadata['name']}"


def own_part(node: Object) -> dict[str, Any]:
    """What of a node's labels and annotations is ours."""
    return {part: {k: v for k, v in sorted(owners.metadata(node, part).items()) if k in owners.own_keys(node, part)} for part in PARTS}


def part_of(node: Object) -> dict[str, Any]:
    return {part: dict(sorted((node["metadata"].get(part) or {}).items())) for part in PARTS}


def parts(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, str | None, str | None]:
    """The labels as they are and will be; where these stay, that an annotation, of which one is a whole decision, is another one."""
    if labels(before) != labels(after):
        return "labels", labels(before), labels(after)
    was, will = before["annotations"], after["annotations"]
    there = [f"{key} (another value)" if key in will else key for key in was if will.get(key) != was[key]]
    return "annotations", ", ".join(there) or None, ", ".join(key for key in will if was.get(key) != will[key]) or None


def labels(part: Mapping[str, Any]) -> str | None:
    return ", ".join(f"{key}={value}" for key, value in part["labels"].items()) or None


def shown(thing: Object) -> dict[str, Any]:
    return {key: value for key, value in thing.items() if key not in ("metadata", "status")}


def summary(part: Mapping[str, Any] | None) -> Any:
    """The keys of a ConfigMap, the values of anything else."""
    if part is None:
        return None
    return ", ".join(part["data"] or ()) if "data" in part else {key: value for key, value in part.items() if value is not None}
