# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CRI-O: what is found, and what is planned, case by case."""

from __future__ import annotations

import dataclasses as dc
import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml,
    toml_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    checks,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    config as crio_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    plan as crio_plan,
)

from tests.unit import operators
from tests.unit.builders import obs, sha
from tests.unit.coded import get_coded, get_codes
from tests.unit.crio_plans import (
    DIRECTORY,
    NVIDIA,
    OURS,
    PACKAGED,
    PROCESS,
    SOCKET,
    host,
    planned,
    status,
    taken_back,
    written,
)


def test_each_file_is_parsed_once_for_a_look_and_its_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str] = []
    parse = toml_file.read_toml_file

    def count(file: ObservedFile) -> toml.TomlDocument:
        parsed.append(file.path)
        return parse(file)

    monkeypatch.setattr(toml_file, "read_toml_file", count)
    assert written(planned(Policy(), host({"/etc/crio/crio.conf": "[crio.runtime]\n"})))
    assert parsed == ["/etc/crio/crio.conf", f"{DIRECTORY}/10-crio.conf"]


def test_a_running_crio_is_found_with_its_own_word() -> None:
    (found,) = crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), host()))
    assert (found.engine, found.version, found.socket, found.unit, found.running) == (
        "crio",
        "1.34.2",
        SOCKET,
        "crio.service",
        True,
    )
    assert (found.default_handler, found.handlers) == ("crun", {"crun": "/usr/libexec/crio/crun"})
    assert (
        found.cdi.able,
        found.cdi.enabled,
        found.cdi.max_version,
        found.cdi.evidence.source,
    ) == (True, True, "1.0.0", "cri-status")
    assert (str(found.refusal), found.invocation_id, found.manager) == ("", "abc", "package")


LIST = "[crio.runtime]\ncdi_spec_dirs = "
NEXT_DIRECTORIES: dict[str, tuple[dict[str, str], tuple[str, ...] | None]] = {
    # name: (files, the directories for the next start)
    "not named": ({}, ("/etc/cdi", "/var/run/cdi")),
    "named": ({"/etc/crio/crio.conf": f'{LIST}["/var/cdi/"]\n'}, ("/var/cdi",)),
    "the last file counts": (
        {"/etc/crio/crio.conf": f'{LIST}["/var/cdi"]\n', f"{DIRECTORY}/20-cdi.conf": f'{LIST}["/srv/cdi"]\n'}, ("/srv/cdi",),
    ),
    "no directory": ({"/etc/crio/crio.conf": f"{LIST}[]\n"}, ()),
    "not sent from the host": ({"/etc/crio/crio.conf": f'{LIST}["   "]\n'}, None),
}  # fmt: skip


@pytest.mark.parametrize(("files", "later"), NEXT_DIRECTORIES.values(), ids=NEXT_DIRECTORIES)
def test_directories_of_specs_at_the_next_start(
    files: dict[str, str], later: tuple[str, ...] | None
) -> None:
    (found,) = crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), host(files)))
    assert (found.cdi.dirs, found.cdi.next_dirs) == (("/etc/cdi", "/var/run/cdi"), later)


def test_a_flag_outranks_the_directories_of_the_files() -> None:
    process = {**PROCESS, "argv": ["/usr/bin/crio", "--cdi-spec-dirs", "/srv/cdi"]}
    (found,) = crio_detect.find_instances(
        Policy(),
        crio_detect.read_facts(
            Policy(), host({"/etc/crio/crio.conf": f'{LIST}["/var/cdi"]\n'}, processes=[process])
        ),
    )
    assert found.cdi.next_dirs == ("/srv/cdi",)


@pytest.mark.parametrize(
    ("version", "able", "field", "highest"),
    [
        ("1.23.5", False, False, ""),
        ("1.24.0", True, False, "0.3.0"),
        ("1.27.9", True, False, "0.5.0"),
        ("1.28.0", True, True, "0.6.0"),
        ("1.30.14", True, True, "0.7.0"),
        ("1.36.3", True, True, "1.1.0"),
    ],
)
def test_cdi_follows_the_version(version: str, able: bool, field: bool, highest: str) -> None:
    policy = Policy(root="/srv/tree", engine_version=version, engines=("crio",))
    (found,) = crio_detect.find_instances(policy, crio_detect.read_facts(policy, obs()))
    assert (found.cdi.able, found.cdi.cri_field, found.cdi.max_version) == (able, field, highest)


@pytest.mark.parametrize(
    ("version", "name", "annotations"),
    [
        ((1, 28), "runc", ["io.containers.trace-syscall"]),
        ((1, 30), "runc", ["io.containers.trace-syscall", "io.kubernetes.cri-o.Devices"]),
        ((1, 31), "crun", ["io.containers.trace-syscall", "io.kubernetes.cri-o.Devices"]),
        ((1, 34), "crun", ["io.containers.trace-syscall", "io.kubernetes.cri-o.Devices"]),
        ((1, 35), "crun", ["io.containers.trace-syscall", "devices.crio.io"]),
        ((1, 36), "crun", ["io.containers.trace-syscall", "devices.crio.io"]),
    ],
)
def test_the_handler_that_no_file_names_is_that_of_the_release(
    version: tuple[int, int], name: str, annotations: list[str]
) -> None:
    assert releases.get_default_crio_runtime(version) == name
    assert releases.get_built_in_crio_handler(version)["allowed_annotations"] == annotations


def test_no_crio_is_no_instance() -> None:
    assert crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), obs())) == ()


def test_a_tree_without_any_version_names_the_option() -> None:
    with pytest.raises(PlanError) as caught:
        crio_detect.find_instances(
            Policy(root="/srv/tree", engines=("crio",)),
            crio_detect.read_facts(
                Policy(root="/srv/tree", engines=("crio",)), obs(files={"/usr/bin/crio": ""})
            ),
        )
    assert caught.value.code == "crio.version-unknown"


@pytest.mark.parametrize("package", ["1.34.1-1.1", "1.34.1~0"])
def test_a_tree_tells_the_version_by_its_package(package: str) -> None:
    policy = Policy(root="/srv/tree")
    (found,) = crio_detect.find_instances(
        policy,
        crio_detect.read_facts(policy, obs(packages={"cri-o": package})),
    )
    assert found.version == "1.34.1"


@pytest.mark.parametrize(
    ("argv", "config", "directory"),
    [
        (["crio"], "/etc/crio/crio.conf", "/etc/crio/crio.conf.d"),
        (["crio", "-c", "/opt/c.toml"], "/opt/c.toml", "/opt/c.toml.d"),
        (["crio", "--config=/opt/c.toml", "--config-dir", "/opt/d"], "/opt/c.toml", "/opt/d"),
        (["crio", "-d", "/opt/d", "--log-level", "debug"], "/etc/crio/crio.conf", "/opt/d"),
    ],
)
def test_the_daemons_flags_say_what_it_reads(argv: list[str], config: str, directory: str) -> None:
    where = crio_config.find_crio_paths(Policy(), obs(processes=[{**PROCESS, "argv": argv}]))
    assert (where.config, where.directory, where.drop_in) == (
        config,
        directory,
        f"{directory}/90-gpufleet.conf",
    )


def test_a_stopped_crio_is_left_alone_with_one_sentence() -> None:
    seen = host(
        processes=[],
        units={"crio.service": {"ActiveState": "inactive"}},
        commands={"/usr/bin/crio --version": "crio version 1.34.2\n"},
    )
    (found,) = crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), seen))
    assert not found.running
    assert "crio.service is inactive" in str(found.refusal)


def test_a_stopped_crio_that_cannot_read_a_stray_file_names_it() -> None:
    files = {f"{DIRECTORY}/README": "Drop-ins go here.\n"}
    seen = host(
        files, processes=[], units={}, commands={"/usr/bin/crio --version": "crio version 1.34.2\n"}
    )
    (found,) = crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), seen))
    assert f"{DIRECTORY}/README:1" in str(found.refusal)


def test_the_handler_is_the_default_one_with_another_binary() -> None:
    plan = planned(Policy(), host())
    assert written(plan) == {
        "runtimes": {
            "nvidia": {
                "runtime_path": "/usr/bin/nvidia-container-runtime",
                "runtime_type": "oci",
                "runtime_root": "/run/crun",
                "monitor_path": "/usr/libexec/crio/conmon",
                "monitor_cgroup": "system.slice",
                "allowed_annotations": ["io.containers.trace-syscall"],
            }
        }
    }
    assert [(r.unit, r.action) for r in plan.restarts] == [("crio.service", "restart")]
    assert plan.expect_units == {"crio.service": "abc"}
    assert plan.expect_files[f"{DIRECTORY}/10-crio.conf"] == sha(PACKAGED)
    assert {d.key for d in plan.differences} >= {
        "crio.runtime.runtimes.nvidia.runtime_path",
        "crio.runtime.runtimes.nvidia.monitor_path",
    }


def test_default_is_written_only_where_decided() -> None:
    assert "default_runtime" not in written(planned(Policy(), host(), default=False))
    plan = planned(Policy(), host(), default=True)
    assert written(plan)["default_runtime"] == "nvidia"
    assert {"path": ["config", "crio", "DefaultRuntime"], "equals": "nvidia"} in plan.health[0][
        "require"
    ]


def want(default: str, *names: str) -> crio_plan.DesiredCrio:
    """Return a desired state with these handlers, each copied from crun."""
    handlers: dict[str, dict[str, Any]] = {name: {} for name in names}
    return crio_plan.DesiredCrio(handlers, default, (), (), {name: ("crun", {}) for name in names})


HANDLER = "crio.runtime.runtimes.nvidia."
KEYS = [
    # the desired state, a key of this collection that differs, the code of its reason
    (want("nvidia", "nvidia"), "crio.runtime.default_runtime", "crio.default-for-gpus"),
    (want("crun", "nvidia"), "crio.runtime.default_runtime", "crio.default-unwanted"),
    (want("crun"), "crio.runtime.default_runtime", "crio.default-unwanted"),
    (want("", "nvidia"), "crio.runtime.cdi_spec_dirs", "engine.cdi-directories"),
    (want(""), "crio.runtime.cdi_spec_dirs", "engine.cdi-directories"),
    (want("", "nvidia"), f"{HANDLER}runtime_path", "crio.runtime-path"),
    (want("", "nvidia"), f"{HANDLER}runtime_type", "crio.runtime-type"),
    (want("", "nvidia"), f"{HANDLER}monitor_path", "crio.copied"),
    (want("", "gpu"), f"{HANDLER}monitor_path", "crio.handler-unwanted"),
    (want(""), f"{HANDLER}runtime_path", "engine.no-handler-wanted"),
]


@pytest.mark.parametrize(("desired", "key", "reason"), KEYS)
def test_a_key_of_the_drop_in_has_a_reason(
    desired: crio_plan.DesiredCrio, key: str, reason: str
) -> None:
    assert get_codes([crio_plan.explain_crio_key(key, desired)]) == [reason]


def converged(default: bool = False) -> tuple[str, dict[str, Any]]:
    change = planned(Policy(), host(), default=default).changes[0]
    said = status(nvidia=NVIDIA)
    said["info"]["config"]["crio"]["DefaultRuntime"] = "nvidia" if default else "crun"
    return change["content"], said


@pytest.mark.parametrize("default", [False, True])
def test_a_second_run_finds_nothing_to_do(default: bool) -> None:
    text, said = converged(default)
    plan = planned(Policy(), host({OURS: text}, said), default=default)
    assert plan.empty
    assert (plan.restarts, plan.health, plan.validate) == ((), (), ())


def test_a_daemon_that_has_not_loaded_the_right_file_is_restarted() -> None:
    text, _said = converged()
    plan = planned(Policy(), host({OURS: text}))
    assert (plan.changes, [r.unit for r in plan.restarts]) == ((), ["crio.service"])
    assert plan.differences[0].what == "unit"


def test_restart_never_leaves_advice() -> None:
    plan = planned(Policy(restart="never"), host())
    assert (plan.restarts, plan.pending) == ((), ("crio.service",))
    assert plan.changes
    assert "crio.restart-left" in get_codes(plan.advice)


def test_another_text_of_the_same_meaning_is_written_without_a_restart() -> None:
    text, said = converged()
    plan = planned(Policy(), host({OURS: "# an older heading\n" + text}, said))
    assert len(plan.changes) == 1
    assert plan.restarts == ()
    never = planned(Policy(restart="never"), host({OURS: "# an older heading\n" + text}, said))
    assert never.pending == (), "none is due"


def test_the_oci_hook_needs_no_drop_in() -> None:
    text, said = converged()
    policy = Policy(cdi="disabled")
    assert planned(policy, host()).empty
    plan = planned(policy, host({OURS: text}, said, {"pods": []}))
    assert plan.changes == ({"path": OURS, "op": "remove", "expect": sha(text)},)
    assert plan.restarts


def test_spec_dirs_and_options_are_written_when_set() -> None:
    policy = Policy(
        cdi_spec_dirs=("/etc/cdi", "/opt/cdi"),
        handlers=(Handler(options={"privileged_without_host_devices": True}),),
    )
    runtime = written(planned(policy, host()))
    assert runtime["cdi_spec_dirs"] == ["/etc/cdi", "/opt/cdi"]
    assert runtime["runtimes"]["nvidia"]["privileged_without_host_devices"] is True


def test_the_order_of_handlers_chooses_the_first_and_writes_the_same_file() -> None:
    zeta, alpha = Handler("zeta"), Handler("alpha")
    policies = [Policy(handlers=order) for order in ((zeta, alpha), (alpha, zeta))]
    one, other = (planned(policy, host()) for policy in policies)
    assert one.changes == other.changes != ()
    defaults = [
        written(planned(dc.replace(policy, set_as_default="enabled"), host()))["default_runtime"]
        for policy in policies
    ]
    assert defaults == ["zeta", "alpha"]


def test_a_built_in_default_handler_is_copied_from_the_daemons_word() -> None:
    seen = host({f"{DIRECTORY}/10-crio.conf": None, "/etc/crio/crio.conf": "# all defaults\n"})
    seen.answers.files.pop(f"{DIRECTORY}/10-crio.conf")
    assert (
        written(planned(Policy(), seen))["runtimes"]["nvidia"]["monitor_path"]
        == "/usr/libexec/crio/conmon"
    )


@pytest.mark.parametrize(
    ("name", "text", "code", "values"),
    [
        ("README", "Put your drop-ins here.\n", "crio.drop-in-refused", {}),
        (
            "99-site.conf.bak",
            '[crio.runtime.runtimes.nvidia]\nruntime_path = "/old/nvidia-container-runtime"\n',
            "crio.read-later",
            {"settings": "nvidia"},
        ),
        (
            "zz/deep",
            f'[crio.runtime.runtimes.nvidia]\nruntime_path = "/o{NVIDIA["RuntimePath"]}"\n',
            "crio.read-later",
            {},
        ),
        (
            "99-default",
            '[crio.runtime]\ndefault_runtime = "runc"\n',
            "crio.read-later",
            {"settings": "default_runtime = 'runc'"},
        ),
    ],
)
def test_stray_files_that_break_or_override_are_refused(
    name: str, text: str, code: str, values: dict[str, str]
) -> None:
    with pytest.raises(PlanError) as caught:
        planned(Policy(), host({f"{DIRECTORY}/{name}": text}), default=True)
    assert (caught.value.where, caught.value.code) == (f"{DIRECTORY}/{name}", code)
    assert caught.value.values.items() >= values.items()


def test_a_harmless_leftover_is_advice() -> None:
    plan = planned(Policy(), host({f"{DIRECTORY}/10-crio.conf.bak": PACKAGED}))
    assert get_coded(plan.advice) == {
        "crio.stray-file": {"path": f"{DIRECTORY}/10-crio.conf.bak", "directory": DIRECTORY}
    }
    assert plan.changes


@pytest.mark.parametrize(
    ("name", "path", "owner", "code"),
    [
        (
            "99-nvidia.toml",
            "/usr/bin/nvidia-container-runtime",
            "nvidia-ctk",
            "crio.not-taken-over",
        ),
        (
            "99-nvidia.conf",
            "/usr/local/nvidia/toolkit/nvidia-container-runtime",
            "gpu-operator",
            "operator.runs",
        ),
    ],
)
def test_nvidias_own_drop_in_has_an_owner(name: str, path: str, owner: str, code: str) -> None:
    text = f'[crio.runtime.runtimes.nvidia]\nruntime_path = "{path}"\n'
    works = [PROCESS, {"pid": 90, "exe": "/usr/bin/nvidia-toolkit", "unverified": "namespace"}]
    answers = operators.answers(SOCKET, (), traits.get_traits(traits.CRIO).pod_note, pid=7)
    (found,) = crio_detect.find_instances(
        Policy(),
        crio_detect.read_facts(
            Policy(), host({f"{DIRECTORY}/{name}": text}, processes=works, answers=answers)
        ),
    )
    assert found.manager == owner
    assert found.refusal.message.code == code


@pytest.mark.parametrize(
    ("policy", "code", "where"),
    [
        (Policy(drop_in="never"), "crio.drop-in-never", "/etc/crio/crio.conf"),
        (
            Policy(drop_in_path="/etc/crio/mine.conf"),
            "crio.drop-in-elsewhere",
            "/etc/crio/mine.conf",
        ),
        (Policy(handlers=(Handler(binary="/opt/none"),)), "adoption.program-missing", "/opt/none"),
    ],
)
def test_options_that_cannot_work_are_refused(policy: Policy, code: str, where: str) -> None:
    with pytest.raises(PlanError) as caught:
        planned(policy, host())
    assert (caught.value.code, caught.value.where) == (code, where)


@pytest.mark.parametrize(
    "line", ['monitor_env = ["A=b"]', '\t"A=b",', r"""	"A=\"b\"",""", '# \t"A=b",']
)
def test_lines_of_a_value_that_was_not_sent_may_come_and_go(line: str) -> None:
    """`crio config` prints a list's items in lines of their own, and an item may have quotes in it."""
    assert re.fullmatch(
        checks.allow_value_pattern("monitor_env", toml_file.Hidden("1", "", None, (0, 0), "")),
        line.strip(),
    )


def test_a_tree_gets_the_file_and_nothing_is_run() -> None:
    policy = Policy(root="/srv/tree", engine_version="1.36.3", engines=("crio",))
    plan = planned(policy, obs(files={f"{DIRECTORY}/10-crio.conf": PACKAGED}))
    assert written(plan)["runtimes"]["nvidia"]["monitor_path"] == "/usr/libexec/crio/conmon"
    assert (plan.restarts, plan.validate, plan.health, plan.expect_units) == ((), (), (), {})
    assert get_codes(plan.advice) == ["crio.program-to-come"]


@pytest.mark.parametrize(
    ("recorded", "change"),
    [
        ("as written", {"path": OURS, "op": "restore"}),
        ("other", {"path": OURS, "op": "remove"}),
    ],
)
def test_absent_takes_our_file_back(recorded: str, change: dict[str, Any]) -> None:
    text, said = converged()
    after = sha(text) if recorded == "as written" else "0" * 64
    seen = host(
        {OURS: text},
        said,
        {"pods": []},
        originals={OURS: {"existed": False, "sha256_after": after}},
    )
    plan = taken_back(seen)
    assert plan.changes[0].items() >= change.items()
    assert [r.unit for r in plan.restarts] == ["crio.service"]


STUCK: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"pods": []}, {}),
    ({"pods": ["a/b", "a/c"]}, {"crio.pods-hang": {"pods": "a/b, a/c", "handlers": "nvidia"}}),
    (
        {"error": {"kind": "timeout", "message": "no answer"}},
        {"crio.pods-may-hang": {"handlers": "nvidia"}},
    ),
]


@pytest.mark.parametrize(("pods", "advice"), STUCK)
def test_pods_that_would_hang_are_named_before_their_handler_goes(
    pods: dict[str, Any], advice: dict[str, Any]
) -> None:
    text, said = converged()
    before, seen = host({OURS: text}, said), host({OURS: text}, said, pods)
    instance = crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), seen))[0]
    with pytest.raises(NeedMore) as asked:
        taken_back(before, instance)
    assert [(q["method"], q["handlers"]) for q in asked.value.questions] == [
        ("ListPodSandbox", ["nvidia"])
    ]
    assert get_coded(taken_back(seen, instance).advice) == advice


@pytest.mark.parametrize(("pods", "advice"), STUCK)
def test_pods_that_would_hang_are_named_before_the_hook_takes_the_place_of_their_handler(
    pods: dict[str, Any], advice: dict[str, Any]
) -> None:
    text, said = converged()
    assert (
        get_coded(planned(Policy(cdi="disabled"), host({OURS: text}, said, pods)).advice) == advice
    )


def test_absent_twice_does_nothing() -> None:
    assert taken_back(host()).empty
