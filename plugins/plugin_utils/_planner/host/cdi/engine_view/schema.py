# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fit a document to the shape of a CDI spec, and list what does not fit (specs-go/config.go).

If only some releases of the reference library accept something, that is a problem with a rule of
its own; releases.py tells which release does. If a number or a truth value is in a place for text,
it is the text that is written, as library 1.1.1 has it.
"""

from __future__ import annotations

import dataclasses as dc
import math
import re
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view.yaml import (
    Key,
    YamlDocument,
    YamlTree,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    stand_ins,
)

# Field -> type: `[]x` a list, `*x` may be null, `{}` a mapping of texts; names are those of this
# table.
SHAPES: dict[str, dict[str, str]] = {
    "spec": {
        "cdiVersion": "string",
        "kind": "string",
        "annotations": "{}",
        "devices": "[]device",
        "containerEdits": "edits",
    },
    "device": {"name": "string", "annotations": "{}", "containerEdits": "edits"},
    "edits": {
        "env": "[]string",
        "deviceNodes": "[]*node",
        "netDevices": "[]*net",
        "hooks": "[]*hook",
        "mounts": "[]*mount",
        "intelRdt": "*rdt",
        "additionalGids": "[]uint32",
    },
    "node": {
        "path": "string",
        "hostPath": "string",
        "type": "string",
        "major": "int64",
        "minor": "int64",
        "fileMode": "*uint32",
        "permissions": "string",
        "uid": "*uint32",
        "gid": "*uint32",
    },
    "mount": {
        "hostPath": "string",
        "containerPath": "string",
        "options": "[]string",
        "type": "string",
    },
    "hook": {
        "hookName": "string",
        "path": "string",
        "args": "[]string",
        "env": "[]string",
        "timeout": "*int64",
    },
    "net": {"hostInterfaceName": "string", "name": "string"},
    "rdt": {
        "closID": "string",
        "l3CacheSchema": "string",
        "memBwSchema": "string",
        "schemata": "[]string",
        "enableMonitoring": "bool",
        "enableCMT": "bool",
        "enableMBM": "bool",
    },
}
RANGES = {"int64": (-(1 << 63), (1 << 63) - 1), "uint32": (0, (1 << 32) - 1)}
WANTED = {
    "string": "text",
    "bool": "true or false",
    "int64": "a whole number",
    "uint32": "a whole number from 0 to 4294967295",
}
# Fractions that every release reads as the text that is written.
KEPT = re.compile(r"-?(?:0|[1-9]\d{0,2})\.\d{0,2}[1-9]")


@dc.dataclass(frozen=True)
class Problem:
    """A thing that is not as it has to be.

    path: the place in the document. subject: a path on the host.
    """

    rule: str
    path: str
    message: str
    line: int | None = None
    subject: str = ""


@dc.dataclass(frozen=True)
class SpecDocument:
    """A document under the keys of the specification.

    A value that was null or not there is not in it. A null entry of a list is None if its type may
    be null, else empty.
    """

    value: Any  # a dict, or None if the file has no content
    lines: dict[str, int]
    fields: dict[str, int]  # "edits.netDevices" -> the first line with such a field
    problems: tuple[Problem, ...]

    def find_line(self, path: str) -> int | None:
        """Return the line of the place, else of the nearest place around it, else None."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return None


def fit_spec_document(text: YamlDocument) -> SpecDocument:
    """Return the document as engines get it, all releases of the library together.

    `fields` has every field that is there, even if some releases do not know it.
    """
    worker = _Fitter()
    worker.problems += [
        Problem("merged-key", "", messages.SPEC_KEY_MERGED_TWICE.fill(key=key), line)
        for key, line in text.merged_twice
    ]
    value = None if text.tree.value is None else worker.fit(text.tree, "spec", "")
    return SpecDocument(value, worker.lines, worker.fields, tuple(worker.problems))


class _Fitter:
    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.fields: dict[str, int] = {}
        self.problems: list[Problem] = []

    def fit(self, tree: YamlTree, wanted: str, path: str) -> Any:
        """Return the value, None if there is none or if it does not fit."""
        self.lines[path] = tree.line
        wanted = wanted.removeprefix("*")
        if tree.value is None:
            return None
        if wanted in SHAPES:
            return self._fit_struct(tree, wanted, path)
        if wanted == "{}":
            return self._fit_texts(tree, path)
        if wanted.startswith("[]"):
            return self._list(tree, wanted[2:], path)
        return self._fit_scalar(tree, wanted, path)

    def _fit_struct(self, tree: YamlTree, name: str, path: str) -> Any:
        if not isinstance(tree.value, dict):
            return self._report_wrong(tree, path, "a mapping")
        known = {field.casefold(): field for field in SHAPES[name]}
        struct: dict[str, Any] = {}
        for text, child in self._list_keys(tree, path):
            field, place = known.get(text.casefold()), f"{path}.{text}".lstrip(".")
            if field is None:
                self.problems.append(
                    Problem(
                        "unknown-field",
                        place,
                        messages.SPEC_FIELD_UNKNOWN.fill(field=text, place=path or "a CDI spec"),
                        child.line,
                    )
                )
                continue
            self._check_spelling(text, field, place, child.line, twice=field in struct)
            self.fields.setdefault(f"{name}.{field}", child.line)
            place = f"{path}.{field}".lstrip(".")
            value = self.fit(child, SHAPES[name][field], place)
            if value is not None:
                struct[field] = value
        return struct

    def _list_keys(self, tree: YamlTree, path: str) -> list[tuple[str, YamlTree]]:
        """List the keys as text with their values, sorted as they are after the way over JSON.

        So the same one of two spellings of a field wins.
        """
        keys = []
        for key, child in tree.value.items():
            text = get_key_text(key)
            if text is None:
                self.problems.append(
                    Problem("yaml", path, messages.SPEC_KEY_IMPOSSIBLE.fill(key=key[1]), child.line)
                )
            else:
                keys.append((text, child))
        return sorted(keys, key=lambda pair: pair[0].encode("utf-8", "surrogatepass"))

    def _check_spelling(self, text: str, field: str, place: str, line: int, *, twice: bool) -> None:
        if twice:
            self.problems.append(
                Problem("field-twice", place, messages.SPEC_FIELD_TWICE.fill(field=field), line)
            )
        elif text != field:
            self.problems.append(
                Problem(
                    "field-case", place, messages.SPEC_FIELD_CASE.fill(text=text, field=field), line
                )
            )

    def _fit_texts(self, tree: YamlTree, path: str) -> Any:
        if not isinstance(tree.value, dict):
            return self._report_wrong(tree, path, "a mapping")
        return {
            text: self.fit(child, "string", f"{path}.{text}") or ""
            for text, child in self._list_keys(tree, path)
        }

    def _list(self, tree: YamlTree, wanted: str, path: str) -> Any:
        if not isinstance(tree.value, list):
            return self._report_wrong(tree, path, "a list")
        items = []
        for index, child in enumerate(tree.value):
            place = f"{path}[{index}]"
            value = self.fit(child, wanted, place)
            if value is None and wanted[0] == "*" and child.value is None:
                self.problems.append(
                    Problem("null-entry", place, messages.SPEC_ENTRY_EMPTY.fill(), child.line)
                )
            empty: Any = {"string": "", "uint32": 0}.get(wanted, None if wanted[0] == "*" else {})
            items.append(empty if value is None else value)
        return items

    def _fit_scalar(self, tree: YamlTree, wanted: str, path: str) -> Any:
        value = tree.value
        if wanted == "string":
            return self._fit_text(tree, path)
        if wanted == "bool":
            return (
                value if isinstance(value, bool) else self._report_wrong(tree, path, WANTED[wanted])
            )
        low, high = RANGES[wanted]
        number = get_whole_number(value)
        return (
            number
            if number is not None and low <= number <= high
            else self._report_wrong(tree, path, WANTED[wanted])
        )

    def _fit_text(self, tree: YamlTree, path: str) -> str | None:
        if not isinstance(tree.value, str | bool | int | float):
            self._report_wrong(tree, path, WANTED["string"])
            return None
        if isinstance(tree.value, str):
            if stand_ins.reads_otherwise(tree.value):
                self.problems.append(
                    Problem(
                        "changed-text",
                        path,
                        messages.SPEC_NOT_QUOTED.fill(place=path),
                        tree.line,
                    )
                )
            return tree.value
        if not is_kept(tree):
            self.problems.append(
                Problem(
                    "changed-text",
                    path,
                    messages.SPEC_WRITTEN_UNQUOTED.fill(place=path, text=tree.text),
                    tree.line,
                )
            )
        return tree.text

    def _report_wrong(self, tree: YamlTree, path: str, wanted: str) -> None:
        kind = {dict: "a mapping", list: "a list", bool: str(tree.value).lower()}.get(
            type(tree.value), repr(tree.value)
        )
        self.problems.append(
            Problem(
                "wrong-type",
                path,
                messages.SPEC_WRONG_TYPE.fill(
                    place=path or "the document", found=kind[:60], wanted=wanted
                ),
                tree.line,
            )
        )


def get_key_text(key: Key) -> str | None:
    """Return a key as text; None for a null key."""
    value = key[1]
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def is_kept(tree: YamlTree) -> bool:
    """Tell whether a scalar without quotes is the same text in every release: a whole number is,
    and true.
    """
    if isinstance(tree.value, bool):
        return tree.text in ("true", "false")
    return (
        bool(KEPT.fullmatch(tree.text))
        if isinstance(tree.value, float)
        else str(tree.value) == tree.text
    )


def get_whole_number(value: Any) -> int | None:
    """Return the whole number that a value is, also one that is written 195.0; None for anything
    else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return value
    return (
        int(value) if math.isfinite(value) and value == int(value) and abs(value) < 1e18 else None
    )
