# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a change is by its record, and what becomes of the packages that are kept for it."""

import os

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    host_files,
    journal,
    kept_packages,
)

from .conftest import DEB, FREE, INSTALLED, OLD, UNHOLD, Killed, ask, read_record, stanza


def test_a_change_that_was_not_judged_keeps_the_packages_of_before_it(host):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "archives" / DEB).write_bytes(OLD)
    assert ask()["again"] is False
    assert (read_record(host)["state"], read_record(host)["kept"]) == ("changing", 1)
    # the change has gone half way, and its controller has died
    host.says = {"dpkg-query": INSTALLED.replace("535.261.03", "550.163.01"), "apt-cache": ""}
    again = ask(release=[FREE])
    assert (again["again"], again["left"]) == (True, [])
    assert [row["file"] for row in again["kept"]] == [DEB], "as it was kept before the change"
    assert again["ran"] == [{"argv": ["apt-mark", "unhold", "libcuda1"], "rc": 0}]
    assert (host.root / "j/kept/packages" / DEB).read_bytes() == OLD
    assert ask("remove", settled=True)["state"] == "changing"
    assert ask("settle")["state"] == read_record(host)["state"] == "settled"
    assert ask("remove", settled=True)["state"] == ""
    assert not (host.root / "j/kept").exists()
    assert ask("settle")["state"] == "", "nothing is noted of a host without a change"


def test_the_packages_of_a_judged_change_make_room_for_those_of_the_next(host):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "archives" / DEB).write_bytes(OLD)
    ask()
    ask("settle")
    (host.root / "j/kept/packages/older.deb").write_bytes(OLD)
    assert ask()["again"] is False
    assert sorted(os.listdir(str(host.root / "j/kept/packages"))) == ["SHA256SUMS", DEB]


DEMANDS = [
    # whether the package is in the cache, asked by; whether it is refused
    (True, {"demand": True}, False),
    (True, {"demand": False}, False),
    (False, {"demand": False}, False),
    (False, {"demand": True}, True),
    # no package of a driver is installed
    (True, {"demand": True, "packages": []}, True),
    (True, {"demand": False, "packages": []}, False),
]


@pytest.mark.parametrize(("cached", "asked", "refused"), DEMANDS)
def test_a_demand_is_judged_before_anything_is_released_and_noted(host, cached, asked, refused):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    if cached:
        (host.root / "archives" / DEB).write_bytes(OLD)
    for _run in (1, 2):  # a second run is refused as well
        said = ask(**UNHOLD, **asked)
        assert (said["refused"], said["again"]) == (refused, not refused and _run == 2)
        assert bool(said["ran"]) is not refused
        assert (host.root / "j/kept").exists() is not refused
    assert (FREE["argv"] in host.ran) is not refused


AGAIN = [
    # what became of a file in the folder, whether each package is demanded; refused, unread, left
    (None, None, True, False, False, []),
    ("packages/" + DEB, None, True, False, False, ["lost"]),
    ("packages/" + DEB, "short", True, False, False, ["lost"]),
    # the demand of a change that has begun is met by what is noted of it, and by nothing else
    ("packages.json", None, True, True, True, []),
    ("packages.json", None, False, False, True, []),
    ("packages.json", "{", True, True, True, []),
    ("packages.json", '{"kept": [{}], "left": []}', True, True, True, []),
    ("packages.json", '{"kept": [], "left": [{"name": 1, "arch": "", "version": "", "why": ""}]}', True, True, True, []),
    ("record.json", "{", True, True, True, []),
]  # fmt: skip


@pytest.mark.parametrize(("file", "text", "demand", "refused", "unread", "left"), AGAIN)
def test_a_change_that_has_begun_goes_on_with_what_was_kept_for_it(
    host, file, text, demand, refused, unread, left
):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "archives" / DEB).write_bytes(OLD)
    ask(demand=True)
    path = host.root / "j/kept" / (file or "record.json")
    if text is not None:
        path.write_text(text)
    elif file:
        path.unlink()
    # its packages are taken away, and none is there yet
    host.says = {"dpkg-query": (1, "")}
    said = ask(demand=demand, packages=[], **UNHOLD)
    assert (said["again"], said["refused"], said["unread"]) == (True, refused, unread)
    assert [row["why"] for row in said["left"]] == left
    assert bool(said["ran"]) is not refused


def test_a_keeping_that_is_killed_leaves_a_note_by_which_its_files_are_removed(host, monkeypatch):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "archives" / DEB).write_bytes(OLD)
    ask()
    ask("settle")

    def die(*_args):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(kept_packages, "_release", die)
        with pytest.raises(Killed):
            ask(**UNHOLD)
    assert read_record(host)["state"] == "preparing"
    assert (host.root / "j/kept/packages" / DEB).exists()
    # no change has begun, so that the next keeping begins from the start
    assert ask("keep", packages=[])["again"] is False
    with monkeypatch.context() as patch:
        patch.setattr(kept_packages, "_release", die)
        assert ask("remove")["state"] == ""
        with pytest.raises(Killed):
            ask(**UNHOLD)
    assert ask("remove", settled=True, releasing=True)["error"] is None
    assert not (host.root / "j/kept").exists()


FIELDS = [
    # a record; whether a change has begun by it
    ('{"state": "preparing"}', False),  # of an earlier release
    ('{"state": "preparing", "releasing": []}', False),
    ('{"state": "preparing", "releasing": [["true"]]}', False),
    ('{"state": "preparing", "releasing": [[]]}', True),
    ('{"state": "preparing", "releasing": [[1]]}', True),
    ('{"state": "preparing", "releasing": ["true"]}', True),
    ('{"state": "preparing", "releasing": {}}', True),
]


@pytest.mark.parametrize(("text", "begun"), FIELDS)
def test_a_record_whose_commands_have_another_form_cannot_be_read(host, text, begun):
    ask(packages=[])
    (host.root / "j/kept/record.json").write_text(text)
    assert ask(packages=[])["again"] is begun


def test_a_file_that_cannot_be_removed_is_an_error_and_stays_noted(host, monkeypatch):
    host.says = {"dpkg-query": INSTALLED, "apt-cache": stanza(OLD)}
    (host.root / "archives" / DEB).write_bytes(OLD)
    ask()
    ask("settle")

    def refuse(path, dir_fd=None):
        raise PermissionError(1, "Operation not permitted", path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        assert "Operation not permitted" in ask("remove", settled=True)["error"]["message"]
    assert read_record(host)["state"] == "settled"
    assert ask("remove", settled=True)["error"] is None
    assert not (host.root / "j/kept").exists()


OWN = {"writer": "gpufleet.nvidia", "schema": 1}


def of_run(run):
    """The run that asks, and its rollout; of an earlier release of this collection by ''."""
    return {"record": {**OWN, "run": run, "rollout": f"of-{run}"} if run else OWN}


SETTLING = [
    # the run that begins a change, that takes it up, that settles it; the state, the rollout
    ("a", "", "a", "settled", ""),
    ("a", "", "b", "changing", "of-a"),
    ("a", "b", "b", "settled", ""),
    ("a", "b", "a", "changing", "of-b"),
    ("", "", "b", "settled", ""),
    ("", "b", "b", "settled", ""),
    ("", "b", "a", "changing", "of-b"),
]


@pytest.mark.parametrize(("begins", "takes", "settles", "state", "rollout"), SETTLING)
def test_a_run_settles_no_change_of_another_one(host, begins, takes, settles, state, rollout):
    ask(packages=[], **of_run(begins))
    if takes:
        assert ask(packages=[], **of_run(takes))["again"] is True
    said = ask("settle", **of_run(settles))
    assert (said["state"], said["rollout"]) == (state, rollout)
    assert read_record(host)["state"] == state


@pytest.mark.parametrize("rollout", [None, 7, "", "a b", "a" * 64, "week\n"])
def test_a_rollout_whose_name_has_another_form_is_not_named(host, rollout):
    ask(packages=[], record={**OWN, "run": "a", "rollout": rollout})
    assert ask("settle", **of_run("b"))["rollout"] == "unknown"


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"'])
def test_a_record_that_cannot_be_read_is_a_change_that_was_not_judged(host, text):
    ask(packages=[])
    (host.root / "j/kept/record.json").write_text(text)
    assert ask()["again"] is True
    assert ask("settle")["state"] == "settled"
    assert read_record(host)["writer"] == "gpufleet.nvidia"


def test_nothing_is_done_if_the_place_is_not_roots_alone(host, monkeypatch):
    def refuse(_root, _name):
        raise host_files.HostError("denied", "it may be written to by others", "Run chmod")

    monkeypatch.setattr(journal, "get_journal_directory", refuse)
    assert ask()["error"] == {"message": "it may be written to by others", "next": "Run chmod"}
    assert host.ran == []
