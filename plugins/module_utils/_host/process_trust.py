# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which processes are believed: services of this very host that root's systemd has started.

The rules for everything else are in `trust`. Only looks use this module. A change names a process
that a look has judged (`trust.open_running_program`). Host side: standard library only, Python 3.6.
"""

import os

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import trust

_GENERATIONS = 64  # of parents that are followed


def is_root(pid):
    """Tell whether all user ids of a process are root: real, effective, saved and file system. None
    if it is gone.
    """
    try:
        return trust.parse_uids(trust.read_proc_file("/proc/%d/status" % pid)) == (0, 0, 0, 0)
    except trust.ENDED:
        return None


def find_trusted_service(groups, first):
    """Return (control group, outermost unit) of a process, both below the group of the host's first
    process.

    The unit is None if it is not known, the group "" if no hierarchy is systemd's. The outermost
    unit counts, because a user's own manager has units as well, and calls them as it likes.
    systemd's own hierarchy is 0::, name=systemd, or both; then one of them may contain only "/".
    """
    tops, paths = _list_hierarchies(first), []
    for name, group in _list_hierarchies(groups).items():
        top = tops.get(name, "/")
        top = (os.path.dirname(top) if top.endswith("/init.scope") else top).rstrip("/")
        if (group == top or group.startswith(top + "/")) and ".." not in group.split("/"):
            paths.append(group[len(top) :] or "/")
        else:
            paths.append("/..")  # in addition to the host's own
    group = max(paths, key=len) if paths else ""
    units = {
        next((part for part in path.split("/") if part.endswith((".service", ".scope"))), None)
        for path in paths
        if path != "/"
    }
    return group, units.pop() if len(units) == 1 else None


def _is_service(unit):
    """Tell whether a unit is a service of the host's systemd. A user's own manager is none."""
    return unit is not None and unit.endswith(".service") and not unit.startswith("user@")


def _list_hierarchies(groups):
    hierarchies = {}
    for line in groups.splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3 and fields[1] in ("", "name=systemd"):
            hierarchies[fields[1]] = fields[2]
    return hierarchies


def _get_user_namespace():
    """Return the user namespace of the host's first process. It is our own if even root may not
    look at that one (some containers).
    """
    try:
        return os.readlink("/proc/1/ns/user")
    except PermissionError:
        return os.readlink("/proc/self/ns/user")


class Judge(object):
    """The rule for processes of one look. show: a function from names of units to their properties,
    as systemd reports them.
    """

    def __init__(self, show):
        self.show = show
        self.first = trust.read_proc_file("/proc/1/cgroup")
        self.root = os.stat("/")
        self.users = _get_user_namespace()

    def find_unit(self, found):
        return find_trusted_service(found.groups, self.first)[1]

    def find_doubt(self, found):
        """Return None for a process that root's systemd has started as a service of this host, else
        a Doubt with the first broken rule.
        """
        return self._own(found) or self._find_service(found)

    def is_main_number(self, pid):
        """Tell whether systemd names this number as that of the main process of a service of its
        own, before more is read of that process.

        Its program and its root directory may be of another account, on a file system that never
        answers.
        """
        groups = trust.read_proc_file("/proc/%d/cgroup" % pid)
        unit = find_trusted_service(groups, self.first)[1]
        return _is_service(unit) and (self.show([unit])[unit]).get("MainPID") == str(pid)

    def is_main_process(self, found):
        """Tell whether a process, of any account, is the main one of a service of this very host."""
        unit = self.find_unit(found)
        return not (self._own(found, anybodys=True) or self._find_service(found)) and self.show(
            [unit]
        )[unit]["MainPID"] == str(found.pid)

    def _own(self, found, anybodys=False):
        if found.uids != (0, 0, 0, 0) and not anybodys:
            return self._build_doubt(
                found, "user", "is not root's through and through", "Run it as root"
            )
        if found.users != self.users:
            return self._build_doubt(
                found,
                "user namespace",
                "lives in a user namespace of its own",
                "Run it as a service of the host's systemd",
            )
        if found.pids != 1:
            return self._build_doubt(
                found,
                "PID namespace",
                "lives in a PID namespace of its own",
                "Run it as a service of the host's systemd",
            )
        if found.root != (self.root.st_dev, self.root.st_ino):
            return self._build_doubt(
                found,
                "root directory",
                "has another root directory",
                "Run it as a service of the host's systemd",
            )
        return None

    def _find_service(self, found):
        unit = self.find_unit(found)
        if not _is_service(unit):
            why = "runs in %s, not in a service of the host's systemd" % (unit or "no unit")
            return self._build_doubt(found, "service", why, "Run it as such a service")
        shown = self.show([unit]).get(unit) or {}
        if not self._is_descendant(found, shown.get("MainPID", "")):
            return self._build_doubt(
                found,
                "main process",
                "is neither the main process of %s nor its descendant" % unit,
                "Restart the service",
            )
        files = [shown.get("FragmentPath", "")] + shown.get("DropInPaths", "").split()
        # A masked unit is a link to /dev/null, which contains nothing, no matter which account
        # writes to it.
        doubt = trust.get_first_doubt(
            trust.judge_path("", name)
            for name in files
            if name and os.path.realpath(name) != os.devnull
        )
        return (
            doubt._replace(row="unit", why=doubt.why + " (a file of %s)" % unit) if doubt else None
        )

    @staticmethod
    def _is_descendant(ancestor, main):
        """Tell whether a process descends from `main` through parents of root's. If its parent has
        ended, it belongs to no service.
        """
        for _generation in range(_GENERATIONS):
            if str(ancestor.pid) == main:
                return True
            if ancestor.ppid <= 1 or not main.isdigit():
                return False
            try:
                ancestor = trust.read_process(ancestor.ppid)
            except trust.ENDED:
                return False
            if ancestor.uids != (0, 0, 0, 0):
                return False
        return False

    @staticmethod
    def _build_doubt(found, row, why, remedy):
        return trust.Doubt(row, "process %d (%s)" % (found.pid, found.exe), why, remedy)
