# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that stays on hosts and sets what no file keeps: what it sets, leaves alone and says.
Python 3.6.
"""

import json
import os

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident import modes, programs

from .conftest import script

# A device's tool: `tool get` prints the mode, `tool set MODE` keeps it, unless a file says how it
# misbehaves.
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
    one = {
        "name": "device 1",
        "value": value,
        "read": [tool, "get"],
        "pattern": pattern,
        "set": [tool, "set", value],
        "accepts": [0, 14],
    }
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
    [
        ("deaf", "device 1: FAST was set, and SLOW is read back"),
        ("broken", "device 1: {tool} set FAST: exit status 7: no such mode"),
    ],
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
    assert capsys.readouterr().out == "device 1: %s: there is no such program\n" % (host / "tool")
    assert calls(host) == []


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def others(path):
    os.chown(str(path), 1234, 0)


def through_a_link(path):
    """The name is root's, and what it leads through is in a directory of another user."""
    place = path.parent.parent / "elsewhere"
    place.mkdir()
    path.rename(place / path.name)
    path.symlink_to(place / path.name)
    others(place)


def loop(path):
    path.unlink()
    path.symlink_to(path)


UNTRUSTED = [
    # what is wrong with HOME/bin/tool, the sentence
    (
        "the file is another user's",
        others,
        "{bin}/tool is not run: {bin}/tool belongs to user 1234",
    ),
    (
        "its directory is",
        lambda path: others(path.parent),
        "{bin}/tool is not run: {bin} belongs to user 1234",
    ),
    (
        "one above is",
        lambda path: others(path.parent.parent),
        "{bin}/tool is not run: {home} belongs to user 1234",
    ),
    (
        "everybody may write",
        lambda path: path.chmod(0o757),
        "{bin}/tool is not run: {bin}/tool may be written to by others (mode 0757)",
    ),
    (
        "its directory, too",
        lambda path: path.parent.chmod(0o777),
        "{bin}/tool is not run: {bin} may be written to by others (mode 0777)",
    ),
    (
        "a sticky one",
        lambda path: path.parent.chmod(0o1777),
        "{bin}/tool is not run: {bin} may be written to by others (mode 1777)",
    ),
    (
        "a group may write",
        lambda path: (os.chown(str(path.parent), 0, 1234), path.parent.chmod(0o775)),
        "{bin}/tool is not run: {bin} may be written to by others (mode 0775)",
    ),
    (
        "a link leads to others",
        through_a_link,
        "{bin}/tool is not run: {home}/elsewhere belongs to user 1234",
    ),
    ("it is no program", lambda path: path.chmod(0o644), "tool: there is no such program in {bin}"),
    ("a link to itself", loop, "tool: there is no such program in {bin}"),
]


@as_root
@pytest.mark.parametrize("named", [True, False], ids=["by name", "by path"])
@pytest.mark.parametrize(
    ("wrong", "sentence"), [c[1:] for c in UNTRUSTED], ids=[c[0] for c in UNTRUSTED]
)
def test_a_program_that_others_could_change_is_not_run(
    host, capsys, monkeypatch, wrong, sentence, named
):
    place = host / "bin"
    place.mkdir()
    ran = host / "ran"
    tool = script(place / "tool", "#!/bin/sh\necho >> %s\necho Slow\n" % ran)
    monkeypatch.setattr(programs, "PATH", str(place))
    wanted = settings(host, "slow")
    argv = "tool" if named else tool
    text = (host / "list.json").read_text().replace(str(host / "tool"), argv)
    (host / "list.json").write_text(text)
    assert modes.main(wanted) == 0
    assert ran.exists()
    ran.unlink()
    wrong(place / "tool")
    assert modes.main(wanted) == 1
    expected = sentence.format(bin=place, home=host)
    expected = (
        expected if named or "no such" not in expected else "%s: there is no such program" % tool
    )
    assert capsys.readouterr().out == "device 1: %s\n" % expected
    assert not ran.exists()
