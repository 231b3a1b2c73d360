# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files a containerd reads, in which order, and how many."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config as containerd_config,
)

from tests.unit import builders
from tests.unit.containerd_plans import ROOT, plan


def test_a_file_that_imports_itself_is_read_once_as_containerd_does() -> None:
    """`config dump` of 1.x names the file itself among its imports, and nvidia-ctk 1.17 writes that
    into the file.
    """
    itself = plan("1.7.24", {ROOT: f'version = 2\nimports = ["{ROOT}"]\n'})
    assert itself.differences
    assert [d.key for d in itself.differences] == [
        d.key for d in plan("1.7.24", {ROOT: "version = 2\n"}).differences
    ]


@pytest.mark.parametrize(
    ("files", "order"),
    [
        ({ROOT: ["/a"], "/a": [ROOT]}, [ROOT, "/a"]),
        ({ROOT: ["/a"], "/a": ["/b"], "/b": ["/c"], "/c": ["/a"]}, [ROOT, "/a", "/b", "/c"]),
        (
            {ROOT: ["/a", "/b"], "/a": ["/b", "/c"], "/b": ["/a"], "/c": [ROOT]},
            [ROOT, "/a", "/b", "/c"],
        ),
        (
            {ROOT: ["/b", "/a"], "/a": ["/c"], "/b": ["/d"], "/c": [], "/d": ["/c"]},
            [ROOT, "/b", "/a", "/d", "/c"],
        ),
    ],
)
@pytest.mark.parametrize("version", ["1.7.24", "2.3.7"])
def test_files_that_import_each_other_are_read_once_breadth_first(
    version: str, files: dict[str, list[str]], order: list[str]
) -> None:
    """LoadConfig of containerd 1.6 to 2.4: what is loaded already is passed over."""
    texts = {path: f"version = 2\nimports = {json.dumps(paths)}\n" for path, paths in files.items()}
    found = containerd_config.load_containerd_files(
        containerd_config.read_config_facts(builders.obs(files=texts)),
        ROOT,
        versions.parse_engine_version(version) or versions.Version(0, 0),
    )
    assert [file.path for file in found.files] == order


def chain_imports(length: int) -> dict[str, str]:
    """Return a configuration that imports a file, which imports a file: so many files in all."""
    names = [ROOT, *(f"/etc/containerd/{n}.toml" for n in range(1, length))]
    return {
        path: f'version = 2\nimports = ["{following}"]\n'
        for path, following in zip(names, names[1:], strict=False)
    } | {names[-1]: "version = 2\n"}


def test_a_chain_of_imports_is_followed() -> None:
    found = containerd_config.load_containerd_files(
        containerd_config.read_config_facts(builders.obs(files=chain_imports(33))),
        ROOT,
        versions.Version(1, 7),
    )
    assert len(found.files) == 33


@pytest.mark.parametrize(
    ("version", "read"),
    [
        (versions.Version(1, 6, 28), False),
        (versions.Version(1, 6, 29), True),
        (versions.Version(1, 7, 15), False),
        (versions.Version(1, 7, 16), True),
        (versions.Version(2, 0, 0), True),
    ],
)
def test_a_relative_glob_is_followed_from_the_release_on_that_can(
    version: versions.Version, read: bool
) -> None:
    more = "/etc/containerd/more/a.toml"
    files = {ROOT: 'version = 2\nimports = ["more/*.toml"]\n', more: "version = 2\n"}
    found = containerd_config.load_containerd_files(
        containerd_config.read_config_facts(builders.obs(files=files)),
        ROOT,
        version,
    )
    assert [file.path for file in found.files] == [ROOT, more][: 1 + read]


def test_a_chain_of_imports_has_a_bound_with_a_sentence_that_names_the_file() -> None:
    with pytest.raises(
        PlanError, match=r"^/etc/containerd/32\.toml:2: .*\[containerd\.import-chain-too-long\]"
    ):
        containerd_config.load_containerd_files(
            containerd_config.read_config_facts(builders.obs(files=chain_imports(40))),
            ROOT,
            versions.Version(1, 7),
        )


def test_all_imports_of_a_file_are_asked_for_in_one_look() -> None:
    paths = [f"/etc/containerd/{n}.toml" for n in range(9)]
    answers = {
        f"file:{ROOT}": builders.file_answer(f"version = 2\nimports = {json.dumps(paths)}\n")
    }
    with pytest.raises(NeedMore) as caught:
        containerd_config.load_containerd_files(
            containerd_config.read_config_facts(Observation({}, answers)),
            ROOT,
            versions.Version(1, 7),
        )
    assert [q["path"] for q in caught.value.questions] == paths
