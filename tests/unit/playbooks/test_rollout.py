# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook rollout on bare trees: canaries, waves, the gate, hosts that break or vanish on the
way, and a run that goes on.
"""

from __future__ import annotations

import dataclasses as dc
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.night import ONE_ROW, leave_rest
from tests.unit.playbooks.bare import play, written
from tests.unit.playbooks.rollouts import (
    CLOSED,
    DEAD,
    HOSTS,
    SECOND_CLASS,
    VANISHES,
    batches,
    broken,
    changed,
    fleet,
    told,
    unbroken,
)


def planned(words: str) -> list[list[str]]:
    """The hosts of each batch, as the plan names them before the first one: gpu[1-3,5], or gpu2,
    gpu9.
    """
    found = []
    for folded in re.findall(r"^  batch \d+, [^:\n]+: (gpu.+)$", words, re.MULTILINE):
        spans = [span.split("-") for span in re.sub(r"gpu|[\[\] ]", "", folded).split(",")]
        found.append(
            [f"gpu{number}" for span in spans for number in range(int(span[0]), int(span[-1]) + 1)]
        )
    return found


def predicted(words: str) -> list[list[str]]:
    """The hosts of each batch, as check mode tells them when all hosts have been tried."""
    found = re.findall(r"^batch \d+ of \d+, [^:\n]+: (gpu.+)$", words, re.MULTILINE)
    return [
        [f"gpu{number}" for span in spans for number in range(int(span[0]), int(span[-1]) + 1)]
        for folded in found
        for spans in [[s.split("-") for s in re.sub(r"gpu|[\[\] ]", "", folded).split(",")]]
    ]


# What Ansible prints of its own: titles of plays and tasks, and a line for each host
TITLE = re.compile(r"(TASK|PLAY) ")
OF_HOST = re.compile(r"(ok|changed|skipping|fatal|included): |\S+ +: ok=")


@dc.dataclass(frozen=True)
class Ran:
    """One run, and the hosts that were changed when it had ended."""

    status: int
    words: str
    changed: list[str]


PLANNED = pytest.mark.nightly(
    "the planner's tests judge batches and their order; by day other rollouts are played batch by batch"
)
ON_HOSTS = pytest.mark.nightly(
    "`lab: rollout` has a canary that fails, a host that is lost and the run after them on real hosts"
)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """A fleet and its first three runs: in check mode (outside a window), the rollout, and once
    more. They happen once, tests read.
    """
    place = tmp_path_factory.mktemp("story")
    inventory = fleet(place)
    window = {"gpufleet_rollout_window": "Mo 00:00-00:01 Pacific/Kiritimati"}
    runs: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
        "check": (("--check",), window),
        "rollout": ((), {}),
        "again": ((), {}),
    }
    return {
        name: Ran(*play(place, inventory, "rollout", *given, **extra), changed(place))
        for name, (given, extra) in runs.items()
    }


def test_canaries_of_each_class_go_first_then_waves_and_a_second_run_has_nothing_to_do(
    story: dict[str, Ran],
) -> None:
    first_run, again = story["rollout"], story["again"]
    assert first_run.status == 0, first_run.words
    first, *waves = batches(first_run.words)
    assert len(first) == 2
    assert len(set(first) & set(SECOND_CLASS)) == 1, "one of each class"
    assert [len(wave) for wave in waves] == [1, 1, 5, 3]
    assert sorted(h for wave in (first, *waves) for h in wave) == sorted(HOSTS)
    assert first_run.changed == HOSTS
    assert planned(first_run.words) == [first, *waves], "other tests read the batches in the plan"
    assert again.status == 0, again.words
    assert "12 hosts: 0 to change in 0 batches, 12 already as desired, 0 left out" in again.words
    assert batches(again.words) == []
    assert "12 hosts: 12 unchanged" in again.words


def test_check_mode_predicts_the_batches_and_changes_nothing(story: dict[str, Ran]) -> None:
    status, words = story["check"].status, story["check"].words
    assert status == 0, words
    assert story["check"].changed == []
    assert (
        "the window is closed (gpufleet_rollout_window: Mo 00:00-00:01 Pacific/Kiritimati); it opens Mo 00:00 Pacific/Kiritimati"
        in words
    )
    assert words.count("[action.would-pause]") == 1
    assert predicted(words) == planned(words) == batches(story["rollout"].words)


THIRD_CLASS = {"gpufleet_engine_version": "2.0.3"}


def test_check_mode_tries_all_hosts_at_once_and_the_collection_tells_most_of_its_lines(
    tmp_path: Path,
) -> None:
    three_kinds = fleet(tmp_path, gpu5=THIRD_CLASS, gpu6=THIRD_CLASS)
    status, words = play(tmp_path, three_kinds, "rollout", "--check")
    assert status == 0, words
    assert batches(words) == []
    lines = words.splitlines()
    titles = sum(bool(TITLE.match(line)) for line in lines)
    hosts = sum(bool(OF_HOST.match(line)) for line in lines)
    assert len(lines) <= 250, words
    # an empty line goes before each title
    assert 2 * titles + hosts < len(lines) / 2, words


@PLANNED
def test_in_check_mode_a_canary_that_is_lost_stops_the_batches_behind_it(
    tmp_path: Path,
) -> None:
    inventory = fleet(tmp_path, gpu2=VANISHES)
    status, words = play(tmp_path, inventory, "rollout", "--check", *SIX)
    assert status == 2, words
    assert told(words)["gpu2"] == "lost", words
    assert told(words)["gpu9"] == "would", words
    assert {told(words)[host] for host in ("gpu1", "gpu3", "gpu4")} == {"pending"}, words


# What follows is about single hosts and whole batches: six hosts have them all. A host's batch
# follows from the hosts' names.
SIX = ("--limit", "gpu1:gpu2:gpu3:gpu4:gpu9:gpu10")
CANARIES = ("gpu2", "gpu9")


@PLANNED
def test_a_fleet_whose_first_host_is_dead_and_whose_inventory_is_turned_round_has_the_same_order(
    tmp_path: Path,
) -> None:
    settings = {"gpufleet_rollout_window": CLOSED, "gpufleet_rollout_max_left_out": 1}
    status, words = play(tmp_path, fleet(tmp_path, gpu1=DEAD), "rollout", *SIX, **settings)
    assert status == 0, words
    order = planned(words)
    assert order == [["gpu2", "gpu9"], ["gpu3"], ["gpu4"], ["gpu10"]]
    assert told(words)["gpu1"] == "left out"
    data = yaml.safe_load((tmp_path / "hosts.yml").read_text())
    group = data["all"]["children"]["gpu_hosts"]
    group["hosts"] = dict(reversed(group["hosts"].items()))
    turned = written(tmp_path / "turned.yml", yaml.safe_dump(data, sort_keys=False))
    status, words = play(tmp_path, turned, "rollout", *SIX, **settings)
    assert planned(words) == order


@pytest.mark.parametrize("way", leave_rest(ON_HOSTS, ["fails", "vanishes"]))
def test_a_canary_that_does_not_come_through_stops_its_class_and_the_others_go_on_within_the_budget(
    way: str, tmp_path: Path
) -> None:
    inventory = fleet(tmp_path, **({"gpu9": VANISHES} if way == "vanishes" else {}))
    if way == "fails":
        broken(tmp_path, "gpu9")
    status, words = play(tmp_path, inventory, "rollout", *SIX, gpufleet_rollout_max_failed=1)
    assert status == 2, words
    assert set(batches(words)[0]) == set(CANARIES)
    assert changed(tmp_path) == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert told(words)["gpu9"] == ("failed" if way == "fails" else "lost")
    assert told(words)["gpu10"] == "pending"
    assert "its class has stopped: its canary gpu9" in re.sub(r"\s+", " ", words)


@PLANNED
def test_without_a_budget_a_canary_that_fails_stops_the_rollout(tmp_path: Path) -> None:
    inventory = fleet(tmp_path)
    broken(tmp_path, "gpu9")
    status, words = play(tmp_path, inventory, "rollout", *SIX)
    assert status == 2, words
    assert changed(tmp_path) == ["gpu2"]
    assert "[gate.rollout-over-limit]" in words
    assert "the rollout is stopped" in words


@ON_HOSTS
def test_the_next_run_goes_on_without_canaries_once_the_cause_is_mended(tmp_path: Path) -> None:
    inventory = fleet(tmp_path)
    broken(tmp_path, "gpu1")
    status, words = play(tmp_path, inventory, "rollout", *SIX)
    assert status == 2, words
    assert batches(words)[2:] == [["gpu1"]]
    assert changed(tmp_path) == ["gpu2", "gpu3", "gpu9"]
    unbroken(tmp_path, "gpu1")
    status, words = play(tmp_path, inventory, "rollout", *SIX)
    assert status == 0, words
    assert "canaries" not in words
    assert sorted(h for batch in batches(words) for h in batch) == ["gpu1", "gpu10", "gpu4"]
    assert changed(tmp_path) == ["gpu1", "gpu2", "gpu3", "gpu4", "gpu9", "gpu10"]


@pytest.mark.parametrize("strategy", leave_rest(ONE_ROW, ["free", "host_pinned"]))
def test_a_wave_that_is_lost_whole_ends_the_rollout_with_a_report_whatever_ansible_cfg_says(
    strategy: str, tmp_path: Path
) -> None:
    lost = ["gpu1", "gpu3"]
    inventory = fleet(tmp_path, **dict.fromkeys(lost, VANISHES))
    written(
        tmp_path / "ansible.cfg", f"[defaults]\nany_errors_fatal = true\nstrategy = {strategy}\n"
    )
    status, words = play(
        tmp_path,
        inventory,
        "rollout",
        *SIX,
        gpufleet_max_failed=1,
        gpufleet_rollout_waves=[2, "100%"],
    )
    assert status == 2, words
    assert batches(words)[1:] == [lost], "the whole wave, and the last one that begins"
    assert {told(words)[h] for h in lost} == {"lost"}
    assert changed(tmp_path) == [*CANARIES]
    assert "[gate.rollout-over-limit]" in words
    assert {told(words)[h] for h in ("gpu4", "gpu10")} == {"pending"}


def test_outside_its_window_a_rollout_pauses_which_is_no_failure(tmp_path: Path) -> None:
    status, words = play(tmp_path, fleet(tmp_path), "rollout", *SIX, gpufleet_rollout_window=CLOSED)
    assert status == 0, words
    assert changed(tmp_path) == []
    assert "the rollout is paused: the window is closed" in words
    assert set(told(words).values()) == {"pending"}


@PLANNED
def test_batches_keep_to_the_limit_of_a_domain(tmp_path: Path) -> None:
    racks = {host: {"rack": f"r{n % 3}"} for n, host in enumerate(HOSTS)}
    extra = {
        "gpufleet_rollout_domain": "rack",
        "gpufleet_rollout_max_unavailable": "1",
        "gpufleet_rollout_waves": "100%",
    }
    clusters = {
        host: {**more, "gpufleet_cluster": f"c{n % 2}"}
        for n, (host, more) in enumerate(racks.items())
    }
    status, words = play(
        tmp_path, fleet(tmp_path, **clusters), "rollout", gpufleet_rollout_window=CLOSED, **extra
    )
    assert status == 0, words
    for batch in planned(words):
        assert (
            len({clusters[h]["rack"] for h in batch})
            == len({clusters[h]["gpufleet_cluster"] for h in batch})
            == len(batch)
        )
    assert sorted(h for batch in planned(words) for h in batch) == sorted(HOSTS)


@PLANNED
def test_a_limit_of_hosts_is_the_whole_rollout(tmp_path: Path) -> None:
    status, words = play(tmp_path, fleet(tmp_path), "rollout", "--limit", "gpu3:gpu4:gpu10")
    assert status == 0, words
    assert changed(tmp_path) == ["gpu3", "gpu4", "gpu10"]
    assert "3 hosts: 3 changed" in words


WRONG = [
    ({"gpufleet_rollout_waves": "1,10,x"}, "gpufleet_rollout_waves is 'x'"),
    (
        {"gpufleet_rollout_max_failed": "120%"},
        "gpufleet_rollout_max_failed is '120%' (it is more than 100%)",
    ),
    ({"gpufleet_rollout_window": "20:00-21:00 Europe/Berlln"}, "[rollout.window-zone]"),
    ({"gpufleet_rollout_canary": 1}, "Did you mean gpufleet_rollout_canaries?"),
]


@pytest.mark.parametrize(("extra", "sentence"), leave_rest(ONE_ROW, WRONG))
def test_a_wrong_setting_ends_the_run_before_any_host_is_looked_at(
    extra: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    status, words = play(tmp_path, fleet(tmp_path), "rollout", **extra)
    assert status == 2, words
    assert sentence in words
    assert "gpufleet.nvidia.host : " not in words


def test_too_many_hosts_that_are_left_out_end_the_run_before_any_is_changed(tmp_path: Path) -> None:
    status, words = play(tmp_path, fleet(tmp_path, gpu1=DEAD, gpu2=DEAD, gpu3=DEAD), "rollout")
    assert status == 2, words
    assert (
        "3 of 12 hosts would be left out, 2 may be (gpufleet_rollout_max_left_out: 10%): gpu[1-3]"
        in words
    )
    assert "[rollout.too-many-left-out]" in words
    assert changed(tmp_path) == []
    assert {host: told(words)[host] for host in ("gpu1", "gpu2", "gpu3")} == dict.fromkeys(
        ("gpu1", "gpu2", "gpu3"), "left out"
    )
    assert sorted(re.findall(r"^(\w+) +: .*failed=1 ", words, re.MULTILINE)) == [
        "gpu1",
        "gpu2",
        "gpu3",
    ]


FEW = ("--limit", "gpu1:gpu2:gpu3:gpu9")


def test_an_approved_plan_binds_the_run_and_a_host_that_plans_something_else_is_named(
    tmp_path: Path,
) -> None:
    inventory = fleet(tmp_path)
    status, words = play(tmp_path, inventory, "plan", *FEW, gpufleet_rollout_plan_file="plan.json")
    assert status == 0, words
    assert len(yaml.safe_load((tmp_path / "plan.json").read_text())["changes"]) == 2
    (tmp_path / "trees/gpu3/etc/containerd/config.toml").write_text(
        'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true\n'
    )
    extra = {"gpufleet_rollout_approved": "plan.json", "gpufleet_rollout_max_left_out": 1}
    status, words = play(tmp_path, inventory, "rollout", *FEW, **extra)
    assert status == 0, words
    assert changed(tmp_path) == ["gpu1", "gpu2", "gpu9"]
    assert "gpu3: it plans something else than what was approved: " in words
    assert "enable_cdi is in the plan no more" in words
    assert told(words)["gpu3"] == "left out"


PLANS = [
    (None, "rollout-file.plan-unreadable"),
    ("{", "rollout-file.plan-not-json"),
    ('{"schema": 7, "hosts": {}, "changes": {}}', "approval.schema"),
]


@pytest.mark.parametrize(("text", "code"), leave_rest(ONE_ROW, PLANS))
def test_an_approved_plan_that_is_none_ends_the_run_before_any_host_is_looked_at(
    text: str | None, code: str, tmp_path: Path
) -> None:
    if text is not None:
        written(tmp_path / "plan.json", text)
    name = "absent.json" if text is None else "plan.json"
    status, words = play(tmp_path, fleet(tmp_path), "rollout", gpufleet_rollout_approved=name)
    assert status == 2, words
    assert f"[{code}]" in words
    assert f"{name}: " in words
    assert "gpufleet.nvidia.host : " not in words


def test_files_of_ones_own_are_run_on_each_host_and_a_second_look_finds_what_went_wrong_later(
    tmp_path: Path,
) -> None:
    words_of = {"before": "about to change", "change": "a new driver for", "after": "done with"}
    for name, text in words_of.items():
        written(
            tmp_path / f"{name}.yml",
            yaml.safe_dump(
                [{"ansible.builtin.debug": {"msg": text + " {{ inventory_hostname }}"}}]
            ),
        )
    lost = [
        {
            "ansible.builtin.file": {
                "path": "{{ gpufleet_root }}/etc/nvidia-container-runtime/config.toml",
                "state": "absent",
            }
        }
    ]
    written(
        tmp_path / "after.yml",
        yaml.safe_dump([*lost, *yaml.safe_load((tmp_path / "after.yml").read_text())]),
    )
    extra = {
        "gpufleet_rollout_tasks": {name: f"{name}.yml" for name in words_of},
        "gpufleet_rollout_soak": 1,
    }
    status, words = play(tmp_path, fleet(tmp_path), "rollout", "--limit", "gpu1:gpu2", **extra)
    assert status == 2, words
    at = [words.index(f"{text} gpu2") for text in words_of.values()]
    assert at == sorted(at)
    assert "it is not converged any more: /etc/nvidia-container-runtime/config.toml" in re.sub(
        r"\s+", " ", words
    )
    assert told(words) == {"gpu1": "pending", "gpu2": "failed"}


def test_the_gate_asks_outside_after_each_batch(tmp_path: Path) -> None:
    fires = f"mkdir {tmp_path}/begun 2>/dev/null && exit 0; echo alert fires >&2; exit 3"
    extra = {
        "gpufleet_rollout_gate_check": ["/bin/sh", "-c", fires],
        "gpufleet_rollout_gate_retries": 0,
    }
    status, words = play(tmp_path, fleet(tmp_path), "rollout", *FEW, **extra)
    assert status == 2, words
    assert "/bin/sh ended with 3: alert fires [action.gate-check-ill]" in words
    assert len(changed(tmp_path)) == 2, "the canaries"
    status, words = play(tmp_path, tmp_path / "hosts.yml", "rollout", *FEW, **extra)
    assert status == 2, words
    assert "the rollout stops before batch 1 of" in words
    assert len(changed(tmp_path)) == 2, "it is asked before the first batch of a run, too"


@ON_HOSTS
def test_a_host_that_hangs_is_lost_and_the_others_go_on(tmp_path: Path) -> None:
    written(tmp_path / "hangs", "#!/bin/sh\nsleep 300\n").chmod(0o755)
    hangs = {
        "ansible_python_interpreter": f"{{{{ '{tmp_path}/hangs' if gpufleet_rollout_plan is defined else ansible_playbook_python }}}}"
    }
    extra = {"gpufleet_rollout_host_timeout": 5, "gpufleet_rollout_max_failed": 1}
    status, words = play(
        tmp_path, fleet(tmp_path, gpu9=hangs), "rollout", "--limit", "gpu2:gpu9", **extra
    )
    assert status == 2, words
    assert told(words) == {"gpu2": "yes", "gpu9": "lost"}


def test_a_host_that_cannot_be_taken_out_of_service_is_left_out_and_no_failure(
    tmp_path: Path,
) -> None:
    refused = {
        "gpufleet_drain": "always",
        "gpufleet_drain_commands": {"before": ["/bin/false"], "after": ["/bin/true"]},
    }
    status, words = play(tmp_path, fleet(tmp_path, gpu9=refused), "rollout", "--limit", "gpu1:gpu9")
    assert status == 0, words
    assert told(words)["gpu9"] == "left out"
    assert changed(tmp_path) == ["gpu1"]


def test_a_host_that_nobody_can_take_out_of_service_is_left_out_with_the_reason_before_any_is_changed(
    tmp_path: Path,
) -> None:
    alone = {"gpu9": {"gpufleet_drain": "always"}}
    status, words = play(
        tmp_path, fleet(tmp_path, **alone), "rollout", *FEW, gpufleet_rollout_window=CLOSED
    )
    assert status == 0, words
    assert told(words)["gpu9"] == "left out"
    assert (
        "  left out: gpu9: gpufleet_drain is always, and nothing here can drain the host" in words
    )
