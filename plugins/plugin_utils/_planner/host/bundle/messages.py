# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about archives of packages, and the repositories that they come from."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

UNUSABLE = "this archive of packages cannot be used"
MIRROR = "Ask the operator of the repository, or name another one"
MAKE_AGAIN = "Make it again with gpufleet.nvidia.bundle, or copy it again"
MAKE_FITTING = "Make an archive that has it, see gpufleet.nvidia.bundle"

# ---------------------------------------------------------------- archives
DAMAGED_ARCHIVE = Sentence("bundle.damaged", UNUSABLE, why="{odd}", next=MAKE_AGAIN)
UNREADABLE_ARCHIVE = Sentence(
    "bundle.unreadable",
    UNUSABLE,
    why="{cause}",
    next="Name a file of this controller in gpufleet_bundle_file",
)
NOT_A_FILE = Sentence(
    "bundle.not-a-file",
    UNUSABLE,
    why="it is not a regular file",
    next="Name a file of this controller in gpufleet_bundle_file",
)
REPLACED_ARCHIVE = Sentence(
    "bundle.replaced",
    UNUSABLE,
    why="{name} is not what it was when this run began",
    next="Leave the file alone while hosts are changed",
)
OTHER_KEY = Sentence(
    "bundle.other-key",
    UNUSABLE,
    why="the fingerprint of its key is {found}, and its manifest has {wanted}",
    next=MAKE_AGAIN,
)
EXPIRED_KEY = Sentence(
    "bundle.expired-key",
    UNUSABLE,
    why="its key expired at {time}, and package managers refuse it",
    next="Make it again with gpufleet.nvidia.bundle, which takes the renewed key",
)
VERSION_MISSING = Sentence(
    "bundle.version-missing",
    UNUSABLE,
    why="gpufleet_toolkit_version is {wanted}, and {place} has {known}",
    next=MAKE_FITTING,
)
OTHER_FORMAT = Sentence(
    "bundle.other-format",
    UNUSABLE,
    why="it is for {known}, and this host is {host}",
    next="Make one with these in gpufleet_bundle_formats and gpufleet_bundle_architectures",
)
INSTALLED_VERSION_MISSING = Sentence(
    "bundle.installed-version-missing",
    UNUSABLE,
    why="this host has the toolkit's packages in version {installed}, and needs more of them; the archive has {known}",
    next="Set gpufleet_toolkit_version to a version of the archive, which changes all of them. "
    + MAKE_FITTING,
)

# ---------------------------------------------------------------- repositories that an archive is
# made of
FILE_OUTSIDE = Sentence(
    "bundle.file-outside",
    "the repository names the file {path}",
    why="a name has to lead to a place within the repository",
    next=MIRROR,
)
WEAK_DIGEST = Sentence(
    "bundle.weak-digest",
    "the repository has no digest of {name} that is strong enough",
    why="it needs one of {digests}",
    next=MIRROR,
)
NOT_FLAT = Sentence(
    "bundle.not-flat",
    "the repository is not a flat one of packages for apt",
    why="its Release names no Packages file beside it",
    next=MIRROR,
)
NOT_RPM = Sentence(
    "bundle.not-rpm",
    "the repository is not one of packages for rpm",
    why="its repomd.xml names no primary index",
    next=MIRROR,
)
NOT_XML = Sentence(
    "bundle.not-xml", "the repository's metadata is not XML", why="{cause}", next=MIRROR
)
PACKAGES_MISSING = Sentence(
    "bundle.packages-missing",
    "the repository does not have the toolkit's packages",
    why="it needs {packages}",
    next=MIRROR,
)
VERSION_NOT_OFFERED = Sentence(
    "bundle.version-not-offered",
    "the repository does not have the toolkit's packages in version {wanted}",
    next="Name one of those in gpufleet_bundle_versions, or none for the newest. It has {known}",
)
FILE_MISSING = Sentence(
    "bundle.file-missing",
    "the repository does not have this file",
    why="the archive needs it",
    next=MIRROR,
)
LIST_MISSING = Sentence(
    "bundle.list-missing",
    "the repository does not have its list of packages",
    why="none that its Release names is there",
    next=MIRROR,
)
OTHER_FILE = Sentence(
    "bundle.other-file",
    "the repository's file is not the one that it has signed",
    why="the signed metadata has another {algorithm} or size for it",
    next=MIRROR,
)
UNPACKABLE = Sentence(
    "bundle.unpackable", "the repository's index cannot be unpacked", why="{cause}", next=MIRROR
)
NO_FILE_NAMED = Sentence(
    "bundle.no-file-named",
    "no file is named for the archive",
    next="Name one in gpufleet_bundle_file, for example gpufleet-bundle.tar",
)
NO_KEY = Sentence(
    "bundle.no-key",
    "there is no key for the repository",
    why="its signature could not be verified",
    next="Give the armored text of its key in gpufleet_toolkit_key",
)
ONE_ADDRESS = Sentence(
    "bundle.one-address",
    "one address cannot be that of several repositories",
    why="several architectures or formats are asked for",
    next="Write $(ARCH) or $basearch in place of the architecture, or make one archive for each",
)
NO_GPGV = Sentence(
    "bundle.no-gpgv",
    "signatures cannot be verified on this controller",
    why="there is no gpgv",
    next="Install gnupg (the package gpgv on Debian, gnupg2 on RHEL) on this controller",
)
SIGNATURE = Sentence(
    "bundle.signature",
    "the signature of the repository does not count",
    why="{cause}",
    next="Name the repository's own key in gpufleet_toolkit_key, or another repository",
)

# ---------------------------------------------------------------- why a manifest is none
MANIFEST_NOT_JSON = Sentence("bundle.manifest-not-json", "its {name} is not JSON")
MANIFEST_SCHEMA = Sentence(
    "bundle.manifest-schema", "its schema is {schema}, and this release reads {known}"
)
MANIFEST_KEY_FILE = Sentence("bundle.manifest-key-file", "key.file is {file}, which is not {known}")
MANIFEST_EMPTY = Sentence("bundle.manifest-empty", "it has no repository")
MANIFEST_NAMES_TWICE = Sentence(
    "bundle.manifest-names-twice", "it names a file or a repository twice"
)
MANIFEST_LISTS_DIFFER = Sentence(
    "bundle.manifest-lists-differ", "{file} is in one of the lists of its {name} only"
)
MANIFEST_KIND = Sentence(
    "bundle.manifest-kind",
    "it has a repository of the kind {form} for {machine}, which is not known",
)
MANIFEST_REPOSITORY_EMPTY = Sentence(
    "bundle.manifest-repository-empty", "its repository {place} is empty"
)
MANIFEST_SIZE = Sentence("bundle.manifest-size", "the size of {name} is {size}")
MANIFEST_VALUE = Sentence(
    "bundle.manifest-value", "{where} has the value {value}, which is not allowed there"
)
MANIFEST_NO_OBJECT = Sentence("bundle.manifest-no-object", "{where} is not an object")
MANIFEST_NO_LIST = Sentence("bundle.manifest-no-list", "{where} is not a list")

# what is wrong with an archive
ARCHIVE_WITHOUT_MANIFEST = Sentence(
    "bundle.archive-without-manifest", "it does not begin with a {name}"
)
ARCHIVE_HOLDS_UNLISTED = Sentence(
    "bundle.archive-holds-unlisted",
    "it holds {file}, which its {name} does not list, or lists once",
)
ARCHIVE_OTHER_BYTES = Sentence(
    "bundle.archive-other-bytes", "{file} has not the bytes that its {name} says"
)
ARCHIVE_EMPTY = Sentence("bundle.archive-empty", "it is empty")
ARCHIVE_LACKS = Sentence("bundle.archive-lacks", "{file} is missing in it")
ARCHIVE_HOLDS_ODD = Sentence(
    "bundle.archive-holds-odd", "it holds {file}, which is not a regular file"
)
ARCHIVE_TRUNCATED = Sentence(
    "bundle.archive-truncated", "it is truncated, or no tar archive: {cause}"
)

# why a repository's signature does not count
GPGV_LATE = Sentence("bundle.gpgv-late", "gpgv did not end within {seconds} s")
SIGNING_KEY_EXPIRED = Sentence(
    "bundle.key-expired", "its key has expired; the repository's operator may have renewed it"
)
GPGV_REFUSES = Sentence("bundle.gpgv-refuses", "gpgv says {word}")
OTHER_KEY_SIGNED = Sentence(
    "bundle.other-key-signed", "gpgv says {word}: another key has signed it"
)
NOT_SIGNED_BY_KEY = Sentence(
    "bundle.not-signed-by-key", "it has no signature of the key {fingerprint}"
)
