# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changes first, the engine or the device plugin: no pod loses its GPU between the two
changes.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    members,
    objects,
    order,
    ways,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cluster_hosts import fallback, hook, hosts, looked, native

ENVVAR, MOUNTS, CRI, ANNOTATIONS = "envvar", "volume-mounts", "cdi-cri", "cdi-annotations"
BY_CDI = (CRI, ANNOTATIONS)

# The host now, after its change; the plugin now, and then -> what changes first.
TABLE: tuple[
    tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...], order.First], ...
] = (
    (
        "CDI is switched on, and the default handler stays",
        (ENVVAR,),
        (ENVVAR, *BY_CDI),
        (ENVVAR,),
        (CRI,),
        "engine",
    ),
    (
        "the default handler goes after the plugin was set to CDI",
        (ENVVAR, *BY_CDI),
        BY_CDI,
        (ENVVAR,),
        (CRI,),
        "plugin",
    ),
    ("the same, and the plugin is set already", (ENVVAR, *BY_CDI), BY_CDI, (CRI,), (CRI,), "any"),
    (
        "CDI comes and the default handler goes at once",
        (ENVVAR,),
        BY_CDI,
        (ENVVAR,),
        (CRI,),
        "both",
    ),
    ("back to the legacy runtime at once", BY_CDI, (ENVVAR,), (CRI,), (ENVVAR,), "both"),
    (
        "back, where the default handler has stayed",
        (ENVVAR, *BY_CDI),
        (ENVVAR,),
        (CRI,),
        (ENVVAR,),
        "plugin",
    ),
    (
        "a newer engine reads the field, too",
        (ANNOTATIONS,),
        BY_CDI,
        (ANNOTATIONS,),
        (CRI,),
        "engine",
    ),
    ("a new host, which nobody gave GPUs before", (), BY_CDI, (), (CRI,), "engine"),
    ("pods get no GPU now", (), BY_CDI, (ENVVAR,), (CRI,), "engine"),
)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0])
def test_the_order_is_that_of_the_table(row: Any) -> None:
    _name, now, after, old, new, first = row
    assert order.decide_first_change(now, after, old, new) == first


SETS = st.sets(st.sampled_from((ENVVAR, MOUNTS, *BY_CDI)))


@given(now=SETS, after=SETS, old=SETS, new=SETS)
def test_no_order_loses_what_worked(
    now: set[str], after: set[str], old: set[str], new: set[str]
) -> None:
    """Each state between the first step and the last one works, wherever the first and the last one
    do.
    """
    between = {
        "any": [(now, new), (after, old)],
        "engine": [(after, old)],
        "plugin": [(now, new)],
        "both": [(now, old | new), (after, old | new)],
    }
    if order.gets_gpu(now, old) and order.gets_gpu(after, new):
        assert all(
            order.gets_gpu(host, plugin)
            for host, plugin in between[order.decide_first_change(now, after, old, new)]
        )


def declared(result: dict[str, Any], strategy: str) -> dict[str, Any]:
    return {**result, "decision": {**result["decision"], "plugin_strategies": [strategy]}}


AFTER: dict[str, tuple[dict[str, Any], set[str]]] = {
    "native CDI": (native(), {CRI, ANNOTATIONS}),
    "the NVIDIA runtime by default": (fallback(), {ENVVAR, ANNOTATIONS}),
    "legacy": (looked(cdi="disabled"), {ENVVAR}),
    "a hook": (hook(), {ENVVAR}),
    "a hook, and the variable is for privileged containers": (hook(isolation="strict"), set()),
    "the variable is for privileged containers": (fallback(isolation="strict"), {ANNOTATIONS}),
    "the same, and mounts are declared": (
        declared(fallback(isolation="strict"), MOUNTS),
        {MOUNTS, ANNOTATIONS},
    ),
    "mounts are declared, and the variable counts": (
        declared(fallback(isolation="compatible"), MOUNTS),
        {ENVVAR, MOUNTS, ANNOTATIONS},
    ),
}


@pytest.mark.parametrize("case", AFTER)
def test_what_a_host_understands_follows_from_its_decision(case: str) -> None:
    result, understood = AFTER[case]
    assert ways.list_decided_strategies(result, result["decision"]["decisions"][0]) == understood


def changing(instance: dict[str, Any], **policy: Any) -> tuple[members.Host, ...]:
    """A host that is not yet as it was decided, as its engine is now."""
    result = looked(**policy)
    key = result["instances"][0]["key"]
    result["instances"] = [{"key": key, "used_by_kubelet": True, **instance}]
    result["differences"] = [{"path": "/etc/containerd/config.toml"}]
    result["decision"]["plugin_strategies"] = [ENVVAR]
    return hosts({"gpu1": result})


def test_an_engine_that_changes_first_holds_its_label_back() -> None:
    """The look says that the plugin uses the variable, and nothing of the host resolves CDI yet."""
    legacy = {
        "default_handler": "nvidia",
        "handlers": {"nvidia": "/usr/bin/nvidia-container-runtime"},
        "cdi": {"enabled": False},
    }
    found = order.order_hosts(changing(legacy, set_as_default="enabled"), {})
    assert (found.held, found.ahead) == ({"gpu1"}, frozenset())
    assert found.steps == (
        "gpu1: change the hosts first (gpufleet.nvidia.rollout), then apply: they do not understand cdi-cri yet [cluster.hosts-first]",
    )


def test_both_ways_are_used_where_no_order_keeps_the_gpus() -> None:
    legacy = {
        "default_handler": "nvidia",
        "handlers": {"nvidia": "/usr/bin/nvidia-container-runtime"},
        "cdi": {"enabled": False},
    }
    found = order.order_hosts(changing(legacy), {})
    (m,) = found.hosts
    assert isinstance(m, members.ClusterMember)
    assert (m.setting.strategies, found.held, found.ahead) == ((ENVVAR, CRI), frozenset(), {"gpu1"})
    assert "apply again: until then the plugin uses envvar,cdi-cri" in found.steps[0]


def test_a_plugin_of_which_nothing_is_known_is_said_to_be_so() -> None:
    both = {
        "default_handler": "nvidia",
        "handlers": {"nvidia": "/usr/bin/nvidia-container-runtime"},
        "cdi": {"enabled": True, "cri_field": True},
    }
    (host,) = changing(both)
    assert isinstance(host, members.ClusterMember)
    found = order.order_hosts((dc.replace(host, plugin=()),), {})
    assert found.steps == (
        "gpu1: apply first, then change the hosts: by which strategy their pods get GPUs now is not known [cluster.plugin-first-unknown]",
    )


def test_a_host_that_is_as_decided_has_no_order() -> None:
    found = order.order_hosts(hosts({"gpu1": native()}), {"gpu1": (ENVVAR,)})
    assert (found.held, found.steps) == (frozenset(), ())


def test_the_operators_strategies_are_the_same_before_and_after() -> None:
    """Its plugin is set for all nodes, so a host that understands them already waits for nothing,
    and any other changes first.
    """
    fixed = objects.ClusterSettings(profile="operator").fixed
    native_already = {
        "default_handler": "runc",
        "handlers": {},
        "cdi": {"enabled": True, "cri_field": True},
    }
    assert order.order_hosts(changing(native_already), {}, fixed).steps == ()
    legacy = {
        "default_handler": "nvidia",
        "handlers": {"nvidia": "/usr/bin/nvidia-container-runtime"},
        "cdi": {"enabled": False},
    }
    assert order.order_hosts(changing(legacy), {}, fixed).held == {"gpu1"}
