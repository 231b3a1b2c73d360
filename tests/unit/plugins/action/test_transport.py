# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script that travels: it runs on any Python 3.6, its request arrives whole, and noise around
the answer does not matter.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import shlex
import subprocess
import sys
import tokenize
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import observe
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import deadline
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import host_service


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
        return {"answer": transport.pack({"by": "module"})}


REQUEST = {
    "schema": 1,
    "root": "/",
    "questions": [
        {"id": "file:/etc/hostname", "kind": "file", "path": "/etc/hostname", "content": False}
    ],
}
PYTHON = {"ansible_python_interpreter": sys.executable}


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
def test_which_way(
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


def begun(version: int = sys.hexversion) -> bytes:
    """Return what an interpreter prints first."""
    return f"{transport.BEGUN} {version >> 16}\n".encode()


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


def test_who_keeps_the_files_of_a_task_gets_the_module(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport.constants, "DEFAULT_KEEP_REMOTE_FILES", True)
    action = Action(tmp_path)
    transport.run_host_program(action, "observe", REQUEST, PYTHON, "auto")  # type: ignore[arg-type]
    assert action.modules == ["gpufleet.nvidia.host_program"]


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (
            {
                "msg": "MODULE FAILURE: No start of json char found",
                "module_stdout": "su: /no/python: not found\r\n",
            },
            "su: /no/python: not found.",
        ),
        ({"msg": "MODULE FAILURE\nSee stdout/stderr", "module_stderr": "Killed"}, "MODULE FAILURE"),
    ],
)
def test_a_module_without_an_answer_is_told_by_what_was_printed(
    result: dict[str, Any], said: str
) -> None:
    told = transport.explain_module_failure(result, "/no/python")
    assert told.startswith(said)
    assert ("ansible_python_interpreter, /no/python" in told) is ("json" in result["msg"])


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
    ("variables", "environment", "sentence"),
    [
        (
            {"ansible_python_interpreter": "/no/such/python"},
            "",
            r"/no/such/python .*\[transport.no-python-there\]$",
        ),
        ({}, "PATH=/nowhere", r"\[transport.(program-lost|no-python)\]$"),
    ],
)
def test_no_answer_is_one_sentence(
    tmp_path: Any, variables: dict[str, str], environment: str, sentence: str
) -> None:
    if environment:
        transport_interpreters, transport.INTERPRETERS = transport.INTERPRETERS, "/no/such/python"
    try:
        with pytest.raises(PlanError, match=sentence):
            transport.run_host_program(
                Action(tmp_path, environment=environment), "observe", REQUEST, variables
            )  # type: ignore[arg-type]
    finally:
        if environment:
            transport.INTERPRETERS = transport_interpreters


def test_an_automatic_interpreter_is_left_to_the_node(tmp_path: Any) -> None:
    action = Action(tmp_path)
    for value in ("auto", "auto_silent", "auto_legacy"):
        assert transport.get_named_interpreter(action, {"ansible_python_interpreter": value}) == ""  # type: ignore[arg-type]


# --- nothing is imported from where the connection stands
# --------------------------------------------------------------

PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - gpufleet.nvidia.host_info: {root: %s, transport: module}
      register: seen
    - ansible.builtin.debug: {msg: "answered: {{ seen.decision is defined }}"}
"""
PLANT = "open({mark!r}, 'a').write(__file__ + '\\n')\n"
PLANTED = ("json.py", "base64.py", "types.py", "fcntl.py", "sitecustomize.py", "usercustomize.py")


def planted(tmp_path: Path) -> tuple[Path, Path, dict[str, str]]:
    """A working directory and a home with modules of an account's own, and the file that one of
    them writes when it is imported.
    """
    mark, here, home = tmp_path / "imported", tmp_path / "here", tmp_path / "home"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = home / ".local" / "lib" / version / "site-packages"
    for folder in (here, site):
        folder.mkdir(parents=True)
        for name in PLANTED:
            (folder / name).write_text(PLANT.format(mark=str(mark)))
    (site / "evil.pth").write_text(f"import os; open({str(mark)!r}, 'a').write('pth')\n")
    return (
        mark,
        here,
        {
            **os.environ,
            "HOME": str(home),
            "PYTHONPATH": str(site),
            "PYTHONUSERBASE": str(home / ".local"),
        },
    )


@pytest.mark.parametrize("variables", [PYTHON, {}], ids=["named", "searched"])
@pytest.mark.parametrize("program", ["observe", "transaction"])
def test_nothing_is_imported_from_where_the_connection_stands(
    tmp_path: Path, variables: dict[str, str], program: str
) -> None:
    mark, here, environ = planted(tmp_path)
    line = transport.build_interpreter_command(variables.get("ansible_python_interpreter", ""), "")
    request = {
        **REQUEST,
        "id": "a" * 32,
        "changes": [],
        "root": "/",
        "check": True,
        "journal_dir": str(tmp_path / "journal"),
    }
    script = transport.build_interpreter_input(program, request, "M:")
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        input=script,
        capture_output=True,
        check=False,
        cwd=here,
        env=environ,
    )
    answer = [
        transport.unpack_answer(row[2:])
        for row in done.stdout.decode().splitlines()
        if row.startswith("M:")
    ]
    assert answer, done.stderr.decode()
    assert not mark.exists(), mark.read_text()


def test_nothing_is_imported_from_where_a_module_stands(tmp_path: Path) -> None:
    mark, here, environ = planted(tmp_path)
    del environ["PYTHONPATH"]  # it is the controller's as well, where both are one machine
    (tmp_path / "tree" / "etc").mkdir(parents=True)
    (here / "play.yml").write_text(PLAY % (tmp_path / "tree"))
    playbook = Path(sys.executable).with_name("ansible-playbook")
    environ["ANSIBLE_PYTHON_INTERPRETER"] = sys.executable
    command = [
        sys.executable,
        "-I",
        str(playbook),
        "-i",
        "localhost,",
        "-c",
        "local",
        str(here / "play.yml"),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=here, env=environ
    )
    assert "answered: True" in done.stdout, done.stdout + done.stderr
    assert not mark.exists(), mark.read_text()


def test_no_interpreter_is_looked_up_by_the_path_of_an_account(tmp_path: Path) -> None:
    for name in ("python3", "python3.13", "python3.6"):
        (tmp_path / name).write_text("#!/bin/sh\necho planted\n")
        (tmp_path / name).chmod(0o755)
    line = (
        transport.build_interpreter_command("", "")
        .replace("/usr/", "/no/usr/")
        .replace("/run/", "/no/run/")
        .replace("/opt/", "/no/opt/")
    )
    environ = {"PATH": f"{tmp_path}:."}
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environ,
    )
    assert (done.returncode, done.stdout.strip()) == (127, transport.NO_PYTHON)


@pytest.mark.parametrize(
    ("there", "said"),
    [((), "There is no Python at"), (("own",), "own -I -S"), (("other", "own"), "other -I -S")],
)
def test_no_interpreter_of_a_program_that_stays_is_looked_up_either(
    there: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    """systemd's PATH begins with /usr/local, which belongs to an account on some hosts."""
    (tmp_path / "local").mkdir()
    for name in ("local/python3", *there):
        (tmp_path / name).write_text('#!/bin/sh\necho "${0##*/} $*"\n')
        (tmp_path / name).chmod(0o755)
    pythons = " ".join(str(tmp_path / name) for name in ("other", "own"))
    unit = host_service.write_service_unit("x", "X", seconds=60).replace(
        host_service.PYTHONS, pythons
    )
    (start,) = (line for line in unit.splitlines() if line.startswith("ExecStart="))
    argv = shlex.split(start.removeprefix("ExecStart=").replace("$$", "$"))
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{tmp_path}/local:/usr/bin:/bin"},
    )
    assert (done.stdout + done.stderr).startswith(said)
    assert all(
        path.startswith(("/usr/bin/", "/usr/libexec/", "/run/current-system/"))
        for path in host_service.PYTHONS.split()
    )


def test_the_requests_in_the_documentation_of_host_program_are_what_is_said_of_them() -> None:
    tasks = arguments.read_module_text("host_program", "EXAMPLES").split("- name: ")[1:]
    requests = {}
    for text in tasks:
        request = transport.unpack_answer(text.partition("    request: ")[2].partition("\n")[0])
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


def test_an_answer_that_unpacks_to_more_than_a_look_may_hold_is_refused() -> None:
    assert transport.unpack_answer(transport.pack({"a": "x" * 1000})) == {"a": "x" * 1000}
    with pytest.raises(PlanError, match=r"128 MiB.*\[transport.answer-too-large\]$"):
        transport.unpack_answer(
            base64.b64encode(zlib.compress(bytes(transport.LONGEST + 1))).decode("ascii")
        )


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode("ascii")


NO_ANSWERS = {
    "no base64": "*",
    "not compressed": base64.b64encode(b"{}").decode("ascii"),
    "cut short": packed(b"{}")[:8],
    "no JSON": packed(b"{"),
    "no UTF-8": packed(b'"\xff"'),
    "a number that is too long": packed(b"1" * 200_000),
    "a text without an end": packed(b'"' + b'\\"' * transport.MOST_VALUES),
    "a list": packed(b"[]"),
    "nothing": packed(b"null"),
}


@pytest.mark.parametrize("case", NO_ANSWERS)
def test_what_is_no_answer_of_a_program_is_one_sentence(case: str) -> None:
    with pytest.raises(PlanError, match=r"\[transport.not-an-answer\]$"):
        transport.read_program_answer(NO_ANSWERS[case])


def test_an_answer_that_is_too_deep_for_a_reader_is_refused() -> None:
    with pytest.raises(PlanError, match=r"\[transport.answer-too-deep\]$"):
        transport.read_program_answer(packed(b"[" * 200_000))


def test_an_answer_of_more_values_than_memory_has_room_for_is_refused() -> None:
    """Each empty list is two bytes on the wire, before they are compressed, and half a hundred in
    memory.
    """
    text = json.dumps(
        {"file": "[],{}" * transport.MOST_VALUES, "quoted": '"[\\', "more": [1, {}]}
    ).encode()
    assert transport.read_program_answer(packed(text))["more"] == [1, {}]
    with pytest.raises(PlanError, match=r"1048576 .*\[transport.answer-too-many-values\]$"):
        transport.read_program_answer(packed(b"[" + b"[]," * transport.MOST_VALUES + b"[]]"))


def test_every_start_of_python_on_a_host_is_isolated() -> None:
    assert deadline.build_later_command("/x.py", "run", "/base")[1:3] == ["-I", "-S"]
    assert "exec $p -I -S /" in host_service.build_service_command("x")[2]
    assert "exec $$p -I -S /" in host_service.write_exec_start("x")
    assert all(
        " -I -S -" in transport.build_interpreter_command(python, "")
        for python in ("", "/usr/bin/python3")
    )


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


# --- what is sent
# --------------------------------------------------------------------------------------------------

NODE_SIDE = sorted({"loader", *(part for parts in transport.PROGRAMS.values() for part in parts)})
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


@pytest.mark.parametrize("name", NODE_SIDE)
def test_what_is_sent_is_the_same_program_line_by_line(name: str) -> None:
    """Only docstrings and comments stay behind: every other statement is there, with its line, by
    which an error names it.
    """
    before, after = (
        ast.parse(transport.read_program_text(name)),
        ast.parse(transport.read_program_part(name)),
    )
    for node in ast.walk(before):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            node.body[0].value = ast.Constant(0)  # type: ignore[attr-defined]
    assert ast.dump(after) == ast.dump(before)
    lines = [
        [node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)]
        for tree in (before, after)
    ]
    assert lines[0] == lines[1]
    words = tokenize.generate_tokens(io.StringIO(transport.read_program_part(name)).readline)
    assert [word.string for word in words if word.type == tokenize.COMMENT] == []


WORDS = [
    ('x = "# no comment"  # a comment\n', 'x="# no comment"\n'),
    ("x = a - b, {1: -2}\nx += ' , ' % c\n", "x=a-b,{1:-2}\nx+=' , '%c\n"),
    ("x = '#'  # it's\ny = '#'\n", "x='#'\ny='#'\n"),
    ('x = """# text\n# text"""\n', 'x="""# text\n# text"""\n'),
    ('def f():\n    """One\n    two."""\n    return 1\n', "def f():\n 0\n\n return 1\n"),
    ('class A(object):\n    """Only words."""\n', "class A(object):\n 0\n"),
    (r'x = "\\" # a "quoted" word' + "\n", r'x="\\"' + "\n"),
    (r'x = re.compile(r"\"#")' + "\n", r'x=re.compile(r"\"#")' + "\n"),
    ('x = f(\n    "#"\n    # why\n    \'"""#\'\n)\n', 'x=f(\n"#"\n\n\'"""#\'\n)\n'),
    ('if x:\n    if y:\n        z = """\n    text"""\n', 'if x:\n if y:\n  z="""\n    text"""\n'),
    ("x = f(\n      1,\n)\nif x:\n    y\n", "x=f(\n1,\n)\nif x:\n y\n"),
]


@pytest.mark.parametrize(("source", "sent"), WORDS)
def test_words_that_python_does_not_run_stay_behind(source: str, sent: str) -> None:
    assert transport.shorten_source(source) == sent


def test_sources_are_compressed_once_and_before_the_first_host() -> None:
    """Ansible makes a process for each host's task: what the first one had made would be lost with
    it.
    """
    code = (
        "import json\n"
        "from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport\n"
        "caches = (transport.pack_program_sources, transport.read_loader)\n"
        "packed, loader = (cached.cache_info().currsize for cached in caches)\n"
        "print(json.dumps([packed, len(transport.PROGRAMS), loader]))"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ
    )
    packed, programs, loader = json.loads(done.stdout)
    assert (packed, loader) == (programs, 1)


def test_the_parser_of_toml_is_imported_before_the_first_host_too() -> None:
    code = "import sys; from ansible_collections.gpufleet.nvidia.plugins.action import host; print('tomllib' in sys.modules)"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ
    )
    assert done.stdout.split() == [str(sys.version_info >= (3, 11))]


@pytest.mark.parametrize("cut", [1, 1000, 10000])
def test_a_script_that_was_cut_short_runs_nothing(tmp_path: Path, cut: int) -> None:
    request = {**REQUEST, "questions": []}
    script = transport.build_interpreter_input("observe", request, "M:")
    done = subprocess.run(
        ["/bin/sh", "-c", transport.build_interpreter_command(sys.executable, "")],
        input=script[:-cut],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, begun())
    assert b"incomplete or truncated" in done.stderr


def test_what_stays_on_a_host_is_one_file(tmp_path: Path) -> None:
    """A program with the text of what it imports, which a person there can read, and that runs by
    itself.
    """
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").write_text("#!/bin/sh\necho Slow\n")
    (tmp_path / "bin" / "tool").chmod(0o755)
    one = {
        "name": "device 1",
        "value": "FAST",
        "read": [str(tmp_path / "bin" / "tool")],
        "pattern": "^(Slow)$",
        "accepts": [0],
    }
    (tmp_path / "modes").write_text(
        json.dumps({"seconds": 20, "settings": [{**one, "set": ["no-such-tool"]}]})
    )
    (tmp_path / "majors").write_text("Character devices:\n")
    modules = [{"name": "gpufleet-no-such-module", "device": "gone"}]
    rules = {"majors": str(tmp_path / "majors"), "modules": modules, "nodes": [], "seconds": 20}
    (tmp_path / "device_nodes").write_text(json.dumps(rules))
    guarded = {"files": [], "aside": str(tmp_path), "running": str(tmp_path / "running")}
    (tmp_path / "cdi_guard").write_text(json.dumps(guarded))
    (tmp_path / "mps").write_text(
        json.dumps({"program": "no-such-tool", "seconds": 20, "patience": 20, "environment": {}})
    )
    missing = "1: no-such-tool: there is no such program in"
    said = {
        "modes": f"device {missing}",
        "mps": f"GPU-{missing}",
        "device_nodes": "modprobe",
        "cdi_guard": "",
    }
    words = {"mps": ["quit", "GPU-1"]}
    assert sorted(transport.map_resident_sources()) == sorted(said)
    for name, source in transport.map_resident_sources().items():
        assert "ansible_collections" not in source
        (tmp_path / f"{name}.py").write_text(source)
        done = subprocess.run(
            [
                sys.executable,
                "-I",
                "-S",
                tmp_path / f"{name}.py",
                tmp_path / name,
                *words.get(name, ()),
            ],
            capture_output=True,
            check=False,
            text=True,
        )
        assert (done.returncode, done.stderr) == (1 if said[name] else 0, ""), name
        assert said[name] in done.stdout


def test_brackets_that_close_nothing_are_counted_before_they_are_walked() -> None:
    with pytest.raises(PlanError, match=r"1048576 .*\[transport.answer-too-many-values\]$"):
        transport.read_program_answer(packed(b"[" * 66 + b"]" * (transport.MOST_VALUES + 1)))
