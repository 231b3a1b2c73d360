# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the name that a host of the inventory has as a Kubernetes node.

No other module judges it. A name becomes a part of an address of the API, of an object and of a
file, and an inventory may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import messages

# A node's name is a DNS subdomain. The name of a handler and of its RuntimeClass is a DNS label
# (apimachinery, util/validation).
LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
NODE_NAME = re.compile(rf"(?=.{{1,253}}$){LABEL}(\.{LABEL})*")


def name_host_in_sentence(host: str) -> str:
    """Return " for HOST"; '' without a host, if the caller adds its hosts to the sentence."""
    return f" for {host}" if host else ""


def require_node_name(host: str, given: str) -> str:
    """Return the node's name by the inventory alone. Raise PlanError if no node can have that name.

    The name that a host reports is the host's own claim, and could be the name of another node.
    """
    name = given or host
    if NODE_NAME.fullmatch(name):
        return name
    if not given:
        raise PlanError(messages.NODE_NAME_UNKNOWN.fill(host=host, name=name))
    if not host:
        raise PlanError(messages.NODE_NAME_INVALID.fill(name=name))
    raise PlanError(messages.NODE_NAME_INVALID_FOR_HOST.fill(name=name, host=host))


def list_possible_node_names(names: Iterable[str], host: str, given: str) -> tuple[str, ...]:
    """Return the names that a node can have.

    If there are none, return the name of the inventory. Raise PlanError if that one is not valid
    either.
    """
    possible = tuple(name for name in names if NODE_NAME.fullmatch(name))
    return possible or (require_node_name(host, given),)
