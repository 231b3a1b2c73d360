# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer one question about this host: a function for each kind of question.

A function raises if it has no answer, and `observe` makes an answer of that. Host side: standard
library only, Python 3.6.
"""

import functools
import json
import re
import stat
import sys
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    file_queries,
    host_files,
    journal_queries,
    process_queries,
    system,
    trust,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import (
    contents,
    leaves,
    selection,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import cri, cri_queries

MOST_BYTES = 16 * host_files.MIB  # of the answers together, unless a request says otherwise
# for a tree at another root
TREE_KINDS = ("file", "dir", "glob", "paths", "mentioned", "which", "package", "originals", "tags")


def _answer_file(root, question):
    return _describe_read(root, question["path"], question)


def _describe_read(root, path, question):
    """Describe a file. Raise HostError if its content is wanted and another account can write to
    it: that could put anything there.
    """
    if question.get("content", True):
        real = host_files.resolve_links(root, path)[0]
        status = host_files.get_lstat(root, real)
        is_read = status is not None and stat.S_ISREG(status.st_mode)
        if is_read and not trust.is_from_kernel(status):
            groups = question.get("groups") or ()
            trust.require_trusted(path, trust.judge_path(root, path, groups))
    return file_queries.describe_file(root, path, **_get_file_options(question))


def _get_file_options(question):
    return {
        "content": question.get("content", True),
        "cap": question.get("max", host_files.MIB),
        "keep": question.get("keep"),
    }


def _answer_certificates(root, question):
    """Return {"path", "sha256"} of the first of these files that exists, with its certificates'
    digest; None for both if none exists.
    """
    for path in question["paths"]:
        real = host_files.resolve_links(root, path)[0]
        if host_files.get_lstat(root, real) is not None:
            trust.require_trusted(path, trust.judge_path(root, path))
            return {
                "path": path,
                "sha256": file_queries.digest_certificates(
                    host_files.read_regular(root, real, host_files.MIB)
                ),
            }
    return {"path": None, "sha256": None}


def _answer_directory(root, question):
    return file_queries.list_dir(root, question["path"])


def _answer_glob(root, question):
    files, room = [], MOST_BYTES
    for path in file_queries.list_glob_matches(root, question["pattern"]):
        files.append(dict(_describe_match(root, path, question), path=path))
        room -= len(files[-1].get("content") or "")
        if room < 0:  # before all of them are in memory
            raise host_files.HostError(
                "too-large",
                "%s: these files together hold more than %d bytes" % (path, MOST_BYTES),
            )
    return {"files": files}


def _describe_match(root, path, question):
    # A link that leads to itself must not hide the other files.
    try:
        if not question.get("content", True) or not _is_named(path, question):
            return _describe_read(root, path, dict(question, content=False))
        leads = _check_leads_outside(root, path, question)
        if leads is None:
            return _describe_read(root, path, question)
        answer = file_queries.describe_file(root, path, content=False, cap=0)
        return dict(answer, **leads.build_answer()) if answer.get("type") == "file" else answer
    except host_files.HostError as exc:
        return exc.build_answer()


def _is_named(path, question):
    """Tell whether a file of a pattern is read. `names` lists the endings of such files; the others
    are only looked at.
    """
    return not question.get("names") or path.endswith(tuple(question["names"]))


def _check_leads_outside(root, path, question):
    """Return a HostError if a file lies outside of the directories in `inside`, else None. A link
    may lead to any file of the host.
    """
    if not question.get("inside"):
        return None
    real = host_files.resolve_links(root, path)[0]
    if any(
        real.startswith(host_files.resolve_links(root, directory)[0].rstrip("/") + "/")
        for directory in question["inside"]
    ):
        return None
    values = (path, real, " and ".join(question["inside"]))
    return host_files.HostError(
        "outside", "%s: is a link to %s, outside of %s, and is not read" % values
    )


def _answer_paths(root, question):
    # `base` is a root within the root, for a driver that lies in a tree of its own: its links are
    # followed inside it.
    base = question.get("base") or "/"
    tree = host_files.resolve_links(root, base)[0].rstrip("/")
    files = file_queries.list_paths(root + tree, question["patterns"])
    if question.get("trust"):
        for entry in files:
            doubt = trust.judge_path(root, base) or trust.judge_path(root, entry["path"], tree=tree)
            entry["untrusted"] = trust.describe_doubt(doubt) if doubt else ""
    if question.get("populated"):
        files = [
            entry
            for entry in files
            if process_queries.is_group_populated(host_files.get_full_path(root, entry["path"]))
        ]
    return {"files": files}


def _answer_mentioned(root, question):
    # The targets that files point at, although some of the files and paths may fail: no asker knows
    # these names before the files were read.
    readable = functools.partial(_may_be_read, root, question)
    cap = question.get("max", host_files.MIB)
    return file_queries.find_mentioned_paths(
        root, question["pattern"], question["find"], cap, readable, question.get("keep")
    )


def _may_be_read(root, question, path):
    return (
        _is_named(path, question)
        and _check_leads_outside(root, path, question) is None
        and trust.judge_path(root, path) is None
    )


def _tags(root, question):
    """Return how keys that are not shown compare with those of another: in a file, or in what a
    command prints.
    """
    if question.get("argv"):
        if root:
            raise host_files.HostError(
                "offline", "a command needs the running host, but root is another directory"
            )
        answer = _run_question(question)
        # what was printed until then is a part of it, or nothing
        if answer["rc"] or answer["timed_out"]:
            why = (
                "gave no answer in time"
                if answer["timed_out"]
                else "ended with exit status %s" % answer["rc"]
            )
            raise host_files.HostError(
                "timeout" if answer["timed_out"] else "failed",
                "%s %s" % (" ".join(question["argv"]), why),
            )
        data = answer["stdout"]
    else:
        trust.require_trusted(question["path"], trust.judge_path(root, question["path"]))
        data = host_files.read_regular(
            root,
            host_files.resolve_links(root, question["path"])[0],
            question.get("max", host_files.MIB),
        )
    return leaves.tag_leaves(
        data, question["keep"], question["prefixes"], question.get("moves") or ()
    )


def _answer_which(root, question):
    paths = question.get("paths") or host_files.DEFAULT_PATH
    programs, untrusted = {}, {}
    for name in question["names"]:
        # A program that is found may be named in a configuration, and so be run by root: a
        # directory of another account is passed over.
        every = [
            path
            for path in (host_files.find_executable(root, name, [directory]) for directory in paths)
            if path
        ]
        doubts = [trust.judge_program(root, path) for path in every]
        programs[name] = next((every[at] for at, doubt in enumerate(doubts) if doubt is None), None)
        if programs[name] is None and doubts:
            untrusted[name] = trust.build_untrusted_error(every[0], doubts[0]).message
    answer = {
        "found": programs,
        "programs": {
            path: host_files.identify_program(root, path) for path in programs.values() if path
        },
    }
    return dict(answer, untrusted=untrusted) if untrusted else answer


def _require_roots(question):
    """Judge what a program will load or change into, before it starts. Raise HostError if that is
    doubtful.
    """
    loads, base = question.get("loads"), question.get("base") or "/"
    if loads:
        tree = host_files.resolve_links("", base)[0].rstrip("/")
        trust.require_trusted(
            loads[0], trust.judge_path("", base) or trust.judge_libraries("", "", loads, tree)
        )


def _answer_command(_root, question):
    answer = _run_question(question)
    if question.get("keep"):
        projected = contents.show_content(answer["stdout"], question["keep"], question["argv"][0])
        shown = {key: projected[key] for key in ("withheld", "fault", "foreign_bytes")}
        return dict(
            commands.decode_answer(dict(answer, stderr=b"")),
            stdout=projected["content"] or "",
            **shown,
        )
    answer = commands.decode_answer(answer)
    return dict(
        answer,
        **{
            stream: _show_lines(answer[stream], question.get("shows") or ())
            for stream in ("stdout", "stderr")
        },
    )


def _run_question(question):
    """Run the command of a question and return its answer, with the output as bytes. Raise
    HostError if that was cut.
    """
    _require_roots(question)
    argv, process = question["argv"], question.get("process")
    # whichever process of that name the host's own service manager has started
    if isinstance(process, str):
        running = [
            daemon
            for daemon in process_queries.list_processes([re.escape(process)])["processes"]
            if daemon.get("verified")
        ]
        if not running:
            raise host_files.HostError("not-found", "no verified process called %s runs" % process)
        argv, process = (
            [running[0]["exe"]] + argv[1:],
            {"pid": running[0]["pid"], "ticks": running[0]["ticks"]},
        )
    cap = question.get("max", host_files.MIB)
    answer = commands.run(argv, timeout=question.get("timeout", 10), cap=cap, process=process)
    if answer["truncated"]:
        values = (question["argv"][0], cap)
        raise host_files.HostError("too-large", "%s: printed more than %d bytes" % values)
    return answer


def _show_lines(text, patterns):
    """Return, of each line, what the first pattern that matches it finds. Lines that no pattern
    matches stay here.
    """
    matches = (
        next(filter(None, (re.search(pattern, line) for pattern in patterns)), None)
        for line in text.splitlines()
    )
    return "".join(match.group() + "\n" for match in matches if match)


def _probe(_root, question):
    # A question that must go through a library may hang or crash: it does so in a child. The
    # arguments are its argv[1].
    _require_roots(question)
    answer = commands.run(
        [sys.executable or "/usr/bin/python3", "-I", "-S", "-", json.dumps(question.get("args"))],
        timeout=question.get("timeout", 20),
        cap=4 * host_files.MIB,
        stdin=question["source"].encode("utf-8"),
    )
    if answer["timed_out"]:
        raise host_files.HostError(
            "timeout", "the probe gave no answer within %g s" % question.get("timeout", 20)
        )
    answer = commands.decode_answer(answer)
    try:
        return {"value": json.loads(answer["stdout"])}
    except ValueError:
        # our own program: it reads no configuration
        last = (answer["stderr"].strip().splitlines() or ["it printed no JSON"])[-1]
        raise host_files.HostError(
            "failed", "the probe ended with exit status %s: %s" % (answer["rc"], last)
        )


def _answer_package(root, question):
    """Return which packages are installed. `else`: a command to run if the first is not; its
    answer, or its error, is "program".
    """
    answer = system.list_installed_packages(
        root, question["names"], question.get("candidates"), question.get("like")
    )
    if question.get("else") and not root and not answer["installed"][question["names"][0]]:
        try:
            answer["program"] = _answer_command(root, question["else"])
        except host_files.HostError as exc:
            answer["program"] = exc.build_answer()
    return answer


def _answer_units(_root, question):
    now = time.monotonic()  # before systemd is asked, so no unit is taken for older than it is
    return {"units": system.list_units(question["names"]), "monotonic": now}


def _processes(_root, question):
    return process_queries.list_processes(
        question["names"], question.get("flags") or {}, question.get("environment") or {}
    )


def _answer_holders(_root, question):
    return process_queries.list_holders(
        question["pattern"], question.get("services") or (), bool(question.get("groups"))
    )


def _answer_cri(_root, question):
    path, timeout, method = (
        question["socket"],
        question.get("timeout", 5),
        question.get("method", "Status"),
    )
    if method == "Status":
        answer = cri_queries.select_status(
            cri.read_cri_status(path, timeout), question.get("keep") or []
        )
    elif method == "Version":
        answer = cri.read_cri_version(path, timeout)
    elif method == "ListPodSandbox" and question.get("count"):
        answer = cri_queries.count_sandboxes(
            path,
            question["handlers"],
            question.get("prefixes") or (),
            question.get("annotation", ""),
            timeout,
            question.get("uids") or (),
        )
    elif method == "RuntimeConfig":
        answer = cri_queries.read_runtime_config(path, timeout)
    elif method == "ListPodSandbox":
        answer = cri_queries.list_ready_pods(
            path, question["handlers"], question.get("annotation", ""), timeout
        )
    else:
        raise host_files.HostError("bad-question", "unknown CRI query %r" % (method,))
    return dict(answer, peer=trust.answered.get(path))


def _answer_http(_root, question):
    path, timeout = question["socket"], question.get("timeout", 5)
    process_queries.require_running(question.get("daemon"), path)
    answer = system.get_over_socket(path, question["path"], timeout)
    peer = trust.answered.get(path)
    if isinstance(question.get("keep"), dict):
        return dict(
            contents.show_content(
                answer["body"].encode("utf-8"), question["keep"], question["path"]
            ),
            status=answer["status"],
            peer=peer,
        )
    return {
        "status": answer["status"],
        "value": _list_json(answer, question.get("keep") or []),
        "peer": peer,
    }


def _list_json(answer, keep):
    try:
        return (
            selection.select(json.loads(answer["body"]), keep) if answer["status"] == 200 else None
        )
    except ValueError:  # no JSON: nothing in it is listed
        return None


def _answer_originals(root, question):
    more = {"listing": question.get("listing"), "stray_globs": question.get("stray_globs") or ()}
    return journal_queries.look_at_journal(
        root, question["dir"], question.get("max", host_files.MIB), question.get("keep"), **more
    )


KINDS = {
    "file": _answer_file,
    "certificates": _answer_certificates,
    "dir": _answer_directory,
    "glob": _answer_glob,
    "paths": _answer_paths,
    "mentioned": _answer_mentioned,
    "tags": _tags,
    "which": _answer_which,
    "command": _answer_command,
    "probe": _probe,
    "package": _answer_package,
    "units": _answer_units,
    "processes": _processes,
    "holders": _answer_holders,
    "cri": _answer_cri,
    "http": _answer_http,
    "originals": _answer_originals,
}
