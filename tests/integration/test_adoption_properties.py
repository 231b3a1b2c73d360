# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever was configured, and then once more by the real nvidia-ctk: the host is taken over as if
the tool had never been there, or refused with every file as it was. containerd's own program is the
judge. One thing stays: what the tool had copied from another handler into one that was there before
it, since containers have run with that.

tests/draws.py says how many examples each release gets.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from hypothesis import event, example, given
from hypothesis import strategies as st

from tests.integration import configs
from tests.integration import containerd_trees as trees
from tests.integration.containerd_trees import cri_of
from tests.integration.nvidia_ctk_trees import (
    CDI,
    DEFAULT,
    DROP_IN,
    TreeHost,
    ctk,
    effective,
    files,
)
from tests.integration.thoroughness import thorough
from tests.unit import lowered

# The tool makes nvidia a copy of runc here, which has a specification and annotations that the
# nvidia of the main file has not.
COPIED = {
    "runc": {
        "runtime_type": lowered.RUNC,
        "base_runtime_spec": "/etc/containerd/base.json",
        "container_annotations": ["c.d/*"],
    },
    "nvidia": {"runtime_type": lowered.RUNC},
}
PLAIN = configs.Style("\n", False, "", '"', False, False, False, False, True, 0, 0)
SOURCES = ("in any form", "handlers that differ in all that counts")
FLAGS = st.sampled_from([(), (DEFAULT,), (CDI,), (DEFAULT, CDI)])


def planned(tree_host: TreeHost) -> Any:
    """None where it is refused."""
    try:
        return tree_host.plan("present")
    except PlanError as refused:
        event(f"refused: {refused.what[:50]}")
        return None


def whole(release: str, cri: Any) -> dict[str, Any]:
    version, name = (3, configs.V3) if release.startswith("2.") else (2, configs.V2)
    return {"version": version, "plugins": {name: cri}}


def drawn(release: str, source: str) -> st.SearchStrategy[dict[str, Any]]:
    if source == SOURCES[0]:
        return configs.containerd(release)
    return lowered.configurations(release).map(lambda cri: whole(release, cri))


def take_copies_out(
    now: dict[str, Any], never: dict[str, Any], by_tool: dict[str, Any], before: dict[str, Any]
) -> dict[str, Any]:
    """What is in force now; handlers that were there before the tool without what they have of it
    alone, with the value that it gave.
    """
    mine, plain, made, was = (
        cri_of(each)["containerd"]["runtimes"] for each in (now, never, by_tool, before)
    )
    for name in set(mine) & set(plain) & set(made) & set(was):
        for here, without, tools in (
            (r[name] for r in (mine, plain, made)),
            (r[name]["options"] for r in (mine, plain, made)),
        ):
            for key in [
                k
                for k, v in here.items()
                if k != "options" and v and v == tools.get(k) and not without.get(k)
            ]:
                del here[key]
                here.update({key: without[key]} if key in without else {})
            for key, value in here.items():
                # with what is this collection's beside it
                if isinstance(value, list) and isinstance(tools.get(key), list):
                    here[key] = [
                        item
                        for item in value
                        if item not in tools[key] or item in (without.get(key) or ())
                    ]
    return now


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("release", trees.RELEASES)
def test_a_drop_in_of_1_20_goes_as_if_it_had_never_been_there_or_every_file_stays(
    release: str, source: str
) -> None:
    trees.binary(release)
    outcomes = []

    @thorough(2)
    @example(
        tree=whole(release, {"containerd": {"runtimes": COPIED, "default_runtime_name": "nvidia"}}),
        style=PLAIN,
        flags=(),
    )
    @given(tree=drawn(release, source), style=configs.styles, flags=FLAGS)
    def holds(tree: Any, style: configs.Style, flags: tuple[str, ...]) -> None:
        with tempfile.TemporaryDirectory() as place:
            host, untouched = (
                trees.Tree(Path(place) / name, release) for name in ("tree", "untouched")
            )
            for each in (host, untouched):
                each.write({"config.toml": configs.written(tree, style)})
            try:
                before = effective(untouched)
                ctk(host, "1.20", *flags)
                by_tool = effective(host)
            except (AssertionError, subprocess.CalledProcessError):
                event("the tool or containerd does not read it")
                return
            was, theirs = files(host), host.config.parent / DROP_IN
            tree_host, plain = TreeHost(host), TreeHost(untouched)
            plan, usual = planned(tree_host), planned(plain)
            if plan is None or usual is None:
                assert files(host) == was
                outcomes.append(f"refused{' as without the tool' if usual is None else ''}")
                return
            tree_host.apply(plan)
            plain.apply(usual)
            outcomes.append("stays" if theirs.exists() else "goes")
            event(outcomes[-1])
            if not theirs.exists():
                never = effective(untouched)
                assert take_copies_out(effective(host), never, by_tool, before) == never
            assert tree_host.plan("present").empty
            tree_host.apply(tree_host.plan("absent"))
            assert files(host) == was

    holds()
    print(release, {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))})
