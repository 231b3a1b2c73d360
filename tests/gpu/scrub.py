# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take out of what is sent whatever tells one machine from another.

Two ways, because neither is enough. What looks like an identifier gets a stand-in; and what this
machine itself says of its identity (serial numbers, names, addresses) is looked for by its text.
The second way also judges the result. Standard library only, Python 3.6.
"""

import ctypes
import functools
import glob
import os
import re
import socket
import zipfile
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.probes import nvml

BLANKED = "blanked"
NAMES = "host name"  # the kind of secrets that are names of this machine
ACCOUNTS = "account"  # and that are names of its users and groups
# The first number of a person's account or group, and the one that means nobody (login.defs(5)).
PEOPLE, NOBODY = 1000, 65534
# Who is at work here, and may be in a directory of users alone.
AT_WORK = ("SUDO_USER", "LOGNAME", "USER")
IN_HOME = re.compile(r"(?<=/home/)[^/\s:;,\"'<>]+")
# A shorter text, or one of these, tells nothing, and would be found in other words.
SHORTEST = 4
EMPTY = re.compile(
    r"(?i)(0+|none|n/?a|unknown|default( string)?|not (specified|available|present|applicable)"
    r"|system (serial number|product name)|to be filled by o\.e\.m\.|localhost.*|0x0+|host|blanked)"
)
DMI = "/sys/class/dmi/id/"
# What tells one host from another, and what stands in its place; the same text has the same
# stand-in everywhere.
HEX = "[0-9a-fA-F]"
GROUP = f"{HEX}{{1,4}}"
# 535.104.05.1 is a version: no octet has more than 255, or a zero in front.
OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
# In full, or shortened once; a bus address of PCI is neither.
IPV6 = (
    f"(?:(?:{GROUP}:){{7}}{GROUP}|(?:{GROUP}(?::{GROUP}){{0,6}})?::(?:{GROUP}(?::{GROUP}){{0,6}})?)"
)
IDENTIFIERS = re.compile(
    "|".join(
        (
            f"(?P<uuid>(?<!{HEX}){HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}(?!{HEX}))",
            f"(?P<mac>(?<![{HEX[1:-1]}:]){HEX}{{2}}(?::{HEX}{{2}}){{5}}(?![{HEX[1:-1]}:]))",
            r"(?P<ipv4>(?<!\d)(?<!\d\.)(?:%s\.){3}%s(?!\.?\d))" % (OCTET, OCTET),
            f"(?P<ipv6>(?<![\\w:.]){IPV6}(?![\\w:.]))",
            f"(?P<hex>(?<!{HEX}){HEX}{{32}}(?!{HEX}))",
        )
    )
)
STAND_INS = {
    "uuid": "00000000-0000-0000-0000-{:012x}",
    "mac": "02:00:00:00:00:{:02x}",
    "ipv4": "192.0.2.{}",  # RFC 5737: for documentation
    "ipv6": "2001:db8::{:x}",  # RFC 3849: for documentation
    "hex": "{:032x}",
}
LOOPBACK = {  # which tells nothing
    "ipv4": re.compile(r"0\.0\.0\.0|127\.\d+\.\d+\.\d+"),
    "ipv6": re.compile(r"::1?(?![\w:])"),
}
# Versions of packages may have four parts. What comes behind one is a revision of the package, as
# dpkg and rpm write it: -1, -0ubuntu1~22.04, ~rc1, +dfsg-2.
REVISION = re.compile(
    r"(?:[-~+](?:\d+(?=[^\d]|$)|\d*(?:rc|alpha|beta|pre|dfsg|ds|git|svn|ubuntu|deb|el|fc|bpo|nmu|build|cuda))"
    r"[\w.~+-]*)(?![\w-])"
)
# What stands before the version of a package: a key, or the name of a package that a look asks for.
# Any other word may be a host's, a container's or a mirror's.
NAMED = re.compile(
    r"(?:^|[^\w.+-])(?:"
    r"(?i:(?:[a-z]+_)?versions?|installed|candidates?)"
    r"|nvidia-(?:container-(?:toolkit(?:-base)?|runtime)|docker2?|(?:driver|fabricmanager|imex|open)(?:-\d{3})?)"
    r"|libnvidia-(?:container(?:1|-tools)|nscq(?:-\d{3})?)"
    r"|cuda(?:-(?:toolkit|drivers|compat|runtime|libraries))?(?:-\d\d-\d)?"
    r"|lib(?:cu|npp|nv|nccl)[a-z]{0,12}\d?(?:-\d\d-\d)?(?:-dev)?"
    r"|containerd(?:\.io)?|docker(?:-ce|\.io)?(?:-cli)?|cri-(?:o|tools)|podman|runc|crun"
    r")[\"' \t=_:-]{1,6}v?$"
)
WINDOW = 80  # characters before and behind an address that are looked at; a name is shorter
# A port, or the number of something at an address.
NUMBER = re.compile(r"-\d{2,5}(?![\w.~+-])")
# Networks that hosts are in (RFC 1918, 3927, 6598), whatever stands beside, and a range of addresses.
NETWORKS = re.compile(
    r"10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|169\.254\.|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\."
)
RANGE = re.compile(r"-(?:(?:%s\.){3})?(%s)(?![\w.])" % (OCTET, OCTET))
# Keys whose value is the name of a host, also if that is an ordinary word.
OF_NAMES = ("hostname", "node", "nodename", "fqdn")


def is_version(before, text, behind):
    """Tell whether what looks like an address is the version of a package, by what is around it.

    In doubt it is an address: a version that is lost costs less than an address that is told.
    """
    if NETWORKS.match(text) or not REVISION.match(behind) or NUMBER.match(behind):
        return False
    if not NAMED.search(before):
        return False
    span = RANGE.match(behind)
    return not (span and int(span.group(1)) > int(text.rpartition(".")[2]))


@functools.lru_cache(maxsize=None)
def list_own_words():
    """Return the words of this program, in lower case: of letters alone everywhere, with digits
    (k3s, h100) where it names managers and chips.

    A host may have one of them as its name. Then the name tells nothing, and without the word the
    capture would be useless.
    """
    found = set()
    for name, text in iterate_sources():
        found.update(re.findall(r"(?<![a-z0-9])[a-z]+(?![a-z0-9])", text.lower()))
        if "/managers/" in name or name.endswith("/chips.py"):
            found.update(re.findall(r"[a-z]+\d+[a-z]*|\d+[a-z]+", text.lower()))
    return frozenset(found)


def iterate_sources():
    """Yield name and text of each source of this program: in the zipapp, or in a checkout."""
    archive = getattr(globals().get("__loader__"), "archive", "")
    if archive:
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                if name.endswith(".py"):
                    yield name, opened.read(name).decode("utf-8")
        return
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for part in ("plugins/module_utils/_host", "plugins/plugin_utils/_planner", "tests/gpu"):
        for folder, _folders, names in os.walk(os.path.join(root, part)):
            for name in (name for name in names if name.endswith(".py")):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as handle:
                    yield path, handle.read()


def list_telling(names):
    """Return the names that tell one host from another, the longest first."""
    telling = {n for n in names if len(n) > 1 and n.lower() not in list_own_words()}
    return sorted(telling, key=len, reverse=True)


def find_name(name):
    """Return a pattern that finds a host's name, and not a longer one of another host."""
    return re.compile(r"(?<![A-Za-z0-9-])%s(?![A-Za-z0-9-])" % re.escape(name), re.I)


def find_words(words):
    """Return a pattern that finds each of these words, and none within a longer one."""
    every = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    return re.compile("(?<![A-Za-z0-9])(?:%s)(?![A-Za-z0-9])" % (every or "(?!)"), re.I)


def blanked(value, names, secrets=(), accounts=()):
    """Return the value with stand-ins for identifiers. names: names of the host, which become
    `host`. secrets: other texts that only this machine has, which become `blanked`. accounts: names
    of users and groups, which become `account`, as does who has a folder in /home.

    A name that is an ordinary word becomes `host` where a key says that it is one, and nowhere else.
    """
    known = {}

    hosts = [find_name(name) for name in list_telling(names)]
    others = [re.compile(re.escape(n), re.I) for n in sorted(secrets, key=len, reverse=True)]
    people = find_words(accounts)

    def stand_in(found, key):
        text, kind = found.group(), str(found.lastgroup)
        if kind in LOOPBACK and LOOPBACK[kind].match(found.string, found.start()):
            return text
        before = "%s %s" % (key, found.string[max(0, found.start() - WINDOW) : found.start()])
        behind = found.string[found.end() : found.end() + WINDOW]
        if kind == "ipv4" and is_version(before, text, behind):
            return text
        return known.setdefault(
            text,
            STAND_INS[kind].format(
                len(known) % 250 + 1 if kind in ("ipv4", "mac") else len(known) + 1
            ),
        )

    def of_text(text, key=""):
        text = IDENTIFIERS.sub(lambda found: stand_in(found, key), text)
        for name in hosts:
            text = name.sub("host", text)
        for secret in others:
            text = secret.sub(BLANKED, text)
        return people.sub(ACCOUNTS, IN_HOME.sub(ACCOUNTS, text))

    def of_any(found, key=""):
        if isinstance(found, str):
            return of_text(found, key)
        # a query's name has what was asked for; the other keys are those of the format
        if isinstance(found, Mapping):
            return {
                of_text(key) if ":" in key or "/" in key else key: "host"
                if key in OF_NAMES and inner in names
                else of_any(inner, key)
                for key, inner in found.items()
            }
        return (
            [of_any(inner, key) for inner in found] if isinstance(found, (list, tuple)) else found
        )

    return of_any(value)


# ---------------------------------------------------------------- what this machine is


def list_secrets(library=""):
    """Return what only this machine has, by kind: {kind: texts}. Unreadable things are not in it."""
    found = list_secrets_without_driver()
    for kind, texts in list_gpu_secrets(library).items():
        found[kind] = drop_empty(found.get(kind, []) + texts)
    return found


def list_secrets_without_driver():
    """Return the same without asking NVML, which may hang."""
    found = {
        NAMES: list_telling(list_names()),
        ACCOUNTS: list_accounts(),
        "address": list_addresses(),
        "MAC": read_texts("/sys/class/net/*/address"),
        "serial": read_texts(DMI + "*serial"),
        "UUID": read_texts(DMI + "product_uuid", "/proc/sys/kernel/random/boot_id"),
        "machine id": read_texts("/etc/machine-id"),
    }
    return {kind: texts if kind == ACCOUNTS else drop_empty(texts) for kind, texts in found.items()}


def drop_empty(texts):
    return sorted({t for t in texts if len(t) >= SHORTEST and not EMPTY.fullmatch(t)})


def read_texts(*patterns):
    found = []
    for path in (path for pattern in patterns for path in glob.glob(pattern)):
        try:
            with open(path, errors="replace") as handle:
                found.append(handle.read(4096).strip())
        except OSError:
            pass
    return found


def list_names():
    names = {os.uname()[1], socket.gethostname()}
    return sorted(names | {name.partition(".")[0] for name in names})


def list_accounts(files=("/etc/passwd", "/etc/group")):
    """Return the names of people's accounts and groups, and of who is at work."""
    found = {os.environ.get(name, "root") for name in AT_WORK} - {"root"}
    for path in files:
        try:
            with open(path, errors="replace") as handle:
                rows = [line.split(":") for line in handle]
        except OSError:
            continue
        numbered = [(row[0], int(row[2])) for row in rows if len(row) > 2 and row[2].isdigit()]
        found |= {name for name, number in numbered if number >= PEOPLE and number != NOBODY}
    return list_telling(found)


def list_addresses():
    """Return the machine's own addresses: those of the kernel's routing tables."""
    found = []
    for text in read_texts("/proc/net/fib_trie"):
        found += re.findall(r"\|-- (\d+\.\d+\.\d+\.\d+)\n\s+/32 host LOCAL", text)
    for text in read_texts("/proc/net/if_inet6"):
        for line in text.splitlines():
            packed = line.split()[0]
            if len(packed) == 32:
                found.append(socket.inet_ntop(socket.AF_INET6, bytes(bytearray.fromhex(packed))))
    return [text for text in found if not text.startswith("127.") and text != "::1"]


def list_gpu_secrets(library):
    """Return what NVML tells of the GPUs' identity. Nothing, if it cannot be asked."""
    found = {"serial": [], "UUID": [], "PDI": [], "board serial": []}
    try:
        asked = nvml.Library(library)
        asked.call("nvmlInit_v2")
        count = asked.number("nvmlDeviceGetCount_v2")
    except nvml.NvmlError:
        return found
    for index in range(count):
        try:
            handle = asked.handle("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index))
        except nvml.NvmlError:
            continue
        for kind, call in (("serial", "nvmlDeviceGetSerial"), ("UUID", "nvmlDeviceGetUUID")):
            try:
                found[kind].append(asked.read_text(call, handle))
            except nvml.NvmlError:
                pass
        found["PDI"] += list_pdi(asked, handle)
    return found


class Pdi(ctypes.Structure):
    """nvmlPdi_v1_t."""

    _fields_ = [("version", ctypes.c_uint), ("value", ctypes.c_ulonglong)]


def list_pdi(asked, handle):
    """Return the identifier per device of a GPU, in both forms that programs print."""
    wanted = Pdi(ctypes.sizeof(Pdi) | 1 << 24)
    try:
        asked.call("nvmlDeviceGetPdi", handle, ctypes.byref(wanted))
    except nvml.NvmlError:
        return []
    return ["%d" % wanted.value, "%x" % wanted.value] if wanted.value else []


def find_left(text, secrets):
    """Return the kinds of identity that a text still has, by what the machine said of itself."""
    low = text.lower()
    found = {kind for kind, texts in secrets.items() if any(t.lower() in low for t in texts)}
    # gpu10 is not gpu1. The name in not-gpu1 counts, although it may be another machine's.
    for kind in (NAMES, ACCOUNTS):
        if not find_words(secrets.get(kind, ())).search(low):
            found.discard(kind)
    return sorted(found)
