# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at what a host runs and has installed: packages, units, processes, owners of sockets.

Node side: standard library only, Python 3.6. Everything here reads; nothing changes the host.
"""

import os
import re
import socket
import struct

from ansible_collections.gpufleet.nvidia.plugins.module_utils import commands, nodefs, selection, unix_http

UNIT_PROPERTIES = (
    "Id Names LoadState ActiveState SubState Result Type MainPID InvocationID NRestarts UnitFileState FragmentPath DropInPaths "
    "KillMode Delegate Slice ControlGroup ExecMainStartTimestampMonotonic ActiveEnterTimestampMonotonic NeedDaemonReload BindsTo "
    "Requires PartOf TriggeredBy Triggers"
).split()
_DPKG_INSTALLED = ("installed", "triggers-awaited", "triggers-pending")
_RPM_DATABASES = ("/var/lib/rpm", "/usr/lib/sysimage/rpm")
_RPM_FORMAT = "%{NAME} %|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\n"
MAX_PROCESSES = 1024


def packages(root, names, candidates=False):
    """Which packages are installed, from the package manager's own database.

    candidates: True asks what could be installed, "missing" of those only that are not installed (apt-cache takes its time).
    """
    if os.path.exists(nodefs.full(root, "/var/lib/dpkg/status")):
        answer = {"manager": "dpkg", "installed": _dpkg(root, names), "candidates": {}}
        wanted = [name for name in names if candidates != "missing" or not answer["installed"][name]]
        if candidates and wanted and not root:
            answer["candidates"] = _apt_candidates(wanted)
        return answer
    if any(os.path.isdir(nodefs.full(root, path)) for path in _RPM_DATABASES):
        if root:
            raise nodefs.NodeError("offline", "an rpm database is read by running rpm, and beneath another root nothing is run")
        return {"manager": "rpm", "installed": _rpm(names), "candidates": {}}
    return {"manager": "none", "installed": {name: None for name in names}, "candidates": {}}


def _dpkg(root, names):
    # Searched, not parsed: the file has thousands of stanzas, a question a handful of names.
    text = "\n" + nodefs.read_regular(root, "/var/lib/dpkg/status", 128 * nodefs.MIB).decode("utf-8", "replace")
    installed = {}
    for name in names:
        installed[name] = None
        for match in re.finditer(r"\nPackage: %s\n" % re.escape(name), text):
            stanza = text[match.start() + 1 : text.find("\n\n", match.end()) + 1 or None]
            state = re.search(r"^Status: \S+ \S+ (\S+)$", stanza, re.MULTILINE)
            version = re.search(r"^Version: (.*)$", stanza, re.MULTILINE)
            if state and version and state.group(1) in _DPKG_INSTALLED:
                installed[name] = version.group(1)
                break
    return installed


def _rpm(names):
    answer = commands.text(commands.run(["rpm", "-q", "--qf", _RPM_FORMAT] + list(names), timeout=30))
    if answer["timed_out"]:
        raise nodefs.NodeError("timeout", "rpm -q gave no answer within 30 s")
    lines = answer["stdout"].splitlines()
    found = dict(line.split(" ", 1) for line in lines if re.match(r"\S+ \S+$", line))
    unknown = [name for name in names if name not in found and "package %s is not installed" % name not in lines]
    if unknown:  # a database that cannot be read is no host without packages
        said = (answer["stderr"].strip().splitlines() or ["exit status %s" % answer["rc"]])[-1]
        raise nodefs.NodeError("failed", "rpm -q says nothing of %s: %s" % (", ".join(unknown), said))
    return {name: found.get(name) for name in names}


def _apt_candidates(names):
    try:
        answer = commands.text(commands.run(["apt-cache", "policy", "--"] + list(names), timeout=30))
    except nodefs.NodeError:  # what could be installed is of use to a message and a pin; what is installed is known without it
        return {}
    found, name = {}, None
    for line in answer["stdout"].splitlines():
        if line and not line.startswith(" "):
            name = line.rstrip(":")
        elif line.startswith("  Candidate: "):
            version = line.split(": ", 1)[1]
            found[name] = None if version == "(none)" else version
    return {wanted: found.get(wanted) for wanted in names}


def units(names, properties=None):
    """{name: properties as systemctl prints them} by one call; a unit that systemd will not name is not-found."""
    wanted = sorted(set(properties or UNIT_PROPERTIES) | {"Id", "Names", "LoadState"})
    argv = ["systemctl", "show", "--no-pager", "--property=" + ",".join(wanted), "--"] + list(names)
    answer = commands.text(commands.run(argv, timeout=15))
    if answer["timed_out"]:
        raise nodefs.NodeError("timeout", "systemctl show gave no answer within 15 s")
    shown = {}
    for block in answer["stdout"].split("\n\n"):
        unit = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for name in unit.get("Names", "").split() + [unit.get("Id", "")]:
            shown[name] = unit
    if not shown.keys() & set(names) and answer["rc"]:
        raise nodefs.NodeError("failed", "systemctl show: " + (answer["stderr"].strip() or "exit %s" % answer["rc"]))
    return {name: shown.get(name, {"LoadState": "not-found", "ActiveState": "inactive"}) for name in names}


def processes(names, flags, environment):
    """Processes whose argv[0] or executable has one of the names (regular expressions, whole basename).

    Of their arguments and environment what is listed travels: flags and names, with the shape of each one's value.
    """
    wanted = [re.compile(name) for name in names]
    ticks = os.sysconf("SC_CLK_TCK")
    booted = re.search(r"^btime (\d+)$", nodefs.read_text("", "/proc/stat", 16 * nodefs.MIB) or "", re.MULTILINE)
    found = []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        process = _process(pid, wanted, flags, environment)
        if process is None:
            continue
        process["ticks"] = process["start"]  # with the number it names one process for ever
        process["start"] = (int(booted.group(1)) if booted else 0) + process["start"] / float(ticks)
        found.append(process)
        if len(found) > MAX_PROCESSES:  # never a part of them, taken for all
            raise nodefs.NodeError("too-large", "more than %d processes are called %s" % (MAX_PROCESSES, " or ".join(names)))
    return {"processes": found, "programs": programs([process["exe"] for process in found])}


def programs(paths):
    """Which file is at each path now. A program that still runs may have been replaced on disk."""
    return {path: nodefs.identity("", path) for path in sorted(set(paths)) if path}


def _process(pid, wanted, flags, environment):
    place = "/proc/%d/" % pid
    try:
        exe = os.readlink(place + "exe")
    except OSError:  # a kernel thread, or somebody else's
        exe = ""
    deleted = exe.endswith(" (deleted)")  # replaced by an upgrade: it still runs what is not on disk any more
    exe = exe[: -len(" (deleted)")] if deleted else exe
    argv = (nodefs.read_text("", place + "cmdline", 256 * 1024) or "").split("\0")[:-1]
    called = {os.path.basename(word) for word in (exe, argv[0] if argv else "") if word}
    if not any(pattern.fullmatch(name) for pattern in wanted for name in called):
        return None
    stat = nodefs.read_text("", place + "stat") or ""
    fields = stat.rpartition(")")[2].split()  # the name before may contain anything, a ")" too
    if len(fields) < 20:  # gone meanwhile
        return None
    if _contained(nodefs.read_text("", place + "status") or ""):
        return None
    group, unit = _cgroup(nodefs.read_text("", place + "cgroup") or "")
    return {
        "pid": pid,
        "ppid": int(fields[1]),
        "exe": exe,
        "deleted": deleted,
        "argv": selection.arguments(argv, flags),
        "environment": selection.environment(_environment(place), environment) if environment else {},
        "start": int(fields[19]),
        "cgroup": group,
        "unit": unit,
    }


def words_of(pid, ticks, without):
    """The arguments of one process, told by its number and beginning, without some flags and their values. They stay on this host."""
    argv = (nodefs.read_text("", "/proc/%d/cmdline" % pid, 256 * 1024) or "").split("\0")[:-1]
    if not argv or started(pid) != ticks:  # asked after the reading: a number that was given anew has another beginning
        raise nodefs.NodeError("conflict", "process %d is gone, or is another one by now" % pid)
    words, skip = [], False
    for word in argv[1:]:
        name, equals, _value = word.partition("=")
        if not skip and name not in without:
            words.append(word)
        skip = not skip and name in without and not equals
    return words


def _environment(place):
    return (nodefs.read_text("", place + "environ", nodefs.MIB) or "").split("\0")


def _contained(status):
    """Whether a process lives in a PID namespace below ours: an engine within a container (kind, Docker in Docker) is not the host's."""
    numbers = re.search(r"^NSpid:(.*)$", status, re.MULTILINE)
    return bool(numbers) and len(numbers.group(1).split()) > 1


def _cgroup(text):
    """(path, unit) of a process. systemd's own hierarchy is 0::, name=systemd, or both, where one of them may say "/" only."""
    paths = [line.split(":", 2)[2] for line in text.splitlines() if line.startswith("0::") or ":name=systemd:" in line]
    paths.sort(key=len, reverse=True)
    group = paths[0] if paths else ""
    return group, next((part for part in reversed(group.split("/")) if part.endswith((".service", ".scope"))), None)


def started(pid):
    """When a process began, in the kernel's ticks; with the number it names one process for ever. None when it is gone."""
    fields = (nodefs.read_text("", "/proc/%d/stat" % pid) or "").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else None


def boot():
    """Which boot this is. The first process's beginning, too: a container's boot may have the number of the machine's."""
    number = (nodefs.read_text("", "/proc/sys/kernel/random/boot_id") or "").strip()
    return "%s/%s" % (number, started(1))


def listening(paths, timeout=5):
    """Who holds each socket: the kernel names the process that called listen()."""
    owners = {}
    for path in paths:
        pid, exe = None, None
        try:
            with unix_http.connect(path, timeout) as connection:
                pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            exe = os.readlink("/proc/%d/exe" % pid)
        except OSError:  # not there, nobody listens, or not ours to see
            pass
        owners[path] = {"pid": pid or None, "exe": exe}
    return {"owners": owners}


def http_get(path, target, timeout=5, cap=4 * nodefs.MIB):
    """GET over a unix socket, bounded. For use on this host alone."""
    status, body = unix_http.ask(path, "GET", target, timeout, cap=cap + 1)
    if len(body) > cap:
        raise nodefs.NodeError("too-large", "%s: GET %s answers more than %d bytes" % (path, target, cap))
    return {"status": status, "body": body.decode("utf-8", "replace")}
