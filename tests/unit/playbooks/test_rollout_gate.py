# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A window that closes while a rollout is on its way, and a check of one's own after the soak; on
bare trees.
"""

from __future__ import annotations

import datetime
import shutil
import zoneinfo
from pathlib import Path

import yaml

from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play, written
from tests.unit.playbooks.rollouts import batches, changed, fleet, told

# A zone of our own, whose clock is put on by one of the test's tasks: nobody has to wait for a real
# one.
ZONE = "Lab/Clock"
WINDOW = f"11:00-14:00 {ZONE}"


def clock(place: Path, hour: int) -> Path:
    """A zone in which it is this hour now. Zones named Etc/GMT+N lie N hours behind UTC."""
    behind = (datetime.datetime.now(datetime.UTC).hour - hour + 12) % 24 - 12
    name = f"Etc/GMT{behind:+d}" if behind else "Etc/GMT"
    zones = [Path(top) / name for top in zoneinfo.TZPATH if (Path(top) / name).exists()]
    path = place / f"clock-{hour}"
    path.write_bytes(zones[0].read_bytes())
    return path


def test_a_window_that_closes_between_two_batches_pauses_the_rollout_and_the_next_one_goes_on(
    tmp_path: Path,
) -> None:
    inventory = fleet(tmp_path)
    zone = tmp_path / "zones" / ZONE
    zone.parent.mkdir(parents=True)
    shutil.copy(clock(tmp_path, 12), zone)
    closes = [
        {
            "ansible.builtin.copy": {
                "src": str(clock(tmp_path, 17)),
                "dest": str(zone),
                "mode": "0644",
            }
        }
    ]
    written(tmp_path / "closes.yml", yaml.safe_dump(closes))
    settings = {
        "gpufleet_hosts": "gpu_hosts",
        "gpufleet_rollout_window": WINDOW,
        "gpufleet_rollout_tasks": {"after": "closes.yml"},
    }
    extra = written(tmp_path / "extra.yml", yaml.safe_dump(settings))
    arguments = [
        "-i",
        inventory,
        "gpufleet.nvidia.rollout",
        "-e",
        f"@{extra}",
        "--limit",
        "gpu1:gpu2:gpu3:gpu9",
    ]
    status, words = bare.run(
        tmp_path, "ansible-playbook", *arguments, PYTHONTZPATH=str(tmp_path / "zones")
    )
    assert status == 0, words
    assert len(batches(words)[0]) == len(changed(tmp_path)) == 2, "the canaries alone"
    assert (
        f"the rollout is paused: the window is closed (gpufleet_rollout_window: {WINDOW})"
        in " ".join(words.split())
    )
    assert sorted(told(words).values()) == ["pending", "pending", "yes", "yes"]
    shutil.copy(clock(tmp_path, 12), zone)
    status, words = bare.run(
        tmp_path, "ansible-playbook", *arguments, PYTHONTZPATH=str(tmp_path / "zones")
    )
    assert status == 0, words
    assert len(changed(tmp_path)) == 3, "one wave, then it closed again"


def test_a_check_of_ones_own_after_the_soak_fails_the_host_and_stops_its_class(
    tmp_path: Path,
) -> None:
    script = "if test $GPUFLEET_HOST = gpu2; then echo 3 ECC errors >&2; exit 4; fi"
    extra = {"gpufleet_rollout_soak": 1, "gpufleet_rollout_soak_command": ["/bin/sh", "-c", script]}
    status, words = play(
        tmp_path,
        fleet(tmp_path),
        "rollout",
        "--limit",
        "gpu1:gpu2:gpu9",
        gpufleet_rollout_max_failed=1,
        **extra,
    )
    assert status == 2, words
    assert told(words) == {"gpu1": "pending", "gpu2": "failed", "gpu9": "yes"}
    assert "gpufleet_rollout_soak_command ended with 4: 3 ECC errors" in " ".join(words.split())


def test_a_host_that_is_kept_out_of_service_keeps_its_group_in_service(tmp_path: Path) -> None:
    """Its work does not end. Of the hosts of its cluster one may be out of service, so no other one
    is taken, and gpu9 of another is.
    """
    busy = {
        "gpufleet_drain_commands": {
            "before": ["/bin/true"],
            "wait": ["/bin/false"],
            "after": ["/bin/true"],
        }
    }
    kept = {
        "gpufleet_drain": "always",
        "gpufleet_drain_timeout": 1,
        "gpufleet_drain_interval": 1,
        "gpufleet_drain_on_timeout": "keep",
    }
    hosts = {host: {**kept, **busy} for host in ("gpu1", "gpu2", "gpu3")}
    extra = {"gpufleet_rollout_canaries": 0, "gpufleet_rollout_waves": "100%"}
    status, words = play(
        tmp_path,
        fleet(tmp_path, gpu9={"gpufleet_cluster": "other"}, **hosts),
        "rollout",
        "--limit",
        "gpu1:gpu2:gpu3:gpu9",
        **extra,
    )
    assert status == 0, words
    assert told(words) == {"gpu1": "pending", "gpu2": "pending", "gpu3": "pending", "gpu9": "yes"}
    assert words.count("not drained within 1 s") >= 1
    whole = " ".join(words.split())
    assert "the rollout is paused: " in whole
    assert (
        "is still out of service, and of the cluster only 1 host may be at once (gpufleet_rollout_max_unavailable)"
        in whole
    )
    assert len({host for batch in batches(words) for host in batch} & set(hosts)) <= 1, words
