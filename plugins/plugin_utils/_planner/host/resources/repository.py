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

import base64
import dataclasses as dc
import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
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
BEGIN, END = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
HEADER = re.compile(r"[A-Za-z][A-Za-z-]*: [ -~]*")
BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
FINGERPRINTS = re.compile(r"[0-9A-F]{40}")
CHECKSUM = re.compile(r"=[A-Za-z0-9+/]{4}")
# Signature, primary key, trust, user id, subkey, user attribute (RFC 4880, 4.3).
PRIMARY, PACKETS = 6, (2, 6, 12, 13, 14, 17)


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
# What of a key may travel: the parts that show that it is public.
KEY: Keep = {"format": "text", "patterns": [rf"^{BEGIN}[ \t\r]*(?:\n(?!-)[^\n]*)*\n{END}[ \t\r]*$"]}
# No address with a user's name, a password or a token in it.
PLAIN_URL = r"(?:https?|file)://[\w./:$()~+-]*"
KEY_PLACES = ("/etc/apt/keyrings/", "/etc/pki/")  # a list goes before its key
PATHS = frozenset(path for f in FAMILIES.values() for path in (f.key_path, f.list_path))
LIKE = {
    **dict.fromkeys(("debian", "ubuntu"), "debian"),
    **dict.fromkeys(("fedora", "rhel", "centos"), "fedora"),
    **dict.fromkeys(("suse", "opensuse"), "suse"),
}


def get_repository_family(os_release: Mapping[str, str]) -> Family:
    for name in [os_release.get("ID", ""), *os_release.get("ID_LIKE", "").split()]:
        if name in LIKE:
            return FAMILIES[LIKE[name]]
    known = ", ".join(sorted(LIKE))
    named = os_release.get("ID") or "(it has no name)"
    raise PlanError(
        messages.UNKNOWN_DISTRIBUTION.fill(name=named, known=known), where="/etc/os-release"
    )


def compute_key_fingerprint(key: str) -> str:
    """Return the SHA-1 fingerprint (RFC 4880, 12.2) of the one primary key in the text, in upper
    case hex.

    The whole text becomes the package manager's keyring, so it may contain nothing else. A second
    key, in the same block or in another, would be trusted like the first, although its fingerprint
    was never compared. Raise PlanError for such a text, or for an unreadable one.
    """
    if not key.partition(BEGIN)[2].partition(END)[0].strip():
        raise PlanError(messages.NOT_ARMORED.fill(begin=BEGIN))
    try:
        body = _find_primary_packet(decode_armored_key(key))
    except ValueError as error:
        raise PlanError(messages.KEY_UNREADABLE.fill(problem=error.args[0])) from error
    except IndexError as error:
        early = messages.KEY_ENDS_EARLY.fill()
        raise PlanError(messages.KEY_UNREADABLE.fill(problem=early)) from error
    return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest().upper()  # noqa: S324 - the format's own digest


def list_key_packets(key: str) -> list[tuple[int, bytes]]:
    """Return (type, body) of each packet of a key whose fingerprint was taken."""
    data, at, found = decode_armored_key(key), 0, []
    while at < len(data):
        kind, body, at = _read_packet(data, at)
        found.append((kind, body))
    return found


def _require_lines(key: str, lines: list[str]) -> None:
    """Raise ValueError for a key that was cut off, and PlanError for one whose lines YAML has
    changed: neither contains more than a key.
    """
    if END not in key:
        raise ValueError(messages.KEY_WITHOUT_END.fill(end=END))
    if len(lines) == 1 or lines[-1] != END == lines[-1].strip():
        raise PlanError(messages.KEY_LINES_CHANGED.fill())


def decode_armored_key(key: str) -> bytes:
    """Return the bytes of the one armored block. Strict, so that a package manager's parser cannot
    find more in it than this one.
    """
    lines = [line.rstrip() for line in key.replace("\r\n", "\n").strip().split("\n")]
    _require_lines(key, lines)
    if lines[0] != BEGIN or lines[-1] != END:
        raise PlanError(messages.TEXT_BESIDE_KEY.fill())
    inside = lines[1:-1]
    if any(line.startswith("-----") for line in inside):
        raise PlanError(messages.SECOND_BLOCK.fill())
    blank = inside.index("") if "" in inside else -1
    headers, body = inside[: max(blank, 0)], inside[blank + 1 :]
    if body and CHECKSUM.fullmatch(body[-1]):
        body = body[:-1]
    if any(not HEADER.fullmatch(line) for line in headers) or any(
        not BASE64.fullmatch(line) for line in body
    ):
        raise ValueError(messages.ODD_KEY_LINE.fill())
    return base64.b64decode("".join(body), validate=True)


def _find_primary_packet(data: bytes) -> bytes:
    """Return the body of the one primary key. Each packet has to be of a type that a public key
    consists of.
    """
    found: list[bytes] = []
    at = 0
    while at < len(data) or not found:
        kind, body, at = _read_packet(data, at)
        if kind not in PACKETS:
            raise PlanError(messages.STRANGE_PACKET.fill(kind=kind))
        if kind == PRIMARY:
            found.append(body)
        elif not found:
            raise ValueError(messages.FIRST_PACKET.fill())
    if len(found) > 1:
        raise PlanError(messages.PRIMARY_KEYS.fill(number=len(found)))
    if not found[0] or found[0][0] != 4:
        raise ValueError(messages.FIRST_PACKET.fill())
    return found[0]


def _read_packet(data: bytes, at: int) -> tuple[int, bytes, int]:
    """Return (type, body, place of the next packet) for the packet at this place (RFC 4880, 4.2)."""
    tag = data[at]
    if not tag & 0x80:
        raise ValueError(messages.NOT_A_PACKET.fill())
    if tag & 0x40:
        kind, (length, start) = tag & 0x3F, _read_new_length(data, at)
    else:
        kind, size = (tag >> 2) & 0x0F, 1 << (tag & 3)
        if size == 8:
            raise ValueError(messages.PACKET_WITHOUT_LENGTH.fill())
        length, start = int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size
    body = data[start : start + length]
    if len(body) < length:
        raise ValueError(messages.PACKET_TRUNCATED.fill())
    return kind, body, start + length


def _read_new_length(data: bytes, at: int) -> tuple[int, int]:
    """Return (length, place of the body) for a packet in the new format."""
    first = data[at + 1]
    if first < 192:
        return first, at + 2
    if first < 224:
        return ((first - 192) << 8) + data[at + 2] + 192, at + 3
    if first < 255:
        raise ValueError(messages.PACKET_IN_PARTS.fill())
    return int.from_bytes(data[at + 2 : at + 6], "big"), at + 6


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
    obs: Observation,
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
    source = functools.partial(is_repository_configured, obs)
    reasons = (source, offered) if slow else (offered, source)
    if not may_use_repository(policy) or (
        default and (not missing or reasons[0]() or reasons[1]())
    ):
        return Plan()
    where = get_repository_family(obs.host.get("os_release") or {})
    found = plan_repository_files(
        obs,
        url=policy.toolkit_repository,
        key=policy.toolkit_key,
        expected=policy.toolkit_key_fingerprint,
        state="present",
        adopt=policy.adopt == "auto",
    )
    if not found.changes:
        return found
    url = check_repository_address(policy.toolkit_repository, where)
    require_reachable(obs, url)
    more = messages.PACKAGES_FROM_DEFAULT if default else messages.PACKAGES_FROM_OPTION
    return dc.replace(
        found,
        beforehand=(more.fill(url=url),),
        **repository_check.build_repository_check(where.manager, where.list_path, where.key_path),
    )


def list_trust_commands(
    policy: Policy, obs: Observation, source: Plan
) -> tuple[transaction.PackageCommand, ...]:
    """Return the command by which rpm trusts our key before zypper installs: zypper trusts only the
    keys in rpm's database.
    """
    where = FAMILIES["suse"]
    if not (_uses_zypper(obs) and (may_use_repository(policy) or policy.bundle_file)):
        return ()
    if not source.changes and not obs.get_answer(
        queries.ask_for_file(where.key_path, content=False)
    ).get("exists"):
        return ()
    package = name_rpm_key(
        compute_key_fingerprint(policy.toolkit_key) if policy.toolkit_key else FINGERPRINT
    )
    if _has_rpm_key(obs, package):
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


def plan_key_distrust(obs: Observation) -> Plan:
    """Plan that rpm's trust in our key ends with the repository, unless another source of NVIDIA's
    packages may need it.
    """
    where = FAMILIES["suse"]
    key = obs.get_file(where.key_path) if _uses_zypper(obs) else None
    if (
        key is None
        or not key.exists
        or any(f["path"] != where.list_path for f in obs.get_answer(SOURCES).get("files") or ())
    ):
        return Plan()
    try:
        package = name_rpm_key(compute_key_fingerprint(key.content or ""))
    except PlanError:  # it is not a key any more; the file goes all the same
        return Plan()
    if not _was_imported_since(obs, package, key):
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
    if answer.get(
        "timed_out"
    ):  # a rollback erases what was imported: that of a person's must not pass for ours
        raise build_query_failure(question["id"], {"message": "timed out", "kind": "timeout"})
    return bool(answer.get("rc") == 0)


def _was_imported_since(obs: Observation, package: str, key: ObservedFile) -> bool:
    """Tell whether rpm imported the key while our file existed. A person's own import is older, and
    other repositories may need it.
    """
    argv = ["rpm", "--query", "--queryformat", "%{INSTALLTIME}\n", package]
    answer = obs.get_answer(queries.ask_for_command(argv, timeout=30, shows=(r"^\d+$",)))
    times = [
        time
        for line in str(answer.get("stdout") or "").split()
        if (time := read_whole(line)) is not None
    ]
    return answer.get("rc") == 0 and bool(times) and min(times) >= int(key.mtime)


def _uses_zypper(obs: Observation) -> bool:
    release = obs.host.get("os_release") or {}
    found = next(
        (
            LIKE[name]
            for name in [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
            if name in LIKE
        ),
        "",
    )
    return found == "suse"


def is_repository_configured(obs: Observation) -> bool:
    """Tell whether a source of NVIDIA's packages exists already: package lists may be older than it
    is.
    """
    return any(f.get("type") == "file" for f in obs.get_answer(SOURCES).get("files") or ())


def check_repository_address(url: str, where: Family) -> str:
    return where.nvidia if url == NVIDIA else url


def require_reachable(obs: Observation, url: str) -> None:
    """Raise NoSource if the host cannot reach the repository, before any change. A package
    manager's own proxy is not judged.
    """
    machine = str(obs.host.get("machine") or "")
    plain = url.replace("$(ARCH)", DEBIAN_NAMES.get(machine, machine)).replace("$basearch", machine)
    answer = obs.get_answer_or_error(
        queries.ask_for_probe("reach", {"url": plain, "proxies": PROXY_FILES})
    )
    found = answer.get("value") or {}
    if "error" in answer or not found.get("tried") or found.get("reached"):
        return
    raise NoSource(messages.OUT_OF_REACH.fill(problem=found.get("why")), where=url)


def get_nvidia_key(obs: Observation) -> str:
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
    obs: Observation, *, url: str, key: str, expected: str, state: str, adopt: bool = True
) -> Plan:
    """Plan the two whole files, after a check of the key's fingerprint (PlanError). adopt: take
    over sources of the same repository.
    """
    if url != NVIDIA and not url.startswith(("http://", "https://", "file://")):
        raise PlanError(messages.NOT_AN_ADDRESS.fill(url=repr(url)))
    where = get_repository_family(obs.host.get("os_release") or {})
    if state == "absent":
        others = apt_sources.plan_apt_source_restore(obs) if where.manager == "apt" else Plan()
        return merge_plans([_plan_restore(obs, (where.list_path, where.key_path)), others])
    if url == NVIDIA:
        key, expected, url = key or get_nvidia_key(obs), expected or FINGERPRINT, where.nvidia
    found = compute_key_fingerprint(key)
    require_expected(found, expected)
    unknown = [
        question
        for question in list_repository_questions((where,), url)
        if not obs.was_asked(question)
    ]
    if unknown:  # NVIDIA's own is not asked about in every look
        raise NeedMore(unknown)
    if where.manager == "apt":
        others = apt_sources.plan_other_apt_sources(obs, url, where.list_path, adopt)
    else:
        others = rpm_sources.advise_on_unchecked_sources(obs, url, where.manager, where.list_path)
    made = merge_plans(
        [
            others,
            _plan_file(obs.get_file(where.key_path, KEY), key.strip() + "\n", "key", found),
            _plan_file(
                obs.get_file(where.list_path, keep_repository_lines(where, url)),
                where.text.format(url=url, key=where.key_path),
                "repository",
                url,
            ),
        ]
    )
    if made.changes and where.manager == "apt":
        apt_sources.require_lines(obs, url)
    return made


def normalise_fingerprint(fingerprint: str) -> str:
    """Return a fingerprint in the form that is compared, without spaces and in upper case."""
    return fingerprint.replace(" ", "").upper()


def require_expected(found: str, expected: str, where: str = "") -> None:
    """Raise PlanError if the key's fingerprint differs from the expected one, if one was given.
    where: the archive that the key came in.
    """
    awaited = normalise_fingerprint(expected)
    if awaited and not FINGERPRINTS.fullmatch(awaited):
        raise PlanError(messages.NOT_A_FINGERPRINT.fill(given=repr(expected)))
    if awaited and found != awaited:
        raise PlanError(messages.ANOTHER_KEY.fill(found=found, expected=awaited), where=where)


def _plan_file(now: ObservedFile, text: str, what: str, after: str) -> Plan:
    if now.exists and now.content == text:
        return Plan()
    plan = owned_file.plan_owned_file(
        now, text, key=what, after=after, why=messages.FROM_REPOSITORY.fill()
    )
    return dc.replace(plan, expect_files={now.path: now.sha256 if now.exists else None})


def plan_absent(policy: Policy, obs: Observation) -> Plan:
    """Plan to give back the files of every family, if they exist or the journal has what stood
    there before.
    """
    return merge_plans(
        [
            plan_key_distrust(obs),
            _plan_restore(obs, sorted(PATHS, key=lambda path: path.startswith(KEY_PLACES))),
        ]
    )


def _plan_restore(obs: Observation, paths: Iterable[str]) -> Plan:
    """Plan to restore what stood there before. The names are this collection's own, so the files go
    even if they were changed since.
    """
    files = [owned_file.require_readable(obs.get_file(path)) for path in paths]
    plans = [
        owned_file.plan_owned_file_restore(
            earlier_runs.read_earlier_runs(obs), f, why=messages.WITHDRAWN.fill(), own=f.exists
        )
        for f in files
    ]
    changed = {c["path"] for p in plans for c in p.changes}
    return dc.replace(
        merge_plans(plans),
        expect_files={f.path: f.sha256 if f.exists else None for f in files if f.path in changed},
    )
