# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engines themselves read what node images and installers write, before our change and after
it: nothing of theirs is another.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    releases as crio_releases,
)

from tests.fixtures import earlier_content as earlier
from tests.fixtures import public_configurations as public
from tests.fixtures.public_configurations import Public
from tests.integration import containerd_trees as containerd
from tests.integration import crio_trees
from tests.integration.public_judges import judged, wanted
from tests.night import leave_unless

OLDER = pytest.mark.nightly(
    "by day the newest release that a file is for reads it; unit tests plan for all, and `judge: containerd` has every release"
)
TAKEN = [
    pytest.param(
        row,
        release,
        id=f"{row.file} {release}",
        marks=[OLDER] if release != row.releases[-1] else [],
    )
    for row in {
        (row.file, row.base): row for row in (*public.CONTAINERDS, *earlier.ROWS) if not row.refused
    }.values()
    for release in row.releases
]


WAYS = ("module", "host")
BY_NIGHT = pytest.mark.nightly(
    "both ways make the same edit; by day it is that of the module host, and `judge: containerd` wants other settings"
)


@pytest.mark.parametrize("way", leave_unless(BY_NIGHT, WAYS, "host".__eq__))
@pytest.mark.parametrize(("row", "release"), TAKEN)
def test_containerd_sees_our_handler_like_that_of_the_pods_and_no_other_difference(
    tmp_path: Path, row: Public, release: str, way: str
) -> None:
    refused = row.no_other_default and wanted(way, release, row.default).default
    with (
        pytest.raises(PlanError, match=re.escape(row.no_other_default))
        if refused
        else contextlib.nullcontext()
    ):
        judged(tmp_path, release, row.text, row.base, row.systemd, row.default, row.copied, way)


@pytest.mark.parametrize("way", leave_unless(BY_NIGHT, WAYS, "host".__eq__))
@pytest.mark.parametrize("release", containerd.RELEASES)
def test_the_whole_of_config_default_with_systemd_as_kubeadms_documentation_has_it(
    tmp_path: Path, release: str, way: str
) -> None:
    """Thousands of hosts have all defaults written out; on 1.6 and 1.7 with an empty value for most
    of a handler's properties.
    """
    done = subprocess.run(
        [containerd.binary(release), "config", "default"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "SystemdCgroup = false" in done.stdout
    text = done.stdout.replace("SystemdCgroup = false", "SystemdCgroup = true")
    judged(
        tmp_path,
        release,
        re.sub(r"(?m)^imports = .*$", "imports = []", text),
        "runc",
        systemd=True,
        default="runc",
        copied=(),
        way=way,
    )


@pytest.mark.parametrize("row", public.CRIOS, ids=lambda row: row.file)
def test_cri_o_sees_a_handler_like_its_default_and_no_other_difference(
    tmp_path: Path, row: Public
) -> None:
    (tmp_path / "etc").mkdir()
    tree = crio_trees.Tree(tmp_path / "etc")
    name = (
        "crio.conf"
        if row.home.config == public.CRIO
        else f"crio.conf.d/{Path(row.home.config).name}"
    )
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
    # a comment where it is CRI-O's own
    assert {printed.pop("default_runtime", "crun") for printed in (now, was)} == {row.default}
    assert now == was
    assert tree.plan(tree.policy()).empty


@pytest.mark.parametrize(
    "env", ['["PATH=/usr/local/bin:/usr/bin"]', '["LANG=C", "TOKEN=a secret of theirs"]', "[]"]
)
def test_what_cri_o_fills_in_from_its_global_settings_is_no_other_difference(
    tmp_path: Path, env: str
) -> None:
    """Kubespray's files have conmon and conmon_env for all handlers; CRI-O gives both to ours,
    known to the controller or not.
    """
    (tmp_path / "etc").mkdir()
    tree = crio_trees.Tree(tmp_path / "etc")
    row = next(row for row in public.CRIOS if row.file == "kubespray-crio")
    tree.write({"crio.conf": re.sub(r"(?m)^conmon_env = .*$", f"conmon_env = {env}", row.text)})
    plan = tree.plan(tree.policy())
    assert "secret of theirs" not in str(plan)
    answer = tree.apply(plan)
    assert (answer["error"], answer["changed"]) == (None, True)
    assert tree.printed()["runtimes"]["nvidia"]["monitor_path"] == "/usr/local/bin/conmon"
