# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The things that a plan takes away from a host, each by a positive cause: the table of lowerings,
and the rule that each has a cause.

A component that is stopped, masked or silent is not a cause, and neither is a question that failed.
`model.Cause` lists the causes.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    versions,
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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    journal_messages,
    low_level,
)

CODE = journal_messages.LOWERING_WITHOUT_CAUSE.code
BACK = "the content from before"
STOPPED = ("stopped", "masked", "disabled")
# getDefaultConfig in internal/config of NVIDIA/nvidia-container-toolkit
PACKAGED_PREFIXES = ["cdi.k8s.io/"]
UNIT_KINDS = (".service", ".path", ".timer", ".socket")
Decided = Callable[[], Cause]


def get_policy_cause() -> Cause:
    """Return the cause for a plan that rests on a module's options alone."""
    return "policy"


@dc.dataclass(frozen=True)
class Lowering:
    """A thing that the host loses by a plan. path: the file, unit or package. key: the setting; ''
    for the whole.
    """

    kind: str
    path: str
    key: str = ""


# ---------------------------------------------------------------- the table


def is_replaced(before: Any, after: Any) -> bool:
    return bool(before) and before != after


def is_another_default(before: Any, after: Any) -> bool:
    """Tell whether a handler that a person has chosen stops being the default.

    A plain low-level runtime is what engines come with.
    """
    return bool(before) and before not in low_level.KNOWN and before != after


def was_switched_off(before: Any, after: Any) -> bool:
    return before is True and after is not True


def has_fewer_items(before: Any, after: Any) -> bool:
    """Tell whether a list loses items."""
    return isinstance(before, (list, tuple)) and not set(map(str, before)) <= set(
        map(str, after or ())
    )


def has_fewer_directories(before: Any, after: Any) -> bool:
    """Tell whether a list loses directories; two spellings of one directory are equal."""
    was, will = (
        host_paths.clean_directories(map(str, paths)) if isinstance(paths, list | tuple) else ()
        for paths in (before, after)
    )
    return has_fewer_items(was, will)


def has_fewer_prefixes(before: Any, after: Any) -> bool:
    """Tell whether a list of prefixes that a person has chosen loses one. The list that comes with
    the package holds without the file as well, so it is not a choice.
    """
    return before != PACKAGED_PREFIXES and has_fewer_items(before, after)


def is_another_mode(before: Any, after: Any) -> bool:
    """Tell whether a mode that a person has chosen changes. `auto` comes with the package, so it is
    not a choice.
    """
    return before not in (None, "auto") and before != after


def is_gone(before: Any, after: Any) -> bool:
    return bool(before) and not after


def is_older_release(before: Any, after: Any) -> bool:
    """Tell whether a package gets an older release, or goes."""
    was, will = (
        versions.parse_engine_version(str(v).rpartition(":")[2]) if v else None
        for v in (before, after)
    )
    return bool(was and (not after or (will and will < was)))


# A setting of a file by the last words of its key: (kind, the words, whether less is there
# afterwards).
SETTINGS: tuple[tuple[str, tuple[str, ...], Callable[[Any, Any], bool]], ...] = (
    ("default handler", ("default_runtime_name", "default-runtime", "default_runtime", "default handler"), is_another_default),
    ("handler", ("BinaryName", "runtime_path", ".path"), is_gone),
    ("CDI switch", ("enable_cdi", "features.cdi"), was_switched_off),
    ("CDI directories", ("cdi_spec_dirs", "cdi-spec-dirs", "spec-dirs"), has_fewer_directories),
    ("cgroup driver", ("SystemdCgroup", "systemd_cgroup", "monitor_cgroup"), is_replaced),
    ("isolation", ("devices-envvar-when-unprivileged", "devices-as-volume-mounts"), was_switched_off),
    ("annotations", ("annotation-prefixes",), has_fewer_prefixes),
    ("annotations", ("container_annotations", "pod_annotations", "allowed_annotations"), has_fewer_items),
    ("low-level runtimes", ("nvidia-container-runtime.runtimes",), has_fewer_items),
    ("runtime mode", ("nvidia-container-runtime.mode",), is_another_mode),
)  # fmt: skip


def find_difference_lowerings(difference: Difference) -> Iterator[Lowering]:
    """Yield what one difference takes away, by its own values."""
    before, after, key = difference.before, difference.after, difference.key.replace('"', "")
    if difference.what == "package" and is_older_release(before, after):
        yield Lowering("package", difference.path)
    if difference.what == "unit" and after in STOPPED:
        yield Lowering("unit", difference.path)
    if difference.what in ("file", "unit"):
        kinds = (
            kind
            for kind, words, lowers in SETTINGS
            if key.endswith(words) and lowers(before, after)
        )
        yield from (Lowering(kind, difference.path, difference.key) for kind in kinds)


def find_change_lowerings(plan: Plan) -> Iterator[Lowering]:
    """Yield the files that go or get their earlier content back, and the units that are switched
    off or stopped.

    A shell's words are not read: no planner may send one (test_house_rules.py).
    """
    yield from (
        Lowering("file", c["path"]) for c in plan.changes if c["op"] in ("remove", "restore")
    )
    yield from (Lowering("unit", unit) for unit in plan.disable_units)
    for argv in (command["argv"] for command in plan.commands):
        if argv[:1] == ["systemctl"] and set(argv[1:3]) & {"stop", "disable", "mask"}:
            yield from (
                Lowering("unit", word) for word in argv if posixpath.splitext(word)[1] in UNIT_KINDS
            )
        if argv[:1] == ["rm"]:
            yield from (Lowering("file", word) for word in argv if word.startswith("/"))


def find_record_lowerings(plan: Plan) -> Iterator[Lowering]:
    """Yield each record of a decision that loses an engine, a strategy or a default handler."""
    for path, before, after in plan.diffs:
        if (
            path.endswith((".json", ".fact"))
            and after
            and has_lost_decision(_record(before), _record(after))
        ):
            yield Lowering("strategies", path)


def _record(text: str) -> Mapping[str, Any]:
    try:
        record = json_bounds.load_bounded_json(text or "{}")
    except ValueError:
        return {}
    return record if isinstance(record, dict) and isinstance(record.get("engines"), list) else {}


def has_lost_decision(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Tell whether a record has fewer engines or strategies than the one before, or loses a default
    handler.
    """
    now = {str(e.get("instance")): e for e in after.get("engines") or () if isinstance(e, dict)}
    for engine in (e for e in before.get("engines") or () if isinstance(e, dict)):
        same = now.get(str(engine.get("instance")), {})
        if not same or has_fewer_items(
            engine.get("device_list_strategy"), same.get("device_list_strategy")
        ):
            return True
        if engine.get("default") is True and same.get("default") is not True:
            return True
    was, will = (
        (record.get("device_plugin") or {}).get("strategies") for record in (before, after)
    )
    return bool(before) and has_fewer_items(was, will)


def list_lowerings(plan: Plan) -> list[Lowering]:
    """List what a plan takes away from the host, by the table."""
    lowerings = [
        *(low for d in plan.differences for low in find_difference_lowerings(d)),
        *find_change_lowerings(plan),
        *find_record_lowerings(plan),
    ]
    return list(dict.fromkeys(lowerings))


# ---------------------------------------------------------------- causes


def add_cause(plan: Plan, cause: Cause) -> Plan:
    """Return the plan with this cause for each difference that removes something and has no cause
    yet.
    """
    return dc.replace(
        plan,
        differences=tuple(
            d if d.cause or not is_going(d) else dc.replace(d, cause=cause)
            for d in plan.differences
        ),
    )


def is_going(difference: Difference) -> bool:
    return difference.after in (None, BACK, *STOPPED)


def resolve_lowerings(plan: Plan, decided: Decided) -> Plan:
    """Return the plan with the decision's cause for the settings that the decision lowers.

    decided: returns the cause, and raises if the decision rests on a component that does not
    answer. For a whole file or unit, the resource has to name the cause itself.
    """
    records = {low.path for low in find_record_lowerings(plan)}
    open_ = [
        not d.cause
        and (d.path in records or any(low.kind != "unit" for low in find_difference_lowerings(d)))
        for d in plan.differences
    ]
    if not any(open_):
        return plan
    cause = decided()
    pairs = zip(plan.differences, open_, strict=True)
    return dc.replace(
        plan, differences=tuple(dc.replace(d, cause=cause) if lacks else d for d, lacks in pairs)
    )


def list_causeless_lowerings(plan: Plan) -> list[Lowering]:
    """List the lowerings of a plan that no difference gives a cause for."""
    known = [d for d in plan.differences if d.cause]
    return [low for low in list_lowerings(plan) if not any(explains(d, low) for d in known)]


def explains(difference: Difference, low: Lowering) -> bool:
    """Tell whether a difference covers this lowering: by the same path, by a directory that
    contains it, or by the file of its unit.
    """
    if low.key and low.key != difference.key:
        return False
    inside = low.path.startswith(f"{difference.path}/")
    return (
        difference.path == low.path
        or inside
        or (low.kind == "unit" and posixpath.basename(difference.path) == low.path)
    )


def require_causes(plan: Plan) -> None:
    """Refuse a plan that takes something away without a cause.

    Raise PlanError with CODE: the fault is this collection's.
    """
    causeless = [low for one in (*plan.first, plan) for low in list_causeless_lowerings(one)]
    if causeless:
        raise PlanError(
            journal_messages.LOWERING_WITHOUT_CAUSE.fill(things=_list_as_text(causeless))
        )


def _list_as_text(found: Iterable[Lowering]) -> str:
    return ", ".join(f"{low.kind} {low.path}{f' ({low.key})' if low.key else ''}" for low in found)
