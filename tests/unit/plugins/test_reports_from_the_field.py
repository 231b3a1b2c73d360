# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every report in tests/fixtures/public_reports is played: the collection does what is right on
such a host.
"""

from __future__ import annotations

import pathlib

import pytest

from tests.unit import public_reports, report_hosts, report_player

REPORTS = public_reports.places()


@pytest.mark.parametrize(
    "place", REPORTS, ids=[f"{place.parent.name}/{place.name}" for place in REPORTS]
)
def test_the_collection_does_what_is_right(tmp_path: pathlib.Path, place: pathlib.Path) -> None:
    try:
        wrong = report_player.play(public_reports.read(place), tmp_path / "host")
    except report_hosts.Unplayable as refused:
        pytest.skip(f"no process may have a root of its own here: {refused}")
    assert wrong == []
