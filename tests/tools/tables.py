# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the table that a playbook ends with, for tests that have nothing but its output.

One place knows the layout, so that a test of a long night follows it like one of the day.
"""

from __future__ import annotations

import re

CONSTANT = "on all hosts: "
# The columns that may be a line below the table, since they have one value on all hosts.
TITLES = ("ENGINE", "GPUS", "INJECTION", "CHANGED", "RESTARTED")

Row = dict[str, str]


def read_rows(words: str) -> list[Row]:
    """Return the rows of the last table in a playbook's output, by title.

    Of a cell that takes several lines it is the first one. A row has the columns that are the same
    on all hosts as well.
    """
    text = words[words.rindex("\nHOST ") + 1 :].partition("\n\n")[0]
    table, _mark, below = text.partition(f"\n{CONSTANT}")
    head, *lines = table.splitlines()
    starts = [found.start() for found in re.finditer(r"\S+", head)]
    bounds = list(zip(starts, [*starts[1:], None], strict=True))
    constant = read_constant_columns(below)
    return [
        {head[at:end].strip(): line[at:end].strip() for at, end in bounds} | constant
        for line in lines
        if line[:1].strip()
    ]


def read_constant_columns(below: str) -> Row:
    """Return the columns with one value on all hosts, of the line below the table. Lines of another
    kind may follow it.
    """
    titles = "|".join(title.lower() for title in TITLES)
    parts = re.split(rf"(?:^|, )({titles}) ", below.partition("\n")[0])
    return {title.upper(): value for title, value in zip(parts[1::2], parts[2::2], strict=True)}


def read_column(words: str, title: str) -> Row:
    """Return one column of the last table, by host. Hosts of a folded row are told apart again."""
    return {host: row[title] for row in read_rows(words) for host in expand_hosts(row["HOST"])}


def expand_hosts(name: str) -> list[str]:
    """Return the hosts of a name such as gpu[1-3,9] (4)."""
    return [host for run in re.sub(r" \(\d+\)$", "", name).split(", ") for host in expand_run(run)]


def expand_run(name: str) -> list[str]:
    """Return the hosts of a run such as gpu[1-3,9].example.org."""
    found = re.fullmatch(r"(.*)\[([\d,-]+)\](.*)", name)
    if not found:
        return [name]
    spans = [part.partition("-") for part in found[2].split(",")]
    return [
        f"{found[1]}{number}{found[3]}"
        for first, _dash, last in spans
        for number in range(int(first), int(last or first) + 1)
    ]
