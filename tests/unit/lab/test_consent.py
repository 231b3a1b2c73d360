# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages are installed on a person's machine after a yes; where nobody can be asked,
nothing waits for an answer.
"""

from __future__ import annotations

import io

import pytest

from tests.lab import LabError, doctor


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What is run, on a machine that lacks two packages."""
    ran: list[list[str]] = []
    monkeypatch.setattr(doctor, "machine_obstacle", lambda: "")
    monkeypatch.setattr(doctor, "missing", lambda: ["mmdebstrap", "busybox-static"])
    monkeypatch.setattr(doctor, "run", lambda command, **_more: ran.append(command))
    monkeypatch.delenv("YES", raising=False)
    return ran


@pytest.mark.parametrize("answer", ["y\n", "Yes\n", " yes \n"])
def test_a_yes_installs(
    installed: list[list[str]], monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    doctor.prepare()
    assert installed[-1][-2:] == ["mmdebstrap", "busybox-static"]


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "no\n", "what?\n"])
def test_anything_else_installs_nothing_and_names_the_command(
    installed: list[list[str]], monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    with pytest.raises(
        LabError, match="Nothing was installed.*apt-get install mmdebstrap busybox-static"
    ):
        doctor.prepare()
    assert installed == []


@pytest.mark.parametrize(("stdin", "yes"), [(io.StringIO(), ""), (Terminal("n\n"), "1")])
def test_without_a_terminal_and_with_yes_nobody_is_asked(
    installed: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stdin: io.StringIO,
    yes: str,
) -> None:
    monkeypatch.setattr("sys.stdin", stdin)
    monkeypatch.setenv("YES", yes)
    doctor.prepare()
    assert len(installed) == 2
    assert (
        "The lab needs Debian packages that this machine does not have: mmdebstrap busybox-static."
        in capsys.readouterr().err
    )


def test_a_machine_that_has_all_is_asked_nothing(
    installed: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "missing", list)
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    doctor.prepare()
    assert installed == []
