# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide who is trusted on a host: which paths, programs, sockets and processes root may believe,
run or change.

This is the only place with such rules. Each rule returns None, or a Doubt that names the row, the
exact place and the remedy. If root's systemd obeys a thing, it counts as root. If another account
can move, write, start or call it by a name of its choice, it does not. Host side: standard library
only, Python 3.6.
"""

import _socket  # what `socket` is made of, which takes a thirtieth of a look to import
import collections
import contextlib
import errno
import os
import stat
import struct

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, linker

# Root's own programs, for names without a path. /usr/local comes first in many a PATH, and is not
# root's alone on every distribution.
PROGRAM_PATH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/run/current-system/sw/bin")
# A Debian that has /etc/staff-group-for-usr-local makes /usr/local root:staff 2775: its policy says
# that this group is as good as root, and root's PATH there begins with /usr/local. No other place,
# and no other group: Debian's staff has this number everywhere (base-passwd), and a site may call a
# group of its own so.
_LOCAL, _STAFF = "/usr/local", (50, "staff")

# Why something is not trusted: the row of the table, the host path or process, what is wrong with
# it, and the remedy.
Doubt = collections.namedtuple("Doubt", "row place why remedy")


def describe_doubt(doubt):
    """Return a doubt as a sentence, with its remedy."""
    return "%s %s. %s" % (doubt.place, doubt.why, doubt.remedy)


def build_untrusted_error(path, doubt):
    """Build the HostError for something that is not read, run or called: nothing was done with it."""
    return host_files.HostError(
        "untrusted", ("" if doubt.place == path else "%s: " % path) + describe_doubt(doubt)
    )


def require_trusted(path, doubt):
    """Raise HostError if there is a doubt about what is at a path, or is loaded with it."""
    if doubt:
        raise build_untrusted_error(path, doubt)


# --- paths
# --------------------------------------------------------------------------------------------------


def judge_path(root, wanted, groups=(), tree=""):
    """Return None if only root can change what is found at a host path, else a Doubt.

    Every component from `/` is judged, and also every component that links lead through.

    groups: names of the groups that may write as well, since each is the admin group of the very
    program whose configuration this is. A path that does not exist belongs to no account: the
    directory where it would be must belong to root.
    tree: the real place of a tree that the path is in, and whose links are followed inside it.
    """
    real, links = host_files.resolve_links(root + tree, wanted)
    return get_first_doubt(judge_spot(root, tree + place, groups) for place in links + [real])


def judge_spot(root, place, groups=(), whole=True):
    """Judge one path that has no links in its components, except perhaps the last one.

    Return a Doubt or None.

    whole: False judges the directories alone.
    """
    parts = [part for part in place.split("/") if part]
    inside, status = "/", host_files.get_lstat(root, "/")
    owners = _list_trusted_owners(root)
    for part in parts:
        if status is None or not stat.S_ISDIR(status.st_mode):
            break
        below = host_files.get_lstat(root, os.path.join(inside, part))
        doubt = _judge_entry(root, inside, status, owners, groups, below)
        if doubt:
            return doubt
        inside, status = os.path.join(inside, part), below
    # A link has no mode, and its owner has no right to turn it: that is the directory's affair,
    # which is judged above.
    if not whole or status is None or stat.S_ISLNK(status.st_mode):
        return None
    return _judge_entry(root, inside, status, owners, groups, None)


def _list_trusted_owners(root):
    owners = {0, os.geteuid()}  # a process without privileges has none to lose
    if root:
        owners.add(os.stat(root).st_uid)
    return owners


def _judge_entry(root, place, found, owners, groups, below):
    """Judge one directory or file. Return a Doubt or None. below: the state of the next component
    in it, None if there is none.
    """
    directory = stat.S_ISDIR(found.st_mode)
    what = "the directory" if directory else "the file"
    if found.st_uid not in owners:
        why = "belongs to user %s" % host_files.map_id_names(root, "passwd").get(
            found.st_uid, found.st_uid
        )
        return Doubt("path", place, why, "Run chown root on %s, if root is meant to own it" % what)
    who = _describe_writers(root, place, found, groups)
    if not who or (directory and _is_kept_by_sticky_bit(found, below, owners)):
        return None
    letter = {"others": "o-w", "its group": "g-w"}.get(who, "g-w")
    why = "may be written to by %s (mode %04o)" % (who, stat.S_IMODE(found.st_mode))
    return Doubt(
        "path",
        place,
        why,
        "Run chmod %s on %s, if only root is meant to write there" % (letter, what),
    )


def _is_kept_by_sticky_bit(found, below, owners):
    """Tell whether a sticky directory keeps a directory of root's in place. A file it does not: any
    account can give it another name.
    """
    return (
        bool(found.st_mode & stat.S_ISVTX)
        and below is not None
        and stat.S_ISDIR(below.st_mode)
        and below.st_uid in owners
    )


def _describe_writers(root, place, found, groups):
    """Describe in words who besides the owner may write; "" if no other account may."""
    if found.st_mode & 0o002:
        return "others"
    if not found.st_mode & 0o020:
        return ""
    if _has_acl(host_files.get_full_path(root, place)):
        # then the group's bits are the ACL's mask, and tell nothing of the group
        return "accounts that its ACL names"
    if found.st_gid in (0, os.getegid()):
        return ""
    name = host_files.map_id_names(root, "group").get(found.st_gid, str(found.st_gid))
    local = (found.st_gid, name) == _STAFF and (place + "/").startswith(_LOCAL + "/")
    return "" if name in groups or local else "its group %s" % name


def _has_acl(place):
    try:
        return bool(os.getxattr(place, "system.posix_acl_access", follow_symlinks=False))
    except OSError as exc:
        return exc.errno not in host_files.NO_ATTRIBUTE


def get_first_doubt(doubts):
    """Return the first doubt; None if there is none."""
    return next((doubt for doubt in doubts if doubt), None)


def is_from_kernel(found):
    """Tell whether a file comes from the kernel: it lies on the very file system of /proc or /sys.

    The owner cannot tell: in a container, these files may belong to a user that the container does
    not know.
    """
    for place in ("/proc", "/sys"):
        with contextlib.suppress(OSError):
            if found.st_dev == os.stat(place).st_dev and os.path.ismount(place):
                return True
    return False


# --- programs
# --------------------------------------------------------------------------------------------------


def judge_program(root, wanted):
    """Judge a program, or a script, that root would run by its path. Return a Doubt or None."""
    doubt = judge_path(root, wanted)
    if doubt:
        return doubt._replace(row="program")
    status = host_files.get_lstat(root, host_files.resolve_links(root, wanted)[0])
    if status is None or not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o111:
        return Doubt("program", wanted, "is no executable file", "Name one that is")
    return None


def find_root_program(root, name, directories=None):
    """Return the host path of the first program of that name in root's own directories; None if
    there is none.
    """
    return host_files.find_executable(
        root, name, PROGRAM_PATH if directories is None else directories
    )


def require_root_program(wanted):
    """Return the path to run for argv[0].

    Raise HostError if there is no such program, or if it is not to be trusted. A name is looked up
    in root's own directories. A path is judged as it is.
    """
    if "/" not in wanted:
        program = find_root_program("", wanted)
        if program is None:
            raise host_files.HostError(
                "not-found",
                "%s: there is no such program in %s" % (wanted, ", ".join(PROGRAM_PATH)),
            )
        wanted = program
    if not wanted.startswith("/"):
        raise host_files.HostError(
            "bad-question", "a program must be a name or an absolute path, not %r" % (wanted,)
        )
    real = host_files.resolve_links("", wanted)[0]
    if host_files.get_lstat("", real) is None:
        raise host_files.HostError("not-found", "%s: there is no such program" % wanted)
    require_trusted(wanted, judge_program("", wanted) or judge_libraries(real, real))
    return wanted


# --- libraries
# --------------------------------------------------------------------------------------------------


def judge_libraries(file, called, loads=(), tree=""):
    """Judge each file that the dynamic linker may load for a program. Return a Doubt or None.

    file: the program, which was judged, or "" for none. called: its path without links. loads:
    names or paths of libraries and programs that count as well. tree: the real place of the tree
    in which all this is, and whose linker is asked.
    """
    known, doubt, preloaded = host_files.look_once((tree, "linker"), lambda: _read_linker(tree))
    cleared = host_files.look_once((tree, "libraries"), set)
    todo = [(name, ()) for name in (*loads, *preloaded)]
    todo += linker.list_needs(file, called, later=True)
    while todo and not doubt:
        name, folders = todo.pop()
        for path in linker.list_places(name, folders, known):
            if path in cleared:
                continue
            doubt = judge_path("", path, tree=tree)
            if doubt:
                why = "%s, and the dynamic linker takes %s from there" % (doubt.why, path)
                return doubt._replace(row="library", why=why)
            cleared.add(path)
            real = tree + host_files.resolve_links(tree, path)[0]
            todo += linker.list_needs(real, path, folders, name in loads)
    return doubt


def _read_linker(tree):
    """Return (the paths of each library that the linker's cache names, a Doubt or None about the
    linker's configuration, what it loads into every program).
    """
    doubt = get_first_doubt(judge_path("", path, tree=tree) for path in linker.CONFIGURATION)
    if doubt:
        return {}, doubt, ()
    return linker.map_libraries(tree), None, linker.list_preloaded(tree)


# --- processes
# --------------------------------------------------------------------------------------------------

# The findings of one look at /proc/PID. start: in the kernel's ticks, which names a process forever
# together with its number. uids: real, effective, saved, of the file system exe: where the program
# is, or was deleted: replaced by an upgrade: the running file is no longer on disk users: the user
# namespace pids: in how many PID namespaces it has a number root: which directory is its / groups:
# /proc/PID/cgroup
Process = collections.namedtuple(
    "Process", "pid ppid start uids exe deleted argv users pids root groups"
)
_DELETED = " (deleted)"
_READS = 64  # of the arguments of a process that has none: some have taken theirs away


# Errors for a process that has ended, or that changed while it was looked at: nothing is known of
# it. Any other error is a failure.
ENDED = (FileNotFoundError, ProcessLookupError)


def is_too_long(exc):
    """Tell whether the kernel has no room for a path that it is asked for.

    Any account may start a program that lies deeper than a path can be long, or nest control groups
    of its own so deep. No service of the host does.
    """
    return exc.errno == errno.ENAMETOOLONG


def read_process(pid):
    """Read a process twice by one descriptor of its directory, which fails once it is dead.

    Raise one of ENDED if it is, if the two reads differ, or if a path of it is too long to be told.
    Raise OSError if it cannot be read.
    """
    place = os.open("/proc/%d" % pid, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _await_executed(place)
        process = _read_process(pid, place)
        if process == _read_process(pid, place):
            return process
    except (ValueError, IndexError):
        pass
    except OSError as exc:
        if not is_too_long(exc):
            raise
    finally:
        os.close(place)
    raise ProcessLookupError()


def _await_executed(place):
    """Wait, for a moment, until a program that is just being started has its arguments: execve(2)
    sets its name before them.
    """
    for _read in range(_READS):
        if read_proc_file("cmdline", place):
            return
        os.sched_yield()


def get_process_name(pid):
    """Return the name of the program that a process runs, at the least cost.

    None for a kernel thread, a process that is gone, or a program whose path is too long to be
    told. The name comes from the executable and never from argv[0], which any account can choose
    for a setuid program. In some containers not even root may look at every process. Then the name
    is what the kernel calls the process, and read_process fails for it. Raise OSError if neither
    can be read.
    """
    try:
        try:
            return os.path.basename(_strip_deleted(os.readlink("/proc/%d/exe" % pid)))
        except PermissionError:
            return None if os.geteuid() else read_proc_file("/proc/%d/comm" % pid).strip()
    except ENDED:
        return None
    except OSError as exc:
        if not is_too_long(exc):
            raise
        return None


def _read_process(pid, place):
    # the name before may contain anything, a ")" too
    fields = read_proc_file("stat", place).rpartition(")")[2].split()
    status = read_proc_file("status", place)
    exe = os.readlink("exe", dir_fd=place)
    root = os.stat("root", dir_fd=place)
    numbers = get_proc_field(status, "NSpid:")
    return Process(
        pid=pid,
        ppid=int(fields[1]),
        start=int(fields[19]),
        uids=parse_uids(status),
        exe=_strip_deleted(exe),
        deleted=exe.endswith(_DELETED),
        argv=tuple(read_proc_file("cmdline", place).split("\0")[:-1]),
        users=os.readlink("ns/user", dir_fd=place),
        pids=len(numbers) or 1,  # a kernel older than 4.1 does not list them
        root=(root.st_dev, root.st_ino),
        groups=read_proc_file("cgroup", place),
    )


def read_proc_file(name, place=None, cap=256 * 1024):
    """Return the text of a file in procfs.

    place: the directory to begin at. cap: the most bytes.
    """
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=place)
    try:
        with os.fdopen(fd, "rb", closefd=False) as stream:
            return stream.read(cap).decode("utf-8", "replace")
    finally:
        os.close(fd)


def get_proc_field(text, begin):
    """Return the words of the line that begins so in a file of the kernel's, without that
    beginning. [] if no line does.
    """
    return ("\n" + text).partition("\n" + begin)[2].partition("\n")[0].split()


def parse_uids(status):
    """Return the user ids of a process, from its status."""
    return tuple(int(word) for word in get_proc_field(status, "Uid:"))


def _strip_deleted(exe):
    return exe[: -len(_DELETED)] if exe.endswith(_DELETED) else exe


@contextlib.contextmanager
def open_running_program(pid, start, called):
    """Yield a descriptor of the very program that a process runs, to run that program again.

    The place of the file does not matter, nor whether the file still lies there. It must belong to
    root alone. Raise HostError if the process is gone, or if it now runs another program.
    """
    try:
        process = read_process(pid)
        fd = os.open("/proc/%d/exe" % pid, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except ENDED:
        raise host_files.HostError("gone", "process %d is gone; run again" % pid)
    try:
        again = None
        with contextlib.suppress(*ENDED):
            again = read_process(pid)
        if process != again or process.start != start or process.exe != called:
            raise host_files.HostError(
                "gone", "process %d is not the one that was inspected; run again" % pid
            )
        require_trusted(
            called,
            judge_running_file(os.fstat(fd), called)
            or judge_libraries("/proc/self/fd/%d" % fd, called),
        )
        yield fd
    finally:
        os.close(fd)


def judge_running_file(found, called):
    """Judge the file of a running program. Return a Doubt or None. Its directories do not matter,
    nor whether its name still exists.
    """
    if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()):
        return Doubt(
            "running program",
            called,
            "does not belong to root (its owner is user %d)" % found.st_uid,
            "Run chown root on it",
        )
    if found.st_mode & 0o022:
        why = "may be written to by others (mode %04o)" % stat.S_IMODE(found.st_mode)
        return Doubt("running program", called, why, "Run chmod go-w on it")
    return None


# --- sockets
# --------------------------------------------------------------------------------------------------


answered = {}  # socket: the process that called listen() there, when it was last talked to


def judge_socket_path(wanted):
    """Judge a socket's place before anything is sent: directories and socket must be root's, its
    mode is free. Return a Doubt or None.
    """
    real, links = host_files.resolve_links("", wanted)
    doubt = get_first_doubt(judge_spot("", place, whole=False) for place in links + [real])
    if doubt:
        return doubt._replace(row="socket")
    status = host_files.get_lstat("", real)
    if status is not None and status.st_uid not in _list_trusted_owners(""):
        who = host_files.map_id_names("", "passwd").get(status.st_uid, status.st_uid)
        return Doubt("socket", wanted, "belongs to user %s" % who, "Name the engine's own socket")
    return None


class Connection(_socket.socket):
    """A socket that is closed when its `with` ends."""

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.close()


def get_socket_peer(connection):
    """Return (pid, uid) of the process that listens at the other end, as the kernel reports it."""
    pid, uid, _gid = struct.unpack(
        "3i", connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    )
    return pid, uid


def connect(wanted, timeout):
    """Connect to a socket that root may talk to. Raise OSError if no process listens, HostError if
    the socket is not to be trusted.
    """
    # Judged before anything is sent: its place, its owner, and the user that listens, as the kernel
    # reports it.
    require_trusted(wanted, judge_socket_path(wanted))
    connection = Connection(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(wanted)
        answered[wanted], uid = get_socket_peer(connection)
        if uid not in (0, os.geteuid()):
            raise build_untrusted_error(
                wanted,
                Doubt(
                    "socket",
                    wanted,
                    "is answered by user %d" % uid,
                    "Have it served by root, or name another socket",
                ),
            )
    except Exception:
        connection.close()
        raise
    return connection
