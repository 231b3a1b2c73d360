# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Predict what a manager that renders containerd's configuration finds at its start: the NVIDIA
runtime and the default handler.

Nothing is written for that: the next start of the manager's service adds the handler. So the
programs are looked up as the manager does it, in the PATH that its service will have. Its setting
of the default handler is read from the files in which a person sets it.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
    require_together,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    STANDARD_PATH,
    Cdi,
    Evidence,
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import low_level
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import programs
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    edit,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_daemons,
    about_rendered,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Detection,
    Manager,
)

# Such files have tokens of the cluster in them.
VARIABLES = ("K3S_CONFIG_FILE", "RKE2_CONFIG_FILE")
OF_SERVICE: Keep = {"format": "env", "places": [[[name], "path"] for name in ("PATH", *VARIABLES)]}
# of the daemon's process, which has it from the service
ENVIRONMENT: Mapping[str, str] = dict.fromkeys(("PATH", *VARIABLES), "path")
# Of a unit whose arguments may hold the cluster's token: where they begin, and the file of
# settings. The process itself hides them (it calls itself `k3s server`), so its own command line
# shows nothing.
FLAG = r"(?:--config|-c)['\"]?(?:=|[ \t\r\n\\]+)['\"]?(/[\w./+-]+)"
# what follows is an argument for the kubelet or another part
HANDED_ON = r"-arg['\"]?[ \t\r\n\\]+['\"]?"
ARGUMENTS: Keep = {
    "format": "text",
    "patterns": [r"^[ \t]*ExecStart=", rf"{HANDED_ON}(?=--config)", rf"(?<=[\s'\"]){FLAG}"],
}
PACKAGED = "/usr/bin"  # the directory of the programs in NVIDIA's packages


@dc.dataclass(frozen=True)
class SearchPath:
    """The directories in which the next start of the service looks. where: the file that sets them,
    or in which they can be set.
    """

    directories: tuple[str, ...]
    where: str
    line: int | None = None


@dc.dataclass(frozen=True)
class Default:
    """The default handler that the manager's own configuration sets, '' if it sets none."""

    handler: str
    where: str
    line: int | None = None


@dc.dataclass(frozen=True)
class DetectionFacts:
    """The facts that decide over a manager's next start.

    environments: files with the environment of its service. arguments: files of its unit, with the
    path of its settings. settings: files with its own settings, by path and by the key of the
    default handler; more_settings: those of a pattern. found: name -> path of programs, by their
    names and by directories. processes: the verified ones of the host. units: the properties of a
    unit by its name, {} if it is not known.
    """

    environments: Lookup[str, ObservedFile]
    arguments: Lookup[str, ObservedFile]
    settings: Lookup[tuple[str, str], ObservedFile]
    more_settings: Lookup[tuple[str, str], tuple[ObservedFile, ...]]
    found: Lookup[tuple[tuple[str, ...], tuple[str, ...]], Mapping[str, str]]
    processes: Fact[tuple[Mapping[str, Any], ...]]
    units: Lookup[str, Mapping[str, str]]
    programs: programs.ProgramFacts


def read_detection_facts(obs: Observation) -> DetectionFacts:
    return DetectionFacts(
        Lookup(lambda path: obs.get_file(path, OF_SERVICE)),
        Lookup(lambda path: obs.get_file(path, ARGUMENTS)),
        Lookup(lambda at: obs.get_file(at[0], keep_manager_settings(at[1]))),
        Lookup(lambda at: obs.list_glob_files(at[0], keep_manager_settings(at[1]))),
        Lookup(
            lambda key: (
                obs.get_answer(queries.ask_for_program(list(key[0]), list(key[1]))).get("found")
                or {}
            )
        ),
        Fact(obs.processes),
        Lookup(obs.get_unit),
        programs.read_program_facts(obs),
    )


def explain_detection(
    policy: Policy, manager: Manager, files: FileSet | None, version: Version
) -> str:
    """Return why a configuration is left to what its manager finds by itself, '' if it is not, or
    if the user wants a drop-in.
    """
    default_place = policy.drop_in == "auto" and not policy.drop_in_path
    if (
        files is None
        or files.root is None
        or not default_place
        or manager.place is None
        or manager.place.detection is None
    ):
        return ""
    return edit.explain_unread_drop_in(policy, manager, files, version)


def refuse_unreachable_main_file(
    policy: Policy, manager: Manager, files: FileSet | None, version: Version
) -> Refusal:
    """Return the refusal of a main file that is rendered again at each start, an empty one if a
    plan is possible.

    Such a file reads nothing that this collection could write, and its manager finds nothing by
    itself.
    """
    reason = (
        edit.explain_unread_drop_in(policy, manager, files, version)
        if files and not explain_detection(policy, manager, files, version)
        else ""
    )
    return edit.refuse_rendered_main_file(manager, files, reason) if files and reason else Refusal()


def get_runtime_detection(instance: Instance) -> Detection:
    detection = known.get_manager_place(instance.manager).detection
    if detection is None:
        raise ValueError(f"{instance.manager} finds nothing by itself")
    return detection


def describe_detected_cdi(found: Cdi, why: str) -> Cdi:
    """Return the CDI support that was found, or none if its switch is off and the manager renders
    the configuration.

    The switch of containerd 1.7 is in a table that the manager's own text has, and a table cannot
    be written a second time.
    why: '' if the manager does not render the configuration.
    """
    if not why or found.enabled or not found.able:
        return found
    said = about_daemons.CDI_NO_SETTING.fill(evidence=found.evidence.text)
    return dc.replace(
        found,
        able=False,
        max_version="",
        evidence=Evidence(found.evidence.source, said),
        cri_field=False,
    )


# ---------------------------------------------------------------- the PATH of the service


def list_environment_files(instance: Instance) -> list[str]:
    unit = instance.unit.removesuffix(".service")
    return (
        [name.format(unit) for name in get_runtime_detection(instance).environment] if unit else []
    )


def search_path(facts: DetectionFacts, instance: Instance) -> SearchPath:
    """Return the search path: of the last environment file that sets it, else of the running
    service, else systemd's.
    """
    files = [facts.environments.get(name) for name in list_environment_files(instance)]
    saying = [file for file in files if says_path(file)]
    first = get_runtime_detection(instance).first
    if saying:
        line, value = next(
            (n, text[5:]) for n, text in list_numbered_lines(saying[-1]) if text.startswith("PATH=")
        )
        return SearchPath((*first, *split_search_path(value.strip("\"'"))), saying[-1].path, line)
    value = get_process_variable(facts, instance, "PATH")
    where = next(
        (file.path for file in reversed(files) if file.exists), files[0].path if files else ""
    )
    return SearchPath((*first, *(split_search_path(value) or STANDARD_PATH)), where)


def get_process_variable(facts: DetectionFacts, instance: Instance, variable: str) -> str:
    """Return a variable of the running daemon, '' if none runs or it has no such variable."""
    running = (
        next((p for p in facts.processes.value if p.get("pid") == instance.pid), {})
        if instance.running
        else {}
    )
    return str((running.get("environment") or {}).get(variable) or "")


def says_path(file: ObservedFile) -> bool:
    """Tell whether an environment file sets PATH. Raise PlanError if the value is not a list of
    absolute directories.

    systemd takes the value as it is: it puts nothing in the place of $PATH there.
    """
    for entry in file.withheld:
        if list(entry["path"]) == ["PATH"]:
            raise PlanError(
                about_rendered.PATH_NOT_PLAIN.fill(example=":".join(STANDARD_PATH)),
                where=file.path,
                line=entry["line"],
            )
    return any(text.startswith("PATH=") for _line, text in list_numbered_lines(file))


def list_numbered_lines(file: ObservedFile) -> list[tuple[int, str]]:
    """Return the numbered lines of a file. Raise PlanError for a file that could not be read: it is
    not the same as an empty one.
    """
    return list(enumerate(file.text.splitlines(), 1))


def split_search_path(value: str) -> tuple[str, ...]:
    return tuple(part for part in value.split(":") if part.startswith("/"))


# ---------------------------------------------------------------- what it finds


def find_detected_programs(
    policy: Policy, facts: DetectionFacts, instance: Instance, path: SearchPath
) -> dict[str, str]:
    """Return handler -> program, as the next start of the service will add them. A program that
    this run installs is there then.
    """
    wanted = get_runtime_detection(instance).programs
    there = facts.found.get((tuple(wanted.values()), path.directories))
    result = {
        handler: str(there[program]) for handler, program in wanted.items() if there.get(program)
    }
    # that with modes is in another package, which is not installed by this run
    packaged = f"{PACKAGED}/{low_level.PROGRAM}"
    for handler, program in wanted.items():
        if (
            handler not in result
            and program == low_level.PROGRAM
            and PACKAGED in path.directories
            and programs.is_program_installed_by_run(policy, facts.programs, packaged)
        ):
            result[handler] = packaged
    return result


def build_detected_program_error(
    instance: Instance, program: str, path: SearchPath, elsewhere: str
) -> PlanError:
    """Return the error for a program that is installed in a directory that the service does not
    search, or is not there at all.

    elsewhere: its path, '' if it is not there.
    """
    title = known.get_manager(instance.manager).title
    if not elsewhere:
        return PlanError(
            about_rendered.PROGRAM_MISSING.fill(program=program, title=title),
            where=instance.config_path,
        )
    directory = elsewhere.rpartition("/")[0]
    value = ":".join(
        [
            *(d for d in path.directories if d not in get_runtime_detection(instance).first),
            directory,
        ]
    )
    row = about_rendered.WRITE_PATH if path.line else about_rendered.ADD_PATH
    step = row.fill(path=path.where or "the environment of its unit", value=value)
    unit = instance.unit or "its service"
    message = about_rendered.PROGRAM_NOT_FOUND.fill(
        title=title, program=elsewhere, directory=directory, unit=unit, step=step
    )
    return PlanError(message, where=path.where or instance.unit, line=path.line)


# ---------------------------------------------------------------- the default handler


def keep_manager_settings(key: str) -> Keep:
    return {"format": "yaml", "places": [[[key], "name"]]}


def get_manager_settings_file(facts: DetectionFacts, instance: Instance) -> str:
    """Return the manager's own configuration: by its variable, else by --config, else the usual one
    (pkg/configfilearg/parser.go).
    """
    wanted = get_runtime_detection(instance)
    for file in reversed(
        [facts.environments.get(name) for name in list_environment_files(instance)]
    ):
        require_path(file, wanted.variable)
        for _line, text in reversed(list_numbered_lines(file)):
            if text.startswith(f"{wanted.variable}="):
                return text.partition("=")[2].strip("\"' ")
    return (
        get_process_variable(facts, instance, wanted.variable)
        or find_config_argument(facts, instance)
        or wanted.settings
    )


def find_config_argument(facts: DetectionFacts, instance: Instance) -> str:
    """Return the file that --config names in the arguments of its unit, '' if there is none. The
    last drop-in with arguments counts.
    """
    for path in reversed(list_manager_unit_files(facts, instance)):
        text = facts.arguments.get(path).text
        if "ExecStart=" in text:
            flags = re.finditer(rf"({HANDED_ON})?{FLAG}", text.rpartition("ExecStart=")[2])
            return next((str(one.group(2)) for one in flags if not one.group(1)), "")
    return ""


def list_manager_unit_files(facts: DetectionFacts, instance: Instance) -> list[str]:
    unit = facts.units.get(instance.unit) if instance.unit and instance.running else {}
    return [
        path
        for path in (unit.get("FragmentPath", ""), *unit.get("DropInPaths", "").split())
        if path
    ]


def require_path(file: ObservedFile, variable: str) -> None:
    for entry in file.withheld:
        if list(entry["path"]) == [variable]:
            raise PlanError(
                about_rendered.SETTINGS_PATH_NOT_PLAIN.fill(variable=variable),
                where=file.path,
                line=entry["line"],
            )


def get_manager_default(facts: DetectionFacts, instance: Instance) -> Default:
    """Return the default handler by the last file that sets it: config.yaml, then config.yaml.d by
    name.

    That is the order of k3s (dotDFiles in pkg/configfilearg/parser.go). May raise NeedMore or
    PlanError.
    """
    wanted = get_runtime_detection(instance)
    settings = get_manager_settings_file(facts, instance)
    first, rest = (settings, wanted.default), (f"{settings}.d/*", wanted.default)
    require_together([lambda: facts.settings.get(first), lambda: facts.more_settings.get(rest)])
    default = Default("", settings)
    more = [
        f
        for f in facts.more_settings.get(rest)
        if f.path.lower().endswith((".yaml", ".yml")) and f.type != "dir"
    ]
    for file in [facts.settings.get(first), *more]:
        require_plain_value(file, wanted.default)
        for line, text in list_numbered_lines(file):
            value = re.match(rf"{re.escape(wanted.default)}:\s+[\"']?([\w.+-]+)", text)
            default = Default(value.group(1), file.path, line) if value else default
    return default


def require_plain_value(file: ObservedFile, key: str) -> None:
    """Raise PlanError if the value of a key is written in another way than a plain name: it sets
    something other than what is shown.
    """
    for entry in file.withheld:
        if list(entry["path"]) == [key]:
            raise PlanError(
                about_rendered.DEFAULT_NOT_PLAIN.fill(key=key),
                where=file.path,
                line=entry["line"],
            )


def require_detection(facts: DetectionFacts, instance: Instance) -> None:
    """Raise NeedMore unless the host was looked at for all that decides over the next start."""
    wanted = get_runtime_detection(instance)
    get, at = functools.partial, wanted.default
    require_together(
        [
            *(get(facts.environments.get, name) for name in list_environment_files(instance)),
            *(get(facts.arguments.get, path) for path in list_manager_unit_files(facts, instance)),
            get(facts.settings.get, (wanted.settings, at)),
            get(facts.more_settings.get, (f"{wanted.settings}.d/*", at)),
        ]
    )
