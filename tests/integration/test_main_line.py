# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The main job on one fleet of all kinds: plan, site with packages from a signed repository,
verification, a second run.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from typing import Any

import pytest

from tests.integration.story import Story
from tests.tools.onlab import differing

pytestmark = pytest.mark.lab

# host -> how GPUs get in, the engine's file that carries our part, the cases that must be verified
GPU_HOSTS = {
    "c16": ("nvidia-runtime", "/etc/containerd/config.toml", ["one", "all", "none"]),
    "c17": ("native-cdi", "/etc/containerd/config.toml", ["one", "all", "none", "management"]),
    "c21": (
        "native-cdi",
        "/etc/containerd/conf.d/90-gpufleet.toml",
        ["one", "all", "none", "management"],
    ),
    # `nvidia-ctk runtime configure` 1.20.2 was here before, and left its handler in 99-nvidia.toml.
    "ctk21": (
        "native-cdi",
        "/etc/containerd/conf.d/90-gpufleet.toml",
        ["one", "all", "none", "management"],
    ),
    "c23": (
        "native-cdi",
        "/etc/containerd/conf.d/90-gpufleet.toml",
        ["one", "all", "none", "management"],
    ),
    "c24": (
        "native-cdi",
        "/etc/containerd/conf.d/90-gpufleet.toml",
        ["one", "all", "none", "management"],
    ),
    "crio": (
        "native-cdi",
        "/etc/crio/crio.conf.d/90-gpufleet.conf",
        ["one", "all", "none", "management"],
    ),
}
ENGINE_OF = {"crio": "crio.service", "dock": "docker.service"}
# Docker serves no CRI: what is true of every engine is true of it as well.
ENGINES = {
    **GPU_HOSTS,
    "dock": ("native-cdi", "/etc/docker/daemon.json", ["one", "all", "none", "runtime"]),
}
OTHERS = ("nogpu",)
CONTAINERDS = [host for host in GPU_HOSTS if host != "crio"]
# Ours in a dump of containerd, as paths below the CRI plugin. 1.7 has CDI switched off by default;
# 1.6 gets ours as default handler.
OUR_KEYS = {"c16": {"containerd.default_runtime_name"}, "c17": {"enable_cdi"}}


def test_plan_needs_no_variable_and_changes_nothing(story: Story) -> None:
    run = story.runs["planned"]
    assert (run.status, run.changed) == (0, {}), run.words
    for host in story.kinds:
        assert differing(story.at("untouched", host).tree, story.at("planned", host).tree) == {}


def test_site_reaches_every_host(story: Story) -> None:
    run = story.runs["converged"]
    assert (run.status, run.failed) == (0, {}), run.words


@pytest.mark.parametrize("host", ENGINES)
def test_each_engine_gets_the_best_that_it_can_carry(host: str, story: Story) -> None:
    injection, path, _cases = ENGINES[host]
    answer = story.answer("converged", host)
    assert [d["injection"] for d in answer["decision"]["decisions"]] == [injection]
    assert path in {d["path"] for d in answer["differences"]}
    assert answer["restarted"] == [ENGINE_OF.get(host, "containerd.service")]
    assert answer["rolled_back"] is False


@pytest.mark.parametrize("host", ENGINES)
def test_containers_verify_it(host: str, story: Story) -> None:
    answer = story.answer("converged", host, "host_verify")
    assert answer["verified"], answer.get("msg")
    assert [c["name"].partition(": ")[2] for c in answer["checks"]] == ENGINES[host][2]


@pytest.mark.parametrize("host", ENGINES)
def test_the_toolkit_comes_from_the_signed_repository_in_one_version(
    host: str, story: Story
) -> None:
    story.at("converged", host)
    listed = story.fleet.shell(
        host,
        "dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\\n' '*nvidia-container*' | grep ^ii",
    )
    assert set(re.findall(r"\S+$", listed, re.MULTILINE)) == {"1.20.2-1"}
    assert "nvidia-container-toolkit-base" in listed


@pytest.mark.parametrize("host", OTHERS)
def test_hosts_without_gpu_keep_their_engine_as_it_is(host: str, story: Story) -> None:
    answer = story.answer("converged", host)
    assert (answer["restarted"], answer["status"]) == ([], "ok")
    touched = differing(story.at("untouched", host).tree, story.at("converged", host).tree)
    assert [
        path
        for path in touched
        if path.startswith(("/etc/containerd", "/etc/docker", "/etc/cdi", "/etc/nvidia"))
    ] == []


@pytest.mark.parametrize("host", [*ENGINES, *OTHERS])
def test_a_second_run_changes_nothing(host: str, story: Story) -> None:
    answer = story.answer("again", host)
    assert (answer["changed"], answer["differences"], answer["restarted"]) == (False, [], [])
    assert host not in story.runs["again"].changed
    assert differing(story.at("converged", host).tree, story.at("again", host).tree) == {}


@pytest.mark.parametrize("host", ENGINES)
def test_the_engine_is_restarted_once_and_then_never(host: str, story: Story) -> None:
    first = story.at("untouched", host).starts
    assert [
        story.at(moment, host).starts - first for moment in ("planned", "converged", "again")
    ] == [0, 1, 1]


@pytest.mark.parametrize("host", GPU_HOSTS)
def test_running_containers_live_through_the_restart(host: str, story: Story) -> None:
    before = story.at("untouched", host).bystander
    assert before
    assert story.at("again", host).bystander == before


@pytest.mark.parametrize("host", CONTAINERDS)
def test_containerd_says_that_our_keys_differ_and_nothing_else(host: str, story: Story) -> None:
    before, after = (
        tomllib.loads(story.at(moment, host).effective) for moment in ("untouched", "converged")
    )
    changed = set(paths_that_differ(before, after))
    ours = {path for path in changed if ".runtimes.nvidia" in path}
    assert ours
    rest = {
        re.sub(r"^plugins\.io\.containerd\.(grpc\.v1\.cri|cri\.v1\.runtime)\.", "", path)
        for path in changed - ours
    } - {"imports"}
    assert rest == OUR_KEYS.get(host, set())


def test_crio_says_that_our_handler_is_new_and_nothing_else(story: Story) -> None:
    before, after = (
        story.at(moment, "crio").effective.splitlines() for moment in ("untouched", "converged")
    )
    changed = [
        line
        for line in difflib.ndiff(before, after)
        if line[:1] in "+-" and line[2:].strip() and not line[2:].startswith("#")
    ]
    assert [line for line in changed if line.startswith("-")] == []
    begin = "+ [crio.runtime.runtimes.nvidia]"
    assert begin in changed
    assert [
        line for line in changed if line.startswith("+ [") and not line.startswith(begin[:-1])
    ] == []


def test_docker_says_that_its_runtime_is_new_and_cdi_is_on_and_nothing_else(story: Story) -> None:
    before, after = (
        json.loads(story.at(moment, "dock").effective) for moment in ("untouched", "converged")
    )
    assert after.pop("Runtimes") == {
        **before.pop("Runtimes"),
        "nvidia": "/usr/bin/nvidia-container-runtime",
    }
    assert (before.pop("CDISpecDirs"), after.pop("CDISpecDirs")) == (
        [],
        ["/etc/cdi", "/var/run/cdi"],
    )
    assert after == before


def test_docker_keeps_its_own_containerd_to_itself(story: Story) -> None:
    touched = differing(story.at("untouched", "dock").tree, story.at("converged", "dock").tree)
    assert [path for path in touched if path.startswith("/etc/containerd")] == []


@pytest.mark.parametrize("host", ["c16", "c17", "c21", "c23"])
def test_comments_and_order_are_kept(host: str, story: Story) -> None:
    before, after = (
        story.at("untouched", host).root.splitlines(),
        story.at("converged", host).root.splitlines(),
    )
    lost = [line for line in difflib.ndiff(before, after) if line.startswith("- ")]
    # 2.1 has a root file without imports, so one line is new; no line goes, but one that said runc
    # is the default of 1.6
    assert [
        line for line in lost if "default_runtime_name" not in line and "imports" not in line
    ] == []


def test_what_nvidia_ctk_left_is_taken_over_and_a_second_run_finds_nothing_of_it(
    story: Story,
) -> None:
    theirs = "/etc/containerd/conf.d/99-nvidia.toml"
    assert theirs in story.at("untouched", "ctk21").tree
    assert theirs not in story.at("converged", "ctk21").tree
    (left,) = (x for x in story.answer("converged", "ctk21")["leftovers"] if x["path"] == theirs)
    assert (left["tool"], left["exact"], left["fate"]) == ("nvidia-ctk", True, "adopted")
    assert theirs not in [x["path"] for x in story.answer("again", "ctk21")["leftovers"]]
    assert theirs in story.at("rolled back", "ctk21").tree


def paths_that_differ(before: Any, after: Any, path: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted({*before, *after})
        return [
            found
            for key in keys
            for found in paths_that_differ(
                before.get(key), after.get(key), f"{path}.{key}".lstrip(".")
            )
        ]
    return [] if before == after or path.endswith("sandbox_mode") else [path]
