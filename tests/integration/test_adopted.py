# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sample of what `make adopted` counts: public configurations, then the real nvidia-ctk, then
this collection; containerd judges.
"""

from __future__ import annotations

import pytest

from tests.integration import adopted

PUBLIC = [
    host for host in adopted.open_hosts() if host.title.startswith(("AKS, nodes", "Kubespray"))
]
# The handler `nvidia` was there before the tool, which then gave it what it copied from another
# one.
BOTH = [
    host for host in adopted.of_rows(adopted.earlier.ROWS) if host.title.startswith("Kubespray")
]


def label(host: adopted.Host) -> str:
    return f"{host.title} {host.release}"


@pytest.mark.parametrize("host", PUBLIC, ids=label)
def test_a_drop_in_of_1_20_goes_and_all_is_as_if_it_had_never_been_there(
    host: adopted.Host,
) -> None:
    assert adopted.taken_over(host, "1.20", (adopted.DEFAULT, adopted.CDI)) == adopted.Verdict(
        host, adopted.ALIKE
    )


@pytest.mark.parametrize("flags", adopted.FLAGS)
@pytest.mark.parametrize("host", BOTH, ids=label)
def test_a_handler_of_both_keeps_what_it_has_of_the_tool(host: adopted.Host, flags: str) -> None:
    assert adopted.taken_over(host, "1.20", adopted.FLAGS[flags]) == adopted.Verdict(
        host, adopted.KEPT
    )
