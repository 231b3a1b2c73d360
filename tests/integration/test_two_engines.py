# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two engines on one host are one transaction: both have the new state, or both the old, whichever
of them fails.
"""

from __future__ import annotations

import dataclasses as dc
import json
from typing import Any

import pytest

from tests.integration import story
from tests.integration.conftest import Boot
from tests.tools.onlab import Fleet, Tree, differing, repository

pytestmark = pytest.mark.lab

HOST = "both"
# engine -> its unit, its socket, where its configuration is
ENGINES = {
    "containerd": ("containerd.service", "/run/containerd/containerd.sock", "/etc/containerd"),
    "crio": ("crio.service", "/var/run/crio/crio.sock", "/etc/crio"),
}


@dc.dataclass(frozen=True)
class Case:
    """One run: the host before and after, which engines serve our handler then, and what the module
    said.
    """

    before: Tree
    after: Tree
    serving: dict[str, str]
    answer: dict[str, Any]


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    """A host that has the packages already, so all that differs is ours."""
    up = boot({HOST: {"kind": "crio-1.34-containerd-1.7", "gpus": 1, "driver": "ok"}})
    default(up, "runc")  # as containerd has it
    up.play("site", [HOST], variables=repository())
    assert up.play("rollback", [HOST]).failed == {}
    return up


def default(fleet: Fleet, name: str) -> None:
    """Make one of CRI-O's handlers its default."""
    main = "/etc/crio/crio.conf.d/10-crio.conf"
    fleet.shell(
        HOST,
        f"sed -i 's/^default_runtime = .*/default_runtime = \"{name}\"/' {main}; systemctl restart crio",
    )


def serving(fleet: Fleet) -> dict[str, str]:
    """For each engine: nvidia, other handlers only, or silent."""
    found = {}
    for engine, (_unit, socket, _config) in ENGINES.items():
        said = fleet.shell(
            HOST, f"{story.CRICTL} --runtime-endpoint unix://{socket} info", fails=True
        )
        try:
            found[engine] = "nvidia" if "nvidia" in json.dumps(json.loads(said)) else "others"
        except ValueError:
            found[engine] = "silent"
    return found


def converged(fleet: Fleet) -> Case:
    before = fleet.tree(HOST)
    answer = fleet.task("host", [HOST]).of("host")[HOST]
    return Case(before, fleet.tree(HOST), serving(fleet), answer)


@pytest.fixture(params=ENGINES)
def failing(request: pytest.FixtureRequest, fleet: Fleet) -> Any:
    """One of the engines does not come up with our handler in its configuration."""
    unit, _socket, config = ENGINES[request.param]
    folder = f"/etc/systemd/system/{unit}.d"
    trap = f"[Service]\nExecStartPre=/bin/sh -c '! grep -rq nvidia {config}'\nRestart=no\n"
    fleet.shell(
        HOST,
        f"mkdir -p {folder}; cat >{folder}/trap.conf <<'EOF'\n{trap}EOF\nsystemctl daemon-reload",
    )
    yield request.param, converged(fleet)
    fleet.shell(
        HOST, f"rm -r {folder}; systemctl daemon-reload; systemctl reset-failed {unit} || true"
    )


def test_whichever_fails_both_have_their_old_bytes_and_serve_with_them(
    failing: tuple[str, Case],
) -> None:
    engine, case = failing
    assert differing(case.before, case.after) == {}
    assert case.serving == {"containerd": "others", "crio": "others"}
    assert case.answer["rolled_back"] is True
    assert ENGINES[engine][0] in case.answer["msg"]


def test_both_come_in_one_transaction(fleet: Fleet) -> None:
    case = converged(fleet)
    assert case.serving == {"containerd": "nvidia", "crio": "nvidia"}
    assert sorted(case.answer["restarted"]) == ["containerd.service", "crio.service"]
    meta = json.loads(fleet.text(HOST, f"{case.answer['journal']}/meta.json"))
    folders = {change["path"].split("/")[2] for change in meta["changes"]}
    assert {"containerd", "crio"} <= folders
    assert fleet.task("host", [HOST]).changed == {}


def test_engines_with_different_low_level_runtimes_are_refused_before_anything_is_touched(
    fleet: Fleet,
) -> None:
    """NVIDIA's runtime has one list for the host. Where it is the default handler, workloads of one
    engine would get the other's runtime. Where engines inject by CDI, they keep their own.
    """
    default(fleet, "crun")
    try:
        by_cdi = fleet.task("host", [HOST], arguments=["--check"]).of("host")[HOST]
        reasons = by_cdi["decision"]["reasons"]
        assert "engines.runtime-of-another" in [reason["code"] for reason in reasons]
        before = fleet.tree(HOST)
        answer = fleet.task("host", [HOST], {"set_as_default": "enabled"}).of("host")[HOST]
        assert "crio:/etc/crio/crio.conf runs /usr/libexec/crio/crun" in answer["msg"]
        assert answer["error"]["code"] == "engines.runtimes-differ"
        assert differing(before, fleet.tree(HOST)) == {}
    finally:
        default(fleet, "runc")
