# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write an archive of packages, with equal bytes for equal content, and read one without trusting
it.

Nothing is unpacked by a name that the archive contains.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

from ansible import constants
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    named_paths,
    outside,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import (
    archive_plan,
    listed,
    manifest,
    messages,
)

BLOCK = 1 << 20
COPYRIGHT = 1 << 20  # bytes of a copyright file that are read


def pack_archive(content: Mapping[str, bytes]) -> bytes:
    """Return the archive: the manifest first, then the other files by name.

    Their owner and time are not recorded.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(content, key=lambda name: (name != manifest.NAME, name)):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content[name]), 0o644
            archive.addfile(member, io.BytesIO(content[name]))
    return stream.getvalue()


def verify_archive(file: str) -> manifest.Manifest:
    """Return the manifest of an archive after comparing every byte.

    Raise PlanError with one sentence if anything is wrong.

    The processes of one run of Ansible share the result for the very same file.
    """
    path = named_paths.expand_named_path(file)
    try:
        with path.open("rb") as stream:
            status = os.fstat(stream.fileno())
            words = json.dumps(
                [
                    str(path.absolute()),
                    status.st_dev,
                    status.st_ino,
                    status.st_size,
                    status.st_mtime_ns,
                ]
            )
            known = (
                Path(constants.DEFAULT_LOCAL_TMP)
                / f"gpufleet-archive-{hashlib.sha256(words.encode()).hexdigest()}"
            )
            with contextlib.suppress(OSError, ValueError):
                return manifest.parse_manifest(known.read_text(encoding="utf-8"))
            text = _verify_manifest(stream)
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise PlanError(messages.UNREADABLE_ARCHIVE.fill(cause=cause), where=file) from None
    except ValueError as error:
        raise PlanError(
            messages.DAMAGED_ARCHIVE.fill(odd=read_error_message(error)), where=file
        ) from None
    with contextlib.suppress(OSError):
        spare = known.with_name(f"{known.name}.{os.getpid()}")
        spare.write_text(text, encoding="utf-8")
        spare.replace(known)
    return manifest.parse_manifest(text)


def require_file(file: str) -> None:
    """Raise PlanError unless this is a file that can be read.

    Judging its content takes time, and happens when the content is needed.
    """
    path = named_paths.expand_named_path(file)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its writer
            raise PlanError(messages.NOT_A_FILE.fill(), where=file)
        path.open("rb").close()
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise PlanError(messages.UNREADABLE_ARCHIVE.fill(cause=cause), where=file) from None


def require_policy_archive(policy: Policy) -> None:
    """Raise PlanError if the packages of a policy cannot come from the archive that it names.

    No host is asked for that.
    """
    if policy.bundle_file and policy.state == "present":
        given = answer_archive_query(policy.bundle_file)
        archive_plan.require_usable_archive(
            policy,
            manifest.parse_manifest(given["manifest"]),
            given["key"],
            outside.format_present_time(),
        )


def answer_archive_query(file: str) -> dict[str, str]:
    """Answer the planner's query about an archive: its manifest and its key, as texts."""
    known = verify_archive(file)
    return {
        "manifest": manifest.render_manifest(known),
        "key": read_archive_files(file, [manifest.KEY])[manifest.KEY].decode("utf-8", "replace"),
    }


def fill_changes_from_archive(changes: Sequence[transaction.Change]) -> list[transaction.Change]:
    """Return the changes, with the bytes of the files that come from an archive."""
    wanted: dict[str, list[str]] = {}
    for change in changes:
        if change["op"] == "write" and "archived" in change:
            wanted.setdefault(change["archived"]["file"], []).append(change["archived"]["name"])
    contents = {file: read_archive_files(file, names) for file, names in wanted.items()}
    return [_fill_change(change, contents) for change in changes]


def _fill_change(
    change: transaction.Change, found: Mapping[str, Mapping[str, bytes]]
) -> transaction.Change:
    if change["op"] != "write" or "archived" not in change:
        return change
    data = found[change["archived"]["file"]][change["archived"]["name"]]
    plain: dict[str, Any] = {
        **change,
        "content": base64.b64encode(data).decode("ascii"),
        "encoding": "base64",
    }
    del plain["archived"]
    return cast(transaction.Change, plain)


def read_archive_files(file: str, names: Iterable[str]) -> dict[str, bytes]:
    """Return files of an archive: name -> bytes.

    Raise PlanError if their bytes differ from the manifest.

    The bytes are compared once more, because the archive may have been replaced meanwhile.
    """
    known, wanted = verify_archive(file), set(names)
    try:
        with named_paths.expand_named_path(file).open("rb") as stream:
            files = {
                member.name: _read_member(archive, member)
                for archive, member in _list_members(stream)
                if member.name in wanted
            }
    except (OSError, ValueError) as error:
        raise PlanError(
            messages.DAMAGED_ARCHIVE.fill(odd=read_error_message(error)), where=file
        ) from None
    for name in wanted:
        if name not in files or hashlib.sha256(files[name]).hexdigest() != known.files[name].sha256:
            raise PlanError(messages.REPLACED_ARCHIVE.fill(name=name), where=file)
    return files


def _verify_manifest(stream: IO[bytes]) -> str:
    """Return the text of the manifest.

    Raise ValueError if a file is missing, is not listed, or has other bytes than listed.
    """
    text, listed_, names = "", None, set()
    for archive, member in _list_members(stream):
        if listed_ is None:
            if member.name != manifest.NAME or member.size > manifest.LONGEST:
                raise ValueError(messages.ARCHIVE_WITHOUT_MANIFEST.fill(name=manifest.NAME))
            text = _read_member(archive, member).decode("utf-8", "replace")
            listed_ = manifest.parse_manifest(text).files
            continue
        file = listed_.get(member.name)
        if file is None or member.name in names:
            raise ValueError(
                messages.ARCHIVE_HOLDS_UNLISTED.fill(
                    file=ascii(member.name)[:80], name=manifest.NAME
                )
            )
        names.add(member.name)
        if (member.size, _digest(archive, member)) != (file.size, file.sha256):
            raise ValueError(
                messages.ARCHIVE_OTHER_BYTES.fill(file=member.name, name=manifest.NAME)
            )
    if listed_ is None:
        raise ValueError(messages.ARCHIVE_EMPTY.fill())
    if set(listed_) - names:
        raise ValueError(messages.ARCHIVE_LACKS.fill(file=min(set(listed_) - names)))
    return text


def _list_members(stream: IO[bytes]) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    with _require_whole_archive(), tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            if not member.isreg() or member.issparse():
                raise ValueError(messages.ARCHIVE_HOLDS_ODD.fill(file=ascii(member.name)[:80]))
            yield archive, member


@contextlib.contextmanager
def _require_whole_archive() -> Iterator[None]:
    """Raise ValueError with a sentence for what tarfile finds wrong.

    Headers with absurd sizes, or an endless chain of headers, make tarfile raise errors of
    Python's.
    """
    try:
        yield
    except (tarfile.TarError, EOFError, OverflowError, MemoryError, RecursionError) as error:
        raise ValueError(
            messages.ARCHIVE_TRUNCATED.fill(cause=str(error) or type(error).__name__)
        ) from None


def _blocks(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    stream = archive.extractfile(member)
    with _require_whole_archive():
        while stream and (block := stream.read(BLOCK)):
            yield block


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    return b"".join(_blocks(archive, member))


def _digest(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    digest = hashlib.sha256()
    for block in _blocks(archive, member):
        digest.update(block)
    return digest.hexdigest()


def list_deb_licences(name: str, data: bytes) -> tuple[str, ...]:
    """Return the licences in /usr/share/doc/NAME/copyright of a Debian package; () if it cannot be
    read.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(_find_deb_part(data))) as archive:
            wanted = f"usr/share/doc/{name}/copyright"
            for member in archive:
                if (
                    member.name.removeprefix("./") == wanted
                    and member.isreg()
                    and member.size <= COPYRIGHT
                ):
                    return listed.list_licences(
                        _read_member(archive, member).decode("utf-8", "replace")
                    )
    except Exception:  # each way to compress has exceptions of its own
        return ()
    return ()


def _find_deb_part(data: bytes) -> bytes:
    """Return data.tar.* of an ar archive (deb(5)); b'' if there is none."""
    at = 8
    while data[:8] == b"!<arch>\n" and at + 60 <= len(data):
        header = data[at : at + 60]
        size, at = int(header[48:58]), at + 60
        if size < 0:  # a negative size would lead back, again and again
            return b""
        if header.startswith(b"data.tar"):
            return data[at : at + size]
        at += size + size % 2
    return b""
