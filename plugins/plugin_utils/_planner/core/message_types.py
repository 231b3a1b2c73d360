# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Define messages: a code, named values, and the sentence that a person reads.

A package has its sentences in `messages.py`, in `*_messages.py`, or in the files of `messages/`. If
you look for one, start from its code in docs/errors.md. The rows are constants:

    EXAMPLE = Sentence(
        "demo.example",
        "{title} has its CRI plugin disabled",
        why="`disabled_plugins` lists it",
        next="Remove it from `disabled_plugins`, or leave this engine out of gpufleet_engines",
    )

Code that refuses, advises or explains fills a row: `raise
PlanError(messages.EXAMPLE.fill(title=title), where=path)`. Programs and tests compare codes and
values. A sentence may change at any time.

A row calls an option by its variable, `gpufleet_config_path`. If a user's own task has set the
option, the edge (plugins/plugin_utils/_controller/guard) fills the row again, with `config_path`.
It renames words of the template and values of the class OptionName, so no word of a host or a user
is ever replaced.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import re
import string
from collections.abc import Callable, Iterable, Mapping
from typing import Any

VARIABLE_WORD = re.compile(r"\bgpufleet_[a-z0-9_]*[a-z0-9]\b")
DEEPEST_VALUE = 100  # levels of a result that name_options_in walks
# The parts of an address that open it: a name and a password before its host, or a signature behind
# a question mark.
ADDRESS = re.compile(r"://([^/\s]*@)?([^\s?]*)(\?\S*)?")
# Returns how the user has written an option: it takes a variable, or an option of the task's
# module.
OptionNames = Callable[[str], str]


def capitalize_step(text: str) -> str:
    """Return a next step in the form that all messages use: it begins with a capital and ends
    without a full stop.
    """
    return f"{text[0].upper()}{text[1:]}".removesuffix(".") if text else ""


class OptionName(str):
    """An option of the task's module, or a key within it, such as `handlers.nvidia`, as a value of
    a message.
    """

    def name_options(self, names: OptionNames) -> str:
        """Return the name as the user has written it."""
        return re.sub(r"^\w+", lambda found: names(found[0]), self)


class Filled(str):
    """A text that knows its template and its values, so that it can be filled again.

    step: the text is a next step, which begins with a capital.
    """

    template: str
    values: Mapping[str, Any]
    step: bool

    def __new__(
        cls,
        template: str,
        values: Mapping[str, Any],
        names: OptionNames | None = None,
        *,
        step: bool = False,
    ) -> Filled:
        """Fill a template. names: how options are called; None for their variables."""
        words, shown = template, values
        if names is not None:
            words = VARIABLE_WORD.sub(lambda found: names(found[0]), template)
            shown = {name: name_options(value, names) for name, value in values.items()}
        text = words.format_map({name: hide_credentials(value) for name, value in shown.items()})
        made = super().__new__(cls, capitalize_step(text) if step else text)
        made.template, made.values, made.step = template, values, step
        return made

    def name_options(self, names: OptionNames) -> Filled:
        """Return this text with options called by these names."""
        return Filled(self.template, self.values, names, step=self.step)

    def as_step(self) -> Filled:
        """Return this text as a next step."""
        return self if self.step else Filled(self.template, self.values, step=True)

    def __deepcopy__(self, memo: object) -> Filled:
        """Return this text: it does not change, so a copy would only cost time."""
        return self


class Message(str):
    """A sentence with its code and its values. It is a text for all who print it, join it, or send
    it as JSON.

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
        step = next.as_step() if isinstance(next, Filled) else capitalize_step(next)
        whole = (f"{what} ({why})" if why else what) + (f". {step}" if step else "")
        made = super().__new__(cls, whole)
        made.code, made.values = code, dict(values or {})
        made.what, made.why, made.next = what, why, step
        return made

    def drop_step(self) -> Message:
        """Return this message without its next step, for a place that has the step in a field of
        its own.
        """
        return Message(self.what, self.code, self.values, why=self.why)

    def name_options(self, names: OptionNames) -> Message:
        """Return this message with options called by these names."""
        what, why, step = (name_options(part, names) for part in (self.what, self.why, self.next))
        return Message(what, self.code, self.values, why=why, next=step)

    def __deepcopy__(self, memo: object) -> Message:
        """Return this message: it does not change, so a copy would only cost time."""
        return self


def hide_credentials(value: Any) -> Any:
    """Return a value as a message may show it: without what opens the addresses in it. A message
    has hidden that already.
    """
    if isinstance(value, Message | Filled):
        return value
    if isinstance(value, str):
        return ADDRESS.sub(_hide_parts, value) if "://" in value else value
    if isinstance(value, Mapping):
        return {hide_credentials(key): hide_credentials(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(hide_credentials, value))
    return value


def _hide_parts(found: re.Match[str]) -> str:
    return f"://{'...@' if found[1] else ''}{found[2]}{'?...' if found[3] else ''}"


def name_options(value: Any, names: OptionNames) -> Any:
    """Return a value of a message with options called by these names. Plain values stay as they
    are.
    """
    return value.name_options(names) if isinstance(value, Message | Filled | OptionName) else value


def name_options_in(value: Any, names: OptionNames, depth: int = 0) -> Any:
    """Return a result with options called by these names in each message in it."""
    if isinstance(value, str) or depth > DEEPEST_VALUE:
        return name_options(value, names)
    if isinstance(value, Mapping):
        return {key: name_options_in(item, names, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [name_options_in(item, names, depth + 1) for item in value]
    return value


def join_texts(separator: str, texts: Iterable[str]) -> str:
    """Return texts as one, in which messages keep what they know. A text alone stays as it is."""
    several = list(texts)
    if len(several) == 1:
        return several[0]
    fields = {f"t{number}": text for number, text in enumerate(several)}
    escaped = separator.replace("{", "{{").replace("}", "}}")
    return Filled(escaped.join(f"{{{name}}}" for name in fields), fields)


@dc.dataclass(frozen=True)
class Sentence:
    """A row of a package's table: a code, and templates in the syntax of str.format.

    code: `package.short-name`; it becomes part of the contract with the release 0.1.0. what: what
    is wrong or differs. why: the cause. next: what a person does about it. Errors have all three.
    """

    code: str
    what: str
    why: str = ""
    next: str = ""

    @functools.cached_property
    def fields(self) -> frozenset[str]:
        """The names of the values that the templates need."""
        parsed = (string.Formatter().parse(text) for text in (self.what, self.why, self.next))
        return frozenset(
            name for part in parsed for _text, name, _spec, _conversion in part if name
        )

    def fill(self, **values: Any) -> Message:
        """Return the message with these values. Raise KeyError unless they are exactly the row's
        fields.
        """
        if set(values) != self.fields:
            raise KeyError(f"{self.code} takes {sorted(self.fields)}, not {sorted(values)}")
        what, why, step = (
            Filled(text, values) if text else "" for text in (self.what, self.why, self.next)
        )
        return Message(what, self.code, values, why=why, next=step)


def get_code(text: str) -> str:
    """Return the code of a message, '' for a text that has none."""
    return text.code if isinstance(text, Message) else ""


def get_values(text: str) -> Mapping[str, Any]:
    """Return the values of a message, {} for a text that has none."""
    return text.values if isinstance(text, Message) else {}


def read_error_message(error: Exception) -> str:
    """Return the message that an error was raised with, with its code, or else the error's text."""
    said = error.args[0] if error.args else ""
    return said if isinstance(said, Message) else str(error)


def put_line_before(text: str, line: int | None) -> Message:
    """Return a clause that begins with the line that it is about. A message keeps its code."""
    placed = Filled("line {line}: {text}", {"line": line, "text": text})
    return Message(placed, get_code(text), get_values(text))


def end_with_code(text: str) -> str:
    """Return a text that ends with its code in brackets, by which people search for it. A text
    without a code stays as it is.
    """
    code = get_code(text)
    return Filled("{text} [{code}]", {"text": text, "code": code}) if code else text
