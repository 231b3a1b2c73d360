# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch addresses from the controller itself, within a time limit.

No host is asked, and nothing from a host goes out.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ansible import constants
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    messages,
    outside_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    read_error_message,
)

LONGEST = 1 << 16
LARGEST = 1 << 28  # bytes of a package
SECONDS = 20  # limit for one text, and for each part of a package
WHOLE = 600  # seconds that one package may take
PART = 1 << 16
# seconds, and the bytes a second that a server has to give on average after them
SLOW, SLOWEST = (
    60,
    4096,
)
CALL = 600  # seconds that one module that asks an API may take
Found = TypeVar("Found")


class _Late(BaseException):
    """The signal that the time is over.

    It is not an Exception: code that is interrupted may catch any of those and go on.
    """


def fetch(url: str) -> dict[str, Any]:
    """Fetch a text: {"content"} or {"error"}.

    The processes of one run of Ansible share what one of them fetched.
    """
    kept = _get_kept_place(url)
    with contextlib.suppress(OSError):
        return {"content": kept.read_text(encoding="utf-8")}
    # this import takes a tenth of an action's start, and few runs fetch
    from ansible.module_utils.urls import (
        open_url,
    )

    def whole() -> bytes:
        with open_url(url, timeout=SECONDS, http_agent="gpufleet.nvidia") as answer:
            return bytes(answer.read(LONGEST + 1))

    try:
        data = ask_within_limit(SECONDS, whole)
    except TimeoutError:
        return {
            "error": {
                "kind": "fetch",
                "message": outside_messages.OUTSIDE_TEXT_LATE.fill(seconds=SECONDS),
            }
        }
    except Exception as error:  # every library below has exceptions of its own
        return {"error": {"kind": "fetch", "message": describe_error(error)}}
    if len(data) > LONGEST:
        return {
            "error": {
                "kind": "fetch",
                "message": outside_messages.OUTSIDE_TEXT_TOO_LONG.fill(limit=LONGEST),
            }
        }
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(OSError):
        _keep(kept, text)
    return {"content": text}


def download(url: str) -> bytes | None:
    """Fetch the bytes at an address; None if nothing is there.

    Raise PlanError for any other failure, which never counts as missing.
    """
    from ansible.module_utils.urls import open_url

    step = outside_messages.REACH_ADDRESS

    def whole() -> bytes:
        with open_url(url, timeout=SECONDS, http_agent="gpufleet.nvidia") as answer:
            return read_answer_body(answer)

    try:
        data = ask_within_limit(WHOLE, whole)
    except Exception as error:  # every library below has exceptions of its own
        if getattr(error, "code", 0) == 404 or isinstance(
            getattr(error, "reason", None), FileNotFoundError
        ):
            return None
        message = messages.CANNOT_FETCH.fill(cause=describe_error(error), step=step)
        raise PlanError(message, where=url) from None
    if len(data) > LARGEST:
        limit = LARGEST >> 20
        raise PlanError(messages.FETCHED_TOO_LARGE.fill(limit=limit, step=step), where=url)
    return data


def describe_error(error: Exception) -> str:
    """Return the message of an error of our own, or else the error's text in one line.

    Of an error of urllib that is what the system says, without the names of Python around it.
    """
    said = read_error_message(error)
    if isinstance(said, Message):
        return said
    reason = getattr(error, "reason", None)
    if isinstance(reason, OSError):
        said = reason.strerror or str(reason)
    return " ".join(said.split())[:200] or type(error).__name__


def read_answer_body(answer: Any) -> bytes:
    """Read an answer, up to a little more than LARGEST.

    Raise TimeoutError if it comes too slowly to be complete in time.
    """
    began = time.monotonic()
    parts, size = [], 0
    while size <= LARGEST and (part := answer.read1(PART)):
        parts.append(part)
        size += len(part)
        passed = time.monotonic() - began
        if passed > WHOLE or (passed > SLOW and size < SLOWEST * passed):
            raise TimeoutError(outside_messages.OUTSIDE_BYTES_SLOW.fill(size=size, seconds=passed))
    return b"".join(parts)


def ask_within_limit(seconds: float, ask: Callable[[], Found]) -> Found:
    """Carry out one request, from looking up the name to the last byte.

    Raise TimeoutError after so many seconds.

    The limit of a connection counts for each of its parts, and begins again with every byte,
    including those of headers. Looking up a name has no limit. So the request has a thread of its
    own. A thread that is still waiting ends with this process, which fails then.
    """
    answers: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

    def asking() -> None:
        try:
            answers.put((ask(), None))
        except Exception as error:  # raised again in the thread that waits
            answers.put((None, error))

    threading.Thread(target=asking, daemon=True).start()
    try:
        answer, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(outside_messages.OUTSIDE_ANSWER_LATE.fill(seconds=seconds)) from None
    if error:
        raise error
    whole: Found = answer
    return whole


@contextlib.contextmanager
def interrupt_after(seconds: float, who: str, error: type[PlanError] = PlanError) -> Iterator[None]:
    """End what runs in this context after so many seconds with this error.

    A module that asks an API may have no limit of its own.

    It uses the signal of Ansible's own `timeout` of a task. If the task has a timeout, that counts.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getitimer(signal.ITIMER_REAL)[0]
    ):
        yield
        return

    def ring(_number: int, _frame: Any) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _Late:
        message = messages.NO_ANSWER_IN_TIME.fill(who=who, seconds=f"{seconds:.0f}")
        raise error(message) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _get_kept_place(url: str) -> Path:
    """Return the place of a fetched text.

    Ansible makes this folder for one run, for its user alone, and removes it at the end.
    """
    name = hashlib.sha256(url.encode("utf-8")).hexdigest()
    return Path(constants.DEFAULT_LOCAL_TMP) / f"gpufleet-{name}"


def _keep(place: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=place.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(name, place)
