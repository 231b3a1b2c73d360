# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the variables of a run before anything is looked at or changed."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.yaml import yaml_load
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    archives,
    arguments,
    base,
    fact_variables,
    named_playbooks,
    outside,
    run_messages,
    unreadable_variables,
    validation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    drain,
    settings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    change_reference,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    given as planner_given,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    end_with_code,
    join_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    variables as planner_variables,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import waves
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import wanted

SPEC = arguments.derive_argument_spec("variables_check")
COLLECTION = Path(__file__).resolve().parents[2]


def map_role_options() -> dict[str, dict[str, Any]]:
    """Return the options of all roles and entry points: name -> spec.

    One name means the same everywhere.

    `required` is left out, since only variables that are set are checked.
    """
    # Ansible's reader takes libyaml where it is there: with Python's own parser this costs a run
    # ten times as much.
    specs = [
        yaml_load(path.read_text(encoding="utf-8"))
        for path in sorted(COLLECTION.glob("roles/*/meta/argument_specs.yml"))
    ]
    options = {
        name: option
        for spec in specs
        for entry in spec["argument_specs"].values()
        for name, option in entry["options"].items()
    }
    return {
        name: {key: option[key] for key in ("type", "elements", "choices") if key in option}
        for name, option in options.items()
    }


KNOWN = map_role_options()
# Options whose values can be judged by their spec alone. Others are not even read here: the value
# may be a look-up that costs time. Settings of the run are judged once, below, and an empty text
# counts as not set there.
JUDGED = {
    name: spec
    for name, spec in KNOWN.items()
    if name not in planner_variables.RUN
    and ("choices" in spec or spec["type"] not in ("str", "path"))
}
# Variables of hosts that playbooks and roles read with a default. With an undefined value the
# default would count: a host would not be proven, or be handed over the other way.
DEFAULTED = frozenset(
    {
        *("gpufleet_drain_delegate", "gpufleet_kubernetes_delegate", "gpufleet_kubernetes_dir"),
        *("gpufleet_own_variables", "gpufleet_verify_image"),
        *planner_variables.OF_HAND_OVER,
        *planner_variables.OF_IMAGES,
    }
)
# Settings of the run that only some playbooks read, or only at their end.
JUDGED_RUN = {
    "gpufleet_fleet_policy": {
        key: arguments.derive_argument_spec("failed_hosts_check")["fleet_policy"][key]
        for key in ("type", "choices")
    },
    "gpufleet_fail_on_drift": {"type": "bool"},
}


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False
    # Once, regardless of the task's settings: it looks at the variables of all hosts of the play.
    BYPASS_HOST_LOOP = True

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)
        variables = task_vars or {}
        hostvars = variables["hostvars"]
        hosts = [str(host) for host in variables.get("ansible_play_hosts_all") or ()]
        play = self._task.get_variable_manager().get_vars(play=self._task.get_play())
        of_run, problems = self._read_without_host(play)
        problems += planner_variables.list_variable_problems(
            {
                host: own_variables(
                    hostvars[host], {message.values["name"] for message in problems}
                )
                for host in hosts
            },
            of_run,
            KNOWN,
            args["own"],
        )
        # An empty text is an unanswered question of one of AWX's surveys.
        problems += list_wrong_values(
            {name: value for name, value in of_run.items() if value not in ("", None)}, JUDGED_RUN
        ) + list_wrong_tickets(of_run)
        problems += list_unusable_report_places(
            of_run.get("gpufleet_report_dir")
        ) + list_wrong_numbers("gpufleet_max_lost", of_run.get("gpufleet_max_lost"))
        read = {
            host: [] if ARCHIVE in args["written"] else list_wrong_archives(hostvars[host])
            for host in hosts
        }
        problems += planner_variables.group_by_message(
            {host: [*list_wrong_host_values(hostvars[host]), *read[host]] for host in hosts}
        )
        left = play.get(planner_variables.RAW_PARAMETERS)
        problems += planner_variables.explain_left_words(
            left, [str(text) for text in context.CLIARGS.get("extra_vars") or ()]
        )
        if is_run_tagged(variables, context.CLIARGS.get("args") or ()):
            problems.append(messages.TAGS.fill())
        return {"changed": False, **(report_wrong(problems) if problems else {})}

    def _read_without_host(self, play: Mapping[str, Any]) -> tuple[dict[str, Any], list[Message]]:
        """Return the run's variables as `hosts` and `serial` of the play get them, and a message
        for each that cannot be read.

        These are extra variables and the play's own, none of a host.
        """
        templar = self._templar.copy_with_new_env(available_variables=play)
        rendered = unreadable_variables.Rendered(play, templar.template)
        read: dict[str, Any] = {}
        wrong: list[Message] = []
        for name in planner_variables.RUN:
            try:
                read.update({name: rendered[name]} if name in play else {})
            except AnsibleError as error:
                cause = get_first_line(error)
                wrong.append(messages.UNREADABLE_SETTING.fill(name=name, cause=cause))
        return read, wrong


def build_unreadable_message(name: str, error: AnsibleError) -> Message:
    return messages.UNREADABLE_VALUE.fill(name=name, cause=get_first_line(error))


def get_first_line(error: AnsibleError) -> str:
    return str(error).splitlines()[0].rstrip(".")


def read_value(variables: Mapping[str, Any], name: str) -> Any:
    """Return the value of a variable. Raise PlanError if it cannot be read, or has something
    undefined in it.
    """
    try:
        value = variables[name]
    except AnsibleError as error:
        raise PlanError(build_unreadable_message(name, error)) from None
    # ansible-core before 2.19 returns such a text for a template with something undefined
    if isinstance(value, str) and "{{" in value:
        shown = unreadable_variables.list_expressions(value)
        raise PlanError(messages.UNDEFINED_VALUE.fill(name=name, value=shown))
    return value


def list_unreadable_values(variables: Mapping[str, Any]) -> list[Message]:
    """Return a message for each variable that is read with a default and cannot be read."""
    problems: list[Message] = []
    for name in sorted(DEFAULTED & set(variables)):
        try:
            read_value(variables, name)
        except PlanError as error:
            problems.append(error.message)
    return problems


def report_wrong(found: Sequence[Message]) -> dict[str, Any]:
    """Return the result of a run with wrong variables: each message with its code."""
    errors = [arguments.build_option_failure(PlanError(message))["error"] for message in found]
    text = join_texts(". ", [*map(end_with_code, found), run_messages.NOTHING_DONE.fill()])
    return {"failed": True, "msg": text, "error": errors[0], "errors": errors}


def list_wrong_numbers(name: str, value: Any) -> list[Message]:
    """List the message about a variable that is neither a number nor a percentage."""
    try:
        return [] if value in ("", None) or waves.parse_amount(name, value) else []
    except PlanError as error:
        return [error.placed]


def list_wrong_tickets(of_run: Mapping[str, Any]) -> list[Message]:
    """List the message about a ticket (gpufleet_change_ref) of a form that is refused."""
    try:
        change_reference.require_ticket(of_run.get(change_reference.VARIABLE))
    except PlanError as error:
        return [error.placed]
    return []


def list_unusable_report_places(directory: Any) -> list[Message]:
    """Return why reports cannot be written there, before any host is looked at; [] if they can."""
    try:
        outside.require_usable_directory(str(directory or "."))
    except PlanError as error:
        return [error.placed]
    return []


def own_variables(variables: Mapping[str, Any], unreadable: Collection[str] = ()) -> dict[str, Any]:
    """Return a host's variables with the collection's prefix, but for the variables that the run
    itself cannot read.

    Only settings of the run have a value, others are None.

    Other values are not read: they may be templates that need something that does not exist yet.
    """
    return {
        name: read_run_setting(variables, name) if name in planner_variables.RUN else None
        for name in variables
        if str(name).startswith(planner_variables.PREFIX) and name not in unreadable
    }


def read_run_setting(variables: Mapping[str, Any], name: str) -> Any:
    """Return the value that a host has for a setting of the run. If it cannot be read, the error
    differs from the run's value.
    """
    try:
        return variables[name]
    except AnsibleError as error:
        return error


# The options that `gpufleet.nvidia.drain` judges before it asks about a host. With a wrong one,
# each host would be left out, and none would fail.
DRAIN = {
    name: f"gpufleet_drain_{name}" for name in ("by", "commands", "interval", "method", "timeout")
} | {"rollout": "gpufleet_rollout_id"}
DRAIN_SPEC = {
    name: option
    for name, option in arguments.derive_argument_spec("drain").items()
    if name in DRAIN
}


VERSIONS = sorted(name for name in KNOWN if planner_given.holds_versions(name))


def list_wrong_host_values(variables: Mapping[str, Any]) -> list[Message]:
    """List the messages about the variables of one host."""
    return [
        *fact_variables.list_fact_variable_problems(variables),
        *list_unreadable_values(variables),
        *(list_wrong_values(variables) or list_wrong_drain_values(variables)),
        *list_wrong_versions(variables),
        *list_wrong_cluster_values(variables),
        *list_wrong_sharing_values(variables),
    ]


def list_wrong_cluster_values(variables: Mapping[str, Any]) -> list[Message]:
    """Return what is wrong with a host's settings of its cluster and its node."""
    try:
        given = {name: variables[name] for name in settings.RULES if name in variables}
    except AnsibleError:
        # reported when the host's task reads it, with everything else that the task needs
        return []
    return settings.list_cluster_setting_problems(given)


SHARING = {
    "given": "gpufleet_sharing",
    "root": "gpufleet_root",
    "driver_root": "gpufleet_cdi_driver_root",
}


def list_wrong_sharing_values(variables: Mapping[str, Any]) -> list[Message]:
    """Return what is wrong with a host's sharing and cannot be applied to any host.

    Otherwise it would be found host by host, after others were changed.
    """
    try:
        given = {field: variables.get(name) for field, name in SHARING.items()}
    except AnsibleError:  # reported when it is read
        return []
    try:
        if isinstance(given["given"], Mapping):  # another type is reported by the check of types
            planner_given.require_plain_option(SHARING["given"], given["given"])
            wanted.check_sharing(
                given["given"], str(given["root"] or "/"), str(given["driver_root"] or "/")
            )
    except PlanError as error:
        return [error.placed]
    return []


ARCHIVE = "gpufleet_bundle_file"


def list_wrong_archives(variables: Mapping[str, Any]) -> list[Message]:
    """Return why the archive of a host's packages cannot be read.

    With state absent, no archive is needed.
    """
    try:
        file, state = (variables.get(name) for name in (ARCHIVE, "gpufleet_state"))
    except AnsibleError:
        # reported when the host's task reads it, with everything else that the task needs
        return []
    try:
        if file and state != "absent":
            archives.require_file(str(file))
    except PlanError as error:
        return [error.placed]
    return []


def list_wrong_versions(variables: Mapping[str, Any]) -> list[Message]:
    """Return the versions that YAML has read as numbers: 1.30 becomes 1.3, which is another
    version.
    """
    problems: list[Message] = []
    for name in VERSIONS:
        try:
            value = variables.get(name)
        except AnsibleError:
            # reported when the host's task reads it, with everything else that the task needs
            continue
        problems += [error.placed for error in planner_given.find_versions_as_numbers(name, value)]
    return problems


def list_wrong_drain_values(variables: Mapping[str, Any]) -> list[Message]:
    """Return what is wrong with the settings of the drain as a whole.

    Each of them may be valid by its type.
    """
    try:
        given = {option: variables[name] for option, name in DRAIN.items() if name in variables}
    except AnsibleError:
        # reported when the host's task reads it, with everything else that the task needs
        return []
    given = {option: value for option, value in given.items() if value not in ("", None)}
    if not given:
        return []
    try:
        drain.check_commands(given.get("commands"))
        judged = ArgumentSpecValidator(DRAIN_SPEC).validate(given)
        drain.check_drain_settings(judged.validated_parameters)
    except PlanError as error:
        return [
            error.placed.name_options(functools.partial(planner_variables.find_variable, "drain"))
        ]
    return []


def list_wrong_values(
    variables: Mapping[str, Any], judged: Mapping[str, Any] = JUDGED
) -> list[Message]:
    """Return what is wrong with values of a host or the run.

    The codes are those of a task's own validation.
    """
    given: dict[str, Any] = {}
    wrong: list[Message] = []
    for name in judged.keys() & set(variables):
        try:
            given[name] = read_value(variables, name)
        except PlanError as error:
            wrong.append(error.message)
    result = ArgumentSpecValidator(dict(judged)).validate(given)
    return [*wrong, *validation.find_wrong(result, judged, given)]


def is_run_tagged(variables: Mapping[str, Any], named: Sequence[str]) -> bool:
    """Tell whether a playbook of this collection, named on the command line, is run with tags.

    If another playbook imports it, the tags are for that playbook.
    """
    chosen = [
        *(variables.get("ansible_run_tags") or ()),
        *(variables.get("ansible_skip_tags") or ()),
    ]
    return named_playbooks.is_own_playbook_named(named) and bool(set(chosen) - {"all"})
