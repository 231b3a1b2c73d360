# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments that units start programs with, from files of hosts and of trees to what engines
are planned by.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    daemons,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    config as crio_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    facts as crio_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config as docker_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import start

from tests.unit.bare_trees import Tree
from tests.unit.builders import obs

UNIT, DROP_IN = (
    "/usr/lib/systemd/system/docker.service",
    "/etc/systemd/system/docker.service.d/a.conf",
)
HIDDEN = "(hidden)"


def in_tree(path: Path, files: dict[str, str]) -> Tree:
    tree = Tree(path / "tree")
    for name, text in files.items():
        tree.write(name, text)
    return tree


def asked(tree: Tree, make: Any) -> tuple[Any, Observation]:
    """What a planner makes of a tree, with all that it asks for."""
    seen = Observation({}, {})
    while True:
        try:
            return make(seen), seen
        except NeedMore as more:
            seen = tree.look(seen, more.questions)


def started(tree: Tree, flags: Any = None) -> tuple[start.Start, Observation]:
    wanted = docker_config.READ_FLAGS if flags is None else flags
    return asked(
        tree,
        lambda seen: start.read_start(str(tree.root), seen, "docker.service", "dockerd", wanted),
    )


D = "/usr/bin/dockerd"
# files -> arguments
ARGUMENTS: dict[str, tuple[dict[str, str], list[str]]] = {
    "no unit": ({}, []),
    "an empty file masks": ({"/etc/systemd/system/docker.service": "", UNIT: f"[Service]\nExecStart={D}\n"}, []),
    "plain": ({UNIT: f"[Service]\nExecStart={D} -H fd:// --config-file=/x.json\n"}, [D, "-H", HIDDEN, "--config-file=/x.json"]),
    "an override": (
        {UNIT: f"[Service]\nExecStart={D} --add-runtime=a=/a\n",
         DROP_IN: f"[Service]\nExecStart=\nExecStart={D} --add-runtime b=/b \\\n  --feature cdi=true\n"},
        [D, "--add-runtime", "b=/b", "--feature", "cdi=true"]),
    "a program that is wrapped": ({UNIT: f"[Service]\nExecStart=/bin/sh -c '{D} --add-runtime=a=/a'\n"}, []),
    "a variable of the unit": (
        {UNIT: f"[Service]\nEnvironment=\"OPTS=--add-runtime=a=/a -D\" X=1\nExecStart={D} $OPTS\n"},
        [D, "--add-runtime=a=/a", f"-{HIDDEN}"]),
    "files outrank the unit, the last one most": (
        {UNIT: f"[Service]\nEnvironment=OPTS=--add-runtime=a=/a\nEnvironmentFile=-/etc/one\nEnvironmentFile=/etc/t*\nExecStart={D} $OPTS\n",
         "/etc/one": "OPTS=--add-runtime=b=/b\n", "/etc/two": 'OPTS="--add-runtime=c=/c --default-runtime c"\n'},
        [D, "--add-runtime=c=/c", "--default-runtime", "c"]),
    "one that is emptied": (
        {UNIT: f"[Service]\nEnvironment=OPTS=--add-runtime=a=/a\nEnvironmentFile=/etc/one\nExecStart={D} $OPTS -D\n",
         "/etc/one": "OPTS=\n"},
        [D, f"-{HIDDEN}"]),
    "the value of a flag": (
        {UNIT: f"[Service]\nEnvironmentFile=/etc/one\nExecStart={D} --config-file ${{FILE}} --default-runtime=${{NAME}}\n",
         "/etc/one": 'FILE="/x.json"\nNAME=crun\nOTHER=/y\n'},
        [D, "--config-file", "/x.json", "--default-runtime=crun"]),
    "no variables for one prefix": ({UNIT: f"[Service]\nEnvironment=F=/x\nExecStart=:{D} --config-file ${{F}}\n"},
                                    [D, "--config-file", "${F}"]),
    "a specifier of the name": ({UNIT: f"[Service]\nExecStart={D} --config-file=/etc/%N.json\n"}, [D, "--config-file=/etc/docker.json"]),
    "a specifier of the host": ({UNIT: f"[Service]\nExecStart={D} --config-file=/etc/%H.json\n"}, [D, f"--config-file=/etc/{HIDDEN}.json"]),
    "a file that nobody knows": (
        {UNIT: f"[Service]\nEnvironment=F=/a\nEnvironmentFile=/etc/%H.env\nExecStart={D} --config-file=${{F}}\n"},
        [D, f"--config-file={HIDDEN}"]),
    "a file whose name does not travel": (
        {UNIT: f"[Service]\nEnvironment=F=/a\nEnvironmentFile=/etc/o[n]e\nExecStart={D} --config-file=${{F}}\n", "/etc/one": "F=/b\n"},
        [D, f"--config-file={HIDDEN}"]),
    "public report: runtimes in a file of the unit's environment": (
        # https://github.com/NVIDIA/nvidia-docker/issues/1002
        {UNIT: f"[Service]\nEnvironmentFile=-/etc/sysconfig/docker\nEnvironmentFile=-/run/docker/runtimes.env\nExecStart={D} "
               "--containerd=/run/containerd/containerd.sock $OPTIONS $DOCKER_STORAGE_OPTIONS $DOCKER_ADD_RUNTIMES\n",
         "/etc/sysconfig/docker": 'OPTIONS="--default-ulimit nofile=32768:65536"\n',
         "/run/docker/runtimes.env": 'DOCKER_ADD_RUNTIMES="--add-runtime nvidia=/etc/docker-runtimes.d/nvidia "\n'},
        [D, f"-{HIDDEN}={HIDDEN}", f"-{HIDDEN}", f"{HIDDEN}={HIDDEN}", "--add-runtime", "nvidia=/etc/docker-runtimes.d/nvidia"]),
}  # fmt: skip


@pytest.mark.parametrize(("files", "argv"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments(files: dict[str, str], argv: list[str], tmp_path: Path) -> None:
    assert list(started(in_tree(tmp_path, files))[0].argv) == argv


def test_no_secret_of_a_unit_or_its_environment_leaves(tmp_path: Path) -> None:
    secrets = ("s3cret", "hunter2", "PROXY", "TOKEN", "corp", "ecret3")
    unit = (
        f"[Unit]\nDescription=of corp\n[Service]\nEnvironment='HTTPS_PROXY=http://u:s3cret@corp' OPTS=--host=unix:///a\n"
        f"Environment=A=$ecret3 'B=$ecret3' C=\"$ecret3\"\n"
        f"EnvironmentFile=/etc/one\nExecStart={D} --http-proxy=http://u:s3cret@corp --add-runtime=hunter2=http://s3cret $OPTS $MORE\n"
    )
    environment = 'TOKEN="s3cret /hunter2"\nA=$ecret3\nB="x $ecret3 ${ecret3}"\n'
    environment += 'MORE="--label corp --host tcp://u:s3cret@corp"\n# hunter2\n'
    found, seen = started(in_tree(tmp_path, {UNIT: unit, "/etc/one": environment}))
    told = json.dumps(seen.answers)
    assert [secret for secret in secrets if secret in told] == []
    assert found.argv[-4:] == (f"-{HIDDEN}", HIDDEN, "--host", HIDDEN)
    assert "--host=unix:///a" in found.argv


def test_a_stopped_daemon_of_a_host_by_the_files_that_systemd_names(tmp_path: Path) -> None:
    """Where systemd says which files it has read, no other one counts."""
    other = "/opt/docker.service"
    tree = in_tree(tmp_path, {UNIT: f"[Service]\nExecStart={D}\n", other: f"[Service]\nExecStart={D}\n",
                              DROP_IN: f"[Service]\nExecStart=\nExecStart={D} --config-file=/x.json\n"})  # fmt: skip
    for unit, argv in (
        (
            {
                "LoadState": "loaded",
                "FragmentPath": other,
                "DropInPaths": DROP_IN,
                "Id": "docker.service",
            },
            (D, "--config-file=/x.json"),
        ),
        (
            {
                "LoadState": "loaded",
                "FragmentPath": UNIT,
                "DropInPaths": "",
                "Id": "docker.service",
            },
            (D,),
        ),
        ({"LoadState": "masked", "FragmentPath": UNIT}, ()),
        ({"LoadState": "not-found"}, ()),
    ):
        seen = obs(units={"docker.service": unit})
        plain = Observation({}, dict(seen.answers))
        while True:
            try:
                found = start.read_start(
                    "/", plain, "docker.service", "dockerd", docker_config.READ_FLAGS
                )
                break
            except NeedMore as more:
                plain = tree.look(plain, more.questions)
        assert found.argv == argv


WITH_FILE = "[Service]\nEnvironmentFile=/etc/one\n"
BOMBS: dict[str, dict[str, str]] = {
    "a variable as often as there is room": {UNIT: f"{WITH_FILE}ExecStart={D} {'$A ' * 9000}\n", "/etc/one": f"A={'a ' * 9000}\n"},
    "the same within words": {UNIT: f"{WITH_FILE}ExecStart={D} {'${A}' * 9000}\n", "/etc/one": f"A={'a' * 9000}\n"},
    "many variables": {UNIT: f"[Service]\nExecStart={D} {' '.join(f'$A{n}' for n in range(65))}\n"},
    "many files with an environment": {UNIT: "[Service]\n" + "EnvironmentFile=/etc/one\n" * 65 + f"ExecStart={D} $A\n"},
    "long drop-ins": {UNIT: f"[Service]\nExecStart={D}\n", **{f"{DROP_IN}{n}.conf": "#" * 90_000 for n in range(3)}},
    "long files with an environment": {
        UNIT: f"[Service]\nEnvironmentFile=/etc/a*\nExecStart={D} $A\n", **{f"/etc/a{n}": "#" * 90_000 for n in range(3)}},
    "a long unit": {UNIT: f"[Service]\nExecStart={D}\n{'#' * (1 << 18)}"},
}  # fmt: skip


@pytest.mark.parametrize("files", BOMBS.values(), ids=BOMBS)
def test_a_unit_of_more_than_is_read_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(PlanError):
        started(in_tree(tmp_path, files))


def test_a_stopped_daemon_whose_unit_cannot_be_read_stops_no_plan() -> None:
    """Another engine of the host may run. One that does not run is refused for that."""
    unit = {
        "LoadState": "loaded",
        "FragmentPath": UNIT,
        "DropInPaths": "",
        "ActiveState": "inactive",
    }
    doubt = {
        "type": "file",
        "error": {"kind": "untrusted", "message": f"{UNIT} may be written to by others"},
    }
    for content in (doubt, f"[Service]\nExecStart={D} --config-file=%h/x.json\n"):
        seen = obs(files={UNIT: content}, units={"docker.service": unit})
        assert docker_config.find_docker_paths(Policy(), seen).config == docker_config.CONFIG


# ---------------------------------------------------------------- engines

CONTAINERD, CRIO = (
    "/usr/lib/systemd/system/containerd.service",
    "/usr/lib/systemd/system/crio.service",
)


def test_containerd_in_a_tree_by_its_unit(tmp_path: Path) -> None:
    files = {
        CONTAINERD: "[Service]\nExecStart=/usr/bin/containerd -c /opt/c.toml --address /run/c.sock\n",
        "/opt/c.toml": "version = 2\n",
    }
    tree = in_tree(tmp_path, files)
    policy = Policy(root=str(tree.root), single=True, engine_version="1.7.24")
    (found,), _seen = asked(
        tree,
        lambda seen: containerd_detect.find_instances(
            policy, containerd_detect.read_facts(policy, seen)
        ),
    )
    assert (found.config_path, found.socket) == ("/opt/c.toml", "/run/c.sock")
    result = tree.single("containerd", engine_version="1.7.24")
    assert result["changed"]
    assert "nvidia" in tree.read("/opt/c.toml")
    assert not tree.single("containerd", engine_version="1.7.24")["changed"]


def test_a_file_that_is_not_known_is_refused_by_the_line_that_names_it(tmp_path: Path) -> None:
    for unit, program, engine, flag in ((CONTAINERD, "/usr/bin/containerd", "containerd", "--config"), (UNIT, D, "docker", "--config-file"),
                                        (CRIO, "/usr/bin/crio", "crio", "--config")):  # fmt: skip
        tree = in_tree(
            tmp_path / engine, {unit: f"[Service]\nExecStart={program} {flag}=/etc/%m.toml\n"}
        )
        version = {"containerd": "1.7.24", "docker": "26.1.5", "crio": "1.34.0"}[engine]
        policy = Policy(root=str(tree.root), single=True, engines=(engine,), engine_version=version)
        find = {"containerd": lambda s, p=policy: containerd_detect.find_instances(p, containerd_detect.read_facts(p, s)),
                "docker": lambda s, p=policy: docker_config.find_docker_paths(p, s),
                "crio": lambda s, p=policy: crio_config.find_crio_paths(p, s)}[engine]  # fmt: skip
        with pytest.raises(PlanError) as refused:
            asked(tree, find)
        assert (refused.value.where, refused.value.line) == (unit, 2)


def test_containerd_that_does_not_run_by_its_unit() -> None:
    argv = ("/usr/bin/containerd", "--config", "/opt/c.toml")
    text = f"[Service]\nExecStart={' '.join(argv)}\n"
    unit = {
        "LoadState": "loaded",
        "FragmentPath": CONTAINERD,
        "DropInPaths": "",
        "ActiveState": "inactive",
    }
    seen = obs(
        files={CONTAINERD: text, "/usr/bin/containerd": ""}, units={"containerd.service": unit}
    )
    (found,) = daemons.read_containerd_daemons(Policy(), seen)
    assert (found.config, found.running) == ("/opt/c.toml", False)


def test_what_crio_gets_as_arguments_outranks_its_files(tmp_path: Path) -> None:
    line = "/usr/bin/crio --config-dir /opt/crio.d $CRIO_RUNTIME_OPTIONS"
    files = {
        CRIO: f"[Service]\nEnvironmentFile=-/etc/sysconfig/crio\nExecStart={line}\n",
        "/etc/sysconfig/crio": 'CRIO_RUNTIME_OPTIONS="--hooks-dir=/a,/b --hooks-dir /c --cdi-spec-dirs /x"\n',
        "/opt/crio.d/1.conf": '[crio.runtime]\nhooks_dir = ["/z"]\n',
    }
    tree = in_tree(tmp_path, files)
    policy = Policy(root=str(tree.root), single=True, engine_version="1.34.0")
    where, _seen = asked(tree, lambda seen: crio_config.find_crio_paths(policy, seen))
    assert (where.directory, where.given.hooks_dirs, where.given.cdi_dirs) == (
        "/opt/crio.d",
        ("/a", "/b", "/c"),
        ("/x",),
    )
    force, _seen = asked(
        tree,
        lambda seen: crio_facts.read_crio_facts(policy, seen).settings.get(("", (1, 34))),
    )
    assert (force.hooks_dirs, force.cdi_dirs, force.default) == (
        ("/a", "/b", "/c"),
        ("/x",),
        "crun",
    )
    assert tree.single("crio", engine_version="1.34.0")["changed"]


def test_what_crio_reads_of_its_environment_counts_where_no_flag_says_it(tmp_path: Path) -> None:
    files = {
        CRIO: "[Service]\nEnvironment=CONTAINER_HOOKS_DIR=/a,/b\nEnvironmentFile=-/etc/sysconfig/crio\nExecStart=/usr/bin/crio $OPTIONS\n",
        "/etc/sysconfig/crio": "CONTAINER_CDI_SPEC_DIRS=/x\nCONTAINER_CONFIG_DIR=/opt/other.d\nOPTIONS=--config-dir=/opt/crio.d\n",
    }
    tree = in_tree(tmp_path, files)
    policy = Policy(root=str(tree.root), single=True, engine_version="1.34.0")
    where, _seen = asked(tree, lambda seen: crio_config.find_crio_paths(policy, seen))
    assert (where.directory, where.given.hooks_dirs, where.given.cdi_dirs) == (
        "/opt/crio.d",
        ("/a", "/b"),
        ("/x",),
    )


def test_a_default_that_an_argument_of_crio_outranks_is_refused(tmp_path: Path) -> None:
    tree = in_tree(
        tmp_path, {CRIO: "[Service]\nExecStart=/usr/bin/crio \\\n  --default-runtime runc\n"}
    )
    result = tree.single("crio", engine_version="1.34.0", set_as_default="enabled")
    assert result["failed"]
    assert "--default-runtime (runc)" in result["msg"]
    assert f"{CRIO}:2" in result["msg"]
    assert tree.single("crio", engine_version="1.34.0")["changed"]


# arguments, version, file, options -> what the refusal says, or the advice; None: nothing
RUNTIMES: dict[str, tuple[str, str, str, dict[str, Any], str]] = {
    # https://github.com/NVIDIA/nvidia-docker/issues/751
    "the same program": (
        "--add-runtime=nvidia=/usr/bin/nvidia-container-runtime",
        "26.1.5",
        "{}",
        {},
        "by the flag --add-runtime",
    ),
    "another program": (
        "--add-runtime=nvidia=/opt/x",
        "26.1.5",
        "{}",
        {},
        "the flag --add-runtime defines the runtime nvidia",
    ),
    "another runtime": ("--add-runtime=kata=/opt/kata", "26.1.5", "{}", {}, ""),
    # https://github.com/moby/moby/pull/37871
    "another runtime before 18.09": (
        "--add-runtime=kata=/opt/kata",
        "18.6.1",
        "{}",
        {},
        "runtimes is set by the flag --add-runtime",
    ),
    "a default": (
        "--default-runtime=runc",
        "26.1.5",
        "{}",
        {"set_as_default": "enabled"},
        "default-runtime is set by the flag",
    ),
    "a switch": (
        "--feature cdi=false",
        "26.1.5",
        "{}",
        {"cdi": "enabled"},
        "features is set by the flag",
    ),
}


@pytest.mark.parametrize(
    ("arguments", "version", "text", "options", "says"), RUNTIMES.values(), ids=RUNTIMES
)
def test_dockers_flags_in_its_unit(
    arguments: str, version: str, text: str, options: dict[str, Any], says: str, tmp_path: Path
) -> None:  # fmt: skip
    tree = in_tree(
        tmp_path,
        {UNIT: f"[Service]\nExecStart={D} -H fd:// {arguments}\n", docker_config.CONFIG: text},
    )
    result = tree.single("docker", engine_version=version, **options)
    told = " ".join([result.get("msg") or "", *result["advice"]])
    assert says in told
    assert bool(f"{UNIT}:2" in told) == bool(says)
    assert result["failed"] == (bool(says) and not result["advice"])
