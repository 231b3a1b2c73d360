# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of NVIDIA's config.toml by which containers get no GPU in the mode that a host has. They
are named, and never edited.

They are the owner's: `no-cgroups = true` is right for rootless engines, for example. A row tells in
which modes of the runtime a key is read, when it is wrong, and what then happens
(cmd/nvidia-container-runtime-hook, api/config/v1 and internal/modifier of the toolkit;
src/nvc_ldcache.c of libnvidia-container). docs/support.md has the table.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import posixpath
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import outer_host
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    messages,
)

Key = tuple[str, ...]
LEGACY, IN_MEMORY = "legacy", "jit-cdi"
# beside a mode: an engine calls the prestart hook by itself, as Docker before 29.2 does for
# `--gpus`
BY_ENGINE = "hook"
HOOK, SPEC, EVERY = (
    frozenset((LEGACY,)),
    frozenset((LEGACY, IN_MEMORY)),
    frozenset(("auto", "cdi", "csv", LEGACY, IN_MEMORY)),
)
CLI = "nvidia-container-cli"
NO_CGROUPS: Key = (CLI, "no-cgroups")
LDCONFIG: Key = (CLI, "ldconfig")
FROM_CONTAINER: Key = ("features", "allow-ldconfig-from-container")
CAPABILITIES = frozenset(
    ("all", "compat32", "compute", "display", "graphics", "ngx", "utility", "video")
)
# The programs that packaged files name, so that an ordinary host is asked for nothing more.
USUAL = ("/sbin/ldconfig", "/sbin/ldconfig.real", "/usr/bin/nvidia-container-cli")


@dc.dataclass(frozen=True)
class SeenSettings:
    """The file's data, and whether there is anything at a path of the host."""

    data: Mapping[str, Any]
    exists: Lookup[str, bool]


@dc.dataclass(frozen=True)
class OwnerSetting:
    """A key that may be wrong.

    wrong: returns the part of its value that is wrong, or '' if it is right; condition: the same
    for any value, for the page. row: what is wrong, what that breaks, and what to do.
    """

    key: Key
    shape: str
    modes: frozenset[str]
    condition: str
    wrong: Callable[[Any, SeenSettings], str]
    row: Sentence
    nested: bool = True  # whether it is wrong on a host that is itself a container as well

    @property
    def name(self) -> str:
        return toml.write_dotted_path(self.key)


def _find_true(value: Any, _seen: SeenSettings) -> str:
    return "true" if value is True else ""


def _find_in_container(value: Any, seen: SeenSettings) -> str:
    """Judge a path without @, which is one of the container and takes a feature from 1.17.3 on
    (nvidia-container-toolkit#812).
    """
    if (
        not isinstance(value, str)
        or value.startswith("@")
        or toml.look_up_toml(seen.data, FROM_CONTAINER) is True
    ):
        return ""
    return value or "empty"


def _find_no_host_program(value: Any, seen: SeenSettings) -> str:
    """Look for both names of the program: the toolkit takes the one that ends in .real if it
    exists, else the one without.
    """
    if not isinstance(value, str) or not value.startswith("@/"):
        return ""
    plain = value[1:].removesuffix(".real")
    there = [seen.exists.get(path) for path in (plain, f"{plain}.real")]
    return "" if any(there) else plain


def _find_missing(value: Any, seen: SeenSettings) -> str:
    absolute = isinstance(value, str) and value.startswith("/")
    return value if absolute and not seen.exists.get(value) else ""


def _find_no_program(value: Any, seen: SeenSettings) -> str:
    """Judge the path of a program that the hook looks for in PATH only if the value is empty."""
    if isinstance(value, str) and value and not value.startswith("/"):
        return value
    return _find_missing(value, seen)


def _find_no_directory(value: Any, seen: SeenSettings) -> str:
    return (
        _find_missing(posixpath.dirname(value), seen)
        if isinstance(value, str) and value.startswith("/")
        else ""
    )


def _find_unknown(value: Any, _seen: SeenSettings) -> str:
    if not isinstance(value, str):
        return ""
    return ", ".join(sorted({name for name in value.split(",") if name} - CAPABILITIES))


SETTINGS: tuple[OwnerSetting, ...] = (
    OwnerSetting(
        NO_CGROUPS,
        "bool",
        HOOK | {BY_ENGINE},
        "it is true",
        _find_true,
        messages.NO_CGROUPS,
        # its device rules are those of the host outside, which the hook may not change
        nested=False,
    ),
    OwnerSetting(
        LDCONFIG,
        "pattern",
        EVERY,
        f"it does not begin with @, and {toml.write_dotted_path(FROM_CONTAINER)} is not true",
        _find_in_container,
        messages.LDCONFIG_OF_CONTAINER,
    ),
    OwnerSetting(
        LDCONFIG,
        "pattern",
        HOOK,
        "the program is not there",
        _find_no_host_program,
        messages.NO_LDCONFIG,
    ),
    OwnerSetting(
        (CLI, "path"),
        "program",
        HOOK,
        "it is not a full path, or nothing is there",
        _find_no_program,
        messages.NO_CLI,
    ),
    OwnerSetting(
        (CLI, "root"),
        "path",
        SPEC,
        "the directory is not there",
        _find_missing,
        messages.NO_DRIVER_ROOT,
    ),
    OwnerSetting(
        (CLI, "ldcache"), "path", HOOK, "the file is not there", _find_missing, messages.NO_LDCACHE
    ),
    OwnerSetting(
        ("nvidia-container-runtime-hook", "path"),
        "program",
        HOOK,
        "the program is not there",
        _find_missing,
        messages.NO_RUNTIME_HOOK,
    ),
    OwnerSetting(
        ("nvidia-ctk", "path"),
        "program",
        SPEC,
        "the program is not there",
        _find_missing,
        messages.NO_CTK,
    ),
    OwnerSetting(
        ("supported-driver-capabilities",),
        "pattern",
        HOOK,
        "it has a capability that the toolkit does not know",
        _find_unknown,
        messages.UNKNOWN_CAPABILITY,
    ),
    OwnerSetting(
        ("disable-require",), "bool", HOOK, "it is true", _find_true, messages.REQUIREMENTS_OFF
    ),
    OwnerSetting(
        (CLI, "debug"),
        "path",
        HOOK,
        "its directory is not there",
        _find_no_directory,
        messages.NO_LOG_DIRECTORY,
    ),
)


def list_possible_modes(policy: Policy) -> frozenset[str]:
    """Return the modes of NVIDIA's runtime that this policy can lead to, if they need more of the
    file than every mode.
    """
    if policy.cdi == "disabled" or policy.injection in (LEGACY, "oci-hook"):
        return HOOK
    return frozenset((policy.injection,)) & SPEC


def list_owner_places(modes: Iterable[str]) -> file_places.Places:
    """Return what is asked of the file for hosts of these modes, and what may count on any host."""
    read = {*modes, "cdi", BY_ENGINE}
    wanted = {setting.key: setting.shape for setting in SETTINGS if setting.modes & read}
    return {**wanted, FROM_CONTAINER: "bool"}


def list_owner_questions(modes: Iterable[str]) -> list[queries.Question]:
    return [queries.ask_for_file(path, content=False) for path in USUAL] if LEGACY in modes else []


@dc.dataclass(frozen=True)
class OwnerFacts:
    """A host's facts about the paths that settings name, and the kind of container that it is, ''
    for any other host.
    """

    exists: Lookup[str, bool]
    nested: Fact[str]


def read_owner_facts(policy: Policy, obs: Observation) -> OwnerFacts:
    return OwnerFacts(
        Lookup(functools.partial(_may_exist, obs)),
        Fact(lambda: outer_host.get_outer_host_kind(policy, obs)),
    )


def advise_on_owner_settings(
    facts: OwnerFacts, document: toml.TomlDocument, modes: Iterable[str]
) -> tuple[str, ...]:
    """Name each setting that is wrong for a host of these modes.

    Raise one NeedMore for all paths that the look did not ask for.
    """
    cgroups = toml.look_up_toml(document.data, NO_CGROUPS) is not True
    read, settings = frozenset(modes), SeenSettings(document.data, facts.exists)
    advice: list[Message] = []
    unanswered = []
    for setting in SETTINGS:
        value = toml.look_up_toml(document.data, setting.key)
        if value is None or file_places.is_hidden_value(value) or not setting.modes & read:
            continue
        try:
            wrong = setting.wrong(value, settings)
            advice += (
                [describe(document, setting, wrong)]
                if wrong and (setting.nested or not facts.nested.value)
                else []
            )
        except NeedMore as need:
            unanswered += need.questions
    if unanswered:
        raise NeedMore(unanswered)
    return (
        *advice,
        *(
            [outer_host.advise_on_hook_in_container(facts.nested.value)]
            if LEGACY in read and cgroups and facts.nested.value
            else []
        ),
    )


def describe(document: toml.TomlDocument, setting: OwnerSetting, wrong: str) -> Message:
    """Return the advice about a setting. wrong: the part of its value."""
    place = f"{document.path}:{toml.find_key_line(document, setting.key) or 1}"
    return setting.row.fill(
        place=place, **({"value": wrong} if "value" in setting.row.fields else {})
    )


def _may_exist(obs: Observation, path: str) -> bool:
    """Tell whether a path exists. A path that could not be looked at counts as existing, since
    advice must not refuse a plan.
    """
    answer = obs.get_answer_or_error(queries.ask_for_file(path, content=False))
    return "error" in answer or bool(answer.get("exists"))
