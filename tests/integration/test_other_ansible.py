# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other people's Ansible: releases, strategies, connections and settings of a user's own play do
what the usual ones do, on trees of this machine.

Programs that start containers are imitated: they run the command here, as their documentation says
that they run it in the container. Hosts are in test_other_ways.py.
"""

from __future__ import annotations

import base64
import os
import re
import stat
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests.integration.foreign import ways
from tests.integration.foreign.programs import find_programs, list_collections
from tests.unit.playbooks import bare

PLACE = Path(__file__).parent / "foreign"
HOSTS = ("gpu1", "gpu2")
SECRET = "S3CR3T"
CONFIG = f"""version = 2
[plugins."io.containerd.grpc.v1.cri".registry.configs."registry.example".auth]
  username = "alice"
  password = "{SECRET}"
"""
# `docker exec`, `podman exec` and `kubectl exec` run the command behind the container's name;
# `podman cp --pause=false` copies a file to `NAME:PATH`.
PROGRAM = """#!/bin/sh
case "$1" in version) echo 28.2.2; exit 0 ;; mount) exit 1 ;; cp) exec cp "$3" "${4#*:}" ;; esac
while [ $# -gt 0 ]; do
    word=$1; shift
    case "$word" in gpu[0-9]) break ;; esac
done
[ "$1" = -- ] && shift
exec "$@"
"""
OF_A_RUN = re.compile(r'"(id|time)": "[^"]*"')
PACKED = re.compile(r"[A-Za-z0-9+/]{60,}={0,2}")
NIGHT = pytest.mark.nightly(
    "by day the newest core as most people have it, and Mitogen; the others differ by one value each"
)


def make_inventory(place: Path, connection: str) -> Path:
    """Make two trees with a secret, and an inventory of them."""
    lines = []
    for host in HOSTS:
        tree = place / "trees" / host / "etc/containerd"
        tree.mkdir(parents=True)
        (tree / "config.toml").write_text(CONFIG)
        own = {
            "ansible_connection": ways.CONNECTIONS[connection],
            "ansible_python_interpreter": sys.executable,
            "ansible_remote_tmp": place / "remote",
            "ansible_kubectl_pod": host,
            "gpufleet_engine_version": "1.7.24",
            "gpufleet_no_gpu": "prepare",
            "gpufleet_root": place / "trees" / host,
        }
        lines.append(" ".join([host, *(f"{name}={value}" for name, value in own.items())]))
    return bare.written(place / "hosts", "\n".join(["[gpu_hosts]", *lines, ""]))


def play(way: ways.Way, place: Path) -> tuple[int, str]:
    """Run the play of another project, and return the exit status and the output."""
    programs = find_programs(ways.CORES[way.core])
    inventory = make_inventory(place, way.connection)
    (place / "bin").mkdir()
    for name in ways.PROGRAMS:
        bare.written(place / "bin" / name, PROGRAM).chmod(0o755)
    strategies = programs.parent.glob("lib/python3*/site-packages/ansible_mitogen/plugins/strategy")
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PATH": f"{place}/bin:{programs}:{os.environ['PATH']}",
        "ANSIBLE_COLLECTIONS_PATH": list_collections(),
        "ANSIBLE_CONNECTION_PLUGINS": str(PLACE / "connection_plugins"),
        "ANSIBLE_STRATEGY": way.strategy,
        "ANSIBLE_STRATEGY_PLUGINS": ":".join(map(str, strategies)),
        "ANSIBLE_HOME": str(place / "home"),
        "ANSIBLE_LOCAL_TEMP": str(place / "tmp"),
        "ANSIBLE_NOCOLOR": "1",
        **ways.SETTINGS[way.setting],
    }
    done = subprocess.run(
        [programs / "ansible-playbook", "-i", inventory, PLACE / "play.yml"],
        capture_output=True, text=True, check=False, cwd=place, env=environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def read_trees(place: Path) -> dict[str, str]:
    """Return the configuration of both trees, without the place where they lie, and without what
    belongs to one run.
    """
    return {
        str(path.relative_to(place)): OF_A_RUN.sub("", path.read_text().replace(str(place), ""))
        for path in sorted((place / "trees").glob("*/etc/**/*"))
        if path.is_file()
    }


def count_results(words: str) -> dict[str, tuple[int, ...]]:
    """Return changed, unreachable and failed of each host, of the recap. Releases count included
    roles differently as ok.
    """
    found = re.findall(
        r"^(gpu\d) +: ok=\d+ +changed=(\d+) +unreachable=(\d+) +failed=(\d+)", words, re.MULTILINE
    )
    return {host: tuple(map(int, numbers)) for host, *numbers in found}


@pytest.fixture(scope="module")
def standard(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], object]:
    """The usual way, by which the others are measured."""
    place = tmp_path_factory.mktemp("standard")
    status, words = play(ways.STANDARD, place)
    assert status == 0, words
    return read_trees(place), count_results(words)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(value, id=value.name, marks=mark)
        for value, mark in ((way, () if way in ways.BY_DAY else NIGHT) for way in ways.WAYS[1:])
    ],
)
def test_other_peoples_ansible_does_the_same(
    way: ways.Way, standard: tuple[dict[str, str], object], tmp_path: Path
) -> None:
    status, words = play(way, tmp_path)
    assert status == 0, words
    assert "Traceback" not in words
    assert not re.search(r"^\[(WARNING|DEPRECATION WARNING).*gpufleet", words, re.MULTILINE), words
    assert (read_trees(tmp_path), count_results(words)) == standard
    judge_what_stays(
        tmp_path / "remote",
        keeps=way.setting == "keep remote files" and not way.strategy.startswith("mitogen"),
    )


def judge_what_stays(place: Path, *, keeps: bool) -> None:
    """Judge what is left in the temporary directory of the host: nothing, or modules for the account
    alone, without a secret of the host.
    """
    left = sorted(path for path in place.glob("**/*") if path.is_file())
    assert bool(left) is keeps
    for path in left:
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        text = path.read_text()
        assert SECRET not in text
        assert not any(SECRET in unpack_word(word) for word in PACKED.findall(text))


def unpack_word(word: str) -> str:
    """Return what a word of base64 has packed; '' if nothing."""
    try:
        return zlib.decompress(base64.b64decode(word)).decode(errors="replace")
    except (ValueError, zlib.error):
        return ""


def test_the_table_has_each_value() -> None:
    assert {way.core for way in ways.WAYS} == set(ways.CORES)
    assert {way.strategy for way in ways.WAYS} == set(ways.STRATEGIES)
    assert {way.connection for way in ways.WAYS} == set(ways.CONNECTIONS)
    assert {way.setting for way in ways.WAYS} == set(ways.SETTINGS)
    assert len({way.name for way in ways.WAYS}) == len(ways.WAYS)
