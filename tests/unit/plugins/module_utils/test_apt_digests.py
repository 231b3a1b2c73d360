# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The digests that a real apt states, of repositories in folders."""

import shutil
import subprocess

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import apt_digests, commands

PACKAGE = ("libcuda1", "amd64", "535.261.03-1")
GOOD, BAD = "a" * 64, "b" * 64
STANZA = """Package: libcuda1
Version: 535.261.03-1
Architecture: amd64
Maintainer: A person <person@example.org>
Description: a library
Filename: ./libcuda1.deb
Size: %d
SHA256: %s

"""
STATUS = """Package: libcuda1
Status: install ok installed
Version: 535.261.03-1
Architecture: amd64
Maintainer: A person <person@example.org>
Description: a library

"""
CONFIGURATION = """Dir "%(dir)s";
Dir::State "%(dir)s/state";
Dir::State::status "%(dir)s/status";
Dir::Cache "%(dir)s/cache";
Dir::Etc "%(dir)s/etc";
APT::Architecture "amd64";
APT::Sandbox::User "";
Acquire::Languages "none";
"""


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """Return a function that makes repositories, each of (size, digest), in their order."""
    for folder in ("state/lists/partial", "cache/archives/partial", "etc/apt.conf.d"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("preferences.d", "sources.list.d", "trusted.gpg.d"):
        (tmp_path / "etc" / folder).mkdir()
    (tmp_path / "status").write_text(STATUS)
    (tmp_path / "apt.conf").write_text(CONFIGURATION % {"dir": tmp_path})
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    monkeypatch.setattr(commands, "asked_for", ["APT_CONFIG"])

    def make(*repositories, newer=""):
        lines = []
        for number, stated in enumerate(repositories):
            folder = tmp_path / f"repository{number}"
            folder.mkdir()
            (folder / "Packages").write_text(STANZA % stated + newer)
            lines.append(f"deb [trusted=yes] copy:{folder} ./\n")
        (tmp_path / "etc/sources.list").write_text("".join(lines))
        subprocess.run(["apt-get", "-qq", "update"], check=True, timeout=60)

    return make


STATED = [
    # size and digest of each repository; what is stated
    ([(7, GOOD)], {PACKAGE: {(GOOD, 7)}}),
    ([(7, GOOD), (7, GOOD)], {PACKAGE: {(GOOD, 7)}}),
    # apt shows these as one version, by the record of the first
    ([(7, GOOD), (7, BAD)], {PACKAGE: None}),
    ([(7, BAD), (7, GOOD)], {PACKAGE: None}),
    # and these as two
    ([(7, GOOD), (8, BAD)], {PACKAGE: None}),
    ([], {}),
]


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="this machine has no apt")
@pytest.mark.parametrize(("repositories", "stated"), STATED)
def test_repositories_that_disagree_state_no_digest(configured, repositories, stated):
    configured(*repositories)
    assert apt_digests.list_stated_digests([PACKAGE]) == stated


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="this machine has no apt")
def test_an_apt_that_shows_newest_versions_alone_states_the_installed_one(configured, tmp_path):
    with (tmp_path / "apt.conf").open("a") as stream:
        stream.write('APT::Cache::AllVersions "false";\n')
    newer = (STANZA % (8, BAD)).replace("535.261.03-1", "550.163.01-1")
    configured((7, GOOD), newer=newer)
    assert apt_digests.list_stated_digests([PACKAGE])[PACKAGE] == {(GOOD, 7)}
