# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether the GPU Operator's toolkit container works on a host, and find what it left there.

While it works, we write nothing for an engine that it configures. At every start of its pod it
installs its programs again, writes its handlers and restarts the engine (nvidia-container-toolkit,
cmd/nvidia-ctk-installer), so two writers would never come to rest. That it is gone needs proof.
`/run/nvidia` is empty after a boot until the pod starts, so nothing there proves anything.
`/run/nvidia/validations/toolkit-ready` comes from the operator's validator, which writes it with
`toolkit.enabled=false` as well: all that it runs is nvidia-smi (gpu-operator,
cmd/nvidia-validator).
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    AskedQuestions,
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Leftover,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    low_level,
    originals,
    processes,
    traits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    messages,
    sandboxes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet,
    kubelet_facts,
)

TOOL = "gpu-operator"
HANDLERS = ("nvidia", "nvidia-cdi", "nvidia-legacy")  # and the configured name, if that is another
# ROOT=/usr/local/nvidia; `toolkit.installDir` of the ClusterPolicy puts it elsewhere
DIRECTORY = "/usr/local/nvidia/toolkit"
PID_FILE = "/run/nvidia/toolkit/toolkit.pid"
MARKS = (DIRECTORY, PID_FILE)
# Its program, and the name by which the pod's entrypoint starts it; up to 1.17 that was the
# program.
PROCESSES = ["nvidia-ctk-installer", "nvidia-toolkit"]
CONTAINER = "nvidia-container-toolkit-ctr"
# The DaemonSet has `hostPID: true` (assets/state-container-toolkit/0500_daemonset.yaml), which a
# cluster's admission keeps from tenants (Pod Security Standards, baseline). Names of programs, pods
# and containers are anybody's. Rules of processes that only one of a container with PIDs or users
# of its own breaks:
OF_ANYBODY = ("user", "user namespace", "PID namespace")
KUBELET_ROOT = "/var/lib/kubelet"
# Where engines serve NRI plugins. In that mode the toolkit mounts its directory, writes no file of
# an engine, and no RuntimeClass is used (gpu-operator v26.7, transformNRISocketMounts and
# setRuntimeClassName in controllers/object_controls.go).
NRI_SOCKET = "/var/run/nri/nri.sock"
# seconds after which a kubelet has started the pods of its node's DaemonSets, or has said why not
SETTLED = 600
REFUSED = frozenset(
    row.code
    for row in (
        messages.OPERATOR_RUNS,
        messages.OPERATOR_BY_NRI,
        messages.OPERATOR_WITHOUT_NRI,
        messages.OPERATOR_RUNS_AGAIN,
        messages.OPERATOR_UNPROVEN,
        messages.OPERATOR_UNPROVEN_AGAIN,
    )
)
DROP_IN = re.compile(r"99-nvidia\.(toml|conf)")
HAND_OVER = messages.HAND_OVER
TITLE = "the GPU Operator's toolkit"
KUBELET_QUESTIONS = (
    kubelet_facts.ask_for_kubelet_process(),
    *(queries.ask_for_file(path, content=False) for path in kubelet_facts.PROGRAMS),
)


@dc.dataclass(frozen=True)
class State:
    """The state of the GPU Operator's toolkit on a host.

    fate: absent (no trace of it), live (it works), dead (it is proven to be gone), unknown (there
    are traces and no such proof). why: the evidence. traces: what is there of it, as paths.
    """

    fate: Literal["absent", "live", "unknown", "dead"]
    why: str = ""
    traces: tuple[str, ...] = ()

    @property
    def counts_as_live(self) -> bool:
        return self.fate in ("live", "unknown")


def list_questions(policy: Policy) -> list[queries.Question]:  # noqa: ARG001
    return [queries.ask_for_file(mark, content=False) for mark in MARKS]


def is_its(program: str) -> bool:
    """Tell whether a handler's program is one that the toolkit container installs."""
    return posixpath.basename(program).startswith(low_level.PROGRAM) and is_operator_program(
        program
    )


def is_operator_program(program: str) -> bool:
    """Tell whether a program is in the toolkit container's own place: always a directory called
    toolkit.
    """
    return posixpath.basename(posixpath.dirname(program)) == "toolkit"


def list_operator_handlers(instance: Instance) -> dict[str, str]:
    return {name: program for name, program in sorted(instance.handlers.items()) if is_its(program)}


@dc.dataclass(frozen=True)
class OperatorFacts:
    """A host's facts about a GPU Operator's toolkit, and about the kubelet that would start it.

    asked: the questions that the look has answered. is_there: whether there is anything at a path.
    processes: all of root's, verified or not. expects_kubelet: there is a kubelet, running or
    installed. units: the properties of a unit by its name. asked_units: whether any look asked
    for a unit. active_seconds: for how long a unit has been active. kept_pods: the answer
    about the kubelet's files of its pods, or the error, by the kubelet's directory.
    """

    asked: AskedQuestions
    is_there: Lookup[str, bool]
    processes: Fact[tuple[Mapping[str, Any], ...]]
    expects_kubelet: Fact[bool]
    units: Lookup[str, Mapping[str, str]]
    asked_units: Lookup[str, bool]
    active_seconds: Lookup[str, float | None]
    kept_pods: Lookup[str, Mapping[str, Any]]
    kubelet: kubelet_facts.KubeletFacts
    sandboxes: sandboxes.SandboxFacts
    earlier: earlier_runs.EarlierRuns


def read_operator_facts(policy: Policy, obs: Observation) -> OperatorFacts:
    return obs.compute_once(("operator", policy.root), lambda: _read_operator_facts(policy, obs))


def _read_operator_facts(policy: Policy, obs: Observation) -> OperatorFacts:
    of_kubelet = kubelet_facts.read_kubelet_facts(obs)
    return OperatorFacts(
        obs.get_asked(),
        Lookup(obs.is_there),
        Fact(lambda: (*obs.processes(), *obs.list_unverified())),
        Fact(lambda: kubelet.find_kubelet(policy, of_kubelet).expected),
        Lookup(obs.get_unit),
        Lookup(obs.was_unit_asked),
        Lookup(obs.get_active_seconds),
        Lookup(lambda root: obs.get_answer_or_error(_ask_for_pods_below(root))),
        of_kubelet,
        sandboxes.read_sandbox_facts(obs),
        earlier_runs.read_earlier_runs(obs),
    )


# ---------------------------------------------------------------- live or dead


def judge_operator_state(
    policy: Policy, facts: OperatorFacts, instances: Iterable[Instance], files: tuple[str, ...] = ()
) -> State:
    """Judge the state of the toolkit on this host. Raise NeedMore for more evidence only if there
    is a trace of it.

    files: configurations that it wrote.
    """
    every_instance = tuple(instances)
    facts.asked.require(list_questions(policy))
    programs = dict.fromkeys(
        program for i in every_instance for program in list_operator_handlers(i).values()
    )
    traces = (*(mark for mark in MARKS if facts.is_there.get(mark)), *programs, *files)
    if not traces:
        return State("absent")
    if policy.root != "/":
        return State("dead", messages.NO_ENGINE_RUNS.fill(), traces)
    facts.asked.require(_list_evidence_questions(facts, every_instance))
    alive = _sign_of_life(facts, every_instance)
    if alive:
        return State("live", alive, traces)
    if not _may_have_kubelet(facts):
        return State("dead", messages.KUBELET_ABSENT.fill(), traces)
    declared = policy.operator_toolkit == "gone"
    doubt = (_explain_kubelet_doubt(facts) if not declared else "") or _explain_pod_doubt(
        facts, every_instance
    )
    if doubt:
        return State("unknown", doubt, traces)
    row = messages.DECLARED_GONE if declared else messages.KUBELET_SETTLED
    return State("dead", row.fill(), traces)


def is_operator_gone(policy: Policy, facts: OperatorFacts, instance: Instance, path: str) -> bool:
    """Tell whether the toolkit's part of this file may be taken over for this engine."""
    return judge_operator_state(policy, facts, [instance], (path,)).fate == "dead"


def _list_evidence_questions(
    facts: OperatorFacts, instances: tuple[Instance, ...]
) -> list[queries.Question]:
    """List the questions that the proof needs beyond a normal look."""
    pods = [sandboxes.ask_for_sandboxes(i) for i in instances if sandboxes.serves(i)]
    first = [
        *KUBELET_QUESTIONS,
        queries.ask_for_processes(PROCESSES),
        queries.ask_for_file(NRI_SOCKET, content=False),
        *pods,
    ]
    if not all(facts.asked.has(q) for q in KUBELET_QUESTIONS):
        return first
    unit = _get_kubelet_unit(facts)
    units = [] if facts.asked_units.get(unit) else [queries.ask_for_units([unit])]
    return [*first, _ask_for_pods_below(_get_kubelet_root(facts)), *units]


def _get_kubelet_unit(facts: OperatorFacts) -> str:
    process, within = facts.kubelet.process.value, facts.kubelet.manager.value
    if process and process.get("unit"):
        return str(process["unit"])
    return within[1] if within and not process else kubelet_facts.UNIT


def _get_kubelet_root(facts: OperatorFacts) -> str:
    return facts.kubelet.directory.value or KUBELET_ROOT


def _ask_for_pods_below(root: str) -> queries.Question:
    """Ask for the kubelet's files of its pods. They outlive a boot, which the engine's list of
    sandboxes may not.
    """
    return queries.ask_for_paths(
        f"pods below {root}", [f"{root}/pods", f"{root}/pods/*/containers/{CONTAINER}"]
    )


def _sign_of_life(facts: OperatorFacts, instances: tuple[Instance, ...]) -> str:
    running = [
        p
        for p in facts.processes.value
        if processes.get_program_name(p) in PROCESSES and p.get("unverified") not in OF_ANYBODY
    ]
    if running:
        return messages.PROCESS_RUNS.fill(program=processes.get_program_name(running[0]))
    for instance in instances:
        if sandboxes.serves(instance) and (
            facts.sandboxes.get_answer(instance).get("named") or {}
        ).get(sandboxes.OPERATOR):
            return messages.POD_RUNS.fill(engine=instance.engine, name=sandboxes.OPERATOR)
    kept = facts.kept_pods.get(_get_kubelet_root(facts)).get("files") or ()
    paths = [str(entry["path"]) for entry in kept]
    uids = tuple(sorted(p.split("/")[-3] for p in paths if posixpath.basename(p) == CONTAINER))
    if uids and not all(has_own_pids(facts, instances, uids, uid) for uid in uids):
        return messages.POD_KEPT.fill(container=CONTAINER)
    return ""


def has_own_pids(
    facts: OperatorFacts, instances: tuple[Instance, ...], uids: tuple[str, ...], uid: str
) -> bool:
    """Tell whether an engine has this pod, with a PID namespace of its own. uids: all that are
    asked for.
    """
    return any(
        (facts.sandboxes.kept.get((i.socket, i.pid, uids)).get("own_pids") or {}).get(uid)
        for i in instances
        if sandboxes.serves(i)
    )


def _may_have_kubelet(facts: OperatorFacts) -> bool:
    """Tell whether there is a kubelet, running or not. A stopped one brings the pod back when it
    starts.
    """
    return (
        facts.expects_kubelet.value
        or bool(facts.units.get(kubelet_facts.UNIT))
        or facts.kubelet.kubernetes_title.value != ""
    )


def _explain_kubelet_doubt(facts: OperatorFacts) -> str:
    """Return the reason why the kubelet may still bring the toolkit back, as far as the host alone
    shows it. '' for none.
    """
    if facts.kubelet.process.value is None and facts.kubelet.unverified.value:
        return messages.KUBELET_UNVERIFIED.fill()
    if facts.kubelet.process.value is None and not facts.kubelet.manager.value:
        title = facts.kubelet.kubernetes_title.value
        if title:
            return messages.KUBELET_SILENT.fill(title=title)
        return messages.KUBELET_STOPPED.fill()
    active = facts.active_seconds.get(_get_kubelet_unit(facts))
    if active is None:
        return messages.KUBELET_AGE_UNKNOWN.fill(unit=_get_kubelet_unit(facts))
    if active < SETTLED:
        return messages.KUBELET_YOUNG.fill()
    return ""


def _explain_pod_doubt(facts: OperatorFacts, instances: tuple[Instance, ...]) -> str:
    """Return the reason why the pods of this host are unknown. '' for none."""
    asked = [i for i in instances if sandboxes.serves(i)]
    silent = next((i.engine for i in asked if "error" in facts.sandboxes.get_answer(i)), "")
    if silent:
        return messages.PODS_UNLISTED.fill(engine=silent)
    if not asked:
        return messages.NO_ENGINE_LISTS.fill()
    kept = facts.kept_pods.get(_get_kubelet_root(facts))
    if "error" in kept or not any(
        str(entry["path"]) == f"{_get_kubelet_root(facts)}/pods"
        for entry in kept.get("files") or ()
    ):
        return messages.PODS_UNKNOWN.fill(directory=f"{_get_kubelet_root(facts)}/pods")
    return ""


# ---------------------------------------------------------------- what follows from it


def refuse_operator_instances(
    policy: Policy, facts: OperatorFacts, instances: tuple[Instance, ...]
) -> tuple[Instance, ...]:
    """Return the instances, with a refusal for each that a toolkit configures that works or is not
    proven to be gone.
    """
    state = judge_operator_state(policy, facts, instances)
    if not state.counts_as_live:
        return instances
    return tuple(
        dc.replace(i, refusal=refuse_operator_instance(facts, i, state))
        if _is_concerned(policy, i, state, instances)
        else i
        for i in instances
    )


def report_operator(
    policy: Policy, facts: OperatorFacts, instances: tuple[Instance, ...]
) -> dict[str, Any]:
    """Return the toolkit's part of the result.

    installed: it works, and engines have its handlers. cleaned: it is gone, and no engine has its
    handlers.
    """
    state = judge_operator_state(policy, facts, instances)
    handlers = {
        name: program for i in instances for name, program in list_operator_handlers(i).items()
    }
    installed, cleaned = (
        state.fate == "live" and bool(handlers),
        state.fate in ("absent", "dead") and not handlers,
    )
    return {
        "fate": state.fate,
        "why": state.why,
        "handlers": handlers,
        "installed": installed,
        "cleaned": cleaned,
    }


def _is_concerned(
    policy: Policy, instance: Instance, found: State, instances: tuple[Instance, ...]
) -> bool:
    """Tell whether the toolkit concerns this instance.

    A toolkit that works writes for the kubelet's engine, whatever the files contain now. For an
    unproven one only what it wrote counts.
    """
    if instance.refusal:
        return False
    wanted = {handler.name for handler in policy.handlers}
    if found.fate == "unknown":
        return bool(wanted & set(list_operator_handlers(instance)))
    if list_operator_handlers(instance):
        return True
    if not traits.get_traits(instance.engine).kubernetes:
        return instance.used_by_kubelet  # Docker, by cri-dockerd
    return instance.cri and (
        instance.used_by_kubelet or not any(i.used_by_kubelet for i in instances)
    )


def refuse_operator_instance(facts: OperatorFacts, instance: Instance, found: State) -> Refusal:
    again = find_returned_drop_in(facts)
    values = {"evidence": found.why, "engine": traits.get_traits(instance.engine).title}
    values.update({"path": again} if again else {})
    if found.fate == "live" and not again and _may_be_nri_plugin(instance, found):
        served = facts.is_there.get(NRI_SOCKET)
        row = messages.OPERATOR_BY_NRI if served else messages.OPERATOR_WITHOUT_NRI
        return Refusal(row.fill(**values, socket=NRI_SOCKET))
    if found.fate == "live":
        row = messages.OPERATOR_RUNS_AGAIN if again else messages.OPERATOR_RUNS
        return Refusal(row.fill(**values))
    handlers = (
        f"{name} runs {program}" for name, program in list_operator_handlers(instance).items()
    )
    traces = ", ".join(handlers) or ", ".join(found.traces)
    row = messages.OPERATOR_UNPROVEN_AGAIN if again else messages.OPERATOR_UNPROVEN
    return Refusal(row.fill(**values, traces=traces))


def _may_be_nri_plugin(instance: Instance, found: State) -> bool:
    """Tell whether a working toolkit has left nothing in an engine that a kubelet can use."""
    return set(found.traces) <= set(MARKS) and traits.get_traits(instance.engine).kubernetes


def names_it(why: str) -> bool:
    """Tell whether an engine is left alone because of this toolkit. why: the message of the
    refusal.
    """
    tool = why.values.get("tool") if isinstance(why, Message) else ""
    return get_code(why) in REFUSED or tool == TITLE


def find_returned_drop_in(facts: OperatorFacts) -> str:
    """Return a drop-in of its name that this collection removed and that exists again. '' if there
    is none.
    """
    for kept in originals.list_originals(facts.earlier) if facts.earlier.asked else ():
        if (
            kept.existed
            and kept.after is None
            and kept.now is not None
            and DROP_IN.fullmatch(posixpath.basename(kept.path))
        ):
            return kept.path
    return ""


def list_operator_leftovers(
    policy: Policy, facts: OperatorFacts, instances: tuple[Instance, ...]
) -> tuple[Leftover, ...]:
    """List what of the toolkit is on the host, except in an engine's configuration, which the
    engine's own planner judges.
    """
    leftovers = judge_operator_state(policy, facts, instances)
    if leftovers.counts_as_live:
        concerned = [
            i for i in instances if list_operator_handlers(i) or names_it(i.refusal.message)
        ]
        places = [(i.config_path, tuple(list_operator_handlers(i))) for i in concerned] or [
            (leftovers.traces[0], ())
        ]
        return tuple(
            Leftover(TOOL, path, keys, False, "live", leftovers.why, HAND_OVER)
            for path, keys in places
        )
    if DIRECTORY not in leftovers.traces:
        return ()
    # Its own cleanup leaves the programs as well, since containers that run need them (gpu-operator
    # issue 494).
    why = messages.PROGRAMS_STAY.fill(evidence=leftovers.why, path=DIRECTORY)
    return (Leftover(TOOL, DIRECTORY, (), True, "kept", why),)
