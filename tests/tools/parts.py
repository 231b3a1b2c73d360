# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of `make test`, `make matrix` and `make check`.

Each part is one command that shares nothing with the others, so they run side by side.

A file of tests/integration boots its own hosts in a lab of its own, so it can be a part of its own. Files are
put together if they read the same story, or if they are short. A file that is named nowhere is in the part
`lab: others`, so none can be forgotten.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from environments import CACHE, ROOT
from sanity import CORES

# How much of a processor a part keeps busy. A test on hosts waits for at least half of its time: for boots, restarts and time limits.
BUSY, WAITING = 1.0, 0.5
# Gigabytes: a dozen hosts with what they write to their disks, which are in memory; and what runs on this machine alone.
HOSTS_NEED, OTHERS_NEED = 3.0, 1.0


@dataclass(frozen=True)
class Part:
    """A command of a run. `counted` tells whether pytest's closing line is part of the total."""

    name: str
    command: tuple[str, ...]
    load: float
    counted: bool = False

    @property
    def memory(self) -> float:
        return HOSTS_NEED if self.load == WAITING else OTHERS_NEED


def target(name: str, load: float = BUSY) -> Part:
    """Return the part that makes one target of the Makefile."""
    return Part(name, ("make", "--no-print-directory", name), load)


def pytest_part(name: str, load: float, *tests: str) -> Part:
    """Return a part that runs some of the tests.

    What they print goes to a file, so their durations disturb no reader.
    """
    return Part(name, (sys.executable, "-m", "pytest", "-q", "--durations=10", *tests), load, counted=True)


# name -> files of tests/integration; the longest first. Judges start no hosts: engines' own programs judge files there, AWX's run jobs, and
# the modules of kubernetes.core work on an API that the test answers for.
LAB = {
    "rollout": ("rollout_fleet", "rollout"),
    "what leaves": ("bad_input", "failed_queries", "hidden_bytes", "what_leaves"),
    "story": ("absent", "check_mode", "main_line", "weeks_later"),
    "kubernetes": ("rollout_kubernetes",),
    "hand over": ("hand_over",),  # a cluster's processes end with its lab, so each has one of its own
    "pods": ("kubernetes_apply", "kubernetes_pods"),
    "adoption": ("faults_adoption", "gpu_operator_crio", "spelled_options", "example_projects"),
    "first day": ("first_day", "docker", "examples"),
    "ways": ("transport", "local_user", "oldest_core", "reports", "waves"),
    "faults": ("faults",),
    "rollback": ("rollback", "taken_back_whole"),
    "disasters": ("disasters", "executor", "gpu_operator"),
    "two engines": ("two_engines", "nvidia_ctk_hosts", "other_writers"),
    "cdi specs": ("cdi_spec", "cdi_validated", "cdi_bad_hosts", "freshness"),
    "lab": ("lab", "device_nodes", "k3s"),
    "cdi engines": ("cdi_engines", "cdi_mig"),
    "node_check": ("node_check",),
    "packages": ("rpm_hosts", "apt_upgrade", "bundle"),
    "managers": ("k0s", "crio_hook", "microk8s"),
    "drain": ("drain_slurm",),
}
JUDGES = {
    "drain: kubernetes": ("drain_kubernetes",),
    "judge: nvidia-ctk": ("nvidia_ctk", "public_nvidia_ctk", "nothing_lowered"),
    "awx": ("awx_objects", "awx_workflow", "runners"),
    "judge: public": ("public_configurations", "crio_adoption", "crio_judge"),
    "judge: containerd": (
        "containerd_judge",
        "containerd_applied_judge",
        "containerd_cdi_switch_judge",
        "containerd_pods_judge",
        "runtime_config",
        "operator_drop_in",
    ),
    "judge: others": ("docker_judge", "properties", "cdi_oracle", "cdi_reference", "cdi_grants", "void_mount", "selinux"),
    "judge: adoption": ("adopted", "adoption_loses_nothing", "adoption_properties", "comparison"),
}
OTHERS = "lab: others"
# Half of the other unit tests, so that two processors share them; and some 200 tests that run ansible-playbook a few times each, rollouts
# more often than others.
PLANNER, PLAYBOOKS = "tests/unit/plugins/plugin_utils", "tests/unit/playbooks"
ROLLOUTS = f"{PLAYBOOKS}/test_rollout"
# Of `make matrix` alone, since an hour has no room for what others nearly always find.
MATRIX_ALONE = ("playbooks-2.16: others", "playbooks-2.18", "sanity-2.19", "sanity-2.20", "unit-2.16: planner")


def files(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths of files of tests/integration."""
    return tuple(f"tests/integration/test_{name}.py" for name in names)


def unnamed() -> tuple[str, ...]:
    """Return the files of tests/integration that no part names."""
    named = {name for names in (*LAB.values(), *JUDGES.values()) for name in names}
    found = (path.stem.removeprefix("test_") for path in sorted((ROOT / "tests/integration").glob("test_*.py")))
    return tuple(name for name in found if name not in named)


def on_lab(name: str, *command: str) -> Part:
    """Return a part that runs a command on hosts, or reports what this machine lacks for them."""
    return Part(name, (sys.executable, str(ROOT / "tests/tools/on_lab_machines.py"), *command), WAITING)


def matrix_part(name: str, *sets: str) -> Part:
    """Return a part that runs unit tests with other Pythons and other ansible-core releases."""
    return Part(name, (sys.executable, "tests/tools/unit_matrix.py", *sets), BUSY)


def sanity_part(core: str) -> Part:
    return Part(f"sanity-{core}", (sys.executable, "tests/tools/sanity.py", core), BUSY)


def fast() -> list[Part]:
    """Return the parts of `make check`, which tell most in a few minutes.

    They are the newest ansible-core, and the node side on the oldest Python.
    """
    return [
        pytest_part("unit", BUSY, "tests/unit", f"--ignore={PLANNER}", f"--ignore={PLAYBOOKS}"),
        pytest_part("unit: planner", BUSY, PLANNER),
        sanity_part(CORES[-1]),
        target("lint"),
        target("types"),
        matrix_part("unit-node-3.6", "node-3-6"),
    ]


def releases() -> list[Part]:
    """Return the other parts that need no hosts, the longest first.

    They are playbooks as they are played, other releases of ansible-core and Python, and the archive.
    """
    newest = f"node-3-{sys.version_info.minor}"  # the part `unit` runs the node side's tests on it
    return [
        pytest_part("playbooks: rollout", BUSY, *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob(f"{ROLLOUTS}*.py")))),
        pytest_part("playbooks", BUSY, PLAYBOOKS, f"--ignore-glob={ROLLOUTS}*"),
        matrix_part("playbooks-2.16: others", "core-2-16-other-playbooks"),
        matrix_part("playbooks-2.16", "core-2-16-playbooks"),
        matrix_part("playbooks-2.18", "core-2-18-playbooks"),
        matrix_part("unit-2.16", "core-2-16"),
        matrix_part("unit-2.16: planner", "core-2-16-planner"),
        *map(sanity_part, reversed(CORES[:-1])),
        target("archive"),
        matrix_part("unit-yaml", "yaml-6-0", "yaml-6-0-1", "yaml-6"),
        matrix_part("unit-node", *(name for name in ("node-3-8", "node-3-13") if name != newest)),
    ]


def matrix() -> list[Part]:
    """Return the parts of `make matrix`: all that need no hosts."""
    return [*releases()[:5], *fast()[:3], *releases()[5:], *fast()[3:]]


def parts() -> list[Part]:
    """Return the parts of `make test` in the order in which they begin.

    The longest come first, and parts that wait stand beside parts that do not.
    """
    hosts = [pytest_part(f"lab: {name}", WAITING, *files(names)) for name, names in LAB.items()]
    judges = [pytest_part(name, BUSY, *files(names)) for name, names in JUDGES.items()]
    others = [pytest_part(OTHERS, WAITING, *files(unnamed()))] if unnamed() else []
    molecule = on_lab("molecule", "--lab", "molecule", "molecule", "test", "--all")
    both = [part for part in matrix() if part.name not in MATRIX_ALONE]
    long, short = both[:6], both[6:]
    return mixed([*hosts[:2], *others, *hosts[2:], molecule], [*long, *judges, *short])


def mixed(waiting: list[Part], busy: list[Part]) -> list[Part]:
    """Take one of the busy parts for two of the waiting ones, as long as there are both."""
    found, rest = [], list(busy)
    for number, part in enumerate(waiting):
        found.append(part)
        if number % 2 and rest:
            found.append(rest.pop(0))
    return [*found, *rest]


LOGS = CACHE / "test-logs"
