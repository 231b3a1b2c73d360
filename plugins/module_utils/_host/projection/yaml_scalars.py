# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read scalars of YAML by the rules of YAML 1.1: 010 is a number, `yes` is true. Host side:
standard library only, Python 3.6.
"""

import functools
import re

_BOOLEAN = frozenset(
    "y Y yes Yes YES true True TRUE on On ON n N no No NO false False FALSE off Off OFF".split()
)
_NULL = ("~", "null", "Null", "NULL", "")
_NUMBER = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))"
    r"|\.(?:nan|NaN|NAN)"
)
_SAME = r"true|false|0|-?[1-9][0-9]{0,17}|-?(?:0|[1-9][0-9]{0,2})\.[0-9]{0,2}[1-9]"
_ESCAPE = (
    r"\\(?:([0abtnvfre \"/\\N_LP\t])|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))"
)
_SHORT = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b", " ": " ", '"': '"',
    "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip


@functools.lru_cache(maxsize=4096)  # the same words again and again
def get_scalar_kind(text):
    """Return the kind of a text without quotes: boolean, null, number or string."""
    if text in _NULL:
        return "null"
    if text in _BOOLEAN:
        return "boolean"
    return "number" if _NUMBER.fullmatch(text.replace("_", "")) else "string"


def is_read_otherwise(text):
    """Tell whether a reader that expects text gets a number or truth value as it is written: 010 is
    8 for it. If unsure: no.
    """
    return re.fullmatch(_SAME, text) is not None


def read_quoted_scalar(raw):
    """Return the text of a scalar in quotes. Raise ValueError for an escape that YAML does not
    know.
    """
    text = raw[1:-1]
    if raw[0] == "'":
        return (_join_lines(text, False) if "\n" in text else text).replace("''", "'")
    return re.sub(
        _ESCAPE, _find_meaning, _join_lines(text, True) if "\n" in text else text, flags=re.DOTALL
    )


def _join_lines(text, escapes):
    """Join the lines of a text in quotes: a line end is a blank, unless it is escaped or followed
    by empty lines.
    """
    lines = text.split("\n")
    out, between = [lines[0].rstrip(" \t\r")], " "
    for number, line in enumerate(lines[1:], 2):
        last = number == len(lines)
        line = line.lstrip(" \t") if last else line.strip(" \t\r")
        if not line and not last:
            between = between.strip(" ") + "\n"
            continue
        before = out[-1]
        if escapes and (len(before) - len(before.rstrip("\\"))) % 2:
            out[-1], between = before[:-1], between.strip(" ")
        out += [between, line]
        between = " "
    return "".join(out)


def _find_meaning(found):
    short, code = found.group(1), found.group(2) or found.group(3) or found.group(4)
    if short:
        return _SHORT[short]
    if code:
        number = int(code, 16)
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            raise ValueError("no character")
        return chr(number)
    raise ValueError("no escape")


def read_block_scalar(header, lines):
    """Return the text of a block scalar, from its header and its lines without their indentation."""
    text = "\n".join(lines).rstrip("\n")
    body = (
        text
        if header[0] == "|"
        else re.sub(r"\n+", lambda found: "\n" * (len(found.group()) - 1) or " ", text)
    )
    return body if "-" in header.partition("#")[0] or not body else body + "\n"
