# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is trusted on a host: the one place that says which paths, programs, sockets and processes root may believe, run or change.

Each rule answers None, or a Doubt that names the row, the very place and the remedy. What root's systemd obeys is root; what anybody else
can move, write, start or call by a name of their choice is not. Node side: standard library only, Python 3.6.
"""

import os
import stat
from typing import NamedTuple

from ansible_collections.gpufleet.nvidia.plugins.module_utils import nodefs

# Root's own programs, for names without a path. /usr/local comes first in many a PATH, and is not root's alone on every distribution.
PROGRAM_PATH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/run/current-system/sw/bin")
# A Debian that has /etc/staff-group-for-usr-local makes /usr/local root:staff 2775: its policy says that this group is as good as root, and
# root's PATH there begins with /usr/local. No other place, and no other group.
_LOCAL, _STAFF = "/usr/local", "staff"

# Why something is not trusted: the row of the table, the host path or process, what is wrong with it, and what would mend it.
Doubt = NamedTuple("Doubt", [("row", str), ("place", str), ("why", str), ("remedy", str)])


def sentence(doubt):
    return "%s %s. %s" % (doubt.place, doubt.why, doubt.remedy)


def refusal(path, doubt):
    """The NodeError for something that is not read, run or called: nothing was done with it."""
    where = "" if doubt.place == path else "%s: " % path
    return nodefs.NodeError("untrusted", "%s%s" % (where, sentence(doubt)))


# --- paths ------------------------------------------------------------------------------------------------------------


def path(root, wanted, groups=()):
    """Whether nobody but root can change what is found at a host path: every component from `/`, those that links lead through, too.

    groups: names of the groups that may write as well, since they are the admin group of the very program whose configuration this is.
    What is not there is nobody's: the directory where it would be has to be root's.
    """
    real, links = nodefs.resolve(root, wanted)
    return _first(spot(root, place, groups) for place in links + [real])


def spot(root, place, groups=(), whole=True):
    """The rule for one path whose components are no links, the last one perhaps. whole: False judges the directories alone."""
    parts = [part for part in place.split("/") if part]
    inside, found = "/", nodefs.lstat(root, "/")
    owners = _owners(root)
    for part in parts:
        if found is None or not stat.S_ISDIR(found.st_mode):
            break
        below = nodefs.lstat(root, os.path.join(inside, part))
        doubt = _entry(root, inside, found, owners, groups, below)
        if doubt:
            return doubt
        inside, found = os.path.join(inside, part), below
    # A link has no mode, and its owner has no right to turn it: that is the directory's affair, which is judged above.
    if not whole or found is None or stat.S_ISLNK(found.st_mode):
        return None
    return _entry(root, inside, found, owners, groups, None)


def _owners(root):
    owners = {0, os.geteuid()}  # what runs without privileges has none to lose
    if root:
        owners.add(os.stat(root).st_uid)
    return owners


def _entry(root, place, found, owners, groups, below):
    """One directory or file. below: what stands in it on the way."""
    directory = stat.S_ISDIR(found.st_mode)
    what = "the directory" if directory else "the file"
    if found.st_uid not in owners:
        why = "belongs to user %s" % nodefs.id_names(root, "passwd").get(found.st_uid, found.st_uid)
        return Doubt("path", place, why, "Run chown root on %s, if that is meant to be root's" % what)
    who = _writers(root, place, found, groups)
    if not who or (directory and _kept_by_sticky_bit(found, below, owners)):
        return None
    letter = {"others": "o-w", "its group": "g-w"}.get(who, "g-w")
    why = "may be written to by %s (mode %04o)" % (who, stat.S_IMODE(found.st_mode))
    return Doubt("path", place, why, "Run chmod %s on %s, if only root is meant to write there" % (letter, what))


def _kept_by_sticky_bit(found, below, owners):
    """In a sticky directory nobody renames a directory of root's. Only a directory: of a file anybody can put a further name there."""
    return bool(found.st_mode & stat.S_ISVTX) and below is not None and stat.S_ISDIR(below.st_mode) and below.st_uid in owners


def _writers(root, place, found, groups):
    """Who beside the owner may write, in words; "" when nobody may."""
    if found.st_mode & 0o002:
        return "others"
    if not found.st_mode & 0o020:
        return ""
    if _has_acl(nodefs.full(root, place)):
        return "those that its ACL names"  # the group's bits are the ACL's mask then, and say nothing of the group
    if found.st_gid in (0, os.getegid()):
        return ""
    name = nodefs.id_names(root, "group").get(found.st_gid, str(found.st_gid))
    local = name == _STAFF and (place + "/").startswith(_LOCAL + "/")
    return "" if name in groups or local else "its group %s" % name


def _has_acl(place):
    try:
        return bool(os.getxattr(place, "system.posix_acl_access", follow_symlinks=False))
    except (OSError, AttributeError):
        return False


def _first(doubts):
    return next((doubt for doubt in doubts if doubt), None)


# --- programs ---------------------------------------------------------------------------------------------------------


def program(root, wanted):
    """Whether a program, or a script, may be run as root by its path."""
    doubt = path(root, wanted)
    if doubt:
        return doubt._replace(row="program")
    found = nodefs.lstat(root, nodefs.resolve(root, wanted)[0])
    if found is None or not stat.S_ISREG(found.st_mode) or not found.st_mode & 0o111:
        return Doubt("program", wanted, "is no executable file", "Name one that is")
    return None


def find_program(root, name, directories=None):
    """The host path of the first program of that name in root's own directories; None when there is none."""
    return nodefs.which(root, name, PROGRAM_PATH if directories is None else directories)


def require_program(wanted):
    """The path to run for argv[0], or NodeError: a name is looked up in root's own directories, a path is judged as it is."""
    if "/" not in wanted:
        found = find_program("", wanted)
        if found is None:
            raise nodefs.NodeError("not-found", "%s: there is no such program in %s" % (wanted, ", ".join(PROGRAM_PATH)))
        wanted = found
    if not wanted.startswith("/"):
        raise nodefs.NodeError("bad-question", "a program must be a name or an absolute path, not %r" % (wanted,))
    if nodefs.lstat("", nodefs.resolve("", wanted)[0]) is None:
        raise nodefs.NodeError("not-found", "%s: there is no such program" % wanted)
    doubt = program("", wanted)
    if doubt:
        raise refusal(wanted, doubt)
    return wanted
