# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A measurement that changes a machine puts everything back."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import (
    changing,
    main,
    report,
    steps,
)
from tests.unit import gpu_tool

MODES = {"compute mode": "Default", "time slice": "Default"}
SETTERS = {"-c": "compute mode", "--set-timeslice": "time slice"}
SLICES = ("Default", "Short", "Medium", "Long")


class Machine:
    """A GPU's modes and the daemon of MPS, behind the commands that change them.

    fails: the command, counted from 0, that ends with an error or raises.
    """

    def __init__(self, fails: int = -1, error: BaseException | None = None) -> None:
        self.modes, self.daemon = dict(MODES), False
        self.asked, self.fails, self.error = 0, fails, error

    def run(
        self, argv: list[str], _seconds: float, stdin: bytes = b"", environment: Any = None
    ) -> tuple[int, str, str]:
        self.asked += 1
        if argv == [changing.CONTROL, "-d"]:
            Path(environment["CUDA_MPS_PIPE_DIRECTORY"], "control").touch()
        if self.asked - 1 == self.fails:
            if self.error:
                self.act(argv, stdin)  # it was done, and its end is not known
                raise self.error
            return 1, "", "lost\n"
        return 0, self.act(argv, stdin), ""

    def act(self, argv: list[str], stdin: bytes) -> str:
        if argv[0] == changing.CONTROL:
            self.daemon = stdin != b"quit\n"
            return "100.0\n"
        for word, mode in SETTERS.items():
            if word in argv:
                value = argv[argv.index(word) + 1]
                self.modes[mode] = SLICES[int(value)] if value.isdigit() else value.title()
                return ""
        if argv == changing.IN_USE:
            return ""
        if "compute-policy" in argv:
            return f"|   0     Timeslice        {self.modes['time slice']}   |\n"
        return self.modes["compute mode"] + "\n"


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(changing, "NOTES", tmp_path / "notes")
    return tmp_path / "notes"


def change(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> main.Measurement:
    monkeypatch.setattr(steps, "run", machine.run)
    one = gpu_tool.build_measurement(Namespace(nvidia_ctk="", change=True))
    one.found["own"] = gpu_tool.OWN
    try:
        one.change()
    except main.Interrupted:
        one.report.add("measurement", report.FAILED, "A.", 0, "interrupted")
    return one


def test_every_change_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    one = change(machine, monkeypatch)
    assert [c["result"] for c in one.report.checks] == ["same"] * 4
    assert (machine.modes, machine.daemon) == (MODES, False)


LAST = 9  # commands of a whole change, before anything is put back
ERRORS = {
    "fails": None,
    "hangs": steps.Failed("timeout", "It hangs."),
    "is ended": main.Interrupted("A signal"),
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("at", range(LAST))
def test_whatever_happens_is_put_back(at: int, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(at, ERRORS[error])
    one = change(machine, monkeypatch)
    assert (machine.modes, machine.daemon) == (MODES, False)
    assert report.STATUSES[one.report.get_outcome()] > 1


class Killed(BaseException):
    """SIGKILL, after which nothing of the program is done."""


@pytest.mark.parametrize("at", range(LAST))
def test_what_a_killed_measurement_has_left_is_put_back_by_the_next(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(at, Killed())
    with monkeypatch.context() as dying:
        dying.setattr(main.Measurement, "put_back", lambda *_more: None)
        with pytest.raises(Killed):
            change(machine, dying)
    begun = len(changing.read_notes())
    told = gpu_tool.build_measurement()
    told.tell_left_changes()
    assert [c["code"] for c in told.report.checks] == ["not-put-back"] * bool(begun)
    machine.fails, left = -1, dict(machine.modes)
    monkeypatch.setattr(main.Measurement, "make_changes", lambda *_more: None)
    one = change(machine, monkeypatch)
    assert (machine.modes, machine.daemon) == (MODES, False), left
    assert [c["name"] for c in one.report.checks] == ["put back what was left"] * bool(begun)
    assert changing.read_notes() == []


def test_what_is_another_since_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    gpu = gpu_tool.OWN["gpus"][0]["uuid"]
    begun = changing.Begun(gpu, "compute mode", "DEFAULT", "EXCLUSIVE_PROCESS")
    changing.NOTES.mkdir()
    changing.write_notes([begun])
    machine.modes["compute mode"] = "Prohibited"
    monkeypatch.setattr(main.Measurement, "make_changes", lambda *_more: None)
    change(machine, monkeypatch)
    assert machine.modes["compute mode"] == "Prohibited"
    assert changing.read_notes() == []


def test_what_cannot_be_put_back_stays_noted_and_nothing_else_is_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(LAST)
    change(machine, monkeypatch)
    (left,) = changing.read_notes()
    machine.fails = machine.asked
    assert [c["name"] for c in change(machine, monkeypatch).report.checks] == [
        "put back what was left"
    ]
    assert changing.read_notes() == [left]
    machine.fails = -1
    assert change(machine, monkeypatch).report.get_outcome() == "same"
    assert (machine.modes, machine.daemon) == (MODES, False)


def test_two_measurements_do_not_change_a_machine_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    with changing.take_turn():
        one = change(machine, monkeypatch)
    assert [(c["name"], c["result"]) for c in one.report.checks] == [("changes", "failed")]
    assert machine.asked == 0


def test_notes_that_cannot_be_read_stop_every_change(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes.mkdir()
    (notes / "begun").write_text("[{")
    machine = Machine()
    assert change(machine, monkeypatch).report.get_outcome() == "failed"
    assert machine.asked == 0


def test_what_cannot_be_put_back_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(LAST)
    one = change(machine, monkeypatch)
    assert one.report.get_outcome() == "not-put-back"


def test_gpus_in_use_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setattr(machine, "act", lambda _argv, _stdin: "4711\n")
    one = change(machine, monkeypatch)
    assert [(c["name"], c["code"]) for c in one.report.checks] == [("changes", "in-use"), ("put back", "")]  # fmt: skip
    assert machine.asked == 1
