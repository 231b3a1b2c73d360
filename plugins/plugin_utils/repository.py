# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The package repository of the NVIDIA Container Toolkit and its key, for apt, dnf and zypper. A mirror is just another address."""

from __future__ import annotations

import base64
import dataclasses as dc
import hashlib
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import ask
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import Difference, Plan, PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import Observation

BEGIN, END = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"


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
    """SHA-1 fingerprint of the first primary key in an armored block (RFC 4880, 12.2), upper case hex."""
    body = key.partition(BEGIN)[2].partition(END)[0]
    if not body.strip():
        raise PlanError("the repository key is no armored OpenPGP public key", why=f"no {BEGIN}", next="pass the text of the .asc file")
    lines = body.replace("\r", "").strip("\n").split("\n")
    start = lines.index("") + 1 if "" in lines else 0
    try:
        data = base64.b64decode("".join(line for line in lines[start:] if line and not line.startswith("=")), validate=True)
        packet = _first_packet(data)
    except ValueError as error:
        raise PlanError("the repository key cannot be read", why=str(error), next="fetch it again; it may be cut short") from error
    except IndexError as error:
        raise PlanError("the repository key cannot be read", why="it ends too early", next="fetch it again; it may be cut short") from error
    return hashlib.sha1(b"\x99" + len(packet).to_bytes(2, "big") + packet).hexdigest().upper()  # noqa: S324 - the format's own digest


def _first_packet(data: bytes) -> bytes:
    """Body of the first packet, which has to be a version 4 public key."""
    tag = data[0]
    if tag & 0x40:
        kind, length, offset = tag & 0x3F, *_new_length(data)
    else:
        kind, size = (tag >> 2) & 0x0F, 1 << (tag & 3)
        length, offset = int.from_bytes(data[1 : 1 + size], "big"), 1 + size
    body = data[offset : offset + length]
    if kind != 6 or len(body) < length or body[0] != 4:
        raise ValueError("its first packet is not a whole version 4 public key")
    return body


def _new_length(data: bytes) -> tuple[int, int]:
    first = data[1]
    if first < 192:
        return first, 2
    if first < 224:
        return ((first - 192) << 8) + data[2] + 192, 3
    return int.from_bytes(data[2:6], "big"), 6


def questions(families: tuple[Family, ...] = tuple(FAMILIES.values())) -> list[ask.Question]:
    return [ask.file(path) for f in families for path in (f.key_path, f.list_path)]


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
    files = [(where.key_path, key.strip() + "\n", "key"), (where.list_path, where.text.format(url=url, key=where.key_path), "repository")]
    changes, differences, diffs, expect = [], [], [], {}
    for path, text, what in files:
        now = obs.file(path)
        if now.exists and now.content == text:
            continue
        changes.append({"path": path, "op": "write", "content": text, "mode": "0644", "expect": now.sha256})
        expect[path] = now.sha256
        before, after = "other content" if now.exists else None, url if what == "repository" else found
        differences.append(Difference("file", path, what, before, after, "the toolkit's packages come from here"))
        diffs.append((path, now.content or "", text))
    return Plan(differences=tuple(differences), changes=tuple(changes), expect_files=expect, diffs=tuple(diffs))


def _remove(obs: Observation, where: Family) -> Plan:
    there = [f for f in (obs.file(where.key_path), obs.file(where.list_path)) if f.exists]
    return Plan(
        differences=tuple(Difference("file", f.path, "", "present", None, "state: absent") for f in there),
        changes=tuple({"path": f.path, "op": "remove", "expect": f.sha256} for f in there),
        expect_files={f.path: f.sha256 for f in there},
        diffs=tuple((f.path, f.content or "", "") for f in there),
    )
