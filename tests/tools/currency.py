# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print how old the facts of the tables are, and ask package indexes for newer releases.

    currency.py           one row per project: what the tables know, since when, and what is newer
    currency.py --today   asks nothing, and fails if a row is too old by today's date

The indexes are asked through their ordinary clients: `go list`, `pip index` and `apt-cache`. An
index that does not answer is named, and its row is checked by a person.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from environments import ROOT

CHANGELOG = ROOT / "changelogs/changelog.yaml"
SECONDS = 120  # for one index to answer
# A release, and not a version before one: "v2.4.2", "29.9.3+incompatible", "13.5.37".
RELEASE = re.compile(r"^v?(\d+(?:\.\d+)*)(?:\+incompatible)?$")
# A distribution's version of a package: epoch, upstream's version, the distribution's part. What
# precedes a release has a tilde: "6.1.0~rc1-1".
PACKAGED = re.compile(r"^(?:\d+:)?(\d+(?:\.\d+)*)(?!.*~(?:rc|beta|alpha))")


def load_known() -> Any:
    """Return the module of the rows."""
    sys.path.insert(0, str(ROOT / ".cache/collections"))
    from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import currency

    return currency


def count_days(checked: str, day: datetime.date) -> int:
    """Return how many days before a day a row was checked."""
    return (day - datetime.date.fromisoformat(checked)).days


def find_old_rows(known: Mapping[str, Any], day: datetime.date, most: int) -> list[str]:
    """Return the names of the rows that were checked more than `most` days before a day."""
    return [name for name, row in known.items() if count_days(row.checked, day) > most]


def find_release_day(changelog: str, known: Mapping[str, Any]) -> datetime.date:
    """Return the day by which rows are judged: the newest release's, or that of the newest row.

    changelog: the text of changelogs/changelog.yaml, '' before the first release.
    """
    dates = re.findall(r"^ +release_date: '?(\d{4}-\d\d-\d\d)'?$", changelog, re.MULTILINE)
    return datetime.date.fromisoformat(max(dates or [row.checked for row in known.values()]))


def split_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def ask_client(command: Sequence[str], place: str | None = None) -> str:
    """Return the output of an index's client.

    Raise subprocess.SubprocessError if it fails or takes too long.
    """
    return subprocess.run(
        command, check=True, cwd=place, capture_output=True, text=True, timeout=SECONDS
    ).stdout


def ask_go(module: str) -> list[str]:
    """Return the released versions of a Go module."""
    with tempfile.TemporaryDirectory() as place:
        command = ["go", "list", "-m", "-versions", "-f", '{{join .Versions "\\n"}}', module]
        ask_client(["go", "mod", "init", "asks"], place)
        said = ask_client(command, place)
    return [found[1] for line in said.split() if (found := RELEASE.match(line))]


def ask_pypi(project: str) -> list[str]:
    """Return the released versions of a Python project."""
    command = [sys.executable, "-m", "pip", "index", "versions", project]
    said = ask_client(command)
    listed = said.partition("Available versions:")[2].partition("\n")[0]
    return [found[1] for word in listed.split(",") if (found := RELEASE.match(word.strip()))]


def ask_debian(package: str) -> list[str]:
    """Return the versions of a package that this machine's apt knows."""
    return read_packaged_versions(ask_client(["apt-cache", "madison", package]))


def read_packaged_versions(table: str) -> list[str]:
    """Return the released versions in the table that `apt-cache madison` prints."""
    versions = [line.split("|")[1].strip() for line in table.splitlines() if line.count("|") >= 2]
    return [found[1] for version in versions if (found := PACKAGED.match(version))]


CLIENTS: Mapping[str, Callable[[str], list[str]]] = {
    "go": ask_go,
    "pypi": ask_pypi,
    "debian": ask_debian,
}


def find_newer(row: Any, clients: Mapping[str, Callable[[str], list[str]]]) -> str:
    """Return what an index says beside a row, in the words of the table."""
    if not row.ask:
        return "look there"
    kind, _colon, name = row.ask.partition(":")
    try:
        found = clients[kind](name)
    except (OSError, subprocess.SubprocessError):
        return f"no answer from {kind}"
    if not found:
        return f"no release in {kind}"
    newest = max(found, key=split_numbers)
    known = split_numbers(row.newest)
    listed = split_numbers(newest)[: len(known)]
    if listed < known:
        return f"index ends at {newest}, look there"
    return f"BEHIND {newest}" if listed > known else "newest"


def list_lines(known: Mapping[str, Any], day: datetime.date, most: int) -> list[str]:
    """Return a line per row: project, known release, days since it was checked, news, source."""
    lines = []
    for row in known.values():
        days = count_days(row.checked, day)
        age = f"{days} days{', TOO OLD' if days > most else ''}"
        news = find_newer(row, CLIENTS)
        lines.append(f"{row.title:28} {row.newest:12} {age:18} {news:32} {row.source}")
    return lines


def main(arguments: Sequence[str]) -> int:
    """Print the rows, or judge them by today's date. Return the exit status."""
    rows = load_known()
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    old = find_old_rows(rows.KNOWN, today, rows.MAX_AGE_DAYS)
    if "--today" not in arguments:
        print("\n".join(list_lines(rows.KNOWN, today, rows.MAX_AGE_DAYS)))
        return 0
    for name in old:
        row = rows.KNOWN[name]
        tables = ", ".join(row.tables)
        print(
            f"{name}: checked on {row.checked}, more than {rows.MAX_AGE_DAYS} days ago. "
            f"Compare {tables} with {row.source}, then date the row in host/currency.py"
        )
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
