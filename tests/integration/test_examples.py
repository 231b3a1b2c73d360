# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documentation shows is what works: every module's EXAMPLES run in check mode on a host,
README's and the page of playbooks' own parse.
"""

from __future__ import annotations

import ast
import dataclasses as dc
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.documented_tasks import documented
from tests.lab import aptrepo, artefacts
from tests.tools.onlab import ROOT, Fleet, repository

OURS = "gpufleet.nvidia."
# About no host: test_awx_objects.py, test_bundle.py, and test_report_page.py and test_kubernetes.py
# in tests/unit/playbooks run their examples.
ELSEWHERE = {"awx", "bundle", "fleet_report", "kubernetes_objects"}
MODULES = sorted({path.stem for path in (ROOT / "plugins/modules").glob("*.py")} - ELSEWHERE)
# The pages that show how to call playbooks and how to write one.
SHOWN = "\n".join(
    (ROOT / page).read_text() for page in ("README.md", "docs/playbooks.md", "docs/pilot.md")
)
PLAYBOOKS = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))
HOSTS = {
    # with the channel that an example of cdi_spec names
    "ex-containerd": {"kind": "containerd-1.7", "gpus": 2, "driver": "ok", "channels": 1},
    "ex-crio": {"kind": "crio-1.34", "gpus": 2, "driver": "ok"},
    "ex-docker": {"kind": "docker", "gpus": 2, "driver": "ok"},
}


@dc.dataclass(frozen=True)
class Needs:
    """What a module's examples take for granted."""

    host: str = "ex-containerd"
    script: str = ""  # what has to be on the host before
    before: tuple[Mapping[str, Any], ...] = ()  # tasks that a playbook has had before
    # what a reader has to set to their own
    options: Mapping[str, str] = dc.field(default_factory=dict)
    hosts: str = ""  # the name of the group in an example that is a play


LOOK = {"gpufleet.nvidia.host": {"toolkit_repository": ""}, "register": "gpufleet_host_result"}
# Stands for an installed package. Check mode asks only whether the programs of one are there.
PROGRAM = "printf '#!/bin/sh\\n' >/usr/bin/{0}; chmod 755 /usr/bin/{0}; "
# The default is NVIDIA's public repository, which a test does not reach.
MIRROR = {
    name: f"gpufleet_{name}"
    for name in ("toolkit_repository", "toolkit_key", "toolkit_key_fingerprint")
}
CATALOGUE = {"catalogue": "catalogue_of_the_lab"}
OF_LAB = {
    "url" if name == "toolkit_repository" else name: variable for name, variable in MIRROR.items()
}
NEEDS: dict[str, Needs] = {
    "cdi_spec": Needs(),
    "cdi_spec_info": Needs(),
    "containerd_runtime": Needs(script="mkdir -p /srv/image/etc/containerd"),
    "crio_runtime": Needs(
        "ex-crio",
        script=PROGRAM.format("nvidia-container-runtime") + "mkdir -p /srv/image/etc/crio",
    ),
    "device_nodes": Needs(),
    "docker_runtime": Needs(
        "ex-docker", script=PROGRAM.format("nvidia-container-runtime") + "mkdir -p /srv/image/etc"
    ),
    "drain": Needs(options=MIRROR),
    "fleet_table": Needs(before=(LOOK,)),
    "gpu_diagnose": Needs(),
    "gpu_health_info": Needs(),
    "host_program": Needs(),
    "fleet_image_report": Needs(options={**CATALOGUE, "directory": "directory_of_the_lab"}),
    "image_choice_info": Needs(options=CATALOGUE),
    "host": Needs(options=MIRROR),
    "host_verify": Needs(options=MIRROR),
    "host_info": Needs(options=MIRROR),
    "oci_hook": Needs("ex-crio", script=PROGRAM.format("nvidia-container-runtime-hook")),
    "playbook_step": Needs(),
    "failed_hosts_check": Needs(hosts="gpu_hosts", options=MIRROR),
    "toolkit_config": Needs(),
    "toolkit_packages": Needs(options=MIRROR),
    # The example shows upstream's key; the lab has one of its own.
    "toolkit_repository": Needs(
        options={name.removeprefix("toolkit_"): variable for name, variable in OF_LAB.items()}
    ),
    "variables_check": Needs(),
}


def plays(module: str) -> list[dict[str, Any]]:
    """The examples as plays: tasks together as one, since they register what later ones show."""
    # not installed here
    entries = [
        entry
        for entry in documented(module, "EXAMPLES")
        if "community.docker.docker_container" not in entry
    ]
    if "hosts" in entries[0]:
        return [dict(entry) for entry in entries]
    return [
        {
            "hosts": NEEDS[module].host,
            "gather_facts": False,
            "tasks": [*NEEDS[module].before, *entries],
        }
    ]


def suited(task: Mapping[str, Any], needs: Needs) -> dict[str, Any]:
    """A task with what a reader would set to their own."""
    found = dict(task)
    for name in [key for key in task if key.startswith(OURS)]:
        known = options(name.removeprefix(OURS))
        own = {
            option: f"{{{{ {variable} }}}}"
            for option, variable in needs.options.items()
            if option in known
        }
        if "bundle_file" in (task[name] or {}):  # which stands for a repository
            own = {**own, "toolkit_repository": "", "bundle_file": "{{ archive_of_the_lab }}"}
        found[name] = {**(task[name] or {}), **own}
    return found


def options(module: str) -> set[str]:
    """The names of a module's options, those of the shared fragments as well."""
    told = documented(module, "DOCUMENTATION")
    wanted = told.get("extends_documentation_fragment") or []
    names = set(told.get("options") or {})
    for fragment in [wanted] if isinstance(wanted, str) else wanted:
        file, _dot, attribute = fragment.removeprefix(OURS).partition(".")
        names |= set(fragments(file)[(attribute or "documentation").upper()].get("options") or {})
    return names


def fragments(file: str) -> dict[str, Any]:
    """The YAML blocks of a documentation fragment."""
    tree = ast.parse((ROOT / f"plugins/doc_fragments/{file}.py").read_text())
    blocks = [
        node
        for part in tree.body
        if isinstance(part, ast.ClassDef)
        for node in part.body
        if isinstance(node, ast.Assign)
    ]
    return {
        b.targets[0].id: yaml.safe_load(ast.literal_eval(b.value))
        for b in blocks
        if isinstance(b.targets[0], ast.Name)
    }


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    found: Fleet = boot(HOSTS)
    return found


@pytest.fixture(scope="module")
def archive(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What gpufleet.nvidia.bundle makes of the lab's repository."""
    home = artefacts.nvidia_debs()
    made = {
        "file": str(tmp_path_factory.mktemp("archive") / "bundle.tar"),
        "url": f"file://{home}/{aptrepo.FLAT}",
    }
    task = {f"{OURS}bundle": {**made, "key": (home / "key.asc").read_text()}}
    done = fleet.play([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}])
    assert done.failed == {}, done.words
    return made["file"]


def test_every_module_has_a_row_in_the_table() -> None:
    assert sorted(NEEDS) == MODULES


@pytest.mark.lab
@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module: str, fleet: Fleet, archive: str) -> None:
    needs = NEEDS[module]
    if needs.script:
        fleet.shell(needs.host, needs.script)
    shown = plays(module)
    for play in shown:
        play["tasks"] = [suited(task, needs) for task in play["tasks"]]
    before = {host: fleet.tree(host) for host in HOSTS}
    image = {"name": "any", "image": "registry.example.org/team/any:1"}
    places = {
        "archive_of_the_lab": archive,
        "directory_of_the_lab": str(Path(archive).with_name("images")),
    }
    own = {**repository(), **places, "catalogue_of_the_lab": {"schema": 1, "images": [image]}}
    run = fleet.play(shown, [needs.host], variables=own, arguments=["--check", "--diff"])
    assert (run.status, run.failed) == (0, {}), run.words
    answered = [entry for entry in run.entries if str(entry["task"]) == OURS + module]
    wanted = [task for play in shown for task in play["tasks"] if OURS + module in task]
    assert len(answered) >= len(wanted) > 0, run.words
    assert {host: fleet.tree(host) for host in HOSTS} == before


def blocks(language: str) -> list[str]:
    """Return the snippets of these pages in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", SHOWN, re.MULTILINE | re.DOTALL)


def is_playbook(snippet: str) -> bool:
    return isinstance(yaml.safe_load(snippet), list)


def syntax(playbook: str, *arguments: str) -> None:
    """Have Ansible read a playbook."""
    command = [
        Path(sys.executable).with_name("ansible-playbook"),
        "--syntax-check",
        "-i",
        "host,",
        *arguments,
        playbook,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[ERROR]" not in done.stderr


@pytest.mark.parametrize("snippet", [text for text in blocks("yaml") if is_playbook(text)])
def test_the_playbooks_on_the_pages_parse(snippet: str, tmp_path: Path) -> None:
    path = tmp_path / "play.yml"
    path.write_text(snippet)
    syntax(str(path))
    for play in yaml.safe_load(snippet):
        for task in play["tasks"]:
            module = next(key for key in task if key.startswith(OURS)).removeprefix(OURS)
            assert set(task[OURS + module] or {}) <= options(module)


@pytest.mark.parametrize("snippet", [text for text in blocks("yaml") if not is_playbook(text)])
def test_the_variables_on_the_pages_exist(snippet: str) -> None:
    specs = (ROOT / "roles").glob("*/meta/argument_specs.yml")
    known = {name for path in specs for name in re.findall(r"\bgpufleet_\w+", path.read_text())}
    known |= {
        name
        for path in (ROOT / "playbooks").rglob("*.yml")
        for name in re.findall(r"\bgpufleet_\w+", path.read_text())
    }
    assert {name for name in yaml.safe_load(snippet) if name != "ansible_become"} - known == set()


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_a_page_shows_each_playbook_by_a_name_that_ansible_finds(playbook: str) -> None:
    assert re.search(rf"`{playbook}`|gpufleet\.nvidia\.{playbook}\b", SHOWN)
    syntax(f"{OURS}{playbook}")


def test_the_commands_on_the_pages_name_playbooks_that_are_there() -> None:
    commands = [
        shlex.split(command, comments=True)
        for command in re.findall(r"ansible-playbook [^`\n]+", SHOWN)
    ]
    named = {word for command in commands for word in command if word.startswith(OURS)}
    assert named == {f"{OURS}{name}" for name in PLAYBOOKS}
    assert all(sum(word.startswith(OURS) for word in command) == 1 for command in commands)
