# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found in CDI directories, case by case: the rule, the line, the device, and what an
engine still resolves.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import (
    rules,
    run,
)

from tests.unit import builders
from tests.unit.cdi_lint_cases import CONTENT, ETC, HOOK, HOST, NODE, RUN, checked, spec


def short(report: run.Report) -> list[tuple[str, int | None]]:
    return [(f.rule, f.line) for f in report.findings]


def test_a_sound_spec() -> None:
    report = checked({ETC: spec()})
    assert report == run.Report(("nvidia.com/gpu=gpu0",), ())


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
    "a library that is a link to nothing": (
        lib(),
        {"/usr/lib/libcuda.so.550": {"type": "link"}},
        ["mount-missing"],
    ),
    "a file system of its own": (
        "mounts: [{hostPath: tmpfs, containerPath: /a, type: tmpfs}]",
        {},
        [],
    ),
    "a node went": (
        "deviceNodes: [{path: /dev/nvidia0}]",
        {"/dev/nvidia0": GONE},
        ["node-missing"],
    ),
    "numbers alone do not save it": (
        "deviceNodes: [{path: /dev/nvidia0, major: 195}]",
        {"/dev/nvidia0": GONE},
        ["node-missing"],
    ),
    "a node that is described whole": (
        "deviceNodes: [{path: /dev/nvidia0, type: c, major: 195}]",
        {"/dev/nvidia0": GONE},
        ["node-absent"],
    ),
    "the node under another path": (
        "deviceNodes: [{path: /dev/x, hostPath: /dev/nvidia0}]",
        {},
        [],
    ),
    "a major of before the reboot": (
        "deviceNodes: [{path: /dev/nvidia0, major: 196}]",
        {},
        ["stale-numbers"],
    ),
    "a minor of before the reboot": (
        "deviceNodes: [{path: /dev/nvidia0, major: 195, minor: 1}]",
        {},
        ["stale-numbers"],
    ),
    "the right numbers": (
        "deviceNodes: [{path: /dev/nvidia0, type: c, major: 195, minor: 0}]",
        {},
        [],
    ),
    "a minor without a major does nothing": (
        "deviceNodes: [{path: /dev/nvidia0, minor: 7}]",
        {},
        [],
    ),
    "another type": ("deviceNodes: [{path: /dev/nvidia0, type: b}]", {}, ["node-kind"]),
    "a link to a node": (
        "deviceNodes: [{path: /dev/nvidia0}]",
        {"/dev/nvidia0": LINK},
        ["no-node"],
    ),
    "a directory": (
        "deviceNodes: [{path: /dev/nvidia0}]",
        {"/dev/nvidia0": {"type": "dir"}},
        ["no-node"],
    ),
    "a hook's program": (f"hooks: [{{hookName: prestart, path: {HOOK}}}]", {}, []),
    "a hook's program is not installed": (
        f"hooks: [{{hookName: prestart, path: {HOOK}}}]",
        {HOOK: GONE},
        ["hook-missing"],
    ),
    "a hook's program cannot be run": (
        f"hooks: [{{hookName: prestart, path: {HOOK}}}]",
        {HOOK: {"mode": 0o644}},
        ["hook-mode"],
    ),
    "a program of the image": (
        "hooks: [{hookName: startContainer, path: /x}]",
        {},
        ["hook-in-container"],
    ),
    "a path that cannot be asked for": (
        lib(),
        {"/usr/lib/libcuda.so.550": {"error": {"kind": "denied", "message": "no"}}},
        [],
    ),
}


@pytest.mark.parametrize(("edits", "host", "found"), ON_HOST.values(), ids=ON_HOST)
def test_on_the_host(edits: str, host: dict[str, Any], found: list[str]) -> None:
    report = checked({ETC: spec(edits), **host})
    assert [(f.rule, f.line, f.device) for f in report.findings] == [
        (rule, 5, "nvidia.com/gpu=gpu0") for rule in found
    ]
    assert report.devices == ("nvidia.com/gpu=gpu0",)


# NVIDIA-ISAAC-ROS/isaac_ros_common#163: a spec that JetPack brings, whose hook is of a package of
# its own.
MISSING = [
    (
        "hooks: [{hookName: prestart, path: /usr/bin/nvidia-cdi-hook}]",
        "/usr/bin/nvidia-cdi-hook",
        "nvidia-container-toolkit-base",
    ),
    (
        "hooks: [{hookName: prestart, path: /usr/bin/nvidia-pva-hook}]",
        "/usr/bin/nvidia-pva-hook",
        "",
    ),
    ("hooks: [{hookName: prestart, path: /opt/amd/hook}]", "/opt/amd/hook", ""),
    ("deviceNodes: [{path: /dev/nvidia0}]", "/dev/nvidia0", "nvidia-modprobe"),
    ("deviceNodes: [{path: /dev/kfd}]", "/dev/kfd", ""),
]


@pytest.mark.parametrize(("edits", "gone", "way"), MISSING, ids=[row[1] for row in MISSING])
def test_a_remedy_names_nvidias_packages_for_what_they_bring_only(
    edits: str, gone: str, way: str
) -> None:
    (finding,) = checked({ETC: spec(edits), gone: GONE}).findings
    assert (way in finding.remedy, "nvidia" in finding.remedy) == (True, bool(way))


TREES = [
    # the device nodes that a tree has, what is found
    ({path: None for path in HOST if path.startswith("/dev/")}, [("mount-missing", 5)]),
    ({}, [("mount-missing", 5), ("node-missing", 5)]),
]


@pytest.mark.parametrize(
    ("nodes", "found"),
    TREES,
    ids=["an image has none", "one that has the driver's is judged like a host"],
)
def test_the_nodes_of_a_tree(nodes: dict[str, None], found: list[tuple[str, int]]) -> None:
    text = spec(f"deviceNodes: [{{path: /dev/gone}}], {lib('/gone')}")
    assert sorted(short(checked({ETC: text, **nodes}, policy=Policy(root="/srv/image")))) == found


def file(**more: Any) -> dict[str, Any]:
    return {"content": spec(), **more}


ERROR = {"error": {"kind": "denied", "message": f"{ETC}: Permission denied"}}
OUTSIDE = {
    "type": "file",
    "real": "/etc/shadow",
    "error": {"kind": "outside", "message": f"{ETC}: is a link to /etc/shadow"},
}
LARGE = {
    "error": {"kind": "too-large", "message": f"{ETC}: is larger than the 1048576 bytes asked for"}
}
# what it is: (the files, file and rule of each finding, whether the device is resolved)
FILES: dict[str, tuple[dict[str, Any], list[tuple[str, str]], bool]] = {
    "a file for the owner only": ({ETC: file(mode=0o600)}, [(ETC, "mode")], True),
    "a file for everybody": ({ETC: file(mode=0o666)}, [(ETC, "writable")], True),
    "a file of somebody": ({ETC: file(uid=1000, owner="ops")}, [(ETC, "writable")], True),
    "a file of root's group": ({ETC: file(mode=0o664)}, [], True),
    ".yml": ({"/etc/cdi/a.yml": spec()}, [("/etc/cdi/a.yml", "never-read")], False),
    ".YAML": ({"/etc/cdi/a.YAML": spec()}, [("/etc/cdi/a.YAML", "never-read")], False),
    "a backup": (
        {"/etc/cdi/a.yaml.rpmsave": {"content": None}},
        [("/etc/cdi/a.yaml.rpmsave", "never-read")],
        False,
    ),
    "a copy beside it": (
        {"/etc/cdi/a.json~": {"content": None}},
        [("/etc/cdi/a.json~", "never-read")],
        False,
    ),
    "a README": ({"/etc/cdi/README": "Put specs here.\n"}, [], False),
    "what a writer left": (
        {"/etc/cdi/spec.123.tmp": spec()},
        [("/etc/cdi/spec.123.tmp", "left-over")],
        False,
    ),
    "a file that is hidden in the shell": ({"/etc/cdi/.yaml": spec()}, [], True),
    "a directory": ({"/etc/cdi/old": {"type": "dir"}}, [("/etc/cdi/old", "sub-directory")], False),
    "a directory with a spec's name": ({ETC: {"type": "dir"}}, [(ETC, "sub-directory")], False),
    "a link to a directory": (
        {ETC: {"type": "dir", "real": "/srv", "links": [ETC]}},
        [(ETC, "unreadable")],
        False,
    ),
    "a link to nothing": ({ETC: {"type": "link", "real": None}}, [(ETC, "unreadable")], False),
    "a link to a spec": ({ETC: file(real="/srv/a.yaml", links=[ETC])}, [], True),
    "a named pipe": ({ETC: {"type": "fifo"}}, [(ETC, "hangs")], False),
    "a device": ({ETC: {"type": "char", "rdev": [1, 5]}}, [(ETC, "hangs")], False),
    "a socket": ({ETC: {"type": "socket"}}, [(ETC, "unreadable")], False),
    "an unreadable file": ({ETC: ERROR}, [(ETC, "unreadable")], False),
    "a link to another file of the host": ({ETC: OUTSIDE}, [(ETC, "outside")], False),
    "a huge file": ({ETC: LARGE}, [(ETC, "not-looked-at")], False),
    "a directory that is a link": (
        {
            "/etc/cdi": {"type": "dir", "mode": 0o755, "real": "/srv", "links": ["/etc/cdi"]},
            ETC: spec(),
        },
        [("/etc/cdi", "directory-link")],
        True,
    ),
    "a directory that is a file": ({"/etc/cdi": ""}, [("/etc/cdi", "directory")], False),
    "a spec behind a directory that is a file": (
        {"/etc/cdi": "", RUN: spec()},
        [("/etc/cdi", "directory")],
        False,
    ),
    "a directory for root only": (
        {"/etc/cdi": {"type": "dir", "mode": 0o700}, ETC: spec()},
        [("/etc/cdi", "directory-mode")],
        True,
    ),
    "a directory for everybody": (
        {"/etc/cdi": {"type": "dir", "mode": 0o777}, ETC: spec()},
        [("/etc/cdi", "writable")],
        True,
    ),
    "/run is a link, and may be": (
        {
            "/var/run/cdi": {
                "type": "dir",
                "mode": 0o755,
                "real": "/run/cdi",
                "links": ["/var/run"],
            },
            RUN: spec(),
        },
        [],
        True,
    ),
    "two files, one device": (
        {ETC: spec(), "/etc/cdi/b.json": spec()},
        [(ETC, "conflict"), ("/etc/cdi/b.json", "conflict")],
        False,
    ),
    "two files, one device, and a third above": (
        {ETC: spec(), "/etc/cdi/b.json": spec(), RUN: spec()},
        [(ETC, "conflict"), ("/etc/cdi/b.json", "conflict")],
        False,
    ),
    "hidden by the other directory": (
        {ETC: spec(), RUN: spec("env: [A=b]")},
        [(ETC, "hidden")],
        True,
    ),
    "hidden by a lost file": ({ETC: spec(), RUN: ""}, [(RUN, "empty")], True),
}


@pytest.mark.parametrize(("files", "found", "resolved"), FILES.values(), ids=FILES)
def test_files(files: dict[str, Any], found: list[tuple[str, str]], resolved: bool) -> None:
    report = checked(files)
    assert [(f.file, f.rule) for f in report.findings] == found
    assert bool(report.devices) is resolved


def test_the_other_devices_of_files_with_a_conflict_stay() -> None:
    other = "- name: gpu1\n  containerEdits: {env: [A=b]}\n"
    assert checked({ETC: spec(more=other), "/etc/cdi/b.yaml": spec()}).devices == (
        "nvidia.com/gpu=gpu1",
    )


def test_the_hidden_file_is_told_by_which() -> None:
    (finding,) = checked({ETC: spec(), RUN: spec()}).findings
    assert (finding.message, finding.line, finding.device) == (
        f"{RUN} hides it, with equal content",
        4,
        "nvidia.com/gpu=gpu0",
    )


@pytest.mark.parametrize(
    ("head", "cap", "words"),
    [
        ("0.5.0", "0.5.0", ""),
        ("0.5.0", "", ""),
        (
            "0.5.0",
            "0.4.0",
            "not every engine here reads more than 0.4.0; its content needs 0.3.0 only",
        ),
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
    look = builders.Observation(
        {}, {q["id"]: {"files": []} for q in run.list_lint_questions(policy)}
    )
    look = look.add_answers(
        {
            "answers": {
                "glob:/etc/cdi/*": {"files": [{"path": ETC, **builders.file_answer(spec(lib()))}]}
            }
        }
    )
    with pytest.raises(NeedMore) as need:
        run.report(policy, look, "")
    assert [(q["path"], q["content"]) for q in need.value.questions] == [
        ("/usr/lib/libcuda.so.550", False)
    ]


SOURCES = Path(run.__file__).parents[1]


def test_every_rule_is_used_and_every_rule_used_is_there() -> None:
    used = {
        m
        for p in SOURCES.rglob("*.py")
        if p.name != "rules.py"
        for m in re.findall(r'"([a-z]+(?:-[a-z]+)*)"', p.read_text())
    }
    assert set(rules.RULES) - used == set()
    named = re.compile(r'(?:Problem|Finding|Unreadable)\(\s*"([a-z-]+)"')
    assert {m for p in SOURCES.rglob("*.py") for m in named.findall(p.read_text())} - set(
        rules.RULES
    ) == set()


@pytest.mark.parametrize("name", rules.RULES)
def test_a_rule_says_what_an_engine_does_and_what_to_do(name: str) -> None:
    rule = rules.RULES[name]
    assert all(
        text and text[0].isalpha() and not text.endswith(".")
        for text in (rule.what, rule.effect, rule.remedy)
    )
