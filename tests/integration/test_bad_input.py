# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts in a bad state: one clear sentence (what, where, why, what next), nothing changed, nothing
restarted.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

import pytest

from tests.lab import inventory
from tests.tools.onlab import RUNTIME, WATCHED, Fleet, differing

pytestmark = pytest.mark.lab

HOSTS = {
    "bad-16": "containerd-1.6",
    "bad-17": "containerd-1.7",
    "bad-21": "containerd-2.1",
    "bad-23": "containerd-2.3",
    "bad-crio": "crio-1.34",
}
KEEP = "mkdir -p /root/kept; for d in containerd crio; do mkdir -p /etc/$d; cp -a /etc/$d /root/kept/; done"
FORGET = "rm -rf /var/lib/gpufleet /etc/cdi; /usr/bin/mkdir -p /etc/cdi"
BACK = "for d in containerd crio; do rm -rf /etc/$d; cp -a /root/kept/$d /etc/$d; done"
TOML = "/etc/containerd/config.toml"
CONF_D = "/etc/containerd/conf.d"
UNIT = "/usr/lib/systemd/system/containerd.service"
UNREADABLE = (f"{TOML}: ", "[containerd.file-unreadable]")
V2 = 'plugins."io.containerd.grpc.v1.cri"'
RESTART = "systemctl restart containerd; until /opt/lab/bin/crictl version >/dev/null 2>&1; do sleep 0.05; done"
PLACES = (*WATCHED, "/srv", "/var/lib/gpufleet", "/var/lib/rancher")


@dc.dataclass(frozen=True)
class Case:
    """What is done to which host, and what the collection says to it. `undo` is run before the
    files are put back.
    """

    host: str
    make: str
    says: tuple[str, ...]
    undo: str = "true"
    options: Mapping[str, Any] = dc.field(default_factory=dict)
    gpus: str = inventory.FAKE_ROOT


def file(path: str, text: str) -> str:
    return f"mkdir -p $(dirname {path}); cat >{path} <<'TEXT'\n{text}\nTEXT\n"


CASES = {
    "a config that does not parse": Case(
        "bad-17", file(TOML, "version = 2\n\n[plugins"), (f"{TOML}:3: this is not valid TOML", "header without its end", "Repair this line")
    ),
    "a drop-in that does not parse": Case(
        "bad-23",
        file(TOML, f'version = 3\nimports = ["{CONF_D}/*.toml"]') + file(f"{CONF_D}/10-a.toml", "version = 3\nroot ="),
        (f"{CONF_D}/10-a.toml:2: this is not valid TOML", "Repair this line"),
    ),
    "a drop-in that takes the root file's place": Case(
        "bad-17",
        file(TOML, f'version = 2\nimports = ["{CONF_D}/*.toml"]')
        + file(f"{CONF_D}/99-site.toml", f"version = 2\n\n[{V2}.containerd]\n  discard_unpacked_layers = true"),
        (f"{CONF_D}/99-site.toml:3: ", "[containerd.setting-shadowed-by-table]"),
    ),
    "a root file that shadows a newer drop-in": Case(
        "bad-21",
        file(TOML, f'version = 2\nimports = ["{CONF_D}/*.toml"]') + file(f"{CONF_D}/10-a.toml", "version = 3"),
        (f"{CONF_D}/10-a.toml:1: ", "[containerd.drop-in-newer-than-root]"),
    ),
    "an imported file that is not there": Case(
        "bad-23",
        file(TOML, 'version = 3\n\nimports = ["/etc/containerd/gone.toml"]'),
        (f"{TOML}:3: ", "[containerd.import-missing]"),
    ),
    "a version that this containerd refuses": Case(
        "bad-16",
        file(TOML, "# for newer ones\nversion = 3"),
        (f"{TOML}:2: ", "[containerd.config-version-unsupported]"),
    ),
    "values of the wrong type": Case(
        "bad-17",
        file(TOML, f'version = 2\n[{V2}.containerd]\nruntimes = "runc"'),
        (f"{TOML}:3: ", "runtimes is a string", "must be a table"),
    ),
    "a directory in the config's place": Case(
        "bad-17", f"rm {TOML}; mkdir {TOML}", (*UNREADABLE, "a directory"), undo=f"rmdir {TOML}"
    ),
    "a link to nothing": Case("bad-17", f"rm {TOML}; ln -s /srv/none {TOML}", (*UNREADABLE, "a link to nothing")),
    "a named pipe": Case("bad-17", f"rm {TOML}; mkfifo {TOML}", (*UNREADABLE, "a named pipe")),
    "CRI switched off": Case(
        "bad-16",
        file(TOML, 'version = 2\ndisabled_plugins = ["cri"]'),
        (f"{TOML}:2: ", "[containerd.cri-switched-off-by-file]"),
    ),
    "a stray file in CRI-O's directory": Case(
        "bad-crio",
        file("/etc/crio/crio.conf.d/README", "# Our drop-ins\nPut them here."),
        ("/etc/crio/crio.conf.d/README:2: ", "[crio.drop-in-refused]"),
    ),
    "a file of others that overrules ours": Case(
        "bad-crio",
        file("/etc/crio/crio.conf.d/zz-site.conf", '[crio.runtime.runtimes.nvidia]\nruntime_path = "/opt/other"'),
        ("/etc/crio/crio.conf.d/zz-site.conf: ", "nvidia", "[crio.read-later]"),
    ),
    "a read-only file system": Case(
        "bad-17",
        "mount --bind /etc/containerd /etc/containerd; mount -o remount,ro,bind /etc/containerd",
        (f"{TOML}: /etc/containerd is on a read-only file system", "Mount it writable"),
        undo="umount /etc/containerd",
    ),
    "an engine that is stopped": Case(
        "bad-16", "systemctl stop containerd", ("containerd is installed but not running", "[engines.stopped]"), RESTART
    ),
    "a CRI-O that is stopped": Case(
        "bad-crio",
        "systemctl stop crio",
        ("crio.service is inactive", "[engines.stopped]"),
        "systemctl start crio",
    ),
    # The package is still there, so it isn't a host without an engine: nothing of this collection's
    # may go.
    "an engine without its program and unit": Case(
        "bad-16",
        f"systemctl stop containerd; mv /usr/bin/containerd {UNIT} /root/; systemctl daemon-reload",
        ("containerd is installed but not running", "[engines.without-unit]"),
        f"mv /root/containerd /usr/bin/; mv /root/containerd.service {UNIT}; systemctl daemon-reload; {RESTART}",
    ),
    "no GPU where one is demanded": Case(
        "bad-17",
        "true",
        ("no NVIDIA GPU on this host", "/srv/sys", "no_gpu"),
        options={"no_gpu": "fail"},
        gpus="/srv",
    ),
    "a containerd of k3s": Case(
        "bad-16",
        "systemctl stop containerd;" + file("/var/lib/rancher/k3s/agent/etc/containerd/config.toml", "version = 2"),
        ("If k3s is gone from this host, remove that file", "[containerd.manager-without-unit]"),
        "rm -r /var/lib/rancher; " + RESTART,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def fleet(boot) -> Fleet:  # type: ignore[no-untyped-def]
    found: Fleet = boot({name: {"kind": kind, "gpus": 1} for name, kind in HOSTS.items()})
    for host in HOSTS:
        found.shell(
            host,
            f"{RUNTIME}; {KEEP}; test -e {TOML} || echo 'version = 2' >/root/kept/containerd/config.toml; {BACK}",
        )
    return found


def state(fleet: Fleet, host: str) -> Any:
    units = fleet.shell(
        host, "systemctl show -P InvocationID containerd.service crio.service", fails=True
    )
    return fleet.tree(host, *PLACES), units


BY_NIGHT = pytest.mark.nightly(
    "check mode is refused by the same plan as the run, which is tested by day"
)


OF_A_TEXT = pytest.mark.nightly(
    "`tests/fixtures/bad` has what a text is refused with, and unit tests read it; by day real hosts have three such texts"
)
TEXTS = {
    "a drop-in that does not parse",
    "a root file that shadows a newer drop-in",
    "an imported file that is not there",
    "a version that this containerd refuses",
    "values of the wrong type",
    "a stray file in CRI-O's directory",
    "a file of others that overrules ours",
}


@pytest.mark.parametrize("mode", [pytest.param("check", marks=BY_NIGHT), "run"])
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[OF_A_TEXT] if name in TEXTS else [])
        for name, case in CASES.items()
    ],
)
def test_one_clear_sentence_and_nothing_changed(case: Case, mode: str, fleet: Fleet) -> None:
    fleet.shell(case.host, case.make)
    try:
        tree, units = state(fleet, case.host)
        more = {
            "arguments": ["--check"] if mode == "check" else [],
            "environment": inventory.imitated(case.gpus),
        }
        run = fleet.task("host", [case.host], {"packages": "ignore", **case.options}, **more)
        found = run.of("host")[case.host]
        after, units_after = state(fleet, case.host)
    finally:
        fleet.shell(case.host, f"{case.undo}; {BACK}; {FORGET}")
    sentence = str(found.get("msg"))
    assert found["status"] == "failed", run.words
    assert [part for part in case.says if part not in sentence] == [], sentence
    assert "Traceback" not in run.words
    assert not found.get("changed")
    touched = {path for path in differing(tree, after) if not path.startswith("/var/lib/gpufleet")}
    assert (touched, units_after) == (set(), units)


def test_what_the_engine_refuses_is_known_in_check_mode(fleet: Fleet) -> None:
    fleet.shell("bad-17", file(TOML, 'version = 2\noom_score = "high"'))
    before = state(fleet, "bad-17")
    run = fleet.task("host", ["bad-17"], {"packages": "ignore"}, arguments=["--check"])
    after = state(fleet, "bad-17")
    fleet.shell("bad-17", BACK)
    sentence = run.failed["bad-17"]
    assert sentence.startswith("validate: "), sentence
    assert "exit status 1" in sentence, sentence
    assert after == before


def test_a_link_stays_a_link(fleet: Fleet) -> None:
    real = "/srv/containerd.toml"
    fleet.shell("bad-17", f"mv {TOML} {real}; ln -s {real} {TOML}")
    before = fleet.tree("bad-17", "/etc/containerd", "/srv")
    fleet.task("host", ["bad-17"], {"packages": "ignore"})
    changed = differing(before, fleet.tree("bad-17", "/etc/containerd", "/srv"))
    text = fleet.text("bad-17", real)
    fleet.task("host", ["bad-17"], {"packages": "ignore", "state": "absent"})
    given_back = fleet.tree("bad-17", "/etc/containerd", "/srv")
    fleet.shell("bad-17", f"rm {real}; {BACK}; {FORGET}")
    assert list(changed) == [real]
    assert "runtimes.nvidia" in text
    assert given_back == before


def test_a_password_leaves_no_host(fleet: Fleet) -> None:
    auth = f'[{V2}.registry.configs."registry.site".auth]\n  username = "robot"\n  password = "correct-horse"\n  auth = "Y29ycmVjdA"'
    inline = (
        f'[{V2}.registry.configs]\n"other.site" = {{ auth = {{ password = "battery-staple" }} }}'
    )
    fleet.shell("bad-17", file(TOML, f"version = 2\n{auth}\n{inline}"))
    before = fleet.text("bad-17", TOML)
    runs = [
        fleet.task(
            "host", ["bad-17"], {"packages": "ignore", "state": s}, arguments=["-vvv", "--diff"]
        )
        for s in ("present", "absent")
    ]
    info = fleet.task("host_info", ["bad-17"], arguments=["-vvv", "--diff"])
    after = fleet.text("bad-17", TOML)
    fleet.shell("bad-17", f"{BACK}; {RESTART}")
    words = "".join(run.words + str(run.entries) for run in (*runs, info))
    assert [run.failed for run in (*runs, info)] == [{}, {}, {}]
    assert "runtimes.nvidia" in runs[0].words
    assert [
        secret for secret in ("correct-horse", "Y29ycmVjdA", "battery-staple") if secret in words
    ] == []
    assert after == before
