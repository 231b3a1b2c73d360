# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The package repository of the NVIDIA Container Toolkit and its key, for apt, dnf and zypper. A mirror is just another address."""

from __future__ import annotations

import base64
import dataclasses as dc
import hashlib
import re
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import ask, wholefile
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import Plan, PlanError, merge
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import File, Observation

BEGIN, END = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
HEADER = re.compile(r"[A-Za-z][A-Za-z-]*: [ -~]*")
BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
CHECKSUM = re.compile(r"=[A-Za-z0-9+/]{4}")
# Signature, primary key, trust, user id, subkey, user attribute (RFC 4880, 4.3).
PRIMARY, PACKETS = 6, (2, 6, 12, 13, 14, 17)
ONE_KEY = "pass the text of an .asc file with one key and nothing else, as gpg --armor --export FINGERPRINT writes it"
WHY = "the toolkit's packages come from here"


@dc.dataclass(frozen=True)
class Family:
    """Where one package manager wants its files. {url}, {key} are filled in."""

    manager: str
    key_path: str
    list_path: str
    text: str


FAMILIES: Mapping[str, Family] = {
    "debian": Family(
        "apt",
        "/etc/apt/keyrings/gpufleet-nvidia.asc",
        "/etc/apt/sources.list.d/gpufleet-nvidia.sources",
        "# gpufleet.nvidia\nTypes: deb\nURIs: {url}\nSuites: /\nSigned-By: {key}\n",
    ),
    # Written from the formats' documentation; not exercised by the lab, which has Debian hosts only.
    "fedora": Family(
        "dnf",
        "/etc/pki/rpm-gpg/RPM-GPG-KEY-gpufleet-nvidia",
        "/etc/yum.repos.d/gpufleet-nvidia.repo",
        "# gpufleet.nvidia\n[gpufleet-nvidia]\nname=NVIDIA Container Toolkit\nbaseurl={url}\nenabled=1\n"
        "gpgcheck=0\nrepo_gpgcheck=1\ngpgkey=file://{key}\n",
    ),
    "suse": Family(
        "zypper",
        "/etc/pki/rpm-gpg/RPM-GPG-KEY-gpufleet-nvidia",
        "/etc/zypp/repos.d/gpufleet-nvidia.repo",
        "# gpufleet.nvidia\n[gpufleet-nvidia]\nname=NVIDIA Container Toolkit\nbaseurl={url}\nenabled=1\n"
        "autorefresh=1\nrepo_gpgcheck=1\ngpgkey=file://{key}\n",
    ),
}
PATHS = frozenset(path for f in FAMILIES.values() for path in (f.key_path, f.list_path))
LIKE = {
    **dict.fromkeys(("debian", "ubuntu"), "debian"),
    **dict.fromkeys(("fedora", "rhel", "centos"), "fedora"),
    **dict.fromkeys(("suse", "opensuse"), "suse"),
}


def family(os_release: Mapping[str, str]) -> Family:
    for name in [os_release.get("ID", ""), *os_release.get("ID_LIKE", "").split()]:
        if name in LIKE:
            return FAMILIES[LIKE[name]]
    known = ", ".join(sorted(LIKE))
    raise PlanError(
        f"unknown distribution {os_release.get('ID') or '(it gives no name)'}",
        where="/etc/os-release",
        why=f"known are {known}",
        next="install the packages yourself and set packages: ignore",
    )


def fingerprint(key: str) -> str:
    """SHA-1 fingerprint (RFC 4880, 12.2) of the one primary key that the text holds, upper case hex.

    The whole text becomes the package manager's keyring, so it may hold nothing else: a second key, in the same block or in another, would
    be trusted as the first is, though nobody has compared its fingerprint.
    """
    if not key.partition(BEGIN)[2].partition(END)[0].strip():
        raise PlanError("the repository key is no armored OpenPGP public key", why=f"no {BEGIN}", next="pass the text of the .asc file")
    try:
        body = _primary(_dearmored(key))
    except ValueError as error:
        raise PlanError("the repository key cannot be read", why=str(error), next="fetch it again; it may be cut short") from error
    except IndexError as error:
        raise PlanError("the repository key cannot be read", why="it ends too early", next="fetch it again; it may be cut short") from error
    return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest().upper()  # noqa: S324 - the format's own digest


def _more(what: str) -> PlanError:
    return PlanError("the repository key is more than one key", why=f"it holds {what}", next=ONE_KEY)


def _dearmored(key: str) -> bytes:
    """The bytes of the one armored block. Strict, lest a package manager's parser find more in it than this one."""
    lines = [line.rstrip() for line in key.replace("\r\n", "\n").strip().split("\n")]
    if lines[0] != BEGIN or lines[-1] != END:
        raise _more("text outside of the armored block")
    inside = lines[1:-1]
    if any(line.startswith("-----") for line in inside):
        raise _more("a second armored block")
    blank = inside.index("") if "" in inside else -1
    headers, body = inside[: max(blank, 0)], inside[blank + 1 :]
    if body and CHECKSUM.fullmatch(body[-1]):
        body = body[:-1]
    if any(not HEADER.fullmatch(line) for line in headers) or any(not BASE64.fullmatch(line) for line in body):
        raise ValueError("a line of its armored block is neither a header nor base64")
    return base64.b64decode("".join(body), validate=True)


def _primary(data: bytes) -> bytes:
    """The body of the one primary key among the packets, each of which has to be one that a public key consists of."""
    found: list[bytes] = []
    at = 0
    while at < len(data) or not found:
        kind, body, at = _packet(data, at)
        if kind not in PACKETS:
            raise _more(f"a packet of type {kind}, which is no part of a public key")
        if kind == PRIMARY:
            found.append(body)
        elif not found:
            raise ValueError("its first packet is not a whole version 4 public key")
    if len(found) > 1:
        raise _more(f"{len(found)} primary keys, and only one fingerprint is compared")
    if not found[0] or found[0][0] != 4:
        raise ValueError("its first packet is not a whole version 4 public key")
    return found[0]


def _packet(data: bytes, at: int) -> tuple[int, bytes, int]:
    """(type, body, where the next one begins) of the packet at this place (RFC 4880, 4.2)."""
    tag = data[at]
    if not tag & 0x80:
        raise ValueError("it holds bytes that are no packet")
    if tag & 0x40:
        kind, (length, start) = tag & 0x3F, _new_length(data, at)
    else:
        kind, size = (tag >> 2) & 0x0F, 1 << (tag & 3)
        if size == 8:
            raise ValueError("it holds a packet without a length")
        length, start = int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size
    body = data[start : start + length]
    if len(body) < length:
        raise ValueError("one of its packets is cut short")
    return kind, body, start + length


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    """(length, where the body begins) of a packet in the new format."""
    first = data[at + 1]
    if first < 192:
        return first, at + 2
    if first < 224:
        return ((first - 192) << 8) + data[at + 2] + 192, at + 3
    if first < 255:
        raise ValueError("it holds a packet in parts")
    return int.from_bytes(data[at + 2 : at + 6], "big"), at + 6


def questions(families: tuple[Family, ...] = tuple(FAMILIES.values())) -> list[ask.Question]:
    return [wholefile.ORIGINALS, *(ask.file(path) for f in families for path in (f.key_path, f.list_path))]


def plan(obs: Observation, *, url: str, key: str, expected: str, state: str) -> Plan:
    """Two whole files. The key's fingerprint is compared before anything is written."""
    if not url.startswith(("http://", "https://", "file://")):
        raise PlanError(f"{url!r} is no address of a repository", next="give a http, https or file address")
    where = family(obs.host.get("os_release") or {})
    if state == "absent":
        return _remove(obs, where)
    found, wanted = fingerprint(key), expected.replace(" ", "").upper()
    if wanted and found != wanted:
        raise PlanError(
            "the repository key is not the one expected",
            why=f"its fingerprint is {found}, expected {wanted}",
            next="do not install from there before you know why",
        )
    return merge(
        [
            _file(obs.file(where.key_path), key.strip() + "\n", "key", found),
            _file(obs.file(where.list_path), where.text.format(url=url, key=where.key_path), "repository", url),
        ]
    )


def _file(now: File, text: str, what: str, after: str) -> Plan:
    if now.exists and now.content == text:
        return Plan()
    plan = wholefile.write(now, text, key=what, after=after, why=WHY)
    return dc.replace(plan, expect_files={now.path: now.sha256 if now.exists else None})


def _remove(obs: Observation, where: Family) -> Plan:
    """What stood there before comes back. Both names are this collection's own, so that whoever wrote to the files since, they go."""
    files = [wholefile.readable(obs.file(path)) for path in (where.list_path, where.key_path)]
    plans = [wholefile.give_back(obs, f, why="state: absent", ours=f.exists) for f in files]
    changed = {c["path"] for p in plans for c in p.changes}
    return dc.replace(merge(plans), expect_files={f.path: f.sha256 if f.exists else None for f in files if f.path in changed})
