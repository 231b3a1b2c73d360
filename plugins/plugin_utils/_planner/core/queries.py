# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Queries for the observer. The ID is made from the question, so two components that ask the same
thing share one answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import admin_groups
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
    file_places,
    output_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)

Question = dict[str, Any]
USUAL = {"content": True, "max": 1 << 20}  # what the host takes if a question leaves it out
# Of files from before our first change, by how their names end: what is asked of them if they
# cannot be given back whole. The first that fits counts.
ORIGINALS = [
    {
        "ends": "/nvidia-container-runtime/config.toml",
        "keep": file_places.keep_places("toml", file_places.RUNTIME_CONFIG),
    },
    {"ends": ".toml", "keep": containerd_places.keep_containerd_places()},
    {"ends": ".json", "keep": file_places.keep_places("json", file_places.DAEMON_JSON)},
]

# A line such as `containerd github.com/containerd/containerd v1.7.24`, `crio version 1.34.0` or
# `Kubernetes v1.31.4`.
BANNER = r"^[\w-]+ (?:version )?(?:[\w./-]+ )?v?\d+\.\d+[\w.+~-]*"

# Programs that watch GPUs for as long as the host runs. They do not count as work if the host's
# systemd runs them as a service. In pods they count as work, since a pod's author chooses the names
# of its programs.
WATCHERS = (
    "nvidia-persistenced",
    "nv-fabricmanager",
    "nv-hostengine",
    "dcgm-exporter",
    "nvidia-powerd",
)


def ask_for_file(
    path: str, keep: Keep | None = None, *, content: bool = True, max: int = 1 << 20
) -> Question:
    """Ask for a file. keep: what of the content may travel. Without content, only what is at the
    path is asked.
    """
    if not content:  # a caller that wants the content must not get an answer without one
        return {"id": f"stat:{path}", "kind": "file", "path": path, "content": False, "max": max}
    asked: Question = {
        "id": f"file:{path}",
        "kind": "file",
        "path": path,
        "content": True,
        "max": max,
        "keep": _build_listed(path, keep),
    }
    groups = admin_groups.get_admin_groups(path)
    return {**asked, "groups": list(groups)} if groups else asked


def merge_questions(questions: list[Question]) -> list[Question]:
    """Return each question once. Two questions with one ID become one whose answer serves both, in
    either order.
    """
    merged: dict[str, Question] = {}
    for question in questions:
        first = merged.get(question["id"])
        merged[question["id"]] = (
            question if first is None or first is question else _serve_both(first, question)
        )
    return list(merged.values())


def _serve_both(one: Question, other: Question) -> Question:
    """Merge two questions with one ID. A list of what may travel is never lost: all else would
    travel without it. A condition stays only if both have the same: else one of them
    would go without its answer.
    """
    both: Question = {**one, **other}
    if "where" in both and one.get("where") != other.get("where"):
        del both["where"]
    for key in ("timeout", "max"):
        both.update({key: max(q[key] for q in (one, other) if key in q)} if key in both else {})
    for key in ("flags", "environment"):
        both.update({key: {**one.get(key, {}), **other.get(key, {})}} if key in both else {})
    if "content" in both:
        both["content"] = bool(one.get("content", True) or other.get("content", True))
    if isinstance(one.get("keep"), Mapping) and isinstance(other.get("keep"), Mapping):
        both["keep"] = _keep_both(one["keep"], other["keep"])
    # of a command's output that is a configuration, lines travel by the list alone
    if "shows" in both:
        shown = [*one.get("shows", ()), *other.get("shows", ())]
        both["shows"] = [] if both.get("keep") else list(dict.fromkeys(shown))
    return both


def pack_questions(questions: Sequence[Question]) -> dict[str, Any]:
    """Return questions in the form that travels: without IDs, usual values and repeated lists.

    A question is known by its place, whose number its answer carries (`name_sent_answers`). Each
    list of what may travel is sent once. An ID repeats in words what a question has in its keys,
    and would travel in both directions.
    """
    lists: list[Any] = []
    numbers: dict[int, int] = {}  # by the object, since most are the same one

    def number(keep: Any) -> int:
        # Two that differ do so soon; to make their texts takes longer than the plan.
        if id(keep) not in numbers:
            if keep not in lists:
                lists.append(keep)
            numbers[id(keep)] = lists.index(keep)
        return numbers[id(keep)]

    def short_form(question: Question) -> Question:
        short = {
            key: value for key, value in question.items() if key != "id" and USUAL.get(key) != value
        }
        if "keep" not in question:
            return short
        if question["kind"] == "originals":
            return {
                **short,
                "keep": [{**entry, "keep": number(entry["keep"])} for entry in question["keep"]],
            }
        return {**short, "keep": number(question["keep"])}

    return {"questions": [short_form(question) for question in questions], "keeps": lists}


def name_sent_answers(answers: Mapping[str, Any], questions: Sequence[Question]) -> dict[str, Any]:
    """Return the answers to questions that were sent, by their IDs. An answer with an unknown
    number is dropped.
    """
    return {
        question["id"]: answers[str(at)]
        for at, question in enumerate(questions)
        if str(at) in answers
    }


def note_lists(answers: Mapping[str, Any], questions: list[Question]) -> None:
    """Put next to each file's content the list that it was made by, since an edit of the file
    repeats that list.
    """
    for question in questions:
        answer = (
            answers.get(question["id"])
            if question.get("keep") and question["kind"] in ("file", "glob")
            else None
        )
        for entry in [answer, *(answer.get("files") or ())] if answer else ():
            entry["keep"] = question["keep"]


def _keep_both(one: Keep, other: Keep) -> Keep:
    if one == other or one["format"] != other["format"]:
        return other
    return {
        **one,
        **{
            key: [*one.get(key, ()), *other.get(key, ())]
            for key in ("places", "comments", "patterns")
        },
    }


def _build_listed(path: str, keep: Keep | None) -> Keep:
    if keep is None:
        raise ValueError(f"the content of {path} is queried without a list of what may be sent")
    return keep


def ask_for_certificates(name: str, paths: Sequence[str]) -> Question:
    """Ask which certificates are in the first of these files that exists, as a digest that is the
    same on every host.
    """
    return {"id": f"certificates:{name}", "kind": "certificates", "paths": list(paths)}


def ask_for_directory(path: str) -> Question:
    """Ask for the names in a directory."""
    return {"id": f"dir:{path}", "kind": "dir", "path": path}


def ask_for_glob(
    pattern: str, keep: Keep | None = None, *, content: bool = True, max: int = 1 << 18
) -> Question:
    """Ask for the files that match a pattern.

    keep: the places whose values may leave the host. max: the most bytes of one file.
    """
    q: Question = {
        "id": f"glob:{pattern}",
        "kind": "glob",
        "pattern": pattern,
        "content": content,
        "max": max,
    }
    return {**q, "keep": _build_listed(pattern, keep)} if content else q


def ask_for_populated_groups(name: str, patterns: list[str]) -> Question:
    """Ask which of many control groups have a process, in themselves or below."""
    return {**ask_for_paths(name, patterns), "populated": True}


def ask_for_paths(
    name: str, patterns: list[str], base: str = "/", *, trust: bool = False
) -> Question:
    """Ask for the paths that match many patterns, without their content.

    base: the tree within the host in which patterns and their links are followed.
    trust: ask also of each path that accounts besides root can change why so.
    """
    q: Question = {
        "id": f"paths:{name}" + ("" if base == "/" else f" in {base}"),
        "kind": "paths",
        "patterns": patterns,
    }
    q = {**q, "trust": True} if trust else q
    return q if base == "/" else {**q, "base": base}


def ask_for_mentioned_paths(pattern: str, find: tuple[str, ...], *, max: int = 1 << 20) -> Question:
    """Ask which absolute paths the files of a glob name, by group 1 of `find`, and what is there.

    No content of them leaves the host.
    """
    return {
        "id": f"mentioned:{pattern}",
        "kind": "mentioned",
        "pattern": pattern,
        "find": list(find),
        "max": max,
    }


def ask_for_program(names: list[str], paths: list[str] | None = None) -> Question:
    """Ask where programs are.

    paths: directories to look in; None for the usual ones.
    """
    q: Question = {"id": "which:" + ",".join(names), "kind": "which", "names": names}
    return {**q, "paths": paths} if paths else q


def ask_for_command(
    argv: list[str],
    *,
    timeout: int = 10,
    max: int = 1 << 20,
    shows: tuple[str, ...] = (BANNER,),
    process: Mapping[str, int] | str | None = None,
    keep: Keep | None = None,
) -> Question:
    """Ask for the output of a command.

    shows: what of a line may travel, by regular expressions; the first that matches counts. The
    default shows a banner with its version. keep: what of the output may travel if it is a
    configuration; then nothing from stderr travels. process: the process whose program is run, by
    number and beginning, or the first verified one of a name; else the program is looked up.
    """
    q: Question = {
        "id": "command:" + " ".join(argv), "kind": "command", "argv": argv, "timeout": timeout, "max": max, "shows": list(shows)
    }  # fmt: skip
    q = {**q, "keep": keep, "shows": []} if keep else q
    return (
        {**q, "process": process if isinstance(process, str) else dict(process)} if process else q
    )


Places = Sequence[Sequence[str]]
Moves = Sequence[tuple[Sequence[str], Sequence[str]]]


def ask_for_tags(
    path: str, prefixes: Places, keep: Keep, moves: Moves = (), *, max: int = 1 << 20
) -> Question:
    """Ask how the keys of a TOML file that are not sent compare with those of another file.

    prefixes: the tables below which they are compared. moves: pairs of paths; a string at the first
    counts as the list of it at the second.
    """
    return {
        "id": f"tags:{path}",
        "kind": "tags",
        "path": path,
        "max": max,
        **_compare_keys(prefixes, keep, moves),
    }


def ask_for_printed_tags(
    argv: list[str],
    prefixes: Places,
    keep: Keep,
    moves: Moves = (),
    process: Mapping[str, int] | None = None,
) -> Question:
    """Ask how the keys that a program prints as TOML, and that are not sent, compare with others.
    See `ask_for_tags`.
    """
    q: Question = {
        "id": "tags:" + " ".join(argv),
        "kind": "tags",
        "argv": argv,
        "timeout": 10,
        **_compare_keys(prefixes, keep, moves),
    }
    return {**q, "process": dict(process)} if process else q


def _compare_keys(prefixes: Places, keep: Keep, moves: Moves) -> Question:
    pairs = [[list(source), list(target)] for source, target in moves]
    return {
        "prefixes": [list(prefix) for prefix in prefixes],
        "keep": keep,
        **({"moves": pairs} if pairs else {}),
    }


def ask_for_packages(names: list[str], *, candidates: bool = False) -> Question:
    """Ask for the versions of installed packages.

    candidates: also ask for the versions that could be installed.
    """
    q: Question = {"id": "package:" + ",".join(names), "kind": "package", "names": names}
    return {**q, "candidates": True} if candidates else q


def ask_for_packages_like(name: str, like: str, *, candidates: bool = False) -> Question:
    """Ask for the installed packages whose names match a regular expression: the version, who made
    it, whether it is held by the package manager's own database, and what apt offers, which is ''
    without `candidates`.
    """
    q: Question = {"id": f"package:{name}", "kind": "package", "names": [], "like": like}
    return {**q, "candidates": True} if candidates else q


def ask_for_units(names: list[str]) -> Question:
    """Ask systemd for the states of units."""
    return {"id": "units:" + ",".join(names), "kind": "units", "names": names}


def ask_for_processes(
    names: list[str],
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Question:
    """Ask for the processes of these names.

    flags, environment: the ones whose values are needed, each with the shape of its value. For all
    others, not even the name leaves the host.
    """
    q: Question = {
        "id": "processes:" + ",".join(names),
        "kind": "processes",
        "names": names,
        "flags": dict(flags or {}),
    }
    return {**q, "environment": dict(environment)} if environment else q


def ask_for_holders(
    name: str, pattern: str, services: Sequence[str] = (), *, groups: bool = False
) -> Question:
    """Ask for the numbers of the processes that hold a device open whose path matches.

    services: programs that do not count as a service's own.
    groups: ask also which device, by the group `device` of the pattern, and in which control group.
    """
    q: Question = {
        "id": f"holders:{name}",
        "kind": "holders",
        "pattern": pattern,
        "services": list(services),
    }
    return {**q, "groups": True} if groups else q


def ask_for_cri(socket: str, method: str = "Status", *, timeout: int = 5) -> Question:
    """Ask a container runtime over its CRI socket.

    timeout: in seconds.
    """
    q: Question = {
        "id": f"cri:{method}:{socket}",
        "kind": "cri",
        "socket": socket,
        "method": method,
        "timeout": timeout,
    }
    return {**q, "keep": output_places.STATUS} if method == "Status" else q


def ask_for_pods(
    socket: str, handlers: Sequence[str], annotation: str = "", *, timeout: int = 10
) -> Question:
    """Ask which pods were started with one of these handlers.

    annotation: the one that keeps the handler, if the runtime's list leaves it out.
    """
    name = f"cri:ListPodSandbox:{','.join(handlers)}:{socket}"
    q: Question = {
        "id": name,
        "kind": "cri",
        "socket": socket,
        "method": "ListPodSandbox",
        "timeout": timeout,
    }
    return {**q, "handlers": list(handlers), "annotation": annotation}


def ask_for_sandbox_counts(
    socket: str,
    handlers: Sequence[str],
    prefixes: Sequence[str] = (),
    annotation: str = "",
    *,
    uids: Sequence[str] = (),
    timeout: int = 10,
) -> Question:
    """Ask how many pods, including stopped ones, use each of these handlers, and how many that may
    be in the host's PID namespace have a name with one of these prefixes.

    Their names stay on the host. uids: of pods that are asked for whether they have a PID namespace
    of their own.
    """
    name = f"cri:ListPodSandbox:{socket} {','.join([*handlers, *prefixes, *uids])}"
    q: Question = {
        "id": name,
        "kind": "cri",
        "socket": socket,
        "method": "ListPodSandbox",
        "timeout": timeout,
        "count": True,
    }
    return {
        **q,
        "handlers": list(handlers),
        "prefixes": list(prefixes),
        "annotation": annotation,
        "uids": list(uids),
    }


def ask_for_http(
    socket: str, path: str, keep: Keep | None = None, *, timeout: int = 5, daemon: str = ""
) -> Question:
    """Ask an engine over HTTP. The needed parts of the answer are listed by path; for a
    configuration, by `keep`.

    daemon: the program that has to run, verified, before the host connects. If systemd listens, a
    connection starts the service.
    """
    q: Question = {
        "id": f"http:{socket}{path}",
        "kind": "http",
        "socket": socket,
        "path": path,
        "timeout": timeout,
    }
    q = {**q, "daemon": daemon} if daemon else q
    return (
        {**q, "keep": output_places.HTTP[path]}
        if path in output_places.HTTP
        else {**q, "keep": _build_listed(path, keep)}
    )


def probe(
    name: str, source: str, args: Any, *, timeout: int = 20, loads: Sequence[str] = ()
) -> Question:
    """Ask for the result of a program.

    loads: paths and names of libraries that it loads. It does not start if users besides root can
    change one of them, or another file that the dynamic linker loads for it.
    """
    q: Question = {
        "id": f"probe:{name}",
        "kind": "probe",
        "source": source,
        "args": args,
        "timeout": timeout,
    }
    return {**q, "loads": list(loads)} if loads else q


def ask_for_probe(
    name: str, args: Any, *, timeout: int = 20, loads: Sequence[str] = ()
) -> Question:
    """Ask for the result of a probe of this collection by its name. The sender of the question adds
    its source.

    loads: of `probe`.
    """
    q: Question = {
        "id": f"probe:{name}",
        "kind": "probe",
        "program": name,
        "args": args,
        "timeout": timeout,
    }
    return {**q, "loads": list(loads)} if loads else q


def ask_where(
    question: Question, *, absent: Sequence[str], present: Sequence[str], each: tuple[str, str]
) -> Question:
    """Ask a question only of a host that needs it. Any other host leaves the answer out.

    absent: patterns that match no file there. present: patterns that match one. each: two patterns;
    the second matches a file for each file of the first.
    """
    where = {"absent": list(absent), "present": list(present), "each": list(each)}
    return {**question, "where": where}


def ask_for_archive(file: str) -> Question:
    """Ask for the manifest and the key of an archive of packages, which the controller itself reads
    and compares.
    """
    return {"id": f"archive:{file}", "kind": "archive", "file": file}


def ask_for_fetched_text(url: str) -> Question:
    """Ask for text from the network, as the controller sees it; no host is asked."""
    return {"id": f"fetch:{url}", "kind": "fetch", "url": url}


# The places of a transaction's new and old files: above the directories that we write to, or in
# them.
STRAY_GLOBS = (
    "/etc", "/etc/ansible", "/etc/apt", "/etc/containerd", "/etc/crio", "/etc/docker", "/etc/systemd", "/etc/systemd/system", "/etc/udev",
    "/run", "/run/cdi", "/usr/local", "/usr/local/libexec", "/usr/share/containers", "/usr/share/containers/oci", "/var/lib",
)  # fmt: skip


def ask_for_originals(directory: str, *, listing: bool = False) -> Question:
    """Ask for the files whose original content the journal keeps.

    listing: also what else is in the journal.
    """
    q: Question = {
        "id": "originals",
        "kind": "originals",
        "dir": directory,
        "keep": ORIGINALS,
        "stray_globs": list(STRAY_GLOBS),
    }
    return {**q, "listing": True} if listing else q
