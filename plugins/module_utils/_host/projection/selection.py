# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what may leave a host: listed places with a shape each, and nothing else.

A list of secrets is never complete. A list of what is needed is. `keep` is a list of [path, shape].
A path is a list of parts. A part is a key itself (compared without case), "*" for any one key that
looks like a key, or "[]" for the items of a list. The last part may be "**", for all that is below.
A value travels if its path is listed and the value has the shape. A listed value of another shape
is sent as HIDDEN, which is never a real value. A value that is not listed is not sent at all.

Pure functions. Host side: standard library only, Python 3.6. The planner uses them as well, so both
ask by one rule.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes longer to import than all of this
    from typing import Any

LONGEST = 1024  # characters of one value
MANY = 256  # items of one list

HIDDEN = "(hidden)"  # has no shape itself, so nothing that travels can be mistaken for it

_NAME = r"\w[\w.+-]{0,127}"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_PATH = r"/(?!/)[\w./+@%,:~-]*"
# Text with a shape, each a strict rule for the whole value. None has room for spaces, quotes, "="
# or an URL's "user:password@".
TEXT_RULES = {
    "name": _NAME,
    "name or variable": r"%s|\$\{[A-Z_]{1,64}\}" % _NAME,
    "path": _PATH,
    "program": "%s|%s" % (_NAME, _PATH),
    "address": r"(?:unix://)?" + _PATH,
    "pattern": r"(?![\w.+-]*:)[\w./*?+@%,:~\[\]-]+",
    "annotation": r"[\w.*-]{1,128}(?:/[\w.*-]{0,128})?",
    "version": r"v?[0-9][\w.+~:-]{0,63}",
    "number": r"[0-9]{1,9}",
    "duration": r"[0-9][0-9a-z.]{0,15}",
    "cgroup": r"[\w./-]{1,256}",
    "search path": r"PATH=[\w./:-]*",
    "switch": r"(?i)true|false|t|f|0|1",
    "feature": r"[\w-]{1,64}=(?:true|false|0|1)",
    "features": r"[\w-]{1,64}=(?i:true|false|[tf01])(?:,[\w-]{1,64}=(?i:true|false|[tf01])){0,63}",
    "variable": r"[A-Za-z_][A-Za-z0-9_]{0,127}",
    "numbered name": r"\w[\w.:+-]{0,127}",
    "qualified name": r"(?:(?=[^/]{1,253}/)%s(?:\.%s)*/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
    % (_LABEL, _LABEL),
    "command": r"[a-z]{1,32}(?:-[a-z]{1,32}){0,8}",
    "access": r"[rwm]{1,16}|none",
    "link": r"[\w./+,~-]*::" + _PATH,
    "name=path": r"%s(?:=%s)?" % (_NAME, _PATH),
    "resource": r"[\w.-]{1,64}=(?:(?:GPU|MIG)-[0-9A-Fa-f-]{1,64}|[0-9]{1,9})",
}
# A list whose items have the shape.
_LISTS = {
    "names": "name", "programs": "program", "paths": "path", "patterns": "pattern", "annotations": "annotation",
    "search paths": "search path", "resources": "resource",
}  # fmt: skip
_ONE_OF = "one of "
_KEY = re.compile(r"[\w.*+-]{1,128}(?:/[\w.*+-]{0,128})?")
_compiled: "Any" = {}  # shape: its rule, once a value was held against it; a look meets few of them


def list_shapes() -> "Any":
    """List all shapes that a listed place can have, except "one of A|B|C"."""
    return sorted(set(TEXT_RULES) | set(_LISTS) | {"bool", "int"})


def fits_listed_shape(shape: "Any", value: "Any") -> bool:
    """Tell whether a value has the shape. An empty value (None, "", an empty list) tells nothing,
    and fits every shape of its kind.
    """
    if value is None:
        return True
    if shape == "bool":
        return isinstance(value, bool)
    if shape == "int":
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    if shape in _LISTS:
        return (
            isinstance(value, list)
            and len(value) <= MANY
            and all(item is not None and fits_listed_shape(_LISTS[shape], item) for item in value)
        )
    if not isinstance(value, str):
        return False
    if shape.startswith(_ONE_OF):
        return value in shape[len(_ONE_OF) :].split("|")
    rule = _compiled.get(shape)
    if rule is None:
        if shape not in TEXT_RULES:
            raise ValueError("there is no shape called %r" % (shape,))
        rule = _compiled[shape] = re.compile(TEXT_RULES[shape])
    return value == "" or (len(value) <= LONGEST and rule.fullmatch(value) is not None)


def get_listed_shape(keep: "Any", path: "Any") -> "Any":
    """Return the shape that a value at this path must have to travel; None if the path is not
    listed.
    """
    ends, deep = _find_branches(keep, path)
    numbers = [number for end in ends for number in (end.here, end.deep) if number is not None]
    first = min(numbers + deep, default=None)
    return None if first is None else keep[first][1]


def is_on_the_way(keep: "Any", path: "Any") -> bool:
    """Tell whether a listed path goes on below this one."""
    ends, deep = _find_branches(keep, path)
    return bool(deep) or any(end.deep is not None or end.below for end in ends)


class _Branch(object):
    """A place on the way of listed paths.

    below: the branches below it. here, deep: the numbers of the first path that ends here, and of
    the first `**` here.
    """

    __slots__ = ("below", "deep", "here")

    def __init__(self) -> None:
        self.below: "Any" = {}
        self.here: "Any" = None
        self.deep: "Any" = None


class _Tree(object):
    """A list of places as a tree, and what was found in it."""

    __slots__ = ("found", "keep", "root", "size")

    def __init__(self, keep: "Any") -> None:
        self.keep, self.size, self.root = keep, len(keep), _Branch()
        self.found: "Any" = {}
        for number, (path, _shape) in enumerate(keep):
            _grow_branch(self.root, path, number)


# How many lists are known as trees, and how many paths of each: a file's keys are asked again and
# again.
_TREES, _PATHS = (32, 4096)
_trees: "Any" = {}  # by the list's identity, which it keeps as long as it is known here


def _build_tree(keep: "Any") -> "Any":
    tree = _trees.get(id(keep))
    if tree is None or tree.keep is not keep or tree.size != len(keep):
        if len(_trees) >= _TREES:
            _trees.clear()
        tree = _trees[id(keep)] = _Tree(keep)
    return tree


def _grow_branch(branch: "Any", path: "Any", number: int) -> None:
    below = bool(path) and path[-1] == "**"
    for part in path[:-1] if below else path:
        branch = branch.below.setdefault(part.lower(), _Branch())
    if below:
        branch.deep = number if branch.deep is None else branch.deep
    else:
        branch.here = number if branch.here is None else branch.here


def _find_branches(keep: "Any", path: "Any") -> "Any":
    """Return (the branches where the path ends, the numbers of each `**` above that includes what
    is below it).
    """
    tree, place = _build_tree(keep), tuple(path)
    if place not in tree.found:
        if len(tree.found) >= _PATHS:
            tree.found.clear()
        tree.found[place] = _list_below(tree.root, place)
    return tree.found[place]


def _list_below(tree: "Any", path: "Any") -> "Any":
    branches, deep = [tree], []
    for at, key in enumerate(path):
        held = [branch.deep for branch in branches if branch.deep is not None]
        deep += held if held and all(_is_plain(part) for part in path[at:]) else []
        folded, wild = (
            key.lower(),
            [branch.below["*"] for branch in branches if "*" in branch.below],
        )
        branches = [
            branch.below[folded] for branch in branches if folded in branch.below and folded != "*"
        ]
        branches += wild if wild and key != "[]" and _is_plain(key) else []
        if not branches and not deep:
            break
    return branches, deep


def _is_plain(key: str) -> bool:
    return key in ("[]", HIDDEN) or _KEY.fullmatch(key) is not None


def select(data: "Any", keep: "Any", path: "Any" = ()) -> "Any":
    """Return the listed values of a structure (from JSON or TOML) at their places. {} or [] if
    nothing below may travel.
    """
    path = list(path)
    shape = get_listed_shape(keep, path)
    if shape is not None and not isinstance(data, dict):
        return show_value_in_shape(shape, data)
    if isinstance(data, dict):
        return _select_pairs(data, keep, path)
    below = path + ["[]"]
    if isinstance(data, list) and (get_listed_shape(keep, below) or is_on_the_way(keep, below)):
        return [select(item, keep, below) for item in data]
    return [] if isinstance(data, list) else None


def show_value_in_shape(shape: "Any", value: "Any") -> "Any":
    """Return the value if it has the shape, else HIDDEN. The items of a list are judged one by one."""
    if fits_listed_shape(shape, value):
        return value
    if shape in _LISTS:
        # never a part, taken for the whole
        items = value if isinstance(value, list) and len(value) <= MANY else [HIDDEN]
        return [
            item if item is not None and fits_listed_shape(_LISTS[shape], item) else HIDDEN
            for item in items
        ]
    return HIDDEN


def show_plain_value(value: "Any") -> "Any":
    """Return a value of no listed place for a sentence. HIDDEN unless it is a flag, number, name or
    path, or a list of names or paths.
    """
    return (
        value
        if any(
            fits_listed_shape(shape, value)
            for shape in ("bool", "int", "program", "names", "paths")
        )
        else HIDDEN
    )


def _select_pairs(data: "Any", keep: "Any", path: "Any") -> "Any":
    pairs = {}
    for key, value in data.items():
        # if any key is listed ("*"), an unusual one is hidden
        named = key if isinstance(key, str) and _is_plain(key) else HIDDEN
        below = path + [named]
        if get_listed_shape(keep, below) is not None and not isinstance(value, dict):
            pairs[named] = select(value, keep, below)
        elif isinstance(value, (dict, list)) and is_on_the_way(keep, below):
            pairs[named] = select(value, keep, below)
    return pairs


def select_arguments(argv: "Any", flags: "Any") -> "Any":
    """Return as many words as a command line has.

    These are shown: the program, listed flags with values of their shape, and listed words. Every
    other word is HIDDEN. flags: {"--config": shape, "-c": shape}. A name without a dash is a word
    that may be shown alone.
    """
    words, awaited = (
        [argv[0] if fits_listed_shape("program", argv[0]) else HIDDEN] if argv else [],
        None,
    )
    for word in argv[1:]:
        name, equals, value = word.partition("=")
        if awaited and not word.startswith("-"):
            words.append(word if fits_listed_shape(awaited, word) else HIDDEN)
            awaited = None
            continue
        known = name in flags and (name.startswith("-") or not equals)
        awaited = flags[name] if known and name.startswith("-") and not equals else None
        if known:
            words.append(
                name
                + equals
                + (value if not equals or fits_listed_shape(flags[name], value) else HIDDEN)
            )
        else:
            words.append(
                ("-" if word.startswith("-") else "")
                + HIDDEN
                + ("=" + HIDDEN if equals and word.startswith("-") else "")
            )
    return words


def select_environment(pairs: "Any", names: "Any") -> "Any":
    """Return {name: value} from a process's environment ("NAME=value" each): only listed names. A
    value of another shape is HIDDEN.
    """
    variables = dict(pair.partition("=")[::2] for pair in pairs)
    return {
        name: variables[name] if fits_listed_shape(shape, variables[name]) else HIDDEN
        for name, shape in names.items()
        if name in variables
    }
