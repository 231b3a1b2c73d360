# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about Kubernetes clusters, their files and their objects."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

ACCESS = "gpufleet_kubernetes_kubeconfig and gpufleet_kubernetes_context"
UNIFORM = "gpufleet_fleet_policy is uniform"

# ---------------------------------------------------------------- settings
HOOK_PATH = Sentence(
    "cluster.hook-path",
    "gpufleet_kubernetes_hook is {value!r}",
    why="it is not an absolute path",
    next="Write the whole path, as {example}",
)
CHOICE = Sentence("cluster.choice", "{setting} is {value!r}{of_host}", next="Write {choices}")
CLUSTER_NAME = Sentence(
    "cluster.name",
    "gpufleet_cluster is {value!r}",
    why="it names a directory",
    next="Write letters, digits, '.', '_' and '-', at most 63 of them",
)
LABEL_NAME = Sentence(
    "cluster.label-name",
    "{setting} is {value!r}",
    why="the API refuses that name of an object",
    next="Write small letters, digits and '-', at most {longest}",
)
OBJECT_NAME = Sentence(
    "cluster.object-name",
    "{setting} is {value!r}",
    why="the API refuses that name of an object",
    next="Write small letters, digits, '-' and dots, at most {longest}",
)
TWO_TAINTS = Sentence(
    "cluster.two-taints",
    "gpufleet_kubernetes_taints has two of {key} with {effect}",
    why="a node has one",
    next="Leave one of them out",
)
NO_TAINT = Sentence(
    "cluster.taint",
    "gpufleet_kubernetes_taints has {value!r}",
    why="it is not a taint",
    next="Write it as kubectl does: nvidia.com/gpu=present:NoSchedule, with one of {effects}",
)
MIG_STRATEGY_MISSING = Sentence(
    "cluster.mig-strategy-missing",
    "gpufleet_kubernetes_mig_strategy is not set for {host}",
    why="its GPUs are divided into MIG devices, which the device plugin gives to a pod only if its settings name them",
    next="Set gpufleet_kubernetes_mig_strategy for this host to single (nvidia.com/gpu) or mixed (nvidia.com/mig-1g.10gb), or to none",
)
NO_REPLICAS = Sentence(
    "cluster.no-replicas",
    "gpufleet_sharing{of_host} has no replicas",
    why="on a node the device plugin hands GPUs out",
    next="Give its GPUs time_slicing or mps with replicas, or leave the host out: without sharing a pod has a GPU for itself",
)
SAME_NODE = Sentence(
    "cluster.same-node",
    "{one} and {other} would both be the node {node} of the cluster {cluster}",
    next="Set gpufleet_kubernetes_node to the node's name for each of them",
)
SAME_DIRECTORY = Sentence(
    "cluster.same-directory",
    "gpufleet_cluster is {first} for {host} and {second} for {other}",
    why="names that differ by capital letters alone are one directory on some file systems",
    next="Write one name for one cluster, and names that differ otherwise for two",
)

# ---------------------------------------------------------------- files
FILE_UNREADABLE = Sentence(
    "cluster.file-unreadable",
    "this file of an earlier run cannot be read",
    why="{cause}",
    next="Restore the file as it was written, or remove it with those of its nodes",
)
FILE_WITHOUT_TABLE = Sentence(
    "cluster.file-without-table",
    "this file of an earlier run cannot be read",
    why="it is not YAML with a table",
    next="Restore the file as it was written, or remove it with those of its nodes",
)
FOREIGN_FILE = Sentence(
    "cluster.foreign-file",
    "this file is not written over",
    why="it is not of this collection",
    next="Move that file away, or name another directory in gpufleet_kubernetes_dir",
)

FILE_NOT_NEEDED = Sentence("cluster.file-not-needed", "no host of this cluster needs it any more")
FILE_IS_PRIVATE = Sentence(
    "cluster.file-is-private", "values of your own stand in it, which may come from a vault"
)
FILE_OF_PLUGIN = Sentence(
    "cluster.file-of-plugin",
    "the device plugin reads for each group of hosts how pods get their GPUs",
)
FILE_OF_CHART = Sentence(
    "cluster.file-of-chart",
    "NVIDIA's chart needs to know where that is, and nothing that differs between hosts",
)
FILE_OF_NODE = Sentence("cluster.file-of-node", "the label {label} chooses the node's group")
COMMENT_OF_PLUGIN = Sentence(
    "cluster.comment-of-plugin", "A file of the device plugin for each group of hosts"
)
COMMENT_OF_HOST = Sentence("cluster.comment-of-host", "{host}: {cause}")
COMMENT_OF_NODE = Sentence(
    "cluster.comment-of-node",
    "The node exists already: kubectl apply --server-side --field-manager=gpufleet.nvidia -f this file",
)
COMMENT_OF_TAINTS = Sentence(
    "cluster.comment-of-taints",
    "Taints are not in this file, which would replace others': kubectl taint nodes {node} {taints}",
)
COMMENT_OF_SOME = Sentence(
    "cluster.comment-of-some",
    "Not all hosts have this handler, so pods that name it go to the hosts that have it",
)
COMMENT_OF_ALL = Sentence("cluster.comment-of-all", "All hosts with GPUs have this handler")

# ---------------------------------------------------------------- in the API
BEING_DELETED = Sentence(
    "cluster.being-deleted",
    "the {object} is being deleted",
    why="held by {holder}",
    next="Run again once it is gone, or name another one in gpufleet_kubernetes_config_map",
)
NOT_THIS_CLUSTER = Sentence(
    "cluster.not-this-cluster",
    "no host of the cluster {cluster} is a node of the one that answers",
    why="there is no node {nodes}; it has {known}",
    next=f"Check {ACCESS}; gpufleet_kubernetes_node names a host's node",
)
OTHER_CLUSTER = Sentence(
    "cluster.other-cluster",
    "no host of this run is a node of the cluster that answers, among them {nodes}",
    why="all that this collection has made there would be removed",
    next=f"Check {ACCESS}; gpufleet_kubernetes_node names a host's node",
)

# ---------------------------------------------------------------- groups of hosts
CLUSTER_WITH_MIXED_ENGINES = Sentence(
    "cluster.mixed-engines",
    "mixed container engines in the cluster {cluster}: {engines}",
    why=f"{UNIFORM}: one engine for all hosts",
    next="Set gpufleet_fleet_policy to per_host, or give the others a gpufleet_cluster of their own",
)
MIXED_DECISIONS = Sentence(
    "cluster.mixed-decisions",
    "different decisions in the cluster {cluster}: {decisions}",
    why=f"{UNIFORM}: the oldest host decides for all",
    next="Set gpufleet_injection: {oldest} for all, upgrade {hosts}, or set gpufleet_fleet_policy to per_host",
)

# ---------------------------------------------------------------- answers of the API about objects
# of a cluster
NODES_MISSING = Sentence(
    "cluster.no-nodes",
    "cannot list the nodes",
    why="the cluster that answers has none",
    next=f"Check {ACCESS}, and the API",
)
NAMESPACE_UNREADABLE = Sentence(
    "cluster.namespace-unreadable",
    "cannot read the namespace {namespace}",
    why="the API shows no namespace `default` either, which every cluster has",
    next=f"Check {ACCESS}, and the API",
)
CONFIG_MAP_UNREADABLE = Sentence(
    "cluster.config-map-unreadable",
    "cannot read the ConfigMap {namespace}/{name}",
    why="the API shows no ConfigMap {other} there either, which every namespace has",
    next=f"Check {ACCESS}, and the API; run again if the namespace is new",
)
NODE_MISSING = Sentence(
    "cluster.node-missing",
    "the cluster has no node {node}",
    next="Set gpufleet_kubernetes_node to the name that `kubectl get nodes` shows",
)
NODE_CHANGES = Sentence(
    "cluster.node-changes",
    "cannot {doing}",
    why="another program changes the node {node} all the time",
    next="Run again",
)
OBJECT_OF_OTHERS = Sentence(
    "cluster.object-of-others",
    "cannot {doing}",
    why="it is there already, from {owner}, and the API did not list it",
    next="Run again, and check the API if it fails again",
)
NODE_GONE = Sentence(
    "cluster.node-gone",
    "cannot {doing}: the cluster does not have the node {node} any more",
    why="it was there when this run began",
    next="Run the playbook again, without this host if its node is gone for good",
)
LABEL_OF_OTHERS = Sentence(
    "cluster.label-of-others",
    "the node {node} has {key}={value} from {owner}, and its group is {wanted}",
    why="this collection takes over no label that another program has set",
    next="Remove it (kubectl {verb} node {node} {key}-) and run again, or leave this host out",
)
ANNOTATION_OF_OTHERS = Sentence(
    "cluster.annotation-of-others",
    "the node {node} has the annotation {key} from {owner}, and it differs from the host's decision",
    why="this collection takes over no annotation that another program has set",
    next="Remove it (kubectl {verb} node {node} {key}-) and run again, or leave this host out",
)

# ---------------------------------------------------------------- why something differs in the API
TAKEN_BACK = Sentence("cluster.taken-back", "gpufleet_kubernetes_state is absent")
LABEL_CHOOSES = Sentence(
    "cluster.label-chooses",
    "the label {label} chooses the node's group, and others read the decision",
)
NO_GPUS_ANY_MORE = Sentence("cluster.not-a-gpu-node", "it is not a node with GPUs any more")
NO_NODE_HAS_GPUS = Sentence("cluster.no-gpu-nodes", "no node has GPUs any more")
PLUGIN_READS = Sentence("cluster.plugin-reads", "the device plugin reads how pods get their GPUs")
NOT_NEEDED = Sentence("cluster.not-needed", "no node needs that any more")
HANDLER_NAMED = Sentence("cluster.handler-named", "pods can name this handler")
HANDLER_GONE = Sentence("cluster.handler-gone", "no node has this handler any more")
OF_NAMESPACE = Sentence("cluster.of-namespace", "the ConfigMap is in this namespace")
WANTED_TAINTS = Sentence("cluster.wanted-taints", "gpufleet_kubernetes_taints")

# ---------------------------------------------------------------- what is only rendered, or stays
IMAGE_WITHOUT_NODE = Sentence(
    "cluster.image-without-node",
    "{host} is an image, and the cluster has no node {node}: its node is only rendered",
)
GROUP_NOT_THERE = Sentence(
    "cluster.group-not-there",
    "the node {node} is only rendered: its configuration is not in the ConfigMap yet",
)
LABEL_KEPT = Sentence(
    "cluster.label-kept",
    "the node {node} is only rendered: its label {label} is kept by {keeper}",
)
CONFIG_MAP_KEPT = Sentence(
    "cluster.config-map-kept",
    "the ConfigMap {namespace}/{name} is kept by {owner}: it is only rendered",
)
CLASS_STAYS = Sentence(
    "cluster.class-stays",
    "the RuntimeClass {name} is there already, from {owner}, and stays as it is",
)
CLASS_OF_OTHERS = Sentence(
    "cluster.class-of-others",
    "the RuntimeClass {name} of {owner} names the handler {other}, not {handler}: it is only rendered",
)
TAINT_OF_OTHERS = Sentence(
    "cluster.taint-of-others",
    "the node {node} has the taint {other} from another program. It stays, so {wanted} of gpufleet_kubernetes_taints is not set there",
)
TAINT_IN_DOUBT = Sentence(
    "cluster.taint-in-doubt",
    "the node {node} has the taint {taint}, which stays: only an annotation of the node says that it is of this collection",
    next="Remove it with `kubectl taint node {node} {key}:{effect}-` if no pod needs it",
)

# ---------------------------------------------------------------- why a host is in no group
HOST_IN_TROUBLE = Sentence("cluster.host-in-trouble", "{trouble}: {cause}")
NOT_LOOKED_AT = Sentence("cluster.not-looked-at", "it was not looked at by host_info")
NO_KUBELET = Sentence(
    "cluster.no-kubelet",
    "no kubelet is there",
    next="If the host is a node, name its cluster in gpufleet_cluster",
)
SEVERAL_ENGINES = Sentence(
    "cluster.several-engines", "several engines could run its pods ({engines})"
)
NO_ENGINE = Sentence("cluster.no-engine", "no engine of it is configured that a kubelet uses")
ODD_DECISION = Sentence(
    "cluster.odd-decision", "its decision has a value that Kubernetes does not take: {value}"
)
KUBERNETES_STOPPED = Sentence("cluster.kubernetes-stopped", "its Kubernetes does not run")

# ---------------------------------------------------------------- what is changed first
HOSTS_FIRST = Sentence(
    "cluster.hosts-first",
    "{hosts}: change the hosts first (gpufleet.nvidia.rollout), then apply: they do not understand {strategies} yet",
)
PLUGIN_FIRST = Sentence(
    "cluster.plugin-first",
    "{hosts}: apply first, then change the hosts: after their change pods get no GPU by {strategies}",
)
PLUGIN_FIRST_UNKNOWN = Sentence(
    "cluster.plugin-first-unknown",
    "{hosts}: apply first, then change the hosts: by which strategy their pods get GPUs now is not known{strategies}",
)
PLUGIN_TWICE = Sentence(
    "cluster.plugin-twice",
    "{hosts}: apply, change the hosts (gpufleet.nvidia.rollout), and apply again: until then the plugin uses {strategies}",
)
