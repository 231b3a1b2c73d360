# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon.json that NVIDIA's tools wrote: the runtime is used as it is, and the plan says whose it
was.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import projector
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config as docker_config,
)

from tests.unit.docker_hosts import BINARY, CONFIG, DIRS, RUNC, planned, running

BARE = "nvidia-container-runtime"
# As 1.17.8 and 1.20.1 write it, to the byte, and as the package nvidia-docker2 2.14 brings it.
BY_CTK = """\
{
    "runtimes": {
        "nvidia": {
            "args": [],
            "path": "nvidia-container-runtime"
        }
    }
}"""
BY_PACKAGE = """\
{
    "runtimes": {
        "nvidia": {
            "path": "nvidia-container-runtime",
            "runtimeArgs": []
        }
    }
}
"""
DEFAULT = BY_CTK.replace(
    '{\n    "runtimes"', '{\n    "default-runtime": "nvidia",\n    "runtimes"', 1
)
BOTH = ("runtimes.nvidia", "default-runtime")


def shown(text: str) -> dict[str, Any]:
    found = projector.project_file(text.encode(), docker_config.keep_docker_values())
    return {"content": found.data.decode(), "withheld": [dict(w) for w in found.withheld]}


def host(text: str, default: str = "runc", **more: Any) -> Any:
    runtimes = {**RUNC, "nvidia": {"path": json.loads(text)["runtimes"]["nvidia"]["path"]}}
    files = {CONFIG: shown(text), **more.pop("files", {})}
    return running(
        "28.5.2", files=files, CDISpecDirs=DIRS, Runtimes=runtimes, DefaultRuntime=default, **more
    )


@pytest.mark.parametrize(
    ("text", "default", "tool", "keys", "exact"),
    [
        (BY_CTK, "runc", "nvidia-ctk", ("runtimes.nvidia",), True),
        (DEFAULT, "nvidia", "nvidia-ctk", BOTH, True),
        (BY_PACKAGE, "runc", "nvidia-docker2", ("runtimes.nvidia",), True),
        (BY_CTK.replace("[]", '["--debug"]'), "runc", "nvidia-ctk", ("runtimes.nvidia",), False),
        (
            json.dumps({"runtimes": {"nvidia": {"path": BINARY}}}),
            "runc",
            "a person or an unknown tool",
            ("runtimes.nvidia",),
            True,
        ),
    ],
)
def test_the_runtime_is_used_where_it_stands(
    text: str, default: str, tool: str, keys: tuple[str, ...], exact: bool
) -> None:
    plan = planned(Policy(), host(text, default))
    assert [(x.tool, x.path, x.settings, x.exact, x.fate) for x in plan.leftovers] == [
        (tool, CONFIG, keys, exact, "adopted")
    ]
    assert (plan.changes, plan.restarts) == ((), ())  # its arguments as well, are as they were


GONE = "/usr/local/nvidia/toolkit/nvidia-container-runtime"


def test_a_runtime_that_gets_another_program_is_not_said_to_be_used_as_it_is() -> None:
    text = json.dumps({"runtimes": {"nvidia": {"path": GONE}}, "default-runtime": "nvidia"})
    kept = {CONFIG: {"existed": True, "content": text, "sha256_after": "a" * 64}}
    after = text.replace(GONE, BINARY)
    for now, originals in ((text, {}), (after, kept)):
        (left,) = planned(Policy(), host(now, "nvidia", originals=originals)).leftovers
        assert (left.tool, left.settings, left.fate) == ("gpu-operator", BOTH, "adopted")
        assert get_code(left.why) == "adoption.runtime-gets-program"


def test_adopt_never_names_it_as_kept() -> None:
    assert [x.fate for x in planned(Policy(adopt="never"), host(BY_CTK)).leftovers] == ["kept"]


def test_a_runtime_of_our_own_is_nobodys_leftover() -> None:
    text = json.dumps({"runtimes": {"nvidia": {"path": BINARY}}})
    kept = {CONFIG: {"existed": True, "content": "{}", "sha256_after": "a" * 64}}
    assert planned(Policy(), host(text, originals=kept)).leftovers == ()


def test_what_the_journal_has_of_theirs_stays_theirs() -> None:
    text = json.dumps(
        {"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": BARE, "args": []}}}
    )
    kept = {CONFIG: {"existed": True, "content": BY_CTK, "sha256_after": "a" * 64}}
    assert [
        x.settings for x in planned(Policy(), host(text, "nvidia", originals=kept)).leftovers
    ] == [("runtimes.nvidia",)]
