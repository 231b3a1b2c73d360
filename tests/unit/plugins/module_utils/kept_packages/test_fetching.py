# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A package that apt fetches: apt has an account and a folder of its own, and neither can harm what
is kept.
"""

import functools
import os
import shutil
import subprocess
import tempfile

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    deep_folders,
    kept_files,
)

from .conftest import DEB, INSTALLED, NAMES, OLD, SMI, ask, list_fetches, stanza

DEEP = 3000  # more than Python recurs, and more than a process may have open


def test_folders_that_apts_account_has_nested_are_removed(host):
    top = host.root / "j/fetched"
    (host.root / "j").mkdir()
    (host.root / "victim").mkdir()
    (host.root / "victim/file").touch()
    top.mkdir()
    (top / "link").symlink_to(host.root / "victim")
    inner = os.open(str(top), os.O_RDONLY)
    for _level in range(DEEP):
        os.mkdir("a", dir_fd=inner)
        os.symlink(str(host.root / "victim"), "b", dir_fd=inner)
        below = os.open("a", os.O_RDONLY, dir_fd=inner)
        os.close(inner)
        inner = below
    os.close(inner)
    assert ask(packages=[])["error"] is None
    assert not os.path.lexists(str(top))
    assert (host.root / "victim/file").exists()


def test_what_apts_account_holds_fast_keeps_nothing_but_fetched_packages(host, monkeypatch):
    """It may mount something there, which root cannot remove."""
    host.says = {
        "dpkg-query": INSTALLED + SMI,
        "apt-cache": stanza(OLD) + stanza(OLD).replace("libcuda1", "nvidia-smi"),
    }
    (host.root / "archives" / DEB).write_bytes(OLD)
    (host.root / "j/fetched").mkdir(parents=True)
    host.fetches = OLD
    remove = deep_folders.remove_deep_tree

    def refuse(path):
        if path == str(host.root / "j/fetched"):
            raise OSError(16, "Device or resource busy", path)
        remove(path)

    with monkeypatch.context() as patch:
        patch.setattr(deep_folders, "remove_deep_tree", refuse)
        said = ask(packages=NAMES)
        assert said["error"] is None
        assert [row["file"] for row in said["kept"]] == [DEB]
        assert [(row["name"], row["why"]) for row in said["left"]] == [("nvidia-smi", "failed")]
        assert "busy" in ask("remove")["error"]["message"], "a person has to unmount it"
    assert ask("remove")["error"] is None
    assert not (host.root / "j/fetched").exists()


@pytest.mark.parametrize("place", ["fetched", "fetched/" + DEB])
def test_what_apts_account_mounts_is_not_read(host, monkeypatch, place):
    """Its file system need not answer, and would hold the lock of this host's changes."""
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    host.fetches = OLD
    read = deep_folders._read_mount

    def number(descriptor):
        at = os.readlink("/proc/self/fd/%d" % descriptor)
        return "mounted" if at == str(host.root / "j" / place) else read(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(deep_folders, "_read_mount", number)
        said = ask()
    assert said["error"] is None
    assert [row["why"] for row in said["left"]] == ["failed"]
    ask("remove")
    assert [row["file"] for row in ask()["kept"]] == [DEB]


def test_apt_runs_as_its_own_account_in_a_folder_outside_what_is_kept(host):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    host.fetches = OLD
    ask()
    place = str(host.root / "j/fetched")
    assert [argv[0] for argv in list_fetches(host)] == ["apt-get"]
    # apt never runs as root, which would follow a link of that account
    assert host.accounts == [(42, 65534, place)]
    assert host.owners == [(place, 42, 65534)]
    assert not os.path.lexists(place)
    kept = os.stat(str(host.root / "j/kept/packages" / DEB))
    assert (kept.st_uid, kept.st_mode & 0o777) == (os.geteuid(), 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another account")
def test_a_command_runs_as_an_account_for_good_or_not_at_all():
    base = tempfile.mkdtemp(dir="/tmp")
    try:
        os.chmod(base, 0o755)
        place, closed = os.path.join(base, "own"), os.path.join(base, "closed")
        os.mkdir(place, 0o700)
        os.chown(place, 42, 65534)
        os.mkdir(closed, 0o700)
        become = functools.partial(kept_files._become, 42, 65534)
        said = commands.run(
            ["sh", "-c", "id -u; id -G; pwd; chown 0 ."], become=functools.partial(become, place)
        )
        assert (said["stdout"].decode().split(), said["rc"]) == (["42", "65534", place], 1)
        with pytest.raises(subprocess.SubprocessError):
            commands.run(["true"], become=functools.partial(become, closed))
    finally:
        shutil.rmtree(base)
