# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout that applies to its cluster what hosts need before and after their change, batch by
batch, or whose cluster does not answer.
"""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.playbooks import api, bare
from tests.unit.playbooks.bare import written
from tests.unit.playbooks.rollouts import told

BY_NIGHT = pytest.mark.nightly(
    "unit tests of the actions judge what clusters get and when; by day three rollouts of a cluster are played"
)
HOSTS = ["gpu1", "gpu2"]
OFF, ON = (
    {"gpufleet_cdi": "disabled", "gpufleet_set_as_default": "enabled"},
    {"gpufleet_device_plugin_strategy": ["cdi-cri"]},
)


def started(place: Path) -> Path:
    """A cluster of new hosts."""
    cluster = api.start(place, HOSTS, "enable_cdi = true")
    shared = {
        "gpufleet_cluster": "north",
        "gpufleet_kubernetes_apply": True,
        "gpufleet_kubernetes_kubeconfig": str(cluster),
    }
    hosts = {host: {**bare.variables(place, host), **shared} for host in HOSTS}
    written(
        place / "hosts.json", json.dumps({"all": {"children": {"gpu_hosts": {"hosts": hosts}}}})
    )
    return cluster


def rollout(place: Path, *arguments: str, **settings: Any) -> tuple[int, str]:
    return played(place, "rollout", *arguments, **settings)


def played(place: Path, playbook: str, *arguments: str, **settings: Any) -> tuple[int, str]:
    given = {"gpufleet_hosts": "gpu_hosts", "gpufleet_rollout_plugin_wait": 0, **settings}
    extra = written(place / "extra.yml", yaml.safe_dump(given))
    paths = f"{place}/stub:{os.environ.get('ANSIBLE_COLLECTIONS_PATH', '')}"
    command = (
        "-i",
        place / "hosts.json",
        f"gpufleet.nvidia.{playbook}",
        "-e",
        f"@{extra}",
        *arguments,
    )
    return bare.run(place, "ansible-playbook", *command, ANSIBLE_COLLECTIONS_PATH=paths)


def nodes(cluster: Path) -> list[tuple[str, list[str], bool]]:
    """Of each label that was set: the node, its strategies, and whether its host was converged by
    then.
    """
    found = []
    for entry in api.log(cluster):
        if entry["kind"] == "Node":
            plugin = yaml.safe_load(entry["config"])["flags"]["plugin"]
            found.append(
                (entry["name"], plugin["deviceListStrategy"], entry["name"] in entry["converged"])
            )
    return found


def test_what_a_batch_needs_is_applied_before_and_after_its_change(tmp_path: Path) -> None:
    cluster = started(tmp_path)
    status, words = rollout(tmp_path, "--check", **OFF)
    assert (status, api.log(cluster)) == (0, []), words

    # New hosts: nobody gave them GPUs before, so each changes first.
    status, words = rollout(tmp_path, **OFF)
    assert status == 0, words
    assert sorted(nodes(cluster)) == [(host, ["envvar"], False) for host in HOSTS]
    assert words.count("cluster north, after the change: label the nodes") == len(HOSTS), words

    # CDI comes and the default handler goes at once: the plugin uses both ways until its host is
    # changed.
    status, words = rollout(tmp_path, **ON)
    assert status == 0, words
    found = nodes(cluster)
    assert len(found) == 2 * len(HOSTS), found
    for host in HOSTS:
        assert [one[1:] for one in found if one[0] == host] == [
            (["envvar", "cdi-cri"], False),
            (["cdi-cri"], True),
        ]
    first = found[0][0]
    assert [one[0] for one in found[:2]] == [first, first], (
        "nothing is applied to another node before the canary is through"
    )

    status, words = rollout(tmp_path, **ON)
    assert (status, api.log(cluster)) == (0, []), words


def test_a_cluster_that_does_not_answer_ends_the_rollout_before_a_host_is_changed(
    tmp_path: Path,
) -> None:
    cluster = started(tmp_path)
    cluster.rename(tmp_path / "elsewhere.json")
    status, words = rollout(tmp_path, **ON)
    assert status == 2, words
    said = " ".join(words.split())
    assert (
        "the objects that the hosts of this batch need before their change could not be applied to their cluster, so no host"
        in said
    )
    assert set(told(words).values()) == {"pending"}, words
    assert not list((tmp_path / "trees").glob("*/etc/nvidia-container-runtime"))
    (tmp_path / "elsewhere.json").rename(cluster)
    status, words = rollout(tmp_path, **ON)
    assert (status, {one[2] for one in nodes(cluster)}) == (0, {True}), words


@BY_NIGHT
def test_of_two_clusters_the_one_that_does_not_answer_is_named(tmp_path: Path) -> None:
    cluster, missing = started(tmp_path), tmp_path / "south.json"
    inventory = json.loads((tmp_path / "hosts.json").read_text())
    hosts = inventory["all"]["children"]["gpu_hosts"]["hosts"]
    hosts["gpu2"].update(
        gpufleet_cluster="south",
        gpufleet_kubernetes_kubeconfig=str(missing),
        gpufleet_kubernetes_context="admin",
    )
    written(tmp_path / "hosts.json", json.dumps(inventory))
    named = f"cluster south (kubeconfig {missing}, context admin): cannot read the ConfigMap (the Kubernetes API does not answer). Check"
    for playbook, means in (
        (
            "kubernetes",
            "Until then the other clusters of this run get nothing either; --limit names their hosts alone",
        ),
        ("rollout", "The rollout ends here, also for hosts of other clusters and of none"),
    ):
        status, words = played(tmp_path, playbook, **ON)
        said = " ".join(words.split())
        assert (status, named in said, means in said) == (2, True, True), words
    assert api.log(cluster) == []


@BY_NIGHT
def test_where_one_of_two_clusters_refuses_the_other_gets_nothing(tmp_path: Path) -> None:
    """Also the one that comes first: all of them judge what is to be done before anything is
    changed in one.
    """
    cluster, south = started(tmp_path), tmp_path / "south.json"
    refusing = {
        **json.loads(cluster.read_text()),
        "refuses": "admission webhook denied the request",
    }
    south.write_text(json.dumps(refusing))
    inventory = json.loads((tmp_path / "hosts.json").read_text())
    hosts = inventory["all"]["children"]["gpu_hosts"]["hosts"]
    hosts["gpu2"].update(gpufleet_cluster="south", gpufleet_kubernetes_kubeconfig=str(south))
    written(tmp_path / "hosts.json", json.dumps(inventory))
    status, words = rollout(tmp_path, gpufleet_kubernetes_apply=False, **ON)
    assert status == 0, words
    for playbook, means in (
        ("kubernetes", "Until then the other clusters of this run get nothing either"),
        ("rollout", "the objects that follow from the hosts"),
    ):
        status, words = played(tmp_path, playbook, **ON)
        said = " ".join(words.split())
        assert (
            f"cluster south (kubeconfig {south}): cannot make the namespace nvidia-device-plugin (admission webhook denied"
            in said
        ), words
        assert means in said, words
        assert api.log(cluster) == [], playbook


def test_what_follows_from_hosts_that_are_as_desired_is_applied_at_the_end(tmp_path: Path) -> None:
    """As after a run that died between the change of the last host and what follows from it."""
    cluster = started(tmp_path)
    status, words = rollout(tmp_path, gpufleet_kubernetes_apply=False, **ON)
    assert (status, api.log(cluster)) == (0, []), words
    status, words = rollout(tmp_path, **ON)
    assert status == 0, words
    assert "2 hosts: 0 to change in 0 batches" in words
    assert sorted(nodes(cluster)) == [(host, ["cdi-cri"], True) for host in HOSTS]


def closed_window() -> str:
    later = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=3)).strftime(
        "%a"
    )[:2]
    return f"{later} 10:00-11:00 UTC"


@BY_NIGHT
def test_a_rollout_that_pauses_applies_nothing_to_a_cluster(tmp_path: Path) -> None:
    """Its window is closed, and one of its hosts is as desired already, and then both."""
    cluster = started(tmp_path)
    status, words = rollout(
        tmp_path, "--limit", f"{HOSTS[0]},localhost", gpufleet_kubernetes_apply=False, **ON
    )
    assert status == 0, words
    _status, words = rollout(tmp_path, gpufleet_rollout_window=closed_window(), **ON)
    assert "the rollout pauses before batch 1 of 1: the window is closed" in words
    assert api.log(cluster) == []

    status, words = rollout(tmp_path, gpufleet_kubernetes_apply=False, **ON)
    assert status == 0, words
    status, words = rollout(tmp_path, gpufleet_rollout_window=closed_window(), **ON)
    assert (status, api.log(cluster)) == (0, []), words
    assert (
        "nothing is applied to the clusters now: the window is closed (gpufleet_rollout_window: "
        in words
    )
