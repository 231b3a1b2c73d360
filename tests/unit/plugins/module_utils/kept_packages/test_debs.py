# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of apt are kept: those with the digest that apt's lists state."""

import os

import pytest

from .conftest import (
    CUT,
    DEB,
    INSTALLED,
    NAMES,
    NEW,
    OLD,
    SIZE,
    SLOW,
    SMI,
    ask,
    digest,
    limited,
    stanza,
)

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
    # apt ends well, and has fetched nothing
    (OLD, None, b"", {}, None, "not-fetched"),
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
    ((0, ""), ""),
    ((0, DISAGREE % ("supposedly", VERSION, "libcuda1:amd64")), "digests-differ"),
    # apt 1.8, 2.2
    ((0, DISAGREE % ("supposely", VERSION, "libcuda1:amd64")), "digests-differ"),
    ((0, DISAGREE % ("supposedly", VERSION, "libcuda1")), "digests-differ"),
    ((0, DISAGREE % ("supposedly", "550.163.01-1", "libcuda1:amd64")), ""),
    ((0, DISAGREE % ("supposedly", VERSION, "libcuda1-i386:amd64")), ""),
    ((100, "E: Can't find a source"), "unread"),
    ((None, ""), "unread"),
    # more than is read of it
    ((0, "", "cut"), "unread"),
]


@pytest.mark.parametrize(("said", "why"), DISPUTES)
def test_a_version_of_two_files_that_apt_shows_as_one_is_not_kept(host, said, why):
    host.says = {
        "dpkg-query": INSTALLED,
        "apt-cache": stanza(OLD),
        "uris": said,
    }
    (host.root / "archives" / DEB).write_bytes(OLD)
    answer = ask()
    assert [row["why"] for row in answer["left"]] == [why] * bool(why)
    assert [row["file"] for row in answer["kept"]] == [DEB] * (not why)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_link_or_a_pipe_in_the_cache_is_no_package(host, kind):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "elsewhere").write_bytes(OLD)
    cached = host.root / "archives" / DEB
    if kind == "link":
        cached.symlink_to(host.root / "elsewhere")
    else:
        os.mkfifo(str(cached))
    assert [row["why"] for row in ask(**limited(download=False))["left"]] == ["failed"]
    host.fetches = OLD
    ask("remove")
    assert [row["file"] for row in ask()["kept"]] == [DEB], "the right one is fetched"


STATED = [
    # the fields Size and SHA256 as a list has them; why the package is not kept
    (str(SIZE), digest(OLD), ""),
    # str.isdigit() counts these as digits
    ("\u00b2", digest(OLD), "no-digest"),
    ("\u0662\u0667", digest(OLD), "no-digest"),
    ("-1", digest(OLD), "no-digest"),
    ("9" * 16, digest(OLD), "no-digest"),
    (str(SIZE), digest(OLD).upper(), "no-digest"),
    # the digest of a file of another size
    (str(SIZE + 1), digest(OLD), "other-digest"),
]


@pytest.mark.parametrize(("size", "stated", "why"), STATED)
def test_a_digest_of_apts_lists_has_its_form(host, size, stated, why):
    text = stanza(OLD).replace(f"Size: {SIZE}", f"Size: {size}").replace(digest(OLD), stated)
    host.says = {"dpkg-query": INSTALLED, "apt-cache": text}
    (host.root / "archives" / DEB).write_bytes(OLD)
    said = ask(**limited(download=False))
    assert said["error"] is None
    assert [row["why"] for row in said["left"]] == [why] * bool(why)


HALF = INSTALLED.replace("\tinstalled", "\thalf-configured")
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


I386 = INSTALLED.replace("amd64", "i386")
FOREIGN = [
    # the packages that are asked for, the packages of dpkg; the ones that are gone
    (["libcuda1", "libcuda1:i386"], INSTALLED + I386, []),
    (["libcuda1", "libcuda1:i386"], I386, ["libcuda1"]),
    (["libcuda1", "libcuda1:i386"], INSTALLED, ["libcuda1:i386"]),
    (["libcuda1:i386"], I386, []),
    (["libcuda1"], INSTALLED + I386, []),
]


@pytest.mark.parametrize(("names", "says", "gone"), FOREIGN)
def test_a_package_of_another_architecture_does_not_stand_for_its_twin(host, names, says, gone):
    host.says = {"dpkg-query": (bool(gone), says), "apt-cache": ""}
    left = ask(packages=names)["left"]
    assert [row["name"] for row in left if row["why"] == "gone"] == gone
    assert len(left) == says.count("\n") + len(gone)
