# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at files without being harmed by them: bounded, never blocking, links resolved inside a
root.

Host side: standard library only, Python 3.6. "Host path" means a path as the host (or the tree at
`root`) sees it. `root` is "" for the running host, else the directory that stands for "/". It never
appears in an answer.
"""

import contextlib
import errno
import functools
import os
import stat

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import loader

MIB = 1024 * 1024
MAX_LINKS = 40  # the kernel's own limit
MAX_ENTRIES = 4096
DEFAULT_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "dir",
    stat.S_IFLNK: "link",
    stat.S_IFCHR: "char",
    stat.S_IFBLK: "block",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}
_ERRNO_KINDS = {
    errno.ENOENT: "not-found",
    errno.ENOTDIR: "not-found",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
}
# none of that name, or a file system without any
NO_ATTRIBUTE = (
    errno.ENODATA,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
)
_REMEDIES = {
    errno.EROFS: "Mount the file system of %s writable, then run again",
    errno.ENOSPC: "Make room on the file system of %s, then run again",
    errno.EDQUOT: "Make room within the quota of the file system of %s, or raise it, then run again",
    errno.EIO: "The kernel's log (dmesg) says what is wrong with the file system of %s; correct that, then run again",
}


CUT = 4096  # characters of a message, and of a path; a controller takes no longer ones


def cut_middle(text, most=CUT):
    """Shorten a name or a message, never what a plan reads. A long one loses its middle: paths
    lead, and causes end.
    """
    if len(text) <= most:
        return text
    end = most // 4
    return "%s... [%d characters cut] ...%s" % (
        text[: most - 40 - end],
        len(text) - most + 40,
        text[-end:],
    )


def cut_texts(value):
    """Return the same answer with each of its texts cut. For programs that send only names and
    messages.
    """
    if isinstance(value, dict):
        return {key: cut_texts(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [cut_texts(inner) for inner in value]
    return cut_middle(value) if isinstance(value, str) else value


class HostError(Exception):
    """An error of one question or one step.

    It has a kind for programs, a sentence for people, and the next step, '' if that is not known.
    """

    def __init__(self, kind, message, following=""):
        message = cut_middle(message)
        super(HostError, self).__init__(message)
        self.kind = kind
        self.message = message
        self.following = following

    def build_answer(self):
        return {"error": {"kind": self.kind, "message": self.message}}


def build_os_error(exc, path):
    """Build the HostError for an OSError. It names the host path, never the path with the root in
    front.
    """
    message = "%s: %s" % (path, os.strerror(exc.errno) if exc.errno else exc)
    remedy = _REMEDIES.get(exc.errno)
    following = remedy % cut_middle(path) if remedy else ""
    return HostError(_ERRNO_KINDS.get(exc.errno, "failed"), message, following)


def clean_root(root):
    """Return the directory of a tree by its real path; '' for the host itself. Raise HostError for
    a relative one.
    """
    root = root or "/"
    if not root.startswith("/"):
        raise HostError("bad-question", "root must be an absolute path, not %r" % (root,))
    return os.path.realpath(root).rstrip("/")


def get_full_path(root, path):
    """Return the path that this process uses for a host path."""
    return (root + path) or "/"


_remembered = None  # {(root, path): (real, links)} and what is found out once during a look


@contextlib.contextmanager
def remember_links():
    """Read each link only once while this context lasts. Only for looks, which change nothing. A
    change reads a link each time.
    """
    global _remembered
    before, _remembered = _remembered, {}
    try:
        yield
    finally:
        _remembered = before


def look_once(key, make):
    """Return the result of `make`. A look calls it once for each key."""
    known = _remembered if _remembered is not None else {}
    if key not in known:
        known[key] = make()
    return known[key]


def resolve_links(root, path):
    """Follow links as the host would, never out of root.

    Return (host path after all links, the links crossed). After a missing component the rest is
    appended, so the result may not exist.
    """
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        raise HostError("bad-question", "a path must be absolute, not %r" % (path,))
    done, links = (
        _resolve_through(root, path, _remembered)
        if _remembered is not None
        else _follow_steps(root, path, "", (), path)
    )
    return done or "/", list(links)


def _resolve_through(root, path, known):
    """Resolve a path from what this look has found of the directories above, which many paths
    share.
    """
    if (root, path) in known:
        return known[root, path]
    spot, at = ("", ()), ""
    for part in path.split("/"):
        if part:
            at += "/" + part
            if (root, at) not in known:
                known[root, at] = _follow_steps(root, path, spot[0], spot[1], part)
            spot = known[root, at]
    known[root, path] = spot
    return spot


def _follow_steps(root, path, done, links, more):
    """Follow `more` from a directory. Return (the place that it leads to, all links crossed so
    far).
    """
    todo = [part for part in reversed(more.split("/")) if part]
    while todo:
        part = todo.pop()
        if part == ".":
            continue
        if part == "..":
            done = os.path.dirname(done).rstrip("/")
            continue
        step = done + "/" + part
        try:
            target = os.readlink(root + step)
        except OSError as exc:
            if exc.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                raise build_os_error(exc, step)
            done = step
            continue
        links += (step,)
        if len(links) > MAX_LINKS:
            raise HostError(
                "failed", "%s: more than %d symbolic links (a loop?)" % (path, MAX_LINKS)
            )
        if target.startswith("/"):
            done = ""
        todo.extend(part for part in reversed(target.split("/")) if part)
    return done, links


def get_lstat(root, real):
    """Return lstat of a resolved host path; None if it does not exist."""
    try:
        return os.lstat(get_full_path(root, real))
    except OSError as exc:
        if exc.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise build_os_error(exc, real)


def read_regular(root, real, cap=MIB):
    """Return the bytes of a resolved host path, at most cap, or raise HostError. Regular files
    only: a FIFO or device may block or act.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    status = get_lstat(root, real)
    if status is None:
        raise HostError("not-found", "%s: there is no such file" % real)
    # asked before open(): opening a device can already do something
    if not stat.S_ISREG(status.st_mode):
        raise HostError(
            "failed", "%s: is a %s, not a regular file" % (real, name_file_type(status))
        )
    try:
        fd = os.open(get_full_path(root, real), flags)
    except OSError as exc:
        raise build_os_error(exc, real)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise HostError("failed", "%s: is no longer a regular file" % real)
        chunks, left = [], cap + 1
        while left > 0:
            chunk = os.read(fd, min(left, 65536))
            if not chunk:
                break
            chunks.append(chunk)
            left -= len(chunk)
    except OSError as exc:
        raise build_os_error(exc, real)
    finally:
        os.close(fd)
    if left <= 0:
        raise HostError("too-large", "%s: is larger than the %d bytes asked for" % (real, cap))
    return b"".join(chunks)


def read_text(root, path, cap=MIB):
    """Return a small text file of the host, with undecodable bytes replaced; None if it cannot be
    read.
    """
    try:
        return read_regular(root, resolve_links(root, path)[0], cap).decode("utf-8", "replace")
    except HostError:
        return None


def digest_bytes(data):
    """Return the SHA-256 of bytes, in hexadecimal."""
    return loader.sha256(data).hexdigest()


def name_file_type(found):
    """Return the kind of a file; `file` for one that has no other name."""
    return _KINDS.get(stat.S_IFMT(found.st_mode), "file")


def raise_unless_gone(exc):
    """Raise an OSError unless it reports that nothing is there. ENODEV: a control group is removed
    while it is read.
    """
    if exc.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV):
        raise exc


def read_selinux_label(path):
    """Return the SELinux label of a file; None if it has none."""
    try:
        return (
            os.getxattr(path, "security.selinux", follow_symlinks=False)
            .rstrip(b"\0")
            .decode("ascii", "replace")
        )
    except (OSError, AttributeError):  # no SELinux, a file system without labels, or not Linux
        return None


@functools.lru_cache(maxsize=16)
def _read_ids(path, _mtime):
    # The database file only, never the name service: a directory server that hangs must not hang
    # the look.
    names = {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            fields = line.split(":")
            if len(fields) > 2 and fields[2].isdigit():
                names.setdefault(int(fields[2]), fields[0])
    return names


def map_id_names(root, database):
    """Return {number: name} of "passwd" or "group" from the host's own file; {} if that cannot be
    read.
    """
    return look_once((root, database), lambda: _read_id_names(root, database))


def _read_id_names(root, database):
    path = get_full_path(root, resolve_links(root, "/etc/" + database)[0])
    try:
        return _read_ids(path, os.stat(path).st_mtime)
    except OSError:
        return {}


def encode_host_path(path):
    """Return the bytes of a host path: names on a disk need not be UTF-8."""
    return path.encode("utf-8", "surrogateescape")


def find_spot(root, path):
    """Return the path with the links of its directories resolved, and its own link kept."""
    directory, name = os.path.split(path.rstrip("/"))
    return os.path.join(resolve_links(root, directory or "/")[0], name)


def find_dangling_link(root, path):
    """Return the host path of the link if `path` itself is one, else None. Asked if the end of the
    link was not found.
    """
    place = find_spot(root, path)
    return place if os.path.islink(get_full_path(root, place)) else None


def find_executable(root, name, directories=DEFAULT_PATH):
    """Return the first executable regular file of that name as a host path (not resolved); None if
    there is none.
    """
    for directory in directories:
        path = os.path.join(directory, name)
        status = get_lstat(root, resolve_links(root, path)[0])
        if status is not None and stat.S_ISREG(status.st_mode) and status.st_mode & 0o111:
            return path
    return None


def identify_program(root, path):
    """Return inode, size and time of a program, unread, to notice that another has taken its place;
    None if there is none.
    """
    status = get_lstat(root, resolve_links(root, path)[0])
    return (
        None if status is None else "%d:%d:%d" % (status.st_ino, status.st_size, status.st_mtime_ns)
    )
