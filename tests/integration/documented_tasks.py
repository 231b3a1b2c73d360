# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the tasks that the documentation shows."""

from __future__ import annotations

import ast
from typing import Any

import yaml

from tests.tools.onlab import ROOT


def documented(module: str, name: str) -> Any:
    """One of a module's YAML blocks, read without importing the module."""
    for node in ast.parse((ROOT / f"plugins/modules/{module}.py").read_text()).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == name
        ):
            return yaml.safe_load(ast.literal_eval(node.value))
    raise AssertionError(f"plugins/modules/{module}.py has no {name}")
