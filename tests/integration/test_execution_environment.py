# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An execution environment on Debian, as ansible-builder describes it: every instruction of its
Containerfile is played on a Debian root, and the image runs a playbook.

What is real: ansible-builder and all of its scripts, apt, pip, ansible-galaxy, bindep, and the
collection's archive. The root is mmdebstrap's instead of an image's, and there is no network: pip
takes wheels that lie ready, and the collection comes from its archive.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.awx import programs
from tests.integration import containerfile
from tests.lab import roots, wheels
from tests.lab.lab import Lab
from tests.unit import tool_modules
from tests.unit.playbooks import bare

with tool_modules.reachable():
    import archive
    import environments

pytestmark = pytest.mark.lab

EXAMPLE = programs.ROOT / "examples/awx/execution-environment-debian.yml"
SETTINGS = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "DEBIAN_FRONTEND": "noninteractive",
    "LC_ALL": "C.UTF-8",
    "HOME": "/root",
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": "/wheels",
}
COLLECTION = "/usr/share/ansible/collections/ansible_collections/gpufleet/nvidia"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[containerfile.Player]:
    """Build the image of the example for Debian, with the collection's archive."""
    context = describe_image(tmp_path_factory.mktemp("project"))
    with Lab(f"tree-{os.getpid()}-{uuid.uuid4().hex[:8]}") as lab:
        lab.hold()
        base = roots.base_root("trixie")
        player = containerfile.Player(
            lab.runtime / "image",
            context,
            f"{roots.package_layer(base, roots.VENV)}:{base}",
            wheels.find_wheels("image", environments.interpreter("image")),
            SETTINGS,
        )
        text = (context / "Containerfile").read_text()
        player.play(text, {"ANSIBLE_GALAXY_CLI_COLLECTION_OPTS": "--offline"})
        yield player


def describe_image(project: Path) -> Path:
    """Have ansible-builder describe the image, and return the folder that it writes."""
    (project / "source").mkdir()
    archive.copy(project / "source")
    packed = archive.build(project / "source", project / "collections")
    wanted = yaml.safe_load(EXAMPLE.read_text())
    wanted["dependencies"]["galaxy"] = {
        "collections": [{"name": f"collections/{packed.name}", "type": "file"}]
    }
    wanted["additional_build_files"] = [{"src": "collections", "dest": "collections"}]
    (project / "ee.yml").write_text(yaml.safe_dump(wanted, sort_keys=False))
    options = ("--file", "ee.yml", "--context", "context", "--output-filename", "Containerfile")
    status, words = programs.run(project, "ansible-builder", "create", *options)
    assert status == 0, words
    return project / "context"


def test_the_image_resolves_what_the_collection_and_its_user_need(
    built: containerfile.Player,
) -> None:
    builder, final = built.stages["builder"], built.stages["final"]
    wanted = (builder.place / "upper/tmp/src/requirements.txt").read_text()
    assert [name for name in ("tomlkit", "kubernetes", "tzdata") if name in wanted] == [
        "tomlkit",
        "kubernetes",
        "tzdata",
    ]
    assert "openssh-client" in (builder.place / "upper/tmp/src/bindep.txt").read_text()
    python = "/opt/ee/bin/python3"
    built.run(final, [python, "-m", "pip", "check"])
    built.run(final, [python, "-c", "import ansible, ansible_runner, kubernetes, tzdata"])
    missing = "import importlib.util; assert importlib.util.find_spec('tomlkit') is None"
    built.run(final, [python, "-c", missing])  # Python 3.13 reads TOML by itself
    built.run(final, ["/usr/bin/ssh", "-V"])


def test_the_image_plays_a_playbook_for_an_account_without_rights(
    built: containerfile.Player,
) -> None:
    final = built.stages["final"]
    assert final.told["USER"] == "1000"
    host = final.place / "upper/runner/trees/gpu1"
    bare.tree(host)
    named = {**bare.variables(host.parent.parent, "gpu1"), "gpufleet_root": "/runner/trees/gpu1"}
    named["ansible_python_interpreter"] = "/usr/bin/python3"
    named["gpufleet_packages"] = "ignore"
    inventory = yaml.safe_dump({"all": {"hosts": {"gpu1": named}}})
    (final.place / "upper/runner/hosts.yml").write_text(inventory)
    entry = ["/opt/builder/bin/entrypoint", "dumb-init"]
    play = ["ansible-playbook", "-i", "hosts.yml", "gpufleet.nvidia.plan"]
    words = built.run(final, [*entry, *play], "--userspec=1000:0")
    assert "1 host: 1 would change" in words
    assert (final.place / f"upper{COLLECTION}/MANIFEST.json").is_file()
