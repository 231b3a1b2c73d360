# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognize causes in a program's output by a table that the controller sends.

The output itself stays on the host. A row: {"code": name, "pattern": regular expression for a line,
"values": {group of the pattern: shape}}. The answer contains the code and the groups that have
their shape (see `selection`), and nothing else of the line. Host side: standard library only,
Python 3.6.
"""

import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection

MOST = 5  # causes of one output
LONGEST = 4096  # characters of a line that are read
PHRASE = 200  # characters of a phrase
SIZE = 256 * 1024  # characters of an output that are read: its end
# systemd's own lines about a unit; those of them that report a failure.
_MANAGER = re.compile(
    r"\S+\.(service|socket|scope|slice): |(Starting|Started|Stopping|Stopped|Reloading|Reloaded|Failed to start) "
)
_FAILURE = re.compile(
    r"\S+\.service: (Main process exited|Control process exited|Failed with result)"
)


def recognise_causes(text, table):
    """Return [{"code", "values"}] for the known causes in an output.

    There is one for a line, in the order of the table, at most MOST. The first rows explain most.
    Later causes are left out.
    """
    lines, codes = [line[:LONGEST] for line in text[-SIZE:].splitlines()], []
    for row in table or ():
        pattern = re.compile(row["pattern"])
        matches = [pattern.search(line) for line in lines]
        lines = [line for line, match in zip(lines, matches) if not match]  # noqa: B905 (Python 3.6)
        for match in filter(None, matches):
            groups = match.groupdict()
            values = {
                name: selection.show_value_in_shape(shape, groups.get(name))
                for name, shape in (row.get("values") or {}).items()
            }
            cause = {"code": row["code"], "values": values}
            if cause not in codes:
                codes.append(cause)
            if len(codes) == MOST:
                return codes
    return codes


def extract_known_phrases(text, patterns):
    """Return the first known phrases in a text, at most MOST, joined by "; ", without the text
    around them; "" if there are none.
    """
    phrases = []
    for pattern in patterns or ():
        for match in re.finditer(pattern, text[-SIZE:]):
            if match.group() and match.group()[:PHRASE] not in phrases:
                phrases.append(match.group()[:PHRASE])
            if len(phrases) == MOST:
                return "; ".join(phrases)
    return "; ".join(phrases)


def find_last_failure(log):
    """Return what a unit's own program wrote between its last start and its failure; None if the
    log reports no failure.
    """
    lines = [line.strip() for line in log[-SIZE:].splitlines() if line.strip()]
    end = next(
        (number for number in range(len(lines) - 1, -1, -1) if _FAILURE.match(lines[number])), None
    )
    if end is None:
        return None
    begin = next(
        (number for number in range(end, -1, -1) if lines[number].startswith("Starting ")), 0
    )
    return "\n".join(line for line in lines[begin:end] if not _MANAGER.match(line))
