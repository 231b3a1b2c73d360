# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about a host's CDI specs."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# whether there is a spec
SPECS_WITHDRAWN = Sentence(
    "cdi.state-absent", "state: absent removes the CDI specs of this collection"
)
NO_GPU_LEFT = Sentence("cdi.no-gpu", "there is no GPU")
NOT_SHARED = Sentence("cdi.not-shared", "no GPU is shared in this way")
NOT_ASKED = Sentence(
    "cdi.kind-not-asked", "no option asks for devices of this kind, or the host has none of them"
)
MOVED = Sentence(
    "cdi.moved", "the specs of this host are in another directory, which all its engines read"
)
REFRESH_WRITES = Sentence("cdi.refresh-writes", "nvidia-cdi-refresh writes the CDI spec here")
NOTHING_READS = Sentence("cdi.nothing-reads", "nothing reads CDI specs here")
OPTION_WITHOUT_EFFECT = Sentence(
    "cdi.option-without-effect", "Without effect on this host, since {reason}: {options}"
)
NO_SPEC_HERE = Sentence(
    "cdi.no-spec-here", "no CDI spec can be made here", why="{evidence}", next="Nothing was changed"
)
NO_SPEC_YET = Sentence(
    "cdi.no-spec-yet", "No CDI spec: {evidence}. The first run that finds a usable GPU writes it"
)
SPEC_DRIVER_NOT_LOADED = Sentence(
    "cdi.driver-not-loaded",
    "no CDI spec can be made: {evidence}",
    next="Load the driver (modprobe nvidia; the kernel log says why it fails), then run again",
)
SPEC_DRIVER_BROKEN = Sentence(
    "cdi.driver-broken", "no CDI spec can be made: {evidence}", next="Nothing was changed"
)
NO_LIBRARIES = Sentence(
    "cdi.no-libraries",
    "no CDI spec can be made: the kernel module {version} is loaded, and not one library of that release was found",
    why="containers would get GPUs without {missing}",
    next="Install the driver's packages for compute workloads. If its files lie below a directory of their own, "
    "name it in gpufleet_cdi_driver_root",
)
NO_LIBRARIES_OF_IMAGE = Sentence(
    "cdi.no-libraries-of-image",
    "no CDI spec can be made: the kernel module {version} is loaded, and not one library of that release was found where "
    "distributions have them",
    why="the image of this host has the driver in a place of its own; containers would get GPUs without {missing}",
    next="Let the image's own way give GPUs to containers",
)
LIBRARIES_OUT_OF_REACH = Sentence(
    "cdi.libraries-out-of-reach",
    "no CDI spec can be made: the kernel module {version} is loaded, and its libraries cannot be reached",
    why="{causes}",
    next="Correct what is named, then run again",
)
LIBRARIES_MISSING = Sentence(
    "cdi.libraries-missing",
    "the driver's files on this host lack {missing}: install the rest of its packages if containers need it",
)
LIBCUDA_MISSING = Sentence(
    "cdi.libcuda-missing",
    "the driver's files on this host lack {missing}",
    why="CUDA does not start in containers",
    next="Install the driver's packages for compute workloads, in the version of the kernel module",
)
NVML_MISSING = Sentence(
    "cdi.nvml-missing",
    "the driver's files on this host lack {missing}",
    why="nvidia-smi does not start in containers, and NVIDIA's legacy runtime starts none of them",
    next="Install the driver's packages for compute workloads, in the version of the kernel module",
)
NO_DEVICE_OF_KIND = Sentence(
    "cdi.no-device-of-kind", "No device of the kind {kind}, so no spec is written for it"
)
READERS_TOO_OLD = Sentence(
    "cdi.readers-too-old",
    "no CDI spec for consumers up to version {version}",
    why="{needs}",
    next="Leave out the option that asks for it, or update the program that reads CDI specs here",
)
SPEC_NODE_MISSING = Sentence(
    "cdi.node-missing",
    "device node missing: {nodes}",
    why="a container would start without a working GPU",
    next="Set gpufleet_device_nodes: present and run the playbook site, or run nvidia-smi -L and nvidia-modprobe -c 0 -u; then again",
)
# https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/imexchannels.html
MAKE_CHANNELS = Sentence(
    "cdi.make-imex-channels",
    "Make each channel by hand: mkdir -p {folder}, and mknod {node} c MAJOR {number}, with the number "
    "of nvidia-caps-imex-channels in /proc/devices as MAJOR. A boot takes it away. For channel 0 the module's parameter "
    "NVreg_CreateImexChannel0=1 lasts. Or take the number out of gpufleet_cdi_imex_channels. Then run again",
)
NODE_MISSING_IN_TREE = Sentence(
    "cdi.node-missing-in-tree",
    "device node missing: {nodes}",
    why="a container would start without a working GPU",
    next="Add the nodes to the tree, or take its /dev/nvidia* out: then the spec has the nodes that the driver would make",
)
UUIDS_UNKNOWN = Sentence(
    "cdi.uuids-unknown",
    "the CDI spec would lose {names}, since the UUIDs of the GPUs are not known",
    why="neither NVML nor nvidia-smi says them at the moment",
    next="Run nvidia-smi -L on the host, correct what it names, and run again",
)
NO_ENROOT_CLI = Sentence(
    "cdi.enroot-without-cli",
    "enroot is on this host and reads no CDI spec: it puts the driver into containers by {program}, "
    "which is missing here. Install the package libnvidia-container-tools for the jobs that use it",
)
FABRIC_ON_REQUEST = Sentence(
    "cdi.fabric-on-request",
    "Containers with a GPU get NVSwitches and IMEX channels only if they ask for them. "
    "Ordinary CUDA and NCCL on HGX need neither. Fabric Manager or switch tools in a container ask for "
    "nvidia.com/nvswitch=all (gpufleet_cdi_nvswitch: true), jobs over NVLink between hosts for "
    "nvidia.com/imex-channel=0 (gpufleet_cdi_imex_channels: [0]). The NVIDIA runtime reads the variable "
    "NVIDIA_IMEX_CHANNELS in its modes legacy and jit-cdi only. In Kubernetes use the device plugin's "
    "option for IMEX, or NVIDIA's DRA driver. Containers that run keep what they have: begin with a canary "
    "(gpufleet.nvidia.rollout), and start one of your jobs there",
)

# why a spec is written
WRITTEN = Sentence(
    "cdi.written",
    "devices according to {source}; no consumer on this host is too old for CDI {version}",
)
STALE_REPLACED = Sentence("cdi.stale-replaced", "stale: the spec {problem}")
REFRESHED = Sentence("cdi.refreshed", "{path} {problem}")
LINK = Sentence(
    "cdi.link",
    "this is a symbolic link to {target}",
    why="engines would read another file than the one that is written",
    next="Remove the link, then run again",
)
SPECS_WATCHED = Sentence(
    "cdi.watched",
    "the host may change between two runs, and containers must not start with a stale spec",
)
NOT_WATCHED = Sentence("cdi.not-watched", "gpufleet_cdi_refresh: converge")
REFRESH_WRITES_NOW = Sentence("cdi.refresh-writes-now", "nvidia-cdi-refresh writes the spec now")
WRITES_NOW = Sentence("cdi.collection-writes-now", "this collection writes the spec now")

# where specs are
EACH_ENGINE_READS = Sentence("cdi.each-engine-reads", "each engine has to read it: {readers}")
DIRECTORY_PROBLEM = Sentence(
    "cdi.directory-not-listed", "{directory}: {problem}. {effect}: {remedy}"
)
EMPTY_AFTER_BOOT = Sentence(
    "cdi.empty-after-boot",
    "The CDI spec is in {place}, which is empty after a boot, since {readers}",
    next="Set gpufleet_cdi_spec_dirs: {usual} to have it kept in {lasting}, or run this collection after each boot",
)
PLUGIN_NOT_READ = Sentence(
    "cdi.plugin-not-read",
    "Pods get no GPU by NVIDIA's device plugin, which writes its CDI specs to {place}: {readers}",
    next="Set gpufleet_cdi_spec_dirs, for example to {example}",
)
NO_COMMON_DIRECTORY = Sentence(
    "cdi.no-common-directory",
    "no directory of CDI specs is read by all engines of this host",
    why="{readers}",
    next="Set gpufleet_cdi_spec_dirs, which gives them one list, for example {example}",
)
NO_COMMON_DIRECTORY_YET = Sentence(
    "cdi.no-common-directory-yet",
    "no directory of CDI specs is read by all engines of this host",
    why="{readers}",
    next="Restart {engines} and run again, or set gpufleet_cdi_spec_dirs, which gives them one list, for example {example}",
)

# specs of others
KEPT_IN_JOURNAL = "The spec of this host replaces it, and the journal keeps the file"
DOUBLED = "it defines {devices}, as {mine} does"
CTK_DOES_NOT_WRITE = "nvidia-ctk cdi generate does not write that"
WRITTEN_THERE = Sentence("cdi.written-there", "the spec of this host is written there")
WOULD_HIDE = Sentence("cdi.would-hide", "it would hide {mine}, the spec of this collection")
REFRESH_HIDES = Sentence(
    "cdi.refresh-hides",
    "nvidia-cdi-refresh wrote it; it would hide {mine}, the spec of this collection",
)
NO_DEVICE = Sentence("cdi.no-device", "it defines no device")
UNREAD_REPLACED = Sentence(
    "cdi.unread-replaced", f"{{path}}, line {{line}}: {{problem}}. {KEPT_IN_JOURNAL}"
)
BROKEN_REPLACED = Sentence(
    "cdi.broken-replaced", f"{{path}} held no readable CDI spec: {{problem}}. {KEPT_IN_JOURNAL}"
)
CTK_REPLACED = Sentence(
    "cdi.ctk-replaced",
    "nvidia-ctk cdi generate writes this; the spec of this collection replaces it",
)
OTHER_KIND_REPLACED = Sentence(
    "cdi.other-kind-replaced", f"it is where the spec of the kind {{kind}} goes. {KEPT_IN_JOURNAL}"
)
OTHER_KIND_LESS = Sentence(
    "cdi.other-kind-less",
    f"it is where the spec of the kind {{kind}} goes. {KEPT_IN_JOURNAL}: {{losses}}",
)
IN_OUR_PLACE = Sentence(
    "cdi.in-our-place",
    "a file of another tool is in the place of this host's spec",
    why="gpufleet_adopt: never leaves it to its owner",
    next="Set gpufleet_adopt: auto to have it taken over, set gpufleet_cdi_owner: toolkit to leave the spec to its owner, "
    "or move the file out of the CDI directories",
)
IN_OUR_PLACE_WITH = Sentence(
    "cdi.in-our-place-with",
    "a file of another tool is in the place of this host's spec, with {additions}",
    why="gpufleet_adopt: never leaves it to its owner",
    next="Set gpufleet_cdi_owner: toolkit to leave the spec to its owner, or move the file out of the CDI directories",
)
ADDITIONS_LOST = Sentence(
    "cdi.additions-lost", "it has {additions}", why=f"{CTK_DOES_NOT_WRITE}, and {{effect}}"
)
NAMES_LOST = Sentence(
    "cdi.names-lost",
    "only it has the devices {names}",
    why="containers may ask for them, and {effect}",
)
OTHER_ENDING = Sentence(
    "cdi.other-ending",
    "{path} is not read by any engine, since engines read {endings} only; remove or rename it",
)
SPEC_UNREADABLE = Sentence(
    "cdi.unreadable",
    "{path} could not be read ({problem}), so it is not known which devices it defines",
)
UNREAD = Sentence(
    "cdi.unread",
    "{path}, line {line}: {problem}. So its devices are not known, but engines may read it. "
    "Write it as JSON, or as YAML without tags, directives, complex keys and values of several lines within brackets",
)
IGNORED = Sentence("cdi.ignored", "{path} is not a CDI spec: {problem}; engines ignore it")
CTK_BESIDE = Sentence(
    "cdi.ctk-beside", "nvidia-ctk cdi generate writes this, and {mine} has its devices"
)
KEPT_ADDITIONS = Sentence(
    "cdi.kept-additions", "it has {additions}, which nvidia-ctk cdi generate does not write"
)
KEPT_BY_OPTION = Sentence("cdi.kept-by-option", "gpufleet_adopt: never leaves it to its owner")
KEPT_KIND = Sentence("cdi.kept-kind", "only files of the kinds {kinds} are taken over")
KEPT_LINK = Sentence("cdi.kept-link", "it is a link to {target}")
REMOVE_LINK = Sentence("cdi.remove-link", "remove the link {path}, and run again")
KEPT_NAMES = Sentence("cdi.kept-names", "only it has {names}")
HIDDEN = Sentence("cdi.hidden", "{path} defines {device} as well; {mine} hides it")
DROPPED_FOR_ANOTHER = Sentence(
    "cdi.dropped-for-another",
    "{path} and {other} define the same device, {device}, so engines give it to no container",
    next="Remove the file that is not wanted, or set gpufleet_cdi_owner: collection, which takes over "
    "what nvidia-ctk wrote",
)
DEVICE_DROPPED = Sentence(
    "cdi.device-dropped",
    DOUBLED,
    why="engines drop a device that two files of one directory define; {reason}",
)
DEVICE_OUTRANKED = Sentence(
    "cdi.outranked", DOUBLED, why="it outranks {mine} and hides it; {reason}"
)
MANAGEMENT = "containers that watch GPUs may ask for {names}, which no spec of this run defines"
MANAGEMENT_STEP = Sentence(
    "cdi.management-step",
    "remove it once no container asks for {kind}, or have gpufleet.nvidia.cdi_spec write one ({setting})",
)
MANAGEMENT_OF_OPERATOR = Sentence(
    "cdi.management-of-operator",
    f"{MANAGEMENT}; its toolkit is gone, so nothing updates it for another driver",
)
MANAGEMENT_OF_OTHERS = Sentence(
    "cdi.management-of-others",
    f"{MANAGEMENT}; for another driver only its author can update it",
)

# how a spec differs from its host
HEADLINE = Sentence("cdi.stale", "CDI spec {path} is stale: {problem}")
NOT_A_SPEC = Sentence("cdi.not-a-spec", "{path} is not a CDI spec: {problem}")
STALE_UNREAD = Sentence("cdi.not-read", "{path} could not be read: {problem}")
SET_ASIDE = Sentence(
    "cdi.set-aside",
    "{path} was set aside by the staleness guard on the host, whose journal says why (journalctl -u gpufleet-cdi-watch)",
)
STALE_DRIVER = Sentence("cdi.other-driver", "made for driver {recorded}, but the host has {found}")
STALE_KERNEL = Sentence(
    "cdi.other-kernel", "takes firmware from the folder of kernel {recorded}, and {found} runs"
)
GPU_GONE = Sentence("cdi.gpu-gone", "names {names}, which is not a GPU of this host now")
GPU_LACKING = Sentence("cdi.gpu-lacking", "does not have GPU {gpus}")
GPU_CHANGED = Sentence("cdi.gpu-changed", "records {name} as {recorded}, but it is {found} now")
MIG_GONE = Sentence("cdi.mig-gone", "names {gone} of MIG instances that are gone")
MIG_LACKING = Sentence("cdi.mig-lacking", "lacks the MIG instances {lacking}")
MIG_CHANGED = Sentence(
    "cdi.mig-changed",
    "names {gone} of MIG instances that are gone and lacks the MIG instances {lacking}",
)
NODES_LATER = Sentence("cdi.nodes-later", "was made before {nodes} existed")
STALE_NODE_GONE = Sentence(
    "cdi.node-gone", "names the device node {path}, which does not exist; containers do not start"
)
NODE_CHANGED = Sentence("cdi.node-changed", "records {path} as {recorded}, but it is {found} now")
FILES_GONE = Sentence(
    "cdi.files-gone", "names files that no longer exist: {files}; containers do not start"
)
VERSION_TOO_NEW = Sentence(
    "cdi.version-too-new",
    "has version {version}, but the oldest consumer here accepts {limit} at most",
)
HOOK_UNKNOWN = Sentence(
    "cdi.hook-unknown", "uses the hook {hooks}, which toolkit {version} does not know"
)
OLDER_THAN_TOOLKIT = Sentence(
    "cdi.older-than-toolkit", "is older than the installed toolkit {version}, which makes its own"
)
