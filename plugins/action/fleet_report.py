# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the report of a fleet, as a page for people and as data, and take it elsewhere."""

from __future__ import annotations

import json
import os.path
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    batch_hosts,
    console,
    gathered,
    host_variables,
    messages,
    named_paths,
    outside,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import (
    rollout_report,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    bounds,
    escape,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import progress, sink
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.page import (
    document,
    html,
    kept,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)

SPEC = arguments.derive_argument_spec("fleet_report")
JSON, HTML = "report.json", "report.html"


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False
    BYPASS_HOST_LOOP = True

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)
        target = sink.parse_sink(outside.PUBLISH, args["publish"])
        if not args["directory"] and not target:
            return {"changed": False, "files": [], "published": False}
        report = build_fleet_report(args, task_vars or {}, bool(self._task.check_mode))
        if args["directory"]:
            delivered = deliver_report(
                report, outside.make_writable_directory(args["directory"]), target, args["files"]
            )
            console.show([describe_report_place(delivered["files"], len(report["hosts"])), ""])
            return delivered
        with tempfile.TemporaryDirectory(
            prefix="gpufleet-"
        ) as place:  # used by this run alone, to take the report elsewhere
            return {**deliver_report(report, Path(place), target, args["files"]), "files": []}


def build_fleet_report(
    args: Mapping[str, Any], task_vars: Mapping[str, Any], check: bool
) -> document.Document:
    """Build the report of this run, or of the kept reports that the task names.

    Raise PlanError for a kept report that cannot be read.
    """
    now = outside.format_present_time()
    if args["sources"]:
        reports = {name: read_kept_report(kept.get_report_file(name)) for name in args["sources"]}
        for sentence in kept.warn_of_hosts_in_several(reports):
            Display().warning(escape.escape_line(end_with_code(sentence)))
        return kept.merge_reports(reports, now)
    about = document.About(args["playbook"], now, check, args["status"], args["change_ref"])
    results, classes = list_run_results(args, task_vars)
    return document.build_report(
        {host: escape.escape_result(result) for host, result in results.items()}, about, classes
    )


def list_run_results(
    args: Mapping[str, Any], task_vars: Mapping[str, Any]
) -> tuple[outcomes.Results, Mapping[str, str]]:
    """Return the results that the table of the same run shows, and the class of each host of a
    rollout.
    """
    if not args["plan"]:
        return gathered.gather_results(task_vars, args), {}
    plan, hostvars = args["plan"], task_vars["hostvars"]
    reached = batch_hosts.get_reached_progress(plan, hostvars)
    results = {
        host: bounds.limit_result(
            report_host_result(host, plan, host_variables.HostVariables(hostvars, host), reached)
        )
        for host in plan["hosts"]
    }
    return results, {host: str(planned["class"]) for host, planned in plan["hosts"].items()}


def report_host_result(
    host: str, plan: Mapping[str, Any], variables: Mapping[str, Any], found: progress.Progress
) -> outcomes.Result:
    """Return a host's result with the whole journal of the look before.

    A change returns the name of its own journal entry. The look before it has the entries of all
    earlier transactions.
    """
    result = rollout_report.get_rollout_result(host, plan, variables, found)
    return {**result, "journal": (variables.get(registered.LOOK) or {}).get("journal") or []}


def deliver_report(
    report: document.Document, place: Path, target: Sequence[str], more: Sequence[str]
) -> dict[str, Any]:
    """Write the report, then take it elsewhere.

    If it cannot be taken elsewhere, the result of the run stays as it is, and a warning tells the
    reason.
    """
    data = json.dumps(report, indent=1, ensure_ascii=False, default=str) + "\n"
    files = [
        outside.write_outside_file(place, JSON, data),
        outside.write_outside_file(place, HTML, html.render_page(read_template(), report)),
    ]
    delivered = {"changed": False, "files": [str(file) for file in files], "published": False}
    if not target:
        return delivered
    known = [named_paths.expand_named_path(name).absolute() for name in more if name]
    why = outside.publish(target, [*files, *(file for file in known if os.path.isfile(file))])
    return {
        **delivered,
        "published": not why,
        **({"warnings": [run_messages.NOT_PUBLISHED.fill(cause=why)]} if why else {}),
    }


def read_template() -> str:
    """Return the template of the page, which is part of this collection."""
    return Path(html.__file__).with_name(html.TEMPLATE).read_text(encoding="utf-8")


def describe_report_place(files: Sequence[str], hosts: int) -> str:
    """Return the sentence that says where the page is.

    hosts: the number of hosts in it.
    """
    (page,) = (name for name in files if name.endswith(HTML))
    return run_messages.REPORT_PLACE.fill(
        hosts=outcomes.format_host_count(hosts), path=str(Path(page).absolute())
    )


LARGEST = 256 << 20  # bytes; the report of ten thousand hosts has a tenth


def read_report_text(path: Path) -> str:
    """Read a report. Raise ValueError for a file that is larger than any report."""
    with path.open("rb") as opened:
        data = opened.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(run_messages.REPORT_TOO_LARGE.fill(limit=LARGEST >> 20))
    return data.decode("utf-8")


def read_kept_report(name: str) -> Any:
    """Read a report.json of an earlier run. Raise PlanError if it is not one."""
    try:
        return kept.require_report(
            json_bounds.load_bounded_json(
                read_report_text(named_paths.expand_named_path(name)), LARGEST
            ),
            name,
        )
    except OSError as error:
        message = messages.REPORT_UNREADABLE.fill(cause=error.strerror or "", step=kept.STEP)
        raise PlanError(message, where=name) from None
    except ValueError as error:
        message = messages.REPORT_NOT_JSON.fill(cause=read_error_message(error), step=kept.STEP)
        raise PlanError(message, where=name) from None
