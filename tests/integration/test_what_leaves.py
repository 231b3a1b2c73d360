# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets where engines have them: in flags, labels, environments, logs and what a validator
prints. None of them leaves the host.

Everything that Ansible prints at -vvv --diff and writes to its log is searched, the packed payloads
of both transports unpacked.
"""

from __future__ import annotations

import base64
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Boot
from tests.tools.onlab import Fleet, Run

pytestmark = pytest.mark.lab

ENGINE, DOCKER = "words-containerd", "words-docker"
SECRET = "S3CR3T"
# Read as root's own by every look: the daemon's command line, its environment, its labels.
FLAGS = f"--http-proxy=http://user:{SECRET}@proxy.invalid:3128 --label token={SECRET} --log-opt tag={SECRET} --label plain=x"
DROP_IN = "[Service]\nEnvironment=HTTPS_PROXY=http://user:{secret}@proxy.invalid\n{more}"
# An engine that does not come up with our handler, and whose last words hold what it could not log
# in with.
TRAP = (
    "ExecStartPre=/bin/sh -c 'if grep -q nvidia /etc/containerd/config.toml; then "
    'echo "level=fatal msg=\\\\"login failed: password={secret} Bearer {secret} https://{secret}@h/\\\\"" >&2; exit 1; fi\'\n'
    "Restart=no\n"
)
OPTIONS = {"packages": "ignore", "no_gpu": "prepare", "restart": "force"}
PACKED = re.compile(r"[A-Za-z0-9+/]{60,}={0,2}")


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    """Hosts whose engines run with secrets and serve."""
    up = boot(
        {
            ENGINE: {"kind": "containerd-1.7", "gpus": 1, "driver": "ok"},
            DOCKER: {"kind": "docker", "gpus": 1, "driver": "ok"},
        }
    )
    for host in (ENGINE, DOCKER):
        up.shell(host, "cp /usr/bin/runc /usr/bin/nvidia-container-runtime")
    override(up, ENGINE, "containerd", "")
    command = up.shell(
        DOCKER, "systemctl show -P ExecStart docker | sed 's/.*argv\\[\\]=//; s/ ;.*//'"
    ).strip()
    override(up, DOCKER, "docker", f"ExecStart=\nExecStart={command} {FLAGS}\n")
    assert SECRET in up.shell(DOCKER, "docker info --format '{{json .}}'"), (
        "the daemon tells it to anybody who asks"
    )
    return up


def override(fleet: Fleet, host: str, unit: str, more: str) -> None:
    text = DROP_IN.format(secret=SECRET, more=more.replace("{secret}", SECRET))
    folder = f"/etc/systemd/system/{unit}.service.d"
    fleet.shell(
        host,
        f"mkdir -p {folder}; cat >{folder}/secret.conf <<'EOF'\n{text}EOF\nsystemctl daemon-reload; systemctl restart {unit}",
    )


def run(
    fleet: Fleet, host: str, module: str, log: Path, *arguments: str, **options: Any
) -> tuple[Run, str]:
    """A run with all that can be printed, and everything that it printed or logged, packed or not."""
    log.unlink(missing_ok=True)
    more = OPTIONS if module == "host" else {}
    found = fleet.task(
        module,
        [host],
        {**more, **options},
        arguments=["-vvv", "--diff", *arguments],
        environment={"ANSIBLE_LOG_PATH": str(log)},
    )
    text = found.words + log.read_text() + repr(found.entries)
    return found, text + "".join(unpacked(text))


def unpacked(text: str) -> list[str]:
    """What is packed in a text: base64 of zlib, within which the same may be again."""
    found = []
    for word in set(PACKED.findall(text)):
        try:
            inner = zlib.decompress(base64.b64decode(word)).decode("utf-8", "replace")
        except (ValueError, zlib.error):
            continue
        found += [inner, *unpacked(inner)]
    return found


@pytest.mark.parametrize("transport", ["stdin", "module"])
@pytest.mark.parametrize("host", [ENGINE, DOCKER])
def test_a_look_brings_no_secret_along(
    fleet: Fleet, host: str, transport: str, tmp_path: Path
) -> None:
    found, text = run(fleet, host, "host_info", tmp_path / "log", transport=transport)
    assert found.failed == {}, found.words[-3000:]
    assert '"answers"' in text, "the answers of the host are in what was searched"
    assert SECRET not in text


def test_docker_reads_its_new_file_with_flags_that_nobody_else_sees(
    fleet: Fleet, tmp_path: Path
) -> None:
    found, text = run(fleet, DOCKER, "host", tmp_path / "log", "--check")
    answer = found.of("host")[DOCKER]
    assert (found.failed, answer["changed"]) == ({}, True)
    assert '"validation"' in text
    assert SECRET not in text


def test_what_a_validator_refuses_is_told_by_a_code(fleet: Fleet, tmp_path: Path) -> None:
    before = fleet.shell(DOCKER, "cat /etc/docker/daemon.json 2>/dev/null || true")
    broken = f'{{\n  "bogus": {{\n    "key-{SECRET}": "{SECRET}"\n  }}\n}}\n'
    fleet.shell(DOCKER, f"mkdir -p /etc/docker; cat >/etc/docker/daemon.json <<'EOF'\n{broken}EOF")
    try:
        found, text = run(fleet, DOCKER, "host", tmp_path / "log")
    finally:
        fleet.shell(
            DOCKER,
            f"printf %s '{before}' >/etc/docker/daemon.json"
            if before
            else "rm /etc/docker/daemon.json",
        )
    message = found.failed[DOCKER]
    assert "the file has an unknown key" in message
    words = re.search(
        r"(?i)its output is in (/var/lib/gpufleet/said/[0-9a-f]{32}\.txt) on the host", message
    )
    assert words
    assert SECRET in fleet.text(DOCKER, words[1]), "root finds them there"
    assert fleet.shell(DOCKER, f"stat -c '%a %U' {words[1]} /var/lib/gpufleet/said").split() == [
        "600",
        "root",
        "700",
        "root",
    ]
    assert SECRET not in text


# Someone else's specs: one of another vendor as people write them, one as JSON, and one that stands
# where ours will be.
SPECS = {
    "/etc/cdi/vendor.yaml": """\
# token: {secret}
cdiVersion: 0.6.0
kind: vendor.example/card
annotations:
  example.com/login: {secret}
devices:
- name: card0 # {secret}
  containerEdits: &common
    env:
    - LICENSE={secret}
    - |
      KEY={secret}
      {secret}
    hooks:
    - hookName: createContainer
      path: /usr/bin/true
      args: [true, --password, {secret}, --token={secret}]
- name: card1
  containerEdits: *common
""",
    "/etc/cdi/vendor.json": """\
{{"cdiVersion": "0.6.0", "kind": "vendor.example/port", "annotations": {{"{secret}": "{secret}"}}, "comment-{secret}": "{secret}",
 "devices": [{{"name": "port0", "containerEdits": {{"env": ["LICENSE={secret}"], "deviceNodes": [{{"path": "/dev/gone"}}]}}}}]}}
""",
    "/etc/cdi/nvidia.yaml": """\
cdiVersion: 0.5.0 # {secret}
kind: nvidia.com/gpu
devices:
- name: all
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
""",
    "/etc/cdi/site.yaml": """\
cdiVersion: 0.5.0
kind: vendor.example/site
devices:
- name: site0
  containerEdits:
    hooks:
    - hookName: createContainer
      path: /usr/bin/nvidia-cdi-hook
      args: [nvidia-cdi-hook, update-ldcache, --folder, "{secret}"]
""",
    "/etc/cdi/odd.yaml": "%YAML 1.1\n---\ntoken: !!str {secret}\n",
}


def test_a_cdi_spec_of_somebody_elses_is_judged_and_its_secrets_stay(
    fleet: Fleet, tmp_path: Path
) -> None:
    for path, text in SPECS.items():
        fleet.shell(
            ENGINE, f"mkdir -p /etc/cdi; cat >{path} <<'EOF'\n{text.format(secret=SECRET)}EOF"
        )
    try:
        judged, text = run(fleet, ENGINE, "cdi_spec_info", tmp_path / "log")
        planned, more = run(fleet, ENGINE, "host", tmp_path / "more", "--check")
        told, last = run(fleet, ENGINE, "host_info", tmp_path / "last")
    finally:
        fleet.shell(ENGINE, f"rm -f {' '.join(SPECS)}")
    answer = judged.of("cdi_spec_info")[ENGINE]
    found = {(f["file"].rpartition("/")[2], f["rule"], f["line"]) for f in answer["findings"]}
    assert {("vendor.json", "unknown-field", 1), ("odd.yaml", "not-read", 1)} <= found
    theirs = [f"vendor.example/{name}" for name in ("card=card0", "card=card1", "site=site0")]
    assert answer["devices"] == ["nvidia.com/gpu=all", *theirs]
    node = planned.of("host")[ENGINE]
    assert (planned.failed, told.failed, node["changed"]) == ({}, {}, True)
    assert "/etc/cdi/nvidia.yaml" in {d["path"] for d in node["differences"]}
    assert any("odd.yaml, line 1" in sentence for sentence in node["advice"])
    assert "(hidden " in more, "the projection is in what was searched"
    assert SECRET not in text + more + last


def test_what_an_engine_says_before_it_dies_stays_in_its_journal(
    fleet: Fleet, tmp_path: Path
) -> None:
    override(fleet, ENGINE, "containerd", TRAP)
    try:
        found, text = run(fleet, ENGINE, "host", tmp_path / "log")
        answer = found.of("host")[ENGINE]
        told, later = run(fleet, ENGINE, "host_info", tmp_path / "later")
    finally:
        override(fleet, ENGINE, "containerd", "")
    assert (answer["status"], answer["rolled_back"]) == ("failed", True)
    shown = re.search(
        r"containerd\.service failed.*`(journalctl --unit=containerd\.service --since=@\d+)` on the host",
        answer["msg"],
    )
    assert shown, answer["msg"]
    assert SECRET in fleet.shell(ENGINE, f"{shown[1]} --no-pager"), "the command shows them to root"
    assert any("rolled back" in sentence for sentence in told.of("host_info")[ENGINE]["advice"])
    assert SECRET not in text + later
