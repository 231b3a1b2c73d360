# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Split values of unit files into words as systemd does, and fill in specifiers and variables.

The rules are those of systemd.syntax(7), systemd.unit(5) and systemd.service(5), and for the rest
those of extract_first_word(), cunescape() and replace_env_argv() in systemd 252. A character that
did not travel, or is not known, is FILLER.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.unit_places import (
    FILLER,
)

WHITESPACE = " \t\n\r"
_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "s": " ",
}
_NUMBERED = re.compile(r"x([0-9a-fA-F]{2})|([0-3][0-7]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})")
_SPECIFIER = re.compile("%(.?)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\$|\{([A-Za-z_]\w*)\})")
_WHOLE_WORD = re.compile(r"\$[^{$]")


class TooLong(ValueError):
    """A command that is longer, with its variables, than what is read of one."""


class Unbalanced(ValueError):
    """A quote without its end, for which systemd ignores the whole assignment."""


@dc.dataclass(frozen=True)
class Word:
    """A word as it is written in the file, and without its quotes and escapes."""

    written: str
    text: str


def split_words(value: str, *, escapes: bool) -> list[Word]:
    """Split a value. escapes: read escape sequences of C; else a backslash only takes the meaning
    from the next character.
    """
    words: list[Word] = []
    at = _skip_whitespace(value, 0)
    while at < len(value):
        end, text = _read_word(value, at, escapes=escapes)
        words.append(Word(value[at:end], text))
        at = _skip_whitespace(value, end)
    return words


def _skip_whitespace(value: str, at: int) -> int:
    while at < len(value) and value[at] in WHITESPACE:
        at += 1
    return at


def _read_word(value: str, at: int, *, escapes: bool) -> tuple[int, str]:
    """Read one word from a place. Return the place behind it, and its text."""
    text, quote = "", ""
    while at < len(value) and (quote or value[at] not in WHITESPACE):
        char = value[at]
        at += 1
        if char == "\\":
            read, more = _read_escape(value, at) if escapes else (1, value[at : at + 1])
            at, text = at + read, text + more
        elif char == quote:
            quote = ""
        elif char in "\"'" and not quote:
            quote = char
        else:
            text += char
    if quote:
        raise Unbalanced(value)
    return at, text


def _read_escape(value: str, at: int) -> tuple[int, str]:
    """Read what follows a backslash. Return how many characters it has, and which one it means.

    An unknown sequence stays as it is written.
    """
    if value[at : at + 1] in _SIMPLE:
        return 1, _SIMPLE[value[at]]
    match = _NUMBERED.match(value, at)
    if not match:
        return 0, "\\"
    hexadecimal = match[1] or match[3] or match[4]
    number = int(hexadecimal, 16) if hexadecimal else int(match[2], 8)
    return len(match[0]), chr(number) if 0 < number <= 0x10FFFF else FILLER


def fill_specifiers(text: str, unit: str) -> str:
    """Fill in the specifiers that the unit's name gives. Any other depends on the host, so its
    value is not known.

    unit: '' if its name is not known.
    """
    prefix, _dot, _kind = unit.rpartition(".")
    prefix, _at, instance = prefix.partition("@")
    named = {"n": unit, "N": unit.rpartition(".")[0], "p": prefix, "i": instance} if unit else {}
    known = {"%": "%", **named}
    return _SPECIFIER.sub(lambda found: known.get(found[1], FILLER), text)


def fill_variables(words: list[str], variables: Mapping[str, str], most: int) -> list[str]:
    """Replace `$NAME` that is a whole word by the words of the variable, and `${NAME}` by its
    value; `$$` is a dollar sign.

    most: characters of the result, a blank behind each word included. Raise TooLong if it has more,
    before it is made.
    """
    filled: list[str] = []
    divided: dict[str, list[str]] = {}
    for word in words:
        if _WHOLE_WORD.match(word):
            if word not in divided:
                divided[word] = [part.text for part in split_relaxed(variables.get(word[1:], ""))]
            more = divided[word]
        else:
            _require_room(
                most
                - sum(
                    len(variables.get(variable[1] or "", ""))
                    for variable in _VARIABLE.finditer(word)
                )
            )
            more = [
                _VARIABLE.sub(
                    lambda variable: variables.get(variable[1], "") if variable[1] else "$", word
                )
            ]
        most -= sum(len(one) + 1 for one in more)
        _require_room(most)
        filled += more
    return filled


def _require_room(room: int) -> None:
    if room < 0:
        raise TooLong


def split_relaxed(value: str) -> list[Word]:
    """Split a variable's value. A quote without its end closes at the end of the value here."""
    for closing in ("", '"', "'"):
        try:
            return split_words(value + closing, escapes=False)
        except Unbalanced:
            continue
    return []


def name_variables(words: list[str]) -> set[str]:
    """Name the variables that these words refer to."""
    braced = {
        variable[1]
        for word in words
        for variable in _VARIABLE.finditer(word)
        if variable[1] and not _WHOLE_WORD.match(word)
    }
    return braced | {word[1:] for word in words if _WHOLE_WORD.match(word)}
