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
    "gpufleet_driver is hold, so that the packages of the driver {release} stay as one",
)
RECORD = Sentence("hold.record", "the date, the reason and the packages of the hold")
BLACKLIST = Sentence(
    "hold.blacklist", "unattended-upgrades leaves out what is held, and says so in its log"
)
HOLD_WITHDRAWN = Sentence("hold.withdrawn", "the hold of this collection is taken back")
NO_PART = Sentence(
    "hold.no-part",
    "it is no longer a part of what has to stay together, so that the hold of this collection is taken back",
)
HOLD_RECORD_BROKEN = Sentence(
    "hold.record-broken",
    "the record of the hold cannot be read, so that the packages in it would stay held",
    why="it is of this collection, and its text was changed since",
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
HELD_SINCE = Sentence(
    "hold.since",
    "The driver {release} is held since {since} ({days} days): {reason}",
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
