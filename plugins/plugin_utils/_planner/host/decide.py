# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide how GPUs get into containers: by the matrix for each instance, then arbitrated per host.

It is a pure function of what was seen and what is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    Sentence,
    join_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Driver,
    HostDecision,
    Injection,
    Instance,
    Kubelet,
    Policy,
    Reason,
    RuntimeMode,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decision_messages,
    refusals,
    traits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.consumers import (
    Consumer,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import platforms
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    device_plugin,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet.device_plugin import (
    Strategies,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.low_level import (
    describe_other_programs,
    list_low_level_runtimes,
)

# The NVIDIA runtime answers only this prefix, never `cdi.k8s.io/`, its built-in default: a
# CDI-capable engine answers that one itself, and two answers to one annotation are two injections
# (gpu-operator#1285, review thread).
RUNTIME_PREFIX = "nvidia.cdi.k8s.io/"
ENGINE_PREFIX = "cdi.k8s.io/"

MODES: Mapping[str, RuntimeMode] = {
    "native-cdi": "cdi",
    "nvidia-runtime": "cdi",
    # `auto` means a spec made in memory since toolkit 1.18 (jit-cdi in its internal/info/auto.go),
    # so "legacy" has to be written.
    "legacy": "legacy",
    # The hook binary serves only if the mode is legacy (assertModeIsLegacy in
    # cmd/nvidia-container-runtime-hook/hook_config.go).
    "oci-hook": "legacy",
    "jit-cdi": "jit-cdi",
}
INJECTIONS = tuple(MODES)
# From what the oldest engines can do to what only new ones can.
AGE = {"oci-hook": 0, "legacy": 1, "jit-cdi": 2, "nvidia-runtime": 3, "native-cdi": 4}
# The reason of an injection if the handler is the default one as well, by the code of the reason
# without that.
AS_DEFAULT: Mapping[str, Sentence] = {
    decision_messages.RUNTIME_RESOLVES.code: decision_messages.RUNTIME_RESOLVES_DEFAULT,
    decision_messages.MANAGER_HIDES_CDI.code: decision_messages.MANAGER_HIDES_CDI_DEFAULT,
}
NO_PLUGIN = Strategies()
# From the package nvidia-container-toolkit-operator-extensions (packaging/debian of the toolkit).
MODE_BINARY = {"cdi": "nvidia-container-runtime.cdi", "legacy": "nvidia-container-runtime.legacy"}
BASE_PACKAGES = ("nvidia-container-toolkit-base",)
LEGACY_PACKAGES = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)


def decide_host(
    policy: Policy,
    instances: Iterable[Instance],
    driver: Driver,
    kubelet: Kubelet,
    *,
    low_level: Mapping[str, str | None] | None = None,
    mode_binaries: Mapping[str, str | None] | None = None,
    cdi_owner: Literal["collection", "toolkit", "none"] = "collection",
    cdi_owner_reason: Reason | None = None,
    consumers: Iterable[Consumer] = (),
    plugin: Strategies = NO_PLUGIN,
) -> HostDecision:
    """Return the record of one host. An engine that is refused is recorded with its reason and
    stays as it is.

    Raise PlanError if a forced option cannot work.
    """
    every_instance = tuple(instances)
    refused = tuple((i.key, i.refusal.message) for i in every_instance if i.refusal)
    managed = [i for i in every_instance if not i.refusal and refusals.is_engine_chosen(policy, i)]
    skipped = explain_no_gpu(policy, driver)
    decisions = [] if skipped else [decide_one(policy, i, kubelet) for i in managed]
    mode, decisions, mode_reasons = arbitrate(decisions, mode_binaries or {})
    isolation, isolation_reason = decide_host_isolation(policy, decisions, plugin)
    cap, cap_reason = find_version_cap(every_instance, consumers)
    reasons = [
        *mode_reasons,
        isolation_reason,
        cap_reason,
        *([cdi_owner_reason] if cdi_owner_reason else []),
    ]
    users = [i for i in managed if is_handed_over(i, decisions)]
    bound = {d.instance for d in decisions if hands_workloads_over(d)}
    runtimes = list_low_level_runtimes(users, low_level or {}, bound)
    replaced = describe_other_programs(users, runtimes)
    reasons += [Reason("low_level_runtimes", runtimes[0], replaced)] if replaced else []
    return HostDecision(
        decisions=tuple(decisions),
        refused=refused,
        skipped=skipped,
        runtime_mode=mode,
        annotation_prefixes=tuple(
            dict.fromkeys([RUNTIME_PREFIX, *(p for d in decisions for p in d.annotation_prefixes)])
        ),
        isolation=isolation,
        low_level_runtimes=runtimes,
        packages=list_needed_packages(decisions),
        cdi_owner=cdi_owner if reads_specs(every_instance, decisions, policy) else "none",
        cdi_version_cap=cap,
        reasons=tuple(reasons),
        plugin_strategies=plugin.names,
        plugin_source=plugin.source,
    )


def is_handed_over(instance: Instance, decisions: list[Decision]) -> bool:
    """Tell whether containers of this instance go through the NVIDIA runtime, which then calls the
    low-level one.
    """
    return any(d.instance == instance.key and d.handler for d in decisions)


def hands_workloads_over(decision: Decision) -> bool:
    """Tell whether workloads of this instance go through the NVIDIA runtime, and not only management
    containers that name the handler by a RuntimeClass.
    """
    by_itself = decision.injection == "native-cdi" and not decision.default
    by_class = traits.get_traits(decision.engine).kubernetes
    return bool(decision.handler) and not (by_itself and by_class)


def explain_no_gpu(policy: Policy, driver: Driver) -> str:
    """Return why a host without a usable GPU is left alone; '' if the host is to be configured.

    Raise PlanError if the policy treats a missing GPU as a failure.
    """
    if driver.state != "none" or policy.single:
        return ""
    if policy.no_gpu == "fail":
        raise PlanError(decision_messages.NO_GPU_FAILS.fill(evidence=driver.evidence))
    # a GPU is there already, and the modes of this collection do not serve it
    if driver.platform in platforms.OWN_MODES:
        return driver.evidence
    return (
        ""
        if policy.no_gpu == "prepare"
        else decision_messages.SKIPPED_WITHOUT_GPU.fill(evidence=driver.evidence)
    )


def reads_specs(instances: Iterable[Instance], decisions: list[Decision], policy: Policy) -> bool:
    """Tell whether any program on the host reads CDI specs: a managed engine, the runtime, or an
    unmanaged engine (Docker, Podman).
    """
    if any(MODES[d.injection] == "cdi" for d in decisions):
        return True
    return not decisions and policy.cdi != "disabled" and any(i.cdi.enabled for i in instances)


def decide_by_spec_alone(policy: Policy, instance: Instance) -> Decision:
    """Return the decision for an engine without handlers, which only resolves CDI devices.

    Raise PlanError if the options forbid CDI or force another way, since CDI is all that this
    collection supports for such an engine.
    """
    engine = traits.get_traits(instance.engine)
    if policy.injection not in ("auto", "native-cdi") or policy.cdi == "disabled":
        asked = (
            f"gpufleet_injection: {policy.injection}"
            if policy.injection != "auto"
            else "gpufleet_cdi: disabled"
        )
        raise PlanError(
            decision_messages.CDI_ONLY.fill(
                option=asked, engine=traits.name_engine_release(instance)
            )
        )
    evidence = f"{instance.cdi.evidence.source}: {instance.cdi.evidence.text}"
    why = decision_messages.SPEC_ALONE.fill(
        engine=traits.name_engine_release(instance), way=engine.asks_device
    )
    return Decision(
        instance=instance.key,
        engine=instance.engine,
        engine_version=instance.version,
        injection="native-cdi",
        handler="",
        default=False,
        runtime_mode="cdi",
        annotation_prefixes=(),
        device_list_strategy=(),
        plugin_annotation_prefix="",
        runtime_class="",
        enable_cdi=False,
        max_cdi_version=instance.cdi.max_version,
        hook=False,
        reasons=(Reason("injection", "native-cdi", why, evidence),),
    )


def decide_one(policy: Policy, instance: Instance, kubelet: Kubelet) -> Decision:
    engine = traits.get_traits(instance.engine)
    if not engine.handlers:
        return decide_by_spec_alone(policy, instance)
    injection, why = choose_injection(policy, instance)
    evidence = f"{instance.cdi.evidence.source}: {instance.cdi.evidence.text}"
    handler = (
        ""
        if injection == "oci-hook"
        else (policy.handlers[0].name if policy.handlers else "nvidia")
    )
    default, default_why = choose_default(policy, instance, injection, handler, kubelet)
    if default and why.code in AS_DEFAULT:
        why = AS_DEFAULT[why.code].fill(**why.values)
    strategy, strategy_why = choose_device_list_strategy(policy, instance, injection, kubelet)
    answered = list_runtime_prefixes(policy) if injection == "nvidia-runtime" else (RUNTIME_PREFIX,)
    plugin_prefix = {"native-cdi": ENGINE_PREFIX, "nvidia-runtime": answered[-1]}.get(injection, "")
    enable = injection == "native-cdi" and not instance.cdi.enabled
    # a handler that a manager renders by itself passes no annotation on
    prefixes = () if instance.detects else answered
    reasons = (
        Reason("injection", injection, why, evidence),
        Reason("default", str(default).lower(), default_why),
        Reason("device_list_strategy", ",".join(strategy), strategy_why),
        Reason(
            "runtime_class",
            (handler if engine.kubernetes else "") or "none",
            explain_no_runtime_class(handler, engine),
        ),
    )
    return Decision(
        instance=instance.key,
        engine=instance.engine,
        engine_version=instance.version,
        injection=injection,
        handler=handler,
        default=default,
        runtime_mode=MODES[injection],
        annotation_prefixes=prefixes,
        device_list_strategy=strategy,
        plugin_annotation_prefix=plugin_prefix,
        runtime_class=handler if engine.kubernetes else "",
        enable_cdi=enable,
        max_cdi_version=instance.cdi.max_version,
        hook=injection == "oci-hook",
        reasons=reasons,
    )


def list_runtime_prefixes(policy: Policy) -> tuple[str, ...]:
    """Return the annotation prefixes that the NVIDIA runtime answers for an engine that cannot
    resolve CDI devices itself.

    The GPU Operator has its plugin write `cdi.k8s.io/` on all nodes (gpu-operator,
    transformDevicePluginCtrForCDI). The runtime may answer that prefix if no engine does.
    """
    return (
        (RUNTIME_PREFIX, ENGINE_PREFIX)
        if policy.device_plugin_prefix == ENGINE_PREFIX
        else (RUNTIME_PREFIX,)
    )


def explain_no_runtime_class(handler: str, engine: traits.Traits) -> Message:
    if not engine.kubernetes:
        return decision_messages.HANDLER_ASKED.fill(way=engine.asks_handler, handler=handler)
    return (decision_messages.CLASS_ASKED if handler else decision_messages.HOOK_ALWAYS).fill()


def choose_injection(policy: Policy, instance: Instance) -> tuple[Injection, Message]:
    """Return how GPUs get into containers, and why.

    Two questions decide: whether the engine supports CDI, and whether CDI is wanted.
    """
    if policy.injection != "auto":
        require_injection(policy, instance, policy.injection)
        return policy.injection, decision_messages.INJECTION_FORCED.fill()
    engine = traits.get_traits(instance.engine)
    name = traits.name_engine_release(instance)
    if policy.cdi == "disabled":
        if engine.hooks:
            return "oci-hook", decision_messages.ENGINE_HOOKS.fill(engine=engine.title)
        return "legacy", decision_messages.RUNTIME_HOOKS.fill()
    if instance.cdi.able:
        on = instance.cdi.enabled
        row = decision_messages.ENGINE_RESOLVES if on else decision_messages.ENGINE_RESOLVES_ONCE_ON
        return "native-cdi", row.fill(engine=name)
    if instance.detects:
        return "nvidia-runtime", decision_messages.MANAGER_HIDES_CDI.fill(engine=name)
    if not engine.kubernetes:
        return "nvidia-runtime", decision_messages.RUNTIME_ASKED.fill(
            engine=name, way=engine.asks_handler
        )
    return "nvidia-runtime", decision_messages.RUNTIME_RESOLVES.fill(engine=name)


def require_injection(policy: Policy, instance: Instance, injection: Injection) -> None:
    """Raise PlanError if an injection that a person asks for cannot work."""
    name = traits.name_engine_release(instance)
    if injection == "native-cdi" and not instance.cdi.able:
        evidence = f"{instance.cdi.evidence.source}: {instance.cdi.evidence.text}"
        values = {"engine": name, "evidence": evidence, "releases": traits.name_cdi_releases()}
        raise PlanError(
            decision_messages.NATIVE_CDI_UNSUPPORTED.fill(**values), where=instance.config_path
        )
    if injection in ("native-cdi", "nvidia-runtime") and policy.cdi == "disabled":
        raise PlanError(decision_messages.CDI_CONTRADICTED.fill(injection=injection))
    if injection == "oci-hook" and not traits.get_traits(instance.engine).hooks:
        unsupported = decision_messages.HOOKS_UNSUPPORTED.fill(
            engine=name, engines=traits.name_engines_with_hooks()
        )
        raise PlanError(unsupported, where=instance.config_path)


def choose_default(
    policy: Policy, instance: Instance, injection: Injection, handler: str, kubelet: Kubelet
) -> tuple[bool, Message]:
    if not handler:
        if policy.set_as_default == "enabled":
            raise PlanError(decision_messages.DEFAULT_CONTRADICTED.fill())
        return False, decision_messages.HOOK_HAS_NO_HANDLER.fill()
    if policy.set_as_default != "auto":
        return policy.set_as_default == "enabled", decision_messages.DEFAULT_FORCED.fill()
    if not traits.get_traits(instance.engine).kubernetes:
        if instance.used_by_kubelet and not asks_by_cdi(policy):
            return True, decision_messages.PODS_NAME_NONE.fill(
                engine=traits.get_traits(instance.engine).title
            )
        if instance.default_handler == handler:
            return True, decision_messages.DEFAULT_STAYS.fill()
        return False, decision_messages.USERS_NAME_IT.fill()
    if instance.detects:
        return instance.default_handler == handler, decision_messages.MANAGER_RENDERS_DEFAULT.fill()
    if injection != "native-cdi":
        return True, decision_messages.RUNTIME_STARTS_ALL.fill()
    if (
        (kubelet.expected or instance.used_by_kubelet)
        and instance.default_handler == handler
        and not asks_by_cdi(policy)
    ):
        runs = kubelet.present or instance.used_by_kubelet
        return True, (
            decision_messages.KUBELET_RUNS_HERE
            if runs
            else decision_messages.KUBELET_INSTALLED_HERE
        ).fill()
    return False, decision_messages.ENGINE_INJECTS.fill()


def asks_by_cdi(policy: Policy) -> bool:
    """Tell whether the cluster's device plugin asks by CDI devices, as the policy declares."""
    return any(strategy.startswith("cdi-") for strategy in policy.device_plugin_strategy)


def choose_device_list_strategy(
    policy: Policy, instance: Instance, injection: Injection, kubelet: Kubelet
) -> tuple[tuple[str, ...], Message]:
    """Return the strategies that a Kubernetes device plugin needs in its settings, and why. Return
    () for an engine that no kubelet uses.

    The kubelet's gate DevicePluginCDIDevices is on by default from 1.29 (KEP 4009;
    pkg/features/kube_features.go of Kubernetes).
    """
    engine = traits.get_traits(instance.engine)
    if not engine.kubernetes and not instance.used_by_kubelet:
        return (), decision_messages.NO_KUBELET_USES.fill(engine=engine.title)
    if policy.device_plugin_strategy:
        device_plugin.require_answered(policy, instance, injection, kubelet)
        return policy.device_plugin_strategy, decision_messages.DECLARED_STRATEGY.fill()
    if not engine.kubernetes:
        return ("envvar",), decision_messages.PODS_BY_CRI_DOCKERD.fill(engine=engine.title)
    if injection == "nvidia-runtime" and instance.detects:
        return ("envvar",), decision_messages.NO_ANNOTATIONS.fill()
    if injection == "nvidia-runtime":
        return ("envvar", "cdi-annotations"), decision_messages.VARIABLE_AND_PREFIX.fill()
    if injection != "native-cdi":
        return ("envvar",), decision_messages.VARIABLE_ONLY.fill()
    return choose_cdi_strategies(instance, kubelet)


def choose_cdi_strategies(instance: Instance, kubelet: Kubelet) -> tuple[tuple[str, ...], Message]:
    """Return the strategies for an engine that resolves CDI devices itself, and why."""
    if not instance.cdi.cri_field:
        row = decision_messages.ANNOTATIONS_ONLY
        return ("cdi-annotations",), row.fill(engine=instance.engine, version=instance.version)
    if not kubelet.version:
        return ("cdi-cri",), decision_messages.CRI_FIELD_READ.fill()
    if not _is_at_least(kubelet.version, 1, 29):
        return ("cdi-annotations",), decision_messages.KUBELET_TOO_OLD.fill(version=kubelet.version)
    return ("cdi-cri",), decision_messages.KUBELET_PASSES.fill(version=kubelet.version)


def _is_at_least(version: str, *numbers: int) -> bool:
    parsed = versions.parse_engine_version(version)
    return parsed is not None and parsed.is_at_least(*numbers)


def arbitrate(
    decisions: list[Decision], binaries: Mapping[str, str | None]
) -> tuple[RuntimeMode, list[Decision], list[Reason]]:
    """Choose one mode of the NVIDIA runtime for all instances of a host, since the mode is one
    setting per host.

    Instances that need another mode use the binary that carries that mode. Raise PlanError if this
    binary is missing.
    """
    modes = list(dict.fromkeys(d.runtime_mode for d in decisions if d.handler)) or [
        d.runtime_mode for d in decisions[:1]
    ]
    if not modes:
        return (
            "cdi",
            decisions,
            [Reason("runtime_mode", "cdi", decision_messages.NO_MODE_NEEDED.fill())],
        )
    if len(modes) == 1:
        return (
            modes[0],
            decisions,
            [Reason("runtime_mode", modes[0], decision_messages.ONE_MODE.fill())],
        )
    first, others = modes[0], modes[1:]
    for mode in others:
        binary = MODE_BINARY.get(mode, "")
        if not binary or not binaries.get(binary):
            needs = (
                decision_messages.NEEDS_MODE.fill(instance=d.instance, mode=d.runtime_mode)
                for d in decisions
            )
            raise PlanError(
                decision_messages.TWO_MODES.fill(
                    modes=join_texts(", ", needs), program=binary or mode
                )
            )
    why = decision_messages.MODE_PROGRAMS.fill(modes=", ".join(others))
    return first, decisions, [Reason("runtime_mode", first, why)]


def decide_host_isolation(
    policy: Policy, decisions: list[Decision], plugin: Strategies = NO_PLUGIN
) -> tuple[Literal["strict", "compatible"], Reason]:
    """Decide whether NVIDIA_VISIBLE_DEVICES works in unprivileged containers ('compatible') or not
    ('strict').

    With a default handler, an image that sets NVIDIA_VISIBLE_DEVICES=all gets every GPU unless the
    variable stops counting.
    """
    if policy.isolation == "strict":
        return "strict", Reason("isolation", "strict", decision_messages.ISOLATION_FORCED.fill())
    if policy.isolation == "compatible":
        return "compatible", Reason(
            "isolation", "compatible", decision_messages.ISOLATION_FORCED.fill()
        )
    by_mounts = [d for d in decisions if "volume-mounts" in d.device_list_strategy]
    by_env = [
        d
        for d in decisions
        if d not in by_mounts and (d.default or "envvar" in d.device_list_strategy)
    ]
    if by_env:
        return "compatible", Reason(
            "isolation", "compatible", decision_messages.VARIABLE_NEEDED.fill()
        )
    asking = next(
        (
            engine
            for engine in (traits.get_traits(d.engine) for d in decisions)
            if engine.asks_variable
        ),
        None,
    )
    if asking:
        why = decision_messages.USERS_ARE_ROOT.fill(way=asking.asks_variable, engine=asking.title)
        return "compatible", Reason("isolation", "compatible", why)
    if by_mounts:
        why = decision_messages.BY_MOUNTS.fill()
        return "strict", Reason("isolation", "strict", why, device_plugin.DECLARED)
    pods = device_plugin.decide_isolation(plugin, decisions)
    if pods:
        return "strict" if pods.value == "strict" else "compatible", pods
    return "strict", Reason("isolation", "strict", decision_messages.BY_CDI.fill())


def find_version_cap(
    instances: Iterable[Instance], others: Iterable[Consumer] = ()
) -> tuple[str, Reason]:
    """Return the newest CDI version that the oldest consumer of the host's spec reads, and why.

    Return 0.6.0 if no consumer is known.
    """
    able = [
        Consumer(i.engine, i.version, i.cdi.max_version)
        for i in instances
        if i.cdi.able and i.cdi.max_version
    ]
    known = [*able, *others]
    if not known:
        return "0.6.0", Reason(
            "cdi_version_cap", "0.6.0", decision_messages.CDI_LIBRARY_UNKNOWN.fill()
        )
    oldest = min(known, key=lambda c: tuple(int(n) for n in c.newest.split(".")))
    name = f"{oldest.name} {oldest.version}".strip()
    text = decision_messages.OLDEST_CONSUMER.fill(consumer=name)
    return oldest.newest, Reason("cdi_version_cap", oldest.newest, text)


def list_needed_packages(decisions: list[Decision]) -> tuple[str, ...]:
    """Return the packages that the decisions need.

    The base package is enough if no decision uses the prestart hook. An engine that only reads CDI
    specs needs no package.
    """
    if not any(d.handler or d.hook for d in decisions):
        return ()
    return LEGACY_PACKAGES if any(d.runtime_mode == "legacy" for d in decisions) else BASE_PACKAGES
