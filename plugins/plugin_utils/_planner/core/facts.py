# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a host that are read when a plan first needs them."""

from __future__ import annotations

import dataclasses as dc
import functools
from collections.abc import Callable, Container, Iterable
from typing import Generic, TypeVar

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.queries import Question

K = TypeVar("K")
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


@dc.dataclass(frozen=True)
class Lookup(Generic[K, T]):
    """Facts of one kind by a key, such as a path. Each is read at most once, when a plan needs it,
    as a Fact is.
    """

    read: Callable[[K], T]

    @functools.cached_property
    def _known(self) -> dict[K, T]:
        return {}

    def get(self, key: K) -> T:
        if key not in self._known:
            self._known[key] = self.read(key)
        return self._known[key]


@dc.dataclass(frozen=True)
class AskedQuestions:
    """The questions that a look has answered, by their IDs."""

    ids: Container[str]

    def has(self, question: Question) -> bool:
        return question["id"] in self.ids

    def require(self, questions: Iterable[Question]) -> None:
        """Raise NeedMore with those of the questions that have no answer."""
        missing = [question for question in questions if not self.has(question)]
        if missing:
            raise NeedMore(missing)


def require_together(reads: Iterable[Callable[[], object]]) -> None:
    """Raise one NeedMore with all questions that these facts still need, so one look answers them.

    Another PlanError of a fact is raised where a plan reads that fact.
    """
    unanswered: list[Question] = []
    for read in reads:
        try:
            read()
        except NeedMore as need:
            unanswered += need.questions
        except PlanError:
            continue
    if unanswered:
        raise NeedMore(unanswered)
