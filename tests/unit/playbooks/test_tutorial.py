# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tutorial without hosts, played block by block as a reader types it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.unit.playbooks import bare

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/without-hosts.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_each_command_prints_what_the_page_shows(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text().replace("/tmp/trees", str(tmp_path / "trees")))
    config = tmp_path / "trees/gpu1/etc/containerd/config.toml"
    output, sizes = "", []
    for language, text in blocks:
        if language == "yaml":
            (tmp_path / "hosts.yml").write_text(
                text + f"      ansible_python_interpreter: {sys.executable}\n"
            )
        elif language == "text":
            assert text in output
        elif not text.startswith("ansible-playbook"):
            subprocess.run(["sh", "-ec", text], cwd=tmp_path, check=True)
            before = config.read_bytes()
        else:
            program, *arguments = shlex.split(text)
            status, output = bare.run(tmp_path, program, *arguments)
            assert status == 0, output
            sizes.append(len(config.read_bytes()))
            assert config.read_bytes().startswith(before)
    plan, changed, again, taken_back = sizes
    assert plan == taken_back == len(before) < changed == again
