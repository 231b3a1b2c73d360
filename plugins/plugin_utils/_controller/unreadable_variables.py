# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say why a variable of a host cannot be read, since Ansible's message seldom names the cause."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    guard,
    run_messages,
)
from jinja2 import Environment, TemplateError, meta

# The error since ansible-core 2.19 for a user's own template that yields `omit`.
OMITTED = "AnsibleValueOmittedError"

EXPRESSION = re.compile(r"\{\{.*?\}\}", re.DOTALL)


class Rendered(Mapping[str, Any]):
    """Variables that are rendered when they are first read."""

    def __init__(self, written: Mapping[str, Any], render: Callable[[Any], Any]) -> None:
        self._written, self._render = written, render
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._render(self._written[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._written)

    def __len__(self) -> int:
        return len(self._written)


def get_raw_variables(hostvars: Mapping[str, Any], host: str) -> Mapping[str, Any]:
    """Return the variables of a host as they are written, before any template in them is rendered."""
    read = getattr(hostvars, "raw_get", hostvars.__getitem__)
    raw = read(host)
    return raw if isinstance(raw, Mapping) else {}


def explain_unreadable_value(
    name: str, variables: Mapping[str, Any], written: Mapping[str, Any]
) -> str:
    """Return why one variable cannot be read; '' if it can."""
    try:
        undefined = [
            text
            for text in list_text_leaves(variables[name])
            if not arguments.is_constant(text) and text in leaves_written(written[name])
        ]
    except AnsibleError as error:
        if type(error).__name__ == OMITTED:
            return ""
        return run_messages.UNREADABLE_VARIABLE.fill(
            name=name, cause=guard.describe_ansible_error(error)
        )
    except TemplateError as error:
        return run_messages.UNREADABLE_VARIABLE.fill(name=name, cause=str(error))
    # ansible-core before 2.19 gives a template back as it is if something in it is undefined.
    if not undefined:
        return ""
    cause = name_missing_value(undefined[0], written)
    return run_messages.UNREADABLE_VARIABLE.fill(name=name, cause=cause)


def list_text_leaves(value: Any) -> Iterator[str]:
    """Yield the texts of a value. Reading a text decrypts it, or fails."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from list_text_leaves(one)
    elif value is not None and not isinstance(value, bool | int | float):
        yield str(value)


def leaves_written(value: Any) -> set[str]:
    """Return the texts of a value as they are written. Encrypted texts are left out."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return {text for one in value for text in leaves_written(one)}
    return {str(value)} if isinstance(value, str) else set()


def name_missing_value(template: str, written: Mapping[str, Any]) -> str:
    """Name what a user's template needs and the host doesn't have."""
    try:
        needed = meta.find_undeclared_variables(Environment(autoescape=True).parse(template))
    except TemplateError as error:
        return run_messages.TEMPLATE_FORM.fill(cause=str(error))
    absent = sorted(
        name
        for name in needed
        if name not in written and name not in ("lookup", "query", "q", "now", "omit", "undef")
    )
    if absent:
        return run_messages.VALUE_UNDEFINED.fill(name=absent[0])
    return run_messages.SOMETHING_UNDEFINED.fill(template=list_expressions(template))


def list_expressions(template: str) -> str:
    """Return the expressions of a template without the text around them, which may be a part of a
    password.
    """
    return " ".join(EXPRESSION.findall(template)) or "it"
