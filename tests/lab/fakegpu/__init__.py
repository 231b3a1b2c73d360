# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's GPUs, made of files: what the driver, its libraries and the kernel would show, from an
inventory of a few lines.

`inventories.inventory` reads a host's entry of a fleet file. `host_tree.tree` returns the files
that follow from it (a pure function). `host_tree.install` puts them into a host's root. The trees
of /proc and /sys lie under /opt/fakegpu, since nothing can be put into the real ones. A boot mounts
the files that NVIDIA's own tools read in /proc over it.
"""
