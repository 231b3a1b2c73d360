# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd itself judges the plans: its dump before and after differs by our keys and nothing
else, its daemon serves CRI with them, and a second plan is empty.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases,
)

from tests.integration import containerd_daemons as daemons
from tests.integration.containerd_trees import (
    CASES,
    NATURAL,
    before,
    cri_of,
    dump,
    prepared,
    rest_of,
)
from tests.night import leave_rest


@pytest.mark.parametrize(("release", "shape"), CASES)
def test_the_engine_sees_our_keys_and_no_other_difference(
    tmp_path: Path, release: str, shape: str
) -> None:
    tree = prepared(tmp_path, release, shape)
    was = before(tree)
    tree.apply(tree.plan(default=True))
    now = dump(release, tree.config)
    containers = cri_of(now)["containerd"]
    handler = containers["runtimes"]["nvidia"]
    assert handler["options"]["BinaryName"] == "/usr/bin/nvidia-container-runtime"
    assert handler["runtime_type"] == releases.RUNC_TYPE
    assert handler["container_annotations"] == ["nvidia.cdi.k8s.io/*"]
    runc = containers["runtimes"]["runc"]
    by_systemd = shape.split()[0] in ("kubeadm", "dotted", "crlf", "imports") or shape.startswith(
        "version 2"
    )
    assert (
        bool(handler["options"].get("SystemdCgroup"))
        == bool(runc["options"].get("SystemdCgroup"))
        == by_systemd
    )
    assert containers["default_runtime_name"] == "nvidia"
    assert rest_of(now, keys=("default_runtime_name",)) == rest_of(
        was, keys=("default_runtime_name",)
    )


NOT_THE_DEFAULT = pytest.mark.nightly(
    "by day daemons serve with the handler as default, and `config dump` reads the files of both"
)


@pytest.mark.parametrize("default", leave_rest(NOT_THE_DEFAULT, [True, False]))
@pytest.mark.parametrize(("release", "shape"), CASES)
def test_the_daemon_serves_cri_with_the_planned_files(
    tmp_path: Path, release: str, shape: str, default: bool
) -> None:
    tree = prepared(tmp_path, release, shape)
    tree.apply(tree.plan(default=default))
    verdict = daemons.judged(release, tree.config)
    assert verdict.outcome == "serves CRI", verdict.said


@pytest.mark.parametrize(("release", "shape"), CASES)
def test_a_second_plan_is_empty_and_the_default_can_go_back(
    tmp_path: Path, release: str, shape: str
) -> None:
    tree = prepared(tmp_path, release, shape)
    tree.apply(tree.plan(default=True))
    again = tree.plan(default=True)
    assert again.empty, again.differences
    tree.apply(tree.plan(default=False))
    assert cri_of(dump(release, tree.config))["containerd"]["default_runtime_name"] == "runc"
    assert tree.plan(default=False).empty


def find_added_lines(before: str, after: str) -> list[str]:
    """Return the lines that came, without blanks. AssertionError if a line went."""
    found = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    assert [line for line in found if line.startswith("- ")] == []
    return [line[2:].strip() for line in found if line.startswith("+ ") and line[2:].strip()]


def explicit_runc(names: str) -> list[str]:
    """Return the engine's own default as a plan for 1.x writes it. It stays: without a journal it
    may be another's.
    """
    table = f"{names}.containerd.runtimes.runc"
    return [
        f"[{table}]",
        f'runtime_type = "{releases.RUNC_TYPE}"',
        f"[{table}.options]",
        "SystemdCgroup = false",
    ]


@pytest.mark.parametrize(("release", "shape"), [c for c in CASES if c[1] != "no file"])
def test_absent_without_the_journal_takes_out_just_our_keys(
    tmp_path: Path, release: str, shape: str
) -> None:
    tree = prepared(tmp_path, release, shape)
    was = tree.files()
    tree.apply(tree.plan())
    tree.apply(tree.plan(absent=True))
    kept = {p: t for p, t in tree.files().items() if not p.endswith("90-gpufleet.toml")}
    if release.startswith("1."):
        path, names = (
            str(tree.config),
            "plugins.cri" if shape == "version 1" else f"plugins.{NATURAL[2]}",
        )
        version = ["version = 2"] if shape in ("empty", "comments") else []
        assert find_added_lines(was[path], kept[path]) == (
            [] if "runc" in was[path] else [*version, *explicit_runc(names)]
        )
        assert {**kept, path: was[path]} == was
    else:
        assert set(kept) == set(was)
    dump(release, tree.config)
