# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The request of a transaction, as the host reads it (schema 1). The types here define what each
part may hold, and are checked.

The parts that planners make are typed tables. The host checks the parts of a request that name
files, units and programs (module_utils/_host/transaction/request.py), and takes the rest as it
comes from here.
"""

from __future__ import annotations

import dataclasses as dc
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, cast

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import admin_groups

SCHEMA = 1
UNIT_TIMEOUT = 120  # seconds within which a unit has to act

# --- changes of files
# --------------------------------------------------------------------------------------------------


class _Path(TypedDict):
    path: str


class _Changing(_Path, total=False):
    expect: str | None  # the digest of the file as it was seen, None if it was not there
    forget: bool  # keep no original of it any more
    groups: Sequence[str]  # whose members may write to its directories as well (admin_groups.py)


class CopiedReference(TypedDict):
    """A value that the host copies instead of receiving it: from `span` of `path` to `at` of the
    text.
    """

    at: int
    path: str
    expect: str | None
    span: Sequence[int]


class Line(TypedDict):
    """An edit of lines: lines [start, end) become `text`."""

    start: int
    end: int
    text: str


class _WriteKeys(_Changing):
    op: Literal["write"]
    content: str


class Archived(TypedDict):
    """The place of a file's bytes on the controller, which fills them in when it sends the request."""

    file: str
    name: str
    sha256: str  # of the bytes, as the archive's manifest has it


class Write(_WriteKeys, total=False):
    """A file that gets new content."""

    mode: str
    encoding: Literal["base64"]  # of the content, if it is not text
    archived: Archived
    linked: bool  # its other names (hard links) may keep the old content
    references: Sequence[CopiedReference]
    keep: Mapping[str, Any] | None


class _EditKeys(_Changing):
    op: Literal["edit"]
    edits: Sequence[Line]


class Edit(_EditKeys, total=False):
    """A file in which the host changes some lines."""

    result: str | None  # the digest of the text that the planner has made
    keep: Mapping[str, Any] | None  # what was shown of the file (module_utils/_host/projection)


class Remove(_Changing):
    """A file that is removed."""

    op: Literal["remove"]


class _RestoreKeys(_Changing):
    op: Literal["restore"]


class Restore(_RestoreKeys, total=False):
    """A file that gets its content from before this collection."""

    changed: bool  # also if it was changed by others since


Change = Write | Edit | Remove | Restore

# --- what is run
# --------------------------------------------------------------------------------------------------


class _Argv(TypedDict):
    argv: list[str]


class PackageCommand(_Argv, total=False):
    """A command that runs before files change, and the command that undoes it."""

    timeout: float
    why: str
    env: Mapping[str, str]
    undo: list[str] | None
    undo_within: float  # seconds; what needs more than ten is not undone while the host boots
    accepts: list[int]  # exit statuses that mean success, besides 0
    undo_accepts: list[int]  # the same of `undo`, if they differ
    undo_leaves: bool  # whether a part of what the command brought may stay


class Words(TypedDict):
    """A placeholder for words of a command: the arguments of a process, without some."""

    process: int
    ticks: int
    without: Sequence[str]


class _SignKeys(TypedDict):
    pattern: str
    says: str


class Sign(_SignKeys, total=False):
    """A pattern in a validator's output, and what it means."""

    anywhere: bool  # of what is refused: on stdout, too, and not on stderr alone


class _ValidatorKeys(TypedDict):
    argv: Sequence[str | Words]


class Validator(_ValidatorKeys, total=False):
    """A program that reads the staged copies, and the output of it that counts as a refusal."""

    baseline: Sequence[str | Words] | None  # the same for the present state
    timeout: float
    why: str
    # pid and ticks (when it began) of the process whose program it is
    process: Mapping[str, int] | None
    refuse: Sequence[Sign]
    require: Sequence[Sign]
    allow: Sequence[str]
    names: Sequence[str]


class _StagedKeys(TypedDict):
    name: str
    source: str


class Staged(_StagedKeys, total=False):
    """A file for a validator that is not changed on the host."""

    tree: bool


# --- whether it serves
# --------------------------------------------------------------------------------------------------


class HealthNeed(TypedDict, total=False):
    """A requirement on a health check's answer: a handler, or a value at a path."""

    handler: str
    path: Sequence[str]
    equals: Any
    absent: bool
    filled: bool
    folded: bool


class _CriKeys(TypedDict):
    kind: Literal["cri"]
    socket: str


class Cri(_CriKeys, total=False):
    """A check of an engine that answers over CRI."""

    timeout: float
    replaces: int  # the process that served before, whose answers do not count
    require: Sequence[HealthNeed]


class _HttpKeys(TypedDict):
    kind: Literal["http"]
    socket: str
    path: str


class Http(_HttpKeys, total=False):
    """A check of an engine that answers over HTTP."""

    timeout: float
    require: Sequence[HealthNeed]


Health = Cri | Http

# --- the whole
# --------------------------------------------------------------------------------------------------


@dc.dataclass(frozen=True)
class Unit:
    """A unit that is started, restarted or reloaded, or that restarts by itself. timeout: in
    seconds.
    """

    name: str
    action: Literal["restart", "reload", "start", "wait"]
    timeout: float = UNIT_TIMEOUT


@dc.dataclass(frozen=True)
class Expected:
    """The state that the plan was made from. A host that differs from it is looked at again."""

    files: Mapping[str, str | None] = dc.field(default_factory=dict)
    units: Mapping[str, str] = dc.field(default_factory=dict)
    packages: Mapping[str, str | None] = dc.field(default_factory=dict)
    programs: Mapping[str, str | None] = dc.field(default_factory=dict)


@dc.dataclass(frozen=True)
class Stage:
    """A file that a validator reads instead of the host's own."""

    files: Sequence[Staged] = ()
    substitute: Sequence[tuple[str, str]] = ()


@dc.dataclass(frozen=True)
class Request:
    """A transaction.

    alone: the host finishes what is begun by itself, even if the connection ends. judge: nothing is
    begun, and the answer tells what would refuse these files.
    """

    root: str
    journal_dir: str
    reason: str
    check: bool
    alone: bool
    expect: Expected = Expected()
    commands_before: Sequence[PackageCommand] = ()
    changes: Sequence[Change] = ()
    stage: Stage = Stage()
    validate: Sequence[Validator] = ()
    disable: Sequence[str] = ()
    units: Sequence[Unit] = ()
    health: Sequence[Health] = ()
    causes: Sequence[Mapping[str, Any]] = ()
    probation: float = 0
    judge: bool = False
    pending: Sequence[str] = ()  # units whose restart is left to a person
    acknowledged: Sequence[str] = ()  # transactions that were rolled back, which this run reports
    strays: Sequence[str] = ()  # names next to files that nothing refers to
    id: str = dc.field(default_factory=lambda: uuid.uuid4().hex)

    def build_message(self) -> dict[str, Any]:
        """Return the request in the form that is sent."""
        return build_request_message(self)


@dc.dataclass(frozen=True)
class Acknowledgement:
    """The rollbacks that this run has reported, if no transaction follows that would acknowledge
    them.

    ids: the transactions that were rolled back.
    """

    root: str
    journal_dir: str
    ids: Sequence[str] = ()
    strays: Sequence[str] = ()

    def build_message(self) -> dict[str, Any]:
        """Return the request in the form that is sent."""
        return build_request_message(self)


def build_request_message(request: Request | Acknowledgement) -> dict[str, Any]:
    """Return a request in the form that is sent: its fields, with the schema that the host reads."""
    return {"schema": SCHEMA, **convert_json_types(request)}


def convert_json_types(value: Any) -> Any:
    """Return a value made of JSON's types only."""
    if dc.is_dataclass(value) and not isinstance(value, type):
        return {name: convert_json_types(inner) for name, inner in vars(value).items()}
    if isinstance(value, Mapping):
        return {key: convert_json_types(inner) for key, inner in value.items()}
    return (
        [convert_json_types(inner) for inner in value]
        if isinstance(value, (list, tuple))
        else value
    )


def allow_groups(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return the changes, each with the groups besides root that the host lets write at its path."""
    groups = [(change, admin_groups.get_admin_groups(change["path"])) for change in changes]
    return tuple(
        cast(Change, {**change, "groups": list(names)}) if names else change
        for change, names in groups
    )


def forget_original(change: Change) -> Change:
    """Return the change, after which no original of the file is kept."""
    return cast(Change, {**change, "forget": True})
