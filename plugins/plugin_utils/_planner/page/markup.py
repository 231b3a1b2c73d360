# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build HTML from values. Text is escaped wherever it comes from, and only what is made here is markup."""

from __future__ import annotations

import base64
import dataclasses as dc
import hashlib
import html

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import escape

VOID = frozenset({"meta", "input"})


@dc.dataclass(frozen=True)
class Markup:
    text: str


Child = str | Markup


def element(tag: str, /, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """Build one element.

    Attributes: `class_` becomes class, and `data_x` becomes data-x. True gives an attribute without
    a value, None and False give none.
    """
    head = "".join(attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    if tag in VOID:
        return Markup(f"<{tag}{head}>")
    return Markup(f"<{tag}{head}>{''.join(child(c) for c in children)}</{tag}>")


def attribute(name: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escaped(str(value))}"'


def child(value: Child) -> str:
    return value.text if isinstance(value, Markup) else escaped(value)


def escaped(text: str) -> str:
    """Escape text for a terminal and for HTML. The former also makes directions of writing and control characters visible."""
    return html.escape(escape.line(text), quote=True)


def raw(name: str, text: str) -> Markup:
    """Build a script or a style of this collection's own: the only text that is not escaped."""
    return Markup(f"<{name}>{text}</{name}>")


def digest(text: str) -> str:
    """Return the name by which a Content-Security-Policy allows a script or a style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
