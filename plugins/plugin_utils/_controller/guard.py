# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrap the `run()` of every action, so that only a result leaves it, whatever happens in it.

ansible-core before 2.19 keeps the words of a *returned* result from being a template
(`executor/task_executor.py`: `wrap_var`). It doesn't do so for the `result` of an
AnsibleActionFail, for the text of a failed connection, or for the message and the traceback of any
other exception. Those are rendered as soon as a task reads the registered result. So a host's words
would run on the controller.
"""

from __future__ import annotations

import errno
import functools
import gc
import multiprocessing
import os.path
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible.errors import AnsibleAction, AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.utils.display import Display
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
    name_options_in,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import escape

COLLECTION = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "..")) + os.sep
BUG = "this is a bug in the collection, please report it with the output of -vvv"
# The text that ansible-core before 2.19 appends to its own errors: the place in the user's file, in
# several lines.
CONTEXT = "\n\nThe error appears"
SENTENCES = ("advice", "warnings")  # the parts of a result that are lists of sentences
Run = Callable[..., dict[str, Any]]


def guard_run(run: Run) -> Run:
    """Wrap the `run()` of an action: every result and every failure is returned, escaped, and of
    JSON's own types.

    Exceptions that Ansible itself needs pass: a task that is skipped or done (AnsibleAction), a
    time limit and a signal (BaseException).
    """

    @functools.wraps(run)
    def guarded(*args: Any, **kwargs: Any) -> dict[str, Any]:
        action = args[0] if args else None
        keep_inherited_pages()
        try:
            result = end_sentences_with_codes(run(*args, **kwargs))
            return escape.escape_result(
                name_options_in(result, arguments.find_option_names(action))
            )
        except Exception as error:
            if isinstance(error, AnsibleAction) and not isinstance(error, AnsibleActionFail):
                raise
            return build_guarded_failure(error, action)

    return guarded


def end_sentences_with_codes(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result whose advice and warnings end with their codes, by which people search."""
    told = {
        key: [end_with_code(said) for said in result[key]]
        for key in SENTENCES
        if isinstance(result.get(key), list | tuple)
    }
    return {**result, **told}


def keep_inherited_pages() -> None:
    """Keep Python's garbage collector away from the objects that a worker process has inherited.

    Ansible forks a process for each task of a host. A collection writes into every object that it
    visits, so the kernel would copy the parent's pages: that took a third of a task's processor time.
    """
    if multiprocessing.parent_process() is not None:
        gc.freeze()


def build_guarded_failure(error: Exception, action: object = None) -> dict[str, Any]:
    """Return the result of a task that has failed.

    An error that cannot be described counts as unexpected.
    """
    try:
        if isinstance(error, PlanError):
            error = error.name_options(arguments.find_option_names(action))
        told = _build_expected_failure(error)
        return build_unexpected_failure(error) if told is None else escape.escape_result(told)
    except Exception as second:  # its message is left out, as that of the first
        return build_unexpected_failure(second)


def _build_expected_failure(error: Exception) -> dict[str, Any] | None:
    """Return the result for an error that this collection or Ansible has raised on purpose; None
    for any other.
    """
    failed = {"failed": True, "changed": False}
    if isinstance(error, PlanError):
        parts = {**failed, **error.kept, **arguments.build_option_failure(error)}
        return {**parts, "failed": True, "msg": str(error)}
    if isinstance(error, AnsibleActionFail):
        given: Mapping[str, Any] = error.result or {}
        # the traceback that ansible-core adds by itself
        kept = {key: value for key, value in given.items() if key != "exception"}
        return {**kept, **failed, "msg": str(error)}
    if isinstance(error, AnsibleConnectionFailure):
        return {"unreachable": True, "changed": False, "msg": describe_ansible_error(error)}
    if isinstance(error, AnsibleError):  # an undefined variable, a lookup, a vault
        return {**failed, "msg": describe_ansible_error(error)}
    return None


def describe_ansible_error(error: AnsibleError) -> str:
    """Return the message of an error of Ansible's in one line.

    The lines of the user's file that ansible-core before 2.19 adds are left out.
    """
    return " ".join(str(error).partition(CONTEXT)[0].split())


def build_unexpected_failure(error: Exception) -> dict[str, Any]:
    """Return the result for an error that is a bug.

    It contains the error's class and the line in this collection, but no word of the value that led
    to it.
    """
    where = list(list_error_places(error))
    Display().vvv("\n".join([f"{name_error_class(error)}, without the values in it:", *where]))
    ours = next((place for place in reversed(where) if not place.startswith(os.sep)), "")
    return {
        "failed": True,
        "changed": False,
        "msg": f"{name_error_class(error)}{' in ' + ours if ours else ''}; {BUG}",
    }


def name_error_class(error: BaseException) -> str:
    """Name an error by its class. For an error of the system, add its code."""
    code = errno.errorcode.get(error.errno or 0, "") if isinstance(error, OSError) else ""
    return f"{type(error).__name__} ({code})" if code else type(error).__name__


def list_error_places(error: BaseException) -> Iterator[str]:
    """Yield the places of an error, the innermost last.

    Files of this collection are named from its directory on, all others by their whole path.
    """
    for frame, line in traceback.walk_tb(error.__traceback__):
        yield f"{os.path.realpath(frame.f_code.co_filename).removeprefix(COLLECTION)} line {line}"
