# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that stays on hosts and sees to MPS daemons: where it makes things, what it tells a
daemon, how long it waits. Python 3.6.
"""

import json
import os
import resource
import stat
import subprocess

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident import mps

from .conftest import script

# What stands for the control program: it notes its environment and what it is told, and answers as
# a file says.
CONTROL = """\
#!/bin/sh
cd {home}
env | grep CUDA | sort > environment
[ "$1" != -f ] || exit 0
[ ! -e down ] || {{ echo Cannot find MPS control daemon process; exit 1; }}
read -r line; echo "$line" >> told
cat "$(echo "$line" | tr ' ' -)" 2>/dev/null || echo 100.0
"""
THREADS = {"set": "set_threads 25", "get": "get_threads", "number": 25}
MEMORY = {"set": "set_memory 0 8M", "get": "get_memory 0", "number": None}


@pytest.fixture(name="host")
def a_host(tmp_path):
    script(tmp_path / "control", CONTROL.format(home=tmp_path))
    (tmp_path / "devices").write_text(
        "Character devices:\n195 nvidia\n510 nvidia-uvm\n\nBlock devices:\n259 blkext\n"
    )
    return tmp_path


@pytest.fixture(name="mounts")
def no_mounts(monkeypatch):
    """Only root may mount: what would be mounted is noted."""
    done = []
    played(monkeypatch, ("mount", "umount"), done.append)
    return done


def played(monkeypatch, names, play):
    """Programs of these names are not run; all others are."""
    others = mps.run_program

    def run_program(argv, seconds, **more):
        return play(argv) if argv[0] in names else others(argv, seconds, **more)

    monkeypatch.setattr(mps, "run_program", run_program)


def run(host, verb, name="GPU-1", limits=(), **more):
    wanted = {
        "program": str(host / "control"),
        "asked": "get_threads",
        "seconds": 10,
        "patience": 10,
        "places": {
            "pipe": "%s/run/NAME/pipe" % host,
            "shm": "%s/run/NAME/shm" % host,
            "log": "%s/log/NAME" % host,
        },
        "mounts": {
            "pipe": {"options": "size=2", "mode": "0755"},
            "shm": {"options": "size=1", "mode": "1777"},
        },
        "majors": "%s/devices" % host,
        "module": "nvidia-uvm",
        "device": "nvidia-uvm",
        "environment": {
            "CUDA_VISIBLE_DEVICES": "NAME",
            "CUDA_MPS_PIPE_DIRECTORY": "%s/run/NAME/pipe" % host,
        },
        "daemons": {"GPU-1": {"limits": list(limits)}},
    }
    wanted.update(more)
    (host / "list.json").write_text(json.dumps(wanted))
    return mps.main([str(host / "list.json"), verb, name])


def told(host):
    return (host / "told").read_text().splitlines()


def test_places_are_made_once_and_cleared(host, mounts):
    """Each that containers write to is a file system of its own."""
    host.chmod(0o755)
    assert run(host, "prepare") == 0
    here = host / "run" / "GPU-1"
    assert stat.S_IMODE((here / "pipe").stat().st_mode) == 0o755
    assert [words[4:] for words in mounts] == [
        ["size=2,mode=0755,nosymfollow", "gpufleet-mps", str(here / "pipe")],
        ["size=1,mode=1777,nosymfollow", "gpufleet-mps", str(here / "shm")],
    ]
    run(host, "prepare", name="GPU-2")
    assert run(host, "clear") == 0
    assert os.listdir(str(host / "run")) == ["GPU-2"]
    assert run(host, "clear") == 0
    assert run(host, "clear", name="GPU-2") == 0
    assert not (host / "run").exists()
    assert not (host / "log").exists()


def test_a_log_that_has_grown_goes_when_a_daemon_begins(host, mounts, monkeypatch):
    """The file system that it is in has room for so much, and what this daemon says is to be there."""
    host.chmod(0o755)
    run(host, "prepare")
    assert len(mounts) == 2
    for name, size in (("control.log", 1001), ("server.log", 1000)):
        (host / "log" / "GPU-1" / name).write_bytes(b"x" * size)
    monkeypatch.setattr(os, "execve", lambda *_words: None)
    assert run(host, "serve", logged=1000) == 0
    assert os.listdir(str(host / "log" / "GPU-1")) == ["server.log"]


MODPROBE = ["modprobe", "nvidia-uvm"]


@pytest.mark.parametrize(
    "devices, status, ran, printed",
    [
        ("195 nvidia\n510 nvidia-uvm\n", 1, [], ""),
        ("195 nvidia\n510 nvidia-uvm-other\n", 0, [MODPROBE], ""),
        ("195 nvidia\n", 1, [MODPROBE], "modprobe: Module not found\n"),
    ],
)
def test_the_module_of_the_first_client_is_loaded_before(
    host, mounts, monkeypatch, capsys, devices, status, ran, printed
):
    """The daemon's unit may load no module. Whether one that cannot be loaded is needed is the
    driver's to say.
    """
    programs = []

    def modprobe(argv):
        programs.append(argv)
        if status:
            raise ValueError("modprobe: Module not found")

    played(monkeypatch, ("modprobe",), modprobe)
    host.chmod(0o755)
    (host / "devices").write_text(devices)
    assert run(host, "prepare") == 0
    assert (programs, capsys.readouterr().out, len(mounts)) == (ran, printed, 2)


def test_where_links_cannot_be_kept_from_being_followed_the_places_are_made_all_the_same(
    host, monkeypatch
):
    """Linux before 5.10, and mount(8) before 2.37, do not know the option."""
    done = []

    def old(argv):
        if "nosymfollow" in argv[4]:
            raise ValueError("mount: bad option")
        done.append(argv[4])

    played(monkeypatch, ("mount",), old)
    host.chmod(0o755)
    assert run(host, "prepare") == 0
    assert done == ["size=2,mode=0755", "size=1,mode=1777"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_nobody_leads_the_daemon_elsewhere_by_a_link(host):
    """Root of a container puts one in the place of a file that the daemon, which is root on the
    host, writes to.
    """
    host.chmod(0o755)
    if subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "nosymfollow", "none", "/mnt"],
        stderr=subprocess.DEVNULL,
        check=False,
    ).returncode:
        pytest.skip("this kernel or this mount(8) does not know the option")
    mounts = {"pipe": {"options": "size=64k", "mode": "0755"}}
    try:
        assert run(host, "prepare", mounts=mounts) == 0
        link = host / "run" / "GPU-1" / "pipe" / "nvidia-cuda-mps-control.pid"
        link.symlink_to(host / "victim")
        with pytest.raises(OSError):
            link.write_text("1")
        assert not (host / "victim").exists()
    finally:
        assert run(host, "clear", mounts=mounts) == 0


def test_what_is_there_stays_beside_a_daemon_that_serves(host, mounts, monkeypatch):
    """`systemctl start` of a unit that is active starts what it requires once more."""
    host.chmod(0o755)
    assert run(host, "prepare") == 0
    pipe = host / "run" / "GPU-1" / "pipe"
    (pipe / "control").write_text("")
    pipe.chmod(0o777)  # by root of a container
    monkeypatch.setattr(os.path, "ismount", lambda _path: True)
    assert run(host, "prepare") == 0
    assert (stat.S_IMODE(pipe.stat().st_mode), os.listdir(str(pipe)), len(mounts)) == (
        0o755,
        ["control"],
        2,
    )


def test_a_daemon_begins_in_an_empty_directory_which_stays_the_same(host, mounts, monkeypatch):
    """Containers have it mounted. The files of a crashed daemon go, and so do files that root of a
    container has put there.
    """
    begun = []
    monkeypatch.setattr(os, "execve", lambda *words: begun.append(words))
    host.chmod(0o755)
    assert run(host, "prepare") == 0
    pipe = host / "run" / "GPU-1" / "pipe"
    before = pipe.stat().st_ino
    (pipe / "of a container" / "deep").mkdir(parents=True)
    (pipe / "away").symlink_to(host)
    (pipe / "control").write_text("")
    assert run(host, "serve") == 0
    assert (pipe.stat().st_ino, list(pipe.iterdir())) == (before, [])
    assert (host / "list.json").exists()
    ((program, arguments, environment),) = begun
    assert (program, arguments) == (str(host / "control"), [str(host / "control"), "-f"])
    assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-1"


def nested(path, depth):
    """More directories in one another than Python has frames, or a process open files."""
    path.mkdir()
    place = os.open(str(path), os.O_RDONLY)
    for _level in range(depth):
        os.mkdir("d", dir_fd=place)
        further = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = further
    os.close(place)


@pytest.fixture(name="few_files")
def a_unit_s_open_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))  # systemd's default
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("verb", ["serve", "clear"])
def test_no_depth_of_directories_keeps_a_daemon_from_its_start_or_its_end(
    host, mounts, few_files, verb, monkeypatch
):
    monkeypatch.setattr(os, "execve", lambda *_words: None)
    host.chmod(0o755)
    pipe = host / "run" / "GPU-1" / "pipe"
    assert run(host, "prepare") == 0
    nested(pipe / "d", 3000)
    assert run(host, verb) == 0
    assert not (pipe / "d").exists()


def test_an_end_leaves_the_directories_that_were_there_before(host, mounts):
    """Even where nothing else is in them."""
    host.chmod(0o755)
    (host / "var").mkdir(mode=0o755)
    places = {
        "pipe": "%s/run/mps/NAME/pipe" % host,
        "shm": "%s/run/mps/NAME/shm" % host,
        "log": "%s/var/mps/NAME" % host,
    }
    (host / "run").mkdir(mode=0o755)
    assert run(host, "prepare", places=places) == 0
    assert run(host, "clear", places=places) == 0
    assert (os.listdir(str(host / "var")), os.listdir(str(host / "run"))) == ([], [])


def open_to_all(path):
    path.mkdir()
    path.chmod(0o777)


PLACES = [
    # what is at HOME/run already
    ("a link", lambda path: path.symlink_to(path.parent)),
    ("a file", lambda path: path.write_text("")),
    ("everybody may write there", open_to_all),
]


@pytest.mark.parametrize("there", [case[1] for case in PLACES], ids=[case[0] for case in PLACES])
def test_a_place_of_others_is_refused(host, mounts, capsys, there):
    there(host / "run")
    assert run(host, "prepare") == 1
    assert (
        capsys.readouterr().out == "GPU-1: %s/run is not a directory that is root's alone\n" % host
    )
    assert mounts == []


def test_limits_are_set_and_read_back(host):
    (host / "get_threads").write_text("25.0\n")
    assert run(host, "settle", limits=[THREADS, MEMORY]) == 0
    assert told(host) == [
        "get_threads",
        "set_threads 25",
        "get_threads",
        "set_memory 0 8M",
        "get_memory 0",
    ]
    here = ["CUDA_MPS_PIPE_DIRECTORY=%s/run/GPU-1/pipe" % host, "CUDA_VISIBLE_DEVICES=GPU-1"]
    assert (host / "environment").read_text().splitlines() == here


@pytest.mark.parametrize("answer", ["100.0", "", "no"])
def test_a_limit_that_does_not_stay_is_a_failure(host, capsys, answer):
    (host / "get_threads").write_text(answer)
    assert run(host, "settle", limits=[THREADS]) == 1
    assert capsys.readouterr().out == "GPU-1: after set_threads 25 it answers %s\n" % (
        answer or "nothing"
    )


def test_a_daemon_that_never_answers_is_a_failure(host, capsys):
    (host / "down").touch()
    assert run(host, "settle", seconds=0.5) == 1
    assert (
        capsys.readouterr().out
        == "GPU-1: get_threads: exit status 1: Cannot find MPS control daemon process\n"
    )


@pytest.mark.parametrize("verb", ["settle", "quit"])
def test_an_answer_without_an_end_fills_no_memory(host, capsys, monkeypatch, verb):
    """Root of a container can put a socket of its own in the place of the daemon's, and say
    whatever it likes there.
    """
    monkeypatch.setenv("MAINPID", "")
    script(host / "control", "#!/bin/sh\nexec yes 'as root of a container says'\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert run(host, verb, seconds=0.5, patience=2) == 1
    assert capsys.readouterr().out.endswith(": more than 1048576 bytes of output\n")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


def test_the_end_waits_for_clients(host, capsys, monkeypatch):
    """That is, as long as the daemon is there; systemd ends what is left once this is over."""
    monkeypatch.setenv("MAINPID", str(os.getpid()))
    assert run(host, "quit", patience=0.3) == 1
    assert capsys.readouterr().out == "GPU-1: its clients have not ended within 0 s\n"
    monkeypatch.setenv("MAINPID", "")
    assert run(host, "quit") == 0
    assert told(host) == ["quit", "quit"]


def test_the_end_is_as_patient_with_the_answer(host, monkeypatch):
    """The control program answers `quit` once the clients have ended, so a shorter limit than
    theirs would end them.
    """
    monkeypatch.setenv("MAINPID", "")
    limits = []
    monkeypatch.setattr(mps, "run_program", lambda argv, seconds, **more: limits.append(seconds))
    assert run(host, "quit", seconds=1, patience=90) == 0
    assert limits == [90]


@pytest.mark.parametrize(
    ("verb", "name"), [("clear", "../etc"), ("clear", ""), ("prepare", "a/b"), ("remove", "GPU-1")]
)
def test_what_is_no_task_or_no_name_does_nothing(host, capsys, verb, name):
    assert run(host, verb, name=name) == 2
    assert capsys.readouterr().out == "%s %s: no such task or no such name\n" % (verb, name)
