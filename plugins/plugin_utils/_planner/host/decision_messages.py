# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the reasons of decisions, and why an option cannot work."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# --- hosts and options

NO_GPU_FAILS = Sentence(
    "decision.no-gpu-fails",
    "no NVIDIA GPU on this host",
    why="{evidence}",
    next="Set gpufleet_no_gpu to skip or prepare, or take the host out of the group",
)
SKIPPED_WITHOUT_GPU = Sentence("decision.no-gpu", "no GPU: {evidence}")
CDI_ONLY = Sentence(
    "decision.cdi-only",
    "{option} cannot work with {engine}",
    why="this collection supports only CDI for it",
    next="Leave both options at auto for this host, or list other engines in gpufleet_engines",
)
NATIVE_CDI_UNSUPPORTED = Sentence(
    "decision.cdi-unsupported",
    "gpufleet_injection: native-cdi cannot work with {engine}",
    why="it does not support CDI ({evidence})",
    next="Use gpufleet_injection: nvidia-runtime there, or upgrade to {releases}",
)
CDI_CONTRADICTED = Sentence(
    "decision.cdi-contradicted",
    "gpufleet_injection: {injection} contradicts gpufleet_cdi: disabled",
    next="Drop one of the two options",
)
HOOKS_UNSUPPORTED = Sentence(
    "decision.hooks-unsupported",
    "gpufleet_injection: oci-hook cannot work with {engine}",
    why="only {engines} read OCI hook files",
    next="Use gpufleet_injection: legacy for this engine",
)
DEFAULT_CONTRADICTED = Sentence(
    "decision.default-contradicted",
    "gpufleet_set_as_default: enabled contradicts gpufleet_injection: oci-hook",
    why="that injection has no handler to make the default",
    next="Use gpufleet_injection: legacy",
)
TWO_MODES = Sentence(
    "decision.two-modes",
    "this host needs two modes of the NVIDIA runtime: {modes}",
    why="the mode is one setting per host and {program} is not installed",
    next="Install nvidia-container-toolkit-operator-extensions, or choose one injection for the host",
)

# --- how GPUs get into containers

INJECTION_FORCED = Sentence("decision.injection-forced", "gpufleet_injection forces this")
SPEC_ALONE = Sentence(
    "decision.spec-alone",
    "{engine} resolves CDI devices itself ({way}), so it needs nothing but the CDI spec",
)
ENGINE_HOOKS = Sentence(
    "decision.engine-hooks",
    "CDI is not wanted (gpufleet_cdi: disabled), and {engine} runs OCI hooks by itself",
)
RUNTIME_HOOKS = Sentence(
    "decision.runtime-hooks",
    "CDI is not wanted (gpufleet_cdi: disabled), so the NVIDIA runtime injects GPUs through its prestart hook",
)
ENGINE_RESOLVES = Sentence("decision.engine-resolves", "{engine} resolves CDI devices itself")
ENGINE_RESOLVES_ONCE_ON = Sentence(
    "decision.engine-resolves-once-on",
    "{engine} resolves CDI devices itself once CDI is switched on",
)
MANAGER_HIDES_CDI = Sentence(
    "decision.manager-hides-cdi",
    "{engine} resolves no CDI devices as its manager configures it, so the NVIDIA runtime does it in cdi mode",
)
MANAGER_HIDES_CDI_DEFAULT = Sentence(
    "decision.manager-hides-cdi-default",
    "{engine} resolves no CDI devices as its manager configures it, so the NVIDIA runtime does it in cdi mode, as default handler",
)
RUNTIME_ASKED = Sentence(
    "decision.runtime-asked",
    "{engine} cannot resolve CDI devices, so the NVIDIA runtime does it in cdi mode ({way})",
)
RUNTIME_RESOLVES = Sentence(
    "decision.runtime-resolves",
    "{engine} cannot resolve CDI devices, so the NVIDIA runtime does it in cdi mode",
)
RUNTIME_RESOLVES_DEFAULT = Sentence(
    "decision.runtime-resolves-default",
    "{engine} cannot resolve CDI devices, so the NVIDIA runtime does it in cdi mode, as default handler",
)
HANDLER_ASKED = Sentence("decision.handler-asked", "{way} {handler} requests the handler")
CLASS_ASKED = Sentence(
    "decision.class-asked", "management containers request the handler by RuntimeClass"
)
HOOK_ALWAYS = Sentence("decision.hook-always", "the hook runs for every container")

# --- the default handler

HOOK_HAS_NO_HANDLER = Sentence("decision.no-handler", "there is no handler")
DEFAULT_FORCED = Sentence("decision.default-forced", "gpufleet_set_as_default forces this")
DEFAULT_STAYS = Sentence(
    "decision.default-stays",
    "it is the default now, which containers may rely on, and stays the default until gpufleet_set_as_default: disabled",
)
USERS_NAME_IT = Sentence(
    "decision.users-name-it", "users name the device or the runtime when they run a container"
)
MANAGER_RENDERS_DEFAULT = Sentence(
    "decision.manager-renders-default",
    "the manager of this containerd renders the default handler from its own configuration, which "
    "is left as it is; gpufleet_set_as_default: enabled says what to write there",
)
RUNTIME_STARTS_ALL = Sentence(
    "decision.runtime-starts-all",
    "workloads get GPUs from the NVIDIA runtime, so it has to start every container",
)
KUBELET_RUNS_HERE = Sentence(
    "decision.kubelet-runs",
    "a kubelet runs here, and the handler is the default now. It stays the default until "
    "gpufleet_device_plugin_strategy states that the device plugin uses CDI. Otherwise running "
    "workloads would lose their GPUs at their next restart",
)
KUBELET_INSTALLED_HERE = Sentence(
    "decision.kubelet-installed",
    "a kubelet is installed here, and the handler is the default now. It stays the default until "
    "gpufleet_device_plugin_strategy states that the device plugin uses CDI. Otherwise running "
    "workloads would lose their GPUs at their next restart",
)
PODS_NAME_NONE = Sentence(
    "decision.pods-name-no-runtime",
    "the kubelet starts its pods in {engine} by cri-dockerd, and pods that get their GPUs by the variable name no runtime",
)
ENGINE_INJECTS = Sentence(
    "decision.engine-injects",
    "the engine injects by itself; only containers that request the handler by RuntimeClass use it",
)

# --- the device plugin's strategies

PODS_BY_CRI_DOCKERD = Sentence(
    "decision.pods-by-cri-dockerd",
    "the kubelet starts its pods in {engine} by cri-dockerd, and not every release of it hands CDI devices on",
)
NO_KUBELET_USES = Sentence(
    "decision.no-kubelet-uses", "no kubelet uses {engine}, so no device plugin does"
)
DECLARED_STRATEGY = Sentence(
    "decision.strategy-declared", "gpufleet_device_plugin_strategy declares this"
)
NO_ANNOTATIONS = Sentence(
    "decision.no-annotations",
    "the handler that the manager of this containerd renders passes no annotations on",
)
VARIABLE_AND_PREFIX = Sentence(
    "decision.variable-and-prefix",
    "the NVIDIA runtime reads both the variable and its own annotation prefix",
)
VARIABLE_ONLY = Sentence(
    "decision.variable-only", "without CDI, only the environment variable works"
)
ANNOTATIONS_ONLY = Sentence(
    "decision.annotations-only", "{engine} {version} reads CDI annotations but not the CRI field"
)
KUBELET_TOO_OLD = Sentence(
    "decision.kubelet-too-old",
    "kubelet {version} does not pass CDI devices by default (alpha in 1.28, on from 1.29)",
)
KUBELET_PASSES = Sentence(
    "decision.kubelet-passes", "kubelet {version} passes CDI devices in the CRI field"
)
CRI_FIELD_READ = Sentence("decision.cri-field-read", "the engine reads the CRI field")

# --- the host's own settings

NO_MODE_NEEDED = Sentence("decision.no-mode-needed", "no instance needs the NVIDIA runtime")
ONE_MODE = Sentence("decision.one-mode", "every instance of this host needs the same mode")
MODE_PROGRAMS = Sentence(
    "decision.mode-programs", "instances that need {modes} use the mode-specific binaries"
)
ISOLATION_FORCED = Sentence("decision.isolation-forced", "gpufleet_isolation forces this")
VARIABLE_NEEDED = Sentence(
    "decision.variable-needed",
    "workloads request GPUs by NVIDIA_VISIBLE_DEVICES here, so the variable has to work for unprivileged containers as well",
)
USERS_ARE_ROOT = Sentence(
    "decision.users-are-root",
    "{way} request GPUs by NVIDIA_VISIBLE_DEVICES, and users who may run containers in {engine} can do anything on the host anyway",
)
BY_MOUNTS = Sentence(
    "decision.by-mounts",
    "the device plugin requests devices by mounts, so the variable works for privileged containers only",
)
BY_CDI = Sentence(
    "decision.by-cdi",
    "the engine injects by CDI, so the variable works for privileged containers only",
)
CDI_LIBRARY_UNKNOWN = Sentence(
    "decision.cdi-library-unknown",
    "the NVIDIA runtime reads the spec here, and the version of its CDI library is not known",
)
OLDEST_CONSUMER = Sentence(
    "decision.oldest-consumer", "{consumer} is the oldest consumer of the host's CDI spec"
)

# --- the record of the decision

RECORD_GONE = Sentence("decision.record-gone", "this host has no decision any more")
RECORD_READ = Sentence(
    "decision.record-read", "other programs on the host can read how containers get GPUs here"
)
RECORD_WITHDRAWN = Sentence(
    "decision.record-withdrawn", "state: absent removes the record of this host's decision"
)
NEEDS_MODE = Sentence("decision.needs-mode", "{instance} needs {mode}")
