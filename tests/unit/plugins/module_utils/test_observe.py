# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The eyes: each kind of question, and that no question takes the others with it."""

import hashlib
import json
import os
import re
import sys
import tempfile

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils import commands, keyed, look_system, nodefs, observe, trust

from .conftest import answer, sha, status_message, wire_version


def ask(root="/", limits=None, **question):
    question = dict({"keep": {"format": "whole"}} if question.get("kind") in ("file", "glob") else {}, **question)
    request = {"schema": 1, "root": str(root), "limits": limits, "questions": [dict(question, id="q")]}
    return observe.run(request)["answers"]["q"]


def tree(directory, **files):
    """Files by path, "__" for "/"; a value that begins with "->" is a link."""
    for name, text in files.items():
        path = directory.joinpath(*name.split("__"))
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("->"):
            path.symlink_to(text[2:])
        else:
            path.write_text(text)
    return directory


# --- files ----------------------------------------------------------------------------------------------------------------


def test_a_file(tmp_path):
    path = tmp_path / "a.conf"
    path.write_text("x = 1\n")
    path.chmod(0o640)
    found = ask(kind="file", path=str(path))
    assert found["exists"]
    assert (found["type"], found["mode"], found["size"], found["nlink"], found["rdev"]) == ("file", 0o640, 6, 1, None)
    assert (found["content"], found["encoding"], found["sha256"]) == ("x = 1\n", "utf-8", keyed.digest(sha("x = 1\n")))
    assert (found["real"], found["links"]) == (str(path), [])
    assert found["uid"] == os.getuid()


def test_without_content(tmp_path):
    (tmp_path / "a").write_text("x")
    found = ask(kind="file", path=str(tmp_path / "a"), content=False)
    assert (found["content"], found["sha256"]) == (None, keyed.digest(sha("x")))


def test_not_there():
    assert ask(kind="file", path="/no/such/file") == {"exists": False}
    assert ask(kind="file", path="/etc/passwd/below/a/file") == {"exists": False}


KEEP = {"format": "toml", "places": [[["a"], "int"], [["path"], "path"]]}


@pytest.mark.parametrize(
    "data, shown, more",
    [
        (b'a = 1\npassword = "hunter2"\n', 'a = 1\nxxxxxxxx = "       "\n', {}),
        (b"a = 1 # \xff\n", "a = 1 #xx\n", {"foreign_bytes": 1}),
        (b'a = 1\npassword = "hunter2\n', None, {"fault": {"code": "toml-string", "line": 2}}),
        (b"\xff\xfea\x00", None, {"fault": {"code": "utf-16", "line": 1}, "foreign_bytes": 1}),
    ],
)
def test_what_is_not_listed_does_not_leave(tmp_path, data, shown, more):
    (tmp_path / "a").write_bytes(data)
    found = ask(kind="file", path=str(tmp_path / "a"), keep=KEEP)
    assert found["content"] == shown
    told = {key: found[key] for key in ("fault", "foreign_bytes", "withheld")}
    assert told == dict({"fault": None, "foreign_bytes": None, "withheld": []}, **more)
    assert found["sha256"] not in (None, hashlib.sha256(data).hexdigest())


def test_equal_hidden_values_share_a_tag_and_others_do_not(tmp_path):
    texts = ['path = "a b"', 'path = "a\\u0020b" # x', 'path = "b a"']
    for number, text in enumerate(texts):
        (tmp_path / str(number)).write_text(text)
    tags = [ask(kind="file", path=str(tmp_path / str(n)), keep=KEEP)["withheld"][0]["tag"] for n in range(3)]
    assert tags[0] == tags[1] != tags[2]


def test_content_without_a_list_does_not_leave(tmp_path):
    (tmp_path / "a").write_text("secret")
    found = ask(kind="file", path=str(tmp_path / "a"), keep=None)
    assert found["error"]["kind"] == "bad-question"
    assert "secret" not in json.dumps(found)


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "a").write_bytes(b"\xff\xfepassword=x")
    found = ask(kind="file", path=str(tmp_path / "a"))
    assert (found["content"], found["encoding"]) == ("//5wYXNzd29yZD14", "base64")


def test_a_file_larger_than_asked_for_has_everything_but_content(tmp_path):
    (tmp_path / "a").write_text("x" * 100)
    found = ask(kind="file", path=str(tmp_path / "a"), max=99)
    assert found["error"]["kind"] == "too-large"
    assert (found["size"], found["content"], found["sha256"]) == (100, None, None)


def test_procfs_files_have_no_size_and_are_read_all_the_same():
    assert "btime" in ask(kind="file", path="/proc/stat", max=1 << 22)["content"]


def test_a_fifo_does_not_hang(tmp_path):
    os.mkfifo(str(tmp_path / "fifo"))
    found = ask(kind="file", path=str(tmp_path / "fifo"))
    assert (found["type"], found["content"]) == ("fifo", None)


def test_a_device_node():
    found = ask(kind="file", path="/dev/null")
    assert (found["type"], found["rdev"]) == ("char", [1, 3])


def test_links_are_followed_and_told(tmp_path):
    tree(tmp_path, real="x", mid="->real", top="->%s/mid" % tmp_path)
    found = ask(kind="file", path=str(tmp_path / "top"))
    assert (found["type"], found["real"], found["content"]) == ("file", str(tmp_path / "real"), "x")
    assert found["links"] == [str(tmp_path / "top"), str(tmp_path / "mid")]


def test_a_dangling_link(tmp_path):
    tree(tmp_path, top="->/nowhere/at/all")
    found = ask(kind="file", path=str(tmp_path / "top"))
    assert (found["exists"], found["type"], found["real"], found["content"]) == (True, "link", None, None)


def test_a_loop_of_links(tmp_path):
    tree(tmp_path, a="->b", b="->a")
    assert "symbolic links" in ask(kind="file", path=str(tmp_path / "a"))["error"]["message"]


@pytest.mark.parametrize("link", ["->/etc/real", "->real", "->../../../../etc/real", "->../etc/../etc/real"])
def test_beneath_a_root_links_stay_inside(tmp_path, link):
    root = tree(tmp_path, etc__real="inside", etc__link=link)
    found = ask(root=root, kind="file", path="/etc/link")
    assert (found["content"], found["real"], found["links"]) == ("inside", "/etc/real", ["/etc/link"])


def test_beneath_a_root_owners_are_those_of_its_own_files(tmp_path):
    tree(tmp_path, etc__passwd="keeper:x:%d:0::/:/bin/sh\n" % os.getuid(), etc__group="keepers:x:%d:\n" % os.getgid())
    found = ask(root=tmp_path, kind="file", path="/etc/passwd")
    assert (found["owner"], found["group"]) == ("keeper", "keepers")


@pytest.mark.parametrize("kind", ["command", "units", "processes", "cri", "http", "probe"])
def test_beneath_a_root_nothing_is_asked_of_the_running_host(tmp_path, kind):
    assert ask(root=tmp_path, kind=kind)["error"]["kind"] == "offline"


# --- directories, patterns ------------------------------------------------------------------------------------------------


def test_a_directory(tmp_path):
    tree(tmp_path, b="xy", a__inner="", c="->b")
    found = ask(kind="dir", path=str(tmp_path))
    shape = [(entry["name"], entry["type"], entry["target"]) for entry in found["entries"]]
    assert shape == [("a", "dir", None), ("b", "file", None), ("c", "link", "b")]
    assert found["entries"][1]["size"] == 2
    assert ask(kind="dir", path=str(tmp_path / "no"))["exists"] is False
    assert "not a directory" in ask(kind="dir", path=str(tmp_path / "b"))["error"]["message"]


@pytest.mark.parametrize(
    "pattern, paths",
    [
        ("/d/*.toml", ["/d/.hidden.toml", "/d/10-a.toml", "/d/9-b.toml"]),  # as Go: byte order, dot files too
        ("/d/?-b.toml", ["/d/9-b.toml"]),
        ("/*/10-a.toml", ["/d/10-a.toml", "/e/10-a.toml"]),
        ("/d/10-a.toml", ["/d/10-a.toml"]),
        ("/d/[0-9]-b.toml", []),
        ("/no/*", []),
        ("/d/a.toml/*", []),
    ],
)
def test_patterns(tmp_path, pattern, paths):
    root = tree(tmp_path, **{"d__10-a.toml": "a", "d__9-b.toml": "b", "d__.hidden.toml": "", "d__c.toml~": "", "e__10-a.toml": ""})
    assert [entry["path"] for entry in ask(root=root, kind="glob", pattern=pattern)["files"]] == paths


def test_many_patterns_are_listed_and_not_read(tmp_path):
    root = tree(tmp_path, usr__lib__a_so_1="->a_so_1_2", usr__lib__a_so_1_2="x", usr__lib__b="->/no", lib="->usr/lib")
    patterns = ["/lib/a*", "/usr/lib/*", "/no/*", "/usr/lib/a_so_1"]
    assert ask(root=root, kind="paths", patterns=patterns)["files"] == [
        {"path": "/lib/a_so_1", "spot": "/usr/lib/a_so_1", "real": "/usr/lib/a_so_1_2", "type": "file", "mode": 0o644},
        {"path": "/lib/a_so_1_2", "spot": "/usr/lib/a_so_1_2", "real": "/usr/lib/a_so_1_2", "type": "file", "mode": 0o644},
        {"path": "/usr/lib/b", "real": None, "type": "link", "mode": 0o777},
    ]


def test_links_of_a_tree_within_are_followed_inside_it(tmp_path):
    root = tree(tmp_path, run__driver__etc__alt="->/usr/x", run__driver__usr__x="", run__driver__lib__x="->/etc/alt")
    for place in ({"root": root, "base": "/run/driver"}, {"base": "%s/run/driver" % root}):
        found = ask(kind="paths", patterns=["/lib/*"], **place)["files"]
        assert [(entry["path"], entry["real"]) for entry in found] == [("/lib/x", "/usr/x")]


def test_a_link_that_leads_to_itself_hides_no_other_file(tmp_path):
    tree(tmp_path, good="x", loop="->loop", gone="->nowhere")
    found = {os.path.basename(entry["path"]): entry for entry in ask(kind="glob", pattern=str(tmp_path / "*"))["files"]}
    assert found["good"]["content"] == "x"
    assert "a loop" in found["loop"]["error"]["message"]
    assert found["gone"]["type"] == "link"


def test_pattern_with_contents(tmp_path):
    tree(tmp_path, **{"a.toml": "password=1", "b.toml": "a=2"})
    found = ask(kind="glob", pattern=str(tmp_path / "*.toml"), keep={"format": "toml", "places": [[["a"], "int"]]})["files"]
    assert [entry["content"] for entry in found] == ["xxxxxxxx=1", "a=2"]


def test_what_files_mention(tmp_path):
    """Paths that some file names, with what is there: nobody could ask for them by name before having read the file."""
    there, link = tmp_path / "there", tmp_path / "link"
    there.write_text("x")
    link.symlink_to(there)
    json_text = '{"path":"%s/gone","hostPath":"%s"}' % (tmp_path, link)
    tree(tmp_path, d__a="path: %s\nhostPath: /dev/null\nother: /etc\n" % there, d__b=json_text)
    (tmp_path / "d" / "folder").mkdir()
    found = ask(kind="mentioned", pattern=str(tmp_path / "d" / "*"), find=[r"""(?:\bpath|hostPath)["']?\s*:\s*["']?(/[^"'\s,}]+)"""])
    assert found["paths"] == {
        str(there): {"type": "file", "rdev": None, "link": False},
        str(link): {"type": "file", "rdev": None, "link": True},
        "/dev/null": {"type": "char", "rdev": [1, 3], "link": False},
        str(tmp_path / "gone"): None,
    }


@pytest.mark.parametrize("find", ["(", "no group"])
def test_a_mention_needs_a_pattern_with_a_group(tmp_path, find):
    found = ask(kind="mentioned", pattern=str(tree(tmp_path, a="no group") / "*"), find=[find])
    assert found["error"]["kind"] == "bad-question"


def test_which(tmp_path):
    root = tree(tmp_path, usr__bin__tool="", usr__sbin__tool="", usr__bin__plain="", usr__bin__link="->/usr/sbin/tool")
    (tmp_path / "usr" / "sbin" / "tool").chmod(0o755)
    answer = ask(root=root, kind="which", names=["tool", "plain", "link", "none"])
    assert answer["found"] == {"tool": "/usr/sbin/tool", "plain": None, "link": "/usr/bin/link", "none": None}
    seen = answer["programs"]
    assert set(seen) == {"/usr/sbin/tool", "/usr/bin/link"}
    assert seen["/usr/sbin/tool"] == seen["/usr/bin/link"], "a link stands for the program that it leads to"


def test_a_program_that_was_replaced_is_another_one(tmp_path):
    def seen():
        return ask(root=root, kind="which", names=["tool"])["programs"]["/usr/sbin/tool"]

    root = tree(tmp_path, usr__sbin__tool="a")
    program = tmp_path / "usr" / "sbin" / "tool"
    program.chmod(0o755)
    first = seen()
    assert seen() == first
    other = tmp_path / "other"
    other.write_text("b")
    other.chmod(0o755)
    other.rename(program)
    assert seen() != first


# --- commands and probes --------------------------------------------------------------------------------------------------


def test_a_command():
    found = ask(kind="command", argv=["sh", "-c", "cat; echo $LC_ALL; echo oops >&2; exit 3"], shows=[".+"])
    assert (found["rc"], found["stdout"], found["stderr"], found["timed_out"]) == (3, "C\n", "oops\n", False)


def test_what_a_command_reads_takes_no_room_on_any_disk(monkeypatch):
    """A look writes nothing. On a full disk a probe was told as a program that is not there."""
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null/no/room")
    text = b"x" * 300000 + b"end\n"
    found = commands.run(["cat"], stdin=text)
    assert (found["rc"], found["stdout"]) == (0, text)
    assert ask(kind="probe", source="print(17)", args=None) == {"value": 17}


@pytest.mark.parametrize("argv, rc", [(["true"], 0), (["sh", "-c", "exec <&-; exit 3"], 3), (["head", "-c", "1"], 0)])
def test_a_command_that_does_not_read_what_it_is_given_is_no_failure(argv, rc):
    found = commands.run(argv, stdin=b"y" * 300000)
    assert (found["rc"], found["timed_out"]) == (rc, False)


def test_a_command_gets_no_shell():
    assert ask(kind="command", argv=["echo", "$HOME;`id`"], shows=[".+"])["stdout"] == "$HOME;`id`\n"


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
    found = ask(kind="command", argv=["sh", "-c", "exec 3> %s; sleep 600 & wait" % fifo], timeout=0.5)
    assert (found["rc"], found["timed_out"]) == (None, True)
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # returns when the last process that holds the other end is gone
    os.close(reader)


def test_a_child_that_stays_behind_does_not_hold_the_look(tmp_path):
    pidfile = tmp_path / "pid"
    found = commands.run(["sh", "-c", "echo hi; sleep 600 & echo $! > %s" % pidfile], timeout=60)
    assert (found["rc"], found["stdout"], found["timed_out"]) == (0, b"hi\n", False)
    os.kill(int(pidfile.read_text()), 9)


def test_too_much_output_and_no_program():
    assert ask(kind="command", argv=["head", "-c", "1000", "/dev/zero"], max=999)["error"]["kind"] == "too-large"
    assert ask(kind="command", argv=["/no/such/program"])["error"]["kind"] == "not-found"
    assert ask(kind="command", argv="ls")["error"]["kind"] == "bad-question"


def test_a_probe():
    source = "import json, sys\nprint(json.dumps({'got': json.loads(sys.argv[1]), 'isolated': sys.flags.isolated}))"
    assert ask(kind="probe", source=source, args={"a": [1]}) == {"value": {"got": {"a": [1]}, "isolated": 1}}


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
    return ask(pattern=str(tmp_path / "cdi/*"), names=[".json", ".yaml"], inside=[str(tmp_path / "cdi"), str(tmp_path / "run")], **question)


def test_of_a_directory_only_named_files_are_read_and_no_link_leads_out_of_it(tmp_path):
    found = {os.path.basename(file["path"]): file for file in of_specs(tmp_path, kind="glob")["files"]}
    read = {name: file["content"] for name, file in found.items() if file["content"] is not None}
    assert read == {"a.yaml": "path: /one", "b.json": "path: /two", "here.yaml": "path: /one", "other.yaml": "path: /three"}
    assert {name: file["error"]["kind"] for name, file in found.items() if "error" in file} == {"out.yaml": "outside", "in.yaml": "outside"}
    assert found["out.yaml"]["error"]["message"].endswith("is a link to %s, outside of %s, and is not read" % (
        tmp_path / "shadow", "%s and %s" % (tmp_path / "cdi", tmp_path / "run")))  # fmt: skip
    assert (found["out.yaml"]["sha256"], found["out.yaml"]["real"]) == (None, str(tmp_path / "shadow"))
    types = {name: found[name]["type"] for name in ("notes.txt", "c.yml", "d.yaml.rpmsave", "gone.yaml", "dir.yaml")}
    assert types == {"notes.txt": "file", "c.yml": "file", "d.yaml.rpmsave": "file", "gone.yaml": "link", "dir.yaml": "dir"}


def test_what_such_files_point_at_is_asked_of_no_others(tmp_path):
    assert set(of_specs(tmp_path, kind="mentioned", find=["path: (.*)"])["paths"]) == {"/one", "/two", "/three"}


# --- packages, units, processes -------------------------------------------------------------------------------------------

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
    found = ask(root=tmp_path, kind="package", names=["containerd", "removed", "lib", "none", "hidden"], candidates=True)
    assert found["manager"] == "dpkg"
    assert found["installed"] == {"containerd": "1.7.24~ds1-6", "removed": None, "lib": "1:2.0", "none": None, "hidden": None}


def test_packages_of_rpm(monkeypatch, systemd):
    monkeypatch.setattr(look_system.os.path, "exists", lambda path: False)
    monkeypatch.setattr(look_system.os.path, "isdir", lambda path: path == "/var/lib/rpm")
    path = systemd.bin / "rpm"
    path.write_text("#!/bin/sh\necho 'containerd.io 1:1.7.2-1.el8'\necho 'package none is not installed'\nexit 1\n")
    path.chmod(0o755)
    found = look_system.packages("", ["containerd.io", "none"])
    assert found == {"manager": "rpm", "installed": {"containerd.io": "1:1.7.2-1.el8", "none": None}, "candidates": {}}


def test_no_package_manager(tmp_path):
    assert ask(root=tmp_path, kind="package", names=["x"]) == {"manager": "none", "installed": {"x": None}, "candidates": {}}


def test_candidates_of_apt(systemd):
    path = systemd.bin / "apt-cache"
    path.write_text(
        "#!/bin/sh\nprintf 'a:\\n  Installed: 1\\n  Candidate: 2\\n  Version table:\\n     2 500\\nb:\\n  Candidate: (none)\\n'\n"
    )
    path.chmod(0o755)
    assert look_system._offered_by_apt(["a", "b", "c"]) == {"candidates": {"a": "2", "b": None, "c": None}}


def test_an_apt_that_fails_offers_no_less_than_is_known(systemd):
    path = systemd.bin / "apt-cache"
    path.write_text("#!/bin/sh\necho 'E: The list of sources could not be read.' >&2\nexit 100\n")
    path.chmod(0o755)
    assert look_system._offered_by_apt(["a"]) == {"candidates_error": "apt-cache policy ended with exit status 100"}


def test_units(systemd):
    systemd.add("engine.service", invocation="abc")
    units = ask(kind="units", names=["engine.service", "none.service"])["units"]
    assert (units["engine.service"]["ActiveState"], units["engine.service"]["InvocationID"]) == ("active", "abc")
    assert units["none.service"]["LoadState"] == "not-found"
    assert len(systemd.log_file.read_text().splitlines()) == 1


def own_process(**more):
    found = ask(kind="processes", names=["python[0-9.]*", os.path.basename(sys.executable)], **more)["processes"]
    own = [process for process in found if process["pid"] == os.getpid()]
    assert len(own) == 1
    return own


def test_processes(monkeypatch):
    own = own_process(environment={"PATH": "name"})
    assert "verified" not in own[0], "no service manager has started a test"
    assert own[0]["unverified"] in trust.PROCESS_ROWS
    assert own[0]["argv"] == []
    assert "environment" not in own[0]
    monkeypatch.setattr(trust.Judge, "doubt", lambda self, found: None)
    own = own_process(environment={"PATH": "name"})
    assert own[0]["verified"] is True
    assert own[0]["ppid"] == os.getppid()
    assert own[0]["exe"] == os.path.realpath(sys.executable)
    assert not own[0]["deleted"]
    assert set(own[0]["argv"][1:]) <= {"(hidden)", "-(hidden)", "-(hidden)=(hidden)"}
    assert own[0]["environment"] == {"PATH": "(hidden)"}
    assert own[0]["ticks"] == look_system.started(os.getpid())
    assert 0 < own[0]["start"] <= os.stat("/proc/self").st_mtime + 86400
    assert ask(kind="processes", names=["pytho"])["processes"] == []  # the whole name, or none


def test_candidates_of_what_is_missing_only(monkeypatch):
    monkeypatch.setattr(look_system, "_dpkg", lambda root, names: {"have": "1", "none": None})
    monkeypatch.setattr(look_system, "_apt_candidates", lambda names: {name: "9" for name in names})
    monkeypatch.setattr(look_system.os.path, "exists", lambda path: True)
    assert look_system.packages("", ["have", "none"], "missing")["candidates"] == {"none": "9"}
    assert look_system.packages("", ["have", "none"], True)["candidates"] == {"have": "9", "none": "9"}
    assert look_system.packages("", ["have"], False)["candidates"] == {}


# --- sockets --------------------------------------------------------------------------------------------------------------


def test_cri(runtime):
    keep = [[["config", "registry", "on"], "bool"]]
    found = ask(kind="cri", socket=runtime(answer(status_message({"registry": {"note": "s3cret", "on": True}}))).path, keep=keep)
    assert found["info"] == {"config": {"registry": {"on": True}}}
    assert ask(kind="cri", socket=runtime(answer(status_message({"a": "b"}))).path)["info"] == {}
    found = ask(kind="cri", method="Version", socket=runtime(answer(wire_version("containerd", "v2.3.4"))).path)
    assert (found["runtime_name"], found["runtime_version"]) == ("containerd", "v2.3.4")
    assert ask(kind="cri", method="ListContainers", socket=runtime(answer(b"\x0a\x00")).path)["error"]["kind"] == "bad-question"


@pytest.mark.parametrize("reply, kind", [(answer(None, "12", "unknown service"), "failed"), (None, "timeout")])
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
    assert ask(kind="cri", method="RuntimeConfig", socket=runtime(answer(None, "13", "broken")).path)["error"]["kind"] == "failed"


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
    """In a container without privileges /proc belongs to nobody that it knows, and is the kernel's all the same."""
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
    monkeypatch.setattr(trust, "path", lambda *_args: pytest.fail("judged"))
    assert ask(kind="file", path="/proc/uptime", max=4096)["content"]


@pytest.mark.parametrize("kind", [{"kind": "command", "argv": ["echo", "ran"]}, {"kind": "probe", "source": "print(1)"}])
def test_what_loads_a_file_of_somebody_else_is_not_started(tmp_path, kind):
    library = tmp_path / "lib.so"
    library.write_text("")
    assert "error" not in ask(loads=[str(library)], **kind)
    os.chown(str(library), 1001, 0)
    assert ask(loads=[str(library)], **kind)["error"]["kind"] == "untrusted"


# --- the look as a whole --------------------------------------------------------------------------------------------------


def test_no_question_takes_the_others_with_it(monkeypatch):
    def explode(root, question):
        raise RuntimeError("hunter2")

    monkeypatch.setitem(observe._KINDS, "which", explode)
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
    assert [answers[str(number)]["error"]["kind"] for number in range(1, 7)] == ["bad-question"] * 4 + ["failed", "bad-question"]
    assert re.match(r"RuntimeError at test_observe.py:\d+; this is a fault", answers["5"]["error"]["message"])
    assert answers["7"]["exists"]


def test_the_whole_answer_is_bounded_in_size(tmp_path):
    (tmp_path / "a").write_text("x" * 5000)
    question = {"kind": "file", "path": str(tmp_path / "a"), "keep": {"format": "whole"}}
    questions = [dict(question, id="1"), dict(question, id="2"), {"id": "3", "kind": "file", "path": "/none"}]
    answers = observe.run({"schema": 1, "root": "/", "limits": {"bytes": 8000}, "questions": questions})["answers"]
    assert answers["1"]["size"] == 5000
    assert answers["2"]["error"]["kind"] == "too-large"
    assert answers["3"] == {"exists": False}


def test_the_whole_look_is_bounded_in_time(tmp_path):
    (tmp_path / "a").write_text("a" * 40 + "b")
    slow = {"id": "1", "kind": "mentioned", "pattern": str(tmp_path / "a"), "find": ["(a+)+$"]}  # takes for ever, in one call of re
    answers = observe.run(
        {"schema": 1, "root": "/", "limits": {"seconds": 0.5}, "questions": [slow, {"id": "2", "kind": "dir", "path": "/"}]}
    )
    assert [answers["answers"][number]["error"]["kind"] for number in ("1", "2")] == ["timeout", "timeout"]


def test_the_host(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "os-release").write_text('# comment\nID=debian\nNAME="Debian GNU/Linux"\nBROKEN="x\n')
    host = observe.run({"schema": 1, "root": str(tmp_path), "questions": []})["host"]
    assert host["os_release"] == {"ID": "debian", "NAME": "Debian GNU/Linux", "BROKEN": '"x'}
    assert host["python"] == list(sys.version_info[:3])
    assert host["uid"] == os.getuid()
    assert host["boot_id"] == (nodefs.read_text("", "/proc/sys/kernel/random/boot_id") or "").strip()


def test_questions_for_units_take_one_call_of_systemctl(monkeypatch):
    calls = []

    def units(names, properties=None):
        calls.append(list(names))
        return {name: {"Id": name} for name in names}

    monkeypatch.setattr(look_system, "units", units)
    questions = [{"id": "1", "kind": "units", "names": ["a", "b"]}, {"id": "2", "kind": "units", "names": ["b", "c"]}]
    answers = observe.run({"schema": 1, "questions": questions})["answers"]
    assert {key: sorted(answer["units"]) for key, answer in answers.items()} == {"1": ["a", "b"], "2": ["b", "c"]}
    assert calls == [["a", "b", "c"]]


def test_a_wrong_question_for_units_leaves_the_others_alone(monkeypatch):
    monkeypatch.setattr(look_system, "units", lambda names, properties=None: {name: {} for name in names})
    questions = [{"id": "1", "kind": "units"}, {"id": "2", "kind": "units", "names": ["b"]}]
    answers = observe.run({"schema": 1, "questions": questions})["answers"]
    assert answers["1"]["error"]["kind"] == "bad-question"
    assert answers["2"] == {"units": {"b": {}}}


# --- bounded: never a part taken for the whole, never more memory than stated ------------------------------------------------


def test_files_of_a_pattern_that_are_too_much_together_are_an_error_before_they_are_all_read(tmp_path):
    for number in range(70):
        (tmp_path / ("%02d" % number)).write_bytes(b"#" * (255 * 1024))
    found = ask(kind="glob", pattern=str(tmp_path / "*"), max=256 * 1024)
    assert found["error"]["kind"] == "too-large"
    assert "these files together hold more than 16777216 bytes" in found["error"]["message"]


def test_a_directory_of_too_many_files_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(observe.nodefs, "MAX_ENTRIES", 3)
    tree(tmp_path, a="", b="", c="")
    assert len(ask(kind="dir", path=str(tmp_path))["entries"]) == 3
    tree(tmp_path, d="")
    assert "holds more than 3 files" in ask(kind="dir", path=str(tmp_path))["error"]["message"]


def test_more_processes_than_a_host_has_are_an_error(monkeypatch):
    monkeypatch.setattr(observe.look_system, "MAX_PROCESSES", 0)
    found = ask(kind="processes", names=[".*"])
    assert found["error"]["kind"] == "too-large"
    assert "more than 0 processes are called .*" in found["error"]["message"]


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
def test_a_package_database_that_cannot_be_read_is_no_host_without_packages(tmp_path, monkeypatch, said, kind):
    rpm = tmp_path / "rpm"
    rpm.write_text(RPM % said)
    rpm.chmod(0o755)
    run = observe.look_system.commands.run
    monkeypatch.setattr(observe.look_system.commands, "run", lambda argv, **more: run([str(rpm)] + argv[1:], **more))
    if kind is None:
        assert observe.look_system._rpm(["containerd", "runc"]) == {"containerd": "1.7.24-1", "runc": None}
        return
    with pytest.raises(observe.nodefs.NodeError) as caught:
        observe.look_system._rpm(["containerd", "runc"])
    assert (caught.value.kind, "rpm -q says nothing of runc" in caught.value.message) == (kind, True)
