# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask apt which digests its lists state of packages.

apt makes one version of two files whose version, size and dependencies are equal, and then shows
the record of one repository alone, whatever its priority is (pkgCacheGenerator of apt-pkg). So apt
is asked as well whether its repositories disagree. Host side: standard library only, Python 3.6.
"""

import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import commands, host_files

OUTPUT = 32 * host_files.MIB  # of apt-cache: each version that the lists have
ANSWER_WITHIN = 120  # seconds
SHA256 = re.compile(r"[0-9a-f]{64}\Z")
SIZE = re.compile(r"[0-9]{1,15}\Z")
# `W: Sources disagree on hashes for supposedly identical version 'VERSION' of 'NAME:ARCH'.` The
# words differ from release to release, what is quoted does not (pkgAcqArchive in
# apt-pkg/acquire-item.cc).
QUOTED = re.compile(r"'([^']*)'")
MOST_QUOTED = 8  # of one line


def list_stated_digests(packages):
    """Return {(name, architecture, version): {(digest, size)}} as apt's lists state them; None if
    they were not read. None in place of the digests if repositories have different files of the
    version. packages: (name, architecture, version) of each.
    """
    if not packages:
        return {}
    # all of them whatever APT::Cache::AllVersions is: the installed one may not be the newest
    shown = ["apt-cache", "show", "--all-versions"]
    shown += [name_deb(name, arch) for name, arch, _version in packages]
    answer = commands.run(shown, timeout=ANSWER_WITHIN, cap=OUTPUT)
    if answer["rc"] != 0 or answer["truncated"]:
        return None
    stated = _read_stanzas(answer["stdout"].decode("utf-8", "replace"))
    listed = [package for package in map(tuple, packages) if package in stated]
    disputed = _list_disputed_versions(listed)
    if disputed is None:
        return None
    return {
        key: None if len(digests) > 1 or (key[0], key[2]) in disputed else digests
        for key, digests in stated.items()
    }


def name_deb(name, arch):
    """Return the name of a package as apt takes it."""
    return name if arch == "all" else "%s:%s" % (name, arch)


def _read_stanzas(text):
    """Return the digests of each version by the fields of `apt-cache show`."""
    stated = {}
    for stanza in text.split("\n\n"):
        fields = dict(
            re.findall(r"^(Package|Architecture|Version|SHA256|Size): (.*)$", stanza, re.M)
        )
        digest, size = fields.get("SHA256", "").strip(), fields.get("Size", "").strip()
        if SHA256.match(digest) and SIZE.match(size):
            key = tuple(fields.get(name, "") for name in ("Package", "Architecture", "Version"))
            stated.setdefault(key, set()).add((digest, int(size)))
    return stated


def _list_disputed_versions(packages):
    """Return {(name, version)} for which apt reports that its repositories disagree, None if it did
    not answer. It fetches nothing.
    """
    if not packages:
        return set()
    wanted = ["%s=%s" % (name_deb(name, arch), version) for name, arch, version in packages]
    asked = ["apt-get", "-qq", "download", "--print-uris"] + wanted
    answer = commands.run(asked, timeout=ANSWER_WITHIN)
    if answer["rc"] != 0 or answer["truncated"]:
        return None
    disputed = set()
    for line in answer["stderr"].decode("utf-8", "replace").splitlines():
        quoted = QUOTED.findall(line)[:MOST_QUOTED]
        disputed.update((name.partition(":")[0], version) for name in quoted for version in quoted)
    return disputed
