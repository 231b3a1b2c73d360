# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about a driver that is held."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

HOLD = Sentence(
    "hold.wanted",
    "gpufleet_driver is hold, so the packages of the driver {release} stay together",
)
RECORD = Sentence("hold.record", "the date, the reason and the packages of the hold")
BLACKLIST = Sentence(
    "hold.blacklist", "unattended-upgrades leaves out what is held, and says so in its log"
)
HOLD_WITHDRAWN = Sentence("hold.withdrawn", "the hold of this collection is taken back")
NO_PART = Sentence(
    "hold.no-part", "it is no longer a part of the driver, so this collection releases it"
)
OUTDATED = Sentence(
    "hold.lock-outdated",
    "the driver {release} is installed, and the lock of this collection names another version",
)
HOLD_RECORD_BROKEN = Sentence(
    "hold.record-broken",
    "the record of the hold cannot be read, so the packages in it would stay held",
    why="this collection wrote it, and its text was changed since",
    next="Release the packages yourself, remove the file, then run again",
)
NOT_WITHDRAWN = Sentence(
    "hold.not-withdrawn",
    "A hold of this collection may be left on this host, since {path} says nothing: {problem}",
    next="Release the packages yourself, and remove the file",
)
NOTHING_INSTALLED = Sentence(
    "hold.nothing-installed",
    "gpufleet_driver is hold, and no package of an NVIDIA driver is installed on this host",
    why="a driver that came another way (a .run file, an image, a driver container) is moved by no package manager",
    next="Set gpufleet_driver to advise for this host, or install the driver by packages first",
)
DRIVER_UNFINISHED = Sentence(
    "hold.unfinished",
    "a run of the package manager has left the driver unfinished, and holding it would keep it so: {packages}",
    why="the run was interrupted or has failed",
    next="Finish it while the host is out of service (dpkg --configure -a, dnf remove --duplicates), then run again",
)
ANOTHER_RUNS = Sentence(
    "hold.another-runs",
    "the packages of this host have the driver {release}, and the driver {running} serves its GPUs",
    why="that one came another way, such as by a .run file, and a hold of the packages does not keep it",
    next="Remove the packages that are left over, or install the driver by packages and reboot, then run again",
)
SEVERAL_RELEASES = Sentence(
    "hold.several-releases",
    "the packages of the driver have several versions, and holding them would keep it so",
    why="the libraries are of {release}, and {odd} differ",
    next="Install all of them in one version, or set gpufleet_driver to advise, then run again",
)
CANNOT_HOLD = Sentence(
    "hold.cannot-hold",
    "the packages of this host cannot be held",
    why="it has none of apt, dnf and zypper, or it is a tree in which no program runs",
    next="Set gpufleet_driver to advise for this host",
)
NO_VERSIONLOCK = Sentence(
    "hold.no-versionlock",
    "dnf cannot hold packages here: its plugin versionlock is missing ({path})",
    next="Install python3-dnf-plugin-versionlock (in older releases dnf-plugin-versionlock), then run again",
)
VERSIONLOCK_OFF = Sentence(
    "hold.versionlock-off",
    "this file switches dnf's plugin versionlock off, so dnf would heed no lock",
    why="`enabled` of the plugin or `plugins` of dnf is 0 in it",
    next="Switch the plugin on, or set gpufleet_driver to advise for this host, then run again",
)
LOCKS_DISTRUSTED = Sentence(
    "hold.locks-distrusted",
    "this file names another file for dnf's locks (locklist), and a lock in it may not last",
    why="{why}",
    next="Name a file that root alone can change, on its whole path, then run again",
)
LOCKS_LEFT = Sentence(
    "hold.locks-left",
    "Locks of this collection may be left for {packages}: {path} names another file for dnf's locks (locklist), which is not edited",
    why="{why}",
    next="Take the locks of these packages out of that file yourself",
)
LIST_UNREAD = Sentence("hold.list-unread", "its path has a form that is not read here")
LOCKED_OTHERWISE = Sentence(
    "hold.locked-otherwise",
    "a lock in this file lets other versions in than {package}, which is installed: {lock}",
    why="dnf installs what any lock of a package names, so a hold beside it would keep nothing",
    next="Delete that lock (dnf versionlock delete), or install the version that it names, then run again",
)
LOCKS_UNREAD = Sentence(
    "hold.locks-unread",
    "this file of locks cannot be read: line {line} does not have the form of a lock",
    why="a hold that is added to it might not count",
    next="Correct that line, then run again",
)
RECORD_OF_OTHERS = Sentence(
    "hold.record-of-others",
    "this file is not of this collection, which would write it",
    next="Move it away, then run again",
)
BEGINS = Sentence("hold.begins", "The hold of the driver {release} begins with this run: {reason}")
HELD_SINCE = Sentence(
    "hold.since",
    "The driver {release} has been held since {since} ({days} days): {reason}",
)
NO_DRIVER = Sentence(
    "hold.no-driver",
    "gpufleet_driver is hold, and nothing is held on this host: {evidence}",
)
DRIVER_OUTSIDE = Sentence(
    "hold.driver-outside",
    "this host is a container ({kind}), and its driver is that of the host outside",
)
PINNED = Sentence(
    "hold.pinned",
    "{path} pins {packages} at the installed version, too, and this collection leaves it as it is",
)
NO_REASON = Sentence("hold.no-reason", "no reason was given (gpufleet_driver_hold_reason)")
HELD_BACK = Sentence(
    "hold.keeps-back",
    "The hold keeps back {version} of the driver, which the repositories of this host have; {release} is installed",
    next="See whether it corrects a weakness (https://www.nvidia.com/en-us/security/), and move the driver when the host is out of service",
)
HELD_BY_OTHERS = Sentence(
    "hold.of-others",
    "{packages} were held before this collection came, and stay held when it goes",
)
