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
import fcntl
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit import tool_modules

with tool_modules.reachable():
    import archive
    import release
    import release_checks
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


def hide_change(bit: str) -> Any:
    """Return what changes a file that git was told to take for unchanged."""

    def hide(root: Path) -> None:
        run_git(root, "update-index", bit, "meta/runtime.yml")
        (root / "meta/runtime.yml").write_text('requires_ansible: ">=2.99.0"\n')

    return hide


def hide_untracked(root: Path) -> None:
    run_git(root, "config", "status.showUntrackedFiles", "no")
    (root / "changelogs/fragments/two.yml").write_text(ONE)


def add_submodule(root: Path) -> None:
    head = run_git(root, "rev-parse", "HEAD").strip()
    run_git(root, "update-index", "--add", "--cacheinfo", f"160000,{head},plugins/other")
    (root / "plugins/other").mkdir()
    run_git(root, "commit", "--quiet", "--message", "Change")


def add_file(name: str, text: str) -> Any:
    """Return what commits a file."""

    def add(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        commit(root)

    return add


def change_frozen(name: str, after: str | None) -> Any:
    """Return what changes a file that a release was tagged with, or removes it."""

    def change(root: Path) -> None:
        path = root / "tests/fixtures/releases/0.1.0-rc.1" / name
        add_file(str(path.relative_to(root)), '{"module host": {}}\n')(root)
        run_git(root, "tag", "v0.1.0-rc.1")
        path.unlink() if after is None else path.write_text(after)
        commit(root)

    return change


def break_build(root: Path) -> None:
    both = {**GALAXY, "build_ignore": ["tests"], "manifest": {}}
    (root / "galaxy.yml").write_text(yaml.safe_dump(both, sort_keys=False))
    commit(root)


FRAGMENT = "changelogs/fragments/0.1.0.yml"
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
    (hide_change("--assume-unchanged"), "0.1.0-rc.1", "release.dirty"),
    (hide_change("--skip-worktree"), "0.1.0-rc.1", "release.dirty"),
    (hide_untracked, "0.1.0-rc.1", "release.dirty"),
    (add_submodule, "0.1.0-rc.1", "release.submodule"),
    (add_file("plugins/modules/a\nb.py", ""), "0.1.0-rc.1", "release.name"),
    (add_file("plugins/modules/a\u202eb.py", ""), "0.1.0-rc.1", "release.name"),
    (add_file(os.fsdecode(b"docs/\xff.md"), ""), "0.1.0-rc.1", "release.name"),
    (change_frozen("contract.json", "{}\n"), "0.1.0", "release.frozen"),
    (change_frozen("contract.json", None), "0.1.0", "release.frozen"),
    (change_frozen("host-docker.json", "{}\n"), "0.1.0", "release.frozen"),
    (add_file(FRAGMENT, "release_summary: 'a\n"), "0.1.0-rc.1", "release.yaml"),
    (add_file(FRAGMENT, "- release_summary\n"), "0.1.0-rc.1", "release.yaml"),
    (add_file(FRAGMENT, "17\n"), "0.1.0-rc.1", "release.yaml"),
    (add_file(FRAGMENT, "release_summary: 2026-99-99\n"), "0.1.0-rc.1", "release.yaml"),
    (add_file(FRAGMENT, "[" * 20000), "0.1.0-rc.1", "release.yaml"),
    (
        add_file(FRAGMENT, "release_summary: !!python/name:os.system\n"),
        "0.1.0-rc.1",
        "release.yaml",
    ),
    (add_file(release_checks.CHANGELOG, "[]\n"), "0.1.0-rc.1", "release.yaml"),
    (add_file(release_checks.CHANGELOG, "releases: [1]\n"), "0.1.0-rc.1", "release.yaml"),
    (break_build, "0.1.0-rc.1", "release.build"),
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


def test_programs_that_no_lock_names_make_no_release(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_checks.environments, "NEWEST", True)
    with pytest.raises(release.ReleaseRefused) as refused:
        release.make_release(place, "0.1.0-rc.1")
    assert refused.value.code == "release.newest"


def test_a_second_release_at_the_same_time_is_refused(place: Path) -> None:
    (place / ".cache").mkdir()
    with (place / ".cache/release.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(release.ReleaseRefused) as refused:
            release.make_release(place, "0.1.0-rc.1")
    assert refused.value.code == "release.running"


def test_a_machine_that_fails_is_named_in_a_sentence(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    leave_out_environments(monkeypatch)
    monkeypatch.setattr(release, "write_changelog", fail)
    with pytest.raises(release.ReleaseRefused) as refused:
        release.make_release(place, "0.1.0-rc.1")
    assert refused.value.code == "release.system"
    assert list_made(place) == []


# Stops in the middle, and says so: its first argument is the repository.
STOPPED = """
import signal, sys
from pathlib import Path
sys.path.insert(0, {tools!r})
import release
def wait(*given):
    print("in the middle", flush=True)
    while True:  # signal.pause() would sleep through one that comes just before it
        signal.sigtimedwait((), 1)
release.require_contract = wait
place = Path(sys.argv[1])
sys.exit(release.main(["0.1.0-rc.1"], lambda root, version: release.make_release(place, version)))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_release_that_is_stopped_leaves_nothing_for_the_next_one(
    number: signal.Signals, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = STOPPED.format(tools=str(tool_modules.TOOLS))
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(place)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == "in the middle\n"
    process.send_signal(number)
    _told, words = process.communicate()
    if number == signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert (process.returncode, list_made(place)) == (1, []), words
        assert "[release.stopped]" in words
    leave_out_environments(monkeypatch)
    release.make_release(place, "0.1.0-rc.1")
    assert list_made(place) == ["0.1.0-rc.1"]


def test_a_release_can_be_made_where_its_branch_is_checked_out(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out_environments(monkeypatch)
    run_git(place, "checkout", "--quiet", "-b", "release-0.1.0-rc.1")
    made = release.make_release(place, "0.1.0-rc.1")
    run_git(place, "bundle", "verify", "--quiet", str(made / "release.bundle"))


# --- what the caller has set
# --------------------------------------------------------------------------------------------------

# Each of these changes files at a checkout, hides some, asks for a key, fetches from elsewhere, or
# prints more.
OF_A_PERSON = """\
[core]
\tautocrlf = true
\tattributesFile = {home}/attributes
\texcludesFile = {home}/ignored
\thooksPath = {home}/hooks
[filter "spoil"]
\tsmudge = sed s/e/E/g
[commit]
\tgpgSign = true
[gpg]
\tprogram = false
[log]
\tshowSignature = true
[column]
\tui = always
[uploadpack]
\tpackObjectsHook = false
[url "{home}/elsewhere"]
\tinsteadOf = {place}
"""


def set_git(place: Path, home: Path) -> dict[str, str]:
    """Give a person settings of git."""
    (home / ".gitconfig").write_text(OF_A_PERSON.format(home=home, place=place))
    (home / "attributes").write_text("*.md filter=spoil\n* text\n")
    (home / "ignored").write_text("*.json\n")
    (home / "hooks").mkdir()
    for name in ("post-checkout", "pre-commit", "commit-msg", "reference-transaction"):
        (home / "hooks" / name).write_text("#!/bin/sh\nexit 1\n")
        (home / "hooks" / name).chmod(0o755)
    return {"HOME": str(home)}


def set_another_repository(place: Path, home: Path) -> dict[str, str]:
    """Make another repository that of git's variables, as its hooks and rebases do."""
    make_other(home)
    return {
        "GIT_DIR": str(home / "other/.git"),
        "GIT_WORK_TREE": str(home / "other"),
        "GIT_INDEX_FILE": str(home / "other/.git/index"),
    }


def set_programs(place: Path, home: Path) -> dict[str, str]:
    """Set what changes how Python, Ansible and others work."""
    for name in ("yaml.py", "packaging.py", "sitecustomize.py"):
        (home / name).write_text("import os\nos._exit(9)\n")
    (home / "ansible.cfg").write_text("[defaults]\nhome = /proc/none\n")
    return {
        "PYTHONPATH": str(home),
        "ANSIBLE_CONFIG": str(home / "ansible.cfg"),
        "ANSIBLE_HOME": "/proc/none",
        "SOURCE_DATE_EPOCH": "never",
        "TZ": "Pacific/Kiritimati",
        "LC_ALL": "C",
    }


def make_other(home: Path) -> None:
    (home / "other").mkdir()
    run_git(home / "other", "init", "--quiet")
    (home / "other/mine.txt").write_text("mine\n")
    commit(home / "other")


def read_other(home: Path) -> list[str]:
    """Return the commits and the files of the other repository; [] if there is none."""
    other = home / "other"
    if not other.exists():
        return []
    return [run_git(other, "log", "--format=%s"), run_git(other, "ls-files", "--stage")]


def read_archive(made: Path, name: str) -> bytes:
    with tarfile.open(next(made.glob("*.tar.gz"))) as opened:
        found = opened.extractfile(name)
        assert found
        return found.read()


@pytest.fixture
def as_it_is(place: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The list of files, with their digests, of an archive where nothing is set."""
    leave_out_environments(monkeypatch)
    return read_archive(release.make_release(place, "0.1.0-rc.1"), "FILES.json")


@pytest.mark.parametrize("prepare", [set_git, set_another_repository, set_programs])
def test_what_the_caller_has_set_changes_nothing(
    prepare: Any, as_it_is: bytes, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    given = prepare(place, home)
    before = read_other(home)
    with monkeypatch.context() as caller:
        for name, value in given.items():
            caller.setenv(name, value)
        mask = os.umask(0o177)
        try:
            made = release.make_release(place, "0.1.0-rc.1")
        finally:
            os.umask(mask)
    assert read_archive(made, "FILES.json") == as_it_is
    assert (place / "README.md").read_text() == "# Made for a test\n"
    assert read_other(home) == before
    run_git(place, "fetch", "--quiet", str(made / "release.bundle"), "release-0.1.0-rc.1")
    kept = "tests/fixtures/releases/0.1.0-rc.1/contract.json"
    assert run_git(place, "show", f"FETCH_HEAD:{kept}") == "{}\n"


def test_modules_beside_the_caller_are_not_the_programs_of_a_release(tmp_path: Path) -> None:
    for name in ("yaml", "json", "archive"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)\n")
    recipe = (ROOT / "Makefile").read_text().partition("\nrelease:")[2].partition("\n\n")[0]
    command = re.search(r"python (-.*) tests/tools/release.py \"\$\$VERSION\"", recipe)
    assert command
    done = subprocess.run(
        [sys.executable, *command[1].split(), str(ROOT / "tests/tools/release.py"), "v1"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, "[release.version-form]" in done.stderr) == (1, True), done.stderr


# --- the archive
# --------------------------------------------------------------------------------------------------


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
    text = "\n".join(path.read_text() for path in tool_modules.TOOLS.glob("release*.py"))
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
