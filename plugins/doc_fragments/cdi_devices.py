# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation fragment: what the devices of a CDI spec are called, and what is recorded of their
nodes.
"""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  cdi_device_names:
    description:
      - How the devices of the CDI spec are named, with the values of C(nvidia-ctk cdi generate --device-name-strategy). Each value adds one
        name to every device.
      - V(index) is C(0) for a GPU and C(0:1) for a MIG device, as C(nvidia-smi) counts them. V(type-index) is C(gpu0) and C(mig0:1).
        V(uuid) is C(GPU-...) and C(MIG-...).
      - An index can change at a reboot, a UUID does not.
    type: list
    elements: str
    choices: [index, uuid, type-index]
    default: [index, uuid]
  cdi_node_attributes:
    description:
      - The attributes of a device node that the CDI spec records. A recorded number wins over the live node when a container starts.
      - V(static) records the numbers that cannot change, those of the major 195. V(none) records none. V(all) records type, numbers, mode
        and group, so a container gets a node even if the host lacks it. Such a spec is valid until the next boot only, since the
        kernel assigns the major numbers of C(nvidia-uvm) and C(nvidia-caps) when the modules are loaded.
    type: str
    choices: [none, static, all]
    default: static
  cdi_group_ids:
    description:
      - Whether the processes of a container get the groups of device nodes that not everyone may open. Those are V(video) for
        C(/dev/nvidia*) on SUSE, and V(video) and V(render) for C(/dev/dri) on most hosts.
      - Needs CDI 0.7.0. Where an engine of the host reads older versions only, the groups are left out, with advice.
      - A rootless engine cannot map groups that are not its user's, and may warn or refuse.
    type: bool
    default: false
"""
