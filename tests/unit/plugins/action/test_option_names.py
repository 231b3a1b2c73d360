# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A message calls an option by the name that the user has written: in a role or playbook of this
collection, its variable.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments, base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    VARIABLE_WORD,
    OptionName,
    Sentence,
    end_with_code,
    join_texts,
    name_options_in,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import variables

from tests.unit import tool_modules

message_tables = tool_modules.loaded("message_tables")
ROOT = message_tables.ROOT
ACTIONS = "ansible_collections.gpufleet.nvidia.plugins.action."
OURS = SimpleNamespace(get_name=lambda: "gpufleet.nvidia.host")
OTHERS = SimpleNamespace(get_name=lambda: "example.site.gpu")

PATH = Sentence(
    "demo.path",
    "gpufleet_config_path is {value!r}",
    why="{option} names it, and gpufleet_hosts does not",
    next="Remove gpufleet_config_path from {file}",
)
MESSAGE = PATH.fill(
    value="gpufleet_config_path", option=OptionName("drop_in_path"), file="/etc/config_path"
)


def make_action(
    module: str, *, role: Any = None, path: str = "/home/alice/site.yml:7", **args: Any
) -> Any:
    action = importlib.import_module(ACTIONS + module).ActionModule
    made = action.__new__(action)
    made._task = SimpleNamespace(_role=role, get_path=lambda: path, args=args)
    return made


OWN_TASK = make_action("containerd_runtime")
PLACES = {
    "a user's own task": (OWN_TASK, "config_path", "drop_in_path"),
    "a role of somebody else": (make_action("host", role=OTHERS), "config_path", "drop_in_path"),
    "a role of this collection": (
        make_action("host", role=OURS),
        "gpufleet_config_path",
        "gpufleet_drop_in_path",
    ),
    "a playbook of this collection": (
        make_action("host_info", path=f"{arguments.COLLECTION}/playbooks/plan.yml:3"),
        "gpufleet_config_path",
        "gpufleet_drop_in_path",
    ),
    "a module without the option": (
        make_action("toolkit_config"),
        "gpufleet_config_path",
        "drop_in_path",
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_option_has_the_name_that_the_user_has_written(place: str) -> None:
    action, config_path, drop_in_path = PLACES[place]
    named = MESSAGE.name_options(arguments.find_option_names(action))
    assert named.what == f"{config_path} is 'gpufleet_config_path'"
    assert named.why == f"{drop_in_path} names it, and gpufleet_hosts does not"
    assert named.next == f"Remove {config_path} from /etc/config_path"
    assert (named.code, named.values) == (MESSAGE.code, MESSAGE.values)


NAMES = arguments.find_option_names(OWN_TASK)
TEXTS = {
    "a message": (MESSAGE, True),
    "a text": ("gpufleet_config_path", False),
    "a message with its code": (end_with_code(MESSAGE), True),
    "messages in one text": (join_texts("; ", [MESSAGE, "gpufleet_root"]), True),
    "the rest of a refusal": (Refusal(MESSAGE).message, True),
    "an error raised again": (
        PlanError(PlanError(MESSAGE).message, why="another cause").message,
        True,
    ),
    "a message in a message": (Sentence("demo.whole", "{part}").fill(part=MESSAGE), True),
}


@pytest.mark.parametrize("text", TEXTS)
def test_messages_are_named_wherever_they_are(text: str) -> None:
    given, named = TEXTS[text]
    found = name_options_in({"list": [{"text": given}], "tuple": (given,)}, NAMES)
    assert found == {"list": [{"text": found["tuple"][0]}], "tuple": [found["tuple"][0]]}
    assert found["tuple"][0].startswith("config_path is" if named else "gpufleet_")
    assert found["tuple"][0].endswith("gpufleet_root") == ("gpufleet_root" in given)


def test_the_result_of_a_failed_task_has_the_names() -> None:
    def run(_action: Any) -> dict[str, Any]:
        raise PlanError(MESSAGE, where=OptionName("handlers.nvidia"))

    found = base.guard_action(run)(make_action("host", role=OURS))
    assert found["msg"].startswith("gpufleet_handlers.nvidia: gpufleet_config_path is ")
    assert found["error"]["where"] == "gpufleet_handlers.nvidia"
    assert (
        base.guard_action(run)(OWN_TASK)["error"]["next"]
        == "Remove config_path from /etc/config_path"
    )


# ---------------------------------------------------------------- variables of options
# These get the result of another task, or a value that a playbook makes.
NOT_SET_BY_USERS = {
    "results",
    "drained",
    "host_result",
    "settings",
    "plan",
    "cdi_owner",
    "cdi_version",
    "state",
    "point",
    "own",
    "files",
}


def find_tasks(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield (module, option, variable) for each option that a task sets by one variable.

    A step of a playbook stands for its module.
    """
    for item in value if isinstance(value, list) else [value] if isinstance(value, dict) else []:
        for key, inner in item.items() if isinstance(item, dict) else ():
            module = str(key).removeprefix("gpufleet.nvidia.")
            if module != key and isinstance(inner, dict):
                module = str(inner["step"]) if module == "playbook_step" else module
                for option, text in inner.items():
                    found = re.findall(r"\bgpufleet_\w+", str(text))
                    if len(set(found)) == 1:
                        yield module, option, found[0]
            yield from find_tasks(inner)


SET = sorted(
    {
        found
        for part in ("roles/*/tasks/*.yml", "playbooks/*.yml", "playbooks/tasks/*.yml")
        for path in ROOT.glob(part)
        for found in find_tasks(yaml.safe_load(path.read_text()))
        if found[0] != "variables_check"
        and found[1] not in NOT_SET_BY_USERS
        and found[2] not in variables.RESULTS
    }
)


def test_every_option_has_the_variable_by_which_our_tasks_set_it() -> None:
    # Tasks that leave their options to variables are judged in test_roles.py.
    assert len(SET) > 130
    wrong = [found for found in SET if variables.find_variable(*found[:2]) != found[2]]
    assert wrong == []


STEP = make_action(
    "playbook_step",
    path=f"{arguments.COLLECTION}/playbooks/rollout.yml:3",
    step="rollout_settings",
)


def test_a_step_calls_its_options_by_its_own_variables() -> None:
    names = arguments.find_option_names(STEP)
    assert [names(option) for option in ("waves", "max_failed")] == [
        "gpufleet_rollout_waves",
        "gpufleet_rollout_max_failed",
    ]


# ---------------------------------------------------------------- rows
@functools.cache
def find_known() -> frozenset[str]:
    specs = [
        yaml.safe_load(path.read_text())
        for path in sorted(Path(ROOT).glob("roles/*/meta/argument_specs.yml"))
    ]
    options = {
        name
        for spec in specs
        for entry in spec["argument_specs"].values()
        for name in entry["options"]
    }
    others = (
        variables.RUN,
        variables.RESULTS,
        variables.OF_HOSTS,
        variables.OF_IMAGES,
        variables.OF_HAND_OVER,
    )
    return frozenset([*options, *(name for part in others for name in part), variables.OWN])


ROWS = [
    row
    for path in message_tables.find_tables().values()
    for row in message_tables.read_rows(path).values()
]
# Words that are names of options, and no words of the language. In a row an option has its
# variable's name, if there is one. Rows about the options of another task, which the user may
# write.
OF_ANOTHER_TASK = {"image-fit.nodes-alone"}
# Words that are keys of an engine's file as well.
KEYS_OF_ENGINES = {"cdi_spec_dirs", "config_path"}
OPTION_WORDS = {
    option
    for path in sorted((ROOT / "plugins/modules").glob("[!_]*.py"))
    for option in arguments.derive_argument_spec(path.stem)
    if "_" in option and option not in KEYS_OF_ENGINES and f"gpufleet_{option}" in find_known()
}


def test_rows_call_options_by_variables_that_exist() -> None:
    known = find_known()
    found = {row.code: VARIABLE_WORD.findall(f"{row.what} {row.why} {row.next}") for row in ROWS}
    assert {code: unknown for code, words in found.items() if (unknown := set(words) - known)} == {}


def test_rows_call_no_option_by_its_bare_name() -> None:
    words = re.compile(
        rf"(?<!module )(?<![\w./{{])({'|'.join(sorted(OPTION_WORDS, key=len, reverse=True))})(?![\w}}!])"
    )
    found = {row.code: words.findall(f"{row.what} {row.why} {row.next}") for row in ROWS}
    assert {
        code: bare for code, bare in found.items() if bare and code not in OF_ANOTHER_TASK
    } == {}
