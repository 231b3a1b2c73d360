# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the files, digests and packages that the signed metadata of an apt or rpm repository lists.

Every text here was verified before: the top one by its signature, each other one by its digest in
the text above.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from xml.etree import ElementTree

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import base_package
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle.manifest import (
    RELATIVE,
    VERSION,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.decide import (
    LEGACY_PACKAGES,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)

# Digests that are strong enough, the strongest first. NVIDIA's repositories have SHA-512 alone.
DIGESTS = {"sha512": 128, "sha256": 64}
PACKAGES = re.compile(r"Packages(?:\.(?:gz|xz|bz2))?")
REPO, COMMON = "{http://linux.duke.edu/metadata/repo}", "{http://linux.duke.edu/metadata/common}"
LICENSE = "{http://linux.duke.edu/metadata/rpm}license"


@dc.dataclass(frozen=True)
class ListedFile:
    """A file as the metadata above it names it. size: -1 if it is not stated."""

    path: str
    algorithm: str
    digest: str
    size: int


@dc.dataclass(frozen=True)
class ListedPackage:
    name: str
    version: str
    file: ListedFile
    licences: tuple[str, ...] = ()


def _build_listed(path: str, digests: Mapping[str, str], size: str, where: str) -> ListedFile:
    """Build one file. Raise PlanError for a name that leads out of the repository, or without a
    digest that counts.
    """
    name = path.removeprefix("./")
    if not RELATIVE.fullmatch(name):
        raise PlanError(messages.FILE_OUTSIDE.fill(path=ascii(path)[:80]), where=where)
    algorithm = next(
        (
            a
            for a, length in DIGESTS.items()
            if re.fullmatch(f"[0-9a-f]{{{length}}}", digests.get(a, ""))
        ),
        "",
    )
    if not algorithm:
        row = messages.WEAK_DIGEST
        raise PlanError(row.fill(name=name, digests=", ".join(DIGESTS)), where=where)
    return ListedFile(
        name, algorithm, digests[algorithm], int(size) if size.isascii() and size.isdigit() else -1
    )


# --- apt (https://wiki.debian.org/DebianRepository/Format)
# --------------------------------------------------------------


def list_release_indexes(text: str, where: str) -> tuple[ListedFile, ...]:
    """List the indexes of packages that the Release of a flat repository names. Raise PlanError if
    there is none.
    """
    indexes: dict[str, dict[str, str]] = {}
    sizes: dict[str, str] = {}
    for field, value in _list_stanza_fields(text):
        if field.lower() in DIGESTS:
            for line in value.splitlines():
                words = line.split()
                if len(words) == 3 and PACKAGES.fullmatch(words[2].removeprefix("./")):
                    indexes.setdefault(words[2], {})[field.lower()] = words[0]
                    sizes[words[2]] = words[1]
    if not indexes:
        raise PlanError(messages.NOT_FLAT.fill(), where=where)
    return tuple(
        _build_listed(path, digests, sizes[path], where)
        for path, digests in sorted(indexes.items())
    )


def list_deb_packages(text: str, where: str) -> tuple[ListedPackage, ...]:
    deb_packages: list[ListedPackage] = []
    for stanza in re.split(r"\n[ \t]*\n", text):
        fields = {field.lower(): value for field, value in _list_stanza_fields(stanza)}
        if fields.get("package") in packages.FAMILY and VERSION.fullmatch(
            fields.get("version", "")
        ):
            digests = {name: fields.get(name, "") for name in DIGESTS}
            file = _build_listed(fields.get("filename", ""), digests, fields.get("size", ""), where)
            deb_packages.append(ListedPackage(fields["package"], fields["version"], file))
    return tuple(deb_packages)


def _list_stanza_fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield (field, value) of a control stanza. Lines that continue a value stay lines."""
    field, lines = "", []
    for line in text.splitlines():
        if line[:1] in (" ", "\t"):
            lines.append(line.strip())
            continue
        if field:
            yield field, "\n".join(lines)
        field, _colon, value = line.partition(":")
        lines = [value.strip()]
    if field:
        yield field, "\n".join(lines)


def list_licences(copyright_file: str) -> tuple[str, ...]:
    """List the names of licences in a debian/copyright, () if its format has no such fields."""
    if not re.match(r"\s*Format:", copyright_file):
        return ()
    named = re.findall(r"(?m)^License:[ \t]*(\S[^\n]*)$", copyright_file)
    return tuple(dict.fromkeys(name.strip()[:200] for name in named))


# --- rpm (createrepo_c)
# -------------------------------------------------------------------------------------------------


def map_repomd_files(data: bytes, where: str) -> Mapping[str, ListedFile]:
    """Map each kind of index to its file. Databases for yum are left out, since dnf and zypper read
    the XML.
    """
    files = {}
    for entry in _parse_xml(data, where).findall(f"{REPO}data"):
        kind = entry.get("type", "")
        if not kind.endswith("_db"):
            files[kind] = _build_xml_listed(entry, REPO, where, entry.findtext(f"{REPO}size", ""))
    if "primary" not in files:
        raise PlanError(messages.NOT_RPM.fill(), where=where)
    return files


def list_rpm_packages(data: bytes, machine: str, where: str) -> tuple[ListedPackage, ...]:
    rpm_packages = []
    for entry in _parse_xml(data, where).findall(f"{COMMON}package"):
        version = entry.find(f"{COMMON}version")
        name = entry.findtext(f"{COMMON}name", "")
        if (
            name in packages.FAMILY
            and version is not None
            and entry.findtext(f"{COMMON}arch") in (machine, "noarch")
        ):
            size = entry.find(f"{COMMON}size")
            file = _build_xml_listed(
                entry, COMMON, where, "" if size is None else size.get("package", "")
            )
            licence = entry.findtext(f"{COMMON}format/{LICENSE}", "").strip()
            rpm_packages.append(
                ListedPackage(
                    name,
                    f"{version.get('ver')}-{version.get('rel')}",
                    file,
                    (licence[:200],) if licence else (),
                )
            )
    return tuple(rpm_packages)


def _parse_xml(data: bytes, where: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(data)  # noqa: S314 - its signature, or the digest in the signed file above, was verified
    except ElementTree.ParseError as error:
        raise PlanError(messages.NOT_XML.fill(cause=str(error)), where=where) from None


def _build_xml_listed(entry: ElementTree.Element, space: str, where: str, size: str) -> ListedFile:
    location, checksum = entry.find(f"{space}location"), entry.find(f"{space}checksum")
    digests = {} if checksum is None else {checksum.get("type", ""): (checksum.text or "").strip()}
    return _build_listed("" if location is None else location.get("href", ""), digests, size, where)


# --- which of them
# --------------------------------------------------------------------------------------------------


def choose_listed_packages(
    offers: Iterable[ListedPackage], wanted: Sequence[str], where: str
) -> tuple[ListedPackage, ...]:
    """Return the whole family in each wanted version, in the newest if none is named.

    The packages depend on one another by equal versions.
    """
    by_version: dict[str, dict[str, ListedPackage]] = {}
    for offer in offers:
        by_version.setdefault(offer.version, {}).setdefault(offer.name, offer)
    whole = {
        version: family
        for version, family in by_version.items()
        if set(LEGACY_PACKAGES) <= set(family)
    }
    if not whole:
        raise PlanError(
            messages.PACKAGES_MISSING.fill(packages=", ".join(LEGACY_PACKAGES)), where=where
        )
    names = (
        [_match_version(version, whole, where) for version in wanted]
        if wanted
        else [find_newest_listed(whole)]
    )
    return tuple(
        package
        for name in dict.fromkeys(names)
        for package in sorted(whole[name].values(), key=lambda offer: offer.name)
    )


def _match_version(wanted: str, whole: Mapping[str, object], where: str) -> str:
    fitting = [version for version in whole if base_package.matches_wanted_version(version, wanted)]
    if not fitting:
        has = ", ".join(sorted(whole, key=_order, reverse=True)[:5])
        raise PlanError(messages.VERSION_NOT_OFFERED.fill(wanted=wanted, known=has), where=where)
    return find_newest_listed(fitting)


def find_newest_listed(found: Iterable[str]) -> str:
    return max(found, key=_order)


def _order(version: str) -> tuple[bool, versions.Version, str]:
    known = versions.parse_engine_version(version)
    return known is not None, known or versions.Version(0, 0), version
