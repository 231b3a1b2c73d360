# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have engines judge configurations that others have published."""

from __future__ import annotations

import copy
import dataclasses as dc
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from tests.integration import containerd_daemons as daemons
from tests.integration import containerd_trees as containerd

BUILT_IN = re.compile(r'imports = \["/(?:etc/containerd|var/lib/rancher/k3s/agent/etc/containerd)/')


@dc.dataclass(frozen=True)
class Dump:
    """What containerd makes of its files, and the keys that it says it does not know."""

    whole: dict[str, Any]
    unknown: frozenset[str]


def dumped(release: str, config: Path) -> Dump:
    done = subprocess.run(
        [containerd.binary(release), "-c", config, "config", "dump"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    unknown = re.findall(r'Ignoring unknown key.*?key="?([^" ]+)', done.stderr)
    return Dump(tomllib.loads(done.stdout), frozenset(unknown))


@dc.dataclass(frozen=True)
class Wanted:
    """What a run asks for on a Kubernetes node: the module alone just the handler, `host` also what
    that release needs for CDI.
    """

    default: bool
    enable_cdi: bool


def wanted(way: str, release: str, default: str) -> Wanted:
    if way == "module":
        return Wanted(default == "nvidia", False)
    return Wanted(release == "1.6" or default == "nvidia", release == "1.7")


def judged(
    tmp_path: Path,
    release: str,
    text: str,
    base: str,
    systemd: bool,
    default: str,
    copied: tuple[str, ...],
    way: str,
) -> None:
    containerd.binary(release)
    tree, asked = containerd.Tree(tmp_path, release), wanted(way, release, default)
    tree.write({"config.toml": BUILT_IN.sub('imports = ["@DIR@/', text)})
    was, texts = dumped(release, tree.config), tree.files_without_journal()
    loads = daemons.judged(release, tree.config)
    assert loads.outcome == "serves CRI", loads.said
    tree_host = containerd.TreeHost(tree, default=asked.default, enable_cdi=asked.enable_cdi)
    assert tree_host.apply(tree_host.plan("present"))["validation"]
    now = dumped(release, tree.config)
    loads = daemons.judged(release, tree.config)
    assert loads.outcome == "serves CRI", loads.said
    before, after = (containerd.cri_of(d.whole)["containerd"] for d in (was, now))
    # The older table of 1.x becomes the handler `default` only when CRI loads, which a dump does
    # not show.
    older = before["default_runtime"] if base == "default" else None
    default = "runc" if older else default
    ours, theirs = after["runtimes"]["nvidia"], older or before["runtimes"][base]
    # in any spelling, as containerd decodes them
    says = {key.lower(): value for key, value in ours["options"].items()}
    assert bool(says.get("systemdcgroup")) is systemd
    assert {key: ours[key] for key in copied} == {key: theirs[key] for key in copied}
    kept = {
        k: v
        for k, v in (theirs["options"] or {}).items()
        if v and k not in ("BinaryName", "SystemdCgroup")
    }
    assert {k: ours["options"].get(k) for k in kept} == kept
    assert (before["default_runtime_name"], after["default_runtime_name"]) == (
        default,
        "nvidia" if asked.default else default,
    )
    # What a handler of NVIDIA's had stays as well: nothing of it is less.
    mine = before["runtimes"].get("nvidia", {"options": {}})
    said = {k: v for k, v in mine["options"].items() if v and k != "BinaryName"}
    assert {k: ours["options"].get(k) for k in said} == said
    assert Path(says["binaryname"]).name == "nvidia-container-runtime"
    asked_for = ("default_runtime_name", "enable_cdi") if way == "host" else ()
    assert containerd.rest_of(copy.deepcopy(now.whole), keys=asked_for) == containerd.rest_of(
        copy.deepcopy(was.whole), keys=asked_for
    )
    assert now.unknown <= was.unknown
    assert tree_host.plan("present").empty
    tree_host.apply(tree_host.plan("absent"))
    assert tree.files_without_journal() == texts
