# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a look tells of packages, units, processes and sockets."""

import json
import os
import sys
import time

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    process_trust,
    system,
    trust,
)

from .conftest import answer, ask, status_message, tree, wire_version

# --- packages, units, processes
# -------------------------------------------------------------------------------------------

DPKG = """Package: containerd
Status: install ok installed
Architecture: amd64
Version: 1.7.24~ds1-6
Description: x
 Package: hidden in a description

Package: removed
Status: deinstall ok config-files
Version: 1.0

Package: lib
Status: deinstall ok config-files
Architecture: i386
Version: 1

Package: lib
Status: hold ok installed
Architecture: amd64
Version: 1:2.0
"""


def test_packages_of_dpkg(tmp_path):
    tree(tmp_path, var__lib__dpkg__status=DPKG)
    found = ask(
        root=tmp_path,
        kind="package",
        names=["containerd", "removed", "lib", "none", "hidden"],
        candidates=True,
    )
    assert found["manager"] == "dpkg"
    assert found["installed"] == {
        "containerd": "1.7.24~ds1-6",
        "removed": None,
        "lib": "1:2.0",
        "none": None,
        "hidden": None,
    }


LIKE = """Package: nvidia-smi
Status: hold ok installed
Maintainer: Debian NVIDIA Maintainers <x@example.org>
Version: 535.261.03-1
Description: Package: nvidia-hidden

Package: libnvidia-ml1
Status: install ok installed
Version: 535.261.03-1

Package: nvidia-gone
Status: deinstall ok config-files
Maintainer: x
Version: 1.0

Package: other
Status: install ok installed
Version: 1.0
"""


def test_packages_of_dpkg_by_an_expression(tmp_path, monkeypatch):
    tree(tmp_path, var__lib__dpkg__status=LIKE)
    by = "Debian NVIDIA Maintainers <x@example.org>"
    wanted = [
        ["libnvidia-ml1", "535.261.03-1", "", False, ""],
        ["nvidia-smi", "535.261.03-1", by, True, ""],
    ]
    asked = {"kind": "package", "names": [], "like": ".*nvidia.*|none"}
    assert ask(root=tmp_path, **asked)["like"] == wanted
    # what apt offers is asked of the running host alone
    monkeypatch.setattr(system, "_list_apt_candidates", lambda names: dict.fromkeys(names, "9"))
    assert ask(root=tmp_path, candidates=True, **asked)["like"] == wanted
    stanzas = list(system._match_dpkg(str(tmp_path), ".*nvidia.*"))
    assert [row[4] for row in system._list_like_dpkg(stanzas, True)] == ["9", "9"]


TWINS = """Package: libnvidia-ml1
Status: hold ok installed
Architecture: amd64
Version: 535.261.03-1

Package: libnvidia-ml1
Status: install ok installed
Architecture: i386
Version: 535.183.01-1

Package: nvidia-common
Status: install ok installed
Architecture: all
Version: 535.261.03-1

Package: libnvidia-compute-530
Status: install ok installed
Architecture: amd64
Version: 535.129.03-0ubuntu1
Description: Transitional package for libnvidia-compute-535
"""


def test_packages_of_several_architectures_and_those_that_lead_to_others(tmp_path):
    tree(tmp_path, var__lib__dpkg__status=TWINS, var__lib__dpkg__arch="amd64\ni386\n")
    found = ask(root=tmp_path, kind="package", names=[], like=".*nvidia.*")
    assert [(row[0], row[1], row[3]) for row in found["like"]] == [
        ("libnvidia-compute-530", "535.129.03-0ubuntu1", False),
        ("libnvidia-ml1", "535.261.03-1", True),
        ("libnvidia-ml1:i386", "535.183.01-1", False),
        ("nvidia-common", "535.261.03-1", False),
    ]
    assert found["empty"] == ["libnvidia-compute-530"]


def test_one_architecture_has_no_name(tmp_path):
    tree(tmp_path, var__lib__dpkg__status=TWINS.replace("i386", "amd64"))
    found = ask(root=tmp_path, kind="package", names=[], like="nvidia-common")
    assert [row[0] for row in found["like"]] == ["nvidia-common"]


STATUSES = [
    # dpkg's words, and the state of the package
    ("install ok installed", None),
    ("hold ok installed", None),
    ("deinstall ok config-files", None),
    ("purge ok not-installed", None),
    ("install ok triggers-pending", None),
    ("install ok half-configured", "half-configured"),  # iF
    ("hold ok half-configured", "half-configured"),  # hF
    ("install ok unpacked", "unpacked"),  # iU
    ("install ok half-installed", "half-installed"),  # iH
    ("install reinstreq half-installed", "reinstreq"),  # iHR
    ("install reinstreq installed", "reinstreq"),
    ("install", None),
]


@pytest.mark.parametrize(("status", "state"), STATUSES)
def test_packages_that_dpkg_has_not_finished(tmp_path, status, state):
    text = "Package: %s\nStatus: %s\nVersion: 1.0\n\n"
    both = text % ("nvidia-smi", status) + text % ("bash", "install ok half-configured")
    tree(tmp_path, var__lib__dpkg__status=both)
    asked = {"kind": "package", "names": [], "like": ".*nvidia.*"}
    half = ask(root=tmp_path, **asked)["half"]
    assert half == ([["nvidia-smi", state, status.startswith("hold ")]] if state else [])


def test_packages_of_rpm_by_an_expression(monkeypatch, systemd):
    monkeypatch.setattr(system, "_name_database", lambda root: "rpm")
    path = systemd.bin / "rpm"
    path.write_text(
        "#!/bin/sh\n[ $1 = -qa ] || exit 9\n"
        "printf 'nvidia-driver 3:580.82.07-1.el9 NVIDIA\\nkernel 5.14-1 (none)\\n'\n"
    )
    path.chmod(0o755)
    found = system.list_installed_packages("", [], like="nvidia.*")
    assert found["like"] == [["nvidia-driver", "3:580.82.07-1.el9", "NVIDIA", False, ""]]
    assert found["installed"] == {}
    # a vendor does not belong to the name, whatever it says
    path.write_text(
        "#!/bin/sh\nprintf 'tool 550.1-1 the nvidia people \\nnvidia-x 1\\nnvidia-smi 2 (none)\\n'\n"
    )
    found = system.list_installed_packages("", [], like=".*nvidia.*")
    assert found["like"] == [["nvidia-smi", "2", "(none)", False, ""]]
    # nor is the beginning of a name a name
    path.write_text("#!/bin/sh\nprintf 'libcuda1 1 x\\nlibcuda1-tools 1 x\\nxlibcuda1 1 x\\n'\n")
    found = system.list_installed_packages("", [], like="libnv|libcuda1")
    assert found["like"] == [["libcuda1", "1", "x", False, ""]]
    path.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(system.host_files.HostError):
        system.list_installed_packages("", [], like="nvidia.*")


def test_packages_of_rpm(monkeypatch, systemd):
    monkeypatch.setattr(system.os.path, "exists", lambda path: False)
    monkeypatch.setattr(system.os.path, "isdir", lambda path: path == "/var/lib/rpm")
    path = systemd.bin / "rpm"
    path.write_text(
        "#!/bin/sh\necho 'containerd.io 1:1.7.2-1.el8'\necho 'package none is not installed'\nexit 1\n"
    )
    path.chmod(0o755)
    found = system.list_installed_packages("", ["containerd.io", "none"])
    assert found == {
        "manager": "rpm",
        "installed": {"containerd.io": "1:1.7.2-1.el8", "none": None},
        "candidates": {},
    }


BOTH = {
    # os-release of a host that has a database of dpkg and one of rpm -> whose counts
    "Debian, with rpm": ("ID=debian", "dpkg"),
    "Ubuntu, with rpm": ("ID=ubuntu\nID_LIKE=debian", "dpkg"),
    "Rocky, with dpkg from EPEL": ('ID="rocky"\nID_LIKE="rhel centos fedora"', "rpm"),
    "Fedora, with dpkg": ("ID=fedora", "rpm"),
    "SLES, with dpkg": ('ID="sles"\nID_LIKE="suse"', "rpm"),
    "a system without a name": ("", "dpkg"),
}


@pytest.mark.parametrize(("release", "database"), BOTH.values(), ids=BOTH)
def test_where_both_databases_are_the_distribution_decides(tmp_path, release, database):
    tree(tmp_path, var__lib__dpkg__status=DPKG, etc__os_release=release)
    (tmp_path / "etc/os_release").rename(tmp_path / "etc/os-release")
    (tmp_path / "var/lib/rpm").mkdir()
    assert system._name_database(str(tmp_path)) == database


def test_no_package_manager(tmp_path):
    assert ask(root=tmp_path, kind="package", names=["x"]) == {
        "manager": "none",
        "installed": {"x": None},
        "candidates": {},
    }


def test_candidates_of_apt(systemd):
    path = systemd.bin / "apt-cache"
    path.write_text(
        "#!/bin/sh\nprintf 'a:\\n  Installed: 1\\n  Candidate: 2\\n  Version table:\\n     2 500\\nb:\\n  Candidate: (none)\\n'\n"
    )
    path.chmod(0o755)
    assert system._list_apt_offers(["a", "b", "c"]) == {
        "candidates": {"a": "2", "b": None, "c": None}
    }


def test_an_apt_that_fails_offers_no_less_than_is_known(systemd):
    path = systemd.bin / "apt-cache"
    path.write_text("#!/bin/sh\necho 'E: The list of sources could not be read.' >&2\nexit 100\n")
    path.chmod(0o755)
    assert system._list_apt_offers(["a"]) == {
        "candidates_error": "apt-cache policy ended with exit status 100"
    }


def test_units(systemd):
    systemd.add("engine.service", invocation="abc")
    before = time.monotonic()
    answer = ask(kind="units", names=["engine.service", "none.service"])
    assert before <= answer["monotonic"] <= time.monotonic()
    units = answer["units"]
    assert (units["engine.service"]["ActiveState"], units["engine.service"]["InvocationID"]) == (
        "active",
        "abc",
    )
    assert units["none.service"]["LoadState"] == "not-found"
    assert len(systemd.log_file.read_text().splitlines()) == 1


def given(monkeypatch, tmp_path, environment, folder):
    """The first process has that environment, and units have that folder."""
    (tmp_path / "environ").write_bytes(environment)
    monkeypatch.setattr(system, "_MANAGERS_ENVIRONMENT", str(tmp_path / "environ"))
    monkeypatch.setattr(system, "_UNIT_FOLDERS", [str(tmp_path / folder), str(tmp_path / "none")])


UNITS = [
    "here.service",
    "drop-in.service",
    "memory.service",
    "none.service",
    "at@one.service",
    "noending",
]


def test_units_without_a_file_are_asked_for_as_patterns(systemd, tmp_path, monkeypatch):
    """By name systemd would look for each of them, and tell all the properties of what it has not
    found.
    """
    (tmp_path / "system" / "drop-in.service.d").mkdir(parents=True)
    (tmp_path / "system" / "here.service").symlink_to("/dev/null")
    given(monkeypatch, tmp_path, b"TERM=linux\0", "system")
    for name in ("here.service", "memory.service"):
        systemd.add(name)
    units = ask(kind="units", names=UNITS)["units"]
    assert [units[name]["LoadState"] for name in UNITS] == [
        "loaded",
        "not-found",
        "loaded",
        "not-found",
        "not-found",
        "not-found",
    ]
    asked = systemd.log_file.read_text().partition(" -- ")[2].split()
    assert asked == [
        "here.service",
        "drop-in.service",
        "memory.servic[e]",
        "none.servic[e]",
        "at@one.service",
        "noending",
    ]


def test_a_folder_of_units_that_cannot_be_read_says_nothing(systemd, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    given(monkeypatch, tmp_path, b"", "file")
    assert (
        ask(kind="units", names=["none.service"])["units"]["none.service"]["LoadState"]
        == "not-found"
    )
    assert systemd.log_file.read_text().endswith(" -- none.service\n")


def test_units_are_asked_for_by_name_where_systemd_was_given_other_folders(
    systemd, tmp_path, monkeypatch
):
    """A unit outside the folders of this table may be in those, and an unloaded unit is in no list."""
    for said, asked in (
        (b"TERM=linux\0", "none.servic[e]"),
        (b"TERM=linux\0SYSTEMD_UNIT_PATH=/opt/units:\0", "none.service"),
    ):
        given(monkeypatch, tmp_path, said, "none")
        ask(kind="units", names=["none.service"])
        assert systemd.log_file.read_text().endswith(" -- %s\n" % asked)


def own_process(**more):
    found = ask(
        kind="processes", names=["python[0-9.]*", os.path.basename(sys.executable)], **more
    )["processes"]
    own = [process for process in found if process["pid"] == os.getpid()]
    assert len(own) == 1
    return own


# whoever runs it, and where
ROWS_OF_A_TEST = (
    "user",
    "user namespace",
    "PID namespace",
    "root directory",
    "service",
    "main process",
)


def test_processes(monkeypatch):
    own = own_process(environment={"PATH": "name"})
    assert "verified" not in own[0], "no service manager has started a test"
    assert own[0]["unverified"] in ROWS_OF_A_TEST
    assert own[0]["argv"] == []
    assert "environment" not in own[0]
    monkeypatch.setattr(process_trust.Judge, "find_doubt", lambda self, found: None)
    own = own_process(environment={"PATH": "name"})
    assert own[0]["verified"] is True
    assert own[0]["ppid"] == os.getppid()
    assert own[0]["exe"] == os.path.realpath(sys.executable)
    assert not own[0]["deleted"]
    assert set(own[0]["argv"][1:]) <= {"(hidden)", "-(hidden)", "-(hidden)=(hidden)"}
    assert own[0]["environment"] == {"PATH": "(hidden)"}
    assert own[0]["ticks"] == system.get_process_start(os.getpid())
    assert 0 < own[0]["start"] <= os.stat("/proc/self").st_mtime + 86400
    assert ask(kind="processes", names=["pytho"])["processes"] == []  # the whole name, or none


def test_candidates_of_what_is_missing_only(monkeypatch):
    monkeypatch.setattr(system, "_list_dpkg", lambda root, names: {"have": "1", "none": None})
    monkeypatch.setattr(system, "_list_apt_candidates", lambda names: {name: "9" for name in names})
    monkeypatch.setattr(system.os.path, "exists", lambda path: True)
    assert system.list_installed_packages("", ["none", "have"], "first missing")["candidates"] == {
        "none": "9"
    }
    assert system.list_installed_packages("", ["have", "none"], "first missing")["candidates"] == {}
    assert system.list_installed_packages("", ["have", "none"], True)["candidates"] == {
        "have": "9",
        "none": "9",
    }
    assert system.list_installed_packages("", ["have"], False)["candidates"] == {}


# --- sockets
# --------------------------------------------------------------------------------------------------


def test_cri(runtime):
    keep = [[["config", "registry", "on"], "bool"]]
    found = ask(
        kind="cri",
        socket=runtime(answer(status_message({"registry": {"note": "s3cret", "on": True}}))).path,
        keep=keep,
    )
    assert found["info"] == {"config": {"registry": {"on": True}}}
    assert ask(kind="cri", socket=runtime(answer(status_message({"a": "b"}))).path)["info"] == {}
    found = ask(
        kind="cri",
        method="Version",
        socket=runtime(answer(wire_version("containerd", "v2.3.4"))).path,
    )
    assert (found["runtime_name"], found["runtime_version"]) == ("containerd", "v2.3.4")
    assert (
        ask(kind="cri", method="ListContainers", socket=runtime(answer(b"\x0a\x00")).path)["error"][
            "kind"
        ]
        == "bad-question"
    )


@pytest.mark.parametrize(
    "reply, kind", [(answer(None, "12", "unknown service"), "failed"), (None, "timeout")]
)
def test_cri_that_does_not_serve(runtime, reply, kind):
    assert ask(kind="cri", socket=runtime(reply).path, timeout=0.2)["error"]["kind"] == kind


@pytest.mark.parametrize(
    "reply, driver",
    [
        (answer(b"\x0a\x02\x08\x01"), "cgroupfs"),
        (answer(b"\x0a\x00"), "systemd"),  # the enumeration's zero is not sent
        (answer(b"\x0a\x02\x08\x07"), ""),  # a driver of a later release
        (answer(b""), ""),  # nothing about Linux
        (answer(None, "12", "unknown method RuntimeConfig"), ""),
    ],
)
def test_the_control_group_driver_that_a_runtime_tells(runtime, reply, driver):
    found = ask(kind="cri", method="RuntimeConfig", socket=runtime(reply).path)
    assert found == {"driver": driver, "peer": os.getpid()}


def test_a_runtime_that_fails_to_tell_its_driver_is_an_error(runtime):
    assert (
        ask(kind="cri", method="RuntimeConfig", socket=runtime(answer(None, "13", "broken")).path)[
            "error"
        ]["kind"]
        == "failed"
    )


def test_no_socket(tmp_path):
    assert ask(kind="cri", socket=str(tmp_path / "none"))["error"]["kind"] == "not-found"
    assert ask(kind="http", socket=str(tmp_path / "none"), path="/")["error"]["kind"] == "not-found"


def test_http(runtime):
    server = runtime(b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"token":"x"}')
    server._request = lambda connection: connection.recv(65536)
    found = ask(kind="http", socket=server.path, path="/config")
    assert found == {"status": 200, "value": {}, "peer": os.getpid()}
    assert server.requests[0].startswith(b"GET /config HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "status, body, value",
    [
        (200, b'{"a":1,"token":"x"}', {"a": 1}),
        (200, b'[{"a":1,"token":"x"}]', []),
        (200, b"token=x", None),
        (500, b'{"a":1}', None),
    ],
)
def test_of_an_answer_in_json_only_what_is_listed_leaves_the_host(runtime, status, body, value):
    server = runtime(b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))
    server._request = lambda connection: connection.recv(65536)
    assert ask(kind="http", socket=server.path, path="/info", keep=[[["a"], "int"]]) == {
        "status": status,
        "value": value,
        "peer": os.getpid(),
    }


def test_what_others_may_write_is_not_read_and_what_the_kernel_says_is(tmp_path):
    """In a container without privileges /proc belongs to nobody that it knows, and is the kernel's
    all the same.
    """
    config = tmp_path / "config.toml"
    config.write_text("secret = 1\n")
    (tmp_path / "link").symlink_to(config)
    os.chown(str(config), 65534, 65534)
    for path in (config, tmp_path / "link"):
        found = ask(kind="file", path=str(path))
        assert found["error"]["kind"] == "untrusted"
        assert "secret" not in json.dumps(found)
        assert ask(kind="file", path=str(path), content=False)["exists"] is True
    assert "secret" not in json.dumps(ask(kind="glob", pattern=str(tmp_path / "*")))
    assert ask(kind="mentioned", pattern=str(tmp_path / "*"), find=["(secret)"])["paths"] == {}


def test_files_of_the_kernel_are_read_whoever_they_belong_to(monkeypatch):
    monkeypatch.setattr(trust, "judge_path", lambda *_args: pytest.fail("judged"))
    assert ask(kind="file", path="/proc/uptime", max=4096)["content"]


@pytest.mark.parametrize(
    "kind", [{"kind": "command", "argv": ["echo", "ran"]}, {"kind": "probe", "source": "print(1)"}]
)
def test_what_loads_a_file_of_somebody_else_is_not_started(tmp_path, kind):
    library = tmp_path / "lib.so"
    library.write_text("")
    assert "error" not in ask(loads=[str(library)], **kind)
    os.chown(str(library), 1001, 0)
    assert ask(loads=[str(library)], **kind)["error"]["kind"] == "untrusted"


# What a look says of a program that is asked for where a package has not brought it.
INSTEAD = {"argv": ["tool", "--version"], "shows": [r"^tool \d+"]}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["containerd"], None),  # a package has brought it
        (["none", "containerd"], "tool 12\n"),  # the first one counts
    ],
)
def test_a_program_is_asked_where_the_first_package_is_missing(monkeypatch, systemd, names, found):
    path = systemd.bin / "tool"
    path.write_text("#!/bin/sh\necho 'a word of its own'\necho 'tool 12 and more'\n")
    path.chmod(0o755)
    monkeypatch.setattr(
        system,
        "list_installed_packages",
        lambda *_more: {"installed": {"containerd": "1.7", "none": None}},
    )
    answer_ = ask(kind="package", names=names, **{"else": INSTEAD})
    assert (answer_.get("program") or {}).get("stdout") == found


def test_a_program_that_others_may_write_to_is_not_asked(monkeypatch, systemd):
    path = systemd.bin / "tool"
    path.write_text("#!/bin/sh\necho 'tool 12'\n")
    path.chmod(0o777)
    monkeypatch.setattr(
        system, "list_installed_packages", lambda *_more: {"installed": {"none": None}}
    )
    assert (
        ask(kind="package", names=["none"], **{"else": INSTEAD})["program"]["error"]["kind"]
        == "untrusted"
    )


def test_no_program_is_asked_beneath_another_root(tmp_path):
    assert "program" not in ask(root=tmp_path, kind="package", names=["none"], **{"else": INSTEAD})
