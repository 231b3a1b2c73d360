# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the owner of the template from which a manager renders containerd's configuration, and
render ours.

A template that is a copied configuration freezes that text: with the next release its settings are
old ones, and what the manager finds by itself is not in it (NVIDIA/gpu-operator issues 623 and
992). Our template begins by including the manager's own text. It adds tables below that, and
repeats none of it.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import posixpath
import re

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Lookup,
    require_together,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    Path,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.cri_settings import (
    CriSetting,
    list_setting_values,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_rendered,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Detection,
)

# A comment of the template's own language, so that the mark is not in what is rendered from it.
MARK = "{{/* Written by the Ansible collection gpufleet.nvidia; changes made by hand are overwritten. */ -}}"
BASE = '{{ template "base" . }}'
BASE_ONCE = re.compile(r'\{\{-?[ \t]*template[ \t]+"base"[ \t]+\.[ \t]*-?\}\}')
# a full template that has what the manager finds, as k3s's own text has it
FOUND = re.compile(r"\.ExtraRuntimes\b")
# This collection writes tables of handlers below its mark. Text that a person adds, such as a
# password of a registry, stays on the host.
HANDLER = r"\[[^\n\]]*\.containerd\.runtimes\.[^\n]*\]\n(?:[ \t]*[A-Za-z_]+ = [^\n]*\n)*"
OWN = rf"\A{re.escape(MARK)}\n(?:{re.escape(BASE)}\n|\n|{HANDLER})*"
KEEP: Keep = {
    "format": "text",
    "patterns": [OWN, BASE_ONCE.pattern, FOUND.pattern, r"^[ \t]*version[ \t]*=[ \t]*\d+"],
}
# The release of August 2023: those with an older containerd know no "base" (k3s documentation,
# Configuring containerd).
SINCE = (1, 7, 3)


@dc.dataclass(frozen=True)
class Template:
    """The template that counts, or the place for that of this collection. file: None if there is
    none.
    """

    path: str
    file: ObservedFile | None = None

    @property
    def text(self) -> str:
        return (self.file.content or "") if self.file else ""

    @property
    def own(self) -> bool:
        return self.text.startswith(MARK)

    @property
    def foreign(self) -> bool:
        return self.file is not None and not self.own

    @property
    def complete(self) -> bool:
        """True if what the manager finds by itself is rendered with it."""
        return not self.foreign or bool(BASE_ONCE.search(self.text) or FOUND.search(self.text))

    @property
    def copied(self) -> bool:
        """True if a person's text stands in the place of the manager's own."""
        return self.foreign and not BASE_ONCE.search(self.text)

    @property
    def first(self) -> int:
        """The line at which a copied configuration begins, 1 if none is found."""
        numbers = (
            n
            for n, line in enumerate(self.text.splitlines(), 1)
            if re.match(r"[ \t]*version[ \t]*=", line)
        )
        return next(numbers, 1)


def list_template_paths(detection: Detection, main: str, schema: int) -> list[str]:
    """Return the paths of the templates that a release reads, by the version of what it renders.

    The first that is there counts. The first of all is the one that is written.
    """
    directory, names = posixpath.dirname(main), detection.templates
    read = [
        version for version in sorted(names, reverse=True) if version <= max(schema, min(names))
    ]
    return [posixpath.join(directory, names[version]) for version in read]


def list_template_questions(detection: Detection, config: str) -> list[queries.Question]:
    return [queries.ask_for_file(path, KEEP) for path in list_every_template(detection, config)]


def list_every_template(detection: Detection, config: str) -> list[str]:
    """Return the places of templates beside a main file, of all releases."""
    directory = posixpath.dirname(config)
    return [posixpath.join(directory, name) for name in detection.templates.values()]


def read_templates(obs: Observation) -> Lookup[str, ObservedFile]:
    """Return the templates of a host, by path."""
    return Lookup(lambda path: obs.get_file(path, KEEP))


def require_templates(
    templates: Lookup[str, ObservedFile], detection: Detection, config: str
) -> None:
    """Raise NeedMore unless the place of every template was looked at, whichever release reads it."""
    require_together(
        functools.partial(templates.get, path) for path in list_every_template(detection, config)
    )


def find_counting_template(
    templates: Lookup[str, ObservedFile], detection: Detection, files: FileSet
) -> Template:
    """Return the template that counts, or the place for that of this collection. Raise PlanError if
    one cannot be read.
    """
    read = list_template_paths(detection, files.root_path, files.schema)
    for path in read:
        file = templates.get(path)
        if file.error or (file.exists and file.content is None):
            why = file.error or file.trouble
            raise PlanError(about_rendered.TEMPLATE_UNREADABLE.fill(trouble=why), where=path)
        if file.exists:
            return Template(path, file)
    return Template(read[0])


def render_containerd_template(settings: list[CriSetting], names: Path, path: str) -> str:
    """Return our template with these handlers, '' if there are none. Raise PlanError if a handler
    would be a statement of the template.
    """
    if not settings:
        return ""
    tables = toml.build_own_toml(path, "", list_setting_values(settings, names)).text
    if "{{" in tables:
        raise PlanError(about_rendered.STATEMENT_IN_HANDLER.fill(), where=path)
    return f"{MARK}\n{BASE}\n\n{tables.strip()}\n"


def replaces(template: Template, title: str, handlers: str) -> PlanError:
    """Return the error for another owner's template in place of the manager's own text: nothing
    that the manager finds is rendered.
    """
    message = about_rendered.TEMPLATE_REPLACES.fill(
        title=title, handler=handlers, path=template.path, base=BASE
    )
    return PlanError(message, where=template.path, line=template.first)


def copy_template(template: Template, title: str) -> str:
    return about_rendered.TEMPLATE_COPIED.fill(path=template.path, line=template.first, title=title)


def build_foreign_template_error(template: Template, text: str) -> PlanError:
    """Return the error for another owner's template in the place for that of this collection."""
    line = next(
        (n for n, one in enumerate(template.text.splitlines(), 1) if BASE_ONCE.search(one)),
        template.first,
    )
    tables = " ".join(text.partition(BASE)[2].split())
    return PlanError(
        about_rendered.TEMPLATE_OF_OTHERS.fill(tables=tables), where=template.path, line=line
    )
