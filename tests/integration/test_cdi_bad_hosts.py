# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host whose driver, programs and files are broken in turn: one sentence or a sound spec, no
change where it is refused, and no hang.
"""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import (
    run as lint_run,
)

from tests.integration.conftest import Boot
from tests.tools.onlab import Fleet

pytestmark = pytest.mark.lab

HOST = "cdi-bad"
PROC, NVML = "/opt/fakegpu/proc", "/etc/fake-nvml.conf"
INFORMATION = f"{PROC}/driver/nvidia/gpus/0000:17:00.0/information"
VERSIONS = f"{PROC}/driver/nvidia/version /opt/fakegpu/sys/module/nvidia/version"
SMI = "printf '#!/bin/sh\\n{}\\n' >/usr/bin/nvidia-smi; "
LIBRARIES = 'find /usr/lib -name "*.so.$(cat /opt/fakegpu/sys/module/nvidia/version)"'
MOVED = f"rm -rf /opt/nv; mkdir /opt/nv; mv $({LIBRARIES}) /opt/nv; "
CACHED = "echo /opt/nv >/etc/ld.so.conf.d/nv.conf; ldconfig -X"  # which leaves links alone
NO_NVML = f"echo 'error nvmlInit 999' >>{NVML}; "

# what it is: (how it is broken, a word of the refusal)
REFUSED = {
    "NVML: the driver is not loaded": (f"echo 'error nvmlInit 9' >>{NVML}", "modprobe nvidia"),
    "NVML: a GPU is lost": (
        f"echo 'error nvmlDeviceGetUUID@1 15' >>{NVML}",
        "Reset or replace the GPU",
    ),
    "nvidia-smi: 9": (NO_NVML + SMI.format("exit 9"), "[devices.nvidia-smi-not-loaded]"),
    "the version files are cut short": (
        f"for f in {VERSIONS}; do : >$f; done",
        "contains no version",
    ),
    "a GPU's page is cut short": (
        f"head -c 20 {INFORMATION} >/tmp/cut; cat /tmp/cut >{INFORMATION}",
        INFORMATION,
    ),
    "the driver lies in a folder of an account": (
        f"{MOVED} chown 1234 /opt/nv; {CACHED}",
        "/opt/nv belongs to user 1234",
    ),
    "a library of the driver is an account's": (
        f"{MOVED} chown 1234 /opt/nv/*; {CACHED}",
        "belongs to user 1234",
    ),
    "the loader's cache is none": (f"{MOVED} echo rubbish >/etc/ld.so.cache", "Run ldconfig"),
    "a directory in place of our file": ("mkdir -p /etc/cdi/nvidia.yaml", "/etc/cdi/nvidia.yaml"),
    "a link to nothing in place of our file": (
        "mkdir -p /etc/cdi; ln -s /nowhere /etc/cdi/nvidia.yaml",
        "/etc/cdi/nvidia.yaml",
    ),
}
NESTED = "(echo '# nvidia.com/gpu'; yes '[' | tr -d '\\n' | head -c 90000)"
# what it is: (how it is broken, the code of an advice, or a part of it)
WRITTEN = {
    "NVML: an unknown error": (NO_NVML, "[devices.named-"),
    "nvidia-smi: 14, and no table": (
        NO_NVML + SMI.format("exit 14"),
        "[devices.named-without-both]",
    ),
    "nvidia-smi prints rubbish": (
        NO_NVML + SMI.format("head -c 3000 /dev/urandom"),
        "[devices.named-without-both]",
    ),
    "NVML never answers": (f"echo 'delay nvmlInit 90000' >>{NVML}", "[devices.named-from-proc]"),
    "the driver lies in a folder of root's": (f"{MOVED} {CACHED}", ""),
    "ldconfig hangs": ("printf '#!/bin/sh\\nsleep 600\\n' >/usr/sbin/ldconfig", ""),
    "rubbish beside our file": (
        f"mkdir -p /etc/cdi; cd /etc/cdi; ln -s loop.yaml loop.yaml; {NESTED} >deep.yaml",
        "[cdi.ignored]",
    ),
}
KEPT = f"{INFORMATION} {VERSIONS} {NVML} /usr/bin/nvidia-smi /usr/sbin/ldconfig /etc/ld.so.cache"


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    found = boot({HOST: {"kind": "containerd-1.7", "gpus": 2, "driver": "ok"}})
    found.shell(HOST, f"mkdir /srv/kept; cp -a --parents {KEPT} $({LIBRARIES}) /srv/kept")
    return found


def broken(fleet: Fleet, how: str) -> None:
    fleet.shell(HOST, f"rm -rf /etc/cdi /var/run/cdi; cp -a /srv/kept/. /; {how}")


@pytest.mark.parametrize(("how", "word"), REFUSED.values(), ids=REFUSED)
def test_refused(fleet: Fleet, how: str, word: str) -> None:
    broken(fleet, how)
    before = fleet.tree(HOST)
    run = fleet.task("cdi_spec", [HOST])
    assert word in run.failed[HOST], run.failed
    assert fleet.tree(HOST) == before


@pytest.mark.parametrize(("how", "word"), WRITTEN.values(), ids=WRITTEN)
def test_written_all_the_same(fleet: Fleet, how: str, word: str) -> None:
    broken(fleet, how)
    run = fleet.task("cdi_spec", [HOST])
    assert run.failed == {}
    answer = run.of("cdi_spec")[HOST]
    assert word in " ".join(answer["advice"])
    text = fleet.text(HOST, "/etc/cdi/nvidia.yaml")
    document, problems = lint_run.read_text_problems(text.encode(), releases.LIBRARIES["0.6.2"])
    assert problems == ()
    assert document
    assert {"0", "1", "all"} <= {device["name"] for device in document.value["devices"]}
