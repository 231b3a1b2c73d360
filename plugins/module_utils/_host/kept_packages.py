# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the files of installed packages on this host, so that a person can go back to them, and note
how far the change is for which they are kept.

    DIR/kept/record.json          how far the change is, with what the controller wants noted, and
                                  `releasing`: how packages are held that are about to be released
    DIR/kept/packages.json        which packages are kept, and which are not, with the reason
    DIR/kept/packages/            the files (kept_files.py)

All that is kept is root's alone (0700, 0600). Host side: standard library only, Python 3.6.
"""

import contextlib
import functools
import os

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    deep_folders,
    host_files,
    journal,
    kept_files,
    kept_record,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    journal_writer,
)

SCHEMA = 1
LOCKED_WITHIN, RELEASED_WITHIN = 60, 120  # seconds
NOTHING = {
    "state": "",
    "again": False,
    "refused": False,
    "unread": False,
    "rollout": "",
    "kept": [],
    "left": [],
    "ran": [],
    "error": None,
}


def run(request):
    """Return {"state", "again", "refused", "unread", "rollout", "kept", "left", "ran", "error"}.

    request: operation (keep, settle or remove), journal_dir; for keep also manager (dpkg or
    rpm), packages (names), demand (whether each of them has to be kept), record (noted as it
    is; settle takes it in place of an unreadable one; it names the run that asks, and its
    rollout), release (commands that let the packages go: {"argv", "undo"}, undo is None for one
    without) and limits: most (packages), bytes, reserve (bytes that stay free), seconds (for
    all keeping), download (whether apt may fetch a package). For remove also settled and releasing
    (_remove).
    """
    commands.asked_for[:] = request.get("environment") or []
    try:
        base = journal.get_journal_directory("", request["journal_dir"])
        act = {"keep": _keep, "settle": _settle_change, "remove": _remove}[request["operation"]]
        with journal_writer.hold_transaction_lock(
            base, "the keeping of packages", keep=True, wait=LOCKED_WITHIN
        ):
            return dict(NOTHING, schema=SCHEMA, **act(request, os.path.join(base, "kept")))
    except host_files.HostError as exc:
        return dict(NOTHING, schema=SCHEMA, error={"message": exc.message, "next": exc.following})
    except OSError as exc:
        error = {"message": host_files.cut_middle(str(exc)), "next": ""}
        return dict(NOTHING, schema=SCHEMA, error=error)


def _keep(request, folder):
    """Keep the packages, release what holds them, and note the change that begins.

    A demand is judged before anything is released, and a change that it refuses is not noted. If a
    change has begun and was never judged, what is kept stays: the packages of this time may be those
    of the change. Its demand was judged when it began.
    """
    if kept_record.read_change_state(folder) == kept_record.CHANGING:
        return _keep_again(request, folder)
    earlier = kept_record.list_releasing(folder)
    # Before any package is there: a record tells the next run of files that a killed run leaves.
    record = dict(request["record"], state=kept_record.PREPARING, kept=0, left=0)
    record["releasing"] = earlier
    journal_writer.make_durable_dirs(folder)
    _write_record(folder, record)
    _clear(folder)
    kept_files.remove_fetched(folder)
    kept, left = kept_files.Keeper(request, folder).keep_all() if request["packages"] else ([], [])
    if request.get("demand") and (left or not kept):
        _hold_again(folder, record)
        with contextlib.suppress(OSError):  # the refusal tells more
            _remove_folder(folder)
        return {"refused": True, "left": left}
    rows = {"kept": kept, "left": left}
    journal_writer.write_json(os.path.join(folder, kept_record.ROWS), rows)
    record.update(kept=len(kept), left=len(left))
    return dict(_begin_change(request, folder, record), **rows)


def _begin_change(request, folder, record):
    """Release the packages, and note that the change begins. Return {"state", "ran"}, and "error"
    if that failed.

    That they are about to be released is noted first. Otherwise nothing would say so after a run
    that is killed, since no package manager knows why a hold is gone.
    """
    release = request.get("release") or []
    undos = [command["undo"] for command in release if command["undo"]]
    earlier = [undo for undo in record["releasing"] if undo not in undos]
    _write_record(folder, dict(record, releasing=earlier + undos))
    changing = dict(record, state=kept_record.CHANGING, releasing=[])
    released, free = _release(release, functools.partial(_write_record, folder, changing), earlier)
    if "error" not in released:
        return dict(released, state=kept_record.CHANGING)
    # A record that cannot be written now names more than these, which a person can see.
    with contextlib.suppress(OSError):
        _write_record(folder, dict(record, releasing=free))
    return dict(released, state=kept_record.PREPARING)


def _hold_again(folder, record):
    """Hold the packages again that a killed run was about to release. Raise HostError if some may
    be free, which stays noted.
    """
    free = _run_undos(record["releasing"])
    if record["releasing"]:  # the folder may stay
        _write_record(folder, dict(record, releasing=free))
    if free:
        raise host_files.HostError("failed", "; ".join(_describe_free_packages(free)))


def _write_record(folder, record):
    journal_writer.write_json(os.path.join(folder, kept_record.RECORD), record)


def _keep_again(request, folder):
    """Release the packages of a change that has begun, and return what was kept when it began. If
    that cannot be read, a demand is not met.
    """
    rows = kept_record.read_kept_rows(folder)
    answer = {"state": kept_record.CHANGING, "again": True, "unread": rows is None}
    if rows is None and request.get("demand"):
        return dict(answer, refused=True)
    record = kept_record.read_change_record(folder)
    if record:  # another run that is at work there does not settle the change of this one
        asks = request["record"]
        _write_record(folder, dict(record, run=asks.get("run"), rollout=asks.get("rollout")))
    released, _stays = _release(request.get("release") or [])
    return dict(answer, **dict(rows or {}, **released))


def _settle_change(request, folder):
    """Note that the change has been judged and the host is well. A change that another run has
    begun or taken up is left to that one: return {"state", "rollout"} then.
    """
    record = kept_record.read_change_record(folder)
    if record is None:
        return {}
    rollout = kept_record.find_other_rollout(record, request["record"].get("run"))
    if rollout:
        return {"state": kept_record.read_change_state(folder), "rollout": rollout}
    _write_record(folder, dict(record or request["record"], state=kept_record.SETTLED))
    return {"state": kept_record.SETTLED}


def _remove(request, folder):
    """Remove what is kept. With `settled`, only if no change waits for its judgement, and if no run
    has been killed since the caller looked while it released a hold: nothing else says so.
    """
    state = kept_record.read_change_state(folder)
    unseen = kept_record.list_releasing(folder) and not request.get("releasing")
    if request.get("settled") and (state == kept_record.CHANGING or unseen):
        return {"state": state}
    if os.path.lexists(folder):
        _remove_folder(folder)
    return {}


def _remove_folder(folder):
    """Remove what is kept, and its record last: it tells a person of files that stay."""
    deep_folders.remove_deep_tree(kept_files.get_fetching_place(folder))
    _clear(folder)
    journal_writer.remove_durably(os.path.join(folder, kept_record.RECORD))
    os.rmdir(folder)


def _clear(folder):
    """Remove all but the record. Raise OSError for a file that stays."""
    for name in sorted(os.listdir(folder)):
        if name != kept_record.RECORD:
            deep_folders.remove_deep_tree(os.path.join(folder, name))
    journal_writer.sync_directory(folder)


def _release(release, note=None, earlier=()):
    """Run the commands that let the packages go, then `note`. Return {"ran"}, and [].

    If a command or `note` fails, run the undos of all commands so far in reverse, and then those of
    `earlier`. Return {"ran", "error"}, and the undos that have failed. `ran` has the commands that
    are not undone, so the hold of their packages is gone.

    earlier: undos of an earlier run. Whether they are needed is unknown.
    """
    ran, begun = [], []
    try:
        for command in release:
            begun.append(command)
            ran.append({"argv": list(command["argv"]), "rc": _run_or_raise(command["argv"])})
        if note:
            note()
    except (OSError, host_files.HostError) as exc:
        undone = [_undo(command["undo"]) for command in reversed(begun)][::-1]
        stays = [command for command, worked in zip(begun, undone) if not worked]
        argvs = [command["argv"] for command in stays]
        free = _run_undos(earlier)
        texts = [getattr(exc, "message", str(exc))]
        texts += ["perhaps not held any more, by: %s" % " ".join(argv) for argv in argvs]
        texts += _describe_free_packages(free)
        error = {"message": host_files.cut_middle("; ".join(texts)), "next": ""}
        free += [command["undo"] for command in stays if command["undo"]]
        return {"ran": [row for row in ran if row["argv"] in argvs], "error": error}, free
    return {"ran": ran}, []


def _describe_free_packages(undos):
    return ["perhaps not held, since this has failed: %s" % " ".join(argv) for argv in undos]


def _run_undos(undos):
    """Run undos in reverse. Return the failed ones, in their own order."""
    worked = [_undo(undo) for undo in reversed(undos)][::-1]
    return [undo for undo, held in zip(undos, worked) if not held]


def _undo(argv):
    """Run the command that takes another one back, and tell whether that worked.

    argv: None for a command that cannot be taken back.
    """
    try:
        return bool(argv) and _run_or_raise(argv) == 0
    except (OSError, host_files.HostError):
        return False


def _run_or_raise(argv):
    """Run a command, and return its exit status, which is 0. Raise HostError for another one."""
    answer = commands.run(argv, timeout=RELEASED_WITHIN)
    if answer["rc"] != 0:
        said = commands.decode_answer(answer)
        text = (said["stderr"] or said["stdout"]).strip()[-600:]
        raise host_files.HostError("failed", "%s: %s" % (" ".join(argv), text))
    return answer["rc"]
