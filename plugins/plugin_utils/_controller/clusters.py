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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    cluster_api,
    host_variables,
    messages,
    module_calls,
    validation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    files,
    live,
    members,
    objects,
    order,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.given import (
    require_plain_option,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)

SPEC = arguments.derive_argument_spec("kubernetes_objects")
PREFIX = "gpufleet_kubernetes_"
# Options that each cluster may set by variables of its hosts. For other clusters, the task's
# options count.
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

    rendered: objects.RenderedCluster
    plan: live.ClusterPlan
    which: order.Ordered
    stays: frozenset[str]


def find_play_clusters(
    variables: Mapping[str, Any], args: Mapping[str, Any]
) -> tuple[list[OneCluster], Sequence[members.Host]]:
    """Return the clusters of the play, and the hosts whose cluster is not known."""
    hosts = [str(host) for host in variables.get("ansible_play_hosts_all") or ()]
    known = {host: host_variables.HostVariables(variables["hostvars"], host) for host in hosts}
    results = {host: get_plain_result(known[host].get(args["results"])) for host in hosts}
    if hosts and not any(results.values()):
        registered.require_known_variable(
            args["results"], sorted({str(name) for v in known.values() for name in v})
        )
    joined = members.find_members(
        results, {host: read_wanted_members(known[host]) for host in hosts}
    )
    by_name = objects.group_hosts_by_cluster(joined)
    others = by_name.pop(members.DEFAULT_CLUSTER) if objects.is_without_cluster(by_name) else ()
    given = merge_cluster_options(args, known.get(str(variables.get("inventory_hostname")), {}))
    return [
        OneCluster(name, of, get_cluster_options(name, of, known, given))
        for name, of in by_name.items()
    ], others


def get_plain_result(result: Any) -> dict[str, Any]:
    """Return the parts of a result that are read, as plain values.

    Since ansible-core 2.19 the values are tagged, and YAML cannot write those.
    """
    return (
        convert_to_plain({name: result[name] for name in (*READ, *TROUBLE) if name in result})
        if result
        else {}
    )


def convert_to_plain(value: Any) -> Any:
    """Return a value of Ansible's with JSON's own types alone."""
    return json.loads(json.dumps(value, default=str))


def get_plain_variable(name: str, value: Any) -> Any:
    """Return a variable of a host as plain values.

    Raise PlanError for a value that YAML has read as a date or the like.
    """
    require_plain_option(name, value)
    return convert_to_plain(value)


def read_wanted_members(variables: Mapping[str, Any]) -> members.OfInventory:
    """Return what the inventory says of a host for its cluster."""
    given = {field: variables.get(name) for field, name in OF_HOST.items()}
    sharing = variables.get("gpufleet_sharing") or {}
    return members.OfInventory(
        **{field: str(value) for field, value in given.items() if value not in (None, "")},
        sharing=get_plain_variable("gpufleet_sharing", sharing)
        if isinstance(sharing, Mapping)
        else {},
    )


def merge_cluster_options(args: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that count for a cluster whose hosts set none.

    The role passes the values of its first host on to the task. They belong to that host's cluster,
    so the default counts in their place.
    """
    own = {
        option: value for option in OF_CLUSTER if (value := first.get(PREFIX + option)) is not None
    }
    handed_on = validate_cluster_options(own)
    return {
        o: SPEC[o]["default"] if o in own and args[o] == handed_on[o] else args[o]
        for o in OF_CLUSTER
    }


def get_cluster_options(
    name: str,
    hosts: Sequence[members.Host],
    known: Mapping[str, Mapping[str, Any]],
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the options of one cluster. Raise PlanError if its hosts differ in one of them.

    The hosts share the cluster, so the option of one host would change the nodes of the others.
    """
    # A host that is out of the cluster anyway need not set an option.
    asked = [one.host for one in hosts if not (isinstance(one, members.LeftOut) and one.gone)] or [
        one.host for one in hosts
    ]
    options = {}
    for option in OF_CLUSTER:
        said: dict[str, list[str]] = {}
        for host in (one.host for one in hosts):
            value = known[host].get(PREFIX + option)
            if value is not None or host in asked:
                said.setdefault(
                    ""
                    if value is None
                    else json.dumps(get_plain_variable(PREFIX + option, value), sort_keys=True),
                    [],
                ).append(host)
        values = {
            text: validate_cluster_options({option: json.loads(text) if text else given[option]})[
                option
            ]
            for text in said
        }
        if any(value != next(iter(values.values())) for value in values.values()):
            texts = "; ".join(
                f"{text or 'not set'} for {names.show_some_runs(of)}" for text, of in said.items()
            )
            row = messages.CLUSTER_OPTION_DIFFERS
            raise PlanError(row.fill(setting=f"{PREFIX}{option}", cluster=name, values=texts))
        options[option] = next(iter(values.values()))
    return validate_cluster_options(options)


def validate_cluster_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Validate options by the names that users write, so that the sentences contain these.

    Raise PlanError for a wrong value.
    """
    given = {PREFIX + name: value for name, value in options.items()}
    for name, value in given.items():
        require_plain_option(name, value)
    spec = arguments.keep_written_paths({name: SPEC[name] for name in OF_CLUSTER})
    named = {PREFIX + name: option for name, option in spec.items()}
    valid = validation.validate(named, given)
    return {name.removeprefix(PREFIX): convert_to_plain(value) for name, value in valid.items()}


def build_cluster_settings(
    options: Mapping[str, Any], args: Mapping[str, Any]
) -> objects.ClusterSettings:
    """Return the settings of one cluster.

    options: those of its hosts. args: those of the task.
    """
    return objects.ClusterSettings(
        profile=options["profile"],
        namespace=options["namespace"],
        config_map=options["config_map"],
        taints=tuple(options["taints"]),
        values=options["values"],
        environment=options["operator_environment"],
        uniform=args["fleet_policy"] == "uniform",
    )


# ---------------------------------------------------------------- in its API


def list_judged_nodes(one: OneCluster) -> set[str]:
    """Return the nodes that this run has judged. All others stay as they are."""
    return {host.node for host in one.hosts if isinstance(host, members.ClusterMember) or host.gone}


def build_cluster_api(
    action: ActionBase, one: OneCluster, variables: Mapping[str, Any]
) -> cluster_api.ClusterApi:
    """Return the API of one cluster, by the kubeconfig and context of its hosts."""
    access = {key: one.options[key] for key in ("kubeconfig", "context") if one.options[key]}
    return cluster_api.ClusterApi(
        module_calls.Calls(action, variables, cluster_api.DELEGATE), access
    )


@contextlib.contextmanager
def name_cluster_in_errors(one: OneCluster, others: str = "") -> Iterator[None]:
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
        raise type(error)(
            error.message, where=where, why=error.why, next=step, line=error.line
        ) from None


def plan_in_api(
    one: OneCluster,
    api: cluster_api.ClusterApi,
    settings: objects.ClusterSettings,
    others: str = "",
) -> InApi:
    """Return what has to be done in a cluster now, if a host and its plugin change one after the
    other.
    """
    with name_cluster_in_errors(one, others):
        there = api.look(settings.place, settings.config_map)
    which = order.order_hosts(one.hosts, live.map_live_strategies(there), settings.fixed)
    kept = live.list_kept_nodes(there, list_judged_nodes(one) - which.held)
    rendered = objects.render_cluster(one.name, which.hosts, settings, kept)
    with name_cluster_in_errors(one, others):
        plan = live.plan_cluster(rendered, there, settings, which.held)
    return InApi(rendered, plan, which, frozenset(kept.nodes) - which.held)


def require_own_access(asked: Sequence[OneCluster]) -> None:
    """Raise PlanError if two clusters have the same kubeconfig and context.

    They would be one cluster, with the hosts of both.
    """
    owners: dict[tuple[str, str], str] = {}
    for one in (one for one in asked if one.options["apply"]):
        access = (one.options["kubeconfig"], one.options["context"])
        other = owners.setdefault(access, one.name)
        if other != one.name:
            raise PlanError(messages.SAME_ACCESS.fill(one=other, other=one.name))


def build_api_diff(path: str, before: Any, after: Any) -> dict[str, str]:
    """Return the difference of an object in the API, as Ansible prints it with --diff."""
    return {
        "before_header": path,
        "after_header": path,
        "before": dump_as_text(before),
        "after": dump_as_text(after),
    }


def dump_as_text(value: Any) -> str:
    """Return a value as YAML without its empty parts; '' for None."""
    return "" if value is None else files.dump_object({key: of for key, of in value.items() if of})
