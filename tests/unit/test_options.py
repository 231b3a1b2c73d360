# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each module has the options that have an effect on it. The stand-ins for GPUs on test hosts are
not options at all.
"""

from __future__ import annotations

import json
import os
import types
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.action import playbook_step
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import seen_host
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    oci_hook,
    repository,
    toolkit_config,
)

ROOT = Path(__file__).resolve().parents[2]

HOST = ("host", "host_info")
VERIFICATION = (*HOST, "host_verify")
FILES = ("containerd_runtime", "crio_runtime")
ENGINES = (*FILES, "docker_runtime")
PARTS = (
    *ENGINES,
    "cdi_spec",
    "device_nodes",
    "oci_hook",
    "toolkit_config",
    "toolkit_packages",
    "toolkit_repository",
)
# Options, and the modules that have them.
TABLE: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    # where, and which way
    (
        ("transport",),
        (
            *VERIFICATION,
            *PARTS,
            "cdi_spec_info",
            "gpu_diagnose",
            "gpu_health_info",
            "image_choice_info",
        ),
    ),
    # a verification starts containers, and nothing runs beneath another root
    (
        ("root",),
        (*HOST, *PARTS, "cdi_spec_info", "gpu_diagnose", "gpu_health_info", "image_choice_info"),
    ),
    (("state",), (*HOST, *PARTS, "drain")),
    # how the host is decided
    (
        ("device_plugin_prefix", "device_plugin_strategy", "dra", "engines", "injection", "no_gpu"),
        VERIFICATION,
    ),
    (("accepted_findings", "gpus"), VERIFICATION),
    (("nvml",), ("gpu_health_info",)),
    (("persistence",), HOST),
    (("isolation",), (*VERIFICATION, "toolkit_config")),
    # engines
    (("config_path", "handlers", "service", "set_as_default", "socket"), (*VERIFICATION, *ENGINES)),
    (("cdi",), (*VERIFICATION, "containerd_runtime", "docker_runtime")),  # CRI-O has no such switch
    (("engine_version", "restart"), (*HOST, *ENGINES)),
    (("approved_change",), ("host",)),
    (("known_bad", "metrics_dir", "operator_toolkit", "sharing"), HOST),
    (("drop_in_path",), (*HOST, *FILES)),  # Docker reads one file
    (("drop_in",), (*HOST, "containerd_runtime")),  # CRI-O always reads drop-ins
    (("adopt",), (*HOST, *ENGINES, "cdi_spec")),
    (("cdi_spec_dirs",), (*VERIFICATION, *ENGINES, "cdi_spec", "cdi_spec_info")),
    (("annotation_prefixes",), ("containerd_runtime", "toolkit_config")),
    # packages and device nodes
    (("bundle_file",), (*HOST, "toolkit_packages", "toolkit_repository")),
    (("device_nodes", "driver", "driver_hold_reason"), HOST),
    (
        (
            "packages",
            "toolkit_key",
            "toolkit_key_fingerprint",
            "toolkit_repository",
            "toolkit_version",
        ),
        (*HOST, "toolkit_packages"),
    ),
    (("key", "key_fingerprint", "url"), ("toolkit_repository",)),
    (("low_level_runtimes", "mode"), ("toolkit_config",)),
    (("path",), ("oci_hook",)),
    # CDI specs
    (("cdi_dev_root", "cdi_driver_root"), (*VERIFICATION, "cdi_spec", "cdi_spec_info")),
    (("cdi_owner",), (*VERIFICATION, "cdi_spec")),
    (("cdi_version",), ("cdi_spec", "cdi_spec_info")),
    (
        ("cdi_compat32", "cdi_features", "cdi_profile", "cdi_refresh", "cdi_sockets"),
        (*HOST, "cdi_spec"),
    ),
    (
        (
            "cdi_device_names",
            "cdi_group_ids",
            "cdi_imex_channels",
            "cdi_node_attributes",
            "cdi_nvswitch",
        ),
        (*HOST, "cdi_spec"),
    ),
    (
        (
            "cdi_above_cap",
            "cdi_class",
            "cdi_layout",
            "cdi_missing_nodes",
            "cdi_model_class",
            "cdi_vendor",
        ),
        ("cdi_spec",),
    ),
    # verifications
    (("image", "image_environment", "host_result"), ("host_verify",)),
    (("timeout",), ("host_verify", "drain")),
    # runs
    (
        ("results",),
        (
            "drain",
            "failed_hosts_check",
            "fleet_table",
        ),
    ),
    (("fleet_policy",), ("failed_hosts_check",)),
    (("max_failed",), ("failed_hosts_check",)),
    (("collection", "file", "host", "password", "token", "username", "validate_certs"), ("awx",)),
    (
        (
            "approval_timeout",
            "credentials",
            "drift_schedule",
            "forks",
            "image",
            "inventory",
            "organization",
            "playbooks",
        ),
        ("awx",),
    ),
    (
        ("prefix", "project_branch", "project_credential", "project_url", "settings", "slices"),
        ("awx",),
    ),
    (
        ("file", "versions", "architectures", "formats", "url", "key", "key_fingerprint"),
        ("bundle",),
    ),
    (
        ("also", "columns", "details", "fail_on_drift", "max_lost", "playbook", "view", "width"),
        ("fleet_table",),
    ),
    (
        (
            "also",
            "change_ref",
            "directory",
            "files",
            "plan",
            "playbook",
            "publish",
            "results",
            "sources",
            "status",
        ),
        ("fleet_report",),
    ),
    (("own", "written"), ("variables_check",)),
    (("catalogue", "facts", "gpus", "nothing_fits"), ("image_choice_info",)),
    (("registry", "registry_auth_file", "registry_plain_http"), ("image_choice_info",)),
    (
        (
            "apply",
            "config_map",
            "dir",
            "namespace",
            "operator_environment",
            "profile",
            "taints",
            "values",
        ),
        ("kubernetes_objects",),
    ),
    (("context", "fleet_policy", "kubeconfig", "results", "state"), ("kubernetes_objects",)),
    (("directory", "results", "width"), ("fleet_image_report",)),
    (
        (
            "by",
            "commands",
            "context",
            "drained",
            "driver_changes",
            "interval",
            "kubeconfig",
            "method",
            "on_timeout",
        ),
        ("drain",),
    ),
    (
        (
            "kubernetes_delete_emptydir_data",
            "kubernetes_force",
            "kubernetes_hold",
            "kubernetes_node",
        ),
        ("drain",),
    ),
    (("policy", "reason", "rollout", "slurm_node", "unknown"), ("drain",)),
    # internal
    (("program", "request"), ("host_program",)),
    (("step",), ("playbook_step",)),
)
# Options, and the steps of the playbooks that have them.
OF_STEPS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("results",), ("hand_over", "rollout_asked", "rollout_cluster", "rollout_plan")),
    (
        ("settings",),
        ("rollout_batch", "rollout_cluster", "rollout_driver", "rollout_plan", "rollout_report"),
    ),
    (("driver",), ("rollout_driver", "rollout_settings")),
    (("rollout", "root", "transport"), ("rollout_driver",)),
    (("plan",), ("rollout_batch", "rollout_cluster", "rollout_report")),
    (("point",), ("hand_over", "rollout_batch", "rollout_cluster", "rollout_driver")),
    (("refused",), ("rollout_batch", "rollout_report")),
    (("declined",), ("rollout_batch",)),
    (("approvals", "fleet_policy"), ("rollout_plan",)),
    (("argv",), ("rollout_soak",)),
    (("joined_by", "otherwise", "variable"), ("keep_failure",)),
    (
        ("approved", "approved_changes", "canaries", "class", "domain", "events", "gate_check"),
        ("rollout_settings",),
    ),
    (
        ("gate_retries", "host_timeout", "max_failed", "max_left_out", "max_unavailable", "pause"),
        ("rollout_settings",),
    ),
    (
        ("plan_file", "plugin_wait", "seed", "soak", "soak_command", "tasks", "until", "waves"),
        ("rollout_settings",),
    ),
    (("keep_packages", "window"), ("rollout_settings",)),
    (
        ("context", "interval", "kubeconfig", "kubernetes_node", "rollout", "timeout", "to"),
        ("hand_over",),
    ),
)


def test_every_module_has_the_options_that_concern_it() -> None:
    modules = sorted(
        path.stem for path in (ROOT / "plugins/modules").glob("*.py") if path.stem != "__init__"
    )
    wanted: dict[str, set[str]] = {module: set() for module in modules}
    for options, of in TABLE:
        for module in of:
            wanted[module].update(options)
    assert {module: set(arguments.derive_argument_spec(module)) for module in modules} == wanted


def test_every_step_has_the_options_that_concern_it() -> None:
    steps = playbook_step.SPEC["step"]["choices"]
    wanted: dict[str, set[str]] = {step: set() for step in steps}
    for options, of in OF_STEPS:
        for step in of:
            wanted[step].update(options)
    assert {step: set(arguments.derive_step_spec(step)) for step in steps} == wanted


# What the samples of a module's RETURN are about, and what is restarted for it.
SAMPLES = {
    "cdi_spec": ({"/etc/cdi/nvidia.yaml"}, []),
    "containerd_runtime": ({"/etc/containerd/conf.d/90-gpufleet.toml"}, ["containerd.service"]),
    "crio_runtime": ({"/etc/crio/crio.conf.d/90-gpufleet.conf"}, ["crio.service"]),
    "device_nodes": ({"/dev/nvidia-uvm"}, []),
    "docker_runtime": ({"/etc/docker/daemon.json"}, []),
    "host": ({"/etc/containerd/conf.d/90-gpufleet.toml"}, ["containerd.service"]),
    "oci_hook": ({f"{oci_hook.DIRECTORY}/{oci_hook.NAME}"}, []),
    "toolkit_config": ({toolkit_config.PATH}, []),
    "toolkit_packages": ({"nvidia-container-toolkit-base"}, []),
    "toolkit_repository": (
        {repository.FAMILIES["debian"].key_path, repository.FAMILIES["debian"].list_path},
        [],
    ),
}


def test_a_sample_is_of_its_own_module() -> None:
    texts = {
        module: yaml.safe_load(arguments.read_module_text(module, "RETURN")) for module in SAMPLES
    }
    found = {
        m: ({d["path"] for d in text["differences"]["sample"]}, text["restarted"]["sample"])
        for m, text in texts.items()
    }
    assert found == SAMPLES
    for module, text in texts.items():
        restarts = [f"restart {unit}" for unit in SAMPLES[module][1]]
        assert [
            action for action in text["actions"]["sample"] if action.startswith("restart ")
        ] == restarts


# --- test hosts
# --------------------------------------------------------------------------------------------------

VARIABLE = "GPUFLEET_TEST_HOSTS"
IMITATED = {
    "proc_root": "/opt/fake/proc",
    "sys_root": "/opt/fake/sys",
    "evidence_file": "/var/log/record",
}
NODES = "/driver/nvidia"
STEPS = playbook_step.STEPS
OF_TYPE: dict[str, Any] = {"str": "some", "list": ["some"], "dict": {}, "bool": True, "int": 1}


def of_task(module: str = "host", **given: Any) -> dict[str, Any]:
    action: Any = types.SimpleNamespace(_task=types.SimpleNamespace(args=given))
    return arguments.read_task_options(action, arguments.derive_argument_spec(module))


def asked(policy: Policy) -> str:
    return json.dumps(seen_host.list_host_questions(policy))


def test_without_the_variable_a_host_has_its_own_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    policy = arguments.build_policy(of_task())
    assert (policy.proc_root, policy.sys_root, arguments.get_imitated_places()) == (
        "/proc",
        "/sys",
        {},
    )
    assert f"/proc{NODES}" in asked(policy)
    assert "/opt/fake" not in asked(policy)


def test_with_the_variable_all_hosts_have_what_stands_for_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps(IMITATED))
    args = of_task()
    policy = arguments.build_policy(args)
    assert {name: args[name] for name in IMITATED} == IMITATED
    assert f"/opt/fake/proc{NODES}" in asked(policy)
    assert f'"/proc{NODES}' not in asked(policy)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_has_its_own_options_and_no_places_of_test_hosts(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that a step hands on, such as the user's own check, takes no other options."""
    spec = arguments.derive_step_spec(step)
    given = {
        name: option["choices"][0] if "choices" in option else OF_TYPE[option["type"]]
        for name, option in spec.items()
        if option.get("required")
    }
    action: Any = types.SimpleNamespace(_task=types.SimpleNamespace(args={**given, "step": step}))
    monkeypatch.setenv(VARIABLE, json.dumps(IMITATED))
    assert set(arguments.read_step_options(action, step)) == set(spec)


PROGRAMS = {
    "nothing is set": ({}, Handler.binary, False),
    "a handler without settings": ({"handlers": {"nvidia": {}}}, Handler.binary, False),
    "a handler with its default program": (
        {"handlers": {"nvidia": {"binary": Handler.binary}}},
        Handler.binary,
        True,
    ),
    "a handler with a program of the site": (
        {"handlers": {"nvidia": {"binary": "/opt/site/run"}}},
        "/opt/site/run",
        True,
    ),
}


@pytest.mark.parametrize("module", ["host", "containerd_runtime", "crio_runtime", "docker_runtime"])
@pytest.mark.parametrize("case", PROGRAMS)
def test_only_a_program_that_a_person_names_counts_as_chosen(case: str, module: str) -> None:
    given, program, chosen = PROGRAMS[case]
    (handler,) = arguments.build_policy(of_task(module, **given)).handlers
    assert (handler.name, handler.binary, handler.chosen) == ("nvidia", program, chosen)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"root": "/srv"}', "test-hosts.unknown-keys"),
        ('{"proc_root"', "test-hosts.not-a-table"),
        ('["proc_root"]', "test-hosts.not-a-table"),
    ],
)
def test_a_wrong_variable_is_named(text: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(PlanError) as refused:
        of_task()
    assert (refused.value.code, refused.value.values["variable"]) == (code, VARIABLE)


@pytest.mark.parametrize("name", IMITATED)
def test_no_inventory_can_say_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(PlanError) as refused:
        of_task(**{name: "/opt/fake"})
    assert refused.value.code.startswith("options.unknown")
    shipped = [
        path
        for folder in ("roles", "playbooks", "examples", "docs")
        for path in (ROOT / folder).rglob("*.yml")
    ]
    assert [
        path for path in shipped if name in path.read_text() or VARIABLE in path.read_text()
    ] == []


def test_one_place_reads_the_variable() -> None:
    readers = [path for path in (ROOT / "plugins").rglob("*.py") if VARIABLE in path.read_text()]
    assert [os.path.relpath(path, ROOT) for path in readers] == [
        "plugins/plugin_utils/_controller/arguments.py"
    ]


def test_a_result_that_two_modules_describe_alike_is_written_once() -> None:
    """In tests/tools/results.yml, from which the modules' RETURN is written; samples are each
    module's own. Of a table its keys count.
    """
    once = {
        (entry["name"], module)
        for entry in yaml.safe_load((ROOT / "tests/tools/results.yml").read_text())
        for module in entry["modules"]
    }
    found: dict[tuple[str, str], list[str]] = {}
    for path in sorted((ROOT / "plugins/modules").glob("*.py")):
        text = path.read_text().partition('RETURN = r"""')[2].partition('"""')[0]
        for name, entry in (yaml.safe_load(text) or {}).items():
            same = (
                {"contains": entry["contains"]}
                if "contains" in entry
                else {**entry, "sample": None}
            )
            found.setdefault((name, json.dumps(same, sort_keys=True)), []).append(path.stem)
    copies = {name: modules for (name, _entry), modules in found.items() if len(modules) > 1}
    assert {
        name: modules
        for name, modules in copies.items()
        if not all((name, module) in once for module in modules)
    } == {}
