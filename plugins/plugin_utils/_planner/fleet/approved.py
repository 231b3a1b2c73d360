# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare each transaction with the change that was approved for its host, at the task that sends
it.

The first play of a rollout has compared the plans as well. Before a wave comes to a host, variables
or the host may change. So the task that changes a host compares again: its plan before the first
transaction and after a conflict. Once packages are installed and the host was planned again, the
task compares what is left of the plan.
"""

from __future__ import annotations

import dataclasses as dc
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    OptionName,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    escape,
    names,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import change, messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.bound import (
    Item,
    Planned,
)

OPTION = "approved_change"
NONE = "none"  # the host had nothing to do when the plan was approved
DIGEST = re.compile(rf"[0-9a-f]{{{change.LENGTH}}}")


@dc.dataclass(frozen=True)
class Approval:
    """The change that one host may make.

    digest: the digest of that change; `none` if nothing was to be done; '' if no approval is
    needed.
    """

    digest: str = ""

    @property
    def binds(self) -> bool:
        return bool(self.digest)

    def refuse_unapproved(self, planned: Planned, host: str) -> dict[str, Any]:
        """Return the answer of a host that refuses a plan that was not approved. Return {} if the
        plan was approved.
        """
        shared = change.build_shared_change(
            {"planned": escape.escape_every_string(planned, escape.escape_line)}, host
        )
        digest = change.digest_of(shared)
        if not self.binds or digest in (self.digest, change.UNCHANGED):
            return {}
        approved = "nothing" if self.digest == NONE else self.digest[: change.SHOWN]
        few = names.show_few_texts(change.list_change_subjects(shared), 3, "; ")
        shown = digest[: change.SHOWN]
        return build_refused_answer(
            messages.NOT_APPROVED.fill(approved=approved, digest=shown, changes=few)
        )

    def refuse_unpredicted(self, planned: Planned, before: Planned) -> dict[str, Any]:
        """Return the same answer for what is left to do after a first stage.

        Return {} if each item is in the plan from before.
        """
        more = list(list_surplus_items(planned, before)) if self.binds else []
        if not more:
            return {}
        few = names.show_few_texts([change.name_item_subject(item) for item in more], 3, "; ")
        return build_refused_answer(messages.NOT_APPROVED_AFTER_FIRST.fill(changes=few))


ANY = Approval()


def parse_approval(value: Any) -> Approval:
    """Parse the option into an Approval. Raise PlanError for anything but a digest, `none` or no
    value.
    """
    text = str(value or "")
    if text in ("", NONE) or DIGEST.fullmatch(text):
        return Approval(text)
    row = messages.NO_DIGEST
    raise PlanError(row.fill(option=OptionName(OPTION), value=text[:80], digits=change.LENGTH))


def parse_approval_in_rollout(of_rollout: Mapping[str, Any], host: str, value: Any) -> Approval:
    """Parse the option of a host into an Approval.

    of_rollout: what the rollout has planned, {} outside one. Raise PlanError for a value that is
    none, and for one that differs from what the plan has for the host: then another variable has
    taken the place of the rollout's own.
    """
    wanted = str(((of_rollout.get("hosts") or {}).get(host) or {}).get("approved") or "")
    if wanted and str(value or "") != wanted:
        given = str(value or "")[: change.SHOWN]
        option, shown = OptionName(OPTION), wanted[: change.SHOWN]
        raise PlanError(messages.OTHER_CHANGE.fill(option=option, value=given, wanted=shown))
    return parse_approval(value)


def build_refused_answer(message: Message) -> dict[str, Any]:
    """Build the answer that a host would give to a transaction that is refused."""
    error = {
        "phase": "approval",
        "code": message.code,
        "message": message.what,
        "next": message.next,
    }
    return {"error": error}


def list_surplus_items(planned: Planned, before: Planned) -> Iterator[Item]:
    """Yield what a plan does and the plan from before does not."""
    predicted = {json.dumps(item, sort_keys=True) for item in before.get("bound") or ()}
    keys: dict[str, list[Any]] = {}
    for difference in before.get("differences") or ():
        keys.setdefault(str(difference["path"]), []).append(
            [difference["key"], difference["after"]]
        )
    for item in planned.get("bound") or ():
        if json.dumps(item, sort_keys=True) not in predicted and not sets_same_keys(
            item, keys.get(str(item.get("path")), ())
        ):
            yield item


def sets_same_keys(item: Item, wanted: Sequence[Any]) -> bool:
    """Tell whether an edit sets only keys that were to be set in this file, each to the same value."""
    return (
        item["do"] == "edit" and bool(item["keys"]) and all(key in wanted for key in item["keys"])
    )
