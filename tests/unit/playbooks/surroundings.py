# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List surroundings that other people give the playbooks of this collection: their inventories,
their `ansible.cfg`, and their controllers.
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
        "`site` continues with the next wave after one host is lost",
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
    "a home that cannot be written, for a look": Surrounding(
        "a controller whose home directory cannot be written, such as an image of AWX under another user",
        "`plan` looks at all hosts",
        "plan",
        environment={"ANSIBLE_HOME": "/proc/none", "ANSIBLE_LOCAL_TEMP": "PLACE/tmp"},
        told={"gpu1": WOULD},
        reported=("https://github.com/ansible/awx/issues/5849",),
    ),
    "a home that cannot be written, for a change": Surrounding(
        "the same controller",
        "`rollout` changes no host, and names the directory and the setting",
        "rollout",
        environment={"ANSIBLE_HOME": "/proc/none", "ANSIBLE_LOCAL_TEMP": "PLACE/tmp"},
        status=2,
        told=None,
        code="file.run-directory",
        reported=("https://github.com/ansible/awx/issues/5849",),
    ),
    "tags": Surrounding(
        "`--tags` or `ANSIBLE_RUN_TAGS`, for another playbook of yours",
        "a run of a playbook of this collection ends before a host is looked at",
        "site",
        environment={"ANSIBLE_RUN_TAGS": "docker"},
        status=2,
        told=None,
        code="variables.tags",
        reported=("https://github.com/ansible-lockdown/RHEL8-CIS/issues/231",),
    ),
    "results as YAML": Surrounding(
        "`callback_result_format = yaml`, which replaces the callback `community.general.yaml`",
        "the table is the same",
        "plan",
        environment={"ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml"},
        told={"gpu1": WOULD},
        reported=(
            "https://github.com/osism/testbed/issues/2938",
            "https://github.com/dev-sec/ansible-collection-hardening/pull/918",
        ),
    ),
    "another precedence": Surrounding(
        "another order of variables (`precedence`)",
        "the playbooks read the variables of hosts",
        "site",
        environment={
            "ANSIBLE_PRECEDENCE": "all_inventory,groups_inventory,all_plugins_inventory,"
            "all_plugins_play,groups_plugins_inventory,groups_plugins_play"
        },
        reported=("https://github.com/ansible/awx/issues/3745",),
    ),
    "facts from a cache": Surrounding(
        "`gathering = smart` with facts from a cache",
        "the playbooks read no fact of it",
        "site",
        environment={
            "ANSIBLE_GATHERING": "smart",
            "ANSIBLE_CACHE_PLUGIN": "jsonfile",
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": "PLACE/cache",
        },
        reported=(f"{ANSIBLE}14456",),
    ),
    "no facts as variables": Surrounding(
        "`inject_facts_as_vars = false`, which ansible-core 2.24 makes the default",
        "nothing changes, since all facts are read from `ansible_facts`",
        "site",
        environment={"ANSIBLE_INJECT_FACT_VARS": "0"},
        reported=("https://github.com/haxorof/ansible-role-docker-ce/issues/185",),
    ),
    "switches that are words": Surrounding(
        "switches that are words, as an INI inventory or `-e name=value` gives them, under ansible-core 2.19",
        "`when` gets a boolean of each",
        "plan",
        settings={"gpufleet_fail_on_drift": "yes", "gpufleet_kubernetes_apply": "no"},
        status=2,
        told={"gpu1": WOULD},
        reported=(f"{ANSIBLE}85775", "https://github.com/lae/ansible-role-proxmox/issues/339"),
    ),
    "a newer ansible-core counts as supported": Surrounding(
        "`collections_on_ansible_version_mismatch = error`",
        "each ansible-core from 2.16 on is accepted",
        "plan",
        environment={"ANSIBLE_COLLECTIONS_ON_ANSIBLE_VERSION_MISMATCH": "error"},
        told={"gpu1": WOULD},
        reported=(
            "https://github.com/prometheus-community/ansible/issues/144",
            "https://github.com/ansible-collections/cloud.common/issues/200",
        ),
    ),
}
