# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of which `make test` runs the first rows, and `make nightly` all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def leave_rest(
    mark: pytest.MarkDecorator, rows: Sequence[tuple[Any, ...]], by_day: int = 1
) -> list[Any]:
    """Return the rows for `parametrize`; all but the first `by_day` have the mark, which is
    `nightly`.
    """
    return [*rows[:by_day], *(pytest.param(*row, marks=mark) for row in rows[by_day:])]
