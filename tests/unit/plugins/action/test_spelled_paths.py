# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One path has many spellings. Options and files in any of them mean the same: a second run changes
nothing, and all can be taken back.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import host as action_host
from ansible_collections.gpufleet.nvidia.plugins.action import oci_hook
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import host_paths
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    options,
    seen_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    daemons,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    config as crio_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config as docker_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    detect as docker_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    facts as docker_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.podman import (
    detect as podman_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.podman import (
    directories,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    cgroup_driver,
)

from tests.unit import cdi_plans, gpus, running_hosts
from tests.unit.bare_trees import PREPARED, SINGLE, State, Tree
from tests.unit.builders import obs
from tests.unit.running_host import Host, HostProcess, start_process

CONTAINERD, CRIO, DOCKER = "containerd_runtime", "crio_runtime", "docker_runtime"
VERSIONS = {CONTAINERD: "2.1.9", CRIO: "1.34.0", DOCKER: "28.5.2"}
ROOT = "/etc/containerd/config.toml"
V2 = 'version = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n'
V1 = 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n  sandbox_image = "pause:3.9"\n'
JSON = {"/etc/docker/daemon.json": '{"debug": true}\n'}
NODES = {
    f"/run/nvidia/driver{path}": there
    for path, there in gpus.host().items()
    if path.startswith("/dev/")
}


def spell(path: str, how: str) -> str:
    """Spell an absolute path otherwise."""
    folder, _slash, name = path.rpartition("/")
    return {
        "plain": path,
        "two slashes": f"{folder}//{name}",
        "a dot": f"{folder}/./{name}",
        "two dots": f"{folder}/x/../{name}",
        "a slash at the end": f"{path}/",
    }[how]


SPELLINGS = ("two slashes", "a dot", "two dots", "a slash at the end")


# ---------------------------------------------------------------- options


@dc.dataclass(frozen=True)
class Case:
    """One option of a module, the path that it names, and the files that are there."""

    module: str
    option: str
    path: str
    files: dict[str, Any]
    more: dict[str, Any] = dc.field(default_factory=dict)


OPTIONS = [
    Case(CONTAINERD, "config_path", "/etc/other/containerd.toml", {"/etc/other/containerd.toml": V2}),
    Case(CONTAINERD, "config_path", ROOT, {ROOT: V1}, {"engine_version": "1.7.24"}),
    Case(CONTAINERD, "drop_in_path", "/etc/containerd/conf.d/77-x.toml", {ROOT: V2}),
    Case(CONTAINERD, "cdi_spec_dirs", "/srv/cdi", {ROOT: V2}),
    Case(CONTAINERD, "socket", "/run/other/containerd.sock", {ROOT: V2}),
    Case(CONTAINERD, "root", "", {ROOT: V2}),
    Case(CRIO, "config_path", "/etc/other/crio.conf", {"/etc/other/crio.conf": "[crio.runtime]\n"}),
    Case(CRIO, "drop_in_path", "/etc/crio/crio.conf.d/77-x.conf", {"/etc/crio/crio.conf": "[crio.runtime]\n"}),
    Case(CRIO, "cdi_spec_dirs", "/srv/cdi", {"/etc/crio/crio.conf": '[crio.runtime]\ncdi_spec_dirs = ["/etc/cdi"]\n'}),
    Case(DOCKER, "config_path", "/etc/other/daemon.json", {"/etc/other/daemon.json": "{}\n"}),
    Case(DOCKER, "cdi_spec_dirs", "/srv/cdi", JSON),
    Case("host", "metrics_dir", "/var/lib/metrics", {**JSON, "/var/lib/metrics/.keep": ""}, {"engines": ["docker"]}),
    Case("host", "handlers", "/opt/nvidia/runtime", {ROOT: V2}, {"engines": ["containerd"]}),
    Case("oci_hook", "path", "/etc/containers/oci/hooks.d/nvidia.json", {}),
    # Engines are not in them: what is planned is compared.
    Case("cdi_spec", "cdi_spec_dirs", "/srv/cdi", {}),
    Case("cdi_spec", "cdi_driver_root", "/run/nvidia/driver", NODES),
    Case("cdi_spec", "cdi_dev_root", "/run/nvidia/driver", NODES),
]  # fmt: skip


def given(case: Case, how: str, root: pathlib.Path) -> dict[str, Any]:
    """The options of a task as a user writes them."""
    path: Any = spell(case.path or str(root), how)
    named: dict[str, Any] = {"root": str(root), case.option: path}
    if case.option == "handlers":
        named["handlers"] = {"nvidia": {"binary": path}}
    if case.module in VERSIONS:
        named["engine_version"] = VERSIONS[case.module]
    if case.module == "host":
        named.update(
            PREPARED, engine_version="28.5.2" if "docker" in case.more["engines"] else "2.1.9"
        )
    return {**named, **case.more}


def of_task(module: str, named: dict[str, Any]) -> dict[str, Any]:
    """The options of a task as its action has them."""
    spec = arguments.derive_argument_spec(module)
    action: Any = SimpleNamespace(
        _task=SimpleNamespace(args={k: v for k, v in named.items() if k in spec})
    )
    return arguments.read_task_options(action, spec)


def run(tree: Tree, module: str, named: dict[str, Any]) -> dict[str, Any]:
    args = of_task(module, named)
    policy = arguments.build_policy(args, single=module != "host")
    if module == "host":
        return tree.task(policy, seen_host.list_host_questions, action_host.plan_host_module)
    if module == "oci_hook":
        about, plan = (
            functools.partial(f, path=args["path"])
            for f in (oci_hook.list_hook_module_questions, oci_hook.plan_for)
        )
        return tree.task(policy, about, plan)
    return tree.task(policy, *SINGLE[module.removesuffix("_runtime")])


def tree(tmp_path: pathlib.Path, name: str, files: dict[str, str]) -> Tree:
    made = Tree(tmp_path / name)
    for path, text in files.items():
        made.write(path, text)
    return made


def refused(case: Case, how: str) -> str:
    """Why a spelling is refused before a host is looked at: a link can lead `..` elsewhere, and no
    file ends with a slash.
    """
    files = ("config_path", "drop_in_path", "socket", "path", "handlers")
    if how == "two dots":
        return r"\[options\.(path|file|socket)\]"
    return (
        r"\[options\.(file|socket)\]"
        if how == "a slash at the end" and case.option in files
        else ""
    )


def test_every_option_with_a_path_of_a_host_has_a_case() -> None:
    assert {case.option for case in OPTIONS} == options.HOST_PATHS | {"handlers"}


@pytest.mark.parametrize("how", SPELLINGS)
@pytest.mark.parametrize("case", OPTIONS, ids=[f"{case.module} {case.option}" for case in OPTIONS])
def test_an_option_means_the_same_in_every_spelling(
    tmp_path: pathlib.Path, case: Case, how: str
) -> None:
    if why := refused(case, how):
        with pytest.raises(PlanError, match=why):
            of_task(case.module, given(case, how, tmp_path))
        return
    if case.module == "cdi_spec":
        there = cdi_plans.seen(case.files)
        plans = [
            cdi_plans.plan(there, **spec_options(case, spelled, tmp_path))
            for spelled in ("plain", how)
        ]
        assert plans[0] == plans[1]
        assert plans[0].changes
        return
    plain, other = (tree(tmp_path, name, case.files) for name in ("plain", "other"))
    before = other.state()
    asked = {
        name: given(case, spelled, made.root)
        for name, spelled, made in (("plain", "plain", plain), ("other", how, other))
    }
    assert run(plain, case.module, asked["plain"])["changed"]
    assert run(other, case.module, asked["other"])["changed"]
    assert timeless(other.state()) == timeless(plain.state())
    again = run(other, case.module, asked["other"])
    assert (again["failed"], again["changed"], again["differences"]) == (False, False, [])
    done = run(other, case.module, {**asked["other"], "state": "absent"})
    assert (done["failed"], done["changed"]) == (False, True)
    assert other.state() == before


def timeless(state: State) -> State:
    """Take the times of runs out of a tree's state: metrics have them."""
    return {
        path: (re.sub(rb"[0-9]{9,}", b"", data) if data else data, *rest)
        for path, (data, *rest) in state.items()
    }


def spec_options(case: Case, how: str, root: pathlib.Path) -> dict[str, Any]:
    policy = arguments.build_policy(of_task(case.module, given(case, how, root)), single=True)
    return {f.name: getattr(policy, f.name) for f in dc.fields(policy) if f.name != "root"}


# ---------------------------------------------------------------- files


def imports(pattern: str) -> str:
    return f"version = 3\nimports = [{json.dumps(pattern)}]\n"


def require_lasting(made: Tree, module: str, named: dict[str, Any]) -> dict[str, Any]:
    """Run a task three times: it changes, then it does not, then the bytes from before are back.
    Return the first result.
    """
    before, asked = (
        made.state(),
        {"root": str(made.root), "engine_version": VERSIONS[module], **named},
    )
    first = run(made, module, asked)
    assert (first["failed"], first["changed"]) == (False, True)
    again = run(made, module, asked)
    assert (again["failed"], again["changed"], again["differences"]) == (False, False, [])
    done = run(made, module, {**asked, "state": "absent"})
    assert (done["failed"], done["changed"]) == (False, True)
    assert made.state() == before
    return first


@pytest.mark.parametrize("how", SPELLINGS[:3])
@pytest.mark.parametrize(
    "pattern",
    ["/etc/containerd/conf.d/*.toml", "/etc/containerd/conf.d/10-site.toml", "conf.d/*.toml"],
)
def test_imports_mean_the_same_in_every_spelling(
    tmp_path: pathlib.Path, pattern: str, how: str
) -> None:
    """containerd cleans them (resolveImports in its server/config)."""
    files = {
        ROOT: imports(spell(pattern, how)),
        "/etc/containerd/conf.d/10-site.toml": "version = 3\n",
    }
    require_lasting(tree(tmp_path, "tree", files), CONTAINERD, {})


def test_dots_in_an_import_are_read_by_their_letters(tmp_path: pathlib.Path) -> None:
    """A link before `..` leads elsewhere for the kernel, and not for containerd, which cleans the
    path before it opens it.
    """
    made = tree(
        tmp_path,
        "tree",
        {ROOT: imports("/etc/containerd/x/../conf.d/*.toml"), "/srv/below/.keep": ""},
    )
    made.path("/etc/containerd/x").symlink_to("/srv/below")
    require_lasting(made, CONTAINERD, {})


# The list of directories for CDI specs in each engine's file, as a text with the place of the list.
LISTS = [
    (
        CONTAINERD,
        ROOT,
        "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\ncdi_spec_dirs = %s\n",
    ),
    (CRIO, "/etc/crio/crio.conf.d/99-site.conf", "[crio.runtime]\ncdi_spec_dirs = %s\n"),
    (DOCKER, "/etc/docker/daemon.json", '{"cdi-spec-dirs": %s}\n'),
]


@pytest.mark.parametrize("how", SPELLINGS)
@pytest.mark.parametrize(("module", "path", "text"), LISTS)
def test_directories_are_the_wanted_ones_in_every_spelling(
    tmp_path: pathlib.Path, module: str, path: str, text: str, how: str
) -> None:
    """The CDI library cleans them (WithSpecDirs), so a file that has them in another spelling stays
    as it is.
    """
    made = tree(tmp_path, "tree", {path: text % json.dumps([spell("/srv/cdi", how), "/etc/cdi"])})
    done = require_lasting(made, module, {"cdi_spec_dirs": ["/srv/cdi", "/etc/cdi"]})
    own = "90-gpufleet.conf"  # CRI-O's drop-in of this collection says all that it asks for
    assert [d for d in done["differences"] if "spec" in d["key"] and own not in d["path"]] == []


@pytest.mark.parametrize("how", SPELLINGS)
def test_the_runtimes_own_directories_stay_as_they_are_spelled(
    tmp_path: pathlib.Path, how: str
) -> None:
    path = "/etc/nvidia-container-runtime/config.toml"
    written = f"[nvidia-container-runtime.modes.cdi]\nspec-dirs = {json.dumps([spell('/srv/cdi', how)])}\n"
    made = tree(tmp_path, "tree", {ROOT: V2, path: written})
    asked = {
        "root": str(made.root),
        "engines": ["containerd"],
        "engine_version": "2.1.9",
        "cdi_spec_dirs": ["/srv/cdi"],
        **PREPARED,
    }
    done = run(made, "host", asked)
    assert [d for d in done["differences"] if "spec-dirs" in d["key"]] == []
    assert spell("/srv/cdi", how) in made.read(path)
    assert run(made, "host", asked)["changed"] is False


@pytest.mark.parametrize("how", SPELLINGS)
def test_a_directory_that_is_named_twice_counts_in_its_last_place(
    tmp_path: pathlib.Path, how: str
) -> None:
    """The last directory has the highest priority."""
    named = ["/etc/cdi", "/srv/cdi", spell("/etc/cdi", how)]
    if how == "two dots":
        assert host_paths.clean_directories(named) == ("/srv/cdi", "/etc/cdi")
    else:
        assert of_task(CONTAINERD, {"cdi_spec_dirs": named})["cdi_spec_dirs"] == [
            "/srv/cdi",
            "/etc/cdi",
        ]


# ---------------------------------------------------------------- what daemons say


FLAGS: list[tuple[str, list[str], str]] = [
    ("containerd", ["--config", "/etc//containerd/./config.toml"], ROOT),
    ("containerd", ["--config=/etc/containerd/config.toml/"], ROOT),
    # a link can lead elsewhere
    (
        "containerd",
        ["-c", "/etc/other/../containerd/config.toml"],
        "/etc/other/../containerd/config.toml",
    ),
    ("crio", ["--config", "/etc//crio/crio.conf"], "/etc/crio/crio.conf"),
    ("dockerd", ["--config-file", "/etc//docker/./daemon.json"], "/etc/docker/daemon.json"),
]


FILES: dict[str, Callable[[Observation], str]] = {
    "containerd": lambda seen: daemons.read_containerd_daemons(Policy(), seen)[0].config,
    "crio": lambda seen: crio_config.find_crio_paths(Policy(), seen).config,
    "dockerd": lambda seen: docker_config.find_docker_paths(Policy(), seen).config,
}


@pytest.mark.parametrize(("program", "flags", "path"), FLAGS)
def test_a_daemons_file_has_one_name(program: str, flags: list[str], path: str) -> None:
    running = {
        "pid": 7,
        "exe": f"/usr/bin/{program}",
        "argv": [program, *flags],
        "unit": f"{program}.service",
    }
    seen = obs(processes=[running], units={f"{program}.service": {}})
    assert FILES[program](seen) == path


# An engine that runs, and the flags that name its files.
RUNNING = [
    ("containerd", CONTAINERD, {"--config": "/etc/containerd/config.toml"}),
    ("crio", CRIO, {"--config": "/etc/crio/crio.conf", "--config-dir": "/etc/crio/crio.conf.d"}),
    ("docker", DOCKER, {"--config-file": "/etc/docker/daemon.json"}),
]


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from start_process()


@pytest.mark.parametrize("how", SPELLINGS[:3])
@pytest.mark.parametrize(("name", "module", "flags"), RUNNING)
def test_flags_of_a_daemon_mean_the_same_in_every_spelling(
    process: HostProcess, name: str, module: str, flags: dict[str, str], how: str
) -> None:
    spec = running_hosts.ENGINES[name].copy()
    spec.argv += [f"{flag}={spell(path, how)}" for flag, path in flags.items()]
    host = running_hosts.build(process, spec, 0o644)
    host.path("/etc/x").mkdir()
    for path in flags.values():  # for the kernel, `..` follows what is there
        host.path(path).parent.joinpath("x").mkdir(exist_ok=True)
    try:
        before = state(host, spec.files)
        first = host.task(module)
        assert (first.get("failed", False), first["changed"]) == (False, True), first.get("msg")
        again = host.task(module)
        assert again.get("failed", False) is False
        assert [d for d in again["differences"] if d["what"] == "file"] == []
        done = host.task(module, state="absent")
        assert (done.get("failed", False), done["changed"]) == (False, True), done.get("msg")
        assert state(host, spec.files) == before
    finally:
        host.close()


def state(host: Host, files: dict[str, str]) -> dict[str, str]:
    """The text of each file beneath the directories of an engine's configuration."""
    folders = {host.path(name).parent for name in files if name.startswith("/etc/")}
    return {
        str(path): path.read_text()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_drop_in_directory_has_one_name() -> None:
    argv = ["crio", "--config-dir", "/etc/crio//conf.d/"]
    seen = obs(processes=[{"pid": 7, "exe": "/usr/bin/crio", "argv": argv, "unit": "crio.service"}])
    where = crio_config.find_crio_paths(Policy(), seen)
    assert (where.directory, where.drop_in) == (
        "/etc/crio/conf.d",
        "/etc/crio/conf.d/90-gpufleet.conf",
    )


@pytest.mark.parametrize("how", SPELLINGS)
def test_the_engines_directories_have_one_name(how: str) -> None:
    said = {
        "default_runtime": "crun",
        "hooks_dir": [spell("/etc/hooks.d", how)],
        "cdi_spec_dirs": [spell("/etc/cdi", how)],
    }
    force = crio_config.merge_crio_tables([{"crio": {"runtime": said}}], (1, 34), "files")
    # CRI-O opens it as it is, and the CDI library does not
    hooks = "/etc/x/../hooks.d" if how == "two dots" else "/etc/hooks.d"
    assert (force.hooks_dirs, force.cdi_dirs) == ((hooks,), ("/etc/cdi",))
    assert docker_detect.describe_docker_cdi(
        "28.5.2", {"CDISpecDirs": [spell("/etc/cdi", how)]}, None
    ).dirs == ("/etc/cdi",)
    stopped = obs(
        files={"/etc/docker/daemon.json": json.dumps({"cdi-spec-dirs": [spell("/etc/cdi", how)]})}
    )
    facts = docker_detect.read_facts(Policy(), stopped)
    assert docker_facts.list_docker_cdi_dirs(facts, "/etc/docker/daemon.json") == ("/etc/cdi",)
    conf = obs(
        files={
            "/etc/containers/containers.conf": f'[engine]\ncdi_spec_dirs = ["{spell("/etc/cdi", how)}"]\n'
        }
    )
    settings = directories.read_podman_facts(conf)
    assert podman_detect.looks_into(settings, "5.5.0") == ("/etc/cdi",)


ENDPOINTS = [
    ("unix:///run/containerd/containerd.sock", "/run/containerd/containerd.sock", True),
    ("unix:///run//containerd/containerd.sock", "/var/run/containerd/containerd.sock", True),
    ("/run/containerd/./containerd.sock", "/run/containerd/containerd.sock", True),
    ("unix:///run/other/containerd.sock", "/run/containerd/containerd.sock", False),
]


@pytest.mark.parametrize(("endpoint", "socket", "same"), ENDPOINTS)
def test_a_socket_has_one_name(endpoint: str, socket: str, same: bool) -> None:
    assert cgroup_driver.is_same_socket(endpoint, socket) is same


# ---------------------------------------------------------------- the one function


# A path, as Go's filepath.Clean spells it (its tests in path/filepath), and as the kernel opens it.
SPELLED = [
    ("", "", ""),
    ("/", "/", "/"),
    ("//", "/", "/"),
    ("///a//b/", "/a/b", "/a/b"),
    ("/a/./b/.", "/a/b", "/a/b"),
    ("/a/../b", "/b", "/a/../b"),
    ("/../a", "/a", "/../a"),
    ("a//b/..", "a", "a/b/.."),
    (".", ".", "."),
    ("./conf.d/*.toml", "conf.d/*.toml", "conf.d/*.toml"),
]


@pytest.mark.parametrize(("path", "cleaned", "opened"), SPELLED)
def test_a_path_has_one_spelling(path: str, cleaned: str, opened: str) -> None:
    assert (host_paths.clean_host_path(path), host_paths.keep_as_opened(path)) == (cleaned, opened)
    assert (host_paths.clean_host_path(cleaned), host_paths.keep_as_opened(opened)) == (
        cleaned,
        opened,
    )


# ---------------------------------------------------------------- names that are not text


def test_a_file_whose_name_is_no_text_is_changed_and_given_back(tmp_path: pathlib.Path) -> None:
    """A name on a disk is bytes. The link to it is all that anyone reads."""
    tree = Tree(tmp_path / "tree")
    for path, text in JSON.items():
        tree.write(path, text)
        before, odd = bytes(tree.path(path)), bytes(tree.path(path).parent) + b"/\xff.json"
        os.rename(before, odd)
        os.symlink(os.path.basename(odd), before)
        for options_, changed in (
            ({}, True),
            ({}, False),
            ({"state": "absent"}, True),
            ({"state": "absent"}, False),
        ):
            result = tree.single("docker", engine_version="28.5.2", **options_)
            assert (result.get("failed"), result["changed"]) == (False, changed), result.get("msg")
        assert tree.read(path) == text
        assert tree.path(path).is_symlink()


def test_a_path_that_is_no_text_does_not_travel(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path / "tree")
    tree.write("/usr/lib/systemd/system/docker.service", "")
    tree.path("/usr/lib/systemd/system/docker.service").write_bytes(
        b"[Service]\nExecStart=/usr/bin/dockerd --config-file=/etc/\xff.json\n"
    )
    assert "--config-file is not known" in tree.single("docker", engine_version="28.5.2")["msg"]
