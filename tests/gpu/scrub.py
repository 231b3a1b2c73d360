# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take out of what is sent whatever tells one machine from another.

Two ways, because neither is enough. What looks like an identifier gets a stand-in; and what this
machine itself says of its identity (serial numbers, names, addresses) is looked for by its text.
The second way also judges the result. Standard library only, Python 3.6.
"""

import ctypes
import glob
import os
import re
import socket
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.probes import nvml

BLANKED = "blanked"
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
# In full, or shortened once; a bus address of PCI is neither.
IPV6 = (
    f"(?:(?:{GROUP}:){{7}}{GROUP}|(?:{GROUP}(?::{GROUP}){{0,6}})?::(?:{GROUP}(?::{GROUP}){{0,6}})?)"
)
IDENTIFIERS = re.compile(
    "|".join(
        (
            f"(?P<uuid>(?<!{HEX}){HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}(?!{HEX}))",
            f"(?P<mac>(?<![{HEX[1:-1]}:]){HEX}{{2}}(?::{HEX}{{2}}){{5}}(?![{HEX[1:-1]}:]))",
            r"(?P<ipv4>(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]))",
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
KEPT = {  # loopback tells nothing, and versions may have four parts
    "ipv4": re.compile(r"0\.0\.0\.0|127\.\d+\.\d+\.\d+|\d+\.\d+\.\d+\.\d+(?=[-~+])"),
    "ipv6": re.compile(r"::1?(?![\w:])"),
}


def blanked(value, names, secrets=()):
    """Return the value with stand-ins for identifiers. names: names of the host, which become
    `host`. secrets: other texts that only this machine has, which become `blanked`.
    """
    known = {}

    hosts = [
        re.compile(r"(?<![\w-])%s(?![\w-])" % re.escape(n))
        for n in sorted({n for n in names if len(n) > 1}, key=len, reverse=True)
    ]
    others = [re.compile(re.escape(n), re.I) for n in sorted(secrets, key=len, reverse=True)]

    def stand_in(found):
        text, kind = found.group(), str(found.lastgroup)
        if kind in KEPT and KEPT[kind].match(found.string, found.start()):
            return text
        return known.setdefault(
            text,
            STAND_INS[kind].format(
                len(known) % 250 + 1 if kind in ("ipv4", "mac") else len(known) + 1
            ),
        )

    def of_text(text):
        text = IDENTIFIERS.sub(stand_in, text)
        for name in hosts:
            text = name.sub("host", text)
        for secret in others:
            text = secret.sub(BLANKED, text)
        return text

    def of_any(found):
        if isinstance(found, str):
            return of_text(found)
        # a query's name has what was asked for; the other keys are those of the format
        if isinstance(found, Mapping):
            return {
                of_text(key) if ":" in key or "/" in key else key: of_any(inner)
                for key, inner in found.items()
            }
        return [of_any(inner) for inner in found] if isinstance(found, (list, tuple)) else found

    return of_any(value)


# ---------------------------------------------------------------- what this machine is


def list_secrets(library=""):
    """Return what only this machine has, by kind: {kind: texts}. What cannot be read is not in it."""
    found = list_secrets_without_driver()
    for kind, texts in list_gpu_secrets(library).items():
        found[kind] = drop_empty(found.get(kind, []) + texts)
    return found


def list_secrets_without_driver():
    """Return the same without asking NVML, which may hang."""
    found = {
        "host name": list_names(),
        "address": list_addresses(),
        "MAC": read_texts("/sys/class/net/*/address"),
        "serial": read_texts(DMI + "*serial"),
        "UUID": read_texts(DMI + "product_uuid", "/proc/sys/kernel/random/boot_id"),
        "machine id": read_texts("/etc/machine-id"),
    }
    return {kind: drop_empty(texts) for kind, texts in found.items()}


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
    return sorted(kind for kind, texts in secrets.items() if any(t.lower() in low for t in texts))
