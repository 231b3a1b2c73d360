# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at files without being hurt by them: bounded, never blocking, links resolved inside a root.

Node side: standard library only, Python 3.6. "Host path" means a path as the host (or the tree at `root`) sees it.
`root` is "" for the running host, else the directory that stands for "/"; it never appears in an answer.
"""

import errno
import functools
import os
import re
import stat

from ansible_collections.gpufleet.nvidia.plugins.module_utils import contents, keyed, loader, placeholders

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
_ERRNO_KINDS = {errno.ENOENT: "not-found", errno.ENOTDIR: "not-found", errno.EACCES: "denied", errno.EPERM: "denied"}
NO_ATTRIBUTE = (errno.ENODATA, errno.EOPNOTSUPP, errno.ENOSYS)  # none of that name, or a file system without any
_REMEDIES = {
    errno.EROFS: "Mount this file system writable, then run again",
    errno.ENOSPC: "Make room on this file system, then run again",
    errno.EDQUOT: "Make room within the quota of this file system, or raise it, then run again",
    errno.EIO: "The kernel's log (dmesg) says what is wrong with this file system; mend that, then run again",
}


class NodeError(Exception):
    """What went wrong with one question or one step: a kind that programs read, a sentence that people read, and what to do where known."""

    def __init__(self, kind, message, following=""):
        super(NodeError, self).__init__(message)
        self.kind = kind
        self.message = message
        self.following = following

    def answer(self):
        return {"error": {"kind": self.kind, "message": self.message}}


def from_os_error(exc, path):
    """The NodeError for an OSError, naming the host path (never the path with the root in front)."""
    message = "%s: %s" % (path, os.strerror(exc.errno) if exc.errno else exc)
    return NodeError(_ERRNO_KINDS.get(exc.errno, "failed"), message, _REMEDIES.get(exc.errno, ""))


def clean_root(root):
    root = root or "/"
    if not root.startswith("/"):
        raise NodeError("bad-question", "root must be an absolute path, not %r" % (root,))
    return os.path.realpath(root).rstrip("/")


def full(root, path):
    """Where a host path lies for this process."""
    return (root + path) or "/"


def resolve(root, path):
    """Follow links as the host would, never out of root: (host path after all links, the links crossed).

    A missing component ends nothing: the rest is appended, so the result may not exist.
    """
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        raise NodeError("bad-question", "a path must be absolute, not %r" % (path,))
    todo = [part for part in reversed(path.split("/")) if part]
    done, links = "", []
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
                raise from_os_error(exc, step)
            done = step
            continue
        links.append(step)
        if len(links) > MAX_LINKS:
            raise NodeError("failed", "%s: more than %d symbolic links (a loop?)" % (path, MAX_LINKS))
        if target.startswith("/"):
            done = ""
        todo.extend(part for part in reversed(target.split("/")) if part)
    return done or "/", links


def lstat(root, real):
    """lstat of a resolved host path; None when it is not there."""
    try:
        return os.lstat(full(root, real))
    except OSError as exc:
        if exc.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise from_os_error(exc, real)


def missing_dirs(root, real):
    """The directories above a resolved host path that are not there yet, outermost first."""
    missing, directory = [], os.path.dirname(real)
    while lstat(root, directory) is None:
        missing.insert(0, directory)
        directory = os.path.dirname(directory)
    return missing


def read_regular(root, real, cap=MIB):
    """The bytes of a resolved host path. Regular files only: a FIFO or a device must neither block nor act."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    found = lstat(root, real)
    if found is None:
        raise NodeError("not-found", "%s: there is no such file" % real)
    if not stat.S_ISREG(found.st_mode):  # asked before open(): opening a device can already do something
        raise NodeError("failed", "%s: is a %s, not a regular file" % (real, kind_of(found)))
    try:
        fd = os.open(full(root, real), flags)
    except OSError as exc:
        raise from_os_error(exc, real)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NodeError("failed", "%s: is not a regular file any more" % real)
        chunks, left = [], cap + 1
        while left > 0:
            chunk = os.read(fd, min(left, 65536))
            if not chunk:
                break
            chunks.append(chunk)
            left -= len(chunk)
    except OSError as exc:
        raise from_os_error(exc, real)
    finally:
        os.close(fd)
    if left <= 0:
        raise NodeError("too-large", "%s: is larger than the %d bytes asked for" % (real, cap))
    return b"".join(chunks)


def read_text(root, path, cap=MIB):
    """A small text file of the host, undecodable bytes replaced; None when it cannot be read."""
    try:
        return read_regular(root, resolve(root, path)[0], cap).decode("utf-8", "replace")
    except NodeError:
        return None


def sha256(data):
    return loader.sha256(data).hexdigest()


def kind_of(found):
    return _KINDS.get(stat.S_IFMT(found.st_mode), "file")


def selinux_label(path):
    try:
        return os.getxattr(path, "security.selinux", follow_symlinks=False).rstrip(b"\0").decode("ascii", "replace")
    except (OSError, AttributeError):  # no SELinux, a file system without labels, or not Linux
        return None


@functools.lru_cache(maxsize=16)
def _ids(path, _mtime):
    # The database file only, never the name service: a directory server that hangs must not hang the look.
    names = {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            fields = line.split(":")
            if len(fields) > 2 and fields[2].isdigit():
                names.setdefault(int(fields[2]), fields[0])
    return names


def id_names(root, database):
    """{number: name} of "passwd" or "group" as the host's own file says."""
    path = full(root, resolve(root, "/etc/" + database)[0])
    try:
        return _ids(path, os.stat(path).st_mtime)
    except OSError:
        return {}


def id_number(root, database, wanted):
    """The number of a user or group given by name or number."""
    if str(wanted).isdigit():
        return int(wanted)
    for number, name in id_names(root, database).items():
        if name == wanted:
            return number
    raise NodeError("not-found", "there is no %r in /etc/%s" % (wanted, database))


def stat_fields(root, real, found):
    device = stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)
    return {
        "exists": True,
        "type": kind_of(found),
        "mode": stat.S_IMODE(found.st_mode),
        "uid": found.st_uid,
        "gid": found.st_gid,
        "owner": id_names(root, "passwd").get(found.st_uid, str(found.st_uid)),
        "group": id_names(root, "group").get(found.st_gid, str(found.st_gid)),
        "size": found.st_size,
        "mtime": found.st_mtime,
        "ino": found.st_ino,
        "dev": found.st_dev,
        "nlink": found.st_nlink,
        "selinux": selinux_label(full(root, real)),
        "rdev": [os.major(found.st_rdev), os.minor(found.st_rdev)] if device else None,
    }


def _spot(root, path):
    """The path with the links of its directories resolved, its own not."""
    directory, name = os.path.split(path.rstrip("/"))
    return os.path.join(resolve(root, directory or "/")[0], name)


def dangling(root, path):
    """The host path of the link when `path` itself is one (asked when its end was not found), else None."""
    spot = _spot(root, path)
    return spot if os.path.islink(full(root, spot)) else None


def describe(root, path, content=True, cap=MIB, keep=None):
    """The answer to a `file` question. Digest and content are those of regular files no larger than cap."""
    real, links = resolve(root, path)
    found = lstat(root, real)
    answer = {"real": real, "links": links, "sha256": None, "content": None, "encoding": "utf-8"}
    if found is None:
        link = dangling(root, path)
        if link is None:
            return {"exists": False}
        answer.update(stat_fields(root, link, lstat(root, link)), real=None)
        return answer
    answer.update(stat_fields(root, real, found))
    if answer["type"] != "file" or (not content and found.st_size > cap):
        return answer
    try:
        data = read_regular(root, real, cap)
    except NodeError as exc:
        if content:
            answer.update(exc.answer())
        return answer
    answer["sha256"] = keyed.digest(sha256(data))
    if content:
        answer.update(contents.told(data, keep, real))
    return answer


def list_names(root, real):
    """Names in a resolved directory, in the byte order that Go's sort.Strings gives."""
    try:
        return sorted(os.listdir(full(root, real)), key=os.fsencode)
    except OSError as exc:
        raise from_os_error(exc, real)


def list_dir(root, path):
    """The answer to a `dir` question."""
    real = resolve(root, path)[0]
    found = lstat(root, real)
    if found is None:
        return {"exists": False, "entries": []}
    if not stat.S_ISDIR(found.st_mode):
        raise NodeError("failed", "%s: is a %s, not a directory" % (path, kind_of(found)))
    names = list_names(root, real)
    if len(names) > MAX_ENTRIES:  # never a part of it, taken for the whole
        raise NodeError("too-large", "%s: holds more than %d files" % (path, MAX_ENTRIES))
    entries = []
    for name in names:
        spot = os.path.join(real, name)
        item = lstat(root, spot)
        if item is None:  # gone since it was listed
            continue
        fields = stat_fields(root, spot, item)
        entry = {key: fields[key] for key in ("type", "size", "mode", "rdev")}
        entry.update(name=name, target=os.readlink(full(root, spot)) if entry["type"] == "link" else None)
        entries.append(entry)
    return {"exists": True, "entries": entries}


class Folders(object):
    """Folders as they were met in one look at many paths: where each lies and what is in it is found out once."""

    def __init__(self, root):
        self.root = root
        self._real, self._names = {}, {}

    def real(self, folder):
        if folder not in self._real:
            self._real[folder] = resolve(self.root, folder)[0]
        return self._real[folder]

    def names(self, folder):
        """Names in a folder; None when it is none."""
        real = self.real(folder)
        if real not in self._names:
            self._names[real] = list_names(self.root, real) if os.path.isdir(full(self.root, real)) else None
        return self._names[real]

    def spot(self, path):
        """The path with the links of its folders resolved, its own not."""
        folder, name = os.path.split(path.rstrip("/"))
        return os.path.join(self.real(folder or "/"), name)


def glob(root, pattern, folders=None):
    """Host paths that match, in the order of Go's filepath.Glob: * and ? stay within a component and match dot files."""
    folders = folders or Folders(root)
    parts = [part for part in pattern.split("/") if part]
    if not pattern.startswith("/") or not parts:
        raise NodeError("bad-question", "a pattern must be an absolute path, not %r" % (pattern,))
    paths = [""]
    for part in parts:
        if "*" not in part and "?" not in part:
            paths = [path + "/" + part for path in paths]
            continue
        fits, matched = _matcher(part), []
        for path in paths:
            matched.extend(path + "/" + name for name in folders.names(path or "/") or () if fits(name))
        paths = matched
        if len(paths) > MAX_ENTRIES:
            raise NodeError("too-large", "%s: matches more than %d files" % (pattern, MAX_ENTRIES))
    return [path for path in paths if lstat(root, folders.spot(path)) is not None]


def _matcher(part):
    """Whether a name matches a part of a pattern: a function. Most patterns have one star, and a look has hundreds of patterns."""
    begin, star, end = part.partition("*")
    if star and "*" not in end and "?" not in part:
        return lambda name: len(name) >= len(part) - 1 and name.startswith(begin) and name.endswith(end)
    regex = re.compile("".join({"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char)) for char in part) + r"\Z", re.DOTALL)
    return regex.match


def list_paths(root, patterns):
    """What matches many patterns and where it leads, in their order, each place once; nothing is read.

    `spot` is told where the path lies behind a linked folder: the same place without that link.
    """
    found, met, folders = [], set(), Folders(root)
    for pattern in patterns:
        for path in glob(root, pattern, folders):
            spot = folders.spot(path)
            if spot in met:
                continue
            met.add(spot)
            there = lstat(root, spot)
            if there is None:  # gone since it was listed
                continue
            real = resolve(root, spot)[0] if stat.S_ISLNK(there.st_mode) else spot
            item = lstat(root, real)
            there = item or there
            entry = {"path": path, "real": real if item else None, "type": kind_of(there), "mode": stat.S_IMODE(there.st_mode)}
            found.append(entry if spot == path else dict(entry, spot=spot))
    return found


def mentioned(root, pattern, finds, cap=MIB, readable=None, keep=None):
    """The answer to a `mentioned` question: the absolute paths that regular files name, by group 1 of the patterns, and what is there.

    No content leaves, and of the files only what may travel of them by `keep` is searched. A path where nothing is has None; "rdev" is that
    of the device node itself, "link" says that it is reached by one.
    """
    names = set()
    for path in glob(root, pattern):
        try:
            if readable is not None and not readable(path):  # the glob question says so
                continue
            data = read_regular(root, resolve(root, path)[0], cap)
            text = (contents.projected(data, keep).data if keep else data).decode("utf-8", "replace")
        except placeholders.Unreadable:
            continue
        except NodeError:  # a directory, something too large: the glob question says so
            continue
        for find in finds:
            try:
                names.update(found.group(1) for found in re.finditer(find, text, re.MULTILINE))
            except (re.error, IndexError) as exc:
                raise NodeError("bad-question", "pattern %r: %s" % (find, exc))
    wanted = sorted(name for name in names if name.startswith("/") and "\0" not in name)
    if len(wanted) > MAX_ENTRIES:
        raise NodeError("too-large", "%s: these files point at more than %d paths" % (pattern, MAX_ENTRIES))
    return {"paths": {name: _what_is_there(root, name) for name in wanted}}


def _what_is_there(root, path):
    try:
        real, links = resolve(root, path)
        found = lstat(root, real)
    except NodeError:  # a loop of links, a place that nobody may enter
        return None
    if found is None:
        return None
    device = stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)
    numbers = [os.major(found.st_rdev), os.minor(found.st_rdev)] if device else None
    return {"type": kind_of(found), "rdev": numbers, "link": _spot(root, path) in links}


def which(root, name, directories=DEFAULT_PATH):
    """The first executable regular file of that name, as a host path (not resolved), or None."""
    for directory in directories:
        path = os.path.join(directory, name)
        found = lstat(root, resolve(root, path)[0])
        if found is not None and stat.S_ISREG(found.st_mode) and found.st_mode & 0o111:
            return path
    return None


def identity(root, path):
    """What tells a program from one that has taken its place, without reading it: inode, size and time; None when there is none."""
    found = lstat(root, resolve(root, path)[0])
    return None if found is None else "%d:%d:%d" % (found.st_ino, found.st_size, found.st_mtime_ns)
