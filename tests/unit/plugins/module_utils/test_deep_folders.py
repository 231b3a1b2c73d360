# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders of another account, which it fills while they are removed."""

import errno
import os
import pathlib
import shutil
import tempfile
import tracemalloc

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
    monkeypatch.setattr(deep_folders, "_MOST_NAMES", 100)  # ends a race that the account wins
    take = deep_folders._take_names
    made = []

    def take_and_be_raced(folder):
        for name in take(folder):
            # that one alone: others are still the account's, until they are opened
            made.append(make_as_account([folder]))
            yield name

    monkeypatch.setattr(deep_folders, "_take_names", take_and_be_raced)
    deep_folders.remove_deep_tree(str(top))
    assert made
    assert sum(made) == 0
    assert not top.exists()


MANY, LONG = 4000, 200  # names, characters of each


@pytest.mark.parametrize("make", [os.mknod, os.mkdir], ids=["files", "folders"])
def test_very_many_names_take_no_more_memory_than_few(tmp_path, make):
    places = [tmp_path / "top", tmp_path / "top/inner"]
    for place in places:
        place.mkdir()
        for number in range(MANY):
            make("%s/%0*d" % (place, LONG, number))
    tracemalloc.start()
    try:
        deep_folders.remove_deep_tree(str(places[0]))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert not places[0].exists()
    assert most < MANY * LONG // 4


NESTED = [
    # folders in one another, how many may be; the error
    (3, 3, 0),
    (4, 3, errno.ENOTEMPTY),
]


@pytest.mark.parametrize(("nested", "most", "error"), NESTED)
def test_an_account_that_goes_on_nesting_ends_the_removal(
    tmp_path, monkeypatch, nested, most, error
):
    monkeypatch.setattr(deep_folders, "_MOST_FOLDERS", most)
    (tmp_path / "top").joinpath(*["a"] * nested).mkdir(parents=True)
    found = 0
    try:
        deep_folders.remove_deep_tree(str(tmp_path / "top"))
    except OSError as exc:
        found = exc.errno
    assert found == error
    assert (tmp_path / "top").exists() is bool(error)


FULL = [
    # files, folders, names in each folder, how many names may be removed; whether that ends a call
    (3, 0, 0, 3, False),
    (4, 0, 0, 3, True),
    (0, 2, 3, 14, False),  # each of six is moved, and removed
    (0, 2, 3, 13, True),
    (0, 2, 20, 10, True),
]


@pytest.mark.parametrize(("files", "folders", "inner", "most", "ends"), FULL)
def test_very_many_names_end_a_removal_which_the_next_one_continues(
    tmp_path, monkeypatch, files, folders, inner, most, ends
):
    """A program of the account may make names for as long as it has a folder."""
    monkeypatch.setattr(deep_folders, "_MOST_NAMES", most)
    top, errors = tmp_path / "top", []
    top.mkdir()
    for number in range(files):
        (top / str(number)).touch()
    for folder in range(folders):
        for number in range(inner):
            (top / f"of-{folder}" / str(number)).mkdir(parents=True)
    for _call in range(files + 2 * folders * (inner + 1)):
        try:
            deep_folders.remove_deep_tree(str(top))
        except OSError as exc:
            errors.append(exc.errno)
    assert set(errors) == ({errno.ENOTEMPTY} if ends else set())
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


MOUNTED = os.path.ismount("/proc")


@pytest.mark.parametrize("name", ["file", "link", "gone", "inner"])
def test_what_lies_on_the_mount_of_its_folder_is_opened(tmp_path, name):
    (tmp_path / "file").write_text("x")
    (tmp_path / "inner").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    opened = {"link": errno.ELOOP, "gone": errno.ENOENT}
    above = os.open(str(tmp_path), os.O_RDONLY)
    found = 0
    try:
        os.close(deep_folders.open_on_same_mount(name, above, os.O_RDONLY | os.O_NOFOLLOW))
    except OSError as exc:
        found = exc.errno
    os.close(above)
    assert found == opened.get(name, 0)


def test_what_takes_the_place_of_a_file_meanwhile_is_not_opened(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("first")
    (tmp_path / "other").write_text("other")
    read = deep_folders._read_mount

    def be_raced(descriptor):
        if (tmp_path / "other").exists():
            (tmp_path / "other").rename(tmp_path / "file")
        return read(descriptor)

    monkeypatch.setattr(deep_folders, "_read_mount", be_raced)
    above = os.open(str(tmp_path), os.O_RDONLY)
    opened = deep_folders.open_on_same_mount("file", above, os.O_RDONLY | os.O_NOFOLLOW)
    os.close(above)
    with os.fdopen(opened) as stream:
        assert stream.read() == "first"


@pytest.mark.skipif(not MOUNTED, reason="this machine has no mount that every account may see")
def test_what_is_mounted_is_not_asked_for_anything(monkeypatch):
    """Only a descriptor of the place is made, which asks no file system."""
    above, made, really_open = os.open("/", os.O_RDONLY), [], os.open

    def note(path, flags, **more):
        made.append(flags & os.O_PATH)
        return really_open(path, flags, **more)

    monkeypatch.setattr(os, "open", note)
    with pytest.raises(OSError) as refused:
        deep_folders.open_on_same_mount("proc", above, os.O_RDONLY)
    monkeypatch.undo()
    os.close(above)
    assert refused.value.errno == errno.EXDEV
    assert made == [os.O_PATH]


def test_what_is_not_there_is_removed_already(tmp_path):
    deep_folders.remove_deep_tree(str(tmp_path / "none"))
    deep_folders.remove_deep_tree(str(tmp_path / "none/none"))
    (tmp_path / "file").touch()
    deep_folders.remove_deep_tree(str(tmp_path / "file"))
    assert os.listdir(str(tmp_path)) == []
