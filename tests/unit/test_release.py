# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make release` makes a whole release or nothing, and says why in one sentence.

Played is a small collection in a repository of its own. Git, antsibull-changelog and ansible-galaxy
are real. The judge, the trial of the archive and the SBOM need environments that a test does not
make: tests/tools/release.py runs them at each release.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit import tool_modules

with tool_modules.reachable():
    import release
    import release_needs
    import release_refusals
    import release_trial
    import release_words
    import semantic_versions

ROOT = Path(__file__).resolve().parents[2]
GALAXY = {
    "namespace": "gpufleet",
    "name": "nvidia",
    "version": "0.1.0",
    "readme": "README.md",
    "authors": ["A"],
    "description": "Made for a test",
    "repository": "https://example.org/r",
    "issues": "https://example.org/r/issues",
}
ONE = "minor_changes:\n  - host - says more.\n"
SUMMARY = "release_summary: The first release.\nmajor_changes:\n  - plan - shows ``changes``.\n"


def run_git(place: Path, *words: str) -> str:
    own = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *own, *words], cwd=place, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.org")
    root = tmp_path / "checkout"
    for name in ("changelogs/fragments", "docs", "meta", "plugins", "roles"):
        (root / name).mkdir(parents=True)
        (root / name / ".keep").write_text("")
    (root / "galaxy.yml").write_text(yaml.safe_dump(GALAXY, sort_keys=False))
    (root / "README.md").write_text("# Made for a test\n")
    (root / ".gitignore").write_text("/.cache/\n/changelogs/.plugin-cache.yaml\n")
    (root / "meta/runtime.yml").write_text('requires_ansible: ">=2.16.0"\n')
    (root / "docs/contract.json").write_text("{}\n")
    for name in ("changelogs/config.yaml",):
        (root / name).write_text((ROOT / name).read_text())
    (root / "changelogs/fragments/0.1.0.yml").write_text(SUMMARY)
    (root / "changelogs/fragments/one.yml").write_text(ONE)
    run_git(root, "init", "--quiet", "--initial-branch=main")
    commit(root)
    return root


def commit(root: Path) -> None:
    run_git(root, "add", "--all")
    run_git(root, "commit", "--quiet", "--message", "Change")


def leave_out_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("require_contract", "judge_archive", "try_archive", "write_sbom"):
        monkeypatch.setattr(release, name, lambda *given: None)


def list_made(root: Path) -> list[str]:
    folder = root / ".cache/release"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def write_entry(root: Path, version: str) -> None:
    entry = {"releases": {version: {"changes": {}, "release_date": "2026-01-01"}}}
    (root / "changelogs/changelog.yaml").write_text(yaml.safe_dump({"ancestor": None, **entry}))
    commit(root)


def break_galaxy(root: Path) -> None:
    (root / "galaxy.yml").write_text("namespace: gpufleet\nname: nvidia\n")
    commit(root)


def break_fragment(root: Path) -> None:
    (root / "changelogs/fragments/0.1.0.yml").write_text(SUMMARY + "no_such_section:\n  - x\n")
    commit(root)


def remove_summary(root: Path) -> None:
    (root / "changelogs/fragments/0.1.0.yml").unlink()
    commit(root)


def link_outside(name: str) -> Any:
    """Return what puts a link to a file outside of the checkout at a path in it."""

    def link(root: Path) -> None:
        outside = root.parent / "outside"
        outside.mkdir()
        (outside / "kept").write_text("version: of another file\n")
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(outside / "kept")
        commit(root)

    return link


# what is wrong, the version, the code
REFUSED: list[tuple[Any, str, str]] = [
    (lambda root: None, "", "release.version-form"),
    (lambda root: None, "v0.1.0", "release.version-form"),
    (lambda root: None, "0.1", "release.version-form"),
    (lambda root: None, "0.1.0+build", "release.version-form"),
    (lambda root: (root / "README.md").write_text("x"), "0.1.0-rc.1", "release.dirty"),
    (lambda root: (root / "new.md").write_text("x"), "0.1.0-rc.1", "release.dirty"),
    (lambda root: run_git(root, "tag", "v0.1.0-rc.1"), "0.1.0-rc.1", "release.exists"),
    (lambda root: run_git(root, "tag", "0.1.0-rc.1"), "0.1.0-rc.1", "release.exists"),
    (lambda root: write_entry(root, "0.1.0-rc.1"), "0.1.0-rc.1", "release.exists"),
    (lambda root: run_git(root, "tag", "v0.1.0-rc.2"), "0.1.0-rc.1", "release.not-newer"),
    (lambda root: write_entry(root, "0.1.0"), "0.1.0-rc.1", "release.not-newer"),
    (remove_summary, "0.1.0-rc.1", "release.no-fragment"),
    (lambda root: None, "0.2.0", "release.no-fragment"),
    (break_galaxy, "0.1.0-rc.1", "release.galaxy"),
    (break_fragment, "0.1.0-rc.1", "release.changelog"),
    (link_outside("galaxy.yml"), "0.1.0-rc.1", "release.link"),
    (link_outside("changelogs/fragments/0.1.0.yml"), "0.1.0-rc.1", "release.link"),
    (link_outside("docs/contract.json"), "0.1.0-rc.1", "release.link"),
    (link_outside("plugins/modules/host.py"), "0.1.0-rc.1", "release.link"),
    (link_outside("tests/fixtures/releases"), "0.1.0-rc.1", "release.link"),
]


@pytest.mark.parametrize(("spoil", "version", "code"), REFUSED)
def test_a_release_that_cannot_be_made_is_refused_and_leaves_nothing(
    spoil: Any, version: str, code: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out_environments(monkeypatch)
    spoil(place)
    before = run_git(place, "status", "--porcelain", "--branch")
    with pytest.raises(release.ReleaseRefused) as refused:
        release.make_release(place, version)
    assert refused.value.code == code
    assert list_made(place) == []
    assert run_git(place, "status", "--porcelain", "--branch") == before
    outside = [path for path in (place.parent / "outside").rglob("*") if path.is_file()]
    assert [path.read_text() for path in outside] in ([], ["version: of another file\n"])


def make_program(place: Path, text: str) -> Path:
    place.mkdir()
    (place / "python").write_text(text)
    (place / "python").chmod(0o755)
    return place


# what the environment of the SBOM's tool has as its Python
BROKEN = [
    "#!/bin/sh\necho 'ModuleNotFoundError: cyclonedx' >&2\nexit 1\n",
    "#!/bin/sh\nexit 0\n",
    "#!/no/such/interpreter\n",
]


@pytest.mark.parametrize("program", BROKEN)
def test_a_broken_tool_for_the_sbom_leaves_nothing(
    program: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sbom = release.write_sbom
    leave_out_environments(monkeypatch)
    monkeypatch.setattr(release, "write_sbom", sbom)
    programs = make_program(tmp_path / "bin", program)
    monkeypatch.setattr(release, "find_environment", lambda group: programs)
    with pytest.raises(release.ReleaseRefused) as refused:
        release.make_release(place, "0.1.0-rc.1")
    assert refused.value.code == "release.sbom"
    assert list_made(place) == []


@pytest.mark.parametrize(
    ("status", "words", "code"),
    [
        (0, "galaxy-importer: passed\nWARNING: a word\n", ""),
        (1, "galaxy-importer: FAILED\nERROR: no readme\n", "release.importer"),
        (0, "galaxy-importer: passed\nERROR: no licence\n", "release.importer"),
        (
            1,
            "galaxy-importer: FAILED\nERROR: Timeout on call to ansible-lint\nERROR: no readme\n",
            "release.importer",
        ),
        (
            0,
            "galaxy-importer: passed\nERROR: Timeout on call to ansible-lint\n",
            "release.importer-time",
        ),
    ],
)
def test_a_judgement_with_an_error_is_a_refusal(
    status: int, words: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "find_environment", lambda group: tmp_path)
    monkeypatch.setattr(release.archive, "judge", lambda built: print(words, end="") or status)
    (tmp_path / "built.tar.gz").write_text("")
    told = tmp_path / "told.txt"
    found = ""
    try:
        release.judge_archive(tmp_path / "built.tar.gz", told)
    except release.ReleaseRefused as refused:
        found = refused.code
    assert (found, told.exists()) == (code, not code)


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


def test_each_refusal_is_used_and_has_a_next_step() -> None:
    text = (ROOT / "tests/tools/release.py").read_text()
    assert set(re.findall(r'ReleaseRefused\(\s*"([a-z.-]+)"', text)) == set(
        release_refusals.REFUSALS
    )
    assert [code for code, says in release_refusals.REFUSALS.items() if ". " not in says] == []


def test_the_sbom_has_a_row_for_each_library_that_plugins_import() -> None:
    """The standard library apart, and that of newer Pythons, which plugins import if it is there."""
    named = {module for need in release_needs.NEEDS for module in need.modules}
    found = set()
    for path in (ROOT / "plugins").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found.update(name.name.partition(".")[0] for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    # _sha256 belongs to the standard library of Python 3.6 to 3.11
    assert found - {*sys.stdlib_module_names, "_sha256"} - named == set()
    rows = {need["name"]: need["versions"] for need in release_needs.list_needs()}
    assert (
        rows["ansible-core"]
        == yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["requires_ansible"]
    )


def test_readme_begins_with_the_commands_of_a_new_user() -> None:
    commands = release_trial.list_commands((ROOT / "README.md").read_text())
    assert commands[0] == release_trial.INSTALL
    assert len(commands) >= 3
    assert all(" gpufleet.nvidia." in command for command in commands[1:])


DESCRIBED = {
    **GALAXY,
    "archive": "gpufleet-nvidia-0.1.0-rc.1.tar.gz",
    "sha256": "ab" * 32,
}
NOTED = {
    "changes": {"release_summary": "It is\nthere.", "breaking_changes": ["host - ``cdi`` goes."]}
}


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("0.1.0-rc.1", "ansible-galaxy collection install gpufleet.nvidia:==0.1.0-rc.1"),
        ("0.1.0", "ansible-galaxy collection install gpufleet.nvidia"),
    ],
)
def test_the_announcement_says_how_to_install_what_breaks_and_where_to_ask(
    version: str, wanted: str
) -> None:
    lines = release_words.build_announcement({**DESCRIBED, "version": version}, NOTED).splitlines()
    assert lines[0] == f"# gpufleet.nvidia {version}"
    assert wanted in lines
    assert "- host - `cdi` goes." in lines
    assert any("forum.ansible.com" in line for line in lines)
    assert any("release candidate" in line for line in lines) == semantic_versions.is_candidate(
        version
    )


def test_the_text_of_the_tag_names_the_archive_and_its_digest() -> None:
    text = release_words.build_tag_text({**DESCRIBED, "version": "0.1.0-rc.1"}, NOTED)
    assert text.startswith("gpufleet.nvidia 0.1.0-rc.1\n\nIt is there.\n\n")
    assert DESCRIBED["archive"] in text
    assert "ab" * 32 in text
