# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""state: absent on a host with Docker: our part goes, everything else stays, and a restart that
ends containers is left to people.
"""

from __future__ import annotations

import dataclasses as dc
import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    detect as docker_detect,
)

from tests.unit.builders import sha
from tests.unit.coded import get_codes
from tests.unit.docker_hosts import (
    BINARY,
    CONFIG,
    DIRS,
    ENTRY,
    INFO,
    OURS,
    UNIT,
    absent,
    acts,
    running,
)

AFTER = json.dumps({"runtimes": ENTRY, "features": {"cdi": True}, "debug": True})


def test_absent_gives_the_bytes_back_and_restarts_for_what_a_reload_does_not_forget() -> None:
    kept = {CONFIG: {"existed": True, "sha256_after": sha(AFTER), "content": '{"debug": true}'}}
    plan = absent(running("26.1.5", AFTER, originals=kept, Runtimes=OURS, CDISpecDirs=DIRS))
    assert [(c["op"], c["path"]) for c in plan.changes] == [("restore", CONFIG)]
    assert acts(plan) == ["restart docker.service"]


def test_absent_leaves_a_restart_that_ends_containers_to_you() -> None:
    kept = {CONFIG: {"existed": False, "sha256_after": sha(AFTER)}}
    plan = absent(
        running("26.1.5", AFTER, originals=kept, Runtimes=OURS, CDISpecDirs=DIRS, containers=2)
    )
    assert (plan.changes[0]["op"], plan.pending, plan.list_interrupted_units("auto")) == (
        "restore",
        (UNIT,),
        [],
    )


def test_absent_restarts_no_daemon_that_does_not_answer_and_says_so() -> None:
    """Its settings and its running containers are not known, which is not the same as none."""
    kept = {CONFIG: {"existed": True, "sha256_after": sha(AFTER), "content": '{"debug": true}'}}
    mute = {
        INFO: {"error": {"kind": "timeout", "message": "no answer"}},
        "package:docker": {"installed": {"docker-ce": "5:26.1.5"}},
    }
    seen = running("26.1.5", AFTER, originals=kept, answers=mute)
    (instance,) = docker_detect.find_instances(Policy(), docker_detect.read_facts(Policy(), seen))
    plan = absent(seen, dc.replace(instance, refusal=Refusal()))
    assert ([c["op"] for c in plan.changes], plan.restarts, plan.pending) == (
        ["restore"],
        (),
        (UNIT,),
    )
    assert get_codes(plan.advice) == ["docker.restored-unheard"]


def test_absent_reloads_where_other_runtimes_remain() -> None:
    text = json.dumps({"runtimes": {**ENTRY, "kata": {"path": "/opt/kata"}}})
    kept = {
        CONFIG: {
            "existed": True,
            "sha256_after": sha(text),
            "content": '{"runtimes": {"kata": {"path": "/opt/kata"}}}',
        }
    }
    assert acts(absent(running("24.0.7", text, originals=kept, Runtimes=OURS))) == [
        "reload docker.service"
    ]


# what others made of the file since -> what is left of it
CHANGED_SINCE: dict[str, tuple[Any, str, str | None]] = {
    "a key more": (
        {"existed": True, "content": '{"debug": true}'}, AFTER[:-1] + ', "mtu": 9000}', '{"debug": true, "mtu": 9000}'),
    "their runtime in our place": (
        {"existed": True, "content": '{"debug": true}'},
        '{"runtimes": {"nvidia": {"path": "/opt/x"}}}', '{"runtimes": {"nvidia": {"path": "/opt/x"}}}'),
    "their default from before": (
        {"existed": True, "content": '{"default-runtime": "kata"}'},
        '{"default-runtime": "nvidia", "mtu": 1}', '{"default-runtime": "kata", "mtu": 1}'),
    "features that they had": (
        {"existed": True, "content": '{"features": {}}'}, '{"features": {"cdi": true}, "mtu": 1}', '{"features": {}, "mtu": 1}'),
    "CDI that they had off": (
        {"existed": True, "content": '{"features": {"cdi": false}}'}, '{"features": {"cdi": true}, "mtu": 1}',
        '{"features": {"cdi": false}, "mtu": 1}'),
    "the program of their own runtime": (
        {"existed": True, "content": '{"runtimes": {"nvidia": {"path": "/opt/nvidia-container-runtime"}}}'},
        '{"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}, "mtu": 1}',
        '{"runtimes": {"nvidia": {"path": "/opt/nvidia-container-runtime"}}, "mtu": 1}'),
    "arguments of their own runtime": (
        {"existed": True, "content": '{"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime", "runtimeArgs": []}}}'},
        '{"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime", "runtimeArgs": []}}, "mtu": 1}', None),
    "directories that we added": (
        {"existed": True, "content": "{}"}, '{"cdi-spec-dirs": ["/srv/cdi"], "mtu": 1}', '{"mtu": 1}'),
    "directories that they had": (
        {"existed": True, "content": '{"cdi-spec-dirs": ["/etc/cdi"]}'}, '{"cdi-spec-dirs": ["/srv/cdi"], "mtu": 1}',
        '{"cdi-spec-dirs": ["/etc/cdi"], "mtu": 1}'),
    "directories that are theirs now": (
        {"existed": True, "content": "{}"}, '{"cdi-spec-dirs": ["/opt/cdi"], "mtu": 1}', None),
    "CDI that they had": ({"existed": True, "content": '{"features": {"cdi": true}}'}, '{"features": {"cdi": true}, "mtu": 1}', None),
}  # fmt: skip


@pytest.mark.parametrize(("original", "text", "left"), CHANGED_SINCE.values(), ids=CHANGED_SINCE)
def test_absent_takes_out_just_what_is_ours(
    original: dict[str, Any], text: str, left: str | None
) -> None:
    plan = absent(
        running("26.1.5", text, originals={CONFIG: {**original, "sha256_after": "another"}}),
        cdi_spec_dirs=("/srv/cdi",),
    )
    if left in (None, text):
        assert plan.changes == ()
        return
    (change,) = plan.changes
    assert (change["op"], "".join(e["text"] for e in change["edits"]), change["forget"]) == (
        "edit",
        left,
        True,
    )
    assert "docker.changed-since" in get_codes(plan.advice)


def test_absent_gives_no_earlier_value_back_that_the_host_does_not_send() -> None:
    hidden = json.dumps({"runtimes": {"nvidia": {"path": "    "}}})
    kept = {CONFIG: {"existed": True, "content": hidden, "sha256_after": "another"}}
    seen = running("26.1.5", json.dumps({"runtimes": ENTRY}), originals=kept)
    with pytest.raises(PlanError) as refused:
        absent(seen)
    assert refused.value.code == "restore.earlier-value-not-sent"


def test_absent_restarts_for_directories_that_go() -> None:
    text, there = json.dumps({"cdi-spec-dirs": ["/srv/cdi"]}), ["/srv/cdi"]
    kept = {CONFIG: {"existed": True, "sha256_after": sha(text), "content": "{}"}}
    assert acts(absent(running("29.8.1", text, originals=kept, CDISpecDirs=there))) == [
        "restart docker.service"
    ]


def test_absent_removes_a_file_in_which_nothing_else_was_ever_written() -> None:
    plan = absent(
        running(
            "24.0.7",
            json.dumps({"runtimes": ENTRY}),
            originals={CONFIG: {"existed": False, "sha256_after": "another"}},
        )
    )
    assert [c["op"] for c in plan.changes] == ["remove"]


def test_absent_touches_nothing_that_was_never_written() -> None:
    plan = absent(running("26.1.5", AFTER))
    assert plan == Plan(advice=plan.advice)
    assert get_codes(plan.advice) == ["docker.unknown-runtime"]


@pytest.mark.parametrize(
    ("text", "left", "said"),
    [
        (AFTER, '{"features": {"cdi": true}, "debug": true}', "docker.no-copy-cdi-stays"),
        (json.dumps({"runtimes": ENTRY, "default-runtime": "nvidia"}), "{}", "docker.no-copy"),
        (json.dumps({"runtimes": {"nvidia": {"path": "/opt/x"}}}), None, ""),
        (
            json.dumps({"runtimes": {"nvidia": {"path": "/opt/x"}}, "default-runtime": "nvidia"}),
            None,
            "",
        ),
        (
            json.dumps(
                {
                    "runtimes": {"nvidia": {"path": BINARY, "runtimeArgs": []}},
                    "default-runtime": "nvidia",
                }
            ),
            None,
            "",
        ),
        (json.dumps({"runtimes": {"nvidia": {"path": BINARY, "args": ["--debug"]}}}), None, ""),
        (json.dumps({"default-runtime": "nvidia"}), None, ""),
    ],
)
def test_absent_without_a_journal_takes_our_runtime_out(
    text: str, left: str | None, said: str
) -> None:
    plan = absent(running("26.1.5", text, Runtimes=OURS), single=True)
    assert ["".join(e["text"] for e in c["edits"]) for c in plan.changes] == (
        [] if left is None else [left]
    )
    assert get_codes(plan.advice)[:1] == ([said] if said else [])
