# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a repository's metadata lists, for apt and for rpm, and which packages an archive gets."""

from __future__ import annotations

import gzip

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import listed
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)

from tests.unit import bundles

URL = "https://mirror.example.org"
SHA512 = "a" * 128
NVIDIAS = f"""Architectures: amd64
Codename: stable
Date: Fri, 27 Apr 2018 21:29:25 +0000
SHA512:
 {SHA512}            90397 Packages
 {SHA512}            14820 Packages.xz
 {SHA512}            14820 Contents-amd64
"""


def test_a_release_with_sha512_alone_is_what_nvidia_has() -> None:
    found = listed.list_release_indexes(NVIDIAS, URL)
    assert [(f.path, f.algorithm, f.size) for f in found] == [
        ("Packages", "sha512", 90397),
        ("Packages.xz", "sha512", 14820),
    ]


RELEASES = {
    "md5 alone": (
        "MD5Sum:\n d41d8cd98f00b204e9800998ecf8427e 0 Packages\n",
        "names no Packages file",
    ),
    "a digest that is too short": (
        "SHA256:\n d41d8cd98f00b204e9800998ecf8427e 0 Packages\n",
        "no digest of Packages that is strong enough",
    ),
    "a repository with distributions": (
        f"SHA512:\n {SHA512} 1 main/binary-amd64/Packages\n",
        "names no Packages file",
    ),
    "no list": ("Origin: somebody\n", "names no Packages file"),
    "nothing": ("", "names no Packages file"),
}


@pytest.mark.parametrize(("text", "says"), RELEASES.values(), ids=RELEASES)
def test_a_release_that_is_of_no_use(text: str, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        listed.list_release_indexes(text, URL)


def stanza(**more: str) -> str:
    fields = {
        "Package": "libnvidia-container1",
        "Version": "1.20.1-1",
        "Filename": "./a.deb",
        "Size": "3",
        "SHA512": SHA512,
        **more,
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def test_packages_of_others_are_passed_over_and_text_goes_on() -> None:
    text = (
        stanza(Description="a library\n Package: nvidia-container-toolkit")
        + "\n"
        + stanza(Package="libnvidia-container-dev")
        + "\n\n"
    )
    assert [(o.name, o.version, o.file.path) for o in listed.list_deb_packages(text, URL)] == [
        ("libnvidia-container1", "1.20.1-1", "a.deb")
    ]


@pytest.mark.parametrize(
    ("stated", "size"), [("0", 0), ("3", 3), ("", -1), ("-3", -1), ("three", -1), ("\u0663", -1)]
)
def test_a_size_is_a_number_or_is_not_stated(stated: str, size: int) -> None:
    (found,) = listed.list_deb_packages(stanza(Size=stated), URL)
    assert found.file.size == size


@pytest.mark.parametrize(
    "name",
    [
        "../a.deb",
        "/etc/passwd",
        "pool/../../a.deb",
        "https://other.example.org/a.deb",
        "",
        "./.a.deb",
        "a b.deb",
    ],
)
def test_a_package_lies_within_its_repository(name: str) -> None:
    with pytest.raises(PlanError, match=r"\[bundle.file-outside\]$"):
        listed.list_deb_packages(stanza(Filename=name), URL)


@pytest.mark.parametrize(
    "digests", [{"SHA512": ""}, {"SHA512": "0" * 32}, {"SHA512": "", "MD5sum": "0" * 32}]
)
def test_a_package_without_a_digest_that_counts(digests: dict[str, str]) -> None:
    with pytest.raises(PlanError, match=r"a\.deb .*\[bundle.weak-digest\]$"):
        listed.list_deb_packages(stanza(**digests), URL)


LICENCES = {
    "one": (
        "Format: https://www.debian.org/doc/\n\nFiles: *\nLicense: Apache-2.0\n\nLicense: Apache-2.0\n text\n",
        ("Apache-2.0",),
    ),
    "two": (
        "Format: x\n\nLicense: BSD-3-Clause\n\nFiles: elf/*\nLicense: GPL-3+\n",
        ("BSD-3-Clause", "GPL-3+"),
    ),
    "free text": ("This is under the License: whatever\nLicense: none\n", ()),
    "nothing": ("", ()),
}


@pytest.mark.parametrize(("text", "named"), LICENCES.values(), ids=LICENCES)
def test_licences_are_the_fields_of_a_copyright_file(text: str, named: tuple[str, ...]) -> None:
    assert listed.list_licences(text) == named


def test_rpms_are_listed_without_the_databases_of_yum() -> None:
    files = bundles.rpm(("1.19.1-1", "1.20.1-1"))
    assert sorted(listed.map_repomd_files(files["repodata/repomd.xml"], URL)) == ["primary"]
    offers = listed.list_rpm_packages(
        gzip.decompress(files["repodata/primary.xml.gz"]), "x86_64", URL
    )
    assert {(o.version, o.licences, o.file.algorithm) for o in offers} == {
        (v, ("Apache-2.0",), "sha512") for v in ("1.19.1-1", "1.20.1-1")
    }
    assert (
        listed.list_rpm_packages(gzip.decompress(files["repodata/primary.xml.gz"]), "aarch64", URL)
        == ()
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<repomd",
        b"{}",
        b"<repomd/>",
        b'<repomd xmlns="http://linux.duke.edu/metadata/repo"/>',
    ],
)
def test_a_repomd_that_is_of_no_use(data: bytes) -> None:
    with pytest.raises(PlanError, match=r"\[bundle.not-(xml|rpm)\]$"):
        listed.map_repomd_files(data, URL)


def offers(*versions: str, without: str = "") -> list[listed.ListedPackage]:
    file = listed.ListedFile("a.deb", "sha512", SHA512, 3)
    return [
        listed.ListedPackage(name, version, file)
        for version in versions
        for name in packages.FAMILY
        if name != without
    ]


CHOICES = {
    "the newest, and not the last": (("1.20.1-1", "1.9.0-1", "1.19.1-1"), (), ["1.20.1-1"]),
    "a candidate for a release is older than it": (("1.20.0~rc.1-1", "1.20.0-1"), (), ["1.20.0-1"]),
    "a version without its packaging": (
        ("1.19.1-1", "1.19.1-2", "1.20.1-1"),
        ("1.19.1",),
        ["1.19.1-2"],
    ),
    "that very packaging": (("1.19.1-1", "1.19.1-2"), ("1.19.1-1",), ["1.19.1-1"]),
    "several, each once": (
        ("1.18.0-1", "1.19.1-1", "1.20.1-1"),
        ("1.20.1", "1.18.0", "1.20.1-1"),
        ["1.20.1-1", "1.18.0-1"],
    ),
}


@pytest.mark.parametrize(("there", "wanted", "chosen"), CHOICES.values(), ids=CHOICES)
def test_versions_are_chosen_whole(
    there: tuple[str, ...], wanted: tuple[str, ...], chosen: list[str]
) -> None:
    found = listed.choose_listed_packages(offers(*there), wanted, URL)
    assert list(dict.fromkeys(o.version for o in found)) == chosen
    assert len(found) == len(chosen) * len(packages.FAMILY)


def test_a_version_that_is_not_whole_is_not_chosen() -> None:
    found = listed.choose_listed_packages(
        [*offers("1.20.1-1", without="libnvidia-container1"), *offers("1.19.1-1")], (), URL
    )
    assert {o.version for o in found} == {"1.19.1-1"}


def test_packages_that_no_decision_needs_may_be_missing() -> None:
    assert listed.choose_listed_packages(
        offers("1.12.0-1", without="nvidia-container-toolkit-operator-extensions"), (), URL
    )


def test_what_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(
        PlanError, match=r"1\.21.* 1\.20\.1-1, 1\.19\.1-1 \[bundle.version-not-offered\]$"
    ):
        listed.choose_listed_packages(offers("1.19.1-1", "1.20.1-1"), ("1.21",), URL)
    with pytest.raises(PlanError, match=r"\[bundle.packages-missing\]$"):
        listed.choose_listed_packages([], (), URL)
