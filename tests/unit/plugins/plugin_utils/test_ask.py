# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Equal ids are equal queries: an answer that lacks what somebody asked for must not stand in for it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import ask, host, listed_files
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.engines import containerd, containerd_owners
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import NeedMore, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import Observation

PATHS = ["", *(o.config for o in containerd_owners.OWNERS if o.config), "/etc/containerd/config.toml"]
OPTIONS: dict[str, list[Any]] = {"state": ["present", "absent"], "root": ["/", "/srv/tree"], "config_path": PATHS}


@pytest.mark.parametrize("values", list(itertools.product(*OPTIONS.values())), ids=str)
def test_no_two_different_queries_of_a_look_share_an_id(values: tuple[Any, ...]) -> None:
    policy = Policy(**dict(zip(OPTIONS, values, strict=True)))
    for queries in (host.questions(policy), containerd.questions(policy)):
        by_id: dict[str, dict[str, Any]] = {}
        for query in queries:
            assert by_id.setdefault(query["id"], what(query)) == what(query)


def test_two_lists_for_one_file_are_asked_together() -> None:
    one, other = ({"format": "toml", "places": [[[name], "int"]]} for name in "ab")
    (both,) = ask.together([ask.file("/x", one), ask.file("/x", other)])
    assert both["keep"] == {"format": "toml", "places": [[["a"], "int"], [["b"], "int"]], "comments": []}


def test_content_is_not_asked_for_without_a_list() -> None:
    with pytest.raises(ValueError, match="without a list"):
        ask.file("/x")


def what(query: dict[str, Any]) -> dict[str, Any]:
    """What decides whether an answer to one serves the other; limits and what is hidden are the same room's for the same file."""
    return {key: value for key, value in query.items() if key not in ("max", "keep")}


def test_the_content_of_a_file_of_which_only_its_presence_is_known_is_asked_for() -> None:
    seen = Observation({}, {"stat:/x": {"exists": True, "type": "file"}})
    assert seen.exists("/x")
    with pytest.raises(NeedMore) as need:
        seen.file("/x", listed_files.WHOLE)
    assert need.value.questions == [ask.file("/x", listed_files.WHOLE)]
