# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables with rows for the night: `make test` runs the first ones, and `make nightly` all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

# Of a table whose rows are wrong settings, or the same with another value.
ONE_ROW = pytest.mark.nightly(
    "unit tests judge what each row is about; by day one row shows that a playbook hands it on"
)


def leave_rest(mark: pytest.MarkDecorator, rows: Iterable[Any], by_day: int = 1) -> list[Any]:
    """Return the rows for `parametrize`; all but the first `by_day` have the mark, which is
    `nightly`.
    """
    found = list(rows)
    return [*found[:by_day], *(leave(mark, row) for row in found[by_day:])]


def leave_unless(
    mark: pytest.MarkDecorator, rows: Iterable[Any], by_day: Callable[[Any], bool]
) -> list[Any]:
    """Return the rows for `parametrize`, with the mark if `by_day` refuses them."""
    return [row if by_day(row) else leave(mark, row) for row in rows]


def leave(mark: pytest.MarkDecorator, row: Any) -> Any:
    """Return one row with the mark: a tuple of values, or one value."""
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=mark)
