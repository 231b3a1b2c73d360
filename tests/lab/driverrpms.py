# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two branches of NVIDIA's driver as imitated rpm packages, in a repository of their own.

Names, epoch and scripts are those of NVIDIA's packages
(https://github.com/NVIDIA/yum-packaging-nvidia-driver and yum-packaging-nvidia-kmod-open-dkms):
DKMS's failures are ignored, so that a module that cannot be built fails no transaction. NVML and
nvidia-smi are the lab's, all other libraries are empty ones with the right names.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import roots, rpmrepo
from .artefacts import cached, digest
from .fakegpu import driver, driver_libraries
from .kinds import KINDS

RELEASES = ("570.172.08", "580.95.05")
LIBS, TOOLS, KMOD = "nvidia-driver-cuda-libs", "nvidia-driver-cuda", "kmod-nvidia-open-dkms"
NAMES = (LIBS, TOOLS, KMOD)
FOLDER = "usr/lib64"
# where Debian's loader does not look by itself
LOADER = {"/etc/ld.so.conf.d/lib64.conf": f"/{FOLDER}\n"}
EPOCH = 3
HEAD = """\
Name: {name}
Version: {version}
Release: 1
Epoch: {epoch}
Summary: {name} (imitated)
License: NVIDIA
Vendor: NVIDIA Corporation
AutoReqProv: no
{relations}
%description
{name}, imitated.
%install
mkdir -p %{{buildroot}}
[ ! -e /lab-build/{name}-{version} ] || cp -a /lab-build/{name}-{version}/. %{{buildroot}}/
{scripts}
%files
{files}
"""
RELATIONS = {
    LIBS: "",
    TOOLS: "Requires: {libs} = {epoch}:{version}\nRequires: nvidia-kmod = {epoch}:{version}",
    KMOD: "Provides: nvidia-kmod = {epoch}:{version}",
}
SCRIPTLETS = {
    LIBS: "%post\n/sbin/ldconfig\n%postun\n/sbin/ldconfig",
    TOOLS: "",
    KMOD: (
        "%post\n/usr/sbin/dkms install -m nvidia -v %{version} || :\n"
        "%preun\n/usr/sbin/dkms remove -m nvidia -v %{version} || :"
    ),
}


@functools.cache
def build_repository() -> Path:
    """Return the directory with the packages of all releases, and the metadata of a repository."""
    lower = roots.layers(KINDS[rpmrepo.DNF])
    own = (*driver_libraries.list_own_programs(), Path(__file__), Path(driver.__file__))
    key = digest(*(path.name for path in lower), rpmrepo.BUILD, *own)
    what = "imitated rpm packages of two branches of NVIDIA's driver"
    return cached("repo", "driver-rpm", key, functools.partial(_build, lower), what)


def _build(lower: list[Path], out: Path) -> None:
    with tempfile.TemporaryDirectory(dir=out.parent) as place:
        source, built = Path(place, "source"), Path(place, "built")
        source.mkdir()
        built.mkdir()
        for release in RELEASES:
            for name in NAMES:
                _write_source(name, release, source)
        roots.isolated(rpmrepo.BUILD, ":".join(map(str, lower)), str(source), str(built))
        shutil.copytree(built / "repository", out, dirs_exist_ok=True)


def _write_source(name: str, release: str, source: Path) -> None:
    root = source / f"{name}-{release}"
    root.mkdir()
    for path, content, mode in _list_files(name, release):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
        (root / path).chmod(mode)
    for path, target in driver.links(FOLDER, release) if name == LIBS else ():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(target)
    if name == LIBS:
        (root / FOLDER / "libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{release}")
    listed = sorted(f"/{path.relative_to(root)}" for path in root.rglob("*") if not path.is_dir())
    values = {"name": name, "version": release, "epoch": EPOCH, "libs": LIBS}
    text = HEAD.format(
        **values,
        relations=RELATIONS[name].format(**values),
        scripts=SCRIPTLETS[name],
        files="\n".join(listed),
    )
    (source / f"{name}-{release}.spec").write_text(text)


def _list_files(name: str, release: str) -> Iterator[tuple[str, bytes, int]]:
    """Yield path, content and mode of the files of one package, but its links."""
    if name == TOOLS:
        yield "usr/bin/nvidia-smi", driver_libraries.NVIDIA_SMI.read_bytes(), 0o755
        yield from ((path, text.encode(), mode) for path, text, mode in driver.texts(release))
    if name == LIBS:
        with tempfile.TemporaryDirectory() as place:
            driver_libraries.install_libraries(Path(place), release)
            driver_libraries.compile_nvml(Path(place), release)
            nvml = Path(place, "libnvidia-ml.so.1").read_bytes()
            for path in sorted(Path(place).rglob("*.so.*")):
                own = nvml if path.name.startswith("libnvidia-ml.") else path.read_bytes()
                if path.name != "libnvidia-ml.so.1":
                    yield f"{FOLDER}/{path.relative_to(place)}", own, 0o755
