# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about packages of a driver that are kept before a change."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

NOT_KEPT = "The way back to {packages} is not on this host"
FILE_GONE = Sentence(
    "kept.no-file",
    NOT_KEPT,
    why="the package manager has its file no more, and the repositories do not offer this version",
    next="To have it the next time, let the package manager keep files (dnf: keepcache=1, zypper: keeppackages=1)",
)
DIGEST_UNSTATED = Sentence(
    "kept.no-digest",
    NOT_KEPT,
    why="the package manager has a file, and states no digest to compare it with",
    next="Keep the file yourself if you trust it",
)
DIGESTS_DIFFER = Sentence(
    "kept.digests-differ",
    NOT_KEPT,
    why="apt's lists state several files of this version, and nothing says which of them is installed",
    next="See which repositories have it (apt-cache policy PACKAGE), and take the other one out",
)
OTHER_DIGEST = Sentence(
    "kept.other-digest",
    NOT_KEPT,
    why="the file is not the package that is installed, by the digest that the package manager states",
    next="See who has replaced it, and clear the cache of the package manager",
)
NOT_FETCHED = Sentence(
    "kept.not-fetched",
    NOT_KEPT,
    why="apt could not fetch it in this version, or not in time",
    next="See why (apt-get download PACKAGE=VERSION)",
)
MOST_PACKAGES_KEPT = Sentence(
    "kept.too-many", NOT_KEPT, why="{most} packages are kept at most", next="Keep it yourself"
)
TOO_LARGE = Sentence(
    "kept.too-large", NOT_KEPT, why="{bytes} bytes are kept at most", next="Keep it yourself"
)
NO_ROOM = Sentence(
    "kept.no-room",
    NOT_KEPT,
    why="less than {reserve} bytes would be left on the file system of {path}",
    next="Make room there",
)
FILE_NOT_COPIED = Sentence(
    "kept.not-copied",
    NOT_KEPT,
    why="its file could not be read or copied",
    next="See whether {path} can be written to",
)
PACKAGE_GONE = Sentence(
    "kept.gone",
    NOT_KEPT,
    why="the package manager does not have it as installed any more",
    next="See which program has removed it, and run again",
)
NOT_WHOLE = Sentence(
    "kept.half-installed",
    NOT_KEPT,
    why="dpkg has not finished it, so the installed driver is incomplete",
    next="Take the host out of service, then run `dpkg --configure -a`",
)
MANAGER_SILENT = Sentence(
    "kept.unread",
    NOT_KEPT,
    why="the package manager has failed to tell about it, or was too slow",
    next="See why (dpkg-query -W, apt-cache show, apt-get download --print-uris PACKAGE, rpm -q)",
)
CACHE_UNREAD = Sentence(
    "kept.cache-unread",
    NOT_KEPT,
    why="the cache of the package manager could not be searched as a whole",
    next="See why, or clear that cache (dnf clean packages, zypper clean)",
)
COPY_LOST = Sentence(
    "kept.lost",
    NOT_KEPT,
    why="it was kept when the change began, and is in {path} no more",
    next="Make sure that you can install the earlier driver yourself",
)
BEGUN_BEFORE = Sentence(
    "kept.begun-before",
    "A change of the driver was begun on this host and never judged, so the packages of that time stay: {kept} are kept, {left} are not",
    next="Let this run go on, which judges the host",
)
RECORD_UNREAD = Sentence(
    "kept.record-unread",
    "A change of the driver has begun on this host, and {path} does not tell which packages were kept for it",
    next="See what is in that folder",
)
NOTE_GONE = Sentence("kept.record-gone", "{path} is gone, which had noted it")
NONE_INSTALLED = Sentence(
    "kept.none-installed",
    "No package of an NVIDIA driver is installed, so that none is kept before your change",
    why="a driver that came another way (a .run file, an image, a driver container) is in no package manager",
    next="Make sure that you can install the earlier driver yourself",
)
HELD_BY_PERSON = Sentence(
    "kept.held-by-a-person",
    "{packages} are held by a person on this host, so that your change may not move them",
    next="Release them yourself, or let your tasks do it",
)
HOLD_ENDS = Sentence(
    "kept.hold-ends",
    "The hold of this collection on {packages} is taken back for your change, and stays so with gpufleet_driver: {policy}",
    next="Converge the host with gpufleet_driver: hold after the change, before something moves the driver by itself",
)
KEEPING_FAILED = Sentence(
    "kept.not-prepared",
    "the change of the driver was not prepared on this host: {problem}",
    next="Correct that, then run again. Your tasks did not run here",
)
KEEPING_UNREACHABLE = Sentence(
    "kept.unreachable",
    "the host was not reached before the change of its driver: {problem}",
    next="Reach it, then run again. Your tasks did not run here",
)
PACKAGES_DEMANDED = Sentence(
    "kept.demanded",
    "not all packages of the driver are kept on this host, and gpufleet_rollout_keep_packages is require",
    why="{causes}",
    next="Correct that, or set gpufleet_rollout_keep_packages to try. Your tasks did not run here",
)
NOT_SETTLED = Sentence(
    "kept.not-settled",
    "the change of the driver was judged, and that could not be noted on this host: {problem}",
    next="Correct that, then run again",
)
KEPT_NOT_REMOVED = Sentence(
    "kept.not-removed",
    "{path} could not be removed: {problem}",
    next="Remove it yourself",
)
UNJUDGED = Sentence(
    "kept.unjudged",
    "A change of the driver that began on {since} was not judged on this host; before it, the driver was {release}",
    next="Run the rollout again, which takes this host first",
)
RELEASE_CUT_OFF = Sentence(
    "kept.release-cut-off",
    "A run ended on this host while it released the driver's packages for your change, so some of them may not be held any more",
    next="Run the rollout again, or converge the host with gpufleet_driver: hold, which holds them again",
)
CHANGE_TAKEN_UP = Sentence(
    "kept.taken-up",
    "another run has taken up the change of the driver on this host (gpufleet_rollout_id: {rollout})",
    why="both runs were at work on the host, so this judgement may be of the other run's driver",
    next="Let the other run end, then run again. Give each rollout hosts of its own",
)
