# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a task: they become a policy, or are named as the user has set them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    options as planner_options,
)

from tests.unit.planned_tasks import make_task

ROOT = Path(__file__).resolve().parents[4]
MODULES = sorted(path.stem for path in (ROOT / "plugins/modules").glob("*.py"))
NAMED = [
    # role, option, how the sentence begins
    ("gpufleet.nvidia.host", {"engine_version": "new"}, "gpufleet_engine_version is 'new'"),
    ("gpufleet.nvidia.host", {"metrics_dir": "rel/dir"}, "gpufleet_metrics_dir is 'rel/dir'"),
    (
        "gpufleet.nvidia.host",
        {"engine_version": "cdi_owner"},
        "gpufleet_engine_version is 'cdi_owner'",
    ),
    ("gpufleet.nvidia.host", {"root": "tree"}, "gpufleet_root is 'tree'"),
    (
        "gpufleet.nvidia.host",
        {"drop_in": "never", "drop_in_path": "/etc/drop_in_path.toml"},
        "gpufleet_drop_in is never, and gpufleet_drop_in_path is /etc/drop_in_path.toml",
    ),
    (
        "gpufleet.nvidia.host",
        {
            "bundle_file": "/srv/b.tar",
            "toolkit_repository": "https://mirror.example/toolkit_repository",
        },
        "gpufleet_bundle_file is set besides gpufleet_toolkit_repository (gpufleet_toolkit_repository is https://mirror.example/toolkit_repo",
    ),
    ("gpufleet.nvidia.host", {"config_path": "~/c.toml"}, "gpufleet_config_path is '~/c.toml'"),
    ("gpufleet.nvidia.host", {"engine_version": 1.1}, "gpufleet_engine_version is the number 1.1"),
    (
        "gpufleet.nvidia.host",
        {"sharing": {"0": [dt.date(2024, 1, 1)]}},
        "gpufleet_sharing.0[0] is 2024-01-01",
    ),
    (
        "gpufleet.nvidia.host",
        {"sharing": {dt.date(2024, 1, 1): {}}},
        "gpufleet_sharing has the key 2024-01-01",
    ),
    ("example.site.gpu", {"root": "tree"}, "root is 'tree'"),
    ("", {"root": "tree"}, "root is 'tree'"),
]


@pytest.mark.parametrize(("role", "args", "sentence"), NAMED)
def test_a_wrong_value_is_named_as_the_user_has_set_it(
    role: str, args: dict[str, Any], sentence: str
) -> None:
    played = make_task(args)
    played._task._role = SimpleNamespace(get_name=lambda: role) if role else None
    with pytest.raises(PlanError) as failed:
        arguments.read_task_options(played, arguments.derive_argument_spec("host"))
    named = failed.value.name_options(arguments.find_option_names(played))
    assert str(named).startswith(sentence)


@pytest.mark.parametrize("module", MODULES)
def test_every_option_of_a_module_has_a_type_and_a_description(module: str) -> None:
    for name, option in arguments.read_module_documentation(module)["options"].items():
        assert option.get("type"), name
        assert option.get("description"), name


@pytest.mark.parametrize(
    ("args", "field", "value"),
    [
        ({}, "state", "present"),
        ({"cdi": "enabled"}, "cdi", "enabled"),
        ({"cdi": "disabled", "set_as_default": "disabled"}, "set_as_default", "disabled"),
        ({"engines": ["crio"]}, "engines", ("crio",)),
        ({"engines": "crio,containerd"}, "engines", ("crio", "containerd")),
        (
            {"handlers": {"gpu": {"binary": "/opt/nv"}}},
            "handlers",
            (Handler("gpu", "/opt/nv", {}, True),),
        ),
        ({"handlers": {}}, "handlers", (Handler(),)),
        # the first counts
        (
            {"handlers": {"zeta": {}, "alpha": {}}},
            "handlers",
            (Handler("zeta"), Handler("alpha")),
        ),
        (
            {"handlers": '{"zeta": {}, "alpha": {}}'},
            "handlers",
            (Handler("zeta"), Handler("alpha")),
        ),
    ],
)
def test_options_become_a_policy(args: dict[str, Any], field: str, value: Any) -> None:
    policy = arguments.build_policy(
        arguments.read_task_options(make_task(args), arguments.derive_argument_spec("host"))
    )
    assert getattr(policy, field) == value


@pytest.mark.parametrize(
    ("args", "code", "values"),
    [
        ({"injection": "magic"}, "options.choice", {"option": "injection", "value": "magic"}),
        ({"colour": "green"}, "options.unknown", {"option": "colour"}),
        ({"restrat": "never"}, "options.unknown-near", {"option": "restrat", "near": "restart"}),
        ({"restrat": "never", "colour": "green"}, "options.unknown", {"option": "colour"}),
        ({"fleet_policy": "uniform"}, "options.unknown", {"option": "fleet_policy"}),
        (
            {"handlers": [1]},
            "options.type",
            {"option": "handlers", "found": "list", "wanted": "dict", "example": "{NAME: VALUE}"},
        ),
        (
            {"engines": "crio, docker"},
            "options.list-with-blanks",
            {"option": "engines", "items": "crio, docker"},
        ),
        (
            {"engines": '["crio", "docker"]'},
            "options.list-is-text",
            {"option": "engines", "value": '["crio", "docker"]'},
        ),
        ({"engines": ["lxc"]}, "options.choice", {"option": "engines"}),
        (
            {"handlers": {"gpu": {"bin": "/opt/nv"}}},
            "options.handler-key",
            {"option": "handlers.gpu", "key": "bin"},
        ),
    ],
)
def test_bad_options_are_named(args: dict[str, Any], code: str, values: dict[str, Any]) -> None:
    with pytest.raises(PlanError) as caught:
        arguments.build_policy(
            arguments.read_task_options(make_task(args), arguments.derive_argument_spec("host"))
        )
    assert (caught.value.code, {**caught.value.values, **values}) == (code, caught.value.values)


CAPITALS = {"handlers": {"NVIDIA": {}}}


@pytest.mark.parametrize(
    ("options", "docker"), [(CAPITALS, True), ({**CAPITALS, "engines": ["docker"]}, False)]
)
def test_a_runtime_in_capitals_is_dockers_own_affair(options: dict[str, Any], docker: bool) -> None:
    planner_options.check_options(options, docker=docker)
    with pytest.raises(PlanError) as refused:
        planner_options.check_options({**options, "engines": ["docker", "crio"]})
    assert refused.value.code == "options.handler-name"
