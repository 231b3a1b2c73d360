# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An EKS node whose configuration the real nodeadm writes at each boot: nothing is written there,
and what the page says to do works.

`make nodeadm`: it takes four minutes to compile. It is nodeadm of February 2024, the newest that
there is as a module of Go. That release knows neither /etc/eks/nodeadm.d nor the handler that later
ones add where NVIDIA's runtime is in the image. EC2's metadata service is imitated, as far as
nodeadm asks it.
"""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from tests.integration.conftest import Boot
from tests.lab import artefacts
from tests.tools.onlab import RUNTIME, Fleet, differing

pytestmark = pytest.mark.lab

HOST, CONFIG, NODE = "eks", "/etc/containerd/config.toml", "/etc/eks/node.yaml"
METADATA = """
import http.server, json
ANSWERS = {
    "/latest/dynamic/instance-identity/document": json.dumps(
        {"instanceId": "i-0lab", "region": "us-west-2", "instanceType": "g5.xlarge", "availabilityZone": "us-west-2a"}
    ),
    "/latest/meta-data/mac": "02:00:00:00:00:01", "/latest/meta-data/services/domain": "amazonaws.com",
    "/latest/meta-data/local-ipv4": "10.77.1.3", "/latest/meta-data/local-hostname": "eks",
}
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, text):
        self.send_response(404 if text is None else 200)
        self.send_header("x-aws-ec2-metadata-token-ttl-seconds", "21600")
        self.send_header("Content-Length", str(len(text or "")))
        self.end_headers()
        self.wfile.write((text or "").encode())
    def do_PUT(self):
        self.answer("token")
    def do_GET(self):
        self.answer(ANSWERS.get(self.path))
http.server.HTTPServer(("169.254.169.254", 80), Handler).serve_forever()
"""
UNITS = {
    "metadata": """[Unit]
Before=nodeadm-config.service
[Service]
ExecStartPre=/sbin/ip address replace 169.254.169.254/32 dev lo
ExecStart=/usr/bin/python3 /usr/local/lib/metadata.py
""",
    "nodeadm-config": f"""[Unit]
Wants=metadata.service
After=metadata.service
Before=containerd.service
[Service]
Type=oneshot
ExecStart=/usr/bin/nodeadm init --skip run --daemon containerd --config-source file://{NODE}
Restart=on-failure
[Install]
WantedBy=multi-user.target
""",
    "nodeadm-run": "[Service]\nType=oneshot\nExecStart=/usr/bin/nodeadm init --skip config\n",
}
PLAIN = """---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: lab
    apiServerEndpoint: https://example.org
    certificateAuthority: bGFi
    cidr: 10.100.0.0/16
"""
# What docs/managers.md says to do: the handler stands in the node's own settings.
WITH_HANDLER = (
    PLAIN
    + """  containerd:
    config: |
      version = 2
      [plugins."io.containerd.grpc.v1.cri".containerd]
      default_runtime_name = "nvidia"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
      BinaryName = "/usr/bin/nvidia-container-runtime"
"""
)


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    files = {f"/etc/systemd/system/{name}.service": text for name, text in UNITS.items()}
    more = {"/usr/local/lib/metadata.py": METADATA, NODE: PLAIN}
    up = boot(
        {HOST: {"kind": "containerd-2.3", "gpus": 1, "driver": "ok", "files": {**files, **more}}}
    )
    up.bring(HOST, artefacts.go_tool("nodeadm") / "nodeadm", "/usr/bin/nodeadm")
    up.shell(HOST, RUNTIME)
    up.shell(HOST, "systemctl daemon-reload; systemctl enable nodeadm-config.service")
    booted(up)
    return up


def booted(fleet: Fleet) -> None:
    """What a boot does: nodeadm writes, then containerd reads."""
    fleet.shell(HOST, "systemctl restart nodeadm-config.service containerd.service")


def read(fleet: Fleet) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(fleet.shell(HOST, "containerd config dump"))
    return found["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]


def instance(fleet: Fleet) -> dict[str, Any]:
    run = fleet.task("host_info", [HOST], {"packages": "ignore"})
    assert run.failed == {}, run.words
    (found,) = run.of("host_info")[HOST]["instances"]
    return dict(found)


def test_it_is_left_alone_and_says_whose_it_is(fleet: Fleet) -> None:
    assert instance(fleet)["manager"] == "eks"
    before, starts = fleet.tree(HOST), fleet.starts(HOST, "containerd.service")
    run = fleet.task("host", [HOST], {"packages": "ignore"})
    answer = run.of("host")[HOST]
    assert answer["changed"] is False, answer
    assert "EKS nodeadm writes this containerd's configuration at each boot" in str(answer)
    assert differing(before, fleet.tree(HOST)) == {}
    assert fleet.starts(HOST, "containerd.service") == starts


def test_what_somebody_writes_into_its_file_does_not_outlive_a_boot(fleet: Fleet) -> None:
    """Which is why this collection does not."""
    written = fleet.text(HOST, CONFIG)
    fleet.shell(HOST, f"printf '\\n[debug]\\nlevel = \"debug\"\\n' >>{CONFIG}")
    booted(fleet)
    assert fleet.text(HOST, CONFIG) == written


def test_the_handler_of_the_nodes_own_settings_is_there_after_the_next_boot(fleet: Fleet) -> None:
    fleet.shell(HOST, f"cat >{NODE} <<'EOF'\n{WITH_HANDLER}EOF")
    booted(fleet)
    found = read(fleet)
    assert found["default_runtime_name"] == "nvidia"
    assert (
        found["runtimes"]["nvidia"]["options"]["BinaryName"] == "/usr/bin/nvidia-container-runtime"
    )
    assert instance(fleet)["manager"] == "eks"
