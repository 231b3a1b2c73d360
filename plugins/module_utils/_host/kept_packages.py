# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the files of installed packages on this host, so that a person can go back to them, and note
how far the change is for which they are kept.

    DIR/kept/record.json          how far the change is, with what the controller wants noted
    DIR/kept/packages/            the files, and SHA256SUMS of them for sha256sum --check

A file is kept only if it is the package that is installed, by a digest that the package manager
states itself: apt's by its lists of packages (apt-secure(8)), an RPM's by the header that the
database of RPM took over when it was installed. All of it is root's alone (0700, 0600). Host side:
standard library only, Python 3.6.
"""

import contextlib
import fnmatch
import os
import re
import shutil
import stat
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
    journal,
    loader,
    trust,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    journal_writer,
)

SCHEMA = 1
CHANGING, SETTLED = "changing", "settled"
ARCHIVES = "/var/cache/apt/archives"
# The caches of dnf 4, of dnf 5 and of zypper (dnf.conf(5), cachedir; zypp.conf(5), packagesdir).
CACHES = ("/var/cache/dnf", "/var/cache/libdnf5", "/var/cache/zypp/packages")
MOST_CACHED = 20000  # names that are looked at in these
OUTPUT = 32 * host_files.MIB  # of apt-cache: each version that the lists have
QUICK = 60  # seconds
RPM_FORMAT = "%{NAME}\\t%{ARCH}\\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\\t%{SHA256HEADER}\\n"
SHA256 = re.compile(r"[0-9a-f]{64}\Z")
NOTHING = {"state": "", "again": False, "kept": [], "left": [], "ran": [], "error": None}


class NotKept(Exception):
    """A package that is not kept. The word says why; a controller has a sentence for each."""


def run(request):
    """Return {"state", "again", "kept", "left", "ran", "error"}.

    request: operation (keep, settle or remove), journal_dir; for keep also manager (dpkg or rpm),
    packages (names), record (noted as it is; settle takes it in place of an unreadable one),
    release (commands that let the packages go) and limits: most (packages), bytes, reserve (bytes
    that stay free), seconds (for all downloads), download (whether apt may fetch a package).
    """
    commands.asked_for[:] = request.get("environment") or []
    try:
        base = journal.get_journal_directory("", request["journal_dir"])
        act = {"keep": _keep, "settle": _settle, "remove": _remove}[request["operation"]]
        with journal_writer.hold_transaction_lock(
            base, "the keeping of packages", keep=True, wait=QUICK
        ):
            return dict(NOTHING, schema=SCHEMA, **act(request, os.path.join(base, "kept")))
    except host_files.HostError as exc:
        error = {"message": exc.message, "next": exc.following}
    except OSError as exc:
        error = {"message": host_files.cut_middle(str(exc)), "next": ""}
    return dict(NOTHING, schema=SCHEMA, error=error)


def _keep(request, folder):
    """Keep the packages, note the change that begins, and release what holds them.

    If a change has begun and was never judged, what is kept stays: the packages of this time may
    be those of the change.
    """
    if _read_state(folder) == CHANGING:
        return dict(_release(request), state=CHANGING, again=True)
    shutil.rmtree(folder, ignore_errors=True)
    kept, left = [], []
    if request["packages"]:
        journal_writer.make_durable_dirs(os.path.join(folder, "packages"))
        kept, left = _Keeper(request, os.path.join(folder, "packages")).keep_all()
        sums = "".join("%s  %s\n" % (row["sha256"], row["file"]) for row in kept)
        if kept:
            path = os.path.join(folder, "packages", "SHA256SUMS")
            journal_writer.write_durably(path, sums.encode("ascii"))
    journal_writer.make_durable_dirs(folder)
    record = dict(request["record"], state=CHANGING, kept=len(kept), left=len(left))
    journal_writer.write_json(os.path.join(folder, "record.json"), record)
    return dict(_release(request), state=CHANGING, kept=kept, left=left)


def _settle(request, folder):
    """Note that the change has been judged and the host is well."""
    record = _read_record(folder)
    if record is None:
        return {}
    path = os.path.join(folder, "record.json")
    journal_writer.write_json(path, dict(record or request["record"], state=SETTLED))
    return {"state": SETTLED}


def _remove(request, folder):
    """Remove what is kept. With `settled`, only after a change that has been judged."""
    state = _read_state(folder)
    if request.get("settled") and state != SETTLED:
        return {"state": state}
    # The record goes last: without it nobody would know of the rest.
    shutil.rmtree(os.path.join(folder, "packages"), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    return {}


def _read_state(folder):
    """Return how far a change is, '' if none is noted. A record that cannot be read is a change
    that has not been judged.
    """
    record = _read_record(folder)
    if record is None:
        return ""
    return SETTLED if record.get("state") == SETTLED else CHANGING


def _read_record(folder):
    """Return the record; None if there is none, {} for one that cannot be read."""
    path = os.path.join(folder, "record.json")
    if not os.path.lexists(path):
        return None
    try:
        record = journal.read_json(path)
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _release(request):
    """Run the commands that let the packages go. Raise HostError for one that fails."""
    ran = []
    for argv in request.get("release") or []:
        answer = commands.run(argv, timeout=2 * QUICK)
        ran.append({"argv": list(argv), "rc": answer["rc"]})
        if answer["rc"] != 0:
            said = commands.decode_answer(answer)
            raise host_files.HostError(
                "failed",
                "%s: %s" % (" ".join(argv), (said["stderr"] or said["stdout"]).strip()[-600:]),
            )
    return {"ran": ran}


class _Keeper(object):
    """The keeping of one set of packages, with what it has used of its limits."""

    def __init__(self, request, folder):
        self.request, self.folder, self.limits = request, folder, request["limits"]
        self.bytes, self.deadline = 0, time.monotonic() + self.limits["seconds"]

    def keep_all(self):
        """Return the packages that are kept, and those that are not, each with the reason."""
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
        return kept, left

    # --- dpkg

    def _list_debs(self):
        """Return each installed package with the function that keeps it."""
        shown = "-f=${Package}\\t${Architecture}\\t${Version}\\t${db:Status-Status}\\n"
        lines = _run_for_lines(["dpkg-query", "-W", shown] + self.request["packages"])
        rows = [line.split("\t") for line in lines]
        rows = [row[:3] for row in rows if len(row) == 4 and row[3] == "installed"]
        stated = _list_stated_digests(
            [name if arch == "all" else "%s:%s" % (name, arch) for name, arch, _v in rows]
        )
        return [
            row + [lambda row=row: self._keep_deb(row, stated.get(tuple(row), {}))] for row in rows
        ]

    def _keep_deb(self, row, stated):
        """Keep one package of dpkg. stated: digest -> size, as apt's lists have them."""
        name, arch, version = row
        file = "%s_%s_%s.deb" % (name, version.replace(":", "%3a"), arch)
        cached = os.path.join(ARCHIVES, file)
        if not stated:
            raise NotKept("no-digest" if os.path.isfile(cached) else "no-file")
        self._require_room(max(stated.values()))
        taken = None
        if os.path.isfile(cached):
            taken = self._copy(cached, file, max(stated.values()))
            if taken["sha256"] in stated:
                return self._count(taken)
            os.unlink(os.path.join(self.folder, file))
        if not self.limits["download"]:
            raise NotKept("other-digest" if taken else "no-file")
        self._download("%s=%s" % (name if arch == "all" else "%s:%s" % (name, arch), version), file)
        taken = _digest_file(os.path.join(self.folder, file), max(stated.values()))
        if taken["sha256"] not in stated:
            os.unlink(os.path.join(self.folder, file))
            raise NotKept("other-digest")
        return self._count(dict(taken, file=file))

    def _download(self, wanted, file):
        """Have apt fetch one package in the version that is installed."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise NotKept("not-fetched")
        # `apt-get download` writes to its working directory.
        argv = ["env", "-C", self.folder, trust.require_root_program("apt-get"), "-qq", "download"]
        answer = commands.run(argv + [wanted], timeout=left)
        path = os.path.join(self.folder, file)
        if answer["rc"] != 0 or not os.path.isfile(path):
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise NotKept("not-fetched")
        os.chmod(path, 0o600)
        os.chown(path, 0, 0)  # apt fetches as an account of its own

    # --- rpm

    def _list_rpms(self):
        """Return each installed package with the function that keeps it."""
        lines = _run_for_lines(["rpm", "-q", "--qf", RPM_FORMAT] + self.request["packages"])
        rows = [line.split("\t") for line in lines]
        rows = [row for row in rows if len(row) == 4]
        cached = _list_cached_rpms()
        return [row[:3] + [lambda row=row: self._keep_rpm(row, cached)] for row in rows]

    def _keep_rpm(self, row, cached):
        """Keep one package of RPM. cached: name of a file -> its paths."""
        name, arch, version, header = row
        file = "%s-%s.%s.rpm" % (name, version.rpartition(":")[2], arch)
        paths = cached.get(file, [])
        if not paths:
            raise NotKept("no-file")
        if not SHA256.match(header):
            raise NotKept("no-digest")
        for path in paths:
            size = os.stat(path).st_size
            self._require_room(size)
            taken = self._copy(path, file, size)
            # Our copy is asked, which no other program can change.
            if _is_rpm(os.path.join(self.folder, file), header):
                return self._count(taken)
            os.unlink(os.path.join(self.folder, file))
        raise NotKept("other-digest")

    # --- both

    def _require_room(self, size):
        if self.bytes + size > self.limits["bytes"]:
            raise NotKept("too-large")
        room = os.statvfs(self.folder)
        if room.f_bavail * room.f_frsize - size < self.limits["reserve"]:
            raise NotKept("no-room")

    def _count(self, found):
        self.bytes += found["size"]
        return found

    def _copy(self, source, file, most):
        """Copy a file, and return its digest. It may have no more bytes than that."""
        target = os.path.join(self.folder, file)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(target, flags, 0o600), "wb") as stream:
                copied = _digest_file(source, most, stream.write)
                stream.flush()
                os.fsync(stream.fileno())
        except Exception:
            os.unlink(target)
            raise
        return dict(copied, file=file)


def _digest_file(path, most, write=None):
    """Return the digest and the size of a regular file. Raise NotKept if it has more than `most`
    bytes.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    digest, size = loader.sha256(), 0
    fd = os.open(path, flags)
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
            if write:
                write(chunk)
    finally:
        os.close(fd)


def _list_stated_digests(wanted):
    """Return {(name, architecture, version): {digest: size}} as apt's lists state them."""
    argv = ["apt-cache", "show"] + wanted
    answer = commands.run(argv, timeout=2 * QUICK, cap=OUTPUT) if wanted else {"stdout": b""}
    stated = {}
    for stanza in answer["stdout"].decode("utf-8", "replace").split("\n\n"):
        fields = dict(
            re.findall(r"^(Package|Architecture|Version|SHA256|Size): (.*)$", stanza, re.M)
        )
        digest, size = fields.get("SHA256", "").strip(), fields.get("Size", "").strip()
        if SHA256.match(digest) and size.isdigit():
            key = tuple(fields.get(name, "") for name in ("Package", "Architecture", "Version"))
            stated.setdefault(key, {})[digest] = int(size)
    return stated


def _list_cached_rpms():
    """Return the files of packages in the caches: name -> paths."""
    paths, passed = {}, 0
    for top in CACHES:
        for directory, _subdirs, names in os.walk(top):
            passed += len(names)
            for name in fnmatch.filter(names, "*.rpm"):
                paths.setdefault(name, []).append(os.path.join(directory, name))
            if passed > MOST_CACHED:
                return paths
    return paths


def _is_rpm(path, header):
    """Tell whether a file is the package with this header, and as a whole what that header says."""
    shown = commands.run(["rpm", "-qp", "--nosignature", "--qf", "%{SHA256HEADER}", path], QUICK)
    checked = commands.run(["rpm", "-K", "--nosignature", path], 2 * QUICK)
    return (
        shown["rc"] == 0
        and checked["rc"] == 0
        and shown["stdout"].decode("ascii", "replace").strip() == header
    )


def _run_for_lines(argv):
    # The status is not 0 if one of the names is not installed any more.
    answer = commands.run(argv, timeout=QUICK)
    return answer["stdout"].decode("utf-8", "replace").splitlines()
