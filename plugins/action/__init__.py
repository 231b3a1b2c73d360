# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have Python keep the compiled form of what the actions import.

Python reads this file before any action of this collection. Ansible loads a plugin's own file as
Python does, with `__pycache__`. The modules that such a file imports from a collection it compiles
in every run (ansible/utils/collection_loader/_collection_finder.py, `get_code`). That takes half a
second for the planner. So Python's own finder for a directory finds these imports here. If nothing
can be written beside the sources, Python compiles them in every run, as Ansible does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

from ansible.utils.collection_loader import AnsibleCollectionConfig

OURS = tuple(
    __name__.rpartition(".")[0] + room
    for room in (".action.", ".doc_fragments.", ".module_utils.", ".plugin_utils.")
)


class Finder:
    """A finder before Ansible's for the names that actions import.

    All other names, and names that it does not find, are left to Ansible.
    """

    def __init__(self) -> None:
        self.folders: dict[str, FileFinder] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(OURS) or not path:
            return None
        if path[0] not in self.folders:
            self.folders[path[0]] = FileFinder(path[0], (SourceFileLoader, SOURCE_SUFFIXES))
        spec = self.folders[path[0]].find_spec(name, target)
        # without a loader: a directory that is not a package
        return spec if spec and spec.loader else None


# None if it was not installed, as in a unit test
ANSIBLES = AnsibleCollectionConfig.collection_finder
if ANSIBLES in sys.meta_path:
    sys.meta_path.insert(sys.meta_path.index(ANSIBLES), Finder())
