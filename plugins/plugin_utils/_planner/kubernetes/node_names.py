# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a host of the inventory is called as a Kubernetes node: the one place where such a name is judged.

A name becomes a part of an address of the API, of an object and of a file, and an inventory may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import PlanError

# A name of a node is a DNS subdomain, that of a handler and of its RuntimeClass a DNS label (apimachinery, util/validation).
LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
NODE_NAME = re.compile(rf"(?=.{{1,253}}$){LABEL}(\.{LABEL})*")
SETTING = "gpufleet_kubernetes_node"


def of_host(host: str) -> str:
    """'' where the sentence gets its hosts from somebody else."""
    return f" for {host}" if host else ""


def require(host: str, given: str) -> str:
    """The name by the inventory alone: what a host calls itself is its own word, and could be the name of another node."""
    name = given or host
    if NODE_NAME.fullmatch(name):
        return name
    step = f"Set {SETTING}{of_host(host)} to the name that `kubectl get nodes` shows"
    what = f"{SETTING} is {name!r}{of_host(host)}" if given else f"the node of {host} has no known name"
    raise PlanError(what, why=f"{name!r} is no name that a node can have", next=step)


def possible(names: Iterable[str], host: str, given: str) -> tuple[str, ...]:
    """Those of some names that a node can have. PlanError where the one that is given is none, and where none is left."""
    found = tuple(name for name in names if NODE_NAME.fullmatch(name))
    return found or (require(host, given),)
