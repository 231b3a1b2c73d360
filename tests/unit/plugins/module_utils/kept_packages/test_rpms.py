# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which RPMs of the caches are kept: those with the header that is installed."""

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    kept_files,
)

from .conftest import HEADER, NEW, OF_RPM, OLD, RPM, SIZE, SLOW, ask, digest, limited

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
    # rpm reads our copy, and not the file in the cache
    copy = str(host.root / "j/kept/packages" / RPM)
    read = {argv[-1] for argv in host.ran if argv[1] in ("-qp", "-K")}
    assert read == (set() if why in ("no-file", "no-digest") else {copy})


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
