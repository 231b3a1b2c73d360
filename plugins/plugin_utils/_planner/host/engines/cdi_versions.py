# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the newest CDI specification that each release of each engine reads."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import (
    parse_engine_version,
)

# The newest cdiVersion each engine accepts, by the first release that does (read from go.mod at
# every tag). A patch release can be ahead of the next minor's first: Docker 25.0.17 reads 0.8.0,
# 26.0.0 only 0.6.0. So each row holds until the next one.
MAX_CDI: dict[str, tuple[tuple[tuple[int, int, int], str], ...]] = {
    "containerd": (
        ((0, 0, 0), ""), ((1, 7, 0), "0.5.0"), ((1, 7, 12), "0.6.0"), ((1, 7, 16), "0.7.0"), ((1, 7, 27), "0.8.0"),
        ((2, 0, 0), "0.8.0"), ((2, 0, 5), "1.0.0"), ((2, 1, 0), "1.0.0"), ((2, 2, 1), "1.1.0"),
    ),
    "crio": (
        ((0, 0, 0), ""), ((1, 24, 0), "0.3.0"), ((1, 25, 0), "0.5.0"), ((1, 28, 0), "0.6.0"), ((1, 30, 0), "0.7.0"),
        ((1, 31, 0), "0.8.0"), ((1, 33, 0), "1.0.0"), ((1, 35, 0), "1.1.0"),
    ),
    "docker": (
        ((0, 0, 0), ""), ((25, 0, 0), "0.6.0"), ((25, 0, 17), "0.8.0"), ((26, 0, 0), "0.6.0"), ((26, 1, 0), "0.7.0"),
        ((27, 4, 0), "0.8.0"), ((28, 1, 0), "1.0.0"), ((29, 2, 0), "1.1.0"),
    ),
    # Podman 3.2 to 3.4 have a library from before the first release, which reads .json alone and
    # nodes by other keys; 4.0 has one that reads 0.1.0 and 0.2.0 and refuses every later version.
    "podman": (
        ((0, 0, 0), ""), ((4, 1, 0), "0.4.0"), ((4, 3, 0), "0.5.0"), ((4, 7, 0), "0.6.0"), ((5, 1, 0), "0.7.0"),
        ((5, 2, 0), "0.8.0"), ((5, 5, 0), "1.0.0"), ((6, 0, 0), "1.1.0"),
    ),
    # These are not engines of this collection, but they read CDI as well. Apptainer takes
    # variables, mounts and device nodes. It runs no hook.
    "apptainer": (((0, 0, 0), ""), ((1, 5, 0), "1.1.0")),
    "singularity": (  # SingularityCE, with --oci
        ((0, 0, 0), ""), ((4, 0, 0), "0.6.0"), ((4, 1, 3), "0.7.0"), ((4, 1, 5), "0.8.0"), ((4, 3, 0), "1.0.0"), ((4, 3, 7), "1.1.0"),
    ),
}  # fmt: skip

# Distributions that build with their own Go libraries: (engine, how the version begins, newest
# cdiVersion), read from the binaries.
MAX_CDI_PACKAGED: tuple[tuple[str, str, str], ...] = (("containerd", "1.7.24~ds1", "0.8.0"),)

# The first release of each engine with CDI library 1.1.1, which reads the same specification as
# 1.1.0 and other files (read from go.mod at the tags of containerd 2.4.0 and Docker 29.8.1).
# Engines that are not here had none with it by November 2026.
NEWER_LIBRARY: dict[str, tuple[int, int, int]] = {"containerd": (2, 4, 0), "docker": (29, 8, 1)}


def has_newer_library(engine: str, version: str) -> bool:
    """Tell whether this release has CDI library 1.1.1 or a later one. No distribution's build is
    known to differ.
    """
    parsed, first = parse_engine_version(version), NEWER_LIBRARY.get(engine)
    return bool(parsed and first and parsed.release >= first)


def get_max_cdi_version(engine: str, version: str) -> str:
    """Return the newest cdiVersion that this release reads, '' if it does not support CDI or is not
    known here.
    """
    for name, begins, newest in MAX_CDI_PACKAGED:
        if name == engine and version.removeprefix("v").startswith(begins):
            return newest
    parsed = parse_engine_version(version)
    cdi_version = ""
    for first, newest in MAX_CDI.get(engine, ()):
        if parsed and parsed.release >= first:
            cdi_version = newest
    return cdi_version
