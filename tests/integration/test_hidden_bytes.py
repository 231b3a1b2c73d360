# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets all over the engines' configurations: none is in anything that a run shows, and each is
in its place afterwards.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib

import pytest

from tests.integration.conftest import Boot
from tests.tools.onlab import RUNTIME, Fleet, Run

pytestmark = pytest.mark.lab

V2 = 'plugins."io.containerd.grpc.v1.cri"'
# SECRETn is what must stay on the host; the mirrors and proxies are such as engines serve with.
REGISTRY = f"""
[{V2}.registry.mirrors."docker.io"]
  endpoint = ["https://robot:SECRET1@mirror.example", "https://SECRET2@mirror.example", "https://h/?token=SECRET3"]
[{V2}.registry.configs]
  "r1".auth.password = "SECRET4"   # and SECRET5
  "r2".auth.password = \"\"\"
SECRET6
\"\"\"
  "r3".auth = {{ username = "u", password = 'SECRET7' }}
  "r4".auth.password = "a\\"SECRET8"
[{V2}.registry.headers]
  Authorization = ["Bearer SECRET9"]
  X-Registry-Key = [
    "SECRET10",   # SECRET11
  ]
[stream_processors."io.containerd.ocicrypt.decoder.v1.tar"]
  accepts = ["application/vnd.oci.image.layer.v1.tar+encrypted"]
  returns = "application/vnd.oci.image.layer.v1.tar"
  path = "ctd-decoder"
  args = ["--passphrase=SECRET12"]
  env = ["OCICRYPT_KEY=SECRET13"]
"""
CONTAINERD = f"""version = 2
[{V2}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"   # SECRET14
{REGISTRY}"""
CRIO = """[crio.runtime]
default_env = [
  "HTTPS_PROXY=http://u:SECRET1@proxy",
  "API_TOKEN=SECRET2",
]
[crio.runtime.runtimes.crun]
runtime_path = "/usr/bin/crun"
monitor_env = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "MONITOR_KEY=SECRET3"]   # SECRET4
"""
DOCKER = """{
  "log-opts": {"tag": "SECRET1"},
  "proxies": {"http-proxy": "http://u:SECRET2@proxy.invalid"},
  "labels": ["token=SECRET3"]
}
"""

PLANTED = {
    "containerd-1.7": ("/etc/containerd/config.toml", CONTAINERD, "containerd"),
    "containerd-2.3": ("/etc/containerd/config.toml", CONTAINERD, "containerd"),
    "crio-1.34": ("/etc/crio/crio.conf.d/50-site.conf", CRIO, "crio"),
    "docker": ("/etc/docker/daemon.json", DOCKER, "docker"),
}


def unpacked(text: str) -> str:
    """The text with all that is packed in it, whichever way round: answers travel as base64 of
    zlib.
    """
    found = [text]
    for word in sorted(set(re.findall(r"[A-Za-z0-9+/]{40,}={0,2}", text))):
        try:
            data = base64.b64decode(word + "=" * (-len(word) % 4))
            inner = zlib.decompress(data).decode("utf-8", "replace") if data[:1] == b"\x78" else ""
        except (binascii.Error, zlib.error, ValueError):
            continue
        found += [inner, unpacked(inner)] if inner else []
    return "\n".join(found)


def output(run: Run) -> str:
    return unpacked(run.words) + unpacked(str(run.entries))


@pytest.fixture(scope="module", params=PLANTED)
def host(request: pytest.FixtureRequest, boot: Boot) -> tuple[Fleet, str, str]:
    name = "leaves-" + request.param.replace(".", "")
    fleet = boot({name: {"kind": request.param, "gpus": 1, "driver": "ok"}})
    path, text, unit = PLANTED[request.param]
    write = f"cat >{path} <<'TEXT'\n{text}TEXT\nchmod 600 {path}"
    fleet.shell(name, f"{RUNTIME}; mkdir -p $(dirname {path}); {write}; systemctl restart {unit}")
    return fleet, name, request.param


def test_no_secret_is_told_and_each_stays_where_it_was(host: tuple[Fleet, str, str]) -> None:
    fleet, name, kind = host
    path, text, unit = PLANTED[kind]
    secrets = re.findall(r"SECRET\d+", text)
    options = {"packages": "ignore"}
    runs = [
        fleet.task("host_info", [name], arguments=["-vvv", "--diff"]),
        fleet.task("host", [name], options, arguments=["-vvv", "--diff", "--check"]),
        fleet.task("host", [name], options, arguments=["-vvv", "--diff"]),
        fleet.task("host", [name], options, arguments=["-vvv", "--diff"]),
    ]
    assert [run.failed for run in runs] == [{}, {}, {}, {}]
    leaked = {
        secret for run in runs for secret in secrets if re.search(rf"{secret}(?!\d)", output(run))
    }
    assert leaked == set()
    assert not runs[-1].of("host")[name]["changed"], "a second run finds nothing to do"
    after = fleet.text(name, path)
    assert [secret for secret in secrets if not re.search(rf"{secret}(?!\d)", after)] == []
    assert [
        line for line in text.splitlines() if "SECRET" in line and line not in after.splitlines()
    ] == []
    assert fleet.shell(name, f"systemctl is-active {unit}").strip() == "active"
    # our handler is a whole copy, with what the controller has never seen
    if kind.startswith("crio"):
        ours = "/etc/crio/crio.conf.d/90-gpufleet.conf"
        assert "MONITOR_KEY=SECRET3" in fleet.text(name, ours)
        assert fleet.shell(name, f"stat -c %a {ours}").strip() == "600", (
            "nobody reads it there who could not read it before"
        )
    fleet.task("host", [name], {**options, "state": "absent"})
    assert fleet.text(name, path) == text
