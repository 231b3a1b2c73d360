# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits of a keeping: bytes, what stays free, and one time for all packages."""

import contextlib
import os
import time
import types

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    journal_writer,
)

from .conftest import (
    DEB,
    INSTALLED,
    NAMES,
    OF_RPM,
    OLD,
    RPM,
    SIZE,
    SLOW,
    SMI,
    ask,
    limited,
    list_fetches,
    stanza,
)


@contextlib.contextmanager
def _hold_nothing(*_args, **_more):
    yield


def test_the_bytes_of_all_packages_count_together(host):
    smi = DEB.replace("libcuda1", "nvidia-smi")
    host.says = {
        "dpkg-query": INSTALLED + SMI,
        "apt-cache": stanza(OLD) + stanza(OLD).replace("libcuda1", "nvidia-smi"),
    }
    for file in (DEB, smi):
        (host.root / "archives" / file).write_bytes(OLD)
    said = ask(packages=NAMES, **limited(bytes=2 * SIZE - 1))
    assert [row["file"] for row in said["kept"]] == [DEB]
    assert [(row["name"], row["why"]) for row in said["left"]] == [("nvidia-smi", "too-large")]
    ask("remove")
    assert ask(packages=NAMES, **limited(bytes=2 * SIZE))["left"] == []


ROOM = [
    # bytes that are free, the reserve; why it is not kept
    (SIZE + 100, 100, ""),
    (SIZE + 99, 100, "no-room"),
]


@pytest.mark.parametrize(("free", "reserve", "why"), ROOM)
def test_a_part_of_the_file_system_stays_free(host, monkeypatch, free, reserve, why):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "archives" / DEB).write_bytes(OLD)
    room = types.SimpleNamespace(f_bavail=free, f_frsize=1)
    monkeypatch.setattr(os, "statvfs", lambda _path: room)
    assert [row["why"] for row in ask(**limited(reserve=reserve))["left"]] == [why] * bool(why)


def test_all_downloads_end_after_one_time(host, monkeypatch):
    host.says = {
        "dpkg-query": INSTALLED + SMI,
        "apt-cache": stanza(OLD) + stanza(OLD).replace("libcuda1", "nvidia-smi"),
    }
    host.fetches = OLD
    clock = iter([0.0, 59.0, 61.0])  # at the beginning, and before each of two downloads
    monkeypatch.setattr(time, "monotonic", lambda: next(clock, 61.0))
    monkeypatch.setattr(journal_writer, "hold_transaction_lock", _hold_nothing)
    said = ask(packages=NAMES)
    assert [row["name"] for row in said["kept"]] == ["libcuda1"]
    assert [(row["name"], row["why"]) for row in said["left"]] == [("nvidia-smi", "not-fetched")]
    assert len(list_fetches(host)) == 1


def test_a_slow_rpm_has_one_time_for_all_its_files(host, monkeypatch):
    names = ["libnvidia-ml", "nvidia-driver", "nvidia-settings"]
    host.says = {
        "rpm-q": "".join(OF_RPM.replace("libnvidia-ml", name) for name in names),
        "rpm-qp": SLOW,
    }
    for name in names:
        path = host.root / "cache/nvidia-1f/packages" / RPM.replace("libnvidia-ml", name)
        path.write_bytes(OLD)
    now, given, answer = [0.0], [], commands.run

    def run(argv, timeout=0, **more):
        if argv[1] == "-qp":  # it hangs, and takes all the time that it gets
            given.append(timeout)
            now[0] += timeout
        return answer(argv, timeout, **more)

    monkeypatch.setattr(commands, "run", run)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(journal_writer, "hold_transaction_lock", _hold_nothing)
    said = ask(manager="rpm", packages=names, **limited(seconds=90))
    assert [(row["name"], row["why"]) for row in said["left"]] == [(n, "unread") for n in names]
    assert given == [60, 30]
