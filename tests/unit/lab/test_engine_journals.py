# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a failed test tells of its hosts: which hosts those are, and which lines."""

from __future__ import annotations

import pytest

from tests.integration import engine_journals

HOSTS = ("check-16", "check-16-strict", "check-21", "c21")


@pytest.mark.parametrize(
    "text, names",
    [
        ("test_a_converged_host_is_verified[check-21]", ["check-21"]),
        ("test_a_converged_host_is_verified[check-16-strict]", ["check-16-strict"]),
        ("{'check-21': {'ok': True}, 'check-16': {}}", ["check-21", "check-16"]),
        ("no-check-21, check-211, c21x", []),
        ("", []),
    ],
)
def test_a_host_is_named_by_a_whole_word(text: str, names: list[str]) -> None:
    assert engine_journals.find_names(text, HOSTS) == names


def test_lines_of_steps_that_went_well_are_left_out() -> None:
    went_well = 'Nov 26 host containerd[6]: time="x" level=info msg="error in the name of a pod"'
    failed = 'Nov 26 host containerd[6]: time="x" level=error msg="RunPodSandbox failed"'
    ended = "Nov 26 host systemd[1]: containerd.service: Main process exited, code=killed"
    journal = "\n".join([went_well, failed, went_well, ended])
    assert engine_journals.choose_lines(journal) == f"{failed}\n{ended}"
    many = engine_journals.choose_lines("\n".join([failed] * 999 + [ended]))
    assert many.splitlines() == [failed] * (engine_journals.TOLD_LINES - 1) + [ended]
