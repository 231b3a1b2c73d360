# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the values of NVIDIA's two charts, and refuse values that do not fit all hosts of a
cluster.

The device plugin takes flags before its environment, and its environment before its file
(k8s-device-plugin v0.20, NewConfig in api/config/v1/config.go). Its own chart sets a variable only
for a value that is set, so all that differs stays unset there. The GPU Operator sets variables for
all nodes (gpu-operator v26.7, TransformDevicePlugin in controllers/object_controls.go), so hosts
have to fit those.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    chart_messages,
    operator_toolkit,
    own_values,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.groups import Group
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.members import (
    KUBELET_DIRECTORY,
    ClusterMember,
    LeftOut,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Filled,
    join_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    device_plugin,
)

CHART, OPERATOR = ("chart", "operator")
# hosts that keep the operator's toolkit
Kept = Mapping[str, operator_toolkit.ToolkitSettings | None]
NAMESPACES = {CHART: "nvidia-device-plugin", OPERATOR: "gpu-operator"}
ENVIRONMENT = "gpufleet_kubernetes_operator_environment"
# The variables that the operator sets with CDI on, its default since 25.10, and the toolkit off. It
# sets no path of a hook then.
OPERATOR_SETS: Mapping[str, str] = {
    "DEVICE_LIST_STRATEGY": "cdi-annotations,cdi-cri",
    "CDI_ANNOTATION_PREFIX": "cdi.k8s.io/",
    "DEVICE_ID_STRATEGY": "uuid",
    "PASS_DEVICE_SPECS": "true",
    "MIG_STRATEGY": "single",
}
# A variable of the plugin -> the key of its file that it ranks above.
KEYS = {
    "DEVICE_LIST_STRATEGY": "deviceListStrategy",
    "CDI_ANNOTATION_PREFIX": "cdiAnnotationPrefix",
    "DEVICE_ID_STRATEGY": "deviceIDStrategy",
    "MIG_STRATEGY": "migStrategy",
    "NVIDIA_CDI_HOOK_PATH": "nvidiaCTKPath",
    "NVIDIA_DRIVER_ROOT": "nvidiaDriverRoot",
    "NVIDIA_DEV_ROOT": "nvidiaDevRoot",
}
KNOWN = frozenset({*KEYS, "PASS_DEVICE_SPECS"})
# The operator's entrypoint takes both roots from what its validator has found on the node
# (assets/state-device-plugin).
OPERATOR_FINDS = ("nvidiaDriverRoot", "nvidiaDevRoot")
# Values of the chart that become variables for all nodes -> what a group has there.
OF_GROUPS: Mapping[str, Callable[[Group], Any]] = {
    "deviceListStrategy": lambda group: ",".join(group.setting.strategies),
    "deviceIDStrategy": lambda group: group.setting.device_ids,
    "migStrategy": lambda group: group.setting.mig,
    "nvidiaDriverRoot": lambda group: group.setting.driver_root,
    "nvidiaDevRoot": lambda group: group.setting.dev_root or group.setting.driver_root,
    "cdi.nvidiaHookPath": lambda group: group.setting.hook or None,
    "runtimeClassName": lambda group: group.handler or None,
}
# The toolkit is an NRI plugin: it writes no configuration of an engine, and the operator's pods
# have an annotation in the place of a RuntimeClass (TransformToolkit and setRuntimeClassName in
# controllers/object_controls.go; without it: rwlove/home-ops pull request 14313).
NRI = "cdi.nriPluginEnabled"
# With ClusterPolicy, which the chart makes by default, the operator runs the device plugin; with
# GPUCluster it runs NVIDIA's DRA driver instead, and neither plugin nor toolkit. Both values are
# of gpu-operator v26.7 (templates/clusterpolicy.yaml, gpucluster.yaml and validations.yaml).
WITHOUT_POLICY: Mapping[str, bool] = {"gpuCluster.deployCR": True, "clusterPolicy.deployCR": False}
# Off where hosts have a driver of their own. state-driver of the operator runs a container with
# one otherwise.
DRIVER = "driver.enabled"
# With it the operator makes its containers by NVIDIADriver objects. Until v25.10 the chart makes
# one whatever driver.enabled is (gpu-operator issue 1795), from v26.3 on none where that is false.
DRIVER_BY_OBJECT = "driver.nvidiaDriverCRD.enabled"
# Since gpu-operator v26.7, which mounts DIRECTORY/pod-resources into DCGM Exporter's pods by it
# (TransformDCGMExporter in controllers/object_controls.go). Before that the metrics had no pods
# (gpu-operator issues 745 and 1358). Plugins of devices register in /var/lib/kubelet whatever
# --root-dir is (kubernetes issue 120626), so the device plugin needs nothing of this.
KUBELET = "hostPaths.kubeletRootDir"
# Profile -> value of the chart that is rendered for all nodes -> the variable that sets it.
RENDERED: Mapping[str, Mapping[str, str]] = {
    CHART: {"config.name": "gpufleet_kubernetes_config_map"},
    OPERATOR: {
        "devicePlugin.config.name": "gpufleet_kubernetes_config_map",
        "cdi.enabled": f"{ENVIRONMENT}.DEVICE_LIST_STRATEGY",
        "mig.strategy": f"{ENVIRONMENT}.MIG_STRATEGY",
    },
}
UNSET = ("compatWithCPUManager", "deviceListStrategy", "deviceIDStrategy", "migStrategy")


@dc.dataclass(frozen=True)
class Values:
    """The values of a chart, with what a person should know about them."""

    values: Mapping[str, Any]
    why: tuple[str, ...]


def list_fixed_plugin_keys(profile: str, environment: Mapping[str, str]) -> frozenset[str]:
    """Return the keys that have no effect in the plugin's file."""
    if profile == CHART:
        return frozenset()
    return frozenset({*(KEYS[name] for name in environment if name in KEYS), *OPERATOR_FINDS})


def get_plugin_environment(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the plugin's variables that the operator sets for all nodes: its own, overridden by
    the user's.

    A variable with an empty value is not set. Raise PlanError for an unknown name.
    """
    unknown = sorted(set(given) - KNOWN)
    if unknown:
        row = chart_messages.UNKNOWN_ENVIRONMENT
        raise PlanError(row.fill(name=unknown[0], known=", ".join(sorted(KEYS))))
    both = {
        **OPERATOR_SETS,
        **{name: str(value) if value is not None else "" for name, value in given.items()},
    }
    return {name: value for name, value in both.items() if value}


def build_chart_values(
    profile: str,
    groups: Sequence[Group],
    out: Iterable[LeftOut],
    *,
    config_map: str,
    given: Mapping[str, Any],
    environment: Mapping[str, str],
) -> Values:
    """Build the values of NVIDIA's chart for the groups of a cluster, merged with the user's own.

    profile: which chart. out: hosts in no group. given: the user's values. environment: the device
    plugin's. Raise PlanError for values that contradict the groups.
    """
    require_given(groups, given)
    left_out = tuple(out)
    kept = {o.host: o.toolkit for o in left_out if o.operator} if profile == OPERATOR else {}
    if not groups and not kept:
        return Values({}, ())
    made = (
        build_plugin_chart(groups, config_map)
        if profile == CHART
        else build_operator_values(groups, kept, config_map, environment, given)
    )
    if profile == OPERATOR:
        if have_own_driver(groups, left_out) and not kept:
            made = add_driver_value(made, given)
        made = add_kubelet_value(made, map_kubelet_directories(groups, left_out), given)
    if any(group.setting.mig == "mixed" for group in groups):
        # k8s-device-plugin pull request 1807: 1g.10gb matched 1g.10gb+me as well
        made = dc.replace(made, why=(*made.why, chart_messages.MIG_NAMES.fill()))
    own_values.require_as_rendered(RENDERED[profile], made.values, given)
    own_values.require_not_set("devicePlugin.env", KNOWN, ENVIRONMENT, given)
    return dc.replace(made, values=own_values.merge_own_values(made.values, given))


def build_plugin_chart(groups: Sequence[Group], config_map: str) -> Values:
    """Build the values of the device plugin's own chart, with the reasons."""
    values: dict[str, Any] = {
        "config": {"name": config_map, "map": {}, "default": ""},
        **dict.fromkeys(UNSET),
    }
    why: list[str] = [chart_messages.VALUES_ARE_NULL.fill()]
    if are_groups_shared_by_mps(groups):
        values["gfd"] = {"enabled": True}
        why.append(chart_messages.GFD_ENABLED.fill())
    root = get_common_driver_root(groups)
    values["nvidiaDriverRoot"] = root
    if root is not None:
        why.append(chart_messages.ROOT_IS_MOUNTED.fill())
    values["runtimeClassName"] = get_common_runtime_class(groups)
    return Values(values, tuple(why))


def are_groups_shared_by_mps(groups: Iterable[Group]) -> bool:
    """Tell whether the device plugin of a group shares GPUs by MPS."""
    return any(
        group.setting.replicas and group.setting.replicas.policy == "mps" for group in groups
    )


def get_common_driver_root(groups: Sequence[Group]) -> str | None:
    """Return the driver root of all nodes; None if no strategy is by CDI.

    The chart mounts /driver-root only if this value is set. With a strategy of CDI, the plugin
    finds the driver's files there.
    """
    if not any(group.setting.by_cdi for group in groups):
        return None
    require_common_value(
        groups,
        "nvidiaDriverRoot",
        chart_messages.ONE_DRIVER_ROOT.fill(),
        "gpufleet_cdi_driver_root",
    )
    return groups[0].setting.driver_root


def get_common_runtime_class(groups: Sequence[Group]) -> str | None:
    """Return the RuntimeClass of the plugin's own pods; None if they need none.

    These pods need the driver. They get it from the default handler, from an OCI hook, or by a
    RuntimeClass.
    """
    if all(group.default or not group.handler for group in groups):
        return None
    require_common_value(
        groups,
        "runtimeClassName",
        chart_messages.ONE_CLASS_OF_CHART.fill(),
        "gpufleet_injection",
    )
    return groups[0].handler


def build_operator_values(
    groups: Sequence[Group],
    kept: Kept,
    config_map: str,
    environment: Mapping[str, str],
    given: Mapping[str, Any],
) -> Values:
    """Build the values of the GPU Operator's chart, with the reasons.

    kept: host -> what its toolkit configures, for hosts that the operator keeps.
    """
    require_cluster_policy(given)
    require_fit(groups, environment)
    require_no_toolkit(groups, kept, environment)
    require_no_nri(groups, given)
    cdi = any(name in device_plugin.BY_CDI for name in list_environment_strategies(environment))
    toolkit, why = build_toolkit_values(kept, cdi, given)
    values: dict[str, Any] = {
        **build_plugin_values(groups, config_map, environment, cdi=cdi),
        "toolkit": toolkit,
    }
    handler = get_operator_runtime_class(groups, kept)
    if handler and not is_nri_wanted(given):
        values["operator"] = {"runtimeClass": handler}
    said = ", ".join(f"{name}={value}" for name, value in sorted(environment.items()))
    if groups:
        why = (*why, chart_messages.OPERATOR_SETS_FOR_ALL.fill(variables=said))
    return Values(values, why)


def have_own_driver(groups: Sequence[Group], left_out: Iterable[LeftOut]) -> bool:
    """Tell whether all hosts of a cluster have the driver's files in their own root.

    The inventory says so, also of a host that was not reached: a loss has to change no value.
    """
    roots = {group.setting.driver_root for group in groups}
    return bool(groups) and roots | {o.driver_root for o in left_out if not o.gone} == {"/"}


def add_driver_value(made: Values, given: Mapping[str, Any]) -> Values:
    """Add to the operator's values that it runs no driver. The user's own value counts, and so does
    a request for NVIDIADriver objects.
    """
    own = own_values.get_nested_value(given, DRIVER)
    if own is not None or own_values.get_nested_value(given, DRIVER_BY_OBJECT) is True:
        return made
    return Values(
        {**made.values, "driver": {"enabled": False}},
        (*made.why, chart_messages.DRIVER_OFF.fill()),
    )


def map_kubelet_directories(
    groups: Iterable[Group], left_out: Iterable[LeftOut]
) -> dict[str, list[str]]:
    """Return each directory of a kubelet with the hosts that have it, as far as they were seen."""
    by_directory: dict[str, list[str]] = {}
    for m in [m for group in groups for m in group.members]:
        by_directory.setdefault(m.kubelet_directory, []).append(m.host)
    for one in left_out:
        if one.operator:
            by_directory.setdefault(one.kubelet_directory, []).append(one.host)
    return by_directory


def add_kubelet_value(
    made: Values, found: Mapping[str, Sequence[str]], given: Mapping[str, Any]
) -> Values:
    """Add the directory of all kubelets to the operator's values, if it is another than usual.

    The chart has one for all nodes, so one that differs between hosts, one in which not only root
    may make files on every host, or one that is not called kubelet, is said in words: a single host
    that lies must not have the operator mount any other directory. The user's own value counts.
    """
    if own_values.get_nested_value(given, KUBELET) is not None or {*found} <= {KUBELET_DIRECTORY}:
        return made
    directory = next(iter(found))
    named = posixpath.basename(directory) == posixpath.basename(KUBELET_DIRECTORY)
    if len(found) == 1 and named and operator_toolkit.is_roots(directory):
        why = chart_messages.KUBELET_DIRECTORY.fill(path=KUBELET)
        return Values({**made.values, "hostPaths": {"kubeletRootDir": directory}}, (*made.why, why))
    said = names.show_few_texts(
        [f"{name} on {names.show_some_runs(hosts)}" for name, hosts in sorted(found.items())],
        5,
        "; ",
    )
    why = chart_messages.KUBELET_DIRECTORIES.fill(path=KUBELET, directories=said)
    return Values(made.values, (*made.why, why))


def build_toolkit_values(
    kept: Kept, cdi: bool, given: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Build the values of the operator's toolkit, with the reasons. It is off if no host is kept."""
    if kept and is_nri_wanted(given):
        return {"enabled": True}, (chart_messages.TOOLKIT_BY_NRI.fill(path=NRI),)
    if kept:
        return operator_toolkit.build_toolkit_environment_values(kept, cdi=cdi, given=given)
    return {"enabled": False}, (chart_messages.TOOLKIT_OFF.fill(),)


def is_nri_wanted(given: Mapping[str, Any]) -> bool:
    """Tell whether the user's values make the operator's toolkit an NRI plugin."""
    return own_values.get_nested_value(given, NRI) is True


def build_plugin_values(
    groups: Sequence[Group], config_map: str, environment: Mapping[str, str], *, cdi: bool
) -> dict[str, Any]:
    """Build the operator's values for the plugin; {} without groups.

    If all hosts keep the toolkit, this collection has no ConfigMap and the plugin's settings stay
    the operator's.
    """
    if not groups:
        return {}
    plugin: dict[str, Any] = {"config": {"create": False, "name": config_map, "default": ""}}
    own = {
        name: value
        for name, value in environment.items()
        if OPERATOR_SETS.get(name) != value and name != "MIG_STRATEGY"
    }
    if own:
        plugin["env"] = [{"name": name, "value": own[name]} for name in sorted(own)]
    return {
        "cdi": {"enabled": cdi},
        "devicePlugin": plugin,
        "mig": {"strategy": environment.get("MIG_STRATEGY", "")},
    }


def get_operator_runtime_class(groups: Sequence[Group], kept: Kept) -> str:
    """Return the RuntimeClass of the operator's own pods; '' if there is none.

    By CONTAINERD_RUNTIME_CLASS it is also the name of the handler of the operator's toolkit.
    """
    classes = {group.handler for group in groups if group.handler}
    why = chart_messages.ONE_CLASS_OF_OPERATOR.fill()
    if len(classes) > 1:
        require_common_value(groups, "runtimeClassName", why, "gpufleet_handlers")
    theirs = operator_toolkit.map_toolkit_handlers(kept)
    if len({*classes, *theirs}) > 1:
        by_group = {group.handler: group.hosts for group in groups if group.handler}
        said = "; ".join(
            f"{handler} on {hosts}"
            for by_handler in (theirs, by_group)
            for handler, hosts in by_handler.items()
        )
        row = chart_messages.OTHER_RUNTIME_CLASS
        raise PlanError(row.fill(classes=said, handler=min(theirs)))
    return min({*classes, *theirs}, default="")


# ---------------------------------------------------------------- what is refused


def require_common_value(groups: Sequence[Group], value: str, why: str, setting: str) -> None:
    """Raise PlanError if groups differ in a value that all nodes share."""
    said = {group.title: OF_GROUPS[value](group) for group in groups}
    if len(set(said.values())) > 1:
        row = chart_messages.CHART_VALUES_DIFFER
        raise PlanError(
            row.fill(value=value, groups=list_settings_as_text(said), cause=why, setting=setting)
        )


def list_settings_as_text(said: Mapping[str, Any]) -> str:
    """Return settings in words: `1 for device_ids; none for mig`."""
    return names.show_few_texts(
        [f"{value if value is not None else 'none'} for {title}" for title, value in said.items()],
        5,
        "; ",
    )


def require_given(groups: Sequence[Group], given: Mapping[str, Any]) -> None:
    """Raise PlanError if the user sets a value for the whole cluster that differs from the decision
    of a group.
    """
    for value, of_group in OF_GROUPS.items():
        joined = own_values.join_value(given, value)
        wrong = {
            group.title: of_group(group)
            for group in groups
            if joined is not None and of_group(group) != joined
        }
        if wrong:
            row = chart_messages.VALUE_FOR_ALL
            raise PlanError(
                row.fill(value=value, found=joined, groups=list_settings_as_text(wrong))
            )


def list_environment_strategies(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the strategies of a device plugin with this environment."""
    return tuple(
        filter(None, environment.get("DEVICE_LIST_STRATEGY", device_plugin.DEFAULT[0]).split(","))
    )


def require_fit(groups: Sequence[Group], environment: Mapping[str, str]) -> None:
    """Raise PlanError unless each host understands one of the ways in which the operator's plugin
    gives GPUs to pods.
    """
    unfit = {
        group.title: why for group in groups if (why := explain_strategy_misfit(group, environment))
    }
    if unfit:
        hosts = join_texts(
            "; ", (Filled("{t}: {why}", {"t": t, "why": why}) for t, why in unfit.items())
        )
        raise PlanError(chart_messages.UNFIT_HOSTS.fill(hosts=hosts))


def explain_strategy_misfit(group: Group, environment: Mapping[str, str]) -> str:
    """Return why a group's pods get no GPU with this environment of the device plugin; '' if they
    do.
    """
    strategies = list_environment_strategies(environment)
    prefix = environment.get("CDI_ANNOTATION_PREFIX", "cdi.k8s.io/")
    if not any(can_use_strategy(group, name, prefix) for name in strategies):
        there = (
            ", ".join(sorted(frozenset.intersection(*(m.understands_after for m in group.members))))
            or "no way"
        )
        return chart_messages.HOST_BY_OTHER_WAY.fill(
            injection=group.injection, strategies=",".join(strategies), prefix=prefix, ways=there
        )
    ids = environment.get("DEVICE_ID_STRATEGY", group.setting.device_ids)
    if ids != group.setting.device_ids:
        return chart_messages.DEVICE_IDS_DIFFER.fill(wanted=group.setting.device_ids, set=ids)
    mig = environment.get("MIG_STRATEGY", group.setting.mig)
    if group.setting.mig not in ("none", mig):  # without MIG devices each strategy does the same
        return chart_messages.MIG_STRATEGY_DIFFERS.fill(wanted=group.setting.mig, set=mig)
    if mig == "mixed" and are_groups_shared_by_mps([group]):
        return chart_messages.MIXED_WITH_MPS.fill()
    return ""


def can_use_strategy(group: Group, strategy: str, prefix: str) -> bool:
    """Tell whether pods without a RuntimeClass get their GPUs in this way on all hosts of a group."""
    return all(
        strategy in m.understands_after
        and (strategy != "cdi-annotations" or reads_annotation_prefix(m, prefix))
        for m in group.members
    )


def reads_annotation_prefix(m: ClusterMember, prefix: str) -> bool:
    """Tell whether a host reads annotations with this prefix.

    An engine reads its own prefix alone, and the NVIDIA runtime reads the configured ones.
    """
    return prefix == "cdi.k8s.io/" if m.injection == "native-cdi" else prefix in m.answers


def require_cluster_policy(given: Mapping[str, Any]) -> None:
    """Raise PlanError if the user's values leave the operator without a ClusterPolicy."""
    for path, value in WITHOUT_POLICY.items():
        if own_values.get_nested_value(given, path) is value:
            raise PlanError(chart_messages.NO_CLUSTER_POLICY.fill(path=path, value=value))


def require_no_nri(groups: Sequence[Group], given: Mapping[str, Any]) -> None:
    """Raise PlanError if the operator's pods depend on an NRI plugin that some hosts do not run."""
    if groups and is_nri_wanted(given):
        hosts = names.show_some_runs(m.host for g in groups for m in g.members)
        raise PlanError(chart_messages.NRI_ON_SOME.fill(path=NRI, hosts=hosts))


def require_no_toolkit(groups: Sequence[Group], kept: Kept, environment: Mapping[str, str]) -> None:
    """Raise PlanError if some hosts keep the operator's toolkit, others do not, and no path of the
    hook is set for all.

    With its toolkit, the operator gives the plugin a path of the hook that only the toolkit's hosts
    have. A wrong path fails every pod.
    """
    if kept and groups and "NVIDIA_CDI_HOOK_PATH" not in environment:
        others = names.show_some_runs(m.host for g in groups for m in g.members)
        raise PlanError(
            chart_messages.TOOLKIT_ON_SOME.fill(some=names.show_some_runs(kept), others=others)
        )
