# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the one file that measures a machine does where it cannot measure, or where a step fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import (
    main,
    report,
)
from tests.unit import gpu_tool


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gpu_tool.build_program(tmp_path_factory.mktemp("gpu"))


@pytest.mark.parametrize(
    ("uid", "driver", "code"), [(1000, True, "not-root"), (0, False, "no-driver")]
)
def test_a_machine_that_cannot_be_measured(
    uid: int, driver: bool, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(main, "DRIVER", str(tmp_path if driver else tmp_path / "none"))
    with pytest.raises(main.Ended) as caught:
        main.check_machine()
    assert caught.value.code == code
    assert report.STATUSES[code] > 1
    assert not list(tmp_path.iterdir())


HANGS = "import signal, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.pause()\n"


def test_a_driver_that_hangs_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu_tool.play(monkeypatch, tmp_path, HANGS)
    one = gpu_tool.build_measurement()
    assert one.step("NVML", "own") is None
    gpu_tool.play(monkeypatch, tmp_path, "print('{}')\n")
    assert one.step("NVML, more", "more") is None
    assert [(c["name"], c["result"], c["code"]) for c in one.report.checks] == [
        ("NVML", "failed", "timeout"),
        ("NVML, more", "skipped", ""),
    ]
    assert report.STATUSES[one.report.get_outcome()] == 5


FAILS = {
    "no JSON": ("print('x')\n", "failed"),
    "an error": ("raise SystemExit('lost')\n", "failed"),
    "a crash": ("import os\nos.kill(os.getpid(), 11)\n", "failed"),
}


@pytest.mark.parametrize("name", FAILS)
def test_a_step_that_fails(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, code = FAILS[name]
    gpu_tool.play(monkeypatch, tmp_path, text)
    monkeypatch.setattr(main, "LIMITS", dict.fromkeys(main.LIMITS, 30))
    one = gpu_tool.build_measurement()
    assert one.step("NVML", "own") is None
    assert [(c["result"], c["code"]) for c in one.report.checks] == [("failed", code)]
    assert one.report.checks[0]["sentence"].count("\n") == 0


def test_a_fault_of_the_program_leaves_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_self: object) -> None:
        raise KeyError("own")

    monkeypatch.setattr(main.Measurement, "run", fail)
    monkeypatch.setattr(main, "check_machine", lambda: None)
    monkeypatch.setattr(main, "get_tool", lambda: "gpufleet.nvidia 1")
    gpu_tool.play(monkeypatch, tmp_path, "print('{}')\n")
    monkeypatch.setattr(main, "LIMITS", dict.fromkeys(main.LIMITS, 30))
    monkeypatch.setattr(main.signal, "signal", lambda _number, _handler: None)
    out = tmp_path / "out"
    assert main.measure(Namespace(output=str(out), nvidia_ctk="", change=False)) == "failed"
    written = json.loads((out / "report.json").read_text())
    assert [c["code"] for c in written["checks"]] == ["fault", "no-capture"]
    assert report.check_shape(written) == []


def test_a_capture_that_cannot_be_made_leaves_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(self: main.Measurement) -> None:
        """As a driver whose fabric has a state that is not known yet."""
        self.found = {"own": {**gpu_tool.OWN, "errors": []}, "more": {**MORE, "gpus": [FABRIC]}}
        self.seen = {"host": {"machine": "x86_64"}, "answers": {}}

    monkeypatch.setattr(main.Measurement, "run", answer)
    monkeypatch.setattr(main, "check_machine", lambda: None)
    monkeypatch.setattr(main, "get_tool", lambda: "gpufleet.nvidia 1")
    gpu_tool.play(monkeypatch, tmp_path, "print('{}')\n")
    monkeypatch.setattr(main, "LIMITS", dict.fromkeys(main.LIMITS, 30))
    monkeypatch.setattr(main.signal, "signal", lambda _number, _handler: None)
    assert main.measure(Namespace(output=str(tmp_path), nvidia_ctk="", change=False)) == "failed"
    written = json.loads((tmp_path / "report.json").read_text())
    assert [c["code"] for c in written["checks"]] == ["fault"]


MORE: dict[str, Any] = {"cuda": 13000, "refused": {}}
FABRIC = {
    "pci_id": "0x2335",
    "mib": 1,
    "fabric": {"state": 9, "status": 0, "clique": 0, "cluster": False, "health": 0},
}


def test_another_table_of_nvidia_smi_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho Unable to determine the device handle, Unknown Error\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    one = gpu_tool.build_measurement()
    assert one.ask_smi() is None
    assert [c["code"] for c in one.report.checks] == ["other-table"]


def test_without_an_answer_of_nvml_containers_are_entered_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu_tool.play(monkeypatch, tmp_path, f"print({json.dumps(json.dumps(gpu_tool.INSIDE))})\n")
    monkeypatch.setattr(main, "LIMITS", dict.fromkeys(main.LIMITS, 30))
    one = gpu_tool.build_measurement()
    document = {"devices": [{"name": "all", "containerEdits": {}}]}
    one.enter_each({"answers": {}, "specs": {kind: {"spec": document} for kind, _d in main.INSIDE}})
    assert [c["result"] for c in one.report.checks] == ["differs"] * 4


# A measurement that has a step run, and the step, which starts a program in a session of its own.
# Both hold a pipe open: it ends when they have.
MEASUREMENT = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.gpu import steps
steps.run([sys.executable, *sys.argv[2:]], 60)
"""
STEP = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from tests.gpu import steps
steps.bind_children()
pipe = open(sys.argv[2], "w")
begin = "exec 3>$0; echo begun >&3; exec sleep 60"
subprocess.run(["sh", "-c", begin, sys.argv[2]], start_new_session=True)
"""


def test_what_a_measurement_has_begun_dies_with_it(program: Path, tmp_path: Path) -> None:
    pipe, measurement, step = (tmp_path / name for name in ("pipe", "measurement.py", "step.py"))
    os.mkfifo(pipe)
    measurement.write_text(MEASUREMENT)
    step.write_text(STEP)
    command = [sys.executable, measurement, program, step, program, pipe]
    with subprocess.Popen(command) as parent, pipe.open() as held:
        assert held.readline() == "begun\n"
        parent.kill()
        assert held.read() == ""


def test_groups_of_a_measurement_that_was_killed_go(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    there = [f"{main.GROUPS}{gone.pid}-0", f"{main.GROUPS}{os.getpid()}-0", f"{main.GROUPS}x"]
    removed: list[str] = []
    monkeypatch.setattr(main.device_rules, "list_groups", lambda _prefix: there)
    monkeypatch.setattr(main.device_rules, "remove", removed.append)
    main.remove_left_groups()
    assert removed == there[:1]


@pytest.mark.parametrize("owner", [0, 65534])
def test_only_programs_of_root_are_run(
    owner: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("nvidia-smi", "nvidia-ctk"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/run\n")
        (folder / name).chmod(0o755)
    os.chown(folder, owner, owner)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    one = gpu_tool.build_measurement(Namespace(nvidia_ctk=str(folder / "nvidia-ctk"), change=False))
    answer = one.ask_smi()
    assert bool(one.find_ctk()) is (owner == 0)
    assert (tmp_path / "run").exists() is (owner == 0)
    codes = [check["code"] for check in one.report.checks]
    assert not [check for check in one.report.checks if str(tmp_path) in check["sentence"]]
    assert (codes, answer is None) == (([], False) if owner == 0 else (["untrusted"] * 2, True))
