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
    ("ansible-core", {"requires": ">=2.16.0"}, {"requires": ">=2.17.0"}, BREAKING),
    ("action group host", {"members": ["host"]}, {"members": ["drain", "host"]}, MINOR),
    ("action group host", {"members": ["drain", "host"]}, {"members": ["host"]}, BREAKING),
    ("action group host", {"members": ["host"]}, None, BREAKING),
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


@pytest.mark.parametrize(
    ("promise", "said"),
    [
        ("ansible-core", {"requires": ">=2.16.0"}),
        ("drop-in containerd", {"name": "90-gpufleet.toml"}),
        ("drop-in crio", {"name": "90-gpufleet.conf"}),
        ("handler", {"name": "nvidia"}),
    ],
)
def test_what_the_page_counts_as_public_is_in_the_file(promise: str, said: Any) -> None:
    assert contract.read_file()[promise] == said


def test_the_group_of_defaults_is_in_the_file() -> None:
    assert "cdi_spec" in contract.read_file()["action group host"]["members"]


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


# promise, the text of an entry, whether it explains a change of that promise
NAMED = [
    ("code host.gone", "host - ``cdi_class`` is gone.", False),
    ("code host.gone", "host - ``gone`` is no code any more.", False),
    ("code host.gone", "host - the code ``host.gone`` is another one.", True),
    ("module host", "host - says more.", False),
    ("module host", "``host`` - is split.", True),
    ("module host", "the module host is split.", True),
    ("module host", "``host.cdi_class`` - is gone.", False),
    ("option host.handlers", "host.handlers.binary is gone.", False),
    ("event start", "rollouts - hosts start later.", False),
    ("event start", "rollouts - ``start`` is written later.", True),
    ("journal", "the journal is kept longer.", False),
    ("journal", "``journal`` - has another schema.", True),
    ("option host.handlers.binary", "crio_runtime - ``binary`` is gone.", False),
    ("option host.handlers.binary", "host - the binary is looked for.", False),
    ("option host.handlers.binary", "host - ``binary`` of a handler is gone.", True),
    ("variable gpufleet_cdi", "roles - gpufleet_cdi is gone.", True),
    ("playbook roll_back", "roll_back is gone.", True),
    ("action group host", "the action group host lacks ``drain``.", True),
    ("ansible-core", "ansible-core 2.17 says more.", False),
    ("ansible-core", "``ansible-core`` 2.16 is not taken any more.", True),
]


@pytest.mark.parametrize(("promise", "text", "explained"), NAMED)
def test_an_entry_explains_what_it_names_without_doubt(
    promise: str, text: str, explained: bool, tmp_path: Path
) -> None:
    (tmp_path / "one.yaml").write_text(json.dumps({BREAKING: [text]}))
    change = contract.ContractChange(promise, BREAKING, "")
    missing = contract.list_unexplained([change], contract.read_fragments(tmp_path))
    assert missing == ([] if explained else [change])


def test_a_word_of_another_entry_explains_nothing(tmp_path: Path) -> None:
    entries = ["host - ``cdi`` is gone.", "crio_runtime - ``binary`` is gone."]
    (tmp_path / "one.yml").write_text(json.dumps({BREAKING: entries}))
    change = contract.ContractChange("option host.binary", BREAKING, "")
    assert contract.list_unexplained([change], contract.read_fragments(tmp_path)) == [change]


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
    [
        *("", "1", "1.0", "v1.0.0", "1.0.0.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0+build"),
        *("1.0.0 ", "1.0.0\n", "1.0.1\u0663", "1.0.0-rc.\u0663"),
    ],
)
def test_a_text_of_another_form_is_not_a_version(text: str) -> None:
    with pytest.raises(ValueError):
        versions.read_version(text)
