# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether a host has what NVIDIA's DRA driver needs.

With that driver, pods get GPUs by claims instead of by the device plugin. The driver writes a CDI
spec for each claim into /var/run/cdi (CDI_ROOT in the template kubeletplugin.yaml of
k8s-dra-driver-gpu, vendor k8s.gpu.nvidia.com in its cdi.go), and the kubelet passes the devices to
the engine in the field CDIDevices of the CRI. Neither the NVIDIA runtime nor a handler has a part
in it, so an engine that cannot resolve CDI devices cannot serve claims.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    queries,
    versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    Sentence,
    join_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Driver,
    HostDecision,
    Instance,
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.whole import read_whole
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet_facts,
    messages,
    settings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

# A plugin of the kubelet has its socket here, below the kubelet's own directory. The socket's name
# contains the plugin's name, and with rolling updates the pod's number as well.
REGISTERED = queries.ask_for_paths(
    "plugins of the kubelet",
    [
        f"{directory}/plugins_registry/*.nvidia.com-*reg.sock"
        for directory in ("/var/lib/kubelet", *known.list_kubelet_directories())
    ],
)
SPECS = "/run/cdi"
GATE = "DynamicResourceAllocation"
# pkg/features/kube_features.go: beta and off in 1.32, on from 1.34, and always on from 1.35.
GATE_SINCE, GATE_ON, GATE_LOCKED = (1, 32), (1, 34), (1, 35)
DRIVER = 565  # the first branch whose GPUs it allocates (its README)


@dc.dataclass(frozen=True)
class DraNeed:
    """One thing that the driver needs. met: None if it is not known."""

    what: str
    met: bool | None
    why: str
    next: str = ""

    @property
    def text(self) -> str:
        """The need, what is so of it, and the next step, as one text."""
        said = join_texts(": ", (self.what, self.why))
        return join_texts(". ", (said, self.next)) if self.next else said


def build_need(what: str, met: bool | None, why: Message) -> DraNeed:
    """Return a need with the reason of a table. The reason's next step becomes that of the need."""
    return DraNeed(what, met, why.drop_step(), why.next)


@dc.dataclass(frozen=True)
class Dra:
    """The state of DRA claims on this host.

    why: what shows that they are wanted; '' if they are not wanted.
    """

    why: str = ""
    needs: tuple[DraNeed, ...] = ()

    @property
    def unmet(self) -> tuple[DraNeed, ...]:
        return tuple(need for need in self.needs if need.met is False)

    @property
    def ready(self) -> bool | None:
        """The answer to whether claims are served here.

        None if they are not wanted, or if nothing is missing but something is not known.
        """
        return (
            False
            if self.unmet
            else True
            if self.needs and all(need.met for need in self.needs)
            else None
        )


def list_questions(policy: Policy) -> list[queries.Question]:
    return [REGISTERED] if policy.root == "/" else []


@dc.dataclass(frozen=True)
class DraFacts:
    """The evidence that pods get GPUs by claims: the plugins that are registered with the kubelet,
    and the kubelet itself.
    """

    registered: Fact[tuple[Mapping[str, Any], ...]]
    kubelet: kubelet_facts.KubeletFacts


def read_dra_facts(obs: Observation) -> DraFacts:
    return DraFacts(
        Fact(lambda: tuple(obs.get_answer(REGISTERED).get("files") or ())),
        kubelet_facts.read_kubelet_facts(obs),
    )


def judge_dra(
    policy: Policy,
    facts: DraFacts,
    record: HostDecision,
    instances: Iterable[Instance],
    driver: Driver,
    kubelet: Kubelet,
    *,
    after: bool,
) -> Dra:
    """Judge what NVIDIA's DRA driver needs.

    after: judge the host as the plan would leave it, else as it is.
    """
    why = get_wanted_dra(policy, facts)
    if not why or record.skipped:
        return Dra()
    return Dra(
        why,
        (
            judge_kubelet_for_dra(facts, kubelet),
            *judge_engine_for_dra(policy, record, tuple(instances), after=after),
            judge_driver_for_dra(driver),
        ),
    )


def get_wanted_dra(policy: Policy, facts: DraFacts) -> str:
    if policy.dra:
        return messages.CLAIMS_DECLARED.fill()
    registered = facts.registered.value if policy.root == "/" else ()
    names = sorted(
        {posixpath.basename(str(entry["path"])).split("-reg.sock")[0] for entry in registered}
    )
    return messages.CLAIMS_BY_PLUGIN.fill(name=names[0]) if names else ""


def judge_kubelet_for_dra(facts: DraFacts, kubelet: Kubelet) -> DraNeed:
    what = "a kubelet with dynamic resource allocation"
    if not kubelet.expected:
        return build_need(what, False, messages.CLAIMS_NO_KUBELET.fill())
    release = versions.parse_engine_version(kubelet.version)
    if release is None:
        return build_need(what, None, messages.CLAIMS_KUBELET_UNKNOWN.fill())
    if release.series < GATE_SINCE:
        return build_need(
            what, False, messages.CLAIMS_KUBELET_TOO_OLD.fill(version=kubelet.version)
        )
    if release.series >= GATE_LOCKED:
        return build_need(what, True, messages.CLAIMS_KUBELET_ALWAYS.fill(version=kubelet.version))
    argv = facts.kubelet.argv
    group = settings.ALL_BETA if release.series < GATE_ON else ""
    try:
        said = settings.get_feature_gate(facts.kubelet, argv, GATE, group)
    except PlanError as error:  # an unreadable file may contain any setting
        return build_need(what, None, messages.CLAIMS_KUBELET_UNREADABLE.fill(error=str(error)))
    late = release.series >= GATE_ON
    on = late if said is None else said
    return build_need(what, on, judge_gate(said, late).fill(gate=GATE, version=kubelet.version))


def judge_gate(said: bool | None, late: bool) -> Sentence:
    """Return the sentence about the feature gate. said: its setting. late: whether it is on if
    nothing sets it.
    """
    if said is None:
        return messages.CLAIMS_GATE_ON_BY_DEFAULT if late else messages.CLAIMS_GATE_OFF_BY_DEFAULT
    if said:
        return messages.CLAIMS_GATE_ON
    return messages.CLAIMS_GATE_SET_OFF if late else messages.CLAIMS_GATE_SET_OFF_BETA


def judge_engine_for_dra(
    policy: Policy, record: HostDecision, instances: tuple[Instance, ...], *, after: bool
) -> tuple[DraNeed, ...]:
    serving = [i for i in instances if traits.get_traits(i.engine).kubernetes and i.cri]
    candidates = [i for i in serving if i.used_by_kubelet] or serving
    what = "an engine that resolves CDI devices"
    if len(candidates) != 1:
        why = messages.CLAIMS_SEVERAL_ENGINES if candidates else messages.CLAIMS_NO_ENGINE
        return (build_need(what, None if candidates else False, why.fill()),)
    instance = candidates[0]
    decision = (
        next((d for d in record.decisions if d.instance == instance.key), None) if after else None
    )
    return (
        judge_cdi_for_dra(instance, decision, what),
        judge_cri_field(instance),
        judge_directories_for_dra(policy, instance, after=after),
        judge_default_for_dra(record, instance, decision),
    )


def judge_cdi_for_dra(instance: Instance, decision: Decision | None, what: str) -> DraNeed:
    if not instance.cdi.able:
        return build_need(
            what,
            False,
            messages.CLAIMS_ENGINE_WITHOUT_CDI.fill(
                engine=traits.name_engine_release(instance), releases=traits.name_field_releases()
            ),
        )
    evidence = instance.cdi.evidence.text
    if instance.cdi.enabled:
        return build_need(
            what,
            True,
            messages.CLAIMS_CDI_ON.fill(
                engine=traits.name_engine_release(instance), evidence=evidence
            ),
        )
    if decision and decision.enable_cdi:
        return build_need(
            what,
            True,
            messages.CLAIMS_CDI_PLANNED.fill(engine=traits.name_engine_release(instance)),
        )
    return build_need(
        what,
        False,
        messages.CLAIMS_CDI_OFF.fill(
            engine=traits.name_engine_release(instance), evidence=evidence
        ),
    )


def judge_cri_field(instance: Instance) -> DraNeed:
    what = "an engine that takes CDI devices from the kubelet"
    if instance.cdi.able and instance.cdi.cri_field:
        return build_need(
            what,
            True,
            messages.CLAIMS_FIELD_KNOWN.fill(engine=traits.name_engine_release(instance)),
        )
    message = messages.CLAIMS_FIELD_UNKNOWN.fill(
        engine=traits.name_engine_release(instance), releases=traits.name_field_releases()
    )
    return build_need(what, False, message)


def judge_directories_for_dra(policy: Policy, instance: Instance, *, after: bool) -> DraNeed:
    what = f"CDI specs of the DRA driver in /var{SPECS}"
    dirs = (policy.cdi_spec_dirs if after else ()) or instance.cdi.dirs
    read = SPECS in (host_paths.clean_host_path(d).replace("/var/run/", "/run/", 1) for d in dirs)
    said, name = ", ".join(dirs), traits.name_engine_release(instance)
    if read:
        return build_need(
            what, read, messages.CLAIMS_SPECS_READ.fill(engine=name, directories=said)
        )
    if not said:
        return build_need(
            what, read, messages.CLAIMS_SPECS_NONE.fill(engine=name, wanted=f"/var{SPECS}")
        )
    return build_need(
        what,
        read,
        messages.CLAIMS_SPECS_UNREAD.fill(engine=name, directories=said, wanted=f"/var{SPECS}"),
    )


def judge_default_for_dra(
    record: HostDecision, instance: Instance, decision: Decision | None
) -> DraNeed:
    """Judge whether containers without a claim get no GPU.

    If the variable counts, an image gets all GPUs beside those of claims.
    """
    what = "containers without a claim get no GPU"
    default = decision.default if decision else instance.default_handler.startswith("nvidia")
    if not default or (decision and record.isolation == "strict"):
        why = messages.CLAIMS_RUNC_IS_DEFAULT if not default else messages.CLAIMS_ISOLATED
        return build_need(what, True, why.fill())
    return build_need(
        what, False, messages.CLAIMS_BYPASSED.fill(handler=instance.default_handler or "nvidia")
    )


def judge_driver_for_dra(driver: Driver) -> DraNeed:
    what = f"NVIDIA's driver {DRIVER} or later"
    branch = read_whole(driver.version.partition(".")[0])
    if branch is None:
        return build_need(what, None, messages.CLAIMS_DRIVER_UNKNOWN.fill())
    late = branch >= DRIVER
    row = messages.CLAIMS_DRIVER_READY if late else messages.CLAIMS_DRIVER_TOO_OLD
    return build_need(what, late, row.fill(version=driver.version))


def advise_on_dra(found: Dra) -> tuple[str, ...]:
    if not found.unmet:
        return ()
    listed = join_texts("; ", (need.text for need in found.unmet))
    return (messages.CLAIMS_UNSERVED.fill(wanted=found.why, missing=listed),)


def explain_dra_refusal(found: Dra) -> str:
    """Return the reason why the verification of a host that has to serve claims fails; '' if
    nothing is missing.
    """
    if not found.unmet:
        return ""
    return messages.CLAIMS_REQUIRED.fill(
        missing=join_texts("; ", (need.text for need in found.unmet))
    )


def report_dra(found: Dra) -> dict[str, object]:
    return {
        "wanted": bool(found.why),
        "why": found.why,
        "ready": found.ready,
        "needs": [dc.asdict(need) for need in found.needs],
    }
