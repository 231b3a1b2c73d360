# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether a host is taken out of service before a change, by which orchestrator, and in
which words.

Other modules ask Ansible and the clusters.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import drain_messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names

COMMANDS, SLURM, KUBERNETES = ORCHESTRATORS = ("commands", "slurm", "kubernetes")
STEPS = ("before", "wait", "after", "marked")
# The mark on a Kubernetes node may be the value of a label. Nothing in it has a meaning to Slurm's
# own parser of reasons.
ID = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
LONGEST = 30 * 24 * 3600
NAMED = 5
# what hostname(7) allows: no option of a program, no list of nodes
HOSTNAME = re.compile(r"[a-z0-9]([a-z0-9_.-]{0,251}[a-z0-9])?")


class OutOfReach(PlanError):
    """An error for an orchestrator that does not answer at the moment.

    A drain that has begun waits until it answers. No drain begins without an answer.
    """


@dc.dataclass(frozen=True)
class Work:
    """The work on a host, as the look at it reports it (`work` of host_info)."""

    hostname: str = ""
    boot_id: str = ""
    orchestrators: tuple[str, ...] = ()  # those whose agent runs there: kubernetes, slurm
    ends: tuple[str, ...] = ()  # containers that the planned restart ends, or that hold it up
    gpu_processes: tuple[str, ...] = ()  # processes that hold the driver's device nodes

    @staticmethod
    def read_work(result: Mapping[str, Any]) -> Work:
        """Return the work of a host from the result of its look."""
        known: Mapping[str, Any] = result.get("work") or {}
        lists = {
            key: tuple(str(v) for v in known.get(key) or ())
            for key in ("orchestrators", "ends", "gpu_processes")
        }
        return Work(str(known.get("hostname") or ""), str(known.get("boot_id") or ""), **lists)


@dc.dataclass(frozen=True)
class DrainDecision:
    """A decision to drain a host or not, with the reason."""

    drain: bool
    why: str


UNKNOWN = "unknown: "  # begins the entry of `gpu_processes` that says what is not known


def decide_drain(
    policy: str, work: Work, *, driver_changes: bool = False, unknown: str = "drain"
) -> DrainDecision:
    """Decide whether to drain a host. `auto` drains if the change would end work.

    A restart ends containers. A change of the driver ends GPU processes.

    unknown: `drain` or `go_on`, for a host whose GPU processes are not known.
    """
    if policy == "never":
        return DrainDecision(False, drain_messages.NEVER.fill())
    if policy == "always":
        return DrainDecision(True, drain_messages.ALWAYS.fill())
    if work.ends:
        containers = count_with_names(work.ends, "container")
        return DrainDecision(True, drain_messages.RESTART_ENDS.fill(containers=containers))
    known = [process for process in work.gpu_processes if not process.startswith(UNKNOWN)]
    hidden = "; ".join(
        process.removeprefix(UNKNOWN) for process in work.gpu_processes if process not in known
    )
    if driver_changes and known:
        processes = count_with_names(known, "process", "processes")
        return DrainDecision(True, drain_messages.GPUS_USED.fill(processes=processes))
    if driver_changes and hidden:
        drains = unknown == "drain"
        row = drain_messages.GPUS_UNKNOWN if drains else drain_messages.GPUS_UNKNOWN_GO_ON
        return DrainDecision(drains, row.fill(hidden=hidden))
    row = drain_messages.GPUS_FREE if driver_changes else drain_messages.ENDS_NOTHING
    return DrainDecision(False, row.fill())


def is_driver_changed(said: bool | None, tasks: Mapping[str, Any]) -> bool:
    """Tell whether the change ends GPU processes: what the setting `said`, else whether there are
    tasks for `change`.

    tasks: the user's files of a rollout. Those of `change` may load a driver or reboot the host.
    """
    return bool(tasks.get("change")) if said is None else said


def count_with_names(found: Sequence[str], one: str, many: str = "") -> str:
    """Return the number and the first few names, as '2 containers (a, b)'."""
    return f"{names.count_noun(len(found), one, many)} ({names.show_few_texts(found, NAMED)})"


def list_orchestrators(
    by: Sequence[str], work: Work, commands: Mapping[str, Any]
) -> tuple[str, ...]:
    """List the orchestrators that drain the host, in the order in which it is taken out of service.

    `auto` stands for each one that runs on the host, and for `commands` if there are any.
    """
    orchestrators = {*by} - {"auto"}
    if "auto" in by:
        orchestrators |= {*work.orchestrators, *([COMMANDS] if commands else [])}
    return tuple(name for name in ORCHESTRATORS if name in orchestrators)


def is_orchestrator_asked(
    policy: str, by: Sequence[str], work: Work, commands: Mapping[str, Any]
) -> bool:
    """Tell whether to ask the orchestrators of a host before a rollout is planned.

    With `always` the answer is yes even without an orchestrator: asking then reports that as an
    error.
    """
    return policy == "always" or (
        policy != "never" and bool(list_orchestrators(by, work, commands))
    )


def check_drain_settings(options: Mapping[str, Any]) -> None:
    """Raise PlanError for the first setting with which no host could be drained."""
    check_commands(options.get("commands"))
    for name, variable in (
        ("timeout", "gpufleet_drain_timeout"),
        ("interval", "gpufleet_drain_interval"),
    ):
        if not 1 <= options[name] <= LONGEST:
            row = drain_messages.DRAIN_TIME
            raise PlanError(row.fill(setting=variable, value=options[name], longest=LONGEST))
    if options["interval"] > options["timeout"]:
        row = drain_messages.INTERVAL_TOO_LONG
        raise PlanError(row.fill(interval=options["interval"], timeout=options["timeout"]))
    if not ID.fullmatch(options["rollout"]):
        raise PlanError(drain_messages.ROLLOUT_ID.fill(value=options["rollout"]))
    by = options["by"]
    if not by:
        raise PlanError(drain_messages.BY_NOBODY.fill())
    if COMMANDS in by and not options.get("commands"):
        raise PlanError(drain_messages.BY_MISSING_COMMANDS.fill())
    if SLURM in by and options["method"] == "evict":
        raise PlanError(drain_messages.SLURM_CANNOT_EVICT.fill())
    if options["method"] == "evict" and options.get("kubernetes_hold") == "taint":
        raise PlanError(drain_messages.TAINT_CANNOT_EVICT.fill())


def check_commands(commands: Any) -> None:
    """Raise PlanError unless each command is a list of words, and `before` and `after` are both
    there.

    So no shell reads the words.
    """
    if not commands:
        return
    if not isinstance(commands, Mapping):
        raise PlanError(drain_messages.COMMANDS_NOT_A_DICTIONARY.fill())
    unknown = sorted(str(key) for key in set(commands) - set(STEPS))
    if unknown:
        row = drain_messages.UNKNOWN_COMMAND
        raise PlanError(row.fill(key=unknown[0], known=", ".join(STEPS)))
    for step, argv in commands.items():
        _check_argv(step, argv)
    for step in ("before", "after"):
        if not commands.get(step):
            raise PlanError(drain_messages.COMMAND_MISSING.fill(step=step))


def _check_argv(step: str, argv: Any) -> None:
    good = (
        isinstance(argv, (list, tuple))
        and argv
        and all(isinstance(word, (str, int, float)) for word in argv)
        and str(argv[0]).strip()
    )
    if not good:
        is_text = isinstance(argv, str)
        row = drain_messages.COMMAND_IS_TEXT if is_text else drain_messages.COMMAND_NOT_A_LIST
        raise PlanError(row.fill(step=step, value=argv))
    if any("\0" in str(word) for word in argv):
        raise PlanError(drain_messages.NULL_CHARACTER.fill(step=step))


LONGEST_REASON = 200


def get_drain_text(reason: str, why: str) -> str:
    """Return the text that people read beside a mark: the user's ticket (`reason`), else the reason
    of the drain.

    The latter (`why`) may contain a host's own words. So the text is plain ASCII without quotes and
    =[], and LONGEST_REASON long at most.
    """
    plain = re.sub(r"[^\x20-\x7e]|[=\[\]]", " ", re.sub("[\"']", "", reason or why))
    text = " ".join(plain.split())
    if len(text) <= LONGEST_REASON:
        return text
    cut = text[: LONGEST_REASON - 3]
    whole = cut.rpartition(" ")[0]
    return f"{whole if len(whole) > LONGEST_REASON // 2 else cut}..."


@dc.dataclass(frozen=True)
class Standing:
    """A node's current state for an orchestrator.

    state: in_service, held (out of service by this rollout), others (out of service by someone
    else),
        or broken (it does not work, whoever holds it).
    text: one sentence without its end, '' for in_service.
    claimed: another owner that is working on the host, by a mark that keeps no work off it; '' if there is none.
    """

    state: str
    text: str = ""
    node: str = ""
    claimed: str = ""

    @property
    def obstacle(self) -> str:
        return self.claimed or (self.text if self.state in ("others", "broken") else "")


def explain_drain_obstacle(standings: Mapping[str, Standing]) -> str:
    """Explain why this rollout cannot take the host out of service, '' if it can."""
    return "; ".join(f"{who}: {s.obstacle}" for who, s in standings.items() if s.obstacle)


def list_held_standings(standings: Mapping[str, Standing]) -> tuple[str, ...]:
    """Return the orchestrators that this rollout has taken the host out of service with."""
    return tuple(who for who, s in standings.items() if s.state == "held")


def describe_no_orchestrator(decision: DrainDecision) -> Message:
    """Return the message about a host that has to be drained, and that no program can drain."""
    return drain_messages.NO_ORCHESTRATOR.fill(reason=decision.why)


def describe_drain_timeout(
    waiting: Mapping[str, str],
    seconds: int,
    keep: bool,
    before: Sequence[str] = (),
    stays: Sequence[str] = (),
) -> str:
    """Build the sentence of a drain that did not end in time.

    before: the orchestrators that held the node already when the run began.
    stays: a sentence for each orchestrator that holds it since.
    """
    left = "; ".join(f"{who}: {text}" for who, text in waiting.items())
    given = {"seconds": seconds, "waits": left}
    if keep:
        return drain_messages.TIMED_OUT_KEPT.fill(**given)
    if stays:
        return drain_messages.TIMED_OUT_STAYS.fill(**given, stays=". ".join(stays))
    if before:
        return drain_messages.TIMED_OUT_HELD_BEFORE.fill(**given, held=" and ".join(before))
    return drain_messages.TIMED_OUT.fill(**given)


def list_node_names(
    given: str, work: Work, inventory_hostname: str, others: Collection[str] = (), setting: str = ""
) -> tuple[str, ...]:
    """List the names that the cluster may have for the host: `given` alone if the user sets it.

    Else these are the host's own name for itself, and its name in the inventory. The host's own
    name proves nothing: if another host of the inventory has it, the drain would hit that one.
    Raise PlanError in that case.
    """
    if given:
        return (given,)
    own = work.hostname.lower()
    short = own.partition(".")[0]
    mine = {inventory_hostname.lower(), inventory_hostname.lower().partition(".")[0]}
    taken = {other.lower() for other in others} - mine - {"localhost"}
    ambiguous = next((name for name in (own, short) if name in taken), "")
    if ambiguous:
        row = drain_messages.AMBIGUOUS_NAME
        raise PlanError(row.fill(name=work.hostname, host=inventory_hostname, setting=setting))
    names_ = (own, short) if HOSTNAME.fullmatch(own) else ()
    return tuple(dict.fromkeys(n for n in (*names_, inventory_hostname) if n))


def build_unknown_node_error(
    setting: str, tried: Sequence[str], known: Sequence[str], where: str
) -> PlanError:
    """Build the error for a node that the cluster has under none of its names."""
    given = {"setting": setting, "tried": " or ".join(tried), "where": where}
    if not known:
        return PlanError(drain_messages.NO_NODES.fill(**given))
    return PlanError(drain_messages.NO_NODE.fill(**given, known=names.show_some_runs(known)))
