# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts each part of the bad corpus (tests/fixtures/bad) to the collection, and returns what it
answers: one function per part.
"""

from __future__ import annotations

import base64
import functools
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import yaml
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import observe
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import budget, waves
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import engine_module
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    options as planner_options,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config as docker_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    detect as docker_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    repository,
    toolkit_config,
)

from tests.unit import builders

PLACE = Path(__file__).parents[2] / "fixtures/bad"
ENGINES = {"containerd": containerd_detect, "crio": crio_detect}
Case = Mapping[str, Any]


@functools.cache
def cases(part: str) -> dict[str, dict[str, Any]]:
    """Return the cases of one part by name."""
    text = (PLACE / f"{part}.yml").read_text(encoding="utf-8")
    found = cast(dict[str, dict[str, Any]], yaml.safe_load(text))
    names = [node[0].value for node in cast(Any, yaml.compose(text)).value]
    assert len(names) == len(found), f"{part}: one name twice"
    return cast(dict[str, dict[str, Any]], expanded(found))


def expanded(value: Any) -> Any:
    """Return a value in which {repeat: [[text, times], ...]} is replaced by the long text."""
    if isinstance(value, Mapping):
        if list(value) == ["repeat"]:
            return "".join(text * times for text, times in value["repeat"])
        return {key: expanded(item) for key, item in value.items()}
    return [expanded(item) for item in value] if isinstance(value, list) else value


def answers(files: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers of files. Texts stay as they are, bytes become what travels, and anything
    else is an answer already.
    """
    return {
        path: raw(value) if isinstance(value, bytes) else value for path, value in files.items()
    }


def raw(content: bytes) -> dict[str, Any]:
    try:
        return {"content": content.decode("utf-8")}
    except UnicodeDecodeError:
        return {"content": base64.b64encode(content).decode(), "encoding": "base64"}


def _engine(engine: str, version: str, case: Case) -> None:
    policy = Policy(root="/tree", engine_version=version, engines=(engine,))
    seen = builders.obs(files=answers(case["files"]))
    facts = engine_module.read_engine_module_facts(policy, seen, engine)
    instance, decision = engine_module.find_single_instance(policy, facts)
    ENGINES[engine].plan_instance(policy, facts.own, instance, decision)


def say_containerd(case: Case, _place: Path) -> None:
    _engine("containerd", case["version"], case)


def say_crio(case: Case, _place: Path) -> None:
    _engine("crio", "1.34.2", case)


def say_docker(case: Case, _place: Path) -> None:
    """Plan for Docker in a tree, or with flags or a process of a daemon that runs."""
    options = {k: v for k, v in case.items() if k in ("cdi", "set_as_default", "cdi_spec_dirs")}
    alive = "flags" in case or "process" in case
    place = {} if alive else {"root": "/tree", "engine_version": case.get("version", "28.5.2")}
    argv = ["dockerd", *case.get("flags", ())]
    daemon = {
        "pid": 3,
        "exe": "/usr/bin/dockerd",
        "argv": argv,
        "unit": docker_config.UNIT,
        **(case.get("process") or {}),
    }
    info = {
        "ServerVersion": "28.1.0",
        "DefaultRuntime": "runc",
        "Runtimes": {"runc": {"path": "runc"}},
        "CDISpecDirs": [],
    }
    body = {"status": 200, "value": info}
    seen = builders.obs(
        files={
            "/usr/bin/nvidia-container-runtime": "",
            **answers({docker_config.CONFIG: case["file"]}),
            **case.get("files", {}),
        },
        processes=[daemon] if alive else [],
        units={docker_config.UNIT: {"LoadState": case.get("unit", "loaded")}} if alive else {},
        answers={f"http:{docker_config.SOCKET}/info": body} if alive else {},
    )
    policy = arguments.build_policy({**options, **place}, engines=("docker",), single=True)
    facts = engine_module.read_engine_module_facts(policy, seen, "docker")
    instance, decision = engine_module.find_single_instance(policy, facts)
    docker_detect.plan_instance(policy, facts.own, instance, decision)


def say_toolkit(case: Case, _place: Path) -> None:
    seen = builders.obs(files=answers({toolkit_config.PATH: case["file"]}))
    toolkit_config.plan_keys(
        toolkit_config.read_toolkit_config_facts(Policy(), seen),
        toolkit_config.build_wanted_toolkit_keys(
            "cdi", "strict", ("nvidia.cdi.k8s.io/",), ("runc",), ()
        ),
    )


def say_repository(case: Case, _place: Path) -> None:
    seen = builders.obs(
        host={"os_release": {"ID": "debian", **(case.get("os") or {})}, "epoch": 1.0}
    )
    known = {"url": "https://mirror.example/deb", "key": "", "expected": "", "state": "present"}
    options = {**known, **{k: v for k, v in case.items() if k in known}}
    planner_options.check_options(options)
    repository.plan_repository_files(repository.read_repository_facts(seen), **options)


def say_options(case: Case, _place: Path) -> None:
    """Read a task's options, up to the policy that they make."""
    spec = arguments.derive_argument_spec(case["module"])
    task = SimpleNamespace(_task=SimpleNamespace(args=dict(case["options"])))
    wanted = arguments.build_policy(
        arguments.read_task_options(
            cast(Any, task), spec, docker=case["module"] == "docker_runtime"
        )
    )
    if "on" in case:
        seen = builders.obs(files={"/etc/containerd/config.toml": "version = 2\n"})
        facts = engine_module.read_engine_module_facts(wanted, seen, case["on"])
        engine_module.find_single_instance(wanted, facts)


def say_gate(case: Case, _place: Path) -> None:
    budget.judge_failed_hosts(0, 10, waves.parse_amount("max_failed", case["max_failed"]))


def say_question(case: Case, place: Path) -> str:
    furnish(place, case)
    question = in_place(case["question"], place)
    answer = observe.run({"schema": 1, "root": "/", "questions": [{"id": "q", **question}]})[
        "answers"
    ]["q"]
    error = answer.get("error") or {}
    return f"{error.get('kind')}: {error.get('message')}"


def say_transaction(case: Case, place: Path) -> str:
    """Return the executor's answer, after requiring that the tree is as it was."""
    furnish(place, case)
    before = tree(place)
    request = {
        "schema": 1,
        "id": "0" * 32,
        "root": "/",
        "reason": "test",
        "journal_dir": str(place / "journal"),
        **case["request"],
    }
    answer = transaction_entry.run(in_place(request, place))
    assert tree(place) == before, "something was changed"
    assert not answer["changed"]
    error = answer["error"] or {}
    return f"{error.get('phase')}: {error.get('message')}"


def furnish(place: Path, case: Case) -> None:
    """Put the case's files there.

    A file is text, bytes, or {link: target}, {fifo: true}, {dir: mode}, {size: bytes}, {mode:
    octal, text: ...}.
    """
    for name, what in (case.get("there") or {}).items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(what, str | bytes):
            path.write_bytes(what.encode() if isinstance(what, str) else what)
        elif "link" in what:
            path.symlink_to(str(what["link"]).replace("@", str(place)))
        elif "fifo" in what:
            os.mkfifo(path)
        elif "dir" in what:
            path.mkdir(exist_ok=True)
            path.chmod(int(str(what["dir"]), 8))
        elif "size" in what:
            with path.open("wb") as handle:
                handle.truncate(what["size"])
        else:
            path.write_text(what["text"])
            path.chmod(int(what["mode"], 8))


def in_place(value: Any, place: Path) -> Any:
    """Replace @/ at the beginning of texts by the case's own directory."""
    if isinstance(value, str):
        return str(place) + value[1:] if value.startswith("@/") else value
    if isinstance(value, Mapping):
        return {in_place(k, place): in_place(v, place) for k, v in value.items()}
    return [in_place(item, place) for item in value] if isinstance(value, list) else value


def tree(place: Path) -> dict[str, str]:
    """Return everything but the journal, by path: mode, size and content."""
    found = {}
    for path in sorted(place.rglob("*")):
        if path.is_relative_to(place / "journal") and (place / "journal").is_dir():
            continue
        state = path.lstat()
        text = (
            path.read_bytes()
            if path.is_file() and not path.is_symlink() and state.st_size < 4096
            else b""
        )
        found[str(path)] = f"{state.st_mode:o} {state.st_size if path.is_file() else 0} {text!r}"
    return found


PARTS = {
    "containerd": say_containerd,
    "crio": say_crio,
    "docker": say_docker,
    "toolkit": say_toolkit,
    "repository": say_repository,
    "options": say_options,
    "gate": say_gate,
    "question": say_question,
    "transaction": say_transaction,
}


def answer(part: str, case: Case, place: Path) -> tuple[dict[str, str], str]:
    """Return what the collection answers to a case: what identifies the message, and the sentence.

    Both are empty if it takes the case. code: of the message. option: which it is about. within:
    the code of a message that is one of its values.
    """
    try:
        return {}, PARTS[part](case, place) or ""
    except PlanError as refused:
        option = str(refused.values.get("option", ""))
        within = next(filter(None, map(get_code, refused.values.values())), "")
        found = {"code": refused.code, "option": option, "within": within}
        return {key: value for key, value in found.items() if value}, str(refused)
    finally:
        shutil.rmtree(place, ignore_errors=True)
