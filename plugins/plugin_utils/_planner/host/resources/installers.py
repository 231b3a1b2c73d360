# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The package managers: their commands to install, their questions about what a repository has, and
the meaning of their exit statuses.

Each runs on hosts of the lab (tests/integration/test_rpm_hosts.py): dnf 4.14, which RHEL 9 has as
well, dnf5, which is Fedora's dnf from 41 on, and zypper 1.14.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    transaction,
)

TIMEOUT = 900
LOCK_TIMEOUT = 120  # seconds that another package manager is waited for
# zypper(8), EXIT CODES. search returns NO_MATCH also if a repository could not be read, with
# UNREAD; remove returns it of a package that is not installed, and removes the others.
NO_MATCH, NO_REPOSITORIES, SKIPPED = 104, 6, 106
UNREAD = "Some of the repositories have not been refreshed because of an error"
VERSION = r"[\w.:+~^-]+"


@dc.dataclass(frozen=True)
class Installer:
    """A package manager.

    argv: builds the command from packages and whether a downgrade is meant. exact: names a package
    in one version. remove: the command that removes packages and nothing else. accepts, gone: exit
    statuses of an installation or removal that is complete, besides 0.
    """

    argv: Callable[[Sequence[str], bool], list[str]]
    exact: Callable[[str, str], str]
    remove: tuple[str, ...]
    environment: Mapping[str, str] = dc.field(default_factory=dict)
    accepts: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()

    def build_command(
        self, names: Sequence[str], version: str, downgrade: bool, why: str
    ) -> transaction.PackageCommand:
        wanted = [self.exact(name, version) if version else name for name in names]
        command: transaction.PackageCommand = {
            "argv": self.argv(wanted, downgrade),
            "timeout": TIMEOUT,
            "why": why,
        }
        if self.environment:
            command["env"] = dict(self.environment)
        if self.accepts:
            command["accepts"] = list(self.accepts)
        return command

    def back(
        self, command: transaction.PackageCommand, versions: Mapping[str, str]
    ) -> transaction.PackageCommand:
        """Return the command, undone by the versions that the packages have now.

        If an installation fails, a part of the set may have moved.
        """
        undo = self.argv([self.exact(name, version) for name, version in versions.items()], True)
        return {**command, "undo": undo, "undo_within": TIMEOUT}

    def build_undone_command(
        self, command: transaction.PackageCommand, names: Sequence[str]
    ) -> transaction.PackageCommand:
        """Return the command, undone by removing what was not there before.

        Configuration files stay, and so do dependencies that came with the packages.
        """
        undone: transaction.PackageCommand = {
            **command,
            "undo": [*self.remove, *names],
            "undo_within": TIMEOUT,
            "undo_leaves": True,
        }
        return {**undone, "undo_accepts": list(self.gone)} if self.gone else undone


APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get")
APT_LOCK = ("-o", f"DPkg::Lock::Timeout={LOCK_TIMEOUT}")


def _build_apt_command(packages: Sequence[str], downgrade: bool) -> list[str]:
    """Build the command. Configuration files that were changed stay as they are, and apt asks
    nothing.
    """
    options = ["-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold", *APT_LOCK]
    return [*APT, "install", *options, *(["--allow-downgrades"] if downgrade else []), *packages]


def _name_exact_apt_version(name: str, version: str) -> str:
    return f"{name}={version}" if "-" in version else f"{name}={version}-*"


def _build_dnf_command(packages: Sequence[str], downgrade: bool) -> list[str]:  # noqa: ARG001
    """Build the command. `install` of an older version downgrades by itself.

    -y also accepts the keys that `gpgkey=` of a repository names. Its lists may be two days old and
    lack a new version. --refresh would ask every repository; `metadata_expire` asks all that set no
    time of their own, as distributions' repositories do. `--setopt=*nvidia*.` would ask only some,
    but dnf5 ends if no repository has such a name. A repository that is out of reach is passed
    over, as in Fedora's configuration and unlike RHEL's; a package that it alone has is reported as
    missing by name. dnf waits for another package manager as long as that works.
    """
    return [
        "dnf",
        "install",
        "-y",
        "--setopt=*.skip_if_unavailable=1",
        "--setopt=metadata_expire=1",
        "--setopt=install_weak_deps=False",
        *packages,
    ]


def _build_zypper_command(packages: Sequence[str], downgrade: bool) -> list[str]:
    options = ["--no-recommends", *(["--oldpackage"] if downgrade else [])]
    return ["zypper", "--non-interactive", "install", *options, *packages]


INSTALLERS: Mapping[str, Installer] = {
    "apt": Installer(
        _build_apt_command, _name_exact_apt_version, (*APT, "remove", "-y", *APT_LOCK)
    ),
    # Without the option it takes dependencies away as well, which others may have come to need.
    "dnf": Installer(_build_dnf_command, "{}-{}".format, ("dnf", "remove", "-y", "--noautoremove")),
    # SKIPPED: all is installed, and a repository that was not needed for it is broken.
    "zypper": Installer(
        _build_zypper_command,
        "{}={}".format,
        ("zypper", "--non-interactive", "remove"),
        {"ZYPP_LOCK_TIMEOUT": str(LOCK_TIMEOUT)},
        accepts=(SKIPPED,),
        gone=(NO_MATCH, SKIPPED),
    ),
}


def ask_for_available_versions(manager: str, name: str) -> queries.Question | None:
    """Return the question which versions the host's repositories have of a package; None if the
    look has asked (apt).

    The others may have to load their lists for it. dnf passes over a repository that it cannot read
    if its configuration allows that (Fedora's does), which would look like a repository without the
    package. dnf5 ends no line by itself.
    """
    argv = {
        "dnf": _list_dnf_lists(name, "--setopt=skip_if_unavailable=False"),
        "zypper": ["zypper", "--non-interactive", "-q", "search", "--match-exact", "-s", name],
    }.get(manager)
    return _ask_installer(argv, name) if argv else None


def list_questions_without_repository(manager: str, name: str) -> tuple[queries.Question, ...]:
    """Return further questions for when a repository cannot be read: what the others have, then
    what each had when it was last read.

    The first answer counts if it names a version, the second in any case: it fails if a repository
    was never read. zypper needs none, since it answers by the lists that it has.
    """
    if manager != "dnf":
        return ()
    return tuple(
        _ask_installer(_list_dnf_lists(name, *options), name)
        for options in (
            ("--setopt=*.skip_if_unavailable=1",),
            ("--cacheonly", "--setopt=skip_if_unavailable=False"),
        )
    )


def _list_dnf_lists(name: str, *options: str) -> list[str]:
    return [
        "dnf",
        "-q",
        "repoquery",
        *options,
        "--latest-limit=1",
        "--qf",
        "%{name} %{evr}\n",
        name,
    ]


def _ask_installer(argv: list[str], name: str) -> queries.Question:
    return queries.ask_for_command(
        argv,
        timeout=120,
        shows=(rf"\b{name} {VERSION}$", rf"\b{name} +\| package +\| {VERSION}", UNREAD),
    )


def parse_available_versions(answer: Mapping[str, Any], name: str) -> list[str] | None:
    """Return the versions in the answer, the newest first as both tools print them; None if the
    tool could not tell.
    """
    if (
        "error" in answer
        or answer.get("timed_out")
        or answer.get("rc") not in (0, NO_MATCH, NO_REPOSITORIES, SKIPPED)
    ):
        return None
    lines = [line.replace("|", " ").split() for line in str(answer.get("stdout")).splitlines()]
    versions = [words[words.index(name) :] for words in lines if name in words]
    if not versions and (
        answer["rc"] == SKIPPED or UNREAD in f"{answer.get('stdout')}{answer.get('stderr')}"
    ):
        return None
    return list(dict.fromkeys(words[-1] for words in versions if len(words) > 1))
