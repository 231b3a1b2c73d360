# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The socket of a kubelet that names it in its configuration alone, and how many looks it takes."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet_facts,
    settings,
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


@pytest.mark.parametrize("config", [kubelet_facts.CONFIG, *kubelet_facts.OTHER_CONFIGS])
def test_a_configuration_in_a_usual_place_takes_no_look_of_its_own(config: str) -> None:
    facts = kubelet_facts.read_kubelet_facts(look(config, asked=False))
    assert settings.get_engine_socket(facts) == SOCKET


def test_one_elsewhere_takes_one_look_more() -> None:
    path = "/data/kubelet.yaml"
    with pytest.raises(NeedMore) as caught:
        settings.get_engine_socket(kubelet_facts.read_kubelet_facts(look(path, asked=False)))
    assert [question["path"] for question in caught.value.questions] == [path]
    facts = kubelet_facts.read_kubelet_facts(look(path, asked=True))
    assert settings.get_engine_socket(facts) == SOCKET


OTHER, FOLDER = "unix:///run/crio/crio.sock", "/etc/kubernetes/kubelet.d"
IN_DIR, IN_FILE = f"--config-dir={FOLDER}", "--config=/etc/kubernetes/kubelet.json"
NAMED = f'{{"kind": "KubeletConfiguration",\n "containerRuntimeEndpoint": "{OTHER}"}}\n'
DROP_IN = {f"{FOLDER}/10-engine.conf": f"containerRuntimeEndpoint: {OTHER}\n"}
FILE = {"/etc/kubernetes/kubelet.json": NAMED}
SILENT = {"/etc/kubernetes/kubelet.json": "kind: KubeletConfiguration\n"}
# case: the kubelet's release, its flags, the files, the socket
SOCKETS: dict[str, tuple[str, tuple[str, ...], dict[str, str], str]] = {
    "a flag counts before a file": ("1.34.1", (f"--container-runtime-endpoint={SOCKET}", IN_FILE), FILE, SOCKET),
    "a file in JSON, as EKS has it": ("1.34.1", (IN_FILE,), FILE, OTHER),
    "a drop-in": ("1.34.1", (IN_DIR,), DROP_IN, OTHER),
    "a drop-in counts before the file": (
        "1.34.1", (IN_DIR, IN_FILE), {**FILE, f"{FOLDER}/a.conf": f"containerRuntimeEndpoint: {SOCKET}\n"}, SOCKET),
    "a drop-in that names none": ("1.34.1", (IN_DIR, IN_FILE), {**FILE, f"{FOLDER}/a.conf": "cgroupDriver: systemd\n"}, OTHER),
    "without the flag the usual file is not read": ("1.34.1", (), {kubelet_facts.CONFIG: NAMED}, SOCKET),
    "built in, if its file names none": ("1.34.1", (IN_FILE,), SILENT, SOCKET),
    "built in since its file may name one": ("1.27.0", (), {}, SOCKET),
    "none built in before": ("1.26.15", (), {}, ""),
    "an unknown release counts as a current one": ("", (), {}, SOCKET),
}  # fmt: skip


def start(release: str, flags: tuple[str, ...], files: dict[str, str]) -> Observation:
    """A host whose kubelet was started with these flags. files: by their paths."""
    argv = ["/usr/bin/kubelet", *flags]
    return obs(
        files={**files, kubelet_facts.KUBEADM_FLAGS: ""},
        processes=[{"pid": 9, "exe": argv[0], "argv": argv, "unit": "kubelet.service"}],
        commands={"kubelet --version": f"Kubernetes v{release}" if release else ""},
    )


@pytest.mark.parametrize("case", SOCKETS)
def test_the_socket_is_that_with_which_the_kubelet_was_started(case: str) -> None:
    release, flags, files, socket = SOCKETS[case]
    facts = kubelet_facts.read_kubelet_facts(start(release, flags, files))
    assert settings.get_engine_socket(facts) == socket


# case: the flags, the code
UNREAD: dict[str, tuple[tuple[str, ...], str]] = {
    "an address of another form": (
        ("--container-runtime-endpoint=(hidden)", IN_FILE),
        "flag-unread",
    ),
    "a path of another form": (("--config=(hidden)",), "flag-unread"),
    "a path from where the kubelet began": (("--config=kubelet.yaml",), "flag-unread"),
    "a folder of another form": (("--config-dir=(hidden)", IN_FILE), "flag-unread"),
    "a file that is not there now": (("--config=/etc/gone.yaml",), "config-unreadable"),
}


@pytest.mark.parametrize("case", UNREAD)
def test_a_place_that_cannot_be_read_is_never_one_that_names_no_socket(case: str) -> None:
    flags, code = UNREAD[case]
    facts = kubelet_facts.read_kubelet_facts(start("1.34.1", flags, FILE))
    with pytest.raises(PlanError) as caught:
        settings.get_engine_socket(facts)
    assert caught.value.code == f"kubernetes.kubelet-{code}"
