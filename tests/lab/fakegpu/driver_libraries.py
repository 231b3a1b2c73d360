# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compiled libraries of the driver: an NVML that answers from a file, and empty ones."""

from __future__ import annotations

import functools
from pathlib import Path

from ..artefacts import cached, digest, run
from . import driver

HERE = Path(__file__).resolve().parent
NVIDIA_SMI = HERE / "nvidia-smi"
NVML = "libnvidia-ml"


def libraries() -> Path:
    """Return the directory with the compiled libraries.

    NVML lies there under its SONAME, the others under their names without any suffix.
    """
    wanted = repr((driver.LIBRARIES, driver.PLATFORMS))
    return cached("fakegpu", "libraries", digest(HERE / "nvml.c", wanted), compile_libraries)


def list_own_programs() -> tuple[Path, ...]:
    """Return the sources of what packages of a driver bring in place of the real programs."""
    return HERE / "nvml.c", NVIDIA_SMI


FLAGS = ("gcc", "-std=gnu11", "-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-s")


def compile_nvml(out: Path, version: str = "") -> None:
    """Compile NVML alone into a directory, under its SONAME.

    version: the only one of a loaded module that it works with; any, if it is not given.
    """
    name = f"{NVML}.so.1"
    own = [f'-DOWN_VERSION="{version}"'] if version else []
    run([*FLAGS, *own, f"-Wl,-soname,{name}", "-o", str(out / name), str(HERE / "nvml.c")])


def compile_libraries(out: Path) -> None:
    """Compile the libraries into a directory."""
    compile_nvml(out)
    suffixes = {
        name: suffix for name, (suffix, _link) in {**driver.LIBRARIES, **driver.PLATFORMS}.items()
    }
    for name, suffix in suffixes.items():
        base = name.rpartition("/")[2]
        # without one, readers take the file's name for it
        named = [f"-Wl,-soname,{base}.so.{suffix}"] if suffix else []
        run([*FLAGS, "-nostdlib", *named, "-x", "c", "/dev/null", "-o", str(out / base)])


@functools.cache
def _library_bytes() -> dict[str, bytes]:
    return {path.name.partition(".so")[0]: path.read_bytes() for path in libraries().iterdir()}


def nvml_bytes() -> bytes:
    """Return the NVML that answers from /etc/fake-nvml.conf, or from the file that FAKE_NVML names."""
    return _library_bytes()[NVML]


def install_libraries(folder: Path, version: str) -> None:
    """Write the compiled libraries with versions in their names. Their links are part of the tree."""
    versions = {f"{name}.so.{own}": name for name, (_suffix, own) in driver.PLATFORMS.items()}
    versions.update(
        {f"{name}.so.{version}": name.rpartition("/")[2] for name in (NVML, *driver.LIBRARIES)}
    )
    for path, name in versions.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(_library_bytes()[name])
