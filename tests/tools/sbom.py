# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a release's software bill of materials (SBOM) by CycloneDX, and judge it by CycloneDX's own
schema.

    sbom.py < release.json > sbom.cdx.json      in the environment `sbom` of tests/tools/environments.py

The archive contains nothing of others, so the document has the archive itself and what it needs
where it runs. The time and the serial number come from the release: the same release has the same
document.
"""

from __future__ import annotations

import datetime
import json
import sys
import uuid
from collections.abc import Mapping
from typing import Any

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseAcknowledgement
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL


def build_document(release: Mapping[str, Any]) -> str:
    """Return the document as JSON. release: the values of release.py's describe_release()."""
    archive = Component(
        name=release["name"],
        group=release["namespace"],
        version=release["version"],
        type=ComponentType.LIBRARY,
        bom_ref="archive",
        description=release["description"],
        licenses=[declare_licence(release["licence"])],
        hashes=[HashType.from_composite_str(f"sha256:{release['sha256']}")],
        purl=PackageURL("generic", release["namespace"], release["name"], release["version"]),
        external_references=[
            ExternalReference(type=ExternalReferenceType.VCS, url=XsUri(release["repository"])),
            ExternalReference(
                type=ExternalReferenceType.ISSUE_TRACKER, url=XsUri(release["issues"])
            ),
        ],
    )
    needs = [build_need(need) for need in release["needs"]]
    bom = Bom(
        components=needs,
        metadata=BomMetaData(
            component=archive,
            timestamp=datetime.datetime.fromtimestamp(release["time"], tz=datetime.UTC),
        ),
        serial_number=uuid.uuid5(
            uuid.NAMESPACE_URL, f"{release['repository']}#{release['sha256']}"
        ),
    )
    bom.register_dependency(archive, needs)
    text: str = JsonV1Dot6(bom).output_as_string(indent=2)
    return text + "\n"


def build_need(need: Mapping[str, Any]) -> Component:
    """Return what the collection needs, by a row of NEEDS in release_needs.py."""
    return Component(
        name=need["name"],
        type=ComponentType.LIBRARY,
        bom_ref=f"{need['kind']}/{need['name']}",
        description=need["why"],
        scope=ComponentScope.OPTIONAL if need["optional"] else ComponentScope.REQUIRED,
        licenses=[declare_licence(need["licence"])],
        purl=PackageURL(need["kind"], None, need["name"]),
        properties=[Property(name="gpufleet:versions", value=need["versions"])],
    )


def declare_licence(licence: str) -> DisjunctiveLicense:
    return DisjunctiveLicense(id=licence, acknowledgement=LicenseAcknowledgement.DECLARED)


def main() -> int:
    """Write the document, or say where CycloneDX's schema refuses it."""
    text = build_document(json.load(sys.stdin))
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if fault:
        print(f"sbom.py: {fault}", file=sys.stderr)
        return 1
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
