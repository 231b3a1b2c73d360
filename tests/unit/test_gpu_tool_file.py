# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in the one file that measures a machine, and which Pythons run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.gpu import (
    build,
    main,
)
from tests.lab import recorded
from tests.unit import gpu_tool


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gpu_tool.build_program(tmp_path_factory.mktemp("gpu"))


def test_the_same_checkout_makes_the_same_bytes(program: Path, tmp_path: Path) -> None:
    build.write(tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == program.read_bytes()


def test_it_needs_the_standard_library_alone(program: Path, tmp_path: Path) -> None:
    request = {"answer": {"schema": 1, **gpu_tool.NODE.seen}, "ctk": ""}
    done = gpu_tool.run_program([*gpu_tool.BARE, program, "--step", "specs"], request)
    made = json.loads(done.stdout)["specs"]
    assert {kind: len(one["spec"]["devices"]) for kind, one in made.items()} == {
        "full": 3,
        "hookless": 3,
        "devices": 3,
        "by-model": 2,
        "management": 3,
        "imex-channels": 0,
        "nvswitches": 0,
    }


def test_a_look_runs_from_the_file(program: Path) -> None:
    done = gpu_tool.run_program([*gpu_tool.BARE, program, "--step", "look"], {"of": "driver"})
    answer = json.loads(done.stdout)["answer"]
    assert answer["schema"] == 1
    assert "file:/proc/driver/nvidia/version" in answer["answers"]


# What the planner's part is: all else runs on the look's Python.
OF_PLANNER = ("build", "changing", "spec_facts", "specs")
READ = "import sys; compile(open(sys.argv[1], encoding='utf-8').read(), sys.argv[1], 'exec')"


def find_python(release: str) -> str:
    """Return an interpreter of a release. Skip the test if none is at hand."""
    finder = Path(__file__).resolve().parents[1] / "tools" / "find-python"
    found = gpu_tool.run_program([finder, release]).stdout.strip()
    if not found:
        pytest.skip(f"no Python {release} is at hand")
    return found


def test_the_look_runs_on_python_3_6(program: Path) -> None:
    python = find_python("3.6")
    done = gpu_tool.run_program(
        [python, "-I", "-S", "-B", program, "--step", "look"], {"of": "driver"}
    )
    assert json.loads(done.stdout)["answer"]["host"]["python"][:2] == [3, 6]
    files = [f for f in Path(main.__file__).parent.glob("*.py") if f.stem not in OF_PLANNER]
    assert [f.name for f in files if gpu_tool.run_program([python, "-c", READ, f]).returncode] == []


def test_specs_are_made_on_python_3_10(program: Path) -> None:
    python = find_python("3.10")
    request = {"answer": {"schema": 1, **gpu_tool.NODE.seen}, "ctk": ""}
    done = gpu_tool.run_program([python, "-I", "-S", "-B", program, "--step", "specs"], request)
    assert json.loads(done.stdout)["driver"] == gpu_tool.NODE.inventory.version


def build_seen(gpus: str) -> str:
    """Return a capture whose answers have these GPUs."""
    answers = f'{{"probe:nvml": {{"value": {{"gpus": {gpus}}}}}, "probe:x": 5}}'
    return f'{{"schema": 2, "nodes": {{"a": {{"gpus": [5], "seen": {{"answers": {answers}}}}}}}}}'


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("[]", 2, "other-schema"),
        ('{"schema": 2', 2, "truncated"),
        ('{"schema": 2, "nodes": {}}', 2, "no-node"),
        ('{"schema": 2, "nodes": {"a": []}}', 2, "no-node"),
        ('{"schema": 2, "nodes": {"\\u001b[2J": {}}}', 2, "no-node"),
        ("[" * 100_000, 2, "truncated"),
        (build_seen("[1]"), 2, "unknown-gpu"),
        (build_seen('[{"bus_id": {}}]'), 2, "unknown-gpu"),
        (build_seen('[{"bus_id": "\\u001b[2J"}]'), 2, "unknown-gpu"),
        (None, 2, "no-file"),
    ],
)
def test_a_bad_capture_ends_the_program(
    program: Path, tmp_path: Path, text: str | None, status: int, code: str
) -> None:
    file = tmp_path / "capture.json"
    if text is not None:
        file.write_text(text)
    done = gpu_tool.run_program([*gpu_tool.BARE, program, "--check", file])
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith(f"gpufleet-gpu: {code}: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr.rstrip().isprintable()


@pytest.mark.parametrize("file", sorted(recorded.CAPTURES.glob("*.json")), ids=lambda f: f.stem)
def test_a_good_capture_is_read(program: Path, file: Path) -> None:
    assert gpu_tool.run_program([*gpu_tool.BARE, program, "--check", file]).returncode == 0
