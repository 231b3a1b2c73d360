# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the differences of a fleet, by groups of hosts with equal differences.

Two hosts are in one group if the same keys of the same files differ on them and the same units
would be restarted. So a person reads each difference once for any number of hosts. Values that
differ within a group are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    layout,
    names,
    sentences,
    values,
)

VARIANTS_SHOWN = 3
HOSTS_SHOWN = 20  # runs of names above a group
DIFFERENCES_SHOWN, UNITS_SHOWN = 200, 40  # of a group

REFUSED = "refused"
LATER = ": refused now. This would change once the reason above is corrected"
Difference = Mapping[str, Any]


def group_hosts_by_difference(results: outcomes.Results) -> list[list[str]]:
    """Return hosts in groups, the largest group first.

    Hosts without differences are in none, and refused ones have their own groups.
    """
    groups: dict[Hashable, list[str]] = {}
    for host, result in results.items():
        trouble = outcomes.explain_trouble(result)
        if result.get("differences") and trouble in ("", REFUSED):
            groups.setdefault((get_group_shape(result), trouble), []).append(host)
    return sorted(
        groups.values(), key=lambda hosts: (-len(hosts), names.build_natural_key(hosts[0]))
    )


def get_group_shape(result: outcomes.Result) -> Hashable:
    places = tuple(
        (str(d.get("what")), str(d.get("path")), str(d.get("key") or ""))
        for d in share_group_differences(result)
    )
    same, own = (result.get("planned") or {}).get("restarts") or (), list_group_units(result)
    return places, tuple(same if len(same) == len(own) else own)


def share_group_differences(result: outcomes.Result) -> Sequence[Difference]:
    """Return the differences as equal hosts share them, with GPUs named by position."""
    differences: Sequence[Difference] = (result.get("planned") or {}).get("differences") or result[
        "differences"
    ]
    return differences


def list_group_units(result: outcomes.Result) -> list[str]:
    restarts = result["would_restart"] if "would_restart" in result else result.get("restarted")
    return [str(u) for u in restarts or ()]


def list_group_lines(
    results: outcomes.Results, width: int, check: bool = False, reasons: bool = True
) -> list[str]:
    """Return the lines about each distinct change. reasons: whether they say why."""
    return [
        line
        for hosts in group_hosts_by_difference(results)
        for line in show_group(hosts, results, width, check, reasons)
    ]


def show_group(
    hosts: Sequence[str], results: outcomes.Results, width: int, check: bool, reasons: bool
) -> list[str]:
    first = results[hosts[0]]
    count = f"{outcomes.format_host_count(len(hosts))}: " if len(hosts) > 1 else ""
    later = LATER if outcomes.explain_trouble(first) else ""
    lines = [
        "",
        *layout.lay_out_paragraph(
            f"{count}{names.show_some_runs(hosts, HOSTS_SHOWN)}{later}", width, 0
        ),
    ]
    place = ""
    by_host = {
        host: share_group_differences(results[host])
        if len(hosts) > 1
        else results[host]["differences"]
        for host in hosts
    }
    for n, difference in enumerate(by_host[hosts[0]][:DIFFERENCES_SHOWN]):
        if is_whole_file_difference(difference) != place:
            place = is_whole_file_difference(difference)
            lines += layout.lay_out_paragraph(place, width, 2)
        lines += show_group_difference([(host, by_host[host][n]) for host in hosts], width, reasons)
    rest = len(first["differences"]) - DIFFERENCES_SHOWN
    lines += show_rest(rest, "more difference", width)
    verb = "restarted" if not check and "would_restart" not in first else "restart"
    units = list_group_units(first)
    for unit in units[:UNITS_SHOWN]:
        lines += layout.lay_out_paragraph(describe_interruption(first, unit, verb), width, 2)
    return lines + show_rest(len(units) - UNITS_SHOWN, "more restart", width)


def show_rest(number: int, what: str, width: int) -> list[str]:
    """Return the line that counts what is not shown; [] if all is shown."""
    if number <= 0:
        return []
    return layout.lay_out_paragraph(f"and {names.count_noun(number, what)}", width, 2)


def describe_interruption(result: outcomes.Result, unit: str, verb: str) -> str:
    """Return the words for a unit that restarts.

    A manager that takes its files up by itself (k0s) restarts its engine, and its own unit goes on.
    """
    return (
        f"{unit} restarts its engine by itself"
        if f"wait {unit}" in (result.get("actions") or ())
        else f"{verb} {unit}"
    )


def is_whole_file_difference(difference: Difference) -> str:
    what = str(difference.get("what") or "")
    return (
        str(difference.get("path") or "") if what == "file" else f"{what} {difference.get('path')}"
    )


def show_group_difference(
    variants: Sequence[tuple[str, Difference]], width: int, reasons: bool
) -> list[str]:
    """Show one difference of a group: its key, the change, and the reason, with numbers of hosts if
    their values differ.
    """
    first = variants[0][1]
    key = str(first.get("key") or "")
    changes = map_pairs_to_hosts((describe_value_change(d), host) for host, d in variants)
    label = f"{key}: " if key else ""
    if len(changes) == 1:
        lines = layout.lay_out_paragraph(f"{label}{next(iter(changes))}", width, 4)
    else:
        lines = layout.lay_out_paragraph(
            f"{label}{outcomes.format_host_count(len(variants))} differ in this value:", width, 4
        )
        lines += [
            line
            for text in list_commonest_values(changes)
            for line in layout.lay_out_paragraph(text, width, 6)
        ]
    if not reasons:
        return lines
    why = sentences.merge_sentences(dict.fromkeys(str(d.get("why") or "") for _host, d in variants))
    return [*lines, *(line for line in layout.lay_out_paragraph(why, width, 6, 0) if why)]


def describe_value_change(difference: Difference) -> str:
    spelled = values.get_value_writer(
        str(difference.get("path") or ""), str(difference.get("key") or "")
    )
    before, after = spelled(difference.get("before")), spelled(difference.get("after"))
    return f"{before} -> {after}" if before != after else f"{after}, written out (the value stays)"


def map_pairs_to_hosts(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    hosts_of_pair: dict[str, list[str]] = {}
    for text, host in pairs:
        hosts_of_pair.setdefault(text, []).append(host)
    return hosts_of_pair


def list_commonest_values(changes: Mapping[str, Sequence[str]]) -> list[str]:
    """List the commonest values, each with its number of hosts and their names."""
    ranked = Counter({text: len(hosts) for text, hosts in changes.items()}).most_common()
    shown = ranked if len(ranked) == VARIANTS_SHOWN + 1 else ranked[:VARIANTS_SHOWN]
    rest = ranked[len(shown) :]
    most = [f"{text} ({number}: {names.show_some_runs(changes[text])})" for text, number in shown]
    return (
        [
            *most,
            f"{len(rest)} other values on {outcomes.format_host_count(sum(n for _text, n in rest))}",
        ]
        if rest
        else most
    )
