# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the files that mypy --strict reads: the controller side and the development tools."""

from __future__ import annotations

from environments import ROOT

STRICT = (
    "plugins/plugin_utils",
    "plugins/action",
    "plugins/filter",
    "plugins/lookup",
    "tests/tools",
)
# What goes to a machine with a GPU and needs the planner; the rest runs on Python 3.6.
OF_GPU = ("build", "changing", "spec_facts", "specs")


def main() -> None:
    """Print one path per line, named as the collection's Python packages, so mypy knows each module
    once.
    """
    tree = ROOT / ".cache" / "collections" / "ansible_collections" / "gpufleet" / "nvidia"
    for folder in STRICT:
        base = ROOT if folder.startswith("tests/") else tree
        for path in sorted((ROOT / folder).rglob("*.py")):
            print(base.relative_to(ROOT) / path.relative_to(ROOT))
    for name in OF_GPU:
        print(f"tests/gpu/{name}.py")


if __name__ == "__main__":
    main()
