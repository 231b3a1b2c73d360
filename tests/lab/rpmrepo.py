# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same programs as rpm packages, in repositories whose metadata is signed and whose packages
are not, as NVIDIA's are.

    stable/rpm/x86_64     two versions, signed by key.asc
    rebuilt/x86_64        the same packages as a mirror offers them that made its own metadata: nobody signed that
    stranger/x86_64       signed by wrong.asc, whose key lies beside the metadata, where zypper looks for new ones
    expired/x86_64        signed by expired.asc while that was still valid

What a host of a kind of these needs to take itself for such a distribution is in `files`. Its
package manager is Debian's: that proves arguments, solver and signatures, not the scriptlets of the
distribution or SELinux.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from pathlib import Path

from . import aptrepo, roots
from .artefacts import cached, digest, go_tool, run
from .kinds import KINDS

OLD, NEW = "1.19.0-1", "1.20.2-1"
VERSIONS = (OLD, NEW)
SIGNED, REBUILT, STRANGER, EXPIRED = (
    "stable/rpm/x86_64",
    "rebuilt/x86_64",
    "stranger/x86_64",
    "expired/x86_64",
)
DNF, DNF5, ZYPPER = "containerd-1.6-dnf", "containerd-2.1-dnf5", "containerd-1.6-zypper"
KINDS_OF_RPM = (DNF, DNF5, ZYPPER)
# While this file is there, the scriptlet of NEW fails, in the middle of the packages of one
# transaction.
FAILS = "/etc/lab-scriptlet-fails"
LAB_PACKAGES = aptrepo.PACKAGES[:4]  # what NVIDIA publishes
REQUIRES = {
    "libnvidia-container-tools": ("libnvidia-container1 >= {version}",),
    "nvidia-container-toolkit": (
        "nvidia-container-toolkit-base = {version}",
        "libnvidia-container-tools = {version}",
    ),
}
# As upstream's, less what moves an old name: https://github.com/NVIDIA/nvidia-container-toolkit,
# packaging/rpm/SPECS.
SCRIPTS = {
    "nvidia-container-toolkit": """
%posttrans
ln -sf /usr/bin/nvidia-container-runtime-hook /usr/bin/nvidia-container-toolkit

%postun
[ "$1" != 0 ] || rm -f /usr/bin/nvidia-container-toolkit
""",
    "nvidia-container-toolkit-base": f"""
%pre
[ %{{version}}-%{{release}} != {NEW} ] || [ ! -e {FAILS} ]

%post
/usr/bin/nvidia-ctk --quiet config --config-file=/etc/nvidia-container-runtime/config.toml --in-place
systemctl daemon-reload
systemctl start nvidia-cdi-refresh.path || :
""",
}
# The provides of such a distribution's packages. rpm's database on these hosts knows nothing of
# them.
SYSTEM = "lab-system"
SYSTEM_SPEC = f"""
Name: {SYSTEM}
Version: 9
Release: 1
Summary: What a distribution's own packages provide
License: GPL-3.0-or-later
BuildArch: noarch
Provides: /bin/sh
Provides: system-release = 9
Provides: system-release(releasever) = 9
%description
Stands for the packages of a distribution.
%files
"""
# Debian's older rpm refuses to work beside dpkg unless an option says so, one that its newer one
# does not know.
PROVIDE = "rpm --install --nosignature $(rpm --help | grep -om1 -e --force-debian || :) {} 2>&1"
SPEC = """
Name: {name}
Version: {version}
Release: {release}
Summary: {name} (upstream's programs, packaged for the lab)
License: Apache-2.0
AutoReqProv: no
{requires}
%description
{name}, packaged for the lab.
%install
cp -a /lab-build/{name}-{version}/. %{{buildroot}}/
{scripts}
%files
{files}
"""
BUILD = """
set -eu
lower=$1 source=$2 out=$3
mount -t tmpfs -o mode=755,size=4g lab-build /mnt
mkdir /mnt/upper /mnt/work /mnt/merged
mount -t overlay -o "lowerdir=$lower,upperdir=/mnt/upper,workdir=/mnt/work" lab-build /mnt/merged
cd /mnt/merged
mount -t proc proc proc
mount --bind /dev dev
mkdir lab-build lab-out
mount --bind "$source" lab-build
mount --bind "$out" lab-out
export HOME=/tmp LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin SOURCE_DATE_EPOCH=1767225600
for spec in lab-build/*.spec; do
    chroot . rpmbuild -bb --quiet --define '_topdir /tmp/build' --define '_rpmdir /lab-out' \
        --define '_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm' \
        --define '__os_install_post %{nil}' --define '_build_id_links none' --define 'debug_package %{nil}' \
        --define '_binary_payload w1.gzdio' "/$spec"
done
mkdir lab-out/repository
mv lab-out/*nvidia*.rpm lab-out/repository
chroot . createrepo_c --quiet --no-database /lab-out/repository
"""
ROCKY = 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"\nPRETTY_NAME="Rocky Linux 9.6 (imitated)"\n'
FEDORA = 'NAME="Fedora Linux"\nID=fedora\nVERSION_ID=42\nPRETTY_NAME="Fedora Linux 42 (imitated)"\n'
SLES = 'NAME="SLES"\nID="sles"\nID_LIKE="suse"\nVERSION_ID="15.7"\nPRETTY_NAME="SUSE Linux Enterprise Server 15 SP7 (imitated)"\n'


# RHEL's own, less its variables. Debian enables dnf's plugin `local`, whose repository is not
# there.
DNF_CONF = "[main]\ngpgcheck=1\ninstallonly_limit=3\nclean_requirements_on_remove=True\nbest=True\nskip_if_unavailable=False\n"
OF_DNF = {"/etc/dnf/dnf.conf": DNF_CONF, "/etc/dnf/plugins/local.conf": "[main]\nenabled = false\n"}
# Fedora's settings, and the same plugin for dnf5.
OF_DNF5 = {
    "/etc/dnf/dnf.conf": "[main]\ninstallonly_limit=3\nskip_if_unavailable=True\n",
    "/etc/dnf/libdnf5-plugins/local.conf": "[main]\nname = local\nenabled = false\n",
}


def files(release: str) -> dict[str, str]:
    """The files by which a host of the kind takes itself for another distribution. Debian's rpm
    keeps its database in a home directory.
    """
    own = {"/etc/os-release": release, "/etc/rpm/macros": "%_dbpath /var/lib/rpm\n"}
    return {**own, **{ROCKY: OF_DNF, FEDORA: OF_DNF5}.get(release, {})}


@functools.cache
def nvidia_rpms() -> Path:
    """The directory that is served, with the package SYSTEM beside the repositories."""
    programs = go_tool("nvidia-toolkit")
    lower = roots.layers(KINDS[DNF])
    sources = [
        part
        for path in sorted(aptrepo.SOURCES.rglob("*"))
        if path.is_file()
        for part in (str(path.relative_to(aptrepo.SOURCES)), path)
    ]
    key = digest(programs.name, *(path.name for path in lower), Path(__file__), *sources)
    return cached("repo", "nvidia-rpm", key, functools.partial(_build, programs, lower))


def _build(programs: Path, lower: list[Path], out: Path) -> None:
    with tempfile.TemporaryDirectory(dir=out.parent) as place:
        source, built = Path(place, "source"), Path(place, "built")
        source.mkdir()
        built.mkdir()
        (source / f"{SYSTEM}.spec").write_text(SYSTEM_SPEC)
        for version in VERSIONS:
            for name in LAB_PACKAGES:
                _source(name, version, programs, source)
        roots.isolated(BUILD, ":".join(map(str, lower)), str(source), str(built))
        shutil.copy2(built / f"{SYSTEM}-9-1.noarch.rpm", out / f"{SYSTEM}.rpm")
        for name in (SIGNED, REBUILT, STRANGER, EXPIRED):
            shutil.copytree(built / "repository", out / name, copy_function=os.link)
    _sign(out)


def _source(name: str, version: str, programs: Path, source: Path) -> None:
    """The files of one package and its spec."""
    number, _dash, release = version.partition("-")
    root = source / f"{name}-{number}"
    shutil.copytree(aptrepo.SOURCES / name, root, ignore=shutil.ignore_patterns("DEBIAN"))
    if (root / "lib").exists():
        shutil.copytree(root / "lib", root / "usr/lib", dirs_exist_ok=True)
        shutil.rmtree(root / "lib")
    for program in aptrepo.PROGRAMS.get(name, ()):
        (root / "usr/bin").mkdir(parents=True, exist_ok=True)
        shutil.copy2(programs / program, root / "usr/bin")
    listed = sorted(f"/{path.relative_to(root)}" for path in root.rglob("*") if path.is_file())
    marked = [f"%config(noreplace) {path}" if path.startswith("/etc/") else path for path in listed]
    requires = "\n".join(
        f"Requires: {line.format(version=version)}" for line in REQUIRES.get(name, ())
    )
    text = SPEC.format(
        name=name,
        version=number,
        release=release,
        requires=requires,
        scripts=SCRIPTS.get(name, ""),
        files="\n".join(marked),
    )
    (source / f"{name}-{number}.spec").write_text(text)


def _sign(out: Path) -> None:
    """The metadata alone, as NVIDIA does."""
    with aptrepo.key("lab@gpufleet.invalid") as gpg:
        _signed(gpg, out / SIGNED, out / "key.asc")
    with aptrepo.key("stranger@gpufleet.invalid") as gpg:
        _signed(gpg, out / STRANGER, out / "wrong.asc")
    shutil.copy2(out / "wrong.asc", out / STRANGER / "repodata/repomd.xml.key")
    with aptrepo.key("old@gpufleet.invalid", "20200101T000000!", "1y") as gpg:
        _signed(gpg, out / EXPIRED, out / "expired.asc")


def _signed(gpg: list[str], repository: Path, key: Path) -> None:
    metadata = repository / "repodata/repomd.xml"
    run([*gpg, "--armor", "--detach-sign", "--output", f"{metadata}.asc", str(metadata)])
    run([*gpg, "--armor", "--export", "--output", str(key)])
