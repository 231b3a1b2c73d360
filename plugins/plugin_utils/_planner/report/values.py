# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write values in the form that their file has for them: `true`, not `True`."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import JOURNAL_DIR

LONGEST = 200
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def of(path: str, key: str) -> Callable[[Any], str]:
    """Return the function that writes the values of this file.

    A difference without a key is about the whole file, in words.
    """
    if path.startswith(f"{JOURNAL_DIR}/"):
        return words
    if key and path.endswith(".json"):
        return _json
    if key and path.endswith((".toml", ".conf")):
        return toml
    return words


def words(value: Any) -> str:
    """Write what is not a value of a file: packages, units, device nodes, whole files."""
    if value is None:
        return "none"
    return short(" ".join(value.split()) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def toml(value: Any) -> str:
    return "not set" if value is None else short(_toml(value))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return json.dumps(value, ensure_ascii=False, default=str)


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _json(value: Any) -> str:
    return "not set" if value is None else short(json.dumps(value, ensure_ascii=False, default=str))


def moment(at: datetime.datetime) -> str:
    """Return a time in the form that the journal of a host has as well. at: in UTC."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
