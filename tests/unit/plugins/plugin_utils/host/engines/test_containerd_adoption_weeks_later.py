# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A handler that was taken over once stays as it is at every later run of every module. Real
observer and executor, bare trees.
"""

from __future__ import annotations

import pathlib
import tomllib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Handler

from tests.unit.bare_trees import Tree
from tests.unit.containerd_leftovers import COPY, OURS, ROOT, SITE, THEIRS, VERSIONS, rendered

OTHER_NAME = COPY.replace("runtimes.nvidia", "runtimes.gpu").replace('"nvidia"', '"gpu"')


def run(host: Tree, module: str, version: str, **options: Any) -> dict[str, Any]:
    if module == "host":
        return host.run_host(engines=("containerd",), engine_version=version, **options)
    return host.single("containerd", engine_version=version, **options)


def adopted(tmp_path: pathlib.Path, module: str, version: str) -> Tree:
    host = Tree(tmp_path / "host")
    for name, text in rendered(version, {ROOT: SITE, THEIRS: OTHER_NAME}).items():
        host.write(name, text, 0o640)
    assert [left["fate"] for left in run(host, module, version)["leftovers"]] == ["adopted"]
    assert not host.path(THEIRS).exists()
    return host


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("module", ["host", "containerd_runtime"])
def test_a_handler_that_came_with_a_file_stays_with_all_it_has_at_the_next_run(
    tmp_path: pathlib.Path, module: str, version: str
) -> None:
    host = adopted(tmp_path, module, version)
    place = ROOT if version < "2" else OURS
    text = host.read(place)
    assert "containerd.runtimes.gpu.options]" in text
    assert 'default_runtime_name = "gpu"' in text
    again = run(host, module, version)
    assert (again["failed"], again["changed"]) == (False, False)
    assert host.read(place) == text


@pytest.mark.parametrize("module", ["host", "containerd_runtime"])
def test_a_file_that_was_taken_over_and_is_back_is_told_by_whichever_module(
    tmp_path: pathlib.Path, module: str
) -> None:
    version = "1.7.24"
    host = adopted(tmp_path, module, version)
    host.write(THEIRS, rendered(version, {THEIRS: OTHER_NAME})[THEIRS])
    state = host.state()
    again = run(host, module, version)
    assert again["failed"] is True
    assert "it was taken over before and exists again" in again["msg"]
    assert host.state() == state


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("linked", ["/etc/containerd", "/etc/containerd/conf.d"])
@pytest.mark.parametrize("module", ["host", "containerd_runtime"])
def test_beneath_a_linked_directory_all_is_taken_over_changed_again_and_given_back(
    tmp_path: pathlib.Path, module: str, linked: str, version: str
) -> None:
    host = Tree(tmp_path / "host")
    for name, text in rendered(version, {ROOT: SITE, THEIRS: COPY}).items():
        host.write(name, text, 0o640)
    host.path(linked).rename(host.path("/srv"))
    host.path(linked).symlink_to("/srv")
    state = {
        path: seen
        for path, seen in host.state().items()
        if path.startswith(("/srv", "/etc/containerd"))
    }
    two = (Handler(), Handler("gpu", "/opt/nvidia-container-runtime"))
    for handlers in ((Handler(),), two):
        assert run(host, module, version, handlers=handlers)["changed"] is True
        assert run(host, module, version, handlers=handlers)["changed"] is False
    assert not host.path(THEIRS).exists()
    assert run(host, module, version, handlers=two, state="absent")["failed"] is False
    assert {
        path: seen
        for path, seen in host.state().items()
        if path.startswith(("/srv", "/etc/containerd"))
    } == state


@pytest.mark.parametrize("version", VERSIONS)
def test_the_diff_of_absent_shows_every_file_that_is_given_back_or_goes(
    tmp_path: pathlib.Path, version: str
) -> None:
    host = adopted(tmp_path, "containerd_runtime", version)
    back = run(host, "containerd_runtime", version, state="absent")
    ours = ROOT if version < "2" else OURS
    shown = {entry["before_header"]: entry["prepared"] for entry in back["diff"]}
    assert set(shown) == {ours, THEIRS}
    assert '-BinaryName = "/usr/bin/nvidia-container-runtime"' in shown[ours]


IN_PLACE = (
    SITE
    + """[plugins.@CRI@.containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
@LIST@
[plugins.@CRI@.containerd.runtimes.nvidia.options]
BinaryName = "/usr/local/bin/nvidia-container-runtime"
SystemdCgroup = true
"""
)
OURS_TOO = 'container_annotations = ["nvidia.cdi.k8s.io/*"]'
# the list of annotations before us -> what others make of it after us -> what is left
LISTS: dict[str, tuple[str, tuple[str, str], str]] = {
    "none": ("", ("", ""), ""),
    "theirs": ('container_annotations = ["a/*"]', ("", ""), 'container_annotations = ["a/*"]'),
    "ours was there": (OURS_TOO, ("0x4000", "0x2000"), OURS_TOO),
    "theirs came since": ('container_annotations = ["a/*"]', ('["a/*"', '["a/*", "b/*"'), 'container_annotations = ["a/*", "b/*"]'),
}  # fmt: skip


@pytest.mark.parametrize("module", ["host", "containerd_runtime"])
@pytest.mark.parametrize(("before", "since", "left"), LISTS.values(), ids=LISTS)
def test_of_a_handler_that_was_there_each_key_is_given_back_where_others_changed_the_file_since(
    tmp_path: pathlib.Path, before: str, since: tuple[str, str], left: str, module: str
) -> None:
    host, version = Tree(tmp_path / "host"), "1.7.24"
    text = rendered(version, {ROOT: IN_PLACE})[ROOT]
    host.write(ROOT, text.replace("@LIST@", before))
    run(host, module, version)
    host.write(ROOT, host.read(ROOT).replace(*since) + "# theirs\n")
    assert run(host, module, version, state="absent")["failed"] is False
    wanted = text.replace("0x4000", since[1]) if since[0] == "0x4000" else text
    assert tomllib.loads(host.read(ROOT)) == tomllib.loads(wanted.replace("@LIST@", left))
    assert host.read(ROOT).endswith("# theirs\n")
