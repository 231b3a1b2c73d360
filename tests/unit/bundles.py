# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A repository of made-up packages as its signed metadata lists them, and an archive of it."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import archives
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import manifest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)

FINGERPRINT = "314710C951810363E9436EA3896FD3D81EF14AA0"
COPYRIGHT = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: Apache-2.0\n"


def digest(data: bytes, algorithm: str = "sha256") -> str:
    return hashlib.new(algorithm, data).hexdigest()


def tar(members: Mapping[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.type, member.size = kind, len(data) if kind == tarfile.REGTYPE else 0
            member.linkname = "/etc/shadow" if kind != tarfile.REGTYPE else ""
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def deb(name: str, copyright_file: str = COPYRIGHT) -> bytes:
    """Return an ar archive as dpkg-deb makes it, with a copyright file and nothing else."""
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": b"odd",
        "data.tar.gz": gzip.compress(
            tar({f"./usr/share/doc/{name}/copyright": copyright_file.encode()}), mtime=0
        ),
    }
    rows = [
        f"{part:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode()
        + data
        + b"\n" * (len(data) % 2)
        for part, data in parts.items()
    ]
    return b"!<arch>\n" + b"".join(rows)


def apt(
    versions: Sequence[str] = ("1.20.1-1",),
    *,
    algorithm: str = "SHA256",
    names: Sequence[str] = packages.FAMILY,
) -> dict[str, bytes]:
    """Return the files of a flat repository, whose InRelease is not signed."""
    files, stanzas = {}, []
    for version in versions:
        for name in names:
            file, data = f"{name}_{version}_amd64.deb", deb(name) + version.encode()
            files[file] = data
            sums = f"{algorithm}: {digest(data, algorithm)}\nMD5sum: {digest(data, 'md5')}"
            stanzas.append(
                f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nFilename: ./{file}\nSize: {len(data)}\n{sums}\n"
            )
    files["Packages"] = "\n".join(stanzas).encode()
    files["Packages.gz"] = gzip.compress(files["Packages"], mtime=0)
    lines = "".join(
        f" {digest(files[n], algorithm)} {len(files[n])} {n}\n"
        for n in ("Packages", "Packages.gz", "Packages.xz")
        if n in files
    )
    files["InRelease"] = (
        f"Origin: test\nDate: Fri, 27 Apr 2018 21:29:25 +0000\n{algorithm}:\n{lines}".encode()
    )
    return files


def rpm(versions: Sequence[str] = ("1.20.1-1",)) -> dict[str, bytes]:
    files, entries = {}, []
    for version in versions:
        for name in packages.FAMILY:
            file, data = f"{name}-{version}.x86_64.rpm", f"{name} {version}".encode()
            files[file] = data
            ver, _dash, rel = version.partition("-")
            entries.append(
                f'<package type="rpm"><name>{name}</name><arch>x86_64</arch><version epoch="0" ver="{ver}" rel="{rel}"/>'
                f'<checksum type="sha512" pkgid="YES">{digest(data, "sha512")}</checksum><size package="{len(data)}"/>'
                f'<location href="{file}"/><format><rpm:license>Apache-2.0</rpm:license></format></package>'
            )
    space = 'xmlns="http://linux.duke.edu/metadata/common" xmlns:rpm="http://linux.duke.edu/metadata/rpm"'
    primary = gzip.compress(f"<metadata {space}>{''.join(entries)}</metadata>".encode(), mtime=0)
    files["repodata/primary.xml.gz"] = primary
    proof = (
        f'<checksum type="sha512">{digest(primary, "sha512")}</checksum><size>{len(primary)}</size>'
    )
    data = "".join(
        f'<data type="{kind}">{proof}<location href="{href}"/></data>'
        for kind, href in (
            ("primary", "repodata/primary.xml.gz"),
            ("primary_db", "repodata/primary.sqlite.bz2"),
        )
    )
    files["repodata/repomd.xml"] = (
        f'<repomd xmlns="http://linux.duke.edu/metadata/repo">{data}</repomd>'.encode()
    )
    files["repodata/repomd.xml.asc"] = b"signature"
    return files


def content() -> dict[str, bytes]:
    """Return the files of an archive of the toolkit 1.20.1-1 for apt, without the manifest."""
    return {manifest.KEY: b"key\n", **{f"apt/x86_64/{name}": data for name, data in apt().items()}}


def described(files: Mapping[str, bytes]) -> manifest.Manifest:
    """Return the manifest of such files."""
    names = sorted(name.removeprefix("apt/x86_64/") for name in files if name.startswith("apt/"))
    debs = [name for name in names if name.endswith(".deb")]
    packages_ = tuple(
        manifest.Package(name.split("_")[0], name.split("_")[1], name, ("Apache-2.0",))
        for name in debs
    )
    indexes = tuple(name for name in names if name not in debs)
    repository = manifest.Repository(
        "apt", "x86_64", "https://mirror.example.org/deb", indexes, packages_
    )
    listed = {
        name: manifest.BundleFile(digest(data), len(data)) for name, data in sorted(files.items())
    }
    return manifest.Manifest(manifest.Key(FINGERPRINT), (repository,), listed)


def archive() -> bytes:
    files = content()
    return archives.pack_archive(
        {**files, manifest.NAME: manifest.render_manifest(described(files)).encode()}
    )
