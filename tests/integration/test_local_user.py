# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A local user without any rights, whose programs are called like engines: nothing of them is run,
read, written, restarted or obeyed.
"""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Boot
from tests.lab.cgroup import until
from tests.tools.onlab import Fleet, Run, differing

pytestmark = pytest.mark.lab

HOST = "mallory"
NAMES = ("containerd", "crio", "dockerd", "kubelet", "containerd-shim-runc-v2")
SECRET = "/root/secret.toml"
PWNED = "/root/PWNED"
# Notes whoever runs it as root; waits where nobody does.
PROGRAM = r"""
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (geteuid() == 0) {
        FILE *f = fopen("/root/PWNED", "a");
        if (f) { for (int i = 0; i < argc; i++) fprintf(f, "%s ", argv[i]); fprintf(f, "\n"); fclose(f); }
        return 0;
    }
    for (;;) pause();
}
"""
# What the process would have root do: read this, write there, talk to that, restart the unit that
# its control group names.
ARGUMENTS = f"--config {SECRET} --config-file {SECRET} --config-dir /etc/profile.d --root /etc --address /home/mallory/none.sock"
WRITES = "--config /etc/profile.d/evil.sh --config-file /etc/profile.d/evil.sh --host unix:///home/mallory/none.sock"
OPTIONS = {"packages": "ignore", "no_gpu": "prepare"}
# One program more, in a folder that is deeper than a path can be long.
DEEP = """
cat >/home/mallory/start-deep <<'EOF'
import os, shutil
for _number in range(20):
    os.mkdir("x" * 250)
    os.chdir("x" * 250)
shutil.copy("/tmp/evil", "deep")
os.execv("./deep", ["deep"])
EOF
setpriv --reuid mallory --clear-groups setsid sh -c 'cd /home/mallory && exec python3 start-deep' </dev/null >/dev/null 2>&1 &
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    place = tmp_path_factory.mktemp("program")
    Path(place / "evil.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-s", "-o", place / "evil", place / "evil.c"], check=True)
    return Path(place / "evil").read_bytes()


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    """A host with an engine that works, and an account that nobody has given anything."""
    up = boot({HOST: {"kind": "containerd-1.7", "gpus": 1, "driver": "ok"}})
    up.shell(
        HOST,
        "useradd -m mallory; chmod 755 /home/mallory; cp /usr/bin/runc /usr/bin/nvidia-container-runtime",
    )
    for path in (SECRET, f"{SECRET}.read"):
        up.shell(
            HOST, f"echo 'secret = 1' >{path}; chmod 600 {path}; touch -a -d 2001-01-01 {path}"
        )
    assert "2001-01-01" not in up.shell(
        HOST, f"cat {SECRET}.read >/dev/null; stat -c %x {SECRET}.read"
    ), "a file system that notes who reads"
    return up


def info(fleet: Fleet) -> dict[str, Any]:
    run = fleet.task("host_info", [HOST], OPTIONS)
    assert run.failed == {}, run.words
    return run.of("host_info")[HOST]


def without_advice(answer: dict[str, Any]) -> dict[str, Any]:
    """What is planned, decided and restarted; that someone has such processes is told beside it."""
    return {
        key: answer[key]
        for key in ("differences", "decision", "would_restart", "instances", "kubelet", "problem")
    }


@pytest.fixture(scope="module")
def before(fleet: Fleet) -> dict[str, Any]:
    return without_advice(info(fleet))


@pytest.fixture(scope="module")
def attacked(fleet: Fleet, before: dict[str, Any], program: bytes) -> Fleet:
    """Every name, with both sorts of arguments; by hand, and as a service of the user that is
    called like a unit of the system.
    """
    fleet.shell(
        HOST,
        f"echo {base64.b64encode(program).decode()} | base64 -d >/tmp/evil; chmod 755 /tmp/evil",
    )
    for name in NAMES:
        fleet.shell(HOST, f"cp /tmp/evil /home/mallory/{name}; chown mallory /home/mallory/{name}")
        for arguments in (ARGUMENTS, WRITES):
            fleet.shell(
                HOST,
                f"setpriv --reuid mallory --clear-groups setsid /home/mallory/{name} {arguments} </dev/null >/dev/null 2>&1 &",
            )
        fleet.shell(
            HOST, f"systemd-run --uid=mallory --unit=evil-{name} /home/mallory/{name} {WRITES}"
        )
    fleet.shell(HOST, DEEP)
    for _turn in until("the processes of mallory have their names"):  # until then each is a setpriv
        listed = fleet.shell(HOST, "ps -u mallory -o comm=").split()
        if "deep" in listed and all(listed.count(name[:15]) == 3 for name in NAMES):
            break
    return fleet


def test_a_look_runs_nothing_reads_nothing_and_plans_the_same(
    attacked: Fleet, before: dict[str, Any]
) -> None:
    answer = info(attacked)
    assert without_advice(answer) == before
    assert unharmed(attacked)
    assert any(
        "3 containerd" in sentence and "3 kubelet" in sentence for sentence in answer["advice"]
    ), answer["advice"]


def unharmed(fleet: Fleet) -> bool:
    """Nothing was run by root, the file that only root may read was not read, and nothing was
    written where the processes said.
    """
    said = fleet.shell(
        HOST,
        f"cat {PWNED} 2>/dev/null || true; stat -c %x {SECRET}; ls /etc/profile.d/evil.sh 2>/dev/null || true",
    )
    return said.startswith("2001-01-01") and len(said.splitlines()) == 1


def test_check_mode_does_neither(attacked: Fleet) -> None:
    run = attacked.task("host", [HOST], OPTIONS, arguments=["--check"])
    assert run.failed == {}, run.words
    assert "mallory/" not in str(run.of("host")[HOST])
    assert unharmed(attacked)


def test_a_run_converges_the_real_engine_as_if_nobody_else_were_there(
    attacked: Fleet, before: dict[str, Any]
) -> None:
    tree = attacked.tree(HOST)
    run = attacked.task("host", [HOST], OPTIONS)
    assert run.failed == {}, run.words
    answer = run.of("host")[HOST]
    assert answer["restarted"] == ["containerd.service"]
    assert {d["path"] for d in answer["differences"]} == {d["path"] for d in before["differences"]}
    assert not [
        path for path in differing(tree, attacked.tree(HOST)) if path.startswith("/etc/profile.d")
    ]
    assert unharmed(attacked)
    assert changed(attacked.task("host", [HOST], OPTIONS)) is False


def changed(run: Run) -> bool:
    assert run.failed == {}, run.words
    return bool(run.of("host")[HOST]["changed"])


def test_root_s_own_that_nothing_vouches_for_is_refused_and_neither_run_nor_obeyed(
    attacked: Fleet,
) -> None:
    """As from a container with the host's PIDs: root's by its uid, and no service of the host's
    systemd.
    """
    attacked.shell(HOST, "mkdir -p /opt/other; cp /bin/sleep /opt/other/containerd")
    attacked.shell(
        HOST,
        "systemd-run --unit=starter systemd-run --scope --unit=other /opt/other/containerd 600",
    )
    answer = info(attacked)
    refused = [sentence for _key, sentence in answer["decision"]["refused"]]
    assert len(refused) == 1
    assert "its process could not be verified (service)" in refused[0]
    assert "runs in other.scope" in refused[0]
    assert [d["instance"] for d in answer["decision"]["decisions"]] == [
        "containerd:/etc/containerd/config.toml"
    ]
    assert {d["key"].partition(".")[0] for d in answer["differences"]} == {"refused"}, (
        "the host's record says that it is there"
    )
    assert changed(attacked.task("host", [HOST], OPTIONS)) is True
    assert changed(attacked.task("host", [HOST], OPTIONS)) is False
    assert attacked.starts(HOST, "containerd.service") == 2, (
        "its first start, and the one for our configuration"
    )
    assert unharmed(attacked)


def test_a_configuration_that_others_may_write_is_refused_and_not_read(attacked: Fleet) -> None:
    attacked.shell(
        HOST,
        "chown root:mallory /etc/containerd/config.toml; chmod 664 /etc/containerd/config.toml",
    )
    run = attacked.task("host", [HOST], OPTIONS)
    message = run.failed[HOST]
    assert "/etc/containerd/config.toml" in message
    assert "may be written to by its group mallory (mode 0664)" in message
    assert "chmod g-w" in message
    attacked.shell(
        HOST, "chown root:root /etc/containerd/config.toml; chmod 644 /etc/containerd/config.toml"
    )
    assert changed(attacked.task("host", [HOST], OPTIONS)) is False
