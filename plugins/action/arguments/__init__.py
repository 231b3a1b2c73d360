# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a task's options by the argument spec in the module's documentation, and make the policy of them.

A package of one file, since ansible-test wants a module for every other file below plugins/action.
"""

from __future__ import annotations

import ast
import dataclasses as dc
import importlib
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import AnsibleValidationError, UnsupportedError
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import options
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.given import require_plain_options, require_versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.message_types import Message
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Handler, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.variables import PREFIX, suggestion

MODULES = os.path.join(os.path.dirname(__file__), "..", "..", "modules")
FRAGMENTS = "ansible_collections.gpufleet.nvidia.plugins.doc_fragments."
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's if PyYAML has it: it takes a tenth of the time
TEST_HOSTS = "GPUFLEET_TEST_HOSTS"
SPEC_KEYS = ("type", "elements", "choices", "default", "required", "aliases")

ROLES = "gpufleet.nvidia."
NAMED_OTHERWISE = frozenset({"image", "timeout", "url"})  # options whose variable is not the prefix and the option's name
SECRETS = frozenset({"password", "token"})  # ansible-test takes no `no_log` in a DOCUMENTATION


def documented(module: str, name: str = "DOCUMENTATION") -> str:
    """Return one of a module's texts. It is read without importing the module."""
    with open(os.path.join(MODULES, module + ".py"), encoding="utf-8") as handle:
        tree = ast.parse(handle.read())
    return next(
        str(n.value.value)
        for n in tree.body
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant) and getattr(n.targets[0], "id", "") == name
    )


def documentation(module: str) -> dict[str, Any]:
    """Return a module's DOCUMENTATION with its fragments' options.

    It is read once when the action is loaded (before Ansible forks).
    """
    doc: dict[str, Any] = yaml.load(documented(module), Loader=LOADER)
    found = dict(doc.get("options") or {})
    for name in doc.get("extends_documentation_fragment") or []:
        fragment, _dot, part = name.removeprefix("gpufleet.nvidia.").partition(".")
        cls = importlib.import_module(FRAGMENTS + fragment).ModuleDocFragment
        more = yaml.load(getattr(cls, (part or "DOCUMENTATION").upper()), Loader=LOADER)
        found = {**(more.get("options") or {}), **found}
    return {**doc, "options": found}


def spec(module: str) -> dict[str, Any]:
    """Derive the argument spec from the documentation, so that the two cannot differ."""
    found = {name: _option(option) for name, option in documentation(module)["options"].items()}
    return {name: {**option, "no_log": True} if name in SECRETS else option for name, option in found.items()}


def as_written(spec_: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec for the validator, with text for each path that is not the controller's.

    Ansible's type `path` replaces `~` and `$VAR` by the home and the environment of the machine
    that validates, which is the controller.
    """
    return {
        name: {key: "str" if value == "path" else value for key, value in option.items()} if name in options.NOT_OF_CONTROLLER else option
        for name, option in spec_.items()
    }


def _option(option: Mapping[str, Any]) -> dict[str, Any]:
    found = {k: option[k] for k in SPEC_KEYS if k in option}
    if option.get("suboptions"):
        found["options"] = {k: _option(v) for k, v in option["suboptions"].items()}
    return found


def of_task(action: ActionBase, spec_: Mapping[str, Any], *, docker: bool = False) -> dict[str, Any]:
    given = dict(action._task.args)
    named: Mapping[str, Any] = {name: given[name] for name in given if name in spec_}
    _judge(action, spec_, lambda: require_versions(named))
    validated = ArgumentSpecValidator(as_written(spec_)).validate(given)
    if validated.error_messages:
        unsupported = set(validated.unsupported_parameters)
        raise AnsibleActionFail("; ".join(said(error, unsupported, spec_, given) for error in validated.errors))
    _judge(action, spec_, lambda: require_plain_options(validated.validated_parameters))
    # Values are plain again after a round trip: since ansible-core 2.19 they are tagged subclasses that tomlkit does not know.
    plain: dict[str, Any] = {**json.loads(json.dumps(validated.validated_parameters)), **imitated()}
    _judge(action, plain, lambda: options.check(plain, docker=docker))
    return options.with_clean_paths(plain)


def _judge(action: ActionBase, names: Mapping[str, Any], check: Callable[[], Any]) -> None:
    """Run a check of the options and fail with its sentence.

    names: the options that a role's sentence has as variables.
    """
    try:
        check()
    except PlanError as error:
        named = as_variable(action, error, names)
        raise AnsibleActionFail(str(named), result=failure(named)) from None


def as_variable(action: ActionBase, error: PlanError, names: Mapping[str, Any]) -> PlanError:
    """Return the error with the user's variables in place of options, if the task is in a role of this collection.

    In such a role, an option is a variable whose name has the prefix.
    """
    role, first = getattr(action._task, "_role", None), re.split(r"[ .\[]", error.what, maxsplit=1)[0]
    if role is None or not str(role.get_name()).startswith(ROLES):
        return error
    # A single word is a name only at the beginning. Elsewhere, `state` and `packages` are words of the
    # language. Quoted text is what the user gave.
    named = [name for name in names if name not in NAMED_OTHERWISE and "_" in name]
    found = re.compile(rf"(?<![\w./'])({'|'.join(sorted(named, key=len, reverse=True))})(?!\w)") if named else None
    what, why, step = (found.sub(rf"{PREFIX}\1", text) if found else text for text in (error.what, error.why, error.next))
    alone = first in names and first not in NAMED_OTHERWISE and "_" not in first
    message = Message(PREFIX + what if alone else what, error.code, error.values, why=why, next=step)
    return PlanError(message, where=error.where, line=error.line)


def imitated() -> dict[str, str]:
    """Return the places on test hosts that stand for a GPU's; {} outside of tests.

    They are no options, so an inventory cannot carry them to a real host (ARCHITECTURE.md).
    """
    try:
        given = json.loads(os.environ.get(TEST_HOSTS) or "{}")
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise AnsibleActionFail(f"the environment variable {TEST_HOSTS}, which only tests set, is no JSON table")
    unknown = sorted(set(given) - {"proc_root", "sys_root", "evidence_file", "kernel_log"})
    if unknown:
        raise AnsibleActionFail(f"the environment variable {TEST_HOSTS}, which only tests set, has unknown keys: {', '.join(unknown)}")
    return given


def said(error: AnsibleValidationError, unsupported: set[Any], known: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """Return the validator's sentence.

    For options that do not exist, the validator's own is half a sentence. Complete it with the
    option that the user may have meant.
    """
    if not isinstance(error, UnsupportedError):
        return with_choice(with_types(str(error.msg)), given)
    wrong = sorted(item if isinstance(item, str) else ".".join(item) for item in unsupported)
    named = ", ".join(f"{name}{suggestion(name, known)}" for name in wrong)
    return f"Unsupported parameters: {named}. Supported parameters: {', '.join(sorted(known))}"


WRITTEN = {"dict": "{NAME: VALUE}", "list": "[VALUE]"}


def with_types(sentence: str) -> str:
    """Return the validator's sentence with `list` in place of <class '..._AnsibleTaggedList'> or <class 'list'>.

    Append how a value of the type is written.
    """
    type_of = r"(is of type )?<class '(?:[\w.]*\.)?(?:_AnsibleTagged)?(\w+)'>"  # ansible-core 2.16 has the class in both places
    told = re.sub(type_of, lambda found: f"{found[1] or 'a '}{found[2].lower()}", sentence)
    wrong = re.match(r"argument '(\w+)' is of type \w+ .*unable to convert to (dict|list):", told)
    return f"{told}. Write it like this: {wrong[1]}: {WRITTEN[wrong[2]]}" if wrong else told


def with_choice(sentence: str, given: Mapping[str, Any]) -> str:
    """Return the validator's sentence about a value outside the choices, with the choice that the user may have meant."""
    name = next((n for n in given if sentence.startswith(f"value of {n} must be one ")), "")
    words = given[name].split(",") if name and isinstance(given[name], str) else []
    if any(word != word.strip() for word in words):  # Ansible takes the blank as part of the value
        return f"{sentence}. Write a list: {name}: [{', '.join(word.strip() for word in words)}]"
    return sentence + (options.instead(name.removeprefix(PREFIX), given[name]) if name else "")


def policy(args: Mapping[str, Any], **fixed: Any) -> Policy:
    """Make the policy from options.

    The names stay, lists become tuples, and handlers become values in the order in which they are
    written.
    """
    known = {f.name for f in dc.fields(Policy)}
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in args.items() if k in known and v is not None}
    if "handlers" in values:
        values["handlers"] = tuple(handler(name, h or {}) for name, h in values["handlers"].items()) or (Handler(),)
    return dc.replace(Policy(), **values, **fixed)


def handler(name: str, value: Mapping[str, Any]) -> Handler:
    return Handler(name, str(value.get("binary") or Handler.binary), dict(value.get("options") or {}), bool(value.get("binary")))


def failure(error: PlanError) -> dict[str, Any]:
    """Return the parts of an error as a result has them."""
    parts = {"what": error.what, "where": error.where, "line": error.line, "why": error.why, "next": error.next}
    return {"error": {"code": error.code, **parts}}
