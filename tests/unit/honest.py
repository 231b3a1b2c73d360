# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A comparison of the answers of the host's own programs with the shapes of the controller's edge.

All of each answer must pass, and none of it may be dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes import (
    edge,
    observer,
    rules,
)

PROGRAMS = {"transaction", "acknowledge", "container_check"}


def questions(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the queries of a request as the planner has them: with an id, and with their list of
    what may travel.
    """
    sources = {transport.probe_source(name): name for name in observer.PROBES}
    found = []
    for at, short in enumerate(request["questions"]):
        keep = short.get("keep")
        more = (
            {"keep": request["keeps"][keep]} if isinstance(keep, int) and "keeps" in request else {}
        )
        probe = (
            {"id": f"probe:{sources.get(short.get('source'), '?')}"}
            if short.get("kind") == "probe"
            else {}
        )
        found.append({"method": "Status", "id": str(at), **short, **probe, **more})
    return found


def broken(program: str, request: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    """List the rules that an answer breaks, and what would be dropped of it."""
    if program in PROGRAMS:
        return _broken(lambda: edge.read_program_result(program, request, answer), answer)
    asked = questions(request)
    given = [
        (q, answer["answers"].get(short.get("id", str(at))))
        for at, (q, short) in enumerate(zip(asked, request["questions"], strict=True))
        if "where" not in q or short.get("id", str(at)) in answer["answers"]
    ]
    rows = [
        line
        for q, one in given
        for line in _broken(lambda q=q, one=one: edge.read_query_answer(q, one), one)
    ]
    whole = {"schema": answer["schema"], "host": answer["host"], "answers": {}}
    return rows + _broken(lambda: edge.read_look_answers({**whole}, []), whole)


def _broken(read: Any, answer: Any) -> list[str]:
    try:
        found = read()
    except rules.BrokenShape as error:
        return [str(error)]
    return [] if found == answer else [f"dropped: {dropped(answer, found)}"]


def dropped(given: Any, found: Any, place: str = "") -> str:
    """Return the places that an answer has and its shape lacks, in one text."""
    if isinstance(given, dict) and isinstance(found, dict):
        gone = [f"{place}.{key}" for key in given if key not in found]
        return ", ".join(
            [
                *gone,
                *filter(None, (dropped(given[key], found[key], f"{place}.{key}") for key in found)),
            ]
        )
    if isinstance(given, list) and isinstance(found, list):
        return ", ".join(
            filter(
                None,
                (
                    dropped(one, other, place + "[]")
                    for one, other in zip(given, found, strict=True)
                ),
            )
        )
    return "" if given == found else place
