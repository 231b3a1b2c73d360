# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The package repository: a key is compared before anything is written, and the files suit the distribution."""

from __future__ import annotations

import base64
import hashlib

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import repository
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import Observation

BODY = b"\x04" + bytes(range(40))
OLD = bytes([0x98, len(BODY)]) + BODY  # old packet format, tag 6, one length byte
OLD_TWO = bytes([0x99, 0, len(BODY)]) + BODY
NEW = bytes([0xC6, len(BODY)]) + BODY
URL = "http://mirror.example.org/deb"


def armor(packet: bytes) -> str:
    return f"{repository.BEGIN}\nComment: test\n\n{base64.b64encode(packet).decode()}\n=abcd\n{repository.END}\n"


FINGERPRINT = hashlib.sha1(b"\x99" + len(BODY).to_bytes(2, "big") + BODY).hexdigest().upper()


@pytest.mark.parametrize("packet", [OLD, OLD_TWO, NEW], ids=["old format", "old format, two length bytes", "new format"])
def test_fingerprint(packet: bytes) -> None:
    assert repository.fingerprint(armor(packet)) == FINGERPRINT


@pytest.mark.parametrize(
    "key",
    [
        "",
        "ssh-ed25519 AAAA",
        armor(b""),
        armor(OLD[:20]),
        armor(b"\xc2" + NEW[1:]),
        armor(bytes([0xC6, 3]) + b"\x03ab"),
        armor(OLD).replace("=abcd", "%%%"),
    ],
)
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(PlanError, match="repository key"):
        repository.fingerprint(key)


def seen(os_id: str, like: str = "", **files: str) -> Observation:
    where = repository.family({"ID": os_id, "ID_LIKE": like})
    answers: dict = {f"file:{p}": {"exists": False} for p in (where.key_path, where.list_path)}
    for name, text in files.items():
        path = {"key": where.key_path, "list": where.list_path}[name]
        answers[f"file:{path}"] = {"exists": True, "type": "file", "content": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    return Observation({"os_release": {"ID": os_id, "ID_LIKE": like}}, answers)


@pytest.mark.parametrize(
    ("os_id", "like", "list_path"),
    [
        ("debian", "", "/etc/apt/sources.list.d/gpufleet-nvidia.sources"),
        ("ubuntu", "debian", "/etc/apt/sources.list.d/gpufleet-nvidia.sources"),
        ("rocky", "rhel centos fedora", "/etc/yum.repos.d/gpufleet-nvidia.repo"),
        ("sles", "suse", "/etc/zypp/repos.d/gpufleet-nvidia.repo"),
    ],
)
def test_each_distribution_gets_its_own_files_and_a_second_run_changes_nothing(os_id: str, like: str, list_path: str) -> None:
    plan = repository.plan(seen(os_id, like), url=URL, key=armor(OLD), expected=FINGERPRINT, state="present")
    assert plan.changes[1]["path"] == list_path
    assert URL in plan.changes[1]["content"]
    again = seen(os_id, like, key=plan.changes[0]["content"], list=plan.changes[1]["content"])
    assert repository.plan(again, url=URL, key=armor(OLD), expected="", state="present").empty
    gone = repository.plan(again, url=URL, key="", expected="", state="absent")
    assert [c["op"] for c in gone.changes] == ["remove", "remove"]


def test_another_key_than_expected_writes_nothing() -> None:
    with pytest.raises(PlanError, match="not the one expected"):
        repository.plan(seen("debian"), url=URL, key=armor(OLD), expected="00" * 20, state="present")


def test_an_unknown_distribution_and_a_bad_address_are_named() -> None:
    with pytest.raises(PlanError, match="unknown distribution plan9"):
        repository.family({"ID": "plan9"})
    with pytest.raises(PlanError, match="no address"):
        repository.plan(seen("debian"), url="mirror", key=armor(OLD), expected="", state="present")
