# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a lab is: a process that lives keeps its own, however often others ask; one that is dead
keeps none.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab import artefacts, claims

HOLDS = """
import sys
from pathlib import Path
from tests.lab import claims
claim = claims.take(Path(sys.argv[1]))
claim.write(kept=False)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(claims, "RUNTIME", tmp_path)
    (tmp_path / "one").mkdir()
    return tmp_path / "one"


def test_it_is_held_as_long_as_its_process_lives_and_no_longer(place: Path) -> None:
    command = [sys.executable, "-c", HOLDS, str(place)]
    with subprocess.Popen(
        command, cwd=artefacts.REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        assert claims.take(place) is None
        assert claims.is_lab_in_use("one")
        process.kill()
    assert not claims.is_lab_in_use("one")
    assert [(name, owner.pid, owner.kept) for name, owner in claims.list_labs_of_checkout()] == [
        ("one", process.pid, False)
    ]
    claim = claims.take(place)
    assert claim
    assert claims.take(place) is None, "also not twice by one process"
    claim.release()


def test_who_has_taken_a_lab_away_leaves_no_claim_on_the_next_one_of_that_name(place: Path) -> None:
    old = claims.take(place)
    assert old
    (place / claims.OWNER).unlink()
    new = claims.take(place)
    assert new
    old.release()
    assert claims.take(place) is None
    new.release()


@pytest.mark.parametrize(
    "text",
    [
        None,  # not yet written, or a lab of an older checkout
        "",
        "{",
        "{}",
        json.dumps(
            {
                "checkout": "/elsewhere",
                "home": "/elsewhere/.cache/lab",
                "pid": 1,
                "command": "x",
                "kept": False,
            }
        ),
    ],
)
def test_a_lab_of_another_checkout_or_of_nobody_is_none_of_this_checkout(
    place: Path, text: str | None
) -> None:
    if text is not None:
        (place / claims.OWNER).write_text(text)
    assert list(claims.list_labs_of_checkout()) == []


def test_a_lab_that_is_not_there_cannot_be_claimed(place: Path) -> None:
    assert claims.take(place / "nothing") is None
