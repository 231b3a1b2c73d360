# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a host has, whatever nvidia-ctk copied of it and whatever someone changed since: what
goes takes nothing along.

The judge is containerd's own dump before and after. Only the tool's keys and ours may have another
value, and absent gives back all bytes. tests/draws.py says how many examples each release gets.
"""

from __future__ import annotations

import copy
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from hypothesis import given
from hypothesis import strategies as st

from tests.integration import containerd_trees as trees
from tests.integration.configs import Style, written
from tests.integration.containerd_trees import Tree
from tests.integration.nvidia_ctk_trees import CDI, DEFAULT, DROP_IN, TreeHost, ctk, files
from tests.integration.thoroughness import thorough
from tests.unit import lowered

PLAIN = Style("\n", False, "", '"', False, False, False, False, True, 0, 0)
OF_TOOL = {("containerd", "default_runtime_name"), ("enable_cdi",)}
WRAPPER = "/opt/site/nvidia-container-runtime-wrapper"
# What someone changes by hand: keys of the whole table, and of a handler; None takes the key away.
GENERAL: list[tuple[tuple[str, ...], Any]] = [
    (("enable_selinux",), True), (("enable_selinux",), False), (("max_container_log_line_size",), 8192),
    (("max_container_log_line_size",), None), (("cdi_spec_dirs",), ["/srv/cdi"]), (("enable_cdi",), False),
    (("containerd", "default_runtime_name"), "runc"), (("containerd", "no_pivot"), True), (("drain_exec_sync_io_timeout",), "7s"),
]  # fmt: skip
OF_HANDLER: list[tuple[tuple[str, ...], Any]] = [
    (("options", "SystemdCgroup"), True), (("options", "SystemdCgroup"), False), (("options", "SystemdCgroup"), None),
    (("options", "Root"), "/run/site"), (("options", "BinaryName"), WRAPPER), (("options", "BinaryName"), "/opt/site/runc"),
    (("privileged_without_host_devices",), True), (("base_runtime_spec",), "/etc/containerd/site.json"), (("snapshotter",), "native"),
    (("pod_annotations",), ["site/*"]), (("container_annotations",), ["site/*"]), (("runtime_type",), lowered.RUNC), (("options",), None),
]  # fmt: skip
CHANGES = st.one_of(
    st.sampled_from(GENERAL),
    st.tuples(st.sampled_from(["nvidia", "runc", "crun", "site"]), st.sampled_from(OF_HANDLER)).map(
        lambda both: (("containerd", "runtimes", both[0], *both[1][0]), both[1][1])
    ),
)
PLACES = st.sampled_from(["theirs", "theirs", "theirs", "root", "between"])


def hosts(release: str) -> st.SearchStrategy[dict[str, Any]]:
    """Configurations before the tool: with handlers of the site's own or none, and with keys that
    no host sends.
    """
    more = st.fixed_dictionaries(
        {},
        optional={"enable_selinux": st.booleans(), "max_container_log_line_size": st.just(32768)},
    )
    bare: st.SearchStrategy[dict[str, Any]] = st.just({})
    return st.tuples(st.one_of(bare, lowered.configurations(release)), more).map(
        lambda both: {**both[0], **both[1]}
    )


def changed(cri: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *above, last = path
    for name in above:
        cri = cri.setdefault(name, {})
    if value is None:
        cri.pop(last, None)
    else:
        cri[last] = value


def edited(
    tree: Tree, edits: list[tuple[str, tuple[tuple[str, ...], Any]]], names: str, number: int
) -> None:
    """Someone's changes: in the tool's file, in the main file afterwards, or in a file that is read
    between them.
    """
    places = {"theirs": DROP_IN, "root": "config.toml", "between": "conf.d/50-site.toml"}
    for where, (path, value) in edits:
        at = tree.config.parent / places[where]
        if where == "theirs" and not at.exists():
            continue
        data = tomllib.loads(at.read_text()) if at.exists() else {"version": number}
        changed(data.setdefault("plugins", {}).setdefault(names, {}), path, copy.deepcopy(value))
        at.write_text(written(data, PLAIN))


def leaves(data: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*at, key))
        else:
            yield (*at, key), value


def lost(was: dict[str, Any], now: dict[str, Any], told: bool) -> list[str]:
    """Of two dumps: what is not the tool's, not ours and has another value, and what of a handler
    is less.
    """
    before, after = trees.cri_of(was), trees.cri_of(now)
    found = lowered.losses(before, after, told=told)
    for one in (before, after):
        one["containerd"].pop("runtimes", None)
    first, second = ({p: v for p, v in leaves(one) if p not in OF_TOOL} for one in (before, after))
    found += [
        f"{p}: {first.get(p)!r} and {second.get(p)!r}"
        for p in {**first, **second}
        if first.get(p) != second.get(p)
    ]
    others = [{k: v for k, v in it["plugins"].items() if "cri" not in k} for it in (was, now)]
    return [*found, *([] if others[0] == others[1] else ["another plugin"])]


def dumped(release: str, config: Path) -> dict[str, Any] | None:
    done = subprocess.run(
        [trees.binary(release), "-c", config, "config", "dump"],
        capture_output=True,
        text=True,
        check=False,
    )
    return tomllib.loads(done.stdout) if done.returncode == 0 else None


@pytest.mark.parametrize("release", trees.RELEASES)
def test_what_goes_takes_nothing_along(release: str) -> None:
    trees.binary(release)
    newer, fates = release.startswith("2."), []
    names, number = (
        ("io.containerd.cri.v1.runtime", 3) if newer else ("io.containerd.grpc.v1.cri", 2)
    )

    @thorough(6)
    @given(
        cri=hosts(release), default=st.booleans(), flags=st.lists(st.sampled_from([DEFAULT, CDI]), unique=True),
        edits=st.lists(st.tuples(PLACES, CHANGES), max_size=3),
    )  # fmt: skip
    def holds(cri: dict[str, Any], default: bool, flags: list[str], edits: list[Any]) -> None:
        with tempfile.TemporaryDirectory() as place:
            tree = Tree(Path(place), release)
            root = {
                "version": number,
                "imports": [f"{tree.config.parent}/conf.d/*.toml"],
                "plugins": {names: cri},
            }
            tree.write({"config.toml": written(root, PLAIN)})
            ctk(tree, "1.20", *flags)
            edited(tree, edits, names, number)
            was, texts = dumped(release, tree.config), files(tree)
            if was is None:
                return
            tree_host = TreeHost(tree, default=default)
            try:
                plan = tree_host.plan("present")
            except PlanError as refused:
                fates.append(f"refused: {refused.what[:40]}")
                return
            tree_host.apply(plan)
            fates.append(",".join(left.fate for left in plan.leftovers))
            now = dumped(release, tree.config)
            assert now is not None
            assert lost(was, now, newer) == []
            assert tree_host.plan("present").differences == ()
            tree_host.apply(tree_host.plan("absent"))
            assert files(tree) == texts

    holds()
    assert "adopted" in fates, fates


@pytest.mark.parametrize("release", ["1.7", "2.1"])
def test_only_a_handler_of_our_name_and_of_another_kind_keeps_the_tools_file(release: str) -> None:
    """Where nobody has edited anything since: the tool copies the default handler, which may be one
    of Kata's.
    """
    trees.binary(release)
    names, number = (
        ("io.containerd.cri.v1.runtime", 3)
        if release.startswith("2.")
        else ("io.containerd.grpc.v1.cri", 2)
    )

    @thorough(6)
    @given(
        cri=hosts(release),
        default=st.booleans(),
        flags=st.lists(st.sampled_from([DEFAULT, CDI]), unique=True),
    )
    def holds(cri: dict[str, Any], default: bool, flags: list[str]) -> None:
        with tempfile.TemporaryDirectory() as place:
            tree = Tree(Path(place), release)
            root = {
                "version": number,
                "imports": [f"{tree.config.parent}/conf.d/*.toml"],
                "plugins": {names: cri},
            }
            tree.write({"config.toml": written(root, PLAIN)})
            try:
                TreeHost(tree, default=default).plan("present")
            except PlanError:
                return  # the host is refused without the tool as well
            ctk(tree, "1.20", *flags)
            try:
                plan = TreeHost(tree, default=default).plan("present")
            except PlanError as refused:
                assert refused.code == "containerd.handler-of-other-kind"  # noqa: PT017 - a host may be refused or not
                return
            assert [left.fate for left in plan.leftovers if left.path.endswith(DROP_IN)] == [
                "adopted"
            ]

    holds()
