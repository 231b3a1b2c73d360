# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a plan for CRI-O: the content of our drop-in, what differs from it, and whether the
daemon applies it already.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml,
    toml_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Difference,
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    crio_places,
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import low_level
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    messages as engine_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    base as crio_base,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    config,
    messages,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    facts as crio_facts,
)

BEGINNING = crio_places.BEGINNING
HEADER = f"{crio_places.FIRST_LINE}\n"
LEFTOVER = re.compile(
    r".*(?:~|\.(?:bak|orig|old|save|swp|tmp|rpmnew|rpmsave|rpmorig|dpkg-\w+|ucf-\w+))|#.*#"
)


@dc.dataclass(frozen=True)
class DesiredCrio:
    """The content of our drop-in.

    bases: for each of our handlers the handler whose table it copies, with that table.
    """

    handlers: Mapping[str, Mapping[str, Any]]
    default: str  # "" = the drop-in does not name one
    unwanted_default: tuple[str, ...]  # handlers that must not be the default in force
    cdi_dirs: tuple[str, ...]
    bases: Mapping[str, tuple[str, Mapping[str, Any]]] = dc.field(default_factory=dict)


def own_layer(layers: tuple[config.Layer, ...], where: config.CrioPaths) -> config.Layer | None:
    return next((layer for layer in layers if layer.path == where.drop_in), None)


def read_own_crio_drop_in(file: ObservedFile) -> ObservedFile:
    """Return the file in our drop-in's place. Raise PlanError if another owner wrote it."""
    if file.content is None or BEGINNING in file.content:
        return file
    raise PlanError(messages.CRIO_DROP_IN_OF_OTHERS.fill(), where=file.path)


def derive_desired_crio(
    policy: Policy,
    facts: crio_facts.CrioFacts,
    instance: Instance,
    decision: Decision,
    layers: tuple[config.Layer, ...],
) -> DesiredCrio:
    """Return the content that our drop-in needs. Raise PlanError if no handler can be copied for it.

    layers: the files that stay.
    """
    if not decision.handler:
        return DesiredCrio({}, "", (), policy.cdi_spec_dirs)
    where = facts.where.value
    others = tuple(layer for layer in layers if layer.path != where.drop_in)
    names = [h.name for h in policy.handlers]
    version = config.parse_crio_minor(instance.version)
    # check_shadow names one of our name in a file that is read after our drop-in.
    declared = config.merge_crio_tables(
        [
            _drop_handlers(layer, names) if is_read_later(where, layer) else layer.data
            for layer in others
        ],
        version,
        "files",
    )
    bases = {
        h.name: choose_crio_handler_base(
            policy, facts, instance, others, crio_base.choose_crio_base(declared, h, where)
        )
        for h in policy.handlers
    }
    handlers = {}
    for handler in policy.handlers_by_name:
        copied = {
            k: v
            for k, v in bases[handler.name][1].items()
            if k in crio_places.HANDLER_FIELDS and k not in releases.NOT_COPIED
        }
        require_sent(bases[handler.name][0], copied)
        handlers[handler.name] = {
            "runtime_path": handler.binary,
            "runtime_type": "oci",
            **copied,
            **dict(handler.options),
        }
    default, unwanted = "", tuple(names)
    if decision.default:
        default, unwanted = decision.handler, ()
    elif declared.default in names:
        # Another owner's file makes it the default: taken back only if asked for.
        default, unwanted = (
            (crio_base.choose_default_successor(declared, names), unwanted)
            if policy.set_as_default == "disabled"
            else ("", ())
        )
    return DesiredCrio(handlers, default, unwanted, policy.cdi_spec_dirs, bases)


def is_read_later(where: config.CrioPaths, layer: config.Layer) -> bool:
    """Tell whether a file is read after our drop-in."""
    return layer.path.startswith(where.directory.rstrip("/") + "/") and sort_by_walk_order(
        where, layer.path
    ) > sort_by_walk_order(where, where.drop_in)


def _drop_handlers(layer: config.Layer, names: list[str]) -> Mapping[str, Any]:
    """Return the content of a file without the handlers of these names."""
    kept = {name: table for name, table in layer.handlers.items() if name not in names}
    return {
        **layer.data,
        "crio": {
            **config.get_crio_section(layer.data, "crio"),
            "runtime": {**layer.runtime, "runtimes": kept},
        },
    }


def choose_crio_handler_base(
    policy: Policy,
    facts: crio_facts.CrioFacts,
    instance: Instance,
    others: tuple[config.Layer, ...],
    chosen: tuple[str, Mapping[str, Any]],
) -> tuple[str, Mapping[str, Any]]:
    """Return the handler to copy.

    A built-in handler is in no file, so its table comes from the daemon.
    """
    name, table = chosen
    if any(name in layer.handlers for layer in others) or policy.root != "/":
        return chosen
    force = crio_facts.get_settings_in_force(facts, instance)
    return name, force.handlers.get(name) or table


def require_sent(base: str, copied: Mapping[str, Any]) -> None:
    """Raise PlanError if the base has a value that cannot be copied.

    A value that was not sent can be copied only as a whole. In a table with names of another form
    even the names are unknown.
    """
    nowhere = [
        key
        for key, value in copied.items()
        if any(not hidden.sha256 for hidden in toml_file.list_hidden_values({key: value}))
    ]
    for key, value in copied.items():
        if (
            key in nowhere or any(map(file_places.is_hidden_value, value.values()))
            if isinstance(value, Mapping)
            else file_places.is_hidden_value(value)
        ):
            raise PlanError(engine_messages.HANDLER_VALUE_NOT_SENT.fill(handler=base, key=key))


def render_crio_drop_in(desired: DesiredCrio) -> str:
    """Write our drop-in. '' if it has no content."""
    head = []
    if desired.default:
        head.append(f"default_runtime = {toml.dump_toml_value(desired.default)}")
    if desired.cdi_dirs:
        head.append(f"cdi_spec_dirs = {toml.dump_toml_value(desired.cdi_dirs)}")
    parts = ["[crio.runtime]\n" + "".join(f"{line}\n" for line in head)] if head else []
    for name, table in desired.handlers.items():
        base = desired.bases[name][0] if name in desired.bases else ""
        note = (
            f"# All but the first two keys are copied from the handler {base}: CRI-O adds no defaults.\n"
            if base
            else ""
        )
        lines = "".join(
            f"{toml.write_toml_key(k)} = {toml_file.dump_with_hidden(v)}\n"
            for k, v in table.items()
        )
        parts.append(f"{note}[crio.runtime.runtimes.{toml.write_toml_key(name)}]\n{lines}")
    return HEADER + "\n" + "\n".join(parts) if parts else ""


def sort_by_walk_order(where: config.CrioPaths, path: str) -> list[str]:
    """Return the sort key of a file in filepath.Walk's order."""
    return path[len(where.directory) :].strip("/").split("/")


def check_shadow(
    where: config.CrioPaths, layers: tuple[config.Layer, ...], desired: DesiredCrio
) -> None:
    """Raise PlanError if a file that CRI-O reads after our drop-in overrides it: the change would
    have no effect.
    """
    for layer in layers:
        if not is_read_later(where, layer):
            continue
        names = [
            n
            for n in desired.handlers
            if n in layer.handlers and dict(layer.handlers[n]) != dict(desired.handlers[n])
        ]
        default = layer.runtime.get("default_runtime")
        if desired.default and default not in (None, desired.default):
            names.append(f"default_runtime = {default!r}")
        if (
            desired.cdi_dirs
            and host_paths.clean_directories(layer.runtime.get("cdi_spec_dirs", desired.cdi_dirs))
            != desired.cdi_dirs
        ):
            names.append("cdi_spec_dirs")
        if names:
            settings = ", ".join(names)
            overrides = messages.READ_LATER.fill(settings=settings, directory=where.directory)
            raise PlanError(overrides, where=layer.path)


def check_arguments(where: config.CrioPaths, desired: DesiredCrio) -> None:
    """Refuse what an argument of the daemon would override: no setting in a file takes precedence
    over it.
    """
    default, dirs, given = config.DEFAULT[0], config.CDI[0], where.given
    asked = {default: desired.default, dirs: ", ".join(desired.cdi_dirs)}
    set_by_flag = {default: given.default, dirs: ", ".join(given.cdi_dirs)}
    for flag, value in set_by_flag.items():
        if value and asked[flag] and value != asked[flag]:
            outranks = messages.FLAG_OUTRANKS.fill(flag=flag, value=value, wanted=asked[flag])
            raise PlanError(outranks, where=given.where or where.config, line=given.line)


def advise_on_stray_files(
    where: config.CrioPaths, layers: tuple[config.Layer, ...]
) -> tuple[str, ...]:
    return tuple(
        messages.STRAY_FILE.fill(path=layer.path, directory=where.directory)
        for layer in layers
        if LEFTOVER.fullmatch(posixpath.basename(layer.path))
    )


def advise_on_base_program(desired: DesiredCrio) -> tuple[str, ...]:
    """Advise on a base with a program of its own, such as a node system's shim: its properties are
    copied, its program is not.
    """
    copied = {
        name: (base, table)
        for name, (base, table) in desired.bases.items()
        if base not in desired.handlers
    }
    programs = {
        name: (base, crio_base.get_crio_handler_program(base, table))
        for name, (base, table) in copied.items()
    }
    return tuple(
        engine_messages.PROGRAM_NOT_TAKEN_OVER.fill(copied=base, program=program, handler=name)
        for name, (base, program) in programs.items()
        if low_level.is_foreign_runtime(program)
    )


def advise_on_tree_binaries(
    policy: Policy, facts: crio_facts.CrioFacts, decision: Decision
) -> tuple[str, ...]:
    """Advise on binaries that a tree does not have. They may come later, so the advice states what
    happens if they do not.
    """
    if policy.root == "/" or not decision.handler:
        return ()
    missing = [h.binary for h in policy.handlers if not facts.programs_there.get(h.binary)]
    row = messages.DEFAULT_PROGRAM_TO_COME if decision.default else messages.PROGRAM_TO_COME
    return tuple(row.fill(path=path) for path in missing)


def serves_desired_settings(
    force: config.Effective, desired: DesiredCrio, written: config.Layer | None
) -> bool:
    """Tell whether the running daemon applies all that our drop-in sets, and nothing that it used
    to set.
    """
    if force.source == "files":
        return True
    gone = set(written.handlers if written else ()) - set(desired.handlers)
    bases = {name: force.handlers.get(base, {}) for name, (base, _table) in desired.bases.items()}
    handlers = all(
        has_equal_keys(force.handlers.get(name), table, bases.get(name, {}))
        for name, table in desired.handlers.items()
    )
    default = (
        force.default == desired.default
        if desired.default
        else force.default not in desired.unwanted_default
    )
    return (
        handlers
        and default
        and not gone & set(force.handlers)
        and (not desired.cdi_dirs or force.cdi_dirs == desired.cdi_dirs)
    )


def has_equal_keys(
    have: Mapping[str, Any] | None, want: Mapping[str, Any], base: Mapping[str, Any]
) -> bool:
    """Tell whether each key that we set is equal.

    The deprecated global `conmon` settings override those of every handler, the base included.
    """
    if have is None:
        return False
    return all(
        (have.get(k) or None) == (v or None)
        or (k.startswith("monitor_") and have.get(k) == base.get(k))
        for k, v in want.items()
    )


def list_hidden_crio_values(desired: DesiredCrio) -> list[toml_file.Hidden]:
    """Return the values of the handlers that only the node knows, in the order of the text."""
    return [
        value
        for table in desired.handlers.values()
        for value in toml_file.list_hidden_values(table)
    ]


Change = tuple[tuple[transaction.Change, ...], tuple[tuple[str, str, str], ...]]


def build_crio_change(
    where: config.CrioPaths,
    before: ObservedFile | None,
    after: str,
    copied: list[toml_file.Hidden],
    same: bool,
) -> Change:
    """Build the change that leaves exactly this text there ('' = no file), and the pair of texts
    for --diff.

    copied: the hidden values in the text, which the host copies in place.
    same: whether the values in the file are equal to the wanted ones.
    """
    path, present = where.drop_in, before is not None and before.exists
    old = (before.content or "") if before and present else ""
    keep = before.keep if before else None
    if (not after and not present) or (
        present
        and after
        and same
        and old == (file_places.show_own_text(after, keep) if keep else after)
    ):
        return (), ()
    diff = ((path, old, after),)
    if not after:
        return ({"path": path, "op": "remove", "expect": before.sha256 if before else None},), diff
    expect = before.sha256 if before and present else None
    return (toml_file.build_toml_write(path, expect, after, copied, where.keep),), diff


def list_crio_differences(
    where: config.CrioPaths, written: config.Layer | None, desired: DesiredCrio, changed: bool
) -> tuple[Difference, ...]:
    """List the differences key by key, as a person reads them. Empty if nothing changes."""
    if not changed:
        return ()
    before, after = (
        flatten_crio_tree(written.data if written else {}),
        flatten_crio_tree(build_crio_tree(desired)),
    )
    keys = [k for k in {**before, **after} if before.get(k) != after.get(k)]
    if not keys:
        whole = messages.WHOLE_FILE.fill()
        return (Difference("file", where.drop_in, "", "other text", "our text", whole),)
    return tuple(
        Difference(
            "file",
            where.drop_in,
            k,
            *show_value_pair(before.get(k), after.get(k)),
            explain_crio_key(k, desired),
        )
        for k in keys
    )


def show_value_pair(before: Any, after: Any) -> tuple[Any, Any]:
    """Return both values as they may be shown. Two hidden values that look the same remain
    distinguishable.
    """
    one, other = (
        str(value) if isinstance(value, toml_file.Hidden) else value for value in (before, after)
    )
    return one, f"{other}, another one" if one == other else other


def build_crio_tree(desired: DesiredCrio) -> dict[str, Any]:
    runtime: dict[str, Any] = {"runtimes": {n: dict(t) for n, t in desired.handlers.items()}}
    if desired.default:
        runtime["default_runtime"] = desired.default
    if desired.cdi_dirs:
        runtime["cdi_spec_dirs"] = list(desired.cdi_dirs)
    return {"crio": {"runtime": runtime}}


def flatten_crio_tree(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat.update(
            flatten_crio_tree(value, f"{prefix}{key}.")
            if isinstance(value, Mapping)
            else {prefix + key: value}
        )
    return flat


def explain_crio_key(key: str, desired: DesiredCrio) -> str:
    last = key.rsplit(".", 1)[-1]
    wanted = desired.default in desired.handlers
    reasons = {
        "default_runtime": messages.DEFAULT_FOR_GPUS if wanted else messages.CRIO_DEFAULT_UNWANTED,
        "cdi_spec_dirs": engine_messages.CDI_DIRECTORIES_SET,
        "runtime_path": messages.RUNTIME_PATH,
        "runtime_type": messages.RUNTIME_TYPE,
    }
    if not desired.handlers and last not in ("default_runtime", "cdi_spec_dirs"):
        return engine_messages.NO_HANDLER_WANTED.fill()
    if last in reasons:
        return reasons[last].fill()
    tables = (
        (f"crio.runtime.runtimes.{name}.", base) for name, (base, _doubt) in desired.bases.items()
    )
    base = next((base for table, base in tables if key.startswith(table)), "")
    return messages.CRIO_COPIED.fill(base=base) if base else messages.HANDLER_UNWANTED.fill()
