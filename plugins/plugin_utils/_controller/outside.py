# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write and send what other programs read, from the controller.

Files are written whole or not at all. Other ways are addresses that take a PUT, and commands of the
user's.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    messages,
    named_paths,
    online,
    outside_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    sentences,
    values,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.sink import (
    COMMAND_SECONDS,
    FILE,
    SCHEMES,
)

# Readable for everyone who may enter the directory: the page is made to be shown, a web server is
# another user, and the page contains no hidden value.
MODE = 0o644
DIRECTORY, PUBLISH = "gpufleet_report_dir", "gpufleet_report_publish"
KINDS = {".html": "text/html; charset=utf-8", ".json": "application/json"}
ADDRESS_SECONDS = 60  # for an answer, after the data was sent
SLOWEST = 1 << 16  # bytes a second that an address takes


def make_writable_directory(name: str, setting: str = DIRECTORY) -> Path:
    """Return a directory that can be written to. Create it if it is missing."""
    place = require_usable_directory(name, setting)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = messages.DIRECTORY_NOT_MADE.fill(cause=error.strerror or "", setting=setting)
        raise PlanError(message, where=str(place)) from None
    return place


def require_usable_directory(name: str, setting: str = DIRECTORY) -> Path:
    """Return a directory that can be used; it may be missing.

    Raise PlanError for a path with something else than directories in it, or with a link that
    another user has made.
    """
    place = named_paths.expand_named_path(name).absolute()
    for part in (*reversed(place.parents), place):
        try:
            status = part.lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            given = {"setting": setting, "part": part, "cause": error.strerror}
            message = messages.DIRECTORY_UNREACHABLE.fill(**given)
            raise PlanError(message, where=str(place)) from None
        if not os.path.isdir(part):
            message = messages.NOT_A_DIRECTORY.fill(setting=setting, part=part)
            raise PlanError(message, where=str(place))
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, os.geteuid()):
            given = {"setting": setting, "part": part, "user": status.st_uid}
            raise PlanError(messages.FOREIGN_LINK.fill(**given), where=str(place))
    return place


def write_outside_file(
    place: Path, name: str, text: str | bytes, setting: str = DIRECTORY, mode: int | None = MODE
) -> Path:
    """Write a file in one step, so that a reader never gets half of it. Return its path.

    A link of that name is replaced, and its target is left alone. The temporary file has a new
    name: in a shared directory, a name that can be guessed may be another user's link.
    mode: None takes the mode of the umask.
    """
    whole = place / f".{name}.{secrets.token_hex(8)}"
    try:
        handle = os.open(
            whole,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW,
            0o666 if mode is None else mode,
        )
        with os.fdopen(handle, "wb") as stream:
            stream.write(
                text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
            )
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
        whole.replace(place / name)
    except OSError as error:
        with contextlib.suppress(OSError):  # a file system that is read-only refuses this as well
            whole.unlink()
        message = messages.NOT_WRITTEN.fill(cause=error.strerror or "", setting=setting)
        raise PlanError(message, where=str(place / name)) from None
    return place / name


def format_present_time() -> str:
    """Return the present time in UTC, as all results have it."""
    return values.format_moment(datetime.datetime.now(datetime.timezone.utc))


def publish(sink: Sequence[str], files: Sequence[Path]) -> str:
    """Send files to an address, or give their names to a command.

    Return why that failed; '' otherwise.
    """
    if not sink[0].startswith(SCHEMES):
        return next(filter(None, map(explain_unsendable_file, files)), "") or run(
            [*sink, *map(str, files)]
        )
    return next(
        (
            why
            for why in (explain_unsendable_file(file) or put_file(sink[0], file) for file in files)
            if why
        ),
        "",
    )


def explain_unsendable_file(file: Path) -> str:
    """Return why a file is not sent; '' if it may be sent.

    A user who can write to its directory can put a link there to any file of this user.
    """
    try:
        owner = file.lstat().st_uid
    except OSError as error:
        return outside_messages.OUTSIDE_FILE_UNREADABLE.fill(file=str(file), cause=error.strerror)
    return (
        ""
        if owner in (0, os.geteuid())
        else outside_messages.OUTSIDE_FILE_FOREIGN.fill(file=str(file), owner=owner)
    )


def put_file(address: str, file: Path) -> str:
    """Put a file below the address, by its name. Return why that failed; '' otherwise.

    The part behind a question mark stays in the address: it may be a signature.
    """
    parts = urlsplit(address)
    target = urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{file.name}"))
    headers = {"Content-Type": KINDS.get(file.suffix, "application/octet-stream")}
    try:
        # Follow only a link of this user's own: other users cannot make one.
        handle = os.open(
            file,
            os.O_RDONLY
            | os.O_NONBLOCK
            | (0 if file.is_symlink() and not explain_unsendable_file(file) else os.O_NOFOLLOW),
        )
        with os.fdopen(handle, "rb") as stream:
            data = stream.read()
    except OSError as error:
        return outside_messages.OUTSIDE_FILE_UNREADABLE.fill(file=str(file), cause=error.strerror)
    return send_request(target, data, headers, "PUT")


def send_request(address: str, data: bytes | None, headers: Mapping[str, str], method: str) -> str:
    """Send a request; return why that failed, '' otherwise.

    A redirect is a failure. urllib follows the redirect of a POST without its data, and a login
    page answers 200 to every request.
    """
    # these imports take a tenth of an action's start, and few runs send
    from http.client import InvalidURL
    from urllib.error import HTTPError

    from ansible.module_utils.urls import open_url

    given: dict[str, Any] = {
        "method": method,
        "data": data,
        "headers": dict(headers),
        "follow_redirects": "none",
    }

    def whole() -> str:
        with open_url(address, timeout=ADDRESS_SECONDS, http_agent="gpufleet.nvidia", **given):
            return ""  # open_url raises for each status that is not 2xx

    try:
        return online.ask_within_limit(ADDRESS_SECONDS + len(data or b"") / SLOWEST, whole)
    except HTTPError as error:
        redirects = 300 <= error.code < 400
        row = (
            outside_messages.OUTSIDE_REDIRECT if redirects else outside_messages.OUTSIDE_HTTP_STATUS
        )
        reason = " ".join(str(error.reason).split())[:200]
        return row.fill(address=redact_address(address), status=error.code, reason=reason)
    except InvalidURL:  # its text quotes the part after the host, including a signature
        return outside_messages.OUTSIDE_ADDRESS_FORM.fill(address=redact_address(address))
    except Exception as error:  # every library below has exceptions of its own
        return outside_messages.OUTSIDE_NOT_REACHED.fill(
            address=redact_address(address), cause=online.describe_error(error)
        )


def emit(sink: Sequence[str], line: str) -> str:
    """Send one event to an address or a command, or add it to a file.

    Return why that failed; '' otherwise.
    """
    if sink[0].startswith(SCHEMES):
        return send_request(sink[0], line.encode(), {"Content-Type": "application/json"}, "POST")
    if sink[0] != FILE:
        return run(sink, line + "\n")
    try:
        place = (
            require_usable_directory(str(named_paths.expand_named_path(sink[1]).absolute().parent))
            / Path(sink[1]).name
        )
        # A pipe without a reader would let the rollout wait for one.
        handle = os.open(
            place, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK, MODE
        )
        with os.fdopen(handle, "a", encoding="utf-8") as stream:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return outside_messages.OUTSIDE_NO_FILE_FOR_LINES.fill(file=sink[1])
            stream.write(line + "\n")
    except (OSError, PlanError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        return outside_messages.OUTSIDE_NOT_WRITTEN.fill(file=sink[1], cause=cause)
    return ""


def run(command: Sequence[str], text: str | None = None) -> str:
    """Run a command without a shell, with a text on its standard input.

    Return why that failed; '' otherwise.
    """
    given: dict[str, Any] = {"input": text} if text is not None else {"stdin": subprocess.DEVNULL}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=COMMAND_SECONDS,
            **given,
        )  # noqa: S603
    except subprocess.TimeoutExpired:  # its text quotes the whole command
        return outside_messages.OUTSIDE_COMMAND_LATE.fill(
            command=command[0], seconds=COMMAND_SECONDS
        )
    except (OSError, ValueError) as error:
        cause = " ".join(str(error).split()) or type(error).__name__
        return outside_messages.OUTSIDE_COMMAND_UNRUN.fill(command=command[0], cause=cause)
    last = sentences.get_last_line(done.stderr, done.stdout)
    failed = {"command": command[0], "status": done.returncode}
    if not done.returncode:
        return ""
    return (
        outside_messages.OUTSIDE_COMMAND_SAYS.fill(**failed, line=last)
        if last
        else outside_messages.OUTSIDE_COMMAND_FAILED.fill(**failed)
    )


def redact_address(address: str) -> str:
    """Return an address without the parts that open it: a name and a password, or a signature."""
    try:
        parts = urlsplit(address)
    except ValueError:  # brackets without an IPv6 address in them
        return f"{address.partition('://')[0]}://..."
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))
