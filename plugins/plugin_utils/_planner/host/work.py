# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what runs on a host, as far as a drain needs to know: who gives it work, and which work a
change would end.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    host_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import (
    journal as report_journal,
)

SLURM_UNIT = "slurmd.service"
# A program that asks for the driver's version opens the control node alone. Work opens a GPU's own
# node, or the one of unified memory. The path may begin with any directory: files of a process in a
# chroot have the names that the host sees.
GPU_NODES = r"(/.*)?/dev/nvidia(\d+|-uvm|-caps/.*)( \(deleted\))?$"
# A kubelet trusts the CA of its cluster, on workers and on control planes alike. These are the
# files of k3s and RKE2 (agent), of MicroK8s (a node that has joined another one keeps the CA of
# that one beside its own), of k0s, and of kubeadm and EKS.
CLUSTER = queries.ask_for_certificates(
    "cluster",
    (
        *("/var/lib/rancher/k3s/agent/server-ca.crt", "/var/lib/rancher/rke2/agent/server-ca.crt"),
        *(
            "/var/snap/microk8s/current/certs/ca.remote.crt",
            "/var/snap/microk8s/current/certs/ca.crt",
        ),
        *("/var/lib/k0s/pki/ca.crt", "/etc/kubernetes/pki/ca.crt"),
    ),
)
DIGEST = re.compile("[0-9a-f]{12,64}")
HOLDERS = queries.ask_for_holders("GPUs", GPU_NODES, queries.WATCHERS)


def list_work_questions(policy: Policy) -> list[queries.Question]:
    """Return the questions to a running host. Nothing runs in a directory tree, so it is asked
    nothing.
    """
    return [queries.ask_for_units([SLURM_UNIT]), HOLDERS, CLUSTER] if policy.root == "/" else []


@dc.dataclass(frozen=True)
class WorkFacts:
    """A host's facts about who gives it work.

    slurm: the state of Slurm's unit, '' if it is not known. holders: who has GPUs open, or the
    error. cluster: the name of its Kubernetes cluster, '' if none is known.
    """

    hostname: str
    boot_id: str
    slurm: Fact[str]
    holders: Fact[Mapping[str, Any]]
    cluster: Fact[str]
    earlier: earlier_runs.EarlierRuns


def read_work_facts(obs: Observation) -> WorkFacts:
    return WorkFacts(
        str(obs.host.get("hostname") or ""),
        str(obs.host.get("boot_id") or ""),
        Fact(lambda: obs.get_unit(SLURM_UNIT).get("ActiveState", "")),
        Fact(lambda: obs.get_answer_or_error(HOLDERS)),
        Fact(lambda: get_cluster_by_ca(obs)),
        earlier_runs.read_earlier_runs(obs),
    )


def list_gpu_processes(answer: Mapping[str, Any]) -> list[str]:
    """List the processes that use the GPUs.

    Processes that could not be looked at may be work. So the list names them as not known
    (`drain.UNKNOWN`).
    answer: who has GPUs open, or the error.
    """
    if "error" in answer:
        cause = answer["error"].get("message") or host_messages.WORK_LOOK_FAILED.fill()
        return [host_messages.WORK_NOT_SEEN.fill(cause=cause)]
    closed, left = answer.get("closed"), answer.get("partial")
    processes = [str(pid) for pid in answer.get("pids") or ()]
    processes += [host_messages.WORK_CLOSED.fill(processes=closed)] if closed else []
    if left:
        processes.append(host_messages.WORK_PARTIAL.fill(processes=left.get("processes")))
    return processes


def get_cluster_by_ca(obs: Observation) -> str:
    """Return the name of the Kubernetes cluster by its CA, '' if there is no CA that can be read.

    Hosts with '' count together.
    """
    digest = str(obs.get_answer_or_error(CLUSTER).get("sha256") or "")
    return f"ca-{digest[:12]}" if DIGEST.fullmatch(digest) else ""


def report_work(policy: Policy, facts: WorkFacts, plan: Plan, *, kubelet: bool) -> dict[str, Any]:
    """Return what a drain needs to know of a host. kubelet: one runs there."""
    here = policy.root == "/"
    slurm = here and facts.slurm.value in ("active", "activating", "reloading")
    return {
        "hostname": facts.hostname if here else "",
        "boot_id": facts.boot_id if here else "",
        "orchestrators": [
            name for name, runs in (("slurm", slurm), ("kubernetes", here and kubelet)) if runs
        ],
        "at_work": report_journal.name_running_transaction(facts.earlier),
        "cluster": facts.cluster.value if here and kubelet else "",
        "ends": list(plan.ends),
        "gpu_processes": list_gpu_processes(facts.holders.value) if here else [],
    }
