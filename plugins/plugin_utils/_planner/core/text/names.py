# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write names of hosts as people do, in natural order and with runs of numbers as one name, and
count things.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

SHOWN = 5
ADDRESS = re.compile(r"[\d.]+")
# more digits name no host, and Python reads at most 4 300
NUMBER = re.compile(r"(?<![0-9])[0-9]{1,18}(?![0-9])")


def build_natural_key(name: str) -> list[tuple[int, str]]:
    """Return a key for sorting: gpu9 before gpu10.

    Of two numbers, the one with more digits is larger, so numbers of any length have a key.
    """
    parts = re.split(r"([0-9]+)", name)
    return [
        (-1, part) if n % 2 == 0 else (len(part.lstrip("0")), part.lstrip("0"))
        for n, part in enumerate(parts)
    ]


def list_name_runs(names: Iterable[str], limit: int = SHOWN) -> list[tuple[str, int]]:
    """List the runs of names, each with the number of names in it: `gpu[001-060]`, 60.

    A run with many gaps becomes several of at most `limit` parts.
    """
    runs: list[tuple[str, int]] = []
    families: dict[tuple[str, str, int], list[int]] = {}
    for name in sorted(set(names), key=lambda n: (build_natural_key(n), n)):
        before, digits, after = split_host_name(name)
        # gpu9 and gpu10 are of one family, gpu09 and gpu10 of another: leading zeros say how many
        # digits all of them have. A name without a number is of no family: gpu next to gpu2 is not
        # gpu[-1,2].
        width = (len(digits) if digits.startswith("0") and len(digits) > 1 else 0) if digits else -1
        padded = (before, after, len(digits))
        key = padded if padded in families and not width else (before, after, width)
        families.setdefault(key, []).append(int(digits) if digits else -1)
    for (before, after, width), numbers in families.items():
        parts = list_number_stretches(numbers)
        if len(numbers) == len(parts) == 2:  # k0s, k3s are easier to read than k[0,3]s
            runs += [(write_run(before, after, width, [part]), 1) for part in parts]
            continue
        for some_ in (parts[n : n + limit] for n in range(0, len(parts), limit)):
            runs.append(
                (
                    write_run(before, after, width, some_),
                    sum(last - first + 1 for first, last in some_),
                )
            )
    return runs


def split_host_name(name: str) -> tuple[str, str, str]:
    """Split a name at the last number of its first label that has one, into the text before, the
    digits and the text after.

    For an address it is the last number of all. Without a number, the whole name is the text
    before.
    """
    numbers = list(NUMBER.finditer(name))
    if not numbers:
        return name, "", ""
    first = numbers[0].start()
    end = len(name) if ADDRESS.fullmatch(name) else (name + ".").index(".", first)
    last = next(n for n in reversed(numbers) if n.start() < end)
    return name[: last.start()], last.group(), name[last.end() :]


def write_run(before: str, after: str, width: int, stretched: list[tuple[int, int]]) -> str:
    """Return names with numbers as one: `gpu[1-3,7]`.

    width: the digits of a number. stretched: the first and last number of each run.
    """
    if stretched == [(-1, -1)]:
        return before
    parts = [f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in stretched]
    alone = len(parts) == 1 and stretched[0][0] == stretched[0][1]
    return f"{before}{parts[0]}{after}" if alone else f"{before}[{','.join(parts)}]{after}"


def list_number_stretches(numbers: list[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as pairs of first and last."""
    stretches: list[tuple[int, int]] = []
    for number in numbers:
        if stretches and stretches[-1][1] == number - 1:
            stretches[-1] = (stretches[-1][0], number)
        else:
            stretches.append((number, number))
    return stretches


def count_noun(number: int, one: str, many: str = "") -> str:
    """Return number and noun, as `1 host` or `2 hosts`. many: the plural if it is more than an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def show_few_texts(texts: Sequence[str], limit: int, separator: str = ", ") -> str:
    """Return the first few texts as they are, and the number of the others."""
    rest = len(texts) - limit
    before = separator.strip(", ")  # sentences keep their semicolon
    return separator.join(texts[:limit]) + (f"{before} and {rest} more" if rest > 0 else "")


def show_some_runs(names: Iterable[str], limit: int = SHOWN) -> str:
    """Return the first few runs, and the number of hosts that are not shown. A single one takes its
    number's place.
    """
    runs = list_name_runs(names, limit)
    if len(runs) == limit + 1 and runs[-1][1] == 1:
        limit += 1
    rest = sum(count for _text, count in runs[limit:])
    return ", ".join(text for text, _count in runs[:limit]) + (f" and {rest} more" if rest else "")
