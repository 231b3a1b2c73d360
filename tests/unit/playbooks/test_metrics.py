# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics of hosts that are trees: written with the first change, silent afterwards, and gone with
state absent.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play, written

PLACE = "/srv/node-exporter"


def test_metrics_come_and_go_with_the_host(tmp_path: Path) -> None:
    hosts = {"gpu1": {**bare.variables(tmp_path, "gpu1"), "gpufleet_metrics_dir": PLACE}}
    inventory = written(
        tmp_path / "hosts.json", json.dumps({"all": {"children": {"gpu_hosts": {"hosts": hosts}}}})
    )
    file = tmp_path / f"trees/gpu1{PLACE}/gpufleet.prom"
    status, words = play(tmp_path, inventory, "site")
    assert status == 2, words
    assert "[metrics.no-directory]" in flat(words), words
    file.parent.mkdir(parents=True)
    file.parent.chmod(0o777)
    status, words = play(tmp_path, inventory, "site")
    assert (status, "1 host: 1 changed" in words) == (0, True), words
    assert "/srv/node-exporter may be written to by others (mode 0777)" in flat(words), words
    assert "[metrics.directory-untrusted]" in flat(words), words
    assert list(file.parent.iterdir()) == [], (
        "nothing is written where others may exchange it, and the host is converged all the same"
    )
    file.parent.chmod(0o755)
    status, words = play(tmp_path, inventory, "site")
    assert (status, "1 host: 1 changed" in words) == (0, True), words
    text = file.read_text()
    assert re.search(r"^gpufleet_last_change_timestamp_seconds [1-9]\d+$", text, re.MULTILINE)
    status, words = play(tmp_path, inventory, "site")
    assert (status, "1 host: 1 unchanged" in words) == (0, True), words
    assert file.read_text() == text
    status, words = play(tmp_path, inventory, "rollback")
    assert status == 0, words
    assert list(file.parent.iterdir()) == []
    file.parent.rmdir()
    status, words = play(tmp_path, inventory, "rollback")
    assert status == 0, f"node_exporter is gone, and everything is given back all the same: {words}"


def flat(words: str) -> str:
    return " ".join(words.split())
