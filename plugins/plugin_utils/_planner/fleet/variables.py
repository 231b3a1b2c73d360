# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that users set: which names exist, which of them apply to a whole run, and the
sentences about all others.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Filled,
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import sink, waves

PREFIX = "gpufleet_"
OWN = "gpufleet_own_variables"

# Of a module: the variables of its options, as this collection's roles and playbooks set them,
# where the variable is not gpufleet_ and the option's name. '*' is the prefix of the options that
# are not listed.
OF_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "awx": {"*": "gpufleet_awx_"},
    "bundle": {
        "*": "gpufleet_bundle_",
        "key": "gpufleet_toolkit_key",
        "key_fingerprint": "gpufleet_toolkit_key_fingerprint",
        "url": "gpufleet_toolkit_repository",
    },
    "drain": {
        "*": "gpufleet_drain_",
        "context": "gpufleet_kubernetes_context",
        "kubeconfig": "gpufleet_kubernetes_kubeconfig",
        "kubernetes_delete_emptydir_data": "gpufleet_kubernetes_delete_emptydir_data",
        "kubernetes_force": "gpufleet_kubernetes_force",
        "kubernetes_hold": "gpufleet_kubernetes_hold",
        "kubernetes_node": "gpufleet_kubernetes_node",
        "policy": "gpufleet_drain",
        "rollout": "gpufleet_rollout_id",
        "slurm_node": "gpufleet_slurm_node",
    },
    "fleet_image_report": {"directory": "gpufleet_image_dir"},
    "fleet_report": {
        "change_ref": "gpufleet_change_ref",
        "directory": "gpufleet_report_dir",
        "publish": "gpufleet_report_publish",
        "sources": "gpufleet_report_from",
    },
    "fleet_table": {"columns": "gpufleet_table_columns"},
    "hand_over": {
        "*": "gpufleet_hand_over_",
        "context": "gpufleet_kubernetes_context",
        "kubeconfig": "gpufleet_kubernetes_kubeconfig",
        "kubernetes_node": "gpufleet_kubernetes_node",
        "rollout": "gpufleet_rollout_id",
    },
    "image_choice_info": {"*": "gpufleet_image_", "root": "gpufleet_root"},
    "kubernetes_objects": {"*": "gpufleet_kubernetes_", "fleet_policy": "gpufleet_fleet_policy"},
    "host_verify": {
        "host_result": "gpufleet_verify_host_result",
        "image": "gpufleet_verify_image",
        "image_environment": "gpufleet_verify_image_environment",
        "timeout": "gpufleet_verify_timeout",
    },
    "rollout_settings": {"*": "gpufleet_rollout_"},
    "toolkit_repository": {
        "key": "gpufleet_toolkit_key",
        "key_fingerprint": "gpufleet_toolkit_key_fingerprint",
        "url": "gpufleet_toolkit_repository",
    },
}

# Settings of the whole run. Ansible reads `hosts` and `serial` of a play before there is a host, so
# variables of hosts and groups are not seen there; the others are read once per run, for the host
# that comes first. So all of them come from the command line.
RUN: Mapping[str, str] = {
    "gpufleet_hosts": "gpu_hosts",
    "gpufleet_serial": '[1, "10%", "100%"]',
    "gpufleet_max_failed": "1",
    "gpufleet_fleet_policy": "uniform",
    "gpufleet_fail_on_drift": "true",
    "gpufleet_max_lost": '"10%"',
    "gpufleet_table_columns": "{...}",
    "gpufleet_change_ref": "CHG0012345",
    "gpufleet_report_dir": "/srv/www/gpu-fleet",
    "gpufleet_image_dir": "/srv/www/gpu-fleet",
    "gpufleet_report_publish": "https://files.example.org/gpu-fleet/",
    "gpufleet_report_from": "[north/report.json, south/report.json]",
    "gpufleet_rollout_class": "[gpu.model, rack]",
    "gpufleet_rollout_domain": "[rack]",
    "gpufleet_rollout_canaries": "1",
    "gpufleet_rollout_waves": '[1, "10%", "50%", "100%"]',
    "gpufleet_rollout_max_unavailable": "1",
    "gpufleet_rollout_max_left_out": '"10%"',
    "gpufleet_rollout_max_failed": "1",
    "gpufleet_rollout_seed": "spring",
    "gpufleet_rollout_until": "canaries",
    "gpufleet_rollout_window": "Mo-Fr 20:00-04:00 Europe/Berlin",
    "gpufleet_rollout_soak": "60",
    "gpufleet_rollout_soak_command": "[/usr/local/bin/healthy]",
    "gpufleet_rollout_gate_check": "https://alerts.example.org/healthy",
    "gpufleet_rollout_gate_retries": "3",
    "gpufleet_rollout_plugin_wait": "90",
    "gpufleet_rollout_events": "/var/log/gpufleet/rollout.jsonl",
    "gpufleet_rollout_pause": "true",
    "gpufleet_rollout_tasks": "{change: driver.yml}",
    "gpufleet_rollout_driver": '"580"',
    "gpufleet_rollout_keep_packages": "require",
    "gpufleet_rollout_plan_file": "plan.json",
    "gpufleet_rollout_approved": "plan.json",
    "gpufleet_rollout_approved_changes": "{...}",
    "gpufleet_rollout_host_timeout": "600",
}

# Of single hosts, read by a rollout (groups that limit how many hosts may be out of service) and
# for the files of a cluster.
OF_HOSTS = frozenset(
    {
        *("gpufleet_cluster", "gpufleet_slurm_partition"),
        *(
            "gpufleet_kubernetes_device_ids",
            "gpufleet_kubernetes_hook",
            "gpufleet_kubernetes_mig_strategy",
        ),
    }
)

# Of single hosts, read by the playbook images.
OF_IMAGES = frozenset(
    {
        "gpufleet_image_catalogue",
        "gpufleet_image_gpus",
        "gpufleet_image_registry",
        "gpufleet_image_registry_auth_file",
    }
)

# Of single hosts, read by the playbook hand_over.
OF_HAND_OVER = frozenset(
    f"{PREFIX}hand_over_{name}" for name in ("to", "timeout", "interval", "drain")
)

# The names that roles and playbooks register.
RESULTS = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *(
            "host_info",
            "host_result",
            "verify_result",
            "cdi_result",
            "repository_result",
            "toolkit_result",
            "fleet",
            "shown",
            "end",
            "totals",
        ),
        *("image", "image_fleet"),
        *(
            "hand_over",
            "hand_over_look",
            "hand_over_failure",
            "hand_over_state",
            "hand_over_there",
            "hand_over_back",
        ),
        *("awx_result", "bundle_result", "kubernetes_result"),
        *("drain_check", "drain_result", "undrain_result", "keep_result"),
        *(
            "rollout",
            "rollout_settings",
            "rollout_plan",
            "rollout_step",
            "rollout_failure",
            "rollout_end",
            "rollout_file",
        ),
        *("rollout_asked", "rollout_ready", "rollout_answer"),
        *("rollout_applied_before", "rollout_applied_after", "rollout_applied_end"),
        *("rollout_health_before", "rollout_health", "rollout_diagnosis", "rollout_soak_result"),
        *("rollout_driver_kept", "rollout_driver_judged", "rollout_driver_settled"),
        # statistics, which AWX passes to the next job as variables
        *(
            "rollout_result",
            "rollout_totals",
        ),
    )
)


def list_variable_problems(
    hosts: Mapping[str, Mapping[str, Any]],
    run: Mapping[str, Any],
    known: Iterable[str],
    own: Iterable[str] = (),
) -> list[Message]:
    """List the errors in the variables of a run, one sentence each.

    hosts: each host's gpufleet_ variables. run: what a play's own keywords see. known: the names of
    the roles' options.
    """
    return [
        *_list_unknown(
            hosts, {*known, *RUN, *RESULTS, *OF_HOSTS, *OF_IMAGES, *OF_HAND_OVER, OWN}, set(own)
        ),
        *_list_ignored(hosts, run),
        *_list_wave_problems(run.get("gpufleet_serial")),
        *_list_failure_problems(run.get("gpufleet_max_failed") or 0),
        *_list_publish_problems(run.get("gpufleet_report_publish")),
    ]


def _list_unknown(
    hosts: Mapping[str, Mapping[str, Any]], known: set[str], own: set[str]
) -> list[Message]:
    unknown: dict[str, list[str]] = {}
    for host, variables in hosts.items():
        for name in variables:
            if name not in known | own:
                unknown.setdefault(name, []).append(host)
    short = {name.removeprefix(PREFIX) for name in known}
    return [
        _describe_unknown_name(name, names.show_some_runs(places), short)
        for name, places in sorted(unknown.items())
    ]


def _describe_unknown_name(name: str, hosts: str, known: Iterable[str]) -> Message:
    near = find_near(name.removeprefix(PREFIX), known)
    if not near:
        return messages.UNKNOWN_VARIABLE.fill(name=name, hosts=hosts)
    return messages.UNKNOWN_VARIABLE_NEAR.fill(name=name, hosts=hosts, near=PREFIX + near)


def _list_ignored(hosts: Mapping[str, Mapping[str, Any]], run: Mapping[str, Any]) -> list[Message]:
    """List the settings of the run that hosts or groups set and that the run does not use."""
    ignored = []
    for name, example in RUN.items():
        places = [
            host
            for host, variables in hosts.items()
            if name in variables and (name not in run or run[name] != variables[name])
        ]
        if places:
            row = messages.RUN_SETTING_IN_INVENTORY
            ignored.append(row.fill(name=name, hosts=names.show_some_runs(places), example=example))
    return ignored


def _list_wave_problems(serial: Any) -> list[Message]:
    """List the sizes of waves that would make Ansible end the run without naming the variable, or
    take all hosts at once.
    """
    # a list as text, which older ansible-core reads as a list
    if serial is None or (isinstance(serial, str) and serial.startswith("[")):
        return []
    sizes = [str(size).strip() for size in (serial if isinstance(serial, list) else [serial])]
    wrong = (
        [
            size or "''"
            for size in sizes
            if not re.fullmatch(r"0*(?:[1-9]\d*|(?:[1-9]\d?|100)\s*%)", size)
        ]
        if sizes
        else ["no wave"]
    )
    example = RUN["gpufleet_serial"]
    return [messages.WAVE_SIZE.fill(sizes=", ".join(wrong), example=example)] if wrong else []


def _list_failure_problems(allowed: Any) -> list[Message]:
    """List the value that the gate would refuse only after the look at hosts, and that `plan` never
    reads; [] if it is good.
    """
    try:
        waves.parse_amount("gpufleet_max_failed", allowed)
    except PlanError:
        return [messages.FAILED_HOSTS.fill(value=allowed)]
    return []


def _list_publish_problems(target: Any) -> list[Message]:
    try:
        sink.parse_sink("gpufleet_report_publish", target)
    except PlanError as error:
        return [error.placed]
    return []


# the name under which Ansible leaves words of `-e` that are neither a variable nor a file
RAW_PARAMETERS = "_raw_params"


OF_FILES = (".yml", ".yaml", ".json")


def explain_left_words(left: object, options: Iterable[str]) -> list[Message]:
    """Return a sentence for `-e rollout.yml`, which reads no file, and for a value that a blank has
    cut; [] if no word is left.

    The run would go on for all hosts, with defaults. options: the texts of all `-e`.
    """
    if left in (None, ""):
        return []
    word = str(left).split()[0]
    cut = (
        ""
        if word.endswith(OF_FILES)
        else next((name for text in options if (name := find_cut_variable(text, word))), "")
    )
    return [messages.CUT_AT_BLANK.fill(name=cut) if cut else messages.WITHOUT_AT.fill(file=word)]


def find_cut_variable(option: str, left: str) -> str:
    """Return the variable that the text of one `-e` sets where a word of it is left over: the one
    before it, or before ` =`; '' if none.
    """
    words, name = option.split(), ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == left:
            return name or (word if following.startswith("=") else "")
        name = word.partition("=")[0] if "=" in word else name
    return ""


def group_by_message(wrong: Mapping[str, Iterable[Message]]) -> list[Message]:
    """Return each message once, with the hosts that it is about."""
    groups: dict[Message, list[str]] = {}
    for host, several in wrong.items():
        for message in several:
            groups.setdefault(message, []).append(host)
    return [
        _describe_hosts(message, names.show_some_runs(hosts))
        for message, hosts in sorted(groups.items())
    ]


def _describe_hosts(message: Message, hosts: str) -> Message:
    what = Filled("{what}, for {hosts}", {"what": message.what, "hosts": hosts})
    return Message(what, message.code, message.values, why=message.why, next=message.next)


def describe_unknown_hosts(
    pattern: str, matching: Collection[str], groups: Mapping[str, Iterable[str]]
) -> Message | None:
    """Return a message if nothing in the inventory has that name. A group without hosts is known."""
    if matching or pattern in groups or not pattern.strip():
        return None
    near = find_near(pattern, {*groups, *(host for hosts in groups.values() for host in hosts)})
    if near:
        return messages.UNKNOWN_HOSTS_NEAR.fill(pattern=pattern, near=near)
    return messages.UNKNOWN_HOSTS.fill(pattern=pattern)


def describe_no_hosts(
    pattern: str,
    matching: Collection[str],
    limited: Collection[str],
    groups: Mapping[str, Collection[str]],
) -> Message | None:
    """Return a message if a run has no hosts.

    limited: the hosts of the inventory that --limit leaves.
    """
    if not pattern.strip():
        return messages.NO_PATTERN.fill()
    if not any(groups.values()) and not matching:
        return messages.EMPTY_INVENTORY.fill()
    if not matching and pattern in groups:
        return messages.EMPTY_GROUP.fill(pattern=pattern)
    known = {host for hosts in groups.values() for host in hosts} & set(matching)
    if known and not known & set(limited):
        return messages.LIMIT_LEAVES_NONE.fill(
            pattern=pattern, hosts=names.show_some_runs(sorted(known))
        )
    return describe_unknown_hosts(pattern, matching, groups)


def find_variable(module: str, option: str) -> str:
    """Return the variable by which this collection's roles and playbooks set a module's option.

    A variable stays as it is.
    """
    others = OF_OPTIONS.get(module, {})
    if option.startswith(PREFIX):
        return option
    return others.get(option) or others.get("*", PREFIX) + option


def find_near(name: str, known: Iterable[str]) -> str:
    """Return the nearest name; '' if none is near."""
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return near[0] if near else ""
