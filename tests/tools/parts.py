# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of `make test` and `make check`: each is one command that shares nothing with the others, so they run side by side.

A file of tests/integration boots its own hosts in a lab of its own, so it can be a part of its own. Files are put together where they read
the same story, or where they are short. A file that is named nowhere is in the part `lab: others`, so none can be forgotten.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from environments import CACHE, ROOT

# How much of a processor a part keeps busy. A test on hosts waits for at least half of its time: for boots, restarts and time limits.
BUSY, WAITING = 1.0, 0.5
# Gigabytes: a dozen hosts with what they write to their disks, which are in memory; and what runs on this machine alone.
HOSTS_NEED, OTHERS_NEED = 3.0, 1.0


@dataclass(frozen=True)
class Part:
    """One command; `counted` says whether pytest's closing line is part of the total."""

    name: str
    command: tuple[str, ...]
    load: float
    counted: bool = False

    @property
    def memory(self) -> float:
        return HOSTS_NEED if self.load == WAITING else OTHERS_NEED


def target(name: str, load: float = BUSY) -> Part:
    """One target of the Makefile."""
    return Part(name, ("make", "--no-print-directory", name), load)


def pytest_part(name: str, load: float, *tests: str) -> Part:
    """Some of the tests; what they print goes to a file, so their durations cost nobody a look."""
    return Part(name, (sys.executable, "-m", "pytest", "-q", "--durations=10", *tests), load, counted=True)


# name -> files of tests/integration; the longest first. Judges start no hosts: engines' own programs judge files there, and AWX's run jobs.
LAB = {
    "story": ("absent", "check_mode", "main_line", "weeks_later"),
    "faults": ("faults",),
    "kubernetes": ("rollout_kubernetes",),
    "drains": ("drain_kubernetes", "drain_slurm"),
    "node_check": ("node_check",),
    "rollout": ("rollout_fleet", "rollout"),
    "cdi engines": ("cdi_engines", "cdi_mig"),
    "disasters": ("disasters", "executor", "gpu_operator"),
    "rollback": ("rollback", "taken_back_whole"),
    "two engines": ("two_engines", "nvidia_ctk_hosts", "other_writers"),
    "lab": ("lab", "device_nodes"),
    "first day": ("first_day", "docker", "examples"),
    "cdi specs": ("cdi_spec", "cdi_validated", "cdi_bad_hosts", "freshness"),
    "what leaves": ("bad_input", "failed_queries", "hidden_bytes", "what_leaves"),
    "adoption": ("faults_adoption", "gpu_operator_crio", "spelled_options", "example_projects"),
    "ways": ("transport", "local_user", "oldest_core", "reports", "waves"),
}
JUDGES = {
    "judge: containerd": ("containerd_judge", "runtime_config", "operator_drop_in"),
    "judge: nvidia-ctk": ("nvidia_ctk", "public_nvidia_ctk", "nothing_lowered"),
    "judge: public": ("public_configurations", "crio_adoption", "crio_judge"),
    "judge: adoption": ("adopted", "adoption_loses_nothing", "adoption_properties", "comparison"),
    "awx": ("awx_objects", "awx_workflow", "runners"),
    "judge: others": ("docker_judge", "properties", "cdi_oracle", "cdi_reference"),
}
OTHERS = "lab: others"
PLAYBOOKS = "tests/unit/playbooks"  # some 150 tests, each of which runs ansible-playbook a few times: as long as all other unit tests


def files(names: tuple[str, ...]) -> tuple[str, ...]:
    """The paths of files of tests/integration."""
    return tuple(f"tests/integration/test_{name}.py" for name in names)


def unnamed() -> tuple[str, ...]:
    """The files of tests/integration that no part names."""
    named = {name for names in (*LAB.values(), *JUDGES.values()) for name in names}
    found = (path.stem.removeprefix("test_") for path in sorted((ROOT / "tests/integration").glob("test_*.py")))
    return tuple(name for name in found if name not in named)


def on_lab(name: str, *command: str) -> Part:
    """A command on hosts that says what is missing where none can be had."""
    return Part(name, (sys.executable, str(ROOT / "tests/tools/on_lab_machines.py"), *command), WAITING)


def node_groups() -> list[str]:
    """The Pythons on which the node side's tests run besides the one that the part `unit` runs on."""
    return [f"node-{version.replace('.', '-')}" for version in ("3.6", "3.8", "3.13") if version != f"3.{sys.version_info.minor}"]


def fast() -> list[Part]:
    """What needs no hosts, the longest first: `make check`."""
    return [
        target("unit-2.16"),
        pytest_part("unit: playbooks", BUSY, PLAYBOOKS),
        pytest_part("unit", BUSY, "tests/unit", f"--ignore={PLAYBOOKS}"),
        *(Part(f"sanity-{core}", (sys.executable, "tests/tools/sanity.py", core), BUSY) for core in ("2.21", "2.20", "2.19")),
        *map(target, ("unit-2.18", "archive")),
        Part("unit-node", (sys.executable, "tests/tools/unit_matrix.py", *node_groups()), BUSY),
        *map(target, ("lint", "types")),
    ]


def parts() -> list[Part]:
    """All parts in the order in which they begin: the longest first, and parts that wait beside parts that do not."""
    hosts = [pytest_part(f"lab: {name}", WAITING, *files(names)) for name, names in LAB.items()]
    judges = [pytest_part(name, BUSY, *files(names)) for name, names in JUDGES.items()]
    others = [pytest_part(OTHERS, WAITING, *files(unnamed()))] if unnamed() else []
    molecule = on_lab("molecule", "--lab", "molecule", "molecule", "test", "--all")
    first, rest = fast()[:6], fast()[6:]
    return mixed([*hosts[:2], *others, *hosts[2:], molecule], [*first, *judges, *rest])


def mixed(waiting: list[Part], busy: list[Part]) -> list[Part]:
    """Take one of the busy for two of those that wait, as long as there are both."""
    found, rest = [], list(busy)
    for number, part in enumerate(waiting):
        found.append(part)
        if number % 2 and rest:
            found.append(rest.pop(0))
    return [*found, *rest]


LOGS = CACHE / "test-logs"
