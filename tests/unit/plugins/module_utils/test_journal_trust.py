# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal's directory and the program in it are judged before anything there is written or run."""

import os
import re
import stat

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import observe
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import launcher

from .conftest import CONFIG, RESTART

# --- the journal's directory is judged before anything in it is written or run
# --------------------------------------------

ANOTHER = 12345


def _world(host):
    os.mkdir(host.journal)
    os.chmod(host.journal, 0o777)


def _anothers(host):
    os.mkdir(host.journal)
    os.chown(host.journal, ANOTHER, ANOTHER)


def _link_into_a_home(host):
    home = host.directory / "home"
    home.mkdir()
    (home / "journal").mkdir()
    os.chown(str(home), ANOTHER, ANOTHER)
    os.symlink(str(home / "journal"), host.journal)


def _below_anothers(host):
    os.makedirs(host.journal)
    os.chown(str(host.directory), ANOTHER, ANOTHER)


def _part(kind, name="program"):
    def make(host):
        os.makedirs(host.journal, 0o755)
        place = os.path.join(host.journal, name)
        if kind == "link":
            os.mkdir(str(host.directory / "elsewhere"))
            os.symlink(str(host.directory / "elsewhere"), place)
            return
        os.mkdir(place)
        if kind == "mode":
            os.chmod(place, 0o770)
        else:
            os.chown(place, ANOTHER, ANOTHER)

    return make


def _file(host):
    """What another account left behind in a directory that is ours now."""
    place = os.path.join(host.journal, "originals", "x")
    os.makedirs(place)
    path = os.path.join(place, "content")
    open(path, "w").close()
    os.chown(path, ANOTHER, ANOTHER)


WRONG = {
    "everybody may write to it": (_world, "may be written to by others (mode 0777)"),
    "it is another account's": (_anothers, "belongs to user 12345"),
    "it is a link into a home": (_link_into_a_home, "belongs to user 12345"),
    "it stands in another account's directory": (_below_anothers, "belongs to user 12345"),
    "the programs' directory is another account's": (_part("owner"), "belongs to user 12345"),
    "the programs' directory may be written to": (
        _part("mode"),
        "may be written to by others (mode 0770)",
    ),
    "the programs' directory is a link": (_part("link"), "is a symbolic link"),
    "the directory of programs' words is another account's": (
        _part("owner", "said"),
        "belongs to user 12345",
    ),
    "the directory of specs set aside is another account's": (
        _part("owner", "aside"),
        "belongs to user 12345",
    ),
    "a kept file is another account's": (_file, "belongs to user 12345"),
}


def _state(directory):
    return sorted(
        (where, subdirs, names) for where, subdirs, names in os.walk(directory, followlinks=True)
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "here"])
@pytest.mark.parametrize("wrong", sorted(WRONG))
def test_a_journal_that_is_not_roots_alone_is_refused_before_anything_is_written_or_run(
    host, wrong, alone
):
    make, sentence = WRONG[wrong]
    make(host)
    before = _state(str(host.directory))
    found = host.run([host.write(host.config, "new\n")], units=RESTART, alone=alone)
    assert (found["error"]["phase"], found["changed"]) == ("lock", False)
    assert sentence in found["error"]["message"]
    assert re.search("chown root on|run chown root and chmod go-w", found["error"]["next"])
    assert _state(str(host.directory)) == before
    assert not host.runs.exists(), "nothing was given to systemd"
    assert host.config.read_text() == CONFIG
    told = observe.run(
        {
            "schema": 1,
            "root": "/",
            "questions": [{"id": "o", "kind": "originals", "dir": host.journal}],
        }
    )
    assert told["answers"]["o"]["error"]["kind"] == "denied", "what it says is not believed either"


def _given_away(path):
    os.chown(path, ANOTHER, ANOTHER)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(
    "spoil",
    [
        _given_away,
        lambda path: os.chmod(path, 0o666),
        lambda path: os.link(path, path + ".other"),
        lambda path: (os.rename(path, path + ".other"), os.symlink(path + ".other", path)),
        lambda path: open(path, "a").close() or os.truncate(path, 10),
        lambda path: (
            open(path + ".new", "w").close(),
            os.chown(path + ".new", ANOTHER, ANOTHER),
            os.truncate(path, 1),
        ),
    ],
    ids=[
        "another's",
        "writable",
        "a further name",
        "a link",
        "cut off",
        "a half-written one of another's",
    ],
)
def test_a_program_that_is_not_as_we_wrote_it_is_written_again(host, spoil):
    path = launcher.install(host.journal)
    with open(path, "rb") as stream:
        good = stream.read()
    spoil(path)
    assert launcher.install(host.journal) == path
    found = os.lstat(path)
    assert (
        stat.S_ISREG(found.st_mode),
        found.st_uid,
        stat.S_IMODE(found.st_mode),
        found.st_nlink,
    ) == (True, 0, 0o600, 1)
    with open(path, "rb") as stream:
        assert stream.read() == good
