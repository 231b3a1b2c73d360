# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell whether a command names a playbook of this collection.

Options of ansible-playbook mean another thing for a playbook of the user's.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

PREFIX = "gpufleet.nvidia."
PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"


def is_own_playbook_named(named: Iterable[str]) -> bool:
    """Tell whether a command names a playbook of this collection.

    If a user's playbook imports one, the options are for the user's playbook.
    """
    return any(
        name.startswith(PREFIX) or Path(name).resolve().parent == PLAYBOOKS for name in named
    )
