# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has which hosts, by files in a directory that others may use as well: what is not known is
never taken for nobody.
"""

from __future__ import annotations

import dataclasses as dc
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import claims
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

ROOT = Path(__file__).resolve().parents[4]
HERE = claims.find_process(os.getpid())
assert HERE
OWNERS: list[tuple[str, dict[str, Any], bool | None]] = [
    ("this very process", {}, True),
    ("one of that number before it", {"started": "1"}, False),
    ("one before this machine was booted", {"boot": "b", "space": "pid:[1]"}, False),
    (
        "one of another machine, whose home directory this is, too",
        {"machine": "other", "boot": "b"},
        None,
    ),
    ("one in a container on this machine", {"space": "pid:[1]"}, None),
]


@pytest.mark.parametrize(
    ("fields", "alive"), [case[1:] for case in OWNERS], ids=[case[0] for case in OWNERS]
)
def test_a_rollout_has_its_hosts_until_it_is_known_to_be_dead(
    fields: dict[str, Any], alive: bool | None, tmp_path: Path
) -> None:
    assert HERE
    owner = dc.replace(HERE, **fields)
    assert claims.is_process_alive(owner) is alive
    claims._write(
        claims._get_claim_file(tmp_path, owner),
        {"hosts": {"gpu1 b": "gpu1"}, "ended": [], "begun": "2", "about": ""},
        owner,
    )
    found = claims.list_claims_of_others(tmp_path)
    assert ("gpu1 b" in found.taken) is (alive is not False)
    assert ("gpu1 b" in found.unverified) is (alive is False)
    assert (
        "this machine cannot tell whether it still runs: remove" in found.taken.get("gpu1 b", "")
    ) is (alive is None)
    claims.take(tmp_path, {"gpu1": ("gpu1 b",)}, (), "3", "")
    assert claims._get_claim_file(tmp_path, owner).exists() is (alive is not False), (
        "what is not known to be dead is left alone"
    )


def test_a_process_that_cannot_be_read_is_not_known_to_be_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert HERE
    read = Path.read_text

    def deny(path: Path, *args: Any, **more: Any) -> str:
        if path == Path(f"/proc/{os.getpid()}/stat"):
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, *args, **more)

    monkeypatch.setattr(Path, "read_text", deny)
    assert claims.is_process_alive(HERE) is None


# A run that is killed while one of its children takes its hosts, as the plan of a large fleet does
# after its computing.
KILLED = """
import multiprocessing, os, pathlib, sys
sys.path.insert(0, sys.argv[1])
import conftest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import claims

def child(held, ends):
    os.close(held)
    os.read(ends, 1)  # until the parent is dead, which holds the other end
    before = multiprocessing.parent_process().pid
    while os.getppid() == before:
        pass
    claims.take(pathlib.Path(sys.argv[2]), {"gpu1": ("gpu1 b",)}, ("gpu1",), "2", "")
    os.write(1, b"taken")

ends, held = os.pipe()
process = multiprocessing.get_context("fork").Process(target=child, args=(held, ends))
process.start()
os.kill(os.getpid(), 9)
"""


def test_a_child_that_outlives_its_run_takes_no_host_in_the_name_of_whoever_is_its_parent_then(
    tmp_path: Path,
) -> None:
    # until the child has ended
    done = subprocess.run(
        [sys.executable, "-c", KILLED, ROOT, tmp_path], stdout=subprocess.PIPE, check=False
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"taken")
    assert claims.list_claims_of_others(tmp_path) == claims.Earlier({}, frozenset(), frozenset())
    assert list(tmp_path.iterdir()) == []


def known(
    boot: str, name: str = "gpu1", calls_itself: str = "gpu1", **variables: Any
) -> tuple[str, ...]:
    return claims.list_host_identities(
        name, {"work": {"hostname": calls_itself, "boot_id": boot} if boot else {}}, variables
    )


# What a second rollout sees: the host, its name in the inventory, whether it is the one that the
# first rollout has, whether it is in the same boot, and whether what the first one has left is
# settled once it is dead.
SECOND_LOOKS = [
    ("as before", known("b"), "gpu1", True, True, True),
    ("rebooted by the first rollout", known("c"), "gpu1", True, False, True),
    ("at another address", known("b", ansible_host="10.0.0.9"), "gpu1", True, True, True),
    (
        "by another name in the inventory, at its address",
        known("b", "node-1", ansible_host="gpu1"),
        "node-1",
        True,
        True,
        True,
    ),
    (
        "another host that takes its name and its boot",
        known("b", "gpu2", ansible_host="10.0.0.2"),
        "gpu2",
        True,
        True,
        False,
    ),
    ("another host", known("d", "gpu2"), "gpu2", False, False, False),
    (
        "another host behind the same address",
        known("d", ansible_port=2222),
        "gpu1",
        False,
        False,
        False,
    ),
    (
        "a host of another site with the same address",
        known("d", calls_itself="edge-7"),
        "gpu1",
        False,
        False,
        False,
    ),
    (
        "a directory tree of the same name",
        known("", gpufleet_root="/srv/tree"),
        "gpu1",
        False,
        False,
        False,
    ),
]


@pytest.mark.parametrize(
    ("seen", "name", "same", "boot", "settled"),
    [case[1:] for case in SECOND_LOOKS],
    ids=[c[0] for c in SECOND_LOOKS],
)
def test_a_host_that_a_rollout_has_is_recognised_after_its_reboot(
    seen: tuple[str, ...], name: str, same: bool, boot: bool, settled: bool, tmp_path: Path
) -> None:
    assert HERE
    claim = {"hosts": dict.fromkeys(known("b"), "gpu1"), "ended": [], "begun": "2", "about": ""}
    dead, path = dc.replace(HERE, started="1"), claims._get_claim_file(tmp_path, HERE)
    claims._write(path, claim, HERE)
    assert bool(claims.list_claims_of_others(tmp_path).find_holder(seen)) is same
    path.unlink()

    claims._write(claims._get_claim_file(tmp_path, dead), claim, dead)
    assert claims.list_claims_of_others(tmp_path).is_unverified(seen) is same
    claims._write(
        claims._get_claim_file(tmp_path, dead), {**claim, "ended": list(claim["hosts"])}, dead
    )
    assert claims.list_claims_of_others(tmp_path).is_verified(seen) is boot, (
        "a verification is of one boot"
    )
    left = claims.take(tmp_path, {name: seen}, (), "3", "")
    assert bool(left) is (same and not settled), (
        "people are told of a host that would be verified forever"
    )
    assert claims._get_claim_file(tmp_path, dead).exists() is not settled, (
        "what is settled leaves nothing behind"
    )


def test_a_claim_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty file after a power loss would stop every rollout."""
    assert HERE
    path, stored = claims._get_claim_file(tmp_path, HERE), []

    def synced(handle: int) -> None:
        assert not path.exists()
        stored.append(Path(f"/proc/self/fd/{handle}").read_text(encoding="utf-8"))

    monkeypatch.setattr(claims.os, "fsync", synced)
    claims._write(path, {"hosts": {"gpu1 b": "gpu1"}, "ended": [], "begun": "2", "about": ""}, HERE)
    assert stored == [path.read_text(encoding="utf-8")]


@pytest.mark.parametrize(
    ("mode", "owner", "refused"),
    [(0o700, 0, False), (0o755, 0, False), (0o777, 0, True), (0o770, 0, True), (0o700, 1001, True)],
)
def test_a_directory_that_others_may_write_to_says_nothing(
    mode: int, owner: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file there could give hosts to nobody, or say that a verification stands."""
    place = tmp_path / "rollouts"
    place.mkdir()
    place.chmod(mode)
    monkeypatch.setattr(claims, "get_claims_directory", lambda: place)
    monkeypatch.setattr(claims.os, "geteuid", lambda: place.stat().st_uid + owner)
    if not refused:
        with claims.lock_claims() as found:
            assert found == place
        return
    with (
        pytest.raises(PlanError, match="this directory cannot be used .others may write to it"),
        claims.lock_claims(),
    ):
        pass
    assert list(place.iterdir()) == []
