# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Define messages: a code, named values, and the sentence that a person reads.

Each package has one table of its sentences, `messages.py`. Its rows are constants:

    CRI_DISABLED = Sentence(
        "containerd.cri-disabled",
        "{title} has its CRI plugin disabled",
        why="`disabled_plugins` lists it",
        next="Remove it from `disabled_plugins`, or leave this engine out of gpufleet_engines",
    )

Code that refuses, advises or explains fills a row: `raise PlanError(messages.CRI_DISABLED.fill(title=title), where=path)`.
Programs and tests compare codes and values. A sentence may change at any time.
"""

from __future__ import annotations

import dataclasses as dc
import string
from collections.abc import Mapping
from typing import Any


def capitalize_step(text: str) -> str:
    """Return a next step in the form that all messages use: it begins with a capital and ends without a full stop."""
    return f"{text[0].upper()}{text[1:]}".removesuffix(".") if text else ""


class Message(str):
    """A sentence with its code and its values. It is a text for all who print it, join it, or send it as JSON.

    The parts `what`, `why` and `next` are texts, '' if the sentence has no such part.
    """

    code: str
    values: Mapping[str, Any]
    what: str
    why: str
    next: str

    def __new__(
        cls,
        what: str,
        code: str = "",
        values: Mapping[str, Any] | None = None,
        *,
        why: str = "",
        next: str = "",
    ) -> Message:
        """Make a message of its parts."""
        step = capitalize_step(next)
        whole = (f"{what} ({why})" if why else what) + (f". {step}" if step else "")
        made = super().__new__(cls, whole)
        made.code, made.values = code, dict(values or {})
        made.what, made.why, made.next = what, why, step
        return made

    def without_step(self) -> Message:
        """Return this message without its next step, for a place that has the step in a field of its own."""
        return Message(self.what, self.code, self.values, why=self.why)

    def __deepcopy__(self, memo: object) -> Message:
        """Return this message: it does not change, so a copy would only cost time."""
        return self


@dc.dataclass(frozen=True)
class Sentence:
    """A row of a package's table: a code, and templates in the syntax of str.format.

    code: `package.short-name`; it becomes part of the contract with the release 0.1.0.
    what: what is wrong or differs. why: the cause. next: what a person does about it. Errors have all three.
    """

    code: str
    what: str
    why: str = ""
    next: str = ""

    @property
    def fields(self) -> frozenset[str]:
        """The names of the values that the templates need."""
        parsed = (string.Formatter().parse(text) for text in (self.what, self.why, self.next))
        return frozenset(name for part in parsed for _text, name, _spec, _conversion in part if name)

    def fill(self, **values: Any) -> Message:
        """Return the message with these values. Raise KeyError unless they are exactly the row's fields."""
        if set(values) != self.fields:
            raise KeyError(f"{self.code} takes {sorted(self.fields)}, not {sorted(values)}")
        what, why, step = (text.format_map(values) for text in (self.what, self.why, self.next))
        return Message(what, self.code, values, why=why, next=step)


def get_code(text: str) -> str:
    """Return the code of a message, '' for a text that has none."""
    return text.code if isinstance(text, Message) else ""


def end_with_code(text: str) -> str:
    """Return a text that ends with its code in brackets, by which people search for it. A text without a code stays as it is."""
    code = get_code(text)
    return f"{text} [{code}]" if code else str(text)
