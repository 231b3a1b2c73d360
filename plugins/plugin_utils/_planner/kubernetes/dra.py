# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether a host has what NVIDIA's DRA driver needs.

With that driver, pods get GPUs by claims instead of by the device plugin. The driver writes a CDI spec
for each claim into /var/run/cdi (CDI_ROOT in the template kubeletplugin.yaml of k8s-dra-driver-gpu,
vendor k8s.gpu.nvidia.com in its cdi.go), and the kubelet passes the devices to the engine in the field
CDIDevices of the CRI. Neither the NVIDIA runtime nor a handler has a part in it, so an engine that
cannot resolve CDI devices cannot serve claims.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import host_paths, queries, traits, versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.kubernetes import cgroup_driver
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import (
    Decision,
    Driver,
    HostDecision,
    Instance,
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.whole import read_whole

OPTION = "gpufleet_dra"
# A plugin of the kubelet has its socket here. The socket's name contains the plugin's name, and with rolling
# updates the pod's number as well.
REGISTERED = queries.paths("plugins of the kubelet", ["/var/lib/kubelet/plugins_registry/*.nvidia.com-*reg.sock"])
SPECS = "/run/cdi"
GATE = "DynamicResourceAllocation"
# pkg/features/kube_features.go: beta and off in 1.32, on from 1.34, and always on from 1.35.
GATE_SINCE, GATE_ON, GATE_LOCKED = (1, 32), (1, 34), (1, 35)
DRIVER = 565  # the first branch whose GPUs it allocates (its README)


@dc.dataclass(frozen=True)
class Need:
    """One thing that the driver needs. met: None if it is not known."""

    what: str
    met: bool | None
    why: str
    next: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.why}. {self.next}" if self.next else f"{self.what}: {self.why}"


@dc.dataclass(frozen=True)
class Dra:
    """The state of DRA claims on this host.

    why: what shows that they are wanted; '' if they are not wanted.
    """

    why: str = ""
    needs: tuple[Need, ...] = ()

    @property
    def unmet(self) -> tuple[Need, ...]:
        return tuple(need for need in self.needs if need.met is False)

    @property
    def ready(self) -> bool | None:
        """The answer to whether claims are served here.

        None if they are not wanted, or if nothing is missing but something is not known.
        """
        return False if self.unmet else True if self.needs and all(need.met for need in self.needs) else None


def questions(policy: Policy) -> list[queries.Question]:
    return [REGISTERED] if policy.root == "/" else []


def of(
    policy: Policy, obs: Observation, record: HostDecision, instances: Iterable[Instance], driver: Driver, kubelet: Kubelet, *, after: bool
) -> Dra:
    """Judge what NVIDIA's DRA driver needs.

    after: judge the host as the plan would leave it, else as it is.
    """
    why = wanted(policy, obs)
    if not why or record.skipped:
        return Dra()
    return Dra(why, (of_kubelet(obs, kubelet), *of_engine(policy, record, tuple(instances), after=after), of_driver(driver)))


def wanted(policy: Policy, obs: Observation) -> str:
    if policy.dra:
        return f"{OPTION} is true"
    found = obs.raw(REGISTERED).get("files") or () if policy.root == "/" else ()
    names = sorted({posixpath.basename(str(entry["path"])).split("-reg.sock")[0] for entry in found})
    return f"the kubelet has the plugin {names[0]}" if names else ""


def of_kubelet(obs: Observation, kubelet: Kubelet) -> Need:
    what = "a kubelet with dynamic resource allocation"
    update = "Update Kubernetes to 1.34.2 or later"
    if not kubelet.expected:
        return Need(what, False, "no kubelet is here", f"Leave {OPTION} out for this host")
    release = versions.parse(kubelet.version)
    if release is None:
        return Need(what, None, "the kubelet's release is not known", update)
    if release.series < GATE_SINCE:
        return Need(what, False, f"kubelet {kubelet.version} has no API that NVIDIA's driver uses", update)
    if release.series >= GATE_LOCKED:
        return Need(what, True, f"kubelet {kubelet.version} always has it")
    argv = [str(word) for word in (cgroup_driver.process(obs) or {}).get("argv") or ()]
    try:
        said = cgroup_driver.gate(obs, argv, GATE)
    except PlanError as error:  # an unreadable file may contain any setting
        return Need(what, None, str(error), "")
    on = release.series >= GATE_ON if said is None else said
    default = "" if said is not None else " by default"
    why = f"the feature gate {GATE} of kubelet {kubelet.version} is {'on' if on else 'off'}{default}"
    step = f"Set featureGates.{GATE}: true in the kubelet's configuration" + ("" if release.series >= GATE_ON else f", or u{update[1:]}")
    return Need(what, on, why, "" if on else step)


def of_engine(policy: Policy, record: HostDecision, instances: tuple[Instance, ...], *, after: bool) -> tuple[Need, ...]:
    serving = [i for i in instances if traits.of(i.engine).kubernetes and i.cri]
    found = [i for i in serving if i.used_by_kubelet] or serving
    what = "an engine that resolves CDI devices"
    if len(found) != 1:
        why = "several engines could run the pods" if found else "no engine is here that a kubelet can use"
        return (Need(what, None if found else False, why, "See instances in the result of gpufleet.nvidia.node_info"),)
    instance = found[0]
    decision = next((d for d in record.decisions if d.instance == instance.key), None) if after else None
    return (
        of_cdi(instance, decision, what),
        of_field(instance),
        of_directories(policy, instance, after=after),
        of_default(record, instance, decision),
    )


def title(instance: Instance) -> str:
    return f"{traits.of(instance.engine).title} {instance.version}".strip()


def of_cdi(instance: Instance, decision: Decision | None, what: str) -> Need:
    if not instance.cdi.able:
        return Need(what, False, f"{title(instance)} cannot", f"Update it: {traits.field_releases()} do, for pods")
    if instance.cdi.enabled:
        return Need(what, True, f"{title(instance)} does ({instance.cdi.evidence.text})")
    if decision and decision.enable_cdi:
        return Need(what, True, f"this plan switches it on in {title(instance)}")
    step = "Run gpufleet.nvidia.site with gpufleet_injection: native-cdi, or switch CDI on in its configuration"
    return Need(what, False, f"it is switched off in {title(instance)} ({instance.cdi.evidence.text})", step)


def of_field(instance: Instance) -> Need:
    what = "an engine that takes CDI devices from the kubelet"
    if instance.cdi.able and instance.cdi.cri_field:
        return Need(what, True, f"{title(instance)} knows the CRI field CDIDevices")
    return Need(what, False, f"{title(instance)} does not know the CRI field CDIDevices", f"Update it: {traits.field_releases()} do")


def of_directories(policy: Policy, instance: Instance, *, after: bool) -> Need:
    what = f"CDI specs of the DRA driver in /var{SPECS}"
    dirs = (policy.cdi_spec_dirs if after else ()) or instance.cdi.dirs
    read = SPECS in (host_paths.clean(d).replace("/var/run/", "/run/", 1) for d in dirs)
    said = ", ".join(dirs) or "no directory"
    return Need(
        what,
        read,
        f"{title(instance)} reads {said}",
        "" if read else f"Add /var{SPECS} to gpufleet_cdi_spec_dirs and run gpufleet.nvidia.site",
    )


def of_default(record: HostDecision, instance: Instance, decision: Decision | None) -> Need:
    """Judge whether containers without a claim get no GPU.

    If the variable counts, an image gets all GPUs beside those of claims.
    """
    what = "containers without a claim get no GPU"
    default = decision.default if decision else instance.default_handler.startswith("nvidia")
    if not default or (decision and record.isolation == "strict"):
        why = "the NVIDIA runtime is not the default handler" if not default else "isolation is strict"
        return Need(what, True, why)
    step = "Set gpufleet_device_plugin_strategy: [cdi-cri] or gpufleet_isolation: strict, so that NVIDIA_VISIBLE_DEVICES alone gives no GPU"
    return Need(what, False, f"{instance.default_handler or 'nvidia'} is the default handler, and NVIDIA_VISIBLE_DEVICES counts", step)


def of_driver(driver: Driver) -> Need:
    what = f"NVIDIA's driver {DRIVER} or later"
    branch = read_whole(driver.version.partition(".")[0])
    if branch is None:
        return Need(what, None, "the driver's version is not known", "")
    late = branch >= DRIVER
    return Need(what, late, f"it is {driver.version}", "" if late else "Update the driver")


def advice(found: Dra) -> tuple[str, ...]:
    if not found.unmet:
        return ()
    listed = "; ".join(str(need) for need in found.unmet)
    return (f"Pods get no GPU by a claim here, and {found.why}. Missing is {listed}",)


def refusal(found: Dra) -> str:
    """Return the reason why the proof of a host that has to serve claims fails; '' if nothing is missing."""
    return "; ".join(f"{need} ({OPTION} is true)" for need in found.unmet)


def as_result(found: Dra) -> dict[str, object]:
    return {"wanted": bool(found.why), "why": found.why, "ready": found.ready, "needs": [dc.asdict(need) for need in found.needs]}
