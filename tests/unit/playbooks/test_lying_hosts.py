# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing that a host answers is rendered on the controller, whatever value a template stands in
and however a result is read.

`make nightly` runs it on the oldest, a middle and the newest ansible-core: together at least 2 000
looks and 500 transactions.
"""

from __future__ import annotations

import collections
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.draws import count_examples
from tests.night import leave_rest
from tests.unit import running_host, running_hosts
from tests.unit.playbooks import bare, hostile_python
from tests.unit.playbooks.bare import written
from tests.unit.playbooks.liars import read

KINDS = ("containerd", "containerd, GPU", "crio", "docker")
WAYS = ("stdin", "module")
OTHER_WAY = pytest.mark.nightly(
    "one function reads the answers of both ways; the part `lab: ways` compares what comes of them"
)
# Of each host by each way. Drawn in full, times the kinds, the ways and three releases: 2 016 looks
# and 528 transactions.
LOOKS, TRANSACTIONS = count_examples(84), count_examples(22)
OPTIONS = {"no_gpu": "prepare", "packages": "ignore"}


@pytest.fixture(scope="module")
def process() -> Iterator[running_host.HostProcess]:
    yield from running_host.start_process()


def recorded(process: running_host.HostProcess) -> dict[str, Any]:
    """Give what a real look and a real transaction answer on a host of each kind."""
    found = {}
    for kind in KINDS:
        host = running_hosts.build(process, running_hosts.ENGINES[kind], 0o644)
        try:
            assert "failed" not in host.task("host_info", **OPTIONS)
            assert host.task("host", **OPTIONS)["changed"] is True
            said = list(zip(host.wire[::2], host.wire[1::2], strict=True))
        finally:
            host.close()
        looks = [(asked["questions"], answer) for asked, answer in said if "questions" in asked]
        answers = {
            hostile_python.question(q): answer["answers"][str(q.get("id", n))]
            for qs, answer in looks
            for n, q in enumerate(qs)
            if "where" not in q  # such a question is not answered by every host
        }
        found[kind] = {"host": looks[0][1]["host"], "answers": answers, "transaction": said[-1][1]}
    return found


def task(module: str, way: str, lie: str, seed: str, **more: Any) -> dict[str, Any]:
    """Give a task whose answer lies."""
    environment = {
        "GPUFLEET_LIES": "{{ lies }}",
        "GPUFLEET_KIND": "{{ kind }}",
        "GPUFLEET_LIE": lie,
    }
    environment["GPUFLEET_SEED"] = f"{{{{ inventory_hostname }}}} {way} {seed}"
    return {
        f"gpufleet.nvidia.{module}": {**OPTIONS, "transport": way},
        "environment": environment,
        **more,
    }


def tasks(way: str) -> list[dict[str, Any]]:
    """Give the tasks of one way to the hosts."""
    looks, changes = (f"{{{{ range({number}) | list }}}}" for number in (LOOKS, TRANSACTIONS))
    result = "{{ item.changed | default('') }} {{ item.msg | default('') }} {{ item }}"
    return [
        task(
            "host_info",
            way,
            "observe",
            "{{ item }}",
            loop=looks,
            register="looked",
            ignore_errors=True,
        ),
        *read("looked"),
        {"debug": {"msg": result}, "loop": "{{ looked.results }}", "no_log": True},
        task(
            "host",
            way,
            "transaction",
            "{{ item }}",
            loop=changes,
            register="carried",
            ignore_errors=True,
        ),
        *read("carried"),
        {
            "debug": {
                "msg": "came through: "
                + " ".join(
                    f"{{{{ {name} | to_json | regex_findall('lookup|query') | length }}}}"
                    for name in ("looked", "carried")
                )
            }
        },
        task(
            "host_info",
            way,
            "observe",
            "once",
            register="one",
            ignore_errors=True,
            retries=1,
            delay=0,
            until="one.msg is defined",
        ),
        *read("one"),
        {
            "gpufleet.nvidia.fleet_table": {"results": "one", "details": True},
            "register": "table",
            "run_once": True,
        },
        *read("table"),
        {
            "block": [
                task(
                    "host",
                    way,
                    "transaction",
                    "{{ item }}",
                    loop=[1, 2, 3],
                    register="failing",
                    failed_when=True,
                ),
            ],
            "rescue": [*read("ansible_failed_result"), *read("failing")],
        },
    ]


@pytest.mark.parametrize("way", leave_rest(OTHER_WAY, WAYS))
def test_no_answer_of_a_host_is_rendered(
    way: str, process: running_host.HostProcess, tmp_path: Path
) -> None:
    written(tmp_path / "answers.json", json.dumps(recorded(process)))
    python = written(
        tmp_path / "python",
        f'#!/bin/sh\nexec {sys.executable} -I -S {hostile_python.__file__} "$@"\n',
    )
    python.chmod(0o755)
    common = {
        "ansible_connection": "local",
        "ansible_python_interpreter": str(python),
        "lies": str(tmp_path),
    }
    hosts = {f"gpu{n}": {"kind": kind} for n, kind in enumerate(KINDS)}
    inventory = written(
        tmp_path / "hosts.yml", yaml.safe_dump({"all": {"hosts": hosts, "vars": common}})
    )
    play = {
        "hosts": "all",
        "gather_facts": False,
        "tasks": tasks(way),
    }
    book = written(tmp_path / "play.yml", yaml.safe_dump([play]))
    status, words = bare.run(tmp_path, "ansible-playbook", "-i", inventory, book)
    assert not (tmp_path / "rendered").exists(), words
    assert status == 0, words
    assert "An exception occurred" not in words
    told = collections.Counter(
        line for line in (tmp_path / "log").read_text().splitlines() if line.endswith("lie")
    )
    least = {f"observe {way} lie": LOOKS, f"transaction {way} lie": TRANSACTIONS}
    assert {
        name: told[name] >= number * len(KINDS) for name, number in least.items()
    } == dict.fromkeys(least, True), told
    came = [
        sum(map(int, numbers))
        for numbers in zip(*re.findall(r"came through: (\d+) (\d+)", words), strict=True)
    ]
    assert [number > 0 for number in came] == [True, True], words


def test_the_words_of_a_failed_connection_are_not_rendered(tmp_path: Path) -> None:
    """The program that connects repeats what the host says before anybody has logged in, as sshd's
    banner.
    """
    words = "{{ lookup('pipe', 'touch rendered') }}"
    ssh = written(tmp_path / "ssh", f'#!/bin/sh\necho "banner: {words}" >&2\nexit 255\n')
    ssh.chmod(0o755)
    host = {
        "ansible_connection": "ssh",
        "ansible_ssh_executable": str(ssh),
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    inventory = written(tmp_path / "hosts.yml", yaml.safe_dump({"all": {"hosts": {"gone": host}}}))
    looks = [{"gpufleet.nvidia.host_info": {"transport": way}, "register": way} for way in WAYS]
    tasks = [one for look in looks for one in (look, *read(str(look["register"])))]
    told = {"debug": {"msg": "{{ stdin.unreachable }} {{ module.unreachable }} {{ stdin.msg }}"}}
    play = {
        "hosts": "all",
        "gather_facts": False,
        "ignore_unreachable": True,
        "tasks": [*tasks, told],
    }
    book = written(tmp_path / "play.yml", yaml.safe_dump([play]))
    status, out = bare.run(
        tmp_path, "ansible-playbook", "-i", inventory, book, ANSIBLE_SSH_RETRIES="0"
    )
    assert status == 0, out
    assert "True True" in out
    assert "banner: {{ lookup('pipe'" in out
    assert not (tmp_path / "rendered").exists(), out
