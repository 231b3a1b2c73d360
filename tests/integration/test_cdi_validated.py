# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All CDI specs of a real host looked at: what is sound, what is not, and nothing changed by
looking.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.conftest import Boot
from tests.tools.onlab import Fleet

pytestmark = pytest.mark.lab

HOST = "cdi-looked-at"
STALE = """cdiVersion: 0.6.0
kind: acme.example/card
devices:
- name: one
  containerEdits:
    deviceNodes:
    - {path: /dev/nvidia-uvm, major: 77, minor: 0}
    mounts:
    - {hostPath: /usr/lib/libcuda.so.1.2.3, containerPath: /usr/lib/libcuda.so.1.2.3, options: [ro, bind]}
    hooks:
    - {hookName: createContainer, path: /opt/gone/hook}
"""
# Everything that a directory can hold, made in a shell.
LITTER = """
mkdir -p /etc/cdi/sub.yaml /var/run/cdi
cd /etc/cdi
mkfifo pipe.yaml
ln -s /nowhere dangling.yaml
ln -s loop.yaml loop.yaml
head -c 2000000 /dev/zero >huge.json
head -c 4000 /dev/urandom >binary.yaml
: >empty.json
printf 'cdiVersion: 0.5.0\\nkind: [' >broken.yaml
yes '[' | tr -d '\\n' | head -c 300000 >deep.json
{ echo 'a0: &a0 [x,x,x,x,x,x,x,x,x]'; for i in 1 2 3 4 5 6 7 8 9; do p=$((i-1))
  echo "a$i: &a$i [*a$p,*a$p,*a$p,*a$p,*a$p,*a$p,*a$p,*a$p,*a$p]"; done; } >bomb.yaml
echo 'kind: nvidia.com/gpu' >old.yml
mknod node.json c 1 5
chmod 000 binary.yaml
"""


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    return boot({HOST: {"kind": "containerd-1.7", "gpus": 2, "driver": "ok"}})


def look(fleet: Fleet, *, operations: int, **options: Any) -> dict[str, Any]:
    """The module's answer; nothing is different on the host afterwards."""
    before = fleet.tree(HOST)
    run = fleet.task("cdi_spec_info", [HOST], options)
    assert run.failed == {}, run.words
    assert (run.changed, dict(run.operations)) == ({}, {HOST: operations})
    assert fleet.tree(HOST) == before
    return run.of("cdi_spec_info")[HOST]


def rules(answer: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    return [(f["file"].rpartition("/")[2], f["rule"], f["line"]) for f in answer["findings"]]


def test_nothing_is_nothing(fleet: Fleet) -> None:
    answer = look(fleet, operations=1)
    assert (answer["devices"], answer["findings"]) == ([], [])


def test_what_we_write_is_sound(fleet: Fleet) -> None:
    fleet.task("cdi_spec", [HOST])
    answer = look(fleet, operations=2)
    assert [f for f in answer["findings"] if f["level"] != "note"] == []
    assert {"nvidia.com/gpu=0", "nvidia.com/gpu=1", "nvidia.com/gpu=all"} <= set(answer["devices"])
    assert answer["devices"] == sorted(answer["devices"])


def test_what_somebody_else_wrote(fleet: Fleet) -> None:
    fleet.shell(HOST, f"mkdir -p /var/run/cdi; cat >/var/run/cdi/acme.yaml <<'END'\n{STALE}END")
    fleet.shell(HOST, "cp /etc/cdi/nvidia.yaml /var/run/cdi/copy.yaml")
    answer = look(fleet, operations=2)
    told = rules(answer)
    assert [t for t in told if t[0] == "acme.yaml"] == [
        ("acme.yaml", "stale-numbers", 7), ("acme.yaml", "mount-missing", 9), ("acme.yaml", "hook-missing", 11)
    ]  # fmt: skip
    assert {(file, rule) for file, rule, _line in told if file == "nvidia.yaml"} == {
        ("nvidia.yaml", "hidden")
    }
    assert "acme.example/card=one" in answer["devices"]
    checking = fleet.task("cdi_spec_info", [HOST], arguments=["--check"]).of("cdi_spec_info")[HOST]
    assert checking["findings"] == answer["findings"]


def test_litter(fleet: Fleet) -> None:
    fleet.shell(HOST, "rm -r /etc/cdi /var/run/cdi")
    fleet.shell(HOST, LITTER)
    answer = look(fleet, operations=1)
    assert {(file, rule) for file, rule, _line in rules(answer)} == {
        ("pipe.yaml", "hangs"), ("node.json", "hangs"), ("dangling.yaml", "unreadable"), ("loop.yaml", "unreadable"),
        ("huge.json", "not-looked-at"), ("binary.yaml", "yaml"), ("binary.yaml", "mode"), ("empty.json", "empty"), ("broken.yaml", "yaml"),
        ("deep.json", "yaml"), ("bomb.yaml", "yaml"), ("old.yml", "never-read"), ("sub.yaml", "sub-directory"),
    }  # fmt: skip
    assert all(f["message"] and f["effect"] and f["remedy"] for f in answer["findings"])


def test_an_image_at_another_root(fleet: Fleet) -> None:
    fleet.shell(
        HOST,
        f"rm -r /etc/cdi; mkdir -p /srv/image/etc/cdi; cat >/srv/image/etc/cdi/acme.yaml <<'END'\n{STALE}END",
    )
    answer = look(fleet, operations=2, root="/srv/image")
    assert answer["devices"] == ["acme.example/card=one"]
    assert [rule for _file, rule, _line in rules(answer)] == ["mount-missing", "hook-missing"]
