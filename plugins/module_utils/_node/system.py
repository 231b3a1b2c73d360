# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at what a host runs and has installed: packages, units, processes.

Node side: standard library only, Python 3.6. Everything here reads; nothing changes the host.
"""

import contextlib
import errno
import os
import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._node import causes, commands, host_files, trust
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.rpc import unix_http

UNIT_PROPERTIES = (
    "Id Names LoadState ActiveState SubState Result Type MainPID InvocationID NRestarts UnitFileState FragmentPath DropInPaths "
    "KillMode Delegate Slice ControlGroup ExecMainStartTimestampMonotonic ActiveEnterTimestampMonotonic NeedDaemonReload BindsTo "
    "Requires PartOf TriggeredBy Triggers"
).split()
_DPKG_INSTALLED = ("installed", "triggers-awaited", "triggers-pending")
_RPM_DATABASES = ("/var/lib/rpm", "/usr/lib/sysimage/rpm")
_RPM_FORMAT = "%{NAME} %|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\n"
_OF_PROCESSES = ("MainPID", "FragmentPath", "DropInPaths")
MAX_PROCESSES = 1024

_heard = {}  # unit: its properties, in this one look
_read = {}  # root: what dpkg has installed there, in this one look


def forget():
    """A look begins: what an earlier one has heard does not count."""
    _heard.clear()
    _read.clear()


def packages(root, names, candidates=False):
    """Which packages are installed, from the package manager's own database.

    candidates: True asks what could be installed, "missing" of those only that are not installed (apt-cache takes its time).
    """
    if os.path.exists(host_files.full(root, "/var/lib/dpkg/status")):
        answer = {"manager": "dpkg", "installed": _dpkg(root, names), "candidates": {}}
        wanted = [name for name in names if candidates != "missing" or not answer["installed"][name]]
        if candidates and wanted and not root:
            answer.update(_offered_by_apt(wanted))
        return answer
    if any(os.path.isdir(host_files.full(root, path)) for path in _RPM_DATABASES):
        if root:
            raise host_files.NodeError("offline", "an rpm database is read by running rpm, and beneath another root nothing is run")
        return {"manager": "rpm", "installed": _rpm(names), "candidates": {}}
    return {"manager": "none", "installed": {name: None for name in names}, "candidates": {}}


def _dpkg(root, names):
    # Searched, not parsed: the file has thousands of stanzas, a question a handful of names.
    text, installed = _dpkg_status(root), {}
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


def _dpkg_status(root):
    """The file once for all questions of a look."""
    if root not in _read:
        _read[root] = "\n" + host_files.read_regular(root, "/var/lib/dpkg/status", 128 * host_files.MIB).decode("utf-8", "replace")
    return _read[root]


def _rpm(names):
    answer = commands.text(commands.run(["rpm", "-q", "--qf", _RPM_FORMAT] + list(names), timeout=30))
    if answer["timed_out"]:
        raise host_files.NodeError("timeout", "rpm -q gave no answer within 30 s")
    lines = answer["stdout"].splitlines()
    found = dict(line.split(" ", 1) for line in lines if re.match(r"\S+ \S+$", line))
    unknown = [name for name in names if name not in found and "package %s is not installed" % name not in lines]
    if unknown:  # a database that cannot be read is not a host without packages
        said = (answer["stderr"].strip().splitlines() or ["exit status %s" % answer["rc"]])[-1]
        raise host_files.NodeError("failed", "rpm -q says nothing of %s: %s" % (", ".join(unknown), said))
    return {name: found.get(name) for name in names}


def _offered_by_apt(names):
    """What could be installed; or why that is not known, since what is installed is known without it."""
    try:
        return {"candidates": _apt_candidates(names)}
    except host_files.NodeError as exc:
        return {"candidates_error": exc.message}


def _apt_candidates(names):
    answer = commands.text(commands.run(["apt-cache", "policy", "--"] + list(names), timeout=30))
    if answer["timed_out"]:
        raise host_files.NodeError("timeout", "apt-cache policy gave no answer within 30 s")
    if answer["rc"]:  # sources that cannot be read are no sources without packages
        raise host_files.NodeError("failed", "apt-cache policy ended with exit status %s" % answer["rc"])
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
        raise host_files.NodeError("timeout", "systemctl show gave no answer within 15 s")
    shown = {}
    for block in answer["stdout"].split("\n\n"):
        unit = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for name in unit.get("Names", "").split() + [unit.get("Id", "")]:
            shown[name] = unit
    if not shown.keys() & set(names) and answer["rc"]:
        raise host_files.NodeError("failed", "systemctl show: " + (causes.of_manager(answer["stderr"]) or "exit status %s" % answer["rc"]))
    states = {name: shown.get(name, {"LoadState": "not-found", "ActiveState": "inactive"}) for name in names}
    if set(_OF_PROCESSES) <= set(wanted):
        _heard.update(states)
    return states


def processes(names, flags=None, environment=None):
    """Root's processes whose executable has one of the names (regular expressions, whole basename), each verified or with a reason.

    Those of anybody else are counted by name and dropped before any limit: nobody but root has a say here. One in a PID namespace of its
    own (an engine within a container) is none of the host's. Of arguments and environment what is listed travels, and of the verified only:
    flags and names, with the shape of each one's value.
    """
    wanted = [(name, re.compile(name)) for name in names]
    found, others = [], {}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        called = trust.named(pid)
        name = next((name for name, pattern in wanted if called and pattern.fullmatch(called)), None)
        if name is None:
            continue
        roots = trust.is_root(pid)
        if not roots:
            others.update({} if roots is None else {name: others.get(name, 0) + 1})
            continue
        with contextlib.suppress(trust.Gone):
            process = trust.process(pid)
            # Since it was counted it may have become another program, or another user's: what is read now has to be what was asked for.
            same = process.uids == (0, 0, 0, 0) and re.fullmatch(name, os.path.basename(process.exe))
            if process.pids == 1 and same:
                found.append(process)
        if len(found) > MAX_PROCESSES:  # never a part of them, taken for all
            raise host_files.NodeError("too-large", "more than %d processes are called %s" % (MAX_PROCESSES, " or ".join(names)))
    judged = _judged(found, flags or {}, environment or {})
    programs_ = programs([process["exe"] for process in judged if process.get("verified")])
    return {"processes": judged, "programs": programs_, "others": others}


def _judged(found, flags, environment):
    if not found:
        return []
    judge = trust.Judge(_units_of_processes)
    ticks = float(os.sysconf("SC_CLK_TCK"))
    booted = re.search(r"^btime (\d+)$", host_files.read_text("", "/proc/stat", 16 * host_files.MIB) or "", re.MULTILINE)
    _units_of_processes(sorted({unit for unit in map(judge.unit, found) if unit}))  # one call for all
    judged = []
    for process in found:
        doubt = judge.doubt(process)
        described = dict(_described(process, judge), start=(int(booted.group(1)) if booted else 0) + process.start / ticks)
        if doubt:
            described.update(unverified=doubt.row, place=doubt.place, why=doubt.why, remedy=doubt.remedy)
        else:
            described.update(verified=True, argv=selection.arguments(list(process.argv), flags))
            described["environment"] = selection.environment(_environment(process), environment) if environment else {}
        judged.append(described)
    return judged


def _described(process, judge):
    group, unit = trust.service(process.groups, judge.first)
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


def _units_of_processes(names):
    """What systemd says of the units that processes run in; what this look has heard already is not asked again."""
    lacking = [name for name in names if name not in _heard]
    if lacking:
        try:
            _heard.update(units(lacking, _OF_PROCESSES))
        except host_files.NodeError as exc:
            if exc.kind != "not-found":
                raise
            _heard.update({name: {} for name in lacking})  # no systemd, so nobody vouches for a service
    return _heard


def programs(paths):
    """Which file is at each path now. A program that still runs may have been replaced on disk."""
    return {path: host_files.identity("", path) for path in sorted(set(paths)) if path}


def words_of(pid, ticks, without):
    """The arguments of one process, named by its number and start time, without some flags and their values. They stay on this host."""
    argv = (host_files.read_text("", "/proc/%d/cmdline" % pid, 256 * 1024) or "").split("\0")[:-1]
    if not argv or started(pid) != ticks:  # asked after the reading: a number that was given again has another beginning
        raise host_files.NodeError("conflict", "process %d is gone, or is another one by now" % pid)
    words, skip = [], False
    for word in argv[1:]:
        name, equals, _value = word.partition("=")
        if not skip and name not in without:
            words.append(word)
        skip = not skip and name in without and not equals
    return words


def _environment(process):
    said = (host_files.read_text("", "/proc/%d/environ" % process.pid, host_files.MIB) or "").split("\0")
    return said if started(process.pid) == process.start else []


def started(pid):
    """When a process began, in the kernel's ticks; with the number it names one process forever. None when it is gone."""
    fields = (host_files.read_text("", "/proc/%d/stat" % pid) or "").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else None


def boot():
    """Which boot this is. The first process's beginning as well: a container's boot may have the number of the machine's."""
    number = (host_files.read_text("", "/proc/sys/kernel/random/boot_id") or "").strip()
    return "%s/%s" % (number, started(1))


def populated(group):
    """Whether a control group has a process, in itself or below. What cannot be read is an error, unless it is gone by now."""
    try:
        events = _lines(os.path.join(group, "cgroup.events"))
        if events is not None:  # version 2, which counts what is below as well (Documentation/admin-guide/cgroup-v2.rst)
            return "populated 1" in events
        return any(_lines(os.path.join(place, "cgroup.procs")) for place, _folders, _files in os.walk(group, onerror=_unless_gone))
    except OSError as exc:
        raise host_files.NodeError("failed", "%s: %s" % (group, exc.strerror))


def _unless_gone(exc):
    if exc.errno not in (errno.ENOENT, errno.ENODEV):  # ENODEV: the group is removed while it is read
        raise exc


def _lines(path):
    """The lines of a file, None where there is none."""
    try:
        with open(path) as opened:
            return opened.read().split("\n")[:-1]
    except OSError as exc:
        _unless_gone(exc)
        return None


def http_get(path, target, timeout=5, cap=4 * host_files.MIB):
    """GET over a unix socket, bounded. For use on this host alone."""
    status, body = unix_http.ask(path, "GET", target, timeout, cap=cap + 1)
    if len(body) > cap:
        raise host_files.NodeError("too-large", "%s: GET %s answers more than %d bytes" % (path, target, cap))
    return {"status": status, "body": body.decode("utf-8", "replace")}
