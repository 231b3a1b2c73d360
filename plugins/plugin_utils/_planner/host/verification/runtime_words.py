# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List what OCI runtimes say when they cannot start a container, and what to do about it.

Only these fixed words leave a host. The texts that runc and crun put between them (paths, names,
values) stay there. Sources: github.com/opencontainers/runc 1.0.3 to 1.4.0,
`libcontainer/process_linux.go`, `container_linux.go`, `standard_init_linux.go`, `rootfs_linux.go`,
`configs/config.go`, `cgroups/systemd`, `cgroups/fs2` and `cgroups/ebpf`; github.com/containers/crun
1.29, `src/crun.c` and `src/libcrun`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    messages,
)


@dataclass(frozen=True)
class Clause:
    """A clause of a runtime.

    words: a regular expression that matches fixed words alone. follows: what comes after them, and
    is not shown. next_step: what to do about it, None if only the host's journal tells more.
    error: the kernel's words without which that step is not the right one, '' for none.
    early: whether the runtime's process has ended before it read what the container asks for, so
    that the failure tells nothing about devices, mounts or hooks.
    """

    words: str
    next_step: Sentence | None = None
    follows: str = ""
    error: str = ""
    early: bool = False


_EARLY = messages.RUNTIME_ENDED_EARLY
_CGROUP = messages.CGROUP_NOT_MADE
_GONE = r"(?i:no such file or directory)"
CLAUSES = (
    # runc init makes a sealed copy of its program in memory before it reads anything
    # (nsenter/cloned_binary.c). The kernel refuses the seal with EBUSY if something else holds a
    # page of the copy for 150 ms, as reclaim and compaction may on a busy host (Linux, mm/memfd.c,
    # memfd_wait_for_pins; flatpak#3409).
    Clause(r"waiting for init preliminary setup", _EARLY, early=True),
    # until 1.0 without the first word; runc exec has "error" as the first
    Clause(r"(?:can't copy|error copying|copying) bootstrap data to pipe", _EARLY, early=True),
    # runc#3666, runc#4905
    Clause(r"(?:getting the |can't get )final child's (?:PID|pid) from pipe", _EARLY, early=True),
    Clause(r"waiting for our first child to exit", _EARLY, early=True),
    Clause(r"(?:error )?executing setns process", _EARLY, early=True),
    # from 1.2 on the copy is made before the first process
    Clause(r"unable to create safe /proc/self/exe clone", _EARLY, early=True),
    Clause(r"Failed to re-execute libcrun via memory file descriptor", _EARLY, early=True),
    Clause(r"unable to start init|starting init process command", _EARLY, early=True),
    # runc#2736
    Clause(r"container init was OOM-killed|possibly OOM-killed", messages.OUT_OF_MEMORY),
    # kubernetes#109182, runc#3312: now and then, and before runc init has been sent anything
    Clause(
        r"unable to apply cgroup configuration|applying cgroup configuration", _CGROUP, early=True
    ),
    Clause(r"expected cgroupsPath to be of format \"slice:prefix:name\"", _CGROUP),
    Clause(r"error creating systemd unit|Timeout waiting for systemd|sd-bus call", _CGROUP),
    Clause(r"in an invalid state|in (?:domain )?threaded mode", _CGROUP),
    Clause(r"(?:error )?setting cgroup config", _CGROUP),
    Clause(r"bpf_prog_query\(BPF_CGROUP_DEVICE\) failed|BPF_PROG_(?:ATTACH|DETACH)"),
    Clause(r"eBPF not supported"),
    # moby#22865, podman#13363
    Clause(r"create session key", messages.KEY_QUOTA, error="disk quota exceeded"),
    # awslabs/amazon-eks-ami#1179, moby#45498
    Clause(r"error loading seccomp filter", messages.BPF_ROOM, error="errno 524"),
    # cri-o#1258; crun#275; nvidia-container-toolkit#885, which Podman's CDI library says
    Clause(r"(?:error )?mounting", messages.NOT_MOUNTED, follows=r" \\{0,16}[\"/]", error=_GONE),
    Clause(r"\b(?:mount|cannot stat)", messages.NOT_MOUNTED, follows=r" `", error=_GONE),
    Clause(r"failed to stat CDI host device", messages.NOT_MOUNTED),
    Clause(r"error preparing rootfs|bind mount source stat"),
    Clause(r"error creating device nodes|error setting up (?:ptmx|/dev symlinks)"),
    Clause(r"error jailing process inside rootfs|error reopening /dev/null inside container"),
    Clause(r"error setting rootfs as readonly|can't mask path"),
    Clause(r"error (?:running|executing) (?:prestart |poststart )?hook"),
    Clause(r"error running (?:createRuntime|createContainer|startContainer) hook"),
    Clause(r"unable to apply apparmor profile|can't set process label"),
    Clause(r"unable to (?:setup user|apply (?:caps|bounding set))|chdir to cwd"),
    Clause(r"error setting (?:oom score|rlimits?)"),
    Clause(
        r"error sending config to init process|error (?:getting|updating) (?:current|spec) state"
    ),
    Clause(r"unable to store init state|error creating network interfaces"),
    Clause(r"synchronise after executing prestart and CreateRuntime hooks"),
)

# The errors of the kernel by their fixed texts (strerror(3), and Go's golang.org/x/sys), and one
# that has none there.
ERRORS = (
    r"(?i)device or resource busy|cannot allocate memory|resource temporarily unavailable",
    r"(?i)no such (?:device(?! or)|process)|invalid (?:argument|cross-device link)|text file busy",
    r"(?i)broken pipe|connection reset by peer|input/output error|disk quota exceeded",
    r"(?i)too many (?:open files|levels of symbolic links)|exec format error|not implemented",
    r"(?i)operation not supported|read-only file system|not a directory|is a directory",
    r"\bEOF\b|errno 524",
)

# Words that runtimes and shims put around the cause. They come last, since few phrases are shown.
WRAPPERS = (
    r"(?:OCI runtime|runc|crun|container) create failed|unable to start container process|error during container init",
)

PHRASES = (
    *(f"(?:{clause.words})(?={clause.follows})" for clause in CLAUSES),
    *ERRORS,
    *WRAPPERS,
)
EARLY = tuple(clause.words for clause in CLAUSES if clause.early)


def list_next_steps() -> list[tuple[tuple[str, ...], Sentence]]:
    """Return (regular expressions that the phrases of a failure match, each anywhere; what to do),
    the surest first.

    Phrases are in the order of their tables, so the kernel's may come before the runtime's.
    """
    return [
        ((*filter(None, [clause.error]), clause.words), clause.next_step)
        for clause in CLAUSES
        if clause.next_step is not None
    ]
