# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merge sentences of many hosts into one: equal words stay, different words are counted."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Words in which sentences of different hosts may differ: numbers, addresses, times, identifiers.
OWN = re.compile(r"\S*\d\S*")


LONGEST_LINE = 300
FEW, SHORT = 2, 60  # so many values of so many characters are shown as they are


def get_last_line(*outputs: str) -> str:
    """Return the last line of the first output that is not empty, '' if all are.

    Outputs are, for example, the standard error, then the standard output.
    """
    lines = next((output.strip().splitlines() for output in outputs if output.strip()), [""])
    return lines[-1][:LONGEST_LINE]


def get_sentence_key(sentence: str, host: str = "") -> str:
    """Return a key that is equal for sentences that differ only in a host's own words (OWN, and its
    name).
    """
    return " ".join(
        "#" if OWN.fullmatch(word) or (host and host in word) else word for word in sentence.split()
    )


def merge_sentences(sentences: Iterable[str]) -> str:
    """Merge sentences into one.

    Words that differ become `[one or other]`, or `[N values]`; sentences of other shapes are
    counted.
    """
    distinct = list(dict.fromkeys(" ".join(s.split()) for s in sentences))
    if len(distinct) < 2:
        return "".join(distinct)
    split = [s.split() for s in distinct]
    alike = [words for words in split if len(words) == len(split[0])]
    merged = " ".join(merge_word(column) for column in zip(*alike, strict=True))
    others = len(split) - len(alike)
    return merged + (f" (and {others} other reason{'' if others == 1 else 's'})" if others else "")


def merge_word(column: tuple[str, ...]) -> str:
    """Return the word that stands for a column of words: the one that all share, a few of them, or
    their number.
    """
    values = list(dict.fromkeys(column))
    if len(values) == 1:
        return values[0]
    few = len(values) <= FEW and all(len(value) <= SHORT for value in values)
    return f"[{' or '.join(values)}]" if few else f"[{len(values)} values]"
