# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python on a host: it imports nothing that an account has put there, and is started by its path."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import deadline
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    host_answers,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import host_service

from tests.unit.sent_programs import PYTHON, REQUEST

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


def plant_modules(tmp_path: Path) -> tuple[Path, Path, dict[str, str]]:
    """Put modules of an account where its Python finds them. Return the file that they write when
    they are imported, the working directory, and the environment.
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


def test_an_ordinary_start_of_python_imports_what_an_account_has_put_there(tmp_path: Path) -> None:
    mark, here, environ = plant_modules(tmp_path)
    subprocess.run([sys.executable, "-c", "import json"], check=True, cwd=here, env=environ)
    assert str(here / "json.py") in mark.read_text()


@pytest.mark.parametrize("variables", [PYTHON, {}], ids=["named", "searched"])
@pytest.mark.parametrize("program", ["observe", "transaction"])
def test_nothing_is_imported_from_where_the_connection_stands(
    tmp_path: Path, variables: dict[str, str], program: str
) -> None:
    mark, here, environ = plant_modules(tmp_path)
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
        host_answers.unpack_answer(row[2:])
        for row in done.stdout.decode().splitlines()
        if row.startswith("M:")
    ]
    assert answer, done.stderr.decode()
    assert not mark.exists(), mark.read_text()


def test_nothing_is_imported_from_where_a_module_stands(tmp_path: Path) -> None:
    mark, here, environ = plant_modules(tmp_path)
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


def test_every_start_of_python_on_a_host_is_isolated() -> None:
    assert deadline.build_later_command("/x.py", "run", "/base")[1:3] == ["-I", "-S"]
    assert "exec $p -I -S /" in host_service.build_service_command("x")[2]
    assert "exec $$p -I -S /" in host_service.write_exec_start("x")
    assert all(
        " -I -S -" in transport.build_interpreter_command(python, "")
        for python in ("", "/usr/bin/python3")
    )
