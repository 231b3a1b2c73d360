# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is taken back where no journal tells what was there before: just what is known to be ours."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
)

from tests.unit.taken_back import (
    CTK,
    ENGINES,
    JSON,
    ROOT,
    converged,
    tree,
)

# ---------------------------------------------------------------- without a journal


@pytest.mark.parametrize("how", ["host", "single"])
@pytest.mark.parametrize("name", ENGINES)
def test_without_a_journal_our_keys_and_files_go(
    tmp_path: pathlib.Path, name: str, how: str
) -> None:
    engine, version, _files, place = ENGINES[name]
    made, _before = converged(tmp_path, name)
    made.forget_journal()
    options: dict[str, Any] = {"state": "absent", "engines": (engine,), "engine_version": version}
    back = made.run_host(**options) if how == "host" else made.single(engine, **options)
    assert (back["failed"], back["changed"]) == (False, True)
    assert not made.path(place).exists() or "nvidia-container-runtime" not in made.read(place)
    if how == "host":
        assert not made.path(earlier_runs.FACT_PATH).exists()
        assert made.run_host(**options)["changed"] is False


def test_a_handler_that_was_never_ours_is_left_and_named(tmp_path: pathlib.Path) -> None:
    made = tree(
        tmp_path,
        {
            ROOT: CTK,
            JSON: '{"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}\n',
        },
    )
    before = made.state()
    back = made.run_host(state="absent", engine_version="1.7.24")
    assert (back["failed"], back["changed"], made.state() == before) == (False, False, True)
    assert [a.split()[0].removesuffix(":") for a in back["advice"] if "left alone" in a] == [
        ROOT,
        JSON,
    ]


# An operator's own handler, with the name, the program and the annotations that this collection
# would write.
OPERATORS = """version = @V@
[plugins.@CRI@.containerd]
default_runtime_name = "nvidia"
[plugins.@CRI@.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.@CRI@.containerd.runtimes.runc.options]
SystemdCgroup = true
[plugins.@CRI@.containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
container_annotations = ["nvidia.cdi.k8s.io/*"]
@MORE@
[plugins.@CRI@.containerd.runtimes.nvidia.options]
BinaryName = "/usr/bin/nvidia-container-runtime"
SystemdCgroup = true
"""
HAND_MADE = OPERATORS.replace("@MORE@", "privileged_without_host_devices = true")
TOOLS = OPERATORS.replace("@MORE@", "").replace(
    'container_annotations = ["nvidia.cdi.k8s.io/*"]\n', ""
)
# what stands there -> what the result says of it
THEIRS = {
    "a property that is not copied": (HAND_MADE, "its privileged_without_host_devices would differ"),
    "no annotations, as nvidia-ctk leaves it": (TOOLS, "its container_annotations would differ"),
}  # fmt: skip


SHAPES = [("1.7.24", 2, "io.containerd.grpc.v1.cri"), ("2.1.9", 3, "io.containerd.cri.v1.runtime")]


@pytest.mark.parametrize(("version", "number", "table"), SHAPES)
@pytest.mark.parametrize("case", THEIRS)
def test_the_module_of_an_engine_leaves_a_handler_that_it_did_not_write(
    tmp_path: pathlib.Path, case: str, version: str, number: int, table: str
) -> None:
    text, said = THEIRS[case]
    made = tree(tmp_path, {ROOT: text.replace("@V@", str(number)).replace("@CRI@", f'"{table}"')})
    before = made.state()
    back = made.single("containerd", state="absent", engine_version=version)
    assert (back["failed"], back["changed"], made.state() == before) == (False, False, True)
    assert [a for a in back["advice"] if said in a and "left alone" in a], back["advice"]


def test_a_run_that_changed_nothing_makes_nobody_elses_handler_ours(tmp_path: pathlib.Path) -> None:
    made = tree(
        tmp_path,
        {ROOT: HAND_MADE.replace("@V@", "3").replace("@CRI@", '"io.containerd.cri.v1.runtime"')},
    )
    before = made.state()
    assert made.single("containerd", engine_version="2.1.9")["changed"] is False
    assert made.single("containerd", state="absent", engine_version="2.1.9")["changed"] is False
    assert made.state() == before


def test_a_converged_host_keeps_what_somebody_put_into_the_handler(tmp_path: pathlib.Path) -> None:
    made, _before = converged(tmp_path, "containerd 1.7")
    made.forget_journal()
    there = made.read(ROOT).replace(
        "container_annotations", "privileged_without_host_devices = true\ncontainer_annotations"
    )
    made.write(ROOT, there, 0o600)
    back = made.run_host(state="absent", engines=("containerd",), engine_version="1.7.24")
    assert (back["failed"], made.read(ROOT) == there) == (False, True)
    assert [
        a for a in back["advice"] if "privileged_without_host_devices" in a and "left alone" in a
    ], back["advice"]


@pytest.mark.parametrize("name", [name for name in ENGINES if name.startswith("containerd 1.")])
def test_what_the_module_of_an_engine_wrote_goes_without_a_journal(
    tmp_path: pathlib.Path, name: str
) -> None:
    engine, version, files, place = ENGINES[name]
    made = tree(tmp_path, files)
    assert made.single(engine, engine_version=version, set_as_default="enabled")["changed"] is True
    made.forget_journal()
    assert made.single(engine, state="absent", engine_version=version)["changed"] is True
    assert not made.path(place).exists() or "nvidia-container-runtime" not in made.read(place)
