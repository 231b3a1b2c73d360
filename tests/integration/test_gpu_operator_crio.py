# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real CRI-O that a GPU Operator's toolkit has configured, on a node whose kubelet runs: left
alone while it works or may, then adopted.

The drop-in is that of the real nvidia-ctk 1.20, by whose rules the toolkit container writes its
own, with its handler three times. Two things are imitated. The toolkit's process is a `sleep` of
its name. And 10 minutes of the kubelet are not waited for: SSH's sessions get a monotonic clock
that is ahead of the host's, by the kernel's time namespaces, while systemd goes on counting by the
host's.
"""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
)

from tests.integration.containers import CRICTL
from tests.integration.gpu_operators import LIVE, OURS
from tests.lab import artefacts
from tests.tools.onlab import Fleet, Tree, differing

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not shutil.which("go"), reason="CRI-O and nvidia-ctk are built with Go, which is not here"
    ),
]

HOST = "opcrio"
TOOLKIT = gpu_operator.DIRECTORY
DROP_IN = "/etc/crio/crio.conf.d/99-nvidia.conf"
HOOK = "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json"
PACKAGED = "/usr/bin/nvidia-container-runtime"
PROGRAMS = {
    f"nvidia{mode.replace('.', '-')}": f"{TOOLKIT}/nvidia-container-runtime{mode}"
    for mode in ("", ".cdi", ".legacy")
}
# Its hook mode of before (gpu-operator up to 25.3, assets/state-container-toolkit): it ends nothing
# of that when it goes over to handlers.
HOOKS = {
    "version": "1.0.0",
    "hook": {
        "path": f"{TOOLKIT}/nvidia-container-runtime-hook",
        "args": ["nvidia-container-runtime-hook", "prestart"],
        "env": [f"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{TOOLKIT}"],
    },
    "when": {"always": True, "commands": [".*"]},
    "stages": ["prestart"],
}
SETUP = f"""
set -e
mkdir -p {TOOLKIT} /var/lib/kubelet/pods $(dirname {HOOK}) /run/nvidia/toolkit /run/nvidia/validations
for program in {" ".join(PROGRAMS.values())} {TOOLKIT}/nvidia-container-runtime-hook {PACKAGED}; do
    printf '#!/bin/sh\\nexec /usr/libexec/crio/crun "$@"\\n' >$program
    chmod 755 $program
done
printf %s '{json.dumps(HOOKS)}' >{HOOK}
: >/run/nvidia/toolkit/toolkit.pid
: >/run/nvidia/validations/toolkit-ready
printf 'IS_HOST_DRIVER=true\\nNVIDIA_DRIVER_ROOT=/\\n' >/run/nvidia/validations/driver-ready
/root/nvidia-ctk --quiet runtime configure --runtime=crio --drop-in-config={DROP_IN} \\
    --nvidia-runtime-path={TOOLKIT}/nvidia-container-runtime
sed -n '/runtimes.nvidia]/,$p' {DROP_IN} >/run/one
for mode in cdi legacy; do
    sed "s|runtimes.nvidia]|runtimes.nvidia-$mode]|; s|\\(toolkit/nvidia-container-runtime\\)|\\1.$mode|" /run/one
done >>{DROP_IN}
cp /bin/sleep /usr/bin/kubelet
printf '[Service]\\nExecStart=/usr/bin/kubelet infinity\\n' >/etc/systemd/system/kubelet.service
systemctl daemon-reload
systemctl start kubelet.service
systemctl restart crio
"""
# Sessions see a monotonic clock that is SETTLED seconds ahead, Ansible's that was open is ended;
# what systemd starts sees the host's.
AHEAD = f"""
set -e
mkdir -p /run/systemd/system/ssh.service.d
printf '[Service]\\nExecStart=\\nExecStart=unshare --time --monotonic {gpu_operator.SETTLED} /usr/sbin/sshd -D\\n' \\
    >/run/systemd/system/ssh.service.d/ahead.conf
systemctl daemon-reload
systemctl restart ssh
pkill '^sshd-session'
"""


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    found: Fleet = boot({HOST: {"kind": "crio-1.34", "gpus": 1, "driver": "ok"}})
    found.bring(HOST, artefacts.go_tool("nvidia-toolkit") / "nvidia-ctk", "/root/nvidia-ctk")
    found.shell(HOST, SETUP)
    return found


def state(fleet: Fleet) -> Tree:
    """All that configures CRI-O."""
    return {
        path: entry
        for path, entry in fleet.tree(HOST).items()
        if "/crio" in path or "/hooks.d" in path or path.startswith(TOOLKIT)
    }


def handlers(fleet: Fleet) -> dict[str, str]:
    """NVIDIA's, as the running CRI-O has them."""
    told = json.loads(fleet.shell(HOST, f"{CRICTL} info"))["config"]["crio"]["Runtimes"]
    return {name: entry["RuntimePath"] for name, entry in told.items() if "nvidia" in name}


def left_alone(fleet: Fleet, why: str, before: Tree) -> None:
    starts = fleet.starts(HOST, "crio")
    run = fleet.task("host", [HOST], OURS)
    assert run.failed == {}, run.words
    result = run.of("host")[HOST]
    (sentence,) = [a for a in result["advice"] if "GPU Operator" in a and "is left alone" in a]
    assert why in sentence
    assert "toolkit.enabled=false" in sentence
    assert {left["fate"] for left in result["leftovers"] if left["tool"] == gpu_operator.TOOL} == {
        "live"
    }
    assert differing(before, state(fleet)) == {}
    assert fleet.starts(HOST, "crio") == starts
    assert handlers(fleet) == PROGRAMS


def test_it_is_left_alone_while_it_works_or_may_and_adopted_once_it_is_gone(fleet: Fleet) -> None:
    before = state(fleet)
    assert handlers(fleet) == PROGRAMS
    fleet.shell(HOST, LIVE)
    left_alone(fleet, "its process nvidia-toolkit runs", before)
    fleet.shell(HOST, "systemctl stop toolkit-container")
    left_alone(fleet, "the kubelet has been active for less than 10 minutes", before)

    fleet.shell(HOST, AHEAD)
    kept = "/var/lib/kubelet/pods/0b1e/containers/nvidia-container-toolkit-ctr"
    fleet.shell(HOST, f"mkdir -p {kept}")
    left_alone(
        fleet, "the kubelet keeps a pod with the container nvidia-container-toolkit-ctr", before
    )
    fleet.shell(HOST, f"rm -r {kept}")

    starts = fleet.starts(HOST, "crio")
    run = fleet.task("host", [HOST], OURS)
    assert run.failed == {}, run.words
    result = run.of("host")[HOST]
    found = {left["path"]: (left["tool"], left["fate"]) for left in result["leftovers"]}
    assert found[DROP_IN] == (gpu_operator.TOOL, "adopted")
    assert found[TOOLKIT] == (gpu_operator.TOOL, "kept")
    assert found[HOOK][1] == "adopted"
    assert {path for path in differing(before, state(fleet)) if path in before} == {DROP_IN, HOOK}
    assert result["restarted"] == ["crio.service"]
    assert fleet.starts(HOST, "crio") == starts + 1
    assert handlers(fleet) == {"nvidia": PACKAGED}
    assert fleet.task("host", [HOST], OURS).changed == {}

    back = fleet.task("host", [HOST], {"state": "absent", **OURS})
    assert back.failed == {}, back.words
    assert differing(before, state(fleet)) == {}
    assert handlers(fleet) == PROGRAMS
