# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/decision-matrix.md: what the planner decides for each release of an engine.

Each host is a tree with this engine in its own default configuration, and a driver that works. The
planner finds the engine and decides, as it does in a run.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    HostDecision,
    Instance,
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    detect as docker_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.podman import (
    detect as podman_detect,
)
from page_table import ENGINE_TITLES, code, table

# By its name, since the checker of types would follow it into the host's programs.
BUILDERS: Any = importlib.import_module("tests.unit.builders")
DETECTORS: Mapping[str, Any] = {
    "containerd": containerd_detect,
    "crio": crio_detect,
    "docker": docker_detect,
    "podman": podman_detect,
}
# Releases that differ in what they can do, oldest first.
RELEASES: Mapping[str, Sequence[str]] = {
    "containerd": ("1.6.39", "1.7.0", "1.7.29", "2.0.7", "2.3.7"),
    "crio": ("1.27.8", "1.28.11", "1.34.1"),
    "docker": ("20.10.24", "26.1.5", "28.2.2"),
    "podman": ("4.3.1", "5.4.2"),
}
WORKING = Driver("ok", "580.95.05", (), "procfs")
NO_KUBELET = Kubelet()
KUBELETS = ("1.28", "1.34")
STRATEGIES = ("", "envvar", "volume-mounts", "cdi-annotations", "cdi-cri")


def find_engine(engine: str, release: str) -> Instance:
    """Return the engine of a tree, as the planner finds it."""
    policy = Policy(root="/tree", engine_version=release, engines=(engine,))
    detector = DETECTORS[engine]
    facts = detector.read_facts(policy, BUILDERS.obs(files={}))
    found: Instance = detector.find_instances(policy, facts)[0]
    return found


def decide_release(
    engine: str, release: str, kubelet: Kubelet = NO_KUBELET, **options: Any
) -> HostDecision:
    """Return the decision for a host with one engine. Raise PlanError if it is refused."""
    policy = Policy(engines=(engine,), **options)
    return decide.decide_host(policy, [find_engine(engine, release)], WORKING, kubelet)


def name_release(engine: str, release: str) -> str:
    return f"{ENGINE_TITLES[engine]} {release}"


def show_outcome(decision: HostDecision) -> list[str]:
    """Return injection, handler, default, isolation and packages, as cells."""
    one = decision.decisions[0]
    return [
        f"`{one.injection}`",
        code([one.handler]) if one.handler else "none",
        "yes" if one.default else "no",
        f"`{decision.isolation}`",
        code(decision.packages) or "none",
    ]


REFUSED = "refused:"
OUTCOME = ("injection", "handler", "default handler", "isolation", "packages")


def build_engine_decision_table() -> str:
    """Return the decision for each release, without a kubelet."""
    return table(
        ["engine", *OUTCOME],
        [
            [name_release(engine, release), *show_outcome(decide_release(engine, release))]
            for engine, releases in RELEASES.items()
            for release in releases
        ],
    )


def build_without_cdi_table() -> str:
    """Return the decision for each release with `gpufleet_cdi: disabled`."""
    return table(
        ["engine", *OUTCOME],
        [
            [name_release(engine, release), *show_or_refuse(engine, release, cdi="disabled")]
            for engine, releases in RELEASES.items()
            for release in (releases[0], releases[-1])
        ],
    )


def show_or_refuse(engine: str, release: str, **options: Any) -> list[str]:
    """Return the cells of an outcome, or the code of the refusal in the first one."""
    try:
        return show_outcome(decide_release(engine, release, **options))
    except PlanError as error:
        return [show_refusal(error), *[""] * (len(OUTCOME) - 1)]


def show_refusal(error: PlanError) -> str:
    return f"{REFUSED} `{get_code(error.message)}`"


def build_kubernetes_decision_table() -> str:
    """Return the decision for each engine of a Kubernetes node, each kubelet, and each strategy that
    the device plugin may have.

    Rows that differ in the release, the kubelet or the strategy alone are one row.
    """
    rows = []
    for engine in ("containerd", "crio"):
        blocks = [(release, list_kubernetes_rows(engine, release)) for release in RELEASES[engine]]
        for block, alike in groupby(blocks, lambda block: block[1]):
            name = name_release(engine, ", ".join(release for release, _block in alike))
            rows += [[name, *row] for row in block]
    return table(["engine", "strategy of the plugin", "strategy wanted", *OUTCOME], rows)


def list_kubernetes_rows(engine: str, release: str) -> list[tuple[str, ...]]:
    """Return the rows of one release, refusals last."""
    cases = [
        (show_kubernetes(engine, release, kubelet, strategy), kubelet, strategy)
        for strategy in STRATEGIES
        for kubelet in KUBELETS
    ]
    outcomes = dict.fromkeys(outcome for outcome, _kubelet, _strategy in cases)
    ordered = sorted(outcomes, key=lambda outcome: outcome[0].startswith(REFUSED))
    return [
        (name_strategies(case for case in cases if case[0] == outcome), *outcome)
        for outcome in ordered
    ]


def show_kubernetes(engine: str, release: str, kubelet: str, strategy: str) -> tuple[str, ...]:
    """Return the strategy that the plugin needs and the outcome, or a refusal."""
    options = {"device_plugin_strategy": (strategy,)} if strategy else {}
    node = Kubelet(True, f"v{kubelet}.1", "unix:///run/engine.sock")
    try:
        decision = decide_release(engine, release, node, **options)
    except PlanError as error:
        return (show_refusal(error), *[""] * len(OUTCOME))
    wanted = code(decision.decisions[0].device_list_strategy)
    return (wanted, *show_outcome(decision))


def name_strategies(cases: Iterable[tuple[Any, str, str]]) -> str:
    """Return the strategies of cases with one outcome, with the kubelet if only one has it."""
    by_strategy: dict[str, list[str]] = {}
    for _outcome, kubelet, strategy in cases:
        by_strategy.setdefault(strategy, []).append(kubelet)
    ordered = [name for name in STRATEGIES if name in by_strategy]
    return "; ".join(
        (f"`{name}`" if name else "not set")
        + (
            ""
            if len(by_strategy[name]) == len(KUBELETS)
            else f" with kubelet {by_strategy[name][0]}"
        )
        for name in ordered
    )
