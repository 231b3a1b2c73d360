# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real containerd 1.7 with the file that Kubespray wrote: options in a spelling of their own,
which its status repeats.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fixtures import earlier_content as earlier
from tests.integration.containers import CRICTL
from tests.tools.onlab import NVIDIA_RUNTIME, RUNTIME, differing

pytestmark = pytest.mark.lab

HOST, CONFIG = "lower17", "/etc/containerd/config.toml"
SETUP = f"""
{RUNTIME}
ctr oci spec >/etc/containerd/cri-base.json
systemctl restart containerd
timeout 60 sh -c 'until {CRICTL} info >/dev/null 2>&1; do sleep 0.05; done'
"""


def test_it_is_configured_in_its_spelling_and_given_back(boot: Any) -> None:
    text = next(row for row in earlier.ROWS if row.file == "kubespray-lower").text
    fleet = boot({HOST: {"kind": "containerd-1.7", "gpus": 1, "files": {CONFIG: text}}})
    fleet.shell(HOST, SETUP)
    before = {path: entry for path, entry in fleet.tree(HOST).items() if "/containerd/" in path}

    run = fleet.task("containerd_runtime", [HOST])
    assert run.failed == {}, run.words
    assert run.of("containerd_runtime")[HOST]["restarted"] == ["containerd.service"]
    handler = json.loads(fleet.shell(HOST, f"{CRICTL} info"))["config"]["containerd"]["runtimes"][
        "nvidia"
    ]
    assert handler["options"] == {"binaryName": NVIDIA_RUNTIME, "systemdCgroup": True}
    assert handler["ContainerAnnotations"] == ["nvidia.cdi.k8s.io/*"]
    assert fleet.task("containerd_runtime", [HOST]).changed == {}

    back = fleet.task("containerd_runtime", [HOST], {"state": "absent"})
    assert back.failed == {}, back.words
    assert (
        differing(
            before,
            {path: entry for path, entry in fleet.tree(HOST).items() if "/containerd/" in path},
        )
        == {}
    )
