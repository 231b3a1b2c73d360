# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The edges of the shapes that many answers have in them: what is just within, and just beyond."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes import (
    common,
    rules,
)

BYTE = "\udcff"  # a byte that is not UTF-8
HALF = "\ud800"  # half a pair of UTF-16, which stands for no byte
TAG = "0" * 64
FAULT = {"code": "c", "line": 0}
HIDDEN = {"path": [], "kind": "k", "line": 0, "span": [0, 0], "tag": TAG}


def cause(**values: str | None) -> dict[str, Any]:
    return {"code": "c", "values": values}


def number(most: int) -> dict[str, str]:
    return {f"v{at}": "x" for at in range(most)}


# shape -> what it reads, what it refuses
EDGES: dict[str, tuple[rules.Shape, list[Any], list[Any]]] = {
    "MESSAGE": (common.MESSAGE, ["", "x" * 4096, BYTE], ["x" * 4097, HALF]),
    "PATH": (common.PATH, ["", "x" * 4096, BYTE], ["x" * 4097, HALF]),
    "NAME": (common.NAME, ["", "x" * 256, BYTE], ["x" * 257, HALF]),
    "WORD": (common.WORD, ["", "x" * 64], ["x" * 65, BYTE]),
    "VERSION": (common.VERSION, ["", "x" * 128], ["x" * 129, BYTE]),
    "SHA256": (common.SHA256, [TAG, "f" * 64], ["f" * 63, "f" * 65, "F" * 64, "g" * 64]),
    "DIGITS": (common.DIGITS, ["", "9" * 20], ["9" * 21, "-9", "9\n"]),
    "TIME": (common.TIME, [0, 253402300799], [-1, 253402300800, float("inf")]),
    "FILE_TIME": (common.FILE_TIME, [-(2**63), 2**63], [-(2**63) - 1, 2**63 + 1]),
    "NUMBER": (common.NUMBER, [0, 2**63 - 1], [-1, 2**63, 1.0]),
    "PID": (common.PID, [0, 4194304], [-1, 4194305]),
    "ID": (common.ID, [0, 2**32 - 1], [-1, 2**32]),
    "STATUS": (common.STATUS, [-255, 255], [-256, 256]),
    "LINE": (common.LINE, [0, 4194304], [-1, 4194305]),
    "SECONDS": (common.SECONDS, [0, 2**40], [-1, 2**40 + 1]),
    "MODE": (common.MODE, [0, 0o7777], [-1, 0o10000]),
    "RDEV": (common.RDEV, [None, [0, 0]], [[], [0], [0, 0, 0], [0, None]]),
    "PEER": (common.PEER, [None, 0], [-1]),
    "ERROR": (
        common.ERROR,
        [{"kind": "k", "message": "m", **code} for code in ({}, {"code": 0}, {"code": 2**31})],
        [{"kind": "k"}, *({"kind": "k", "message": "m", "code": code} for code in (-1, 2**31 + 1))],
    ),
    "FAULT": (
        common.FAULT,
        [None, FAULT, {**FAULT, "begins": "x" * 1024}],
        [{}, {**FAULT, "begins": "x" * 1025}, {**FAULT, "line": None}],
    ),
    "SPAN": (common.SPAN, [[0, 0]], [[0], [0, 0, 0], [0, -1]]),
    "KEY": (common.KEY, ["", "x" * 1024], ["x" * 1025]),
    "WITHHELD": (
        common.WITHHELD,
        [[], [HIDDEN], [{**HIDDEN, "path": ["x"] * 256}]],
        [[{**HIDDEN, "path": ["x"] * 257}], [{**HIDDEN, "tag": ""}]],
    ),
    "a content as text": (
        rules.TableShape(common.PLAIN),
        [{}, {"content": None}, {"content": "x" * 4194304}, {"foreign_bytes": None}],
        [{"content": "x" * 4194305}, {"content": BYTE}, {"foreign_bytes": -1}],
    ),
    "a content as base64": (
        rules.TableShape(common.CODED),
        [{"content": content, "encoding": "base64"} for content in ("", "AAAA" * 2097152)],
        [{"content": content, "encoding": "base64"} for content in ("A", "AAAA" * 2097153)],
    ),
    "CAUSES": (
        common.CAUSES,
        [[], [cause()] * 16, [cause(**number(16))], [cause(v="x" * 1024, w=None)]],
        [[cause()] * 17, [cause(**number(17))], [cause(v="x" * 1025)]],
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_a_shape_reads_what_is_within_its_bounds_and_nothing_beyond(name: str) -> None:
    shape, within, beyond = EDGES[name]
    assert [shape.read(value, {}) for value in within] == within
    for value in beyond:
        with pytest.raises(rules.BrokenShape):
            shape.read(value, {})
