# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Define what the modules of rooms and engines provide, so that code above can go through them.

A room is a package or a file that knows one thing of a host. Functions with these names in its
module are its part of a protocol: they take the same values and return the same kinds of values
everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)


class AskingRoom(Protocol):
    """A room that asks a host questions."""

    def list_questions(self, policy: Policy) -> list[queries.Question]:
        """List the questions that the room's facts need on a usual host."""


class Engine(AskingRoom, Protocol):
    """The functions of an engine's module `detect`.

    facts: the value that its read_facts returns, of a type of its own.
    """

    def read_facts(self, policy: Policy, obs: Observation) -> Any:
        """Return the facts of this engine."""

    def find_instances(self, policy: Policy, facts: Any) -> tuple[Instance, ...]:
        """Find the instances of this engine on the host, running or installed."""

    def plan_instance(
        self, policy: Policy, facts: Any, instance: Instance, decision: Decision
    ) -> Plan:
        """Plan the configuration of one instance. Raise PlanError if it is refused."""


class RemovableEngine(Engine, Protocol):
    """An engine that has a configuration that can be taken back."""

    def plan_absent(self, policy: Policy, facts: Any, instance: Instance) -> Plan:
        """Plan what takes this collection's part of the configuration back."""

    def find_remnant(self, policy: Policy, facts: Any) -> Instance | None:
        """Return the configuration of an engine that was not found as an engine that does not run;
        None if there is no configuration.
        """

    def get_main_file(self, policy: Policy, facts: Any) -> str:
        """Return the first file of its configuration."""

    def list_marked_files(self, policy: Policy, facts: Any) -> tuple[str, ...]:
        """List the files in the usual place that carry our mark."""

    def owns_file(self, policy: Policy, facts: Any, path: str) -> bool:
        """Tell whether a file belongs to this engine's configuration, as far as its path shows."""

    def find_default_program(self, text: str) -> tuple[str, str] | None:
        """Return the default handler that the text of a file names, and its program there; None if
        the text does not say both.
        """


class ReadingEngine(Engine, Protocol):
    """An engine that gets no configuration: it reads the CDI specs of the host, and that is all.

    Beside an engine with a configuration it is one more reader of that one's specs.
    """

    def counts_as_engine(self, policy: Policy, others: Iterable[Instance]) -> bool:
        """Tell whether it is an engine of its own on this host.

        others: the instances of engines with a configuration.
        """

    def list_spec_directories(self, facts: Any, version: str) -> tuple[str, ...]:
        """List the directories in which a release of it looks for CDI specs, as its files have it."""

    def advise_on_reading(self, policy: Policy, facts: Any) -> tuple[str, ...]:
        """Advise on how it reads specs, whichever other engines are configured on the host."""
