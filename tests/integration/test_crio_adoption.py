# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CRI-O as the real nvidia-ctk configured it is taken over: CRI-O itself judges what is in force
then, and what absent gives back.
"""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import observe
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    originals,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)

from tests.integration.crio_trees import ROOTS, Tree, binary
from tests.lab import artefacts

PROGRAM = "/usr/bin/nvidia-container-runtime"
FLAGS = {
    "default": (("--set-as-default",), ()),
    "name": (("--nvidia-runtime-name=gpu",), ()),
    "program": ((f"--nvidia-runtime-path={PROGRAM}.cdi",), ()),
    "drop-in": (
        ("--drop-in-config=@/crio.conf.d/50-gpu.toml",),
        ("--drop-in-config=@/crio.conf.d/99-nvidia.toml",),
    ),
    "source": (("--config-source=command", "--executable-path=@/../crio"), ()),
}
COMBINATIONS = [
    dict(zip(FLAGS, chosen, strict=True))
    for chosen in itertools.product((True, False), repeat=len(FLAGS))
]


def label(combination: dict[str, bool]) -> str:
    return ", ".join(name for name, on in combination.items() if on) or "no flag"


def configure(tree: Tree, combination: dict[str, bool], toolkit: str = "nvidia-toolkit") -> None:
    """What a person ran before."""
    executable = tree.home.parent / "crio"
    executable.write_text(
        f'#!/bin/sh\nexec {binary()} --config "$(ls {tree.config} 2>/dev/null)" --config-dir {tree.directory} config\n'
    )
    executable.chmod(0o755)
    flags = [
        flag.replace("@", str(tree.home))
        for name, on in combination.items()
        for flag in FLAGS[name][0 if on else 1]
    ]
    program = artefacts.go_tool(toolkit) / "nvidia-ctk"
    argv = [
        str(program),
        "--quiet",
        "runtime",
        "configure",
        "--runtime=crio",
        f"--config={tree.config}",
        *flags,
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def options_of(combination: dict[str, bool]) -> dict[str, Any]:
    return {"handlers": (Handler("gpu"),)} if combination["name"] else {}


def settled(home: Path, root: str, default: bool, **options: Any) -> dict[str, Any]:
    """What is in force on a host with the same configuration that nobody touched before us."""
    tree = Tree(home)
    home.mkdir(parents=True)
    tree.write(ROOTS[root])
    assert tree.apply(tree.plan(tree.policy(**options), default))["error"] is None
    return tree.printed()


def files(tree: Tree) -> dict[str, bytes]:
    return {
        str(p.relative_to(tree.home)): p.read_bytes() for p in tree.home.rglob("*") if p.is_file()
    }


def taken_back(tree: Tree) -> Plan:
    """With what the journal keeps, as a look brings it."""
    question = queries.ask_for_originals(str(tree.home.parent / "journal"))
    kept = observe.run({"schema": 1, "root": "/", "questions": [question]})["answers"][
        question["id"]
    ]
    look = tree.look(answers={queries.ask_for_originals("")["id"]: kept})
    policy = tree.policy(state="absent")
    facts = crio_detect.read_facts(policy, look)
    return originals.complete_whole_removal(
        facts.earlier, crio_detect.plan_absent(policy, facts, tree.instance())
    )


def kept_below(tree: Tree, name: str) -> str:
    return tree.printed()["runtimes"][name].get("runtime_root") or "/run/crun"  # CRI-O 1.34's own


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "etc").mkdir()
    return Tree(tmp_path / "etc")


@pytest.mark.parametrize("combination", COMBINATIONS, ids=label)
@pytest.mark.parametrize(
    "root", ["as packaged", "runc as default", "no file at all", "all in the main file"]
)
def test_what_the_tool_wrote_is_recognised_whatever_its_flags_were(
    tree: Tree, root: str, combination: dict[str, bool]
) -> None:
    tree.write(ROOTS[root])
    configure(tree, combination)
    left = next(p for p in tree.directory.iterdir() if p.name in ("50-gpu.toml", "99-nvidia.toml"))
    will = "/run/runc" if root == "runc as default" else "/run/crun"
    if (
        combination["default"]
        and kept_below(tree, "gpu" if combination["name"] else "nvidia") != will
    ):
        with pytest.raises(
            PlanError,
            match=f"{left}: containers of .* keep their state below .* of its replacement below {will} ",
        ):
            tree.plan(tree.policy(**options_of(combination)))
        return
    plan = tree.plan(tree.policy(**options_of(combination)))
    assert [(x.tool, x.path, x.settings, x.exact, x.fate) for x in plan.leftovers] == [
        ("nvidia-ctk", str(left), (), True, "adopted")
    ]
    assert [(c["op"], c["path"]) for c in plan.changes] == [
        ("write", str(tree.directory / "90-gpufleet.conf")),
        ("remove", str(left)),
    ]


JUDGED = [
    (
        "as packaged",
        {"default": True, "name": False, "program": False, "drop-in": False, "source": False},
    ),
    (
        "runc as default",
        {"default": True, "name": True, "program": True, "drop-in": True, "source": True},
    ),
    (
        "all in the main file",
        {"default": False, "name": False, "program": False, "drop-in": False, "source": False},
    ),
    (
        "settings of a site",
        {"default": True, "name": False, "program": True, "drop-in": True, "source": False},
    ),
    (
        "no file at all",
        {"default": False, "name": False, "program": False, "drop-in": False, "source": True},
    ),
]


@pytest.mark.parametrize(
    ("root", "combination"), JUDGED, ids=[f"{root}: {label(c)}" for root, c in JUDGED]
)
@pytest.mark.parametrize("default", [False, True])
def test_an_adopted_host_is_as_one_that_nobody_touched_and_gets_everything_back(
    tree: Tree, root: str, combination: dict[str, bool], default: bool
) -> None:
    tree.write(ROOTS[root])
    configure(tree, combination)
    before = files(tree)
    options = options_of(combination)

    checked = tree.apply(tree.plan(tree.policy(**options), default), check=True)
    assert (checked["error"], files(tree)) == (None, before)
    applied = tree.apply(tree.plan(tree.policy(**options), default))
    assert (applied["error"], applied["changed"]) == (None, True)
    assert tree.printed() == settled(tree.home.parent / "untouched/etc", root, default, **options)
    again = tree.plan(tree.policy(**options), default)
    assert (again.empty, again.leftovers) == (True, ())

    answer = tree.apply(taken_back(tree))
    assert (answer["error"], answer["changed"]) == (None, True)
    assert files(tree) == before


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize("source", [False, True])
@pytest.mark.parametrize("root", list(ROOTS))
def test_a_main_file_that_an_older_release_edited_stays_and_ours_decides(
    tree: Tree, root: str, source: bool, default: bool
) -> None:
    """1.17 writes the whole file in its own form, from --config-source=command with all defaults in
    it, so no line of it is removed.
    """
    tree.write(ROOTS[root])
    flags = {"default": default, "name": False, "program": False, "source": source}
    configure(tree, flags, "nvidia-toolkit-1.17")
    before, was = files(tree), tree.printed()
    keys = ("crio.runtime.runtimes.nvidia", *(("crio.runtime.default_runtime",) if default else ()))
    plan = tree.plan(tree.policy())
    found = [(x.tool, x.path, x.settings, x.exact, x.fate) for x in plan.leftovers]
    assert found == [("nvidia-ctk", str(tree.config), keys, True, "adopted")]
    assert tree.apply(plan)["error"] is None
    assert {name for name, text in files(tree).items() if before.get(name) != text} == {
        "crio.conf.d/90-gpufleet.conf"
    }
    now = tree.printed()
    assert (
        now.pop("runtimes")["nvidia"]["runtime_path"]
        == was.pop("runtimes")["nvidia"]["runtime_path"]
    )
    assert now == was
    assert tree.plan(tree.policy()).empty
    assert tree.apply(taken_back(tree))["error"] is None
    assert files(tree) == before
