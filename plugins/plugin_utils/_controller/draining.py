# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask and instruct the orchestrators that take a host out of service.

These are commands of the user's, Slurm and Kubernetes. Each is called on the machine where the task
runs.
"""

from __future__ import annotations

import dataclasses as dc
import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    draining_messages,
    kubernetes_core,
    messages,
    online,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    drain,
    drain_kubernetes,
    drain_messages,
    other_owners,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text.sentences import (
    get_last_line,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import drain_slurm
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    node_names,
)

CALL = 60  # seconds that one call which changes something may take
CONFLICTS = 5
LIST_PODS = "list the node's pods"
HUNG = (124, 137)  # exit statuses of timeout(1)


class Refused(Exception):
    """An error of an orchestrator that did not do what it was asked. Its text ends with its code."""

    def __init__(self, sentence: str) -> None:
        super().__init__(end_with_code(sentence))


class Orchestrator(Protocol):
    """An orchestrator that can take a host out of service.

    try_only: judge the change as far as that is possible, and change nothing.
    left: the seconds that a question may take if it waits itself.
    """

    def get_standing(self) -> drain.Standing:
        """Return how the orchestrator sees the host."""

    def take_out(self, *, try_only: bool = False) -> None:
        """Take the host out of service."""

    def describe_waiting(self, left: int, /) -> str:
        """Return the work that is still there, in words; '' if there is none."""

    def give_back(self, *, try_only: bool = False) -> None:
        """Put the host back into service."""

    def keep(self, why: str, *, try_only: bool = False) -> None:
        """Leave the host out of service, with the reason."""


@dc.dataclass(frozen=True)
class Calls:
    """The way to the machine where the task runs."""

    action: ActionBase
    variables: Mapping[str, Any]
    # the variable that names the machine where the task runs
    delegate: str = "gpufleet_drain_delegate"

    def run_module(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        check: bool = False,
        seconds: float = online.CALL,
    ) -> dict[str, Any]:
        """Run a module on that machine.

        check: run it in check mode, regardless of the task's own mode. The callers know which call
        only reads, and which one only tries.
        """
        task = self.action._task
        before, task.check_mode = task.check_mode, check
        try:
            with online.interrupt_after(seconds, name, drain.OutOfReach):
                return dict(
                    self.action._execute_module(
                        module_name=name,
                        module_args=dict(arguments),
                        task_vars=dict(self.variables),
                    )
                )
        except AnsibleConnectionFailure as error:
            # Not "unreachable", which a play may ignore: the change would go on, on a host that was
            # not drained.
            raise drain.OutOfReach(
                draining_messages.DELEGATE_UNREACHABLE.fill(
                    cause=get_last_line(str(error)), delegate=self.delegate
                )
            ) from None
        finally:
            task.check_mode = before

    def run_program(
        self, argv: Sequence[Any], seconds: int, environment: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        """Run a program on that machine, without a shell and with a time limit: (exit status,
        output, errors).
        """
        assigned = (
            ["env", *(f"{key}={value}" for key, value in environment.items())]
            if environment
            else []
        )
        words = ["timeout", "-k", "10", str(seconds), *assigned, *map(str, argv)]
        # Not expanded: a word may contain a host's own text, and a variable of this machine may be
        # a secret.
        given = {"argv": words, "expand_argument_vars": False}
        result = self.run_module("ansible.builtin.command", given, seconds=seconds + online.CALL)
        if "rc" not in result:
            given = {
                "program": argv[0],
                "cause": get_module_message(result),
                "delegate": self.delegate,
            }
            raise PlanError(messages.CANNOT_RUN.fill(**given))
        return (
            int(result["rc"]),
            str(result.get("stdout") or ""),
            str(result.get("stderr") or result.get("msg") or ""),
        )


def get_module_message(result: Mapping[str, Any]) -> str:
    """Return the last line of a module's message."""
    return get_last_line(str(result.get("stderr") or result.get("msg") or "")) or "no message"


def choose_orchestrators(
    action: ActionBase,
    variables: Mapping[str, Any],
    args: Mapping[str, Any],
    work: drain.Work,
    why: str,
    by: Sequence[str],
) -> dict[str, Orchestrator]:
    """Return the orchestrators that are asked: name -> orchestrator."""
    calls = Calls(action, variables)
    host = str(variables.get("inventory_hostname") or "")
    every = (variables.get("groups") or {}).get("all") or ()

    def names(setting: str, of_host: drain.Work = work) -> tuple[str, ...]:
        return drain.list_node_names(args[setting], of_host, host, every, f"gpufleet_{setting}")

    def nodes() -> tuple[str, ...]:
        return node_names.list_possible_node_names(
            names("kubernetes_node", known), host, args["kubernetes_node"]
        )

    # The cluster knows the boot of each node. A host that does not report its boot could claim any
    # node's name.
    known = work if work.boot_id else dc.replace(work, hostname="")

    makers: Mapping[str, Callable[[], Orchestrator]] = {
        drain.COMMANDS: lambda: Commands(calls, args, host, why),
        drain.SLURM: lambda: Slurm(calls, args, names("slurm_node"), why),
        drain.KUBERNETES: lambda: Kubernetes(calls, args, nodes(), why, work.boot_id),
    }
    return {who: makers[who]() for who in by}


def is_orchestrator_required(who: str, args: Mapping[str, Any]) -> bool:
    """Tell whether an orchestrator has to answer even for a host that needs no drain.

    That is so if access to it was configured.
    """
    if who == drain.KUBERNETES and (
        args["kubeconfig"]
        or args["context"]
        or any(name.startswith("K8S_AUTH_") for name in os.environ)
    ):
        return True
    return who == drain.COMMANDS or who in args["by"]


def ask_for_standings(
    every: Mapping[str, Orchestrator], args: Mapping[str, Any], needed: bool
) -> tuple[dict[str, drain.Standing], list[str]]:
    """Return how each orchestrator sees the node, and a sentence for each one that could not be
    asked.

    Raise PlanError for one that cannot be asked, unless the host needs no drain and that
    orchestrator is not required.
    """
    standings: dict[str, drain.Standing] = {}
    silent: list[str] = []
    for who, one in every.items():
        try:
            standings[who] = one.get_standing()
        except PlanError as error:
            if needed or is_orchestrator_required(who, args):
                raise
            row = draining_messages.ORCHESTRATOR_NOT_ASKED
            silent.append(row.fill(program=who, cause=str(error)))
    return standings, silent


def add_lock_owners(
    every: Mapping[str, Orchestrator], found: Mapping[str, drain.Standing]
) -> tuple[dict[str, drain.Standing], list[str]]:
    """Return the standings with the owner of a lock beside the node, and sentences for what could
    not be read.

    An account that may not read the lock continues without it: the owner of that lock also cordons
    the node at once.
    """
    kubernetes, standing = every.get(drain.KUBERNETES), found.get(drain.KUBERNETES)
    if not isinstance(kubernetes, Kubernetes) or standing is None or standing.obstacle:
        return dict(found), []
    try:
        claimed = kubernetes.find_kured_lock(standing.node)
    except PlanError as error:
        return dict(found), [draining_messages.LOCK_NOT_READ.fill(cause=str(error))]
    return {**found, drain.KUBERNETES: dc.replace(standing, claimed=claimed)}, []


@dc.dataclass(frozen=True)
class Commands:
    """The user's commands.

    The command `marked` tells whether the host is out of service. Without it, that is known for the
    time of the play.
    """

    calls: Calls
    args: Mapping[str, Any]
    host: str
    why: str
    # that `before` was begun, whether or not it succeeded
    begun: list[str] = dc.field(default_factory=list)

    def get_standing(self) -> drain.Standing:
        if not self.args["commands"].get("marked"):
            return drain.Standing(
                "held" if self.begun or self._was_drained_in_play() else "in_service", "", self.host
            )
        status, _output, error = self._run("marked", CALL)
        if status in (125, 126, 127, *HUNG):  # 125 is env's or timeout's own
            raise self._build_error("marked", status, error)
        return drain.Standing("in_service" if status else "held", "", self.host)

    def _was_drained_in_play(self) -> bool:
        """Tell whether an earlier task of this run has drained the host.

        Otherwise the host would be put back into service although this run has not taken it out.
        """
        earlier = self.calls.variables.get(self.args["drained"]) or {}
        return earlier.get("outcome") in ("drained", "pending") and drain.COMMANDS in (
            earlier.get("by") or ()
        )

    def take_out(self, *, try_only: bool = False) -> None:
        if not try_only:
            self.begun.append("before")
            self._must("before")

    def describe_waiting(self, left: int, /) -> str:
        if not self.args["commands"].get("wait"):
            return ""
        status, _output, error = self._run("wait", left)
        if status in (125, 126, 127):
            raise self._build_error("wait", status, error)
        said_ = f" ({get_last_line(error)})" if error.strip() else ""
        return f"the command wait ended with {status}{said_}" if status else ""

    def give_back(self, *, try_only: bool = False) -> None:
        if not try_only:
            self._must("after")

    def keep(self, why: str, *, try_only: bool = False) -> None:
        """Do nothing: the commands have no text of this collection."""

    def _must(self, step: str) -> None:
        status, _output, error = self._run(step, max(CALL, self.args["timeout"]))
        if status:
            raise self._build_error(step, status, error)

    def _run(self, step: str, seconds: int) -> tuple[int, str, str]:
        reason = drain.get_drain_text(self.args["reason"], self.why)
        environment = {
            "GPUFLEET_HOST": self.host,
            "GPUFLEET_ROLLOUT": self.args["rollout"],
            "GPUFLEET_REASON": reason,
        }
        return self.calls.run_program(self.args["commands"][step], seconds, environment)

    def _build_error(self, step: str, status: int, error: str) -> PlanError:
        cause = get_last_line(error) or "it said nothing"
        if status in HUNG:
            return PlanError(messages.COMMAND_HUNG.fill(step=step, cause=cause))
        return PlanError(messages.COMMAND_FAILED.fill(step=step, status=status, cause=cause))


@dc.dataclass(frozen=True)
class Slurm:
    """Slurm, by scontrol where the task runs."""

    calls: Calls
    args: Mapping[str, Any]
    names: tuple[str, ...]
    why: str

    def read_node(self) -> drain_slurm.SlurmNode:
        """Return the node, as Slurm sees it."""
        for name in self.names:
            status, output, error = self.calls.run_program(["scontrol", "show", "node", name], CALL)
            if status == 0 and drain_slurm.NAME.search(output):
                return drain_slurm.parse_slurm_node(output)
            if not drain_slurm.NOT_FOUND.search(output + error):
                raise self._build_error("show the node", status, error or output)
        raise drain.build_unknown_node_error("gpufleet_slurm_node", self.names, (), "Slurm")

    def get_standing(self) -> drain.Standing:
        return drain_slurm.judge_slurm_standing(self.read_node(), self.args["rollout"])

    def take_out(self, *, try_only: bool = False) -> None:
        self._update("DRAIN", self.args["reason"], "in_service", try_only)
        if not try_only and self.get_standing().state not in ("held", "broken"):
            raise Refused(draining_messages.DRAIN_OF_OTHERS.fill())

    def describe_waiting(self, _left: int, /) -> str:
        node = self.read_node()
        if drain_slurm.judge_slurm_standing(node, self.args["rollout"]).state in (
            "others",
            "in_service",
        ):
            raise Refused(
                draining_messages.SLURM_NODE_CHANGED.fill(
                    node=node.name, state=node.state, reason=node.reason
                )
            )
        return drain_slurm.explain_slurm_wait(node)

    def give_back(self, *, try_only: bool = False) -> None:
        node = self.read_node()
        if (
            not try_only
            and drain_slurm.judge_slurm_standing(node, self.args["rollout"]).state == "held"
        ):
            self._run_scontrol("resume the node", [f"nodename={node.name}", "state=resume"])

    def keep(self, why: str, *, try_only: bool = False) -> None:
        self._update("", why, "held", try_only)

    def _update(self, state: str, text: str, wanted: str, try_only: bool) -> None:
        """Mark the node, only if its standing is still the wanted one.

        This rollout's mark on another's drain would make that drain this rollout's to end.
        """
        node = self.read_node()
        standing = drain_slurm.judge_slurm_standing(node, self.args["rollout"])
        # A node that is down may be held as well, and gets the reason.
        stands = standing.state == wanted or (
            wanted == "held"
            and standing.state == "broken"
            and drain_slurm.is_held(node, self.args["rollout"])
        )
        if not stands:
            raise Refused(standing.text or draining_messages.NODE_PUT_BACK.fill(node=node.name))
        if not try_only:
            reason = drain_slurm.build_slurm_reason(self.args["rollout"], text, self.why)
            self._run_scontrol(
                "drain the node",
                [
                    f"nodename={node.name}",
                    *([f"state={state}"] if state else []),
                    f"reason={reason}",
                ],
            )

    def _run_scontrol(self, doing: str, words: list[str]) -> None:
        status, output, error = self.calls.run_program(["scontrol", "update", *words], CALL)
        if status:
            raise self._build_error(doing, status, error or output)

    def _build_error(self, doing: str, status: int, error: str) -> PlanError:
        if status == 127:
            return PlanError(messages.NO_SCONTROL.fill())
        if drain_slurm.NOT_PERMITTED.search(error):
            return PlanError(messages.SLURM_FORBIDS.fill(doing=doing, cause=get_last_line(error)))
        why = (
            draining_messages.SLURM_LATE.fill()
            if status in HUNG
            else get_last_line(error) or draining_messages.SLURM_ENDED.fill(status=status)
        )
        passing = status in HUNG or drain_slurm.UNREACHABLE.search(error)
        kind = drain.OutOfReach if passing else PlanError
        return kind(messages.SLURM_FAILED.fill(doing=doing, cause=why))


@dc.dataclass(frozen=True)
class Kubernetes:
    """Kubernetes, by kubernetes.core's modules where the task runs."""

    calls: Calls
    args: Mapping[str, Any]
    names: tuple[str, ...]
    why: str
    boot_id: str

    def read_node(self) -> dict[str, Any]:
        """Return the node, as the API has it."""
        for name in self.names:
            node = self._get("read the node", {"kind": "Node", "name": name})
            if node:
                return dict(node[0])
        known = [drain_kubernetes.name_of(n) for n in self._get("list the nodes", {"kind": "Node"})]
        raise drain.build_unknown_node_error(
            "gpufleet_kubernetes_node", self.names, known, "the cluster"
        )

    def get_standing(self) -> drain.Standing:
        node = self.read_node()
        standing = drain_kubernetes.judge_kubernetes_standing(node, self.args["rollout"])
        if standing.state == "in_service":
            drain_kubernetes.require_same_machine(node, self.boot_id)
        return standing

    def find_kured_lock(self, name: str) -> str:
        """Return who has locked the node by kured; '' if it is not locked.

        Raise PlanError if that is not known.
        """
        daemon_sets = self._get(
            "list the DaemonSets", {"api_version": "apps/v1", "kind": "DaemonSet"}
        )
        return other_owners.describe_kured_lock(
            name, daemon_sets, datetime.datetime.now(datetime.timezone.utc)
        )

    def take_out(self, *, try_only: bool = False) -> None:
        how = self.args["kubernetes_hold"]
        why = self.args["reason"] or self.why
        self._patch(
            "hold the node",
            lambda node: drain_kubernetes.hold(node, self.args["rollout"], why, how),
            "in_service",
            try_only,
        )

    def describe_waiting(self, _left: int, /) -> str:
        node = self.read_node()
        standing = drain_kubernetes.judge_kubernetes_standing(node, self.args["rollout"])
        if standing.state in ("others", "in_service"):
            raise Refused(standing.text or draining_messages.NODE_PUT_BACK.fill(node=standing.node))
        if standing.state == "broken":
            return standing.text
        # held by a run with other settings
        if self.args["method"] == "evict" and drain_kubernetes.find_hold_method(node) == "taint":
            cordons = drain_messages.EVICTION_CORDONS.fill()
            raise Refused(draining_messages.HELD_BY_TAINT.fill(node=standing.node, cause=cordons))
        refused = self._evict(standing.node) if self.args["method"] == "evict" else ""
        pods = self._get(
            LIST_PODS, {"kind": "Pod", "field_selectors": [f"spec.nodeName={standing.node}"]}
        )
        left_ = drain_kubernetes.describe_waiting_pods(pods, self.args["method"])
        if not left_:
            self._must_list_pods(standing.node)
        return f"{left_}{'; ' if refused else ''}{refused}" if left_ else ""

    def _must_list_pods(self, name: str) -> None:
        """Raise PlanError unless the API lists the node's pods.

        k8s_info takes an answer 400, or a list without items, for a node without pods
        (plugins/module_utils/k8s/service.py, `find`). k8s_drain, which only tries here, fails in
        both cases.
        """
        options = {"ignore_daemonsets": True, "force": True, "delete_emptydir_data": True}
        result = self._call(
            "k8s_drain", {"name": name, "state": "drain", "delete_options": options}, check=True
        )
        if result.get("failed"):
            raise drain_kubernetes.build_api_error(result, LIST_PODS)

    def _evict(self, name: str) -> str:
        """Evict pods once; return what a disruption budget refuses, '' if nothing.

        Refused pods are tried again until the time is over.
        """
        options = {"ignore_daemonsets": True, "force": self.args["kubernetes_force"]}
        options["delete_emptydir_data"] = self.args["kubernetes_delete_emptydir_data"]
        result = self._call(
            "k8s_drain", {"name": name, "state": "drain", "delete_options": options}
        )
        if not result.get("failed"):
            return ""
        if drain_kubernetes.is_refused_by_budget(result):
            return drain_kubernetes.get_api_message(result).rstrip(".")
        raise drain_kubernetes.build_api_error(result, "evict the node's pods")

    def give_back(self, *, try_only: bool = False) -> None:
        self._patch("put the node back", drain_kubernetes.release, "held", try_only)

    def keep(self, why: str, *, try_only: bool = False) -> None:
        self._patch(
            "mark the node",
            lambda node: drain_kubernetes.patch_node_reason(node, why),
            "held",
            try_only,
        )

    def _patch(
        self,
        doing: str,
        change: Callable[[Mapping[str, Any]], drain_kubernetes.Patch],
        wanted: str,
        try_only: bool,
    ) -> None:
        """Change the node as it was read.

        If another writer was faster, read it again, and change it only if its standing is still the
        same.
        """
        for _attempt in range(CONFLICTS):
            node = self.read_node()
            standing = drain_kubernetes.judge_kubernetes_standing(node, self.args["rollout"])
            claimed = standing.claimed if wanted == "in_service" else ""
            if claimed or drain_kubernetes.find_node_holder(node, self.args["rollout"]) != wanted:
                raise Refused(
                    claimed
                    or standing.text
                    or draining_messages.NODE_CHANGED_MEANWHILE.fill(node=standing.node)
                )
            what = {
                "api_version": "v1",
                "kind": "Node",
                "name": standing.node,
                "patch": change(node),
            }
            result = self._call("k8s_json_patch", what, check=try_only)
            if not result.get("failed"):
                return
            if not drain_kubernetes.is_api_conflict(result):
                raise drain_kubernetes.build_api_error(result, doing)
        raise Refused(draining_messages.NODE_ALWAYS_CHANGED.fill(doing=doing))

    def _get(self, doing: str, what: Mapping[str, Any]) -> list[dict[str, Any]]:
        result = self._call("k8s_info", {"api_version": "v1", **what})
        if result.get("failed"):
            raise drain_kubernetes.build_api_error(result, doing)
        return kubernetes_core.list_answered_objects(result, doing)

    def _call(
        self, module: str, arguments: Mapping[str, Any], *, check: bool = False
    ) -> dict[str, Any]:
        access = {key: self.args[key] for key in ("kubeconfig", "context") if self.args[key]}
        return kubernetes_core.run_kubernetes_module(
            self.calls,
            module,
            {**access, **arguments},
            messages.KUBERNETES_CORE_FOR_DRAIN,
            check=check,
        )
