# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look: commands and probes, that no query takes the others with it, and its bounds."""

import os
import re
import signal
import sys
import tempfile

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
    observe,
    process_queries,
    question_kinds,
    system,
    trust,
)

from .conftest import ask, tree

# --- commands and probes
# --------------------------------------------------------------------------------------------------


def test_a_command():
    found = ask(
        kind="command", argv=["sh", "-c", "cat; echo $LC_ALL; echo oops >&2; exit 3"], shows=[".+"]
    )
    assert (found["rc"], found["stdout"], found["stderr"], found["timed_out"]) == (
        3,
        "C\n",
        "oops\n",
        False,
    )


def test_what_a_command_reads_takes_no_room_on_any_disk(monkeypatch):
    """A look writes nothing. On a full disk a probe was told as a program that is not there."""
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null/no/room")
    text = b"x" * 300000 + b"end\n"
    found = commands.run(["cat"], stdin=text)
    assert (found["rc"], found["stdout"]) == (0, text)
    assert ask(kind="probe", source="print(17)", args=None) == {"value": 17}


@pytest.mark.parametrize(
    "argv, rc", [(["true"], 0), (["sh", "-c", "exec <&-; exit 3"], 3), (["head", "-c", "1"], 0)]
)
def test_a_command_that_does_not_read_what_it_is_given_is_no_failure(argv, rc):
    found = commands.run(argv, stdin=b"y" * 300000)
    assert (found["rc"], found["timed_out"]) == (rc, False)


def test_a_command_gets_no_shell():
    assert (
        ask(kind="command", argv=["echo", "$HOME;`id`"], shows=[".+"])["stdout"] == "$HOME;`id`\n"
    )


@pytest.mark.parametrize(
    "shows, stdout, stderr",
    [
        ([], "", ""),
        ([r"^engine version v?[0-9.]+"], "engine version 1.7.24\n", ""),
        (["gpu", "oo.s", r"version [0-9.]+"], "version 1.7.24\n", "oops\n"),
    ],
)
def test_of_what_a_command_prints_only_what_is_asked_for_leaves_the_host(shows, stdout, stderr):
    script = "echo engine version 1.7.24 token=x; echo password=x; echo oops https://u:p@h >&2"
    found = ask(kind="command", argv=["sh", "-c", script], shows=shows)
    assert (found["stdout"], found["stderr"]) == (stdout, stderr)


def test_a_command_is_killed_with_its_children_at_the_limit(tmp_path):
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    found = ask(
        kind="command", argv=["sh", "-c", "exec 3> %s; sleep 600 & wait" % fifo], timeout=0.5
    )
    assert (found["rc"], found["timed_out"]) == (None, True)
    os.set_blocking(reader, True)
    # returns when the last process that holds the other end is gone
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_a_child_that_stays_behind_does_not_hold_the_look(tmp_path):
    pidfile = tmp_path / "pid"
    found = commands.run(["sh", "-c", "echo hi; sleep 600 & echo $! > %s" % pidfile], timeout=60)
    assert (found["rc"], found["stdout"], found["timed_out"]) == (0, b"hi\n", False)
    os.kill(int(pidfile.read_text()), 9)


def test_too_much_output_and_no_program():
    assert (
        ask(kind="command", argv=["head", "-c", "1000", "/dev/zero"], max=999)["error"]["kind"]
        == "too-large"
    )
    assert ask(kind="command", argv=["/no/such/program"])["error"]["kind"] == "not-found"
    assert ask(kind="command", argv="ls")["error"]["kind"] == "bad-question"


def test_a_probe():
    source = "import json, sys\nprint(json.dumps({'got': json.loads(sys.argv[1]), 'isolated': sys.flags.isolated}))"
    assert ask(kind="probe", source=source, args={"a": [1]}) == {
        "value": {"got": {"a": [1]}, "isolated": 1}
    }


@pytest.mark.parametrize(
    "source, timeout, kind, said",
    [
        ("import time; time.sleep(600)", 0.3, "timeout", "no answer within 0.3 s"),
        ("import os; os.abort()", 20, "failed", "exit status -6"),
        ("raise OSError('libx.so: not found')", 20, "failed", "libx.so: not found"),
        ("print('no json')", 20, "failed", "it printed no JSON"),
    ],
)
def test_probes_that_fail(source, timeout, kind, said):
    error = ask(kind="probe", source=source, timeout=timeout)["error"]
    assert error["kind"] == kind
    assert said in error["message"]


SPECS = {
    "cdi__a.yaml": "path: /one", "cdi__b.json": "path: /two", "cdi__notes.txt": "path: /secret", "cdi__c.yml": "path: /secret",
    "cdi__d.yaml.rpmsave": "path: /secret", "cdi__here.yaml": "->a.yaml", "cdi__other.yaml": "->../run/x.yaml",
    "run__x.yaml": "path: /three",
    "cdi__out.yaml": "->../shadow", "cdi__in.yaml": "->../cdi-not/x.yaml", "cdi-not__x.yaml": "path: /secret", "shadow": "path: /secret",
    "cdi__gone.yaml": "->../gone", "cdi__dir.yaml": "->../run",
}  # fmt: skip


def of_specs(tmp_path, **question):
    tree(tmp_path, **SPECS)
    return ask(
        pattern=str(tmp_path / "cdi/*"),
        names=[".json", ".yaml"],
        inside=[str(tmp_path / "cdi"), str(tmp_path / "run")],
        **question,
    )


def test_of_a_directory_only_named_files_are_read_and_no_link_leads_out_of_it(tmp_path):
    found = {
        os.path.basename(file["path"]): file for file in of_specs(tmp_path, kind="glob")["files"]
    }
    read = {name: file["content"] for name, file in found.items() if file["content"] is not None}
    assert read == {
        "a.yaml": "path: /one",
        "b.json": "path: /two",
        "here.yaml": "path: /one",
        "other.yaml": "path: /three",
    }
    assert {name: file["error"]["kind"] for name, file in found.items() if "error" in file} == {
        "out.yaml": "outside",
        "in.yaml": "outside",
    }
    assert found["out.yaml"]["error"]["message"].endswith("is a link to %s, outside of %s, and is not read" % (
        tmp_path / "shadow", "%s and %s" % (tmp_path / "cdi", tmp_path / "run")))  # fmt: skip
    assert (found["out.yaml"]["sha256"], found["out.yaml"]["real"]) == (
        None,
        str(tmp_path / "shadow"),
    )
    types = {
        name: found[name]["type"]
        for name in ("notes.txt", "c.yml", "d.yaml.rpmsave", "gone.yaml", "dir.yaml")
    }
    assert types == {
        "notes.txt": "file",
        "c.yml": "file",
        "d.yaml.rpmsave": "file",
        "gone.yaml": "link",
        "dir.yaml": "dir",
    }


def test_what_such_files_point_at_is_asked_of_no_others(tmp_path):
    assert set(of_specs(tmp_path, kind="mentioned", find=["path: (.*)"])["paths"]) == {
        "/one",
        "/two",
        "/three",
    }


# --- the look as a whole
# --------------------------------------------------------------------------------------------------


def test_no_question_takes_the_others_with_it(monkeypatch):
    def explode(root, question):
        raise RuntimeError("hunter2")

    monkeypatch.setitem(question_kinds.KINDS, "which", explode)
    questions = [
        {"id": "1", "kind": "nonsense"},
        {"id": "2", "kind": "file"},
        {"id": "3", "kind": "file", "path": "relative"},
        {"id": "4", "kind": "file", "path": "/a\0b"},
        {"id": "5", "kind": "which", "names": []},
        {"id": "6", "kind": ["list"]},
        {"id": "7", "kind": "dir", "path": "/dev"},
    ]
    answers = observe.run({"schema": 1, "root": "/", "questions": questions})["answers"]
    assert [answers[str(number)]["error"]["kind"] for number in range(1, 7)] == [
        "bad-question"
    ] * 4 + ["failed", "bad-question"]
    assert re.match(
        r"RuntimeError at test_observe.py:\d+; this is a bug", answers["5"]["error"]["message"]
    )
    assert answers["7"]["exists"]


def test_the_whole_answer_is_bounded_in_size(tmp_path):
    (tmp_path / "a").write_text("x" * 5000)
    question = {"kind": "file", "path": str(tmp_path / "a"), "keep": {"format": "whole"}}
    questions = [
        dict(question, id="1"),
        dict(question, id="2"),
        {"id": "3", "kind": "file", "path": "/none"},
    ]
    answers = observe.run(
        {"schema": 1, "root": "/", "limits": {"bytes": 8000}, "questions": questions}
    )["answers"]
    assert answers["1"]["size"] == 5000
    assert answers["2"]["error"]["kind"] == "too-large"
    assert answers["3"] == {"exists": False}


def test_the_whole_look_is_bounded_in_time(tmp_path):
    (tmp_path / "a").write_text("a" * 40 + "b")
    # takes forever, in one call of re
    slow = {
        "id": "1",
        "kind": "mentioned",
        "pattern": str(tmp_path / "a"),
        "find": ["(a+)+$"],
    }
    answers = observe.run(
        {
            "schema": 1,
            "root": "/",
            "limits": {"seconds": 0.5},
            "questions": [slow, {"id": "2", "kind": "dir", "path": "/"}],
        }
    )
    assert [answers["answers"][number]["error"]["kind"] for number in ("1", "2")] == [
        "timeout",
        "timeout",
    ]


def test_the_host(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "os-release").write_text(
        '# comment\nID=debian\nNAME="Debian GNU/Linux"\nBROKEN="x\n'
    )
    host = observe.run({"schema": 1, "root": str(tmp_path), "questions": []})["host"]
    assert host["os_release"] == {"ID": "debian", "NAME": "Debian GNU/Linux", "BROKEN": '"x'}
    assert host["python"] == list(sys.version_info[:3])
    assert host["uid"] == os.getuid()
    assert (host["kernel"], host["hostname"], host["boot_id"]) == ("", "", ""), (
        "a tree has none of the machine on which it lies"
    )


def test_the_machine_itself():
    host, system = observe.run({"schema": 1, "root": "/", "questions": []})["host"], os.uname()
    assert (host["kernel"], host["hostname"]) == (system.release, system.nodename)
    assert (
        host["boot_id"]
        == (host_files.read_text("", "/proc/sys/kernel/random/boot_id") or "").strip()
    )


def test_questions_for_units_take_one_call_of_systemctl(monkeypatch):
    calls = []

    def units(names, properties=None):
        calls.append(list(names))
        return {name: {"Id": name} for name in names}

    monkeypatch.setattr(system, "list_units", units)
    questions = [
        {"id": "1", "kind": "units", "names": ["a", "b"]},
        {"id": "2", "kind": "units", "names": ["b", "c"]},
    ]
    answers = observe.run({"schema": 1, "questions": questions})["answers"]
    assert {key: sorted(answer["units"]) for key, answer in answers.items()} == {
        "1": ["a", "b"],
        "2": ["b", "c"],
    }
    assert calls == [["a", "b", "c"]]


def test_a_wrong_question_for_units_leaves_the_others_alone(monkeypatch):
    monkeypatch.setattr(
        system, "list_units", lambda names, properties=None: {name: {} for name in names}
    )
    questions = [{"id": "1", "kind": "units"}, {"id": "2", "kind": "units", "names": ["b"]}]
    answers = observe.run({"schema": 1, "questions": questions})["answers"]
    assert answers["1"]["error"]["kind"] == "bad-question"
    assert answers["2"]["units"] == {"b": {}}


# --- bounded: never a part taken for the whole, never more memory than stated
# ------------------------------------------------


def test_files_of_a_pattern_that_are_too_much_together_are_an_error_before_they_are_all_read(
    tmp_path,
):
    for number in range(70):
        (tmp_path / ("%02d" % number)).write_bytes(b"#" * (255 * 1024))
    found = ask(kind="glob", pattern=str(tmp_path / "*"), max=256 * 1024)
    assert found["error"]["kind"] == "too-large"
    assert "these files together hold more than 16777216 bytes" in found["error"]["message"]


def test_a_directory_of_too_many_files_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(observe.host_files, "MAX_ENTRIES", 3)
    tree(tmp_path, a="", b="", c="")
    assert len(ask(kind="dir", path=str(tmp_path))["entries"]) == 3
    tree(tmp_path, d="")
    assert "holds more than 3 files" in ask(kind="dir", path=str(tmp_path))["error"]["message"]


def test_more_processes_than_a_host_has_are_an_error(monkeypatch):
    monkeypatch.setattr(process_queries, "MAX_PROCESSES", 0)
    name = re.escape(trust.get_process_name(os.getpid()))
    found = ask(kind="processes", names=[name])
    assert found["error"]["kind"] == "too-large"
    assert "more than 0 processes are called %s" % name in found["error"]["message"]


RPM = """#!/bin/sh
for last; do :; done
echo "containerd 1.7.24-1"
%s
"""


@pytest.mark.parametrize(
    "said, kind",
    [
        ("echo 'package runc is not installed'; exit 1", None),
        ("echo 'error: cannot open Packages database in /var/lib/rpm' >&2; exit 1", "failed"),
        ("exit 0", "failed"),
    ],
    ids=["not installed", "a broken database", "no word of it"],
)
def test_a_package_database_that_cannot_be_read_is_no_host_without_packages(
    tmp_path, monkeypatch, said, kind
):
    rpm = tmp_path / "rpm"
    rpm.write_text(RPM % said)
    rpm.chmod(0o755)
    run = observe.system.commands.run
    monkeypatch.setattr(
        observe.system.commands, "run", lambda argv, **more: run([str(rpm)] + argv[1:], **more)
    )
    if kind is None:
        assert observe.system._list_rpm(["containerd", "runc"]) == {
            "containerd": "1.7.24-1",
            "runc": None,
        }
        return
    with pytest.raises(observe.host_files.HostError) as caught:
        observe.system._list_rpm(["containerd", "runc"])
    assert (caught.value.kind, "rpm -q says nothing of runc" in caught.value.message) == (
        kind,
        True,
    )


def test_a_list_of_what_may_travel_is_sent_once_and_named_by_its_number(tmp_path):
    (tmp_path / "a").write_text("x = 1\ny = 2\n")
    lists = [{"format": "toml", "places": [[["x"], "int"]]}, {"format": "whole"}]
    asked = [
        {"id": str(n), "kind": "file", "path": str(tmp_path / "a"), "keep": n}
        for n in (0, 1, 2, -1)
    ]
    asked.append(
        {
            "id": "o",
            "kind": "originals",
            "dir": str(tmp_path / "journal"),
            "keep": [{"ends": "", "keep": 0}],
        }
    )
    found = observe.run({"schema": 1, "root": "/", "questions": asked, "keeps": lists})["answers"]
    assert "x = 1" in found["0"]["content"]
    assert "y = 2" not in found["0"]["content"]
    assert found["1"]["content"] == "x = 1\ny = 2\n"
    assert [found[name]["error"]["kind"] for name in ("2", "-1")] == ["bad-question"] * 2, (
        "no list, no content"
    )
    assert found["o"]["originals"] == {}


# --- what not every host is asked
# --------------------------------------------------------------------------------------------------

GPUS = {"proc__gpus__a__information": "", "proc__gpus__b__information": ""}
NODES = {"dev__nvidia0": "", "dev__nvidia1": "", "dev__nvidiactl": ""}


@pytest.mark.parametrize(
    ("files", "asked"),
    [
        ({**GPUS, **NODES}, True),
        ({**GPUS, **NODES, "etc__record": ""}, False),
        ({**GPUS, "dev__nvidia0": "", "dev__nvidiactl": ""}, False),
        ({**GPUS, "dev__nvidia0": "", "dev__nvidia1": ""}, False),
        (NODES, False),
        ({}, False),
    ],
)
def test_a_question_with_a_condition(tmp_path, files, asked):
    where = {
        "absent": ["/etc/record", "/etc/cdi/*"],
        "present": ["/dev/nvidiactl", "/proc/gpus/*/information"],
        "each": ["/proc/gpus/*/information", "/dev/nvidia?"],
    }
    root = str(tree(tmp_path, **files))
    which = {"kind": "which", "names": ["sh"], "where": where}
    answers = observe.run({"root": root, "questions": [which, {"kind": "which", "names": []}]})[
        "answers"
    ]
    assert sorted(answers) == (["0", "1"] if asked else ["1"])


ALWAYS = {"absent": ["/no/such/file"], "present": ["/proc"], "each": ["/proc", "/proc"]}


@pytest.mark.parametrize(
    "question",
    [
        {"kind": "probe", "source": "raise SystemExit('no')", "args": None},
        {"kind": "probe", "source": "print(1)", "args": None, "where": {"absent": []}},
        {"kind": "probe", "source": "print(1)", "args": None, "where": 5},
    ],
)
def test_an_error_is_no_answer_where_a_question_can_be_asked_again(question):
    answers = observe.run({"questions": [{"where": ALWAYS, **question}]})["answers"]
    assert answers == {}


def test_an_answer_without_room_is_left_out_where_a_question_can_be_asked_again():
    """It is asked last, so it is the one for which there is no room."""
    printing = {"kind": "probe", "source": "print('\"%s\"' % ('y' * 300))", "args": None}
    for where, wanted in (({}, ["too-large"]), ({"where": ALWAYS}, [])):
        request = {"questions": [dict(printing, **where)], "limits": {"bytes": 200}}
        answers = observe.run(request)["answers"]
        assert [answer["error"]["kind"] for answer in answers.values()] == wanted


def test_a_condition_ends_with_the_time_of_the_look(tmp_path, monkeypatch):
    """A file system that hangs must not keep the answers that are there already."""
    tree(tmp_path, known="x")
    where = dict(ALWAYS, absent=["/hangs/*"])
    listed, met = observe.file_queries.list_glob_matches, []

    def hang(root, pattern):
        if pattern == "/hangs/*":
            os.kill(os.getpid(), signal.SIGALRM)  # the time is over
            met.append(pattern)
        return listed(root, pattern)

    monkeypatch.setattr(observe.file_queries, "list_glob_matches", hang)
    questions = [
        {"id": "hung", "kind": "which", "names": ["sh"], "where": where},
        {"id": "known", "kind": "dir", "path": str(tmp_path)},
    ]
    assert sorted(observe.run({"questions": questions})["answers"]) == ["known"]
    assert met == [], "it ended within the pattern"


@pytest.mark.parametrize(("seconds", "kinds"), [(60, ["timeout"]), (0.5, [])])
def test_a_question_that_had_all_of_its_own_time_is_not_asked_again(seconds, kinds):
    """A library that hangs took that time in each look. Questions that the look's end cut short had
    less.
    """
    slow = {"kind": "probe", "source": "import signal; signal.pause()", "args": None}
    slow.update(where=ALWAYS, timeout=1 if kinds else 30)
    answers = observe.run({"questions": [slow], "limits": {"seconds": seconds}})["answers"]
    assert [answer["error"]["kind"] for answer in answers.values()] == kinds
