# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The things that a plan takes away from a host, each by a positive cause: the table of lowerings, and the rule that each has a cause.

A component that is stopped, masked or silent is not a cause, and neither is a question that failed. `model.Cause` lists the causes.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import host_paths, journal_messages, low_level, versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import json_bounds
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Cause, Difference, Plan

CODE = journal_messages.LOWERING_WITHOUT_CAUSE.code
BACK = "the content from before"
STOPPED = ("stopped", "masked", "disabled")
UNIT_KINDS = (".service", ".path", ".timer", ".socket")
Decided = Callable[[], Cause]


def by_policy() -> Cause:
    """Return the cause for a plan that rests on a module's options alone."""
    return "policy"


@dc.dataclass(frozen=True)
class Lowering:
    """A thing that the host loses by a plan. path: the file, unit or package. key: the setting; '' for the whole."""

    kind: str
    path: str
    key: str = ""


# ---------------------------------------------------------------- the table


def replaced(before: Any, after: Any) -> bool:
    return bool(before) and before != after


def another_default(before: Any, after: Any) -> bool:
    """Tell whether a handler that a person has chosen stops being the default.

    A plain low-level runtime is what engines come with.
    """
    return bool(before) and before not in low_level.KNOWN and before != after


def switched_off(before: Any, after: Any) -> bool:
    return before is True and after is not True


def fewer(before: Any, after: Any) -> bool:
    """Tell whether a list loses items."""
    return isinstance(before, (list, tuple)) and not set(map(str, before)) <= set(map(str, after or ()))


def fewer_directories(before: Any, after: Any) -> bool:
    """Tell whether a list loses directories; two spellings of one directory are equal."""
    was, will = (host_paths.clean_directories(map(str, paths)) if isinstance(paths, list | tuple) else () for paths in (before, after))
    return fewer(was, will)


def another_mode(before: Any, after: Any) -> bool:
    """Tell whether a mode that a person has chosen changes. `auto` comes with the package, so it is not a choice."""
    return before not in (None, "auto") and before != after


def gone(before: Any, after: Any) -> bool:
    return bool(before) and not after


def older(before: Any, after: Any) -> bool:
    """Tell whether a package gets an older release, or goes."""
    was, will = (versions.parse(str(v).rpartition(":")[2]) if v else None for v in (before, after))
    return bool(was and (not after or (will and will < was)))


# A setting of a file by the last words of its key: (kind, the words, whether less is there afterwards).
SETTINGS: tuple[tuple[str, tuple[str, ...], Callable[[Any, Any], bool]], ...] = (
    ("default handler", ("default_runtime_name", "default-runtime", "default_runtime", "default handler"), another_default),
    ("handler", ("BinaryName", "runtime_path", ".path"), gone),
    ("CDI switch", ("enable_cdi", "features.cdi"), switched_off),
    ("CDI directories", ("cdi_spec_dirs", "cdi-spec-dirs", "spec-dirs"), fewer_directories),
    ("cgroup driver", ("SystemdCgroup", "systemd_cgroup", "monitor_cgroup"), replaced),
    ("isolation", ("devices-envvar-when-unprivileged", "devices-as-volume-mounts"), switched_off),
    ("annotations", ("annotation-prefixes", "container_annotations", "pod_annotations", "allowed_annotations"), fewer),
    ("low-level runtimes", ("nvidia-container-runtime.runtimes",), fewer),
    ("runtime mode", ("nvidia-container-runtime.mode",), another_mode),
)  # fmt: skip


def of_difference(difference: Difference) -> Iterator[Lowering]:
    """Yield what one difference takes away, by its own values."""
    before, after, key = difference.before, difference.after, difference.key.replace('"', "")
    if difference.what == "package" and older(before, after):
        yield Lowering("package", difference.path)
    if difference.what == "unit" and after in STOPPED:
        yield Lowering("unit", difference.path)
    if difference.what in ("file", "unit"):
        kinds = (kind for kind, words, lowers in SETTINGS if key.endswith(words) and lowers(before, after))
        yield from (Lowering(kind, difference.path, difference.key) for kind in kinds)


def of_changes(plan: Plan) -> Iterator[Lowering]:
    """Yield the files that go or get their earlier content back, and the units that are switched off or stopped."""
    yield from (Lowering("file", c["path"]) for c in plan.changes if c["op"] in ("remove", "restore"))
    yield from (Lowering("unit", unit) for unit in plan.disable_units)
    for argv in (command["argv"] for command in plan.commands):
        if argv[:1] == ["systemctl"] and set(argv[1:3]) & {"stop", "disable", "mask"}:
            yield from (Lowering("unit", word) for word in argv if posixpath.splitext(word)[1] in UNIT_KINDS)


def of_records(plan: Plan) -> Iterator[Lowering]:
    """Yield each record of a decision that loses an engine, a strategy or a default handler."""
    for path, before, after in plan.diffs:
        if path.endswith((".json", ".fact")) and after and lost(_record(before), _record(after)):
            yield Lowering("strategies", path)


def _record(text: str) -> Mapping[str, Any]:
    try:
        found = json_bounds.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("engines"), list) else {}


def lost(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Tell whether a record has fewer engines or strategies than the one before, or loses a default handler."""
    now = {str(e.get("instance")): e for e in after.get("engines") or () if isinstance(e, dict)}
    for engine in (e for e in before.get("engines") or () if isinstance(e, dict)):
        same = now.get(str(engine.get("instance")), {})
        if not same or fewer(engine.get("device_list_strategy"), same.get("device_list_strategy")):
            return True
        if engine.get("default") is True and same.get("default") is not True:
            return True
    was, will = ((found.get("device_plugin") or {}).get("strategies") for found in (before, after))
    return bool(before) and fewer(was, will)


def lowerings(plan: Plan) -> list[Lowering]:
    """List what a plan takes away from the host, by the table."""
    found = [*(low for d in plan.differences for low in of_difference(d)), *of_changes(plan), *of_records(plan)]
    return list(dict.fromkeys(found))


# ---------------------------------------------------------------- causes


def caused(plan: Plan, cause: Cause) -> Plan:
    """Return the plan with this cause for each difference that removes something and has no cause yet."""
    return dc.replace(plan, differences=tuple(d if d.cause or not goes(d) else dc.replace(d, cause=cause) for d in plan.differences))


def goes(difference: Difference) -> bool:
    return difference.after in (None, BACK, *STOPPED)


def resolved(plan: Plan, decided: Decided) -> Plan:
    """Return the plan with the decision's cause for the settings that the decision lowers.

    decided: returns the cause, and raises if the decision rests on a component that does not answer. For a whole file or unit, the resource
    has to name the cause itself.
    """
    records = {low.path for low in of_records(plan)}
    open_ = [not d.cause and (d.path in records or any(low.kind != "unit" for low in of_difference(d))) for d in plan.differences]
    if not any(open_):
        return plan
    cause = decided()
    pairs = zip(plan.differences, open_, strict=True)
    return dc.replace(plan, differences=tuple(dc.replace(d, cause=cause) if lacks else d for d, lacks in pairs))


def without_cause(plan: Plan) -> list[Lowering]:
    """List the lowerings of a plan that no difference gives a cause for."""
    known = [d for d in plan.differences if d.cause]
    return [low for low in lowerings(plan) if not any(explains(d, low) for d in known)]


def explains(difference: Difference, low: Lowering) -> bool:
    """Tell whether a difference covers this lowering: by the same path, by a directory that contains it, or by the file of its unit."""
    if low.key and low.key != difference.key:
        return False
    inside = low.path.startswith(f"{difference.path}/")
    return difference.path == low.path or inside or (low.kind == "unit" and posixpath.basename(difference.path) == low.path)


def require_causes(plan: Plan) -> None:
    """Refuse a plan that takes something away without a cause.

    Raise PlanError with CODE: the fault is this collection's.
    """
    found = [low for one in (*plan.first, plan) for low in without_cause(one)]
    if found:
        raise PlanError(journal_messages.LOWERING_WITHOUT_CAUSE.fill(things=_listed(found)))


def _listed(found: Iterable[Lowering]) -> str:
    return ", ".join(f"{low.kind} {low.path}{f' ({low.key})' if low.key else ''}" for low in found)
