# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a transaction to its end, from nothing but the journal: by the executor itself, the next
one, the timer, or at boot.

Every step may have been done before, whole or in part, and is done again without harm. Each state
asks for this:

    prepared     commands may have run: undo them
    armed        the same
    swapping     files, directories and switched-off units may be new: all of the above, and these back; restart what started meanwhile
    swapped      the same, and restart what the executor has restarted
    probation    all was well: commit if it still is (or if the host has been switched off since), else as `swapped`
    undoing      it was being taken back: begin again, from the state it was in before; what has been undone or switched on again is
                 not repeated, and units that run again since are left alone (`undone`, `enabled` and `back` of the state)
    committed    only tidy up
    rolled_back  only tidy up

Host side: standard library only, Python 3.6.
"""

import contextlib
import os
import shutil
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
    journal,
    system,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    deadline,
    health,
    journal_writer,
    orphans,
    swap,
    waiting,
)

_JOB_KEPT = 24 * 3600  # another caller may just be waiting for its turn
QUICK = 10  # seconds to wait for an answer, when a transaction on probation is judged, or at boot
EXECUTOR = "the executor"  # itself, which takes back what it has done
FINAL = ("committed", "rolled_back")
_EARLY = ("prepared", "armed")


def recover_open_transactions(root, base, by, only=None, booting=False):
    """End every open transaction (or the one with this id).

    Return what became of each. The caller holds the lock.
    """
    outcomes = []
    for name in journal.list_transaction_names(base, "open"):
        meta = journal.read_transaction(base, name)
        if only and not name.endswith("-" + only):
            continue
        if meta is None:  # it never began
            shutil.rmtree(os.path.join(base, "journal", ".new-" + name), ignore_errors=True)
            journal_writer.settle_transaction(base, name)
            continue
        if not meta["closed"]:
            _require_readable(base, meta)
        if meta["closed"] or (booting and meta.get("boot") == system.name_boot()):
            continue
        outcome = _end_transaction(root, base, meta, by, booting)
        if outcome is not None:
            outcomes.append(outcome)
    if only is None:
        _remove_leftovers(base, booting)
    return outcomes


def _require_readable(base, meta):
    """Refuse an entry that is empty or of an unknown form: it must be neither passed over nor
    guessed at.

    Raise HostError.
    """
    if meta.get("schema") == journal.SCHEMA and meta["states"]:
        return
    newer = meta.get("schema") not in (None, journal.SCHEMA)
    why = (
        "was written by another release (schema %r)" % (meta["schema"],)
        if newer
        else "cannot be read"
    )
    step = (
        "finish it with that release"
        if newer
        else "put the files back by hand from the copies in it"
    )
    values = (meta["entry"], why, step, os.path.join(base, "open", meta["name"]))
    raise host_files.HostError(
        "failed",
        "%s: this transaction is not finished, and its entry %s; %s, then remove %s" % values,
    )


def _remove_leftovers(base, booting):
    """Remove what dead processes had no time to remove.

    These are copies for validators, and jobs that no caller waits for any more.
    """
    for name in os.listdir(base):
        if name.startswith("stage-"):
            shutil.rmtree(os.path.join(base, name), ignore_errors=True)
    for name in journal.list_transaction_names(base, "job"):
        path = os.path.join(base, "job", name)
        with contextlib.suppress(FileNotFoundError):  # its own caller was quicker
            if booting or os.stat(path).st_mtime < time.time() - _JOB_KEPT:
                shutil.rmtree(path, ignore_errors=True)


def _end_transaction(root, base, meta, by, booting):
    """Return what became of a transaction that had to be taken back; None if all was well and
    little was left to do.
    """
    again = meta.get("boot") != system.name_boot()
    if meta["state"] == "probation" and not root:
        why = None if booting or again else judge_probation(meta)
        if why is None:
            commit(root, base, meta)
            return None
        return take_back_transaction(root, base, meta, why, by)
    if meta["state"] in FINAL:
        close_transaction(root, base, meta)
        return None
    if meta["state"] == "undoing":
        why = meta["states"][-1].get("why") or "it was interrupted during its rollback"
    else:
        why = (
            "the host was switched off in the middle of it"
            if again
            else "its process died in the middle (state %s)" % meta["state"]
        )
    return take_back_transaction(root, base, meta, why, by, booting)


def judge_probation(meta):
    """Return why a transaction on probation does not pass; None if it does."""
    last = meta["states"][-1]
    why = health.explain_crashed_units(
        meta["units"], last.get("restarts") or [0] * len(meta["units"])
    )
    if why is not None or health.are_all_stopped(meta["units"]):
        return why
    for check in meta["health"]:
        judged = health.wait_for_health(dict(check, timeout=QUICK))
        if not judged["ok"]:
            return judged["evidence"]
    return None


def commit(root, base, meta):
    """Note that the change stands, and tidy up."""
    journal_writer.mark_state(meta["entry"], "committed")
    close_transaction(root, base, dict(meta, state="committed"))


def close_transaction(root, base, meta):
    """Tidy up after the decision, and take the watch away last."""
    swap.remove_leftovers(root, meta["changes"], meta["id"])
    if meta["state"] == "committed":
        journal_writer.settle_originals(base, meta["changes"])
        journal_writer.drop_forgotten(base, meta["changes"])
    deadline.cancel_timer(base, meta)
    journal_writer.mark_state(meta["entry"], meta["state"], closed=True)
    if meta["state"] == "committed" or not meta["changes"]:
        journal_writer.settle_transaction(base, meta["name"])
    journal_writer.prune(base)


def take_back_transaction(root, base, meta, why, by, booting=False, evidence=()):
    """Restore everything as it was before. Return {"outcome", "foreign", "health", "trouble", ...}.

    An exception leaves the transaction open. A file that cannot come back is one, after all else
    is back.
    """
    entry = meta["entry"]
    forward = dict(_find_forward_state(meta), why=why, by=by)
    _mark_undoing(meta, forward)
    acted = _list_acted_units(meta, forward) if not root else []
    logs = [] if booting else [_read_unit_log(unit, meta) for unit in acted]
    outcome = {
        "id": meta["id"],
        "time": meta.get("time"),
        "reason": meta.get("reason"),
        "outcome": "rolled_back",
        "why": why,
        "by": by,
    }
    outcome.update(foreign=[], health=list(evidence) + logs, trouble=None, ran=[])
    checks = _checks_back(meta, acted, booting)
    lost = None
    if forward["state"] not in _EARLY:
        outcome["foreign"], lost = swap.take_back_files(root, meta["changes"], meta["id"], entry)
    if not root:
        if forward["state"] not in _EARLY:
            _enable_units(meta, forward, outcome, booting)
        if by != EXECUTOR and meta["commands"]:
            with _note_trouble(outcome):
                # No longer than any of them may take: the time of the caller is measured by that
                # (`deadline.compute_time_limit`).
                within = max(
                    command.get("timeout") or health.ENDS_WITHIN for command in meta["commands"]
                )
                orphans.require_ended(deadline.name_transaction_unit(meta["id"]), within)
        _undo_commands(base, meta, forward, outcome, booting)
        if not booting:
            if forward.get("back") or (lost and by != EXECUTOR):
                # Each run comes here until the entry is closed. It must not restart what serves.
                acted = _list_stopped_units(acted)
            _bring_units_back(base, meta, acted, checks, outcome)
            if not lost:
                forward["back"] = True
                _mark_undoing(meta, forward)
    if lost:
        raise host_files.HostError(
            lost.kind, "; ".join(filter(None, [lost.message, outcome["trouble"]])), lost.following
        )
    # After the units: a disk that is too full for this must not keep them from running with the
    # files from before.
    journal_writer.restore_originals(base, meta["changes"], outcome["foreign"])
    with contextlib.suppress(OSError):
        journal_writer.write_json(os.path.join(entry, "outcome.json"), outcome)
    journal_writer.mark_state(entry, "rolled_back", why=why, by=by)
    close_transaction(root, base, dict(meta, state="rolled_back"))
    return outcome


def _mark_undoing(meta, forward):
    """Note how far the way back is. forward: the last state before it, with what is done since.

    A mark that cannot be written must not keep the files from coming back.
    """
    with contextlib.suppress(OSError):
        journal_writer.mark_state(
            meta["entry"],
            "undoing",
            was=forward["state"],
            acted=forward.get("acted", 0),
            ran=forward.get("ran", len(meta["commands"])),
            undone=forward.get("undone", 0),
            enabled=forward.get("enabled", 0),
            back=forward.get("back", False),
            why=forward["why"],
            by=forward["by"],
        )


@contextlib.contextmanager
def _note_trouble(outcome):
    """Note a HostError as trouble of the outcome; the rest is taken back all the same."""
    try:
        yield
    except host_files.HostError as exc:
        outcome["trouble"] = outcome["trouble"] or exc.message


def _find_forward_state(meta):
    """Return the last state of the entry before the transaction was taken back."""
    for state in reversed(meta["states"]):
        if state["state"] == "undoing":
            return dict(state, state=state["was"])
        if state["state"] not in FINAL:
            return state
    return {"state": "prepared"}


def _list_acted_units(meta, forward):
    """List the units that may run with the new files. forward: the last state before the way back.

    These are the units that the executor acted on, and units that have begun again by themselves
    since.
    """
    if forward["state"] in _EARLY:
        return []
    if forward["state"] in ("swapped", "probation"):
        return meta["units"][: forward.get("acted", len(meta["units"]))]
    present = health.read_unit_states([unit["name"] for unit in meta["units"]])
    before = meta["units_before"]
    return [
        unit
        for unit in meta["units"]
        if present[unit["name"]].get("InvocationID") != before[unit["name"]].get("InvocationID")
    ]


def _list_stopped_units(units):
    present = health.read_unit_states([unit["name"] for unit in units])
    return [unit for unit in units if present[unit["name"]].get("ActiveState") != "active"]


def _checks_back(meta, acted, booting):
    """List the checks that must pass once the files are back.

    A program that takes the files up by itself does so later, so only an answer of another process
    counts.
    """
    itself = any(unit["action"] == "wait" for unit in acted)
    checks = [dict(check, require=[]) for check in meta["health"]] if acted and not booting else []
    return [health.require_replacement(check) for check in checks] if itself else checks


def _read_unit_log(unit, meta):
    try:
        return health.log(unit["name"], meta.get("epoch", 0), meta.get("causes") or [])
    except Exception:  # evidence is welcome, and must not keep the files from coming back
        return {
            "kind": "log",
            "name": unit["name"],
            "ok": False,
            "seconds": 0.0,
            "evidence": "",
            "failed": False,
            "causes": [],
        }


def _enable_units(meta, forward, outcome, booting):
    """Switch on again what the transaction has switched off, the last first, and note each.

    The entry may stay open for long, while a person switches one off again.
    """
    enabled = forward.get("enabled", 0)  # a bit for each
    for number, before in reversed(list(enumerate(meta["disabled"]))):
        if not enabled >> number & 1:
            with _note_trouble(outcome):
                health.enable(before, wait=not booting)
                enabled |= 1 << number
                forward["enabled"] = enabled
                _mark_undoing(meta, forward)


def _undo_commands(base, meta, forward, outcome, booting):
    """Undo the commands, the last first, and note each that is undone.

    The entry may stay open for long, while a person installs again what was removed.
    """
    ran = meta["commands"][: forward.get("ran", len(meta["commands"]))]
    undone = forward.get("undone", 0)  # a bit for each: a state has room for 512 bytes
    for number, command in reversed(list(enumerate(ran))):
        if command.get("undo") and not undone >> number & 1:
            with _note_trouble(outcome), waiting.write_awaited_units(base, command["undo"]):
                _undo(command, outcome, booting)
                undone |= 1 << number
                forward["undone"] = undone
                _mark_undoing(meta, forward)


def _undo(command, outcome, booting):
    """Undo one command. Raise HostError if that fails.

    A boot that waits for a long undo, such as a package manager's, would kill it in its middle:
    that is left to a person.
    """
    shown, within = " ".join(command["undo"]), command.get("undo_within") or health.ENDS_WITHIN
    if booting and (command.get("undo_within") or 0) > QUICK:
        raise host_files.HostError(
            "failed", "the command was cut short, and a boot cannot undo it; run: %s" % shown
        )
    within = QUICK if booting else within
    ended = commands.run(command["undo"], within, env=command.get("env"))
    outcome["ran"].append({"argv": command["undo"], "rc": ended["rc"], "output": "", "why": "undo"})
    if ended["rc"] not in [0] + (command.get("undo_accepts") or command.get("accepts") or []):
        end = (
            "no end within %d s" % within if ended["timed_out"] else "exit status %d" % ended["rc"]
        )
        raise host_files.HostError("failed", "%s: %s" % (shown, end))


def _choose_way_back(unit, before):
    """Return the action that brings a unit back.

    A unit that was only reloaded, and still runs, is only reloaded again: a restart may end what it
    carries.
    """
    if unit["action"] == "wait":
        return "wait"
    if before in ("inactive", "failed"):
        return "stop"
    runs = (
        unit["action"] == "reload"
        and health.read_unit_states([unit["name"]])[unit["name"]].get("ActiveState") == "active"
    )
    return "reload" if runs else "restart"


def _bring_units_back(base, meta, acted, checks, outcome):
    """Run again what ran before.

    A unit that did not run (or crashed already) is not expected to.
    """
    if not acted or (health.stop_signals and health.is_going_down()):
        return
    before = {unit["name"]: meta["units_before"][unit["name"]].get("ActiveState") for unit in acted}
    ran_before = [unit for unit in acted if before[unit["name"]] in ("active", "reloading")]
    for unit in acted:
        try:
            with waiting.write_awaited_units(base, [unit["name"]]):
                health.run_unit_action(
                    unit["name"],
                    _choose_way_back(unit, before[unit["name"]]),
                    unit.get("timeout", health.DEFAULT_TIMEOUT),
                )
            # one that has failed since would stay so, and its file may be gone
            if before[unit["name"]] == "inactive":
                health.run_unit_action(unit["name"], "reset-failed")
        except host_files.HostError as exc:
            if unit in ran_before:
                outcome["trouble"] = outcome["trouble"] or exc.message
    for check in checks if ran_before and outcome["trouble"] is None else ():
        judged = dict(health.wait_for_health(check), after="rollback")
        outcome["health"].append(judged)
        if not judged["ok"]:
            outcome["trouble"] = "%s: %s" % (check["socket"], judged["evidence"])
            return
