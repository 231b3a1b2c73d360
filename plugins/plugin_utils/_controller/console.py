# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print lines for people on the controller's terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible import constants, context
from ansible.utils.color import stringc
from ansible.utils.display import Display
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import named_playbooks
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    bounds,
    escape,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_hosts,
    next_command,
)

MACHINES = ("json", "jsonl", "null")  # stdout callbacks whose output a program parses
# Measured when the action is loaded, which is before Ansible forks: its workers have no terminal.
TERMINAL = int(Display().columns) if os.isatty(1) else fleet_hosts.WIDTH


def write_end(problem: str, following: str) -> list[str]:
    """Return the last lines of a run: the reason why it is not a success, and the next command. ''
    leaves either out.
    """
    told = [text for text in (f"not a success: {problem}" if problem else "", following) if text]
    return ["", *told] if told else []


def find_following(playbook: str, counts: Mapping[str, Any], check: bool) -> str:
    """Return the line with the next command, '' for none. AWX starts jobs by templates, so nothing
    is typed there.
    """
    if "needs_person" not in counts or "would_change" not in counts or os.environ.get("JOB_ID"):
        return ""
    chosen, given = next_command.choose_next(playbook, counts, check), read_invocation()
    if given.playbooks and chosen and chosen[0] not in (playbook, next_command.FIX):
        # another playbook would lack the settings that a playbook of the user makes for its hosts
        return ""
    return next_command.write_command(chosen, given)


# Options without which the next command would reach no host, or not as root, and the setting that
# each has as its default.
SWITCHES = {
    "become": ("--become", "DEFAULT_BECOME"),
    "become_ask_pass": ("--ask-become-pass", "DEFAULT_BECOME_ASK_PASS"),
    "ask_pass": ("--ask-pass", "DEFAULT_ASK_PASS"),
    "ask_vault_pass": ("--ask-vault-pass", "DEFAULT_ASK_VAULT_PASS"),
}
VALUES = {
    "become_method": ("--become-method", "DEFAULT_BECOME_METHOD"),
    "become_user": ("--become-user", ""),
    "become_password_file": ("--become-password-file", "BECOME_PASSWORD_FILE"),
    "remote_user": ("--user", "DEFAULT_REMOTE_USER"),
    "private_key_file": ("--private-key", "DEFAULT_PRIVATE_KEY_FILE"),
    "connection": ("--connection", "DEFAULT_TRANSPORT"),
    "connection_password_file": ("--connection-password-file", "CONNECTION_PASSWORD_FILE"),
}
LISTS = {"vault_ids": "--vault-id", "vault_password_files": "--vault-password-file"}


def read_invocation() -> next_command.Invocation:
    """Return what this run was given on its command line."""
    given = context.CLIARGS
    inventory, extra = (
        tuple(map(str, given.get(name) or ())) for name in ("inventory", "extra_vars")
    )
    named = tuple(map(str, given.get("args") or ()))
    playbooks = () if named_playbooks.is_own_playbook_named(named) else named
    return next_command.Invocation(
        inventory,
        extra,
        str(given.get("subset") or ""),
        playbooks,
        tuple(list_access_options(given)),
    )


def list_access_options(given: Mapping[str, Any]) -> list[str]:
    """List the options by which the run reached its hosts, became root and read its vaults, word by
    word, without the defaults.
    """
    options: list[str] = []
    for name, (option, default) in {**SWITCHES, **VALUES}.items():
        value = given.get(name)
        if value and value != getattr(constants, default, None):
            options += [option] if name in SWITCHES else [option, str(value)]
    return options + [
        word
        for name, option in LISTS.items()
        for value in given.get(name) or ()
        for word in (option, str(value))
    ]


def get_terminal_width() -> int:
    """Return $COLUMNS, otherwise the terminal's width, otherwise a width that fits most logs."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    return TERMINAL


def show(lines: Sequence[str]) -> None:
    """Print lines for people.

    A line may contain a host's own words, which results of other collections' tasks do not escape.
    """
    if lines and are_people_shown():
        Display().display(
            "\n".join(
                paint(escape.escape_line(bounds.shorten_text(line, bounds.TEXT))) for line in lines
            )
        )


# A word of the column CHANGED between two columns, or a count of the first line.
WORDS = re.compile(
    rf"(?<=  )({'|'.join(outcomes.OUTCOMES)})(?=  |$)|\b[1-9]\d* ({'|'.join(o.total for o in outcomes.OUTCOMES.values())})(?=,)"
)
COLORS = {True: "COLOR_ERROR", False: "COLOR_CHANGED"}
PLAIN = ("no", "unchanged")


def paint(line: str) -> str:
    """Return a line with its outcomes in Ansible's colors, where Ansible has colors."""

    def painted(found: re.Match[str]) -> str:
        one = next(
            o for o in outcomes.OUTCOMES.values() if found[1] == o.word or found[2] == o.total
        )
        color = "COLOR_OK" if one.word in PLAIN else COLORS[one.person]
        return str(stringc(found[0], getattr(constants, color)))

    return WORDS.sub(painted, line)


def are_people_shown() -> bool:
    """Tell whether lines for people are printed.

    With a callback that writes JSON, stdout belongs to the callback alone. The result contains the
    lines in both cases.
    """
    return str(constants.DEFAULT_STDOUT_CALLBACK).rpartition(".")[2] not in MACHINES
