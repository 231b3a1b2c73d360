# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record what a real host answers to a look, blanked, so that people can send it: the planner's
tests then have a host of that kind.

    record_host.py -i INVENTORY HOST FILE [-e SETTING=VALUE]

Reads only. FILE holds what the observer of this collection may take from a host
(docs/what-can-go-wrong.md), without its name, addresses and identifiers. Read it before you send
it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import seen_host

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / ".cache" / "collections")]

from tests.gpu.scrub import blanked

SCHEMA = 1
LOOKS = 10
Answer = Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]]


def look(ask: Answer, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Ask as the module `host` does, until a plan asks nothing new. Return {"host": ..., "answers":
    ...}.
    """
    from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport
    from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
        NeedMore,
        PlanError,
    )
    from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
    from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
        Observation,
    )
    from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import host_plan

    policy, seen = Policy(**settings), Observation({}, {})
    questions: Sequence[Mapping[str, Any]] = seen_host.list_host_questions(policy)
    for _look in range(LOOKS):
        seen = seen.add_answers(ask(questions))
        try:
            found = seen_host.see(policy, seen)
            source = transport.probe_source("nvml")
            host_plan.plan_host(policy, seen_host.read_host_facts(policy, seen, found, source))
        except NeedMore as need:
            questions = need.questions
        except PlanError:
            break  # a host that is refused is worth recording as well
        else:
            break
    return {"host": dict(seen.host), "answers": dict(seen.answers)}


def by_ansible(inventory: str, host: str) -> Answer:
    """Send questions by the connection that the inventory describes."""
    from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import host_answers

    def ask(questions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        request = host_answers.pack(
            {"schema": 1, "root": "/", "questions": list({q["id"]: q for q in questions}.values())}
        )
        task = {"gpufleet.nvidia.host_program": {"program": "observe", "request": request}}
        with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
            play, results = Path(folder, "play.json"), Path(folder, "results")
            play.write_text(json.dumps([{"hosts": host, "gather_facts": False, "tasks": [task]}]))
            callbacks = {
                "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/tools/callbacks"),
                "ANSIBLE_CALLBACKS_ENABLED": "results",
            }
            environment = {**os.environ, **callbacks, "GPUFLEET_RESULTS": str(results)}
            command = ["ansible-playbook", "-i", inventory, str(play)]
            run = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )
            lines = (
                [json.loads(line) for line in results.read_text().splitlines()]
                if results.exists()
                else []
            )
        if run.returncode or not lines:
            raise SystemExit(
                f"{host} could not be looked at:\n{run.stdout[-2000:]}{run.stderr[-2000:]}"
            )
        answer: Mapping[str, Any] = host_answers.unpack_answer(lines[-1]["result"]["answer"])
        return answer

    return ask


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-i", "--inventory", required=True)
    parser.add_argument(
        "-e",
        "--setting",
        action="append",
        default=[],
        help="an option of the module host, as NAME=VALUE",
    )
    parser.add_argument("host")
    parser.add_argument("file", type=Path)
    given = parser.parse_args(arguments)
    seen = look(
        by_ansible(given.inventory, given.host), dict(pair.split("=", 1) for pair in given.setting)
    )
    known = {str(seen["host"].get(key) or "") for key in ("hostname", "node", "fqdn")} | {
        given.host
    }
    names = [part for name in known for part in (name, name.partition(".")[0])]
    recorded = {"schema": SCHEMA, "settings": given.setting, **blanked(seen, names)}
    given.file.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(
        f"{given.file}: {len(recorded['answers'])} answers of {given.host}, blanked. Read it before you send it."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
