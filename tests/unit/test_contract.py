# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names that users set and read are in docs/contract.json, and a change of one of them needs a
changelog fragment of its kind.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit import tool_modules

with tool_modules.reachable():
    import contract
    import semantic_versions as versions

BREAKING, DEPRECATED, MINOR = "breaking_changes", "deprecated_features", "minor_changes"


def test_the_file_has_the_contract_of_the_code() -> None:
    """Each line of the failure names the fragment that the change needs from 0.1.0 on."""
    changes = contract.compare_contracts(contract.read_file(), contract.build_contract())
    assert [contract.describe_change(change) for change in changes] == [], "run make docs"
    assert contract.FILE.read_text() == contract.render_contract(contract.read_file())


def test_a_change_since_the_last_release_has_its_fragment() -> None:
    base, promised = contract.find_base()
    changes = contract.compare_contracts(promised, contract.build_contract()) if base else []
    missing = contract.list_unexplained(changes, contract.read_fragments())
    assert [contract.describe_change(change) for change in missing] == []


WORD = {"choices": ["auto", "cdi"], "default": "auto", "type": "str"}
FREE = {"type": "str"}
# promise, before, after, the section of the fragment ('' for none, '-' for no change)
CHANGES = [
    ("option host.cdi", WORD, WORD, "-"),
    ("option host.cdi", WORD, None, BREAKING),
    ("option host.cdi", None, WORD, MINOR),
    ("option host.cdi", None, {**WORD, "required": True}, BREAKING),
    ("option host.cdi", WORD, {**WORD, "choices": ["auto", "cdi", "hook"]}, MINOR),
    ("option host.cdi", WORD, {**WORD, "choices": ["auto"]}, BREAKING),
    ("option host.cdi", FREE, {**FREE, "choices": ["auto"]}, BREAKING),
    ("option host.cdi", WORD, {**WORD, "default": "cdi"}, BREAKING),
    ("option host.cdi", WORD, {**WORD, "type": "raw"}, BREAKING),
    ("option host.cdi", WORD, {**WORD, "required": True}, BREAKING),
    ("option host.cdi", {**WORD, "required": True}, WORD, MINOR),
    ("option host.cdi", WORD, {**WORD, "aliases": ["specs"]}, MINOR),
    ("option host.cdi", WORD, {**WORD, "deprecated": True}, DEPRECATED),
    ("result host.changed", {"type": "bool"}, None, BREAKING),
    ("result host.changed", {"type": "bool"}, {"type": "str"}, BREAKING),
    ("result host.more", None, {"type": "str"}, MINOR),
    ("module host", {}, None, BREAKING),
    ("playbook plan", {}, None, BREAKING),
    ("playbook more", None, {}, MINOR),
    ("role drain", {"entry_points": ["main"]}, {"entry_points": ["check", "main"]}, MINOR),
    ("code host.gone", {}, None, BREAKING),
    ("code host.more", None, {}, ""),
    ("journal", {"schema": 1}, {"schema": 2}, BREAKING),
    ("schema report.hosts", {"required": ["a"]}, {"required": ["a", "b"]}, BREAKING),
]


@pytest.mark.parametrize(("promise", "before", "after", "kind"), CHANGES)
def test_a_change_of_the_contract_names_the_fragment_it_needs(
    promise: str, before: Any, after: Any, kind: str
) -> None:
    old = {promise: before} if before is not None else {}
    new = {promise: after} if after is not None else {}
    found = [(change.promise, change.kind) for change in contract.compare_contracts(old, new)]
    assert found == ([] if kind == "-" else [(promise, kind)])


# the kind that is needed, the fragment's section, its text, whether it explains option host.cdi_class
FRAGMENTS = [
    (BREAKING, BREAKING, "host - ``cdi_class`` is gone, use ``cdi_vendor``.", True),
    (BREAKING, BREAKING, "host.cdi_class is gone.", True),
    (BREAKING, "removed_features", "host - ``cdi_class`` is gone.", True),
    (BREAKING, MINOR, "host - ``cdi_class`` is gone.", False),
    (BREAKING, BREAKING, "host - ``cdi_class_name`` is gone.", False),
    (BREAKING, BREAKING, "host - ``gpufleet_cdi_class`` is gone.", False),
    (BREAKING, BREAKING, "host - an option is gone.", False),
    (DEPRECATED, DEPRECATED, "host - ``cdi_class`` is deprecated.", True),
    (DEPRECATED, BREAKING, "host - ``cdi_class`` is deprecated.", False),
    (MINOR, MINOR, "host - adds ``cdi_class``.", True),
    (MINOR, "bugfixes", "host - adds ``cdi_class``.", False),
]


@pytest.mark.parametrize(("kind", "section", "text", "explained"), FRAGMENTS)
def test_a_fragment_explains_what_it_names(
    kind: str, section: str, text: str, explained: bool, tmp_path: Path
) -> None:
    (tmp_path / "one.yml").write_text(json.dumps({section: [text]}))
    change = contract.ContractChange("option host.cdi_class", kind, "")
    missing = contract.list_unexplained([change], contract.read_fragments(tmp_path))
    assert missing == ([] if explained else [change])


# releases whose contract is kept, the one that binds
BASES = [
    ((), ""),
    (("0.1.0-rc.1",), ""),
    (("0.1.0-rc.1", "0.1.0"), "0.1.0"),
    (("0.2.0", "0.10.0", "0.10.0-rc.1"), "0.10.0"),
]


@pytest.mark.parametrize(("kept", "binding"), BASES)
def test_the_newest_release_binds_and_no_candidate_of_the_first(
    kept: tuple[str, ...], binding: str, tmp_path: Path
) -> None:
    for version in kept:
        (tmp_path / version).mkdir()
        (tmp_path / version / "contract.json").write_text(json.dumps({f"module {version}": {}}))
    assert contract.find_base(tmp_path) == (binding, {f"module {binding}": {}} if binding else {})


# as semver.org orders them, in section 11
ORDERED = [
    "0.0.9",
    "0.1.0-alpha",
    "0.1.0-alpha.1",
    "0.1.0-alpha.beta",
    "0.1.0-beta",
    "0.1.0-beta.2",
    "0.1.0-beta.11",
    "0.1.0-rc.1",
    "0.1.0",
    "0.2.0",
    "0.10.0",
    "1.0.0",
]


def test_versions_have_the_order_of_semver() -> None:
    assert sorted(reversed(ORDERED), key=versions.read_version) == ORDERED


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.0", "v1.0.0", "1.0.0.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0+build", "1.0.0 "],
)
def test_a_text_of_another_form_is_not_a_version(text: str) -> None:
    with pytest.raises(ValueError):
        versions.read_version(text)
