# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show before and after of a file for --diff: the lines that change under the header of their
table.

The lines around belong to others, and a log must not have them. All of them are in the journal, on
the host.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decision_file,
    earlier_runs,
    host_service,
)

Entry = tuple[str, str, str]

_OWN = (decision_file.DECISION_PATH, earlier_runs.FACT_PATH)
_KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_SPEC = re.compile(r"(?m)^[ \t{]*\"?cdiVersion\"?:")
_HEADER = re.compile(r"\s*\[.+\]\s*(?:#.*)?$")
# The host replaces names, comments and values that it does not send by these
# (module_utils/_host/projection/placeholders.py).
_STAND_IN = re.compile(
    r"""#x{2,}[ \t]*$|" +"|\[1 +\]|\{ {2,}\}|(?:^|[\s.{,\["'])x{2,}[\w-]?(?=["']?\s*[=.:\]])"""
)
HIDDEN = (
    r"\ xxxx, blanks and ones replace names, comments and values that are not sent from the host"
)
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def build_diff_entry(path: str, before: str, after: str) -> Entry:
    """Build one entry of Plan.diffs."""
    return path, before, after


def convert_diffs_for_ansible(
    diffs: Iterable[Entry], *, verbose: bool = False
) -> list[dict[str, str]]:
    """Return the entries in the form that Ansible prints.

    verbose: whether files that no person writes line by line are shown whole as well.
    """
    return [_convert_diff(path, before, after, verbose) for path, before, after in diffs]


def _convert_diff(path: str, before: str, after: str, verbose: bool) -> dict[str, str]:
    names = {"before_header": path, "after_header": path}
    kind = _name_file_kind(path, after or before)
    if kind is None:
        return {**names, "prepared": list_changed_lines(path, before, after)}
    if verbose:
        return {**names, "before": before, "after": after}
    return {
        **names,
        "prepared": f"{path}: {kind}{_describe_size(before, after)}{_digest(kind, after)} (-v shows it)\n",
    }


def _name_file_kind(path: str, text: str) -> str | None:
    """Name the kind of a file that is read as a whole.

    Return '' if its content is shown elsewhere, and None for a file that is read by lines.
    """
    if path in _OWN or _SPEC.search(text):
        return ""
    if path.startswith(f"{host_service.PROGRAMS}/"):
        return "a program of this collection, "
    return "a public key, " if text.lstrip().startswith(_KEY) else None


def _digest(kind: str, after: str) -> str:
    """Return the words with the digest, which tells texts apart that are not shown; '' if the
    content is shown elsewhere.
    """
    return f", sha256 {hashlib.sha256(after.encode('utf-8')).hexdigest()}" if kind and after else ""


def _describe_size(before: str, after: str) -> str:
    if not after:
        return "removed"
    lines = len(after.splitlines())
    return f"{lines} lines, {'changed' if before else 'new'}"


def list_changed_lines(path: str, before: str, after: str) -> str:
    """Return the lines that go and come, each group of them under its table's header, without the
    lines around.

    The text is the same in check mode as in the run that follows. So it names no entry of the
    journal, which only the run has.
    """
    old, new = before.splitlines(), after.splitlines()
    out = [
        f"--- {path}{' (kept whole in the journal on the host)' if before else ''}",
        f"+++ {path}",
    ]
    changed = list(difflib.unified_diff(old, new, n=0, lineterm=""))[2:]
    gone, come = (Counter(line[1:] for line in changed if line[0] == sign) for sign in "-+")
    # a line that goes here and comes there has not changed
    moved = {
        "-": gone & come,
        "+": gone & come,
    }
    for line in changed:
        hunk = _HUNK.match(line)
        if hunk:
            first = int(hunk.group(3)) - (0 if hunk.group(4) == "0" else 1)
            out.append(f"{hunk.group()} {_find_table_header(new[: max(first, 0)])}".rstrip())
        elif moved[line[0]][line[1:]]:
            moved[line[0]][line[1:]] -= 1
        else:
            out.append(line)
    if any(line[0] in "-+" and _STAND_IN.search(line[1:]) for line in out[2:]):
        out.insert(2, HIDDEN)
    return "\n".join(out) + "\n" if len(out) > 2 else ""


def _find_table_header(above: list[str]) -> str:
    """Return the header of the table that has a line, "" at the top of a file and in a file without
    tables.
    """
    return next((line.strip() for line in reversed(above) if _HEADER.match(line)), "")
