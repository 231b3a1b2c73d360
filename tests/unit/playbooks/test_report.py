# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a playbook's run ends with, for people and for programs: table, exit status, statistics,
output that a program parses.

Real runs of ansible-playbook over `connection: local`, each host a bare directory tree; a lost host
is one whose connection is refused.
"""

from __future__ import annotations

import dataclasses as dc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import preloaded
from tests.night import ONE_ROW, leave_rest, leave_unless

ROOT = Path(__file__).resolve().parents[3]

LOST = '''
DOCUMENTATION = """
name: lost
short_description: A host that cannot be reached
description: Refuses every connection.
"""
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

class Connection(ConnectionBase):
    transport = "lost"
    has_pipelining = True

    def _connect(self):
        raise AnsibleConnectionFailure("connection refused")

    def exec_command(self, *given, **more):
        self._connect()

    put_file = fetch_file = exec_command

    def close(self):
        pass
'''
# As ansible.posix.json: one JSON value on stdout, and nothing else.
JSON = '''
DOCUMENTATION = """
name: json
type: stdout
short_description: JSON
description: Results and statistics as one JSON value.
"""
import json
from ansible.plugins.callback import CallbackBase

class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "json"

    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        self.kept = []

    def v2_runner_on_ok(self, result, **more):
        self.kept.append([result._task.action, json.loads(json.dumps(result._result, default=str))])

    def v2_playbook_on_stats(self, stats):
        print(json.dumps({"results": self.kept, "stats": stats.custom.get("_run") or {}}, default=str))
'''


@dc.dataclass(frozen=True)
class Run:
    status: int
    words: str
    errors: str


@dc.dataclass(frozen=True)
class Place:
    """A folder with plugins for the tests, and trees that hosts are made of."""

    folder: Path

    def play(self, playbook: Any, hosts: Sequence[str], *arguments: str, **environment: str) -> Run:
        """Names of hosts say what they are: lost1 cannot be reached, all others are trees with
        CRI-O or containerd 1.7.
        """
        path = ROOT / "playbooks" / f"{playbook}.yml"
        if not isinstance(playbook, str):
            path = self.folder / "play.json"
            path.write_text(json.dumps(playbook))
        inventory = self.folder / "inventory.json"
        inventory.write_text(
            json.dumps({"all": {"hosts": {name: self.host(name) for name in hosts}}})
        )
        settings = {
            "ANSIBLE_CONNECTION_PLUGINS": str(self.folder / "connections"),
            "ANSIBLE_CALLBACK_PLUGINS": str(self.folder / "callbacks"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "COLUMNS": "160",
        }
        command = [
            str(Path(sys.executable).with_name("ansible-playbook")),
            "-i",
            str(inventory),
            str(path),
            *arguments,
        ]
        done = preloaded.run(command, Path.cwd(), {**os.environ, **settings, **environment})
        return Run(done.returncode, done.stdout, done.stderr)

    def host(self, name: str) -> Mapping[str, Any]:
        if name.startswith("lost"):
            return {"ansible_connection": "lost"}
        engine, version = (
            ("crio", "1.34.2") if name.startswith("crio") else ("containerd", "1.7.24")
        )
        (self.folder / "trees" / name / "etc" / engine).mkdir(parents=True, exist_ok=True)
        return {
            "gpufleet_engines": [engine],
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "gpufleet_root": str(self.folder / "trees" / name),
            "gpufleet_engine_version": version,
            "gpufleet_no_gpu": "prepare",
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("report")
    for name, text in (("connections/lost.py", LOST), ("callbacks/json.py", JSON)):
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
    return Place(folder)


DRIFT = ("-e", '{"gpufleet_fail_on_drift": true}')
WRONG = ("-e", "gpufleet_drop_in_path=nosuch")
UNIFORM = ("-e", "gpufleet_fleet_policy=uniform")
# What AWX gives to the next job of a workflow: the totals of the one before.
OF_A_WORKFLOW = (
    "-e",
    '{"gpufleet_totals": {"hosts": 1}, "gpufleet_table_columns": [{"title": "iso", "path": "decision.isolation"}]}',
)
SOME = ("-e", '{"gpufleet_max_failed": 1}')
ENDS = [
    # playbook, hosts, arguments, whether the run is a success, a line of the output
    ("plan", ["gpu1", "gpu2"], (), True, "2 hosts: 2 would change"),
    (
        "plan",
        ["gpu1"],
        OF_A_WORKFLOW,
        True,
        "1 host: 1 would change, 0 need attention HOST ISO gpu1 strict",
    ),
    ("plan", ["gpu1"], DRIFT, False, "of 1 host: 1 would change (gpufleet_fail_on_drift is true)"),
    ("plan", ["gpu1", "lost1"], (), False, "2 hosts: 1 lost, 1 would change"),
    (
        "plan",
        ["gpu1", "lost1"],
        ("-e", "gpufleet_max_lost=50%"),
        True,
        "2 hosts: 1 lost, 1 would change",
    ),
    ("plan", ["lost1"], ("-e", "gpufleet_max_lost=1"), False, "1 host: 1 lost"),
    ("plan", ["lost1"], (), False, "1 host: 1 lost"),
    ("plan", ["gpu1", "gpu2"], WRONG, False, "2 hosts: 2 failed"),
    ("plan", ["gpu1", "crio1"], UNIFORM, False, "2 hosts: 2 would change"),
    ("verify", ["lost1"], ("-e", "gpufleet_verify_image=busybox"), False, "1 host: 1 lost"),
    (
        "verify",
        ["gpu1", "lost1"],
        (),
        False,
        "gpufleet_verify_image is not set, and the verification starts containers of it. Set it in the",
    ),
    ("journal", ["gpu1", "lost1"], (), False, "of 2 hosts: 1 lost: lost1"),
    ("refresh_cdi", ["gpu1"], (), True, "gpu1 none nothing to refresh: gpufleet.nvidia.site"),
    ("site", ["lost1"], (), False, "1 host: 1 lost"),
    (
        "site",
        ["gpu1", "lost1"],
        ("--check", "-e", "gpufleet_max_lost=50%", *SOME),
        False,
        "2 hosts: 1 lost, 1 would change",
    ),
    ("site", ["lost1", "gpu1", "gpu2"], ("--check",), False, "3 hosts: 1 lost, 2 not reached"),
    ("site", ["gpu1", "lost1"], ("--check", *SOME), False, "2 hosts: 1 lost, 1 would change"),
    (
        "site",
        ["gpu1"],
        ("--check", *DRIFT),
        False,
        "1 would change (gpufleet_fail_on_drift is true)",
    ),
    ("rollback", ["lost1"], (), False, "1 host: 1 lost"),
]


def is_by_day(row: tuple[Any, ...]) -> bool:
    """Tell whether a row is played by day: each playbook once with its first host lost, what else
    ends a plan, and the way to the next job.
    """
    playbook, hosts, arguments, *_end = row
    ends = (DRIFT, OF_A_WORKFLOW, UNIFORM, WRONG)
    return (
        hosts[0] == "lost1"
        or playbook in ("journal", "refresh_cdi")
        or (playbook == "plan" and arguments in ends)
    )


@pytest.mark.parametrize(
    ("playbook", "hosts", "arguments", "success", "line"), leave_unless(ONE_ROW, ENDS, is_by_day)
)
def test_a_run_ends_with_a_table_and_a_status_that_says_the_same(
    playbook: str,
    hosts: list[str],
    arguments: tuple[str, ...],
    success: bool,
    line: str,
    place: Place,
) -> None:
    run = place.play(playbook, hosts, *arguments)
    assert line in " ".join(run.words.split()), run.words + run.errors
    assert (run.status == 0) is success, run.words
    assert "gpufleet.nvidia.rollout does not read" not in run.words + run.errors, (
        "what no other playbook reads is said by rollout"
    )


def test_output_for_programs_is_one_value_with_lines_and_statistics(place: Place) -> None:
    run = place.play("plan", ["gpu1", "gpu2", "lost1"], ANSIBLE_STDOUT_CALLBACK="json")
    told = json.loads(run.words)
    shown = next(
        result for action, result in told["results"] if action == "gpufleet.nvidia.fleet_table"
    )
    assert shown["lines"][3].startswith("HOST   ENGINE")
    totals = told["stats"]["gpufleet_totals"]
    assert {key: value for key, value in totals.items() if value} == {
        "hosts": 3,
        "lost": 1,
        "would_change": 2,
        "needs_person": ["lost1"],
    }
    assert run.status != 0


def test_a_rollback_says_what_it_will_do_before_the_first_change(place: Place) -> None:
    assert place.play("site", ["gpu3"]).status == 0
    run = place.play("rollback", ["gpu3"])
    announced, deed = run.words.split("PLAY [Take the collection's changes back]")
    assert (
        "/etc/containerd/config.toml\n    present -> none\n      state: absent restores"
        in announced
    )
    assert "1 host: 1 would change" in announced
    assert "1 host: 1 changed" in deed
    assert run.status == 0


def table(**options: Any) -> list[dict[str, Any]]:
    look = {
        "gpufleet.nvidia.host_info": {"root": "{{ gpufleet_root }}", "engine_version": "1.7.24"},
        "register": "seen",
    }
    return [
        {
            "hosts": "all",
            "gather_facts": False,
            "tasks": [look, {"gpufleet.nvidia.fleet_table": options, "run_once": True}],
        }
    ]


def test_a_mistyped_variable_is_an_error_with_the_right_name(place: Place) -> None:
    run = place.play(table(results="sene"), ["gpu1"])
    assert "no host of the play has a variable sene. Did you mean seen?" in run.words + run.errors
    assert run.status != 0


def test_columns_of_ones_own_by_jmespath(place: Place) -> None:
    columns = [
        {"title": "isolation", "path": "decision.isolation"},
        {"title": "engines", "path": "instances[].engine | join(', ', @)"},
    ]
    run = place.play(table(results="seen", columns=columns), ["gpu1"])
    assert "HOST  ISOLATION  ENGINES\ngpu1  strict     containerd\n" in run.words


@pytest.mark.parametrize(
    ("path", "code"),
    leave_rest(
        ONE_ROW,
        [("a[?", "report-table.column-path"), ("join(',', nosuch)", "report-table.column-value")],
    ),
)
def test_a_wrong_path_is_an_error_that_names_it(path: str, code: str, place: Place) -> None:
    run = place.play(table(results="seen", columns=[{"title": "x", "path": path}]), ["gpu1"])
    said = " ".join((run.words + run.errors).split()).replace('\\"', '"')
    assert f"columns: {path!r} " in said, "a user's own task names the option"
    assert "gpufleet_table_columns" not in said
    assert f"[{code}]" in said
    assert run.status != 0


@pytest.mark.parametrize("columns", leave_rest(ONE_ROW, ["80", "200"]))
def test_no_line_of_the_table_is_wider_than_the_terminal(columns: str, place: Place) -> None:
    run = place.play("plan", ["gpu1", "lost1"], COLUMNS=columns)
    shown = run.words[run.words.index("HOST ") : run.words.index("TASK [Write the report")]
    assert max(len(line) for line in shown.splitlines()) <= int(columns)
    assert any("WHY" in line for line in shown.splitlines()) is (columns == "200")
