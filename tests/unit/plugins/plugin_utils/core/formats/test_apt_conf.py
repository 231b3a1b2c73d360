# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt's configuration, read as apt-config reads it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    apt_conf,
)

CASES: list[tuple[str, str, dict[str, str]]] = [
    # what the text shows, the text, the values of options
    ("a plain value", 'APT::Periodic::Enable "1";', {"APT::Periodic::Enable": "1"}),
    ("no quotes", "APT::Periodic::Enable 0;", {"APT::Periodic::Enable": "0"}),
    ("names have no case", 'apt::periodic::ENABLE "1";', {"APT::Periodic::Enable": "1"}),
    (
        "scopes",
        'APT { Periodic { Enable "1"; Unattended-Upgrade "7"; }; };',
        {"APT::Periodic::Enable": "1", "APT::Periodic::Unattended-Upgrade": "7"},
    ),
    (
        "a scope with a name of two parts",
        'APT::Periodic { Enable "1"; };',
        {"APT::Periodic::Enable": "1"},
    ),
    ("the last value counts", 'A::B "1";\nA::B "2";', {"A::B": "2"}),
    ("comments", '// A::B "1";\n# A::B "2";\n/* A::B "3";\n*/ A::B "4"; // "5"', {"A::B": "4"}),
    ("signs within quotes", 'A::B "x // y; {z} # q";', {"A::B": "x // y; {z} # q"}),
    ("several lines", 'A\n{\n  B\n    "1"\n;\n};', {"A::B": "1"}),
]
LISTS: list[tuple[str, list[str], tuple[str, ...]]] = [
    # what the texts show, the texts in their order, the items of A::L
    ("a list in braces", ['A::L { "one"; "two"; };'], ("one", "two")),
    ("values added one by one", ['A::L:: "one";', 'A::L:: "two";'], ("one", "two")),
    ("files add to one list", ['A::L { "one"; };', 'A { L { "two"; }; };'], ("one", "two")),
    ("cleared in between", ['A::L { "one"; };', '#clear A::L;\nA::L { "two"; };'], ("two",)),
    (
        "only another one is cleared",
        ['A::L { "one"; };', "#clear A::LL; #clear A::L::x;"],
        ("one",),
    ),
    ("without its last sign", ['A::L { "one"; }'], ("one",)),
    ("a parent is cleared", ['A::L { "one"; };', "#clear A;"], ()),
    ("comments in the list", ['A::L { // "one";\n "two"; # "three"; \n};'], ("two",)),
    ("braces in strings", ['A::L { "${distro_id}:x"; };'], ("${distro_id}:x",)),
]
BROKEN = [
    # the text, the line at fault
    ('A::B "1"', 1),
    ("A {\n B { };\n", 2),
    ("};", 1),
    ('A "1" "2" "3";', 1),
    ('A::B "1;\n', 1),
    ('"1";', 1),
    # out of bounds, although apt takes it
    ("A {\n" * 40 + "};" * 40, 34),
    ("A;\n" * 5000, 4097),
    (f'\n{"A" * 300} "1";', 2),
]


@pytest.mark.parametrize(("text", "values"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_values(text: str, values: dict[str, str]) -> None:
    conf = apt_conf.read_apt_conf([text])
    assert {name: conf.get(name) for name in values} == values


@pytest.mark.parametrize(("texts", "items"), [c[1:] for c in LISTS], ids=[c[0] for c in LISTS])
def test_lists(texts: list[str], items: tuple[str, ...]) -> None:
    assert apt_conf.read_apt_conf(texts).list_items("A::L") == items


@pytest.mark.parametrize(("text", "line"), BROKEN)
def test_a_text_that_apt_refuses_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(apt_conf.NotAptConf) as refused:
        apt_conf.read_apt_conf([text])
    assert refused.value.line == line


def test_files_of_apt_conf_d_count_by_their_names() -> None:
    """As apt-config of apt 3.0 takes them."""
    ours = ["10.conf", "20auto.conf", "90x", "a.b.conf", "c:d"]
    others = ["50a~", "50b.dpkg-old", ".hidden", "e+f", "g.h"]
    assert apt_conf.sort_apt_conf_names([*others, *reversed(ours)]) == ours


@pytest.mark.skipif(not shutil.which("apt-config"), reason="this machine has no apt")
@pytest.mark.parametrize("texts", [[c[1]] for c in CASES] + [c[1] for c in LISTS])
def test_apt_itself_reads_the_same(texts: list[str], tmp_path: Path) -> None:
    """The judge is apt-config of the machine, which reads these files alone."""
    parts = tmp_path / "parts"
    parts.mkdir()
    for number, text in enumerate(texts):
        (parts / f"{number:02}.conf").write_text(text + "\n")
    (tmp_path / "main").write_text(f'Dir::Etc::parts "{parts}";\nDir::Etc::main "/dev/null";\n')
    shown = subprocess.run(
        ["apt-config", "dump"],
        env={"APT_CONFIG": str(tmp_path / "main"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    conf = apt_conf.read_apt_conf(texts)
    told = [
        (name.lower(), value.rstrip(";").strip('"'))
        for name, value in (line.split(" ", 1) for line in shown.splitlines())
    ]
    assert {n: conf.get(n) for n, v in told if n in ("a::b",) and v} == {
        n: v for n, v in told if n in ("a::b",) and v
    }
    assert list(conf.list_items("A::L")) == [v for n, v in told if n.startswith("a::l::") and v]
