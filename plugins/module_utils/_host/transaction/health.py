# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Act on units, and wait until what they run does its work again: "active" is not yet "serves".

Nothing here makes systemd reload its units (`--no-reload`): that takes devices from containers that
got them behind its back (the planner cites the issue). Host side: standard library only, Python
3.6.
"""

import contextlib
import json
import os
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    causes,
    commands,
    failures,
    host_files,
    journal,
    system,
    trust,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import cri
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    journal_writer,
)

DEFAULT_TIMEOUT = 120  # seconds within which a unit has to act
SERVES_WITHIN = 90  # seconds within which what it runs has to answer
ENDS_WITHIN = 600  # seconds within which a command has to end
READS_WITHIN = 30  # seconds within which a program has to have read what is staged
SETTLED = 5  # seconds after which a runtime that answers, but not as wanted, is taken at its word
_PAUSES = (0.05, 0.1, 0.2, 0.5)
_STATE = [
    "ActiveState",
    "SubState",
    "Result",
    "UnitFileState",
    "InvocationID",
    "LoadState",
    "NRestarts",
]

LOG_LINES = 200
# a signal's handler puts its number here: then waiting ends, so the host can go down
stop_signals = []


def read_unit_states(names):
    """Return the state of each unit, by name."""
    return system.list_units(names, _STATE) if names else {}


def run_unit_action(name, action, timeout=DEFAULT_TIMEOUT):
    """Do one systemctl action. Raise HostError with systemd's words if it fails.

    The action `wait` does nothing: the unit's program takes changed files up by itself.
    """
    if action == "wait":
        return
    before = read_unit_states([name])[name]
    try:
        _run_systemctl([action, name], timeout)
    except host_files.HostError:
        # Five starts within ten seconds and systemd grants no more (of some units three in a
        # minute). A restart has stopped the unit by then, so it would stay down, also where the old
        # configuration has just come back.
        if action not in ("restart", "start") or not _was_not_tried(
            before, read_unit_states([name])[name]
        ):
            raise
        _run_systemctl(["reset-failed", name], timeout)
        _run_systemctl([action, name], timeout)


def _was_not_tried(before, now):
    """Tell whether systemd refused a start without trying.

    The result tells this only if the last run ended well (service_enter_dead()); the result of a
    unit that has crashed stays `signal`. But each start that is tried is an invocation of its own.
    """
    again = now.get("ActiveState") == "failed" and now.get("InvocationID") == before.get(
        "InvocationID"
    )
    return now.get("Result") == "start-limit-hit" or again


def note_pending(base, request, acted):
    """Note the units whose restart was left out, and forget the restarted ones.

    Raise HostError if the list so far cannot be read.
    """
    path, kept = os.path.join(base, "pending.json"), journal.read_pending(base)
    wanted = [name for name in request.get("pending") or [] if name not in acted]
    left = {name: entry for name, entry in kept.items() if name not in acted}
    states = read_unit_states(wanted)
    for name in wanted:
        invocation = states[name].get("InvocationID", "")
        if invocation and left.get(name, {}).get("invocation") != invocation:
            left[name] = {
                "since": journal_writer.format_journal_time(),
                "id": request["id"],
                "reason": request.get("reason", ""),
                "invocation": invocation,
            }
    if left != kept:
        journal_writer.write_json(path, left) if left else journal_writer.remove_durably(path)


def list_units_to_disable(names):
    """List the units that run or are enabled, in the form by which enable() takes disable() back."""
    states = read_unit_states(names)
    wanted = []
    for name in names:
        enabled = states[name].get("UnitFileState") == "enabled"
        active = states[name].get("ActiveState") in ("active", "activating", "reloading")
        if enabled or active:
            wanted.append({"name": name, "enabled": enabled, "active": active})
    return wanted


def disable(before):
    """Stop a unit and keep it from starting again."""
    name = before["name"]
    _run_systemctl(
        (["--no-reload", "disable", "--now", name] if before["enabled"] else ["stop", name]),
        DEFAULT_TIMEOUT,
    )


def enable(before, wait=True):
    """Take disable() back. At boot, do not wait for a unit that may be waiting for us."""
    if before["enabled"]:
        _run_systemctl(["--no-reload", "enable", before["name"]], DEFAULT_TIMEOUT)
    if before["active"]:
        _run_systemctl(
            (["start"] if wait else ["--no-block", "start"]) + [before["name"]], DEFAULT_TIMEOUT
        )


def is_going_down():
    """Tell whether the host is shutting down: then systemd stops units, and grants no start."""
    try:
        answer = commands.decode_answer(commands.run(["systemctl", "is-system-running"], timeout=5))
    except host_files.HostError:
        return False
    return answer["stdout"].strip() == "stopping"


def explain_crashed_units(units, restarts):
    """Return why the units do not stand; None if they do.

    restarts: how often systemd had restarted each by itself when they stood. A unit that is stopped
    or restarted by request meanwhile does not count as a failure.
    """
    states = read_unit_states([unit["name"] for unit in units])
    for place, unit in enumerate(units):
        state, before = states[unit["name"]], restarts[place] if place < len(restarts) else 0
        if state.get("ActiveState") == "failed" or state.get("SubState") == "auto-restart":
            return "%s came up and has crashed since (%s, %s)" % (
                unit["name"],
                state.get("ActiveState"),
                state.get("SubState"),
            )
        if parse_unit_number(state.get("NRestarts")) > before:
            return "%s came up and has crashed since" % unit["name"]
    return None


def are_all_stopped(units):
    """Tell whether all of the units were stopped: then there is nothing to ask."""
    states = read_unit_states([unit["name"] for unit in units])
    return all(state.get("ActiveState") == "inactive" for state in states.values())


def require_replacement(check):
    """Return the CRI check so that it passes only if another process serves than now.

    If none serves now, any process may pass. A check of another kind is returned as it is.
    """
    if check["kind"] != "cri":
        return check
    trust.answered.pop(check["socket"], None)
    # of one that listens and is slow to answer, the process is known all the same
    with contextlib.suppress(cri.CriError):
        cri.read_cri_version(check["socket"], 2)
    return dict(check, replaces=trust.answered.get(check["socket"]))


def parse_unit_number(text):
    """Return a number that systemd has printed; 0 if it is none."""
    return int(text) if (text or "").isdigit() else 0


def _run_systemctl(words, timeout):
    answer = commands.decode_answer(commands.run(["systemctl"] + words, timeout))
    if answer["timed_out"]:
        raise host_files.HostError(
            "timeout", "systemctl %s did not end within %g s" % (" ".join(words), timeout)
        )
    if answer["rc"]:
        said = failures.extract_systemd_words(answer["stderr"]) or "exit status %d" % answer["rc"]
        raise host_files.HostError("failed", "systemctl %s: %s" % (" ".join(words), said))


def log(unit, since, known=()):
    """Return why a unit failed since then, as far as its journal has a known cause, and the command
    that shows its log.
    """
    show = ["journalctl", "--unit=" + unit, "--since=@%d" % since]
    entry = {
        "kind": "log",
        "name": unit,
        "ok": False,
        "seconds": 0.0,
        "evidence": " ".join(show),
        "failed": False,
        "causes": [],
    }
    try:
        answer = commands.decode_answer(
            commands.run(
                show + ["--lines=%d" % LOG_LINES, "--no-pager", "--output=cat"], timeout=10
            )
        )
    except host_files.HostError:
        answer = {"rc": None}
    if answer["rc"] != 0 or answer["truncated"]:  # it tells nothing, so systemd's own word counts
        return dict(entry, failed=read_unit_states([unit])[unit].get("ActiveState") == "failed")
    said = causes.find_last_failure(answer["stdout"])
    return (
        entry
        if said is None
        else dict(entry, failed=True, causes=causes.recognise_causes(said, known))
    )


def wait_for_health(check):
    """Ask until the answer is as wanted or the time is over.

    Return the check with "ok", "seconds" and "evidence".
    """
    began = time.monotonic()
    timeout = check.get("timeout", SERVES_WITHIN)
    patient_until = began + timeout
    ask = _ASK[check["kind"]]
    tries, settled = 0, None
    while True:
        ok, final, evidence = ask(check, max(patient_until - time.monotonic(), 0.1))
        now = time.monotonic()
        if final:  # it serves: only a little more time is likely to change its answer
            settled = settled or now
            patient_until = min(patient_until, settled + SETTLED)
        if stop_signals and not ok:
            evidence, patient_until = "stopped while waiting: " + evidence, now
        if ok or now >= patient_until:
            return dict(check, ok=ok, seconds=round(now - began, 3), evidence=evidence)
        # The pause between two tries of this check; the last try is at `patient_until`. There is no
        # event to wait for instead: engines announce themselves to the service manager alone, and
        # not whether this socket serves with these handlers.
        time.sleep(min(_PAUSES[min(tries, len(_PAUSES) - 1)], max(patient_until - now, 0.01)))
        tries += 1


def _ask_cri(check, left):
    """Return (as wanted, an answer that will hardly change, evidence)."""
    try:
        status = cri.read_cri_status(check["socket"], min(left, 10))
    except cri.CriError as exc:
        # A runtime registers its services before it listens: one that lacks the service has failed
        # to load it.
        if exc.code == cri.UNIMPLEMENTED:
            return (
                False,
                True,
                "it answers, but serves no CRI: that part of it failed to load (%s)" % exc.message,
            )
        return False, False, exc.message
    if check.get("replaces") and trust.answered.get(check["socket"]) == check["replaces"]:
        return (
            False,
            False,
            "the process from before the change still serves (%d)" % check["replaces"],
        )
    if not status["runtime"].get("RuntimeReady"):
        reasons = [
            selection.show_value_in_shape("name", c["reason"])
            for c in status["conditions"]
            if c["type"] == "RuntimeReady"
        ]
        return (
            False,
            False,
            "the runtime is not ready: %s"
            % (" ".join(filter(None, reasons)) or "it gives no reason"),
        )
    lacking = [
        text
        for text in (
            _find_lacking(want, status["handlers"], status["info"])
            for want in check.get("require") or []
        )
        if text
    ]
    if lacking:
        return False, True, "the runtime serves, but %s" % "; ".join(lacking)
    named = ", ".join(
        selection.show_value_in_shape("name", name) or "(default)" for name in status["handlers"]
    )
    return True, True, "RuntimeReady; handlers: %s" % (named or "not reported")


def _ask_http(check, left):
    """Ask a daemon that reports its state as JSON over a socket, which must contain what `require`
    names.

    Return (as wanted, an answer that will hardly change, evidence).
    """
    try:
        # the last answer is the one that is reported
        answer = system.get_over_socket(check["socket"], check["path"], max(min(left, 10), 2))
    except host_files.HostError as exc:
        return False, False, exc.message
    if answer["status"] != 200:
        return False, False, "GET %s: status %d" % (check["path"], answer["status"])
    try:
        said = json.loads(answer["body"])
    except ValueError:
        return False, False, "GET %s: the answer is no JSON" % check["path"]
    lacking = [
        text
        for text in (_find_lacking(want, [], said) for want in check.get("require") or [])
        if text
    ]
    if lacking:
        return False, True, "it serves, but %s" % "; ".join(lacking)
    return True, True, "it answers GET %s as expected" % check["path"]


def _find_lacking(want, handlers, info):
    if "handler" in want:
        return None if want["handler"] in handlers else "it has no handler %s" % want["handler"]
    value = info
    for key in want["path"][:-1]:
        value = _get_folded(value, key)
    value = _get_folded(value, want["path"][-1], want.get("folded"))
    if want.get("filled"):
        return None if value else "its %s is empty" % ".".join(want["path"])
    wanted = None if want.get("absent") else want.get("equals")
    return (
        None
        if value == wanted
        else "its %s is %r, not %r"
        % (".".join(want["path"]), selection.show_plain_value(value), wanted)
    )


def _get_folded(table, key, folded=False):
    """Return the value of a key; None if there is none.

    folded: if the key is absent, take the last key that differs only in capital letters.
    """
    if not isinstance(table, dict):
        return None
    alike = (
        [name for name in sorted(table) if name.lower() == key.lower()]
        if folded and key not in table
        else [key]
    )
    return table.get(alike[-1]) if alike else None


_ASK = {"cri": _ask_cri, "http": _ask_http}
