# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of NVIDIA's config.toml that break how GPUs get into containers: named for the modes in which they count, and left alone."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.driver import outer_host
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import HOOK_BINARY, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import file_places
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.resources import owners_settings, toolkit_config

from tests.unit.builders import obs
from tests.unit.records import instance, record

LEGACY, IN_MEMORY, CDI = Policy(injection="legacy"), Policy(injection="jit-cdi"), Policy()
PATH = toolkit_config.PATH
DEBIAN, FEDORA = dict.fromkeys(("/sbin/ldconfig", "/sbin/ldconfig.real"), ""), {"/sbin/ldconfig": ""}
CLI, RUNTIME_HOOK = "[nvidia-container-cli]\n", "[nvidia-container-runtime-hook]\n"
ALLOWED = "[features]\nallow-ldconfig-from-container = true\n"
TOOLKIT = "NVIDIA/nvidia-container-toolkit"

# Where it was told, the file, the policy, what else is on the host, and the keys that are named with the line of each.
CASES: list[tuple[str, str, Policy, dict[str, str], list[tuple[str, int]]]] = [
    (f"{TOOLKIT}#85: left over", f"{CLI}no-cgroups = true\n", LEGACY, {}, [("nvidia-container-cli.no-cgroups", 2)]),
    ("the hook of CRI-O", f"{CLI}no-cgroups = true\n", Policy(cdi="disabled"), {}, [("nvidia-container-cli.no-cgroups", 2)]),
    ("right for CDI", f"{CLI}no-cgroups = true\n", CDI, {}, []),
    ("right in memory", f"{CLI}no-cgroups = true\n", IN_MEMORY, {}, []),
    ("false", f"{CLI}no-cgroups = false\n", LEGACY, {}, []),
    ("a comment", f"{CLI}# no-cgroups = true\n", LEGACY, {}, []),
    (f"{TOOLKIT}#830: of the container", f'{CLI}ldconfig = "/sbin/ldconfig"\n', CDI, DEBIAN, [("nvidia-container-cli.ldconfig", 2)]),
    ("of the container, which is allowed", f'{CLI}ldconfig = "/sbin/ldconfig"\n{ALLOWED}', LEGACY, DEBIAN, []),
    ("of the host", f'{CLI}ldconfig = "@/sbin/ldconfig"\n', LEGACY, FEDORA, []),
    ("of Ubuntu on Ubuntu", f'{CLI}ldconfig = "@/sbin/ldconfig.real"\n', LEGACY, DEBIAN, []),
    (f"{TOOLKIT}#59: of Ubuntu, taken without .real", f'{CLI}ldconfig = "@/sbin/ldconfig.real"\n', LEGACY, FEDORA, []),
    ("of another distribution", f'{CLI}ldconfig = "@/usr/opt/ldconfig"\n', LEGACY, FEDORA, [("nvidia-container-cli.ldconfig", 2)]),
    ("which CDI does not run", f'{CLI}ldconfig = "@/usr/opt/ldconfig"\n', CDI, FEDORA, []),
    ("nvidia-container-cli is gone", f'{CLI}path = "/opt/bin/cli"\n', LEGACY, {}, [("nvidia-container-cli.path", 2)]),
    ("it is there", f'{CLI}path = "/opt/bin/cli"\n', LEGACY, {"/opt/bin/cli": ""}, []),
    ("not a full path", f'{CLI}path = "nvidia-container-cli"\n', LEGACY, {}, [("nvidia-container-cli.path", 2)]),
    ("found in PATH", f'{CLI}path = ""\n', LEGACY, {}, []),
    ("a driver container is gone", f'{CLI}root = "/run/nvidia/driver"\n', IN_MEMORY, {}, [("nvidia-container-cli.root", 2)]),
    ("the driver's root in a spec", f'{CLI}root = "/run/nvidia/driver"\n', CDI, {}, []),
    ("a cache of the loader", f'{CLI}ldcache = "/etc/ld.so.cache2"\n', LEGACY, {}, [("nvidia-container-cli.ldcache", 2)]),
    ("the hook is gone", f'{RUNTIME_HOOK}path = "/opt/hook"\n', LEGACY, {}, [("nvidia-container-runtime-hook.path", 2)]),
    ("the hook by its name", f'{RUNTIME_HOOK}path = "hook"\n', LEGACY, {}, []),
    ("nvidia-ctk is gone", '[nvidia-ctk]\npath = "/opt/nvidia-ctk"\n', IN_MEMORY, {}, [("nvidia-ctk.path", 2)]),
    ("a capability that is none", 'supported-driver-capabilities = "compute,gpu"\n', LEGACY, {}, [("supported-driver-capabilities", 1)]),
    ("every capability", 'supported-driver-capabilities = "all"\n', LEGACY, {}, []),
    ("requirements are not asked", "disable-require = true\n", LEGACY, {}, [("disable-require", 1)]),
    ("no log", f'{CLI}debug = "/var/log/nvidia/cli.log"\n', LEGACY, {}, [("nvidia-container-cli.debug", 2)]),
    ("a log", f'{CLI}debug = "/var/log/cli.log"\n', LEGACY, {"/var/log": ""}, []),
    ("values of another type", f'disable-require = "true"\n{CLI}no-cgroups = 1\nldconfig = 7\npath = []\n', LEGACY, {}, []),
]


def planned(text: str, policy: Policy, files: dict[str, str], engine: Any = None) -> tuple[str, ...]:
    seen = obs(files={PATH: text, **files})
    made = record(policy, engine or (instance("crio", "1.34.2") if policy.cdi == "disabled" else instance()))
    return toolkit_config.plan(policy, seen, made).advice


@pytest.mark.parametrize(("text", "policy", "files", "named"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_is_named(text: str, policy: Policy, files: dict[str, str], named: list[tuple[str, int]]) -> None:
    said = planned(text, policy, files)
    assert len(said) == len(named)
    assert all(a.startswith(f"{PATH}:{line}: {key} ") for a, (key, line) in zip(said, named, strict=True)), said


def test_each_row_has_a_case_in_which_it_is_named() -> None:
    said = [sentence for _told, text, policy, files, _named in CASES for sentence in planned(text, policy, files)]
    assert [s.name for s in owners_settings.SETTINGS if not any(f"{s.effect}. {s.step}" in text for text in said)] == []


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_none_is_edited(case: tuple[str, str, Policy, dict[str, str], list[tuple[str, int]]]) -> None:
    _told, text, policy, files, _named = case
    plan = toolkit_config.plan(policy, obs(files={PATH: text, **files}), record(policy))
    assert not {d.key for d in plan.differences} & {setting.name for setting in owners_settings.SETTINGS}
    before = [line for line in text.splitlines() if line]
    assert [line for line in before if line not in plan.diffs[0][2].splitlines()] == []


# Docker calls the hook by itself for `--gpus`, up to the release that takes CDI for it.
DOCKER = [("28.5.1", True, 1), ("28.5.1", False, 0), ("29.2.0", True, 0)]


@pytest.mark.parametrize(("version", "hook", "number"), DOCKER)
def test_an_engine_that_calls_the_hook_in_cdi_mode(version: str, hook: bool, number: int) -> None:
    engine = instance("docker", version, config_path="/etc/docker/daemon.json")
    found = obs(files={PATH: f"{CLI}no-cgroups = true\n"}, answers={f"stat:{HOOK_BINARY}": {"exists": hook}})
    assert len(toolkit_config.plan(CDI, found, record(CDI, engine)).advice) == number


def test_programs_that_packages_bring_in_this_run_are_not_missed() -> None:
    seen = obs(files={PATH: f'{CLI}path = "/usr/bin/nvidia-container-cli"\n'})
    assert toolkit_config.plan(LEGACY, seen, record(LEGACY), installing=True).advice == ()


def test_what_could_not_be_looked_at_is_not_missed() -> None:
    failed = {"error": {"kind": "denied", "message": "no"}}
    seen = obs(files={PATH: f'{CLI}path = "/opt/cli"\n'}, answers={"stat:/opt/cli": failed})
    assert toolkit_config.plan(LEGACY, seen, record(LEGACY)).advice == ()


OUTSIDE = [
    # NVIDIA/libnvidia-container#154, NVIDIA/nvidia-container-toolkit#290: in an LXC container the hook works with no-cgroups alone
    ("lxc\n", "no-cgroups = true\n", LEGACY, ""),
    ("lxc\n", "", LEGACY, "no-cgroups = true and give this container the device nodes"),
    ("lxc\n", "", CDI, ""),
    ("wsl\n", "", LEGACY, ""),
    ("wsl\n", "no-cgroups = true\n", LEGACY, "is true, so"),
    (None, "", LEGACY, ""),
]


@pytest.mark.parametrize(("mark", "text", "policy", "said"), OUTSIDE)
def test_device_rules_of_the_host_outside_are_not_the_hooks(mark: str | None, text: str, policy: Policy, said: str) -> None:
    seen = obs(files={PATH: f"{CLI}{text}", outer_host.MARK: mark})
    advice = toolkit_config.plan(policy, seen, record(policy)).advice
    assert (len(advice), said in " ".join(advice)) == (bool(said), True)


def test_all_paths_are_asked_for_in_one_look() -> None:
    text = f'{CLI}path = "/opt/cli"\nldcache = "/opt/cache"\nldconfig = "@/sbin/ldconfig"\n'
    answers = {q["id"]: {"exists": True} for q in toolkit_config.questions(LEGACY)}
    with pytest.raises(NeedMore) as more:
        owners_settings.advice(LEGACY, Observation({}, answers), toml.parse(text, PATH), ["legacy"])
    assert [q["id"] for q in more.value.questions] == ["stat:/opt/cli", "stat:/opt/cache"]


def test_a_packaged_file_takes_no_second_look() -> None:
    text = f'{CLI}ldconfig = "@/sbin/ldconfig.real"\npath = "/usr/bin/nvidia-container-cli"\n'
    answers = {q["id"]: {"exists": True} for q in toolkit_config.questions(LEGACY)}
    assert owners_settings.advice(LEGACY, Observation({}, answers), toml.parse(text, PATH), ["legacy"]) == ()


def keep(policy: Policy) -> file_places.Keep:
    wanted: file_places.Keep = queries.together(toolkit_config.questions(policy))[0]["keep"]
    return wanted


def test_what_leaves_the_host_of_them() -> None:
    text = f'disable-require = true\n{CLI}no-cgroups = true\nldconfig = "@/sbin/ldconfig"\nenvironment = ["TOKEN=a"]\npath = "/opt/cli"\n'
    usual, more = file_places.shown(text, keep(CDI)), file_places.shown(text, keep(LEGACY))
    assert [line in usual for line in text.splitlines()] == [False, True, True, True, False, False]
    assert [line in more for line in text.splitlines()] == [True, True, True, True, False, True]
