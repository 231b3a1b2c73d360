# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The short way of reading a spec: it is taken for what generators write, and never reads anything
but what engines read.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    plain_yaml,
    releases,
    schema,
    yaml,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.draws import count_examples

OURS = """\
# Written by gpufleet.nvidia from the driver on this host; changes are lost at its next run.
---
cdiVersion: "0.5.0"
kind: nvidia.com/gpu
containerEdits:
  env:
    - "NVIDIA_VISIBLE_DEVICES=void"
  hooks:
    - hookName: createContainer
      path: /usr/bin/nvidia-cdi-hook
      args:
        - nvidia-cdi-hook
        - "--link"
        - "libcuda.so.1::/usr/lib/libcuda.so"
devices:
  - name: "0"
    containerEdits:
      deviceNodes:
        - path: /dev/nvidia0
          major: 195
          minor: 0
"""
TOOLKITS = """\
---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
    - name: GPU-94b3a771-e526-5769-b265-e59937526c57
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
              fileMode: 438
              permissions: rwm
        hooks:
            - hookName: createRuntime
              path: /usr/bin/nvidia-cdi-hook
              args:
                - nvidia-cdi-hook
                - --driver-root
                - ""
                - ../libnvidia-allocator.so.1::/usr/lib/gbm/nvidia-drm_gbm.so
containerEdits:
    env:
    - NVIDIA_VISIBLE_DEVICES=void
    additionalGids:
        - 44
"""
# What would be read as something else than it looks like, or only looks like a spec: for the reader
# that has all of YAML.
NOT_SHORT = {
    "a number that is text": OURS.replace('"0.5.0"', "0.5"),
    "a truth value that is text": OURS.replace("nvidia.com/gpu", "yes"),
    "a number of base 8": OURS.replace("major: 195", "major: 0195"),
    "a number that is too large": OURS.replace("major: 195", "fileMode: 4294967296"),
    "a number in quotes": OURS.replace("major: 195", 'major: "195"'),
    "the same key twice": OURS.replace("minor: 0", "major: 0"),
    "a key in another case": OURS.replace("minor:", "Minor:"),
    "a key that nobody knows": OURS.replace("minor:", "minors:"),
    "nothing behind a key": OURS.replace("major: 195", "major:"),
    "nothing behind the last key": OURS.replace("minor: 0", "minor:"),
    "a comment": OURS.replace("major: 195", "major: 195 # x"),
    "a second document": OURS + "---\nkind: x\n",
    "the end of the document": OURS + "...\n",
    "a blank at the end": OURS.replace("major: 195", "major: 195 "),
    "a tab": OURS.replace("  env:", "\tenv:"),
    "an escape": OURS.replace("void", "\\x41"),
    "an anchor": OURS.replace("- nvidia-cdi-hook", "- &a nvidia-cdi-hook"),
    "a key further right": OURS.replace("          minor: 0", "           minor: 0"),
    "a key further left": OURS.replace("          minor: 0", "         minor: 0"),
    "an item further left": OURS.replace('        - "--link"', '      - "--link"'),
    "a text over two lines": OURS.replace("createContainer", "create\n        Container"),
    "a value where parts belong": OURS.replace(
        "containerEdits:\n  env", "containerEdits: a\n  env"
    ),
    "something hidden that may read otherwise": OURS.replace(
        "nvidia.com/gpu", '"(hidden 0123456789abcdef 5 no-text)"'
    ),
    "no line end": OURS[:-1],
    "nothing": "",
    "a head alone": "---\n",
}


def engines(text: str) -> tuple[Any, list[str]]:
    """What the reader of all of YAML makes of a text, and what is wrong with it."""
    try:
        document = schema.fit_spec_document(
            yaml.read_yaml_document(text.encode("utf-8", "surrogateescape"))
        )
    except yaml.UnreadableYaml as error:
        return None, [str(error)]
    return document.value, [
        problem.message for problem in document.problems if problem.rule not in releases.HARMLESS
    ]


@pytest.mark.parametrize(
    "text",
    [OURS, TOOLKITS, TOOLKITS.replace("---\n", "")],
    ids=["ours", "nvidia-ctk's", "without a head"],
)
def test_what_generators_write_is_read_the_short_way(text: str) -> None:
    found = plain_yaml.read_plain_spec(text)
    assert found is not None
    assert (found, []) == engines(text)


@pytest.mark.parametrize("text", NOT_SHORT.values(), ids=NOT_SHORT)
def test_all_else_is_left_to_the_reader_of_all_of_yaml(text: str) -> None:
    assert plain_yaml.read_plain_spec(text) is None


keys = sorted({field for shape in schema.SHAPES.values() for field in shape})
WORDS = """
a /dev/x --link -x - -- -1 .5 ./a ../a . .. y No null ~ .inf 0 00 1 195 0x1 1e3 1_0 0.5 0.5.0 a: a:b a::b a,b a=b = << @a a@b %a a%b #a
a#b *a &a !a "" "a" "a: "\\\\" "0" [] {} | > ? (hidden hidden-0123456789abcdef-3 9223372036854775808 4294967296
"""
values = st.sampled_from([*WORDS.split(), '"a b"', "a b"])
line = st.builds(
    lambda indent, item, key, value: (
        " " * indent + item + (f"{key}:{' ' + value if value else ''}" if key else value or "a")
    ),
    st.integers(0, 8),
    st.sampled_from(["", "- "]),
    st.sampled_from([*keys, "", "Kind", "---"]),
    values | st.just(""),
)


@settings(max_examples=count_examples(600))
@given(st.sampled_from([OURS, TOOLKITS]), st.data())
def test_a_line_that_changed_is_read_as_engines_read_it_or_not_at_all(
    text: str, data: st.DataObject
) -> None:
    lines = text.splitlines()
    for _change in range(data.draw(st.integers(1, 3))):
        place, known = data.draw(st.integers(0, len(lines) - 1)), data.draw(st.sampled_from(lines))
        indent = " " * (len(lines[place]) - len(lines[place].lstrip()))
        new = data.draw(
            st.sampled_from(
                [None, known, indent + known.lstrip(), " " + lines[place], lines[place][1:]]
            )
            | line
        )
        if data.draw(st.booleans()):
            key, _colon, _value = lines[place].partition(":")
            new = f"{key}: {data.draw(values)}"
        lines[place : place + data.draw(st.integers(0, 1))] = [] if new is None else [new]
        lines = lines or ["a"]
    agree("\n".join(lines) + "\n")


@settings(max_examples=count_examples(600))
@given(st.lists(line, max_size=6).map(lambda found: "\n".join([*found, ""])))
@example("devices:\n- name: a\n  containerEdits:\n    env:\n    - a\n")
@example("kind: a\ncontainerEdits:\n  intelRdt:\n    closID: a\n    schemata:\n    - a\n")
def test_any_lines_are_read_as_engines_read_them_or_not_at_all(text: str) -> None:
    agree(text)


def agree(text: str) -> None:
    found = plain_yaml.read_plain_spec(text)
    assert found is None or (found, []) == engines(text)
