# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What watches between two runs: which units for whose spec, with which facts, and nothing where
nobody asked for it.
"""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import host_service
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_refresh,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    resource,
    spec_facts,
    spec_verdicts,
    staleness_guard,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)

from tests.unit.builders import obs, sha
from tests.unit.gpus import BUSES, UUIDS, host, nvml

POLICY = Policy(cdi_refresh="watch", cdi_profile="devices")
OURS = "/etc/cdi/nvidia.yaml"
ASIDE = f"{staleness_guard.ASIDE}/nvidia.yaml"
PROGRAM = transport.map_resident_sources()["cdi_guard"]


def planned(
    files: dict[str, Any] | None = None,
    owner: Any = "collection",
    policy: Policy = POLICY,
    active: bool = False,
) -> Plan:
    units = {
        u: {"ActiveState": "active"}
        for _name, names in staleness_guard.WATCHES
        for u in names
        if not u.endswith("service") and active
    }
    seen = obs(files={**host(), **(files or {})}, answers=nvml(), units=units)
    record, driver = (
        resource.record_of_options(owner, "1.0.0"),
        driver_state.read_driver(policy, seen),
    )
    facts = spec_facts.read_spec_facts(policy, seen, record, driver)
    done = resource.plan_specs_and_outcome(policy, facts, record, driver)
    return merge_plans([done[0], resource.plan_spec_watch(policy, facts, record, done, PROGRAM)])


def written(plan: Plan) -> dict[str, str]:
    return {c["path"]: c["content"] for c in plan.changes if c["op"] == "write"}


def test_nothing_where_nobody_asked_for_it() -> None:
    assert list(written(planned(policy=Policy(cdi_profile="devices")))) == [OURS]


def test_ours_is_set_aside_by_facts_that_the_spec_was_made_from() -> None:
    first = planned()
    files = written(first)
    settings = json.loads(files[host_service.get_settings_path(staleness_guard.NAME)])["files"][0]
    assert (settings["path"], settings["sha256"]) == (OURS, sha(files[OURS]))
    gpus = next(f for f in settings["facts"] if f["what"] == "the set of GPUs")
    assert [row[1:] for row in gpus["found"]] == [
        [BUSES[0], "0", UUIDS[0]],
        [BUSES[1], "1", UUIDS[1]],
    ]
    # device nodes work with any driver
    assert {"what": "the driver"} not in [{"what": f["what"]} for f in settings["facts"]]
    numbers = next(f for f in settings["facts"] if "numbers" in f)["numbers"]
    assert numbers == {
        "/dev/nvidia-modeset": [195, 254],
        "/dev/nvidia0": [195, 0],
        "/dev/nvidia1": [195, 1],
        "/dev/nvidiactl": [195, 255],
    }
    assert [(r.unit, r.action) for r in first.restarts] == [
        (staleness_guard.PATH, "start"),
        (staleness_guard.TIMER, "start"),
    ]
    assert set(staleness_guard.UNITS) == set(
        files[host_service.write_service_drop_in(staleness_guard.NAME)].split("Wants=")[1].split()
    )
    # The digests that hosts tell are keyed; the one in the settings is that of the file.
    second = planned(
        {path: {"content": text, "sha256": f"keyed:{sha(text)}"} for path, text in files.items()},
        active=True,
    )
    assert (second.changes, second.restarts) == ((), ())


def test_a_gpu_that_hangs_keeps_no_engine_from_starting_and_gathers_no_processes() -> None:
    """Whoever reads of it waits in the kernel, and no signal ends that: systemd goes on, and the
    next one does not wait beside it.
    """
    files = written(planned())
    unit = files[f"{host_service.UNITS}/{staleness_guard.SERVICE}"].splitlines()
    assert {"Type=oneshot", "TimeoutStartSec=60", "TimeoutStopSec=10"} <= set(unit)
    assert (
        json.loads(files[host_service.get_settings_path(staleness_guard.NAME)])["running"]
        == "/run/gpufleet-cdi-watch.lock"
    )


def test_a_full_spec_is_true_for_its_driver_only() -> None:
    files = written(planned(policy=Policy(cdi_refresh="watch", cdi_profile="hookless")))
    facts = json.loads(files[host_service.get_settings_path(staleness_guard.NAME)])["files"][0][
        "facts"
    ]
    drivers = [f["found"] for f in facts if f["what"] == "the driver"]
    assert drivers in ([], [[["/sys/module/nvidia/version", "550.163.01"]]])
    assert bool(drivers) == ("550.163.01" in files[OURS])


def test_theirs_is_made_again_by_their_own_unit() -> None:
    files = written(planned(owner="toolkit"))
    assert sorted(files) == sorted(
        [
            f"/etc/systemd/system/{staleness_guard.REFRESH_UNITS[0]}",
            host_service.write_service_drop_in(staleness_guard.REFRESH_NAME),
        ]
    )
    assert (
        f"Unit={cdi_refresh.SERVICE}"
        in files[f"/etc/systemd/system/{staleness_guard.REFRESH_UNITS[0]}"]
    )


def test_the_watch_goes_when_it_is_not_wanted_any_more() -> None:
    there = written(planned())
    plan = planned(there, policy=Policy(cdi_profile="devices"), active=True)
    watched = [path for path in there if path != OURS]
    assert sorted(c["path"] for c in plan.changes) == sorted(watched)
    assert [c["argv"][:2] for c in plan.commands] == [["systemctl", "stop"]]


def test_a_spec_that_was_set_aside_is_stale_and_made_again() -> None:
    first = written(planned())
    away = {path: text for path, text in first.items() if path != OURS}
    seen = obs(files={**host(), **away, ASIDE: first[OURS]}, answers=nvml())
    verdicts = spec_verdicts.judge_specs(
        POLICY,
        spec_facts.read_spec_facts(
            POLICY,
            seen,
            resource.record_of_options("collection", "1.0.0"),
            driver_state.read_driver(POLICY, seen),
        ),
    )
    assert [(v.path, v.state) for v in verdicts] == [(OURS, "stale")]
    assert get_code(verdicts[0].sentence) == "cdi.set-aside"
    assert list(written(planned({**away, ASIDE: first[OURS]}, active=True))) == [OURS]


def test_absent_takes_the_watch_and_what_it_set_aside() -> None:
    there = written(planned())
    policy = Policy(state="absent")
    seen = obs(
        files={**host(), **{p: t for p, t in there.items() if p != OURS}, ASIDE: there[OURS]}
    )
    plan = resource.plan_absent(policy, spec_facts.read_spec_removal_facts(seen))
    assert sorted(c["path"] for c in plan.changes) == sorted(
        [*(p for p in there if p != OURS), ASIDE]
    )
