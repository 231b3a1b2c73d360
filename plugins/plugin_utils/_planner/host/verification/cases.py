# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cases that verify a host's decision: containers, and for each what it asks for, what it gets,
and what it is refused.

A container that asks for one GPU gets exactly its nodes, and one that asks for none gets none. A
container cannot open a node that it was not given, even if it makes the node itself: the device
cgroup returns EPERM, while an allowed node without a driver returns ENXIO.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping
from typing import Any, Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
    end_with_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Driver,
    HostDecision,
    Instance,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text.bounds import (
    shorten_text,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text.names import (
    show_few_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    verify as containerd_verify,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    device_plugin,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    toolkit_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    granted,
    messages,
    runtime_words,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification.told_paths import (
    DRIVER_FILE,
    DRIVER_NAME,
    FOLDER,
)

Expect = Literal["allowed", "refused", "optional"]
Way = Literal["variable", "mounts", "privileged"]

KIND = "nvidia.com/gpu"
LABEL = "gpufleet-check"
ENV = "NVIDIA_VISIBLE_DEVICES"
# config key accept-nvidia-visible-devices-as-volume-mounts
VOLUME_MOUNTS = "/var/run/nvidia-container-devices"
ENGINE_ANNOTATION = "cdi.k8s.io/gpufleet-check"
GPU_MAJOR, CONTROL_MINOR = 195, 255
CONTROL = "/dev/nvidiactl"
# Majors of these are dynamic, the host looks them up; the writer of the CDI spec decides which of
# them a container gets.
COMPANIONS = ("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
LISTED = "/dev/nvidia*"
# The runtime's own sign of a privileged container, with which the variable counts on strict hosts.
# One that is privileged in every way would get every node from the engine, which proves nothing.
PRIVILEGED = ["SYS_ADMIN"]
WHY_ONE, WHY_MIG = messages.ONE_GPU.fill(), messages.MIG_DEVICE_ALONE.fill()


@dc.dataclass(frozen=True)
class Ask:
    """A request of a container for devices, before the way of asking is chosen."""

    name: str
    minors: tuple[int, ...]
    ids: str  # as written in an environment variable: "0", "all"; "" = nothing
    why: str
    kind: str = KIND


def list_asks(gpus: tuple[SeenGpu, ...]) -> tuple[Ask, ...]:
    """Return the requests of a workload: one GPU, all of them if there are several, and none.

    On a host without GPUs, return only the request for none.
    """
    none = Ask("none", (), "", messages.NONE_REQUESTED.fill())
    if not gpus:
        return (none,)
    first = min(gpus, key=lambda g: (not g.migs, g.index))
    # A GPU in MIG mode is given away by its MIG devices only; `0:0` is the first of GPU 0.
    one = Ask(
        "one",
        (first.minor,),
        f"{first.index}:0" if first.migs else str(first.index),
        WHY_MIG if first.migs else WHY_ONE,
    )
    everything = Ask("all", tuple(g.minor for g in gpus), "all", messages.ALL_GPUS.fill())
    return (one, none) if len(gpus) == 1 else (one, everything, none)


def list_cases(
    host: HostDecision,
    instances: tuple[Instance, ...],
    driver: Driver,
    *,
    image: str,
    evidence_file: str = "",
    statuses: Mapping[str, Mapping[str, Any]] | None = None,
    fabric: tuple[str, ...] = (),
    more: tuple[Ask, ...] = (),
    nodes_of_all: frozenset[str] | None = None,
) -> list[dict[str, Any]]:
    """Return every case of a host, engine by engine.

    statuses: CRI status by socket, for the cgroup driver in force.
    fabric: nodes of NVSwitches and IMEX channels, which a container gets only if it asks for them.
    more: further requests to an engine that resolves devices itself.
    nodes_of_all: those that the spec gives with all GPUs, None if that is not known.
    """
    by_key = {i.key: i for i in instances}
    cases = []
    engines = [d.engine for d in host.decisions]
    for decision in host.decisions:
        subject = decision.engine if engines.count(decision.engine) == 1 else decision.instance
        instance = by_key[decision.instance]
        if (
            instance.cri or traits.get_traits(instance.engine).verification != "cri"
        ) and not instance.refusal:
            status = (statuses or {}).get(instance.socket, {})
            row = [
                granted.expect_granted_nodes(case, decision.injection, nodes_of_all)
                for case in _list_row_cases(host, decision, instance, driver.gpus, evidence_file)
            ]
            row += [
                _build_native_case(ask, instance, driver.gpus)
                for ask in more
                if decision.injection == "native-cdi"
            ]
            cases += [
                _finish_case(_drop_fabric(case, fabric), subject, decision, instance, status, image)
                for case in row
            ]
    return cases


def _choose_way(host: HostDecision) -> Way:
    """Return how an unprivileged container asks the NVIDIA runtime on this host.

    If it cannot, return the way of a container that counts as privileged.
    """
    if host.isolation == "compatible":
        return "variable"
    return "mounts" if toolkit_config.MOUNTS in host.plugin_strategies else "privileged"


def _list_row_cases(
    host: HostDecision,
    decision: Decision,
    instance: Instance,
    gpus: tuple[SeenGpu, ...],
    evidence_file: str,
) -> list[dict[str, Any]]:
    strict, way = host.isolation == "strict", _choose_way(host)
    if decision.injection == "native-cdi":
        handler = decision.handler if gpus else ""
        managed = (
            [_build_management_case(decision, gpus, strict)] if handler and instance.cri else []
        )
        runtime = [] if instance.cri or not handler else [_build_option_case(gpus, handler, way)]
        plugin = _build_plugin_cases(host, decision, gpus) if handler and instance.cri else []
        return (
            [_build_native_case(a, instance, gpus) for a in list_asks(gpus)]
            + managed
            + runtime
            + plugin
        )
    handler = "" if decision.default or not decision.handler else decision.handler
    record = evidence_file if decision.injection in ("legacy", "oci-hook") else ""
    cases = [_build_runtime_case(a, handler, gpus, way=way, record=record) for a in list_asks(gpus)]
    return cases + ([_build_refused_variable(handler, gpus, record)] if strict and gpus else [])


def _build_native_case(ask: Ask, instance: Instance, gpus: tuple[SeenGpu, ...]) -> dict[str, Any]:
    """Return a case that the engine resolves itself: by the CRI field, or by annotation if the
    engine is older than the field.
    """
    names = [f"{ask.kind}={ask.ids}"] if ask.ids else []
    case = {"name": ask.name, "why": ask.why, "handler": "", "nodes": _list_nodes(ask.minors, gpus)}
    if instance.cdi.cri_field:
        return {**case, "devices": names}
    return {**case, "annotations": {ENGINE_ANNOTATION: ",".join(names)} if names else {}}


def _build_runtime_case(
    ask: Ask, handler: str, gpus: tuple[SeenGpu, ...], *, way: Way, record: str
) -> dict[str, Any]:
    """Return a case in which the NVIDIA runtime or its hook answers the variable, or mounts if a
    device plugin asks by them.
    """
    case: dict[str, Any] = {
        "name": ask.name,
        "why": ask.why,
        "handler": handler,
        "nodes": _list_nodes(ask.minors, gpus, recorded=bool(record)),
    }
    if ask.ids and way == "mounts":
        case["mounts"] = [["/dev/null", f"{VOLUME_MOUNTS}/{ask.ids}"]]
    if ask.ids and way == "privileged":
        case["capabilities"] = PRIVILEGED
    if ask.ids:
        case["env"] = {ENV: VOLUME_MOUNTS if way == "mounts" else ask.ids}
    if record:
        wanted = [f"--device={re.escape(ask.ids)}(?![0-9])"] if ask.ids else []
        case["record"] = {
            "path": record,
            "shows": RECORD_SHOWS,
            **({"contains": wanted} if wanted else {"silent": True}),
        }
    return case


def _build_management_case(
    decision: Decision, gpus: tuple[SeenGpu, ...], strict: bool
) -> dict[str, Any]:
    """Return the case of a device plugin or monitoring agent: all GPUs through the handler, by
    RuntimeClass.
    """
    case: dict[str, Any] = {
        "name": "management",
        "why": messages.MANAGEMENT_CONTAINER.fill(handler=decision.handler),
        "handler": decision.handler,
        "env": {ENV: "all"},
        "nodes": _list_nodes(tuple(g.minor for g in gpus), gpus),
    }
    return {**case, "capabilities": PRIVILEGED} if strict else case


def _build_option_case(gpus: tuple[SeenGpu, ...], handler: str, way: Way) -> dict[str, Any]:
    """Return the case for Docker's other way, `docker run --runtime nvidia`."""
    all_gpus = Ask(
        "runtime", tuple(g.minor for g in gpus), "all", messages.BY_RUNTIME.fill(handler=handler)
    )
    return _build_runtime_case(all_gpus, handler, gpus, way=way, record="")


def _build_plugin_cases(
    host: HostDecision, decision: Decision, gpus: tuple[SeenGpu, ...]
) -> list[dict[str, Any]]:
    """Return the case of a pod that gets one GPU by the handler from a device plugin that does not
    use CDI; [] if there is no such plugin.

    The plugin's default names GPUs by UUID. A GPU with MIG devices is given away only by those.
    """
    # forced by a user who knows the plugin better
    assumed = host.plugin_source == "default" and host.isolation == "strict"
    if (
        assumed
        or not host.plugin_strategies
        or any(name in device_plugin.BY_CDI for name in host.plugin_strategies)
    ):
        return []
    one = list_asks(gpus)[0]
    whole = next((g.uuid for g in gpus if g.minor in one.minors and not g.migs), "")
    why = messages.BY_PLUGIN.fill(strategy=host.plugin_strategies[0], handler=decision.handler)
    asked = Ask("plugin", one.minors, whole or one.ids, why)
    way: Way = "variable" if "envvar" in host.plugin_strategies else "mounts"
    return [_build_runtime_case(asked, decision.handler, gpus, way=way, record="")]


def _build_refused_variable(handler: str, gpus: tuple[SeenGpu, ...], record: str) -> dict[str, Any]:
    case: dict[str, Any] = {
        "name": "isolation",
        "why": messages.ISOLATION.fill(),
        "handler": handler,
        "env": {ENV: "all"},
        "nodes": _list_nodes((), gpus),
    }
    return (
        {**case, "record": {"path": record, "silent": True, "shows": RECORD_SHOWS}}
        if record
        else case
    )


def _drop_fabric(case: dict[str, Any], fabric: tuple[str, ...]) -> dict[str, Any]:
    return {
        **case,
        "nodes": [*case["nodes"], *(_describe_node(path, None, "refused") for path in fabric)],
    }


def _list_nodes(
    minors: tuple[int, ...], gpus: tuple[SeenGpu, ...], *, recorded: bool = False
) -> list[dict[str, Any]]:
    """Return every NVIDIA node of the host with what is expected of it.

    recorded: a record proves the case, so nodes may be missing.
    """
    given: Expect = "optional" if recorded else "allowed"
    mixed = any(g.migs for g in gpus) and len(minors) > 1
    # Next to GPUs with MIG devices one without may be in MIG mode as well, and then `all` is
    # without it; only NVML knows.
    sure = [g.minor for g in gpus if g.minor in minors and (g.migs or not mixed)]
    wanted: dict[int, Expect] = {minor: given if minor in sure else "optional" for minor in minors}
    nodes = [
        _describe_node(
            f"/dev/nvidia{g.minor}", [GPU_MAJOR, g.minor], wanted.get(g.minor, "refused")
        )
        for g in gpus
    ]
    nodes.append(
        _describe_node(CONTROL, [GPU_MAJOR, CONTROL_MINOR], given if minors else "refused")
    )
    return nodes + [
        _describe_node(path, None, "optional" if minors else "refused") for path in COMPANIONS
    ]


def _describe_node(path: str, rdev: list[int] | None, expect: Expect) -> dict[str, Any]:
    return {"path": path, "rdev": rdev, "expect": expect}


def _finish_case(
    case: dict[str, Any],
    subject: str,
    decision: Decision,
    instance: Instance,
    status: Mapping[str, Any],
    image: str,
) -> dict[str, Any]:
    finished = {**case, **get_engine_way(case, decision.engine, instance.binary)}
    return {
        **finished,
        "name": f"{subject}: {case['name']}",
        "engine": decision.engine,
        "manager": instance.manager,
        "injection": decision.injection,
        "socket": instance.socket,
        "image": image,
        "list": LISTED,
        "cgroup_parent": containerd_verify.get_pod_cgroup_parent(status, case["handler"]),
    }


def get_engine_way(case: Mapping[str, Any], engine: str, binary: str) -> dict[str, Any]:
    """Return how a case is carried out if that is not by CRI; {} for CRI."""
    verification = traits.get_traits(engine).verification
    if verification == "api":
        return {"create": create(case)}
    return build_case_command(case, binary) if verification == "command" else {}


def build_case_command(case: Mapping[str, Any], binary: str) -> dict[str, Any]:
    """Return the command for an engine without a daemon, which is its own client. Its container is
    gone with it.

    The host adds the image and the shell.
    """
    devices = [f"--device={name}" for name in case.get("devices") or ()]
    fixed = [
        "--rm",
        "--pull=never",
        "--network=none",
        "--user=0",
        "--cap-add=MKNOD",
        "--entrypoint=",
        "--timeout=600",
    ]
    return {
        "run": [binary, "run", *fixed, f"--label={LABEL}=1", *devices],
        "image_there": [binary, "image", "exists"],
    }


def create(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the case as a request of Docker's API (POST /containers/create).

    The host adds the image and the command.
    """
    devices = [{"Driver": "cdi", "DeviceIDs": case["devices"]}] if case.get("devices") else []
    host: dict[str, Any] = {
        "NetworkMode": "none",
        "CapAdd": ["MKNOD", *(case.get("capabilities") or ())],
        "DeviceRequests": devices,
    }
    if case["handler"]:
        host["Runtime"] = case["handler"]
    if case.get("mounts"):
        host["Binds"] = [f"{source}:{target}:ro" for source, target in case["mounts"]]
    variables = [f"{name}={value}" for name, value in (case.get("env") or {}).items()]
    return {
        "User": "0",
        "Env": variables,
        "Labels": {LABEL: "1"},
        "NetworkDisabled": True,
        "HostConfig": host,
    }


# --- what to do when it is not as it should be
# --------------------------------------------------------------------------

# What of an engine's or a shell's words may be shown: these phrases. What stands around them stays
# on the host. Each repetition has an end: the host's program looks through 256 KiB of words that a
# container may have chosen, and its time grows with them and no faster.
PHRASES = (
    r"unresolvable CDI devices(?: [\w.-]{1,64}/[\w.-]{1,64}=[\w:.-]{0,128}\w)?",
    r"CDI support is explicitly disabled",
    r"could not select device driver \"cdi\"",
    r"(?i)unknown or invalid runtime name(?:: [\w.-]{1,128})?|unknown runtime specified(?: [\w.-]{1,128})?",
    r"no runtime for \"[\w.-]{0,128}\" is configured|failed to find runtime handler(?: [\w.-]{1,128})?",
    r"runtime handler \"?[\w.-]{0,128}\"? not supported",
    r"unknown service runtime\.v1\w{0,64}(?:\.\w{1,64})?",
    r"pinging container registry|failed to (?:resolve|do request|pull)|sandbox image",
    r"nvidia-container-cli(?:(?:\.real)?: (?:initialization|detection|device|requirement|ldcache|mount|nvml|container) error)?",
    r"nvidia-container-runtime-hook",
    r"(?:exec: )?\"?nvidia-container-runtime[\w.-]{0,64}\"?: (?:executable file not found|no such file or directory)",
    rf"(?:stat|exec) {FOLDER}nvidia-container-runtime[\w.-]{{0,64}}: no such file or directory",
    # runc and crun of a mount, the CDI library of a node, runtimes of a hook
    rf"(?:error mounting|cannot stat|mount) [\"`']{DRIVER_FILE}[\"`']?|(?:stat|open) {DRIVER_FILE}",
    rf"failed to stat CDI host device \"{DRIVER_FILE}\"",
    rf"(?:exec {FOLDER})?nvidia-(?:ctk|cdi-hook): no such file or directory",
    r"executable file not found",
    r"mknod: .{0,16}not found",
    r"/bin/sh: .{0,16}not found|stat /bin/sh|exec: \"/bin/sh\"|/bin/sh",
    # a file of the driver in another folder is told by its name
    rf"(?:(?<=/){DRIVER_NAME}[\"`']?: )?(?i:no such file or directory)",
    r"(?i)connection refused|permission denied|operation not permitted|no space left on device",
    r"context deadline exceeded|already exists|not found|is busy",
    *runtime_words.PHRASES,
)
# A case that ends with one of these is started again: the runtime had not read the container's
# configuration, so nothing about GPUs has been decided.
AGAIN = runtime_words.EARLY
# Of a record that NVIDIA's hook leaves: what it was asked for.
RECORD_SHOWS = r"--device=[\w,:.-]{1,4096}"

# (words in the error or problem, engine, "engine injection" or "", what to do). All words of a row
# stand in the text, in any order. The first row that matches speaks. A host may choose the text, so
# each of the words is a search of its own, without a repetition that has no end: the controller's
# time grows with the text, and no faster.
NOT_GIVEN = r"was requested and is not in the container"
LONGEST = 4096  # characters of an error, or of all problems of a case, that are shown or searched
MOST_SHOWN = 8  # of the problems of a case, and of the cases of a message
ADVICE: tuple[tuple[tuple[str, ...], str, Sentence], ...] = (
    ((r"could not select device driver \"cdi\"",), "", messages.DOCKER_WITHOUT_CDI),
    (
        (r"(?i)unknown or invalid runtime name|unknown runtime specified",),
        "",
        messages.DOCKER_WITHOUT_RUNTIME,
    ),
    ((r"unresolvable CDI devices",), "", messages.DEVICE_UNRESOLVABLE),
    ((r"CDI support is explicitly disabled",), "", messages.CDI_OFF),
    ((r"no runtime for ", r" is configured"), "", messages.HANDLER_UNKNOWN),
    ((r"failed to find runtime handler",), "", messages.HANDLER_UNKNOWN),
    ((r"runtime handler ", r" not supported"), "", messages.HANDLER_UNKNOWN),
    ((r"unknown service runtime\.v1",), "", messages.ENGINE_WITHOUT_CRI),
    (
        (r"sandbox image|pause|pinging container registry|failed to (?:resolve|do request|pull)",),
        "",
        messages.NO_SANDBOX_IMAGE,
    ),
    ((r"nvidia-container-cli|nvidia-container-runtime-hook",), "", messages.HOOK_FAILED),
    ((r"executable file not found",), "", messages.NO_HANDLER_PROGRAM),
    ((r"nvidia-container-runtime", r"no such file"), "", messages.NO_HANDLER_PROGRAM),
    (
        (
            r"(?i)no such file or directory",
            rf"(?:mount(?:ing)?|stat|open|host device) [\"`']?{DRIVER_FILE}",
        ),
        "",
        messages.SPEC_FILE_GONE,
    ),
    ((rf"{DRIVER_NAME}[\"`']?: (?i:no such file or directory)",), "", messages.SPEC_FILE_GONE),
    ((r"nvidia-(?:ctk|cdi-hook): no such file or directory",), "", messages.SPEC_FILE_GONE),
    ((r"mknod: .{0,16}not found|/bin/sh",), "", messages.NO_SHELL),
    *((words, "", step) for words, step in runtime_words.list_next_steps()),
    ((r"create failed",), "", messages.READ_JOURNAL),
    ((r"No such file or directory|Connection refused|no answer to",), "", messages.SOCKET_SILENT),
    ((NOT_GIVEN,), "containerd native-cdi", messages.CDI_IGNORED),
    ((NOT_GIVEN,), "", messages.NOT_INJECTED),
    ((r"in the container, but opening it is refused",), "", messages.ACCESS_DENIED),
    ((r"can be opened although|and was not requested",), "", messages.MORE_THAN_REQUESTED),
    ((r"says nothing that matches",), "", messages.HOOK_NOT_CALLED),
    ((r"gRPC status \d",), "", messages.READ_JOURNAL),
    ((r"exit status \d",), traits.DOCKER, messages.DOCKER_BY_HAND),
    ((r"exit status \d",), traits.PODMAN, messages.PODMAN_BY_HAND),
)


def advise_on_case(engine: str, injection: str, text: str, manager: str = "") -> str:
    """Return what to do next about one error or problem; '' if nothing is known.

    Only the first LONGEST characters of the text count.
    """
    text = text[:LONGEST]
    if all(words in text for words in ("image ", " is not on this host")):
        way = known.get_manager_place(manager).load_image or traits.get_traits(engine).load_image
        return messages.LOAD_IMAGE.fill(way=way)
    for wanted, only, row in ADVICE:
        if only in ("", engine, f"{engine} {injection}") and all(
            re.search(words, text) for words in wanted
        ):
            return row.fill()
    return ""


def explain_no_cases(host: HostDecision, planned: list[dict[str, Any]]) -> str:
    """Return why a host has no cases; '' if it has some."""
    if planned:
        return ""
    refused = "; ".join(sentence for _key, sentence in host.refused)
    return host.skipped or refused or messages.NOTHING_TO_VERIFY.fill()


def list_unverified_cases(planned: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cases as check mode shows them: what would be started and expected, without a
    verdict.
    """
    open_questions: dict[str, Any] = {"ok": None, "found": {}, "advice": ""}
    return [
        {
            **_describe_asked(c),
            **open_questions,
            "expected": {n["path"]: n["expect"] for n in c["nodes"]},
        }
        for c in planned
    ]


def list_case_evidence(
    planned: list[dict[str, Any]], answer: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the host's answers, each with its plan and advice: the `checks` of a result."""
    answers = {a["name"]: a for a in answer.get("cases") or ()}
    none = {"ok": False, "error": {"step": "run", "message": "the host returned no result"}}
    return [_add_advice(c, answers.get(c["name"]) or {"name": c["name"], **none}) for c in planned]


def _add_advice(case: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    next_step = (
        ""
        if found["ok"]
        else advise_on_case(
            case["engine"],
            case["injection"],
            describe_case_failure(found, LONGEST),
            case["manager"],
        )
    )
    return {**_describe_asked(case), "found": {}, **found, "advice": end_with_code(next_step)}


def _describe_asked(case: Mapping[str, Any]) -> dict[str, Any]:
    always = {k: case[k] for k in ("name", "engine", "injection", "why", "handler")}
    return {**always, **{k: case[k] for k in ("env", "annotations", "devices") if case.get(k)}}


def describe_case_failure(found: Mapping[str, Any], most: int = MOST_SHOWN) -> str:
    """Return what went wrong in one case, in one line; '' if nothing did.

    A host may have thousands of problems, so the text has at most LONGEST characters, and some more
    that tell how much was left out. most: the problems that are shown.
    """
    error = found.get("error")
    if error:
        return shorten_text(f"{error['step']}: {error['message']}", LONGEST)
    return shorten_text(show_few_texts(found.get("problems") or (), most, "; "), LONGEST)


def warn_of_further_starts(checks: list[dict[str, Any]]) -> str:
    """Return the warning about cases that were verified after they had been started again; '' if
    there are none.
    """
    late = [str(c["name"]) for c in checks if c["ok"] and c.get("again")]
    return messages.STARTED_AGAIN.fill(cases=", ".join(late)) if late else ""


def describe_unverified(checks: list[dict[str, Any]]) -> str:
    """Return the message of a failure; '' if every case is verified."""
    failed = [c for c in checks if not c["ok"]]
    if not failed:
        return ""
    alike: dict[tuple[str, str], list[str]] = {}  # engine and failure -> the cases
    for c in failed:
        engine, _colon, case = str(c["name"]).rpartition(": ")
        alike.setdefault((engine, describe_case_failure(c)), []).append(case)
    sentences = [
        ": ".join([*filter(None, [engine]), show_few_texts(cases, MOST_SHOWN), why])
        for (engine, why), cases in alike.items()
    ]
    said = shorten_text(show_few_texts(sentences, MOST_SHOWN, ". "), 2 * LONGEST)
    next_steps = dict.fromkeys(c["advice"] for c in failed if c.get("advice"))
    details = ". ".join([said, *(f"Next: {step}" for step in next_steps)])
    return messages.CHECKS_FAILED.fill(failed=len(failed), total=len(checks), details=details)
