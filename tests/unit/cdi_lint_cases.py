# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases of CDI specs that lint judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import run

from tests.unit import builders

ETC, RUN = "/etc/cdi/a.yaml", "/var/run/cdi/a.yaml"
HOOK = "/usr/bin/nvidia-cdi-hook"
NODE: dict[str, Any] = {
    "type": "char",
    "rdev": [195, 0],
    "mode": 0o666,
    "links": [],
    "real": "/dev/nvidia0",
}
HOST: dict[str, Any] = {
    "/dev/nvidia0": NODE,
    "/usr/lib/libcuda.so.550": "",
    HOOK: {"content": "", "mode": 0o755},
}
GPU, V050 = "deviceNodes: [{path: /dev/nvidia0}]", "cdiVersion: 0.5.0"


def spec(
    edits: str = GPU,
    *,
    head: str = V050,
    kind: str = "nvidia.com/gpu",
    name: str = "gpu0",
    more: str = "",
) -> str:
    """Line 1 is `head`, the kind is in line 2, the device in line 4 and its edits in line 5."""
    return f"{head}\nkind: {kind}\ndevices:\n- name: {name}\n  containerEdits: {{{edits}}}\n{more}"


def checked(files: Mapping[str, Any], *, cap: str = "", policy: Policy | None = None) -> run.Report:
    return run.report(policy or Policy(), builders.obs(files={**HOST, **files}), cap)


# what it is: (the text, rule and line of each finding); the file is lost where the last is True
CONTENT: dict[str, tuple[str, list[tuple[str, int | None]], bool]] = {
    # the text
    "nothing": ("", [("empty", None)], True),
    "comments only": ("# later\n", [("empty", None)], True),
    "a quote that does not end": (spec() + "env: 'x\n", [("yaml", 6)], True),
    "a tab": ("a:\n\tb: c\n", [("yaml", 2)], True),
    "a key twice": (spec() + "kind: other/gpu\n", [("duplicate-key", 6)], True),
    "a key twice, by a merge": (spec(name="gpu0\n  <<: {name: gpu1}"), [("merged-key", 5)], False),
    "an escape of JSON's that engines do not know": (
        spec(kind='"nvidia.com\\/gpu"'),
        [("yaml", 2)],
        True,
    ),
    "the same signs outside of quotes": (spec(name="'a'  # \\/"), [], False),
    "a field that is none": (spec(more="hooks: []\n"), [("unknown-field", 6)], True),
    "a field in the wrong place": (
        spec("path: /dev/nvidia0"),
        [("unknown-field", 5), ("empty-edits", 4)],
        True,
    ),
    "JSON": (
        '{"cdiVersion": "0.5.0", "kind": "a.b/cd",\n "devices": [{"name": "x", "containerEdits": {"env": ["A=b"]}}]}',
        [],
        False,
    ),
    "keys in capitals": (spec(head="CDIVERSION: 0.5.0"), [("field-case", 1)], True),
    "a key in two spellings": (
        spec(more="Kind: nvidia.com/gpu\n"),
        [("field-case", 6), ("field-twice", 2)],
        True,
    ),
    "a list for a mapping": ("[]\n", [("wrong-type", 1)], True),
    "a mapping for a list": (spec("env: {A: b}"), [("empty-edits", 4), ("wrong-type", 5)], True),
    "a number in quotes": (
        spec('deviceNodes: [{path: /dev/nvidia0, major: "195"}]'),
        [("wrong-type", 5)],
        True,
    ),
    "a negative group": (
        spec("additionalGids: [-1]", head="cdiVersion: 0.7.0"),
        [("wrong-type", 5)],
        True,
    ),
    "a second document": (spec(more="---\na: b\n"), [("second-document", None)], False),
    "an entry that is null": (spec("mounts: [null]"), [("null-entry", 5)], True),
    "a name that is a number": (spec(name="08"), [("changed-text", 4)], False),
    "a name that is yes": (spec(name="on"), [("changed-text", 4)], False),
    "a MIG name": (spec(name="0:1"), [], False),
    # the version
    "no version": (spec(head="#"), [("version-unknown", None)], True),
    "a version that is none": (spec(head="cdiVersion: 0.5.1"), [("version-unknown", 1)], True),
    "a version that is a number": (
        spec(head="cdiVersion: 1.10"),
        [("changed-text", 1), ("version-unknown", 1)],
        True,
    ),
    "the version with a v": (spec(head="cdiVersion: v0.5.0"), [], False),
    "a version that was never enough": (
        spec(head="cdiVersion: 0.2.0"),
        [("version-too-low", 1)],
        True,
    ),
    "a mount's type": (
        spec(
            "mounts: [{hostPath: /dev/nvidia0, containerPath: /b, type: bind}]",
            head="cdiVersion: 0.3.0",
        ),
        [("version-too-low", 1)],
        True,
    ),
    "a host path": (
        spec("deviceNodes: [{path: /dev/x, hostPath: /dev/nvidia0}]", head="cdiVersion: 0.4.0"),
        [("version-too-low", 1)],
        True,
    ),
    "a digit in front": (
        spec(name="'0'", head="cdiVersion: 0.4.0"),
        [("version-too-low", 1)],
        True,
    ),
    "annotations": (spec(more="annotations: {a: b}\n"), [("version-too-low", 1)], True),
    "a dot in the class": (spec(kind="nvidia.com/gpu.shared"), [("version-too-low", 1)], True),
    "groups": (
        spec("additionalGids: [44]", head="cdiVersion: 0.6.0"),
        [("version-too-low", 1), ("additional-gids", 5)],
        True,
    ),
    "network devices": (
        spec("netDevices: [{hostInterfaceName: eth1, name: eth0}]", head="cdiVersion: 1.0.0"),
        [("version-too-low", 1), ("net-runtime", 5)],
        True,
    ),
    "fields that are gone": (
        spec("intelRdt: {enableCMT: true}", head="cdiVersion: 0.7.0"),
        [("unknown-field", 5)],
        True,
    ),
    # names
    "no kind": (
        "cdiVersion: 0.5.0\ndevices: [{name: a, containerEdits: {env: [A=b]}}]\n",
        [("vendor", None)],
        True,
    ),
    "a kind without class": (spec(kind="nvidia.com"), [("vendor", 2)], True),
    "a kind with two slashes": (spec(kind="nvidia.com/gpu/0"), [("class", 2)], True),
    "a vendor with a digit in front": (spec(kind="3com.com/gpu"), [("vendor", 2)], True),
    "a vendor with a dash at its end": (spec(kind="nvidia-/gpu"), [("vendor", 2)], True),
    "a vendor of one letter": (spec(kind="n/gpu"), [("short-name", 2)], False),
    "a class of one letter": (spec(kind="nvidia.com/g"), [("short-name", 2)], False),
    "a name with an equals sign": (spec(name="'a=b'"), [("device-name", 4)], True),
    "a name with a blank": (spec(name="a b"), [("device-name", 4)], True),
    "a name with an umlaut": (spec(name="grün"), [("device-name", 4)], True),
    "a name with a colon at its end": (spec(name="'0:'"), [("device-name", 4)], True),
    "no name": (spec(name="''"), [("device-name", 4)], True),
    "a device twice": (
        spec(more="- name: gpu0\n  containerEdits: {env: [A=b]}\n"),
        [("device-twice", 6)],
        True,
    ),
    "no devices": ("cdiVersion: 0.5.0\nkind: a.b/cd\ndevices: []\n", [("no-devices", 3)], True),
    "a device that does nothing": (spec(""), [("empty-edits", 4)], True),
    # edits
    "a variable without a value": (spec("env: [NAME]"), [("env", 5)], True),
    "a variable without a name": (spec("env: ['=x']"), [("env", 5)], True),
    "a node without anything": (spec("deviceNodes: [{}]"), [("node-path", 5)], True),
    "a node without a path": (spec("deviceNodes: [{type: c}]"), [("node-path", 5)], True),
    "a node of a type that is none": (
        spec("deviceNodes: [{path: /dev/nvidia0, type: char}]"),
        [("node-type", 5)],
        True,
    ),
    "permissions that are none": (
        spec("deviceNodes: [{path: /dev/nvidia0, permissions: rwx}]"),
        [("node-permissions", 5)],
        True,
    ),
    "no permissions": (
        spec("deviceNodes: [{path: /dev/nvidia0, permissions: none}]"),
        [("no-permissions", 5)],
        False,
    ),
    "a hook that is none": (
        spec(f"hooks: [{{hookName: preStart, path: {HOOK}}}]"),
        [("hook-name", 5)],
        True,
    ),
    "a hook without a program": (spec("hooks: [{hookName: prestart}]"), [("hook-path", 5)], True),
    "a hook's variable": (
        spec(f"hooks: [{{hookName: prestart, path: {HOOK}, env: [x]}}]"),
        [("env", 5)],
        True,
    ),
    "a mount to nowhere": (
        spec("mounts: [{hostPath: /x, options: [bind]}]"),
        [("mount-path", 5)],
        True,
    ),
    "a closID with a slash": (
        spec("intelRdt: {closID: a/b}", head="cdiVersion: 0.7.0"),
        [("closid", 5)],
        True,
    ),
    "an interface twice": (
        spec(
            "netDevices: [{hostInterfaceName: a, name: b}, {hostInterfaceName: a, name: c}]",
            head="cdiVersion: 1.1.0",
        ),
        [("net-device", 5), ("net-runtime", 5)],
        True,
    ),
    # what the library takes
    "a relative node": (
        spec("deviceNodes: [{path: dev/x, hostPath: /dev/nvidia0}]"),
        [("relative-path", 5)],
        False,
    ),
    "a relative hook": (
        spec("hooks: [{hookName: prestart, path: nvidia-cdi-hook}]"),
        [("relative-path", 5)],
        False,
    ),
    "an odd annotation": (
        spec(head="cdiVersion: 0.6.0", more="annotations: {-a: b}\n"),
        [("annotation", 6)],
        False,
    ),
    "annotations without end": (
        spec(head="cdiVersion: 0.6.0", more=f"annotations: {{a: {'x' * 262144}}}\n"),
        [("annotation", 6)],
        False,
    ),
    "two sources for a place": (
        spec(
            "mounts: [{hostPath: /dev/nvidia0, containerPath: /a, options: [rbind]}, "
            "{hostPath: /usr/lib/libcuda.so.550, containerPath: /a, options: [rbind]}]"
        ),
        [("double-mount", 5)],
        False,
    ),
    "a node twice": (
        spec(more="containerEdits: {deviceNodes: [{path: /dev/nvidia0, permissions: r}]}\n"),
        [("double-node", 5)],
        False,
    ),
    "the same node twice": (
        spec(more="containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}\n"),
        [],
        False,
    ),
    "a variable twice": (spec("env: [A=b, A=c]"), [("double-env", 5)], False),
    "a mode in decimal clothes": (
        spec("deviceNodes: [{path: /dev/nvidia0, fileMode: 666}]"),
        [("file-mode", 5)],
        False,
    ),
    "a mode in octal": (spec("deviceNodes: [{path: /dev/nvidia0, fileMode: 0666}]"), [], False),
    "an option that is none": (
        spec("mounts: [{hostPath: /dev/nvidia0, containerPath: /a, options: [bind, readonly]}]"),
        [("mount-option", 5)],
        False,
    ),
    "a mount of no kind": (
        spec("mounts: [{hostPath: /dev/nvidia0, containerPath: /a, options: [ro]}]"),
        [("mount-type", 5)],
        False,
    ),
    "a timeout of zero": (
        spec(f"hooks: [{{hookName: prestart, path: {HOOK}, timeout: 0}}]"),
        [("hook-timeout", 5)],
        False,
    ),
    "arguments without the name": (
        spec(f"hooks: [{{hookName: prestart, path: {HOOK}, args: [chmod]}}]"),
        [("hook-arguments", 5)],
        False,
    ),
    "a hook in the container": (
        spec("hooks: [{hookName: startContainer, path: /sbin/ldconfig}]"),
        [("hook-in-container", 5)],
        False,
    ),
}
