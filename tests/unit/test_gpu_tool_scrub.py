# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing that names a machine leaves it with what was measured."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.gpu import (
    main,
    report,
    scrub,
)
from tests.unit import gpu_tool


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gpu_tool.build_program(tmp_path_factory.mktemp("gpu"))


SECRETS = {
    "serial": ["1322021012345", "PF3XW9AB"],
    "PDI": ["1311768467294899695", "1234567890abcdef"],
    "UUID": ["GPU-11111111-2222-3333-4444-555555555555"],
    "MAC": ["02:fc:00:00:00:05"],
    "address": ["198.51.100.7", "2001:db8:0:1::7"],
    "host name": ["gpu-node-17.example.org", "gpu-node-17"],
    "machine id": ["0123456789abcdef0123456789abcdef"],
    "account": ["alice", "acme-hpc"],
}
TOLD = [(kind, form % text) for kind, texts in SECRETS.items() for text in texts
        for form in ("%s", "of %s.", '{"a": "%s"}', "/dev/%s/b")]  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), TOLD)
def test_nothing_that_names_the_machine_is_written(kind: str, text: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scrub, "list_names", lambda: SECRETS["host name"])
        path = main.write(str(tmp_path), "report.json", {"found": [text], f"a:{text}": 1}, SECRETS)
    written = Path(path).read_text()
    assert scrub.find_left(written, SECRETS) == []
    assert scrub.find_left(text, SECRETS) == [kind]


@pytest.mark.parametrize("name", ["node", "cuda", "nvidia"])
def test_a_machine_with_an_ordinary_name_is_measured(name: str, tmp_path: Path) -> None:
    document = {
        "from": "node",
        "path": "/usr/local/cuda",
        "hostname": name,
        "seen": f"at {name}.example.org",
    }
    names = [f"{name}.example.org", name]
    secrets = {scrub.NAMES: scrub.list_telling(names)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scrub, "list_names", lambda: names)
        path = main.write(str(tmp_path), "report.json", document, secrets)
    assert json.loads(Path(path).read_text()) == {**document, "hostname": "host", "seen": "at host"}


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        (
            "/home/alice/lib64 belongs to user alice.",
            "/home/account/lib64 belongs to user account.",
        ),
        ("/home/of-no-list/lib64", "/home/account/lib64"),
        ("malice, alice2 and /srv/ALICE-1", "malice, alice2 and /srv/account-1"),
    ],
)
def test_no_account_is_named(text: str, sent: str) -> None:
    assert scrub.blanked([text], [], [], ["alice"]) == [sent]


def test_accounts_of_people_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word of this program, such as the user of an image, tells nothing."""
    for name in scrub.AT_WORK:
        monkeypatch.setenv(name, "root")
    monkeypatch.setenv("SUDO_USER", "of-a-directory")
    users, groups = tmp_path / "passwd", tmp_path / "group"
    users.write_text(
        "root:x:0:0::/root:\ndaemon7:x:7:7:::\nzoltan:x:1000:1000:::\nubuntu:x:1001:1001:::\n"
        "nobody7:x:65534:65534:::\nodd\n"
    )
    groups.write_text("acme-hpc:x:40321:zoltan\n")
    found = scrub.list_accounts((str(users), str(groups), str(tmp_path / "absent")))
    assert found == ["of-a-directory", "acme-hpc", "zoltan"]


def test_the_file_knows_its_own_words(program: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from tests.gpu import scrub; print(scrub.list_telling(['node', 'k3s', 'gpu1']))"
    done = gpu_tool.run_program([*gpu_tool.BARE, "-c", code, program])
    assert (done.stdout, done.stderr) == ("['gpu1']\n", "")


def test_what_cannot_be_scrubbed_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(main.Ended) as caught:
        main.write(str(tmp_path), "report.json", {"1322021012345": 1}, SECRETS)
    assert (caught.value.code, list(tmp_path.iterdir())) == ("not-scrubbed", [])
    assert "1322021012345" not in caught.value.sentence


@pytest.mark.parametrize("turned", [False, True], ids=["its file", "its folder"])
def test_root_writes_through_no_link_of_another_account(turned: bool, tmp_path: Path) -> None:
    theirs, roots = tmp_path / "theirs", tmp_path / "roots"
    for folder in (theirs, roots):
        folder.mkdir()
    (roots / "report.json").write_text("root's\n")
    (theirs / ("out" if turned else "report.json")).symlink_to(
        roots if turned else roots / "report.json"
    )
    os.chown(theirs, 65534, 65534)
    with pytest.raises(main.Ended) as caught:
        main.make_folder(str(theirs / "out" if turned else theirs))
    assert (caught.value.code, report.STATUSES[caught.value.code]) == ("untrusted", 2)
    main.write(str(theirs), "report.json", {}, {})
    assert (roots / "report.json").read_text() == "root's\n"


def test_a_full_disk_leaves_the_report_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = main.write(str(tmp_path), "report.json", {"first": 1}, {})
    before = Path(path).read_text()
    full = Path("/dev/full").open("w")  # noqa: SIM115  (write() closes it)
    monkeypatch.setattr(main, "open", lambda *_a, **_k: full, raising=False)
    with pytest.raises(main.Ended) as caught:
        main.write(str(tmp_path), "report.json", {"second": 2}, {})
    assert (caught.value.code, Path(path).read_text()) == ("not-written", before)


def test_what_tells_nothing_is_no_secret() -> None:
    assert scrub.drop_empty(["", "0", "None", "Default string", "N/A", "0000000", "PF3XW9AB"]) == [
        "PF3XW9AB"
    ]
