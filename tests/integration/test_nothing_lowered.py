# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing that works is lowered, by the engines' own word: over generated configurations, what
containerd and CRI-O print of each handler and of the default one is not less afterwards. The rule,
and the configurations, are those of tests/unit/lowered.py.

tests/draws.py says how many examples each engine gets.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    crio_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    cgroup_choice as containerd_cgroup_choice,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.integration import containerd_trees as trees
from tests.integration import crio_trees
from tests.integration.configs import Style, written
from tests.integration.thoroughness import thorough
from tests.unit import lowered

PLAIN = Style("\n", False, "", '"', False, False, False, False, True, 0, 0)


@pytest.mark.parametrize("release", trees.RELEASES)
def test_containerd_has_nothing_less_afterwards(release: str) -> None:
    trees.binary(release)
    newer, planned = release.startswith("2."), []
    names = "io.containerd.cri.v1.runtime" if newer else "io.containerd.grpc.v1.cri"

    @thorough(30)
    @given(cri=lowered.configurations(release), default=st.booleans())
    def holds(cri: dict[str, Any], default: bool) -> None:
        with tempfile.TemporaryDirectory() as place:
            host = trees.Tree(Path(place), release)
            text = written({"version": 3 if newer else 2, "plugins": {names: cri}}, PLAIN)
            host.write({"config.toml": text})
            was = trees.cri_of(trees.dump(release, host.config))
            try:
                plan = host.plan(default=default)
            except PlanError:
                planned.append(False)
                assert host.files() == {str(host.config): text}
                return
            planned.append(True)
            host.apply(plan)
            now = trees.cri_of(trees.dump(release, host.config))
            assert lowered.losses(was, now, told=newer) == []
            assert containerd_cgroup_choice.reports_systemd(was) is lowered.tells(
                was["containerd"]["runtimes"], was["containerd"]["default_runtime_name"]
            )
            assert lowered.worse(plan.differences) == []

    holds()
    assert planned.count(True) > len(planned) // 2


def crio_handler(*programs: str) -> st.SearchStrategy[dict[str, Any]]:
    more = {
        "runtime_root": st.just("/run/own"), "monitor_path": st.just("/usr/libexec/crio/conmon"), "monitor_cgroup": st.just("pod"),
        "monitor_exec_cgroup": st.just("container"), "allowed_annotations": st.just(["io.kubernetes.cri-o.Devices"]),
        "privileged_without_host_devices": st.booleans(), "container_min_memory": st.sampled_from(["512KiB", "13MiB"]),
        "monitor_env": st.just(["PATH=/usr/bin:/bin"]), "no_sync_log": st.booleans(), "runtime_pull_image": st.booleans(),
        "default_annotations": st.just({"a.b/c": "d"}),
    }  # fmt: skip
    return st.fixed_dictionaries({"runtime_path": st.sampled_from(programs)}, optional=more)


@st.composite
def crio_files(draw: st.DrawFn) -> dict[str, Any]:
    handlers = {
        "crun": crio_handler("/usr/libexec/crio/crun"), "runc": crio_handler("/usr/bin/runc"), "own": crio_handler("/opt/own-shim"),
        "nvidia": crio_handler(lowered.NVIDIA, "/usr/local/nvidia/toolkit/nvidia-container-runtime"),
    }  # fmt: skip
    runtimes = draw(st.fixed_dictionaries({}, optional=handlers))
    runtime: dict[str, Any] = {"runtimes": runtimes} if runtimes else {}
    return {
        "crio": {
            "runtime": {
                **runtime,
                "default_runtime": draw(st.sampled_from(sorted({*runtimes, "crun"}))),
            }
        }
    }


ABOUT = ("runtime_path", "runtime_type")


def crio_values(table: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in table.items() if v and k not in ABOUT}


def test_crio_has_nothing_less_afterwards() -> None:
    crio_trees.binary()
    planned = []

    @thorough(60)
    @given(tree=crio_files(), default=st.booleans())
    def holds(tree: dict[str, Any], default: bool) -> None:
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "etc").mkdir()
            host = crio_trees.Tree(Path(place) / "etc")
            host.write({"crio.conf": "", "crio.conf.d/10-site.conf": written(tree, PLAIN)})
            was = host.printed()
            plan = host.plan(host.policy(), default)
            done = host.apply(plan)
            planned.append(done["changed"])
            assert done["error"] is None
            now = host.printed()
            name = was.get("default_runtime", "crun")
            theirs = was.get("runtimes", {})
            for handler, table in theirs.items():
                kept = crio_values(table) if handler == "nvidia" else table
                assert {k: now["runtimes"][handler].get(k) for k in kept} == kept
            # What the packages have built in is printed as soon as one of its kind is declared.
            model = theirs.get("nvidia") or theirs.get(name) or now["runtimes"][name]
            assert crio_values(now["runtimes"]["nvidia"]) == crio_values(model)
            assert host.plan(host.policy(), default).empty

    holds()
    assert all(planned)


def test_every_property_that_crio_knows_of_a_handler_is_copied() -> None:
    """By the program's own words: each key that it explains or prints of a handler is one that we
    know.
    """
    argv = [crio_trees.binary(), "--config", "", "--config-dir", "", "config", "--default"]
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    explained = set(re.findall(r"^# - (\w+) \(optional, ", text, re.MULTILINE))
    table = text[text.index("\n[crio.runtime.runtimes.crun]") :].partition("\n\n")[0]
    printed = set(re.findall(r"^(\w+) = ", table, re.MULTILINE))
    assert {"container_min_memory", "monitor_env"} <= printed
    assert len(explained) > 10
    assert explained | printed <= set(crio_places.HANDLER_FIELDS)
