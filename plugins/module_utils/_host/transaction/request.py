# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check whether a request may be begun: everything in it that names a directory, a file, a unit or
a program.

This is done before anything on the host is touched. The rest of its form is the controller's part,
where types declare it and one place makes it. `preconditions` judges with each file whether it may
be read, written or followed. A change that does not fit later is taken back like any other failure.
Host side: standard library only, Python 3.6.
"""

import os
import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, journal
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import executor

KEYS = set(
    "schema id root check judge journal_dir reason expect commands_before changes stage validate disable units health causes alone "
    "probation pending acknowledged strays environment".split()
)
OPS = {
    "write": {"path", "content"},
    "edit": {"path", "edits"},
    "remove": {"path"},
    "restore": {"path"},
}
# characters of what was found; a path is shown to its end, which is what tells it from others
SHOWN = 300
_ID = "[0-9a-f]{32}"
_UNIT = r"[A-Za-z0-9:_.@\\-]+\.(?:service|socket|timer|path|target)"


def require_valid_request(request):
    """Raise HostError (bad-question) that names the place in the request and what belongs there."""
    _require_fit(isinstance(request, dict), "the request", "a table", request)
    for key in sorted(set(request) - KEYS):
        raise host_files.HostError("bad-question", "%s: unknown key" % key)
    schema = request.get("schema")
    _require_fit(
        schema == executor.SCHEMA and not isinstance(schema, bool),
        "schema",
        "%d" % executor.SCHEMA,
        schema,
    )
    _match("id", _ID, "32 hexadecimal digits", request.get("id"))
    for key in ("root", "journal_dir"):
        _match(key, r"/[^\0]*", "an absolute path", request.get(key) or "/")
    _require_fit(
        os.path.isdir(request.get("root") or "/"),
        "root",
        "an existing directory",
        request.get("root"),
    )
    for key in ("check", "judge", "alone"):
        _require_fit(
            isinstance(request.get(key, False), bool), key, "true or false", request.get(key)
        )
    for place, change in _list_tables(request, "changes"):
        _change(place, change)
    _require_seconds("probation", request.get("probation"))
    for place, unit in _list_tables(request, "units"):
        _require_seconds(place + ".timeout", unit.get("timeout"))
        _match(place + ".name", _UNIT, "the name of a unit such as foo.service", unit.get("name"))
        _match(
            place + ".action",
            "restart|reload|start|wait",
            "one of restart, reload, start, wait",
            unit.get("action"),
        )
    for place, name in _require_request_list(request, "disable"):
        _match(place, _UNIT, "the name of a unit such as foo.service", name)
    for place, command in list(_list_tables(request, "commands_before")) + list(
        _list_tables(request, "validate")
    ):
        _require_seconds(place + ".timeout", command.get("timeout"))
        _require_seconds(place + ".undo_within", command.get("undo_within"))
        _require_program(place, command)
    for place, check in _list_tables(request, "health"):
        _match(place + ".kind", "cri|http", "one of cri, http", check.get("kind"))
        _match(place + ".socket", r"/[^\0]*", "an absolute path", check.get("socket"))
        _require_seconds(place + ".timeout", check.get("timeout"))
    for place, path in _require_request_list(request, "strays"):
        _match(place, r"/(?:[^\0]*/)?" + journal.BESIDE, "our name beside a file", path)


def _require_fit(fits, place, wanted, found):
    if not fits:
        shown = repr(found)
        sentence = (place, wanted, shown if len(shown) <= SHOWN else shown[: SHOWN - 3] + "...")
        raise host_files.HostError("bad-question", "%s: must be %s, not %s" % sentence)


def _match(place, pattern, wanted, value):
    _require_fit(
        isinstance(value, str) and re.match("(?:%s)\\Z" % pattern, value), place, wanted, value
    )


def _require_seconds(place, value):
    """Check a number of seconds.

    They add up to the time after which the host takes everything back.
    """
    fits = value is None or (
        isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 86400 * 7
    )
    _require_fit(fits, place, "seconds, 0 or more", value)


def _require_request_list(table, key, inside=""):
    entries = table.get(key) or []
    _require_fit(isinstance(entries, list), inside + key, "a list", entries)
    return [("%s%s[%d]" % (inside, key, number), entry) for number, entry in enumerate(entries)]


def _list_tables(request, key):
    for place, entry in _require_request_list(request, key):
        _require_fit(isinstance(entry, dict), place, "a table", entry)
        yield place, entry


def _change(place, change):
    op = change.get("op")
    _require_fit(
        isinstance(op, str) and op in OPS, place + ".op", "one of " + ", ".join(sorted(OPS)), op
    )
    for key in sorted(OPS[op] - set(change)):
        raise host_files.HostError("bad-question", "%s.%s: is missing" % (place, key))
    if change.get("mode") is not None:
        _match(place + ".mode", "0?[0-7]{3,4}", "a mode in octal such as 0644", change["mode"])


def _require_program(place, command):
    """Check the words of a command.

    A table among them stands for the arguments of a process, which the host reads itself.
    """
    for key in ("argv", "baseline", "undo"):
        words = command.get(key)
        if key != "argv" and words is None:
            continue
        _require_fit(
            isinstance(words, list) and words,
            "%s.%s" % (place, key),
            "a list of at least one",
            words,
        )
        for where, word in _require_request_list(command, key, place + "."):
            fits = isinstance(word, str) and "\0" not in word
            _require_fit(
                fits or (key != "undo" and isinstance(word, dict)), where, "text without NUL", word
            )
