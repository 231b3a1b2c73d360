# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Define how a planner says no: an error, a refusal of one engine, and a question that it needs
answered first.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any, Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Filled,
    Message,
    OptionNames,
    hide_credentials,
    name_options,
)

# Why an engine is left alone. writer: others write its configuration. unasked: the policy has to
# name it and does not. stopped, silent, unverified: nothing is known of what it works with. unfit:
# a person has to correct something first.
RefusalKind = Literal["writer", "unasked", "stopped", "silent", "unverified", "unfit"]


@dc.dataclass(frozen=True)
class Refusal:
    """The reason why an instance is left alone, and what to do instead. It is false if `what` is
    empty: the instance may be managed.

    what: a message of a package's table. Its next step becomes `next`.
    """

    what: str = ""
    next: str = ""
    kind: RefusalKind = "writer"

    def __post_init__(self) -> None:
        """Move the message's next step to its field."""
        if isinstance(self.what, Message) and self.what.next:
            object.__setattr__(self, "next", self.what.next)
            object.__setattr__(self, "what", self.what.drop_step())

    def __bool__(self) -> bool:
        return bool(self.what)

    def __str__(self) -> str:
        return str(self.message)

    @property
    def message(self) -> Message:
        """The whole message, with its code."""
        what = self.what if isinstance(self.what, Message) else Message(self.what)
        return Message(what.what, what.code, what.values, why=what.why, next=self.next)


class PlanError(Exception):
    """A request that cannot be satisfied, as one sentence that a person can act on. Nothing was
    changed.

    what: a message of a package's table, which has its own cause and next step. `why` and `next`
    replace them.
    """

    def __init__(
        self, what: str, *, where: str = "", why: str = "", next: str = "", line: int | None = None
    ) -> None:
        given = what if isinstance(what, Message) else Message(what)
        self.message = Message(
            given.what, given.code, given.values, why=why or given.why, next=next or given.next
        )
        self.code, self.values = given.code, given.values
        self.what, self.why, self.next = self.message.what, self.message.why, self.message.next
        self.where: str = hide_credentials(where)
        self.line = line
        self.kept: dict[str, Any] = {}  # further parts of the failed result
        said = str(self.placed)
        super().__init__(f"{said} [{self.code}]" if self.code else said)

    @property
    def placed(self) -> Message:
        """The message that begins with the place, for a list of messages."""
        place = f"{self.where}:{self.line}" if self.where and self.line else self.where
        what = (
            Filled("{place}: {what}", {"place": place, "what": self.what}) if place else self.what
        )
        return Message(what, self.code, self.values, why=self.why, next=self.next)

    def name_options(self, names: OptionNames) -> PlanError:
        """Return this error with options called by these names."""
        where = name_options(self.where, names)
        named = PlanError(self.message.name_options(names), where=where, line=self.line)
        named.kept = self.kept
        return named


class QueryFailed(PlanError):
    """A failed query of the look whose answer is needed. It differs from an answer that reports
    nothing there.
    """


class NeedMore(Exception):
    """A set of questions that a planner needs answered before it can finish. The action asks them
    and plans again.
    """

    def __init__(self, questions: list[dict[str, Any]]) -> None:
        super().__init__(", ".join(q["id"] for q in questions))
        self.questions = questions
