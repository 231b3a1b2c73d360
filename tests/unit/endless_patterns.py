# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the repetitions of a regular expression that have no end.

Where a text is another's to choose, `a.*b` takes time by the square of the text's length: from each
`a` the rest of the text is read for a `b` that does not come. With an end to each repetition, time
grows with the text, and no faster.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

# Python 3.11 gave the module another name
_PARSER: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}


def count_endless_repeats(pattern: str) -> int:
    """Return how many repetitions without an end a regular expression has."""
    return sum(
        str(code) in _REPEATS and value[1] == _PARSER.MAXREPEAT
        for code, value in _walk(_PARSER.parse(pattern))
    )


def _walk(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each (code, value) of a parsed expression, at any depth."""
    for item in tree:
        if isinstance(item, tuple) and len(item) == 2 and str(item[0]).isupper():
            yield item
        if isinstance(item, (tuple, list, _PARSER.SubPattern)):
            yield from _walk(item)
