# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write `manifest.json`, the first file of an archive of packages. docs/bundle.schema.json
describes the same.

An archive comes from somewhere else, so nothing in it is taken as it is. Each name is judged before
it becomes a path. The bytes of each file are compared with the manifest. Only the repository's
signature proves that the packages are the vendor's.
"""

from __future__ import annotations

import dataclasses as dc
import json
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import messages

SCHEMA = 1
NAME, KEY = "manifest.json", "key.asc"
LONGEST = 1 << 20  # characters of a manifest
APT, RPM = "apt", "rpm"
FORMATS = (APT, RPM)
MACHINES = ("x86_64", "aarch64")  # as `uname -m` says it
SHA256 = re.compile(r"[0-9a-f]{64}")
FINGERPRINT = re.compile(r"[0-9A-F]{40}")
VERSION = re.compile(r"[0-9][0-9A-Za-z.+:~^_-]{0,99}")
PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,99}")
DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
# Each part begins with a letter or a digit, so none is `..`, hidden or empty.
RELATIVE = re.compile(
    r"(?:[A-Za-z0-9][\w.+~^:%@-]{0,254}/){0,8}[A-Za-z0-9][\w.+~^:%@-]{0,254}", re.ASCII
)


@dc.dataclass(frozen=True)
class BundleFile:
    sha256: str
    size: int


@dc.dataclass(frozen=True)
class Package:
    """A package in the archive. licences: from the package's own metadata, () if it has none that
    can be read.
    """

    name: str
    version: str
    file: str
    licences: tuple[str, ...] = ()


@dc.dataclass(frozen=True)
class Repository:
    """The part of one repository for one architecture. Its files lie beneath `format/architecture`
    in the archive.
    """

    format: str
    architecture: str
    address: str
    indexes: tuple[str, ...]
    packages: tuple[Package, ...]

    @property
    def place(self) -> str:
        return f"{self.format}/{self.architecture}"

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(package.version for package in self.packages))

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.indexes, *(package.file for package in self.packages))


@dc.dataclass(frozen=True)
class Key:
    """The key that has signed all repositories in the archive. expires: '' for a key that never
    expires.
    """

    fingerprint: str
    expires: str = ""


@dc.dataclass(frozen=True)
class Manifest:
    key: Key
    repositories: tuple[Repository, ...]
    files: Mapping[str, BundleFile]

    def find_repository(self, form: str, machine: str) -> Repository | None:
        return next(
            (r for r in self.repositories if (r.format, r.architecture) == (form, machine)), None
        )


def render_manifest(manifest: Manifest) -> str:
    """Write a manifest. The same manifest has the same text, whenever and wherever it is made."""
    plain = {
        "schema": SCHEMA,
        "key": {
            "file": KEY,
            "fingerprint": manifest.key.fingerprint,
            "expires": manifest.key.expires or None,
        },
        "repositories": [
            {
                "format": r.format,
                "architecture": r.architecture,
                "address": r.address,
                "indexes": list(r.indexes),
                "packages": [{**dc.asdict(p), "licences": list(p.licences)} for p in r.packages],
            }
            for r in manifest.repositories
        ],
        "files": {name: dc.asdict(file) for name, file in manifest.files.items()},
    }
    return json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=True) + "\n"


def parse_manifest(data: str) -> Manifest:
    """Parse the manifest of an archive. Raise ValueError with a sentence for any other text."""
    try:
        plain = json_bounds.load_bounded_json(data)
    except ValueError:
        raise ValueError(messages.MANIFEST_NOT_JSON.fill(name=NAME)) from None
    top = _require_manifest_table(plain, NAME)
    if top.get("schema") != SCHEMA:
        raise ValueError(
            messages.MANIFEST_SCHEMA.fill(schema=_show_value(top.get("schema")), known=SCHEMA)
        )
    files = {
        _require_match(RELATIVE, name, "files"): _read_bundle_file(name, value)
        for name, value in _require_manifest_table(top.get("files"), "files").items()
    }
    repositories = tuple(
        _read_repository(value)
        for value in _require_manifest_list(top.get("repositories"), "repositories")
    )
    key = _require_manifest_table(top.get("key"), "key")
    if key.get("file") != KEY:
        raise ValueError(
            messages.MANIFEST_KEY_FILE.fill(file=_show_value(key.get("file")), known=KEY)
        )
    expires = key.get("expires")
    manifest = Manifest(
        Key(
            _require_match(FINGERPRINT, key.get("fingerprint"), "key.fingerprint"),
            "" if expires is None else _require_match(DATE, expires, "key.expires"),
        ),
        repositories,
        files,
    )
    _require_whole(manifest)
    return manifest


def _require_whole(manifest: Manifest) -> None:
    """Raise ValueError unless each file is named by one repository, and everything that a
    repository names is a file.
    """
    named = [KEY, *(f"{r.place}/{name}" for r in manifest.repositories for name in r.files)]
    places = [r.place for r in manifest.repositories]
    if not places:
        raise ValueError(messages.MANIFEST_EMPTY.fill())
    if len(set(named)) != len(named) or len(set(places)) != len(places):
        raise ValueError(messages.MANIFEST_NAMES_TWICE.fill())
    wrong = sorted(set(named) ^ set(manifest.files))
    if wrong:
        raise ValueError(messages.MANIFEST_LISTS_DIFFER.fill(file=wrong[0], name=NAME))


def _read_repository(value: Any) -> Repository:
    table = _require_manifest_table(value, "repositories")
    form, machine = table.get("format"), table.get("architecture")
    if form not in FORMATS or machine not in MACHINES:
        raise ValueError(
            messages.MANIFEST_KIND.fill(form=_show_value(form), machine=_show_value(machine))
        )
    indexes = tuple(
        _require_match(RELATIVE, name, "indexes")
        for name in _require_manifest_list(table.get("indexes"), "indexes")
    )
    packages = tuple(
        _read_package(package)
        for package in _require_manifest_list(table.get("packages"), "packages")
    )
    if not indexes or not packages:
        raise ValueError(messages.MANIFEST_REPOSITORY_EMPTY.fill(place=f"{form}/{machine}"))
    return Repository(str(form), str(machine), str(table.get("address") or ""), indexes, packages)


def _read_package(value: Any) -> Package:
    table = _require_manifest_table(value, "packages")
    return Package(
        _require_match(PACKAGE, table.get("name"), "packages.name"),
        _require_match(VERSION, table.get("version"), "packages.version"),
        _require_match(RELATIVE, table.get("file"), "packages.file"),
        tuple(
            str(licence)[:200]
            for licence in _require_manifest_list(table.get("licences"), "packages.licences")
        ),
    )


def _read_bundle_file(name: str, value: Any) -> BundleFile:
    table = _require_manifest_table(value, name)
    size = table.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError(messages.MANIFEST_SIZE.fill(name=name, size=_show_value(size)))
    return BundleFile(_require_match(SHA256, table.get("sha256"), f"the sha256 of {name}"), size)


def _require_match(pattern: re.Pattern[str], value: Any, where: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(messages.MANIFEST_VALUE.fill(where=where, value=_show_value(value)))
    return value


def _require_manifest_table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(messages.MANIFEST_NO_OBJECT.fill(where=where))
    return value


def _require_manifest_list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(messages.MANIFEST_NO_LIST.fill(where=where))
    return value


def _show_value(value: Any) -> str:
    shown = ascii(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
