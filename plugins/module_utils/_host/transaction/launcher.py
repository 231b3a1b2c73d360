# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let the host carry out a transaction by itself.

The caller starts it, waits for the outcome, and may vanish at any time. The executor is put on the
host's disk as one program (root's alone) and run as a transient unit of its own. A named pipe tells
the caller that it lives, and brings the answer. `systemd-run --pipe` would need the system bus,
which a host need not have, and which the installation of a package may restart in the middle. If
the executor dies, systemd calls the same program once more (ExecStopPost), which takes back what it
left. Host side: standard library only, Python 3.6.
"""

import binascii
import contextlib
import importlib
import json
import os
import select
import shutil
import stat
import time
import zlib

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
    journal,
    loader,
    system,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    deadline,
    executor,
    health,
    journal_writer,
    rollback,
    waiting,
)

PACKAGE = "ansible_collections.gpufleet.nvidia.plugins.module_utils._host"
# The imports of `transaction`, and their own imports.
PARTS = (
    "host_files trust linker commands keyed projection.selection causes failures rpc.unix_http system journal rpc.grpc_wire rpc.cri "
    "transaction.health transaction.waiting transaction.journal_writer transaction.deadline transaction.container_snapshot "
    "projection.placeholders projection.json_places projection.toml_places projection.projector transaction.edits "
    "transaction.preconditions transaction.staging transaction.swap transaction.orphans transaction.rollback transaction.executor "
    "transaction.launcher transaction.request transaction.entry"
).split()
KEPT = 3  # versions of the executor
START = 30  # seconds within which the executor begins
_BEGIN = """# The executor of gpufleet.nvidia: carries out transactions, and takes them back. Kept by them, renewed with every version.
import os, sys
if sys.argv[1] == 'after' and os.environ.get('SERVICE_RESULT') == 'success': sys.exit(0)
"""
_END = """
# Only what is started now may run its compiled form: who takes back what was left, in an hour or at the next boot, runs these very bytes.
launch = load_part(%r, binascii.a2b_base64(%r), %r, 'transaction.launcher', sys.argv[2] if sys.argv[1] == 'run' else None)
sys.exit(launch.main(sys.argv[1:], os.path.abspath(sys.argv[0])))
"""


def read_part_source(part):
    """Return the source of one part, whatever it was loaded from: a zip of Ansible's, a file."""
    module = importlib.import_module(PACKAGE + "." + part)
    return module.__spec__.loader.get_source(module.__name__)


def build_executor_program():
    """Build the executor as one file: the loader, and the parts as they were sent, if they were."""
    own, packed = getattr(__spec__.loader, "own", None), getattr(__spec__.loader, "packed", None)
    if packed is None:
        own = read_part_source("loader")
        packed = zlib.compress(
            "\0".join(word for part in PARTS for word in (part, read_part_source(part))).encode(
                "utf-8"
            ),
            9,
        )
    return (
        _BEGIN + own + _END % (PACKAGE, binascii.b2a_base64(packed).decode("ascii"), own)
    ).encode("utf-8")


def install(base):
    """Put the executor on the disk unless this very version is there. Return its path."""
    data = build_executor_program()
    path = os.path.join(base, "program", host_files.digest_bytes(data) + ".py")
    if _is(path, data):
        return path
    journal_writer.make_durable_dirs(os.path.dirname(path))
    journal_writer.write_durably(path, data)
    opened = [
        journal.read_transaction(base, name) or {}
        for name in journal.list_transaction_names(base, "open")
    ]
    named = [meta.get("program") for meta in opened if not meta.get("closed")]
    for old in journal_writer.list_older_files(path)[: 1 - KEPT] if None not in named else ():
        if os.path.basename(old) not in named:  # else a timer's, or the next boot's
            os.unlink(old)
    return path


def _is(path, data):
    """Tell whether this very file is there, and belongs to us alone: it is going to be run."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as stream:
        status = os.fstat(fd)
        own = (
            stat.S_ISREG(status.st_mode)
            and status.st_uid == os.geteuid()
            and not status.st_mode & 0o022
            and status.st_nlink == 1
        )
        return own and stream.read(len(data) + 1) == data


# --- the caller
# --------------------------------------------------------------------------------------------------


def run_away(request):
    """Have the host carry the request out, and return its answer.

    The caller may be killed at any time; that changes nothing on the host.
    """
    request = dict(request, journal_dir=request.get("journal_dir") or executor.DEFAULT_DIR)
    answer = executor.build_blank_answer(request)
    try:
        base = journal.get_journal_directory("", request["journal_dir"])
        journal_writer.make_durable_dirs(base, 0o755)
        job = os.path.join(base, "job", request["id"])
        journal_writer.make_durable_dirs(job)
    except Exception as exc:
        executor.set_error(answer, request, "lock", exc)
        return answer
    try:
        program = install(base)
        if hasattr(__spec__.loader, "keep"):  # sent, and not a module of Ansible's
            __spec__.loader.keep()
        journal_writer.write_json(
            os.path.join(job, "request.json"),
            {"request": request, "environ": commands.get_task_environment()},
        )
        pipe = os.path.join(job, "pipe")
        os.mkfifo(pipe, 0o600)
        fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _start(base, program, request, job)
            said = _listen(fd, job, request)
        finally:
            os.close(fd)
        if said:
            return loader.unpack_job(binascii.a2b_base64(said))
        return _report_aftermath(base, request, answer)
    except Exception as exc:
        executor.set_error(answer, request, "backup", exc)
        return answer
    finally:
        shutil.rmtree(job, ignore_errors=True)


def _start(base, program, request, job):
    """Start the executor as a unit of the host."""
    after = deadline.write_unit_command(
        deadline.build_later_command(program, "after", base, request["id"])
    )
    unit = [
        "--unit=" + deadline.name_transaction_unit(request["id"]),
        "--description=gpufleet.nvidia: " + request.get("reason", ""),
    ]
    # KillMode: a package manager that the executor started must not be killed in the middle because
    # it was.
    unit += [
        "--property=KillMode=process",
        "--property=ExecStopPost=" + after,
        "--property=CollectMode=inactive-or-failed",
    ]
    unit += ["--property=TimeoutStopSec=%d" % deadline.compute_time_limit(request)]
    try:
        deadline.start_transient_unit(
            "the transaction cannot be started",
            unit,
            deadline.build_later_command(program, "run", base, request["id"]),
        )
    except host_files.HostError:
        if _withdraw_job(job):  # else it has begun all the same, and reports its own end
            raise


def _runs(unit):
    try:
        return health.read_unit_states([unit])[unit].get("ActiveState") in (
            "active",
            "activating",
            "deactivating",
        )
    except host_files.HostError:  # systemd is slow to answer: not a sign of death
        return True


def _withdraw_job(job):
    """Take the job back, so that no process begins it. Tell whether it was still there."""
    try:
        os.unlink(os.path.join(job, "request.json"))
        return True
    except OSError:
        return False


def _listen(fd, job, request):
    """Return the last words of the executor; "" if it died without any.

    Raise HostError if it does not begin, or does not end.
    """
    heard, began, limit = b"", time.monotonic(), deadline.compute_time_limit(request) + START
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        events = poll.poll(1000)
        data = os.read(fd, 65536) if events and events[0][1] & select.POLLIN else b""
        heard += data
        if events and not data:  # the other end is closed
            return heard.strip().decode("ascii")
        # it died before it opened its end
        if not events and not heard and not _runs(deadline.name_transaction_unit(request["id"])):
            return ""
        if not heard and time.monotonic() - began > START and _withdraw_job(job):
            why = (
                "the transaction's process did not begin within %d s; `journalctl --unit %s` may say why"
                % (
                    START,
                    deadline.name_transaction_unit(request["id"]),
                )
            )
            raise host_files.HostError("timeout", why)
        if time.monotonic() - began > limit:
            raise host_files.HostError(
                "timeout",
                "its process still runs after %d s; the next run reports how it ended" % limit,
            )


def _report_aftermath(base, request, answer):
    """Report that the executor died, after what it left is rolled back: by us, if it has not been
    rolled back already.
    """
    _withdraw_job(os.path.join(base, "job", request["id"]))
    who = "transaction %s (rolling it back)" % request["id"]
    with journal_writer.hold_transaction_lock(
        base, who, keep=True, wait=deadline.compute_time_limit(request), token=request["id"]
    ):
        rollback.recover_open_transactions("", base, "its caller", only=request["id"])
    entries = [meta for meta in journal.list_transactions(base) if meta["id"] == request["id"]]
    message = "the transaction's process was killed before it changed anything"
    if entries:
        ended = journal.report_outcome(entries[0])
        answer["journal"] = entries[0]["entry"]
        answer["rolled_back"] = entries[0]["state"] == "rolled_back" and not ended.get("trouble")
        answer["changed"] = entries[0]["state"] == "committed"
        message = "its process was killed; the transaction is %s (%s)" % (
            entries[0]["state"],
            ended.get("why") or "all was done",
        )
    executor.set_error(
        answer,
        request,
        "executor",
        executor.FailedStep(message),
        "Find out what killed it, then run again",
    )
    return answer


# --- the program on the host's disk
# -----------------------------------------------------------------------------------


def main(arguments, program):
    """Run one of the verbs.

    run BASE ID: carry out a job. after BASE ID, undo BASE ID: take it back if it is not over. boot
    BASE: take back every one that is not over.
    """
    verb, base = arguments[:2]
    os.umask(0o077)
    if verb == "run":
        return _run(base, arguments[2], program)
    if verb == "boot":
        return _recover(base, "the next boot", None, 60, booting=True)
    return _recover(
        base, "the timer" if verb == "undo" else "systemd", arguments[2], 5, force=verb == "undo"
    )


def _run(base, token, program):
    journal.require_own(base)  # the request that is read here is carried out
    job = os.path.join(base, "job", token)
    pipe = None
    with contextlib.suppress(OSError):  # the caller does not listen: the job is done all the same
        pipe = os.open(os.path.join(job, "pipe"), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    # the process that does this first does the job
    os.rename(os.path.join(job, "request.json"), os.path.join(job, "taken.json"))
    given = journal.read_json(os.path.join(job, "taken.json"))
    os.unlink(os.path.join(job, "taken.json"))
    os.environ.update(given["environ"])
    commands.asked_for[:] = sorted(given["environ"])
    _say(pipe, "\n")
    work = executor.Transaction(given["request"], program)
    with executor.ignore_interrupts():
        answer = work.run()
    _say(
        pipe, binascii.b2a_base64(zlib.compress(json.dumps(answer).encode("utf-8"))).decode("ascii")
    )
    if pipe is not None:
        os.close(pipe)
    shutil.rmtree(job, ignore_errors=True)
    if answer["probation"]:
        return _watch(base, token, work.name, answer["probation"])
    return (
        1
        if work.name and not (journal.read_transaction(base, work.name) or {}).get("closed")
        else 0
    )


def _say(pipe, text):
    if pipe is None:
        return
    with contextlib.suppress(OSError):  # the caller is gone
        os.set_blocking(pipe, True)
        data = text.encode("ascii")
        while data:
            data = data[os.write(pipe, data) :]


def _watch(base, token, name, seconds):
    """Watch whether what came up stays up.

    The lock is free meanwhile: the next transaction may judge for us.
    """
    until = time.monotonic() + seconds
    with executor.ignore_interrupts():
        while time.monotonic() < until and not health.stop_signals:
            # The pause between two looks at the units' counts of restarts, until the probation
            # ends. systemd announces changes over D-Bus alone, for which Python's standard library
            # has no client.
            time.sleep(1)
            meta = journal.read_transaction(base, name)
            if meta is None or meta["state"] != "probation":
                return 0
            if health.explain_crashed_units(
                meta["units"], meta["states"][-1].get("restarts") or []
            ):
                break
        return _recover(base, journal_writer.PROBATION, token, 60)


def _recover(base, by, token, wait, booting=False, force=False):
    if not os.path.isdir(os.path.join(base, "open")) or not any(
        name.endswith(token or "") for name in journal.list_transaction_names(base, "open")
    ):
        journal.require_own(base)
        # One that was killed before it opened its entry may have held the lock, and can no longer
        # start them.
        waiting.start_waiting_units(base)
        return 0
    lock = "transaction %s (%s)" % (token, by) if token else by
    for attempt in (1, 2):
        try:
            with journal_writer.hold_transaction_lock(
                base, lock, keep=True, wait=wait, token=token or ""
            ):
                rollback.recover_open_transactions("", base, by, only=token, booting=booting)
            return 0
        except host_files.HostError as exc:
            if exc.kind != "locked" or not force or attempt == 2 or not _stop_holder(base, token):
                raise
            wait = 60
    return 1


def _stop_holder(base, token):
    """Kill the executor of this very transaction if it still holds the lock: its time is over, so
    it hangs.

    Tell whether it was killed. No other holder is touched.
    """
    held = journal_writer.find_lock_holder(base) or {}
    if held.get("id") != token or system.get_process_start(held.get("pid") or 0) != held.get(
        "start"
    ):
        return False
    with contextlib.suppress(OSError):
        os.kill(held["pid"], 9)
    return True
