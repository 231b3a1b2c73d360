# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about keeping a driver in place."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

SAME = "Install all of them in one version, then reboot, or reload the modules with nothing on the GPUs"

PARTS_DIFFER = Sentence(
    "keeping.parts-differ",
    "The packages of the driver have several versions: the libraries are of {release}, and {odd} differ",
    why="{maker} builds these parts as one release, and they refuse one another",
    next=SAME,
)
WILL_MOVE = Sentence(
    "keeping.will-move",
    "{program} ({where}) may move the driver {release} by itself: nothing holds {packages}",
    why="new libraries do not work with the loaded module, so every container loses its GPUs until a reboot",
    next="Hold these packages, or keep {program} from them, and move the driver when the host is out of service",
)
PART_WILL_MOVE = Sentence(
    "keeping.part-will-move",
    "{program} ({where}) may move {packages} by itself, and no package brings the driver {release} that it belongs to",
    why="Fabric Manager and IMEX refuse a driver of another release at their next start",
    next="Hold these packages, or keep {program} from them, and move them together with the driver",
)
MOVES_AT_BOOT = Sentence(
    "keeping.moves-at-boot",
    "{path} is there: an update that is prepared is installed at the next boot, and may move the driver {release}",
    why="nothing holds {packages}",
    next="See what it installs (pkcon offline-get-prepared, dnf offline status), or hold these packages before the reboot",
)
APT_UNREAD = Sentence(
    "keeping.apt-unread",
    "{path} cannot be read as apt reads it, so it is not known whether unattended-upgrades moves the driver",
    next="See what apt makes of it (apt-config dump | grep -i -e Unattended-Upgrade -e APT::Periodic)",
)
LOCKED_ELSEWHERE = Sentence(
    "keeping.locked-elsewhere",
    "The locks of {packages} let dnf install other versions than those of the driver {release}: {lock}",
    why="dnf installs what any lock of a package names, and a lock without a version names all",
    next="Delete that lock (dnf versionlock delete), and lock the installed version if the driver is to stay",
)
LOCKS_IDLE = Sentence(
    "keeping.locks-idle",
    "The locks of dnf do not count on this host: {why}",
    next="Correct that, or keep the driver in place by other means",
)
PLUGIN_OFF = Sentence("keeping.plugin-off", "{path} switches the plugin versionlock off")
LIST_NOT_ROOTS = Sentence("keeping.list-not-roots", "others than root can change {path}")
LIST_WITHOUT_FOLDER = Sentence(
    "keeping.list-without-folder",
    "the folder of {path} is missing, so it is unknown whose it will be",
)
PINNED_ELSEWHERE = Sentence(
    "keeping.pinned-elsewhere",
    "{path} has apt take {packages} to version {version} (Pin-Priority {priority}), and {release} is installed",
    why="apt installs it as soon as a repository has it, also if it is older",
    next="Remove that record, or name the installed version in it",
)
NEXT_KERNEL_LACKS_MODULE = Sentence(
    "keeping.next-kernel-lacks-module",
    "Kernel {next} is the newest one on this host, and has no NVIDIA module; {kernels} have one",
    why="if the next boot takes it, no GPU works",
    next="Install or build the NVIDIA module for kernel {next}, or keep the host on {last}",
)
NEXT_KERNEL_OTHER_MODULE = Sentence(
    "keeping.next-kernel-other-module",
    "Kernel {next} is the newest one on this host, and DKMS has built the NVIDIA module {built} for it; the driver here is {release}",
    why="if the next boot takes it, module and libraries refuse one another, and no GPU works",
    next="Build the module {release} for kernel {next} (dkms install nvidia/{release} -k {next}), or keep the host on {running}",
)
HEADERS_MISSING = Sentence(
    "keeping.headers-missing",
    "Kernel {next} is the newest one on this host, and has no NVIDIA module; {kernels} have one",
    why="DKMS builds modules here, and the headers of kernel {next} are missing (/lib/modules/{next}/build)",
    next="Install the headers of kernel {next}, then run dkms autoinstall -k {next}",
)
BUILD_FAILED = Sentence(
    "keeping.build-failed",
    "Kernel {next} is the newest one on this host, and has no NVIDIA module; {kernels} have one",
    why="the build of the module has failed, and its log is {log}",
    next="See the end of that log. Install a driver that builds on kernel {next}, or keep the host on an older kernel",
)
DKMS_STOPS = Sentence(
    "keeping.dkms-stops",
    "Kernel {next} is the newest one on this host, and has no NVIDIA module; {kernels} have one",
    why="{path} leads nowhere, and DKMS stops at a driver without its sources (Could not locate dkms.conf)",
    next="Remove the folder that has {path}, then run dkms autoinstall -k {next}",
)
HALF_INSTALLED = Sentence(
    "keeping.half-installed",
    "dpkg has not finished packages of the driver: {packages}",
    why="a run of dpkg was interrupted or has failed, and its programs and modules may be of two versions",
    next="Take the host out of service, then run `dpkg --configure -a`",
)
TO_BE_REINSTALLED = Sentence(
    "keeping.reinstallation-required",
    "dpkg cannot use packages of the driver as they are: {packages}",
    why="a run of dpkg was interrupted while it unpacked them",
    next="Take the host out of service, then run `apt-get install --reinstall {names}`",
)
TWICE_INSTALLED = Sentence(
    "keeping.installed-twice",
    "rpm has packages of the driver in several versions: {packages}",
    why="a transaction of dnf or zypper was interrupted before it removed the older ones",
    next="Take the host out of service, then remove the older versions of these packages by `rpm -e NAME-VERSION`. "
    "`dnf remove --duplicates` does the same, but to every package on the host",
)
UNSIGNED_MODULE = Sentence(
    "keeping.key-missing",
    "Secure Boot is on, the NVIDIA module is on disk for the running kernel {kernel}, and it is not loaded",
    why="no key that signs modules was found in {keys}, so a module that was built on this host has no signature",
    next="See the refusal (journalctl -k | grep -i -e signature -e lockdown), then make a key and enroll it (mokutil --import)",
)
KEY_NOT_ENROLLED = Sentence(
    "keeping.key-not-enrolled",
    "Secure Boot is on, the NVIDIA module is on disk for the running kernel {kernel}, and it is not loaded",
    why="the firmware has no key by which modules are signed here: {keys}",
    next="Enroll it: mokutil --import {keys}, then reboot and confirm at the console",
)
SIGNATURES_ENFORCED = Sentence(
    "keeping.signatures-enforced",
    "Kernel {kernel} takes signed modules alone ({path}), the NVIDIA module is on disk for it, and it is not loaded",
    why="Secure Boot is off, so only the keys count with which this kernel was built",
    next="See the refusal (journalctl -k | grep -i -e signature -e lockdown), then install the modules that were signed for this kernel",
)
MODULE_KEPT_OUT = Sentence(
    "keeping.module-kept-out",
    "{path} keeps the NVIDIA module from being loaded, and the module is on disk for the running kernel {kernel}",
    why="a switch between GPUs (prime-select), a passthrough to virtual machines or a person has left a rule there",
    next="If containers shall have the GPUs, remove that rule (blacklist, install or alias of nvidia), "
    "make the initial RAM disk again, and reboot",
)
NOUVEAU_LOADED = Sentence(
    "keeping.nouveau-has-gpu",
    "nouveau has GPU {gpus}, so NVIDIA's driver cannot serve it",
    next="Keep nouveau out (blacklist nouveau in a file of /etc/modprobe.d), make the initial RAM disk again, and reboot",
)
NOUVEAU_NOT_KEPT_OUT = Sentence(
    "keeping.nouveau-not-kept-out",
    "Nothing keeps nouveau out: kernel {kernel} has it, and neither modprobe.d nor the kernel's command line forbids it",
    why="at the next boot it may take the GPUs before NVIDIA's module does",
    next="Install the driver's package again, or write blacklist nouveau to a file in /etc/modprobe.d and make the initial RAM disk again",
)
OPEN_ON_OLD_GPU = Sentence(
    "keeping.open-modules-old-gpu",
    "The open kernel modules are {state}, and GPU {gpus} is older than Turing",
    why="the open modules need the GPU System Processor, which Turing was the first to have",
    next="Install the proprietary modules of branch {branch} or older",
)
PROPRIETARY_ON_NEW_GPU = Sentence(
    "keeping.proprietary-modules-new-gpu",
    "The proprietary kernel modules are {state}, and GPU {gpus} needs the open ones",
    why="NVIDIA serves Blackwell, Grace and newer GPUs by the open modules alone",
    next="Install the open modules of the same driver",
)
PROPRIETARY_ON_GB10 = Sentence(
    "keeping.proprietary-modules-gb10",
    "The proprietary kernel modules are {state}, and NVIDIA supports GPU {gpus} by the open ones alone",
    why="some releases of the proprietary modules start a GB10 (580.159.03), and others do not (580.173.02)",
    next="Install the open modules of the same driver",
)
NO_DRIVER_FOR_OLD_GPU = Sentence(
    "keeping.no-driver-for-old-gpu",
    "Driver {release} does not serve GPU {gpus}, which is older than Turing",
    why="branch {branch} is the last one for Maxwell, Pascal and Volta",
    next="Install branch {branch}, and hold it there",
)
NOT_CHECKED = Sentence(
    "keeping.not-checked",
    "It is not known whether the driver of this host stays as it is",
    why="{problem}",
    next="Correct that, then run again",
)
