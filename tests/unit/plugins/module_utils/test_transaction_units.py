# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a transaction does to units, asks of engines and takes back; and what it does beneath
another root.
"""

import json
import os
import re
import subprocess
import sys

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    executor,
    health,
)

from .conftest import CONFIG, RESTART, answer, restore, status_message

# --- units, health, taking back
# ---------------------------------------------------------------------------------------


def test_the_units_of_a_request_restart_once_whether_a_file_differs_or_not(host_dir, systemd):
    """An engine that still runs with the configuration from before is planned to restart, though
    its files are as they should be.
    """
    systemd.add("engine.service")
    change = host_dir.write(host_dir.config, "new\n")
    assert host_dir.run([change], units=RESTART)["restarted"] == ["engine.service"]
    found = host_dir.run([change], units=RESTART, id="2" * 32)
    assert (found["restarted"], found["changed"], found["written"]) == (
        ["engine.service"],
        True,
        [],
    )
    assert systemd.actions == ["restart engine.service"] * 2
    assert host_dir.run([change], id="3" * 32)["restarted"] == []


def test_a_unit_that_was_started_too_often_is_restarted_all_the_same(host_dir, systemd):
    systemd.add("engine.service")
    unit = systemd.units / "engine.service"
    systemd.hook(
        "engine.service",
        "restart",
        "echo start-limit-hit >%s/Result; exec test -e %s/forgiven" % (unit, unit),
    )
    systemd.hook("engine.service", "reset-failed", "touch %s/forgiven" % unit)
    assert host_dir.run([host_dir.write(host_dir.config, "new\n")], units=RESTART)["restarted"] == [
        "engine.service"
    ]
    assert systemd.actions == [
        "restart engine.service",
        "reset-failed engine.service",
        "restart engine.service",
    ]


def test_a_unit_that_crashed_and_was_started_too_often_comes_back_all_the_same(host_dir, systemd):
    """systemd's result is that of the crash then, and no start is granted to the old configuration
    either.
    """
    systemd.add("engine.service")
    unit = systemd.units / "engine.service"
    (unit / "Result").write_text("signal\n")
    systemd.hook(
        "engine.service",
        "restart",
        "grep -q new %s && touch %s/refused && exit 1; exit 0" % (host_dir.config, unit),
    )
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")], units=RESTART)
    assert (found["error"]["phase"], found["rolled_back"]) == ("restart", True)
    assert systemd.actions == [
        "restart engine.service",
        "restart engine.service",
        "reset-failed engine.service",
        "restart engine.service",
    ]
    assert systemd.state("engine.service") == "active"


def test_a_unit_that_did_not_run_and_failed_is_as_before(host_dir, systemd):
    """stop leaves a failed unit as failed, which systemctl --failed and monitoring would go on to
    show.
    """
    systemd.add("engine.service", active="inactive")
    systemd.hook("engine.service", "start", "exit 1")
    found = host_dir.run(
        [host_dir.write(host_dir.config, "new\n")], units=[dict(RESTART[0], action="start")]
    )
    assert (found["error"]["phase"], found["rolled_back"]) == ("restart", True)
    assert systemd.actions == [
        "start engine.service",
        "stop engine.service",
        "reset-failed engine.service",
    ]
    assert systemd.state("engine.service") == "inactive"


def test_check_mode_restarts_nothing(host_dir, systemd):
    systemd.add("engine.service")
    assert host_dir.run([host_dir.write(host_dir.config, "new\n")], units=RESTART, check=True)[
        "changed"
    ]
    assert systemd.actions == []


def test_healthy_means_that_the_runtime_serves_as_wanted(host_dir, systemd, runtime):
    systemd.add("engine.service")
    config = {"containerd": {"runtimes": {"nvidia": {"options": {"BinaryName": "/b"}}}}}
    starting, ready = answer(None, "14", "starting"), answer(status_message(config, ["", "nvidia"]))
    server = runtime(starting, answer(status_message({}, ready=False)), ready)
    path = ["config", "containerd", "runtimes", "nvidia", "options", "BinaryName"]
    require = [
        {"path": path, "equals": "/b"},
        {"handler": "nvidia"},
        {"path": ["config", "gone"], "absent": True},
    ]
    check = {"kind": "cri", "socket": server.path, "timeout": 20, "require": require}
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")], units=RESTART, health=[check])
    assert found["error"] is None
    assert [(entry["kind"], entry["ok"]) for entry in found["health"]] == [("cri", True)]
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("case", "options", "folded", "well"),
    [
        ("spelled as it is asked for", {"BinaryName": "/b"}, False, True),
        ("spelled otherwise, as containerd 1.x reads it", {"binaryName": "/b"}, True, True),
        (
            "both are there, and the usual spelling counts",
            {"BinaryName": "/b", "binaryName": "/other"},
            True,
            True,
        ),
        (
            "the same, with the other value",
            {"BinaryName": "/other", "binaryName": "/b"},
            True,
            False,
        ),
        ("spelled otherwise, with another value", {"binaryName": "/other"}, True, False),
        ("spelled otherwise, where that is another key", {"binaryName": "/b"}, False, False),
        ("not there", {}, True, False),
    ],
)
def test_an_option_may_be_spelled_in_any_way_where_that_is_said(case, options, folded, well):
    want = {
        "path": ["options", "BinaryName"],
        "equals": "/b",
        **({"folded": True} if folded else {}),
    }
    assert (health._find_lacking(want, [], {"options": options}) is None) is well, case


BROKEN = {
    "the restart fails": ("grep -q new CONFIG && exit 1; exit 0", [], "restart"),
    "the runtime serves without our handler": ("true", [{"handler": "nvidia"}], "health"),
}


@pytest.mark.parametrize("why", sorted(BROKEN))
def test_what_does_not_work_is_taken_back(host_dir, systemd, runtime, why):
    hook, require, phase = BROKEN[why]
    systemd.add("engine.service")
    systemd.hook("engine.service", "restart", hook.replace("CONFIG", str(host_dir.config)))
    server = runtime(answer(status_message({}, ["runc"])))
    checks = (
        [{"kind": "cri", "socket": server.path, "timeout": 0.1, "require": require}]
        if require
        else []
    )
    before, time_before = host_dir.tree(), os.stat(str(host_dir.config)).st_mtime_ns
    known = [{"code": "no-runtime", "pattern": "no such runtime"}]
    changes = [host_dir.write(host_dir.config, "new\n"), host_dir.write(host_dir.dropin, "a\n")]
    found = host_dir.run(changes, units=RESTART, health=checks, causes=known)
    assert found["error"]["phase"] == phase
    assert found["rolled_back"]
    assert not found["changed"]
    assert found["written"] == []
    assert host_dir.tree() == before
    assert os.stat(str(host_dir.config)).st_mtime_ns == time_before
    assert systemd.actions == ["restart engine.service", "restart engine.service"]
    assert systemd.state("engine.service") == "active"
    (log,) = [entry for entry in found["health"] if entry["kind"] == "log"]
    assert (log["failed"], log["causes"]) == (True, [{"code": "no-runtime", "values": {}}])
    assert re.match(r"journalctl --unit=engine.service --since=@\d+$", log["evidence"])
    assert "hunter2" not in repr(found)
    assert host_dir.states() == ["rolled_back"]
    assert host_dir.originals() == {}


def test_a_handler_that_does_not_appear_is_taken_back_with_the_runtimes_own_word(
    host_dir, systemd, runtime, monkeypatch
):
    # how long a runtime that serves is given to change its answer
    monkeypatch.setattr(health, "SETTLED", 0.1)
    systemd.add("engine.service")
    server = runtime(answer(status_message({}, ["runc"])))
    check = {
        "kind": "cri",
        "socket": server.path,
        "timeout": 60,
        "require": [{"handler": "nvidia"}],
    }
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")], units=RESTART, health=[check])
    assert found["rolled_back"]
    assert "it has no handler nvidia" in found["error"]["message"]
    assert [(entry["kind"], entry["ok"], entry.get("after")) for entry in found["health"]] == [
        ("cri", False, "change"),
        ("log", False, None),
        ("cri", True, "rollback"),
    ]
    assert host_dir.config.read_text() == CONFIG


RELOAD = [{"name": "engine.service", "action": "reload", "timeout": 20}]
WANTED = [{"path": ["Runtimes", "b"], "equals": "/b"}, {"path": ["dirs"], "filled": True}]


def said(body, status="200 OK"):
    return ("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)).encode()


def over_http(runtime, *replies):
    server = runtime(*replies)
    server._request = lambda connection: connection.recv(65536)
    return {
        "kind": "http",
        "socket": server.path,
        "path": "/info",
        "timeout": 20,
        "require": WANTED,
    }


def test_a_daemon_that_tells_its_state_over_http_is_waited_for(host_dir, systemd, runtime):
    systemd.add("engine.service")
    states = (
        said("", "503 Starting"),
        said("{"),
        said('{"Runtimes": {}, "dirs": []}'),
        said('{"Runtimes": {"b": "/b"}, "dirs": ["/d"]}'),
    )
    found = host_dir.run(
        [host_dir.write(host_dir.config, "new\n")],
        units=RELOAD,
        health=[over_http(runtime, *states)],
    )
    assert (found["error"], found["health"][0]["ok"]) == (None, True)
    assert systemd.actions == ["reload engine.service"]


def test_what_was_only_reloaded_is_only_reloaded_on_the_way_back(
    host_dir, systemd, runtime, monkeypatch
):
    """A restart may end what the unit carries."""
    monkeypatch.setattr(health, "SETTLED", 0.1)
    systemd.add("engine.service")
    found = host_dir.run(
        [host_dir.write(host_dir.config, "new\n")],
        units=RELOAD,
        health=[over_http(runtime, said('{"Runtimes": {}, "dirs": []}'))],
    )
    assert (
        "it serves, but its Runtimes.b is None, not '/b'; its dirs is empty"
        in found["error"]["message"]
    )
    assert found["rolled_back"]
    assert systemd.actions == ["reload engine.service", "reload engine.service"]
    assert host_dir.config.read_text() == CONFIG


def test_what_a_reload_has_brought_down_is_started_again(host_dir, systemd):
    systemd.add("engine.service")
    systemd.hook("engine.service", "reload", "false")
    assert host_dir.run([host_dir.write(host_dir.config, "new\n")], units=RELOAD)["rolled_back"]
    assert systemd.actions == ["reload engine.service", "restart engine.service"]


WAIT = [{"name": "engine.service", "action": "wait", "timeout": 20}]


@pytest.mark.parametrize(
    ("process", "well"),
    [(1, True), (os.getpid(), False)],
    ids=["another process serves", "the same process serves"],
)
def test_what_takes_files_up_by_itself_is_waited_for_until_another_process_serves(
    host_dir, systemd, runtime, process, well
):
    """Its answers from before the change are not believed, also where they are as wanted."""
    systemd.add("engine.service")
    server = runtime(answer(status_message({}, ["nvidia"])))
    check = {
        "kind": "cri",
        "socket": server.path,
        "timeout": 0.3,
        "require": [{"handler": "nvidia"}],
        "replaces": process,
    }
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")], units=WAIT, health=[check])
    assert systemd.actions == []
    assert (found["error"] is None, host_dir.config.read_text() == "new\n") == (well, well)
    if not well:
        assert "the process from before the change still serves" in found["error"]["message"]
        # What is back has to be taken up as well: the process that serves then is another one
        # again.
        back = [entry for entry in found["health"] if entry.get("after") == "rollback"]
        assert [(entry["replaces"], entry["require"]) for entry in back] == [(os.getpid(), [])]


def test_where_nobody_serves_any_process_is_another_one(host_dir, systemd):
    systemd.add("engine.service")
    check = {
        "kind": "cri",
        "socket": "/nowhere/containerd.sock",
        "timeout": 0.1,
        "require": [],
        "replaces": 7,
    }
    assert health.require_replacement(check)["replaces"] is None


def test_a_reload_leaves_a_restart_that_is_due_as_it_is(host_dir, systemd):
    systemd.add("engine.service")
    due = os.path.join(host_dir.journal, "pending.json")
    host_dir.run(
        [host_dir.write(host_dir.config, "new\n")], units=RELOAD, pending=["engine.service"]
    )
    with open(due) as stream:
        assert list(json.load(stream)) == ["engine.service"]
    host_dir.run([host_dir.write(host_dir.config, "newer\n")], units=RELOAD, id="2" * 32)
    assert os.path.exists(due)
    host_dir.run([host_dir.write(host_dir.config, "newest\n")], units=RESTART, id="3" * 32)
    assert not os.path.exists(due)


def test_a_runtime_whose_cri_part_never_loads_is_told_as_that(
    host_dir, systemd, runtime, monkeypatch
):
    monkeypatch.setattr(health, "SETTLED", 0.1)
    systemd.add("engine.service")
    server = runtime(answer(None, "12", "unknown service"))
    check = {"kind": "cri", "socket": server.path, "timeout": 60}
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")], units=RESTART, health=[check])
    # it does not serve with the old configuration either: said, not hidden
    assert found["error"]["phase"] == "rollback"
    assert "serves no CRI" in found["error"]["message"]
    assert host_dir.config.read_text() == CONFIG


def test_a_unit_that_does_not_start_with_the_old_files_either_has_them_all_the_same(
    host_dir, systemd
):
    systemd.add("engine.service")
    systemd.hook("engine.service", "restart", "exit 1")
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")], units=RESTART)
    assert found["error"]["phase"] == "rollback"
    assert not found["rolled_back"]
    assert "while rolling back after: " in found["error"]["message"]
    assert found["error"]["where"] == found["journal"]
    assert host_dir.config.read_text() == CONFIG
    assert "files are as before" in found["error"]["next"]


def test_what_cannot_be_taken_back_says_where_the_bytes_are(host_dir, systemd, monkeypatch):
    def fail(*_arguments, **_more):
        raise OSError("the disk is gone")

    systemd.add("engine.service")
    systemd.hook("engine.service", "restart", "exit 1")
    monkeypatch.setattr(executor.rollback, "take_back_transaction", fail)
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")], units=RESTART)
    assert found["error"]["phase"] == "rollback"
    assert "the disk is gone (while rolling back after: " in found["error"]["message"]
    assert "put them back" in found["error"]["next"]


def test_disabled_units_stop_first_without_a_reload_and_come_back_with_the_rest(host_dir, systemd):
    systemd.add("refresh.path")
    systemd.add("refresh.service", active="inactive", enabled="disabled")
    disable = ["refresh.path", "refresh.service", "missing.path"]
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")], disable=disable)
    assert found["disabled"] == ["refresh.path"]
    assert systemd.actions == ["--no-reload disable --now refresh.path"]
    assert (systemd.state("refresh.path"), systemd.state("refresh.path", "UnitFileState")) == (
        "inactive",
        "disabled",
    )

    systemd.add("again.path")
    bad = [{"kind": "cri", "socket": "/nowhere.sock", "timeout": 0.1}]
    found = host_dir.run(
        [host_dir.write(host_dir.config, "other\n")],
        disable=["again.path"],
        health=bad,
        id="2" * 32,
    )
    assert found["rolled_back"]
    assert (systemd.state("again.path"), systemd.state("again.path", "UnitFileState")) == (
        "active",
        "enabled",
    )


def test_a_swap_that_fails_half_way_is_taken_back(host_dir, monkeypatch):
    from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import swap

    settle, calls = swap._settle, []

    def failing(root, real, spare):
        calls.append(real)
        if len(calls) == 2:
            raise OSError(28, "No space left on device", real)
        settle(root, real, spare)

    monkeypatch.setattr(swap, "_settle", failing)
    before = host_dir.tree()
    found = host_dir.run(
        [host_dir.write(host_dir.config, "new\n"), host_dir.write(host_dir.dropin, "a\n")]
    )
    assert found["error"]["phase"] == "swap"
    assert "No space left on device" in found["error"]["message"]
    assert found["rolled_back"]
    assert host_dir.tree() == before


# --- another root
# --------------------------------------------------------------------------------------------------


def test_beneath_another_root_files_are_written_and_nothing_is_run(host_dir, systemd):
    root = host_dir.directory / "image"
    (root / "etc" / "real").mkdir(parents=True)
    (root / "etc" / "engine").symlink_to("/etc/real")  # absolute, and meant inside the root
    systemd.add("engine.service")
    request = {
        "root": str(root),
        "journal_dir": "/var/lib/gpufleet",
        "commands_before": [{"argv": ["touch", str(host_dir.directory / "ran")]}],
        "validate": [{"argv": ["false"]}],
        "units": RESTART,
        "disable": ["engine.service"],
        "health": [{"kind": "cri", "socket": "/nowhere.sock", "timeout": 0.1}],
        "expect": {"units": {"engine.service": "other"}, "packages": {"x": "1"}},
    }
    found = host_dir.run([host_dir.write("/etc/engine/config.toml", "a\n")], **request)
    assert found["error"] is None
    assert found["written"] == ["/etc/engine/config.toml"]
    assert (root / "etc" / "real" / "config.toml").read_text() == "a\n"
    assert found["journal"].startswith("/var/lib/gpufleet/journal/")
    assert (root / "var" / "lib" / "gpufleet" / "journal").is_dir()
    assert not (host_dir.directory / "ran").exists()
    assert systemd.actions == []
    found = host_dir.run(
        [restore("/etc/engine/config.toml")],
        root=str(root),
        journal_dir="/var/lib/gpufleet",
        id="2" * 32,
    )
    assert found["removed"] == ["/etc/engine/config.toml"]
    assert not (root / "etc" / "real" / "config.toml").exists()


def test_a_closed_connection_does_not_stop_it(host_dir):
    """SIGHUP, SIGINT and SIGTERM between swap and commit: it goes on to the end."""
    program = """
import os, signal, sys
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import entry as transaction, swap
apply = swap.apply
def applied(*args):
    apply(*args)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        os.kill(os.getpid(), number)
swap.apply = applied
change = {"path": sys.argv[1], "op": "write", "content": "new\\n"}
answer = transaction.run({"schema": 1, "id": "a" * 32, "root": "/", "journal_dir": sys.argv[2], "changes": [change]})
sys.exit(0 if answer["error"] is None else 1)
"""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    assert (
        subprocess.call(
            [sys.executable, "-c", program, str(host_dir.config), host_dir.journal], env=env
        )
        == 0
    )
    assert host_dir.config.read_text() == "new\n"
    assert host_dir.states() == ["committed"]
