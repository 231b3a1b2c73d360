# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tags of keys that are not shown: equal for what means the same, unequal for everything else, and
telling nothing.
"""

import json

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, observe
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import leaves

KEEP = {"format": "toml", "places": [[["p", "shown"], "bool"]]}


def told(text, prefixes=(["p"],)):
    return leaves.tag_leaves(text.encode(), KEEP, list(prefixes))


def tags(text, prefixes=(["p"],)):
    """Without the lines."""
    return {(number, key, value) for number, _line, key, value in told(text, prefixes)["leaves"]}


# Two ways to write the same.
SAME = {
    "an inline table and a table": ("[p]\na = { b = 1, c = 'x' }\n", '[p.a]\nc = "x"\nb = 1\n'),
    "dotted keys": ("[p]\na.b = 1\n", "[p.a]\nb = 1\n"),
    "hexadecimal and decimal": ("[p]\na = 0xff\n", "[p]\na = 255\n"),
    "an array of tables and an array of inline tables": (
        "[[p.t]]\na = 1\n[[p.t]]\na = 2\n[p.t.u]\nb = 3\n",
        "[p]\nt = [{a = 1}, {a = 2, u = {b = 3}}]\n",
    ),
    "a string in lines": ('[p]\na = """x\ny"""\n', '[p]\na = "x\\ny"\n'),
    "comments and order": ("[p]\n# why\na = 1\nb = 2\n", "[p]\nb = 2\na = 1 # how\n"),
    "an array over lines": ("[p]\na = [\n1, # one\n2]\n", "[p]\na = [1, 2]\n"),
    "a table without keys": ("[p.a]\n", ""),
    "what is shown": ("[p]\nshown = true\n", "[p]\nshown = false\n"),
    "what is elsewhere": ("[q]\na = 1\n", "[q]\na = 2\n"),
}


@pytest.mark.parametrize("name", SAME)
def test_what_means_the_same_has_the_same_tags(name):
    one, other = SAME[name]
    assert tags(one) == tags(other)


DIFFERENT = {
    "another value": ("[p]\na = 1\n", "[p]\na = 2\n"),
    "another key": ("[p]\na = 1\n", "[p]\nb = 1\n"),
    "a number and a string": ("[p]\na = 1\n", "[p]\na = '1'\n"),
    "a number and a flag": ("[p]\na = 1\n", "[p]\na = true\n"),
    "the order of an array": ("[p]\na = [1, 2]\n", "[p]\na = [2, 1]\n"),
    "one more": ("[p]\na = 1\n", "[p]\na = 1\nb = 1\n"),
    "what is listed and has another form": ("[p]\nshown = 1\n", "[p]\nshown = 2\n"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_means_something_else_has_other_tags(name):
    one, other = DIFFERENT[name]
    assert tags(one) != tags(other)


ONE, LIST = "[p.c]\none = 'x'\n", "[p.c]\nlist = ['x']\n"
# Two texts, and whether they have the same tags where p.c.one is read as the list p.c.list.
MOVED = {
    "a string and the list of it": (ONE, LIST, True),
    "a string beside an empty list, and the list": (ONE + "list = []\n", LIST, False),
    "another string": ("[p.c]\none = 'y'\n", LIST, False),
    "a list of more": (ONE, "[p.c]\nlist = ['x', 'y']\n", False),
    "two keys that disagree, and the list": (ONE.replace("x", "y") + "list = ['x']\n", LIST, False),
    "no string": ("[p.c]\none = 1\n", "[p.c]\nlist = [1]\n", False),
    "a key of that name elsewhere": ("[p.d]\none = 'x'\n", "[p.d]\nlist = ['x']\n", False),
}


@pytest.mark.parametrize("name", MOVED)
def test_a_string_that_a_program_reads_as_a_list_of_another_name_is_tagged_as_that(name):
    one, other, same = MOVED[name]
    moves = [[["p", "c", "one"], ["p", "c", "list"]]]
    found, expected = (
        leaves.tag_leaves(text.encode(), KEEP, [["p"]], moves)["leaves"] for text in (one, other)
    )
    assert ([leaf[2:] for leaf in found] == [leaf[2:] for leaf in expected]) is same
    assert tags(one) != tags(other), "without moves they are different keys"


def test_equal_values_of_different_keys_have_different_tags():
    assert len({value for _number, _key, value in tags('[p]\na = "x"\nb = "x"\n')}) == 2


def test_tables_that_are_named_by_themselves_are_compared_below_their_own_names():
    """A copy of a table under another name has the same tags, the longest prefix counts."""
    text = "[p.r.one]\na = 1\nb.c = 2\n[p.r.two]\na = 1\nb = { c = 2 }\n[p]\nd = 3\n"
    found = tags(text, (["p"], ["p", "r", "one"], ["p", "r", "two"]))
    assert {t[1:] for t in found if t[0] == 1} == {t[1:] for t in found if t[0] == 2}
    assert len([t for t in found if t[0] == 0]) == 1


def test_a_value_that_is_zero_says_so():
    found = told('[p]\na = ""\nb = 0\nc = false\nd = []\ne = "x"\n')["leaves"]
    assert [value == "" for _number, _line, _key, value in found] == [True, True, True, True, False]


def test_lines_are_those_of_the_file():
    text = "# c\n[p]\na = 1\n\nb = { c = 2 }\n[[p.t]]\nx = 1\n[[p.t]]\nx = 2\n"
    assert sorted(line for _number, line, _key, _value in told(text)["leaves"]) == [3, 5, 6]


def test_no_word_of_the_file_leaves_the_host():
    answer = json.dumps(told('[p.registry."host.example"]\npassword = "hunter2"\n'))
    assert not [word for word in ("hunter2", "password", "host.example") if word in answer]


def test_what_is_no_toml_is_told_by_its_line():
    assert told("[p]\na = \n")["fault"] == {"code": "toml-value", "line": 2}


DOTS = ".".join(["k"] * 64)


@pytest.mark.parametrize(
    "text",
    [
        f"[p]\n{DOTS} = " + "{%s = " % DOTS * 30 + "1" + "}" * 30,
        "[p]\na = [" + "{%s = " % DOTS * 30 + "1" + "}" * 30 + "]",
    ],
    ids=["in tables", "in an array"],
)
def test_keys_of_many_parts_in_each_other_are_told_by_their_line(text):
    assert told(text)["fault"] == {"code": "toml-deep", "line": 2}


def test_more_keys_than_can_be_compared_are_an_error_and_never_a_part_of_them():
    with pytest.raises(host_files.HostError) as caught:
        told("".join(f"k{number} = 1\n" for number in range(leaves.MOST + 1)), [[]])
    assert caught.value.kind == "too-large"


class Counted(bytes):
    """Bytes that note how many of them have been searched for line ends."""

    searched = 0

    def count(self, sub, start=0, end=None):
        if sub == b"\n":
            Counted.searched += (len(self) if end is None else end) - start
        return super().count(sub, start, len(self) if end is None else end)


def test_lines_are_not_counted_from_the_beginning_for_each_key():
    text = Counted("".join(f"k{number} = 1\n" for number in range(1000)).encode())
    assert [
        line for _number, line, _key, _value in leaves.tag_leaves(text, KEEP, [[]])["leaves"]
    ] != []
    assert Counted.searched <= len(text)


@pytest.mark.parametrize(
    ("argv", "kind"),
    [
        (["sh", "-c", "echo 'a = 1'; exit 3"], "failed"),
        (["sh", "-c", "echo 'a = 1'; exec sleep 60"], "timeout"),
        (["true"], None),
    ],
)
def test_what_a_command_printed_before_it_failed_is_no_answer(argv, kind):
    question = {
        "id": "q",
        "kind": "tags",
        "prefixes": [[]],
        "keep": KEEP,
        "argv": argv,
        "timeout": 0.5,
    }
    answer = observe.run({"questions": [question]})["answers"]["q"]
    assert answer.get("error", {}).get("kind") == kind


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"path": "/no/such/file"}, "not-found"),
        ({"path": "/etc"}, None),
        ({"argv": ["/no/such/program"]}, None),
    ],
)
def test_what_cannot_be_read_is_an_error(more, kind):
    question = {"id": "q", "kind": "tags", "prefixes": [[]], "keep": KEEP, **more}
    answer = observe.run({"questions": [question]})["answers"]["q"]
    assert "error" in answer
    assert kind in (None, answer["error"]["kind"])


def test_another_trees_programs_are_not_run():
    question = {"id": "q", "kind": "tags", "prefixes": [[]], "keep": KEEP, "argv": ["true"]}
    assert (
        observe.run({"root": "/etc", "questions": [question]})["answers"]["q"]["error"]["kind"]
        == "offline"
    )
