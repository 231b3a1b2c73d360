# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render what a cluster needs to know of its GPU hosts, write it as files, and apply it."""

from __future__ import annotations

import contextlib
import dataclasses as dc
import json
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base, cluster_api, draining, fleet_table, outside
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import files, live, members, objects, order, summary
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Difference, PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import names, registered

SPEC = arguments.spec("kubernetes_objects")
PREFIX = "gpufleet_kubernetes_"
# Options that each cluster may have of its own, by variables of its hosts; what a task is given counts for the others.
OF_CLUSTER = (
    *("state", "dir", "apply", "kubeconfig", "context"),
    *("profile", "namespace", "config_map", "taints", "values", "operator_environment"),
)
# Field of OfInventory -> variable of a host.
OF_HOST = {
    "cluster": "gpufleet_cluster",
    "node": "gpufleet_kubernetes_node",
    "device_ids": "gpufleet_kubernetes_device_ids",
    "mig": "gpufleet_kubernetes_mig_strategy",
    "hook": "gpufleet_kubernetes_hook",
    "driver_root": "gpufleet_cdi_driver_root",
    "dev_root": "gpufleet_cdi_dev_root",
}
# Of the one file with values of the user's own: they may come from a vault, and nothing in them says so where a whole file was encrypted.
OWNERS = 0o600
BY_ROLLOUT = "gpufleet.nvidia.rollout does both in this order, batch by batch, with gpufleet_kubernetes_apply"
READ = ("decision", "kubelet", "instances", "driver", "work", "leftovers", "differences")
NOWHERE = "Nothing was written: gpufleet_kubernetes_dir names a directory for files, and gpufleet_kubernetes_apply applies to the cluster"
TROUBLE = ("failed", "unreachable", "problem", "msg", "rolled_back")


@dc.dataclass(frozen=True)
class OneCluster:
    """A cluster with its hosts, and with the options that count for it."""

    name: str
    hosts: tuple[members.Host, ...]
    options: Mapping[str, Any]


@dc.dataclass(frozen=True)
class Seen:
    """A cluster as it was rendered, and what has to be done for it. place: its directory; None where no files are written."""

    rendered: objects.Rendered
    place: Path | None
    before: Mapping[str, str]
    todo: files.Changes
    plan: live.Plan = live.Plan()
    api: cluster_api.Api | None = None
    steps: tuple[str, ...] = ()  # in which order hosts and cluster are changed
    stays: tuple[str, ...] = ()  # nodes that an earlier run has written, and of which this one knows nothing


@dc.dataclass(frozen=True)
class InApi:
    """What has to be done in a cluster. which: in which order; stays: nodes that stay as an earlier run has left them."""

    rendered: objects.Rendered
    plan: live.Plan
    which: order.Ordered
    stays: frozenset[str]


@dc.dataclass
class Found:
    """What a task has done, or would do."""

    differences: list[Difference] = dc.field(default_factory=list)
    diff: list[dict[str, str]] = dc.field(default_factory=list)
    written: list[str] = dc.field(default_factory=list)
    only_rendered: list[str] = dc.field(default_factory=list)


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False
    BYPASS_HOST_LOOP = True

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.of_task(self, SPEC)
        variables = task_vars or {}
        found = Found()
        asked, others = clusters(variables, args)
        require_own_access(asked)
        # All is judged before anything is written: what one cluster refuses leaves the others as they are.
        seen = [self._seen(one, args, variables) for one in asked]
        for one in seen:
            self._carry_out(one, found)
        lines = [line for one in seen for line in said(one, bool(self._task.check_mode))] + summary.of_no_cluster(others)
        lines += [] if any(one.place or one.api for one in seen) else [NOWHERE]
        fleet_table.show(["", *lines, ""])
        return {
            "changed": bool(found.differences),
            "clusters": [summary.plain(one.rendered) for one in seen],
            "differences": [dc.asdict(d) for d in found.differences],
            "diff": found.diff,
            "files": found.written,
            "only_rendered": found.only_rendered,
            "order": [text for one in seen for text in one.steps],
            "lines": lines,
        }

    def _seen(self, one: OneCluster, args: Mapping[str, Any], variables: Mapping[str, Any]) -> Seen:
        """Render a cluster, and say what has to be done in its directory and in its API."""
        settings = settings_of(one.options, args)
        absent = one.options["state"] == "absent"
        judged = judged_of(one)
        place = outside.judged(one.options["dir"], files.SETTING) / one.name if one.options["dir"] else None
        before = read(place) if place else {}
        in_files = files.kept(before, judged, str(place))
        written = objects.nothing(one.name) if absent else objects.render(one.name, one.hosts, settings, in_files)
        wanted = {} if absent else files.of(written, before if in_files.nodes else {})
        stay = () if absent else in_files.nodes
        todo = files.changes(wanted, before, stay, str(place), exposed(place)) if place else files.Changes({}, ())
        stays = () if absent else tuple(in_files.nodes)
        if not one.options["apply"]:
            return Seen(written, place, before, todo, steps=order.ordered(one.hosts, {}, settings.fixed).steps, stays=stays)
        api = api_of(self, one, variables)
        if absent:
            there = api.look(settings.place, settings.config_map)
            return Seen(written, place, before, todo, live.absent(there, api.own_config_maps(), one.hosts, settings), api)
        found = in_api(one, api, settings)
        stays = tuple({*stays, *found.stays})
        return Seen(found.rendered, place, before, todo, found.plan, api, found.which.steps, stays)

    def _carry_out(self, one: Seen, found: Found) -> None:
        check = bool(self._task.check_mode)
        if one.api:
            one.api.carry_out(one.plan.calls, check=check)
        for call in one.plan.calls:
            found.differences += call.differences
            found.diff += [api_diff(*change) for change in call.changes]
        found.only_rendered += one.plan.said
        if one.place:
            self._write(one.place, one.todo, one.before, found)

    def _write(self, place: Path, todo: files.Changes, before: Mapping[str, str], found: Found) -> None:
        found.differences += todo.differences
        for name, text in todo.texts.items():
            headers = {"before_header": str(place / name), "after_header": str(place / name)}
            found.diff.append({**headers, "before": before.get(name, ""), "after": text or ""})
            if not self._task.check_mode:
                write(place, name, text)
        found.written += [str(place / name) for name, text in todo.texts.items() if text is not None]


def judged_of(one: OneCluster) -> set[str]:
    """The nodes of which this run knows what they are; the others stay as they are."""
    return {host.node for host in one.hosts if isinstance(host, members.Member) or host.gone}


def api_of(action: ActionBase, one: OneCluster, variables: Mapping[str, Any]) -> cluster_api.Api:
    access = {key: one.options[key] for key in ("kubeconfig", "context") if one.options[key]}
    return cluster_api.Api(draining.Calls(action, variables, cluster_api.DELEGATE), access)


def in_api(one: OneCluster, api: cluster_api.Api, settings: objects.Settings) -> InApi:
    """What has to be done in a cluster now, where a host and its plugin change one after the other."""
    there = api.look(settings.place, settings.config_map)
    which = order.ordered(one.hosts, live.strategies(there), settings.fixed)
    kept = live.kept(there, judged_of(one) - which.held)
    rendered = objects.render(one.name, which.hosts, settings, kept)
    return InApi(rendered, live.plan(rendered, there, settings, which.held), which, frozenset(kept.nodes) - which.held)


def said(one: Seen, check: bool) -> list[str]:
    """A cluster for people: its groups, what is only rendered or stays, in which order changes go, and what is changed."""
    done = summary.drift([*(d for call in one.plan.calls for d in call.differences), *one.todo.differences], check=check)
    stays = summary.stays(one.stays)
    by_rollout = [BY_ROLLOUT] if one.api and one.steps else []
    return [*summary.lines(one.rendered), *(f"  {text}" for text in (*one.plan.said, *stays, *one.steps, *by_rollout)), *done]


def api_diff(path: str, before: Any, after: Any) -> dict[str, str]:
    return {"before_header": path, "after_header": path, "before": as_text(before), "after": as_text(after)}


def as_text(value: Any) -> str:
    return "" if value is None else files.dumped({key: of for key, of in value.items() if of})


def require_own_access(asked: Sequence[OneCluster]) -> None:
    """Two clusters by one kubeconfig and context would be one, with the hosts of both."""
    found: dict[tuple[str, str], str] = {}
    for one in (one for one in asked if one.options["apply"]):
        access = (one.options["kubeconfig"], one.options["context"])
        other = found.setdefault(access, one.name)
        if other != one.name:
            what = f"the clusters {other} and {one.name} would be reached by the same kubeconfig and context"
            step = "Set gpufleet_kubernetes_context or gpufleet_kubernetes_kubeconfig for the hosts of each, or gpufleet_cluster alike"
            raise PlanError(what, next=step)


# ---------------------------------------------------------------- what is read


def clusters(variables: Mapping[str, Any], args: Mapping[str, Any]) -> tuple[list[OneCluster], Sequence[members.Host]]:
    """The clusters of the play, and hosts of which nobody knows which of several is theirs."""
    hosts = [str(host) for host in variables.get("ansible_play_hosts_all") or ()]
    known = {host: base.Once(variables["hostvars"][host]) for host in hosts}
    results = {host: result_of(known[host].get(args["results"])) for host in hosts}
    if hosts and not any(results.values()):
        registered.require_known(args["results"], sorted({str(name) for v in known.values() for name in v}))
    found = members.of(results, {host: wanted_of(known[host]) for host in hosts})
    by_name = objects.clusters(found)
    others = by_name.pop(members.DEFAULT_CLUSTER) if objects.without_cluster(by_name) else ()
    given = of_task(args, known.get(str(variables.get("inventory_hostname")), {}))
    return [OneCluster(name, of, options_of(name, of, known, given)) for name, of in by_name.items()], others


def result_of(result: Any) -> dict[str, Any]:
    """What is read of a result, as plain values: since ansible-core 2.19 they are tagged, and YAML has no words for those."""
    return plain({name: result[name] for name in (*READ, *TROUBLE) if name in result}) if result else {}


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def wanted_of(variables: Mapping[str, Any]) -> members.OfInventory:
    given = {field: variables.get(name) for field, name in OF_HOST.items()}
    sharing = variables.get("gpufleet_sharing") or {}
    return members.OfInventory(
        **{field: str(value) for field, value in given.items() if value not in (None, "")},
        sharing=plain(sharing) if isinstance(sharing, Mapping) else {},
    )


def of_task(args: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """What counts for a cluster whose hosts say nothing. The role hands on what its first host says, which is of that host's cluster."""
    own = {option: value for option in OF_CLUSTER if (value := first.get(PREFIX + option)) is not None}
    handed_on = validated(own)
    return {o: SPEC[o]["default"] if o in own and args[o] == handed_on[o] else args[o] for o in OF_CLUSTER}


def options_of(
    name: str, hosts: Sequence[members.Host], known: Mapping[str, Mapping[str, Any]], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The options of one cluster. Its hosts have to agree on each, as they share it: what one alone says would change the others' nodes."""
    # Of a host that is out of the cluster anyway nobody expects a word.
    asked = [one.host for one in hosts if not (isinstance(one, members.LeftOut) and one.gone)] or [one.host for one in hosts]
    found = {}
    for option in OF_CLUSTER:
        said: dict[str, list[str]] = {}
        for host in (one.host for one in hosts):
            value = known[host].get(PREFIX + option)
            if value is not None or host in asked:
                said.setdefault("" if value is None else json.dumps(plain(value), sort_keys=True), []).append(host)
        values = {text: validated({option: json.loads(text) if text else given[option]})[option] for text in said}
        if any(value != next(iter(values.values())) for value in values.values()):
            texts = "; ".join(f"{text or 'not set'} for {names.some(of)}" for text, of in said.items())
            step = "Set it for the whole cluster, or give those hosts another gpufleet_cluster"
            raise PlanError(f"{PREFIX}{option} differs within the cluster {name}: {texts}", next=step)
        found[option] = next(iter(values.values()))
    return validated(found)


def validated(options: Mapping[str, Any]) -> dict[str, Any]:
    """By the names that users write, which stand in the sentences."""
    given = {PREFIX + name: value for name, value in options.items()}
    result = ArgumentSpecValidator({PREFIX + name: SPEC[name] for name in OF_CLUSTER}).validate(given)
    if result.error_messages:
        said = "; ".join(arguments.with_choice(message, given) for message in result.error_messages)
        raise PlanError(said, next="Set it in the variables of all hosts of the cluster, or in the task")
    return {name.removeprefix(PREFIX): plain(value) for name, value in result.validated_parameters.items()}


def settings_of(options: Mapping[str, Any], args: Mapping[str, Any]) -> objects.Settings:
    return objects.Settings(
        profile=options["profile"],
        namespace=options["namespace"],
        config_map=options["config_map"],
        taints=tuple(options["taints"]),
        values=options["values"],
        environment=options["operator_environment"],
        uniform=args["fleet_policy"] == "uniform",
    )


# ---------------------------------------------------------------- files


def read(place: Path) -> dict[str, str]:
    """The YAML files of a cluster's directory, by their names below it. What cannot be read is an error, and never "nothing there"."""
    try:
        found = [path for folder in (place, *(place / name for name in files.FOLDERS)) for path in listed(folder)]
        return {str(path.relative_to(place)): path.read_text(encoding="utf-8", errors="surrogateescape") for path in found}
    except OSError as error:
        step = f"Make it readable, or name another directory in {files.SETTING}"
        raise PlanError("this cannot be read", where=str(error.filename), why=error.strerror or "", next=step) from None


def listed(folder: Path) -> Iterator[Path]:
    """Not by glob() and is_file(), for which a directory that may not be read is an empty one in some releases of Python."""
    outside.judged(str(folder), files.SETTING)
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(path for path in folder.iterdir() if path.suffix == ".yaml"):
            with contextlib.suppress(FileNotFoundError):  # a link to nothing
                if stat.S_ISREG(path.stat().st_mode):
                    yield path


def exposed(place: Path) -> list[str]:
    """A copy of the files, by git for one, has the mode that the copier chose."""
    with contextlib.suppress(FileNotFoundError):
        return [files.VALUES] if (place / files.VALUES).stat().st_mode & ~OWNERS & 0o777 else []
    return []


def write(place: Path, name: str, text: str | None) -> None:
    path = place / name
    if text is not None:
        mode = OWNERS if name == files.VALUES else outside.MODE
        outside.write(outside.directory(str(path.parent), files.SETTING), path.name, text, files.SETTING, mode)
        return
    outside.judged(str(path.parent), files.SETTING)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise PlanError("this file cannot be removed", where=str(path), why=error.strerror or "", next="Remove it by hand") from None
