# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What other people have around the playbooks of this collection: their inventories, their
`ansible.cfg`, and their controllers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ANSIBLE = "https://github.com/ansible/ansible/issues/"
YES, WOULD, LOST = "yes", "would", "lost"
# A host that no run reaches.
AWAY = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


@dataclass(frozen=True)
class Surrounding:
    """A run of a playbook with what a user has around it.

    given, outcome: for the page. hosts: the variables of each. everywhere: the variables in
    group_vars/all.yml. settings: of the run. environment: PLACE stands for the test's folder. told:
    what became of each host, by the table; None if there is no table. code: of a message that is
    printed. reported: addresses of reports about it.
    """

    given: str
    outcome: str
    book: str
    hosts: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"gpu1": {}})
    everywhere: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    status: int = 0
    told: Mapping[str, str] | None = field(default_factory=lambda: {"gpu1": YES})
    code: str = ""
    reported: tuple[str, ...] = ()


FATAL = {"ANSIBLE_ANY_ERRORS_FATAL": "1"}
SURROUNDINGS: Mapping[str, Surrounding] = {
    "127.0.0.1 in a rollout": Surrounding(
        "a host `127.0.0.1` or `::1` in the inventory, beside the GPU hosts or as one of them",
        "`rollout` changes all hosts, as without it",
        "rollout",
        hosts={"gpu1": {}, "127.0.0.1": {}},
        told={"gpu1": YES, "127.0.0.1": YES},
        reported=(
            "https://github.com/kubernetes-sigs/kubespray/issues/6808",
            f"{ANSIBLE}80946",
        ),
    ),
    "127.0.0.1 that has drifted": Surrounding(
        "the same inventory, and `gpufleet_fail_on_drift`",
        "`plan` fails where a host has drifted",
        "plan",
        hosts={"::1": {}, "gpu1": {}},
        settings={"gpufleet_fail_on_drift": True},
        status=2,
        told={"gpu1": WOULD, "::1": WOULD},
        reported=(f"{ANSIBLE}80946",),
    ),
    "names that are IPv6 addresses": Surrounding(
        "hosts whose names are IPv6 addresses",
        "`rollout` changes them",
        "rollout",
        hosts={"2001:db8::1": {}, "2001:db8::2": {}},
        told={"2001:db8::1": YES, "2001:db8::2": YES},
        reported=(f"{ANSIBLE}7446", f"{ANSIBLE}12296"),
    ),
    "any_errors_fatal in waves": Surrounding(
        "`any_errors_fatal = true` in `ansible.cfg`, and `gpufleet_max_failed: 1`",
        "`site` goes on with the next wave after one host is lost",
        "site",
        hosts={"gpu1": {}, "gpu2": AWAY, "gpu3": {}},
        settings={"gpufleet_serial": [2, 1], "gpufleet_max_failed": 1},
        environment=FATAL,
        status=2,
        told={"gpu1": YES, "gpu2": LOST, "gpu3": YES},
        reported=(f"{ANSIBLE}84117", f"{ANSIBLE}83854"),
    ),
    "any_errors_fatal in a look": Surrounding(
        "the same in `ansible.cfg`, and `gpufleet_max_lost: 1`",
        "`plan` ends with status 0, although a host is lost",
        "plan",
        hosts={"gpu1": {}, "gpu2": AWAY},
        settings={"gpufleet_max_lost": 1},
        environment=FATAL,
        told={"gpu1": WOULD, "gpu2": LOST},
        reported=(f"{ANSIBLE}71763",),
    ),
    "interpreter_python": Surrounding(
        "`interpreter_python` in `ansible.cfg`, or `ANSIBLE_PYTHON_INTERPRETER`",
        "hosts without `ansible_python_interpreter` use that Python, and a run that finds none there says so",
        "plan",
        hosts={"gpu1": {"ansible_python_interpreter": None}},
        environment={"ANSIBLE_PYTHON_INTERPRETER": "PLACE/no-python"},
        status=2,
        told={"gpu1": "failed"},
        code="transport.no-python-there",
        reported=(f"{ANSIBLE}81467", f"{ANSIBLE}61576"),
    ),
    "ansible_become everywhere": Surrounding(
        "`ansible_become: true` in `group_vars/all.yml`, and a controller without sudo",
        "what runs on the controller runs as your account, for example the commands of a drain",
        "rollout",
        hosts={"gpu1": {"ansible_become": False}},
        everywhere={"ansible_become": True, "ansible_become_exe": "/no/sudo"},
        settings={
            "gpufleet_drain": "always",
            "gpufleet_drain_commands": {"before": ["true"], "after": ["true"]},
        },
        # the account of the tests is root, which would become nobody else
        environment={"ANSIBLE_BECOME_ALLOW_SAME_USER": "1"},
        reported=(
            "https://github.com/sap-linuxlab/community.sap_install/pull/159",
            "https://github.com/maxhoesel-ansible/ansible-collection-smallstep/issues/61",
        ),
    ),
}
