# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MicroK8s, imitated, with the real containerd: a handler in its template, which outlives its next
start and a refresh of its snap.
"""

from __future__ import annotations

import json

import pytest

from tests.integration.conftest import Boot
from tests.tools.onlab import Fleet, differing, settings

pytestmark = pytest.mark.lab

HOST, UNIT = "snap", "snap.microk8s.daemon-containerd"
DATA = "/var/snap/microk8s"
TEMPLATE = f"{DATA}/current/args/containerd-template.toml"
WATCHED = ("/etc", "/snap", f"{DATA}/7234", f"{DATA}/7300")
ARGS, SNAP = f"{DATA}/7234/args", "/snap/microk8s/7234/meta/snap.yaml"
MODE = f"stat -Lc '%a %U %G' {TEMPLATE} {DATA}/current/args"


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    return boot({HOST: {"kind": "microk8s-like", "gpus": 1, "driver": "ok"}})


def handlers(fleet: Fleet) -> set[str]:
    return set(fleet.read_daemon_settings(HOST)["runtimes"])


# What is wrong, how it is made and mended, and what is said.
BAD = {
    "a key without a value": (f"printf 'oom_score =\\n' >>{TEMPLATE}", "", f"{TEMPLATE}:47: "),
    "a table twice": (f"printf '[grpc]\\n' >>{TEMPLATE}", "", f"{TEMPLATE}:47: "),
    "a directory that another group writes to": (
        f"chgrp ops {ARGS}",
        f"chgrp microk8s {ARGS}",
        "may be written to by its group ops (mode 0770)",
    ),
    "a strictly confined snap": (
        f"sed -i s/classic/strict/ {SNAP}",
        f"sed -i s/strict/classic/ {SNAP}",
        "strictly confined",
    ),
}


@pytest.mark.parametrize("harm, mend, said", BAD.values(), ids=BAD)
def test_what_cannot_be_served_is_refused_in_one_sentence_and_nothing_changes(
    fleet: Fleet, harm: str, mend: str, said: str
) -> None:
    fleet.shell(HOST, f"cp -a {TEMPLATE} /root/template; {harm}")
    before = fleet.tree(HOST, *WATCHED)
    answer = fleet.task("host", [HOST], {"packages": "ignore"}).of("host")[HOST]
    after = fleet.tree(HOST, *WATCHED)
    fleet.shell(HOST, f"mv /root/template {TEMPLATE}; {mend}")
    assert said in json.dumps(answer)
    assert differing(before, after) == {}
    assert answer["changed"] is False


def test_its_handler_is_a_part_of_the_template_and_a_container_sees_its_gpu(fleet: Fleet) -> None:
    before, mode = fleet.text(HOST, TEMPLATE).splitlines(), fleet.shell(HOST, MODE)
    run = fleet.play("site", [HOST], variables=settings())
    assert run.failed == {}, run.words
    after = iter(fleet.text(HOST, TEMPLATE).splitlines())
    assert all(line in after for line in before)  # every line that was there, in its order
    assert fleet.shell(HOST, MODE) == mode == "660 root microk8s\n770 root microk8s\n"
    assert handlers(fleet) == {"runc", "kata", "nvidia-container-runtime", "nvidia"}
    assert fleet.play("site", [HOST], variables=settings()).changed == {}


# As snapd refreshes it: the data of the old revision is copied, `current` leads to the new one,
# hooks run, and the daemon starts.
REFRESH = f"""set -e
systemctl stop {UNIT}
for top in /snap/microk8s {DATA}; do cp -a $top/7234 $top/7300; ln -sfn 7300 $top/current; done
sed -i s/7234/7300/g /etc/systemd/system/{UNIT}.service
systemctl daemon-reload
systemctl start {UNIT}
rm -r /snap/microk8s/7234 {DATA}/7234  # snapd does so one or two refreshes later
"""


def test_it_outlives_the_next_start_and_a_refresh_of_the_snap(fleet: Fleet) -> None:
    fleet.shell(HOST, f"systemctl restart {UNIT}")
    assert "nvidia" in handlers(fleet)
    fleet.shell(HOST, REFRESH)
    assert "/var/snap/microk8s/7300/args/containerd.toml" in fleet.shell(
        HOST, "tr '\\0' ' ' </proc/$(pgrep -x containerd)/cmdline"
    )
    assert "nvidia" in handlers(fleet)
    assert fleet.play("site", [HOST], variables=settings()).changed == {}


def test_a_handler_with_which_containerd_does_not_start_is_taken_back(fleet: Fleet) -> None:
    trap = f"[Service]\nExecStartPre=/bin/sh -c '! grep -q trapped {TEMPLATE}'\nRestart=no\n"
    place = f"/etc/systemd/system/{UNIT}.service.d"
    fleet.shell(
        HOST, f'mkdir {place}; printf %s "{trap}" >{place}/trap.conf; systemctl daemon-reload'
    )
    before = fleet.tree(HOST, *WATCHED)
    answer = fleet.task(
        "host", [HOST], {"packages": "ignore", "handlers": {"nvidia": {}, "trapped": {}}}
    ).of("host")[HOST]
    assert answer["rolled_back"] is True, answer
    assert differing(before, fleet.tree(HOST, *WATCHED)) == {}
    assert "nvidia" in handlers(fleet)


def test_all_is_taken_back_from_the_template_of_the_newer_revision(fleet: Fleet) -> None:
    run = fleet.play("rollback", [HOST])
    assert run.failed == {}, run.words
    assert "/usr/bin/nvidia" not in fleet.text(HOST, TEMPLATE)
    # MicroK8s' own handler
    assert "nvidia-container-runtime.options]" in fleet.text(HOST, TEMPLATE)
    assert fleet.play("rollback", [HOST]).changed == {}
    assert handlers(fleet) == {"runc", "kata", "nvidia-container-runtime"}
