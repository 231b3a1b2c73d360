# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CDI spec and the truth, on a real host: a verdict costs nothing, the watch takes a wrong spec
away, at boot as well, a run mends it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.onlab import Fleet, Run

pytestmark = pytest.mark.lab

HOST, SPEC = "truth", "/etc/cdi/nvidia.yaml"
WATCH = "gpufleet-cdi-watch"
INFORMATION = "/opt/fakegpu/proc/driver/nvidia/gpus/*/information"
# The two GPUs change places, for the kernel module and for NVML: what a boot may do that finds them
# in another order.
SWAP = f"""
sed -i 's/^\\(Device Minor:.*\\)0$/\\1x/; s/^\\(Device Minor:.*\\)1$/\\10/; s/^\\(Device Minor:.*\\)x$/\\11/' {INFORMATION}
sed -i '/^gpu /{{s/|0|0000/|x|0000/; s/|1|0000/|0|0000/; s/|x|0000/|1|0000/}}' /etc/fake-nvml.conf
"""
# at the next full minute, which is now and then, it would be faster
QUIET = f"systemctl stop {WATCH}.timer\n"
UNTIL = (
    "for try in $(seq 100); do {} && exit 0; sleep 0.1; done; journalctl -b -u "
    + WATCH
    + " -o cat; exit 1"
)
SET_ASIDE = f"[ ! -e {SPEC} ]"


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    return boot({HOST: {"kind": "containerd-1.7", "gpus": 2}})  # type: ignore[no-any-return]


def run(fleet: Fleet, *arguments: str, **options: Any) -> Run:
    found = fleet.task("cdi_spec", [HOST], {"cdi_refresh": "watch", **options}, arguments=arguments)
    assert found.failed == {}, found.words
    return found


def verdict(found: Run) -> list[tuple[str, str]]:
    return [(v["path"], v["state"]) for v in found.of("cdi_spec")[HOST]["freshness"]]


def test_a_host_that_changes_between_two_runs(fleet: Fleet) -> None:
    before = fleet.tree(HOST)
    run(fleet)
    again = run(fleet)
    assert (again.changed, again.operations[HOST], verdict(again)) == ({}, 1, [(SPEC, "fresh")])
    fleet.shell(HOST, f"systemctl is-active {WATCH}.path {WATCH}.timer")

    fleet.shell(HOST, QUIET + SWAP)
    told = run(fleet, "--check", cdi_refresh="converge")
    fleet.shell(HOST, f"systemctl start {WATCH}.timer")
    reasons = told.of("cdi_spec")[HOST]["freshness"][0]["reasons"]
    assert "records 0 as /dev/nvidia0, but it is /dev/nvidia1 now" in [r["why"] for r in reasons]
    # MIG's nodes change: the watch looks at once, and no container gets the other GPU by this name.
    fleet.shell(HOST, "mknod /dev/nvidia-caps/nvidia-cap99 c 510 99")
    fleet.shell(HOST, UNTIL.format(SET_ASIDE))
    assert "the set of GPUs changed" in fleet.shell(HOST, f"journalctl -u {WATCH} -o cat")
    # and is back as soon as it is true again
    fleet.shell(HOST, SWAP + f"systemctl start {WATCH}; [ -e {SPEC} ]")
    assert verdict(run(fleet)) == [(SPEC, "fresh")]

    fleet.shell(HOST, QUIET + SWAP)
    fleet.lab.kill(HOST)
    fleet.lab.boot(HOST)
    fleet.shell(HOST, SET_ASIDE)
    lines = fleet.shell(HOST, f"journalctl -b -o cat -u {WATCH} -u containerd").splitlines()
    aside, engine = (
        next(at for at, line in enumerate(lines) if text in line)
        for text in ("is set aside", "Started containerd")
    )
    assert aside < engine  # no container could have been started with it

    mended = run(fleet)
    assert mended.of("cdi_spec")[HOST]["freshness"][0]["reasons"][0]["code"] == "cdi.set-aside"
    after = run(fleet)
    assert (after.changed, verdict(after)) == ({}, [(SPEC, "fresh")])
    run(fleet, state="absent")
    fleet.shell(HOST, SWAP)
    assert fleet.tree(HOST) == before
    assert fleet.shell(HOST, "ls -A /var/lib/gpufleet/aside 2>/dev/null || true") == ""


def test_the_fleets_specs_by_a_playbook(fleet: Fleet) -> None:
    owner = {"gpufleet_cdi_owner": "collection"}
    none = fleet.play("refresh_cdi", [HOST], variables=owner)
    assert (none.status, none.changed) == (0, {}), none.words
    assert "nothing to refresh" in none.words, none.words
    run(fleet, cdi_refresh="converge")
    fleet.shell(HOST, SWAP)
    first = fleet.play("refresh_cdi", [HOST], variables=owner)
    assert (first.status, list(first.changed)) == (0, [HOST]), first.words
    second = fleet.play("refresh_cdi", [HOST], variables=owner)
    assert (second.status, second.changed) == (0, {}), second.words
    assert "1 host: 1 fresh" in second.words, second.words
