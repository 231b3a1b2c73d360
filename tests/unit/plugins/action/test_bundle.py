# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How an archive is made: from which files of a repository, and what is refused. Signatures are
judged for real in tests/integration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpufleet.nvidia.plugins.action import bundle
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    archives,
    arguments,
    online,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import manifest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
    repository,
    repository_key,
)

from tests.unit import bundles

URL = "https://mirror.example.org/deb"
FPR = bundles.FINGERPRINT


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The files of a repository, and which of them were asked for."""
    files: dict[str, bytes] = {}
    monkeypatch.setattr(online, "download", lambda url: files.get(url.removeprefix(URL + "/")))
    monkeypatch.setattr(
        bundle, "verify_signed_text", lambda _source, _name, data, _proof=None: data
    )
    return files


def part(
    form: str = manifest.APT, versions: tuple[str, ...] = ()
) -> tuple[manifest.Repository, dict[str, bytes]]:
    content: dict[str, bytes] = {}
    return bundle.read_repository_part(
        bundle.RepositorySource(form, "x86_64", URL, "key"), versions, content
    ), content


def test_only_the_chosen_packages_are_in_it(served: dict[str, bytes]) -> None:
    served.update(bundles.apt(("1.18.0-1", "1.19.1-1", "1.20.1-1")))
    found, content = part(versions=("1.18.0", "1.20.1"))
    assert found.versions == ("1.18.0-1", "1.20.1-1")
    assert found.indexes == ("InRelease", "Packages", "Packages.gz")
    assert {p.licences for p in found.packages} == {("Apache-2.0",)}
    assert content == {
        f"apt/x86_64/{name}": data for name, data in served.items() if "1.19.1" not in name
    }


def test_a_repository_with_sha512_alone_as_nvidias(served: dict[str, bytes]) -> None:
    served.update(bundles.apt(algorithm="SHA512"))
    assert {p.name for p in part()[0].packages} == set(packages.FAMILY)


def test_rpms_come_with_their_own_metadata(served: dict[str, bytes]) -> None:
    served.update(bundles.rpm())
    found, content = part(manifest.RPM)
    assert found.indexes == (
        "repodata/primary.xml.gz",
        "repodata/repomd.xml",
        "repodata/repomd.xml.asc",
    )
    assert {(p.version, p.licences) for p in found.packages} == {("1.20.1-1", ("Apache-2.0",))}
    assert content == {f"rpm/x86_64/{name}": data for name, data in served.items()}


def test_a_repository_without_inrelease(served: dict[str, bytes]) -> None:
    files = bundles.apt()
    served.update({**files, "Release": files.pop("InRelease"), "Release.gpg": b"signature"})
    served.pop("InRelease", None)
    assert part()[0].indexes == ("Packages", "Packages.gz", "Release", "Release.gpg")


DEB = "libnvidia-container1_1.20.1-1_amd64.deb"
BAD: dict[str, tuple[Callable[[dict[str, bytes]], Any], str]] = {
    "a package of another content": (
        lambda f: f.update({DEB: b"x" * len(f[DEB])}),
        f"{DEB}: the repository's file is not the one",
    ),
    "a package that is longer": (
        lambda f: f.update({DEB: f[DEB] + b"x"}),
        "the signed metadata has another sha256",
    ),
    "a package that is not there": (
        lambda f: f.pop(DEB),
        f"{DEB}: the repository does not have this file",
    ),
    "an index of another content": (
        lambda f: f.update({"Packages": b""}),
        "Packages: the repository's file is not the one",
    ),
    "no index": (
        lambda f: [f.pop(n) for n in ("Packages", "Packages.gz")],
        "the repository does not have its list of packages",
    ),
    "no signature": (
        lambda f: f.pop("InRelease"),
        "Release: the repository does not have this file",
    ),
}


@pytest.mark.parametrize(("change", "says"), BAD.values(), ids=BAD)
def test_what_does_not_fit_the_signed_metadata_ends_it(
    change: Callable[[Any], Any], says: str, served: dict[str, bytes]
) -> None:
    served.update(bundles.apt())
    change(served)
    with pytest.raises(PlanError, match=says):
        part()


def status(*lines: str) -> str:
    return "".join(f"[GNUPG:] {line}\n" for line in lines)


GOOD = (
    "NEWSIG",
    "GOODSIG 896FD3D81EF14AA0 lab",
    f"VALIDSIG {FPR} 2026-11-22 1 0 4 0 1 10 01 {FPR}",
)
OF_SUBKEY = ("NEWSIG", "GOODSIG 1 lab", f"VALIDSIG {'A' * 40} 2026-11-22 1 0 4 0 1 10 01 {FPR}")
SAID: dict[str, tuple[str, str]] = {
    "good": (status(*GOOD), ""),
    "good, by a subkey": (status(*OF_SUBKEY), ""),
    "good, of another key": (
        status("GOODSIG 1 x", f"VALIDSIG {'A' * 40} 1 1 0 4 0 1 10 01 {'A' * 40}"),
        "it has no signature of the key",
    ),
    "bad": (status("NEWSIG", "BADSIG 896FD3D81EF14AA0 lab"), "gpgv says BADSIG"),
    "of a key that has expired": (status("EXPKEYSIG 1 lab", GOOD[2]), "its key has expired"),
    "that has expired itself": (status("EXPSIG 1 lab", GOOD[2]), "gpgv says EXPSIG"),
    "of a key that was revoked": (status("REVKEYSIG 1 lab", GOOD[2]), "gpgv says REVKEYSIG"),
    "of a stranger": (
        status("ERRSIG 1 1 10 01 1 9", "NO_PUBKEY 1"),
        "gpgv says ERRSIG: another key has signed it",
    ),
    "a good one and a bad one": (status(*GOOD, "BADSIG 1 lab"), "gpgv says BADSIG"),
    "no signature": ("", "it has no signature of the key"),
    "a text that looks like one": (
        f"GOODSIG 1 lab\nVALIDSIG {FPR}\n",
        "it has no signature of the key",
    ),
    "a validity without a good word": (status(GOOD[2]), "it has no signature of the key"),
}


@pytest.mark.parametrize(("text", "says"), SAID.values(), ids=SAID)
def test_which_signature_counts(text: str, says: str) -> None:
    found = bundle.explain_signature_refusal(text, FPR)
    assert found.startswith(says)
    assert bool(found) == bool(says)


ADDRESSES = {
    "nvidia's": (
        "nvidia",
        ("x86_64", "aarch64"),
        ("apt",),
        ["stable/deb/arm64", "stable/deb/amd64"],
    ),
    "nvidia's, both formats": (
        "nvidia",
        ("x86_64",),
        ("rpm", "apt"),
        ["stable/deb/amd64", "stable/rpm/x86_64"],
    ),
    "a mirror's": ("https://m/deb/$(ARCH)/", ("x86_64",), ("apt",), ["https://m/deb/amd64"]),
    "a mirror's for rpm": (
        "https://m/rpm/$basearch",
        ("aarch64", "x86_64"),
        ("rpm",),
        ["https://m/rpm/aarch64", "https://m/rpm/x86_64"],
    ),
}


@pytest.mark.parametrize(("url", "machines", "formats", "ends"), ADDRESSES.values(), ids=ADDRESSES)
def test_each_part_has_its_address(
    url: str, machines: tuple[str, ...], formats: tuple[str, ...], ends: list[str]
) -> None:
    found = [
        s.address
        for s in bundle.list_repository_sources(
            {"url": url, "architectures": machines, "formats": formats}, "key"
        )
    ]
    assert [address.endswith(end) for address, end in zip(found, ends, strict=True)] == [
        True
    ] * len(ends)


@pytest.mark.parametrize(
    ("machines", "formats"), [(["x86_64", "aarch64"], ["apt"]), (["x86_64"], ["apt", "rpm"])]
)
def test_one_address_is_not_several_repositories(machines: list[str], formats: list[str]) -> None:
    with pytest.raises(PlanError, match="one address cannot be that of several repositories"):
        bundle.list_repository_sources(
            {"url": URL, "architectures": machines, "formats": formats}, "key"
        )


KEYS: dict[str, tuple[Mapping[str, str], str]] = {
    "a mirror without a key": (
        {"url": URL, "key": "", "key_fingerprint": ""},
        "there is no key for the repository",
    ),
    "no key at all": (
        {"url": URL, "key": "key", "key_fingerprint": ""},
        r"\[repository.key-not-armored\]",
    ),
    "nvidia's key that cannot be fetched": (
        {"url": "nvidia", "key": "", "key_fingerprint": ""},
        r"\[repository.key-not-armored\]",
    ),
}


@pytest.mark.parametrize(("args", "says"), KEYS.values(), ids=KEYS)
def test_a_key_that_is_none(args: Mapping[str, str], says: str, served: dict[str, bytes]) -> None:
    with pytest.raises(PlanError, match=says):
        bundle.read_armored_key(args)


def test_nvidias_repository_is_known_by_the_fingerprint_of_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repository_key, "compute_key_fingerprint", lambda _key: FPR)
    with pytest.raises(PlanError) as refused:
        bundle.read_armored_key({"url": "nvidia", "key": "key", "key_fingerprint": ""})
    assert (refused.value.code, refused.value.values) == (
        "repository.other-key",
        {"found": FPR, "expected": repository.FINGERPRINT},
    )


def test_without_gpgv_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(
        PlanError,
        match=r"signatures cannot be verified on this controller \(there is no gpgv\). Install gnupg",
    ):
        bundle.require_gpgv()


def test_an_index_is_unpacked_by_its_name() -> None:
    source = bundle.RepositorySource("apt", "x86_64", URL, "key")
    assert bundle.unpack_index(source, "Packages", b"text") == b"text"
    for name, data in (
        ("Packages.gz", b"text"),
        ("Packages.xz", b"text"),
        ("primary.xml.zst", b"text"),
    ):
        with pytest.raises(PlanError, match="index cannot be unpacked"):
            bundle.unpack_index(source, name, data)


def test_what_the_page_shows_are_settings() -> None:
    """The options of docs/air-gap.md, by the names and values that it shows."""
    page = (Path(__file__).resolve().parents[4] / "docs/air-gap.md").read_text()
    shown = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    names = {
        f"gpufleet_bundle_{option}": option
        for option in ("file", "versions", "architectures", "formats")
    }
    assert set(shown) == set(names)
    given = {names[name]: value for name, value in shown.items()}
    assert (
        ArgumentSpecValidator(arguments.derive_argument_spec("bundle"))
        .validate(given)
        .error_messages
        == []
    )


def test_the_manifest_goes_first() -> None:
    assert archives.pack_archive({"a": b"", manifest.NAME: b""}).startswith(b"manifest.json")
