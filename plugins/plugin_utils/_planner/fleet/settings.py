# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the settings of a rollout before any host is looked at. Each wrong one is an error that
names it.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import whole
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    approval,
    hardware,
    messages,
    sink,
    waves,
    window,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.waves import Amount

PREFIX = "gpufleet_rollout_"


@dc.dataclass(frozen=True)
class RolloutSettings:
    """The settings of a rollout, judged. Times are in seconds."""

    hardware_class: tuple[str, ...] = hardware.CLASS
    domain: tuple[str, ...] = ()
    canaries: int = 1
    waves: tuple[Amount, ...] = waves.parse_wave_sizes(f"{PREFIX}waves", list(waves.DEFAULT))
    max_unavailable: Amount | None = None
    max_left_out: Amount = Amount(10, True)
    max_failed: Amount = Amount(0, False)
    seed: str = ""
    windows: tuple[window.Window, ...] = ()
    soak: int = 0
    soak_command: tuple[str, ...] = ()
    gate_check: tuple[str, ...] = ()
    gate_retries: int = 3
    plugin_wait: int = 90
    approved_changes: approval.Approved | None = None
    until: str = "end"
    keep_packages: str = "try"
    driver: str = ""
    events: tuple[str, ...] = ()


def build_rollout_settings(options: Mapping[str, Any]) -> RolloutSettings:
    """Build the settings from options by their names without the prefix.

    The value None stands for an option that is not set.
    """
    given = list_given_options(options)
    settings = RolloutSettings(
        **{field: read(given[name]) for name, (field, read) in READ.items() if name in given}
    )
    if settings.max_unavailable is not None and settings.max_unavailable.number <= 0:
        raise PlanError(messages.NONE_UNAVAILABLE.fill(value=given["max_unavailable"]))
    if settings.soak_command and not settings.soak:
        raise PlanError(messages.SOAK_COMMAND_ALONE.fill())
    parse_whole_number("host_timeout", given.get("host_timeout", 0))
    if not parse_task_files(given.get("tasks")).get("change") and settings.driver:
        raise PlanError(messages.DRIVER_WITHOUT_TASKS.fill(driver=settings.driver))
    return settings


def list_given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are set. AWX passes an unanswered question of a survey on as an empty
    text.

    max_failed: a list of values by precedence, the rollout's own setting before that of all
    playbooks.
    """
    several = options.get("max_failed")
    values = (
        {**options, "max_failed": next(filter(says, several), None)}
        if isinstance(several, list | tuple)
        else options
    )
    return {name: value for name, value in values.items() if says(value)}


def says(value: Any) -> bool:
    """Tell whether a setting has a value. A blank text is none."""
    return value is not None and not (isinstance(value, str) and not value.strip())


# Settings of the other playbooks that a rollout does not read -> the settings that it reads
# instead.
UNREAD = {
    "gpufleet_serial": messages.SERIAL_UNREAD,
    "gpufleet_fail_on_drift": messages.DRIFT_UNREAD,
}


def warn_of_unread_settings(of_run: Mapping[str, Any]) -> list[str]:
    """Return a warning for each setting of another playbook that looks like one of the rollout's.

    An empty value or `false` asks for nothing. A file for several playbooks has the waves of both.
    So gpufleet_serial beside gpufleet_rollout_waves gets no warning.
    """
    given = list_given_options(of_run)
    idle = {
        name for name, value in given.items() if str(value).strip().lower() in ("false", "no", "0")
    }
    idle |= {"gpufleet_serial"} if f"{PREFIX}waves" in given else set()
    return [row.fill() for name, row in UNREAD.items() if name in given.keys() - idle]


UNTIL = ("end", "canaries")


def parse_until(value: Any) -> str:
    """Return how far the run goes. Raise PlanError for an unknown word."""
    if value not in UNTIL:
        raise PlanError(messages.WRONG_END.fill(value=value, choices=" or ".join(UNTIL)))
    return str(value)


KEEPING = ("try", "require", "never")


def parse_keeping(value: Any) -> str:
    """Return whether packages of the driver are kept. Raise PlanError for an unknown word."""
    if value not in KEEPING:
        choices = ", ".join(KEEPING)
        raise PlanError(messages.WRONG_KEEPING.fill(value=value, choices=choices))
    return str(value)


DRIVER = re.compile(r"[0-9]{3,4}(?:\.[0-9]{1,4}){0,2}")


def parse_driver(value: Any) -> str:
    """Return the release of the driver, or its beginning at a dot. Raise PlanError for another text.

    A number with a point has lost its zeros: 550.10 is 550.1 to YAML.
    """
    text = str(value).strip()
    if isinstance(value, bool | float) or not DRIVER.fullmatch(text):
        raise PlanError(messages.WRONG_DRIVER.fill(value=value))
    return text


TASKS = ("before", "change", "after")


def parse_task_files(value: Any) -> Mapping[str, Any]:
    """Return the files of tasks by the point at which they are run. Raise PlanError for an unknown
    point.

    The value is a table, one in JSON as text, or `change=driver.yml,after=check.yml`.
    """
    if value in (None, "", {}):
        return {}
    files = parse_written_table(value) if isinstance(value, str) else value
    if not isinstance(files, Mapping):
        raise PlanError(messages.NO_TASKS.fill(value=value))
    unknown = sorted(set(map(str, files)) - set(TASKS))
    if unknown:
        raise PlanError(
            messages.UNKNOWN_TASKS.fill(unknown=", ".join(unknown), known=", ".join(TASKS))
        )
    return files


def parse_written_table(text: str) -> Any:
    """Parse a table that was written as text. Return None if it is not one."""
    try:
        if text.strip().startswith("{"):
            return json_bounds.load_bounded_json(text)
        pairs = [part.split("=", 1) for part in text.split(",") if part.strip()]
        return {name.strip(): path.strip() for name, path in pairs}
    except ValueError:
        return None


def check_of(value: Any) -> tuple[str, ...]:
    """Return an address as one word, or the words of a command, which no shell reads."""
    if value in (None, "", []):
        return ()
    listed = list_of(value)
    words = tuple(str(v) for v in listed) if isinstance(listed, list) else (str(listed).strip(),)
    if not isinstance(listed, list) and not words[0].startswith(sink.SCHEMES):
        raise PlanError(messages.GATE_CHECK.fill(value=value))
    return words


def parse_check_command(value: Any) -> tuple[str, ...]:
    """Return the words of a command that is run on each host, which no shell reads."""
    if value in (None, "", []):
        return ()
    listed = list_of(value)
    if not isinstance(listed, list) or not all(
        isinstance(v, str | int | float) and not isinstance(v, bool) for v in listed
    ):
        raise PlanError(messages.SOAK_COMMAND.fill(value=value))
    return tuple(str(v) for v in listed)


def list_of(value: Any) -> Any:
    """Parse a list in brackets that was written as text. Return any other value as it is."""
    return (
        waves.parse_written_list(value)
        if isinstance(value, str) and value.strip().startswith("[")
        else value
    )


def parse_key_paths(name: str, value: Any) -> tuple[str, ...]:
    """Return the key paths of a setting. Raise PlanError for one of a wrong form."""
    return (
        hardware.require_paths(f"{PREFIX}{name}", [str(v) for v in waves.parse_written_list(value)])
        if value not in (None, "", [])
        else ()
    )


WRITTEN = {
    "host_timeout": "600, which is in seconds",
    "plugin_wait": "90, which is in seconds",
    "soak": "60, which is in seconds",
}


def parse_whole_number(name: str, value: Any) -> int:
    """Return a whole number, which may have been written as text. Raise PlanError for any other
    value.
    """
    text = str(value).strip()
    number = None if isinstance(value, bool) else whole.read_whole(text)
    if number is None:
        row = messages.NEGATIVE_NUMBER if re.fullmatch(r"-\d+", text) else messages.NO_NUMBER
        example = WRITTEN.get(name, "1")
        raise PlanError(row.fill(setting=f"{PREFIX}{name}", value=value, example=example))
    return number


def build_number_parser(name: str) -> Callable[[Any], int]:
    """Return the parser of a setting that is a whole number."""
    return functools.partial(parse_whole_number, name)


def build_amount_parser(name: str) -> Callable[[Any], Amount]:
    """Return the parser of a setting that is a number or a percentage of hosts."""
    return functools.partial(waves.parse_amount, f"{PREFIX}{name}")


# option -> its field, and the function that reads its value. An option that is not given keeps the
# field's default.
READ: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "class": ("hardware_class", lambda value: parse_key_paths("class", value) or hardware.CLASS),
    "domain": ("domain", functools.partial(parse_key_paths, "domain")),
    "canaries": ("canaries", build_number_parser("canaries")),
    "waves": ("waves", functools.partial(waves.parse_wave_sizes, f"{PREFIX}waves")),
    "max_unavailable": ("max_unavailable", build_amount_parser("max_unavailable")),
    "max_left_out": ("max_left_out", build_amount_parser("max_left_out")),
    "max_failed": ("max_failed", build_amount_parser("max_failed")),
    "seed": ("seed", str),
    "window": ("windows", functools.partial(window.parse_windows, f"{PREFIX}window")),
    "soak": ("soak", build_number_parser("soak")),
    "soak_command": ("soak_command", parse_check_command),
    "gate_check": ("gate_check", check_of),
    "gate_retries": ("gate_retries", build_number_parser("gate_retries")),
    "plugin_wait": ("plugin_wait", build_number_parser("plugin_wait")),
    "approved_changes": ("approved_changes", approval.parse_approved_digests),
    "until": ("until", parse_until),
    "keep_packages": ("keep_packages", parse_keeping),
    "driver": ("driver", parse_driver),
    "events": (
        "events",
        lambda value: sink.parse_sink(f"{PREFIX}events", list_of(value), file=True),
    ),
}
