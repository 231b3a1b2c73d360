# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send the programs' source to a host over the connection's stdin, or as a module, and read the
answer.

An Ansible module costs a host an import of Ansible and 170 kB; a script over stdin costs neither,
in one SSH operation. Connections and become methods that give a command no stdin (su, or a
connection plugin without pipelining) get the same source as the module `host_program`.
"""

from __future__ import annotations

import functools
import json
import os.path
import re
import shlex
import uuid
import zlib
from collections.abc import Mapping
from typing import Any

from ansible import constants
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    host_answers,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import JOURNAL_DIR
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes import (
    edge,
)

MODULE = "gpufleet.nvidia.host_program"
PACKAGE = "ansible_collections.gpufleet.nvidia.plugins.module_utils._host"
SOURCES = os.path.join(os.path.dirname(__file__), "..", "..", "module_utils", "_host")
# The parts of each program: the part that is run, and everything that it imports, directly or not.
# They are in the order in which they compress best (`zlib` sees 32 kB at a time), which saves 1.5
# kB of a look.
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    name: tuple(parts.split())
    for name, parts in {
        "observe": (
            "projection.yaml_scan projection.toml_places projection.json_places projection.documents projection.yaml_scalars "
            "projection.placeholders projection.projector projection.leaves projection.selection rpc.grpc_wire rpc.cri rpc.unix_http "
            "commands keyed rpc.cri_queries failures system alarms linker observe question_kinds process_trust process_queries "
            "file_queries trust projection.contents host_files journal journal_queries"
        ),
        "transaction": (
            "trust linker commands host_files journal transaction.container_snapshot keyed failures transaction.preconditions "
            "rpc.unix_http rpc.grpc_wire rpc.cri causes projection.placeholders system "
            "projection.projector projection.toml_places transaction.request "
            "projection.selection projection.json_places transaction.edits transaction.staging transaction.swap "
            "transaction.journal_writer transaction.executor transaction.launcher transaction.entry transaction.rollback "
            "transaction.orphans transaction.health transaction.deadline transaction.waiting"
        ),
        "acknowledge": (
            "system failures trust linker rpc.unix_http commands host_files keyed journal transaction.waiting transaction.journal_writer "
            "transaction.acknowledge"
        ),
        "kept_packages": (
            "system failures trust linker rpc.unix_http commands host_files keyed journal transaction.waiting transaction.journal_writer "
            "deep_folders apt_digests kept_record kept_files kept_packages"
        ),
        "container_check": (
            "trust linker projection.selection rpc.unix_http host_files commands container_test.http_api causes failures rpc.grpc_wire "
            "rpc.cri container_test.entry container_test.cri_messages"
        ),
    }.items()
}
# The common part of programs that stay on a host. It is their one import of this collection, and
# so is the second in the first. A part's text replaces its import.
CARRIED = ("resident.programs", "linker")
# The part of a program that is run, if its name differs from the program's.
MAIN = {
    "transaction": "transaction.entry",
    "acknowledge": "transaction.acknowledge",
    "container_check": "container_test.entry",
}
# RHEL 8 has its Python at platform-python only. The versioned names serve hosts without python3.
# Each is a whole path: a program that becomes root must not be found by a PATH from the account, or
# from a sudo without secure_path.
INTERPRETERS = (
    "/usr/bin/python3 /usr/libexec/platform-python /usr/local/bin/python3 /run/current-system/sw/bin/python3 /opt/bin/python3 "
    + " ".join(
        f"{folder}/python3.{minor}"
        for folder in ("/usr/bin", "/usr/local/bin")
        for minor in (14, 13, 12, 11, 10, 9, 8, 7, 6)
    )
)
FAILED_MODULE = ("module_stdout", "module_stderr", "rc")
NO_PYTHON = "gpufleet-no-python"
OLD_PYTHON = "Unknown option: -I"  # Python 2 has no isolated mode
NO_JSON = "No start of json char found"  # Ansible's words for a module that printed something else
# Of a Python that is too old for modules: its compiler's words, and ansible.module_utils.basic's.
OLD_FOR_MODULES = ("SyntaxError", "requires a minimum of Python version")
WANTS_TERMINAL = "must have a tty to run sudo"  # sudo's words if its settings have requiretty
# Messages that may mean a become method's failure. The other messages name an interpreter.
OF_BECOME = frozenset({messages.NEEDS_TERMINAL.code, messages.PROGRAM_LOST.code})
# Only the standard library can be imported. -I leaves out the connection's current directory, the
# environment and the user's own packages. -S leaves out the site's packages and the code in their
# .pth files. An account that becomes root here may be able to write all of these.
ISOLATED = "-I -S"

# The word that the interpreter prints first, with its version. Without it, no program has run.
BEGUN = "gpufleet-begun"
_BEGUN_LINE = re.compile(rf"^{BEGUN} (\d+)\r?$", re.MULTILINE)
OLDEST = 0x306  # Python 3.6, as sys.hexversion has it
# The code on the interpreter's command line. It runs the first part of stdin
# (module_utils/_host/loader.py), which reads the rest. The parts are plain bytes: base64 would be a
# third more. A long program on the command line could exceed a host's limits.
START = (
    f'import sys,zlib;print("{BEGUN}",sys.hexversion>>16,flush=True);'
    "s=sys.stdin.buffer;n=[int(w) for w in s.readline().split()];"
    "o=zlib.decompress(s.read(n[0]));exec(o);run_sent_program(s,o.decode('utf-8'),n[1:])"
)
# A docstring by itself on its lines, another string, a comment, the beginning of a line. The host's
# programs have no string within a string (such f-strings are newer than 3.6).
_DOCSTRING = r'(?P<indent>^[ \t]*)(?P<doc>"""(?:[^"\\]|\\.|"(?!""))*""")(?=[ \t]*$)'
_STRING = r'"""(?:[^"\\]|\\.|"(?!""))*"""|"(?:[^"\\\n]|\\.)*"|' + r"'(?:[^'\\\n]|\\.)*'"
_WORDS = re.compile(
    rf"{_DOCSTRING}|(?P<string>{_STRING})|(?P<comment>[ \t]*#[^\n]*)|(?P<begin>^ +(?=[^ \n]))"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<sign> (?:[-+*/%=<>!|&]=|[-+*/%=<>|&]) |[,:] )",
    re.MULTILINE | re.DOTALL,
)


def read_program_text(name: str) -> str:
    """Return the source of a part of the host side."""
    with open(os.path.join(SOURCES, *name.split(".")) + ".py", encoding="utf-8") as handle:
        return handle.read()


def shorten_source(source: str) -> str:
    """Return the same program without docstrings and comments, with one space for each level.

    Within brackets a line needs no indent, and a sign needs no space beside it. Every line keeps
    its number, since errors name it.
    """
    depth = 0

    def shorten_word(found: re.Match[str]) -> str:
        nonlocal depth
        kind = found.lastgroup
        if kind == "sign":
            return found[0].strip(" ")
        if kind in ("open", "close"):
            depth += 1 if kind == "open" else -1
            return found[0]
        if kind == "begin" and depth:
            return ""
        return _strip_words(found)

    return _WORDS.sub(shorten_word, source)


def _strip_words(found: re.Match[str]) -> str:
    if found["comment"] is not None:
        return ""
    if found["begin"] is not None:
        return _shorten_indent(found[0])
    return (
        found[0]
        if found["doc"] is None
        else _shorten_indent(found["indent"]) + "0" + "\n" * found[0].count("\n")
    )


def _shorten_indent(begin: str) -> str:
    return " " * (len(begin) // 4) + begin[: len(begin) % 4]


@functools.cache
def read_program_part(name: str) -> str:
    """Return the source of a part as it is sent, without docstrings and comments."""
    return shorten_source(read_program_text(name))


@functools.cache
def list_program_sources(program: str) -> tuple[tuple[str, str], ...]:
    """Return the names and sources of a program's parts."""
    return tuple((name, read_program_part(name)) for name in PROGRAMS[program])


@functools.cache
def pack_program_sources(program: str) -> bytes:
    """Return the sources of a program, compressed. The loader, which is on the host by then, is
    the dictionary: its words need not be sent a second time.
    """
    packer = zlib.compressobj(9, zdict=read_program_part("loader").encode("utf-8"))
    text = "\0".join(word for part in list_program_sources(program) for word in part)
    return packer.compress(text.encode("utf-8")) + packer.flush()


@functools.cache
def read_loader() -> bytes:
    """Return the source of the loader, which starts the other parts, compressed."""
    return zlib.compress(read_program_part("loader").encode("utf-8"), 9)


@functools.cache
def probe_source(name: str) -> str:
    """Return the source of a probe that travels with a question (module_utils/_host/probes)."""
    return read_program_part(f"probes.{name}")


@functools.cache
def map_resident_sources() -> Mapping[str, str]:
    """Return the sources of the programs that stay on a host (module_utils/_host/resident): name ->
    text.

    Each is one file that contains what it imports.
    """
    names = (
        name[:-3]
        for name in sorted(os.listdir(os.path.join(SOURCES, "resident")))
        if name.endswith(".py")
    )
    return {
        name: functools.reduce(carry_program_part, CARRIED, read_program_text(f"resident.{name}"))
        for name in names
        if name not in ("__init__", "programs")
    }


def carry_program_part(text: str, part: str) -> str:
    """Return a program with the text of a part in place of its import."""
    carried = read_program_text(part).split('"""\n\n', 1)[1].rstrip()
    imported = rf"(?m)^from {re.escape(PACKAGE)}\.{re.escape(part)} import (?:\([^)]*\)|.*)$"
    return re.sub(imported, lambda _line: carried, text)


def build_interpreter_input(
    program: str, request: Mapping[str, Any], marker: str, *, keep: bool = False
) -> bytes:
    """Build the input of the interpreter that START starts: the sizes, the loader, the sources, the
    job.

    keep: the host may keep the compiled form for the next time, if this collection already has a
    directory there.
    """
    job = {
        "package": PACKAGE,
        "main": MAIN.get(program, program),
        "request": request,
        "marker": marker,
        "base": JOURNAL_DIR,
        "keep": keep,
    }
    words = json.dumps(job, separators=(",", ":")).encode("utf-8")
    # 9 takes half as long again for each task, and saves ten bytes
    parts = (
        read_loader(),
        pack_program_sources(program),
        zlib.compress(words, 7),
    )
    return " ".join(str(len(part)) for part in parts).encode("ascii") + b"\n" + b"".join(parts)


def get_named_interpreter(action: ActionBase, task_vars: Mapping[str, Any]) -> str:
    """Return the interpreter that the inventory names, or else Ansible's settings; '' if they leave
    the choice to the collection.
    """
    delegated = getattr(action._task, "delegate_to", None)
    scope = (
        (task_vars.get("ansible_delegated_vars") or {}).get(delegated, {})
        if delegated
        else task_vars
    )
    named = scope.get("ansible_python_interpreter") or constants.INTERPRETER_PYTHON or ""
    value = str(action._templar.template(named))
    return "" if value.startswith("auto") else value


def build_interpreter_command(python: str, environment: str) -> str:
    """Return the shell line that feeds the interpreter from stdin.

    Without a named interpreter, the same line looks for one, so that takes no extra operation.
    """
    if python:
        return f"{environment} {python} {ISOLATED} -c {shlex.quote(START)}".strip()
    start = (
        f'if command -v "$p" >/dev/null 2>&1; then exec "$p" {ISOLATED} -c {shlex.quote(START)}; fi'
    )
    search = f"for p in {INTERPRETERS}; do {start}; done; echo {NO_PYTHON}; exit 127"
    return f"{environment} /bin/sh -c {shlex.quote(search)}".strip()


def list_task_environment(action: ActionBase) -> list[str]:
    """Return the names that the task's `environment:` sets.

    The host passes only these on to what it runs, and nothing else of its own environment.
    """
    environment: dict[str, Any] = {}
    action._compute_environment_string(environment)
    return sorted(environment)


class NothingRan(PlanError):
    """A failure of the become method before the interpreter began.

    Most often the method wants a terminal, which a program sent over stdin does not have. Each
    method says so in its own words, and sudo in the language of the account.
    """


def takes_stdin(action: ActionBase) -> bool:
    """Tell whether a command gets a stdin on this connection, by what Ansible asks before it
    pipelines.

    The setting `pipelining` does not count. It is off by default because of a sudo that wants a
    terminal, which is recognized here (NothingRan).
    """
    # a user wants to see the files of a task afterwards, and stdin leaves none
    if constants.DEFAULT_KEEP_REMOTE_FILES:
        return False
    become = action._connection.become
    # `pipelining` is of ansible-core 2.19. An older run0 of community.general has `require_tty`
    # alone, and hangs with a program on its stdin (community.general#11771).
    if become is not None and (
        become.name == "su"
        or getattr(become, "require_tty", False)
        or not getattr(become, "pipelining", True)
    ):
        return False
    return bool(getattr(action._connection, "has_pipelining", False))


def run_host_program(
    action: ActionBase,
    program: str,
    request: Mapping[str, Any],
    task_vars: dict[str, Any],
    way: str = "auto",
) -> dict[str, Any]:
    """Run a host program and return its answer.

    way: auto | stdin | module.

    The shape of the answer is checked, except that of a look (`name_answers`).
    """
    names = list_task_environment(action) if program != "container_check" else []
    if names:
        request = {**request, "environment": names}
    answer = carry_program(action, program, request, task_vars, way)
    return (
        answer
        if program == "observe"
        else host_answers.judge_answer(lambda: edge.read_program_result(program, request, answer))
    )


def carry_program(
    action: ActionBase,
    program: str,
    request: Mapping[str, Any],
    task_vars: dict[str, Any],
    way: str,
) -> dict[str, Any]:
    """Return the answer of a program that went one way, or the other way if nothing could run by
    the first.
    """
    if way == "module" or (way == "auto" and not takes_stdin(action)):
        return send_by_module(action, program, request, task_vars)
    try:
        return send_by_stdin(action, program, request, task_vars)
    except NothingRan:
        if way == "stdin":
            raise
    return send_by_module(action, program, request, task_vars)


def send_by_stdin(
    action: ActionBase, program: str, request: Mapping[str, Any], task_vars: dict[str, Any]
) -> dict[str, Any]:
    """Run a program on the host by the standard input of its Python, and return the answer.

    Raise NothingRan if the become method has failed, and PlanError if there is no answer.
    """
    marker = f"gpufleet-{uuid.uuid4().hex}:"
    python = get_named_interpreter(action, task_vars)
    line = build_interpreter_command(python, action._compute_environment_string())
    keep = (
        request.get("root", "/") == "/"
        and not action._task.check_mode
        and not getattr(action, "leaves_nothing", False)
    )
    result = action._low_level_execute_command(
        line, in_data=build_interpreter_input(program, request, marker, keep=keep)
    )
    for row in str(result.get("stdout") or "").splitlines():
        if row.startswith(marker):
            return host_answers.read_program_answer(row[len(marker) :])
    become = action._connection.become is not None
    said = explain_lost_answer(program, result, python, become=become)
    if become and BEGUN not in str(result.get("stdout") or "") and said.code in OF_BECOME:
        raise NothingRan(said)
    raise PlanError(said)


def explain_lost_answer(
    program: str, result: Mapping[str, Any], python: str = "", *, become: bool = False
) -> Message:
    """Return why a host program gave no answer.

    python: the interpreter that the inventory names. become: whether another program starts it.
    """
    text = str(result.get("stdout") or "") + "\n" + str(result.get("stderr") or "")
    if WANTS_TERMINAL in text:
        return messages.NEEDS_TERMINAL.fill()
    if NO_PYTHON in text:
        return messages.NO_PYTHON.fill()
    if python and OLD_PYTHON in text:
        return messages.PYTHON_2.fill(python=python)
    begun = _BEGUN_LINE.search(text)
    version = int(begun[1][:4]) if begun else OLDEST
    if version < OLDEST:
        return messages.PYTHON_OLD.fill(major=version >> 8, minor=version & 0xFF)
    # the status is that of the become method as well, if that is missing
    named = not become or any(word in text for word in python.split())
    if python and named and result.get("rc") in (126, 127):
        return messages.NO_PYTHON_THERE.fill(python=python)
    tail = " | ".join(row for row in text.splitlines() if row.strip() and BEGUN not in row)[-600:]
    said = tail or "no output"
    return messages.PROGRAM_LOST.fill(program=program, status=result.get("rc"), output=said)


def send_by_module(
    action: ActionBase, program: str, request: Mapping[str, Any], task_vars: dict[str, Any]
) -> dict[str, Any]:
    """Run a program on the host as an Ansible module, and return the answer.

    Raise PlanError if the module fails.
    """
    arguments = {"program": program, "request": host_answers.pack(request)}
    result = action._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)
    if result.get("failed") or "answer" not in result:
        python = get_named_interpreter(action, task_vars)
        said = explain_module_failure(result, python)
        # Keep what Ansible adds to a failed module. Everything else comes from the host, and must
        # not pass for this action's own result.
        shown = {key: result[key] for key in FAILED_MODULE if key in result}
        message = explain_module_interpreter(result, python) or messages.MODULE_FAILED.fill(
            module=MODULE, program=program, cause=said.rstrip(".")
        )
        error = PlanError(message)
        error.kept = shown
        raise error
    return host_answers.read_program_answer(str(result["answer"]))


def explain_module_interpreter(result: Mapping[str, Any], python: str) -> Message | None:
    """Return the message about an interpreter that is missing or too old for a module; None if it
    did not fail for that.

    A module needs a newer Python than a program over stdin: each ansible-core sets its own oldest
    one for hosts, which shows as a sentence of its own or as a syntax error in its wrapper.
    """
    text = "\n".join(str(result.get(name) or "") for name in ("msg", *FAILED_MODULE[:2]))
    if any(word in text for word in OLD_FOR_MODULES):
        return messages.PYTHON_OLD_FOR_MODULES.fill()
    if python and result.get("rc") == 127 and any(word in text for word in python.split()):
        return messages.NO_PYTHON_THERE.fill(python=python)
    return None


def explain_module_failure(result: Mapping[str, Any], python: str) -> str:
    """Return why the module gave no answer.

    If the interpreter did not start, Ansible's own words are about JSON.
    """
    said = str(result.get("msg") or result.get("module_stderr") or "no answer")
    if NO_JSON not in said:
        return said
    text = "\n".join(str(result.get(stream) or "") for stream in ("module_stdout", "module_stderr"))
    tail = " | ".join(row.strip() for row in text.splitlines() if row.strip())[-600:] or "no output"
    if python:
        return messages.MODULE_PRINTED_BY.fill(output=tail, python=python)
    return messages.MODULE_PRINTED.fill(output=tail)


# Once for a run, and not for every host: Ansible loads its action plugins before it makes a process
# for each host's task.
for _program in PROGRAMS:
    pack_program_sources(_program)
read_loader()
