# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shapes that answers of several kinds have in them. A number without a source here is one that an
honest host stays far below.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes.rules import (
    Base64,
    ChoiceShape,
    Flag,
    Items,
    Keyed,
    Maybe,
    Real,
    RowShape,
    Shape,
    TableShape,
    Text,
    Whole,
)

# Characters of a file or of an output: four times what a query asks for, since a projection may be
# longer.
CONTENT = 1 << 22
MESSAGE = Text(4096, bytes=True)  # the host's own programs cut at this (host_files.CUT)
PATH = Text(4096, bytes=True)  # PATH_MAX, linux/limits.h
NAME = Text(256, bytes=True)  # NAME_MAX is 255 bytes
WORD = Text(64)
VERSION = Text(128)
SHA256 = Text(64, "[0-9a-f]{64}", "64 hexadecimal digits")
DIGITS = Text(20, "[0-9]*", "at most 20 decimal digits")  # 2^64 has 20
TIME = Real(0, 253402300799)  # seconds from 1970 to the end of the year 9999
FILE_TIME = Real(-(1 << 63), 1 << 63)
NUMBER = Whole(0, (1 << 63) - 1)
PID = Whole(0, 1 << 22)  # PID_MAX_LIMIT, linux/threads.h
ID = Whole(0, (1 << 32) - 1)  # a user's or a group's
STATUS = Whole(-255, 255)  # negative: the signal that ended it
LINE = Whole(0, CONTENT)
SECONDS = Real(0, 1 << 40)
FILE_TYPE = ChoiceShape(("file", "dir", "link", "char", "block", "fifo", "socket"))
MODE = Whole(0, 0o7777)
RDEV = Maybe(RowShape((ID, ID)))
PEER = Maybe(PID)
TEXTS = Items(MESSAGE)
PATHS = Items(PATH)
ERROR = TableShape({"kind": WORD, "message": MESSAGE, "code?": Whole(0, 1 << 31)})
FAULT = Maybe(TableShape({"code": WORD, "line": LINE, "begins?": Text(1024)}))
SPAN = RowShape((LINE, LINE))
KEY = Text(1024)
WITHHELD = Items(
    TableShape({"path": Items(KEY, 256), "kind": WORD, "line": LINE, "span": SPAN, "tag": SHA256})
)
# The parts of a content that may travel: of a file, an original, an answer over HTTP.
SHOWN: Mapping[str, Shape] = {"fault?": FAULT, "withheld?": WITHHELD, "foreign_bytes?": Maybe(LINE)}
PLAIN: Mapping[str, Shape] = {
    "content?": Maybe(Text(CONTENT)),
    "encoding?": ChoiceShape(("utf-8",)),
    **SHOWN,
}
CODED: Mapping[str, Shape] = {
    "content": Base64(2 * CONTENT),
    "encoding": ChoiceShape(("base64",)),
    **SHOWN,
}
# causes.MOST is 5
CAUSES = Items(TableShape({"code": WORD, "values": Keyed(WORD, Maybe(Text(1024)), 16)}), 16)
LOG: Mapping[str, Shape] = {"failed": Flag(), "causes": CAUSES, "evidence": MESSAGE}
