# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the choices of a whole fleet: the table, the matrix, a few images for all hosts, and labels
for Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    escape,
    layout,
    names,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_hosts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    messages,
)

SCHEMA = 1
HEAD = ("HOST", "DRIVER", "GPUS", "CPU", "IMAGE", "WHY")
NONE = "none"
# the prefix: the name behind it may have the 63 characters that an image's name may have
LABEL = "images.gpufleet.nvidia"
CHOSEN, FITS, NOT = "chosen", "fits", "no"
COMMAND = "kubectl apply --server-side --field-manager=gpufleet.nvidia.images -f"


def list_image_lines(results: outcomes.Results, width: int) -> list[str]:
    """Build the lines of the table and the counts. Hosts without an image come first."""
    by_host = {host: build_image_row(result) for host, result in results.items()}
    order = sorted(
        by_host,
        key=lambda host: (
            by_host[host][3] != NONE and not outcomes.explain_trouble(results[host]),
            names.build_natural_key(host),
        ),
    )
    rows = [(host, by_host[host]) for host in order]
    shown = fleet_hosts.fold_equal_rows(rows)
    counted = [
        f"{len(results)} host{'s' if len(results) != 1 else ''}",
        *(f"{number} {word}" for word, number in count_image_hosts(results).items() if number),
    ]
    return [*layout.lay_out_table(HEAD, shown, width), "", ", ".join(counted)]


def build_image_row(result: outcomes.Result) -> tuple[str, ...]:
    """Return the cells of a host: driver, GPUs, CPU, image, and why."""
    facts = result.get("facts") or {}
    cells = (describe_image_driver(facts), describe_image_gpus(facts), describe_image_cpu(facts))
    trouble = outcomes.explain_trouble(result)
    if trouble and not result.get("choices"):
        return (*cells, trouble, fleet_hosts.explain_host_row(result, ""))
    chosen = [choice.get("chosen") or {} for choice in result.get("choices") or ()]
    if result.get("problem") or not chosen:
        return (*cells, NONE, str(result.get("problem") or "nothing was chosen"))
    return (
        *cells,
        ", ".join(dict.fromkeys(str(c["name"]) for c in chosen)),
        "; ".join(dict.fromkeys(map(explain_image_row, chosen))),
    )


def describe_image_driver(facts: Mapping[str, Any]) -> str:
    """Return the driver with its CUDA, in words; '-' if it is not known."""
    return f"{facts['driver']} (CUDA {facts.get('cuda') or '?'})" if facts.get("driver") else "-"


def describe_image_gpus(facts: Mapping[str, Any]) -> str:
    """Return the GPUs by model, in words; '-' if there are none."""
    counts: dict[str, int] = {}
    for gpu in facts.get("gpus") or ():
        model = str(gpu.get("model") or gpu.get("compute_capability") or "?").removeprefix(
            "NVIDIA "
        )
        counts[model] = counts.get(model, 0) + 1
    return ", ".join(f"{number}x {model}" for model, number in counts.items()) or "-"


def describe_image_cpu(facts: Mapping[str, Any]) -> str:
    """Return the level or the architecture of the CPU; '-' if it is not known."""
    own = facts.get("cpu") or {}
    return str(own.get("level") or own.get("arch") or "-")


CODE = {
    "native": "code for this GPU",
    "same-major": "code for an earlier GPU of its generation",
    "ptx": "PTX, which the driver compiles",
    "unstated": "its code is not stated",
}
SUPPORT = {"minor": ", by compatibility of minor versions", "forward": ", by a libcuda of its own"}


def explain_image_row(chosen: Mapping[str, Any]) -> str:
    """Return why an image was chosen: its code for the GPU, and its CUDA."""
    cuda = (
        f"; CUDA {chosen['cuda']}{SUPPORT.get(str(chosen.get('cuda_support')), '')}"
        if chosen.get("cuda")
        else ""
    )
    return CODE.get(str(chosen.get("code")), "") + cuda


def count_image_hosts(results: outcomes.Results) -> dict[str, int]:
    """Count the hosts that have an image, have none, need none since they have no GPU, or could not
    be looked at.
    """
    counts = dict.fromkeys(
        ("with an image", "without an image", "without a GPU", "not looked at"), 0
    )
    for result in results.values():
        if outcomes.explain_trouble(result) and not result.get("choices"):
            counts["not looked at"] += 1
        elif not result.get("problem") and result.get("choices"):
            counts["with an image"] += 1
        else:
            counts["without a GPU" if result.get("without_gpu") else "without an image"] += 1
    return counts


def explain_image_failure(results: outcomes.Results) -> str:
    """Explain why the run is not a success, '' if it is: an image is missing, or a host could not
    be looked at.
    """
    counts, whole = count_image_hosts(results), len(results)
    without, unseen = counts["without an image"], counts["not looked at"]
    if without and unseen:
        return messages.HOSTS_WITHOUT_AND_NOT_SEEN.fill(number=without, all=whole, unseen=unseen)
    if without:
        return messages.HOSTS_WITHOUT_IMAGE.fill(number=without, all=whole)
    return messages.HOSTS_NOT_SEEN.fill(number=unseen, all=whole) if unseen else ""


# ---------------------------------------------------------------- for programs


def build_images_document(results: outcomes.Results) -> dict[str, Any]:
    """Build images.json: the choices and facts of each host, the matrix, and a cover.

    The cover is a small set of images that serve all hosts which any image serves.
    """
    answers = {
        host: {key: result.get(key) for key in ("fits", "problem", "choices", "facts")}
        for host, result in results.items()
    }
    ordered = {host: answers[host] for host in sorted(answers, key=names.build_natural_key)}
    return {
        "schema": SCHEMA,
        "hosts": ordered,
        "matrix": build_image_matrix(results),
        "cover": list_covering_images(results),
        "totals": count_image_totals(results),
    }


def count_image_totals(results: outcomes.Results) -> dict[str, int]:
    """Count the hosts by what became of them, under the keys of the result."""
    return {
        "hosts": len(results),
        **{
            word.replace(" ", "_").lower(): number
            for word, number in count_image_hosts(results).items()
        },
    }


def build_image_matrix(results: outcomes.Results) -> dict[str, dict[str, str]]:
    """Map each image to its hosts, and each host to chosen, fits or no.

    If the GPUs of a host get an image each, the best state counts.
    """
    matrix: dict[str, dict[str, str]] = {}
    for host in sorted(results, key=names.build_natural_key):
        for choice in results[host].get("choices") or ():
            for name, state in list_image_states(choice):
                before = matrix.setdefault(name, {}).get(host, NOT)
                matrix[name][host] = min(before, state, key=(CHOSEN, FITS, NOT).index)
    return dict(sorted(matrix.items()))


def list_image_states(choice: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield each image of a choice with its state: chosen, fits, or not."""
    if choice.get("chosen"):
        yield str(choice["chosen"]["name"]), CHOSEN
    for other in choice.get("rejected") or ():
        yield str(other["name"]), FITS if other.get("fits") else NOT


def list_covering_images(results: outcomes.Results) -> list[str]:
    """List images so that each host that any image runs on can run one of them.

    The image for most hosts comes first, then the one for most of the hosts that are left.
    """
    runs = {
        name: {host for host, state in row.items() if state != NOT}
        for name, row in build_image_matrix(results).items()
    }
    left = set().union(*runs.values()) if runs else set()
    images = []
    while left:
        best = max(sorted(runs), key=lambda name: len(runs[name] & left))
        images.append(best)
        left -= runs[best]
    return images


# ---------------------------------------------------------------- for Kubernetes


def may_be_node(result: Mapping[str, Any]) -> bool:
    """Tell whether a host may be a Kubernetes node, by its engines.

    The answer is yes if nothing was decided yet on the host, or an engine is of a later release and
    not known here.
    """
    engines = {str(one.get("engine")) for one in (result.get("facts") or {}).get("engines") or ()}
    return not engines or any(
        name not in traits.TRAITS or traits.get_traits(name).kubernetes for name in engines
    )


def render_image_labels(results: outcomes.Results, nodes: Mapping[str, str]) -> str:
    """Build a document for each node with the images that run there and the one that was chosen.

    nodes: host -> its name in the cluster, for each host that has one. Applied, a document with a
    name that no node has would make a node.
    """
    labels: dict[str, dict[str, str]] = {
        host: {} for host, result in results.items() if result.get("choices") and host in nodes
    }
    require_own_nodes({host: nodes[host] for host in sorted(labels, key=names.build_natural_key)})
    for name, states_ in build_image_matrix(results).items():
        for host, state in states_.items():
            if state != NOT and host in labels:
                labels[host][f"{LABEL}/{name}"] = state
    documents = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": nodes[host], "labels": labels[host]},
        }
        for host in sorted(labels, key=names.build_natural_key)
    ]
    compare = "Applied, an object of a name that no node has would make that node; with kubectl diff --server-side it would be all new"
    away = "It also takes away labels that an earlier file has set"
    return write_image_documents(
        documents, [f"The nodes exist already: {COMMAND} this file", compare, away]
    )


def require_own_nodes(nodes: Mapping[str, str]) -> None:
    """Raise PlanError if two hosts have the same node.

    Two documents of one node would take each other's labels away.
    """
    owners: dict[str, str] = {}
    for host, node in nodes.items():
        other = owners.setdefault(node, host)
        if other != host:
            raise PlanError(messages.NODE_OF_TWO.fill(first=other, second=host, node=node))


def render_image_affinity(results: outcomes.Results) -> str:
    """Build the affinity of a pod for each image, so that it runs where the image does, and best
    where it was chosen.
    """
    documents = [
        {"image": name, "nodeAffinity": build_node_affinity(name)}
        for name in build_image_matrix(results)
    ]
    return write_image_documents(
        documents,
        [
            "Copy nodeAffinity to spec.affinity of the pod that runs the image; labels.yml, or that of the cluster, has the labels"
        ],
    )


def build_node_affinity(name: str) -> dict[str, Any]:
    """Build the affinity of pods to the nodes on which an image runs, first to the nodes that have
    chosen it.
    """
    key = f"{LABEL}/{name}"

    def term(values: Sequence[str]) -> dict[str, Any]:
        return {"matchExpressions": [{"key": key, "operator": "In", "values": [*values]}]}

    return {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [term((CHOSEN, FITS))]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "preference": term((CHOSEN,))}
        ],
    }


def write_image_documents(documents: Sequence[Mapping[str, Any]], comments: Sequence[str]) -> str:
    """Return documents as one text of YAML, with comments before them."""
    head = "".join(
        f"# {escape.escape_line(comment)}\n"
        for comment in ("Made by gpufleet.nvidia.fleet_image_report.", *comments)
    )
    return head + "".join(
        "---\n" + yaml.safe_dump(dict(document), sort_keys=False, width=1000)
        for document in documents
    )
