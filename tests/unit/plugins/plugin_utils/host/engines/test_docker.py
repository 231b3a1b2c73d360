# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker Engine: what is planned for it, what a restart would cost. Refused ones are in
tests/fixtures/bad.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import contents
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config as docker_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    detect as docker_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    toolkit_config,
)

from tests.unit.builders import file_answer, obs, sha
from tests.unit.coded import get_codes, get_values
from tests.unit.docker_hosts import (
    BINARY,
    CONFIG,
    DIRS,
    ELSEWHERE,
    ENTRY,
    INFO,
    LIST,
    OURS,
    RUNC,
    UNIT,
    acts,
    planned,
    running,
    told,
)
from tests.unit.records import ONE_GPU

# what it is: (version, file, what /info says beside, options, keys that are written, what is done)
CASES: dict[str, tuple[str, str | None, dict[str, Any], dict[str, Any], dict[str, Any], list[str]]] = {
    "CDI is switched on where it is off": (
        "26.1.5", None, {}, {}, {"runtimes.nvidia.path": BINARY, "features.cdi": True}, ["restart docker.service"]),
    "CDI is on by itself since 28.2": (
        "28.5.2", "{}", {"CDISpecDirs": DIRS}, {}, {"runtimes.nvidia.path": BINARY}, ["reload docker.service"]),
    "unless it has false": (
        "28.5.2", '{"features": {"cdi": false}}', {}, {},
        {"runtimes.nvidia.path": BINARY, "features.cdi": True}, ["restart docker.service"]),
    "an old one gets the runtime": ("20.10.24", None, {}, {}, {"runtimes.nvidia.path": BINARY}, ["reload docker.service"]),
    "no CDI wanted": ("26.1.5", None, {}, {"cdi": "disabled"}, {"runtimes.nvidia.path": BINARY}, ["reload docker.service"]),
    "the default when asked for": (
        "20.10.24", None, {}, {"set_as_default": "enabled"},
        {"runtimes.nvidia.path": BINARY, "default-runtime": "nvidia"}, ["reload docker.service"]),
    "a default from before stays": (
        "24.0.7", json.dumps({"default-runtime": "nvidia", "runtimes": ENTRY}), {"Runtimes": OURS, "DefaultRuntime": "nvidia"}, {}, {}, []),
    "and goes when asked for, named, lest a reload miss it": (
        "24.0.7", json.dumps({"default-runtime": "nvidia", "runtimes": ENTRY}), {"Runtimes": OURS, "DefaultRuntime": "nvidia"},
        {"set_as_default": "disabled"}, {"default-runtime": "runc"}, ["reload docker.service"]),
    "as nvidia-ctk wrote it": (
        "24.0.7", '{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}',
        {"Runtimes": {**RUNC, "nvidia": {"path": "nvidia-container-runtime"}}}, {}, {}, []),
    "as nvidia-ctk wrote it, and a folder where dockerd does not look": (
        "24.0.7", '{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}',
        {"Runtimes": {**RUNC, "nvidia": {"path": "nvidia-container-runtime"}}},
        {"handlers": (Handler(binary=ELSEWHERE),)}, {"runtimes.nvidia.path": ELSEWHERE}, ["reload docker.service"]),
    "a name in capitals": (
        "24.0.7", None, {}, {"handlers": (Handler("NVIDIA_1.20"),)}, {"runtimes.NVIDIA_1.20.path": BINARY}, ["reload docker.service"]),
    "directories": (
        "28.5.2", json.dumps({"runtimes": ENTRY}), {"Runtimes": OURS, "CDISpecDirs": DIRS}, {"cdi_spec_dirs": ("/opt/cdi",)},
        {"cdi-spec-dirs": ["/opt/cdi"]}, ["restart docker.service"]),
    "directories are not known to an old one": (
        "24.0.7", json.dumps({"runtimes": ENTRY}), {"Runtimes": OURS}, {"cdi_spec_dirs": ("/opt/cdi",)}, {}, []),
    "right on disk, not loaded": ("24.0.7", json.dumps({"runtimes": ENTRY}), {}, {}, {}, ["reload docker.service"]),
    "right on disk, CDI not loaded": (
        "26.1.5", json.dumps({"runtimes": ENTRY, "features": {"cdi": True}}), {"Runtimes": OURS}, {}, {}, ["restart docker.service"]),
    "converged": (
        "26.1.5", json.dumps({"runtimes": ENTRY, "features": {"cdi": True}}), {"Runtimes": OURS, "CDISpecDirs": DIRS}, {}, {}, []),
    "on in the daemon, but not at its next start": (
        "26.1.5", json.dumps({"runtimes": ENTRY}), {"Runtimes": OURS, "CDISpecDirs": DIRS}, {}, {"features.cdi": True}, []),
    "more of a runtime": (
        "24.0.7", json.dumps({"runtimes": ENTRY}), {"Runtimes": OURS}, {"handlers": (Handler(options={"runtimeArgs": ["--debug"]}),)},
        {"runtimes.nvidia.runtimeArgs": ["--debug"]}, []),
}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "text", "info", "options", "keys", "done"), CASES.values(), ids=CASES
)
def test_what_is_written_and_done(
    version: str,
    text: str | None,
    info: dict[str, Any],
    options: dict[str, Any],
    keys: dict[str, Any],
    done: list[str],
) -> None:
    plan = planned(Policy(**options), running(version, text, **info))
    assert {d.key: d.after for d in plan.differences if d.what == "file"} == keys
    assert acts(plan) == done
    assert bool(plan.changes) == bool(keys)
    assert bool(plan.health) == bool(done)
    assert plan.expect_units == ({UNIT: "abc"} if done else {})
    validated = [v["argv"][0] for v in plan.validate]
    assert validated == (["/usr/sbin/dockerd"] if keys and version >= "23" else [])


def test_flags_that_say_it_already() -> None:
    argv = [f"--add-runtime=nvidia={BINARY}", "--default-runtime", "nvidia", "--feature=cdi=true"]
    seen = running(
        "28.1.0", "{}", argv=argv, Runtimes=OURS, DefaultRuntime="nvidia", CDISpecDirs=DIRS
    )
    plan = planned(Policy(set_as_default="enabled"), seen)
    assert plan.empty
    assert plan.restarts == ()


def test_dockerd_reads_the_present_file_too() -> None:
    plan = planned(Policy(), running("28.1.0", '{"debug": true}'))
    assert plan.validate[0]["baseline"][-3:] == ["--validate", "--config-file", CONFIG]


def test_dockerd_reads_the_new_file_with_the_flags_that_it_runs_with() -> None:
    argv = [
        "-H",
        "fd://",
        "--config-file",
        "/etc/docker/other.json",
        "--containerd=/run/containerd/containerd.sock",
        "-D",
    ]
    plan = planned(Policy(), running(argv=argv))
    own = {"process": 3, "ticks": 77, "without": ["--config-file"]}
    assert plan.validate[0]["argv"][1:] == [
        own,
        "--validate",
        "--config-file",
        "{stage}/daemon.json",
    ]
    assert plan.validate[0]["baseline"] is None, "there is no such file yet"
    assert plan.stage_files == ({"name": "daemon.json", "source": "/etc/docker/other.json"},)
    assert [c["path"] for c in plan.changes] == ["/etc/docker/other.json"]


def test_what_must_be_so_before_it_counts_as_done() -> None:
    (check,) = planned(Policy(set_as_default="enabled"), running()).health
    assert (check["kind"], check["socket"], check["path"]) == (
        "http",
        docker_config.SOCKET,
        "/info",
    )
    assert check["require"] == [
        {"path": ["Runtimes", "nvidia", "path"], "equals": BINARY},
        {"path": ["DefaultRuntime"], "equals": "nvidia"},
        {"path": ["CDISpecDirs"], "filled": True},
    ]


# what it is: (version, its default, options, injection, mode of NVIDIA's runtime, default or not,
# isolation)
DECISIONS: dict[str, tuple[str, str, dict[str, Any], str, str, bool, str]] = {
    "with CDI": ("26.1.5", "runc", {}, "native-cdi", "cdi", False, "compatible"),
    "without CDI": ("20.10.24", "runc", {}, "nvidia-runtime", "cdi", False, "compatible"),
    "CDI not wanted": (
        "26.1.5",
        "runc",
        {"cdi": "disabled"},
        "legacy",
        "legacy",
        False,
        "compatible",
    ),
    "a default that is there": ("26.1.5", "nvidia", {}, "native-cdi", "cdi", True, "compatible"),
    "a default that is to go": (
        "26.1.5",
        "nvidia",
        {"set_as_default": "disabled"},
        "native-cdi",
        "cdi",
        False,
        "compatible",
    ),
    "strict": ("26.1.5", "runc", {"isolation": "strict"}, "native-cdi", "cdi", False, "strict"),
}


@pytest.mark.parametrize(
    ("version", "now", "options", "injection", "mode", "default", "isolation"),
    DECISIONS.values(),
    ids=DECISIONS,
)
def test_what_is_decided(
    version: str,
    now: str,
    options: dict[str, Any],
    injection: str,
    mode: str,
    default: bool,
    isolation: str,
) -> None:
    policy = Policy(**options)
    (found,) = docker_detect.find_instances(
        policy, docker_detect.read_facts(policy, running(version, DefaultRuntime=now))
    )
    record = decide.decide_host(policy, (found,), ONE_GPU, Kubelet())
    (decision,) = record.decisions
    assert (decision.injection, record.runtime_mode, decision.default, record.isolation) == (
        injection,
        mode,
        default,
        isolation,
    )
    assert (decision.handler, decision.runtime_class, decision.device_list_strategy) == (
        "nvidia",
        "",
        (),
    )
    # `docker run --gpus` calls the hook itself, which works in legacy mode only unless it is told
    # otherwise.
    assert toolkit_config.list_toolkit_keys(policy, record).get(toolkit_config.SKIP) is (
        None if mode == "legacy" else True
    )


LIVE = '{"live-restore": true}'
TWO = "2 running containers (db, web)"
# what it is: (file, live-restore in force, option restart, flags, what is done, left to someone,
# code of the advice)
COSTS: dict[str, tuple[str | None, bool, str, list[str], list[str], bool, str]] = {
    "containers would end": (
        None,
        False,
        "auto",
        [],
        ["reload docker.service"],
        True,
        "docker.restart-left",
    ),
    "asked for all the same": (
        None,
        False,
        "force",
        [],
        ["restart docker.service"],
        False,
        "docker.restart-ends-containers",
    ),
    "live-restore": (LIVE, True, "auto", [], ["restart docker.service"], False, ""),
    "live-restore by a flag": (
        None,
        True,
        "auto",
        ["--live-restore"],
        ["restart docker.service"],
        False,
        "",
    ),
    "live-restore in the file only": (
        LIVE,
        False,
        "auto",
        [],
        ["reload docker.service"],
        True,
        "docker.restart-left",
    ),
    "live-restore until the next start only": (
        "{}",
        True,
        "auto",
        [],
        ["reload docker.service"],
        True,
        "docker.restart-left",
    ),
    "never": (LIVE, True, "never", [], ["reload docker.service"], True, "docker.restart-never"),
    "never, and they would end": (
        None,
        False,
        "never",
        [],
        ["reload docker.service"],
        True,
        "docker.restart-left",
    ),
}


@pytest.mark.parametrize(
    ("text", "live", "restart", "argv", "done", "left", "code"), COSTS.values(), ids=COSTS
)
def test_a_restart_that_ends_containers_is_asked_for_by_name(
    text: str | None,
    live: bool,
    restart: Any,
    argv: list[str],
    done: list[str],
    left: bool,
    code: str,
) -> None:
    plan = planned(
        Policy(restart=restart),
        running("26.1.5", text, argv=argv, containers=2, LiveRestoreEnabled=live),
    )
    assert acts(plan) == done
    assert plan.pending == ((UNIT,) if left else ())
    assert get_codes(plan.advice) == ([code] if code else [])
    assert {get_values(said).get("containers", TWO) for said in plan.advice} <= {TWO}
    assert plan.list_interrupted_units(restart) == [
        UNIT for act in done if act.startswith("restart")
    ]
    assert [a.action for a in plan.list_acted_restarts("never")] == [
        a.action for a in plan.restarts if a.action == "reload"
    ]


def test_in_a_swarm_live_restore_is_no_way_out() -> None:
    plan = planned(Policy(), running(containers=2, Swarm={"LocalNodeState": "active"}))
    assert get_codes(plan.advice) == ["docker.restart-left-in-swarm"]


def test_containers_are_asked_for_only_where_a_restart_would_end_them() -> None:
    with pytest.raises(NeedMore) as asked:
        planned(Policy(), running(ContainersRunning=2))
    assert [q["id"] for q in asked.value.questions] == [LIST]


def test_what_is_not_ours_stays_to_the_byte() -> None:
    text = '{\n\t"log-opts": {"max-size": "10m"},\r\n\t"mtu":1450.0, "x": "\\u00e9"}'
    (change,) = planned(Policy(cdi="disabled"), running("26.1.5", text)).changes
    entry = '\t"runtimes": {\n\t\t"nvidia": {\n\t\t\t"path": "/usr/bin/nvidia-container-runtime"\n\t\t}\n\t},\n'
    assert {**change, "result": ""} == {
        "path": CONFIG, "op": "edit", "expect": sha(text), "edits": [{"start": 1, "end": 1, "text": entry}], "result": "",
    }  # fmt: skip


def test_a_tree_is_written_and_nothing_is_run() -> None:
    policy = Policy(root="/srv/tree", engine_version="28.5.2", engines=("docker",))
    plan = planned(policy, obs())
    assert plan.changes[0]["content"] == json.dumps({"runtimes": ENTRY}, indent=2) + "\n"
    assert (plan.restarts, plan.validate, plan.health) == ((), (), ())


def test_a_daemon_outside_systemd_is_left_to_its_owner() -> None:
    seen = obs(
        files={BINARY: ""},
        processes=[{"pid": 3, "exe": "/usr/sbin/dockerd", "argv": ["dockerd"]}],
        answers={
            INFO: told({"ServerVersion": "28.5.2", "CDISpecDirs": DIRS, "Runtimes": RUNC}, "/info")
        },
    )
    plan = planned(Policy(), seen)
    assert plan.restarts == ()
    assert get_codes(plan.advice) == ["docker.outside-systemd"]


def test_the_order_of_handlers_writes_the_same_file() -> None:
    zeta, alpha = Handler("zeta"), Handler("alpha")
    one, other = (
        planned(
            Policy(handlers=order, cdi="disabled", set_as_default="disabled"),
            running("26.1.5", "{}", files={BINARY: ""}),
        )
        for order in ((zeta, alpha), (alpha, zeta))
    )
    assert one.changes == other.changes != ()


def test_our_own_runtime_may_get_another_program() -> None:
    kept = {CONFIG: {"existed": False, "sha256_after": "x"}}
    wanted = Policy(
        handlers=(Handler(binary="/usr/bin/nvidia-container-runtime.cdi"),), cdi="disabled"
    )
    files = {"/usr/bin/nvidia-container-runtime.cdi": ""}
    plan = planned(
        wanted, running("26.1.5", json.dumps({"runtimes": ENTRY}), files=files, originals=kept)
    )
    assert [(d.before, d.after) for d in plan.differences] == [
        (BINARY, "/usr/bin/nvidia-container-runtime.cdi")
    ]


@pytest.mark.parametrize(
    ("program", "handler", "taken"),
    [
        (ELSEWHERE, Handler(), True),  # a known place of NVIDIA's runtime
        ("/usr/local/nvidia/toolkit/nvidia-container-runtime", Handler(), True),
        (BINARY, Handler(binary="/usr/bin/nvidia-container-runtime.cdi"), True),
        ("/opt/acme/gpu-runtime", Handler(), False),
        # gpufleet_handlers names it
        (
            "/opt/acme/gpu-runtime",
            Handler(binary=ELSEWHERE, chosen=True),
            True,
        ),
        ("/opt/acme/gpu-runtime", Handler(binary="/opt/acme/gpu-runtime", chosen=True), True),
        ("/usr/bin/nvidia-container-runtime-hook", Handler(), False),
    ],
)
def test_a_runtime_of_our_name_keeps_its_arguments_or_is_refused(
    program: str, handler: Handler, taken: bool
) -> None:
    before = {"path": program, "runtimeArgs": ["--debug"], "options": {"x": 1}}
    wanted = Policy(handlers=(handler,), cdi="disabled")
    seen = running(
        "26.1.5", json.dumps({"runtimes": {"nvidia": before}}), files={handler.binary: ""}
    )
    if not taken:
        with pytest.raises(PlanError, match=r"\[docker\.runtime-of-others\]$"):
            planned(wanted, seen)
        return
    texts = [
        json.loads("".join(e["text"] for e in change["edits"]))
        for change in planned(wanted, seen).changes
    ]
    assert [text["runtimes"]["nvidia"] for text in texts] == (
        [] if program == handler.binary else [{**before, "path": handler.binary}]
    )


@pytest.mark.parametrize(
    ("default", "runtimes", "kept", "program"),
    [
        ("runc", RUNC, None, "runc"),
        ("crun", {**RUNC, "crun": {"path": "/usr/bin/crun"}}, None, "/usr/bin/crun"),
        (
            "nvidia",
            {**OURS, "crun": {"path": "/usr/bin/crun"}},
            {"default-runtime": "crun"},
            "/usr/bin/crun",
        ),
        ("nvidia", OURS, {}, "runc"),
        ("sysbox", {**RUNC, "sysbox": {"path": "/usr/bin/sysbox-runc"}}, None, "runc"),
    ],
)
def test_the_program_behind_the_default_runtime(
    default: str, runtimes: dict, kept: dict | None, program: str
) -> None:
    original = {"existed": True, "content": json.dumps(kept), "sha256_after": "x"}
    originals = {} if kept is None else {CONFIG: original}
    (found,) = docker_detect.find_instances(
        Policy(),
        docker_detect.read_facts(
            Policy(), running(DefaultRuntime=default, Runtimes=runtimes, originals=originals)
        ),
    )
    assert found.low_level == program


def test_a_program_that_was_not_sent_is_no_blank_in_a_sentence() -> None:
    sent = file_places.show_own_text(
        json.dumps({"runtimes": {"nvidia": {"path": "/opt/my runtime"}}}),
        docker_config.keep_docker_values(),
    )
    with pytest.raises(PlanError) as found:
        planned(Policy(cdi="disabled"), running("26.1.5", sent, files={BINARY: ""}))
    assert found.value.code == "docker.hidden-runtime-of-others"


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"runtimeType": "io.containerd.runc.v2"}, "docker.shim-of-others"),
        ({"runtimeType": "my shim"}, "docker.runtime-without-program"),
        ({"options": {}}, "docker.runtime-without-program"),
    ],
)
def test_a_type_of_a_shim_is_no_program_to_set(entry: dict[str, Any], code: str) -> None:
    sent = file_places.show_own_text(
        json.dumps({"runtimes": {"nvidia": entry}}), docker_config.keep_docker_values()
    )
    with pytest.raises(PlanError) as found:
        planned(Policy(cdi="disabled"), running("26.1.5", sent, files={BINARY: ""}))
    assert found.value.code == code


# What stands in the file, and what is said of its type: nothing where the name is hidden, since
# then so is the value.
TYPES = [
    ({"runtimes": {"S 3": {"path": "/x"}}}, ""),
    ({"runtimes": {"S 3": {}, "S 4": 7, "S 5": "a b", "S 6": [1], "nvidia": ENTRY}}, ""),
    ({"features": {"a b": True, "c d": False, "cdi": True}}, ""),
    ({"runtimes": {"S 3": {"path": "/x"}, "other": "/x"}}, "runtimes.other is a string"),
    ({"runtimes": {"S 3": {"path": "/x"}, "other": 7}}, "runtimes.other is a number"),
    ({"runtimes": {"other": None}}, "runtimes.other is null"),
    ({"runtimes": ["x"]}, "runtimes is a list"),
    ({"features": {"a b": True, "cdi": ""}}, "features.cdi is a string"),
    ({"features": {"cdi": 1}}, "features.cdi is a number"),
    ({"features": {"cdi": {"a": 1}}}, "features.cdi is an object"),
    ({"default-runtime": {"a": 1}}, "default-runtime is an object"),
]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(("data", "said"), TYPES, ids=[json.dumps(data) for data, _said in TYPES])
def test_the_type_of_what_is_hidden_is_not_judged(
    data: dict[str, Any], said: str, indent: int | None
) -> None:
    path = docker_config.CONFIG
    sent = contents.show_content(
        json.dumps(data, indent=indent).encode(), docker_config.keep_docker_values(), path
    )
    seen = obs(files={path: {**file_answer(""), **sent}})
    if not said:
        assert docker_config.read_docker_document(seen, path, ())[1].data.keys() == data.keys()
        return
    with pytest.raises(PlanError) as found:
        docker_config.read_docker_document(seen, path, ())
    assert found.value.code == "docker.wrong-type"
    assert f"{found.value.values['key']} is {found.value.values['found']}" == said


def test_a_token_of_a_log_driver_never_travels() -> None:
    text = '{"log-opts": {"splunk-token": "a\\"bc"}, "https-proxy": "http://me:pass@proxy", '
    text += '"runtimes": {"n": {"path": "/n", "runtimeArgs": ["k=x"]}}}'
    shown = file_places.show_own_text(text, docker_config.keep_docker_values())
    assert json.loads(shown) == {
        "xxxxxxxx": " " * 23,
        "xxxxxxxxxxx": " " * 20,
        "runtimes": {"n": {"path": "/n", "runtimeArgs": [1]}},
    }
