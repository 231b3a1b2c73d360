# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation fragment: which devices of the fabric between GPUs containers may ask for."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  cdi_imex_channels:
    description:
      - The IMEX channels that containers may ask for, by number. Each is a device of the kind C(nvidia.com/imex-channel) in a
        file of its own, C(nvidia.com/imex-channel=0) for channel 0. There is no device for all of them.
      - V(all) stands for the channels that are there when the spec is made. A channel that is named by number and is missing
        counts as a missing device node.
      - Whoever has a channel reads and writes the memory of GPUs that others export there, also from other hosts. So no
        container gets one unasked. Empty makes no device, and a run for the whole host removes the file of an earlier one.
    type: list
    elements: str
    default: []
  cdi_nvswitch:
    description:
      - Whether containers may ask for the NVSwitches of the host, by C(nvidia.com/nvswitch=all), from a file of its own.
      - Fabric Manager and switch tools need them. CUDA and NCCL do not.
    type: bool
    default: false
"""
