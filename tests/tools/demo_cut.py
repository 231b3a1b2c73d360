# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One act of the demo: the link to a host is cut in the middle of a change, its engine does not come up with it, and nobody can help."""

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

HOST = "c23"
UNIT = "containerd.service"
CHANGE = "gpufleet_default=true"  # what is asked for: the handler nvidia as containerd's default
CHANGED = "grep -qs default_runtime_name /etc/containerd/conf.d/90-gpufleet.toml"
CRICTL = "/opt/lab/bin/crictl"
JOURNAL = "/var/lib/gpufleet/journal"
PLACE = "/run/demo"
DROP_IN = f"/run/systemd/system/{UNIT}.d/demo.conf"
# containerd that is started with the change waits at a named pipe, until the plug is pulled, and then cannot use its directory.
TRAP = f"""mkdir -p {PLACE} {os.path.dirname(DROP_IN)}; mkfifo {PLACE}/here {PLACE}/go
cat >{PLACE}/containerd <<'EOF'
{CHANGED} || exec /usr/bin/containerd
echo >{PLACE}/here; read go <{PLACE}/go
exec /usr/bin/containerd --root /dev/full
EOF
printf '[Service]\\nExecStart=\\nExecStart=/bin/sh {PLACE}/containerd\\n' >{DROP_IN}
systemctl daemon-reload"""
NO_TRAP = f"rm -rf {PLACE} {os.path.dirname(DROP_IN)}; systemctl daemon-reload; systemctl restart {UNIT}"
BYTES = "find /etc/containerd /etc/cdi /etc/nvidia-container-runtime -type f | sort | xargs sha256sum"
LEFT = "find /etc -name '.gpufleet-*' -o -name 'gpufleet-recover*'; systemctl list-units --plain --no-legend 'gpufleet-*'"
SERVES = f"{CRICTL} info | grep -q RuntimeReady"
STATES = f"cat $(ls -d {JOURNAL}/* | tail -1)/states"
SAID = f"journalctl --unit {UNIT} --output=cat --grep '^containerd: ' --lines 1"


class CutFailed(Exception):
    """The host did not do what it should."""


def on_host(lab: Lab, script: str) -> str:
    """Run a script at the host's console, which needs no network."""
    done = lab.exec(HOST, ["timeout", "60", "sh", "-ec", script])
    if done.returncode:
        raise CutFailed(f"{HOST}: {script}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def say(what: str) -> None:
    """One line of what happens, with the time."""
    print(f"  {datetime.datetime.now(datetime.UTC):%H:%M:%S.%f}"[:14], what, sep="  ", flush=True)


def cut(lab: Lab, start: Callable[[Sequence[str]], subprocess.Popen[bytes]], site: Sequence[str]) -> None:
    """Pull the plug in the middle of a run of `site`; CutFailed unless the host comes back by itself, as it was."""
    before = on_host(lab, BYTES)
    with trap(lab):
        print(f"$ {' '.join(site)}\n")
        with killed_at_the_end(start(site)):
            on_host(lab, f"read here <{PLACE}/here")
            say(f"{HOST}: the new configuration is in place, and {UNIT} is being restarted with it")
            lab.link(HOST, "down")
        say(f"the link to {HOST} is cut, and ansible-playbook is killed; what follows is read at the host's console")
        on_host(lab, f"echo >{PLACE}/go")
        passed = taken_back(lab)
        say(f"{HOST}: containerd failed, by its own words: {on_host(lab, SAID)}")
        say(f"{HOST}: the host went through the states {', '.join(passed)} by itself")
        after, left = on_host(lab, BYTES), on_host(lab, LEFT)
        if after != before or left:
            raise CutFailed(f"{HOST} is not as it was before:\n{before}\n---\n{after}\n---\n{left}")
        on_host(lab, SERVES)
        say(f"{HOST}: every byte is as it was before, nothing is left over, and containerd serves")
    say(f"the link to {HOST} is plugged in again, and nothing ails its containerd any more")


@contextlib.contextmanager
def trap(lab: Lab) -> Iterator[None]:
    """Prepare the host's engine, and leave nothing of that behind."""
    on_host(lab, TRAP)
    try:
        yield
    finally:
        lab.link(HOST, "up")
        on_host(lab, NO_TRAP)


@contextlib.contextmanager
def killed_at_the_end(run: subprocess.Popen[bytes]) -> Iterator[None]:
    """The controller's processes, all of them, die at once."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def taken_back(lab: Lab) -> list[str]:
    """Wait for the end of the newest transaction in the host's journal, and give the states that it went through."""
    try:
        for _turn in cgroup.until(f"{HOST} to come back by itself", 60):
            states = [json.loads(line) for line in on_host(lab, STATES).splitlines() if line.strip()]
            if states[-1].get("closed") and not on_host(lab, LEFT):
                return list(dict.fromkeys(state["state"] for state in sorted(states, key=lambda state: int(state["n"]))))
    except LabError as error:
        raise CutFailed(str(error)) from error
    return []
