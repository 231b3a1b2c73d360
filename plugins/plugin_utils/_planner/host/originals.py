# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files from before our first change, as the journal keeps them, and the rule that taking back
leaves none of them behind.

The resources make a plan that takes back, each for what it can judge. `complete_whole_removal`
completes it from the journal, which needs no engine. A file that still is as we wrote it gets its
bytes back. A file that cannot be given back is named, and then nothing is changed at all.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    journal_messages,
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.earlier_runs import (
    EarlierRuns,
)

WHY = journal_messages.BACK_KEPT.fill()
UNKNOWN = journal_messages.PART_UNKNOWN.fill()


@dc.dataclass(frozen=True)
class Original:
    """A file in the journal: its hashes before our first change, as we last wrote it, and now; None
    if there is (was) no file.
    """

    path: str
    existed: bool
    before: str | None
    after: str | None
    now: str | None
    trouble: str  # why it is not known how the file is now
    directory: str  # of the copy

    @property
    def touched(self) -> bool:
        """True if another program or person has written to the file since."""
        return self.now not in (self.before, self.after)

    def explain(self, reason: str) -> str:
        """Return the reason why the file cannot be given back, with what a person does."""
        row = journal_messages.BYTES_KEPT if self.existed else journal_messages.NO_BYTES
        return row.fill(reason=reason, directory=self.directory)


Covers = Callable[[str], bool]


def can_cover_everything(_path: str) -> bool:
    return True


def list_originals(earlier: EarlierRuns) -> tuple[Original, ...]:
    return tuple(_read_original(path, answer) for path, answer in sorted(earlier.originals.items()))


def _read_original(path: str, answer: Mapping[str, Any]) -> Original:
    return Original(
        path, bool(answer.get("existed", True)), answer.get("sha256_before"), answer.get("sha256_after"), answer.get("now"),
        str(answer.get("trouble") or ""), str(answer.get("directory") or ""))  # fmt: skip


def list_drift(earlier: EarlierRuns) -> list[dict[str, str]]:
    """List the files that differ from what this collection wrote, with their state: the journal
    compared with the host.
    """
    drifts = [(o.path, describe_drift(o)) for o in list_originals(earlier)]
    return [{"path": path, "state": state} for path, state in drifts if state]


def describe_drift(one: Original) -> str:
    """Return what happened to one file since; '' if it is as it was written."""
    if one.trouble:
        return journal_messages.STATE_UNKNOWN.fill(reason=one.trouble)
    if one.now == one.after:
        return ""
    if one.now is None:
        return "removed since"
    return (
        "as before this collection"
        if one.now == one.before
        else "changed since"
        if one.after
        else "back again"
    )


def require_sound(earlier: EarlierRuns, covers: Covers = can_cover_everything) -> None:
    """Raise PlanError for a damaged copy of a covered file.

    A damaged copy must not count as no copy: the file would be judged as if its earlier content had
    never been known.
    """
    broken = [d for d in earlier.journal.value.get("damaged") or () if covers(str(d.get("path")))]
    if broken:
        reasons = "; ".join(str(d.get("why")) for d in broken)
        raise PlanError(journal_messages.COPY_DAMAGED.fill(reasons=reasons))


def complete_resource_removal(
    earlier: EarlierRuns, paths: Iterable[str], plan: Callable[[], Plan]
) -> Plan:
    """Complete the plan of one resource, whose files are known by name, from the journal.

    Raise PlanError as `complete_whole_removal` does.
    """
    covers = frozenset(paths).__contains__
    require_sound(earlier, covers)
    return complete_whole_removal(earlier, plan(), covers=covers)


def complete_whole_removal(
    earlier: EarlierRuns, plan: Plan, *, covers: Covers = can_cover_everything, obstacle: Callable[[str], str] = lambda _path: "",
    reader: Callable[[str], Plan] = lambda _path: Plan(),
) -> Plan:  # fmt: skip
    """Return the plan, completed by all that it leaves of what the journal kept.

    obstacle: returns why the resource that knows a path has not judged it. reader: returns what is
    left to do for programs that read a path which is given back. Raise PlanError if something
    cannot be given back.
    """
    done = {str(change["path"]) for change in plan.changes} | set(plan.released)
    rest = [o for o in list_originals(earlier) if covers(o.path) and o.path not in done]
    left = [sentence for sentence in (_explain_left(o, obstacle(o.path)) for o in rest) if sentence]
    refuse_left_originals(left)
    back = [o for o in rest if o.now == o.after and o.now != o.before]
    gone = tuple(journal_messages.REMOVED_SINCE.fill(path=o.path) for o in rest if _is_removed(o))
    return merge_plans(
        [
            plan,
            *(_plan_restore(earlier, o) for o in back),
            *(reader(o.path) for o in back),
            Plan(advice=gone),
        ]
    )


def refuse_left_originals(left: Iterable[str]) -> None:
    sentences = tuple(left)
    if sentences:
        raise PlanError(journal_messages.NOT_ALL_BACK.fill(files="; ".join(sentences)))


def _explain_left(one: Original, obstacle: str) -> str:
    """Return why this file cannot be given back, with what to do.

    Return '' if it can be, or if it contains nothing of this collection.
    """
    if one.trouble:
        return one.explain(one.trouble)
    if one.touched and not _is_removed(one):
        obstacle = obstacle or UNKNOWN
        return one.explain(journal_messages.ORIGINAL_CHANGED.fill(path=one.path, obstacle=obstacle))
    return ""


def _is_removed(one: Original) -> bool:
    return one.now is None and one.touched and not one.trouble


def _plan_restore(earlier: EarlierRuns, one: Original) -> Plan:
    """Plan the change without a look at the content: the host has the bytes, and compares hashes."""
    answer = earlier.originals[one.path]
    file = ObservedFile(one.path, one.now is not None, "file", None, one.now)
    state = earlier.seen.value.get(one.path, file)
    # the executor reports what is wrong with its place
    return owned_file.restore(file if state.error else state, answer, WHY)
