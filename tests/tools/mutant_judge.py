# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run some of the planner's tests on a mutant, or note which functions each of them executes.

mutant_judge.py ORDER.json      mutants.py writes the order and reads the exit status, or the line
that begins with NOTED
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import resource
import sys
import types
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from mutations import PLANNER, mutate

NAMESPACE = "ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner."
MONITORING: Any = getattr(sys, "monitoring", None)  # from Python 3.12 on
MEMORY = 6 << 30  # bytes; a mutant may ask for more and more


class Importer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Compiles the mutant when its module is imported."""

    def __init__(self, path: str, index: int) -> None:
        parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
        self.module, self.file, self.index = NAMESPACE + ".".join(parts), PLANNER / path, index

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.module:
            return None
        package = [str(self.file.parent)] if self.file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, self.file, loader=self, submodule_search_locations=package
        )

    def exec_module(self, module: types.ModuleType) -> None:
        exec(
            compile(mutate(self.file.read_text(), self.index), str(self.file), "exec"),
            module.__dict__,
        )


class Chosen:
    """Keeps the chosen tests, in their order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.order = {test: number for number, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.order),
            key=lambda item: self.order[item.nodeid],
        )


class Notes:
    """Notes the functions of the planner that each test executes, and how long it takes."""

    TOOL = 4  # of sys.monitoring; 0, 1 and 2 are a debugger's, coverage's and a profiler's

    def __init__(self) -> None:
        self.tests: dict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()
        self.current = ""
        monitoring = MONITORING
        monitoring.use_tool_id(self.TOOL, "mutants")
        monitoring.register_callback(self.TOOL, monitoring.events.PY_START, self.note)
        monitoring.set_events(self.TOOL, monitoring.events.PY_START)

    def note(self, code: types.CodeType, _offset: int) -> object:
        """Note a function once per test."""
        _before, found, path = code.co_filename.rpartition("plugins/plugin_utils/_planner/")
        if found and self.current:
            self.tests[f"{path}:{code.co_qualname.replace('.<locals>', '')}"].add(self.current)
        return MONITORING.DISABLE

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.current = item.nodeid
        MONITORING.restart_events()
        result = yield
        self.current = ""
        return result  # noqa: B901  a wrapper hands the result on

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        # a test that fails or is skipped for an account without privileges judges nothing
        if not report.passed:
            self.failed.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        tests = {name: sorted(found - self.failed) for name, found in self.tests.items()}
        print(
            "\nNOTED "
            + json.dumps({"tests": tests, "seconds": self.seconds, "failed": sorted(self.failed)})
        )


def main(path: Path) -> int:
    """Do what the order says."""
    order = json.loads(path.read_text())
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    plugins: list[object] = [Notes()] if order.get("note") else [Chosen(order["tests"])]
    if "index" in order:
        sys.meta_path.insert(0, Importer(order["path"], order["index"]))
    options = [
        "-q",
        "--no-header",
        "--tb=no",
        f"--basetemp={order['folder']}/tests",
        *([] if order.get("note") else ["-x"]),
    ]
    return int(pytest.main([*options, *order["files"]], plugins=plugins))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
