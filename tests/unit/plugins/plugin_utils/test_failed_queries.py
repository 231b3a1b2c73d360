# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A query that failed is an error of that query, and never "nothing there": host by host, query by
query, error by error.
"""

from __future__ import annotations

import dataclasses as dc
import itertools
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    holding_messages,
    keeping_messages,
)

from tests.night import leave_rest
from tests.unit import builders
from tests.unit.hosts_of_queries import (
    CRIO_SOCKET,
    ERRORS,
    QUERIED_HOSTS,
    OneBad,
    QueriedHost,
    planned,
    process,
    unit,
)

# ---------------------------------------------------------------- the accessors, one by one

ACCESSES = {
    "file": (queries.ask_for_file("/etc/a", file_places.WHOLE), lambda obs: obs.get_text("/etc/a")),
    "stat": (queries.ask_for_file("/etc/a", content=False), lambda obs: obs.is_there("/etc/a")),
    "dir": (queries.ask_for_directory("/etc/d"), lambda obs: obs.list_directory("/etc/d")),
    "glob": (
        queries.ask_for_glob("/etc/*.toml", file_places.WHOLE),
        lambda obs: obs.list_glob_files("/etc/*.toml"),
    ),
    "paths": (
        queries.ask_for_paths("driver files", ["/usr/lib/*"]),
        lambda obs: obs.get_answer(queries.ask_for_paths("driver files", ["/usr/lib/*"])),
    ),
    "mentioned": (
        queries.ask_for_mentioned_paths("/etc/cdi/*", ("x",)),
        lambda obs: obs.get_answer(queries.ask_for_mentioned_paths("/etc/cdi/*", ("x",))),
    ),
    "tags": (
        queries.ask_for_tags("/etc/a", [[]], {}),
        lambda obs: obs.get_answer(queries.ask_for_tags("/etc/a", [[]], {})),
    ),
    "which": (
        queries.ask_for_program(["runc"]),
        lambda obs: obs.get_answer(queries.ask_for_program(["runc"])).get("found"),
    ),
    "command": (
        queries.ask_for_command(["runc", "--version"]),
        lambda obs: obs.get_command(["runc", "--version"]),
    ),
    "package": (
        queries.ask_for_packages(["containerd"]),
        lambda obs: obs.get_package("containerd"),
    ),
    "units": (
        queries.ask_for_units(["containerd.service"]),
        lambda obs: obs.get_unit("containerd.service"),
    ),
    "whether a unit was asked for": (
        queries.ask_for_units(["containerd.service"]),
        lambda obs: obs.was_unit_asked("containerd.service"),
    ),
    "processes": (queries.ask_for_processes(["containerd"]), lambda obs: obs.processes()),
    "cri": (queries.ask_for_cri("/run/a.sock"), lambda obs: obs.get_cri("/run/a.sock")),
    "http": (
        queries.ask_for_http("/run/a.sock", "/info"),
        lambda obs: obs.get_answer(queries.ask_for_http("/run/a.sock", "/info")),
    ),
    "probe": (
        queries.probe("nvml", "", {}),
        lambda obs: obs.get_answer(queries.probe("nvml", "", {})),
    ),
    "originals": (
        queries.ask_for_originals("/var/lib/gpufleet"),
        lambda obs: obs.get_answer(queries.ask_for_originals("/var/lib/gpufleet")).get("originals"),
    ),
}


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("name", ACCESSES)
def test_an_error_is_no_answer(name: str, kind: str) -> None:
    question, access = ACCESSES[name]
    obs = Observation({}, {question["id"]: {"error": {"kind": kind, "message": ERRORS[kind]}}})
    with pytest.raises(QueryFailed) as caught:
        access(obs)
    assert caught.value.what
    assert (caught.value.why, bool(caught.value.next)) == (ERRORS[kind], True)


@pytest.mark.parametrize(
    ("qid", "message", "sentence"),
    [
        (
            "glob:/etc/containerd/conf.d/*.toml", "/etc/containerd/conf.d: Input/output error",
            "/etc/containerd/conf.d/*.toml: the files of this pattern could not be listed (/etc/containerd/conf.d: Input/output error)",
        ),
        (
            "cri:Status:/run/a.sock", "no answer within 5 s",
            "/run/a.sock: the engine does not answer over CRI (no answer within 5 s)",
        ),
        (
            "processes:containerd", "more than 1024 processes are called containerd",
            "the processes of this host could not be listed (more than 1024 processes are called containerd)",
        ),
    ],
)  # fmt: skip
def test_the_sentence_says_what_where_why_and_what_next(
    qid: str, message: str, sentence: str
) -> None:
    obs = Observation({}, {qid: {"error": {"kind": "failed", "message": message}}})
    with pytest.raises(QueryFailed) as caught:
        obs.get_answer({"id": qid})
    assert str(caught.value) == f"{sentence}. {caught.value.next} [query.failed]"


# ---------------------------------------------------------------- whole hosts


ALL = {"device_nodes": "present", "cdi_refresh": "watch"}
BY_NIGHT = pytest.mark.nightly(
    "each query of a host fails for each cause; by day on a host with all options, and on a CRI-O"
)
OTHERS = [(name, {}) for name in QUERIED_HOSTS if name != "CRI-O"]
# What the planner can do without, and says why where it does.
DISPENSABLE = {"probe:nvml": "nvidia-smi is asked next, and /proc names the devices in the end"}


@pytest.mark.parametrize(
    ("name", "options"),
    leave_rest(BY_NIGHT, [("containerd 2.1", ALL), ("CRI-O", {}), *OTHERS], by_day=2),
)
def test_no_failed_query_leads_to_another_plan(name: str, options: dict[str, Any]) -> None:
    """Over every query of the look and of what follows it: the very same plan, or none. It may say
    more: what it could not judge.
    """
    host = QUERIED_HOSTS[name]
    good = planned(host, **options)
    assert good.plan is not None, good.said
    assert good.plan.changes
    others = []
    for qid, kind in zip(good.asked, itertools.cycle(ERRORS), strict=False):
        came = planned(host, qid, kind, **options)
        if came.plan is not None and judged(came.plan) != good.plan and qid not in DISPENSABLE:
            others.append((qid, kind))
    assert others == []


def converge(host: QueriedHost) -> QueriedHost:
    """Return the host with the whole files that its plan writes."""
    came = planned(host)
    assert came.plan is not None
    written = {c["path"]: c["content"] for c in came.plan.changes if "content" in c}
    return dc.replace(host, files={**host.files, **written})


@pytest.mark.parametrize("name", leave_rest(BY_NIGHT, ["containerd 2.1", "CRI-O", "Docker"]))
def test_no_failed_query_leads_to_another_removal(name: str) -> None:
    """The plan takes back the same, or nothing, since the answer could have named a program that
    needs it.
    """
    host = converge(QUERIED_HOSTS[name])
    good = planned(host, state="absent")
    assert good.plan is not None, good.said
    assert good.plan.changes
    came = {
        qid: planned(host, qid, kind, state="absent")
        for qid, kind in zip(good.asked, itertools.cycle(ERRORS), strict=False)
    }
    others = [
        qid for qid, one in came.items() if one.plan is not None and judged(one.plan) != good.plan
    ]
    assert others == []


def judged(plan: Plan) -> Plan:
    """Return the plan without the sentences on what could not be judged, for the query that failed:
    rows of the table of known-bad combinations, what keeps the driver in place, and whether a hold
    is left.
    """
    unjudged = (
        "docs/known-bad.md could not be judged",
        keeping_messages.NOT_CHECKED.what,
        holding_messages.NOT_WITHDRAWN.what.partition("{")[0],
    )
    said = [text for text in plan.advice if not any(words in text for words in unjudged)]
    return dc.replace(plan, advice=tuple(said))


def matched(host: QueriedHost, asked: tuple[str, ...]) -> list[str]:
    """The files that the patterns of a look match."""
    found = builders.Answers(host.files, {})
    return sorted(
        {f["path"] for qid in asked if qid.startswith("glob:") for f in found[qid]["files"]}
    )


@pytest.mark.parametrize(
    ("name", "options"), [*((name, {}) for name in QUERIED_HOSTS), ("containerd 2.1", ALL)]
)
def test_no_file_that_cannot_be_looked_at_leads_to_another_plan(
    name: str, options: dict[str, Any]
) -> None:
    host = QUERIED_HOSTS[name]
    good = planned(host, **options)
    paths = matched(host, good.asked)
    assert "/dev/nvidia0" in paths
    came = {path: planned(OneBad(host, path), **options) for path in paths}
    assert [path for path, c in came.items() if c.plan is not None and c.plan != good.plan] == []


DEAD = {"error": {"kind": "timeout", "message": "no answer within 5 s"}}


def with_silent_docker(host: QueriedHost) -> QueriedHost:
    docker = QUERIED_HOSTS["Docker"]
    return dc.replace(
        host,
        files={**host.files, **docker.files},
        processes=(*host.processes, *docker.processes),
        units={**host.units, **docker.units},
        http={"/info": DEAD},
    )


def test_an_engine_that_hangs_is_left_alone_and_named_and_the_others_go_on() -> None:
    both, alone = (
        planned(with_silent_docker(QUERIED_HOSTS["containerd 1.7"])),
        planned(QUERIED_HOSTS["containerd 1.7"]),
    )
    assert both.plan is not None
    assert alone.plan is not None
    paths = [{c["path"] for c in plan.changes} for plan in (both.plan, alone.plan)]
    assert paths[0] == paths[1]
    assert [
        a
        for a in both.plan.advice
        if a.startswith("Docker runs, but does not answer at /var/run/docker.sock")
    ]


def test_a_second_containerd_that_hangs_is_left_alone_and_named_and_the_first_goes_on() -> None:
    first = QUERIED_HOSTS["containerd 1.7"]
    config, socket = "/srv/second.toml", "/run/second.sock"
    second = {
        **process("/usr/bin/containerd", "second.service", 17),
        "argv": ["containerd", "-c", config, "-a", socket],
    }
    host = dc.replace(
        first,
        files={**first.files, config: "version = 2\n"},
        processes=(*first.processes, second),
        units={**first.units, "second.service": unit(17)},
        cri={**first.cri, f"Status:{socket}": DEAD, f"Version:{socket}": DEAD},
    )
    both = planned(host)
    assert both.plan is not None, both.said
    assert "/etc/containerd/config.toml" in {c["path"] for c in both.plan.changes}
    assert config not in {c["path"] for c in both.plan.changes}
    assert [
        a
        for a in both.plan.advice
        if a.startswith(
            f"containerd runs, but its CRI does not answer at {socket} (no answer within 5 s)"
        )
    ]


@pytest.mark.parametrize(
    ("name", "qid", "sentence"),
    [
        (
            "containerd 1.7",
            "cri:Status:/run/containerd/containerd.sock",
            "containerd runs, but its CRI does not answer",
        ),
        (
            "CRI-O",
            f"cri:Version:{CRIO_SOCKET}",
            f"CRI-O runs, but does not answer at {CRIO_SOCKET} (the time for the whole observation",
        ),
        (
            "Docker",
            "http:/var/run/docker.sock/info",
            "Docker runs, but does not answer at /var/run/docker.sock",
        ),
    ],
)
def test_a_host_whose_only_engine_hangs_is_refused(name: str, qid: str, sentence: str) -> None:
    came = planned(QUERIED_HOSTS[name], qid, "timeout")
    assert came.plan is None
    assert sentence in came.said
