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

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import JOURNAL_DIR

LONGEST = 200
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def get_value_writer(path: str, key: str) -> Callable[[Any], str]:
    """Return the function that writes the values of this file.

    A difference without a key is about the whole file, in words.
    """
    if path.startswith(f"{JOURNAL_DIR}/"):
        return write_plain_value
    if key and path.endswith(".json"):
        return _write_json
    if key and path.endswith((".toml", ".conf")):
        return write_toml_value
    return write_plain_value


def write_plain_value(value: Any) -> str:
    """Write what is not a value of a file: packages, units, device nodes, whole files."""
    if value is None:
        return "none"
    return shorten_value(
        " ".join(value.split())
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, default=str)
    )


def write_toml_value(value: Any) -> str:
    """Return a value as TOML, cut to a bounded length; `not set` for None."""
    return "not set" if value is None else shorten_value(_write_toml(value))


def _write_toml(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{_write_key(k)} = {_write_toml(v)}" for k, v in value.items()) + " }"
            if value
            else "{}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_write_toml(v) for v in value) + "]"
    return json.dumps(value, ensure_ascii=False, default=str)


def _write_key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _write_json(value: Any) -> str:
    return (
        "not set"
        if value is None
        else shorten_value(json.dumps(value, ensure_ascii=False, default=str))
    )


def format_moment(at: datetime.datetime) -> str:
    """Return a time in the form that the journal of a host has as well. at: in UTC."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def shorten_value(text: str) -> str:
    """Return a text, cut with dots if it is too long."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
