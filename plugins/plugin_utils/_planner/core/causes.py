# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes by which engines, their validators and package managers fail: the lines that reveal them,
and how they are reported.

The host looks for the patterns and reports the code with the named groups, each held to its shape.
The text stays on the host, since engines quote values of their configuration. An unknown cause is
reported as an exit status with the command that shows the text.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Filled,
    Message,
    join_texts,
)


@dc.dataclass(frozen=True)
class Cause:
    """A known cause of a failure, recognized by a line of output.

    says: the sentence for people. A {group} in it becomes the value, or "..." if the value does not
    have its shape.
    """

    code: str
    pattern: str
    says: str
    values: Mapping[str, str] = dc.field(default_factory=dict)


_LINE = {"line": "number"}
_NAMED = {"name": "name"}

# A program may write what others chose, so each repetition has an end, and the host's time grows
# with the output and no faster. A value's end lies behind the longest that its shape admits:
# a longer one is not shown.
# The most telling rows come first: of one output only the first few that match are reported.
CAUSES: tuple[Cause, ...] = (
    # --- configurations that cannot be read
    Cause("toml-line", r"(?i)(?:TOML|toml)[^(]{0,400}\((?P<line>\d{1,20}), \d{1,20}\)", "the TOML is invalid at line {line}", _LINE),
    Cause("toml-at-line", r"toml: (?:error: )?line (?P<line>\d{1,20})", "the TOML is invalid at line {line}", _LINE),
    Cause("config-version", r"expected containerd config version equal to or less than `?(?P<most>\d{1,20})`?, got `?(?P<found>\d{1,20})`?",
          "it reads configurations up to version {most}, but this one declares version {found}", {"most": "number", "found": "number"}),
    Cause("config-version-unknown", r"(?i)(?:unsupported|unknown|invalid) (?:containerd )?config(?:uration)? (?:file )?version",
          "it does not support this configuration version"),
    Cause("plugin-uri", r"invalid (?:disabled |required )?plugin (?:key URI|URI)",
          "a plugin has a name of configuration version 1 in a configuration of version 2"),
    Cause("plugin-required", r"required plugin .{0,400} not included", "a required plugin is disabled, or it has none of that name"),
    Cause("toml", r"(?i)failed to (?:load|unmarshal|parse|decode) TOML|error decoding TOML|unable to decode", "the TOML cannot be read"),
    Cause("key-unknown", r"Ignoring unknown key", "it does not know one of the keys in the configuration"),
    Cause("json-type", r"cannot unmarshal (?P<found>\w{1,300}) into", "a value in the JSON is a {found}, but another type is expected",
          {"found": "name"}),
    Cause("json", r"invalid character .{0,400} (?:looking for|after|in|at)|unexpected end of JSON input",
          "the JSON cannot be read"),
    Cause("option-unknown", r"the following directives don't match any configuration option",
          "the file has an unknown key"),
    Cause("flag-and-file", r"the following directives are specified both as a flag and in the configuration file: (?P<name>[\w-]{1,300})",
          "{name} is set both by a flag and in the file", _NAMED),
    Cause("flag-unknown", r"unknown (?:shorthand )?flag: |flag provided but not defined",
          "it is started with an unknown flag"),
    # --- configurations that mean nothing
    Cause("default-runtime", r"no corresponding runtime configured|default_runtime_name.{0,400}is not (?:defined|configured)|"
          r"unable to find default runtime|specified default runtime does not exist|default runtime .{0,400} not (?:found|defined)",
          "the default handler is not among the handlers"),
    Cause("runtime-path", r"invalid runtime_path for runtime '(?P<name>[^']{0,300})'",
          "the program of the handler {name} does not exist", _NAMED),
    Cause("default-empty", r"`default_runtime_name` is empty", "default_runtime_name is empty"),
    Cause("untrusted-twice", r"conflicting definitions: configuration includes both `untrusted_workload_runtime`",
          "untrusted_workload_runtime and the handler untrusted exclude one another"),
    Cause("linux-only", r"`(?P<name>systemd_cgroup|no_pivot|runtime_engine|runtime_root)` only works for runtime",
          "{name} needs a handler of type io.containerd.runtime.v1.linux", _NAMED),
    Cause("all-devices", r"`privileged_without_host_devices_all_devices_allowed` requires",
          "privileged_without_host_devices_all_devices_allowed needs privileged_without_host_devices"),
    Cause("io-type", r"`io_type` can only be", "io_type has a value that it does not know"),
    Cause("duration", r"invalid `?(?:stream idle timeout|image pull progress timeout|drain_exec_sync_io_timeout)`?: time:",
          "a timeout in its configuration is not a duration such as 30s"),
    Cause("base-spec", r"failed to load base OCI spec", "the file that a handler names in base_runtime_spec cannot be loaded"),
    Cause("snapshotter", r"failed to find snapshotter", "the snapshotter that the configuration names does not exist"),
    Cause("mirrors", r"`?mirrors`? cannot be set when `?config_path`? is provided", "registry mirrors and config_path exclude one another"),
    Cause("conflict", r"plugin.{0,400}: conflict|already registered|conflicting plugin", "two plugins register under the same name"),
    Cause("plugin", r"failed to load plugin(?:.{0,400} id=| )[\"\\]{0,16}(?P<name>io\.containerd[\w.-]{0,300})",
          "its plugin {name} did not load", _NAMED),
    Cause("runtime-unknown", r"(?i)unknown or invalid runtime name|unknown runtime specified",
          "it does not know the runtime that the configuration names"),
    Cause("swarm", r"live-restore daemon configuration is incompatible with swarm mode", "live-restore and swarm exclude one another"),
    # --- the host
    Cause("address-in-use", r"address already in use", "another process already listens on its socket"),
    Cause("pid-file", r"pid ?file (?:found|exists)|delete \S{0,400}\.pid", "its PID file exists: another instance runs, or one crashed"),
    Cause("database", r"timeout waiting on boltdb|context deadline exceeded.{0,400}(?:bolt|metadata)|(?<!management )is locked by",
          "its database is locked by another process"),
    Cause("no-space", r"(?i)no space left on device", "no space is left on a file system"),
    Cause("read-only", r"(?i)read-only file system", "a file system is read-only"),
    Cause("not-executable", r"executable file not found|exec format error",
          "a program that it needs is missing or built for another architecture"),
    Cause("cdi", r"unresolvable CDI devices", "it cannot resolve a CDI device"),
    Cause("network", r"(?i)failed to (?:create|start|initialize) .{0,400}network|Error initializing network controller|iptables",
          "it cannot set up its network"),
    Cause("panic", r"^(?:panic|fatal error): ", "it panicked"),
    # --- package managers
    Cause("package-no-space",
          r"Failure writing output to destination|more space needed on the|needs \d{1,20}\S{0,400} more space|Not enough .{0,400}space",
          "no space is left for the packages"),
    Cause("package-held",
          r"(?:filtered out by exclude filtering for argument: |"
          r"Argument '(?=\S{1,400}' matches only (?:packages )?excluded))(?P<name>[\w.+-]{1,300})",
          "the package {name} is excluded on this host, or held at another version (dnf versionlock list, exclude= in dnf.conf); "
          "release it, or set gpufleet_toolkit_version to what it is held at", _NAMED),
    Cause("package-locked", r"Held packages were changed|remove lock to allow",
          "a package is held on this host (apt-mark showhold, zypper locks); release it, or set gpufleet_toolkit_version "
          "to the version that it has"),
    Cause("package-candidate", r"Package '(?P<name>[\w.+-]{1,300})' has no installation candidate",
          "apt has no version of {name} to install: no repository has it, or a pin excludes it (apt-cache policy {name})", _NAMED),
    Cause("package-no-signature", r"GPG signature is not available|File '?repomd\.xml'? from repository .{0,400} is unsigned",
          "the repository's metadata is not signed, as on a mirror that rebuilt it, and NVIDIA's packages carry no signature of their "
          "own. Mirror the metadata as it is (with repomd.xml.asc), or sign it and set gpufleet_toolkit_key"),
    Cause("package-unknown", r"(?:Unable to locate package|No match for argument:|No package|No provider of) '?(?P<name>[\w.+-]{1,300})",
          "no repository on this host has the package {name}", _NAMED),
    Cause("package-version", r"Version '(?P<version>[^']{0,300})' for '(?P<name>[^']{0,300})' was not found",
          "no repository on this host has version {version} of {name}", {"name": "name", "version": "version"}),
    Cause("package-lock", r"Could not get lock|Waiting for process with pid|is another process using it|System management is locked|"
          r"Another transaction is in progress",
          "another package manager is running, and did not end while this run waited; run again when it has ended"),
    Cause("package-unsigned", r"NO_PUBKEY|is not signed|GPG (?:check|key).{0,400}(?:FAILED|failed)|signatures couldn't be verified|"
          r"EXPKEYSIG|GPG signature verification error|New repository or package signing key received|is signed with an unknown key",
          "a repository is not signed with the configured key; for gpufleet_toolkit_repository that is gpufleet_toolkit_key"),
    Cause("package-fetch",
          r"Failed to fetch|Failed to download|Could(?:n't| not) resolve|Cannot download|404 {1,9}Not Found|Connection (?:failed|refused)",
          "a repository cannot be reached"),
    Cause("package-needs", r"unmet dependencies|nothing provides|held broken packages|conflicting requests",
          "a package depends on another that is not available"),
    Cause("package-script",
          r"(?:installed|new|old) (?P<name>[\w.+-]{1,300}) package (?:pre|post)-\w{1,16} script subprocess returned error",
          "a script of the package {name} failed, which dpkg tries again in every run; fix it (dpkg --configure -a) or remove it", _NAMED),
    Cause("package-scriptlet",
          r"scriptlet failed|in (?:PRE|POST)\w{1,16} scriptlet in rpm package|(?:pre|post)-installation script returned error",
          "a script of a package failed"),
    Cause("package-half", r"dpkg was interrupted", "an earlier installation was interrupted: run dpkg --configure -a"),
    # --- what stays on a host and sets modes, or runs the daemons of MPS
    # (module_utils/_host/resident)
    Cause("mode-stays",
          r"(?P<gpu>GPU-[\w-]{1,300}): (?:compute mode|time slice): (?P<wanted>\w{1,300}) was set, and (?P<found>\w{1,300}) is read back",
          "GPU {gpu} has {found} after {wanted} was set", {"gpu": "name", "wanted": "name", "found": "name"}),
    Cause("gpu-program",
          r"(?P<gpu>GPU-[\w-]{1,300}): (?:(?!GPU-).){0,400}?(?P<name>nvidia-[\w-]{1,300}) "
          r"(?:(?!nvidia-).){0,400}: exit status (?P<status>\d{1,20})",
          "{name} ends with exit status {status} for GPU {gpu}", {"gpu": "name", "name": "name", "status": "number"}),
    Cause("gpu-unknown-words", r"(?P<gpu>GPU-[\w-]{1,300}): .{0,400} says nothing of it",
          "what nvidia-smi prints of GPU {gpu} is not understood",
          {"gpu": "name"}),
    Cause("gpu-late", r"(?P<gpu>GPU-[\w-]{1,300}): .{0,400}: no end within", "GPU {gpu} does not answer in time", {"gpu": "name"}),
    Cause("program-of-others", r" is not run: \S{1,400} (?:belongs to user|may be written to by others)",
          "a program that it needs could be changed by others than root, and is not run"),
    # --- rows that tell little by themselves come last
    Cause("refused", r"(?i)permission denied|operation not permitted", "an operation was not permitted"),
    Cause("missing", r"(?i)no such file or directory", "a file or directory that it needs does not exist"),
    Cause("not-a-directory", r"(?i)not a directory", "a component of a path that it needs is not a directory"),
)  # fmt: skip
_BY_CODE: Mapping[str, Cause] = {cause.code: cause for cause in CAUSES}


def build_cause_table() -> list[dict[str, Any]]:
    """Return the causes in the form that the host takes."""
    return [
        {"code": cause.code, "pattern": cause.pattern, "values": dict(cause.values)}
        for cause in CAUSES
    ]


def build_cause_code(cause: str) -> str:
    """Return the code of a cause's message by the code that the host reports."""
    return f"cause.{cause}"


def describe_cause(found: Mapping[str, Any]) -> str:
    """Return one cause as a message; '' for a code that this release does not know."""
    cause = _BY_CODE.get(str(found.get("code")))
    values = found.get("values") or {}
    shown = {name: str(values.get(name) or "...") for name in (cause.values if cause else ())}
    return Message(Filled(cause.says, shown), build_cause_code(cause.code), shown) if cause else ""


def describe_causes(found: Iterable[Mapping[str, Any]], most: int = 2) -> str:
    """Return up to `most` causes of one output in words, joined by '; '. Return '' if none is
    known.
    """
    known = list(dict.fromkeys(filter(None, map(describe_cause, found))))[:most]
    return join_texts("; ", known) if known else ""
