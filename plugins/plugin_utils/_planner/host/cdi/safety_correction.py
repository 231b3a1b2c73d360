# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what our specs of earlier releases gave to containers that had not asked for it, and the
cause to take it back.

Taking it back takes something from hosts that work, so each such difference has a code that nothing
else has.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import gpus

SHOWN = 4  # of what may be 2 048 channels


def explain_safety_correction(
    own: bool, there: ObservedFile, spec: Spec, reason: Message
) -> Message | None:
    """Return why a spec takes something back; None if it takes nothing back.

    own: whether the file is this collection's. reason: why the spec is written otherwise.
    """
    lost = list_withdrawn_nodes(there, spec) if own else ()
    if not lost:
        return None
    more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
    named = f"{', '.join(lost[:SHOWN])}{more}"
    return messages.FABRIC_TAKEN_BACK.fill(nodes=named, reason=reason)


def list_withdrawn_nodes(there: ObservedFile, spec: Spec) -> tuple[str, ...]:
    """List the nodes of the fabric that our earlier spec gave every container and this one gives
    none.
    """
    try:
        earlier = reader.parse_spec(there.content or "")
    except ValueError:
        return ()
    given = {node.path for node in spec.edits.device_nodes}
    got = [node.path for node in earlier.edits.device_nodes if node.path not in given]
    return (*gpus.list_switch_nodes(got), *gpus.list_channel_nodes(got))
