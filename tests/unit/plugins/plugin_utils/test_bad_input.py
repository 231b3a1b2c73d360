# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations that are unusual and fine: the planners cope. Refused ones are in
tests/fixtures/bad.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import engine_module
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)

from tests.unit import builders

ENGINES = {"containerd": containerd_detect, "crio": crio_detect}
TOML = "/etc/containerd/config.toml"
CONF_D = "/etc/containerd/conf.d"
CRIO_D = "/etc/crio/crio.conf.d"
FILE = f"{CRIO_D}/10-site.conf"
OLD, NEW, CRIO = "1.7.24", "2.3.7", "1.34.2"
V2, V3 = 'plugins."io.containerd.grpc.v1.cri"', 'plugins."io.containerd.cri.v1.runtime"'


def planned(engine: str, version: str, files: dict[str, Any]) -> Plan:
    policy = Policy(root="/tree", engine_version=version, engines=(engine,))
    seen = builders.obs(files=files)
    facts = engine_module.read_engine_module_facts(policy, seen, engine)
    instance, decision = engine_module.find_single_instance(policy, facts)
    found: Plan = ENGINES[engine].plan_instance(policy, facts.own, instance, decision)
    return found


def raw(content: bytes) -> dict[str, Any]:
    """Not UTF-8 travels as base64."""
    return {"content": base64.b64encode(content).decode(), "encoding": "base64"}


# what it is: (version, the root file, the lines around the change that must come through)
FINE: dict[str, tuple[str, Any, str]] = {
    "a byte order mark": (OLD, "\ufeffversion = 2\n", ""),
    "line ends of Windows": (OLD, "version = 2\r\n# ours\r\n", ""),
    "nothing in it": (NEW, "", ""),
    "Latin-1 in a comment, which 1.x reads": (OLD, raw(b"version = 2\n# gr\xfcn\n"), ""),
    "no line end at the end": (NEW, "version = 3", ""),
    "writable by the world, and somebody's": (
        OLD,
        {"content": "version = 2\n", "mode": 0o666, "uid": 1000, "owner": "ops"},
        "",
    ),
    "a link": (
        OLD,
        {"content": "version = 2\n", "real": "/srv/containerd.toml"},
        "/srv/containerd.toml",
    ),
}


@pytest.mark.parametrize(("version", "root", "real"), FINE.values(), ids=FINE)
def test_unusual_and_fine(version: str, root: Any, real: str) -> None:
    (*_others, change) = planned("containerd", version, {TOML: root}).changes
    assert (change["path"], change["op"]) == (real or TOML, "edit")
    assert {"mode", "owner", "group"} & set(change) == set()  # they stay as they are
    assert all("\n" in edit["text"] for edit in change["edits"])


@pytest.mark.parametrize(
    "text", ["\ufeff[crio.runtime]\n", "[crio.runtime]\r\n", "", "# nothing\n"], ids=repr
)
def test_unusual_and_fine_for_crio(text: str) -> None:
    (change,) = planned("crio", CRIO, {FILE: text}).changes
    assert change["path"] == f"{CRIO_D}/90-gpufleet.conf"
