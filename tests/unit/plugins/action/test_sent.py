# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much goes to a host: about as much as docs/packages.md has in its table."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    host_look,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import seen_host

ROOT = Path(__file__).resolve().parents[4]
PROGRAMS = {
    "a look": "observe",
    "a change": "transaction",
    "an acknowledgement": "acknowledge",
    "a keeping of packages": "kept_packages",
    "a verification": "container_check",
}
ROW = re.compile(r"^ *\| (an? [\w ]+) \| ([\d ]+) \| ([\d ]+) \| ([\d ]+) \|$", re.MULTILINE)
PAGE = (ROOT / "docs/packages.md").read_text()
ROWS = {name: [int(cell.replace(" ", "")) for cell in cells] for name, *cells in ROW.findall(PAGE)}
# zlib-ng, which some distributions have in zlib's place, compresses source text a little less.
OTHER_ZLIB = 1.06 if "zlib-ng" in zlib.ZLIB_RUNTIME_VERSION else 1.0
WHOLE_LOOK = 63_200  # loader, sources and questions
NEAR = 0.06  # a change has room, and the page is still true


def test_the_page_has_every_program() -> None:
    assert set(ROWS) == set(PROGRAMS)
    assert set(PROGRAMS.values()) == set(transport.PROGRAMS)


def test_the_picture_has_the_numbers_of_the_table() -> None:
    look, change = (f"{ROWS[row][1]:,}".replace(",", " ") for row in ("a look", "a change"))
    picture = (ROOT / "ARCHITECTURE.md").read_text()
    assert f"some {look} lines in a look, {change} in a change" in picture


@pytest.mark.parametrize("row", PROGRAMS)
def test_a_program_is_about_as_small_as_the_page_says(row: str) -> None:
    parts, lines, size = ROWS[row]
    sent = transport.list_program_sources(PROGRAMS[row])
    counted = sum(1 for _name, text in sent for line in text.splitlines() if line.strip())
    assert len(sent) == parts
    assert abs(counted - lines) <= NEAR * lines, f"{counted} lines: correct docs/packages.md"
    packed = len(transport.pack_program_sources(PROGRAMS[row]))
    least, most = (1 - NEAR) * size, (1 + NEAR) * size * OTHER_ZLIB
    assert least <= packed <= most, f"{packed} bytes: correct the table in docs/packages.md"


def test_a_look_at_a_host_with_all_its_questions() -> None:
    asked = queries.merge_questions(seen_host.list_host_questions(Policy()))
    request = {
        "schema": 1,
        "root": "/",
        **queries.pack_questions([*map(host_look.add_probe_source, asked)]),
    }
    assert (
        len(
            transport.build_interpreter_input(
                "observe", request, "gpufleet-" + "0" * 32 + ":", keep=True
            )
        )
        <= WHOLE_LOOK * OTHER_ZLIB
    )
