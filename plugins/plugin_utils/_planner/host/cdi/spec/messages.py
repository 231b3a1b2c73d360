# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about what a CDI spec has and lacks."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

NODES_ASSUMED = Sentence(
    "spec.nodes-assumed",
    "There is no /dev/nvidia* in this tree, so the CDI spec has the nodes that the driver would make, and none counts as missing",
)
NODE_OPTIONAL = Sentence("spec.node-optional", "{path} does not exist; containers start without it")
NAMES_OF_OLD_CDI = Sentence(
    "spec.names-of-old-cdi",
    "The oldest consumer accepts CDI {version}, so the devices are called gpu0 and so on instead of 0 and so on",
)
GPU_WITHOUT_UUID = Sentence(
    "spec.gpu-without-uuid",
    "UUID of GPU {gpus} is not known: no device of that name in the CDI spec",
)
MIG_WITHOUT_UUID = Sentence(
    "spec.mig-without-uuid",
    "UUID of MIG device {devices} is not known: no device of that name in the CDI spec",
)
MIG_WITHOUT_INSTANCE = Sentence(
    "spec.mig-without-instance",
    "GPU {gpus} is in MIG mode without an instance, so no container can use it",
)
CLOSED = "so other users in a container may get no GPU"
CLOSED_TO_GROUP = Sentence(
    "spec.node-closed-to-group",
    f"{{nodes}} can be opened only by root and the group {{group}} (mode {{mode}}), {CLOSED}",
    next="Set gpufleet_cdi_group_ids: true, and the CDI spec gives containers the group",
)
CLOSED_TO_USERS = Sentence(
    "spec.node-closed-to-users",
    f"{{nodes}} can be opened only by root (mode {{mode}}), {CLOSED}",
    next="Set NVreg_DeviceFileMode=0666 in the options of the module nvidia, and load it again",
)
LEFT_OUT = Sentence(
    "spec.left-out",
    "Left out of the CDI spec: {part} need version {needed}, {limit} is the highest here",
)
NO_CDI_HOOK = Sentence(
    "spec.no-hook-program",
    "the profile full needs {program}, which is not on this host",
    next="Install {package}, or choose another gpufleet_cdi_profile",
)

# why a document is not a spec, or needs a newer reader
SPEC_NEEDS_VERSION = Sentence("spec.needs-version", "{reason} needs {version}")
SPEC_PART_LACKS = Sentence("spec.part-lacks", "{where} has no {lacking}")
SPEC_PART_NO_MAPPING = Sentence("spec.part-no-mapping", "{where} is not a mapping")
SPEC_PART_NO_LIST = Sentence("spec.part-no-list", "{where} is not a list")
