# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A comparison of nvidia-ctk's CDI spec of a tree with ours, as facts, in three releases.

Every difference stands under the topic of the list of intended ones that explains it.
"""

from __future__ import annotations

import dataclasses as dc
import importlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    driver_listing,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    layouts,
    profiles,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate.hooks import (
    INSTALLED,
    HookProgram,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import gpus

from tests.gpu import specs
from tests.lab import artefacts
from tests.lab.fakegpu import packaged

# The host side is not typed.
OBSERVER: Any = importlib.import_module(
    "ansible_collections.gpufleet.nvidia.plugins.module_utils._host.observe"
)


@dc.dataclass(frozen=True)
class Release:
    """A release of nvidia-ctk.

    tool: what it is built from (artefacts.GO_TOOLS). hooks: the program with the hooks that it
    knows. flags: what it needs to be told in the lab.
    """

    tool: str
    hooks: HookProgram
    flags: tuple[str, ...] = ()


HOOKS = ("--nvidia-cdi-hook-path", INSTALLED)
# The lab has no library of that name that answers; it tells the same nodes and version as NVML.
# 1.17 asks it for nothing by itself, and has no such flag.
SANDBOX = ("--feature-flag", "disable-nvsandboxutils")
RELEASES: Mapping[str, Release] = {
    "1.20.2": Release("nvidia-toolkit", HookProgram(INSTALLED, (1, 20, 2)), (*HOOKS, *SANDBOX)),
    "1.19.1": Release(
        "nvidia-toolkit-1.19", HookProgram(INSTALLED, (1, 19, 1)), (*HOOKS, *SANDBOX)
    ),
    "1.17.8": Release("nvidia-toolkit-1.17", HookProgram(INSTALLED, (1, 17, 8)), HOOKS),
}
NEWEST = RELEASES["1.20.2"]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FIRMWARE = "sys/module/firmware_class/parameters/path"
SHOWN = f"""\
mount --bind "$0/proc/driver" /proc/driver || exit 1
mount --bind "$0/sys/bus/pci/devices" /sys/bus/pci/devices || exit 1
[ ! -e "$0/{FIRMWARE}" ] || mount --bind "$0/{FIRMWARE}" /{FIRMWARE} || exit 1
exec "$@"
"""


def theirs(root: Path, mode: str = "nvml", *more: str, release: Release = NEWEST) -> Spec:
    """Return the spec that nvidia-ctk makes of a tree. ValueError contains its last line of output
    if it fails.
    """
    return reader.parse_spec(run(root, mode, *more, release=release))


def run(root: Path, mode: str, *more: str, release: Release = NEWEST) -> str:
    command = [
        str(artefacts.go_tool(release.tool) / "nvidia-ctk"),
        "cdi",
        "generate",
        "--mode",
        mode,
        "--driver-root",
        str(root),
    ]
    env = {"PATH": PATH, "FAKE_NVML": str(root / "etc/fake-nvml.conf")}
    # It reads the table of MIG's minors in /proc, and in /sys which DRM nodes a GPU has and where
    # the kernel looks for firmware, wherever its roots are.
    shown = ["unshare", "--mount", "sh", "-c", SHOWN, str(root / packaged.TOP)]
    done = subprocess.run(
        [*shown, *command, *release.flags, *more],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def policy(root: Path, **more: object) -> Policy:
    faked = root / packaged.TOP
    return Policy(
        cdi_driver_root=str(root),
        cdi_dev_root=str(root),
        proc_root=f"{faked}/proc",
        sys_root=f"{faked}/sys",
        **more,  # type: ignore[arg-type]
    )


def request(wanted: Policy, questions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a request as of a task with `environment: {FAKE_NVML: ...}`.

    The host's program gets the variables that the task names, and no others.
    """
    return {"schema": 1, "root": wanted.root, "questions": questions, "environment": ["FAKE_NVML"]}


def look(wanted: Policy) -> Observation:
    """Return what the observer finds in a tree, on this machine."""
    questions = [*gpus.list_questions(wanted), *driver_listing.list_driver_file_questions(wanted)]
    return Observation({}, {}).add_answers(OBSERVER.run(request(wanted, questions)))


def ours(
    root: Path,
    profile: profiles.Profile = "full",
    layout: str = layouts.WORKLOADS,
    release: Release = NEWEST,
    **more: object,
) -> Spec:
    """Return our spec of a tree, for a host with this release of the toolkit."""
    wanted = policy(root, **more)
    return planned(wanted, observed(root, wanted), profile, layout, release)


def observed(root: Path, wanted: Policy) -> Observation:
    """Return all that a spec takes, NVML's answers included."""
    # reaches the probe because each request names it
    os.environ["FAKE_NVML"] = str(root / "etc/fake-nvml.conf")
    seen = look(wanted)
    for _round in range(6):
        try:
            planned(wanted, seen)
        except NeedMore as need:
            seen = seen.add_answers(OBSERVER.run(request(wanted, need.questions)))
        else:
            return seen
    raise AssertionError("it still asks")


def planned(
    wanted: Policy,
    seen: Observation,
    profile: profiles.Profile = "full",
    layout: str = layouts.WORKLOADS,
    release: Release = NEWEST,
) -> Spec:
    """Plan a spec from one observation, which is the pure part."""
    probe = transport.probe_source("nvml")
    return specs.plan(wanted, seen, probe, profile, layout, release.hooks).spec


def chrooted(root: Path, mode: str = "nvml") -> Spec:
    """Run nvidia-ctk within a tree whose links are absolute, and return its spec.

    If the tree is its driver root, nvidia-ctk follows such links on the host.
    """
    command = ["chroot", str(root), "/tmp/nvidia-ctk", "cdi", "generate", "--mode", mode]  # noqa: S108
    done = subprocess.run(
        [*command, *NEWEST.flags],
        env={"PATH": PATH, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1])
    return reader.parse_spec(done.stdout)
