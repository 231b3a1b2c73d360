# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of packages that are kept on a host: which ones, by which digest, within which limits."""

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import types

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    deep_folders,
    host_files,
    journal,
    kept_files,
    kept_packages,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    journal_writer,
)

OLD, NEW = b"the package that is installed", b"another package"
SIZE = len(OLD)
LIMITS = {"most": 10, "bytes": 1 << 20, "reserve": 0, "seconds": 60, "download": True}
# A line of `dpkg-query -W` in our format, as dpkg 1.21 of Debian 12 prints it
INSTALLED = "libcuda1\tamd64\t535.261.03-1~deb12u1\tinstalled\n"
DEB = "libcuda1_535.261.03-1~deb12u1_amd64.deb"
RPM = "libnvidia-ml-535.261.03-1.el9.x86_64.rpm"
HEADER = "c" * 64
OF_RPM = f"libnvidia-ml\tx86_64\t3:535.261.03-1.el9\t{HEADER}\n"


def digest(data):
    return hashlib.sha256(data).hexdigest()


def stanza(data, version="535.261.03-1~deb12u1"):
    """As `apt-cache show` prints one, with a description that looks like a field."""
    return (
        f"Package: libcuda1\nArchitecture: amd64\nVersion: {version}\nSize: {len(data)}\n"
        f"SHA256: {digest(data)}\nDescription: x\n SHA256: {'0' * 64}\n\n"
    )


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host whose caches are below a directory, and whose programs answer what `says` has: text,
    or a status with it, or a whole answer.
    """
    found = types.SimpleNamespace(says={}, ran=[], fetches=None, root=tmp_path, owners=[])
    found.accounts = []
    (tmp_path / "archives").mkdir()
    (tmp_path / "cache/nvidia-1f/packages").mkdir(parents=True)
    monkeypatch.setattr(kept_files, "ARCHIVES", str(tmp_path / "archives"))
    monkeypatch.setattr(kept_files, "CACHES", (str(tmp_path / "cache"),))
    monkeypatch.setattr(journal, "get_journal_directory", lambda _root, _name: str(tmp_path / "j"))
    monkeypatch.setattr(os, "chown", lambda *args: found.owners.append(args))
    monkeypatch.setattr(host_files, "map_id_names", lambda _root, _of: {0: "root", 42: "_apt"})

    def run(argv, timeout=0, cap=0, become=None):
        found.ran.append(argv)
        ended = {"rc": 0, "stdout": b"", "stderr": b"refused", "truncated": False}
        if "--print-uris" in argv:
            rc, text = found.says.get("uris", (0, ""))
            return {**ended, "rc": rc, "stderr": text.encode()}
        if "download" in argv:
            found.accounts.append(become.args)
            if found.fetches is not None:
                (pathlib.Path(become.args[2]) / DEB).write_bytes(found.fetches)
            return {**ended, "rc": 0 if found.fetches is not None else 100}
        said = found.says.get(argv[0] + argv[1], found.says.get(argv[0], ""))
        if isinstance(said, dict):
            return {**ended, **said}
        rc, text = said if isinstance(said, tuple) else (0, said)
        return {**ended, "rc": rc, "stdout": text.encode()}

    monkeypatch.setattr(commands, "run", run)
    return found


@contextlib.contextmanager
def _hold_nothing(*_args, **_more):
    yield


def ask(operation="keep", manager="dpkg", **more):
    return kept_packages.run(
        {
            "operation": operation,
            "journal_dir": "/var/lib/gpufleet",
            "manager": manager,
            "packages": ["libnvidia-ml" if manager == "rpm" else "libcuda1"],
            "record": {"writer": "gpufleet.nvidia", "schema": 1, "release": "535.261.03"},
            "release": [],
            "limits": LIMITS,
            **more,
        }
    )


def limited(**more):
    return {"limits": {**LIMITS, **more}}


def list_fetches(host):
    """List the commands that fetch a package."""
    return [argv for argv in host.ran if "download" in argv and "--print-uris" not in argv]


DEBS = [
    # what apt's lists have, what its cache has, what it fetches, limits; what is kept, why not
    (OLD, OLD, None, {}, OLD, ""),
    (OLD, None, OLD, {}, OLD, ""),
    # a file of the right name with other bytes is never kept: the right one is fetched
    (OLD, NEW, OLD, {}, OLD, ""),
    (OLD, NEW, None, {}, None, "not-fetched"),
    (OLD, NEW, OLD, limited(download=False), None, "other-digest"),
    (OLD, None, NEW, {}, None, "other-digest"),
    (OLD, None, None, {}, None, "not-fetched"),
    (OLD, None, OLD, limited(seconds=0), None, "not-fetched"),
    (OLD, None, OLD, limited(download=False), None, "no-file"),
    # a file that is larger than the lists say does not keep the right one from being fetched
    (OLD, OLD + NEW, OLD, {}, OLD, ""),
    # the lists do not have this version any more
    (None, OLD, OLD, {}, None, "no-digest"),
    (None, None, OLD, {}, None, "no-file"),
    (OLD, OLD, None, limited(most=0), None, "too-many"),
    (OLD, OLD, None, limited(bytes=SIZE - 1), None, "too-large"),
    (OLD, OLD, None, limited(reserve=1 << 60), None, "no-room"),
]


@pytest.mark.parametrize(("stated", "cached", "fetched", "more", "kept", "why"), DEBS)
def test_a_package_of_apt_is_kept_only_by_the_digest_of_apts_lists(
    host, stated, cached, fetched, more, kept, why
):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(stated) if stated else ""}
    host.fetches = fetched
    if cached:
        (host.root / "archives" / DEB).write_bytes(cached)
    said = ask(**more)
    place = host.root / "j/kept/packages"
    assert said["error"] is None
    assert [row["why"] for row in said["left"]] == [why] * (kept is None)
    assert [(row["file"], row["sha256"]) for row in said["kept"]] == (
        [(DEB, digest(kept))] if kept else []
    )
    assert sorted(os.listdir(str(place))) == (["SHA256SUMS", DEB] if kept else [])
    if kept:
        assert (place / DEB).read_bytes() == kept
        assert (place / "SHA256SUMS").read_text() == f"{digest(kept)}  {DEB}\n"
        assert {os.stat(str(place / n)).st_mode & 0o777 for n in os.listdir(str(place))} == {0o600}
        assert os.stat(str(host.root / "j/kept")).st_mode & 0o777 == 0o700


def test_a_version_of_the_lists_that_is_not_installed_states_no_digest(host):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD, "550.163.01-1")}
    (host.root / "archives" / DEB).write_bytes(OLD)
    assert [row["why"] for row in ask()["left"]] == ["no-digest"]


TWO = [
    # a second file that the lists state of the same version; why it is not kept
    (OLD, ""),
    (NEW, "digests-differ"),
]


@pytest.mark.parametrize(("other", "why"), TWO)
@pytest.mark.parametrize("cached", [OLD, NEW])
def test_a_version_that_two_repositories_have_differently_is_not_kept(host, other, why, cached):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD) + stanza(other)}
    host.fetches = OLD
    (host.root / "archives" / DEB).write_bytes(cached)
    said = ask()
    assert [row["why"] for row in said["left"]] == [why] * bool(why)
    assert [row["sha256"] for row in said["kept"]] == ([] if why else [digest(OLD)])


VERSION = "535.261.03-1~deb12u1"
DISAGREE = "W: Sources disagree on hashes for %s identical version '%s' of '%s'.\n"
DISPUTES = [
    # the status of apt, what it says of its repositories; why the package is not kept
    (0, "", ""),
    (0, DISAGREE % ("supposedly", VERSION, "libcuda1:amd64"), "digests-differ"),
    # apt 1.8, 2.2
    (0, DISAGREE % ("supposely", VERSION, "libcuda1:amd64"), "digests-differ"),
    (0, DISAGREE % ("supposedly", VERSION, "libcuda1"), "digests-differ"),
    (0, DISAGREE % ("supposedly", "550.163.01-1", "libcuda1:amd64"), ""),
    (0, DISAGREE % ("supposedly", VERSION, "libcuda1-i386:amd64"), ""),
    (100, "E: Can't find a source", "unread"),
    (None, "", "unread"),
]


@pytest.mark.parametrize(("status", "says", "why"), DISPUTES)
def test_a_version_of_two_files_that_apt_shows_as_one_is_not_kept(host, status, says, why):
    host.says = {
        "dpkg-query": INSTALLED,
        "apt-cache": stanza(OLD),
        "uris": (status, says),
    }
    (host.root / "archives" / DEB).write_bytes(OLD)
    said = ask()
    assert [row["why"] for row in said["left"]] == [why] * bool(why)
    assert [row["file"] for row in said["kept"]] == [DEB] * (not why)


DEEP = 3000  # more than Python recurs, and more than a process may have open


def test_folders_that_apts_account_has_nested_are_removed(host):
    top = host.root / "j/fetched"
    (host.root / "j").mkdir()
    (host.root / "victim").mkdir()
    (host.root / "victim/file").touch()
    top.mkdir()
    (top / "link").symlink_to(host.root / "victim")
    inner = os.open(str(top), os.O_RDONLY)
    for _level in range(DEEP):
        os.mkdir("a", dir_fd=inner)
        os.symlink(str(host.root / "victim"), "b", dir_fd=inner)
        below = os.open("a", os.O_RDONLY, dir_fd=inner)
        os.close(inner)
        inner = below
    os.close(inner)
    assert ask(packages=[])["error"] is None
    assert not os.path.lexists(str(top))
    assert (host.root / "victim/file").exists()


def test_what_apts_account_holds_fast_keeps_nothing_but_fetched_packages(host, monkeypatch):
    """It may mount something there, which root cannot remove."""
    smi = SMI.splitlines()[0].split("\t")
    host.says = {
        "dpkg-query": INSTALLED + SMI,
        "apt-cache": stanza(OLD) + stanza(OLD).replace("libcuda1", "nvidia-smi"),
    }
    (host.root / "archives" / DEB).write_bytes(OLD)
    (host.root / "j/fetched").mkdir(parents=True)
    host.fetches = OLD
    remove = deep_folders.remove_deep_tree

    def refuse(path):
        if path == str(host.root / "j/fetched"):
            raise OSError(16, "Device or resource busy", path)
        remove(path)

    with monkeypatch.context() as patch:
        patch.setattr(deep_folders, "remove_deep_tree", refuse)
        said = ask(packages=NAMES)
        assert said["error"] is None
        assert [row["file"] for row in said["kept"]] == [DEB]
        assert [(row["name"], row["why"]) for row in said["left"]] == [(smi[0], "failed")]
        assert "busy" in ask("remove")["error"]["message"], "nobody would know of it"
    assert ask("remove")["error"] is None
    assert not (host.root / "j/fetched").exists()


@pytest.mark.parametrize("place", ["fetched", "fetched/" + DEB])
def test_what_apts_account_mounts_is_not_read(host, monkeypatch, place):
    """Its file system need not answer, and would hold the lock of this host's changes."""
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    host.fetches = OLD
    read = deep_folders._read_mount

    def number(descriptor):
        at = os.readlink("/proc/self/fd/%d" % descriptor)
        return "mounted" if at == str(host.root / "j" / place) else read(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(deep_folders, "_read_mount", number)
        said = ask()
    assert said["error"] is None
    assert [row["why"] for row in said["left"]] == ["failed"]
    ask("remove")
    assert [row["file"] for row in ask()["kept"]] == [DEB]


def test_a_link_or_a_pipe_in_the_cache_is_no_package(host):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "elsewhere").write_bytes(OLD)
    (host.root / "archives" / DEB).symlink_to(host.root / "elsewhere")
    assert [row["why"] for row in ask(**limited(download=False))["left"]] == ["failed"]
    host.fetches = OLD
    ask("remove")
    assert [row["file"] for row in ask()["kept"]] == [DEB], "it ends no search"


def test_apt_runs_as_its_own_account_in_a_folder_outside_what_is_kept(host):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    host.fetches = OLD
    ask()
    place = str(host.root / "j/fetched")
    assert [argv[0] for argv in list_fetches(host)] == ["apt-get"]
    # root, which apt would follow a link of that account as, is none of them
    assert host.accounts == [(42, 65534, place)]
    assert host.owners == [(place, 42, 65534)]
    assert not os.path.lexists(place)
    kept = os.stat(str(host.root / "j/kept/packages" / DEB))
    assert (kept.st_uid, kept.st_mode & 0o777) == (os.geteuid(), 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another account")
def test_a_command_runs_as_an_account_for_good_or_not_at_all():
    base = tempfile.mkdtemp(dir="/tmp")
    try:
        os.chmod(base, 0o755)
        place, closed = os.path.join(base, "own"), os.path.join(base, "closed")
        os.mkdir(place, 0o700)
        os.chown(place, 42, 65534)
        os.mkdir(closed, 0o700)
        become = functools.partial(kept_files._become, 42, 65534)
        said = commands.run(
            ["sh", "-c", "id -u; id -G; pwd; chown 0 ."], become=functools.partial(become, place)
        )
        assert (said["stdout"].decode().split(), said["rc"]) == (["42", "65534", place], 1)
        with pytest.raises(subprocess.SubprocessError):
            commands.run(["true"], become=functools.partial(become, closed))
    finally:
        shutil.rmtree(base)


STATED = [
    # the fields Size and SHA256 as a list has them; whether they state a digest
    (str(SIZE), digest(OLD), True),
    # a digit of no number, as str.isdigit() counts them
    ("\u00b2", digest(OLD), False),
    ("\u0662\u0667", digest(OLD), False),
    ("-1", digest(OLD), False),
    ("9" * 16, digest(OLD), False),
    (str(SIZE), digest(OLD).upper(), False),
    # the digest of a file of another size
    (str(SIZE + 1), digest(OLD), True),
]


@pytest.mark.parametrize(("size", "stated", "read"), STATED)
def test_a_digest_of_apts_lists_has_its_form(host, size, stated, read):
    text = stanza(OLD).replace(f"Size: {SIZE}", f"Size: {size}").replace(digest(OLD), stated)
    host.says = {"dpkg-query": INSTALLED, "apt-cache": text}
    (host.root / "archives" / DEB).write_bytes(OLD)
    said = ask(**limited(download=False))
    assert said["error"] is None
    why = "" if size == str(SIZE) and read else "other-digest" if read else "no-digest"
    assert [row["why"] for row in said["left"]] == [why] * bool(why)


SLOW, CUT = {"rc": None}, {"rc": 0, "truncated": True}
NAMES = ["libcuda1", "nvidia-smi"]
HALF = INSTALLED.replace("\tinstalled", "\thalf-configured")
SMI = INSTALLED.replace("libcuda1", "nvidia-smi")
GONE = SMI.replace("\tinstalled", "\tconfig-files")
SILENT = [
    # what the programs say; each package that is not kept, and why: no name vanishes
    ({"dpkg-query": SLOW}, [("libcuda1", "unread"), ("nvidia-smi", "unread")]),
    ({"dpkg-query": {"rc": 2}}, [("libcuda1", "unread"), ("nvidia-smi", "unread")]),
    ({"dpkg-query": CUT}, [("libcuda1", "unread"), ("nvidia-smi", "unread")]),
    ({"dpkg-query": (1, INSTALLED)}, [("nvidia-smi", "gone")]),
    ({"dpkg-query": INSTALLED + GONE}, [("nvidia-smi", "gone")]),
    ({"dpkg-query": HALF + SMI}, [("nvidia-smi", "no-file"), ("libcuda1", "half-installed")]),
    ({"dpkg-query": INSTALLED.replace("\tinstalled", "\ttriggers-pending")}, [("nvidia-smi", "gone")]),
    ({"dpkg-query": INSTALLED + SMI, "apt-cache": SLOW}, [("libcuda1", "unread"), ("nvidia-smi", "unread")]),
    ({"dpkg-query": INSTALLED + SMI, "apt-cache": (100, "")}, [("libcuda1", "unread"), ("nvidia-smi", "unread")]),
    ({"dpkg-query": INSTALLED + SMI, "apt-cache": CUT}, [("libcuda1", "unread"), ("nvidia-smi", "unread")]),
]  # fmt: skip


@pytest.mark.parametrize(("says", "left"), SILENT)
def test_a_package_manager_that_fails_is_not_read_as_one_that_has_no_package(host, says, left):
    host.says = {"apt-cache": stanza(OLD), **says}
    (host.root / "archives" / DEB).write_bytes(OLD)
    said = ask(packages=NAMES)
    assert said["error"] is None
    assert [(row["name"], row["why"]) for row in said["left"]] == left
    assert {row["name"] for row in said["kept"] + said["left"]} == set(NAMES)


def test_the_bytes_of_all_packages_count_together(host):
    smi = DEB.replace("libcuda1", "nvidia-smi")
    host.says = {
        "dpkg-query": INSTALLED + SMI,
        "apt-cache": stanza(OLD) + stanza(OLD).replace("libcuda1", "nvidia-smi"),
    }
    for file in (DEB, smi):
        (host.root / "archives" / file).write_bytes(OLD)
    said = ask(packages=NAMES, **limited(bytes=2 * SIZE - 1))
    assert [row["file"] for row in said["kept"]] == [DEB]
    assert [(row["name"], row["why"]) for row in said["left"]] == [("nvidia-smi", "too-large")]
    ask("remove")
    assert ask(packages=NAMES, **limited(bytes=2 * SIZE))["left"] == []


ROOM = [
    # bytes that are free, the reserve; why it is not kept
    (SIZE + 100, 100, ""),
    (SIZE + 99, 100, "no-room"),
]


@pytest.mark.parametrize(("free", "reserve", "why"), ROOM)
def test_a_part_of_the_file_system_stays_free(host, monkeypatch, free, reserve, why):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "archives" / DEB).write_bytes(OLD)
    room = types.SimpleNamespace(f_bavail=free, f_frsize=1)
    monkeypatch.setattr(os, "statvfs", lambda _path: room)
    assert [row["why"] for row in ask(**limited(reserve=reserve))["left"]] == [why] * bool(why)


def test_all_downloads_end_after_one_time(host, monkeypatch):
    host.says = {
        "dpkg-query": INSTALLED + SMI,
        "apt-cache": stanza(OLD) + stanza(OLD).replace("libcuda1", "nvidia-smi"),
    }
    host.fetches = OLD
    clock = iter([0.0, 59.0, 61.0])  # at the beginning, and before each of two downloads
    monkeypatch.setattr(time, "monotonic", lambda: next(clock, 61.0))
    monkeypatch.setattr(journal_writer, "hold_transaction_lock", _hold_nothing)
    said = ask(packages=NAMES)
    assert [row["name"] for row in said["kept"]] == ["libcuda1"]
    assert [(row["name"], row["why"]) for row in said["left"]] == [("nvidia-smi", "not-fetched")]
    assert len(list_fetches(host)) == 1


RPMS = [
    # the header of the database, whether it is cached, the header of the file, of its check; why not
    (HEADER, True, HEADER, 0, ""),
    (HEADER, False, HEADER, 0, "no-file"),
    ("(none)", True, HEADER, 0, "no-digest"),
    (HEADER, True, HEADER, None, "unread"),
    (HEADER, True, "d" * 64, 0, "other-digest"),
    (HEADER, True, HEADER, 1, "other-digest"),
]


@pytest.mark.parametrize(("known", "cached", "header", "checked", "why"), RPMS)
def test_a_package_of_rpm_is_kept_only_by_the_header_that_is_installed(
    host, known, cached, header, checked, why
):
    host.says = {
        "rpm-q": OF_RPM.replace(HEADER, known),
        "rpm-qp": header,
        "rpm-K": (checked, ""),
    }
    if cached:
        (host.root / "cache/nvidia-1f/packages" / RPM).write_bytes(OLD)
    said = ask(manager="rpm")
    assert [row["why"] for row in said["left"]] == [why] * bool(why)
    assert [row["file"] for row in said["kept"]] == ([] if why else [RPM])
    # our copy is asked, and not the file in the cache
    place = str(host.root / "j/kept/packages")
    assert {os.path.dirname(argv[-1]) for argv in host.ran if argv[1] in ("-qp", "-K")} <= {place}


def test_a_slow_rpm_has_one_time_for_all_its_files(host, monkeypatch):
    names = ["libnvidia-ml", "nvidia-driver", "nvidia-settings"]
    host.says = {
        "rpm-q": "".join(OF_RPM.replace("libnvidia-ml", name) for name in names),
        "rpm-qp": SLOW,
    }
    for name in names:
        path = host.root / "cache/nvidia-1f/packages" / RPM.replace("libnvidia-ml", name)
        path.write_bytes(OLD)
    now, given, answer = [0.0], [], commands.run

    def run(argv, timeout=0, **more):
        if argv[1] == "-qp":  # it hangs, and takes all the time that it gets
            given.append(timeout)
            now[0] += timeout
        return answer(argv, timeout, **more)

    monkeypatch.setattr(commands, "run", run)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(journal_writer, "hold_transaction_lock", _hold_nothing)
    said = ask(manager="rpm", packages=names, **limited(seconds=90))
    assert [(row["name"], row["why"]) for row in said["left"]] == [(n, "unread") for n in names]
    assert given == [60, 30]


RPM_SAYS = [
    # what `rpm -q` answers; why the package is not kept
    (SLOW, "unread"),
    # rpm says of each name that it is not installed if its database cannot be read
    ({"rc": 1, "stdout": b"package libnvidia-ml is not installed\n", "stderr": b"error: cannot open Packages"}, "unread"),
    ({"rc": 1, "stdout": b"package libnvidia-ml is not installed\n"}, "gone"),
    ({"rc": 127}, "unread"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "why"), RPM_SAYS)
def test_a_database_of_rpm_that_fails_has_no_package_to_keep(host, answer, why):
    host.says = {"rpm-q": answer}
    said = ask(manager="rpm")
    assert [(row["name"], row["why"]) for row in said["left"]] == [("libnvidia-ml", why)]


@pytest.mark.parametrize("bad", ["link", "large", "other"])
def test_a_bad_file_of_a_cache_ends_no_search(host, monkeypatch, bad):
    host.says = {"rpm-q": OF_RPM, "rpm-qp": HEADER, "rpm-K": ""}
    first, second = host.root / "cache/a", host.root / "cache/b"
    for place in (first, second):
        place.mkdir()
    (second / RPM).write_bytes(OLD)
    if bad == "link":
        (first / RPM).symlink_to(second / RPM)
    else:
        (first / RPM).write_bytes({"large": 3 * OLD, "other": NEW}[bad])
    monkeypatch.setattr(kept_files, "CACHES", (str(first), str(second)))
    copy = host.root / "j/kept/packages" / RPM
    monkeypatch.setattr(kept_files, "_is_rpm", lambda *_of: copy.read_bytes() == OLD)
    said = ask(manager="rpm", **limited(bytes=2 * SIZE))
    assert [row["sha256"] for row in said["kept"]] == [digest(OLD)]


def test_a_cache_that_is_not_searched_as_a_whole_does_not_lack_a_package(host, monkeypatch):
    host.says = {"rpm-q": OF_RPM}
    (host.root / "cache/other.rpm").write_bytes(OLD)
    monkeypatch.setattr(kept_files, "MOST_CACHED", 0)
    assert [row["why"] for row in ask(manager="rpm")["left"]] == ["cache-unread"]


def read_record(host):
    return json.loads((host.root / "j/kept/record.json").read_text())


def test_a_change_that_was_not_judged_keeps_the_packages_of_before_it(host):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "archives" / DEB).write_bytes(OLD)
    assert ask()["again"] is False
    assert (read_record(host)["state"], read_record(host)["kept"]) == ("changing", 1)
    # the change has gone half way, and its controller has died
    host.says = {"dpkg-query": INSTALLED.replace("535.261.03", "550.163.01"), "apt-cache": ""}
    again = ask(release=[FREE])
    assert (again["again"], again["left"]) == (True, [])
    assert [row["file"] for row in again["kept"]] == [DEB], "as it was kept before the change"
    assert again["ran"] == [{"argv": ["apt-mark", "unhold", "libcuda1"], "rc": 0}]
    assert (host.root / "j/kept/packages" / DEB).read_bytes() == OLD
    assert ask("remove", settled=True)["state"] == "changing"
    assert ask("settle")["state"] == read_record(host)["state"] == "settled"
    assert ask("remove", settled=True)["state"] == ""
    assert not (host.root / "j/kept").exists()
    assert ask("settle")["state"] == "", "nothing is noted of a host without a change"


def test_the_packages_of_a_judged_change_make_room_for_those_of_the_next(host):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "archives" / DEB).write_bytes(OLD)
    ask()
    ask("settle")
    (host.root / "j/kept/packages/older.deb").write_bytes(OLD)
    assert ask()["again"] is False
    assert sorted(os.listdir(str(host.root / "j/kept/packages"))) == ["SHA256SUMS", DEB]


FREE = {
    "argv": ["apt-mark", "unhold", "libcuda1"],
    "undo": ["apt-mark", "hold", "libcuda1"],
}
UNHOLD = {"release": [FREE]}
DEMANDS = [
    # whether the package is in the cache, asked by; whether it is refused
    (True, {"demand": True}, False),
    (True, {"demand": False}, False),
    (False, {"demand": False}, False),
    (False, {"demand": True}, True),
    # no package of a driver is installed
    (True, {"demand": True, "packages": []}, True),
    (True, {"demand": False, "packages": []}, False),
]


@pytest.mark.parametrize(("cached", "asked", "refused"), DEMANDS)
def test_a_demand_is_judged_before_anything_is_released_and_noted(host, cached, asked, refused):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    if cached:
        (host.root / "archives" / DEB).write_bytes(OLD)
    for _run in (1, 2):  # a second run is refused as well
        said = ask(**UNHOLD, **asked)
        assert (said["refused"], said["again"]) == (refused, not refused and _run == 2)
        assert bool(said["ran"]) is not refused
        assert (host.root / "j/kept").exists() is not refused
    assert ["apt-mark", "unhold", "libcuda1"] not in host.ran or not refused


AGAIN = [
    # what became of a file in the folder, whether each package is demanded; refused, unread, left
    (None, None, True, False, False, []),
    ("packages/" + DEB, None, True, False, False, ["lost"]),
    ("packages/" + DEB, "short", True, False, False, ["lost"]),
    # the demand of a change that has begun is met by what is noted of it, and by nothing else
    ("packages.json", None, True, True, True, []),
    ("packages.json", None, False, False, True, []),
    ("packages.json", "{", True, True, True, []),
    ("packages.json", '{"kept": [{}], "left": []}', True, True, True, []),
    ("packages.json", '{"kept": [], "left": [{"name": 1, "arch": "", "version": "", "why": ""}]}', True, True, True, []),
    ("record.json", "{", True, True, True, []),
]  # fmt: skip


@pytest.mark.parametrize(("file", "text", "demand", "refused", "unread", "left"), AGAIN)
def test_a_change_that_has_begun_goes_on_with_what_was_kept_for_it(
    host, file, text, demand, refused, unread, left
):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "archives" / DEB).write_bytes(OLD)
    ask(demand=True)
    path = host.root / "j/kept" / (file or "record.json")
    if text is not None:
        path.write_text(text)
    elif file:
        path.unlink()
    # its packages are taken away, and none is there yet
    host.says = {"dpkg-query": (1, "")}
    said = ask(demand=demand, packages=[], **UNHOLD)
    assert (said["again"], said["refused"], said["unread"]) == (True, refused, unread)
    assert [row["why"] for row in said["left"]] == left
    assert bool(said["ran"]) is not refused


class Killed(Exception):
    pass


def test_a_keeping_that_is_killed_leaves_a_note_by_which_its_files_are_removed(host, monkeypatch):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "archives" / DEB).write_bytes(OLD)
    ask()
    ask("settle")

    def die(*_args):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(kept_packages, "_release", die)
        with pytest.raises(Killed):
            ask(**UNHOLD)
    assert read_record(host)["state"] == "preparing"
    assert (host.root / "j/kept/packages" / DEB).exists()
    # no change has begun, so that the next keeping begins from the start
    assert ask("keep", packages=[])["again"] is False
    with monkeypatch.context() as patch:
        patch.setattr(kept_packages, "_release", die)
        with pytest.raises(Killed):
            assert ask("remove")["state"] == ""
            ask(**UNHOLD)
    assert ask("remove", settled=True)["error"] is None
    assert not (host.root / "j/kept").exists()


@pytest.fixture
def apt(host, monkeypatch):
    """The packages that apt holds on a host, and where a run is killed."""
    found = types.SimpleNamespace(held={"libcuda1"}, dies="")
    answer, write = commands.run, journal_writer.write_json

    def run(argv, **more):
        if argv[0] != "apt-mark":
            return answer(argv, **more)
        if found.dies == "before":
            raise Killed
        said = answer(argv, **more)
        if said["rc"] == 0:
            act = {"hold": found.held.update, "unhold": found.held.difference_update}[argv[1]]
            act(argv[2:])
        if found.dies == "after":
            raise Killed
        return said

    def note(path, values):
        if found.dies == "note" and values.get("state") == "changing":
            raise Killed
        write(path, values)

    monkeypatch.setattr(commands, "run", run)
    monkeypatch.setattr(journal_writer, "write_json", note)
    return found


HELD_BY = FREE["undo"]
SMI_FREE = {
    "argv": ["apt-mark", "unhold", "nvidia-smi"],
    "undo": ["apt-mark", "hold", "nvidia-smi"],
}
NO_UNHOLD, NO_HOLD = {"apt-markunhold": (1, "")}, {"apt-markhold": (1, "")}
CUT_OFF = [
    # where a run is killed, what the next one asks for, which commands fail then; whether it is
    # refused, what apt holds, the state that is noted, what may be free by the note
    ("before", UNHOLD, {}, False, [], "changing", []),
    ("after", {}, {}, False, [], "changing", []),
    ("note", {}, {}, False, [], "changing", []),
    # the look that it asks by is older than that
    ("after", UNHOLD, {}, False, [], "changing", []),
    ("before", {"demand": True}, {}, True, ["libcuda1"], "", []),
    ("after", {"demand": True}, {}, True, ["libcuda1"], "", []),
    ("after", {"demand": True}, NO_HOLD, False, [], "preparing", [HELD_BY]),
    ("after", {"release": [SMI_FREE]}, NO_UNHOLD, False, ["libcuda1", "nvidia-smi"], "preparing", []),
    ("after", {"release": [SMI_FREE]}, {**NO_UNHOLD, **NO_HOLD}, False, [], "preparing", [HELD_BY, SMI_FREE["undo"]]),
]  # fmt: skip


@pytest.mark.parametrize(("dies", "asked", "fails", "refused", "held", "state", "free"), CUT_OFF)
def test_a_release_that_is_killed_is_noted_and_made_right_by_the_next_run(
    host, apt, dies, asked, fails, refused, held, state, free
):
    apt.dies = dies
    with pytest.raises(Killed):
        ask(packages=[], **UNHOLD)
    assert apt.held == ({"libcuda1"} if dies == "before" else set())
    noted = read_record(host)
    assert (noted["state"], noted["releasing"]) == ("preparing", [HELD_BY])
    apt.dies, host.says = "", fails
    for _run in (1, 2):  # the second one finds what the first one has left
        said = ask(packages=[], **asked)
        assert (said["refused"], bool(said["error"])) == (refused, bool(fails))
        assert sorted(apt.held) == held
        path = host.root / "j/kept/record.json"
        left = json.loads(path.read_text()) if path.exists() else {"state": "", "releasing": []}
        assert (left["state"], sorted(left["releasing"])) == (state, free)


FIELDS = [
    # a record; whether a change has begun by it
    ('{"state": "preparing"}', False),  # of an earlier release
    ('{"state": "preparing", "releasing": []}', False),
    ('{"state": "preparing", "releasing": [["true"]]}', False),
    ('{"state": "preparing", "releasing": [[]]}', True),
    ('{"state": "preparing", "releasing": [[1]]}', True),
    ('{"state": "preparing", "releasing": ["true"]}', True),
    ('{"state": "preparing", "releasing": {}}', True),
]


@pytest.mark.parametrize(("text", "begun"), FIELDS)
def test_a_record_whose_commands_have_another_form_cannot_be_read(host, text, begun):
    ask(packages=[])
    (host.root / "j/kept/record.json").write_text(text)
    assert ask(packages=[])["again"] is begun


def test_a_file_that_cannot_be_removed_is_an_error_and_stays_noted(host, monkeypatch):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "archives" / DEB).write_bytes(OLD)
    ask()
    ask("settle")

    def refuse(path, dir_fd=None):
        raise PermissionError(1, "Operation not permitted", path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        assert "Operation not permitted" in ask("remove", settled=True)["error"]["message"]
    assert read_record(host)["state"] == "settled"
    assert ask("remove", settled=True)["error"] is None
    assert not (host.root / "j/kept").exists()


OWN = {"writer": "gpufleet.nvidia", "schema": 1}


def of_run(run):
    """The run that asks, and its rollout; of an earlier release of this collection by ''."""
    return {"record": {**OWN, "run": run, "rollout": f"of-{run}"} if run else OWN}


SETTLING = [
    # the run that begins a change, that takes it up, that settles it; the state, the rollout
    ("a", "", "a", "settled", ""),
    ("a", "", "b", "changing", "of-a"),
    ("a", "b", "b", "settled", ""),
    ("a", "b", "a", "changing", "of-b"),
    ("", "", "b", "settled", ""),
    ("", "b", "b", "settled", ""),
    ("", "b", "a", "changing", "of-b"),
]


@pytest.mark.parametrize(("begins", "takes", "settles", "state", "rollout"), SETTLING)
def test_a_run_settles_no_change_of_another_one(host, begins, takes, settles, state, rollout):
    ask(packages=[], **of_run(begins))
    if takes:
        assert ask(packages=[], **of_run(takes))["again"] is True
    said = ask("settle", **of_run(settles))
    assert (said["state"], said["rollout"]) == (state, rollout)
    assert read_record(host)["state"] == state


@pytest.mark.parametrize("rollout", [None, 7, "", "a b", "a" * 64, "week\n"])
def test_a_rollout_whose_name_has_another_form_is_not_named(host, rollout):
    ask(packages=[], record={**OWN, "run": "a", "rollout": rollout})
    assert ask("settle", **of_run("b"))["rollout"] == "unknown"


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"'])
def test_a_record_that_cannot_be_read_is_a_change_that_was_not_judged(host, text):
    ask(packages=[])
    (host.root / "j/kept/record.json").write_text(text)
    assert ask()["again"] is True
    assert ask("settle")["state"] == "settled"
    assert read_record(host)["writer"] == "gpufleet.nvidia"


def test_a_hold_that_cannot_be_released_is_an_error(host):
    host.says = {"apt-markunhold": (1, "")}
    said = ask(packages=[], **UNHOLD)
    assert said["error"]["message"] == "apt-mark unhold libcuda1: refused"
    assert read_record(host)["state"] == "preparing", "no task of the user's runs"


LOCKS = [
    # what fails; the commands that run then, in their order, and those that stay
    ("dnf two", ["sed one", "dnf two", "dnf again", "sed back"], []),
    ("record", ["sed one", "dnf two", "dnf again", "sed back"], []),
    ("dnf two, sed back", ["sed one", "dnf two", "dnf again", "sed back"], ["sed one"]),
    ("sed one", ["sed one", "sed back"], []),
    ("", ["sed one", "dnf two"], ["sed one", "dnf two"]),
]


@pytest.mark.parametrize(("fails", "runs", "stays"), LOCKS)
def test_a_release_whose_preparation_fails_is_undone(host, monkeypatch, fails, runs, stays):
    pairs = [("sed one", "sed back"), ("dnf two", "dnf again")]
    release = [{"argv": argv.split(), "undo": undo.split()} for argv, undo in pairs]
    host.says = {name.replace(" ", ""): (1, "") for name in fails.split(", ")}
    write = journal_writer.write_json

    def fill(path, values):
        if fails == "record" and values.get("state") == "changing":
            raise OSError(28, "No space left on device")
        write(path, values)

    monkeypatch.setattr(journal_writer, "write_json", fill)
    said = ask(packages=[], release=release)
    assert [" ".join(argv) for argv in host.ran] == runs
    assert [" ".join(row["argv"]) for row in said["ran"]] == stays
    assert bool(said["error"]) is bool(fails)
    assert said["state"] == read_record(host)["state"] == ("preparing" if fails else "changing")
    # what could not be held again stays noted
    assert read_record(host)["releasing"] == [["sed", "back"]] * (fails == "dnf two, sed back")


def test_nothing_is_done_if_the_place_is_not_roots_alone(host, monkeypatch):
    def refuse(_root, _name):
        raise host_files.HostError("denied", "it may be written to by others", "Run chmod")

    monkeypatch.setattr(journal, "get_journal_directory", refuse)
    assert ask()["error"] == {"message": "it may be written to by others", "next": "Run chmod"}
    assert host.ran == []
