# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A registry as the controller asks it: a server that is played says all that a real one may say,
and much that none should.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import itertools
import json
import ssl
import threading
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible import constants
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    catalogues,
    registry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    distribution,
)

CONFIG = {
    "architecture": "amd64",
    "os": "linux",
    "config": {"Env": ["CUDA_VERSION=12.4.1", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"]},
}
PAIR = base64.b64encode(b"me:secret").decode()
TOKEN = "a.token"


def digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


class Played:
    """Answers by path: status, headers, body. asked: what came, with its Authorization."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[tuple[str, str]] = []
        self.wants = ""  # the Authorization without which all paths but the token's answer 401
        self.challenge = ""
        played = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, given = self.path.partition("?")[0], self.headers.get("Authorization") or ""
                played.asked.append((path, given))
                status, headers, body = played.answers.get(path, (404, {}, b"{}"))
                if path != "/token" and played.wants and given != played.wants:
                    status, headers, body = 401, {"WWW-Authenticate": played.challenge}, b"{}"
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_words: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.name = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def put(self, path: str, data: Any) -> str:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.answers[f"/v2/team/app/{path}"] = (200, {}, body)
        return digest(body)

    def image(self) -> str:
        """An image with one platform, by its tag and by its digest."""
        body = json.dumps(CONFIG).encode()
        manifest = {
            "schemaVersion": 2,
            "config": {"digest": self.put(f"blobs/{digest(body)}", body)},
        }
        found = self.put("manifests/1", manifest)
        return self.put(f"manifests/{found}", manifest)


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "none.json"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    made = Played()
    yield made
    made.server.shutdown()
    made.server.server_close()


def read(played: Played, tag: str = "1", digest_: str = "", auth_file: str = "") -> Any:
    return registry.read_registry_image(
        f"{played.name}/team/app:{tag}", digest_, registry.Access(auth_file, (played.name,))
    )


def refusal(played: Played, **more: Any) -> str:
    with pytest.raises(PlanError) as refused:
        read(played, **more)
    said = str(refused.value)
    assert refused.value.next
    assert not {PAIR, "secret", TOKEN} & set(said.replace(",", " ").split())
    return said


def test_an_image_is_read_once_for_a_run(played: Played) -> None:
    wanted = played.image()
    found = read(played)
    assert (found.digest, found.architectures, found.cuda) == (wanted, ("x86_64",), (12, 4))
    before = len(played.asked)
    assert read(played) == found
    assert len(played.asked) == before == 2, "a manifest and a configuration"
    assert read(played, digest_=wanted) == found


def test_what_was_read_another_way_is_read_again(played: Played, tmp_path: Path) -> None:
    """By plain text for one task, or with credentials, and not so for another one of the same run."""
    played.image()
    read(played)
    before = len(played.asked)
    read(played, auth_file=auth(tmp_path, {}))
    assert len(played.asked) == 2 * before
    with pytest.raises(PlanError):
        registry.read_registry_image(f"{played.name}/team/app:1", "", registry.Access())  # by TLS


def test_an_index_says_its_platforms(played: Played) -> None:
    own = played.image()
    entries = [("arm64", ""), ("amd64", "v3")]
    index = {
        "manifests": [
            {"digest": own, "platform": {"os": "linux", "architecture": a, "variant": v}}
            for a, v in entries
        ]
    }
    # an attestation
    index["manifests"].append(
        {"digest": own, "platform": {"os": "unknown", "architecture": "unknown"}}
    )
    wanted = played.put("manifests/2", index)
    found = read(played, "2")
    assert (found.digest, found.architectures, found.level) == (
        wanted,
        ("aarch64", "x86_64"),
        "x86-64-v3",
    )


def auth(tmp_path: Path, auths: dict[str, Any]) -> str:
    path = tmp_path / "auth.json"
    path.write_text(json.dumps({"auths": auths}))
    return str(path)


def test_a_token_is_asked_for_with_the_credentials_of_the_image(
    played: Played, tmp_path: Path
) -> None:
    played.image()
    played.wants = f"Bearer {TOKEN}"
    played.challenge = (
        f'Bearer realm="http://{played.name}/token",service="r",scope="repository:team/app:pull"'
    )
    played.answers["/token"] = (200, {}, json.dumps({"token": TOKEN}).encode())
    wrong = base64.b64encode(b"others:other").decode()
    file = auth(tmp_path, {played.name: {"auth": wrong}, f"{played.name}/team": {"auth": PAIR}})
    assert read(played, auth_file=file).cuda == (12, 4)
    assert [given for path, given in played.asked if path == "/token"] == [f"Basic {PAIR}"]


def test_a_registry_may_want_name_and_password_itself(played: Played, tmp_path: Path) -> None:
    played.image()
    played.wants, played.challenge = f"Basic {PAIR}", 'Basic realm="r"'
    assert (
        "it wants credentials that it accepts (HTTP 401); no file of credentials was read"
        in refusal(played)
    )
    empty = auth(tmp_path, {})
    assert f"(HTTP 401); {empty} was read). Log in with" in refusal(played, auth_file=empty)
    assert read(played, auth_file=auth(tmp_path, {played.name: {"auth": PAIR}})).cuda == (12, 4)


CERTIFICATES = [
    # OpenSSL's code, whether it helps to trust a CA
    (18, True),  # signed by itself
    (19, True),  # the same within the chain
    (20, True),  # by somebody who is not known here
    (10, False),  # over
    (62, False),  # of another name
]


@pytest.mark.parametrize(("code", "ca"), CERTIFICATES)
def test_a_registry_with_a_ca_of_its_own_is_said_how_to_trust(
    code: int, ca: bool, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    def untrusted(_client: registry.Client, _request: Any) -> Any:
        error = ssl.SSLCertVerificationError(1, "certificate verify failed")
        error.verify_code = code
        raise urllib.error.URLError(error)

    monkeypatch.setattr(registry.Client, "_fetch_whole", untrusted)
    said = refusal(played)
    assert "its certificate or its TLS is not accepted)" in said
    assert (
        "Make its CA one that this machine trusts, or name the CA's file by SSL_CERT" in said
    ) is ca


def test_an_account_without_a_home_has_no_credentials(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container under a number that no account has, as OpenShift starts it."""

    def find_nobody(_number: int) -> None:
        raise KeyError

    played.image()
    played.wants, played.challenge = f"Basic {PAIR}", 'Basic realm="r"'
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", find_nobody)
    assert "no file of credentials was read" in refusal(played)


@pytest.mark.parametrize("name", ["~nobody-of-this-name/auth.json", "~a\ud800b/auth.json", "/a\0b"])
def test_a_file_of_credentials_that_no_file_can_be_is_said(played: Played, name: str) -> None:
    played.image()
    played.wants, played.challenge = f"Basic {PAIR}", 'Basic realm="r"'
    assert "there is no such file of credentials" in refusal(played, auth_file=name)


def test_what_allows_the_request_is_not_sent_on(played: Played, tmp_path: Path) -> None:
    other = Played()
    try:
        body = json.dumps(CONFIG).encode()
        path = f"/v2/team/app/blobs/{digest(body)}"
        played.image()
        played.answers[path] = (307, {"Location": f"http://{other.name}/elsewhere"}, b"")
        other.answers["/elsewhere"] = (200, {}, body)
        played.wants, played.challenge = f"Basic {PAIR}", 'Basic realm="r"'
        assert read(played, auth_file=auth(tmp_path, {played.name: {"auth": PAIR}})).cuda == (12, 4)
        assert other.asked == [("/elsewhere", "")]
    finally:
        other.server.shutdown()
        other.server.server_close()


def test_who_it_sends_on_to_is_given_no_credentials(played: Played, tmp_path: Path) -> None:
    other = Played()
    try:
        played.answers["/v2/team/app/manifests/1"] = (
            307,
            {"Location": f"http://{other.name}/elsewhere"},
            b"",
        )
        other.wants, other.challenge = (
            f"Bearer {TOKEN}",
            f'Bearer realm="http://{other.name}/token"',
        )
        other.answers["/token"] = (200, {}, json.dumps({"token": TOKEN}).encode())
        assert "(HTTP 401)" in refusal(
            played, auth_file=auth(tmp_path, {played.name: {"auth": PAIR}})
        )
        assert other.asked == [("/elsewhere", "")]
    finally:
        other.server.shutdown()
        other.server.server_close()


BAD = [
    # what the registry answers for the manifest: status, headers, body; the sentence
    (401, {}, b"", "it wants credentials that it accepts (HTTP 401)"),
    (
        401,
        {"WWW-Authenticate": "Negotiate"},
        b"",
        "it wants credentials that it accepts (HTTP 401)",
    ),
    (
        401,
        {"WWW-Authenticate": 'Bearer realm="https://elsewhere.example.org/"'},
        b"",
        "its address is of another kind",
    ),
    (
        401,
        {"WWW-Authenticate": 'Bearer realm="file:///etc/passwd"'},
        b"",
        "its address is of another kind",
    ),
    (
        401,
        {"WWW-Authenticate": 'Bearer realm="https://[::1"'},
        b"",
        "it names a place for tokens that is not an address",
    ),
    (403, {}, b"", "these credentials may not read it (HTTP 403)"),
    (404, {}, b"", "it has no such image (HTTP 404)"),
    (429, {"Retry-After": "3600"}, b"", "it has had too many requests from here (HTTP 429)"),
    (500, {}, b"\x1b[2J", "it failed (HTTP 500)"),
    (418, {}, b"{{ lookup('pipe', 'id') }}", "it refuses (HTTP 418)"),
    (200, {}, b"<html>", "something that is not JSON"),
    (200, {}, b"[" * 100_000, "something that is not JSON"),
    (200, {}, b"[]", "its manifest names no configuration"),
    (200, {}, b'{"manifests": []}', "its index has no image for Linux"),
    (
        200,
        {},
        b'{"manifests": [1, {"digest": "x", "platform": {"os": "linux"}}]}',
        "its index has no image for Linux",
    ),
    (200, {}, b'{"config": {"digest": "../../x"}}', "its manifest names no configuration"),
    (302, {"Location": "file:///etc/passwd"}, b"", "it refuses (HTTP 302)"),
    (302, {"Location": "ftp://elsewhere.example.org/"}, b"", "an address without TLS"),
]


@pytest.mark.parametrize(("status", "headers", "body", "said"), BAD)
def test_a_registry_that_does_not_say_it_is_named_in_one_sentence(
    status: int, headers: dict[str, str], body: bytes, said: str, played: Played
) -> None:
    played.answers["/v2/team/app/manifests/1"] = (status, headers, body)
    found = refusal(played)
    assert said in found
    assert found.startswith(
        f"{played.name}/team/app:1: the registry {played.name} does not say what this image is"
    )
    assert found.isprintable(), "and is one line"


def test_bytes_of_another_digest_are_refused(played: Played) -> None:
    wanted = played.image()
    played.answers[f"/v2/team/app/manifests/{wanted}"] = (200, {}, b'{"config": {}}')
    assert "another digest than the one that was asked for" in refusal(played, digest_=wanted)


def test_an_answer_without_end_is_not_read_to_its_end(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "LARGEST", 100)
    played.put("manifests/1", b" " * 200)
    assert "more than a document of an image can have" in refusal(played)


def test_an_answer_has_one_time_limit_however_many_parts_it_has(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0, 20)
    monkeypatch.setattr(registry.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(registry, "PART", 10)
    played.put("manifests/1", b" " * 1000)
    assert f"it did not give a whole answer within {registry.SECONDS} s" in refusal(played)


ENDLESS = [
    ("an address of its own in a header", b"HTTP/1.1 200 OK\r\nLocation: ", b"x"),
    ("answers before the answer", b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ("a status", b"HTTP/1.1 200 ", b"O"),
]


@pytest.mark.parametrize(
    ("first", "more"), [case[1:] for case in ENDLESS], ids=[case[0] for case in ENDLESS]
)
def test_an_answer_that_never_begins_has_the_same_time_limit(
    first: bytes, more: bytes, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte by byte, each long before the limit of a connection, which begins again with every one."""
    over = threading.Event()

    class Trickling(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.wfile.write(first)
            with contextlib.suppress(OSError):
                while not over.wait(0.02):
                    self.wfile.write(more)

        def log_message(self, *_words: Any) -> None:
            pass

    monkeypatch.setattr(registry, "SECONDS", 1)
    monkeypatch.setattr(played.server, "RequestHandlerClass", Trickling)
    end = threading.Timer(10, over.set)  # without a limit for the whole it would go on until then
    end.start()
    try:
        assert "it did not answer within 1 s" in refusal(played)
        assert not over.is_set()
    finally:
        end.cancel()
        over.set()


def test_a_registry_that_is_not_there_is_said(played: Played) -> None:
    played.server.server_close()
    played.server.shutdown()
    assert "Connection refused" in refusal(played)


def test_plain_text_is_no_tls(played: Played) -> None:
    with pytest.raises(PlanError, match="it speaks no TLS"):
        registry.read_registry_image(f"{played.name}/team/app:1", "", registry.Access())


def test_a_file_of_credentials_that_cannot_be_read_is_said(played: Played, tmp_path: Path) -> None:
    played.wants, played.challenge = f"Basic {PAIR}", 'Basic realm="r"'
    (tmp_path / "broken.json").write_text("{")
    assert "there is no such file of credentials" in refusal(
        played, auth_file=str(tmp_path / "nowhere.json")
    )
    assert "it is not JSON" in refusal(played, auth_file=str(tmp_path / "broken.json"))


REFERENCES = [
    ("cuda:12.4", "", "docker.io/library/cuda:12.4"),
    ("nvidia/cuda", "", "docker.io/nvidia/cuda:latest"),
    ("localhost/app:1", "", "localhost/app:1"),
    ("registry.example.org:5000/team/app:1", "", "registry.example.org:5000/team/app:1"),
    (
        "registry.example.org/team/app:1",
        "sha256:" + "a" * 64,
        "registry.example.org/team/app@sha256:" + "a" * 64,
    ),
    ("registry.example.org/Team/app", "", None),
    ("registry.example.org/../app", "", None),
    ("registry.example.org/a/:b", "", None),
]


@pytest.mark.parametrize(("name", "digest_", "whole"), REFERENCES)
def test_names_are_completed_as_engines_do(name: str, digest_: str, whole: str | None) -> None:
    found = distribution.parse_reference(name, digest_)
    assert (str(found) if found else None) == whole


def test_a_catalogue_is_completed_by_registries_and_files(played: Played, tmp_path: Path) -> None:
    wanted = played.image()
    (tmp_path / "own.json").write_text(
        json.dumps({"Architecture": "arm64", "Env": [], "Digest": "sha256:" + "b" * 64})
    )
    entries = [
        {"name": "a", "image": f"{played.name}/team/app:1"},
        {"name": "b", "image": "registry.invalid/b:1", "inspected": "own.json"},
    ]
    (tmp_path / "catalogue.yml").write_text(json.dumps({"schema": 1, "images": entries}))
    found = catalogues.read_catalogue_images(
        str(tmp_path / "catalogue.yml"), registry.Access("", (played.name,))
    )
    assert [(image.digest, image.requires.cpu_arch) for image in found] == [
        (wanted, ("x86_64",)),
        ("sha256:" + "b" * 64, ("aarch64",)),
    ]
    assert dict(found[0].environment)["NVIDIA_REQUIRE_CUDA"] == "cuda>=12.4"


def listing(played: Played, pages: list[Any]) -> None:
    """Pages of a list. Each names the next one as a registry does."""
    for number, page in enumerate(pages):
        path = "/v2/team/app/tags/list" + (f"/{number}" if number else "")
        more = (
            {"Link": '</v2/team/app/tags/list?last=x&n=1000>; rel="next"'}
            if number + 1 < len(pages)
            else {}
        )
        played.answers[path] = (200, more, json.dumps(page).encode())


TAGS = [
    # the first page of the list, the pattern, names that come of it
    (
        {"tags": ["1.4-cuda11", "1.4-cuda12", "1.3-cuda12"]},
        "1.4-*",
        ["app-1.4-cuda11", "app-1.4-cuda12"],
    ),
    ({"tags": ["1.4", "1.4", 5, "../x"]}, "*", ["app-1.4"]),
]


@pytest.mark.parametrize(("page", "pattern", "names"), TAGS)
def test_a_pattern_stands_for_the_tags_that_match(
    page: Any, pattern: str, names: list[str], played: Played
) -> None:
    listing(played, [page])
    played.image()
    manifest = played.answers["/v2/team/app/manifests/1"]
    for tag in ("1.4", "1.4-cuda11", "1.4-cuda12"):
        played.answers[f"/v2/team/app/manifests/{tag}"] = manifest
    given = {
        "schema": 1,
        "images": [{"name": "app", "image": f"{played.name}/team/app", "tags": pattern}],
    }
    found = catalogues.read_catalogue_images(given, registry.Access("", (played.name,)))
    assert [image.name for image in found] == names
    assert all(image.digest and not image.tags for image in found)


BAD_TAGS = [
    # the list, the pattern, a part of the message
    ({"tags": None}, "*", "[image.no-tag]"),
    ({"tags": ["1.4"]}, "2.*", "[image.no-tag]"),
    ({"tags": {}}, "*", "it gives no list of tags"),
    ([], "*", "it gives no list of tags"),
    ({"tags": [f"t{n}" for n in range(201)]}, "*", "[image.too-many-tags]"),
    ({"tags": ["x" * 100]}, "*", "[image.name-too-long]"),
    (
        {"tags": [str(n) for n in range(registry.MOST_TAGS + 1)]},
        "1",
        "it has more than 100000 tags",
    ),
]


@pytest.mark.parametrize(("page", "pattern", "said"), BAD_TAGS)
def test_a_pattern_that_stands_for_nothing_is_said(
    page: Any, pattern: str, said: str, played: Played
) -> None:
    listing(played, [page])
    given = {
        "schema": 1,
        "images": [{"name": "app", "image": f"{played.name}/team/app", "tags": pattern}],
    }
    with pytest.raises(PlanError) as refused:
        catalogues.read_catalogue_images(given, registry.Access("", (played.name,)))
    assert said in str(refused.value)
    with pytest.raises(PlanError, match=r"\[registry.tags-unknown\]$"):
        catalogues.read_catalogue_images(given)


LINKS = [
    ('</v2/team/app/tags/list?last=a&n=1000>; rel="next"', "/v2/team/app/tags/list?last=a&n=1000"),
    (
        '<https://r.example.org/v2/team/app/tags/list?last=a>; rel="next"',
        "/v2/team/app/tags/list?last=a",
    ),
    ("", ""),
    ('<x>; rel="prev"', ""),
]


@pytest.mark.parametrize(("link", "path"), LINKS)
def test_the_next_page_of_tags(link: str, path: str) -> None:
    assert distribution.get_next_page(link, "team/app") == path


def test_a_list_that_leads_elsewhere_or_never_ends_is_left(played: Played) -> None:
    with pytest.raises(distribution.Odd, match="somewhere else"):
        distribution.get_next_page('</v2/other/tags/list?last=a>; rel="next"', "team/app")
    listing(played, [{"tags": []}, {}])  # its next page is the same one
    with pytest.raises(
        PlanError,
        match=f"^{played.name}/team/app: the registry .* which tags there are .*more than 20 pages of tags",
    ):
        registry.list_registry_tags(f"{played.name}/team/app", registry.Access("", (played.name,)))
