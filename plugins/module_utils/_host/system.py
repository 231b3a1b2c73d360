# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the software that a host runs and has installed: packages, units, processes.

Host side: standard library only, Python 3.6. Everything here reads; nothing changes the host.
"""

import os
import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    failures,
    host_files,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import unix_http

UNIT_PROPERTIES = (
    "Id Names LoadState ActiveState SubState Result Type MainPID InvocationID NRestarts UnitFileState FragmentPath DropInPaths "
    "KillMode Delegate Slice ControlGroup ExecMainStartTimestampMonotonic ActiveEnterTimestampMonotonic NeedDaemonReload BindsTo "
    "Requires PartOf TriggeredBy Triggers"
).split()
# systemd.unit(5), "Unit File Load Path", of the system's manager; /lib where it is not merged with
# /usr/lib.
_UNIT_FOLDERS = (
    "/etc/systemd/system.control /run/systemd/system.control /run/systemd/transient /run/systemd/generator.early /etc/systemd/system "
    "/etc/systemd/system.attached /run/systemd/system /run/systemd/system.attached /run/systemd/generator /usr/local/lib/systemd/system "
    "/usr/lib/systemd/system /lib/systemd/system /run/systemd/generator.late"
).split()
_MANAGERS_ENVIRONMENT = "/proc/1/environ"
# No instance (name@instance), which has the file of another name.
_PLAIN_UNIT = re.compile(r"[\w.:-]+\.(?:service|socket|path|timer|target|mount|scope|slice)\Z")
_DPKG_INSTALLED = ("installed", "triggers-awaited", "triggers-pending")
# dpkg(1), of a package that an interrupted or failed run of dpkg has left
_DPKG_HALF = ("half-installed", "unpacked", "half-configured")
# Its first line has the architecture of the system; without other ones there is no such file.
_DPKG_ARCHITECTURES = "/var/lib/dpkg/arch"
_RPM_DATABASES = ("/var/lib/rpm", "/usr/lib/sysimage/rpm")
_OF_RPM = {"rhel", "centos", "fedora", "suse", "opensuse"}  # os-release(5), ID and ID_LIKE
_RPM_FORMAT = "%{NAME} %|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\n"
_RPM_LIKE = _RPM_FORMAT.replace("\\n", " %{VENDOR}\\n")
OF_PROCESSES = ("MainPID", "FragmentPath", "DropInPaths")

heard = {}  # unit: its properties, in this one look
_read = {}  # root: what dpkg has installed there, in this one look


def forget():
    """Begin a look: discard what an earlier one has heard."""
    heard.clear()
    _read.clear()


def list_installed_packages(root, names, candidates=False, like=None):
    """Return which packages are installed, from the package manager's own database: name -> version
    or None.

    candidates: True also asks for the versions that could be installed. "first missing" asks only
    for packages that are not installed, and only if the first of all is not installed (apt-cache
    takes its time).

    like: a regular expression of names; "like" are the installed packages with such a name. For
    dpkg, "half" lists the packages that it has not finished, and "empty" the packages that only
    lead to others.
    """
    database = _name_database(root)
    if database == "dpkg":
        answer = {"manager": "dpkg", "installed": _list_dpkg(root, names), "candidates": {}}
        if like:
            stanzas = list(_match_dpkg(root, like))
            answer["like"] = _list_like_dpkg(stanzas, candidates and not root)
            answer["half"] = _list_half_dpkg(stanzas)
            answer["empty"] = _list_empty_dpkg(stanzas)
        wanted = [
            name
            for name in names
            if candidates is True
            or not (answer["installed"][names[0]] or answer["installed"][name])
        ]
        if candidates and wanted and not root:
            answer.update(_list_apt_offers(wanted))
        return answer
    if database == "rpm":
        if root:
            raise host_files.HostError(
                "offline",
                "reading an rpm database takes running rpm, and nothing is run in another root directory",
            )
        installed = _list_rpm(names) if names else {}
        answer = {"manager": "rpm", "installed": installed, "candidates": {}}
        if like:
            answer["like"] = _match_rpm(like)
        return answer
    return {"manager": "none", "installed": {name: None for name in names}, "candidates": {}}


def _name_database(root):
    """Name the package database of this host: "dpkg", "rpm" or "none".

    dpkg and rpm are packages of one another's distributions. If both exist, the distribution
    decides.
    """
    databases = (
        ["dpkg"] if os.path.exists(host_files.get_full_path(root, "/var/lib/dpkg/status")) else []
    )
    databases += (
        ["rpm"]
        if any(os.path.isdir(host_files.get_full_path(root, path)) for path in _RPM_DATABASES)
        else []
    )
    if len(databases) == 2 and _OF_RPM & set(_list_distribution_words(root)):
        return "rpm"
    return databases[0] if databases else "none"


def _list_distribution_words(root):
    """Return the words of ID and ID_LIKE in os-release."""
    text = (
        host_files.read_text(root, "/etc/os-release")
        or host_files.read_text(root, "/usr/lib/os-release")
        or ""
    )
    return " ".join(re.findall(r"^ID(?:_LIKE)?=[\"']?([^\"'\n]*)", text, re.MULTILINE)).split()


def _list_dpkg(root, names):
    # Searched, not parsed: the file has thousands of stanzas, a question a handful of names.
    text = _read_dpkg_status(root)
    return {name: _get_field(_find_dpkg(text, name), "Version") or None for name in names}


def _match_dpkg(root, like):
    """Yield (name, stanza) of packages with such a name, whatever their state. One of another
    architecture than the system's has it behind its name, as apt shows it: `libc6:i386`.
    """
    text, native = _read_dpkg_status(root), _read_native_architecture(root)
    for match in re.finditer("\nPackage: ((?:%s))\n" % like, text):
        end = text.find("\n\n", match.end() - 1) + 1 or len(text)
        stanza = text[match.start() + 1 : end]
        of = _get_field(stanza, "Architecture")
        yield (
            match.group(1) + (":" + of if native and of not in ("", "all", native) else ""),
            stanza,
        )


def _read_native_architecture(root):
    """Return the architecture of the system, '' if dpkg knows no other one."""
    if not os.path.exists(host_files.get_full_path(root, _DPKG_ARCHITECTURES)):
        return ""
    listed = host_files.read_regular(root, _DPKG_ARCHITECTURES, host_files.MIB)
    return listed.decode("utf-8", "replace").partition("\n")[0].strip()


def _list_like_dpkg(stanzas, offers):
    """Return [name, version, who made it, whether it is held, what apt offers] of installed
    packages. offers: whether apt is asked.
    """
    rows = []
    for name, stanza in sorted(stanzas):
        if _is_installed(stanza):
            fields = [_get_field(stanza, field) for field in ("Version", "Maintainer")]
            rows.append([name, fields[0], fields[1][:128], _is_held(stanza), ""])
    if offers and rows:
        newest = _list_apt_offers([row[0] for row in rows]).get("candidates", {})
        for row in rows:
            row[4] = newest.get(row[0]) or ""
    return rows


def _list_half_dpkg(stanzas):
    """Return [name, state, whether it is held] of packages that are neither installed nor gone. The
    state is dpkg's word; of one that dpkg wants installed again, that is `reinstreq`.
    """
    half = []
    for name, stanza in sorted(stanzas):
        words = _get_field(stanza, "Status").split()
        if words[1:2] == ["reinstreq"] or words[2:3] and words[2] in _DPKG_HALF:
            state = "reinstreq" if words[1] == "reinstreq" else words[2]
            half.append([name, state, _is_held(stanza)])
    return half


def _list_empty_dpkg(stanzas):
    """Return the names of installed packages that have no files of their own and lead to others
    (Debian's Developer's Reference 6.7.7: their short description says so).
    """
    return sorted(
        name
        for name, stanza in stanzas
        if _is_installed(stanza) and "transitional" in _get_field(stanza, "Description").lower()
    )


def _is_installed(stanza):
    state = _get_field(stanza, "Status").rpartition(" ")[2]
    return bool(_get_field(stanza, "Version")) and state in _DPKG_INSTALLED


def _is_held(stanza):
    return _get_field(stanza, "Status").startswith("hold ")


def _find_dpkg(text, name):
    """Return the stanza of an installed package; '' if it is not installed."""
    for stanza in _list_stanzas(text, "\nPackage: %s\n" % name):
        if _is_installed(stanza):
            return stanza
    return ""


def _get_field(stanza, name):
    return stanza.partition("\n%s: " % name)[2].partition("\n")[0]


def _list_stanzas(text, begins):
    at = text.find(begins)
    while at >= 0:
        end = text.find("\n\n", at + len(begins) - 1) + 1 or len(text)
        yield text[at + 1 : end]
        at = text.find(begins, end - 1)


def _read_dpkg_status(root):
    """Return dpkg's status file, read once for all questions of a look."""
    if root not in _read:
        _read[root] = "\n" + host_files.read_regular(
            root, "/var/lib/dpkg/status", 128 * host_files.MIB
        ).decode("utf-8", "replace")
    return _read[root]


def _list_rpm(names):
    answer = _run_whole(["rpm", "-q", "--qf", _RPM_FORMAT] + list(names), 30)
    lines = answer["stdout"].splitlines()
    versions = dict(line.split(" ", 1) for line in lines if re.match(r"\S+ \S+$", line))
    unknown = [
        name
        for name in names
        if name not in versions and "package %s is not installed" % name not in lines
    ]
    if unknown:  # a database that cannot be read is not the same as a host without packages
        said = (answer["stderr"].strip().splitlines() or ["exit status %s" % answer["rc"]])[-1]
        raise host_files.HostError(
            "failed", "rpm -q says nothing of %s: %s" % (", ".join(unknown), said)
        )
    return {name: versions.get(name) for name in names}


def _match_rpm(like):
    """Return the same of rpm's packages, which are held by files of the package manager alone."""
    answer = _run_whole(["rpm", "-qa", "--qf", _RPM_LIKE], 30)
    if answer["rc"]:
        raise host_files.HostError("failed", "rpm -qa ended with exit status %s" % answer["rc"])
    lines = sorted(set(answer["stdout"].splitlines()))
    # a vendor may have any words, and a break of the line
    every = [row for row in (line.split(" ", 2) for line in lines) if len(row) == 3]
    return [
        [name, version, vendor[:128], False, ""]
        for name, version, vendor in every
        if re.match("(?:%s)\\Z" % like, name)
    ]


def _list_apt_offers(names):
    """Return what could be installed, or why that is not known: the installed packages are known
    without it.
    """
    try:
        return {"candidates": _list_apt_candidates(names)}
    except host_files.HostError as exc:
        return {"candidates_error": exc.message}


def _list_apt_candidates(names):
    answer = _run_whole(["apt-cache", "policy", "--"] + list(names), 30)
    if answer["rc"]:  # sources that cannot be read are not the same as sources without packages
        raise host_files.HostError(
            "failed", "apt-cache policy ended with exit status %s" % answer["rc"]
        )
    candidates, name = {}, None
    for line in answer["stdout"].splitlines():
        if line and not line.startswith(" "):
            name = line.rstrip(":")
        elif line.startswith("  Candidate: "):
            version = line.split(": ", 1)[1]
            candidates[name] = None if version == "(none)" else version
    return {wanted: candidates.get(wanted) for wanted in names}


def _run_whole(argv, within):
    """Run a command. Return its answer as text. Raise HostError if it did not end, or printed more
    than is read.
    """
    answer = commands.decode_answer(commands.run(argv, timeout=within))
    if answer["timed_out"]:
        raise host_files.HostError(
            "timeout", "%s %s gave no answer within %d s" % (argv[0], argv[1], within)
        )
    if answer["truncated"]:
        raise host_files.HostError(
            "too-large", "%s %s printed more than %d bytes" % (argv[0], argv[1], host_files.MIB)
        )
    return answer


def list_units(names, properties=None):
    """Return {name: properties as systemctl prints them} by one call. A unit that systemd does not
    report has LoadState not-found.
    """
    wanted = sorted(set(properties or UNIT_PROPERTIES) | {"Id", "Names", "LoadState"})
    argv = [
        "systemctl",
        "show",
        "--no-pager",
        "--property=" + ",".join(wanted),
        "--",
    ] + _list_asked_names(names)
    answer = _run_whole(argv, 15)
    shown = {}
    for block in answer["stdout"].split("\n\n"):
        unit = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for name in unit.get("Names", "").split() + [unit.get("Id", "")]:
            shown[name] = unit
    # systemctl ends at the first unit that it knows nothing of, so nothing is known of the others
    if answer["rc"]:
        said = failures.extract_systemd_words(answer["stderr"]) or "exit status %s" % answer["rc"]
        raise host_files.HostError("failed", "systemctl show: " + said)
    states = {
        name: shown.get(name, {"LoadState": "not-found", "ActiveState": "inactive"})
        for name in names
    }
    if set(OF_PROCESSES) <= set(wanted):
        heard.update(states)
    return states


def _list_asked_names(names):
    """Return the words by which systemctl is asked for units.

    A unit is asked for by its name if a directory of units has it, else by a pattern that matches
    only this name. A pattern is compared with the units that systemd has in memory, by one call for
    all of them. For a name, systemd also looks for files, and prints all properties of a unit that
    it has not found. That took more of a look than anything else.
    """
    try:
        with open(_MANAGERS_ENVIRONMENT, "rb") as opened:
            # by the kernel's command line, for example: it has units elsewhere
            if b"SYSTEMD_UNIT_PATH=" in opened.read():
                return list(names)
        there = {name for folder in _UNIT_FOLDERS for name in _names_in(folder)}
    except OSError:  # a directory that cannot be read does not prove that a name is absent
        return list(names)
    return [
        name
        if {name, name + ".d"} & there or not _PLAIN_UNIT.match(name)
        else "%s[%s]" % (name[:-1], name[-1])
        for name in names
    ]


def _names_in(folder):
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return ()


def identify_programs(paths):
    """Return path -> identity of the file that is there now. A program that still runs may have
    been replaced on disk.
    """
    return {path: host_files.identify_program("", path) for path in sorted(set(paths)) if path}


def get_process_start(pid):
    """Return when a process began, in the kernel's ticks; None if it is gone. With the number, it
    names one process forever.
    """
    fields = (host_files.read_text("", "/proc/%d/stat" % pid) or "").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else None


def name_boot():
    """Name this boot: "boot id/start of the first process".

    A container's boot may have the id of the machine's, so the start of its first process tells
    them apart.
    """
    number = (host_files.read_text("", "/proc/sys/kernel/random/boot_id") or "").strip()
    return "%s/%s" % (number, get_process_start(1))


def get_over_socket(path, target, timeout=5, cap=4 * host_files.MIB):
    """Return {"status", "body"} of a GET over a unix socket. Raise HostError for more than cap
    bytes. For use on this host alone.
    """
    status, body = unix_http.ask_http(path, "GET", target, timeout, cap=cap + 1)
    if len(body) > cap:
        raise host_files.HostError(
            "too-large", "%s: GET %s answers more than %d bytes" % (path, target, cap)
        )
    return {"status": status, "body": body.decode("utf-8", "replace")}
