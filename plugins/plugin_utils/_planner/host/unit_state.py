# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell whether a unit of systemd serves, by one rule for all rooms that ask."""

from __future__ import annotations

from collections.abc import Mapping

ON_STATES = ("active", "activating", "reloading")
# systemd.unit(5): a service that has ended is `activating` while systemd waits to start it again.
RESTART_STATES = ("auto-restart", "auto-restart-queued")


def is_started(properties: Mapping[str, str]) -> bool:
    """Tell whether a unit runs or is on its way, by its properties as systemd shows them."""
    return properties.get("ActiveState") in ON_STATES and not is_restarted(properties)


def is_failed(properties: Mapping[str, str]) -> bool:
    """Tell whether a unit has failed for good, or fails over and over."""
    return properties.get("ActiveState") == "failed" or is_restarted(properties)


def is_restarted(properties: Mapping[str, str]) -> bool:
    """Tell whether systemd waits to start an ended service again."""
    return properties.get("SubState") in RESTART_STATES
