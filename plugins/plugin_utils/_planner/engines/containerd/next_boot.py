# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report what the next boot brings to a configuration that its manager makes again at each boot. Nothing is written for it.

Of the files that a person has put there for it, the keys are read, and of the values only those by
which such a file is decoded.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import NeedMore, Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.manager import Boot, Manager
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import File, Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections.file_places import Keep

UNDECODED = "so it is not decoded and the node does not join its cluster"
READ = (".yaml", ".yml")  # JSON is read there as well, and is not judged
KEY = re.compile(r"( *)([A-Za-z][A-Za-z0-9]{0,40}):")  # the rest of its line is not shown


def keep(boot: Boot) -> Keep:
    """Return what is read of such a file: every key with its indentation, and the values of those at the head."""
    head = [rf"^{re.escape(name)}:[ \t]*[\w./]+" for name, _value in boot.head]
    return {"format": "text", "patterns": [*head, rf"^{KEY.pattern}(?=[ \t\r]|$)"]}


def unit_keep(boot: Boot) -> Keep:
    return {"format": "text", "patterns": [re.escape(boot.reads)]}


def pattern(boot: Boot) -> str:
    return f"{boot.directory}/*"


def refusal(obs: Observation, manager: Manager) -> Refusal:
    """Return why this containerd is left alone, and what the next boot brings. May raise NeedMore.

    The next step is to correct a file there if one is wrong.
    """
    boot = manager.boot
    if boot is None:
        return manager.refusal
    wanted = [queries.file(boot.unit, unit_keep(boot)), queries.glob(pattern(boot), keep(boot)), queries.file(boot.program, content=False)]
    unasked = [question for question in wanted if not obs.asked(question)]
    if unasked:
        raise NeedMore(unasked)
    what = f"{manager.refusal.what} at each boot, and {brings(obs, boot)}"
    wrong = next(faults(boot, obs.glob(pattern(boot))), "") if reads(obs, boot) else ""
    return Refusal(what, f"{wrong}. Correct it, and replace the node" if wrong else way(obs, boot))


def reads(obs: Observation, boot: Boot) -> bool:
    """Tell whether this release reads that directory, by the arguments in its unit."""
    return boot.reads in obs.file(boot.unit).text


def brings(obs: Observation, boot: Boot) -> str:
    if obs.exists(boot.program):
        return f"the next one has {boot.handler} as the only handler, since {boot.program} is there"
    return f"the next one has runc as the only handler, since {boot.program} is not there"


def way(obs: Observation, boot: Boot) -> str:
    if reads(obs, boot):
        return f"Put what has to differ (spec.containerd.config) into a file in {boot.directory}, best in the image, and replace the node"
    where = f"{boot.elsewhere}, since {boot.unit} does not name {boot.directory}"
    return f"Put what has to differ (spec.containerd.config) into {where}, and replace the node"


# ---------------------------------------------------------------- files with a fault


def faults(boot: Boot, files: tuple[File, ...]) -> Iterator[str]:
    """Yield each thing that the next boot stumbles on or passes over, one sentence each, in the order in which the files are read."""
    for file in files:
        if not file.path.lower().endswith(READ) or file.type == "dir":
            continue
        if file.error or file.content is None:
            yield f"{file.path} could not be read here ({file.trouble}), so what it brings is not known"
            continue
        yield from _headless(boot, file)
        yield from _odd_keys(boot, file)


def _headless(boot: Boot, file: File) -> Iterator[str]:
    for name, value in boot.head:
        found = next((found for found in _values(file.text, name)), None)
        if found is None:
            yield f"{file.path} has no {name}: {value}, {UNDECODED}"
        elif found[1] != value:
            yield f"{file.path}:{found[0]} has {name}: {found[1]} and not {value}, {UNDECODED}"


def _values(text: str, name: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(f"{name}:"):
            yield number, line.partition(":")[2].strip()


def _odd_keys(boot: Boot, file: File) -> Iterator[str]:
    """Yield the keys that are like one that belongs there, or belong elsewhere. Any other may be one of a newer release."""
    for number, table, name in keys(file.text):
        fields = boot.fields.get(table)
        if fields is None or name in fields:
            continue
        like = difflib.get_close_matches(name, sorted(fields), 1, 0.7)
        homes = [home or "the top" for home, names in boot.fields.items() if name in names]
        if like:
            yield f"{file.path}:{number} has {name}, which is passed over without a word; {like[0]} is meant"
        elif homes:
            yield f"{file.path}:{number} has {name}, which is passed over without a word there; it belongs to {' or '.join(homes)}"


def keys(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, the path of its table, key) for each key of a YAML file of tables, by indentation."""
    above: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        found = KEY.match(line)
        if not found:
            continue
        depth = len(found.group(1))
        while above and above[-1][0] >= depth:
            above.pop()
        yield number, ".".join(name for _depth, name in above), found.group(2)
        above.append((depth, found.group(2)))
