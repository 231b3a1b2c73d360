# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The support that modules give, in the words of Ansible's support tables."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  action:
    description: Indicates this has a corresponding action plugin so some parts of the options can be executed on the controller.
    support: full
  async:
    description: Supports being used with the C(async) keyword.
    support: none
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
  idempotent:
    description: >-
      When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
      This assumes that the system controlled/queried by the module has not changed in a relevant way.
  platform:
    description: Target OS/families that can be operated against.
    platforms: linux
    support: full
"""

    # Modules that change hosts.
    CHANGES = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - The staged files are validated by the engine's own program and then discarded.
  diff_mode:
    support: full
    details:
      - The lines that come and go are shown under their table's header, and none of the lines around them.
  idempotent:
    support: full
"""

    # Modules that only look.
    INFO = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - This action does not modify state.
  diff_mode:
    support: N/A
    details:
      - This action does not modify state.
  idempotent:
    support: full
    details:
      - This action does not modify state.
"""

    # Modules that write on the controller what a run has found.
    REPORT = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - No host is changed. The files are what the run is for, so they are written in check mode as well, and count as no change.
  diff_mode:
    support: N/A
    details:
      - This action does not modify hosts.
  idempotent:
    support: full
    details:
      - This action does not modify hosts.
"""

    # Modules whose one task is about all hosts of the play.
    ONCE = r"""
options: {}
attributes:
  bypass_host_loop:
    description: Forces a global task that does not execute per host.
    support: full
"""

    ACTIONGROUP_HOST = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/gpufleet.nvidia.host) in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - gpufleet.nvidia.host
"""
