# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report on processes and control groups for a look. A change needs none of it. Host side: standard
library only, Python 3.6.
"""

import contextlib
import errno
import functools
import os
import re
import stat
import struct
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    host_files,
    process_trust,
    system,
    trust,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection

MAX_PROCESSES = 1024
# Limits of one look at the holders of devices: descriptors of one user and of all, seconds, more
# seconds to judge the holders, processes that are listed, threads that are tried for a table. A
# usual host has some ten thousand descriptors.
PER_USER, DESCRIPTORS, SECONDS, MORE_SECONDS, MOST_HOLDERS, THREADS = 200000, 400000, 3, 1, 1024, 4


def list_processes(names, flags=None, environment=None):
    """List root's processes whose executable has one of the names, each verified or with a reason.

    names: regular expressions for the whole basename. Processes of other accounts are counted by
    name and dropped before any limit: only root decides here. A process in a PID namespace of its
    own (an engine within a container) does not belong to the host. Arguments and environment travel
    for verified processes only, and only if listed in flags and environment: names, with the shape
    of each one's value.
    """
    processes, others = [], {}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        called = trust.get_process_name(pid)
        name = next((name for name in names if called and _fits(name, called)), None)
        if name is None:
            continue
        roots = process_trust.is_root(pid)
        if not roots:
            others.update({} if roots is None else {name: others.get(name, 0) + 1})
            continue
        with contextlib.suppress(*trust.ENDED):
            process = trust.read_process(pid)
            # Since it was counted, it may have become another program, or another user's. So what
            # is read now is compared once more.
            same = process.uids == (0, 0, 0, 0) and _fits(name, os.path.basename(process.exe))
            if process.pids == 1 and same:
                processes.append(process)
        if len(processes) > MAX_PROCESSES:  # never a part of them, taken for all
            raise host_files.HostError(
                "too-large",
                "more than %d processes are called %s" % (MAX_PROCESSES, " or ".join(names)),
            )
    judged = _judge_process(processes, flags or {}, environment or {})
    programs_ = system.identify_programs(
        [process["exe"] for process in judged if process.get("verified")]
    )
    return {"processes": judged, "programs": programs_, "others": others}


def require_running(name, asked):
    """Raise HostError unless a verified process of this name runs.

    `asked` names the place that would be asked.

    name: None if any process may answer there.
    """
    if name and not any(process.get("verified") for process in list_processes([name])["processes"]):
        raise host_files.HostError(
            "not-found", "%s is not asked: no verified process called %s runs" % (asked, name)
        )


def _fits(name, called):
    """Tell whether a name fits. A plain name is compared as it is: re takes longer to compile one
    than to look at all processes.
    """
    return (
        name == called
        if name.replace("-", "").isalnum()
        else re.fullmatch(name, called) is not None
    )


def _judge_process(found, flags, environment):
    if not found:
        return []
    judge = process_trust.Judge(_list_process_units)
    ticks = float(os.sysconf("SC_CLK_TCK"))
    booted = int(
        trust.get_proc_field(
            host_files.read_regular("", "/proc/stat", 16 * host_files.MIB).decode(
                "utf-8", "replace"
            ),
            "btime ",
        )[0]
    )
    # one call for all
    _list_process_units(sorted({unit for unit in map(judge.find_unit, found) if unit}))
    judged = []
    for process in found:
        doubt = judge.find_doubt(process)
        described = dict(_describe_process(process, judge), start=booted + process.start / ticks)
        if doubt:
            described.update(
                unverified=doubt.row, place=doubt.place, why=doubt.why, remedy=doubt.remedy
            )
        else:
            described.update(
                verified=True, argv=selection.select_arguments(list(process.argv), flags)
            )
            with contextlib.suppress(*trust.ENDED):
                described["environment"] = (
                    selection.select_environment(_read_environment(process), environment)
                    if environment
                    else {}
                )
        if doubt or "environment" in described:
            judged.append(described)
    return judged


def _describe_process(process, judge):
    group, unit = process_trust.find_trusted_service(process.groups, judge.first)
    return {
        "pid": process.pid,
        "ppid": process.ppid,
        "exe": process.exe,
        "deleted": process.deleted,
        "argv": [],
        "ticks": process.start,  # with the number it names one process forever
        "cgroup": group,
        "unit": unit,
    }


def _list_process_units(names):
    """Return systemd's properties of the units that processes run in. Units that this look knows
    already are not asked for again.
    """
    lacking = [name for name in names if name not in system.heard]
    if lacking:
        try:
            system.heard.update(system.list_units(lacking, system.OF_PROCESSES))
        except host_files.HostError as exc:
            if exc.kind != "not-found":
                raise
            # no systemd, so nothing vouches for a service
            system.heard.update({name: {} for name in lacking})
    return system.heard


def _read_environment(process):
    """Return the environment of a process. Raise HostError if it cannot be read,
    ProcessLookupError if the process has ended.
    """
    try:
        return (
            host_files.read_regular("", "/proc/%d/environ" % process.pid)
            .decode("utf-8", "replace")
            .split("\0")
        )
    finally:
        if system.get_process_start(process.pid) != process.start:
            raise ProcessLookupError()


def list_holders(pattern, services=(), groups=False):
    """List the numbers of the processes, of any account, that hold a device open whose path
    matches.

    groups: also report, for each of them, the group `device` of every path that matched, and the
    control group that it runs in.

    services: names of programs that do not count if the host's systemd has started them as a
    service. A process may call itself as it likes, so its own name proves nothing. A process that
    ends meanwhile holds nothing. Processes that cannot be looked into are counted in `closed`: each
    may hold a device.

    Any account may have as many processes and open files as the kernel permits. So the look ends
    after a number of them for each user and for all, and after some time, whatever is left. Users
    with few go first. `partial` is in the answer if something was left: {"processes": how many were
    not looked into, "users": at most 8 of their users, those with the most first}.
    """
    listed = os.listdir("/proc")
    if "1" not in listed:
        raise host_files.HostError(
            "failed", "/proc shows the processes of this account alone (it is mounted with hidepid)"
        )
    walk = _Walk(re.compile(pattern), groups)
    users = walk.map_users(sorted(int(name) for name in listed if name.isdigit()))
    for user in sorted(users, key=lambda user: (sum(size for size, _pid in users[user]), user)):
        walk.left = PER_USER
        for _size, pid in sorted(users[user]):
            walk.process(user, pid)
    walk.end += MORE_SECONDS
    at_work = [
        pid
        for pid, user in sorted(walk.found.items())
        if walk.may_go_on(user) and not _is_service(pid, services)
    ]
    held = (
        {
            "held": [
                entry
                for entry in (_describe_held(pid, walk.devices[pid]) for pid in at_work)
                if entry
            ]
        }
        if groups
        else {}
    )
    return dict(held, pids=at_work, closed=walk.closed, **walk.is_partial())


class _Spent(Exception):
    """The limit for one process is reached: no more of it is read."""


class _Walk(object):
    """A walk through what processes have open, as far as the bounds permit."""

    def __init__(self, wanted, every):
        # every: all devices of a process are wanted, and not whether it has one
        self.wanted, self.every = (
            wanted,
            every,
        )
        self.end = time.monotonic() + SECONDS
        self.left, self.room, self.closed = PER_USER, DESCRIPTORS, 0
        self.found, self.devices, self.unknown = {}, {}, {}

    def map_users(self, pids):
        """Return user -> [(size of its table of descriptors, process)]. Only root can choose the
        real user id.
        """
        users, half = {}, self.end - SECONDS / 2.0
        for pid in pids:
            if time.monotonic() > half:
                self._leave(None)
                continue
            try:
                user, size = _read_owner(pid)
                users.setdefault(user, []).append((size, pid))
            except OSError as exc:
                self.closed += not isinstance(exc, trust.ENDED)
        return users

    def may_go_on(self, user):
        if time.monotonic() > self.end:
            self._leave(user)
            return False
        return True

    def process(self, user, pid):
        if not self.may_go_on(user):
            return
        try:
            devices = self._list_devices(pid)
        except _Spent:
            self._leave(user)
        except OSError as exc:
            self.closed += not isinstance(exc, trust.ENDED)
        else:
            if devices and len(self.found) >= MOST_HOLDERS:
                self._leave(user)
            elif devices:
                self.found[pid], self.devices[pid] = user, devices

    def _list_devices(self, pid):
        devices = set()
        for link in _open_files(pid):
            self.left, self.room = self.left - 1, self.room - 1
            if min(self.left, self.room) < 0 or time.monotonic() > self.end:
                raise _Spent()
            match = _match_device(link, self.wanted)
            if match:
                devices.add(match.groupdict().get("device") or "")
                if not self.every:
                    break
        return devices

    def _leave(self, user):
        self.unknown[user] = self.unknown.get(user, 0) + 1

    def is_partial(self):
        if not self.unknown:
            return {}
        most = sorted(
            (user for user in self.unknown if user is not None),
            key=lambda user: (-self.unknown[user], user),
        )
        return {"partial": {"processes": sum(self.unknown.values()), "users": most[:8]}}


def _read_owner(pid):
    """Return (real user, size of the table of descriptors) of a process. The owner of its files in
    /proc may be another.
    """
    fd = os.open("/proc/%d/status" % pid, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.read(fd, 2048).decode("utf-8", "replace")
    finally:
        os.close(fd)
    uids, size = trust.parse_uids(status), trust.get_proc_field(status, "FDSize:")
    return (uids[0] if uids else -1), (int(size[0]) if size else 0)


def _describe_held(pid, devices):
    """Return [number, devices, control group] of a process; None if it has ended. The group is ""
    if it is nested too deep to be told.
    """
    first = trust.read_proc_file("/proc/1/cgroup")
    try:
        groups = trust.read_proc_file("/proc/%d/cgroup" % pid)
    except trust.ENDED:
        return None
    except OSError as exc:
        if not trust.is_too_long(exc):
            raise
        groups = ""
    return [pid, sorted(devices), process_trust.find_trusted_service(groups, first)[0]]


def _open_files(pid):
    """Yield the links to what a process has open: one table, which its threads share.

    A process whose first thread has ended has no table by its own number, but its other threads go
    on. Then the table of the first of them that has one is used. A thread that has left the table
    for one of its own (unshare(2), CLONE_FILES) is not asked for that.
    """
    place, opened = "/proc/%d" % pid, False
    for link in _list_links(place + "/fd"):
        opened = True
        yield link
    tried = 0
    for task in () if opened else _list_links(place + "/task"):
        if task.endswith("/%d" % pid):
            continue
        for link in _list_links(task + "/fd"):
            opened = True
            yield link
        tried += 1
        if opened:
            return
        if tried == THREADS:
            raise _Spent()


def _list_links(place):
    """Yield the entries of a directory one by one: their number has no known bound."""
    with os.scandir(place) as entries:
        for entry in entries:
            yield place + "/" + entry.name


def _match_device(link, wanted):
    """Return the match of a link that leads to a device of that name, in whatever directory. None
    if it leads elsewhere or is gone.
    """
    try:
        match = wanted.match(os.readlink(link))
        return (
            match
            if match and stat.S_ISCHR(_get_mode(link)) and not _is_open_by_name(link)
            else None
        )
    except trust.ENDED:
        return None
    except OSError as exc:
        if not _is_no_device(link, exc):
            raise
        return None


_AT_FDCWD, _DONT_SYNC, _TYPE_AND_MODE = -100, 0x4000, 3  # linux/fcntl.h, linux/stat.h
_ROOM, _MODE_AT = 256, 28  # bytes of struct statx, and of what is before its mode


@functools.lru_cache(maxsize=1)
def _load_statx():
    """Return (the module ctypes, statx(2) of the C library); None if the library has none, or if
    Python has no ctypes (python3-minimal).
    """
    try:
        import ctypes  # here, since few looks get to this point

        return ctypes, ctypes.CDLL(None, use_errno=True).statx
    except (ImportError, OSError, AttributeError):
        return None


def _get_mode(link):
    """Return the mode of what a process has open, as the kernel knows it. Raise OSError if it tells
    none.

    A file system that another user has mounted (FUSE) is not asked: it need never answer, and then
    keeps whoever has asked, whatever signals come.
    """
    if _load_statx() is None:  # glibc before 2.28
        return os.stat(link).st_mode
    ctypes, statx = _load_statx()
    room = ctypes.create_string_buffer(_ROOM)
    if statx(_AT_FDCWD, link.encode("ascii"), _DONT_SYNC, _TYPE_AND_MODE, room) == 0:
        return struct.unpack_from("=H", room, _MODE_AT)[0]
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EPERM):  # a kernel without it, or a filter that forbids it
        return os.stat(link).st_mode
    raise OSError(number, os.strerror(number), link)


def _is_no_device(link, exc):
    """Tell whether root was refused by a file system that another user has mounted (FUSE), where no
    file is a device.

    Such a file system does not tell root what a file is. It also does not tell how large its blocks
    are (fs/fuse/inode.c, fuse_statfs), which all of the kernel's own do. This is also so after it
    is unmounted.
    """
    with contextlib.suppress(OSError):
        # of a path that any account may make, to a file of any kind
        if trust.is_too_long(exc):
            return not stat.S_ISCHR(_get_mode(link))
    with contextlib.suppress(OSError):
        return (trust.is_too_long(exc) or exc.errno == errno.EACCES) and not os.statvfs(
            link
        ).f_bsize
    return False


def _is_open_by_name(link):
    """Tell whether a file is open as a name and not as a device (O_PATH).

    That takes no right to the device, and no device need exist. An account that may write to a
    directory may have a device node there that no driver answers for (0:0, a whiteout of overlay
    file systems).
    """
    flags = re.search(r"flags:\s*(\d+)", trust.read_proc_file(link.replace("/fd/", "/fdinfo/")))
    return flags and int(flags.group(1), 8) & os.O_PATH


def _is_service(pid, names):
    """Tell whether a process, of any account, was started by the host's systemd as a service. Its
    program must be a file of root's.
    """
    try:
        if trust.get_process_name(pid) not in names:
            return False
        judge = process_trust.Judge(_list_process_units)
        if not judge.is_main_number(pid):
            return False
        process = trust.read_process(pid)
        file_ = os.stat("/proc/%d/exe" % pid)
        # Read once more at the end, so that the judged program is the one that runs.
        known = (
            os.path.basename(process.exe) in names
            and not trust.judge_running_file(file_, process.exe)
            and judge.is_main_process(process)
        )
        return known and trust.read_process(pid) == process
    except OSError:  # of a process that has ended, too
        return False


def is_group_populated(group):
    """Tell whether a control group has a process, in itself or below. Raise HostError if it cannot
    be read, unless it is gone.
    """
    try:
        events = _read_lines(os.path.join(group, "cgroup.events"))
        # Version 2 counts what is below as well (Documentation/admin-guide/cgroup-v2.rst).
        if events is not None:
            return "populated 1" in events
        return any(
            _read_lines(os.path.join(place, "cgroup.procs"))
            for place, _folders, _files in os.walk(group, onerror=host_files.raise_unless_gone)
        )
    except OSError as exc:
        raise host_files.HostError("failed", "%s: %s" % (group, exc.strerror))


def _read_lines(path):
    """Return the lines of a file; None if it does not exist."""
    try:
        with open(path) as opened:
            return opened.read().split("\n")[:-1]
    except OSError as exc:
        host_files.raise_unless_gone(exc)
        return None
