# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole looks at hosts that run: which policies have changes of their own, and which hosts share
one.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    approved,
    bound,
    canonical,
    change,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    mps_files,
    mps_limits,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import count_examples
from tests.unit import gpus
from tests.unit.bound_hosts import USUAL, Hardware, Options, mps, running
from tests.unit.running_host import HostProcess, start_process


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from start_process()


def planned(
    process: HostProcess, options: Options, engine: str = "containerd, GPU", there: Hardware = USUAL
) -> dict[str, Any]:
    with running(process, engine, there) as host:
        result = host.task("host_info", packages="ignore", no_gpu="prepare", **options)
    assert not result.get("failed"), result
    assert not result["problem"], result
    return result


POLICIES: list[tuple[str, str, list[Options]]] = [
    # what differs, the engine, policies that all do different things
    ("mps", "containerd, GPU", [
        mps(clients=4), mps(clients=2), mps(memory="8G", threads=50), mps(memory="70G", threads=100),
        mps(clients=48, memory="64M", threads=1), mps(gpus.UUIDS[1], clients=4),
    ]),
    ("cdi", "containerd, GPU", [
        {}, {"cdi_profile": "devices"}, {"cdi_features": ["utility"]}, {"cdi_features": ["compute"]}, {"cdi_device_names": ["uuid"]},
        {"cdi_node_attributes": "none"}, {"cdi_refresh": "watch"}, {"device_nodes": "present"},
    ]),
    ("sharing", "containerd, GPU", [
        {"sharing": {gpu: value}}
        for gpu in gpus.UUIDS[:2] for value in ({"dedicated": {"exclusive": True}}, {"time_slicing": {}})
    ]),
    ("handler", "crio", [{"handlers": {"nvidia": {"binary": f"/opt/{digit * 40}/nvidia"}}} for digit in "ab"]),
    ("handler in a table", "containerd", [{"handlers": {"nvidia": {"binary": f"/opt/{digit * 64}/nvidia"}}} for digit in "ab"]),
    ("handler in JSON", "docker", [{"handlers": {"nvidia": {"binary": f"/opt/{digit * 32}/nvidia"}}} for digit in "ab"]),
    ("restart", "containerd", [{}, {"restart": "never"}, {"restart": "force"}]),
    ("isolation", "containerd, GPU", [{"isolation": "strict"}, {"isolation": "compatible"}]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "policies"), [row[1:] for row in POLICIES], ids=[row[0] for row in POLICIES]
)
def test_policies_that_do_different_things_have_different_changes(
    process: HostProcess, engine: str, policies: list[Options]
) -> None:
    digests = [
        change.digest_change(planned(process, policy, engine), "gpu1") for policy in policies
    ]
    assert all(approved.DIGEST.fullmatch(digest) for digest in digests)
    assert len(set(digests)) == len(policies)


OTHER = Hardware(
    ("GPU-ffffffff-1111-4222-8333-444444444444", "GPU-00000000-1111-4222-8333-444444444444"),
    ("0000:01:00.0", "0001:a1:00.0"),
    509,
)
SWAPPED = Hardware(USUAL.uuids[::-1], USUAL.buses, 510 + 1)
SHARED: list[tuple[str, Callable[[Hardware], Options]]] = [
    ("nothing", lambda there: {}),
    ("a watch", lambda there: {"cdi_refresh": "watch"}),
    ("device nodes", lambda there: {"device_nodes": "present"}),
    ("by UUID", lambda there: mps(there.uuids[0], clients=4)),
    ("by address", lambda there: {"sharing": {there.buses[1]: {"mps": {"memory": "8G"}}}}),
    ("exclusive", lambda there: {"sharing": {there.uuids[1]: {"dedicated": {"exclusive": True}}}}),
    (
        "all",
        lambda there: {
            **mps(there.uuids[1], clients=4),
            "cdi_refresh": "watch",
            "device_nodes": "present",
        },
    ),
]


@pytest.mark.parametrize("wanted", [row[1] for row in SHARED], ids=[row[0] for row in SHARED])
@pytest.mark.parametrize("there", [OTHER, SWAPPED], ids=["other", "swapped"])
def test_hosts_whose_hardware_has_other_names_share_a_change(
    process: HostProcess, wanted: Callable[[Hardware], Options], there: Hardware
) -> None:
    one, other = (
        change.build_shared_change(planned(process, wanted(names), there=names), "gpu1")
        for names in (USUAL, there)
    )
    assert one == other


@pytest.mark.parametrize(
    "wanted", [{"cdi_profile": "devices"}, {"cdi_refresh": "watch"}, {"state": "absent"}]
)
def test_hosts_that_have_a_spec_of_other_names_share_what_follows(
    process: HostProcess, wanted: Options
) -> None:
    """In the spec of an earlier run each host has its GPUs in an order of its own, by their UUIDs."""
    found = []
    for there in (USUAL, OTHER, SWAPPED):
        with running(process, there=there) as host:
            assert host.task("host", packages="ignore")["changed"]
            found.append(
                change.build_shared_change(
                    host.task("host_info", packages="ignore", **wanted), "gpu1"
                )
            )
    assert found[0]["bound"]
    assert found == found[:1] * len(found)


def test_another_release_of_the_driver_is_another_change(process: HostProcess) -> None:
    one, other = (
        change.digest_change(planned(process, {}, there=names), "gpu1")
        for names in (USUAL, Hardware(driver="550.163.02"))
    )
    assert one != other


def test_what_only_looks_like_the_name_of_hardware_stays(process: HostProcess) -> None:
    """Of a policy that names a directory after a GPU of the host, as of one that names any other."""
    options = ({"cdi_driver_root": f"/opt/{uuid}"} for uuid in (gpus.UUIDS[0], OTHER.uuids[0]))
    with running(process, "containerd") as host:
        found = [
            host.task("host_info", packages="ignore", no_gpu="prepare", **option)["planned"]
            for option in options
        ]
    assert found[0] == found[1]  # nothing of a driver is planned without a GPU


@pytest.mark.parametrize("said", ["4", "c", "a:4"])
def test_an_address_that_is_none_replaces_no_word(process: HostProcess, said: str) -> None:
    """A host may have nvidia-smi print any digits in the place of an address."""
    with running(process) as host:
        rows = "".join(f"{at}, {USUAL.uuids[at]}, {said}, Default, Disabled\n" for at in (0, 1))
        host.known.insert(0, ("nvidia-smi --query-gpu=index,uuid,pci.bus_id", 0, rows, ""))
        odd = host.task("host_info", packages="ignore", **mps(clients=4))["planned"]
    assert odd == planned(process, mps(clients=4))["planned"]


TREES = [
    # the tree of one run, that of another one
    ("/mnt/image", "/mnt/other"),
    ("/mnt/image", "/"),
    ("/trees/gpu1", "/trees/gpu2"),
]


def in_tree(root: str, host: str) -> str:
    return change.digest_change(
        {"planned": {"bound": [*bound.list_bound_trees(root), {"do": "remove", "path": "/x"}]}},
        host,
    )


@pytest.mark.parametrize(("one", "other"), TREES)
def test_the_tree_of_a_change_is_part_of_it(one: str, other: str) -> None:
    assert in_tree(one, "gpu1") != in_tree(other, "gpu1")


def test_hosts_that_have_trees_of_their_own_share_a_change() -> None:
    assert in_tree("/trees/gpu1", "gpu1") == in_tree("/trees/gpu2", "gpu2")


SHOWN = [
    # the limits of an earlier run, the policy that follows, what an approver reads of it
    (
        {"clients": 4}, mps(clients=48, memory="64M", threads=1),
        ("daemons.<GPU 0>.policy", "4 clients, 20389 MiB, 25 % of the threads", "48 clients, 64 MiB, 1 % of the threads"),
    ),
    ({"clients": 4}, mps(clients=4, memory="64M"), ("daemons.<GPU 0>.limits.1.set", "20389M", "64M")),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "row"), SHOWN)
def test_an_approver_reads_each_value_of_the_settings_of_a_program(
    process: HostProcess, before: dict[str, int], after: Options, row: tuple[str, str, str]
) -> None:
    with running(process) as host:
        limits = mps_limits.Limits(**before).complete_limits(81559)
        host.write(
            mps_files.SETTINGS,
            mps_files.render_mps_settings({gpus.UUIDS[0]: mps_files.get_daemon_limits(limits)}),
        )
        found = host.task("host_info", packages="ignore", **after)
    (shown,) = (
        d
        for d in change.build_shared_change(found, "gpu1")["differences"]
        if (d["path"], d["key"]) == (mps_files.SETTINGS, row[0])
    )
    assert row[1] in shown["before"]
    assert row[2] in shown["after"]
    words = [str(d[field]) for d in found["differences"] for field in ("before", "after")]
    assert not any("other content" in word or word == "present" for word in words)


def test_an_approver_reads_the_values_of_settings_that_are_new(process: HostProcess) -> None:
    shown = {
        (d["path"], d["key"]): d["after"]
        for d in change.build_shared_change(planned(process, mps(clients=4)), "gpu1")["differences"]
    }
    assert (
        shown[mps_files.SETTINGS, "daemons.<GPU 0>.policy"]
        == "4 clients, 20389 MiB, 25 % of the threads"
    )
    assert shown["/etc/gpufleet/sharing.json", "policies.<GPU 0>"] == "mps (4 clients)"
    assert re.fullmatch("content [0-9a-f]{12}", shown["/usr/local/libexec/gpufleet/mps.py", ""])


CHOICES: Mapping[str, list[Any]] = {
    "cdi_profile": ["auto", "hookless", "devices"],
    "cdi_features": [["utility"], ["compute"], ["compute", "utility"]],
    "cdi_device_names": [["index"], ["uuid"], ["index", "uuid"]],
    "cdi_node_attributes": ["none", "static", "all"],
    "cdi_refresh": ["converge", "watch"],
    "device_nodes": ["ignore", "present"],
    "isolation": ["strict", "compatible"],
    "set_as_default": ["auto", "enabled"],
    "restart": ["auto", "never"],
    "sharing": [
        *(mps(clients=number)["sharing"] for number in (2, 3)),
        {"0": {"time_slicing": {}}},
    ],
}
POLICY = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(values) for name, values in CHOICES.items()}
)


def test_two_policies_have_one_change_only_if_they_do_the_same(process: HostProcess) -> None:
    """What is done is read from check mode: the texts of the files, and all that would be run."""

    @functools.cache
    def seen(policy: str) -> tuple[str, str]:
        with running(process) as host:
            result = host.task("host", check=True, packages="ignore", **json.loads(policy))
        assert not result.get("failed"), result
        deed = [result["diff"], result["actions"], result["restarted"]]
        return change.digest_change(result, "gpu1"), json.dumps(deed)

    known: dict[str, str] = {}

    @given(POLICY)
    @settings(max_examples=count_examples(40), deadline=None)
    def holds(policy: dict[str, Any]) -> None:
        digest, deed = seen(json.dumps(policy, sort_keys=True))
        assert known.setdefault(digest, deed) == deed

    holds()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0000:3b:00.0", "<P>"),
        ("00000000:3B:00.0", "0000<P>"),
        ("x0000:3b:00.0.1", "x<P>.1"),
        ("3b:00.0", "3b:00.0"),
        ("0000:3c:00.0", "0000:3c:00.0"),
        ("GPU-00000000-0000-0000-0000-00000000000A", "<U>"),
        ("GPU-00000000-0000-0000-0000-00000000000b", "GPU-00000000-0000-0000-0000-00000000000b"),
    ],
)
def test_an_identity_is_replaced_as_a_whole_and_by_its_own_name(text: str, shown: str) -> None:
    names = {"0000:3b:00.0": "<P>", "GPU-00000000-0000-0000-0000-00000000000a": "<U>"}
    assert canonical.Identities(names).replace_in_text(f"a {text} b") == f"a {shown} b"
