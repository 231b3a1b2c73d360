# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report on the journal for an observation. Host side: standard library only, Python 3.6."""

import os

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    host_files,
    journal,
    keyed,
    system,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import contents


def look_at_journal(root, directory, cap=host_files.MIB, keep=(), listing=False, stray_globs=()):
    """Return the answer to an `originals` question.

    With `listing`, it contains the journal as people read it.

    stray_globs: the directories that may hold strays.
    """
    base, originals, broken = _place(root, directory), {}, []
    for name in journal.list_transaction_names(base, "originals"):
        kept_in = os.path.join(base, "originals", name)
        try:
            meta = journal.read_original_meta_in(kept_in, journal.unquote_path(name))
            if journal.get_original_directory(base, meta["path"]) != kept_in:
                raise journal.build_damaged_original_error(
                    kept_in, meta["path"], "its meta.json names a file that is kept by another name"
                )
            if not meta.get("forget"):
                originals[meta["path"]] = _show_original(root, base, meta, cap, keep)
        except host_files.HostError as exc:
            broken.append(
                {
                    "path": journal.unquote_path(name),
                    "directory": kept_in[len(root) :],
                    "why": exc.message,
                }
            )
    opened = [
        meta
        for meta in (
            journal.read_transaction(base, name)
            for name in journal.list_transaction_names(base, "open")
        )
        if meta
    ]
    answer = {
        "originals": originals,
        "damaged": broken,
        "known": bool(journal.list_transaction_names(base)),
        "unfinished": [
            dict(_show_transaction(meta), at_work=_is_at_work(base, meta))
            for meta in opened
            if not meta["closed"]
        ],
        "outcomes": [
            dict(_show_transaction(meta), logs=_logs(meta))
            for meta in opened
            if meta["closed"] and meta["state"] == "rolled_back"
        ],
        "pending": host_files.cut_texts(journal.list_unrestarted_units(base, bool(root))),
        "strays": list_strays(root, base, stray_globs),
    }
    if listing:
        answer["journal"] = [
            _show_transaction(meta) for meta in reversed(journal.list_transactions(base))
        ]
    return answer


def list_strays(root, base, directories):
    """List our names next to files that no transaction refers to: their journal was removed while
    they were in use.
    """
    strays = []
    for directory in directories:
        place_ = host_files.get_full_path(root, host_files.resolve_links(root, directory)[0])
        listed = sorted(os.listdir(place_)) if os.path.isdir(place_) else []
        strays += [
            os.path.join(directory, name)
            for name in listed
            if journal.is_stray(base, os.path.join(place_, name))
        ]
    return strays


def _show_original(root, base, meta, cap, keep):
    """Describe one original for the controller, together with the present state of the file."""
    original = journal.read_original(base, meta["path"])
    shown = {key: value for key, value in meta.items() if key not in ("xattrs", "path")}
    shown.update(
        content=None,
        directory=journal.get_original_directory(base, meta["path"])[len(root) :],
        now=None,
        trouble=None,
    )
    if original[1] is not None and len(original[1].data) <= cap:
        wanted = [entry["keep"] for entry in keep or () if meta["path"].endswith(entry["ends"])]
        shown.update(
            contents.show_content(original[1].data, wanted[0], meta["path"]) if wanted else {}
        )
    for name in ("sha256_before", "sha256_after"):
        shown[name] = keyed.digest_with_key(shown[name])
    try:
        shown["now"] = journal.report_digest(
            journal.take_snapshot(root, host_files.resolve_links(root, meta["path"])[0])
        )
    except host_files.HostError as exc:
        shown["trouble"] = exc.message
    return shown


def _place(root, directory):
    # it looks at all that lies there
    return host_files.look_once(
        (root, "journal " + directory), lambda: journal.get_journal_directory(root, directory)
    )


def may_show_whole_file(root, path, data, keep):
    """Tell whether all of a file may travel: a transaction left exactly these bytes, which a
    controller had sent.

    keep: its `journal` is the directory to ask. Without `journal`, the answer is False.
    """
    try:
        meta = (
            journal.read_original_meta(_place(root, keep["journal"]), path)
            if keep and "journal" in keep
            else None
        )
    except host_files.HostError:  # then only listed parts travel
        return False
    return (
        bool(meta)
        and not meta.get("forget")
        and meta["sha256_after"] == host_files.digest_bytes(data)
    )


def _is_at_work(base, meta):
    return _is_watched(meta) or journal.is_transaction_at_work(base, meta["id"])


def _is_watched(meta):
    """Tell whether a transaction is on probation and its monitor lives. The timer would end it too,
    but its files would stay until then.
    """
    last = meta["states"][-1] if meta["states"] else {}
    lives = system.get_process_start(last.get("pid") or 0) == last.get("start")
    return meta["state"] == "probation" and meta.get("boot") == system.name_boot() and lives


def _logs(meta):
    """Return why the units failed, as known when the transaction was taken back: unit -> failed,
    causes, evidence.

    The units' own output stays in the host's journal.
    """
    logs = [
        entry
        for entry in journal.report_outcome(meta).get("health") or []
        if entry.get("kind") == "log"
    ]
    shown = ("failed", "causes", "evidence")
    return {
        entry["name"]: {key: entry[key] for key in shown}
        for entry in logs
        if all(key in entry for key in shown)
    }


def _show_transaction(meta):
    outcome = journal.report_outcome(meta) if meta["state"] == "rolled_back" else {}
    shown = {
        "id": meta["id"],
        "time": meta.get("time"),
        "reason": meta.get("reason"),
        "state": meta["state"] if "schema" in meta else "unreadable",
        "files": [change["path"] for change in meta.get("changes") or []],
        "removed": [
            change["path"]
            for change in meta.get("changes") or []
            if change.get("sha256_after") is None
        ],
        "ran": [" ".join(command["argv"]) for command in meta.get("commands") or []],
        "units": [unit["name"] for unit in meta.get("units") or []],
        "actions": [unit.get("action") or "restart" for unit in meta.get("units") or []],
        "by": outcome.get("by"),
        "why": outcome.get("why"),
        "trouble": outcome.get("trouble"),
        "foreign": outcome.get("foreign") or [],
        "entry": meta["entry"],
    }
    return host_files.cut_texts(shown)
