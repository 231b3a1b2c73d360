# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine with a real GPU shows of this collection: one file that runs there without Ansible.

`build` makes the file. All else goes into it. The look and what it needs run on Python 3.6, the
planner's part on 3.10.
"""
