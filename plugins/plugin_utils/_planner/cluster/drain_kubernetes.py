# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a Kubernetes node and its pods: who drains it, what still runs, and the patches that hold
and release it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    api_shapes,
    drain_messages,
    other_owners,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.drain import (
    OutOfReach,
    Standing,
    count_with_names,
    get_drain_text,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

ROLLOUT = "gpufleet.nvidia/rollout"  # the annotation with the rollout's id, and the taint's key
WHY = "gpufleet.nvidia/why"
HELD = "gpufleet.nvidia/hold"  # cordon or taint
EFFECT = "NoSchedule"
GPU_RESOURCE = "nvidia.com/"
MIRROR = "kubernetes.io/config.mirror"
ENDED = ("Succeeded", "Failed")
# API-initiated eviction: a disruption budget answers 429 with this sentence. A budget that is being
# judged answers 429, too.
BUDGET = re.compile(r"disruption budget|Too Many Requests|TooManyRequests", re.IGNORECASE)
# A patch whose `test` fails ends with 422 and with this sentence alone: the API does not pass on
# the library's message (apiserver's handlers/patch.go, NewGenericServerResponse). A wrong value has
# a sentence of its own.
CONFLICT = re.compile(
    r'"code": ?409\b|the object has been modified|testing (value|path) \S+ failed|rejected our request due to an error in our request'
)
# Server-side apply: another field manager has set a field to another value.
TAKEN = re.compile(r'Apply failed with .*?conflicts? with "([^"]+)"', re.DOTALL)
ENDING = re.compile(
    r"unable to create new content in namespace (\S+) because it is being terminated"
)
# Owners of the cluster may stop changes with a webhook, or a policy that the API itself evaluates
# (apiserver/pkg/admission/plugin).
WEBHOOK_FAILED = re.compile(r'failed calling (?:admission )?webhook "([^"]+)"')
DENIED = re.compile(
    r"""(admission webhook "[^"]+"|ValidatingAdmissionPolicy '[^']+').{0,300}? denied (?:the )?request""",
    re.DOTALL,
)
STATUS = re.compile(r'\{"kind": ?"Status".*\}', re.DOTALL)
NO_LIBRARY = re.compile(r"Failed to import the required Python library \(kubernetes\)")
UNREACHABLE = re.compile(
    r"Max retries exceeded|Connection refused|timed out|Name or service not known", re.IGNORECASE
)
NO_CONFIG = re.compile(
    r"Invalid kube-config file|No configuration found|Failed to load kubeconfig|context .* not found|Expected object with name"
)
# of kubernetes-client: there is no file, or an empty one
NO_FILE = re.compile(r"Invalid kube-config file\. No configuration found")
CERTIFICATE = re.compile(r"CERTIFICATE_VERIFY_FAILED[^)]*")
# The last line of a traceback.
ENDING_ERROR = re.compile(r"[\w.]+(Error|Exception)\b")
LONGEST_MESSAGE = 1 << 14  # characters; the API's own messages have some hundred
Patch = list[dict[str, Any]]  # RFC 6902
ACCESS = "gpufleet_kubernetes_kubeconfig and gpufleet_kubernetes_context"


def list_api_objects(resources: Iterable[Any], doing: str) -> list[dict[str, Any]]:
    """Return the objects that the API listed.

    Raise PlanError for one without a name or without the shape of Kubernetes' objects. A proxy, for
    example, may answer anything.
    """
    objects = list(resources)
    for one in objects:
        wrong = api_shapes.find_wrong_part(one)
        if wrong:
            raise PlanError(drain_messages.ODD_OBJECT.fill(doing=doing, part=wrong))
        if not name_of(one):
            raise PlanError(drain_messages.NAMELESS_OBJECT.fill(doing=doing))
    return [dict(r) for r in objects]


def marks_of(node: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations of a node."""
    return (node.get("metadata") or {}).get("annotations") or {}


def list_node_taints(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return copies of a node's taints."""
    return [dict(taint) for taint in (node.get("spec") or {}).get("taints") or ()]


def is_cordoned(node: Mapping[str, Any]) -> bool:
    """Tell whether the scheduler gives the node no further pods."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def _is_our_taint(taint: Mapping[str, Any]) -> bool:
    return taint.get("key") == ROLLOUT


def name_of(node: Mapping[str, Any]) -> str:
    """Return the name of an object; '' if it has none."""
    return str((node.get("metadata") or {}).get("name") or "")


def explain_not_ready(node: Mapping[str, Any]) -> str:
    """Explain why the node does not work, '' if its kubelet reports that it is Ready."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready: Mapping[str, Any] = next((c for c in conditions if c.get("type") == "Ready"), {})
    if ready.get("status") == "True":
        return ""
    return str(ready.get("reason") or "") or drain_messages.KUBELET_UNREPORTED.fill()


def find_node_holder(node: Mapping[str, Any], rollout: str) -> str:
    """Tell who holds the node, whether or not it works: `in_service`, `held` (by this rollout) or
    `others`.

    A mark without a cordon or a taint holds nothing: a person has put the node back into service by
    hand.
    """
    held = is_cordoned(node) or any(_is_our_taint(t) for t in list_node_taints(node))
    return (
        "in_service"
        if not held
        else "held"
        if marks_of(node).get(ROLLOUT, "") == rollout
        else "others"
    )


def judge_kubernetes_standing(node: Mapping[str, Any], rollout: str) -> Standing:
    """Return how a node stands: in service, held by this rollout, in other hands, or broken.

    rollout: the id by which this rollout marks nodes.
    """
    name, mark = name_of(node), marks_of(node).get(ROLLOUT, "")
    broken, claimed = explain_not_ready(node), other_owners.find_other_owner(node)
    if broken:
        text = drain_messages.NOT_READY.fill(node=name, cause=broken)
        return Standing("broken", text, name, claimed)
    held = find_node_holder(node, rollout)
    if held == "held":
        return Standing("held", drain_messages.HELD_HERE.fill(node=name), name, claimed)
    if held == "others" and mark:
        text = drain_messages.HELD_BY_ROLLOUT.fill(node=name, rollout=mark)
        return Standing("others", text, name, claimed)
    if held == "others":
        text = drain_messages.CORDONED_BY_OTHERS.fill(node=name)
        return Standing("others", text, name, claimed)
    return Standing("in_service", "", name, claimed)


def require_same_machine(node: Mapping[str, Any], boot_id: str) -> None:
    """Raise PlanError if the node has another boot id than the host.

    A node of the same name in another cluster is another machine.
    """
    known = str(((node.get("status") or {}).get("nodeInfo") or {}).get("bootID") or "")
    if boot_id and known and known != boot_id:
        row = drain_messages.OTHER_MACHINE
        raise PlanError(row.fill(node=name_of(node), known=known, boot_id=boot_id))


def hold(node: Mapping[str, Any], rollout: str, why: str, how: str) -> Patch:
    """Build the patch that marks and holds a node in one step, so that every hold has its mark.

    The API takes it only if people and controllers have not changed the node meanwhile.
    """
    marks = {ROLLOUT: rollout, WHY: get_drain_text("", why), HELD: how}
    if how == "cordon":
        return build_node_patch(node, marks, {"unschedulable": True})
    mine = {"key": ROLLOUT, "value": rollout, "effect": EFFECT}
    return build_node_patch(
        node,
        marks,
        {"taints": [*(t for t in list_node_taints(node) if not _is_our_taint(t)), mine]},
    )


def find_hold_method(node: Mapping[str, Any]) -> str:
    """Return how a run of this collection holds the node: `cordon` or `taint`."""
    return marks_of(node).get(HELD, "cordon")


def release(node: Mapping[str, Any]) -> Patch:
    """Build the patch that takes back what this collection did, and nothing else.

    A node that was tainted here and cordoned by someone else since stays cordoned.
    """
    marks = dict.fromkeys((ROLLOUT, WHY, HELD))
    spec: dict[str, Any] = {}
    if find_hold_method(node) == "cordon":
        spec["unschedulable"] = None
    if any(_is_our_taint(t) for t in list_node_taints(node)):
        spec["taints"] = [t for t in list_node_taints(node) if not _is_our_taint(t)] or None
    return build_node_patch(node, marks, spec)


def patch_node_reason(node: Mapping[str, Any], why: str) -> Patch:
    """Return the patch that notes on a node why it stays out of service."""
    return build_node_patch(node, {WHY: get_drain_text("", why)}, {})


def build_node_patch(
    node: Mapping[str, Any], marks: Mapping[str, str | None], spec: Mapping[str, Any]
) -> Patch:
    """Build a JSON patch that the API takes only if what people and controllers set on the node is
    as it was read.

    It does not compare metadata.resourceVersion: each report of the kubelet raises that, for some
    kubelets every few seconds, and no decision here depends on the status. The API compares a value
    that is not there with null (json-patch v4, `test`).
    """
    metadata, before = node.get("metadata") or {}, node.get("spec") or {}
    parts = {
        "/metadata/labels": metadata.get("labels"),
        "/metadata/annotations": metadata.get("annotations"),
        "/spec": node.get("spec"),
    }
    tests = [{"op": "test", "path": path, "value": value} for path, value in parts.items()]
    wanted = {
        "/metadata/annotations": update_values(marks_of(node), marks),
        "/spec": update_values(before, spec),
    }
    return [
        *tests,
        *(
            {"op": "add", "path": path, "value": value}
            for path, value in wanted.items()
            if value != (parts[path] or {})
        ),
    ]


def update_values(values: Mapping[str, Any], by: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values updated with others. None removes a value."""
    return {key: value for key, value in {**values, **by}.items() if value is not None}


def is_left_by_drain(pod: Mapping[str, Any]) -> bool:
    """Tell whether a drain leaves the pod: it is one of the node itself, one of a DaemonSet, or has
    ended.
    """
    metadata = pod.get("metadata") or {}
    owners = {owner.get("kind") for owner in metadata.get("ownerReferences") or ()}
    ended = (pod.get("status") or {}).get("phase") in ENDED
    return ended or "DaemonSet" in owners or MIRROR in (metadata.get("annotations") or {})


def uses_gpus(pod: Mapping[str, Any]) -> bool:
    """Tell whether a pod uses GPUs, by the device plugin's resources or by a claim (dynamic
    resource allocation).

    Any claim counts, since a pod does not name the claim's driver.
    """
    spec = pod.get("spec") or {}
    if spec.get("resourceClaims"):
        return True
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return any(
        str(resource).startswith(GPU_RESOURCE) and str(amount) != "0"
        for container in containers
        for amounts in (container.get("resources") or {}).values()
        if isinstance(amounts, Mapping)
        for resource, amount in amounts.items()
    )


def list_drained_pods(pods: Iterable[Mapping[str, Any]], method: str) -> list[str]:
    """List the pods that a drain waits for, as namespace/name: those with GPUs, and with `evict`
    all that can go.
    """
    drained_pods = [
        p for p in pods if not is_left_by_drain(p) and (method == "evict" or uses_gpus(p))
    ]
    return sorted(
        f"{(p.get('metadata') or {}).get('namespace')}/{(p.get('metadata') or {}).get('name')}"
        for p in drained_pods
    )


def describe_waiting_pods(pods: Iterable[Mapping[str, Any]], method: str) -> str:
    """Return the pods that a drain waits for, in words; '' if there are none.

    method: the option of this name.
    """
    drained = list_drained_pods(pods, method)
    return (
        ""
        if not drained
        else count_with_names(
            drained,
            "pod with GPUs" if method == "wait" else "pod",
            "pods with GPUs" if method == "wait" else "",
        )
    )


def get_api_message(result: Mapping[str, Any]) -> str:
    """Return the API's own sentence from a module's message, else the first line of the message."""
    text = str(result.get("msg") or "")
    match = STATUS.search(text)
    if match:
        try:
            return str(json.JSONDecoder().raw_decode(match[0])[0].get("message") or text)
        except ValueError:
            pass
    lines = text.strip().splitlines()
    return lines[0][:300] if lines else "no message"


def add_api_message(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result with a msg that names the error.

    If an exception ended the module, ansible-core has the error elsewhere: in the last line of the
    traceback. The msg is cut: what it says may be an API's, a webhook's or a proxy's, and is searched
    for many patterns.
    """
    ended = str(result.get("exception") or result.get("module_stderr") or "").strip().splitlines()
    known = str(result.get("msg") or "")[:LONGEST_MESSAGE]
    raised = [line.strip() for line in ended if ENDING_ERROR.match(line.strip())]
    more = [line[:LONGEST_MESSAGE] for line in raised[-1:]]
    return {
        **result,
        "msg": known
        if not more or more[0] in known or STATUS.search(known)
        else f"{more[0]} {known}".strip(),
    }


def is_api_conflict(result: Mapping[str, Any]) -> bool:
    """Tell whether the API has refused a change since the object is another one now."""
    return CONFLICT.search(str(result.get("msg") or "")) is not None


def is_refused_by_budget(result: Mapping[str, Any]) -> bool:
    """Tell whether the API has refused an eviction because of a PodDisruptionBudget."""
    return BUDGET.search(str(result.get("msg") or "")) is not None


def build_api_error(
    result: Mapping[str, Any],
    doing: str,
    delegate: str = "gpufleet_drain_delegate",
    rights: str = "docs/drain.md",
) -> PlanError:
    """Build one error from a module's failure, which names the setting to check.

    delegate: the variable for the machine where the task runs.
    """
    said, text = get_api_message(result), str(result.get("msg") or "")
    for error in (
        _build_admission_error(doing, said),
        _build_transport_error(doing, said, text, delegate),
        _build_conflict_error(doing, said, text),
    ):
        if error:
            return error
    if "Forbidden" in text or "forbidden" in text:
        return PlanError(drain_messages.FORBIDDEN.fill(doing=doing, cause=said, rights=rights))
    if "Unauthorized" in text:
        return PlanError(drain_messages.UNAUTHORIZED.fill(doing=doing))
    return PlanError(drain_messages.API_FAILED.fill(doing=doing, cause=said))


def _build_admission_error(doing: str, said: str) -> PlanError | None:
    """Build the error of a webhook or policy that stopped the request, None if none did.

    This is judged before all else. A webhook fails in the words of a connection, which is not the
    one to the API, and a policy uses the words of missing rights.
    """
    failed, denied = WEBHOOK_FAILED.search(said), DENIED.search(said)
    if failed:
        row = drain_messages.WEBHOOK_FAILED
        return PlanError(row.fill(doing=doing, cause=said, webhook=failed[1]))
    if denied:
        row = drain_messages.ADMISSION_DENIED
        return PlanError(row.fill(doing=doing, cause=said, policy=denied[1]))
    return None


def _build_transport_error(doing: str, said: str, text: str, delegate: str) -> PlanError | None:
    """Build the error of a request that failed before the API judged it, None for any other."""
    if NO_LIBRARY.search(text):
        return PlanError(drain_messages.NO_LIBRARY.fill(doing=doing, delegate=delegate))
    certificate = CERTIFICATE.search(text)
    if certificate:
        cause = certificate[0][:200]
        return PlanError(drain_messages.CERTIFICATE.fill(doing=doing, cause=cause))
    if UNREACHABLE.search(text):
        return OutOfReach(drain_messages.NO_API.fill(doing=doing))
    if NO_CONFIG.search(text):
        if NO_FILE.search(text):
            return PlanError(drain_messages.NO_KUBECONFIG.fill(doing=doing, delegate=delegate))
        row = drain_messages.KUBECONFIG
        return PlanError(row.fill(doing=doing, cause=said, delegate=delegate))
    return None


def _build_conflict_error(doing: str, said: str, text: str) -> PlanError | None:
    """Build the error of a request that other pods, field managers or an ending namespace stop,
    None for any other.
    """
    if text.startswith("Pod deletion errors"):
        return PlanError(drain_messages.PODS_STAY.fill(doing=doing, cause=said))
    taken, ending = (pattern.search(f"{said} {text}") for pattern in (TAKEN, ENDING))
    if taken:
        row = drain_messages.FIELD_TAKEN
        return PlanError(row.fill(doing=doing, cause=said, owner=taken[1]))
    if ending:  # which the API forbids, whatever the account may do
        row = drain_messages.NAMESPACE_ENDING
        return PlanError(row.fill(doing=doing, cause=said, namespace=ending[1]))
    return None
