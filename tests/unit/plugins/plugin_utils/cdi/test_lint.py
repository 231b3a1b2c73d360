# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found in CDI directories, case by case: the rule, the line, the device, and what an engine still resolves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.lint import rules, run
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Policy

from tests.unit import builders

ETC, RUN = "/etc/cdi/a.yaml", "/var/run/cdi/a.yaml"
HOOK = "/usr/bin/nvidia-cdi-hook"
NODE: dict[str, Any] = {"type": "char", "rdev": [195, 0], "mode": 0o666, "links": [], "real": "/dev/nvidia0"}
HOST: dict[str, Any] = {"/dev/nvidia0": NODE, "/usr/lib/libcuda.so.550": "", HOOK: {"content": "", "mode": 0o755}}


GPU, V050 = "deviceNodes: [{path: /dev/nvidia0}]", "cdiVersion: 0.5.0"


def spec(edits: str = GPU, *, head: str = V050, kind: str = "nvidia.com/gpu", name: str = "gpu0", more: str = "") -> str:
    """Line 1 is `head`, the kind is in line 2, the device in line 4 and its edits in line 5."""
    return f"{head}\nkind: {kind}\ndevices:\n- name: {name}\n  containerEdits: {{{edits}}}\n{more}"


def checked(files: Mapping[str, Any], *, cap: str = "", policy: Policy | None = None) -> run.Report:
    return run.report(policy or Policy(), builders.obs(files={**HOST, **files}), cap)


def short(report: run.Report) -> list[tuple[str, int | None]]:
    return [(f.rule, f.line) for f in report.findings]


def test_a_sound_spec() -> None:
    report = checked({ETC: spec()})
    assert report == run.Report(("nvidia.com/gpu=gpu0",), ())


# what it is: (the text, rule and line of each finding); the file is lost where the last is True
CONTENT: dict[str, tuple[str, list[tuple[str, int | None]], bool]] = {
    # the text
    "nothing": ("", [("empty", None)], True),
    "comments only": ("# later\n", [("empty", None)], True),
    "a quote that does not end": (spec() + "env: 'x\n", [("yaml", 6)], True),
    "a tab": ("a:\n\tb: c\n", [("yaml", 2)], True),
    "a key twice": (spec() + "kind: other/gpu\n", [("duplicate-key", 6)], True),
    "a key twice, by a merge": (spec(name="gpu0\n  <<: {name: gpu1}"), [("merged-key", 5)], False),
    "an escape of JSON's that engines do not know": (spec(kind='"nvidia.com\\/gpu"'), [("yaml", 2)], True),
    "the same signs outside of quotes": (spec(name="'a'  # \\/"), [], False),
    "a field that is none": (spec(more="hooks: []\n"), [("unknown-field", 6)], True),
    "a field in the wrong place": (spec("path: /dev/nvidia0"), [("unknown-field", 5), ("empty-edits", 4)], True),
    "JSON": ('{"cdiVersion": "0.5.0", "kind": "a.b/cd",\n "devices": [{"name": "x", "containerEdits": {"env": ["A=b"]}}]}', [], False),
    "keys in capitals": (spec(head="CDIVERSION: 0.5.0"), [("field-case", 1)], True),
    "a key in two spellings": (spec(more="Kind: nvidia.com/gpu\n"), [("field-case", 6), ("field-twice", 2)], True),
    "a list for a mapping": ("[]\n", [("wrong-type", 1)], True),
    "a mapping for a list": (spec("env: {A: b}"), [("empty-edits", 4), ("wrong-type", 5)], True),
    "a number in quotes": (spec('deviceNodes: [{path: /dev/nvidia0, major: "195"}]'), [("wrong-type", 5)], True),
    "a negative group": (spec("additionalGids: [-1]", head="cdiVersion: 0.7.0"), [("wrong-type", 5)], True),
    "a second document": (spec(more="---\na: b\n"), [("second-document", None)], False),
    "an entry that is null": (spec("mounts: [null]"), [("null-entry", 5)], True),
    "a name that is a number": (spec(name="08"), [("changed-text", 4)], False),
    "a name that is yes": (spec(name="on"), [("changed-text", 4)], False),
    "a MIG name": (spec(name="0:1"), [], False),
    # the version
    "no version": (spec(head="#"), [("version-unknown", None)], True),
    "a version that is none": (spec(head="cdiVersion: 0.5.1"), [("version-unknown", 1)], True),
    "a version that is a number": (spec(head="cdiVersion: 1.10"), [("changed-text", 1), ("version-unknown", 1)], True),
    "the version with a v": (spec(head="cdiVersion: v0.5.0"), [], False),
    "a version that was never enough": (spec(head="cdiVersion: 0.2.0"), [("version-too-low", 1)], True),
    "a mount's type": (
        spec("mounts: [{hostPath: /dev/nvidia0, containerPath: /b, type: bind}]", head="cdiVersion: 0.3.0"),
        [("version-too-low", 1)],
        True,
    ),
    "a host path": (
        spec("deviceNodes: [{path: /dev/x, hostPath: /dev/nvidia0}]", head="cdiVersion: 0.4.0"),
        [("version-too-low", 1)],
        True,
    ),
    "a digit in front": (spec(name="'0'", head="cdiVersion: 0.4.0"), [("version-too-low", 1)], True),
    "annotations": (spec(more="annotations: {a: b}\n"), [("version-too-low", 1)], True),
    "a dot in the class": (spec(kind="nvidia.com/gpu.shared"), [("version-too-low", 1)], True),
    "groups": (spec("additionalGids: [44]", head="cdiVersion: 0.6.0"), [("version-too-low", 1), ("additional-gids", 5)], True),
    "network devices": (
        spec("netDevices: [{hostInterfaceName: eth1, name: eth0}]", head="cdiVersion: 1.0.0"),
        [("version-too-low", 1), ("net-runtime", 5)],
        True,
    ),
    "fields that are gone": (spec("intelRdt: {enableCMT: true}", head="cdiVersion: 0.7.0"), [("unknown-field", 5)], True),
    # names
    "no kind": ("cdiVersion: 0.5.0\ndevices: [{name: a, containerEdits: {env: [A=b]}}]\n", [("vendor", None)], True),
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
    "a device twice": (spec(more="- name: gpu0\n  containerEdits: {env: [A=b]}\n"), [("device-twice", 6)], True),
    "no devices": ("cdiVersion: 0.5.0\nkind: a.b/cd\ndevices: []\n", [("no-devices", 3)], True),
    "a device that does nothing": (spec(""), [("empty-edits", 4)], True),
    # edits
    "a variable without a value": (spec("env: [NAME]"), [("env", 5)], True),
    "a variable without a name": (spec("env: ['=x']"), [("env", 5)], True),
    "a node without anything": (spec("deviceNodes: [{}]"), [("node-path", 5)], True),
    "a node without a path": (spec("deviceNodes: [{type: c}]"), [("node-path", 5)], True),
    "a node of a type that is none": (spec("deviceNodes: [{path: /dev/nvidia0, type: char}]"), [("node-type", 5)], True),
    "permissions that are none": (spec("deviceNodes: [{path: /dev/nvidia0, permissions: rwx}]"), [("node-permissions", 5)], True),
    "no permissions": (spec("deviceNodes: [{path: /dev/nvidia0, permissions: none}]"), [("no-permissions", 5)], False),
    "a hook that is none": (spec(f"hooks: [{{hookName: preStart, path: {HOOK}}}]"), [("hook-name", 5)], True),
    "a hook without a program": (spec("hooks: [{hookName: prestart}]"), [("hook-path", 5)], True),
    "a hook's variable": (spec(f"hooks: [{{hookName: prestart, path: {HOOK}, env: [x]}}]"), [("env", 5)], True),
    "a mount to nowhere": (spec("mounts: [{hostPath: /x, options: [bind]}]"), [("mount-path", 5)], True),
    "a closID with a slash": (spec("intelRdt: {closID: a/b}", head="cdiVersion: 0.7.0"), [("closid", 5)], True),
    "an interface twice": (
        spec("netDevices: [{hostInterfaceName: a, name: b}, {hostInterfaceName: a, name: c}]", head="cdiVersion: 1.1.0"),
        [("net-device", 5), ("net-runtime", 5)],
        True,
    ),
    # what the library takes
    "a relative node": (spec("deviceNodes: [{path: dev/x, hostPath: /dev/nvidia0}]"), [("relative-path", 5)], False),
    "a relative hook": (spec("hooks: [{hookName: prestart, path: nvidia-cdi-hook}]"), [("relative-path", 5)], False),
    "an odd annotation": (spec(head="cdiVersion: 0.6.0", more="annotations: {-a: b}\n"), [("annotation", 6)], False),
    "annotations without end": (spec(head="cdiVersion: 0.6.0", more=f"annotations: {{a: {'x' * 262144}}}\n"), [("annotation", 6)], False),
    "two sources for a place": (
        spec(
            "mounts: [{hostPath: /dev/nvidia0, containerPath: /a, options: [rbind]}, "
            "{hostPath: /usr/lib/libcuda.so.550, containerPath: /a, options: [rbind]}]"
        ),
        [("double-mount", 5)],
        False,
    ),
    "a node twice": (spec(more="containerEdits: {deviceNodes: [{path: /dev/nvidia0, permissions: r}]}\n"), [("double-node", 5)], False),
    "the same node twice": (spec(more="containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}\n"), [], False),
    "a variable twice": (spec("env: [A=b, A=c]"), [("double-env", 5)], False),
    "a mode in decimal clothes": (spec("deviceNodes: [{path: /dev/nvidia0, fileMode: 666}]"), [("file-mode", 5)], False),
    "a mode in octal": (spec("deviceNodes: [{path: /dev/nvidia0, fileMode: 0666}]"), [], False),
    "an option that is none": (
        spec("mounts: [{hostPath: /dev/nvidia0, containerPath: /a, options: [bind, readonly]}]"),
        [("mount-option", 5)],
        False,
    ),
    "a mount of no kind": (spec("mounts: [{hostPath: /dev/nvidia0, containerPath: /a, options: [ro]}]"), [("mount-type", 5)], False),
    "a timeout of zero": (spec(f"hooks: [{{hookName: prestart, path: {HOOK}, timeout: 0}}]"), [("hook-timeout", 5)], False),
    "arguments without the name": (spec(f"hooks: [{{hookName: prestart, path: {HOOK}, args: [chmod]}}]"), [("hook-arguments", 5)], False),
    "a hook in the container": (spec("hooks: [{hookName: startContainer, path: /sbin/ldconfig}]"), [("hook-in-container", 5)], False),
}


@pytest.mark.parametrize(("text", "found", "lost"), CONTENT.values(), ids=CONTENT)
def test_content(text: str, found: list[tuple[str, int | None]], lost: bool) -> None:
    report = checked({ETC: text})
    assert sorted(short(report), key=str) == sorted(found, key=str)
    assert not report.devices if lost else report.devices


def lib(path: str = "/usr/lib/libcuda.so.550") -> str:
    return f"mounts: [{{hostPath: {path}, containerPath: {path}, options: [ro, rbind]}}]"


GONE: Any = None
LINK = {**NODE, "links": ["/dev/nvidia0"], "real": "/dev/other"}
# what it is: (edits, what is different on the host, the findings)
ON_HOST: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "all is there": (lib(), {}, []),
    "a library went with an upgrade": (lib(), {"/usr/lib/libcuda.so.550": GONE}, ["mount-missing"]),
    "a library that is a link to nothing": (lib(), {"/usr/lib/libcuda.so.550": {"type": "link"}}, ["mount-missing"]),
    "a file system of its own": ("mounts: [{hostPath: tmpfs, containerPath: /a, type: tmpfs}]", {}, []),
    "a node went": ("deviceNodes: [{path: /dev/nvidia0}]", {"/dev/nvidia0": GONE}, ["node-missing"]),
    "numbers alone do not save it": ("deviceNodes: [{path: /dev/nvidia0, major: 195}]", {"/dev/nvidia0": GONE}, ["node-missing"]),
    "a node that is described whole": ("deviceNodes: [{path: /dev/nvidia0, type: c, major: 195}]", {"/dev/nvidia0": GONE}, ["node-absent"]),
    "the node under another path": ("deviceNodes: [{path: /dev/x, hostPath: /dev/nvidia0}]", {}, []),
    "a major of before the reboot": ("deviceNodes: [{path: /dev/nvidia0, major: 196}]", {}, ["stale-numbers"]),
    "a minor of before the reboot": ("deviceNodes: [{path: /dev/nvidia0, major: 195, minor: 1}]", {}, ["stale-numbers"]),
    "the right numbers": ("deviceNodes: [{path: /dev/nvidia0, type: c, major: 195, minor: 0}]", {}, []),
    "a minor without a major does nothing": ("deviceNodes: [{path: /dev/nvidia0, minor: 7}]", {}, []),
    "another type": ("deviceNodes: [{path: /dev/nvidia0, type: b}]", {}, ["node-kind"]),
    "a link to a node": ("deviceNodes: [{path: /dev/nvidia0}]", {"/dev/nvidia0": LINK}, ["no-node"]),
    "a directory": ("deviceNodes: [{path: /dev/nvidia0}]", {"/dev/nvidia0": {"type": "dir"}}, ["no-node"]),
    "a hook's program": (f"hooks: [{{hookName: prestart, path: {HOOK}}}]", {}, []),
    "a hook's program is not installed": (f"hooks: [{{hookName: prestart, path: {HOOK}}}]", {HOOK: GONE}, ["hook-missing"]),
    "a hook's program cannot be run": (f"hooks: [{{hookName: prestart, path: {HOOK}}}]", {HOOK: {"mode": 0o644}}, ["hook-mode"]),
    "a program of the image": ("hooks: [{hookName: startContainer, path: /x}]", {}, ["hook-in-container"]),
    "a path that cannot be asked for": (lib(), {"/usr/lib/libcuda.so.550": {"error": {"kind": "denied", "message": "no"}}}, []),
}


@pytest.mark.parametrize(("edits", "host", "found"), ON_HOST.values(), ids=ON_HOST)
def test_on_the_host(edits: str, host: dict[str, Any], found: list[str]) -> None:
    report = checked({ETC: spec(edits), **host})
    assert [(f.rule, f.line, f.device) for f in report.findings] == [(rule, 5, "nvidia.com/gpu=gpu0") for rule in found]
    assert report.devices == ("nvidia.com/gpu=gpu0",)


# NVIDIA-ISAAC-ROS/isaac_ros_common#163: a spec that JetPack brings, whose hook is of a package of its own.
MISSING = [
    ("hooks: [{hookName: prestart, path: /usr/bin/nvidia-cdi-hook}]", "/usr/bin/nvidia-cdi-hook", "nvidia-container-toolkit-base"),
    ("hooks: [{hookName: prestart, path: /usr/bin/nvidia-pva-hook}]", "/usr/bin/nvidia-pva-hook", ""),
    ("hooks: [{hookName: prestart, path: /opt/amd/hook}]", "/opt/amd/hook", ""),
    ("deviceNodes: [{path: /dev/nvidia0}]", "/dev/nvidia0", "nvidia-modprobe"),
    ("deviceNodes: [{path: /dev/kfd}]", "/dev/kfd", ""),
]


@pytest.mark.parametrize(("edits", "gone", "way"), MISSING, ids=[row[1] for row in MISSING])
def test_a_remedy_names_nvidias_packages_for_what_they_bring_only(edits: str, gone: str, way: str) -> None:
    (finding,) = checked({ETC: spec(edits), gone: GONE}).findings
    assert (way in finding.remedy, "nvidia" in finding.remedy) == (True, bool(way))


TREES = [
    # the device nodes that a tree has, what is found
    ({path: None for path in HOST if path.startswith("/dev/")}, [("mount-missing", 5)]),
    ({}, [("mount-missing", 5), ("node-missing", 5)]),
]


@pytest.mark.parametrize(("nodes", "found"), TREES, ids=["an image has none", "one that has the driver's is judged like a host"])
def test_the_nodes_of_a_tree(nodes: dict[str, None], found: list[tuple[str, int]]) -> None:
    text = spec(f"deviceNodes: [{{path: /dev/gone}}], {lib('/gone')}")
    assert sorted(short(checked({ETC: text, **nodes}, policy=Policy(root="/srv/image")))) == found


def file(**more: Any) -> dict[str, Any]:
    return {"content": spec(), **more}


ERROR = {"error": {"kind": "denied", "message": f"{ETC}: Permission denied"}}
OUTSIDE = {"type": "file", "real": "/etc/shadow", "error": {"kind": "outside", "message": f"{ETC}: is a link to /etc/shadow"}}
LARGE = {"error": {"kind": "too-large", "message": f"{ETC}: is larger than the 1048576 bytes asked for"}}
# what it is: (the files, file and rule of each finding, whether the device is resolved)
FILES: dict[str, tuple[dict[str, Any], list[tuple[str, str]], bool]] = {
    "a file for the owner only": ({ETC: file(mode=0o600)}, [(ETC, "mode")], True),
    "a file for everybody": ({ETC: file(mode=0o666)}, [(ETC, "writable")], True),
    "a file of somebody": ({ETC: file(uid=1000, owner="ops")}, [(ETC, "writable")], True),
    "a file of root's group": ({ETC: file(mode=0o664)}, [], True),
    ".yml": ({"/etc/cdi/a.yml": spec()}, [("/etc/cdi/a.yml", "never-read")], False),
    ".YAML": ({"/etc/cdi/a.YAML": spec()}, [("/etc/cdi/a.YAML", "never-read")], False),
    "a backup": ({"/etc/cdi/a.yaml.rpmsave": {"content": None}}, [("/etc/cdi/a.yaml.rpmsave", "never-read")], False),
    "a copy beside it": ({"/etc/cdi/a.json~": {"content": None}}, [("/etc/cdi/a.json~", "never-read")], False),
    "a README": ({"/etc/cdi/README": "Put specs here.\n"}, [], False),
    "what a writer left": ({"/etc/cdi/spec.123.tmp": spec()}, [("/etc/cdi/spec.123.tmp", "left-over")], False),
    "a file that is hidden in the shell": ({"/etc/cdi/.yaml": spec()}, [], True),
    "a directory": ({"/etc/cdi/old": {"type": "dir"}}, [("/etc/cdi/old", "sub-directory")], False),
    "a directory with a spec's name": ({ETC: {"type": "dir"}}, [(ETC, "sub-directory")], False),
    "a link to a directory": ({ETC: {"type": "dir", "real": "/srv", "links": [ETC]}}, [(ETC, "unreadable")], False),
    "a link to nothing": ({ETC: {"type": "link", "real": None}}, [(ETC, "unreadable")], False),
    "a link to a spec": ({ETC: file(real="/srv/a.yaml", links=[ETC])}, [], True),
    "a named pipe": ({ETC: {"type": "fifo"}}, [(ETC, "hangs")], False),
    "a device": ({ETC: {"type": "char", "rdev": [1, 5]}}, [(ETC, "hangs")], False),
    "a socket": ({ETC: {"type": "socket"}}, [(ETC, "unreadable")], False),
    "an unreadable file": ({ETC: ERROR}, [(ETC, "unreadable")], False),
    "a link to another file of the host": ({ETC: OUTSIDE}, [(ETC, "outside")], False),
    "a huge file": ({ETC: LARGE}, [(ETC, "not-looked-at")], False),
    "a directory that is a link": (
        {"/etc/cdi": {"type": "dir", "mode": 0o755, "real": "/srv", "links": ["/etc/cdi"]}, ETC: spec()},
        [("/etc/cdi", "directory-link")],
        True,
    ),
    "a directory that is a file": ({"/etc/cdi": ""}, [("/etc/cdi", "directory")], False),
    "a spec behind a directory that is a file": ({"/etc/cdi": "", RUN: spec()}, [("/etc/cdi", "directory")], False),
    "a directory for root only": ({"/etc/cdi": {"type": "dir", "mode": 0o700}, ETC: spec()}, [("/etc/cdi", "directory-mode")], True),
    "a directory for everybody": ({"/etc/cdi": {"type": "dir", "mode": 0o777}, ETC: spec()}, [("/etc/cdi", "writable")], True),
    "/run is a link, and may be": (
        {"/var/run/cdi": {"type": "dir", "mode": 0o755, "real": "/run/cdi", "links": ["/var/run"]}, RUN: spec()},
        [],
        True,
    ),
    "two files, one device": ({ETC: spec(), "/etc/cdi/b.json": spec()}, [(ETC, "conflict"), ("/etc/cdi/b.json", "conflict")], False),
    "two files, one device, and a third above": (
        {ETC: spec(), "/etc/cdi/b.json": spec(), RUN: spec()},
        [(ETC, "conflict"), ("/etc/cdi/b.json", "conflict")],
        False,
    ),
    "hidden by the other directory": ({ETC: spec(), RUN: spec("env: [A=b]")}, [(ETC, "hidden")], True),
    "hidden by a lost file": ({ETC: spec(), RUN: ""}, [(RUN, "empty")], True),
}


@pytest.mark.parametrize(("files", "found", "resolved"), FILES.values(), ids=FILES)
def test_files(files: dict[str, Any], found: list[tuple[str, str]], resolved: bool) -> None:
    report = checked(files)
    assert [(f.file, f.rule) for f in report.findings] == found
    assert bool(report.devices) is resolved


def test_the_other_devices_of_files_with_a_conflict_stay() -> None:
    other = "- name: gpu1\n  containerEdits: {env: [A=b]}\n"
    assert checked({ETC: spec(more=other), "/etc/cdi/b.yaml": spec()}).devices == ("nvidia.com/gpu=gpu1",)


def test_the_hidden_file_is_told_by_which() -> None:
    (finding,) = checked({ETC: spec(), RUN: spec()}).findings
    assert (finding.message, finding.line, finding.device) == (f"{RUN} hides it, with equal content", 4, "nvidia.com/gpu=gpu0")


@pytest.mark.parametrize(
    ("head", "cap", "words"),
    [
        ("0.5.0", "0.5.0", ""),
        ("0.5.0", "", ""),
        ("0.5.0", "0.4.0", "not every engine here reads more than 0.4.0; its content needs 0.3.0 only"),
        ("0.3.0", "0.3.0", ""),
        ("1.1.0", "0.6.0", "its content needs 0.3.0 only"),
    ],
)
def test_above_what_the_host_reads(head: str, cap: str, words: str) -> None:
    report = checked({ETC: spec(head=f"cdiVersion: {head}")}, cap=cap)
    assert [f.rule for f in report.findings] == ["above-cap"] * bool(words)
    assert all(words in f.message for f in report.findings)


def test_paths_on_the_host_are_asked_for_once_and_all_together() -> None:
    policy = Policy()
    look = builders.Observation({}, {q["id"]: {"files": []} for q in run.questions(policy)})
    look = look.with_answers({"answers": {"glob:/etc/cdi/*": {"files": [{"path": ETC, **builders.file_answer(spec(lib()))}]}}})
    with pytest.raises(NeedMore) as need:
        run.report(policy, look, "")
    assert [(q["path"], q["content"]) for q in need.value.questions] == [("/usr/lib/libcuda.so.550", False)]


SOURCES = Path(run.__file__).parents[1]


def test_every_rule_is_used_and_every_rule_used_is_there() -> None:
    used = {m for p in SOURCES.rglob("*.py") if p.name != "rules.py" for m in re.findall(r'"([a-z]+(?:-[a-z]+)*)"', p.read_text())}
    assert set(rules.RULES) - used == set()
    named = re.compile(r'(?:Problem|Finding|Unreadable)\(\s*"([a-z-]+)"')
    assert {m for p in SOURCES.rglob("*.py") for m in named.findall(p.read_text())} - set(rules.RULES) == set()


@pytest.mark.parametrize("name", rules.RULES)
def test_a_rule_says_what_an_engine_does_and_what_to_do(name: str) -> None:
    rule = rules.RULES[name]
    assert all(text and text[0].isalpha() and not text.endswith(".") for text in (rule.what, rule.effect, rule.remedy))
