# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which containerds are on a host, and what they can do."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)

from tests.unit import rancher
from tests.unit.containerd_daemons import (
    CONFIG,
    ROOT,
    SOCKET,
    UNIT,
    answer_cri,
    find_instances,
    run_daemon,
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
    (found,) = find_instances(processes=[run_daemon()], cri=answer_cri("v1.7.24"))
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
    (found,) = find_instances(
        files=files, processes=[run_daemon(*args)], cri=answer_cri("2.1.9", socket="/opt/c.sock")
    )
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
    (found,) = find_instances(
        files={CONFIG: root}, processes=[run_daemon()], cri=answer_cri("2.3.7", socket=socket)
    )
    assert found.socket == socket


def test_another_socket_is_asked_in_a_second_look() -> None:
    with pytest.raises(NeedMore, match="cri:Status:/a.sock"):
        find_instances(processes=[run_daemon("-a", "/a.sock")])


def test_the_unit_of_a_process_in_a_hybrid_hierarchy_is_systemds_word() -> None:
    (found,) = find_instances(processes=[run_daemon(unit=None)], cri=answer_cri("1.7.24"))
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
        answer_cri(version, status)
        if status is not None
        else {**answer_cri(version), f"Status:{SOCKET}": {"conditions": [], "info": {}}}
    )
    answer = {"rc": 0 if dump else 1, "stdout": dump or "", "stderr": ""}
    commands = {
        f"/usr/bin/containerd -c {CONFIG} config dump": answer,
        "/usr/bin/containerd --version": f"containerd x {version} y",
    }
    (found,) = find_instances(
        files={CONFIG: root}, processes=[run_daemon()], cri=cri, commands=commands
    )
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
    (found,) = find_instances(
        files={} if root is None else {CONFIG: root},
        processes=[run_daemon()],
        cri=answer_cri(version, status),
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
    (found,) = find_instances(files={CONFIG: ROOT, "/usr/bin/containerd": "elf"}, commands=commands)
    assert (found.running, found.version, found.unit) == (False, "1.7.24", "containerd.service")
    assert found.refusal.message.code == "engines.stopped"


LEFT_BY_K3S = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"


def test_a_file_that_a_manager_without_a_unit_has_left_is_named_beside_an_engine_that_serves() -> (
    None
):
    """It is all that shows the manager: without it, the host is one without k3s."""
    there = {CONFIG: "version = 2\n", LEFT_BY_K3S: "version = 2\n"}
    host = {"processes": [run_daemon()], "cri": answer_cri("1.7.24"), "units": UNIT}
    served, left = find_instances(files=there, **host)
    assert (served.config_path, served.refusal) == (CONFIG, Refusal())
    said = left.refusal.message
    assert (said.code, said.values["path"]) == ("containerd.manager-without-unit", LEFT_BY_K3S)
    assert left.refusal.kind == "stopped"
    del there[LEFT_BY_K3S]
    assert find_instances(files=there, **host) == (served,)


MOVED = "/data/rancher/agent/etc/containerd/config.toml"
K3S = {"k3s-agent.service": {"ActiveState": "inactive"}}


@pytest.mark.parametrize(
    ("units", "unit", "code"),
    [
        (K3S, "k3s-agent.service", "engines.stopped"),
        ({**UNIT, **K3S}, "k3s-agent.service", "engines.stopped"),
        (UNIT, "", "containerd.manager-without-unit"),
    ],
)
def test_a_stopped_manager_whose_moved_file_the_options_name_has_its_own_unit(
    units: dict[str, dict[str, str]], unit: str, code: str
) -> None:
    """Its file is not one that an uninstalled manager has left."""
    policy = Policy(config_path=MOVED)
    (found,) = find_instances(policy, files={MOVED: "version = 2\n"}, units=units)
    assert (found.manager, found.unit, found.refusal.message.code) == ("k3s", unit, code)


def test_none_at_all() -> None:
    assert find_instances(files={}, units={}) == ()


def test_a_second_containerd_with_a_relative_path_is_left_alone_and_the_first_is_found() -> None:
    processes = [
        run_daemon(),
        run_daemon("--config", "odd\nname.toml", pid=8, unit="second.service"),
    ]
    found = find_instances(
        files={CONFIG: "version = 2\n"}, processes=processes, cri=answer_cri("1.7.24"), units=UNIT
    )
    assert [(i.config_path, bool(i.refusal)) for i in found] == [
        (CONFIG, False),
        ("odd\nname.toml", True),
    ]
    assert found[1].refusal.message.code == "containerd.relative-config-path"
