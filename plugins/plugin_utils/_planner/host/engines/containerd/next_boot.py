# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report what the next boot brings to a configuration that its manager makes again at each boot.
Nothing is written for it.

Of the files that a person has put there for it, the keys are read, and of the values only those by
which such a file is decoded.
"""

from __future__ import annotations

import dataclasses as dc
import difflib
import functools
import re
from collections.abc import Iterator

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Lookup,
    require_together,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_daemons,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Boot,
    Manager,
)

READ = (".yaml", ".yml")  # JSON is read there as well, and is not judged
KEY = re.compile(r"( *)([A-Za-z][A-Za-z0-9]{0,40}):")  # the rest of its line is not shown


def keep_boot_values(boot: Boot) -> Keep:
    """Return what is read of such a file: every key with its indentation, and the values of those
    at the head.
    """
    head = [rf"^{re.escape(name)}:[ \t]*[\w./]+" for name, _value in boot.head]
    return {"format": "text", "patterns": [*head, rf"^{KEY.pattern}(?=[ \t\r]|$)"]}


def keep_boot_arguments(boot: Boot) -> Keep:
    return {"format": "text", "patterns": [re.escape(boot.reads)]}


def build_boot_pattern(boot: Boot) -> str:
    return f"{boot.directory}/*"


@dc.dataclass(frozen=True)
class BootFacts:
    """A host's facts about its next boot, each by the name of a manager with a `boot`.

    units: the file of its unit. settings: files that a person may put there for it. programs:
    whether the program that decides over the handlers is installed.
    """

    units: Lookup[str, ObservedFile]
    settings: Lookup[str, tuple[ObservedFile, ...]]
    programs: Lookup[str, bool]


def read_boot_facts(obs: Observation) -> BootFacts:
    def list_settings(manager: str) -> tuple[ObservedFile, ...]:
        boot = get_boot(manager)
        return obs.list_glob_files(build_boot_pattern(boot), keep_boot_values(boot))

    def get_unit_file(manager: str) -> ObservedFile:
        boot = get_boot(manager)
        return obs.get_file(boot.unit, keep_boot_arguments(boot))

    return BootFacts(
        Lookup(get_unit_file),
        Lookup(list_settings),
        Lookup(lambda manager: obs.is_there(get_boot(manager).program)),
    )


def get_boot(manager: str) -> Boot:
    """Return what makes the configuration of this manager at each boot."""
    boot = known.get_manager(manager).boot
    if boot is None:
        raise ValueError(f"{manager} makes nothing at a boot")
    return boot


def refuse_next_boot(facts: BootFacts, manager: Manager) -> Refusal:
    """Return why this containerd is left alone, and what the next boot brings. May raise NeedMore.

    The next step is to correct a file there if one is wrong.
    """
    boot, name = manager.boot, manager.name
    if boot is None:
        return manager.refusal
    require_together(
        functools.partial(known_by.get, name)
        for known_by in (facts.units, facts.settings, facts.programs)
    )
    # this release reads that directory, by the arguments in its unit
    read = boot.reads in facts.units.get(name).text
    wrong = next(find_boot_faults(boot, facts.settings.get(name)), None) if read else None
    step = wrong or suggest_boot_step(boot, read=read)
    return Refusal(describe_boot_change(manager.title, boot, step, facts.programs.get(name)))


def describe_boot_change(title: str, boot: Boot, step: Message, installed: bool) -> Message:
    """Return what the next boot brings. installed: the program that decides over the handlers is."""
    if installed:
        return about_daemons.NEXT_BOOT_NVIDIA.fill(
            title=title, handler=boot.handler, program=boot.program, step=step
        )
    return about_daemons.NEXT_BOOT_RUNC.fill(title=title, program=boot.program, step=step)


def suggest_boot_step(boot: Boot, *, read: bool) -> Message:
    """Return where a person sets the same. read: this release reads the directory for it."""
    if read:
        return about_daemons.BOOT_SETTINGS_IN_DIRECTORY.fill(directory=boot.directory)
    return about_daemons.BOOT_SETTINGS_ELSEWHERE.fill(
        elsewhere=boot.elsewhere, unit=boot.unit, directory=boot.directory
    )


# ---------------------------------------------------------------- files with a fault


def find_boot_faults(boot: Boot, files: tuple[ObservedFile, ...]) -> Iterator[Message]:
    """Yield each thing that the next boot stumbles on or passes over, one sentence each, in the
    order in which the files are read.
    """
    for file in files:
        if not file.path.lower().endswith(READ) or file.type == "dir":
            continue
        if file.error or file.content is None:
            yield about_daemons.BOOT_FILE_UNREADABLE.fill(path=file.path, trouble=file.trouble)
            continue
        yield from _find_headless_file(boot, file)
        yield from _find_odd_keys(boot, file)


def _find_headless_file(boot: Boot, file: ObservedFile) -> Iterator[Message]:
    for name, value in boot.head:
        head = next((head for head in _list_head_values(file.text, name)), None)
        if head is None:
            yield about_daemons.BOOT_FILE_LACKS_HEAD.fill(path=file.path, key=name, value=value)
        elif head[1] != value:
            line, said = head
            yield about_daemons.BOOT_FILE_OTHER_HEAD.fill(
                path=file.path, line=line, key=name, found=said, value=value
            )


def _list_head_values(text: str, name: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(f"{name}:"):
            yield number, line.partition(":")[2].strip()


def _find_odd_keys(boot: Boot, file: ObservedFile) -> Iterator[Message]:
    """Yield the keys that are like one that belongs there, or belong elsewhere. Any other may be
    one of a newer release.
    """
    for number, table, name in list_yaml_keys(file.text):
        fields = boot.fields.get(table)
        if fields is None or name in fields:
            continue
        like = difflib.get_close_matches(name, sorted(fields), 1, 0.7)
        homes = [home or "the top" for home, names in boot.fields.items() if name in names]
        if like:
            yield about_daemons.BOOT_FILE_MISSPELLED.fill(
                path=file.path, line=number, key=name, like=like[0]
            )
        elif homes:
            yield about_daemons.BOOT_FILE_MISPLACED.fill(
                path=file.path, line=number, key=name, tables=" or ".join(homes)
            )


def list_yaml_keys(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, the path of its table, key) for each key of a YAML file of tables, by
    indentation.
    """
    above: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = KEY.match(line)
        if not match:
            continue
        depth = len(match.group(1))
        while above and above[-1][0] >= depth:
            above.pop()
        yield number, ".".join(name for _depth, name in above), match.group(2)
        above.append((depth, match.group(2)))
