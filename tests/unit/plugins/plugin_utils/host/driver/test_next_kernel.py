# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The next boot: a module for its kernel, a key for it, and nouveau kept out."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    next_kernel,
    package_movers,
)

from tests.unit.driver_hosts import (
    BUS,
    HEALTHY,
    KERNEL,
    NEWER,
    OF_DEBIAN,
    OLDER,
    ON_DISK,
    advise,
)


def built(kernel: str, release: str) -> dict[str, str]:
    """Return a module that DKMS has built."""
    return {f"/var/lib/dkms/nvidia/{release}/{kernel}/x86_64/module/nvidia.ko": ""}


BOOTS: list[tuple[str, dict[str, Any], list[tuple[str, dict[str, Any]]]]] = [
    # what the host is like, its files beside those of a healthy host, what is said
    ("the newest kernel has a module", {}, []),
    (
        "a newer kernel without a module, and its headers are there",
        {f"/boot/vmlinuz-{NEWER}": "", f"/lib/modules/{NEWER}/build": ""},
        [
            (
                "keeping.next-kernel-lacks-module",
                {"next": NEWER, "kernels": KERNEL, "last": KERNEL},
            )
        ],
    ),
    (
        "the newest kernel has the module of another release alone",
        {**built(KERNEL, "535.261.03"), **built(NEWER, "525.147.05"), f"/boot/vmlinuz-{NEWER}": ""},
        [
            (
                "keeping.next-kernel-other-module",
                {"next": NEWER, "built": "525.147.05", "release": "535.261.03", "running": KERNEL},
            )
        ],
    ),
    (
        "the newest kernel has the module of this release, too",
        {**built(NEWER, "525.147.05"), **built(NEWER, "535.261.03"), f"/boot/vmlinuz-{NEWER}": ""},
        [],
    ),
    (
        "an older kernel has the module of another release alone",
        {**built(OLDER, "525.147.05"), f"/boot/vmlinuz-{OLDER}": ""},
        [],
    ),
    (
        "a newer kernel, and DKMS lacks its headers",
        {f"/lib/modules/{NEWER}/vmlinuz": ""},
        [("keeping.headers-missing", {"next": NEWER, "kernels": KERNEL})],
    ),
    (
        "the headers of the newer kernel are a link to nothing",
        {f"/boot/vmlinuz-{NEWER}": "", f"/lib/modules/{NEWER}/build": {"real": None}},
        [("keeping.headers-missing", {"next": NEWER, "kernels": KERNEL})],
    ),
    (
        "a newer kernel on which the module does not build",
        {
            f"/boot/vmlinuz-{NEWER}": "",
            f"/lib/modules/{NEWER}/build": "",
            "/var/lib/dkms/nvidia/535.261.03/build/make.log": "",
        },
        [
            (
                "keeping.build-failed",
                {
                    "next": NEWER,
                    "kernels": KERNEL,
                    "log": "/var/lib/dkms/nvidia/535.261.03/build/make.log",
                },
            )
        ],
    ),
    (
        "a newer kernel on which akmods could not build the module",
        {
            f"/boot/vmlinuz-{NEWER}": "",
            f"/lib/modules/{NEWER}/build": "",
            f"/var/cache/akmods/nvidia/535.261.03-1-for-{KERNEL}.failed.log": "",
            f"/var/cache/akmods/nvidia/535.261.03-1-for-{NEWER}.failed.log": "",
        },
        [
            (
                "keeping.build-failed",
                {
                    "next": NEWER,
                    "kernels": KERNEL,
                    "log": f"/var/cache/akmods/nvidia/535.261.03-1-for-{NEWER}.failed.log",
                },
            )
        ],
    ),
    (
        "DKMS stops at a driver whose sources are gone",
        {
            f"/boot/vmlinuz-{NEWER}": "",
            f"/lib/modules/{NEWER}/build": "",
            "/var/lib/dkms/nvidia/390.48/source": {"real": None},
        },
        [
            (
                "keeping.dkms-stops",
                {"next": NEWER, "kernels": KERNEL, "path": "/var/lib/dkms/nvidia/390.48/source"},
            )
        ],
    ),
    (
        "a driver whose sources are gone, and the newest kernel has a module",
        {"/var/lib/dkms/nvidia/390.48/source": {"real": None}},
        [],
    ),
    ("an older kernel without a module", {f"/boot/vmlinuz-{OLDER}": ""}, []),
    ("a rescue kernel", {"/boot/vmlinuz-0-rescue-3f2a": ""}, []),
    ("a kernel before its update", {f"/boot/vmlinuz-{KERNEL}.old": ""}, []),
    ("a copy of dpkg's", {f"/boot/vmlinuz-{NEWER}.dpkg-bak": ""}, []),
    (
        "a release candidate of the running kernel",
        {f"/boot/vmlinuz-{KERNEL.replace('-28', '-rc28')}": ""},
        [],
    ),
    (
        "an update waits for the next boot",
        {package_movers.OFFLINE: {"type": "link"}},
        [
            (
                "keeping.moves-at-boot",
                {
                    "path": package_movers.OFFLINE,
                    "release": "535.261.03",
                    "packages": "libcuda1, libnvidia-ml1, nvidia-kernel-dkms",
                },
            )
        ],
    ),
]


@pytest.mark.parametrize(("files", "told"), [c[1:] for c in BOOTS], ids=[c[0] for c in BOOTS])
def test_the_next_boot(files: dict[str, Any], told: list[tuple[str, dict[str, Any]]]) -> None:
    assert advise({**HEALTHY, **files}, OF_DEBIAN) == told


# Where a module for the newest kernel may be, its target if it is a link, whether it counts.
PLACES = [
    ("updates/dkms/nvidia-current.ko", "", True),
    ("kernel/nvidia-535srv/nvidia.ko.zst", "", True),
    ("extra/nvidia/nvidia.ko.xz", "", True),
    # NVIDIA/yum-packaging-precompiled-kmod, kmod-nvidia.spec
    ("extra/drivers/video/nvidia/nvidia.ko", "", True),
    # openSUSE/nvidia-driver-G06/issues/109
    ("updates/nvidia.ko", "", True),
    ("weak-updates/updates/nvidia.ko", "/lib/modules/6.1.0-28-amd64/updates/nvidia.ko", True),
    # AlmaLinux/almalinux-deploy/issues/271: a link of weak-modules to a kernel that is gone
    ("weak-updates/nvidia-open/nvidia.ko", None, False),
    ("extramodules/nvidia.ko.xz", "", True),
    ("video/nvidia.ko", "", True),
    ("extra/nvidia-drm.ko", "", False),
]


@pytest.mark.parametrize(("place", "target", "counts"), PLACES)
def test_a_module_of_the_newest_kernel_is_found(
    place: str, target: str | None, counts: bool
) -> None:
    module: Any = "" if target == "" else {"real": target, "type": "link"}
    files = {f"/boot/vmlinuz-{NEWER}": "", f"/lib/modules/{NEWER}/build": ""}
    told = advise({**HEALTHY, **files, f"/lib/modules/{NEWER}/{place}": module}, OF_DEBIAN)
    codes = [code for code, _values in told]
    assert codes == ([] if counts else ["keeping.next-kernel-lacks-module"])


OUT = "/etc/modprobe.d/nvidia-blacklists-nouveau.conf"


NOUVEAU = f"/lib/modules/{KERNEL}/kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz"


LINE = "BOOT_IMAGE=/boot/vmlinuz-6.1 root=/dev/sda1 {} quiet"


KEPT_OUT: list[tuple[str, dict[str, Any], bool]] = [
    # what the host is like, its files beside nouveau in the newest kernel, whether it is kept out
    ("by the driver's file", {}, True),
    ("by no file", {OUT: None}, False),
    ("a file of that name with other settings", {OUT: "options nvidia NVreg_EnableMSI=1\n"}, False),
    ("a comment", {OUT: "# blacklist nouveau\n"}, False),
    ("another module", {OUT: "blacklist nouveaux\nblacklist lbm-nouveau\n"}, False),
    ("an alias, which no device goes by", {OUT: "alias nouveau off\n"}, False),
    ("a rule with a comment behind it", {OUT: "  blacklist\tnouveau # as NVIDIA says\n"}, True),
    ("a command in its place", {OUT: "install nouveau /bin/false\n"}, True),
    ("a command that may load it", {OUT: "install nouveau /sbin/modprobe -i nouveau\n"}, False),
    ("without a mode", {OUT: "options nouveau config=x modeset=0\n"}, True),
    ("with a mode", {OUT: "options nouveau modeset=1\n"}, False),
    ("by a file of another name", {OUT: None, "/etc/modprobe.d/99.conf": "blacklist nouveau\n"}, True),
    ("by a file at run time", {OUT: None, "/run/modprobe.d/1.conf": "blacklist nouveau\n"}, True),
    ("by a file that modprobe does not read", {OUT: None, "/etc/modprobe.d/99.off": "blacklist nouveau\n"}, False),
    (
        "by a file that another one of its name replaces",
        {OUT: None, "/usr/lib/modprobe.d/nvidia.conf": "blacklist nouveau\n", "/etc/modprobe.d/nvidia.conf": ""},
        False,
    ),
    ("by the kernel", {OUT: None, "/proc/cmdline": LINE.format("module_blacklist=e1000e,nouveau")}, True),
    ("by modprobe's list", {OUT: None, "/proc/cmdline": LINE.format("modprobe.blacklist=nouveau")}, True),
    ("by the initramfs alone", {OUT: None, "/proc/cmdline": LINE.format("rd.driver.blacklist=nouveau")}, False),
    ("by a mode of the command line", {OUT: None, "/proc/cmdline": LINE.format("nouveau.modeset=0")}, True),
    ("by no mode at all", {OUT: None, "/proc/cmdline": LINE.format("nomodeset")}, True),
    ("an option that ends like it", {OUT: None, "/proc/cmdline": LINE.format("x.modprobe.blacklist=nouveau")}, False),
    ("another one's list", {OUT: None, "/proc/cmdline": LINE.format("module_blacklist=nouveau2")}, False),
]  # fmt: skip


@pytest.mark.parametrize(("files", "out"), [c[1:] for c in KEPT_OUT], ids=[c[0] for c in KEPT_OUT])
def test_nouveau_is_kept_out_by_what_a_file_says(files: dict[str, Any], out: bool) -> None:
    keeps = {"/proc/cmdline": next_kernel.BY_COMMAND_LINE}
    shown = {
        path: text and file_places.show_own_text(text, keeps.get(path, next_kernel.BY_FILE))
        for path, text in {OUT: "blacklist nouveau\n", "/proc/cmdline": "", **files}.items()
    }
    told = advise({**HEALTHY, NOUVEAU: "", **shown}, OF_DEBIAN)
    assert told == ([] if out else [("keeping.nouveau-not-kept-out", {"kernel": KERNEL})])


# Kernels with nouveau, kernels that can be booted, whether it is said.
BEFORE = "6.1.0-9-amd64"


NEXT_NOUVEAU = [
    ((KERNEL,), (KERNEL,), True),
    ((KERNEL,), (KERNEL, NEWER), False),
    ((BEFORE,), (BEFORE, KERNEL), False),
    ((NEWER,), (KERNEL, NEWER), True),
]


@pytest.mark.parametrize(("nouveau", "kernels", "said"), NEXT_NOUVEAU)
def test_only_nouveau_of_the_next_kernel_counts(
    nouveau: tuple[str, ...], kernels: tuple[str, ...], said: bool
) -> None:
    files = {
        **{f"/boot/vmlinuz-{kernel}": "" for kernel in kernels},
        **{f"/lib/modules/{kernel}/updates/dkms/nvidia.ko": "" for kernel in kernels},
        **{NOUVEAU.replace(KERNEL, kernel): "" for kernel in nouveau},
    }
    codes = [code for code, _values in advise({**HEALTHY, OUT: None, **files}, OF_DEBIAN)]
    assert codes == ["keeping.nouveau-not-kept-out"] * said


# The later kernel first.
ORDERS = [
    ("6.8.0", "6.8.0-rc1"),
    ("6.8.0-rc10", "6.8.0-rc2"),
    ("6.8.0-060800-generic", "6.8.0-060800rc1-generic"),
    ("6.8.9-amd64", "6.8-amd64"),
    ("6.8.9-amd64", "6.8-rc7-amd64"),
    ("6.8.0-28-generic", "6.8.0"),
    ("6.10.0-1-amd64", "6.9.12-amd64"),
    ("5.14.0-570.el9_6.x86_64", "5.14.0-427.42.1.el9_4.x86_64"),
    ("6.8.2-arch1-1", "6.8.1-arch2-1"),
]


@pytest.mark.parametrize(("later", "earlier"), ORDERS)
def test_kernels_are_sorted_by_their_releases(later: str, earlier: str) -> None:
    assert max(earlier, later, key=next_kernel.get_kernel_order) == later
    assert max(later, earlier, key=next_kernel.get_kernel_order) == later


def file(content: str) -> dict[str, Any]:
    return {"content": content, "encoding": "utf-8"}


ENROLLED = {next_kernel.KEYS[0]: file("KEY"), next_kernel.TRUSTED: file("\x00xKEYy")}


SECURE: list[tuple[str, dict[str, Any], list[str]]] = [
    # what the host is like, its files beside a module on disk that is not loaded, the codes
    ("no firmware variables", {}, []),
    ("Secure Boot is off", {next_kernel.SECURE_BOOT: file("\x06\0\0\0\0")}, []),
    (
        "no key",
        {next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01")},
        ["keeping.key-missing"],
    ),
    (
        "the key is not enrolled",
        {
            next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01"),
            **ENROLLED,
            next_kernel.TRUSTED: file("\x00xyz"),
        },
        ["keeping.key-not-enrolled"],
    ),
    ("signatures are not enforced", {next_kernel.SIG_ENFORCE: file("N\n")}, []),
    (
        "signatures are enforced without Secure Boot",
        {next_kernel.SIG_ENFORCE: file("Y\n")},
        ["keeping.signatures-enforced"],
    ),
    (
        "a kernel in lockdown without Secure Boot",
        {
            next_kernel.SECURE_BOOT: file("\x06\0\0\0\0"),
            next_kernel.LOCKDOWN: file("none [integrity] confidentiality\n"),
        },
        ["keeping.signatures-enforced"],
    ),
    ("no lockdown", {next_kernel.LOCKDOWN: file("[none] integrity confidentiality\n")}, []),
    (
        "the key is an empty file, so that nothing is known",
        {
            next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01"),
            **ENROLLED,
            next_kernel.KEYS[0]: file(""),
        },
        [],
    ),
    (
        "the key is enrolled",
        {next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01"), **ENROLLED},
        [],
    ),
    # fedora-silverblue/issue-tracker/issues/272
    (
        "the key of akmods is enrolled",
        {
            next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01"),
            next_kernel.KEYS[2]: file("KEY"),
            next_kernel.TRUSTED: ENROLLED[next_kernel.TRUSTED],
        },
        [],
    ),
    (
        "the key of akmods is enrolled, and one that DKMS has left is not",
        {
            next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01"),
            **ENROLLED,
            next_kernel.KEYS[0]: file("OLD"),
            next_kernel.KEYS[2]: file("KEY"),
        },
        [],
    ),
    (
        "neither of two keys is enrolled",
        {
            next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01"),
            **ENROLLED,
            next_kernel.KEYS[0]: file("OLD"),
            next_kernel.KEYS[2]: file("OTHER"),
        },
        ["keeping.key-not-enrolled"],
    ),
]


@pytest.mark.parametrize(("files", "codes"), [c[1:] for c in SECURE], ids=[c[0] for c in SECURE])
def test_secure_boot(files: dict[str, Any], codes: list[str]) -> None:
    assert [code for code, _values in advise({**ON_DISK, **files}, OF_DEBIAN)] == codes


def test_each_key_that_may_have_signed_the_module_is_named() -> None:
    """DKMS leaves one on a host whose modules akmods builds."""
    own = next_kernel.KEYS[0], next_kernel.KEYS[2]
    files = {path: file("KEY") for path in own}
    on = {next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01"), next_kernel.TRUSTED: file("x")}
    ((code, values),) = advise({**ON_DISK, **on, **files}, OF_DEBIAN)
    assert (code, values["keys"]) == ("keeping.key-not-enrolled", " ".join(own))


OWN_RULE = "/lib/modprobe.d/blacklist-nvidia.conf"


MODULE_OUT: list[tuple[str, str, str, bool]] = [
    # what the rule is like, the file, its text, whether NVIDIA's module is kept out by it
    ("none", OWN_RULE, "", False),
    # canonical/nvidia-prime/issues/20
    ("a blacklist", OWN_RULE, "blacklist nvidia\nblacklist nvidia-drm\n", True),
    ("an alias", OWN_RULE, "alias nvidia off\n", True),
    ("a command in its place", OWN_RULE, "install nvidia /bin/false\n", True),
    ("a command that loads it", OWN_RULE, "install nvidia /sbin/modprobe --ignore-install nvidia\n", False),
    ("the older frame buffer", OWN_RULE, "blacklist nvidiafb\nblacklist nvidia_drm\n", False),
    ("a comment", OWN_RULE, "# blacklist nvidia\n", False),
    ("a file that modprobe does not read", f"{OWN_RULE}.off", "blacklist nvidia\n", False),
    ("the kernel's list", "/proc/cmdline", LINE.format("module_blacklist=nouveau,nvidia"), True),
    ("modprobe's list", "/proc/cmdline", LINE.format("modprobe.blacklist=nvidia,nvidia_drm"), True),
    ("the frame buffer in that list", "/proc/cmdline", LINE.format("modprobe.blacklist=nouveau,nvidiafb"), False),
    ("the initramfs alone", "/proc/cmdline", LINE.format("rd.driver.blacklist=nvidia"), False),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "out"), [c[1:] for c in MODULE_OUT], ids=[c[0] for c in MODULE_OUT])  # fmt: skip
def test_a_rule_that_keeps_the_module_out(path: str, text: str, out: bool) -> None:
    keep = next_kernel.BY_COMMAND_LINE if path == "/proc/cmdline" else next_kernel.BY_FILE
    shown = file_places.show_own_text(text, keep)
    told = advise({**ON_DISK, path: shown}, OF_DEBIAN)
    values = {"path": path, "kernel": KERNEL}
    assert told == ([("keeping.module-kept-out", values)] if out else [])
    # a module that somebody has loaded all the same
    assert advise({**HEALTHY, path: shown}, OF_DEBIAN) == []


def test_a_module_that_is_not_on_disk_is_kept_out_by_no_rule() -> None:
    gone = {f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko": None}
    told = advise({**ON_DISK, **gone, OWN_RULE: "blacklist nvidia\n"}, OF_DEBIAN)
    assert "keeping.module-kept-out" not in [code for code, _values in told]


def test_a_key_is_not_to_blame_while_nouveau_has_the_gpu() -> None:
    files = {**ON_DISK, f"/sys/bus/pci/drivers/nouveau/{BUS}": ""}
    told = advise({**files, next_kernel.SECURE_BOOT: file("\x06\0\0\0\x01")}, OF_DEBIAN)
    assert [code for code, _values in told] == ["keeping.nouveau-has-gpu"]
    out = advise({**files, OWN_RULE: "blacklist nvidia\n"}, OF_DEBIAN)
    assert [code for code, _values in out] == ["keeping.nouveau-has-gpu", "keeping.module-kept-out"]


LARGE = {"content": None, "error": {"kind": "too-large", "message": "it is larger"}}


def test_settings_that_cannot_be_read_take_nothing_back_that_was_said_before() -> None:
    large = {"/etc/modprobe.d/zz.conf": LARGE}
    told = advise({**ON_DISK, **large}, OF_DEBIAN)
    assert [code for code, _values in told] == ["keeping.not-checked"]
    both = advise({**ON_DISK, **large, f"/sys/bus/pci/drivers/nouveau/{BUS}": ""}, OF_DEBIAN)
    assert [code for code, _values in both] == ["keeping.nouveau-has-gpu", "keeping.not-checked"]
