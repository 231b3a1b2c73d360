# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes, running programs and sockets are believed."""

import errno
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
    process_queries,
    process_trust,
    trust,
)

from .conftest import VERSION

# --- processes
# --------------------------------------------------------------------------------------------------

HOST, OTHERS = "user:[4026531837]", "user:[4026532999]"
ROOT = (41, 2)
UNITS = {
    "engine.service": {
        "MainPID": "800",
        "FragmentPath": "/usr/lib/systemd/system/engine.service",
        "DropInPaths": "",
    },
    "forking.service": {
        "MainPID": "0",
        "FragmentPath": "/etc/systemd/system/forking.service",
        "DropInPaths": "",
    },
    "snap.engine.daemon.service": {
        "MainPID": "801",
        "FragmentPath": "/etc/systemd/system/snap.engine.service",
        "DropInPaths": "",
    },
}


def a_process(**more):
    fields = dict(
        pid=800, ppid=1, start=4711, uids=(0, 0, 0, 0), exe="/usr/bin/engine", deleted=False, argv=("engine",), users=HOST, pids=1,
        root=ROOT, groups="0::/system.slice/engine.service\n",
    )  # fmt: skip
    return trust.Process(**dict(fields, **more))


def judge(monkeypatch, others=(), first="0::/init.scope\n"):
    monkeypatch.setattr(trust, "judge_path", lambda root, wanted: None)
    known = {process.pid: process for process in others}

    def look(pid):
        if pid not in known:
            raise ProcessLookupError()
        return known[pid]

    made = process_trust.Judge(lambda names: UNITS)
    made.first, made.users, made.root = (
        first,
        HOST,
        os.stat_result((0, ROOT[1], ROOT[0]) + (0,) * 7),
    )
    monkeypatch.setattr(trust, "read_process", look)
    return made


PERSONS = "0::/user.slice/user-1001.slice/user@1001.service/"

# name, the process, its ancestors, the row that it breaks (None: verified)
PROCESSES = [
    ("a service's main process", {}, [], None),
    ("replaced on disk by an upgrade, and not restarted", {"deleted": True}, [], None),
    ("a child of the main process, as k3s' containerd", {"pid": 900, "ppid": 800}, [{}], None),
    ("a grandchild", {"pid": 901, "ppid": 900}, [{"pid": 900, "ppid": 800}, {}], None),
    ("in a slice of the administrator's", {"groups": "0::/podruntime.slice/engine.service\n"}, [], None),
    ("in a group that the service has made for itself", {"groups": "0::/system.slice/engine.service/daemon\n"}, [], None),
    ("systemd's own hierarchy of version 1", {"groups": "4:cpu:/x\n1:name=systemd:/system.slice/engine.service\n"}, [], None),
    ("both hierarchies, one of them bare", {"groups": "1:name=systemd:/\n0::/system.slice/engine.service\n"}, [], None),
    ("a snap without confinement, as MicroK8s", {"pid": 801, "groups": "0::/system.slice/snap.engine.daemon.service\n"}, [], None),
    ("a snap with confinement, which has a root directory of its own", {"root": (7, 2)}, [], "root directory"),
    ("somebody's", {"uids": (1001, 1001, 1001, 1001)}, [], "user"),
    ("a setuid program, whoever called it and however", {"uids": (1001, 0, 0, 0)}, [], "user"),
    ("a program that has given up its rights for a while", {"uids": (0, 1001, 0, 1001)}, [], "user"),
    ("root of a user namespace, as a rootless engine's", {"users": OTHERS}, [], "user namespace"),
    ("an engine in a container, as kind's", {"pids": 2}, [], "PID namespace"),
    ("in a container with the host's PIDs", {"root": (99, 1), "groups": "0::/kubepods.slice/cri-x.scope\n"}, [], "root directory"),
    ("the same with the host's files as its root", {"groups": "0::/kubepods.slice/cri-x.scope\n"}, [], "service"),
    ("the same of an engine that knows no systemd", {"groups": "0::/kubepods/burstable/pod1/abc\n"}, [], "service"),
    ("started by hand with sudo", {"groups": "0::/user.slice/user-1001.slice/session-3.scope\n"}, [], "service"),
    ("a unit of a person's own manager, called like the system's", {"groups": PERSONS + "app.slice/engine.service\n"}, [], "service"),
    ("the hierarchies tell different units", {"groups": "1:name=systemd:/a/x.service\n0::/a/engine.service\n"}, [], "service"),
    ("beside everything that the host's systemd knows", {"groups": "0::/../engine.service\n"}, [], "service"),
    ("in no group at all", {"groups": "0::/\n"}, [], "service"),
    ("in the service's group, but nobody's child", {"pid": 900, "ppid": 1}, [], "main process"),
    ("a service without a main process", {"groups": "0::/system.slice/forking.service\n"}, [], "main process"),
    ("a service that systemd does not know", {"groups": "0::/system.slice/unknown.service\n"}, [], "main process"),
    ("a child through somebody's process", {"pid": 901, "ppid": 900}, [{"pid": 900, "ppid": 800, "uids": (9,) * 4}, {}], "main process"),
    ("a child of a process that is gone", {"pid": 901, "ppid": 900}, [], "main process"),
]  # fmt: skip


@pytest.mark.parametrize(
    "fields, ancestors, row", [case[1:] for case in PROCESSES], ids=[case[0] for case in PROCESSES]
)
def test_process_counts_when_root_s_systemd_has_started_it_as_a_service_of_this_host(
    monkeypatch, fields, ancestors, row
):
    doubt = judge(monkeypatch, [a_process(**more) for more in ancestors]).find_doubt(
        a_process(**fields)
    )
    assert (doubt and doubt.row) == row
    assert row is None or doubt.remedy


def test_process_is_judged_below_the_group_of_the_hosts_first_process(monkeypatch):
    """In a container that is a host of its own (a lab's, LXC's), everything lies in the group that
    the outer host has made.
    """
    inside = judge(monkeypatch, first="0::/machine.slice/machine-x.scope/payload/init.scope\n")
    assert (
        inside.find_doubt(
            a_process(
                groups="0::/machine.slice/machine-x.scope/payload/system.slice/engine.service\n"
            )
        )
        is None
    )
    assert inside.find_doubt(a_process(groups="0::/system.slice/engine.service\n")).row == "service"
    assert (
        judge(monkeypatch)
        .find_doubt(
            a_process(groups="0::/machine.slice/machine-x.scope/system.slice/engine.service\n")
        )
        .row
        == "service"
    )


@pytest.mark.parametrize(
    "place",
    [
        "/usr/lib/systemd/system/engine.service",
        "/etc/systemd/system/engine.service.d/10-proxy.conf",
    ],
)
def test_process_of_a_unit_that_somebody_else_may_write_is_not_verified(monkeypatch, place):
    shown = {
        "engine.service": dict(
            UNITS["engine.service"],
            DropInPaths="/etc/systemd/system/engine.service.d/10-proxy.conf",
        )
    }
    made = judge(monkeypatch)
    made.show = lambda names: shown
    monkeypatch.setattr(
        trust,
        "judge_path",
        lambda root, wanted: (
            trust.Doubt("path", place, "belongs to user 7", "chown") if wanted == place else None
        ),
    )
    doubt = made.find_doubt(a_process())
    assert (doubt.row, doubt.place, doubt.why) == (
        "unit",
        place,
        "belongs to user 7 (a file of engine.service)",
    )


def test_process_that_changes_while_it_is_read_is_dropped(monkeypatch):
    real = trust._read_process
    counter = []

    def changing(pid, place):
        counter.append(pid)
        return real(pid, place)._replace(argv=("engine", str(len(counter))))

    monkeypatch.setattr(trust, "_read_process", changing)
    with pytest.raises(trust.ENDED):
        trust.read_process(os.getpid())
    monkeypatch.setattr(trust, "_read_process", real)
    assert trust.read_process(os.getpid()).pid == os.getpid()


def test_a_program_that_is_being_started_is_waited_for_until_it_has_its_arguments(monkeypatch):
    """Between two steps of execve(2) it has its name and no arguments: an engine with --config
    would be one without.
    """
    real, asked = trust.read_proc_file, []

    def late(name, place=None, **more):
        asked.extend([name] if name == "cmdline" else [])
        return "" if name == "cmdline" and len(asked) < 9 else real(name, place, **more)

    monkeypatch.setattr(trust, "read_proc_file", late)
    found = trust.read_process(os.getpid())
    assert found.argv == tuple(pathlib.Path("/proc/self/cmdline").read_text().split("\0")[:-1])


def test_a_process_that_has_taken_its_arguments_away_is_one_without(monkeypatch):
    real = trust.read_proc_file
    monkeypatch.setattr(
        trust,
        "read_proc_file",
        lambda name, place=None, **more: "" if name == "cmdline" else real(name, place, **more),
    )
    assert trust.read_process(os.getpid()).argv == ()


def test_process_that_is_gone_is_dropped():
    child = subprocess.Popen(["true"])
    child.wait()
    with pytest.raises(trust.ENDED):
        trust.read_process(child.pid)


def test_process_is_named_by_its_program_never_by_what_it_calls_itself(tmp_path):
    child = subprocess.Popen(["an-engine", "60"], executable="/bin/sleep")
    try:
        assert trust.get_process_name(child.pid) == os.path.basename(os.path.realpath("/bin/sleep"))
        assert process_trust.is_root(child.pid)
        assert process_queries.list_processes(["an-engine"])["processes"] == []
    finally:
        child.kill()
        child.wait()


def test_process_of_anybody_else_is_counted_and_never_read(tmp_path, monkeypatch):
    """However many there are, and whatever their arguments: limits are for root's."""
    place = pathlib.Path(tempfile.mkdtemp())  # where others may enter as well
    place.chmod(0o755)
    engine = place / "engine"
    shutil.copy(os.path.realpath("/bin/sleep"), str(engine))
    monkeypatch.setattr(process_queries, "MAX_PROCESSES", 1)
    children = [
        subprocess.Popen([str(engine), "60"], preexec_fn=lambda: os.setuid(1001))
        for _number in range(3)
    ]
    try:
        monkeypatch.setattr(trust, "read_process", lambda pid: pytest.fail("read"))
        assert process_queries.list_processes(["engine", "other"]) == {
            "processes": [],
            "programs": {},
            "others": {"engine": 3},
        }
    finally:
        for child in children:
            child.kill()
            child.wait()
        shutil.rmtree(str(place))


# Its output ends once it is the program.
DEEP = """
import os, shutil, sys
for _number in range(30):
    os.mkdir("x" * 200)
    os.chdir("x" * 200)
shutil.copy(sys.argv[1], "engine")
os.set_inheritable(1, False)
os.execv("./engine", ["engine", "60"])
"""


def test_a_program_that_lies_too_deep_to_be_told_stops_no_look(tmp_path):
    """Any account may start one, and the kernel tells no part of its path."""
    sleep = os.path.realpath("/bin/sleep")
    child = subprocess.Popen(
        [sys.executable, "-c", DEEP, sleep], cwd=str(tmp_path), stdout=subprocess.PIPE
    )
    try:
        child.stdout.read()
        with pytest.raises(OSError) as raised:
            os.readlink("/proc/%d/exe" % child.pid)
        assert raised.value.errno == errno.ENAMETOOLONG
        assert trust.get_process_name(child.pid) is None
        with pytest.raises(trust.ENDED):
            trust.read_process(child.pid)
        assert process_queries.list_processes(["engine"])["processes"] == []
    finally:
        child.kill()
        child.communicate()
        subprocess.run(["rm", "-rf", str(tmp_path / ("x" * 200))], check=True)


@pytest.mark.parametrize(
    ("number", "told"), [(errno.ENAMETOOLONG, [800, ["7"], ""]), (errno.EIO, None)]
)
def test_a_holder_in_a_group_that_is_nested_too_deep_is_one(monkeypatch, number, told):
    """A user's own manager may nest control groups as deep as it likes."""
    real = trust.read_proc_file

    def refused(name, *more, **others):
        if name == "/proc/800/cgroup":
            raise OSError(number, os.strerror(number))
        return real(name, *more, **others)

    monkeypatch.setattr(trust, "read_proc_file", refused)
    if told is None:
        with pytest.raises(OSError):
            process_queries._describe_held(800, {"7"})
    else:
        assert process_queries._describe_held(800, {"7"}) == told


BECOME = [
    ("another program", {"exe": "/usr/bin/passwd"}),
    ("another user's", {"uids": (0, 0, 1001, 1001)}),
    ("one in a PID namespace of its own", {"pids": 2}),
]


@pytest.mark.parametrize("become", [case[1] for case in BECOME], ids=[case[0] for case in BECOME])
def test_process_that_has_become_something_else_since_it_was_named_is_dropped(
    engine, monkeypatch, become
):
    """Between its name and its being read it may have started a setuid program, which is root's and
    not what was asked for.
    """
    real = trust.read_process
    assert [found["pid"] for found in process_queries.list_processes(["engine"])["processes"]] == [
        engine[1].pid
    ]
    monkeypatch.setattr(trust, "read_process", lambda pid: real(pid)._replace(**become))
    assert process_queries.list_processes(["engine"])["processes"] == []


# --- programs that run
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def engine(tmp_path):
    """A program that runs: (its path, the process)."""
    path = tmp_path / "somewhere" / "engine"
    path.parent.mkdir()
    shutil.copy(os.path.realpath("/bin/sleep"), str(path))
    child = subprocess.Popen([str(path), "60"])
    while (
        trust.get_process_name(child.pid) != "engine"
        or not open("/proc/%d/cmdline" % child.pid, "rb").read()
    ):
        os.sched_yield()  # between fork and exec it is us, and its words come after its name
    yield path, child
    child.kill()
    child.wait()


def run_again(path, child, **more):
    start = trust.read_process(child.pid).start
    return commands.decode_answer(
        commands.run(
            [str(path), "--version"], process=dict({"pid": child.pid, "ticks": start}, **more)
        )
    )


def test_running_program_is_run_by_its_descriptor_wherever_it_lies(engine):
    path, child = engine
    os.chown(str(path.parent), 1001, 1001)  # as RKE2's /usr/local/bin, which may belong to 1001
    with pytest.raises(host_files.HostError):
        commands.run([str(path), "--version"])
    assert run_again(path, child)["stdout"] == VERSION


def test_running_program_is_run_even_where_something_else_has_taken_its_name(engine):
    path, child = engine
    path.unlink()
    path.write_text("#!/bin/sh\necho somebody else\n")
    path.chmod(0o755)
    assert trust.read_process(child.pid).deleted
    assert run_again(path, child)["stdout"] == VERSION


@pytest.mark.parametrize(
    "mode, uid, why",
    [
        (0o775, 0, "may be written to by others"),
        (0o757, 0, "may be written to"),
        (0o755, 1001, "user 1001"),
    ],
)
def test_running_program_has_to_be_root_s_own_file(engine, mode, uid, why):
    path, child = engine
    os.chown(str(path), uid, 0)
    path.chmod(mode)
    with pytest.raises(host_files.HostError) as caught:
        run_again(path, child)
    assert caught.value.kind == "untrusted"
    assert why in caught.value.message


def test_running_program_is_bound_to_the_process_that_was_seen(engine):
    path, child = engine
    for more, called in (({"ticks": 1}, path), ({}, "/bin/sleep")):
        with pytest.raises(host_files.HostError) as caught:
            run_again(called, child, **more)
        assert caught.value.kind == "gone"
    child.kill()
    child.wait()
    with pytest.raises(host_files.HostError) as caught:
        commands.run([str(path)], process={"pid": child.pid, "ticks": 1})
    assert caught.value.kind == "gone"


def test_programs_get_a_working_directory_and_an_environment_of_our_own(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "/home/m/x.so")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setattr(commands, "asked_for", ["HTTPS_PROXY", "LD_PRELOAD", "NOT_SET"])
    said = commands.decode_answer(commands.run(["sh", "-c", "pwd; env"]))["stdout"].splitlines()
    assert said[0] == "/"
    found = dict(line.split("=", 1) for line in said[1:])
    assert {
        name: value for name, value in found.items() if name not in ("PWD", "OLDPWD", "SHLVL", "_")
    } == {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin",
        "HOME": "/root",
        "LANG": "C",
        "LC_ALL": "C",
        "LANGUAGE": "C",
        "HTTPS_PROXY": "http://proxy:3128",
    }


# --- sockets
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def listening(tmp_path):
    path = str(tmp_path / "run" / "engine.sock")
    os.mkdir(os.path.dirname(path), 0o711)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen(5)
        yield path


def refused(path):
    with pytest.raises(host_files.HostError) as caught:
        trust.connect(path, 5)
    assert caught.value.kind == "untrusted"
    return caught.value.message


def test_socket_may_be_open_to_a_group_or_to_all_as_docker_s_is(listening):
    os.chown(listening, 0, 998)
    for mode in (0o660, 0o666):
        os.chmod(listening, mode)
        trust.connect(listening, 5).close()
    assert trust.answered[listening] == os.getpid()


def test_socket_of_somebody_or_in_a_place_of_somebody_is_not_talked_to(listening):
    os.chown(listening, 1001, 0)
    assert "belongs to user" in refused(listening)
    os.chown(listening, 0, 0)
    os.chmod(os.path.dirname(listening), 0o777)
    assert "may be written to by others" in refused(listening)
    os.chmod(os.path.dirname(listening), 0o755)
    os.chown(os.path.dirname(listening), 1001, 0)
    assert "belongs to user" in refused(listening)


def test_socket_that_somebody_else_answers_gets_nothing(listening, monkeypatch):
    monkeypatch.setattr(trust, "get_socket_peer", lambda connection: (4711, 1001))
    assert "is answered by user 1001" in refused(listening)
