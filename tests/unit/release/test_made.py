# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release leaves: its files, the next release after it, and an archive with the same bytes."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.unit import tool_modules

with tool_modules.reachable():
    import archive
    import release

from .conftest import GALAXY, ONE, commit, leave_out_environments, link_outside, list_made, run_git


def test_a_release_can_be_made_where_its_branch_is_checked_out(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out_environments(monkeypatch)
    run_git(place, "checkout", "--quiet", "-b", "release-0.1.0-rc.1")
    made = release.make_release(place, "0.1.0-rc.1")
    run_git(place, "bundle", "verify", "--quiet", str(made / "release.bundle"))


def write_tar(path: Path, order: list[str]) -> Path:
    """Write an archive as ansible-galaxy does where a directory names its files in this order."""
    listed = {"files": [{"name": name, "ftype": "file"} for name in order], "format": 1}
    files = json.dumps(listed, indent=True).encode()
    digest = release.hashlib.sha256(files).hexdigest()
    head = {"collection_info": {"name": "nvidia"}, "file_manifest_file": {"chksum_sha256": digest}}
    contents = {
        "MANIFEST.json": json.dumps(head, indent=True).encode(),
        "FILES.json": files,
        **{name: name.encode() for name in order},
    }
    with tarfile.open(path, "w:gz") as opened:
        for name, data in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            opened.addfile(entry, io.BytesIO(data))
    return path


def test_an_archive_does_not_tell_the_order_of_a_directory(tmp_path: Path) -> None:
    one = archive.packed(write_tar(tmp_path / "1.tar.gz", ["a", "b/c", "b.d"]), 1)
    other = archive.packed(write_tar(tmp_path / "2.tar.gz", ["b.d", "b/c", "a"]), 1)
    assert one == other
    with tarfile.open(fileobj=io.BytesIO(one)) as opened:
        manifest, files = (opened.extractfile(name) for name in ("MANIFEST.json", "FILES.json"))
        assert manifest
        assert files
        text = files.read()
        digest = json.load(manifest)["file_manifest_file"]["chksum_sha256"]
    assert [entry["name"] for entry in json.loads(text)["files"]] == ["a", "b.d", "b/c"]
    assert digest == release.hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize("said", ["never", "-1", "1.5", "4294967296", "\u0661", " 1"])
def test_a_time_that_no_archive_can_have_is_refused(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", said)
    with pytest.raises(archive.ArchiveFailed):
        archive.committed()


def test_two_releases_one_after_the_other(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_environments(monkeypatch)
    first = release.make_release(place, "0.1.0-rc.1")
    assert run_git(place, "status", "--porcelain") == ""
    assert list_made(place) == ["0.1.0-rc.1"]
    assert sorted(path.name for path in first.iterdir()) == [
        "CHANGELOG.rst",
        "SHA256SUMS",
        "announcement.md",
        "changelog.yaml",
        "gpufleet-nvidia-0.1.0-rc.1.tar.gz",
        "release.bundle",
        "tag.txt",
    ]
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=first, check=True)
    with tarfile.open(first / "gpufleet-nvidia-0.1.0-rc.1.tar.gz") as opened:
        manifest = json.load(opened.extractfile("MANIFEST.json"))  # type: ignore[arg-type]
        assert opened.getnames() == sorted(opened.getnames())
    assert manifest["collection_info"]["version"] == "0.1.0-rc.1"
    # of the fragments before the first release only the summary is told
    noted = yaml.safe_load((first / "changelog.yaml").read_text())["releases"]["0.1.0-rc.1"]
    assert sorted(noted["changes"]) == ["major_changes", "release_summary"]
    # the maintainer takes the commit, and makes the next release of it
    run_git(place, "fetch", "--quiet", str(first / "release.bundle"), "release-0.1.0-rc.1")
    run_git(place, "merge", "--quiet", "--ff-only", "FETCH_HEAD")
    run_git(place, "tag", "--annotate", "--file", str(first / "tag.txt"), "v0.1.0-rc.1")
    assert [path.name for path in (place / "changelogs/fragments").glob("*.yml")] == []
    assert (place / "tests/fixtures/releases/0.1.0-rc.1/contract.json").read_text() == "{}\n"
    (place / "changelogs/fragments/0.1.0.yml").write_text("release_summary: It is there.\n")
    (place / "changelogs/fragments/two.yml").write_text(ONE)
    commit(place)
    second = release.make_release(place, "0.1.0")
    noted = yaml.safe_load((second / "changelog.yaml").read_text())["releases"]
    assert list(noted) == ["0.1.0", "0.1.0-rc.1"]
    assert sorted(noted["0.1.0"]["changes"]) == ["minor_changes", "release_summary"]


def test_a_link_in_the_tree_of_a_host_of_the_lab_is_no_hindrance(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out_environments(monkeypatch)
    link_outside("tests/lab/tree/host/opt/bin")(place)
    galaxy = {**GALAXY, "build_ignore": ["tests"]}
    (place / "galaxy.yml").write_text(yaml.safe_dump(galaxy, sort_keys=False))
    commit(place)
    made = release.make_release(place, "0.1.0-rc.1")
    with tarfile.open(made / "gpufleet-nvidia-0.1.0-rc.1.tar.gz") as opened:
        assert [name for name in opened.getnames() if name.startswith("tests")] == []
