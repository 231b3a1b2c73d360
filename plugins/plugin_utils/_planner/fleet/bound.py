# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe the effects of a plan's transactions, item by item, as a value that equal hosts share.

An approval binds this value. A file that this collection owns is described by its path, mode, owner
and the digest of its content. An edit of another owner's file is described by the keys that it sets
and by the text that it inserts. Line numbers and digests of the former content are left out. So are
the parts that belong to one moment (processes, invocation ids, reasons). GPUs are named by position
(canonical.py).
"""

from __future__ import annotations

import dataclasses as dc
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import canonical
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.change import WITHIN

Item = dict[str, Any]
Planned = dict[str, Any]
NOTHING: Planned = {}
# Fields that belong to one moment: a process, the time when it began, words for people.
OF_A_MOMENT = ("process", "ticks", "replaces", "why")
SHOWN = ("what", "path", "key", "before", "after", "why")
OWNER = "root"  # of each file that the executor makes


def build_planned_effects(
    policy: Policy, obs: Observation, plan: Plan, planner: Callable[[Policy, Observation], Plan]
) -> Planned:
    """Return what a plan does (`bound`) and shows (`differences`, `restarts`). Return {} if it does
    nothing.

    planner: the function that made the plan. It makes the plan of the canonical host as well.
    """
    whole = plan.whole
    if whole.empty and not plan.acts:
        return NOTHING
    known = canonical.collect_identities(policy, obs)
    same = plan_canonical_twin(policy, obs, known, planner) if known != canonical.NONE else whole
    return list_bound_effects(whole, same, known, policy.restart, policy.root)


def plan_canonical_twin(
    policy: Policy,
    obs: Observation,
    known: canonical.Identities,
    planner: Callable[[Policy, Observation], Plan],
) -> Plan:
    """Plan the canonical host. Return an empty plan if that fails.

    Then each content counts as it is, so the host shares its change with no other host.
    """
    try:
        return planner(
            canonical.canonicalise_policy(policy, known),
            canonical.canonicalise_observation(policy, obs, known),
        ).whole
    except (PlanError, NeedMore):
        return Plan()


def list_bound_effects(
    whole: Plan, same: Plan, known: canonical.Identities, restart: str, root: str
) -> Planned:
    """Return the items that are bound, the differences and the restarts of a plan.

    same: the plan of the canonical host, whose paths, units and texts are those of this host with
    `known` applied.
    """
    items = [
        *list_bound_trees(root),
        *list_bound_files(whole, same, known),
        *list_bound_programs(whole, known),
        *list_bound_units(whole, known, restart),
    ]
    readable = known.make_readable()
    by_place = {(d.what, d.path, d.key): d for d in same.differences}
    differences = []
    for d in whole.differences:
        one = by_place.get(
            (d.what, canonical.canonicalise_path(d.path, known), known.replace_in_text(d.key))
        )
        effect = dc.asdict(one) if one else known.replace_in_value(dc.asdict(d))
        differences.append(readable.replace_in_value({field: effect[field] for field in SHOWN}))
    restarts = sorted(
        readable.replace_in_text(known.replace_in_text(unit))
        for unit in whole.list_interrupted_units(restart)
    )
    return {"bound": sort_bound_items(items), "differences": differences, "restarts": restarts}


def sort_bound_items(items: Sequence[Item]) -> list[Item]:
    """Return items in an order that depends on their content alone."""
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def list_bound_trees(root: str) -> Iterator[Item]:
    """Yield the directory tree in which everything is done. Yield nothing for a running host."""
    if root != "/":
        yield {"do": WITHIN, "path": root}


# ---------------------------------------------------------------- files


def list_bound_files(whole: Plan, same: Plan, known: canonical.Identities) -> Iterator[Item]:
    """Yield the changes of files, each as all equal hosts have it.

    whole: the host's plan. same: the plan of the host by positions. known: the identities that are
    replaced.
    """
    made = {str(change["path"]): change for change in same.changes}
    for change in whole.changes:
        path = known.replace_in_text(change["path"])
        other = made.get(path)
        usual = other is not None and other["op"] == change["op"]
        yield describe_bound_change(
            path, other if other is not None and usual else change, same if usual else whole
        )


def describe_bound_change(path: str, change: transaction.Change, plan: Plan) -> Item:
    """Describe one change of a file.

    plan: the plan that has the change. Lasting contents and the keys of edits come from it.
    """
    bound_change: Item = {"do": change["op"], "path": path}
    if change.get("forget"):
        bound_change["forget"] = True
    if change["op"] == "write":
        digest = get_archived_digest(change) or digest_bound_text(
            plan.lasting.get(change["path"], change["content"])
        )
        bound_change |= {"mode": change.get("mode", ""), "owner": OWNER, "sha256": digest}
        bound_change |= (
            {"copies": [value["path"] for value in change["references"]]}
            if change.get("references")
            else {}
        )
    elif change["op"] == "edit":
        bound_change["inserts"] = [line["text"] for line in change["edits"]]
        bound_change["keys"] = [
            [d.key, d.after] for d in plan.differences if d.path == change["path"]
        ]
    elif change["op"] == "restore" and change.get("changed"):
        bound_change["changed"] = True
    return bound_change


def get_archived_digest(change: transaction.Write) -> str:
    """Return the digest of a file that comes from an archive of packages, '' for all other files."""
    return change["archived"]["sha256"] if "archived" in change else ""


def digest_bound_text(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# ---------------------------------------------------------------- what is run


def list_bound_programs(whole: Plan, known: canonical.Identities) -> Iterator[Item]:
    """Yield the programs that a plan runs on the host."""
    rows = [("run", dict(command)) for command in whole.commands]
    rows += [("stage", dict(staged)) for staged in whole.stage_files]
    rows += [("substitute", {"text": text, "by": by}) for text, by in whole.substitute]
    rows += [("validate", dict(check)) for check in whole.validate]
    rows += [("serve", dict(health)) for health in whole.health]
    for word, row in rows:
        yield {"do": word, **drop_momentary_parts(known.replace_in_value(row))}


def list_bound_units(whole: Plan, known: canonical.Identities, restart: str) -> Iterator[Item]:
    """Yield what happens to units, with the mode of restarts."""
    yield {"do": "restarts", "mode": restart}
    for unit in whole.disable_units:
        yield {"do": "disable", "unit": known.replace_in_text(unit)}
    for act in whole.list_acted_restarts(restart):
        yield {"do": act.action, "unit": known.replace_in_text(act.unit), "timeout": act.timeout}


def drop_momentary_parts(value: Any) -> Any:
    """Return the value without what belongs to a moment."""
    if isinstance(value, Mapping):
        return {
            key: drop_momentary_parts(of) for key, of in value.items() if key not in OF_A_MOMENT
        }
    return [drop_momentary_parts(of) for of in value] if isinstance(value, list) else value
