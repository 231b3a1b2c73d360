# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CRI-O from the handler to the OCI hook and back: one transaction and one restart each, and
neither is left half where it fails.
"""

from __future__ import annotations

import dataclasses as dc
import json

import pytest

from tests.integration import story
from tests.integration.conftest import Boot
from tests.tools.onlab import Fleet, Run, settings

pytestmark = pytest.mark.lab

HOST, UNIT = "crio-hook", "crio.service"
DROP_IN = "/etc/crio/crio.conf.d/90-gpufleet.conf"
HOOK = "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json"
CONFIG = "/etc/nvidia-container-runtime/config.toml"
TRAP = f"/etc/systemd/system/{UNIT}.d"
TO_HOOK, TO_HANDLER = {"gpufleet_cdi": "disabled"}, {"gpufleet_cdi": "auto"}
# CRI-O does not start once the handler is gone, or once it is there.
TRAPS = {"to hook": f"test -e {DROP_IN}", "to handler": f"test ! -e {DROP_IN}"}


@dc.dataclass(frozen=True)
class Moment:
    """What of both ways is on the host, whether CRI-O has the handler, and how often it was
    started.
    """

    files: str
    serves: bool
    starts: int
    transactions: int
    bystander: str

    @property
    def there(self) -> set[str]:
        return {path for path in (DROP_IN, HOOK) if f" {path}\n" in self.files}


@dc.dataclass(frozen=True)
class Told:
    """The runs in their order, and what was there after each."""

    runs: dict[str, Run]
    moments: dict[str, Moment]


def moment(fleet: Fleet) -> Moment:
    said = json.loads(fleet.shell(HOST, f"{story.CRICTL} info"))
    return Moment(
        fleet.shell(HOST, f"sha256sum {DROP_IN} {HOOK} {CONFIG} 2>/dev/null", fails=True),
        any(handler.get("name") == "nvidia" for handler in said["runtimeHandlers"]),
        fleet.starts(HOST, UNIT),
        int(fleet.shell(HOST, "ls /var/lib/gpufleet/journal 2>/dev/null | wc -l")),
        story.bystander(fleet, HOST),
    )


@pytest.fixture(scope="module")
def told(boot: Boot) -> Told:
    """The handler; a hook that CRI-O does not start with; the hook; a handler that it does not
    start with; the handler.
    """
    fleet = boot({HOST: {"kind": "crio-1.34", "gpus": 2, "driver": "ok"}})
    story.start_bystander(fleet, HOST)
    runs: dict[str, Run] = {}
    moments: dict[str, Moment] = {}

    def happens(name: str, variables: dict[str, str], trap: str = "") -> None:
        if trap:
            text = f"[Service]\\nExecStartPre=/bin/sh -c '{trap}'\\nRestart=no\\n"
            fleet.shell(
                HOST, f'mkdir -p {TRAP}; printf "{text}" >{TRAP}/trap.conf; systemctl daemon-reload'
            )
        runs[name] = fleet.play("site", [HOST], variables={**settings(), **variables})
        moments[name] = moment(fleet)
        if trap:
            fleet.shell(HOST, f"rm -r {TRAP}; systemctl daemon-reload")

    # All packages from the first run on, so that what follows is one transaction.
    assert fleet.task("host", [HOST], {**repository_options(), "cdi": "disabled"}).failed == {}
    happens("handler", TO_HANDLER)
    happens("hook that fails", TO_HOOK, TRAPS["to hook"])
    happens("hook", TO_HOOK)
    happens("handler that fails", TO_HANDLER, TRAPS["to handler"])
    happens("handler again", TO_HANDLER)
    return Told(runs, moments)


def repository_options() -> dict[str, str]:
    return {
        name.removeprefix("gpufleet_"): value
        for name, value in settings().items()
        if "_toolkit_" in name
    }


WAYS = [
    ("hook that fails", "hook", {HOOK}, False),
    ("handler that fails", "handler again", {DROP_IN}, True),
]


@pytest.mark.parametrize(
    ("before", "after", "there", "serves"), WAYS, ids=["to hook", "to handler"]
)
def test_one_goes_and_the_other_comes_in_one_transaction_with_one_restart(
    told: Told, before: str, after: str, there: set[str], serves: bool
) -> None:
    run, was, now = told.runs[after], told.moments[before], told.moments[after]
    assert (run.status, run.failed) == (0, {}), run.words
    assert (now.there, now.serves) == (there, serves)
    answer = run.of("host")[HOST]
    assert {DROP_IN, HOOK} <= {change["path"] for change in answer["differences"]}
    assert (answer["restarted"], now.starts - was.starts) == ([UNIT], 1)
    assert run.of("host_verify")[HOST]["verified"]
    assert was.bystander == now.bystander != ""


FAILURES = [("handler", "hook that fails", "hook"), ("hook", "handler that fails", "handler again")]


@pytest.mark.parametrize(("before", "failed", "after"), FAILURES, ids=["to hook", "to handler"])
def test_a_crio_that_does_not_start_with_it_gets_both_back(
    told: Told, before: str, failed: str, after: str
) -> None:
    answer = told.runs[failed].of("host")[HOST]
    assert (answer["status"], answer["rolled_back"]) == ("failed", True), answer
    assert dc.replace(told.moments[failed], starts=0, transactions=0) == dc.replace(
        told.moments[before], starts=0, transactions=0
    )
    # The failed one, and the one that followed without the trap.
    assert told.moments[after].transactions - told.moments[before].transactions == 2


def test_the_way_back_ends_with_the_bytes_of_the_first_time(told: Told) -> None:
    assert told.moments["handler again"].files == told.moments["handler"].files
