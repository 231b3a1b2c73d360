# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may leave a host: listed places with a shape each, and nothing else.

A list of what is secret is never complete; a list of what is needed is. `keep` is a list of [path, shape]. A path is a list of key
parts: a key itself (compared without case), "*" for any one key that has the shape of a name, "[]" for the items of a list, and as the
last part "**" for all that is below. A value travels where its path is listed and the value has the shape; all else stays.

Pure functions. Node side: standard library only, Python 3.6. The planner uses them, too, so that both ask by one rule.
"""

import re

LONGEST = 1024  # characters of one value
MANY = 256  # items of one list

_NAME = r"\w[\w.+-]{0,127}"
_PATH = r"/(?!/)[\w./+@%,:~-]*"
# Text with a shape, each a strict rule for the whole value. None has room for spaces, quotes, "=" or an URL's "user:password@".
_TEXT = {
    "name": _NAME,
    "path": _PATH,
    "program": "%s|%s" % (_NAME, _PATH),
    "address": r"(?:unix://)?" + _PATH,
    "pattern": r"(?![\w.+-]*:)[\w./*?+@%,:~\[\]-]+",
    "annotation": r"[\w.*-]{1,128}(?:/[\w.*-]{0,128})?",
    "version": r"v?[0-9][\w.+~:-]{0,63}",
    "duration": r"[0-9][0-9a-z.]{0,15}",
}
# A list whose items have the shape.
_LISTS = {"names": "name", "paths": "path", "patterns": "pattern", "annotations": "annotation", "versions": "version"}
_ONE_OF = "one of "
_COMPILED = {shape: re.compile(rule) for shape, rule in _TEXT.items()}


def shapes():
    """Every shape that a listed place can have; beside them "one of A|B|C"."""
    return sorted(set(_TEXT) | set(_LISTS) | {"bool", "int"})


def fits(shape, value):
    """Whether a value has the shape. Nothing (None, "", an empty list) tells nothing, and fits every shape of its kind."""
    if value is None:
        return True
    if shape == "bool":
        return isinstance(value, bool)
    if shape == "int":
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    if shape in _LISTS:
        return isinstance(value, list) and len(value) <= MANY and all(item is not None and fits(_LISTS[shape], item) for item in value)
    if not isinstance(value, str):
        return False
    if shape.startswith(_ONE_OF):
        return value in shape[len(_ONE_OF) :].split("|")
    rule = _COMPILED.get(shape)
    if rule is None:
        raise ValueError("there is no shape called %r" % (shape,))
    return value == "" or (len(value) <= LONGEST and rule.fullmatch(value) is not None)


def listed(keep, path):
    """The shape that a value at this path must have to travel; None where the path is not listed."""
    for wanted, shape in keep:
        if _matches(wanted, path, whole=True):
            return shape
    return None


def on_the_way(keep, path):
    """Whether a listed path goes on below this one."""
    return any(_matches(wanted, path, whole=False) for wanted, _shape in keep)


def _matches(wanted, path, whole):
    below = bool(wanted) and wanted[-1] == "**"
    parts = wanted[:-1] if below else wanted
    if len(path) > len(parts):
        return below and _same(parts, path[: len(parts)]) and all(_COMPILED["name"].fullmatch(key) for key in path[len(parts) :])
    if len(path) == len(parts):
        return (below or whole) and _same(parts, path)
    return not whole and _same(parts[: len(path)], path)


def _same(parts, path):
    return all(_part(parts[n], key) for n, key in enumerate(path))


def _part(part, key):
    if part == "*":
        return key != "[]" and _COMPILED["name"].fullmatch(key) is not None
    return part.lower() == key.lower()


def select(data, keep, path=()):
    """The listed values of a structure (what JSON or TOML give), where they stand; {} or [] where nothing below may travel, else None."""
    path = list(path)
    if _goes(data, keep, path):
        return data
    if isinstance(data, dict):
        pairs = [(key, value, path + [key]) for key, value in data.items() if isinstance(key, str)]
        return {key: select(value, keep, below) for key, value, below in pairs if _goes(value, keep, below) or _leads(value, keep, below)}
    below = path + ["[]"]
    if isinstance(data, list) and (listed(keep, below) or on_the_way(keep, below)):
        return [select(item, keep, below) for item in data]
    return [] if isinstance(data, list) else None


def _goes(value, keep, path):
    shape = listed(keep, path)
    return shape is not None and not isinstance(value, dict) and fits(shape, value)


def _leads(value, keep, path):
    return isinstance(value, (dict, list)) and on_the_way(keep, path)
