# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a task's options by the argument spec in the module's documentation, and make the policy of
them.
"""

from __future__ import annotations

import ast
import dataclasses as dc
import functools
import importlib
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import yaml
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    messages,
    validation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.given import (
    require_plain_options,
    require_versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    OptionNames,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.variables import (
    find_variable,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import options

MODULES = os.path.join(os.path.dirname(__file__), "..", "..", "modules")
FRAGMENTS = "ansible_collections.gpufleet.nvidia.plugins.doc_fragments."
# libyaml's if PyYAML has it: it takes a tenth of the time
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
ACTIONS = "ansible_collections.gpufleet.nvidia.plugins.action."
STEP_ACTION, STEP = "playbook_step", "step"
TEST_HOSTS = "GPUFLEET_TEST_HOSTS"
SPEC_KEYS = ("type", "elements", "choices", "default", "required", "aliases")

ROLES = "gpufleet.nvidia."
COLLECTION = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
# The places of the tasks that set options by variables of this collection.
OWN_TASKS = tuple(os.path.join(COLLECTION, part) + os.sep for part in ("roles", "playbooks"))
# The modules whose tasks in roles name no option: each option is set by its variable.
BY_VARIABLES = frozenset({"host", "host_info", "host_verify"})
TEMPLATES = ("{{", "{%", "{#")  # each makes a text one that Ansible renders, a comment alone too
SECRETS = frozenset({"password", "token"})  # ansible-test takes no `no_log` in a DOCUMENTATION


def read_module_text(module: str, name: str = "DOCUMENTATION") -> str:
    """Return one of a module's texts. It is read without importing the module."""
    with open(os.path.join(MODULES, module + ".py"), encoding="utf-8") as handle:
        tree = ast.parse(handle.read())
    return next(
        str(n.value.value)
        for n in tree.body
        if isinstance(n, ast.Assign)
        and isinstance(n.value, ast.Constant)
        and getattr(n.targets[0], "id", "") == name
    )


def read_module_documentation(module: str) -> dict[str, Any]:
    """Return a module's DOCUMENTATION with its fragments' options.

    It is read once when the action is loaded (before Ansible forks).
    """
    return _add_fragments(yaml.load(read_module_text(module), Loader=LOADER))


def read_step_documentation(step: str) -> dict[str, Any]:
    """Return the documentation of a step of `playbook_step`, with its fragments' options."""
    steps = importlib.import_module(FRAGMENTS + STEP_ACTION).ModuleDocFragment
    return _add_fragments(yaml.load(getattr(steps, step.upper()), Loader=LOADER))


def _add_fragments(doc: dict[str, Any]) -> dict[str, Any]:
    merged = dict(doc.get("options") or {})
    for name in doc.get("extends_documentation_fragment") or []:
        fragment, _dot, part = name.removeprefix("gpufleet.nvidia.").partition(".")
        cls = importlib.import_module(FRAGMENTS + fragment).ModuleDocFragment
        more = yaml.load(getattr(cls, (part or "DOCUMENTATION").upper()), Loader=LOADER)
        merged = {**(more.get("options") or {}), **merged}
    return {**doc, "options": merged}


def derive_argument_spec(module: str) -> dict[str, Any]:
    """Derive the argument spec from the documentation, so that the two cannot differ."""
    return _derive_spec(read_module_documentation(module)["options"])


@functools.cache
def derive_step_spec(step: str) -> dict[str, Any]:
    """Derive the argument spec of a step of `playbook_step` from its documentation."""
    return _derive_spec(read_step_documentation(step)["options"])


def _derive_spec(documented: Mapping[str, Any]) -> dict[str, Any]:
    spec = {name: _derive_option(option) for name, option in documented.items()}
    return {
        name: {**option, "no_log": True} if name in SECRETS else option
        for name, option in spec.items()
    }


def keep_written_paths(spec_: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec for the validator, with text for each path that is not the controller's.

    Ansible's type `path` replaces `~` and `$VAR` by the home and the environment of the machine
    that validates, which is the controller.
    """
    return {
        name: {key: "str" if value == "path" else value for key, value in option.items()}
        if name in options.NOT_OF_CONTROLLER
        else option
        for name, option in spec_.items()
    }


def _derive_option(option: Mapping[str, Any]) -> dict[str, Any]:
    kept = {k: option[k] for k in SPEC_KEYS if k in option}
    if option.get("suboptions"):
        kept["options"] = {k: _derive_option(v) for k, v in option["suboptions"].items()}
    return kept


def read_step_options(action: ActionBase, step: str) -> dict[str, Any]:
    """Return the validated options of a step. Raise PlanError for an option of another step.

    They are all that its task says: a step looks at no host, so it has no imitated places.
    """
    given = {name: value for name, value in action._task.args.items() if name != STEP}
    return _read_options(given, derive_step_spec(step), {})


def read_task_options(
    action: ActionBase,
    spec_: Mapping[str, Any],
    of_role: Mapping[str, Any] | None = None,
    *,
    docker: bool = False,
) -> dict[str, Any]:
    """Return the validated options of a task. Raise PlanError for all that is wrong with them.

    of_role: the options that a role leaves to its variables (role_variables.py).
    """
    given = {**action._task.args, **(of_role or {})}
    return _read_options(given, spec_, get_imitated_places(), docker=docker)


def _read_options(
    given: Mapping[str, Any],
    spec_: Mapping[str, Any],
    imitated: Mapping[str, str],
    *,
    docker: bool = False,
) -> dict[str, Any]:
    named: Mapping[str, Any] = {name: given[name] for name in given if name in spec_}
    require_versions(named)
    validated = validation.validate(keep_written_paths(spec_), given)
    require_plain_options(validated)
    # Values are plain again after a round trip: since ansible-core 2.19 they are tagged subclasses
    # that tomlkit does not know.
    plain: dict[str, Any] = {**json.loads(json.dumps(validated)), **imitated}
    options.check_options(plain, docker=docker)
    return options.clean_option_paths(plain)


def is_constant(value: Any) -> bool:
    """Tell whether a value is constant: no template, and nothing to be decrypted."""
    if isinstance(value, str):
        return not any(begin in value for begin in TEMPLATES)
    return value is None or isinstance(value, bool | int | float)


def find_option_names(action: object) -> OptionNames:
    """Return how the user of a task has written options: by their variables, or by their own names.

    In a role or a playbook of this collection, options are set by variables. In any other task, an
    option of its module has its own name.
    """
    own, spec_ = find_spec(action)
    if is_own_task(getattr(action, "_task", None)):
        return functools.partial(find_variable, own)
    written = {find_variable(own, option): option for option in spec_}
    return lambda word: written.get(word, word)


def find_spec(action: object) -> tuple[str, Mapping[str, Any]]:
    """Return the name under which a task's options are documented, and their spec.

    The name is that of the module, or of the step in a task of `playbook_step`.
    """
    module = find_action_file(action)
    own, spec_ = module.rpartition(".")[2], getattr(sys.modules.get(module), "SPEC", {})
    if own != STEP_ACTION:
        return own, spec_
    step = getattr(getattr(action, "_task", None), "args", {}).get(STEP)
    return (str(step), derive_step_spec(step)) if step in spec_[STEP]["choices"] else (own, spec_)


def find_action_file(action: object) -> str:
    """Return the Python module that defines an action.

    Mitogen's strategies run a class of their own that inherits from the action's, so the class
    itself doesn't tell (ansible_mitogen/strategy.py: wrap_action_loader__get_with_context).
    """
    files = [cls.__module__ for cls in type(action).__mro__]
    return next((name for name in files if name.startswith(ACTIONS)), files[0])


def find_action_name(action: object) -> str:
    """Return the name of an action, by which its module is documented."""
    return find_action_file(action).rpartition(".")[2]


def is_own_task(task: Any) -> bool:
    """Tell whether a task is in a role or a playbook of this collection."""
    if getattr(task, "_role", None) is not None:
        return is_role_task(task)
    path = task.get_path() if hasattr(task, "get_path") else ""
    return bool(path) and os.path.realpath(path).startswith(OWN_TASKS)


def is_role_task(task: Any) -> bool:
    """Tell whether a task is in a role of this collection."""
    role = getattr(task, "_role", None)
    return role is not None and str(role.get_name()).startswith(ROLES)


def get_imitated_places() -> dict[str, str]:
    """Return the places on test hosts that stand for a GPU's; {} outside of tests.

    They are not options, so an inventory cannot carry them to a real host (docs/decisions).
    """
    try:
        given = json.loads(os.environ.get(TEST_HOSTS) or "{}")
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise PlanError(messages.TEST_HOSTS.fill(variable=TEST_HOSTS))
    unknown = sorted(set(given) - {"proc_root", "sys_root", "evidence_file", "kernel_log"})
    if unknown:
        raise PlanError(messages.TEST_HOSTS_KEYS.fill(variable=TEST_HOSTS, keys=", ".join(unknown)))
    return given


def build_policy(args: Mapping[str, Any], **fixed: Any) -> Policy:
    """Make the policy from options.

    The names stay, lists become tuples, and handlers become values in the order in which they are
    written.
    """
    known = {f.name for f in dc.fields(Policy)}
    values: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v
        for k, v in args.items()
        if k in known and v is not None
    }
    if "handlers" in values:
        values["handlers"] = tuple(
            build_policy_handler(name, h or {}) for name, h in values["handlers"].items()
        ) or (Handler(),)
    return dc.replace(Policy(), **{**values, **fixed})


def build_policy_handler(name: str, value: Mapping[str, Any]) -> Handler:
    """Return a handler with its options. The NVIDIA runtime is its program if none is named."""
    return Handler(
        name,
        str(value.get("binary") or Handler.binary),
        dict(value.get("options") or {}),
        bool(value.get("binary")),
    )


def build_option_failure(error: PlanError) -> dict[str, Any]:
    """Return the parts of an error as a result has them."""
    parts = {
        "what": error.what,
        "where": error.where,
        "line": error.line,
        "why": error.why,
        "next": error.next,
    }
    return {"error": {"code": error.code, **parts}}
