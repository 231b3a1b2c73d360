# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rollback as a new user would do it, three weeks later: more runs than the journal keeps, restarts
and a loss of power in between.

The commands are those of docs/rollback.md, as they stand there. A host's clock is the machine's and
cannot be set for one host alone, so the three weeks pass the other way round: everything that the
journal dates is set back by that time. The containers with GPUs were started through our handler
and through CDI, and are looked at after each restart.
"""

from __future__ import annotations

import base64
import dataclasses as dc
import json
import re
import shlex
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    host_answers,
    transport,
)

from tests.integration.conftest import Boot
from tests.integration.story import CRICTL, engine
from tests.tools import wire
from tests.tools.onlab import PROBE, ROOT, Fleet, Tree, differing, repository

pytestmark = pytest.mark.lab

# host -> (kind, the engine's file that carries our part, a line that someone adds there by hand)
HOSTS = {
    "later17": ("containerd-1.7", "/etc/containerd/config.toml", "# by hand, too\\n"),
    "latercrio": ("crio-1.34", "/etc/crio/crio.conf.d/90-gpufleet.conf", "# by hand, too\\n"),
}
THEIRS = "# by hand\\n"
TOOLKIT = "/etc/nvidia-container-runtime/config.toml"
KEPT = 30  # transactions in a journal
PAGE = (ROOT / "docs/rollback.md").read_text(encoding="utf-8")
WEEKS = r"""
import datetime, json, os, re, time
three = datetime.timedelta(weeks=3)
def back(found):
    return (datetime.datetime.strptime(found.group(), "%Y-%m-%dT%H:%M:%SZ") - three).strftime("%Y-%m-%dT%H:%M:%SZ")
os.chdir("/var/lib/gpufleet")
for home, folders, files in [visit for top in ("journal", "originals", "open") for visit in os.walk(top, topdown=False)]:
    for name in files:
        path = os.path.join(home, name)
        if name in ("meta.json", "states", "outcome.json"):
            with open(path) as stream:
                text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", back, stream.read())
            text = re.sub(r'("epoch": )(\d+)', lambda found: found.group(1) + str(int(found.group(2)) - 1814400), text)
            with open(path, "r+") as stream:
                stream.write(text)
    for name in files + folders:
        path = os.path.join(home, name)
        os.utime(path, (time.time() - 1814400,) * 2)
        dated = re.match(r"(\d{8}T\d{6}Z)-", name)
        if dated:
            then = datetime.datetime.strptime(dated.group(1), "%Y%m%dT%H%M%SZ") - three
            os.rename(path, os.path.join(home, then.strftime("%Y%m%dT%H%M%SZ") + name[16:]))
"""
# Runs inside the host: [argv, script in base64] each.
ONE_BY_ONE = """
import base64, json, subprocess, sys
for argv, script in json.load(sys.stdin):
    subprocess.run(argv, input=base64.b64decode(script), check=True)
"""
SANDBOX = {"security_context": {"namespace_options": {"network": 2}}}
# name -> the handler that its pod asks for
CONTAINERS = {"by-cdi": "", "by-handler": "nvidia"}
# a GPU's node that may be opened, and behind which there is no driver
OPENED = "No such device or address"


@dc.dataclass(frozen=True)
class Later:
    """One host: before everything, and after the rollback; its containers' processes before and
    after each restart.
    """

    before: Tree
    after: Tree
    times: tuple[str, str]
    journal: list[dict[str, Any]]
    history: list[str]
    containers: list[dict[str, list[str]]]


@dc.dataclass(frozen=True)
class Story:
    """The fleet, what became of its hosts, and what the rollback printed."""

    fleet: Fleet
    hosts: dict[str, Later]
    words: str


def documented(fleet: Fleet, playbook: str, hosts: Sequence[str], *, check: bool = False) -> str:
    """Type what the page says, for these hosts of the lab instead of the one of the page."""
    commands = re.findall(r"^ansible-playbook .*", PAGE, re.MULTILINE)
    line = next(
        c for c in commands if f"gpufleet.nvidia.{playbook}" in c and ("--check" in c) == check
    )
    words = [
        {"inventory": str(fleet.lab.inventory_path()), "gpu17": ",".join(hosts)}.get(w, w)
        for w in shlex.split(line)
    ]
    words[0] = str(Path(sys.executable).with_name(words[0]))
    words += [] if "--limit" in words else ["--limit", ",".join(hosts)]
    environment = {
        **fleet.lab.environment(),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache/collections"),
        "ANSIBLE_NOCOLOR": "1",
    }
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def others(fleet: Fleet, host: str) -> None:
    """More transactions than the journal keeps, about a file that the first run changed as well."""
    text = fleet.text(host, TOOLKIT)
    requests = [
        {
            "schema": 1,
            "id": uuid.uuid4().hex,
            "root": "/",
            "journal_dir": "/var/lib/gpufleet",
            "reason": f"run {number}",
            "changes": [{"path": TOOLKIT, "op": "write", "content": f"{text}# {number}\n"}],
        }
        for number in range(KEPT + 2)
    ]
    sent = [
        base64.b64encode(
            transport.build_interpreter_input("transaction", request, "MARK:")
        ).decode()
        for request in requests
    ]
    scripts = [(wire.argv("python3"), script) for script in sent]
    done = fleet.lab.exec(host, ["python3", "-c", ONE_BY_ONE], stdin=json.dumps(scripts))
    assert done.returncode == 0, done.stderr
    answers = [host_answers.unpack_answer(answer) for answer in done.stdout.split("MARK:")[1:]]
    assert [(answer["changed"], answer["error"]) for answer in answers] == [(True, None)] * len(
        requests
    )


def start(fleet: Fleet, host: str, boot: int) -> None:
    """Start containers with a GPU: one by CDI, one in a pod of our handler."""
    for name, handler in CONTAINERS.items():
        pod = json.dumps(
            {
                "metadata": {"name": name, "uid": name, "namespace": "tests", "attempt": boot},
                "linux": SANDBOX,
            }
        )
        gpu = [{"name": "nvidia.com/gpu=0"}]
        more = {
            "image": {"image": PROBE},
            "command": ["/bin/sleep", "100000"],
            "linux": {},
            "CDI_devices": gpu,
        }
        container = json.dumps({"metadata": {"name": name, "attempt": boot}, **more})
        fleet.shell(
            host,
            f"cd /run; printf %s '{pod}' >pod; printf %s '{container}' >container; "
            f"p=$({CRICTL} runp {f'--runtime {handler}' if handler else ''} pod); "
            f"{CRICTL} start $({CRICTL} create --no-pull $p container pod); rm pod container",
        )


def running(fleet: Fleet, host: str) -> dict[str, list[str]]:
    """Of each container: its first process with the time of its start, and what comes of opening
    its GPU.
    """
    script = (
        "c=$({crictl} ps -q --name {name}); pid=$({crictl} inspect $c | grep -m1 '\"pid\":' | tr -dc 0-9); "
        "cut -d' ' -f22 /proc/$pid/stat | tr '\n' ' '; echo $pid; {crictl} exec $c sh -c 'head -c0 /dev/nvidia0 2>&1; true' || true"
    )
    return {
        name: fleet.shell(host, script.format(crictl=CRICTL, name=name)).splitlines()
        for name in CONTAINERS
    }


def journal(fleet: Fleet, host: str) -> dict[str, Any]:
    return fleet.task("host_info", [host]).of("host_info")[host]


@pytest.fixture(scope="module")
def weeks(boot: Boot) -> Story:
    fleet = boot(
        {
            name: {"kind": kind, "gpus": 2, "driver": "ok"}
            for name, (kind, _path, _line) in HOSTS.items()
        }
    )
    hosts = list(HOSTS)
    # the packages are there from the beginning, so all that differs is ours
    for playbook in (
        "site",
        "rollback",
    ):
        assert fleet.play(playbook, hosts, variables=repository()).failed == {}
    for host in hosts:
        for path in (TOOLKIT, "/etc/containerd/config.toml"):
            fleet.shell(
                host,
                f"[ ! -e {path} ] || {{ chmod 0640 {path}; chgrp adm {path}; touch -d 2024-02-03 {path}; }}",
            )
    before = {host: fleet.tree(host) for host in hosts}
    times = {host: fleet.shell(host, f"stat -c %y {TOOLKIT}") for host in hosts}
    seen: dict[str, list[dict[str, list[str]]]] = {host: [] for host in hosts}

    def look() -> None:
        for host in hosts:
            seen[host].append(running(fleet, host))

    assert fleet.play("site", hosts).failed == {}
    for host in hosts:
        done = fleet.lab.exec(host, ["python3", "-"], stdin=WEEKS)
        assert done.returncode == 0, done.stderr
        start(fleet, host, 1)
    look()
    for host in hosts:
        others(fleet, host)
    for default in ("enabled", "auto"):
        restarted = fleet.task("host", hosts, {"set_as_default": default})
        assert {host: answer["restarted"] for host, answer in restarted.of("host").items()} == {
            host: [f"{engine(HOSTS[host][0])}.service"] for host in hosts
        }, restarted.words
        look()
    for host in hosts:
        fleet.lab.kill(host)
        fleet.lab.boot(host)
        start(fleet, host, 2)
    look()
    told = {host: journal(fleet, host) for host in hosts}
    documented(fleet, "rollback", hosts, check=True)
    words = documented(fleet, "rollback", hosts)
    look()
    return Story(
        fleet,
        {
            host: Later(
                before[host],
                fleet.tree(host),
                (times[host], fleet.shell(host, f"stat -c %y {TOOLKIT}")),
                told[host]["journal"],
                told[host]["history"],
                seen[host],
            )
            for host in hosts
        },
        words,
    )


@pytest.mark.parametrize("host", HOSTS)
def test_rollback_gives_back_the_bytes_from_before_three_weeks_later(
    host: str, weeks: Story
) -> None:
    later = weeks.hosts[host]
    assert differing(later.before, later.after) == {}
    assert later.times[0] == later.times[1]


@pytest.mark.parametrize("host", HOSTS)
def test_the_journal_is_bounded_and_told_in_words(host: str, weeks: Story) -> None:
    """The first run is not in it any more: what rollback needs is kept beside it."""
    later, unit = weeks.hosts[host], f"{engine(HOSTS[host][0])}.service"
    assert len(later.journal) <= KEPT + 1, "and one that is not over"
    assert len(later.history) == len(later.journal)
    assert re.match(
        r"\d{4}-\S+Z gpufleet\.nvidia\.host: wrote /etc/.*; restarted " + re.escape(unit),
        later.history[0],
    ), later.history[0]
    assert re.match(rf"\S+Z run {KEPT + 1}: wrote {TOOLKIT}: stands$", later.history[2])
    assert not [
        entry for entry in later.journal if entry["time"] < later.journal[0]["time"][:11]
    ], "nothing of three weeks ago"


@pytest.mark.parametrize("host", HOSTS)
def test_containers_with_gpus_live_through_restarts_of_their_engine(
    host: str, weeks: Story
) -> None:
    """Two restarts before the power was lost, and that of the rollback."""
    first, default, back, booted, rolled_back = weeks.hosts[host].containers
    assert first == default == back
    for seen in (*first.values(), *booted.values(), rolled_back["by-cdi"]):
        assert re.fullmatch(r"\d+ \d+", seen[0]), seen
        assert OPENED in seen[1], seen
    # CRI-O begins nothing in a container any more whose handler is gone, which rollback says
    # beforehand; but the container runs on.
    assert {name: seen[0] for name, seen in rolled_back.items()} == {
        name: seen[0] for name, seen in booted.items()
    }


@pytest.fixture(scope="module")
def changed(weeks: Story) -> dict[str, tuple[Tree, str]]:
    """Everything is converged again, someone writes to the files, and then all is taken back:
    hosts, and what was printed.
    """
    fleet, hosts = weeks.fleet, list(HOSTS)
    # The packages and their nvidia-cdi-refresh are there now, which would do; our directory is
    # wanted here.
    assert fleet.play("site", hosts, variables={"gpufleet_cdi_owner": "collection"}).failed == {}
    for host, (_kind, path, line) in HOSTS.items():
        fleet.shell(
            host,
            f"printf '{line}' >>{path}; printf '{THEIRS}' >>{TOOLKIT}; echo theirs >/etc/cdi/theirs.txt",
        )
    words = documented(fleet, "rollback", hosts)
    return {host: (fleet.tree(host), words) for host in hosts}


@pytest.mark.parametrize("host", HOSTS)
def test_where_somebody_wrote_since_only_ours_goes_and_the_file_is_named(
    host: str, weeks: Story, changed: dict[str, tuple[Tree, str]]
) -> None:
    tree, words = changed[host]
    _kind, path, line = HOSTS[host]
    left = set(differing(weeks.hosts[host].before, tree))
    theirs = {"/etc/cdi", "/etc/cdi/theirs.txt", TOOLKIT}
    assert left == theirs | ({path} if path == "/etc/containerd/config.toml" else set())
    config = weeks.fleet.text(host, TOOLKIT)
    assert THEIRS.replace("\\n", "\n") in config
    assert re.findall(r"^mode = ", config, re.MULTILINE) == [], (
        "ours is out, so the runtime's own default holds"
    )
    assert re.search(
        rf"^{host}(, \w+)?: {re.escape(TOOLKIT)} was changed after this collection had written it|{re.escape(TOOLKIT)} was changed after",
        words,
    )
    assert re.search(
        rf"{re.escape(path)} was changed after this collection had written it|{re.escape(path)}: changed by others in the meantime",
        words,
    ), words
