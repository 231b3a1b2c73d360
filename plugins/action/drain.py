# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take a host out of service before a change, and back after its verification."""

from __future__ import annotations

import dataclasses as dc
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    draining,
    draining_messages,
    messages,
    orchestrator,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import drain
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
    join_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)

SPEC = arguments.derive_argument_spec("drain")
# seconds within which a node reports itself again after its engine or its agent was restarted
SETTLES = 300


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        # before the argument spec makes a list of a string
        drain.check_commands(self._task.args.get("commands"))
        args = arguments.read_task_options(self, SPEC)
        drain.check_drain_settings(args)
        variables = task_vars or {}
        result = variables.get(args["results"]) or {}
        state, work = args["state"], drain.Work.read_work(result)
        changes = drain.is_driver_changed(args["driver_changes"], get_rollout_task_files(variables))
        decision = drain.decide_drain(
            args["policy"], work, driver_changes=changes, unknown=args["unknown"]
        )
        earlier = variables.get(args["drained"]) or {}
        took = (
            earlier.get("by") or ()
            if state in ("in_service", "kept") and earlier.get("outcome") in ("drained", "pending")
            else ()
        )
        by = drain.list_orchestrators([*args["by"], *took], work, args["commands"])
        if "auto" in args["by"] and args["policy"] != "never" and "work" not in result:
            raise PlanError(messages.LOOK_MISSING.fill(variable=args["results"]))
        needed = decision.drain and state in ("drained", "checked")
        if needed and not by:
            return self._skip_drain(args, decision)
        if state == "checked" and args["policy"] == "never":
            return shape_drain_result("not_needed", decision.why, {}, 0)
        about = base.read_run_reference(self, variables)
        args = {**args, "reason": about.put_before(args["reason"]) if args["reason"] else ""}
        every = draining.choose_orchestrators(
            self, variables, args, work, about.put_before(decision.why), by
        )
        taken = earlier.get("outcome") in ("drained", "pending")
        waits = taken and state == "in_service" and not self._task.check_mode
        standings, silent = draining.ask_for_standings(every, args, needed or taken, waits)
        # The check of a whole fleet leaves locks out: kured locks one host at a time, and cordons
        # it at once.
        if state == "drained":
            standings, unread = draining.add_lock_owners(every, standings)
            silent += unread
        run = Run(
            args,
            decision,
            {who: every[who] for who in standings},
            bool(self._task.check_mode),
            standings,
            tuple(silent),
        )
        try:
            return {
                "drained": run.drain,
                "in_service": run.give_back,
                "kept": run.keep,
                "checked": run.check_host,
            }[state]()
        except orchestrator.Refused as error:
            raise PlanError(messages.NODE_HELD.fill(reason=str(error))) from None

    def _skip_drain(self, args: Mapping[str, Any], decision: drain.DrainDecision) -> dict[str, Any]:
        """Return the result for a host that no orchestrator can drain.

        Raise PlanError if the drain was asked for by name. Otherwise the change goes on as without
        a rollout.
        """
        why = drain.describe_no_orchestrator(decision)
        if args["policy"] == "always":
            raise PlanError(messages.NOBODY_DRAINS.fill(reason=why))
        return shape_drain_result("not_needed", why, {}, 0)


def get_rollout_task_files(variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the files of tasks of the rollout that runs this task; {} outside of a rollout."""
    settings = (variables.get(registered.ROLLOUT_SETTINGS) or {}).get("settings") or {}
    return settings.get("tasks") or {}


@dc.dataclass(frozen=True)
class StillOut:
    """The orchestrators that did not put a host back after a drain that did not come about.

    said: a sentence for each orchestrator that could not. held: whether one of them may hold the
    host for this rollout.
    """

    said: tuple[str, ...] = ()
    held: bool = False


@dc.dataclass(frozen=True)
class Run:
    """One task: the orchestrators, with the node's standing as each of them saw it at the
    beginning.
    """

    args: Mapping[str, Any]
    decision: drain.DrainDecision
    every: Mapping[str, orchestrator.Orchestrator]
    check: bool
    standings: Mapping[str, drain.Standing]
    silent: tuple[str, ...]

    def check_host(self) -> dict[str, Any]:
        """Judge whether the rollout can have the host.

        A host that others work on, or that they keep out of service, is left out, regardless of
        what its own change needs.
        """
        obstacle = drain.explain_drain_obstacle(self.standings)
        if obstacle:
            return self._end("left_out", obstacle, failed=True)
        for who in self._bring_in_service() if self.decision.drain else ():
            self.every[who].take_out(try_only=True)
        return self._end("ready" if self.decision.drain else "not_needed", self.decision.why)

    def drain(self) -> dict[str, Any]:
        """Drain the host, and wait for its work to end.

        A drain that an earlier run of this rollout has left is taken up, even if the host does not
        need a drain any more.
        """
        already = drain.list_held_standings(self.standings)
        obstacle = drain.explain_drain_obstacle(self.standings)
        if obstacle and (self.args["policy"] != "never" or already):
            return self._end("left_out", obstacle, failed=True)
        if not self.decision.drain and not already:
            return self._end("not_needed", self.decision.why)
        taken = self._bring_in_service() if self.decision.drain else ()
        began = time.monotonic()
        try:
            for who in taken:
                self.every[who].take_out(try_only=self.check)
            waiting = (
                {} if self.check else self._wait([*taken, *already], began + self.args["timeout"])
            )
        except (PlanError, orchestrator.Refused) as error:
            return self._refuse_drain(str(error), taken)
        seconds = round(time.monotonic() - began)
        if not waiting:
            why = (
                self.decision.why
                if self.decision.drain
                else draining_messages.DRAINED_BEFORE.fill()
            )
            return self._end("drained", why, changed=bool(taken), seconds=seconds)
        keep = self.args["on_timeout"] == "keep"
        # A host that an earlier run holds stays held: its change may have failed.
        stays = StillOut() if keep else self._give_back(taken)
        seconds_given = self.args["timeout"]
        text = drain.describe_drain_timeout(waiting, seconds_given, keep, already, stays.said)
        return self._end(
            "pending" if keep else "left_out",
            text,
            failed=True,
            changed=stays.held or (keep and bool(taken)),
            seconds=seconds,
        )

    def _bring_in_service(self) -> tuple[str, ...]:
        return tuple(who for who, s in self.standings.items() if s.state == "in_service")

    def _wait(self, whom: Iterable[str], end: float) -> dict[str, str]:
        """Return what is still running when the time is over, by orchestrator.

        All that hold the host wait at the same time.
        """
        asked = {who: self.every[who] for who in whom}
        while True:
            waiting = {
                who: text
                for who, one in asked.items()
                if (text := describe_remaining_work(one, max(1, round(end - time.monotonic()))))
            }
            if not waiting or time.monotonic() >= end:
                return waiting
            # The pause between two questions; the last question is at `end`. scontrol and the
            # user's command report a state only when asked. Watching pods would serve only one of
            # the three orchestrators.
            time.sleep(min(self.args["interval"], max(0.0, end - time.monotonic())))

    def _refuse_drain(self, text: str, taken: tuple[str, ...]) -> dict[str, Any]:
        """Leave the node as it was found after a refused drain."""
        stays = StillOut() if self.check else self._give_back(taken)
        refused = draining_messages.NOT_DRAINED.fill(cause=text)
        said = join_texts(". ", [refused, *stays.said])
        return self._end("left_out", said, failed=True, changed=stays.held)

    def _give_back(self, whom: tuple[str, ...]) -> StillOut:
        """Give back what this task took. Return what was not put back."""
        failed: list[str] = []
        of_others = 0
        for who in reversed(whom):
            try:
                standing = self.every[who].get_standing()
                if standing.state == "held":
                    failed += self._put_back([who])
                elif standing.state != "in_service":
                    row = draining_messages.NOT_PUT_BACK_BY
                    failed.append(row.fill(program=who, cause=standing.text))
                    of_others += standing.state == "others"
            except (PlanError, orchestrator.Refused) as error:
                row = draining_messages.PUT_BACK_FAILED
                failed.append(row.fill(program=who, cause=str(error)))
        return StillOut(tuple(failed), len(failed) > of_others)

    def _put_back(self, held: Iterable[str]) -> list[str]:
        """Ask each orchestrator to put the host back, those after one that refuses, too.

        Return a sentence for each that could not.
        """
        failed: list[str] = []
        for who in held:
            try:
                self.every[who].give_back(try_only=self.check)
            except (PlanError, orchestrator.Refused) as error:
                row = draining_messages.PUT_BACK_FAILED
                failed.append(row.fill(program=who, cause=str(error)))
        return failed

    def give_back(self) -> dict[str, Any]:
        mine = [who for who in reversed(drain.ORCHESTRATORS) if who in self.every]
        standings = dict(self.standings)
        if not self.check:
            seconds = min(SETTLES, self.args["timeout"])
            standings = wait_until_settled(self.every, standings, seconds, self.args["interval"])
        held = [who for who in mine if standings[who].state == "held"]
        broken = "; ".join(s.text for s in standings.values() if s.state == "broken")
        if broken:
            left_out = draining_messages.NOT_PUT_BACK.fill(cause=broken)
            return self._end("kept", left_out, failed=True)
        failed = self._put_back(held)
        if failed:
            left_out = draining_messages.NOT_PUT_BACK.fill(cause=join_texts("; ", failed))
            return self._end("kept", left_out, failed=True, changed=len(failed) < len(held))
        left = "; ".join(s.text for s in standings.values() if s.state == "others")
        done = (draining_messages.PUT_BACK if held else draining_messages.NOT_HELD).fill()
        asked = bool(self.every)
        return self._end(
            "in_service" if asked else "not_needed",
            left or (done if asked else draining_messages.NO_ORCHESTRATOR_ASKED.fill()),
            changed=bool(held),
        )

    def keep(self) -> dict[str, Any]:
        """Mark the node as kept out of service, with the reason.

        A broken node may be held as well. Only the call that keeps it shows who holds it.
        """
        why = drain.get_drain_text(self.args["reason"], draining_messages.CHANGE_FAILED.fill())
        held: list[str] = []
        refused: list[Exception] = []
        for who, standing in self.standings.items():
            if standing.state not in ("held", "broken"):
                continue
            try:
                self.every[who].keep(why, try_only=self.check)
                held.append(who)
            except (PlanError, orchestrator.Refused) as error:
                if standing.state == "held" or isinstance(error, PlanError):
                    refused.append(error)
        if len(refused) == 1:
            raise refused[0]
        if refused:
            raise orchestrator.Refused(join_texts("; ", map(str, refused)))
        return self._end(
            "kept" if held else "not_needed",
            why if held else draining_messages.NOT_HELD_BY_ROLLOUT.fill(),
            changed=bool(held),
        )

    def _end(
        self,
        outcome: str,
        why: str,
        *,
        failed: bool = False,
        changed: bool = False,
        seconds: int = 0,
    ) -> dict[str, Any]:
        result = shape_drain_result(
            outcome, "; ".join([why, *self.silent]), self.standings, seconds, changed=changed
        )
        return {**result, "failed": True, "msg": end_with_code(why)} if failed else result


def wait_until_settled(
    every: Mapping[str, orchestrator.Orchestrator],
    before: Mapping[str, drain.Standing],
    seconds: float,
    interval: float,
) -> dict[str, drain.Standing]:
    """Return how a host stands once no orchestrator calls it broken, or when the time is over.

    An orchestrator may be out of reach meanwhile. Raises OutOfReach if it still is at the end.
    """
    end = time.monotonic() + seconds
    standings = dict(before)
    silent: drain.OutOfReach | None = None
    while any(s.state == "broken" for s in standings.values()) and time.monotonic() < end:
        # A node reports itself again some time after its agent was restarted, without an event
        # here. As in _wait, the last question is at `end`.
        time.sleep(min(interval, max(0.0, end - time.monotonic())))
        try:
            standings = {who: one.get_standing() for who, one in every.items()}
            silent = None
        except drain.OutOfReach as error:
            silent = error
    if silent:
        raise silent
    return standings


def describe_remaining_work(one: orchestrator.Orchestrator, left: int) -> str:
    """Return what a host waits for; '' if the work has ended.

    An orchestrator that is out of reach for a while has not reported that the work ended.
    """
    try:
        return one.describe_waiting(left)
    except drain.OutOfReach as error:
        return str(error)


def shape_drain_result(
    outcome: str,
    why: str,
    standings: Mapping[str, drain.Standing],
    seconds: int,
    *,
    changed: bool = False,
) -> dict[str, Any]:
    """Return the result of a task.

    outcome: a word of the module's RETURN. why: the reason, '' for none. standings: orchestrator ->
    how it sees the host. seconds: the duration.
    """
    nodes = {who: dc.asdict(s) for who, s in standings.items()}
    return {
        "changed": changed,
        "outcome": outcome,
        "why": why,
        "by": list(standings),
        "nodes": nodes,
        "seconds": seconds,
    }
