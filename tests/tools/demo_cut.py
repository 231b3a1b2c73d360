# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An act of the demo: the link to a host is cut in the middle of a change with which its engine
does not come up.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence

from tests.lab import cgroup
from tests.lab.artefacts import LabError
from tests.lab.lab import Lab

HOSTS = ("c23", "c21", "c17")  # the first of them that is up
UNIT = "containerd.service"
# what is asked for: the handler nvidia as containerd's default
CHANGE = "gpufleet_set_as_default=enabled"
CHANGED = "grep -rqsE '^ *default_runtime_name *= *.nvidia' /etc/containerd"
JOURNAL = "/var/lib/gpufleet/journal"
PLACE = "/run/demo"
DROP_IN = f"/run/systemd/system/{UNIT}.d/demo.conf"
# containerd that is started with the change waits at a named pipe, until the plug is pulled, and
# then cannot use its directory.
TRAP = f"""mkdir -p {PLACE} {os.path.dirname(DROP_IN)}; mkfifo {PLACE}/here {PLACE}/go
cat >{PLACE}/containerd <<'EOF'
{CHANGED} || exec /usr/bin/containerd
echo >{PLACE}/here; read go <{PLACE}/go
exec /usr/bin/containerd --root /dev/full
EOF
printf '[Service]\\nExecStart=\\nExecStart=/bin/sh {PLACE}/containerd\\n' >{DROP_IN}
systemctl daemon-reload"""
NO_TRAP = (
    f"rm -rf {PLACE} {os.path.dirname(DROP_IN)}; systemctl daemon-reload; systemctl restart {UNIT}"
)
BYTES = (
    "find /etc/containerd /etc/cdi /etc/nvidia-container-runtime -type f | sort | xargs sha256sum"
)
LEFT = "find /etc -name '.gpufleet-*' -o -name 'gpufleet-recover*'; systemctl list-units --plain --no-legend 'gpufleet-*'"
# over its socket: the part that serves the kubelet
SERVES = "ctr plugins ls | grep -qE ' cri +.* ok *$'"
STATES = f"cat $(ls -d {JOURNAL}/* | tail -1)/states"
SAID = f"journalctl --unit {UNIT} --output=cat --grep '^containerd: ' --lines 1"


class CutFailed(Exception):
    """A host that did not do what it should."""


def on_host(lab: Lab, host: str, script: str) -> str:
    """Run a script at the host's console, which needs no network."""
    done = lab.exec(host, ["timeout", "60", "sh", "-ec", script])
    if done.returncode:
        raise CutFailed(f"{host}: {script}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def say(what: str) -> None:
    """Print one line of what happens, with the time."""
    print(f"  {datetime.datetime.now(datetime.UTC):%H:%M:%S.%f}"[:14], what, sep="  ", flush=True)


def cut(
    lab: Lab,
    host: str,
    start: Callable[[Sequence[str]], subprocess.Popen[bytes]],
    site: Sequence[str],
) -> None:
    """Pull the plug in the middle of a run of `site`. CutFailed unless the host comes back by
    itself, as it was.
    """
    before = on_host(lab, host, BYTES)
    with trap(lab, host):
        print(f"$ {' '.join(site)}\n")
        with killed_at_the_end(start(site)):
            on_host(lab, host, f"read here <{PLACE}/here")
            say(f"{host}: the new configuration is in place, and {UNIT} is being restarted with it")
            lab.link(host, "down")
        say(
            f"the link to {host} is cut, and ansible-playbook is killed; what follows is read at the host's console"
        )
        on_host(lab, host, f"echo >{PLACE}/go")
        passed = taken_back(lab, host)
        say(f"{host}: containerd failed, by its own words: {on_host(lab, host, SAID)}")
        say(f"{host}: the host went through the states {', '.join(passed)} by itself")
        after, left = on_host(lab, host, BYTES), on_host(lab, host, LEFT)
        if after != before or left:
            raise CutFailed(f"{host} is not as it was before:\n{before}\n---\n{after}\n---\n{left}")
        on_host(lab, host, SERVES)
        say(f"{host}: every byte is as it was before, nothing is left over, and containerd serves")
    say(f"the link to {host} is plugged in again, and nothing ails its containerd any more")


@contextlib.contextmanager
def trap(lab: Lab, host: str) -> Iterator[None]:
    """Prepare the host's engine, and leave nothing of that behind."""
    on_host(lab, host, TRAP)
    try:
        yield
    finally:
        lab.link(host, "up")
        on_host(lab, host, NO_TRAP)


@contextlib.contextmanager
def killed_at_the_end(run: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill all of the controller's processes at once when the block ends."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def taken_back(lab: Lab, host: str) -> list[str]:
    """Wait for the end of the newest transaction in the host's journal, and return the states that
    it went through.
    """
    try:
        for _turn in cgroup.until(f"{host} to come back by itself", 60):
            states = [
                json.loads(line) for line in on_host(lab, host, STATES).splitlines() if line.strip()
            ]
            if states[-1].get("closed") and not on_host(lab, host, LEFT):
                return list(
                    dict.fromkeys(
                        state["state"]
                        for state in sorted(states, key=lambda state: int(state["n"]))
                    )
                )
    except LabError as error:
        raise CutFailed(str(error)) from error
    return []
