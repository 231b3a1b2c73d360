# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where Podman looks for CDI specs and hook files: the usual directories, unless containers.conf of the host names others.

Nothing is written there. Hook files in the usual directories are the host's (resources/oci_hook.py); of those in others a person is told.

An account's own containers.conf ($XDG_CONFIG_HOME/containers) is that person's, and is not read.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterator, Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import host_paths, queries, versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.adoption import hook_files
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import toml, toml_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import NeedMore, PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import File, Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import file_places

# The key is in containers/common from 0.59 on, which is Podman 5.1; a Podman before 5.5 takes the usual directories whatever it says.
READ_SINCE = (5, 5, 0)
KEY = ("engine", "cdi_spec_dirs")
HOOKS = ("engine", "hooks_dir")  # in every release; a rootless Podman runs none
KEEP = file_places.keep("toml", {KEY: "paths", HOOKS: "paths"})
# A later one counts (pkg/config of containers/common).
FILES = ("/usr/share/containers/containers.conf", "/etc/containers/containers.conf")
DROP_INS = "/etc/containers/containers.conf.d/*.conf"


@dc.dataclass(frozen=True)
class Directories:
    """names: as the last file says it that says anything. where: that file, and the line."""

    names: tuple[str, ...]
    where: str


def questions() -> list[queries.Question]:
    return [*(queries.file(path, KEEP) for path in FILES), queries.glob(DROP_INS, KEEP)]


def configured(obs: Observation, version: str) -> Directories | None:
    """What the host's files say; None where Podman does not read that, they say nothing, or it is not known what they add up to."""
    release = versions.parse(version)
    if release is None or release.release < READ_SINCE:
        return None
    return last(obs, KEY)


def last(obs: Observation, key: tuple[str, str]) -> Directories | None:
    found = list(said(obs, key))
    return found[-1] if found and all(one.names for one in found) else None


def said(obs: Observation, key: tuple[str, str]) -> Iterator[Directories]:
    """What each file says in its turn; without names where that is not known: a list that adds to another, a file that is broken."""
    for file in [*(obs.file(path, KEEP) for path in FILES), *sorted(obs.glob(DROP_INS, KEEP), key=lambda f: f.path)]:
        if not file.exists:
            continue
        try:
            yield from of_file(file, key)
        except PlanError:
            yield Directories((), file.path)


def of_file(file: File, key: tuple[str, str]) -> Iterator[Directories]:
    doc = toml_file.read(file)
    engine = doc.data.get(key[0])
    value = engine.get(key[1]) if isinstance(engine, dict) else None
    if value is not None:
        plain = isinstance(value, list) and all(isinstance(item, str) and item.startswith("/") for item in value)
        yield Directories(tuple(value) if plain else (), f"{file.path}:{toml.line_of(doc, key)}")


def advice(obs: Observation, version: str, used: Sequence[str]) -> tuple[str, ...]:
    """used: the directories in which the host's specs are."""
    found = configured(obs, version)
    if found is None or set(used) & set(host_paths.clean_directories(found.names)):
        return ()
    why = f"Podman looks for CDI specs in {', '.join(found.names)} only ({found.where}), and this host's are in {' and '.join(used)}"
    return (f"{why}: remove {KEY[1]} there, or set gpufleet_cdi_spec_dirs to these directories",)


def hooked(obs: Observation) -> tuple[str, ...]:
    """NVIDIA's hook in a directory that only Podman's own setting names: it would inject GPUs besides the CDI spec."""
    found = last(obs, HOOKS)
    names = host_paths.opened_directories(found.names) if found else ()
    paths = [f"{name}/{hook_files.NAME}" for name in names if name not in hook_files.USUAL]
    wanted = [queries.file(path, content=False) for path in paths]
    if unasked := [question for question in wanted if not obs.asked(question)]:
        raise NeedMore(unasked)
    return tuple(
        f"Podman runs {path} as well (hooks_dir, {found.where}), and a hook in addition to CDI injects GPUs twice: remove that file"
        for path in paths
        if found and obs.exists(path)
    )
