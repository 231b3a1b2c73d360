# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List what other tools left on a fleet: each file once with its hosts, its fate, the reason and
the next step.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Hashable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import model, outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    layout,
    names,
    sentences,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import (
    groups,
    messages,
)

TITLE = "Left by other tools"
FATES = {"adopted": "taken over", "kept": "stays", "live": "in use by its tool, left alone"}
WOULD = {**FATES, "adopted": "will be taken over"}
# The words for keys of a file that stays. The keys stay in it as well, with the values that this
# collection wants.
KEYS = {
    FATES["adopted"]: "managed by this collection from now on",
    WOULD["adopted"]: "will be managed by this collection",
}
KEYS_SHOWN = 6  # of one file
FILES_SHOWN = 100  # of one host

Leftover = Mapping[str, Any]


def list_leftover_lines(
    results: outcomes.Results, width: int, check: bool, details: bool
) -> list[str]:
    """Build the lines of the list. A summary has what this run took over, and what stays.

    details: whether to show as well what was taken over earlier, or without a change.
    """
    alike: dict[Hashable, list[tuple[str, Leftover]]] = {}
    for host, result in sorted(results.items(), key=lambda item: names.build_natural_key(item[0])):
        for left in (result.get("leftovers") or ())[:FILES_SHOWN]:
            if details or left.get("fate") != "adopted" or is_leftover_taken(result, left):
                alike.setdefault(get_leftover_shape(left, host), []).append((host, left))
    if not alike:
        return []
    planned = check or any("would_restart" in result for result in results.values())
    return [
        "",
        TITLE,
        *(
            line
            for same in alike.values()
            for line in show_leftover(same, width, WOULD if planned else FATES)
        ),
    ]


def list_leftovers_after_failure(plan: Plan) -> tuple[model.Leftover, ...]:
    """Return the leftovers of a run that failed and whose changes are not there: what it was to
    take over stays.
    """
    paths = {posixpath.basename(difference.path) for difference in plan.differences}
    mine = (
        left.fate == "adopted" and posixpath.basename(left.path) in paths for left in plan.leftovers
    )
    return tuple(
        dc.replace(
            left,
            fate="kept",
            why=messages.LEFT_BY_FAILED_RUN.fill(),
        )
        if its
        else left
        for left, its in zip(plan.leftovers, mine, strict=True)
    )


def is_leftover_taken(result: outcomes.Result, left: Leftover) -> bool:
    """Tell whether this run takes the leftover over.

    A setting that an earlier run took over is the host's own configuration now.
    """
    name = posixpath.basename(str(left.get("path")))  # a unit is masked by a file of its name
    return any(
        posixpath.basename(str(difference.get("path"))) == name
        for difference in result.get("differences") or ()
    )


def get_leftover_shape(left: Leftover, host: str) -> Hashable:
    texts = (
        sentences.get_sentence_key(layout.flatten_text(left.get(k) or ""), host)
        for k in ("why", "next")
    )
    return (
        *(str(left.get(k) or "") for k in ("tool", "path", "fate")),
        tuple(left.get("settings") or ()),
        *texts,
    )


def show_leftover(
    same: list[tuple[str, Leftover]], width: int, fates: Mapping[str, str]
) -> list[str]:
    first = same[0][1]
    hosts = names.show_some_runs((host for host, _left in same), groups.HOSTS_SHOWN)
    count = f" ({len(same)})" if len(same) > 1 else ""
    fate = fates.get(str(first.get("fate")), "")
    outcome = KEYS.get(fate, fate) if first.get("settings") else fate
    place = name_leftover_place(first)
    head = f"{hosts}{count}: {place}, by {first.get('tool')}: {outcome}"
    why = sentences.merge_sentences(
        layout.flatten_text(left.get("why") or "") for _host, left in same
    )
    step = sentences.merge_sentences(
        layout.flatten_text(left.get("next") or "") for _host, left in same
    )
    below = [text for text in (why, f"Next: {step}" if step else "") if text]
    return [
        *layout.lay_out_paragraph(head, width, 2),
        *(line for text in below for line in layout.lay_out_paragraph(text, width, 6, 0)),
    ]


def name_leftover_place(left: Leftover) -> str:
    keys = [str(key) for key in left.get("settings") or ()]
    return (
        f"{names.show_few_texts(keys, KEYS_SHOWN)} in {left.get('path')}"
        if keys
        else str(left.get("path"))
    )
