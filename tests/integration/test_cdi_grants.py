# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No container gets more than nvidia-ctk 1.20.2 gives it for the same name on the same hardware,
whatever the hardware is, nor less than CUDA needs. Names that only this collection has give no more
than those do that they stand for.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    layouts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
)
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.draws import count_examples
from tests.gpu import spec_facts
from tests.lab import trees
from tests.tools import oracle

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not shutil.which("go"), reason="nvidia-ctk is built with Go, which is not here"
    ),
]

NAMES = ("index", "uuid", "type-index")
STRATEGIES = [word for name in NAMES for word in ("--device-name-strategy", name)]
# The facts of a spec that grant something. Numbers and order do not.
GRANTS = frozenset(("node", "mount", "env", "link", "hook", "group"))
CUDA = frozenset(("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"))
DRIVER = trees.Layout(
    "grants", "580.65.06", only=("libcuda", "libnvidia-ml", "libnvidia-allocator", "libGLX_nvidia")
)

Grants = Mapping[str, frozenset[spec_facts.Fact]]


def granted(spec: Spec, root: Path) -> Grants:
    """Name -> what a container that asks for it gets, wherever the spec says it."""
    found = spec_facts.place_links_by_bus(spec_facts.list_facts(spec, root), root)
    return {
        d.name: frozenset(
            f for f in spec_facts.select_device_facts(found, d.name) if f.kind in GRANTS
        )
        for d in spec.devices
    }


def upstream(root: Path, mode: str, *more: str) -> Grants:
    """What nvidia-ctk gives by each name; no name where it makes no spec, as on a host that has
    none of what a mode is about.
    """
    try:
        return granted(oracle.theirs(root, mode, *more), root)
    except ValueError:
        return {}


def both(grants: Grants, names: Iterable[str]) -> frozenset[spec_facts.Fact]:
    return frozenset(fact for name in names for fact in grants[name])


def nodes(facts: Iterable[spec_facts.Fact]) -> frozenset[str]:
    return frozenset(fact.value[0] for fact in facts if fact.kind == "node")


# ---------------------------------------------------------------- hardware


@st.composite
def gpus(draw: st.DrawFn) -> list[dict[str, object]]:
    """GPUs in any order of their minors, with MIG or without, that draw or not, in several PCI
    domains.
    """
    count = draw(st.integers(1, 3))
    minors = draw(st.permutations(range(5)))[:count]
    domains = sorted(draw(st.lists(st.sampled_from((0, 8, 24)), min_size=count, max_size=count)))
    found: list[dict[str, object]] = []
    for index, (minor, domain) in enumerate(zip(minors, domains, strict=True)):
        bus = f"{domain:04x}:{17 + 16 * index:02x}:00.0"
        pairs = draw(
            st.lists(st.tuples(st.integers(1, 6), st.integers(0, 2)), unique=True, max_size=3)
        )
        instances = [list(pair) for pair in sorted(pairs)]
        mig: dict[str, Any] = (
            {"mig": "on", "migs": instances}
            if draw(st.booleans())
            else {"drm": draw(st.booleans())}
        )
        found.append(
            {
                "minor": minor,
                "bus": bus,
                "name": draw(st.sampled_from(("NVIDIA H100", "NVIDIA L40S"))),
                **mig,
            }
        )
    return found


GB200: list[dict[str, object]] = [
    {"minor": 1, "bus": "0008:01:00.0"},
    {"minor": 0, "bus": "0009:01:00.0", "drm": True},
]
MIXED: list[dict[str, object]] = [
    {"mig": "on", "migs": [[1, 0], [2, 0], [2, 1]]},
    {"drm": True},
    {"mig": "on"},
]


class Host:
    """A tree of one piece of hardware, and the specs that both make of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.policy: Policy = oracle.policy(
            root, cdi_imex_channels=("all",), cdi_nvswitch=True, cdi_device_names=NAMES
        )
        self.seen: Observation = oracle.observed(root, self.policy)

    def ours(self, layout: str) -> Grants:
        return granted(oracle.planned(self.policy, self.seen, layout=layout), self.root)


@settings(max_examples=count_examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(gpus(), st.integers(0, 2), st.sampled_from((0, 1, 3)))
@example(GB200, 2, 2048)
@example(MIXED, 2, 1)
def test_no_name_gives_more_than_upstream_s_and_each_gives_what_cuda_needs(
    hardware: list[dict[str, object]], switches: int, channels: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        trees.build(root, DRIVER, hardware, switches=switches, channels=channels)
        host = Host(root)
        theirs = upstream(root, "nvml", *STRATEGIES)
        assert_workloads(host, theirs)
        assert_models(host, theirs)
        assert_others(host)


def assert_workloads(host: Host, theirs: Grants) -> None:
    """The same names. Shared GPUs have the names of the dedicated ones. With MPS, they bring the
    way to their daemon, which is not a node.
    """
    found = host.ours(layouts.WORKLOADS)
    named = set(found) - {"all"} if len(found) == 1 else set(found)
    assert named == set(theirs)
    for name in named:
        assert found[name] <= theirs[name], name
        assert nodes(found[name]) == nodes(theirs[name]), (
            "theirs has all of CUDA's nodes, and so has ours"
        )
        assert nodes(found[name]) > CUDA
    assert host.ours(layouts.SHARED) == found
    for name, facts in host.ours(layouts.MPS).items():
        assert nodes(facts) <= nodes(theirs[name])


def assert_models(host: Host, theirs: Grants) -> None:
    """Of names by model: one device, or every GPU of a model."""
    every = both(theirs, theirs)
    for name, facts in host.ours(layouts.MODELS).items():
        place = name.rpartition("-")[2]
        assert facts <= theirs.get(place, every), name


def assert_others(host: Host) -> None:
    management = upstream(host.root, "management")
    for name, facts in host.ours(layouts.MANAGEMENT).items():
        assert facts <= management["all"], name
    # The command adds a device for all channels, which the library does not
    # (pkg/nvcdi/lib-imex.go).
    assert host.ours(layouts.CHANNELS) == upstream(host.root, "imex", "--no-all-device")
    assert host.ours(layouts.SWITCHES) == upstream(host.root, "nvswitch")
