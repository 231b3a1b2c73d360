# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer a list of questions about one host in one call, and change nothing.

The questions are about files, commands, units, packages, processes and sockets. What any of it is
for, only the controller knows. Size and time are bounded. A question that fails has an error for an
answer, and the others are answered all the same. Host side: standard library only, Python 3.6.
"""

import contextlib
import json
import os
import re
import shlex
import sys
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    alarms,
    commands,
    failures,
    file_queries,
    host_files,
    question_kinds,
    system,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import cri

SCHEMA = 1
DEFAULT_LIMITS = {"bytes": question_kinds.MOST_BYTES, "seconds": 60}


def run(request):
    """Return the answer to an observe request. No state of the host and no question makes it raise."""
    limits = dict(DEFAULT_LIMITS, **(request.get("limits") or {}))
    deadline = time.monotonic() + limits["seconds"]
    root = host_files.clean_root(request.get("root"))
    answers, room = {}, limits["bytes"]
    commands.asked_for[:] = request.get("environment") or []
    system.forget()
    # Questions without ids get answers by numbers.
    asked = [
        dict(question, id=question.get("id", str(at)))
        for at, question in enumerate(request["questions"])
    ]
    questions = [_add_list(question, request.get("keeps") or ()) for question in asked]
    with host_files.remember_links(), alarms.Alarm(deadline) as alarm:
        units = _answer_units_together(root, questions, alarm)
        # The holders of devices come late: this takes longer the more files any account has open,
        # and must leave the others their time. Questions with a condition come last: they may hang.
        for question in sorted(questions, key=_rank):
            if not _is_asked_here(root, question, alarm):
                continue
            answer = units.get(question.get("id")) or _ask(root, question, alarm)
            size = len(json.dumps(answer))
            if "where" in question and (size > room or _may_end_better(answer, deadline)):
                continue  # it can be asked again by itself
            if size > room:
                answer = host_files.HostError(
                    "too-large", "the answers together exceed %d bytes" % limits["bytes"]
                ).build_answer()
                size = 0
            room -= size
            answers[question["id"]] = answer
    return {"schema": SCHEMA, "host": describe_host(root), "answers": answers}


def _may_end_better(answer, deadline):
    """Tell whether a question that ended so may be answered if it is asked by itself.

    One that had all of its own time, and not what was left of the look's, would only take it again.
    """
    kind = (answer.get("error") or {}).get("kind")
    return kind is not None and (kind != "timeout" or time.monotonic() >= deadline)


def _rank(question):
    return 2 if "where" in question else int(question.get("kind") == "holders")


def _is_asked_here(root, question, alarm):
    """Tell whether a question's condition holds on this host; a question without one is for all."""
    if "where" not in question:
        return True
    try:
        with alarm.set_at(question.get("kind")):  # its patterns may meet a file system that hangs
            return file_queries.fulfils(root, question["where"])
    except Exception:  # without an answer it is asked again by itself, and then fails by name
        return False


def _add_list(question, keeps):
    """Return a question with its list of what may travel, if the question gives that list by its
    number.
    """
    keep = question.get("keep")
    if isinstance(keep, int) and 0 <= keep < len(keeps):
        return dict(question, keep=keeps[keep])
    if question.get("kind") == "originals" and isinstance(keep, list):
        return dict(question, keep=[_add_list(entry, keeps) for entry in keep])
    return question


def describe_host(root):
    """Return what every answer says of its host: system, Python, user, boot, time."""
    # the kernel, the boot and the name of the machine on which a tree lies are not the tree's
    system = os.uname()
    return {
        "python": list(sys.version_info[:3]),
        "system": system.sysname,
        "kernel": "" if root else system.release,
        "machine": system.machine,
        "hostname": "" if root else system.nodename,
        "uid": os.getuid(),
        "root": os.path.isdir(root or "/"),
        "boot_id": ""
        if root
        else (host_files.read_text("", "/proc/sys/kernel/random/boot_id") or "").strip(),
        "epoch": time.time(),
        "os_release": _read_os_release(root),
    }


def _read_os_release(root):
    text = (
        host_files.read_text(root, "/etc/os-release")
        or host_files.read_text(root, "/usr/lib/os-release")
        or ""
    )
    fields = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not key.startswith("#"):
            with contextlib.suppress(ValueError):  # a quote that is not closed
                value = "".join(shlex.split(value))
            fields[host_files.cut_middle(key.strip(), 128)] = host_files.cut_middle(value, 1024)
    return {key: fields[key] for key in sorted(fields)[:256]}


def _ask(root, question, alarm):
    kind = question.get("kind")
    try:
        answer_to = question_kinds.KINDS.get(kind) if isinstance(kind, str) else None
        if answer_to is None:
            raise host_files.HostError("bad-question", "unknown kind of query %r" % (kind,))
        if root and kind not in question_kinds.TREE_KINDS:
            raise host_files.HostError(
                "offline", "a %s query needs the running host, but root is another directory" % kind
            )
        with alarm.set_at(kind):
            return answer_to(root, question)
    except host_files.HostError as exc:
        return exc.build_answer()
    except cri.CriError as exc:
        reason = {
            cri.DEADLINE: "timeout",
            cri.UNAVAILABLE: "not-found",
            cri.DENIED: "untrusted",
        }.get(exc.code, "failed")
        return {
            "error": {
                "kind": reason,
                "message": host_files.cut_middle(exc.message),
                "code": exc.code,
            }
        }
    except KeyError as exc:
        return host_files.HostError(
            "bad-question", "a %s query needs the key %s" % (kind, exc)
        ).build_answer()
    except OSError as exc:
        return host_files.build_os_error(exc, exc.filename or kind).build_answer()
    except (TypeError, ValueError, AttributeError, re.error) as exc:
        return host_files.HostError(
            "bad-question", "a %s query with an invalid value: %s" % (kind, exc)
        ).build_answer()
    except Exception as exc:  # one question must not take the others with it
        return host_files.HostError("failed", failures.describe_fault(exc)).build_answer()


def _answer_units_together(root, questions, alarm):
    """Answer all unit questions by one call of systemctl, which takes longer than most looks: id ->
    answer. {} if that cannot be done.
    """
    asked = [question for question in questions if question.get("kind") == "units"]
    try:
        names = sorted({name for question in asked for name in question["names"]})
        answer = (
            _ask(root, {"kind": "units", "names": names}, alarm)
            if len(asked) > 1
            else {"error": "not needed"}
        )
        return (
            {}
            if "error" in answer
            else {
                q["id"]: {**answer, "units": {n: answer["units"][n] for n in q["names"]}}
                for q in asked
            }
        )
    except (KeyError, TypeError):  # a question that is wrong: it gets an error of its own
        return {}
