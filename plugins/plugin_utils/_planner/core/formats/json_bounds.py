# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read JSON that a host, a registry, a cluster or a person has written, within bounds of our own.

A megabyte of brackets takes fifty megabytes as values. A number of a million digits takes some
releases of Python seconds. Each bracket within brackets takes a frame of the stack. All of it is
counted before Python's reader sees the text.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import messages

SIZE = 4 << 20  # characters
DEEPEST = 100  # open objects and arrays
MOST = 100_000  # keys, values and brackets; a longer text may have one for every SPARSE characters
SPARSE = 8
# characters; a float has 310 digits at most, and Python takes the square of the digits of an
# integer
LONGEST_NUMBER = 1000

# A string, a number or a word, a bracket. Strings lose their escaped quotes before, so that each
# token takes the time of its length.
_TOKEN = re.compile(r'"[^"]*"?|[-+.\w]+|[\[{]|[\]}]')
_WORD = re.compile(r"[-+.\w]+")


class TooLargeJson(ValueError):
    """A text beyond a bound. line: from 1, None for the text as a whole."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.problem, self.line = problem, line


def load_bounded_json(text: str | bytes, size: int = SIZE) -> Any:
    """Return the value of a text, as json.loads does. Raises ValueError, a TooLarge for a text
    beyond a bound, before a value is made.
    """
    if len(text) > size:
        raise TooLargeJson(messages.TEXT_TOO_LONG.fill(length=len(text), limit=size))
    whole = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
    require_bounded_json(whole)
    try:
        return json.loads(whole)
    except RecursionError:  # a caller that is deep in calls itself
        raise TooLargeJson(messages.CALLED_TOO_DEEP.fill()) from None


def require_bounded_json(text: str) -> None:
    """Refuse a text with more depth, values or digits than are read.

    Raise TooLargeJson, with the line.
    """
    if _is_small(text):
        return
    bare = text.replace("\\\\", "").replace('\\"', "") if "\\" in text else text
    most = max(MOST, len(text) // SPARSE)
    depth = 0
    for count, token in enumerate(_TOKEN.finditer(bare), 1):
        first = bare[token.start()]
        if first in "[{":
            depth += 1
        elif first in "]}":
            depth -= 1
        problem = _find_problem(
            depth, count, most, 0 if first == '"' else token.end() - token.start()
        )
        if problem:
            raise TooLargeJson(problem, bare.count("\n", 0, token.start()) + 1)


def _is_small(text: str) -> bool:
    """Tell whether a text is within all bounds, whatever of it is strings: most texts are.

    It has no more values than characters, and no more depth than brackets.
    """
    return (
        len(text) <= MOST
        and text.count("[") + text.count("{") <= DEEPEST
        and max(map(len, _WORD.findall(text)), default=0) <= LONGEST_NUMBER
    )


def _find_problem(depth: int, count: int, most: int, length: int) -> str:
    if depth > DEEPEST:
        return messages.TEXT_TOO_DEEP.fill(limit=DEEPEST)
    if count > most:
        return messages.TOO_MANY_VALUES.fill(limit=most)
    if length > LONGEST_NUMBER:
        return messages.NUMBER_TOO_LONG_HERE.fill(limit=LONGEST_NUMBER)
    return ""
