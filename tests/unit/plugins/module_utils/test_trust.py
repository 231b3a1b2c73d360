# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of trust: a table for each row, with the set-ups that have to pass and the ones that
must fail.
"""

import errno
import os
import struct

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, trust

NOBODY = 0xFFFFFFFF
STAFF, MICROK8S, NIXBLD, STRANGER = 50, 998, 30000, 1001
GROUPS = "root:x:0:\nstaff:x:50:\nstaff:x:20005:\nmicrok8s:x:998:\nnixbld:x:30000:\nusers:x:100:\n"
PASSWD = "root:x:0:0::/root:/bin/sh\nmallory:x:1001:1001::/home/mallory:/bin/sh\n"


class Tree(object):
    """A host's files beneath another root. Entries: (path, kind, mode, uid, gid); kind is dir,
    file, or the target of a link.
    """

    def __init__(self, directory):
        self.root = str(directory)
        self.add(
            ("/etc", "dir", 0o755, 0, 0),
            ("/etc/passwd", "file", 0o644, 0, 0),
            ("/etc/group", "file", 0o644, 0, 0),
        )
        (directory / "etc" / "passwd").write_text(PASSWD)
        (directory / "etc" / "group").write_text(GROUPS)

    def add(self, *entries):
        for path, kind, mode, uid, gid in entries:
            full = self.root + path
            if kind == "dir":
                os.makedirs(full, exist_ok=True)
            elif kind == "file":
                os.makedirs(os.path.dirname(full), exist_ok=True)
                open(full, "w").close()
            else:
                os.makedirs(os.path.dirname(full), exist_ok=True)
                os.symlink(kind, full)
            os.chown(full, uid, gid, follow_symlinks=False)
            if kind in ("dir", "file"):
                os.chmod(full, mode)


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "host").mkdir(mode=0o755)
    return Tree(tmp_path / "host")


def test_path_of_nothing_special(tree):
    tree.add(("/etc/engine", "dir", 0o755, 0, 0), ("/etc/engine/config.toml", "file", 0o644, 0, 0))
    assert trust.judge_path(tree.root, "/etc/engine/config.toml") is None


# name, entries, the path that is asked about, the admin groups of its manager
PASSES = [
    (
        "usrmerge",
        [
            ("/usr/lib", "dir", 0o755, 0, 0),
            ("/lib", "usr/lib", 0, 0, 0),
            ("/usr/lib/x.service", "file", 0o644, 0, 0),
        ],
        "/lib/x.service",
        (),
    ),
    (
        "usrmerge of a program",
        [
            ("/usr/bin", "dir", 0o755, 0, 0),
            ("/bin", "usr/bin", 0, 0, 0),
            ("/usr/bin/engine", "file", 0o755, 0, 0),
        ],
        "/bin/engine",
        (),
    ),
    (
        "Debian's /usr/local, root:staff 2775",
        [
            ("/usr/local", "dir", 0o2775, 0, STAFF),
            ("/usr/local/bin", "dir", 0o2775, 0, STAFF),
            ("/usr/local/bin/engine", "file", 0o755, 0, STAFF),
        ],
        "/usr/local/bin/engine",
        (),
    ),
    (
        "/nix/store, root:nixbld 1775, by NixOS' chain of links",
        [
            ("/nix/store", "dir", 0o1775, 0, NIXBLD),
            ("/nix/store/aaa-etc/etc/engine", "dir", 0o555, 0, 0),
            ("/nix/store/bbb-config/config.toml", "file", 0o444, 0, 0),
            (
                "/nix/store/aaa-etc/etc/engine/config.toml",
                "/nix/store/bbb-config/config.toml",
                0,
                0,
                0,
            ),
            ("/etc/static", "/nix/store/aaa-etc/etc", 0, 0, 0),
            ("/etc/engine", "/etc/static/engine", 0, 0, 0),
        ],
        "/etc/engine/config.toml",
        (),
    ),
    (
        "MicroK8s' args, whose group is its admins'",
        [
            ("/var/snap/microk8s/7/args", "dir", 0o2770, 0, MICROK8S),
            ("/var/snap/microk8s/current", "7", 0, 0, 0),
            ("/var/snap/microk8s/7/args/containerd-template.toml", "file", 0o660, 0, MICROK8S),
        ],
        "/var/snap/microk8s/current/args/containerd-template.toml",
        ("microk8s",),
    ),
    (
        "root's own group may write",
        [("/etc/engine", "dir", 0o775, 0, 0), ("/etc/engine/c", "file", 0o664, 0, 0)],
        "/etc/engine/c",
        (),
    ),
    (
        "a file that is not there yet",
        [("/etc/engine", "dir", 0o755, 0, 0)],
        "/etc/engine/conf.d/90.toml",
        (),
    ),
    (
        "a link that somebody owns in root's directory: a link's owner cannot turn it",
        [
            ("/etc/engine", "dir", 0o755, 0, 0),
            ("/etc/engine/real", "file", 0o644, 0, 0),
            ("/etc/engine/c", "real", 0, STRANGER, STRANGER),
        ],
        "/etc/engine/c",
        (),
    ),
]


@pytest.mark.parametrize(
    "entries, path, groups", [row[1:] for row in PASSES], ids=[row[0] for row in PASSES]
)
def test_path_passes_where_only_root_can_change_what_is_found(tree, entries, path, groups):
    tree.add(*entries)
    assert trust.judge_path(tree.root, path, groups) is None


# name, entries, path, the place that is named, the reason, the remedy
FAILS = [
    (
        "somebody's file",
        [("/etc/c", "file", 0o644, STRANGER, 0)],
        "/etc/c",
        "/etc/c",
        "belongs to user mallory",
        "chown root",
    ),
    (
        "somebody's directory",
        [("/opt/e", "dir", 0o755, STRANGER, 0), ("/opt/e/c", "file", 0o644, 0, 0)],
        "/opt/e/c",
        "/opt/e",
        "belongs to user mallory",
        "chown root",
    ),
    (
        "everybody's file",
        [("/etc/c", "file", 0o666, 0, 0)],
        "/etc/c",
        "/etc/c",
        "may be written to by others (mode 0666)",
        "chmod o-w",
    ),
    (
        "everybody's directory",
        [("/etc/e", "dir", 0o777, 0, 0), ("/etc/e/c", "file", 0o644, 0, 0)],
        "/etc/e/c",
        "/etc/e",
        "may be written to by others",
        "chmod o-w",
    ),
    (
        "a group's file",
        [("/etc/c", "file", 0o664, 0, 100)],
        "/etc/c",
        "/etc/c",
        "may be written to by its group users (mode 0664)",
        "chmod g-w",
    ),
    (
        "a group without a name",
        [("/etc/c", "file", 0o664, 0, 4711)],
        "/etc/c",
        "/etc/c",
        "may be written to by its group 4711",
        "chmod g-w",
    ),
    (
        "the group staff elsewhere",
        [("/opt/e", "dir", 0o2775, 0, STAFF), ("/opt/e/c", "file", 0o644, 0, 0)],
        "/opt/e/c",
        "/opt/e",
        "its group staff",
        "chmod g-w",
    ),
    (
        "a group of a site's own that is called staff",
        [("/usr/local", "dir", 0o2775, 0, 20005)],
        "/usr/local/bin/c",
        "/usr/local",
        "its group staff",
        "chmod g-w",
    ),
    (
        "a name that only begins like /usr/local",
        [("/usr/localx", "dir", 0o2775, 0, STAFF)],
        "/usr/localx/c",
        "/usr/localx",
        "its group staff",
        "chmod g-w",
    ),
    (
        "an admin group that is not this manager's",
        [("/etc/c", "file", 0o660, 0, MICROK8S)],
        "/etc/c",
        "/etc/c",
        "its group microk8s",
        "chmod g-w",
    ),
    (
        "root's file in a sticky directory",
        [("/tmp", "dir", 0o1777, 0, 0), ("/tmp/c", "file", 0o644, 0, 0)],
        "/tmp/c",
        "/tmp",
        "may be written to by others (mode 1777)",
        "chmod o-w",
    ),
    (
        "a link in a sticky directory",
        [("/tmp", "dir", 0o1777, 0, 0), ("/tmp/c", "/etc/passwd", 0, 0, 0)],
        "/tmp/c",
        "/tmp",
        "may be written to by others",
        "chmod o-w",
    ),
    (
        "nothing yet in a sticky directory",
        [("/tmp", "dir", 0o1777, 0, 0)],
        "/tmp/c",
        "/tmp",
        "may be written to by others",
        "chmod o-w",
    ),
    (
        "somebody's directory in a sticky one",
        [("/tmp", "dir", 0o1777, 0, 0), ("/tmp/m", "dir", 0o755, STRANGER, 0)],
        "/tmp/m/c",
        "/tmp",
        "may be written to by others",
        "chmod o-w",
    ),
    (
        "a link through somebody's directory",
        [
            ("/home/m", "dir", 0o755, STRANGER, 0),
            ("/home/m/c", "/etc/passwd", 0, STRANGER, 0),
            ("/etc/c", "/home/m/c", 0, 0, 0),
        ],
        "/etc/c",
        "/home/m",
        "belongs to user mallory",
        "chown root",
    ),
]


@pytest.mark.parametrize(
    "entries, path, place, why, remedy", [row[1:] for row in FAILS], ids=[row[0] for row in FAILS]
)
def test_path_names_the_place_that_somebody_else_can_change(
    tree, entries, path, place, why, remedy
):
    tree.add(*entries)
    doubt = trust.judge_path(tree.root, path)
    assert (doubt.row, doubt.place) == ("path", place)
    assert why in doubt.why
    assert remedy in doubt.remedy


def test_path_with_an_acl_is_not_judged_by_the_groups_bits(tree):
    tree.add(("/etc/c", "file", 0o664, 0, 0))
    entries = [(1, 6, NOBODY), (2, 6, STRANGER), (4, 4, NOBODY), (16, 6, NOBODY), (32, 4, NOBODY)]
    try:
        os.setxattr(
            tree.root + "/etc/c",
            "system.posix_acl_access",
            struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries),
        )
    except OSError:
        pytest.skip("this file system has no ACLs")
    assert "accounts that its ACL names" in trust.judge_path(tree.root, "/etc/c").why


@pytest.mark.parametrize(
    "number, doubted",
    [(errno.ENODATA, False), (errno.EOPNOTSUPP, False), (errno.EIO, True), (errno.EACCES, True)],
)
def test_an_acl_that_cannot_be_read_is_not_taken_for_none(tree, monkeypatch, number, doubted):
    def fails(*_words, **_more):
        raise OSError(number, "")

    tree.add(("/etc/c", "file", 0o664, 0, 0))
    monkeypatch.setattr(os, "getxattr", fails)
    assert bool(trust.judge_path(tree.root, "/etc/c")) is doubted


def test_program_is_an_executable_file_on_such_a_path(tree):
    tree.add(
        ("/usr/bin", "dir", 0o755, 0, 0),
        ("/usr/bin/engine", "file", 0o755, 0, 0),
        ("/usr/bin/notes", "file", 0o644, 0, 0),
    )
    tree.add(
        ("/usr/bin/loose", "file", 0o775, 0, 100), ("/home/m/engine", "file", 0o755, STRANGER, 0)
    )
    assert trust.judge_program(tree.root, "/usr/bin/engine") is None
    said = {
        path: trust.judge_program(tree.root, path)
        for path in (
            "/usr/bin/notes",
            "/usr/bin",
            "/usr/bin/loose",
            "/home/m/engine",
            "/usr/bin/none",
        )
    }
    assert {path: (doubt.row, doubt.why) for path, doubt in said.items()} == {
        "/usr/bin/notes": ("program", "is no executable file"),
        "/usr/bin": ("program", "is no executable file"),
        "/usr/bin/loose": ("program", "may be written to by its group users (mode 0775)"),
        "/home/m/engine": ("program", "belongs to user mallory"),
        "/usr/bin/none": ("program", "is no executable file"),
    }


def test_program_by_name_is_root_s_own(tree, monkeypatch):
    """/usr/local comes first in many a PATH, and is not searched: it need not be root's alone."""
    tree.add(
        ("/usr/local/bin/engine", "file", 0o755, 0, 0),
        ("/usr/bin/engine", "file", 0o755, 0, 0),
        ("/usr/local/bin/other", "file", 0o755, 0, 0),
    )
    monkeypatch.setenv("PATH", "/home/m:/usr/local/bin")
    assert trust.find_root_program(tree.root, "engine") == "/usr/bin/engine"
    assert trust.find_root_program(tree.root, "other") is None
    tree.add(("/run/current-system/sw/bin/other", "file", 0o555, 0, 0))
    assert trust.find_root_program(tree.root, "other") == "/run/current-system/sw/bin/other"


@pytest.mark.parametrize(
    "name, kind",
    [
        ("no-such-program", "not-found"),
        ("bin/sh", "bad-question"),
        ("/no/such/program", "not-found"),
    ],
)
def test_program_that_cannot_be_run_is_said_to_be(name, kind):
    with pytest.raises(host_files.HostError) as caught:
        trust.require_root_program(name)
    assert caught.value.kind == kind


def test_program_of_somebody_else_is_not_run_and_the_remedy_is_named(tmp_path):
    place = tmp_path / "engine"
    place.write_text("#!/bin/sh\n")
    place.chmod(0o775)
    os.chown(str(place), 0, 100)
    with pytest.raises(host_files.HostError) as caught:
        trust.require_root_program(str(place))
    assert caught.value.kind == "untrusted"
    assert "chmod g-w" in caught.value.message
