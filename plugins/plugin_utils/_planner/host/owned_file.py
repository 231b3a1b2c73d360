# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that is owned by this collection: the plan that writes it, and the plan that gives back
what stood there before.
"""

from __future__ import annotations

import dataclasses as dc
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cause,
    Difference,
    Plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import journal_messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.earlier_runs import (
    EarlierRuns,
)

BACK = journal_messages.BACK_BEFORE.fill()
MARK = "# Written by gpufleet.nvidia.\n"
DIGITS = 12  # of a content's digest, in what people read
VALUES = 32  # of one file that a plan shows; of more it shows the digest as well


def require_readable(file: ObservedFile) -> ObservedFile:
    """Return the file. Raise PlanError with the reason if nothing can be planned about it."""
    if file.error:
        raise PlanError(
            journal_messages.OWN_FILE_UNREADABLE.fill(reason=file.error), where=file.path
        )
    if file.exists and file.type not in ("file", ""):
        raise PlanError(journal_messages.NOT_REGULAR.fill(type=file.type), where=file.path)
    return file


def plan_owned_file(
    file: ObservedFile,
    text: str,
    *,
    why: str,
    key: str = "",
    before: Any = None,
    after: Any = None,
    mode: str = "0644",
) -> Plan:
    """Plan to write a file. Callers compare first, by content if a file has one, so a re-ordered
    file is not a change.

    before, after: the words for people, if they tell more than which content the file has.
    """
    file = require_readable(file)
    shown = before if before is not None or not file.exists else name_content(file.content)
    change: transaction.Write = {
        "path": file.path,
        "op": "write",
        "content": text,
        "mode": mode,
        "expect": file.sha256 if file.exists else None,
    }
    return Plan(
        differences=(
            Difference(
                "file", file.path, key, shown, name_content(text) if after is None else after, why
            ),
        ),
        changes=(change,),
        diffs=((file.path, (file.content or "") if file.exists else "", text),),
    )


def name_content(text: str | None) -> str:
    """Name a content by the beginning of its SHA-256, which an approval binds as a whole."""
    if text is None:
        return "content that is not read"
    return f"content {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:DIGITS]}"


def write_values(
    file: ObservedFile, text: str, *, why: str, shows: Sequence[str] = (), mode: str = "0644"
) -> Plan:
    """Plan to write a JSON file of this collection, and show the values that change.

    For a new file, show the values at the top-level keys `shows`.
    """
    whole = plan_owned_file(file, text, why=why, mode=mode)
    now, wanted = list_json_values(file.content), list_json_values(text)
    if not now:
        wanted = {key: value for key, value in wanted.items() if key.partition(".")[0] in shows}
    keys = [key for key in dict.fromkeys((*wanted, *now)) if now.get(key) != wanted.get(key)]
    rows = tuple(
        Difference("file", file.path, key, now.get(key), wanted.get(key), why)
        for key in keys[:VALUES]
    )
    rest = len(keys) > VALUES or not now or not rows
    return dc.replace(whole, differences=(*rows, *(whole.differences if rest else ())))


def list_json_values(text: str | None) -> dict[str, Any]:
    """Return the values of a JSON text by their dotted places; {} if it has none."""
    try:
        data = json_bounds.load_bounded_json(text or "{}")
    except ValueError:
        return {}
    return dict(list_value_leaves(data)) if isinstance(data, dict) else {}


def list_value_leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list) and any(isinstance(of, dict | list) for of in value):
        inner = enumerate(value)
    elif place:
        yield place, value
    for key, of in inner:
        yield from list_value_leaves(of, f"{place}.{key}" if place else str(key))


def has_right_mode(file: ObservedFile, mode: str = "0644") -> bool:
    return file.exists and file.mode & 0o7777 == int(mode, 8)


def plan_owned_file_removal(file: ObservedFile, *, why: str, cause: Cause | None = None) -> Plan:
    """Plan to remove a file that nothing needs any more.

    cause: why it goes, which a plan has to name before it is carried out.
    """
    file = require_readable(file)
    if not file.exists:
        return Plan()
    return Plan(
        differences=(back(file.path, True, False, why, cause),),
        changes=({"path": file.path, "op": "remove", "expect": file.sha256},),
        diffs=((file.path, file.content or "", ""),),
    )


def plan_owned_file_restore(
    earlier: EarlierRuns, file: ObservedFile, *, why: str, own: bool
) -> Plan:
    """Plan to restore the bytes from before, if the journal has them and the file is still what we
    wrote.

    Otherwise our file goes, and another's stays. own: the content shows that this collection wrote
    it, whatever the journal has. A file that cannot be read shows nothing.
    """
    original = earlier.originals.get(file.path)
    # if the journal is known and has no copy, the file is another's
    if original or (file.error and not earlier.is_journal_known):
        file = require_readable(file)
    if original and (file.sha256 if file.exists else None) == original.get("sha256_after"):
        return restore(file, original, why)
    if not file.exists:
        return Plan(released=(file.path,) if original else ())
    if own and original:
        back = (
            restore(file, original, why, changed=True)
            if original.get("existed")
            else forget_removed_files(plan_owned_file_removal(file, why=why))
        )
        return dc.replace(back, advice=(describe_changed_since(file.path, original),))
    if own:
        return forget_removed_files(plan_owned_file_removal(file, why=why))
    if original:
        advice = journal_messages.REPLACED_SINCE.fill(path=file.path)
        return Plan(advice=(advice,), released=(file.path,))
    return Plan()


def is_marked(file: ObservedFile) -> bool:
    """Tell whether a file begins as a unit, a drop-in or a rule of this collection does."""
    return file.exists and file.text.startswith(MARK)


def is_known_as_ours(earlier: EarlierRuns, file: ObservedFile) -> bool:
    """Tell whether a file that carries no mark is of this collection: by the journal, or by its name
    alone where there is no journal.
    """
    return file.exists and (file.path in earlier.originals or not earlier.has_journal)


def require_earlier_value(path: str, key: str, value: Any) -> None:
    """Raise PlanError for a value from before our first change that was not sent from the host, so
    that it cannot be written again.

    path: the file. key: the key of the value in it.
    """
    if file_places.is_hidden_value(value):
        raise PlanError(journal_messages.EARLIER_NOT_SENT.fill(key=key), where=path)


def describe_changed_since(path: str, original: Mapping[str, Any]) -> str:
    """Return the words for a file of this collection that was changed by others, and that goes."""
    row = (
        journal_messages.CHANGED_PUT_BACK
        if original.get("existed")
        else journal_messages.CHANGED_REMOVED
    )
    return row.fill(path=path)


def forget_removed_files(plan: Plan) -> Plan:
    """Return a plan that keeps no copy of the files it removes: they are ours, so no copy may look
    like a file from before us.
    """
    return dc.replace(
        plan, changes=tuple(transaction.forget_original(change) for change in plan.changes)
    )


def restore(
    file: ObservedFile, original: Mapping[str, Any], why: str, *, changed: bool = False
) -> Plan:
    """Plan one change that the executor carries out with the bytes in the journal; the content
    shown here serves the diff only.

    changed: the file was changed by others since, which the executor would refuse otherwise.
    """
    change: transaction.Restore = {
        "path": file.path,
        "op": "restore",
        "expect": file.sha256 if file.exists else None,
    }
    if changed:
        change["changed"] = True
    return Plan(
        differences=(back(file.path, file.exists, bool(original.get("existed")), why),),
        changes=(change,),
        diffs=((file.path, file.content or "", str(original.get("content") or "")),),
    )


def back(
    path: str, exists: bool, existed: bool, why: str, cause: Cause | None = None
) -> Difference:
    """Return the difference of a file that is given back whole, in the same words for every owner."""
    return Difference(
        "file",
        path,
        "",
        "present" if exists else None,
        "the content from before" if existed else None,
        why,
        cause,
    )


def build_keys_out_difference(path: str) -> Difference:
    """Return the difference of a file that was changed by others since, or that has no copy: only
    our keys go.
    """
    return Difference(
        "file",
        path,
        "",
        "with this collection's keys",
        "without them",
        journal_messages.KEY_BY_KEY.fill(),
    )


def was_taken_away(original: Mapping[str, Any]) -> bool:
    """Tell whether our last change to a file removed a file that was there before us, whatever is
    there now.
    """
    return bool(original.get("existed", True)) and original.get("sha256_after") is None
