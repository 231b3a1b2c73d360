# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of rules for CDI specs: the demand, what an engine does if it is broken, and the
remedy.

`error`: a device is lost, or a container with it does not start or gets no working GPU. `warning`:
it works, with a risk. `note`: worth knowing. Effects are those of the reference library
(container-device-interface). Each engine carries a release of it.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    end_with_code,
    get_values,
)

LOST = "Engines drop the whole file, mostly without a word, and its devices are unresolvable"
NO_START = "A container with this device does not start"
CRASH = "Engines crash on it, as often as they read it: a null pointer in the reference library"
LAST_WINS = "The last one wins, the others are lost"
# Nodes of NVIDIA's driver and programs of its toolkit. Other vendors, and NVIDIA's other products,
# have packages of their own.
NVIDIAS = re.compile(
    r"/dev/nvidia(?:\d+|ctl|-uvm|-uvm-tools|-modeset|-nvswitch\w+|-caps(?:-imex-channels)?/.+)|/.*/nvidia-(?:cdi-hook|ctk)"
)
BLOCK = "A container with this device does not start where the OCI runtime checks it, as runc does"


@dc.dataclass(frozen=True)
class LintRule:
    """A rule: what it demands, what an engine does when it is broken, and the remedy.

    of_nvidia: the remedy for a node of NVIDIA's driver or a program of NVIDIA's toolkit; '' if it
    is the same.
    """

    level: Literal["error", "warning", "note"]
    what: str
    effect: str
    remedy: str
    of_nvidia: str = ""


def build_rule_code(rule: str) -> str:
    """Return the code of a rule by its id."""
    return f"cdi-lint.{rule}"


def _build_lost_rule(what: str, remedy: str) -> LintRule:
    return LintRule("error", what, LOST, remedy)


RULES: Mapping[str, LintRule] = {
    # The file
    "unreadable": _build_lost_rule(
        "A spec can be read", "Make it a readable regular file, or remove it"
    ),
    "hangs": LintRule(
        "error",
        "A spec is a regular file",
        "Engines block on it forever, and so does every container start",
        "Remove it",
    ),
    "not-looked-at": LintRule(
        "warning",
        "A spec is of ordinary size",
        "Engines read it; this check did not",
        "Make the file smaller",
    ),
    "not-read": LintRule(
        "warning",
        "A spec is written in a form of YAML that CDI tools write",
        "Engines read it; this check did not, since it could not tell what of the text is a secret",
        "Write it as JSON, or as YAML without tags, directives, complex keys and values of several lines within brackets",
    ),
    "outside": LintRule(
        "warning",
        "A spec lies in a CDI directory, also where it is reached by a link",
        "Engines follow the link; this check did not, since it reads no other files of a host",
        "Put the file itself there",
    ),
    "empty": _build_lost_rule("A spec is not empty", "Write it again, or remove the file"),
    "yaml": _build_lost_rule("A spec is YAML or JSON", "Fix the text, or generate the file again"),
    "duplicate-key": _build_lost_rule("No key is there twice", "Remove one of the two"),
    "unknown-field": _build_lost_rule(
        "Every field is one of the specification", "Correct its spelling and place, or remove it"
    ),
    "wrong-type": _build_lost_rule("Every value is of the field's type", "Correct the value"),
    "null-entry": LintRule("error", "No entry of a list is empty", CRASH, "Remove the entry"),
    "changed-text": LintRule(
        "warning",
        "Text that looks like a number, or like yes or no, stands in quotes",
        "Engines with a CDI library before 1.1.1 take the number or the truth value, and write that as text: "
        "08 becomes 8, yes becomes true. Later ones read it as it is written",
        "Put it in quotes",
    ),
    "field-twice": LintRule(
        "error",
        "No field is there in two spellings",
        "Engines with CDI library 1.1.1 drop the whole file. In earlier ones one spelling wins by the order of its letters",
        "Remove one",
    ),
    "merged-key": LintRule(
        "warning",
        "A merge of YAML brings no key that is there besides",
        "Engines with a CDI library before 1.1.1 drop the whole file",
        "Remove one of the two",
    ),
    "field-case": LintRule(
        "error",
        "Fields are spelled as in the specification",
        "Engines with CDI library 1.1.1 drop the whole file. Earlier ones accept any case of letters",
        "Write it as the specification does",
    ),
    "second-document": LintRule(
        "warning",
        "A file is one YAML document",
        "Engines read the first document only",
        "Make two files of it",
    ),
    # The content, as the reference library checks it
    "version-unknown": _build_lost_rule(
        "cdiVersion is one that the library knows",
        "Write a released version, the lowest that the content needs",
    ),
    "version-too-low": _build_lost_rule(
        "cdiVersion is at least what the content needs",
        "Raise cdiVersion, or remove what needs more",
    ),
    "vendor": _build_lost_rule(
        "The vendor is a name of letters, digits, dots, dashes and underscores",
        "Correct kind: vendor/class, nvidia.com/gpu",
    ),
    "class": _build_lost_rule(
        "The class is a name of letters, digits, dots, dashes and underscores",
        "Correct kind: vendor/class, nvidia.com/gpu",
    ),
    "short-name": LintRule(
        "error",
        "Vendor and class have two characters or more",
        "Engines with a CDI library before 1.1.1 crash on it",
        "Use a longer name",
    ),
    "device-name": _build_lost_rule(
        "A device name consists of letters, digits, dots, colons, dashes and underscores",
        "Rename the device",
    ),
    "device-twice": _build_lost_rule(
        "A device is in a file once", "Remove or rename one of the two"
    ),
    "no-devices": _build_lost_rule("A spec has devices", "Remove the file, or add a device"),
    "empty-edits": _build_lost_rule(
        "A device changes something in a container", "Give it containerEdits, or remove the device"
    ),
    "env": _build_lost_rule("An environment variable is NAME=value", "Write NAME=value"),
    "node-path": _build_lost_rule("A device node has a path", "Write its path"),
    "node-type": _build_lost_rule(
        "A device node is of type b, c, u or p", "Write c, or leave the type out"
    ),
    "node-permissions": _build_lost_rule(
        "Permissions are of the letters r, w and m, or none", "Write rwm, or leave them out"
    ),
    "no-permissions": LintRule(
        "warning",
        "A container may open a device node",
        "Engines with CDI library 1.1.1 give the node without access to it. Earlier ones drop the whole file",
        "Write rwm, or remove the node",
    ),
    "hook-name": _build_lost_rule(
        "A hook has one of the six names of the OCI specification",
        "Write createContainer, for example",
    ),
    "hook-path": _build_lost_rule("A hook has a path", "Write the path of its program"),
    "mount-path": _build_lost_rule("A mount has a host path and a container path", "Write both"),
    "closid": _build_lost_rule("closID is a file name", "Correct it"),
    "net-device": _build_lost_rule(
        "Network devices have two names, each only once", "Correct the names"
    ),
    # The content, which the reference library does not check
    "above-cap": LintRule(
        "warning",
        "cdiVersion is not above what the host's engines read",
        "An engine whose library does not know the version drops the whole file",
        "Lower cdiVersion as far as the content allows",
    ),
    "relative-path": LintRule("error", "Paths are absolute", NO_START, "Write the whole path"),
    "annotation": LintRule(
        "note",
        "Annotations follow the rules of Kubernetes",
        "Engines accept them, other tools may not",
        "Correct the key",
    ),
    "double-mount": LintRule(
        "warning", "A place in the container is mounted once", LAST_WINS, "Remove one of them"
    ),
    "double-node": LintRule(
        "warning", "A node in the container is made once", LAST_WINS, "Remove one of them"
    ),
    "double-env": LintRule("warning", "A variable is set once", LAST_WINS, "Remove one of them"),
    "file-mode": LintRule(
        "warning",
        "fileMode is a decimal number of permission bits",
        "The node gets odd permissions",
        "Write 438 for 0666, 432 for 0660",
    ),
    "mount-option": LintRule(
        "warning",
        "Mount options are known",
        "runc hands an unknown option to the kernel as data, which refuses it for a bind mount",
        "Correct or remove it",
    ),
    "mount-type": LintRule(
        "warning", "A bind mount has the option bind or rbind", BLOCK, "Add rbind"
    ),
    "hook-timeout": LintRule(
        "error", "A timeout is above zero", BLOCK, "Write seconds, or leave it out"
    ),
    "hook-arguments": LintRule(
        "warning",
        "The first argument of a hook is the program's name",
        "The program misses its first argument, which is taken for its name",
        "Put the program's name in front",
    ),
    "hook-in-container": LintRule(
        "note",
        "startContainer hooks run in the container",
        "Their program is looked for in the image, not on the host",
        "Use createContainer for a program of the host",
    ),
    "additional-gids": LintRule(
        "note",
        "Groups exist for rootless engines as well",
        "Rootless Podman fails or warns where it cannot map the group",
        "Leave additionalGids out where rootless engines read this",
    ),
    "net-runtime": LintRule(
        "note",
        "The OCI runtime knows network devices",
        "Older releases of runc and crun refuse linux.netDevices",
        "Update the runtime",
    ),
    # The directories
    "directory": LintRule(
        "error",
        "A CDI directory is a directory",
        "Engines read nothing there, and with CDI library 1.1.1 nothing of the directories after it",
        "Make it a directory",
    ),
    "directory-link": LintRule(
        "error",
        "A CDI directory is not a link",
        "Engines with a CDI library before 1.1.1 read nothing there",
        "Make it a directory, or set the directories of the engine to the place that it leads to",
    ),
    "directory-mode": LintRule(
        "warning",
        "Everybody can list a CDI directory",
        "Rootless engines see no device of it, and with CDI library 1.1.1 none of the directories after it",
        "chmod 0755",
    ),
    "mode": LintRule(
        "warning", "Everybody can read a spec", "Rootless engines lose its devices", "chmod 0644"
    ),
    "writable": LintRule(
        "error",
        "Only root can write what engines trust",
        "Whoever can write it becomes root: hooks of a spec run as root on the host",
        "chown root, chmod go-w",
    ),
    "never-read": LintRule(
        "warning",
        "Specs end in .yaml or .json",
        "No engine reads the file",
        "Rename it to .yaml, or remove it",
    ),
    "left-over": LintRule(
        "note",
        "Temporary files are gone",
        "No engine reads the file; a writer died before it could rename it",
        "Remove it",
    ),
    "sub-directory": LintRule(
        "note",
        "Specs are not in sub-directories",
        "No engine looks into it",
        "Move specs one directory up",
    ),
    "conflict": LintRule(
        "error",
        "A device is in one file of a directory",
        "Engines drop the device of all files, in directories above this one as well",
        "Remove one of the files",
    ),
    "hidden": LintRule(
        "warning",
        "A device is in one directory",
        "The file of the directory that is listed later wins, this one is not used",
        "Remove the file which is not wanted",
    ),
    # The host
    "node-missing": LintRule(
        "error",
        "Device nodes are there",
        NO_START + ': "failed to stat CDI host device"',
        "Load the driver that makes the node, or generate the file again",
        "Make the node (nvidia-smi -L and nvidia-modprobe do; an IMEX channel takes mknod), or generate the file again",
    ),
    "node-absent": LintRule(
        "warning",
        "Device nodes are there",
        "A container starts and gets a node without a driver behind it",
        "Generate the file again",
    ),
    "no-node": LintRule(
        "error",
        "Device nodes are nodes, not links or files",
        NO_START + ': "not a device node"',
        "Name the node itself in hostPath",
    ),
    "node-kind": LintRule(
        "error",
        "The recorded type is that of the host's node",
        NO_START + ': "host type mismatch"',
        "Leave the type out",
    ),
    "stale-numbers": LintRule(
        "error",
        "Recorded numbers are those of the host's node",
        "The recorded ones win, so a container gets a node that leads nowhere (CUDA error 999, no devices found)",
        "Generate the file again, without the numbers that the kernel hands out at run time",
    ),
    "mount-missing": LintRule(
        "error",
        "Each mounted path is there",
        NO_START + ", in runc's words: no such file or directory",
        "Generate the file again; after a driver upgrade the names of libraries differ",
    ),
    "not-sent": LintRule(
        "note",
        "Paths are of letters, digits and ._+@%,:~-",
        "Engines look for it; this check did not, since other text may be a secret and does not leave the host",
        "Look on the host whether it is there",
    ),
    "hook-missing": LintRule(
        "error",
        "Hook programs are there",
        NO_START + ": the OCI runtime cannot run the hook",
        "Install the package that has it, or remove the hook or the file",
        "Install it (nvidia-container-toolkit-base has nvidia-cdi-hook), or take a spec without hooks",
    ),
    "hook-mode": LintRule(
        "error", "Hook programs can be run", NO_START + ": permission denied", "chmod 0755"
    ),
}


@dc.dataclass(frozen=True)
class LintFinding:
    """A rule that is broken in one place."""

    rule: str
    file: str
    message: str
    line: int | None = None
    device: str = ""  # qualified name, if the finding concerns one device
    subject: str = ""  # the path on the host that the finding is about

    @property
    def code(self) -> str:
        """The code by which the finding's message ends."""
        return build_rule_code(self.rule)

    @property
    def remedy(self) -> str:
        rule = RULES[self.rule]
        return rule.of_nvidia if rule.of_nvidia and NVIDIAS.fullmatch(self.subject) else rule.remedy

    def convert_finding(self) -> dict[str, Any]:
        """Return the finding as the module returns it."""
        rule = RULES[self.rule]
        return {
            "file": self.file,
            "line": self.line,
            "device": self.device,
            "rule": self.rule,
            "level": rule.level,
            "code": self.code,
            "message": end_with_code(Message(self.message, self.code, get_values(self.message))),
            "effect": rule.effect,
            "remedy": self.remedy,
        }


def sort_findings(findings: Iterable[LintFinding]) -> tuple[LintFinding, ...]:
    """Return each finding once, by file and line."""
    return tuple(
        sorted(set(findings), key=lambda f: (f.file, f.line or 0, f.rule, f.message, f.device))
    )
