# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about restarts, and about the proof of a change."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

RESTART_NEVER = Sentence(
    "containerd.restart-left-to-you",
    "{path}: takes effect only after a restart of {unit}, which gpufleet_restart: never leaves to you",
)
OUTSIDE_SYSTEMD = Sentence(
    "containerd.outside-systemd",
    "{path}: this containerd runs outside systemd",
    next="Restart it yourself",
)
NOT_RUNNING = Sentence(
    "containerd.takes-effect-at-next-start",
    "{path}: containerd is not running. The configuration takes effect at its next start",
)
CHANGES = Sentence(
    "containerd.configuration-changes",
    "the configuration in force changes",
)
LOSES_HANDLERS = Sentence(
    "containerd.configuration-loses-handlers",
    "the configuration in force does not contain the handlers of this collection any more",
)
OLDER_IN_USE = Sentence(
    "containerd.configuration-not-loaded",
    "the files are correct, but the running daemon has not loaded them",
)
MASKED = Sentence(
    "containerd.unit-masked",
    "{unit} is masked, so it cannot be restarted",
    next="Run `systemctl unmask {unit}`, or set gpufleet_restart: never and restart it yourself",
)
KILLS_CONTAINERS = Sentence(
    "containerd.restart-kills-containers",
    "a restart of {unit} would kill every container on this host",
    why="its KillMode is {mode}, but upstream's is process",
    next="Remove the override from the unit, or set gpufleet_restart: never and restart it yourself",
)
ENDS_EARLY = Sentence(
    "containerd.restart-ends-early",
    "{unit}: its Type is {type}, so its restart ends before the API of the cluster serves again",
    next="Set Type=notify, as its own installation does, before you change several servers of one cluster",
)
NEVER_NOT_KEPT = Sentence(
    "containerd.restart-never-not-kept",
    "{path}: gpufleet_restart: never cannot be kept here: the program of {unit} restarts its containerd by itself when a drop-in goes",
)
VALIDATED = Sentence(
    "containerd.new-configuration-read",
    "containerd itself reads the new configuration, and only the keys of this collection differ",
)
DUMP_WITHOUT_PROGRAM = Sentence(
    "containerd.dump-without-program",
    "its output does not have BinaryName = {program}",
)
DUMP_KEY_UNKNOWN = Sentence(
    "containerd.dump-key-unknown",
    "it does not know the key {key}",
)
