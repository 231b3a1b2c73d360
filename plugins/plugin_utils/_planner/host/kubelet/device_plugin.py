# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the strategies by which NVIDIA's device plugin tells the engine the GPUs of a pod.

They are declared, seen on the host, or the plugin's default. The plugin is configured in the
cluster, which is not asked here. A host shows the CDI spec that the plugin writes with a strategy
of CDI only. It also shows the settings of the plugin's process, which count if the process is the
host's own and not a container's: any user of a cluster can run a container with a process of that
name. The plugin never removes its spec, so the spec counts only if the plugin has not begun again
since without writing it.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries, versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    HostDecision,
    Instance,
    Kubelet,
    Plan,
    Policy,
    Reason,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import processes, traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import messages

PROGRAM = "nvidia-device-plugin"
VARIABLE, FLAG = "DEVICE_LIST_STRATEGY", "--device-list-strategy"
# NVIDIA/k8s-device-plugin: README.md ("default 'envvar'"), internal/cdi/cdi.go (vendor
# k8s.device-plugin.nvidia.com, class gpu).
DEFAULT = ("envvar",)
KNOWN = ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri")
SPEC = "/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
# At each start, and after each SIGHUP of its sidecar and each start of the kubelet, the plugin
# writes its spec (with a strategy of CDI) and then makes new sockets; it removes them when it ends,
# and so does a kubelet that starts (NVIDIA/k8s-device-plugin:
# cmd/nvidia-device-plugin/plugin-manager.go and main.go, internal/plugin/server.go; kubernetes:
# pkg/kubelet/cm/devicemanager). The directory is a constant of the kubelet's interface, regardless
# of the kubelet's own directory.
SOCKETS = "/var/lib/kubelet/device-plugins/nvidia-*.sock"
# seconds from the spec to the last socket of one start, with room for a busy host
SAME_START = 120.0
BY_CDI = ("cdi-cri", "cdi-annotations")
OPTION = "device_plugin_strategy"
DECLARED = messages.STRATEGY_DECLARED.fill()


@dc.dataclass(frozen=True)
class Strategies:
    """The ways by which pods are given GPUs.

    Empty if the host has no kubelet, or if no pod asks this host for GPUs.
    """

    names: tuple[str, ...] = ()
    source: str = ""  # declared | seen | default; "" if there is none
    why: str = ""

    @property
    def by_variable(self) -> bool:
        return "envvar" in self.names

    @property
    def by_cdi(self) -> bool:
        return is_by_cdi(self.names)


def is_by_cdi(names: Iterable[str]) -> bool:
    return any(name in BY_CDI for name in names)


def list_questions(policy: Policy) -> list[queries.Question]:
    files = [
        queries.ask_for_file(SPEC, content=False),
        queries.ask_for_glob(SOCKETS, content=False),
    ]
    if policy.root != "/":
        return files
    return [*files, queries.ask_for_processes([PROGRAM], {FLAG: "pattern"}, {VARIABLE: "pattern"})]


@dc.dataclass(frozen=True)
class PluginFacts:
    """A host's facts about NVIDIA's device plugin.

    processes: all verified ones of the host. spec: what is known of its CDI spec, without content.
    last_start: the time at which it has begun to serve, None if it has no socket.
    """

    processes: Fact[tuple[Mapping[str, Any], ...]]
    spec: Fact[Mapping[str, Any]]
    last_start: Fact[float | None]


def read_plugin_facts(obs: Observation) -> PluginFacts:
    return PluginFacts(
        Fact(obs.processes),
        Fact(lambda: obs.get_answer(queries.ask_for_file(SPEC, content=False))),
        Fact(lambda: _read_last_plugin_start(obs)),
    )


def _read_last_plugin_start(obs: Observation) -> float | None:
    """Return the time at which the plugin has begun to serve, by its newest socket; None without a
    socket.
    """
    sockets = obs.get_answer(queries.ask_for_glob(SOCKETS, content=False)).get("files") or ()
    times = [
        float(f.get("mtime") or 0.0)
        for f in sockets
        if f.get("type") == "socket" and f.get("uid") == 0
    ]
    return max(times, default=None)


def find_plugin_strategies(policy: Policy, facts: PluginFacts, kubelet: Kubelet) -> Strategies:
    if policy.device_plugin_strategy:
        return Strategies(policy.device_plugin_strategy, "declared", DECLARED)
    if not kubelet.expected:
        return Strategies()
    default = (
        messages.STRATEGY_DEFAULT_RUNNING
        if kubelet.present
        else messages.STRATEGY_DEFAULT_INSTALLED
    ).fill()
    return (
        read_process_strategies(facts)
        or read_spec_strategies(facts, default)
        or Strategies(DEFAULT, "default", default)
    )


def read_process_strategies(facts: PluginFacts) -> Strategies | None:
    """Return the strategies of the plugin's process; None if there is none.

    Its flag ranks above its environment.
    """
    for process in facts.processes.value:
        if processes.get_program_name(process) != PROGRAM:
            continue
        said = processes.flag(process.get("argv") or (), FLAG) or str(
            (process.get("environment") or {}).get(VARIABLE) or ""
        )
        names = tuple(name for name in said.split(",") if name in KNOWN)
        if names:
            return Strategies(
                names,
                "seen",
                messages.STRATEGY_OF_PROCESS.fill(pid=process.get("pid"), program=PROGRAM),
            )
    return None


def read_spec_strategies(facts: PluginFacts, default: str) -> Strategies | None:
    """Return the strategies that the plugin's CDI spec shows; None if it shows nothing.

    With a strategy of CDI, the plugin writes this file when it starts. With any other strategy it
    does not. The file counts only if it is root's and other users cannot write it.
    default: the reason why the default counts without the file.
    """
    spec = facts.spec.value
    if not spec.get("exists") or spec.get("uid") != 0 or int(spec.get("mode") or 0) & 0o022:
        return None
    served = facts.last_start.value
    if served is None:
        return Strategies(BY_CDI, "seen", messages.STRATEGY_OF_SPEC_UNSERVED.fill(path=SPEC))
    if served > float(spec.get("mtime") or 0.0) + SAME_START:
        return Strategies(
            DEFAULT, "default", messages.STRATEGY_SPEC_OUTDATED.fill(default=default, path=SPEC)
        )
    return Strategies(BY_CDI, "seen", messages.STRATEGY_OF_SPEC.fill(path=SPEC))


def require_serving_plugin(facts: PluginFacts, record: HostDecision, before: str) -> None:
    """Raise PlanError if the run would take something away only because the plugin does not serve
    now.

    before: the source of the strategies in the last run.
    """
    if record.plugin_source == "default" and before == "seen" and facts.last_start.value is None:
        raise PlanError(messages.PLUGIN_SILENT.fill())


# ---------------------------------------------------------------- what a host answers


def can_answer_strategy(
    strategy: str, injection: str, instance: Instance, kubelet: Kubelet
) -> bool:
    """Tell whether a pod gets its GPUs on a host in this way, if necessary with a RuntimeClass.

    A value that is not known counts as yes.
    """
    if strategy not in BY_CDI:
        return True  # the NVIDIA runtime and its hook answer the variable and mounts
    by_engine = instance.cdi.able and (instance.cdi.enabled or injection == "native-cdi")
    if strategy == "cdi-cri":
        kubelets = versions.parse_engine_version(kubelet.version)
        # In 1.28 the gate DevicePluginCDIDevices exists and is off. A user who declares the
        # strategy may have switched it on.
        return (
            by_engine
            and instance.cdi.cri_field
            and (kubelets is None or kubelets.is_at_least(1, 28))
        )
    # A handler that a manager renders by itself passes no annotation on.
    return by_engine or (injection == "nvidia-runtime" and not instance.detects)


def require_answered(policy: Policy, instance: Instance, injection: str, kubelet: Kubelet) -> None:
    """Raise PlanError if this host understands none of the strategies that are declared for the
    cluster.

    Otherwise its pods would run without a GPU, and nothing would show the reason.
    """
    known = [name for name in KNOWN if can_answer_strategy(name, injection, instance, kubelet)]
    if not (kubelet.expected or instance.used_by_kubelet) or set(known) & set(
        policy.device_plugin_strategy
    ):
        return
    name = traits.name_engine_release(instance)
    declared, answers = ", ".join(policy.device_plugin_strategy), ", ".join(known)
    message = (
        messages.STRATEGY_UNANSWERED_BY_KUBELET.fill(
            declared=declared,
            injection=injection,
            engine=name,
            kubelet=kubelet.version,
            answered=answers,
        )
        if kubelet.version
        else messages.STRATEGY_UNANSWERED.fill(
            declared=declared, injection=injection, engine=name, answered=answers
        )
    )
    raise PlanError(message, where=instance.config_path)


# ---------------------------------------------------------------- what follows


def decide_isolation(found: Strategies, decisions: Iterable[Decision]) -> Reason | None:
    """Decide whether the variable has to count for unprivileged containers because the plugin asks
    by it.

    None if it does not matter.
    """
    if found.source in ("", "declared") or not any(d.runtime_class for d in decisions):
        return None
    if found.by_cdi:
        return Reason("isolation", "strict", messages.PLUGIN_USES_CDI.fill(), found.why)
    if not found.by_variable:
        return None
    return Reason("isolation", "compatible", messages.PLUGIN_MAY_USE_VARIABLE.fill(), found.why)


def advise_on_device_plugin(policy: Policy, record: HostDecision) -> Plan:
    """Advise the person in charge of the cluster how to configure the plugin for what is decided
    here.
    """
    pods = [d for d in record.decisions if d.runtime_class and not d.default]
    if record.skipped or not pods:
        return Plan()
    first = pods[0]
    if record.plugin_source == "declared" and not is_by_cdi(record.plugin_strategies):
        names = ", ".join(record.plugin_strategies)
        return Plan(
            advice=(
                messages.PODS_NEED_RUNTIME_CLASS.fill(
                    strategies=names, runtime_class=first.runtime_class
                ),
            )
        )
    if record.plugin_source != "default":
        return Plan()
    wanted = ",".join(first.device_list_strategy)
    if policy.isolation == "strict":
        return Plan(
            advice=(messages.STRICT_WITHOUT_STRATEGY.fill(strategy=wanted, variable=VARIABLE),)
        )
    if record.isolation == "strict" or "envvar" in first.device_list_strategy:
        return Plan()
    message = messages.COMPATIBLE_FOR_PLUGIN.fill(
        runtime_class=first.runtime_class, strategy=wanted, variable=VARIABLE
    )
    return Plan(advice=(message,))
