# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file to edit is the one that a person owns, never one that a manager makes of it."""

from __future__ import annotations

import dataclasses as dc
import pathlib

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

from tests.unit.bare_trees import Tree
from tests.unit.k0s_files import MAIN as K0S
from tests.unit.k0s_files import MERGED, OLDER, OTHER, RENDERED
from tests.unit.rancher import NVIDIA, Node, handler, rendered

MICROK8S = "/var/snap/microk8s/current/args/containerd-template.toml"
DIRECTORIES = {name: f"/var/lib/rancher/{name}/agent/etc/containerd" for name in ("k3s", "rke2")}
V1 = f"""[plugins.cri.containerd]
  default_runtime_name = "nvidia"
[plugins.cri.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins.cri.containerd.runtimes.runc.options]
  SystemdCgroup = true
[plugins.cri.containerd.runtimes."nvidia"]
  runtime_type = "io.containerd.runc.v2"
[plugins.cri.containerd.runtimes."nvidia".options]
  BinaryName = "{NVIDIA}"
"""
# As guides of 2021 have it (k3s-io/k3s issue 4391).
TEMPLATE = (
    V1.replace("= true", "= {{ .SystemdCgroup }}")
    .replace('."nvidia"', '."{{$k}}"')
    .replace(NVIDIA, "{{$v.BinaryName}}")
    + "{{end}}\n"
)
BROKEN = "[plugins.cri\n"
OFF = 'version = 2\ndisabled_plugins = ["cri"]\n'


@dc.dataclass(frozen=True)
class Case:
    """A tree, and which file its owner is told to edit."""

    version: str
    files: dict[str, str]
    edit: str
    generated: str = ""  # the file that is made of it, named as such


def rancher(
    manager: str, text: str, version: str, template: str = "config.toml.tmpl", own: str = TEMPLATE
) -> Case:
    directory = DIRECTORIES[manager]
    main = f"{directory}/config.toml"
    return Case(
        version, {main: text, f"{directory}/{template}": own}, f"{directory}/{template}", main
    )


OWN_MAIN = f'# by hand\nversion = 2\nimports = ["{MERGED}"]\n'
CASES = {
    # https://github.com/k3s-io/k3s/issues/4391, https://github.com/k3d-io/k3d/issues/1108,
    # https://github.com/k3s-io/k3s/issues/7594
    "a template without the handlers' cgroup driver": rancher("k3s", V1, "1.7.23"),
    "a template of version 1 after an update": rancher("k3s", V1, "2.0.5"),
    "RKE2's of version 1 after an update": rancher("rke2", V1, "2.0.5"),
    "a template that renders no TOML": rancher("k3s", BROKEN, "2.0.5"),
    "a template of version 3 that renders no TOML": rancher("k3s", BROKEN, "2.0.5", "config-v3.toml.tmpl"),
    "a template that switches CRI off": rancher("k3s", OFF, "1.7.23"),
    # https://github.com/NVIDIA/k8s-device-plugin/issues/176
    "k0s' main file, which is a person's": Case("1.7.22", {K0S: OWN_MAIN}, K0S),
    "a drop-in with which k0s does not start": Case("2.3.4", {K0S: RENDERED, OTHER: "version = 2\n"}, f"{OTHER}:1"),
    "a drop-in of k0s that is no TOML": Case("2.3.4", {K0S: RENDERED, OTHER: BROKEN}, OTHER),
    "the template of MicroK8s": Case("2.1.9", {MICROK8S: V1}, f"{MICROK8S}:1"),
}  # fmt: skip


def tree(tmp_path: pathlib.Path, files: dict[str, str]) -> Tree:
    made = Tree(tmp_path / "tree")
    for name, text in files.items():
        made.write(name, text)
    return made


def said_of(tmp_path: pathlib.Path, version: str, files: dict[str, str], **options: str) -> str:
    """All that a person reads of a run that changes nothing."""
    made = tree(tmp_path, files)
    before = made.state()
    done = made.run_host(engine_version=version, engines=("containerd",), **options)
    assert (done["changed"], made.state()) == (False, before)
    refused = [
        f"{i['refusal']} {i['refusal_next']}" if "refusal_next" in i else str(i.get("refusal"))
        for i in done.get("instances") or ()
    ]
    return " ".join([str(done.get("msg") or ""), *done["advice"], *refused])


@pytest.mark.parametrize("case", CASES)
def test_the_file_that_a_person_owns_is_named(tmp_path: pathlib.Path, case: str) -> None:
    row = CASES[case]
    said = said_of(tmp_path, row.version, row.files)
    assert row.edit in said
    if row.generated:
        assert f"renders {row.generated}" in said


NOBODYS = {
    "k3s' own text that cannot be read": ("2.0.5", {f"{DIRECTORIES['k3s']}/config.toml": BROKEN}, "Restart k3s"),
    "k0s' own text that cannot be read": ("2.3.4", {K0S: "# k0s_managed=true\n" + BROKEN}, "Restart k0s"),
    # https://github.com/NVIDIA/k8s-device-plugin/issues/176
    "a file that k0s makes when it starts": ("1.7.22", {K0S: OLDER}, "Update k0s to 1.36 or later"),
    "the same where k0s does not": ("1.7.22", {K0S: OWN_MAIN}, "Move it away and restart k0s"),
}  # fmt: skip


@pytest.mark.parametrize("case", NOBODYS)
def test_nobody_is_told_to_make_or_repair_what_a_manager_makes(
    tmp_path: pathlib.Path, case: str
) -> None:
    version, files, step = NOBODYS[case]
    said = said_of(tmp_path, version, files)
    assert step in said
    assert not [
        words
        for words in (
            "Create the file",
            "remove it from `imports`",
            "Repair it",
            "Fix it",
            "orrect it",
        )
        if words in said
    ]


def test_a_release_without_drop_ins_of_its_own_says_where_the_handlers_driver_is_missing() -> None:
    """Without a template of a person's it is the release (k3s issue 8470), and nothing on the host
    is to be edited.
    """
    node = Node(
        version="1.7.7-k3s1", config=rendered(2, handler(2, "nvidia", systemd=None)), cdi=False
    )
    with pytest.raises(PlanError) as refused:
        node.plan()
    assert refused.value.code == "containerd.rendered-handler-other-cgroup-driver"


# A later drop-in of a person's beside a main file that k3s renders and that imports drop-ins.
LATER = """version = 3
[plugins.'io.containerd.cri.v1.runtime'.containerd]
  default_runtime_name = "runc"
"""


def test_nobody_is_told_to_move_settings_to_a_file_that_is_rendered(tmp_path: pathlib.Path) -> None:
    directory = DIRECTORIES["k3s"]
    main = rendered(3).replace(
        "version = 3\n", f'version = 3\nimports = ["{directory}/config-v3.toml.d/*.toml"]\n', 1
    )
    later = f"{directory}/config-v3.toml.d/95-site.toml"
    said = said_of(
        tmp_path,
        "2.2.3",
        {f"{directory}/config.toml": main, later: LATER},
        set_as_default="enabled",
    )
    assert f"{later}:3" in said
    assert "root file" not in said


def test_every_manager_says_what_it_makes_its_main_file_of() -> None:
    """A new one either has a main file that is edited, or says what a person edits instead."""
    for manager in known.MANAGERS:
        if manager.place and not manager.place.main_edited:
            assert manager.place.detection or manager.place.made_of, manager.name
        elif manager.place is None:
            assert manager.refusal.message.code, manager.name
            assert manager.refusal.next, manager.name
