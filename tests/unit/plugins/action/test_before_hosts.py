# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is the same for all hosts is done once, when Ansible loads the action; each host gets a
process that starts from there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import host as host_action
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)

from tests.unit import running_host
from tests.unit.running_host import HostProcess
from tests.unit.running_hosts import ENGINES, build

OPTIONS = {"packages": "ignore", "no_gpu": "prepare"}
# A plan from a recorded look, as a host's process makes it: which patterns it compiles, and which
# of the collection's files it reads.
PLAN = """
import builtins, json, re, sys
from ansible_collections.gpufleet.nvidia.plugins.action import host as action
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import Observation
seen = Observation(**json.load(sys.stdin))
compiler = re._compiler if hasattr(re, "_compiler") else re.sre_compile  # from Python 3.11 on, and before
done, compiled, opened = [], compiler.compile, builtins.open
compiler.compile = lambda *words: done.append(f"compile {words[0]}") or compiled(*words)
builtins.open = lambda *words, **more: done.append(f"open {words[0]}") or opened(*words, **more)
action.plan_host_module(Policy(packages="ignore", no_gpu="prepare"), seen)
print(json.dumps(done))
"""


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from running_host.start_process()


def looked_at(process: HostProcess, engine: str, monkeypatch: pytest.MonkeyPatch) -> Observation:
    """What the looks at a converged host find."""
    host, planned = build(process, ENGINES[engine].copy(), 0o644), host_action.plan_host_module
    seen: list[Observation] = []

    def planner(policy: Policy, obs: Observation, **more: bool) -> base.Outcome:
        seen.append(obs)
        return planned(policy, obs, **more)

    monkeypatch.setattr(host_action, "plan_host_module", planner)
    try:
        host.task("host", **OPTIONS)
        assert host.task("host", **OPTIONS)["changed"] is False
        return seen[-1]
    finally:
        host.close()


@pytest.mark.parametrize("engine", ["containerd", "docker"])
def test_the_plan_of_a_converged_host_compiles_no_pattern_and_reads_no_file(
    process: HostProcess, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = looked_at(process, engine, monkeypatch)
    seen = json.dumps({"host": found.host, "answers": found.answers})
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", PLAN],
        input=seen,
        capture_output=True,
        text=True,
        check=True,
        env=environ,
    )
    assert json.loads(done.stdout) == []
