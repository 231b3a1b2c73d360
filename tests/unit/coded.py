# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the codes and the values of messages, which tests compare instead of sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    get_code,
)


def get_codes(texts: Iterable[str]) -> list[str]:
    """Return the codes of messages, '' for a text without one."""
    return [get_code(text) for text in texts]


def get_values(text: str) -> dict[str, Any]:
    """Return the values of a message."""
    assert isinstance(text, Message), text
    return dict(text.values)


def get_coded(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the values of messages by their codes."""
    return {get_code(text): get_values(text) for text in texts}


Coded = tuple[str, dict[str, Any]]


def read_coded(text: str) -> Coded:
    """Return a message's code and values. A message among the values becomes such a pair as well."""
    assert isinstance(text, Message), f"a sentence without a code: {text}"
    values = {
        name: read_coded(value) if isinstance(value, Message) else value
        for name, value in text.values.items()
    }
    return text.code, values


def read_all_coded(texts: Iterable[str]) -> list[Coded]:
    """Return the codes and values of several messages."""
    return [read_coded(text) for text in texts]
