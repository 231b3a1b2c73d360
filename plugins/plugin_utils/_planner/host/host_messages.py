# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about a host and the engines on it."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

ELSEWHERE = "set gpufleet_config_path and gpufleet_socket if it is in another place"
UNUSED = "If this host is not to use it, remove its package and its unit, or list the other engines in gpufleet_engines"

# --- releases that no table knows

NEWER_THAN_KNOWN = Sentence(
    "release.newer-than-known",
    "{title} {version} is newer than this collection, which knows releases up to {known} (as of {checked})",
    why="it is treated like {known}, and what has changed since then was not checked",
    next="Read its release notes, try one host first, and update this collection",
)

# --- engines

NO_ENGINE_HERE = Sentence(
    "engines.none-found",
    "no container engine found on this host",
    why="containerd, CRI-O and Docker were searched for by process, unit, socket and program, and Podman by a release that reads CDI specs",
    next=f"Install an engine first, or {ELSEWHERE}",
)
NO_ENGINE_IN_TREE = Sentence(
    "engines.none-found-in-root",
    "no container engine found in this directory tree",
    why="no package database there names one",
    next="Set gpufleet_engines and gpufleet_engine_version, for example to [docker] and 29.8.1",
)
ENGINE_NOT_HERE = Sentence(
    "engines.not-here",
    "the engine {engine} is not on this host",
    next="Install it first, or take it out of gpufleet_engines. Found: {found}",
)
ENGINE_NOT_FOUND = Sentence(
    "engines.not-found",
    "no {engine} found on this host",
    next=f"Install it first, or {ELSEWHERE}",
)
ENGINE_NOT_IN_TREE = Sentence(
    "engines.not-found-in-root",
    "no {engine} found in this directory tree",
    why="no package database there has its version",
    next="Set gpufleet_engine_version to the version that the tree is for",
)
NO_ENGINE_CHOSEN = Sentence(
    "engines.none-chosen",
    "gpufleet_engines is an empty list",
    next="Write [auto] for all engines of this host, or name those to manage",
)
SEVERAL_INSTANCES = Sentence(
    "engines.several-instances",
    "several instances: {instances}",
    next="Choose one by gpufleet_config_path",
)
STOPPED_ENGINE = Sentence(
    "engines.stopped",
    "{engine} is installed but not running ({unit} is {states})",
    next=f"Start it and run again. {UNUSED}",
)
ENGINE_FAILED = Sentence(
    "engines.failed",
    "{engine} is installed but not running ({unit} is {states})",
    next=f"See `journalctl -u {{unit}}` for the cause, correct it, start it and run again. {UNUSED}",
)
ENGINE_MASKED = Sentence(
    "engines.masked",
    "{engine} is installed but not running ({unit} is {states})",
    next=f"Run `systemctl unmask {{unit}}`, then start it and run again. {UNUSED}",
)
ENGINE_WITHOUT_UNIT = Sentence(
    "engines.without-unit",
    "{engine} is installed but not running ({unit} is not known to systemd)",
    next=f"Start it and run again. If its unit or its program is gone, install its package again. {UNUSED}",
)
ENGINES_OTHER_FILE = Sentence(
    "engines.other-file",
    "gpufleet_config_path is {path}, which {engine} does not read",
    why="it runs with {file}",
    next="Leave gpufleet_config_path out, or name the file with which it runs",
)
WOULD_TAKE_AWAY = Sentence("run.would-take-away", "this run would take away what serves it")
BESIDE_KUBERNETES = Sentence(
    "engines.beside-kubernetes",
    "{title} {version} is left alone on a host of Kubernetes, whose pods do not run in it",
    next="Set gpufleet_engines: [auto, {engine}] to have it configured as well",
)
PROCESS_UNVERIFIED = Sentence(
    "engines.process-unverified",
    "{engine} runs here, but its process could not be verified ({rule}): {place} {fault}. Its "
    "program is not run, its files are not read, and it is not restarted",
    next="{remedy}, or describe the engine by gpufleet_config_path, gpufleet_socket and "
    "gpufleet_service, which are then used instead of the process",
)
NOT_INSPECTED_UNVERIFIED = Sentence(
    "engines.not-inspected-unverified", "not inspected: the process could not be verified"
)
PROCESSES_OF_OTHERS = Sentence(
    "engines.processes-of-others",
    "processes of other users with an engine's name are left alone ({processes}). "
    "A rootless engine and its configuration belong to its user. The CDI spec in /etc/cdi serves it. "
    "Rootless Docker reads the spec from 28.0 on, and in the last releases of 25.0, 26.1 and 27",
)
RUNTIMES_DIFFER = Sentence(
    "engines.runtimes-differ",
    "the engines of this host use different low-level runtimes: {one} runs {program}, {other} runs {other_program}",
    why="their workloads go through the NVIDIA runtime, which has one list of low-level runtimes for the whole host and takes the first "
    "that it finds",
    next="Set the same one as default in both engines, let both inject by CDI, or name one engine alone in gpufleet_engines",
)
RUNTIME_OF_ANOTHER = Sentence(
    "engines.runtime-of-another",
    "the NVIDIA runtime hands containers of its handler to {first} on this host, also those of {others}. Workloads get GPUs by CDI, "
    "and run with the low-level runtime of their engine",
)
PACKAGE_PROGRAM_GONE = Sentence(
    "engines.package-program-gone",
    "The package {package} {version} is installed, but its program {program} is gone",
    next="Run `{command} {package}` on the host; if no repository there has it, the role toolkit adds one",
)

# --- the run

DRIVER_LOADS = Sentence(
    "run.driver-loads",
    "This run loads the NVIDIA driver; the next run writes the CDI spec, which names the driver's GPUs",
)
NOTHING_WRITTEN = Sentence("run.nothing-written", "nothing that this collection wrote is here")
FILES_TAKEN_BACK = Sentence("run.taken-back", "taken back: {files}")
TO_BE_TAKEN_BACK = Sentence("run.to-be-taken-back", "to be taken back: {files}")
RESTART_LEFT_TO_YOU = Sentence("run.restart-left", "{done}; left for you to do: restart {units}")

# a look cannot say whether a process uses a GPU
WORK_NOT_SEEN = Sentence("run.work-not-seen", "unknown: {cause}")
WORK_LOOK_FAILED = Sentence("run.work-look-failed", "the look failed")
WORK_CLOSED = Sentence("run.work-closed", "unknown: {processes} cannot be looked into")
WORK_PARTIAL = Sentence(
    "run.work-partial",
    "unknown: {processes} were not looked into, since more files are open than one look reads",
)
