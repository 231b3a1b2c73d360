# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/comparison.md says of `nvidia-ctk` what it does: each claim there, asked of the real
program. No engine runs.
"""

from __future__ import annotations

import functools
import json
import resource
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.lab import artefacts

PAGE = (Path(__file__).resolve().parents[2] / "docs/comparison.md").read_text()
MAIN = '# kept by the platform team\nversion = 3\n\n[plugins."io.containerd.cri.v1.runtime"]\n  max_container_log_line_size = 99\n'
TOOLS = {"1.17": "nvidia-toolkit-1.17", "1.20": "nvidia-toolkit"}


@functools.cache
def program(release: str) -> Path:
    if shutil.which("go") is None:
        pytest.skip("NVIDIA's tool is built with Go, and there is no Go here")
    return artefacts.go_tool(TOOLS[release]) / "nvidia-ctk"


def ctk(release: str, *arguments: str, full_disk: bool = False) -> subprocess.CompletedProcess[str]:
    """Run it; on a full disk no byte can be written to a file."""
    limit = (
        functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (0, 0)) if full_disk else None
    )
    return subprocess.run(
        [program(release), "runtime", "configure", *arguments],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
    )


def containerd(place: Path) -> list[str]:
    """What its command line takes for a containerd whose main file is beneath this directory."""
    main, drop_in = place / "config.toml", place / "conf.d/99-nvidia.toml"
    if not main.exists():
        main.write_text(MAIN)
    return [
        "--runtime=containerd",
        "--cdi.enabled",
        f"--config={main}",
        f"--drop-in-config={drop_in}",
        "--config-source=file",
    ]


def docker(place: Path, text: str) -> list[str]:
    (place / "daemon.json").write_text(text)
    return ["--runtime=docker", "--cdi.enabled", f"--config={place / 'daemon.json'}"]


def test_the_page_names_the_release_that_is_asked() -> None:
    done = subprocess.run(
        [program("1.20"), "--version"], capture_output=True, text=True, check=True
    )
    version = done.stdout.split()[-1]
    assert f"`nvidia-ctk` are about its release {version}," in " ".join(PAGE.split())


def test_a_second_run_writes_again_and_says_so(tmp_path: Path) -> None:
    assert ctk("1.20", *containerd(tmp_path)).returncode == 0
    before = (tmp_path / "conf.d/99-nvidia.toml").stat()
    content = (tmp_path / "conf.d/99-nvidia.toml").read_bytes()
    again = ctk("1.20", *containerd(tmp_path))
    assert (tmp_path / "conf.d/99-nvidia.toml").read_bytes() == content
    assert (tmp_path / "conf.d/99-nvidia.toml").stat().st_mtime_ns > before.st_mtime_ns
    assert "Wrote updated config" in again.stderr


def test_comments_in_the_main_file_are_lost(tmp_path: Path) -> None:
    assert ctk("1.20", *containerd(tmp_path)).returncode == 0
    assert "#" in MAIN
    assert "#" not in (tmp_path / "config.toml").read_text()


def test_the_drop_in_copies_the_table_of_the_main_file(tmp_path: Path) -> None:
    assert ctk("1.20", *containerd(tmp_path)).returncode == 0
    drop_in = tomllib.loads((tmp_path / "conf.d/99-nvidia.toml").read_text())
    assert drop_in["plugins"]["io.containerd.cri.v1.runtime"]["max_container_log_line_size"] == 99


@pytest.mark.parametrize(("release", "kept"), [("1.17", False), ("1.20", True)])
def test_other_features_of_docker(release: str, kept: bool, tmp_path: Path) -> None:
    assert (
        ctk(release, *docker(tmp_path, '{"features": {"containerd-snapshotter": true}}')).returncode
        == 0
    )
    assert (
        "containerd-snapshotter" in json.loads((tmp_path / "daemon.json").read_text())["features"]
    ) is kept


def test_a_full_disk_leaves_an_empty_file(tmp_path: Path) -> None:
    assert (
        ctk("1.20", *docker(tmp_path, '{"log-driver": "journald"}'), full_disk=True).returncode != 0
    )
    assert (tmp_path / "daemon.json").read_bytes() == b""
