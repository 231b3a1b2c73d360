# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The package repository of the NVIDIA Container Toolkit and its key, for apt, dnf and zypper. A
mirror is just another address.

By default it is NVIDIA's own, and only on a host that needs packages which none of its repositories
has. Its address and the fingerprint of its key are data here. The controller fetches the key
itself, or the user gives it, and the fingerprint decides whether it is accepted.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    AskedQuestions,
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
    build_query_failure,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.whole import read_whole
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    apt_sources,
    messages,
    repository_check,
    repository_key,
    rpm_sources,
)

NVIDIA = "nvidia"
KEY_URL = "https://nvidia.github.io/libnvidia-container/gpgkey"
FINGERPRINT = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
DEBIAN_NAMES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el"}
SOURCES = queries.ask_for_paths(
    "package sources",
    ["/etc/apt/sources.list.d/*nvidia*", "/etc/yum.repos.d/*nvidia*", "/etc/zypp/repos.d/*nvidia*"],
)
PROXY_FILES = [
    "/etc/apt/apt.conf",
    "/etc/apt/apt.conf.d/*",
    "/etc/dnf/dnf.conf",
    "/etc/yum.conf",
    "/etc/sysconfig/proxy",
]


class NoSource(PlanError):
    """A source of packages that is out of reach now. Everything else that differs on the host can
    be planned without it.
    """


@dc.dataclass(frozen=True)
class Family:
    """The places and form of one package manager's files. {url} and {key} are filled in."""

    manager: str
    key_path: str
    list_path: str
    text: str
    nvidia: str  # NVIDIA's own address, in this package manager's words for the architecture


FAMILIES: Mapping[str, Family] = {
    "debian": Family(
        "apt",
        "/etc/apt/keyrings/gpufleet-nvidia.asc",
        "/etc/apt/sources.list.d/gpufleet-nvidia.sources",
        "# gpufleet.nvidia\nTypes: deb\nURIs: {url}\nSuites: /\nSigned-By: {key}\n",
        "https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)",
    ),
    "fedora": Family(
        "dnf",
        "/etc/pki/rpm-gpg/RPM-GPG-KEY-gpufleet-nvidia",
        "/etc/yum.repos.d/gpufleet-nvidia.repo",
        "# gpufleet.nvidia\n[gpufleet-nvidia]\nname=NVIDIA Container Toolkit\nbaseurl={url}\nenabled=1\n"
        "gpgcheck=0\nrepo_gpgcheck=1\ngpgkey=file://{key}\n",
        "https://nvidia.github.io/libnvidia-container/stable/rpm/$basearch",
    ),
    "suse": Family(
        "zypper",
        "/etc/pki/rpm-gpg/RPM-GPG-KEY-gpufleet-nvidia",
        "/etc/zypp/repos.d/gpufleet-nvidia.repo",
        "# gpufleet.nvidia\n[gpufleet-nvidia]\nname=NVIDIA Container Toolkit\nbaseurl={url}\nenabled=1\n"
        "autorefresh=1\nrepo_gpgcheck=1\ngpgkey=file://{key}\n",
        "https://nvidia.github.io/libnvidia-container/stable/rpm/$basearch",
    ),
}
# The parts of a key that may travel: they show that it is public.
KEY: Keep = {
    "format": "text",
    "patterns": [
        rf"^{repository_key.BEGIN}[ \t\r]*(?:\n(?!-)[^\n]*)*\n{repository_key.END}[ \t\r]*$"
    ],
}
# No address with a user's name, a password or a token in it.
PLAIN_URL = r"(?:https?|file)://[\w./:$()~+-]*"
KEY_PLACES = ("/etc/apt/keyrings/", "/etc/pki/")  # a list goes before its key
PATHS = frozenset(path for f in FAMILIES.values() for path in (f.key_path, f.list_path))
LIKE = {
    **dict.fromkeys(("debian", "ubuntu"), "debian"),
    **dict.fromkeys(("fedora", "rhel", "centos"), "fedora"),
    **dict.fromkeys(("suse", "opensuse"), "suse"),
}


@dc.dataclass(frozen=True)
class RepositoryFacts:
    """A host's facts about repositories, their keys and about its own earlier ones.

    asked: the questions that the look has answered. files: our files, by path. sources: the
    files by which package managers know NVIDIA's packages. apt_files, rpm_files: the sources of
    apt, and those of dnf and zypper by package manager. taken_over: the sources of apt that an
    earlier run took over. reach: the answer whether the host reaches an address, by the address.
    nvidia_key: NVIDIA's key as the controller fetched it; reading raises NoSource if it could not
    be fetched. rpm_keys: whether rpm has a key, by the name of its package. rpm_times: the times at
    which it was imported, in seconds since 1970.
    """

    release: Mapping[str, str]
    machine: str
    asked: AskedQuestions
    files: Lookup[str, ObservedFile]
    sources: Fact[tuple[Mapping[str, Any], ...]]
    apt_files: Fact[tuple[ObservedFile, ...]]
    rpm_files: Lookup[str, tuple[ObservedFile, ...]]
    taken_over: Fact[tuple[ObservedFile, ...]]
    reach: Lookup[str, Mapping[str, Any]]
    nvidia_key: Fact[str]
    rpm_keys: Lookup[str, bool]
    rpm_times: Lookup[str, tuple[int, ...]]
    is_there: Lookup[str, bool]
    earlier: earlier_runs.EarlierRuns

    @property
    def uses_zypper(self) -> bool:
        names = [self.release.get("ID", ""), *self.release.get("ID_LIKE", "").split()]
        return next((LIKE[name] for name in names if name in LIKE), "") == "suse"


def read_repository_facts(obs: Observation) -> RepositoryFacts:
    return obs.compute_once("repositories", lambda: _read_repository_facts(obs))


def _read_repository_facts(obs: Observation) -> RepositoryFacts:
    earlier = earlier_runs.read_earlier_runs(obs)
    return RepositoryFacts(
        obs.host.get("os_release") or {},
        str(obs.host.get("machine") or ""),
        obs.get_asked(),
        Lookup(obs.get_file),
        Fact(lambda: tuple(obs.get_answer(SOURCES).get("files") or ())),
        Fact(lambda: apt_sources.read_apt_files(obs)),
        Lookup(lambda manager: obs.list_glob_files(rpm_sources.PATTERNS[manager])),
        Fact(lambda: apt_sources.read_taken_over_files(obs, earlier)),
        Lookup(lambda url: _read_reach(obs, url)),
        Fact(lambda: _read_nvidia_key(obs)),
        Lookup(lambda package: _has_rpm_key(obs, package)),
        Lookup(lambda package: _read_rpm_times(obs, package)),
        Lookup(
            lambda path: bool(
                obs.get_answer(queries.ask_for_file(path, content=False)).get("exists")
            )
        ),
        earlier,
    )


def get_repository_family(os_release: Mapping[str, str]) -> Family:
    for name in [os_release.get("ID", ""), *os_release.get("ID_LIKE", "").split()]:
        if name in LIKE:
            return FAMILIES[LIKE[name]]
    known = ", ".join(sorted(LIKE))
    named = os_release.get("ID") or "(it has no name)"
    raise PlanError(
        messages.UNKNOWN_DISTRIBUTION.fill(name=named, known=known), where="/etc/os-release"
    )


def list_host_repository_questions(policy: Policy) -> list[queries.Question]:
    """Return the questions about a repository that the user names, for every look. NVIDIA's is
    looked at only if it is needed.
    """
    named = may_use_repository(policy) and policy.toolkit_repository != NVIDIA
    return (
        list_repository_questions(url=policy.toolkit_repository if named else "")
        if policy.state == "absent" or named
        else []
    )


def list_repository_questions(
    families: tuple[Family, ...] = tuple(FAMILIES.values()), url: str = ""
) -> list[queries.Question]:
    """Return the questions about the files of a repository. url: the address to be written; the
    asker knows it, so it may travel.
    """
    files = [
        queries.ask_for_file(path, keep)
        for f in families
        for path, keep in ((f.key_path, KEY), (f.list_path, keep_repository_lines(f, url)))
    ]
    others = (
        apt_sources.list_apt_source_questions(url) if url and FAMILIES["debian"] in families else []
    )
    return [
        earlier_runs.ORIGINALS,
        *files,
        *others,
        *(
            rpm_sources.list_rpm_source_questions(url, tuple(f.manager for f in families))
            if url
            else ()
        ),
    ]


def keep_repository_lines(where: Family, url: str) -> Keep:
    """Return which lines of a list may travel: ours, and another address only without a user's
    name, a password or a token.
    """
    lines = [
        re.escape(line)
        for line in where.text.replace("{key}", where.key_path).splitlines()
        if "{url}" not in line
    ]
    address = re.escape(next(line for line in where.text.splitlines() if "{url}" in line)).replace(
        re.escape("{url}"), "{url}"
    )
    urls = [
        address.replace("{url}", PLAIN_URL),
        *([address.replace("{url}", re.escape(url))] if url else []),
    ]
    return {"format": "text", "patterns": [rf"^(?:{line})$" for line in [*lines, *urls]]}


def may_use_repository(policy: Policy) -> bool:
    """Tell whether a repository may be of any use here."""
    return bool(policy.toolkit_repository) and policy.root == "/" and policy.packages == "present"


def plan_needed_repository(
    policy: Policy,
    facts: RepositoryFacts,
    *,
    missing: bool,
    offered: Callable[[], bool],
    slow: bool = False,
) -> Plan:
    """Plan the repository as a transaction of its own.

    A repository that the user names is added in any case; NVIDIA's only if it is needed. missing:
    packages have to be installed. offered: tells whether a configured repository has them. slow:
    `offered` starts a package manager, so it is asked last. One that never read a repository cannot
    tell what is in it.
    """
    default = policy.toolkit_repository == NVIDIA
    source = functools.partial(is_repository_configured, facts)
    reasons = (source, offered) if slow else (offered, source)
    if not may_use_repository(policy) or (
        default and (not missing or reasons[0]() or reasons[1]())
    ):
        return Plan()
    where = get_repository_family(facts.release)
    plan = plan_repository_files(
        facts,
        url=policy.toolkit_repository,
        key=policy.toolkit_key,
        expected=policy.toolkit_key_fingerprint,
        state="present",
        adopt=policy.adopt == "auto",
    )
    if not plan.changes:
        return plan
    url = check_repository_address(policy.toolkit_repository, where)
    require_reachable(facts.reach.get(url), url)
    more = messages.PACKAGES_FROM_DEFAULT if default else messages.PACKAGES_FROM_OPTION
    said = (more.fill(url=url), *advise_on_address(policy.toolkit_repository, where))
    return dc.replace(
        plan,
        beforehand=said,
        **repository_check.build_repository_check(where.manager, where.list_path, where.key_path),
    )


def advise_on_address(url: str, where: Family) -> tuple[Message, ...]:
    """Return a sentence about an address with the name of the other kind of packages in it, as
    NVIDIA's addresses have; () otherwise.
    """
    kinds = {"deb", "rpm"} & set(url.split("/"))
    own = "deb" if where.manager == "apt" else "rpm"
    if len(kinds) != 1 or own in kinds:
        return ()
    return (messages.LOOKS_OTHER.fill(url=url, kind=kinds.pop(), manager=where.manager),)


def list_trust_commands(
    policy: Policy, facts: RepositoryFacts, source: Plan
) -> tuple[transaction.PackageCommand, ...]:
    """Return the command by which rpm trusts our key before zypper installs: zypper trusts only the
    keys in rpm's database.
    """
    where = FAMILIES["suse"]
    if not (facts.uses_zypper and (may_use_repository(policy) or policy.bundle_file)):
        return ()
    if not source.changes and not facts.is_there.get(where.key_path):
        return ()
    package = name_rpm_key(
        repository_key.compute_key_fingerprint(policy.toolkit_key)
        if policy.toolkit_key
        else FINGERPRINT
    )
    if facts.rpm_keys.get(package):
        return ()
    why = messages.RPM_TRUSTS.fill()
    return (
        {
            "argv": ["rpmkeys", "--import", where.key_path],
            "timeout": 60,
            "why": why,
            "undo": ["rpm", "--erase", package],
        },
    )


def plan_key_distrust(facts: RepositoryFacts) -> Plan:
    """Plan that rpm's trust in our key ends with the repository, unless another source of NVIDIA's
    packages may need it.
    """
    where = FAMILIES["suse"]
    key = facts.files.get(where.key_path) if facts.uses_zypper else None
    if (
        key is None
        or not key.exists
        or any(f["path"] != where.list_path for f in facts.sources.value)
    ):
        return Plan()
    try:
        package = name_rpm_key(repository_key.compute_key_fingerprint(key.content or ""))
    except PlanError:  # it is not a key any more; the file goes all the same
        return Plan()
    if not _was_imported_since(facts.rpm_times.get(package), key):
        return Plan()
    command: transaction.PackageCommand = {
        "argv": ["rpm", "--erase", package],
        "timeout": 60,
        "why": messages.RPM_DISTRUSTS.fill(),
    }
    return Plan(commands=({**command, "undo": ["rpmkeys", "--import", where.key_path]},))


def name_rpm_key(found: str) -> str:
    """Return the package by which rpm's database has a key: gpg-pubkey and the last eight digits of
    its fingerprint.
    """
    return f"gpg-pubkey-{found[-8:].lower()}"


def _has_rpm_key(obs: Observation, package: str) -> bool:
    question = queries.ask_for_command(
        ["rpm", "--query", package], timeout=30, shows=(r"^gpg-pubkey-[0-9a-f-]+",)
    )
    answer = obs.get_answer(question)
    # a rollback erases what was imported: that of a person's must not pass for ours
    if answer.get("timed_out"):
        raise build_query_failure(question["id"], {"message": "timed out", "kind": "timeout"})
    return bool(answer.get("rc") == 0)


def _read_rpm_times(obs: Observation, package: str) -> tuple[int, ...]:
    """Return when rpm imported the keys of this name; () if it has none."""
    argv = ["rpm", "--query", "--queryformat", "%{INSTALLTIME}\n", package]
    answer = obs.get_answer(queries.ask_for_command(argv, timeout=30, shows=(r"^\d+$",)))
    lines = str(answer.get("stdout") or "").split() if answer.get("rc") == 0 else []
    return tuple(time for line in lines if (time := read_whole(line)) is not None)


def _was_imported_since(times: tuple[int, ...], key: ObservedFile) -> bool:
    """Tell whether rpm imported the key while our file existed. A person's own import is older, and
    other repositories may need it.
    """
    return bool(times) and min(times) >= int(key.mtime)


def is_repository_configured(facts: RepositoryFacts) -> bool:
    """Tell whether a source of NVIDIA's packages exists already: package lists may be older than it
    is.
    """
    return any(f.get("type") == "file" for f in facts.sources.value)


def check_repository_address(url: str, where: Family) -> str:
    return where.nvidia if url == NVIDIA else url


def _read_reach(obs: Observation, url: str) -> Mapping[str, Any]:
    machine = str(obs.host.get("machine") or "")
    plain = url.replace("$(ARCH)", DEBIAN_NAMES.get(machine, machine)).replace("$basearch", machine)
    return obs.get_answer_or_error(
        queries.ask_for_probe("reach", {"url": plain, "proxies": PROXY_FILES})
    )


def require_reachable(reach: Mapping[str, Any], url: str) -> None:
    """Raise NoSource if the host cannot reach the repository, before any change. A package
    manager's own proxy is not judged.
    """
    answer = reach.get("value") or {}
    if "error" in reach or not answer.get("tried") or answer.get("reached"):
        return
    raise NoSource(messages.OUT_OF_REACH.fill(problem=answer.get("why")), where=url)


def _read_nvidia_key(obs: Observation) -> str:
    """Return NVIDIA's key as the controller fetched it; its fingerprint is compared later. Raise
    NoSource if it could not be fetched.
    """
    answer = obs.get_answer_or_error(queries.ask_for_fetched_text(KEY_URL))
    if "error" in answer:
        raise NoSource(
            messages.KEY_NOT_FETCHED.fill(problem=answer["error"].get("message")), where=KEY_URL
        )
    return str(answer.get("content") or "")


def plan_repository_files(
    facts: RepositoryFacts, *, url: str, key: str, expected: str, state: str, adopt: bool = True
) -> Plan:
    """Plan the two whole files, after a check of the key's fingerprint (PlanError). adopt: take
    over sources of the same repository.
    """
    if url != NVIDIA and not url.startswith(("http://", "https://", "file://")):
        raise PlanError(messages.NOT_AN_ADDRESS.fill(url=repr(url)))
    where = get_repository_family(facts.release)
    if state == "absent":
        others = (
            apt_sources.plan_apt_source_restore(facts.earlier, facts.taken_over.value)
            if where.manager == "apt"
            else Plan()
        )
        return merge_plans([_plan_restore(facts, (where.list_path, where.key_path)), others])
    if url == NVIDIA:
        key, expected, url = key or facts.nvidia_key.value, expected or FINGERPRINT, where.nvidia
    fingerprint = repository_key.compute_key_fingerprint(key)
    repository_key.require_expected(fingerprint, expected)
    # NVIDIA's own is not asked about in every look
    facts.asked.require(list_repository_questions((where,), url))
    if where.manager == "apt":
        others = apt_sources.plan_other_apt_sources(
            facts.apt_files.value, url, where.list_path, adopt
        )
    else:
        others = rpm_sources.advise_on_unchecked_sources(
            facts.rpm_files.get(where.manager), url, where.manager, where.list_path
        )
    made = merge_plans(
        [
            others,
            _plan_file(facts.files.get(where.key_path), key.strip() + "\n", "key", fingerprint),
            _plan_file(
                facts.files.get(where.list_path),
                where.text.format(url=url, key=where.key_path),
                "repository",
                url,
            ),
        ]
    )
    if made.changes and where.manager == "apt":
        apt_sources.require_lines(facts.apt_files.value)
    return made


def _plan_file(now: ObservedFile, text: str, what: str, after: str) -> Plan:
    if now.exists and now.content == text:
        return Plan()
    plan = owned_file.plan_owned_file(
        now, text, key=what, after=after, why=messages.FROM_REPOSITORY.fill()
    )
    return dc.replace(plan, expect_files={now.path: now.sha256 if now.exists else None})


def plan_absent(policy: Policy, facts: RepositoryFacts) -> Plan:  # noqa: ARG001
    """Plan to give back the files of every family, if they exist or the journal has what stood
    there before.
    """
    return merge_plans(
        [
            plan_key_distrust(facts),
            _plan_restore(facts, sorted(PATHS, key=lambda path: path.startswith(KEY_PLACES))),
        ]
    )


def _plan_restore(facts: RepositoryFacts, paths: Iterable[str]) -> Plan:
    """Plan to restore what stood there before. The files that this collection wrote go even if they
    were changed since.
    """
    files = [owned_file.require_readable(facts.files.get(path)) for path in paths]
    plans = [
        owned_file.plan_owned_file_restore(
            facts.earlier,
            f,
            why=messages.WITHDRAWN.fill(),
            own=owned_file.is_known_as_ours(facts.earlier, f),
        )
        for f in files
    ]
    changed = {c["path"] for p in plans for c in p.changes}
    return dc.replace(
        merge_plans(plans),
        expect_files={f.path: f.sha256 if f.exists else None for f in files if f.path in changed},
    )
