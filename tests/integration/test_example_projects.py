# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each project in examples/ as it stands there: plan, site, site again, rollback; and the scenario
for CI.

Its hosts are bare trees, so this needs no lab; it takes too long for `make check`.
"""

from __future__ import annotations

import dataclasses as dc
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.tools.tables import read_column
from tests.unit.playbooks import bare

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
COLLECTIONS = str(ROOT / ".cache/collections")


@dc.dataclass(frozen=True)
class Host:
    """What a host of an example is: one engine with a configuration, and what the table says of
    containers there.
    """

    engine: str
    version: str
    injection: str

    @property
    def files(self) -> Mapping[str, str]:
        return {
            "containerd": {
                "etc/containerd/config.toml": f"version = {3 if self.version >= '2' else 2}\n"
            },
            "crio": {
                "etc/crio/crio.conf": "",
                "etc/crio/crio.conf.d/10-crio.conf": '[crio.runtime]\ndefault_runtime = "crun"\n[crio.runtime.runtimes.crun]\n'
                'runtime_path = "/usr/bin/crun"\nmonitor_path = "/usr/bin/conmon"\n',
            },
            "docker": {"etc/docker/daemon.json": '{"log-driver": "journald"}\n'},
        }[self.engine]


FLEETS = {
    "docker": {
        "ws1.example.org": Host("docker", "20.10.24", "nvidia-runtime"),
        "ws2.example.org": Host("docker", "26.1.5", "native-cdi"),
        "build1.example.org": Host("docker", "28.2.0", "native-cdi"),
    },
    "kubeadm": {
        "gpu1.example.org": Host("containerd", "1.7.24", "native-cdi"),
        "gpu2.example.org": Host("containerd", "2.1.4", "native-cdi"),
        "gpu3.example.org": Host("containerd", "2.1.4", "native-cdi"),
    },
    "mixed": {
        "gpu1.example.org": Host("containerd", "1.6.20", "nvidia-runtime (every container)"),
        "gpu2.example.org": Host("containerd", "2.1.4", "native-cdi"),
        "gpu3.example.org": Host("crio", "1.34.0", "native-cdi"),
        "ws1.example.org": Host("docker", "26.1.5", "native-cdi"),
    },
}


def project(place: Path, name: str) -> Path:
    """A copy of an example whose hosts are trees; that trees have no GPUs, packages or root is said
    in host_vars.
    """
    copy = place / name
    shutil.copytree(EXAMPLES / name, copy)
    for host, it in FLEETS[name].items():
        for file, text in it.files.items():
            (copy / "trees" / host / file).parent.mkdir(parents=True, exist_ok=True)
            (copy / "trees" / host / file).write_text(text)
        own = {
            "ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False,
            "gpufleet_root": str(copy / "trees" / host), "gpufleet_engines": [it.engine], "gpufleet_engine_version": it.version,
            "gpufleet_no_gpu": "prepare", "gpufleet_packages": "ignore", "gpufleet_toolkit_repository": "",
        }  # fmt: skip
        path = copy / "inventory/host_vars" / f"{host}.yml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(own))
    return copy


def play(place: Path, name: str, *arguments: str) -> str:
    command = ("-i", "inventory", name, "-e", "@rollout.yml", *arguments)
    status, words = bare.run(
        place, "ansible-playbook", *command, ANSIBLE_COLLECTIONS_PATH=COLLECTIONS, COLUMNS="200"
    )
    assert status == 0, words
    assert "[WARNING]" not in words, words
    return words


def content(place: Path) -> dict[str, bytes]:
    """What is in the trees but the journal."""
    files = [
        path
        for path in sorted((place / "trees").rglob("*"))
        if path.is_file() and "var/lib/gpufleet" not in str(path)
    ]
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


# their own tests: in this file, test_awx_workflow.py, test_runners.py and test_driver_change.py
ELSEWHERE = {
    "ci",
    "awx",
    "driver",
    "pull",
}


def test_every_example_has_a_fleet_here() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == {*FLEETS, *ELSEWHERE}


@pytest.mark.parametrize("name", FLEETS)
def test_an_example_does_what_its_readme_says(name: str, tmp_path: Path) -> None:
    place = project(tmp_path, name)
    before = content(place)
    planned = play(place, "gpufleet.nvidia.plan")
    assert read_column(planned, "INJECTION") == {
        host: it.injection for host, it in FLEETS[name].items()
    }, "and no host outside the group"
    assert set(read_column(planned, "CHANGED").values()) == {"would"}
    play(place, "gpufleet.nvidia.site", "--check", "--diff")
    assert content(place) == before
    assert set(read_column(play(place, "gpufleet.nvidia.site"), "CHANGED").values()) == {"yes"}
    assert content(place) != before
    assert set(read_column(play(place, "gpufleet.nvidia.site"), "CHANGED").values()) == {"no"}
    play(place, "gpufleet.nvidia.rollback")
    assert content(place) == before


def test_the_device_plugin_is_set_to_what_the_hosts_need() -> None:
    values = yaml.safe_load((EXAMPLES / "kubeadm/manifests/device-plugin-values.yml").read_text())
    hosts = yaml.safe_load((EXAMPLES / "kubeadm/inventory/group_vars/gpu_hosts.yml").read_text())
    assert hosts["gpufleet_device_plugin_strategy"] == [values["deviceListStrategy"]]


@pytest.mark.parametrize("scenario", ["default", "rollout"])
def test_a_scenario_for_ci_runs_without_a_lab(scenario: str, tmp_path: Path) -> None:
    """molecule as a user has it: create, converge, a second time without a change, verify, destroy."""
    if not Path(sys.executable).with_name("molecule").exists():
        pytest.skip("molecule is in the environment of the newest ansible-core only")
    shutil.copytree(EXAMPLES / "ci", tmp_path / "ci")
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    settled = {
        "ANSIBLE_COLLECTIONS_PATH": COLLECTIONS,
        "NO_COLOR": "1",
        "PATH": path,
        "HOME": str(tmp_path),
    }
    status, words = bare.run(tmp_path / "ci", "molecule", "test", "-s", scenario, **settled)
    assert status == 0, words
    done = re.findall(rf"{scenario} > (\w+): Executed: Successful", words)
    assert [
        step for step in ("create", "converge", "idempotence", "verify") if step not in done
    ] == [], words
