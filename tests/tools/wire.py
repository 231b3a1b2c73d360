# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes apart what goes to a host over stdin, and puts another job into it."""

from __future__ import annotations

import json
import shlex
import sys
import zlib
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport


def _parts(script: bytes) -> tuple[list[int], bytes]:
    head, _newline, rest = script.partition(b"\n")
    return [int(word) for word in head.split()], rest


def job(script: bytes) -> dict[str, Any]:
    """Return which of the host's programs is to run, with which request, and the marker of its
    answer.
    """
    sizes, rest = _parts(script)
    found: dict[str, Any] = json.loads(zlib.decompress(rest[sum(sizes[:2]) :]))
    return found


def with_job(script: bytes, changed: dict[str, Any]) -> bytes:
    sizes, rest = _parts(script)
    packed = zlib.compress(json.dumps(changed).encode())
    return b"%d %d %d\n" % (*sizes[:2], len(packed)) + rest[: sum(sizes[:2])] + packed


def argv(python: str = sys.executable) -> list[str]:
    """Return the command that the script is given to."""
    return shlex.split(transport.build_interpreter_command(python, ""))
