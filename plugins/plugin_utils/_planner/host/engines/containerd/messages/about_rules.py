# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about rules of containerd that a configuration breaks."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# ---------------------------------------------------------------- what happens

DOES_NOT_START = Sentence(
    "containerd.rule-does-not-start",
    "containerd {version} does not start with this file",
)
NO_CRI = Sentence(
    "containerd.rule-no-cri",
    "containerd {version} does not load CRI with this file",
)
WOULD_NOT_START = Sentence(
    "containerd.rule-would-not-start",
    "containerd {version} would not start after this change",
)
WOULD_LOSE_CRI = Sentence(
    "containerd.rule-would-lose-cri",
    "containerd {version} would not load CRI after this change",
)
STEP = Sentence(
    "containerd.rule-step",
    "{step}, and run again",
)
STEP_OR_OWN = Sentence(
    "containerd.rule-step-or-own",
    "{step}, or {other}, and run again",
)
OTHER_NAME = Sentence(
    "containerd.rule-step-other-name",
    "choose another name in gpufleet_handlers",
)
SET_NOT_DEFAULT = Sentence(
    "containerd.rule-step-not-default",
    "set gpufleet_set_as_default: disabled",
)
NO_TYPE = Sentence(
    "containerd.rule-no-type",
    "no type",
)

# ---------------------------------------------------------------- rules

TABLE_NAME = Sentence(
    "containerd.rule-plugin-table-name",
    "{effect}",
    why="the table plugins.{key} has a name of config version 1 in a configuration of version 2",
    next='Rename the table (plugins.cri is plugins."io.containerd.grpc.v1.cri" in version 2), or remove it',
)
PLUGIN_NAME = Sentence(
    "containerd.rule-plugin-name",
    "{effect}",
    why="{key} has a plugin's name of config version 1 in a configuration of version 2",
    next="Write the whole name (cri is io.containerd.grpc.v1.cri in version 2), or remove it",
)
REQUIRED_DISABLED = Sentence(
    "containerd.rule-required-disabled",
    "{effect}",
    why="a plugin in required_plugins is also in disabled_plugins",
    next="Remove the plugin from one of the two lists",
)
NEEDED_DISABLED = Sentence(
    "containerd.rule-needed-disabled",
    "{effect}",
    why="disabled_plugins lists a plugin that CRI needs",
    next="Remove {needed} from it",
)
UNTRUSTED_TWICE = Sentence(
    "containerd.rule-untrusted-twice",
    "{effect}",
    why="untrusted_workload_runtime is the handler untrusted, which runtimes defines as well",
    next="Remove the table untrusted_workload_runtime",
)
DEFAULT_EMPTY = Sentence(
    "containerd.rule-default-empty",
    "{effect}",
    why="default_runtime_name is empty",
    next="Name a handler in it, or remove the key",
)
DEFAULT_MISSING = Sentence(
    "containerd.rule-default-missing",
    "{effect}",
    why="the default handler {default} is not defined",
    next="Define it, or name another one in default_runtime_name",
)
SYSTEMD_CGROUP = Sentence(
    "containerd.rule-systemd-cgroup",
    "{effect}",
    why="systemd_cgroup = true needs a default handler of type {linux}, and {default} has {type}",
    next="Set SystemdCgroup = true in the options of the handlers of type io.containerd.runc.v2, and remove this key",
)
NO_PIVOT = Sentence(
    "containerd.rule-no-pivot",
    "{effect}",
    why="no_pivot = true needs a default handler of type {linux}, and {default} has {type}",
    next="Set NoPivotRoot = true in the options of the handlers of type io.containerd.runc.v2, and remove this key",
)
KEYS_OF_LINUX = Sentence(
    "containerd.rule-keys-of-linux",
    "{effect}",
    why="{key} needs a handler of type {linux}",
    next="Write BinaryName in place of runtime_engine, and Root in place of runtime_root, in the handler's options",
)
ALL_DEVICES_ALONE = Sentence(
    "containerd.rule-all-devices-alone",
    "{effect}",
    why="{key} needs privileged_without_host_devices = true",
    next="Set privileged_without_host_devices = true in this handler, or remove {key}",
)
IO_TYPE = Sentence(
    "containerd.rule-io-type",
    "{effect}",
    why="{key} may be fifo or streaming",
    next="Write one of the two, or remove the key",
)
MIRRORS_AND_PATH = Sentence(
    "containerd.rule-mirrors-and-path",
    "{effect}",
    why="registry.mirrors and registry.config_path exclude one another",
    next="Move the mirrors to files in the directory of config_path, and remove them here",
)
MIRRORS_AND_DEFAULT_PATH = Sentence(
    "containerd.rule-mirrors-and-default-path",
    "{effect}",
    why="containerd 2.2.0 and 2.2.1 set registry.config_path themselves, which excludes registry.mirrors",
    next="Update containerd to 2.2.2 or newer, or move the mirrors to files in /etc/containerd/certs.d and remove them here",
)

# ---------------------------------------------------------------- tables that are not read, or that
# outrank ours

CRI_TABLE_UNREAD = Sentence(
    "containerd.old-cri-table-unread",
    "{place}: containerd {version} does not read the table plugins.cri in a file of this version",
    next="Move its settings to plugins.{table}, or remove it",
)
OUTRANKED = Sentence(
    "containerd.setting-outranked",
    "{setting} would have no effect",
    why="containerd {version} reads the older table {table} as the handler {handler}",
    next="Remove the table {table}, or choose another name in gpufleet_handlers, and run again",
)
DEFAULT_OUTRANKED = Sentence(
    "containerd.default-outranked",
    "{setting} would have no effect",
    why="containerd {version} reads the older table {table} as the handler {handler}, which "
    "is the default one whatever default_runtime_name says",
    next="Remove the table {table}, or set gpufleet_set_as_default: disabled, and run again",
)
