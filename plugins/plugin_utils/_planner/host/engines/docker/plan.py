# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a plan for Docker: the content of daemon.json, what the daemon applies already, and
its reload or restart.
"""

from __future__ import annotations

import dataclasses as dc
import hashlib
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    transaction,
    versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import json_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    STANDARD_PATH,
    Decision,
    Difference,
    Handler,
    Instance,
    Plan,
    Policy,
    Restart,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import low_level, traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    messages as engine_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    restarts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config,
    gpus_flag,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    facts as docker_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import diff

# CDI is there behind features.cdi from 25.0, and on unless features.cdi is false from 28.2 (its
# release notes).
CDI_SINCE = (25, 0)
CDI_ON_SINCE = (28, 2)
# moby pull request 37871: before, dockerd refuses to start with runtimes by flag and by file
RUNTIMES_MERGED_SINCE = (
    18,
    9,
)
VALIDATE_SINCE = (23, 0)
NAMED = 10  # containers that are named one by one
BUILT_IN = "runc"


@dc.dataclass(frozen=True)
class DesiredDocker:
    """The wanted content of the file, and what the daemon has to report after it."""

    tree: Mapping[str, Any]
    paths: Mapping[str, str]  # handler -> its program as the daemon reports it
    default: str = ""  # "" = any
    cdi: bool = False
    dirs: tuple[str, ...] = ()


@dc.dataclass(frozen=True)
class Lag:
    """The part of the configuration that the running daemon does not apply yet.

    reload: a reload applies it. restart: only a restart does. why: the reason of the restart.
    """

    reload: bool
    restart: bool
    why: Sentence = messages.SWITCHES_AT_START


def parse_docker_series(instance: Instance) -> tuple[int, int]:
    parsed = versions.parse_engine_version(instance.version)
    if parsed is None:
        raise PlanError(messages.DOCKER_VERSION_UNKNOWN.fill(), where=instance.config_path)
    return parsed.series


# ---------------------------------------------------------------- the desired state


def derive_desired_docker(
    policy: Policy,
    facts: docker_facts.DockerFacts,
    instance: Instance,
    decision: Decision,
    doc: json_text.JsonDocument,
) -> DesiredDocker:
    """Return the wanted content of the file. Raise PlanError if it cannot have that content.

    doc: the file as it is.
    """
    flags = facts.flags.value
    tree: dict[str, Any] = {}
    paths: dict[str, str] = {}
    before = docker_facts.get_kept_docker_file(facts, doc.path)
    for handler in policy.handlers_by_name if decision.handler else ():
        entry, paths[handler.name] = derive_docker_runtime(doc, flags, handler, before)
        if entry:
            tree.setdefault("runtimes", {})[handler.name] = entry
    if (
        tree
        and config.list_flag_runtimes(flags)
        and parse_docker_series(instance) < RUNTIMES_MERGED_SINCE
    ):
        raise build_flag_conflict_error(
            "runtimes",
            doc.path,
            flags,
            ", ".join(config.list_flag_runtimes(flags)),
            ", ".join(tree["runtimes"]),
        )
    default = get_wanted_docker_default(policy, decision, doc, flags, before)
    if default and not config.get_flag_value(flags, "default-runtime"):
        tree["default-runtime"] = default
    forced = policy.single and policy.cdi == "enabled"
    cdi = decision.injection == "native-cdi" or forced
    if forced and not instance.cdi.able:
        raise PlanError(messages.DOCKER_NO_CDI.fill(version=instance.version), where=doc.path)
    if cdi and must_switch(instance, doc, flags):
        tree["features"] = {"cdi": True}
    dirs = get_wanted_docker_cdi_dirs(policy, instance, doc, flags)
    if (
        dirs
        and list(dirs) != json_text.look_up_json(doc, ("cdi-spec-dirs",))
        and not config.get_flag_value(flags, "cdi-spec-dirs")
    ):
        tree["cdi-spec-dirs"] = list(dirs)
    return DesiredDocker(tree, paths, default, cdi, dirs)


def derive_docker_runtime(
    doc: json_text.JsonDocument,
    flags: config.Flags,
    handler: Handler,
    before: Mapping[str, Any] | None,
) -> tuple[dict[str, Any], str]:
    """Return what to write of one handler, and the program that it will have.

    Raise PlanError if a runtime of another owner has the name.
    """
    added = config.list_flag_runtimes(flags)
    if handler.name in added:
        if not is_same_program(added[handler.name], handler.binary):
            program = added[handler.name]
            values = {"flag": config.ADD_RUNTIME, "runtime": handler.name}
            if file_places.is_hidden_value(program):
                what = messages.HIDDEN_RUNTIME_BY_FLAG.fill(**values)
            else:
                what = messages.RUNTIME_BY_FLAG.fill(**values, program=program)
            raise PlanError(what, where=flags.where or doc.path, line=flags.line)
        return {}, added[handler.name]
    path = ("runtimes", handler.name)
    present = json_text.look_up_json(doc, path)
    if present is None:
        return {"path": handler.binary, **handler.options}, handler.binary
    program = present.get("path")
    options = {k: v for k, v in handler.options.items() if present.get(k) != v}
    if isinstance(program, str) and is_same_program(program, handler.binary):
        return options, program
    # nvidia-ctk's bare name, in a folder that dockerd does not search
    if program == posixpath.basename(handler.binary):
        return {"path": handler.binary, **options}, handler.binary
    new_here = before is not None and handler.name not in (before.get("runtimes") or {})
    adopted = low_level.is_nvidia_runtime(program)
    if not (new_here or adopted or (program and handler.chosen)):
        raise build_other_runtime_error(handler.name, doc, path, present)
    return {"path": handler.binary, **options}, handler.binary


def is_same_program(one: str, other: str) -> bool:
    """Tell whether both are the same program.

    nvidia-ctk writes the bare name. dockerd looks it up in the PATH that systemd gave it, which has
    only the standard folders.
    """
    return one == other or (
        posixpath.dirname(other) in STANDARD_PATH and one == posixpath.basename(other)
    )


def build_other_runtime_error(
    name: str, doc: json_text.JsonDocument, path: json_text.Path, present: Mapping[str, Any]
) -> PlanError:
    """Make the error for a runtime of this name that we did not write.

    A shim that containerd starts by type is not a program for `binary`.
    """
    program, shim = present.get("path"), present.get("runtimeType") or ""
    if program and file_places.is_hidden_value(program):
        what = messages.HIDDEN_RUNTIME_OF_OTHERS.fill(runtime=name)
    elif program:
        what = messages.RUNTIME_OF_OTHERS.fill(runtime=name, program=program)
    elif shim and not file_places.is_hidden_value(shim):
        what = messages.SHIM_OF_OTHERS.fill(runtime=name, shim=shim)
    else:
        what = messages.RUNTIME_WITHOUT_PROGRAM.fill(runtime=name)
    return PlanError(what, where=doc.path, line=json_text.find_member_line(doc, path))


def get_wanted_docker_default(
    policy: Policy,
    decision: Decision,
    doc: json_text.JsonDocument,
    flags: config.Flags,
    before: Mapping[str, Any] | None,
) -> str:
    """Return the default runtime that the file has to name. '' if its present one stays."""
    named = config.get_flag_value(flags, "default-runtime")
    now = named[-1] if named else json_text.look_up_json(doc, ("default-runtime",)) or ""
    if decision.default:
        wanted = decision.handler
    elif policy.set_as_default == "disabled" and now in {h.name for h in policy.handlers}:
        # Named, not taken out: a reload does not apply what is not there (daemon/reload_unix.go).
        wanted = str((before or {}).get("default-runtime") or BUILT_IN)
    else:
        return ""
    if named and named[-1] != wanted:
        raise build_flag_conflict_error("default-runtime", doc.path, flags, named[-1], wanted)
    return wanted


def build_flag_conflict_error(
    key: str, path: str, flags: config.Flags, value: str, wanted: str
) -> PlanError:
    file, flag = path if flags.where else "the file", config.FLAGS[key][0]
    twice = messages.SET_BY_FLAG.fill(key=key, flag=flag, value=value, file=file, wanted=wanted)
    return PlanError(twice, where=flags.where or path, line=flags.line)


def must_switch(instance: Instance, doc: json_text.JsonDocument, flags: config.Flags) -> bool:
    """Tell whether features.cdi has to be written to have CDI on at the next start as well.

    Raise PlanError if cdi-spec-dirs switches CDI off, or if a flag sets the features.
    """
    off = [
        d
        for d in (
            config.get_flag_value(flags, "cdi-spec-dirs")
            or json_text.look_up_json(doc, ("cdi-spec-dirs",))
            or []
        )
        if d == ""
    ]
    if off:
        line = json_text.find_member_line(doc, ("cdi-spec-dirs",))
        raise PlanError(messages.DOCKER_CDI_SWITCHED_OFF.fill(), where=doc.path, line=line)
    given = dict(value.partition("=")[::2] for value in config.get_flag_value(flags, "features"))
    if given.get("cdi", "false") in ("true", ""):
        return False
    value = json_text.look_up_json(doc, ("features", "cdi"))
    needed = value is not True if parse_docker_series(instance) < CDI_ON_SINCE else value is False
    if given and (needed or "cdi" in given):
        raise build_flag_conflict_error(
            "features",
            doc.path,
            flags,
            ", ".join(config.get_flag_value(flags, "features")),
            "cdi=true",
        )
    return needed


def get_wanted_docker_cdi_dirs(
    policy: Policy, instance: Instance, doc: json_text.JsonDocument, flags: config.Flags
) -> tuple[str, ...]:
    """Return the value for cdi-spec-dirs. Empty before 25.0: an older dockerd does not know the
    key, and does not start with it.
    """
    if not policy.cdi_spec_dirs or parse_docker_series(instance) < CDI_SINCE:
        return ()
    given = tuple(config.get_flag_value(flags, "cdi-spec-dirs"))
    there = given or tuple(json_text.look_up_json(doc, ("cdi-spec-dirs",)) or ())
    if host_paths.clean_directories(there) == policy.cdi_spec_dirs:
        return there  # dockerd reports them as they are spelled
    if given:
        raise build_flag_conflict_error(
            "cdi-spec-dirs", doc.path, flags, ", ".join(given), ", ".join(policy.cdi_spec_dirs)
        )
    return policy.cdi_spec_dirs


# ---------------------------------------------------------------- the file


WHY = {
    "default-runtime": messages.DEFAULT_RUNTIME,
    "features.cdi": messages.CDI_ON,
    "cdi-spec-dirs": engine_messages.CDI_DIRECTORIES_SET,
}


def list_docker_differences(
    doc: json_text.JsonDocument, tree: Mapping[str, Any], desired: DesiredDocker
) -> tuple[Difference, ...]:
    differences = []
    for path, value in list_docker_leaves(tree):
        old = json_text.look_up_json(doc, path)
        if old != value or type(old) is not type(value):
            key = ".".join(path)
            differences.append(
                Difference("file", doc.path, key, old, value, explain(path, value, desired))
            )
    return tuple(differences)


def explain(path: json_text.Path, value: Any, desired: DesiredDocker) -> str:
    """Return the reason why a key gets a value."""
    if path[0] == "runtimes":
        return messages.RUNTIME.fill(runtime=path[1])
    if path[0] == "default-runtime" and value not in desired.paths:
        return messages.DOCKER_DEFAULT_UNWANTED.fill()
    return WHY[".".join(path)].fill()


def list_docker_leaves(
    tree: Mapping[str, Any], above: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], Any]]:
    leaves: list[tuple[tuple[str, ...], Any]] = []
    for key, value in tree.items():
        leaves += (
            list_docker_leaves(value, (*above, key))
            if isinstance(value, Mapping) and value
            else [((*above, key), value)]
        )
    return leaves


def build_docker_change(
    file: ObservedFile,
    doc: json_text.JsonDocument,
    after: json_text.JsonDocument,
    splices: tuple[json_text.Splice, ...],
) -> Plan:
    """Build the change of the file for the transaction."""
    if not splices:
        return Plan()
    expect = {file.path: file.sha256 if file.exists else None}
    if not file.exists:
        made: transaction.Write = {
            "path": file.path,
            "op": "write",
            "content": after.text,
            "mode": "0644",
            "expect": None,
        }
        return Plan(
            changes=(made,),
            expect_files=expect,
            diffs=(diff.build_diff_entry(file.path, "", after.text),),
        )
    edits = json_text.list_json_edits(doc.text, splices)
    result = hashlib.sha256(after.text.encode("utf-8", "surrogateescape")).hexdigest()
    edited: transaction.Edit = {
        "path": file.path,
        "op": "edit",
        "expect": file.sha256,
        "edits": edits,
        "result": result,
    }
    if file.keep:
        edited["keep"] = file.keep
    return Plan(
        changes=(edited,),
        expect_files=expect,
        diffs=(diff.build_diff_entry(file.path, doc.text, after.text),),
    )


def validate_staged_docker(instance: Instance, process: Mapping[str, Any], plan: Plan) -> Plan:
    """Add the check by dockerd itself, with the flags that it runs with. It exists since 23.0: an
    older one has our own rules only.

    The host takes the flags from the process: they may hold a proxy's password.
    """
    if (
        not any(c["op"] in ("write", "edit") for c in plan.changes)
        or parse_docker_series(instance) < VALIDATE_SINCE
    ):
        return plan
    own: list[transaction.Words] = (
        [{"process": process["pid"], "ticks": process["ticks"], "without": ["--config-file"]}]
        if process
        else []
    )
    # without a file there is no present configuration to be refused
    there = any(plan.expect_files.values())
    check: transaction.Validator = {
        "argv": [instance.binary, *own, "--validate", "--config-file", "{stage}/daemon.json"],
        "timeout": 30,
        "baseline": [instance.binary, *own, "--validate", "--config-file", instance.config_path]
        if there
        else None,
        "why": messages.DOCKER_CHECKED.fill(),
        "process": instance.process,
    }
    return dc.replace(
        plan,
        stage_files=({"name": "daemon.json", "source": instance.config_path},),
        validate=(check,),
    )


# ---------------------------------------------------------------- the daemon


def find_docker_lag(desired: DesiredDocker, info: Mapping[str, Any]) -> Lag:
    """Return what is not in force, by the daemon's own report.

    CDI is switched only at the start, so a reload does not change it.
    """
    runtimes = info.get("Runtimes") or {}
    late = any(
        (runtimes.get(name) or {}).get("path") != path for name, path in desired.paths.items()
    )
    late = late or (bool(desired.default) and info.get("DefaultRuntime") != desired.default)
    dirs = tuple(info.get("CDISpecDirs") or ())
    return Lag(late, (desired.cdi and not dirs) or (bool(desired.dirs) and dirs != desired.dirs))


def find_missed_hooks(
    desired: DesiredDocker,
    info: Mapping[str, Any],
    lag: Lag,
    hooks: gpus_flag.GpusFlagFacts,
    coming: frozenset[str],
    series: tuple[int, int],
    active_seconds: float | None,
    left: bool,
) -> Lag:
    """Return what is not in force, with a restart if the daemon cannot serve `--gpus` without one.

    A daemon that has our runtime was set up before: there a newer program is an upgrade, and its
    predecessor was found. That is not so if its restart was left to a person, since a reload alone
    shows it our runtime.

    coming: programs that this run brings. left: whether an earlier run has left the restart to a
    person, by the journal.
    """
    new_here = bool(desired.paths) and not set(desired.paths) & set(info.get("Runtimes") or {})
    if lag.restart or not (new_here or left):
        return lag
    if not gpus_flag.has_missed_hooks(hooks, coming, series, active_seconds):
        return lag
    return Lag(lag.reload, True, messages.FINDS_HOOKS_AT_START)


def build_docker_health_check(
    instance: Instance, desired: DesiredDocker, restarted: bool
) -> transaction.Http:
    """Require that Docker answers and reports what we wrote. A reload that fails logs a line and
    still ends with success.
    """
    require: list[transaction.HealthNeed] = [
        {"path": ["Runtimes", name, "path"], "equals": path} for name, path in desired.paths.items()
    ]
    if desired.default:
        require.append({"path": ["DefaultRuntime"], "equals": desired.default})
    if restarted and (desired.dirs or desired.cdi):
        where = ["CDISpecDirs"]
        require.append(
            {"path": where, "equals": list(desired.dirs)}
            if desired.dirs
            else {"path": where, "filled": True}
        )
    return {
        "kind": "http",
        "socket": instance.socket,
        "path": "/info",
        "timeout": traits.SERVES_WITHIN,
        "require": require,
    }


@dc.dataclass(frozen=True)
class Cost:
    """The containers that a restart would end, by name. swarm: the host is in a Swarm, with which
    Docker refuses live-restore.
    """

    containers: tuple[str, ...] = ()
    swarm: bool = False

    @property
    def text(self) -> str:
        return f"{names.count_noun(len(self.containers), 'running container')} ({names.show_few_texts(self.containers, NAMED)})"


def list_docker_restart_cost(
    facts: docker_facts.DockerFacts, instance: Instance, after: json_text.JsonDocument
) -> Cost:
    """List the containers that a restart of this daemon ends.

    These are all that run, unless live-restore is on both at its end and at its start. Raise
    QueryFailed if Docker does not list them.

    after: the file at that start.
    """
    info = facts.info.get(instance.socket)
    if not info.get("ContainersRunning") or config.can_survive_docker_restart(
        after.data, facts.flags.value, info
    ):
        return Cost()
    swarm = (info.get("Swarm") or {}).get("LocalNodeState") == "active"
    return Cost(
        facts.containers.get(instance.socket) or (f"{info['ContainersRunning']} without a name",),
        swarm,
    )


def add_docker_action(
    policy: Policy,
    facts: docker_facts.DockerFacts,
    instance: Instance,
    plan: Plan,
    lag: Lag,
    ended: Cost,
    health_: transaction.Http,
) -> Plan:
    """Add a reload or a restart of the daemon to the plan.

    A reload is used if it is enough. A restart is used if it ends no container, or if the policy
    forces it.
    """
    if not (lag.reload or lag.restart) or policy.root != "/":
        return plan
    if not instance.unit:
        outside = messages.DOCKER_OUTSIDE_SYSTEMD.fill(path=instance.config_path)
        return dc.replace(plan, advice=(*plan.advice, outside))
    refuse_masked(facts, instance)
    why, ends = lag.why.fill() if lag.restart else "", bool(ended.containers)
    act = Restart(instance.unit, "restart", why)
    done = (
        restarts.plan_engine_restart(policy, instance, act, (health_,), ends=ends)
        if lag.restart
        else Plan()
    )
    restart, left = bool(done.restarts), bool(done.pending)
    if lag.reload and not restart:
        act = Restart(instance.unit, "reload", messages.READS_RUNNING.fill())
        done = dc.replace(restarts.act_on_engine(instance, act, (health_,)), pending=done.pending)
    return dc.replace(
        plan,
        differences=plan.differences or (build_late_difference(instance, lag.restart),),
        restarts=done.restarts,
        health=done.health,
        expect_units=done.expect_units,
        pending=done.pending,
        ends=ended.containers if lag.restart and not policy.leaves_restarts else (),
        advice=(*plan.advice, *restart_advice(policy, instance, ended, left, restart)),
    )


def build_late_difference(instance: Instance, restart: bool) -> Difference:
    why = (messages.NEEDS_RESTART if restart else messages.NEEDS_RELOAD).fill()
    values = ("an older one is in use", "as in the file")
    return Difference("unit", instance.unit, "configuration", *values, why)


def restart_advice(
    policy: Policy, instance: Instance, ended: Cost, left: bool, restart: bool
) -> tuple[str, ...]:
    if restart and ended.containers:
        return (messages.DOCKER_RESTART_ENDS.fill(unit=instance.unit, containers=ended.text),)
    if not left:
        return ()
    if policy.leaves_restarts and not ended.containers:
        return (messages.DOCKER_RESTART_NEVER.fill(unit=instance.unit),)
    values = {"unit": instance.unit, "containers": ended.text}
    if ended.swarm:
        return (messages.RESTART_LEFT_IN_SWARM.fill(**values),)
    return (messages.DOCKER_RESTART_LEFT.fill(**values, path=instance.config_path),)


def refuse_masked(facts: docker_facts.DockerFacts, instance: Instance) -> None:
    """Raise PlanError if the unit is masked, so that systemd neither reloads nor restarts it."""
    if facts.units.get(instance.unit).get("LoadState") == "masked":
        raise PlanError(messages.DOCKER_MASKED.fill(unit=instance.unit), where=instance.unit)
