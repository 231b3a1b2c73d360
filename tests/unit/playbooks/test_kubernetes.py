# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook `kubernetes` as a user runs it: files for a cluster of two kinds of host, again,
without one of them, and taken back.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.night import ONE_ROW, leave_rest
from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play, written
from tests.unit.playbooks.rollouts import DEAD

ROOT = Path(__file__).resolve().parents[3]
FILES = [
    "configmap.yaml",
    "helm/values.yaml",
    "nodes/gpu1.yaml",
    "nodes/old1.yaml",
    "runtimeclass-nvidia.yaml",
]
OWN = "# somebody's own\n"


def inventory(place: Path, **more: Any) -> Path:
    hosts = {
        host: {**bare.variables(place, host), "gpufleet_cluster": "north"}
        for host in ("gpu1", "old1")
    }
    hosts["old1"]["gpufleet_engine_version"] = "1.6.20"
    return written(
        place / "hosts.json",
        json.dumps({"all": {"children": {"gpu_hosts": {"hosts": {**hosts, **more}}}}}),
    )


def files(place: Path) -> dict[str, str]:
    return {
        str(path.relative_to(place)): path.read_text()
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


def test_a_cluster_is_written_once_and_taken_back(tmp_path: Path) -> None:
    place = tmp_path / "clusters/north"
    settings = {"gpufleet_kubernetes_dir": "clusters"}
    status, words = play(
        tmp_path, inventory(tmp_path), "kubernetes", "--check", "--diff", **settings
    )
    assert (status, place.exists()) == (0, False), words
    assert "+kind: RuntimeClass" in words
    status, words = play(tmp_path, inventory(tmp_path), "kubernetes", **settings)
    assert status == 0, words
    assert "cluster north: 2 hosts in 2 groups" in words
    first = files(place)
    assert list(first) == FILES
    assert all(isinstance(yaml.safe_load(text), dict) for text in first.values())
    place.joinpath("own.yaml").write_text(OWN)
    lost = {"old1": {**DEAD, "gpufleet_cluster": "north"}}
    enough = ("-e", "gpufleet_max_lost=50%")
    for hosts, arguments, end in (
        ({}, (), 0),
        (lost, (), 2),
        (lost, enough, 0),
        (lost, (*enough, "--limit", "old1"), 2),
    ):
        status, words = play(
            tmp_path, inventory(tmp_path, **hosts), "kubernetes", *arguments, **settings
        )
        assert (status, files(place)) == (end, {**first, "own.yaml": OWN}), words
        assert ("1 lost: old1" in words) == bool(end), words
    status, words = play(tmp_path, inventory(tmp_path), "kubernetes", "--limit", "gpu1", **settings)
    assert (status, files(place)) == (0, {**first, "own.yaml": OWN}), words
    place.joinpath("nodes/gpu1.yaml").write_text(
        first["nodes/gpu1.yaml"].replace("native-cdi-", "mine-")
    )
    status, words = play(tmp_path, inventory(tmp_path), "plan", **settings)
    assert (
        f"would change: file {place}/nodes/gpu1.yaml: the label nvidia.com/device-plugin.config chooses the node's group"
        in words
    ), words
    assert "gpu1: change the hosts first (gpufleet.nvidia.rollout), then apply" in words, words
    status, words = play(
        tmp_path, inventory(tmp_path), "kubernetes", gpufleet_kubernetes_state="absent", **settings
    )
    assert status == 0, words
    assert "gpufleet_kubernetes_state is absent" in words
    assert "change the hosts first" not in words
    assert files(place) == {"own.yaml": OWN}
    assert [path for path in place.rglob("*") if path.is_dir()] == [], (
        "the directories of what is gone"
    )


def test_what_came_from_a_vault_is_for_the_owner_alone(tmp_path: Path) -> None:
    """The file with the user's own values; what the collection makes itself may be read by others."""
    written(tmp_path / "password", "open")
    vault = [
        "ansible-vault",
        "encrypt_string",
        "--vault-password-file",
        str(tmp_path / "password"),
        "hidden-word",
        "--name",
        "token",
    ]
    done = subprocess.run(
        [str(Path(sys.executable).with_name(vault[0])), *vault[1:]],
        capture_output=True,
        text=True,
        check=True,
    )
    values = "gpufleet_kubernetes_values:\n  " + done.stdout.replace("\n", "\n  ")
    settings = [
        "-e",
        f"@{written(tmp_path / 'values.yml', values)}",
        "--vault-password-file",
        str(tmp_path / "password"),
    ]
    status, words = play(
        tmp_path, inventory(tmp_path), "kubernetes", *settings, gpufleet_kubernetes_dir="clusters"
    )
    assert status == 0, words
    place = tmp_path / "clusters/north"
    assert yaml.safe_load((place / "helm/values.yaml").read_text())["token"] == "hidden-word"
    readable = [name for name in FILES if (place / name).stat().st_mode & 0o077]
    assert readable == [name for name in FILES if name != "helm/values.yaml"]
    assert [name for name, text in files(place).items() if "hidden-word" in text] == [
        "helm/values.yaml"
    ]
    assert "hidden-word" not in words
    (place / "helm/values.yaml").chmod(0o644)  # as git gives it back
    for check in (["--check"], []):
        status, words = play(
            tmp_path,
            inventory(tmp_path),
            "kubernetes",
            *settings,
            *check,
            gpufleet_kubernetes_dir="clusters",
        )
        assert (status, "changed=1" in words) == (0, True), words
    assert (place / "helm/values.yaml").stat().st_mode & 0o777 == 0o600


def test_each_cluster_has_its_own_options(tmp_path: Path) -> None:
    """The hosts of `north` come first, and nothing that they say counts for `south`; neither does
    it where `south` says nothing.
    """
    folder = {"gpufleet_kubernetes_dir": str(tmp_path / "clusters")}
    said = {
        "north": {"gpufleet_kubernetes_profile": "operator", **folder},
        "south": folder,
        "west": {},
    }

    def run(*arguments: str, **north: str) -> str:
        own = {**said, "north": {**said["north"], **north}}
        hosts = {
            f"{name}1": {
                **bare.variables(tmp_path, f"{name}1"),
                "gpufleet_cluster": name,
                **own[name],
            }
            for name in own
        }
        inventory = written(
            tmp_path / "hosts.json",
            json.dumps({"all": {"children": {"gpu_hosts": {"hosts": hosts}}}}),
        )
        status, words = play(tmp_path, inventory, "kubernetes", *arguments)
        assert status == 0, words
        return words

    run()
    values = {
        name: yaml.safe_load((tmp_path / f"clusters/{name}/helm/values.yaml").read_text())
        for name in ("north", "south")
    }
    assert ("toolkit" in values["north"], "toolkit" in values["south"]) == (True, False)
    assert sorted(path.name for path in (tmp_path / "clusters").iterdir()) == ["north", "south"]
    before = files(tmp_path / "clusters/south")
    words = run(gpufleet_kubernetes_state="absent")
    assert (files(tmp_path / "clusters/north"), files(tmp_path / "clusters/south")) == (
        {},
        before,
    ), words


def test_what_one_host_of_a_cluster_says_is_not_said_for_the_others(tmp_path: Path) -> None:
    """Each would change the node of a host that has said nothing. A host without a GPU is out
    anyway, so nobody asks it.
    """
    settings = {"gpufleet_kubernetes_dir": "clusters"}
    assert play(tmp_path, inventory(tmp_path), "kubernetes", **settings)[0] == 0
    before = files(tmp_path / "clusters")
    for option, value in (
        ("state", "absent"),
        ("taints", ["nvidia.com/gpu=present:NoSchedule"]),
        ("namespace", "gpu"),
    ):
        gpu1 = {
            **bare.variables(tmp_path, "gpu1"),
            "gpufleet_cluster": "north",
            f"gpufleet_kubernetes_{option}": value,
        }
        status, words = play(tmp_path, inventory(tmp_path, gpu1=gpu1), "kubernetes", **settings)
        (error,) = bare.read_errors(words)
        said = f"gpufleet_kubernetes_{option} differs within the cluster north: {json.dumps(value)}"
        assert (error["code"], error["what"]) == (
            "cluster-run.option-differs",
            f"{said} for gpu1; not set for old1",
        )
        assert (status, files(tmp_path / "clusters")) == (2, before), words
    renamed = {
        name: text.replace("namespace: nvidia-device-plugin", "namespace: gpu")
        for name, text in before.items()
    }
    both = {"gpufleet_kubernetes_namespace": "gpu"}
    named = {
        host: {**bare.variables(tmp_path, host), "gpufleet_cluster": "north", **both}
        for host in ("gpu1", "old1")
    }
    named["old1"]["gpufleet_engine_version"] = "1.6.20"
    cpu1 = {
        **bare.variables(tmp_path, "cpu1"),
        "gpufleet_cluster": "north",
        "gpufleet_no_gpu": "skip",
    }
    status, words = play(
        tmp_path,
        inventory(tmp_path, **named, cpu1=cpu1),
        "kubernetes",
        "-e",
        "gpufleet_kubernetes_dir=clusters",
    )
    assert (status, files(tmp_path / "clusters"), "in no group: cpu1" in words) == (
        0,
        renamed,
        True,
    ), words
    status, words = play(tmp_path, inventory(tmp_path), "kubernetes", **settings)
    assert (status, files(tmp_path / "clusters")) == (0, before), words
    # The default, written down by one, is what the other has.
    gpu1 = {
        **bare.variables(tmp_path, "gpu1"),
        "gpufleet_cluster": "north",
        "gpufleet_kubernetes_state": "present",
    }
    status, words = play(tmp_path, inventory(tmp_path, gpu1=gpu1), "kubernetes", **settings)
    assert (status, files(tmp_path / "clusters")) == (0, before), words


def test_people_read_what_was_written_and_what_was_not(tmp_path: Path) -> None:
    place = tmp_path / "clusters/north"
    status, words = play(tmp_path, inventory(tmp_path), "kubernetes")
    assert (status, "[action.nothing-for-clusters]" in words) == (
        0,
        True,
    ), words
    status, words = play(
        tmp_path, inventory(tmp_path), "kubernetes", gpufleet_kubernetes_dir="clusters"
    )
    assert (
        status,
        f"  changed: file {place}/nodes/gpu1.yaml, {place}/nodes/old1.yaml: the label" in words,
    ) == (0, True), words
    assert "[action.nothing-for-clusters]" not in words
    status, words = play(
        tmp_path,
        inventory(tmp_path),
        "kubernetes",
        "--limit",
        "gpu1",
        gpufleet_kubernetes_dir="clusters",
    )
    left = (
        "  left as an earlier run wrote it, since no host of this run could say otherwise: old1\n"
    )
    assert (status, left in words, "changed: file" in words) == (0, True, False), words


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"gpufleet_kubernetes_mig_strategy": "auto"},
        "for gpu1, old1. Write none or single or mixed [cluster.choice]. Nothing was done",
    ),
    ({"gpufleet_fleet_policy": "uniform"}, "different decisions in the cluster north"),
    ({"gpufleet_kubernetes_profile": "helm"}, "[options.choice]"),
    (
        {"gpufleet_kubernetes_values": {"deviceListStrategy": "cdi-cri"}},
        "sets deviceListStrategy to",
    ),
    ({"gpufleet_kubernetes_taints": ["nvidia.com/gpu"]}, "gpufleet_kubernetes_taints has"),
    ({"gpufleet_kubernetes_namespace": "gpu.Plugin"}, "[cluster.label-name]"),
    (
        {"gpufleet_kubernetes_config_map": "Gpu_Plugin"},
        "'-' and dots, at most 253 [cluster.object-name]. Nothing",
    ),
]


@pytest.mark.parametrize(("wrong", "said"), leave_rest(ONE_ROW, WRONG, by_day=2))
def test_a_wrong_word_is_refused_before_a_file_is_written(
    wrong: dict[str, Any], said: str, tmp_path: Path
) -> None:
    settings = {"gpufleet_kubernetes_dir": "clusters"}
    status, words = play(tmp_path, inventory(tmp_path), "kubernetes", **settings, **wrong)
    assert (status, said in " ".join(words.split())) == (2, True), words
    assert not (tmp_path / "clusters").exists()


def test_the_examples_of_the_module_run(tmp_path: Path) -> None:
    examples = (
        (ROOT / "plugins/modules/kubernetes_objects.py")
        .read_text()
        .partition('EXAMPLES = r"""')[2]
        .partition('"""')[0]
    )
    tasks = [
        task
        for task in yaml.safe_load(examples)
        if not task.get("gpufleet.nvidia.kubernetes_objects", {}).get("apply")
    ]
    tasks[0]["gpufleet.nvidia.host_info"] = {
        "root": "{{ gpufleet_root }}",
        "engine_version": "{{ gpufleet_engine_version }}",
    }
    tasks[0]["gpufleet.nvidia.host_info"]["no_gpu"] = "prepare"
    hosts = written(
        tmp_path / "play.yml",
        yaml.safe_dump([{"hosts": "gpu1", "gather_facts": False, "tasks": tasks}]),
    )
    status, words = play(tmp_path, inventory(tmp_path), str(hosts))
    assert status == 0, words
    for folder in ("clusters", "clusters-with-operator"):
        assert list(files(tmp_path / folder / "north")) == [
            name for name in FILES if "old1" not in name
        ]
