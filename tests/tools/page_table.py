# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables and code as the pages have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Row = Sequence[str]
ENGINE_TITLES = {
    "containerd": "containerd", "crio": "CRI-O", "docker": "Docker", "podman": "Podman", "apptainer": "Apptainer",
    "singularity": "SingularityCE",
}  # fmt: skip


def table(head: Row, rows: Iterable[Row]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def code(items: Iterable[object]) -> str:
    return ", ".join(f"`{item}`" for item in items)


def join_number(parts: Iterable[int]) -> str:
    return ".".join(map(str, parts))


def name_link(link: str) -> str:
    """Return `nvidia-container-toolkit#1404` for an issue or a change, or else the last part of an
    address.
    """
    parts = link.split("/")
    return f"{parts[-3]}#{parts[-1]}" if parts[-2] in ("issues", "pull") else parts[-1]
