# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong around a transaction on a real host: disks, memory, Python, the engine, its unit,
and others who are at work as well.

Each disaster says how the run ends (done, refused, or rolled back), with which words, and on which
side the host is then: old or new files, and an engine that serves just them. After that the
disaster is over, and the next run has to reach the new state.
"""

from __future__ import annotations

import dataclasses as dc
import re
import threading

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import base

from tests.faults import sweep
from tests.faults.victim import ENGINES, TRACE, TRACER, Victim
from tests.integration.conftest import Boot
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab

SERVES = ENGINES["containerd"].until_it_serves()

HOST = "hurt17"
TOML = "/etc/containerd/config.toml"
ENGINE = "/usr/bin/containerd"
DROP_IN = "/etc/systemd/system/containerd.service.d/trap.conf"
NO_TRAP = f"rm -f {DROP_IN}; systemctl daemon-reload; systemctl reset-failed containerd || true; systemctl restart containerd"
NO_CRI = 'version = 2\\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\\n'
HOME = TOML.rpartition("/")[0]
MOUNT = f"mount --bind {HOME} {HOME}"
READ_ONLY = f"mount -o remount,bind,ro {HOME}"
UNMOUNT = f"umount {HOME}"
STRUCK = f"grep -q nvidia {TOML}"  # whether our configuration is in place


def trap(*lines: str) -> str:
    """Lines of the engine's unit. They are in force before the run begins."""
    text = "\n".join(("[Service]", *lines))
    return (
        f"mkdir -p {DROP_IN.rpartition('/')[0]}; cat >{DROP_IN} <<'EOF'\n{text}\nEOF\n"
        f"systemctl daemon-reload; systemctl restart containerd; {SERVES}"
    )


def instead(script: str) -> str:
    """The engine's unit does something else once our configuration is in place."""
    return trap(
        "Type=simple",
        "ExecStartPre=",
        "ExecStart=",
        f"ExecStart=/bin/sh -c '{STRUCK} && {{ {script} }}; exec {ENGINE}'",
    )


@dc.dataclass(frozen=True)
class Disaster:
    """make and undo run on the host; fill leaves so much of its disk; between happens after the
    look; prefix runs the executor.
    """

    side: str
    says: tuple[str, ...] = ()
    make: str = "true"
    undo: str = "true"
    fill: str = ""
    between: str = ""
    prefix: tuple[str, ...] = ()
    kept: str = ""  # someone else's line that must still be in the configuration


DISASTERS = {
    "the disk is full": Disaster("old", ("No space left on device",), fill="0"),
    "the disk is nearly full": Disaster("old", ("No space left on device",), fill="40k"),
    "the executor gets too little memory": Disaster("old", ("",), prefix=("prlimit", "--as=30000000")),
    "Python lacks a module": Disaster(
        "old",
        ("shutil",),
        make="cd /usr/lib/python3.*; mv shutil.py /root/; rm -f __pycache__/shutil.*",
        undo="mv /root/shutil.py /usr/lib/python3.*/",
    ),
    "the engine's unit is masked": Disaster(
        "old",
        ("masked",),
        make="cp /usr/lib/systemd/system/containerd.service /root/; systemctl mask --runtime containerd",
        undo="systemctl unmask --runtime containerd",
    ),
    "the engine does not come up": Disaster(
        "old", ("rolled back",), make=trap(f"ExecStartPre=/bin/sh -c '! {STRUCK}'", "Restart=no"), undo=NO_TRAP
    ),
    "the engine comes up without CRI": Disaster(
        "old", ("rolled back",), make=f"printf '{NO_CRI}' >/run/no-cri; " + instead(f"exec {ENGINE} -c /run/no-cri;"), undo=NO_TRAP
    ),
    "the engine comes up without the handler": Disaster(
        "old",
        ("runtimes.nvidia", "rolled back"),
        make="cp /etc/containerd/config.toml /run/before.toml; " + instead(f"exec {ENGINE} -c /run/before.toml;"),
        undo=NO_TRAP,
    ),
    "the engine hangs when it is stopped": Disaster(
        "new", make=trap("ExecStop=/bin/sleep 600", "TimeoutStopSec=2"), undo=NO_TRAP
    ),
    "somebody writes to the file between look and swap": Disaster(
        "new", between=f"echo '# by somebody else' >>{TOML}", kept="# by somebody else"
    ),
    "somebody restarts the engine between look and swap": Disaster(
        "new", between=f"systemctl restart containerd; {SERVES}"
    ),
    "somebody restarts the engine while it restarts with the change": Disaster(
        "new", make=f"systemd-run --quiet --unit=somebody sh -c 'until {STRUCK}; do sleep 0.02; done; systemctl restart containerd'"
    ),
    "the engine's package is replaced between look and swap": Disaster(
        "new", between="sed -i '/^Package: containerd$/,/^$/s/^Version: .*/Version: 1.7.99~lab/' /var/lib/dpkg/status"
    ),
    "the engine's program is replaced between look and swap, past the package manager": Disaster(
        "new", between=f"cp -p {ENGINE} {ENGINE}.other; mv {ENGINE}.other {ENGINE}"
    ),
    "somebody removes the file between look and swap": Disaster("new", between=f"rm {TOML}"),
    "the file's directory turns read-only between look and swap": Disaster(
        "old", ("is on a read-only file system",), make=MOUNT, between=READ_ONLY, undo=UNMOUNT
    ),
}  # fmt: skip


@dc.dataclass(frozen=True)
class Stage:
    """The host, and both sides of its transaction."""

    victim: Victim
    both: sweep.Sides


@pytest.fixture(scope="module")
def stage(boot: Boot, lab: Lab) -> Stage:
    boot({HOST: {"kind": "containerd-1.7", "gpus": 1}})
    victim = Victim(lab, HOST)
    victim.prepare()
    both, _points = sweep.sides(victim)
    return Stage(victim, both)


@pytest.mark.parametrize("name", DISASTERS)
def test_old_or_new(name: str, stage: Stage) -> None:
    disaster, victim, both = DISASTERS[name], stage.victim, stage.both
    victim.shell(disaster.make)
    if disaster.fill:
        victim.lab.fill(HOST, disaster.fill)
    try:
        done = victim.run(disaster.prefix, between=disaster.between)
        requests = len(victim.requests)
        now = victim.look()
        text = victim.shell(f"cat {TOML}", fails=True)
    finally:
        if disaster.fill:
            victim.lab.fill(HOST, "off")
        victim.shell(disaster.undo, fails=True)
    again = victim.run()
    after = victim.look()
    victim.put_back(both.old, after)
    assert done.failed is (disaster.side == "old"), done
    assert [part for part in disaster.says if part not in done.words] == [], done.words
    assert (requests == 2) is bool(disaster.between and disaster.side == "new"), (
        "who moved in between is seen, and then only"
    )
    assert now.serves
    assert now.nvidia is (disaster.side == "new")
    if not disaster.between:
        assert both.files(now) == disaster.side
    assert disaster.kept in text
    assert not again.failed, again
    assert (after.serves, after.nvidia) == (True, True)


def test_systemctl_that_hangs_is_given_up(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    victim, both = stage.victim, stage.both
    whole = base.build_transaction_request

    def impatient(*args: object, **more: object) -> dict[str, object]:
        request = whole(*args, **more)  # type: ignore[arg-type]
        return {**request, "units": [{**unit, "timeout": 3} for unit in request["units"]]}

    monkeypatch.setattr(base, "build_transaction_request", impatient)
    hangs = '#!/bin/sh\\ncase "$*" in *restart*) exec sleep 600;; esac\\nexec /usr/bin/systemctl "$@"\\n'
    victim.shell(f"printf '{hangs}' >/usr/sbin/systemctl; chmod 755 /usr/sbin/systemctl")
    try:
        done = victim.run()
        now = victim.look()
    finally:
        victim.shell("rm /usr/sbin/systemctl")
    victim.put_back(both.old, victim.look())
    assert done.failed
    assert "did not end within 3 s" in done.words
    assert (both.files(now), now.serves, now.nvidia) == ("old", True, False)


def test_a_file_system_that_turns_read_only_in_the_middle_is_waited_for(stage: Stage) -> None:
    """Files cannot come back there, and the run says so. They do as soon as they can, at the latest
    by the timer.
    """
    victim, both = stage.victim, stage.both
    victim.shell(
        f"{MOUNT}; "
        + trap(f"ExecStartPre=/bin/sh -c '! {STRUCK} || {{ {READ_ONLY}; false; }}'", "Restart=no")
    )
    try:
        done = victim.run()
        stuck = victim.look()
        victim.shell(f"mount -o remount,bind,rw {HOME}")
        victim.timer()
        now = victim.look()
    finally:
        victim.shell(UNMOUNT, fails=True)
        victim.shell(NO_TRAP, fails=True)
    again = victim.run()
    after = victim.look()
    victim.put_back(both.old, after)
    assert done.failed
    assert "ead-only file system" in done.words
    assert "Everything is as it was before" not in done.words
    assert both.files(stuck) != "old", "the test's trap did not hold"
    assert stuck.units, "the timer must still be armed"
    assert both.verdict(now) == "old"
    assert not again.failed, again
    assert both.verdict(after) == "new"


@pytest.mark.parametrize("when", ["its time comes by itself", "its time is told"])
def test_an_executor_that_hangs_is_ended_by_the_timer(when: str, stage: Stage) -> None:
    """They hang with one file new and one old. The timer counts time that passes: a clock that is
    set makes it neither early nor late.
    """
    victim = stage.victim
    both, points = sweep.sides(victim)
    swaps = [
        p
        for p in points
        if p.call.startswith("rename") and re.search(r'"/etc/(?!\S*gpufleet)\S+"\)?$', p.text)
    ]
    soon = victim.root / f"{TRACER.lstrip('/')}.soon"
    soon.touch() if when == "its time comes by itself" else soon.unlink(missing_ok=True)
    caller = threading.Thread(target=victim.again, args=(both.request, swaps[1].fault("SIGSTOP")))
    caller.start()
    if not soon.exists():
        while caller.is_alive() and "stopped by SIGSTOP" not in victim.read(TRACE):
            caller.join(0.05)
        hung = both.files(victim.look(settled=False))
        timer = victim.shell("cat /run/systemd/transient/gpufleet-undo-*.timer")
        elapses = victim.shell(
            "systemctl show 'gpufleet-undo-*.timer' --property=NextElapseUSecRealtime,NextElapseUSecMonotonic"
        )
        victim.timer()
        assert hung == "mixed"
        assert "OnActiveSec=" in timer
        assert "OnCalendar=" not in timer
        assert "NextElapseUSecRealtime=\n" in elapses
        assert re.search(r"NextElapseUSecMonotonic=\d", elapses)
    now = victim.look()
    caller.join()
    soon.unlink(missing_ok=True)
    again = victim.run()
    after = victim.look()
    victim.put_back(both.old, after)
    assert both.verdict(now) == "old"
    assert not again.failed, again
    assert both.verdict(after) == "new"
