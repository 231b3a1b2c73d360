# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the watch of `cdi_refresh: watch`, which keeps containers from a wrong spec between two
runs.

Between two runs a host may change: a GPU fails, MIG is laid out again, a driver is upgraded. A host
cannot make the spec itself, since it is planned on the controller. So the watch has the facts that
the spec was made from, and takes the spec away while one of them does not hold: at boot before any
engine starts, on a change of MIG or of the driver, and every minute. A container that asks for a
GPU then fails with the device's name, instead of starting with a wrong one; the next run makes the
spec again, and if the host becomes again what it was, the spec comes back by itself.

Where nvidia-cdi-refresh owns the spec, it can make it again itself, and does so for drivers. It
does not see MIG (nvidia-container-toolkit issue 1828), so there the watch is one unit that starts
it.
"""

from __future__ import annotations

import dataclasses as dc
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    JOURNAL_DIR,
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    OWN_UNIT,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import host_service
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_refresh,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    messages,
    staleness,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import gpus
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    mps_places,
)

NAME = "cdi-watch"
SERVICE, PATH, TIMER = f"gpufleet-{NAME}.service", f"gpufleet-{NAME}.path", f"gpufleet-{NAME}.timer"
UNITS = (SERVICE, PATH, TIMER)
# Another unit for a spec that nvidia-cdi-refresh owns: systemd would not see that the text of a
# unit that it knows has changed.
REFRESH_NAME = "cdi-refresh"
REFRESH_UNITS = (f"gpufleet-{REFRESH_NAME}.path",)
WATCHES = ((NAME, UNITS), (REFRESH_NAME, REFRESH_UNITS))
ASIDE = f"{JOURNAL_DIR}/aside"
RUNNING = f"/run/gpufleet-{NAME}.lock"
AT_BOOT = 60  # seconds that engines wait for it: a GPU that hangs blocks every reader of its files
WHY = messages.SPECS_WATCHED.fill()
# New capability nodes come with MIG instances, a new list of modules with a driver. %v is the
# running kernel.
CHANGES = "PathChanged=/dev/nvidia-caps\nPathChanged=/lib/modules/%v/modules.dep\n"
INFORMATION = (
    r"^Bus Location:\s*(\S+)",
    r"^Device Minor:\s*(\d+)",
    r"^GPU UUID:\s*(GPU-[0-9a-f]{8}\S*)",
)
MINOR = (r"^DeviceFileMinor:\s*(\d+)",)
VERSION = (r"(\d+\.\d+(?:\.\d+)?)",)


def list_watch_questions(policy: Policy) -> list[queries.Question]:
    """List the questions. If nothing is watched, a few small files show whether something was."""
    aside = queries.ask_for_glob(f"{ASIDE}/*", content=False)
    if policy.cdi_refresh == "watch" or policy.state == "absent":
        return [
            *(
                q
                for name, units in WATCHES
                for q in host_service.list_service_questions(name, units)
            ),
            aside,
        ]
    return [
        *(
            queries.ask_for_file(host_service.write_service_drop_in(name), keep=OWN_UNIT)
            for name, _units in WATCHES
        ),
        aside,
    ]


@dc.dataclass(frozen=True)
class WatchFacts:
    """A host's facts about the watch, and what the watch is told to compare.

    aside: the files that the watch has set aside. files: by path. globs: the files of a pattern.
    """

    aside: Fact[tuple[ObservedFile, ...]]
    files: Lookup[str, ObservedFile]
    globs: Lookup[str, tuple[ObservedFile, ...]]
    service: host_service.ServiceFacts


def read_watch_facts(obs: Observation) -> WatchFacts:
    return WatchFacts(
        Fact(lambda: obs.list_glob_files(f"{ASIDE}/*")),
        Lookup(obs.get_file),
        Lookup(obs.list_glob_files),
        host_service.read_service_facts(obs),
    )


def is_set_aside_by_watch(facts: WatchFacts, path: str) -> bool:
    """Tell whether the watch has set the file of this name aside."""
    name = path.rsplit("/", 1)[-1]
    return any(f.path == f"{ASIDE}/{name}" and f.exists for f in facts.aside.value)


def plan_watch(
    policy: Policy,
    facts: WatchFacts,
    owner: str,
    specs: Mapping[str, tuple[str, Spec]],
    program: str,
) -> Plan:
    """Plan the watch, or its removal if the policy asks for none.

    specs: path -> (hash, spec) of the files as they are after this run.
    """
    if policy.cdi_refresh != "watch" or owner == "none":
        return plan_watch_removal_by_name(
            policy, facts, messages.NOT_WATCHED.fill(), NAME, REFRESH_NAME
        )
    if owner == "toolkit":
        unit = {REFRESH_UNITS[0]: name_path_unit(cdi_refresh.SERVICE)}
        there = host_service.plan_service(
            policy,
            facts.service,
            host_service.Resident(REFRESH_NAME, unit, REFRESH_UNITS, WHY),
        )
        return merge_plans(
            [
                plan_watch_removal_by_name(policy, facts, messages.REFRESH_WRITES_NOW.fill(), NAME),
                there,
            ]
        )
    if not specs:
        return Plan()
    files = [
        {"path": path, "sha256": sha, "mode": 0o644, "facts": list_watch_facts(policy, facts, spec)}
        for path, (sha, spec) in sorted(specs.items())
    ]
    said = {"schema": 1, "aside": ASIDE, "running": RUNNING, "units": [SERVICE], "files": files}
    settings = json.dumps(said, indent=1, sort_keys=True) + "\n"
    about = "Set a CDI spec aside that is not true any more"
    service = host_service.write_service_unit(
        NAME, about, after="gpufleet-device-nodes.service", seconds=AT_BOOT
    )
    units = {SERVICE: service, PATH: name_path_unit(SERVICE), TIMER: TIMER_UNIT}
    there = host_service.plan_service(
        policy,
        facts.service,
        host_service.Resident(NAME, units, UNITS, WHY, settings, program),
    )
    return merge_plans(
        [plan_watch_removal_by_name(policy, facts, messages.WRITES_NOW.fill(), REFRESH_NAME), there]
    )


TIMER_UNIT = """\
# Written by gpufleet.nvidia.
[Unit]
Description=See every minute whether the CDI spec is still true

[Timer]
OnCalendar=minutely
AccuracySec=5s
"""


def name_path_unit(service: str) -> str:
    return (
        "# Written by gpufleet.nvidia.\n"
        f"[Unit]\nDescription=See to the CDI spec when MIG or the driver changes\n\n[Path]\nUnit={service}\n{CHANGES}"
    )


def list_watch_facts(policy: Policy, facts: WatchFacts, spec: Spec) -> list[dict[str, Any]]:
    """List the facts that the spec was made from, in the words of the program on the host."""
    p = gpus.get_gpu_paths(policy)
    # A spec without a GPU, as that of IMEX channels is, stays true whatever becomes of the GPUs.
    watched = [build_gpu_fact(facts, p.information, spec)] if has_gpu(spec) else []
    watched += [
        build_seen_fact(facts, "the layout of MIG", pattern, MINOR) for pattern in p.mig if watched
    ]
    if staleness.list_recorded_drivers(spec):
        file = facts.files.get(p.module_version)
        versions = (
            [[p.module_version, *list_found_groups(VERSION, file.text)]] if file.exists else []
        )
        watched.append(
            {
                "what": "the driver",
                "each": p.module_version,
                "find": list(VERSION),
                "found": versions,
            }
        )
    nodes = [n for e in staleness.list_spec_edits(spec) for n in e.device_nodes]
    hooks = [
        h.path
        for e in staleness.list_spec_edits(spec)
        for h in e.hooks
        if h.name != "startContainer"
    ]
    # they come with the daemons, later in a boot
    files = (
        path for path in staleness.list_mounted_paths(spec) if not path.startswith(mps_places.ROOT)
    )
    paths = sorted({*files, *hooks, *(staleness.get_live_path(n) for n in nodes)})
    numbers = {staleness.get_live_path(n): [n.major, n.minor or 0] for n in nodes if n.major}
    return [
        *watched,
        {"what": "device numbers", "numbers": numbers},
        {"what": "files", "paths": paths},
    ]


def has_gpu(spec: Spec) -> bool:
    return any(staleness.map_gpu_nodes_by_device(spec).values())


def build_gpu_fact(facts: WatchFacts, pattern: str, spec: Spec) -> dict[str, Any]:
    """Return the set of GPUs as a fact, with the UUIDs as the spec has them.

    The driver reports UUIDs only after the first use of a GPU. null counts as equal to any UUID.
    """
    uuids = {
        n.path: d.name
        for d in spec.devices
        if d.name.startswith("GPU-")
        for n in d.edits.device_nodes
    }
    fact = build_seen_fact(facts, "the set of GPUs", pattern, INFORMATION)
    named = [
        [path, bus, minor, uuids.get(f"/dev/nvidia{minor}")]
        for path, bus, minor, _uuid in fact["found"]
    ]
    return {**fact, "found": named}


def build_seen_fact(
    facts: WatchFacts, what: str, pattern: str, finds: Iterable[str]
) -> dict[str, Any]:
    files = sorted(
        [f.path, *list_found_groups(finds, f.content or "")] for f in facts.globs.get(pattern)
    )
    return {"what": what, "each": pattern, "find": list(finds), "found": files}


def list_found_groups(finds: Iterable[str], text: str) -> list[str | None]:
    return [
        match.group(1) if (match := re.search(find, text, re.MULTILINE)) else None for find in finds
    ]


def plan_watch_removal_by_name(policy: Policy, facts: WatchFacts, why: str, *names: str) -> Plan:
    """Plan the removal of the watches of these names. A watch that was never there costs no
    question.
    """
    watched = [
        (name, units)
        for name, units in WATCHES
        if name in names and facts.files.get(host_service.write_service_drop_in(name)).exists
    ]
    return merge_plans(
        [
            host_service.plan_service_removal(policy, facts.service, name, units, why)
            for name, units in watched
        ]
    )


def plan_watch_removal(policy: Policy, facts: WatchFacts, why: str) -> Plan:
    """Plan the removal of the watch, and with it of what it has set aside."""
    gone = plan_watch_removal_by_name(policy, facts, why, NAME, REFRESH_NAME)
    kept = [f for f in facts.aside.value if f.exists]
    changes: list[transaction.Change] = [
        {"path": f.path, "op": "remove", "expect": f.sha256, "forget": True} for f in kept
    ]
    return Plan(
        gone.differences,
        gone.commands,
        (*gone.changes, *changes),
        diffs=gone.diffs,
        advice=gone.advice,
    )


def digest_watch_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
