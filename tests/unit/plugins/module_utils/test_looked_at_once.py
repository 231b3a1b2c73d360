# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a look costs a host, by what it does not do: files that it need not look at, patterns that
it has no use for.
"""

import collections
import os
import subprocess
import sys

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    file_queries,
    journal,
    journal_queries,
)


@pytest.fixture
def looked_at(monkeypatch):
    """How often each name was looked at."""
    counted, lstat = collections.Counter(), os.lstat

    def counting(path, **more):
        counted[os.path.basename(path)] += 1
        return lstat(path, **more)

    monkeypatch.setattr(os, "lstat", counting)
    return counted


def test_of_a_directory_only_names_like_ours_are_looked_at(tmp_path, looked_at):
    ours = ".gpufleet-%s-%s" % ("a" * 32, "b" * 8)
    tmp_path.joinpath(ours).mkdir()
    os.utime(str(tmp_path / ours), (1, 1))
    for number in range(100):
        tmp_path.joinpath("other%d" % number).write_text("")
    assert journal_queries.list_strays("", str(tmp_path / "journal"), [str(tmp_path)]) == [
        str(tmp_path / ours)
    ]
    assert looked_at[ours] >= 1
    assert not [name for name in looked_at if name.startswith("other")]
    assert journal.is_stray(str(tmp_path / "journal"), str(tmp_path / "other0")) is False


def test_a_name_from_a_listing_is_looked_at_once(tmp_path, looked_at):
    for name in ("a.so", "b.so"):
        tmp_path.joinpath(name).write_text("")
    tmp_path.joinpath("c.so").symlink_to("a.so")
    found = file_queries.list_paths(
        "", ["%s/*.so" % tmp_path, "%s/a.so" % tmp_path, "%s/none" % tmp_path]
    )
    assert [os.path.basename(entry["path"]) for entry in found] == ["a.so", "b.so", "c.so"]
    assert [os.path.basename(entry["real"]) for entry in found] == ["a.so", "b.so", "a.so"]
    assert (looked_at["b.so"], looked_at["c.so"], looked_at["none"]) == (1, 1, 1)


def test_a_link_to_nothing_is_found_by_a_pattern(tmp_path):
    tmp_path.joinpath("x").symlink_to("nothing")
    assert file_queries.list_glob_matches("", "%s/*" % tmp_path) == ["%s/x" % tmp_path]


# pattern: names that match it, names that do not
MATCHES = {
    "lib*.so*": (["lib.so", "liba.so.1", "lib.so.so"], ["li.so", "xlib.so", "lib.s", "libso."]),
    "lib*_x.so*": (["lib_x.so", "liba_x.so.1"], ["lib_.so", "lib_xso", "libx.so"]),
    "a*a": (["aa", "aba"], ["a", "ab", "ba"]),
    "*ab*b": (["abb", "xabxb"], ["ab", "b", "abx"]),
    "*b*b**": (["bb", "abab"], ["b", "b\n\na", "ab"]),
    "*": (["a", ".a", "\n"], []),
    "a?*": (["ab", "abc"], ["a", "ba"]),
}


@pytest.mark.parametrize("pattern", sorted(MATCHES))
def test_a_name_matches_a_pattern_as_a_whole(pattern):
    yes, no = MATCHES[pattern]
    fits = file_queries._build_matcher(pattern)
    assert [name for name in yes + no if fits(name)] == yes


# A look without a file that is read line by line: which of its patterns are compiled.
PATTERNS = """
import re
compiler = re._compiler if hasattr(re, "_compiler") else re.sre_compile
done, compiled = [], compiler.compile
compiler.compile = lambda *words: done.append(words[0]) or compiled(*words)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import projector
assert projector.project_file(b"a = 1\\n", {"format": "toml", "places": [[["a"], "int"]]})
of_lines = [projector._YAML_LINE, projector._ENV_LINE, projector._FLAG, projector._YAML_KEY, projector._YAML_REMARK]
print([pattern for pattern in done if pattern in of_lines], len(done) > 5)
"""


def test_patterns_of_formats_that_are_not_met_are_not_compiled():
    environ = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    assert subprocess.check_output([sys.executable, "-c", PATTERNS], env=environ).split() == [
        b"[]",
        b"True",
    ]


# What a look imports late is time on every host: modules of the standard library that nothing in it
# is worth.
DEAR = (
    "asyncio",
    "base64",
    "fnmatch",
    "glob",
    "hashlib",
    "http.client",
    "platform",
    "shutil",
    "socket",
    "tempfile",
    "traceback",
    "typing",
)
# threading of older ones imports it by itself
LATE = [name for name in DEAR if name != "traceback" or sys.version_info >= (3, 8)]


def test_a_look_imports_nothing_that_is_dear():
    code = (
        "import sys\n"
        "from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import observe\n"
        "observe.run({'questions': [{'id': 'o', 'kind': 'originals', 'dir': '/nowhere', 'keep': []}]})\n"
        "print([name for name in %r if name in sys.modules])" % (LATE,)
    )
    environ = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    assert subprocess.check_output([sys.executable, "-S", "-c", code], env=environ).split() == [
        b"[]"
    ]
