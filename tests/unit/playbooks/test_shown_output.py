# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output that pages show beside a command is what the command prints, on the twelve trees of the
tests of rollouts.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.unit.playbooks.bare import play, variables, written
from tests.unit.playbooks.rollouts import CLOSED, HOSTS, broken, fleet, unbroken

ROOT = Path(__file__).resolve().parents[3]
TEXT = re.compile(r"^ *```text\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
# Values that differ from run to run: a duration, and a time that has passed or is left.
TIMES = re.compile(r"\b\d+ s\b|\b\d+:\d\d\b")


def list_shown_lines(page: str) -> list[list[str]]:
    """List the lines of each block of output on a page. A line of dots stands for what was cut."""
    blocks = TEXT.findall((ROOT / "docs" / page).read_text())
    return [
        [TIMES.sub("T", line) for line in block.splitlines() if line.strip() not in ("", "...")]
        for block in blocks
    ]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Play what the pages describe: a rollout that stops at gpu3 and is run again, and others."""
    place = tmp_path_factory.mktemp("shown")
    inventory = fleet(place, **{host: {"gpufleet_cluster": "east"} for host in HOSTS})
    broken(place, "gpu3")
    stopped = play(place, inventory, "rollout")[1]
    unbroken(place, "gpu3")
    again = play(place, inventory, "rollout", gpufleet_rollout_window=CLOSED)[1]
    back = play(place, inventory, "rollback", "--limit", "gpu2", "--check")[1]
    return {
        "pilot.md": split_lines(stopped),
        "rollout.md": split_lines(stopped + again),
        "rollback.md": split_lines(back),
    }


def split_lines(words: str) -> set[str]:
    return {TIMES.sub("T", line.rstrip()) for line in words.splitlines()}


@pytest.mark.parametrize(
    ("page", "blocks"), [("pilot.md", 1), ("rollout.md", 5), ("rollback.md", 1)]
)
def test_a_page_shows_lines_that_the_command_prints(
    page: str, blocks: int, printed: dict[str, set[str]]
) -> None:
    shown = list_shown_lines(page)[:blocks]
    assert [line for block in shown for line in block if line not in printed[page]] == []
    assert [len(block) > 1 for block in shown] == [True] * blocks


def test_the_page_on_clusters_shows_lines_that_the_command_prints(tmp_path: Path) -> None:
    inventory = fleet(tmp_path, **{host: {"gpufleet_cluster": "east"} for host in HOSTS})
    words = play(tmp_path, inventory, "kubernetes", gpufleet_kubernetes_dir="clusters")[1]
    (shown,) = list_shown_lines("cluster.md")
    assert [line for line in shown if line not in split_lines(words)] == []


def plan_host(place: Path, hosts: str = "gpu_hosts", **settings: str) -> str:
    """Plan for one host that has a kubelet, and return the words in one line: messages are as wide
    as the terminal.
    """
    host = {**variables(place, "gpu1"), **settings}
    kubelet = Path(host["gpufleet_root"]) / "usr/bin/kubelet"
    kubelet.parent.mkdir(parents=True, exist_ok=True)
    kubelet.touch(0o755)
    groups = {"all": {"children": {"gpu_hosts": {"hosts": {"gpu1": host}}}}}
    inventory = written(place / "hosts.yml", yaml.safe_dump(groups))
    return " ".join(play(place, inventory, "plan", gpufleet_hosts=hosts)[1].split())


def test_the_page_on_strategies_shows_the_advice_of_the_plan(tmp_path: Path) -> None:
    # of its other message, tests/unit/test_pages.py compares the words
    shown = list_shown_lines("kubernetes.md")[0]
    assert " ".join(" ".join(shown).split()) in plan_host(tmp_path)


def test_the_page_on_symptoms_shows_whole_messages(tmp_path: Path) -> None:
    misspelt, no_hosts = [" ".join(lines) for lines in list_shown_lines("troubleshooting.md")]
    assert misspelt in plan_host(tmp_path, gpufleet_isolaton="strict")
    assert no_hosts in plan_host(tmp_path, "gpu_host")
