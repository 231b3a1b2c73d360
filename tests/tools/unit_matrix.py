# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run unit tests in the environments of other Pythons and other ansible-core releases.

    unit_matrix.py core-2-16              unit tests but the planner's, the host side's (neither imports Ansible) and the playbooks' runs
    unit_matrix.py core-2-16-oldest       the tests of both that most often tell the oldest release from the newest, in a few minutes
    unit_matrix.py core-2-16-planner      the planner's, on that release's Python
    unit_matrix.py core-2-16-playbooks    the playbooks' runs that lean on how ansible-core counts, loses and templates
    unit_matrix.py core-2-16-other-playbooks    the others
    unit_matrix.py core-2-18-playbooks    the same runs, on that release
    unit_matrix.py core-2-17 core-2-18 core-2-19 core-2-20    what core-2-16 runs, on the releases between
    unit_matrix.py host-3-6 host-3-8      the host side's, without Ansible
    unit_matrix.py yaml-6-0 yaml-6        the tests that read YAML, by a release of PyYAML, without Ansible

A missing interpreter is named and passed over: not every machine has every Python.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import environments

NODE_SIDE = "tests/unit/plugins/module_utils"
PLANNER, PLAYBOOKS = "tests/unit/plugins/plugin_utils", "tests/unit/playbooks"
# What changed between 2.16 and 2.21: batches and lost hosts, `timeout`, words of a host as
# templates, how empty answers arrive.
OF_THE_CORE = tuple(
    f"{PLAYBOOKS}/test_{name}.py"
    for name in (
        "runs",
        "rollout_losses",
        "empty_answers",
        "words_of_a_host",
        "lying_hosts",
        "words_of_sources",
        "unread_variables",
    )
)

READ_YAML = tuple(
    f"{PLANNER}/{name}.py"
    for name in ("core/formats/test_yaml_text", "core/formats/test_bombs", "host/cdi/test_spec_values", "host/cdi/test_yaml",
                 "host/cdi/test_projection", "cluster/test_earlier_files",
                 "workloads/images/test_catalogue", "host/kubelet/test_cgroup_driver")
)  # fmt: skip

# what follows an environment's name
ENVIRONMENT = re.compile(r"(-oldest|-planner|(-other)?-playbooks)$")
# All that imports Ansible, but the playbooks' runs.
OF_ANSIBLE = (
    "tests/unit",
    f"--ignore={NODE_SIDE}",
    f"--ignore={PLANNER}",
    f"--ignore={PLAYBOOKS}",
    # a release is made in the environment of development, which has antsibull-changelog
    "--ignore=tests/unit/release",
)
# tests of an environment, which the beginning of the name names -> the arguments of pytest; every
# other name runs the host side's
TESTS = {
    **dict.fromkeys(("core-2-16", "core-2-17", "core-2-18", "core-2-19", "core-2-20"), OF_ANSIBLE),
    "core-2-16-oldest": (
        "tests/unit/plugins/action",
        f"{PLAYBOOKS}/test_empty_answers.py",
        f"{PLAYBOOKS}/test_words_of_a_host.py",
    ),
    "core-2-16-planner": (PLANNER,),
    "core-2-16-playbooks": OF_THE_CORE,
    "core-2-16-other-playbooks": (PLAYBOOKS, *(f"--ignore={path}" for path in OF_THE_CORE)),
    "core-2-18-playbooks": OF_THE_CORE,
    **dict.fromkeys(("yaml-6-0", "yaml-6-0-1", "yaml-6"), READ_YAML),
}
# What is drawn at random is drawn in full on the newest release alone, but for what an answer makes
# of a playbook.
FEW = {"GPUFLEET_DRAW": "few"}


def find_environment(name: str) -> str:
    """Return the group of pyproject.toml whose environment runs these tests."""
    return ENVIRONMENT.sub("", name)


def run(name: str) -> bool:
    """Run the tests of one name and tell whether they passed."""
    tests = TESTS.get(name, (NODE_SIDE,))
    try:
        programs = environments.ensure(find_environment(name))
    except environments.NoInterpreter as error:
        print(f"== {name}: not run here, {error}", flush=True)
        return True
    print(f"== {name}: {' '.join(tests)}", flush=True)
    command = [str(programs / "python"), "-m", "pytest", "-q", *tests]
    environment = {**os.environ, **({} if name.endswith("-playbooks") else FEW)}
    return (
        subprocess.run(command, cwd=environments.ROOT, env=environment, check=False).returncode == 0
    )


if __name__ == "__main__":
    results = [run(name) for name in sys.argv[1:]]
    sys.exit(0 if all(results) else 1)
