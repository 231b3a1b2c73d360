# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a story on one host, and keep what it shows."""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_hosts,
)

from tests.unit.running_host import HostProcess
from tests.unit.running_hosts import Spec, build

BASE = {"no_gpu": "prepare", "packages": "ignore"}
Step = tuple[str, bool, dict[str, Any]]
# What is done to a host, one after the other: (module, check mode, options).
STORIES: dict[str, tuple[Step, ...]] = {
    "whole": (
        ("host_info", False, {"no_gpu": "prepare"}), ("host", True, BASE), ("host", False, BASE), ("host", False, BASE),
        ("host_info", False, {"no_gpu": "prepare"}), ("host", False, {**BASE, "state": "absent"}),
    ),
    "parts": (
        ("ENGINE_runtime", True, {}), ("ENGINE_runtime", False, {"set_as_default": "enabled"}), ("toolkit_config", False, {"mode": "cdi"}),
        ("cdi_spec_info", False, {}), ("cdi_spec", True, {}), ("toolkit_config", False, {"state": "absent"}),
        ("ENGINE_runtime", False, {"state": "absent"}), ("host_info", False, {}),
    ),
}  # fmt: skip
TOLD = (
    "changed", "failed", "msg", "differences", "actions", "restarted", "rolled_back", "advice", "decision", "row", "problem", "error",
    "findings",
)  # fmt: skip
# What differs between any two runs: numbers of transactions, times.
PASSING = re.compile(r"[0-9a-f]{32}|\d{8}T\d{6}Z|\d{4}-\d\d-\d\dT[\d:]+Z|@\d{9,}")
PACKED = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")


class Run:
    """A story on one host, and all that it has shown to anybody."""

    def __init__(self, process: HostProcess, spec: Spec, story: str, mode: int, way: str) -> None:
        host = build(process, spec, mode)
        try:
            steps = [
                (module.replace("ENGINE", spec.engine), check, options)
                for module, check, options in STORIES[story]
            ]
            self.results, self.readable = [], set[tuple[str, bytes]]()
            for module, check, options in steps:
                self.results.append(host.task(module, check=check, way=way, **options))
                self.readable.update(host.readable())
            self.wire = list(host.wire)
        finally:
            host.close()

    @property
    def told(self) -> list[Any]:
        """What is planned and done, without what differs between any two runs."""
        return [
            json.loads(PASSING.sub("X", json.dumps({key: r.get(key) for key in TOLD})))
            for r in self.results
        ]

    @property
    def shown(self) -> str:
        """Everything that reaches Ansible, its log and its callbacks, with what is packed in it."""
        tables = [
            fleet_hosts.list_fleet_lines({"gpu1": r}, fleet_hosts.FleetView(details=True))
            for r in self.results
            if "row" in r
        ]
        text = json.dumps([self.results, self.wire, tables], ensure_ascii=False, default=repr)
        return "\n".join([text, *unpacked(text)])


def unpacked(text: str) -> Iterator[str]:
    for word in set(PACKED.findall(text)):
        try:
            data = base64.b64decode(word)
            inner = (zlib.decompress(data) if data[:1] == b"\x78" else data).decode(
                "utf-8", "replace"
            )
        except (binascii.Error, zlib.error, ValueError):
            continue
        yield inner
        if data[:1] == b"\x78":
            yield from unpacked(inner)
