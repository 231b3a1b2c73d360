# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive that Galaxy gets: the same bytes from the same files, nothing that users have no use
for, and all that its pages speak of.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.night import leave_unless
from tests.unit import tool_modules
from tests.unit.playbooks import bare

ROOT = Path(__file__).resolve().parents[3]
# The pages that show how to call the playbooks.
SHOWN = "\n".join((ROOT / page).read_text() for page in ("README.md", "docs/playbooks.md"))
PLAYBOOKS = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))
MODULES = sorted(path.stem for path in (ROOT / "plugins/modules").glob("*.py"))
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())
# Everything at the top of the archive; the first two are ansible-galaxy's own.
CONTENT = {
    "MANIFEST.json", "FILES.json",
    "plugins", "roles", "playbooks", "meta", "docs", "examples", "changelogs", "LICENSES",
    "README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "ARCHITECTURE.md", "CHANGELOG.rst", "LICENSE",
}  # fmt: skip


@pytest.fixture(scope="module")
def tool() -> Iterator[ModuleType]:
    """tests/tools/archive.py, which imports its neighbours by their names."""
    yield from tool_modules.imported("archive")


@pytest.fixture(scope="module")
def archives(tool: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Built twice, from two clones in two places."""
    found = []
    for name in ("here", "there"):
        place = tmp_path_factory.mktemp(name)
        tool.copy(place / "clone")
        found.append(tool.build(place / "clone", place / "built"))
    return found


@pytest.fixture(scope="module")
def installed(archives: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A path for collections with nothing in it but what the archive brings."""
    place = tmp_path_factory.mktemp("installed")
    command = ("collection", "install", archives[0], "-p", place, "--offline")
    status, words = bare.run(place, "ansible-galaxy", *command, ANSIBLE_COLLECTIONS_PATH=str(place))
    assert status == 0, words
    assert "was installed successfully" in words
    return place


def test_the_same_files_give_the_same_bytes(archives: list[Path]) -> None:
    assert archives[0].read_bytes() == archives[1].read_bytes()


def test_the_archive_has_what_users_need_and_nothing_else(archives: list[Path]) -> None:
    with tarfile.open(archives[0]) as archive:
        entries = archive.getmembers()
    assert {entry.name.split("/")[0] for entry in entries} == CONTENT
    assert [entry.name for entry in entries if not (entry.isfile() or entry.isdir())] == [], (
        "no link, above all none to outside"
    )
    assert [
        entry.name
        for entry in entries
        if re.search(r"(^|/)(\.|__pycache__|tests?/)|\.pyc$", entry.name)
    ] == []


def test_what_its_own_pages_link_to_is_in_it(installed: Path) -> None:
    home = installed / "ansible_collections/gpufleet/nvidia"
    missing = []
    for page in [
        home / "README.md",
        home / "SECURITY.md",
        home / "docs/README.md",
        home / "docs/modules.md",
        *home.glob("roles/*/README.md"),
        home / "examples/README.md",
    ]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            if not (page.parent / target).exists():
                missing.append(f"{page.relative_to(home)}: {target}")
    assert missing == []


@pytest.mark.parametrize(("kind", "names"), [("module", MODULES), ("role", ROLES)])
def test_its_documentation_can_be_read(kind: str, names: list[str], installed: Path) -> None:
    wanted = [f"gpufleet.nvidia.{name}" for name in names]
    status, words = bare.run(
        installed,
        "ansible-doc",
        "-t",
        kind,
        "--json",
        *wanted,
        ANSIBLE_COLLECTIONS_PATH=str(installed),
    )
    assert status == 0, words
    found, _end = json.JSONDecoder().raw_decode(words[words.index("{") :])
    assert sorted(found) == wanted
    if kind == "role":
        assert sorted(found["gpufleet.nvidia.host"]["entry_points"]) == [
            "look",
            "main",
            "refresh_cdi",
        ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example project, its hosts being bare trees on this machine."""
    shutil.copytree(ROOT / "examples/mixed", tmp_path / "fleet")
    groups = yaml.safe_load((tmp_path / "fleet/inventory/hosts.yml").read_text())["all"][
        "children"
    ]["gpu_hosts"]["children"]
    hosts = [host for group in groups.values() for host in group["hosts"]]
    (tmp_path / "fleet/inventory/host_vars").mkdir()
    for host in hosts:
        own = {
            **bare.variables(tmp_path, host),
            "ansible_become": False,
            "gpufleet_packages": "ignore",
            "gpufleet_toolkit_repository": "",
        }
        bare.written(tmp_path / f"fleet/inventory/host_vars/{host}.yml", yaml.safe_dump(own))
    return tmp_path / "fleet"


def commands() -> list[str]:
    """Return the ways to call a playbook of the collection, as the pages show them."""
    return re.findall(
        r"^ *\$? *ansible-playbook -i inventory (.*?gpufleet\.nvidia\.\w+[^#\n]*)",
        SHOWN,
        re.MULTILINE,
    )


def test_the_pages_show_every_playbook() -> None:
    shown = {
        match for command in commands() for match in re.findall(r"gpufleet\.nvidia\.(\w+)", command)
    }
    without_inventory = {"awx", "bundle"}  # tests/integration: test_awx_objects.py, test_bundle.py
    assert shown == set(PLAYBOOKS) - without_inventory


# played on a real one: tests/integration/test_hand_over.py
OF_A_CLUSTER = "gpufleet.nvidia.hand_over"
# Everything is played in check mode, so what a page says twice, with it and without, is one command.
NOT_PLAYED = ("-b", "--become", "--check", "--diff")
PLAYED = dict.fromkeys(
    " ".join(word for word in command.split() if word not in NOT_PLAYED)
    for command in commands()
    if OF_A_CLUSTER not in command
)
BY_NIGHT = pytest.mark.nightly(
    "other files play the same playbooks from the checkout by day; the archive could only lack a file of theirs"
)
BY_DAY = ("gpufleet.nvidia.plan", "gpufleet.nvidia.site -e @rollout.yml")


@pytest.mark.parametrize(
    "command", ["playbooks/own.yml", *leave_unless(BY_NIGHT, PLAYED, BY_DAY.__contains__)]
)
def test_what_the_pages_say_works_from_the_archive(
    command: str, installed: Path, project: Path
) -> None:
    arguments = command.split()
    hosts = (
        []
        if "@rollout.yml" in arguments or "own.yml" in command
        else ["-e", "gpufleet_hosts=gpu_hosts"]
    )
    image = ["-e", "gpufleet_verify_image=busybox"] if "verify" in command else []
    settled = {"ANSIBLE_COLLECTIONS_PATH": str(installed)}
    status, words = bare.run(
        project,
        "ansible-playbook",
        "-i",
        "inventory",
        "--check",
        *hosts,
        *image,
        *arguments,
        **settled,
    )
    if "verify" in command:
        assert "nothing runs in another root directory" in words
        return
    assert status == 0, words
    assert "web1" not in words
    assert "[WARNING]" not in words, words


def test_ansible_lint_says_nothing_about_installed_roles(installed: Path, project: Path) -> None:
    """What a user sees who lints a project that uses them: nothing but the user's own."""
    if not Path(sys.executable).with_name("ansible-lint").exists():
        pytest.skip("ansible-lint is in the environment of the newest ansible-core only")
    command = ("--offline", "--nocolor", "--profile", "production", "--project-dir", ".")
    status, words = bare.run(
        project, "ansible-lint", *command, ANSIBLE_COLLECTIONS_PATH=str(installed)
    )
    assert status == 0, words
    assert "0 failure(s), 0 warning(s)" in words
    assert int(re.search(r"in (\d+) files processed", words)[1]) > 8, words  # type: ignore[index]
