# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other owners of how GPUs of a host are shared. A GPU that they own is refused: two that set one
mode undo each other's work.
"""

from __future__ import annotations

import re

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Lookup
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Kubelet
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.by_plugin import (
    Replicas,
)

# gres.conf(5): one resource to a line, keys in any case; Debian and Ubuntu up to 20.04 have Slurm's
# files in slurm-llnl.
SLURM_FILES = ("/etc/slurm/gres.conf", "/etc/slurm-llnl/gres.conf")
SHARED_BY_SLURM = re.compile(r"(?im)^[^#\n]*\bName=(mps|shard)\b")
KEEP: Keep = {"format": "text", "patterns": [r"(?im)^[^#\n]*?\bName=(?:mps|shard)\b"]}


def list_sharing_owner_questions() -> list[queries.Question]:
    return [queries.ask_for_file(path, keep=KEEP) for path in SLURM_FILES]


def read_slurm_texts(obs: Observation) -> Lookup[str, str]:
    """Return the texts of Slurm's files, by path."""
    return Lookup(lambda path: obs.get_text(path, KEEP))


def refuse_other_sharing(
    texts: Lookup[str, str], kubelet: Kubelet, replicas: Replicas | None
) -> None:
    """Raise PlanError if Slurm or a device plugin shares the GPUs of this host.

    replicas: the policy of a device plugin, which takes a kubelet on this host.
    """
    for path in SLURM_FILES:
        match = SHARED_BY_SLURM.search(texts.get(path))
        if match:
            raise PlanError(messages.SHARED_BY_SLURM.fill(kind=match.group(1).lower()), where=path)
    if replicas and not kubelet.expected:
        raise PlanError(messages.REPLICAS_WITHOUT_KUBELET.fill())
    if kubelet.present and not replicas:
        raise PlanError(messages.KUBELET_OWNS_SHARING.fill())
