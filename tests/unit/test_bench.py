# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bench's frame: what has been measured is told, and nothing else, whatever ends the bench."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench import __main__ as bench
from tests.bench import bounds, fleet, stand_in, table, whole, worst
from tests.bench.fleet import Scale
from tests.bench.host import Outage
from tests.bench.planner import Speed
from tests.lab import doctor

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted(
    f"tests.bench.{path.stem}"
    for path in (ROOT / "tests" / "bench").glob("[a-z]*.py")
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8") and path.stem != "stand_in"
)
ONE = Speed("a converged host", 3.0, 4.5, 1.5)
WHOLE = [
    whole.Whole(playbook, state, hosts, 1, 60.0, 50.0)
    for playbook, state in (("plan", whole.DUE), ("plan", whole.DONE), ("rollout", whole.DUE))
    for hosts in whole.SIZES
]


class NoLab:
    """A lab without hosts."""

    @classmethod
    def of_run(cls, _what: str) -> NoLab:
        return cls()

    def __enter__(self) -> NoLab:
        return self

    def __exit__(self, *_error: object) -> None:
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN, "hosts are being taken down"


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the bench, which is ended in some way after its first row."""
    monkeypatch.setattr(doctor, "machine_obstacle", lambda: "")
    monkeypatch.setattr(bench, "Lab", NoLab)
    before = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    }

    def run(how: Any, *arguments: str) -> int:
        def measure(_lab: object, here: bench.Bench) -> None:
            here.say("the first thing")
            here.keep(speeds=[ONE])
            here.say("the second thing")
            how()

        monkeypatch.setattr(bench, "measure", measure)
        return bench.main(list(arguments))

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


def failed() -> None:
    raise bench.Failed("a run ended with status 2")


@pytest.mark.parametrize(
    ("how", "arguments", "why"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGINT), (), "it was stopped"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), (), "it was stopped"),
        (signal.pause, ("--minutes", "0.002"), "it did not end within 0.002 minutes"),
        (failed, (), "a run ended with status 2"),
    ],
    ids=["Ctrl-C", "terminated", "out of time", "failed"],
)
def test_what_has_been_measured_is_told(
    ends: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    how: Any,
    arguments: Any,
    why: str,
) -> None:
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    assert ends(how, "--write", *arguments) == 1
    said = capsys.readouterr()
    assert "1 of 9: the first thing ..." in said.out
    (row,) = [line for line in said.out.splitlines() if line.startswith("| a converged host ")]
    assert [cell.strip() for cell in row.strip("|").split("|")][:4] == [
        ONE.what,
        "4.5",
        "3",
        "3.00",
    ]
    assert "SSH operations" not in said.out, "a table without rows"
    assert said.err == f"bench: not all was measured: {why}\n"
    assert list(tmp_path.iterdir()) == [], "the page has all or is not written"


def test_a_row_above_its_bound_fails_the_bench(
    ends: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "BOUNDS", {"planner, a converged host": 2.9})
    assert ends(lambda: None) == 1
    said = capsys.readouterr()
    assert "| 3.00 " in said.out
    assert "| 2.9 " in said.out
    assert said.err == "bench: above its bound: planner, a converged host: 3, with a bound of 2.9\n"


def test_the_page_explains_the_tables_as_the_bench_does() -> None:
    page = (ROOT / "docs/bench.md").read_text()
    assert page.startswith(f"# Speed\n\n{table.INTRODUCTION}\n\nIn short:\n\n- `plan` for 40 ")
    assert f" |\n\n{table.EXPLANATION}\n\nVersions:\n\n- " in page


def test_the_page_begins_with_the_figures_that_people_come_for() -> None:
    measured = table.Measured(
        whole=(whole.Whole("plan", "each host is as desired", 1000, 1, 60.0, 50.0),),
        outages=(Outage("a", 0.1, 0.12), Outage("b", 0.1, 0.11)),
    )
    assert table.summarize(measured).splitlines() == [
        "In short:",
        "",
        "- `plan` for 1000 hosts takes the controller 60 s of processor time (each host is as desired).",
        (
            "- During a change, the engine is away for 0.11 to 0.12 s, at most 1.20 times as long"
            " as in a bare `systemctl restart`. Docker is left out."
        ),
    ]


def test_a_bound_is_one_of_a_row_that_the_bench_measures() -> None:
    engines = ("containerd-1.7", "containerd-2.3", "crio-1.34")
    ping = "`host`, converged, to `ansible.builtin.ping`"
    known = {
        *(f"{ping}, {what}" for what in ("10 tasks in a play", "40 hosts, one task")),
        *(table.name_whole(row) for row in WHOLE),
        *(
            f"planner, {what}"
            for what in ("a converged host", "a host where everything is to be done")
        ),
        *(
            f"{what}, {engine}"
            for what in ("a look", "bytes of a look", "bytes of a change")
            for engine in engines
        ),
    }
    assert {row.partition(": ")[0] for row in bounds.BOUNDS} <= known


def test_nothing_measured_is_no_table() -> None:
    assert table.text(table.Measured()) == ""


def test_a_rollout_of_many_hosts_takes_of_each_host_what_one_of_few_takes() -> None:
    small = Scale(1000, 0.5, 1.0, 1.0, 2.0, 22, 50 << 20, 10 << 20, 80 << 20)
    large = Scale(10_000, 5.0, 10.0, 20.0, 20.0, 22, 500 << 20, 50 << 20, 700 << 20)
    said = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.scaled([small, large]).splitlines()
    ]
    assert said[2] == [
        "1000 hosts in 22 batches",
        "1.0 ms",
        "1.0 ms",
        "2.0 ms",
        "51.2 KiB",
        "10.2 KiB",
        "80 MiB in all",
    ]
    assert said[-1] == ["the ratio of the two", "1.00", "2.00", "1.00", "1.00", "0.50", ""]


def test_a_played_rollout_goes_through_all_its_steps(tmp_path: Path) -> None:
    """Who measures it does so rarely: that it still runs is seen here."""
    file = tmp_path / "look.json"
    change = {
        "what": "file",
        "path": "/etc/containerd/config.toml",
        "key": "",
        "before": None,
        "after": True,
        "why": "it is off",
    }
    file.write_text(
        json.dumps(
            {"differences": [change], "would_restart": [], "driver": {"gpus": [{"model": "x"}]}}
        )
    )
    found = fleet.one(100, str(file))
    assert (found.hosts, found.batches > 4, found.plan > 0, found.report > 0) == (
        100,
        True,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("job", "name"),
    [
        ({"main": "transaction.entry", "request": {"check": True}}, "transaction.entry check"),
        ({"main": "transaction.entry", "request": {"check": False}}, "transaction.entry"),
        ({"main": "transaction.entry", "request": {}}, "transaction.entry"),
        ({"main": "container_test.entry", "request": {}}, "container_test.entry"),
    ],
)
def test_a_check_of_a_change_is_no_change_to_the_host_that_stands_in(
    job: dict[str, Any], name: str
) -> None:
    """A plan that has its files judged by the host would otherwise leave it as desired."""
    assert stand_in.name_question(job) == name


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_finds_what_it_imports(program: str) -> None:
    """A part of the bench is a process of its own, which has only the checkout's own path."""
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import runpy; runpy.run_module({program!r}, run_name='loaded', alter_sys=True)",
        ],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )
    assert loaded.returncode == 0, loaded.stderr[-2000:]


@pytest.mark.parametrize("kind", worst.EDITS)
def test_largest_file_of_the_bench_is_read(kind: str) -> None:
    assert worst.EDITS[kind](worst.MANY_HANDLERS)
