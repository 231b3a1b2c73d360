# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of NVIDIA's config.toml that break how GPUs get into containers: named for the modes in
which they count, and left alone.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    HOOK_BINARY,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import outer_host
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    owners_settings,
    toolkit_config,
)

from tests.unit.builders import obs
from tests.unit.coded import read_all_coded
from tests.unit.records import instance, record

LEGACY, IN_MEMORY, CDI = Policy(injection="legacy"), Policy(injection="jit-cdi"), Policy()
PATH = toolkit_config.PATH
DEBIAN, FEDORA = (
    dict.fromkeys(("/sbin/ldconfig", "/sbin/ldconfig.real"), ""),
    {"/sbin/ldconfig": ""},
)
CLI, RUNTIME_HOOK = "[nvidia-container-cli]\n", "[nvidia-container-runtime-hook]\n"
ALLOWED = "[features]\nallow-ldconfig-from-container = true\n"
TOOLKIT = "NVIDIA/nvidia-container-toolkit"

# Where it was told, the file, the policy, what else is on the host, and the codes of the advice
# with the line of each.
CASES: list[tuple[str, str, Policy, dict[str, str], list[tuple[str, int]]]] = [
    (f"{TOOLKIT}#85: left over", f"{CLI}no-cgroups = true\n", LEGACY, {}, [("no-cgroups", 2)]),
    (
        "the hook of CRI-O",
        f"{CLI}no-cgroups = true\n",
        Policy(cdi="disabled"),
        {},
        [("no-cgroups", 2)],
    ),
    ("right for CDI", f"{CLI}no-cgroups = true\n", CDI, {}, []),
    ("right in memory", f"{CLI}no-cgroups = true\n", IN_MEMORY, {}, []),
    ("false", f"{CLI}no-cgroups = false\n", LEGACY, {}, []),
    ("a comment", f"{CLI}# no-cgroups = true\n", LEGACY, {}, []),
    (
        f"{TOOLKIT}#830: of the container",
        f'{CLI}ldconfig = "/sbin/ldconfig"\n',
        CDI,
        DEBIAN,
        [("ldconfig-of-container", 2)],
    ),
    (
        "of the container, which is allowed",
        f'{CLI}ldconfig = "/sbin/ldconfig"\n{ALLOWED}',
        LEGACY,
        DEBIAN,
        [],
    ),
    ("of the host", f'{CLI}ldconfig = "@/sbin/ldconfig"\n', LEGACY, FEDORA, []),
    ("of Ubuntu on Ubuntu", f'{CLI}ldconfig = "@/sbin/ldconfig.real"\n', LEGACY, DEBIAN, []),
    (
        f"{TOOLKIT}#59: of Ubuntu, taken without .real",
        f'{CLI}ldconfig = "@/sbin/ldconfig.real"\n',
        LEGACY,
        FEDORA,
        [],
    ),
    (
        "of another distribution",
        f'{CLI}ldconfig = "@/usr/opt/ldconfig"\n',
        LEGACY,
        FEDORA,
        [("no-ldconfig", 2)],
    ),
    ("which CDI does not run", f'{CLI}ldconfig = "@/usr/opt/ldconfig"\n', CDI, FEDORA, []),
    ("nvidia-container-cli is gone", f'{CLI}path = "/opt/bin/cli"\n', LEGACY, {}, [("no-cli", 2)]),
    ("it is there", f'{CLI}path = "/opt/bin/cli"\n', LEGACY, {"/opt/bin/cli": ""}, []),
    ("not a full path", f'{CLI}path = "nvidia-container-cli"\n', LEGACY, {}, [("no-cli", 2)]),
    ("found in PATH", f'{CLI}path = ""\n', LEGACY, {}, []),
    (
        "a driver container is gone",
        f'{CLI}root = "/run/nvidia/driver"\n',
        IN_MEMORY,
        {},
        [("no-driver-root", 2)],
    ),
    ("the driver's root in a spec", f'{CLI}root = "/run/nvidia/driver"\n', CDI, {}, []),
    (
        "a cache of the loader",
        f'{CLI}ldcache = "/etc/ld.so.cache2"\n',
        LEGACY,
        {},
        [("no-ldcache", 2)],
    ),
    (
        "the hook is gone",
        f'{RUNTIME_HOOK}path = "/opt/hook"\n',
        LEGACY,
        {},
        [("no-runtime-hook", 2)],
    ),
    ("the hook by its name", f'{RUNTIME_HOOK}path = "hook"\n', LEGACY, {}, []),
    (
        "nvidia-ctk is gone",
        '[nvidia-ctk]\npath = "/opt/nvidia-ctk"\n',
        IN_MEMORY,
        {},
        [("no-ctk", 2)],
    ),
    (
        "a capability that is none",
        'supported-driver-capabilities = "compute,gpu"\n',
        LEGACY,
        {},
        [("unknown-capability", 1)],
    ),
    ("every capability", 'supported-driver-capabilities = "all"\n', LEGACY, {}, []),
    (
        "requirements are not asked",
        "disable-require = true\n",
        LEGACY,
        {},
        [("requirements-off", 1)],
    ),
    ("no log", f'{CLI}debug = "/var/log/nvidia/cli.log"\n', LEGACY, {}, [("no-log-directory", 2)]),
    ("a log", f'{CLI}debug = "/var/log/cli.log"\n', LEGACY, {"/var/log": ""}, []),
    (
        "values of another type",
        f'disable-require = "true"\n{CLI}no-cgroups = 1\nldconfig = 7\npath = []\n',
        LEGACY,
        {},
        [],
    ),
]


def planned(
    text: str, policy: Policy, files: dict[str, str], engine: Any = None
) -> tuple[str, ...]:
    seen = obs(files={PATH: text, **files})
    made = record(
        policy, engine or (instance("crio", "1.34.2") if policy.cdi == "disabled" else instance())
    )
    return toolkit_config.plan_toolkit_config(
        policy, toolkit_config.read_toolkit_config_facts(policy, seen), made
    ).advice


@pytest.mark.parametrize(
    ("text", "policy", "files", "named"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_what_is_named(
    text: str, policy: Policy, files: dict[str, str], named: list[tuple[str, int]]
) -> None:
    said = read_all_coded(planned(text, policy, files))
    assert [(code, values["place"]) for code, values in said] == [
        (f"toolkit.{code}", f"{PATH}:{line}") for code, line in named
    ]


def test_each_row_has_a_case_in_which_it_is_named() -> None:
    named = {
        code
        for _told, text, policy, files, _named in CASES
        for code, _values in read_all_coded(planned(text, policy, files))
    }
    assert {setting.row.code for setting in owners_settings.SETTINGS} == named


VALUES = [
    (f'{CLI}ldconfig = ""\n', LEGACY, "empty"),
    (f'{CLI}ldconfig = "@/usr/opt/ldconfig.real"\n', LEGACY, "/usr/opt/ldconfig"),
    (f'{CLI}path = "cli"\n', LEGACY, "cli"),
    ('supported-driver-capabilities = "compute,gpu,cpu"\n', LEGACY, "cpu, gpu"),
    (f'{CLI}debug = "/var/log/nvidia/cli.log"\n', LEGACY, "/var/log/nvidia"),
]


@pytest.mark.parametrize(("text", "policy", "value"), VALUES)
def test_the_part_of_a_value_that_is_wrong_is_named(text: str, policy: Policy, value: str) -> None:
    assert [values["value"] for _code, values in read_all_coded(planned(text, policy, {}))] == [
        value
    ]


def test_each_row_names_its_key() -> None:
    assert [
        s.name for s in owners_settings.SETTINGS if f"{{place}}: {s.name} " not in s.row.what
    ] == []


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_none_is_edited(
    case: tuple[str, str, Policy, dict[str, str], list[tuple[str, int]]],
) -> None:
    _told, text, policy, files, _named = case
    plan = toolkit_config.plan_toolkit_config(
        policy,
        toolkit_config.read_toolkit_config_facts(policy, obs(files={PATH: text, **files})),
        record(policy),
    )
    assert not {d.key for d in plan.differences} & {
        setting.name for setting in owners_settings.SETTINGS
    }
    before = [line for line in text.splitlines() if line]
    assert [line for line in before if line not in plan.diffs[0][2].splitlines()] == []


# Docker calls the hook by itself for `--gpus`, up to the release that takes CDI for it.
DOCKER = [("28.5.1", True, 1), ("28.5.1", False, 0), ("29.2.0", True, 0)]


@pytest.mark.parametrize(("version", "hook", "number"), DOCKER)
def test_an_engine_that_calls_the_hook_in_cdi_mode(version: str, hook: bool, number: int) -> None:
    engine = instance("docker", version, config_path="/etc/docker/daemon.json")
    found = obs(
        files={PATH: f"{CLI}no-cgroups = true\n"}, answers={f"stat:{HOOK_BINARY}": {"exists": hook}}
    )
    assert (
        len(
            toolkit_config.plan_toolkit_config(
                CDI, toolkit_config.read_toolkit_config_facts(CDI, found), record(CDI, engine)
            ).advice
        )
        == number
    )


def test_programs_that_packages_bring_in_this_run_are_not_missed() -> None:
    seen = obs(files={PATH: f'{CLI}path = "/usr/bin/nvidia-container-cli"\n'})
    assert (
        toolkit_config.plan_toolkit_config(
            LEGACY,
            toolkit_config.read_toolkit_config_facts(LEGACY, seen),
            record(LEGACY),
            installing=True,
        ).advice
        == ()
    )


def test_what_could_not_be_looked_at_is_not_missed() -> None:
    failed = {"error": {"kind": "denied", "message": "no"}}
    seen = obs(files={PATH: f'{CLI}path = "/opt/cli"\n'}, answers={"stat:/opt/cli": failed})
    assert (
        toolkit_config.plan_toolkit_config(
            LEGACY, toolkit_config.read_toolkit_config_facts(LEGACY, seen), record(LEGACY)
        ).advice
        == ()
    )


OUTSIDE = [
    # NVIDIA/libnvidia-container#154, NVIDIA/nvidia-container-toolkit#290: in an LXC container the
    # hook works with no-cgroups alone
    ("lxc\n", "no-cgroups = true\n", LEGACY, ""),
    ("lxc\n", "", LEGACY, "driver.hook-in-container"),
    ("lxc\n", "", CDI, ""),
    ("wsl\n", "", LEGACY, ""),
    ("wsl\n", "no-cgroups = true\n", LEGACY, "toolkit.no-cgroups"),
    (None, "", LEGACY, ""),
]


@pytest.mark.parametrize(("mark", "text", "policy", "code"), OUTSIDE)
def test_device_rules_of_the_host_outside_are_not_the_hooks(
    mark: str | None, text: str, policy: Policy, code: str
) -> None:
    seen = obs(files={PATH: f"{CLI}{text}", outer_host.MARK: mark})
    advice = toolkit_config.plan_toolkit_config(
        policy, toolkit_config.read_toolkit_config_facts(policy, seen), record(policy)
    ).advice
    assert [of for of, _values in read_all_coded(advice)] == ([code] if code else [])


def test_all_paths_are_asked_for_in_one_look() -> None:
    text = f'{CLI}path = "/opt/cli"\nldcache = "/opt/cache"\nldconfig = "@/sbin/ldconfig"\n'
    answers = {q["id"]: {"exists": True} for q in toolkit_config.list_questions(LEGACY)}
    with pytest.raises(NeedMore) as more:
        owners_settings.advise_on_owner_settings(
            owners_settings.read_owner_facts(LEGACY, Observation({}, answers)),
            toml.parse_toml(text, PATH),
            ["legacy"],
        )
    assert [q["id"] for q in more.value.questions] == ["stat:/opt/cli", "stat:/opt/cache"]


def test_a_packaged_file_takes_no_second_look() -> None:
    text = f'{CLI}ldconfig = "@/sbin/ldconfig.real"\npath = "/usr/bin/nvidia-container-cli"\n'
    answers = {q["id"]: {"exists": True} for q in toolkit_config.list_questions(LEGACY)}
    assert (
        owners_settings.advise_on_owner_settings(
            owners_settings.read_owner_facts(LEGACY, Observation({}, answers)),
            toml.parse_toml(text, PATH),
            ["legacy"],
        )
        == ()
    )


def keep(policy: Policy) -> file_places.Keep:
    wanted: file_places.Keep = queries.merge_questions(toolkit_config.list_questions(policy))[0][
        "keep"
    ]
    return wanted


def test_what_leaves_the_host_of_them() -> None:
    text = f'disable-require = true\n{CLI}no-cgroups = true\nldconfig = "@/sbin/ldconfig"\nenvironment = ["TOKEN=a"]\npath = "/opt/cli"\n'
    usual, more = (
        file_places.show_own_text(text, keep(CDI)),
        file_places.show_own_text(text, keep(LEGACY)),
    )
    assert [line in usual for line in text.splitlines()] == [False, True, True, True, False, False]
    assert [line in more for line in text.splitlines()] == [True, True, True, True, False, True]
