# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers of the observer on one host, read by name. A question that was not asked raises
NeedMore, so the action asks it.
"""

from __future__ import annotations

import base64
import dataclasses as dc
import functools
import posixpath
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    messages,
    queries,
    query_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    AskedQuestions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.whole import read_whole

T = TypeVar("T")
# Sentences about a fact that could not be learned, by the query's kind, which its id begins with.
UNKNOWN = {
    "file": query_messages.FILE_NOT_READ,
    "stat": query_messages.PATH_NOT_INSPECTED,
    "dir": query_messages.DIRECTORY_NOT_LISTED,
    "glob": query_messages.PATTERN_NOT_LISTED,
    "paths": query_messages.DRIVER_FILES_NOT_LISTED,
    "mentioned": query_messages.TARGETS_NOT_INSPECTED,
    "tags": query_messages.KEYS_NOT_COMPARED,
    "which": query_messages.PROGRAMS_NOT_SEARCHED,
    "command": query_messages.COMMAND_UNRUN,
    "package": query_messages.PACKAGES_NOT_QUERIED,
    "units": query_messages.UNITS_NOT_QUERIED,
    "processes": query_messages.PROCESSES_NOT_LISTED,
    "cri": query_messages.CRI_UNANSWERED,
    "http": query_messages.HTTP_UNANSWERED,
    "probe": query_messages.LIBRARY_NOT_QUERIED,
    "originals": query_messages.JOURNAL_NOT_READ,
}
# whose ids end in a place that a person knows
PLACED = (
    "file",
    "stat",
    "dir",
    "glob",
    "mentioned",
    "tags",
    "command",
    "cri",
    "http",
)
FAILED_BY = {
    "timeout": messages.QUERY_TIMEOUT,
    "too-large": messages.QUERY_TOO_LARGE,
    "denied": messages.QUERY_DENIED,
}


def build_query_failure(qid: str, error: Mapping[str, Any]) -> QueryFailed:
    """Return the error of one query as an error of the plan."""
    kind, _colon, rest = qid.partition(":")
    place = (rest.partition(":")[2] if kind == "cri" else rest) if kind in PLACED else ""
    said = error.get("message") or error.get("kind") or query_messages.REASON_UNSAID.fill()
    why = said if isinstance(said, Message) else str(said).removeprefix(f"{place}: ")
    row = FAILED_BY.get(str(error.get("kind")), messages.QUERY_FAILED)
    what = (
        UNKNOWN[kind].fill()
        if kind in UNKNOWN
        else query_messages.QUERY_NOT_ANSWERED.fill(query=qid)
    )
    return QueryFailed(row.fill(what=what, cause=why), where=place)


@dc.dataclass(frozen=True)
class ObservedFile:
    """A path on the host. `content` is the part that the host shows, and `sha256` the keyed digest
    of the original bytes.

    keep: the list of what may travel, which `content` was made by.
    fault: the reason why nothing was shown, by code and line.
    withheld: what stands at listed places in another form.
    foreign_bytes: the first line of the original that is not UTF-8.
    """

    path: str
    exists: bool
    type: str = ""
    content: str | None = None
    sha256: str | None = None
    keep: Mapping[str, Any] | None = None
    real: str = ""
    mode: int = 0
    rdev: tuple[int, int] | None = None
    owner: str = ""
    group: str = ""
    uid: int = 0
    mtime: float = 0.0
    error: str = ""
    gid: int = 0
    fault: Mapping[str, Any] | None = None
    withheld: tuple[Mapping[str, Any], ...] = ()
    foreign_bytes: int | None = None
    # the links on the way to it; None if the host reported none
    links: tuple[str, ...] | None = None

    @property
    def trouble(self) -> str:
        """The reason why there is no content, in words for people."""
        kinds = {"dir": "a directory", "link": "a link to nothing", "fifo": "a named pipe", "socket": "a socket", "char": "a device",
                 "block": "a device"}  # fmt: skip
        if isinstance(self.error, Message):
            return self.error
        if self.error:
            text = self.error.removeprefix(f"{self.path}: ")
            return f"it {text}" if text.startswith("is ") else text
        if self.type in kinds:
            return query_messages.FILE_IS_OTHER.fill(kind=kinds[self.type])
        return query_messages.CONTENT_UNSENT.fill()

    @property
    def text(self) -> str:
        """The content; '' if there is none. Reading a file that could not be read raises
        QueryFailed.
        """
        if self.error:
            raise build_query_failure(f"file:{self.path}", {"message": self.error})
        return self.content or ""

    @property
    def is_link(self) -> bool:
        """True if the file itself is a link.

        A link among its directories, such as /var/run on current hosts, does not count.
        """
        if not self.real or self.real == self.path:
            return False
        name = posixpath.basename(self.path)
        return self.links is None or any(posixpath.basename(link) == name for link in self.links)

    @property
    def place(self) -> str:
        """The path where the file is written, and its name in the journal.

        It is the same before and after the file exists, whatever its directories are.
        """
        return self.real if self.is_link else self.path


@dc.dataclass(frozen=True)
class ObservedCommand:
    rc: int | None
    stdout: str
    stderr: str
    error: str = ""
    kind: str = ""  # of the error
    answer: Mapping[str, Any] = dc.field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.rc == 0 and not self.error


def _read_file(path: str, a: Mapping[str, Any]) -> ObservedFile:
    if "error" in a:
        said = a["error"].get("message")
        message = query_messages.FILE_UNREAD_UNSAID.fill() if said is None else str(said)
        return ObservedFile(
            path, exists=True, error=message, real=a.get("real") or path, links=_read_links(a)
        )
    content = a.get("content")
    if content is not None and a.get("encoding") == "base64":
        content = base64.b64decode(content).decode("utf-8", "surrogateescape")
    rdev = a.get("rdev")
    return ObservedFile(
        path,
        bool(a.get("exists")),
        a.get("type") or "",
        content,
        a.get("sha256"),
        a.get("keep"),
        a.get("real") or path,
        int(a.get("mode") or 0),
        (rdev[0], rdev[1]) if rdev else None,
        a.get("owner") or "",
        a.get("group") or "",
        int(a.get("uid") or 0),
        float(a.get("mtime") or 0.0),
        gid=int(a.get("gid") or 0),
        fault=a.get("fault"),
        withheld=tuple(a.get("withheld") or ()),
        foreign_bytes=a.get("foreign_bytes"),
        links=_read_links(a),
    )


def _read_links(a: Mapping[str, Any]) -> tuple[str, ...] | None:
    return tuple(a["links"]) if a.get("links") is not None else None


@dc.dataclass(frozen=True)
class Observation:
    """The answers of one or more looks at one host, merged by question ID."""

    host: Mapping[str, Any]
    answers: Mapping[str, Mapping[str, Any]]

    @functools.cached_property
    def _ids_of_kind(self) -> Mapping[str, list[str]]:
        """The IDs of the answers, by the kind of question that an ID begins with."""
        ids: dict[str, list[str]] = {}
        for qid in self.answers:
            ids.setdefault(qid.partition(":")[0], []).append(qid)
        return ids

    def _list_kind(self, kind: str) -> list[tuple[str, Mapping[str, Any]]]:
        """List the answers of a kind with their IDs. No other answer is read: some make theirs then."""
        return [(qid, self.answers[qid]) for qid in self._ids_of_kind.get(kind, ())]

    @functools.cached_property
    def _files(self) -> dict[str, tuple[ObservedFile, ...]]:
        """The values made from answers about files, by the ID of the query.

        Each is made once, since planners ask for the same many times.
        """
        return {}

    @functools.cached_property
    def _listed(self) -> Mapping[str, Mapping[str, Any]]:
        """The answers about files that a glob met without a question by name; the first answer
        counts.

        A list of `paths` does not count: it shows where each path leads, but not whether that
        exists or what is in it.
        """
        listed: dict[str, Mapping[str, Any]] = {}
        for _qid, a in self._list_kind("glob"):
            for f in a.get("files") or ():
                listed.setdefault(f.get("path"), f)
        return listed

    @functools.cached_property
    def _made(self) -> dict[Any, Any]:
        return {}

    def compute_once(self, key: Any, make: Callable[[], T]) -> T:
        """Return what `make` makes of these answers, made once per key, since planners ask for the
        same many times.

        If `make` raises, the next call tries again.
        """
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    def get_answer(self, question: queries.Question) -> Mapping[str, Any]:
        """Return the answer. Raise QueryFailed for an error, so that a failed query never counts as
        "nothing there".
        """
        answer = self.get_answer_or_error(question)
        if "error" in answer:
            raise build_query_failure(question["id"], answer["error"])
        return answer

    def get_answer_or_error(self, question: queries.Question) -> Mapping[str, Any]:
        """Return the answer or the error, for a caller that can do without the answer and reports
        why.
        """
        if question["id"] not in self.answers:
            raise NeedMore([question])
        return self.answers[question["id"]]

    def _require(self, kind: str, name: str = "") -> None:
        """Raise QueryFailed if a query of this kind failed; with a name, only queries that ask for
        that name count.
        """
        for qid, a in self._list_kind(kind):
            if "error" in a and (not name or name in qid.partition(":")[2].split(",")):
                raise build_query_failure(qid, a["error"])

    def get_asked(self) -> AskedQuestions:
        """Return the questions that have an answer."""
        return AskedQuestions(self.answers)

    def was_asked(self, question: queries.Question) -> bool:
        """Tell whether a question has an answer."""
        return question["id"] in self.answers

    def get_file(self, path: str, keep: Keep | None = None) -> ObservedFile:
        """Return a file that was asked for by path, or met by a glob. Raise NeedMore if it was not
        asked for.

        keep: the list of what may travel, for the question that NeedMore asks.
        """
        qid = f"file:{path}"
        if qid not in self._files:
            answer = self.answers[qid] if qid in self.answers else self._listed.get(path)
            if answer is None:
                raise NeedMore([queries.ask_for_file(path, keep)])
            self._files[qid] = (_read_file(path, answer),)
        return self._files[qid][0]

    def get_text(self, path: str, keep: Keep | None = None) -> str:
        """Return the text of a file; '' if there is none."""
        return self.get_file(path, keep).text

    def is_there(self, path: str) -> bool:
        """Tell whether there is anything at this path, by any look that has met it."""
        known = f"file:{path}" in self.answers or path in self._listed
        return (
            self.get_file(path).exists
            if known
            else bool(self.get_answer(queries.ask_for_file(path, content=False)).get("exists"))
        )

    def list_glob_files(self, pattern: str, keep: Keep | None = None) -> tuple[ObservedFile, ...]:
        """Return the files that match a pattern."""
        qid = f"glob:{pattern}"
        if qid not in self._files:
            if qid not in self.answers:
                raise NeedMore([queries.ask_for_glob(pattern, keep)])
            a = self.get_answer(queries.ask_for_glob(pattern, content=False))
            self._files[qid] = tuple(_read_file(f["path"], f) for f in a.get("files") or ())
        return self._files[qid]

    def list_present_files(self, pattern: str) -> tuple[ObservedFile, ...]:
        """Return the files of a pattern for a caller that needs no content.

        Raise QueryFailed if one of them could not be inspected.
        """
        files = self.list_glob_files(pattern)
        for file in files:
            if file.error:
                raise build_query_failure(f"stat:{file.path}", {"message": file.error})
        return files

    def list_directory(self, path: str) -> tuple[Mapping[str, Any], ...]:
        """Return the entries of a directory."""
        return tuple(self.get_answer(queries.ask_for_directory(path)).get("entries") or ())

    def get_command(
        self,
        argv: list[str],
        process: Mapping[str, int] | str | None = None,
        keep: Keep | None = None,
    ) -> ObservedCommand:
        """Return the output of a command that ran to its end, with any exit status.

        Raise QueryFailed if it could not be run or timed out.
        """
        said = self.try_command(argv, process, keep)
        if said.error:
            raise build_query_failure(
                queries.ask_for_command(argv)["id"], {"message": said.error, "kind": said.kind}
            )
        return said

    def try_command(
        self,
        argv: list[str],
        process: Mapping[str, int] | str | None = None,
        keep: Keep | None = None,
    ) -> ObservedCommand:
        """Return the output of a command. One that could not be run has an error and no exit
        status.
        """
        a = self.get_answer_or_error(queries.ask_for_command(argv, process=process, keep=keep))
        if "error" in a:
            return ObservedCommand(
                None,
                "",
                "",
                str(a["error"].get("message", "failed")),
                str(a["error"].get("kind", "")),
            )
        if a.get("timed_out"):
            return ObservedCommand(
                None, a.get("stdout") or "", a.get("stderr") or "", "timed out", "timeout"
            )
        return ObservedCommand(a.get("rc"), a.get("stdout") or "", a.get("stderr") or "", answer=a)

    def get_unit(self, name: str) -> Mapping[str, str]:
        """Return the properties of a unit from any look at units; {} if systemd does not know it or
        no look asked for it.
        """
        for _qid, a in self._list_kind("units"):
            if name in (a.get("units") or {}):
                props: Mapping[str, str] = a["units"][name]
                return props if props.get("LoadState") not in (None, "not-found") else {}
        self._require("units", name)
        return {}

    def get_active_seconds(self, name: str) -> float | None:
        """Return for how many seconds a unit has been active; None if that is not known.

        The clock is the one that systemd counts by, which stands still while a host is suspended.
        """
        unit = self.get_unit(name)
        since = read_whole(unit.get("ActiveEnterTimestampMonotonic"))
        now = next(
            (
                a.get("monotonic")
                for _qid, a in self._list_kind("units")
                if name in (a.get("units") or {})
            ),
            None,
        )
        if unit.get("ActiveState") != "active" or not since or not isinstance(now, (int, float)):
            return None
        return float(now) - since / 1e6

    def was_unit_asked(self, name: str) -> bool:
        """Tell whether an observation has reported on this unit, possibly its absence."""
        known = any(name in (a.get("units") or {}) for _qid, a in self._list_kind("units"))
        if not known:
            self._require("units", name)
        return known

    def processes(self) -> tuple[Mapping[str, Any], ...]:
        """Return the verified processes of all processes questions, without duplicates. Only these
        are evidence.
        """
        return tuple(p for p in self._every_process if p.get("verified") is True)

    def list_unverified(self) -> tuple[Mapping[str, Any], ...]:
        """Return root's processes that break a rule.

        They are there, but nothing that they report of themselves counts.
        """
        return tuple(p for p in self._every_process if p.get("verified") is not True)

    def count_others(self) -> dict[str, int]:
        """Return how many processes other users have, by the names that were asked for."""
        return {
            name: number
            for _qid, a in self._list_kind("processes")
            for name, number in (a.get("others") or {}).items()
        }

    @functools.cached_property
    def _every_process(self) -> tuple[Mapping[str, Any], ...]:
        self._require("processes")
        processes: dict[int, Mapping[str, Any]] = {}
        for _qid, a in self._list_kind("processes"):
            processes.update({int(p["pid"]): p for p in a.get("processes") or ()})
        return tuple(processes[pid] for pid in sorted(processes))

    def get_package(self, name: str) -> str | None:
        """Return the installed version of a package; None if it is not installed or was not asked
        for.
        """
        for _qid, a in self._list_kind("package"):
            if name in (a.get("installed") or {}):
                version: str | None = a["installed"][name]
                return version
        self._require("package", name)
        return None

    def find_package_version(self, names: Iterable[str]) -> str:
        """Return the version of the first of these packages that is installed, '' if none is."""
        return next((version for name in names if (version := self.get_package(name))), "")

    def map_packages(self) -> dict[str, str | None]:
        """Return every package that was asked for, with its installed version.

        A failed query is left out here; a plan that needs its answer is never made.
        """
        asked = (a.get("installed") or {} for _qid, a in self._list_kind("package"))
        return {name: version for installed in asked for name, version in installed.items()}

    def map_programs(self) -> dict[str, str | None]:
        """Return the engines' programs that were seen, with the identity of each file."""
        answers = (
            a.get("programs") or {}
            for kind in ("which", "processes")
            for _qid, a in self._list_kind(kind)
        )
        return {path: identity for programs in answers for path, identity in programs.items()}

    def list_located(self) -> frozenset[str]:
        """Return the paths at which a search for programs has found one."""
        located = (a.get("found") or {} for _qid, a in self._list_kind("which"))
        return frozenset(path for paths in located for path in paths.values() if path)

    def get_socket_answer(self, question: queries.Question, pid: int) -> Mapping[str, Any]:
        """Return an answer over a socket, or an error.

        An answer counts as an error if it came neither from this process nor from systemd, which
        may listen for it.
        """
        a = self.get_answer_or_error(question)
        if "error" in a or not pid or a.get("peer") in (None, 1, pid):
            return a
        return {
            "error": {
                "kind": "untrusted",
                "message": query_messages.SERVED_BY_OTHER.fill(
                    socket=question["socket"], found=a.get("peer"), wanted=pid
                ),
            }
        }

    def get_cri(self, socket: str, method: str = "Status", pid: int = 0) -> Mapping[str, Any]:
        """Return the engine's own answer over CRI.

        pid: its process, if one was verified. Raise QueryFailed for an error.
        """
        question = queries.ask_for_cri(socket, method)
        a = self.get_socket_answer(question, pid)
        if "error" in a:
            raise build_query_failure(question["id"], a["error"])
        return a

    def try_cri(self, socket: str, method: str = "Status", pid: int = 0) -> Mapping[str, Any]:
        """Return the engine's own answer over CRI; {} if the engine did not answer."""
        a = self.get_socket_answer(queries.ask_for_cri(socket, method), pid)
        return {} if "error" in a else a

    def add_answers(self, more: Mapping[str, Any]) -> Observation:
        """Return the observation with further answers."""
        return Observation(
            more.get("host") or self.host, {**self.answers, **(more.get("answers") or {})}
        )
