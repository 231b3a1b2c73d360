# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks on bare trees: waves, the gate between them, and what is said before anything is
done; three kinds of inventory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.night import ONE_ROW, leave_rest, leave_unless
from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play, written

ROOT = Path(__file__).resolve().parents[3]
HOSTS = [f"gpu{number}" for number in range(1, 7)]
WAVE = "PLAY [Converge the fleet]"


def of_hosts(place: Path) -> dict[str, dict[str, str]]:
    return {host: bare.variables(place, host) for host in HOSTS}


def as_yaml(place: Path, group: Mapping[str, Any]) -> Path:
    entry = {"hosts": of_hosts(place), "vars": dict(group)}
    return written(
        place / "hosts.yml",
        yaml.safe_dump({"all": {"children": {"gpu_hosts": entry, "web": {"hosts": {"web1": {}}}}}}),
    )


def as_ini(place: Path, group: Mapping[str, Any]) -> Path:
    lines = [
        "[web]",
        "web1",
        "[gpu_hosts]",
        *(
            " ".join([h, *(f"{k}={v}" for k, v in own.items())])
            for h, own in of_hosts(place).items()
        ),
    ]
    return written(
        place / "hosts.ini",
        "\n".join(
            [*lines, "[gpu_hosts:vars]", *(f"{k}={json.dumps(v)}" for k, v in group.items()), ""]
        ),
    )


def as_directory(place: Path, group: Mapping[str, Any]) -> Path:
    folder = place / "inventory"
    (folder / "group_vars").mkdir(parents=True)
    as_yaml(place, {}).rename(folder / "hosts.yml")
    written(folder / "group_vars/gpu_hosts.yml", yaml.safe_dump(dict(group)))
    return folder


Inventory = Callable[[Path, Mapping[str, Any]], Path]
OF_THE_SAME = pytest.mark.nightly(
    "Ansible reads the kinds of inventory; by day a wrong setting is looked for in each of them"
)


def waves(words: str) -> list[int]:
    """How many hosts each wave converged."""
    task = r"TASK \[gpufleet\.nvidia\.host : Converge the host\] \**\n(.*?)\n(?:TASK|PLAY) "
    parts = [re.search(task, part, re.DOTALL) for part in words.split(WAVE)[1:]]
    return [
        len(set(re.findall(r"^(?:ok|changed|fatal): \[(gpu\d+)\]", part[1], re.MULTILINE)))
        if part
        else 0
        for part in parts
    ]


@pytest.mark.parametrize(
    "inventory",
    leave_rest(OF_THE_SAME, [as_yaml, as_ini, as_directory]),
    ids=["yaml", "ini", "directory"],
)
def test_site_goes_in_waves_without_being_asked(inventory: Inventory, tmp_path: Path) -> None:
    status, words = play(tmp_path, inventory(tmp_path, {}), "site", "--check")
    assert status == 0, words
    assert waves(words) == [1, 1, 4]
    assert "web1" not in words


@pytest.mark.parametrize(
    ("name", "serial", "sizes"),
    leave_rest(
        ONE_ROW,
        [
            ("site", [2, "50%"], [2, 3, 1]),
            ("rollback", None, [1, 1, 4]),
            ("site", "100%", [6]),
            ("refresh_cdi", [4], [4, 2]),
        ],
        by_day=2,
    ),
)
def test_waves_are_what_the_command_line_says(
    name: str, serial: Any, sizes: list[int], tmp_path: Path
) -> None:
    status, words = play(tmp_path, as_yaml(tmp_path, {}), name, "--check", gpufleet_serial=serial)
    assert status == 0, words
    gates = re.findall(
        r"TASK \[Stop here when an earlier wave lost or failed too many hosts\] \**\s+ok: \[gpu",
        words,
    )
    assert len(gates) == len(sizes)
    if name == "site":
        assert waves(words) == sizes


@pytest.mark.parametrize(
    ("name", "inventory"),
    leave_rest(
        ONE_ROW,
        [
            ("site", as_yaml),
            ("site", as_ini),
            ("site", as_directory),
            ("plan", as_yaml),
            ("rollback", as_ini),
        ],
        by_day=3,
    ),
)
def test_a_setting_that_would_be_ignored_ends_the_run_before_it_begins(
    name: str, inventory: Inventory, tmp_path: Path
) -> None:
    status, words = play(
        tmp_path, inventory(tmp_path, {"gpufleet_serial": [1, "10%", "50%"]}), name
    )
    assert status == 2, words
    assert (
        "gpufleet_serial is set in the inventory, for gpu[1-6], where it would have no effect"
        in words
    )
    assert "-e @rollout.yml" in words
    assert "gpufleet.nvidia.host : " not in words, "nothing was looked at"


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    leave_rest(
        ONE_ROW,
        [
            ("plan", {"gpufleet_fleet_policy": "unifrm"}, "[options.choice]"),
            (
                "plan",
                {"gpufleet_max_failed": "lots", "gpufleet_fail_on_drift": "perhaps"},
                "[variables.failed-hosts]",
            ),
            ("plan", {"gpufleet_max_lost": "few"}, "[rollout.amount]"),
            ("site", {"gpufleet_fail_on_drift": "perhaps"}, "[options.type]"),
            ("site", {"gpufleet_serial": 0}, "[variables.wave-size]"),
        ],
    ),
)
def test_a_value_that_a_setting_of_the_run_cannot_have_ends_it_before_it_begins(
    name: str, settings: dict[str, Any], says: str, tmp_path: Path
) -> None:
    status, words = play(tmp_path, as_yaml(tmp_path, {}), name, **settings)
    assert status == 2, words
    assert says in words
    assert "gpufleet.nvidia.host : " not in words, "nothing was looked at"


def test_the_group_to_work_on_is_no_setting_of_a_group(tmp_path: Path) -> None:
    status, words = play(
        tmp_path,
        as_directory(tmp_path, {"gpufleet_hosts": "gpu_hosts"}),
        "site",
        gpufleet_hosts=None,
    )
    assert status == 2, words
    assert "gpufleet_hosts is set in the inventory, for gpu[1-6]" in words
    assert "gpufleet.nvidia.host : " not in words


PLAYBOOKS = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))


FIRST_STEP = pytest.mark.nightly(
    "by day a test reads that this check is the first task of every playbook, and three are played"
)


@pytest.mark.parametrize(
    "name", leave_unless(FIRST_STEP, PLAYBOOKS, ("site", "rollout", "bundle").__contains__)
)
def test_every_playbook_names_misspelt_variables_first(name: str, tmp_path: Path) -> None:
    inventory = as_yaml(tmp_path, {"gpufleet_isolaton": "strict"})
    status, words = play(tmp_path, inventory, name, gpufleet_max_fail=3)
    assert status == 2, words
    of_hosts = "Did you mean gpufleet_isolation?"
    assert (of_hosts in words) is (name not in ("awx", "bundle")), (
        "which look at no host of the inventory"
    )
    assert "Did you mean gpufleet_max_failed?" in words
    assert len(re.findall(r"^TASK ", words, re.MULTILINE)) == 1, words


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_the_first_task_of_every_playbook_checks_the_variables(name: str) -> None:
    first = yaml.safe_load((ROOT / f"playbooks/{name}.yml").read_text())[0]
    assert set(first) & {"pre_tasks", "roles", "import_playbook"} == set()
    task = first["tasks"][0]
    assert "gpufleet.nvidia.variables_check" in task
    assert "when" not in task
    assert (task["run_once"], task["tags"]) == (True, "always")


def test_an_archive_that_cannot_be_read_is_named_before_a_host_is_looked_at(tmp_path: Path) -> None:
    missing = {"gpufleet_bundle_file": str(tmp_path / "bundel.tar")}
    status, words = play(tmp_path, as_directory(tmp_path, missing), "site")
    assert status == 2, words
    assert "[bundle.unreadable]" in words
    assert ", for gpu[1-6] (" in words
    assert "gpufleet.nvidia.host : " not in words
    _status, words = play(
        tmp_path,
        tmp_path / "inventory",
        "bundle",
        **missing,
        gpufleet_toolkit_repository="file:///nowhere",
    )
    assert "bundle : " in words, "which writes that file"


def test_values_that_no_role_accepts_are_named_for_all_hosts_at_once(tmp_path: Path) -> None:
    wrong = {
        "gpufleet_injection": "cdi",
        "gpufleet_isolation": "{{ nowhere }}",
        "gpufleet_cdi": True,
        "gpufleet_engines": "containerd",
    }
    status, words = play(tmp_path, as_directory(tmp_path, wrong), "site")
    assert status == 2, words
    assert re.search(r"gpufleet_injection is 'cdi'.*, for gpu\[1-6\].*\[options.choice\]", words)
    assert re.search(r"gpufleet_isolation cannot be read.*, for gpu\[1-.*\[variables.un", words)
    assert re.search(
        r"gpufleet_cdi is True.*, for gpu\[1-6\]\. Write enabled \[options.switch\]", words
    )
    assert "argument_spec" not in words
    assert "gpufleet.nvidia.host : " not in words


@pytest.mark.parametrize("playbook", leave_rest(ONE_ROW, ["site", "rollout"]))
def test_a_file_of_variables_without_its_sign_ends_the_run(playbook: str, tmp_path: Path) -> None:
    status, words = play(
        tmp_path, tmp_path / as_directory(tmp_path, {}), playbook, "-e", "more.yml"
    )
    assert status == 2, words
    assert "[variables.without-at]" in words
    assert "gpufleet.nvidia.host : " not in words


# A setting of the run, where it stands, and what is said.
UNREAD = {
    "for the run": ({}, {"gpufleet_rollout_class": "{{ rack }}"}, "[variables.unreadable-setting]"),
    "for hosts": ({"gpufleet_serial": "{{ nowhere }}"}, {}, "[variables.run-setting-in-inventory]"),
}


@pytest.mark.parametrize("case", UNREAD)
def test_a_setting_of_the_run_that_cannot_be_read_is_named(case: str, tmp_path: Path) -> None:
    inventory, extra, says = UNREAD[case]
    status, words = play(tmp_path, as_yaml(tmp_path, inventory), "plan", **extra)
    assert status == 2, words
    assert says in words
    assert ("gpufleet_rollout_class" if extra else "gpufleet_serial") in words
    assert "gpufleet.nvidia.host : " not in words


def test_a_variable_of_ones_own_is_left_alone_where_it_is_listed(tmp_path: Path) -> None:
    inventory = as_yaml(
        tmp_path, {"gpufleet_site": "fra1", "gpufleet_own_variables": ["gpufleet_site"]}
    )
    assert play(tmp_path, inventory, "plan", "--limit", "gpu1")[0] == 0


# The hosts that the run is for, and the code if there is none.
NO_HOST = {
    "a typo": ({"gpufleet_hosts": "gpu_host"}, (), "[variables.unknown-hosts-near]"),
    "a limit outside of the group": ({}, ("--limit", "web"), "[variables.limit-leaves-none]"),
}


@pytest.mark.parametrize("case", NO_HOST)
def test_a_run_for_no_host_is_no_success(case: str, tmp_path: Path) -> None:
    settings, arguments, says = NO_HOST[case]
    status, words = play(tmp_path, as_yaml(tmp_path, {}), "site", *arguments, **settings)
    assert status != 0, words
    assert says in words.replace("\n", " ")
    assert "TASK" not in words


# gpufleet_hosts, and the hosts of it in an inventory of gpu1 to gpu6 and web1; what is in a list
# may have more parts.
PATTERNS = {
    "gpu1:gpu2:web1": "gpu1 gpu2 web1",
    "gpu_hosts:!gpu[!1]": "gpu1",
    ("gpu_hosts", "!gpu[!125]:!gpu2:!gpu5"): "gpu1",
    ("gpu[!456]:!gpu2", "web"): "gpu1 gpu3 web1",
    ("gpu_hosts[0:1]", "web"): "gpu1 gpu2 web1",
}


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_a_pattern_means_what_it_means_to_ansible(
    pattern: str | tuple[str, ...], tmp_path: Path
) -> None:
    given = pattern if isinstance(pattern, str) else list(pattern)
    status, words = play(
        tmp_path, as_yaml(tmp_path, {}), "report", "--list-hosts", gpufleet_hosts=given
    )
    assert status == 0, words
    assert set(re.findall(r"^ {6}(\S+)$", words, re.MULTILINE)) == set(PATTERNS[pattern].split())


def test_a_slice_of_a_job_may_have_no_host(tmp_path: Path) -> None:
    of_awx = {
        "awx_job_template_name": "GPU fleet: plan",
        "awx_workflow_job_name": "GPU fleet: plan",
    }
    status, words = play(tmp_path, as_yaml(tmp_path, {}), "plan", "--limit", "web", **of_awx)
    assert status == 0, words


SKIPS = {
    "--start-at-task": ("Converge", "variables.start-at-task"),
    "--skip-tags": ("always", "variables.tags"),
}


@pytest.mark.parametrize("option", SKIPS)
def test_what_would_skip_the_checks_is_refused(option: str, tmp_path: Path) -> None:
    value, code = SKIPS[option]
    status, words = play(tmp_path, as_yaml(tmp_path, {}), "site", option, value)
    assert status != 0, words
    assert f"[{code}]" in words.replace("\n", " ")
    assert "TASK" not in words


def test_a_playbook_of_ones_own_may_be_limited_to_other_hosts(tmp_path: Path) -> None:
    mine = written(
        tmp_path / "mine.yml", yaml.safe_dump([{"import_playbook": "gpufleet.nvidia.site"}])
    )
    status, words = play(tmp_path, as_yaml(tmp_path, {}), str(mine), "--limit", "web")
    assert status == 0, words
    assert play(tmp_path, tmp_path / "hosts.yml", str(mine), gpufleet_hosts="gpu_host")[0] != 0


PLAYS = [
    (name, play_)
    for name in PLAYBOOKS
    for play_ in yaml.safe_load((ROOT / f"playbooks/{name}.yml").read_text())
    if "hosts" in play_
]


@pytest.mark.parametrize(
    ("name", "play_"), PLAYS, ids=[f"{name}: {play_['name']}" for name, play_ in PLAYS]
)
def test_every_play_names_its_strategy_and_judges_its_hosts(
    name: str, play_: Mapping[str, Any]
) -> None:
    assert play_["strategy"] == "ansible.builtin.linear"
    if "gpufleet_hosts" in play_["hosts"]:
        assert (
            play_["hosts"]
            == "{{ lookup('gpufleet.nvidia.play_hosts', gpufleet_hosts | default('all')) }}"
        )


@pytest.mark.parametrize("name", leave_rest(ONE_ROW, ["site", "plan"]))
def test_a_strategy_of_ansible_cfg_changes_nothing(name: str, tmp_path: Path) -> None:
    written(tmp_path / "ansible.cfg", "[defaults]\nstrategy = free\n")
    status, words = play(tmp_path, as_yaml(tmp_path, {}), name, "--check")
    assert status == 0, words
    assert "bypasses" not in words


@pytest.mark.parametrize(
    "arguments", leave_rest(ONE_ROW, [["--tags", "verify"], ["--skip-tags", "verify"]])
)
def test_tags_are_refused_instead_of_doing_nothing(arguments: list[str], tmp_path: Path) -> None:
    status, words = play(tmp_path, as_yaml(tmp_path, {}), "site", *arguments)
    assert status == 2, words
    assert "have no tags" in words


def test_a_playbook_of_ones_own_may_give_tags_and_settings_to_ours(tmp_path: Path) -> None:
    outer = [
        {
            "import_playbook": "gpufleet.nvidia.site",
            "vars": {"gpufleet_serial": ["100%"]},
            "tags": ["gpus"],
        }
    ]
    mine = written(tmp_path / "mine.yml", yaml.safe_dump(outer))
    status, words = play(tmp_path, as_yaml(tmp_path, {}), str(mine), "--check", "--tags", "gpus")
    assert status == 0, words
    assert waves(words) == [6]


STOPS = [
    # broken hosts, hosts that may be lost, the waves that are begun
    (["gpu2"], 0, [1, 1]),
    (["gpu3", "gpu4"], 1, [1, 1, 3]),
    (["gpu1"], 0, [1]),
    (["gpu3"], 0, [1, 1, 4]),
    (["gpu3", "gpu4"], 2, [1, 1, 3, 1]),
]


@pytest.mark.parametrize(("broken", "max_failed", "sizes"), leave_rest(ONE_ROW, STOPS, by_day=2))
def test_the_gate_stops_before_the_next_wave_and_a_table_is_always_shown(
    broken: list[str], max_failed: int, sizes: list[int], tmp_path: Path
) -> None:
    inventory = as_yaml(tmp_path, {})
    for host in broken:
        (tmp_path / "trees" / host / "etc/containerd/config.toml").write_text("version = \n")
    extra = {"gpufleet_serial": [1, 1, 3]} if max_failed else {}
    status, words = play(
        tmp_path, inventory, "site", "--check", gpufleet_max_failed=max_failed, **extra
    )
    assert status == 2, words
    assert [size for size in waves(words) if size] == sizes
    assert words.count("HOST ") == 1, "one table"


def test_a_fleet_that_is_to_be_uniform_is_judged_before_any_host_is_changed(tmp_path: Path) -> None:
    inventory = as_yaml(tmp_path, {})
    (tmp_path / "host_vars").mkdir()
    written(
        tmp_path / "host_vars/gpu5.yml",
        yaml.safe_dump({"gpufleet_engines": ["crio"], "gpufleet_engine_version": "1.34.2"}),
    )
    written(tmp_path / "trees/gpu5/etc/crio.conf", "").parent.joinpath("crio").mkdir()

    def files() -> dict[Path, bytes]:
        return {
            path: path.read_bytes()
            for path in sorted((tmp_path / "trees").rglob("*"))
            if path.is_file()
        }

    before = files()
    status, words = play(tmp_path, inventory, "site", gpufleet_fleet_policy="uniform")
    assert status == 2, words
    assert "mixed container engines: containerd on gpu[1-" in words
    assert "crio on gpu5" in words
    assert WAVE not in words
    assert files() == before


@pytest.mark.parametrize(("state", "asked"), [("absent", False), ("present", True)])
def test_where_everything_is_taken_back_no_container_is_asked_for(
    state: str, asked: bool, tmp_path: Path
) -> None:
    bare.tree(tmp_path / "gpu1")
    file = as_yaml(tmp_path, {"gpufleet_verify_image": "probe:1", "gpufleet_state": state})
    _status, words = play(tmp_path, file, "site", "--limit", "gpu1")
    skipped = re.search(r"TASK \[[^]]*Verify the host\] \**\nskipping: \[gpu1\]", words)
    assert (skipped is None) == asked, words
