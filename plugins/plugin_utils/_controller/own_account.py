# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stay the account that runs Ansible, for what an action does on the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible import constants
from ansible.plugins.action import ActionBase


def keep_own_account(action: ActionBase, variables: Mapping[str, Any]) -> None:
    """Let the modules of a task run as the account that runs Ansible, if they run on a controller
    that the inventory does not name.

    `ansible_become` in group_vars/all is meant for the hosts of the inventory. It counts on such a
    controller, too, and outranks `become: false` of a task. An image of AWX has no sudo, and root
    has another kubeconfig.
    """
    machine = getattr(action._task, "delegate_to", None) or variables.get("inventory_hostname")
    named = set((variables.get("groups") or {}).get("all") or ())
    if machine in constants.LOCALHOST and not named.intersection(constants.LOCALHOST):
        action._connection.set_become_plugin(None)
        # the connections of Mitogen read it here
        action._play_context.become = False
