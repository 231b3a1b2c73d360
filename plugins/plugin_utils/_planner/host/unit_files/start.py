# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the arguments with which a unit starts a program that does not run: from its file, its
drop-ins and the files with its environment.

Beneath another root directory `search` finds these files. On a host systemd names them. The
arguments of a process that runs outrank them.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    unit_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.unit_places import (
    FILLER,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import (
    messages,
    search,
    syntax,
    words,
)

_HIDDEN_RUN = re.compile(FILLER + "+")
# Bounds of what is read of a unit, so that none keeps the controller at work: characters of its
# files, of the files with its environment and of its command with all variables filled in;
# variables in the command, and files with an environment. Real units have a hundredth of it.
LONGEST, MOST = 1 << 18, 64


@dc.dataclass(frozen=True)
class Start:
    """The command line of a program in its unit.

    argv: as of a process, with HIDDEN for a part that did not travel or is not known.
    """

    argv: tuple[str, ...] = ()
    where: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        return f"{self.where}:{self.line}" if self.where else ""


def list_unit_start_questions(root: str, unit: str) -> list[queries.Question]:
    """Ask for the places of the unit's files, if no systemd can be asked."""
    return [] if root == "/" else [search.ask_for(unit)]


def read_start(
    root: str,
    obs: Observation,
    unit: str,
    program: str,
    flags: Mapping[str, str],
    variables: Mapping[str, str] | None = None,
) -> Start:
    """Read how a unit starts a program; no argument if it starts another one.

    flags: name -> the shape of its value, as for a process. variables: those of the environment
    that the program reads itself, each with the flag that sets the same and outranks it.
    """
    if root != "/":
        return _read_start(obs, search.find_files(obs, unit), program, flags, variables or {})
    try:
        return _read_start(obs, _find_loaded(obs, unit), program, flags, variables or {})
    # its engine does not run and is refused for that, and must not stop the plan for another engine
    # of the host
    except PlanError:
        return Start()


def _read_start(
    obs: Observation,
    found: search.UnitFiles,
    program: str,
    flags: Mapping[str, str],
    variables: Mapping[str, str],
) -> Start:
    files = _read_files(obs, found.paths, unit_places.keep_command(flags))
    if not files or not files[0].text:  # an empty file masks its unit
        return Start()
    service = syntax.read_service(
        _require_short((file.path, file.text) for file in files), found.name, alias=found.alias
    )
    command = next(
        (c for c in reversed(service.commands) if posixpath.basename(c.words[0]) == program), None
    )
    if command is None:
        return Start()
    given = list(command.words[1:])
    read = {name: flags[flag] for name, flag in variables.items()}
    shapes = _find_shapes(given, flags) if not command.verbatim else {}
    if len(shapes) > MOST or len(service.files) > MOST:
        too_many = messages.TOO_MANY_VARIABLES.fill(limit=MOST)
        raise PlanError(too_many, where=command.path, line=command.line or None)
    known = _read_variables(obs, found, files, service, {**shapes, **read}, flags)
    try:
        given = given if command.verbatim else words.fill_variables(given, known, LONGEST)
    except words.TooLong:
        too_long = messages.COMMAND_TOO_LONG.fill(limit=LONGEST)
        raise PlanError(too_long, where=command.path, line=command.line or None) from None
    given += [
        f"{flag}={known[name]}"
        for name, flag in variables.items()
        if known.get(name) and not _has(given, flag)
    ]
    argv = (_HIDDEN_RUN.sub(selection.HIDDEN, word) for word in (command.words[0], *given))
    return Start(tuple(argv), command.path, command.line)


def _require_short(texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Raise PlanError if the files together exceed what is read of one unit, whatever the host
    sends.
    """
    files, length = [], 0
    for path, text in texts:
        length += len(text)
        if length > LONGEST:
            raise PlanError(messages.FILES_TOO_LONG.fill(limit=LONGEST), where=path)
        files.append((path, text))
    return files


def _has(given: Iterable[str], flag: str) -> bool:
    return any(word.partition("=")[0] == flag for word in given)


def _find_loaded(obs: Observation, unit: str) -> search.UnitFiles:
    """Find the files that systemd has read for a unit."""
    known = obs.get_unit(unit)
    own = known.get("FragmentPath") or ""
    if known.get("LoadState") != "loaded" or not own.startswith("/"):
        return search.UnitFiles(unit)
    drop_ins = tuple(
        path for path in (known.get("DropInPaths") or "").split() if path.startswith("/")
    )
    several = len((known.get("Names") or "").split()) > 1
    return search.UnitFiles(known.get("Id") or unit, own, drop_ins, alias=several)


def _read_files(obs: Observation, paths: Iterable[str], keep: Keep) -> list[ObservedFile]:
    """Return the files, all asked for in one look."""
    asked = [queries.ask_for_file(path, keep, max=LONGEST) for path in paths]
    missing = [question for question in asked if not obs.was_asked(question)]
    if missing:
        raise NeedMore(missing)
    return [obs.get_file(str(question["path"])) for question in asked]


def _read_variables(
    obs: Observation, unit: search.UnitFiles, files: list[ObservedFile], service: syntax.Service,
    names: Mapping[str, str], flags: Mapping[str, str],
) -> dict[str, str]:  # fmt: skip
    """Read the values of variables. A file with an environment outranks Environment=, and of
    several files the last one.

    names: each with the shape of its value, '' for one that may hold flags.
    """
    if not names:
        return {}
    keep = unit_places.keep_assignments(flags, names)
    units = [_ask(file.path, unit.name, keep) for file in files if "Environment" in file.text]
    keep = unit_places.keep_environment(flags, names)
    sources = [path.removeprefix("-") for path in service.files]
    known = {
        path: _ask(path, unit.name, keep)
        for path in sources
        if path.startswith("/") and FILLER not in path
    }
    missing = [question for question in (*units, *known.values()) if not obs.was_asked(question)]
    if missing:
        raise NeedMore(missing)
    texts = _require_short(pair for question in units for pair in _read_texts(obs, question))
    environment = {path: _read_texts(obs, question) for path, question in known.items()}
    _require_short(pair for pairs in environment.values() for pair in pairs)
    variables = dict(
        word.partition("=")[::2]
        for word in syntax.read_service(texts, unit.name, alias=unit.alias).assignments
    )
    for path in sources:
        if path in known:
            for _path, text in environment[path]:
                variables.update(syntax.read_environment(text))
        elif FILLER in path:  # which file that is, and so what it sets, is not known
            variables.update(dict.fromkeys(names, FILLER))
    return {name: variables[name] for name in names if name in variables}


def _find_shapes(given: list[str], flags: Mapping[str, str]) -> dict[str, str]:
    """Find the variables in the arguments, each with the shape of the flag whose whole value it is;
    '' if it may hold flags.
    """
    shapes = dict.fromkeys(sorted(words.name_variables(given)), "")
    before = ""
    for word in given:
        name, equals, value = word.partition("=")
        flag, value = (name, value) if equals else (before, word)
        variables = words.name_variables([value])
        if (
            flag in flags
            and len(variables) == 1
            and value in (f"${min(variables)}", f"${{{min(variables)}}}")
        ):
            shapes[min(variables)] = flags[flag]
        before = word
    return shapes


def _ask(pattern: str, unit: str, keep: Keep) -> queries.Question:
    """Ask for the files of a pattern once more, by the variables of this unit."""
    return {**queries.ask_for_glob(pattern, keep), "id": f"glob:{pattern} for {unit}"}


def _read_texts(obs: Observation, question: queries.Question) -> list[tuple[str, str]]:
    """Read the files of a pattern.

    A missing file sets nothing: either it may be missing, or the unit does not start.
    """
    listed = obs.get_answer(question).get("files") or ()
    files = [
        Observation({}, {f"file:{entry['path']}": entry}).get_file(str(entry["path"]))
        for entry in listed
    ]
    return [(file.path, file.text) for file in files if file.exists]


def get_known_path(value: str) -> str:
    """Return the path that a flag of a unit names; '' if it is not known."""
    return value if value.startswith("/") and selection.HIDDEN not in value else ""


def require_known_flag(start: Start, value: str, flag: str) -> None:
    """Raise PlanError if the value of a flag is needed and not known."""
    if selection.HIDDEN in value:
        unknown = messages.VALUE_UNKNOWN.fill(flag=flag)
        raise PlanError(unknown, where=start.where, line=start.line or None)
