# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On a real host: an engine that hangs, a crowd of a local user's processes, planted modules, a
journal that was given away.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.conftest import Boot
from tests.tools.onlab import Fleet

pytestmark = pytest.mark.lab

HOST = "queries"
OPTIONS = {"packages": "ignore"}
PLANTED = "json base64 types zlib fcntl sitecustomize usercustomize"
# A second engine with a configuration and a socket of its own, which answers nobody any more.
SECOND = """
cat >/srv/second.toml <<'EOF'
version = 2
root = "/srv/second/root"
state = "/run/second"
[grpc]
address = "/run/second/second.sock"
EOF
systemd-run --quiet --unit=second /usr/bin/containerd --config /srv/second.toml
for n in $(seq 100); do [ -S /run/second/second.sock ] && break; sleep 0.1; done
[ -S /run/second/second.sock ]
systemctl kill --signal=STOP second.service
"""
CROWD = """
install -o mallory -m 755 /bin/dash /home/mallory/containerd
cat >/home/mallory/crowd <<'EOF'
import os, subprocess
for number in range(80):
    subprocess.Popen(["/home/mallory/containerd", "-c", "sleep 600; :"] + ["x" * 100000, "y" * 100000, "z" * 30000])
EOF
su mallory -c 'python3 /home/mallory/crowd' </dev/null >/dev/null 2>&1
"""
# Writes into whatever program is there, as fast as it can.
RACE = """
cat >/home/mallory/race <<'EOF'
import glob, os, time
until = time.monotonic() + 60
while time.monotonic() < until:
    for path in glob.glob("/var/lib/gpufleet/program/*.py"):
        try:
            with open(path, "w") as program:
                program.write("open('/root/PWNED', 'a').write('ran')\\n")
        except OSError:
            pass
EOF
chown -R mallory /var/lib/gpufleet
su mallory -c 'exec python3 /home/mallory/race' </dev/null >/dev/null 2>&1 &
sleep 0.5
"""


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    up = boot({HOST: {"kind": "containerd-1.7", "gpus": 1, "driver": "ok"}})
    up.shell(HOST, "cp /usr/sbin/runc /usr/bin/nvidia-container-runtime; useradd -m mallory")
    return up


def looked(fleet: Fleet, **options: Any) -> dict[str, Any]:
    return fleet.task("host_info", [HOST], {**OPTIONS, **options}).of("host_info")[HOST]


def plan(answer: dict[str, Any]) -> list[Any]:
    return [(d["what"], d["path"], d["key"], d["after"]) for d in answer["differences"]]


@pytest.mark.parametrize("way", ["stdin", "module"])
def test_nothing_is_imported_from_where_the_connection_stands(fleet: Fleet, way: str) -> None:
    fleet.shell(
        HOST,
        f'cd /root; for m in {PLANTED}; do echo \'open("/run/imported", "a").write(__file__)\' >$m.py; done',
    )
    try:
        answer = looked(fleet, transport=way)
        assert plan(answer)
        assert fleet.shell(HOST, "cat /run/imported 2>/dev/null || true") == ""
    finally:
        fleet.shell(HOST, f"cd /root; for m in {PLANTED}; do rm $m.py; done; rm -f /run/imported")


def test_a_crowd_of_a_local_users_processes_changes_no_plan(fleet: Fleet) -> None:
    before = looked(fleet)
    fleet.shell(HOST, CROWD)
    try:
        assert int(fleet.shell(HOST, "pgrep -c -u mallory -x containerd")) >= 80
        after = looked(fleet)
    finally:
        fleet.shell(
            HOST,
            "pkill -KILL -u mallory; rm -f /home/mallory/crowd /home/mallory/containerd",
            fails=True,
        )
    assert (plan(after), after["problem"]) == (plan(before), "")
    assert [i["refusal"] for i in after["instances"]] == [""]


def test_a_second_engine_that_hangs_is_named_and_the_host_is_managed(fleet: Fleet) -> None:
    fleet.shell(HOST, SECOND)
    try:
        run = fleet.task("host", [HOST], OPTIONS)
        answer = run.of("host")[HOST]
        assert (answer.get("msg", ""), answer["changed"]) == ("", True)
        assert [
            a
            for a in answer["advice"]
            if a.startswith(
                "containerd runs, but its CRI does not answer at /run/second/second.sock"
            )
        ]
        assert "nvidia" not in fleet.text(HOST, "/srv/second.toml")
        assert "nvidia" in fleet.text(HOST, "/etc/containerd/config.toml")
        again = fleet.task("host", [HOST], OPTIONS).of("host")[HOST]
        assert again["changed"] is False
    finally:
        fleet.shell(
            HOST,
            "systemctl kill --signal=KILL second.service; rm -rf /srv/second /srv/second.toml /run/second",
            fails=True,
        )


def test_a_journal_that_was_given_away_runs_nothing(fleet: Fleet) -> None:
    """A user to whom the directory belongs swaps the program, as fast as possible: it is neither
    written nor run.
    """
    fleet.task("host", [HOST], OPTIONS)
    fleet.shell(HOST, RACE)
    try:
        for _attempt in range(2):
            answer = fleet.task("host", [HOST], {**OPTIONS, "state": "absent"}).of("host")[HOST]
            assert answer["status"] == "failed"
            assert "belongs to user" in answer["msg"]
            assert "only root may be able to write to the journal" in answer["msg"]
        # The unit of the change before is on probation, and calls the program once more when it
        # ends.
        ended = "systemctl list-units --all --no-legend 'gpufleet-*.service' | grep -q . || exit 0"
        fleet.shell(HOST, f"for _ in $(seq 400); do {ended}; sleep 0.1; done; exit 1")
        assert fleet.shell(HOST, "ls /root/PWNED 2>/dev/null || true") == ""
    finally:
        fleet.shell(
            HOST, "pkill -KILL -u mallory; chown -R root:root /var/lib/gpufleet", fails=True
        )
    answer = fleet.task("host", [HOST], {**OPTIONS, "state": "absent"}).of("host")[HOST]
    assert (answer.get("msg", ""), fleet.shell(HOST, "ls /root/PWNED 2>/dev/null || true")) == (
        "",
        "",
    )
    assert "nvidia" not in fleet.text(HOST, "/etc/containerd/config.toml")
