# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that keeps unattended-upgrades from the packages of a hold."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    hold_facts,
    package_movers,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    holding_messages as messages,
)


def plan_blacklist(facts: hold_facts.HoldingFacts, names: Sequence[str]) -> Plan:
    """Plan the file for unattended-upgrades."""
    file, text = facts.blacklist.value, build_blacklist(names)
    if file.exists and file.text == text:
        return Plan()
    if file.exists and not file.text.startswith(hold_facts.MARK):
        raise PlanError(messages.RECORD_OF_OTHERS.fill(), where=file.path)
    return owned_file.plan_owned_file(
        file,
        text,
        why=messages.BLACKLIST.fill(),
        key=package_movers.BLACKLIST_KEY,
        after=list(names),
    )


def build_blacklist(names: Sequence[str]) -> str:
    """Return the text of that file. An entry is a regular expression that has to fit the beginning
    of a name (is_pkgname_in_blacklist in unattended-upgrade), so each ends with $.
    """
    lines = "".join(f'    "{re.escape(name).replace(chr(92) + "-", "-")}$";\n' for name in names)
    return f"{hold_facts.MARK}// gpufleet_driver: hold\n{package_movers.BLACKLIST_KEY} {{\n{lines}}};\n"


def list_past_rules(facts: hold_facts.HoldingFacts, plan: Plan) -> list[str]:
    """List the entries of that file, if a plan takes it back."""
    if not any(difference.path == hold_facts.BLACKLIST for difference in plan.differences):
        return []
    return re.findall(r'(?m)^    "([^"\n]*)";$', facts.blacklist.value.text)
