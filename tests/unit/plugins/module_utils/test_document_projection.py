# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a document in YAML or JSON leaves a host, on every Python of the host.
`tests/unit/plugins/plugin_utils/cdi` has the forms.
"""

import re

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import keyed
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import contents

KEEP = {
    "format": "document",
    "comments": ["# ours"],
    "known": ["my own"],
    "places": [
        [["path"], "program"], [["name"], "numbered name"], [["size"], "number"], [["fine"], "bool"], [["list", "[]", "path"], "path"],
        [["env", "[]"], ["split", "=", "variable", {"FOLDER": "path"}]], [["kind"], ["split", "/", "name", {"*": "name"}]],
        [["notes", "*"], ["hidden", "qualified name", ["known.example"]]],
        [["args"], ["arguments", {"--folder": "path"}, "path", {"tool": 1}]],
    ],
}  # fmt: skip


def shown(text):
    found = contents.show_content(text.encode("utf-8"), KEEP, "/etc/x.yaml")
    assert found["fault"] is None
    return re.sub(r"(\(hidden|hidden-)[ -]?[0-9a-f]{16}", r"\1", found["content"])


CASES = {
    "a listed comment stays": ("# ours\n# theirs\npath: /x # more\n", "# ours\n#\npath: /x #\n"),
    "a value of its shape, in any spelling": ("path: '/x'\nsize: 0666\nfine: yes\n", "path: '/x'\nsize: 0666\nfine: yes\n"),
    "a value of another": ("name: a b\nsize: '7'\nfine: 1\n", 'name: "(hidden 3)"\nsize: "(hidden 1)"\nfine: "(hidden 1)"\n'),
    "a key that is not listed": ("secret: word\n", '"(hidden 6)": "(hidden 4)"\n'),
    "a listed key in other letters": ("Path: /x\n", "Path: /x\n"),
    "a path with an odd name in it": ("list: [{path: /a/b c/d}]\n", 'list: [{path: "/a/(hidden 3)/d"}]\n'),
    "a path with a name that was given": ("list: [{path: /a/my own/d}]\n", "list: [{path: /a/my own/d}]\n"),
    "an address": ("list: [{path: //u:p@h/s}]\n", 'list: [{path: "(hidden 9)/"}]\n'),
    "variables": ("env: [FOLDER=/x, FOLDER=x y, B=c, D=, e]\n",
                  'env: [FOLDER=/x, "FOLDER=(hidden 3)", "B=(hidden 1)", D=, "(hidden 1)"]\n'),
    "both sides of a sign": ("kind: a.b/c d\n", 'kind: "a.b/(hidden 3)"\n'),
    "keys of notes": ("notes: {known.example/a: b, c: d, e f: g}\n",
                      'notes: {known.example/a: "(hidden 1)", "hidden--1": "(hidden 1)", "(hidden 3)": "(hidden 1)"}\n'),
    "words of a program": ("path: /bin/tool\nargs: [tool, do-it, --folder, /x, --folder=/y, --folder=z z, a]\n",
                           'path: /bin/tool\nargs: [tool, do-it, --folder, /x, --folder=/y, "--folder=(hidden 3)", "(hidden 1)"]\n'),
    "words of another": ("path: /bin/other\nargs: [word, do-it]\n", 'path: /bin/other\nargs: ["(hidden 4)", "(hidden 5)"]\n'),
    "lines of a block": ("env:\n- |\n  A=b\n  c\n\nname: d\n", 'env:\n- "A=(hidden 4)/"\n     \n   \n\nname: d\n'),
    "a number that is read as another text": ("name: [08, 8]\n", 'name: ["(hidden 2 no-text)", "(hidden 1)"]\n'),
    "nothing": ("x:\nname: ~\nenv: ['']\n", '"(hidden 1)":\nname: ~\nenv: [\'\']\n'),
    "a second document": ("name: a\n---\nsecret\n", "name: a\n---\n\n"),
    "an anchor": ("list: [&secret {path: /x}, *secret]\n", "list: [&a1 {path: /x}, *a1]\n"),
    "a document of JSON": ('{"name": "a b", "size": 1}', '{"name": "(hidden 3)", "size": 1}'),
}  # fmt: skip


@pytest.mark.parametrize("text, projected", CASES.values(), ids=CASES)
def test_what_is_listed_is_shown_and_the_rest_has_stand_ins(text, projected):
    assert shown(text) == projected


def test_equal_values_have_one_keyed_tag(monkeypatch):
    keyed._begin_hmac.cache_clear(), contents._latest.clear()
    monkeypatch.setattr(keyed, "_SOURCES", ("/nonexistent",))
    text = b"x: one\nw: one\nz: two\n"
    tags = [
        re.findall(
            r': "\(hidden ([0-9a-f]{16})', contents.show_content(text, KEEP, "/x")["content"]
        )
    ]
    monkeypatch.undo()
    keyed._begin_hmac.cache_clear(), contents._latest.clear()
    tags.append(
        re.findall(
            r": \"\(hidden ([0-9a-f]{16})", contents.show_content(text, KEEP, "/x")["content"]
        )
    )
    keyed._begin_hmac.cache_clear(), contents._latest.clear()
    assert [(found[0] == found[1], found[1] == found[2]) for found in tags] == [(True, False)] * 2
    assert tags[0][0] != tags[1][0], "another key, another tag"


def test_what_cannot_be_read_is_a_code_a_line_and_the_listed_comment_that_it_begins_with():
    found = contents.show_content(b"# ours\nsecret: [\n", KEEP, "/x")
    assert (found["content"], found["fault"]) == (
        None,
        {"code": "yaml-value", "line": 2, "begins": "# ours"},
    )
    found = contents.show_content(b"# theirs\nsecret: !tag x\n", KEEP, "/x")
    assert (found["content"], found["fault"]) == (None, {"code": "yaml-form", "line": 2})
