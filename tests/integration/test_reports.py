# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people read at the end of a run, from real engines: the evidence of a verification, the
journal, the pods that a rollback strands.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.integration.containers import CRICTL
from tests.tools.onlab import Fleet, Run, settings
from tests.tools.tables import read_rows

HOSTS = {
    "rp-containerd": {"kind": "containerd-1.7", "gpus": 2, "driver": "ok"},
    "rp-crio": {"kind": "crio-1.34", "gpus": 2, "driver": "ok"},
}
POD = {
    "metadata": {"name": "train-0", "uid": "train", "namespace": "ml", "attempt": 0},
    "linux": {"security_context": {"namespace_options": {"network": 2}}},
}
pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def runs(boot: Any) -> dict[str, Run]:
    """site, the verification, the journal, and what a rollback would do while a pod of the handler
    runs.
    """
    fleet: Fleet = boot(HOSTS)
    wide = {"COLUMNS": "200"}
    found = {
        name: fleet.play(name, list(HOSTS), variables=settings(), environment=wide)
        for name in ("site", "verify", "journal")
    }
    fleet.shell(
        "rp-crio",
        f"printf %s '{json.dumps(POD)}' >/run/pod.json; {CRICTL} runp --runtime nvidia /run/pod.json",
    )
    return {
        **found,
        "rollback": fleet.play(
            "rollback", ["rp-crio"], variables=settings(), environment=wide, arguments=["--check"]
        ),
    }


def test_every_run_is_a_success(runs: dict[str, Run]) -> None:
    assert {name: run.status for name, run in runs.items()} == dict.fromkeys(runs, 0), "\n".join(
        run.words for run in runs.values()
    )


def test_the_table_has_the_gpus_of_real_hosts(runs: dict[str, Run]) -> None:
    (row,) = (row for row in read_rows(runs["site"].words) if row["HOST"] == "rp-crio")
    assert re.fullmatch(r"CRI-O 1\.34\.\d+", row["ENGINE"])
    assert {title: row[title] for title in ("GPUS", "INJECTION", "CHANGED", "RESTARTED")} == {
        "GPUS": "2 x H100 80GB HBM3, 550.163.01",
        "INJECTION": "native-cdi",
        "CHANGED": "yes",
        "RESTARTED": "crio",
    }


@pytest.mark.parametrize("host", HOSTS)
def test_a_verification_shows_what_was_opened_and_what_was_refused(
    host: str, runs: dict[str, Run]
) -> None:
    words = " ".join(runs["verify"].words.split())
    evidence = (
        "one: opened nvidia0, nvidiactl, refused nvidia1; all, management: opened nvidia[0-1], nvidiactl;"
        " none: refused nvidia[0-1], nvidia-modeset, nvidia-uvm, nvidia-uvm-tools, nvidiactl"
    )
    assert re.search(rf"{host} yes \S+ \S+ native-cdi {re.escape(evidence)}", words)
    assert "Containers of localhost/gpufleet/probe:lab" in words


@pytest.mark.parametrize("host", HOSTS)
def test_the_journal_is_a_table(host: str, runs: dict[str, Run]) -> None:
    row = next(row for row in read_rows(runs["journal"].words) if row["HOST"] == host)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\S+Z", row["TIME"])
    assert (row["REASON"], row["STATE"]) == ("gpufleet.nvidia.host", "in force")
    assert row["DONE"].startswith("ran ")


def test_a_rollback_names_the_pods_that_would_hang(runs: dict[str, Run]) -> None:
    announced = " ".join(runs["rollback"].words.partition("PLAY [Take")[0].split())
    assert (
        "CRI-O cannot stop the pods ml/train-0, which were started with the handler nvidia, without it"
        in announced
    )
    assert "restart crio.service" in announced
