# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with apt whose upgrade fails half way, in a script of one of NVIDIA's packages: all of
them go back to the version before.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.lab import aptrepo, artefacts, hosts
from tests.tools.onlab import Fleet

pytestmark = pytest.mark.lab

HOST = "apt-upgrade"
OLD, NEW = "1.19.0-1", aptrepo.VERSION
PACKAGES = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
# The lab's packages once more in an older version; of the new ones the script of one fails while
# /etc/fails is there.
REPOSITORY = f"""
cd /root/repository
pack() {{ dpkg-deb -Zgzip -z1 --build x $1 >/dev/null; rm -r x; }}
for deb in *_{NEW}_amd64.deb; do
    name=${{deb%%_*}}
    dpkg-deb --raw-extract $deb x
    sed -i s/{NEW}/{OLD}/g x/DEBIAN/control
    pack ${{name}}_{OLD}_amd64.deb
done
dpkg-deb --raw-extract nvidia-container-toolkit-base_{NEW}_amd64.deb x
sed -i '2i [ ! -e /etc/fails ] || exit 1' x/DEBIAN/postinst
pack nvidia-container-toolkit-base_{NEW}_amd64.deb
rm -f Release* InRelease Packages*
for deb in *.deb; do
    dpkg-deb --field $deb
    printf 'Filename: ./%s\\nSize: %s\\nSHA256: %s\\n\\n' $deb $(stat -c %s $deb) $(sha256sum $deb | cut -d ' ' -f 1)
done >Packages
echo 'deb [trusted=yes] file:/root/repository ./' >/etc/apt/sources.list.d/local.list
apt-get -q update
"""


@pytest.fixture(scope="module")
def fleet(boot) -> Fleet:  # type: ignore[no-untyped-def]
    found: Fleet = boot({HOST: {"kind": "containerd-1.6", "gpus": 1, "driver": "ok"}})
    inside = Path(f"/proc/{hosts.first_process(found.lab.host(HOST))}/root/root/repository")
    shutil.copytree(artefacts.nvidia_debs() / aptrepo.FLAT, inside)
    found.shell(HOST, REPOSITORY)
    return found


def moved(fleet: Fleet, version: str) -> dict[str, Any]:
    options = {"toolkit_repository": "", "cdi": "disabled", "toolkit_version": version}
    return fleet.task("host", [HOST], options).of("host")[HOST]


def installed(fleet: Fleet) -> dict[str, str]:
    """The packages whose installation is complete."""
    listed = fleet.shell(
        HOST,
        f"dpkg-query -W -f '${{Package}} ${{Version}} ${{Status}}\\n' {' '.join(PACKAGES)}",
        fails=True,
    )
    return {
        words[0]: words[1]
        for words in map(str.split, listed.splitlines())
        if words[-1] == "installed"
    }


def test_a_failing_upgrade_is_taken_back_as_a_set_and_works_once_it_can(fleet: Fleet) -> None:
    assert moved(fleet, OLD)["status"] == "ok"
    fleet.shell(HOST, "touch /etc/fails")
    failed = moved(fleet, NEW)
    assert failed["status"] == "failed"
    assert "a script of the package nvidia-container-toolkit-base failed" in failed["msg"]
    assert installed(fleet) == dict.fromkeys(PACKAGES, OLD)
    fleet.shell(HOST, "rm /etc/fails")
    assert moved(fleet, NEW)["status"] == "ok"
    assert installed(fleet) == dict.fromkeys(PACKAGES, NEW)


def test_a_first_installation_that_fails_half_way_takes_away_what_it_brought(fleet: Fleet) -> None:
    fleet.shell(HOST, f"apt-get -qq purge -y {' '.join(PACKAGES)}; touch /etc/fails")
    failed = moved(fleet, NEW)
    # their configuration files stay
    assert (failed["status"], failed["changed"]) == ("failed", True), failed
    assert "a script of the package nvidia-container-toolkit-base failed" in failed["msg"]
    assert installed(fleet) == {}
    fleet.shell(HOST, "rm /etc/fails")
    assert moved(fleet, NEW)["status"] == "ok"
    assert installed(fleet) == dict.fromkeys(PACKAGES, NEW)
