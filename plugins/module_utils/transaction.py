# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hands: apply a list of file, package and unit changes as one transaction, or leave everything as it was.

    lock -> expect -> commands before -> stage and validate -> back up -> swap -> units -> health -> commit
                                              |                            \\________ any failure: take back ________/
                                              check mode ends here

They know files, commands and units, and not what any of it is for: that is the controller's part. Node side: standard
library only, Python 3.6. The journal's states ("prepared", "swapped") are there for whoever finds a transaction cut short.
"""

import contextlib
import signal
import threading
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils import commands, cri, health, journal, look_system, nodefs, staging, swap

SCHEMA = 1
DEFAULT_DIR = "/var/lib/gpufleet"
_COMMAND_OUTPUT = 64 * 1024
_NEXT = {
    "lock": "Wait until it is done, then run again",
    "expect": "Look again and plan anew",
    "command": "Run the command on the host by hand; nothing else was changed",
    "stage": "Nothing was changed; mend what the message names, then run again",
    "validate": "Nothing was changed; the findings say what is refused",
    "backup": "Nothing was changed; make room or mend the journal's directory, then run again",
    "rollback": "The files from before are in the journal's directory; put them back by hand and look at the units",
}
_TAKEN_BACK = "Everything is as it was before; the evidence says why the new state did not work"


def run(request):
    """The answer to a transaction request; errors are part of it."""
    return _Transaction(request).run()


class _Failed(Exception):
    """A step's verdict that is no NodeError's: a validator's, a health check's."""


class _Transaction(object):
    def __init__(self, request):
        self.request = dict(request, journal_dir=request.get("journal_dir") or DEFAULT_DIR)
        self.check = bool(request.get("check"))
        self.patterns = request.get("redact") or []
        self.phase = "lock"
        self.began = time.time()
        self.root = self.base = ""
        self.entry = None
        self.swapped, self.new_originals, self.disabled, self.acted, self.undo = [], [], [], [], []
        self.answer = {
            "schema": SCHEMA,
            "id": request["id"],
            "changed": False,
            "written": [],
            "removed": [],
            "ran": [],
            "restarted": [],
            "disabled": [],
            "rolled_back": False,
            "conflict": [],
            "validation": [],
            "health": [],
            "journal": None,
            "error": None,
        }

    def run(self):
        try:
            self.root = nodefs.clean_root(self.request.get("root"))
            self.base = journal.place(self.root, self.request["journal_dir"])
            who = "transaction %s (%s)" % (self.request["id"], self.request.get("reason") or "no reason given")
            with journal.locked(self.base, who, keep=not self.check):
                self._work()
        except Exception as exc:  # whatever happened, the controller gets an answer that says where things stand
            self._error(exc)
        return self.answer

    def _error(self, exc, following=None):
        if isinstance(exc, (nodefs.NodeError, cri.CriError, _Failed)):
            message = str(exc)
        elif isinstance(exc, OSError) and exc.errno:
            message = nodefs.from_os_error(exc, exc.filename or self.request["journal_dir"]).message
        else:
            message = "%s: %s" % (type(exc).__name__, exc)
        self.answer["error"] = {
            "phase": self.phase,
            "message": nodefs.redact(message, self.patterns)[0],
            "where": getattr(exc, "filename", None) or self.answer["journal"] or self.request["journal_dir"],
            "next": following or _NEXT.get(self.phase, _TAKEN_BACK),
        }

    # --- the steps, in order ------------------------------------------------------------------------------------------

    def _work(self):
        here = not self.root  # beneath another root files are written, and nothing is run
        self.phase = "expect"
        planned = self._expect(here)
        if here and not self.check:
            self.phase = "command"
            if self._commands():
                self.phase = "expect"
                planned = self._expect(False)  # a package's scripts may have written a file that the plan is about
        changes = [change for change in planned if staging.differs(change)]
        try:
            if here:
                self._validate(changes)
        except Exception:
            self._undo_commands()
            raise
        units = [unit for unit in self.request.get("units") or [] if here and (changes or unit.get("always"))]
        if self.check:
            pending = self.request.get("commands_before") or self.request.get("disable")
            self.answer["changed"] = bool(changes or units or (here and pending))
            self._name_files(changes)
            return
        with _undisturbed():
            self._apply(changes, units, self.request.get("disable") or [] if here else [])
            if self.answer["error"] is None:
                for change in planned:
                    journal.settle_original(self.base, change.path, change.after, change.forget)
        journal.prune(self.base)

    def _expect(self, here):
        """The planned changes, provided that files, units and packages still are what the plan was made from."""
        expected = self.request.get("expect") or {}
        planned, conflicts = staging.plan(self.root, self.base, self.request.get("changes") or [])
        seen = {change.real: change.before for change in planned}
        for path, digest in sorted((expected.get("files") or {}).items()) if not self.answer["ran"] else ():
            real = nodefs.resolve(self.root, path)[0]
            found = journal.digest(seen[real] if real in seen else journal.snapshot(self.root, real))
            if found != digest:
                conflicts.append(staging.conflict("file", path, digest, found))
        if here:
            conflicts += self._expect_system(expected.get("units") or {}, expected.get("packages") or {})
        if conflicts:
            self.answer["conflict"] = conflicts
            names = ", ".join(sorted({entry["path"] for entry in conflicts}))
            raise _Failed("changed since it was looked at: %s" % names)
        return planned

    @staticmethod
    def _expect_system(units, packages):
        conflicts = []
        states = health.states(sorted(units))
        for name, invocation in sorted(units.items()):
            found = states[name].get("InvocationID", "")
            if found != invocation:
                conflicts.append(staging.conflict("unit", name, invocation, found))
        installed = look_system.packages("", sorted(packages))["installed"] if packages else {}
        for name, version in sorted(packages.items()):
            if installed[name] != version:
                conflicts.append(staging.conflict("package", name, version, installed[name]))
        return conflicts

    def _commands(self):
        """Run what comes first, package installations mostly: whether anything ran."""
        for command in self.request.get("commands_before") or []:
            try:
                found = commands.text(commands.run(command["argv"], command.get("timeout", 600), env=command.get("env")))
            except nodefs.NodeError:
                self._undo_commands()
                raise
            said = nodefs.redact((found["stdout"] + found["stderr"])[-_COMMAND_OUTPUT:], self.patterns)[0]
            self.answer["ran"].append({"argv": command["argv"], "rc": found["rc"], "output": said, "why": command.get("why", "")})
            if found["rc"] != 0:
                self._undo_commands()
                end = "no end within %g s" % command.get("timeout", 600) if found["timed_out"] else "exit status %d" % found["rc"]
                last = (said.strip().splitlines() or ["it said nothing"])[-1]
                raise _Failed("%s: %s: %s" % (" ".join(command["argv"]), end, last))
            self.answer["changed"] = True
            if command.get("undo"):
                self.undo.append(command["undo"])
        return bool(self.request.get("commands_before"))

    def _undo_commands(self):
        for argv in reversed(self.undo):
            found = commands.run(argv, 600)
            self.answer["ran"].append({"argv": argv, "rc": found["rc"], "output": "", "why": "undo"})
        self.undo = []

    def _validate(self, changes):
        if not changes or not self.request.get("validate"):
            return
        self.phase = "stage"
        with staging.staged(self.root, self.base, self.request, changes) as stage:
            self.phase = "validate"
            tolerate = self.check and bool(self.request.get("commands_before"))
            self.answer["validation"] = staging.validate(self.request, stage, tolerate)
        findings = ["%s: %s" % (entry["argv"][0], finding) for entry in self.answer["validation"] for finding in entry["findings"]]
        if findings:
            more = " (and %d more findings)" % (len(findings) - 3) if len(findings) > 3 else ""
            raise _Failed("; ".join(findings[:3]) + more)

    def _apply(self, changes, units, disable):
        if not (changes or units or disable):
            return
        self.phase = "backup"
        touched = [(change.path, change.real, change.before, change.after, change.made_dirs) for change in changes]
        self.entry = journal.begin(self.base, self.request, touched)
        self.answer["journal"] = self.entry[len(self.root) :]
        try:
            for change in changes:
                if journal.keep_original(self.base, change.path, change.before, change.made_dirs, self.request["id"]):
                    self.new_originals.append(change.path)
            self._change_host(changes, units, disable)
        except Exception as exc:
            self._error(exc)
            self._roll_back()
            return
        journal.mark(self.entry, "committed", restarted=self.answer["restarted"])
        self.new_originals = []
        self._name_files(changes)
        self.answer["changed"] = bool(changes or self.acted or self.disabled or self.answer["ran"])

    def _change_host(self, changes, units, disable):
        self.phase = "swap"
        for name in disable:  # first, lest they write what we are about to write
            before = health.disable(name)
            if before:
                self.disabled.append(before)
                self.answer["disabled"].append(name)
        swap.apply(self.root, changes, self.request["id"], self.swapped)
        journal.mark(self.entry, "swapped")
        self.phase = "restart"
        before = health.states([unit["name"] for unit in units])
        for unit in units:
            self.acted.append((unit, before[unit["name"]].get("ActiveState")))
            self.answer["restarted"].append(unit["name"])
            health.act(unit["name"], unit["action"], unit.get("timeout", health.DEFAULT_TIMEOUT))
        self.phase = "health"
        if not self.root:
            self._healthy(self.request.get("health") or [])

    def _healthy(self, checks, after="change"):
        for check in checks:
            found = dict(health.wait(check, self.patterns), after=after)
            self.answer["health"].append(found)
            if not found["ok"]:
                raise _Failed("%s: %s" % (check.get("socket") or check.get("name") or check.get("argv", ["?"])[0], found["evidence"]))

    def _roll_back(self):
        """Back to the state before, units included; the error already says what went wrong."""
        failed_in = self.phase
        for unit, _state in self.acted:
            lines = health.log(unit["name"], self.began, self.patterns)
            self.answer["health"].append({"kind": "log", "name": unit["name"], "ok": False, "seconds": 0.0, "evidence": lines})
        try:
            swap.take_back(self.root, self.swapped, self.request["id"])
            for path in self.new_originals:
                journal.drop_original(self.base, path)
            for before in reversed(self.disabled):
                health.enable(before)
            self._undo_commands()
            self._units_back()
            with contextlib.suppress(OSError):  # a full disk: the files are back, and to take them back twice does no harm
                journal.mark(self.entry, "rolled-back", failed_in=failed_in)
        except Exception as exc:
            first = self.answer["error"]["message"]
            self.phase = "rollback"
            self._error(exc)
            self.answer["error"]["message"] += " (while taking back what failed with: %s)" % first
            self.answer["changed"] = True
            return
        self.answer["rolled_back"] = True
        self.answer["changed"] = any(entry["rc"] == 0 for entry in self.answer["ran"]) and not self._all_undone()

    def _units_back(self):
        """What ran before must run again; what did not (or crashed already) is not expected to."""
        ran_before = [unit for unit, state in self.acted if state in ("active", "reloading")]
        for unit, state in self.acted:
            action = "stop" if state in ("inactive", "failed") else "restart"
            try:
                health.act(unit["name"], action, unit.get("timeout", health.DEFAULT_TIMEOUT))
            except nodefs.NodeError:
                if unit in ran_before:
                    raise
        if ran_before:
            self._healthy([dict(check, require=[]) for check in self.request.get("health") or []], after="rollback")

    def _all_undone(self):
        before = self.request.get("commands_before") or []
        return all(command.get("undo") for command in before)

    def _name_files(self, changes):
        self.answer["written"] = [change.path for change in changes if change.after is not None]
        self.answer["removed"] = [change.path for change in changes if change.after is None]


@contextlib.contextmanager
def _undisturbed():
    """A closed connection or a Ctrl-C must not stop us half way. Handlers, not SIG_IGN, which children would inherit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *unused: None) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
