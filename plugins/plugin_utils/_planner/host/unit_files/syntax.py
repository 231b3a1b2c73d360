# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the [Service] sections of a unit's files in their order, and the files with its environment.

The rules are those of config_parse() and load_env_file() in systemd 252, and of systemd.exec(5).
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterable
from typing import TypeVar

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.unit_places import (
    FILLER,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import words

_COMMENT = "#;"
_PREFIXES = "-@:+!|"
_NAME = re.compile(r"[A-Za-z_]\w*")
_NOT_BLANK = re.compile(f"[^{words.WHITESPACE}]")
T = TypeVar("T")


@dc.dataclass(frozen=True)
class Assignment:
    """A line of a [Service] section, with its continuations."""

    key: str
    value: str
    line: int


@dc.dataclass(frozen=True)
class StartCommand:
    """A command of ExecStart. verbatim: its prefix `:` keeps variables as they are written."""

    words: tuple[str, ...]
    path: str
    line: int
    verbatim: bool = False


@dc.dataclass(frozen=True)
class Service:
    """The combined settings of a unit's files.

    assignments: the words of Environment=; files: the values of EnvironmentFile=.
    """

    commands: tuple[StartCommand, ...] = ()
    assignments: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def read_service(texts: Iterable[tuple[str, str]], unit: str, *, alias: bool = False) -> Service:
    """Read the unit's file and then its drop-ins. texts: (path, text) of each. An empty value
    forgets what came before.

    alias: the unit has other names, and systemd may read its own file by one of them, so this name
    is not known there.
    """
    commands: list[StartCommand] = []
    assignments: list[str] = []
    files: list[str] = []
    name = "" if alias else unit
    for path, text in texts:
        for line in read_section(text, "Service"):
            value = line.value
            try:
                if line.key == "ExecStart":
                    commands = _extend_list(
                        commands, read_commands(value, name, path, line.line), value
                    )
                elif line.key == "Environment":
                    more = [
                        words.fill_specifiers(word.text, name)
                        for word in words.split_words(value, escapes=True)
                    ]
                    assignments = _extend_list(assignments, more, value)
                elif line.key == "EnvironmentFile":
                    files = _extend_list(files, [words.fill_specifiers(value, name)], value)
            except words.Unbalanced:  # as systemd does, which logs it
                continue
        name = unit
    return Service(tuple(commands), tuple(assignments), tuple(files))


def _extend_list(found: list[T], more: list[T], value: str) -> list[T]:
    """Add to a list in place, since a unit may have many lines. An empty value begins a new one."""
    if not value:
        return []
    found.extend(more)
    return found


def read_section(text: str, section: str) -> list[Assignment]:
    """Read the assignments of a section, which may be there several times."""
    assignments: list[Assignment] = []
    inside, begun = False, 0
    parts: list[str] = []
    for number, line in enumerate([*text.removeprefix("\ufeff").split("\n"), ""], 1):
        bare = line.lstrip(words.WHITESPACE)
        if bare[:1] in tuple(_COMMENT):
            continue
        begun = begun or number
        if _has_continuation(bare):
            parts.append(bare[:-1])
            continue
        statement, at, begun, parts = " ".join([*parts, bare]).strip(words.WHITESPACE), begun, 0, []
        if statement.startswith("["):
            inside = statement == f"[{section}]"
        elif inside and "=" in statement:
            key, _equals, value = statement.partition("=")
            assignments.append(
                Assignment(key.strip(words.WHITESPACE), value.strip(words.WHITESPACE), at)
            )
    return assignments


def _has_continuation(line: str) -> bool:
    """Tell whether a line ends with a backslash that no other one takes the meaning from."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def read_commands(value: str, unit: str, path: str, line: int) -> list[StartCommand]:
    """Read one value of ExecStart: commands with a `;` between them, each with prefixes before its
    program.
    """
    commands: list[StartCommand] = []
    current: list[str] = []
    prefixes = ""
    for word in [*words.split_words(value, escapes=True), words.Word(";", ";")]:
        if word.written == ";":
            if current:
                commands.append(_make_command(current, prefixes, path, line))
            current, prefixes = [], ""
            continue
        text = ";" if word.written == "\\;" else word.text
        if not current:
            bare = text.lstrip(_PREFIXES)
            prefixes, text = text[: len(text) - len(bare)], bare
        current.append(words.fill_specifiers(text, unit))
    return commands


def _make_command(found: list[str], prefixes: str, path: str, line: int) -> StartCommand:
    """Make a command. With the prefix `@`, the word after the program is the name that it is
    started with, and not an argument.
    """
    given = [found[0], *found[2:]] if "@" in prefixes else found
    return StartCommand(tuple(given), path, line, ":" in prefixes)


def read_environment(text: str) -> dict[str, str]:
    """Read a file of EnvironmentFile=: NAME=value lines with the quotes of a shell, without its
    variables and commands.
    """
    return {
        name: value
        for name, value in _Environment(text).list_pairs()
        if _NAME.fullmatch(name) and not name.startswith(FILLER)
    }


class _Environment:
    """A reader of one file with an environment."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def list_pairs(self) -> Iterable[tuple[str, str]]:
        while self._skip_blank():
            if self.text[self.at] in _COMMENT:
                self._skip_line()
                continue
            name = self._read_name()
            if name is not None:
                yield name, self._read_value()

    def _skip_blank(self) -> bool:
        match = _NOT_BLANK.search(self.text, self.at)
        self.at = match.start() if match else len(self.text)
        return match is not None

    def _skip_line(self) -> None:
        """Skip a comment. Since systemd 254, a backslash at its end does not continue it."""
        self.at = (self.text.find("\n", self.at) + 1) or len(self.text)

    def _read_name(self) -> str | None:
        """Read up to the equals sign; None if the line has none."""
        end = self.text.find("\n", self.at)
        name, equals, _value = self.text[self.at : end if end >= 0 else len(self.text)].partition(
            "="
        )
        self.at += len(name) + 1
        return name.rstrip(words.WHITESPACE) if equals else None

    def _take(self) -> str:
        char = self.text[self.at : self.at + 1]
        self.at += len(char)
        return char

    def _read_value(self) -> str:
        """Read up to the end of the line, quoted parts one after the other."""
        value, bare, quote = "", "", ""
        while char := self._take():
            if quote:
                quote, value = (
                    ("", value)
                    if char == quote
                    else (quote, value + self._read_escaped(char, quote))
                )
            elif char == "\n":
                break
            elif char in "\"'" and not bare:
                quote = char
            elif char == "\\":
                bare += self._take().replace("\n", "")
            elif bare or char not in words.WHITESPACE:
                bare += char
        return value + bare.rstrip(words.WHITESPACE)

    def _read_escaped(self, char: str, quote: str) -> str:
        """Read a character within quotes.

        Only in double quotes is a backslash special, before a few characters and at the end of a
        line.
        """
        if char != "\\" or quote == "'":
            return char
        following = self._take()
        return "" if following == "\n" else following if following in '"\\`$' else char + following
