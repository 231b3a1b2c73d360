# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about the kubelet, the device plugin, claims and the names of nodes."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# ---------------------------------------------------------------- the kubelet's cgroup driver

PODS_OF_BOTH_DRIVERS = Sentence(
    "kubernetes.pods-of-both-cgroup-drivers",
    "pods of this node use both cgroup drivers",
    why="{path} exists as well, so the kubelet's driver was changed while pods were running",
    next="Drain the node and restart its kubelet, then run again",
)
PODS_USE_DRIVER = Sentence(
    "kubernetes.pods-use-cgroup-driver",
    "the kubelet uses the {driver} cgroup driver now ({path})",
)
ENGINE_TELLS_DRIVER = Sentence(
    "kubernetes.engine-tells-cgroup-driver",
    "the kubelet asks {engine} for the cgroup driver (RuntimeConfig), which answers {driver}",
)
DRIVER_IS_SET = Sentence(
    "kubernetes.cgroup-driver-set",
    "the kubelet is set to the {driver} cgroup driver ({where})",
)
DRIVER_IS_BUILT_IN = Sentence(
    "kubernetes.cgroup-driver-built-in",
    "the kubelet uses the cgroupfs cgroup driver, its built-in default: neither its flags nor its files set one",
)
DRIVER_UNKNOWN = Sentence(
    "kubernetes.cgroup-driver-unknown",
    "the kubelet is set to a cgroup driver that this collection does not know",
    why="the value is {value}",
    next="Write systemd or cgroupfs there",
)
KUBELET_CONFIG_UNREADABLE = Sentence(
    "kubernetes.kubelet-config-unreadable",
    "the kubelet's configuration cannot be read",
    why="{trouble}",
    next="Make it readable, or give the kubelet the flags --container-runtime-endpoint and --cgroup-driver",
)
KUBELET_FLAG_UNREAD = Sentence(
    "kubernetes.kubelet-flag-unread",
    "the value of the kubelet's flag {flag} is not known",
    why="it has another form than this collection reads",
    next="Write it in the usual form, from the root for a path. Instead of --feature-gates, you can set the cgroup driver"
    " in gpufleet_handlers (options: SystemdCgroup)",
)
KUBELET_CONFIG_NOT_YAML = Sentence(
    "kubernetes.kubelet-config-not-yaml",
    "the kubelet's configuration is not valid YAML",
    why="{problem}",
    next="Fix it and run again",
)

# ---------------------------------------------------------------- the device plugin's strategies

STRATEGY_DECLARED = Sentence(
    "kubernetes.strategy-declared",
    "gpufleet_device_plugin_strategy declares it",
)
STRATEGY_DEFAULT_RUNNING = Sentence(
    "kubernetes.strategy-default-kubelet-runs",
    "a kubelet runs here, and gpufleet_device_plugin_strategy is not set",
)
STRATEGY_DEFAULT_INSTALLED = Sentence(
    "kubernetes.strategy-default-kubelet-installed",
    "a kubelet is installed here, and gpufleet_device_plugin_strategy is not set",
)
STRATEGY_OF_PROCESS = Sentence(
    "kubernetes.strategy-of-process",
    "the process {pid} of {program} is set like that",
)
STRATEGY_OF_SPEC = Sentence(
    "kubernetes.strategy-of-spec",
    "{path} exists, which the plugin writes only with a CDI strategy",
)
STRATEGY_OF_SPEC_UNSERVED = Sentence(
    "kubernetes.strategy-of-spec-unserved",
    "{path} exists, which the plugin writes only with a CDI strategy. "
    "No plugin serves at the moment, so its next start may show another strategy",
)
STRATEGY_SPEC_OUTDATED = Sentence(
    "kubernetes.strategy-spec-outdated",
    "{default}. {path} is of an earlier start of the plugin, which has not written it at its last one",
)
PLUGIN_SILENT = Sentence(
    "kubernetes.device-plugin-silent",
    "NVIDIA's device plugin does not serve on this host at the moment",
    why="its strategies are those of the last run until it shows others, and this run would take away what they need",
    next="Start the plugin's pod, or set gpufleet_device_plugin_strategy, and run again",
)
STRATEGY_UNANSWERED = Sentence(
    "kubernetes.strategy-unanswered",
    "gpufleet_device_plugin_strategy: [{declared}] gives no pod a GPU on this host",
    why="with injection {injection}, {engine} answers {answered} only",
    next="Set gpufleet_device_plugin_strategy for this host to what its device plugin is set to, "
    "which has to be one of these, or leave it empty",
)
STRATEGY_UNANSWERED_BY_KUBELET = Sentence(
    "kubernetes.strategy-unanswered-with-kubelet",
    "gpufleet_device_plugin_strategy: [{declared}] gives no pod a GPU on this host",
    why="with injection {injection}, {engine} and kubelet {kubelet} answer {answered} only",
    next="Set gpufleet_device_plugin_strategy for this host to what its device plugin is set to, "
    "which has to be one of these, or leave it empty",
)
PLUGIN_USES_CDI = Sentence(
    "kubernetes.device-plugin-uses-cdi",
    "the device plugin requests devices by CDI, so the variable works for privileged containers only",
)
PLUGIN_MAY_USE_VARIABLE = Sentence(
    "kubernetes.device-plugin-may-use-variable",
    "NVIDIA's device plugin uses NVIDIA_VISIBLE_DEVICES unless it is configured otherwise, so the variable has to work for pods",
)
PODS_NEED_RUNTIME_CLASS = Sentence(
    "kubernetes.pods-need-runtime-class",
    "gpufleet_device_plugin_strategy is [{strategies}], which only the NVIDIA runtime answers, and "
    "that is not the default handler here: "
    "pods get a GPU with runtimeClassName: {runtime_class} only",
)
STRICT_WITHOUT_STRATEGY = Sentence(
    "kubernetes.strict-isolation-without-strategy",
    "isolation is strict, so a device plugin with its default strategy envvar gives no pod a GPU",
    next="Set deviceListStrategy: {strategy} in the plugin's chart ({variable}={strategy}), "
    "and gpufleet_device_plugin_strategy: [{strategy}] here",
)
COMPATIBLE_FOR_PLUGIN = Sentence(
    "kubernetes.compatible-isolation-for-plugin",
    "isolation is compatible, since NVIDIA's device plugin uses NVIDIA_VISIBLE_DEVICES unless it is "
    "configured otherwise, and its pods need runtimeClassName: {runtime_class} then",
    next="To make it strict, set deviceListStrategy: {strategy} in the plugin's chart "
    "({variable}={strategy}), and gpufleet_device_plugin_strategy: [{strategy}] here",
)

# ---------------------------------------------------------------- claims (DRA)

CLAIMS_DECLARED = Sentence("kubernetes.claims-declared", "gpufleet_dra is true")
CLAIMS_BY_PLUGIN = Sentence("kubernetes.claims-by-plugin", "the kubelet has the plugin {name}")
CLAIMS_UNSERVED = Sentence(
    "kubernetes.claims-unserved",
    "Pods get no GPU by a claim here, and {wanted}. Missing: {missing}",
)
CLAIMS_REQUIRED = Sentence(
    "kubernetes.claims-required",
    "this host has to serve claims, since gpufleet_dra is true. Missing: {missing}",
)
CLAIMS_NO_KUBELET = Sentence(
    "kubernetes.claims-without-kubelet",
    "this host has no kubelet",
    next="Leave gpufleet_dra out for this host",
)
CLAIMS_KUBELET_UNKNOWN = Sentence(
    "kubernetes.claims-kubelet-release-unknown",
    "the kubelet's release is not known",
    next="Update Kubernetes to 1.34.2 or later",
)
CLAIMS_KUBELET_TOO_OLD = Sentence(
    "kubernetes.claims-kubelet-too-old",
    "kubelet {version} has no API that NVIDIA's driver uses",
    next="Update Kubernetes to 1.34.2 or later",
)
CLAIMS_KUBELET_ALWAYS = Sentence("kubernetes.claims-always-on", "kubelet {version} always has it")
CLAIMS_KUBELET_UNREADABLE = Sentence("kubernetes.claims-gate-unreadable", "{error}")
CLAIMS_GATE_ON = Sentence(
    "kubernetes.claims-gate-on",
    "the feature gate {gate} of kubelet {version} is on",
)
CLAIMS_GATE_ON_BY_DEFAULT = Sentence(
    "kubernetes.claims-gate-on-by-default",
    "the feature gate {gate} of kubelet {version} is on by default",
)
CLAIMS_GATE_SET_OFF = Sentence(
    "kubernetes.claims-gate-off",
    "the feature gate {gate} of kubelet {version} is off",
    next="Set featureGates.{gate}: true in the kubelet's configuration",
)
CLAIMS_GATE_SET_OFF_BETA = Sentence(
    "kubernetes.claims-gate-off-beta",
    "the feature gate {gate} of kubelet {version} is off",
    next="Set featureGates.{gate}: true in the kubelet's configuration, or update Kubernetes to 1.34.2 or later",
)
CLAIMS_GATE_OFF_BY_DEFAULT = Sentence(
    "kubernetes.claims-gate-off-by-default",
    "the feature gate {gate} of kubelet {version} is off by default",
    next="Set featureGates.{gate}: true in the kubelet's configuration, or update Kubernetes to 1.34.2 or later",
)
CLAIMS_SEVERAL_ENGINES = Sentence(
    "kubernetes.claims-several-engines",
    "several engines could run the pods",
    next="See instances in the result of gpufleet.nvidia.host_info",
)
CLAIMS_NO_ENGINE = Sentence(
    "kubernetes.claims-without-engine",
    "this host has no engine that a kubelet can use",
    next="See instances in the result of gpufleet.nvidia.host_info",
)
CLAIMS_ENGINE_WITHOUT_CDI = Sentence(
    "kubernetes.claims-engine-without-cdi",
    "{engine} cannot",
    next="Update it: {releases} do, for pods",
)
CLAIMS_CDI_ON = Sentence("kubernetes.claims-cdi-on", "{engine} does ({evidence})")
CLAIMS_CDI_PLANNED = Sentence(
    "kubernetes.claims-cdi-planned", "this plan switches it on in {engine}"
)
CLAIMS_CDI_OFF = Sentence(
    "kubernetes.claims-cdi-off",
    "it is switched off in {engine} ({evidence})",
    next="Run gpufleet.nvidia.site with gpufleet_injection: native-cdi, or switch CDI on in its configuration",
)
CLAIMS_FIELD_KNOWN = Sentence(
    "kubernetes.claims-field-known", "{engine} knows the CRI field CDIDevices"
)
CLAIMS_FIELD_UNKNOWN = Sentence(
    "kubernetes.claims-field-unknown",
    "{engine} does not know the CRI field CDIDevices",
    next="Update it: {releases} do",
)
CLAIMS_SPECS_READ = Sentence("kubernetes.claims-specs-read", "{engine} reads {directories}")
CLAIMS_SPECS_UNREAD = Sentence(
    "kubernetes.claims-specs-unread",
    "{engine} reads {directories}",
    next="Add {wanted} to gpufleet_cdi_spec_dirs and run gpufleet.nvidia.site",
)
CLAIMS_SPECS_NONE = Sentence(
    "kubernetes.claims-no-spec-directory",
    "{engine} reads no directory",
    next="Add {wanted} to gpufleet_cdi_spec_dirs and run gpufleet.nvidia.site",
)
CLAIMS_RUNC_IS_DEFAULT = Sentence(
    "kubernetes.claims-other-default-handler",
    "the NVIDIA runtime is not the default handler",
)
CLAIMS_ISOLATED = Sentence("kubernetes.claims-strict-isolation", "isolation is strict")
CLAIMS_BYPASSED = Sentence(
    "kubernetes.claims-bypassed-by-variable",
    "{handler} is the default handler, and NVIDIA_VISIBLE_DEVICES counts",
    next="Set gpufleet_device_plugin_strategy: [cdi-cri] or gpufleet_isolation: strict, so that NVIDIA_VISIBLE_DEVICES alone gives no GPU",
)
CLAIMS_DRIVER_UNKNOWN = Sentence(
    "kubernetes.claims-driver-version-unknown", "the driver's version is not known"
)
CLAIMS_DRIVER_READY = Sentence("kubernetes.claims-driver-ready", "it is {version}")
CLAIMS_DRIVER_TOO_OLD = Sentence(
    "kubernetes.claims-driver-too-old", "it is {version}", next="Update the driver"
)

# ---------------------------------------------------------------- names of nodes

NODE_NAME_INVALID = Sentence(
    "kubernetes.node-name-invalid",
    "gpufleet_kubernetes_node is {name!r}",
    why="a node cannot have that name",
    next="Set gpufleet_kubernetes_node to the name that `kubectl get nodes` shows",
)
NODE_NAME_INVALID_FOR_HOST = Sentence(
    "kubernetes.node-name-invalid-for-host",
    "gpufleet_kubernetes_node is {name!r} for {host}",
    why="a node cannot have that name",
    next="Set gpufleet_kubernetes_node for {host} to the name that `kubectl get nodes` shows",
)
NODE_NAME_UNKNOWN = Sentence(
    "kubernetes.node-name-unknown",
    "the node of {host} has no known name",
    why="a node cannot have the name {name!r}",
    next="Set gpufleet_kubernetes_node for {host} to the name that `kubectl get nodes` shows",
)
