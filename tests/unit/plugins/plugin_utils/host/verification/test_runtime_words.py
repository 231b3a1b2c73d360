# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What OCI runtimes say when a container does not start: what of it is shown, and the next step.

Texts that name an issue are from there. Those of the lab are of a host whose kernel refused a seal.
"""

from __future__ import annotations

import re

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import causes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    evidence,
    runtime_words,
    told_words,
)

RUNC = (
    "failed to create containerd task: failed to create shim task: OCI runtime "
    "create failed: runc create failed: unable to start container process: "
)
WRAPPED = "OCI runtime create failed; runc create failed; unable to start container process"
ID = "bd89ad416d3d7e1053e3f9a77426e4accfce37e899c3c7d316ea128aa9c9142"

# where the text is from, the text, what of it is shown, the code of the next step, whether the
# case is started again
SAID = [
    (
        "lab, containerd 2.1, runc 1.1.15",
        f"{RUNC}waiting for init preliminary setup: read init-p: connection reset by peer",
        f"waiting for init preliminary setup; connection reset by peer; {WRAPPED}",
        "runtime-ended-early",
        True,
    ),
    (
        "lab, containerd 1.7, runc 1.1.15",
        f"{RUNC}can't copy bootstrap data to pipe: write init-p: broken pipe: unknown",
        f"can't copy bootstrap data to pipe; broken pipe; {WRAPPED}",
        "runtime-ended-early",
        True,
    ),
    (
        "lab, containerd 1.7, runc 1.1.15, ExecSync",
        (
            f'failed to exec in container: failed to start exec "{ID}": OCI runtime exec '
            "failed: exec failed: unable to start container process: waiting for init "
            "preliminary setup: read init-p: connection reset by peer: unknown"
        ),
        (
            "waiting for init preliminary setup; connection reset by peer; unable to start "
            "container process"
        ),
        "runtime-ended-early",
        True,
    ),
    (
        "docker/for-linux#591, runc 1.0",
        (
            "OCI runtime create failed: container_linux.go:344: starting container process "
            'caused "process_linux.go:293: copying bootstrap data to pipe caused \\"write '
            'init-p: broken pipe\\"": unknown.'
        ),
        "copying bootstrap data to pipe; broken pipe; OCI runtime create failed",
        "runtime-ended-early",
        True,
    ),
    (
        "runc#4905",
        f"{RUNC}can't get final child's PID from pipe: EOF: unknown",
        f"can't get final child's PID from pipe; EOF; {WRAPPED}",
        "runtime-ended-early",
        True,
    ),
    (
        "runc#3666, runc 1.0",
        (
            "OCI runtime create failed: container_linux.go:367: starting container process "
            "caused: process_linux.go:352: getting the final child's pid from pipe caused: "
            "EOF: unknown"
        ),
        "getting the final child's pid from pipe; EOF; OCI runtime create failed",
        "runtime-ended-early",
        True,
    ),
    (
        "runc 1.2 and later, container_linux.go",
        (
            "OCI runtime create failed: runc create failed: unable to create new parent "
            "process: unable to create safe /proc/self/exe clone for runc init: could not "
            "seal fd: fcntl(F_ADD_SEALS): device or resource busy: unknown"
        ),
        (
            "unable to create safe /proc/self/exe clone; device or resource busy; OCI "
            "runtime create failed; runc create failed"
        ),
        "runtime-ended-early",
        True,
    ),
    (
        "crun 1.29, crun.c, as CRI-O quotes it",
        "container create failed: Failed to re-execute libcrun via memory file descriptor\n",
        "Failed to re-execute libcrun via memory file descriptor; container create failed",
        "runtime-ended-early",
        True,
    ),
    (
        "kubernetes#109182",
        (
            f"{RUNC}unable to apply cgroup configuration: failed to write 21364: open "
            f"/sys/fs/cgroup/kubepods/pod12/{ID}/cgroup.procs: no such file or directory: "
            "unknown"
        ),
        f"no such file or directory; unable to apply cgroup configuration; {WRAPPED}",
        "cgroup-not-made",
        True,
    ),
    (
        "runc#3312, runc 1.0",
        (
            "OCI runtime create failed: container_linux.go:380: starting container process "
            "caused: process_linux.go:385: applying cgroup configuration for process caused: "
            "error creating systemd unit `docker-init-proxy.scope`: got `failed`: unknown"
        ),
        "applying cgroup configuration; error creating systemd unit; OCI runtime create failed",
        "cgroup-not-made",
        True,
    ),
    (
        "runc 1.1, specconv: the engine's cgroup driver is not that of its pods",
        (
            "OCI runtime create failed: runc create failed: expected cgroupsPath to be of "
            'format "slice:prefix:name" for systemd cgroups, got "/kubepods/secret" instead: '
            "unknown"
        ),
        (
            'expected cgroupsPath to be of format "slice:prefix:name"; OCI runtime create '
            "failed; runc create failed"
        ),
        "cgroup-not-made",
        False,
    ),
    (
        "runc#2736, runc 1.1",
        f"{RUNC}container init was OOM-killed (memory limit too low?): unknown",
        f"container init was OOM-killed; {WRAPPED}",
        "out-of-memory",
        False,
    ),
    (
        "seele#13",
        (
            f"{RUNC}error during container init: unable to join session keyring: unable to "
            "create session key: disk quota exceeded"
        ),
        f"create session key; disk quota exceeded; {WRAPPED}",
        "key-quota",
        False,
    ),
    (
        "the same call, another error of the kernel",
        (
            f"{RUNC}error during container init: unable to join session keyring: unable to "
            "create session key: operation not permitted"
        ),
        f"operation not permitted; create session key; {WRAPPED}",
        "read-journal",
        False,
    ),
    (
        "amazon-eks-ami#1179",
        (
            f"{RUNC}unable to init seccomp: error loading seccomp filter into kernel: error "
            "loading seccomp filter: errno 524: unknown"
        ),
        f"error loading seccomp filter; errno 524; {WRAPPED}",
        "bpf-room",
        False,
    ),
    (
        "runc 1.1, rootfs_linux.go",
        (
            f'{RUNC}error during container init: error mounting "/usr/lib/libcuda.so.570.1" '
            'to rootfs at "/usr/lib/libcuda.so.570.1": stat /usr/lib/libcuda.so.570.1: no '
            "such file or directory: unknown"
        ),
        # a file of the driver is told with its path
        (
            'error mounting "/usr/lib/libcuda.so.570.1"; stat /usr/lib/libcuda.so.570.1; '
            "libcuda.so.570.1: no such file or directory; error mounting; OCI runtime create failed"
        ),
        "spec-file-gone",
        False,
    ),
    (
        "cri-o#1258, runc 1.0",
        (
            "container create failed: container_linux.go:274: starting container process "
            'caused "process_linux.go:366: container init caused \\"rootfs_linux.go:57: '
            'mounting \\\\\\"/var/lib/kubelet/pods/2/etc-hosts\\\\\\" to rootfs '
            '\\\\\\"/var/lib/x\\\\\\" caused \\\\\\"no such file or directory\\\\\\"\\""'
        ),
        "no such file or directory; mounting; container create failed",
        "not-mounted",
        False,
    ),
    (
        "crun#275",
        (
            "container create failed: mount `/sys/fs/cgroup/devices//docker/e8` to "
            "'/home/user/.local/share': No such file or directory"
        ),
        "No such file or directory; mount; container create failed",
        "not-mounted",
        False,
    ),
    (
        "nvidia-container-toolkit#885",
        (
            "Error: setting up CDI devices: failed to inject devices: failed to stat CDI "
            'host device "/dev/dri/renderD129": no such file or directory'
        ),
        "no such file or directory; failed to stat CDI host device",
        "not-mounted",
        False,
    ),
    (
        "crun#153: a file that is gone is not an engine without an answer",
        "container create failed: cannot opendir '/run/crun': No such file or directory",
        "No such file or directory; container create failed",
        "read-journal",
        False,
    ),
    (
        "runc 1.1, a hook",
        (
            f"{RUNC}error during container init: error running hook #0: error running hook: "
            "exit status 1, stdout: , stderr: token=x: unknown"
        ),
        f"error running hook; {WRAPPED}; error during container init",
        "read-journal",
        False,
    ),
]


@pytest.mark.parametrize(
    ("said", "shown", "code", "again"), [row[1:] for row in SAID], ids=[row[0] for row in SAID]
)
def test_a_runtimes_fixed_words_are_shown_with_the_next_step(
    said: str, shown: str, code: str, again: bool
) -> None:
    told = causes.extract_known_phrases(said, told_words.PHRASES)
    assert told == shown
    assert get_code(evidence.advise_on_case("crio", "native-cdi", f"StartContainer: {told}")) == (
        f"verify.{code}"
    )
    assert any(re.search(words, told) for words in told_words.AGAIN) is again


@pytest.mark.parametrize("words", runtime_words.PHRASES)
def test_no_phrase_takes_what_stands_in_its_place(words: str) -> None:
    """Without a repetition and a class of characters, a pattern matches only words that are in it.
    Words that only have to follow are not taken.
    """
    taken = re.sub(r"\(\?=.*\)$", "", words)
    assert not re.search(r"(?<!\\)[.*+\[]|\\[wWsSdD]", taken)
