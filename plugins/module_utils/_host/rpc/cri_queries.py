# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a container runtime for a look, and select what may leave the host. Host side: standard
library only, Python 3.6.
"""

import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import cri
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc.grpc_wire import (
    CriError,
    decode_fields,
    get_string_field,
    list_field_values,
)

HOSTS_NAMESPACE = 2  # enum NamespaceMode of api.proto: NODE
DRIVERS = {0: "systemd", 1: "cgroupfs"}  # enum CgroupDriver


def select_status(found, keep):
    """Return what may leave the host of a status: flags, names, and the listed parts of the
    configuration.

    The sentences stay: they quote.
    """
    conditions = [
        dict(
            {
                key: selection.show_value_in_shape("name", condition[key])
                for key in ("type", "reason")
            },
            status=condition["status"],
        )
        for condition in found["conditions"]
    ]
    runtime = {condition["type"]: condition["status"] for condition in conditions}
    handlers = [selection.show_value_in_shape("name", name) for name in found["handlers"]]
    return dict(
        found,
        conditions=conditions,
        runtime=runtime,
        handlers=handlers,
        info=selection.select(found["info"], keep),
    )


def read_runtime_config(path, timeout=5):
    """Return {"driver": the control group driver that the runtime reports}. It is "" for a runtime
    that does not know the question.
    """
    try:
        _service, fields = cri.ask_cri(path, "RuntimeConfig", [], timeout)
    except CriError as exc:
        if exc.code != cri.UNIMPLEMENTED:
            raise
        return {"driver": ""}
    drivers = [
        (list_field_values(decode_fields(linux), 1) or [0])[-1]
        for linux in list_field_values(fields, 1)
    ]
    return {"driver": DRIVERS.get(drivers[-1], "") if drivers else ""}


def list_ready_pods(path, handlers, annotation="", timeout=5):
    """Return the names of the ready pods that were started with one of these handlers, and nothing
    about any other pod.

    annotation: the key under which a runtime keeps the handler, which its list of pods lacks, in
    the specification of a pod's first process.
    """
    deadline = time.monotonic() + timeout
    _service, fields = cri.ask_cri(path, "ListPodSandbox", [], timeout)
    pods = []
    for pod in [decode_fields(value) for value in list_field_values(fields, 1)]:
        ready = not (list_field_values(pod, 3) or [0])[-1]  # state 0
        if (
            ready
            and (
                get_string_field(pod, 7)
                or _get_pod_handler(path, get_string_field(pod, 1), annotation, deadline)
            )
            in handlers
        ):
            metadata = decode_fields((list_field_values(pod, 2) or [b""])[-1])
            pods.append(
                "/".join(
                    selection.show_value_in_shape("name", get_string_field(metadata, field))
                    for field in (3, 1)
                )
            )
    return {"pods": sorted(pods)}


def count_sandboxes(path, handlers, prefixes=(), annotation="", timeout=5, uids=()):
    """Count the pods, stopped ones too, by handler and by prefix of their name.

    The answer contains only counts for the handlers and prefixes that were asked for. The handler
    "" belongs to pods that name none and so have the default one. Any user of a cluster chooses
    names, so by prefix only pods count that may be in the host's PID namespace. uids: of pods. The
    answer tells of how many sandboxes of each it is known that they are not.
    """
    deadline = time.monotonic() + timeout
    _service, fields = cri.ask_cri(path, "ListPodSandbox", [], timeout)
    names, own = {}, dict.fromkeys(uids, 0)
    for pod in [decode_fields(value) for value in list_field_values(fields, 1)]:
        used = get_string_field(pod, 7) or (
            _get_pod_handler(path, get_string_field(pod, 1), annotation, deadline)
            if handlers
            else ""
        )
        if used is None:  # removed meanwhile
            continue
        metadata = decode_fields((list_field_values(pod, 2) or [b""])[-1])
        name, uid = get_string_field(metadata, 1), get_string_field(metadata, 2)
        asked = name.startswith(tuple(prefixes)) or uid in own
        if asked and _has_own_pids(path, get_string_field(pod, 1), deadline):
            own[uid] = own.get(uid, 0) + 1
            name = ""
        names.setdefault(used, []).append(name)
    every = [name for of_handler in names.values() for name in of_handler]
    return {
        "handlers": {handler: len(names.get(handler, [])) for handler in [""] + list(handlers)},
        "named": {
            prefix: sum(1 for name in every if name.startswith(prefix)) for prefix in prefixes
        },
        "own_pids": {uid: own[uid] for uid in uids},
    }


def _has_own_pids(path, pod, deadline):
    """Tell whether a pod is known to be in another PID namespace than the host's. Only a pod to
    which the cluster's admission allows that is in the host's.
    """
    fields = _ask_for_status(path, pod, deadline, [])
    for place in (1, 6, 1, 2):  # status, linux, namespaces, options
        inner = list_field_values(fields, place) if fields else []
        if not inner:
            return False
        fields = decode_fields(inner[-1])
    return (list_field_values(fields, 2) or [0])[-1] != HOSTS_NAMESPACE


def _ask_for_status(path, pod, deadline, more):
    """Return the fields of a pod's status; None for a pod that was removed meanwhile."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise CriError(cri.DEADLINE, "%s: the pods were not all told in time" % path)
    try:
        return cri.ask_cri(path, "PodSandboxStatus", [(1, 2, pod), *more], left)[1]
    except CriError as exc:
        if exc.code != cri.NOT_FOUND:
            raise
        return None


def _get_pod_handler(path, pod, annotation, deadline):
    """Return the handler of a pod by its own status; '' if that is not reported, None for a pod
    that was removed meanwhile.
    """
    if not annotation:
        return ""
    fields = _ask_for_status(path, pod, deadline, [(2, 0, 1)])
    if fields is None:
        return None
    for value in list_field_values(fields, 2):
        info = cri.parse_cri_value(get_string_field(decode_fields(value), 2))
        spec = info.get("runtimeSpec") if isinstance(info, dict) else None
        noted = spec.get("annotations") if isinstance(spec, dict) else None
        if isinstance(noted, dict) and isinstance(noted.get(annotation), str):
            return noted[annotation]
    return ""
