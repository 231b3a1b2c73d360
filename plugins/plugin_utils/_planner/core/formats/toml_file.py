# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a TOML file of a host as the host shows it, and build edits that the host repeats on the
real bytes.
"""

from __future__ import annotations

import dataclasses as dc
import hashlib
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)


def read_toml_file(file: ObservedFile, path: str = "") -> toml.TomlDocument:
    """Read the document. Raise PlanError if the file is not TOML.

    path: its name in messages, if that is not its own path.
    """
    path = path or file.path
    if file.fault:
        raise file_places.build_unsent_file_error(
            path, str(file.fault.get("code")), int(file.fault.get("line") or 1), "TOML"
        )
    return dc.replace(
        toml.parse_toml(file.content or "", path), keep=file.keep, foreign_bytes=file.foreign_bytes
    )


def read_printed_toml(text: str, answer: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the data of a configuration that an engine prints or answers with. `path` is its name
    in messages.
    """
    withheld = tuple(answer.get("withheld") or ())
    file = ObservedFile(path, True, "file", text, fault=answer.get("fault"), withheld=withheld)
    return add_hidden_values(read_toml_file(file).data, file)


@dc.dataclass(frozen=True)
class Hidden:
    """A value that the host has not sent. It can be compared by its tag, and copied in place.

    path, sha256, span: its file, and its place in that file. text: what stands for it in the text
    that was sent.
    """

    tag: str
    path: str = dc.field(compare=False)
    sha256: str | None = dc.field(compare=False)
    span: tuple[int, int] = dc.field(compare=False)
    text: str = dc.field(compare=False)

    def __str__(self) -> str:
        return selection.HIDDEN


def add_hidden_values(data: Mapping[str, Any], file: ObservedFile) -> dict[str, Any]:
    """Return the data of a file, with a Hidden for each value that was withheld."""
    result: dict[str, Any] = toml.copy_toml_value(dict(data))
    text = (file.content or "").encode("utf-8", "surrogateescape")
    for entry in file.withheld:
        at: Any = result
        *above, last = entry["path"]
        for name in above:
            at = at.get(name) if isinstance(at, dict) else None
        if isinstance(at, dict) and last in at:
            start, end = entry["span"]
            at[last] = Hidden(
                entry["tag"],
                file.real or file.path,
                file.sha256,
                (start, end),
                text[start:end].decode("utf-8"),
            )
    return result


def edit(path: str, expect: str | None, after: toml.TomlDocument) -> transaction.Edit:
    """Build the change of a file that exists.

    result: the checksum of the planner's text, which the host has to get from what it has shown.
    """
    result = hashlib.sha256(after.text.encode("utf-8", "surrogateescape")).hexdigest()
    change: transaction.Edit = {
        "path": path,
        "op": "edit",
        "expect": expect,
        "edits": toml.list_toml_edits(after),
        "result": result,
    }
    if after.keep:
        change["keep"] = after.keep
    return change


def dump_with_hidden(value: Any) -> str:
    """Write a value as TOML on one line. A hidden value is written as in the host's text."""
    if isinstance(value, Hidden):
        return value.text
    if isinstance(value, Mapping):
        return (
            "{ "
            + ", ".join(
                f"{toml.write_toml_key(k)} = {dump_with_hidden(v)}" for k, v in value.items()
            )
            + " }"
            if value
            else "{}"
        )
    return toml.dump_toml_value(value)


def list_hidden_values(value: Any) -> list[Hidden]:
    """Return all hidden values in a table, in order."""
    if isinstance(value, Mapping):
        return [hidden for inner in value.values() for hidden in list_hidden_values(inner)]
    return [value] if isinstance(value, Hidden) else []


def build_toml_write(
    path: str, expect: str | None, text: str, copied: list[Hidden], keep: Mapping[str, Any]
) -> transaction.Write:
    """Build the change that writes our text. Hidden values in it are as in the files that they are
    copied from.
    """
    change: transaction.Write = {
        "path": path,
        "op": "write",
        "content": text,
        "mode": "0644",
        "expect": expect,
    }
    references: list[transaction.CopiedReference] = []
    at = 0
    data = text.encode("utf-8", "surrogateescape")
    for value in copied:
        stand_in = value.text.encode("utf-8", "surrogateescape")
        at = data.index(b" = " + stand_in, at) + 3
        references.append(
            {"at": at, "path": value.path, "expect": value.sha256, "span": list(value.span)}
        )
        at += len(stand_in)
    if references:
        change["references"], change["keep"] = references, keep
    return change
