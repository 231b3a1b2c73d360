# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the texts that change in files, each distinct change once with its hosts.

With --diff, Ansible prints a change once per host. The playbooks of this collection leave that to
the table of the fleet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    layout,
    names,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import diff

KEY = "diffs"  # of a result: the lines of each changed file
HOSTS_SHOWN = 20  # runs of names above a change
Text = tuple[str, ...]


def list_changes(results: outcomes.Results, width: int) -> list[str]:
    """Build the lines of all distinct changes, in the order in which the hosts have them. Changes
    of the same hosts share a heading.
    """
    hosts_of: dict[Text, list[str]] = {}
    for host, result in sorted(results.items(), key=lambda item: names.build_natural_key(item[0])):
        for text in read_texts(result):
            hosts_of.setdefault(text, []).append(host)
    texts_of: dict[Text, list[Text]] = {}
    for text, hosts in hosts_of.items():
        texts_of.setdefault(tuple(hosts), []).append(text)
    lines: list[str] = []
    for same, texts in texts_of.items():
        lines += [
            "",
            *layout.lay_out_paragraph(
                f"{outcomes.format_host_count(len(same))}: {names.show_some_runs(same, HOSTS_SHOWN)}",
                width,
                0,
            ),
        ]
        lines += [line for text in texts for line in text]
    return lines


def move_to_table(shaped: dict[str, Any]) -> None:
    """Move the texts that Ansible would print from `diff` of a result to a key of their own."""
    entries = shaped.pop("diff", None) or ()
    texts = [
        e.get("prepared")
        or diff.list_changed_lines(e["after_header"], e.get("before", ""), e.get("after", ""))
        for e in entries
    ]
    shaped[KEY] = [text.splitlines() for text in texts if text]


def read_texts(result: Mapping[str, object]) -> list[Text]:
    """Return the lines of each of a host's changed files; [] if the run shows none."""
    texts = result.get(KEY)
    return (
        [tuple(map(str, text)) for text in texts if isinstance(text, list)]
        if isinstance(texts, list)
        else []
    )
