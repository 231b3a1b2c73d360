# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limit a configuration before it is parsed: parsers take the square of a key's parts, and a frame
for each bracket.

Real configurations stay far below: containerd's longest keys have eight parts, and values have at
most five tables within each other.
"""

from __future__ import annotations

import itertools
import re

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import messages

SIZE = 4 << 20  # characters; files are read up to 1 MiB, what a program prints may be longer
PARTS, OPEN = 20, 20
# lines, commas, opening brackets and backslashes: parsers take up to a kilobyte for each
MOST = 30_000
# characters of a key or a number without quotes: parsers take a hundred bytes for each digit
LONGEST = 1000
_PART = r"(?:[A-Za-z0-9_-]+|\"[^\"\\\n]*(?:\\[^\n][^\"\\\n]*)*\"|'[^'\n]*')"
# Text that cannot hold a key is passed over as a whole: strings of several lines, comments,
# everything within quotes. A string that does not end takes the rest with it, so no character is
# looked at more than once for each of a key's parts.
_TOKEN = re.compile(
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*){0,60000}(?:"""|\Z)'
    r"|'''.*?(?:'''|\Z)"
    r"|#[^\n]*"
    rf"|(?P<long>{_PART}(?:[ \t]*\.[ \t]*{_PART}){{{PARTS}}})"
    rf"|{_PART}"
    r"|[\"'][^\n]*"
    r"|(?P<open>[\[{])"
    r"|(?P<close>[\]}])",
    re.DOTALL,
)


class TooMuch(PlanError):
    """A text that is larger, or deeper, than any configuration."""


def require_bounded_toml(text: str, path: str) -> None:
    """Raise TooMuch, with file, line and limit, for a text beyond a limit."""
    if len(text) > SIZE:
        raise TooMuch(messages.TOML_TOO_LONG.fill(length=len(text), limit=SIZE), where=path)
    many = sum(map(text.count, "\n,[{\\"))
    if many > MOST:
        at = next(itertools.islice(re.finditer(r"[\n,\[{\\]", text), MOST, None)).start()
        what = messages.TOML_TOO_MANY_SIGNS.fill(count=many, limit=MOST)
        raise _build_too_much(text, path, at, what)
    level = 0
    for token in _TOKEN.finditer(text):
        if token["long"]:
            raise _build_too_much(
                text, path, token.start(), messages.KEY_TOO_DEEP.fill(limit=PARTS)
            )
        if token["open"]:
            level += 1
            if level > OPEN:
                raise _build_too_much(
                    text, path, token.start(), messages.TOO_MANY_BRACKETS.fill(limit=OPEN)
                )
        elif token["close"]:
            level = max(level - 1, 0)
        elif token.end() - token.start() > LONGEST and token.group()[0] not in "\"'#":
            raise _build_too_much(
                text, path, token.start(), messages.WORD_TOO_LONG.fill(limit=LONGEST)
            )


def _build_too_much(text: str, path: str, at: int, what: str) -> TooMuch:
    return TooMuch(what, where=path, line=text.count("\n", 0, at) + 1)
