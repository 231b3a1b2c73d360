# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Name the file that a person edits if a manager makes the one that containerd reads: edits of the
latter are lost.
"""

from __future__ import annotations

import contextlib
import dataclasses as dc
from collections.abc import Iterator

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Instance
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases,
    template,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.facts import (
    ContainerdFacts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_rendered,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
    ManagerPlace,
)


@dc.dataclass(frozen=True)
class MainFileSource:
    """The origin of a generated main file. template: a person's file, '' if the manager's own text
    is rendered.
    """

    title: str
    main: str
    template: str = ""
    made_of: str = ""  # a person's other input to it, as a person reads it

    def place(self, line: int | None) -> str:
        """Return the place to edit for a line of the main file, as a person reads it."""
        shown = f"{self.main}:{line}" if line else self.main
        if not self.template:
            return shown
        return about_rendered.PLACE_OF_TEMPLATE.fill(
            template=self.template, title=self.title, path=shown
        )

    def name_in_error(self, error: PlanError) -> PlanError:
        """Return an error about the main file's text with the file to edit, and with a step that
        lasts.
        """
        shown = f"{self.main}:{error.line}" if error.line else self.main
        if self.template:
            step = about_rendered.FIX_TEMPLATE.fill(
                step=error.next, template=self.template, title=self.title
            )
            why = about_rendered.FROM_TEMPLATE.fill(title=self.title, path=shown)
            if error.why:
                why = about_rendered.FROM_TEMPLATE_WITH_CAUSE.fill(
                    cause=error.why, title=self.title, path=shown
                )
            return PlanError(error.message, where=self.template, why=why, next=step)
        step = about_rendered.RESTART_OR_UPDATE.fill(title=self.title)
        if self.made_of:
            step = about_rendered.RESTART_OR_CORRECT.fill(title=self.title, sources=self.made_of)
        why = about_rendered.RENDERED.fill(title=self.title)
        if error.why:
            why = about_rendered.RENDERED_WITH_CAUSE.fill(cause=error.why, title=self.title)
        return PlanError(error.message, where=self.main, line=error.line, why=why, next=step)


def find_main_file_source(
    facts: ContainerdFacts, manager: Manager, main: str, version: Version
) -> MainFileSource | None:
    """Return the origin of a main file, None for one that a person or this collection edits."""
    place = manager.place
    if place is None or place.main_edited or _is_of_person(facts, place, main):
        return None
    return MainFileSource(
        manager.title, main, _find_rendered_template(facts, place, main, version), place.made_of
    )


@contextlib.contextmanager
def name_main_file_source(
    facts: ContainerdFacts, instance: Instance, version: Version
) -> Iterator[None]:
    """Make errors about the text of a generated main file name the file that it is made of."""
    try:
        yield
    except PlanError as error:
        main = instance.config_path
        source = (
            find_main_file_source(facts, known.get_manager(instance.manager), main, version)
            if error.where == main and _is_shown(facts, main)
            else None
        )
        if source is None:
            raise
        raise source.name_in_error(error) from None


def _is_shown(facts: ContainerdFacts, main: str) -> bool:
    """Tell whether a main file was read, even if its text is wrong. Access rights are corrected at
    that file itself.
    """
    file = facts.config.files.get(main)
    return not file.error and (file.content is not None or bool(file.fault))


def _is_of_person(facts: ContainerdFacts, place: ManagerPlace, main: str) -> bool:
    """Tell by its first line whether a person has taken a main file from its manager."""
    file = facts.config.files.get(main)
    first = str((file.fault or {}).get("begins") or "") + "\n"
    return bool(place.first_line) and not (file.content or first).startswith(
        f"{place.first_line}\n"
    )


def _find_rendered_template(
    facts: ContainerdFacts, place: ManagerPlace, main: str, version: Version
) -> str:
    """Return the template that this release renders, '' if there is none.

    Its file need not be readable, so its release shows which one it is.
    """
    read = (
        template.list_template_paths(
            place.detection, main, releases.get_release_facts(version).new_file
        )
        if place.detection
        else []
    )
    return next((path for path in read if facts.templates.get(path).exists), "")
