# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cut a rollout into waves, and waves into batches, so that never too many hosts of a group are out
of service at once.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import messages

DEFAULT = (1, "10%", "50%", "100%")
AMOUNT = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(%?)\s*")
EXAMPLE = '[1, "10%", "50%", "100%"]'


@dc.dataclass(frozen=True)
class Amount:
    """A number of hosts, or a percentage of them."""

    number: float
    percent: bool

    def compute_number(self, total: int, *, up: bool = False) -> int:
        """Return the number of hosts of `total`, rounded down, or up.

        The small addend keeps 7% of 100 from being 6.999..., or 7.000...1 from being 8.
        """
        if not self.percent:
            return int(self.number)
        exact = self.number * total / 100
        return -int(-(exact - 1e-9) // 1) if up else int(exact + 1e-9)

    @property
    def text(self) -> str:
        return f"{self.number:g}%" if self.percent else f"{self.number:g}"


def parse_amount(setting: str, value: Any, example: str = "2, or 10%") -> Amount:
    """Return a number or a percentage of hosts. Raise PlanError for anything else.

    setting: the variable. example: a value for the message.
    """
    amount = None if isinstance(value, bool) else AMOUNT.fullmatch(str(value))
    number, percent = (float(amount.group(1)), bool(amount.group(2))) if amount else (-1.0, False)
    wrong = None if amount else messages.NO_AMOUNT
    if percent and number > 100:
        wrong = messages.OVER_100_PERCENT
    elif not percent and number != int(number):
        wrong = messages.PART_OF_A_HOST
    if wrong:
        raise PlanError(wrong.fill(setting=setting, value=value, example=example))
    return Amount(number, percent)


def parse_wave_sizes(setting: str, value: Any) -> tuple[Amount, ...]:
    """Parse the sizes of waves, from a list or from text. Raise PlanError for none, or for one that
    is 0.

    A survey gives text as `1,10%,50%,100%`, and -e gives a list in JSON.
    """
    parts = parse_written_list(value)
    if not parts:
        raise PlanError(messages.NO_WAVE.fill(setting=setting, example=EXAMPLE))
    wave_sizes = tuple(parse_amount(setting, part, EXAMPLE) for part in parts)
    empty = [str(part) for part, size in zip(parts, wave_sizes, strict=True) if size.number <= 0]
    if empty:
        sizes = ", ".join(empty)
        raise PlanError(messages.EMPTY_WAVE.fill(setting=setting, sizes=sizes, example=EXAMPLE))
    return wave_sizes


def parse_written_list(value: Any) -> list[Any]:
    """Return a list, which may have been written as text."""
    if not isinstance(value, str):
        return list(value) if isinstance(value, list | tuple) else [value]
    text = value.strip()
    if text.startswith("["):
        try:
            return list(json_bounds.load_bounded_json(text.replace("'", '"')))
        except ValueError:
            if not text.endswith("]"):
                return [text]
            text = text[1:-1]  # as YAML has it, without quotes
    return [part.strip() for part in text.split(",") if part.strip()]


def cut_waves(hosts: Sequence[str], sizes: Sequence[Amount]) -> list[list[str]]:
    """Cut the hosts into waves. The last size repeats.

    A percentage is one of all hosts that have something to do, and at least one host.
    """
    waves, rest, n = [], list(hosts), 0
    while rest:
        size = max(1, sizes[min(n, len(sizes) - 1)].compute_number(len(hosts)))
        waves.append(rest[:size])
        rest, n = rest[size:], n + 1
    return waves


@dc.dataclass(frozen=True)
class Limit:
    """The number of hosts of each group that may be out of service at once. groups: host -> the
    groups that it is in.
    """

    groups: Mapping[str, Sequence[str]]
    allowed: Mapping[str, int]  # group -> hosts; a group that is not there has no limit


def limit(
    most: Amount | None,
    groups: Mapping[str, Sequence[str]],
    drained: frozenset[str],
    single: Mapping[str, Sequence[str]] | None = None,
) -> Limit:
    """Build the limit of each group, of all its hosts in this run; it allows at least one host.

    Without the setting (`most` is None), one of the hosts that are drained may be out of service in
    each group.

    single: host -> groups whose hosts are changed one at a time, whatever the setting.
    """
    if most is not None:
        sizes = Counter(group for of_one in groups.values() for group in of_one)
        limited, allowed = (
            dict(groups),
            {group: max(1, most.compute_number(size)) for group, size in sizes.items()},
        )
    else:
        limited = {host: of_one for host, of_one in groups.items() if host in drained}
        allowed = {group: 1 for of_one in limited.values() for group in of_one}
    for host, alone in (single or {}).items():
        limited[host] = [*limited.get(host, ()), *alone]
        allowed.update(dict.fromkeys(alone, 1))
    return Limit(limited, allowed)


def cut_batches(wave: Sequence[str], limits: Limit) -> list[list[str]]:
    """Cut a wave into batches within the limits, in the order of the wave.

    Each host goes into the first batch with room for it.
    """
    batches: list[list[str]] = []
    counts: list[Counter[str]] = []
    # first_free: group -> its first batch that is not full. No earlier batch can take a host of the
    # group, so the search begins there.
    first_free: dict[str, int] = {}
    for host in wave:
        groups = [g for g in limits.groups.get(host, ()) if g in limits.allowed]
        n = max((first_free.get(g, 0) for g in groups), default=0)
        while n < len(batches) and any(counts[n][g] >= limits.allowed[g] for g in groups):
            n += 1
        if n == len(batches):
            batches.append([])
            counts.append(Counter())
        batches[n].append(host)
        counts[n].update(groups)
        for g in groups:
            while (
                first_free.get(g, 0) < len(batches)
                and counts[first_free.get(g, 0)][g] >= limits.allowed[g]
            ):
                first_free[g] = first_free.get(g, 0) + 1
    return batches
