# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Only verified processes steer a plan: what others say of themselves is neither asked for, read,
run nor restarted.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    capitalize_step,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Kubelet,
    Policy,
    build_refused_instance_error,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    processes,
    refusals,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    detect as docker_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet,
    kubelet_facts,
)

from tests.unit.builders import obs

ENGINES = {"containerd": containerd_detect, "crio": crio_detect, "dockerd": docker_detect}
SOCKETS = {
    "containerd": "/run/containerd/containerd.sock",
    "crio": "/var/run/crio/crio.sock",
    "dockerd": "/var/run/docker.sock",
}
UNITS = {"containerd": "containerd.service", "crio": "crio.service", "dockerd": "docker.service"}
STATUS = {
    "containerd": {"info": {"config": {"enableCDI": False, "cdiSpecDirs": []}}},
    "crio": {"info": {"config": {"crio": {"Runtimes": {}}}}},
}
# What a process would have root do if it were believed: read this, run that, restart the other.
EVIL = [
    "--config",
    "/etc/shadow",
    "--config-file",
    "/etc/shadow",
    "--address",
    "/home/m/s",
    "--listen",
    "/home/m/s",
]


def find(name: str, policy: Policy, seen: Observation) -> tuple[Instance, ...]:
    found: tuple[Instance, ...] = ENGINES[name].find_instances(
        policy, ENGINES[name].read_facts(policy, seen)
    )
    return found


def process(name: str, pid: int = 7, **more: Any) -> dict[str, Any]:
    return {
        "pid": pid,
        "exe": f"/opt/{name}",
        "argv": [name, *EVIL],
        "unit": "cron.service",
        "unverified": "service",
        **more,
    }


def seen(
    name: str,
    processes: list[dict[str, Any]],
    *,
    peer: int = 5,
    files: dict[str, Any] | None = None,
) -> Observation:
    """A host whose real engine, where there is one, is process 5."""
    socket = SOCKETS[name]
    said = {
        f"cri:Version:{socket}": {
            "runtime_version": "1.7.24" if name == "containerd" else "1.34.2",
            "peer": peer,
        }
    }
    said[f"cri:Status:{socket}"] = {**STATUS.get(name, {}), "peer": peer}
    said[f"http:{socket}/info"] = {
        "status": 200,
        "value": {"ServerVersion": "28.5.2", "CDISpecDirs": ["/etc/cdi"]},
        "peer": peer,
    }
    return obs(
        processes=processes,
        units={UNITS[name]: {"ActiveState": "active", "InvocationID": "i"}},
        answers=said,
        files=files or {},
    )


@pytest.mark.parametrize("name", ENGINES)
def test_what_cannot_be_verified_is_refused_with_the_rule_and_the_remedy_and_nothing_of_it_is_used(
    name: str,
) -> None:
    (found,) = find(name, Policy(), seen(name, [process(name)]))
    assert (found.manager, found.running, found.cri) == (processes.UNVERIFIED, True, False)
    assert (found.binary, found.unit, found.socket, found.config_path, found.pid) == (
        f"/opt/{name}",
        "",
        "",
        "",
        0,
    )
    assert found.refusal.message.code == "engines.process-unverified"
    assert found.refusal.message.values.items() >= {"rule": "service", "remedy": "Mend it"}.items()
    with pytest.raises(PlanError) as caught:
        refusals.require_engine(Policy(), (found,))
    assert caught.value.where == f"/opt/{name}"


@pytest.mark.parametrize("name", ENGINES)
def test_beside_a_verified_engine_an_unverified_one_steers_nothing(name: str) -> None:
    """A container with the host's PIDs may run whatever it likes, under the very arguments of the
    real one.
    """
    real = {"pid": 5, "exe": f"/usr/bin/{name}", "argv": [name], "unit": UNITS[name]}
    alone = find(name, Policy(), seen(name, [real]))
    (own, other) = find(name, Policy(), seen(name, [process(name, pid=3), real]))
    assert (own,) == alone
    assert own.pid == 5
    assert other.refusal
    assert other.key != own.key


@pytest.mark.parametrize("name", ENGINES)
def test_other_users_processes_are_a_number_and_nothing_else(name: str) -> None:
    real = {"pid": 5, "exe": f"/usr/bin/{name}", "argv": [name], "unit": UNITS[name]}
    alone = seen(name, [real])
    more = {**alone.answers["processes:of this test"], "others": {name: 80, "kubelet": 1}}
    answers = {**alone.answers, "processes:of this test": more}
    crowded = dc.replace(alone, answers=type(alone.answers)(alone.answers.files, answers))  # type: ignore[attr-defined, call-arg]
    assert find(name, Policy(), crowded) == find(name, Policy(), alone)
    assert kubelet.find_kubelet(Policy(), kubelet_facts.read_kubelet_facts(crowded)) == Kubelet()
    assert f"80 {name}" in processes.advise_on_other_processes(crowded.count_others())[0]
    assert processes.advise_on_other_processes(alone.count_others()) == ()


@pytest.mark.parametrize("name", ENGINES)
def test_a_socket_that_another_process_answers_says_nothing(name: str) -> None:
    real = {"pid": 5, "exe": f"/usr/bin/{name}", "argv": [name], "unit": UNITS[name]}
    config = {"/etc/containerd/config.toml": "version = 2\n"}

    def evidence(peer: int) -> str:
        try:
            return find(name, Policy(), seen(name, [real], peer=peer, files=config))[
                0
            ].cdi.evidence.source
        except NeedMore as need:  # the next best evidence: the program itself
            return need.questions[0]["kind"]

    assert {evidence(5), evidence(1)} in ({"cri-status"}, {"dump"})
    assert evidence(9) != evidence(5)


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_that_the_options_describe_needs_no_process(name: str) -> None:
    policy = Policy(
        engines=({"dockerd": "docker"}.get(name, name),),
        config_path="/etc/e/config",
        socket="/run/e.sock",
        service="e.service",
    )
    said = {
        k.replace(SOCKETS[name], "/run/e.sock"): v
        for k, v in seen(name, []).answers.items()
        if SOCKETS[name] in k
    }
    given = obs(
        processes=[process(name)],
        units={"e.service": {"ActiveState": "active", "InvocationID": "i"}},
        answers=said,
        files={f"/usr/bin/{name}": "", "/etc/e/config": "" if name != "dockerd" else "{}"},
    )
    (found,) = find(name, policy, given)
    assert (str(found.refusal), found.running, found.unit, found.config_path, found.socket) == (
        "",
        True,
        "e.service",
        "/etc/e/config",
        "/run/e.sock",
    )
    assert found.binary == f"/usr/bin/{name}", "by its path, which is judged; not the process's"


def test_a_kubelet_that_nothing_vouches_for_still_means_kubernetes_and_says_nothing_else() -> None:
    assert kubelet.find_kubelet(
        Policy(), kubelet_facts.read_kubelet_facts(obs(processes=[process("kubelet")]))
    ) == Kubelet(present=True)


@pytest.mark.parametrize("name", ["containerd", "crio", "dockerd", "kubelet"])
def test_no_process_is_known_by_the_name_that_it_was_started_with(name: str) -> None:
    called = {"pid": 7, "exe": "/usr/bin/sleep", "argv": [name, *EVIL], "unit": "cron.service"}
    given = obs(processes=[called])
    assert all(find(name, Policy(), given) == () for name in ENGINES)
    assert kubelet.find_kubelet(Policy(), kubelet_facts.read_kubelet_facts(given)) == Kubelet()


# the parts of a refusal -> what a person reads
REFUSALS = {
    "a cause and a step": (
        Refusal(
            "CRI is switched off here. Docker has its own",
            "remove cri from disabled_plugins. Then run again",
        ),
        "CRI is switched off here. Docker has its own. Remove cri from disabled_plugins. Then run again",
    ),
    "a step that ends with a full stop": (
        Refusal("k3s writes this", "Set it there."),
        "k3s writes this. Set it there",
    ),
    "a cause alone": (
        Refusal("Docker is a snap. It is left alone"),
        "Docker is a snap. It is left alone",
    ),
}


@pytest.mark.parametrize(("refusal", "sentence"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_as_an_error_has_its_step_by_itself(refusal: Refusal, sentence: str) -> None:
    error = build_refused_instance_error(
        dc.replace(
            processes.build_untrusted_instance("docker", "Docker", {"exe": "/usr/bin/dockerd"}),
            refusal=refusal,
        )
    )
    assert (error.what, error.next) == (refusal.what, capitalize_step(refusal.next))
    assert (str(refusal), str(error)) == (sentence, f"/usr/bin/dockerd: {sentence}")
