# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of Docker's configuration from older Ansible content work, and stay. containerd's rows are
judged with those of node images.
"""

from __future__ import annotations

import json
import pathlib

import pytest

from tests.fixtures import earlier_content as earlier
from tests.unit import bare_trees

CONFIG = "/etc/docker/daemon.json"


@pytest.mark.parametrize("way", ["single", "node"])
@pytest.mark.parametrize("release", ["20.10.24", "24.0.7", "29.2.0"])
@pytest.mark.parametrize(
    "row", earlier.DOCKERS, ids=[row.title.split(";")[0] for row in earlier.DOCKERS]
)
def test_a_runtime_that_is_there_keeps_its_arguments_and_the_default(
    tmp_path: pathlib.Path, row: earlier.Docker, release: str, way: str
) -> None:
    home = bare_trees.Tree(tmp_path)
    home.write(CONFIG, json.dumps(row.data, indent=4))
    home.write("/usr/bin/nvidia-container-runtime", "", 0o755)
    options = {"engine_version": release}
    result = (
        home.single("docker", **options)
        if way == "single"
        else home.run_host(engines=("docker",), **options)
    )
    assert not result["failed"], result["msg"]
    after = json.loads(home.read(CONFIG))
    assert {key: after[key] for key in row.data} == row.data
    more = set(after) - set(row.data)
    assert more <= {"features", "cdi-spec-dirs", "default-runtime"}
    assert (after.get("default-runtime", "runc") == "nvidia") >= (
        row.data.get("default-runtime") == "nvidia"
    )
