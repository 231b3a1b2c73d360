# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes hold a device, and which of them only watch it: a terminal plays the device."""

import contextlib
import errno
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import types

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    observe,
    process_queries,
    process_trust,
    trust,
)

from .conftest import ask


@pytest.fixture
def device():
    """A device that nobody else holds: (a pattern for it, its descriptor).

    Containers on this machine have terminals of their own, which are called /dev/pts/0 and up
    there: the one with a high number is taken.
    """
    pairs = [os.openpty() for _number in range(40)]
    slave = max((pair[1] for pair in pairs), key=lambda fd: int(os.path.basename(os.ttyname(fd))))
    yield r"(/.*)?/%s$" % os.ttyname(slave)[1:], slave
    for fd in [fd for pair in pairs for fd in pair]:
        os.close(fd)


def held(pattern, **more):
    return ask(kind="holders", pattern=pattern, **more)["pids"]


def test_who_holds_a_device(device):
    pattern, slave = device
    assert held(pattern) == [os.getpid()]
    child = subprocess.Popen(["sleep", "60"], stdin=slave)
    try:
        assert held(pattern) == sorted([os.getpid(), child.pid])
    finally:
        child.kill()
        child.wait()
    assert held(pattern) == [os.getpid()]


def test_which_device_and_in_which_control_group(device):
    pattern, slave = device
    named = pattern.replace("/pts/", "/pts/(?P<device>").replace("$", ")$")
    answer = ask(kind="holders", pattern=named, groups=True)
    group = process_trust.find_trusted_service(
        pathlib.Path("/proc/self/cgroup").read_text(), pathlib.Path("/proc/1/cgroup").read_text()
    )[0]
    assert answer["held"] == [[os.getpid(), [os.path.basename(os.ttyname(slave))], group]]
    assert answer["pids"] == [os.getpid()]
    assert "held" not in ask(kind="holders", pattern=pattern)


def test_a_file_that_is_no_device_is_none(tmp_path):
    """Anybody can have a file of that name."""
    path = tmp_path / "device7"
    path.write_text("")
    with path.open():
        assert held(r".*/device7$") == []


def test_a_name_of_a_device_is_none(device):
    """Opened by O_PATH, for which nobody needs a right to the device: a user without any would be
    at work on the GPU.
    """
    pattern, slave = device
    named = os.open(os.ttyname(slave), os.O_PATH)
    child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, pass_fds=[named])
    try:
        assert held(pattern) == [os.getpid()]
    finally:
        os.close(named)
        child.kill()
        child.wait()


def test_a_node_that_no_driver_answers_for_is_none(tmp_path):
    """Anybody may make a whiteout (0:0)."""
    path = tmp_path / "device7"
    try:
        os.mknod(str(path), 0o666 | stat.S_IFCHR, os.makedev(0, 0))
    except PermissionError:
        pytest.skip("this kernel lets only root make whiteouts")
    named = os.open(str(path), os.O_PATH)
    try:
        assert held(r".*/device7$") == []
    finally:
        os.close(named)


FIRST_ENDS = """
import ctypes, sys, threading
threading.Thread(target=sys.stdin.read).start()
print(1, flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_holds_what_the_others_hold(device):
    pattern, slave = device
    child = subprocess.Popen(
        [sys.executable, "-c", FIRST_ENDS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=slave,
    )
    try:
        child.stdout.readline()
        while os.listdir("/proc/%d/fd" % child.pid):
            os.sched_yield()  # its first thread is on the way out
        assert child.pid in held(pattern)
    finally:
        child.kill()
        child.communicate()


def test_processes_that_cannot_be_looked_into_are_counted(monkeypatch):
    def denied(_link):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(process_queries.os, "readlink", denied)
    found = ask(kind="holders", pattern="x")
    assert found["pids"] == []
    assert found["closed"] > 0


LONG = """
import os, sys
for number in range(30):
    os.mkdir("x" * 200)
    os.chdir("x" * 200)
stream = open("file", "w")
print()
sys.stdin.read()
"""


def test_a_path_that_is_too_long_to_be_told_hides_no_device(tmp_path):
    """Anybody may make one, and the kernel says of a file there no more than what it is."""
    before = ask(kind="holders", pattern=r".*/device7$")["closed"]
    child = subprocess.Popen(
        [sys.executable, "-c", LONG],
        cwd=str(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        child.stdout.readline()
        paths = [
            "/proc/%d/fd/%s" % (child.pid, name) for name in os.listdir("/proc/%d/fd" % child.pid)
        ]
        with pytest.raises(OSError) as raised:
            [os.readlink(path) for path in paths]
        assert raised.value.errno == errno.ENAMETOOLONG
        assert ask(kind="holders", pattern=r".*/device7$")["closed"] <= before
    finally:
        child.communicate()
        subprocess.run(["rm", "-rf", str(tmp_path / ("x" * 200))], check=True)


@pytest.mark.parametrize(("block", "closed"), [(0, False), (4096, True)])
def test_a_file_system_of_a_user_s_own_hides_no_device(monkeypatch, tmp_path, block, closed):
    """Anybody may mount one by FUSE, which then refuses root. It has no devices."""
    path = tmp_path / "device7"
    path.write_text("")
    real = process_queries._get_mode

    def refused(place):
        if place.startswith("/proc/%d/fd/" % os.getpid()):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(place)

    monkeypatch.setattr(process_queries, "_get_mode", refused)
    monkeypatch.setattr(
        process_queries.os, "statvfs", lambda _place: types.SimpleNamespace(f_bsize=block)
    )
    before = ask(kind="holders", pattern=r".*/device7$")["closed"]
    with path.open():
        assert (ask(kind="holders", pattern=r".*/device7$")["closed"] > before) is closed


def without_statx(number):
    """Return a ctypes whose library has no statx(2), or one that fails so. None: no ctypes."""
    if number is None:
        return None
    library = {"statx": lambda *_arguments: -1} if number else {}
    return types.SimpleNamespace(
        CDLL=lambda *_more, **_others: types.SimpleNamespace(**library),
        get_errno=lambda: number,
        create_string_buffer=bytearray,
    )


# No ctypes, another library, an older kernel, a filter of a container.
@pytest.mark.parametrize("number", [None, 0, errno.ENOSYS, errno.EPERM])
def test_what_is_open_is_known_without_statx_as_well(monkeypatch, number):
    monkeypatch.setitem(sys.modules, "ctypes", without_statx(number))
    process_queries._load_statx.cache_clear()
    try:
        assert process_queries._get_mode("/dev/null") == os.stat("/dev/null").st_mode
        with pytest.raises(FileNotFoundError):
            process_queries._get_mode("/dev/none")
    finally:
        process_queries._load_statx.cache_clear()


@pytest.mark.parametrize("path", ["/dev/null", "/dev", __file__])
def test_the_mode_of_what_is_open_is_that_of_stat(path):
    assert process_queries._get_mode(path) == os.stat(path).st_mode
    for gone in ("/dev/none", "/proc/0/fd/0"):
        with pytest.raises(trust.ENDED):
            process_queries._get_mode(gone)


# A user mounts it for all (allow_other). It tells of a file that it has no device until somebody
# has it open, and answers nothing any more then.
HANGING = """
import ctypes, os, stat, struct, sys
place, fd = sys.argv[1], os.open("/dev/fuse", os.O_RDWR)
options = "fd=%d,rootmode=40000,user_id=65534,group_id=65534,allow_other" % fd
NOSUID_NODEV = 6
if ctypes.CDLL(None).mount(b"a-users", place.encode(), b"fuse", NOSUID_NODEV, options.encode()):
    print("refused", flush=True)
    sys.exit()
print("mounted", flush=True)
INIT, LOOKUP, GETATTR, OPEN = 26, 1, 3, 14
FOLDER, FILE = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o644

def attributes(node):
    mode = FILE if node == 2 else FOLDER
    return struct.pack("<6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 65534, 65534, 0, 4096, 0)

opened = False
while True:
    request = os.read(fd, 1 << 17)
    _size, kind, number, node = struct.unpack("<IIQQ", request[:24])
    error, said = 0, b""
    if kind == INIT:
        said = struct.pack("<4I2H2I2HI", 7, 31, 0, 0, 12, 10, 4096, 1, 1, 0, 0).ljust(64, b"\\0")
    elif kind == LOOKUP:
        said = struct.pack("<4Q2I", 2, 0, 0, 0, 0, 0) + attributes(2)
    elif kind == OPEN:
        opened, said = True, struct.pack("<Q2I", 1, 0, 0)
    elif kind == GETATTR and not (opened and node == 2):
        said = struct.pack("<Q2I", 0, 0, 0) + attributes(node)
    elif kind == GETATTR:
        continue
    else:
        error = -38
    os.write(fd, struct.pack("<IiQ", 16 + len(said), error, number) + said)
"""
OPENING = "import os, sys; os.open(sys.argv[1], os.O_RDONLY); print(flush=True); sys.stdin.read()"


def test_a_file_system_of_a_user_s_own_that_never_answers_keeps_no_look_waiting(tmp_path):
    place = tmp_path / "own"
    place.mkdir()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = subprocess.Popen([sys.executable, "-c", HANGING, str(place)], **pipes)
    try:
        if server.stdout.readline() != b"mounted\n":
            pytest.skip("nobody may mount a file system of FUSE's here")
        child = subprocess.Popen([sys.executable, "-c", OPENING, str(place / "device7")], **pipes)
        child.stdout.readline()
        assert held(r".*/device7$") == []
        child.communicate()
    finally:
        server.kill()
        server.communicate()
        subprocess.run(["umount", "-l", str(place)], check=False, stderr=subprocess.DEVNULL)


def test_where_only_some_processes_are_shown_nothing_is_known(monkeypatch):
    """/proc may be mounted with hidepid, which hides the processes of other accounts."""
    monkeypatch.setattr(process_queries.os, "listdir", lambda _place: [str(os.getpid())])
    assert "hidepid" in ask(kind="holders", pattern="x")["error"]["message"]


def test_a_user_with_many_open_files_leaves_the_other_questions_their_time(monkeypatch, tmp_path):
    """Half a million for each process, by systemd's default: some processes of anybody's take
    longer than a whole look may.
    """
    monkeypatch.setattr(process_queries, "_open_files", lambda _pid: time.sleep(0.2) or [])
    (tmp_path / "file").write_text("here")
    asked = [
        {"id": "who", "kind": "holders", "pattern": "x"},
        {"id": "what", "kind": "dir", "path": str(tmp_path)},
    ]
    answers = observe.run({"questions": asked, "limits": {"seconds": 0.5}})["answers"]
    assert answers["who"]["error"]["kind"] == "timeout"
    assert "error" not in answers["what"]


# --- services that watch
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def watcher(device):
    """A program `watcher` that holds the device: (pattern, its path, its process)."""
    place = pathlib.Path(tempfile.mkdtemp())  # where others may enter as well
    place.chmod(0o755)
    path = place / "watcher"
    shutil.copy(os.path.realpath("/bin/sleep"), str(path))
    child = subprocess.Popen([str(path), "60"], stdin=device[1])
    while trust.get_process_name(child.pid) != "watcher":
        os.sched_yield()  # between fork and exec it is us
    yield device[0], path, child
    child.kill()
    child.wait()
    shutil.rmtree(str(place))


SERVICE = "0::/system.slice/watcher.service\n"
SOMEBODY = (1001, 1001, 1001, 1001)
CASES = [
    # name, what the process is, what the unit says, whether it is a service that only watches
    ("a service", {}, {}, True),
    ("a service that has given up root's rights", {"uids": SOMEBODY}, {}, True),
    (
        "the same program in a person's session",
        {"uids": SOMEBODY, "groups": "0::/user.slice/user-1001.slice/session-3.scope\n"},
        {},
        False,
    ),
    (
        "a unit of a person's own manager",
        {"groups": "0::/user.slice/user-1001.slice/user@1001.service/watcher.service\n"},
        {},
        False,
    ),
    (
        "something else in the service's group, a job of cron's for example",
        {},
        {"MainPID": "1"},
        False,
    ),
    ("a unit that systemd does not know", {}, {"MainPID": ""}, False),
    (
        "a program of the name in a container",
        {"root": (99, 1), "groups": "0::/kubepods.slice/cri-x.scope\n"},
        {},
        False,
    ),
    ("the same with PIDs of its own", {"pids": 2}, {}, False),
    ("in a user namespace", {"users": "user:[1]"}, {}, False),
    ("another program now", {"exe": "/usr/bin/train"}, {}, False),
]


@pytest.mark.parametrize(
    "fields, unit, watches", [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_what_only_watches_is_a_service_of_the_hosts_systemd(
    watcher, monkeypatch, fields, unit, watches
):
    pattern, path, child = watcher
    real, first = trust.read_process, trust.read_proc_file("/proc/1/cgroup")
    top = first.splitlines()[-1].split(":", 2)[2].rsplit("/init.scope", 1)[0].rstrip("/")
    own = dict({"groups": SERVICE}, **fields)
    own["groups"] = own["groups"].replace("0::", "0::" + top)
    monkeypatch.setattr(trust, "read_process", lambda pid: real(pid)._replace(**own))
    shown = dict({"MainPID": str(child.pid), "FragmentPath": "", "DropInPaths": ""}, **unit)
    monkeypatch.setattr(
        process_queries, "_list_process_units", lambda names: {name: shown for name in names}
    )
    monkeypatch.setattr(process_trust.Judge, "is_main_number", lambda self, pid: True)
    assert (child.pid not in held(pattern, services=["watcher"])) is watches


def test_a_program_that_somebody_else_may_write_watches_nothing(watcher, monkeypatch):
    pattern, path, child = watcher
    monkeypatch.setattr(process_trust.Judge, "is_main_number", lambda self, pid: True)
    monkeypatch.setattr(process_trust.Judge, "is_main_process", lambda self, found: True)
    assert child.pid not in held(pattern, services=["watcher"])
    path.chmod(0o777)
    assert child.pid in held(pattern, services=["watcher"])


@pytest.mark.parametrize(
    ("unit", "shown", "main"),
    [
        ("dcgm.service", {"MainPID": "7"}, True),
        ("dcgm.service", {"MainPID": "8"}, False),
        ("dcgm.service", {}, False),
        ("session-3.scope", {"MainPID": "7"}, False),
        ("user@1000.service", {"MainPID": "7"}, False),
        ("", {"MainPID": "7"}, False),
    ],
)
def test_of_a_process_that_is_no_service_nothing_else_is_read(monkeypatch, unit, shown, main):
    """Its program may lie on a file system of its own account, which need never answer."""
    texts = {"/proc/1/cgroup": "0::/init.scope\n", "/proc/7/cgroup": "0::/system.slice/%s\n" % unit}
    monkeypatch.setattr(trust, "read_proc_file", texts.__getitem__)
    monkeypatch.setattr(trust, "get_process_name", lambda _pid: "watcher")
    monkeypatch.setattr(
        process_queries, "_list_process_units", lambda names: {name: shown for name in names}
    )
    reads = []
    monkeypatch.setattr(trust, "read_process", reads.append)
    monkeypatch.setattr(process_queries.os, "stat", lambda path: os.lstat("/"))
    with contextlib.suppress(AttributeError):  # nothing was read of this process
        assert process_queries._is_service(7, ["watcher"]) is False
    assert reads == ([7] if main else [])


CALLS_ITSELF = "import sys; open('/proc/self/comm', 'w').write('watcher'); print(1, flush=True); sys.stdin.read()"


def test_a_name_that_a_process_gives_itself_counts_for_nothing(device, monkeypatch):
    """prctl(PR_SET_NAME) and argv[0] are anybody's."""
    monkeypatch.setattr(process_trust.Judge, "is_main_number", lambda self, pid: True)
    monkeypatch.setattr(process_trust.Judge, "is_main_process", lambda self, found: True)
    pattern, slave = device
    words = ["watcher", "-c", CALLS_ITSELF]
    child = subprocess.Popen(
        words,
        executable=sys.executable,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=slave,
    )
    try:
        child.stdout.readline()
        assert child.pid in held(pattern, services=["watcher"])
    finally:
        child.kill()
        child.communicate()
