# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which containerds are on a host, what they can do, and whose they are."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config as containerd_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

from tests.fixtures.managers import LEFT_ALONE
from tests.unit import builders, rancher

SOCKET = "/run/containerd/containerd.sock"
CONFIG = "/etc/containerd/config.toml"
UNIT = {"containerd.service": {"InvocationID": "abc", "MainPID": "7", "KillMode": "process"}}
ROOT = 'version = 2\n[plugins."io.containerd.grpc.v1.cri".cni]\nbin_dir = "/usr/lib/cni"\n'
DEAD = {"error": {"kind": "failed", "message": "connection refused"}}


def daemon(
    *args: str,
    pid: int = 7,
    exe: str = "/usr/bin/containerd",
    unit: str | None = "containerd.service",
) -> dict[str, Any]:
    return {"pid": pid, "exe": exe, "argv": [exe, *args], "cgroup": "", "unit": unit}


def said(
    version: str, config: dict[str, Any] | None = None, socket: str = SOCKET
) -> dict[str, Any]:
    """The daemon's own word."""
    config = (
        config
        if config is not None
        else {"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": {}}}}}
    )
    return {
        f"Version:{socket}": {"runtime_name": "containerd", "runtime_version": version},
        f"Status:{socket}": {
            "runtime": {"RuntimeReady": True},
            "conditions": [],
            "handlers": [],
            "info": {"config": config},
        },
    }


def find(policy: Policy | None = None, **seen: Any) -> tuple[Instance, ...]:
    seen.setdefault("files", {CONFIG: ROOT})
    seen.setdefault("units", UNIT)
    return containerd_detect.find_instances(
        policy or Policy(), containerd_detect.read_facts(policy or Policy(), builders.obs(**seen))
    )


def test_everything_about_a_normal_host_is_asked_in_one_look() -> None:
    asked = {q["id"] for q in containerd_detect.list_questions(Policy())}
    files = {f"file:{CONFIG}", "glob:/etc/containerd/conf.d/*.toml"}
    assert files | {f"cri:Status:{SOCKET}", f"cri:Version:{SOCKET}", "which:containerd"} <= asked


def test_a_host_full_of_containers_is_looked_at_like_any() -> None:
    """Each container has a shim, a process of root's: none of them is asked for, so no limit is met
    by their number.
    """
    wanted = [
        name
        for q in containerd_detect.list_questions(Policy())
        if q["kind"] == "processes"
        for name in q["names"]
    ]
    assert [name for name in wanted if re.fullmatch(name, "containerd-shim-runc-v2")] == []


def test_a_running_daemon() -> None:
    (found,) = find(processes=[daemon()], cri=said("v1.7.24"))
    assert (found.version, found.binary, found.socket, found.config_path) == (
        "1.7.24",
        "/usr/bin/containerd",
        SOCKET,
        CONFIG,
    )
    assert (found.unit, found.invocation_id, found.manager, found.running, found.cri) == (
        "containerd.service",
        "abc",
        "package",
        True,
        True,
    )
    assert (found.schema, found.default_handler, found.handlers) == (2, "runc", {"runc": ""})
    assert found.refusal == Refusal()


@pytest.mark.parametrize(
    "args",
    [
        ("--config", "/opt/c.toml", "--address", "/opt/c.sock"),
        ("--config=/opt/c.toml", "--address=/opt/c.sock"),
        ("-c", "/opt/c.toml", "-a", "/opt/c.sock"),
        ("--log-level", "debug", "-c", "/opt/c.toml"),
        ("-config", "/opt/c.toml", "-address=/opt/c.sock"),
        # containerd reads the last one alone
        (
            "--config",
            "/etc/containerd/config.toml",
            "--config",
            "/opt/c.toml",
        ),
    ],
)
def test_a_daemon_with_its_own_config_and_socket(args: tuple[str, ...]) -> None:
    files = {"/opt/c.toml": 'version = 2\n[grpc]\naddress = "/opt/c.sock"\n'}
    (found,) = find(files=files, processes=[daemon(*args)], cri=said("2.1.9", socket="/opt/c.sock"))
    assert (found.config_path, found.socket, found.version) == (
        "/opt/c.toml",
        "/opt/c.sock",
        "2.1.9",
    )


@pytest.mark.parametrize(
    ("root", "socket"),
    [
        ('version = 3\n[grpc]\naddress = "/a.sock"\n', "/a.sock"),
        # a version 4 file ignores it without a warning
        (
            'version = 4\n[grpc]\naddress = "/a.sock"\n',
            SOCKET,
        ),
        ('version = 4\n[plugins."io.containerd.server.v1.grpc"]\naddress = "/b.sock"\n', "/b.sock"),
    ],
)
def test_the_socket_of_the_file(root: str, socket: str) -> None:
    (found,) = find(files={CONFIG: root}, processes=[daemon()], cri=said("2.3.7", socket=socket))
    assert found.socket == socket


def test_another_socket_is_asked_in_a_second_look() -> None:
    with pytest.raises(NeedMore, match="cri:Status:/a.sock"):
        find(processes=[daemon("-a", "/a.sock")])


def test_the_unit_of_a_process_in_a_hybrid_hierarchy_is_systemds_word() -> None:
    (found,) = find(processes=[daemon(unit=None)], cri=said("1.7.24"))
    assert found.unit == "containerd.service"


SWITCHED = ROOT + '[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true\n'
DUMP = '[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "x"\n'
CDI = {
    # name: (version, status config or None, dump or None, root file, able, enabled, newest, source)
    "1.6 knows none": ("1.6.20", {"containerd": {}}, None, ROOT, False, False, "", "cri-status"),
    "1.7 has it off": ("1.7.24", {"enableCDI": False, "cdiSpecDirs": ["/etc/cdi"]}, None, ROOT, True, False, "0.7.0", "cri-status"),
    "1.7 switched on": ("1.7.27", {"enableCDI": True, "cdiSpecDirs": ["/etc/cdi"]}, None, ROOT, True, True, "0.8.0", "cri-status"),
    "2.3 has it on": ("2.3.7", {"enableCDI": True, "cdiSpecDirs": ["/etc/cdi"]}, None, ROOT, True, True, "1.1.0", "cri-status"),
    "2.4 has no switch": ("2.4.2", {"cdiSpecDirs": ["/etc/cdi", "/var/run/cdi"]}, None, ROOT, True, True, "1.1.0", "cri-status"),
    "the dump, if CRI is mute": ("1.7.24", None, DUMP + "enable_cdi = true\ncdi_spec_dirs = []\n", ROOT, True, True, "0.7.0", "dump"),
    "the dump of 1.6": ("1.6.20", None, DUMP, ROOT, False, False, "", "dump"),
    "the files, when there is no dump": ("1.7.24", None, "", SWITCHED, True, True, "0.7.0", "files"),
    "the version, when nothing else tells": ("2.1.9", None, "", ROOT, True, True, "1.0.0", "version"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "status", "dump", "root", "able", "enabled", "newest", "source"),
    CDI.values(),
    ids=CDI,
)
def test_cdi_by_the_order_of_evidence(
    version: str,
    status: Any,
    dump: str | None,
    root: str,
    able: bool,
    enabled: bool,
    newest: str,
    source: str,
) -> None:
    cri = (
        said(version, status)
        if status is not None
        else {**said(version), f"Status:{SOCKET}": {"conditions": [], "info": {}}}
    )
    answer = {"rc": 0 if dump else 1, "stdout": dump or "", "stderr": ""}
    commands = {
        f"/usr/bin/containerd -c {CONFIG} config dump": answer,
        "/usr/bin/containerd --version": f"containerd x {version} y",
    }
    (found,) = find(files={CONFIG: root}, processes=[daemon()], cri=cri, commands=commands)
    assert (
        found.cdi.able,
        found.cdi.enabled,
        found.cdi.max_version,
        found.cdi.evidence.source,
    ) == (able, enabled, newest, source)


CRI_1, CRI_2 = (
    '[plugins."io.containerd.grpc.v1.cri"]\n',
    '[plugins."io.containerd.cri.v1.runtime"]\n',
)
NEXT_DIRECTORIES: dict[str, tuple[str, Any, tuple[str, ...] | None]] = {
    # name: (version, root file, the directories for the next start)
    "named": ("1.7.24", f'version = 2\n{CRI_1}cdi_spec_dirs = ["/var/cdi/"]\n', ("/var/cdi",)),
    "named in containerd 2": (
        "2.1.9",
        f'version = 3\n{CRI_2}cdi_spec_dirs = ["/var/cdi"]\n',
        ("/var/cdi",),
    ),
    "no directory": ("1.7.24", f"version = 2\n{CRI_1}cdi_spec_dirs = []\n", ()),
    "not named": ("1.7.24", ROOT, ("/etc/cdi", "/var/run/cdi")),
    "a broken file": ("1.7.24", "version = [\n", None),
    "no file": ("1.7.24", None, None),
}


@pytest.mark.parametrize(
    ("version", "root", "later"), NEXT_DIRECTORIES.values(), ids=NEXT_DIRECTORIES
)
def test_directories_of_specs_at_the_next_start(
    version: str, root: str | None, later: tuple[str, ...] | None
) -> None:
    status = {"enableCDI": True, "cdiSpecDirs": ["/opt/cdi"]}
    (found,) = find(
        files={} if root is None else {CONFIG: root},
        processes=[daemon()],
        cri=said(version, status),
    )
    assert (found.cdi.dirs, found.cdi.next_dirs) == (("/opt/cdi",), later)


def test_a_file_that_a_manager_renders_again_tells_nothing_of_the_next_start() -> None:
    named = rancher.rendered(3).replace(
        "  enable_selinux = false\n", '  enable_selinux = false\n  cdi_spec_dirs = ["/opt/cdi"]\n'
    )
    assert "/opt/cdi" in named
    (found,) = containerd_detect.find_instances(
        Policy(), containerd_detect.read_facts(Policy(), rancher.Node(config=named).seen())
    )
    assert (found.manager, found.cdi.dirs, found.cdi.next_dirs) == (
        "k3s",
        ("/etc/cdi", "/var/run/cdi"),
        None,
    )


def test_installed_but_stopped() -> None:
    commands = {
        "/usr/bin/containerd --version": "containerd x v1.7.24 y",
        f"/usr/bin/containerd -c {CONFIG} config dump": DUMP,
    }
    (found,) = find(files={CONFIG: ROOT, "/usr/bin/containerd": "elf"}, commands=commands)
    assert (found.running, found.version, found.unit) == (False, "1.7.24", "containerd.service")
    assert "containerd is installed but not running" in str(found.refusal)


def test_none_at_all() -> None:
    assert find(files={}, units={}) == ()


DOCKER_CONFIG = 'disabled_plugins = ["cri"]\n'


@pytest.mark.parametrize(
    ("units", "manager", "code"),
    [
        ({**UNIT, "docker.service": {}}, "docker", "manager.containerd-serves-docker-only"),
        (UNIT, "package", "containerd.cri-disabled"),
    ],
)
def test_cri_disabled(units: Any, manager: str, code: str) -> None:
    cri = {f"Status:{SOCKET}": DEAD, f"Version:{SOCKET}": DEAD}
    # its program is not asked: that would be a second look
    packages = {"containerd": "1.7.24~ds1-6"}
    (found,) = find(
        files={CONFIG: DOCKER_CONFIG}, units=units, processes=[daemon()], cri=cri, packages=packages
    )
    assert (found.manager, found.cri, found.version) == (manager, False, "1.7.24~ds1-6")
    message = found.refusal.message
    assert (message.code, message.values["where"], message.values["entry"]) == (
        code,
        f"{CONFIG}:1",
        "cri",
    )


ALONE = LEFT_ALONE.config


@pytest.fixture
def left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more manager, that is recognised and left alone."""
    monkeypatch.setattr(known, "MANAGERS", (LEFT_ALONE, *known.MANAGERS))


@pytest.mark.usefixtures("left_alone")
def test_a_daemon_of_another_system_is_recognised_and_left_alone() -> None:
    (found,) = find(files={}, units={}, processes=[daemon("-c", ALONE, unit=None)])
    assert (found.manager, found.running) == ("nodeware", True)
    assert found.refusal.message.code == "manager.nodeware"


@pytest.mark.usefixtures("left_alone")
def test_another_system_that_is_stopped() -> None:
    (found,) = find(files={}, units={"nodeware.service": {}})
    assert (found.manager, found.running, bool(found.refusal)) == ("nodeware", False, True)


@pytest.mark.parametrize(
    ("manager", "seen"),
    [
        ("eks", {"units": {**UNIT, "nodeadm-config.service": {}}}),
        ("bottlerocket", {"host": {"os_release": {"ID": "bottlerocket"}}}),
        ("talos", {"host": {"os_release": {"ID": "talos"}}}),
    ],
)
def test_a_system_that_owns_the_plain_daemon(manager: str, seen: Any) -> None:
    (found,) = find(processes=[daemon()], **seen)
    assert (found.manager, bool(found.refusal)) == (manager, True)


@pytest.mark.usefixtures("left_alone")
def test_a_plain_daemon_beside_another() -> None:
    found = find(
        processes=[daemon(), daemon("-c", ALONE, pid=8, unit="nodeware.service")],
        cri=said("1.7.24"),
    )
    assert [(i.manager, bool(i.refusal)) for i in found] == [("package", False), ("nodeware", True)]


def test_dockers_own_daemon() -> None:
    (found,) = find(
        files={},
        units={},
        processes=[
            daemon("--config", "/var/run/docker/containerd/containerd.toml", unit="docker.service")
        ],
    )
    assert (found.manager, found.cri, bool(found.refusal)) == ("docker", False, True)


TREES: dict[str, tuple[dict[str, Any], str, str, bool]] = {
    # options, a program beneath the root, a file there, whether a containerd of that version is
    # assumed
    "the version alone": ({}, "", "", True),
    "Docker's program": ({}, "dockerd", "", False),
    "CRI-O's program": ({}, "crio", "", False),
    "Docker's program, and containerd is named": (
        {"engines": ("containerd", "docker")},
        "dockerd",
        "",
        True,
    ),
    "Docker's program, and the file is named": (
        {"config_path": "/etc/containerd/config.toml"},
        "dockerd",
        "",
        True,
    ),
    "Docker's program, and containerd's file": ({}, "dockerd", "version = 2\n", True),
    "another engine is named": ({"engines": ("crio",)}, "", "", False),
}


@pytest.mark.parametrize("case", TREES)
def test_a_version_stands_for_a_containerd_where_no_other_engine_has_it(case: str) -> None:
    options, program, text, assumed = TREES[case]
    files = {
        path: content
        for path, content in ((CONFIG, text), (f"/usr/bin/{program}", program))
        if content
    }
    seen = find(Policy(root="/image", engine_version="1.7.24", **options), files=files)
    assert bool(seen) == assumed


def test_another_root_directory() -> None:
    (found,) = find(Policy(root="/image", engine_version="1.7.24"))
    assert (found.version, found.running, found.cdi.able, found.cdi.enabled) == (
        "1.7.24",
        False,
        True,
        False,
    )
    (found,) = find(Policy(root="/image"), packages={"containerd": "1.6.20~ds1-1+deb12u3"})
    assert (found.version, found.cdi.able) == ("1.6.20~ds1-1+deb12u3", False)
    with pytest.raises(PlanError, match=r"\[containerd\.version-unknown-in-root\]"):
        find(Policy(root="/image"))


@pytest.mark.usefixtures("left_alone")
@pytest.mark.parametrize(
    ("case", "policy", "files", "found"),
    [
        ("theirs alone", {}, (), [("nodeware", True)]),
        ("theirs, named by config_path", {"config_path": ALONE}, (), [("nodeware", True)]),
        (
            "another version of it, named by config_path",
            {"config_path": "/opt/nodeware/x/config.toml"},
            (),
            [("nodeware", True)],
        ),
        (
            "a plain one beside it",
            {},
            (CONFIG, "/usr/bin/containerd"),
            [("nodeware", True), ("package", False)],
        ),
        ("a plain one's configuration without a program", {}, (CONFIG,), [("nodeware", True)]),
        (
            "a plain one that is asked for",
            {"config_path": CONFIG},
            (),
            [("nodeware", True), ("package", False)],
        ),
    ],
)
def test_a_tree_of_another_system(
    case: str, policy: dict[str, str], files: tuple[str, ...], found: list[tuple[str, bool]]
) -> None:
    """What it is and whose, and no configuration is made up beside it."""
    texts = {ALONE: "version = 2\n", **dict.fromkeys(files, "version = 2\n")}
    seen = find(Policy(root="/image", engine_version="1.7.24", **policy), files=texts)  # type: ignore[arg-type]
    assert [(i.manager, bool(i.refusal)) for i in seen] == found, case
    assert all(
        i.refusal.message.code == "manager.nodeware" for i in seen if i.manager == "nodeware"
    )


TEMPLATES = [
    # a file of a tree, the systems that are found there
    ("/var/lib/rancher/k3s/agent/etc/containerd/config.toml.tmpl", "k3s"),
    ("/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.tmpl", "k3s"),
    ("/var/lib/rancher/rke2/agent/etc/containerd/config.toml.tmpl", "rke2"),
]


@pytest.mark.parametrize(("path", "manager"), TEMPLATES)
def test_a_template_tells_whose_a_tree_is_before_it_was_rendered(path: str, manager: str) -> None:
    (found,) = find(
        Policy(root="/image", engine_version="1.7.24"), files={path: '{{ template "base" . }}\n'}
    )
    assert (found.manager, bool(found.refusal)) == (manager, True)


@pytest.mark.parametrize("method", ["Status", "Version"])
def test_a_running_containerd_whose_cri_does_not_answer_is_left_alone_and_says_why(
    method: str,
) -> None:
    cri = {**said("1.7.24"), f"{method}:{SOCKET}": DEAD}
    (found,) = find(
        files={CONFIG: "version = 2\n"},
        processes=[daemon()],
        cri=cri,
        commands={"/usr/bin/containerd --version": "x 1.7.24"},
    )
    assert (found.refusal.kind, found.running) == ("silent", True)
    message = found.refusal.message
    assert (message.code, message.values["cause"]) == (
        "containerd.cri-silent",
        "connection refused",
    )
    assert message.values["log"].startswith("`journalctl -u")


def test_what_keeps_cri_from_loading_is_named_where_it_does_not_answer() -> None:
    """github.com/containerd/containerd/issues/4574: the log alone said why."""
    text = 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nsystemd_cgroup = true\n'
    seen = {
        "files": {CONFIG: text},
        "processes": [daemon()],
        "cri": {f"Status:{SOCKET}": DEAD, f"Version:{SOCKET}": DEAD},
    }
    (found,) = find(
        **seen,
        packages={"containerd": "1.6.20~ds1-1"},
        commands={"/usr/bin/containerd --version": "x 1.6.20"},
    )
    assert (found.refusal.kind, found.running) == ("silent", True)
    message = found.refusal.message
    assert (message.code, message.values["place"]) == ("containerd.cri-not-loaded", f"{CONFIG}:3")
    assert "systemd_cgroup = true" in message.values["cause"]


# What tells the version, and what is said of it.
VERSIONS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "a package": ({"packages": {"containerd": "2.0.5-1"}}, {}, "cri-not-loaded", "2.0.5-1"),
    "the options": ({}, {"engine_version": "2.0.4"}, "cri-not-loaded", "2.0.4"),
    "nothing": ({}, {}, "cri-may-not-load", ""),
}


@pytest.mark.parametrize("case", VERSIONS)
def test_no_version_is_told_that_nothing_names(case: str) -> None:
    told, policy, code, version = VERSIONS[case]
    text = 'version = 3\nrequired_plugins = ["a"]\ndisabled_plugins = ["a"]\n'
    cri = {f"Status:{SOCKET}": DEAD, f"Version:{SOCKET}": DEAD}
    (found,) = find(Policy(**policy), files={CONFIG: text}, processes=[daemon()], cri=cri, **told)
    message = found.refusal.message
    assert (message.code, message.values.get("version", "")) == (f"containerd.{code}", version)


@pytest.mark.parametrize(
    ("packages", "code"),
    [
        ({"containerd": "2.0.5-1"}, "cri-silent"),
        ({"containerd": "2.1.9-1"}, "cri-not-loaded"),
        ({"containerd": "2.3.0-1"}, "cri-silent"),
        ({}, "cri-silent"),  # an unknown release is read as 2.0
    ],
)
def test_a_disabled_plugin_counts_where_the_cri_of_that_release_needs_it(
    packages: dict[str, str], code: str
) -> None:
    (found,) = find(
        files={
            CONFIG: 'version = 3\ndisabled_plugins = ["io.containerd.image-verifier.v1.bindir"]\n'
        },
        processes=[daemon()],
        cri={f"Status:{SOCKET}": DEAD, f"Version:{SOCKET}": DEAD},
        packages=packages,
    )
    assert found.refusal.message.code == f"containerd.{code}"


@pytest.mark.parametrize(
    ("manager", "unit", "log"),
    [
        ("k3s", "k3s-agent.service", "/var/lib/rancher/k3s/agent/containerd/containerd.log"),
        ("rke2", "rke2-server.service", "/var/lib/rancher/rke2/agent/containerd/containerd.log"),
    ],
)
def test_a_manager_that_keeps_the_words_of_its_containerd_in_a_file_has_that_file_named(
    manager: str, unit: str, log: str
) -> None:
    seen = rancher.Node(manager=manager, unit=unit).seen()
    seen.answers[f"cri:Status:{rancher.SOCKET}"] = DEAD
    (found,) = containerd_detect.find_instances(
        Policy(), containerd_detect.read_facts(Policy(), seen)
    )
    assert found.refusal.message.values["log"] == log


def importing(length: int) -> dict[str, str]:
    """A configuration that imports a file that imports a file: as many as that."""
    names = [CONFIG, *(f"/etc/containerd/{n}.toml" for n in range(1, length))]
    return {
        path: f'version = 2\nimports = ["{following}"]\n'
        for path, following in zip(names, names[1:], strict=False)
    } | {names[-1]: "version = 2\n"}


def test_a_chain_of_imports_is_followed() -> None:
    found = containerd_config.load_containerd_files(
        containerd_config.read_config_facts(builders.obs(files=importing(33))),
        CONFIG,
        Version(1, 7),
    )
    assert len(found.files) == 33


@pytest.mark.parametrize(
    ("version", "read"),
    [
        (Version(1, 6, 28), False),
        (Version(1, 6, 29), True),
        (Version(1, 7, 15), False),
        (Version(1, 7, 16), True),
        (Version(2, 0, 0), True),
    ],
)
def test_a_relative_glob_is_followed_from_the_release_on_that_can(
    version: Version, read: bool
) -> None:
    more = "/etc/containerd/more/a.toml"
    files = {CONFIG: 'version = 2\nimports = ["more/*.toml"]\n', more: "version = 2\n"}
    found = containerd_config.load_containerd_files(
        containerd_config.read_config_facts(builders.obs(files=files)),
        CONFIG,
        version,
    )
    assert [file.path for file in found.files] == [CONFIG, more][: 1 + read]


def test_a_chain_of_imports_has_a_bound_with_a_sentence_that_names_the_file() -> None:
    with pytest.raises(
        PlanError, match=r"^/etc/containerd/32\.toml:2: .*\[containerd\.import-chain-too-long\]"
    ):
        containerd_config.load_containerd_files(
            containerd_config.read_config_facts(builders.obs(files=importing(40))),
            CONFIG,
            Version(1, 7),
        )


def test_all_imports_of_a_file_are_asked_for_in_one_look() -> None:
    paths = [f"/etc/containerd/{n}.toml" for n in range(9)]
    answers = {
        f"file:{CONFIG}": builders.file_answer(f"version = 2\nimports = {json.dumps(paths)}\n")
    }
    with pytest.raises(NeedMore) as caught:
        containerd_config.load_containerd_files(
            containerd_config.read_config_facts(Observation({}, answers)), CONFIG, Version(1, 7)
        )
    assert [q["path"] for q in caught.value.questions] == paths


def test_a_second_containerd_with_a_relative_path_is_left_alone_and_the_first_is_found() -> None:
    processes = [daemon(), daemon("--config", "odd\nname.toml", pid=8, unit="second.service")]
    found = find(
        files={CONFIG: "version = 2\n"}, processes=processes, cri=said("1.7.24"), units=UNIT
    )
    assert [(i.config_path, bool(i.refusal)) for i in found] == [
        (CONFIG, False),
        ("odd\nname.toml", True),
    ]
    assert found[1].refusal.message.code == "containerd.relative-config-path"
