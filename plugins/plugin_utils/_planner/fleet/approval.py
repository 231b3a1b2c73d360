# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handle an approval as digests: which changes each class may have.

It is small enough to pass between jobs that share no files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import change, messages

# the variable, and the statistic of the run that passes it on
SETTING = "gpufleet_rollout_approved_changes"
DIGEST = re.compile(rf"[0-9a-f]{{{change.LENGTH}}}")
Approved = Mapping[str, frozenset[str]]


def parse_approved_digests(value: Any) -> Approved | None:
    """Parse the setting into a mapping of class to digests. Return None if nothing was approved in
    this way.

    An empty mapping approves nothing. Raise PlanError for a value of another form.
    """
    if value is None or value == "":
        return None
    given = _read_data(value)
    if not isinstance(given, Mapping) or not all(_digests(v) for v in given.values()):
        row = messages.NO_APPROVED_CHANGES
        raise PlanError(row.fill(value=str(value)[:80], digits=change.LENGTH))
    return {str(text): frozenset(map(str, digests)) for text, digests in given.items()}


def _read_data(value: Any) -> Any:
    """Return a dictionary as it is, and parse one that comes as JSON text. Return None for any
    other text.

    A survey or `-e name=value` gives text.
    """
    if not isinstance(value, str):
        return value
    try:
        return json_bounds.load_bounded_json(value)
    except ValueError:
        return None


def _digests(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(v, str) and DIGEST.fullmatch(v) for v in value
    )


def build_approval_digests(changes: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Build the value to pass on, class -> sorted digests, from (class, digest) pairs."""
    digests: dict[str, list[str]] = {}
    for text, digest in sorted(set(changes)):
        digests.setdefault(text, []).append(digest)
    return digests


def explain_unapproved_change(
    approved: Approved | None, text: str, digest: str, result: Mapping[str, Any], host: str
) -> str:
    """Explain why a host of the class `text` is left out. Return '' if its change was approved.

    A host that has nothing to do needs no approval.
    """
    if approved is None or not digest or digest in approved.get(text, ()):
        return ""
    shown = names.show_few_texts(
        change.list_change_subjects(change.build_shared_change(result, host)), 3, "; "
    )
    planned = f"{digest[: change.SHOWN]}: {shown}"
    if text not in approved:
        return messages.CLASS_NOT_APPROVED.fill(label=text, planned=planned)
    return messages.CHANGE_NOT_APPROVED.fill(planned=planned)
