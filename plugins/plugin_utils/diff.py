# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before and after of a file for --diff, with what is secret in it masked."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import ask

MASK = "*"
PATTERNS = tuple(re.compile(p) for p in ask.REDACT)


def mask(text: str) -> str:
    """Every secret as asterisks of its length, so that lines and columns stay. The eyes have done it before; twice is safe."""
    for pattern in PATTERNS:
        text = pattern.sub(_blank, text)
    return text


def _blank(found: re.Match[str]) -> str:
    group = 1 if found.re.groups else 0
    whole, start, end = found.group(), found.start(group) - found.start(), found.end(group) - found.start()
    hidden = "".join(c if c in "\r\n" else MASK for c in whole[start:end])
    return whole[:start] + hidden + whole[end:]


def entry(path: str, before: str, after: str) -> tuple[str, str, str]:
    """One entry of Plan.diffs."""
    return path, mask(before), mask(after)


def for_ansible(diffs: tuple[tuple[str, str, str], ...]) -> list[dict[str, str]]:
    """As Ansible prints them."""
    return [{"before_header": p, "after_header": p, "before": mask(b), "after": mask(a)} for p, b, a in diffs]
