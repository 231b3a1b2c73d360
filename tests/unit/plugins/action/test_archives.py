# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives of packages: the same bytes each time, and read without believing any of it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import lzma
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible import constants
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import archives
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import manifest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit import bundles

DEB = "nvidia-container-toolkit-base_1.20.1-1_amd64.deb"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the processes of one run keep what they share."""
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path / "run"))


def test_what_is_packed_is_read(tmp_path: Path) -> None:
    place = tmp_path / "bundle.tar"
    place.write_bytes(bundles.archive())
    assert archives.verify_archive(str(place)) == bundles.described(bundles.content())
    name = f"apt/x86_64/{DEB}"
    assert archives.read_archive_files(str(place), [name]) == {name: bundles.content()[name]}


def test_nobody_and_no_time_is_in_an_archive() -> None:
    with tarfile.open(fileobj=io.BytesIO(bundles.archive())) as archive:
        assert {(m.uid, m.gid, m.uname, m.gname, m.mtime, m.mode) for m in archive} == {
            (0, 0, "", "", 0, 0o644)
        }


NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789._-~/\u00e9", min_size=1, max_size=150).filter(
    lambda name: not name.endswith("/")
)


@given(
    st.dictionaries(NAMES, st.binary(max_size=200), max_size=8), st.randoms(use_true_random=False)
)
def test_the_same_files_make_the_same_bytes(files: dict[str, bytes], chance: object) -> None:
    """In whatever order they come, and whatever the umask and the time are."""
    shuffled = list(files.items())
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert archives.pack_archive(dict(shuffled)) == archives.pack_archive(files)


def repacked(change: Callable[[dict[str, bytes]], object]) -> bytes:
    """An archive whose files were changed, while its manifest was not."""
    files = bundles.content()
    text = manifest.render_manifest(bundles.described(files)).encode()
    change(files)
    return archives.pack_archive({**files, manifest.NAME: text})


def joined(one: bytes, other: bytes) -> bytes:
    """Two archives as one."""
    with tarfile.open(fileobj=io.BytesIO(one)) as archive:
        end = max(m.offset_data + (m.size + 511) // 512 * 512 for m in archive)
    return one[:end] + other


def header(kind: bytes, size: int) -> bytes:
    """A header that says a size, which GNU's form has room for."""
    block = bytearray(tarfile.TarInfo("long").tobuf())
    block[124:136], block[156:157], block[148:156] = (
        b"\x80" + size.to_bytes(11, "big"),
        kind,
        b" " * 8,
    )
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


CUT = len(bundles.archive())
BAD: dict[str, tuple[bytes, str]] = {
    "another file in a package's place": (
        repacked(lambda f: f.update({f"apt/x86_64/{DEB}": b"x" * len(f[f"apt/x86_64/{DEB}"])})),
        f"apt/x86_64/{DEB} has not the bytes that its manifest.json says",
    ),
    "a longer package": (
        repacked(lambda f: f.update({f"apt/x86_64/{DEB}": f[f"apt/x86_64/{DEB}"] + b"x"})),
        "has not the bytes",
    ),
    "another key": (
        repacked(lambda f: f.update({"key.asc": b"yek\n"})),
        "key.asc has not the bytes",
    ),
    "a missing index": (
        repacked(lambda f: f.pop("apt/x86_64/InRelease")),
        "apt/x86_64/InRelease is missing in it",
    ),
    "a file more": (
        repacked(lambda f: f.update({"more": b""})),
        "it holds 'more', which its manifest.json does not list",
    ),
    "a file twice": (
        joined(bundles.archive(), bundles.tar({"key.asc": b"key\n"})),
        "it holds 'key.asc', which its manifest.json does not list",
    ),
    "a manifest twice": (
        joined(bundles.archive(), bundles.tar({manifest.NAME: b"{}"})),
        "it holds 'manifest.json'",
    ),
    "a name that leads out": (
        joined(bundles.archive(), bundles.tar({"../../etc/cron.d/x": b""})),
        "it holds '../../etc/cron.d/x'",
    ),
    "an absolute name": (
        joined(bundles.archive(), bundles.tar({"/etc/cron.d/x": b""})),
        "it holds '/etc/cron.d/x'",
    ),
    "a symbolic link": (
        joined(bundles.archive(), bundles.tar({"key.asc": b""}, tarfile.SYMTYPE)),
        "'key.asc', which is not a regular file",
    ),
    "a hard link": (
        joined(bundles.archive(), bundles.tar({"key.asc": b""}, tarfile.LNKTYPE)),
        "'key.asc', which is not a regular file",
    ),
    "a device": (
        joined(bundles.archive(), bundles.tar({"key.asc": b""}, tarfile.CHRTYPE)),
        "'key.asc', which is not a regular file",
    ),
    "a directory": (
        joined(bundles.archive(), bundles.tar({"apt": b""}, tarfile.DIRTYPE)),
        "'apt', which is not a regular file",
    ),
    "no manifest": (
        archives.pack_archive(bundles.content()),
        "it does not begin with a manifest.json",
    ),
    "a manifest that is none": (
        archives.pack_archive({manifest.NAME: b"{}"}),
        "its schema is None",
    ),
    "a manifest without end": (
        archives.pack_archive({manifest.NAME: b" " * (manifest.LONGEST + 1)}),
        "it does not begin with a manifest.json",
    ),
    "cut off in a package": (
        bundles.archive()[: CUT // 2],
        "truncated|is missing in it|has not the bytes",
    ),
    "cut off in its first block": (bundles.archive()[:300], "it is truncated, or no tar archive"),
    "nothing": (b"", "it is truncated, or no tar archive"),
    "only zeros": (b"\0" * 10240, "it is empty"),
    "a file longer than any disk": (
        header(tarfile.REGTYPE, 1 << 80),
        "it is truncated, or no tar archive|does not begin with",
    ),
    "a package longer than any disk": (
        joined(bundles.archive(), header(tarfile.REGTYPE, 1 << 80)),
        "it is truncated|does not list",
    ),
    "a name longer than any memory": (
        header(tarfile.GNUTYPE_LONGNAME, 1 << 80),
        "it is truncated, or no tar archive",
    ),
    "attributes longer than any memory": (
        header(tarfile.XHDTYPE, 1 << 62) + bytes(1024),
        "it is truncated, or no tar archive",
    ),
    "a name for a name without end": (
        (header(tarfile.GNUTYPE_LONGNAME, 5) + b"aaaaa".ljust(512, b"\0")) * 3000,
        "it is truncated, or no tar archive",
    ),
    "compressed": (gzip.compress(bundles.archive()), "it is truncated, or no tar archive"),
    "something else": (b"PK\x03\x04" + b"x" * 5000, "it is truncated, or no tar archive"),
}


@pytest.mark.parametrize(("data", "says"), BAD.values(), ids=BAD)
def test_an_archive_that_is_not_whole_is_refused_in_one_sentence(
    data: bytes, says: str, tmp_path: Path
) -> None:
    place = tmp_path / "bundle.tar"
    place.write_bytes(data)
    for _time in (1, 2):  # no verdict is kept of what was refused
        with pytest.raises(PlanError, match=says) as caught:
            archives.verify_archive(str(place))
        assert str(caught.value).startswith(f"{place}: this archive of packages cannot be used (")
        assert str(caught.value).isprintable()
    assert [*(tmp_path / "run").iterdir()] == []


@given(st.integers(min_value=0, max_value=CUT - 1))
def test_no_cut_goes_unnoticed_where_it_takes_bytes(at: int) -> None:
    """The zeros that are cut at the end of an archive never belonged to a file."""
    data = bundles.archive()[:at]
    try:
        text = archives._verify_manifest(io.BytesIO(data))
    except ValueError:
        return
    assert text == manifest.render_manifest(bundles.described(bundles.content()))
    assert bundles.archive()[at:].strip(b"\0") == b""


@pytest.mark.parametrize("name", ["missing.tar", "run"])
def test_a_file_that_cannot_be_read_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        PlanError,
        match=f"{name}: this archive of packages cannot be used .*Name a file of this controller",
    ):
        archives.verify_archive(str(tmp_path / name))


def test_one_process_of_a_run_reads_it_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "bundle.tar"
    place.write_bytes(bundles.archive())
    archives.verify_archive(str(place))
    monkeypatch.setattr(
        archives, "_verify_manifest", lambda _stream: pytest.fail("it was read again")
    )
    assert archives.verify_archive(str(place)) == bundles.described(bundles.content())


def test_an_archive_that_changes_while_hosts_do_is_not_used(tmp_path: Path) -> None:
    """With its old size and time, so that what was found of it still counts."""
    place, name = tmp_path / "bundle.tar", f"apt/x86_64/{DEB}"
    place.write_bytes(bundles.archive())
    archives.verify_archive(str(place))
    found = place.stat()
    with place.open("r+b") as stream:
        stream.write(repacked(lambda f: f.update({name: b"x" * len(f[name])})))
    os.utime(place, ns=(found.st_atime_ns, found.st_mtime_ns))
    with pytest.raises(PlanError, match=f"{DEB} is not what it was when this run began"):
        archives.read_archive_files(str(place), [name])


def test_licences_are_read_from_a_package() -> None:
    assert archives.list_deb_licences(
        "libnvidia-container1", bundles.deb("libnvidia-container1")
    ) == ("Apache-2.0",)


def build_damaged_deb() -> bytes:
    """Return a package whose compressed files are damaged behind the first of them."""
    blocks = [hashlib.sha256(b"%d" % number).digest() for number in range(4096)]
    packed = bytearray(lzma.compress(bundles.tar({"./usr/bin/first": b"".join(blocks)})))
    middle = len(packed) // 2
    packed[middle : middle + 8] = b"\xff" * 8
    return b"!<arch>\n" + f"{'data.tar.xz':<48}{len(packed):<10}`\n".encode() + bytes(packed)


ODD = {
    "no package": b"PK\x03\x04",
    "nothing": b"",
    "of another package": bundles.deb("other"),
    "in free text": bundles.deb("libnvidia-container1", "Do as you like.\n"),
    "cut off": bundles.deb("libnvidia-container1")[:150],
    "damaged in its middle": build_damaged_deb(),
    "a size that leads back": b"!<arch>\n" + f"{'x':<48}{-60:<10}`\n".encode() * 2,
    "a size that is none": bundles.deb("libnvidia-container1").replace(
        b"4         `", b"x         `"
    ),
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_a_licence_that_cannot_be_read_is_left_out(data: bytes) -> None:
    assert archives.list_deb_licences("libnvidia-container1", data) == ()


def test_the_bytes_of_a_change_are_filled_in_when_it_is_sent(tmp_path: Path) -> None:
    place, name = tmp_path / "bundle.tar", f"apt/x86_64/{DEB}"
    place.write_bytes(bundles.archive())
    plain: transaction.Write = {"path": "/etc/a", "op": "write", "content": "text"}
    there: transaction.Archived = {"file": str(place), "name": name, "sha256": ""}
    archived: transaction.Write = {
        "path": "/b",
        "op": "write",
        "content": "",
        "mode": "0644",
        "archived": there,
    }
    text = base64.b64encode(bundles.content()[name]).decode()
    assert archives.fill_changes_from_archive(
        [plain, archived, {"path": "/c", "op": "remove"}]
    ) == [
        plain,
        {"path": "/b", "op": "write", "content": text, "mode": "0644", "encoding": "base64"},
        {"path": "/c", "op": "remove"},
    ]
