# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with a variable that cannot be read fails before the first task of a role: the table names
the variable and says why.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.night import ONE_ROW, leave_rest
from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play, written

VAULTED = "\n              ".join(
    (
        "!vault |",
        "$ANSIBLE_VAULT;1.1;AES256",
        "33643164313466656662616531386133323366376265666638653865373534346333373761633936",
        "6337333864383032326630386630383966663036623064630a313363616465323237653061383963",
        "36613435323538633761303031646434623030616661396637613630333232373062356234373837",
        "6238396232656330370a376236383562666165633963343666373664666130303631306431626264",
        "3163",
    )
)
# A variable of one host as it stands in the inventory, and what its line in the table says of it
# besides the name.
CASES = {
    "a file that is not there": (
        "gpufleet_toolkit_key",
        "\"{{ lookup('ansible.builtin.file', 'missing.asc') }}\"",
        "missing.asc",
    ),
    "an undefined variable": ("gpufleet_toolkit_version", '"{{ of_the_site }}"', "of_the_site"),
    "a text in a vault without its password": ("gpufleet_toolkit_key", VAULTED, "vault"),
    "an undefined user of the connection": ("ansible_user", '"{{ of_the_site }}"', "of_the_site"),
}
# What a playbook's table says of such a host. A rollout leaves a host out that cannot be looked at,
# and says the same of it.
WORDS = {"rollout": "left out", "plan": "failed", "site": "failed"}


@pytest.mark.parametrize("book", leave_rest(ONE_ROW, WORDS))
@pytest.mark.parametrize("case", CASES)
def test_the_table_names_the_variable_and_says_why(case: str, book: str, tmp_path: Path) -> None:
    name, value, says = CASES[case]
    hosts = "".join(
        f"        {host}:\n"
        + "".join(
            f"          {key}: {text}\n" for key, text in bare.variables(tmp_path, host).items()
        )
        for host in ("gpu1", "gpu2")
    )
    inventory = written(
        tmp_path / "hosts.yml",
        f"all:\n  children:\n    gpu_hosts:\n      hosts:\n{hosts}          {name}: {value}\n",
    )
    more = {"gpufleet_max_failed": 1, "gpufleet_serial": 2} if book == "site" else {}
    status, words = play(tmp_path, inventory, book, **more)
    # without a connection the host fails for Ansible as well
    left_out = book == "rollout" and not name.startswith("ansible_")
    assert status == (0 if left_out else 2), words
    assert f"  {WORDS[book]}  " in row(words, "gpu2"), words
    told = " ".join(row(words, "gpu2").split())
    assert f"{name} cannot be read" in told, words
    assert says in told.lower(), words
    assert "not reached" not in words
    assert f"  {WORDS[book]}  " not in row(words, "gpu1"), words


def row(words: str, host: str) -> str:
    """Give what the last table says of one host, in one line."""
    lines = words[words.rindex("\nHOST") :].splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"{host} "))
    more = lines[start + 1 :]
    end = next((n for n, line in enumerate(more) if not line.startswith("    ")), len(more))
    return " ".join([lines[start] + " ", *(line.strip() for line in more[:end])])
