# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about Docker Engine."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

NOT_OURS = "this collection did not write it"
LEAVE_OR_NAME = "to continue with it, or remove it and run again"

# --- engines that are left alone

SNAP = Sentence(
    "docker.snap",
    "This Docker is a snap, whose confinement hides the driver's files and the NVIDIA runtime from it",
    next="Install Docker Engine from a package (docker-ce, docker.io) instead, and run again",
)
DESKTOP = Sentence(
    "docker.desktop",
    "This is Docker Desktop, which runs Docker in a virtual machine that has no access to this host's GPUs",
    next="Install Docker Engine in addition, and run again",
)
DOCKER_STOPPED_BY_FILE = Sentence(
    "docker.stopped-by-file",
    "Docker does not run, and its file is the likeliest cause: {problem}",
    next="{step}. Then start Docker and run again",
)
DOCKER_SILENT = Sentence(
    "docker.silent",
    "Docker runs, but does not answer at {socket}",
    next="See `journalctl -u {unit}`, correct that and run again",
)
DOCKER_VERSION_UNKNOWN = Sentence(
    "docker.version-unknown",
    "the version of Docker is not known",
    why="neither its socket nor its program nor a package reports one",
    next="Start Docker, or set gpufleet_engine_version",
)
DOCKER_NO_CDI = Sentence(
    "docker.no-cdi",
    "Docker {version} does not support CDI",
    next="Upgrade Docker to 25.0, or remove gpufleet_cdi: enabled",
)
DOCKER_MASKED = Sentence(
    "docker.masked",
    "{unit} is masked, so it cannot be restarted",
    next="Run `systemctl unmask {unit}`, or remove docker from gpufleet_engines",
)
CONTAINERS_UNLISTED = Sentence(
    "docker.containers-unlisted",
    "Docker does not list its running containers",
    why="it answers with status {status}",
    next="Look at Docker's log, then run again",
)

# --- daemon.json

DOCKER_NOT_UTF8 = Sentence("docker.not-utf-8", "this is not UTF-8", next="Save the file as UTF-8")
UTF16 = Sentence(
    "docker.utf-16",
    "this is UTF-16",
    why="Docker from 23.0 on reads it, but only a file in UTF-8 can be changed key by key",
    next="Convert it with `iconv -f UTF-16 -t UTF-8 {path} > {path}.utf8 && mv {path}.utf8 {path}`, which changes no setting",
)
DOCKER_UNREADABLE = Sentence(
    "docker.file-unreadable",
    "this file cannot be read",
    why="{trouble}",
    next="Make it a regular file with a JSON object",
)
DOCKER_WRONG_TYPE = Sentence(
    "docker.wrong-type",
    "{key} is {found}",
    why="dockerd does not start with it",
    next="It has to be {wanted}",
)
DOCKER_CDI_SWITCHED_OFF = Sentence(
    "docker.cdi-switched-off",
    'cdi-spec-dirs is [""]',
    why="that switches CDI off",
    next="Remove it, and run again",
)
SET_BY_FLAG = Sentence(
    "docker.set-by-flag",
    "{key} is set by the flag {flag} ({value})",
    why="dockerd does not start if {file} sets it as well, and {wanted} is needed",
    next="Remove the flag from the unit, restart Docker and run again",
)
KEY_IN_OTHER_CASE = Sentence(
    "docker.key-in-other-case",
    "the key {key} is {right} in another case",
    why="Docker refuses such a key at the top of the file, and takes the last of several in a runtime",
    next="Write it as {right}, once, and run again",
)
SET_TWICE = Sentence(
    "docker.set-twice",
    "{key} is set by the flag {flag} and in {place}",
    why="Docker does not start with both",
    next="Remove one of the two, and run again",
)
SWARM_BY_FILE = Sentence(
    "docker.live-restore-in-swarm",
    "live-restore is on, and this host is a node of a Swarm",
    why="Docker does not start again with both",
    next='Set "live-restore": false there, run `systemctl reload docker`, and run again',
)
SWARM_IN_TREE = Sentence(
    "docker.live-restore-in-swarm-tree",
    "live-restore is on, and this host is a node of a Swarm",
    why="Docker does not start again with both",
    next='Set "live-restore": false there, and run again',
)
SWARM_BY_FLAG = Sentence(
    "docker.live-restore-flag-in-swarm",
    "live-restore is on, and this host is a node of a Swarm",
    why="Docker does not start again with both",
    next="Remove the flag --live-restore from Docker's unit, and run again",
)

# --- runtimes

RUNTIME_BY_FLAG = Sentence(
    "docker.runtime-of-others-by-flag",
    "the flag {flag} defines the runtime {runtime}",
    why=f"its program is {{program}}, and {NOT_OURS}",
    next=f"Set gpufleet_handlers.{{runtime}}.binary to {{program}} {LEAVE_OR_NAME}",
)
HIDDEN_RUNTIME_BY_FLAG = Sentence(
    "docker.hidden-runtime-of-others-by-flag",
    "the flag {flag} defines the runtime {runtime}",
    why=f"its program has a form that is not sent from the host, and {NOT_OURS}",
    next=f"Set gpufleet_handlers.{{runtime}}.binary to its program {LEAVE_OR_NAME}",
)
RUNTIME_OF_OTHERS = Sentence(
    "docker.runtime-of-others",
    "another runtime has the name {runtime}",
    why=f"its program is {{program}}, and {NOT_OURS}",
    next=f"Set gpufleet_handlers.{{runtime}}.binary to {{program}} {LEAVE_OR_NAME}",
)
HIDDEN_RUNTIME_OF_OTHERS = Sentence(
    "docker.hidden-runtime-of-others",
    "another runtime has the name {runtime}",
    why=f"its program has a form that is not sent from the host, and {NOT_OURS}",
    next=f"Set gpufleet_handlers.{{runtime}}.binary to its program {LEAVE_OR_NAME}",
)
SHIM_OF_OTHERS = Sentence(
    "docker.shim-of-others",
    "another runtime has the name {runtime}",
    why=f"its runtimeType is {{shim}}, and {NOT_OURS}",
    next="Remove it or give it another name there, then run again",
)
RUNTIME_WITHOUT_PROGRAM = Sentence(
    "docker.runtime-without-program",
    "another runtime has the name {runtime}",
    why=f"it has no program, and {NOT_OURS}",
    next="Remove it or give it another name there, then run again",
)
DOCKER_PROGRAM_NEEDED = Sentence("docker.program-needed", "every container that uses it would fail")
DIRECTORIES_NOT_WRITTEN = Sentence(
    "docker.directories-not-written",
    "Docker {version} does not know cdi-spec-dirs and would not start with it, so gpufleet_cdi_spec_dirs is not written there",
)
RUNTIME_GIVEN_BY_FLAG = Sentence(
    "docker.runtime-given-by-flag",
    "Docker gets the runtime {runtimes} by the flag {flag}, so it is not written to {path}",
)
RUNTIME_GIVEN_BY_UNIT = Sentence(
    "docker.runtime-given-by-unit",
    "Docker gets the runtime {runtimes} by the flag {flag} ({place}), so it is not written to {path}",
)

# --- restarts

DOCKER_RESTART_NEVER = Sentence(
    "docker.restart-never",
    "{unit} has to be restarted before the whole change takes effect; gpufleet_restart: never leaves that to you",
)
DOCKER_RESTART_ENDS = Sentence(
    "docker.restart-ends-containers",
    "the restart of {unit} ends {containers}, as gpufleet_restart: force allows: Docker has no live-restore",
)
DOCKER_RESTART_LEFT = Sentence(
    "docker.restart-left",
    "a restart of {unit} would end {containers}, since live-restore is off, so it is left to you",
    next='Restart it at a convenient time, or set "live-restore": true in {path} and reload Docker '
    "first, or run with gpufleet_restart: force",
)
RESTART_LEFT_IN_SWARM = Sentence(
    "docker.restart-left-in-swarm",
    "a restart of {unit} would end {containers}, since live-restore is off, so it is left to you",
    next="Restart it at a convenient time, or run with gpufleet_restart: force",
)
DOCKER_OUTSIDE_SYSTEMD = Sentence(
    "docker.outside-systemd",
    "this Docker runs outside systemd",
    next="Restart it to make {path} take effect",
)
RESTORED_UNHEARD = Sentence(
    "docker.restored-unheard",
    "{path} was restored, but Docker runs without answering at {socket}, so it was not restarted",
    next="Restart {unit} at a convenient time",
)
SWITCHES_AT_START = Sentence(
    "docker.switches-at-start", "Docker switches CDI and drops runtimes only at its start"
)
FINDS_HOOKS_AT_START = Sentence(
    "docker.finds-hooks-at-start",
    "docker run --gpus needs a program of NVIDIA's, which Docker looks for only at its start",
)
READS_RUNNING = Sentence(
    "docker.reads-running", "Docker reads runtimes and the default runtime while it runs"
)
NEEDS_RESTART = Sentence("docker.needs-restart", "this needs a restart")
NEEDS_RELOAD = Sentence("docker.needs-reload", "this needs a reload")

# --- reasons of differences

DEFAULT_RUNTIME = Sentence(
    "docker.default-runtime", "containers get GPUs from this runtime without naming it"
)
DOCKER_DEFAULT_UNWANTED = Sentence(
    "docker.default-unwanted", "the runtime should not be the default"
)
CDI_ON = Sentence(
    "docker.cdi-on", "docker run --device nvidia.com/gpu=all, resolved by Docker itself"
)
RUNTIME = Sentence("docker.runtime", "docker run --runtime {runtime}")
DOCKER_CHECKED = Sentence("docker.checked", "Docker itself reads the new configuration")

# --- state: absent

NO_FILE_BEFORE = Sentence("docker.no-file-before", "the file did not exist before")
DOCKER_CHANGED_SINCE = Sentence(
    "docker.changed-since",
    "{path} was changed after this collection had written it: only the keys of this collection are taken back",
)
UNKNOWN_RUNTIME = Sentence(
    "docker.unknown-runtime",
    "{path} has a runtime that looks like one of this collection, but the journal of this host does not know it, so it is left alone",
)
NO_COPY = Sentence(
    "docker.no-copy",
    "{path}: the journal has no copy of the original, so only the runtime of this collection is removed",
)
NO_COPY_CDI_STAYS = Sentence(
    "docker.no-copy-cdi-stays",
    "{path}: the journal has no copy of the original, so only the runtime of this collection is "
    "removed; features.cdi stays, since it is not known who set it",
)

# --- what this release of Docker can do, as evidence of a decision

INFO_LISTS = Sentence("docker.info-lists", "/info of Docker {version} lists {directories}")
RELEASE = Sentence("docker.release", "Docker {version}")
RELEASE_AND_SWITCH = Sentence("docker.release-and-switch", "Docker {version}, features.cdi is {on}")
DOCKER_NOT_INSTALLED = Sentence("docker.not-installed", "Docker is not installed on this host")
