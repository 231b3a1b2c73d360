# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handle maintenance windows: `Mo-Fr 20:00-04:00 Europe/Berlin`.

A batch starts only within one, and a batch that has started is finished.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import messages

DAYS = ("mo", "tu", "we", "th", "fr", "sa", "su")
FORM = re.compile(
    r"(?:(?P<days>[A-Za-z,\-]+)\s+)?(?P<from>\d{1,2}:\d\d)-(?P<to>\d{1,2}:\d\d)(?:\s+(?P<zone>\S+))?"
)
DAYS_ALONE = r"(?i)(mo|tu|we|th|fr|sa|su)([,-](mo|tu|we|th|fr|sa|su))*"
MINUTES = 24 * 60
EXAMPLE = "Mo-Fr 20:00-04:00 Europe/Berlin"


@dc.dataclass(frozen=True)
class Window:
    """A time in the week. A window that ends before it begins goes on after midnight.

    days: on which it opens, 0 is Monday. start, end: minutes of the day.
    """

    days: frozenset[int]
    start: int
    end: int
    zone: str
    text: str

    def holds(self, weekday: int, minute: int) -> bool:
        """Tell whether a moment of the zone's own clock lies within."""
        if self.start < self.end:
            return weekday in self.days and self.start <= minute < self.end
        return (weekday in self.days and minute >= self.start) or (
            (weekday - 1) % 7 in self.days and minute < self.end
        )


def parse_windows(setting: str, value: Any) -> tuple[Window, ...]:
    """Parse one window or several, from text with semicolons or from a list. Return () for none."""
    if value in (None, "", []):
        return ()
    texts = [str(v) for v in value] if isinstance(value, list | tuple) else str(value).split(";")
    return tuple(parse_window(setting, text.strip()) for text in texts if text.strip())


def parse_window(setting: str, text: str) -> Window:
    """Return a window of time. Raise PlanError with an example if the text is none."""
    match = FORM.fullmatch(text)
    if re.fullmatch(DAYS_ALONE, text):
        row = messages.WINDOW_WITHOUT_TIMES
        raise PlanError(row.fill(setting=setting, window=text, example=EXAMPLE))
    if not match:
        raise PlanError(messages.NO_WINDOW.fill(setting=setting, window=text, example=EXAMPLE))
    start = parse_minute(setting, text, match["from"], MINUTES - 1)
    end = parse_minute(setting, text, match["to"], MINUTES)
    if start == end:
        raise PlanError(messages.EMPTY_WINDOW.fill(setting=setting, window=text))
    return Window(
        parse_days(setting, text, match["days"] or "mo-su"),
        start,
        end % MINUTES,
        match["zone"] or "UTC",
        text,
    )


def parse_minute(setting: str, text: str, clock: str, last: int) -> int:
    """Return a time of the day in minutes. Raise PlanError if there is no such time.

    last: the last one that may be. A window may end at 24:00, and begins at 00:00.
    """
    hours, minutes = (int(part) for part in clock.split(":"))
    if minutes > 59 or hours * 60 + minutes > last:
        row = messages.NO_SUCH_TIME
        raise PlanError(row.fill(setting=setting, window=text, clock=clock, example=EXAMPLE))
    return hours * 60 + minutes


def parse_days(setting: str, text: str, said: str) -> frozenset[int]:
    """Return the days of the week of a window, Monday as 0. Raise PlanError for an unknown day."""
    days: set[int] = set()
    for part in said.split(","):
        first, _dash, last = part.partition("-")
        unknown = [day for day in (first, last or first) if day.lower() not in DAYS]
        if unknown:
            row, day = messages.NO_SUCH_DAY, unknown[0] or repr(part)
            raise PlanError(row.fill(setting=setting, window=text, day=day, example=EXAMPLE))
        a, b = (DAYS.index(day.lower()) for day in (first, last or first))
        days.update((a + n) % 7 for n in range((b - a) % 7 + 1))
    return frozenset(days)


def is_open(windows: Sequence[Window], now: Mapping[str, tuple[int, int]]) -> bool:
    """Tell whether a window is open now. Without a window the answer is always yes.

    now: zone -> (weekday, minute of the day) there.
    """
    return not windows or any(w.holds(*now[w.zone]) for w in windows)


def opens(windows: Sequence[Window], now: Mapping[str, tuple[int, int]]) -> str:
    """Return the time when the first of closed windows opens, by its zone's own clock: `Mo 20:00
    Europe/Berlin`.
    """
    _wait, first = min(
        ((get_minutes_until_window(w, *now[w.zone]), w) for w in windows),
        key=lambda found: found[0],
    )
    day = DAYS[
        (
            now[first.zone][0]
            + (now[first.zone][1] + get_minutes_until_window(first, *now[first.zone])) // MINUTES
        )
        % 7
    ].capitalize()
    return f"{day} {first.start // 60:02}:{first.start % 60:02} {first.zone}"


def get_minutes_until_window(window: Window, weekday: int, minute_: int) -> int:
    """Return the minutes until a window opens the next time."""
    return min(
        gap
        for day in window.days
        if (
            gap := ((day - weekday) * MINUTES + window.start - minute_) % (7 * MINUTES)
            or 7 * MINUTES
        )
    )
