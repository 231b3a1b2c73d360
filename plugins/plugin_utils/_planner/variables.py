# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that users set: which names exist, which of them apply to a whole run, and the sentences about all others."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import sink, waves
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import names

PREFIX = "gpufleet_"
OWN = "gpufleet_own_variables"

# Settings of the whole run. Ansible reads `hosts` and `serial` of a play before there is a host, so variables of hosts and groups are not
# seen there; the others are read once per run, for the host that comes first. So all of them come from the command line.
RUN: Mapping[str, str] = {
    "gpufleet_hosts": "gpu_nodes",
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
    "gpufleet_rollout_plan_file": "plan.json",
    "gpufleet_rollout_approved": "plan.json",
    "gpufleet_rollout_approved_changes": "{...}",
    "gpufleet_rollout_host_timeout": "600",
}

# Of single hosts, read by a rollout (groups that limit how many hosts may be out of service) and for the files of a cluster.
OF_HOSTS = frozenset(
    {
        *("gpufleet_cluster", "gpufleet_slurm_partition"),
        *("gpufleet_kubernetes_device_ids", "gpufleet_kubernetes_hook", "gpufleet_kubernetes_mig_strategy"),
    }
)

# Of single hosts, read by the playbook images.
OF_IMAGES = frozenset({"gpufleet_image_catalogue", "gpufleet_image_gpus", "gpufleet_image_registry", "gpufleet_image_registry_auth_file"})

# Of single hosts, read by the playbook hand_over.
OF_HAND_OVER = frozenset(f"{PREFIX}hand_over_{name}" for name in ("to", "timeout", "interval", "drain"))

# The names that roles and playbooks register.
RESULTS = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *(
            "node_info",
            "node_result",
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
        *("hand_over", "hand_over_look", "hand_over_failure", "hand_over_state", "hand_over_there", "hand_over_back"),
        *("awx_result", "bundle_result", "kubernetes_result"),
        *("drain_check", "drain_result", "undrain_result", "keep_result"),
        *("rollout", "rollout_settings", "rollout_plan", "rollout_step", "rollout_failure", "rollout_end", "rollout_file"),
        *("rollout_asked", "rollout_ready", "rollout_answer"),
        *("rollout_applied_before", "rollout_applied_after", "rollout_applied_end"),
        *("rollout_health_before", "rollout_health", "rollout_diagnosis", "rollout_soak_result"),
        *("rollout_result", "rollout_totals"),  # statistics, which AWX passes to the next job as variables
    )
)

TAGS = (
    "The playbooks of this collection have no tags: leave --tags and --skip-tags out. For one part alone run gpufleet.nvidia.verify (the"
    " proof) or gpufleet.nvidia.refresh_cdi (the CDI specs)"
)
START_AT_TASK = (
    "Playbooks of this collection check variables and hosts before the first change: leave --start-at-task out, which skips these checks."
    " Run the playbook again as a whole: hosts that are done are not touched"
)
FOR_OWN = f"Names that begin with {PREFIX} are reserved for the collection; list a variable of your own in {OWN}"


def problems(hosts: Mapping[str, Mapping[str, Any]], run: Mapping[str, Any], known: Iterable[str], own: Iterable[str] = ()) -> list[str]:
    """List the errors in the variables of a run, one sentence each.

    hosts: each host's gpufleet_ variables. run: what a play's own keywords see. known: the names of the roles' options.
    """
    unknown = _unknown(hosts, {*known, *RUN, *RESULTS, *OF_HOSTS, *OF_IMAGES, *OF_HAND_OVER, OWN}, set(own))
    return [
        *unknown,
        *([FOR_OWN] if unknown else []),
        *_ignored(hosts, run),
        *_waves(run.get("gpufleet_serial")),
        *_failures(run.get("gpufleet_max_failed") or 0),
        *_published(run.get("gpufleet_report_publish")),
    ]


def _unknown(hosts: Mapping[str, Mapping[str, Any]], known: set[str], own: set[str]) -> list[str]:
    found: dict[str, list[str]] = {}
    for host, variables in hosts.items():
        for name in variables:
            if name not in known | own:
                found.setdefault(name, []).append(host)
    short = {name.removeprefix(PREFIX) for name in known}
    return [
        f"There is no variable {name}{suggestion(name.removeprefix(PREFIX), short, PREFIX)}, but it is set for {names.some(places)}"
        for name, places in sorted(found.items())
    ]


def _ignored(hosts: Mapping[str, Mapping[str, Any]], run: Mapping[str, Any]) -> list[str]:
    """List the settings of the run that hosts or groups set and that the run does not use."""
    found = []
    for name, example in RUN.items():
        places = [host for host, variables in hosts.items() if name in variables and (name not in run or run[name] != variables[name])]
        if places:
            found.append(
                f"{name} is set in the inventory, for {names.some(places)}, where it would have no effect, since it applies to the "
                f"whole run. Remove it there and pass it on the command line: -e @rollout.yml, with `{name}: {example}` in that file"
            )
    return found


def _waves(serial: Any) -> list[str]:
    """List the sizes of waves that would make Ansible end the run without naming the variable, or take all hosts at once."""
    if serial is None or (isinstance(serial, str) and serial.startswith("[")):  # a list as text, which older ansible-core reads as a list
        return []
    sizes = [str(size).strip() for size in (serial if isinstance(serial, list) else [serial])]
    wrong = [size or "''" for size in sizes if not re.fullmatch(r"0*(?:[1-9]\d*|(?:[1-9]\d?|100)\s*%)", size)] if sizes else ["no wave"]
    says = "but the size of a wave is a number of hosts or a percentage, and more than 0, up to 100%; write it like"
    return [f"gpufleet_serial has {', '.join(wrong)}, {says} gpufleet_serial: {RUN['gpufleet_serial']}"] if wrong else []


def _failures(allowed: Any) -> list[str]:
    """List the value that the gate would refuse only after the look at hosts, and that `plan` never reads; [] if it is good."""
    try:
        waves.amount("gpufleet_max_failed", allowed)
    except PlanError:
        return [f"gpufleet_max_failed is {allowed!r}, but it has to be a number of hosts, or a percentage like 10%"]
    return []


def _published(target: Any) -> list[str]:
    try:
        sink.parsed("gpufleet_report_publish", target)
    except PlanError as error:
        return [str(error)]
    return []


WITHOUT_AT = "_raw_params"  # the name under which Ansible leaves words of `-e` that are neither a variable nor a file


def without_at(left: object) -> list[str]:
    """Return a sentence for `-e rollout.yml`, which reads no file; [] for other words. The run would go on for all hosts, with defaults."""
    if left in (None, ""):
        return []
    file = str(left).split()[0]
    return [f"-e {file} sets no variable, since it has neither @ nor =. Write -e @{file} if it is a file of variables"]


def grouped(sentences: Mapping[str, Iterable[str]]) -> list[str]:
    """Return each sentence once, with its hosts."""
    found: dict[str, list[str]] = {}
    for host, said in sentences.items():
        for sentence in said:
            found.setdefault(sentence, []).append(host)
    return [f"{sentence} (for {names.some(places)})" for sentence, places in sorted(found.items())]


def unknown_hosts(pattern: str, matching: Collection[str], groups: Mapping[str, Iterable[str]]) -> str:
    """Return a sentence if nothing in the inventory has that name; '' otherwise. A group without hosts is known."""
    if matching or pattern in groups or not pattern.strip():
        return ""
    near = suggestion(pattern, {*groups, *(host for hosts in groups.values() for host in hosts)})
    return f"gpufleet_hosts is {pattern}{near}, which no host of the inventory matches. Correct it, or add the hosts to the inventory"


def no_hosts(pattern: str, matching: Collection[str], limited: Collection[str], groups: Mapping[str, Collection[str]]) -> str:
    """Return a sentence if a run has no hosts; '' otherwise.

    limited: the hosts of the inventory that --limit leaves.
    """
    if not pattern.strip():
        return "gpufleet_hosts is empty. Set it to a host, a group or a pattern of the inventory, for example -e gpufleet_hosts=gpu_nodes"
    if not any(groups.values()) and not matching:
        return "The inventory has no hosts. Name one that has some, for example with -i inventory"
    if not matching and pattern in groups:
        return f"gpufleet_hosts is {pattern}, a group of the inventory without hosts. Add hosts to it, or name another group"
    known = {host for hosts in groups.values() for host in hosts} & set(matching)
    if known and not known & set(limited):
        return f"--limit leaves none of the hosts of gpufleet_hosts ({pattern}). Limit the run to some of {names.some(sorted(known))}"
    return unknown_hosts(pattern, matching, groups)


def suggestion(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return ' (did you mean X?)' with the nearest name; '' if none is near."""
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f" (did you mean {prefix}{near[0]}?)" if near else ""
