# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of `make check`, `make matrix`, `make test` and `make nightly`.

Each part is one command that shares nothing with the others, so they run side by side.

A file of tests/integration boots its own hosts in a lab of its own, so it can be a part of its own.
Files are put together if they read the same story, or if they are short. A file that is named
nowhere is in the part `lab: others`, so none can be forgotten.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace

from environments import CACHE, ROOT
from sanity import CORES, SETS, WHOLE

# How much of a processor a part is given. Alone on two cores, parts have used half to nine tenths of
# one, as they wait for the programs that they start. Judges' programs are engines', which start and
# end. On hosts parts also wait for boots, restarts and time limits.
BUSY, JUDGING, WAITING = 0.66, 0.5, 0.44
# Gigabytes: a dozen hosts with what they write to their disks, which are in memory; and what runs
# on this machine alone.
HOSTS_NEED, OTHERS_NEED = 3.0, 1.0

LOGS = CACHE / "test-logs"


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


def name_file(part: str, ending: str) -> str:
    """Return the name of a part's file in the folder of the logs."""
    return f"{re.sub('[^a-z0-9.]+', '-', part)}.{ending}"


def target(name: str, load: float = BUSY) -> Part:
    """Return the part that makes one target of the Makefile."""
    return Part(name, ("make", "--no-print-directory", name), load)


def pytest_part(name: str, load: float, *tests: str) -> Part:
    """Return a part that runs some of the tests.

    Their output goes to a file, so their durations disturb no reader. All durations stand beside
    it, for durations.py.
    """
    report = f"--junitxml={LOGS / name_file(name, 'xml')}"
    command = (sys.executable, "-m", "pytest", "-q", "--durations=10", report, *tests)
    return Part(name, command, load, counted=True)


# name -> files of tests/integration; the longest first. A part whose name is in NIGHTLY waits for
# the night. Judges start no hosts: engines' own programs judge files there, AWX's run jobs, and the
# modules of kubernetes.core work on an API that the test answers for.
LAB: dict[str, tuple[str, ...]] = {
    "story": ("absent", "check_mode", "main_line"),
    "rollout": ("rollout_fleet",),
    "pods": ("kubernetes_pods",),
    "what leaves": ("bad_input", "failed_queries", "what_leaves"),
    "first day": ("first_day", "docker"),
    "newest engines": ("newest_engines",),
    "ways": ("transport", "local_user", "oldest_core"),
    "rollback": ("rollback", "executor"),
    "cdi": ("cdi_engines", "cdi_spec"),
    "host_verify": ("host_verify",),
    "managers": ("k3s",),
    "driver": ("driver_hold", "driver_branches", "gpu_health"),
    # a cluster's processes end with its lab, so each has one of its own
    "night: hand over": ("hand_over",),
    "night: kubernetes": ("rollout_kubernetes",),
    "night: objects": ("kubernetes_apply", "kubernetes_objects"),
    "night: rollout": ("rollout", "waves", "weeks_later"),
    "night: secrets": ("hidden_bytes",),
    "night: faults": ("faults",),
    "night: disasters": ("disasters", "faults_adoption", "taken_back_whole"),
    "night: operator": ("gpu_operator", "gpu_operator_crio", "nvidia_ctk_hosts", "spelled_options"),
    "night: managers": ("crio_hook", "k0s", "k3s_detected", "microk8s"),
    "night: cdi": ("cdi_mig", "cdi_validated", "cdi_bad_hosts", "freshness"),
    "night: drain": ("drain_slurm",),
    "night: driver": ("driver_change",),
    "night: packages": ("apt_upgrade", "rpm_hosts", "bundle"),
    "night: driver locks": ("driver_locks",),
    "night: documents": ("example_projects", "examples", "known_bad", "metrics", "reports"),
    "night: sharing": ("device_nodes", "sharing", "sharing_mps"),
    "night: two engines": ("two_engines", "other_writers"),
    "night: page": ("report_page", "site_page"),
    "night: newest kubernetes": ("newest_kubernetes",),
    "night: each release": ("each_release",),
    "night: other ways": ("other_ways",),
    "night: lab": ("lab",),
    "night: image": ("execution_environment",),
}
JUDGES = {
    "judge: containerd": (
        "containerd_judge",
        "containerd_applied_judge",
        "containerd_cdi_switch_judge",
        "containerd_pods_judge",
        "containerd_rules_judge",
        "runtime_config",
        "operator_drop_in",
    ),
    "judge: nvidia-ctk": ("nvidia_ctk", "public_nvidia_ctk", "nothing_lowered"),
    "runners": ("runners",),
    "night: awx": ("awx_objects", "awx_workflow"),
    "drain: kubernetes": ("drain_kubernetes",),
    "other ansible": ("other_ansible",),
    "judge: public": ("public_configurations", "crio_adoption", "crio_judge"),
    "judge: others": (
        "docker_judge",
        "properties",
        "cdi_oracle",
        "cdi_reference",
        "cdi_grants",
        "void_mount",
        "selinux",
    ),
    "judge: adoption": ("adopted", "adoption_loses_nothing", "adoption_properties", "comparison"),
    "judge: foreign hardware": (
        "cdi_recorded_nodes",
        "cdi_older_judges",
        "cdi_captures",
        "gpu_isolated",
        "cdi_mig_layouts",
        "cdi_replayed_specs",
        "cdi_driver_packages",
    ),
}
OTHERS = "lab: others"
# The unit tests are three parts, so that two processors share them; and some 200 tests that run
# ansible-playbook a few times each, rollouts more often than others.
PLUGINS, PLAYBOOKS = "tests/unit/plugins", "tests/unit/playbooks"
PLANNER = f"{PLUGINS}/plugin_utils"
RELEASE = "tests/unit/release"  # they build archives again and again
ROLLOUTS = f"{PLAYBOOKS}/test_rollout"
FIRST_ROLLOUT = f"{ROLLOUTS}.py"  # takes as long as the other ones together, without the long ones
# What a rollout says and binds, asked again and again of a controller alone.
LONG_ROLLOUTS = tuple(
    f"{ROLLOUTS}_{name}.py" for name in ("approved", "cost", "settings", "stats", "told")
)
# What a host could do to the controller, and what the pages promise. Others wait for the night.
DAILY = tuple(
    f"{PLAYBOOKS}/test_{name}.py"
    for name in (
        "facts",
        "lying_hosts",
        "no_packages",
        "outside",
        "pasted",
        "preloaded",
        "runs",
        "shown_output",
        "tutorial",
        "unread_variables",
        "words_of_a_host",
        "words_of_sources",
    )
)
# The releases of ansible-core between the oldest that is promised and the newest.
BETWEEN = ("2.17", "2.18", "2.19", "2.20")
# What `make test` leaves to `make nightly` -> the reason. docs/testing.md has this table.
NIGHTLY = {
    "playbooks: other rollouts": "`playbooks: rollout` plays 20 rollouts, `lab: rollout` twelve real hosts with what goes wrong",
    "playbooks: others": "`playbooks` plays what a host could do to the controller; drains, reports and the archive change seldom",
    "playbooks: long": "the planner's tests judge the rules, the lab's parts roll out on real hosts; five files play 38 rollouts",
    "unit-2.16": "`oldest core` runs those of them that Ansible's own code decides; the rest is Python that 2.21 runs as well",
    "unit-2.16: planner": "the planner imports nothing of Ansible, so only its Python, 3.11, is another one",
    **dict.fromkeys(
        (f"unit-{core}" for core in BETWEEN),
        "what differs between 2.16 and 2.21 differs on one of those two as well",
    ),
    "playbooks-2.16": "`oldest core` plays the file that leans on the core most; seven files take five minutes",
    "playbooks-2.16: others": "they lean on no detail that changed between 2.16 and 2.21",
    "playbooks-2.18": "what differs between 2.16 and 2.21 differs on one of those two as well",
    "archive": "`sanity-2.21` judges the files that the archive has; Galaxy's judge has its say before a pull request is merged",
    "sanity-2.21: all files": "there and by pylint it finds style, as ruff does by day; a pull request has all files judged by all tests",
    "sanity-2.16": "2.21 has all of its tests but those about Python 2; a result changes only with files that are shipped",
    **dict.fromkeys(
        (f"sanity-{core}" for core in CORES[1:-1]),
        "2.21 knows all that the older releases know of tests; a result changes only with files that are shipped",
    ),
    "unit: release": "a release is made seldom, by files that nothing else uses; a pull request has these tests, too",
    "unit-host": "`unit-host-3.6` has the oldest Python, `unit: plugins` the newest; between them nothing was ever found alone",
    "unit-yaml": "a release of PyYAML comes once a year, and it changes with the lock file alone",
    "mutants": "200 changed lines of the planner, each judged by tests, take two hours",
    "lab: night: hand over": "13 plays on a cluster take five minutes; `drain: kubernetes` has its drains on an API",
    "lab: night: kubernetes": "`drain: kubernetes` has the drains on an API that answers, `lab: rollout` the rest",
    "lab: night: objects": "`drain: kubernetes` has the same modules on an API that answers, `lab: pods` the pods; a cluster takes minutes",
    "lab: night: rollout": "`lab: rollout` takes twelve hosts through a week with a failed canary, a lost host and a killed controller",
    "lab: night: secrets": "`lab: what leaves` plants secrets in the same places; unit tests draw configurations around them",
    "lab: night: faults": "`lab: rollback` kills an executor on a host; unit tests kill one between each two of its steps",
    "lab: night: disasters": "`lab: rollback` has the same transaction and the same way back; these take what is rare",
    "lab: night: operator": "nvidia-ctk's judges have the same files, unit tests the Operator's traces on a host",
    "lab: night: managers": "`lab: managers` has k3s and RKE2; the other managers, and CRI-O's hook, differ by their tables",
    "lab: night: cdi": "`lab: cdi` has the specs of usual hosts; unit tests have MIG and broken hosts as trees",
    "lab: night: drain": "`lab: rollout` drains a host of a real Slurm; what goes wrong there is in unit tests, too",
    "lab: night: driver": "`lab: driver` moves the same drivers and reboots; this one rolls them out on five hosts, with what goes wrong",
    "lab: night: packages": "`lab: story` installs by apt; dnf and zypper differ by tables that unit tests have",
    "lab: night: driver locks": "`lab: driver` holds a real driver with apt; the locks of dnf and zypper are tables in unit tests",
    "lab: night: documents": "what they play is played elsewhere; pages and examples change seldom",
    "lab: night: sharing": "`lab: pods` shares a GPU by time; device nodes and MPS are tables in unit tests, too",
    "lab: night: two engines": "`lab: rollback` has the same transaction for one engine, `lab: story` hosts with others' files",
    "lab: night: page": "a browser looks at the page of a report, which one template makes, and at the site",
    "lab: night: newest kubernetes": "`lab: pods` has a real cluster of an older release; the newer one takes minutes to compile",
    "lab: night: each release": "`lab: story`, `lab: newest engines` and `lab: rollback` have each engine, this one each release",
    "lab: night: other ways": "`lab: ways` has sudo and both ways of a program; these are su, doas, passwords, a jump host and Paramiko",
    "lab: night: image": "`runners` has ansible-builder describe the image; this one builds it on a Debian root, with pip and apt",
    "night: awx": "AWX's jobs run the playbooks that `playbooks` and `lab: rollout` play; its objects are one table",
    "molecule: rollout": "`lab: rollout` has more hosts, more classes and what goes wrong",
    "lab: night: lab": "it changes only with tests/lab, and boots a host of each kind",
}


def files(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths of files of tests/integration."""
    return tuple(f"tests/integration/test_{name}.py" for name in names)


def unnamed() -> tuple[str, ...]:
    """Return the files of tests/integration that no part names."""
    named = {name for names in (*LAB.values(), *JUDGES.values()) for name in names}
    found = (
        path.stem.removeprefix("test_")
        for path in sorted((ROOT / "tests/integration").glob("test_*.py"))
    )
    return tuple(name for name in found if name not in named)


def on_lab(name: str, *command: str) -> Part:
    """Return a part that runs a command on hosts, or reports what this machine lacks for them."""
    return Part(
        name, (sys.executable, str(ROOT / "tests/tools/on_lab_machines.py"), *command), WAITING
    )


def mutants() -> Part:
    """Return the part that changes the planner line by line and wants a test to fail each time."""
    return Part("mutants", (sys.executable, str(ROOT / "tests/tools/mutants.py")), BUSY)


def matrix_part(name: str, *sets: str) -> Part:
    """Return a part that runs unit tests with other Pythons and other ansible-core releases."""
    return Part(name, (sys.executable, "tests/tools/unit_matrix.py", *sets), BUSY)


def sanity_part(name: str) -> Part:
    """Return a part that has ansible-test judge one set of files (sanity.py)."""
    title = f"sanity-{name}".replace(WHOLE, ": all files")
    return Part(title, (sys.executable, "tests/tools/sanity.py", name), BUSY)


def fast() -> list[Part]:
    """Return the parts of `make check` with all their tests. They tell most in five minutes.

    They are the newest ansible-core, and the host side on the oldest Python.
    """
    return [
        pytest_part(
            "unit",
            BUSY,
            "tests/unit",
            *(f"--ignore={path}" for path in (PLUGINS, PLAYBOOKS, RELEASE)),
        ),
        sanity_part(CORES[-1]),
        pytest_part("unit: planner", BUSY, PLANNER),
        pytest_part("unit: plugins", BUSY, PLUGINS, f"--ignore={PLANNER}"),
        target("lint"),
        target("types"),
        matrix_part("unit-host-3.6", "host-3-6"),
    ]


def rollouts() -> list[str]:
    """Return the files of other rollouts, without the long ones."""
    found = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(f"{ROLLOUTS}*.py"))
    return [path for path in found if path not in (FIRST_ROLLOUT, *LONG_ROLLOUTS)]


def played() -> list[Part]:
    """Return the other parts of `make test` that need no hosts, the longest first."""
    return [
        pytest_part("playbooks: rollout", BUSY, FIRST_ROLLOUT),
        pytest_part("playbooks: other rollouts", BUSY, *rollouts()),
        pytest_part("playbooks", BUSY, *DAILY),
        matrix_part("oldest core", "core-2-16-oldest"),
        target("archive"),
    ]


def releases() -> list[Part]:
    """Return what nightly runs have beside `make test` that needs no hosts, mutants aside, the
    longest first.

    They are long rollouts, and other releases of ansible-core, Python and PyYAML.
    """
    aside = [f"--ignore={path}" for path in DAILY]
    newest = f"host-3-{sys.version_info.minor}"  # the part `unit: plugins` runs the host side's tests on it
    return [
        pytest_part("playbooks: long", BUSY, *LONG_ROLLOUTS),
        pytest_part("playbooks: others", BUSY, PLAYBOOKS, f"--ignore-glob={ROLLOUTS}*", *aside),
        matrix_part("playbooks-2.16: others", "core-2-16-other-playbooks"),
        matrix_part("playbooks-2.16", "core-2-16-playbooks"),
        matrix_part("playbooks-2.18", "core-2-18-playbooks"),
        matrix_part("unit-2.16", "core-2-16"),
        matrix_part("unit-2.16: planner", "core-2-16-planner"),
        *(matrix_part(f"unit-{core}", f"core-{core.replace('.', '-')}") for core in BETWEEN),
        *(sanity_part(name) for name in reversed(SETS) if name != CORES[-1]),
        pytest_part("unit: release", BUSY, RELEASE),
        matrix_part("unit-yaml", "yaml-6-0", "yaml-6-0-1", "yaml-6"),
        matrix_part("unit-host", *(name for name in ("host-3-8", "host-3-13") if name != newest)),
    ]


def matrix() -> list[Part]:
    """Return the parts of `make matrix`: all that need no hosts, but the mutants."""
    return [*played(), *fast()[:4], *releases(), *fast()[4:]]


def hosts() -> list[Part]:
    """Return the parts on the lab's hosts, the longest first."""
    lab = [pytest_part(f"lab: {name}", WAITING, *files(names)) for name, names in LAB.items()]
    others = [pytest_part(OTHERS, WAITING, *files(unnamed()))] if unnamed() else []
    scenarios = {"molecule": "default", "molecule: rollout": "rollout"}
    molecule = [
        on_lab(name, "--lab", "molecule", "molecule", "test", "-s", it)
        for name, it in scenarios.items()
    ]
    return [*lab[:2], *others, *lab[2:], *molecule]


def judges() -> list[Part]:
    return [pytest_part(name, JUDGING, *files(names)) for name, names in JUDGES.items()]


def all_parts(first: list[Part]) -> list[Part]:
    """Return the parts on hosts, those given and the judges, in the order in which they begin.

    The longest come first, and parts that wait stand beside parts that do not. Short judges are the
    end, so that no processor waits for a long part.
    """
    return mixed(hosts(), [*first, *judges()])


def by_day(part: Part) -> Part:
    """Return a part without the tests that are marked `nightly`, each with its reason."""
    return replace(part, command=(*part.command, "-m", "not nightly")) if part.counted else part


def check() -> list[Part]:
    """Return the parts of `make check`."""
    return [by_day(part) for part in fast()]


def parts() -> list[Part]:
    """Return the parts of `make test`."""
    found = all_parts([*played()[:3], *fast()[:4], *played()[3:], *fast()[4:]])
    return [by_day(part) for part in found if part.name not in NIGHTLY]


def nightly() -> list[Part]:
    """Return the parts of `make nightly`: the parts of `make test`, with all that is drawn, and the
    parts that it leaves out.
    """
    longest = [mutants(), *played()[:3], *fast()[:4], *releases()]
    return all_parts([*longest, *played()[3:], *fast()[4:]])


def mixed(waiting: list[Part], busy: list[Part]) -> list[Part]:
    """Take one of the busy parts for two of the waiting ones, as long as there are both."""
    found, rest = [], list(busy)
    for number, part in enumerate(waiting):
        found.append(part)
        if number % 2 and rest:
            found.append(rest.pop(0))
    return [*found, *rest]
