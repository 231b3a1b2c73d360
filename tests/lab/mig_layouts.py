# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MIG layouts of mig-parted's default configuration on NVIDIA's own imitations of boards, and of
RTX PRO by the MIG user guide.

`cases` lists board and layout, `inventory` gives a host whose GPUs have that layout. Sizes and
places of profiles are those of go-nvml's mocks, asked through a small program of Go.
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from . import recorded
from .artefacts import go_tool
from .fakegpu import inventories

FILE = Path(__file__).resolve().parent.parent / "fixtures" / "mig_layouts.yml"
PROGRAM = "mig-boards"
# The mixed layout of each board, which `make test` judges: mig-parted's, and our own where it has
# none for a board. The others wait for the night.
BY_DAY = ("all-balanced", "mixed")
# Drivers number instances along a binary tree of the memory's slices, its root being 0. Those of
# some releases begin with the upper half, those of others with the lower one, as outputs of
# `nvidia-smi mig -lgi` show: 7 at 4:1 beside 11 at 0:1 in one, 13 at 6:1 beside 1 at 0:4 in another.
Numbering = Literal["upper half first", "lower half first"]
NUMBERINGS: tuple[Numbering, ...] = ("upper half first", "lower half first")
Place = tuple[int, int]  # first slice, and how many


@dataclass(frozen=True)
class Board:
    """A board: its profiles by name, and the places that each can take."""

    name: str
    pci_id: str
    mib: int
    profiles: Mapping[str, inventories.Profile]
    places: Mapping[str, tuple[Place, ...]]

    @property
    def span(self) -> int:
        """Return how many slices the memory has, a power of two: 8 of a board with `7g`."""
        most = max(profile.slices for profile in self.profiles.values())
        return 1 << (most - 1).bit_length()


@functools.cache
def read() -> Mapping[str, Any]:
    """Return the fixture."""
    found: Mapping[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


@functools.cache
def ask_mocks() -> Mapping[str, Any]:
    """Return what go-nvml's mocks say, by board."""
    done = subprocess.run(
        [str(go_tool(PROGRAM) / PROGRAM)], capture_output=True, text=True, check=True
    )
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def cases() -> Iterator[tuple[str, str]]:
    """Yield each board with each layout for it."""
    for board, described in read()["boards"].items():
        yield from ((board, layout) for layout in described["layouts"])


@functools.cache
def board(key: str) -> Board:
    """Return a board, as its imitation describes it or as it stands in the fixture."""
    given = read()["boards"][key]
    if "places" in given:
        return _restate_board(given)
    mock = ask_mocks()[key]
    by_number = {profile["number"]: profile for profile in mock["profiles"]}
    profiles = {
        name: inventories.Profile(
            name, number, by_number[number]["slices"], by_number[number]["mib"]
        )
        for name, number in given["profiles"].items()
    }
    places = {
        name: tuple((start, size) for start, size in by_number[number]["places"])
        for name, number in given["profiles"].items()
    }
    return Board(mock["name"].removeprefix("Mock "), given["pci_id"], mock["mib"], profiles, places)


def _restate_board(given: Mapping[str, Any]) -> Board:
    whole = max(int(name[0]) for name in given["profiles"])
    profiles = {
        name: inventories.Profile(name, number, int(name[0]), given["mib"] * int(name[0]) // whole)
        for name, number in given["profiles"].items()
    }
    places = {
        name: tuple((start, size) for start, size in given["places"][profile.slices])
        for name, profile in profiles.items()
    }
    return Board(given["name"], given["pci_id"], given["mib"], profiles, places)


def place(of: Board, wanted: list[str], taken: tuple[Place, ...] = ()) -> list[Place] | None:
    """Return a place for each profile, the largest first, so that none overlap; None without one."""
    if not wanted:
        return []
    for start, size in of.places[wanted[0]]:
        free = all(start + size <= other or other + length <= start for other, length in taken)
        rest = place(of, wanted[1:], (*taken, (start, size))) if free else None
        if rest is not None:
            return [(start, size), *rest]
    return None


def number_instance(of: Board, at: Place, numbering: Numbering) -> int:
    """Return the number that a driver gives to the GPU instance at a place."""
    start, size = at
    size = 1 << (size - 1).bit_length()  # 3 slices stand for a half, 7 for all
    if numbering == "upper half first" and size < of.span:
        start = (start + of.span // 2) % of.span
    return of.span // size - 1 + start // size


def inventory(key: str, layout: str, numbering: Numbering, gpus: int = 2) -> inventories.Inventory:
    """Return a host whose GPUs of a board have a layout."""
    of = board(key)
    counts: Mapping[str, int] = read()["boards"][key]["layouts"][layout]
    wanted = sorted(
        (name for name, count in counts.items() for _one in range(count)),
        key=lambda name: -of.profiles[name].slices,
    )
    places = place(of, wanted)
    if places is None:
        raise ValueError(f"{layout} does not fit on {key}")
    instances = {
        number_instance(of, at, numbering): of.profiles[name]
        for name, at in zip(wanted, places, strict=True)
    }
    boards = tuple(
        inventories.Gpu(
            uuid=f"GPU-{index:08d}-0000-0000-0000-{index:012d}",
            minor=index,
            bus=f"0000:{16 * (index + 1):02x}:00.0",
            name=of.name,
            pci_id=of.pci_id,
            mib=of.mib,
            mig="on",
            migs=tuple(
                (gi, 0, recorded.name_mig_device(f"{key} {layout}", index, gi, 0))
                for gi in sorted(instances)
            ),
            profiles=instances,
        )
        for index in range(gpus)
    )
    return inventories.Inventory(boards, version="580.105.08", loaded="580.105.08", cuda=13000)
