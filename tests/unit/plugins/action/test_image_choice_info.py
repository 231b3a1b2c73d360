# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module image_choice_info and the filter of the same name: both give what is chosen, and say
in a sentence what is wrong.
"""

from __future__ import annotations

import json
import os
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible_collections.gpufleet.nvidia.plugins.action import (
    image_choice_info as action_image_choice_info,
)
from ansible_collections.gpufleet.nvidia.plugins.filter.image_choice_info import get_image_choice
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import catalogues
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import cpu

from tests.unit import gpus, running_host
from tests.unit.running_host import Host, HostProcess

CATALOGUE = """\
schema: 1
images:
  - name: cuda12
    image: registry.example.org/team/app:12
    digest: sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    requires: {cuda: "12.4"}
  - name: cuda13
    image: registry.example.org/team/app:13
    requires: {cuda: "13.0"}
"""
A100 = {"driver": "550.54.14", "gpus": [{"model": "NVIDIA A100-SXM4-80GB", "device": "0x20b2"}]}
OLD = {**A100, "driver": "470.256.02"}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "catalogue.yml"
    path.write_text(CATALOGUE)
    return str(path)


def run(**options: Any) -> dict[str, Any]:
    """What a task's user gets: the result of the action, or of its failure."""
    action = action_image_choice_info.ActionModule.__new__(action_image_choice_info.ActionModule)
    action._task = types.SimpleNamespace(args=options, check_mode=False, diff=False, async_val=0)
    action._connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir=None))
    try:
        found: dict[str, Any] = action.run(task_vars={})
    except AnsibleError as error:
        return {"failed": True, "msg": str(error)}
    return found


def test_the_module_and_the_filter_choose_the_same(file: str) -> None:
    found = run(catalogue=file, facts=A100)
    assert (
        found["choices"][0]["chosen"]["reference"]
        == "registry.example.org/team/app@sha256:" + "a" * 64
    )
    assert found["changed"] is False
    assert {key: found[key] for key in ("fits", "choices", "problem")} == get_image_choice(
        A100, file
    )


def test_nothing_that_fits_is_a_failure_unless_it_shall_be_reported(file: str) -> None:
    found = run(catalogue=file, facts=OLD)
    assert found["failed"]
    assert "The nearest is cuda12" in found["msg"]
    assert not run(catalogue=file, facts=OLD, nothing_fits="report").get("failed")
    with pytest.raises(AnsibleError, match="The nearest is cuda12"):
        get_image_choice(OLD, file)
    assert "The nearest is cuda12" in get_image_choice(OLD, file, nothing_fits="report")["problem"]


def test_a_wrong_value_of_the_filter_is_said(file: str) -> None:
    with pytest.raises(AnsibleError, match="gpus is all or each"):
        get_image_choice(A100, file, gpus="some")


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from running_host.start_process()


@pytest.fixture
def host(process: HostProcess) -> Iterator[Host]:
    made = Host(process)
    machine = {
        "architecture": "x86_64",
        "vendor": "GenuineIntel",
        "flags": ["sse2"],
        "library": "glibc 2.36",
    }
    made.program("/", json.dumps(machine))  # the probe is a child of this Python
    yield made
    made.close()


def with_gpu(host: Host) -> None:
    """Two GPUs with driver 550.163.01, as files; device nodes and libraries are not asked for the
    choice.
    """
    for path, content in gpus.host(1).items():
        if path.startswith(("/proc/", "/sys/")):
            host.write(path, content)
    host.write(f"/sys/bus/pci/devices/{gpus.BUSES[0]}/device", "0x2330\n")


def test_a_host_is_looked_at_in_one_operation(host: Host, file: str) -> None:
    with_gpu(host)
    found = host.task("image_choice_info", catalogue=file)
    assert found["choices"][0]["chosen"]["name"] == "cuda12", found
    assert (found["facts"]["driver"], found["facts"]["glibc"], found["changed"]) == (
        "550.163.01",
        "2.36",
        False,
    )
    assert found["facts"]["gpus"][0]["compute_capability"] == "9.0"
    assert len(host.wire) == 2, "one request, one answer"


def test_a_host_without_a_gpu_is_told_why(host: Host, file: str) -> None:
    found = host.task("image_choice_info", catalogue=file)
    assert found["failed"]
    assert "no driver is known on this host. No NVIDIA GPU among the PCI devices" in found["msg"]
    assert found["without_gpu"]


@pytest.mark.parametrize("path", ["/dev/dxg", "/etc/nv_tegra_release"])
def test_a_gpu_that_is_no_pci_device_is_one(path: str, host: Host, file: str) -> None:
    """WSL and Jetson: an image for their GPU is missing if none fits."""
    host.write(path, "")
    found = host.task("image_choice_info", catalogue=file)
    assert (found["failed"], found["without_gpu"]) == (True, False)


def test_a_host_whose_driver_is_not_loaded_may_have_a_gpu(host: Host, file: str) -> None:
    host.write(f"/sys/bus/pci/devices/{gpus.BUSES[0]}/vendor", "0x10de\n")
    host.write(f"/sys/bus/pci/devices/{gpus.BUSES[0]}/class", "0x030200\n")
    host.write(f"/sys/bus/pci/devices/{gpus.BUSES[0]}/device", "0x2330\n")
    found = host.task("image_choice_info", catalogue=file)
    assert (found["failed"], found["without_gpu"]) == (True, False)


def test_a_catalogue_is_judged_before_the_host_is_looked_at(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "catalogue.yml"
    path.write_text(CATALOGUE.replace("cuda:", "cuda_version:"))
    found = host.task("image_choice_info", catalogue=str(path))
    assert "[image.unknown-field]" in found["msg"]
    assert host.wire == []


FILES = [
    # content (None: there is no file), a part of the message
    (None, "this catalogue cannot be read (No such file or directory)"),
    (b"\xff\xfe", "it is not UTF-8 text"),
    (b"images: [", "[image.not-yaml]"),
    (
        b"schema: 1\nimages:\n  - name: a\n    image: a\n    requires: {cuda: 12.4}\n",
        ":5: images[0].requires.cuda: ",
    ),
]


@pytest.mark.parametrize(("content", "said"), FILES)
def test_a_catalogue_that_is_none_is_said(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "catalogue.yml"
    if content is not None:
        path.write_bytes(content)
    found = run(catalogue=str(path), facts=A100)
    assert found["failed"]
    assert str(path) in found["msg"]
    assert said in found["msg"]
    with pytest.raises(AnsibleError, match="image_choice_info"):
        get_image_choice(A100, str(path))


def test_a_pipe_is_no_catalogue_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "it is not a file" in run(catalogue=str(tmp_path / "pipe"), facts=A100)["msg"]


def test_archspec_is_used_where_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        vendor, features, ancestors = "GenuineIntel", {"avx2"}, ()

    class Library:
        TARGETS = {"haswell": Found()}

    catalogues.read_archspec_targets.cache_clear()
    monkeypatch.setattr(catalogues.importlib, "import_module", lambda _name: Library)
    assert catalogues.read_archspec_targets() == {
        "haswell": cpu.CpuTarget("GenuineIntel", frozenset({"avx2"}))
    }
    catalogues.read_archspec_targets.cache_clear()
    monkeypatch.setattr(catalogues.importlib, "import_module", missing)
    assert catalogues.read_archspec_targets() == {}
    catalogues.read_archspec_targets.cache_clear()


def missing(_name: str) -> None:
    raise ImportError
