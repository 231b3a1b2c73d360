# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees that CRI-O itself judges."""

from __future__ import annotations

import dataclasses as dc
import functools
import shutil
import subprocess
import tomllib
import uuid
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cdi,
    Evidence,
    Instance,
    Kubelet,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)

from tests.lab import artefacts
from tests.unit.builders import obs

VERSION = "1.34.0"
LAB = Path(artefacts.__file__).parent / "tree/crio/etc/crio"
PACKAGED = (LAB / "crio.conf.d/10-crio.conf").read_text()
RUNC_DEFAULT = PACKAGED.replace('default_runtime = "crun"', 'default_runtime = "runc"')
OWN_DIRS = '[crio.runtime]\nhooks_dir = ["/etc/containers/oci/hooks.d"]\npids_limit = 1024\n'


@functools.cache
def binary() -> str:
    if shutil.which("go") is None:
        pytest.skip("CRI-O is built with Go, and there is no Go here")
    return str(artefacts.go_tool("crio-1.34") / "crio")


@dc.dataclass
class Tree:
    """A directory with a configuration in it, the planner and the executor at work on it."""

    home: Path

    @property
    def config(self) -> Path:
        return self.home / "crio.conf"

    @property
    def directory(self) -> Path:
        return self.home / "crio.conf.d"

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def look(self, **more: Any) -> Any:
        files = {
            str(p): p.read_bytes().decode()
            for p in self.home.rglob("*")
            if p.is_file() and p.is_relative_to(self.home)
        }
        known = {p: t for p, t in files.items() if "/journal" not in p} | {
            "/usr/bin/nvidia-container-runtime": ""
        }
        pods = {
            f"ListPodSandbox:{name}:/var/run/crio/crio.sock": {"items": []}
            for name in ("nvidia", "gpu")
        }
        return obs(files=known, cri=pods, **more)  # no daemon runs, so no pod does

    def policy(self, **options: Any) -> Policy:
        return Policy(config_path=str(self.config), **options)

    def instance(self) -> Instance:
        cdi = Cdi(
            able=True,
            enabled=True,
            dirs=("/etc/cdi", "/var/run/cdi"),
            max_version="1.0.0",
            evidence=Evidence("version", VERSION),
        )
        return Instance(
            "crio",
            VERSION,
            binary(),
            "/var/run/crio/crio.sock",
            str(self.config),
            "crio.service",
            "package",
            True,
            cdi,
        )

    def plan(self, policy: Policy, default: bool = False) -> Plan:
        decision = decide.decide_one(policy, self.instance(), Kubelet())
        facts = crio_detect.read_facts(policy, self.look())
        return crio_detect.plan_instance(
            policy, facts, self.instance(), dc.replace(decision, default=default)
        )

    def apply(self, plan: Plan, *, check: bool = False) -> dict[str, Any]:
        """The executor's transaction, less the restart: there is no unit here."""
        request = {
            "schema": 1, "id": uuid.uuid4().hex, "root": "/", "check": check,
            "journal_dir": str(self.home.parent / "journal"), "reason": "test",
            "expect": {"files": dict(plan.expect_files)},
            "changes": [dict(c) for c in plan.changes],
            "stage": {"files": [dict(f) for f in plan.stage_files]},
            "validate": [dict(v) for v in plan.validate],
        }  # fmt: skip
        answer: dict[str, Any] = transaction_entry.run(request)
        return answer

    def printed(self) -> dict[str, Any]:
        main = str(self.config) if self.config.exists() else ""
        argv = [binary(), "--config", main, "--config-dir", str(self.directory), "config"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        runtime: dict[str, Any] = tomllib.loads(done.stdout)["crio"]["runtime"]
        return runtime


ROOTS = {
    "as packaged": {"crio.conf": "", "crio.conf.d/10-crio.conf": PACKAGED},
    "runc as default": {"crio.conf": "", "crio.conf.d/10-crio.conf": RUNC_DEFAULT},
    "no file at all": {},
    "all in the main file": {"crio.conf": PACKAGED},
    "settings of a site": {
        "crio.conf": OWN_DIRS,
        "crio.conf.d/10-crio.conf": PACKAGED,
        "crio.conf.d/50-site/own": '[crio.runtime]\nlog_level = "warn"\n',
    },
}
