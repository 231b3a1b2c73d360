# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the task files that a batch of a rollout includes around the change of its hosts.

An include costs the controller a process per host and a heading per batch, even if all hosts skip
it. So the playbook includes lists of files, and a list has only the files that the batch needs.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping

DIRECTORY = "tasks/rollout"
# The files that each host takes, which a playbook can import.
PLAIN = frozenset({f"{DIRECTORY}/converge.yml", f"{DIRECTORY}/verify.yml"})


@dc.dataclass(frozen=True)
class Needs:
    """The needs of a batch.

    ends: the gate lets it not start. drains: an orchestrator was asked about one of its hosts.
    soaks: its hosts are looked at again after a while. clusters: objects are applied before and
    after. verifies: one of its hosts has an image for verification. check: check mode. unjudged: one
    of its hosts has a change of its driver that no run has judged.
    """

    ends: bool
    drains: bool
    soaks: bool
    clusters: bool
    verifies: bool
    check: bool
    unjudged: bool = False


def choose_files(needs: Needs, own: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the files of a batch in their order: `change` for a host, `held` for a host that must
    not start, and `last` for all.

    own: the files of the user's tasks by point, '' for none.
    """
    if needs.ends:
        return {"change": [f"{DIRECTORY}/end.yml"], "held": [f"{DIRECTORY}/end.yml"], "last": []}
    # The objects of a cluster are applied once, by the first host, which may be held.
    first = [("cluster_before", needs.clusters)]
    # A file of the user's may change the driver, and only the user knows of it.
    driver = (bool(own.get("change")) or needs.unjudged) and not needs.check
    change = [
        *first,
        ("drain", needs.drains),
        # an error that the user's tasks cause is one since the change
        (
            "gpu_errors_before",
            needs.soaks,
        ),
        ("driver_before", driver),
        ("own_before", bool(own.get("before"))),
        ("own_change", bool(own.get("change"))),
        ("driver_judged", driver),
        ("converge", True),
        ("verify", needs.verifies),
        ("own_after", bool(own.get("after"))),
        ("diagnose", needs.soaks and needs.drains),
        ("driver_settled", driver),
        ("undrain", needs.drains),
    ]
    last = [
        ("soak", needs.soaks),
        ("look_again", needs.soaks or (needs.clusters and not needs.check)),
        ("cluster_after", needs.clusters and not needs.check),
    ]
    return {
        point: [f"{DIRECTORY}/{name}.yml" for name, needed in steps if needed]
        for point, steps in (("change", change), ("held", first), ("last", last))
    }


def is_plain(files: Mapping[str, list[str]]) -> bool:
    """Tell whether the hosts of a batch take nothing but their change and its verification."""
    return not files["held"] and not files["last"] and PLAIN.issuperset(files["change"])
