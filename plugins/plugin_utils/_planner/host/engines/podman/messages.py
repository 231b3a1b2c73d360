# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about Podman."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

PODMAN_NO_CDI = Sentence(
    "podman.no-cdi",
    "Podman {version} reads no CDI specs, and this collection gives it GPUs in no other way",
    next="Upgrade it to Podman {needed} or newer, and run again",
)
OTHER_DIRECTORIES = Sentence(
    "podman.other-directories",
    "Podman looks for CDI specs only in {directories} ({place}), and this host's specs are in {used}",
    next="Remove cdi_spec_dirs there, or set gpufleet_cdi_spec_dirs to these directories",
)
DEFAULT_DIRECTORIES = Sentence(
    "podman.default-directories",
    "Podman {version} looks for CDI specs only in {directories}, and this host's specs are in {used}",
    next="Upgrade Podman to 5.6 or newer, or name one of its directories in gpufleet_cdi_spec_dirs",
)
HOOK_BESIDE_CDI = Sentence(
    "podman.hook-beside-cdi",
    "Podman runs the hook {path} in addition to CDI (hooks_dir, {place})",
    why="together they inject GPUs twice",
    next="Remove {path}",
)
RUNTIME_UNDEFINED = Sentence(
    "podman.runtime-undefined",
    "Podman starts no container",
    why="its default runtime is {name} ({place}), and no containers.conf of this host defines that name",
    next="Remove the key runtime there: containers get GPUs by CDI with every runtime",
)
CONFINED = Sentence(
    "podman.confined",
    "SELinux keeps rootless containers of Podman from GPUs (Failed to initialize NVML: Insufficient Permissions)",
    why="they get the host's own device nodes, and no boolean allows those to containers",
    next="Run setsebool -P {boolean} on, or give containers that need a GPU --security-opt label=disable",
)
PODMAN_PACKAGE = Sentence("podman.package", "package {name} {version}")
PODMAN_PROGRAM = Sentence("podman.program", "program {program}")
