# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders of another account, which it fills while they are removed."""

import os
import pathlib
import shutil
import tempfile

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import deep_folders

ACCOUNT = 42  # of nobody here


def make_as_account(folders):
    """Make a folder in each of these descriptors, as an account that has them open. Return how many
    it could make.
    """
    child = os.fork()
    if child == 0:
        made = 0
        os.setgroups([])
        os.setgid(ACCOUNT)
        os.setuid(ACCOUNT)
        for folder in folders:
            try:
                os.mkdir(os.urandom(8).hex(), dir_fd=folder)
                made += 1
            except OSError:
                pass
        os._exit(made)
    return os.WEXITSTATUS(os.waitpid(child, 0)[1])


@pytest.fixture
def filled():
    """A folder of an account with others in it, and descriptors of all that the account has open."""
    base = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))
    base.chmod(0o755)
    places = [base / "top", base / "top/inner", base / "top/inner/deep"]
    for place in places:
        place.mkdir(mode=0o777)
        place.chmod(0o777)
        os.chown(str(place), ACCOUNT, ACCOUNT)
    folders = [os.open(str(place), os.O_RDONLY | os.O_DIRECTORY) for place in places]
    yield places[0], folders
    for folder in folders:
        os.close(folder)
    shutil.rmtree(str(base))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another account")
def test_an_account_inside_makes_nothing_while_its_folders_are_removed(filled, monkeypatch):
    top, folders = filled
    assert make_as_account(folders) == len(folders)
    listed = os.listdir
    made = []

    def list_and_be_raced(folder):
        names = listed(folder)
        # that one alone: others are still the account's, until they are opened
        made.append(make_as_account([folder]))
        return names

    monkeypatch.setattr(os, "listdir", list_and_be_raced)
    deep_folders.remove_deep_tree(str(top))
    assert sum(made) == 0
    assert not top.exists()


def test_a_folder_that_cannot_be_made_ours_is_left(tmp_path, monkeypatch):
    (tmp_path / "top").mkdir()

    def refuse(_folder, _uid, _gid):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    opened = len(os.listdir("/proc/self/fd"))
    with pytest.raises(PermissionError):
        deep_folders.remove_deep_tree(str(tmp_path / "top"))
    assert len(os.listdir("/proc/self/fd")) == opened
    assert (tmp_path / "top").exists()
