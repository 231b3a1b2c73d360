# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether a handler that no journal knows can be this collection's, by what its entry has
beyond what this collection writes.

Node images, NVIDIA's installer and operators write the same name and program. So the entry is
compared with the one that this collection would write for the host now. Others have put the rest of
the entry there, and rely on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    Path,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import restore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.decide import (
    list_runtime_prefixes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.earlier_runs import (
    EarlierRuns,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    base as containerd_base,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    ConfigFile,
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.cri_settings import (
    ANNOTATIONS,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.edit import (
    FIRST_LINE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_adoption,
)

# Keys that every handler of this collection has, with values that depend on the host at the time.
WRITTEN: tuple[Path, ...] = (
    ("runtime_type",),
    ("options", "BinaryName"),
    ("options", "SystemdCgroup"),
)


def find_foreign_handlers(
    policy: Policy, earlier: EarlierRuns, files: FileSet, file: ConfigFile, version: Version
) -> dict[str, str]:
    """Return the handlers of our names in this file that count as another owner's, each with the
    reason.

    Call it only for a file that the journal does not know.
    """
    if file.doc.text.startswith(FIRST_LINE):
        return {}
    if not restore.may_be_own(policy, earlier):
        return {h.name: about_adoption.JOURNAL_UNAWARE.fill() for h in policy.handlers}
    known = earlier.was_here or any(f.doc.text.startswith(FIRST_LINE) for f in files.files)
    handlers = {}
    for handler in policy.handlers:
        for table in containerd_places.TABLES:
            entry = toml.look_up_toml(
                file.doc.data, (*table, "containerd", "runtimes", handler.name)
            )
            differs = (
                _explain_foreign_entry(policy, files, handler, entry, version, known)
                if isinstance(entry, Mapping)
                else ""
            )
            if differs:
                handlers[handler.name] = differs
    return handlers


def _explain_foreign_entry(
    policy: Policy,
    files: FileSet,
    handler: Handler,
    entry: Mapping[str, Any],
    version: Version,
    known: bool,
) -> str:
    said = dict(_list_values(entry))
    copied = _list_copied_properties(files, handler, version)
    strange = [
        path
        for path, value in said.items()
        if path not in (*WRITTEN, (ANNOTATIONS,)) and copied.get(path) != value
    ]
    if strange:
        return about_adoption.WOULD_DIFFER.fill(key=toml.write_dotted_path(strange[0]))
    if known:
        return ""
    # Nothing else shows that this collection was ever here, so the entry alone has to.
    prefixes = policy.annotation_prefixes or list_runtime_prefixes(policy)
    wanted = [*WRITTEN, *copied, (ANNOTATIONS,)]
    missing = [path for path in wanted if path not in said]
    if not missing and not {f"{prefix.rstrip('/')}/*" for prefix in prefixes} <= set(
        said[(ANNOTATIONS,)]
    ):
        missing = [(ANNOTATIONS,)]
    return (
        about_adoption.WOULD_DIFFER.fill(key=toml.write_dotted_path(missing[0])) if missing else ""
    )


def _list_values(entry: Mapping[str, Any], at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value of an entry with its path. A value that means the same as a missing key is
    left out.
    """
    for key, value in entry.items():
        if isinstance(value, Mapping):
            yield from _list_values(value, (*at, key))
        elif (*at, key) in WRITTEN or value not in ("", 0, False, []):
            yield (*at, key), value


def _list_copied_properties(files: FileSet, handler: Handler, version: Version) -> dict[Path, Any]:
    """Return the properties that this collection copies from the handler that runs the pods here,
    or was asked to write.
    """
    own_options: dict[Path, Any] = {
        ("options", key): value for key, value in handler.options.items()
    }
    cri = config.build_effective_cri_table(files, version, built_in=False)
    runtimes = {
        name: entry for name, entry in cri["containerd"]["runtimes"].items() if name != handler.name
    }
    without = {**cri, "containerd": {**cri["containerd"], "runtimes": runtimes}}
    try:
        base = containerd_base.choose_containerd_base(without, handler, written=True)
    except PlanError:
        return own_options
    copied = {
        path: value
        for path, value in _list_values({**base.entry, "options": base.options})
        if path in containerd_places.HANDLER
    }
    return {
        path: value
        for path, value in {**copied, **own_options}.items()
        if path not in (*WRITTEN, (ANNOTATIONS,))
    }
