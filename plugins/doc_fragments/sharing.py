# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option that says who may use each GPU of a host."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  sharing:
    description:
      - Who may use each GPU of a host without Kubernetes. A dictionary of GPUs, each with one policy. A GPU is named by its UUID, its PCI
        address (V(0000:17:00.0)), its product name, which stands for all GPUs of that name, or its index. An index is accepted with a
        warning, since it changes when a GPU is added or fails.
      - C(dedicated) is for one user at a time. With C(exclusive) set to V(true) its compute mode is V(EXCLUSIVE_PROCESS). The driver
        then refuses a second process, also one of the same job.
      - C(time_slicing) is for several processes that take turns. Its compute mode is V(DEFAULT). C(interval) is one of V(default),
        V(short), V(medium) and V(long) and sets the time slice; without it the time slice is left as it is. Memory is not divided.
      - GPUs with C(time_slicing) also get CDI devices of their own, of the kind C(nvidia.com/gpu-shared), where this collection owns the
        CDI spec. Who asks by that kind gets no dedicated GPU.
      - C(mps) is for several processes that compute at the same time, as clients of a CUDA MPS daemon of the GPU's own, which runs as a
        unit. Its compute mode is V(EXCLUSIVE_PROCESS). C(memory) (V(8G), V(512M)) and C(threads) (percent) limit what each client may
        use. C(clients) gives each of so many an equal part of both, where these are not written. A fatal fault of one client ends the
        others. GPUs with C(mps) have CDI devices of the kind C(nvidia.com/mps), and a container asks for one of them. The program
        C(nvidia-cuda-mps-control) has to be on the host.
      - With C(replicas) C(time_slicing) and C(mps) are for the device plugin of a Kubernetes node. Nothing is set on the host then, and the
        playbook C(gpufleet.nvidia.kubernetes) writes it for the device plugin. That has one policy for a node, so each GPU has to be named,
        with the same one.
      - A small unit on the host sets modes again at every boot and when the driver is loaded again. A GPU that leaves the dictionary
        gets the modes back that were found on it.
      - Refused are a GPU that is not there, two entries for one GPU, a GPU whose MIG is on, and a host whose GPUs Slurm (C(gres/mps),
        C(gres/shard)) shares. On a host with a kubelet only C(replicas) is accepted. With C(mps) an MPS daemon that another program has
        started is refused as well, and so is a change that would end a daemon while a process uses its GPU. O(restart=force) continues.
      - An empty dictionary takes back what an earlier run set. Without the option nothing of this is looked at.
    type: dict
"""
