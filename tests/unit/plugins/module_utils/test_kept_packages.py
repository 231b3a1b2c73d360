# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of packages that are kept on a host: which ones, by which digest, within which limits."""

import hashlib
import json
import os
import types

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
    journal,
    kept_packages,
    trust,
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
    """A host whose caches are below a directory, and whose programs answer what `says` has."""
    found = types.SimpleNamespace(says={}, ran=[], fetches=None, root=tmp_path)
    (tmp_path / "archives").mkdir()
    (tmp_path / "cache/nvidia-1f/packages").mkdir(parents=True)
    monkeypatch.setattr(kept_packages, "ARCHIVES", str(tmp_path / "archives"))
    monkeypatch.setattr(kept_packages, "CACHES", (str(tmp_path / "cache"),))
    monkeypatch.setattr(journal, "get_journal_directory", lambda _root, _name: str(tmp_path / "j"))
    monkeypatch.setattr(trust, "require_root_program", lambda name: name)
    monkeypatch.setattr(os, "chown", lambda *_args: None)

    def run(argv, timeout=0, cap=0):
        found.ran.append(argv)
        if "download" in argv:
            if found.fetches is not None:
                (tmp_path / "j/kept/packages" / DEB).write_bytes(found.fetches)
            return {"rc": 0 if found.fetches is not None else 100, "stdout": b"", "stderr": b"E"}
        said = found.says.get(argv[0] + argv[1], found.says.get(argv[0], ""))
        rc, text = said if isinstance(said, tuple) else (0, said)
        return {"rc": rc, "stdout": text.encode(), "stderr": b"refused"}

    monkeypatch.setattr(commands, "run", run)
    return found


def ask(operation="keep", manager="dpkg", **more):
    return kept_packages.run(
        {
            "operation": operation,
            "journal_dir": "/var/lib/gpufleet",
            "manager": manager,
            "packages": ["libcuda1"],
            "record": {"writer": "gpufleet.nvidia", "schema": 1, "release": "535.261.03"},
            "release": [],
            "limits": LIMITS,
            **more,
        }
    )


def limited(**more):
    return {"limits": {**LIMITS, **more}}


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


def test_a_link_or_a_pipe_in_the_cache_is_no_package(host):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "elsewhere").write_bytes(OLD)
    (host.root / "archives" / DEB).symlink_to(host.root / "elsewhere")
    assert [row["why"] for row in ask()["left"]] == ["failed"]


RPMS = [
    # the header of the database, whether it is cached, the header of the file, of its check; why not
    (HEADER, True, HEADER, 0, ""),
    (HEADER, False, HEADER, 0, "no-file"),
    ("(none)", True, HEADER, 0, "no-digest"),
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


def read_record(host):
    return json.loads((host.root / "j/kept/record.json").read_text())


def test_a_change_that_was_not_judged_keeps_the_packages_of_before_it(host):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "archives" / DEB).write_bytes(OLD)
    assert ask()["again"] is False
    assert (read_record(host)["state"], read_record(host)["kept"]) == ("changing", 1)
    # the change has gone half way, and its controller has died
    host.says = {"dpkg-query": INSTALLED.replace("535.261.03", "550.163.01"), "apt-cache": ""}
    again = ask(release=[["apt-mark", "unhold", "libcuda1"]])
    assert (again["again"], again["kept"], again["left"]) == (True, [], [])
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


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"'])
def test_a_record_that_cannot_be_read_is_a_change_that_was_not_judged(host, text):
    ask(packages=[])
    (host.root / "j/kept/record.json").write_text(text)
    assert ask()["again"] is True
    assert ask("settle")["state"] == "settled"
    assert read_record(host)["writer"] == "gpufleet.nvidia"


def test_a_hold_that_cannot_be_released_is_an_error(host):
    host.says = {"apt-mark": (1, "")}
    said = ask(packages=[], release=[["apt-mark", "unhold", "libcuda1"]])
    assert said["error"]["message"] == "apt-mark unhold libcuda1: refused"


def test_nothing_is_done_if_the_place_is_not_roots_alone(host, monkeypatch):
    def refuse(_root, _name):
        raise host_files.HostError("denied", "it may be written to by others", "Run chmod")

    monkeypatch.setattr(journal, "get_journal_directory", refuse)
    assert ask()["error"] == {"message": "it may be written to by others", "next": "Run chmod"}
    assert host.ran == []
