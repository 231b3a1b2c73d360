# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observations for tests, from what a domain expert would name: these files, these processes, these
answers of the engine.
"""

from __future__ import annotations

import fnmatch
import hashlib
import posixpath
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import (
    contents,
    leaves,
    selection,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
    output_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_generators,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    driver_listing,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import (
    projection,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
    mismatch,
    next_kernel,
    package_movers,
    platforms,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    leaves as containerd_leaves,
)

MENTION = re.compile(r"""[pP]ath["']?\s*:\s*["']?(/[^"'\s,}\]]+)""")
FILES_TELL = ("file", "stat", "glob", "dir", "paths", "mentioned", "which", "tags")
OFFLINE = {"error": {"kind": "offline", "message": "not asked beneath another root"}}


def sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def file_answer(text: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a file's answer from its text.

    A mapping adds or overrides fields. None is a file that is missing.
    """
    if text is None:
        return {"exists": False}
    more = dict(text) if isinstance(text, Mapping) else {"content": text}
    content = more.get("content")
    answer = {
        "exists": True,
        "type": "file",
        "mode": 0o644,
        "uid": 0,
        "gid": 0,
        "owner": "root",
        "group": "root",
        "nlink": 1,
        "mtime": 1.0,
    }
    return {
        **answer,
        "encoding": "utf-8",
        "redacted": False,
        "sha256": None if content is None else sha(content),
        **more,
    }


def spec_answer(path: str, text: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the answer for a file that a glob shows. Of a CDI spec only what may travel arrives."""
    answer = file_answer(text)
    if not path.endswith(lookup.SUFFIXES) or not isinstance(answer.get("content"), str):
        return answer
    told = contents.show_content(
        answer["content"].encode("utf-8", "surrogateescape"), projection.KEEP, path
    )
    return {**answer, **{key: told[key] for key in ("content", "encoding", "fault")}}


class Answers(dict[str, Any]):
    """Answers to any question about the files that it knows, 'not there' for the rest. Other
    questions need given answers.
    """

    def __init__(self, files: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self.files = files

    def __contains__(self, qid: object) -> bool:
        return super().__contains__(qid) or str(qid).partition(":")[0] in FILES_TELL

    def __missing__(self, qid: str) -> dict[str, Any]:
        kind, _colon, rest = qid.partition(":")
        if kind == "file":
            return file_answer(self.files.get(rest))
        if kind == "stat":
            return {**file_answer(self.files.get(rest)), "content": None}
        if kind == "glob":
            return {
                "files": [
                    {"path": p, **spec_answer(p, t)}
                    for p, t in sorted(self.files.items())
                    if self._matches(p, rest)
                ]
            }
        if kind == "paths":
            known = {
                "DRM": ["/dev/dri/by-path/pci-*"],
                mismatch.NAME: [*mismatch.BUILDS, *mismatch.INSTALLED],
                platforms.NAME: platforms.CUDA,
                package_movers.NAME: package_movers.PATHS,
                next_kernel.NAME: next_kernel.PATHS,
                cdi_generators.NAME: cdi_generators.PATTERNS,
                "firmware in ": driver_listing.list_firmware_patterns(rest[len("firmware in ") :]),
            }
            named = (listed for name, listed in known.items() if rest.startswith(name))
            listed = next(named, None) or driver_listing.list_driver_patterns(
                Policy(cdi_compat32="32-bit" in rest)
            )
            return {"files": [self._entry(p) for pattern in listed for p in self._like(pattern)]}
        if kind == "mentioned":
            texts = [
                file_answer(t).get("content") or ""
                for p, t in self.files.items()
                if self._matches(p, rest)
            ]
            return {
                "paths": {p: self._there(p) for text in texts for p in re.findall(MENTION, text)}
            }
        if kind == "tags":
            return self._tags(rest)
        if kind == "dir":
            names = sorted(
                {p[len(rest) + 1 :].split("/")[0] for p in self.files if p.startswith(rest + "/")}
            )
            entries = [
                {"name": n, "type": "file" if f"{rest}/{n}" in self.files else "dir"} for n in names
            ]
            return {"exists": bool(names), "entries": entries}
        if kind == "which":
            found = {
                n: next(
                    (p for p in sorted(self.files) if posixpath.basename(p) == n and "bin/" in p),
                    None,
                )
                for n in rest.split(",")
            }
            return {"found": found}
        raise KeyError(qid)

    def _tags(self, path: str) -> dict[str, Any]:
        """Return the tags of one of containerd's files.

        They stand below its CRI tables, and below every handler that one of the files names.
        """
        texts = [
            str(file_answer(t).get("content") or "")
            for p, t in self.files.items()
            if p.endswith(".toml") and t is not None
        ]
        names = sorted(
            {n for text in texts for n in re.findall(r"\.runtimes\.[\"']?([\w-]+)", text)}
        )
        every = [list(place) for place in containerd_leaves.list_compared_tables(names)]
        text = str(file_answer(self.files.get(path)).get("content") or "")
        return leaves.tag_leaves(
            text.encode("utf-8", "surrogateescape"),
            containerd_places.keep_containerd_places(),
            every,
        )

    def _like(self, pattern: str) -> list[str]:
        start = re.split(r"[*?[]", pattern, maxsplit=1)[0]  # before the first wildcard
        if start == pattern:
            return [pattern] if self.files.get(pattern) is not None else []
        return sorted(
            p
            for p, text in self.files.items()
            if p.startswith(start) and text is not None and self._matches(p, pattern)
        )

    def _entry(self, path: str) -> dict[str, Any]:
        text = self.files[path]
        more = dict(text) if isinstance(text, Mapping) else {}
        return {
            "path": path,
            "real": more.get("real", path),
            "type": more.get("type", "file"),
            "mode": more.get("mode", 0o755),
        }

    def _there(self, path: str) -> dict[str, Any] | None:
        found = file_answer(self.files.get(path))
        return (
            {"type": found["type"], "rdev": found.get("rdev"), "link": False}
            if found["exists"]
            else None
        )

    @staticmethod
    def _matches(path: str, pattern: str) -> bool:
        return path.count("/") == pattern.count("/") and fnmatch.fnmatchcase(path, pattern)


def process(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a verified process, unless the fields name a rule that it breaks."""
    usual: dict[str, Any] = {"start": 2.0, "ticks": 200, "unit": None}
    broken = fields.get("unverified")
    doubt = {
        "place": f"process {fields.get('pid')} ({fields.get('exe')})",
        "why": "breaks it",
        "remedy": "Mend it",
    }
    more = doubt if broken else {"verified": True}
    return {**usual, **more, **fields}


def obs(
    *,
    files: Mapping[str, Any] | None = None,
    commands: Mapping[str, Any] | None = None,
    cri: Mapping[str, Any] | None = None,
    packages: Mapping[str, str | None] | None = None,
    candidates: Mapping[str, str | None] | None = None,
    like: list[list[Any]] | None = None,
    units: Mapping[str, Mapping[str, str]] | None = None,
    processes: list[Mapping[str, Any]] | None = None,
    others: Mapping[str, int] | None = None,
    originals: Mapping[str, Any] | None = None,
    outcomes: list[Mapping[str, Any]] | None = None,
    answers: Mapping[str, Any] | None = None,
    host: Mapping[str, Any] | None = None,
    monotonic: float | None = None,
) -> Observation:
    """Return an observation of a host with these parts.

    commands: by "argv joined", stdout or a whole answer. cri: by "Status:/socket", an answer, and
    its listed parts arrive.

    packages: by name, the version or None. like: those of the driver, as the host lists them.
    """
    given: dict[str, Any] = {}
    for argv, said in (commands or {}).items():
        given[f"command:{argv}"] = (
            {"rc": 0, "stdout": said, "stderr": ""} if isinstance(said, str) else said
        )
    for call, said in (cri or {}).items():
        given[f"cri:{call}"] = (
            {**said, "info": selection.select(said["info"], output_places.STATUS)}
            if "info" in said
            else said
        )
    given["package:of this test"] = {
        "manager": "dpkg",
        "installed": dict(packages or {}),
        "candidates": dict(candidates or {}),
    }
    given[driver_packages.QUESTION["id"]] = {
        "manager": "none" if like is None else "dpkg",
        "installed": {},
        "candidates": {},
        "like": list(like or ()),
    }
    known = {n: {"LoadState": "loaded", **props} for n, props in (units or {}).items()}
    given["units:of this test"] = {"units": known, "monotonic": monotonic}
    given["processes:of this test"] = {
        "processes": [process(p) for p in processes or []],
        "others": dict(others or {}),
    }
    kept = {
        path: {"now": file_answer((files or {}).get(path)).get("sha256"), **told}
        for path, told in (originals or {}).items()
    }
    given[queries.ask_for_originals("")["id"]] = {
        "originals": kept,
        "unfinished": [],
        "outcomes": outcomes or [],
        "pending": [],
    }
    given.update(answers or {})
    return Observation(
        host or {"os_release": {"ID": "debian"}, "epoch": 10.0}, Answers(files or {}, given)
    )
