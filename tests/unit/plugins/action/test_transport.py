# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a program is run on a host: by stdin or as a module, and what a host says that returns no
answer.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import observe
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    host_answers,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

from tests.unit.coded import read_coded
from tests.unit.sent_programs import PYTHON, REQUEST, begun


class Action:
    """What the transport needs of an action: a connection that runs commands here."""

    def __init__(
        self,
        tmp_path: Any,
        *,
        pipelining: bool = True,
        become: Any = None,
        noise: str = "",
        environment: str = "",
    ) -> None:
        self._connection = SimpleNamespace(has_pipelining=pipelining, become=become)
        self._templar = SimpleNamespace(template=lambda value: value)
        self._task = SimpleNamespace(delegate_to=None, check_mode=True)
        self.noise, self.environment, self.sent, self.modules = noise, environment, [], []

    def _compute_environment_string(self, raw_environment_out: dict[str, Any] | None = None) -> str:
        if raw_environment_out is not None:
            raw_environment_out.update(word.split("=", 1) for word in shlex.split(self.environment))
        return self.environment

    def _low_level_execute_command(self, line: str, in_data: bytes) -> dict[str, Any]:
        self.sent.append((line, in_data))
        done = subprocess.run(
            ["/bin/sh", "-c", line], input=in_data, capture_output=True, check=False
        )
        return {
            "rc": done.returncode,
            "stdout": self.noise + done.stdout.decode(),
            "stderr": done.stderr.decode(),
        }

    def _execute_module(
        self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        self.modules.append(module_name)
        return {"answer": host_answers.pack({"by": "module"})}


@pytest.mark.parametrize(
    "noise", ["", "Welcome to node7!\nLast login: never\n", "no newline at the end"]
)
def test_the_answer_is_found_among_a_login_banner(tmp_path: Any, noise: str) -> None:
    answer = transport.run_host_program(Action(tmp_path, noise=noise), "observe", REQUEST, PYTHON)  # type: ignore[arg-type]
    assert answer["answers"]["file:/etc/hostname"]["exists"] is True


def test_an_interpreter_is_found_without_being_named(tmp_path: Any) -> None:
    answer = transport.run_host_program(Action(tmp_path), "observe", REQUEST, {})  # type: ignore[arg-type]
    assert answer["host"]["python"][0] == 3


def test_the_request_is_not_readable_in_a_debug_log(tmp_path: Any) -> None:
    action = Action(tmp_path)
    transport.run_host_program(action, "observe", REQUEST, PYTHON)  # type: ignore[arg-type]
    assert b"/etc/hostname" not in action.sent[0][1]


SU = SimpleNamespace(name="su")
SUDO = SimpleNamespace(name="sudo", pipelining=True)
NO_PIPE = SimpleNamespace(name="ksu", pipelining=False)
# run0 and doas of an older community.general
TERMINAL = SimpleNamespace(name="community.general.run0", require_tty=True)
DOAS = SimpleNamespace(name="community.general.doas", require_tty=False)


@pytest.mark.parametrize(
    ("pipelining", "become", "way", "modules"),
    [
        (True, None, "auto", []),
        (True, SUDO, "auto", []),
        (True, DOAS, "auto", []),
        (True, SU, "auto", ["gpufleet.nvidia.host_program"]),
        (True, NO_PIPE, "auto", ["gpufleet.nvidia.host_program"]),
        (True, TERMINAL, "auto", ["gpufleet.nvidia.host_program"]),
        (False, None, "auto", ["gpufleet.nvidia.host_program"]),
        (True, None, "module", ["gpufleet.nvidia.host_program"]),
    ],
)
def test_a_connection_that_gives_commands_no_stdin_gets_the_module(
    tmp_path: Any, pipelining: bool, become: Any, way: str, modules: list[str]
) -> None:
    action = Action(tmp_path, pipelining=pipelining, become=become)
    transport.run_host_program(action, "observe", REQUEST, PYTHON, way)  # type: ignore[arg-type]
    assert action.modules == modules


# What a become method prints over stdin, its exit status, and the code with transport=stdin.
TTY, LOST = "transport.needs-terminal", "transport.program-lost"
FAILED = {
    "sudo with requiretty": ("sudo: sorry, you must have a tty to run sudo", 1, TTY),
    # sudo 1.9.13 in German (plugins/sudoers/po/de.po)
    "sudo in German": (
        "sudo: Sie müssen ein TTY haben, um sudo zu verwenden",
        1,
        LOST,
    ),
    # community.general#9977
    "doas": ("doas: a tty is required", 1, LOST),
    # ansible#35698
    "su": ("su: must be run from a terminal", 1, LOST),
    "a method that is missing": ("/bin/sh: 1: doas: not found", 127, LOST),
}


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("way", ["auto", "stdin"])
@pytest.mark.parametrize("said", FAILED)
def test_a_become_method_that_has_run_nothing_gets_the_module(
    said: str, way: str, stream: str, tmp_path: Any
) -> None:
    words, status, code = FAILED[said]
    action = Action(tmp_path, become=SUDO)
    action._low_level_execute_command = lambda *_words, **_options: {"rc": status, stream: words}  # type: ignore[assignment]
    if way == "auto":
        transport.run_host_program(action, "observe", REQUEST, PYTHON, way)  # type: ignore[arg-type]
    else:
        with pytest.raises(PlanError) as failed:
            transport.run_host_program(action, "observe", REQUEST, PYTHON, way)  # type: ignore[arg-type]
        assert failed.value.code == code
    assert action.modules == (["gpufleet.nvidia.host_program"] if way == "auto" else [])


# A program that has begun is never sent a second time, and no module helps without a Python.
NOT_AGAIN = {
    "it has begun": (SUDO, {"rc": 137, "stdout": begun().decode()}, LOST),
    "it is too old": (
        SUDO,
        {"rc": 1, "stdout": begun(0x030503F0).decode(), "stderr": "SyntaxError: invalid syntax"},
        "transport.python-old",
    ),
    "no become": (None, {"rc": 1, "stderr": "Killed"}, LOST),
    "no Python": (SUDO, {"rc": 127, "stdout": transport.NO_PYTHON}, "transport.no-python"),
    "none there": (
        SUDO,
        {"rc": 127, "stderr": f"/bin/sh: 1: {sys.executable}: not found"},
        "transport.no-python-there",
    ),
    "none there, and no word": (None, {"rc": 127}, "transport.no-python-there"),
}


@pytest.mark.parametrize("case", NOT_AGAIN)
def test_a_program_is_not_sent_a_second_time(case: str, tmp_path: Any) -> None:
    become, result, code = NOT_AGAIN[case]
    action = Action(tmp_path, become=become)
    action._low_level_execute_command = lambda *_words, **_options: result  # type: ignore[assignment]
    with pytest.raises(PlanError) as failed:
        transport.run_host_program(action, "observe", REQUEST, PYTHON, "auto")  # type: ignore[arg-type]
    assert failed.value.code == code
    assert transport.BEGUN not in failed.value.message
    assert action.modules == []


def test_a_user_who_keeps_the_files_of_tasks_gets_the_module(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport.constants, "DEFAULT_KEEP_REMOTE_FILES", True)
    action = Action(tmp_path)
    transport.run_host_program(action, "observe", REQUEST, PYTHON, "auto")  # type: ignore[arg-type]
    assert action.modules == ["gpufleet.nvidia.host_program"]


NO_JSON = "MODULE FAILURE: No start of json char found"
NOT_FOUND = "su: /no/python: not found"
WITHOUT_ANSWER: list[tuple[dict[str, Any], str, str, dict[str, Any]]] = [
    # what the module returned, the interpreter that the inventory names; the code, its values
    (
        {"msg": NO_JSON, "module_stdout": f"{NOT_FOUND}\r\n"},
        "/no/python",
        "transport.module-printed-by",
        {"output": NOT_FOUND, "python": "/no/python"},
    ),
    (
        {"msg": NO_JSON, "module_stderr": "Killed"},
        "",
        "transport.module-printed",
        {"output": "Killed"},
    ),
    ({"msg": NO_JSON}, "", "transport.module-printed", {"output": "no output"}),
]


@pytest.mark.parametrize(("result", "python", "code", "values"), WITHOUT_ANSWER)
def test_a_module_without_an_answer_is_told_by_what_was_printed(
    result: dict[str, Any], python: str, code: str, values: dict[str, Any]
) -> None:
    assert read_coded(transport.explain_module_failure(result, python)) == (code, values)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"msg": "MODULE FAILURE", "module_stderr": "Killed"}, "MODULE FAILURE"),
        ({"module_stderr": "Killed"}, "Killed"),
        ({}, "no answer"),
    ],
)
def test_ansibles_words_about_a_module_are_told_as_they_are(
    result: dict[str, Any], words: str
) -> None:
    assert transport.explain_module_failure(result, "/no/python") == words


# What Ansible makes of an interpreter that does not run a module, on several of its releases.
UNUSABLE = {
    "missing, 2.21": (
        {"rc": 127, "msg": f"The module interpreter '{sys.executable}' was not found."},
        "transport.no-python-there",
    ),
    "missing, 2.16": (
        {
            "rc": 127,
            "msg": "The module failed to execute correctly, you probably need to set the interpreter.",
            "module_stdout": f"/bin/sh: 1: {sys.executable}: not found\r\n",
        },
        "transport.no-python-there",
    ),
    "Python 3.6, 2.21": (
        {"rc": 1, "msg": "No start of json char found", "module_stderr": "SyntaxError: future"},
        "transport.python-old-for-modules",
    ),
    "Python 3.7, 2.18": (
        {"msg": "ansible-core requires a minimum of Python version 3.8. Current version: 3.7.16"},
        "transport.python-old-for-modules",
    ),
    "doas missing": (
        {"rc": 127, "msg": "x", "module_stderr": "/bin/sh: 1: doas: not found"},
        "transport.module-failed",
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_an_interpreter_that_runs_no_module_is_named(case: str, tmp_path: Any) -> None:
    result, code = UNUSABLE[case]
    action = Action(tmp_path)
    action._execute_module = lambda **_options: {"failed": True, **result}  # type: ignore[assignment,method-assign]
    with pytest.raises(PlanError) as failed:
        transport.run_host_program(action, "observe", REQUEST, PYTHON, "module")  # type: ignore[arg-type]
    assert failed.value.code == code
    assert ".." not in str(failed.value.message)


@pytest.mark.parametrize(
    ("python", "environment", "code"),
    [
        ("/no/such/python", "", "transport.no-python-there"),
        ("", "", "transport.no-python"),
        ("", "PATH=/nowhere", "transport.no-python"),
    ],
)
def test_a_python_that_is_really_missing_is_told_by_its_code(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, python: str, environment: str, code: str
) -> None:
    monkeypatch.setattr(transport, "INTERPRETERS", "/no/such/python")
    action, named = (
        Action(tmp_path, environment=environment),
        {"ansible_python_interpreter": python},
    )
    with pytest.raises(PlanError) as failed:
        transport.run_host_program(action, "observe", REQUEST, named)  # type: ignore[arg-type]
    assert failed.value.code == code


@pytest.mark.parametrize(
    ("value", "python"),
    [
        ("auto", ""),
        ("auto_silent", ""),
        ("auto_legacy", ""),
        ("", ""),
        ("/usr/bin/python3.9", "/usr/bin/python3.9"),
    ],
)
def test_an_automatic_interpreter_is_left_to_the_host(
    tmp_path: Any, value: str, python: str
) -> None:
    named = {"ansible_python_interpreter": value}
    assert transport.get_named_interpreter(Action(tmp_path), named) == python  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("setting", "variables", "python"),
    [
        ("/opt/python/bin/python3", {}, "/opt/python/bin/python3"),
        ("/opt/python/bin/python3", {"ansible_python_interpreter": "/usr/bin/python3.9"}, "/usr/bin/python3.9"),
        ("/opt/python/bin/python3", {"ansible_python_interpreter": "auto"}, ""),
        ("auto", {}, ""),
        ("auto_silent", {"ansible_python_interpreter": "/usr/bin/python3.9"}, "/usr/bin/python3.9"),
    ],
)  # fmt: skip
def test_the_interpreter_of_ansibles_settings_counts_as_for_a_module(
    setting: str, variables: dict[str, str], python: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """`interpreter_python` of an ansible.cfg, or ANSIBLE_PYTHON_INTERPRETER (ansible#81467)."""
    monkeypatch.setattr(transport.constants, "INTERPRETER_PYTHON", setting)
    assert transport.get_named_interpreter(Action(tmp_path), variables) == python  # type: ignore[arg-type]


def test_the_requests_in_the_documentation_of_host_program_are_what_is_said_of_them() -> None:
    tasks = arguments.read_module_text("host_program", "EXAMPLES").split("- name: ")[1:]
    requests = {}
    for text in tasks:
        request = host_answers.unpack_answer(text.partition("    request: ")[2].partition("\n")[0])
        assert (
            json.loads(
                " ".join(
                    line.strip(" #") for line in text.splitlines() if line.startswith("    # ")
                )
            )
            == request
        )
        requests[text.partition("program: ")[2].partition("\n")[0]] = request
    answers = list(observe.run(requests["observe"])["answers"].values())
    assert ["error" in answer for answer in answers] == [False]
    assert transaction_entry.run(requests["transaction"])["error"] is None


@pytest.mark.parametrize(
    ("result", "python", "code"),
    [
        ({"rc": 127, "stdout": "gpufleet-no-python"}, "", "transport.no-python"),
        (
            {"rc": 127, "stderr": "/bin/python9: not found"},
            "/bin/python9",
            "transport.no-python-there",
        ),
        ({"rc": 126, "stderr": "Permission denied"}, "/etc/passwd", "transport.no-python-there"),
        (
            {"rc": 2, "stderr": "Unknown option: -I\nusage: /usr/bin/python2"},
            "/usr/bin/python2",
            "transport.python-2",
        ),
        ({"rc": 1, "stderr": "SyntaxError"}, "/usr/bin/python2", "transport.program-lost"),
    ],
)
def test_a_missing_python_is_told_with_what_to_do(
    result: dict[str, Any], python: str, code: str
) -> None:
    assert transport.explain_lost_answer("observe", result, python).code == code
