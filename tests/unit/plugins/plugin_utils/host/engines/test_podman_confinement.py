# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether SELinux lets Podman's containers open the nodes of GPUs, and what is said of it."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import seen_host
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.podman import (
    confinement,
    directories,
)

from tests.unit.builders import obs
from tests.unit.coded import get_codes

NARROW, WIDE = (f"{confinement.BOOLEANS}/{name}" for name in (confinement.NARROW, confinement.WIDE))
OFF = {confinement.ENFORCE: "1", NARROW: "0 0", WIDE: "0 0"}
OF_POLICY = f"system_u:object_r:{confinement.TYPE}:s0"

# files -> label of the node, the boolean that is named ("" = nothing is said)
CASES = {
    "both are off": (OFF, OF_POLICY, confinement.NARROW),
    "both are off, and the label is unknown": (OFF, "", confinement.NARROW),
    "the policy is older": (
        {confinement.ENFORCE: "1", WIDE: "0 0"},
        OF_POLICY,
        confinement.WIDE,
    ),
    "the narrow one is on": ({**OFF, NARROW: "1 1"}, OF_POLICY, ""),
    "the wide one is on": ({**OFF, WIDE: "1 1"}, OF_POLICY, ""),
    "it is on until the next boot": ({**OFF, WIDE: "1 0"}, OF_POLICY, ""),
    "permissive": ({**OFF, confinement.ENFORCE: "0"}, OF_POLICY, ""),
    "no policy for containers": ({confinement.ENFORCE: "1"}, OF_POLICY, ""),
    "no SELinux": ({}, "", ""),
    "a label of a person's own": (OFF, "system_u:object_r:container_file_t:s0", ""),
}


def test_the_first_look_asks_all_of_it() -> None:
    """A converged host with Podman costs one operation."""
    first = {question["id"] for question in seen_host.list_host_questions(Policy())}
    assert {question["id"] for question in confinement.QUESTIONS} <= first


@pytest.mark.parametrize(("files", "label", "named"), CASES.values(), ids=CASES)
def test_the_boolean_that_is_off_is_named(files: dict[str, str], label: str, named: str) -> None:
    node = {"exists": True, "type": "chr", "selinux": label or None}
    seen = obs(files={**files, confinement.NODE: node})

    said = confinement.warn_of_confinement(confinement.read_confinement_facts(seen))

    assert get_codes(said) == (["podman.confined"] if named else [])
    assert all(f"setsebool -P {named} on" in text for text in said)


OPEN = "[containers]\nlabel = false\n"


@pytest.mark.parametrize(
    ("files", "version", "confined"),
    [
        ({}, "5.8.3", True),
        ({directories.FILES[1]: "[containers]\nlabel = true\n"}, "5.8.3", True),
        ({directories.FILES[1]: "[containers]\nlabel = false\n"}, "5.8.3", False),
        ({directories.FILES[0]: "[containers]\nlabel = false\n"}, "5.8.3", False),
        ({directories.FILES[0]: "[containers]\nlabel = false\n"}, "6.0.0", False),
        (
            {
                directories.FILES[0]: "[containers]\nlabel = false\n",
                directories.FILES[1]: "[containers]\nlabel = true\n",
            },
            "5.8.3",
            True,
        ),
        # 6.0 reads the first of both alone
        ({directories.FILES[0]: OPEN, directories.FILES[1]: "[engine]\n"}, "5.8.3", False),
        ({directories.FILES[0]: OPEN, directories.FILES[1]: "[engine]\n"}, "6.0.0", True),
        ({directories.FILES[1]: "[containers\n"}, "5.8.3", True),
    ],
)
def test_labels_can_be_switched_off(files: dict[str, str], version: str, confined: bool) -> None:
    facts = directories.read_podman_facts(obs(files=files))

    assert directories.confines_containers(facts, version) is confined
