# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The source that is sent to a host: it is the same program, it is packed once, and it runs whole or
not at all.
"""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    transport,
)

from tests.unit.sent_programs import REQUEST, begun

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


def list_names(source: str) -> list[str]:
    """Give the names of a program's functions, classes and values, each as often as it gets one."""
    names = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            parts = [part for target in node.targets for part in ast.walk(target)]
            names += [part.id for part in parts if isinstance(part, ast.Name)]
    return names


@pytest.mark.parametrize("name", transport.map_resident_sources())
def test_a_program_that_stays_on_a_host_gives_each_name_once(name: str) -> None:
    """It is one file, so a part would get what another part means by the name."""
    names = list_names(transport.map_resident_sources()[name])
    assert sorted({each for each in names if names.count(each) > 1}) == []
