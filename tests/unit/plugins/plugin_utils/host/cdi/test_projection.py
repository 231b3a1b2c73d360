# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of CDI specs leaves a host, in the forms that tools and people write; and that what is found
of the rest is found all the same.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import contents
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import yaml_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    FAULTS,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_files,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import resource
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    yaml as engine_view_yaml,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import writer
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    KIND,
    Device,
    DeviceNode,
    Edits,
    Hook,
    Mount,
    Spec,
)

from tests.unit import cdi_lint_cases
from tests.unit.cdi_projections import GPU, HEAD, LIBRARIES, NVIDIA_CTK, edits, found, received

SECRET = "hunter2"
# intel-cdi-specs-generator writes YAML; the DRA driver's file is JSON; amd-ctk's JSON is indented.
INTEL = """\
cdiVersion: 0.6.0
containerEdits: {}
devices:
- containerEdits:
    deviceNodes:
    - hostPath: /dev/dri/card1
      path: /dev/dri/card1
      type: c
    - hostPath: /dev/dri/renderD128
      path: /dev/dri/renderD128
      type: c
    mounts:
    - containerPath: /dev/dri/by-path/pci-0000:00:02.0-card
      hostPath: /dev/dri/by-path/pci-0000:00:02.0-card
      options:
      - bind
      - rw
      type: none
  name: 0000:00:02.0-0x56c0
kind: intel.com/gpu
"""
AMD = json.dumps(
    {
        "cdiVersion": "0.6.0",
        "kind": "amd.com/gpu",
        "devices": [
            {
                "name": "0",
                "containerEdits": {
                    "deviceNodes": [
                        {"path": "/dev/dri/card1", "major": 226, "minor": 1},
                        {"path": "/dev/kfd"},
                    ],
                    "additionalGids": [44, 109],
                },
            }
        ],
        "containerEdits": {
            "deviceNodes": [{"path": "/dev/kfd", "type": "c", "permissions": "rw", "fileMode": 438}]
        },
    },
    indent=2,
)
# What `state: present` writes, with all that it may hold.
OWN = writer.render_spec(
    Spec(
        "0.7.0",
        (
            Device(
                "0:1",
                Edits(
                    device_nodes=(
                        DeviceNode(
                            "/dev/nvidia0", "/host/dev/nvidia0", "c", 195, 0, 438, "rw", 0, 44
                        ),
                    )
                ),
            ),
        ),
        edits=Edits(
            env=(
                "NVIDIA_VISIBLE_DEVICES=void",
                f"NVIDIA_CTK_LIBCUDA_DIR={LIBRARIES}:/usr/lib/i386-linux-gnu",
            ),
            mounts=(
                Mount(
                    "/usr/lib/libcuda.so.1",
                    "/usr/lib/libcuda.so.1",
                    ("ro", "nosuid", "nodev", "rbind", "rprivate"),
                ),
            ),
            hooks=(
                Hook(
                    "createContainer",
                    "/usr/bin/nvidia-ctk",
                    ("nvidia-ctk", "hook", "update-ldcache", "--folder", LIBRARIES),
                ),
                Hook(
                    "createContainer",
                    "/usr/bin/nvidia-cdi-hook",
                    ("nvidia-cdi-hook", "enable-cuda-compat", "--host-driver-version=1.2"),
                ),
            ),
            additional_gids=(44,),
        ),
    )
)
SHOWN = {"nvidia-ctk": NVIDIA_CTK, "intel": INTEL, "amd": AMD, "our own": OWN}


def shown(text: str) -> str:
    found = received(text)
    assert found["fault"] is None, (found["fault"], text)
    return str(found["content"])


@pytest.mark.parametrize("text", SHOWN.values(), ids=SHOWN)
def test_of_what_tools_write_all_is_listed(text: str) -> None:
    assert shown(text) == text


def test_our_own_spec_is_read_back_from_what_is_shown_of_it() -> None:
    assert reader.parse_spec(shown(OWN)) == reader.parse_spec_as_engines(OWN)


def test_a_root_of_an_odd_name_that_was_given_is_no_news() -> None:
    text = writer.render_spec(
        Spec(
            "0.5.0",
            (
                Device(
                    "0",
                    Edits(
                        mounts=(Mount("/opt/my driver (old)/usr/lib/x", "/usr/lib/x", ("rbind",)),)
                    ),
                ),
            ),
        )
    )
    policy = Policy(cdi_driver_root="/opt/my driver (old)")
    keep = next(q["keep"] for q in resource.list_questions(policy) if q["id"] == "glob:/etc/cdi/*")
    assert "hidden" in shown(text)
    assert contents.project_content(text.encode(), keep).data.decode() == text


def hook(args: str) -> str:
    return edits(
        f"  hooks:\n  - hookName: createContainer\n    path: /usr/bin/nvidia-cdi-hook\n    args: {args}\n"
    )


# Where someone may have put it: all of these hold `hunter2` at a place that is not listed, or in a
# form that nothing listed has.
PLACES: dict[str, str] = {
    "env, in a block": edits("  env:\n  - TOKEN=hunter2\n"),
    "env, in a flow": edits("  env: [TOKEN=hunter2, 'B=hunter2', \"C=hunter2\"]\n"),
    "env, in JSON": '{"cdiVersion": "0.6.0", "kind": "a.b/cd", "containerEdits": {"env": ["TOKEN=hunter2"]}, "devices": []}',
    "env, without a name": edits("  env: [hunter2, '=hunter2']\n"),
    "env, as a name": edits("  env: ['my hunter2=x']\n"),
    "env, of a variable of NVIDIA's": edits(
        "  env: [NVIDIA_VISIBLE_DEVICES=hunter2, NVIDIA_CTK_LIBCUDA_DIR=hunter2]\n"
    ),
    "env, of a hook": edits("  hooks: [{hookName: prestart, path: /x, env: [A=hunter2]}]\n"),
    "env, over lines": edits(
        '  env:\n  - "TOKEN=hunter2 \\\n     hunter2"\n  - |\n    B=hunter2\n    hunter2\n  - >-\n    C=\n\n    hunter2\n'
    ),
    "env, plain over lines": edits("  env:\n  - TOKEN=a\n    hunter2\n    hunter2\n"),
    "env, in single quotes over lines": edits("  env:\n  - 'A=it''s\n\n    hunter2'\n"),
    "env, escaped": edits('  env: ["TOKEN=\\x68\\u0075nter2 hunter2"]\n'),
    "an argument": hook("[nvidia-cdi-hook, --token, hunter2]"),
    "an argument with a flag": hook("[nvidia-cdi-hook, --token=hunter2]"),
    "a listed flag with another value": hook(
        "[nvidia-cdi-hook, '--host-driver-version=$hunter2', --folder, hunter2]"
    ),
    "an argument behind a listed word": hook("[nvidia-cdi-hook, update-ldcache, hunter2]"),
    "an argument without the program": hook("[hunter2]"),
    "an argument that is a list": hook("[nvidia-cdi-hook, [hunter2], {a: hunter2}]"),
    "arguments that are a text": hook("hunter2"),
    "an annotation": f"{HEAD}annotations: {{example.com/token: hunter2}}\n{GPU}",
    "an annotation's key": f"{HEAD}annotations: {{hunter2: a, 'my hunter2': b, example.com/hunter2: c}}\n{GPU}",
    "an annotation of a device": f"{HEAD}{GPU}  annotations:\n    a: hunter2\n",
    "an annotation that is none": f"{HEAD}annotations: [hunter2]\n{GPU}",
    "a comment": f"# hunter2\n{HEAD} # hunter2\n{GPU}#hunter2\n",
    "a comment behind a value": f"{HEAD}{GPU}    - path: /dev/nvidia1 # hunter2\n",
    "a comment in a flow": edits("  env: [ # hunter2\n    A=b, # hunter2\n  ] # hunter2\n"),
    "a comment behind a block's sign": edits("  env:\n  - | # hunter2\n    A=b\n"),
    "a comment in front of all": f"# hunter2\n---\n{HEAD}{GPU}",
    "a field that is none": f"{HEAD}{GPU}password: hunter2\n",
    "a field's name": f"{HEAD}{GPU}hunter2: a\n",
    "a field's name in quotes": f"{HEAD}{GPU}'hunter2 ': a\n\"hunter2\": b\n",
    "a field that holds more": f"{HEAD}{GPU}more:\n  hunter2:\n  - hunter2: {{a: [hunter2]}}\n    path: hunter2\n",
    "an anchor's name": f"{HEAD}devices:\n- name: a\n  containerEdits: &hunter2\n    env: [A=b]\n- name: b\n  containerEdits: *hunter2\n",
    "a merged table": f"{HEAD}devices:\n- name: a\n  containerEdits: &e {{env: [A=hunter2]}}\n- name: b\n  containerEdits: {{<<: *e}}\n",
    "an address with a password": edits(
        "  mounts: [{hostPath: //u:hunter2@h/s, containerPath: /a, type: cifs, options: [p=hunter2]}]\n"
    ),
    "an option": edits("  mounts: [{hostPath: /a, containerPath: /a, options: [hunter2]}]\n"),
    "a text for a number": edits("  deviceNodes: [{path: /dev/x, major: hunter2}]\n"),
    "a text for a list": edits("  deviceNodes: hunter2\n"),
    "a second document": f"{HEAD}{GPU}---\ntoken: hunter2\n",
    "behind the end": f"{HEAD}{GPU}...\n# hunter2\n",
    "a kind": "cdiVersion: 0.6.0\nkind: hunter2\n" + GPU,
    "a name": f"{HEAD}devices:\n- name: 'x hunter2'\n  containerEdits: {{env: [A=b]}}\n",
    "a class of cache": edits(
        "  intelRdt: {closID: 'a hunter2', l3CacheSchema: hunter2, memBwSchema: hunter2, schemata: [hunter2]}\n"
    ),
    "Windows' line ends": edits("  env:\n  - A=hunter2\n  - |\n    B=hunter2\n").replace(
        "\n", "\r\n"
    ),
    "behind a byte order mark": "\ufeff# hunter2\n" + edits("  env: [A=hunter2]\n"),
    "nothing but": "hunter2",
    "a list of it": "- hunter2\n- [hunter2]\n",
}


@pytest.mark.parametrize("text", PLACES.values(), ids=PLACES)
def test_nothing_else_is_in_what_leaves(text: str) -> None:
    projected = shown(text)
    assert SECRET not in projected
    assert projected.count("\n") == text.count("\n")
    assert found(projected) == found(text)


TOOLS = {
    **SHOWN,
    **PLACES,
    "a command of a later release": hook("[nvidia-cdi-hook, do-something-new, --with=hunter2]"),
    "a command of the older program": hook("[nvidia-ctk, hook, do-something-new]").replace(
        "nvidia-cdi-hook", "nvidia-ctk"
    ),
    "annotations of the tool": f"{HEAD}annotations: {{nvidia.com/x: a, sub.nvidia.com/y: b}}\n{GPU}",
    "annotations of others": f"{HEAD}annotations: {{example.com/x: a, notnvidia.org/y: b}}\n{GPU}",
    "a command of another program": hook("[mytool, do-something]").replace(
        "nvidia-cdi-hook", "mytool"
    ),
}


@pytest.mark.parametrize("text", TOOLS.values(), ids=TOOLS)
def test_whether_a_tool_wrote_it_is_seen_all_the_same(text: str) -> None:
    def of(text: str) -> Any:
        try:
            spec = reader.parse_spec_as_engines(text)
            return spec.kind == KIND, cdi_files.list_unexplained_spec_parts(spec) == ()
        except ValueError:
            return "no spec"

    assert of(shown(text)) == of(text)


@pytest.mark.parametrize(
    "text",
    [text for text, _found, _lost in cdi_lint_cases.CONTENT.values()],
    ids=cdi_lint_cases.CONTENT,
)
def test_a_projection_projected_is_the_same_structure(text: str) -> None:
    """A stand-in has the structure of the text that it stands for."""
    answer = received(text)
    if answer["fault"] is None:
        assert found(str(answer["content"])) == found(text)


def test_equal_values_are_equal_still_and_others_are_not() -> None:
    text = edits("  env: [A=one, A=two, B=one, B=one]\n")
    rules = [rule for rule, _line in found(shown(text))]
    assert rules.count("double-env") == 1
    names = re.findall(r"\(hidden [^)]*\)", shown(text))
    assert (names[0] == names[2] == names[3], names[0] == names[1]) == (True, False)


UNKNOWN = {
    "a tag": f"{HEAD}{GPU}annotations: !!map {{}}\n",
    "a directive": f"%YAML 1.1\n---\n{HEAD}{GPU}",
    "a complex key": f"{HEAD}{GPU}? a\n: b\n",
    "a value behind the document's mark": '--- {"cdiVersion": "0.6.0"}\n',
    "a pair in a list": edits("  env: [A: b]\n"),
    "a key of a list": "[a]: b\n",
    "a key by an alias": "a: &k b\n*k : c\n",
    "a key with an anchor": "&k a: b\n",
    "a text over lines in brackets": edits("  env: [A=b\n    c]\n"),
    "an old Mac's line ends": "a: b\rc: d\r",
    "a line end of Unicode's": "a: b\x85c: d\n",
}


@pytest.mark.parametrize("text", UNKNOWN.values(), ids=UNKNOWN)
def test_a_form_of_yaml_that_is_not_read_is_told_by_its_line(text: str) -> None:
    answer = received(text)
    assert (answer["content"], answer["fault"]["code"]) == (None, "yaml-form")
    report = cdi_lint_cases.checked({cdi_lint_cases.ETC: text})
    assert [(f.rule, f.line) for f in report.findings] == [("not-read", answer["fault"]["line"])]
    assert list(yaml.parse(text, Loader=yaml_text.LOADER)), "engines read it"


BROKEN = {
    "a quote without end": (f"{HEAD}env: 'hunter2\n", "yaml-string", 3),
    "a double quote without end": (f'{HEAD}env: "hunter2\n', "yaml-string", 3),
    "an escape": ('a: "\\q hunter2"\n', "yaml-escape", 1),
    "half a character": ('{"a": "\\ud83d\\ude00"}', "yaml-escape", 1),
    "a tab": ("a:\n\tb: hunter2\n", "yaml-tab", 2),
    "no colon": (f"{HEAD}hunter2\n", "yaml-key", 3),
    "two values": ("a: 'b' hunter2\n", "yaml-more", 1),
    "a mapping on a key's line": ("a: b: hunter2\n", "yaml-more", 1),
    "indented more": ("a: 'b'\n  c: hunter2\n", "yaml-indent", 2),
    "indented less": ("a:\n    b: c\n  d: hunter2\n", "yaml-indent", 3),
    "a bracket without end": ("a: ['hunter2'\n", "yaml-flow", 1),
    "a comma that lacks": ('{"a": "b" "c": "hunter2"}', "yaml-flow", 1),
    "a sign that is reserved": ("a: @hunter2\n", "yaml-value", 1),
    "an alias without a name": ("a: * hunter2\n", "yaml-anchor", 1),
    "a sign that does not print": ("a: hunter2\x01\n", "yaml-sign", 1),
    "no UTF-8": ("a: \udcff hunter2\n", "yaml-bytes", 1),
    "too deep": ("a: " + "[" * 101 + "hunter2" + "]" * 101, "yaml-deep", 1),
    "a dash where a key belongs": ("a: b\n- hunter2\n", "yaml-key", 2),
}


@pytest.mark.parametrize(("text", "code", "line"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_yaml_is_told_by_a_code_and_its_line(text: str, code: str, line: int) -> None:
    answer = received(text)
    assert (answer["content"], answer["fault"]) == (None, {"code": code, "line": line})
    with pytest.raises(engine_view_yaml.UnreadableYaml):
        engine_view_yaml.read_yaml_document(text.encode("utf-8", "surrogateescape"))
    report = cdi_lint_cases.checked({cdi_lint_cases.ETC: text})
    assert [(f.rule, f.line) for f in report.findings] == [("yaml", line)]
    assert SECRET not in repr(report)
    assert FAULTS[code] in report.findings[0].message


def test_of_a_broken_file_it_is_said_that_it_is_our_own() -> None:
    assert received(writer.HEADER + "---\nbroken: ]\n")["fault"] == {
        "code": "yaml-value",
        "line": 3,
        "begins": writer.HEADER.rstrip("\n"),
    }
    assert "begins" not in received("# Written by somebody.\nbroken: ]\n")["fault"]
