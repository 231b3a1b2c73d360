# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Derive the settings that a containerd's CRI table needs."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    Decision,
    Handler,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    Path,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import low_level
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.base import (
    Base,
    fits_runc_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_handlers,
)

ANNOTATIONS = "container_annotations"
_NOTHING: tuple[Any, ...] = ("", 0, False, [])


@dc.dataclass(frozen=True)
class CriSetting:
    """One key below the CRI table. An explicit one is written even if the key has that value
    anyway.
    """

    path: Path
    value: Any
    why: str
    explicit: bool = False


def join_settings(wanted: list[CriSetting], more: list[CriSetting]) -> list[CriSetting]:
    """Join two lists of settings, each key once. The later one counts."""
    return list({s.path: s for s in (*wanted, *more)}.values())


def list_settings_beyond(wanted: list[CriSetting], more: list[CriSetting]) -> list[CriSetting]:
    """Return the settings of `more` that are not wanted yet.

    The annotations that a handler passes on add up. For any other key, the wanted setting counts.
    """
    said = {w.path: w.value for w in wanted}
    beyond = [s for s in more if s.path not in said]
    lists = [
        s
        for s in more
        if s.path in said and s.path[-1] == ANNOTATIONS and not set(s.value) <= set(said[s.path])
    ]
    return [
        *beyond,
        *(dc.replace(s, value=list(dict.fromkeys((*s.value, *said[s.path])))) for s in lists),
    ]


def intersect_setting(setting: CriSetting, entry: Mapping[str, Any]) -> CriSetting | None:
    """Return the part of a setting that another entry of its handler has as well, None if they
    differ.

    Of annotations, keep the ones in both.
    """
    value = toml.look_up_toml(entry, setting.path[3:])
    if setting.path[-1] == ANNOTATIONS and isinstance(value, list):
        return dc.replace(setting, value=[item for item in value if item in setting.value])
    return setting if value == setting.value else None


def derive_containerd_settings(
    policy: Policy,
    decision: Decision,
    files: FileSet,
    cri: Mapping[str, Any],
    version: Version,
    reset_to: str,
    bases: Mapping[str, Base],
) -> list[CriSetting]:
    """Return all settings that the decision asks of the CRI table.

    cri: what is in force without our own drop-in. reset_to: the default handler from before our
    first change.
    bases: what each wanted handler is copied from.
    """
    default = _list_default_settings(policy, decision, cri, reset_to)
    default_after = str(
        default[0].value
        if default
        else toml.look_up_toml(cri, ("containerd", "default_runtime_name"), "")
    )
    settings: list[CriSetting] = []
    if decision.handler:
        if not releases.get_release_facts(version).keeps_runc:
            settings += _list_runc_settings(files, cri, version, default_after, bases)
        for handler in policy.handlers_by_name:
            settings += _list_handler_settings(handler, decision, bases[handler.name])
        settings += _list_successor_settings(default, bases)
    settings += default
    settings += _list_cdi_settings(policy, decision, cri, version)
    # the properties of a replaced handler count before built-in ones
    return list({setting.path: setting for setting in settings}.values())


def _list_handler_settings(handler: Handler, decision: Decision, base: Base) -> list[CriSetting]:
    origin, entry = base.origin, base.entry
    at: Path = ("containerd", "runtimes", handler.name)
    settings = [
        CriSetting(
            (*at, "runtime_type"),
            releases.RUNC_TYPE,
            about_handlers.TYPE_NEEDED.fill(handler=origin),
        )
    ]
    if entry.get("runtime_type", "") not in ("", releases.RUNC_TYPE):
        why = about_handlers.TYPE_RENAMED.fill(type=entry["runtime_type"], handler=origin)
        settings = [CriSetting((*at, "runtime_type"), releases.RUNC_TYPE, why)]
    settings += [
        CriSetting((*at, k), v, about_handlers.COPIED.fill(handler=origin))
        for k, v in _list_copied_settings(entry).items()
    ]
    # containerd hands no annotation on to an OCI runtime that its handler does not list.
    annotations = [
        *(entry.get(ANNOTATIONS) or []),
        *(f"{prefix.rstrip('/')}/*" for prefix in decision.annotation_prefixes),
    ]
    if annotations:
        why = about_handlers.ANNOTATIONS_READ.fill()
        settings.append(CriSetting((*at, ANNOTATIONS), list(dict.fromkeys(annotations)), why))
    copied = {k: v for k, v in base.options.items() if k != "BinaryName"}
    options = {"BinaryName": handler.binary, **copied, **handler.options}
    return settings + [
        CriSetting((*at, "options", key), value, _explain_option(handler, base, key))
        for key, value in options.items()
    ]


def _list_copied_settings(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties other than type, annotations and options. Empty ones are left out: they
    are the engine's own.
    """
    known = {
        k: v
        for k, v in entry.items()
        if (k,) in containerd_places.HANDLER and not isinstance(v, Mapping)
    }
    # our type has the values of the last two in its options
    left = (
        "runtime_type",
        ANNOTATIONS,
        *releases.OF_LINUX,
    )
    return {k: v for k, v in known.items() if k not in left and v not in _NOTHING}


def _explain_option(handler: Handler, base: Base, key: str) -> str:
    if key in handler.options:
        return about_handlers.SET_BY_USER.fill()
    if key == "BinaryName":
        return about_handlers.RUNS_NVIDIA.fill()
    return (
        base.cgroup_why
        if key == "SystemdCgroup"
        else about_handlers.COPIED.fill(handler=base.origin)
    )


def _list_runc_settings(
    files: FileSet,
    cri: Mapping[str, Any],
    version: Version,
    default_after: str,
    bases: Mapping[str, Base],
) -> list[CriSetting]:
    """Return settings that keep runc on 1.5 to 1.7, [] if it needs none.

    As soon as a file names any runtime, the built-in runc is gone, and a partial one has no type.
    One that was gone already gets the cgroup driver of the handlers that are there.
    """
    named = [
        f
        for f in files.files
        for t in (containerd_places.V1_NAMES, containerd_places.V2_NAMES)
        if toml.look_up_toml(f.doc.data, (*t, "containerd", "runtimes"))
    ]
    entry = toml.look_up_toml(cri, ("containerd", "runtimes", "runc"))
    if named and entry is None and default_after != "runc":
        return []
    at: Path = ("containerd", "runtimes", "runc")
    why = about_handlers.RUNC_KEPT.fill(version=str(version))
    settings = []
    if not named or entry is None or not entry.get("runtime_type"):
        settings.append(CriSetting((*at, "runtime_type"), releases.RUNC_TYPE, why, explicit=True))
    if not named or entry is None:
        base = next(iter(bases.values()), None) if named else None
        driver = (
            (base.systemd, base.cgroup_why)
            if base
            else (False, about_handlers.RUNC_DRIVER_KEPT.fill(version=str(version)))
        )
        settings.append(CriSetting((*at, "options", "SystemdCgroup"), *driver, explicit=True))
    return settings


def _list_successor_settings(
    default: list[CriSetting], bases: Mapping[str, Base]
) -> list[CriSetting]:
    """Return settings that give runc the properties of the handler that it replaces as the default.

    Return [] unless runc becomes the default and no file declares its properties.
    """
    base = next(iter(bases.values()), None)
    if (
        not default
        or default[0].value != "runc"
        or base is None
        or base.origin == "runc"
        or base.runc_declared
    ):
        return []
    at: Path = ("containerd", "runtimes", "runc")
    why = about_handlers.REPLACES_DEFAULT.fill(handler=base.origin)
    values: dict[Path, Any] = {
        ("runtime_type",): releases.RUNC_TYPE,
        **{(k,): v for k, v in _list_copied_settings(base.entry).items()},
    }
    if base.entry.get(ANNOTATIONS):
        values[(ANNOTATIONS,)] = base.entry[ANNOTATIONS]
    values.update({("options", k): v for k, v in base.options.items() if k != "BinaryName"})
    return [CriSetting((*at, *key), value, why, explicit=True) for key, value in values.items()]


def _list_default_settings(
    policy: Policy, decision: Decision, cri: Mapping[str, Any], reset_to: str
) -> list[CriSetting]:
    at: Path = ("containerd", "default_runtime_name")
    if decision.default and decision.handler:
        why = next(
            (r.why for r in decision.reasons if r.what == "default"), about_handlers.DECIDED.fill()
        )
        return [CriSetting(at, decision.handler, why)]
    now = toml.look_up_toml(cri, at)
    if now not in [h.name for h in policy.handlers]:
        return []
    before = _choose_default_instead(policy, cri, reset_to)
    return [CriSetting(at, before, about_handlers.NOT_DEFAULT.fill(handler=now))]


def _choose_default_instead(policy: Policy, cri: Mapping[str, Any], reset_to: str) -> str:
    """Return the default handler of a host whose default must not be ours any more.

    It runs what is not asked to be anything else: neither the NVIDIA runtime under another name,
    such as the handlers nvidia-cdi and nvidia-legacy of NVIDIA's GPU Operator, nor virtual machines.
    """
    ours = [handler.name for handler in policy.handlers]
    fitting = [
        name
        for name, entry in toml.look_up_toml(cri, ("containerd", "runtimes"), {}).items()
        if name not in ours and isinstance(entry, Mapping) and _runs_plain_containers(entry)
    ]
    order = (reset_to, "runc", *fitting)
    return next((name for name in order if name in fitting), "runc")


def _runs_plain_containers(entry: Mapping[str, Any]) -> bool:
    program = toml.look_up_toml(entry, ("options", "BinaryName"))
    return fits_runc_entry(entry) and not low_level.is_nvidia_runtime(program)


def _list_cdi_settings(
    policy: Policy, decision: Decision, cri: Mapping[str, Any], version: Version
) -> list[CriSetting]:
    """Return settings for CDI. The switch exists in 1.7 (off) and 2.0 to 2.3 (on); 1.6 has none,
    2.4 warns of an unknown key.
    """
    kind = releases.get_release_facts(version).cdi
    settings = []
    if decision.enable_cdi and (kind == "off" or (kind == "on" and cri.get("enable_cdi") is False)):
        why = about_handlers.CDI_OFF_IN_1_7 if kind == "off" else about_handlers.CDI_SWITCHED_OFF
        settings.append(CriSetting(("enable_cdi",), True, why.fill()))
    dirs = host_paths.clean_directories(cri.get("cdi_spec_dirs", CDI_DIRS))
    if policy.cdi_spec_dirs and kind != "none" and dirs != policy.cdi_spec_dirs:
        settings.append(
            CriSetting(
                ("cdi_spec_dirs",), list(policy.cdi_spec_dirs), about_handlers.SPEC_DIRS_SET.fill()
            )
        )
    return settings


def list_unmet_settings(
    cri: Mapping[str, Any], wanted: list[CriSetting], explicit: Mapping[str, Any] | None = None
) -> list[CriSetting]:
    """Return the settings that are not in force. Explicit ones are looked up in `explicit`, the
    files' own data, if it is given.
    """
    return [
        w
        for w in wanted
        if toml.look_up_toml(explicit if w.explicit and explicit is not None else cri, w.path)
        != w.value
    ]


def get_final_default(cri: Mapping[str, Any], wanted: list[CriSetting]) -> CriSetting:
    """Return the default handler that the files give in the end, desired or not."""
    at: Path = ("containerd", "default_runtime_name")
    return CriSetting(
        at,
        toml.look_up_toml(apply_settings_to_table(cri, wanted), at, "runc"),
        about_handlers.AS_IN_FILES.fill(),
    )


def apply_settings_to_table(cri: Mapping[str, Any], wanted: list[CriSetting]) -> dict[str, Any]:
    """Return the CRI table with the settings made, and nothing else changed."""
    result: dict[str, Any] = toml.copy_toml_value(dict(cri))
    for setting in wanted:
        at = result
        for key in setting.path[:-1]:
            at = at.setdefault(key, {})
        at[setting.path[-1]] = setting.value
    return result


def list_setting_values(settings: list[CriSetting], names: Path) -> list[tuple[Path, Any]]:
    return [((*names, *setting.path), setting.value) for setting in settings]
