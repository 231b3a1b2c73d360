# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install packages from an archive on the controller, for a host that reaches no repository.

The host needs a part of it: the repository's own signed metadata, and the packages to install.
These are written below one directory of root's as files of the transaction that adds the
repository. Then apt, dnf or zypper verify and install from there as from any repository.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    JOURNAL_DIR,
    Difference,
    HostDecision,
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import base_package
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import (
    listed,
    manifest,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    installers,
    packages,
    repository,
    repository_check,
    repository_key,
)

DIRECTORY = f"{JOURNAL_DIR}/bundle"
OPTION = "gpufleet_bundle_file"
FORMATS = {"apt": manifest.APT, "dnf": manifest.RPM, "zypper": manifest.RPM}
WHY = "the packages are installed from here"


def require_usable_archive(
    policy: Policy, described: manifest.Manifest, key: str, now: str
) -> None:
    """Raise PlanError for an archive that cannot be used, before any host is looked at. now: as
    2026-11-22T20:00:00Z.
    """
    fingerprint = repository_key.compute_key_fingerprint(key)
    if fingerprint != described.key.fingerprint:
        row = messages.OTHER_KEY
        raise PlanError(
            row.fill(found=fingerprint, wanted=described.key.fingerprint), where=policy.bundle_file
        )
    repository_key.require_expected(
        fingerprint, policy.toolkit_key_fingerprint or repository.FINGERPRINT, policy.bundle_file
    )
    if described.key.expires and described.key.expires <= now:
        message = messages.EXPIRED_KEY.fill(time=described.key.expires)
        raise PlanError(message, where=policy.bundle_file)
    for source in described.repositories:
        _get_asked_version(policy, source)


def _get_asked_version(policy: Policy, source: manifest.Repository) -> str:
    """Return the version that toolkit_version selects in this archive, '' if it is not set.

    Raise PlanError if none fits.
    """
    fitting = [
        version
        for version in source.versions
        if base_package.matches_wanted_version(version, policy.toolkit_version)
    ]
    if policy.toolkit_version and not fitting:
        known, row = ", ".join(source.versions), messages.VERSION_MISSING
        message = row.fill(wanted=policy.toolkit_version, place=source.place, known=known)
        raise PlanError(message, where=policy.bundle_file)
    return listed.find_newest_listed(fitting) if policy.toolkit_version else ""


@dc.dataclass(frozen=True)
class ArchivePart:
    """The part of an archive that is for one host."""

    file: str
    source: manifest.Repository
    sizes: Mapping[str, int]  # of its files
    digests: Mapping[str, str]
    key: str

    @property
    def place(self) -> str:
        return f"{DIRECTORY}/{self.source.format}"

    @property
    def url(self) -> str:
        return f"file://{self.place}"

    @property
    def folders(self) -> tuple[str, ...]:
        names = {posixpath.dirname(name) for name in self.source.files} | {""}
        return tuple(posixpath.join(self.place, name).rstrip("/") for name in sorted(names))


@dc.dataclass(frozen=True)
class ArchiveFacts:
    """The facts of an archive and a host for one another.

    archive: the answer about the archive. folders: the entries of a directory on the host, by its
    path.
    """

    archive: Fact[Mapping[str, Any]]
    folders: Lookup[str, tuple[Mapping[str, Any], ...]]
    toolkit: packages.ToolkitFacts
    repository: repository.RepositoryFacts


def read_archive_facts(policy: Policy, obs: Observation) -> ArchiveFacts:
    return ArchiveFacts(
        Fact(lambda: obs.get_answer(queries.ask_for_archive(policy.bundle_file))),
        Lookup(obs.list_directory),
        packages.read_toolkit_facts(obs),
        repository.read_repository_facts(obs),
    )


def find_archive_part(policy: Policy, facts: ArchiveFacts) -> ArchivePart:
    answer = facts.archive.value
    described = manifest.parse_manifest(str(answer["manifest"]))
    form, machine = (
        FORMATS.get(facts.toolkit.manager, "no package manager that is known"),
        str(facts.repository.machine),
    )
    source = described.find_repository(form, machine)
    if source is None:
        has = ", ".join(r.place for r in described.repositories)
        message = messages.OTHER_FORMAT.fill(known=has, host=f"{form}/{machine}")
        raise PlanError(message, where=policy.bundle_file)
    files = {name: described.files[f"{source.place}/{name}"] for name in source.files}
    sizes, digests = (
        {name: getattr(file, field) for name, file in files.items()} for field in ("size", "sha256")
    )
    return ArchivePart(policy.bundle_file, source, sizes, digests, str(answer["key"]))


def pin_archive_in_policy(policy: Policy, facts: ArchiveFacts, record: HostDecision) -> Policy:
    """Return the policy with the archive's key and the version that the packages get.

    It is the user's version, else the installed one, else the newest in the archive. The signed
    metadata lists all versions of the repository, so without a version the package manager would
    choose one that the archive may lack.
    """
    if (
        not policy.bundle_file
        or not _installs(policy)
        or not packages.list_missing_packages(policy, facts.toolkit, record)
    ):
        return policy
    part = find_archive_part(policy, facts)
    version = _get_asked_version(policy, part.source) or _choose_version(policy, facts, part.source)
    return dc.replace(policy, toolkit_version=version, toolkit_key=part.key)


def _choose_version(policy: Policy, facts: ArchiveFacts, source: manifest.Repository) -> str:
    now = next(iter(list_installed_versions(facts)), "")
    if now and now not in source.versions:
        row, known = messages.INSTALLED_VERSION_MISSING, ", ".join(source.versions)
        raise PlanError(row.fill(installed=now, known=known), where=policy.bundle_file)
    return now or listed.find_newest_listed(source.versions)


def _installs(policy: Policy) -> bool:
    return policy.packages == "present" and policy.root == "/"


def narrow_install_plan(policy: Policy, facts: ArchiveFacts, plan: Plan) -> Plan:
    """Return the plan of the installation with the lists of the archive alone.

    No other source is refreshed, since the host may reach none of them.
    """
    if not policy.bundle_file or not plan.commands:
        return plan
    own = [command for command in plan.commands if command["argv"][:2] != ["apt-get", "update"]]
    back = set(list_installed_versions(facts)) <= set(
        find_archive_part(policy, facts).source.versions
    )
    own = [
        command if back or "install" not in (command.get("undo") or ()) else _drop_undo(command)
        for command in own
    ]
    apt = any("apt-get" in command["argv"] for command in own)
    return dc.replace(plan, commands=(*((refresh_archive_lists(),) if apt else ()), *own))


def _drop_undo(command: transaction.PackageCommand) -> transaction.PackageCommand:
    """Return a command without its undo, since the archive does not have the version from before."""
    kept = command.copy()
    kept.pop("undo", None)
    kept.pop("undo_within", None)
    return kept


def list_installed_versions(facts: ArchiveFacts) -> list[str]:
    """List the versions that the host has, usually one."""
    return list(
        dict.fromkeys(
            version
            for version in (facts.toolkit.get_version(name) for name in packages.FAMILY)
            if version
        )
    )


def refresh_archive_lists() -> transaction.PackageCommand:
    options = {
        "Dir::Etc::sourcelist": repository.FAMILIES["debian"].list_path,
        "Dir::Etc::sourceparts": "-",
        "APT::Get::List-Cleanup": "0",
        "APT::Update::Error-Mode": "any",
    }
    argv = [
        "apt-get",
        "update",
        *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
    ]
    return {
        "argv": argv,
        "timeout": installers.TIMEOUT,
        "why": "apt reads the lists of the archive",
    }


def plan_needed_archive(policy: Policy, facts: ArchiveFacts, record: HostDecision) -> Plan:
    """Plan the archive's part as a transaction of its own: its files, the repository that they
    form, and its key.
    """
    pin = pin_archive_in_policy(policy, facts, record)
    missing = (
        packages.list_missing_packages(policy, facts.toolkit, record) if _installs(policy) else []
    )
    if not missing:
        return Plan()
    part, where = (
        find_archive_part(policy, facts),
        repository.get_repository_family(facts.repository.release),
    )
    ask_together(part, where, facts)
    names = {
        *record.packages,
        *(name for name in packages.FAMILY if facts.toolkit.get_version(name)),
    }
    # the way back takes those from before
    versions = {
        pin.toolkit_version,
        *list_installed_versions(facts),
    }
    wanted = [p.file for p in part.source.packages if p.version in versions and p.name in names]
    expected = policy.toolkit_key_fingerprint or repository.FINGERPRINT
    source = repository.plan_repository_files(
        facts.repository, url=part.url, key=part.key, expected=expected, state="present"
    )
    plan = merge_plans([plan_archive_files(part, facts, wanted, pin.toolkit_version), source])
    return dc.replace(
        plan,
        beforehand=(f"The packages come from {policy.bundle_file}, as {OPTION} says",),
        **build_archive_check(part, where),
    )


def ask_together(part: ArchivePart, where: repository.Family, facts: ArchiveFacts) -> None:
    """Raise NeedMore with all questions about the place at once, so that one look answers them."""
    asked = [
        *map(queries.ask_for_directory, part.folders),
        *repository.list_repository_questions((where,), part.url),
    ]
    facts.repository.asked.require(asked)


def plan_archive_files(
    part: ArchivePart, facts: ArchiveFacts, wanted: list[str], version: str
) -> Plan:
    """Plan to write the indexes and packages, and to remove files of another archive.

    The host does not write a file again that is there with these very bytes.
    """
    keep = [*part.source.indexes, *wanted]
    files = map_archive_files_on_host(part, facts)
    writes: list[transaction.Change] = [
        {
            "path": f"{part.place}/{name}",
            "op": "write",
            "content": "",
            "mode": "0644",
            "linked": True,  # zypper's cache has the indexes of a local repository as hard links
            "archived": {
                "file": part.file,
                "name": f"{part.source.place}/{name}",
                "sha256": part.digests[name],
            },
        }
        for name in keep
    ]
    removes: list[transaction.Change] = [
        {"path": f"{part.place}/{name}", "op": "remove"} for name in sorted(set(files) - set(keep))
    ]
    size = sum(part.sizes[name] for name in keep)
    after = f"{len(keep)} files, {size} bytes, toolkit {version}"
    before = f"{len(files)} files, {sum(files.values())} bytes" if files else None
    return Plan(
        differences=(Difference("file", part.place, "packages", before, after, WHY, "policy"),),
        changes=(*writes, *removes),
        diffs=(
            (
                part.place,
                _list_sizes(files),
                _list_sizes({name: part.sizes[name] for name in keep}),
            ),
        ),
    )


def map_archive_files_on_host(part: ArchivePart, facts: ArchiveFacts) -> dict[str, int]:
    """Return the files that the host has in the archive's place now, with their sizes."""
    files = {}
    for folder in part.folders:
        for entry in facts.folders.get(folder):
            if entry.get("type") == "file":
                files[posixpath.relpath(f"{folder}/{entry['name']}", part.place)] = int(
                    entry["size"]
                )
    return files


def _list_sizes(sizes: Mapping[str, int]) -> str:
    return "".join(f"{sizes[name]:>10} {name}\n" for name in sorted(sizes))


def build_archive_check(part: ArchivePart, where: repository.Family) -> dict[str, Any]:
    """Return the checks in which the package manager tries the staged metadata and its signature.

    They come before any of it is put in place.
    """
    check = repository_check.build_repository_check(where.manager, where.list_path, where.key_path)
    indexes: tuple[transaction.Staged, ...] = tuple(
        {"name": f"bundle/{n}", "source": f"{part.place}/{n}"} for n in part.source.indexes
    )
    return {
        **check,
        "stage_files": (*check["stage_files"], *indexes),
        "substitute": (*check["substitute"], (part.url, "file://{stage}/bundle")),
    }
