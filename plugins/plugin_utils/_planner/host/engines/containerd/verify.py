# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a containerd itself: before the change by a dump of the staged files, after the restart by
its CRI status.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    transaction,
    versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Lookup
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    build_query_failure,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    output_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    Path,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import low_level, traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    restarts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    options,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.cri_settings import (
    CriSetting,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.edit import (
    FileChange,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_restarts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

# Keys that are named if a change would touch them by mistake; all others are only counted.
NAMED = (
    "version", "root", "state", "imports", "disabled_plugins", "required_plugins", "sandbox_image", "sandbox", "snapshotter", "config_path",
    "enable_cdi", "cdi_spec_dirs", "default_runtime_name", "runtime_type", "runtime_path", "BinaryName", "SystemdCgroup", "Root",
    "base_runtime_spec", "pod_annotations", "container_annotations", "privileged_without_host_devices", "sandboxer", "bin_dir", "conf_dir",
    "stream_server_address", "stream_server_port", "enable_selinux", "systemd_cgroup", "device_ownership_from_security_context",
)  # fmt: skip

STATUS_NAMES: Mapping[str, str] = {
    "runtime_type": "runtimeType", "default_runtime_name": "defaultRuntimeName", "enable_cdi": "enableCDI", "cdi_spec_dirs": "cdiSpecDirs",
    "container_annotations": "ContainerAnnotations", "pod_annotations": "PodAnnotations", "base_runtime_spec": "baseRuntimeSpec",
    "privileged_without_host_devices": "privileged_without_host_devices",
}  # fmt: skip


def get_status_path(setting: CriSetting) -> tuple[str, ...] | None:
    """Return the path of this key in CRI's verbose status, None if its name there is not certain."""
    last = setting.path[-1]
    if setting.path[-2:-1] == ("options",):
        there = ("config", *setting.path)
        # what is not listed does not travel
        return there if selection.get_listed_shape(output_places.STATUS, there) else None
    return ("config", *setting.path[:-1], STATUS_NAMES[last]) if last in STATUS_NAMES else None


@dc.dataclass(frozen=True)
class ServingFacts:
    """The answers of daemons about themselves, and of systemd about their units.

    answers: the answer of a daemon over CRI, or the error, by its socket, the method and its
    process, 0 for any. units: the properties of a unit by its name, {} if it is not known.
    """

    answers: Lookup[tuple[str, str, int], Mapping[str, Any]]
    units: Lookup[str, Mapping[str, str]]

    def get_answer(self, socket: str, method: str, pid: int) -> Mapping[str, Any]:
        """Return an answer. Raise QueryFailed for an error."""
        answer = self.answers.get((socket, method, pid))
        if "error" in answer:
            qid = queries.ask_for_cri(socket, method)["id"]
            raise build_query_failure(qid, answer["error"])
        return answer

    def find_answer(self, socket: str, method: str, pid: int = 0) -> Mapping[str, Any]:
        """Return an answer, {} for an error."""
        answer = self.answers.get((socket, method, pid))
        return {} if "error" in answer else answer


def read_serving_facts(obs: Observation) -> ServingFacts:
    return ServingFacts(
        Lookup(lambda to: obs.get_socket_answer(queries.ask_for_cri(to[0], to[1]), to[2])),
        Lookup(obs.get_unit),
    )


def is_containerd_status_current(
    facts: ServingFacts, instance: Instance, wanted: list[CriSetting]
) -> bool:
    """Tell whether the running daemon already works with these keys. A key without a certain place
    in the status is not compared.
    """
    info = read_containerd_status(
        facts.get_answer(instance.socket, "Status", instance.pid).get("info") or {}, instance
    )
    if not isinstance(info.get("config"), Mapping):
        return False
    paths = [(w, get_status_path(w)) for w in wanted]
    return all(
        _is_wanted_value(toml.look_up_toml(info, path), w.value, path) for w, path in paths if path
    )


def read_containerd_status(info: Mapping[str, Any], instance: Instance) -> Mapping[str, Any]:
    """Return the status with the options of handlers by their own names; it spells them as the
    files do.
    """
    version, runtimes = (
        versions.parse_engine_version(instance.version),
        toml.look_up_toml(info, ("config", "containerd", "runtimes")),
    )
    if version is None or not isinstance(runtimes, Mapping):
        return info
    containerd = {
        **info["config"]["containerd"],
        "runtimes": options.read_options_of_handlers(runtimes, version),
    }
    return {**info, "config": {**info["config"], "containerd": containerd}}


def _is_wanted_value(found: Any, wanted: Any, path: tuple[str, ...]) -> bool:
    """Tell whether a value of the status is the wanted one.

    A value of a shape that does not travel cannot be distinguished from another such value.
    """
    shape = selection.get_listed_shape(output_places.STATUS, path)
    return bool(
        found == wanted
        or (found == selection.HIDDEN and not selection.fits_listed_shape(shape, wanted))
    )


def build_containerd_health_check(
    instance: Instance, wanted: list[CriSetting], version: Version
) -> transaction.Cri:
    """Return the check that CRI answers again, and reports what we wrote.

    A bad CRI section leaves the unit active, so nothing less is enough.
    """
    require: list[transaction.HealthNeed] = []
    handlers = list(
        dict.fromkeys(w.path[2] for w in wanted if w.path[:2] == ("containerd", "runtimes"))
    )
    if version.series >= (2, 0):  # runtimeHandlers in the status
        require += [{"handler": name} for name in handlers]
    for setting in wanted:
        path = get_status_path(setting)
        if path and (setting.path[-1] in ("BinaryName", "SystemdCgroup") or len(setting.path) < 3):
            require.append({"path": list(path), "equals": setting.value})
            if path[-2] == "options":  # 1.x reports options as the files spell them
                require[-1]["folded"] = True
    return {
        "kind": "cri",
        "socket": instance.socket,
        "timeout": traits.SERVES_WITHIN,
        "require": require,
    }


def refuse_deadly_restart(facts: ServingFacts, instance: Instance) -> None:
    """Raise PlanError if a restart would kill all containers, or if the unit is masked.

    containerd's unit leaves containers alone by KillMode=process. An override that does not would
    kill them all.
    """
    unit = facts.units.get(instance.unit)
    if unit.get("LoadState") == "masked":
        raise PlanError(about_restarts.MASKED.fill(unit=instance.unit), where=instance.unit)
    mode = unit.get("KillMode", "process")
    if mode not in ("process", "none", ""):
        raise PlanError(
            about_restarts.KILLS_CONTAINERS.fill(unit=instance.unit, mode=mode), where=instance.unit
        )


def advise_on_server_restart(facts: ServingFacts, unit: str) -> tuple[str, ...]:
    """Return advice for a server whose restart ends before its API serves, () for any other unit.

    k3s and RKE2 tell systemd that they are ready once the API serves. If the unit's Type ignores
    that, its restart ends at once.
    """
    kind = (
        facts.units.get(unit).get("Type", "notify")
        if unit in known.list_server_units()
        else "notify"
    )
    if kind.startswith("notify"):
        return ()
    return (about_restarts.ENDS_EARLY.fill(unit=unit, type=kind),)


def build_unloaded_difference(instance: Instance) -> Difference:
    return Difference(
        "unit",
        instance.unit,
        "configuration",
        "an older one is in use",
        "as in the files",
        about_restarts.OLDER_IN_USE.fill(),
    )


def add_restart_after_removal(
    policy: Policy, instance: Instance, plan: Plan, advice: tuple[str, ...]
) -> Plan:
    """Return the plan of `state: absent` with the restart that makes the daemon forget our
    handlers, without one if it has none of them.
    """
    # its manager restarts it for the change, whatever it has loaded
    if any(restart.action == "wait" for restart in plan.restarts):
        kept = (
            (about_restarts.NEVER_NOT_KEPT.fill(path=instance.config_path, unit=instance.unit),)
            if restarts.is_restart_left(policy)
            else ()
        )
        return dc.replace(plan, advice=(*plan.advice, *advice, *kept))
    runs = {h.name: str(instance.handlers.get(h.name) or "") for h in policy.handlers}
    loaded = any(
        runs[h.name] == h.binary or low_level.is_nvidia_runtime(runs[h.name])
        for h in policy.handlers
    )
    if not plan.changes or not instance.running or policy.root != "/" or not loaded:
        differences = tuple(d for d in plan.differences if d.what != "unit")
        return dc.replace(
            plan,
            differences=differences,
            restarts=(),
            health=(),
            pending=(),
            expect_units={},
            advice=(*plan.advice, *advice),
        )
    health: transaction.Cri = {
        "kind": "cri",
        "socket": instance.socket,
        "timeout": traits.SERVES_WITHIN,
        "require": [],
    }
    restart = known.restart(instance.unit, about_restarts.LOSES_HANDLERS.fill())
    done = restarts.plan_engine_restart(policy, instance, restart, (health,))
    return dc.replace(
        plan,
        advice=(*plan.advice, *advice),
        restarts=done.restarts,
        health=done.health,
        pending=done.pending,
        expect_units=done.expect_units,
    )


# ---------------------------------------------------------------- the staged tree


def validate_staged_containerd(
    instance: Instance,
    files: FileSet,
    changes: list[FileChange],
    wanted: list[CriSetting],
) -> dict[str, Any]:
    """Return the plan fields that have the engine's own binary read the staged files, and allow
    only our keys to differ.

    Return {} if there is no binary, or if it cannot read staged files here.
    """
    every = {f.path: f.real for f in files.files} | {c.path: c.real for c in changes}
    argv = [instance.binary, "-c", "{stage}" + instance.config_path, "config", "dump"]
    baseline = (
        [instance.binary, "-c", instance.config_path, "config", "dump"]
        if files.root and wanted
        else None
    )
    check: transaction.Validator = {
        "argv": argv, "timeout": 30, "refuse": _refuse_staged(wanted), "require": _require(wanted),
        "baseline": baseline, "allow": _allow(wanted), "names": list(NAMED),
        "why": about_restarts.VALIDATED.fill(), "process": instance.process,
    }  # fmt: skip
    if not instance.binary or not known.get_manager_place(instance.manager).dump:
        return {}
    return {
        "stage_files": tuple(
            {"name": path.lstrip("/"), "source": real} for path, real in every.items()
        ),
        "substitute": tuple(_list_import_substitutes(files, changes)),
        "validate": (check,),
    }


def _list_import_substitutes(files: FileSet, changes: list[FileChange]) -> list[tuple[str, str]]:
    """Return the replacements that lead absolute imports into the staged tree. Relative ones lead
    there by themselves.
    """
    substitutes: list[tuple[str, str]] = []
    after = {f.path: f.doc for f in files.files} | {c.path: c.after for c in changes}
    for doc in after.values():
        for pattern in doc.data.get("imports", []):
            if pattern.startswith("/"):
                substitutes += [(f"{q}{pattern}{q}", f"{q}{{stage}}{pattern}{q}") for q in "\"'"]
    return list(dict.fromkeys(substitutes))


def _require(wanted: list[CriSetting]) -> list[transaction.Sign]:
    programs = [
        (_build_key_pattern(w.path), str(w.value)) for w in wanted if w.path[-1] == "BinaryName"
    ]
    return [
        {
            "pattern": rf"\s*{key} = [\"']{re.escape(program)}[\"']\s*",
            "says": about_restarts.DUMP_WITHOUT_PROGRAM.fill(program=program),
        }
        for key, program in programs
    ]


def _refuse_staged(wanted: list[CriSetting]) -> list[transaction.Sign]:
    """Return the signs that one of our keys is unknown.

    2.x prints `Ignoring unknown key ... key="containerd runtimes nvidia"` and goes on. Its lines
    from before are about the keys of others.
    """
    keys = sorted({" ".join(w.path[:3]) for w in wanted})
    unknown = about_restarts.DUMP_KEY_UNKNOWN
    return [
        {"pattern": rf"Ignoring unknown key.*key=\"?{re.escape(k)}\b", "says": unknown.fill(key=k)}
        for k in keys
    ]


def _build_key_pattern(path: Path) -> str:
    """Return the pattern of a key. 1.x prints options as the files spell them, and reads them in
    any spelling.
    """
    name = re.escape(path[-1])
    return f"(?i:{name})" if path[-2:-1] == ("options",) else name


def _allow(wanted: list[CriSetting]) -> list[str]:
    """Return patterns of every line of the dump that may differ.

    These are our tables' headers, our keys, a new handler's zero values, and the list of imports.
    """
    names = "|".join(
        sorted({re.escape(w.path[2]) for w in wanted if w.path[:2] == ("containerd", "runtimes")})
    )
    keys = sorted({_build_key_pattern(w.path) for w in wanted})
    patterns = (
        [r"imports = .*", r"\s*", rf"(?:{'|'.join(keys)}) = .*"]
        if keys
        else [r"imports = .*", r"\s*"]
    )
    if names:
        patterns += [
            rf"\[plugins\.[\"']?[a-z0-9.]+[\"']?\.containerd\.runtimes\.[\"']?(?:{names})[\"']?(?:\.options)?\]"
        ]
        # A new entry is printed with all its keys, and each release has more of them; a key that
        # lost its value shows by that value.
        patterns += [r"\w+ = (?:''|\"\"|0|false|\[\]|[\"'](?:0s|podsandbox)[\"'])"]
    return patterns


def get_pod_cgroup_parent(status: Mapping[str, Any], handler: str) -> str:
    """Return the cgroup of a verification's pod, '' if the engine chooses it, as CRI-O does.

    containerd takes the path as it comes: with the systemd driver, runc refuses one that is not a
    slice.
    """
    config = (status.get("info") or {}).get("config") or {}
    runtimes = config.get("containerd") if isinstance(config, Mapping) else None
    if not isinstance(runtimes, Mapping):
        return ""
    name = handler or str(runtimes.get("defaultRuntimeName") or "")
    options = ((runtimes.get("runtimes") or {}).get(name) or {}).get("options") or {}
    return "system.slice" if options.get("SystemdCgroup") or config.get("systemdCgroup") else ""
