# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways of other people's Ansible to hosts: a covering array, in which each value is at least
once, and each pair that has gone wrong somewhere is by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# ansible-core -> the environment that has it (tests/tools/environments.py)
CORES: Mapping[str, str] = {
    "2.16": "core-2-16",
    "2.17": "core-2-17",
    "2.18": "core-2-18",
    "2.19": "sanity-2-19",
    "2.20": "core-2-20",
    "2.21": "sanity-2-21",
    "2.21, Mitogen 0.3": "mitogen",
}
STRATEGIES = (
    "linear",
    "free",
    "host_pinned",
    "mitogen_linear",
    "mitogen_free",
    "mitogen_host_pinned",
)
# What a user calls it -> the plugin. Mitogen replaces a connection by its short name alone
# (ansible_mitogen/strategy.py: REDIRECTED_CONNECTION_PLUGINS).
CONNECTIONS: Mapping[str, str] = {
    "local": "local",
    "without stdin": "no_stdin",
    "docker": "community.docker.docker",
    "podman": "containers.podman.podman",
    "kubectl": "kubernetes.core.kubectl",
}
# The programs behind the last three.
PROGRAMS = ("docker", "podman", "kubectl")
# What a user sets -> the variables of the environment
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "": {},
    "pipelining": {"ANSIBLE_PIPELINING": "1"},
    "keep remote files": {"ANSIBLE_KEEP_REMOTE_FILES": "1"},
    "native Jinja": {"ANSIBLE_JINJA2_NATIVE": "1"},
    "facts in ansible_facts alone": {"ANSIBLE_INJECT_FACT_VARS": "0"},
    "merged hashes": {"ANSIBLE_HASH_BEHAVIOUR": "merge"},
}


@dataclass(frozen=True)
class Way:
    """A run of other people's Ansible. why: the reason that this combination is in the table.

    reported: addresses of reports about such a combination.
    """

    core: str
    strategy: str = "linear"
    connection: str = "local"
    setting: str = ""
    why: str = ""
    reported: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        parts = (self.core, self.strategy, self.connection, self.setting)
        return "-".join(part.replace(", ", "-").replace(" ", "-") for part in parts if part)


STANDARD = Way("2.21", why="the others are measured by it")
MITOGEN = "2.21, Mitogen 0.3"
ANSIBLE = "https://github.com/ansible/ansible/issues/"
WAYS = (
    STANDARD,
    Way("2.21", "free", "without stdin", why="no host waits for another, and none gets a stdin"),
    Way(
        MITOGEN,
        "mitogen_linear",
        why="classes and connections of its own",
        reported=(
            "https://github.com/ansible-collections/community.mongodb/issues/434",
            "https://github.com/TOSIT-IO/tdp-collection/pull/122",
        ),
    ),
    Way("2.16", why="the oldest that is promised"),
    Way("2.16", "free", "without stdin", why="the core asks before it pipelines"),
    Way("2.16", "host_pinned", "local", "keep remote files", why="what stays on the host"),
    Way("2.16", "linear", "local", "native Jinja", why="numbers and lists instead of texts"),
    Way("2.17", "free", "local", "merged hashes", why="variables of two places become one"),
    Way("2.18", "host_pinned", "local", "facts in ansible_facts alone", why="names that are gone"),
    Way("2.17", "host_pinned", "without stdin", "pipelining", why="a setting that can't be had"),
    Way("2.17", "linear", "local", "pipelining", why="programs over stdin, modules too"),
    Way("2.18", "free", "local", "pipelining", why="the last core before tagged values"),
    Way("2.18", "linear", "without stdin", why="as 2.16"),
    Way(
        "2.19",
        "host_pinned",
        "without stdin",
        why="from here on the connection decides about pipelining",
        reported=(f"{ANSIBLE}86397",),
    ),
    Way("2.19", "free", "local", "keep remote files", why="the first core with tagged values"),
    Way("2.20", "linear", "docker", why="a container as a host"),
    Way("2.20", "free", "podman", "keep remote files", why="a container as a host"),
    Way("2.20", "host_pinned", "kubectl", "pipelining", why="a pod as a host"),
    Way("2.21", "host_pinned", "podman", "pipelining", why="a container as a host"),
    Way("2.21", "linear", "kubectl", why="a pod as a host"),
    Way("2.21", "free", "docker", "keep remote files", why="a container as a host"),
    Way(MITOGEN, "mitogen_free", "local", "keep remote files", why="it keeps no file"),
    Way(MITOGEN, "mitogen_host_pinned", "local", "pipelining", why="it never pipelines"),
    Way(
        MITOGEN,
        "mitogen_linear",
        "without stdin",
        why="a connection that Mitogen doesn't replace",
        reported=("https://github.com/mitogen-hq/mitogen/issues/580",),
    ),
)
BY_DAY = (WAYS[0], WAYS[2])
