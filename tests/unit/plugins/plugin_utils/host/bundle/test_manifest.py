# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest of an archive: what is written is read again, and what somebody else wrote is judged
name by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import archives
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import manifest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit import bundles, schemas

SCHEMA = json.loads((Path(__file__).resolve().parents[6] / "docs/bundle.schema.json").read_text())
DESCRIBED = bundles.described(bundles.content())


def plain() -> Any:
    return json.loads(manifest.render_manifest(DESCRIBED))


def test_what_is_written_is_read_and_is_as_its_schema_says() -> None:
    assert manifest.parse_manifest(manifest.render_manifest(DESCRIBED)) == DESCRIBED
    assert schemas.judged(plain(), SCHEMA) == []
    assert schemas.judged({**plain(), "schema": 2, "more": 1}, SCHEMA)


def test_a_key_that_expires_says_when() -> None:
    other = manifest.Manifest(
        manifest.Key(bundles.FINGERPRINT, "2027-01-31T00:00:00Z"),
        DESCRIBED.repositories,
        DESCRIBED.files,
    )
    assert (
        manifest.parse_manifest(manifest.render_manifest(other)).key.expires
        == "2027-01-31T00:00:00Z"
    )


def deb(table: Any) -> Any:
    return table["repositories"][0]["packages"][0]


def renamed(name: str) -> Callable[[Any], Any]:
    """The same manifest with another name for a package's file, in both places."""

    def change(table: Any) -> None:
        old = deb(table)["file"]
        deb(table)["file"] = name
        table["files"][f"apt/x86_64/{name}"] = table["files"].pop(f"apt/x86_64/{old}")

    return change


BAD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a schema of a later release": (
        lambda t: t.update(schema=2),
        "its schema is 2, and this release reads 1",
    ),
    "no schema": (lambda t: t.pop("schema"), "its schema is None"),
    "a name that leads out": (
        renamed("../../etc/passwd"),
        "'apt/x86_64/../../etc/passwd', which is not allowed",
    ),
    "a name that leads out in the middle": (renamed("a/../../b"), "which is not allowed"),
    "an absolute name": (renamed("/etc/passwd"), "which is not allowed"),
    "a hidden name": (renamed(".profile"), "which is not allowed"),
    "a name with a line end": (renamed("a\nb"), "which is not allowed"),
    "a name with a terminal's code": (renamed("a\x1b[2J"), "which is not allowed"),
    "an empty name": (renamed(""), "which is not allowed"),
    "a digest of another kind": (
        lambda t: t["files"]["key.asc"].update(sha256="d41d8cd9"),
        "the sha256 of key.asc has the value 'd41d8cd9'",
    ),
    "a negative size": (
        lambda t: t["files"]["key.asc"].update(size=-1),
        "the size of key.asc is -1",
    ),
    "a truth for a size": (
        lambda t: t["files"]["key.asc"].update(size=True),
        "the size of key.asc is True",
    ),
    "a file that no repository names": (
        lambda t: t["files"].update(more=t["files"]["key.asc"]),
        "more is in one of the lists",
    ),
    "a file that is not listed": (
        lambda t: t["files"].pop("apt/x86_64/InRelease"),
        "apt/x86_64/InRelease is in one of the lists",
    ),
    "a key of another name": (
        lambda t: t["key"].update(file="other.asc"),
        "key.file is 'other.asc'",
    ),
    "a short fingerprint": (
        lambda t: t["key"].update(fingerprint="F796ECB0"),
        "key.fingerprint has the value 'F796ECB0'",
    ),
    "a date that is none": (
        lambda t: t["key"].update(expires="soon"),
        "key.expires has the value 'soon'",
    ),
    "a repository twice": (
        lambda t: t["repositories"].append(t["repositories"][0]),
        "it names a file or a repository twice",
    ),
    "no repository": (
        lambda t: (t.update(repositories=[]), t.update(files={"key.asc": t["files"]["key.asc"]})),
        "it has no repository",
    ),
    "another format": (
        lambda t: t["repositories"][0].update(format="pacman"),
        "of the kind 'pacman' for 'x86_64', which is not known",
    ),
    "another architecture": (
        lambda t: t["repositories"][0].update(architecture="../x"),
        "for '../x', which is not known",
    ),
    "no package": (
        lambda t: t["repositories"][0].update(packages=[]),
        "its repository apt/x86_64 is empty",
    ),
    "an option as a version": (
        lambda t: deb(t).update(version="-o Dir::Bin=sh"),
        "packages.version has the value '-o Dir::Bin=sh'",
    ),
    "an option as a package": (
        lambda t: deb(t).update(name="-y"),
        "packages.name has the value '-y'",
    ),
    "a text for a list": (
        lambda t: t["repositories"][0].update(indexes="InRelease"),
        "indexes is not a list",
    ),
    "a list for a table": (lambda t: t.update(key=[]), "key is not an object"),
}


@pytest.mark.parametrize(("change", "says"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_said(change: Callable[[Any], Any], says: str) -> None:
    table = plain()
    change(table)
    with pytest.raises(ValueError) as caught:
        manifest.parse_manifest(json.dumps(table))
    assert says in str(caught.value)
    assert str(caught.value).isprintable()
    assert get_code(read_error_message(caught.value)).startswith("bundle.manifest-")


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100000, "manifest"])
def test_what_is_no_manifest(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        manifest.parse_manifest(text)


def test_a_manifest_of_the_greatest_length_is_read_and_a_longer_one_is_refused(
    tmp_path: Path,
) -> None:
    files, text = bundles.content(), manifest.render_manifest(DESCRIBED).encode()
    longest, longer = tmp_path / "longest.tar", tmp_path / "longer.tar"
    longest.write_bytes(archives.pack_archive({**files, manifest.NAME: text.ljust(1 << 20)}))
    longer.write_bytes(archives.pack_archive({**files, manifest.NAME: text.ljust((1 << 20) + 1)}))
    assert archives.verify_archive(str(longest)) == DESCRIBED
    with pytest.raises(PlanError) as caught:
        archives.verify_archive(str(longer))
    assert caught.value.code == "bundle.damaged"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(JSON, st.sampled_from(["schema", "key", "repositories", "files"]))
def test_no_value_is_an_accident(value: Any, name: str) -> None:
    """Every text is read or refused."""
    table = {**plain(), name: value}
    if table != plain():
        with pytest.raises(ValueError):
            manifest.parse_manifest(json.dumps(table))
