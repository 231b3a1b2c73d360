# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two rollouts at once on one controller: the second touches no host of the first while that lives,
and none is held by a dead one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play, written
from tests.unit.playbooks.rollouts import CLOSED, changed, fleet, told

FEW = ("--limit", "gpu1:gpu2:gpu3:gpu9")
# The gate of the first rollout: well before the canaries, then it says that they are done, and goes
# on when it is let.
FIRST = "mkdir {0}/asked 2>/dev/null && exit 0; "
GATE = "test -e {0}/once && exit 0; touch {0}/once; echo > {0}/waits; cat {0}/goes_on"


@contextlib.contextmanager
def waiting(place: Path, *, in_batch: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A rollout of four hosts that has changed its canaries, and waits in its gate, or in their
    batch before its end.
    """
    for name in ("waits", "goes_on"):
        os.mkfifo(place / name)
    command = ["/bin/sh", "-c", ("" if in_batch else FIRST.format(place)) + GATE.format(place)]
    written(place / "after.yml", json.dumps([{"ansible.builtin.command": {"argv": command}}]))
    where = (
        {"gpufleet_rollout_tasks": {"after": "after.yml"}}
        if in_batch
        else {"gpufleet_rollout_gate_check": command}
    )
    extra = {"gpufleet_hosts": "gpu_hosts", **where, "awx_user_name": "alice"}
    settings = written(place / "first.json", json.dumps(extra))
    program = Path(sys.executable).with_name("ansible-playbook")
    playbook = [
        program,
        "-i",
        place / "hosts.yml",
        "gpufleet.nvidia.rollout",
        "-e",
        f"@{settings}",
        *FEW,
    ]
    settled = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(place / "home")}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(
        playbook, cwd=place, env=settled, text=True, start_new_session=True, **streams
    ) as first:
        try:
            said = os.open(place / "waits", os.O_RDONLY | os.O_NONBLOCK)
            assert select.select([said], [], [], 300)[0], (
                "the first rollout did not come to its gate"
            )
            yield first
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(first.pid, signal.SIGKILL)
            # Ansible's workers have sessions of their own, and the command of one may wait here, or
            # be about to: it reads an end.
            both = os.open(place / "goes_on", os.O_RDWR)
            written(place / "ended", "").replace(place / "goes_on")
            os.close(both)


def second(place: Path, *arguments: str, **extra: object) -> tuple[int, str]:
    settled = written(place / "second.json", json.dumps({"gpufleet_hosts": "gpu_hosts", **extra}))
    command = (
        "-i",
        place / "hosts.yml",
        "gpufleet.nvidia.rollout",
        "-e",
        f"@{settled}",
        *arguments,
    )
    return bare.run(place, "ansible-playbook", *command)


def test_a_second_rollout_touches_no_host_of_the_first_and_the_first_goes_on(
    tmp_path: Path,
) -> None:
    fleet(tmp_path)
    with waiting(tmp_path) as first:
        assert changed(tmp_path) == ["gpu2", "gpu9"], "the canaries"
        status, words = second(
            tmp_path, "--limit", "gpu1:gpu3:gpu4", gpufleet_rollout_max_left_out=2
        )
        assert status == 0, words
        assert told(words) == {"gpu1": "left out", "gpu3": "left out", "gpu4": "yes"}
        assert f"gpu1: the rollout in process {first.pid}, begun 2" in words
        assert "(by alice), has it until it ends" in words
        assert changed(tmp_path) == ["gpu2", "gpu4", "gpu9"]
        written(tmp_path / "goes_on", "")
        assert first.wait() == 0, first.stdout and first.stdout.read()
    assert changed(tmp_path) == ["gpu1", "gpu2", "gpu3", "gpu4", "gpu9"]
    assert list((tmp_path / "home/gpufleet/rollouts").glob("*.json")) == [], (
        "neither has anything any more"
    )


VERIFIED_AGAIN = "  as desired, to be verified or put back into service: gpu2, gpu9\n  batch 1, canaries: gpu2, gpu9\n"
# A run that ends with its plan.
PLAN = {"gpufleet_verify_image": "registry.example.org/cuda:12", "gpufleet_rollout_window": CLOSED}


def test_a_rollout_that_was_killed_holds_nothing_and_the_verification_of_its_batch_that_had_ended_stands(
    tmp_path: Path,
) -> None:
    fleet(tmp_path)
    with waiting(tmp_path) as first:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        assert len(list((tmp_path / "home/gpufleet/rollouts").glob("*.json"))) == 1
        status, words = second(tmp_path, *FEW, **PLAN)
        assert status == 0, words
        assert "4 hosts: 2 to change in 2 batches, 2 already as desired" in words
        assert VERIFIED_AGAIN not in words
        assert "canaries" not in words
        status, words = second(tmp_path, *FEW)
        assert status == 0, words
        assert set(told(words).values()) == {"yes", "no"}
    assert changed(tmp_path) == ["gpu1", "gpu2", "gpu3", "gpu9"]


def test_a_canary_is_verified_again_where_the_run_died_before_its_batch_had_ended(
    tmp_path: Path,
) -> None:
    fleet(tmp_path)
    with waiting(tmp_path, in_batch=True) as first:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    assert changed(tmp_path) == ["gpu2", "gpu9"]
    status, words = second(tmp_path, *FEW, **PLAN)
    assert status == 0, words
    assert VERIFIED_AGAIN in words


def test_a_file_that_does_not_say_who_has_what_ends_the_rollout_before_a_host_is_changed(
    tmp_path: Path,
) -> None:
    inventory = fleet(tmp_path)
    (tmp_path / "home/gpufleet/rollouts").mkdir(parents=True)
    dead = {
        "process": {"number": 1, "started": "0", "machine": os.uname().nodename},
        "hosts": ["gpu1"],
    }
    # of another release, and of a process that has ended
    written(tmp_path / "home/gpufleet/rollouts/0.json", json.dumps(dead))
    written(tmp_path / "home/gpufleet/rollouts/1.json", "{}")
    status, words = second(tmp_path, *FEW)
    assert status == 2, words
    assert "1.json: this file does not say which hosts a rollout has" in words
    assert changed(tmp_path) == []
    assert play(tmp_path, inventory, "plan", *FEW)[0] == 0, "a plan takes no host"
