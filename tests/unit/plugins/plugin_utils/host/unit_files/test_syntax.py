# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sections and files with an environment. Every row was held against systemd 252 itself."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import syntax

# text of [Service] -> the commands of ExecStart
COMMANDS: dict[str, list[list[str]]] = {
    "ExecStart=/bin/a b": [["/bin/a", "b"]],
    "ExecStart = /bin/a b  ": [["/bin/a", "b"]],
    "ExecStart=-/bin/a b": [["/bin/a", "b"]],
    "ExecStart=@/bin/a zero b": [["/bin/a", "b"]],
    "ExecStart=-@/bin/a zero b": [["/bin/a", "b"]],
    "ExecStart=:/bin/a $B": [["/bin/a", "$B"]],
    "ExecStart=+/bin/a": [["/bin/a"]],
    "ExecStart=!!/bin/a": [["/bin/a"]],
    "ExecStart=/bin/a\nExecStart=\nExecStart=/bin/b": [["/bin/b"]],
    "ExecStart=/bin/a\nExecStart=/bin/b": [["/bin/a"], ["/bin/b"]],
    "ExecStart=/bin/a one ; /bin/b two": [["/bin/a", "one"], ["/bin/b", "two"]],
    "ExecStart=/bin/a one \\; two": [["/bin/a", "one", ";", "two"]],
    'ExecStart=/bin/a one ";" two': [["/bin/a", "one", ";", "two"]],
    "ExecStart=/bin/a \\\n  one \\\n# ExecStart=/bin/c\n; note\n  two": [["/bin/a", "one", "two"]],
    "ExecStart=/bin/a one\\\\\nExecStart=": [],
    "ExecStart=/bin/a one\\": [["/bin/a", "one"]],
    "ExecStart=/bin/a 'one": [],
    "# ExecStart=/bin/a \\\nExecStart=/bin/b": [["/bin/b"]],
    "Description=x \\\nExecStart=/bin/a": [],
    "[Unit]\nExecStart=/bin/a\n[Service]\nExecStart=/bin/b": [["/bin/b"]],
    "execstart=/bin/a": [],
}


@pytest.mark.parametrize("text", COMMANDS)
def test_commands(text: str) -> None:
    found = syntax.read_service([("/a.service", f"[Service]\n{text}\n")], "a.service")
    assert [list(command.words) for command in found.commands] == COMMANDS[text]


def test_drop_ins_add_to_the_units_file_and_take_back_what_it_says() -> None:
    texts = [
        (
            "/a.service",
            "[Service]\nEnvironment=A=1 'B=x y'\nEnvironmentFile=-/one\nExecStart=/bin/a\n",
        ),
        ("/1.conf", "[Service]\nEnvironment=A=2\nEnvironmentFile=/two/*.env\n"),
        ("/2.conf", "# reset\n[Service]\nExecStart=\nExecStart=:/bin/b %n\n"),
    ]
    found = syntax.read_service(texts, "a.service")
    assert found.assignments == ("A=1", "B=x y", "A=2")
    assert found.files == ("-/one", "/two/*.env")
    assert found.commands == (
        syntax.StartCommand(("/bin/b", "a.service"), "/2.conf", 4, verbatim=True),
    )
    emptied = syntax.read_service(
        [*texts, ("/3.conf", "[Service]\nEnvironment=\nEnvironmentFile=\n")], "a.service"
    )
    assert (emptied.assignments, emptied.files) == ((), ())


ENVIRONMENT = r"""# a comment that goes on no more \
E=first
export X=1
F="dq \"esc\" \$d \x y"
G='sq \n $x'
H = spaced value
I=trail\
J="multi
line" tail
K=a"b c"d
L=back\slash
M="one" "two"
;E=no
O=a#b ; c
no equals sign
E=last
=no name
"""


def test_a_file_with_an_environment() -> None:
    assert syntax.read_environment(ENVIRONMENT) == {
        "E": "last", "F": 'dq "esc" $d \\x y', "G": "sq \\n $x", "H": "spaced value", "I": 'trailJ="multi', "K": 'a"b c"d',
        "L": "backslash", "M": "onetwo", "O": "a#b ; c",
    }  # fmt: skip
