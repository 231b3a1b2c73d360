# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at what the next boot loads: the newest kernel with its NVIDIA module, nouveau, and whether
Secure Boot can keep the module out.

Files alone are read. Which kernel a boot loader takes is its own business. By default that is
the newest.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    WHOLE,
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import mismatch

NAME = "next boot"
DKMS_SOURCES = "/var/lib/dkms/nvidia*/*/source"
# A build that succeeds moves its log away (dkms(8): it is kept below the kernel's folder then).
DKMS_LOGS = "/var/lib/dkms/nvidia*/*/build/make.log"
# akmods keeps a log of the last build that failed, by the release of the driver and the kernel.
AKMODS_LOGS = "/var/cache/akmods/nvidia*/*.failed.log"
# Where modprobe reads its settings. Of files with one name it takes that of the first directory
# (modprobe.d(5)).
SETTINGS_OF_MODULES = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)
# Files that come with a driver: NVIDIA's packages, Ubuntu's and SUSE's in /usr/lib, Debian's and
# the .run file's in /etc. Only where none of these keeps nouveau out are all others read as well.
NAMED_FILES = (
    "/usr/lib/modprobe.d/*nvidia*.conf",
    "/lib/modprobe.d/*nvidia*.conf",
    "/etc/modprobe.d/*nvidia*.conf",
    "/etc/modprobe.d/*nouveau*.conf",
)
EVERY_FILE = tuple(f"{directory}/*.conf" for directory in SETTINGS_OF_MODULES)
# A rule of such a file that keeps nouveau out; "#" stands for what does not leave the host. With
# modeset=0 nouveau takes no device (nouveau_drm_init in drivers/gpu/drm/nouveau/nouveau_drm.c). An
# alias doesn't keep it out: a device names the module by an alias of its own.
OUT_BY_FILE = (
    r"(?m)^[ \t]*(?:blacklist[ \t]+nouveau|install[ \t]+nouveau[ \t]+(?:/usr)?/s?bin/(?:true|false)"
    r"|options[ \t]+nouveau[ \t]+(?:[\w.]{1,64}=[\w.,:-]{0,64}[ \t]+){0,8}modeset=0)(?=[ \t#]|$)"
)
# The command line of the running kernel, which that of the next boot usually is. module_blacklist
# is the kernel's own, modprobe.blacklist that of modprobe; rd.driver.blacklist ends with the
# initramfs, so that udev loads the module afterwards (kernel-parameters.txt, modprobe(8),
# dracut.cmdline(7)).
COMMAND_LINE = "/proc/cmdline"
OUT_BY_COMMAND_LINE = (
    r"(?:(?:module[_-]blacklist|modprobe\.blacklist)=(?:[\w-]{1,64},){0,64}nouveau(?:,[\w-]{1,64}){0,64}"
    r"|nouveau\.modeset=0|nomodeset)"
)
# The same of NVIDIA's module, which a switch between the GPUs of a host (prime-select) or a
# passthrough leaves behind. An alias keeps it out, since nvidia-modprobe uses its own name.
NVIDIA_OUT_BY_FILE = (
    r"(?m)^[ \t]*(?:blacklist[ \t]+nvidia|alias[ \t]+nvidia[ \t]+off"
    r"|install[ \t]+nvidia[ \t]+(?:/usr)?/s?bin/(?:true|false))(?=[ \t#]|$)"
)
NVIDIA_OUT_BY_COMMAND_LINE = r"(?:module[_-]blacklist|modprobe\.blacklist)=(?:[\w-]{1,64},){0,64}nvidia(?:,[\w-]{1,64}){0,64}"
# Whole words of that line alone leave the host. One that has left it ends at a blank, or at a "#",
# which stands for the others: so `nouveau,nvidiafb` does not name NVIDIA's module.
NOUVEAU_WORD, NVIDIA_WORD = (
    rf"{pattern}(?![^\s#])" for pattern in (OUT_BY_COMMAND_LINE, NVIDIA_OUT_BY_COMMAND_LINE)
)
BY_FILE: Keep = {"format": "text", "patterns": [OUT_BY_FILE, NVIDIA_OUT_BY_FILE]}
BY_COMMAND_LINE: Keep = {
    "format": "text",
    "patterns": [
        rf"(?<!\S){pattern}(?!\S)" for pattern in (OUT_BY_COMMAND_LINE, NVIDIA_OUT_BY_COMMAND_LINE)
    ],
}
PATHS = [
    "/boot/vmlinuz-*",
    "/lib/modules/*/vmlinuz",
    "/lib/modules/*/build",
    "/lib/modules/*/kernel/drivers/gpu/drm/nouveau/nouveau.ko*",
    DKMS_SOURCES,
    DKMS_LOGS,
    AKMODS_LOGS,
]
KERNEL = re.compile(r"/boot/vmlinuz-(\d[^/]*)|/lib/modules/(\d[^/]*)/vmlinuz")
# Copies that package managers and `make install` leave beside a kernel. grub-mkconfig passes over
# the first, and takes the last for older than the kernel itself (util/grub-mkconfig_lib.in).
COPY = re.compile(r".*\.(?:dpkg-[\w-]+|rpmsave|rpmnew|bak|old)")
HEADERS = re.compile(r"/lib/modules/([^/]+)/build")
NOUVEAU = re.compile(r"/lib/modules/([^/]+)/.*/nouveau\.ko")
# The variable of the firmware: four bytes of attributes and one of value (UEFI 2.10, 3.3).
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# The keys that sign modules here: of DKMS, where Debian and Ubuntu keep it, and of akmods. Then the
# keys that the firmware lets the kernel trust (dkms(8), MODULE SIGNING; README.secureboot of
# akmods; mokutil(1)).
KEYS = (
    "/var/lib/dkms/mok.pub",
    "/var/lib/shim-signed/mok/MOK.der",
    "/etc/pki/akmods/certs/public_key.der",
)
TRUSTED = "/sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"


# Two more reasons for a kernel to take signed modules alone: its own option, and its lockdown
# (kernel_lockdown(7); kernel/module/signing.c in Linux).
SIG_ENFORCE = "/sys/module/module/parameters/sig_enforce"
LOCKDOWN = "/sys/kernel/security/lockdown"
ENFORCED = re.compile(r"Y\s*|.*\[(?:integrity|confidentiality)\].*", re.DOTALL)


@dc.dataclass(frozen=True)
class NextBoot:
    """Hold a host's kernels for its next boot.

    running: the running kernel, '' in a tree. kernels: the kernels that can be booted, newest
    first. with_module: those with an NVIDIA module on disk. headers: those for which a module can
    be built. dkms: whether DKMS builds the module. log: of a build that has failed, '' for none.
    broken: a link of DKMS to sources that are gone, at which it stops, '' for none. nouveau: the
    kernels that have it. kept_out: a file that keeps it out by its content, '' if none does.
    builds: the releases of the NVIDIA module that DKMS has built, for each kernel.
    """

    running: str = ""
    kernels: tuple[str, ...] = ()
    with_module: frozenset[str] = frozenset()
    headers: frozenset[str] = frozenset()
    dkms: bool = False
    log: str = ""
    broken: str = ""
    nouveau: frozenset[str] = frozenset()
    kept_out: str = ""
    builds: Mapping[str, frozenset[str]] = dc.field(default_factory=dict)

    @property
    def next(self) -> str:
        """The kernel of the next boot, as far as files tell: the newest one."""
        return self.kernels[0] if self.kernels else self.running

    @property
    def lacks_module(self) -> bool:
        """Tell whether that kernel has no NVIDIA module, and another one has."""
        return bool(self.with_module) and bool(self.next) and self.next not in self.with_module

    def list_other_builds(self, release: str) -> list[str]:
        """List the releases that DKMS has built for a next kernel which is not the running one;
        [] if this release is among them, or if none is known.
        """
        built = self.builds.get(self.next, frozenset()) if self.next != self.running else ()
        return sorted(built) if release and release not in built else []


@dc.dataclass(frozen=True)
class SecureBoot:
    """on: Secure Boot is on. keys: the ones that sign modules here. trusted: whether the firmware has one
    of them; None if that could not be read. enforced: the file by which the kernel says without
    Secure Boot that it takes signed modules alone, '' if it does not.
    """

    on: bool = False
    keys: tuple[str, ...] = ()
    trusted: bool | None = None
    enforced: str = ""


def list_boot_questions() -> list[queries.Question]:
    return [
        queries.ask_for_paths(NAME, PATHS),
        *ask_for_module_settings(NAMED_FILES),
        queries.ask_for_file(COMMAND_LINE, max=1 << 14, keep=BY_COMMAND_LINE),
    ]


def ask_for_module_settings(patterns: Iterable[str]) -> list[queries.Question]:
    return [queries.ask_for_glob(pattern, max=1 << 16, keep=BY_FILE) for pattern in patterns]


def read_next_boot(obs: Observation, disk: mismatch.Modules) -> NextBoot:
    """Return what the next boot loads. disk: the NVIDIA modules on disk."""
    there = {
        str(f["path"]): f.get("real")
        for f in obs.get_answer(list_boot_questions()[0]).get("files") or ()
    }
    found = {m[1] or m[2] for m in map(KERNEL.fullmatch, there) if m and "rescue" not in m[0]}
    kernels = {kernel for kernel in found if not COPY.fullmatch(kernel)}
    newest_first = tuple(sorted(kernels, key=get_kernel_order, reverse=True))
    nouveau = frozenset(m[1] for m in map(NOUVEAU.match, there) if m)
    newest = (newest_first or (disk.kernel,))[0]
    logs = ("/build/make.log", f"-for-{newest}.failed.log")
    is_wanted = bool(disk.kernel and disk.kernels) and newest in nouveau
    return NextBoot(
        running=disk.kernel,
        kernels=newest_first,
        with_module=disk.kernels,
        # a link to headers that are gone leads nowhere
        headers=frozenset(
            m[1] for p, real in there.items() if real and (m := HEADERS.fullmatch(p))
        ),
        dkms=any(path.startswith("/var/lib/dkms/") for path in there),
        log=next((path for path in there if path.endswith(logs)), ""),
        broken=next((p for p, real in there.items() if p.endswith("/source") and not real), ""),
        nouveau=nouveau,
        kept_out=find_nouveau_keeper(obs) if is_wanted else "",
        builds=disk.builds,
    )


def find_nouveau_keeper(obs: Observation) -> str:
    """Return the file that keeps nouveau out, '' if none does. Where those of a driver don't, all
    settings of modules are read, in a look of their own.
    """
    command_line = queries.ask_for_file(COMMAND_LINE, max=1 << 14, keep=BY_COMMAND_LINE)
    if re.search(NOUVEAU_WORD, obs.get_file(str(command_line["path"])).text):
        return COMMAND_LINE
    return find_keeping_file(obs, NAMED_FILES, OUT_BY_FILE) or _find_in_every_file(obs, OUT_BY_FILE)


def find_nvidia_keeper(obs: Observation) -> str:
    """Return the file that keeps NVIDIA's module from being loaded, '' if none does. It takes a look
    of its own, and only a host whose module is not loaded needs it.
    """
    if re.search(NVIDIA_WORD, obs.get_file(COMMAND_LINE).text):
        return COMMAND_LINE
    return _find_in_every_file(obs, NVIDIA_OUT_BY_FILE)


def _find_in_every_file(obs: Observation, rule: str) -> str:
    every = ask_for_module_settings(EVERY_FILE)
    missing = [question for question in every if not obs.was_asked(question)]
    if missing:
        raise NeedMore(missing)
    return find_keeping_file(obs, EVERY_FILE, rule)


def find_keeping_file(obs: Observation, patterns: Iterable[str], rule: str) -> str:
    """Return the first file of these patterns that modprobe reads and that has such a rule."""
    read: dict[str, ObservedFile] = {}
    files = (file for pattern in patterns for file in obs.list_glob_files(pattern))
    for file in sorted(files, key=lambda f: SETTINGS_OF_MODULES.index(posixpath.dirname(f.path))):
        read.setdefault(posixpath.basename(file.path), file)
    return next((f.path for f in read.values() if re.search(rule, f.text)), "")


def get_kernel_order(kernel: str) -> tuple[tuple[int, ...], str]:
    """Return the place of a kernel's release among others, by the numbers in it. A release
    candidate comes before its release: `6.8.0-rc1`, `6.8.0-060800rc1-generic`. Digits of a name
    don't count: amd64, el9, x86_64.
    """
    words = re.findall(r"(?<![A-Za-z])rc(?=\d)|(?<=rc)\d{1,9}|(?<![A-Za-z_\d])\d{1,9}", kernel)
    return (*(-1 if word == "rc" else int(word) for word in words), 0), kernel


def read_secure_boot(obs: Observation) -> SecureBoot:
    """Return the state of Secure Boot, and whether the kernel trusts the key of this host's
    modules. It takes a look of its own, and only a host whose module is not loaded needs it.
    """
    first = queries.ask_for_file(SECURE_BOOT, keep=WHOLE, max=1 << 10)
    asked = [
        first,
        *(
            queries.ask_for_file(path, keep=WHOLE, max=1 << 14)
            for path in (*KEYS, TRUSTED, SIG_ENFORCE, LOCKDOWN)
        ),
    ]
    missing = [question for question in asked if not obs.was_asked(question)]
    if missing:
        raise NeedMore(missing)
    state = obs.get_file(SECURE_BOOT)
    if not state.text.endswith("\x01"):
        asking = (SIG_ENFORCE, LOCKDOWN)
        enforced = (path for path in asking if ENFORCED.fullmatch(obs.get_file(path).text))
        return SecureBoot(enforced=next(enforced, ""))
    keys = {path: _read_bytes(file.text) for path in KEYS if (file := obs.get_file(path)).exists}
    trusted = obs.get_file(TRUSTED)
    known = _read_bytes(trusted.text) if trusted.exists and not trusted.error else None
    if known is None or not all(keys.values()):
        return SecureBoot(True, tuple(keys))
    return SecureBoot(True, tuple(keys), any(key in known for key in keys.values()))


def _read_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
