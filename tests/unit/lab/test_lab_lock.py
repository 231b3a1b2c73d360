# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test the lock of a lab, whose file goes with the lab while others wait for it."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path
from typing import IO

import pytest

from tests.lab import claims
from tests.lab.lab import Lab


def test_one_that_waited_for_a_removed_lock_file_keeps_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "RUNTIME", tmp_path / "labs")
    lab = Lab("one", tmp_path)
    path = tmp_path / "labs/.one.lock"
    lock, waits, holds, done = fcntl.flock, threading.Event(), threading.Event(), threading.Event()

    def announced(handle: IO[str], operation: int) -> None:
        if threading.current_thread() is waiter:
            waits.set()
        lock(handle, operation)

    def wait() -> None:
        with lab._locked():
            holds.set()
            done.wait(10)

    waiter = threading.Thread(target=wait)
    monkeypatch.setattr(fcntl, "flock", announced)
    with lab._locked():
        waiter.start()
        assert waits.wait(10)
    assert holds.wait(10)
    with path.open("w") as other, pytest.raises(BlockingIOError):
        lock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    done.set()
    waiter.join()
    assert not path.exists()
