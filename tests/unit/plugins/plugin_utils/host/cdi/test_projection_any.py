# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of any text that stands in a CDI directory: nothing unlisted leaves, what is found is the same,
and it takes no longer than it should.
"""

from __future__ import annotations

import gc
import json
import time
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import contents
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    yaml as engine_view_yaml,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import count_examples
from tests.unit import cdi_projections
from tests.unit.cdi_projections import edits, found, received

# --- any text ---

ODD = "hunter 2!"  # has no shape that anything listed has
TOKENS = [
    *(
        "\n",
        "\n",
        "\n  ",
        "\n  ",
        "\n    ",
        "\r\n",
        "\t",
        " ",
        "  ",
        "- ",
        "-",
        ": ",
        ": ",
        ":",
        ",",
        "[",
        "]",
        "{",
        "}",
    ),
    *(
        '"',
        "'",
        "#",
        " # ",
        "|",
        ">",
        ": |\n    ",
        ": >-\n    ",
        "&x ",
        "*x",
        "<<: ",
        "!",
        "!!str ",
        "? ",
        "%",
        "---\n",
        "...\n",
    ),
    *(
        "\\",
        "\\n",
        "~",
        "0x10",
        "08",
        "yes",
        "1.10",
        "@",
        "\ufeff",
        "é",
        ODD,
        ODD,
        "A=" + ODD,
        "a",
        "b: c",
        "path: /dev/x",
    ),
    *("hostPath", "env", "kind: a.b/cd", "name", "devices", "containerEdits", "deviceNodes"),
]


def outline(text: str) -> Any:
    """Of a text what has to be the same in its projection: its structure with lines, or that it has
    none.
    """

    def of(tree: Any) -> Any:
        value = tree.value
        if isinstance(value, dict):
            return tree.line, [of(part) for part in value.values()]
        return tree.line, [of(part) for part in value] if isinstance(value, list) else value is None

    try:
        read = engine_view_yaml.read_yaml_document(text.encode("utf-8", "surrogateescape"))
    except engine_view_yaml.UnreadableYaml as error:
        return error.rule
    return of(read.tree), read.more


def require_same(text: str) -> None:
    answer = received(text)
    assert ODD not in repr(answer)
    if answer["fault"] is None:
        assert outline(answer["content"]) == outline(text)
    elif answer["fault"]["code"] != "yaml-form":
        assert isinstance(outline(text), str)


@settings(max_examples=count_examples(400), deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=30))
def test_of_any_text_the_structure_is_the_same_and_nothing_odd_is_shown(tokens: list[str]) -> None:
    require_same("".join(tokens))


# --- a spec with a secret anywhere, and all that is made of it ---

SIGNS = "abcdefghijklmnopqrstuvwxyz0123456789!$%&()*:;<=>?@^_{|}~#'\"\\ \n\té€"
secrets = st.text(SIGNS, min_size=6, max_size=40).map(lambda text: f"s3{text}cr3t")


MOUNT = {"hostPath": "/usr/lib/x", "containerPath": "/x", "options": ["bind", "ro"]}
STYLES: dict[str, dict[str, Any]] = {
    "yaml": {},
    "flow": {"default_flow_style": True},
    "quoted": {"default_style": '"'},
    "narrow": {"width": 20},
}


@st.composite
def specs(draw: st.DrawFn, secret: str) -> dict[str, Any]:
    """A spec that engines take, with a secret wherever one may be."""
    value = st.one_of(st.just(secret), st.just("plain"), st.just(secret + "x"))
    env = st.lists(
        st.tuples(st.sampled_from(["TOKEN", "NVIDIA_VISIBLE_DEVICES", "A"]), value).map("=".join),
        max_size=3,
    )
    argument = st.one_of(
        value,
        value.map("--token={}".format),
        st.sampled_from(["chmod", "--folder", "--mode", "/usr/lib"]),
    )
    hooks = st.lists(
        st.fixed_dictionaries(
            {"hookName": st.just("createContainer"), "path": st.just("/usr/bin/nvidia-cdi-hook")},
            optional={"args": st.lists(argument, max_size=4), "env": env},
        ),
        max_size=2,
    )
    edits_ = st.fixed_dictionaries(
        {"deviceNodes": st.just([{"path": "/dev/nvidia0"}])},
        optional={"env": env, "hooks": hooks, "mounts": st.just([MOUNT])},
    )
    annotations = st.dictionaries(st.one_of(st.just("example.com/a"), value), value, max_size=2)
    devices = st.lists(
        st.fixed_dictionaries({"containerEdits": edits_}, optional={"annotations": annotations}),
        min_size=1,
        max_size=3,
    )
    found = {
        "cdiVersion": "0.6.0",
        "kind": "nvidia.com/gpu",
        "annotations": draw(annotations),
        "containerEdits": draw(edits_),
    }
    return {
        **found,
        "devices": [{"name": f"gpu{n}", **device} for n, device in enumerate(draw(devices))],
    }


def written(draw: st.DrawFn, document: dict[str, Any], secret: str) -> str:
    """As JSON, or as YAML in one of its styles, with a comment at the end of some line."""
    style = draw(st.sampled_from(["json", "indented", *STYLES]))
    if style not in STYLES:
        return json.dumps(
            document, indent=2 if style == "indented" else None, ensure_ascii=draw(st.booleans())
        )
    text = yaml.safe_dump(document, allow_unicode=draw(st.booleans()), **STYLES[style])
    remark = "# " + secret.replace("\n", " ") + "\n"
    return draw(st.sampled_from([remark + text, text + remark, text]))


@settings(max_examples=count_examples(150), deadline=None)
@given(st.data(), secrets)
def test_a_secret_at_any_place_that_is_not_listed_does_not_leave_and_changes_nothing(
    data: st.DataObject, secret: str
) -> None:
    document = data.draw(specs(secret))
    text = data.draw(st.composite(lambda draw: written(draw, document, secret))())
    answer = received(text)
    assert answer["fault"] is None or answer["fault"]["code"] == "yaml-form", text
    for part in (secret, json.dumps(secret)[1:-1], secret.splitlines()[0]):
        assert part not in repr(answer), text
    if answer["fault"] is None:
        assert found(str(answer["content"])) == found(text)
        there = reader.parse_spec(str(answer["content"]))
        assert (there.names, there.version) == (
            reader.parse_spec(text).names,
            reader.parse_spec(text).version,
        )
        assert there.edits.mounts == reader.parse_spec(text).edits.mounts


# --- bounds ---

PART = 1 << 18  # a quarter: a spec of eight GPUs, all cut up, takes a fifth of a MiB
WORST = {
    "a quote without end": 'a: "' + "x" * PART,
    "doubled quotes without end": "a: '" + "x''" * (PART // 3),
    "backslashes": 'a: "' + "\\\\" * (PART // 2),
    "blanks in a text": "a: b" + " " * PART + "c",
    "blanks behind a text": "a: b" + " " * PART,
    "brackets": "[" * PART,
    "dashes": "- " * (PART // 2),
    "dashes below one another": "-\n" * (PART // 2),
    "colons": ":" * PART,
    "comments": "#\n" * (PART // 2),
    "empty lines in a block": "a: |\n" + "    \n" * (PART // 5) + "  y\n",
    "empty lines in quotes": 'a: "' + " \n" * (PART // 2) + '"',
    "lines of one text": "a: x\n" + "  y\n" * (PART // 4),
    "one line of values": "[" + "a, " * (PART // 3) + "]",
    "keys": "".join(f"k{n}: v\n" for n in range(22_000)),
    "variables": edits("  env:\n" + "".join(f"  - A{n}=secret {n}\n" for n in range(11_000))),
    "a path of odd parts": "containerEdits: {mounts: [{hostPath: /" + "a b/" * (PART // 4) + "}]}",
}


@pytest.mark.parametrize("text", WORST.values(), ids=WORST)
def test_the_longest_texts_take_no_longer_than_ordinary_ones(text: str) -> None:
    """Against an ordinary spec of the same length, in processor time and with room: what is not
    linear takes a hundred times as long.
    """
    ordinary = cdi_projections.NVIDIA_CTK.replace(
        "kind:",
        "".join(f"- containerEdits:\n    env: [A={n}]\n  name: a{n}\n" for n in range(5_500))
        + "kind:",
    )
    assert taken(text) < 12 * taken(ordinary)


def taken(text: str) -> float:
    gc.disable()  # this process has far more objects than the node's
    contents._latest.clear()  # of the try before
    try:
        before = time.process_time()
        received(text)
        return time.process_time() - before
    finally:
        gc.enable()
