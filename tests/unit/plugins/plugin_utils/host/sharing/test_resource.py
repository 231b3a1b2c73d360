# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sharing on a host, case by case: what is set, what stays on the host, what is refused, and what
is given back.
"""

from __future__ import annotations

import json
from collections import ChainMap
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Kubelet,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    gpu_holders,
    modes,
    resource,
)

from tests.unit.builders import file_answer, obs
from tests.unit.gpus import host, information
from tests.unit.written_files import map_written_files

# Four GPUs, as in the figure of a host with dedicated and shared ones.
UUIDS = tuple(f"GPU-{n}{n}{n}{n}{n}{n}{n}{n}-0000-5000-8000-00000000000{n}" for n in range(4))
BUSES = ("0000:17:00.0", "0000:43:00.0", "0000:65:00.0", "0000:9d:00.0")
MODEL = "NVIDIA H100 80GB HBM3"
PROGRAM = transport.map_resident_sources()[resource.PROGRAM_NAME]
NO_KUBELET = Kubelet()
QUERY, SLICES = " ".join(modes.QUERY), " ".join(modes.SLICES)
ONE = {UUIDS[0]: {"dedicated": {"exclusive": True}}}
FIGURE: dict[str, Any] = {
    **{UUIDS[n]: {"time_slicing": {"interval": "short"}} for n in (0, 1, 3)},
    UUIDS[2]: {"dedicated": {"exclusive": True}},
}


def rows(*computing: str, mig: str = "Disabled") -> str:
    found = [*computing, *["Default"] * (4 - len(computing))]
    return "".join(
        f"{n}, {UUIDS[n]}, 0000{BUSES[n].upper()}, {mode}, {mig}\n" for n, mode in enumerate(found)
    )


def table(*intervals: str) -> str:
    found = [*intervals, *["Default"] * (4 - len(intervals))]
    return "".join(f"|   {n}     TimeSlice        {value:<10} |\n" for n, value in enumerate(found))


def look(
    *,
    computing: str | dict[str, Any] = "",
    slices: Any = "",
    files: dict[str, Any] | None = None,
    held: Any = (),
    closed: int = 0,
) -> Observation:
    proc = {
        f"/proc/driver/nvidia/gpus/{bus}/information": information(bus, n, UUIDS[n])
        for n, bus in enumerate(BUSES)
    }
    said = {QUERY: computing or rows(), SLICES: slices or table()}
    return obs(
        files={**host(2), **proc, **(files or {})},
        commands=said,
        units={resource.SERVICE: {}},
        answers={gpu_holders.HOLDERS["id"]: {"held": list(held), "closed": closed}},
    )


def planned(
    sharing: dict[str, Any] | None, seen: Observation, kubelet: Kubelet = NO_KUBELET
) -> Plan:
    policy = Policy(sharing=sharing)
    return resource.plan_sharing(
        policy,
        resource.read_sharing_facts(policy, seen),
        driver_state.read_driver(policy, seen),
        kubelet,
        PROGRAM,
    )


def differing(plan: Plan) -> list[tuple[str, str, str, str]]:
    return [(d.path, d.key, d.before, d.after) for d in plan.differences if d.what == "mode"]


def test_the_figure_of_the_original_document() -> None:
    """GPUs 0, 1 and 3 are shared, 2 is dedicated."""
    plan = planned(FIGURE, look())
    assert differing(plan) == [
        (UUIDS[0], "time slice", "default", "short"),
        (UUIDS[1], "time slice", "default", "short"),
        (UUIDS[3], "time slice", "default", "short"),
        (UUIDS[2], "compute mode", "DEFAULT", "EXCLUSIVE_PROCESS"),
    ]
    assert [(c["argv"], c["undo"]) for c in plan.commands][2:] == [
        (
            ["nvidia-smi", "compute-policy", "-i", UUIDS[3], "--set-timeslice", "1"],
            ["nvidia-smi", "compute-policy", "-i", UUIDS[3], "--set-timeslice", "0"],
        ),
        (
            ["nvidia-smi", "-i", UUIDS[2], "-c", "EXCLUSIVE_PROCESS"],
            ["nvidia-smi", "-i", UUIDS[2], "-c", "DEFAULT"],
        ),
    ]
    assert sorted(map_written_files(plan)) == sorted(resource.PATHS)
    assert [(r.unit, r.action) for r in plan.restarts] == [(resource.SERVICE, "start")]
    kept = json.loads(map_written_files(plan)[resource.SETTINGS])
    assert kept["policies"] == {
        **{UUIDS[n]: "time_slicing (short)" for n in (0, 1, 3)},
        UUIDS[2]: "dedicated (exclusive)",
    }

    after = look(
        computing=rows("Default", "Default", "Exclusive_Process"),
        slices=table("Short", "Short", "Default", "Short"),
        files=map_written_files(plan),
    )
    assert planned(FIGURE, after) == Plan()


def test_a_host_without_the_option_is_asked_nothing() -> None:
    assert resource.list_questions(Policy()) == []
    assert planned(None, look()) == Plan()
    asked = [q["id"] for q in resource.list_questions(Policy(sharing=ONE))]
    assert f"command:{QUERY}" in asked
    assert f"command:{SLICES}" not in asked  # where no time slice counts


WHOLE = {UUIDS[n]: {"time_slicing": {}} for n in range(4)}
NAMED: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "by UUID, in any case",
        {UUIDS[1].lower().replace("gpu", "GPU"): {"dedicated": {"exclusive": True}}},
        [UUIDS[1]],
    ),
    ("by PCI address", {"0000:9D:00.0": {"dedicated": {"exclusive": True}}}, [UUIDS[3]]),
    (
        "by PCI address as nvidia-smi writes it",
        {"00000000:9d:00.0": {"dedicated": {"exclusive": True}}},
        [UUIDS[3]],
    ),
    ("by index", {"2": {"dedicated": {"exclusive": True}}}, [UUIDS[2]]),
    ("by product", {MODEL: {"dedicated": {"exclusive": True}}}, list(UUIDS)),
]


@pytest.mark.parametrize(("sharing", "named"), [c[1:] for c in NAMED], ids=[c[0] for c in NAMED])
def test_how_a_gpu_is_named(sharing: dict[str, Any], named: list[str]) -> None:
    plan = planned(sharing, look())
    assert [path for path, _key, _before, _after in differing(plan)] == named
    index = ("sharing.named-by-index", {"index": "2", "uuid": UUIDS[2]})
    assert advised(plan) == ([index] if "2" in sharing else [])


def advised(plan: Plan) -> list[tuple[str, dict[str, Any]]]:
    """Return the codes of a plan's advice, with their values."""
    assert all(isinstance(text, Message) for text in plan.advice)
    return [(text.code, dict(text.values)) for text in plan.advice if isinstance(text, Message)]


GRES = "NodeName=a Name=gpu File=/dev/nvidia[0-3]\n{}Name=shard Count=8\n"
HERE = ", ".join(f"{uuid} ({bus})" for uuid, bus in zip(UUIDS, BUSES, strict=True))
PRESENT = {"option": "gpufleet_sharing", "gpus": HERE, "products": "NVIDIA H100 80GB HBM3"}
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str, dict[str, Any]]] = [
    # the option, what differs on the host, the code of the refusal, its values
    (
        {"0000:b3:00.0": "dedicated"},
        {},
        "no-such-gpu-or-product",
        {**PRESENT, "key": "0000:b3:00.0"},
    ),
    ({"NVIDIA L4": "dedicated"}, {}, "no-such-gpu-or-product", {**PRESENT, "key": "NVIDIA L4"}),
    ({"4": "dedicated"}, {}, "no-such-gpu-or-product", {**PRESENT, "key": "4"}),
    (
        {UUIDS[1]: "dedicated", BUSES[1]: "time_slicing"},
        {},
        "two-entries",
        {"first": UUIDS[1], "second": BUSES[1], "gpu": f"{UUIDS[1]} ({BUSES[1]})"},
    ),
    (
        ONE,
        {"computing": rows(mig="Enabled")},
        "mig-on",
        {"key": UUIDS[0], "gpu": f"{UUIDS[0]} ({BUSES[0]})"},
    ),
    (
        ONE,
        {"files": {"/etc/slurm/gres.conf": GRES.format("")}},
        "shared-by-slurm",
        {"kind": "shard"},
    ),
    (
        ONE,
        {"computing": {"rc": 9, "stdout": "", "stderr": ""}},
        "modes-failed",
        {"command": QUERY, "status": 9},
    ),
    (
        ONE,
        {"computing": "0, GPU-1, x\n"},
        "modes-not-understood",
        {"line": "'0, GPU-1, x'", "command": QUERY},
    ),
    (ONE, {"computing": "\n"}, "no-modes-printed", {"command": QUERY}),
    (
        FIGURE,
        {"slices": "compute policies are not supported\n"},
        "no-time-slice",
        {"gpu": f"{UUIDS[0]} ({BUSES[0]})", "command": "nvidia-smi compute-policy --list"},
    ),
]


@pytest.mark.parametrize(
    ("sharing", "changes", "code", "values"), REFUSED, ids=[f"{c[2]} {c[0]}" for c in REFUSED]
)
def test_what_is_refused_on_a_host(
    sharing: dict[str, Any], changes: dict[str, Any], code: str, values: dict[str, Any]
) -> None:
    with pytest.raises(PlanError) as refused:
        planned(sharing, look(**changes))
    assert (refused.value.code, refused.value.values) == (f"sharing.{code}", values)
    assert refused.value.where == next(iter(changes.get("files", ())), "")


def test_a_comment_of_slurm_says_nothing() -> None:
    assert differing(planned(ONE, look(files={"/etc/slurm/gres.conf": GRES.format("# ")})))


def test_a_node_of_kubernetes_is_refused() -> None:
    with pytest.raises(PlanError, match=r"\[sharing.kubelet-runs\]"):
        planned(ONE, look(), Kubelet(present=True))


SHARED = {MODEL: {"time_slicing": {"replicas": 4}}}


def test_what_a_device_plugin_shares_has_no_mode_on_the_host() -> None:
    """nvidia-smi is not asked, and what an earlier run set goes."""
    policy, seen = Policy(sharing=SHARED), look()
    assert not {modes.MODES["id"], modes.TIME_SLICES["id"]} & {
        str(q["id"]) for q in resource.list_questions(policy)
    }
    assert planned(SHARED, seen, Kubelet(present=True)).empty
    kept = look(
        files={
            path: file_answer(text)
            for path, text in map_written_files(
                planned(ONE, look(computing=rows("Default")))
            ).items()
        }
    )
    assert {c["op"] for c in planned(SHARED, kept, Kubelet(present=True)).changes} == {"remove"}


BY_PLUGIN: list[tuple[dict[str, Any], Kubelet, str, dict[str, Any]]] = [
    *(
        ({MODEL: {policy: {"replicas": 4}}}, NO_KUBELET, "replicas-without-kubelet", {})
        for policy in ("time_slicing", "mps")
    ),
    (
        {UUIDS[0]: SHARED[MODEL]},
        Kubelet(present=True),
        "gpu-left-out",
        {"option": "gpufleet_sharing", "gpu": BUSES[1], "model": MODEL},
    ),
    (
        {**SHARED, "Tesla T4": SHARED[MODEL]},
        Kubelet(installed=True),
        "no-such-gpu-or-product",
        {**PRESENT, "key": "Tesla T4"},
    ),
]


@pytest.mark.parametrize(
    ("sharing", "kubelet", "code", "values"), BY_PLUGIN, ids=[f"{c[2]} {c[0]}" for c in BY_PLUGIN]
)
def test_what_no_device_plugin_could_do_is_refused(
    sharing: dict[str, Any], kubelet: Kubelet, code: str, values: dict[str, Any]
) -> None:
    with pytest.raises(PlanError) as refused:
        planned(sharing, look(), kubelet)
    assert (refused.value.code, refused.value.values) == (f"sharing.{code}", values)


def test_a_driver_that_does_not_serve_is_waited_for() -> None:
    proc = {f"/proc/driver/nvidia/gpus/{bus}/information": None for bus in BUSES}
    plan = planned(
        ONE,
        look(
            files={**proc, "/sys/module/nvidia/version": None, "/proc/driver/nvidia/version": None}
        ),
    )
    assert plan.empty
    assert [code for code, _values in advised(plan)] == ["sharing.waits-for-driver"]


def settled(sharing: dict[str, Any], found: Observation) -> dict[str, Any]:
    return map_written_files(planned(sharing, found))


def test_a_gpu_that_leaves_the_option_gets_its_mode_back() -> None:
    first = settled(
        {**ONE, UUIDS[1]: {"dedicated": {"exclusive": True}}},
        look(computing=rows("Exclusive_Thread")),
    )
    now = look(computing=rows("Exclusive_Process", "Exclusive_Process"), files=first)
    plan = planned({UUIDS[1]: {"dedicated": {"exclusive": True}}}, now)
    assert differing(plan) == [(UUIDS[0], "compute mode", "EXCLUSIVE_PROCESS", "EXCLUSIVE_THREAD")]
    assert json.loads(map_written_files(plan)[resource.SETTINGS])["before"] == [
        [UUIDS[1], "compute mode", "DEFAULT"]
    ]


def test_what_was_found_first_is_kept_through_changes_and_boots() -> None:
    first = settled(ONE, look(computing=rows("Exclusive_Thread")))
    # the driver has forgotten, and the unit has not run
    booted = look(computing=rows("Default"), files=first)
    again = planned(ONE, booted)
    assert differing(again) == [(UUIDS[0], "compute mode", "DEFAULT", "EXCLUSIVE_PROCESS")]
    assert map_written_files(again) == {}
    shared = planned(
        {UUIDS[0]: "time_slicing"}, look(computing=rows("Exclusive_Process"), files=first)
    )
    assert json.loads(map_written_files(shared)[resource.SETTINGS])["before"] == [
        [UUIDS[0], "compute mode", "EXCLUSIVE_THREAD"]
    ]


def without(number: int, text: str) -> str:
    """What nvidia-smi prints where a GPU has fallen off the bus."""
    return "".join(line for line in text.splitlines(keepends=True) if UUIDS[number] not in line)


BY_PRODUCT: dict[str, Any] = {MODEL: {"dedicated": {"exclusive": True}}}
EXCLUSIVE = rows(*["Exclusive_Process"] * 4)


@pytest.mark.parametrize(
    "after", [BY_PRODUCT, ONE], ids=["named by its product", "left out meanwhile"]
)
def test_the_first_mode_of_a_gpu_that_is_away_stays_known(after: dict[str, Any]) -> None:
    first = settled(
        BY_PRODUCT, look(computing=rows("Default", "Default", "Default", "Exclusive_Thread"))
    )
    away = look(computing=without(3, EXCLUSIVE), files=first)
    meanwhile = {**first, **settled(after, away)}
    kept = json.loads(meanwhile[resource.SETTINGS])
    assert [UUIDS[3], "compute mode", "EXCLUSIVE_THREAD"] in kept["before"]
    assert not any(UUIDS[3] in setting["name"] for setting in kept["settings"])
    taken_back = resource.plan_absent(
        Policy(state="absent"),
        resource.read_sharing_facts(
            Policy(state="absent"), look(computing=EXCLUSIVE, files=meanwhile)
        ),
    )
    assert (UUIDS[3], "compute mode", "EXCLUSIVE_PROCESS", "EXCLUSIVE_THREAD") in differing(
        taken_back
    )
    assert taken_back.advice == ()
    gone = resource.plan_absent(
        Policy(state="absent"),
        resource.read_sharing_facts(
            Policy(state="absent"), look(computing=without(3, EXCLUSIVE), files=meanwhile)
        ),
    )
    assert advised(gone) == [
        (
            "sharing.gpu-away",
            {"gpu": UUIDS[3], "setting": "compute mode", "before": "EXCLUSIVE_THREAD"},
        )
    ]


CLOSED = [
    # the option, whether it would change a GPU's mode
    (ONE, True),
    ({UUIDS[0]: "time_slicing"}, True),
    ({UUIDS[0]: {"time_slicing": {"interval": "short"}}}, True),
    ({UUIDS[0]: "dedicated"}, False),
]


@pytest.mark.parametrize(
    ("sharing", "asked"), CLOSED, ids=[json.dumps(sharing) for sharing, _asked in CLOSED]
)
def test_a_gpu_that_somebody_has_closed_stays_closed(sharing: dict[str, Any], asked: bool) -> None:
    """Found closed, closed after the option was set, and when all is taken back."""
    whole = {**sharing, UUIDS[1]: {"dedicated": {"exclusive": True}}}
    plan = planned(whole, look(computing=rows("Prohibited")))
    assert differing(plan) == [(UUIDS[1], "compute mode", "DEFAULT", "EXCLUSIVE_PROCESS")]
    closed = (
        "sharing.gpu-closed",
        {"gpu": f"{UUIDS[0]} ({BUSES[0]})", "uuid": UUIDS[0], "before": "DEFAULT"},
    )
    assert advised(plan) == [closed] * asked
    files = settled(whole, look())
    since = look(
        computing=rows("Prohibited", "Exclusive_Process"), slices=table("Short"), files=files
    )
    again = planned(whole, since)
    assert differing(again) == []
    assert UUIDS[0] not in json.dumps(
        json.loads({**files, **map_written_files(again)}[resource.SETTINGS])["settings"]
    )
    assert (
        json.loads({**files, **map_written_files(again)}[resource.SETTINGS])["before"]
        == json.loads(files[resource.SETTINGS])["before"]
    )
    back = resource.plan_absent(
        Policy(state="absent"), resource.read_sharing_facts(Policy(state="absent"), since)
    )
    assert [path for path, _key, _before, _after in differing(back)] == [UUIDS[1]]
    assert bool(back.advice) is asked


def test_what_was_there_before_a_closed_gpu_is_named_where_all_is_taken_back() -> None:
    """Nobody else remembers it: our file goes."""
    whole = {UUIDS[0]: {"time_slicing": {}}}
    files = settled(whole, look(computing=rows("Exclusive_Process")))
    back = resource.plan_absent(
        Policy(state="absent"),
        resource.read_sharing_facts(
            Policy(state="absent"), look(computing=rows("Prohibited"), files=files)
        ),
    )
    assert [(code, values["uuid"], values["before"]) for code, values in advised(back)] == [
        ("sharing.gpu-closed", UUIDS[0], "EXCLUSIVE_PROCESS")
    ]


def test_a_gpu_with_mig_on_has_no_mode_that_could_be_set_back() -> None:
    files = settled(ONE, look())
    divided = look(computing=rows("Exclusive_Process", mig="Enabled"), files=files)
    back = resource.plan_absent(
        Policy(state="absent"), resource.read_sharing_facts(Policy(state="absent"), divided)
    )
    assert differing(back) == []
    assert advised(back) == [
        (
            "sharing.gpu-divided",
            {"gpu": f"{UUIDS[0]} ({BUSES[0]})", "setting": "compute mode", "before": "DEFAULT"},
        )
    ]


IN_USE = [
    # who has the first GPU's node open as it becomes exclusive, and what is said
    ([], ()),
    ([[7, ["1"], "/a"]], ()),
    (
        [[8, ["0"], "/a"], [7, ["0", "1"], "/a"], [9, ["0"], ""]],
        ("/ (process 9), /a (processes 7, 8)",),
    ),
    ([[9, ["0"], "/system.slice/system-gpufleet\\x2dmps.slice/gpufleet-mps@GPU.service"]], ()),
]


@pytest.mark.parametrize(("held", "users"), IN_USE)
def test_who_has_a_gpu_that_becomes_exclusive_is_named(held: Any, users: tuple[str, ...]) -> None:
    plan = planned(ONE, look(held=held))
    assert advised(plan) == [
        ("sharing.becomes-exclusive", {"gpu": UUIDS[0], "users": of}) for of in users
    ]
    assert (
        planned(
            ONE, look(computing=rows("Exclusive_Process"), files=settled(ONE, look()), held=held)
        ).advice
        == ()
    )


def test_a_driver_that_is_not_understood_is_no_driver_that_has_forgotten() -> None:
    """It may have the modes still, and only our file says what was there before."""
    seen = look(computing="No devices were found\n", files=settled(FIGURE, look()))
    with pytest.raises(PlanError) as refused:
        resource.plan_absent(
            Policy(state="absent"), resource.read_sharing_facts(Policy(state="absent"), seen)
        )
    assert (refused.value.code, refused.value.values["line"]) == (
        "sharing.modes-not-understood",
        "'No devices were found'",
    )


def test_hidden_users_of_a_gpu_that_becomes_exclusive_are_not_taken_for_none() -> None:
    ((code, values),) = advised(planned(ONE, look(closed=2)))
    assert (code, get_code(values["problem"])) == (
        "sharing.users-unknown",
        "sharing.closed-processes",
    )
    assert values["problem"].values == {"processes": "2 processes"}


def test_a_look_at_users_that_failed_is_advice() -> None:
    first = look()
    failed = {gpu_holders.HOLDERS["id"]: {"error": {"kind": "timeout", "message": "no time"}}}
    seen = Observation(first.host, ChainMap(failed, first.answers))  # type: ignore[arg-type]
    plan = planned(ONE, seen)
    assert plan.commands == planned(ONE, first).commands
    ((code, values),) = advised(plan)
    assert (code, get_code(values["problem"])) == ("sharing.users-unknown", "sharing.look-failed")
    assert values["problem"].values == {"problem": "no time"}


@pytest.mark.parametrize("gone", [False, True], ids=["the driver serves", "the driver is gone"])
def test_all_is_given_back(gone: bool) -> None:
    files = settled(FIGURE, look())
    said = {"rc": 9, "stdout": "", "stderr": ""}
    now = look(
        computing=said if gone else rows("Default", "Default", "Exclusive_Process"),
        slices=said if gone else table("Short", "Short", "Default", "Short"),
        files=files,
    )
    for policy in (Policy(state="absent"), Policy(sharing={})):
        back = resource.plan_absent(policy, resource.read_sharing_facts(policy, now))
        assert {str(c["path"]) for c in back.changes} == set(resource.PATHS)
        slices = [(UUIDS[n], "time slice", "short", "default") for n in (0, 1, 3)]
        expected = [
            *slices[:2],
            (UUIDS[2], "compute mode", "EXCLUSIVE_PROCESS", "DEFAULT"),
            slices[2],
        ]
        assert differing(back) == ([] if gone else expected)
        assert bool(back.advice) is gone
    assert resource.plan_absent(
        Policy(state="absent"), resource.read_sharing_facts(Policy(state="absent"), look())
    ).empty


def test_absent_asks_for_modes_only_where_some_were_set() -> None:
    # in the first look
    assert {q["id"] for q in resource.list_questions(Policy(state="absent"))} >= {
        f"file:{path}" for path in resource.PATHS
    }
    nothing = obs(files=host(2), units={resource.SERVICE: {}})
    assert resource.plan_absent(
        Policy(state="absent"), resource.read_sharing_facts(Policy(state="absent"), nothing)
    ).empty
    there = obs(files={**host(2), **settled(ONE, look())}, units={resource.SERVICE: {}})
    with pytest.raises(NeedMore) as need:
        resource.plan_absent(
            Policy(state="absent"), resource.read_sharing_facts(Policy(state="absent"), there)
        )
    assert [q["id"] for q in need.value.questions] == [f"command:{QUERY}"]


def test_a_gpu_that_does_not_answer_keeps_no_engine_from_starting() -> None:
    """No signal ends a process that waits in the kernel, and a unit of this type waits for it
    without a limit unless it has one.
    """
    unit = resource.name_sharing_unit().splitlines()
    assert {"Type=oneshot", "TimeoutStartSec=180", "TimeoutStopSec=10"} <= set(unit)
    assert any(line.startswith("Before=") and "containerd.service" in line for line in unit)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        "[" * 100_000,
        "1" * 5_000,
        '{"before": 7}',
        '{"before": [["GPU-1", "compute mode", "; reboot"]]}',
    ],
)
def test_a_broken_record_is_an_error_with_a_way_out(text: str) -> None:
    """Without it the modes would stay forever, and nobody would be told."""
    answer = file_answer(text)
    with pytest.raises(PlanError) as refused:
        resource.map_original_modes(
            resource.read_sharing_facts(Policy(), obs(files={resource.SETTINGS: answer}))
        )
    assert (refused.value.code, refused.value.where) == ("sharing.record-broken", resource.SETTINGS)


def test_a_record_that_was_removed_is_said_and_made_again() -> None:
    first = settled(ONE, look(computing=rows("Exclusive_Thread")))
    files = {path: answer for path, answer in first.items() if path != resource.SETTINGS}
    found = look(computing=rows("Exclusive_Process"), files=files)
    again = planned(ONE, found)
    assert json.loads(map_written_files(again)[resource.SETTINGS])["before"] == [
        [UUIDS[0], "compute mode", "DEFAULT"]
    ]
    assert [code for code, _values in advised(again)] == ["sharing.record-lost"]
    back = resource.plan_absent(
        Policy(state="absent"), resource.read_sharing_facts(Policy(state="absent"), found)
    )
    assert (differing(back), [code for code, _values in advised(back)]) == (
        [],
        ["sharing.record-lost-absent"],
    )
