# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files are changed and which are refused: told before anything is touched, in check mode as
well.
"""

import contextlib
import fcntl
import grp
import os
import stat
import struct

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import preconditions

from .conftest import CONFIG, HostDirectory, restore

NOBODY = 0xFFFFFFFF


@pytest.fixture
def host_dir(tmp_path):
    return HostDirectory(tmp_path / "host")


def hard_link(host_dir, _monkeypatch):
    os.link(str(host_dir.config), str(host_dir.directory / "other"))


def world_writable(host_dir, _monkeypatch):
    host_dir.config.chmod(0o666)


def mounted(host_dir, monkeypatch):
    monkeypatch.setattr(preconditions, "is_mount_point", lambda path: path == str(host_dir.config))


def immutable(host_dir, monkeypatch):
    flagged(monkeypatch, lambda path: 0x10 if path == str(host_dir.config) else 0)


def append_only_directory(host_dir, monkeypatch):
    flagged(monkeypatch, lambda path: 0x20 if path == str(host_dir.etc) else 0)


def flagged(monkeypatch, flags):
    monkeypatch.setattr(
        fcntl,
        "ioctl",
        lambda fd, *_args: struct.pack("l", flags(os.readlink("/proc/self/fd/%d" % fd))),
    )


def directory_of_everybody(host_dir, _monkeypatch):
    host_dir.etc.chmod(0o777)


def sticky_directory_with_a_file(host_dir, _monkeypatch):
    # Not even with a file of root's: anybody may put a further name of one there.
    host_dir.etc.chmod(0o1777)


def directory_of_a_stranger(host_dir, _monkeypatch):
    os.chown(str(host_dir.etc), 12, 34)


def link_in_a_directory_of_everybody(host_dir, _monkeypatch):
    shared = host_dir.directory / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    real = host_dir.directory / "real.toml"
    host_dir.config.rename(real)
    (shared / "hop").symlink_to(real)
    host_dir.config.symlink_to(shared / "hop")


REFUSED = [
    (hard_link, "has 2 names (hard links)"),
    (world_writable, "everybody may write to this file (mode 0666)"),
    (mounted, "is a mount of its own"),
    (immutable, "Run chattr -i"),
    (append_only_directory, "Run chattr -a"),
    (directory_of_everybody, "may be written to by others (mode 0777)"),
    (sticky_directory_with_a_file, "may be written to by others (mode 1777)"),
    (directory_of_a_stranger, "belongs to user 12"),
    (link_in_a_directory_of_everybody, "may be written to by others"),
]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("make, said", REFUSED, ids=[make.__name__ for make, _said in REFUSED])
def test_refused_with_what_to_do_instead(host_dir, monkeypatch, make, said, check):
    make(host_dir, monkeypatch)
    before = host_dir.tree()
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")], check=check)
    assert found["error"]["phase"] == "expect"
    assert said in found["error"]["message"]
    assert found["error"]["next"] == "Nothing was changed", "running it again is of no use"
    assert host_dir.tree() == before
    same = host_dir.run([host_dir.write(host_dir.config, CONFIG)], check=check, id="2" * 32)
    assert same["error"] is None, "nothing is to be changed, so nothing is refused"


STEPS = [
    (directory_of_everybody, "Run chmod o-w on the directory"),
    (directory_of_a_stranger, "Run chown root on the directory"),
]


@pytest.mark.parametrize("make, step", STEPS, ids=[make.__name__ for make, _step in STEPS])
def test_a_directory_of_others_is_refused_with_the_command_that_makes_it_roots(
    host_dir, monkeypatch, make, step
):
    make(host_dir, monkeypatch)
    assert step in host_dir.run([host_dir.write(host_dir.config, "new\n")])["error"]["message"]


@pytest.mark.parametrize(
    "change",
    [
        lambda n: {"path": str(n.config), "op": "remove"},
        lambda n: n.write(n.config, "new\n", linked=True),
    ],
    ids=["goes", "is ours"],
)
def test_other_names_keep_the_old_content_where_nobody_expects_another(host_dir, change):
    """Of a file that goes, and of one that a package manager's cache links to."""
    hard_link(host_dir, None)
    found = host_dir.run([change(host_dir)])
    assert found["error"] is None
    assert (host_dir.directory / "other").read_text() == CONFIG
    assert not host_dir.config.exists() or host_dir.config.read_text() == "new\n"
    assert host_dir.run([restore(host_dir.config)], id="2" * 32)["error"] is None
    assert host_dir.config.read_text() == CONFIG


def test_an_image_based_system_keeps_its_usr(monkeypatch):
    monkeypatch.setattr(preconditions, "_IMAGE_BASED", "/proc/self/stat")  # something that is there
    with pytest.raises(preconditions.host_files.HostError) as caught:
        preconditions.require_changeable("", "/usr/share/x.json", "/usr/share/x.json", [])
    assert "image-based" in str(caught.value)


def test_in_a_sticky_directory_our_own_directory_is_safe(host_dir):
    host_dir.etc.parent.chmod(0o1777)
    assert host_dir.run([host_dir.write(host_dir.config, "new\n")])["error"] is None


@pytest.mark.parametrize(
    "mode, gid, refused", [(0o775, 0, False), (0o775, 50, True), (0o755, 50, False)]
)
def test_a_group_that_may_write_counts_unless_it_is_ours(host_dir, mode, gid, refused):
    os.chown(str(host_dir.etc), 0, gid)
    host_dir.etc.chmod(mode)
    assert (
        host_dir.run([host_dir.write(host_dir.config, "new\n")])["error"] is not None
    ) == refused


@pytest.mark.parametrize("groups, refused", [(["staff"], False), (["microk8s"], True), ([], True)])
def test_a_group_that_the_change_names_may_write_on_the_way(host_dir, groups, refused):
    os.chown(str(host_dir.etc), 0, grp.getgrnam("staff").gr_gid)
    host_dir.etc.chmod(0o770)
    found = host_dir.run([host_dir.write(host_dir.config, "new\n", groups=groups)])
    assert (found["error"] is not None) == refused
    assert host_dir.config.read_text() == (CONFIG if refused else "new\n")


# As the kernel has them: an ACL that lets user 12 read, the label that SELinux's policy gives a
# configuration, and a note of someone's.
ATTRIBUTES = {
    "system.posix_acl_access": struct.pack(
        "<I" + "HHI" * 5, 2, 1, 6, NOBODY, 2, 4, 12, 4, 4, NOBODY, 16, 4, NOBODY, 32, 0, NOBODY
    ),
    "security.selinux": b"system_u:object_r:container_config_t:s0\0",
    "user.note": b"mine",
}


def test_everything_about_an_existing_file_stays_through_change_and_return(host_dir):
    os.chown(str(host_dir.config), 12, 34)
    host_dir.config.chmod(0o2640)
    given = []
    for name, value in ATTRIBUTES.items():
        # a file system or a kernel without them: the rest is to stay all the same
        with contextlib.suppress(OSError):
            os.setxattr(str(host_dir.config), name, value)
            given.append(name)
    assert sorted(given) == sorted(os.listxattr(str(host_dir.config)))

    def about():
        found = os.stat(str(host_dir.config))
        names = sorted(os.listxattr(str(host_dir.config)))
        return (
            stat.S_IMODE(found.st_mode),
            found.st_uid,
            found.st_gid,
            [(name, os.getxattr(str(host_dir.config), name)) for name in names],
        )

    before = about()
    host_dir.run([host_dir.write(host_dir.config, "new\n")])
    assert about() == before
    host_dir.run([{"path": str(host_dir.config), "op": "restore", "id": ""}], id="2" * 32)
    assert about() == before
    assert host_dir.config.read_text() == CONFIG
