# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's side of a driver that the host's own package manager installs.

It follows the packages as on a real host. Their scripts have DKMS build a module for the running
kernel, which takes the kernel's headers. Only a boot loads a module, and then the one in the
initramfs, if that has one. So after an upgrade the old module stays loaded. Without a module there
is neither /proc/driver/nvidia nor a device node.

A module is a text with its version (`version=550.163.01`, as modinfo prints it). What imitates
dkms has the two subcommands that packages call, by the layout of https://github.com/dell/dkms:
builds below /var/lib/dkms, modules in updates/dkms on Debian and in extra on Red Hat's and SUSE's.
"""

from __future__ import annotations

from collections.abc import Iterator

ANY = "@VERSION@"
TOP = "opt/fakegpu"
BARE, MODULE = f"{TOP}/bare", f"{TOP}/module"
CONF, NODES = f"{TOP}/nvml.conf", f"{TOP}/nodes"
# A module in there is loaded instead of the one on disk: the image was not made again.
INITRAMFS = f"{TOP}/initramfs"
START = f"""\
set -eu
kernel=$(uname -r)
cd /{TOP}
for place in /proc/driver/nvidia/params /proc/driver /proc/devices; do
    ! mountpoint -q $place || umount $place
done
rm -rf proc sys /etc/fake-nvml.conf
cp -a bare/. .
for module in initramfs/nvidia*.ko /lib/modules/$kernel/updates/dkms/nvidia*.ko /lib/modules/$kernel/extra/nvidia*.ko; do
    [ -e "$module" ] || continue
    version=$(sed -n 's/^version=//p' "$module")
    cp -a module/. .
    grep -rl {ANY} proc sys | xargs sed -i "s/{ANY}/$version/"
    sed "s/{ANY}/$version/" nvml.conf >/etc/fake-nvml.conf
    exec sh nodes
done
"""
DKMS = """\
#!/bin/sh
# dkms install|remove -m NAME -v VERSION
set -eu
verb=$1 name=$3 version=$5
kernel=$(uname -r)
. /etc/os-release
case $ID in
    debian | ubuntu) place=/lib/modules/$kernel/updates/dkms ;;
    *) place=/lib/modules/$kernel/extra ;;
esac
home=/var/lib/dkms/$name/$version
if [ "$verb" = remove ]; then
    ! grep -qsx "version=$version" "$place/$name.ko" || rm "$place/$name.ko"
    rm -rf "$home"
    exit 0
fi
mkdir -p "$home" "$place"
ln -sfn "/usr/src/$name-$version" "$home/source"
if [ ! -e "/lib/modules/$kernel/build" ]; then
    echo "Error! Your kernel headers for kernel $kernel cannot be found at /lib/modules/$kernel/build." >&2
    exit 1
fi
mkdir -p "$home/$kernel/$(uname -m)/module"
echo "version=$version" >"$home/$kernel/$(uname -m)/module/$name.ko"
cp "$home/$kernel/$(uname -m)/module/$name.ko" "$place"
"""


def texts(kernel: str, mounts: str) -> Iterator[tuple[str, str, int]]:
    """Yield path, content and mode of what makes the kernel's side follow the packages.

    mounts: the commands that show the imitated /proc, for a boot without a module.
    """
    yield f"{TOP}/start", f"{START}{mounts}\n/sbin/ldconfig\n", 0o644
    yield "usr/sbin/dkms", DKMS, 0o755
    yield f"usr/lib/modules/{kernel}/build/Makefile", "# the kernel's headers\n", 0o644
