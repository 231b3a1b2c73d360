# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file, whatever is in it, is read or refused within 2 s of processor time and 64 MiB: the kernel
ends what takes more. On a slow processor these are more seconds, as a loop beside it shows.

It has a megabyte, or as much as is asked for of such a file at most.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    repository_key,
)

SECONDS, MIB, SIZE = 2, 64, 1 << 20
READERS = {
    "yaml": "yaml_text.read_bounded_yaml(text)",
    "yaml with lines": "yaml_text.read_lines(text)",
    "yaml of engines": "engine_yaml.read_yaml_document(text.encode())",
    "json": "json_bounds.load_bounded_json(text)",
    "json with places": "json_text.parse_json_text(text, 'f')",
    "toml": "toml_scanner.scan_toml_statements(toml_document.parse_toml(text, 'f').clean), toml_scanner.find_first_toml_comment(text)",
    "yaml on a host": "documents.project_document(text.encode(), KEEP, lambda text: '0' * 16)",
    "lines of yaml on a host": "projector.project_file(text.encode(), dict(KEEP, format='yaml'))",
    "json on a host": "projector.project_file(text.encode(), dict(KEEP, format='json'))",
    "toml on a host": "projector.project_file(text.encode(), dict(KEEP, format='toml'))",
    "a unit": "syntax.read_service([('f', text)], 'd.service')",
    "an environment": "syntax.read_environment(text)",
    "a unit on a host": "projector.project_file(text.encode(), unit_places.keep_command(docker.READ_FLAGS))",
    "variables on a host": "projector.project_file(text.encode(), unit_places.keep_assignments(docker.READ_FLAGS, {'A': '', 'B': 'path'}))",
    "a unit that makes specs": "projector.project_file(text.encode(), cdi_generators.GENERATES), re.search(cdi_generators.COMMAND, text)",
    "sources of apt": "any(apt_sources._stops_at(line) for line in text.splitlines())",
    "sources of apt on a host": "projector.project_file(text.encode(), apt_sources.keep_apt_lines('https://a.example/b/'))",
    "apt's configuration": "apt_conf.read_apt_conf([text])",
    "apt's configuration on a host": "projector.project_file(text.encode(), package_movers.APT_KEEP)",
    "locks of dnf on a host": "projector.project_file(text.encode(), package_locks.LOCK_KEEPS[0])",
    "a key on a host": "projector.project_file(text.encode(), repository.KEY)",
    "settings of IMEX": "host_platform.COMMANDS.search(text)",
    "majors of a spec": "canonical.MAJOR.sub('', text)",
    "repositories of rpm": "rpm_sources._installs_unchecked(text, 'https://a.example/b/')",
    "repositories of rpm on a host": "projector.project_file(text.encode(), rpm_sources.keep_rpm_lines('https://a.example/b/'))",
}
JSON = ("json", "json with places", "json on a host", "yaml on a host", "yaml", "yaml of engines")
YAML = tuple(name for name in READERS if "yaml" in name)
TOML = ("toml", "toml on a host")
UNITS = (
    "a unit",
    "a unit on a host",
    "variables on a host",
    "a unit that makes specs",
    "an environment",
)
KEYS = ("a key on a host",)
APT = ("apt's configuration", "apt's configuration on a host", "locks of dnf on a host")
SOURCES = tuple(name for name in READERS if "of apt" in name or "of rpm" in name)
PATTERNS = ("settings of IMEX", "majors of a spec")
LINES = (*UNITS, *SOURCES, *KEYS, *PATTERNS)
SIZES = dict.fromkeys((*LINES, *APT), 1 << 18)  # what is asked for of such a file at most
LIST = "Unattended-Upgrade::Package-Blacklist"
# what repeats between a beginning and an end, and the readers that take it for their format
SHAPES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "numbers": ('{"a": [', "1,", "1]}", JSON),
    "empty lists": ('{"a": [', "[],", "1]}", JSON),
    "small objects": ('{"a": [', '{"a": 0},', "1]}", JSON),
    "brackets": ('{"a": ', "[", "", JSON),
    "objects in objects": ("", '{"a":', "", JSON),
    "a number": ('{"a": ', "9", "}", JSON),
    "a text": ('{"a": "', "x", '"}', JSON),
    "escapes": ('{"a": "', "\\n", '"}', JSON),
    "escapes without an end": ('{"a": "', "\\n", "", JSON),
    "empty lines": ('{"a": 1', "\n", "}", JSON),
    "keys": ("", "a:\n", "", YAML),
    "items": ("", "- a\n", "", YAML),
    "dashes": ("", "- ", "a", YAML),
    "quotes": ("a: '", "''", "'", YAML),
    "words": ("a: ", "x ", "x", YAML),
    "colons": ("a: ", "x:", "x", YAML),
    "base 60": ("a: 1", ":0", "", YAML),
    "aliases": ("a: &a x\nb: [", "*a,", "*a]", YAML),
    "anchors": ("a: [", "&a x,", "1]", YAML),
    "documents": ("a: 1\n", "---\n", "", YAML),
    "comments of YAML": ("", "#\n", "a: 1", YAML),
    "a block": ("a: |\n", "  x\n", "", YAML),
    "values": ("a = [", "1,", "1]", TOML),
    "inline tables": ("a = [", "{a=1},", "1]", TOML),
    "a number of TOML": ("a = ", "9", "", TOML),
    "a number with lines below": ("a = 1", "_1", "", TOML),
    "a string": ('a = "', "x", '"', TOML),
    "a string of escapes": ('a = "', "\\n", '"', TOML),
    "a string without an end": ('a = "', "x", "", TOML),
    "a string of lines": ('a = """', 'x"\n', '"""', TOML),
    "a string of quotes": ('a = """', 'x"', '"""', TOML),
    "tables of an array": ("", "[[a]]\n[[a.b]]\n", "", TOML),
    "dots": ("", "a.", "a = 1", TOML),
    "brackets of TOML": ("a = ", "[", "", TOML),
    "comments": ("", "#\n", "", TOML),
    "blanks": ("", " ", '"', LINES),
    "blanks in a line": ("deb", " ", '"', LINES),
    "blanks after options": ("deb [a]", " ", '"', LINES),
    "blanks after an address": ("deb [a] https://a.example/b/", " ", "[", LINES),
    "blanks in a field": ("Architectures: ", " ", '"', LINES),
    "short words": ("Architectures: ", "a ", '"', LINES),
    "a long word": ("deb ", "a", "[", LINES),
    "lines": ("[Service]\n", "\n", "", LINES),
    "statements": ("[Service]\n", "a=\n", "", LINES),
    "sections": ("", "[Service]\n", "", LINES),
    "commands": ("[Service]\n", "ExecStart=/a\n", "", LINES),
    "prefixes of a command": ("[Service]\nExecStart=", "-", "\1", LINES),
    "a command of many": ("[Service]\nExecStart=", "a ; ", "", LINES),
    "variables of a unit": ("[Service]\n", "Environment=A=/a\n", "", LINES),
    "files of a unit": ("[Service]\n", "EnvironmentFile=/a\n", "", LINES),
    "quotes of a unit": ("[Service]\nEnvironment=", '"', "x", LINES),
    "lines that go on": ("[Service]\nExecStart=", "\\\n", "", LINES),
    "words on lines that go on": ("[Service]\nExecStart=", "a \\\n", "", LINES),
    "backslashes": ("[Service]\nExecStart=", "\\", "", LINES),
    "specifiers": ("[Service]\nExecStart=", "%n", "", LINES),
    "flags": ("[Service]\nExecStart=nvidia-ctk", " --a", "", LINES),
    "flags that begin again": ("[Service]\nExecStart=nvidia-ctk", " -nvidia-ctk", "", LINES),
    "flags with values": (
        "[Service]\nExecStart=/usr/bin/dockerd",
        " --config-file=/a",
        "\1",
        LINES,
    ),
    "a flag with a long value": (
        "[Service]\nExecStart=/usr/bin/dockerd --config-file=/",
        "a",
        "\1",
        LINES,
    ),
    "dollar signs": ("[Service]\nExecStart=/a ", "${A", "", LINES),
    "keys of a repository": ("", f"{repository_key.BEGIN}\n", "", KEYS),
    "empty lines of a key": (repository_key.BEGIN, "\n", "", KEYS),
    "blanks behind a key": (repository_key.BEGIN, " ", "x", KEYS),
    "remarks": ("", "#\n", "", LINES),
    "scopes of apt": ("", "a{", "", APT),
    "statements in scopes of apt": ("a{" * 30, "x;", "}" * 30, APT),
    "statements in a long scope": ("a" * 9999 + "{", "x;", "};", APT),
    "cleared options": ("a::b:: x;\n" * 9999, "#clear c;\n", "", APT),
    "remarks in a list without an end": (f"{LIST} {{", "//abc\n", "", APT),
    "remarks in a list that is none": (f"{LIST} {{", "#abc\n", "{", APT),
    "blanks of an option": (LIST, "\n", "", APT),
    "a word of an option": (f"{LIST} ", "a", "", APT),
    "lists": ("", f"{LIST} {{\n", "", APT),
    "a scope of periods": ("APT {", "\n", "", APT),
    "names of locks": ("", "nvidia", " x", APT),
}
PROGRAM = """
import math, os, re, resource, sys, time
sys.path[:0] = [".", ".cache/collections"]
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import documents, projector
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import cdi_generators
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import package_locks, package_movers
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import yaml as engine_yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import config as docker
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    apt_conf, json_bounds, json_text, toml_document, toml_scanner, yaml_text,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import unit_places
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import canonical
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import host_platform
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import apt_sources, repository, rpm_sources
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import syntax
KEEP = {"format": "document", "places": [[["a"], "path"]]}
read = lambda text: (%(reader)s)
REFUSALS = (PlanError, ValueError, projector.UnreadableText)
for small in ('{"a": 1}', "a = 1", "a: 1", "deb a", "[a]"):  # what is imported late, and compiled
    try:
        read(small)
    except REFUSALS:
        pass
begin = time.process_time()
for number in range(2_000_000):
    pass
# A processor on which this loop takes 0.1 s has the seconds as they stand.
seconds = math.ceil(%(seconds)d * max(1, (time.process_time() - begin) / 0.1))
for name, (begin, unit, end) in %(shapes)r.items():
    child = os.fork()
    if child:
        status = os.waitpid(child, 0)[1]
        if status:
            print(name, "ended with", status, flush=True)
        continue
    text = begin + unit * ((%(size)d - len(begin) - len(end)) // len(unit)) + end
    pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (pages + (%(mib)d << 20),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds,) * 2)  # a child begins with no time used
    try:
        read(text)
    except REFUSALS as error:
        if len(str(error)) > 400:
            print(name, "repeats the text", flush=True)
    except BaseException as error:
        print(name, "ends in", type(error).__name__, flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize("reader", READERS)
def test_a_bomb_is_read_or_refused_within_bounds(reader: str) -> None:
    shapes = {name: tuple(text) for name, (*text, readers) in SHAPES.items() if reader in readers}
    assert len(shapes) > 5
    values = {
        "reader": READERS[reader],
        "shapes": shapes,
        "size": SIZES.get(reader, SIZE),
        "mib": MIB,
        "seconds": SECONDS,
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM % values], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-300:]


BEYOND = {
    "a depth": ("[\n" * 101 + "]" * 101, 101),
    "a number": ('{"a": "x",\n"b": ' + "9" * 1001 + "}", 2),
    "values": ("[\n" + "1," * 100_000 + "1]", 2),
    "objects without an end": ('{"a":\n' * 200, 101),
}


@pytest.mark.parametrize("case", BEYOND)
def test_json_beyond_a_bound_is_refused_with_its_line(case: str) -> None:
    text, line = BEYOND[case]
    for given in (text, text.encode()):
        with pytest.raises(json_bounds.TooLargeJson) as caught:
            json_bounds.load_bounded_json(given)
        assert caught.value.line == line
    with pytest.raises(json_bounds.TooLargeJson):
        json_bounds.load_bounded_json("1" * 11, 10)


def test_json_within_the_bounds_is_what_python_reads() -> None:
    text = '{"a": [1, -2.5e3, true, null, "[\\"{\\\\"], "b": {"c": "' + "[" * 500 + '"}}'
    assert json_bounds.load_bounded_json(text) == {
        "a": [1, -2500.0, True, None, '["{\\'],
        "b": {"c": "[" * 500},
    }


# Texts that this collection has made itself in the same run: handlers for a table of places, and
# pieces that json_text has measured.
OWN_TEXTS = {
    "core/projections/containerd_places.py",
    "core/projections/crio_places.py",
    "core/formats/json_text.py",
    "core/formats/json_bounds.py",
}


def test_planners_read_json_within_bounds_alone() -> None:
    planner = Path(__file__).parents[6] / "plugins/plugin_utils/_planner"
    unbounded = re.compile(r"json\.loads\((?!json\.dumps)")
    found = {
        str(path.relative_to(planner))
        for path in planner.rglob("*.py")
        if unbounded.search(path.read_text())
    }
    assert found == OWN_TEXTS
