# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about handlers: what they are made like, and why."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# ---------------------------------------------------------------- a handler that is in the way

OTHER_KIND = Sentence(
    "containerd.handler-of-other-kind",
    "the handler {handler} is of another kind ({kind})",
    why="it is not one of runc's",
    next="Choose another name in gpufleet_handlers, or remove this handler from the configuration",
)

# ---------------------------------------------------------------- the cgroup driver

DRIVER_AS_HANDLER = Sentence(
    "containerd.cgroup-driver-as-handler",
    "as {handler} has it",
)
DRIVER_AS_OTHER_HANDLER = Sentence(
    "containerd.cgroup-driver-as-other-handler",
    "as {handler} has it. {copied} does not set it",
)
DRIVERS_DIFFER = Sentence(
    "containerd.cgroup-drivers-differ",
    "{handler} sets SystemdCgroup = {value}, in contrast to {others}",
)
DRIVER_IN_SPITE_OF_DOUBT = Sentence(
    "containerd.cgroup-driver-settled",
    "{reason}. {doubt}",
)
DRIVER_STILL_REPORTED = Sentence(
    "containerd.cgroup-driver-still-reported",
    "containerd continues to report {driver} to the kubelet, as it does with {handler} as default",
)
DRIVER_OF_REPLACED = Sentence(
    "containerd.cgroup-driver-of-replaced-default",
    "as in the default handler {handler}, which it replaces",
)
DEFAULT_CHANGES_DRIVER = Sentence(
    "containerd.default-changes-cgroup-driver",
    "with {new} as default instead of {old}, pods would get the {then} cgroup driver instead of {before}",
    why="containerd reports the driver of its default handler to the kubelet, and a kubelet that changes its driver loses its pods",
    next="{step}",
)
DEFAULT_DROPS_DRIVER = Sentence(
    "containerd.default-drops-cgroup-driver",
    "with {new} as default instead of {old}, pods would get the {then} cgroup driver instead of {before}",
    why="the kubelet would continue to use its present driver",
    next="{step}",
)
HANDLERS_CHANGE_DRIVER = Sentence(
    "containerd.handlers-change-cgroup-driver",
    "with the handlers of this plan, pods would get the {then} cgroup driver instead of {before}",
    why="containerd reports the driver of its default handler to the kubelet, and a kubelet that changes its driver loses its pods",
    next="{step}",
)
HANDLERS_DROP_DRIVER = Sentence(
    "containerd.handlers-drop-cgroup-driver",
    "with the handlers of this plan, pods would get the {then} cgroup driver instead of {before}",
    why="the kubelet would continue to use its present driver",
    next="{step}",
)
SET_TYPE = Sentence(
    "containerd.set-runtime-type",
    'Set runtime_type = "{type}" in the handler {handler}, since containerd reports the driver of no other, and run again',
)
SET_DRIVER = Sentence(
    "containerd.set-cgroup-driver",
    "Set SystemdCgroup = {value} in the options of the handler {handler}, or set the value in gpufleet_handlers (options: SystemdCgroup)",
)
DRIVER_IN_DOUBT = Sentence(
    "containerd.cgroup-driver-in-doubt",
    "{path}: the handlers disagree on the cgroup driver: {doubt}. Neither a pod nor a "
    "kubelet runs here to show which value is right, so the handler {handler} follows the"
    " first",
)

# ---------------------------------------------------------------- reasons of settings

TYPE_NEEDED = Sentence(
    "containerd.runtime-type-needed",
    "as in {handler}. An empty type fails when a sandbox is created",
)
TYPE_RENAMED = Sentence(
    "containerd.runtime-type-renamed",
    "{type}, as in {handler}, is an older name of this type",
)
COPIED = Sentence(
    "containerd.copied-from-handler",
    "as {handler} has it",
)
ANNOTATIONS_READ = Sentence(
    "containerd.annotations-read",
    "the NVIDIA runtime reads device requests from these annotations",
)
SET_BY_USER = Sentence(
    "containerd.set-by-handlers-option",
    "set by gpufleet_handlers",
)
RUNS_NVIDIA = Sentence(
    "containerd.handler-runs-nvidia-runtime",
    "containers of this handler go through the NVIDIA runtime",
)
RUNC_KEPT = Sentence(
    "containerd.built-in-runc-kept",
    "containerd {version} drops its built-in runc when a file defines another handler",
)
RUNC_DRIVER_KEPT = Sentence(
    "containerd.built-in-runc-driver-kept",
    "containerd {version} drops its built-in runc when a file defines another handler. This is its built-in value",
)
REPLACES_DEFAULT = Sentence(
    "containerd.replaces-default-handler",
    "as in {handler}, which it replaces as default handler",
)
DECIDED = Sentence(
    "containerd.decided-for-host",
    "the decision for this host",
)
NOT_DEFAULT = Sentence(
    "containerd.not-default-handler",
    "{handler} should not be the default handler, since every container would go through it",
)
NOT_DEFAULT_UNLESS_ASKED = Sentence(
    "containerd.not-default-handler-unless-asked",
    "{handler} should not be the default handler, since every container would go through it. gpufleet_set_as_default: enabled keeps it",
)
CDI_OFF_IN_1_7 = Sentence(
    "containerd.cdi-off-in-1-7",
    "CDI is off by default in containerd 1.7",
)
CDI_SWITCHED_OFF = Sentence(
    "containerd.cdi-switched-off",
    "an explicit false switches CDI off",
)
SPEC_DIRS_SET = Sentence(
    "containerd.spec-directories-set",
    "set by gpufleet_cdi_spec_dirs",
)
AS_IN_FILES = Sentence(
    "containerd.as-in-files",
    "as in the files",
)

# ---------------------------------------------------------------- advice

DEFINED_TWICE = Sentence(
    "containerd.handler-defined-twice",
    "{path}: also defines the handler {handler} and was left unchanged, since it agrees with the desired state",
    next="Before you configure another handler, remove it from this file",
)
