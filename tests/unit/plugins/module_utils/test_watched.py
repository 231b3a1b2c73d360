# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that watches a directory as the engines' CDI library does hears of each file that
comes, changes and is given back.

That library reads again what is renamed, removed or written there, and up to 1.1.0 on Linux nothing
that is moved in from elsewhere (container-device-interface: pkg/cdi/cache.go; 1.1.1 has
cncf-tags/container-device-interface#344, which mends it, as has containerd 2.4).
"""

import ctypes
import os
import struct

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import swap

from .conftest import restore

MODIFY, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
# What fsnotify calls Write, Rename and Remove; Create, which it ignores on Linux, is CREATE and
# MOVED_TO.
HEARD = MODIFY | MOVED_FROM | DELETE


class Watch:
    """inotify on one directory."""

    def __init__(self, directory):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self.fd >= 0
        assert (
            libc.inotify_add_watch(self.fd, os.fsencode(str(directory)), HEARD | MOVED_TO | CREATE)
            >= 0
        )

    def events(self):
        """The masks since the last call."""
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return []
        found = []
        while data:
            _watch, mask, _cookie, length = struct.unpack_from("iIII", data)
            found.append(mask)
            data = data[16 + length :]
        return found


@pytest.fixture
def watch(host_dir):
    host_dir.dropin.parent.mkdir()
    found = Watch(host_dir.dropin.parent)
    yield found
    os.close(found.fd)


def heard(watch):
    """Whether something is heard after the last file has been moved in."""
    masks = watch.events()
    last = max((at for at, mask in enumerate(masks) if mask & MOVED_TO), default=-1)
    return any(mask & HEARD for mask in masks[last + 1 :])


def test_a_file_that_comes_changes_and_is_given_back(host_dir, watch):
    assert host_dir.run([host_dir.write(host_dir.dropin, "one\n", expect=None)])["error"] is None
    assert heard(watch), "placed"
    assert host_dir.run([host_dir.write(host_dir.dropin, "two\n")], id="f" * 32)["error"] is None
    assert heard(watch), "replaced"
    assert host_dir.run([restore(host_dir.dropin)], id="e" * 32)["error"] is None
    assert heard(watch), "given back"
    assert sorted(os.listdir(str(host_dir.dropin.parent))) == []


def test_a_directory_that_is_watched_before_its_first_file_is_in_it(host_dir, monkeypatch):
    """As where a container asks for a device at that moment: the library looks for directories that
    were missing, at each request.
    """
    made, watches = swap.make_swap_dirs, []

    def watched(root, paths):
        made(root, paths)
        watches.extend(Watch(path) for path in paths)

    monkeypatch.setattr(swap, "make_swap_dirs", watched)
    assert host_dir.run([host_dir.write(host_dir.dropin, "one\n", expect=None)])["error"] is None
    (watch,) = watches
    assert heard(watch)
    assert os.listdir(str(host_dir.dropin.parent)) == [host_dir.dropin.name]
    os.close(watch.fd)


def test_an_announcement_that_is_cut_short_keeps_no_directory(host_dir, monkeypatch):
    def cut_short(root, real, token):
        os.mkdir(swap._list_spots(root, real, (), token)[1])
        raise OSError(28, "No space left on device", real)

    monkeypatch.setattr(swap, "_notify_watchers", cut_short)
    assert host_dir.run([host_dir.write(host_dir.dropin, "one\n", expect=None)])["rolled_back"]
    assert not host_dir.dropin.parent.exists()


def test_a_file_that_is_taken_back(host_dir, watch, monkeypatch):
    host_dir.dropin.write_text("before\n")
    watch.events()
    settle = swap._settle

    def failing(root, real, spare):
        if real.endswith("config.toml") and open(str(host_dir.config)).read() != "new\n":
            raise OSError(28, "No space left on device", real)
        settle(root, real, spare)

    monkeypatch.setattr(swap, "_settle", failing)
    found = host_dir.run(
        [host_dir.write(host_dir.dropin, "after\n"), host_dir.write(host_dir.config, "new\n")]
    )
    assert found["rolled_back"]
    assert host_dir.dropin.read_text() == "before\n"
    assert heard(watch)
    assert sorted(os.listdir(str(host_dir.dropin.parent))) == [host_dir.dropin.name]
