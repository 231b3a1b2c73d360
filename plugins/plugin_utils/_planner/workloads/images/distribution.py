# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handle the OCI distribution API as values: names, challenges, credentials and documents.

The action `registry` sends the requests.
https://github.com/opencontainers/distribution-spec/blob/main/spec.md; names as Docker completes
them (https://github.com/distribution/reference); credentials as containers-auth.json(5) finds them.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses as dc
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    inspected,
    messages,
)

HUB, HUB_API = "docker.io", "registry-1.docker.io"
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
ACCEPT = ", ".join((*INDEXES, *MANIFESTS))
HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253}[A-Za-z0-9])?)(?::\d{1,5})?")
REPOSITORY = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")
TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
NEXT = re.compile(r"<([^<>\s]{1,2000})>\s*;\s*rel=\"?next\"?", re.IGNORECASE)
# The match begins at a word. Otherwise a long word would be read again from each of its letters.
PARAMETER = re.compile(r'\b(\w{1,40})="([^"\\]{0,2000})"')


class Odd(ValueError):
    """An error with a sentence about an answer that a registry would not give."""


@dc.dataclass(frozen=True)
class RegistryReference:
    """The place where one image is asked for. wanted: a digest or a tag; '' for a repository's
    tags.
    """

    registry: str
    repository: str
    wanted: str

    @property
    def host(self) -> str:
        return HUB_API if self.registry == HUB else self.registry

    @property
    def manifest(self) -> str:
        return f"/v2/{self.repository}/manifests/{self.wanted}"

    @property
    def tags(self) -> str:
        return f"/v2/{self.repository}/tags/list?n=1000"

    def build_blob_path(self, digest: str) -> str:
        """Return the path of a blob in the registry's API."""
        return f"/v2/{self.repository}/blobs/{digest}"

    def build_manifest_path(self, digest: str) -> str:
        """Return the path of a manifest in the registry's API."""
        return f"/v2/{self.repository}/manifests/{digest}"

    def __str__(self) -> str:
        mark = "@" if ":" in self.wanted else ":"
        return f"{self.registry}/{self.repository}{mark if self.wanted else ''}{self.wanted}"


@dc.dataclass(frozen=True)
class Challenge:
    """The demand of a registry before it answers: a name and a password (`basic`), or a token from
    another address (`bearer`).
    """

    kind: str
    realm: str = ""
    service: str = ""
    scope: str = ""


def parse_reference(name: str, digest: str = "") -> RegistryReference | None:
    """Parse a name as `cuda:12.4` or `registry.example.org:5000/team/app:1`. A digest counts before
    the tag.

    Return None if the text cannot name an image.
    """
    first, slash, rest = name.partition("/")
    registry, path = (
        (first, rest) if slash and (set(first) & set(".:") or first == "localhost") else (HUB, name)
    )
    path, _colon, tag = path.partition(":")
    if registry == HUB and "/" not in path:
        path = f"library/{path}"
    wanted = digest or tag or "latest"
    if (
        not HOST.fullmatch(registry)
        or not REPOSITORY.fullmatch(path)
        or not (digest or TAG.fullmatch(wanted))
    ):
        return None
    return RegistryReference(registry, path, wanted)


def parse_challenge(header: str) -> Challenge | None:
    """Parse the kind of challenge that a `WWW-Authenticate` header begins with, None for any other
    kind.
    """
    kind = header.strip().partition(" ")[0].lower()
    parameters = dict(PARAMETER.findall(header))
    if kind == "basic":
        return Challenge("basic")
    if kind == "bearer" and parameters.get("realm"):
        return Challenge(
            "bearer",
            parameters["realm"],
            parameters.get("service", ""),
            parameters.get("scope", ""),
        )
    return None


def get_image_credentials(auths: Any, of: RegistryReference) -> str:
    """Return the base64 of `name:password` for an image, '' if there is none.

    The entry for the longest part of the image's name counts.
    """
    table = auths.get("auths") if isinstance(auths, Mapping) else None
    if not isinstance(table, Mapping):
        return ""
    known = {strip_auth_key(str(key)): value for key, value in table.items()}
    for key in list_auth_keys(of):
        entry = known.get(key)
        if (
            isinstance(entry, Mapping)
            and isinstance(entry.get("auth"), str)
            and is_pair(entry["auth"])
        ):
            return str(entry["auth"])
    return ""


def list_auth_keys(of: RegistryReference) -> Iterator[str]:
    """Yield the keys of a file of credentials that may be for a repository, the most specific
    first.
    """
    path = of.repository.split("/")
    for length in range(len(path), 0, -1):
        yield "/".join((of.registry, *path[:length]))
    yield of.registry
    if of.registry == HUB:
        yield "index.docker.io"


def strip_auth_key(key: str) -> str:
    """Return a key of an auth file without scheme and API version.

    Docker's own file has addresses: https://index.docker.io/v1/.
    """
    without = key.partition("://")[2] or key
    return without.removesuffix("/").removesuffix("/v1").removesuffix("/v2").removesuffix("/")


def is_pair(text: str) -> bool:
    """Tell whether a text is base64 of a name and a password."""
    try:
        return b":" in base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False


def read_token(data: Any) -> str:
    """Return the token of a registry's answer. Raise Odd if it gives none."""
    token = data.get("token") or data.get("access_token") if isinstance(data, Mapping) else None
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token:
        raise Odd(messages.REGISTRY_TOKENLESS.fill())
    return token


# ---------------------------------------------------------------- documents


def is_index(data: Any) -> bool:
    """Tell whether a document lists manifests of several architectures."""
    return isinstance(data, Mapping) and isinstance(data.get("manifests"), list)


def list_index_members(index: Mapping[str, Any]) -> list[tuple[str, tuple[str, str]]]:
    """List the digest and platform of each image of an index. Raise Odd if none is for Linux.

    An entry for an unknown system, as an attestation, is left out.
    """
    members = []
    for entry in index["manifests"]:
        own = entry.get("platform") if isinstance(entry, Mapping) else None
        digest = entry.get("digest") if isinstance(entry, Mapping) else None
        if (
            isinstance(own, Mapping)
            and own.get("os") == "linux"
            and isinstance(digest, str)
            and inspected.DIGEST.fullmatch(digest)
        ):
            members.append((digest, inspected.read_platform(own)))
    if not members:
        raise Odd(messages.REGISTRY_NO_LINUX.fill())
    return members


def get_config_digest(manifest: Any) -> str:
    """Return the digest of an image's configuration. Raise Odd if the manifest names none."""
    config = manifest.get("config") if isinstance(manifest, Mapping) else None
    digest = config.get("digest") if isinstance(config, Mapping) else None
    if not isinstance(digest, str) or not inspected.DIGEST.fullmatch(digest):
        raise Odd(messages.REGISTRY_NO_CONFIGURATION.fill())
    return digest


def build_inspected(
    digest: str, config: Any, platforms: list[tuple[str, str]]
) -> inspected.Inspected:
    """Build the description of an image: its configuration, the digest by which it was found, and
    the platforms of its index.
    """
    image = inspected.read_inspected(config)
    architectures, level = (
        inspected.list_image_platforms(platforms)
        if platforms
        else (image.architectures, image.level)
    )
    return dc.replace(image, digest=digest, architectures=architectures, level=level)


def list_page_tags(data: Any) -> list[str]:
    """List the tags of one page of a repository's list.

    A repository without tags has null. Raise Odd for anything else.
    """
    tags = data.get("tags") if isinstance(data, Mapping) else ()
    if tags is None:
        return []
    if not isinstance(tags, list):
        raise Odd(messages.REGISTRY_NO_TAGS.fill())
    return [tag for tag in tags if isinstance(tag, str) and TAG.fullmatch(tag)]


def get_next_page(link: str, repository: str) -> str:
    """Return the path of the next page by a `Link` header, '' if there is none.

    Raise Odd for a page of another list.
    """
    match = NEXT.match(link.strip())
    if not match:
        return ""
    path = (
        match[1].partition("://")[2].partition("/")[2]
        if "://" in match[1]
        else match[1].removeprefix("/")
    )
    if not path.startswith(f"v2/{repository}/tags/list?"):
        raise Odd(messages.REGISTRY_NEXT_PAGE.fill())
    return f"/{path}"
