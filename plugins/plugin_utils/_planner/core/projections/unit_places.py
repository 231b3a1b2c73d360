# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the parts of a unit's files that may leave a host.

These are the division into words, listed flags with values of their shape, and listed variables.

Files of units and of their environment hold secrets, such as the password of a proxy. Everything
that is not listed travels as FILLER, one for each byte, so quotes, lines and words keep their
places in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)

FILLER = "\x7f"
_BEGIN = r"(?<![^\s\"'=])"
_END = r"(?=[\s\"'\\]|\Z)"
_BETWEEN = r"(?:=|[ \t]+(?:\\\n[ \t]*)?)[\"']?"  # of a flag and its value
# Where words, lines and comments begin and end, and that a word is a flag.
_STRUCTURE = (r"[ \t\"'\\=]", r"^[ \t]*[#;]", _BEGIN + "-")
_SECTION = r"^[ \t]*\[[A-Za-z-]{1,32}\]"
_ENVIRONMENT = r"^[ \t]*Environment(?=[ \t]*=)"
# A dollar sign names a variable in a command alone, where it stands in braces or begins a word.
# Elsewhere a secret may have one.
_COMMAND = (
    r"^[ \t]*(?:ExecStart|EnvironmentFile)(?=[ \t]*=)",
    r"^[ \t]*ExecStart[ \t]*=[ \t]*[-@:+!|]*(?![-@:+!|])[\"']?[\w./+@%:~-]+" + _END,
    r"^[ \t]*EnvironmentFile[ \t]*=[ \t]*-?/[\w./+@%,:~*?-]+" + _END,
    r"\$\{[A-Za-z_]\w*\}",
    r"(?<!\S)[\"']?\$[A-Za-z_]\w*" + _END,
)


def keep_command(flags: Mapping[str, str]) -> Keep:
    """List what a unit's files may show of the command that they start. flags: name -> the shape of
    its value.
    """
    return _keep_unit_values((_SECTION, _ENVIRONMENT, *_COMMAND, *_show_flags(flags)))


def keep_assignments(flags: Mapping[str, str], variables: Mapping[str, str]) -> Keep:
    """List what a unit's files may show of the variables that they set. variables: name -> the
    shape of its value, '' if it holds flags.
    """
    return _keep_unit_values((_SECTION, _ENVIRONMENT, *_show_variables(flags, variables)))


def keep_environment(flags: Mapping[str, str], variables: Mapping[str, str]) -> Keep:
    """List what a file with an environment may show of these variables."""
    return _keep_unit_values(_show_variables(flags, variables))


def _show_variables(flags: Mapping[str, str], variables: Mapping[str, str]) -> list[str]:
    names = rf"(?:^|{_BEGIN})(?:{_match_either(variables)})(?==)"
    values = [
        rf"{_BEGIN}{re.escape(name)}=[\"']?{_write_rule(shape)}{_END}"
        for name, shape in sorted(variables.items())
        if shape
    ]
    return [*_show_flags(flags), names, *values]


def _keep_unit_values(patterns: Iterable[str]) -> Keep:
    return {"format": "text", "filler": FILLER, "patterns": [*_STRUCTURE, *patterns]}


def _show_flags(flags: Mapping[str, str]) -> list[str]:
    """Show flags alone, since a variable may hold the value, and with values of their shape."""
    named = {name: shape for name, shape in flags.items() if name.startswith("-")}
    shapes = sorted({shape for shape in named.values() if shape})
    by_shape = {shape: [name for name in named if named[name] == shape] for shape in shapes}
    values = [
        f"{_BEGIN}(?:{_match_either(names)}){_BETWEEN}{_write_rule(shape)}{_END}"
        for shape, names in by_shape.items()
    ]
    return [rf"{_BEGIN}(?:{_match_either(named)})(?=[=\s\"'\\]|\Z)", *values]


def _match_either(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(names, key=lambda name: (-len(name), name))))


def _write_rule(shape: str) -> str:
    """Write the rule of a shape so that it can be a part of another one. `%` begins a specifier of
    systemd.
    """
    rule = selection.TEXT_RULES[shape]
    folded = rule.removeprefix("(?i)")
    return f"(?{'' if folded == rule else 'i'}:{folded})"
