# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shapes of the observer's answers: one row for each kind of query
(module_utils/_host/question_kinds.py and what it calls).
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes import common
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes.common import (
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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes.rules import (
    ChoiceShape,
    Flag,
    Has,
    Items,
    Keyed,
    ListedShape,
    Maybe,
    Named,
    QueryPlace,
    Real,
    RowShape,
    Shape,
    TableShape,
    Text,
    TreeShape,
    When,
    Whole,
)

HOST = TableShape(
    {
        "python": Items(Whole(0, 1 << 16), 3), "system": WORD, "kernel": NAME, "machine": WORD, "hostname": NAME, "uid": ID,
        "root": Flag(), "boot_id": WORD, "epoch": TIME, "os_release": Keyed(VERSION, Text(1024), 256),
    }
)  # fmt: skip
_FILE: Mapping[str, Shape] = {
    "exists?": Flag(), "error?": ERROR, "real?": Maybe(PATH), "links?": PATHS, "sha256?": Maybe(SHA256), "type?": FILE_TYPE, "mode?": MODE,
    "uid?": ID, "gid?": ID, "owner?": NAME, "group?": NAME, "size?": NUMBER, "mtime?": common.FILE_TIME, "ctime?": common.FILE_TIME,
    "ino?": Whole(0, (1 << 64) - 1), "dev?": Whole(0, (1 << 64) - 1), "nlink?": NUMBER,
    "selinux?": Maybe(MESSAGE), "rdev?": RDEV, "untrusted?": MESSAGE,
}  # fmt: skip


def _build_content_shape(fields: Mapping[str, Shape], needs: tuple[str, ...] = ()) -> Shape:
    """Return a table that may carry a content, as text or, if that is not UTF-8, as base64."""
    coded, plain = (
        TableShape({**fields, **content}, needs) for content in (common.CODED, common.PLAIN)
    )
    return When("encoding", {"base64": coded, "": plain})


def _extend_content_shape(more: Mapping[str, Shape]) -> Shape:
    return _build_content_shape({**_FILE, **more}, ("exists", "error"))


_PLACE: Mapping[str, Shape] = {
    "path": PATH,
    "real": Maybe(PATH),
    "type": FILE_TYPE,
    "mode": MODE,
    "spot?": PATH,
    "untrusted?": MESSAGE,
}
_ENTRY: Mapping[str, Shape] = {
    "name": NAME,
    "type": FILE_TYPE,
    "size": NUMBER,
    "mode": MODE,
    "rdev": RDEV,
    "target": Maybe(PATH),
}
_MENTIONED = TableShape({"type": FILE_TYPE, "rdev": RDEV, "link": Flag()})
_IDENTITY = Text(64, "[0-9]+:[0-9]+:-?[0-9]+", "an inode, a size and a time")
_PROGRAMS = Keyed(PATH, Maybe(_IDENTITY))
_OUTPUT = Text(common.CONTENT)
_COMMAND = TableShape(
    {
        "rc": Maybe(common.STATUS), "stdout": _OUTPUT, "stderr": _OUTPUT, "timed_out": Flag(), "truncated?": Flag(), **common.SHOWN,
    }
)  # fmt: skip
_PACKAGE = TableShape(
    {
        "manager": ChoiceShape(("dpkg", "rpm", "none")), "installed": Named("names", Maybe(VERSION)),
        "candidates?": Named("names", Maybe(VERSION), some=True), "candidates_error?": MESSAGE,
        "program?": Has("error", TableShape({"error": ERROR}), _COMMAND),
        "like?": Items(RowShape((NAME, VERSION, Text(128), Flag(), VERSION)), 1 << 10),
        "half?": Items(
            RowShape((NAME, ChoiceShape(("half-installed", "unpacked", "half-configured", "reinstreq")), Flag())), 1 << 10
        ),
        "empty?": Items(NAME, 1 << 10),
    }
)  # fmt: skip
_STATE = Text(64, "[a-z-]*", "a word of systemd's, of at most 64 characters")
_NAMES = Text(1 << 16, bytes=True)
_UNIT = TableShape(
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
_CRI_STATUS = TableShape(
    {
        "service": WORD, "runtime": Keyed(_HANDLER, Flag(), 1024), "handlers": Items(_HANDLER, 4096), "info": ListedShape(), "peer": PEER,
        "conditions": Items(TableShape({"type": _HANDLER, "reason": _HANDLER, "status": Flag()}), 1024),
    }
)  # fmt: skip
_TRANSACTION: Mapping[str, Shape] = {
    "id": NAME, "time": Maybe(WORD), "reason": Maybe(MESSAGE), "state": WORD, "files": PATHS, "removed": PATHS, "ran": TEXTS,
    "units": Items(NAME), "actions": Items(WORD), "by": Maybe(NAME), "why": Maybe(MESSAGE), "trouble": Maybe(MESSAGE), "foreign": PATHS,
    "entry": PATH,
}  # fmt: skip
_DIGEST = Maybe(SHA256)
_ORIGINAL = _build_content_shape(
    {
        "existed": Flag(), "sha256_before": _DIGEST, "sha256_after": _DIGEST, "now": _DIGEST, "trouble": Maybe(MESSAGE), "directory": PATH,
        "mode?": MODE, "uid?": ID, "gid?": ID, "mtime_ns?": Whole(-(1 << 63), (1 << 63) - 1), "selinux?": Maybe(MESSAGE),
        "made_dirs?": PATHS, "id?": NAME, "time?": Maybe(WORD), "schema?": NUMBER, "forget?": Maybe(Flag()),
    }
)  # fmt: skip
_PENDING = TableShape(
    {"unit": NAME, "since": WORD, "reason": MESSAGE, "id?": NAME, "invocation?": WORD}
)
_ORIGINALS = TableShape(
    {
        "originals": Keyed(PATH, _ORIGINAL), "damaged": Items(TableShape({"path": PATH, "directory": PATH, "why": MESSAGE})),
        "known": Flag(), "unfinished": Items(TableShape({**_TRANSACTION, "at_work": Flag()})),
        "outcomes": Items(TableShape({**_TRANSACTION, "logs": Keyed(NAME, TableShape(common.LOG))})), "pending": Items(_PENDING),
        "strays": PATHS, "journal?": Items(TableShape(_TRANSACTION)),
    }
)  # fmt: skip
# The probes of this collection (module_utils/_host/probes), by name.
_GPU_NAME, _BUS = (
    Text(256),
    Text(32, "[0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\\.[0-9A-Fa-f]", "a PCI address"),
)
_MIG = TableShape({"index": ID, "uuid": VERSION, "gi": ID, "ci": ID, "name": _GPU_NAME})
_GPU = TableShape(
    {
        "index": ID, "minor": Maybe(ID), "uuid": VERSION, "bus_id": _BUS, "name": _GPU_NAME, "mig": Maybe(Flag()),
        "migs": Items(_MIG, 256),
    }
)  # fmt: skip
_NVML = TableShape(
    {
        "source": WORD, "driver_version": VERSION, "gpus": Items(_GPU, 1024),
        "errors": Items(TableShape({"call": WORD, "code": Whole(0, 1 << 31), "message": MESSAGE, "gpu?": ID}), 4096),
    }
)  # fmt: skip
_FAILURE = TableShape({"call": WORD, "code": Whole(0, 1 << 31), "message": MESSAGE})
_FABRIC = TableShape({"state": ID, "status": ID, "health": ID})
_STATE_OF_GPU = TableShape(
    {
        "index": ID, "bus_id": Maybe(_BUS), "name": _GPU_NAME, "lost": Maybe(ID), "pages_pending": Maybe(Flag()),
        "rows_pending": Maybe(Flag()), "rows_failed": Maybe(Flag()), "links": Maybe(Items(Flag(), 64)), "fabric": Maybe(_FABRIC),
        "slowdown": Maybe(NUMBER), "recovery": Maybe(ID), "unread": Items(_FAILURE, 64),
    }
)  # fmt: skip
_GPU_STATE = TableShape(
    {
        "driver_version": VERSION, "gpus": Items(_STATE_OF_GPU, 1024),
        "errors": Items(TableShape({"call": WORD, "code": Whole(0, 1 << 31), "message": MESSAGE, "gpu?": ID}), 4096),
    }
)  # fmt: skip
_RECORD = TableShape(
    {
        "sequence": NUMBER,
        "time": Whole(0, 253402300799),
        "groups": Keyed(WORD, Maybe(Text(1024)), 16),
    }
)
_KERNEL_LOG = Has(
    "why",
    TableShape({"why": MESSAGE}),
    TableShape(
        {
            "boot": WORD,
            "first": Maybe(NUMBER),
            "last": Maybe(NUMBER),
            "complete": Flag(),
            "found": Items(_RECORD, 1000),
        }
    ),
)
_MACHINE = TableShape(
    {"architecture": WORD, "vendor": VERSION, "flags": Items(WORD, 4096), "library": VERSION}
)
_REACH = TableShape({"tried": Flag(), "reached": Flag(), "why": MESSAGE})
_LISTENERS = TableShape(
    {
        "listeners": Items(TableShape({"uid": ID, "inode": NUMBER, "pids": Items(PID)}), 64),
        "reached": Flag(),
    }
)
PROBES: Mapping[str, Shape] = {
    "nvml": _NVML,
    "gpu_state": _GPU_STATE,
    "kernel_log": _KERNEL_LOG,
    "machine": _MACHINE,
    "reach": _REACH,
    "listeners": _LISTENERS,
}

# By the kind of the query, followed by a word if one kind has several forms.
ROWS: Mapping[str, Shape] = {
    "file": _extend_content_shape({}),
    "certificates": TableShape({"path": Maybe(PATH), "sha256": Maybe(SHA256)}),
    "dir": TableShape({"exists": Flag(), "entries": Items(TableShape(_ENTRY))}),
    "glob": TableShape({"files": Items(_extend_content_shape({"path": PATH}))}),
    "paths": TableShape({"files": Items(TableShape(_PLACE))}),
    "mentioned": TableShape({"paths": Keyed(PATH, Maybe(_MENTIONED))}),
    "tags": TableShape(
        {
            "prefixes": Items(Items(common.KEY, 256), exactly="prefixes"), "fault": common.FAULT,
            "leaves": Items(
                RowShape((QueryPlace("prefixes"), common.LINE, SHA256, Text(64, "|[0-9a-f]{64}", "nothing, or 64 hexadecimal digits")))
            ),
        }
    ),
    "which": TableShape({"found": Named("names", Maybe(PATH)), "programs": _PROGRAMS, "untrusted?": Named("names", MESSAGE, some=True)}),
    "command": _COMMAND,
    "package": _PACKAGE,
    "units": TableShape({"units": Named("names", _UNIT), "monotonic": Real(0, 1 << 40)}),
    "processes": TableShape(
        {"processes": Items(TableShape(_PROCESS), 1025), "programs": _PROGRAMS, "others": Named("names", NUMBER, some=True)}
    ),
    "holders": TableShape(
        {"pids": Items(PID), "closed": NUMBER, "held?": Items(RowShape((PID, Items(PATH), PATH))), "partial?": TreeShape(256)}
    ),
    "cri Status": _CRI_STATUS,
    "cri Version": TableShape({"service": WORD, "runtime_name": _HANDLER, "runtime_version": VERSION, "peer": PEER}),
    "cri RuntimeConfig": TableShape({"driver": ChoiceShape(("", "systemd", "cgroupfs")), "peer": PEER}),
    "cri ListPodSandbox": TableShape({"pods": Items(Text(512)), "peer": PEER}),
    "cri ListPodSandbox count": TableShape(
        {
            "handlers": Named("handlers", NUMBER, more=("",)), "named": Named("prefixes", NUMBER), "own_pids": Named("uids", NUMBER),
            "peer": PEER,
        }
    ),
    "http": TableShape({"status": Whole(100, 599), "value": Maybe(ListedShape()), "peer": PEER}),
    "http configuration": _build_content_shape({"status": Whole(100, 599), "peer": PEER}),
    "originals": _ORIGINALS,
    **{f"probe {name}": TableShape({"value": shape}) for name, shape in PROBES.items()},
}  # fmt: skip
