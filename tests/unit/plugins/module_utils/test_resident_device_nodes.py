# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that stays on hosts and makes device nodes: what it makes, mends, leaves alone and
says. Python 3.6.
"""

import errno
import json
import os
import socket
import stat
import time

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident import (
    cdi_guard,
    device_nodes,
    modes,
    programs,
)

from .conftest import script

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make device nodes")


@pytest.fixture(name="host")
def a_host(tmp_path, monkeypatch):
    """A kernel that has two drivers' majors (those of /dev/null and /dev/full), and a modprobe that
    writes down what it is asked for.
    """
    (tmp_path / "devices").write_text(
        "Character devices:\n  1 first\n  7 second\n\nBlock devices:\n  1 third\n"
    )
    (tmp_path / "params").write_text("FileMode: 432\nFileUID: 0\nFileGID: 0\n")
    (tmp_path / "one").write_text("Minor: \t 3\nMode: 292\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "bin").mkdir()
    script(
        tmp_path / "bin" / "modprobe",
        "#!/bin/sh\necho $1 >> %s/loaded\necho no such module: $1\nexit 1\n" % tmp_path,
    )
    monkeypatch.setattr(programs, "PATH", "%s:/usr/bin:/bin" % (tmp_path / "bin"))
    return tmp_path


def rules(host, nodes, **more):
    params = {"file": str(host / "params"), "mode": "FileMode", "uid": "FileUID", "gid": "FileGID"}
    whole = {
        "majors": str(host / "devices"),
        "params": params,
        "links": str(host / "char"),
        "nodes": nodes,
        "seconds": 20,
    }
    path = host / "rules.json"
    path.write_text(json.dumps(dict(whole, **more)))
    return [str(path)]


def fixed(host, name="null", minor=3, drivers=("gone", "first")):
    return {"path": str(host / "dev" / name), "minor": minor, "drivers": list(drivers)}


def numbers(path):
    found = os.lstat(str(path))
    return (
        stat.S_ISCHR(found.st_mode),
        os.major(found.st_rdev),
        os.minor(found.st_rdev),
        oct(stat.S_IMODE(found.st_mode)),
    )


RIGHT = (True, 1, 3, "0o660")


@as_root
def test_made_once_then_left_alone(host, capsys):
    wanted = rules(host, [fixed(host)])
    assert device_nodes.main(wanted) == 0
    assert "made as 1:3, mode 660" in capsys.readouterr().out
    assert numbers(host / "dev" / "null") == RIGHT
    assert os.readlink(str(host / "char" / "1:3")) == "../dev/null"
    assert device_nodes.main(wanted) == 0
    assert capsys.readouterr().out == ""
    assert sorted(os.listdir(str(host / "dev"))) == ["null"]


def another_node(path):
    os.mknod(str(path), stat.S_IFCHR | 0o666, os.makedev(1, 7))


WRONG = [
    ("another device", another_node),
    ("a file", lambda path: path.write_text("")),
    ("a link", lambda path: path.symlink_to("/dev/null")),
    ("an empty directory", lambda path: path.mkdir()),
    ("another mode", lambda path: os.mknod(str(path), stat.S_IFCHR | 0o600, os.makedev(1, 3))),
]


@as_root
@pytest.mark.parametrize("put", [case[1] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_is_wrong_is_replaced(host, put):
    put(host / "dev" / "null")
    assert device_nodes.main(rules(host, [fixed(host)])) == 0
    assert numbers(host / "dev" / "null") == RIGHT


@as_root
def test_one_that_cannot_be_made_does_not_stop_the_next(host, capsys):
    (host / "dev" / "full").mkdir()
    (host / "dev" / "full" / "somebody's").write_text("")
    assert device_nodes.main(rules(host, [fixed(host, "full", 7), fixed(host)])) == 1
    assert "dev/full: Directory not empty" in capsys.readouterr().out
    assert numbers(host / "dev" / "null") == RIGHT


@as_root
def test_a_link_that_leads_there_is_right_however_it_is_written(host, capsys):
    (host / "char").mkdir()
    (host / "char" / "1:3").symlink_to(host / "dev" / "null")
    device_nodes.main(rules(host, [fixed(host)]))
    assert "links to" not in capsys.readouterr().out
    assert os.readlink(str(host / "char" / "1:3")) == str(host / "dev" / "null")


def test_one_node_for_each_file_with_its_own_mode(host):
    each = {
        "path": "/dev/cap{minor}",
        "drivers": ["second"],
        "each": str(host / "o*"),
        "minor": "Minor",
        "mode": "Mode",
    }
    (host / "other").write_text("Minor: 9\nHidden: Yes\n")
    (host / "odd").write_text("Minor: many\n")
    with open(rules(host, [dict(each, unless=["Hidden", "Yes"])])[0]) as stream:
        found, unread = device_nodes.list_desired_nodes(json.load(stream))
    assert [(node["path"], node["numbers"], node["mode"]) for node in found] == [
        ("/dev/cap3", (7, 3), 0o444)
    ]
    assert unread == []


def test_a_driver_that_is_not_there_gets_no_node(host):
    assert device_nodes.main(rules(host, [fixed(host, drivers=["gone"])])) == 0
    assert os.listdir(str(host / "dev")) == []


def unreadable(monkeypatch, name):
    """Have each file of that name fail as one on a device that is lost."""

    def fail(path, *words, **more):
        if os.path.basename(str(path)) == name:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return open(path, *words, **more)

    monkeypatch.setattr(device_nodes, "open", fail, raising=False)


def test_a_list_of_drivers_that_cannot_be_read_is_not_one_without_drivers(
    host, monkeypatch, capsys
):
    unreadable(monkeypatch, "devices")
    modules = [{"name": "new", "device": "gone"}]
    assert device_nodes.main(rules(host, [fixed(host)], modules=modules)) == 1
    assert str(host / "devices") in capsys.readouterr().out
    assert not (host / "loaded").exists(), "a module is loaded only if its driver is known to lack"


@as_root
def test_a_device_whose_file_cannot_be_read_keeps_no_other_from_its_node(host, monkeypatch, capsys):
    each = {
        "path": str(host / "dev" / "cap{minor}"),
        "drivers": ["second"],
        "each": str(host / "o*"),
        "minor": "Minor",
    }
    (host / "other").write_text("Minor: 9\n")
    unreadable(monkeypatch, "one")
    assert device_nodes.main(rules(host, [each, fixed(host)])) == 1
    assert str(host / "one") in capsys.readouterr().out
    assert sorted(os.listdir(str(host / "dev"))) == ["cap9", "null"]


@as_root
def test_a_directory_of_devices_that_cannot_be_listed_is_not_an_empty_one(
    host, monkeypatch, capsys
):
    real = os.scandir

    def fail(path):
        if str(path) == str(host):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path)

    each = {
        "path": str(host / "cap"),
        "drivers": ["second"],
        "each": str(host / "o*"),
        "minor": "M",
    }
    monkeypatch.setattr(os, "scandir", fail)
    assert device_nodes.main(rules(host, [each, fixed(host)])) == 1
    monkeypatch.undo()
    assert str(host) in capsys.readouterr().out
    assert os.listdir(str(host / "dev")) == ["null"], "the others are made"


def test_modes_that_cannot_be_read_are_not_the_usual_ones(host, monkeypatch, capsys):
    unreadable(monkeypatch, "params")
    assert device_nodes.main(rules(host, [fixed(host)])) == 1
    assert str(host / "params") in capsys.readouterr().out
    assert os.listdir(str(host / "dev")) == []


@as_root
def test_a_driver_without_a_file_of_modes_has_the_usual_ones(host):
    (host / "params").unlink()
    assert device_nodes.main(rules(host, [fixed(host)])) == 0
    assert numbers(host / "dev" / "null") == (True, 1, 3, "0o666")


LOCKS = {
    "a link": lambda lock: lock.symlink_to("/nowhere/at/all"),
    "a socket": lambda lock: socket.socket(socket.AF_UNIX).bind(str(lock)),
}


@pytest.mark.parametrize("make", sorted(LOCKS))
@pytest.mark.parametrize(
    "program", [device_nodes, modes, cdi_guard], ids=["device nodes", "modes", "guard"]
)
def test_a_lock_that_cannot_be_opened_is_not_one_that_nobody_holds(
    host, monkeypatch, capsys, program, make
):
    lock = host / "lock"
    monkeypatch.setattr(programs, "LOCK", str(lock))
    wanted = rules(
        host,
        [fixed(host)],
        settings=[],
        files=[],
        aside=str(host / "aside"),
        running=str(host / "running"),
    )
    assert program.main(wanted) == 0
    (host / "dev" / "null").unlink() if program is device_nodes and os.geteuid() == 0 else None
    lock.unlink()
    LOCKS[make](lock)
    capsys.readouterr()
    assert program.main(wanted) == 1
    assert str(lock) in capsys.readouterr().out
    assert os.listdir(str(host / "dev")) == []


@as_root
def test_a_lock_on_a_file_system_that_is_read_only_is_taken_all_the_same(host, monkeypatch):
    lock, opened = host / "lock", os.open
    lock.write_text("")
    monkeypatch.setattr(programs, "LOCK", str(lock))

    def read_only(path, flags, *words, **more):
        if path == str(lock) and flags & os.O_ACCMODE != os.O_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return opened(path, flags, *words, **more)

    monkeypatch.setattr(os, "open", read_only)
    assert device_nodes.main(rules(host, [fixed(host)])) == 0
    assert numbers(host / "dev" / "null") == RIGHT
    assert programs.get_lock_stamp() is not None


@pytest.mark.parametrize(
    "number, there",
    [(errno.ENODATA, False), (errno.EOPNOTSUPP, False), (errno.EIO, True), (errno.EACCES, True)],
)
def test_an_acl_that_cannot_be_read_is_not_absent(host, monkeypatch, number, there):
    def fail(*_words, **_more):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(programs.os, "getxattr", fail)
    assert programs.has_acl(str(host)) is there


def test_modules_are_loaded_where_their_devices_are_not_there(host, capsys):
    modules = [{"name": "one", "device": "first"}, {"name": "new", "device": "gone"}]
    assert device_nodes.main(rules(host, [], modules=modules)) == 1
    assert (host / "loaded").read_text() == "new\n"
    assert "modprobe new: exit status 1: no such module: new" in capsys.readouterr().out


def test_a_module_that_hangs_is_left_after_its_time(host, capsys):
    """Its child holds its output open, and is ended with it."""
    script(host / "bin" / "modprobe", "#!/bin/sh\nsleep 60 &\necho $! > %s/child\nwait\n" % host)
    modules = [{"name": "hangs", "device": "gone"}, {"name": "too", "device": "gone"}]
    began = time.monotonic()
    assert (
        device_nodes.main(
            rules(host, [fixed(host)] if os.geteuid() == 0 else [], modules=modules, seconds=0.5)
        )
        == 1
    )
    assert time.monotonic() - began < 20
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.startswith("modprobe")] == [
        "modprobe hangs: no end within 0.5 s",
        "modprobe too: no end within 0.5 s",
    ]
    exe = "/proc/%s/exe" % (host / "child").read_text().strip()  # a zombie has none
    while os.path.exists(exe) and time.monotonic() - began < 20:
        os.sched_yield()
    assert not os.path.exists(exe)
    assert os.listdir(str(host / "dev")) == (["null"] if os.geteuid() == 0 else []), (
        "nodes are made all the same"
    )
