# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The socket of a kubelet that names it in its configuration alone, and how many looks it takes."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet,
    kubelet_facts,
)

from tests.unit.builders import obs

SOCKET = "unix:///run/containerd/containerd.sock"


def look(config: str, *, asked: bool) -> Observation:
    """A host whose kubelet has this configuration. asked: it was asked for."""
    process = {
        "pid": 9,
        "exe": "/usr/bin/kubelet",
        "argv": ["/usr/bin/kubelet", *([f"--config={config}"] if config else [])],
        "unit": "kubelet.service",
    }
    path = config or kubelet_facts.CONFIG
    there = obs(
        files={path: f"containerRuntimeEndpoint: {SOCKET}\n", kubelet_facts.KUBEADM_FLAGS: ""},
        processes=[process],
        units={"kubelet.service": {"ActiveState": "active"}},
    )
    questions = [q for q in kubelet_facts.list_kubelet_questions(Policy()) if q["kind"] == "file"]
    if asked:
        questions.append(queries.ask_for_file(path, file_places.KUBELET_CONFIG))
    seen = ["processes:of this test", *(question["id"] for question in questions)]
    return Observation(there.host, {name: there.answers[name] for name in seen})


@pytest.mark.parametrize("config", ["", kubelet_facts.CONFIG, *kubelet_facts.OTHER_CONFIGS])
def test_a_configuration_in_a_usual_place_takes_no_look_of_its_own(config: str) -> None:
    facts = kubelet_facts.read_kubelet_facts(look(config, asked=False))
    assert kubelet.get_engine_socket(facts) == SOCKET


def test_one_elsewhere_takes_one_look_more() -> None:
    path = "/data/kubelet.yaml"
    with pytest.raises(NeedMore) as caught:
        kubelet.get_engine_socket(kubelet_facts.read_kubelet_facts(look(path, asked=False)))
    assert [question["path"] for question in caught.value.questions] == [path]
    facts = kubelet_facts.read_kubelet_facts(look(path, asked=True))
    assert kubelet.get_engine_socket(facts) == SOCKET
