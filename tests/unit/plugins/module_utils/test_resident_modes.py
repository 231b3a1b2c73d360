# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that stays on hosts and sets what no file keeps: what it sets, leaves alone and says. Python 3.6."""

import json

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.resident import modes

from .conftest import script

# A device's tool: `tool get` prints the mode, `tool set MODE` keeps it, unless a file says how it misbehaves.
TOOL = """\
#!/bin/sh
cd {home}
case "$1" in
  get) echo "the mode"; cat mode ;;
  set) echo "$2" >> calls; [ ! -e deaf ] || exit 0; [ ! -e broken ] || {{ echo no such mode; exit 7; }}; echo "$2" > mode ;;
esac
exit $(cat status)
"""


@pytest.fixture(name="host")
def a_host(tmp_path):
    script(tmp_path / "tool", TOOL.format(home=tmp_path))
    (tmp_path / "mode").write_text("Slow\n")
    (tmp_path / "status").write_text("0\n")
    return tmp_path


def settings(host, value="FAST", pattern="^(Slow|FAST)$"):
    tool = str(host / "tool")
    one = {"name": "device 1", "value": value, "read": [tool, "get"], "pattern": pattern, "set": [tool, "set", value], "accepts": [0, 14]}
    (host / "list.json").write_text(json.dumps({"seconds": 20, "settings": [one]}))
    return [str(host / "list.json")]


def calls(host):
    path = host / "calls"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize("status", ["0", "14"])
def test_set_once_then_left_alone(host, capsys, status):
    (host / "status").write_text(status)
    wanted = settings(host)
    assert modes.main(wanted) == 0
    assert capsys.readouterr().out == "device 1: FAST instead of SLOW\n"
    assert modes.main(wanted) == 0
    assert capsys.readouterr().out == ""
    assert calls(host) == ["FAST"]


def test_letters_make_no_difference(host):
    assert modes.main(settings(host, "slow")) == 0
    assert calls(host) == []


@pytest.mark.parametrize(
    ("file", "sentence"),
    [("deaf", "device 1: FAST was set, and SLOW is read back"), ("broken", "device 1: {tool} set FAST: exit status 7: no such mode")],
)
def test_what_does_not_stay_is_a_failure(host, capsys, file, sentence):
    (host / file).touch()
    assert modes.main(settings(host)) == 1
    assert capsys.readouterr().out == sentence.format(tool=host / "tool") + "\n"


def test_what_cannot_be_read_is_not_set(host, capsys):
    assert modes.main(settings(host, pattern="^(mode: .*)$")) == 1
    assert capsys.readouterr().out == "device 1: %s get says nothing of it\n" % (host / "tool")
    (host / "tool").unlink()
    assert modes.main(settings(host)) == 1
    assert "No such file" in capsys.readouterr().out
    assert calls(host) == []
