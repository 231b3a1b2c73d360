# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shapes of the observer's answers: one row for each kind of query (module_utils/_node/observe.py and what it calls)."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.shapes import common
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.shapes.common import (
    DIGITS,
    ERROR,
    FILE_TYPE,
    ID,
    MESSAGE,
    MODE,
    NAME,
    NUMBER,
    PATH,
    PATHS,
    PEER,
    PID,
    RDEV,
    SHA256,
    TEXTS,
    TIME,
    VERSION,
    WORD,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.shapes.rules import (
    Choice,
    Flag,
    Has,
    Items,
    Keyed,
    Listed,
    Maybe,
    Named,
    Place,
    Real,
    Row,
    Shape,
    Table,
    Text,
    Tree,
    When,
    Whole,
)

HOST = Table(
    {
        "python": Items(Whole(0, 1 << 16), 3), "system": WORD, "kernel": NAME, "machine": WORD, "hostname": NAME, "uid": ID,
        "root": Flag(), "boot_id": WORD, "epoch": TIME, "os_release": Keyed(VERSION, Text(1024), 256),
    }
)  # fmt: skip
_FILE: Mapping[str, Shape] = {
    "exists?": Flag(), "error?": ERROR, "real?": Maybe(PATH), "links?": PATHS, "sha256?": Maybe(SHA256), "type?": FILE_TYPE, "mode?": MODE,
    "uid?": ID, "gid?": ID, "owner?": NAME, "group?": NAME, "size?": NUMBER, "mtime?": common.FILE_TIME, "ino?": Whole(0, (1 << 64) - 1),
    "dev?": Whole(0, (1 << 64) - 1), "nlink?": NUMBER, "selinux?": Maybe(MESSAGE), "rdev?": RDEV, "untrusted?": MESSAGE,
}  # fmt: skip


def _content(fields: Mapping[str, Shape], needs: tuple[str, ...] = ()) -> Shape:
    """Return a table that may carry a content, as text or, if that is not UTF-8, as base64."""
    coded, plain = (Table({**fields, **content}, needs) for content in (common.CODED, common.PLAIN))
    return When("encoding", {"base64": coded, "": plain})


def _content_of(more: Mapping[str, Shape]) -> Shape:
    return _content({**_FILE, **more}, ("exists", "error"))


_PLACE: Mapping[str, Shape] = {"path": PATH, "real": Maybe(PATH), "type": FILE_TYPE, "mode": MODE, "spot?": PATH}
_ENTRY: Mapping[str, Shape] = {"name": NAME, "type": FILE_TYPE, "size": NUMBER, "mode": MODE, "rdev": RDEV, "target": Maybe(PATH)}
_MENTIONED = Table({"type": FILE_TYPE, "rdev": RDEV, "link": Flag()})
_IDENTITY = Text(64, "[0-9]+:[0-9]+:-?[0-9]+", "an inode, a size and a time")
_PROGRAMS = Keyed(PATH, Maybe(_IDENTITY))
_OUTPUT = Text(common.CONTENT)
_COMMAND = Table(
    {
        "rc": Maybe(common.STATUS), "stdout": _OUTPUT, "stderr": _OUTPUT, "timed_out": Flag(), "truncated?": Flag(), **common.SHOWN,
    }
)  # fmt: skip
_PACKAGE = Table(
    {
        "manager": Choice(("dpkg", "rpm", "none")), "installed": Named("names", Maybe(VERSION)),
        "candidates?": Named("names", Maybe(VERSION), some=True), "candidates_error?": MESSAGE,
        "program?": Has("error", Table({"error": ERROR}), _COMMAND),
    }
)  # fmt: skip
_STATE = Text(64, "[a-z-]*", "a word of systemd's, of at most 64 characters")
_NAMES = Text(1 << 16, bytes=True)
_UNIT = Table(
    {
        "Id?": NAME, "Names?": _NAMES, "LoadState?": _STATE, "ActiveState?": _STATE, "SubState?": _STATE, "Result?": _STATE,
        "Type?": _STATE, "MainPID?": DIGITS, "InvocationID?": WORD, "NRestarts?": DIGITS, "UnitFileState?": _STATE, "FragmentPath?": PATH,
        "DropInPaths?": _NAMES, "KillMode?": _STATE, "Delegate?": WORD, "Slice?": NAME, "ControlGroup?": PATH,
        "ExecMainStartTimestampMonotonic?": DIGITS, "ActiveEnterTimestampMonotonic?": DIGITS, "NeedDaemonReload?": WORD,
        "BindsTo?": _NAMES, "Requires?": _NAMES, "PartOf?": _NAMES, "TriggeredBy?": _NAMES, "Triggers?": _NAMES,
    }
)  # fmt: skip
_PROCESS: Mapping[str, Shape] = {
    "pid": PID, "ppid": PID, "exe": PATH, "deleted": Flag(), "argv": Items(Text(2048)), "ticks": NUMBER, "cgroup": PATH,
    "unit": Maybe(NAME), "start": Real(0, 1 << 62), "environment?": Keyed(NAME, Text(1024)), "verified?": Flag(),
    "unverified?": WORD, "place?": Text(8192, bytes=True), "why?": Text(8192, bytes=True), "remedy?": MESSAGE,
}  # fmt: skip
_HANDLER = Text(256)
_CRI_STATUS = Table(
    {
        "service": WORD, "runtime": Keyed(_HANDLER, Flag(), 1024), "handlers": Items(_HANDLER, 4096), "info": Listed(), "peer": PEER,
        "conditions": Items(Table({"type": _HANDLER, "reason": _HANDLER, "status": Flag()}), 1024),
    }
)  # fmt: skip
_TRANSACTION: Mapping[str, Shape] = {
    "id": NAME, "time": Maybe(WORD), "reason": Maybe(MESSAGE), "state": WORD, "files": PATHS, "removed": PATHS, "ran": TEXTS,
    "units": Items(NAME), "actions": Items(WORD), "by": Maybe(NAME), "why": Maybe(MESSAGE), "trouble": Maybe(MESSAGE), "foreign": PATHS,
    "entry": PATH,
}  # fmt: skip
_DIGEST = Maybe(SHA256)
_ORIGINAL = _content(
    {
        "existed": Flag(), "sha256_before": _DIGEST, "sha256_after": _DIGEST, "now": _DIGEST, "trouble": Maybe(MESSAGE), "directory": PATH,
        "mode?": MODE, "uid?": ID, "gid?": ID, "mtime_ns?": Whole(-(1 << 63), (1 << 63) - 1), "selinux?": Maybe(MESSAGE),
        "made_dirs?": PATHS, "id?": NAME, "time?": Maybe(WORD), "schema?": NUMBER, "forget?": Maybe(Flag()),
    }
)  # fmt: skip
_PENDING = Table({"unit": NAME, "since": WORD, "reason": MESSAGE, "id?": NAME, "invocation?": WORD})
_ORIGINALS = Table(
    {
        "originals": Keyed(PATH, _ORIGINAL), "damaged": Items(Table({"path": PATH, "directory": PATH, "why": MESSAGE})),
        "known": Flag(), "unfinished": Items(Table({**_TRANSACTION, "at_work": Flag()})),
        "outcomes": Items(Table({**_TRANSACTION, "logs": Keyed(NAME, Table(common.LOG))})), "pending": Items(_PENDING),
        "strays": PATHS, "journal?": Items(Table(_TRANSACTION)),
    }
)  # fmt: skip
# The probes of this collection (module_utils/_node/probes), by name.
_GPU_NAME, _BUS = Text(256), Text(32, "[0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\\.[0-9A-Fa-f]", "a PCI address")
_MIG = Table({"index": ID, "uuid": VERSION, "gi": ID, "ci": ID, "name": _GPU_NAME})
_GPU = Table(
    {
        "index": ID, "minor": Maybe(ID), "uuid": VERSION, "bus_id": _BUS, "name": _GPU_NAME, "mig": Maybe(Flag()),
        "migs": Items(_MIG, 256),
    }
)  # fmt: skip
_NVML = Table(
    {
        "source": WORD, "driver_version": VERSION, "gpus": Items(_GPU, 1024),
        "errors": Items(Table({"call": WORD, "code": Whole(0, 1 << 31), "message": MESSAGE, "gpu?": ID}), 4096),
    }
)  # fmt: skip
_RECORD = Table({"sequence": NUMBER, "time": Whole(0, 253402300799), "groups": Keyed(WORD, Maybe(Text(1024)), 16)})
_KERNEL_LOG = Has(
    "why",
    Table({"why": MESSAGE}),
    Table({"boot": WORD, "first": Maybe(NUMBER), "last": Maybe(NUMBER), "complete": Flag(), "found": Items(_RECORD, 1000)}),
)
_MACHINE = Table({"architecture": WORD, "vendor": VERSION, "flags": Items(WORD, 4096), "library": VERSION})
_REACH = Table({"tried": Flag(), "reached": Flag(), "why": MESSAGE})
PROBES: Mapping[str, Shape] = {"nvml": _NVML, "kernel_log": _KERNEL_LOG, "machine": _MACHINE, "reach": _REACH}

# By the kind of the query, followed by a word if one kind has several forms.
ROWS: Mapping[str, Shape] = {
    "file": _content_of({}),
    "certificates": Table({"path": Maybe(PATH), "sha256": Maybe(SHA256)}),
    "dir": Table({"exists": Flag(), "entries": Items(Table(_ENTRY))}),
    "glob": Table({"files": Items(_content_of({"path": PATH}))}),
    "paths": Table({"files": Items(Table(_PLACE))}),
    "mentioned": Table({"paths": Keyed(PATH, Maybe(_MENTIONED))}),
    "tags": Table(
        {
            "prefixes": Items(Items(common.KEY, 256), exactly="prefixes"), "fault": common.FAULT,
            "leaves": Items(Row((Place("prefixes"), common.LINE, SHA256, Text(64, "|[0-9a-f]{64}", "nothing, or 64 hexadecimal digits")))),
        }
    ),
    "which": Table({"found": Named("names", Maybe(PATH)), "programs": _PROGRAMS, "untrusted?": Named("names", MESSAGE, some=True)}),
    "command": _COMMAND,
    "package": _PACKAGE,
    "units": Table({"units": Named("names", _UNIT), "monotonic": Real(0, 1 << 40)}),
    "processes": Table({"processes": Items(Table(_PROCESS), 1025), "programs": _PROGRAMS, "others": Named("names", NUMBER, some=True)}),
    "holders": Table(
        {"pids": Items(PID), "closed": NUMBER, "held?": Items(Row((PID, Items(PATH), PATH))), "partial?": Tree(256)}
    ),
    "cri Status": _CRI_STATUS,
    "cri Version": Table({"service": WORD, "runtime_name": _HANDLER, "runtime_version": VERSION, "peer": PEER}),
    "cri RuntimeConfig": Table({"driver": Choice(("", "systemd", "cgroupfs")), "peer": PEER}),
    "cri ListPodSandbox": Table({"pods": Items(Text(512)), "peer": PEER}),
    "cri ListPodSandbox count": Table(
        {"handlers": Named("handlers", NUMBER, more=("",)), "named": Named("prefixes", NUMBER), "peer": PEER}
    ),
    "http": Table({"status": Whole(100, 599), "value": Maybe(Listed()), "peer": PEER}),
    "http configuration": _content({"status": Whole(100, 599), "peer": PEER}),
    "originals": _ORIGINALS,
    **{f"probe {name}": Table({"value": shape}) for name, shape in PROBES.items()},
}  # fmt: skip
