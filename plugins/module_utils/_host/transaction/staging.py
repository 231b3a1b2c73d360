# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare a change before anything is touched.

Find what the files will be, whether they are still as seen, and a validator's verdict. Host side:
standard library only, Python 3.6.
"""

import binascii
import collections
import contextlib
import os
import re
import shutil
import stat

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    causes,
    commands,
    host_files,
    journal,
    keyed,
    system,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    edits,
    health,
    preconditions,
)

MAX_TREE_FILES = 4096
MAX_FINDINGS = 20

# One file of a transaction: its path as asked for and after links, how it is and how it is to be
# (None: absent). forget: keep no original of it any more made_dirs: directories that come with the
# file, or go with it
FileChange = collections.namedtuple("FileChange", "op path real before after forget made_dirs")


def is_different_change(change):
    """Tell whether there is anything to do. A file's time is not a difference."""
    if change.before is None or change.after is None:
        return change.before is not change.after
    return change.before._replace(mtime=0, xattrs={}) != change.after._replace(mtime=0, xattrs={})


def plan_file_changes(root, base, changes):
    """Return ([FileChange], [conflict]): the requested changes against the files as they are now."""
    planned, conflicts = [], []
    for change in changes:
        real, links = host_files.resolve_links(root, change["path"])
        before = journal.take_snapshot(root, real)
        if before is None and host_files.find_dangling_link(root, change["path"]):
            raise host_files.HostError(
                "failed", "%s: is a symbolic link to nothing (%s)" % (change["path"], real)
            )
        if any(real == other.real for other in planned):
            raise host_files.HostError(
                "bad-question", "%s: two changes are for the same file" % change["path"]
            )
        if "expect" in change and not keyed.matches_keyed_digest(
            change["expect"], journal.digest_snapshot(before)
        ):
            conflicts.append(
                build_conflict(
                    "file", change["path"], change["expect"], journal.report_digest(before)
                )
            )
            continue
        if change["op"] == "restore":
            kept = journal.read_original(base, change["path"])
            if kept is None or (
                kept[0]["sha256_after"] != journal.digest_snapshot(before)
                and not change.get("changed")
            ):
                expected = (
                    keyed.digest_with_key(kept[0]["sha256_after"]) if kept else "an original of it"
                )
                conflicts.append(
                    build_conflict(
                        "original", change["path"], expected, journal.report_digest(before)
                    )
                )
                continue
            after, made = kept[1], kept[0].get("made_dirs") or []
        else:
            after = _AFTER[change["op"]](root, change, before)
            # a damaged one is reported before anything is touched
            kept = journal.read_original_meta(base, change["path"])
            made = kept.get("made_dirs") or [] if kept and after is None else []
        if after is not None and before is None:
            made = preconditions.list_missing_dirs(root, real)
        forget = change["op"] == "restore" or bool(change.get("forget"))
        planned.append(FileChange(change["op"], change["path"], real, before, after, forget, made))
        if is_different_change(planned[-1]):
            linked = after is None or bool(change.get("linked"))
            preconditions.require_changeable(
                root, change["path"], real, links, linked, change.get("groups") or ()
            )
    return planned, conflicts


def build_conflict(what, path, expected, found):
    """Return what differs from what the planner has seen."""
    return {"what": what, "path": path, "expected": expected, "found": found}


def _write(root, change, before):
    data = (
        binascii.a2b_base64(change["content"])
        if change.get("encoding") == "base64"
        else edits.encode_edit(change["content"])
    )
    referred = change.get("references") or []
    if referred:
        planned, data = data, _copy_references(root, data, referred)
        edits.require_same_projection(
            change["path"], data, planned, change.get("keep") or {"format": "toml"}
        )
    if before is None:
        before = journal.Snapshot(b"", 0o644, os.geteuid(), os.getegid(), 0, {})
    after = before._replace(
        data=data,
        mode=int(change["mode"], 8) if change.get("mode") else before.mode,
    )
    for path in sorted({reference["path"] for reference in referred}):
        after = after._replace(
            mode=after.mode
            & _limit_readers(root, host_files.resolve_links(root, path)[0], after.gid)
        )
    return after


def _copy_references(root, data, references):
    """Return the text with the values that are copied on the host, each as long as its placeholder."""
    for reference in reversed(references):
        snapshot = journal.take_snapshot(root, host_files.resolve_links(root, reference["path"])[0])
        if snapshot is None or not keyed.matches_keyed_digest(
            reference["expect"], journal.digest_snapshot(snapshot)
        ):
            raise host_files.HostError(
                "failed", "%s: has changed since a value in it was to be copied" % reference["path"]
            )
        first, behind = reference["span"]
        at = reference["at"]
        data = data[:at] + snapshot.data[first:behind] + data[at + behind - first :]
    return data


def _limit_readers(root, real, gid):
    """Return the bits of a mode by which a file of this group gets no reader that the source of the
    copy does not have.
    """
    status = host_files.get_lstat(root, real)
    others, group = status.st_mode & 0o007, status.st_mode >> 3 & 0o007
    group = group if status.st_gid == gid else others
    directory = os.path.dirname(real)
    while directory != "/":
        folder = host_files.get_lstat(root, directory)
        if not folder.st_mode & 0o001:
            others = 0
            group = group if folder.st_gid == gid and folder.st_mode & 0o010 else 0
        directory = os.path.dirname(directory)
    return 0o7700 | group << 3 | others


def _edit(_root, change, before):
    if before is None:
        raise host_files.HostError(
            "not-found", "%s: does not exist, so it cannot be edited" % change["path"]
        )
    return before._replace(data=edits.apply_line_edits(change["path"], before.data, change))


def _remove(_root, _change, _before):
    return None


_AFTER = {"write": _write, "edit": _edit, "remove": _remove}


# --- copies of the state after the changes
# ----------------------------------------------------------------------------


@contextlib.contextmanager
def stage_copies(root, base, request, planned):
    """Yield a private directory with the copies that validators read. It is gone afterwards."""
    stage = os.path.join(base, "stage-" + request["id"])
    wanted = request.get("stage") or {}
    substitute = [
        (old.encode("utf-8"), new.replace("{stage}", stage).encode("utf-8"))
        for old, new in wanted.get("substitute") or []
    ]
    os.mkdir(stage, 0o700)
    try:
        after = {change.real: change.after for change in planned}
        for item in wanted.get("files") or []:
            target = os.path.join(stage, item["name"])
            if os.path.relpath(target, stage).startswith(".."):
                raise host_files.HostError(
                    "bad-question", "a staged name must stay inside: %r" % item["name"]
                )
            if item.get("tree"):
                _stage_tree(root, item["source"], target, after, substitute)
            else:
                _stage_file(root, item["source"], target, after, substitute)
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _stage_file(root, source, target, after, substitute):
    real = host_files.resolve_links(root, source)[0]
    state = after[real] if real in after else journal.take_snapshot(root, real)
    if state is None:
        return
    data = state.data
    for old, new in substitute:
        data = data.replace(old, new)
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    with open(target, "wb") as stream:
        stream.write(data)


def _stage_tree(root, source, target, after, substitute):
    os.makedirs(target, mode=0o700, exist_ok=True)  # also when it is empty: a pattern names it
    top = host_files.resolve_links(root, source)[0]
    paths = {
        real for real, state in after.items() if state is not None and real.startswith(top + "/")
    }
    for directory, _subdirs, names in os.walk(
        host_files.get_full_path(root, top), onerror=host_files.raise_unless_gone
    ):
        for name in names:
            path = os.path.join(directory, name)[len(root) :]
            status = host_files.get_lstat(root, host_files.resolve_links(root, path)[0])
            if status is not None and stat.S_ISREG(status.st_mode):
                paths.add(path)
        if len(paths) > MAX_TREE_FILES:
            raise host_files.HostError(
                "too-large", "%s: holds more than %d files" % (source, MAX_TREE_FILES)
            )
    for path in sorted(paths):
        _stage_file(root, path, os.path.join(target, os.path.relpath(path, top)), after, substitute)


# --- validators
# --------------------------------------------------------------------------------------------------


def validate(request, stage, tolerate_missing):
    """Return [{"argv", "rc", "causes", "findings", "words"}].

    Without any findings, the staged state is good. Only codes and our own sentences leave this
    host. "words" is all of the output, for this host's root, and is removed from the answer again.
    """
    return [
        _validate(check, request, stage, tolerate_missing)
        for check in request.get("validate") or []
    ]


def _validate(check, request, stage, tolerate_missing):
    shown = [
        word.replace("{stage}", stage) if isinstance(word, str) else "..." for word in check["argv"]
    ]
    report = {
        "argv": shown,
        "rc": None,
        "causes": [],
        "findings": [],
        "why": check.get("why", ""),
        "words": "",
    }
    timeout = check.get("timeout", health.READS_WITHIN)
    try:
        argv = _list_words(check["argv"], stage)
        process = check.get("process")
        present = _list_words(check.get("baseline") or [], stage)
        before = (
            commands.decode_answer(commands.run(present, timeout, process=process))
            if present
            else None
        )
        ended = commands.decode_answer(commands.run(argv, timeout, process=process))
    except host_files.HostError as exc:
        # check mode: a package that brings it is not installed yet
        if exc.kind != "not-found" or not tolerate_missing:
            report["findings"].append(exc.message)
        return report
    names = _list_staged_names(request, stage)
    stdout, stderr = [_rename_paths(ended[stream], names) for stream in ("stdout", "stderr")]
    known = {_strip_dates(line) for line in before["stderr"].splitlines()} if before else set()
    news = [line for line in stderr.splitlines() if _strip_dates(line) not in known]
    findings = _own_findings(check, ended, stdout, news, timeout)
    if before is not None and not findings:
        findings = [
            "with the present configuration, %s" % why
            for why in _explain_no_verdict(before, timeout)
        ]
    words = stderr
    if before is not None:
        report["baseline_rc"] = before["rc"]
        # else there is nothing to compare with: the configuration before was not valid
        if before["rc"] == 0 and not findings:
            findings, lines = _list_differences(
                before["stdout"], stdout, check.get("allow") or [], check.get("names") or []
            )
            words += "\n".join(lines)
    # then all of the output may tell why; some programs print it on stdout (zypper)
    if ended["rc"]:
        news = (stderr if before else stderr + "\n" + stdout).splitlines()
    known_causes = (
        causes.recognise_causes("\n".join(news), request.get("causes")) if findings else []
    )
    report.update(
        rc=ended["rc"], causes=known_causes, findings=findings[:MAX_FINDINGS], words=words
    )
    return report


def _list_words(argv, stage):
    """Return the command line.

    A process that it names is replaced by its own arguments, which the controller has never seen.
    """
    words = []
    for word in argv:
        if isinstance(word, dict):
            words += _list_process_arguments(
                word["process"], word["ticks"], word.get("without") or []
            )
        else:
            words.append(word.replace("{stage}", stage))
    return words


def _list_process_arguments(pid, ticks, without):
    """Return a process's arguments without some flags and their values; they stay here. Raise
    HostError if it is gone or replaced.
    """
    argv = (host_files.read_text("", "/proc/%d/cmdline" % pid, 256 * 1024) or "").split("\0")[:-1]
    # asked after the reading: a number that was given again has another beginning
    if not argv or system.get_process_start(pid) != ticks:
        raise host_files.HostError(
            "conflict", "process %d is gone or was replaced by another one" % pid
        )
    words, skip = [], False
    for word in argv[1:]:
        name, equals, _value = word.partition("=")
        if not skip and name not in without:
            words.append(word)
        skip = not skip and name in without and not equals
    return words


def _own_findings(check, found, stdout, stderr, timeout):
    """List what is wrong by the validator's own output.

    `stderr` has only lines that it does not print of the present configuration as well.
    """
    findings = _explain_no_verdict(found, timeout)
    if findings:
        return findings
    findings = ["exit status %d" % found["rc"]] if found["rc"] else []
    for unwanted in check.get("refuse") or []:
        if any(
            re.search(unwanted["pattern"], line)
            for line in stderr + (stdout.splitlines() if unwanted.get("anywhere") else [])
        ):
            findings.append(unwanted["says"])
    # a failed program need not have printed anything
    for wanted in [] if found["rc"] else check.get("require") or []:
        if not any(re.search(wanted["pattern"], line) for line in stdout.splitlines()):
            findings.append(wanted["says"])
    return findings


def _explain_no_verdict(found, timeout):
    """List why a program's output tells nothing; it is empty if the program ended and was read
    whole.
    """
    if found["timed_out"]:
        return ["it did not end within %g s" % timeout]
    return ["it printed more than can be compared"] if found["truncated"] else []


def _strip_dates(line):
    """Return a log line without its time and durations."""
    return re.sub(r'\b(?:time|ts|t)=(?:"[^"]*"|\S+)', "", line).strip()


def _list_differences(before, after, allow, names):
    """Return (sentences, lines): what comes or goes and is not allowed to.

    Compared as multisets: the order of keys is the printer's affair. The sentences name the keys
    that may be named; the lines themselves are for this host's root.
    """
    old, new = [
        collections.Counter(line.strip() for line in text.splitlines()) for text in (before, after)
    ]
    allowed = [re.compile(pattern) for pattern in allow]
    findings, lines = [], []
    for verb, changed in (("would lose", old - new), ("would gain", new - old)):
        other = [
            line
            for line in sorted(changed)
            if not any(pattern.fullmatch(line) for pattern in allowed)
        ]
        if other:
            findings.append(
                "the effective configuration %s %s" % (verb, _count_lines(other, names))
            )
            lines += ["%s: %s" % (verb, line) for line in other]
    return findings, lines


def _count_lines(lines, names):
    keys = sorted(
        {key for key in (line.partition("=")[0].strip() for line in lines) if key in names}
    )
    named = (
        " (%s)" % ", ".join(keys + (["others"] if len(keys) < len(lines) else [])) if keys else ""
    )
    return "%d line%s%s" % (len(lines), "" if len(lines) == 1 else "s", named)


def _list_staged_names(request, stage):
    """Return pairs (staged name, real name), so that output about copies reads as output about the
    host.
    """
    wanted = request.get("stage") or {}
    names = [
        (os.path.join(stage, item["name"]), item["source"]) for item in wanted.get("files") or []
    ]
    names += [(new.replace("{stage}", stage), old) for old, new in wanted.get("substitute") or []]
    return sorted(names, key=lambda pair: -len(pair[0]))


def _rename_paths(text, names):
    for staged_name, real_name in names:
        text = text.replace(staged_name, real_name)
    return text
