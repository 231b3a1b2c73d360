# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the eyes saw on one host, read by name. A question that was not asked raises NeedMore, so that the action asks it."""

from __future__ import annotations

import base64
import dataclasses as dc
import functools
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import ask
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import NeedMore


@dc.dataclass(frozen=True)
class File:
    """One path. `content` is text with secrets blanked (`redacted`); `sha256` is that of the original bytes."""

    path: str
    exists: bool
    type: str = ""
    content: str | None = None
    sha256: str | None = None
    redacted: bool = False
    real: str = ""
    mode: int = 0
    rdev: tuple[int, int] | None = None
    owner: str = ""
    group: str = ""
    uid: int = 0
    nlink: int = 1
    mtime: float = 0.0
    error: str = ""
    gid: int = 0

    @property
    def trouble(self) -> str:
        """Why there is no content, as a person says it."""
        kinds = {"dir": "a directory", "link": "a link to nothing", "fifo": "a named pipe", "socket": "a socket", "char": "a device",
                 "block": "a device"}  # fmt: skip
        if self.error:
            text = self.error.removeprefix(f"{self.path}: ")
            return f"it {text}" if text.startswith("is ") else text
        return f"it is {kinds[self.type]}" if self.type in kinds else "its content did not arrive"

    @property
    def is_link(self) -> bool:
        return bool(self.real) and self.real != self.path


@dc.dataclass(frozen=True)
class Command:
    rc: int | None
    stdout: str
    stderr: str
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.rc == 0 and not self.error


def _file(path: str, a: Mapping[str, Any]) -> File:
    if "error" in a:
        return File(path, exists=True, error=str(a["error"].get("message", "could not be read")))
    content = a.get("content")
    if content is not None and a.get("encoding") == "base64":
        content = base64.b64decode(content).decode("utf-8", "surrogateescape")
    rdev = a.get("rdev")
    return File(
        path, bool(a.get("exists")), a.get("type") or "", content, a.get("sha256"), bool(a.get("redacted")), a.get("real") or path,
        int(a.get("mode") or 0), (rdev[0], rdev[1]) if rdev else None, a.get("owner") or "", a.get("group") or "", int(a.get("uid") or 0),
        int(a.get("nlink") or 1), float(a.get("mtime") or 0.0),
        gid=int(a.get("gid") or 0))


@dc.dataclass(frozen=True)
class Observation:
    """The answers of one or more looks at one host, merged by question id."""

    host: Mapping[str, Any]
    answers: Mapping[str, Mapping[str, Any]]

    @functools.cached_property
    def _of_kind(self) -> Mapping[str, list[Mapping[str, Any]]]:
        """The answers by their question's kind, which their id begins with."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for qid, a in self.answers.items():
            found.setdefault(qid.partition(":")[0], []).append(a)
        return found

    @functools.cached_property
    def _listed(self) -> Mapping[str, Mapping[str, Any]]:
        """What is known of files that some look met without asking for them by name; the first word counts."""
        found: dict[str, Mapping[str, Any]] = {}
        for a in self.answers.values():
            for f in a.get("files") or ():
                found.setdefault(f.get("path"), f)
        return found

    def raw(self, question: ask.Question) -> Mapping[str, Any]:
        if question["id"] not in self.answers:
            raise NeedMore([question])
        return self.answers[question["id"]]

    def asked(self, question: ask.Question) -> bool:
        return question["id"] in self.answers

    def file(self, path: str) -> File:
        """A file asked for by path, or seen through a glob that was asked for."""
        qid = f"file:{path}"
        if qid not in self.answers:
            if path in self._listed:
                return _file(path, self._listed[path])
            raise NeedMore([ask.file(path)])
        return _file(path, self.answers[qid])

    def exists(self, path: str) -> bool:
        """Whether there is anything at this path, by whichever look has met it."""
        known = f"file:{path}" in self.answers or path in self._listed
        return self.file(path).exists if known else bool(self.raw(ask.file(path, content=False)).get("exists"))

    def glob(self, pattern: str) -> tuple[File, ...]:
        a = self.raw(ask.glob(pattern))
        return tuple(_file(f["path"], f) for f in a.get("files") or ())

    def directory(self, path: str) -> tuple[Mapping[str, Any], ...]:
        return tuple(self.raw(ask.directory(path)).get("entries") or ())

    def command(self, argv: list[str]) -> Command:
        a = self.raw(ask.command(argv))
        if "error" in a:
            return Command(None, "", "", str(a["error"].get("message", "failed")))
        return Command(a.get("rc"), a.get("stdout") or "", a.get("stderr") or "", "timed out" if a.get("timed_out") else "")

    def unit(self, name: str) -> Mapping[str, str]:
        """Properties of a unit from any look at units; {} when systemd does not know it or none was asked for."""
        for a in self._of_kind.get("units", ()):
            if name in (a.get("units") or {}):
                props: Mapping[str, str] = a["units"][name]
                return props if props.get("LoadState") not in (None, "not-found") else {}
        return {}

    def processes(self) -> tuple[Mapping[str, Any], ...]:
        """Processes seen by every processes question, without doubles."""
        found: dict[int, Mapping[str, Any]] = {}
        for a in self._of_kind.get("processes", ()):
            found.update({int(p["pid"]): p for p in a.get("processes") or ()})
        return tuple(found[pid] for pid in sorted(found))

    def package(self, name: str) -> str | None:
        """Installed version of a package, None when it is not installed or was not asked for."""
        for a in self._of_kind.get("package", ()):
            if name in (a.get("installed") or {}):
                version: str | None = a["installed"][name]
                return version
        return None

    def packages(self) -> dict[str, str | None]:
        """Every package that was asked for, with its installed version."""
        asked = (a.get("installed") or {} for a in self._of_kind.get("package", ()))
        return {name: version for installed in asked for name, version in installed.items()}

    def programs(self) -> dict[str, str | None]:
        """The engines' programs that were seen, and which file each of them was."""
        seen = (a.get("programs") or {} for kind in ("which", "processes") for a in self._of_kind.get(kind, ()))
        return {path: identity for programs in seen for path, identity in programs.items()}

    def cri(self, socket: str, method: str = "Status") -> Mapping[str, Any]:
        """The engine's own word; {} when it did not answer."""
        a = self.raw(ask.cri(socket, method))
        return {} if "error" in a else a

    def with_answers(self, more: Mapping[str, Any]) -> Observation:
        return Observation(more.get("host") or self.host, {**self.answers, **(more.get("answers") or {})})
