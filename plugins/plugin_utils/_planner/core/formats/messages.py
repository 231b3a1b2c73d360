# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about texts in TOML, JSON and YAML."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# ---------------------------------------------------------------- any format
CONFIGURATION_TOO_DEEP = Sentence(
    "format.too-deep",
    "this is nested too deeply to be a configuration",
    next="Repair this file first",
)
NOT_JSON = Sentence("format.not-json", "it is not JSON")
TEXT_TOO_LONG = Sentence(
    "format.text-too-long", "it has {length} characters, but at most {limit} are read"
)
TEXT_TOO_DEEP = Sentence("format.text-too-deep", "it is nested more than {limit} levels deep")
NUMBER_TOO_LONG_HERE = Sentence(
    "format.number-too-long", "this number has more than {limit} characters"
)

TOO_COSTLY = "no configuration needs that much, and reading it could take too long"

# --- TOML

TOML_NOT_UTF8 = Sentence(
    "toml.not-utf-8", "this is not UTF-8", why="{reason}", next="Save the file as UTF-8"
)
TOML_NUMBER_TOO_LONG = Sentence(
    "toml.number-too-long", "a number in this file is too long", next="Repair this file first"
)
NO_PARSER = Sentence(
    "toml.no-parser",
    "the controller's Python cannot read TOML",
    why="it is older than 3.11, and tomlkit is not installed",
    next="Install tomlkit for the Python that runs Ansible (meta/execution-environment.yml lists it), or use Python 3.11 or newer",
)
TOML_WRONG_TYPE = Sentence(
    "toml.wrong-type",
    "{key} is {found} here, but must be {wanted}",
    why="{reason}",
    next="Repair it first",
)
TOML_TOO_LONG = Sentence(
    "toml.too-long",
    "this has {length} characters, but at most {limit} are read",
    next="Make it smaller",
)
TOML_TOO_MANY_SIGNS = Sentence(
    "toml.too-many-signs",
    "this has {count} lines, commas, brackets and backslashes, but at most {limit} are read",
    why=TOO_COSTLY,
    next="Make it smaller, or repair this line",
)
KEY_TOO_DEEP = Sentence(
    "toml.key-too-deep",
    "this key has more than {limit} parts",
    why=TOO_COSTLY,
    next="Write it with fewer dots, or repair this line",
)
TOO_MANY_BRACKETS = Sentence(
    "toml.too-many-brackets",
    "more than {limit} brackets are open here",
    why=TOO_COSTLY,
    next="Nest it less, or repair this line",
)
WORD_TOO_LONG = Sentence(
    "toml.word-too-long",
    "this key or number has more than {limit} characters",
    why=TOO_COSTLY,
    next="Write it shorter, or repair this line",
)
TOO_ENTANGLED = Sentence(
    "toml.too-entangled",
    "{key} cannot be changed here without touching other lines",
    why="{reason}",
    next="Write it as a table with a header of its own, or make the change by hand",
)
REFUSED_HERE = Sentence("toml.refused-here", "a parser refuses it here")
READ_BACK_DIFFERS = Sentence("toml.read-back-differs", "the value is not what is read back")
IS_TABLE = Sentence(
    "toml.is-table", "this is a table or an array of tables, not a key with a value"
)
NOT_ARRAY = Sentence("toml.not-array", "this is not an array")
NOT_TABLE = Sentence("toml.not-table", "this is not a table")
EDIT_INVALID = Sentence(
    "toml.edit-invalid", "the edit would result in text that is not valid TOML: {reason}"
)
EDIT_TOO_WIDE = Sentence("toml.edit-too-wide", "the edit would change other keys as well")
WOULD_BE_IN_ARRAY = Sentence("toml.would-be-in-array", "it would be inside an array of tables")
IN_ARRAY = Sentence("toml.in-array", "it is inside an array of tables")

# --- JSON

JSON_TOO_LARGE = Sentence(
    "json.too-large", "{problem}", why=TOO_COSTLY, next="Repair this file first"
)
VALUE_EXPECTED = Sentence(
    "json.value-expected",
    "this is not valid JSON: {found} where a value is expected",
    next="Repair this line",
)
KEY_EXPECTED = Sentence(
    "json.key-expected",
    "this is not valid JSON: {found} where a key in quotes is expected",
    next="Repair this line",
)
COLON_EXPECTED = Sentence(
    "json.colon-expected",
    "this is not valid JSON: {found} where a colon is expected",
    next="Repair this line",
)
COMMA_EXPECTED = Sentence(
    "json.comma-expected",
    "this is not valid JSON: {found} where a comma or {bracket} has to be",
    next="Repair this line",
)
STRING_OPEN = Sentence(
    "json.string-open",
    "this is not valid JSON: a string without an end, or with a character that has to be escaped",
    next="Repair this line",
)
JSON_NUMBER_TOO_LONG = Sentence(
    "json.number-too-long", "this number is too long", next="Repair this line"
)
KEY_TWICE = Sentence(
    "json.key-twice",
    "the key {key} occurs twice",
    next="Remove the first one, which has no effect",
)
JSON_HAS_COMMENT = Sentence(
    "json.comment", "this is not valid JSON: it has no comments", next="Take the comment out"
)
NOT_OBJECT = Sentence("json.not-object", "this is not a JSON object", next="Write it as {{ ... }}")
TEXT_AFTER_END = Sentence(
    "json.text-after-end",
    "there is text after the end of the JSON object: {found}",
    next="Take it out",
)
CHANGES_OTHERS = Sentence(
    "json.changes-others",
    "the change would alter more than the keys of this collection",
    next="Please report this file",
)
CALLED_TOO_DEEP = Sentence("json.called-too-deep", "it is nested too deeply to be read here")
TOO_MANY_VALUES = Sentence(
    "json.too-many-values", "it has more than {limit} keys, values and brackets"
)

# --- YAML

YAML_REFUSED = Sentence("yaml.refused", "it is not YAML")
YAML_TOO_MANY_VALUES = Sentence("yaml.too-many-values", "it has more than {limit} values")
YAML_REPEATS_VALUES = Sentence(
    "yaml.repeats-values", "it has more than {limit} values, and aliases repeat many of them"
)
TAG_NOT_READ = Sentence("yaml.tag-not-read", "the tag {tag} is not read here")
WRONG_VALUE = Sentence("yaml.wrong-value", "this is not a value of the type {type}")
SECOND_DOCUMENT = Sentence(
    "yaml.second-document", "a second document begins here, but one is expected"
)
NO_ANCHOR = Sentence("yaml.no-anchor", "an alias names an anchor that is not there")
ANCHOR_IN_ITSELF = Sentence("yaml.anchor-in-itself", "an anchor's value contains itself")
KEY_IS_TABLE = Sentence("yaml.key-is-table", "a key must not be a table or a list")
YAML_KEY_TWICE = Sentence("yaml.key-twice", "a table has this key twice")
ONLY_TABLES_MERGE = Sentence("yaml.only-tables-merge", "only tables can be merged")
