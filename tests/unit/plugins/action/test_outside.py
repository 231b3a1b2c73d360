# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and messages that leave the controller: whole or not at all, never through somebody else's
link, and a failure in a sentence.
"""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import outside
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import sink


class Keeper(http.server.BaseHTTPRequestHandler):
    """Keeps what is put there; /full/ has no room, and /moved/ leads to a page that answers
    everybody.
    """

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.kept.append((self.command, self.path, self.headers["Content-Type"], body))  # type: ignore[attr-defined]
        self.answer(507 if self.path.startswith("/full") else 201)

    do_POST = do_PUT

    def do_GET(self) -> None:
        self.answer(200)

    def answer(self, status: int) -> None:
        moved = self.path.startswith("/moved")
        self.send_response(int(self.path.rpartition("/")[2]) if moved else status)
        if moved:
            self.send_header("Location", "/login")
        self.end_headers()

    def log_message(self, *_given: Any) -> None:
        """Nothing: the test reads what was kept."""


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    found = http.server.HTTPServer(("127.0.0.1", 0), Keeper)
    found.kept = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def address(server: http.server.HTTPServer, path: str = "/reports/") -> str:
    return f"http://127.0.0.1:{server.server_address[1]}{path}"


def test_a_file_is_written_whole_for_everyone_to_read(tmp_path: Path) -> None:
    place = outside.make_writable_directory(str(tmp_path / "a/b"))
    (place / "report.html").write_text("old")
    before = os.umask(0o077)
    try:
        outside.write_outside_file(place, "report.html", "new")
    finally:
        os.umask(before)
    assert (place / "report.html").read_text() == "new"
    assert (place / "report.html").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in place.iterdir()] == ["report.html"], "nothing is left beside it"


def test_a_link_of_the_files_name_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "report.html").symlink_to("theirs")
    outside.write_outside_file(tmp_path, "report.html", "new")
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert not (tmp_path / "report.html").is_symlink()


def test_a_link_of_ones_own_is_followed_and_one_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert outside.make_writable_directory(str(tmp_path / "link/x")) == tmp_path / "link/x"
    owner = (tmp_path / "link").lstat().st_uid
    os.chown(
        tmp_path / "link", 12345, -1, follow_symlinks=False
    ) if owner == 0 else monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(PlanError, match=r"gpufleet_report_dir .*\[file.foreign-link\]$"):
        outside.require_usable_directory(str(tmp_path / "link/x"))


def test_a_file_in_the_place_of_a_directory_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PlanError, match=r"gpufleet_report_dir .*\[file.not-a-directory\]$"):
        outside.require_usable_directory(str(tmp_path / "file/x"))


def test_an_address_gets_each_file_by_its_name(tmp_path: Path, server: Any) -> None:
    files = [
        outside.write_outside_file(tmp_path, "report.html", "page"),
        outside.write_outside_file(tmp_path, "report.json", "{}"),
    ]
    assert outside.publish([address(server) + "?signature=s"], files) == ""
    assert server.kept == [
        ("PUT", "/reports/report.html?signature=s", "text/html; charset=utf-8", b"page"),
        ("PUT", "/reports/report.json?signature=s", "application/json", b"{}"),
    ]


def test_a_failure_is_one_sentence_without_what_opens_the_address(
    tmp_path: Path, server: Any
) -> None:
    file = outside.write_outside_file(tmp_path, "report.html", "page")
    why = outside.publish(
        [address(server, "/full/?signature=secret").replace("//", "//user:secret@")], [file]
    )
    assert "HTTP Error 507" in why
    assert "/full/report.html" in why
    assert "secret" not in why


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_no_success(server: Any, method: str, status: int) -> None:
    """A page to log in at answers 200 to everybody, and has lost what was sent."""
    where = address(server, f"/moved/{status}")
    why = outside.send_request(where, None if method == "GET" else b"{}", {}, method)
    assert why.startswith(f"{where}: HTTP Error {status}: ")
    assert why.endswith(", a redirect, which is not followed: set the address that it leads to")


def test_what_another_user_has_put_in_a_files_place_is_not_sent(
    tmp_path: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("secret")
    file = tmp_path / "report.json"
    file.symlink_to("key")
    assert outside.publish([address(server)], [file]) == "", "a link of one's own is followed"
    server.kept.clear()
    owner = file.lstat().st_uid
    os.chown(file, 12345, -1, follow_symlinks=False) if owner == 0 else monkeypatch.setattr(
        os, "geteuid", lambda: owner + 1
    )
    for sink_ in ([address(server)], ["/bin/sh", "-c", 'cat "$1" >"$0"', str(tmp_path / "copy")]):
        assert "report.json is not sent, since it belongs to the user" in outside.publish(
            sink_, [file]
        )
    assert server.kept == []
    assert not (tmp_path / "copy").exists()


def test_a_file_with_a_text_that_is_no_unicode_is_written_all_the_same(tmp_path: Path) -> None:
    outside.write_outside_file(tmp_path, "report.json", "a\udcffb")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [
        ("report.json", "a\\udcffb")
    ]


def test_a_command_gets_the_names_and_says_why_it_failed(tmp_path: Path) -> None:
    file = outside.write_outside_file(tmp_path, "report.html", "page")
    assert outside.publish(["/bin/sh", "-c", 'cp "$1" "$0"', str(tmp_path / "copy")], [file]) == ""
    assert (tmp_path / "copy").read_text() == "page"
    assert (
        outside.publish(["/bin/sh", "-c", "echo full >&2; exit 3"], [file])
        == "/bin/sh ended with 3: full"
    )
    assert "No such file" in outside.publish(["/nowhere/publish"], [file])


def test_an_event_goes_to_the_end_of_a_file_to_a_command_or_to_an_address(
    tmp_path: Path, server: Any
) -> None:
    file = tmp_path / "events.jsonl"
    for event in ("1", "2"):
        assert outside.emit(["file:", str(file)], event) == ""
        assert outside.emit(["/bin/sh", "-c", 'cat >>"$0"', str(tmp_path / "copy")], event) == ""
        assert outside.emit([address(server)], event) == ""
    assert file.read_text() == (tmp_path / "copy").read_text() == "1\n2\n"
    assert [(kept[0], kept[1], kept[3]) for kept in server.kept] == [
        ("POST", "/reports/", b"1"),
        ("POST", "/reports/", b"2"),
    ]


def test_events_go_through_no_link_and_a_failure_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "link").symlink_to("theirs")
    assert "link: " in outside.emit(["file:", str(tmp_path / "link")], "1")
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert "No such file" in outside.emit(["file:", str(tmp_path / "nowhere/x")], "1")


@pytest.mark.parametrize(
    ("reads", "why"),
    [(False, "No such device or address"), (True, "it is not a file that lines can be added to")],
)
def test_events_wait_for_no_reader_of_a_pipe(tmp_path: Path, reads: bool, why: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK) if reads else None
    assert outside.emit(["file:", str(tmp_path / "pipe")], "1") == f"{tmp_path}/pipe: {why}"
    if reader is not None:
        os.close(reader)


SINKS = [
    # value, whether it may be a file, what it is, or why not
    ("", False, ()),
    ("https://a.example/x", False, ("https://a.example/x",)),
    (["/bin/publish", "fleet"], False, ("/bin/publish", "fleet")),
    ("events.json", True, ("file:", "events.json")),
    ("events.json", False, "rollout.sink-address"),
    ("ftp://a.example/x", True, "rollout.sink-address"),
    ("https:///x", False, "rollout.sink-without-host"),
    (["https://a.example"], False, "rollout.sink-list"),
    ({"url": 1}, False, "rollout.sink-type"),
]


@pytest.mark.parametrize(("value", "file", "wanted"), SINKS)
def test_where_things_go_is_judged(value: Any, file: bool, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        assert sink.parse_sink("gpufleet_report_publish", value, file=file) == wanted
    else:
        with pytest.raises(PlanError) as refused:
            sink.parse_sink("gpufleet_report_publish", value, file=file)
        assert refused.value.code == wanted
        assert refused.value.values["setting"] == "gpufleet_report_publish"
