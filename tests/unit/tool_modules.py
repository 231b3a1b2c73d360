# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of tests/tools as modules."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).resolve().parents[1] / "tools"


@contextlib.contextmanager
def reachable() -> Iterator[None]:
    """Let what runs meanwhile import these modules by their names."""
    sys.path.insert(0, str(TOOLS))
    try:
        yield
    finally:
        sys.path.remove(str(TOOLS))


def imported(name: str) -> Iterator[ModuleType]:
    """Yield one of these modules, for a fixture. It imports its neighbours by their names."""
    with reachable():
        yield executed(name)


def loaded(name: str) -> ModuleType:
    """Return one of these modules for a whole test file. It can import its neighbours only while it
    is loaded.
    """
    with contextlib.contextmanager(imported)(name) as module:
        return module


def executed(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
