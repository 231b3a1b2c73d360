# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MPS on a host without Kubernetes, case by case: which daemons begin, begin again and end, what is
refused, and what is given back.
"""

from __future__ import annotations

import json
from collections import ChainMap
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import rollback
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
    mps,
    mps_ends,
    mps_facts,
    mps_files,
    resource,
)

from tests.unit.builders import obs
from tests.unit.gpus import BUSES, UUIDS, host
from tests.unit.written_files import map_written_files

PROGRAM = transport.map_resident_sources()[mps_files.PROGRAM_NAME]
QUERY, MEMORY = " ".join(modes.QUERY), " ".join(mps_facts.MEMORY["argv"])
ONE: dict[str, Any] = {UUIDS[0]: {"mps": {"clients": 4}}}
TWO: dict[str, Any] = {**ONE, UUIDS[1]: {"mps": {"memory": "8G"}}}
CONTROL = "/usr/bin/nvidia-cuda-mps-control"
UNITS = [mps_files.name_mps_service(uuid) for uuid in UUIDS]
FILES = ["/etc/gpufleet/mps.json", "/usr/local/libexec/gpufleet/mps.py"]
TEXTS = [
    f"/etc/systemd/system/{name}"
    for name in (*mps_files.TEMPLATES, "multi-user.target.d/gpufleet-mps.conf")
]


def look(
    *,
    mode: str = "Default",
    mig: str = "Disabled",
    control: bool = True,
    files: dict[str, Any] | None = None,
    active: tuple[int, ...] = (),
    held: Any = (),
    closed: int = 0,
    **more: Any,
) -> Observation:
    rows = "".join(f"{n}, {UUIDS[n]}, 0000{BUSES[n]}, {mode}, {mig}\n" for n in (0, 1))
    said = {QUERY: rows, MEMORY: f"{UUIDS[0]}, 81559\n{UUIDS[1]}, 81559\n"}
    units = {
        name: {"ActiveState": "active" if n in active else "inactive"}
        for n, name in enumerate(UNITS)
    }
    there = {**host(2), **({CONTROL: ""} if control else {}), **(files or {})}
    return obs(
        files=there,
        commands=said,
        units=units,
        answers={gpu_holders.HOLDERS["id"]: {"held": list(held), "closed": closed}},
        **more,
    )


def planned(
    sharing: dict[str, Any], seen: Observation, kubelet: Kubelet | None = None, **more: Any
) -> Plan:
    policy = Policy(sharing=sharing, **more)
    return resource.plan_sharing(
        policy,
        resource.read_sharing_facts(policy, seen),
        driver_state.read_driver(policy, seen),
        kubelet or Kubelet(),
        "the modes' program",
        PROGRAM,
    )


def acts(plan: Plan) -> list[tuple[str, str]]:
    return [(r.action, r.unit) for r in plan.restarts]


def limits(plan: Plan) -> dict[str, list[str]]:
    return {
        gpu: [limit["set"] for limit in of["limits"]]
        for gpu, of in json.loads(map_written_files(plan)[mps_files.SETTINGS])["daemons"].items()
    }


def test_a_daemon_for_each_gpu_after_its_mode() -> None:
    """As NVIDIA's device plugin does it: nobody goes past the daemon, and clients have equal parts."""
    plan = planned(TWO, look())
    assert [c["argv"][0] for c in plan.commands] == [
        "install",
        "install",
        "install",
        "nvidia-smi",
        "nvidia-smi",
    ]
    assert [c["argv"] for c in plan.commands[3:]] == [
        ["nvidia-smi", "-i", uuid, "-c", "EXCLUSIVE_PROCESS"] for uuid in UUIDS[:2]
    ]
    assert acts(plan) == [("start", resource.SERVICE), ("start", UNITS[0]), ("start", UNITS[1])]
    assert {*FILES, *TEXTS} <= map_written_files(plan).keys()
    assert limits(plan) == {
        UUIDS[0]: [
            "set_default_active_thread_percentage 25",
            "set_default_device_pinned_mem_limit 0 20389M",
        ],
        UUIDS[1]: ["set_default_device_pinned_mem_limit 0 8192M"],
    }
    assert f"Wants={UNITS[0]} {UNITS[1]}\n" in map_written_files(plan)[TEXTS[2]]
    again = planned(
        TWO, look(mode="Exclusive_Process", files=map_written_files(plan), active=(0, 1))
    )
    assert again == Plan()


def test_a_daemon_that_is_taken_back_leaves_nothing_behind() -> None:
    """The mount goes first, then the directory that it was on, then the one above, if nothing else
    is in it.
    """
    undone = [
        c["undo"] for c in reversed(planned(ONE, look()).commands) if c["argv"][0] == "install"
    ]
    place, log = f"/run/gpufleet-mps/{UUIDS[0]}", f"/var/lib/gpufleet-mps/{UUIDS[0]}"
    assert undone == [
        ["umount", "--lazy", "--", f"{place}/pipe", f"{place}/shm", log],
        ["rm", "-rf", "--one-file-system", "--", place, log],
        ["rmdir", "--ignore-fail-on-non-empty", "--", "/run/gpufleet-mps", "/var/lib/gpufleet-mps"],
    ]


def test_an_undo_that_finds_nothing_mounted_is_none_that_failed() -> None:
    """A daemon whose directories could not be made has mounted none of them, or some."""
    (unmount,) = [c for c in planned(ONE, look()).commands if c["undo"][0] == "umount"]
    paths = unmount["undo"][unmount["undo"].index("--") + 1 :]
    added = {32 * count for count in range(1, len(paths) + 1)}  # what umount ends with then
    assert added == {32, 64, 96}
    assert added <= {*unmount["undo_accepts"]}
    assert {1, 2, 16} & {*unmount["undo_accepts"]} == set()


def test_the_daemons_see_their_gpu_alone_and_begin_before_engines() -> None:
    told = json.loads(map_written_files(planned(ONE, look()))[mps_files.SETTINGS])
    assert told["environment"] == {
        "CUDA_VISIBLE_DEVICES": "NAME",
        "CUDA_MPS_PIPE_DIRECTORY": "/run/gpufleet-mps/NAME/pipe",
        "CUDA_MPS_LOG_DIRECTORY": "/var/lib/gpufleet-mps/NAME",
    }
    unit = mps_files.render_mps_units()[mps_files.TEMPLATE]
    before = next(line for line in unit.splitlines() if line.startswith("Before="))
    assert {"containerd.service", "docker.service", "crio.service"} <= set(
        before.partition("=")[2].split()
    )
    assert resource.SERVICE in next(line for line in unit.splitlines() if line.startswith("After="))
    assert {
        "ProtectSystem=strict",
        "NoNewPrivileges=yes",
        "ProtectHome=yes",
        "KillMode=mixed",
    } <= set(unit.splitlines())
    # systemd would end clients before the program that waits for them gives up
    stop = next(line for line in unit.splitlines() if line.startswith("TimeoutStopSec="))
    assert int(stop.partition("=")[2]) > told["patience"]


def test_the_units_have_no_text_of_one_gpu() -> None:
    """systemd reads their text once, and would not see that it has changed."""
    first, second = (
        map_written_files(planned(sharing, look()))
        for sharing in (ONE, {UUIDS[1]: {"mps": {"threads": 7}}})
    )
    assert [first[path] for path in TEXTS[:2]] == [second[path] for path in TEXTS[:2]]


SETTLED = map_written_files(planned(TWO, look()))
RUNNING: dict[str, Any] = {"mode": "Exclusive_Process", "files": SETTLED, "active": (0, 1)}
OTHER = {**TWO, UUIDS[1]: {"mps": {"memory": "4G"}}}
HELD = [[77, ["1"], f"/system.slice/docker-{'abc' * 21}a.scope"]]
SERVER = [[78, ["1"], f"/system.slice/system-gpufleet\\x2dmps.slice/{UNITS[1]}"]]
ENDS = ["systemctl", "stop", UNITS[1]]


def test_a_daemon_that_has_ended_begins_again() -> None:
    plan = planned(TWO, look(**{**RUNNING, "active": (0,)}))
    assert acts(plan) == [("start", UNITS[1])]
    assert map_written_files(plan) == {}
    # The playbooks plan and rollout judge a host by what differs.
    assert [(d.what, d.path, d.key, d.before, d.after) for d in plan.differences] == [
        ("unit", UNITS[1], "state", "inactive", "active")
    ]


@pytest.mark.parametrize(
    ("sharing", "files", "running"), [(TWO, {}, ()), (TWO, SETTLED, ()), (OTHER, SETTLED, (0, 1))]
)
def test_a_gpu_that_is_kept_out_of_use_gets_no_daemon(
    sharing: dict[str, Any], files: dict[str, str], running: tuple[int, ...]
) -> None:
    """Nor another one. Once it is DEFAULT again, all that is due is done."""
    shut = look(mode="Prohibited", files=files, active=running)
    plan = planned(sharing, shut)
    assert [act for act in acts(plan) if act[1] in UNITS] == []
    assert mps_files.SETTINGS not in map_written_files(plan)
    assert [get_code(text) for text in plan.advice].count("sharing.gpu-closed") == 2
    assert ENDS not in [c["argv"] for c in plan.commands]
    again = acts(planned(sharing, look(files={**files, **map_written_files(plan)}, active=running)))
    assert (("restart" if running else "start"), UNITS[1]) in again


def test_other_limits_take_another_daemon_and_leave_the_first_alone() -> None:
    plan = planned(OTHER, look(**RUNNING, held=SERVER))
    assert [act for act in acts(plan) if act[1] in UNITS] == [("restart", UNITS[1])]
    assert sorted(map_written_files(plan)) == [mps_files.SETTINGS, resource.SETTINGS]


def test_a_gpu_that_leaves_loses_its_daemon_first_and_then_its_mode() -> None:
    plan = planned(ONE, look(**RUNNING, held=SERVER))
    argvs = [c["argv"] for c in plan.commands]
    assert argvs[0] == ENDS
    assert f"clear {UUIDS[1]};" in argvs[1][2]
    assert "$$" not in argvs[1][2]  # which is systemd's way to write one
    assert argvs[2] == ["nvidia-smi", "-i", UUIDS[1], "-c", "DEFAULT"]
    assert plan.commands[0]["undo"] == ["systemctl", "start", UNITS[1]]


ENDING: list[tuple[str, dict[str, Any]]] = [
    ("other limits", OTHER),
    ("it leaves", ONE),
    ("all is taken back", {}),
]


@pytest.mark.parametrize("sharing", [c[1] for c in ENDING], ids=[c[0] for c in ENDING])
def test_a_daemon_with_clients_is_not_ended(sharing: dict[str, Any]) -> None:
    seen = look(**RUNNING, held=[*HELD, *SERVER])
    with pytest.raises(PlanError) as refused:
        planned(sharing, seen)
    assert refused.value.code == "sharing.daemon-in-use"
    assert refused.value.values == {"gpu": UUIDS[1], "users": "container abcabcabcabc (process 77)"}
    forced = planned(sharing, seen, restart="force")
    assert ("restart", UNITS[1]) in acts(forced) or ENDS in [c["argv"] for c in forced.commands]


def test_other_limits_can_wait_for_clients() -> None:
    """`restart: never` writes them down and leaves the restart to someone. The end of a daemon
    cannot wait.
    """
    seen = look(**RUNNING, held=[*HELD, *SERVER])
    plan = planned(OTHER, seen, restart="never")
    assert mps_files.SETTINGS in map_written_files(plan)
    assert [r.unit for r in plan.list_acted_restarts("never")] == [resource.SERVICE]
    assert plan.pending == (UNITS[1],)
    with pytest.raises(PlanError):
        planned(ONE, seen, restart="never")


OTHERS = [
    f"/user.slice/user-1000.slice/user@1000.service/app.slice/{UNITS[1]}",
    f"/system.slice/docker-{'a' * 64}.scope/{UNITS[1]}",
    f"/system.slice/{UNITS[1]}.scope",
]


@pytest.mark.parametrize("group", OTHERS)
def test_nobody_calls_a_client_the_daemon_itself(group: str) -> None:
    """Anybody may have a group of the daemon's name below their own: a unit of a user's manager,
    for example.
    """
    with pytest.raises(PlanError) as refused:
        planned(ONE, look(**RUNNING, held=[[77, ["1"], group]]))
    assert "(process 77)" in str(refused.value)
    with pytest.raises(PlanError) as refused:
        planned(ONE, look(processes=[{**STRANGER, "cgroup": group}]))
    assert "(process 5)" in str(refused.value)


def test_what_containers_and_clients_fill_has_a_limit() -> None:
    """Of bytes, and of files: each takes memory of the kernel. The clients choose what the daemon
    logs, too.
    """
    (settings,) = [
        json.loads(c["content"])
        for c in planned(ONE, look()).changes
        if c["path"] == mps_files.SETTINGS
    ]  # type: ignore[typeddict-item]
    options = {
        kind: dict(word.split("=") for word in of["options"].split(",") if "=" in word)
        for kind, of in settings["mounts"].items()
    }
    assert set(options) == set(settings["places"]) == {"pipe", "shm", "log"}
    assert {kind: (of["size"], of["nr_inodes"]) for kind, of in options.items()} == {
        "pipe": ("1m", "1k"),
        "shm": ("1g", "64k"),
        "log": ("16m", "64"),
    }
    assert settings["logged"] == 4 << 20


LEFT = {"processes": 240, "users": [1001, 1002]}
UNSEEN = [
    # the answer about holders, the code of what is not known, its values
    ({"held": [], "closed": 1}, "closed-processes", {"processes": "1 process"}),
    ({"held": [], "closed": 2}, "closed-processes", {"processes": "2 processes"}),
    (
        {"held": [], "closed": 0, "partial": LEFT},
        "processes-left",
        {"processes": "240 processes of users 1001, 1002"},
    ),
    (
        {"held": [], "closed": 0, "partial": {"processes": 1, "users": []}},
        "processes-left",
        {"processes": "1 process"},
    ),
    ({"error": {"kind": "timeout", "message": "no time"}}, "look-failed", {"problem": "no time"}),
    ({"error": {"kind": "timeout", "message": ""}}, "look-failed-silently", {}),
]


@pytest.mark.parametrize(("answer", "code", "values"), UNSEEN)
def test_clients_that_are_not_seen_are_not_taken_for_none(
    answer: dict[str, Any], code: str, values: dict[str, Any]
) -> None:
    first = look(**RUNNING)
    seen = Observation(first.host, ChainMap({gpu_holders.HOLDERS["id"]: answer}, first.answers))  # type: ignore[arg-type]
    with pytest.raises(PlanError) as refused:
        planned(ONE, seen)
    assert (refused.value.code, refused.value.values["gpus"]) == (
        "sharing.daemon-use-unknown",
        UUIDS[1],
    )
    problem = refused.value.values["problem"]
    assert (problem.code, problem.values) == (f"sharing.{code}", values)
    assert planned(ONE, seen, restart="force").commands
    assert planned(TWO, seen) == Plan()


def test_two_reasons_why_holders_are_not_known_are_both_told() -> None:
    problem = gpu_holders.explain_unknown_holders({"held": [], "closed": 2, "partial": LEFT})
    assert problem is not None
    assert [get_code(problem.values[name]) for name in ("closed", "left")] == [
        "sharing.closed-processes",
        "sharing.processes-left",
    ]


@pytest.mark.parametrize(
    ("number", "code"), [(1, "sharing.others-process"), (2, "sharing.others-processes")]
)
def test_daemons_of_other_users_are_advice(number: int, code: str) -> None:
    plan = planned(TWO, look(**RUNNING, others={mps_files.CONTROL: number}))
    assert plan.empty
    assert [get_code(text) for text in plan.advice] == [code]


def test_a_watcher_that_the_hosts_systemd_runs_is_no_client() -> None:
    """nvidia-persistenced has every GPU's node open for as long as the host runs, and
    docs/sharing.md asks for it.
    """
    assert "nvidia-persistenced" in gpu_holders.HOLDERS["services"]


def test_clients_of_a_daemon_that_stays_are_none_of_its_affair() -> None:
    assert planned(OTHER, look(**RUNNING, held=[[77, ["0"], "/a"]])).changes


STRANGER = {"pid": 5, "exe": CONTROL, "cgroup": "/system.slice/mps.service"}
OWN = {
    "pid": 6,
    "exe": CONTROL,
    "cgroup": f"/system.slice/system-gpufleet\\x2dmps.slice/{UNITS[0]}",
}
GRES = {"/etc/slurm/gres.conf": "Name=mps Count=400\n"}
REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("the program is missing", ONE, {"control": False}, "no-control-program"),
    ("another daemon runs", ONE, {"processes": [OWN, STRANGER]}, "other-daemon"),
    (
        "another one, of which nothing is proven",
        ONE,
        {"processes": [{**STRANGER, "unverified": "path"}]},
        "other-daemon",
    ),
    ("MIG is on", ONE, {"mig": "Enabled"}, "mig-on"),
    ("Slurm shares them", ONE, {"files": GRES}, "shared-by-slurm"),
    ("it is not there", {UUIDS[2]: "mps"}, {}, "no-such-gpu-or-product"),
]


@pytest.mark.parametrize(
    ("sharing", "host", "code"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_what_is_refused_on_a_host(
    sharing: dict[str, Any], host: dict[str, Any], code: str
) -> None:
    with pytest.raises(PlanError) as refused:
        planned(sharing, look(**host))
    assert refused.value.code == f"sharing.{code}"


def test_a_node_of_kubernetes_is_refused() -> None:
    with pytest.raises(PlanError, match=r"\[sharing.kubelet-runs\]"):
        planned(ONE, look(), Kubelet(present=True))


def test_our_own_daemon_is_no_stranger() -> None:
    assert planned(TWO, look(**RUNNING, processes=[OWN])) == Plan()


def test_a_unit_that_somebody_has_enabled_beside_ours_is_advice() -> None:
    units = {"nvidia-mps.service": {"ActiveState": "inactive", "UnitFileState": "enabled"}}
    units.update({name: {"ActiveState": "active"} for name in UNITS[:2]})
    seen = look(**RUNNING)
    seen.answers["units:of this test"]["units"].update(
        {n: {"LoadState": "loaded", **u} for n, u in units.items()}
    )
    (advice,) = planned(TWO, seen).advice
    assert isinstance(advice, Message)
    assert (advice.code, advice.values) == (
        "sharing.other-unit-enabled",
        {"unit": "nvidia-mps.service"},
    )


def test_a_daemon_whose_unit_systemd_no_longer_has_is_refused() -> None:
    """Its file was removed, and systemd has read its units again: it continues with what runs, and
    takes no other one for it.
    """
    seen = look(**RUNNING, processes=[OWN])
    assert planned(TWO, seen) == Plan()
    seen.answers["units:of this test"]["units"][UNITS[0]] = {
        "LoadState": "not-found",
        "ActiveState": "active",
    }
    with pytest.raises(PlanError) as refused:
        planned(TWO, seen)
    assert (refused.value.code, refused.value.values) == (
        "sharing.unit-not-loaded",
        {"unit": UNITS[0]},
    )


def test_a_daemon_of_which_nobody_knows_the_limits_begins_again() -> None:
    left = {path: text for path, text in SETTLED.items() if path != mps_files.SETTINGS}
    plan = planned(TWO, look(**{**RUNNING, "files": left}))
    assert [act for act in acts(plan) if act[1] in UNITS] == [
        ("restart", UNITS[0]),
        ("restart", UNITS[1]),
    ]


@pytest.mark.parametrize(
    ("answer", "code", "values"),
    [
        ({"rc": 9, "stdout": ""}, "memory-unknown", {"command": MEMORY, "status": 9}),
        ({"rc": 0, "stdout": "No devices were found\n"}, "memory-not-named", {"command": MEMORY}),
    ],
)
def test_memory_that_is_not_known_is_not_guessed(
    answer: dict[str, Any], code: str, values: dict[str, Any]
) -> None:
    seen = look()
    seen.answers[f"command:{MEMORY}"] = answer  # type: ignore[index]
    with pytest.raises(PlanError) as refused:
        planned(ONE, seen)
    assert (refused.value.code, refused.value.values) == (f"sharing.{code}", values)
    assert planned({UUIDS[0]: {"mps": {"clients": 4, "memory": "1G"}}}, seen).changes


def test_what_is_asked() -> None:
    """By UUID all in the first look; else the unit's name is known only once the GPUs are."""
    asked = {str(q["id"]) for q in resource.list_questions(Policy(sharing=TWO))}
    assert {
        f"units:{','.join([*mps_facts.OTHER_UNITS, *UNITS[:2]])}",
        f"command:{MEMORY}",
        mps_facts.FOUND["id"],
        mps_facts.DAEMONS["id"],
    } <= asked
    assert mps_facts.FOUND["id"] not in {
        q["id"] for q in resource.list_questions(Policy(sharing={UUIDS[0]: "dedicated"}))
    }
    unasked = look()
    unasked.answers["units:of this test"] = {"units": {}, "monotonic": None}  # type: ignore[index]
    with pytest.raises(NeedMore) as need:
        planned({BUSES[0]: "mps"}, unasked)
    assert [q["id"] for q in need.value.questions] == [f"units:{UNITS[0]}"]


def test_all_is_given_back() -> None:
    """Of what was converged: daemons end, then modes go back, and no file is left."""
    seen = look(**RUNNING)
    back = resource.plan_absent(
        Policy(state="absent"), resource.read_sharing_facts(Policy(state="absent"), seen)
    )
    assert [c["argv"][:3] for c in back.commands if c["argv"][0] == "systemctl"] == [
        ["systemctl", "stop", unit] for unit in UNITS[:2]
    ]
    assert [c["argv"][0] for c in back.commands] == ["systemctl", "/bin/sh"] * 2 + [
        "nvidia-smi"
    ] * 2
    assert {str(c["path"]) for c in back.changes if c["op"] == "remove"} == {
        *FILES,
        *TEXTS,
        *resource.PATHS,
    }
    assert resource.plan_absent(
        Policy(state="absent"), resource.read_sharing_facts(Policy(state="absent"), look())
    ).empty


def test_a_daemon_whose_program_somebody_has_removed_is_stopped_all_the_same() -> None:
    left = {path: text for path, text in SETTLED.items() if path != FILES[1]}
    back = resource.plan_absent(
        Policy(state="absent"),
        resource.read_sharing_facts(Policy(state="absent"), look(**{**RUNNING, "files": left})),
    )
    assert [c["argv"] for c in back.commands if "mps" in str(c["argv"])] == [
        ["systemctl", "stop", unit] for unit in UNITS[:2]
    ]


@pytest.mark.parametrize(("sharing", "state"), [({}, "present"), ({}, "absent"), (None, "absent")])
def test_daemons_whose_record_somebody_has_removed_are_stopped_all_the_same(
    sharing: dict[str, Any] | None, state: Any
) -> None:
    """They would run on without a unit, on GPUs that nobody else can use."""
    left = {path: text for path, text in SETTLED.items() if path != mps_files.SETTINGS}

    def back(**more: Any) -> Plan:
        seen = look(**{**RUNNING, "files": left, **more})
        seen.answers[mps_facts.DAEMONS["id"]] = {}  # type: ignore[index]
        return mps_ends.plan_mps_removal(
            Policy(sharing=sharing, state=state),
            mps_facts.read_mps_facts(seen),
            lambda: {UUIDS[0]: 0, UUIDS[1]: 1},
            "",
        )

    with pytest.raises(NeedMore) as need:
        mps_ends.plan_mps_removal(
            Policy(sharing=sharing, state=state),
            mps_facts.read_mps_facts(look(**{**RUNNING, "files": left})),
            dict,
            "",
        )
    assert need.value.questions == [mps_facts.DAEMONS]
    assert [c["argv"] for c in back(processes=[OWN]).commands] == [["systemctl", "stop", UNITS[0]]]
    (stay,) = back(processes=[OWN]).advice
    assert isinstance(stay, Message)
    places = f"/run/gpufleet-mps/{UUIDS[0]} and /var/lib/gpufleet-mps/{UUIDS[0]}"
    assert (stay.code, stay.values) == (
        "sharing.places-stay",
        {"path": mps_files.SETTINGS, "places": places},
    )
    assert back(processes=[]).commands == ()
    with pytest.raises(PlanError, match=r"\[sharing.daemon-in-use\]"):
        back(processes=[OWN], held=[[77, ["0"], "/a"]])


@pytest.mark.parametrize("text", ["", "{", "[]", '{"daemons": 7}', '{"daemons": {"; reboot": {}}}'])
def test_a_broken_record_is_not_taken_for_no_daemon(text: str) -> None:
    seen = look(**{**RUNNING, "files": {**SETTLED, mps_files.SETTINGS: text}})
    for sharing, state in ((TWO, "present"), ({}, "present"), ({}, "absent")):
        with pytest.raises(PlanError) as refused:
            planned(sharing, seen, state=state)
        assert (refused.value.code, refused.value.where) == (
            "sharing.daemon-record-broken",
            "/etc/gpufleet/mps.json",
        )
        assert refused.value.values == {"units": "gpufleet-mps@*.service"}


def test_what_is_quick_here_is_quick_enough_for_a_host_that_boots() -> None:
    """Else it would be left to a person (rollback.py), and the places of a daemon that never came
    would stay.
    """
    assert mps.QUICK <= rollback.QUICK
