# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of a repository and its key before they are put in place: each package manager reads them
in a state of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    messages,
)

KEY = "gpufleet-nvidia.asc"
# zypper warns of it and goes on; apt and dnf refuse.
EXPIRED: transaction.Sign = {
    "pattern": r"The gpg key signing file .* has expired",
    "says": messages.KEY_EXPIRED.fill(),
    "anywhere": True,
}


def build_repository_check(manager: str, sources: str, key: str) -> dict[str, Any]:
    """Return the part of a plan that tries the two files before they are put in place.

    The package manager reads the repository in a state of its own.
    """
    return {"apt": _check_with_apt, "dnf": _check_with_dnf, "zypper": _check_with_zypper}[manager](
        sources, key
    )


def _stage_copies(
    where: tuple[str, str],
    names: tuple[str, str],
    argvs: Iterable[list[str]],
    refuse: Iterable[transaction.Sign] = (),
) -> dict[str, Any]:
    """Return the staged copies and the commands that check them.

    where: the source and its key on the host; names: those of the copies beneath the directory of
    the check.
    """
    why = messages.CHECKED_FIRST.fill()
    return {
        "stage_files": tuple(
            {"name": name, "source": path} for name, path in zip(names, where, strict=True)
        ),
        "substitute": ((where[1], f"{{stage}}/{names[1]}"),),
        "validate": tuple(
            {"argv": argv, "timeout": 120, "why": why, "refuse": [*refuse]} for argv in argvs
        ),
    }


def _check_with_dnf(sources: str, key: str) -> dict[str, Any]:
    """Check with dnf. -y takes the staged key into the state of its own.

    Plugins are off: they would add repositories of theirs, or ask which host this is.
    """
    own = {"reposdir": "", "cachedir": "/cache", "persistdir": "/state", "logdir": "/log"}
    state = [f"--setopt={name}={{stage}}{path}" for name, path in own.items()]
    argv = [
        "dnf",
        "-q",
        "-y",
        "--noplugins",
        *state,
        "--setopt=skip_if_unavailable=False",
        "makecache",
    ]
    return _stage_copies((sources, key), ("gpufleet-nvidia.repo", KEY), [argv])


def _check_with_zypper(sources: str, key: str) -> dict[str, Any]:
    """Check in a root of its own, whose rpm trusts the staged key: zypper knows no other place for
    keys.

    With --gpg-auto-import-keys it would also accept a key beside the repository's metadata, which
    any server that answers there can supply.
    """
    keys = ["rpmkeys", "--root", "{stage}", "--import", f"{{stage}}/{KEY}"]
    argv = ["zypper", "--non-interactive", "--root", "{stage}", "refresh"]
    return _stage_copies(
        (sources, key), ("etc/zypp/repos.d/gpufleet-nvidia.repo", KEY), [keys, argv], [EXPIRED]
    )


def _check_with_apt(sources: str, key: str) -> dict[str, Any]:
    staged = "{stage}/gpufleet-nvidia"
    options = {
        "Dir::Etc::sourcelist": f"{staged}.sources",
        "Dir::Etc::sourceparts": "-",
        "Dir::State": "{stage}",
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "APT::Sandbox::User": "root",
        "APT::Update::Error-Mode": "any",
    }
    argv = [
        "apt-get",
        "-q",
        "update",
        *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
    ]
    return _stage_copies((sources, key), ("gpufleet-nvidia.sources", KEY), [argv])
