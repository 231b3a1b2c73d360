# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ticket of a change and the user who started it: a few words for the journal, for marks on
Kubernetes nodes and for reports.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

VARIABLE = "gpufleet_change_ref"
# AWX sets both for each job, Ansible Tower the second one.
USERS = ("awx_user_name", "tower_user_name")
# It goes into Slurm's reasons, which scontrol parses, and beside the reason of a transaction,
# behind a semicolon.
TEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .,:/#@+&()_-]{0,99}")
_ODD = re.compile(r"[^A-Za-z0-9 .@+_\\-]")  # in the name of a user


@dc.dataclass(frozen=True)
class ChangeReference:
    """The ticket of a run, and the user who started it; '' if one is not known."""

    change: str = ""
    user: str = ""

    @property
    def text(self) -> str:
        """The ticket and the user, such as 'CHG-1234, by alice'; '' if neither is known."""
        return ", ".join(filter(None, (self.change, f"by {self.user}" if self.user else "")))

    def put_before(self, text: str) -> str:
        """Return a drain's reason with the reference before it, since the end of a drain's reason
        may be cut.
        """
        return f"{self.text}: {text}" if self.text else text

    def put_after(self, text: str) -> str:
        """Return a transaction's reason with the reference after it, so that the reason still
        begins with the module.
        """
        return f"{text}; {self.text}" if self.text else text


def read_change_reference(values: Mapping[str, Any]) -> ChangeReference:
    """Read the reference from the variables of a run. Raise PlanError for a ticket that cannot be
    used.

    The user cannot correct a user name of AWX here, so unusual characters in it become spaces.
    """
    user = next((str(values[name]) for name in USERS if values.get(name)), "")
    return ChangeReference(
        require_ticket(values.get(VARIABLE)),
        " ".join(_ODD.sub(" ", user).split())[:60],
    )


def require_ticket(value: Any) -> str:
    """Return the ticket as the user wrote it; '' if there is none.

    Raise PlanError for a ticket that cannot be shown or passed on as it is.
    """
    text = "" if value is None else str(value)
    good = isinstance(value, str | int) and not isinstance(value, bool) and TEXT.fullmatch(text)
    if text and not good:
        raise PlanError(messages.CHANGE_REF.fill(value=text[:120]))
    return text
