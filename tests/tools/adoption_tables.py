# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/adoption.md: configurations that others have published, and what is done with
each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases as containerd_releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)
from page_table import Row, code, table

from tests.fixtures import earlier_content as earlier
from tests.fixtures import public_configurations as public


def build_image_table() -> str:
    """Return the table of node images and installers whose engine is configured."""
    served = [row for row in public.EVERY if not is_left_alone(row)]
    return table(["host", "engine, as tested", "what is done"], join_releases(served, done))


def build_left_alone_table() -> str:
    """Return the table of systems that are left alone, with the step that a person takes there."""
    left = [row for row in public.EVERY if is_left_alone(row)]
    return table(["host", "engine, as tested", "do this there"], join_releases(left, find_step))


def build_image_source_table() -> str:
    """Return the table of the handlers that each of these files has, and of its source."""
    body = join_releases(public.EVERY, handlers_of, name_source)
    return table(["host", "engine, as tested", "handlers there", "read from"], body)


def join_releases(
    rows: Iterable[public.Public], *tell: Callable[[public.Public], str]
) -> list[Row]:
    """Return a row for each host and what is told of it. Releases of the engine are joined."""
    joined: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        engine = traits.get_traits(row.engine).title
        releases = joined.setdefault((row.title, engine, *(one(row) for one in tell)), [])
        releases.extend(release for release in row.releases if release not in releases)
    return [
        (title, f"{engine} {', '.join(sorted(releases))}", *told)
        for (title, engine, *told), releases in joined.items()
    ]


def find_manager(row: public.Public) -> Manager:
    """Return the manager of a configuration on the hosts where it is found: the one that its place
    shows, or else the one of the operating system.
    """
    of_system = (m.name for m in known.MANAGERS if row.home.os_id in m.os_ids)
    return known.get_manager(row.home.manager or next(of_system, ""))


def is_left_alone(row: public.Public) -> bool:
    return find_manager(row).place is None


def find_step(row: public.Public) -> str:
    return find_manager(row).refusal.next


def name_source(row: public.Public) -> str:
    return f"{row.source} ({row.read})"


def handlers_of(row: public.Public) -> str:
    """Return the handlers of a row's file, in words, the default one first."""
    data = toml.load_toml(row.text, row.file)
    if row.engine == "crio":
        runtimes = data["crio"]["runtime"]["runtimes"]
    else:
        plugins = data["plugins"]
        cri = plugins.get("io.containerd.cri.v1.runtime") or plugins["io.containerd.grpc.v1.cri"]
        runtimes = cri["containerd"]["runtimes"]
    return "; ".join(
        handler_of(name, runtimes[name], row)
        for name in sorted(runtimes, key=lambda n: (n != row.default, n))
    )


def handler_of(name: str, entry: Mapping[str, Any], row: public.Public) -> str:
    options = entry.get("options") or {}
    words = [f"`{name}`"]
    if name == row.default:
        words.append("default")
    kind = entry.get("runtime_type", "")
    if kind not in ("", containerd_releases.RUNC_TYPE, "oci"):
        words.append(f"`{kind}`")
    program = options.get("BinaryName") or entry.get("runtime_path")
    if program and program.rsplit("/", 1)[-1] != name:
        words.append(f"runs `{program}`")
    if "SystemdCgroup" in options:
        words.append("systemd" if options["SystemdCgroup"] else "cgroupfs")
    return ", ".join(
        words
        + [
            f"`{key}`"
            for key in entry
            if entry[key] and key not in ("runtime_type", "runtime_path", "options")
        ]
    )


def done(row: public.Public) -> str:
    """Return in words what becomes of a configuration whose manager this collection serves."""
    manager = find_manager(row)
    assert manager.place
    if not manager.place.main_edited and set(row.releases) == {"1.7"}:
        # containerd 1.7 would replace all of the file by a drop-in
        assert manager.place.detection
        return f"the packages, and one restart: {manager.title} adds `nvidia` by itself"
    driver = [] if row.engine == "crio" else [f"{'systemd' if row.systemd else 'cgroupfs'} driver"]
    if not manager.place.main_edited:
        return f"a drop-in next to the generated file: `nvidia` as `runc` is, {driver[0]}; `{row.default}` stays the default"
    copied = ", ".join([*driver, *(f"`{key}`" for key in row.copied)])
    return f"`nvidia` is made as `{row.base}` is: {copied}; `{row.default}` stays the default"


def build_by_hand_table() -> str:
    """Return the table of what older Ansible content, guides and blog posts left in containerd's
    main file.
    """
    body = [
        [row.title, ", ".join(row.releases), f"{kept(row)}; {row.more}"] for row in earlier.ROWS
    ]
    return table(["what was there before", "containerd, as tested", "what is done"], body)


def build_by_hand_source_table() -> str:
    """Return the table of the handlers that they left, and of their sources."""
    body = [
        [row.title, ", ".join(row.releases), handlers_of(row), name_source(row)]
        for row in earlier.ROWS
    ]
    return table(
        ["what was there before", "containerd, as tested", "handlers there", "read from"], body
    )


def kept(row: public.Public) -> str:
    driver = "systemd" if row.systemd else "cgroupfs"
    if row.base == "nvidia":
        return f"`nvidia` keeps what it has, with the {driver} driver"
    return f"`nvidia` is made as `{row.base}` is, with the {driver} driver"


def build_docker_table() -> str:
    """Return the table of what they left in Docker's daemon.json."""
    body = [
        [row.title, f"`{json.dumps(row.data)}`", stays(row.data), f"{row.source} ({row.read})"]
        for row in earlier.DOCKERS
    ]
    return table(["what was there before", "its daemon.json", "what is done", "read from"], body)


def stays(data: Mapping[str, Any]) -> str:
    """Return in words what becomes of a daemon.json with NVIDIA's runtime, as the test of these
    rows expects it.
    """
    entry = data["runtimes"]["nvidia"]
    given = [f"`{word}`" for key in ("args", "runtimeArgs") for word in entry.get(key) or ()]
    words = [" and ".join([f"`nvidia` keeps its program `{entry['path']}`", *given])]
    if data.get("default-runtime") == "nvidia":
        words.append("it stays the default")
    others = sorted(set(data) - {"runtimes", "default-runtime"})
    return "; ".join(
        [*words, *([f"{code(others)} {'stay' if len(others) > 1 else 'stays'}"] if others else [])]
    )
