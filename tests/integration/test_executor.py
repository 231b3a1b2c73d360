# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host finishes alone: executor killed, caller gone, engine crashes later, power lost. Old or
new, and the next look says which.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    host_answers,
    transport,
)

from tests.integration.conftest import Boot
from tests.integration.story import CRICTL
from tests.tools import wire
from tests.tools.onlab import Fleet, Tree, differing

pytestmark = pytest.mark.lab

HOST = "alone"
UNIT = "containerd.service"
CONFIG = "/etc/containerd/config.toml"
HELD = "/run/held"  # while this is there, the engine does not come up
SICK = "/run/sick"  # while this is there, the engine does not come up with our configuration
DROPIN = f"""[Service]
ExecStartPre=/bin/sh -c 'while [ -e {HELD} ]; do sleep 0.1; done; ! {{ [ -e {SICK} ] && grep -q ours {CONFIG}; }}'
RestartSec=1
"""
# Old bytes, a unit that serves, nothing of this collection's beside the files, none of its units or
# timers any more.
SETTLED = (
    f'timeout 60 sh -c \'until {CRICTL} info >/dev/null 2>&1 && [ -z "$(ls /var/lib/gpufleet/job)" ]'
    ' && ! systemctl list-units --plain --no-legend "gpufleet-*" | grep -v gpufleet-recover | grep -q . ; do sleep 0.2; done\''
)


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    found = boot({HOST: {"kind": "containerd-1.7", "gpus": 1, "driver": "ok"}})
    found.shell(
        HOST,
        f"mkdir -p /etc/systemd/system/{UNIT}.d; cat >/etc/systemd/system/{UNIT}.d/held.conf <<'EOF'\n{DROPIN}EOF\n"
        f"systemctl daemon-reload; systemctl restart {UNIT}; mkdir -p /var/lib/gpufleet/job",
    )
    return found


@pytest.fixture
def before(fleet: Fleet) -> Iterator[Tree]:
    yield fleet.tree(HOST)
    fleet.shell(HOST, f"rm -f {HELD} {SICK}")


def request(fleet: Fleet, **more: Any) -> dict[str, Any]:
    text = fleet.text(HOST, CONFIG)
    return {
        "schema": 1,
        "id": uuid.uuid4().hex,
        "root": "/",
        "journal_dir": "/var/lib/gpufleet",
        "reason": "test",
        "changes": [{"path": CONFIG, "op": "write", "content": text + "# ours\n"}],
        "units": [{"name": UNIT, "action": "restart", "timeout": 60}],
        "health": [
            {
                "kind": "cri",
                "socket": "/run/containerd/containerd.sock",
                "timeout": 20,
                "require": [],
            }
        ],
        "alone": True,
        **more,
    }


def begin(fleet: Fleet, wanted: dict[str, Any]) -> subprocess.Popen[bytes]:
    """A caller on the host, as the connection would start it."""
    environment = {**fleet.lab.environment(), "GPUFLEET_LAB_NAME": fleet.lab.name}
    command = [sys.executable, "-m", "tests.lab", "exec", HOST, "--", *wire.argv("python3")]
    caller = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert caller.stdin
    caller.stdin.write(transport.build_interpreter_input("transaction", wanted, "MARK:"))
    caller.stdin.close()
    return caller


def answer(caller: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert caller.stdout
    found: dict[str, Any] = host_answers.unpack_answer(
        caller.stdout.read().decode().partition("MARK:")[2]
    )
    caller.wait()
    return found


def held_in_restart(fleet: Fleet, wanted: dict[str, Any]) -> subprocess.Popen[bytes]:
    """The new files are in place, the engine is on its way up with them, and stays there."""
    fleet.shell(HOST, f"touch {HELD}")
    caller = begin(fleet, wanted)
    entry = f"/var/lib/gpufleet/journal/*-{wanted['id']}/states"
    fleet.shell(
        HOST, f"timeout 60 sh -c 'until grep -q swapped {entry} 2>/dev/null; do sleep 0.1; done'"
    )
    return caller


def said(fleet: Fleet) -> list[str]:
    """What the next look says."""
    return [
        line
        for line in fleet.task("host_info", [HOST]).of("host_info")[HOST]["advice"]
        if "rolled back" in line
    ]


def last_state(fleet: Fleet, token: str) -> list[dict[str, Any]]:
    lines = fleet.shell(HOST, f"cat /var/lib/gpufleet/journal/*-{token}/states | tr -s ' '").split(
        "\n"
    )
    return [json.loads(line) for line in lines if line.strip()]


def test_an_executor_that_is_killed_is_followed_by_another_that_takes_back(
    fleet: Fleet, before: Tree
) -> None:
    wanted = request(fleet)
    caller = held_in_restart(fleet, wanted)
    fleet.shell(HOST, f"systemctl kill --signal=KILL gpufleet-{wanted['id']}.service; rm {HELD}")
    found = answer(caller)
    fleet.shell(HOST, SETTLED)
    assert (found["error"]["phase"], found["rolled_back"], found["changed"]) == (
        "executor",
        True,
        False,
    )
    assert differing(before, fleet.tree(HOST)) == {}
    assert any("its process died in the middle (state swapped)" in line for line in said(fleet))


def test_a_command_that_outlives_its_executor_is_undone_once_it_has_ended(
    fleet: Fleet, before: Tree
) -> None:
    """As `nvidia-smi` with a driver that takes its time: undone before it acts, what it does would
    stay.
    """
    late, go = "/etc/made-late", "/run/go"
    command = {
        "argv": ["sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done; touch {late}"],
        "undo": ["rm", "-f", late],
    }
    wanted = request(fleet, commands_before=[command])
    caller = begin(fleet, wanted)
    fleet.shell(
        HOST, "timeout 60 sh -c 'until pgrep -f \"^sh -c until .*[m]ade-late\"; do sleep 0.1; done'"
    )
    fleet.shell(
        HOST, f"systemctl kill --kill-who=main --signal=KILL gpufleet-{wanted['id']}.service"
    )
    entry = f"/var/lib/gpufleet/journal/*-{wanted['id']}/states"
    fleet.shell(
        HOST,
        f"timeout 60 sh -c 'until grep -q undoing {entry} 2>/dev/null; do sleep 0.1; done'; touch {go}",
    )
    found = answer(caller)
    fleet.shell(HOST, f"{SETTLED}; rm {go}")
    assert (found["error"]["phase"], found["rolled_back"], found["changed"]) == (
        "executor",
        True,
        False,
    )
    assert differing(before, fleet.tree(HOST)) == {}


def test_a_caller_that_vanishes_changes_nothing(fleet: Fleet, before: Tree) -> None:
    """One vanishes and all is well; one vanishes and the engine does not come up."""
    wanted = request(fleet)
    caller = held_in_restart(fleet, wanted)
    caller.kill()
    fleet.shell(HOST, f"pkill -KILL -f '^python3 -I -S -c import sys,zlib' || true; rm {HELD}")
    fleet.shell(HOST, SETTLED)
    assert list(differing(before, fleet.tree(HOST))) == [CONFIG]
    assert last_state(fleet, wanted["id"])[-1]["state"] == "committed"
    back = request(fleet, changes=[{"path": CONFIG, "op": "restore", "id": ""}])
    assert answer(begin(fleet, back))["error"] is None
    assert differing(before, fleet.tree(HOST)) == {}

    fleet.shell(HOST, f"touch {SICK}")
    wanted = request(fleet)
    caller = held_in_restart(fleet, wanted)
    fleet.shell(HOST, f"pkill -KILL -f '^python3 -I -S -c import sys,zlib' || true; rm {HELD}")
    caller.kill()
    fleet.shell(HOST, SETTLED)
    assert differing(before, fleet.tree(HOST)) == {}
    assert last_state(fleet, wanted["id"])[-1]["state"] == "rolled_back"


def test_an_engine_that_crashes_after_it_served_is_taken_back(fleet: Fleet, before: Tree) -> None:
    wanted = request(fleet, probation=30)
    found = answer(begin(fleet, wanted))
    assert (found["error"], found["probation"]) == (None, 30)
    assert list(differing(before, fleet.tree(HOST))) == [CONFIG], (
        "on probation the host looks as it will stay"
    )
    fleet.shell(HOST, f"systemctl kill --kill-who=main --signal=KILL {UNIT}")
    fleet.shell(HOST, SETTLED)
    assert differing(before, fleet.tree(HOST)) == {}
    assert any(
        "by the host itself, which continued to monitor it because" in line and "crashed" in line
        for line in said(fleet)
    )


def test_a_second_transaction_is_told_who_is_at_work(fleet: Fleet, before: Tree) -> None:
    caller = held_in_restart(fleet, request(fleet))
    other = answer(begin(fleet, request(fleet, reason="another controller")))
    fleet.shell(HOST, f"rm {HELD}")
    assert answer(caller)["error"] is None
    assert other["error"]["phase"] == "lock"
    assert "locked by process" in other["error"]["message"]
    back = request(fleet, changes=[{"path": CONFIG, "op": "restore", "id": ""}])
    assert answer(begin(fleet, back))["error"] is None
    assert differing(before, fleet.tree(HOST)) == {}


@pytest.mark.parametrize("way", ["stdin", "module"])
def test_a_rollback_is_reported_by_one_run_and_noted_without_a_transaction(
    fleet: Fleet, before: Tree, way: str
) -> None:
    """The run has nothing else to do. Check mode and host_info report it as often as they are
    asked.
    """
    lacking = {
        "kind": "cri",
        "socket": "/run/containerd/containerd.sock",
        "timeout": 1,
        "require": [{"handler": "none"}],
    }
    wanted = request(fleet, reason=f"reported once, {way}", health=[lacking])
    assert answer(begin(fleet, wanted))["rolled_back"]
    assert differing(before, fleet.tree(HOST)) == {}
    entries = fleet.shell(HOST, "ls /var/lib/gpufleet/journal")

    def reported(*arguments: str) -> bool:
        found = fleet.task(
            "oci_hook", [HOST], {"state": "absent", "transport": way}, arguments=arguments
        ).of("oci_hook")[HOST]
        assert (found["status"], found["changed"]) == ("ok", False)
        return any(wanted["reason"] in line for line in found.get("warnings", []))

    assert any(wanted["reason"] in line for line in said(fleet))
    assert [reported("--check"), reported(), reported()] == [True, True, False]
    assert not any(wanted["reason"] in line for line in said(fleet))
    assert fleet.shell(HOST, "ls /var/lib/gpufleet/journal") == entries, "no transaction was needed"


def test_power_lost_in_the_middle_is_taken_back_before_the_engine_starts(
    fleet: Fleet, before: Tree
) -> None:
    wanted = request(fleet)
    caller = held_in_restart(fleet, wanted)
    fleet.lab.kill(HOST)
    caller.wait()
    fleet.lab.boot(HOST)  # what lies in /run is gone, so nothing holds the engine any more
    fleet.shell(HOST, SETTLED)
    assert differing(before, fleet.tree(HOST)) == {}
    assert last_state(fleet, wanted["id"])[-1]["state"] == "rolled_back"
    lines = fleet.shell(
        HOST, f"journalctl --boot --output=cat --unit={UNIT} --unit=gpufleet-recover.service"
    ).splitlines()
    assert next(i for i, line in enumerate(lines) if "Finished gpufleet-recover" in line) < next(
        i for i, line in enumerate(lines) if "Starting containerd" in line
    ), lines
