# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a transaction's request is one: every key and its form, judged before anything on the host is touched.

A request comes from our own actions, but the module `transaction` can be called by anybody. What is in here ends up in paths, in
systemd's units and in command lines, so a request that is not exactly of this form is refused whole, with the place and the reason.
Node side: standard library only, Python 3.6.
"""

import os
import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._node import host_files, journal
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.transaction import executor

_NUMBER = (int, float)


def require(request):
    """NodeError (bad-question) that names the place in the request and says what belongs there."""
    _table(_REQUEST, request, "")
    root = request.get("root") or "/"
    if not os.path.isdir(root):
        _refuse("root", "a directory that is there", root)


def _refuse(place, wanted, found):
    shown = repr(found)
    raise host_files.NodeError(
        "bad-question", "%s: must be %s, not %s" % (place, wanted, shown if len(shown) <= 80 else shown[:77] + "...")
    )


# --- forms: each takes a place and a value ------------------------------------------------------------------------------


def _form(wanted, fits):
    """A form that is told by one question."""

    def check(place, value):
        if not fits(value):
            _refuse(place, wanted, value)

    return check


def _matching(pattern, wanted):
    return _form(wanted, lambda value: isinstance(value, str) and re.match(pattern + r"\Z", value) is not None)


def _is_pattern(value):
    try:
        re.compile(value)
        return isinstance(value, str)
    except (re.error, TypeError):
        return False


def _list(form, least=0):
    def check(place, value):
        if not isinstance(value, list) or len(value) < least:
            _refuse(place, "a list" + (" of at least one" if least else ""), value)
        for number, entry in enumerate(value):
            form("%s[%d]" % (place, number), entry)

    return check


def _values(form):
    """A table whose keys are names."""

    def check(place, value):
        if not isinstance(value, dict):
            _refuse(place, "a table", value)
        for key in sorted(value):
            form("%s[%s]" % (place, key), value[key])

    return check


def _or_none(form):
    return lambda place, value: None if value is None else form(place, value)


def _record(known, required=()):
    return lambda place, value: _table((known, required), value, place)


def _table(kind, value, place):
    known, required = kind
    if not isinstance(value, dict):
        _refuse(place or "the request", "a table", value)
    inside = place + "." if place else ""
    for key in required:
        if key not in value:
            raise host_files.NodeError("bad-question", "%s%s: is missing" % (inside, key))
    for key in sorted(value):
        if key not in known:
            raise host_files.NodeError("bad-question", "%s%s: there is no such key" % (inside, key))
        known[key](inside + key, value[key])


_text = _form("text without NUL", lambda value: isinstance(value, str) and "\0" not in value)
_content = _form("text", lambda value: isinstance(value, str))
_flag = _form("true or false", lambda value: isinstance(value, bool))
_seconds = _form("seconds, 0 or more", lambda value: isinstance(value, _NUMBER) and not isinstance(value, bool) and 0 <= value < 86400 * 7)
_line = _form("a line's number", lambda value: isinstance(value, int) and not isinstance(value, bool))
_pattern = _form("a regular expression", _is_pattern)
_id = _matching("[0-9a-f]{32}", "32 hexadecimal digits")
_mode = _matching("0?[0-7]{3,4}", "a mode in octal such as 0644")
_digest = _matching("[0-9a-f]{64}", "a SHA-256 in hexadecimal digits")
_unit = _matching(r"[A-Za-z0-9:_.@\\-]+\.(?:service|socket|timer|path|target)", "the name of a unit such as foo.service")
_action = _matching("restart|reload|start", "one of restart, reload, start")
_argv = _list(_text, least=1)
_shape = _form("a shape", lambda value: value in selection.shapes())
_anything = _form("anything", lambda value: True)

# --- the request, part by part: (known keys, required keys) -----------------------------------------------------------

_PATH = {"path": _anything, "expect": _or_none(_digest), "forget": _flag}  # what a path may be is said with the file that it names
_PLACE = _form("a path and a shape", lambda value: isinstance(value, list) and len(value) == 2 and isinstance(value[0], list))
_KEEP = _record({"format": _text, "places": _list(_PLACE), "comments": _list(_content), "patterns": _list(_pattern)}, ("format",))
_SPAN = _list(_form("a number, 0 or more", lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0), least=2)
_REFERENCE = _record({"at": _line, "path": _text, "expect": _digest, "span": _SPAN}, ("at", "path", "expect", "span"))
_EDIT = _record({"start": _line, "end": _line, "text": _content}, ("start", "end", "text"))
_OF_A_WRITE = {"mode": _mode, "references": _list(_REFERENCE), "keep": _or_none(_KEEP)}
_OPS = {
    "write": (dict(_PATH, content=_content, **_OF_A_WRITE), ("content",)),
    "edit": (dict(_PATH, edits=_list(_EDIT), result=_or_none(_digest), keep=_or_none(_KEEP)), ("edits",)),
    "remove": (_PATH, ()),
    "restore": (dict(_PATH, id=_text, changed=_flag), ()),
}


def _change(place, value):
    if not isinstance(value, dict):
        _refuse(place, "a table", value)
    kind = _OPS.get(value.get("op")) if isinstance(value.get("op"), str) else None
    if kind is None:
        _refuse(place + ".op", "one of %s" % ", ".join(sorted(_OPS)), value.get("op"))
    known, required = kind
    _table((dict(known, op=_text), required + ("path",)), value, place)


_NEED = _record({"handler": _text, "path": _list(_text, least=1), "equals": _anything, "absent": _flag, "filled": _flag, "folded": _flag})
_HEALTH = {
    "cri": ({"socket": _text, "require": _list(_NEED)}, ("socket",)),
    "http": ({"socket": _text, "path": _text, "require": _list(_NEED)}, ("socket", "path")),
}


def _health(place, value):
    if not isinstance(value, dict):
        _refuse(place, "a table", value)
    kind = _HEALTH.get(value.get("kind")) if isinstance(value.get("kind"), str) else None
    if kind is None:
        _refuse(place + ".kind", "one of %s" % ", ".join(sorted(_HEALTH)), value.get("kind"))
    known, required = kind
    _table((dict(known, kind=_text, timeout=_seconds), required), value, place)


_COMMAND = _record({"argv": _argv, "timeout": _seconds, "why": _text, "env": _values(_text), "undo": _or_none(_argv)}, ("argv",))
_NUMBER_OF = _form("a number", lambda value: isinstance(value, int) and not isinstance(value, bool) and value > 0)
_OF_PROCESS = _record({"process": _NUMBER_OF, "ticks": _NUMBER_OF, "without": _list(_text)}, ("process", "ticks"))


def _word(place, value):
    _OF_PROCESS(place, value) if isinstance(value, dict) else _text(place, value)


_EXPECTED = _record({"pattern": _pattern, "says": _text}, ("pattern", "says"))
_VALIDATOR = _record(
    {
        "argv": _list(_word, least=1),
        "baseline": _or_none(_argv),
        "timeout": _seconds,
        "why": _text,
        "process": _or_none(_record({"pid": _NUMBER_OF, "ticks": _NUMBER_OF}, ("pid", "ticks"))),
        **{name: _list(_EXPECTED) for name in ("refuse", "require")},
        "allow": _list(_pattern),
        "names": _list(_text),
    },
    ("argv",),
)
_STAGED = _record({"name": _text, "source": _text, "tree": _flag}, ("name", "source"))
_PAIR = _form("two texts", lambda value: isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value))
_REQUEST = (
    {
        "schema": _form("%d" % executor.SCHEMA, lambda value: value == executor.SCHEMA and not isinstance(value, bool)),
        "id": _id,
        "root": _or_none(_matching(r"/[^\0]*", "an absolute path")),
        "check": _flag,
        "journal_dir": _or_none(_matching(r"/[^\0]*", "an absolute path")),
        "reason": _or_none(_text),
        "expect": _or_none(
            _record(
                {
                    "files": _values(_or_none(_digest)),
                    "units": _values(_text),
                    "packages": _values(_or_none(_text)),
                    "programs": _values(_or_none(_text)),
                }
            ),
        ),
        "commands_before": _or_none(_list(_COMMAND)),
        "changes": _or_none(_list(_change)),
        "stage": _or_none(_record({"files": _list(_STAGED), "substitute": _list(_PAIR)})),
        "validate": _or_none(_list(_VALIDATOR)),
        "disable": _or_none(_list(_unit)),
        "units": _or_none(_list(_record({"name": _unit, "action": _action, "timeout": _seconds}, ("name", "action")))),
        "health": _or_none(_list(_health)),
        "causes": _or_none(_list(_record({"code": _text, "pattern": _pattern, "values": _values(_shape)}, ("code", "pattern")))),
        "alone": _flag,
        "probation": _or_none(_seconds),
        "pending": _or_none(_list(_text)),
        "told": _or_none(_list(_text)),
        "strays": _or_none(_list(_matching(r"/(?:[^\0]*/)?" + journal.BESIDE, "our name beside a file"))),
        "environment": _or_none(_list(_text)),
    },
    ("schema", "id"),
)
