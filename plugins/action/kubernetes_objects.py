# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render what a cluster needs to know of its GPU hosts, write it as files, and apply it."""

from __future__ import annotations

import contextlib
import dataclasses as dc
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    cluster_api,
    clusters,
    console,
    messages,
    outside,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    files,
    live,
    objects,
    order,
    summary,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Difference
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import results

# The mode of the one file with the user's own values. They may come from a vault, and do not show
# it if a whole file was encrypted.
OWNERS = 0o600


@dc.dataclass(frozen=True)
class SeenCluster:
    """A cluster as it was rendered, with its changes.

    place: its directory; None if no files are written.
    """

    rendered: objects.RenderedCluster
    place: Path | None
    before: Mapping[str, str]
    todo: files.Changes
    plan: live.ClusterPlan = live.ClusterPlan()
    api: cluster_api.ClusterApi | None = None
    steps: tuple[str, ...] = ()  # the order in which hosts and cluster are changed
    stays: tuple[
        str, ...
    ] = ()  # nodes that an earlier run has written, and that this one knows nothing of
    of: clusters.OneCluster | None = None  # the cluster of the API


@dc.dataclass
class Found:
    """The changes that a task has made, or would make."""

    differences: list[Difference] = dc.field(default_factory=list)
    diff: list[dict[str, str]] = dc.field(default_factory=list)
    written: list[str] = dc.field(default_factory=list)
    only_rendered: list[str] = dc.field(default_factory=list)


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False
    BYPASS_HOST_LOOP = True

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, clusters.SPEC)
        variables = task_vars or {}
        outcome = Found()
        asked, unknown = clusters.find_play_clusters(variables, args)
        clusters.require_own_access(asked)
        # Everything is judged before anything is written: if one cluster refuses, the others stay
        # as they are.
        others = run_messages.OTHER_CLUSTERS_WAIT.fill() if len(asked) > 1 else ""
        clusters_seen = [self._read_seen(one, args, variables, others) for one in asked]
        for one in clusters_seen:
            judge_cluster_changes(one, others)
        for one in clusters_seen:
            self._carry_out(one, outcome)
        lines = [
            line
            for one in clusters_seen
            for line in describe_seen_cluster(one, bool(self._task.check_mode))
        ] + summary.list_clusterless_lines(unknown)
        if not any(one.place or one.api for one in clusters_seen):
            lines.append(end_with_code(run_messages.NOTHING_WRITTEN_FOR_CLUSTERS.fill()))
        console.show(["", *lines, ""])
        return {
            "changed": bool(outcome.differences),
            "clusters": [summary.convert_rendered(one.rendered) for one in clusters_seen],
            "differences": results.describe_differences(outcome.differences),
            "diff": outcome.diff,
            "files": outcome.written,
            "only_rendered": outcome.only_rendered,
            "order": [text for one in clusters_seen for text in one.steps],
            "lines": lines,
        }

    def _read_seen(
        self,
        one: clusters.OneCluster,
        args: Mapping[str, Any],
        variables: Mapping[str, Any],
        others: str,
    ) -> SeenCluster:
        """Render a cluster, and find what has to be done in its directory and in its API.

        others: what an error means for the other clusters.
        """
        settings = clusters.build_cluster_settings(one.options, args)
        absent = one.options["state"] == "absent"
        judged = clusters.list_judged_nodes(one)
        place = (
            outside.require_usable_directory(one.options["dir"], files.SETTING) / one.name
            if one.options["dir"]
            else None
        )
        before = read_cluster_directory(place) if place else {}
        in_files = files.read_kept_files(before, judged, str(place))
        written = (
            objects.render_empty_cluster(one.name)
            if absent
            else objects.render_cluster(one.name, one.hosts, settings, in_files)
        )
        wanted = (
            {} if absent else files.render_cluster_files(written, before if in_files.nodes else {})
        )
        stay = () if absent else in_files.nodes
        gone = live.TAKEN_BACK if absent else files.UNUSED
        todo = (
            files.compare_cluster_files(
                wanted, before, stay, str(place), list_exposed_files(place), gone
            )
            if place
            else files.Changes({}, ())
        )
        stays = () if absent else tuple(in_files.nodes)
        if not one.options["apply"]:
            steps = () if absent else order.order_hosts(one.hosts, {}, settings.fixed).steps
            return SeenCluster(written, place, before, todo, steps=steps, stays=stays)
        api = clusters.build_cluster_api(self, one, variables)
        if absent:
            with clusters.name_cluster_in_errors(one, others):
                there = api.look(settings.place, settings.config_map)
                back = live.plan_cluster_removal(there, api.own_config_maps(), one.hosts, settings)
            return SeenCluster(written, place, before, todo, back, api, of=one)
        planned = clusters.plan_in_api(one, api, settings, others)
        stays = tuple({*stays, *planned.stays})
        return SeenCluster(
            planned.rendered,
            place,
            before,
            todo,
            planned.plan,
            api,
            planned.which.steps,
            stays,
            one,
        )

    def _carry_out(self, one: SeenCluster, found: Found) -> None:
        if one.api and one.of and not self._task.check_mode:
            with clusters.name_cluster_in_errors(one.of):
                one.api.carry_out(one.plan.calls)
        for call in one.plan.calls:
            found.differences += call.differences
            found.diff += [clusters.build_api_diff(*change) for change in call.changes]
        found.only_rendered += one.plan.said
        if one.place:
            self._write(one.place, one.todo, one.before, found)

    def _write(
        self, place: Path, todo: files.Changes, before: Mapping[str, str], found: Found
    ) -> None:
        found.differences += todo.differences
        for name, text in todo.texts.items():
            headers = {"before_header": str(place / name), "after_header": str(place / name)}
            found.diff.append({**headers, "before": before.get(name, ""), "after": text or ""})
            if not self._task.check_mode:
                write_cluster_file(place, name, text)
        found.written += [
            str(place / name) for name, text in todo.texts.items() if text is not None
        ]


def judge_cluster_changes(one: SeenCluster, others: str) -> None:
    """Let the API of a cluster judge its changes.

    others: what a refusal means for the other clusters.
    """
    if one.api and one.of:
        with clusters.name_cluster_in_errors(one.of, others):
            one.api.judge(one.plan.calls)


def describe_seen_cluster(one: SeenCluster, check: bool) -> list[str]:
    """Describe a cluster for people: its groups, what is only rendered or stays, the order of
    changes, and what is changed.
    """
    done = summary.list_drift_lines(
        [*(d for call in one.plan.calls for d in call.differences), *one.todo.differences],
        check=check,
    )
    stays = summary.list_staying_lines(one.stays)
    both = end_with_code(run_messages.ROLLOUT_DOES_BOTH.fill())
    by_rollout = [both] if one.api and one.steps else []
    return [
        *summary.list_cluster_lines(one.rendered),
        *(f"  {text}" for text in (*one.plan.said, *stays, *one.steps, *by_rollout)),
        *done,
    ]


# ---------------------------------------------------------------- files


def read_cluster_directory(place: Path) -> dict[str, str]:
    """Read the YAML files of a cluster's directory, by their names below it.

    Raise PlanError if one cannot be read: it never counts as missing.
    """
    try:
        paths = [
            path
            for folder in (place, *(place / name for name in files.FOLDERS))
            for path in list_yaml_files(folder)
        ]
        return {
            str(path.relative_to(place)): path.read_text(encoding="utf-8", errors="surrogateescape")
            for path in paths
        }
    except OSError as error:
        message = messages.NOT_READ.fill(cause=error.strerror or "", setting=files.SETTING)
        raise PlanError(message, where=str(error.filename)) from None


def list_yaml_files(folder: Path) -> Iterator[Path]:
    """Yield the YAML files of a folder.

    In some releases of Python, glob() and is_file() take a directory without read permission for an
    empty one.
    """
    outside.require_usable_directory(str(folder), files.SETTING)
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(path for path in folder.iterdir() if path.suffix == ".yaml"):
            with contextlib.suppress(FileNotFoundError):  # a link to nothing
                if stat.S_ISREG(path.stat().st_mode):
                    yield path


def list_exposed_files(place: Path) -> list[str]:
    """Return the files that other users can read but should not.

    A copy of the files, for example by git, has the mode that the copier chose.
    """
    with contextlib.suppress(FileNotFoundError):
        return [files.VALUES] if (place / files.VALUES).stat().st_mode & ~OWNERS & 0o777 else []
    return []


def write_cluster_file(place: Path, name: str, text: str | None) -> None:
    """Write a file below this directory, or remove it and the empty directories above it if it has
    no text.

    Raise PlanError if that fails.
    """
    path = place / name
    if text is not None:
        mode = OWNERS if name == files.VALUES else outside.MODE
        outside.write_outside_file(
            outside.make_writable_directory(str(path.parent), files.SETTING),
            path.name,
            text,
            files.SETTING,
            mode,
        )
        return
    outside.require_usable_directory(str(path.parent), files.SETTING)
    try:
        path.unlink(missing_ok=True)
        for folder in [path.parent, path.parent.parent][: len(Path(name).parts)]:
            with contextlib.suppress(OSError):  # it contains other files, or it is a link
                folder.rmdir()
    except OSError as error:
        message = messages.NOT_REMOVED.fill(cause=error.strerror or "")
        raise PlanError(message, where=str(path)) from None
