# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the file of each installed package, within the limits of a request.

A file is kept only if it is the package that is installed, by a digest that the package manager
states itself: apt's by its lists of packages (apt-secure(8)), an RPM's by the header that the
database of RPM took over when it was installed.

    DIR/kept/packages/            the files, and SHA256SUMS of them for sha256sum --check
    DIR/fetched/                  of the account that apt runs as, while it fetches a package

All that is kept is root's alone (0700, 0600). Host side: standard library only, Python 3.6.
"""

import collections
import contextlib
import fnmatch
import functools
import os
import re
import stat
import subprocess
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    apt_digests,
    commands,
    deep_folders,
    host_files,
    loader,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    journal_writer,
)

ARCHIVES = "/var/cache/apt/archives"
# The caches of dnf 4, of dnf 5 and of zypper (dnf.conf(5), cachedir; zypp.conf(5), packagesdir).
CACHES = ("/var/cache/dnf", "/var/cache/libdnf5", "/var/cache/zypp/packages")
MOST_CACHED = 20000  # names that are looked at in these
READING_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
QUICK = 60  # seconds
RPM_FORMAT = "%{NAME}\\t%{ARCH}\\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\\t%{SHA256HEADER}\\n"
# dpkg(1): states of a package that is installed, and of one that dpkg has not finished
INSTALLED = ("installed", "triggers-awaited", "triggers-pending")
UNFINISHED = ("half-installed", "unpacked", "half-configured")
# The account as which apt fetches unless a host says otherwise (APT::Sandbox::User).
FETCHER = "_apt"
NOBODYS_GROUP = 65534  # nogroup of Debian (base-passwd), which is the group of that account


class NotKept(Exception):
    """A package is not kept. The word is the reason, for which the controller has a sentence."""


def get_fetching_place(folder):
    """Return the folder that apt fetches into. Kept packages lie where only root may enter, but apt
    fetches as its own account.
    """
    return os.path.join(os.path.dirname(folder), "fetched")


def remove_fetched(folder):
    """Remove the folder that apt fetches into, as far as its account lets it go. A mount of that
    account inside it must not keep a host from its change: only what would be fetched is not kept.
    """
    with contextlib.suppress(OSError):
        deep_folders.remove_deep_tree(get_fetching_place(folder))


class Keeper(object):
    """Keep one set of packages, and count what that takes of its limits.

    request: the one of kept_packages.run(). folder: DIR/kept.
    """

    def __init__(self, request, folder):
        self.request, self.limits = request, request["limits"]
        self.folder, self.fetched = os.path.join(folder, "packages"), get_fetching_place(folder)
        self.bytes, self.deadline = 0, time.monotonic() + self.limits["seconds"]

    def _get_rest(self, most, why="unread"):
        """Return the seconds that a program may take: `most`, or what is left of the time for all.
        Raise NotKept if that time is over, since the lock of this host's changes is held meanwhile.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise NotKept(why)
        return min(left, most)

    def keep_all(self):
        """Keep what can be kept. Return the rows of packages that are kept, and the rows of the
        others, each with its reason. Each name of the request is in one of the two lists.
        """
        journal_writer.make_durable_dirs(self.folder)
        kept, left = [], []
        find = {"dpkg": self._list_debs, "rpm": self._list_rpms}[self.request["manager"]]
        for name, arch, version, keep in find():
            row = {"name": name, "arch": arch, "version": version}
            try:
                if len(kept) >= self.limits["most"]:
                    raise NotKept("too-many")
                kept.append(dict(row, **keep()))
            except NotKept as exc:
                left.append(dict(row, why=str(exc)))
            except (OSError, host_files.HostError):
                left.append(dict(row, why="failed"))
        if kept:
            sums = "".join("%s  %s\n" % (row["sha256"], row["file"]) for row in kept)
            path = os.path.join(self.folder, "SHA256SUMS")
            journal_writer.write_durably(path, sums.encode("utf-8"))
        return kept, left

    def _add_unlisted(self, rows, why):
        """Return the rows, and one for each name that the package manager has not listed. The row
        of a name with an architecture does not answer for the name alone.
        """
        asked = set(self.request["packages"])
        pairs = [(row[0], "%s:%s" % (row[0], row[1])) for row in rows]
        listed = {whole if whole in asked else name for name, whole in pairs}
        names = [name for name in self.request["packages"] if name not in listed]
        return rows + [[name, "", "", functools.partial(_leave, why)] for name in names]

    # --- dpkg

    def _list_debs(self):
        """Return (name, architecture, version, the function that keeps it) of each package."""
        shown = "-f=${Package}\\t${Architecture}\\t${Version}\\t${db:Status-Status}\\n"
        # 1: one of the names is not known any more
        rows = _list_rows(["dpkg-query", "-W", shown] + self.request["packages"], (0, 1))
        if rows is None:
            return self._add_unlisted([], "unread")
        whole = [row[:3] for row in rows if row[3] in INSTALLED]
        half = [row[:3] for row in rows if row[3] in UNFINISHED]
        stated = apt_digests.list_stated_digests(whole)
        every = [row + [functools.partial(self._keep_deb, row, stated)] for row in whole]
        every += [row + [functools.partial(_leave, "half-installed")] for row in half]
        return self._add_unlisted(every, "gone")

    def _keep_deb(self, row, stated):
        """Keep one package of dpkg, and return its row.

        stated: the answer of apt_digests.list_stated_digests().
        """
        name, arch, version = row
        file = "%s_%s_%s.deb" % (name, version.replace(":", "%3a"), arch)
        cached = os.path.join(ARCHIVES, file)
        paths = [cached] if _is_there(cached) else []
        if stated is None:
            raise NotKept("unread")
        digests = stated.get(tuple(row), ())
        if digests is None:  # nothing says from which of them it was installed
            raise NotKept("digests-differ")
        if not digests:
            raise NotKept("no-digest" if paths else "no-file")
        digest, most = next(iter(digests))

        def is_right(taken):
            return (taken["sha256"], taken["size"]) == (digest, most)

        try:
            return self._take_first(paths, file, is_right, most)
        except NotKept as exc:
            if str(exc) in ("too-large", "no-room", "unread") or not self.limits["download"]:
                raise
        wanted = "%s=%s" % (apt_digests.name_deb(name, arch), version)
        return self._fetch(wanted, file, is_right, most)

    def _fetch(self, wanted, file, is_right, most):
        """Have apt fetch one package in the version that is installed, and keep a copy that its
        account cannot write to. All of apt runs as that account: as root it would follow the links
        that another process of the account puts into the folder.
        """
        left = self._get_rest(self.limits["seconds"], "not-fetched")
        self._require_room(most)
        try:
            # `apt-get download` writes to its working directory.
            uid, gid = self._make_fetching_place()
            become = functools.partial(_become, uid, gid, self.fetched)
            argv = ["apt-get", "-qq", "download", wanted]
            try:
                answer = commands.run(argv, timeout=left, become=become)
            # the account may not enter the folder
            except (subprocess.SubprocessError, host_files.HostError):
                raise NotKept("not-fetched")
            if answer["rc"] != 0:
                raise NotKept("not-fetched")
            return self._take(functools.partial(self._open_fetched, file), file, is_right, most)
        finally:
            remove_fetched(os.path.dirname(self.folder))

    def _make_fetching_place(self):
        """Make the folder, and return the user and the group that own it: those of apt, or root's if
        the host has no account for apt.
        """
        deep_folders.remove_deep_tree(self.fetched)
        os.mkdir(self.fetched, 0o700)
        accounts = host_files.map_id_names("", "passwd")
        uid = next((uid for uid, name in accounts.items() if name == FETCHER), 0)
        gid = NOBODYS_GROUP if uid else 0
        os.chown(self.fetched, uid, gid)
        return uid, gid

    def _open_fetched(self, file):
        """Return a descriptor of the file that apt has fetched. Raise OSError if apt's account has
        put a link or a mount in its place.
        """
        above = os.open(os.path.dirname(self.fetched), os.O_RDONLY | os.O_CLOEXEC)
        try:
            folder = deep_folders.open_on_same_mount(
                os.path.basename(self.fetched), above, READING_FLAGS
            )
        finally:
            os.close(above)
        try:
            return deep_folders.open_on_same_mount(file, folder, READING_FLAGS)
        except FileNotFoundError:
            raise NotKept("not-fetched")
        finally:
            os.close(folder)

    # --- rpm

    def _list_rpms(self):
        """Return (name, architecture, version, the function that keeps it) of each package."""
        argv = ["rpm", "-q", "--qf", RPM_FORMAT] + self.request["packages"]
        # the number of names that are not known any more
        rows = _list_rows(argv, range(len(self.request["packages"]) + 1))
        if rows is None:
            return self._add_unlisted([], "unread")
        cached, whole = _list_cached_rpms()
        every = [row[:3] + [functools.partial(self._keep_rpm, row, cached, whole)] for row in rows]
        return self._add_unlisted(every, "gone")

    def _keep_rpm(self, row, cached, whole):
        """Keep one package of RPM, and return its row.

        cached: name of a file -> its paths. whole: whether all caches were searched.
        """
        name, arch, version, header = row
        file = "%s-%s.%s.rpm" % (name, version.rpartition(":")[2], arch)
        paths = cached.get(file, [])
        if not paths:
            raise NotKept("no-file" if whole else "cache-unread")
        if not apt_digests.SHA256.match(header):
            raise NotKept("no-digest")
        # rpm reads our copy, which no other program can change.
        copy = os.path.join(self.folder, file)
        return self._take_first(paths, file, lambda _taken: _is_rpm(copy, header, self._get_rest))

    # --- both

    def _take_first(self, paths, file, is_right, most=None):
        """Keep the first of these files that is the package, and return its row. If none is, raise
        NotKept with the reason against the first file.
        """
        reasons = []
        for path in paths:
            self._get_rest(0)
            try:
                size = os.lstat(path).st_size if most is None else most
                return self._take(
                    functools.partial(os.open, path, READING_FLAGS), file, is_right, size
                )
            except NotKept as exc:
                reasons.append(str(exc))
            except (OSError, host_files.HostError):
                reasons.append("failed")
        raise NotKept(reasons[0] if reasons else "no-file")

    def _take(self, open_source, file, is_right, most):
        """Keep a file if it is the package, and return its row. Raise NotKept if it is another one.

        open_source: returns a descriptor of the file. most: the bytes that the file may have.
        """
        self._require_room(most)
        taken = self._copy(open_source, file, most)
        right = False
        try:
            right = is_right(taken)
        finally:
            if not right:
                os.unlink(os.path.join(self.folder, file))
        if not right:
            raise NotKept("other-digest")
        self.bytes += taken["size"]
        return taken

    def _require_room(self, size):
        """Raise NotKept if a file of this size is too much for the limits or the file system."""
        if self.bytes + size > self.limits["bytes"]:
            raise NotKept("too-large")
        room = os.statvfs(self.folder)
        if room.f_bavail * room.f_frsize - size < self.limits["reserve"]:
            raise NotKept("no-room")

    def _copy(self, open_source, file, most):
        """Copy a file, and return its row. Raise NotKept if it has more than `most` bytes."""
        target = os.path.join(self.folder, file)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(target, flags, 0o600), "wb") as stream:
                copied = _digest_file(open_source, most, stream.write)
                stream.flush()
                os.fsync(stream.fileno())
        except Exception:
            os.unlink(target)
            raise
        return dict(copied, file=file)


def _digest_file(open_source, most, write):
    """Write a regular file, and return its digest and its size. Raise NotKept if the file has more
    than `most` bytes, or is of another kind.
    """
    digest, size = loader.sha256(), 0
    fd = open_source()
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NotKept("failed")
        while True:
            chunk = os.read(fd, host_files.MIB)
            if not chunk:
                return {"sha256": digest.hexdigest(), "size": size}
            size += len(chunk)
            if size > most:
                raise NotKept("other-digest")
            digest.update(chunk)
            write(chunk)
    finally:
        os.close(fd)


def _become(uid, gid, folder):
    """Become an account for good, in a folder that it may enter. An error keeps the program from
    starting.
    """
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    os.chdir(folder)


def _leave(why):
    """Raise NotKept with this reason."""
    raise NotKept(why)


def _is_there(path):
    """Tell whether something is at a path. A path that cannot be looked at counts as there."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError:
        pass
    return True


def _list_rows(argv, statuses):
    """Return the lines of four fields that a package manager prints; None if it did not answer.

    statuses: exit statuses that come with an answer. rpm exits alike for names that are not
    installed and for a database that it cannot read, but then it also prints an error.
    """
    answer = commands.run(argv, timeout=QUICK)
    if answer["rc"] not in statuses or answer["truncated"]:
        return None
    if answer["rc"] and re.search(rb"^error:", answer["stderr"], re.M):
        return None
    lines = answer["stdout"].decode("utf-8", "replace").splitlines()
    # a name with an architecture and one without may be the same package
    rows = [line.split("\t") for line in collections.OrderedDict.fromkeys(lines)]
    return [row for row in rows if len(row) == 4]


def _list_cached_rpms():
    """Return the files of packages in the caches, name -> paths, and whether all caches were
    searched.
    """
    paths, passed, unread = {}, 0, []
    for top in CACHES:
        for directory, _subdirs, names in os.walk(top, onerror=unread.append):
            passed += len(names)
            for name in fnmatch.filter(names, "*.rpm"):
                paths.setdefault(name, []).append(os.path.join(directory, name))
            if passed > MOST_CACHED:
                return paths, False
    return paths, all(isinstance(exc, FileNotFoundError) for exc in unread)


def _is_rpm(path, header, get_rest):
    """Tell whether a file is the package with this header, and has the contents that the header
    states. Raise NotKept if rpm did not answer.

    get_rest: returns the seconds that rpm may take, at most its argument.
    """
    asked = ["rpm", "-qp", "--nosignature", "--qf", "%{SHA256HEADER}", path]
    shown = commands.run(asked, timeout=get_rest(QUICK))
    if shown["rc"] is None:
        raise NotKept("unread")
    checked = commands.run(["rpm", "-K", "--nosignature", path], timeout=get_rest(2 * QUICK))
    if checked["rc"] is None:
        raise NotKept("unread")
    return (
        shown["rc"] == 0
        and checked["rc"] == 0
        and shown["stdout"].decode("ascii", "replace").strip() == header
    )
