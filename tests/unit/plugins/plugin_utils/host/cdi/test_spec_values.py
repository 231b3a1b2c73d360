# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CDI specs as values, as text, and their versions: tables, and rules that hold for all specs."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Device,
    DeviceNode,
    Edits,
    Hook,
    Mount,
    NetDevice,
    Spec,
    convert_spec_to_document,
    read_spec_of_document,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.writer import (
    HEADER,
    render_spec,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import count_examples

NODE = DeviceNode("/dev/nvidia0")
ONE_NODE = Edits(device_nodes=(NODE,))
FEW = settings(max_examples=count_examples(50), deadline=None)


def spec(name: str = "gpu0", edits: Edits = ONE_NODE, **more: Any) -> Spec:
    return Spec("0.3.0", (Device(name, edits),), **more)


def test_the_text_of_a_small_spec() -> None:
    edits = Edits(
        env=("NVIDIA_VISIBLE_DEVICES=void",),
        device_nodes=(DeviceNode("/dev/nvidiactl", major=195, minor=255),),
    )
    small = Spec(
        "0.5.0",
        (
            Device(
                "0", Edits(device_nodes=(NODE,), mounts=(Mount("/a b", "/c", ("ro", "nosuid")),))
            ),
        ),
        edits=edits,
    )
    assert render_spec(small) == HEADER + (
        "---\n"
        'cdiVersion: "0.5.0"\n'
        "kind: nvidia.com/gpu\n"
        "containerEdits:\n"
        "  env:\n"
        '    - "NVIDIA_VISIBLE_DEVICES=void"\n'
        "  deviceNodes:\n"
        "    - path: /dev/nvidiactl\n"
        "      major: 195\n"
        "      minor: 255\n"
        "devices:\n"
        '  - name: "0"\n'
        "    containerEdits:\n"
        "      deviceNodes:\n"
        "        - path: /dev/nvidia0\n"
        "      mounts:\n"
        '        - hostPath: "/a b"\n'
        "          containerPath: /c\n"
        "          options:\n"
        "            - ro\n"
        "            - nosuid\n"
    )


# ---------------------------------------------------------------- rules for all specs

texts = st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12
) | st.sampled_from(
    [
        "yes",
        "No",
        "null",
        "~",
        "1e3",
        "0x1f",
        "012",
        "1:30",
        "a: b",
        "- a",
        "#x",
        "a #b",
        "'",
        '"',
        "\\",
        "%",
        "@x",
        "\u2028",
        "\x7f",
        "\U0001f600",
        ".",
        "=",
        "<<",
    ]
)
numbers = st.integers(0, 2**31)
optional = st.none() | numbers
device_nodes = st.builds(
    DeviceNode,
    path=texts,
    host_path=texts | st.just(""),
    type=st.sampled_from(["", "b", "c", "u", "p"]),
    major=optional,
    minor=optional,
    file_mode=optional,
    permissions=st.sampled_from(["", "rwm", "r"]),
    uid=optional,
    gid=optional,
)
mounts = st.builds(Mount, texts, texts, st.lists(texts, max_size=2).map(tuple), texts | st.just(""))
hooks = st.builds(
    Hook,
    texts,
    texts,
    st.lists(texts, max_size=2).map(tuple),
    st.lists(texts, max_size=2).map(tuple),
    optional,
)
edits = st.builds(
    Edits,
    env=st.lists(texts, max_size=2).map(tuple),
    device_nodes=st.lists(device_nodes, max_size=2).map(tuple),
    net_devices=st.lists(st.builds(NetDevice, texts, texts), max_size=1).map(tuple),
    hooks=st.lists(hooks, max_size=2).map(tuple),
    mounts=st.lists(mounts, max_size=2).map(tuple),
    rdt=st.none() | st.fixed_dictionaries({"closID": texts}),
    additional_gids=st.lists(numbers, max_size=2).map(tuple),
)
notes = st.dictionaries(texts, texts, max_size=2)
specs = st.builds(
    Spec,
    version=st.sampled_from(version.KNOWN),
    devices=st.lists(st.builds(Device, texts, edits, notes), min_size=1, max_size=3).map(tuple),
    kind=st.just("nvidia.com/gpu"),
    edits=edits,
    annotations=notes,
)


@FEW
@given(specs)
def test_reading_what_was_rendered_gives_the_same_spec(any_spec: Spec) -> None:
    assert reader.parse_spec(render_spec(any_spec)) == any_spec
    # the reader in Python agrees
    assert (
        read_spec_of_document(yaml.load(render_spec(any_spec), Loader=yaml.SafeLoader)) == any_spec
    )


@FEW
@given(specs)
def test_text_is_plain_ascii_and_ends_with_a_line_end(any_spec: Spec) -> None:
    assert render_spec(any_spec).isascii()
    assert render_spec(any_spec).endswith("\n")


@FEW
@given(specs)
def test_order_is_no_difference_but_content_is(any_spec: Spec) -> None:
    turned = dc.replace(any_spec, devices=tuple(reversed(any_spec.devices)))
    assert reader.is_equal_spec(any_spec, turned)
    assert not reader.is_equal_spec(any_spec, dc.replace(any_spec, kind="nvidia.com/mig"))
    assert not reader.is_equal_spec(
        any_spec,
        dc.replace(any_spec, edits=dc.replace(any_spec.edits, env=(*any_spec.edits.env, "A=b"))),
    )


@FEW
@given(specs)
def test_the_minimum_is_known_and_enough(any_spec: Spec) -> None:
    low = version.get_minimum_version(any_spec)
    assert low in version.KNOWN
    assert version.list_needs_above_cap(any_spec, low) == []


# ---------------------------------------------------------------- versions

VERSIONS = [
    ("nothing special", spec(), "0.3.0"),
    ("a mount with a type", spec(edits=Edits(mounts=(Mount("/a", "/a", type="bind"),))), "0.4.0"),
    ("a mount without", spec(edits=Edits(mounts=(Mount("/a", "/a"),))), "0.3.0"),
    ("a name that starts with a digit", spec("0"), "0.5.0"),
    ("a UUID", spec("GPU-1"), "0.3.0"),
    (
        "a host path, even an equal one",
        spec(edits=Edits(device_nodes=(DeviceNode("/dev/x", "/dev/x"),))),
        "0.5.0",
    ),
    ("annotations", spec(annotations={"a": "b"}), "0.6.0"),
    ("a dot in the class", spec(kind="nvidia.com/gpu.coherent"), "0.6.0"),
    ("a dot in the vendor", spec(kind="nvidia.com/gpu"), "0.3.0"),
    ("group ids", spec(edits=Edits(additional_gids=(44,))), "0.7.0"),
    ("Intel RDT", spec(edits=Edits(rdt={"closID": "x"})), "0.7.0"),
    ("network devices", spec(edits=Edits(net_devices=(NetDevice("eth0", "eth0"),))), "1.1.0"),
    ("the newer Intel RDT", spec(edits=Edits(rdt={"schemata": []})), "1.1.0"),
    ("in the common part", dc.replace(spec(), edits=Edits(additional_gids=(44,))), "0.7.0"),
]


@pytest.mark.parametrize(
    ("content", "needed"), [case[1:] for case in VERSIONS], ids=[case[0] for case in VERSIONS]
)
def test_minimum_version(content: Spec, needed: str) -> None:
    assert version.get_minimum_version(content) == needed


def test_what_a_consumer_does_not_accept_is_named() -> None:
    content = Spec("", (Device("0", Edits(additional_gids=(44,))),))
    assert version.list_needs_above_cap(content, "0.3.0") == [
        "a device name that starts with a digit needs 0.5.0",
        "additional group ids needs 0.7.0",
    ]
    # nobody's limit is known: 0.6.0
    assert version.list_needs_above_cap(content, "") == ["additional group ids needs 0.7.0"]
    assert version.list_needs_above_cap(content, "1.0.0") == []


def test_versions_compare_as_numbers() -> None:
    ordered = ["v0.7.0", "0.8.0", "0.10.0", "1.0.0"]
    assert sorted(reversed(ordered), key=version.get_spec_version_key) == ordered


# ---------------------------------------------------------------- other people's files

BAD = [
    ("", "it is empty"),
    ("{", "line 1: did not find expected node content"),
    ("- a\n", "line 1: the document is a list, but must be a mapping"),
    ("kind: a/b\n", "the document has no cdiVersion"),
    (
        "cdiVersion: 0.5.0\nkind: a/b\ndevices: {}\n",
        "line 3: devices is a mapping, but must be a list",
    ),
    ("cdiVersion: 0.5.0\nkind: a/b\ndevices: [{}]\n", "devices[0] has no name"),
    (
        "cdiVersion: 0.5.0\nkind: a/b\ndevices: [{name: x, containerEdits: {deviceNodes: [{}]}}]\n",
        "devices[0].containerEdits.deviceNodes[0] has no path",
    ),
    (
        "cdiVersion: 0.5.0\nkind: a/b\ndevices: [{name: x, containerEdits: {mounts: [7]}}]\n",
        "line 3: devices[0].containerEdits.mounts[0] is 7, but must be a mapping",
    ),
    ("a: b: c\n", "line 1"),
    ("\x00", "line 1: control characters are not allowed"),
    ("[" * 5000, "it is nested more than 100 levels deep"),
    ("a: &a {<<: *a}", "an anchor's value contains itself"),
    ("kind: a/b\nkind: c/d\n", "line 2: the key kind is there twice"),
]


@pytest.mark.parametrize(("text", "sentence"), BAD)
def test_what_is_no_spec_is_said_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        reader.parse_spec(text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_json_is_read_as_well() -> None:
    assert reader.parse_spec(
        '{"cdiVersion": "0.5.0", "kind": "a.b/c", "devices": [{"name": "x", "containerEdits": {"env": ["A=b"]}}]}'
    ).names == ("a.b/c=x",)


def test_empty_parts_are_left_out() -> None:
    assert convert_spec_to_document(spec(edits=Edits())) == {
        "cdiVersion": "0.3.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": "gpu0", "containerEdits": {}}],
    }
