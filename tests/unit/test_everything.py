# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make test`: every test is in one part, a part that fails fails the run and is shown whole, and
no part outlives the run.
"""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import cgroup
from tests.unit import tool_modules

ROOT = Path(__file__).resolve().parents[2]
# Python that waits for a signal. signal.pause() would sleep through one that comes just before it.
WAITS = "while True: signal.sigtimedwait((), 1)"


@pytest.fixture(scope="module", autouse=True)
def tools() -> Iterator[None]:
    with tool_modules.reachable():
        yield


def script(name: str, code: str, load: float = 1.0, *, counted: bool = False) -> Any:
    import parts

    return parts.Part(name, (sys.executable, "-c", code), load, counted)


def ran(
    tmp_path: Path,
    *wanted: Any,
    processors: float = 2.0,
    memory: float = 100.0,
    limit: float = 60.0,
) -> list[Any]:
    import everything

    return everything.Run(wanted, processors, memory, tmp_path, limit).all()


def test_every_test_file_is_in_just_one_part() -> None:
    import parts

    named = Counter(
        word
        for part in parts.nightly()
        if part.counted
        for word in part.command
        if word.startswith("tests/")
    )
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests/integration").glob("test_*.py")}
    rollouts = {str(path.relative_to(ROOT)) for path in ROOT.glob(f"{parts.ROLLOUTS}*.py")}
    assert set(named) == {
        *files,
        *rollouts,
        *parts.LONG_ROLLOUTS,
        *parts.DAILY,
        "tests/unit",
        parts.PLUGINS,
        parts.PLANNER,
        parts.PLAYBOOKS,
        parts.RELEASE,
    }
    assert set(named.values()) == {1}
    left_out = [
        word
        for part in parts.nightly()
        if part.counted
        for word in part.command
        if word.startswith("--ignore")
    ]
    apart = (parts.PLANNER, parts.PLUGINS, parts.PLAYBOOKS, parts.RELEASE, *parts.DAILY)
    own_parts = [f"--ignore={path}" for path in apart]
    assert sorted(left_out) == sorted([*own_parts, f"--ignore-glob={parts.ROLLOUTS}*"]), (
        "what one part leaves out is a part of its own"
    )
    paths = (*parts.LONG_ROLLOUTS, *parts.DAILY)
    assert [path for path in paths if not (ROOT / path).is_file()] == []


def test_each_smaller_run_is_a_part_of_the_greater_one() -> None:
    import parts

    check, matrix, test, nightly = (
        {part.name for part in table()}
        for table in (parts.fast, parts.matrix, parts.parts, parts.nightly)
    )
    assert check < test < nightly
    assert check < matrix < nightly
    assert nightly - test == set(parts.NIGHTLY), "what waits for the night has its reason"
    assert [part.name for part in parts.matrix() if part.memory == parts.HOSTS_NEED] == [], (
        "no hosts"
    )


def test_each_test_that_is_left_to_the_night_has_its_reason() -> None:
    found = [
        node
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
    ]
    marks = [
        node
        for node in found
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.nightly"
    ]
    calls = [
        node
        for node in found
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.nightly"
    ]
    reasons = [ast.literal_eval(call.args[0]) for call in calls]
    assert len(reasons) == len(marks)
    assert all(reasons)


def test_no_part_is_twice_in_a_run() -> None:
    import parts

    for table in (parts.fast, parts.matrix, parts.parts, parts.nightly):
        assert [
            name for name, count in Counter(part.name for part in table()).items() if count > 1
        ] == []


def test_every_release_is_in_just_one_part() -> None:
    """Unit tests of the newest Python and ansible-core run in the environment that this runs in."""
    import environments
    import parts
    import sanity
    import unit_matrix

    run = Counter(
        word
        for part in parts.nightly()
        for word in part.command
        if re.match(r"(core|host|yaml)-\d|\d\.\d+(-|$)", word)
    )
    of_hosts = {name for name in environments.INTERPRETERS if name.startswith("host-")} - {
        f"host-3-{sys.version_info.minor}"
    }
    assert run == Counter({*unit_matrix.TESTS, *of_hosts, *sanity.SETS})


def test_each_set_of_an_old_release_has_an_environment_and_tests_that_exist() -> None:
    import environments
    import unit_matrix

    for name, tests in unit_matrix.TESTS.items():
        assert unit_matrix.find_environment(name) in environments.INTERPRETERS
        assert [
            path for path in tests if not path.startswith("-") and not (ROOT / path).exists()
        ] == []


def test_files_that_read_one_story_are_in_one_part() -> None:
    import parts

    readers = set()
    for path in (ROOT / "tests/integration").glob("test_*.py"):
        functions = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef)
        ]
        if any(
            argument.arg == "story" for function in functions for argument in function.args.args
        ):
            readers.add(path.stem.removeprefix("test_"))
    assert readers == set(parts.LAB["story"])


def test_no_two_parts_have_one_log() -> None:
    import everything
    import parts

    run = everything.Run(parts.nightly(), 2)
    assert len({run._log(part) for part in parts.nightly()}) == len(parts.nightly())


REPORT = """<testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="test_one[x]" time="1.5"/>
<testcase classname="tests.unit.test_a.TestB" name="test_two" time="0.5"/>
<testcase classname="tests.unit.core.test_c" name="test_three" time="3"/>
</testsuite></testsuites>"""


def test_durations_are_told_by_file(tmp_path: Path) -> None:
    import durations

    (tmp_path / "unit.xml").write_text(REPORT)
    (tmp_path / "unit.log").write_text("")
    seconds, tests = durations.count_files(tmp_path)
    assert seconds == {"tests/unit/test_a.py": 2.0, "tests/unit/core/test_c.py": 3.0}
    assert tests == {"tests/unit/test_a.py": 2, "tests/unit/core/test_c.py": 1}


def test_a_part_that_fails_is_shown_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import everything

    reason = "FAILED tests/x.py::test_y - why"
    found = ran(
        tmp_path,
        script(
            "bad",
            f'print("its reason\\n{reason}\\n1 failed, 2 passed in 0.10s"); exit(1)',
            counted=True,
        ),
        script(
            "good",
            "print('what nobody needs to see'); print('3 passed, 1 skipped, 1 warning in 0.10s')",
            counted=True,
        ),
        script("not counted", "print('9 passed in 0.10s')"),
    )
    said = capsys.readouterr().out
    assert {one.part.name: one.passed for one in found} == {
        "bad": False,
        "good": True,
        "not counted": True,
    }
    assert "its reason" in said
    assert "what nobody needs to see" not in said
    assert said.count("begins") == 3
    end = everything.list_closing_lines(found, 3725.5)
    assert end[-1] == "1 failed, 5 passed, 1 skipped in 3725.50s (1:02:05)"
    assert reason in end
    assert any(line.startswith("FAILED: bad ") for line in end)


@pytest.mark.parametrize(
    "found", [signal.default_int_handler, signal.SIG_IGN], ids=["terminal", "background"]
)
def test_a_part_that_does_not_end_is_ended_and_has_failed(
    found: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By an interrupt, also where the shell that has begun the run in the background has it ignore
    those.
    """
    before = signal.signal(signal.SIGINT, found)
    try:
        (one,) = ran(tmp_path, script("hangs", f"import signal\n{WAITS}"), limit=0.2)
        assert signal.getsignal(signal.SIGINT) is found
    finally:
        signal.signal(signal.SIGINT, before)
    assert one.status in (-signal.SIGINT, 1), "not killed"
    assert "did not come to an end" in capsys.readouterr().out


def test_a_part_that_takes_its_end_for_success_has_failed(tmp_path: Path) -> None:
    code = f"import signal, sys; signal.signal(signal.SIGINT, lambda *_: sys.exit(0))\n{WAITS}"
    (one,) = ran(tmp_path, script("hangs", code), limit=1)
    assert not one.passed


def test_parts_keep_what_they_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    import everything

    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("GPUFLEET_ELSE", "as it was")
    assert "PYTHONDONTWRITEBYTECODE" not in everything.build_environment()
    assert everything.build_environment()["GPUFLEET_ELSE"] == "as it was"


def test_a_part_that_cannot_be_found_has_failed(tmp_path: Path) -> None:
    import parts

    (one,) = ran(tmp_path, parts.Part("nowhere", (str(tmp_path / "nowhere"),), 1.0))
    assert not one.passed


@pytest.mark.parametrize(
    ("loads", "memory", "most"),
    [
        ([1.0, 1.0, 1.0, 1.0], 100.0, 2),
        ([0.5, 0.5, 0.5, 0.5, 0.5], 100.0, 4),
        ([0.44, 0.44, 0.44, 0.44, 0.44], 7.0, 2),  # hosts need 3 each
        ([3.0, 3.0], 100.0, 1),  # more than there is: alone
        ([0.5, 0.5], 1.0, 1),
    ],
)
def test_parts_run_side_by_side_as_far_as_processors_and_memory_go(
    tmp_path: Path, loads: list[float], memory: float, most: int
) -> None:
    """Each part waits until as many run as may, and says how many it has seen."""
    import parts

    assert parts.WAITING == 0.44, "the load by which a part on hosts is known"
    place = tmp_path / "here"
    place.mkdir()
    code = (
        "import pathlib; from tests.lab import cgroup; here = pathlib.Path({here!r}); me = here / {name!r}; me.touch(); seen = 0\n"
        "for turn in cgroup.until('the others to begin', 30):\n"
        # one that ends between two steps of a listing is in one of two listings alone
        "    both = [{{p for p in here.iterdir() if p.suffix != '.done'}} for _ in range(2)]\n"
        "    seen = max(seen, len(both[0] & both[1]))\n"
        "    if seen >= {most} or len([*here.iterdir()]) > {most}: break\n"
        "me.rename(me.with_suffix('.done')); print(seen)"
    )
    wanted = [
        script(f"p{n}", code.format(here=str(place), name=f"p{n}", most=most), load)
        for n, load in enumerate(loads)
    ]
    found = ran(tmp_path / "logs", *wanted, processors=2.0, memory=memory)
    assert max(int(one.words) for one in found) == most


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_part_outlives_the_run(tmp_path: Path, number: int) -> None:
    """Whatever ends the run, a part is interrupted, so it takes its hosts down."""
    child = f"import pathlib, signal, sys\ntry:\n    pathlib.Path({str(tmp_path / 'up')!r}).touch()\n    {WAITS}\n"
    child += f"except KeyboardInterrupt:\n    pathlib.Path({str(tmp_path / 'down')!r}).touch()"
    program = (
        f"import sys, signal; sys.path.insert(0, {str(tool_modules.TOOLS)!r}); import everything, parts\n"
        f"signal.signal(signal.SIGTERM, everything.stop); signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"from pathlib import Path\n"
        f"everything.IN_MEMORY = Path({str(tmp_path)!r})\n"
        f"everything.Run([parts.Part('p', (sys.executable, '-c', {child!r}), 1.0)], 1.0, 100.0, Path({str(tmp_path / 'logs')!r})).all()"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(tmp_path / "up")
    os.kill(run.pid, number)
    run.wait(60)
    wait_for(tmp_path / "down")


def wait_for(path: Path) -> None:
    for _turn in cgroup.until(f"{path} to be there", 60):
        if path.exists():
            return


def test_the_processor_time_of_a_part_has_that_of_its_children(tmp_path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    (one,) = ran(tmp_path, script("a", code))
    assert one.passed
    assert one.processor >= 0.2


def test_unit_tests_have_their_files_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import everything
    import parts

    here = tmp_path / "memory"
    here.mkdir()
    monkeypatch.setattr(everything, "IN_MEMORY", here)
    monkeypatch.delenv("PYTEST_DEBUG_TEMPROOT", raising=False)
    code = "import os; print(os.environ.get('PYTEST_DEBUG_TEMPROOT', 'nothing'))"
    command = (sys.executable, "-c", code)
    unit = parts.Part("unit", (*command, "tests/unit"), 1.0)
    found = ran(tmp_path, unit, parts.Part("lab", (*command, "tests/integration"), 1.0))
    said = {one.part.name: one.words.strip() for one in found}
    assert Path(said["unit"]).parent == here
    assert said["lab"] == "nothing"
    assert list(here.iterdir()) == [], "it is removed at the end"


def test_without_a_file_system_in_memory_files_are_where_pytest_puts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import everything

    monkeypatch.setattr(everything, "IN_MEMORY", tmp_path / "none")
    with everything.make_folder_in_memory() as place:
        assert place is None
