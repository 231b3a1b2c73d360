# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script that travels: it runs on any Python 3.6, its request arrives whole, and noise around the answer does not matter."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gpufleet.nvidia.plugins.action import transport


class Action:
    """What the transport needs of an action: a connection that runs commands here."""

    def __init__(self, tmp_path: Any, *, pipelining: bool = True, become: Any = None, noise: str = "", environment: str = "") -> None:
        self._connection = SimpleNamespace(has_pipelining=pipelining, become=become)
        self._templar = SimpleNamespace(template=lambda value: value)
        self._task = SimpleNamespace(delegate_to=None)
        self.noise, self.environment, self.sent, self.modules = noise, environment, [], []

    def _compute_environment_string(self) -> str:
        return self.environment

    def _low_level_execute_command(self, line: str, in_data: bytes) -> dict[str, Any]:
        self.sent.append((line, in_data))
        done = subprocess.run(["/bin/sh", "-c", line], input=in_data, capture_output=True, check=False)
        return {"rc": done.returncode, "stdout": self.noise + done.stdout.decode(), "stderr": done.stderr.decode()}

    def _execute_module(self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        self.modules.append(module_name)
        return {"answer": transport.pack({"by": "module"})}


REQUEST = {"schema": 1, "root": "/", "questions": [{"id": "file:/etc/hostname", "kind": "file", "path": "/etc/hostname"}]}
PYTHON = {"ansible_python_interpreter": sys.executable}


@pytest.mark.parametrize("noise", ["", "Welcome to node7!\nLast login: never\n", "no newline at the end"])
def test_the_answer_is_found_among_a_login_banner(tmp_path: Any, noise: str) -> None:
    answer = transport.exchange(Action(tmp_path, noise=noise), "observe", REQUEST, PYTHON)  # type: ignore[arg-type]
    assert answer["answers"]["file:/etc/hostname"]["exists"] is True


def test_an_interpreter_is_found_without_being_named(tmp_path: Any) -> None:
    answer = transport.exchange(Action(tmp_path), "observe", REQUEST, {})  # type: ignore[arg-type]
    assert answer["host"]["python"][0] == 3


def test_the_request_is_not_readable_in_a_debug_log(tmp_path: Any) -> None:
    action = Action(tmp_path)
    transport.exchange(action, "observe", REQUEST, PYTHON)  # type: ignore[arg-type]
    assert b"/etc/hostname" not in action.sent[0][1]


SU = SimpleNamespace(name="su")
SUDO = SimpleNamespace(name="sudo", pipelining=True)
NO_PIPE = SimpleNamespace(name="ksu", pipelining=False)


@pytest.mark.parametrize(
    ("pipelining", "become", "way", "modules"),
    [
        (True, None, "auto", []),
        (True, SUDO, "auto", []),
        (True, SU, "auto", ["gpufleet.nvidia.observe"]),
        (True, NO_PIPE, "auto", ["gpufleet.nvidia.observe"]),
        (False, None, "auto", ["gpufleet.nvidia.observe"]),
        (True, None, "module", ["gpufleet.nvidia.observe"]),
    ],
)
def test_which_way(tmp_path: Any, pipelining: bool, become: Any, way: str, modules: list[str]) -> None:
    action = Action(tmp_path, pipelining=pipelining, become=become)
    transport.exchange(action, "observe", REQUEST, PYTHON, way)  # type: ignore[arg-type]
    assert action.modules == modules


@pytest.mark.parametrize(
    ("variables", "environment", "sentence"),
    [
        ({"ansible_python_interpreter": "/no/such/python"}, "", "gave no answer"),
        ({}, "PATH=/nowhere", "gave no answer|no Python 3"),
    ],
)
def test_no_answer_is_one_sentence(tmp_path: Any, variables: dict[str, str], environment: str, sentence: str) -> None:
    if environment:
        transport_interpreters, transport.INTERPRETERS = transport.INTERPRETERS, "/no/such/python"
    try:
        with pytest.raises(AnsibleActionFail, match=sentence):
            transport.exchange(Action(tmp_path, environment=environment), "observe", REQUEST, variables)  # type: ignore[arg-type]
    finally:
        if environment:
            transport.INTERPRETERS = transport_interpreters


def test_an_automatic_interpreter_is_left_to_the_node(tmp_path: Any) -> None:
    action = Action(tmp_path)
    for value in ("auto", "auto_silent", "auto_legacy"):
        assert transport.interpreter(action, {"ansible_python_interpreter": value}) == ""  # type: ignore[arg-type]
