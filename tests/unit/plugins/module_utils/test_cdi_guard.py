# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that stays on hosts and keeps a file in place only while it is true. Python 3.6."""

import errno
import json
import os
import stat

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident import (
    cdi_guard,
    programs,
)

from .conftest import sha

TEXT = "the truth\n"


@pytest.fixture(name="host")
def a_host(tmp_path):
    (tmp_path / "scanned").mkdir()
    (tmp_path / "scanned" / "a.yaml").write_text(TEXT)
    (tmp_path / "devices").mkdir()
    for number in (1, 2):
        (tmp_path / "devices" / str(number)).write_text(
            "Bus: \t %d\nMinor: \t %d\nName: unknown\n" % (number, number)
        )
    (tmp_path / "library").write_text("")
    return tmp_path


def settings(host, digest=None):
    finds = ["^Bus:\\s*(\\d+)", "^Minor:\\s*(\\d+)", "^Name: (id-\\d+)"]
    found = [
        [str(host / "devices" / "1"), "1", "1", None],
        [str(host / "devices" / "2"), "2", "2", "id-2"],
    ]
    facts = [
        {"what": "the set", "each": str(host / "devices" / "*"), "find": finds, "found": found},
        {"what": "numbers", "numbers": {"/dev/null": [1, 3], str(host / "no node"): [1, 5]}},
        {"what": "files", "paths": [str(host / "library")]},
    ]
    entry = {
        "path": str(host / "scanned" / "a.yaml"),
        "sha256": digest or sha(TEXT),
        "mode": 0o644,
        "facts": facts,
    }
    path = host / "settings.json"
    said = {"schema": 1, "aside": str(host / "aside"), "running": str(host / "running")}
    path.write_text(json.dumps(dict(said, files=[entry])))
    return [str(path)]


def places(host):
    return [os.path.exists(str(host / where / "a.yaml")) for where in ("scanned", "aside")]


IN_PLACE, ASIDE = [True, False], [False, True]


def test_a_true_file_stays(host, capsys):
    assert cdi_guard.main(settings(host)) == 0
    assert places(host) == IN_PLACE
    assert capsys.readouterr().out == ""


def test_a_file_that_cannot_be_looked_at_is_not_gone(host, monkeypatch):
    look = os.stat

    def fail(path, *words, **more):
        if path == str(host / "library"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return look(path, *words, **more)

    monkeypatch.setattr(cdi_guard.os, "stat", fail)
    assert cdi_guard.main(settings(host)) == 0
    monkeypatch.undo()
    assert places(host) == IN_PLACE


@pytest.mark.parametrize("name", ["scandir", "lstat"])
def test_devices_that_cannot_be_listed_are_not_gone(host, monkeypatch, name):
    """The spec of a host still names its former devices if none can be listed now."""
    real, wanted = getattr(os, name), settings(host)

    def fail(path, *words, **more):
        if str(path).startswith(str(host / "devices")):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, *words, **more)

    monkeypatch.setattr(programs.os, name, fail)
    assert cdi_guard.main(wanted) == 0
    monkeypatch.undo()
    assert places(host) == IN_PLACE


def test_one_that_waits_in_the_kernel_gets_no_second_one_beside_it(host, capsys):
    wanted = settings(host)
    text = (host / "settings.json").read_text()
    assert cdi_guard.main(wanted) == 0
    assert stat.S_IMODE(os.stat(str(host / "running")).st_mode) == 0o600
    (host / "library").unlink()
    with cdi_guard.is_first_guard(str(host / "running")) as alone:
        assert alone
        assert cdi_guard.main(wanted) == 1
    assert places(host) == IN_PLACE
    (host / "settings.json").write_text(
        json.dumps(dict(json.loads(text), running=str(host / "none" / "running")))
    )
    assert cdi_guard.main(wanted) == 0
    assert "an earlier look has not ended" in capsys.readouterr().out
    assert cdi_guard.main(wanted) == 0
    assert places(host) == ASIDE


CHANGES = [
    ("one is gone", lambda host: (host / "devices" / "2").unlink(), "the set changed"),
    (
        "one more",
        lambda host: (host / "devices" / "3").write_text("Bus: 3\nMinor: 3\n"),
        "the set changed",
    ),
    (
        "another number",
        lambda host: (host / "devices" / "1").write_text("Bus: 1\nMinor: 2\n"),
        "the set changed",
    ),
    (
        "another name",
        lambda host: (host / "devices" / "2").write_text("Bus: 2\nMinor: 2\nName: id-9\n"),
        "the set changed",
    ),
    ("a file is gone", lambda host: (host / "library").unlink(), "library is gone"),
]


@pytest.mark.parametrize(
    ("change", "why"), [case[1:] for case in CHANGES], ids=[case[0] for case in CHANGES]
)
def test_set_aside_when_it_is_not_true_and_back_when_it_is_again(host, capsys, change, why):
    wanted = settings(host)
    before = {
        path: path.read_text()
        for path in [host / "devices" / "1", host / "devices" / "2", host / "library"]
    }
    change(host)
    cdi_guard.main(wanted)
    assert places(host) == ASIDE
    said = capsys.readouterr().out
    assert said.startswith("<4>%s is set aside" % (host / "scanned" / "a.yaml"))
    assert why in said
    cdi_guard.main(wanted)
    assert capsys.readouterr().out == ""  # told once
    for path, text in before.items():
        path.write_text(text)
    if (host / "devices" / "3").exists():
        (host / "devices" / "3").unlink()
    cdi_guard.main(wanted)
    assert places(host) == IN_PLACE
    assert (host / "scanned" / "a.yaml").read_text() == TEXT
    assert stat.S_IMODE(os.stat(str(host / "scanned" / "a.yaml")).st_mode) == 0o644
    assert "is true again" in capsys.readouterr().out
    assert sorted(os.listdir(str(host / "scanned"))) == ["a.yaml"]


def test_what_was_not_known_or_is_not_told_now_counts_as_unchanged(host):
    (host / "devices" / "1").write_text("Bus: 1\nMinor: 1\nName: id-1\n")
    (host / "devices" / "2").write_text("Bus: 2\nMinor: 2\nName: unknown\n")
    cdi_guard.main(settings(host))
    assert places(host) == IN_PLACE


def test_another_device_of_that_name(host):
    wanted = settings(host)
    text = (
        (host / "settings.json").read_text().replace('"/dev/null": [1, 3]', '"/dev/null": [1, 9]')
    )
    (host / "settings.json").write_text(text)
    cdi_guard.main(wanted)
    assert places(host) == ASIDE


def test_a_file_of_somebody_else_is_left_alone(host):
    (host / "library").unlink()
    cdi_guard.main(settings(host, digest=sha("other bytes")))
    assert places(host) == IN_PLACE


def test_a_file_that_is_written_in_place_while_it_moves_goes_back(host, monkeypatch):
    """Who has it open writes to the moved file, after it was read."""
    write = cdi_guard.write_guarded_file

    def write_beside_another(path, data, mode):
        write(path, data, mode)
        with open(cdi_guard.name_moved_file(str(host / "scanned" / "a.yaml")), "w") as stream:
            stream.write("theirs\n")

    monkeypatch.setattr(cdi_guard, "write_guarded_file", write_beside_another)
    (host / "library").unlink()
    assert cdi_guard.main(settings(host)) == 0
    assert places(host) == IN_PLACE
    assert (host / "scanned" / "a.yaml").read_text() == "theirs\n"
    assert os.listdir(str(host / "scanned")) == ["a.yaml"]


def test_a_new_file_in_place_makes_the_old_one_worthless(host):
    (host / "aside").mkdir()
    (host / "aside" / "a.yaml").write_text("older\n")
    cdi_guard.main(settings(host))
    assert places(host) == IN_PLACE
