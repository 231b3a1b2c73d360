# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The worst input within the limits: time and memory of a plan on the controller, and of a look on
a host. Each in a process of its own.
"""

from __future__ import annotations

import dataclasses as dc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_text,
    toml,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import bounds
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_hosts,
)

from tests.bench.ratios import Ratio

ROOT = Path(__file__).resolve().parents[2]
CONTROLLER_MIB, HOST_MIB = 512, 192
HUGE = 10 << 20  # bytes of a value
MANY_HANDLERS, FEW_HANDLERS = 9_000, 900
RUNTIMES = 'plugins."io.containerd.grpc.v1.cri".containerd.runtimes'
# name -> the nth statement of a file that is filled with them up to 1 MiB, or up to the limit of
# lines and brackets
FILES = {
    "tables in tables, 20 deep": "lambda n: 'k%d=%s\\n' % (n, '{a=' * 19 + '1' + '}' * 19)",
    "headers": "lambda n: '[t%d]\\n' % n",
    "keys of 20 parts": "lambda n: 'a.' * 19 + 'k%d=1\\n' % n",
    "handlers": f"lambda n: '[{RUNTIMES}.h%d]\\nruntime_type=\"io.containerd.runc.v2\"\\n' % n",
}
USAGE = """
import resource
used = resource.getrusage(resource.RUSAGE_SELF)
# Not ru_maxrss, which a program that is started by a large one begins with that one's (exec keeps the peak of the memory before it).
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(used.ru_utime + used.ru_stime, int(peak.split()[1]) / 1024)
"""
PLAN = """
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml, toml_limits
text = {statement}
parts, size, many = [], 0, 100  # as many as the change may add
while size + len(text(len(parts))) <= 1 << 20 and many < toml_limits.MOST:
    parts.append(text(len(parts)))
    size += len(parts[-1])
    many += sum(map(parts[-1].count, "\\n,[{{\\\\"))
doc = toml.set_value(toml.parse_toml("".join(parts), "/x"), ("ours", "key"), 1)
assert toml.list_toml_edits(doc)
"""
LOOK = """
import json
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import observe
common = {{"kind": "glob", "max": 1 << 18, "keep": {{"format": "toml"}}}}
questions = [dict(common, id="g%d" % n, pattern="{folder}/%d/*" % n) for n in range(4)]
found = observe.run({{"schema": 1, "root": "/", "questions": questions}})["answers"]
json.dumps(found)
assert sum("error" in a for a in found.values()) == 1
"""


@dc.dataclass(frozen=True)
class Worst:
    what: str
    seconds: float
    mib: float
    bound: int


def plan(name: str) -> Worst:
    """Reading a file of 1 MiB, and one key changed in it."""
    return _measured(f"a plan: {name}", PLAN.format(statement=FILES[name]), CONTROLLER_MIB)


def look() -> Worst:
    """Four patterns of files that together hold more than an answer may."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
        for number in range(80):
            path = Path(folder, str(number // 20), str(number))
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"#" * (255 * 1024))
        return _measured(
            "a look: 20 MiB of files, 16 MiB may travel",
            LOOK.format(folder=folder),
            HOST_MIB,
        )


def measure() -> tuple[Worst, ...]:
    return (*(plan(name) for name in FILES), look())


def growth() -> tuple[Ratio, ...]:
    """Compare an edit beside ten times as many handlers: ten when time is linear, a hundred when
    it is the square. The larger file is near the limit of what is read (toml_limits.MOST).
    """
    what = "an edit beside 9 000 handlers to one beside 900"
    lying = (_seconds(lambda: fleet_of(10)), _seconds(lambda: fleet_of(0)))
    table = Ratio(
        "a table of 1 000 hosts, 10 with 10 MB each, to one without these 10",
        3.0,
        *lying,
        "s",
    )
    return (
        *(Ratio(f"{what}, {kind}", 20.0, *_both(edit), "s") for kind, edit in EDITS.items()),
        table,
    )


def fleet_of(lying: int) -> list[str]:
    """Lay out 1 000 hosts. The first ones say 10 MB in one value of their row, and 10 MB of advice."""
    row = {
        "engine": "containerd 1.7.24",
        "gpus": "8x NVIDIA H100",
        "injection": "native-cdi",
        "why": "CDI is on",
    }
    liar = {"row": {**row, "gpus": "H" * HUGE}, "advice": ["word " * 200] * (HUGE // 1000)}
    known = {
        f"gpu{n}": bounds.limit_result(liar if n < lying else {"row": row, "changed": True})
        for n in range(1000)
    }
    return fleet_hosts.list_fleet_lines(known, fleet_hosts.FleetView(details=True))


def _seconds(step: Callable[[], object]) -> float:
    begin = time.process_time()
    step()
    return max(time.process_time() - begin, 0.01)


def _both(edit: Callable[[int], object]) -> tuple[float, float]:
    return _seconds(lambda: edit(MANY_HANDLERS)), _seconds(lambda: edit(FEW_HANDLERS))


def edited_toml(count: int) -> list[dict[str, Any]]:
    text = "version = 2\n" + "".join(
        f'[{RUNTIMES}.h{n}]\n  runtime_type = "io.containerd.runc.v2"\n' for n in range(count)
    )
    cri = ("plugins", "io.containerd.grpc.v1.cri", "containerd")
    wanted = [
        ((*cri, "runtimes", "nvidia", "options", "BinaryName"), "/usr/bin/x"),
        ((*cri, "default_runtime_name"), "nvidia"),
    ]
    return toml.list_toml_edits(
        toml.remove_toml_key(
            toml.set_values(toml.parse_toml(text, "/x"), wanted), (*cri, "runtimes", "h7")
        )
    )


def edited_json(count: int) -> object:
    text = json.dumps(
        {"runtimes": {f"h{n}": {"path": "/usr/bin/runc"} for n in range(count)}}, indent=2
    )
    wanted = {"runtimes": {"nvidia": {"path": "/usr/bin/x"}}, "features": {"cdi": True}}
    doc, _splices = json_text.merge_json_keys(json_text.parse_json_text(text, "/x"), wanted)
    return json_text.remove_member(doc, ("runtimes", "h7"))


EDITS: dict[str, Callable[[int], object]] = {"TOML": edited_toml, "JSON": edited_json}


def _measured(what: str, code: str, bound: int) -> Worst:
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(ROOT / ".cache/collections"), *(path for path in sys.path if path)]
        ),
    }
    done = subprocess.run(
        [sys.executable, "-c", code + USAGE],
        capture_output=True,
        text=True,
        check=True,
        env=environ,
    )
    seconds, mib = (float(word) for word in done.stdout.split())
    return Worst(what, seconds, mib, bound)
