# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make an archive of the toolkit's packages for hosts without a network. Only indexes and the
chosen packages are fetched.
"""

from __future__ import annotations

import bz2
import dataclasses as dc
import gzip
import hashlib
import lzma
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    archives,
    arguments,
    base,
    named_paths,
    online,
    outside,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import (
    key as bundle_key,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import (
    listed,
    manifest,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import (
    messages as bundle_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    repository,
    repository_key,
)

SPEC = arguments.derive_argument_spec("bundle")
SECONDS = 60  # limit for judging a signature
BAD = ("BADSIG", "EXPSIG", "EXPKEYSIG", "REVKEYSIG", "ERRSIG")
FAMILY = {manifest.APT: "debian", manifest.RPM: "fedora"}
UNPACK: Mapping[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".bz2": bz2.decompress,
}


@dc.dataclass(frozen=True)
class RepositorySource:
    """One repository for one architecture, with the key that signed it."""

    format: str
    architecture: str
    address: str
    key: str

    def fetch_file(self, path: str) -> bytes:
        """Return a file of the repository. Raise PlanError if it does not exist."""
        data = online.download(f"{self.address}/{path}")
        if data is None:
            raise PlanError(bundle_messages.FILE_MISSING.fill(), where=f"{self.address}/{path}")
        return data


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False
    BYPASS_HOST_LOOP = True

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)
        if not args["file"]:
            raise PlanError(bundle_messages.NO_FILE_NAMED.fill())
        path = named_paths.find_file_to_write(args["file"], "gpufleet_bundle_file")
        require_gpgv()
        key = read_armored_key(args)
        content: dict[str, bytes] = {manifest.KEY: (key.strip() + "\n").encode()}
        made = [
            read_repository_part(source, args["versions"], content)
            for source in list_repository_sources(args, key)
        ]
        described = manifest.Manifest(
            manifest.Key(
                repository_key.compute_key_fingerprint(key), bundle_key.get_key_expiry(key)
            ),
            tuple(made),
            {
                name: manifest.BundleFile(hashlib.sha256(data).hexdigest(), len(data))
                for name, data in sorted(content.items())
            },
        )
        text = manifest.render_manifest(described)
        manifest.parse_manifest(text)  # the text that is written can be read
        data = archives.pack_archive({**content, manifest.NAME: text.encode()})
        changed = not has_archive_bytes(path, data)
        if changed and not self._task.check_mode:
            outside.write_outside_file(path.parent, path.name, data, "gpufleet_bundle_file")
        return {
            "changed": changed,
            "file": str(path),
            "sha256": hashlib.sha256(data).hexdigest(),
            "size": len(data),
            "key": dc.asdict(described.key),
            "packages": [
                dict(dc.asdict(p), architecture=r.architecture, format=r.format)
                for r in made
                for p in r.packages
            ],
        }


def has_archive_bytes(path: Path, data: bytes) -> bool:
    """Tell whether the file has just these bytes. A file that cannot be read has not."""
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False


def read_armored_key(args: Mapping[str, Any]) -> str:
    """Return the armored key.

    Raise PlanError if there is none, or if it does not have the expected fingerprint.

    NVIDIA's key is fetched, and recognized by its fingerprint.
    """
    key, expected = args["key"], args["key_fingerprint"]
    if args["url"] == repository.NVIDIA:
        expected = expected or repository.FINGERPRINT
        key = key or (online.download(repository.KEY_URL) or b"").decode("utf-8", "replace")
    elif not key:
        raise PlanError(bundle_messages.NO_KEY.fill(), where=args["url"])
    repository_key.require_expected(repository_key.compute_key_fingerprint(key), expected)
    return str(key)


def list_repository_sources(args: Mapping[str, Any], key: str) -> list[RepositorySource]:
    """List each kind of repository for each architecture, in one order regardless of the order of
    the options.
    """
    wanted = [
        (form, machine)
        for form in sorted(set(args["formats"]))
        for machine in sorted(set(args["architectures"]))
    ]
    sources = [
        RepositorySource(form, machine, build_repository_address(args["url"], form, machine), key)
        for form, machine in wanted
    ]
    twice = {source.address for source in sources}
    if len(twice) < len(sources):
        raise PlanError(bundle_messages.ONE_ADDRESS.fill(), where=args["url"])
    return sources


def build_repository_address(url: str, form: str, machine: str) -> str:
    """Return the address of a repository for one form of packages and one machine.

    form: a key of FAMILY. machine: the architecture as `uname -m` names it.
    """
    plain = repository.FAMILIES[FAMILY[form]].nvidia if url == repository.NVIDIA else url
    return (
        plain.replace("$(ARCH)", repository.DEBIAN_NAMES.get(machine, machine))
        .replace("$basearch", machine)
        .rstrip("/")
    )


def read_repository_part(
    source: RepositorySource, versions: Sequence[str], content: dict[str, bytes]
) -> manifest.Repository:
    """Return what the archive holds of one repository. Add its files to the content."""
    indexes, offers = (
        read_apt_repository if source.format == manifest.APT else read_rpm_repository
    )(source)
    packages = []
    for offer in listed.choose_listed_packages(offers, versions, source.address):
        data = require_signed_digest(source, offer.file, source.fetch_file(offer.file.path))
        licences = offer.licences or archives.list_deb_licences(offer.name, data)
        packages.append(manifest.Package(offer.name, offer.version, offer.file.path, licences))
        indexes[offer.file.path] = data
    names = {package.file for package in packages}
    shown = outside.redact_address(source.address)
    part = manifest.Repository(
        source.format,
        source.architecture,
        shown,
        tuple(sorted(set(indexes) - names)),
        tuple(packages),
    )
    content.update({f"{part.place}/{name}": data for name, data in indexes.items()})
    return part


def read_apt_repository(
    source: RepositorySource,
) -> tuple[dict[str, bytes], tuple[listed.ListedPackage, ...]]:
    """Return the indexes of a repository, and the packages that they offer.

    apt reads InRelease first, and Release with Release.gpg if there is none.
    """
    signed = online.download(f"{source.address}/InRelease")
    if signed is not None:
        release, files = verify_signed_text(source, "InRelease", signed), {"InRelease": signed}
    else:
        release, proof = source.fetch_file("Release"), source.fetch_file("Release.gpg")
        verify_signed_text(source, "Release", release, proof)
        files = {"Release": release, "Release.gpg": proof}
    text = None
    for file in listed.list_release_indexes(release.decode("utf-8", "replace"), source.address):
        # a repository need not have all that its Release lists
        data = online.download(f"{source.address}/{file.path}")
        if data is not None:
            files[file.path] = require_signed_digest(source, file, data)
            text = unpack_index(source, file.path, data)
    if text is None:
        raise PlanError(bundle_messages.LIST_MISSING.fill(), where=source.address)
    return files, listed.list_deb_packages(text.decode("utf-8", "replace"), source.address)


def read_rpm_repository(
    source: RepositorySource,
) -> tuple[dict[str, bytes], tuple[listed.ListedPackage, ...]]:
    """Read a repository of RPM packages whose metadata is signed. Return its files by name, and its
    packages.

    Raise PlanError for a wrong signature or digest.
    """
    top, proof = (
        source.fetch_file("repodata/repomd.xml"),
        source.fetch_file("repodata/repomd.xml.asc"),
    )
    verify_signed_text(source, "repodata/repomd.xml", top, proof)
    signed = {"repodata/repomd.xml": top, "repodata/repomd.xml.asc": proof}
    files = listed.map_repomd_files(top, source.address)
    for file in files.values():
        signed[file.path] = require_signed_digest(source, file, source.fetch_file(file.path))
    primary = files["primary"].path
    return signed, listed.list_rpm_packages(
        unpack_index(source, primary, signed[primary]), source.architecture, source.address
    )


def require_signed_digest(source: RepositorySource, file: listed.ListedFile, data: bytes) -> bytes:
    """Return the bytes. Raise PlanError unless they are the ones that the signed metadata names."""
    if hashlib.new(file.algorithm, data).hexdigest() != file.digest or file.size not in (
        -1,
        len(data),
    ):
        message = bundle_messages.OTHER_FILE.fill(algorithm=file.algorithm)
        raise PlanError(message, where=f"{source.address}/{file.path}")
    return data


def unpack_index(source: RepositorySource, name: str, data: bytes) -> bytes:
    """Return the bytes of a compressed index. Raise PlanError if it cannot be unpacked."""
    unpack = UNPACK.get(Path(name).suffix)
    if unpack is None and Path(name).suffix in ("", ".xml"):
        return data
    try:
        if unpack:
            return unpack(data)
        why = "this release reads gz, xz and bz2"
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        why = str(error)
    raise PlanError(bundle_messages.UNPACKABLE.fill(cause=why), where=f"{source.address}/{name}")


def require_gpgv() -> str:
    """Return the program that judges signatures, since Python has none.

    Raise PlanError if there is none.
    """
    program = shutil.which("gpgv") or shutil.which("gpgv2")
    if not program:
        raise PlanError(bundle_messages.NO_GPGV.fill())
    return str(program)


def verify_signed_text(
    source: RepositorySource, name: str, data: bytes, proof: bytes | None = None
) -> bytes:
    """Return the signed text as gpgv writes it. Raise PlanError if the signature does not count.

    proof: a detached signature. Without it, the signature is part of the text.
    """
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
        place = Path(folder)
        (place / "key.gpg").write_bytes(repository_key.decode_armored_key(source.key))
        (place / "signed").write_bytes(data if proof is None else proof)
        command = [
            require_gpgv(),
            "--homedir",
            folder,
            "--status-fd",
            "1",
            "--keyring",
            str(place / "key.gpg"),
        ]
        if proof is None:
            command += ["--output", str(place / "text"), str(place / "signed")]
        else:
            (place / "text").write_bytes(data)
            command += [str(place / "signed"), str(place / "text")]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=SECONDS,
            )  # noqa: S603
        except subprocess.TimeoutExpired:
            raise build_refused_repository_error(
                source, name, bundle_messages.GPGV_LATE.fill(seconds=SECONDS)
            ) from None
        why = explain_signature_refusal(
            done.stdout, repository_key.compute_key_fingerprint(source.key)
        )
        if why:
            raise build_refused_repository_error(source, name, why)
        return (place / "text").read_bytes()


def explain_signature_refusal(status: str, fingerprint: str) -> str:
    """Return why a signature does not count, by the status lines of gpgv (doc/DETAILS of GnuPG); ''
    if it counts.
    """
    said = [
        line.split()[1:]
        for line in status.splitlines()
        if line.startswith("[GNUPG:] ") and len(line.split()) > 1
    ]
    words = {line[0] for line in said}
    if "EXPKEYSIG" in words:
        return bundle_messages.SIGNING_KEY_EXPIRED.fill()
    bad = [word for word in BAD if word in words]
    if bad:
        unknown = "NO_PUBKEY" in words
        row = bundle_messages.OTHER_KEY_SIGNED if unknown else bundle_messages.GPGV_REFUSES
        return row.fill(word=bad[0])
    good = "GOODSIG" in words and any(
        line[0] == "VALIDSIG" and line[-1] == fingerprint for line in said
    )
    return "" if good else bundle_messages.NOT_SIGNED_BY_KEY.fill(fingerprint=fingerprint)


def build_refused_repository_error(source: RepositorySource, name: str, why: str) -> PlanError:
    """Return the error about a file of a repository whose signature does not hold."""
    where = f"{outside.redact_address(source.address)}/{name}"
    return PlanError(bundle_messages.SIGNATURE.fill(cause=why), where=where)
