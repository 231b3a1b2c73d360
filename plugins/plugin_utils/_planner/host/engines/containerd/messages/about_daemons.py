# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about containerds that are left alone, and about what is known of a daemon."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import host_messages

# ---------------------------------------------------------------- refusals

RELATIVE_PATH = Sentence(
    "containerd.relative-config-path",
    "containerd was started with a relative configuration path ({config}), so the file cannot be determined",
    next="Start it with an absolute path and run again",
)
CONTAINERD_STOPPED_BY_FILE = Sentence(
    "containerd.stopped-by-file",
    "{engine} does not run, and it cannot read a file: {place}: {problem}",
    next=f"{{step}}. Then start it and run again. {host_messages.UNUSED}",
)
MANAGER_WITHOUT_UNIT = Sentence(
    "containerd.manager-without-unit",
    "{engine} does not run, and systemd knows no unit of it. Its file {path} is still there",
    next="If {manager} is gone from this host, remove that file. Otherwise install {manager} again, "
    "start it and run again",
)
CRI_DISABLED = Sentence(
    "containerd.cri-disabled",
    "CRI is switched off in this containerd: {where} lists it in disabled_plugins, so settings for CRI would have no effect",
    next='Remove "{entry}" from disabled_plugins, restart {daemon} and run again',
)
CRI_NOT_LOADED = Sentence(
    "containerd.cri-not-loaded",
    "containerd runs, but its CRI does not answer at {socket}: containerd {version} does not load it with {place} ({cause})",
    next="{step}. Then restart containerd and run again",
)
CRI_MAY_NOT_LOAD = Sentence(
    "containerd.cri-may-not-load",
    "containerd runs, but its CRI does not answer at {socket}, and nothing tells its version. Some releases do not load CRI "
    "with {place} ({cause})",
    next="{step}. Then restart containerd and run again",
)
CRI_SILENT = Sentence(
    "containerd.cri-silent",
    "containerd runs, but its CRI does not answer at {socket} ({cause})",
    next='See {log} for "failed to load plugin", correct that and run again',
)
SAYS_NOTHING = Sentence("containerd.cri-says-nothing", "it says nothing")
VERSION_UNKNOWN = Sentence(
    "containerd.version-unknown",
    "the version of this containerd is not known",
    why="neither its socket nor its program reports one",
    next="Start containerd, or fix its installation",
)
TOO_OLD = Sentence(
    "containerd.too-old",
    "containerd {version} is too old",
    next="Upgrade containerd to 1.6 or newer",
)
TREE_VERSION_UNKNOWN = Sentence(
    "containerd.version-unknown-in-root",
    "the version of containerd is not known",
    why="engines do not run in another root directory, and its package database has no version",
    next='Set gpufleet_engine_version, for example to "1.7.24"',
)
TREE_VERSION_UNREADABLE = Sentence(
    "containerd.version-unreadable-in-root",
    "the version of containerd is not readable: {text}",
    why="engines do not run in another root directory, and its package database has no version",
    next='Set gpufleet_engine_version, for example to "1.7.24"',
)

# ---------------------------------------------------------------- what the next boot brings

NEXT_BOOT_NVIDIA = Sentence(
    "containerd.next-boot-nvidia-handler",
    "{title} writes this containerd's configuration at each boot, and the next one has {handler} "
    "as the only handler, since {program} is there",
    next="{step}",
)
NEXT_BOOT_RUNC = Sentence(
    "containerd.next-boot-runc-handler",
    "{title} writes this containerd's configuration at each boot, and the next one has runc "
    "as the only handler, since {program} is not there",
    next="{step}",
)
BOOT_SETTINGS_IN_DIRECTORY = Sentence(
    "containerd.boot-settings-in-directory",
    "Put what has to differ (spec.containerd.config) into a file in {directory}, best in the image, and replace the node",
)
BOOT_SETTINGS_ELSEWHERE = Sentence(
    "containerd.boot-settings-elsewhere",
    "Put what has to differ (spec.containerd.config) into {elsewhere}, since {unit} does not name {directory}, and replace the node",
)
BOOT_FILE_UNREADABLE = Sentence(
    "containerd.boot-file-unreadable",
    "{path} could not be read here ({trouble}), so what it brings is not known. Correct it, and replace the node",
)
BOOT_FILE_LACKS_HEAD = Sentence(
    "containerd.boot-file-without-head",
    "{path} has no {key}: {value}, so it is not decoded and the node does not join its cluster. Correct it, and replace the node",
)
BOOT_FILE_OTHER_HEAD = Sentence(
    "containerd.boot-file-other-head",
    "{path}:{line} has {key}: {found} and not {value}, "
    "so it is not decoded and the node does not join its cluster. Correct it, and replace the node",
)
BOOT_FILE_MISSPELLED = Sentence(
    "containerd.boot-file-misspelled-key",
    "{path}:{line} has {key}, which is passed over without a word. It probably means {like}. Correct it, and replace the node",
)
BOOT_FILE_MISPLACED = Sentence(
    "containerd.boot-file-misplaced-key",
    "{path}:{line} has {key}, which is passed over without a word there. It belongs to {tables}. Correct it, and replace the node",
)

# ---------------------------------------------------------------- evidence of CDI

NOT_INSPECTED = Sentence(
    "containerd.not-inspected", "not inspected: another system owns the configuration"
)
NOT_INSTALLED = Sentence("containerd.not-installed", "containerd is not installed here")
NOT_RUNNING_NO_VERSION = Sentence(
    "containerd.stopped-without-version", "it does not run, so its version is not known"
)
CDI_UNSUPPORTED = Sentence(
    "containerd.cdi-unsupported-by-release", "containerd {version} does not support CDI"
)
CDI_UNSUPPORTED_BY_KEYS = Sentence(
    "containerd.cdi-unsupported-by-keys",
    "neither {switch} nor {directories}: this containerd does not support CDI",
)
CDI_ALWAYS_BY_KEYS = Sentence(
    "containerd.cdi-always-on-by-keys", "{directories} and no {switch}: CDI is always on"
)
CDI_ALWAYS = Sentence("containerd.cdi-always-on", "CDI is always on in containerd {version}")
CDI_SWITCH = Sentence("containerd.cdi-switch", "{switch} = {value}")
CDI_ON_BY_DEFAULT = Sentence(
    "containerd.cdi-on-by-default", "CDI is on by default in containerd {version}"
)
CDI_OFF_BY_DEFAULT = Sentence(
    "containerd.cdi-off-by-default", "CDI is off by default in containerd {version}"
)
CDI_NO_SETTING = Sentence(
    "containerd.cdi-without-setting",
    "{evidence}, and the manager that renders the configuration has no setting for it",
)
