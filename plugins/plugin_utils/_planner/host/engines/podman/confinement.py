# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether SELinux lets rootless containers of Podman open the nodes of GPUs.

Podman confines containers to container_t, which may open nodes of the type that the policy gives
/dev/nvidia* only if one of two booleans is on (container.te of container-selinux). A rootless
container gets the host's nodes by bind mounts, with that type; for one of root the runtime makes
nodes of its own, which have the type of the container's files.
"""

from __future__ import annotations

import dataclasses as dc

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Lookup
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.podman import (
    messages,
)

ENFORCE = "/sys/fs/selinux/enforce"
# The narrower one is not in every release of container-selinux.
NARROW, WIDE = "container_use_xserver_devices", "container_use_devices"
BOOLEANS = "/sys/fs/selinux/booleans"
NODE = "/dev/nvidiactl"
TYPE = "xserver_misc_device_t"  # of /dev/nvidia* by the policy; a person may have set another one
STATE: Keep = {"format": "text", "patterns": ["^[01](?: [01])?$"]}
QUESTIONS = (
    *(
        queries.ask_for_file(path, STATE)
        for path in (ENFORCE, f"{BOOLEANS}/{NARROW}", f"{BOOLEANS}/{WIDE}")
    ),
    queries.ask_for_file(NODE, content=False),
)


@dc.dataclass(frozen=True)
class ConfinementFacts:
    """A host's facts about SELinux. state: the first figure of a file, "" if there is none. label:
    the label of a file, "" if it has none.
    """

    state: Lookup[str, str]
    label: Lookup[str, str]


def read_confinement_facts(obs: Observation) -> ConfinementFacts:
    return ConfinementFacts(
        Lookup(lambda path: (obs.get_file(path, STATE).content or "")[:1]),
        Lookup(lambda path: _get_label(obs, path)),
    )


def _get_label(obs: Observation, path: str) -> str:
    answer = obs.get_answer(queries.ask_for_file(path, content=False))
    return str(answer.get("selinux") or "")


def warn_of_confinement(facts: ConfinementFacts) -> tuple[str, ...]:
    """Warn if SELinux refuses the nodes of GPUs to rootless containers; () otherwise."""
    booleans = {name: facts.state.get(f"{BOOLEANS}/{name}") for name in (NARROW, WIDE)}
    label = facts.label.get(NODE)
    if (
        facts.state.get(ENFORCE) != "1"
        or "1" in booleans.values()
        or not booleans[WIDE]
        or (label and TYPE not in label.split(":"))
    ):
        return ()
    return (messages.CONFINED.fill(boolean=NARROW if booleans[NARROW] else WIDE),)
