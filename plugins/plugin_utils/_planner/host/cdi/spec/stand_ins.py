# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognise the stand-ins in a CDI spec for what was not sent from its host.

The host makes them (module_utils/_host/projection/documents.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)

STAND_IN = re.compile(
    r"\(hidden [0-9a-f]{16} ([0-9]{1,18})( no-text)?\)|hidden-[0-9a-f]{16}-([0-9]{1,18})(?![0-9])"
)
# Text that is YAML perhaps, in a form that the host does not read. Engines do.
FORMS = ("yaml-form", "utf-16")


def is_partly_hidden(text: str) -> bool:
    """Tell whether something of a text was not sent."""
    return STAND_IN.search(text) is not None


def reads_otherwise(text: str) -> bool:
    """Tell whether a hidden text is a number or a truth value without quotes.

    Such a text is read as another text than is written.
    """
    match = STAND_IN.fullmatch(text)
    return match is not None and match.group(2) is not None


def get_sent_size(text: str) -> int:
    """Return the bytes of a text in the file, if it was sent or one stand-in is all of it."""
    match = STAND_IN.match(text)
    return (
        int(match.group(1) or match.group(3))
        if match
        else len(text.encode("utf-8", "surrogatepass"))
    )


def describe_without_tags(text: str) -> str:
    """Return a sentence for people, without tags: they differ from host to host and from boot to
    boot. A message keeps its code.
    """
    if isinstance(text, Message):
        return Message(
            _hide_tags(text.what),
            text.code,
            {name: _hide_tags(value) for name, value in text.values.items()},
            why=_hide_tags(text.why),
            next=_hide_tags(text.next),
        )
    return str(_hide_tags(text))


def _hide_tags(value: Any) -> Any:
    return STAND_IN.sub("(hidden)", value) if isinstance(value, str) else value


def explain_unsent_file(found: Mapping[str, Any]) -> str:
    """Return why nothing of a file was sent, for people."""
    return file_places.explain_fault(str(found.get("code")))
