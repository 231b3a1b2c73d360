# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What dockerd does not start with, whatever is written: the next restart would be the end of
Docker there, and no rollback helps.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    next_start,
)

from tests.unit.builders import obs, sha
from tests.unit.coded import get_codes
from tests.unit.docker_hosts import CONFIG, DIRS, ENTRY, OURS, UNIT, absent, acts, planned, running

LIVE = '{\n  "live-restore": true\n}'
OLD, NEW = "24.0.7", "26.1.5"  # needs a reload, and a restart for CDI
TREE = Policy(root="/srv/tree", engine_version=NEW, engines=("docker",))
MEMBER = dict.fromkeys((next_start.STATE, next_start.CERTIFICATE), "")

SWARM = r"\[docker\.live-restore.*in-swarm.*\]$"
# version, file, state of the Swarm, flags -> the line that is refused ("" = nothing is), the code
# of the advice
HOSTS: dict[str, tuple[str, str | None, str, list[str], str, str]] = {
    "a restart is needed": (NEW, LIVE, "active", [], f"{CONFIG}:2", ""),
    "and its manager is locked": (NEW, LIVE, "locked", [], f"{CONFIG}:2", ""),
    "the flag": (NEW, None, "active", ["--live-restore"], CONFIG, ""),
    "a reload is enough": (OLD, LIVE, "active", [], "", "docker.live-restore-in-swarm"),
    "it has left": (NEW, LIVE, "inactive", [], "", ""),
    "without live-restore": (NEW, '{"live-restore": false}', "active", [], "", ""),
    "nothing is said of it": (OLD, None, "active", [], "", ""),
}


@pytest.mark.parametrize(
    ("version", "text", "state", "argv", "where", "code"), HOSTS.values(), ids=HOSTS
)
def test_no_restart_is_planned_that_docker_would_not_survive(
    version: str, text: str | None, state: str, argv: list[str], where: str, code: str
) -> None:
    seen = running(
        version, text, argv=argv, LiveRestoreEnabled=False, Swarm={"LocalNodeState": state}
    )
    if where:
        with pytest.raises(PlanError, match=SWARM) as error:
            planned(Policy(), seen)
        assert f"{error.value.where}:{error.value.line}".removesuffix(":None") == where
        return
    plan = planned(Policy(), seen)
    assert len(acts(plan)) == 1
    assert get_codes(plan.advice) == ([code] if code else [])


AFTER = json.dumps({"runtimes": ENTRY, "features": {"cdi": True}, "live-restore": True})
# the file from before -> whether the restart that takes CDI back is refused
BEFORE = {'{"live-restore": true}': True, '{"debug": true}': False}


@pytest.mark.parametrize(("content", "refused"), BEFORE.items())
def test_restoring_goes_by_the_file_that_docker_would_start_with(
    content: str, refused: bool
) -> None:
    kept = {CONFIG: {"existed": True, "sha256_after": sha(AFTER), "content": content}}
    seen = running(
        NEW,
        AFTER,
        originals=kept,
        Runtimes=OURS,
        CDISpecDirs=DIRS,
        Swarm={"LocalNodeState": "active"},
    )
    if refused:
        with pytest.raises(PlanError, match=SWARM):
            absent(seen)
    else:
        assert acts(absent(seen)) == [f"restart {UNIT}"]


# the files of a tree -> whether it is refused
TREES: dict[str, tuple[dict[str, str], bool]] = {
    "a node of a Swarm": ({CONFIG: LIVE, **MEMBER}, True),
    "its certificate is gone, so dockerd clears the rest": (
        {CONFIG: LIVE, next_start.STATE: ""},
        False,
    ),
    "none": ({CONFIG: LIVE}, False),
    "a node without live-restore": ({CONFIG: "{}", **MEMBER}, False),
}


@pytest.mark.parametrize(("files", "refused"), TREES.values(), ids=TREES)
def test_a_tree_whose_docker_would_not_start_is_refused(
    files: dict[str, Any], refused: bool
) -> None:
    if refused:
        with pytest.raises(PlanError, match=SWARM):
            planned(TREE, obs(files=files))
    else:
        assert planned(TREE, obs(files=files)).changes


KATA = '{\n  "default-runtime": "kata",\n  "runtimes": {"kata": {"path": "/usr/bin/kata"}}\n}'
# its file, a flag -> the key that is refused ("" = none is)
TWICE: dict[str, tuple[str, str, str]] = {
    "the default runtime": (KATA, "--default-runtime=kata", "default-runtime"),
    "features": ('{"features": {"buildkit": true}}', "--feature=buildkit=true", "features"),
    "live-restore": (LIVE, "--live-restore", "live-restore"),
    "directories": ('{"cdi-spec-dirs": ["/etc/cdi"]}', "--cdi-spec-dir=/etc/cdi", "cdi-spec-dirs"),
    "runtimes, which are put together": (KATA, "--add-runtime=other=/usr/bin/other", ""),
    "another flag": (KATA, "--live-restore", ""),
}


@pytest.mark.parametrize(("text", "flag", "key"), TWICE.values(), ids=TWICE)
def test_what_a_flag_and_the_file_say_is_refused(text: str, flag: str, key: str) -> None:
    seen = running(OLD, text, argv=[flag])
    if key:
        with pytest.raises(PlanError, match=f"^{CONFIG}:[12]: ") as caught:
            planned(Policy(), seen)
        assert (caught.value.code, caught.value.values["key"]) == ("docker.set-twice", key)
    else:
        assert planned(Policy(), seen).changes


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_reload_does_not_take_it_either(version: str) -> None:
    with pytest.raises(PlanError, match=rf"^{CONFIG}:2: .*\[docker\.set-twice\]$"):
        planned(
            Policy(), running(version, KATA, argv=["--default-runtime=kata"], DefaultRuntime="kata")
        )


def test_where_nothing_changes_it_is_only_said() -> None:
    text = json.dumps({"default-runtime": "kata", "runtimes": ENTRY})
    plan = planned(
        Policy(),
        running(OLD, text, argv=["--default-runtime=kata"], Runtimes=OURS, DefaultRuntime="kata"),
    )
    assert (plan.changes, acts(plan)) == ((), [])
    assert get_codes(plan.advice) == ["docker.set-twice"]
