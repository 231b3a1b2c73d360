# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A survey of AWX that nobody has answered: every setting of the run is there, as an empty text, on
every release of ansible-core.
"""

from __future__ import annotations

from pathlib import Path

import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import variables

from tests.unit.playbooks import bare

# Ansible itself reads these two, and ends over an empty one; their surveys want an answer.
READ_BY_ANSIBLE = {"gpufleet_hosts", "gpufleet_serial"}


def test_a_rollout_takes_every_setting_as_an_empty_text(tmp_path: Path) -> None:
    inventory = bare.written(
        tmp_path / "hosts.yml",
        yaml.safe_dump({"gpu_hosts": {"hosts": {"gpu1": bare.variables(tmp_path, "gpu1")}}}),
    )
    unanswered = dict.fromkeys(set(variables.RUN) - READ_BY_ANSIBLE, "")
    status, words = bare.play(tmp_path, inventory, "rollout", "--check", **unanswered)
    assert status == 0, words
    assert "1 host: 1 would change" in words
