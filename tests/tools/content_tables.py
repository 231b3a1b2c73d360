# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/modules.md: all that a user can ask for by its name, from its own file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from page_table import table

ROOT = Path(__file__).resolve().parents[2]
# Steps of the playbooks, and the program for hosts: no other playbook uses them, and they are not
# part of the contract.
INTERNAL = frozenset({"host_program", "playbook_step"})
SHORT_DESCRIPTION = re.compile(r"^short_description: (.*)$", re.MULTILINE)
# The first paragraph of the comment at a playbook's beginning.
COMMENT = re.compile(r"^---\n((?:# .*\n)+)", re.MULTILINE)


def list_names(pattern: str) -> list[Path]:
    return sorted(path for path in ROOT.glob(pattern) if path.stem not in INTERNAL)


def build_module_table() -> str:
    """Return a row for each module, with the short description that ansible-doc shows."""
    rows = [
        [
            f"[`gpufleet.nvidia.{path.stem}`](../plugins/modules/{path.name})",
            find_text(SHORT_DESCRIPTION, path),
        ]
        for path in list_names("plugins/modules/*.py")
    ]
    return table(["module", "use"], rows)


def build_role_table() -> str:
    """Return a row for each role, with the short description of its main entry point."""
    rows = []
    for path in list_names("roles/*"):
        specs: Any = yaml.safe_load((path / "meta/argument_specs.yml").read_text())
        use = specs["argument_specs"]["main"]["short_description"]
        rows.append([f"[`gpufleet.nvidia.{path.name}`](../roles/{path.name}/README.md)", use])
    return table(["role", "use"], rows)


def build_playbook_table() -> str:
    """Return a row for each playbook, with the comment at its beginning."""
    rows = [
        [f"`gpufleet.nvidia.{path.stem}`", re.sub(r"\s*# ", " ", find_text(COMMENT, path)).strip()]
        for path in list_names("playbooks/*.yml")
    ]
    return table(["playbook", "use"], rows)


def find_text(pattern: re.Pattern[str], path: Path) -> str:
    """Return the first group of a pattern in a file."""
    found = pattern.search(path.read_text())
    if not found:
        raise SystemExit(f"content_tables.py: {path} does not say its use: {pattern.pattern}")
    return found[1].strip().removeprefix("# ")
