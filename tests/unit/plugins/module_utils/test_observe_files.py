# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a look tells of files and directories, and that of their content only what is listed leaves
a host.
"""

import hashlib
import json
import os

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import keyed

from .conftest import ask, sha, tree

# --- files
# --------------------------------------------------------------------------------------------------


def test_a_file(tmp_path):
    path = tmp_path / "a.conf"
    path.write_text("x = 1\n")
    path.chmod(0o640)
    found = ask(kind="file", path=str(path))
    assert found["exists"]
    assert (found["type"], found["mode"], found["size"], found["nlink"], found["rdev"]) == (
        "file",
        0o640,
        6,
        1,
        None,
    )
    assert (found["content"], found["encoding"], found["sha256"]) == (
        "x = 1\n",
        "utf-8",
        keyed.digest_with_key(sha("x = 1\n")),
    )
    assert (found["real"], found["links"]) == (str(path), [])
    assert found["uid"] == os.getuid()


def test_without_content(tmp_path):
    (tmp_path / "a").write_text("x")
    found = ask(kind="file", path=str(tmp_path / "a"), content=False)
    assert (found["content"], found["sha256"]) == (None, keyed.digest_with_key(sha("x")))


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
    tags = [
        ask(kind="file", path=str(tmp_path / str(n)), keep=KEEP)["withheld"][0]["tag"]
        for n in range(3)
    ]
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
    assert (found["exists"], found["type"], found["real"], found["content"]) == (
        True,
        "link",
        None,
        None,
    )


def test_a_loop_of_links(tmp_path):
    tree(tmp_path, a="->b", b="->a")
    assert "symbolic links" in ask(kind="file", path=str(tmp_path / "a"))["error"]["message"]


@pytest.mark.parametrize(
    "link", ["->/etc/real", "->real", "->../../../../etc/real", "->../etc/../etc/real"]
)
def test_beneath_a_root_links_stay_inside(tmp_path, link):
    root = tree(tmp_path, etc__real="inside", etc__link=link)
    found = ask(root=root, kind="file", path="/etc/link")
    assert (found["content"], found["real"], found["links"]) == (
        "inside",
        "/etc/real",
        ["/etc/link"],
    )


def test_beneath_a_root_owners_are_those_of_its_own_files(tmp_path):
    tree(
        tmp_path,
        etc__passwd="keeper:x:%d:0::/:/bin/sh\n" % os.getuid(),
        etc__group="keepers:x:%d:\n" % os.getgid(),
    )
    found = ask(root=tmp_path, kind="file", path="/etc/passwd")
    assert (found["owner"], found["group"]) == ("keeper", "keepers")


@pytest.mark.parametrize("kind", ["command", "units", "processes", "cri", "http", "probe"])
def test_beneath_a_root_nothing_is_asked_of_the_running_host(tmp_path, kind):
    assert ask(root=tmp_path, kind=kind)["error"]["kind"] == "offline"


# --- directories, patterns
# ------------------------------------------------------------------------------------------------


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
        # as Go: byte order, dot files too
        (
            "/d/*.toml",
            ["/d/.hidden.toml", "/d/10-a.toml", "/d/9-b.toml"],
        ),
        ("/d/?-b.toml", ["/d/9-b.toml"]),
        ("/*/10-a.toml", ["/d/10-a.toml", "/e/10-a.toml"]),
        ("/d/10-a.toml", ["/d/10-a.toml"]),
        ("/d/[0-9]-b.toml", []),
        ("/no/*", []),
        ("/d/a.toml/*", []),
    ],
)
def test_patterns(tmp_path, pattern, paths):
    root = tree(
        tmp_path,
        **{
            "d__10-a.toml": "a",
            "d__9-b.toml": "b",
            "d__.hidden.toml": "",
            "d__c.toml~": "",
            "e__10-a.toml": "",
        },
    )
    assert [
        entry["path"] for entry in ask(root=root, kind="glob", pattern=pattern)["files"]
    ] == paths


def test_many_patterns_are_listed_and_not_read(tmp_path):
    root = tree(
        tmp_path,
        usr__lib__a_so_1="->a_so_1_2",
        usr__lib__a_so_1_2="x",
        usr__lib__b="->/no",
        lib="->usr/lib",
    )
    patterns = ["/lib/a*", "/usr/lib/*", "/no/*", "/usr/lib/a_so_1"]
    assert ask(root=root, kind="paths", patterns=patterns)["files"] == [
        {
            "path": "/lib/a_so_1",
            "spot": "/usr/lib/a_so_1",
            "real": "/usr/lib/a_so_1_2",
            "type": "file",
            "mode": 0o644,
        },
        {
            "path": "/lib/a_so_1_2",
            "spot": "/usr/lib/a_so_1_2",
            "real": "/usr/lib/a_so_1_2",
            "type": "file",
            "mode": 0o644,
        },
        {"path": "/usr/lib/b", "real": None, "type": "link", "mode": 0o777},
    ]


# Control groups as version 2 and version 1 have them: the files below one, and whether a process is
# in it or below.
GROUPS = {
    "version 2": ({"pod1/cgroup.events": "populated 1\nfrozen 0\n"}, True),
    "version 2, left behind": (
        {"pod1/cgroup.events": "populated 0\nfrozen 0\n", "pod1/cgroup.procs": ""},
        False,
    ),
    "version 1": ({"pod1/cgroup.procs": "", "pod1/abc/cgroup.procs": "4711\n"}, True),
    "version 1, left behind": ({"pod1/cgroup.procs": "", "pod1/abc/cgroup.procs": ""}, False),
    "gone now": ({"pod1/notify_on_release": "0\n"}, False),
}


@pytest.mark.parametrize("case", GROUPS)
def test_control_groups_with_processes(tmp_path, case):
    files, populated = GROUPS[case]
    root = tree(
        tmp_path,
        **{
            ("/kubepods/" + name).replace("/", "__").lstrip("_"): text
            for name, text in files.items()
        },
    )
    found = ask(root=root, kind="paths", patterns=["/kubepods/pod*"], populated=True)["files"]
    assert [entry["path"] for entry in found] == (["/kubepods/pod1"] if populated else [])


def test_a_control_group_that_cannot_be_read_is_no_empty_one(tmp_path):
    (tmp_path / "pod1" / "cgroup.events").mkdir(parents=True)
    assert (
        ask(kind="paths", patterns=[str(tmp_path / "pod*")], populated=True)["error"]["kind"]
        == "failed"
    )


def test_links_of_a_tree_within_are_followed_inside_it(tmp_path):
    root = tree(
        tmp_path,
        run__driver__etc__alt="->/usr/x",
        run__driver__usr__x="",
        run__driver__lib__x="->/etc/alt",
    )
    for place in ({"root": root, "base": "/run/driver"}, {"base": "%s/run/driver" % root}):
        found = ask(kind="paths", patterns=["/lib/*"], **place)["files"]
        assert [(entry["path"], entry["real"]) for entry in found] == [("/lib/x", "/usr/x")]


OTHERS = "may be written to by others"
# What a listing says of whose a path is: what is changed in the tree, the listed paths, and the
# place that is doubted with its reason.
WHOSE = {
    "root's alone": ({}, "/opt/nv/lib/a.so", None),
    "a file that others write": (
        {"opt/nv/lib/a.so": 0o666},
        "/opt/nv/lib/a.so",
        ("/opt/nv/lib/a.so", OTHERS),
    ),
    "its folder": ({"opt/nv/lib": 0o777}, "/opt/nv/lib/a.so", ("/opt/nv/lib", OTHERS)),
    "a sticky folder": ({"opt/nv/lib": 0o1777}, "/opt/nv/lib/a.so", ("/opt/nv/lib", OTHERS)),
    "a folder above": ({"opt": 0o777}, "/opt/nv/lib/a.so", ("/opt", OTHERS)),
    "where a link leads": ({"home/alice": 0o777}, "/opt/nv/lib/b.so", ("/home/alice", OTHERS)),
    "a link to nothing": ({"home/alice": 0o777}, "/opt/nv/lib/c.so", ("/home/alice", OTHERS)),
    "beside it alone": ({"home/alice": 0o777}, "/opt/nv/lib/a.so", None),
    "a linked folder": ({"opt/nv": 0o777}, "/opt/linked/a.so", ("/opt/nv", OTHERS)),
}


@pytest.mark.parametrize("case", WHOSE)
@pytest.mark.parametrize("base", ["/", "/run/driver"])
def test_a_listing_says_whose_each_path_is(tmp_path, case, base):
    changed, path, doubted = WHOSE[case]
    inside = base.strip("/").replace("/", "__") + ("__" if base != "/" else "")
    root = tree(
        tmp_path,
        **{
            inside + name: text
            for name, text in {
                "opt__nv__lib__a.so": "x",
                "opt__nv__lib__b.so": "->/home/alice/b.so",
                "opt__nv__lib__c.so": "->/home/alice/none.so",
                "home__alice__b.so": "x",
                "opt__linked": "->/opt/nv/lib",
            }.items()
        },
    )
    for place, mode in changed.items():
        os.chmod("%s%s/%s" % (root, base.rstrip("/"), place), mode)
    more = {} if base == "/" else {"base": base}
    (entry,) = ask(root=root, kind="paths", patterns=[path], trust=True, **more)["files"]
    place, why = doubted or ("", "")
    assert entry["untrusted"].startswith(base.rstrip("/") + place + " " if doubted else "")
    assert why in entry["untrusted"]
    assert bool(entry["untrusted"]) == bool(doubted)
    (entry,) = ask(root=root, kind="paths", patterns=[path], **more)["files"]
    assert "untrusted" not in entry


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_listing_says_which_account_a_path_belongs_to(tmp_path):
    root = tree(
        tmp_path, opt__nv__a="x", run__driver__lib__a="x", etc__passwd="alice:x:1234:1234::/:\n"
    )
    for place in ("opt/nv/a", "run/driver"):
        os.chown("%s/%s" % (root, place), 1234, 1234)
    for pattern, base, place in (
        ("/opt/nv/a", "/", "/opt/nv/a"),
        ("/lib/*", "/run/driver", "/run/driver"),
    ):
        (entry,) = ask(root=root, kind="paths", patterns=[pattern], base=base, trust=True)["files"]
        assert entry["untrusted"].startswith("%s belongs to user alice. " % place)


def test_a_link_that_leads_to_itself_hides_no_other_file(tmp_path):
    tree(tmp_path, good="x", loop="->loop", gone="->nowhere")
    found = {
        os.path.basename(entry["path"]): entry
        for entry in ask(kind="glob", pattern=str(tmp_path / "*"))["files"]
    }
    assert found["good"]["content"] == "x"
    assert "a loop" in found["loop"]["error"]["message"]
    assert found["gone"]["type"] == "link"


def test_pattern_with_contents(tmp_path):
    tree(tmp_path, **{"a.toml": "password=1", "b.toml": "a=2"})
    found = ask(
        kind="glob",
        pattern=str(tmp_path / "*.toml"),
        keep={"format": "toml", "places": [[["a"], "int"]]},
    )["files"]
    assert [entry["content"] for entry in found] == ["xxxxxxxx=1", "a=2"]


def test_what_files_mention(tmp_path):
    """Paths that some file names, with what is there: nobody could ask for them by name before
    having read the file.
    """
    there, link = tmp_path / "there", tmp_path / "link"
    there.write_text("x")
    link.symlink_to(there)
    json_text = '{"path":"%s/gone","hostPath":"%s"}' % (tmp_path, link)
    tree(tmp_path, d__a="path: %s\nhostPath: /dev/null\nother: /etc\n" % there, d__b=json_text)
    (tmp_path / "d" / "folder").mkdir()
    found = ask(
        kind="mentioned",
        pattern=str(tmp_path / "d" / "*"),
        find=[r"""(?:\bpath|hostPath)["']?\s*:\s*["']?(/[^"'\s,}]+)"""],
    )
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
    root = tree(
        tmp_path,
        usr__bin__tool="",
        usr__sbin__tool="",
        usr__bin__plain="",
        usr__bin__link="->/usr/sbin/tool",
    )
    (tmp_path / "usr" / "sbin" / "tool").chmod(0o755)
    answer = ask(root=root, kind="which", names=["tool", "plain", "link", "none"])
    assert answer["found"] == {
        "tool": "/usr/sbin/tool",
        "plain": None,
        "link": "/usr/bin/link",
        "none": None,
    }
    seen = answer["programs"]
    assert set(seen) == {"/usr/sbin/tool", "/usr/bin/link"}
    assert seen["/usr/sbin/tool"] == seen["/usr/bin/link"], (
        "a link stands for the program that it leads to"
    )


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
