# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about the values of NVIDIA's charts."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# ---------------------------------------------------------------- what is refused
UNKNOWN_ENVIRONMENT = Sentence(
    "helm.unknown-environment",
    "gpufleet_kubernetes_operator_environment has the unknown name {name!r}",
    next="Name variables of the device plugin: {known}",
)
OTHER_RUNTIME_CLASS = Sentence(
    "helm.runtime-class",
    "runtimeClassName differs: {classes}",
    why="the operator has one RuntimeClass for its pods on all nodes",
    next="Set gpufleet_handlers to {handler} for the others",
)
CHART_VALUES_DIFFER = Sentence(
    "helm.values-differ",
    "{value} differs: {groups}",
    why="{cause}",
    next="Set {setting} alike for these hosts, or install the chart once for each kind, each as a gpufleet_cluster of its own",
)
VALUE_FOR_ALL = Sentence(
    "helm.value-for-all",
    "gpufleet_kubernetes_values sets {value} to {found!r} for the whole cluster, and the decision is another one: {groups}",
    why="the chart makes it a variable, which ranks above the ConfigMap",
    next="Take {value} out of gpufleet_kubernetes_values, so that the ConfigMap has it for each group",
)
UNFIT_HOSTS = Sentence(
    "helm.unfit-hosts",
    "these hosts do not fit what the GPU Operator sets for all nodes: {hosts}",
    next="Give these hosts an engine with CDI. "
    "Or, if the NVIDIA runtime resolves CDI devices there, set gpufleet_device_plugin_prefix: cdi.k8s.io/ and run gpufleet.nvidia.site. "
    "Or take them from the operator's plugin by the label nvidia.com/gpu.deploy.device-plugin=false, "
    "and run the plugin's own chart there, as a gpufleet_cluster of its own",
)
TOOLKIT_ON_SOME = Sentence(
    "helm.toolkit-on-some",
    "{some} keep the GPU Operator's toolkit, and {others} do not",
    why="with its toolkit the operator sets NVIDIA_CDI_HOOK_PATH for all nodes, to a program that is not on the others",
    next="Hand over the first ones, too (docs/cluster.md), "
    "or set gpufleet_kubernetes_operator_environment.NVIDIA_CDI_HOOK_PATH to a program that all have",
)
TOOLKIT_DIFFERS = Sentence(
    "helm.toolkit-differs",
    "the GPU Operator's toolkit needs different environments on these hosts: {kinds}",
    why="the toolkit is one DaemonSet, with one engine and one environment for all nodes",
    next="Hand over all of these hosts but one kind, or set {path} in gpufleet_kubernetes_values, which counts as it is written",
)
VALUE_OF_VARIABLE = Sentence(
    "helm.value-of-variable",
    "gpufleet_kubernetes_values sets {path} to {theirs!r}, and {variable} makes it {wanted!r}",
    why="the hosts of the cluster are judged by that variable",
    next="Take {path} out, and set {variable}",
)
ENVIRONMENT_OF_VARIABLE = Sentence(
    "helm.environment-of-variable",
    "gpufleet_kubernetes_values sets {name} in {path}",
    why="the hosts of the cluster are judged by {variable}",
    next="Set {variable}.{name} instead",
)
HOST_BY_OTHER_WAY = Sentence(
    "helm.host-by-other-way",
    "{injection} does not understand DEVICE_LIST_STRATEGY={strategies} with the prefix {prefix}; "
    "pods that name no RuntimeClass get GPUs there by {ways}",
)
DEVICE_IDS_DIFFER = Sentence(
    "helm.device-ids-differ",
    "gpufleet_kubernetes_device_ids is {wanted}, and DEVICE_ID_STRATEGY={set}",
)
MIG_STRATEGY_DIFFERS = Sentence(
    "helm.mig-strategy-differs",
    "gpufleet_kubernetes_mig_strategy is {wanted}, and MIG_STRATEGY={set}",
)
MIXED_WITH_MPS = Sentence(
    "helm.mixed-with-mps",
    "gpufleet_sharing has mps, and the device plugin does not start with that and MIG_STRATEGY=mixed",
)
ONE_DRIVER_ROOT = Sentence("helm.one-driver-root", "the chart mounts one driver root on all nodes")
ONE_CLASS_OF_CHART = Sentence(
    "helm.one-class-of-chart",
    "the chart has one RuntimeClass for the plugin's pods on all nodes",
)
ONE_CLASS_OF_OPERATOR = Sentence(
    "helm.one-class-of-operator",
    "the operator has one RuntimeClass for its pods on all nodes",
)

# ---------------------------------------------------------------- comments in a file of values
VALUES_ARE_NULL = Sentence(
    "helm.values-are-null",
    "Values that differ between nodes are in the ConfigMap. A value that is set here would count for all nodes instead, so those are null.",
)
GFD_ENABLED = Sentence(
    "helm.gfd-enabled",
    "The chart's MPS daemon runs where GPU Feature Discovery has set the label nvidia.com/mps.capable, so gfd is enabled.",
)
MIG_NAMES = Sentence(
    "helm.mig-names",
    "MIG devices are resources by their profile, with a dot for a plus sign: nvidia.com/mig-1g.10gb.me. Before version 0.20.0 the device "
    "plugin leaves such a suffix out: nvidia.com/mig-1g.10gb.",
)
ROOT_IS_MOUNTED = Sentence(
    "helm.root-is-mounted",
    "nvidiaDriverRoot is also what the chart mounts into the plugin's pods, which need it to write CDI specs.",
)
OPERATOR_SETS_FOR_ALL = Sentence(
    "helm.operator-sets",
    "The operator sets these variables of the plugin for all nodes: {variables}",
)
TOOLKIT_OFF = Sentence(
    "helm.toolkit-off",
    "The operator's toolkit is off, since this collection configures the engines.",
)
DRIVER_OFF = Sentence(
    "helm.driver-off",
    "The operator's driver containers are off, since these hosts have the driver's files in their own root (gpufleet_cdi_driver_root).",
)
KUBELET_DIRECTORY = Sentence(
    "helm.kubelet-directory",
    "{path} is the --root-dir of the kubelets. The operator reads it from 26.7 on, and DCGM Exporter finds there which pod has which GPU.",
)
KUBELET_DIRECTORIES = Sentence(
    "helm.kubelet-directories",
    "The kubelets' --root-dir is {directories}. {path} is left out: it counts on all nodes, so it has to be one directory of all hosts, "
    "called kubelet, in which only root makes files. DCGM Exporter says no pods where the directory is not /var/lib/kubelet.",
)
TOOLKIT_BY_NRI = Sentence(
    "helm.toolkit-by-nri",
    "{path} is set: the operator's toolkit is an NRI plugin, so it needs no path and no handler of an engine. containerd 1.7 serves NRI "
    "only if its file says so.",
)
NRI_ON_SOME = Sentence(
    "helm.nri-on-some",
    "{path} is set, and {hosts} do not keep the operator's toolkit",
    why="the operator's pods get their GPUs from the NRI plugin in that toolkit, and none on these hosts",
    next="Leave {path} out of gpufleet_kubernetes_values, or leave these hosts to the operator",
)
NO_CLUSTER_POLICY = Sentence(
    "helm.no-cluster-policy",
    "gpufleet_kubernetes_values sets {path} to {value!r}",
    why="without a ClusterPolicy the operator runs no device plugin and no toolkit, so all that is rendered here has no effect",
    next="Leave {path} out, or leave the hosts' GPUs to NVIDIA's DRA driver (gpufleet_dra, docs/cluster.md) and take this cluster "
    "out of gpufleet.nvidia.kubernetes",
)
TOOLKIT_FOR_ALL = Sentence(
    "helm.toolkit-for-all",
    "{hosts}: these hosts keep the operator's toolkit, one DaemonSet with one environment for all of them.",
)
TOOLKIT_ENGINE_UNKNOWN = Sentence(
    "helm.toolkit-engine-unknown",
    "Which engine the toolkit configures on {hosts} is not known, or its files are where not only root may make files: "
    "these values may not fit there.",
)
OWN_ENVIRONMENT_COUNTS = Sentence(
    "helm.own-environment", "{path} is the one of gpufleet_kubernetes_values."
)
OPERATOR_SETS_REST = Sentence(
    "helm.operator-sets-rest",
    "Values that the operator sets by itself are left out: a change here starts the toolkit, and so the engine, again on all nodes.",
)
PATHS_FOR_ALL = Sentence(
    "helm.paths-for-all",
    "{hosts}: the paths are those of these hosts, and count on all nodes.",
)
REASON_OF_MANAGER = Sentence("helm.reason-of-manager", "{reason}.")
RANKS_ABOVE = Sentence(
    "helm.ranks-above",
    "{variable}: the operator sets it with CDI on, and it ranks above CONTAINERD_SET_AS_DEFAULT.",
)
