# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read apt's configuration as apt does (apt.conf(5); ReadConfigFile in apt-pkg/contrib/
configuration.cc): scopes in braces, names with `::`, lists of values without a name, and #clear. A
text with #include is not read, since the included settings are in other files.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterable, Iterator

TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|\#(?!clear\b|include\b)[^\n]*"""  # blanks and comments
    r"""|(?P<text>"[^"\n]*")|(?P<sign>[{};])|(?P<word>(?:[^\s"{};/]+|/(?![/*]))+)""",
    re.DOTALL,
)
CLEAR, INCLUDE = "#clear", "#include"
# A file of apt.conf.d counts by its name alone (GetListOfFilesInDir in
# apt-pkg/contrib/fileutl.cc): no other characters, and no ending or .conf.
COUNTS = re.compile(r"[\w:-]+|[\w:-][\w:.-]*\.conf", re.ASCII)
# What a text may cost. apt has no such bounds, and no configuration comes near them.
MOST_SCOPES, MOST_STATEMENTS, LONGEST_NAME = 32, 1 << 12, 1 << 8


class NotAptConf(ValueError):
    """A text that apt refuses, or that is out of bounds. line: where."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}")
        self.line = line


@dc.dataclass(frozen=True)
class AptConf:
    """Values by the names of their options, in small letters, as apt compares them. The values of a
    list have the name of the list with `::` at its end.
    """

    values: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> str:
        """Return the value of an option; '' if it has none. The last one counts."""
        return next((v for n, v in reversed(self.values) if n == name.lower()), "")

    def list_items(self, name: str) -> tuple[str, ...]:
        """Return the values of a list, named ones included, in their order."""
        return tuple(v for n, v in self.values if n.startswith(f"{name.lower()}::") and v)


def read_apt_conf(texts: Iterable[str]) -> AptConf:
    """Return what these files say together, in the order in which apt reads them. Raise NotAptConf
    for a text that apt refuses, or that is out of bounds.
    """
    statements = [statement for text in texts for statement in _list_statements(text)]
    values: list[tuple[str, str]] = []
    cleared: set[str] = set()  # by statements that follow
    for name, value in reversed(statements):
        if value is None:
            cleared |= {name, f"{name.removesuffix('::')}::"}
        elif name not in cleared and cleared.isdisjoint(_list_parents(name)):
            values.append((name, value))
    return AptConf(tuple(reversed(values)))


def _list_parents(name: str) -> Iterator[str]:
    """Yield the beginnings of a name that end with `::`."""
    for sign in re.finditer("::", name):
        yield name[: sign.end()]


def sort_apt_conf_names(names: Iterable[str]) -> list[str]:
    """Return the names of the files of apt.conf.d that apt reads, in its order."""
    return sorted(name for name in names if COUNTS.fullmatch(name))


def _list_statements(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield option and value of each statement; None for an option that is cleared."""
    scopes: list[str] = []
    words: list[str] = []
    line, count = 1, 0
    for line, token in _list_tokens(text):
        count += token in (";", "{")
        if count > MOST_STATEMENTS or len(scopes) > MOST_SCOPES:
            raise NotAptConf(line)
        if token == ";":
            yield from _read_statement(scopes, words, line)
            words = []
        elif token == "{":
            # `Name "value" { ... }` sets the value of the scope as well
            if not words or words[0].startswith('"'):
                raise NotAptConf(line)
            if len(words) > 1:
                yield from _read_statement(scopes, words, line)
            scopes.append(words[0])
            words = []
        elif token == "}":
            if words or not scopes:
                raise NotAptConf(line)
            scopes.pop()
        else:
            words.append(token)
    if scopes or words:
        raise NotAptConf(line)


def _read_statement(
    scopes: list[str], words: list[str], line: int
) -> Iterator[tuple[str, str | None]]:
    if not words:  # after a closing brace
        return
    if words[0] == INCLUDE:
        raise NotAptConf(line)
    if words[0] == CLEAR:
        if len(words) != 2:
            raise NotAptConf(line)
        yield _join_names(words[1:], line), None
    elif words[0].startswith('"'):
        if not scopes or len(words) != 1:
            raise NotAptConf(line)
        yield _join_names([*scopes, ""], line), words[0].strip('"')
    elif len(words) <= 2:
        yield (
            _join_names([*scopes, words[0]], line),
            words[1].strip('"') if len(words) > 1 else "",
        )
    else:
        raise NotAptConf(line)


def _join_names(names: list[str], line: int) -> str:
    if sum(map(len, names)) > LONGEST_NAME:
        raise NotAptConf(line)
    return "::".join(name.removesuffix("::") for name in names[:-1] + [names[-1]]).lower() + (
        "::" if names[-1].endswith("::") else ""
    )


def _list_tokens(text: str) -> Iterator[tuple[int, str]]:
    at, line = 0, 1
    while at < len(text):
        token = TOKEN.match(text, at)
        if not token:
            raise NotAptConf(line)
        if token.lastgroup:
            yield line, token[0]
        line += token[0].count("\n")
        at = token.end()
