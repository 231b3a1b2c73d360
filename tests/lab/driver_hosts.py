# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose driver comes by their own package manager, of two distributions, each with an older
and a newer branch.
"""

from __future__ import annotations

import dataclasses as dc
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import driverrpms, hosts, rpmrepo, userland
from .lab import Lab

PLACE = "/srv/driver"  # apt reads it by its own account
INDEX = f"""
cd {PLACE}; chmod -R a+rX .; rm -f Packages Release
for deb in *.deb; do
    dpkg-deb --field $deb
    printf 'Filename: ./%s\\nSize: %s\\nSHA256: %s\\n\\n' $deb $(stat -c %s $deb) $(sha256sum $deb | cut -d ' ' -f 1)
done >Packages
printf 'Origin: Debian\\nLabel: Debian\\nSuite: stable\\nCodename: trixie\\nDate: %s\\nSHA256:\\n %s %s Packages\\n' \\
    "$(date -Ru)" $(sha256sum Packages | cut -d ' ' -f 1) $(stat -c %s Packages) >Release
"""
SOURCE = f"deb [trusted=yes] file:{PLACE} ./"
STANZA = rf"[driver]\nname=driver\nbaseurl=file://{PLACE}\nenabled=1\ngpgcheck=0\n"
LOAD = "sh /opt/fakegpu/start"  # as modprobe after an installation
LOADED = "cat /opt/fakegpu/sys/module/nvidia/version 2>/dev/null || true"


@dc.dataclass(frozen=True)
class Distribution:
    """A distribution of the hosts. packages: those of the driver; releases: NVIDIA's older and newer
    one.
    """

    name: str
    packages: tuple[str, ...]
    releases: tuple[str, str]

    @property
    def old(self) -> str:
        return self.releases[0]

    @property
    def new(self) -> str:
        return self.releases[1]


DEBIAN = Distribution(
    "debian",
    (*userland.PARTS, userland.MODULE),
    ("535.261.03", "550.163.01"),
)
ROCKY = Distribution("rocky", driverrpms.NAMES, driverrpms.RELEASES)
# what `shutdown` of an older systemd asks to reboot; the lab's other hosts have it masked
LOGIND = "/etc/systemd/system/systemd-logind.service"
# by which Ansible takes the host for one with dnf
SEEN_BY_ANSIBLE = {
    "/etc/redhat-release": "Rocky Linux release 9.6 (Blue Onyx)\n",
    "/etc/debian_version": None,
}
GPUS = {"gpus": 1, "driver": "packaged"}
DEBIAN_HOST = {"kind": "containerd-1.7", **GPUS}
ROCKY_HOST = {
    "kind": rpmrepo.DNF,
    **GPUS,
    "files": {**rpmrepo.files(rpmrepo.ROCKY), **driverrpms.LOADER, **SEEN_BY_ANSIBLE, LOGIND: None},
}


def install_on_debian(lab: Lab, host: str, *more: str) -> None:
    """Install the older branch and further packages with apt, and leave the newer branch out of the
    repository.
    """
    bring(lab, host, userland.branches() / userland.BRANCHES[0])
    names = " ".join((*DEBIAN.packages, userland.PERSISTENCED, *more))
    lab.shell(
        host,
        f"rm -f /etc/apt/sources.list.d/* /etc/apt/sources.list\n"
        f"echo '{SOURCE}' >/etc/apt/sources.list.d/driver.list\n{INDEX}\napt-get -q update\n"
        f"DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install {names}\n{LOAD}",
    )


def offer_on_debian(lab: Lab, host: str) -> None:
    """Put the newer branch into the host's repository."""
    bring(lab, host, userland.branches() / userland.BRANCHES[1])
    lab.shell(host, INDEX)


def install_on_rocky(lab: Lab, host: str) -> None:
    """Install the older branch with dnf; the repository has both."""
    bring(lab, host, driverrpms.build_repository())
    system = rpmrepo.nvidia_rpms() / f"{rpmrepo.SYSTEM}.rpm"
    shutil.copy2(system, find_root(lab, host) / "root/system.rpm")
    wanted = " ".join(f"{name}-{driverrpms.EPOCH}:{ROCKY.old}" for name in ROCKY.packages)
    lab.shell(
        host,
        f"{rpmrepo.PROVIDE.format('/root/system.rpm')}\nmkdir -p /etc/yum.repos.d\n"
        f"printf '{STANZA}' >/etc/yum.repos.d/driver.repo\ndnf -y -q install {wanted}\n{LOAD}",
    )


def install(lab: Lab, wanted: Mapping[str, Distribution]) -> None:
    """Install the older branch on hosts of several distributions at once."""
    by = {DEBIAN.name: install_on_debian, ROCKY.name: install_on_rocky}
    with ThreadPoolExecutor(len(wanted)) as pool:
        list(pool.map(lambda item: by[item[1].name](lab, item[0]), wanted.items()))


def bring(lab: Lab, host: str, packages: Path) -> None:
    """Put the packages of a directory, with what lies beside them, into the host's repository."""
    shutil.copytree(packages, find_root(lab, host) / PLACE.lstrip("/"), dirs_exist_ok=True)


def find_root(lab: Lab, host: str) -> Path:
    """Return the root directory of a running host, as this machine sees it."""
    return Path(f"/proc/{hosts.first_process(lab.host(host))}/root")


def find_installed(lab: Lab, host: str, distribution: Distribution) -> set[str]:
    """Return the releases of the installed packages of the driver."""
    query = {
        "debian": "dpkg-query -W -f '${Version}\\n'",
        "rocky": "rpm -q --qf '%{VERSION}\\n'",
    }[distribution.name]
    said = lab.shell(host, f"{query} {' '.join(distribution.packages)}")
    return {line.partition("-")[0] for line in said.split()}


def find_loaded(lab: Lab, host: str) -> str:
    """Return the release of the loaded module, '' if there is none."""
    return lab.shell(host, LOADED).strip()
