# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions as the engines of this world say them."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases as containerd_releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    releases as crio_releases,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "release", "suffix"),
    [
        ("v1.7.34", (1, 7, 34), ""),
        ("1.6.20~ds1", (1, 6, 20), "~ds1"),
        ("1.7.24~ds1-6+deb13u1", (1, 7, 24), "~ds1-6+deb13u1"),
        ("2.1.9+unknown", (2, 1, 9), "+unknown"),
        ("v2.1.5-k3s1", (2, 1, 5), "-k3s1"),
        ("5:27.5.1-1~debian.12~bookworm", (27, 5, 1), "-1~debian.12~bookworm"),
        ("2.4.0-beta.0", (2, 4, 0), "-beta.0"),
        ("2.1", (2, 1, 0), ""),
    ],
)
def test_parse(text: str, release: tuple[int, int, int], suffix: str) -> None:
    found = versions.parse_engine_version(text)
    assert found is not None
    assert (found.release, found.suffix) == (release, suffix)


@pytest.mark.parametrize("text", ["", "unknown", "v", "1", "<nil>"])
def test_no_version(text: str) -> None:
    assert versions.parse_engine_version(text) is None


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        (
            "containerd github.com/containerd/containerd v1.7.18 ae71819c4f5e67bb4d5ae76a6b735f29cc25774e",
            "1.7.18",
        ),
        ("containerd github.com/containerd/containerd/v2 v2.0.11 deadbeef", "2.0.11"),
        ("containerd containerd.io 1.6.9 1c90a442489720eec95342e1789ee8a5e1b9536f", "1.6.9"),
        (
            "containerd github.com/containerd/containerd 1.4.13~ds1 1.4.13~ds1-1~deb11u4",
            "1.4.13~ds1",
        ),
        ("containerd github.com/containerd/containerd/v2 2.1.9+unknown ", "2.1.9+unknown"),
        ("containerd github.com/containerd/containerd 1.7.12 ", "1.7.12"),
        ("containerd github.com/k3s-io/containerd v2.1.5-k3s1 e77c15f3", "2.1.5-k3s1"),
        ("crio version 1.34.2\nGitCommit: unknown\n", "1.34.2"),
        ("Docker version 26.1.5+dfsg1, build a72d7cd", "26.1.5+dfsg1"),
        ("no such thing", ""),
    ],
)
def test_banner(banner: str, version: str) -> None:
    assert versions.read_version_banner(banner) == version


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.6.20", "1.7.0"),
        ("1.7.9", "1.7.10"),
        ("2.4.0-beta.0", "2.4.0"),
        ("2.0.0-rc.1", "2.0.0-rc.2"),
        ("2.0.0-beta.2", "2.0.0-rc.0"),
        ("1.9.9", "v2.0.0"),
    ],
)
def test_order(older: str, newer: str) -> None:
    a, b = versions.parse_engine_version(older), versions.parse_engine_version(newer)
    assert a is not None
    assert b is not None
    assert a < b
    assert sorted([b, a]) == [a, b]


@pytest.mark.parametrize(
    ("one", "same"),
    [("1.6.20~ds1", "1.6.20"), ("2.1.9+unknown", "v2.1.9"), ("2.1.5-k3s1", "2.1.5")],
)
def test_a_packagers_suffix_makes_no_difference(one: str, same: str) -> None:
    assert versions.parse_engine_version(one) == versions.parse_engine_version(same)


@pytest.mark.parametrize(
    ("engine", "version", "newest"),
    [
        ("containerd", "1.6.39", ""),
        ("containerd", "1.7.0", "0.5.0"),
        ("containerd", "1.7.11", "0.5.0"),
        ("containerd", "1.7.12", "0.6.0"),
        ("containerd", "1.7.24", "0.7.0"),
        ("containerd", "1.7.24~ds1", "0.8.0"),
        ("containerd", "1.7.27", "0.8.0"),
        ("containerd", "2.0.4", "0.8.0"),
        ("containerd", "2.0.5", "1.0.0"),
        ("containerd", "2.2.0", "1.0.0"),
        ("containerd", "2.2.1", "1.1.0"),
        ("containerd", "2.4.2", "1.1.0"),
        ("crio", "1.23.2", ""),
        ("crio", "1.24.0", "0.3.0"),
        ("crio", "1.29.9", "0.6.0"),
        ("crio", "1.34.2", "1.0.0"),
        ("docker", "24.0.9", ""),
        ("docker", "25.0.16", "0.6.0"),
        ("docker", "25.0.17", "0.8.0"),
        ("docker", "26.0.0", "0.6.0"),
        ("docker", "29.2.0", "1.1.0"),
        # its library reads .json alone, with keys that no later version has
        (
            "podman",
            "3.4.4",
            "",
        ),
        ("podman", "4.0.3", ""),  # 0.1.0 and 0.2.0, which this collection never writes
        ("podman", "4.1.0", "0.4.0"),
        ("podman", "4.9.3", "0.6.0"),
        ("podman", "5.8.2", "1.0.0"),
        ("lxc", "6.0.0", ""),
        ("containerd", "who knows", ""),
    ],
)
def test_newest_cdi_specification(engine: str, version: str, newest: str) -> None:
    assert cdi_versions.get_max_cdi_version(engine, version) == newest


@pytest.mark.parametrize("engine", traits.TRAITS)
def test_people_are_told_of_the_release_with_which_the_table_begins(engine: str) -> None:
    first = next(first for first, newest in cdi_versions.MAX_CDI[engine] if newest)
    assert traits.get_traits(engine).first_cdi == "{}.{}".format(*first)


@pytest.mark.parametrize(
    ("version", "answered"),
    [
        ("1.6.38", False),
        ("1.7.0", False),
        ("1.7.1", False),
        ("1.7.2", True),
        ("1.7.3", True),
        ("2.0.0", True),
    ],
)
def test_the_first_containerd_that_takes_devices_from_a_kubelet(
    version: str, answered: bool
) -> None:
    found = versions.parse_engine_version(version)
    assert found is not None
    assert containerd_releases.has_cri_devices_field(found) is answered


def test_people_are_told_of_the_first_releases_that_take_devices_from_a_kubelet() -> None:
    told = {name: known.first_field for name, known in traits.TRAITS.items() if known.first_field}
    assert told == {
        "containerd": "1.7.2",  # the table above
        "crio": "{}.{}.0".format(*crio_releases.CRI_FIELD_SINCE),
    }


NUMBERS = st.tuples(*[st.integers(0, 99)] * 3)


@given(NUMBERS, NUMBERS)
def test_releases_are_ordered_as_their_numbers(
    a: tuple[int, int, int], b: tuple[int, int, int]
) -> None:
    one, other = (versions.parse_engine_version(".".join(map(str, n))) for n in (a, b))
    assert one is not None
    assert other is not None
    assert (one < other) == (a < b)
    assert one.is_at_least(*b) == (a >= b)
