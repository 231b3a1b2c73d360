# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the command that a person types after a run."""

from __future__ import annotations

import dataclasses as dc
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

FEW = 3  # with so many hosts, `site` needs no canary
FIX = "fix the hosts above, then run the same command again"
COLLECTION = "gpufleet.nvidia"
FILE = re.compile(r"@.+")


@dc.dataclass(frozen=True)
class Invocation:
    """The options of ansible-playbook that the next command needs again.

    inventory: as given with -i. extra: as given with -e. limit: as given with --limit, '' for none.
    playbooks: those of the user, which import one of this collection; () if this collection's own
    is named. options: the others, word by word.
    """

    inventory: Sequence[str] = ()
    extra: Sequence[str] = ()
    limit: str = ""
    playbooks: Sequence[str] = ()
    options: Sequence[str] = ()


def choose_next(playbook: str, counts: Mapping[str, Any], check: bool) -> tuple[str, ...]:
    """Return a playbook and its options, (FIX,) if a person has to act first, or () if nothing is
    left to do.

    counts: the totals of the run, as outcomes.count_outcomes returns them.
    """
    if counts["needs_person"]:
        return (FIX,)
    if playbook == "plan" and counts["would_change"]:
        return ("site", "--check", "--diff") if counts["hosts"] <= FEW else ("rollout", "--check")
    if playbook in ("site", "rollout") and check and counts["would_change"]:
        return (playbook,)
    return ()


def write_command(chosen: Sequence[str], given: Invocation) -> str:
    """Return the next step as a line, '' for none.

    Files with variables are named. Variables on the command line may be secret, so `-e ...` stands
    for them.
    """
    if not chosen:
        return ""
    if chosen[0] == FIX:
        return f"next: {FIX}"
    files = [["-e", text] for text in given.extra if FILE.fullmatch(text)]
    others = ["-e ..."] if len(files) < len(given.extra) else []
    words = [
        "ansible-playbook",
        *(shlex.join(["-i", source]) for source in given.inventory),
        *(map(shlex.quote, given.playbooks) if given.playbooks else [f"{COLLECTION}.{chosen[0]}"]),
        *map(shlex.join, files),
        *others,
        *([shlex.join(["--limit", given.limit])] if given.limit else []),
        *map(shlex.quote, given.options),
        *chosen[1:],
    ]
    return f"next: {' '.join(words)}"
