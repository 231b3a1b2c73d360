# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one transaction, step by step: a list of file, package and unit changes, all of them or
none.

    lock -> recover -> expect -> commands -> stage, validate -> journal -> arm the watch -> swap -> units -> health -> commit
                                   |                            \\______________ any failure: take back ______________/
                                   check mode ends after this

It knows files, commands and units. What any of it is for, only the controller knows. rollback.py
lists what each state in the journal asks of the program that finds it. Host side: standard library
only, Python 3.6.
"""

import contextlib
import os
import signal
import threading

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    causes,
    commands,
    failures,
    host_files,
    journal,
    keyed,
    system,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import cri
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    container_snapshot,
    deadline,
    health,
    journal_writer,
    rollback,
    staging,
    swap,
    waiting,
)

SCHEMA = 1
DEFAULT_DIR = "/var/lib/gpufleet"
_NEXT = {
    "request": "Nothing was done; only this collection's own modules write such requests, see the documentation of the module host_program",
    "lock": "Nothing was changed; correct what the message names, then run again",
    "recover": "Nothing was done; the message says what prevents the rollback of an earlier transaction",
    "expect": "The host changed since it was inspected; run the task again",
    "command": "Run the command on the host by hand; nothing else was changed",
    "stage": "Nothing was changed; correct what the message names, then run again",
    "validate": "Nothing was changed; the findings say what is refused",
    "backup": "Nothing was changed; correct what the message names, then run again",
    "rollback": "The files from before are in the journal's directory; put them back by hand and look at the units",
}
_UNDO = "No file was changed; correct the cause, run the command that failed by hand to take back what ran before it, then run again"
_FILES_BACK = "The files are as before; correct what the message names, then start what does not run, and run again"
_TAKEN_BACK = "Everything is as it was before; the evidence says why the new state did not work"
_LEFT = "; %s: another program has written to it in the meantime, so it is left as found, including the part of this collection"
# The keys of a command that the journal keeps, to undo it.
_OF_COMMANDS = ("argv", "timeout", "undo", "undo_within", "accepts", "undo_accepts", "env")
_FOREIGN = "All other files are as before. Correct this one, then run again; its original bytes are kept for state: absent"


class FailedStep(Exception):
    """A step's verdict that is not a HostError: a validator's, a health check's."""


def build_blank_answer(request):
    """Return the answer to a request before anything has been done."""
    lists = (
        "written",
        "removed",
        "ran",
        "restarted",
        "disabled",
        "conflict",
        "validation",
        "health",
        "recovered",
        "foreign",
        "swept",
    )
    answer = {
        "schema": SCHEMA,
        "id": request["id"],
        "changed": False,
        "rolled_back": False,
        "journal": None,
        "error": None,
    }
    return dict(
        answer,
        containers=None,
        probation=0,
        said=None,
        rewritten=False,
        **{name: [] for name in lists},
    )


def build_refused_request(request, exc):
    """Return the answer to a request of invalid form."""
    given = request if isinstance(request, dict) else {}
    answer = build_blank_answer({"id": given.get("id")})
    set_error(answer, {"journal_dir": DEFAULT_DIR}, "request", exc)
    return host_files.cut_texts(answer)


def set_error(answer, request, phase, exc, following=None):
    """Put an error into an answer. following: the next step; without it, the step that the cause
    names, else that of the phase.
    """
    if isinstance(exc, OSError) and exc.errno:
        exc = host_files.build_os_error(exc, exc.filename or request["journal_dir"])
    if isinstance(exc, (host_files.HostError, cri.CriError, FailedStep)):
        message = host_files.cut_middle(str(exc))
    else:
        message = failures.describe_fault(exc)
    answer["error"] = {
        "phase": phase,
        "message": message,
        "where": getattr(exc, "filename", None) or answer["journal"] or request["journal_dir"],
        "next": following or getattr(exc, "following", "") or _NEXT.get(phase, _TAKEN_BACK),
    }


class Transaction(object):
    """One transaction.

    program: the executor on the host's disk, by which the host watches over the transaction; None
    if it is not watched.
    """

    def __init__(self, request, program=None):
        self.request = dict(request, journal_dir=request.get("journal_dir") or DEFAULT_DIR)
        self.program = program
        self.check = bool(request.get("check"))
        self.phase = "lock"
        self.root = self.base = self.name = ""
        self.acted = 0
        self.memory = journal_writer.Memory({}, [], None, {})
        self.last = None  # the newest state: (name, more)
        self.answer = build_blank_answer(request)

    @property
    def entry(self):
        return os.path.join(self.base, "journal", self.name)

    def run(self):
        try:
            self.root = host_files.clean_root(self.request.get("root"))
            self.base = journal.get_journal_directory(self.root, self.request["journal_dir"])
            who = "transaction %s (%s)" % (
                self.request["id"],
                self.request.get("reason") or "no reason given",
            )
            with journal_writer.hold_transaction_lock(
                self.base, who, keep=not self.check, token=self.request["id"], root=self.root
            ):
                self._recover()
                self._carry_out()
        except (
            Exception
        ) as exc:  # whatever happened, the controller gets an answer with the state of things
            set_error(self.answer, self.request, self.phase, exc)
        return host_files.cut_texts(self.answer)

    def judge_files(self):
        """Return the answer with what would refuse these files before anything is touched.

        Nothing is written for it, so no lock is held.
        """
        try:
            self.root = host_files.clean_root(self.request.get("root"))
            self.base = journal.get_journal_directory(self.root, self.request["journal_dir"])
            self.phase = "expect"
            self._expect(False)
        except Exception as exc:  # as in run()
            set_error(self.answer, self.request, self.phase, exc)
        return host_files.cut_texts(self.answer)

    # --- the steps, in order
    # ------------------------------------------------------------------------------------------

    def _recover(self):
        self.phase = "recover"
        if self.check:
            opened = [
                meta
                for meta in (
                    journal.read_transaction(self.base, name)
                    for name in journal.list_transaction_names(self.base, "open")
                )
                if meta
            ]
            cut = [
                meta
                for meta in opened
                if not meta["closed"] and meta["state"] not in rollback.FINAL + ("probation",)
            ]
            if cut:
                which = "%s of %s" % (cut[0]["id"], cut[0].get("time"))
                raise FailedStep(
                    "the transaction %s was interrupted; a run without check mode rolls it back first"
                    % which
                )
            return
        with ignore_interrupts():
            self.answer["recovered"] = rollback.recover_open_transactions(
                self.root, self.base, "the next transaction"
            )
        self.answer["swept"] = journal_writer.remove_names_beside(
            self.root, self.base, self.request.get("strays") or []
        )
        acknowledged = [outcome["id"] for outcome in self.answer["recovered"]]
        journal_writer.acknowledge_outcomes(
            self.base, list(self.request.get("acknowledged") or []) + acknowledged
        )

    def _carry_out(self):
        here = not self.root  # beneath another root files are written, and nothing is run
        self.phase = "backup"
        journal.read_pending(self.base)  # a damaged one is reported before anything is touched
        self.phase = "expect"
        planned = self._expect(here)
        try:
            if here and not self.check and self.request.get("commands_before"):
                self._open()
                self.phase = "command"
                self._run_commands()
                self.phase = "expect"
                # a package's scripts may have written a file that the plan is about
                planned = self._expect(False)
            changes = [change for change in planned if staging.is_different_change(change)]
            if here:
                self._validate(changes)
        except Exception as exc:
            self._give_up(exc)
            return
        units = self.request.get("units") or [] if here else []
        if self.check:
            pending = self.request.get("commands_before") or self.request.get("disable")
            self.answer["changed"] = bool(changes or units or (here and pending))
            self._name_files(changes)
            return
        with ignore_interrupts():
            self._apply(
                changes,
                units,
                health.list_units_to_disable(self.request.get("disable") or []) if here else [],
            )
            if self.answer["error"] is None:
                same = [change for change in planned if change not in changes]
                records = [
                    {
                        "path": c.path,
                        "sha256_after": journal.digest_snapshot(c.after),
                        "forget": c.forget,
                    }
                    for c in same
                ]
                journal_writer.settle_originals(self.base, records)
                journal_writer.drop_forgotten(self.base, records)

    def _expect(self, here):
        """Return the planned changes. Raise FailedStep unless files, units and packages still are
        what the plan was made from.
        """
        expected = self.request.get("expect") or {}
        planned, conflicts = staging.plan_file_changes(
            self.root, self.base, self.request.get("changes") or []
        )
        planned_before = {change.real: change.before for change in planned}
        for path, digest in (
            sorted((expected.get("files") or {}).items()) if not self.answer["ran"] else ()
        ):
            real = host_files.resolve_links(self.root, path)[0]
            current = journal.digest_snapshot(
                planned_before[real]
                if real in planned_before
                else journal.take_snapshot(self.root, real)
            )
            if not keyed.matches_keyed_digest(digest, current):
                conflicts.append(
                    staging.build_conflict("file", path, digest, keyed.digest_with_key(current))
                )
        if here:
            conflicts += _expect_system(
                *[expected.get(key) or {} for key in ("units", "packages", "programs")]
            )
        self._require_no_conflict(conflicts)
        return planned

    def _require_no_conflict(self, conflicts):
        if conflicts:
            self.answer["conflict"] = conflicts
            names = ", ".join(sorted({entry["path"] for entry in conflicts}))
            raise FailedStep("changed since it was inspected: %s" % names)

    def _open(self):
        """Enter the transaction in the journal, and have the host watch over it."""
        if self.name:
            return
        self.phase = "backup"
        wanted = [
            {key: entry.get(key) for key in _OF_COMMANDS}
            for entry in self.request.get("commands_before") or []
        ]
        known = self.request.get("causes") or []
        self.memory = self.memory._replace(
            opened={"commands": wanted, "causes": known, "guarded": bool(self.program)}
        )
        # which is not to be removed as long as this is open
        self.memory.opened["program"] = os.path.basename(self.program or "")
        self.name = journal_writer.begin_transaction(self.base, self.request, **self.memory.opened)
        self.answer["journal"] = self.entry[len(self.root) :]
        if self.program:
            deadline.arm(self.base, self.request, self.program)

    def _mark(self, state, **more):
        self._require_entry()
        journal_writer.mark_state(self.entry, state, **more)
        self.last = (state, more)

    def _require_entry(self):
        """Write the entry again if it is gone: another program may clear the journal's directory
        while this is at work.

        Otherwise nothing would refer to what lies next to the files.
        """
        if journal.list_entry_states(self.entry):
            return
        journal_writer.write_again(self.base, self.name, self.request, self.memory)
        if self.last is not None:
            journal_writer.mark_state(self.entry, self.last[0], **self.last[1])
        self.answer["rewritten"] = True

    def _run_commands(self):
        """Run the commands that come first, mostly package installations."""
        for number, command in enumerate(self.request["commands_before"]):
            self._mark("prepared", ran=number + 1)
            limit = command.get("timeout", health.ENDS_WITHIN)
            with waiting.write_awaited_units(self.base, command["argv"]):
                ended = commands.decode_answer(
                    commands.run(command["argv"], limit, env=command.get("env"))
                )
            said = ended["stdout"] + ended["stderr"]
            ran = {
                "argv": command["argv"],
                "rc": ended["rc"],
                "causes": [],
                "why": command.get("why", ""),
            }
            self.answer["ran"].append(ran)
            if ended["rc"] not in [0] + (command.get("accepts") or []):
                end = (
                    "no end within %g s" % limit
                    if ended["timed_out"]
                    else "exit status %d" % ended["rc"]
                )
                ran["causes"] = causes.recognise_causes(said, self.request.get("causes"))
                self._keep_words(command["argv"], said)
                raise FailedStep("%s: %s" % (" ".join(command["argv"]), end))
            self.answer["changed"] = True

    def _keep_words(self, argv, text):
        """Keep a program's output here, readable by root alone. Check mode keeps nothing, since it
        writes nothing.
        """
        if not self.check and text.strip():
            shown = " ".join(word if isinstance(word, str) else "..." for word in argv)
            path = journal_writer.keep_words(
                self.base, self.request["id"], "$ %s\n%s\n" % (shown, text)
            )
            self.answer["said"] = path[len(self.root) :]

    def _validate(self, changes):
        if not changes or not self.request.get("validate"):
            return
        self.phase = "stage"
        with staging.stage_copies(self.root, self.base, self.request, changes) as stage:
            self.phase = "validate"
            tolerate = self.check and bool(self.request.get("commands_before"))
            self.answer["validation"] = staging.validate(self.request, stage, tolerate)
        for entry in self.answer["validation"]:
            words = entry.pop("words", "")
            if entry["findings"]:
                self._keep_words(entry["argv"], words)
        findings = [
            "%s: %s" % (entry["argv"][0], finding)
            for entry in self.answer["validation"]
            for finding in entry["findings"]
        ]
        if findings:
            more = " (and %d more findings)" % (len(findings) - 3) if len(findings) > 3 else ""
            raise FailedStep("; ".join(findings[:3]) + more)

    def _apply(self, changes, units, disable):
        if not (changes or units or disable or self.name):
            return
        try:
            self._open()
            self.phase = "backup"
            before = health.read_unit_states([unit["name"] for unit in units])
            checks = self.request.get("health") or []
            described = {
                "units": units,
                "units_before": before,
                "disabled": disable,
                "health": checks,
            }
            self.memory = self.memory._replace(
                changes=changes,
                described=described,
                originals=journal_writer.list_kept_originals(self.base, changes),
            )
            journal_writer.describe_changes(self.base, self.name, changes, **described)
            for change in changes:
                journal_writer.keep_original(self.base, change, self.request["id"])
            if self.program:
                deadline.arm_boot(self.base, self.program)
            self._mark("armed")
            self._change_host(changes, units, disable)
            self._commit_or_probate(units)
        except Exception as exc:
            self._give_up(exc)
            return
        self._name_files(changes)
        self.answer["changed"] = bool(
            changes or self.acted or self.answer["disabled"] or self.answer["ran"]
        )

    def _change_host(self, changes, units, disable):
        swap.stage_renames(self.root, changes, self.request["id"])
        self.phase = "expect"
        taken = [(change, journal.take_snapshot(self.root, change.real)) for change in changes]
        late = [(change, now) for change, now in taken if now != change.before]
        digests_of = [
            (change.path, journal.report_digest(change.before), journal.report_digest(now))
            for change, now in late
        ]
        self._require_no_conflict(
            [staging.build_conflict("file", *digests) for digests in digests_of]
        )
        self.phase = "swap"
        self._mark("swapping")
        for before in disable:  # first, so that they do not write what we are about to write
            self.answer["disabled"].append(before["name"])
            health.disable(before)
        swap.apply(self.root, changes, self.request["id"])
        self.phase = "restart"
        running = container_snapshot.list_container_processes() if units else {}
        for unit in units:
            self.acted += 1
            self._mark("swapped", acted=self.acted)
            self.answer["restarted"].append(unit["name"])
            with waiting.write_awaited_units(self.base, [unit["name"]]):
                health.run_unit_action(
                    unit["name"], unit["action"], unit.get("timeout", health.DEFAULT_TIMEOUT)
                )
        self.phase = "health"
        for check in (self.request.get("health") or []) if not self.root else []:
            judged = dict(health.wait_for_health(check), after="change")
            self.answer["health"].append(judged)
            if not judged["ok"]:
                raise FailedStep("%s: %s" % (check["socket"], judged["evidence"]))
        if units:
            self.answer["containers"] = {
                "before": len(running),
                "lost": container_snapshot.list_lost_processes(running),
            }

    def _commit_or_probate(self, units):
        """Commit the transaction, or put it on probation if a host that watches over it can still
        take it back.
        """
        self._require_entry()
        meta = journal.read_transaction(self.base, self.name)
        health.note_pending(
            self.base, self.request, [unit["name"] for unit in units if unit["action"] != "reload"]
        )
        probation = self.request.get("probation") or 0
        if not (probation and units and self.program):
            rollback.commit(self.root, self.base, meta)
            return
        states = health.read_unit_states([unit["name"] for unit in units])
        restarts = [
            health.parse_unit_number(states[unit["name"]].get("NRestarts")) for unit in units
        ]
        journal_writer.settle_originals(self.base, meta["changes"])
        watch = {"pid": os.getpid(), "start": system.get_process_start(os.getpid())}
        journal_writer.mark_state(
            self.entry, "probation", acted=self.acted, restarts=restarts, **watch
        )
        # It serves, and only has to stay up. A boot need not take that back, and the host looks as
        # it will stay. The boot's unit goes last: until then a boot would remove what lies next to
        # the files.
        swap.remove_leftovers(self.root, meta["changes"], self.request["id"])
        deadline.cancel_boot_unit()
        self.answer["probation"] = probation

    def _give_up(self, exc):
        """Report what went wrong, and bring back the state before, units included."""
        set_error(self.answer, self.request, self.phase, exc)
        first = self.answer["error"]["message"]
        if not self.name:
            return
        ended, early = self._take_back(first)
        # cleared during the rollback: files that are back already stay
        if not journal.list_entry_states(self.entry):
            ended, early = self._take_back(first)
        self.answer["health"] += ended["health"][len(self.answer["health"]) :]
        self.answer["ran"] += ended["ran"]
        self.answer["foreign"] = ended["foreign"]
        if ended["trouble"]:
            following = None if ended.get("lost") else _FILES_BACK
            set_error(
                self.answer,
                self.request,
                "rollback",
                FailedStep(ended["trouble"]),
                _UNDO if early else following,
            )
            self.answer["error"]["message"] += " (while rolling back after: %s)" % first
        if ended["foreign"]:
            self.answer["error"]["message"] += _LEFT % ", ".join(ended["foreign"])
            self.answer["error"]["next"] = _FOREIGN
        if ended["trouble"]:
            self.answer["changed"] = True
            return
        self.answer["rolled_back"] = not early
        self.answer["changed"] = bool(ended["foreign"]) or self._is_anything_left()

    def _is_anything_left(self):
        """Tell whether anything of the commands stays.

        That is so if a command succeeded that nothing undoes, if one was undone only in part, or if
        one failed and has left other packages than there were.
        """
        ran = [entry["argv"] for entry in self.answer["ran"]]
        began = [
            command
            for command in self.request.get("commands_before") or []
            if command["argv"] in ran
        ]
        if any(entry["rc"] == 0 for entry in self.answer["ran"]) and not all(
            command.get("undo") for command in began
        ):
            return True
        if not began or any(command.get("undo_leaves") for command in began):
            return bool(began)
        try:
            return bool(
                _expect_system({}, (self.request.get("expect") or {}).get("packages") or {}, {})
            )
        except Exception:  # if this is not known, do not report that all is as it was
            return True

    def _take_back(self, first):
        """Return (what came of taking it back, whether nothing had been swapped yet)."""
        early = True
        try:
            self._require_entry()
            meta = journal.read_transaction(self.base, self.name)
            early = meta["state"] in ("prepared", "armed")
            return rollback.take_back_transaction(
                self.root, self.base, meta, first, rollback.EXECUTOR, evidence=self.answer["health"]
            ), early
        except Exception as again:
            lost = {"trouble": str(again), "ran": [], "health": [], "foreign": [], "lost": True}
            return lost, early

    def _name_files(self, changes):
        self.answer["written"] = [change.path for change in changes if change.after is not None]
        self.answer["removed"] = [change.path for change in changes if change.after is None]


def _expect_system(units, packages, programs):
    conflicts = []
    states = health.read_unit_states(sorted(units))
    for name, invocation in sorted(units.items()):
        current = states[name].get("InvocationID", "")
        if current != invocation:
            conflicts.append(staging.build_conflict("unit", name, invocation, current))
    installed = (
        system.list_installed_packages("", sorted(packages))["installed"] if packages else {}
    )
    for name, version in sorted(packages.items()):
        if installed[name] != version:
            conflicts.append(staging.build_conflict("package", name, version, installed[name]))
    for path, current in sorted(system.identify_programs(programs).items()):
        if current != programs[path]:
            conflicts.append(staging.build_conflict("program", path, programs[path], current))
    return conflicts


@contextlib.contextmanager
def ignore_interrupts():
    """Ignore a closed connection or a Ctrl-C, which must not stop us midway. Handlers, not SIG_IGN,
    which children would inherit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number, _frame):
        if number == signal.SIGTERM:
            health.stop_signals.append(number)

    before = {
        number: signal.signal(number, note)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
