# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A configuration file that is named in another root directory: one that is not there, next to the
engine's own, is a typing error.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    detect as docker_detect,
)

from tests.unit.bare_trees import Tree
from tests.unit.builders import obs

TREE = "/srv/tree"
# engine -> its module, a version, its usual file with a text for it
ENGINES: dict[str, tuple[Any, str, str, str]] = {
    "containerd": (containerd_detect, "1.7.24", "/etc/containerd/config.toml", "version = 2\n"),
    "crio": (crio_detect, "1.34.2", "/etc/crio/crio.conf", "[crio.runtime]\n"),
    "docker": (docker_detect, "28.5.2", "/etc/docker/daemon.json", "{}"),
}
# what is in the tree besides -> whether the named file is refused
CASES: dict[str, tuple[bool, bool, bool]] = {
    "the engine's own file": (True, False, True),
    "both files": (True, True, False),
    "the named file": (False, True, False),
    "neither": (False, False, False),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES)
def test_a_name_that_leads_nowhere_is_refused_where_the_engine_has_its_file(
    engine: str, case: str
) -> None:
    module, version, usual, text = ENGINES[engine]
    own, named_there, refused = CASES[case]
    typed = usual.replace("/etc/", "/ect/")
    files = {**({usual: text} if own else {}), **({typed: text} if named_there else {})}
    policy = Policy(root=TREE, engine_version=version, engines=(engine,), config_path=typed)
    if not refused:
        (found,) = module.find_instances(policy, module.read_facts(policy, obs(files=files)))
        assert found.config_path == typed
        return
    with pytest.raises(PlanError) as error:
        module.find_instances(policy, module.read_facts(policy, obs(files=files)))
    assert error.value.code == "engine.config-path-missing"
    assert error.value.values == {"path": typed, "root": TREE, "usual": usual}


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_taken_back_needs_no_file(engine: str) -> None:
    module, version, usual, text = ENGINES[engine]
    policy = Policy(
        state="absent",
        root=TREE,
        engine_version=version,
        engines=(engine,),
        config_path="/etc/gone",
    )
    (found,) = module.find_instances(policy, module.read_facts(policy, obs(files={usual: text})))
    assert found.config_path == "/etc/gone"


@pytest.mark.parametrize("engine", ENGINES)
def test_in_a_tree_without_packages_the_version_is_what_is_missing(
    tmp_path: pathlib.Path, engine: str
) -> None:
    """Nothing is installed into a tree for this, and no socket is there to be named."""
    tree = Tree(tmp_path / "host")
    assert tree.single(engine)["error"]["code"] == "engines.not-found-in-root"
    assert tree.run_host()["error"]["code"] == "engines.none-found-in-root"
    assert not tree.single(engine, engine_version=ENGINES[engine][1])["failed"]
