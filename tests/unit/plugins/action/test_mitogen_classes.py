# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A strategy of Mitogen runs a class of its own that inherits from an action's class: the action
keeps its name and its options.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import cdi_spec, host, host_info
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    omitted_options,
    role_variables,
)

OURS = SimpleNamespace(get_name=lambda: "gpufleet.nvidia.host")
PLAIN = SimpleNamespace(template=lambda value: value)


class MitogenPart:
    """Stands for ansible_mitogen.mixins.ActionModuleMixin, which comes first among the bases."""


def make_action(found: type[Any]) -> Any:
    """Make an action of the class that ansible_mitogen/strategy.py derives from an action."""
    adorned = type("gpufleet.nvidia.any", (MitogenPart, found), {})
    made = adorned.__new__(adorned)
    made._task = SimpleNamespace(_role=OURS, args={})
    made._templar = PLAIN
    return made


@pytest.mark.parametrize(
    ("module", "name"), [(host, "host"), (host_info, "host_info"), (cdi_spec, "cdi_spec")]
)
@pytest.mark.parametrize("adorned", [False, True])
def test_an_action_is_known_by_the_class_of_this_collection(
    module: Any, name: str, adorned: bool
) -> None:
    found = module.ActionModule
    action = make_action(found) if adorned else found.__new__(found)
    assert arguments.find_spec(action) == (name, module.SPEC)
    assert arguments.find_action_name(action) == name


def test_a_role_under_mitogen_reads_its_variables() -> None:
    action = make_action(host.ActionModule)
    assert omitted_options.are_options_in_variables(action)
    read = role_variables.read_role_options(action, host.SPEC, {"gpufleet_root": "/srv/image"})
    assert read == {"root": "/srv/image"}
