# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the clauses about what a file, a command, an address or a registry outside a host answers."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

OUTSIDE_FILE_UNREADABLE = Sentence("outside.file-unreadable", "{file}: {cause}")
OUTSIDE_FILE_FOREIGN = Sentence(
    "outside.file-foreign", "{file} is not sent, since it belongs to the user {owner} now"
)
OUTSIDE_HTTP_STATUS = Sentence("outside.http-status", "{address}: HTTP Error {status}: {reason}")
OUTSIDE_REDIRECT = Sentence(
    "outside.redirect",
    "{address}: HTTP Error {status}: {reason}, a redirect, which is not followed: set the address that it leads to",
)
OUTSIDE_ADDRESS_FORM = Sentence(
    "outside.address-form",
    "{address}: the address cannot be asked, since it has a space or a port that is not a number",
)
OUTSIDE_NOT_REACHED = Sentence("outside.not-reached", "{address}: {cause}")
OUTSIDE_NO_FILE_FOR_LINES = Sentence(
    "outside.no-file-for-lines", "{file}: it is not a file that lines can be added to"
)
OUTSIDE_NOT_WRITTEN = Sentence("outside.not-written", "{file}: {cause}")
OUTSIDE_COMMAND_LATE = Sentence("outside.command-late", "{command} did not end within {seconds} s")
OUTSIDE_COMMAND_UNRUN = Sentence("outside.command-not-run", "{command}: {cause}")
OUTSIDE_COMMAND_FAILED = Sentence("outside.command-failed", "{command} ended with {status}")
OUTSIDE_COMMAND_SAYS = Sentence(
    "outside.command-failed-saying", "{command} ended with {status}: {line}"
)
OUTSIDE_TEXT_LATE = Sentence("outside.text-late", "it was not there within {seconds} s")
OUTSIDE_TEXT_TOO_LONG = Sentence("outside.text-too-long", "it is longer than {limit} bytes")
OUTSIDE_BYTES_SLOW = Sentence("outside.bytes-too-slow", "{size} bytes came in {seconds:.0f} s")
OUTSIDE_ANSWER_LATE = Sentence(
    "outside.answer-late", "there was no whole answer within {seconds:.0f} s"
)

# what a registry answers, or its file of credentials
REGISTRY_WANTS_LOGIN = Sentence(
    "registry-answer.wants-login",
    "it wants credentials that it accepts (HTTP {status}); {file} was read",
)
REGISTRY_FORBIDS = Sentence(
    "registry-answer.forbids", "these credentials may not read it (HTTP {status}); {file} was read"
)
REGISTRY_HAS_NOT = Sentence("registry-answer.has-not", "it has no such image (HTTP {status})")
REGISTRY_TOO_MANY_REQUESTS = Sentence(
    "registry-answer.too-many-requests", "it has had too many requests from here (HTTP {status})"
)
REGISTRY_FAILED = Sentence("registry-answer.failed", "it failed (HTTP {status})")
REGISTRY_REFUSES = Sentence("registry-answer.refuses", "it refuses (HTTP {status})")
REGISTRY_REDIRECTS_PLAIN = Sentence(
    "registry-answer.redirects-to-plain", "it sends on to an address without TLS"
)
REGISTRY_OTHER_DIGEST = Sentence(
    "registry-answer.other-digest", "its answer has another digest than the one that was asked for"
)
REGISTRY_TOO_MANY_TAGS = Sentence("registry-answer.too-many-tags", "it has more than {limit} tags")
REGISTRY_TOO_MANY_PAGES = Sentence(
    "registry-answer.too-many-pages", "it has more than {limit} pages of tags"
)
REGISTRY_REALM_FORM = Sentence(
    "registry-answer.realm-form", "it names a place for tokens that is not an address"
)
REGISTRY_REALM_KIND = Sentence(
    "registry-answer.realm-kind",
    "it names a server of tokens that is not asked: its address is of another kind than the registry's",
)
REGISTRY_TOO_LARGE = Sentence(
    "registry-answer.too-large", "it gives more than a document of an image can have"
)
REGISTRY_SLOW = Sentence(
    "registry-answer.too-slow", "it did not give a whole answer within {seconds} s"
)
REGISTRY_CERTIFICATE = Sentence(
    "registry-answer.certificate", "its certificate or its TLS is not accepted"
)
REGISTRY_PLAIN = Sentence("registry-answer.no-tls", "it speaks no TLS")
REGISTRY_LATE = Sentence("registry-answer.late", "it did not answer within {seconds} s")
REGISTRY_NOT_JSON = Sentence(
    "registry-answer.not-json", "it answers with something that is not JSON"
)

# what is wrong with a file of the controller
FILE_NOT_UTF8 = Sentence("controller-file.not-utf-8", "it is not UTF-8 text")
CLAIMS_WRITABLE = Sentence("controller-file.writable-by-others", "others may write to it")
NO_LIST_OF_TASKS = Sentence("controller-file.no-list-of-tasks", "it is not a list of tasks")
NOT_A_TASK = Sentence("controller-file.not-a-task", "{task!r} is not a task")

# --- what to do about them

READ_BY_SKOPEO = (
    "Read the image with `skopeo inspect`, and name that file as `inspected` in the catalogue"
)
TRUST_OWN_CA = (
    "Make its CA one that this machine trusts, or name the CA's file by SSL_CERT_FILE in the environment; or read the image with "
    "`skopeo inspect`, and name that file as `inspected` in the catalogue"
)
LOG_IN = (
    "Log in with `skopeo login` or `podman login`, which write such a file; "
    "credential helpers (credHelpers, credsStore) are not asked"
)
LOG_IN_AS_OTHER = "Log in as a user who may"
CORRECT_IMAGE_NAME = "Correct the name, the tag or the digest"
WAIT_FOR_REGISTRY = "Wait, log in, or read the image once with `skopeo inspect` and name that file"
REACH_ADDRESS = (
    "See that the controller reaches this address, through https_proxy where it needs a proxy"
)
NAME_CATALOGUE = "Name a file of this controller, or give the catalogue itself"
WRITE_DESCRIPTION = "Write the output of skopeo inspect or docker image inspect to that file of this controller, or name another one"
