# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The second look at a host: what makes it fail, what is only worth knowing, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import health
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    diagnosis,
    kernel_log,
    xids,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.coded import Coded, read_all_coded, read_coded
from tests.unit.rollout_looks import CHANGE, looked

RUNS = {"running": True, "unit": "containerd.service"}
HERE = {"boot_id": "x", "ends": []}


def second(**more: Any) -> dict[str, Any]:
    found = looked(work=HERE)
    found["instances"] = [{**i, **RUNS} for i in found["instances"]]
    return {**found, **more}


RAN = ("containerd:/etc/containerd/config.toml",)
STOPPED = {"instances": [{**i, "running": False} for i in second()["instances"]]}
# The keys of the engines that ran before the change, the second look, why the host fails.
ENGINES: list[tuple[tuple[str, ...], dict[str, Any], str]] = [
    (RAN, {}, ""),
    (RAN, STOPPED, "containerd.service does not run"),
    (RAN, {**STOPPED, "work": {"boot_id": ""}}, ""),
    (RAN, {"instances": []}, "containerd does not run"),
    ((), STOPPED, ""),  # it was stopped before the change, too
    # it has no daemon
    ((), {"instances": [{"key": "podman:/usr/bin/podman", "engine": "podman", "running": False}]}, ""),
    (("docker:/run/docker.sock",), {"instances": [{"key": "docker:/run/docker.sock", "unit": "docker.service"}]},
     "docker.service does not run"),  # without a file
]  # fmt: skip


@pytest.mark.parametrize(("ran", "more", "why"), ENGINES)
def test_an_engine_that_ran_before_the_change_has_to_run_after_it(
    ran: tuple[str, ...], more: dict[str, Any], why: str
) -> None:
    assert health.explain_ill_health(health.Second(second(**more), 8, running=ran)) == why


ENTRY = {
    "state": "rolled_back",
    "by": "the timer",
    "why": "containerd.service came up and has crashed since",
}
LOOKS = [
    (second(), ""),
    ({"unreachable": True, "msg": "no route"}, "it was unreachable: no route"),
    ({"failed": True, "msg": "not root"}, "the look at it failed: not root"),
    (second(problem="two files disagree"), "two files disagree"),
    (
        second(differences=[CHANGE]),
        "it is not converged any more: /etc/containerd/config.toml enable_cdi",
    ),
    (
        second(driver={"state": "ok", "gpus": [{}] * 7}),
        "it had 8 GPUs before its change, and has 7",
    ),
    (
        second(driver={"state": "broken", "evidence": "Xid 79", "gpus": []}),
        "its GPU driver was broken: Xid 79",
    ),
    (
        second(journal=[ENTRY], differences=[CHANGE]),
        "its change was rolled back since by the timer: containerd.service came up and has crashed since",
    ),
    (
        second(journal=[ENTRY], problem="containerd does not run"),
        "its change was rolled back since by the timer: containerd.service came up and has crashed since",
    ),
    (second(journal=[{"state": "committed"}, ENTRY]), ""),  # an older one was
]


@pytest.mark.parametrize(("look", "why"), LOOKS)
def test_the_second_look_finds_what_went_wrong_later(look: dict[str, Any], why: str) -> None:
    assert health.explain_ill_health(health.Second(look, 8, changed=True)) == why


def test_a_rollback_from_before_this_run_is_no_reason() -> None:
    assert health.explain_ill_health(health.Second(second(journal=[ENTRY]), 8, changed=False)) == ""


# ---------------------------------------------------------------- errors of GPUs


def log(
    *errors: tuple[int, int],
    boot: str = "b",
    first: int = 0,
    last: int = 100,
    complete: bool = True,
) -> dict[str, Any]:
    """A kernel log with errors as (number of the line, Xid)."""
    found = [
        {"xid": xid, "pci": "0000:41:00", "time": "2026-01-31T16:58:44Z", "sequence": n}
        for n, xid in errors
    ]
    return {
        "kernel_log": {
            "known": True,
            "boot": boot,
            "first": first,
            "last": last,
            "complete": complete,
            "errors": found,
        }
    }


UNKNOWN = {
    "kernel_log": {
        "known": False,
        "why": "/dev/kmsg cannot be read: Operation not permitted",
        "errors": [],
    }
}


def sick(xid: int) -> Coded:
    """Why a host fails: a new error, with the step that the catalogue has for it."""
    said, step = MOMENT.format(xid), f"gpu-health.step-{xids.get_xid_step(xid)}"
    return "soak.gpu-errors", {"errors": said, "page": xids.CATALOGUE, "step": (step, {})}


MOMENT = "Xid {} of the GPU 0000:41:00 (2026-01-31T16:58:44Z)"


def unknown(cause: str | Coded) -> Coded:
    """The note that new errors are not known, by the code of its cause or the words of a result."""
    return "soak.errors-unknown", {"cause": cause}


def application(xid: int) -> Coded:
    return "soak.application-failed", {"errors": MOMENT.format(xid)}


WRITTEN_OVER = unknown(("gpu-health.log-written-over", {}))
DENIED = unknown("/dev/kmsg cannot be read: Operation not permitted")
# The log before the change, the log now, why the host fails, what is noted.
LOGS = [
    (log(), log(last=120), "", []),
    (log((90, 79)), log((90, 79)), "", []),  # it was there before the change
    (log((90, 79)), log((90, 79), (101, 79), last=120), sick(79), []),
    (log(), log((101, 48), last=120), sick(48), []),
    *((log(), log((101, xid), last=120), "", [application(xid)]) for xid in (13, 31, 43, 45, 63, 68, 94)),
    # the driver could not remap a row
    (log(), log((101, 64), last=120), sick(64), []),
    (log(), log((101, 109), last=120), sick(109), []),
    (log(), log((101, 31), (102, 119), last=120), sick(119), [application(31)]),
    # the host was booted since: all of it is new
    (log(), log((3, 74), boot="c", last=5), sick(74), []),
    (log(), log(first=101, last=500), "", []),  # the next line is still there
    (log(), log(first=102, last=500), "", [WRITTEN_OVER]),
    (log(), log(boot="c", first=9), "", [WRITTEN_OVER]),
    (log(), log((101, 79), last=120, complete=False), sick(79),
     [WRITTEN_OVER]),
    (log(last=-1, first=-1), log(first=0, last=4), "", []),
    (log(), UNKNOWN, "", [DENIED]),
    (UNKNOWN, log((5, 79)), "", [DENIED]),
    (log(), {}, "", [unknown(("gpu-health.log-not-read", {}))]),
    ({}, log(), "", [unknown(("gpu-health.log-not-read-before", {}))]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "why", "notes"), LOGS)
def test_errors_of_gpus_that_are_new_fail_a_host_but_those_of_applications(
    before: Mapping[str, Any], after: Mapping[str, Any], why: str | Coded, notes: list[Coded]
) -> None:
    found = health.Second(second(), 8, before=before, after=after)
    said = health.explain_ill_health(found)
    assert (read_coded(said) if said else "") == why
    assert read_all_coded(health.list_health_notes(found)) == notes


OFF_BUS = {"kind": "off_bus", "pci": "0000:b3:00", "step": "reboot"}
SWITCH = {"kind": "switch", "sxid": 20034, "pci": "0000:a9:00", "step": "reboot"}
# A line of another form than an Xid, and how a reason names it.
OTHER_LINES = [
    (OFF_BUS, "the GPU 0000:b3:00 does not answer, and the driver could not begin"),
    (SWITCH, "fatal SXid 20034 of the NVSwitch 0000:a9:00"),
]


@pytest.mark.parametrize(("line", "named"), OTHER_LINES)
def test_a_gpu_that_is_lost_without_an_xid_fails_a_host_if_that_is_new(
    line: dict[str, Any], named: str
) -> None:
    def logged(sequence: int) -> dict[str, Any]:
        found = {**line, "time": "2026-01-31T16:58:44Z", "sequence": sequence}
        return {"kernel_log": {**log(last=sequence)["kernel_log"], "lines": [found]}}

    def judge(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
        return health.explain_ill_health(health.Second(second(), 8, before=before, after=after))

    code, values = read_coded(judge(log(), logged(101)))
    assert (code, values["errors"]) == ("soak.gpu-errors", f"{named} (2026-01-31T16:58:44Z)")
    assert values["step"] == ("gpu-health.step-reboot", {})
    assert judge(logged(90), logged(90)) == "", "it was there before the change"


ROWS_FAILED = {
    "code": "gpu-health.rows-failed",
    "what": "a row",
    "gpu": "0000:17:00.0",
    "next": "replace it",
    "stops": True,
}
ROWS_PENDING = {
    "code": "gpu-health.rows-pending",
    "what": "rows wait",
    "gpu": "0000:17:00.0",
    "next": "reset it",
    "stops": False,
}
SILENT = {
    "code": "gpu-health.state-silent",
    "what": "no answer",
    "gpu": "",
    "next": "reboot",
    "stops": True,
}


def state(*findings: dict[str, Any], known: bool = True) -> dict[str, Any]:
    return {**log(), "nvml": {"known": known, "findings": list(findings)}}


SICK_STATE = ("soak.gpu-state", {"found": "a row [gpu-health.rows-failed]", "step": "replace it"})
HUNG = ("soak.gpu-state", {"found": "no answer [gpu-health.state-silent]", "step": "reboot"})
NOTED = ("soak.gpu-state-note", {"found": "rows wait [gpu-health.rows-pending]"})
# What NVML said before the change and says now, why the host fails, what is noted.
STATES: list[tuple[Mapping[str, Any], Mapping[str, Any], str | Coded, list[Coded]]] = [
    (state(), state(), "", []),
    (state(), state(ROWS_FAILED), SICK_STATE, []),
    (state(ROWS_FAILED), state(ROWS_FAILED), "", []),  # it was sick before, and is not blamed
    (state({**ROWS_FAILED, "gpu": "0000:43:00.0"}), state(ROWS_FAILED), SICK_STATE, []),
    (state(), state(ROWS_PENDING), "", [NOTED]),  # it works until its next reset
    (state(), state(SILENT, known=False), HUNG, []),
    (state(known=False), state(ROWS_FAILED), "", []),  # not known before
    (log(), state(ROWS_FAILED), "", []),  # not asked before
    (state(), log(), "", []),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "why", "notes"), STATES)
def test_a_state_that_only_the_second_answer_has_fails_a_host(
    before: Mapping[str, Any], after: Mapping[str, Any], why: str | Coded, notes: list[Coded]
) -> None:
    found = health.Second(second(), 8, before=before, after=after)
    said = health.explain_ill_health(found)
    assert (read_coded(said) if said else "") == why
    assert read_all_coded(health.list_health_notes(found)) == notes


ACCEPTS = [
    # what the owner accepts, and whether the host fails for a new state and for a new line
    ([], True, True),
    (["gpu-health.rows-failed 0000:17:00.0"], False, True),
    (["gpu-health.rows-failed 0000:43:00.0"], True, True),
    (["gpu-health.log-tells 0000:41:00.0"], True, False),
    (["gpu-health.log-tells 0000:17:00.0"], True, True),
]


@pytest.mark.parametrize(("accepted", "by_state", "by_line"), ACCEPTS)
def test_what_the_owner_accepts_is_not_blamed_on_the_change(
    accepted: list[str], by_state: bool, by_line: bool
) -> None:
    look = second(health={"accepted": accepted})
    one = health.Second(look, 8, before=state(), after=state(ROWS_FAILED))
    other = health.Second(look, 8, before=log(), after=log((101, 79), last=101))
    assert bool(health.explain_ill_health(one)) is by_state
    assert bool(health.explain_ill_health(other)) is by_line


def test_a_host_that_was_unreachable_for_the_look_for_errors_is_not_well() -> None:
    lost = {"unreachable": True, "msg": "no route to host"}
    assert health.explain_ill_health(
        health.Second(second(), 8, before=log(), after=lost)
    ).startswith("it was unreachable for the look for errors of its GPUs")


def test_nothing_is_noted_of_a_tree() -> None:
    assert health.list_health_notes(health.Second(second(work={"boot_id": ""}), 8)) == []


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 200)), unique_by=lambda e: e[0]),
    st.integers(-1, 300),
)
def test_each_error_is_old_or_new(errors: list[tuple[int, int]], last: int) -> None:
    """The two looks agree about every line: none is told twice, none is lost."""
    every = sorted(errors)
    old = [e for e in every if e[0] <= last]
    new, unknown = kernel_log.list_lines_since(
        log(*old, last=last)["kernel_log"], log(*every, last=300)["kernel_log"]
    )
    assert [(e["sequence"], e["xid"]) for e in new] == [e for e in every if e not in old]
    assert unknown == ""


def test_many_errors_are_counted() -> None:
    errors = log(*((n, 79) for n in range(5)))["kernel_log"]["errors"]
    assert kernel_log.describe_lines(errors).endswith("and 2 more")


# ---------------------------------------------------------------- the user's command

COMMANDS = [
    ({}, ""),
    ({"skipped": True}, ""),
    ({"rc": 0, "stdout": "well"}, ""),
    (
        {"rc": 3, "stdout": "one\ntwo\n", "stderr": ""},
        "gpufleet_rollout_soak_command ended with 3: two",
    ),
    (
        {"rc": 1, "stdout": "said", "stderr": "ECC errors\n"},
        "gpufleet_rollout_soak_command ended with 1: ECC errors",
    ),
    ({"rc": 1}, "gpufleet_rollout_soak_command ended with 1"),
    (
        {"rc": 124, "stdout": "still asking"},
        "gpufleet_rollout_soak_command did not end within 300 s",
    ),
    (
        {
            "rc": 127,
            "stderr": "timeout: failed to run command '/bin/well': No such file or directory",
        },
        "gpufleet_rollout_soak_command ended with 127: timeout: failed to run command '/bin/well': No such file or directory",
    ),
    ({"rc": None, "msg": "Timed out"}, "gpufleet_rollout_soak_command could not be run: Timed out"),
    (
        {"failed": True, "msg": "no such file"},
        "gpufleet_rollout_soak_command could not be run: no such file",
    ),
    (
        {"unreachable": True, "msg": "no route"},
        "it was unreachable for gpufleet_rollout_soak_command: no route",
    ),
]


@pytest.mark.parametrize(("result", "why"), COMMANDS)
def test_a_command_of_the_user_has_to_end_with_0(result: dict[str, Any], why: str) -> None:
    assert health.explain_ill_health(health.Second(second(), 8, command=result)) == why


def test_a_command_of_the_user_is_ended_by_the_host() -> None:
    assert health.get_check_command(()) == []
    assert health.get_check_command(("/bin/well", "--quick")) == [
        "timeout",
        "-k",
        "10",
        "300",
        "/bin/well",
        "--quick",
    ]


# ---------------------------------------------------------------- the diagnosis

# What `dcgmi diag -r 1` prints: 2.4 and 3.3 with one result a test, since 4.0 with one for each GPU
# below it.
DCGM_3 = """Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Metadata  ----------+------------------------------------------------|
| DCGM Version              | 3.3.5                                          |
|-----  Deployment  --------+------------------------------------------------|
| Denylist                  | Pass                                           |
| NVML Library              | {}|
| Page Retirement/Row Remap | Skip                                           |
+---------------------------+------------------------------------------------+
"""
DCGM_4 = """Successfully ran diagnostic for group.
| Diagnostic                | Result                                         |
|-----  Deployment  --------+------------------------------------------------|
| software                  | {}
|                           | GPU0: Pass                                     |
|                           | GPU1: {}|
"""
LINE = "dcgmi diag -r 1"
# Exit status, output, whether the result is known, what failed.
DIAGNOSES = [
    (0, DCGM_3.format("Pass"), True, []),
    (
        0,
        DCGM_3.format("Fail - All"),
        True,
        ["NVML Library"],
    ),  # old releases end with 0 all the same
    (226, DCGM_3.format("Fail"), True, ["NVML Library"]),
    (0, DCGM_3.format("Warn - GPU: 0"), True, []),
    (0, DCGM_3.format("Skip - All"), True, []),  # another one passed
    (
        0,
        DCGM_3.format("Skip - All").replace(
            "Denylist                  | Pass", "Denylist                  | Skip"
        ),
        False,
        [],
    ),
    (
        0,
        DCGM_4.format("Skip", "Skip").replace("GPU0: Pass", "GPU0: Skip"),
        False,
        [],
    ),
    (0, DCGM_4.format("Pass", "Pass"), True, []),
    (226, DCGM_4.format("Fail", "Fail"), True, ["software"]),
    (226, DCGM_4.format("Pass", "Fail"), True, ["software"]),
    (226, DCGM_3.format("Pass"), False, []),
    (0, "", False, []),
    (
        1,
        "Error: unable to establish a connection to the specified host: localhost\n",
        False,
        [],
    ),
]


def answered(answer: Mapping[str, Any]) -> dict[str, Any]:
    return diagnosis.read_verdicts(
        Observation({}, {str(diagnosis.ask_for_diagnosis()["id"]): answer})
    )


@pytest.mark.parametrize(("rc", "out", "known", "failed"), DIAGNOSES)
def test_a_diagnosis_is_judged_by_its_table(
    rc: int, out: str, known: bool, failed: list[str]
) -> None:
    found = answered({"rc": rc, "stdout": out, "timed_out": False})
    assert (found["known"], found["failed"]) == (known, failed)
    assert found["code"] == get_code(found["why"])
    assert known or read_coded(found["why"]) == (
        "gpu-health.diagnosis-without-result",
        {"command": LINE, "status": rc},
    )


NOT_DIAGNOSED: list[tuple[dict[str, Any], Coded]] = [
    (
        {"error": {"kind": "not-found", "message": "dcgmi: there is no such program"}},
        ("gpu-health.diagnosis-not-run", {"cause": "dcgmi: there is no such program"}),
    ),
    (
        {"rc": None, "timed_out": True, "stdout": DCGM_3},
        ("gpu-health.diagnosis-late", {"command": LINE, "seconds": 300}),
    ),
]


@pytest.mark.parametrize(("answer", "why"), NOT_DIAGNOSED)
def test_a_diagnosis_that_could_not_be_made_is_not_known(
    answer: dict[str, Any], why: Coded
) -> None:
    found = answered(answer)
    assert (found["known"], found["failed"], found["code"]) == (False, [], why[0])
    assert read_all_coded(health.list_diagnosis_notes({"diagnosis": found})) == [
        ("soak.not-diagnosed", {"cause": why})
    ]
    assert (
        health.list_diagnosis_notes(
            {"diagnosis": answered({"rc": 0, "stdout": DCGM_3.format("Pass")})}
        )
        == health.list_diagnosis_notes({})
        == []
    )


def test_of_a_thousand_failed_diagnoses_the_first_are_named() -> None:
    """DCGM has some thirty tests; a host that tells more doesn't make the message longer."""
    table = "".join(f"| test {number} | Fail |\n" for number in range(1000))
    found, _verdicts = diagnosis.list_failed_tests(table)
    assert found == [f"test {number}" for number in range(diagnosis.MOST_TESTS)]
