# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every configuration and every policy, with the engines' own programs as judges.

  (a) the effective configuration afterwards is that from before and exactly ours
  (b) a second run changes nothing
  (c) absent gives back the same bytes
  (d) no line goes that is not about our keys, and no other comes
  (e) check mode says all of it, and changes nothing

tests/draws.py says how many examples each engine gets; `make soak` sets 10 000.
"""

from __future__ import annotations

import difflib
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Handler
from hypothesis import event, given
from hypothesis import strategies as st

from tests.integration import configs, crio_trees
from tests.integration import containerd_trees as trees
from tests.integration.thoroughness import thorough

OURS = (
    "default_runtime_name",
    "enable_cdi",
    "cdi_spec_dirs",
    "nvidia",
    "imports",
    "BinaryName",
    "runtimes",
    "runc",
)


def lines_that_went(before: str, after: str) -> list[str]:
    # a last line without one may get it, wherever ours come
    end = "\r\n" if "\r\n" in before else "\n"
    old, new = (
        (text if text.endswith("\n") else text + end).split("\n") for text in (before, after)
    )
    changes = (
        difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if len(old) < 2000
        else _ends_only(old, new)
    )
    return [
        line for tag, i, j, _k, _l in changes if tag in ("replace", "delete") for line in old[i:j]
    ]


def _ends_only(old: list[str], new: list[str]) -> list[tuple[str, int, int, int, int]]:
    """The same for long files, whose differences lie close together."""
    head = next(
        (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )
    tail = next(
        (
            n
            for n, (a, b) in enumerate(zip(old[head:][::-1], new[head:][::-1], strict=False))
            if a != b
        ),
        0,
    )
    middle = difflib.SequenceMatcher(
        None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False
    ).get_opcodes()
    return [(tag, i + head, j + head, k + head, m + head) for tag, i, j, k, m in middle]


def grew(line: str, now_there: list[str]) -> bool:
    """An inline table takes ours in where it ends, and cannot take it elsewhere: what it had, and
    what stands behind it, is still there.
    """
    head, brace, tail = line.rstrip("\r").rpartition("}")
    return bool(brace) and any(
        new.startswith(head.rstrip(" }")) and new.rstrip("\r").endswith(tail) for new in now_there
    )


def handlers() -> st.SearchStrategy[tuple[Handler, ...]]:
    second = Handler(
        "nvidia-legacy", "/usr/bin/nvidia-container-runtime.legacy", {"NoNewKeyring": True}
    )
    return st.sampled_from([(Handler(),), (Handler(),), (Handler(), second)])


def keeps_everything_else(
    release: str, tree: Any, style: configs.Style, options: dict[str, Any]
) -> None:
    """(a), (b), (d) with the pure planner."""
    with tempfile.TemporaryDirectory() as place:
        host = trees.Tree(Path(place), release)
        text = configs.written(tree, style)
        assert tomllib.loads(text.removeprefix("\ufeff")) == tree, "the test's own writer is wrong"
        host.write({"config.toml": text})
        try:
            was = trees.dump(release, host.config)
        except AssertionError:
            event("the engine does not read it")
            return
        try:
            plan = host.plan(**options)
        except PlanError as refused:
            event(f"refused: {refused.what[:40]}")
            assert host.files() == {str(host.config): text}
            return
        event("planned")
        host.apply(plan)
        names = tuple(h.name for h in options["handlers"])
        keys = ("default_runtime_name", "enable_cdi", "cdi_spec_dirs")
        now = trees.dump(release, host.config)
        containers = trees.cri_of(now)["containerd"]
        for handler in options["handlers"]:
            assert containers["runtimes"][handler.name]["options"]["BinaryName"] == handler.binary
            for key, value in handler.options.items():
                assert containers["runtimes"][handler.name]["options"][key] == value
        assert (containers["default_runtime_name"] == "nvidia") is options["default"]
        assert trees.rest_of(now, names, keys) == trees.rest_of(was, names, keys)
        again = host.plan(**options)
        assert again.empty, again.differences
        went = lines_that_went(text, host.config.read_bytes().decode())
        now_there = host.config.read_bytes().decode().split("\n")
        assert [
            line
            for line in went
            if not any(key in line for key in OURS) and not grew(line, now_there)
        ] == []


@pytest.mark.parametrize("release", trees.RELEASES)
def test_containerd_sees_ours_and_no_other_difference(release: str) -> None:
    trees.binary(release)

    @thorough(40)
    @given(
        tree=configs.containerd(release),
        style=configs.styles,
        default=st.booleans(),
        cdi=st.booleans(),
        names=handlers(),
    )
    def holds(
        tree: Any, style: configs.Style, default: bool, cdi: bool, names: tuple[Handler, ...]
    ) -> None:
        keeps_everything_else(
            release, tree, style, {"default": default, "enable_cdi": cdi, "handlers": names}
        )

    holds()


@pytest.mark.parametrize("release", trees.RELEASES)
def test_the_executor_predicts_it_and_give_back_the_same_bytes(release: str) -> None:
    """(b), (c) and (e) with the real observer and executor, and the engine's program as their
    validator.
    """
    trees.binary(release)

    @thorough(8)
    @given(tree=configs.containerd(release), style=configs.styles)
    def holds(tree: Any, style: configs.Style) -> None:
        with tempfile.TemporaryDirectory() as place:
            host = trees.Tree(Path(place), release)
            host.write({"config.toml": configs.written(tree, style)})
            try:
                trees.dump(release, host.config)
                tree_host = trees.TreeHost(host)
                plan = tree_host.plan("present")
            except (AssertionError, PlanError):
                return
            was = host.files_without_journal()
            predicted = tree_host.apply(plan, check=True)
            assert host.files_without_journal() == was
            done = tree_host.apply(plan)
            assert (predicted["changed"], predicted["written"], predicted["removed"]) == (
                done["changed"],
                done["written"],
                done["removed"],
            )
            assert tree_host.plan("present").empty
            tree_host.apply(tree_host.plan("absent"))
            assert host.files_without_journal() == was

    holds()


def test_crio_sees_ours_and_no_other_difference() -> None:
    crio_trees.binary()

    @thorough(30)
    @given(files=configs.crio(), style=configs.styles, default=st.booleans())
    def holds(files: dict[str, Any], style: configs.Style, default: bool) -> None:
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "etc").mkdir()
            host = crio_trees.Tree(Path(place) / "etc")
            for name, tree in files.items():
                path = host.home / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(configs.written(tree, style).encode())
            try:
                was = host.printed()
                plan = host.plan(host.policy(), default)
            except (AssertionError, PlanError) as refused:
                event(f"refused: {str(refused)[-40:]}")
                return
            event("planned")
            bytes_before = {
                path: path.read_bytes() for path in host.home.rglob("*") if path.is_file()
            }
            assert host.apply(plan, check=True)["changed"]
            assert {
                path: path.read_bytes() for path in host.home.rglob("*") if path.is_file()
            } == bytes_before
            done = host.apply(plan)
            assert (done["error"], done["changed"]) == (None, True)
            now = host.printed()
            assert (
                now["runtimes"].pop("nvidia")["runtime_path"] == "/usr/bin/nvidia-container-runtime"
            )
            assert (now.pop("default_runtime", "crun") == "nvidia") is default
            was.pop("default_runtime", None)
            # it prints what is not built in, and of a table that is changed everything
            if "runtimes" not in was:
                assert set(now.pop("runtimes")) == {"crun"}
            assert now == was
            assert host.plan(host.policy(), default).empty

    holds()
