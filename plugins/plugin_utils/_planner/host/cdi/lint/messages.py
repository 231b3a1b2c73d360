# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the clauses about what a CDI spec breaks of the rules in one place. Its rule has the remedy."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

ABOVE_CAP = "cdiVersion is {given}, and not every engine here reads more than {cap}"
FOUND_ABOVE_CAP = Sentence("cdi-finding.above-cap", ABOVE_CAP)
FOUND_ABOVE_CAP_NEEDLESSLY = Sentence(
    "cdi-finding.above-cap-needlessly", f"{ABOVE_CAP}; its content needs {{lowest}} only"
)
FOUND_ANNOTATION_FORM = Sentence(
    "cdi-finding.annotation-form", "the annotation {name!r} is not a qualified name"
)
FOUND_ANNOTATIONS_LARGE = Sentence(
    "cdi-finding.annotations-too-large", "the annotations take {size} bytes, more than {limit}"
)
FOUND_PERMISSIONLESS = Sentence("cdi-finding.no-permissions", "the permissions of {node} are none")
FOUND_GROUPS = Sentence("cdi-finding.additional-groups", "additional groups {groups}")
FOUND_NET_DEVICES = Sentence(
    "cdi-finding.network-devices", "it moves network devices into containers"
)
FOUND_RELATIVE_PATH = Sentence("cdi-finding.relative-path", "{key} {path} is not absolute")
FOUND_FILE_MODE = Sentence("cdi-finding.file-mode", "fileMode {mode} of {node} is {mode:#o}")
FOUND_MOUNT_OPTION = Sentence(
    "cdi-finding.mount-option", "{option!r} of {mount} is not an option of a bind mount"
)
FOUND_MOUNT_TYPELESS = Sentence(
    "cdi-finding.mount-without-type", "the mount of {mount} has neither a type nor the option bind"
)
FOUND_HOOK_TIMEOUT = Sentence("cdi-finding.hook-timeout", "the timeout of {program} is {timeout}")
FOUND_HOOK_ARGUMENT = Sentence(
    "cdi-finding.hook-argument", "the first argument of {program} is {argument!r}"
)
FOUND_HOOK_IN_CONTAINER = Sentence(
    "cdi-finding.hook-in-container", "{program} runs in the container"
)
FOUND_TWICE = Sentence("cdi-finding.twice", "{name} is {done} twice, with other content")
FOUND_PATH_UNSENT = Sentence(
    "cdi-finding.path-not-sent",
    "{path} has a form that is not sent from a host, so it was not looked for",
)
FOUND_KIND = Sentence("cdi-finding.kind", "it is {kind}")
FOUND_LINK = Sentence("cdi-finding.link", "it is a link to {target}")
FOUND_MODE = Sentence("cdi-finding.mode", "its mode is {mode:04o}")
FOUND_ABSENT = Sentence("cdi-finding.absent", "{path} is not there")
FOUND_NO_NODE = Sentence("cdi-finding.no-node", "{path} is {kind}")
FOUND_NODE_TYPE = Sentence(
    "cdi-finding.node-type", "{path} is of type {live} on this host, recorded is {recorded}"
)
FOUND_NODE_NUMBERS = Sentence(
    "cdi-finding.node-numbers", "{path} is {live} on this host, recorded is {recorded}"
)
FOUND_NOT_RUNNABLE = Sentence("cdi-finding.not-runnable", "{program} cannot be run")
FOUND_OWNER = Sentence("cdi-finding.owner", "it belongs to {owner}")
FOUND_WRITABLE_BY_ALL = Sentence(
    "cdi-finding.writable-by-all", "its mode is {mode:04o}: everybody can write it"
)
FOUND_WRITABLE_BY_GROUP = Sentence(
    "cdi-finding.writable-by-group", "its mode is {mode:04o}: the group {group} can write it"
)
FOUND_DIRECTORY = Sentence("cdi-finding.directory", "it is a directory")
FOUND_LEFT_OVER = Sentence(
    "cdi-finding.left-over", "a writer of the reference library left it behind"
)
FOUND_ENDING = Sentence("cdi-finding.ending", "its name ends in {ending}")
FOUND_UNREADABLE = Sentence("cdi-finding.unreadable", "it could not be read")
FOUND_SECOND_DOCUMENT = Sentence("cdi-finding.second-document", "there is a second document in it")
FOUND_ELSEWHERE = Sentence("cdi-finding.elsewhere", "{others} has it, too")
FOUND_HIDDEN = Sentence("cdi-finding.hidden", "{winner} hides it")
FOUND_HIDDEN_EQUAL = Sentence("cdi-finding.hidden-equal", "{winner} hides it, with equal content")
