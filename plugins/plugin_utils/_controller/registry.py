# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read an image's description of itself from its registry: its manifest and its configuration.

No layer is pulled.
"""

from __future__ import annotations

import contextlib
import dataclasses as dc
import hashlib
import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ansible import constants
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    messages,
    named_paths,
    online,
    outside_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    messages as format_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    distribution,
    inspected,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.distribution import (
    Odd,
    RegistryReference,
)

SECONDS = 30  # limit for one answer
PAGES = 20  # of tags
MOST_TAGS = 100_000
LARGEST = 8 << 20  # bytes of a document
PART = 1 << 16  # bytes of a document that are read at once
Found = TypeVar("Found")
AUTH_FILES = ("containers/auth.json", ".config/containers/auth.json", ".docker/config.json")
STATUSES = {
    401: (outside_messages.REGISTRY_WANTS_LOGIN, outside_messages.LOG_IN),
    403: (outside_messages.REGISTRY_FORBIDS, outside_messages.LOG_IN_AS_OTHER),
    404: (outside_messages.REGISTRY_HAS_NOT, outside_messages.CORRECT_IMAGE_NAME),
    429: (outside_messages.REGISTRY_TOO_MANY_REQUESTS, outside_messages.WAIT_FOR_REGISTRY),
}
# OpenSSL's X509_V_ERR_*: self-signed, or by an issuer that is not known here
UNKNOWN_CA = (
    18,
    19,
    20,
    21,
)
STEP = outside_messages.READ_BY_SKOPEO


@dc.dataclass(frozen=True)
class Access:
    """The access to registries.

    auth_file: '' looks in the files of podman and docker.
    plain: registries that are asked by HTTP.
    """

    auth_file: str = ""
    plain: tuple[str, ...] = ()


def read_registry_image(name: str, digest: str, access: Access) -> inspected.Inspected:
    """Read the description of an image from its registry.

    Raise PlanError with one sentence if that fails.
    """
    of = _parse_reference(name, digest)
    return _ask_once(
        of,
        f"{of} {access}",
        lambda: _read_image_parts(Client(of, access), of),
        lambda parts: distribution.build_inspected(*parts),
    )


def list_registry_tags(name: str, access: Access) -> list[str]:
    """List the tags of a repository."""
    of = dc.replace(_parse_reference(name, ""), wanted="")
    return _ask_once(
        of,
        f"tags of {of} {access}",
        lambda: Client(of, access).tags(),
        lambda found: [str(tag) for tag in found],
    )


def _parse_reference(name: str, digest: str) -> RegistryReference:
    of = distribution.parse_reference(name, digest)
    if of is None:
        raise PlanError(messages.NOT_AN_IMAGE.fill(), where=name)
    return of


def _ask_once(
    of: RegistryReference, name: str, ask: Callable[[], Any], made: Callable[[Any], Found]
) -> Found:
    """Ask once for a run, and return what `made` makes of the answer.

    The processes of the run share what one of them has read.
    """
    known = (
        Path(constants.DEFAULT_LOCAL_TMP)
        / f"gpufleet-image-{hashlib.sha256(name.encode()).hexdigest()}"
    )
    with contextlib.suppress(OSError, ValueError):
        return made(json.loads(known.read_text(encoding="utf-8")))
    try:
        data = ask()
        answer = made(data)
    except (Odd, inspected.UnreadableImage) as error:
        raise _build_refused_error(of, read_error_message(error), STEP) from None
    with contextlib.suppress(OSError):
        spare = known.with_name(f"{known.name}.{os.getpid()}")
        spare.write_text(json.dumps(data), encoding="utf-8")
        spare.replace(known)
    return answer


def _read_image_parts(
    client: Client, of: RegistryReference
) -> tuple[str, Any, list[tuple[str, str]]]:
    """Return the digest, the configuration and the platforms of an image.

    Every document is compared with the digest that names it.
    """
    data, digest = client.fetch_document(of.manifest, of.wanted if ":" in of.wanted else "")
    if not distribution.is_index(data):
        config, _digest = client.fetch_document(
            of.build_blob_path(distribution.get_config_digest(data)),
            distribution.get_config_digest(data),
        )
        return digest, config, []
    members = distribution.list_index_members(data)
    first = next(
        (member for member, (architecture, _variant) in members if architecture == "amd64"),
        members[0][0],
    )
    manifest, _digest = client.fetch_document(of.build_manifest_path(first), first)
    config, _digest = client.fetch_document(
        of.build_blob_path(distribution.get_config_digest(manifest)),
        distribution.get_config_digest(manifest),
    )
    return digest, config, [platform for _member, platform in members]


class Redirects(urllib.request.HTTPRedirectHandler):
    """A handler that refuses redirects from TLS to plain text or to a file.

    A registry may redirect to the place of its blobs.
    """

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        scheme, before = (
            urllib.parse.urlsplit(newurl).scheme,
            urllib.parse.urlsplit(req.full_url).scheme,
        )
        if scheme != "https" and not (scheme == before == "http"):
            raise Odd(outside_messages.REGISTRY_REDIRECTS_PLAIN.fill())
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class Client:
    """The access to one image in its registry. Its authorization is requested once."""

    def __init__(self, of: RegistryReference, access: Access) -> None:
        self.of = of
        self.scheme = "http" if of.registry in access.plain else "https"
        self.auth_file = access.auth_file
        self.header = ""
        self.auth_read = ""  # the file of credentials that was read
        self.opener = urllib.request.build_opener(Redirects)

    def fetch_document(self, path: str, digest: str) -> tuple[Any, str]:
        """Return a document and its digest. Raise Odd unless the digest is the requested one, if
        any.
        """
        body, _link = self._fetch_allowed(f"{self.scheme}://{self.of.host}{path}")
        own = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if digest and own != digest:
            raise Odd(outside_messages.REGISTRY_OTHER_DIGEST.fill())
        return _parse_body(body), own

    def tags(self) -> list[str]:
        """Return all tags of the repository. Raise PlanError if there are too many."""
        listed: list[str] = []
        path = self.of.tags
        for _page in range(PAGES):
            body, link = self._fetch_allowed(f"{self.scheme}://{self.of.host}{path}")
            listed += distribution.list_page_tags(_parse_body(body))
            if len(listed) > MOST_TAGS:
                raise Odd(outside_messages.REGISTRY_TOO_MANY_TAGS.fill(limit=MOST_TAGS))
            path = distribution.get_next_page(link, self.of.repository)
            if not path:
                return listed
        raise Odd(outside_messages.REGISTRY_TOO_MANY_PAGES.fill(limit=PAGES))

    def _fetch_allowed(self, address: str) -> tuple[bytes, str]:
        try:
            return self._get(address, self.header)
        except urllib.error.HTTPError as error:
            wanted = self._read_wanted(error) if error.code == 401 and not self.header else None
            if wanted is None:
                raise self._build_status_error(error.code) from None
        self.header = self._answer_challenge(wanted)
        try:
            return self._get(address, self.header)
        except urllib.error.HTTPError as error:
            raise self._build_status_error(error.code) from None

    def _read_wanted(self, error: urllib.error.HTTPError) -> distribution.Challenge | None:
        """Return the authorization that the registry itself demands; None if there is none.

        A server that the registry has redirected to is another party, and gets none of the
        registry's credentials.
        """
        itself = urllib.parse.urlsplit(error.url)[:2] == (self.scheme, self.of.host)
        return (
            distribution.parse_challenge(error.headers.get("WWW-Authenticate") or "")
            if itself
            else None
        )

    def _answer_challenge(self, wanted: distribution.Challenge) -> str:
        auths, self.auth_read = _find_auths(self.auth_file)
        pair = distribution.get_image_credentials(auths, self.of)
        basic = f"Basic {pair}" if pair else ""
        if wanted.kind == "basic":
            if not pair:
                raise self._build_status_error(401)
            return basic
        try:
            scheme = urllib.parse.urlsplit(wanted.realm).scheme
        except ValueError:
            raise Odd(outside_messages.REGISTRY_REALM_FORM.fill()) from None
        if scheme != self.scheme:
            raise Odd(outside_messages.REGISTRY_REALM_KIND.fill())
        asked = {
            "service": wanted.service,
            "scope": wanted.scope or f"repository:{self.of.repository}:pull",
        }
        query = urllib.parse.urlencode({key: value for key, value in asked.items() if value})
        try:
            body, _link = self._get(
                f"{wanted.realm}{'&' if '?' in wanted.realm else '?'}{query}", basic
            )
        except urllib.error.HTTPError as error:
            raise self._build_status_error(error.code) from None
        return f"Bearer {distribution.read_token(_parse_body(body))}"

    def _get(self, address: str, allowed: str) -> tuple[bytes, str]:
        """Return one answer, and its Link header.

        For an error, only the status is shown: its words are another party's.
        """
        request = urllib.request.Request(
            address, headers={"Accept": distribution.ACCEPT, "User-Agent": "gpufleet.nvidia"}
        )
        if allowed:
            # not sent to the target of a redirect
            request.add_unredirected_header("Authorization", allowed)
        try:
            return online.ask_within_limit(SECONDS, lambda: self._fetch_whole(request))
        except (urllib.error.HTTPError, Odd):
            raise
        except (OSError, ValueError, http.client.HTTPException) as error:
            own = getattr(getattr(error, "reason", error), "verify_code", 0) in UNKNOWN_CA
            raise _build_refused_error(
                self.of, _explain_error(error), outside_messages.TRUST_OWN_CA if own else STEP
            ) from None

    def _fetch_whole(self, request: urllib.request.Request) -> tuple[bytes, str]:
        with self.opener.open(request, timeout=SECONDS) as answer:
            return self._read_body(answer), str(answer.headers.get("Link") or "")

    def _read_body(self, answer: Any) -> bytes:
        """Read a body. Give up on one that is too large, or that takes too long."""
        end = time.monotonic() + SECONDS
        parts, size = [], 0
        while part := answer.read1(PART):
            parts.append(part)
            size += len(part)
            if size > LARGEST:
                raise Odd(outside_messages.REGISTRY_TOO_LARGE.fill())
            if time.monotonic() > end:
                raise _build_refused_error(
                    self.of, outside_messages.REGISTRY_SLOW.fill(seconds=SECONDS), STEP
                )
        return b"".join(parts)

    def _build_status_error(self, code: int) -> PlanError:
        other = (
            outside_messages.REGISTRY_FAILED if code >= 500 else outside_messages.REGISTRY_REFUSES
        )
        row, step = STATUSES.get(code, (other, STEP))
        read = {"file": self.auth_read or "no file of credentials"} if "file" in row.fields else {}
        return _build_refused_error(self.of, row.fill(status=code, **read), step)


def _explain_error(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLError):
        return (
            outside_messages.REGISTRY_CERTIFICATE.fill()
            if isinstance(reason, ssl.SSLCertVerificationError)
            else outside_messages.REGISTRY_PLAIN.fill()
        )
    if isinstance(reason, TimeoutError):
        return outside_messages.REGISTRY_LATE.fill(seconds=SECONDS)
    if isinstance(reason, str):
        return reason[:200]
    return str(getattr(reason, "strerror", "") or type(reason).__name__)


def _parse_body(body: bytes) -> Any:
    try:
        return json_bounds.load_bounded_json(body, LARGEST)
    except ValueError:
        raise Odd(outside_messages.REGISTRY_NOT_JSON.fill()) from None


def _build_refused_error(of: RegistryReference, why: str, step: str) -> PlanError:
    row = messages.REGISTRY_IMAGE if of.wanted else messages.REGISTRY_TAGS
    return PlanError(row.fill(registry=of.registry, cause=why, step=step), where=str(of))


def _find_auths(named: str) -> tuple[Any, str]:
    """Return the first file of credentials that exists, and its path.

    Raise PlanError if a named file cannot be read.
    """
    try:
        paths = [named_paths.expand_named_path(named)] if named else _list_usual_auth_files()
    except PlanError as error:
        raise PlanError(messages.CREDENTIALS_HOME.fill(cause=error.what), where=named) from None
    for path in paths:
        try:
            return json_bounds.load_bounded_json(path.read_text(encoding="utf-8")), str(path)
        except FileNotFoundError:
            if named:
                raise PlanError(messages.CREDENTIALS_MISSING.fill(), where=named) from None
        except (OSError, ValueError) as error:
            cause = getattr(error, "strerror", "") or format_messages.NOT_JSON.fill()
            message = messages.CREDENTIALS_UNREADABLE.fill(cause=cause)
            raise PlanError(message, where=str(path)) from None
    return {}, ""


def _list_usual_auth_files() -> Iterator[Path]:
    """Yield the usual files of credentials in the order of containers-auth.json(5)."""
    if os.environ.get("REGISTRY_AUTH_FILE"):
        yield Path(os.environ["REGISTRY_AUTH_FILE"])
    if os.environ.get("XDG_RUNTIME_DIR"):
        yield Path(os.environ["XDG_RUNTIME_DIR"]) / AUTH_FILES[0]
    home = Path(os.path.expanduser("~"))
    if home.is_absolute():  # an account without an entry of its own may have no home
        yield from (home / name for name in AUTH_FILES[1:])
