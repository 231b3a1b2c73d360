# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about GPUs that several processes share."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

KEYS = "Write a GPU's UUID, its PCI address (0000:17:00.0), its product name or its index"
LEAVE_OUT_ONE = "Leave out one of the two"
ONE_OF_POLICIES = "Give it one of {policies}"
TRUE_OR_FALSE = "Write true or false"
WAYS = "Give such GPUs nodes of their own (gpufleet_sharing per group of hosts), divide them by MIG, or use NVIDIA's DRA driver"

# ---------------------------------------------------------------- the option

NO_DICTIONARY = Sentence(
    "sharing.not-a-dictionary",
    "gpufleet_sharing is {value}, which is not a dictionary",
    next=f"{KEYS} with one of {{policies}}",
)
BENEATH_ROOT = Sentence(
    "sharing.beneath-root",
    "gpufleet_sharing is set, and gpufleet_root is {value}",
    why="a running driver keeps the modes, and nothing runs beneath another root",
    next=LEAVE_OUT_ONE,
)
DRIVER_ELSEWHERE = Sentence(
    "sharing.driver-elsewhere",
    "gpufleet_sharing is set, and gpufleet_cdi_driver_root is {value}",
    why="the host's own nvidia-smi sets modes, and the driver is elsewhere",
    next=LEAVE_OUT_ONE,
)
TWO_ENTRIES = Sentence(
    "sharing.two-entries",
    "gpufleet_sharing has two entries for one GPU, {first} and {second}",
    why="both are {gpu}",
    next=LEAVE_OUT_ONE,
)
ONE_ADDRESS_TWICE = Sentence(
    "sharing.one-address-twice",
    "gpufleet_sharing has two entries for one GPU, {first} and {second}",
    why="both are the same PCI address",
    next=LEAVE_OUT_ONE,
)
NOT_A_POLICY = Sentence(
    "sharing.not-a-policy",
    "gpufleet_sharing has for {key} the value {value}, which is not a policy",
    next=ONE_OF_POLICIES,
)
UNKNOWN_POLICY = Sentence(
    "sharing.unknown-policy",
    "gpufleet_sharing has for {key} the unknown policy {policy}",
    next="Known policies are {policies}",
)
MIG_POLICY = Sentence(
    "sharing.mig-policy",
    "gpufleet_sharing has for {key} the policy {policy}, which this collection does not set",
    next="Set up MIG with nvidia-mig-parted",
)
NO_POLICY = Sentence(
    "sharing.no-policy",
    "gpufleet_sharing has for {key} no policy",
    why="a GPU has one policy",
    next=ONE_OF_POLICIES,
)
SEVERAL_POLICIES = Sentence(
    "sharing.several-policies",
    "gpufleet_sharing has for {key} {given}",
    why="a GPU has one policy",
    next=ONE_OF_POLICIES,
)
MIG_DEVICE = Sentence(
    "sharing.mig-device",
    "gpufleet_sharing names the MIG device {key}",
    why="a policy is for a whole GPU",
    next="Share MIG devices by MIG itself",
)
KEY_IS_NUMBER = Sentence(
    "sharing.key-is-number",
    "gpufleet_sharing has the key {key}, which is not a GPU",
    why="YAML reads a PCI address without letters and without quotes as a number of minutes and seconds",
    next='Write the address in quotes: "0000:17:00.0"',
)
NOT_A_GPU = Sentence(
    "sharing.not-a-gpu",
    "gpufleet_sharing has the key {key}, which is not a GPU",
    next=KEYS,
)
SETTING_NOT_BOOLEAN = Sentence(
    "sharing.not-boolean",
    "{where}: {name} is {value}",
    next=TRUE_OR_FALSE,
)
UNKNOWN_ALLOCATION = Sentence(
    "sharing.unknown-allocation",
    "{where}: {name} is {value}",
    next="Write one of {known}",
)
UNKNOWN_INTERVAL = Sentence(
    "sharing.unknown-interval",
    "{where}: interval is {value}",
    next="Write one of {intervals}",
)
SETTINGS_NOT_DICTIONARY = Sentence(
    "sharing.settings-not-a-dictionary",
    "{where} is {value}, which is not a dictionary",
    next="Write {{}}, or {known} with its value",
)
LIMITS_NOT_DICTIONARY = Sentence(
    "sharing.limits-not-a-dictionary",
    "{where} is {value}, which is not a dictionary",
    next="Write {{}}, or some of {known}",
)
UNKNOWN_KEY = Sentence(
    "sharing.unknown-key",
    "{where}: unknown key {key}",
    next="The known key is {known}",
)
UNKNOWN_LIMIT = Sentence(
    "sharing.unknown-limit",
    "{where}: unknown key {key}",
    next="The known keys are {known}; on a Kubernetes node, replicas",
)
TOO_MANY_CLIENTS = Sentence(
    "sharing.clients-out-of-range",
    "{where}: clients is {value}",
    why="an MPS server has at most {most} clients",
    next="Write a whole number from 1 to {most}",
)
THREADS_OUT_OF_RANGE = Sentence(
    "sharing.threads-out-of-range",
    "{where}: threads is {value}",
    why="it is a share of the GPU's threads in percent",
    next="Write a whole number from 1 to {most}",
)
MEMORY_WITHOUT_UNIT = Sentence(
    "sharing.memory-without-unit",
    "{where}: memory is {value}",
    why="nvidia-cuda-mps-control takes a whole number with a unit",
    next="Write it as 8G or 512M",
)

# ---------------------------------------------------------------- the device plugin

TWO_PLUGIN_POLICIES = Sentence(
    "sharing.two-plugin-policies",
    "{where} has {given}",
    why="the device plugin has one policy for a node",
    next="Keep one of {policies}",
)
NOT_WITH_REPLICAS = Sentence(
    "sharing.not-with-replicas",
    "{where}: {key} and replicas together",
    why="with replicas the device plugin shares GPUs, and it has no such setting",
    next="Its keys are {known}",
)
REPLICAS_NOT_A_NUMBER = Sentence(
    "sharing.replicas-out-of-range",
    "{where}: replicas is {value}",
    next="Write how many pods may have each GPU, which is 2 or more",
)
TOO_MANY_REPLICAS = Sentence(
    "sharing.too-many-replicas",
    "{where}: replicas is {value}",
    why="an MPS server has at most {most} clients",
    next="Write fewer",
)
PLUGIN_POLICIES_DIFFER = Sentence(
    "sharing.plugin-policies-differ",
    "{option} shares GPU {gpu} by replicas of the device plugin, and has another policy for GPU {other}",
    why="the device plugin has one policy for all GPUs of a node",
    next=WAYS,
)
DIVIDED_GPU_NAMED = Sentence(
    "sharing.divided-gpu-named",
    "{option} names GPU {gpu}, which is divided into MIG devices",
    why="the device plugin shares whole GPUs by one policy, and MIG devices are resources of their own",
    next="Leave it out",
)
GPU_LEFT_OUT = Sentence(
    "sharing.gpu-left-out",
    "{option} leaves out GPU {gpu} ({model}), and shares others by replicas of the device plugin",
    why="the device plugin shares all whole GPUs of a node",
    next=f"Name it, too: a product name stands for all GPUs of that name. {WAYS}",
)
MPS_ON_DIVIDED_GPU = Sentence(
    "sharing.mps-on-divided-gpu",
    "{option} has mps, and GPU {gpu} is divided into MIG devices",
    why="the device plugin does not start with both",
    next=f"{LEAVE_OUT_ONE}. {WAYS}",
)
MPS_WITH_MIXED_MIG = Sentence(
    "sharing.mps-with-mixed-mig",
    "{option} has mps, and gpufleet_kubernetes_mig_strategy is mixed",
    why="the device plugin does not start with both",
    next=f"{LEAVE_OUT_ONE}. {WAYS}",
)
SLICES_ON_DIVIDED_GPU = Sentence(
    "sharing.slices-on-divided-gpu",
    "{option} shares GPUs by time slices, and GPU {gpu} is divided into MIG devices",
    why="with gpufleet_kubernetes_mig_strategy {strategy} they have the resource of the shared GPUs, and would be shared as well",
    next=f"Set gpufleet_kubernetes_mig_strategy to mixed. {WAYS}",
)
REPLICAS_WITHOUT_KUBELET = Sentence(
    "sharing.replicas-without-kubelet",
    "gpufleet_sharing has replicas",
    why="the device plugin of a Kubernetes node makes replicas, and this host has no kubelet",
    next="Leave out replicas, or this host",
)
KUBELET_OWNS_SHARING = Sentence(
    "sharing.kubelet-runs",
    "gpufleet_sharing is set, and a kubelet runs on this host",
    why="the device plugin hands out a node's GPUs, and shares them by its own configuration",
    next="Leave this host out of gpufleet_sharing, or share its GPUs by the plugin: give each one time_slicing or mps with replicas",
)
SHARED_BY_SLURM = Sentence(
    "sharing.shared-by-slurm",
    "gpufleet_sharing is set, and Slurm shares this host's GPUs by gres/{kind}",
    next="Leave this host out of gpufleet_sharing, or take that line out of gres.conf",
)
OPTION_EMPTY = Sentence("sharing.option-empty", "gpufleet_sharing is empty")
OPTION_FOR_PLUGIN = Sentence(
    "sharing.option-for-plugin", "gpufleet_sharing is for the device plugin"
)
SHARING_WITHDRAWN = Sentence("sharing.state-absent", "state: absent gives the GPUs' modes back")

# ---------------------------------------------------------------- GPUs and their modes

NO_SUCH_GPU = Sentence(
    "sharing.no-such-gpu",
    "{option} names {key}, and this host has no such GPU",
    next="Its GPUs are {gpus}",
)
NO_SUCH_GPU_OR_PRODUCT = Sentence(
    "sharing.no-such-gpu-or-product",
    "{option} names {key}, and this host has no such GPU",
    next="Its GPUs are {gpus}; by product name: {products}",
)
MIG_ON = Sentence(
    "sharing.mig-on",
    "gpufleet_sharing names {key}, and MIG is on for GPU {gpu}",
    why="MIG devices have neither a compute mode nor a time slice of their own",
    next="Switch MIG off on it, or leave it out of gpufleet_sharing",
)
NAMED_BY_INDEX = Sentence(
    "sharing.named-by-index",
    "gpufleet_sharing names GPU {index} by its index, which another GPU has if one is added or fails: write its UUID ({uuid})",
)
ODD_MODES = Sentence(
    "sharing.modes-not-understood",
    "the compute modes of this host's GPUs are not known",
    why="nvidia-smi prints {line}",
    next="Run {command} on the host",
)
NO_MODES = Sentence(
    "sharing.no-modes-printed",
    "the compute modes of this host's GPUs are not known",
    why="nvidia-smi prints no line that this collection understands",
    next="Run {command} on the host",
)
MODES_FAILED = Sentence(
    "sharing.modes-failed",
    "the modes of this host's GPUs are not known from {command}",
    why="exit status {status}",
    next="Run it on the host, and fix the driver",
)
NO_TIME_SLICE = Sentence(
    "sharing.no-time-slice",
    "the time slice of GPU {gpu} is not known: {command} does not name it",
    next="Leave interval out of gpufleet_sharing for it; drivers know time slices from R455 on, for Volta and later",
)
EXCLUSIVE_MODE = Sentence(
    "sharing.exclusive-mode",
    "the driver then refuses processes that bypass the one process, or the MPS daemon, that this GPU is for",
)
DEFAULT_MODE = Sentence(
    "sharing.default-mode",
    "processes that share a GPU by time slices need a mode that lets several of them in",
)
SLICE_LENGTH = Sentence(
    "sharing.slice-length",
    "this is how long a process computes on the GPU before another one has its turn",
)
MODES_STAY = Sentence(
    "sharing.modes-stay",
    "gpufleet_sharing has to outlive a boot and a reload of the driver, which forgets compute modes and time slices",
)
MODE_FROM_BEFORE = Sentence(
    "sharing.mode-from-before", "the GPU had this mode before this collection set it"
)
RECORD_LOST = Sentence(
    "sharing.record-lost",
    "{path}, which had the modes from before, was removed since this collection wrote it: "
    "the modes of a driver that was just loaded then count as those from before",
)
RECORD_LOST_ABSENT = Sentence(
    "sharing.record-lost-absent",
    "{path}, which had the modes from before, was removed since this collection wrote it. "
    "So no compute mode or time slice was set back. "
    "`nvidia-smi -i UUID -c DEFAULT` on the host gives a GPU back, and so does a boot",
)
RECORD_BROKEN = Sentence(
    "sharing.record-broken",
    "this file has the modes of GPUs from before, and is not as this collection wrote it",
    why="{problem}",
    next="Restore the file from a copy, or remove it: the modes of a driver that was just loaded then count as those from before",
)
WAITS_FOR_DRIVER = Sentence(
    "sharing.waits-for-driver",
    "gpufleet_sharing has to wait until the driver serves: {evidence}",
)
DRIVER_SILENT = Sentence(
    "sharing.driver-silent",
    "nvidia-smi does not answer, so no compute mode or time slice was set back; a boot does that",
)
GPU_CLOSED = Sentence(
    "sharing.gpu-closed",
    "GPU {gpu} is in compute mode PROHIBITED, which keeps it out of use, "
    "so gpufleet_sharing leaves it as it is. "
    "Run `nvidia-smi -i {uuid} -c {before}` on the host when it may be used again",
)
GPU_AWAY = Sentence(
    "sharing.gpu-away", "GPU {gpu} is not there, so its {setting} is not set back to {before}"
)
GPU_DIVIDED = Sentence(
    "sharing.gpu-divided",
    "MIG is on for GPU {gpu}, so its {setting} is not set back to {before}",
)
BECOMES_EXCLUSIVE = Sentence(
    "sharing.becomes-exclusive",
    "GPU {gpu} becomes EXCLUSIVE_PROCESS, and is in use by {users}: no other process gets onto it until they have ended",
)
USERS_UNKNOWN = Sentence(
    "sharing.users-unknown",
    "not all users of a GPU that becomes EXCLUSIVE_PROCESS are known: {problem}",
)

# ---------------------------------------------------------------- users of GPUs

HOLDERS_LOOK_FAILED = Sentence("sharing.look-failed", "the look at open files failed: {problem}")
HOLDERS_LOOK_FAILED_SILENTLY = Sentence(
    "sharing.look-failed-silently",
    "the look at open files failed: for a reason that it does not tell",
)
CLOSED_PROCESSES = Sentence(
    "sharing.closed-processes", "{processes} of this host cannot be looked into"
)
PROCESSES_LEFT = Sentence(
    "sharing.processes-left",
    "not looked into: {processes}, since more files are open than one look reads",
)
PROCESSES_CLOSED_AND_LEFT = Sentence("sharing.processes-closed-and-left", "{closed}; {left}")
USERS_ON_DEDICATED = Sentence(
    "sharing.users-on-dedicated-gpu",
    "{number} users on a dedicated GPU: {users}",
)
DAEMON_NOT_ACTIVE = Sentence(
    "sharing.daemon-not-active",
    "its MPS daemon does not serve: {unit} is {state}",
)
WRONG_MODE = Sentence(
    "sharing.wrong-mode", "its compute mode is {mode}, and {policy} needs {wanted}"
)

# ---------------------------------------------------------------- MPS daemons

DAEMON_STAYS = Sentence(
    "sharing.daemon-stays",
    "gpufleet_sharing has GPUs that processes share by MPS, whose daemon has to be there before their containers",
)
DAEMON_GONE = Sentence("sharing.daemon-gone", "no process is to share this GPU by MPS any more")
NO_CONTROL_PROGRAM = Sentence(
    "sharing.no-control-program",
    "gpufleet_sharing has mps",
    why="nvidia-cuda-mps-control, which serves processes that share a GPU by MPS, is not on this host",
    next="Install the driver's package that has it (nvidia-compute-utils on Ubuntu, nvidia-cuda-mps on Debian, "
    "nvidia-driver-cuda on RHEL), then run again",
)
OTHER_DAEMON = Sentence(
    "sharing.other-daemon",
    "gpufleet_sharing has mps, and an MPS daemon runs on this host that this collection has not started (process {pid})",
    why="two daemons for one GPU keep each other's clients out",
    next="End it with `echo quit | nvidia-cuda-mps-control`, with its CUDA_MPS_PIPE_DIRECTORY set, "
    "if it has one of its own, and whatever starts it, then run again, or leave mps out",
)
OTHERS_PROCESS = Sentence(
    "sharing.others-process",
    "1 process of other users is called nvidia-cuda-mps-control: "
    "if it is an MPS daemon of these GPUs, its clients and those of the daemon here keep each other out",
)
OTHERS_PROCESSES = Sentence(
    "sharing.others-processes",
    "{number} processes of other users are called nvidia-cuda-mps-control: "
    "if one is an MPS daemon of these GPUs, its clients and those of the daemon here keep each other out",
)
OTHER_UNIT = Sentence(
    "sharing.other-unit-enabled",
    "{unit} is enabled: after the next boot its MPS daemon and those of this collection keep each other's "
    "clients out. Run `systemctl disable {unit}`",
)
UNIT_NOT_LOADED = Sentence(
    "sharing.unit-not-loaded",
    "{unit} runs, and systemd has no unit of that name",
    why="its file was removed, and systemd has read its units again",
    next="Run `systemctl stop {unit}`, which ends its clients, then run again",
)
MEMORY_UNKNOWN = Sentence(
    "sharing.memory-unknown",
    "the memory of this host's GPUs is not known from {command}",
    why="exit status {status}",
    next="Write memory beside clients in gpufleet_sharing, or run it on the host and fix the driver",
)
MEMORY_NOT_NAMED = Sentence(
    "sharing.memory-not-named",
    "the memory of this host's GPUs is not known from {command}",
    why="it names no GPU with its memory",
    next="Write memory beside clients in gpufleet_sharing, or run it on the host and fix the driver",
)
DAEMON_RECORD_BROKEN = Sentence(
    "sharing.daemon-record-broken",
    "this file is not as this collection wrote it",
    why="it has no table of daemons any more, so this run cannot know which of them run",
    next="Stop them (systemctl stop '{units}'), remove the file and run again",
)
DAEMON_IN_USE = Sentence(
    "sharing.daemon-in-use",
    "GPU {gpu} is in use by {users}, and its MPS daemon has to end or to begin again",
    why="clients end with their daemon",
    next="End them, then run again; gpufleet_restart: force does not wait for it",
)
DAEMON_USE_UNKNOWN = Sentence(
    "sharing.daemon-use-unknown",
    "it is not known whether {gpus} is in use, and its MPS daemon has to end or to begin again",
    why="{problem}",
    next="Look at these processes, or set gpufleet_restart: force, which ends clients with their daemon",
)
PLACES_STAY = Sentence(
    "sharing.places-stay", "another person or program removed {path}, so {places} stay. Remove them"
)

# what is wrong with our file of the modes from before
KEPT_LINE_NOT_JSON = Sentence("sharing.kept-line-not-json", "line {line} is not JSON")
KEPT_WITHOUT_BEFORE = Sentence("sharing.kept-without-before", "it is not a table with `before`")
KEPT_BEFORE_FORM = Sentence(
    "sharing.kept-before-form", "`before` is not a list of GPUs with their modes"
)
