# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On a controller that the inventory does not name, modules run as the account of Ansible."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import own_account

# The host of the task, the machine to which it is delegated, the inventory, whether become stays.
CASES: list[tuple[str, str | None, list[str], bool]] = [
    ("gpu1", "localhost", ["gpu1"], False),
    ("gpu1", "127.0.0.1", ["gpu1"], False),
    ("localhost", None, ["gpu1"], False),
    ("gpu1", "localhost", ["gpu1", "localhost"], True),
    # `localhost` is that host then
    ("gpu1", "localhost", ["gpu1", "127.0.0.1"], True),
    ("gpu1", "slurm1", ["gpu1", "slurm1"], True),
    ("gpu1", None, ["gpu1"], True),
]


@pytest.mark.parametrize(("host", "delegate", "inventory", "stays"), CASES)
def test_become_of_the_inventory_counts_for_its_hosts(
    host: str, delegate: str | None, inventory: list[str], stays: bool
) -> None:
    kept: list[Any] = ["sudo"]
    action: Any = SimpleNamespace(
        _task=SimpleNamespace(delegate_to=delegate),
        _connection=SimpleNamespace(set_become_plugin=kept.append),
        _play_context=SimpleNamespace(become=True),
    )
    variables = {"inventory_hostname": host, "groups": {"all": inventory}}
    own_account.keep_own_account(action, variables)
    assert (kept[-1] == "sudo", action._play_context.become) == (stays, stays)
