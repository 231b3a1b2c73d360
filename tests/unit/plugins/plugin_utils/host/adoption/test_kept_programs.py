# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A handler that works is not pointed to a program that is not there, nor to one that gives
containers their GPUs in another way.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)

from tests.unit import builders, crio_plans
from tests.unit.coded import get_codes
from tests.unit.containerd_leftovers import COPY, OURS, ROOT, SITE, THEIRS, VERSIONS, rendered
from tests.unit.containerd_plans import DECISION, applied, instance

USUAL, OPT = "/usr/bin/nvidia-container-runtime", "/opt/bin/nvidia-container-runtime"
LEGACY = f"{USUAL}.legacy"
SINGLE, NODE = Policy(single=True), Policy(packages="ignore")
CHOSEN = Policy(single=True, handlers=(Handler(chosen=True),))
KEPT = ("adoption.program-kept", "adoption.program-sets-mode")
# whose task it is, the handler's program, what is on the host -> the program afterwards, the code
# of the advice
CASES: dict[str, tuple[Policy, str, tuple[str, ...], str, str]] = {
    "only the handler's is there": (SINGLE, OPT, (OPT,), OPT, "adoption.program-kept"),
    "the same, node without packages": (NODE, OPT, (OPT,), OPT, "adoption.program-kept"),
    "node brings the packages": (Policy(packages="present"), OPT, (OPT,), USUAL, ""),
    "the user chose": (CHOSEN, OPT, (OPT,), USUAL, ""),
    "both are there": (SINGLE, OPT, (OPT, USUAL), USUAL, ""),
    "none is there": (SINGLE, OPT, (), USUAL, ""),
    "the mode of one engine's module": (SINGLE, LEGACY, (LEGACY, USUAL), LEGACY, "adoption.program-sets-mode"),
    "a mode whose program is gone": (SINGLE, LEGACY, (USUAL,), USUAL, ""),
    "the mode is node's to decide": (NODE, LEGACY, (LEGACY, USUAL), USUAL, ""),
    "the mode, chosen": (CHOSEN, LEGACY, (LEGACY, USUAL), USUAL, ""),
}  # fmt: skip
IN_MAIN = (
    SITE.replace('imports = ["/etc/containerd/conf.d/*.toml"]\n', "")
    + """[plugins.@CRI@.containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
[plugins.@CRI@.containerd.runtimes.nvidia.options]
BinaryName = "@PROGRAM@"
SystemdCgroup = true
"""
)
SHAPES = {
    "in the main file": {ROOT: IN_MAIN},
    "in nvidia-ctk's drop-in": {ROOT: SITE, THEIRS: COPY.replace(USUAL, "@PROGRAM@")},
}


def planned(
    version: str,
    files: dict[str, str],
    there: tuple[str, ...],
    policy: Policy,
    originals: Any = None,
) -> Plan:
    seen = builders.obs(files={**files, **dict.fromkeys(there, "")}, originals=originals)
    return containerd_detect.plan_instance(
        policy,
        containerd_detect.read_facts(policy, seen),
        instance(version, running=False),
        dc.replace(DECISION, default=True),
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", CASES)
def test_a_handler_keeps_the_program_that_works(case: str, shape: str, version: str) -> None:
    policy, program, there, wanted, said = CASES[case]
    files = {
        path: text.replace("@PROGRAM@", program)
        for path, text in rendered(version, SHAPES[shape]).items()
    }
    found = planned(version, files, there, policy)
    assert [
        d for d in found.differences if d.before == d.after
    ] == []  # on 2.x our drop-in repeats what the handler has
    after = applied(files, found)
    assert f'BinaryName = "{wanted}"' in after[OURS if version > "2" else ROOT]
    assert [code for code in get_codes(found.advice) if code in KEPT] == ([said] if said else [])
    gone = {
        path: {"existed": True, "sha256_before": "x", "sha256_after": None, "content": files[path]}
        for path in set(files) - set(after)
    }
    again = planned(version, after, there, policy, gone)
    assert not again.changes, again.differences


SETS = f"; its program {LEGACY} sets the mode of the NVIDIA runtime by its name, and "
# whose task it is -> what a leftover says of a program that sets the mode
MODES = {
    "single": (SINGLE, f"{SETS}stays"),
    "node": (NODE, f"{SETS}is replaced by {USUAL}, which leaves the mode to the configuration"),
    "chosen": (CHOSEN, f"{SETS}is replaced by {USUAL}, which leaves the mode to the configuration"),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("who", MODES)
def test_what_becomes_of_a_program_that_sets_the_mode_is_said_where_it_is_taken_over(
    who: str, shape: str, version: str
) -> None:
    policy, said = MODES[who]
    files = {
        path: text.replace("@PROGRAM@", LEGACY)
        for path, text in rendered(version, SHAPES[shape]).items()
    }
    (left,) = planned(version, files, (LEGACY, USUAL), policy).leftovers
    assert (left.fate, left.why.endswith(said)) == ("adopted", True), left.why


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_said_of_a_mode_where_no_program_sets_one(version: str) -> None:
    (left,) = planned(
        version, rendered(version, {ROOT: SITE, THEIRS: COPY}), (LEGACY, USUAL), NODE
    ).leftovers
    assert "mode" not in left.why


CRIO = """[crio.runtime.runtimes.nvidia]
runtime_path = "@PROGRAM@"
runtime_type = "oci"
monitor_path = "/usr/libexec/crio/conmon"
"""
SITES, TOOLS = f"{crio_plans.DIRECTORY}/20-site.conf", f"{crio_plans.DIRECTORY}/99-nvidia.toml"
REFUSED = ("the user chose", "none is there")  # CRI-O does not start with a program that is missing


@pytest.mark.parametrize("path", [SITES, TOOLS])
@pytest.mark.parametrize("case", [case for case in CASES if case not in REFUSED])
def test_a_handler_of_crio_keeps_the_program_that_works(case: str, path: str) -> None:
    policy, program, there, wanted, said = CASES[case]
    files: dict[str, Any] = {
        USUAL: None,
        **dict.fromkeys(there, ""),
        path: CRIO.replace("@PROGRAM@", program),
    }
    found = crio_plans.planned(policy, crio_plans.host(files))
    ours = next(change for change in found.changes if change["path"] == crio_plans.OURS)
    assert f'runtime_path = "{wanted}"' in ours["content"]
    assert [code for code in get_codes(found.advice) if code in KEPT] == ([said] if said else [])
    left = {name: text for name, text in files.items() if name != path or path == SITES}
    gone = (
        {
            TOOLS: {
                "existed": True,
                "sha256_before": "x",
                "sha256_after": None,
                "content": files.get(TOOLS),
            }
        }
        if path == TOOLS
        else None
    )
    again = crio_plans.planned(
        policy, crio_plans.host({**left, crio_plans.OURS: ours["content"]}, originals=gone)
    )
    assert not again.changes, again.differences


@pytest.mark.parametrize("case", REFUSED)
def test_crio_is_not_given_a_program_that_is_not_there(case: str) -> None:
    policy, program, there, _wanted, _said = CASES[case]
    with pytest.raises(PlanError) as caught:
        crio_plans.planned(
            policy,
            crio_plans.host(
                {USUAL: None, **dict.fromkeys(there, ""), SITES: CRIO.replace("@PROGRAM@", program)}
            ),
        )
    assert (caught.value.code, caught.value.values["handler"]) == (
        "adoption.program-missing",
        "nvidia",
    )


@pytest.mark.parametrize("path", [SITES, TOOLS])
@pytest.mark.parametrize("who", MODES)
def test_what_becomes_of_a_program_of_crio_that_sets_the_mode_is_said(who: str, path: str) -> None:
    policy, said = MODES[who]
    files: dict[str, Any] = {USUAL: "", LEGACY: "", path: CRIO.replace("@PROGRAM@", LEGACY)}
    (left,) = crio_plans.planned(policy, crio_plans.host(files)).leftovers
    assert (left.fate, left.why.endswith(said)) == ("adopted", True), left.why
