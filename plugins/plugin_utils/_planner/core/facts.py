# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fact of a host that is read when a plan first needs it."""

from __future__ import annotations

import dataclasses as dc
import functools
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


@dc.dataclass(frozen=True)
class Fact(Generic[T]):
    """A fact that is part of a room's pass, and that is read at most once, when a plan needs it.

    Reading it may raise NeedMore, QueryFailed or another PlanError. So a plan that does not need a
    fact asks no question for it, and does not fail because of it.
    """

    read: Callable[[], T]

    @functools.cached_property
    def value(self) -> T:
        return self.read()
