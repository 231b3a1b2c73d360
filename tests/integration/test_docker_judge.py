# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker itself judges the plans: `dockerd --validate` of three releases reads what the executor
stages, and every other byte stays. 26.1 is Debian trixie's, and judges by day.

No daemon runs. Debian bookworm's 20.10 has no --validate; it is judged where it runs
(test_docker.py).
"""

from __future__ import annotations

import dataclasses as dc
import difflib
import functools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import observe
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import edits
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import json_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    Cdi,
    Evidence,
    Handler,
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    detect as docker_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import results
from hypothesis import event, given
from hypothesis import strategies as st

from tests import night
from tests.integration.containerd_trees import decision
from tests.integration.thoroughness import thorough
from tests.lab import artefacts, kinds, roots
from tests.unit import jsontexts

# Release -> the kind of host that has it. From 28.2 on CDI is on unless the file says no.
RELEASES = {"26.1.5": "docker", "28.5.2": "docker-28", "29.8.1": "docker-29"}
BY_NIGHT = pytest.mark.nightly(
    "later releases read the same keys; `lab: newest engines` has the newest as a daemon"
)
ON_SINCE = (28, 2)


@dc.dataclass
class Judge:
    """The release that judges now."""

    version: str = ""

    @property
    def program(self) -> str:
        return find_program(RELEASES[self.version])

    @property
    def has_cdi_on(self) -> bool:
        return tuple(map(int, self.version.split(".")))[:2] >= ON_SINCE


JUDGE = Judge()


@functools.cache
def find_program(kind: str) -> str:
    """dockerd of a kind of host, out of what the lab keeps."""
    of = kinds.KINDS[kind]
    try:
        built = [artefacts.go_tool(of.programs) / "dockerd"] if of.programs else []
        layers = roots.layers(of)
    except (artefacts.LabError, OSError) as exc:
        pytest.skip(
            f"Docker's programs come with the lab's roots, which cannot be built here: {exc}"
        )
    places = (*built, *(layer / "usr/sbin/dockerd" for layer in layers))
    return str(next(place for place in places if place.exists()).absolute())


@pytest.fixture(scope="module", autouse=True, params=night.leave_rest(BY_NIGHT, RELEASES), ids=str)
def _judge(request: pytest.FixtureRequest) -> Iterator[None]:
    """dockerd wants to see its helper beside it."""
    before = os.environ["PATH"]
    JUDGE.version = request.param
    os.environ["PATH"] = f"{Path(JUDGE.program).parent}:{before}"
    yield
    os.environ["PATH"] = before


def refusal(path: Path) -> str:
    """What dockerd says against a file, '' when nothing."""
    done = subprocess.run(
        [JUDGE.program, "--validate", "--config-file", path],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip() if done.returncode else ""


@dc.dataclass
class TreeHost:
    """The whole way but the connection: the real observer and executor on this machine's own files,
    the planner between them.
    """

    home: Path
    options: dict[str, Any] = dc.field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.home / "etc/docker/daemon.json"

    @property
    def policy(self) -> Policy:
        return Policy(config_path=str(self.config), single=True, **self.options)

    def write(self, text: bytes) -> None:
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_bytes(text)

    def files(self) -> dict[str, bytes]:
        return {
            str(p): p.read_bytes() if p.is_file() else b""
            for p in sorted(self.home.rglob("*"))
            if "/journal" not in str(p)
        }

    def see(self, questions: list[dict[str, Any]]) -> dict[str, Any]:
        answer: dict[str, Any] = observe.run({"schema": 1, "root": "/", "questions": questions})
        queries.note_lists(answer["answers"], questions)
        # no systemd is asked here
        answer["answers"].update(
            {qid: {"units": {}} for qid in answer["answers"] if qid.startswith("units:")}
        )
        return answer

    def instance(self) -> Instance:
        cdi = Cdi(
            able=True,
            enabled=JUDGE.has_cdi_on,
            dirs=CDI_DIRS,
            max_version="0.7.0",
            evidence=Evidence("version", JUDGE.version),
        )
        return Instance(
            "docker",
            JUDGE.version,
            JUDGE.program,
            "/nowhere.sock",
            str(self.config),
            "docker.service",
            "package",
            True,
            cdi,
            cri=False,
        )

    def plan(self, state: str = "present", *, default: bool = False) -> Plan:
        asked = [
            *docker_detect.list_questions(self.policy),
            queries.ask_for_originals(str(self.home / "journal")),
        ]
        answer = self.see(asked)
        runtime = queries.ask_for_file("/usr/bin/nvidia-container-runtime", content=False)
        known = {runtime["id"]: {"exists": True}, "http:/nowhere.sock/info": {"status": 0}}
        self.seen = obs = Observation(answer["host"], {**answer["answers"], **known})
        for _look in range(3):
            try:
                facts = docker_detect.read_facts(self.policy, obs)
                if state == "absent":
                    plan = docker_detect.plan_absent(self.policy, facts, self.instance())
                else:
                    plan = docker_detect.plan_instance(
                        self.policy,
                        facts,
                        self.instance(),
                        dc.replace(decision(default, True), engine="docker"),
                    )
                # nothing runs here
                return dc.replace(plan, restarts=(), health=(), expect_units={}, pending=())
            except NeedMore as more:
                obs = obs.add_answers(self.see(more.questions))
        raise AssertionError("more than three looks")

    def apply(self, plan: Plan, *, check: bool = False) -> dict[str, Any]:
        request = base.build_transaction_request(
            plan, self.policy, self.seen, check=check, reason="test", pending=[]
        )
        # No daemon runs here whose PATH the validation would have.
        here = {"journal_dir": str(self.home / "journal"), "alone": False, "environment": ["PATH"]}
        answer: dict[str, Any] = transaction_entry.run({**request, **here})
        return answer


def list_wanted(before: dict[str, Any], *, default: bool) -> dict[str, Any]:
    """Return the keys that a plan writes into a file."""
    wanted: dict[str, Any] = {"runtimes": {"nvidia": {"path": Handler.binary}}}
    if not JUDGE.has_cdi_on or (before.get("features") or {}).get("cdi") is False:
        wanted["features"] = {"cdi": True}
    return {**wanted, "default-runtime": "nvidia"} if default else wanted


# As the world writes them.
FILES: dict[str, str | None] = {
    "no file, no directory": None,
    "nothing in it": "",
    "an empty object": "{}",
    "as nvidia-ctk writes it": '{\n    "features": {\n        "buildkit": true\n    },\n    "log-driver": "json-file"\n}',
    "by hand": '{\n  "log-driver": "json-file",\n  "log-opts": {"max-size": "10m", "max-file": "3"},\n\n  "data-root": "/srv/döcker"\n}\n',
    "in one line": '{"exec-opts":["native.cgroupdriver=systemd"],"storage-driver":"overlay2"}',
    "from Windows": '\ufeff{\r\n\t"mtu": 1450,\r\n\t"bip": "172.26.0.1\\/16"\r\n}\r\n',
    "another runtime": '{\n "runtimes": {\n  "kata": {"runtimeType": "io.containerd.kata.v2"}\n },\n "default-runtime": "runc"\n}\n',
    "an empty runtimes": '{ "runtimes" : { } , "features" : null }',
    "of a kubeadm page": '{\n  "exec-opts": ["native.cgroupdriver=systemd"],\n  "log-opts": {\n    "max-size": "100m"\n  }\n}',
}


@pytest.mark.parametrize("name", FILES)
def test_the_executor_applies_it_after_docker_has_agreed_and_gives_the_bytes_back(
    tmp_path: Path, name: str
) -> None:
    tree_host, text = TreeHost(tmp_path), FILES[name]
    if text is not None:
        tree_host.write(text.encode())
    was = tree_host.files()
    plan = tree_host.plan(default=True)
    assert plan.validate
    predicted = tree_host.apply(plan, check=True)
    assert (predicted["error"], predicted["changed"], tree_host.files()) == (None, True, was)
    done = tree_host.apply(plan)
    assert (done["error"], done["changed"], len(done["validation"])) == (None, True, 1)
    assert refusal(tree_host.config) == ""
    said = json.loads(tree_host.config.read_text("utf-8-sig"))
    before = json.loads((text or "{}").removeprefix(jsontexts.BYTE_ORDER_MARK))
    assert said == json_text.apply_json_keys(before, list_wanted(before, default=True))
    assert tree_host.plan(default=True).changes == ()
    given = tree_host.apply(tree_host.plan("absent"))
    assert (given["error"], tree_host.files()) == (None, was)
    assert tree_host.plan("absent").changes == ()


def test_what_docker_refuses_is_known_before_anything_is_touched(tmp_path: Path) -> None:
    tree_host = TreeHost(tmp_path, {"handlers": (Handler(options={"runtimeArgs": "not a list"}),)})
    tree_host.write(b"{}")
    was = tree_host.files()
    for check in (True, False):
        result = tree_host.apply(tree_host.plan(), check=check)
        assert result["error"]["phase"] == "validate"
        assert (
            "a value in the JSON is a string, but another type is expected"
            in results.describe_answer_trouble(result)
        )
        assert tree_host.files() == was


REFUSED = (
    "{,}", "[]", "{} x", "// c\n{}", '{"runtimes": []}', '{"features": []}', '{"features": {"cdi": "yes"}}', '{"default-runtime": 1}',
)  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_docker_and_the_planner_refuse_the_same(tmp_path: Path, text: str) -> None:
    tree_host = TreeHost(tmp_path)
    tree_host.write(text.encode())
    assert refusal(tree_host.config)
    with pytest.raises(PlanError, match=str(tree_host.config)):
        tree_host.plan()


# ---------------------------------------------------------------- whatever the file looks like

# Keys that Docker knows, each with values that it takes.
KEYS: dict[str, Any] = {
    "debug": st.booleans(),
    "mtu": st.sampled_from([jsontexts.Raw("1450"), jsontexts.Raw("9000")]),
    "log-opts": st.dictionaries(
        st.sampled_from(["max-size", "tag", "labels"]), jsontexts.words, max_size=3
    ),
    "labels": st.sampled_from([[], ["a=b", "ort=Köln"]]),
    "data-root": st.just("/srv/döcker"),
    "features": st.dictionaries(
        st.sampled_from(["buildkit", "containerd-snapshotter", "cdi"]), st.booleans(), max_size=3
    )
    | st.none(),
    "runtimes": st.dictionaries(
        st.sampled_from(["kata", "gvisor"]),
        st.just({"path": "/opt/x", "runtimeArgs": ["--a"]}),
        max_size=2,
    ),
    "default-runtime": st.just("runc"),
    "registry-mirrors": st.sampled_from([[], ["https://mirror.example"]]),
    "live-restore": st.booleans(),
    "default-ulimits": st.just(
        {
            "nofile": {
                "Name": "nofile",
                "Hard": jsontexts.Raw("64000"),
                "Soft": jsontexts.Raw("64000"),
            }
        }
    ),
}
trees = st.lists(st.sampled_from(sorted(KEYS)), unique=True, max_size=6).flatmap(
    lambda keys: st.fixed_dictionaries({key: KEYS[key] for key in keys})
)


@thorough(300)
@given(tree=trees, style=jsontexts.styles, default=st.booleans())
def test_docker_reads_ours_and_no_other_byte_differs(
    tree: Any, style: jsontexts.Style, default: bool
) -> None:
    """(a), (b), (d) by the planner; Docker itself reads every tenth."""
    with tempfile.TemporaryDirectory() as place:
        tree_host = TreeHost(Path(place))
        text = jsontexts.written(tree, style)
        tree_host.write(text.encode())
        plan = tree_host.plan(default=default)
        before = json.loads(text.removeprefix(jsontexts.BYTE_ORDER_MARK))
        wanted = list_wanted(before, default=default)
        (change,) = plan.changes
        after = edits.apply_line_edits(change["path"], text.encode(), change).decode()
        assert json.loads(
            after.removeprefix(jsontexts.BYTE_ORDER_MARK)
        ) == json_text.apply_json_keys(before, wanted)
        tree_host.write(after.encode())
        assert tree_host.plan(default=default).changes == ()
        gone = [
            line[2:]
            for line in difflib.ndiff(text.split("\n"), after.split("\n"))
            if line.startswith("- ")
        ]
        if style.newline and tree and not style.comma_first:
            assert [
                line
                for line in gone
                if not any(
                    key in line for key in ("features", "cdi", "runtimes", "default-runtime")
                )
            ] == []
        if sum(text.encode()) % 10 == 0:
            event("read by Docker")
            assert refusal(tree_host.config) == ""


@thorough(15)
@given(tree=trees, style=jsontexts.styles, there=st.sampled_from([True, True, True, False]))
def test_the_executor_predicts_it_and_give_back_the_same_bytes(
    tree: Any, style: jsontexts.Style, there: bool
) -> None:
    """(b), (c) and (e) with the real observer and executor, and Docker's own program as their
    validator.
    """
    with tempfile.TemporaryDirectory() as place:
        tree_host = TreeHost(Path(place))
        if there:
            tree_host.write(jsontexts.written(tree, style).encode())
        was = tree_host.files()
        plan = tree_host.plan()
        predicted = tree_host.apply(plan, check=True)
        assert (predicted["error"], tree_host.files()) == (None, was)
        done = tree_host.apply(plan)
        assert [predicted[key] for key in ("changed", "written", "removed")] == [
            done[key] for key in ("changed", "written", "removed")
        ]
        assert tree_host.plan().changes == ()
        tree_host.apply(tree_host.plan("absent"))
        assert tree_host.files() == was
