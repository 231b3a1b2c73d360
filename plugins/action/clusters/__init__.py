# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the clusters of a play, the hosts and options of each, and what has to be done in its API."""

from __future__ import annotations

import contextlib
import dataclasses as dc
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base, cluster_api, draining
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import messages, validation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import files, live, members, objects, order
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.given import require_plain
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import names, registered

SPEC = arguments.spec("kubernetes_objects")
PREFIX = "gpufleet_kubernetes_"
# Options that each cluster may set by variables of its hosts. For other clusters, the task's options count.
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
READ = ("decision", "kubelet", "instances", "driver", "work", "leftovers", "differences")
TROUBLE = ("failed", "unreachable", "problem", "msg", "rolled_back")


@dc.dataclass(frozen=True)
class OneCluster:
    """A cluster with its hosts, and with the options that count for it."""

    name: str
    hosts: tuple[members.Host, ...]
    options: Mapping[str, Any]


@dc.dataclass(frozen=True)
class InApi:
    """The changes that a cluster needs.

    which: the order of its hosts and the plugin.
    stays: nodes that stay as an earlier run has left them.
    """

    rendered: objects.Rendered
    plan: live.Plan
    which: order.Ordered
    stays: frozenset[str]


def of_play(variables: Mapping[str, Any], args: Mapping[str, Any]) -> tuple[list[OneCluster], Sequence[members.Host]]:
    """Return the clusters of the play, and the hosts whose cluster is not known."""
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
    """Return the parts of a result that are read, as plain values.

    Since ansible-core 2.19 the values are tagged, and YAML cannot write those.
    """
    return plain({name: result[name] for name in (*READ, *TROUBLE) if name in result}) if result else {}


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def plain_variable(name: str, value: Any) -> Any:
    """Return a variable of a host as plain values.

    Raise PlanError for a value that YAML has read as a date or the like.
    """
    require_plain(name, value)
    return plain(value)


def wanted_of(variables: Mapping[str, Any]) -> members.OfInventory:
    given = {field: variables.get(name) for field, name in OF_HOST.items()}
    sharing = variables.get("gpufleet_sharing") or {}
    return members.OfInventory(
        **{field: str(value) for field, value in given.items() if value not in (None, "")},
        sharing=plain_variable("gpufleet_sharing", sharing) if isinstance(sharing, Mapping) else {},
    )


def of_task(args: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that count for a cluster whose hosts set none.

    The role passes the values of its first host on to the task. They belong to that host's cluster,
    so the default counts in their place.
    """
    own = {option: value for option in OF_CLUSTER if (value := first.get(PREFIX + option)) is not None}
    handed_on = validated(own)
    return {o: SPEC[o]["default"] if o in own and args[o] == handed_on[o] else args[o] for o in OF_CLUSTER}


def options_of(
    name: str, hosts: Sequence[members.Host], known: Mapping[str, Mapping[str, Any]], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of one cluster. Raise PlanError if its hosts differ in one of them.

    The hosts share the cluster, so the option of one host would change the nodes of the others.
    """
    # A host that is out of the cluster anyway need not set an option.
    asked = [one.host for one in hosts if not (isinstance(one, members.LeftOut) and one.gone)] or [one.host for one in hosts]
    found = {}
    for option in OF_CLUSTER:
        said: dict[str, list[str]] = {}
        for host in (one.host for one in hosts):
            value = known[host].get(PREFIX + option)
            if value is not None or host in asked:
                said.setdefault("" if value is None else json.dumps(plain_variable(PREFIX + option, value), sort_keys=True), []).append(
                    host
                )
        values = {text: validated({option: json.loads(text) if text else given[option]})[option] for text in said}
        if any(value != next(iter(values.values())) for value in values.values()):
            texts = "; ".join(f"{text or 'not set'} for {names.some(of)}" for text, of in said.items())
            row = messages.CLUSTER_OPTION_DIFFERS
            raise PlanError(row.fill(setting=f"{PREFIX}{option}", cluster=name, values=texts))
        found[option] = next(iter(values.values()))
    return validated(found)


def validated(options: Mapping[str, Any]) -> dict[str, Any]:
    """Validate options by the names that users write, so that the sentences contain these.

    Raise PlanError for a wrong value.
    """
    given = {PREFIX + name: value for name, value in options.items()}
    for name, value in given.items():
        require_plain(name, value)
    spec = arguments.as_written({name: SPEC[name] for name in OF_CLUSTER})
    named = {PREFIX + name: option for name, option in spec.items()}
    found = validation.validate(named, given)
    return {name.removeprefix(PREFIX): plain(value) for name, value in found.items()}


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


# ---------------------------------------------------------------- in its API


def judged_of(one: OneCluster) -> set[str]:
    """Return the nodes that this run has judged. All others stay as they are."""
    return {host.node for host in one.hosts if isinstance(host, members.Member) or host.gone}


def api_of(action: ActionBase, one: OneCluster, variables: Mapping[str, Any]) -> cluster_api.Api:
    access = {key: one.options[key] for key in ("kubeconfig", "context") if one.options[key]}
    return cluster_api.Api(draining.Calls(action, variables, cluster_api.DELEGATE), access)


@contextlib.contextmanager
def named_in_errors(one: OneCluster, others: str = "") -> Iterator[None]:
    """Add the cluster and the way to it to a PlanError, since a run may have several clusters.

    others: what the error means for the other clusters.
    """
    try:
        yield
    except PlanError as error:
        kubeconfig, context = one.options["kubeconfig"], one.options["context"]
        way = f"kubeconfig {kubeconfig}" if kubeconfig else "default kubeconfig"
        where = f"cluster {one.name} ({way}{f', context {context}' if context else ''})"
        where = f"{where}: {error.where}" if error.where else where
        step = ". ".join(text for text in (error.next, others) if text)
        raise type(error)(error.message, where=where, why=error.why, next=step, line=error.line) from None


def in_api(one: OneCluster, api: cluster_api.Api, settings: objects.Settings, others: str = "") -> InApi:
    """Return what has to be done in a cluster now, if a host and its plugin change one after the other."""
    with named_in_errors(one, others):
        there = api.look(settings.place, settings.config_map)
    which = order.ordered(one.hosts, live.strategies(there), settings.fixed)
    kept = live.kept(there, judged_of(one) - which.held)
    rendered = objects.render(one.name, which.hosts, settings, kept)
    with named_in_errors(one, others):
        plan = live.plan(rendered, there, settings, which.held)
    return InApi(rendered, plan, which, frozenset(kept.nodes) - which.held)


def require_own_access(asked: Sequence[OneCluster]) -> None:
    """Raise PlanError if two clusters have the same kubeconfig and context.

    They would be one cluster, with the hosts of both.
    """
    found: dict[tuple[str, str], str] = {}
    for one in (one for one in asked if one.options["apply"]):
        access = (one.options["kubeconfig"], one.options["context"])
        other = found.setdefault(access, one.name)
        if other != one.name:
            raise PlanError(messages.SAME_ACCESS.fill(one=other, other=one.name))


def api_diff(path: str, before: Any, after: Any) -> dict[str, str]:
    return {"before_header": path, "after_header": path, "before": as_text(before), "after": as_text(after)}


def as_text(value: Any) -> str:
    return "" if value is None else files.dumped({key: of for key, of in value.items() if of})
