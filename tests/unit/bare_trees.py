# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's files beneath a directory, and whole tasks upon them: the real observer, planner and
executor, in this process.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import shutil
import stat
from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.action import (
    containerd_runtime,
    crio_runtime,
    docker_runtime,
    host,
    oci_hook,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    journal,
    journal_queries,
    observe,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    host_look,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries as planner_queries,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    JOURNAL_DIR,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    engine_module,
    seen_host,
)

SINGLE: dict[str, tuple[host_look.Questions, host_look.Planner]] = {
    "containerd": (
        engine_module.list_engine_module_questions("containerd"),
        containerd_runtime.plan_containerd_runtime,
    ),
    "crio": (engine_module.list_engine_module_questions("crio"), crio_runtime.plan_crio_runtime),
    "docker": (
        engine_module.list_engine_module_questions("docker"),
        docker_runtime.plan_docker_runtime,
    ),
}
# A host without a GPU that is prepared for one, whose packages are someone else's affair.
PREPARED: dict[str, Any] = {"no_gpu": "prepare", "packages": "ignore"}
State = dict[str, tuple[bytes | None, int, int, int]]


class Tree:
    """A directory of one host."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> pathlib.Path:
        return self.root / name.lstrip("/")

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        place = self.path(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)

    def read(self, name: str) -> str:
        return self.path(name).read_text()

    def state(self) -> State:
        """Return all files and directories but the journal, by path: bytes, mode, owner."""
        found: State = {}
        for folder, folders, names in os.walk(self.root):
            for name in (*folders, *names):
                place = pathlib.Path(folder, name)
                inside = "/" + str(place.relative_to(self.root))
                if inside.startswith(JOURNAL_DIR) or JOURNAL_DIR.startswith(inside + "/"):
                    continue
                seen = place.lstat()
                data = place.read_bytes() if stat.S_ISREG(seen.st_mode) else None
                found[inside] = (data, stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid)
        return found

    @property
    def originals(self) -> dict[str, Any]:
        found: dict[str, Any] = journal_queries.look_at_journal(str(self.root), JOURNAL_DIR)[
            "originals"
        ]
        return found

    def forget_journal(self) -> None:
        shutil.rmtree(self.path(JOURNAL_DIR))

    def kept(self, name: str) -> pathlib.Path:
        """Return the directory of a file's copy from before."""
        return pathlib.Path(journal.get_original_directory(str(self.path(JOURNAL_DIR)), name))

    # ---------------------------------------------------------------- tasks

    def run_host(self, **options: Any) -> dict[str, Any]:
        return self.task(
            Policy(root=str(self.root), **{**PREPARED, **options}),
            seen_host.list_host_questions,
            host.plan_host_module,
        )

    def single(self, engine: str, **options: Any) -> dict[str, Any]:
        return self.task(Policy(root=str(self.root), single=True, **options), *SINGLE[engine])

    def hook(self, path: str, **options: Any) -> dict[str, Any]:
        policy = Policy(root=str(self.root), single=True, **options)
        about, plan = (
            functools.partial(f, path=path)
            for f in (oci_hook.list_hook_module_questions, oci_hook.plan_for)
        )
        return self.task(policy, about, plan)

    def task(
        self, policy: Policy, questions: host_look.Questions, planner: host_look.Planner
    ) -> dict[str, Any]:
        """Return the result of one task, as a user has it. If the planner refuses, it is a failed
        one.
        """
        seen, ask = Observation({}, {}), questions(policy)
        while True:
            seen = self.look(seen, ask)
            try:
                outcome = planner(policy, seen)
                break
            except NeedMore as more:
                ask = more.questions
            except PlanError as error:
                return {
                    "failed": True,
                    "changed": False,
                    "msg": str(error),
                    "advice": [],
                    **arguments.build_option_failure(error),
                }
        same = [
            d
            for d in outcome.plan.differences
            if (type(d.before), d.before) == (type(d.after), d.after)
        ]
        assert not same, f"shown as a difference, and none: {same}"
        answer: dict[str, Any] = {}
        if outcome.plan.acts:
            request = base.build_transaction_request(
                outcome.plan, policy, seen, check=False, reason="test", pending=[]
            )
            answer = transaction_entry.run(json.loads(json.dumps(request)))
        return {
            "failed": False,
            **base.shape_result(outcome, answer, check=False, diff=True, restart=policy.restart),
        }

    def look(self, seen: Observation, queries: list[dict[str, Any]]) -> Observation:
        unique = planner_queries.merge_questions(queries)
        answer = observe.run({"schema": 1, "root": str(self.root), "questions": unique})
        planner_queries.note_lists(answer["answers"], unique)
        return seen.add_answers(answer)


Edit = Callable[[Tree], None]
