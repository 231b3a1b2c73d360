# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths of hosts are taken as they are written; those of the controller are its own, with its home
and environment.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments, clusters
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import options

MODULES = sorted(
    path.stem for path in Path(arguments.MODULES).glob("*.py") if path.stem != "__init__"
)
# Options of type `path` of the machine that runs Ansible.
OF_CONTROLLER = {
    "bundle_file",
    "dir",
    "directory",
    "file",
    "files",
    "registry_auth_file",
    "sources",
}
PATHS = [
    (module, name)
    for module in MODULES
    for name, option in arguments.derive_argument_spec(module).items()
    if "path" in (option.get("type"), option.get("elements")) or name in options.HOST_PATHS
]
WRITTEN = ["~/x", "~root/x", "$HOME/x", "/srv/$HOME/x", "/srv/${HOME}/x"]


def of_task(module: str, **given: Any) -> dict[str, Any]:
    required = {
        name: "x"
        for name, option in arguments.derive_argument_spec(module).items()
        if option.get("required")
    }
    action: Any = SimpleNamespace(_task=SimpleNamespace(args={**required, **given}))
    return arguments.read_task_options(action, arguments.derive_argument_spec(module))


def test_every_option_of_type_path_is_known_as_a_hosts_or_the_controllers() -> None:
    assert {name for _module, name in PATHS} == options.NOT_OF_CONTROLLER | OF_CONTROLLER


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, name in PATHS if name in options.HOST_PATHS]
)
@pytest.mark.parametrize("path", WRITTEN)
def test_a_path_of_a_host_never_becomes_one_of_the_controller(
    module: str, name: str, path: str
) -> None:
    with pytest.raises(PlanError) as refused:
        of_task(module, **{name: path})
    assert (refused.value.code, refused.value.values) == (
        "options.path-expands",
        {"option": name, "value": path},
    )


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, name in PATHS if name in options.HOST_PATHS]
)
@pytest.mark.parametrize("path", ["/srv/a~b/c", "/srv/a$/c", "/srv/a$-b/c"])
def test_signs_that_nothing_expands_stay(module: str, name: str, path: str) -> None:
    taken = of_task(module, **{name: path})[name]
    assert taken == ([path] if isinstance(taken, list) else path)


def test_a_kubeconfig_is_of_the_machine_that_asks_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/controller")
    assert (
        of_task("kubernetes_objects", kubeconfig="~/.kube/config")["kubeconfig"] == "~/.kube/config"
    )
    with pytest.raises(PlanError) as refused:
        of_task("drain", kubeconfig="$HOME/config")
    assert refused.value.code == "options.kubeconfig-expands"
    assert (
        clusters.validate_cluster_options({"kubeconfig": "~/.kube/config"})["kubeconfig"]
        == "~/.kube/config"
    )


def test_a_path_of_the_controller_has_its_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/controller")
    assert (
        of_task("host", bundle_file="~/bundle.tar")["bundle_file"] == "/home/controller/bundle.tar"
    )
    assert (
        of_task("fleet_report", results="x", directory="$HOME/reports")["directory"]
        == "/home/controller/reports"
    )
