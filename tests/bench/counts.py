# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SSH operations per host, counted by a wrapper that stands in for ssh."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping

from tests.bench.stage import OURS, Stage, Timed, changed, converged
from tests.tools import onlab

# As the driver writes it until the GPU has been used for the first time.
GPUS = "/opt/fakegpu/proc/driver/nvidia/gpus"
UNKNOWN = f"sed -i -E '/^GPU UUID/s/GPU-.*/GPU-????????-????-????-????-????????????/' {GPUS}/*/information"
# A change that has nothing to do with the CDI spec.
OTHER_MODE = """sed -i 's/^mode = .*/mode = "legacy"/' /etc/nvidia-container-runtime/config.toml"""
REPOSITORY = [
    {
        "hosts": "all",
        "gather_facts": False,
        "roles": ["gpufleet.nvidia.toolkit"],
        "vars": {"gpufleet_packages": "ignore"},
    }
]


@dc.dataclass(frozen=True)
class Count:
    what: str
    aim: int | None  # None: stated, no aim
    hosts: Mapping[str, int]

    @property
    def kept(self) -> bool:
        return self.aim is None or all(count <= self.aim for count in self.hosts.values())

    @property
    def words(self) -> str:
        """One number where all hosts are alike."""
        different = sorted(set(self.hosts.values()))
        if len(different) == 1:
            return str(different[0])
        return ", ".join(f"{name} {count}" for name, count in sorted(self.hosts.items()))


def count(what: str, aim: int | None, timed: Timed, hosts: tuple[str, ...]) -> Count:
    return Count(what, aim, {name: timed.run.operations.get(name, 0) for name in hosts})


def of_site(stage: Stage) -> list[Count]:
    """On an untouched fleet: the whole way of a user, with the repository and the verifications."""
    settings = {**onlab.settings(), "gpufleet_cdi_owner": "collection"}
    first = changed(stage.play("site", settings), stage.hosts)
    again = converged(stage.play("site", settings))
    bare = converged(stage.play("site", {"gpufleet_cdi_owner": "collection"}))
    return [
        count(
            "`site`, first: repository, packages, convergence, verification", 8, first, stage.hosts
        ),
        count(
            "`site`, converged, with a repository of your own and a verification",
            2,
            again,
            stage.hosts,
        ),
        count(
            "`site`, converged, without a repository and without a verification",
            1,
            bare,
            stage.hosts,
        ),
    ]


def count_host(stage: Stage) -> list[Count]:
    """On an untouched fleet: one task each. Leaves hosts that have the packages and nothing else."""
    hosts = stage.hosts
    stage.play(REPOSITORY, onlab.repository())
    with_packages = changed(stage.host(), hosts)
    idle = converged(stage.host())
    stage.host({**OURS, "state": "absent"})
    without = changed(stage.host(), hosts)
    still = converged(stage.host())
    stage.on_all(OTHER_MODE)
    other = changed(stage.host(), hosts)
    stage.host({**OURS, "state": "absent"})
    stage.on_all(f"cp -a {GPUS} /root/gpus; {UNKNOWN}")
    probed = changed(stage.host(), hosts)
    after = converged(stage.host())
    stage.host({**OURS, "state": "absent"})
    stage.on_all(f"cp -a /root/gpus/. {GPUS}; rm -r /root/gpus")
    written = changed(stage.spec(), hosts)
    kept = converged(stage.spec())
    stage.spec({**OURS, "state": "absent"})
    return [
        count("`cdi_spec`, converged", 1, kept, hosts),
        count("`cdi_spec`, changed: look with NVML, write", 2, written, hosts),
        count("`host`, converged", 1, worse(idle, still), hosts),
        count("`host`, converged, before the driver tells UUIDs", 1, after, hosts),
        count("`host`, changed, the CDI spec being right", 2, other, hosts),
        count(
            "`host`, changed, with a first CDI spec to be made, for which NVML is asked",
            2,
            without,
            hosts,
        ),
        count(
            "`host`, changed, with packages to install and a CDI spec to be made",
            6,
            with_packages,
            hosts,
        ),
        count("`host`, changed, before the driver tells UUIDs", 2, probed, hosts),
    ]


def worse(*runs: Timed) -> Timed:
    return max(runs, key=lambda timed: max(timed.run.operations.values(), default=0))
