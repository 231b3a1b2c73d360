# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports that people made in public, as files: the state of a host, the tasks that are run there,
and what is right afterwards.

One directory per report in tests/fixtures/public_reports/SUBJECT: `report.yml`, and `tree/` with
what does not fit into that well. The README.md there has the keys. A key that is not known is an
error, so that no expectation is passed over.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.unit import hardware

PLACE = Path(__file__).parents[1] / "fixtures/public_reports"
# The subjects, in the order in which the page has them.
SUBJECTS = {
    "containerd": "containerd", "crio": "CRI-O", "podman": "Podman", "docker": "Docker", "cdi": "CDI specs", "driver": "Drivers and GPUs",
    "distributions": "Distributions of Kubernetes, and systems with rules of their own", "packages": "Packages and repositories",
    "kubernetes": "Kubernetes", "images": "The choice of an image",
}  # fmt: skip
OUTCOMES = ("refused", "changed", "unchanged", "untouched")
STATES = ("absent", "unchanged", "original")  # as before this task, as before the first
ADDRESS = re.compile(r"https://[\w.-]+/\S+")


class Malformed(Exception):
    """A report that is not written as the format demands."""


@dc.dataclass(frozen=True)
class Content:
    """The state of a file after a task. state: one of STATES, or "" if its text and mode are
    judged.
    """

    state: str = ""
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    mode: str = ""


@dc.dataclass(frozen=True)
class Expected:
    """The right outcome of one task."""

    outcome: str
    codes: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    files: Mapping[str, Content] = dc.field(default_factory=dict)


@dc.dataclass(frozen=True)
class Task:
    """A task, as a playbook would have it. An option "@NAME" is the text of a file beside the
    reports.
    """

    module: str
    expect: Expected
    options: Mapping[str, Any] = dc.field(default_factory=dict)
    check: bool = False
    umask: str = "0022"


@dc.dataclass(frozen=True)
class Running:
    """A host that runs, with its engine.

    programs: what others print: how the command line begins, exit status, output, errors.
    kubelet: the flags of the kubelet that runs there, () if none does. kernel: the release that
    runs, '' for that of this machine. kernel_log: its records, as /dev/kmsg shows their text.
    states: what NVML says of each GPU that it does not say of a healthy one, () if it cannot be
    asked. units: properties of systemd's units.
    """

    engine: str
    programs: tuple[tuple[str, int, str, str], ...] = ()
    kubelet: tuple[str, ...] = ()
    kernel: str = ""
    kernel_log: tuple[str, ...] = ()
    states: tuple[Mapping[str, Any], ...] = ()
    units: Mapping[str, Mapping[str, str]] = dc.field(default_factory=dict)


@dc.dataclass(frozen=True)
class Report:
    """A report: the addresses at which it was made, the host, the tasks, and the page's words on
    condition and right outcome.
    """

    place: Path
    addresses: tuple[str, ...]
    condition: str
    right: str
    tasks: tuple[Task, ...]
    files: Mapping[str, str] = dc.field(default_factory=dict)
    # of such a file; UTF-8 for others
    encodings: Mapping[str, str] = dc.field(default_factory=dict)
    links: Mapping[str, str] = dc.field(default_factory=dict)
    directories: tuple[str, ...] = ()
    modes: Mapping[str, str] = dc.field(default_factory=dict)
    hardware: hardware.Hardware | None = None
    machine: str = "x86_64"
    running: Running | None = None  # none: a tree

    @property
    def subject(self) -> str:
        return self.place.parent.name

    @property
    def name(self) -> str:
        return f"{self.subject}/{self.place.name}"


def places() -> list[Path]:
    """Return the directories of all reports."""
    return sorted(path.parent for path in PLACE.glob("*/*/report.yml"))


def read(place: Path) -> Report:
    """Read one report. Malformed is raised for anything that the format does not have."""
    given = yaml.safe_load((place / "report.yml").read_text(encoding="utf-8"))
    try:
        return _report(place, given)
    except (TypeError, ValueError, KeyError, AttributeError, re.error) as error:
        raise Malformed(f"{place}/report.yml: {error}") from error


def _report(place: Path, given: Mapping[str, Any]) -> Report:
    texts = {key: str(given[key]).strip() for key in ("condition", "right")}
    lists = {key: tuple(given[key]) for key in ("addresses", "directories") if key in given}
    hardware_ = hardware.of_report(given["hardware"]) if "hardware" in given else None
    running = _running(given["running"]) if "running" in given else None
    tasks = tuple(_task(one) for one in given["tasks"])
    report = Report(
        **{
            **given,
            **texts,
            **lists,
            "place": place,
            "hardware": hardware_,
            "running": running,
            "tasks": tasks,
        }
    )
    wrong = [address for address in report.addresses if not ADDRESS.fullmatch(address)]
    wrong += [path for path in _paths(report) if not path.startswith("/")]
    if not set(report.encodings) <= set(report.files) or (report.encodings and running):
        raise ValueError(f"encodings are those of files in a tree: {sorted(report.encodings)}")
    if wrong or not report.addresses or not tasks:
        raise ValueError(
            f"addresses begin with https://, paths of the host with a slash, and each list has an entry: {wrong}"
        )
    return report


def _paths(report: Report) -> list[str]:
    judged = [path for task in report.tasks for path in task.expect.files]
    return [*report.files, *report.links, *report.directories, *report.modes, *judged]


def _running(given: Mapping[str, Any]) -> Running:
    rows = tuple(
        (str(line), int(status), str(out), str(err))
        for line, status, out, err in given.get("programs", ())
    )
    lists = {key: tuple(_listed(given.get(key, []))) for key in ("kubelet", "kernel_log")}
    return Running(**{**given, **lists, "programs": rows, "states": tuple(given.get("states", ()))})


def _task(given: Mapping[str, Any]) -> Task:
    expect = dict(given["expect"])
    expect["files"] = {path: _content(value) for path, value in expect.get("files", {}).items()}
    for key in ("says", "silent"):
        expect[key] = tuple(re.compile(pattern).pattern for pattern in _listed(expect.get(key, [])))
    expect["codes"] = tuple(_listed(expect.get("codes", [])))
    if expect["outcome"] not in OUTCOMES:
        raise ValueError(f"outcome is {' | '.join(OUTCOMES)}, not {expect['outcome']}")
    return Task(**{**given, "expect": Expected(**expect)})


def _content(given: Any) -> Content:
    if isinstance(given, str):
        if given not in STATES:
            raise ValueError(f"a file is {' | '.join(STATES)}, or has and lacks texts, not {given}")
        return Content(given)
    words: dict[str, Any] = {
        key: value if key == "mode" else tuple(_listed(value)) for key, value in given.items()
    }
    return Content(**words)


def _listed(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"a list of texts is needed, not {value!r}")
    return value
