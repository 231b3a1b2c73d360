# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what Ansible's validator reports about options, as messages with codes.

The check of a run's variables and each task's own validation use it, so that one wrong value has
one code wherever it is found.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator, ValidationResult
from ansible.module_utils.errors import AnsibleValidationError, UnsupportedError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    OptionName,
    join_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.variables import (
    find_near,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import options

# The validator's sentences differ a little among releases of ansible-core.
CHOICE = re.compile(r"value of (\w+) must be one ")
# The name of a type, or its class: ansible-core 2.16 writes `<class 'list'>`, later ones tagged
# subclasses.
TYPE = re.compile(r"(?:<class ')?(?:[\w.]*\.)?(?:_AnsibleTagged)?(\w+)'?>?")
WRONG_TYPE = re.compile(
    r"(?:argument|[Ee]lements value for option) '?(?P<option>\w+)'?.*? is of type (?P<found>.+?)"
    r" and we were unable to convert to (?P<wanted>\w+): ?(?P<cause>.*)",
    re.DOTALL,
)
REQUIRED = re.compile(r"missing required arguments: (.+?)(?: found in .*)?")
WRITTEN_AS = {
    "dict": "{NAME: VALUE}",
    "list": "[VALUE]",
    "bool": "true",
    "int": "1",
    "float": "1.5",
}


def validate(spec: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return validated values. Raise PlanError with all that is wrong, and the code of the first."""
    result = ArgumentSpecValidator(dict(spec)).validate(dict(given))
    wrong = find_wrong(result, spec, given)
    if wrong:
        raise PlanError(join_messages(wrong))
    return dict(result.validated_parameters)


def join_messages(wrong: list[Message]) -> Message:
    """Return messages as one, with the code of the first."""
    if len(wrong) == 1:
        return wrong[0]
    return Message(join_texts("; ", wrong), wrong[0].code, wrong[0].values)


def find_wrong(
    result: ValidationResult, spec: Mapping[str, Any], given: Mapping[str, Any]
) -> list[Message]:
    """List what is wrong with options, each once."""
    wrong: dict[str, Message] = {}
    for error in result.errors:
        if isinstance(error, UnsupportedError):
            several = describe_unknown(result.unsupported_parameters, spec)
        else:
            several = [describe_error(error, spec, given)]
        wrong.update((message, message) for message in several)
    return list(wrong.values())


def describe_unknown(names: Collection[Any], spec: Mapping[str, Any]) -> list[Message]:
    """Return a message for each option that does not exist."""
    known = ", ".join(sorted(spec))
    unknown = []
    for name in sorted(item if isinstance(item, str) else ".".join(item) for item in names):
        near = find_near(name, spec)
        if near:
            unknown.append(messages.UNKNOWN_OPTION_NEAR.fill(option=name, near=near, known=known))
        else:
            unknown.append(messages.UNKNOWN_OPTION.fill(option=name, known=known))
    return unknown


def describe_error(
    error: AnsibleValidationError, spec: Mapping[str, Any], given: Mapping[str, Any]
) -> Message:
    """Return the message for one error of the validator."""
    sentence = str(error.msg)
    choice = CHOICE.match(sentence)
    if choice and choice[1] in given and choice[1] in spec:
        return describe_choice(choice[1], given[choice[1]], spec[choice[1]].get("choices") or ())
    wrong_type = WRONG_TYPE.match(sentence)
    if wrong_type:
        return describe_type(wrong_type)
    required = REQUIRED.fullmatch(sentence)
    if required:
        return messages.REQUIRED_OPTION.fill(missing=required[1])
    return messages.INVALID_OPTION.fill(sentence=sentence.rstrip("."))


def describe_choice(name: str, value: Any, choices: Collection[Any]) -> Message:
    """Return the message about a value outside the choices."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        return messages.LIST_IS_TEXT.fill(option=OptionName(name), value=value.strip())
    words = value.split(",") if isinstance(value, str) else []
    if any(word != word.strip() for word in words):
        items = ", ".join(word.strip() for word in words)
        return messages.LIST_WITH_BLANKS.fill(option=OptionName(name), value=value, items=items)
    return options.explain_choice(name, value, choices)


def describe_type(found: re.Match[str]) -> Message:
    """Return the message about a value of another type."""
    kind = TYPE.fullmatch(found["found"].strip())
    return messages.WRONG_TYPE.fill(
        option=OptionName(found["option"]),
        found=kind[1].lower() if kind else found["found"],
        wanted=found["wanted"],
        cause=found["cause"].rstrip("."),
        example=WRITTEN_AS.get(found["wanted"], "VALUE"),
    )
