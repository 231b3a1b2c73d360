# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engines themselves read what node images and installers write, before our change and after it: nothing of theirs is another."""

from __future__ import annotations

import contextlib
import copy
import dataclasses as dc
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.crio import releases as crio_releases
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError

from tests.fixtures import earlier_content as earlier
from tests.fixtures import public_configurations as public
from tests.fixtures.public_configurations import Public
from tests.integration import containerd_daemons as daemons
from tests.integration import containerd_trees as containerd
from tests.integration import test_crio_judge as crio

BUILT_IN = re.compile(r'imports = \["/(?:etc/containerd|var/lib/rancher/k3s/agent/etc/containerd)/')
TAKEN = [
    pytest.param(row, release, id=f"{row.file} {release}")
    for row in {(row.file, row.base): row for row in (*public.CONTAINERDS, *earlier.ROWS) if not row.refused}.values()
    for release in row.releases
]


@dc.dataclass(frozen=True)
class Dump:
    """What containerd makes of its files, and the keys that it says it does not know."""

    whole: dict[str, Any]
    unknown: frozenset[str]


def dumped(release: str, config: Path) -> Dump:
    done = subprocess.run([containerd.binary(release), "-c", config, "config", "dump"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    unknown = re.findall(r'Ignoring unknown key.*?key="?([^" ]+)', done.stderr)
    return Dump(tomllib.loads(done.stdout), frozenset(unknown))


@dc.dataclass(frozen=True)
class Wanted:
    """What a run asks for on a Kubernetes node: the module alone just the handler, `node` also what that release needs for CDI."""

    default: bool
    enable_cdi: bool


def wanted(way: str, release: str, default: str) -> Wanted:
    if way == "module":
        return Wanted(default == "nvidia", False)
    return Wanted(release == "1.6" or default == "nvidia", release == "1.7")


def judged(tmp_path: Path, release: str, text: str, base: str, systemd: bool, default: str, copied: tuple[str, ...], way: str) -> None:
    containerd.binary(release)
    tree, asked = containerd.Tree(tmp_path, release), wanted(way, release, default)
    tree.write({"config.toml": BUILT_IN.sub('imports = ["@DIR@/', text)})
    was, texts = dumped(release, tree.config), without_journal(tree)
    loads = daemons.judged(release, tree.config)
    assert loads.outcome == "serves CRI", loads.said
    node = containerd.Node(tree, default=asked.default, enable_cdi=asked.enable_cdi)
    assert node.apply(node.plan("present"))["validation"]
    now = dumped(release, tree.config)
    loads = daemons.judged(release, tree.config)
    assert loads.outcome == "serves CRI", loads.said
    before, after = (containerd.cri_of(d.whole)["containerd"] for d in (was, now))
    # The older table of 1.x becomes the handler `default` only when CRI loads, which a dump does not show.
    older = before["default_runtime"] if base == "default" else None
    default = "runc" if older else default
    ours, theirs = after["runtimes"]["nvidia"], older or before["runtimes"][base]
    says = {key.lower(): value for key, value in ours["options"].items()}  # in any spelling, as containerd decodes them
    assert bool(says.get("systemdcgroup")) is systemd
    assert {key: ours[key] for key in copied} == {key: theirs[key] for key in copied}
    kept = {k: v for k, v in (theirs["options"] or {}).items() if v and k not in ("BinaryName", "SystemdCgroup")}
    assert {k: ours["options"].get(k) for k in kept} == kept
    assert (before["default_runtime_name"], after["default_runtime_name"]) == (default, "nvidia" if asked.default else default)
    # What a handler of NVIDIA's had stays as well: nothing of it is less.
    mine = before["runtimes"].get("nvidia", {"options": {}})
    said = {k: v for k, v in mine["options"].items() if v and k != "BinaryName"}
    assert {k: ours["options"].get(k) for k in said} == said
    assert Path(says["binaryname"]).name == "nvidia-container-runtime"
    asked_for = ("default_runtime_name", "enable_cdi") if way == "node" else ()
    assert containerd.rest_of(copy.deepcopy(now.whole), keys=asked_for) == containerd.rest_of(copy.deepcopy(was.whole), keys=asked_for)
    assert now.unknown <= was.unknown
    assert node.plan("present").empty
    node.apply(node.plan("absent"))
    assert without_journal(tree) == texts


def without_journal(tree: containerd.Tree) -> dict[str, str]:
    return {path: text for path, text in tree.files().items() if "/journal/" not in path}


WAYS = ("module", "node")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("row", "release"), TAKEN)
def test_containerd_sees_our_handler_like_that_of_the_pods_and_no_other_difference(
    tmp_path: Path, row: Public, release: str, way: str
) -> None:
    refused = row.no_other_default and wanted(way, release, row.default).default
    with pytest.raises(PlanError, match=re.escape(row.no_other_default)) if refused else contextlib.nullcontext():
        judged(tmp_path, release, row.text, row.base, row.systemd, row.default, row.copied, way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("release", containerd.RELEASES)
def test_the_whole_of_config_default_with_systemd_as_kubeadms_documentation_has_it(tmp_path: Path, release: str, way: str) -> None:
    """Thousands of hosts have all defaults written out; on 1.6 and 1.7 with an empty value for most of a handler's properties."""
    done = subprocess.run([containerd.binary(release), "config", "default"], capture_output=True, text=True, check=True)
    assert "SystemdCgroup = false" in done.stdout
    text = done.stdout.replace("SystemdCgroup = false", "SystemdCgroup = true")
    judged(tmp_path, release, re.sub(r"(?m)^imports = .*$", "imports = []", text), "runc", systemd=True, default="runc", copied=(), way=way)


@pytest.mark.parametrize("row", public.CRIOS, ids=lambda row: row.file)
def test_cri_o_sees_a_handler_like_its_default_and_no_other_difference(tmp_path: Path, row: Public) -> None:
    (tmp_path / "etc").mkdir()
    tree = crio.Tree(tmp_path / "etc")
    name = "crio.conf" if row.home.config == public.CRIO else f"crio.conf.d/{Path(row.home.config).name}"
    tree.write({name: row.text, **({"crio.conf": ""} if name != "crio.conf" else {})})
    was = tree.printed()
    answer = tree.apply(tree.plan(tree.policy()))
    assert (answer["error"], answer["changed"]) == (None, True)
    now = tree.printed()
    ours, base = now["runtimes"].pop("nvidia"), was["runtimes"][row.base]
    named = {k for k in base if k not in crio_releases.NOT_COPIED}
    assert {k: ours.get(k) for k in named} == {k: base[k] for k in named}
    assert set(row.copied) <= named
    assert now["runtimes"] == was["runtimes"]
    assert {printed.pop("default_runtime", "crun") for printed in (now, was)} == {row.default}  # a comment where it is CRI-O's own
    assert now == was
    assert tree.plan(tree.policy()).empty


@pytest.mark.parametrize("env", ['["PATH=/usr/local/bin:/usr/bin"]', '["LANG=C", "TOKEN=a secret of theirs"]', "[]"])
def test_what_cri_o_fills_in_from_its_global_settings_is_no_other_difference(tmp_path: Path, env: str) -> None:
    """Kubespray's files have conmon and conmon_env for all handlers; CRI-O gives both to ours, known to the controller or not."""
    (tmp_path / "etc").mkdir()
    tree = crio.Tree(tmp_path / "etc")
    row = next(row for row in public.CRIOS if row.file == "kubespray-crio")
    tree.write({"crio.conf": re.sub(r"(?m)^conmon_env = .*$", f"conmon_env = {env}", row.text)})
    plan = tree.plan(tree.policy())
    assert "secret of theirs" not in str(plan)
    answer = tree.apply(plan)
    assert (answer["error"], answer["changed"]) == (None, True)
    assert tree.printed()["runtimes"]["nvidia"]["monitor_path"] == "/usr/local/bin/conmon"
