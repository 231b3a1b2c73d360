# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose programs lie, as playbooks meet them."""

from __future__ import annotations

from typing import Any


def read(name: str) -> list[dict[str, Any]]:
    """Give tasks that read a registered result: as a whole, by a sibling key, by way of a fact, of
    JSON, and from another host.
    """
    other = "hostvars[ansible_play_hosts_all[0]]." + name
    quiet = {"no_log": True}
    return [
        {"debug": {"var": name}, **quiet},
        {"debug": {"msg": f"{{{{ {name}.changed }}}} {{{{ {name} }}}}"}, **quiet},
        {
            "set_fact": {
                "whole": f"{{{{ {name} }}}}",
                "words": f"{{{{ {name}.msg | default('') }}}}",
            },
            **quiet,
        },
        {"debug": {"msg": ["{{ whole }}", "{{ words }}", "{{ whole | string }}"]}, **quiet},
        {
            "set_fact": {
                "json": f"{{{{ {name} | to_json | from_json }}}}",
                "text": f"{{{{ {name} | to_json }}}}",
            },
            **quiet,
        },
        {
            "debug": {
                "msg": ["{{ json }}", "{{ text | from_json }}", f"{{{{ {other} | default('') }}}}"]
            },
            **quiet,
        },
    ]
