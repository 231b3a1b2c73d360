# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the clauses about the text and the content of a CDI spec, as engines judge them."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

SPEC_HAS_TAG = Sentence("cdi-text.tag", "it has the tag {tag}")
SPEC_HAS_SLASH_ESCAPE = Sentence(
    "cdi-text.slash-escape", "there is the escape \\/, which engines do not know"
)
SPEC_ANCHOR_UNKNOWN = Sentence("cdi-text.anchor-unknown", "the anchor {anchor} is not known")
SPEC_KEY_NOT_TEXT = Sentence("cdi-text.key-not-text", "a key must be text")
SPEC_KEY_TWICE = Sentence(
    "cdi-text.key-twice", "the key {key} is there twice (first in line {first})"
)
SPEC_MERGES_NO_MAPPING = Sentence("cdi-text.merges-no-mapping", "only a mapping can be merged")
SPEC_KEY_MERGED_TWICE = Sentence(
    "cdi-text.key-merged-twice", "the key {key} is there twice, by a merge"
)
SPEC_FIELD_UNKNOWN = Sentence("cdi-text.field-unknown", "there is no field {field} in {place}")
SPEC_KEY_IMPOSSIBLE = Sentence("cdi-text.key-impossible", "{key} cannot be a key")
SPEC_FIELD_TWICE = Sentence("cdi-text.field-twice", "{field} is there twice, in different case")
SPEC_FIELD_CASE = Sentence("cdi-text.field-case", "{text} should be written {field}")
SPEC_ENTRY_EMPTY = Sentence("cdi-text.entry-empty", "this entry is empty")
SPEC_NOT_QUOTED = Sentence(
    "cdi-text.not-quoted", "{place} is a number or a truth value without quotes"
)
SPEC_WRITTEN_UNQUOTED = Sentence(
    "cdi-text.written-unquoted", "{place} is written {text}, without quotes"
)
SPEC_WRONG_TYPE = Sentence("cdi-text.wrong-type", "{place} is {found}, but must be {wanted}")
SPEC_FIELD_LATER = Sentence(
    "cdi-text.field-later", "release {release} of the library does not know the field {field}"
)
SPEC_CONTENTLESS = Sentence("cdi-text.no-content", "it has no content")
SPEC_EMPTY = Sentence("cdi-text.empty", "it is empty")
SPEC_DEVICELESS = Sentence("cdi-text.no-devices", "it has no devices")
SPEC_VERSION_UNKNOWN = Sentence(
    "cdi-text.version-unknown", "there is no version {given!r} up to {highest}"
)
SPEC_VERSION_LOW = Sentence(
    "cdi-text.version-too-low", "{reason} needs {wanted}, and cdiVersion is {given}"
)
SPEC_KIND_FORM = Sentence("cdi-text.kind-form", "kind is {kind!r}, not vendor/class")
SPEC_KINDLESS = Sentence("cdi-text.no-kind", "it has no kind")
SPEC_NAME_FORM = Sentence("cdi-text.name-form", "{name!r} is not a {what} name")
SPEC_NAME_SHORT = Sentence("cdi-text.name-short", "the {what} name {name!r} has one character only")
SPEC_DEVICE_NAME_FORM = Sentence("cdi-text.device-name-form", "{name!r} is not a device name")
SPEC_DEVICE_NAMELESS = Sentence("cdi-text.device-nameless", "a device has no name")
SPEC_DEVICE_TWICE = Sentence("cdi-text.device-twice", "the device {name} is there twice")
SPEC_DEVICE_EDITLESS = Sentence(
    "cdi-text.device-without-edits", "the device {name} has no container edits"
)
SPEC_MOUNT_LACKS = Sentence("cdi-text.mount-lacks", "a mount has no {key}")
SPEC_ENV_FORM = Sentence("cdi-text.env-form", "{text!r} is not NAME=value")
SPEC_NODE_PATHLESS = Sentence("cdi-text.node-without-path", "a device node has no path")
SPEC_NODE_TYPE = Sentence("cdi-text.node-type", "the type of {node} is {type!r}")
SPEC_NODE_PERMISSIONS = Sentence(
    "cdi-text.node-permissions", "the permissions of {node} are {permissions!r}"
)
SPEC_HOOK_UNKNOWN = Sentence("cdi-text.hook-unknown", "there is no hook called {hook!r}")
SPEC_HOOK_PATHLESS = Sentence("cdi-text.hook-without-path", "a hook has no path")
SPEC_CLOSID = Sentence("cdi-text.closid", "{text!r} is not a closID")
SPEC_NET_LACKS = Sentence("cdi-text.net-device-lacks", "a network device has no {key}")
SPEC_NET_TWICE = Sentence("cdi-text.net-device-twice", "two network devices have the {key} {name}")
