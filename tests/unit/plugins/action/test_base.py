# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments come from the documentation, and results have one shape."""

from __future__ import annotations

import dataclasses as dc
import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import observe
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import request
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    host_look,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Handler,
    Leftover,
    Plan,
    Policy,
    Restart,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    transaction_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    options as planner_options,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import journal

from tests.unit import answered
from tests.unit.builders import obs
from tests.unit.coded import read_all_coded

MODULES = [
    "host", "host_info", "containerd_runtime", "crio_runtime", "docker_runtime",
    "toolkit_config", "oci_hook", "cdi_spec", "cdi_spec_info", "host_verify", "failed_hosts_check",
    "toolkit_repository", "fleet_table", "variables_check", "gpu_health_info", "gpu_diagnose",
]  # fmt: skip


def task(args: dict[str, Any]) -> Any:
    return SimpleNamespace(_task=SimpleNamespace(args=args))


NAMED = [
    # role, option, how the sentence begins
    ("gpufleet.nvidia.host", {"engine_version": "new"}, "gpufleet_engine_version is 'new'"),
    ("gpufleet.nvidia.host", {"metrics_dir": "rel/dir"}, "gpufleet_metrics_dir is 'rel/dir'"),
    (
        "gpufleet.nvidia.host",
        {"engine_version": "cdi_owner"},
        "gpufleet_engine_version is 'cdi_owner'",
    ),
    ("gpufleet.nvidia.host", {"root": "tree"}, "gpufleet_root is 'tree'"),
    (
        "gpufleet.nvidia.host",
        {"drop_in": "never", "drop_in_path": "/etc/drop_in_path.toml"},
        "gpufleet_drop_in is never, and gpufleet_drop_in_path is /etc/drop_in_path.toml",
    ),
    (
        "gpufleet.nvidia.host",
        {
            "bundle_file": "/srv/b.tar",
            "toolkit_repository": "https://mirror.example/toolkit_repository",
        },
        "gpufleet_bundle_file is set besides gpufleet_toolkit_repository (gpufleet_toolkit_repository is https://mirror.example/toolkit_repo",
    ),
    ("gpufleet.nvidia.host", {"config_path": "~/c.toml"}, "gpufleet_config_path is '~/c.toml'"),
    ("gpufleet.nvidia.host", {"engine_version": 1.1}, "gpufleet_engine_version is the number 1.1"),
    (
        "gpufleet.nvidia.host",
        {"sharing": {"0": [dt.date(2024, 1, 1)]}},
        "gpufleet_sharing.0[0] is 2024-01-01",
    ),
    (
        "gpufleet.nvidia.host",
        {"sharing": {dt.date(2024, 1, 1): {}}},
        "gpufleet_sharing has the key 2024-01-01",
    ),
    ("example.site.gpu", {"root": "tree"}, "root is 'tree'"),
    ("", {"root": "tree"}, "root is 'tree'"),
]


@pytest.mark.parametrize(("role", "args", "sentence"), NAMED)
def test_a_wrong_value_is_named_as_the_user_has_set_it(
    role: str, args: dict[str, Any], sentence: str
) -> None:
    played = task(args)
    played._task._role = SimpleNamespace(get_name=lambda: role) if role else None
    with pytest.raises(PlanError) as failed:
        arguments.read_task_options(played, arguments.derive_argument_spec("host"))
    named = failed.value.name_options(arguments.find_option_names(played))
    assert str(named).startswith(sentence)


@pytest.mark.parametrize("module", MODULES)
def test_every_option_of_a_module_has_a_type_and_a_description(module: str) -> None:
    for name, option in arguments.read_module_documentation(module)["options"].items():
        assert option.get("type"), name
        assert option.get("description"), name


@pytest.mark.parametrize(
    ("args", "field", "value"),
    [
        ({}, "state", "present"),
        ({"cdi": "enabled"}, "cdi", "enabled"),
        ({"cdi": "disabled", "set_as_default": "disabled"}, "set_as_default", "disabled"),
        ({"engines": ["crio"]}, "engines", ("crio",)),
        ({"engines": "crio,containerd"}, "engines", ("crio", "containerd")),
        (
            {"handlers": {"gpu": {"binary": "/opt/nv"}}},
            "handlers",
            (Handler("gpu", "/opt/nv", {}, True),),
        ),
        ({"handlers": {}}, "handlers", (Handler(),)),
        # the first counts
        (
            {"handlers": {"zeta": {}, "alpha": {}}},
            "handlers",
            (Handler("zeta"), Handler("alpha")),
        ),
        (
            {"handlers": '{"zeta": {}, "alpha": {}}'},
            "handlers",
            (Handler("zeta"), Handler("alpha")),
        ),
    ],
)
def test_options_become_a_policy(args: dict[str, Any], field: str, value: Any) -> None:
    policy = arguments.build_policy(
        arguments.read_task_options(task(args), arguments.derive_argument_spec("host"))
    )
    assert getattr(policy, field) == value


@pytest.mark.parametrize(
    ("args", "code", "values"),
    [
        ({"injection": "magic"}, "options.choice", {"option": "injection", "value": "magic"}),
        ({"colour": "green"}, "options.unknown", {"option": "colour"}),
        ({"restrat": "never"}, "options.unknown-near", {"option": "restrat", "near": "restart"}),
        ({"restrat": "never", "colour": "green"}, "options.unknown", {"option": "colour"}),
        ({"fleet_policy": "uniform"}, "options.unknown", {"option": "fleet_policy"}),
        (
            {"handlers": [1]},
            "options.type",
            {"option": "handlers", "found": "list", "wanted": "dict", "example": "{NAME: VALUE}"},
        ),
        (
            {"engines": "crio, docker"},
            "options.list-with-blanks",
            {"option": "engines", "items": "crio, docker"},
        ),
        (
            {"engines": '["crio", "docker"]'},
            "options.list-is-text",
            {"option": "engines", "value": '["crio", "docker"]'},
        ),
        ({"engines": ["lxc"]}, "options.choice", {"option": "engines"}),
        (
            {"handlers": {"gpu": {"bin": "/opt/nv"}}},
            "options.handler-key",
            {"option": "handlers.gpu", "key": "bin"},
        ),
    ],
)
def test_bad_options_are_named(args: dict[str, Any], code: str, values: dict[str, Any]) -> None:
    with pytest.raises(PlanError) as caught:
        arguments.build_policy(
            arguments.read_task_options(task(args), arguments.derive_argument_spec("host"))
        )
    assert (caught.value.code, {**caught.value.values, **values}) == (code, caught.value.values)


def test_a_sentence_stands_once_whatever_ansible_chains() -> None:
    """ansible-core 2.19 prints the causes of an error behind it: with two of them, the same
    sentence stood there three times.
    """

    def planner(_policy: Policy, _obs: Observation) -> Any:
        try:
            raise ValueError("line 3")
        except ValueError as error:
            raise PlanError("not valid", where="/etc/x", why="line 3") from error

    with pytest.raises(PlanError) as caught:
        host_look.plan_from(obs(), task({}), {}, Policy(), planner, "auto")
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)
    assert str(caught.value).count("not valid") == 1


def test_a_root_that_is_not_there_is_named_and_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        base.transport,
        "run_host_program",
        lambda _action, _program, request, *_more: observe.run(request),
    )
    there, gone = tmp_path / "there", tmp_path / "gone"
    there.mkdir()

    def look(root: Path) -> Observation:
        return host_look.look_at_host(
            task({}),
            {},
            Policy(root=str(root)),
            [queries.ask_for_originals("/var/lib/gpufleet")],
            "auto",
        )

    assert look(there).host["root"] is True
    with pytest.raises(PlanError, match=rf"^{gone}: .*\[host.no-root-directory\]$"):
        look(gone)


PLAN = Plan(
    differences=(
        Difference("file", "/etc/a", "handler.type", "old", "new", "because"),
        Difference("file", "/etc/a", "mode", None, "cdi", "so"),
    ),
    changes=({"op": "write", "path": "/etc/a", "content": "x"},),
    restarts=(Restart("a.service"),),
    diffs=(("/etc/a", "before", "after"),),
)


def shaped(answer: dict[str, Any], **options: Any) -> dict[str, Any]:
    return base.shape_result(
        base.Outcome(PLAN, {"decision": {}}),
        answer,
        **{"check": False, "diff": False, "restart": "auto", **options},
    )


@pytest.mark.parametrize(
    ("options", "docker"),
    [
        ({"handlers": {"NVIDIA": {}}}, True),
        ({"engines": ["docker"], "handlers": {"NVIDIA": {}}}, False),
    ],
)
def test_a_runtime_in_capitals_is_dockers_own_affair(options: dict[str, Any], docker: bool) -> None:
    planner_options.check_options(options, docker=docker)


def test_a_result_lists_what_differs_and_what_is_done() -> None:
    result = shaped({"restarted": ["a.service"], "journal": "/j"}, diff=True)
    assert [(d["key"], d["before"], d["after"]) for d in result["differences"]] == [
        ("handler.type", "old", "new"),
        ("mode", None, "cdi"),
    ]
    assert result["actions"] == ["write /etc/a", "restart a.service"]
    shown = "--- /etc/a (kept whole in the journal on the host)\n+++ /etc/a\n@@ -1 +1 @@\n-before\n+after\n"
    assert result["diff"] == [
        {"before_header": "/etc/a", "after_header": "/etc/a", "prepared": shown}
    ]
    assert (result["changed"], result["restarted"], result["rolled_back"]) == (
        True,
        ["a.service"],
        False,
    )


def test_advice_for_before_is_not_given_afterwards() -> None:
    plan = dc.replace(PLAN, advice=("always",), beforehand=("drain first",))

    def advice(answer: dict[str, Any], *, check: bool = False) -> list[str]:
        told: list[str] = base.shape_result(
            base.Outcome(plan), answer, check=check, diff=False, restart="auto"
        )["advice"]
        return told

    assert advice({}, check=True) == ["drain first", "always"]
    assert advice({"changed": True}) == ["always"]
    assert advice({"error": {"phase": "command", "message": "no such package"}}) == [
        "drain first",
        "always",
    ]


def test_check_mode_announces_the_restarts() -> None:
    assert shaped({}, check=True)["restarted"] == ["a.service"]
    assert shaped({}, check=True, restart="never")["restarted"] == []


def test_a_failed_transaction_says_what_where_and_what_next() -> None:
    error = {
        "phase": "health",
        "message": "CRI does not answer",
        "where": "/run/a.sock",
        "next": "See the log",
    }
    result = shaped({"error": error, "rolled_back": True, "changed": True})
    assert result["failed"]
    assert not result["changed"]
    assert result["msg"].endswith(" [transaction.health]")
    assert (result["error"]["code"], result["error"]["where"], result["error"]["next"]) == (
        "transaction.health", "/run/a.sock", "See the log",
    )  # fmt: skip
    assert all(
        part in result["error"]["what"]
        for part in ("CRI does not answer (/run/a.sock)", transaction_messages.ALL_AS_BEFORE.what)
    )


TAKEN = Leftover("nvidia-ctk", "/etc/a", ("handler",), True, "adopted", "explained")
BEFORE = Leftover(
    "nvidia-ctk", "/etc/b", ("handler",), True, "adopted", "taken over by an earlier run"
)
STAYS = Leftover("nvidia-ctk", "/etc/c", (), False, "kept", "nothing explains it")


@pytest.mark.parametrize(
    ("answer", "fates"),
    [
        ({"changed": True}, ["adopted", "adopted", "kept"]),
        ({"error": {"phase": "validate", "message": "refused"}}, ["kept", "adopted", "kept"]),
        (
            {
                "error": {"phase": "health", "message": "no CRI"},
                "changed": True,
                "rolled_back": True,
            },
            ["kept", "adopted", "kept"],
        ),
        ({"conflict": [{"path": "/etc/a"}]}, ["kept", "adopted", "kept"]),
        (
            {"error": {"phase": "health", "message": "no CRI"}, "changed": True},
            ["adopted", "adopted", "kept"],
        ),
    ],
)
def test_a_failed_run_has_taken_nothing_over(answer: dict[str, Any], fates: list[str]) -> None:
    outcome = base.Outcome(dc.replace(PLAN, leftovers=(TAKEN, BEFORE, STAYS)))
    result = base.shape_result(outcome, answer, check=False, diff=False, restart="auto")
    assert [left["fate"] for left in result["leftovers"]] == fates


REFUSED = {
    "argv": ["/usr/bin/containerd"],
    "rc": 1,
    "causes": [{"code": "plugin-uri", "values": {}}],
    "findings": ["exit status 1"],
}


@pytest.mark.parametrize(("present", "already"), [(1, True), (0, False), (None, False)])
def test_a_validator_that_refuses_the_present_configuration_too_is_quoted_so(
    present: int | None, already: bool
) -> None:
    error = {"phase": "validate", "message": "/usr/bin/containerd: exit status 1"}
    result = shaped({"error": error, "validation": [{**REFUSED, "baseline_rc": present}]})
    assert ("refuses the present configuration as well" in result["msg"]) is already
    assert "Cause: a plugin has a name of configuration version 1" in result["msg"]


def requested(policy: Policy, seen: Observation | None = None, **more: Any) -> dict[str, Any]:
    seen = seen or obs(packages={"containerd": "1.7.24~ds1-6"})
    return base.build_transaction_request(
        PLAN, policy, seen, check=False, reason="test", **{"pending": [], **more}
    )


def test_a_plan_becomes_a_transaction_only_beneath_the_real_root_with_restarts() -> None:
    here, offline, left = (
        requested(Policy(), pending=[]),
        requested(Policy(root="/srv/image")),
        requested(Policy(restart="never")),
    )
    assert [u["name"] for u in here["units"]] == ["a.service"]
    assert (
        offline["units"],
        offline["health"],
        offline["validate"],
        offline["commands_before"],
    ) == ([], [], [], [])
    assert left["units"] == []
    assert (here["alone"], offline["alone"]) == (True, False), (
        "beneath another root nothing runs that could finish by itself"
    )


def test_a_transaction_expects_the_packages_that_were_seen() -> None:
    assert requested(Policy())["expect"]["packages"] == {"containerd": "1.7.24~ds1-6"}
    assert requested(Policy(root="/srv/image"))["expect"]["packages"] == {}


def test_a_transaction_expects_the_programs_that_were_seen() -> None:
    answers = {
        "which:containerd,k3s": {
            "found": {"containerd": "/usr/bin/containerd"},
            "programs": {"/usr/bin/containerd": "1:2:3"},
        },
        "processes:containerd": {"processes": [], "programs": {"/opt/engine/containerd": None}},
    }
    seen = Observation({}, answers)
    assert requested(Policy(), seen)["expect"]["programs"] == {
        "/usr/bin/containerd": "1:2:3",
        "/opt/engine/containerd": None,
    }
    assert requested(Policy(root="/srv/image"), seen)["expect"]["programs"] == {}


def test_what_was_rolled_back_while_nobody_looked_is_told_with_the_next_transaction() -> None:
    seen = obs(
        outcomes=[
            {"id": "a1", "reason": "gpufleet.nvidia.host", "by": "the timer", "why": "it hung"}
        ]
    )
    assert requested(Policy(), seen)["acknowledged"] == ["a1"]
    transaction = "the transaction of an unknown time (gpufleet.nvidia.host)"
    values = {"transaction": transaction, "by": "by the host's timer", "details": "it hung"}
    assert read_all_coded(journal.advise_on_journal(earlier_runs.read_earlier_runs(seen))) == [
        ("journal.taken-back", values)
    ]


@pytest.mark.parametrize(
    ("journal_says", "check", "sent"),
    [
        ({}, False, None),
        ({"outcomes": [{"id": "a1", "why": "it hung"}]}, False, (["a1"], [])),
        ({"outcomes": [{"id": "a1", "why": "it hung"}]}, True, None),
        ({"strays": ["/etc/.gpufleet-x"]}, False, ([], ["/etc/.gpufleet-x"])),
    ],
    ids=[
        "nothing to tell",
        "a rollback",
        "in check mode nothing is noted",
        "what lies beside a file",
    ],
)
def test_a_run_without_changes_notes_on_the_host_what_it_has_told_and_runs_no_transaction(
    monkeypatch: pytest.MonkeyPatch,
    journal_says: dict[str, Any],
    check: bool,
    sent: tuple[list[str], list[str]] | None,
) -> None:
    """Else the next run would tell it again."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def exchange(
        _action: Any, program: str, request: dict[str, Any], *_more: Any
    ) -> dict[str, Any]:
        asked.append((program, request))
        return (
            answered.look(request, originals=answered.journal(**journal_says))
            if program == "observe"
            else {}
        )

    monkeypatch.setattr(base.transport, "run_host_program", exchange)
    action: Any = SimpleNamespace(_task=SimpleNamespace(check_mode=check, diff=False))
    answer = base.converge_host(
        action,
        {},
        Policy(),
        lambda _p: [answered.ORIGINALS],
        lambda _p, _s: base.Outcome(Plan()),
        reason="test",
        way="auto",
    )
    assert len(answer.get("warnings", [])) == len(journal_says)
    expected = {"schema": 1, "root": "/", "journal_dir": "/var/lib/gpufleet"}
    noted = [("acknowledge", {**expected, "ids": sent[0], "strays": sent[1]})] if sent else []
    assert asked[1:] == noted


def test_the_node_knows_every_key_of_a_request_and_asks_for_no_other() -> None:
    """`environment` is the transport's: the names that the task's `environment:` sets."""
    assert set(requested(Policy())) == request.KEYS - {"environment"}
    request.require_valid_request(requested(Policy()))


def test_a_transaction_that_was_cut_short_is_ended_before_anything_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it left may look just like the desired state: the plan would be empty, and the host
    would take it all back later.
    """
    left = {"id": "a1", "state": "swapped", "reason": "gpufleet.nvidia.host", "at_work": False}
    sent: list[tuple[str, dict[str, Any]]] = []

    def exchange(
        _action: Any, program: str, request: dict[str, Any], *_more: Any
    ) -> dict[str, Any]:
        sent.append((program, request))
        if program == "transaction":
            return {
                "recovered": [
                    {
                        "id": "a1",
                        "reason": "gpufleet.nvidia.host",
                        "outcome": "rolled_back",
                        "why": "the executor died",
                    }
                ]
            }
        unfinished = [left] if len(sent) == 1 else []
        return answered.look(request, originals=answered.journal(unfinished=unfinished))

    monkeypatch.setattr(base.transport, "run_host_program", exchange)
    action: Any = SimpleNamespace(_task=SimpleNamespace(check_mode=False, diff=False))

    def told(_policy: Policy) -> list[dict[str, Any]]:
        return [answered.ORIGINALS]

    def nothing(_policy: Policy, _seen: Observation) -> base.Outcome:
        return base.Outcome(Plan())

    answer = base.converge_host(
        action, {"inventory_hostname": "gpu1"}, Policy(), told, nothing, reason="test", way="auto"
    )
    assert [(program, request.get("changes")) for program, request in sent] == [
        ("observe", None),
        ("transaction", []),
        ("observe", None),
    ]
    assert "the executor died" in answer["advice"][0]
    assert answer["advice"][0].endswith("[journal.recovered]")
    assert answer["warnings"] == [f"gpu1: {answer['advice'][0]}"], (
        "seen by those, too, who print no results"
    )
    sent.clear()
    error = {
        "phase": "recover",
        "message": "/var/lib/gpufleet/journal/a1: its entry cannot be read",
        "next": "Mend it",
    }
    monkeypatch.setattr(
        base.transport,
        "run_host_program",
        lambda *given: {"error": error} if given[1] == "transaction" else exchange(*given),
    )
    with pytest.raises(
        PlanError, match=r"its entry cannot be read. Mend it.*\[host.unfinished-transaction\]$"
    ):
        base.converge_host(action, {}, Policy(), told, nothing, reason="test", way="auto")
    monkeypatch.setattr(base.transport, "run_host_program", exchange)
    sent.clear()
    left.update(at_work=True)
    base.converge_host(action, {}, Policy(), told, nothing, reason="test", way="auto")
    assert [program for program, _request in sent] == ["observe"], (
        "who is still at work is left to it"
    )


def test_units_whose_restart_is_left_to_the_user_are_remembered_on_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the plan that is sent: a plan with the restart may be refused, and is not made."""
    sent: list[dict[str, Any]] = []

    def exchange(
        _action: Any, program: str, request: dict[str, Any], *_more: Any
    ) -> dict[str, Any]:
        if program == "transaction":
            sent.append(request)
            return {}
        return answered.look(request)

    def planner(policy: Policy, _seen: Observation) -> base.Outcome:
        if policy.restart != "never":
            raise PlanError("a restart would kill every container")
        return base.Outcome(dc.replace(PLAN, pending=("docker.service",)))

    monkeypatch.setattr(base.transport, "run_host_program", exchange)
    action: Any = SimpleNamespace(_task=SimpleNamespace(check_mode=False, diff=False))
    never = Policy(restart="never")
    base.converge_host(action, {}, never, lambda _policy: [], planner, reason="test", way="auto")
    assert [request["pending"] for request in sent] == [["docker.service", "a.service"]]
    assert [unit for request in sent for unit in request["units"]] == []


# --- more looks: as long as there is something new to ask
# ----------------------------------------------------------------


def chain(length: int) -> Any:
    """A host whose every answer names the next question, and a planner that follows them."""

    def planner(_policy: Policy, seen: Observation) -> base.Outcome:
        for n in range(length):
            if f"file:/{n}" not in seen.answers:
                raise NeedMore([queries.ask_for_file(f"/{n}", file_places.WHOLE)])
        return base.Outcome(Plan(), {"looks": length})

    return planner


def answering(monkeypatch: pytest.MonkeyPatch, *, deaf: bool = False) -> list[str]:
    asked: list[str] = []

    def look(
        _action: Any,
        _vars: Any,
        _policy: Any,
        questions: list[dict[str, Any]],
        _way: str,
        so_far: Observation,
    ) -> Observation:
        asked.extend(q["id"] for q in questions)
        return (
            so_far
            if deaf
            else so_far.add_answers({"answers": {q["id"]: {"exists": False} for q in questions}})
        )

    monkeypatch.setattr(host_look, "look_at_host", look)
    return asked


def test_a_plan_that_always_asks_something_new_gets_its_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = answering(monkeypatch)
    _seen, outcome = host_look.plan_from(
        Observation({}, {}), task({}), {}, Policy(), chain(40), "auto"
    )
    assert (outcome.facts["looks"], len(asked)) == (40, 40)


def test_a_plan_that_asks_the_same_again_is_a_fault_and_ends_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = answering(monkeypatch, deaf=True)
    with pytest.raises(PlanError, match=r"\[host.repeated-queries\]$"):
        host_look.plan_from(Observation({}, {}), task({}), {}, Policy(), chain(3), "auto")
    assert asked == ["file:/0"]


def test_a_host_that_always_leads_to_more_is_given_up_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch)
    with pytest.raises(
        PlanError,
        match=r"^100 .*file.*gpufleet_config_path .*\[host.too-many-looks\]$",
    ):
        host_look.plan_from(Observation({}, {}), task({}), {}, Policy(), chain(1000), "auto")
