# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a cluster's objects as files: one document in each, with the reason as comments.

Equal decisions give equal bytes. A file beside them is judged by its first line. If it begins with
ours, the file is written again or removed. Any other file is left alone.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    messages,
    objects,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.objects import (
    Kept,
    RenderedCluster,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import yaml_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Difference
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import escape

HEAD = "# Made by gpufleet.nvidia.kubernetes_objects."
CONFIG_MAP, VALUES, NODES, CLASS = "configmap.yaml", "helm/values.yaml", "nodes/", "runtimeclass-"
FOLDERS = ("helm", "nodes")
SETTING = "gpufleet_kubernetes_dir"
UNUSED = messages.FILE_NOT_NEEDED.fill()
# Deleting a Node ends its pods, and these tools delete what has left their source. A kubelet, not
# the file, has created the node. https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/,
# https://fluxcd.io/flux/components/kustomize/kustomizations/#prune
UNPRUNED = {
    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
}


@dc.dataclass(frozen=True)
class Changes:
    """The changes in a cluster's directory. texts: name -> text, or None for a file that is
    removed.
    """

    texts: Mapping[str, str | None]
    differences: tuple[Difference, ...]


def render_cluster_files(
    rendered: RenderedCluster, before: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the files of a cluster: name -> text.

    before: the files that exist already, if this run does not know all nodes. Values that count for
    all nodes stay then.
    """
    files = {}
    if rendered.config_map:
        files[CONFIG_MAP] = render_object_file(
            rendered.config_map, [messages.COMMENT_OF_PLUGIN.fill()]
        )
    for one in rendered.classes:
        name = one["metadata"]["name"]
        files[f"{CLASS}{name}.yaml"] = render_object_file(one, [explain_runtime_class(one)])
    hosts = {m.node: m for m in rendered.members}
    for one in rendered.nodes:
        name = one["metadata"]["name"]
        why = [
            messages.COMMENT_OF_HOST.fill(host=hosts[name].host, cause=hosts[name].why),
            messages.COMMENT_OF_NODE.fill(),
            *comment_taint_command(name, rendered),
        ]
        files[f"{NODES}{name}.yaml"] = render_object_file(drop_null_fields(one), why)
    values = (before or {}).get(VALUES, "")
    if is_own_cluster_file(values):
        files[VALUES] = values
    elif rendered.values.values:
        files[VALUES] = render_object_file(dict(rendered.values.values), rendered.values.why)
    return dict(sorted(files.items()))


def drop_null_fields(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node for a file, which a `kubectl apply --prune` leaves in the cluster."""
    metadata = node["metadata"]
    return {
        **node,
        "metadata": {**metadata, "annotations": {**metadata["annotations"], **UNPRUNED}},
    }


def comment_taint_command(node: str, rendered: RenderedCluster) -> list[str]:
    """Return the comment with the command that sets a node's taints; [] without taints.

    For the API the taints of a node are one list. Applied from a file, they would replace the
    taints of all others.
    """
    said = [
        f"{t['key']}{'=' + t['value'] if 'value' in t else ''}:{t['effect']}"
        for t in rendered.taints
    ]
    return [messages.COMMENT_OF_TAINTS.fill(node=node, taints=" ".join(said))] if said else []


def explain_runtime_class(runtime_class: Mapping[str, Any]) -> str:
    """Return the comment about which hosts have the handler of a RuntimeClass."""
    some = "scheduling" in runtime_class
    return (messages.COMMENT_OF_SOME if some else messages.COMMENT_OF_ALL).fill()


def render_object_file(document: Mapping[str, Any], why: Iterable[str]) -> str:
    """Return the text of a file with one object, with its reasons as comments."""
    comments = [HEAD, *(f"# {escape.escape_line(end_with_code(line))}" for line in why if line)]
    return "\n".join([*comments, dump_object(dict(document))])


def dump_object(value: Any) -> str:
    """Return a value as YAML, with its keys in their order."""
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, width=10_000)


class Dumper(yaml.SafeDumper):
    """A YAML dumper that keeps a text of several lines, as the plugin's file is, readable."""


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", value, style="|" if "\n" in value else None
    )


Dumper.add_representer(str, _represent_text)


def is_own_cluster_file(content: str) -> bool:
    """Tell whether this collection has written a file with this content."""
    return content.startswith(HEAD)


def read_kept_files(before: Mapping[str, str], known: Iterable[str], where: str) -> Kept:
    """Return what the files of an earlier run contain about nodes that this run knows nothing of.

    known: nodes that this run has judged.
    """
    labels, judged = {}, set(known)
    for name, content in before.items():
        node = name.removeprefix(NODES).removesuffix(".yaml")
        if name.startswith(NODES) and is_own_cluster_file(content) and node not in judged:
            table = parse_file_table(content, f"{where}/{name}", "metadata", "labels")
            labels[node] = {str(k): str(v) for k, v in table.items()}
    data: Mapping[str, Any] = {}
    if labels and is_own_cluster_file(before.get(CONFIG_MAP, "")):
        data = parse_file_table(before[CONFIG_MAP], f"{where}/{CONFIG_MAP}", "data")
    return Kept(labels, {str(k): str(v) for k, v in data.items()})


def parse_file_table(content: str, where: str, *keys: str) -> dict[str, Any]:
    """Return a table of a file; {} if the file has no such key.

    Raise PlanError if the file cannot be read.
    """
    try:
        table = yaml_text.read_bounded_yaml(content)
    except yaml_text.YamlError as error:
        message = messages.FILE_UNREADABLE.fill(cause=error.problem)
        raise PlanError(message, where=where, line=error.line) from None
    for key in keys:
        table = table.get(key) or {} if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise PlanError(messages.FILE_WITHOUT_TABLE.fill(), where=where)
    return table


def compare_cluster_files(
    wanted: Mapping[str, str],
    before: Mapping[str, str],
    stays: Iterable[str],
    where: str,
    exposed: Iterable[str] = (),
    gone: str = UNUSED,
) -> Changes:
    """Compare the wanted files with the files that exist, and return what changes.

    stays: nodes that this run knows nothing of, whose files stay.
    exposed: files that other users can read but should not. They are written again.
    gone: the reason why a file is removed.

    Raise PlanError if a foreign file has the name of a wanted one.
    """
    foreign = next(
        (name for name in wanted if name in before and not is_own_cluster_file(before[name])), ""
    )
    if foreign:
        raise PlanError(messages.FOREIGN_FILE.fill(), where=f"{where}/{foreign}")
    keeps = {f"{NODES}{name}.yaml" for name in stays}
    going = [
        name
        for name, content in before.items()
        if is_own_cluster_file(content) and name not in wanted and name not in keeps
    ]
    texts: dict[str, str | None] = {
        name: content for name, content in wanted.items() if before.get(name) != content
    }
    texts.update(dict.fromkeys(going))
    differences = [
        build_file_difference(name, new, before.get(name), where, gone)
        for name, new in sorted(texts.items())
    ]
    open_ones = {name: wanted[name] for name in sorted(set(exposed) & set(wanted) - set(texts))}
    private = messages.FILE_IS_PRIVATE.fill()
    differences += [
        Difference("file", f"{where}/{name}", "mode", "readable by others", "0600", private)
        for name in open_ones
    ]
    return Changes({**texts, **open_ones}, tuple(differences))


def build_file_difference(
    name: str, new: str | None, old: str | None, where: str, gone: str
) -> Difference:
    """Return the difference of one file.

    new, old: its texts, None if it is missing. where: its directory. gone: why a file is removed.
    """
    if new is None:
        return Difference("file", f"{where}/{name}", "", "present", "absent", gone)
    after = "changed" if old is not None else "present"
    return Difference(
        "file",
        f"{where}/{name}",
        "",
        "present" if old is not None else "absent",
        after,
        explain_file(name),
    )


def explain_file(name: str) -> str:
    """Return why a file is there."""
    if name == CONFIG_MAP:
        return messages.FILE_OF_PLUGIN.fill()
    if name == VALUES:
        return messages.FILE_OF_CHART.fill()
    if name.startswith(NODES):
        return messages.FILE_OF_NODE.fill(label=objects.CONFIG_LABEL)
    return messages.HANDLER_NAMED.fill()
