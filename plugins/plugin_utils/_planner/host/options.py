# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for options' values that an argument spec cannot express. A wrong value ends the task
before any connection is opened.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    OptionName,
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import accepted
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import wanted

CONTROL = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029]")
SOCKET_LENGTH = 107  # sun_path of unix(7), less the end
# Kubernetes looks a handler up by RuntimeClass.handler, which has to be a DNS label.
HANDLER = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# dockerd takes any key of `runtimes`; these can be written on its command line as well.
DOCKER_HANDLER = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
ENGINES_OWN = ("runc", "crun")
SERVICE = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9:_.\\@-]*\.service")
ENGINE_VERSION = re.compile(r"v?\d+\.\d+\S*")
PACKAGE_VERSION = re.compile(r"[0-9][0-9A-Za-z.+:~-]*")
ADDRESS = re.compile(r"(https?://[^\s/]+|file:///)\S*")
# One character is legal as well, but makes older CDI libraries panic.
CDI_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]")
# The part of an annotation's key before its name: a DNS subdomain (Kubernetes, "Labels and
# annotations").
PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/")
CHANNEL = re.compile(r"0|[1-9][0-9]{0,6}")
# a channel's number is the minor of its node (nvidia-container-toolkit, pkg/nvcdi/lib-imex.go)
CHANNELS = 1 << 20
MOST_GPUS = 1024  # far more than any host has: a number above is a mistake
FABRIC_KINDS = {"cdi_imex_channels": "imex-channel", "cdi_nvswitch": "nvswitch"}
SWITCHES = ("cdi", "set_as_default")
BOOLEANS = {
    "true": "enabled",
    "yes": "enabled",
    "on": "enabled",
    "false": "disabled",
    "no": "disabled",
    "off": "disabled",
}
# Options of type `path` whose paths are on the host that is managed. They never become those of the
# controller.
HOST_PATHS = frozenset(
    (
        "root",
        "config_path",
        "socket",
        "drop_in_path",
        "path",
        "cdi_spec_dirs",
        "cdi_driver_root",
        "cdi_dev_root",
        "metrics_dir",
    )
)
# On the machine that tasks of the cluster's API are delegated to; kubernetes.core expands it there.
DELEGATED_PATHS = frozenset(("kubeconfig",))
NOT_OF_CONTROLLER = HOST_PATHS | DELEGATED_PATHS
CREDENTIALS = re.compile(r"https?://[^/\s]*@")


@dc.dataclass(frozen=True)
class OptionRule:
    """A rule for a value of an option.

    fits: tells whether a value is good. row: the sentence about a value that does not fit.
    """

    fits: Callable[[Any], bool]
    row: Sentence


def _is_path(value: Any) -> bool:
    return (
        isinstance(value, str)
        and value.startswith("/")
        and not CONTROL.search(value)
        and ".." not in value.split("/")
    )


def _is_file(value: Any) -> bool:
    return _is_path(value) and not value.endswith(("/", "/."))


def _is_word(value: Any) -> bool:
    return (
        isinstance(value, str)
        and bool(value)
        and not re.search(r"\s", value)
        and not CONTROL.search(value)
    )


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


REPOSITORY = OptionRule(lambda v: v == "nvidia" or _matches(ADDRESS)(v), messages.OPTION_REPOSITORY)
PATH = OptionRule(_is_path, messages.OPTION_PATH)
FILE = OptionRule(_is_file, messages.OPTION_FILE)
CLASS = OptionRule(_matches(CDI_WORD), messages.OPTION_CLASS)
RULES: Mapping[str, OptionRule] = {
    "root": PATH,
    "proc_root": PATH,
    "sys_root": PATH,
    "cdi_driver_root": PATH,
    "cdi_dev_root": PATH,
    "config_path": FILE,
    "metrics_dir": PATH,
    "evidence_file": FILE,
    "path": FILE,
    "socket": OptionRule(
        lambda v: _is_file(v) and len(v.encode()) <= SOCKET_LENGTH, messages.OPTION_SOCKET
    ),
    "drop_in_path": FILE,
    "service": OptionRule(_matches(SERVICE), messages.OPTION_SERVICE),
    "engine_version": OptionRule(_matches(ENGINE_VERSION), messages.OPTION_ENGINE_VERSION),
    "toolkit_version": OptionRule(_matches(PACKAGE_VERSION), messages.OPTION_PACKAGE_VERSION),
    "cdi_vendor": OptionRule(_matches(CDI_WORD), messages.OPTION_VENDOR),
    "cdi_class": CLASS,
    "cdi_model_class": CLASS,
    "image": OptionRule(_is_word, messages.OPTION_IMAGE),
    # image_choice_info has a word of this name, which its choices bound
    "gpus": OptionRule(
        lambda v: not isinstance(v, int) or 0 <= v <= MOST_GPUS, messages.OPTION_GPUS
    ),
    "timeout": OptionRule(lambda v: v > 0, messages.OPTION_DURATION),
    "kubeconfig": OptionRule(
        lambda value: isinstance(value, str) and not re.search(r"\$\w|\$\{", value),
        messages.OPTION_KUBECONFIG,
    ),
    "url": REPOSITORY,
    "toolkit_repository": REPOSITORY,
}
# Ansible's type `path` would replace these on the machine that validates, which is the controller:
# a home, a variable of the environment.
EXPANDS = re.compile(r"^~|\$\w|\$\{")
LITERAL = OptionRule(
    lambda value: not (isinstance(value, str) and EXPANDS.search(value)), messages.OPTION_LITERAL
)
ITEMS: Mapping[str, OptionRule] = {
    "cdi_spec_dirs": OptionRule(
        lambda v: _is_path(v) and host_paths.clean_host_path(v) != "/", PATH.row
    ),
    "accepted_findings": OptionRule(accepted.is_acceptable, messages.OPTION_ACCEPTED_FINDING),
    "annotation_prefixes": OptionRule(_matches(PREFIX), messages.OPTION_ANNOTATION_PREFIX),
    "cdi_imex_channels": OptionRule(
        lambda v: v == "all" or (_matches(CHANNEL)(v) and int(v) < CHANNELS),
        messages.OPTION_IMEX_CHANNEL,
    ),
    "low_level_runtimes": OptionRule(_is_word, messages.OPTION_PROGRAM),
}


def check_options(options: Mapping[str, Any], *, docker: bool = False) -> None:
    """Raise PlanError for the first value that no host can accept. An option that is empty or
    missing is not set.

    docker: Docker is the only engine that the options are for.
    """
    _check_each(options)
    check_classes(options)
    if options.get("drop_in") == "never" and options.get("drop_in_path"):
        raise PlanError(messages.DROP_IN_PATH_WITH_NEVER.fill(path=options["drop_in_path"]))
    if options.get("bundle_file") and options.get("toolkit_repository") not in (None, "", "nvidia"):
        raise PlanError(messages.TWO_SOURCES.fill(repository=options["toolkit_repository"]))
    for name in ("url", "toolkit_repository"):
        check_no_credentials(name, str(options.get(name) or ""))
    wanted.check_sharing(
        options.get("sharing"),
        str(options.get("root") or "/"),
        str(options.get("cdi_driver_root") or "/"),
    )
    for name, value in (options.get("handlers") or {}).items():
        check_name(str(name), docker or _has_no_kubernetes(options.get("engines") or ()))
        check_handler(str(name), value or {})


def clean_option_paths(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked options with each path of a host in its one spelling."""
    cleaned = {
        name: _clean_value(value) if name in HOST_PATHS else value
        for name, value in options.items()
    }
    if options.get("handlers"):
        cleaned["handlers"] = {
            name: _clean_handler_binary(value) for name, value in options["handlers"].items()
        }
    return cleaned


def _clean_value(value: Any) -> Any:
    if isinstance(value, list):
        return list(host_paths.clean_directories(value))
    return host_paths.clean_host_path(value) if isinstance(value, str) else value


def _clean_handler_binary(handler: Any) -> Any:
    return (
        {**handler, "binary": host_paths.clean_host_path(handler["binary"])}
        if handler and handler.get("binary")
        else handler
    )


def check_classes(options: Mapping[str, Any]) -> None:
    """Raise PlanError if two kinds of devices would have one name, and so one file."""
    if options.get("cdi_model_class") and options["cdi_model_class"] == options.get("cdi_class"):
        one, other = OptionName("cdi_model_class"), OptionName("cdi_class")
        raise PlanError(messages.SAME_CLASS.fill(option=one, other=other))
    for option, taken in FABRIC_KINDS.items():
        for name in ("cdi_class", "cdi_model_class"):
            if options.get(option) and options.get(name) == taken:
                given, fabric = OptionName(name), OptionName(option)
                raise PlanError(
                    messages.FABRIC_CLASS.fill(option=given, value=taken, fabric=fabric)
                )


def _check_each(options: Mapping[str, Any]) -> None:
    """Raise PlanError for the first value that breaks its option's rule."""
    for name in sorted(HOST_PATHS & set(options)):
        for path in options[name] if isinstance(options[name], list) else [options[name]]:
            _check(name, path, LITERAL)
    for name, rule in RULES.items():
        if options.get(name) not in (None, ""):
            _check(name, options[name], rule)
    for name, rule in ITEMS.items():
        for item in options.get(name) or []:
            _check(name, item, rule)


def _has_no_kubernetes(engines: Iterable[str]) -> bool:
    """Tell whether none of these engines has handlers that a RuntimeClass names."""
    named = [traits.TRAITS.get(engine) for engine in engines]
    return bool(named) and all(
        engine is not None and engine.handlers and not engine.kubernetes for engine in named
    )


def explain_choice(name: str, value: Any, choices: Iterable[Any]) -> Message:
    """Return the message about a value that an option does not offer, with what to write instead."""
    plain, option = name.removeprefix("gpufleet_"), OptionName(name)
    if plain in SWITCHES and str(value).lower() in BOOLEANS:
        word = BOOLEANS[str(value).lower()]
        return messages.WRONG_SWITCH.fill(option=option, value=value, word=word)
    if plain == "drop_in" and str(value).startswith("/"):
        return messages.DROP_IN_IS_PATH.fill(option=option, value=value)
    offered = ", ".join(map(str, choices))
    return messages.WRONG_CHOICE.fill(option=option, value=value, choices=offered)


def check_no_credentials(name: str, address: str) -> None:
    if CREDENTIALS.match(address):
        raise PlanError(messages.CREDENTIALS_IN_ADDRESS.fill(option=OptionName(name)))


def check_name(name: str, docker: bool) -> None:
    """Raise PlanError for a name that cannot name a handler.

    Kubernetes requests a handler by RuntimeClass. With Docker alone, only `docker run --runtime`
    names it.
    """
    if not (DOCKER_HANDLER if docker else HANDLER).fullmatch(name):
        row = messages.DOCKER_HANDLER_NAME if docker else messages.HANDLER_NAME
        raise PlanError(row.fill(name=name))


def check_handler(name: str, value: Any) -> None:
    option = f"handlers.{name}"
    if name in ENGINES_OWN:
        raise PlanError(messages.ENGINES_OWN_HANDLER.fill(name=name))
    if not isinstance(value, Mapping):
        raise PlanError(messages.HANDLER_NOT_A_DICTIONARY.fill(option=OptionName(option)))
    unknown = sorted(str(key) for key in set(value) - {"binary", "options"})
    if unknown:
        raise PlanError(messages.HANDLER_KEY.fill(option=OptionName(option), key=unknown[0]))
    if value.get("binary"):
        _check(f"{option}.binary", value["binary"], LITERAL)
        _check(f"{option}.binary", value["binary"], FILE)
    if not isinstance(value.get("options") or {}, Mapping):
        raise PlanError(messages.HANDLER_OPTIONS.fill(option=OptionName(f"{option}.options")))


def _check(name: str, value: Any, rule: OptionRule) -> None:
    if not rule.fits(value):
        raise PlanError(rule.row.fill(option=OptionName(name), value=value))
