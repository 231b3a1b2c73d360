# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the hosts of a play when Ansible reads them.

Ansible templates `hosts` before any task, whatever --start-at-task is, and ends with success if no
host matches.
"""

from __future__ import annotations

DOCUMENTATION = r"""
name: play_hosts
short_description: Give the hosts of a play, or end the run
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - The playbooks of this collection name their hosts by this lookup. It is internal, and its options are no interface.
  - It fails if no host of the inventory matches the pattern. If a playbook of this collection is named on the command line, it also fails
    if the group is empty, or if C(--limit) leaves none of its hosts. In a slice of a job in AWX it does not fail, since AWX may deal the
    slice no host of the group.
  - It fails if a playbook of this collection that is named on the command line is run with C(--start-at-task), or with C(--skip-tags)
    C(all), C(always) or C(tagged), which would skip the checks before the first change.
options:
  _terms:
    description: A pattern of hosts, or a list of patterns.
    type: raw
    required: true
seealso:
  - plugin: ansible.builtin.inventory_hostnames
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Look at the hosts that a run is for
  hosts: "{{ lookup('gpufleet.nvidia.play_hosts', gpufleet_hosts | default('all')) }}"
  gather_facts: false
  tasks:
    - name: Look
      gpufleet.nvidia.host_info:
"""

RETURN = r"""
_list:
  description: The pattern as it was given, in one string.
  type: list
  elements: str
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ansible import context
from ansible.errors import AnsibleLookupError
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.plugins.lookup import LookupBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import named_playbooks
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    variables as planner_variables,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.awx import slices

# tags of --skip-tags that leave out the task that refuses tags
SKIPS_CHECKS = {
    "all",
    "always",
    "tagged",
}


class LookupModule(LookupBase):
    def run(
        self, terms: Iterable[Any], variables: Mapping[str, Any] | None = None, **_options: Any
    ) -> list[str]:
        pattern = join_patterns(
            [str(part) for term in terms for part in (term if isinstance(term, list) else [term])]
        )
        wrong = self._list_wrong(pattern, variables or {})
        if wrong:
            raise AnsibleLookupError(f"{wrong}. Nothing was done [{wrong.code}]")
        return [pattern]

    def _list_wrong(self, pattern: str, variables: Mapping[str, Any]) -> Message | None:
        """Return why the run cannot begin; None if it can."""
        own = named_playbooks.is_own_playbook_named(context.CLIARGS.get("args") or ())
        if own and context.CLIARGS.get("start_at_task"):
            return messages.START_AT_TASK.fill()
        if own and SKIPS_CHECKS & set(context.CLIARGS.get("skip_tags") or ()):
            return messages.TAGS.fill()
        # --syntax-check needs no inventory, and a slice may have no host of a group
        if is_playbook_only_read() or slices.get_sliced_template(variables):
            return None
        groups = {
            str(name): [str(host) for host in hosts]
            for name, hosts in (variables.get("groups") or {}).items()
        }
        matching = self._list_matching(pattern, groups)
        # a user's playbook does other things as well, and the limit may be meant for those
        if not own:
            return planner_variables.describe_unknown_hosts(pattern, matching, groups)
        return planner_variables.describe_no_hosts(
            pattern,
            matching,
            [str(host) for host in variables.get("ansible_play_hosts_all") or ()],
            groups,
        )

    def _list_matching(self, pattern: str, groups: Mapping[str, list[str]]) -> list[str]:
        """Return the hosts that Ansible finds by a pattern in these groups, including `localhost`
        outside of them.
        """
        if pattern in groups:  # most often, and quick for ten thousand hosts
            return groups[pattern]
        inventory = InventoryManager(self._loader, parse=False)
        for group, hosts in groups.items():
            inventory.add_group(group)
            for host in hosts:
                inventory.add_host(host, group=group)
        return [str(host) for host in inventory.get_hosts(pattern=pattern)]


def join_patterns(patterns: list[str]) -> str:
    """Join patterns to one.

    If a pattern has a comma, Ansible splits only at commas, so items with `:` are split before.
    """
    return patterns[0] if len(patterns) == 1 else ",".join(split_host_pattern(patterns))


def is_playbook_only_read() -> bool:
    """Tell whether the playbook is only read, and not run."""
    return any(
        context.CLIARGS.get(option) for option in ("syntax", "listhosts", "listtasks", "listtags")
    )
