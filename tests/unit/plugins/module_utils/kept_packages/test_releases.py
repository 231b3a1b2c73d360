# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages that are let go before a change: a release that fails or is killed is taken back."""

import json
import types

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    deep_folders,
    kept_packages,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    journal_writer,
)

from .conftest import FREE, UNHOLD, Killed, ask, read_record


@pytest.fixture
def apt(host, monkeypatch):
    """The packages that apt holds on a host, and where a run is killed."""
    found = types.SimpleNamespace(held={"libcuda1"}, dies="")
    answer, write = commands.run, journal_writer.write_json

    def run(argv, **more):
        if argv[0] != "apt-mark":
            return answer(argv, **more)
        if found.dies == "before":
            raise Killed
        said = answer(argv, **more)
        if said["rc"] == 0:
            act = {"hold": found.held.update, "unhold": found.held.difference_update}[argv[1]]
            act(argv[2:])
        if found.dies == "after":
            raise Killed
        return said

    def note(path, values):
        if found.dies == "note" and values.get("state") == "changing":
            raise Killed
        write(path, values)

    monkeypatch.setattr(commands, "run", run)
    monkeypatch.setattr(journal_writer, "write_json", note)
    return found


HELD_BY = FREE["undo"]
SMI_FREE = {
    "argv": ["apt-mark", "unhold", "nvidia-smi"],
    "undo": ["apt-mark", "hold", "nvidia-smi"],
}
NO_UNHOLD, NO_HOLD = {"apt-markunhold": (1, "")}, {"apt-markhold": (1, "")}
CUT_OFF = [
    # where a run is killed, what the next one asks for, which commands fail then; whether it is
    # refused, what apt holds, the state that is noted, what may be free by the note
    ("before", UNHOLD, {}, False, [], "changing", []),
    ("after", {}, {}, False, [], "changing", []),
    ("note", {}, {}, False, [], "changing", []),
    # the look that it asks by is older than that
    ("after", UNHOLD, {}, False, [], "changing", []),
    ("before", {"demand": True}, {}, True, ["libcuda1"], "", []),
    ("after", {"demand": True}, {}, True, ["libcuda1"], "", []),
    ("after", {"demand": True}, NO_HOLD, False, [], "preparing", [HELD_BY]),
    ("after", {"release": [SMI_FREE]}, NO_UNHOLD, False, ["libcuda1", "nvidia-smi"], "preparing", []),
    ("after", {"release": [SMI_FREE]}, {**NO_UNHOLD, **NO_HOLD}, False, [], "preparing", [HELD_BY, SMI_FREE["undo"]]),
]  # fmt: skip


@pytest.mark.parametrize(("dies", "asked", "fails", "refused", "held", "state", "free"), CUT_OFF)
def test_a_release_that_is_killed_is_noted_and_made_right_by_the_next_run(
    host, apt, dies, asked, fails, refused, held, state, free
):
    apt.dies = dies
    with pytest.raises(Killed):
        ask(packages=[], **UNHOLD)
    assert apt.held == ({"libcuda1"} if dies == "before" else set())
    noted = read_record(host)
    assert (noted["state"], noted["releasing"]) == ("preparing", [HELD_BY])
    apt.dies, host.says = "", fails
    for _run in (1, 2):  # the second one finds what the first one has left
        said = ask(packages=[], **asked)
        assert (said["refused"], bool(said["error"])) == (refused, bool(fails))
        assert sorted(apt.held) == held
        path = host.root / "j/kept/record.json"
        left = json.loads(path.read_text()) if path.exists() else {"state": "", "releasing": []}
        assert (left["state"], sorted(left["releasing"])) == (state, free)


def test_a_hold_that_cannot_be_released_is_an_error(host):
    host.says = {"apt-markunhold": (1, "")}
    said = ask(packages=[], **UNHOLD)
    assert said["error"]["message"] == "apt-mark unhold libcuda1: refused"
    assert read_record(host)["state"] == "preparing", "no task of the user's runs"


REMOVALS = [
    # what a converge asks for; whether the note stays
    ({"settled": True}, True),
    ({"settled": True, "releasing": False}, True),
    ({"settled": True, "releasing": True}, False),
    ({"settled": False, "releasing": False}, False),
]


@pytest.mark.parametrize(("asked", "stays"), REMOVALS)
def test_a_hold_that_may_be_gone_since_a_look_stays_noted(host, apt, asked, stays):
    apt.dies = "after"
    with pytest.raises(Killed):
        ask(packages=[], **UNHOLD)
    said = ask("remove", **asked)
    assert (said["error"], said["state"]) == (None, "preparing" if stays else "")
    assert (host.root / "j/kept").exists() is stays


def test_what_is_held_again_is_not_noted_as_free_in_a_folder_that_stays(host, apt, monkeypatch):
    apt.dies = "after"
    with pytest.raises(Killed):
        ask(packages=[], **UNHOLD)
    apt.dies = ""

    def refuse(_path):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(deep_folders, "remove_deep_tree", refuse)
    monkeypatch.setattr(kept_packages, "_clear", lambda _folder: None)
    assert ask(packages=[], demand=True)["refused"] is True
    assert apt.held == {"libcuda1"}
    assert read_record(host)["releasing"] == []


LOCKS = [
    # the command that fails; the commands that run then, in their order, and the ones that stay
    ("dnf two", ["sed one", "dnf two", "dnf again", "sed back"], []),
    ("record", ["sed one", "dnf two", "dnf again", "sed back"], []),
    ("dnf two, sed back", ["sed one", "dnf two", "dnf again", "sed back"], ["sed one"]),
    ("record, dnf again, sed back", ["sed one", "dnf two", "dnf again", "sed back"], ["sed one", "dnf two"]),
    ("sed one", ["sed one", "sed back"], []),
    ("", ["sed one", "dnf two"], ["sed one", "dnf two"]),
]  # fmt: skip


@pytest.mark.parametrize(("fails", "runs", "stays"), LOCKS)
def test_a_release_whose_preparation_fails_is_undone(host, monkeypatch, fails, runs, stays):
    pairs = [("sed one", "sed back"), ("dnf two", "dnf again")]
    release = [{"argv": argv.split(), "undo": undo.split()} for argv, undo in pairs]
    host.says = {name.replace(" ", ""): (1, "") for name in fails.split(", ")}
    write = journal_writer.write_json

    def fill(path, values):
        if fails.startswith("record") and values.get("state") == "changing":
            raise OSError(28, "No space left on device")
        write(path, values)

    monkeypatch.setattr(journal_writer, "write_json", fill)
    said = ask(packages=[], release=release)
    assert [" ".join(argv) for argv in host.ran] == runs
    assert [" ".join(row["argv"]) for row in said["ran"]] == stays
    assert bool(said["error"]) is bool(fails)
    assert said["state"] == read_record(host)["state"] == ("preparing" if fails else "changing")
    # what could not be held again stays noted, in the order in which it was released
    free = [undo.split() for _argv, undo in pairs if undo in fails.split(", ")]
    assert read_record(host)["releasing"] == free
