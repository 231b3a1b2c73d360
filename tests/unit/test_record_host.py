# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recorded host can be sent: nothing in it names the host, and what the planner reads is still
there.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import seen_host
from hypothesis import given
from hypothesis import strategies as st

from tests.gpu import scrub
from tests.unit import builders, tool_modules

record_host = tool_modules.loaded("record_host")

BLANKED = [
    # what a host says, what is sent of it
    ("gpu-node-17 serves", "host serves"),
    ("gpu-node-17.example.org", "host.example.org"),
    ("not-gpu-node-17", "not-gpu-node-17"),  # another name that ends with it
    ("gpu-node-170", "gpu-node-170"),
    ("backup_gpu-node-17_1", "backup_host_1"),
    ("GPU-Node-17", "host"),
    ("GPU-71cf8c2e-1b2c-4d5e-8f90-0123456789ab", "GPU-00000000-0000-0000-0000-000000000001"),
    ("10.20.30.40:2379", "192.0.2.1:2379"),
    ("0.0.0.0 and 127.0.0.1", "0.0.0.0 and 127.0.0.1"),
    # versions of packages, as dpkg and rpm write them
    *(
        (f"installed {version}", f"installed {version}")
        for version in (
            "1.28.0.1-1",
            "1.2.3.4-0ubuntu1~22.04",
            "2.0.0.1+dfsg-1",
            "1.2.3.4~rc1",
            "5.14.0.1-427.el9",
            "1.17.8.1-1.x86_64",
            "12.4.5.8-1_amd64.deb",
            "535.104.05.1",
            "10.2.89.01",
        )
    ),
    *(
        (text, text)
        for text in (
            "nvidia-container-toolkit 1.17.8.1-1",
            "libcublas-12-4=12.4.5.8-1",
            "containerd.io_1.7.27.1-1_amd64.deb",
            '"driver_version": "1.2.3.4-1"',
            "cri-o-1.34.0.1-1.el9",
        )
    ),
    # addresses beside the same characters
    ("etcd-10.0.0.5-2380", "etcd-192.0.2.1-2380"),
    ("installed 10.3.5.147-1", "installed 192.0.2.1-1"),
    ("etcd-203.0.113.7-1", "etcd-192.0.2.1-1"),
    ("10.0.0.5-1", "192.0.2.1-1"),
    ("203.0.113.7-1500", "192.0.2.1-1500"),
    ("containerd 203.0.113.7-1500", "containerd 192.0.2.1-1500"),
    ("10.20.30.40-8080", "192.0.2.1-8080"),
    ("10.0.0.5+cuda", "192.0.2.1+cuda"),
    ("8.8.8.8-2", "192.0.2.1-2"),
    ("nvidia-mirror-8.8.8.8-2", "nvidia-mirror-192.0.2.1-2"),
    ("mirror.10.0.0.5", "mirror.192.0.2.1"),
    ("10.0.0.5..10.0.0.9", "192.0.2.1..192.0.2.2"),
    ("10.0.0.5-gpu", "192.0.2.1-gpu"),
    ("ip-10.0.0.5-eth0", "ip-192.0.2.1-eth0"),
    ("10.0.0.5-10.0.0.9", "192.0.2.1-192.0.2.2"),
    ("10.0.0.5-9", "192.0.2.1-9"),
    ("192.168.1.30-1", "192.0.2.1-1"),
    # in place of a package's version, as far as the networks of hosts go
    *(
        (f"containerd {address}-1", "containerd 192.0.2.1-1")
        for address in (
            "10.0.0.5",
            "192.168.0.5",
            "172.16.0.5",
            "172.31.9.5",
            "169.254.1.5",
            "100.64.0.5",
            "100.127.9.5",
        )
    ),
    *(
        (f"containerd {version}-1", f"containerd {version}-1")
        for version in ("172.15.0.5", "172.32.0.5", "100.63.0.5", "100.128.0.5", "11.0.0.5")
    ),
    ("~10.0.0.5~ +10.0.0.6+", "~192.0.2.1~ +192.0.2.2+"),
    ("203.0.113.7-clients", "192.0.2.1-clients"),
    ("the host is 10.0.0.5.", "the host is 192.0.2.1."),
    ("link/ether 0c:42:a1:0b:0c:0d", "link/ether 02:00:00:00:00:01"),
    ("machine 0123456789abcdef0123456789abcdef", "machine 00000000000000000000000000000001"),
    ("of\ngpu-node-17\tserves", "of\nhost\tserves"),
    ("inet6 fe80::1ff:fe23:4567:890a/64", "inet6 2001:db8::1/64"),
    ("[fd00:0:0:1:2:3:4:5]:2379 and ::1", "[2001:db8::1]:2379 and ::1"),
    ("0000:17:00.0 at 12:34:56 in std::cout", "0000:17:00.0 at 12:34:56 in std::cout"),
    ("a" * 64, "a" * 64),  # a keyed digest tells nothing
]


@pytest.mark.parametrize(("said", "sent"), BLANKED)
def test_identifiers_become_stand_ins(said: str, sent: str) -> None:
    assert scrub.blanked({"text": said}, ["gpu-node-17"]) == {"text": sent}


OF_KEYS = [
    # a version of a package has the package's name or "version" as its key
    ({"installed": {"nvidia-container-toolkit": "1.17.8.1-1"}}, "1.17.8.1-1"),
    ({"version": "1.17.8.1-1"}, "1.17.8.1-1"),
    ({"server": "1.17.8.1-1"}, "192.0.2.1-1"),
    ({"version": "https://1.17.8.1-1"}, "192.0.2.1-1"),
    ({"version": "10.17.8.1-1"}, "192.0.2.1-1"),
]


@pytest.mark.parametrize(("said", "sent"), OF_KEYS)
def test_a_version_is_known_by_its_key(said: dict[str, Any], sent: str) -> None:
    assert f'{sent}"' in json.dumps(scrub.blanked(said, []))


def test_only_texts_are_changed() -> None:
    assert scrub.blanked({"gpu-7": [True, "gpu-7/true", None]}, ["gpu-7", "true"]) == {
        "gpu-7": [True, "host/true", None]
    }
    assert scrub.blanked({"file:/etc/gpu-7": "gpu-7"}, ["gpu-7"]) == {"file:/etc/host": "host"}


# Names of hosts that are words of this program: of letters alone, and with digits of its managers
# and chips.
ORDINARY = ["node", "cuda", "gpu", "nvidia", "ubuntu", "k3s", "rke2", "h100", "GPU", "files"]


@pytest.mark.parametrize("name", ORDINARY)
def test_a_name_that_is_an_ordinary_word_destroys_nothing(name: str) -> None:
    seen = {
        "host": {"hostname": name},
        "a": f"/usr/local/{name}",
        "file:/etc/x": f"{name} {name}.example.org",
    }
    assert scrub.blanked(seen, [name, f"{name}.example.org"]) == {
        "host": {"hostname": "host"},
        "a": f"/usr/local/{name}",
        "file:/etc/x": f"{name} host",
    }


def test_names_of_hosts_are_no_ordinary_words() -> None:
    names = ["gpu1", "gpu-node-17", "dgx-01", "ip-10-0-0-5", "brutus", "node01"]
    assert sorted(scrub.list_telling(names)) == sorted(names)


def test_the_same_identifier_has_the_same_stand_in() -> None:
    one, two = "71cf8c2e-1b2c-4d5e-8f90-0123456789ab", "71cf8c2e-1b2c-4d5e-8f90-0123456789ac"
    first, again, other = scrub.blanked([one, one, two], [])
    assert first == again != other


@given(st.uuids(), st.ip_addresses(v=4), st.text("abcdefgh", min_size=4, max_size=12))
def test_nothing_of_them_is_left(uuid: Any, address: Any, name: str) -> None:
    if name in scrub.list_own_words():
        return
    if address.is_loopback or str(address) == "0.0.0.0" or re.match(r"192\.0\.2\.", str(address)):  # noqa: S104
        return
    sent = json.dumps(
        scrub.blanked({"a": [f"GPU-{uuid}", f"--bind={address}"], "b": f"on {name}"}, [name])
    )
    assert not [text for text in (str(uuid), f'={address}"', f'on {name}"') if text in sent]


def test_looks_go_on_until_the_plan_asks_nothing_new() -> None:
    """A host without anything: the answers to the first questions are enough, or the questions end."""
    seen = builders.obs()
    asked: list[list[str]] = []

    def ask(questions: Any) -> dict[str, Any]:
        asked.append([q["id"] for q in questions])
        return {
            "host": seen.host,
            "answers": {
                q["id"]: seen.answers.get(q["id"], {"error": {"kind": "denied"}}) for q in questions
            },
        }

    found = record_host.look(ask, {})
    assert asked[0] == [q["id"] for q in seen_host.list_host_questions(Policy())]
    assert len(asked) < record_host.LOOKS
    assert set(found["answers"]) == {qid for ids in asked for qid in ids}
    assert Observation(found["host"], found["answers"])
