# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build a report whose texts would break a page that does not escape them."""

from __future__ import annotations

from typing import Any

from tests.unit import reports

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><script>alert(1)</script>",
    "--><svg onload=alert(1)>",
    "javascript:alert(1)",
    "\u202egnp.exe",
    "&lt;b&gt;",
]


def hostile(text: str) -> dict[str, dict[str, Any]]:
    """A fleet in which that is the name of a host and every text of its result."""

    def every(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: item if key in ("state", "kind", "standing") else every(item)
                for key, item in value.items()
            }
        return (
            [every(item) for item in value]
            if isinstance(value, list)
            else text
            if isinstance(value, str)
            else value
        )

    return {f"{name}{text}": every(result) for name, result in reports.fleet().items()}
