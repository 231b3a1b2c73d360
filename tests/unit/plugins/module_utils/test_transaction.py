# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hands: the state wanted or the state before, and an answer that says which and why."""

import errno
import json
import os
import re
import stat
import subprocess
import sys

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils import health, journal, ledger, nodefs, observe

from .conftest import CONFIG, RESTART, answer, script, sha, status_message, told


def edit(node, edits, result, before=CONFIG):
    lines = [{"start": start, "end": end, "text": text} for start, end, text in edits]
    return {"path": str(node.config), "op": "edit", "expect": sha(before), "edits": lines, "result": sha(result)}


# --- files --------------------------------------------------------------------------------------------------------------


def test_a_new_file_in_new_directories(node):
    found = node.run([node.write(node.dropin, "a = 1\n", mode="0600", expect=None)])
    assert found["error"] is None
    assert found["changed"]
    assert found["written"] == [str(node.dropin)]
    assert node.dropin.read_text() == "a = 1\n"
    assert stat.S_IMODE(node.dropin.stat().st_mode) == 0o600
    assert stat.S_IMODE(node.dropin.parent.stat().st_mode) == 0o755
    assert sorted(os.listdir(str(node.etc))) == ["conf.d", "config.toml"]  # nothing temporary is left anywhere
    assert os.listdir(str(node.directory / "etc")) == ["engine"]
    assert node.states() == ["committed"]


def test_a_second_run_changes_nothing(node):
    node.run([node.write(node.dropin, "a = 1\n")])
    before = os.stat(str(node.dropin))[:7]  # all but the times: reading may change one
    written = os.stat(str(node.dropin)).st_mtime_ns
    found = node.run([node.write(node.dropin, "a = 1\n")], id="f" * 32)
    assert found["error"] is None
    assert not found["changed"]
    assert found["written"] == []
    assert found["journal"] is None
    assert os.stat(str(node.dropin))[:7] == before
    assert os.stat(str(node.dropin)).st_mtime_ns == written


@pytest.mark.parametrize(
    "before, edits, after",
    [
        ("a\nb\nc\n", [(1, 2, "B\n")], "a\nB\nc\n"),
        ("a\nb\nc\n", [(3, 3, "d\n")], "a\nb\nc\nd\n"),
        ("a\nb\nc\n", [(0, 1, ""), (2, 3, "C\nD\n")], "b\nC\nD\n"),
        ("a\nb\nc\n", [(0, 0, "x\n"), (0, 1, "A\n")], "x\nA\nb\nc\n"),
        ("a\r\nb\r\n", [(1, 2, "B\r\n")], "a\r\nB\r\n"),
        ("a\u2028b\x0cc\nd", [(1, 2, "D")], "a\u2028b\x0cc\nD"),  # only \n ends a line
        ("", [(0, 0, "a\n")], "a\n"),
    ],
)
def test_edits_are_line_ranges_of_the_file_that_was_seen(node, before, edits, after):
    node.config.write_bytes(before.encode("utf-8"))
    found = node.run([edit(node, edits, after, before)])
    assert found["error"] is None
    assert node.config.read_bytes() == after.encode("utf-8")
    assert stat.S_IMODE(node.config.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "edits, said",
    [
        ([(1, 9, "x")], "overlaps another or the end"),
        ([(0, 2, "x"), (1, 3, "y")], "overlaps"),
        ([(0, 1, "y\n")], "another file than was planned"),
    ],
)
def test_edits_that_cannot_be_meant(node, edits, said):
    found = node.run([edit(node, edits, "whatever")])
    assert said in found["error"]["message"]
    assert node.config.read_text() == CONFIG


def test_a_symlinked_config_stays_a_link(node):
    real = node.directory / "real.toml"
    node.config.rename(real)
    node.config.symlink_to(real)
    assert node.run([edit(node, [(1, 2, "")], CONFIG.replace("# a comment\n", ""))])["error"] is None
    assert node.config.is_symlink()
    assert real.read_text() == CONFIG.replace("# a comment\n", "")


def test_owner_mode_and_attributes_of_an_existing_file_stay(node):
    try:
        os.setxattr(str(node.config), "user.note", b"mine")
    except OSError:
        pass  # a file system without them
    attributes = os.listxattr(str(node.config))
    if os.geteuid() == 0:
        os.chown(str(node.config), 12, 34)
    before = node.config.stat()
    node.run([node.write(node.config, "new\n")])
    after = node.config.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
    assert os.listxattr(str(node.config)) == attributes


@pytest.mark.parametrize("number, refused", [(errno.EOPNOTSUPP, False), (errno.EIO, True), (errno.EPERM, True)])
def test_a_file_whose_attributes_cannot_be_read_is_not_written_without_them(node, monkeypatch, number, refused):
    def fails(*_words, **_more):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "listxattr", fails)
    found = node.run([node.write(node.config, "new\n")])
    assert bool(found["error"]) is refused
    assert node.config.read_text() == (CONFIG if refused else "new\n")


@pytest.mark.parametrize("kind", ["fifo", "dir", "dangling"])
def test_what_is_no_regular_file_is_refused(node, kind):
    path = node.etc / "odd"
    {"fifo": lambda: os.mkfifo(str(path)), "dir": path.mkdir, "dangling": lambda: path.symlink_to("/nowhere/at/all")}[kind]()
    before = node.tree()
    found = node.run([node.write(path, "x")])
    assert found["error"]["phase"] == "expect"
    assert str(path) in found["error"]["message"]
    assert node.tree() == before


# --- expectations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expect, found",
    [(sha("other"), told(CONFIG)), (None, told(CONFIG))],
)
def test_a_file_that_moved_on_is_a_conflict(node, expect, found):
    result = node.run([node.write(node.config, "new\n", expect=expect)])
    assert result["conflict"] == [{"what": "file", "path": str(node.config), "expected": expect, "found": found}]
    assert result["error"]["phase"] == "expect"
    assert node.config.read_text() == CONFIG


def test_files_units_packages_and_programs_that_were_only_looked_at_count_too(node, systemd):
    systemd.add("engine.service", invocation="i2")
    expect = {"files": {str(node.config): sha("x")}, "units": {"engine.service": "i1"}, "packages": {"no-such-package": "1"}}
    expect["programs"] = {"/no/such/program": "1:2:3", sys.executable: nodefs.identity("", sys.executable), "/nor/this": None}
    found = node.run([node.write(node.dropin, "x")], expect=expect)
    assert [(entry["what"], entry["expected"], entry["found"]) for entry in found["conflict"]] == [
        ("file", sha("x"), told(CONFIG)),
        ("unit", "i1", "i2"),
        ("package", "1", None),
        ("program", "1:2:3", None),
    ]
    assert not node.dropin.exists()


def test_two_transactions_at_once(node):
    with ledger.locked(node.journal, "the other one", keep=True):
        found = node.run([node.write(node.config, "new\n")])
    assert found["error"]["phase"] == "lock"
    assert "the other one" in found["error"]["message"]
    assert node.config.read_text() == CONFIG


def test_a_journal_that_others_may_write_to_is_refused(node):
    os.mkdir(node.journal)
    os.chmod(node.journal, 0o777)
    assert "must be root's alone" in node.run([node.write(node.config, "x")])["error"]["message"]
    assert node.config.read_text() == CONFIG


# --- restore ------------------------------------------------------------------------------------------------------------


def restore(path):
    return {"path": str(path), "op": "restore", "id": ""}


def test_restore_gives_back_bytes_mode_time_absence_and_directories(node):
    before, time_before = node.tree(), os.stat(str(node.config)).st_mtime_ns
    node.run([node.write(node.config, "first\n"), node.write(node.dropin, "a\n")])
    node.run([node.write(node.config, "second\n", mode="0600")], id="2" * 32)  # the original is the one from before the first
    found = node.run([restore(node.config), restore(node.dropin)], id="3" * 32)
    assert found["error"] is None
    assert found["changed"]
    assert (found["written"], found["removed"]) == ([str(node.config)], [str(node.dropin)])
    assert node.tree() == before
    assert os.stat(str(node.config)).st_mtime_ns == time_before
    assert node.originals() == {}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("last", ["restore", "remove"])
def test_a_directory_goes_with_the_last_of_our_files_in_it(node, order, last):
    """One transaction made it, another wrote a second file into it, and they go in any order, changed by somebody or not."""
    before = node.tree()
    specs = [node.etc / "made" / "deep" / name for name in ("a.yaml", "b.yaml")]
    node.run([node.write(specs[0], "a\n")], id="1" * 32)
    node.run([node.write(specs[1], "b\n")], id="2" * 32)
    first, second = (specs[number] for number in order)
    assert node.run([restore(first)], id="3" * 32)["error"] is None
    assert second.exists()
    goes = {"restore": restore(second), "remove": {"path": str(second), "op": "remove"}}[last]
    assert node.run([goes], id="4" * 32)["error"] is None
    assert node.tree() == before
    assert node.originals() == {}


def test_the_journal_is_in_the_order_in_which_it_happened_also_within_a_second(node):
    for number, first in enumerate("c1b0"):  # names begin with the second, and go on with the id
        node.run([node.write(node.config, "%d\n" % number)], id=first * 32)
    assert [entry["id"][0] for entry in journal.entries(node.journal)] == list("c1b0")


def test_a_directory_in_which_somebody_else_has_a_file_stays(node):
    node.run([node.write(node.dropin, "a\n")])
    (node.dropin.parent / "50-theirs.toml").write_text("theirs\n")
    node.run([restore(node.dropin)], id="2" * 32)
    assert os.listdir(str(node.dropin.parent)) == ["50-theirs.toml"]


def test_restore_of_a_removed_file(node):
    node.run([{"path": str(node.config), "op": "remove", "expect": sha(CONFIG)}])
    assert not node.config.exists()
    node.run([restore(node.config)], id="2" * 32)
    assert node.config.read_text() == CONFIG


def test_restore_of_a_file_that_somebody_changed_since_is_a_conflict(node):
    node.run([node.write(node.config, "ours\n")])
    node.config.write_text("theirs\n")
    found = node.run([restore(node.config)], id="2" * 32)
    assert found["conflict"] == [{"what": "original", "path": str(node.config), "expected": told("ours\n"), "found": told("theirs\n")}]
    assert node.config.read_text() == "theirs\n"
    forced = dict(restore(node.config), expect=sha("theirs\n"), changed=True)  # a file that is ours alone
    assert node.run([forced], id="3" * 32)["error"] is None
    assert (node.config.read_text(), node.originals()) == (CONFIG, {})


def test_an_edit_that_takes_ours_out_forgets_the_original(node):
    node.run([node.write(node.config, "ours\n")])
    node.run([node.write(node.config, "ours and theirs\n")], id="2" * 32)
    node.run([node.write(node.config, "theirs\n", forget=True)], id="3" * 32)
    assert node.originals() == {}


def test_of_originals_what_is_listed_is_told(node):
    node.config.write_text('password = "hunter2"\n')
    node.run([node.write(node.config, "ours\n")])
    question = {"id": "o", "kind": "originals", "dir": node.journal, "keep": [{"path": "*.toml", "keep": {"format": "toml"}}]}
    found = observe.run({"schema": 1, "root": "/", "questions": [question]})["answers"]["o"]
    original = found["originals"][str(node.config)]
    assert original["content"] == 'xxxxxxxx = "       "\n'
    assert original["existed"]
    assert original["sha256_before"] == told('password = "hunter2"\n')
    assert original["sha256_after"] == told("ours\n")
    assert found["unfinished"] == []


def test_the_journal_is_private_and_bounded(node):
    for number in range(ledger.KEPT_ENTRIES + 3):
        node.run([node.write(node.config, "%d\n" % number)], id="%032x" % number)
    assert len(node.states()) == ledger.KEPT_ENTRIES
    for directory, _subdirs, names in os.walk(node.journal):
        # The top may be entered by everybody: the decision that others read lies there.
        assert stat.S_IMODE(os.stat(directory).st_mode) == (0o755 if directory == node.journal else 0o700)
        assert all(stat.S_IMODE(os.stat(os.path.join(directory, name)).st_mode) == 0o600 for name in names)


# --- check mode and validators ----------------------------------------------------------------------------------------


def validator(node, text):
    return script(node.directory / "validator", "#!/bin/sh\n" + text + "\n")


def staging(node, program, **more):
    stage = {
        "files": [
            {"name": "e/config.toml", "source": str(node.config)},
            {"name": "e/conf.d", "source": str(node.etc / "conf.d"), "tree": True},
        ],
        "substitute": [[str(node.etc / "conf.d"), "{stage}/e/conf.d"]],
    }
    check = dict({"argv": [program, "{stage}/e/config.toml", "{stage}/e/conf.d"], "timeout": 10}, **more)
    return {"stage": stage, "validate": [check]}


CAT = 'cat "$1" "$2"/* 2>/dev/null; true'


def test_check_mode_stages_validates_and_leaves_no_trace(node):
    before = sorted(os.listdir(str(node.directory)) + ["validator"])
    tree = node.tree()
    imports = 'imports = ["%s/*"]\n' % (node.etc / "conf.d")
    changes = [node.write(node.dropin, "b = 2\n"), edit(node, [(1, 2, imports)], CONFIG.replace("# a comment\n", imports))]
    found = node.run(changes, check=True, **staging(node, validator(node, CAT)))
    assert found["error"] is None
    assert found["changed"]
    assert found["written"] == [str(node.dropin), str(node.config)]
    assert found["validation"][0]["findings"] == []
    assert found["said"] is None
    assert node.tree() == tree
    assert sorted(os.listdir(str(node.directory))) == before


def test_check_mode_beneath_a_bare_root_leaves_no_trace(node):
    (node.directory / "image").mkdir()
    found = node.run([node.write("/etc/a", "x")], root=str(node.directory / "image"), journal_dir="/var/lib/gpufleet", check=True)
    assert found["changed"]
    assert os.listdir(str(node.directory / "image")) == []


def test_the_copies_name_each_other_and_the_host_keeps_its_own_names(node):
    node.config.write_text('imports = ["%s/*"]\n' % (node.etc / "conf.d"))
    program = validator(node, 'grep -q "/stage-" "$1"')
    found = node.run([node.write(node.dropin, "b\n")], **staging(node, program))
    assert found["validation"][0]["rc"] == 0
    assert "/stage-" not in node.config.read_text()


@pytest.mark.parametrize(
    "program, more, finding",
    [
        ("echo 'line 3: bad key' >&2; exit 1", {}, "exit status 1"),
        ("echo 'level=warning msg=ignored' >&2", {"refuse": [{"pattern": "level=warning", "says": "it warns"}]}, ": it warns"),
        ("echo something", {"require": [{"pattern": "^nvidia$", "says": "it has no nvidia"}]}, ": it has no nvidia"),
        ("sleep 30", {"timeout": 0.2}, "it did not end within 0.2 s"),
        (CAT, {"baseline": ["cat", "CONFIG"], "allow": [], "names": ["b"]}, "the effective configuration would gain 1 line (b)"),
        (CAT, {"baseline": ["printf", "b = 1\nversion = 2\n"], "allow": ["b = .*"], "names": ["x"]}, "would gain 3 lines (x, others)"),
        ("sed '/version/d' $1", {"baseline": ["cat", "CONFIG"], "allow": ["b = .*"]}, "would lose 1 line"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_what_a_validator_refuses_changes_nothing(node, program, more, finding, check):
    before = node.tree()
    more = dict(more)
    if "baseline" in more:
        more["baseline"] = [str(node.config) if word == "CONFIG" else word for word in more["baseline"]]
    found = node.run([node.write(node.dropin, "b = 2\n")], check=check, **staging(node, validator(node, program), **more))
    assert found["error"]["phase"] == "validate"
    assert finding in found["error"]["message"]
    assert node.tree() == before
    assert not found["changed"]


def test_allowed_differences_pass_whatever_their_order(node):
    program = validator(node, 'printf "  x = 1\\nb = 2\\n[plugins]\\n# a comment\\nversion = 2\\n"')
    more = {"baseline": ["cat", str(node.config)], "allow": ["(?i)B = .*"]}
    found = node.run([node.write(node.dropin, "b = 2\n")], **staging(node, program, **more))
    assert found["validation"][0]["findings"] == []


def test_a_complaint_about_the_present_configuration_too_is_not_news(node):
    complain = "echo 'time=\"2026-01-01T0%s:00:00Z\" level=warning msg=old' >&2; cat "
    refuse = [{"pattern": "level=warning", "says": "it warns"}]
    more = {"baseline": ["sh", "-c", complain % 1 + str(node.config)], "refuse": refuse, "allow": ["b"]}
    found = node.run([node.write(node.dropin, "b\n")], **staging(node, validator(node, complain % 2 + '"$1" "$2"/*'), **more))
    assert found["error"] is None
    more["baseline"] = ["cat", str(node.config)]
    found = node.run([node.write(node.dropin, "b2\n")], **staging(node, validator(node, complain % 2 + '"$1" "$2"/*'), **more))
    assert found["error"]["phase"] == "validate"


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    "program, more, codes",
    [
        (CAT, {"baseline": ["true"], "allow": []}, []),
        ("echo 'level=fatal msg=\"line 7: password hunter2\"' >&2; exit 1", {}, [{"code": "line", "values": {"line": "7"}}]),
        ("echo 'line hunter2' >&2; exit 1", {}, [{"code": "line", "values": {"line": "(hidden)"}}]),
        ("echo hunter2; exit 1", {}, []),
        ("echo hunter2 >&2", {"refuse": [{"pattern": "hunter", "says": "it complains"}]}, []),
    ],
)
def test_what_a_validator_prints_stays_on_the_host(node, program, more, codes, check):
    node.config.write_text('password = "hunter2"\n')
    known = [{"code": "line", "pattern": "line (?P<line>\\w+)", "values": {"line": "number"}}]
    request = staging(node, validator(node, program), **more)
    found = node.run([node.write(node.dropin, "b\n")], check=check, causes=known, **request)
    assert found["error"]["phase"] == "validate"
    assert "hunter2" not in repr(found)
    assert found["validation"][0]["causes"] == codes
    kept = list((node.directory / "journal").glob("said/*")) if not check else []
    assert [path.stat().st_mode & 0o777 for path in kept] == ([0o600] if found["said"] else [])
    assert bool(found["said"]) == (not check and program != "echo hunter2; exit 1")
    if found["said"]:
        assert "hunter2" in kept[0].read_text()
        assert found["said"] == str(kept[0])


def test_in_check_mode_a_validator_may_still_be_missing_when_a_package_brings_it(node):
    install = [{"argv": ["false"], "why": "install"}]
    found = node.run([node.write(node.dropin, "b\n")], check=True, commands_before=install, **staging(node, "/no/such/engine"))
    assert found["error"] is None
    assert found["changed"]
    assert node.run([node.write(node.dropin, "b\n")], check=True, **staging(node, "/no/such/engine"))["error"]["phase"] == "validate"


# --- commands ---------------------------------------------------------------------------------------------------------


def test_commands_run_first_and_count_as_a_change(node):
    found = node.run([], commands_before=[{"argv": ["touch", str(node.etc / "made")], "why": "install"}])
    assert found["changed"]
    assert [(entry["argv"][0], entry["rc"]) for entry in found["ran"]] == [("touch", 0)]


def test_a_command_that_fails_stops_everything_and_undoes_the_ones_before(node):
    made = node.etc / "made"
    first = {"argv": ["touch", str(made)], "undo": ["rm", str(made)]}
    found = node.run([node.write(node.config, "x")], commands_before=[first, {"argv": ["sh", "-c", "echo no space >&2; exit 100"]}])
    assert found["error"]["phase"] == "command"
    assert found["error"]["message"].endswith("exit 100: exit status 100")
    with open(found["said"]) as words:
        assert words.read().endswith("exit 100\nno space\n\n")
    assert not made.exists()
    assert node.config.read_text() == CONFIG


def test_a_file_that_a_package_wrote_meanwhile_is_a_conflict(node):
    install = [{"argv": ["sh", "-c", "mkdir -p %s; echo theirs > %s" % (node.dropin.parent, node.dropin)]}]
    found = node.run([node.write(node.dropin, "ours\n", expect=None)], commands_before=install)
    assert [entry["path"] for entry in found["conflict"]] == [str(node.dropin)]
    assert node.dropin.read_text() == "theirs\n"
    assert found["changed"]


# --- units, health, taking back ---------------------------------------------------------------------------------------


def test_units_restart_once_and_only_for_a_change(node, systemd):
    systemd.add("engine.service")
    change = node.write(node.config, "new\n")
    assert node.run([change], units=RESTART)["restarted"] == ["engine.service"]
    assert node.run([change], units=RESTART, id="2" * 32)["restarted"] == []
    assert systemd.actions == ["restart engine.service"]
    always = [dict(RESTART[0], always=True)]
    found = node.run([change], units=always, id="3" * 32)
    assert (found["restarted"], found["changed"]) == (["engine.service"], True)


def test_a_unit_that_was_started_too_often_is_restarted_all_the_same(node, systemd):
    systemd.add("engine.service")
    unit = systemd.units / "engine.service"
    systemd.hook("engine.service", "restart", "echo start-limit-hit >%s/Result; exec test -e %s/forgiven" % (unit, unit))
    systemd.hook("engine.service", "reset-failed", "touch %s/forgiven" % unit)
    assert node.run([node.write(node.config, "new\n")], units=RESTART)["restarted"] == ["engine.service"]
    assert systemd.actions == ["restart engine.service", "reset-failed engine.service", "restart engine.service"]


def test_check_mode_restarts_nothing(node, systemd):
    systemd.add("engine.service")
    assert node.run([node.write(node.config, "new\n")], units=RESTART, check=True)["changed"]
    assert systemd.actions == []


def test_healthy_means_that_the_runtime_serves_as_wanted(node, systemd, runtime):
    systemd.add("engine.service")
    config = {"containerd": {"runtimes": {"nvidia": {"options": {"BinaryName": "/b"}}}}}
    starting, ready = answer(None, "14", "starting"), answer(status_message(config, ["", "nvidia"]))
    server = runtime(starting, answer(status_message({}, ready=False)), ready)
    path = ["config", "containerd", "runtimes", "nvidia", "options", "BinaryName"]
    require = [{"path": path, "equals": "/b"}, {"handler": "nvidia"}, {"path": ["config", "gone"], "absent": True}]
    check = {"kind": "cri", "socket": server.path, "timeout": 20, "require": require}
    found = node.run([node.write(node.config, "new\n")], units=RESTART, health=[check])
    assert found["error"] is None
    assert [(entry["kind"], entry["ok"]) for entry in found["health"]] == [("cri", True)]
    assert len(server.requests) == 3


BROKEN = {
    "the restart fails": ("grep -q new CONFIG && exit 1; exit 0", [], "restart"),
    "the unit is not active afterwards": ("true", [{"kind": "unit", "name": "other.service", "timeout": 0.1}], "health"),
    "a command says no": ("true", [{"kind": "command", "argv": ["grep", "-q", "version", "CONFIG"], "timeout": 0.1}], "health"),
}


@pytest.mark.parametrize("why", sorted(BROKEN))
def test_what_does_not_work_is_taken_back(node, systemd, why):
    hook, checks, phase = BROKEN[why]
    systemd.add("engine.service")
    systemd.add("other.service", active="inactive")
    systemd.hook("engine.service", "restart", hook.replace("CONFIG", str(node.config)))
    if checks and checks[0]["kind"] == "unit":  # comes up with the old configuration only
        systemd.hook(
            "engine.service",
            "restart",
            "grep -q version %s && echo active > %s/other.service/ActiveState; true" % (node.config, systemd.units),
        )
    checks = json.loads(json.dumps(checks).replace("CONFIG", str(node.config)))
    before, time_before = node.tree(), os.stat(str(node.config)).st_mtime_ns
    known = [{"code": "no-runtime", "pattern": "no such runtime"}]
    changes = [node.write(node.config, "new\n"), node.write(node.dropin, "a\n")]
    found = node.run(changes, units=RESTART, health=checks, causes=known)
    assert found["error"]["phase"] == phase
    assert found["rolled_back"]
    assert not found["changed"]
    assert found["written"] == []
    assert node.tree() == before
    assert os.stat(str(node.config)).st_mtime_ns == time_before
    assert systemd.actions == ["restart engine.service", "restart engine.service"]
    assert systemd.state("engine.service") == "active"
    (log,) = [entry for entry in found["health"] if entry["kind"] == "log"]
    assert (log["failed"], log["causes"]) == (True, [{"code": "no-runtime", "values": {}}])
    assert re.match(r"journalctl --unit=engine.service --since=@\d+$", log["evidence"])
    assert "hunter2" not in repr(found)
    assert node.states() == ["rolled_back"]
    assert node.originals() == {}


def test_a_handler_that_does_not_appear_is_taken_back_with_the_runtimes_own_word(node, systemd, runtime, monkeypatch):
    monkeypatch.setattr(health, "SETTLED", 0.1)  # how long a runtime that serves is given to change its answer
    systemd.add("engine.service")
    server = runtime(answer(status_message({}, ["runc"])))
    check = {"kind": "cri", "socket": server.path, "timeout": 60, "require": [{"handler": "nvidia"}]}
    found = node.run([node.write(node.config, "new\n")], units=RESTART, health=[check])
    assert found["rolled_back"]
    assert "it has no handler nvidia" in found["error"]["message"]
    assert [(entry["kind"], entry["ok"], entry.get("after")) for entry in found["health"]] == [
        ("cri", False, "change"),
        ("log", False, None),
        ("cri", True, "rollback"),
    ]
    assert node.config.read_text() == CONFIG


RELOAD = [{"name": "engine.service", "action": "reload", "timeout": 20}]
WANTED = [{"path": ["Runtimes", "b"], "equals": "/b"}, {"path": ["dirs"], "filled": True}]


def said(body, status="200 OK"):
    return ("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)).encode()


def over_http(runtime, *replies):
    server = runtime(*replies)
    server._request = lambda connection: connection.recv(65536)
    return {"kind": "http", "socket": server.path, "path": "/info", "timeout": 20, "require": WANTED}


def test_a_daemon_that_tells_its_state_over_http_is_waited_for(node, systemd, runtime):
    systemd.add("engine.service")
    states = said("", "503 Starting"), said("{"), said('{"Runtimes": {}, "dirs": []}'), said('{"Runtimes": {"b": "/b"}, "dirs": ["/d"]}')
    found = node.run([node.write(node.config, "new\n")], units=RELOAD, health=[over_http(runtime, *states)])
    assert (found["error"], found["health"][0]["ok"]) == (None, True)
    assert systemd.actions == ["reload engine.service"]


def test_what_was_only_reloaded_is_only_reloaded_on_the_way_back(node, systemd, runtime, monkeypatch):
    """A restart may end what the unit carries."""
    monkeypatch.setattr(health, "SETTLED", 0.1)
    systemd.add("engine.service")
    found = node.run([node.write(node.config, "new\n")], units=RELOAD, health=[over_http(runtime, said('{"Runtimes": {}, "dirs": []}'))])
    assert "it serves, but its Runtimes.b is None, not '/b'; its dirs is empty" in found["error"]["message"]
    assert found["rolled_back"]
    assert systemd.actions == ["reload engine.service", "reload engine.service"]
    assert node.config.read_text() == CONFIG


def test_what_a_reload_has_brought_down_is_started_again(node, systemd):
    systemd.add("engine.service")
    systemd.hook("engine.service", "reload", "false")
    assert node.run([node.write(node.config, "new\n")], units=RELOAD)["rolled_back"]
    assert systemd.actions == ["reload engine.service", "restart engine.service"]


def test_a_reload_leaves_a_restart_that_is_due_as_it_is(node, systemd):
    systemd.add("engine.service")
    due = os.path.join(node.journal, "pending.json")
    node.run([node.write(node.config, "new\n")], units=RELOAD, pending=["engine.service"])
    with open(due) as stream:
        assert list(json.load(stream)) == ["engine.service"]
    node.run([node.write(node.config, "newer\n")], units=RELOAD, id="2" * 32)
    assert os.path.exists(due)
    node.run([node.write(node.config, "newest\n")], units=RESTART, id="3" * 32)
    assert not os.path.exists(due)


def test_a_runtime_whose_cri_part_never_loads_is_told_as_that(node, systemd, runtime, monkeypatch):
    monkeypatch.setattr(health, "SETTLED", 0.1)
    systemd.add("engine.service")
    server = runtime(answer(None, "12", "unknown service"))
    check = {"kind": "cri", "socket": server.path, "timeout": 60}
    found = node.run([node.write(node.config, "new\n")], units=RESTART, health=[check])
    assert found["error"]["phase"] == "rollback"  # it does not serve with the old configuration either: said, not hidden
    assert "serves no CRI" in found["error"]["message"]
    assert node.config.read_text() == CONFIG


def test_what_cannot_be_taken_back_says_where_the_bytes_are(node, systemd):
    systemd.add("engine.service")
    systemd.hook("engine.service", "restart", "exit 1")
    found = node.run([node.write(node.config, "new\n")], units=RESTART)
    assert found["error"]["phase"] == "rollback"
    assert not found["rolled_back"]
    assert "while taking back" in found["error"]["message"]
    assert found["error"]["where"] == found["journal"]
    assert node.config.read_text() == CONFIG  # the files are back, the unit is what could not be helped


def test_disabled_units_stop_first_without_a_reload_and_come_back_with_the_rest(node, systemd):
    systemd.add("refresh.path")
    systemd.add("refresh.service", active="inactive", enabled="disabled")
    disable = ["refresh.path", "refresh.service", "missing.path"]
    found = node.run([node.write(node.config, "new\n")], disable=disable)
    assert found["disabled"] == ["refresh.path"]
    assert systemd.actions == ["--no-reload disable --now refresh.path"]
    assert (systemd.state("refresh.path"), systemd.state("refresh.path", "UnitFileState")) == ("inactive", "disabled")

    systemd.add("again.path")
    bad = [{"kind": "command", "argv": ["false"], "timeout": 0.1}]
    found = node.run([node.write(node.config, "other\n")], disable=["again.path"], health=bad, id="2" * 32)
    assert found["rolled_back"]
    assert (systemd.state("again.path"), systemd.state("again.path", "UnitFileState")) == ("active", "enabled")


def test_a_swap_that_fails_half_way_is_taken_back(node, monkeypatch):
    from ansible_collections.gpufleet.nvidia.plugins.module_utils import swap

    settle, calls = swap._settle, []

    def failing(root, real, spare):
        calls.append(real)
        if len(calls) == 2:
            raise OSError(28, "No space left on device", real)
        settle(root, real, spare)

    monkeypatch.setattr(swap, "_settle", failing)
    before = node.tree()
    found = node.run([node.write(node.config, "new\n"), node.write(node.dropin, "a\n")])
    assert found["error"]["phase"] == "swap"
    assert "No space left on device" in found["error"]["message"]
    assert found["rolled_back"]
    assert node.tree() == before


# --- another root -----------------------------------------------------------------------------------------------------


def test_beneath_another_root_files_are_written_and_nothing_is_run(node, systemd):
    root = node.directory / "image"
    (root / "etc" / "real").mkdir(parents=True)
    (root / "etc" / "engine").symlink_to("/etc/real")  # absolute, and meant inside the root
    systemd.add("engine.service")
    request = {
        "root": str(root),
        "journal_dir": "/var/lib/gpufleet",
        "commands_before": [{"argv": ["touch", str(node.directory / "ran")]}],
        "validate": [{"argv": ["false"]}],
        "units": [dict(RESTART[0], always=True)],
        "disable": ["engine.service"],
        "health": [{"kind": "command", "argv": ["false"]}],
        "expect": {"units": {"engine.service": "other"}, "packages": {"x": "1"}},
    }
    found = node.run([node.write("/etc/engine/config.toml", "a\n")], **request)
    assert found["error"] is None
    assert found["written"] == ["/etc/engine/config.toml"]
    assert (root / "etc" / "real" / "config.toml").read_text() == "a\n"
    assert found["journal"].startswith("/var/lib/gpufleet/journal/")
    assert (root / "var" / "lib" / "gpufleet" / "journal").is_dir()
    assert not (node.directory / "ran").exists()
    assert systemd.actions == []
    found = node.run([restore("/etc/engine/config.toml")], root=str(root), journal_dir="/var/lib/gpufleet", id="2" * 32)
    assert found["removed"] == ["/etc/engine/config.toml"]
    assert not (root / "etc" / "real" / "config.toml").exists()


def test_a_closed_connection_does_not_stop_it(node):
    """SIGHUP, SIGINT and SIGTERM between swap and commit: it goes on to the end."""
    program = """
import os, signal, sys
from ansible_collections.gpufleet.nvidia.plugins.module_utils import transaction, swap
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
    assert subprocess.call([sys.executable, "-c", program, str(node.config), node.journal], env=env) == 0
    assert node.config.read_text() == "new\n"
    assert node.states() == ["committed"]
